// transpose: rows become columns, by tiles of 32 times 32 in shared memory, so that both sides are read and written in
// whole lines.  n rows and columns, a multiple of 32.
KERNEL(transpose)
{
    const u32 *from = (const u32 *)A.in[0];
    u32 *to = (u32 *)A.out[0];
    const u32 n = (u32)A.n[0], n_across = n / 32;
    SHARED u32 tile[32][33];                                // one more column: no two rows begin in the same bank
    BLOCK_BEGIN
    for (u32 part = blockIdx.x; part < n_across * n_across; part += gridDim.x) {
        const u32 top = part / n_across * 32, left = part % n_across * 32;
        for (u32 r = WARP; r < 32; r += WARPS) tile[r][LANE] = from[(u64)(top + r) * n + left + LANE];
        __syncthreads();
        for (u32 r = WARP; r < 32; r += WARPS) to[(u64)(left + r) * n + top + LANE] = tile[LANE][r];
        __syncthreads();
    }
    BLOCK_END
}
