// reduction: the sum of all values.  A thread adds up its own, a warp by shuffles, a block in shared memory, the grid
// by one atomic addition of each block.
FUNCTION u64 warp_sum(u64 value)
{
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(ALL_LANES, value, step);
    return value;
}

KERNEL(reduction)
{
    const u32 *values = (const u32 *)A.in[0];
    u64 *sum = (u64 *)A.out[0];
    SHARED u64 warps[32];
    u64 own = 0;
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) own += values[i];
    own = warp_sum(own);
    if (LANE == 0) warps[WARP] = own;
    __syncthreads();
    if (WARP == 0) {
        own = warp_sum(LANE < WARPS ? warps[LANE] : 0);
        if (LANE == 0) atomicAdd(sum, own);
    }
    BLOCK_END
}
