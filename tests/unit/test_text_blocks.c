// test_text_blocks.c - texts in files: blocks that are read in place, damage, both formats, notes.

#include "test.h"

#include "store_help.h"

#include "store/text_blocks.h"

enum { N_TEXTS = 30000 };

// Of all kinds: short, empty, longer than a block, of several bytes a character; all different.
static weft_text make_text(u32 number, char *room, size_t capacity)
{
    if (number == 7)
        return (weft_text){ "", 0 };
    if (number == 100 || number == 20000) {
        memset(room, 'a' + (int)(number % 7), 70000);
        return (weft_text){ room, 70000 - number % 3 };
    }
    int length = snprintf(room, capacity, "%s %u %.*s", number % 3 ? "carefully final" : "über çäfé", number,
                          (int)(number % 40), "silent packages wake above the ideas; quickly");
    return (weft_text){ room, (size_t)length };
}

static void intern_texts(Dictionary *dict, u32 from, u32 to)
{
    static char room[80000];
    for (u32 i = from; i < to; i++) {
        weft_text text = make_text(i, room, sizeof(room));
        u32 code;
        CHECK_OK(dict_intern(dict, text.bytes, text.length, &code, &err), err);
        CHECK_INT(code, i);
    }
}

static void check_texts(const Dictionary *dict, u32 count)
{
    static char room[80000];
    CHECK_INT(dict_count(dict), count);
    int n_wrong = 0;
    for (u32 i = 0; i < count; i++) {
        weft_text text = make_text(i, room, sizeof(room)), got = dict_get(dict, i);
        n_wrong += got.length != text.length || memcmp(got.bytes, text.bytes, text.length) != 0 ||
                   got.bytes[got.length] != '\0';
    }
    CHECK_INT(n_wrong, 0);
}

static const char *dict_path(void)
{
    static char path[2048];
    snprintf(path, sizeof(path), "%s.dict", fresh_path());
    return path;
}

// A file that was written by three commits, the second of which has one text.
static DictFile write_file(const char *path)
{
    DictFile file = { .file_id = 1 }, changed;
    const u32 counts[] = { 1000, 1001, N_TEXTS };
    Dictionary *dict = dict_new(NULL);
    for (int i = 0; i < 3; i++) {
        intern_texts(dict, file.count, counts[i]);
        CHECK_OK(dict_file_extend(path, &file, dict, counts[i], &changed, &err), err);
        file = changed;
    }
    dict_release(dict);
    return file;
}

TEST(texts_of_several_commits_are_read_in_place)
{
    const char *path = dict_path();
    DictFile file = write_file(path);
    Dictionary *dict;
    Budget budget = { 0 };
    CHECK_OK(dict_file_open(path, &file, &budget, &dict, &err), err);
    CHECK_OK(dict_load(dict, &err), err);
    CHECK(budget.used < 100000);                            // a megabyte of texts takes no memory
    check_texts(dict, N_TEXTS);
    char room[256];
    u32 code;
    for (u32 i = 3; i < N_TEXTS; i += 1777) {               // without an index at first, then with one
        weft_text text = make_text(i, room, sizeof(room));
        CHECK(dict_find(dict, text.bytes, text.length, &code) && code == i);
        CHECK(!dict_find(dict, text.bytes, text.length - 1, &code));
    }
    CHECK(dict_find(dict, "", 0, &code) && code == 7);
    CHECK_OK(dict_status(dict, &err), err);
    dict_release(dict);
    CHECK_INT(budget.used, 0);
}

TEST(a_dictionary_goes_on_where_its_file_ends)
{
    const char *path = dict_path();
    DictFile file = write_file(path), changed;
    Dictionary *dict;
    for (int round = 0; round < 3; round++) {
        const u32 more = file.count + 600;
        CHECK_OK(dict_file_open(path, &file, NULL, &dict, &err), err);
        CHECK_OK(dict_load(dict, &err), err);
        intern_texts(dict, 0, more);                        // the old ones are found
        check_texts(dict, more);
        const u32 *ranks = dict_ranks(dict, more);
        CHECK_INT(ranks[7], 0);                             // the empty one
        CHECK_OK(dict_file_extend(path, &file, dict, more, &changed, &err), err);
        dict_release(dict);
        file = changed;
    }
    CHECK_OK(dict_file_open(path, &file, NULL, &dict, &err), err);
    CHECK_OK(dict_check_all(dict, &err), err);
    check_texts(dict, N_TEXTS + 1800);
    dict_release(dict);
}

