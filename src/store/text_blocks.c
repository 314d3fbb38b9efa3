// text_blocks.c - texts in a mapped file, in blocks that are checked when they are first read.
//
//     WEFTDIC2                                            each commit appends blocks and then a directory:
//     +--------------------------+--------------------------+-----+---------------------------------------------+
//     | offsets  text\0text\0... | offsets  text\0text\0... | ... | place, texts, bytes, checksum of each block |
//     +--------------------------+--------------------------+-----+ where the last directory ended, checksums   |
//                                                                 +---------------------------------------------+
//
// A reader points into the mapping: texts take no memory of their own, the system reads the pages that are touched and
// may take them back.  A column of millions of comments costs a query nothing but the blocks that it looks at.
//
// A block has up to 64 KiB of texts, each with a NUL behind it, and the offset of each from the first, in two bytes; a
// longer text has a block of its own, with offsets of four bytes.  The manifest has the checksum of the last directory,
// which has that of the directory before it and those of its blocks, so every byte is under one.

#include "store/text_blocks.h"

static const char magic[8] = "WEFTDIC2";

enum {
    BLOCK_BYTES = 65535,                                    // of texts with their NULs, that offsets of two bytes reach
    WRITE_BYTES = 1 << 20,
    HINT_LOG = 8                                            // codes of a hint
};

typedef struct BlockRecord {                                // of a directory
    u64 at;                                                 // in the file, a multiple of 8
    u32 n_texts, n_bytes;
    u64 checksum;
} BlockRecord;

typedef struct DirectoryEnd {                               // behind its records
    u64 n_blocks;
    u64 previous_end;                                       // of the directory before it; 0: this is the first
    u64 previous_checksum;
} DirectoryEnd;

typedef struct TextBlock {
    const u8   *offsets;                                    // n_texts + 1
    const char *bytes;
    u32         first, n_texts, n_bytes;
    _Atomic u32 is_checked;
    u64         checksum;
} TextBlock;

struct TextBlocks {
    Mapping        mapping;
    Arena         *arena;                                   // of this struct
    const char    *path;
    Budget        *budget;
    u32            count, n_blocks;
    TextBlock     *blocks;
    size_t         blocks_bytes;
    u32           *hints;                                   // the block of every 256th code, and the last block
    size_t         hints_bytes;
    _Atomic bool   is_damaged;
};

static u64 offsets_bytes(u32 n_texts, u32 n_bytes)
{
    return ((u64)n_texts + 1) * (n_bytes > BLOCK_BYTES ? 4 : 2);
}

static u64 padded(u64 bytes)
{
    return (bytes + 7) & ~(u64)7;
}

static u64 block_checksum(const void *offsets, u64 n_offsets, const void *bytes, u64 n_bytes)
{
    return (hash_bytes(offsets, n_offsets) * 0x9E3779B185EBCA87u) ^ hash_bytes(bytes, n_bytes);
}

static weft_status fail_damaged(const char *path, Error *err)
{
    return fail(err, WEFT_CORRUPT, -1, "dictionary file \"%s\" is damaged", path);
}

bool text_blocks_are_in(const Mapping *mapping)
{
    return mapping->length >= sizeof(magic) && memcmp(mapping->bytes, magic, sizeof(magic)) == 0;
}

// ---- the directories -----------------------------------------------------------------------------------------------

typedef struct Directory {
    u64                first, end;                          // in the file: its records begin, its end record ends
    const BlockRecord *records;
    DirectoryEnd       tail;
} Directory;

// The directory that ends at END.  Its numbers may be used when this returns true.
static bool read_directory(const Mapping *mapping, u64 end, u64 checksum, Directory *out)
{
    if (end < sizeof(magic) + sizeof(DirectoryEnd) || end > mapping->length || end % 8 != 0)
        return false;
    u64 room = end - sizeof(magic) - sizeof(DirectoryEnd);
    memcpy(&out->tail, mapping->bytes + end - sizeof(DirectoryEnd), sizeof(DirectoryEnd));
    if (out->tail.n_blocks == 0 || out->tail.n_blocks > room / sizeof(BlockRecord))
        return false;
    out->end = end;
    out->first = end - sizeof(DirectoryEnd) - out->tail.n_blocks * sizeof(BlockRecord);
    out->records = (const BlockRecord *)(mapping->bytes + out->first);
    return out->tail.previous_end % 8 == 0 && out->tail.previous_end < out->first &&
           hash_bytes(out->records, end - out->first) == checksum;
}

