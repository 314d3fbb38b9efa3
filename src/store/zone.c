// zone.c - time zones: the system's zone data, read once for each zone that is asked for.
//
// A zone has a number, which fits a type: 0 is UTC.  Its file (TZif, RFC 8536) lists the moments at which the offset
// from UTC changes, and a rule for those after the last.  Zones stay until the process ends.  Any thread may call.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "store/store_int.h"

typedef struct RuleDay {               // when, in a year, an offset begins
    char kind;                         // M: day D of week W of month M; J: day N without 29 February, from 1; 0: from 0
    int  month, week, day;
    i32  seconds;                      // local time of day
} RuleDay;

typedef struct Rule {
    i32     offset, summer_offset;
    bool    has_summer;
    RuleDay summer, winter;            // begin
} Rule;

typedef struct Zone {
    char   *name;
    bool    is_abbreviation;           // CET is a zone, too, which has summer time
    int     n_changes;
    i64    *changes;                   // in seconds of UTC, ascending
    i32    *offsets;                   // from changes[i] on
    i32     first_offset;              // before the first
    bool    has_rule;
    Rule    rule;
} Zone;

enum { ZONES_MOST = 250, FILE_MOST = 1 << 20 };

static pthread_mutex_t zones_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(Zone *) zones[ZONES_MOST];                   // by number - 1; set once
static int             n_zones;                             // guarded by the lock

// ---- rules ----------------------------------------------------------------------------------------------------------

static bool take_number(const char **p, int *number)
{
    if (**p < '0' || **p > '9')
        return false;
    for (*number = 0; **p >= '0' && **p <= '9' && *number < 100000; ++*p)
        *number = *number * 10 + (**p - '0');
    return true;
}

// [+-]h[:m[:s]], in seconds.
static bool take_clock(const char **p, i32 *seconds)
{
    int hours, minutes = 0, rest = 0, sign = **p == '-' ? -1 : 1;
    if (**p == '-' || **p == '+')
        ++*p;
    if (!take_number(p, &hours))
        return false;
    if (**p == ':' && (++*p, !take_number(p, &minutes)))
        return false;
    if (**p == ':' && (++*p, !take_number(p, &rest)))
        return false;
    if (hours >= 168 || minutes >= 60 || rest >= 60)
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60 + rest);
    return true;
}

static bool skip_name(const char **p)
{
    if (**p == '<') {
        while (**p && **p != '>')
            ++*p;
        return *(*p)++ == '>';
    }
    while (**p && !strchr("0123456789,+-", **p))
        ++*p;
    return true;
}

static bool take_day(const char **p, RuleDay *day)
{
    *day = (RuleDay){ .seconds = 7200 };
    if (**p == 'M') {
        day->kind = *(*p)++;
        if (!take_number(p, &day->month) || *(*p)++ != '.' || !take_number(p, &day->week) || *(*p)++ != '.' ||
            !take_number(p, &day->day))
            return false;
        if (day->month < 1 || day->month > 12 || day->week < 1 || day->week > 5 || day->day > 6)
            return false;
    } else {
        if (**p == 'J')
            day->kind = *(*p)++;
        const int first = day->kind == 'J', last = 365;
        if (!take_number(p, &day->day) || day->day < first || day->day > last)
            return false;
    }
    return **p != '/' || (++*p, take_clock(p, &day->seconds));
}

