// stream.c - bytes from and to files of COPY, through zlib and libzstd where the name ends in .gz or .zst.
//
// Both libraries work on buffers, so one loop serves both: hand over what was read, take what came out, read more.
// Files of several members (gzip) or frames (zstd) one after the other are one stream, as their own tools read them.

#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { BUFFER_BYTES = 256 << 10, POLL_MS = 20, GZIP_WINDOW = 15 + 16 };

typedef enum StreamPacking { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD } StreamPacking;

struct CopyStream {
    File     file;                     // fd is the caller's when is_borrowed
    bool     is_borrowed, is_regular, is_writing, is_made;     // made: a new file that goes when it is not finished
    StreamPacking  packing;
    u64      size, offset;
    const _Atomic bool *cancel;
    char    *buffer;                   // packed bytes
    size_t   n_buffer, at;             // of them, and how many are used
    bool     is_at_end;                // of the file
    bool     is_inside;                // a member or frame has begun and not ended
    z_stream zip;
    bool     has_zip;
    ZSTD_DStream *unzstd;
    ZSTD_CStream *zstd;
};

// ---- both -----------------------------------------------------------------------------------------------------------

static bool ends_in(const char *path, const char *suffix)
{
    size_t length = strlen(path), n = strlen(suffix);
    return length > n && strcmp(path + length - n, suffix) == 0;
}

static StreamPacking packing_of(const char *path)
{
    if (ends_in(path, ".gz"))
        return PACKED_GZIP;
    return ends_in(path, ".zst") || ends_in(path, ".zstd") ? PACKED_ZSTD : PACKED_NOT;
}

const char *stream_compression(const char *bytes, size_t length)
{
    static const struct { const char *magic, *name; size_t n; } known[] = {
        { "\x1f\x8b", "gzip", 2 },         { "\x28\xb5\x2f\xfd", "zstd", 4 }, { "BZh", "bzip2", 3 },
        { "\xfd" "7zXZ", "xz", 5 },        { "PK\x03\x04", "zip", 4 },        { "PAR1", "Parquet", 4 },
    };
    for (int i = 0; i < COUNT_OF(known); i++)
        if (length >= known[i].n && memcmp(bytes, known[i].magic, known[i].n) == 0)
            return known[i].name;
    return NULL;
}

static weft_status no_memory(Error *err)
{
    return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory");
}

static weft_status damaged(const CopyStream *stream, const char *why, Error *err)
{
    return fail(err, WEFT_BAD_COPY, -1, "\"%s\" cannot be decompressed: %s", stream->file.path, why);
}

static weft_status stream_new(const char *path, int fd, CopyStream **out, Error *err)
{
    CopyStream *stream = calloc(1, sizeof *stream);
    *out = NULL;
    if (!stream)
        return no_memory(err);
    stream->file.fd = fd;
    stream->is_borrowed = fd >= 0;
    if (strlen(path) >= sizeof(stream->file.path)) {
        free(stream);
        errno = ENAMETOOLONG;
        return fail_errno(err, "open file", path);
    }
    strcpy(stream->file.path, path);
    stream->packing = fd >= 0 ? PACKED_NOT : packing_of(path);
    *out = stream;
    return WEFT_OK;
}

static void take_back(CopyStream *stream)
{
    if (stream->has_zip && stream->is_writing)
        deflateEnd(&stream->zip);
    else if (stream->has_zip)
        inflateEnd(&stream->zip);
    ZSTD_freeDStream(stream->unzstd);
    ZSTD_freeCStream(stream->zstd);
    free(stream->buffer);
    if (!stream->is_borrowed)
        file_close(&stream->file);
}

void stream_close(CopyStream *stream)
{
    if (!stream)
        return;
    take_back(stream);
    if (stream->is_made)
        (void)file_remove(stream->file.path, NULL);
    free(stream);
}

// ---- reading --------------------------------------------------------------------------------------------------------

static weft_status begin_unpacking(CopyStream *stream, Error *err)
{
    stream->buffer = malloc(BUFFER_BYTES);
    if (!stream->buffer)
        return no_memory(err);
    if (stream->packing == PACKED_ZSTD) {
        stream->unzstd = ZSTD_createDStream();
        return stream->unzstd ? WEFT_OK : no_memory(err);
    }
    stream->has_zip = inflateInit2(&stream->zip, GZIP_WINDOW) == Z_OK;
    return stream->has_zip ? WEFT_OK : no_memory(err);
}

