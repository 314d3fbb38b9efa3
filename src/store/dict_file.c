// dict_file.c - a dictionary on disk.
//
// The file only grows.  The manifest says how much of it counts; what a crash or a failed commit left behind that is
// cut off by the next writer.
//
// New files are of format 2 (text_blocks.c).  A file of format 1 is a word of recognition, then each text with its
// length before it, in order of code; it stays as it is and grows as it was.  Its checksum chains the hashes of the
// texts, so that it goes on where the last commit left it.

#include "store/text_blocks.h"

static const char magic[8] = "WEFTDIC1";

enum {
    WRITE_BYTES = 1 << 20,
    FEW_BYTES = 1 << 18                                     // of a file that is checked as a whole when it is loaded
};

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
    Budget     *budget;
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

static weft_status load_blocks(const MappedDict *mapped, Dictionary *dict, Error *err)
{
    TextBlocks *texts;
    TRY(text_blocks_open(mapped->path, &mapped->file, &mapped->mapping, mapped->budget, &texts, err));
    weft_status status = mapped->file.length <= FEW_BYTES ? text_blocks_check(texts, err) : WEFT_OK;
    if (status)
        text_blocks_free(texts);
    else
        dict_put_blocks(dict, texts);
    return status;
}

static weft_status load_mapped(Dictionary *dict, void *context, Error *err)
{
    const MappedDict *mapped = context;
    return text_blocks_are_in(&mapped->mapping) ? load_blocks(mapped, dict, err) : load_entries(mapped, dict, err);
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
           (text_blocks_are_in(mapping) ? file->count > 0 : memcmp(mapping->bytes, magic, sizeof(magic)) == 0) &&
           file->count <= (file->length - sizeof(magic)) / 3;               // before so many are given room
}

weft_status dict_file_open(const char *path, const DictFile *file, Budget *budget, Dictionary **dict, Error *err)
{
    Mapping mapping;
    if (file->length == 0) {
        *dict = dict_new(budget);
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
    *mapped = (MappedDict){ mapping, *file, arena_strdup(arena, path), budget, arena };
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

static weft_status cut_tail(File *file, const char *path, u64 length, Error *err)
{
    u64 size;
    TRY(file_size(file, &size, err));
    if (size < length)
        return fail_damaged(path, err);
    return size > length ? file_truncate(file, length, err) : WEFT_OK;
}

static weft_status is_first_format(const char *path, bool *is_first, Error *err)
{
    File file;
    char begin[sizeof(magic)] = "";
    size_t got = 0;
    TRY(file_open_read(path, &file, err));
    weft_status status = file_read_at(&file, begin, sizeof(begin), 0, &got, err);
    file_close(&file);
    *is_first = memcmp(begin, magic, sizeof(magic)) == 0;
    return status;
}

static weft_text text_of(const void *dict, u32 code)
{
    return dict_get(dict, code);
}

static weft_status extend(DictWriter *writer, const char *path, const DictFile *old, const Dictionary *dict, u32 count,
                          Error *err)
{
    bool is_first = false;
    TRY(cut_tail(&writer->file, path, old->length, err));
    if (old->length > 0)
        TRY(is_first_format(path, &is_first, err));
    if (is_first)
        return put_entries(writer, dict, count, err);
    return text_blocks_write(&writer->file, old, &(TextSource){ text_of, dict }, count, &writer->written, err);
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