TEST(runs_cover_all_texts)
{
    const char *path = dict_path();
    DictFile file = write_file(path);
    Dictionary *dict;
    CHECK_OK(dict_file_open(path, &file, NULL, &dict, &err), err);
    CHECK_OK(dict_load(dict, &err), err);
    intern_texts(dict, 0, N_TEXTS + 3000);
    u32 n_runs = 0, n_wrong = 0;
    for (u32 code = 0; code < dict_count(dict); n_runs++) {
        TextRun run;
        CHECK(dict_run(dict, code, &run));
        CHECK_INT(run.first, code);
        for (u32 i = 0; i < run.n_texts; i++) {
            weft_text text = dict_get(dict, code + i);
            n_wrong += run.bytes + text_run_offset(&run, i) != text.bytes ||
                       text_run_offset(&run, i + 1) - text_run_offset(&run, i) != text.length + 1;
        }
        CHECK_INT(text_run_offset(&run, run.n_texts), run.n_bytes);
        code = run.first + run.n_texts;
    }
    CHECK_INT(n_wrong, 0);
    CHECK(n_runs < 100);
    dict_release(dict);
}

// ---- damage --------------------------------------------------------------------------------------------------------

static weft_status use_file(const char *path, const DictFile *file)
{
    Dictionary *dict;
    error_clear(&err);
    TRY(dict_file_open(path, file, NULL, &dict, &err));
    weft_status status = dict_load(dict, &err);
    u64 n_bytes = 0;
    for (u32 i = 0; !status && i < dict_count(dict); i++)
        n_bytes += strlen(dict_get(dict, i).bytes);         // damaged or not, it may be read
    CHECK(n_bytes < 1 << 28);
    if (!status)
        status = dict_status(dict, &err);
    dict_release(dict);
    return status;
}

TEST(every_damaged_byte_is_found)
{
    const char *path = dict_path();
    DictFile file = write_file(path);
    Text bytes = { 0 };
    CHECK_OK(file_read_all(path, &bytes, &err), err);
    CHECK_INT(bytes.length, file.length);
    CHECK(file.length > 1 << 20);                           // not checked as a whole by dict_load
    CHECK_OK(use_file(path, &file), err);
    u64 state = 99;
    for (int round = 0; round < 60; round++) {
        u64 at = round < 40 ? random_next(&state) % bytes.length : bytes.length - 1 - (u64)(round - 40);
        char old = bytes.bytes[at];
        bytes.bytes[at] = (char)(old ^ (1 << round % 8));
        write_bytes(path, bytes.bytes, bytes.length);
        CHECK_STATUS(use_file(path, &file), WEFT_CORRUPT);
        CHECK_HAS(err.message, ".dict");
        bytes.bytes[at] = old;
    }
    write_bytes(path, bytes.bytes, bytes.length);
    CHECK_OK(use_file(path, &file), err);
    text_free(&bytes);
}

// As if written on purpose: the checksums are those of what stands there.
TEST(a_directory_with_wrong_numbers_never_crashes)
{
    const char *path = dict_path();
    DictFile file = { .file_id = 1 }, changed;
    Dictionary *dict = dict_new(NULL);
    intern_texts(dict, 0, 50);
    CHECK_OK(dict_file_extend(path, &file, dict, 50, &changed, &err), err);
    file = changed;
    dict_release(dict);
    Text good = { 0 };
    CHECK_OK(file_read_all(path, &good, &err), err);
    const u64 directory = 24 + 24;                          // one record and the end
    char *bad = malloc(good.length);
    u64 state = 4711;
    for (int round = 0; round < 2000; round++) {
        memcpy(bad, good.bytes, good.length);
        for (u64 n = random_next(&state) % 3 + 1; n > 0; n--)
            bad[good.length - 1 - random_next(&state) % directory] = (char)random_next(&state);
        if (round % 2)                                      // offsets, too
            bad[8 + random_next(&state) % 102] = (char)random_next(&state);
        const u64 n_offsets = 51 * 2, n_bytes = *(const u32 *)(const void *)(good.bytes + good.length - directory + 12);
        const u64 checksum = (hash_bytes(bad + 8, n_offsets) * 0x9E3779B185EBCA87u) ^
                             hash_bytes(bad + 8 + n_offsets, n_bytes);
        if (round % 4)
            memcpy(bad + good.length - directory + 16, &checksum, 8);
        DictFile as_if = file;
        as_if.checksum = hash_bytes(bad + good.length - directory, directory);
        write_bytes(path, bad, good.length);
        (void)use_file(path, &as_if);
    }
    free(bad);
    text_free(&good);
}

// ---- the first format ----------------------------------------------------------------------------------------------

