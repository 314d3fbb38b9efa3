// test_dict.c - dictionaries: codes stay, many threads agree, ranks follow the bytes.

#include <pthread.h>

#include "test.h"

#include "store/store_int.h"

static u32 intern(Dictionary *dict, const char *text)
{
    u32 code = UINT32_MAX;
    Error err;
    error_clear(&err);
    CHECK_OK(dict_intern(dict, text, strlen(text), &code, &err), err);
    return code;
}

TEST(codes_count_from_0_in_order_of_first_use)
{
    Dictionary *dict = dict_new(NULL);
    CHECK_INT(intern(dict, "pear"), 0);
    CHECK_INT(intern(dict, ""), 1);
    CHECK_INT(intern(dict, "apple"), 2);
    CHECK_INT(intern(dict, "pear"), 0);
    CHECK_INT(dict_count(dict), 3);
    CHECK_STR(dict_get(dict, 2).bytes, "apple");
    CHECK_INT(dict_get(dict, 1).length, 0);
    CHECK_STR(dict_get(dict, 1).bytes, "");
    u32 code;
    CHECK(dict_find(dict, "apple", 5, &code) && code == 2);
    CHECK(!dict_find(dict, "appl", 4, &code));
    dict_release(dict);
}

TEST(many_texts_get_the_codes_that_they_get_one_by_one)
{
    enum { TEXTS = 3000 };
    static char bytes[TEXTS][16];
    static weft_text texts[TEXTS];
    static u32 codes[TEXTS];
    Dictionary *one = dict_new(NULL), *many = dict_new(NULL);
    Error err;
    error_clear(&err);
    CHECK_OK(dict_reserve(many, 100, &err), err);              // it grows on the way, too
    for (u32 t = 0; t < TEXTS; t++) {
        snprintf(bytes[t], sizeof(bytes[t]), "text %u", t * 7919 % 1999);
        texts[t] = (weft_text){ bytes[t], strlen(bytes[t]) };
    }
    CHECK_OK(dict_intern_many(many, texts, TEXTS, codes, &err), err);
    for (u32 t = 0; t < TEXTS; t++)
        CHECK_INT(codes[t], intern(one, bytes[t]));
    CHECK_INT(dict_count(many), 1999);
    texts[70].length = (size_t)TEXT_BYTES_MAX + 1;             // not even read
    CHECK_STATUS(dict_intern_many(many, texts, TEXTS, codes, &err), WEFT_TOO_LONG);
    CHECK_INT(dict_count(many), 1999);
    dict_release(one);
    dict_release(many);
}

TEST(an_empty_dictionary_finds_nothing)
{
    Dictionary *dict = dict_hold(dict_new(NULL));
    u32 code;
    CHECK(!dict_find(dict, "", 0, &code));
    CHECK(dict_ranks(dict, 0) != NULL);
    dict_release(dict);
    dict_release(dict);
    dict_release(NULL);
}

TEST(entries_never_move)
{
    enum { N = 100000 };
    Dictionary *dict = dict_new(NULL);
    static const char *seen[N];
    char text[32];
    for (u32 i = 0; i < N; i++) {
        snprintf(text, sizeof(text), "entry %u", i * 7919);
        CHECK_INT(intern(dict, text), i);
        seen[i] = dict_get(dict, i).bytes;
    }
    for (u32 i = 0; i < N; i++) {
        snprintf(text, sizeof(text), "entry %u", i * 7919);
        CHECK_STR(seen[i], text);
        CHECK(dict_get(dict, i).bytes == seen[i]);
        CHECK_INT(intern(dict, text), i);
    }
    dict_release(dict);
}

