// flow_loop.h - the kernel that stays on the device and takes frames as they come (paper 5, algorithm 2).
//
// Put after flow.h, flow_pages.h and flow_args.h and before the operators' texts.  Block 0 is the scout: it reads the
// host's words over the link, all of them at once, and hands out pieces of rounds.  The other blocks work.  So the link
// carries one look in a microsecond or so, however many blocks wait.
//
//     scout    posted[operator], leave, the work vector; for each block that is idle, the next piece: of the block's
//              own operator by the work vector, else of any that has one ──> orders[block] in device memory
//     block    says that it is idle, takes its order; its threads compute: virtual ids are piece * threads + thread,
//              of pieces * threads; the block that finishes the last piece of a round writes the result
//
// A block looks at its own order only, a little less often each time, so blocks that wait do not slow down others.
// Where all of them looked for work in the same words and took it by compare and swap, 66 blocks moved 40.6 GB/s and
// 264 moved 25.9 (H200, frames of 64 KB).  The scout serves blocks in the order of their numbers, so as many are at
// work as there are pieces.
//
// An order is the scout's to write once the block has set its bit of `idle`, until the order has changed; two orders of
// a launch are never the same.  A block that is not there yet, or has left, is not idle, so no piece waits for it.  The
// scout says that it leaves after its last order, and a block looks once more for an order after it saw that: so a
// launch can end at any round boundary, and the next one goes on from where it was.  Nothing here waits for another
// block but for the scout, which always runs: the host launches no more blocks than the driver says are resident
// together.
//
// The words that differ between a GPU and a CPU are below; tests/gpu/fake_cuda.c has the CPU's, and a block of one
// thread.

#ifndef WEFT_KERNEL_FLOW_LOOP_H
#define WEFT_KERNEL_FLOW_LOOP_H

#ifdef __CUDACC__
#define FLOW_FUNCTION_     static __device__
#define FLOW_THREAD_       ((u32)threadIdx.x)
#define FLOW_THREADS_      ((u32)blockDim.x)
#define FLOW_LANES_        32u
#define FLOW_BARRIER_()    __syncthreads()
#define FLOW_WARP_()       __syncwarp()
#define FLOW_BALLOT_(is)   __ballot_sync(0xffffffffu, (is))
#define FLOW_COUNT_(mask)  ((u32)__popc(mask))
#define FLOW_FROM_(v, l)   __shfl_sync(0xffffffffu, (v), (int)(l))
#define FLOW_FENCE_()      __threadfence_system()
#define FLOW_FENCE_HERE_() __threadfence()                 // for the device
#define FLOW_DISPATCH_(code, round) flow_dispatch_(code, round)
static __device__ __forceinline__ void flow_dispatch_(u32 code, FlowRound *round);

