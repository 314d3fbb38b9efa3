// flow_loop.h - the kernel that stays on the device and takes frames as they come (paper 5, algorithm 2).
//
// Put after flow.h and flow_args.h and before the operators' texts.  Block 0 is the scout: it reads the host's words
// over the link, all of them at once, and mirrors them in device memory.  The other blocks work.  So the link carries
// one look in a microsecond or so, however many blocks wait.
//
//     scout    posted[operator], leave, the work vector ──> mirror in device memory
//     block    takes a piece of a round: of its own operator by the work vector, else of any that has one
//              its threads compute: virtual ids are piece * threads + thread, of pieces * threads
//              the block that finishes the last piece writes the result
//
// A block that finds nothing sleeps a little longer each time, up to a microsecond.  A piece is taken by one compare
// and swap in device memory, and a block leaves only when it holds none: so a launch can end at any round boundary, and
// the next one goes on from where it was.  Nothing here waits for another block but for the scout, which always runs:
// the host launches no more blocks than the driver says are resident together.
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
#define FLOW_FROM_(v, l)   __shfl_sync(0xffffffffu, (v), (int)(l))
#define FLOW_FENCE_()      __threadfence_system()
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
FLOW_FUNCTION_ u64 flow_swap_if_(u64 *word, u64 old, u64 value) { return atomicCAS(word, old, value); }
FLOW_FUNCTION_ u32 flow_add_(u32 *word, u32 value) { return atomicAdd(word, value); }
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

typedef struct FlowShared {            // of a block
    FlowArgs args;                     // a copy: the host's is across the link
    u32      op, has_work, status, has_ended;
    u64      ticket, output_bytes, output_tag, began_ns;
    FlowJob  job;
} FlowShared;

// ---- block 0: the scout ---------------------------------------------------------------------------------------------

enum { FLOW_LOOKS_ = 16 };               // looks at `posted` for one at everything else

// Mirrors `posted` where it has changed: then true.  SEEN is what this lane saw last.  All lanes of the first warp.
FLOW_FUNCTION_ u32 flow_look_(const FlowArgs *K, u64 *seen, u32 lane)
{
    u32 has_changed = 0;
    for (u32 op = lane, i = 0; op < K->n_operators; op += FLOW_LANES_, i++) {
        const u64 posted = flow_acquire_system_(&K->posted->posted[op]);
        if (posted != seen[i]) {
            seen[i] = posted;
            flow_release_(&K->mirror->posted[op], posted);
            has_changed = 1;
        }
    }
    return FLOW_BALLOT_(has_changed) != 0;
}

// Whether a block computes, or work is left.
FLOW_FUNCTION_ u32 flow_is_busy_(const FlowArgs *K, const u64 *seen, u32 lane)
{
    u32 is_busy = flow_acquire_32_(&K->mirror->n_busy) != 0;
    for (u32 op = lane, i = 0; op < K->n_operators; op += FLOW_LANES_, i++)
        is_busy |= K->lines[op].n_pieces && flow_acquire_(K->lines[op].next) < seen[i] * K->lines[op].n_pieces;
    return FLOW_BALLOT_(is_busy) != 0;
}

FLOW_FUNCTION_ u64 flow_take_vector_(const FlowArgs *K, u32 lane, u64 seen, u32 n_blocks)
{
    const u64 number = flow_acquire_system_(&K->posted->vector_number);
    if (number != seen)
        for (u32 block = lane; block < n_blocks; block += FLOW_LANES_)
            flow_release_32_(&K->mirror->vector[block], flow_load_byte_(&K->posted->vector[block]));
    return number;
}

