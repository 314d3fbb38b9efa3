// test_chains.c - rows chained by several threads are chained as by one.
//
// Every case is made with 1, 2, 4 and 7 threads and compared: heads and chains must be the same, and of hash tables
// what is found for each key.  Then the ways to end early: stopped in the middle, no memory in the middle.

#include <stdlib.h>

#include "test.h"
#include "engine/chains.h"
#include "engine/network.h"

#define ROWS      150000
#define SPAN      400000u
#define N_THREADS 4

static const int thread_counts[N_THREADS] = { 1, 2, 4, 7 };

typedef struct Made { u32 *heads, *next; u8 *bits; KernelSlot *slots; Chains chains; } Made;

static Network *network;
static Budget   budget;

static void begin(void) { network = network_new(7), budget = (Budget){ 0 }; }

static void end(void)
{
    CHECK_INT(budget.used, 0);         // nothing was left
    network_free(network);
}

static Made make_room(u64 n_rows, int n_threads, const _Atomic u32 *stop)
{
    Made made = { .heads = calloc(SPAN, sizeof(u32)),
                  .next = calloc(n_rows + 1, sizeof(u32)),
                  .bits = calloc(SPAN / 8 + 8, 1),
                  .slots = calloc(1 << 19, sizeof(KernelSlot)) };
    made.chains = (Chains){ .team = { network_helpers(network), n_threads, stop },
                            .budget = &budget,
                            .n_rows = n_rows,
                            .next = made.next };
    return made;
}

static void free_made(Made *made) { free(made->heads), free(made->next), free(made->bits), free(made->slots); }

// ---- keys of several kinds ------------------------------------------------------------------------------------------

typedef enum Kind { DENSE, SHUFFLED, FEW, ONE, SKEWED, N_KINDS } Kind;

static u32 key_of(Kind kind, u32 row)
{
    const u32 mixed = row * 2654435761u;
    switch (kind) {
        case DENSE: return row;
        case SHUFFLED: return (u32)((u64)row * 7919 % ROWS);   // a permutation: 7919 is a prime that divides no ROWS
        case FEW: return mixed % 97;
        case ONE: return 5;
        default: return row % 3 ? 11 : mixed % SPAN;
    }
}

static void fill_keys(Kind kind, u32 *places, u64 *keys)
{
    for (u32 r = 0; r < ROWS; r++) places[r] = key_of(kind, r), keys[r] = places[r] * (u64)1000003;
}

// ---- the same, whoever makes it -------------------------------------------------------------------------------------

static const KernelSlot *find(const Made *made, u64 key, const u64 *words, u64 row, int n_words, u64 mask)
{
    u64 at = HASH_SLOT(key) & mask;
    for (;; at = (at + 1) & mask) {
        const KernelSlot *slot = &made->slots[at];
        CHECK(slot->row != 0);
        if (slot->key != key) continue;
        if (!words || !memcmp(words + (slot->row - 1) * (u64)n_words, words + row * (u64)n_words, 8 * (size_t)n_words))
            return slot;
    }
}

static void check_places(Kind kind, const u32 *places, Made *one, Made *made)
{
    Error error;
    error_clear(&error);
    CHECK_OK(chains_set_bits(&made->chains, places, made->bits, SPAN, &error), error);
    const u64 n_distinct = made->chains.n_distinct;
    CHECK_OK(chains_by_place(&made->chains, places, made->heads, SPAN, &error), error);
    CHECK_INT(made->chains.n_distinct, n_distinct);
    CHECK_INT(made->chains.n_distinct, one->chains.n_distinct);
    CHECK_INT(made->chains.longest, one->chains.longest);
    CHECK_BYTES(made->heads, one->heads, SPAN * sizeof(u32));
    CHECK_BYTES(made->next, one->next, ROWS * sizeof(u32));
    CHECK_BYTES(made->bits, one->bits, SPAN / 8);
    if (kind == ONE) CHECK_INT(made->chains.longest, ROWS);
    if (kind == DENSE || kind == SHUFFLED) CHECK_INT(made->chains.longest, 1);
}

static void check_hashed(const u64 *keys, const u64 *words, int n_words, Made *one, Made *made)
{
    Error error;
    error_clear(&error);
    memset(made->next, 0, ROWS * sizeof(u32));
    CHECK_OK(chains_by_hash(&made->chains, keys, words, n_words, made->slots, 1 << 19, &error), error);
    CHECK_INT(made->chains.n_distinct, one->chains.n_distinct);
    CHECK_INT(made->chains.longest, one->chains.longest);
    CHECK_BYTES(made->next, one->next, ROWS * sizeof(u32));
    for (u64 r = 0; r < ROWS; r += 1 + r % 3)
        CHECK_INT(find(made, keys[r], words, r, n_words, (1 << 19) - 1)->row,
                  find(one, keys[r], words, r, n_words, (1 << 19) - 1)->row);
}

