// cache.c - files found again by a key, in a directory that only this user can write to.
//
//     3f9a...e1.so      content | magic, length of the content, xxh3-128 of it    <- the seal
//     tmp-k2x81c/       the work directory of one compile
//
// What is loaded from here runs in our process.  So the directory and each file must belong to the user and be writable
// by no one else, and a file is only used when its seal fits: a file that is cut, damaged or renamed never reaches
// dlopen. (The seal protects against accidents, the permissions against other users.) An ELF loader does not look at
// what follows the image, so a sealed library is still a library.
//
// Files are written in a work directory and renamed, so processes may share the directory without locks; two that
// compile the same text at the same time both succeed and the later file stays.  A use touches the file's time, and
// when all files together grow past the limit the least recently used go.  No failure here is ever an error for a
// query: without the cache, it compiles.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                                         // nftw
#endif

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "jit/jit_int.h"

enum { NAME_MAX_LENGTH = 64, PRUNE_EVERY = 64, WORK_DIR_AGE_S = 3600 };

struct Cache {
    const char     *directory;                              // NULL: none
    i64             bytes_max;
    pthread_mutex_t lock;                                   // for the fields below
    bool            is_checked, is_usable;
    i64             n_kept;                                 // by this process
};

Cache *cache_new(Arena *arena, const char *directory, i64 bytes_max)
{
    Cache *cache = arena_make(arena, Cache);
    cache->directory = directory && *directory ? arena_strdup(arena, directory) : NULL;
    cache->bytes_max = bytes_max;
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void cache_free(Cache *cache)
{
    pthread_mutex_destroy(&cache->lock);
}

// ---- the directory -------------------------------------------------------------------------------------------------

static bool is_private(const struct stat *info)
{
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// mkdir -p, with access for the user only.
static bool make_directories(const char *path)
{
    char part[JIT_PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof(part) - NAME_MAX_LENGTH)           // leave room for the names inside
        return errno = ENAMETOOLONG, false;
    memcpy(part, path, length + 1);
    for (char *end = part + 1; *end; end++) {
        if (*end != '/')
            continue;
        *end = '\0';
        mkdir(part, 0700);                                  // exists mostly; what matters is the last one
        *end = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

static bool check_directory(const char *path)
{
    struct stat info;
    if (!make_directories(path) || stat(path, &info) != 0) {
        const char *own = getenv("WEFT_CACHE"), *why = strerror(errno);
        // A home that cannot be written to is common; a directory that the user names is expected to work.
        if (own && strcmp(own, path) == 0)
            log_warn("no cache of compiled code: could not make directory \"%s\", which WEFT_CACHE names: %s", path,
                     why);
        else
            log_info("no cache of compiled code: could not make directory \"%s\": %s", path, why);
        return false;
    }
    if (!S_ISDIR(info.st_mode) || !is_private(&info)) {
        log_warn("no cache of compiled code: \"%s\" is not a directory that only this user can write to", path);
        return false;
    }
    return true;
}

bool cache_is_usable(Cache *cache)
{
    if (!cache->directory)
        return false;
    pthread_mutex_lock(&cache->lock);
    if (!cache->is_checked) {
        cache->is_usable = check_directory(cache->directory);
        cache->is_checked = true;
    }
    bool is_usable = cache->is_usable;
    pthread_mutex_unlock(&cache->lock);
    return is_usable;
}

// ---- names and seals -----------------------------------------------------------------------------------------------

typedef struct Seal {
    char            magic[8];
    u8              length[8];                              // little endian
    XXH128_canonical_t digest;
} Seal;

static const char seal_magic[8] = { 'W', 'E', 'F', 'T', 'J', 'I', 'T', '1' };

static void make_name(CacheKey key, const char *extension, char name[NAME_MAX_LENGTH])
{
    ASSERT(2 * sizeof(key.bytes) + 1 + strlen(extension) < NAME_MAX_LENGTH);
    for (size_t i = 0; i < sizeof(key.bytes); i++)
        snprintf(name + 2 * i, 3, "%02x", key.bytes[i]);
    snprintf(name + 2 * sizeof(key.bytes), NAME_MAX_LENGTH - 2 * sizeof(key.bytes), ".%s", extension);
}

static void make_path(const Cache *cache, CacheKey key, const char *extension, char *path)
{
    char name[NAME_MAX_LENGTH];
    ASSERT(cache->directory);
    make_name(key, extension, name);
    snprintf(path, JIT_PATH_MAX, "%s/%s", cache->directory, name);
}

// The name goes into the digest, so a file under another name does not pass.
static Seal make_seal(CacheKey key, const char *extension, const void *content, size_t length)
{
    char name[NAME_MAX_LENGTH];
    make_name(key, extension, name);
    Seal seal;
    memcpy(seal.magic, seal_magic, sizeof(seal.magic));
    for (size_t i = 0; i < sizeof(seal.length); i++)
        seal.length[i] = (u8)((u64)length >> (8 * i));
    u64 seed = XXH3_64bits(name, strlen(name));
    XXH128_canonicalFromHash(&seal.digest, XXH3_128bits_withSeed(content, length, seed));
    return seal;
}

static bool has_seal(CacheKey key, const char *extension, const Mapping *file)
{
    if (file->length <= sizeof(Seal))
        return false;
    size_t length = file->length - sizeof(Seal);
    Seal seal = make_seal(key, extension, file->bytes, length);
    return memcmp(&seal, file->bytes + length, sizeof(seal)) == 0;
}

weft_status cache_seal(CacheKey key, const char *extension, const char *path, Error *err)
{
    Mapping content;
    TRY(file_map(path, &content, err));
    if (content.length == 0)
        return fail(err, WEFT_IO_ERROR, -1, "file \"%s\" is empty", path);
    Seal seal = make_seal(key, extension, content.bytes, content.length);
    file_unmap(&content);
    File file;
    TRY(file_open_append(path, &file, err));
    weft_status status = file_write(&file, &seal, sizeof(seal), err);
    file_close(&file);
    return status;
}

// ---- looking up ----------------------------------------------------------------------------------------------------

static bool is_our_file(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && is_private(&info);
}

// Maps a sealed file; one that is there but does not pass goes away, so it is looked at only once.
static bool map_sealed(Cache *cache, CacheKey key, const char *extension, char *path, Mapping *file)
{
    if (!cache_is_usable(cache))
        return false;
    make_path(cache, key, extension, path);
    Error ignored = { 0 };
    if (!is_our_file(path) || file_map(path, file, &ignored))
        return false;
    if (has_seal(key, extension, file))
        return true;
    file_unmap(file);
    log_warn("damaged file in the cache of compiled code is removed: \"%s\"", path);
    file_remove(path, &ignored);
    return false;
}

bool cache_find(Cache *cache, CacheKey key, const char *extension, char *path)
{
    Mapping file;
    if (!map_sealed(cache, key, extension, path, &file))
        return false;
    file_unmap(&file);
    utimensat(AT_FDCWD, path, NULL, 0);                     // used now
    return true;
}

bool cache_read(Cache *cache, CacheKey key, const char *extension, Text *content)
{
    Mapping file;
    char path[JIT_PATH_MAX];
    if (!map_sealed(cache, key, extension, path, &file))
        return false;
    text_add_bytes(content, (const char *)file.bytes, file.length - sizeof(Seal));
    file_unmap(&file);
    utimensat(AT_FDCWD, path, NULL, 0);
    return true;
}

// ---- making room ---------------------------------------------------------------------------------------------------

typedef struct OldFile {
    char           *path;
    struct timespec used;
    i64             bytes;
} OldFile;

static int compare_age(const void *a, const void *b)
{
    const struct timespec *x = &((const OldFile *)a)->used, *y = &((const OldFile *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// A process that was killed leaves its work directory; one that is older than any compile can last is abandoned.
static void remove_if_abandoned(const char *path, const struct stat *info)
{
    if (S_ISDIR(info->st_mode) && is_private(info) && time(NULL) - info->st_mtime > WORK_DIR_AGE_S)
        work_dir_remove(path);
}

// Compiled code in the directory.  Other files (what is known of a compiler) are few and small, and stay.
static int list_code(const Cache *cache, Arena *arena, OldFile **files, i64 *bytes)
{
    char **names;
    int n_names, n_files = 0;
    Error ignored = { 0 };
    if (dir_list(arena, cache->directory, &names, &n_names, &ignored))
        return 0;
    for (int i = 0; i < n_names; i++) {
        struct stat info;
        char *path = arena_printf(arena, "%s/%s", cache->directory, names[i]);
        if (lstat(path, &info) != 0)
            continue;
        if (strncmp(names[i], "tmp-", 4) == 0)
            remove_if_abandoned(path, &info);
        if (!S_ISREG(info.st_mode) || !(ends_with(names[i], ".so") || ends_with(names[i], ".cubin")))
            continue;
        *LIST_PUSH(arena, *files, n_files) = (OldFile){ path, info.st_mtim, info.st_size };
        *bytes += info.st_size;
    }
    return n_files;
}

// Down to three quarters, so that the next file does not start it all over again.
static void prune(const Cache *cache)
{
    ASSERT(cache->bytes_max > 0);
    Arena *arena = arena_new(NULL, "prune");
    OldFile *files = NULL;
    i64 bytes = 0;
    int n_files = list_code(cache, arena, &files, &bytes);
    if (bytes > cache->bytes_max) {
        qsort(files, (size_t)n_files, sizeof(*files), compare_age);
        for (int i = 0; i < n_files - 1 && bytes > cache->bytes_max / 4 * 3; i++) {   // the newest was just made
            Error ignored = { 0 };
            if (file_remove(files[i].path, &ignored) == WEFT_OK)
                bytes -= files[i].bytes;
        }
    }
    arena_free(arena);
}

// Listing a directory takes longer than writing a file, so not every time.
static bool is_time_to_prune(Cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    bool is_time = cache->n_kept++ % PRUNE_EVERY == 0;
    pthread_mutex_unlock(&cache->lock);
    return is_time;
}

weft_status cache_keep(Cache *cache, CacheKey key, const char *extension, char *path, Error *err)
{
    char new_path[JIT_PATH_MAX];
    if (!cache_is_usable(cache))
        return fail(err, WEFT_IO_ERROR, -1, "there is no usable cache directory");
    make_path(cache, key, extension, new_path);
    if (chmod(path, 0600) != 0)
        return fail_errno(err, "change mode of file", path);
    // And no sync, which takes longer than a compile: what a crash leaves in part has no seal.
    if (rename(path, new_path) != 0)
        return fail_errno(err, "rename file", path);
    memcpy(path, new_path, sizeof(new_path));
    if (is_time_to_prune(cache))
        prune(cache);
    return WEFT_OK;
}

// ---- work directories ----------------------------------------------------------------------------------------------

static bool make_work_dir(const char *parent, const char *prefix, char *path)
{
    int length = snprintf(path, JIT_PATH_MAX, "%s/%sXXXXXX", parent, prefix);
    return length > 0 && length < JIT_PATH_MAX - NAME_MAX_LENGTH && mkdtemp(path);
}

weft_status work_dir_new(Cache *cache, char *path, Error *err)
{
    if (cache_is_usable(cache) && make_work_dir(cache->directory, "tmp-", path))
        return WEFT_OK;
    const char *parent = getenv("TMPDIR");
    parent = parent && *parent ? parent : "/tmp";
    return make_work_dir(parent, "weft-", path) ? WEFT_OK : fail_errno(err, "make a directory in", parent);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

// Not through the file layer: a test's fault must not leave files behind.
void work_dir_remove(const char *path)
{
    if (nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
        log_info("could not remove directory \"%s\": %s", path, strerror(errno));
}
