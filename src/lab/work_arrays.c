// work_arrays.c - work of kernels that move data: vector addition, reduction, scan, transpose, histogram.

#include "lab/work.h"

extern const char lab_vector_add_text[], lab_reduction_text[], lab_scan_text[], lab_transpose_text[],
    lab_histogram_text[];

static u64 item_count(const WorkSize *size)
{
    return (u64)size->n_threads * (u64)size->items;
}

// ---- vector addition ------------------------------------------------------------------------------------------------

static void make_vector_add(LabWork *work, const WorkSize *size)
{
    const u64 n = work->n[0] = item_count(size);
    work_input_floats(work, 0, n, -1000, 1000);
    work_input_floats(work, 1, n, -1000, 1000);
    work->out_bytes[0] = n * sizeof(float);
}

static weft_status check_vector_add(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *a = work->in[0], *b = work->in[1], *c = out[0];
    for (u64 i = 0; i < work->n[0]; i++)
        if (c[i] != a[i] + b[i])
            return work_differs(work, "value", i, c[i], a[i] + b[i], err);
    return WEFT_OK;
}

const WorkKind work_vector_add = {
    "vector_add", "vector_add", lab_vector_add_text, 1024, 16, make_vector_add, check_vector_add,
};

// ---- reduction ------------------------------------------------------------------------------------------------------

static void make_reduction(LabWork *work, const WorkSize *size)
{
    work->n[0] = item_count(size);
    work_input_numbers(work, 0, work->n[0], UINT32_MAX);
    work->out_bytes[0] = sizeof(u64);
}

static weft_status check_reduction(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *values = work->in[0];
    const u64 *is = out[0];
    u64 sum = 0;
    for (u64 i = 0; i < work->n[0]; i++)
        sum += values[i];
    return *is == sum ? WEFT_OK : work_differs(work, "sum", 0, (double)*is, (double)sum, err);
}

const WorkKind work_reduction = {
    "reduction", "reduction", lab_reduction_text, 2048, 32, make_reduction, check_reduction,
};

// ---- scan -----------------------------------------------------------------------------------------------------------

static void make_scan(LabWork *work, const WorkSize *size)
{
    const u64 n = work->n[0] = item_count(size);
    work_input_numbers(work, 0, n, UINT32_MAX);
    work->out_bytes[0] = n * sizeof(u32);
    work->scratch_bytes = (n / 128 + 3) * sizeof(u64);      // a ticket, and a word per tile of a block of one warp
}

static weft_status check_scan(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *values = work->in[0], *sums = out[0];
    u32 sum = 0;
    for (u64 i = 0; i < work->n[0]; i++)
        if (sums[i] != (sum += values[i]))
            return work_differs(work, "sum", i, sums[i], sum, err);
    return WEFT_OK;
}

const WorkKind work_scan = {
    "scan", "scan", lab_scan_text, 1024, 16, make_scan, check_scan,
};

// ---- transpose ------------------------------------------------------------------------------------------------------

static void make_transpose(LabWork *work, const WorkSize *size)
{
    u64 n = 32;
    while ((n + 32) * (n + 32) <= item_count(size))
        n += 32;
    work->n[0] = n;
    work_input_numbers(work, 0, n * n, UINT32_MAX);
    work->out_bytes[0] = n * n * sizeof(u32);
}

static weft_status check_transpose(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *from = work->in[0], *to = out[0];
    const u64 n = work->n[0];
    for (u64 row = 0; row < n; row++)
        for (u64 column = 0; column < n; column++)
            if (to[column * n + row] != from[row * n + column])
                return work_differs(work, "value", column * n + row, to[column * n + row], from[row * n + column], err);
    return WEFT_OK;
}

const WorkKind work_transpose = {
    "transpose", "transpose", lab_transpose_text, 4096, 16, make_transpose, check_transpose,
};

// ---- histogram ------------------------------------------------------------------------------------------------------

enum { N_BINS = 256 };                                      // as in kernels/histogram.cu

static void make_histogram(LabWork *work, const WorkSize *size)
{
    const u64 n = work->n[0] = item_count(size);
    u8 *values = work_input(work, 0, n);
    for (u64 i = 0; i < n; i++)                             // two dice: some values are frequent
        values[i] = (u8)(work_random_below(work, N_BINS / 2) + work_random_below(work, N_BINS / 2 + 1));
    work->out_bytes[0] = N_BINS * sizeof(u32);
}

static weft_status check_histogram(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u8 *values = work->in[0];
    const u32 *is = out[0];
    u32 counts[N_BINS] = { 0 };
    for (u64 i = 0; i < work->n[0]; i++)
        counts[values[i]]++;
    for (int i = 0; i < N_BINS; i++)
        if (is[i] != counts[i])
            return work_differs(work, "count", (u64)i, is[i], counts[i], err);
    return WEFT_OK;
}

const WorkKind work_histogram = {
    "histogram", "histogram", lab_histogram_text, 2048, 64, make_histogram, check_histogram,
};
