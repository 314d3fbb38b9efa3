// selects: rows of 16 bytes that pass a test, written side by side: two tests of the same input in one kernel, or one of
// them, as Kernel Weaver's pattern (d) has it.  n[1] says which: 1, 2, or 3 for both.  An output is its number of rows in
// 16 bytes, then the rows, in any order.
typedef struct __attribute__((aligned(16))) Tuple { u32 a, b, c, d; } Tuple;

// For all lanes of a warp; those whose row passes write it.  One atomic addition reserves the places of all of them.
FUNCTION void put_rows(u64 *out, bool passes, const Tuple *row)
{
    const u32 votes = __ballot_sync(ALL_LANES, passes), before = votes & ((1u << LANE) - 1);
    u64 first = 0;
    if (votes && LANE == 0) first = atomicAdd(out, (u64)__popc(votes));
    first = __shfl_sync(ALL_LANES, first, 0);
    if (passes) ((Tuple *)(out + 2))[first + __popc(before)] = *row;
}

KERNEL(selects)
{
    const Tuple *rows = (const Tuple *)A.in[0];
    const u32 tests = (u32)A.n[1], limit = (u32)A.n[2];
    BLOCK_BEGIN
    for (u64 base = GRID_THREAD - LANE; base < A.n[0]; base += GRID_THREADS) {
        const u64 i = base + LANE;
        Tuple row = { 0, 0, 0, 0 };
        if (i < A.n[0]) row = rows[i];
        if (tests & 1) put_rows((u64 *)A.out[0], i < A.n[0] && row.a < limit, &row);
        if (tests & 2) put_rows((u64 *)A.out[1], i < A.n[0] && row.b < limit, &row);
    }
    BLOCK_END
}
