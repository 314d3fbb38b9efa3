// work_selects.c - work of kernels that select rows: two tests of one input, together or each by itself.

#include "lab/work.h"

extern const char lab_selects_text[];

enum { FIRST = 1, SECOND = 2, TUPLE_WORDS = 4, HEAD_BYTES = 16 };   // as in kernels/selects.cu

static void make_selects(LabWork *work, const WorkSize *size, u64 tests)
{
    const u64 n = work->n[0] = (u64)size->n_threads * (u64)size->items, bytes = HEAD_BYTES + n * TUPLE_WORDS * 4;
    work->n[1] = tests;
    work->n[2] = 1u << 30;                                  // half of them pass
    work_input_numbers(work, 0, n * TUPLE_WORDS, 1u << 31);
    work->out_bytes[0] = tests & FIRST ? bytes : 0;
    work->out_bytes[1] = tests & SECOND ? bytes : 0;
}

static void make_both(LabWork *work, const WorkSize *size)
{
    make_selects(work, size, FIRST | SECOND);
}

static void make_first(LabWork *work, const WorkSize *size)
{
    make_selects(work, size, FIRST);
}

static void make_second(LabWork *work, const WorkSize *size)
{
    make_selects(work, size, SECOND);
}

// Rows are compared as a set: by their number and the sum of their hashes.
static weft_status check_select(const LabWork *work, const u32 *rows, int column, const u64 *out, Error *err)
{
    const u32 *is = (const u32 *)out + HEAD_BYTES / 4;
    u64 n = 0, hash = 0, hash_is = 0;
    for (u64 i = 0; i < work->n[0]; i++)
        if (rows[i * TUPLE_WORDS + column] < work->n[2]) {
            n++;
            hash += hash_bytes(&rows[i * TUPLE_WORDS], TUPLE_WORDS * 4);
        }
    if (out[0] != n)
        return work_differs(work, "rows of test", (u64)column, (double)out[0], (double)n, err);
    for (u64 i = 0; i < n; i++)
        hash_is += hash_bytes(&is[i * TUPLE_WORDS], TUPLE_WORDS * 4);
    if (hash_is != hash)
        return fail(err, WEFT_DEVICE_FAILED, -1, "%s: a row of test %d is not one that passes", work->kind->name,
                    column);
    return WEFT_OK;
}

static weft_status check_selects(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    for (int column = 0; column < 2; column++)
        if (work->out_bytes[column])
            TRY(check_select(work, work->in[0], column, out[column], err));
    return WEFT_OK;
}

const WorkKind work_two_selects = {
    "two_selects", "selects", lab_selects_text, 512, 32, make_both, check_selects,
};
const WorkKind work_first_select = {
    "first_select", "selects", lab_selects_text, 512, 32, make_first, check_selects,
};
const WorkKind work_second_select = {
    "second_select", "selects", lab_selects_text, 512, 32, make_second, check_selects,
};
