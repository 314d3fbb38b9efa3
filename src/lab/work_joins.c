// work_joins.c - work of kernels that join: nested loops, partitioned hash join, and build and probe of a table in
// global memory, of which queries are made.

#include "lab/work.h"

extern const char lab_nested_loop_join_text[], lab_hash_join_text[], lab_hash_build_text[], lab_hash_probe_text[];

static u64 item_count(const WorkSize *size)
{
    return (u64)size->n_threads * (u64)size->items;
}

// ---- nested-loop join -----------------------------------------------------------------------------------------------

enum { INNER_ROWS = 16384 };

// ITEMS are comparisons: a thread has ITEMS / INNER_ROWS rows, or one row and fewer to compare it with.
static void make_nested_loop_join(LabWork *work, const WorkSize *size)
{
    const u32 n_s = (u32)MIN_OF(size->items, INNER_ROWS), n_r = (u32)(item_count(size) / n_s);
    const u32 *r = work_input_numbers(work, 0, n_r, 2 * n_s), *s = work_input_numbers(work, 1, n_s, 2 * n_s);
    const WorkPairs pairs = work_pairs(r, n_r, s, n_s, 2 * n_s);
    work->n[0] = n_r;
    work->n[1] = n_s;
    work->n[2] = pairs.n;                                   // room in the output
    work->out_bytes[0] = pairs.n * sizeof(u64);
    work->out_bytes[1] = sizeof(u64);
}

static weft_status check_nested_loop_join(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *r = work->in[0], *s = work->in[1], n_r = (u32)work->n[0], n_s = (u32)work->n[1];
    const WorkPairs should = work_pairs(r, n_r, s, n_s, 2 * n_s);
    return work_check_pairs(work, &should, r, n_r, s, n_s, out[0], *(const u64 *)out[1], err);
}

const WorkKind work_nested_loop_join = {
    "nested_loop_join", "nested_loop_join", lab_nested_loop_join_text, 8 * INNER_ROWS, 4096,
    make_nested_loop_join, check_nested_loop_join,
};

// ---- hash join ------------------------------------------------------------------------------------------------------

enum { PART_ROWS_R = 512, PART_ROWS_S = 2048, PART_KEYS = 1024 };   // on average; a table has 2,048 slots

// Rows of partition p have keys p * PART_KEYS to (p + 1) * PART_KEYS - 1, as after a radix partition.
static u32 *make_side(LabWork *work, int i, u32 n_parts, u32 mean_rows, u32 *n_rows)
{
    u32 *ends = work_input(work, i + 2, n_parts * sizeof *ends), n = 0;
    for (u32 p = 0; p < n_parts; p++)
        ends[p] = n += mean_rows / 2 + work_random_below(work, mean_rows);
    u32 *keys = work_input(work, i, n * sizeof *keys);
    for (u32 p = 0, row = 0; p < n_parts; p++)
        for (; row < ends[p]; row++)
            keys[row] = p * PART_KEYS + work_random_below(work, PART_KEYS);
    *n_rows = n;
    return keys;
}

static void make_hash_join(LabWork *work, const WorkSize *size)
{
    const u32 n_parts = (u32)MAX_OF(item_count(size) / (PART_ROWS_R + PART_ROWS_S), 1);
    u32 n_r, n_s;
    const u32 *r = make_side(work, 0, n_parts, PART_ROWS_R, &n_r), *s = make_side(work, 1, n_parts, PART_ROWS_S, &n_s);
    const WorkPairs pairs = work_pairs(r, n_r, s, n_s, n_parts * PART_KEYS);
    work->n[0] = n_parts;
    work->n[1] = pairs.n;
    work->out_bytes[0] = pairs.n * sizeof(u64);
    work->out_bytes[1] = sizeof(u64);
}

static weft_status check_hash_join(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 n_parts = (u32)work->n[0];
    const u32 *r = work->in[0], *s = work->in[1];
    const u32 n_r = ((const u32 *)work->in[2])[n_parts - 1], n_s = ((const u32 *)work->in[3])[n_parts - 1];
    const WorkPairs should = work_pairs(r, n_r, s, n_s, n_parts * PART_KEYS);
    return work_check_pairs(work, &should, r, n_r, s, n_s, out[0], *(const u64 *)out[1], err);
}

const WorkKind work_hash_join = {
    "hash_join", "hash_join", lab_hash_join_text, 4096, 64, make_hash_join, check_hash_join,
};

// ---- build and probe ------------------------------------------------------------------------------------------------

static u64 slot_count(u64 n_rows)
{
    u64 n = 64;
    while (n < 2 * n_rows)
        n *= 2;
    return n;
}

// Keys 1 to n, shuffled by a multiplication that loses none.
static void make_keys(LabWork *work, int keys_at, int values_at, u64 n)
{
    u32 *keys = work_input(work, keys_at, n * sizeof *keys);
    for (u64 i = 0; i < n; i++)
        keys[i] = (u32)i + 1;
    for (u64 i = n; i > 1; i--) {
        const u64 other = work_random_below(work, (u32)i);
        const u32 key = keys[i - 1];
        keys[i - 1] = keys[other];
        keys[other] = key;
    }
    work_input_numbers(work, values_at, n, 1000);
}

