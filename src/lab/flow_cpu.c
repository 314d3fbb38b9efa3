// flow_cpu.c - the CPU's form of copy-kernel-copy: copy a frame, call the operator, copy the result.  Where there is no
// GPU, this is what ours is compared with.

#include <pthread.h>
#include <stdlib.h>

#include "lab/flow_lab.h"

enum { THREADS_MAX = 8, BUFFERS = 4 };

typedef struct Caller {  // a thread
    const FlowTrial *trial;
    KernelFunction function;
    const OperatorParams *params;
    double until_ms;
    u8 *buffers[BUFFERS];  // of the host: in, out; of the other side: in, out
    FlowLog log;
    i64 n_frames, n_invocations;
    u64 seen;  // keeps the reads
} Caller;

static void run_frame(Caller *caller)
{
    const FlowTrial *trial = caller->trial;
    const int n_ops = MAX_OF(trial->n_ops, 1);
    const size_t bytes = trial->frame_bytes, out_bytes = operator_output_bytes(trial->op, bytes);
    u8 *host_in = caller->buffers[0], *host_out = caller->buffers[1], *in = caller->buffers[2],
       *out = caller->buffers[3];
    for (int i = 0; i < n_ops; i++) {
        if (i == 0 || trial->is_back_and_forth) {
            memcpy(in, host_in, bytes);
            caller->n_invocations++;
        }
        flow_call(caller->function, in, bytes, out, bytes, caller->params);
        caller->n_invocations++;
        if (i == n_ops - 1 || trial->is_back_and_forth) {
            memcpy(host_out, out, out_bytes);
            caller->n_invocations++;
        } else {
            u8 *swap = in;
            in = out;
            out = swap;
        }
    }
}

static void *run_caller(void *context)
{
    Caller *caller = context;
    const FlowTrial *trial = caller->trial;
    double now_ms = time_now_ms();
    do {
        const double start_ms = now_ms;
        if (trial->input)
            memcpy(caller->buffers[0], trial->input, trial->frame_bytes);
        else
            flow_touch(caller->buffers[0], trial->frame_bytes, (u64)caller->n_frames);
        run_frame(caller);
        caller->seen += flow_look(caller->buffers[1], operator_output_bytes(trial->op, trial->frame_bytes));
        now_ms = time_now_ms();
        flow_log_add(&caller->log, (now_ms - start_ms) * 1000);
        caller->n_frames++;
    } while (now_ms < caller->until_ms && (!trial->n_frames_max || caller->n_frames < trial->n_frames_max));
    return NULL;
}

static weft_status start_and_join(Caller *callers, int n, Error *err)
{
    pthread_t threads[THREADS_MAX];
    int n_started = 1;
    for (; n_started < n; n_started++)
        if (thread_start(&threads[n_started], NULL, run_caller, &callers[n_started]))
            break;
    run_caller(&callers[0]);
    for (int i = 1; i < n_started; i++)
        pthread_join(threads[i], NULL);
    return n_started == n ? WEFT_OK : fail(err, WEFT_OUT_OF_MEMORY, -1, "no thread could be started");
}

static weft_status run_callers(FlowLab *flow, Arena *scratch, const FlowWay *way, const FlowTrial *trial,
                               FlowFigures *figures, Error *err)
{
    Caller *callers = arena_array(scratch, Caller, way->n_at_once);
    OperatorParams *params = arena_make(scratch, OperatorParams);
    KernelFunction function;
    i64 n_frames = 0, n_invocations = 0;
    operator_params(trial->op, trial->frame_bytes, params);
    TRY(flow_function(flow, trial->op, &function, err));
    for (int i = 0; i < way->n_at_once; i++) {
        callers[i] = (Caller){ .trial = trial, .function = function, .params = params, .log = flow_log_new(scratch) };
        for (int b = 0; b < BUFFERS; b++)
            callers[i].buffers[b] = arena_alloc(scratch, trial->frame_bytes);
    }
    const double start_ms = time_now_ms();
    for (int i = 0; i < way->n_at_once; i++)
        callers[i].until_ms = start_ms + flow->measure_ms;
    TRY(start_and_join(callers, way->n_at_once, err));
    const double seconds = (time_now_ms() - start_ms) / 1000;
    for (int i = 0; i < way->n_at_once; i++) {
        n_frames += callers[i].n_frames;
        n_invocations += callers[i].n_invocations;
    }
    if (trial->output)
        memcpy(trial->output, callers[0].buffers[1], operator_output_bytes(trial->op, trial->frame_bytes));
    flow_sum_up(trial, &callers[0].log, n_frames, seconds, (double)n_invocations, figures);
    return WEFT_OK;
}

static weft_status run_call(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures, Error *err)
{
    Arena *scratch = arena_new(NULL, "callers");
    const weft_status status = run_callers(flow, scratch, way, trial, figures, err);
    arena_free(scratch);
    return status;
}

const FlowWay flow_way_call = { "copy-call-copy", run_call, 1, false, 0 };
const FlowWay flow_way_call_2 = { "copy-call-copy, 2 threads", run_call, 2, false, 0 };
