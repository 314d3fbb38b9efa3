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

static void sign(const u8 *bytes, size_t length, u32 count)
{
    KeptManifest kept = kept_manifest();
    DictFile *file = &kept.tables[0]->columns[1].dict;
    size_t at = MAGIC_BYTES;
    file->checksum = 0;
    for (u32 n = 0; n < count; n++) {
        u32 text_length;
        if (at > length || length - at < sizeof text_length) break;
        memcpy(&text_length, bytes + at, sizeof text_length);
        at += sizeof text_length;
        if (text_length > length - at) break;
        file->checksum = chain(file->checksum, hash_bytes(bytes + at, text_length));
        at += text_length;
    }
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
    make_store(kept->name, data + 1, size - 1);
    if (is_signed) sign(data + 1, size - 1, data[0]);
    const weft_status status = use_store(MAY_LIE);
    require(is_signed || is_whole == (status == WEFT_OK), "damage is found, and nothing else is called damage");
    return 0;
}
