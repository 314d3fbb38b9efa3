// sim.c - the block scheduler of a GPU as paper 3 (section IV) found it: kernels in, a timeline out.
//
// Three disciplines:
//
//   1. Blocks of a kernel take as many multiprocessors as possible (loads_spread).
//   2. A block starts as soon as there is room for it, whatever still runs there.
//   3. Without Hyper-Q there is one queue, stream after stream.  Its head waits until all its blocks have started, and
//      so does everything behind it, even a kernel of another stream that depends on nothing:
//
//          stream 1: A1 B1      queue: A1 B1 A2 B2      B1 waits for A1, and A2 waits behind B1
//          stream 2: A2 B2
//
//      With Hyper-Q every stream has its own queue, and a stream that waits does not hold up those of lower rank.
//      Kernels that waited for room before get it first: A3, which depends on nothing, waits at the block scheduler
//      when the first block of A1 ends.  B1 may start only when the last one has, and by then there is no room.  So
//      every A starts before any B, as in figure 10; an H200 does the same with the streams of figure 9.
//
// Time advances from one end of blocks to the next.  A block takes as long as it is said to, alone or beside others.

#include "model/model_int.h"

typedef struct Job {                                        // a kernel
    const SimKernel *kernel;
    BlockCost cost;
    int stream, index;                                      // index: in its stream
    i64 ready_ns;                                           // when the kernel before it ended; -1: it waits for none
    int n_started, n_ended;
    int *running;                                           // blocks on each multiprocessor
} Job;

typedef struct Running {
    i64 end_ns;
    int job, span;
} Running;

typedef struct Sim {
    Arena *scratch;
    const GpuLimits *limits;
    Load *loads;                                            // of each multiprocessor
    Job *jobs;                                              // stream after stream
    int n_jobs;
    int *heads;                                             // of each queue: its first job that has not wholly started
    int *tails;
    int n_queues;
    int n_grids;                                            // jobs with blocks running
    i64 now_ns;
    Running *heap;                                          // the first one ends first
    int n_heap;
    SimSpan *spans;                                         // in the order of their start
    BlockPlace *places;                                        // of each span
    int n_spans;
} Sim;

// ---- running blocks, as a heap --------------------------------------------------------------------------------------

static void heap_push(Sim *sim, Running item)
{
    int i = sim->n_heap++;
    for (int parent; i > 0 && sim->heap[parent = (i - 1) / 2].end_ns > item.end_ns; i = parent)
        sim->heap[i] = sim->heap[parent];
    sim->heap[i] = item;
}

static Running heap_pop(Sim *sim)
{
    const Running first = sim->heap[0], last = sim->heap[--sim->n_heap];
    int i = 0;
    for (int child; (child = 2 * i + 1) < sim->n_heap; i = child) {
        if (child + 1 < sim->n_heap && sim->heap[child + 1].end_ns < sim->heap[child].end_ns)
            child++;
        if (sim->heap[child].end_ns >= last.end_ns)
            break;
        sim->heap[i] = sim->heap[child];
    }
    sim->heap[i] = last;
    return first;
}

// ---- starting blocks ------------------------------------------------------------------------------------------------

static bool is_ready(const Sim *sim, int at)
{
    const Job *before = &sim->jobs[at] - 1;
    return sim->jobs[at].index == 0 || before->n_ended == before->kernel->n_blocks;
}

static bool has_grid(const Sim *sim, const Job *job)
{
    return job->n_started > job->n_ended || sim->n_grids < sim->limits->grids;
}

static bool start_block(Sim *sim, int at)
{
    Job *job = &sim->jobs[at];
    BlockPlace *place = &sim->places[sim->n_spans];
    const int where =
        loads_spread(sim->limits, sim->loads, job->running, sim->limits->n_multiprocessors, &job->cost, place);
    if (where < 0)
        return false;
    sim->n_grids += job->n_started == job->n_ended;
    job->running[where]++;
    sim->spans[sim->n_spans] = (SimSpan){ .multiprocessor = where,
                                          .stream = job->stream,
                                          .kernel = job->index,
                                          .block = job->n_started++,
                                          .start_ns = sim->now_ns,
                                          .end_ns = sim->now_ns + job->kernel->duration_ns };
    heap_push(sim, (Running){ .end_ns = sim->spans[sim->n_spans].end_ns, .job = at, .span = sim->n_spans });
    sim->n_spans++;
    return true;
}