// A block begins AT, and not where the record pleases: blocks lie close together.  Moves AT behind it.
static bool put_block(const TextBlocks *texts, const Directory *directory, const BlockRecord *record,
                      TextBlock *block, u64 *at)
{
    const u64 n_offsets = offsets_bytes(record->n_texts, record->n_bytes);
    if (record->at != *at || record->n_texts == 0 || record->n_texts > record->n_bytes ||
        padded(n_offsets + record->n_bytes) > directory->first - *at)
        return false;
    *block = (TextBlock){ .offsets = texts->mapping.bytes + record->at,
                          .bytes = (const char *)texts->mapping.bytes + record->at + n_offsets,
                          .n_texts = record->n_texts, .n_bytes = record->n_bytes, .checksum = record->checksum };
    *at += padded(n_offsets + record->n_bytes);
    return true;
}

static bool put_blocks(const TextBlocks *texts, const Directory *directory, TextBlock *blocks)
{
    u64 at = MAX_OF(directory->tail.previous_end, sizeof(magic));
    for (u64 i = 0; i < directory->tail.n_blocks; i++)
        if (!put_block(texts, directory, &directory->records[i], &blocks[i], &at))
            return false;
    return at == directory->first;
}

// Directories are chained from the last to the first: the blocks are counted, then filled in from the end.
static weft_status read_directories(TextBlocks *texts, const DictFile *file, Error *err)
{
    Directory directory;
    u64 n_blocks = 0, checksum = file->checksum;
    for (u64 end = file->length; end > 0; end = directory.tail.previous_end) {
        if (!read_directory(&texts->mapping, end, checksum, &directory))
            return fail_damaged(texts->path, err);
        n_blocks += directory.tail.n_blocks;
        checksum = directory.tail.previous_checksum;
    }
    if (n_blocks > file->count)
        return fail_damaged(texts->path, err);
    texts->n_blocks = (u32)n_blocks;
    texts->blocks_bytes = n_blocks * sizeof(TextBlock);
    void *memory;
    TRY(mem_alloc(texts->budget, texts->blocks_bytes, &memory, err));
    texts->blocks = memory;
    checksum = file->checksum;
    for (u64 end = file->length, at = n_blocks; end > 0; end = directory.tail.previous_end) {
        if (!read_directory(&texts->mapping, end, checksum, &directory) || at < directory.tail.n_blocks)
            return fail_damaged(texts->path, err);          // the file has changed meanwhile
        at -= directory.tail.n_blocks;
        if (!put_blocks(texts, &directory, &texts->blocks[at]))
            return fail_damaged(texts->path, err);
        checksum = directory.tail.previous_checksum;
    }
    return WEFT_OK;
}

static weft_status number_blocks(TextBlocks *texts, Error *err)
{
    u64 count = 0;
    for (u32 b = 0; b < texts->n_blocks; b++) {
        texts->blocks[b].first = (u32)MIN_OF(count, UINT32_MAX);
        count += texts->blocks[b].n_texts;
    }
    if (count != texts->count)
        return fail_damaged(texts->path, err);
    const u32 n_hints = ((texts->count - 1) >> HINT_LOG) + 2;
    void *memory;
    texts->hints_bytes = n_hints * sizeof(u32);
    TRY(mem_alloc(texts->budget, texts->hints_bytes, &memory, err));
    texts->hints = memory;
    for (u32 h = 0, b = 0; h < n_hints; h++) {
        while (b + 1 < texts->n_blocks && texts->blocks[b + 1].first <= (u64)h << HINT_LOG)
            b++;
        texts->hints[h] = b;
    }
    return WEFT_OK;
}

weft_status text_blocks_open(const char *path, const DictFile *file, const Mapping *mapping, Budget *budget,
                             TextBlocks **out, Error *err)
{
    ASSERT(file->count > 0);
    Arena *arena = arena_new(NULL, "text blocks");
    TextBlocks *texts = arena_make(arena, TextBlocks);
    *texts = (TextBlocks){ .mapping = { mapping->bytes, file->length }, .arena = arena, .budget = budget,
                           .path = arena_strdup(arena, path), .count = file->count };
    weft_status status = read_directories(texts, file, err);
    if (!status)
        status = number_blocks(texts, err);
    if (status)
        text_blocks_free(texts);
    else
        *out = texts;
    return status;
}

void text_blocks_free(TextBlocks *texts)
{
    if (!texts)
        return;
    mem_free(texts->budget, texts->blocks, texts->blocks_bytes);
    mem_free(texts->budget, texts->hints, texts->hints_bytes);
    arena_free(texts->arena);
}

