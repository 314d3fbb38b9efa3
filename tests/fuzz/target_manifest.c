// target_manifest.c - a database whose manifest, or whose file of views, is any bytes.
//
// Byte 0 chooses: bit 0 the file of views, bit 1 without a checksum of ours.  The rest is the file, but for its
// checksum.

#include "store_target.h"

enum { VERSION_PLACE = 7, VERSION_OF_CHAR = '9' };

// Varchars of some lengths in files before format 9 become text (src/store/manifest.c).
static bool may_lose_a_limit(const KeptManifest *manifest, char version)
{
    for (int t = 0; t < manifest->n_tables && version < VERSION_OF_CHAR; t++)
        for (int c = 0; c < manifest->tables[t]->n_columns; c++)
            if (manifest->tables[t]->columns[c].type.kind == TYPE_TEXT) return true;
    return false;
}

// What can be decoded is encoded to the same bytes, but for the version.
static void check_round(const char *bytes, size_t length)
{
    KeptManifest read = { .arena = arena_new(NULL, "fuzz") };
    Text again = { 0 };
    Error err;
    error_clear(&err);
    const weft_status status = manifest_decode("manifest", bytes, length, read.arena, &read.tables, &read.n_tables,
                                               &read.next_id, &err);
    require_told(status, &err);
    if (!status)
        manifest_encode((const TableMeta *const *)read.tables, read.n_tables, read.next_id, manifest_has_views(bytes),
                        &again);
    // The least version that can say it all is written; one that was written so is the same again.
    const bool is_same = !status && again.length == length && memcmp(again.bytes, bytes, length) == 0;
    if (!status && again.bytes[VERSION_PLACE] == (char)bytes[VERSION_PLACE])
        require(is_same || may_lose_a_limit(&read, bytes[VERSION_PLACE]), "a manifest is written as it was");
    text_free(&again);
    forget_manifest(&read);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    store_target_begin();
    write_seed("manifest", 0, kept_file("manifest"), sizeof(u64));
    write_seed("unsigned", 2, kept_file("manifest"), 0);
    write_seed("views", 1, kept_file("views"), sizeof(u64));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    store_target_begin();
    if (size == 0 || size > STORE_INPUT_MOST) return 0;
    const bool is_views = data[0] & 1, is_signed = !(data[0] & 2);
    Text text = { 0 };
    text_add_bytes(&text, (const char *)data + 1, size - 1);
    const u64 checksum = hash_bytes(text.bytes ? text.bytes : "", text.length);
    if (is_signed) text_add_bytes(&text, (const char *)&checksum, sizeof checksum);
    const char *bytes = text.bytes ? text.bytes : "";
    if (!is_views) check_round(bytes, text.length);
    make_store(is_views ? "views" : "manifest", bytes, text.length);
    (void)use_store(IS_TRUE);
    text_free(&text);
    return 0;
}