static weft_status open_read(CopyStream *stream, Error *err)
{
    struct stat info;
    if (!stream->is_borrowed)
        TRY(file_open_read(stream->file.path, &stream->file, err));
    if (fstat(stream->file.fd, &info) != 0)
        return fail_errno(err, "inspect file", stream->file.path);
    if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return fail_errno(err, "read file", stream->file.path);
    }
    stream->is_regular = S_ISREG(info.st_mode) && !stream->is_borrowed;
    stream->size = stream->is_regular ? (u64)info.st_size : 0;
    if (stream->is_regular)
        (void)posix_fadvise(stream->file.fd, 0, 0, POSIX_FADV_SEQUENTIAL);     // a hint; nothing is lost without it
    return stream->packing ? begin_unpacking(stream, err) : WEFT_OK;
}

weft_status stream_open_read(const char *path, int fd, const _Atomic bool *cancel, CopyStream **out, Error *err)
{
    TRY(stream_new(path, fd, out, err));
    (*out)->cancel = cancel;
    weft_status status = open_read(*out, err);
    if (status) {
        stream_close(*out);
        *out = NULL;
    }
    return status;
}

bool stream_reads(const CopyStream *stream, const char *path)
{
    struct stat read, other;
    return fstat(stream->file.fd, &read) == 0 && S_ISREG(read.st_mode) && stat(path, &other) == 0 &&
           read.st_dev == other.st_dev && read.st_ino == other.st_ino;
}

static weft_status read_some(CopyStream *stream, char *to, size_t length, size_t *n_read, Error *err)
{
    for (;;) {
        struct pollfd waiting = { .fd = stream->file.fd, .events = POLLIN };
        if (stream->cancel && *stream->cancel)
            return fail(err, WEFT_QUERY_CANCELED, -1, "copy was cancelled");
        if (!stream->is_regular && poll(&waiting, 1, POLL_MS) == 0)
            continue;
        if (fault_now(FAULT_FILE)) {
            errno = EIO;
            return fail_errno(err, "read file", stream->file.path);
        }
        ssize_t n = read(stream->file.fd, to, length);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return fail_errno(err, "read file", stream->file.path);
        *n_read = (size_t)n;
        stream->offset += (u64)n;
        stream->is_at_end = n == 0;
        return WEFT_OK;
    }
}

static weft_status unpack_gzip(CopyStream *stream, char *to, size_t length, size_t *n_made, Error *err)
{
    z_stream *zip = &stream->zip;
    zip->next_in = (Bytef *)(void *)(stream->buffer + stream->at);
    zip->avail_in = (uInt)(stream->n_buffer - stream->at);
    zip->next_out = (Bytef *)(void *)to;
    zip->avail_out = (uInt)MIN_OF(length, (size_t)1 << 30);
    const uInt before = zip->avail_out;
    if (!stream->is_inside && inflateReset(zip) != Z_OK)
        return damaged(stream, "zlib refuses", err);
    stream->is_inside = true;
    const int code = inflate(zip, Z_NO_FLUSH);
    stream->at = stream->n_buffer - zip->avail_in;
    *n_made = before - zip->avail_out;
    if (code == Z_STREAM_END)
        stream->is_inside = false;
    else if (code != Z_OK && code != Z_BUF_ERROR)
        return damaged(stream, zip->msg ? zip->msg : "it is not gzip, or damaged", err);
    return WEFT_OK;
}

static weft_status unpack_zstd(CopyStream *stream, char *to, size_t length, size_t *n_made, Error *err)
{
    ZSTD_inBuffer in = { stream->buffer + stream->at, stream->n_buffer - stream->at, 0 };
    ZSTD_outBuffer out = { to, length, 0 };
    const size_t left = ZSTD_decompressStream(stream->unzstd, &out, &in);
    if (ZSTD_isError(left))
        return damaged(stream, ZSTD_getErrorName(left), err);
    stream->at += in.pos;
    stream->is_inside = left != 0;
    *n_made = out.pos;
    return WEFT_OK;
}

// Until something came out, or the file is at its end and nothing is left in the library.
static weft_status read_unpacked(CopyStream *stream, char *to, size_t length, size_t *n_read, Error *err)
{
    *n_read = 0;
    for (;;) {
        if (stream->at == stream->n_buffer && !stream->is_at_end) {
            stream->at = 0;
            TRY(read_some(stream, stream->buffer, BUFFER_BYTES, &stream->n_buffer, err));
        }
        const bool has_input = stream->at < stream->n_buffer;
        if (!has_input && !stream->is_inside)
            return WEFT_OK;
        if (stream->packing == PACKED_GZIP)
            TRY(unpack_gzip(stream, to, length, n_read, err));
        else
            TRY(unpack_zstd(stream, to, length, n_read, err));
        if (*n_read > 0)
            return WEFT_OK;
        if (!has_input && stream->is_inside)
            return damaged(stream, "it ends too early", err);
    }
}

