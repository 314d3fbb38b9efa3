// page_index.c - see page_index.h.

#include <math.h>

#include "flow/page_index.h"

enum { BITS_PER_VALUE = 4 };

u32 page_bloom_bits(u64 n_different)
{
    u32 n_bits = 64;
    while (n_bits < n_different * BITS_PER_VALUE && n_bits < (u32)1 << 31)
        n_bits *= 2;
    return n_bits;
}

static inline u64 key_at(u32 type, const void *values, u64 i)
{
    switch (type) {
    case FLOW_PAGE_i32: return flow_key_i64_(((const i32 *)values)[i]);
    case FLOW_PAGE_i64: return flow_key_i64_(((const i64 *)values)[i]);
    case FLOW_PAGE_f32: return flow_key_f64_((f64)((const f32 *)values)[i]);
    default:            return flow_key_f64_(((const f64 *)values)[i]);
    }
}

static inline bool is_nan_at(u32 type, const void *values, u64 i)
{
    return (type == FLOW_PAGE_f32 && isnan(((const f32 *)values)[i])) ||
           (type == FLOW_PAGE_f64 && isnan(((const f64 *)values)[i]));
}

// Once for each type, so that its loop does not ask for it.
static inline void index_values(u32 type, const void *values, u64 n, FlowPageEntry *entry, u64 *bloom, u32 n_bits)
{
    FlowPageEntry range = { .min = UINT64_MAX, .max = 0 };
    for (u64 i = 0; i < n; i++) {
        if (is_nan_at(type, values, i))
            continue;
        const u64 key = key_at(type, values, i);
        range.min = MIN_OF(range.min, key);
        range.max = MAX_OF(range.max, key);
        if (n_bits == 0)
            continue;
        const FlowBloomBits bits = flow_bloom_bits_(type, key, n_bits);
        bloom[bits.a / 64] |= (u64)1 << bits.a % 64;
        bloom[bits.b / 64] |= (u64)1 << bits.b % 64;
    }
    *entry = range;
}

void page_index(u32 type, const void *values, u64 n, FlowPageEntry *entry, u64 *bloom, u32 n_bits)
{
    if (n_bits > 0)
        memset(bloom, 0, n_bits / 8);
    switch (type) {
    case FLOW_PAGE_i32: index_values(FLOW_PAGE_i32, values, n, entry, bloom, n_bits); break;
    case FLOW_PAGE_i64: index_values(FLOW_PAGE_i64, values, n, entry, bloom, n_bits); break;
    case FLOW_PAGE_f32: index_values(FLOW_PAGE_f32, values, n, entry, bloom, n_bits); break;
    default:            index_values(FLOW_PAGE_f64, values, n, entry, bloom, n_bits); break;
    }
}