FLOW_FUNCTION_ void flow_scout_(const FlowArgs *K, u32 n_blocks)
{
    const u32 lane = FLOW_THREAD_;
    const u64 began = flow_time_ns_();
    u64 seen[FLOW_OPERATORS_MOST / FLOW_LANES_], last_active = began, vector = 0;
    u32 why = 0;
    for (u32 i = 0; i < FLOW_OPERATORS_MOST / FLOW_LANES_; i++)
        seen[i] = 0;
    if (lane == 0)
        flow_release_system_(&K->said->arrived, K->launch);
    for (u64 n_looks = 0; !why; n_looks++) {
        u32 is_active = flow_look_(K, seen, lane);
        const u64 now = flow_time_ns_();
        if (n_looks % FLOW_LOOKS_ == 0) {
            vector = flow_take_vector_(K, lane, vector, n_blocks);
            is_active |= flow_is_busy_(K, seen, lane);
            if (lane == 0)
                why = flow_acquire_system_(&K->posted->leave)    ? FLOW_LEFT_ASKED
                      : !is_active && now - last_active > K->idle_ns ? FLOW_LEFT_IDLE
                      : now - began > K->stay_ns                 ? FLOW_LEFT_TURN
                                                                 : 0;
            why = FLOW_FROM_(why, 0);
        }
        if (is_active)
            last_active = now;
        else if (!why)
            flow_sleep_(now - last_active > 100000 ? 500 : 20);
    }
    if (lane == 0) {
        flow_release_system_(&K->said->why, why);
        flow_release_32_(&K->mirror->is_leaving, 1);
    }
}

// ---- the other blocks -----------------------------------------------------------------------------------------------

// A piece of OP, or ~0: it has none.
FLOW_FUNCTION_ u64 flow_take_piece_(const FlowArgs *K, const FlowLine *line, u32 op)
{
    const u64 limit = flow_acquire_(&K->mirror->posted[op]) * line->n_pieces;
    u64 next = flow_acquire_(line->next);
    while (next < limit) {
        const u64 old = flow_swap_if_(line->next, next, next + 1);
        if (old == next)
            return next;
        next = old;
    }
    return ~(u64)0;
}

// Looks once at all operators, from HOME on.  All lanes of the first warp; true: S->op and S->ticket are set.
FLOW_FUNCTION_ u32 flow_find_(const FlowArgs *K, FlowShared *S, u32 home, u32 lane)
{
    const u32 n = K->n_operators;
    for (u32 base = 0; base < n; base += FLOW_LANES_) {
        const u32 op = base + lane < n ? (home + base + lane) % n : 0;
        const u32 may = base + lane < n && K->lines[op].n_pieces &&
                        flow_acquire_(K->lines[op].next) <
                            flow_acquire_(&K->mirror->posted[op]) * K->lines[op].n_pieces;
        u32 mask = FLOW_BALLOT_(may);
        for (; mask; mask &= mask - 1) {
            const u32 chosen = FLOW_FROM_(op, flow_first_(mask));
            u64 ticket = 0;
            if (lane == 0)
                ticket = flow_take_piece_(K, &K->lines[chosen], chosen);
            ticket = FLOW_FROM_(ticket, 0);
            if (ticket == ~(u64)0)
                continue;
            S->op = chosen;
            S->ticket = ticket;
            return 1;
        }
    }
    return 0;
}