weft_status stream_read_some(CopyStream *stream, char *to, size_t length, size_t *n_read, Error *err)
{
    return stream->packing ? read_unpacked(stream, to, length, n_read, err)
                           : read_some(stream, to, length, n_read, err);
}

weft_status stream_read(CopyStream *stream, char *to, size_t length, size_t *n_read, Error *err)
{
    *n_read = 0;
    while (*n_read < length) {
        size_t n = 0;
        TRY(stream_read_some(stream, to + *n_read, length - *n_read, &n, err));
        if (n == 0)
            break;
        *n_read += n;
    }
    return WEFT_OK;
}

bool stream_is_plain_file(const CopyStream *stream)
{
    return stream->is_regular && !stream->packing;
}

u64 stream_size(const CopyStream *stream)
{
    return stream->size;
}

u64 stream_offset(const CopyStream *stream)
{
    return stream->offset;
}

// ---- writing --------------------------------------------------------------------------------------------------------

static weft_status begin_packing(CopyStream *stream, Error *err)
{
    stream->buffer = malloc(BUFFER_BYTES);
    if (!stream->buffer)
        return no_memory(err);
    if (stream->packing == PACKED_ZSTD) {
        stream->zstd = ZSTD_createCStream();
        return stream->zstd ? WEFT_OK : no_memory(err);
    }
    stream->has_zip = deflateInit2(&stream->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                                   Z_DEFAULT_STRATEGY) == Z_OK;
    return stream->has_zip ? WEFT_OK : no_memory(err);
}

// A file that was there before is written over and stays, whatever happens; a new one goes when it cannot be finished.
static weft_status open_write(CopyStream *stream, Error *err)
{
    if (!stream->is_borrowed) {
        struct stat info;
        const bool was_there = stat(stream->file.path, &info) == 0;
        TRY(file_create(stream->file.path, &stream->file, err));
        stream->is_made = !was_there;
    }
    return stream->packing ? begin_packing(stream, err) : WEFT_OK;
}

weft_status stream_open_write(const char *path, int fd, CopyStream **out, Error *err)
{
    TRY(stream_new(path, fd, out, err));
    (*out)->is_writing = true;
    weft_status status = open_write(*out, err);
    if (status) {
        stream_close(*out);
        *out = NULL;
    }
    return status;
}

static weft_status pack_gzip(CopyStream *stream, const char *bytes, size_t length, bool is_end, Error *err)
{
    z_stream *zip = &stream->zip;
    int code = Z_OK;
    zip->next_in = (Bytef *)(uintptr_t)bytes;
    zip->avail_in = (uInt)length;
    do {
        zip->next_out = (Bytef *)(void *)stream->buffer;
        zip->avail_out = BUFFER_BYTES;
        code = deflate(zip, is_end ? Z_FINISH : Z_NO_FLUSH);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return fail(err, WEFT_INTERNAL, -1, "zlib failed with %d", code);
        TRY(file_write(&stream->file, stream->buffer, BUFFER_BYTES - zip->avail_out, err));
    } while (zip->avail_in > 0 || zip->avail_out == 0 || (is_end && code != Z_STREAM_END));
    return WEFT_OK;
}

static weft_status pack_zstd(CopyStream *stream, const char *bytes, size_t length, bool is_end, Error *err)
{
    ZSTD_inBuffer in = { bytes, length, 0 };
    for (;;) {
        ZSTD_outBuffer out = { stream->buffer, BUFFER_BYTES, 0 };
        const size_t left = ZSTD_compressStream2(stream->zstd, &out, &in, is_end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return fail(err, WEFT_INTERNAL, -1, "zstd failed: %s", ZSTD_getErrorName(left));
        TRY(file_write(&stream->file, stream->buffer, out.pos, err));
        if (in.pos == in.size && (!is_end || left == 0))
            return WEFT_OK;
    }
}

static weft_status write_piece(CopyStream *stream, const char *bytes, size_t length, bool is_end, Error *err)
{
    switch (stream->packing) {
    case PACKED_GZIP: return pack_gzip(stream, bytes, length, is_end, err);
    case PACKED_ZSTD: return pack_zstd(stream, bytes, length, is_end, err);
    default:          return length ? file_write(&stream->file, bytes, length, err) : WEFT_OK;
    }
}

weft_status stream_write(CopyStream *stream, const char *bytes, size_t length, Error *err)
{
    while (length > 0) {
        const size_t piece = MIN_OF(length, (size_t)1 << 30);                  // zlib counts in 32 bits
        TRY(write_piece(stream, bytes, piece, false, err));
        bytes += piece;
        length -= piece;
    }
    return WEFT_OK;
}

weft_status stream_finish(CopyStream *stream, Error *err)
{
    weft_status status = write_piece(stream, "", 0, true, err);
    if (!status)
        stream->is_made = false;
    stream_close(stream);
    return status;
}
