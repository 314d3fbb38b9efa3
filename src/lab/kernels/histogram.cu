// histogram: how often each of 256 values occurs.  Blocks count in shared memory and add their counts up at the end.
#define N_BINS 256

KERNEL(histogram)
{
    const u8 *values = (const u8 *)A.in[0];
    u32 *counts = (u32 *)A.out[0];
    SHARED u32 own[N_BINS];
    BLOCK_BEGIN
    for (u32 i = THREAD; i < N_BINS; i += THREADS) own[i] = 0;
    __syncthreads();
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) atomicAdd(&own[values[i]], 1u);
    __syncthreads();
    for (u32 i = THREAD; i < N_BINS; i += THREADS)
        if (own[i]) atomicAdd(&counts[i], own[i]);
    BLOCK_END
}