FLOW_FUNCTION_ u64 flow_acquire_system_(const u64 *word)
{
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
FLOW_FUNCTION_ u32 flow_load_byte_(const unsigned char *byte)
{
    return *(const volatile unsigned char *)byte;
}
FLOW_FUNCTION_ void flow_release_system_(u64 *word, u64 value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
FLOW_FUNCTION_ u64 flow_acquire_(const u64 *word)
{
    u64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
FLOW_FUNCTION_ u32 flow_acquire_32_(const u32 *word)
{
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
FLOW_FUNCTION_ void flow_release_(u64 *word, u64 value)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
FLOW_FUNCTION_ void flow_release_32_(u32 *word, u32 value)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
FLOW_FUNCTION_ void flow_store_(u64 *word, u64 value) { *(volatile u64 *)word = value; }     // after a fence
FLOW_FUNCTION_ u32 flow_exchange_32_(u32 *word, u32 value) { return atomicExch(word, value); }
FLOW_FUNCTION_ void flow_or_32_(u32 *word, u32 value) { atomicOr(word, value); }
FLOW_FUNCTION_ u32 flow_add_(u32 *word, u32 value) { return atomicAdd(word, value); }
FLOW_FUNCTION_ void flow_add_64_(u64 *word, u64 value) { atomicAdd(word, value); }
FLOW_FUNCTION_ void flow_max_(u64 *word, u64 value) { atomicMax(word, value); }
FLOW_FUNCTION_ u32 flow_swap_if_32_(u32 *word, u32 old, u32 value) { return atomicCAS(word, old, value); }
FLOW_FUNCTION_ u32 flow_first_(u32 mask) { return (u32)__ffs((int)mask) - 1; }
FLOW_FUNCTION_ u64 flow_time_ns_(void)
{
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}
FLOW_FUNCTION_ void flow_sleep_(u32 ns)
{
#if __CUDA_ARCH__ >= 700
    __nanosleep(ns);
#endif
}
#endif

enum { FLOW_PAGE_COUNTS_ = sizeof(FlowPageCounts) / sizeof(u64) };

typedef struct FlowScout {             // what block 0 knows of each operator and block
    u64           limit[FLOW_OPERATORS_MOST];               // pieces that the host has posted
    u64           next[FLOW_OPERATORS_MOST];                // the first of them that was not handed out
    unsigned char home[FLOW_BLOCKS_MOST];                   // the work vector
    u32           n_blocks;                                 // that work
} FlowScout;

typedef struct FlowShared {            // of a block
    FlowArgs  args;                    // a copy: the host's is across the link
    u32       op, has_work, status, has_ended;
    u64       order;                   // the last one
    u32       n_left;                  // pieces of it that were not begun
    u64       ticket, output_bytes, output_tag, began_ns;
    FlowJob   job;
    FlowPageCounts page_counts;        // of its threads; where the operator reads no frames of columns, not set
    FlowScout scout;
} FlowShared;

// ---- block 0: the scout ---------------------------------------------------------------------------------------------
// All lanes of its first warp call these.

enum {
    FLOW_LOOKS_ = 16,                  // looks at `posted` for one at everything else
    FLOW_RUN_MOST_ = 8                 // pieces in one order
};

FLOW_FUNCTION_ void flow_begin_(const FlowArgs *K, FlowScout *scout, u32 n_blocks, u32 lane)
{
    for (u32 op = lane; op < FLOW_OPERATORS_MOST; op += FLOW_LANES_) {
        scout->limit[op] = 0;
        scout->next[op] = op < K->n_operators && K->lines[op].n_pieces ? *K->lines[op].next : 0;
    }
    for (u32 block = lane; block < n_blocks; block += FLOW_LANES_)
        scout->home[block] = FLOW_NO_HOME;
    if (lane == 0)
        scout->n_blocks = n_blocks - 1;
    FLOW_WARP_();
}

// The next launch goes on from here.
FLOW_FUNCTION_ void flow_end_(const FlowArgs *K, const FlowScout *scout, u32 lane)
{
    FLOW_WARP_();
    for (u32 op = lane; op < K->n_operators; op += FLOW_LANES_)
        if (K->lines[op].n_pieces)
            *K->lines[op].next = scout->next[op];
}

// Whether there are pieces to hand out.
FLOW_FUNCTION_ u32 flow_look_(const FlowArgs *K, FlowScout *scout, u32 lane)
{
    u32 has_work = 0;
    for (u32 op = lane; op < K->n_operators; op += FLOW_LANES_) {
        scout->limit[op] = flow_acquire_system_(&K->posted->posted[op]) * K->lines[op].n_pieces;
        has_work |= scout->next[op] < scout->limit[op];
    }
    return FLOW_BALLOT_(has_work) != 0;
}

FLOW_FUNCTION_ u64 flow_take_vector_(const FlowArgs *K, FlowScout *scout, u32 lane, u64 seen, u32 n_blocks)
{
    const u64 number = flow_acquire_system_(&K->posted->vector_number);
    if (number != seen)
        for (u32 block = lane; block < n_blocks; block += FLOW_LANES_)
            scout->home[block] = (unsigned char)flow_load_byte_(&K->posted->vector[block]);
    return number;
}

// Of N pieces, how many a block gets at once: one, but where blocks are few, so that they need not wait for the scout
// after each.  A block that leaves finishes its run first, so runs are short.
FLOW_FUNCTION_ u32 flow_run_(u64 n, u32 n_blocks)
{
    const u64 run = n / (2 * (u64)n_blocks);
    return run <= 1 ? 1 : run < FLOW_RUN_MOST_ ? (u32)run : FLOW_RUN_MOST_;
}

// Pieces of OP to the blocks of the lanes in MASK, as far as there are any.  Returns the lanes that got none.
FLOW_FUNCTION_ u32 flow_hand_out_op_(const FlowArgs *K, FlowScout *scout, u32 op, u32 mask, u32 block, u32 lane)
{
    const u64 next = scout->next[op], n = scout->limit[op] > next ? scout->limit[op] - next : 0;
    const u32 run = flow_run_(n, scout->n_blocks), rank = FLOW_COUNT_(mask & ((1u << lane) - 1));
    const u64 at = (u64)rank * run, n_taken = (u64)FLOW_COUNT_(mask) * run;
    const u32 gets = (mask >> lane & 1) && at < n;
    const u64 n_mine = n - at < run ? n - at : run;         // if it gets any
    if (gets)
        flow_store_(&K->mirror->orders[block],
                    (next + at + 1) << FLOW_ORDER_BITS | n_mine << FLOW_ORDER_OP_BITS | op);
    FLOW_WARP_();                                           // all have read `next`
    if (lane == 0)
        scout->next[op] = next + (n < n_taken ? n : n_taken);
    FLOW_WARP_();
    return mask & ~FLOW_BALLOT_(gets);
}

// To the idle blocks of the lanes in MASK: those whose own operator has pieces get these, the others any.  Returns the
// lanes that got none.
FLOW_FUNCTION_ u32 flow_hand_out_(const FlowArgs *K, FlowScout *scout, u32 mask, u32 block, u32 first, u32 lane)
{
    const u32 home = scout->home[block], n = K->n_operators;
    u32 with_home = n > 1 ? FLOW_BALLOT_((mask >> lane & 1) && home < n) : 0;
    while (with_home) {
        const u32 op = FLOW_FROM_(home, flow_first_(with_home)), same = with_home & FLOW_BALLOT_(home == op);
        mask &= ~same | flow_hand_out_op_(K, scout, op, same, block, lane);
        with_home &= ~same;
    }
    for (u32 i = 0; i < n && mask; i++) {
        const u32 op = (first + i) % n;
        if (scout->next[op] < scout->limit[op])
            mask = flow_hand_out_op_(K, scout, op, mask, block, lane);
    }
    return mask;
}

// Bit B of a lane's word stands for block B * lanes + lane, so neighbours are in different lanes.
typedef struct FlowBlocks { u32 idle, busy; } FlowBlocks;

// Hands out what there is to the idle blocks, lowest numbers first.  Returns whether any got some.
FLOW_FUNCTION_ u32 flow_serve_(const FlowArgs *K, FlowScout *scout, FlowBlocks *blocks, u32 n_blocks, u32 first,
                                u32 lane)
{
    u32 n_served = 0;
    FLOW_FENCE_HERE_();                                     // jobs come before the orders to compute them
    for (u32 bit = 0; bit * FLOW_LANES_ < n_blocks; bit++) {
        const u32 mask = FLOW_BALLOT_(blocks->idle >> bit & 1);
        if (!mask)
            continue;
        const u32 rest = flow_hand_out_(K, scout, mask, bit * FLOW_LANES_ + lane, first, lane);
        if (rest == mask)                                   // nothing is left
            break;
        const u32 has_got = (mask & ~rest) >> lane & 1;
        blocks->idle &= ~(has_got << bit);
        blocks->busy |= has_got << bit;
        n_served++;
    }
    return n_served > 0;
}

FLOW_FUNCTION_ void flow_scout_(const FlowArgs *K, FlowScout *scout, u32 n_blocks)
{
    const u32 lane = FLOW_THREAD_;
    const u64 began = flow_time_ns_();
    FlowBlocks blocks = { 0, 0 };
    u64 last_active = began, vector = 0;
    u32 why = 0;
    flow_begin_(K, scout, n_blocks, lane);
    if (lane == 0)
        flow_release_system_(&K->said->arrived, K->launch);
    for (u64 n_looks = 0; !why; n_looks++) {
        const u32 is_full_look = n_looks % FLOW_LOOKS_ == 0;
        const u32 fresh = flow_exchange_32_(&K->mirror->idle[lane], 0);     // its answer comes before that of the host
        u32 is_active = flow_look_(K, scout, lane);
        blocks.idle |= fresh;
        blocks.busy &= ~fresh;
        if (is_full_look)
            vector = flow_take_vector_(K, scout, lane, vector, n_blocks);
        FLOW_WARP_();                                       // all see what each has read
        const u32 has_served = is_active && flow_serve_(K, scout, &blocks, n_blocks, (u32)n_looks, lane);
        is_active |= FLOW_BALLOT_(blocks.busy != 0);
        const u64 now = flow_time_ns_();
        if (is_full_look) {
            if (lane == 0)
                why = flow_acquire_system_(&K->posted->leave)    ? FLOW_LEFT_ASKED
                      : !is_active && now - last_active > K->idle_ns ? FLOW_LEFT_IDLE
                      : now - began > K->stay_ns                 ? FLOW_LEFT_TURN
                                                                 : 0;
            why = FLOW_FROM_(why, 0);
        }
        if (is_active)
            last_active = now;
        if (!has_served && !why)
            flow_sleep_(now - last_active > 100000 ? 500 : 20);
    }
    flow_end_(K, scout, lane);
    FLOW_WARP_();                                           // orders of all lanes come before the word below
    if (lane == 0) {
        flow_release_system_(&K->said->why, why);
        flow_release_32_(&K->mirror->is_leaving, 1);
    }
}

// ---- the other blocks -----------------------------------------------------------------------------------------------

FLOW_FUNCTION_ void flow_say_idle_(const FlowArgs *K, u32 block)
{
    flow_or_32_(&K->mirror->idle[block % FLOW_LANES_], 1u << block / FLOW_LANES_);
}

// An order other than the last one, or FLOW_ORDER_NONE when the kernel leaves.  One thread.
FLOW_FUNCTION_ u64 flow_take_order_(const FlowArgs *K, u32 block, u64 last)
{
    const u64 *mine = &K->mirror->orders[block];
    u32 pause_ns = 20;
    for (;;) {
        u64 order = flow_acquire_(mine);
        if (order != last)
            return order;
        if (flow_acquire_32_(&K->mirror->is_leaving)) {
            order = flow_acquire_(mine);                    // the scout's last one may have come in between
            return order != last ? order : FLOW_ORDER_NONE;
        }
        flow_sleep_(pause_ns);
        pause_ns = pause_ns < 500 ? 2 * pause_ns : 500;
    }
}

// False: the kernel leaves.
FLOW_FUNCTION_ u32 flow_take_run_(const FlowArgs *K, FlowShared *S, u32 block)
{
    S->order = flow_take_order_(K, block, S->order);
    S->op = (u32)(S->order & ((1u << FLOW_ORDER_OP_BITS) - 1));
    S->n_left = (u32)(S->order >> FLOW_ORDER_OP_BITS & ((1u << (FLOW_ORDER_BITS - FLOW_ORDER_OP_BITS)) - 1));
    S->ticket = (S->order >> FLOW_ORDER_BITS) - 2;          // counted up by one for each piece, before it
    return S->order != FLOW_ORDER_NONE;
}

// Waits for work; leaves S->has_work 0 when the kernel is to leave.  All lanes of the first warp.
FLOW_FUNCTION_ void flow_wait_(const FlowArgs *K, FlowShared *S, u32 block, u32 lane)
{
    if (lane == 0) {
        S->has_work = S->n_left > 0 || flow_take_run_(K, S, block);
        if (S->has_work) {
            S->ticket++;
            S->n_left--;
        }
        S->status = S->has_ended = 0;
        S->output_bytes = S->output_tag = 0;
    }
    FLOW_WARP_();
    if (S->has_work) {                                      // the job comes over the link in one go
        const FlowLine *line = &K->lines[S->op];
        const u64 *job = (const u64 *)&line->jobs[S->ticket / line->n_pieces & (line->n_slots - 1)];
        for (u32 i = lane; i < sizeof(FlowJob) / 8; i += FLOW_LANES_)
            ((u64 *)&S->job)[i] = *(const volatile u64 *)&job[i];
        for (u32 i = lane; line->page_counts && i < FLOW_PAGE_COUNTS_; i += FLOW_LANES_)
            ((u64 *)&S->page_counts)[i] = 0;
        if (lane == 0)
            S->began_ns = flow_time_ns_();
    }
}

// What one thread says goes to the block's words.
FLOW_FUNCTION_ void flow_join_(const FlowArgs *K, FlowShared *S, const FlowRound *round)
{
    if (round->output_bytes > *(volatile u64 *)&S->output_bytes)
        flow_max_(&S->output_bytes, round->output_bytes);
    if (round->status == K->end_of_stream)
        S->has_ended = 1;
    else if (round->status)
        flow_swap_if_32_(&S->status, 0, round->status);
    if (round->thread == 0)
        S->output_tag = round->output_tag;
}

FLOW_FUNCTION_ void flow_compute_(const FlowArgs *K, FlowShared *S)
{
    const FlowLine *line = &K->lines[S->op];
    const u32 piece = (u32)(S->ticket % line->n_pieces);
    FlowRound round;
    round.input = (const void *)S->job.input;
    round.input_bytes = S->job.input_bytes;
    round.output = (void *)S->job.output;
    round.output_capacity = S->job.output_capacity;
    round.context = line->context;
    round.offset = S->job.offset;
    round.tag = S->job.tag;
    round.thread = piece * FLOW_THREADS_ + FLOW_THREAD_;
    round.n_threads = line->n_pieces * FLOW_THREADS_;
    round.at_end = (u32)S->job.at_end;
    round.status = 0;
    round.output_bytes = round.output_tag = 0;
    round.page_counts = line->page_counts ? &S->page_counts : 0;
    FLOW_DISPATCH_(line->code, &round);
    flow_join_(K, S, &round);
}

FLOW_FUNCTION_ void flow_say_(const FlowLine *line, u64 number, const FlowPieces *sum, u32 end_of_stream)
{
    FlowResult *result = &line->results[number & (line->n_slots - 1)];
    if (line->page_counts)
        line->page_counts[number & (line->n_slots - 1)] = sum->page_counts;
    result->output_bytes = sum->output_bytes;
    result->output_tag = sum->output_tag;
    result->status = sum->status ? sum->status : sum->has_ended ? end_of_stream : 0;
    result->time_ns = flow_time_ns_() - sum->began_ns;
    flow_release_system_(&result->ready, number + 1);
}

FLOW_FUNCTION_ void flow_add_pages_(FlowPageCounts *to, const FlowPageCounts *from)
{
    for (u32 i = 0; i < FLOW_PAGE_COUNTS_; i++)
        if (((const u64 *)from)[i])
            flow_add_64_((u64 *)to + i, ((const u64 *)from)[i]);
}

// What all pieces of a round have added up, and zero for the next round in the slot.
FLOW_FUNCTION_ void flow_take_pages_(FlowPageCounts *from, FlowPageCounts *to)
{
    for (u32 i = 0; i < FLOW_PAGE_COUNTS_; i++) {
        ((u64 *)to)[i] = flow_acquire_((u64 *)from + i);
        flow_release_((u64 *)from + i, 0);
    }
}

// Adds the block's words to those of the round; true: this was its last piece, and SUM has all of them.
FLOW_FUNCTION_ u32 flow_add_piece_(const FlowLine *line, FlowPieces *pieces, const FlowShared *S, FlowPieces *sum)
{
    const u32 n_pieces = line->n_pieces;
    if (S->status)
        flow_swap_if_32_(&pieces->status, 0, S->status);
    if (S->has_ended)
        flow_add_(&pieces->has_ended, 1);
    flow_max_(&pieces->output_bytes, S->output_bytes);
    if (S->ticket % n_pieces == 0) {
        flow_release_(&pieces->output_tag, S->output_tag);
        flow_release_(&pieces->began_ns, S->began_ns);
    }
    if (line->page_counts)
        flow_add_pages_(&pieces->page_counts, &S->page_counts);
    FLOW_FENCE_();
    if (flow_add_(&pieces->n_done, 1) + 1 != n_pieces)
        return 0;
    FLOW_FENCE_();
    sum->status = flow_acquire_32_(&pieces->status);
    sum->has_ended = flow_acquire_32_(&pieces->has_ended);
    sum->output_bytes = flow_acquire_(&pieces->output_bytes);
    sum->output_tag = flow_acquire_(&pieces->output_tag);
    sum->began_ns = flow_acquire_(&pieces->began_ns);
    if (line->page_counts)
        flow_take_pages_(&pieces->page_counts, &sum->page_counts);
    flow_release_32_(&pieces->status, 0);                   // for the next round in this slot
    flow_release_32_(&pieces->has_ended, 0);
    flow_release_(&pieces->output_bytes, 0);
    flow_release_32_(&pieces->n_done, 0);
    return 1;
}

// The first thread, after all of the block have computed.  The fence of a piece, or the release of the result, covers
// what all of them wrote: the barrier comes before.
FLOW_FUNCTION_ void flow_finish_(const FlowArgs *K, FlowShared *S)
{
    const FlowLine *line = &K->lines[S->op];
    const u64 number = S->ticket / line->n_pieces;
    FlowPieces sum;
    u32 is_last = 1;
    sum.status = S->status;
    sum.has_ended = S->has_ended;
    sum.output_bytes = S->output_bytes;
    sum.output_tag = S->output_tag;
    sum.began_ns = S->began_ns;
    if (line->page_counts)
        sum.page_counts = S->page_counts;
    if (line->n_pieces > 1)
        is_last = flow_add_piece_(line, &line->pieces[number & (line->n_slots - 1)], S, &sum);
    if (is_last)
        flow_say_(line, number, &sum, K->end_of_stream);
}

// The next order may come while the last piece is being finished: the link takes its time for that.
FLOW_FUNCTION_ void flow_work_(const FlowArgs *K, FlowShared *S, u32 block)
{
    if (FLOW_THREAD_ == 0) {
        S->order = FLOW_ORDER_NONE;
        S->n_left = 0;
        flow_say_idle_(K, block);
    }
    for (;;) {
        if (FLOW_THREAD_ < FLOW_LANES_)
            flow_wait_(K, S, block, FLOW_THREAD_);
        FLOW_BARRIER_();
        if (!S->has_work)
            return;
        flow_compute_(K, S);
        FLOW_BARRIER_();
        if (FLOW_THREAD_ == 0) {
            if (S->n_left == 0)
                flow_say_idle_(K, block);
            flow_finish_(K, S);
        }
        FLOW_WARP_();
    }
}

// The whole of a block.
FLOW_FUNCTION_ void flow_block_(const FlowArgs *host, FlowShared *S, u32 block, u32 n_blocks)
{
    const FlowArgs *K = &S->args;
    for (u32 i = FLOW_THREAD_; i < FLOW_OPERATORS_MOST; i += FLOW_THREADS_)
        S->args.lines[i] = host->lines[i];
    if (FLOW_THREAD_ == 0) {
        S->args.posted = host->posted;
        S->args.said = host->said;
        S->args.mirror = host->mirror;
        S->args.launch = host->launch;
        S->args.idle_ns = host->idle_ns;
        S->args.stay_ns = host->stay_ns;
        S->args.n_operators = host->n_operators;
        S->args.end_of_stream = host->end_of_stream;
    }
    FLOW_BARRIER_();
    if (block > 0)
        flow_work_(K, S, block);
    else if (FLOW_THREAD_ < FLOW_LANES_)
        flow_scout_(K, &S->scout, n_blocks);
    FLOW_BARRIER_();
    if (FLOW_THREAD_ == 0) {
        FLOW_FENCE_();
        if (flow_add_(&K->mirror->n_left, 1) + 1 == n_blocks)
            flow_release_system_(&K->said->left, K->launch);
    }
}

#ifdef __CUDACC__
enum { FLOW_BLOCK_THREADS_ = 512 };
#define FLOW_KERNEL                                                                                                    \
    extern "C" __global__ void __launch_bounds__(FLOW_BLOCK_THREADS_) flow_kernel(const FlowArgs *K)                   \
    {                                                                                                                  \
        __shared__ FlowShared shared;                                                                                  \
        flow_block_(K, &shared, blockIdx.x, gridDim.x);                                                                \
    }
#endif
#endif
