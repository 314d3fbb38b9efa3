// test_merge.c - groups of several workers merged by several threads hold what they hold merged by one.

#include <stdlib.h>

#include "test.h"
#include "device/merge.h"
#include "engine/network.h"

enum { ADD, LEAST, MOST, LOW, HIGH, SEEN, LEAST_REAL, N_STATE };

static StateSlot slots[N_STATE] = {
    [ADD] = { .kind = SLOT_ADD, .bytes = 8 },       [LEAST] = { .kind = SLOT_MIN, .bytes = 8 },
    [MOST] = { .kind = SLOT_MAX, .bytes = 8 },      [LOW] = { .kind = SLOT_WIDE_LOW, .bytes = 8 },
    [HIGH] = { .kind = SLOT_WIDE_HIGH, .bytes = 8 }, [SEEN] = { .kind = SLOT_SEEN, .bytes = 1 },
    [LEAST_REAL] = { .kind = SLOT_MIN_F64, .bytes = 8 },
};

#define N_SETS   5
#define N_KEYS   60000
#define N_WORDS  2

static Network *network;
static Budget   budget;

// ---- what workers may leave -----------------------------------------------------------------------------------------

static i64 value_of(int set, u64 key) { return (i64)(key * 31 % 1009) - 500 + set * 7; }

static void fill_group(GroupSet *set, int number, u64 at, u64 key)
{
    const i64 value = value_of(number, key);
    ((i64 *)set->state[ADD])[at] = ((i64 *)set->state[LEAST])[at] = ((i64 *)set->state[MOST])[at] = value;
    ((u64 *)set->state[LOW])[at] = UINT64_MAX - key;           // two of them carry
    ((i64 *)set->state[HIGH])[at] = value;
    ((u8 *)set->state[SEEN])[at] = 1;
    ((double *)set->state[LEAST_REAL])[at] = (double)value / 4;
}

static GroupSet make_set(const Woven *woven, int number, u64 n_groups)
{
    GroupSet set = { .n_groups = n_groups, .state = calloc(N_STATE, sizeof(void *)) };
    u64     *keys = calloc(n_groups + 1, 8), *words = calloc(n_groups + 1, 8 * N_WORDS);
    for (int s = 0; s < N_STATE; s++) set.state[s] = calloc(n_groups + 1, 8);
    for (u64 g = 0; g < n_groups; g++) {
        const u64 key = (g * 7 + (u64)number * 1000) % N_KEYS; // every worker has them in an order of its own
        keys[g] = woven->is_one_word ? key * 977 : key % 5000; // words: several keys of one hash
        words[g * N_WORDS] = key, words[g * N_WORDS + 1] = key / 3;
        fill_group(&set, number, g, key);
    }
    set.keys = keys, set.words = woven->is_one_word ? NULL : words;
    if (woven->is_one_word) free(words);
    return set;
}

static void free_set(GroupSet *set)
{
    for (int s = 0; s < N_STATE; s++) free(set->state[s]);
    free(set->state), free((void *)(uintptr_t)set->keys), free((void *)(uintptr_t)set->words);
}

// ---- what must come out ---------------------------------------------------------------------------------------------

typedef struct Expected { i64 sum, least, most; u128 wide; int n_sets; } Expected;

static void expect(Expected *expected, u64 n_groups)
{
    for (int n = 0; n < N_SETS; n++)
        for (u64 g = 0; g < n_groups; g++) {
            const u64 key = (g * 7 + (u64)n * 1000) % N_KEYS;
            Expected *e = &expected[key];
            const i64 value = value_of(n, key);
            e->least = e->n_sets ? MIN_OF(e->least, value) : value;
            e->most = e->n_sets ? MAX_OF(e->most, value) : value;
            e->sum += value;
            e->wide += (u128)(u64)value << 64 | (UINT64_MAX - key);
            e->n_sets++;
        }
}

static u64 key_in(const Woven *woven, const GroupSet *set, u64 group)
{
    return woven->is_one_word ? set->keys[group] / 977 : set->words[group * N_WORDS];
}

static void check_group(const GroupSet *set, u64 g, const Expected *e)
{
    CHECK_INT(((i64 *)set->state[ADD])[g], e->sum);
    CHECK_INT(((i64 *)set->state[LEAST])[g], e->least);
    CHECK_INT(((i64 *)set->state[MOST])[g], e->most);
    CHECK_INT(((u64 *)set->state[LOW])[g], (u64)e->wide);
    CHECK_INT(((i64 *)set->state[HIGH])[g], (i64)(e->wide >> 64));
    CHECK_INT(((u8 *)set->state[SEEN])[g], 1);
    CHECK_DOUBLE(((double *)set->state[LEAST_REAL])[g], (double)e->least / 4, 0);
}

