// nested_loop_join: all pairs of rows with equal keys, without an index.  A thread takes a row of r and compares it
// with all of s, a tile in shared memory at a time.  Pairs come in any order.
#define TILE_KEYS 1024

KERNEL(nested_loop_join)
{
    const u32 *keys_r = (const u32 *)A.in[0], *keys_s = (const u32 *)A.in[1];
    u64 *pairs = (u64 *)A.out[0], *n_pairs = (u64 *)A.out[1];
    const u32 n_r = (u32)A.n[0], n_s = (u32)A.n[1];
    SHARED u32 tile[TILE_KEYS];
    BLOCK_BEGIN
    for (u64 base = (u64)blockIdx.x * THREADS; base < n_r; base += GRID_THREADS) {
        const u64 r = base + THREAD;
        const u32 key = r < n_r ? keys_r[r] : 0;
        for (u32 first = 0; first < n_s; first += TILE_KEYS) {
            const u32 n_tile = n_s - first < TILE_KEYS ? n_s - first : TILE_KEYS;
            __syncthreads();
            for (u32 t = THREAD; t < n_tile; t += THREADS) tile[t] = keys_s[first + t];
            __syncthreads();
            for (u32 t = 0; t < n_tile && r < n_r; t++) {
                if (tile[t] != key) continue;
                const u64 at = atomicAdd(n_pairs, (u64)1);
                if (at < A.n[2]) pairs[at] = r << 32 | (first + t);
            }
        }
    }
    BLOCK_END
}