// CET-1CEST,M3.5.0,M10.5.0/3; west is positive there.
static bool parse_rule(const char *p, Rule *rule)
{
    *rule = (Rule){ 0 };
    if (!skip_name(&p) || !take_clock(&p, &rule->offset))
        return false;
    rule->offset = -rule->offset;
    rule->summer_offset = rule->offset + 3600;
    if (!*p)
        return true;
    rule->has_summer = true;
    if (!skip_name(&p))
        return false;
    if (*p && *p != ',') {
        if (!take_clock(&p, &rule->summer_offset))
            return false;
        rule->summer_offset = -rule->summer_offset;
    }
    if (!*p)
        p = ",M3.2.0,M11.1.0";                              // FOO5BAR goes by the rules of the USA
    return *p++ == ',' && take_day(&p, &rule->summer) && *p++ == ',' && take_day(&p, &rule->winter) && !*p;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static i64 day_of_rule(const RuleDay *day, int year)
{
    i64 first = date_from_civil(year, 1, 1);
    if (day->kind == 'J')
        return first + day->day - 1 + (day->day >= 60 && is_leap(year));
    if (day->kind != 'M')
        return first + day->day;
    i64 month = date_from_civil(year, day->month, 1);
    i64 next = day->month == 12 ? date_from_civil(year + 1, 1, 1) : date_from_civil(year, day->month + 1, 1);
    i64 weekday = ((month + 4) % 7 + 7) % 7;
    i64 found = month + (day->day - weekday + 7) % 7 + 7 * (day->week - 1);
    return found >= next ? found - 7 : found;
}

static i32 offset_by_rule(const Rule *rule, i64 seconds)
{
    int year, month, day;
    if (!rule->has_summer)
        return rule->offset;
    i64 local = seconds + rule->offset;
    date_to_civil((i32)(local / 86400 - (local % 86400 < 0)), &year, &month, &day);
    i64 summer = day_of_rule(&rule->summer, year) * 86400 + rule->summer.seconds - rule->offset;
    i64 winter = day_of_rule(&rule->winter, year) * 86400 + rule->winter.seconds - rule->summer_offset;
    bool is_summer = summer < winter ? seconds >= summer && seconds < winter : seconds >= summer || seconds < winter;
    return is_summer ? rule->summer_offset : rule->offset;
}

// ---- files ----------------------------------------------------------------------------------------------------------

static i64 big_endian(const u8 *bytes, int n)
{
    u64 number = n == 4 && bytes[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < n; i++)
        number = number << 8 | bytes[i];
    return (i64)number;
}

typedef struct Header { i64 n_utc, n_std, n_leap, n_times, n_types, n_chars; } Header;

static bool read_header(const u8 *bytes, size_t length, size_t at, Header *header)
{
    if (length < at + 44 || memcmp(bytes + at, "TZif", 4) != 0)
        return false;
    const u8 *counts = bytes + at + 20;
    *header = (Header){ big_endian(counts, 4),      big_endian(counts + 4, 4),  big_endian(counts + 8, 4),
                        big_endian(counts + 12, 4), big_endian(counts + 16, 4), big_endian(counts + 20, 4) };
    return header->n_types > 0 && header->n_types <= 256 && header->n_times >= 0 && header->n_times < FILE_MOST &&
           header->n_utc >= 0 && header->n_std >= 0 && header->n_leap >= 0 && header->n_leap < FILE_MOST &&
           header->n_chars >= 0 && header->n_chars < FILE_MOST && header->n_utc <= 256 && header->n_std <= 256;
}

static size_t block_bytes(const Header *header, int width)
{
    return (size_t)(header->n_times * (width + 1) + header->n_types * 6 + header->n_chars +
                    header->n_leap * (width + 4) + header->n_std + header->n_utc);
}

static bool read_block(const u8 *block, const Header *header, int width, Zone *zone)
{
    const u8 *kinds = block + header->n_times * width, *types = kinds + header->n_times;
    zone->n_changes = (int)header->n_times;
    zone->changes = calloc((size_t)header->n_times + 1, sizeof *zone->changes);
    zone->offsets = calloc((size_t)header->n_times + 1, sizeof *zone->offsets);
    if (!zone->changes || !zone->offsets)
        return false;
    zone->first_offset = (i32)big_endian(types, 4);
    for (int i = 0; i < zone->n_changes; i++) {
        if (kinds[i] >= header->n_types)
            return false;
        zone->changes[i] = big_endian(block + (size_t)i * (size_t)width, width);
        zone->offsets[i] = (i32)big_endian(types + 6 * kinds[i], 4);
    }
    return true;
}

static bool read_rule(const u8 *footer, size_t length, Zone *zone)
{
    char text[128];
    const u8 *end = length > 1 && footer[0] == '\n' ? memchr(footer + 1, '\n', length - 1) : NULL;
    if (!end || (size_t)(end - footer - 1) >= sizeof(text))
        return false;
    memcpy(text, footer + 1, (size_t)(end - footer - 1));
    text[end - footer - 1] = '\0';
    return parse_rule(text, &zone->rule);
}

static bool read_zone(const u8 *bytes, size_t length, Zone *zone)
{
    Header header;
    size_t at = 44;
    int width = 4;
    if (!read_header(bytes, length, 0, &header))
        return false;
    if (bytes[4] >= '2') {                                  // the same again, with 64 bits
        size_t second = 44 + block_bytes(&header, 4);
        if (!read_header(bytes, length, second, &header))
            return false;
        at = second + 44, width = 8;
    }
    size_t n = block_bytes(&header, width);
    if (length < at + n || !read_block(bytes + at, &header, width, zone))
        return false;
    if (width == 8)
        zone->has_rule = read_rule(bytes + at + n, length - at - n, zone);
    return true;
}

// Names of zones have letters, digits and a few signs: no way out of the folder.
static bool is_zone_name(const char *name, size_t length)
{
    if (length == 0 || length > 60 || name[0] == '/' || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '/' && c != '_' && c != '-' && c != '+')
            return false;
    }
    return true;
}

