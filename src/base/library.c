// library.c - shared libraries that may be missing: opened by name while running, so one binary runs with and without.
//
// A library counts as found only when it has every symbol that is not optional.  An old one that lacks some is passed
// over like one that is not there, but named, so that the reader of the message knows which file to replace.  One that
// a variable of the environment names is the only one that is tried, and what is wrong is the variable's fault.

#define _GNU_SOURCE                                         // dlinfo

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

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

// NULL where it cannot be opened, then dlerror says why, or where it has no MISSING.
static void *open_one(const char *name, const LibrarySymbol symbols[], int n_symbols, void *table, Text *path,
                      const char **missing)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    *missing = handle ? fill_table(handle, symbols, n_symbols, table) : NULL;
    if (handle && !*missing)
        note_path(handle, name, path);
    if (!*missing)
        return handle;
    dlclose(handle);
    return NULL;
}

void *library_open(const char *const names[], const LibrarySymbol symbols[], int n_symbols, void *table, Text *path,
                   Text *why)
{
    for (int i = 0; names[i]; i++) {
        const char *missing;
        void *handle = open_one(names[i], symbols, n_symbols, table, path, &missing);
        if (handle)
            return handle;
        const char *reason = missing ? NULL : dlerror();
        if (missing)
            text_add(why, "%s%s: has no %s: it is too old", why->length ? "\n" : "", names[i], missing);
        else
            add_reason(why, names[i], reason ? reason : "cannot be opened");
    }
    return NULL;
}

// ---- named by the environment ---------------------------------------------------------------------------------------

const char *library_named(const char *variable)
{
    const char *name = getenv(variable);
    return name && *name ? name : NULL;
}

// dlerror's words, without what our sentence says already.
static const char *reason_alone(const char *reason, const char *name)
{
    static const char cannot_open[] = "cannot open shared object file: ";
    size_t length = strlen(name);
    if (strncmp(reason, name, length) == 0 && strncmp(reason + length, ": ", 2) == 0)
        reason += length + 2;
    return strncmp(reason, cannot_open, strlen(cannot_open)) == 0 ? reason + strlen(cannot_open) : reason;
}

void *library_open_named(const char *variable, const char *kind, const LibrarySymbol symbols[], int n_symbols,
                         void *table, Text *path, Error *problem)
{
    const char *name = library_named(variable), *missing;
    ASSERT(name && n_symbols > 0);
    void *handle = open_one(name, symbols, n_symbols, table, path, &missing);
    const char *reason = handle || missing ? NULL : dlerror();
    if (handle)
        return handle;
    if (!missing)
        fail(problem, WEFT_NO_DEVICE, -1, "%s names \"%s\", which cannot be opened: %s", variable, name,
             reason ? reason_alone(reason, name) : "no reason given");
    else if (missing == symbols[0].name)
        fail(problem, WEFT_NO_DEVICE, -1, "%s names \"%s\", which is not %s: it has no %s", variable, name, kind,
             missing);
    else
        fail(problem, WEFT_NO_DEVICE, -1, "%s names \"%s\", which is too old: it has no %s", variable, name, missing);
    return NULL;
}