static void make_hash_build(LabWork *work, const WorkSize *size)
{
    work->n[0] = item_count(size);
    work->n[1] = slot_count(work->n[0]);
    make_keys(work, 0, 1, work->n[0]);
    work->out_bytes[0] = work->n[1] * sizeof(u64);
}

// Every key is where a search finds it, with its value, and nothing else is in the table.
static weft_status check_hash_build(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *keys = work->in[0], *values = work->in[1];
    const u64 *slots = out[0], n_slots = work->n[1];
    u64 n_used = 0;
    for (u64 i = 0; i < n_slots; i++)
        n_used += slots[i] != 0;
    if (n_used != work->n[0])
        return work_differs(work, "used slots", n_used, (double)n_used, (double)work->n[0], err);
    for (u64 i = 0; i < work->n[0]; i++) {
        u64 slot = (u64)(keys[i] * 0x9e3779b1u) * n_slots >> 32;
        while (slots[slot] && slots[slot] >> 32 != keys[i])
            slot = (slot + 1) & (n_slots - 1);
        if ((u32)slots[slot] != values[i] || !slots[slot])
            return work_differs(work, "value of row", i, (double)(u32)slots[slot], values[i], err);
    }
    return WEFT_OK;
}

const WorkKind work_hash_build = {
    "hash_build", "hash_build", lab_hash_build_text, 1024, 16, make_hash_build, check_hash_build,
};

// The table of keys 1 to n, as hash_build leaves it.
static void make_table(LabWork *work, int at, u64 n)
{
    const u64 n_slots = slot_count(n);
    u64 *slots = work_input(work, at, n_slots * sizeof *slots);
    for (u64 key = 1; key <= n; key++) {
        u64 slot = (u64)((u32)key * 0x9e3779b1u) * n_slots >> 32;
        while (slots[slot])
            slot = (slot + 1) & (n_slots - 1);
        slots[slot] = key << 32 | work_random_below(work, 1000);
    }
}

// Half of the keys are in the table.
static void make_probe(LabWork *work, const WorkSize *size, bool has_other)
{
    const u64 n = work->n[0] = item_count(size), n_table = MAX_OF(n / 8, 4);
    work_input_numbers(work, 0, n, (u32)(2 * n_table));
    if (has_other)
        work_input_numbers(work, 1, n, (u32)(2 * n_table));
    work_input_numbers(work, 2, n, 1000);
    make_table(work, 3, n_table);
    if (has_other)
        make_table(work, 4, n_table);
    work->n[1] = work->n[2] = slot_count(n_table);
    work->out_bytes[0] = 2 * sizeof(u64);
}

static void make_hash_probe(LabWork *work, const WorkSize *size)
{
    make_probe(work, size, false);
}

static void make_hash_probe_2(LabWork *work, const WorkSize *size)
{
    make_probe(work, size, true);
}

// Values by key, 0 for keys that are not there: an array instead of a search.
static u64 *values_of(Arena *arena, const u64 *slots, u64 n_slots, u64 n_keys)
{
    u64 *values = arena_array(arena, u64, n_keys);
    for (u64 i = 0; i < n_slots; i++)
        if (slots[i])
            values[slots[i] >> 32] = 1ull << 32 | (u32)slots[i];
    return values;
}

static weft_status check_hash_probe(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *keys = work->in[0], *other_keys = work->in[1], *own = work->in[2];
    const u64 *is = out[0], n_keys = 2 * work->n[0] + 8;
    Arena *arena = arena_new(NULL, "probe");
    const u64 *values = values_of(arena, work->in[3], work->n[1], n_keys);
    const u64 *others = other_keys ? values_of(arena, work->in[4], work->n[2], n_keys) : NULL;
    u64 n = 0, sum = 0;
    for (u64 i = 0; i < work->n[0]; i++) {
        const u64 value = values[keys[i]], other = others ? others[other_keys[i]] : 1ull << 32 | 1;
        if (!value || !other)
            continue;
        n++;
        sum += (u64)own[i] * (u32)value * (u32)other;
    }
    arena_free(arena);
    if (is[0] != n)
        return work_differs(work, "rows", 0, (double)is[0], (double)n, err);
    return is[1] == sum ? WEFT_OK : work_differs(work, "sum", 0, (double)is[1], (double)sum, err);
}

const WorkKind work_hash_probe = {
    "hash_probe", "hash_probe", lab_hash_probe_text, 2048, 16, make_hash_probe, check_hash_probe,
};
const WorkKind work_hash_probe_2 = {
    "hash_probe_2", "hash_probe", lab_hash_probe_text, 2048, 16, make_hash_probe_2, check_hash_probe,
};
