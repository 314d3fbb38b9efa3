// matrix_multiply: c = a * b, all of n rows and n columns, n a multiple of 32.  A block computes as many rows of 32
// columns as it has warps, one value per thread, and goes along the inner dimension in steps of 32 in shared memory.
KERNEL(matrix_multiply)
{
    const float *a = (const float *)A.in[0], *b = (const float *)A.in[1];
    float *c = (float *)A.out[0];
    const u32 n = (u32)A.n[0], n_bands = (n + WARPS - 1) / WARPS, n_parts = n_bands * (n / 32);
    SHARED float tile_a[32][32], tile_b[32][33];
    BLOCK_BEGIN
    for (u32 part = blockIdx.x; part < n_parts; part += gridDim.x) {
        const u32 row = part / (n / 32) * WARPS + WARP, column = part % (n / 32) * 32 + LANE;
        float sum = 0;
        for (u32 k = 0; k < n; k += 32) {
            if (row < n) tile_a[WARP][LANE] = a[(u64)row * n + k + LANE];
            for (u32 r = WARP; r < 32; r += WARPS) tile_b[r][LANE] = b[(u64)(k + r) * n + column];
            __syncthreads();
            UNROLLED
            for (u32 i = 0; i < 32; i++) sum += tile_a[WARP][i] * tile_b[i][LANE];
            __syncthreads();
        }
        if (row < n) c[(u64)row * n + column] = sum;
    }
    BLOCK_END
}
