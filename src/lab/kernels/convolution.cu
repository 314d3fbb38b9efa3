// convolution: each row of an image with a mask of 2 * RADIUS + 1 values; beyond the edges are zeros.  A block takes as
// many values of a row as it has threads, with RADIUS more on both sides, to shared memory.
#define RADIUS 8

KERNEL(convolution)
{
    const float *image = (const float *)A.in[0], *mask = (const float *)A.in[1];
    float *out = (float *)A.out[0];
    const u32 width = (u32)A.n[0], height = (u32)A.n[1], n_across = (width + THREADS - 1) / THREADS;
    SHARED float near[1024 + 2 * RADIUS], weights[2 * RADIUS + 1];
    BLOCK_BEGIN
    if (THREAD < 2 * RADIUS + 1) weights[THREAD] = mask[THREAD];
    for (u32 part = blockIdx.x; part < n_across * height; part += gridDim.x) {
        const u64 row = (u64)(part / n_across) * width;
        const u32 left = part % n_across * THREADS, column = left + THREAD;
        for (u32 i = THREAD; i < THREADS + 2 * RADIUS; i += THREADS) {
            const u32 from = left + i;                      // RADIUS to the right of what it is for
            near[i] = from >= RADIUS && from < width + RADIUS ? image[row + from - RADIUS] : 0;
        }
        __syncthreads();
        float sum = 0;
        UNROLLED
        for (u32 i = 0; i < 2 * RADIUS + 1; i++) sum += near[THREAD + i] * weights[i];
        if (column < width) out[row + column] = sum;
        __syncthreads();
    }
    BLOCK_END
}