static DictFile write_first_format(const char *path, u32 count)
{
    static char room[80000];
    Text bytes = { 0 };
    DictFile file = { .file_id = 1, .count = count };
    text_add_bytes(&bytes, "WEFTDIC1", 8);
    for (u32 i = 0; i < count; i++) {
        weft_text text = make_text(i, room, sizeof(room));
        u32 length = (u32)text.length;
        text_add_bytes(&bytes, (const char *)&length, sizeof(length));
        text_add_bytes(&bytes, text.bytes, text.length);
        u64 checksum = file.checksum;
        file.checksum = ((checksum << 23 | checksum >> 41) ^ hash_bytes(text.bytes, text.length)) *
                        0x9E3779B185EBCA87u;
    }
    file.length = bytes.length;
    write_bytes(path, bytes.bytes, bytes.length);
    text_free(&bytes);
    return file;
}

TEST(a_file_of_the_first_format_is_read_and_grows)
{
    const char *path = dict_path();
    DictFile file = write_first_format(path, 500), changed;
    Dictionary *dict;
    for (int round = 0; round < 2; round++) {
        const u32 more = file.count + 70;
        CHECK_OK(dict_file_open(path, &file, NULL, &dict, &err), err);
        CHECK_OK(dict_check_all(dict, &err), err);
        check_texts(dict, file.count);
        intern_texts(dict, 0, more);
        CHECK_OK(dict_file_extend(path, &file, dict, more, &changed, &err), err);
        dict_release(dict);
        file = changed;
    }
    CHECK_OK(use_file(path, &file), err);
    file.checksum ^= 1;
    CHECK_STATUS(use_file(path, &file), WEFT_CORRUPT);
}

// ---- notes ---------------------------------------------------------------------------------------------------------

static void put_note(Dictionary *dict, int number, u64 n_bytes, Dictionary *made)
{
    u8 *bytes = calloc(1, n_bytes);
    bytes[0] = (u8)number;
    dict_note_put(dict, 3, &number, sizeof(number), (DictNote){ bytes, n_bytes, made });
    free(bytes);
}

static const DictNote *find_note(Dictionary *dict, u32 count, int number)
{
    const DictNote *note = dict_note_find(dict, count, &number, sizeof(number));
    if (note)
        CHECK_INT(*(const u8 *)note->bytes, number);
    return note;
}

TEST(notes_stay_with_a_dictionary_until_there_is_no_room)
{
    Budget budget = { 0 };
    Dictionary *dict = dict_new(&budget), *made = dict_new(NULL);
    put_note(dict, 1, 20 << 20, made);
    dict_release(made);
    put_note(dict, 2, 20 << 20, NULL);
    const DictNote *held = find_note(dict, 3, 1);
    CHECK(held && held->made == made);
    CHECK(!find_note(dict, 4, 1));                          // of another snapshot
    CHECK(!find_note(dict, 3, 9));
    put_note(dict, 1, 20 << 20, NULL);                      // known already
    put_note(dict, 3, 20 << 20, NULL);
    put_note(dict, 4, 20 << 20, NULL);                      // 2 goes, which was used before the others
    CHECK(!find_note(dict, 3, 2));
    put_note(dict, 5, 20 << 20, NULL);
    put_note(dict, 6, 20 << 20, NULL);
    put_note(dict, 7, 100 << 20, NULL);                     // is too large
    CHECK(!find_note(dict, 3, 7));
    CHECK(budget.used <= 64 << 20);
    CHECK(find_note(dict, 3, 1) == held);                   // held all the time
    dict_note_release(dict, held);
    dict_note_release(dict, held);
    budget.limit = budget.used + 1000;
    put_note(dict, 8, 2000, NULL);                          // would take more than half of the memory
    CHECK(!find_note(dict, 3, 8));
    dict_release(dict);
    CHECK_INT(budget.used, 0);
}

TEST(notes_of_a_large_database_may_be_larger)
{
    Budget budget = { .limit = (i64)32 << 30 };             // of which a 256th is 128 MiB
    Dictionary *dict = dict_new(&budget);
    put_note(dict, 1, 60 << 20, NULL);
    put_note(dict, 2, 60 << 20, NULL);
    const DictNote *one = find_note(dict, 3, 1), *two = find_note(dict, 3, 2);
    CHECK(one && two);
    dict_note_release(dict, one);
    dict_note_release(dict, two);
    put_note(dict, 3, 60 << 20, NULL);
    CHECK(!find_note(dict, 3, 1));
    budget.limit = (i64)16 << 30;                           // a smaller limit holds from the next note on
    put_note(dict, 4, 60 << 20, NULL);
    CHECK(!find_note(dict, 3, 2) && !find_note(dict, 3, 3));
    CHECK(budget.used <= 64 << 20);
    dict_release(dict);
    CHECK_INT(budget.used, 0);
}
