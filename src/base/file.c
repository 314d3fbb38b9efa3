// file.c - files and directories, each call with a status and a message that names the file.
//
// Writes and reads go on after a signal and after a short count, so callers see all or an error.  Every call that can
// fail asks fault_now(FAULT_FILE) first; a fault looks like a device error (EIO).  Descriptors close on exec: the jit
// starts compilers, and those have no business with our files.

#define _GNU_SOURCE                                         // O_TMPFILE, mkostemp

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_int.h"

static bool faulted(void)
{
    if (!fault_now(FAULT_FILE))
        return false;
    errno = EIO;
    return true;
}

// ---- open and close -------------------------------------------------------------------------------------------------

static weft_status open_file(const char *path, int flags, File *file, Error *err)
{
    file->fd = -1;
    size_t length = strlen(path);
    if (length >= sizeof(file->path)) {
        errno = ENAMETOOLONG;
        return fail_errno(err, "open file", path);
    }
    memcpy(file->path, path, length + 1);
    if (faulted())
        return fail_errno(err, "open file", path);
    do
        file->fd = open(path, flags | O_CLOEXEC, 0666);
    while (file->fd < 0 && errno == EINTR);
    return file->fd < 0 ? fail_errno(err, "open file", path) : WEFT_OK;
}

weft_status file_create(const char *path, File *file, Error *err)
{
    return open_file(path, O_RDWR | O_CREAT | O_TRUNC, file, err);
}

weft_status file_open_over(const char *path, File *file, Error *err)
{
    return open_file(path, O_RDWR | O_CREAT, file, err);
}

weft_status file_open_read(const char *path, File *file, Error *err)
{
    return open_file(path, O_RDONLY | O_NONBLOCK, file, err);  // opening a pipe without a writer must not block
}

weft_status file_open_append(const char *path, File *file, Error *err)
{
    return open_file(path, O_RDWR | O_CREAT | O_APPEND, file, err);
}