// ---- reading -------------------------------------------------------------------------------------------------------

static u32 offset_at(const TextBlock *block, u32 at)
{
    if (block->n_bytes > BLOCK_BYTES)
        return ((const u32 *)(const void *)block->offsets)[at];
    return ((const u16 *)(const void *)block->offsets)[at];
}

static bool has_zeros_behind(const TextBlock *block)
{
    const u64 bytes = offsets_bytes(block->n_texts, block->n_bytes) + block->n_bytes;
    for (u64 at = bytes; at < padded(bytes); at++)
        if (block->offsets[at] != 0)
            return false;
    return true;
}

// A checksum keeps out accidents; whatever else a file says, no text may reach out of its block.
static bool has_good_offsets(const TextBlock *block)
{
    u32 from = offset_at(block, 0);
    if (from != 0 || offset_at(block, block->n_texts) != block->n_bytes)
        return false;
    for (u32 i = 0; i < block->n_texts; i++) {
        u32 to = offset_at(block, i + 1);
        if (to <= from || to > block->n_bytes || block->bytes[to - 1] != '\0')
            return false;
        from = to;
    }
    return true;
}

static bool check_block(TextBlocks *texts, TextBlock *block)
{
    if (atomic_load_explicit(&block->is_checked, memory_order_acquire))
        return true;
    const u64 n_offsets = offsets_bytes(block->n_texts, block->n_bytes);
    const bool is_good = block_checksum(block->offsets, n_offsets, block->bytes, block->n_bytes) == block->checksum &&
                         has_zeros_behind(block) && has_good_offsets(block);
    if (is_good)
        atomic_store_explicit(&block->is_checked, 1, memory_order_release);
    else
        atomic_store(&texts->is_damaged, true);
    return is_good;
}

static TextBlock *block_of(const TextBlocks *texts, u32 code)
{
    ASSERT(code < texts->count);
    u32 low = texts->hints[code >> HINT_LOG], high = texts->hints[(code >> HINT_LOG) + 1];
    while (low < high) {
        u32 middle = low + (high - low + 1) / 2;
        if (texts->blocks[middle].first <= code)
            low = middle;
        else
            high = middle - 1;
    }
    return &texts->blocks[low];
}

weft_text text_blocks_get(TextBlocks *texts, u32 code)
{
    TextBlock *block = block_of(texts, code);
    if (!check_block(texts, block))
        return (weft_text){ "", 0 };
    u32 from = offset_at(block, code - block->first), to = offset_at(block, code - block->first + 1);
    return (weft_text){ block->bytes + from, to - from - 1 };
}

bool text_blocks_run(TextBlocks *texts, u32 code, TextRun *run)
{
    TextBlock *block = block_of(texts, code);
    *run = (TextRun){ .first = block->first, .n_texts = block->n_texts, .bytes = block->bytes,
                      .n_bytes = block->n_bytes, .offsets = block->offsets,
                      .width = block->n_bytes > BLOCK_BYTES ? 4 : 2 };
    return check_block(texts, block);
}

static bool find_in_block(const TextBlock *block, const char *bytes, size_t length, u32 *code)
{
    u32 from = 0;
    for (u32 i = 0; i < block->n_texts; i++) {
        u32 to = offset_at(block, i + 1);
        if (to - from - 1 == length && (length == 0 || memcmp(block->bytes + from, bytes, length) == 0)) {
            *code = block->first + i;
            return true;
        }
        from = to;
    }
    return false;
}

bool text_blocks_find(TextBlocks *texts, const char *bytes, size_t length, u32 *code)
{
    for (u32 b = 0; b < texts->n_blocks; b++)
        if (check_block(texts, &texts->blocks[b]) && find_in_block(&texts->blocks[b], bytes, length, code))
            return true;
    return false;
}

weft_status text_blocks_status(const TextBlocks *texts, Error *err)
{
    return atomic_load(&texts->is_damaged) ? fail_damaged(texts->path, err) : WEFT_OK;
}

weft_status text_blocks_check(TextBlocks *texts, Error *err)
{
    for (u32 b = 0; b < texts->n_blocks; b++)
        if (!check_block(texts, &texts->blocks[b]))
            break;
    return text_blocks_status(texts, err);
}

// ---- writing -------------------------------------------------------------------------------------------------------

typedef struct BlockWriter {
    File    *file;
    Text     buffer;                                        // not written yet
    u64      at;                                            // in the file, behind the buffer
    Text     records;
    u64      n_blocks;
} BlockWriter;

