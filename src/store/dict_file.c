// dict_file.c - a dictionary on disk: a word of recognition, then each text with its length before it, in order of
// code.
//
// The file only grows.  The manifest says how much of it counts; what a crash or a failed commit left behind that is
// cut off by the next writer.  The checksum chains the hashes of the texts, so that it goes on where the last commit
// left it and costs nothing when reading, where each text is hashed for the index anyway.

#include "store/store_int.h"

static const char magic[8] = "WEFTDIC1";

enum { WRITE_BYTES = 1 << 20 };

// One to one in each argument, so a change anywhere changes the end.
static u64 chain(u64 checksum, u64 hash)
{
    return ((checksum << 23 | checksum >> 41) ^ hash) * 0x9E3779B185EBCA87u;
}

// ---- reading -------------------------------------------------------------------------------------------------------

static weft_status fail_damaged(const char *path, Error *err)
{
    return fail(err, WEFT_CORRUPT, -1, "dictionary file \"%s\" is damaged", path);
}

typedef struct MappedDict {                                 // a file whose texts are not read yet
    Mapping  mapping;                                       // outlives the file's name
    DictFile file;
    const char *path;                                       // for messages
    Arena      *arena;                                      // of this struct
} MappedDict;

static weft_status load_entries(const MappedDict *mapped, Dictionary *dict, Error *err)
{
    const DictFile *file = &mapped->file;
    const u8 *bytes = mapped->mapping.bytes;
    u64 at = sizeof(magic), checksum = 0;
    for (u32 n = 0; n < file->count; n++) {
        u32 length;
        if (file->length - at < sizeof(length))
            return fail_damaged(mapped->path, err);
        memcpy(&length, bytes + at, sizeof(length));
        at += sizeof(length);
        if (length > TEXT_BYTES_MAX || file->length - at < length)
            return fail_damaged(mapped->path, err);
        u64 hash = hash_bytes(bytes + at, length);
        TRY(dict_put(dict, n, (const char *)bytes + at, length, hash, err));
        checksum = chain(checksum, hash);
        at += length;
    }
    return at == file->length && checksum == file->checksum ? WEFT_OK : fail_damaged(mapped->path, err);
}

static weft_status load_mapped(Dictionary *dict, void *context, Error *err)
{
    return load_entries(context, dict, err);
}

static void drop_mapped(void *context)
{
    MappedDict *mapped = context;
    file_unmap(&mapped->mapping);
    arena_free(mapped->arena);
}

static bool is_plausible(const DictFile *file, const Mapping *mapping)
{
    return mapping->length >= file->length && file->length >= sizeof(magic) &&
           memcmp(mapping->bytes, magic, sizeof(magic)) == 0 &&
           file->count <= (file->length - sizeof(magic)) / sizeof(u32);     // before so many are given room
}

weft_status dict_file_open(const char *path, const DictFile *file, Budget *budget, Dictionary **dict, Error *err)
{
    Mapping mapping;
    if (file->length == 0) {
        *dict = dict_new_in(budget);
        return WEFT_OK;
    }
    if (!file_exists(path))
        return fail(err, WEFT_CORRUPT, -1, "dictionary file \"%s\" is missing", path);
    TRY(file_map(path, &mapping, err));
    if (!is_plausible(file, &mapping)) {
        file_unmap(&mapping);
        return fail_damaged(path, err);
    }
    Arena *arena = arena_new(NULL, "dictionary file");
    MappedDict *mapped = arena_make(arena, MappedDict);
    *mapped = (MappedDict){ mapping, *file, arena_strdup(arena, path), arena };
    *dict = dict_new_unloaded(budget, file->count, (DictLoader){ load_mapped, drop_mapped, mapped });
    return WEFT_OK;
}

// ---- writing -------------------------------------------------------------------------------------------------------

typedef struct DictWriter {
    File     file;
    Text     buffer;
    DictFile written;
} DictWriter;

static weft_status flush(DictWriter *writer, Error *err)
{
    if (writer->buffer.length == 0)
        return WEFT_OK;
    TRY(file_write(&writer->file, writer->buffer.bytes, writer->buffer.length, err));
    text_clear(&writer->buffer);
    return WEFT_OK;
}

static weft_status put(DictWriter *writer, const void *bytes, size_t length, Error *err)
{
    writer->written.length += length;
    if (length + writer->buffer.length > WRITE_BYTES)
        TRY(flush(writer, err));
    if (length > WRITE_BYTES)
        return file_write(&writer->file, bytes, length, err);
    text_add_bytes(&writer->buffer, bytes, length);
    return WEFT_OK;
}

static weft_status put_entries(DictWriter *writer, const Dictionary *dict, u32 count, Error *err)
{
    if (writer->written.length == 0)
        TRY(put(writer, magic, sizeof(magic), err));
    for (u32 code = writer->written.count; code < count; code++) {
        weft_text text = dict_get(dict, code);
        u32 length = (u32)text.length;
        TRY(put(writer, &length, sizeof(length), err));
        TRY(put(writer, text.bytes, text.length, err));
        writer->written.checksum = chain(writer->written.checksum, hash_bytes(text.bytes, text.length));
    }
    writer->written.count = count;
    TRY(flush(writer, err));
    return file_sync(&writer->file, err);
}

static weft_status extend(DictWriter *writer, const char *path, const DictFile *old, const Dictionary *dict, u32 count,
                          Error *err)
{
    u64 size;
    TRY(file_size(&writer->file, &size, err));
    if (size < old->length)
        return fail_damaged(path, err);
    if (size > old->length)
        TRY(file_truncate(&writer->file, old->length, err));
    return put_entries(writer, dict, count, err);
}

void dict_file_cut(const char *path, const DictFile *file)
{
    File opened;
    u64 size;
    if (!file_exists(path))
        return;
    if (file->length == 0) {
        (void)file_remove(path, NULL);
        return;
    }
    if (file_open_append(path, &opened, NULL))
        return;
    if (!file_size(&opened, &size, NULL) && size > file->length)
        (void)file_truncate(&opened, file->length, NULL);
    file_close(&opened);
}

weft_status dict_file_extend(const char *path, const DictFile *old, const Dictionary *dict, u32 count,
                             DictFile *changed, Error *err)
{
    *changed = *old;
    if (count <= old->count)
        return WEFT_OK;
    DictWriter writer = { .written = *old };
    TRY(file_open_append(path, &writer.file, err));
    weft_status status = extend(&writer, path, old, dict, count, err);
    file_close(&writer.file);
    text_free(&writer.buffer);
    if (!status)
        *changed = writer.written;
    return status;
}
