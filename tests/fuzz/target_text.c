// target_text.c - a database whose dictionary, the file with the texts of a column, is any bytes.
//
// Byte 0 chooses: 0 as they are, so that all damage must be found; else with the right checksum, and byte 0 texts are
// said to be in it.  The rest is the file.

#include "store_target.h"

enum { MAGIC_BYTES = 8 };

static u64 chain(u64 checksum, u64 hash)                    // as in dict_file.c
{
    return ((checksum << 23 | checksum >> 41) ^ hash) * 0x9E3779B185EBCA87u;
}

// Format 1.
static u64 checksum_of_texts(const u8 *bytes, size_t length, u32 count)
{
    size_t at = MAGIC_BYTES;
    u64 checksum = 0;
    for (u32 n = 0; n < count; n++) {
        u32 text_length;
        if (at > length || length - at < sizeof text_length) break;
        memcpy(&text_length, bytes + at, sizeof text_length);
        at += sizeof text_length;
        if (text_length > length - at) break;
        checksum = chain(checksum, hash_bytes(bytes + at, text_length));
        at += text_length;
    }
    return checksum;
}

typedef struct BlockSeal { u64 at; u32 n_texts, n_bytes; u64 checksum; } BlockSeal;        // as in text_blocks.c

static void seal_block(const u8 *bytes, size_t length, u8 *record)
{
    BlockSeal block;
    memcpy(&block, record, sizeof block);
    const u64 n_offsets = ((u64)block.n_texts + 1) * (block.n_bytes > 65535 ? 4 : 2);
    if (block.at > length || n_offsets + block.n_bytes > length - block.at) return;
    block.checksum = (hash_bytes(bytes + block.at, n_offsets) * 0x9E3779B185EBCA87u) ^
                     hash_bytes(bytes + block.at + n_offsets, block.n_bytes);
    memcpy(record, &block, sizeof block);
}

// Format 2: gives the blocks of the last directory their checksums, and returns the directory's.
static u64 seal_blocks(u8 *bytes, size_t length)
{
    u64 n_blocks;
    if (length < MAGIC_BYTES + 24) return 0;
    memcpy(&n_blocks, bytes + length - 24, sizeof n_blocks);
    if (n_blocks > (length - MAGIC_BYTES - 24) / sizeof(BlockSeal)) return 0;
    u8 *records = bytes + length - 24 - n_blocks * sizeof(BlockSeal);
    for (u64 b = 0; b < n_blocks; b++) seal_block(bytes, length, records + b * sizeof(BlockSeal));
    return hash_bytes(records, n_blocks * sizeof(BlockSeal) + 24);
}

static void sign(const u8 *bytes, size_t length, u32 count, u64 checksum)
{
    KeptManifest kept = kept_manifest();
    DictFile *file = &kept.tables[0]->columns[1].dict;
    const bool has_blocks = length >= MAGIC_BYTES && memcmp(bytes, "WEFTDIC2", MAGIC_BYTES) == 0;
    file->checksum = has_blocks ? checksum : checksum_of_texts(bytes, length, count);
    file->count = count;
    file->length = length;
    write_manifest(&kept);
    forget_manifest(&kept);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    store_target_begin();
    write_seed("whole", 0, kept_file(".dict"), 0);
    write_seed("few", 3, kept_file(".dict"), 0);
    write_seed("signed", 25, kept_file(".dict"), 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    store_target_begin();
    if (size == 0 || size > STORE_INPUT_MOST) return 0;
    const StoreFile *kept = kept_file(".dict");
    const bool is_signed = data[0] && size > 1;
    // What lies behind the part that counts does not matter.
    const bool is_whole = size - 1 >= kept->length && memcmp(data + 1, kept->bytes, kept->length) == 0;
    u8 *bytes = malloc(size);
    memcpy(bytes, data + 1, size - 1);
    const bool has_blocks = is_signed && size > MAGIC_BYTES && memcmp(bytes, "WEFTDIC2", MAGIC_BYTES) == 0;
    const u64 checksum = has_blocks ? seal_blocks(bytes, size - 1) : 0;
    make_store(kept->name, bytes, size - 1);
    if (is_signed) sign(bytes, size - 1, data[0], checksum);
    free(bytes);
    const weft_status status = use_store(MAY_LIE);
    require(is_signed || is_whole == (status == WEFT_OK), "damage is found, and nothing else is called damage");
    return 0;
}
