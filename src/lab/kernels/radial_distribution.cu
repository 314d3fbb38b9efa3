// radial_distribution: how many pairs of atoms are how far apart.  A thread takes an atom and goes through the n[1]
// atoms after it, around the end, so that all threads do equal work.  With an odd n and n[1] = (n - 1) / 2 these are all
// pairs.
// Atoms come by tiles in shared memory; blocks count in shared memory.
#define N_BUCKETS  512
#define TILE_ATOMS 256

KERNEL(radial_distribution)
{
    const float *x = (const float *)A.in[0], *y = (const float *)A.in[1], *z = (const float *)A.in[2];
    u64 *counts = (u64 *)A.out[0];
    const u32 n = (u32)A.n[0], n_after = (u32)A.n[1];
    const float buckets_per_unit = A.f[0];
    SHARED float tile_x[TILE_ATOMS], tile_y[TILE_ATOMS], tile_z[TILE_ATOMS];
    SHARED u32 own[N_BUCKETS];
    BLOCK_BEGIN
    for (u32 i = THREAD; i < N_BUCKETS; i += THREADS) own[i] = 0;
    for (u64 base = (u64)blockIdx.x * THREADS; base < n; base += GRID_THREADS) {
        const bool is_atom = base + THREAD < n;
        const u32 atom = is_atom ? (u32)base + THREAD : 0;
        const float x0 = x[atom], y0 = y[atom], z0 = z[atom];
        // By distance from the block's first atom: this thread's are THREAD + 1 to THREAD + n_after.
        for (u32 first = 1; first < THREADS + n_after; first += TILE_ATOMS) {
            __syncthreads();
            for (u32 t = THREAD; t < TILE_ATOMS; t += THREADS) {
                const u32 from = (u32)((base + first + t) % n);
                tile_x[t] = x[from], tile_y[t] = y[from], tile_z[t] = z[from];
            }
            __syncthreads();
            const u32 begin = first > THREAD ? 0 : THREAD + 1 - first;
            const u32 left = THREAD + n_after + 1 > first ? THREAD + n_after + 1 - first : 0;
            const u32 end = !is_atom ? 0 : left < TILE_ATOMS ? left : TILE_ATOMS;
            for (u32 t = begin; t < end; t++) {
                const float dx = tile_x[t] - x0, dy = tile_y[t] - y0, dz = tile_z[t] - z0;
                const u32 bucket = (u32)(sqrtf(dx * dx + dy * dy + dz * dz) * buckets_per_unit);
                atomicAdd(&own[bucket < N_BUCKETS ? bucket : N_BUCKETS - 1], 1u);
            }
        }
    }
    __syncthreads();
    for (u32 i = THREAD; i < N_BUCKETS; i += THREADS)
        if (own[i]) atomicAdd(&counts[i], (u64)own[i]);
    BLOCK_END
}