// Whether all its blocks have started.
static bool start_job(Sim *sim, int at)
{
    const Job *job = &sim->jobs[at];
    while (job->n_started < job->kernel->n_blocks)
        if (!has_grid(sim, job) || !start_block(sim, at))
            return false;
    return true;
}

// Of each queue the kernels that may start and, where ONLY_WAITING, waited for room before.
static void start_queues(Sim *sim, bool only_waiting)
{
    for (int queue = 0; queue < sim->n_queues; queue++)
        while (sim->heads[queue] < sim->tails[queue] && is_ready(sim, sim->heads[queue]) &&
               !(only_waiting && sim->jobs[sim->heads[queue]].ready_ns == sim->now_ns) &&
               start_job(sim, sim->heads[queue]))
            sim->heads[queue]++;
}

static void start_what_can(Sim *sim)
{
    start_queues(sim, true);
    start_queues(sim, false);
}

static void end_block(Sim *sim, const Running *block)
{
    Job *job = &sim->jobs[block->job];
    const int where = sim->spans[block->span].multiprocessor;
    load_remove(&sim->loads[where], &job->cost, &sim->places[block->span]);
    job->running[where]--;
    job->n_ended++;
    sim->n_grids -= job->n_started == job->n_ended;
    if (job->n_ended == job->kernel->n_blocks && block->job + 1 < sim->n_jobs && job[1].index > 0)
        job[1].ready_ns = sim->now_ns;
}

// ---- setting up -----------------------------------------------------------------------------------------------------

static weft_status check_kernel(const GpuLimits *limits, const SimKernel *kernel, int stream, int index, Error *err)
{
    if (kernel->n_blocks < 1 || kernel->threads_per_block < 1 || kernel->duration_ns < 0)
        return fail(err, WEFT_INVALID_PARAMETER, -1, "kernel %d of stream %d has no blocks, no threads or no duration",
                    index + 1, stream + 1);
    if (occupancy_of(limits, &kernel->needs, kernel->threads_per_block).blocks == 0)
        return fail(err, WEFT_INVALID_PARAMETER, -1, "no multiprocessor can run a block of kernel %d of stream %d",
                    index + 1, stream + 1);
    return WEFT_OK;
}

// The numbers of kernels and of blocks.  The sum of all durations is the longest that the run can take.
static weft_status check_streams(const GpuLimits *limits, const SimStream *streams, int n_streams, int *n_kernels,
                                 int *n_blocks, Error *err)
{
    i64 kernels = 0, blocks = 0, duration_ns = 0;
    for (int stream = 0; stream < n_streams; stream++)
        for (int i = 0; i < streams[stream].n_kernels; i++) {
            const SimKernel *kernel = &streams[stream].kernels[i];
            i64 all_ns;
            TRY(check_kernel(limits, kernel, stream, i, err));
            kernels++;
            blocks += kernel->n_blocks;
            if (kernels > SIM_KERNELS_MAX || blocks > SIM_BLOCKS_MAX ||
                __builtin_mul_overflow(kernel->duration_ns, kernel->n_blocks, &all_ns) ||
                __builtin_add_overflow(duration_ns, all_ns, &duration_ns))
                return fail(err, WEFT_TOO_LONG, -1, "the simulator counts up to %d kernels, %d blocks and 292 years",
                            SIM_KERNELS_MAX, SIM_BLOCKS_MAX);
        }
    *n_kernels = (int)kernels;
    *n_blocks = (int)blocks;
    return WEFT_OK;
}