// Waits for work; leaves S->has_work 0 when the kernel is to leave.  All lanes of the first warp.
FLOW_FUNCTION_ void flow_wait_(const FlowArgs *K, FlowShared *S, u32 block, u32 lane)
{
    u32 pause_ns = 20, has_work = 0;
    for (;;) {
        const u32 home = flow_acquire_32_(&K->mirror->vector[block]);
        if (FLOW_BALLOT_(flow_acquire_32_(&K->mirror->is_leaving) != 0))
            break;
        has_work = flow_find_(K, S, home == FLOW_NO_HOME ? block % K->n_operators : home, lane);
        if (has_work)
            break;
        flow_sleep_(pause_ns);
        pause_ns = pause_ns < 500 ? 2 * pause_ns : 1000;
    }
    if (lane == 0) {
        S->has_work = has_work;
        S->status = S->has_ended = 0;
        S->output_bytes = S->output_tag = 0;
        if (has_work)
            flow_add_(&K->mirror->n_busy, 1);
    }
    FLOW_WARP_();
    if (has_work) {                                         // the job comes over the link in one go
        const FlowLine *line = &K->lines[S->op];
        const u64 *job = (const u64 *)&line->jobs[S->ticket / line->n_pieces & (line->n_slots - 1)];
        for (u32 i = lane; i < sizeof(FlowJob) / 8; i += FLOW_LANES_)
            ((u64 *)&S->job)[i] = *(const volatile u64 *)&job[i];
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
    FLOW_DISPATCH_(line->code, &round);
    flow_join_(K, S, &round);
}

FLOW_FUNCTION_ void flow_say_(const FlowLine *line, u64 number, const FlowPieces *sum, u32 end_of_stream)
{
    FlowResult *result = &line->results[number & (line->n_slots - 1)];
    result->output_bytes = sum->output_bytes;
    result->output_tag = sum->output_tag;
    result->status = sum->status ? sum->status : sum->has_ended ? end_of_stream : 0;
    result->time_ns = flow_time_ns_() - sum->began_ns;
    flow_release_system_(&result->ready, number + 1);
}

// Adds the block's words to those of the round; true: this was its last piece, and SUM has all of them.
FLOW_FUNCTION_ u32 flow_add_piece_(FlowPieces *pieces, const FlowShared *S, u32 n_pieces, FlowPieces *sum)
{
    if (S->status)
        flow_swap_if_32_(&pieces->status, 0, S->status);
    if (S->has_ended)
        flow_add_(&pieces->has_ended, 1);
    flow_max_(&pieces->output_bytes, S->output_bytes);
    if (S->ticket % n_pieces == 0) {
        flow_release_(&pieces->output_tag, S->output_tag);
        flow_release_(&pieces->began_ns, S->began_ns);
    }
    FLOW_FENCE_();
    if (flow_add_(&pieces->n_done, 1) + 1 != n_pieces)
        return 0;
    FLOW_FENCE_();
    sum->status = flow_acquire_32_(&pieces->status);
    sum->has_ended = flow_acquire_32_(&pieces->has_ended);
    sum->output_bytes = flow_acquire_(&pieces->output_bytes);
    sum->output_tag = flow_acquire_(&pieces->output_tag);
    sum->began_ns = flow_acquire_(&pieces->began_ns);
    flow_release_32_(&pieces->status, 0);                   // for the next round in this slot
    flow_release_32_(&pieces->has_ended, 0);
    flow_release_(&pieces->output_bytes, 0);
    flow_release_32_(&pieces->n_done, 0);
    return 1;
}

// The first thread, after all of the block have computed.  Its fence covers what they wrote: the barrier comes before.
FLOW_FUNCTION_ void flow_finish_(const FlowArgs *K, FlowShared *S)
{
    const FlowLine *line = &K->lines[S->op];
    const u64 number = S->ticket / line->n_pieces;
    FlowPieces sum;
    u32 is_last = 1;
    FLOW_FENCE_();
    sum.status = S->status;
    sum.has_ended = S->has_ended;
    sum.output_bytes = S->output_bytes;
    sum.output_tag = S->output_tag;
    sum.began_ns = S->began_ns;
    if (line->n_pieces > 1)
        is_last = flow_add_piece_(&line->pieces[number & (line->n_slots - 1)], S, line->n_pieces, &sum);
    if (is_last)
        flow_say_(line, number, &sum, K->end_of_stream);
    flow_add_(&K->mirror->n_busy, (u32)-1);
}

FLOW_FUNCTION_ void flow_work_(const FlowArgs *K, FlowShared *S, u32 block)
{
    for (;;) {
        if (FLOW_THREAD_ < FLOW_LANES_)
            flow_wait_(K, S, block, FLOW_THREAD_);
        FLOW_BARRIER_();
        if (!S->has_work)
            return;
        flow_compute_(K, S);
        FLOW_BARRIER_();
        if (FLOW_THREAD_ == 0)
            flow_finish_(K, S);
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
        flow_scout_(K, n_blocks);
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
