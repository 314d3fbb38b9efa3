// stream.h - files of COPY as a stream of bytes: plain, gzip or zstd, told by the name's suffix.
//
//     TRY(stream_open_read(path, -1, &stream, err));           // or a descriptor that the caller keeps: "stdin"
//     TRY(stream_read(stream, bytes, room, &n_read, err));     // fewer than ROOM: the end
//     stream_close(stream);
//
//     TRY(stream_open_write(path, -1, &stream, err));
//     TRY(stream_write(stream, bytes, length, err));
//     TRY(stream_finish(stream, err));                          // or stream_close: a new file is removed again
//
// One thread at a time.  Reading from a pipe looks at *CANCEL now and then.

#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include "base/base.h"

typedef struct CopyStream CopyStream;

// FD 0 or more: that descriptor, which stays open; PATH is then only its name in messages.
weft_status stream_open_read(const char *path, int fd, const _Atomic bool *cancel, CopyStream **out, Error *err);
weft_status stream_read(CopyStream *stream, char *to, size_t length, size_t *n_read, Error *err);
// What there is, at most LENGTH bytes; waits until there is something.  0: the end.
weft_status stream_read_some(CopyStream *stream, char *to, size_t length, size_t *n_read, Error *err);
bool        stream_is_plain_file(const CopyStream *stream);      // a regular file that is not compressed
u64         stream_size(const CopyStream *stream);               // of a regular file, as it lies there; else 0
u64         stream_offset(const CopyStream *stream);             // bytes of it that were read
bool        stream_reads(const CopyStream *stream, const char *path);    // the regular file at PATH, by whatever name

weft_status stream_open_write(const char *path, int fd, CopyStream **out, Error *err);
weft_status stream_write(CopyStream *stream, const char *bytes, size_t length, Error *err);
weft_status stream_finish(CopyStream *stream, Error *err);       // closes it, also on failure
void        stream_close(CopyStream *stream);                    // NULL is fine

// "gzip" and the like, when the bytes begin as such a file does; NULL: they do not.
const char *stream_compression(const char *bytes, size_t length);

#endif