static void zone_free(Zone *zone)
{
    if (!zone)
        return;
    free(zone->name);
    free(zone->changes);
    free(zone->offsets);
    free(zone);
}

static Zone *zone_load(const char *name, size_t length)
{
    char path[512];
    FILE *file = is_zone_name(name, length) && zone_file(name, length, path, sizeof(path)) ? fopen(path, "rb") : NULL;
    u8 *bytes = file ? malloc(FILE_MOST) : NULL;
    size_t n = bytes ? fread(bytes, 1, FILE_MOST, file) : 0;
    Zone *zone = n ? calloc(1, sizeof *zone) : NULL;
    bool is_good = zone && (zone->name = strdup(path + strlen(ZONE_FOLDER) + 1)) && read_zone(bytes, n, zone);
    if (file)
        fclose(file);
    free(bytes);
    if (is_good)
        return zone;
    zone_free(zone);
    return NULL;
}

// ---- zones ----------------------------------------------------------------------------------------------------------

static Zone *zone_fixed(const char *name, i32 seconds)
{
    Zone *zone = calloc(1, sizeof *zone);
    if (!zone || !(zone->name = strdup(name))) {
        zone_free(zone);
        return NULL;
    }
    zone->first_offset = seconds;
    return zone;
}

static Zone *zone_of_abbreviation(const char *name, size_t length, i32 seconds)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)length, name);
    Zone *zone = zone_fixed(text, seconds);
    if (zone)
        zone->is_abbreviation = true;
    return zone;
}

// UTC+3, which is to the west, and all that a rule can say.
static Zone *zone_of_rule(const char *name, size_t length)
{
    char text[64];
    Rule rule;
    if (length == 0 || length >= sizeof(text) || memchr(name, ' ', length))
        return NULL;
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    text[length] = '\0';
    Zone *zone = parse_rule(text, &rule) ? zone_fixed(text, 0) : NULL;
    if (zone)
        zone->has_rule = true, zone->rule = rule;
    return zone;
}

static bool is_word(const char *name, size_t length, const char *word)
{
    return length == strlen(word) && strncasecmp(name, word, length) == 0;
}

static bool is_utc(const char *name, size_t length)
{
    return is_word(name, length, "utc") || is_word(name, length, "gmt") || is_word(name, length, "etc/utc");
}

// Under the lock.  ZONE is new; one of its name may be there, under which it was looked up in another case.
static u8 add_zone(Zone *zone)
{
    for (int i = 0; i < n_zones; i++) {
        const Zone *other = atomic_load(&zones[i]);
        if (other->is_abbreviation != zone->is_abbreviation || strcmp(other->name, zone->name) != 0)
            continue;
        zone_free(zone);
        return (u8)(i + 1);
    }
    atomic_store(&zones[n_zones], zone);
    return (u8)++n_zones;
}

