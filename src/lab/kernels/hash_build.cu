// hash_build: a table of key and value in global memory, for queries that join on it.  Keys are not 0 and differ.  A
// power of two of slots, n[1], more than rows.
FUNCTION u64 slot_of(u32 key, u64 n_slots) { return (u64)(key * 0x9e3779b1u) * n_slots >> 32; }

KERNEL(hash_build)
{
    const u32 *keys = (const u32 *)A.in[0], *values = (const u32 *)A.in[1];
    u64 *slots = (u64 *)A.out[0];
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) {
        const u64 entry = (u64)keys[i] << 32 | values[i];
        u64 slot = slot_of(keys[i], A.n[1]);
        while (atomicCAS(&slots[slot], (u64)0, entry) != 0) slot = (slot + 1) & (A.n[1] - 1);
    }
    BLOCK_END
}