TEST(long_texts_fit)
{
    Dictionary *dict = dict_new(NULL);
    size_t length = 5 << 20;
    char *text = malloc(length);
    memset(text, 'x', length);
    u32 code;
    Error err;
    error_clear(&err);
    CHECK_OK(dict_intern(dict, text, length, &code, &err), err);
    CHECK_INT(dict_get(dict, code).length, length);
    CHECK_BYTES(dict_get(dict, code).bytes, text, length);
    CHECK_INT(dict_get(dict, code).bytes[length], 0);
    CHECK_STATUS(dict_intern(dict, text, (size_t)TEXT_BYTES_MAX + 1, &code, &err), WEFT_TOO_LONG);   // not even read
    free(text);
    dict_release(dict);
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

static void check_ranks(const Dictionary *dict, const u32 *ranks, u32 count)
{
    u32 *by_rank = malloc(sizeof(u32) * (count + 1));
    memset(by_rank, 0xFF, sizeof(u32) * (count + 1));
    for (u32 code = 0; code < count; code++) {
        CHECK(ranks[code] < count && by_rank[ranks[code]] == UINT32_MAX);
        by_rank[ranks[code]] = code;
    }
    for (u32 i = 1; i < count; i++) {
        weft_text a = dict_get(dict, by_rank[i - 1]), b = dict_get(dict, by_rank[i]);
        CHECK(compare_bytes(a.bytes, a.length, b.bytes, b.length) < 0);
    }
    free(by_rank);
}

// Texts of two bytes, one of which is 0, that begin alike: ends inside of a group of eight bytes, and beyond it.
TEST(ranks_of_texts_that_begin_alike)
{
    Dictionary *dict = dict_new(NULL);
    char text[400];
    u32 random = 1, code;
    Error err;
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        size_t shared = i % 4 == 0 ? 0 : i % 4 == 1 ? 8 : i % 4 == 2 ? 251 : 300;
        size_t length = shared + (random >> 8) % 21;
        for (size_t at = shared; at < length; at++) {
            random = random * 1664525u + 1013904223u;
            text[at] = (random >> 20 & 3) == 0 ? 'x' : '\0';
        }
        error_clear(&err);
        CHECK_OK(dict_intern(dict, text, length, &code, &err), err);
        memset(text, 'x', sizeof(text));
    }
    const u32 *ranks = dict_ranks(dict, dict_count(dict));
    check_ranks(dict, ranks, dict_count(dict));
    dict_ranks_release(dict, ranks);
    dict_release(dict);
}

TEST(ranks_follow_the_bytes_and_are_kept)
{
    Dictionary *dict = dict_new(NULL);
    char text[64];
    intern(dict, "");
    intern(dict, "\xC3\xA9");
    intern(dict, "common prefix, b");
    intern(dict, "common prefix, a");
    const u32 *first = dict_ranks(dict, 4);
    check_ranks(dict, first, 4);
    CHECK(dict_ranks(dict, 4) == first);
    dict_ranks_release(dict, first);
    for (u32 i = 0; i < 5000; i++) {
        snprintf(text, sizeof(text), "common prefix, %u", (i * 2654435761u) >> 8);
        intern(dict, text);
    }
    const u32 *later = dict_ranks(dict, dict_count(dict));
    check_ranks(dict, later, dict_count(dict));
    check_ranks(dict, first, 4);                            // still held once
    const u32 *between = dict_ranks(dict, 100);
    check_ranks(dict, between, 100);
    dict_ranks_release(dict, between);
    dict_ranks_release(dict, later);
    dict_ranks_release(dict, first);
    dict_ranks_release(dict, NULL);
    dict_release(dict);
}

TEST(released_ranks_do_not_pile_up)
{
    Budget budget = { 0 };
    Dictionary *dict = dict_new(&budget);
    char text[32];
    for (u32 i = 0; i < 20000; i++) {
        snprintf(text, sizeof(text), "%u", i);
        intern(dict, text);
    }
    i64 before = budget.used;
    for (u32 count = 10000; count < 10050; count++)
        dict_ranks_release(dict, dict_ranks(dict, count));
    CHECK(budget.used - before <= 2 * 4 * 10100);
    dict_release(dict);
    CHECK_INT(budget.used, 0);
}

