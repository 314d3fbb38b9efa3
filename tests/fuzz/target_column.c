// target_column.c - a database whose chunk file is any bytes.
//
// Byte 0 chooses: 0 as they are, so that all damage must be found; bit 0 with the right checksum of the header, bit 1
// with those of the columns, too.  The rest is the file.  A signed file may lie about its columns: then it is read, and
// nothing that it says is believed.

#include "store_target.h"

// As chunk.c lays a file out.
enum { HEADER = 64, COLUMN_HEADER = 40, ROWS_AT = 8, LENGTH_AT = 32, CHECKSUM_AT = 24, NULLS_AT = 32, WIDTH_AT = 36,
       SKETCH_AT = 38 };

static u8 *column_header(u8 *bytes, int column) { return bytes + HEADER + column * COLUMN_HEADER; }

static u64 header_length(u8 *bytes)
{
    u64 length = HEADER + STORE_STORED * COLUMN_HEADER;
    for (int i = 0; i < STORE_STORED; i++) {
        u16 sketch;
        memcpy(&sketch, column_header(bytes, i) + SKETCH_AT, sizeof sketch);
        length += sketch;
    }
    return aligned(length);
}

static void sign_columns(u8 *bytes, size_t length, u32 n_rows)
{
    u64 at = header_length(bytes);
    for (int i = 0; i < STORE_STORED; i++) {
        u8 *header = column_header(bytes, i);
        u32 n_nulls;
        memcpy(&n_nulls, header + NULLS_AT, sizeof n_nulls);
        const u64 n = aligned((u64)n_rows * header[WIDTH_AT]) + (n_nulls ? aligned(((u64)n_rows + 63) / 64 * 8) : 0);
        if (at > length || n > length - at) return;
        const u64 checksum = hash_bytes(bytes + at, n);
        memcpy(header + CHECKSUM_AT, &checksum, sizeof checksum);
        at += n;
    }
}

// The header's checksum is in the manifest.
static void sign(u8 *bytes, size_t length, bool and_columns)
{
    KeptManifest kept = kept_manifest();
    ChunkFile *file = &kept.tables[0]->chunks[0];
    const u64 length_said = length;
    memcpy(bytes + LENGTH_AT, &length_said, sizeof length_said);
    memcpy(&file->n_rows, bytes + ROWS_AT, sizeof file->n_rows);
    if (and_columns) sign_columns(bytes, length, file->n_rows);
    file->length = length;
    file->checksum = hash_bytes(bytes, MIN_OF(header_length(bytes), (u64)length));
    write_manifest(&kept);
    forget_manifest(&kept);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    store_target_begin();
    write_seed("whole", 0, kept_file(".chunk"), 0);
    write_seed("header", 1, kept_file(".chunk"), 0);
    write_seed("signed", 3, kept_file(".chunk"), 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    store_target_begin();
    if (size == 0 || size > STORE_INPUT_MOST) return 0;
    const StoreFile *kept = kept_file(".chunk");
    const size_t length = size - 1;
    u8 *bytes = malloc(length + 1);
    memcpy(bytes, data + 1, length);
    const bool is_signed = data[0] && length >= HEADER + STORE_STORED * COLUMN_HEADER;
    const bool is_whole = length == kept->length && memcmp(bytes, kept->bytes, length) == 0;
    make_store(kept->name, bytes, length);
    if (is_signed) {
        sign(bytes, length, data[0] & 2);
        write_file(kept->name, bytes, length);
    }
    const weft_status status = use_store(is_signed ? MAY_LIE : IS_TRUE);
    require(is_signed || is_whole == (status == WEFT_OK), "damage is found, and nothing else is called damage");
    free(bytes);
    return 0;
}
