// page_index.h - the index of one page: its smallest and largest value, and a bloom filter.
//
//     const u32 n_bits = page_bloom_bits(n_different);
//     page_index(FLOW_PAGE_i32, values, n, &entry, bloom, n_bits);
//     if (flow_range_may_hold_(&entry, low, high)) ...                     // kernel/flow_pages.h: tile C looks up, too

#ifndef WEFT_FLOW_PAGE_INDEX_H
#define WEFT_FLOW_PAGE_INDEX_H

#include "base/base.h"
#include "kernel/flow.h"
#include "kernel/flow_pages.h"

// Of a filter for so many different values: a power of two, 64 at least.
u32  page_bloom_bits(u64 n_different);
// VALUES are N of TYPE (FLOW_PAGE_...).  BLOOM has N_BITS, which may be 0.
void page_index(u32 type, const void *values, u64 n, FlowPageEntry *entry, u64 *bloom, u32 n_bits);

#endif