// Where the file system has no files without a name, one gets a name for a moment.
static int open_named_for_a_moment(const char *directory)
{
    char path[4096 + 32];
    snprintf(path, sizeof(path), "%s/weft-temporary-XXXXXX", directory);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

weft_status file_open_temporary(const char *directory, File *file, Error *err)
{
    file->fd = -1;
    snprintf(file->path, sizeof(file->path), "%s", directory);
    if (!faulted())
        file->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    else
        return fail_errno(err, "make a temporary file in", directory);
    if (file->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        file->fd = open_named_for_a_moment(directory);
    if (file->fd >= 0)
        return WEFT_OK;
    weft_status status = fail_errno(err, "make a temporary file in", directory);
    error_hint(err, "SET temp_directory names the directory of temporary files.");
    return status;
}

weft_status file_reserve(File *file, u64 length, Error *err)
{
    int reason;
    ASSERT(file->fd >= 0);
    do
        reason = fault_now(FAULT_SPACE) ? ENOSPC : faulted() ? EIO : posix_fallocate(file->fd, 0, (off_t)length);
    while (reason == EINTR);
    errno = reason;
    return reason ? fail_errno(err, "write a temporary file in", file->path) : WEFT_OK;
}

weft_status file_map_to_write(File *file, size_t length, void **memory, Error *err)
{
    void *mapped = faulted() ? MAP_FAILED : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    *memory = mapped == MAP_FAILED ? NULL : mapped;
    return *memory ? WEFT_OK : fail_errno(err, "map a temporary file in", file->path);
}

void file_close(File *file)
{
    if (file->fd >= 0)
        close(file->fd);                                    // Linux closes it even when interrupted: never again
    file->fd = -1;
}

static weft_status lock_file(const char *path, int flags, int kind, File *file, Error *err)
{
    TRY(open_file(path, flags, file, err));
    int failed = -1;
    if (!faulted()) {
        do
            failed = flock(file->fd, kind | LOCK_NB);
        while (failed && errno == EINTR);
    }
    if (!failed)
        return WEFT_OK;
    weft_status status = errno == EWOULDBLOCK
                             ? fail(err, WEFT_OBJECT_IN_USE, -1, "\"%s\" is in use by another process", path)
                             : fail_errno(err, "lock file", path);
    file_close(file);
    return status;
}

weft_status file_lock(const char *path, File *file, Error *err)
{
    return lock_file(path, O_RDWR | O_CREAT, LOCK_EX, file, err);
}

weft_status file_lock_shared(const char *path, File *file, Error *err)
{
    return lock_file(path, O_RDONLY, LOCK_SH, file, err);
}

// ---- read and write -------------------------------------------------------------------------------------------------

// OFFSET -1 writes where the file stands.
static weft_status write_fully(File *file, const void *bytes, size_t length, off_t offset, Error *err)
{
    const char *from = bytes;
    ASSERT(file->fd >= 0);
    if (faulted())
        return fail_errno(err, "write file", file->path);
    while (length > 0) {
        size_t piece = MIN_OF(length, (size_t)SSIZE_MAX);
        ssize_t written = offset < 0 ? write(file->fd, from, piece) : pwrite(file->fd, from, piece, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0)
            errno = ENOSPC;                                 // no progress and no reason: do not loop forever
        if (written <= 0)
            return fail_errno(err, "write file", file->path);
        from += written;
        length -= (size_t)written;
        if (offset >= 0)
            offset += written;
    }
    return WEFT_OK;
}

weft_status file_write(File *file, const void *bytes, size_t length, Error *err)
{
    return write_fully(file, bytes, length, -1, err);
}

weft_status file_write_at(File *file, const void *bytes, size_t length, u64 offset, Error *err)
{
    if (offset > INT64_MAX) {
        errno = EFBIG;
        return fail_errno(err, "write file", file->path);
    }
    return write_fully(file, bytes, length, (off_t)offset, err);
}

weft_status file_read_at(File *file, void *bytes, size_t length, u64 offset, size_t *got, Error *err)
{
    char *to = bytes;
    ASSERT(file->fd >= 0);
    *got = 0;
    if (faulted())
        return fail_errno(err, "read file", file->path);
    while (*got < length && offset <= INT64_MAX) {
        ssize_t n = pread(file->fd, to + *got, MIN_OF(length - *got, (size_t)SSIZE_MAX), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, "read file", file->path);
        if (n == 0)
            break;
        *got += (size_t)n;
        offset += (u64)n;
    }
    return WEFT_OK;
}

weft_status file_truncate(File *file, u64 length, Error *err)
{
    int failed = -1;
    ASSERT(file->fd >= 0);
    errno = EFBIG;
    if (!faulted() && length <= INT64_MAX) {
        do
            failed = ftruncate(file->fd, (off_t)length);
        while (failed && errno == EINTR);
    }
    return failed ? fail_errno(err, "truncate file", file->path) : WEFT_OK;
}

weft_status file_size(File *file, u64 *size, Error *err)
{
    struct stat info;
    ASSERT(file->fd >= 0);
    if (faulted() || fstat(file->fd, &info) != 0)
        return fail_errno(err, "inspect file", file->path);
    *size = (u64)info.st_size;
    return WEFT_OK;
}

// After a failed fsync the kernel may have dropped the dirty pages, so a second try proves nothing: only EINTR repeats.
static int sync_descriptor(int fd)
{
    int failed;
    do
        failed = fsync(fd);
    while (failed && errno == EINTR);
    return failed;
}

weft_status file_sync(File *file, Error *err)
{
    ASSERT(file->fd >= 0);
    return faulted() || sync_descriptor(file->fd) ? fail_errno(err, "sync file", file->path) : WEFT_OK;
}

// ---- whole files ----------------------------------------------------------------------------------------------------

static weft_status map_open_file(File *file, Mapping *mapping, Error *err)
{
    struct stat info;
    if (faulted() || fstat(file->fd, &info) != 0)
        return fail_errno(err, "inspect file", file->path);
    if (!S_ISREG(info.st_mode))                             // a pipe has no size, a directory no bytes
        return fail(err, WEFT_IO_ERROR, -1, "\"%s\" is not a regular file", file->path);
    if (info.st_size == 0)
        return WEFT_OK;
    void *bytes = faulted() ? MAP_FAILED : mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (bytes == MAP_FAILED)
        return fail_errno(err, "map file", file->path);
    *mapping = (Mapping){ bytes, (size_t)info.st_size };
    return WEFT_OK;
}

weft_status file_map(const char *path, Mapping *mapping, Error *err)
{
    File file;
    *mapping = (Mapping){ 0 };
    TRY(file_open_read(path, &file, err));
    weft_status status = map_open_file(&file, mapping, err);
    file_close(&file);
    return status;
}

// Both are wishes: a system that does not grant them is slower.
void file_ask(const Mapping *mapping, u64 at, u64 bytes)
{
    u64 page = (u64)sysconf(_SC_PAGESIZE), first = at - at % page, end = MIN_OF(at + bytes, (u64)mapping->length);
    if (mapping->bytes && first < end)
        (void)madvise((void *)(uintptr_t)(mapping->bytes + first), (size_t)(end - first), MADV_WILLNEED);
}

void file_read_little(const Mapping *mapping, bool is_little)
{
    if (mapping->bytes)
        (void)madvise((void *)(uintptr_t)mapping->bytes, mapping->length, is_little ? MADV_RANDOM : MADV_NORMAL);
}

void file_unmap(Mapping *mapping)
{
    ASSERT(!mapping->bytes == !mapping->length);
    if (mapping->bytes)
        munmap((void *)(uintptr_t)mapping->bytes, mapping->length);
    *mapping = (Mapping){ 0 };
}

// Reads to the end, whatever the size said: files grow, and those in /proc have none.  Memory is asked for here and not
// by the builder, since a file may be larger than memory and that must not end the process.
static weft_status read_to_end(File *file, Text *text, Error *err)
{
    for (;;) {
        if (text->capacity - text->length < 4096) {
            size_t capacity = MAX_OF(text->capacity * 2, 16384);
            char *grown = realloc(text->bytes, capacity);
            if (!grown)
                return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory reading file \"%s\"", file->path);
            text->bytes = grown;
            text->capacity = capacity;
        }
        size_t room = MIN_OF(text->capacity - text->length - 1, (size_t)SSIZE_MAX);
        ssize_t n = read(file->fd, text->bytes + text->length, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, "read file", file->path);
        text->length += (size_t)n;
        text->bytes[text->length] = '\0';
        if (n == 0)
            return WEFT_OK;
    }
}

weft_status file_read_all(const char *path, Text *text, Error *err)
{
    File file;
    TRY(file_open_read(path, &file, err));
    weft_status status = faulted() ? fail_errno(err, "read file", path) : read_to_end(&file, text, err);
    file_close(&file);
    return status;
}

// ---- names and directories ------------------------------------------------------------------------------------------

weft_status file_rename(const char *from, const char *to, Error *err)
{
    return faulted() || rename(from, to) != 0 ? fail_errno(err, "rename file", from) : WEFT_OK;
}

weft_status file_remove(const char *path, Error *err)
{
    if (faulted() || (unlink(path) != 0 && errno != ENOENT))
        return fail_errno(err, "remove file", path);
    return WEFT_OK;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

weft_status dir_make(const char *path, Error *err)
{
    if (faulted())
        return fail_errno(err, "make directory", path);
    if (mkdir(path, 0777) == 0)
        return WEFT_OK;
    int reason = errno;
    if (reason == EEXIST && is_directory(path))
        return WEFT_OK;
    errno = reason;
    return fail_errno(err, "make directory", path);
}

weft_status dir_sync(const char *path, Error *err)
{
    File dir;
    TRY(open_file(path, O_RDONLY | O_DIRECTORY, &dir, err));
    weft_status status = file_sync(&dir, err);
    file_close(&dir);
    return status;
}

static weft_status read_names(DIR *dir, const char *path, Arena *arena, char ***names, int *n_names, Error *err)
{
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? fail_errno(err, "read directory", path) : WEFT_OK;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *LIST_PUSH(arena, *names, *n_names) = arena_strdup(arena, entry->d_name);
    }
}

weft_status dir_list(Arena *arena, const char *path, char ***names, int *n_names, Error *err)
{
    *names = NULL;
    *n_names = 0;
    DIR *dir = faulted() ? NULL : opendir(path);
    if (!dir)
        return fail_errno(err, "read directory", path);
    weft_status status = read_names(dir, path, arena, names, n_names, err);
    closedir(dir);
    return status;
}
