// zone_names.c - names of time zones: abbreviations of a fixed offset, and files by names in any case.
//
// Abbreviations are those of PostgreSQL's default set that people write; where one has several meanings (IST, BST),
// they mean what they mean there.  CET and the like are also files, which have summer time: AT TIME ZONE and literals
// look here first, SET timezone does not.

#include <dirent.h>
#include <stdio.h>
#include <strings.h>

#include "store/store_int.h"

// Minutes to the east of UTC.
static const struct { const char *name; int minutes; } abbreviations[] = {
    { "utc", 0 },      { "gmt", 0 },      { "z", 0 },        { "zulu", 0 },     { "ut", 0 },       { "uct", 0 },
    { "wet", 0 },      { "west", 60 },    { "wetdst", 60 },  { "bst", 60 },     { "cet", 60 },     { "cest", 120 },
    { "cetdst", 120 }, { "met", 60 },     { "mest", 120 },   { "metdst", 120 }, { "mez", 60 },     { "mesz", 120 },
    { "eet", 120 },    { "eest", 180 },   { "eetdst", 180 }, { "fet", 180 },    { "msk", 180 },    { "msd", 240 },
    { "ist", 120 },    { "idt", 180 },    { "wat", 60 },     { "sast", 120 },   { "eat", 180 },    { "azot", -60 },
    { "nst", -210 },   { "ndt", -150 },   { "ast", -240 },   { "adt", -180 },   { "est", -300 },   { "edt", -240 },
    { "cst", -360 },   { "cdt", -300 },   { "mst", -420 },   { "mdt", -360 },   { "pst", -480 },   { "pdt", -420 },
    { "akst", -540 },  { "akdt", -480 },  { "hst", -600 },   { "art", -180 },   { "brt", -180 },   { "brst", -120 },
    { "bot", -240 },   { "cot", -300 },   { "pet", -300 },   { "uyt", -180 },   { "gft", -180 },   { "amt", -240 },
    { "get", 240 },    { "azt", 240 },    { "irt", 210 },    { "aft", 270 },    { "pkt", 300 },    { "pkst", 360 },
    { "uzt", 300 },    { "mvt", 300 },    { "yekt", 300 },   { "npt", 345 },    { "bdt", 360 },    { "btt", 360 },
    { "mmt", 390 },    { "ict", 420 },    { "krat", 420 },   { "hkt", 480 },    { "sgt", 480 },    { "myt", 480 },
    { "pht", 480 },    { "bnt", 480 },    { "cct", 480 },    { "irkt", 480 },   { "ulat", 480 },   { "awst", 480 },
    { "jst", 540 },    { "kst", 540 },    { "yakt", 540 },   { "acst", 570 },   { "acdt", 630 },   { "aest", 600 },
    { "aedt", 660 },   { "pgt", 600 },    { "vlat", 600 },   { "lhst", 630 },   { "lhdt", 660 },   { "magt", 660 },
    { "nzst", 720 },   { "nzdt", 780 },   { "nzt", 720 },    { "fjt", 720 },    { "chast", 765 },  { "chadt", 825 },
    { "tot", 780 },    { "lint", 840 },   { "nut", -660 },   { "taht", -600 },  { "mart", -570 },  { "gamt", -540 },
};

bool zone_abbreviation(const char *name, size_t length, i32 *seconds)
{
    for (int i = 0; i < COUNT_OF(abbreviations); i++) {
        const char *one = abbreviations[i].name;
        if (strlen(one) != length || strncasecmp(one, name, length) != 0) continue;
        *seconds = abbreviations[i].minutes * 60;
        return true;
    }
    return false;
}

// The entry of the folder PATH that is called NAME in some case, appended to PATH.
static bool append_entry(char *path, size_t most, const char *name, size_t length)
{
    const size_t   at = strlen(path);
    bool           is_found = false;
    DIR           *folder = opendir(path);
    struct dirent *entry;
    while (folder && !is_found && (entry = readdir(folder))) {
        is_found = strlen(entry->d_name) == length && strncasecmp(entry->d_name, name, length) == 0;
        if (is_found) snprintf(path + at, most - at, "/%s", entry->d_name);
    }
    if (folder) closedir(folder);
    return is_found;
}

bool zone_file(const char *name, size_t length, char *path, size_t most)
{
    const char *const end = name + length;
    snprintf(path, most, "%s", ZONE_FOLDER);
    for (const char *part = name; part < end;) {
        const char  *slash = memchr(part, '/', (size_t)(end - part));
        const size_t bytes = (size_t)((slash ? slash : end) - part);
        if (!append_entry(path, most, part, bytes)) return false;
        part += bytes + (slash != NULL);
    }
    return true;
}