static weft_status flush(BlockWriter *writer, Error *err)
{
    if (writer->buffer.length == 0)
        return WEFT_OK;
    TRY(file_write(writer->file, writer->buffer.bytes, writer->buffer.length, err));
    text_clear(&writer->buffer);
    return WEFT_OK;
}

static weft_status put(BlockWriter *writer, const void *bytes, u64 length, Error *err)
{
    writer->at += length;
    if (length + writer->buffer.length > WRITE_BYTES)
        TRY(flush(writer, err));
    if (length > WRITE_BYTES)
        return file_write(writer->file, bytes, length, err);
    text_add_bytes(&writer->buffer, bytes, (size_t)length);
    return WEFT_OK;
}

static weft_status pad(BlockWriter *writer, Error *err)
{
    static const char zeros[8] = { 0 };
    return put(writer, zeros, (8 - writer->at % 8) % 8, err);
}

static weft_status write_block(BlockWriter *writer, u32 n_texts, const void *offsets, const void *bytes, u32 n_bytes,
                               Error *err)
{
    const u64 n_offsets = offsets_bytes(n_texts, n_bytes);
    const BlockRecord record = { writer->at, n_texts, n_bytes, block_checksum(offsets, n_offsets, bytes, n_bytes) };
    text_add_bytes(&writer->records, (const char *)&record, sizeof(record));
    writer->n_blocks++;
    TRY(put(writer, offsets, n_offsets, err));
    TRY(put(writer, bytes, n_bytes, err));
    return pad(writer, err);
}

// A text in memory has a NUL behind it, so it can be written as it is.
static weft_status write_long_text(BlockWriter *writer, weft_text text, Error *err)
{
    const u32 offsets[2] = { 0, (u32)text.length + 1 };
    return write_block(writer, 1, offsets, text.bytes, offsets[1], err);
}

typedef struct BlockRoom {
    u16  offsets[BLOCK_BYTES + 1];
    char bytes[BLOCK_BYTES];
} BlockRoom;

// As many of the texts FIRST .. COUNT - 1 as fit.  Returns how many.
static u32 gather(const TextSource *source, u32 first, u32 count, BlockRoom *room)
{
    u32 n = 0, used = 0;
    for (; first + n < count; n++) {
        weft_text text = source->text_of(source->context, first + n);
        if (text.length + 1 > BLOCK_BYTES - used)
            break;
        room->offsets[n] = (u16)used;
        memcpy(room->bytes + used, text.bytes, text.length);
        room->bytes[used + text.length] = '\0';
        used += (u32)text.length + 1;
    }
    room->offsets[n] = (u16)used;
    return n;
}

static weft_status write_texts(BlockWriter *writer, const TextSource *source, u32 first, u32 count, BlockRoom *room,
                               Error *err)
{
    for (u32 n; first < count; first += n) {
        n = gather(source, first, count, room);
        if (n > 0) {
            TRY(write_block(writer, n, room->offsets, room->bytes, room->offsets[n], err));
        } else {
            n = 1;
            TRY(write_long_text(writer, source->text_of(source->context, first), err));
        }
    }
    return WEFT_OK;
}

static weft_status write_directory(BlockWriter *writer, const DictFile *old, u64 *checksum, Error *err)
{
    const DirectoryEnd tail = { writer->n_blocks, old->length, old->checksum };
    text_add_bytes(&writer->records, (const char *)&tail, sizeof(tail));
    *checksum = hash_bytes(writer->records.bytes, writer->records.length);
    return put(writer, writer->records.bytes, writer->records.length, err);
}

static weft_status write_all(BlockWriter *writer, const DictFile *old, const TextSource *source, u32 count,
                             DictFile *changed, Error *err)
{
    Arena *scratch = arena_new(NULL, "text blocks");
    weft_status status = old->length == 0 ? put(writer, magic, sizeof(magic), err) : WEFT_OK;
    if (!status)
        status = write_texts(writer, source, old->count, count, arena_make(scratch, BlockRoom), err);
    if (!status)
        status = write_directory(writer, old, &changed->checksum, err);
    if (!status)
        status = flush(writer, err);
    changed->length = writer->at;
    changed->count = count;
    arena_free(scratch);
    return status;
}

weft_status text_blocks_write(File *file, const DictFile *old, const TextSource *source, u32 count, DictFile *changed,
                              Error *err)
{
    BlockWriter writer = { .file = file, .at = old->length };
    *changed = *old;
    weft_status status = write_all(&writer, old, source, count, changed, err);
    text_free(&writer.buffer);
    text_free(&writer.records);
    return status ? status : file_sync(file, err);
}
