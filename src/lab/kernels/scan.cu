// scan: running sums of all values, in one pass.  Blocks take tiles by ticket, so the tile before is always in the
// hands of a block that runs; a word per tile says what is known of it: its own sum, or the sum up to its end.
#define TILE_ITEMS 4
#define SUM_OF_TILE ((u64)1 << 32)                          // the lower half is the sum, modulo 2^32
#define SUM_TO_END  ((u64)2 << 32)

// The sum of all tiles before this one.
FUNCTION u32 sum_before(u64 *tiles, u64 tile)
{
    u32 sum = 0;
    for (u64 t = tile; t > 0;) {
        const u64 known = atomicAdd(&tiles[t - 1], (u64)0);
        if (known >> 32 == 0) continue;
        sum += (u32)known;
        if (known >= SUM_TO_END) break;
        t--;
    }
    return sum;
}

KERNEL(scan)
{
    const u32 *values = (const u32 *)A.in[0];
    u32 *sums = (u32 *)A.out[0];
    u64 *ticket = (u64 *)A.scratch, *tiles = ticket + 1;
    SHARED u64 shared_tile;
    SHARED u32 warps[32], shared_before;
    BLOCK_BEGIN
    for (;;) {
        if (THREAD == 0) shared_tile = atomicAdd(ticket, (u64)1);
        __syncthreads();
        const u64 tile = shared_tile, first = (tile * THREADS + THREAD) * TILE_ITEMS;
        if (tile * THREADS * TILE_ITEMS >= A.n[0]) break;
        u32 own[TILE_ITEMS], sum = 0;
        for (int i = 0; i < TILE_ITEMS; i++) own[i] = sum += first + i < A.n[0] ? values[first + i] : 0;
        u32 to_here = sum;                                  // in this warp
        for (int step = 1; step < 32; step *= 2) {
            const u32 other = __shfl_up_sync(ALL_LANES, to_here, step);
            if ((int)LANE >= step) to_here += other;
        }
        if (LANE == 31) warps[WARP] = to_here;
        __syncthreads();
        u32 before = to_here - sum, all = 0;
        for (u32 w = 0; w < WARPS; w++) {
            if (w < WARP) before += warps[w];
            all += warps[w];
        }
        if (THREAD == 0) {
            if (tile > 0) atomicExch(&tiles[tile], SUM_OF_TILE | all);
            shared_before = sum_before(tiles, tile);
            atomicExch(&tiles[tile], SUM_TO_END | (u32)(shared_before + all));
        }
        __syncthreads();
        before += shared_before;
        for (int i = 0; i < TILE_ITEMS; i++)
            if (first + i < A.n[0]) sums[first + i] = before + own[i];
    }
    BLOCK_END
}
