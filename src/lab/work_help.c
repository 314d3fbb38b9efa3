// work_help.c - what makers and checkers of work share.

#include <math.h>
#include <stdlib.h>

#include "lab/work.h"

// splitmix64 (public domain algorithm by Vigna): one state word, and every seed gives a good sequence.
static u64 mix(u64 x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

u64 work_random(LabWork *work)
{
    return mix(work->random += 0x9e3779b97f4a7c15);
}

u32 work_random_below(LabWork *work, u32 n)
{
    return (u32)((work_random(work) >> 32) * n >> 32);
}

float work_random_float(LabWork *work, float least, float most)
{
    return least + (most - least) * (float)(work_random(work) >> 40) / (float)(1 << 24);
}

void *work_input(LabWork *work, int i, size_t bytes)
{
    void *memory = arena_alloc(work->arena, MAX_OF(bytes, 1));
    work->in[i] = memory;
    work->in_bytes[i] = bytes;
    return memory;
}

float *work_input_floats(LabWork *work, int i, u64 n, float least, float most)
{
    float *values = work_input(work, i, n * sizeof *values);
    for (u64 v = 0; v < n; v++)
        values[v] = work_random_float(work, least, most);
    return values;
}

u32 *work_input_numbers(LabWork *work, int i, u64 n, u32 below)
{
    u32 *values = work_input(work, i, n * sizeof *values);
    for (u64 v = 0; v < n; v++)
        values[v] = work_random_below(work, below);
    return values;
}

weft_status work_differs(const LabWork *work, const char *what, u64 at, double is, double should, Error *err)
{
    return fail(err, WEFT_DEVICE_FAILED, -1, "%s: %s %llu is %.9g, should be %.9g", work->kind->name, what,
                (unsigned long long)at, is, should);
}

bool work_is_near(double is, double should, double share, double least)
{
    return fabs(is - should) <= MAX_OF(share * MAX_OF(fabs(is), fabs(should)), least);
}

// ---- pairs of rows --------------------------------------------------------------------------------------------------

static u64 hash_pair(u64 r, u64 s)
{
    return mix((r << 32 | s) + 0x9e3779b97f4a7c15);
}

// The rows of s by key: a counting sort.  FIRST has n_keys + 1 places.
static void sort_rows(const u32 *keys, u32 n, u32 n_keys, u32 *first, u32 *rows)
{
    for (u32 i = 0; i < n; i++)
        first[keys[i] + 1]++;
    for (u32 k = 0; k < n_keys; k++)
        first[k + 1] += first[k];
    for (u32 i = n; i-- > 0;)
        rows[--first[keys[i] + 1]] = i;
    // Now first[k + 1] is where key k begins: one place to the left.
    for (u32 k = 0; k < n_keys; k++)
        first[k] = first[k + 1];
    first[n_keys] = n;
}

WorkPairs work_pairs(const u32 *keys_r, u32 n_r, const u32 *keys_s, u32 n_s, u32 n_keys)
{
    WorkPairs pairs = { 0 };
    Arena *arena = arena_new(NULL, "pairs");
    u32 *first = arena_array(arena, u32, (u64)n_keys + 2), *rows = arena_array(arena, u32, MAX_OF(n_s, 1));
    sort_rows(keys_s, n_s, n_keys, first, rows);
    for (u32 r = 0; r < n_r; r++)
        for (u32 i = first[keys_r[r]]; i < first[keys_r[r] + 1]; i++) {
            pairs.n++;
            pairs.hash += hash_pair(r, rows[i]);
        }
    arena_free(arena);
    return pairs;
}

weft_status work_check_pairs(const LabWork *work, const WorkPairs *should, const u32 *keys_r, u32 n_r,
                             const u32 *keys_s, u32 n_s, const u64 *pairs, u64 n_pairs, Error *err)
{
    u64 hash = 0;
    if (n_pairs != should->n)
        return work_differs(work, "the number of pairs", n_pairs, (double)n_pairs, (double)should->n, err);
    for (u64 i = 0; i < n_pairs; i++) {
        const u64 r = pairs[i] >> 32, s = (u32)pairs[i];
        if (r >= n_r || s >= n_s || keys_r[r] != keys_s[s])
            return fail(err, WEFT_DEVICE_FAILED, -1, "%s: pair %llu has rows %llu and %llu, which do not join",
                        work->kind->name, (unsigned long long)i, (unsigned long long)r, (unsigned long long)s);
        hash += hash_pair(r, s);
    }
    if (hash != should->hash)
        return fail(err, WEFT_DEVICE_FAILED, -1, "%s: a pair is there twice and another is missing",
                    work->kind->name);
    return WEFT_OK;
}
