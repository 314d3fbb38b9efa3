// hash_probe: joins rows with one table of hash_build, or with two, and adds up the products of their values.
FUNCTION u64 slot_of(u32 key, u64 n_slots) { return (u64)(key * 0x9e3779b1u) * n_slots >> 32; }

FUNCTION bool find(const u64 *slots, u64 n_slots, u32 key, u32 *value)
{
    for (u64 slot = slot_of(key, n_slots); slots[slot]; slot = (slot + 1) & (n_slots - 1))
        if ((u32)(slots[slot] >> 32) == key) {
            *value = (u32)slots[slot];
            return true;
        }
    return false;
}

KERNEL(hash_probe)
{
    const u32 *keys = (const u32 *)A.in[0], *other_keys = (const u32 *)A.in[1], *values = (const u32 *)A.in[2];
    const u64 *slots = (const u64 *)A.in[3], *other_slots = (const u64 *)A.in[4];   // other: of a third table, or NULL
    u64 *sums = (u64 *)A.out[0];                            // rows, and the sum
    u64 n_found = 0, sum = 0;
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) {
        u32 value = 0, other = 1;
        if (!find(slots, A.n[1], keys[i], &value)) continue;
        if (other_slots && !find(other_slots, A.n[2], other_keys[i], &other)) continue;
        n_found++;
        sum += (u64)values[i] * value * other;
    }
    if (n_found) {
        atomicAdd(&sums[0], n_found);
        atomicAdd(&sums[1], sum);
    }
    BLOCK_END
}