static void add_stream(Sim *sim, const SimStream *stream, int rank)
{
    for (int i = 0; i < stream->n_kernels; i++) {
        const SimKernel *kernel = &stream->kernels[i];
        sim->jobs[sim->n_jobs++] = (Job){ .kernel = kernel,
                                          .cost = block_cost(sim->limits, &kernel->needs, kernel->threads_per_block),
                                          .stream = rank,
                                          .index = i,
                                          .ready_ns = -1,
                                          .running = arena_array(sim->scratch, int, sim->limits->n_multiprocessors) };
    }
}

static void add_queue(Sim *sim, int head, int tail)
{
    sim->heads[sim->n_queues] = head;
    sim->tails[sim->n_queues++] = tail;
}

static void set_up(Sim *sim, const SimStream *streams, int n_streams, int n_kernels, int n_blocks)
{
    sim->loads = arena_array(sim->scratch, Load, sim->limits->n_multiprocessors);
    sim->jobs = arena_array(sim->scratch, Job, n_kernels);
    sim->heads = arena_array(sim->scratch, int, n_streams + 1);
    sim->tails = arena_array(sim->scratch, int, n_streams + 1);
    sim->heap = arena_array(sim->scratch, Running, n_blocks);
    sim->spans = arena_array(sim->scratch, SimSpan, n_blocks);
    sim->places = arena_array(sim->scratch, BlockPlace, n_blocks + 1);   // a try needs room, too
    for (int rank = 0; rank < n_streams; rank++) {
        const int first = sim->n_jobs;
        add_stream(sim, &streams[rank], rank);
        if (sim->limits->has_hyper_q)
            add_queue(sim, first, sim->n_jobs);
    }
    if (!sim->limits->has_hyper_q)
        add_queue(sim, 0, sim->n_jobs);
}

// ---- the run --------------------------------------------------------------------------------------------------------

// Stable: within a multiprocessor spans stay in the order of their start.
static void sort_spans(Arena *arena, const Sim *sim, Timeline *timeline)
{
    const int n = sim->limits->n_multiprocessors;
    int *first = arena_array(arena, int, n + 1), *next = arena_array(sim->scratch, int, n);
    for (int i = 0; i < sim->n_spans; i++)
        first[sim->spans[i].multiprocessor + 1]++;
    for (int i = 0; i < n; i++) {
        first[i + 1] += first[i];
        next[i] = first[i];
    }
    timeline->spans = arena_array(arena, SimSpan, sim->n_spans);
    for (int i = 0; i < sim->n_spans; i++)
        timeline->spans[next[sim->spans[i].multiprocessor]++] = sim->spans[i];
    timeline->n_spans = sim->n_spans;
    timeline->first_span = first;
}

static void note_phase(Arena *arena, Timeline *timeline, i64 end_ns)
{
    if (timeline->n_phases == 0 || timeline->phase_ends_ns[timeline->n_phases - 1] != end_ns)
        *LIST_PUSH(arena, timeline->phase_ends_ns, timeline->n_phases) = end_ns;
}

static void run(Arena *arena, Sim *sim, Timeline *timeline)
{
    start_what_can(sim);
    while (sim->n_heap > 0) {
        sim->now_ns = sim->heap[0].end_ns;
        while (sim->n_heap > 0 && sim->heap[0].end_ns == sim->now_ns) {
            const Running block = heap_pop(sim);
            end_block(sim, &block);
        }
        note_phase(arena, timeline, sim->now_ns);
        start_what_can(sim);
    }
}

weft_status sim_run(Arena *arena, const GpuLimits *limits, const SimStream *streams, int n_streams, Timeline *timeline,
                    Error *err)
{
    int n_kernels = 0, n_blocks = 0;
    TRY(check_streams(limits, streams, n_streams, &n_kernels, &n_blocks, err));
    Sim sim = { .scratch = arena_new(arena, "simulation"), .limits = limits };
    set_up(&sim, streams, n_streams, n_kernels, n_blocks);
    memset(timeline, 0, sizeof(*timeline));
    run(arena, &sim, timeline);
    ASSERT(sim.n_spans == n_blocks);                        // every block fits an empty multiprocessor, so none is left
    sort_spans(arena, &sim, timeline);
    arena_free(sim.scratch);
    return WEFT_OK;
}
