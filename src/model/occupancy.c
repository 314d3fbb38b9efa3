// occupancy.c - one kernel by itself: how many of its blocks run at once, and in how many rounds all have run.
//
// Equations 1 to 13 of paper 3 (see README.md), with their floors and ceilings as NVIDIA's occupancy calculator has
// them.  A multiprocessor has 2 or 4 partitions.  A warp lives in one of them and takes its registers there, so
// registers are lost where a partition has too few left for one more warp:
//
//     registers of a warp        ceil(threads * registers / unit) * unit
//     warps by registers         floor(registers / partitions / registers of a warp) * partitions
//     blocks by registers        floor(warps by registers / warps of a block)

#include "model/model_int.h"

// ---- what a block takes ---------------------------------------------------------------------------------------------

BlockCost block_cost(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block)
{
    BlockCost cost;
    cost.warps = ceil_div(threads_per_block, limits->threads_per_warp);                         // equation 4
    cost.registers_per_warp = round_up(needs->registers * limits->threads_per_warp, limits->register_unit); // 7
    cost.registers = cost.warps * cost.registers_per_warp;
    cost.shared = round_up(needs->shared + limits->shared_reserved, limits->shared_unit);
    return cost;
}

static int block_threads_max(const GpuLimits *limits, const KernelNeeds *needs)
{
    const int compiled_for = needs->threads_per_block_max;
    return compiled_for > 0 ? MIN_OF(limits->threads_per_block, compiled_for) : limits->threads_per_block;
}

// The most warps of a block that the resources of one multiprocessor allow.
static int block_warps_held(const GpuLimits *limits, const KernelNeeds *needs)
{
    if (needs->registers < 0 || needs->registers > limits->registers_per_thread)
        return 0;
    if (needs->shared < 0 || needs->shared > limits->shared_per_block)
        return 0;
    const BlockCost warp = block_cost(limits, needs, limits->threads_per_warp);
    if (warp.shared > limits->shared)
        return 0;
    const int by_multiprocessor = MIN_OF(limits->warps, warps_by_registers(limits, warp.registers_per_warp));
    if (warp.registers_per_warp == 0)
        return by_multiprocessor;
    // Registers of a block are counted for the same number of warps in every partition.
    const int by_block = round_down(limits->registers_per_block / warp.registers_per_warp, limits->n_partitions);
    return MIN_OF(by_multiprocessor, by_block);
}

int block_warps_max(const GpuLimits *limits, const KernelNeeds *needs)
{
    return MIN_OF(block_threads_max(limits, needs) / limits->threads_per_warp, block_warps_held(limits, needs));
}

bool block_is_allowed(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block)
{
    return threads_per_block <= block_threads_max(limits, needs) &&
           ceil_div(threads_per_block, limits->threads_per_warp) <= block_warps_held(limits, needs);
}

// ---- how many blocks at once ----------------------------------------------------------------------------------------

// Equation 6.
int warps_by_registers(const GpuLimits *limits, int registers_per_warp)
{
    if (registers_per_warp == 0)
        return limits->warps;
    return limits->registers / (registers_per_warp * limits->n_partitions) * limits->n_partitions;
}

// Equation 8.
static int blocks_by_warps(const GpuLimits *limits, const BlockCost *cost)
{
    return MIN_OF(limits->blocks, limits->warps / cost->warps);
}

// Equation 5.  The paper leaves kernels without registers undefined: no limit.
static int blocks_by_registers(const GpuLimits *limits, const BlockCost *cost)
{
    if (cost->registers_per_warp == 0)
        return limits->blocks;
    return warps_by_registers(limits, cost->registers_per_warp) / cost->warps;
}

// Equation 3, with the allocation unit that Table I names and the equation forgets.
static int blocks_by_shared(const GpuLimits *limits, const BlockCost *cost)
{
    return cost->shared == 0 ? limits->blocks : limits->shared / cost->shared;
}

// The scarcest; where two are equally scarce, the first in the order of the list.
static LimitKind limit_of(const GpuLimits *limits, const Occupancy *all)
{
    if (all->blocks_by_warps == all->blocks)
        return all->blocks == limits->blocks ? LIMIT_BLOCKS : LIMIT_WARPS;
    return all->blocks_by_registers == all->blocks ? LIMIT_REGISTERS : LIMIT_SHARED;
}

Occupancy occupancy_of(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block)
{
    ASSERT(threads_per_block >= 1);
    if (!block_is_allowed(limits, needs, threads_per_block))
        return (Occupancy){ .limit = LIMIT_BLOCK };
    const BlockCost cost = block_cost(limits, needs, threads_per_block);
    Occupancy all = { .blocks_by_warps = blocks_by_warps(limits, &cost),
                      .blocks_by_registers = blocks_by_registers(limits, &cost),
                      .blocks_by_shared = blocks_by_shared(limits, &cost) };
    all.blocks = MIN_OF(all.blocks_by_warps, MIN_OF(all.blocks_by_registers, all.blocks_by_shared));   // equation 2
    all.warps = all.blocks * cost.warps;
    all.threads = all.blocks * threads_per_block;
    all.share = (double)all.warps / limits->warps;                                                     // equation 9
    all.limit = limit_of(limits, &all);
    return all;
}

// ---- rounds and the best block size ---------------------------------------------------------------------------------

// Equation 1.  Threads per block stand above and below the line, so blocks are enough.
i64 running_rounds(const GpuLimits *limits, const KernelNeeds *needs, int threads_per_block, i64 n_blocks)
{
    const Occupancy alone = occupancy_of(limits, needs, threads_per_block);
    if (alone.blocks == 0)
        return 0;
    const i64 at_once = (i64)alone.blocks * limits->n_multiprocessors;
    return n_blocks / at_once + (n_blocks % at_once != 0);
}

// Whether a is better than b.
static bool is_better(const GpuLimits *limits, const KernelNeeds *needs, const BlockSize *a, const BlockSize *b)
{
    if (a->rounds != b->rounds)
        return a->rounds < b->rounds;
    const i64 a_threads = a->n_blocks * a->threads_per_block, b_threads = b->n_blocks * b->threads_per_block;
    if (a_threads != b_threads)
        return a_threads < b_threads;
    return occupancy_of(limits, needs, a->threads_per_block).warps >
           occupancy_of(limits, needs, b->threads_per_block).warps;
}

// Equations 10 to 13.  All block sizes of whole warps are tried: there are 32.
bool best_block_size(const GpuLimits *limits, const KernelNeeds *needs, i64 n_threads, BlockSize *best)
{
    ASSERT(n_threads >= 1);
    const int warps_max = block_warps_max(limits, needs);
    for (int warps = 1; warps <= warps_max; warps++) {
        BlockSize size = { .threads_per_block = warps * limits->threads_per_warp };
        size.n_blocks = n_threads / size.threads_per_block + (n_threads % size.threads_per_block != 0);
        size.rounds = running_rounds(limits, needs, size.threads_per_block, size.n_blocks);
        if (warps == 1 || is_better(limits, needs, &size, best))
            *best = size;
    }
    return warps_max > 0;
}