// SECONDS: of the abbreviation that NAME is; NULL: it is a file's name or a rule.
static bool find(const char *name, size_t length, const i32 *seconds, u8 *number)
{
    pthread_mutex_lock(&zones_lock);
    for (int i = 0; i < n_zones && !*number; i++) {
        const Zone *zone = atomic_load(&zones[i]);
        if (zone->is_abbreviation == (seconds != NULL) && is_word(name, length, zone->name))
            *number = (u8)(i + 1);
    }
    Zone *zone = NULL;
    if (!*number && n_zones < ZONES_MOST) {
        zone = seconds ? zone_of_abbreviation(name, length, *seconds) : zone_load(name, length);
        if (!zone && !seconds)
            zone = zone_of_rule(name, length);
    }
    if (zone)
        *number = add_zone(zone);
    pthread_mutex_unlock(&zones_lock);
    return *number != 0;
}

bool zone_find(const char *name, size_t length, u8 *number)
{
    i32 seconds;
    *number = 0;
    if (!zone_abbreviation(name, length, &seconds))
        return zone_find_named(name, length, number);
    return seconds == 0 || find(name, length, &seconds, number);
}

bool zone_find_named(const char *name, size_t length, u8 *number)
{
    *number = 0;
    return is_utc(name, length) || find(name, length, NULL, number);
}

bool zone_find_setting(const char *name, u8 *number)
{
    char        text[64], *end;
    const double hours = strtod(name, &end);
    *number = 0;
    if (end == name || *end || !(hours > -168 && hours < 168))
        return zone_find_named(name, strlen(name), number);
    const i32 seconds = (i32)(hours * 3600), size = abs(seconds);
    char clock[16];
    snprintf(clock, sizeof(clock), size % 60 ? "%02d:%02d:%02d" : size % 3600 ? "%02d:%02d" : "%02d", size / 3600,
             size / 60 % 60, size % 60);
    snprintf(text, sizeof(text), "<%c%s>%c%s", seconds < 0 ? '-' : '+', clock, seconds < 0 ? '+' : '-', clock);
    return zone_find_named(text, strlen(text), number);
}

bool zone_has_room(Error *err)
{
    pthread_mutex_lock(&zones_lock);
    const bool has_room = n_zones < ZONES_MOST;
    pthread_mutex_unlock(&zones_lock);
    if (!has_room)
        error_hint(err, "A process knows %d zones at most, and this one has met as many.", ZONES_MOST);
    return has_room;
}

const char *zone_name(u8 number)
{
    return number ? atomic_load(&zones[number - 1])->name : "UTC";
}

i32 zone_offset(u8 number, i64 seconds)
{
    if (!number)
        return 0;
    const Zone *zone = atomic_load(&zones[number - 1]);
    int low = 0, high = zone->n_changes;                    // changes[low - 1] <= seconds < changes[high]
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (zone->changes[middle] <= seconds)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->n_changes && zone->has_rule)
        return offset_by_rule(&zone->rule, seconds);
    return low ? zone->offsets[low - 1] : zone->first_offset;
}

// As PostgreSQL: where clocks go forward and skip it, by the offset before; where they go back, by the one after.
i32 zone_offset_of_local(u8 number, i64 local_seconds)
{
    i32 before = zone_offset(number, local_seconds - 86400), after = zone_offset(number, local_seconds + 86400);
    if (before == after)
        return before;
    bool is_after = zone_offset(number, local_seconds - after) == after;
    return is_after ? after : before;
}

static i64 floor_seconds(i64 micros)
{
    return micros / 1000000 - (micros % 1000000 < 0);
}

i64 zone_to_local(u8 number, i64 micros)
{
    return number ? micros + (i64)zone_offset(number, floor_seconds(micros)) * 1000000 : micros;
}

i64 zone_from_local(u8 number, i64 micros)
{
    return number ? micros - (i64)zone_offset_of_local(number, floor_seconds(micros)) * 1000000 : micros;
}
