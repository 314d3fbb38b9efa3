// hash_join: all pairs of rows with equal keys.  Both sides are partitioned by key, so that a partition of r fits a
// table in shared memory: a block builds it, then probes it with the partition of s.  Pairs come in any order.
#define N_SLOTS  2048                                       // twice the rows of the largest partition of r, or more
#define NO_ROW   0xffffffffu

FUNCTION u32 slot_of(u32 key) { return (key * 0x9e3779b1u) >> 21; }

KERNEL(hash_join)
{
    const u32 *keys_r = (const u32 *)A.in[0], *keys_s = (const u32 *)A.in[1];
    const u32 *ends_r = (const u32 *)A.in[2], *ends_s = (const u32 *)A.in[3];
    u64 *pairs = (u64 *)A.out[0], *n_pairs = (u64 *)A.out[1];
    SHARED u32 rows[N_SLOTS], keys[N_SLOTS];
    BLOCK_BEGIN
    for (u32 part = blockIdx.x; part < A.n[0]; part += gridDim.x) {
        for (u32 i = THREAD; i < N_SLOTS; i += THREADS) rows[i] = NO_ROW;
        __syncthreads();
        for (u32 r = (part ? ends_r[part - 1] : 0) + THREAD; r < ends_r[part]; r += THREADS) {
            u32 slot = slot_of(keys_r[r]);
            while (atomicCAS(&rows[slot], NO_ROW, r) != NO_ROW) slot = (slot + 1) % N_SLOTS;
            keys[slot] = keys_r[r];
        }
        __syncthreads();
        for (u32 s = (part ? ends_s[part - 1] : 0) + THREAD; s < ends_s[part]; s += THREADS) {
            for (u32 slot = slot_of(keys_s[s]); rows[slot] != NO_ROW; slot = (slot + 1) % N_SLOTS) {
                if (keys[slot] != keys_s[s]) continue;
                const u64 at = atomicAdd(n_pairs, (u64)1);
                if (at < A.n[1]) pairs[at] = (u64)rows[slot] << 32 | s;
            }
        }
        __syncthreads();
    }
    BLOCK_END
}