TEST(ranks_that_do_not_fit_are_in_files_of_a_query_that_spills)
{
    enum { N = 30000 };
    TempSpace *space = temp_new("/tmp");
    Budget all = { 0 };
    Budget query = { .parent = &all };
    Dictionary *dict = dict_new(&all);
    char text[32];
    const u32 *ranks;
    Error err;
    for (u32 i = 0; i < N; i++) {
        snprintf(text, sizeof(text), "%u", i * 7919 % N);
        intern(dict, text);
    }
    i64 used = all.used;
    all.limit = used + 1000;
    error_clear(&err);
    CHECK_STATUS(dict_get_ranks(dict, N, (RanksWith){ .budget = &query }, &ranks, &err), WEFT_OUT_OF_MEMORY);
    CHECK(query.was_refused);                               // so the query is run again
    query.temp = space;
    error_clear(&err);
    CHECK_OK(dict_get_ranks(dict, N, (RanksWith){ .budget = &query }, &ranks, &err), err);
    check_ranks(dict, ranks, N);
    CHECK(temp_used(space) > N * 4 && dict_has_ranks(dict, N));
    dict_ranks_release(dict, ranks);
    CHECK(temp_used(space) == 0 && !dict_has_ranks(dict, N));
    CHECK_INT(all.used, used);
    dict_release(dict);
    temp_free(space);
}

// ---- memory --------------------------------------------------------------------------------------------------------

TEST(a_failed_intern_changes_nothing)
{
    Budget budget = { 0 };
    for (i64 nth = 1;; nth++) {
        Dictionary *dict = dict_new(&budget);
        char text[32];
        u32 code, n_failed = 0;
        Error err;
        fault_set(FAULT_MEMORY, nth, false);
        for (u32 i = 0; i < 3000; i++) {
            error_clear(&err);
            snprintf(text, sizeof(text), "some text %u", i);
            u32 count = dict_count(dict);
            if (dict_intern(dict, text, strlen(text), &code, &err)) {
                n_failed++;
                CHECK_STATUS(err.status, WEFT_OUT_OF_MEMORY);
                CHECK_INT(dict_count(dict), count);
                CHECK(!dict_find(dict, text, strlen(text), &code));
                error_clear(&err);
                CHECK_OK(dict_intern(dict, text, strlen(text), &code, &err), err);
            }
            CHECK_INT(code, i);
        }
        bool is_done = fault_count(FAULT_MEMORY) < nth;
        fault_set(FAULT_MEMORY, 0, false);
        dict_release(dict);
        CHECK_INT(budget.used, 0);
        if (is_done)
            break;
        CHECK_INT(n_failed, 1);
    }
}

TEST(ranks_without_memory_are_null)
{
    Dictionary *dict = dict_new(NULL);
    intern(dict, "a");
    for (int nth = 1; nth <= 2; nth++) {
        fault_set(FAULT_MEMORY, nth, false);
        CHECK(dict_ranks(dict, 1) == NULL);
    }
    fault_set(FAULT_MEMORY, 0, false);
    CHECK(dict_ranks(dict, 1) != NULL);
    dict_release(dict);
}

// ---- threads -------------------------------------------------------------------------------------------------------

enum { N_THREADS = 4, N_TEXTS = 40000 };

typedef struct Worker {
    Dictionary *dict;
    u32         start;
    u32         codes[N_TEXTS];
    int         n_wrong;
} Worker;

static void *intern_all(void *context)
{
    Worker *worker = context;
    for (u32 n = 0; n < N_TEXTS; n++) {
        u32 i = (n + worker->start) % N_TEXTS, code;
        char text[32];
        size_t length = (size_t)snprintf(text, sizeof(text), "text %u", i);
        if (dict_intern(worker->dict, text, length, &code, NULL) || code >= dict_count(worker->dict)) {
            worker->n_wrong++;
            continue;
        }
        worker->codes[i] = code;
        weft_text back = dict_get(worker->dict, code);
        if (back.length != length || memcmp(back.bytes, text, length) != 0)
            worker->n_wrong++;
    }
    return NULL;
}

TEST(threads_agree_on_codes)
{
    Dictionary *dict = dict_new(NULL);
    static Worker workers[N_THREADS];
    pthread_t threads[N_THREADS];
    for (u32 i = 0; i < N_THREADS; i++) {
        workers[i] = (Worker){ .dict = dict, .start = i % 2 * (N_TEXTS / 2) };
        CHECK_INT(pthread_create(&threads[i], NULL, intern_all, &workers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(dict_count(dict), N_TEXTS);
    for (int i = 0; i < N_THREADS; i++) {
        CHECK_INT(workers[i].n_wrong, 0);
        CHECK_BYTES(workers[i].codes, workers[0].codes, sizeof(workers[0].codes));
    }
    dict_release(dict);
}