static void check_merged(const Woven *woven, const GroupSet *merged, Expected *expected)
{
    u64 n_expected = 0;
    for (u64 key = 0; key < N_KEYS; key++) n_expected += expected[key].n_sets > 0;
    CHECK_INT(merged->n_groups, n_expected);
    for (u64 g = 0; g < merged->n_groups; g++) {
        Expected *e = &expected[key_in(woven, merged, g)];
        CHECK(e->n_sets > 0);                                  // each key once
        check_group(merged, g, e);
        e->n_sets = -e->n_sets;
    }
    for (u64 key = 0; key < N_KEYS; key++) expected[key].n_sets = abs(expected[key].n_sets);
}

static void begin(const Woven *woven, GroupSet *sets, u64 n_groups)
{
    network = network_new(7), budget = (Budget){ 0 };
    for (int n = 0; n < N_SETS; n++) sets[n] = make_set(woven, n, n_groups);
}

static void end(GroupSet *sets)
{
    CHECK_INT(budget.used, 0);
    for (int n = 0; n < N_SETS; n++) free_set(&sets[n]);
    network_free(network);
}

static Woven woven_of(bool is_one_word)
{
    return (Woven){ .state = slots, .n_state = N_STATE, .group_kind = GROUP_HASH, .is_one_word = is_one_word,
                    .n_words = N_WORDS };
}

static void merge_with_threads(bool is_one_word, u64 n_groups)
{
    static const int thread_counts[] = { 1, 2, 4, 7 };
    const Woven      woven = woven_of(is_one_word);
    GroupSet         sets[N_SETS], merged;
    Expected        *expected = calloc(N_KEYS, sizeof *expected);
    begin(&woven, sets, n_groups);
    expect(expected, n_groups);
    for (int t = 0; t < COUNT_OF(thread_counts); t++) {
        const Team team = { network_helpers(network), thread_counts[t], NULL };
        Error      error;
        error_clear(&error);
        CHECK_OK(groups_merge(&team, &woven, &budget, sets, N_SETS, &merged, &error), error);
        check_merged(&woven, &merged, expected);
        groups_free(&woven, &budget, &merged);
    }
    end(sets);
    free(expected);
}

TEST(groups_of_one_word) { merge_with_threads(true, 40000); }
TEST(groups_of_words_with_the_same_hash) { merge_with_threads(false, 40000); }
TEST(few_groups) { merge_with_threads(true, 3); }
TEST(no_groups) { merge_with_threads(false, 0); }

TEST(groups_of_an_array)
{
    const Woven woven = woven_of(true);
    const u64   n_groups = 70001;
    for (int n_threads = 1; n_threads <= 7; n_threads += 3) {
        GroupSet sets[N_SETS];
        begin(&woven, sets, n_groups);
        for (int n = 0; n < N_SETS; n++)
            for (u64 g = 0; g < n_groups; g++) fill_group(&sets[n], n, g, g);
        CHECK(groups_add(&(Team){ network_helpers(network), n_threads, NULL }, &woven, sets, N_SETS));
        for (u64 g = 0; g < n_groups; g++) {
            i64 sum = 0;
            for (int n = 0; n < N_SETS; n++) sum += value_of(n, g);
            CHECK_INT(((i64 *)sets[0].state[ADD])[g], sum);
            CHECK_INT(((i64 *)sets[0].state[LEAST])[g], value_of(0, g));
            CHECK_INT(((i64 *)sets[0].state[MOST])[g], value_of(N_SETS - 1, g));
        }
        end(sets);
    }
}

TEST(a_merge_ends_early_and_leaves_nothing)
{
    const Woven woven = woven_of(true);
    GroupSet    sets[N_SETS], merged;
    Error       error;
    _Atomic u32 stop = 1;
    begin(&woven, sets, 40000);
    error_clear(&error);
    const Team stopped = { network_helpers(network), 4, &stop };
    CHECK_STATUS(groups_merge(&stopped, &woven, &budget, sets, N_SETS, &merged, &error), WEFT_QUERY_CANCELED);
    CHECK_INT(budget.used, 0);
    int n_refused = 0;
    for (budget.limit = 1000; ; budget.limit += 700000) {
        error_clear(&error);
        const Team team = { network_helpers(network), 4, NULL };
        if (!groups_merge(&team, &woven, &budget, sets, N_SETS, &merged, &error)) break;
        CHECK_INT(error.status, WEFT_OUT_OF_MEMORY);
        CHECK_INT(budget.used, 0);
        n_refused++;
    }
    CHECK(n_refused > 5);              // in different steps
    groups_free(&woven, &budget, &merged);
    end(sets);
}