TEST(chains_do_not_depend_on_threads)
{
    u32 *places = calloc(ROWS, sizeof *places);
    u64 *keys = calloc(ROWS, sizeof *keys);
    begin();
    for (Kind kind = 0; kind < N_KINDS; kind++) {
        fill_keys(kind, places, keys);
        Made  one = make_room(ROWS, 1, NULL), one_hashed = make_room(ROWS, 1, NULL);
        Error error;
        error_clear(&error);
        CHECK_OK(chains_set_bits(&one.chains, places, one.bits, SPAN, &error), error);
        CHECK_OK(chains_by_place(&one.chains, places, one.heads, SPAN, &error), error);
        CHECK_OK(chains_by_hash(&one_hashed.chains, keys, NULL, 0, one_hashed.slots, 1 << 19, &error), error);
        CHECK_BYTES(one.next, one_hashed.next, ROWS * sizeof(u32));            // the same rows have the same key
        for (int t = 0; t < N_THREADS; t++) {
            Made made = make_room(ROWS, thread_counts[t], NULL);
            check_places(kind, places, &one, &made);
            check_hashed(keys, NULL, 0, &one_hashed, &made);
            free_made(&made);
        }
        free_made(&one), free_made(&one_hashed);
    }
    end();
    free(places), free(keys);
}

// One row of 40 has one of few hashes, and its words alone say which key it has.
TEST(words_tell_keys_apart)
{
    const u64 n_rows = 70000;
    u64      *keys = calloc(ROWS, sizeof *keys), *words = calloc(2 * ROWS, sizeof *words);
    begin();
    for (u64 r = 0; r < ROWS; r++) {
        keys[r] = r % 8 + r / n_rows * 1000 + (r % 40 ? r : 0);
        words[2 * r] = keys[r] % 8, words[2 * r + 1] = r % 40 ? keys[r] : r % 80;
    }
    Made  one = make_room(ROWS, 1, NULL);
    Error error;
    error_clear(&error);
    CHECK_OK(chains_by_hash(&one.chains, keys, words, 2, one.slots, 1 << 19, &error), error);
    for (int t = 0; t < N_THREADS; t++) {
        Made made = make_room(ROWS, thread_counts[t], NULL);
        check_hashed(keys, words, 2, &one, &made);
        free_made(&made);
    }
    free_made(&one);
    end();
    free(keys), free(words);
}

// All keys begin in the last slots of a slice, or of the table, so that most are left over and some go round the end.
TEST(rows_go_on_into_the_next_slice)
{
    const u64 n_rows = 70000, n_slots = 1 << 18, most_homes = n_slots - 64;
    u64      *keys = calloc(n_rows, sizeof *keys);
    u64       n_keys = 0;
    Made      made[2];
    begin();
    for (u64 key = 0; n_keys < 200; key++)
        if ((HASH_SLOT(key) & (n_slots - 1)) >= most_homes) keys[n_keys++] = key;
    for (u64 r = n_keys; r < n_rows; r++) keys[r] = keys[r % n_keys];
    for (int t = 0; t < 2; t++) {
        Error error;
        error_clear(&error);
        made[t] = make_room(n_rows, t ? 4 : 1, NULL);
        CHECK_OK(chains_by_hash(&made[t].chains, keys, NULL, 0, made[t].slots, n_slots, &error), error);
        CHECK_INT(made[t].chains.n_distinct, 200);
        CHECK_INT(made[t].chains.longest, n_rows / 200);
    }
    CHECK_BYTES(made[1].next, made[0].next, n_rows * sizeof(u32));
    for (u64 k = 0; k < 200; k++) CHECK_INT(find(&made[1], keys[k], NULL, 0, 0, n_slots - 1)->row, k + 1);
    CHECK(made[1].slots[0].row != 0);  // round the end
    free_made(&made[0]), free_made(&made[1]);
    end();
    free(keys);
}

// ---- ends before the end --------------------------------------------------------------------------------------------

TEST(a_stop_is_seen_and_leaves_nothing)
{
    u32        *places = calloc(ROWS, sizeof *places);
    u64        *keys = calloc(ROWS, sizeof *keys);
    _Atomic u32 stop = 1;
    begin();
    fill_keys(SHUFFLED, places, keys);
    for (int t = 0; t < N_THREADS; t++) {
        Made  made = make_room(ROWS, thread_counts[t], &stop);
        Error error;
        error_clear(&error);
        CHECK_STATUS(chains_set_bits(&made.chains, places, made.bits, SPAN, &error), WEFT_QUERY_CANCELED);
        error_clear(&error);
        CHECK_STATUS(chains_by_place(&made.chains, places, made.heads, SPAN, &error), WEFT_QUERY_CANCELED);
        error_clear(&error);
        CHECK_STATUS(chains_by_hash(&made.chains, keys, NULL, 0, made.slots, 1 << 19, &error), WEFT_QUERY_CANCELED);
        CHECK_STR(error.sqlstate, "57014");
        free_made(&made);
    }
    end();
    free(places), free(keys);
}

TEST(a_memory_limit_is_met_in_the_middle)
{
    u32 *places = calloc(ROWS, sizeof *places);
    u64 *keys = calloc(ROWS, sizeof *keys);
    begin();
    fill_keys(SHUFFLED, places, keys);
    for (i64 limit = 1000; limit < ROWS * 16; limit = limit * 3 / 2) {
        Made  made = make_room(ROWS, 4, NULL);
        Error error;
        error_clear(&error);
        budget.limit = limit;
        CHECK_STATUS(chains_by_place(&made.chains, places, made.heads, SPAN, &error), WEFT_OUT_OF_MEMORY);
        error_clear(&error);
        CHECK_STATUS(chains_by_hash(&made.chains, keys, NULL, 0, made.slots, 1 << 19, &error), WEFT_OUT_OF_MEMORY);
        CHECK_STR(error.sqlstate, "53200");
        CHECK_INT(budget.used, 0);
        free_made(&made);
    }
    budget.limit = 0;
    end();
    free(places), free(keys);
}
