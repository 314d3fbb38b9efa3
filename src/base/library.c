// library.c - shared libraries that may be missing: opened by name while running, so one binary runs with and without.
//
// A library counts as found only when it has every symbol that is not optional.  An old one that lacks some is passed
// over like one that is not there, but named, so that the reader of the message knows which file to replace.

#define _GNU_SOURCE                                         // dlinfo

#include <dlfcn.h>
#include <link.h>

#include "base/base.h"

// Returns the name of the first symbol that is missing and must not be, or NULL.
static const char *fill_table(void *handle, const LibrarySymbol symbols[], int n_symbols, void *table)
{
    for (int i = 0; i < n_symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && !symbols[i].is_optional)
            return symbols[i].name;
        memcpy((char *)table + symbols[i].offset, &address, sizeof(address));
    }
    return NULL;
}

static void note_path(void *handle, const char *name, Text *path)
{
    struct link_map *map = NULL;
    bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name;
    text_clear(path);
    text_add(path, "%s", is_known ? map->l_name : name);
}

static void add_reason(Text *why, const char *name, const char *reason)
{
    size_t length = strlen(name);
    if (strncmp(reason, name, length) == 0 && reason[length] == ':')       // dlerror begins with the name as a rule
        text_add(why, "%s%s", why->length ? "\n" : "", reason);
    else
        text_add(why, "%s%s: %s", why->length ? "\n" : "", name, reason);
}

void *library_open(const char *const names[], const LibrarySymbol symbols[], int n_symbols, void *table, Text *path,
                   Text *why)
{
    for (int i = 0; names[i]; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            const char *reason = dlerror();
            add_reason(why, names[i], reason ? reason : "cannot be opened");
            continue;
        }
        const char *missing = fill_table(handle, symbols, n_symbols, table);
        if (!missing) {
            note_path(handle, names[i], path);
            return handle;
        }
        text_add(why, "%s%s: has no %s: it is too old", why->length ? "\n" : "", names[i], missing);
        dlclose(handle);
    }
    return NULL;
}
