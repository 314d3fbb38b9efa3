// flow_measure.c - see flow_lab.h: runs, latencies, and whether a result is right.

#include <math.h>
#include <stdlib.h>

#include "lab/flow_lab.h"

extern const char kernel_flow_text[];

const char *flow_size_text(Lab *lab, size_t bytes)
{
    return bytes < 1 << 20 ? arena_printf(lab->arena, "%zu KB", bytes >> 10)
                           : arena_printf(lab->arena, "%zu MB", bytes >> 20);
}

size_t flow_nearest_size(const FlowLab *flow, size_t wanted)
{
    size_t nearest = flow->sizes[0];
    for (int i = 1; i < flow->n_sizes; i++)
        if (fabs(log2((double)flow->sizes[i] / (double)wanted)) < fabs(log2((double)nearest / (double)wanted)))
            nearest = flow->sizes[i];
    return nearest;
}

FlowLog flow_log_new(Arena *arena)
{
    return (FlowLog){ .us = arena_array(arena, double, FLOW_LOG_MAX) };
}

void flow_log_add(FlowLog *log, double us)
{
    log->us[log->n++ % FLOW_LOG_MAX] = us;
}

void flow_sum_up(const FlowTrial *trial, const FlowLog *log, i64 n_frames, double seconds, double n_invocations,
                 FlowFigures *figures)
{
    const LabFigures latency = lab_figures(log->us, (int)MIN_OF(log->n, (i64)FLOW_LOG_MAX));
    const double gb = (double)n_frames * (double)trial->frame_bytes / 1e9;
    figures->n_frames = n_frames;
    figures->seconds = seconds;
    figures->gb_s = seconds > 0 ? gb / seconds : 0;
    figures->p50_us = latency.median;
    figures->p99_us = latency.p99;
    figures->invocations = gb > 0 ? n_invocations / gb : 0;
}

weft_status flow_has_time(const FlowLab *flow, Error *err)
{
    if (flow->until_ms && time_now_ms() > flow->until_ms)
        return fail(err, WEFT_NOT_READY, -1, "no time left (--seconds)");
    return WEFT_OK;
}

const char *flow_problem(Lab *lab, const Error *err)
{
    return arena_printf(lab->arena, err->status == WEFT_NOT_READY ? "%s" : "failed: %s", err->message);
}

weft_status flow_measure(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures, Error *err)
{
    // However late a part begins, it has a figure.
    if (flow->n_measured++ > 0)
        TRY(flow_has_time(flow, err));
    for (int run = 0; run < flow->n_runs; run++) {
        FlowFigures once = { 0 };
        if (run > 0 && flow->half_ms && time_now_ms() > flow->half_ms)
            break;
        TRY(way->run(flow, way, trial, &once, err));
        if (run == 0 || once.gb_s > figures->gb_s)
            *figures = once;
    }
    return WEFT_OK;
}

// ---- the CPU's answer -----------------------------------------------------------------------------------------------

weft_status flow_function(FlowLab *flow, const LabOperator *op, KernelFunction *function, Error *err)
{
    const char *notice = NULL;
    Code *code;
    JitTier tier;
    // Short measurements are tests: cc would take longer than they do.
    TRY(jit_get(flow->jit, op->text, op->name, flow->measure_ms < 10 ? JIT_AUTO : JIT_CC, &code, &notice, err));
    *function = code_function(code, &tier);
    return WEFT_OK;
}

void flow_call(KernelFunction function, const void *in, size_t bytes, void *out, size_t out_bytes,
               const OperatorParams *params)
{
    weft_round round = { .input = in,
                         .input_bytes = bytes,
                         .output = out,
                         .output_capacity = out_bytes,
                         .context = (void *)params,
                         .n_threads = 1 };
    function(&round);
}

static void fill_frame(Lab *lab, u8 *frame, size_t bytes)
{
    LabRandom random = lab_random(lab, "frame");
    for (size_t at = 0; at + sizeof(u64) <= bytes; at += sizeof(u64)) {
        const u64 word = lab_random_next(&random);
        memcpy(frame + at, &word, sizeof(word));
    }
    memcpy(frame, operator_aes_plain, sizeof(operator_aes_plain));
}

static weft_status compare(const FlowWay *way, const LabOperator *op, const u8 *is, const u8 *should, size_t bytes,
                           Error *err)
{
    for (size_t at = 0; at < bytes; at++)
        if (is[at] != should[at])
            return fail(err, WEFT_DEVICE_FAILED, -1, "%s, %s: byte %zu is %d and should be %d", op->title, way->title,
                        at, is[at], should[at]);
    return WEFT_OK;
}

static weft_status check_in(FlowLab *flow, Arena *scratch, const FlowWay *way, const LabOperator *op,
                            size_t frame_bytes, Error *err)
{
    const size_t out_bytes = operator_output_bytes(op, frame_bytes);
    u8 *in = arena_alloc(scratch, frame_bytes), *out = arena_alloc(scratch, frame_bytes);
    u8 *should = arena_alloc(scratch, frame_bytes);
    OperatorParams *params = arena_make(scratch, OperatorParams);
    FlowFigures figures = { 0 };
    KernelFunction function;
    fill_frame(flow->lab, in, frame_bytes);
    operator_params(op, frame_bytes, params);
    TRY(flow_function(flow, op, &function, err));
    flow_call(function, in, frame_bytes, should, frame_bytes, params);
    Error other = { 0 };
    if (operator_check(op, in, frame_bytes, should, &other) && other.status != WEFT_UNDEFINED_OBJECT)
        return fail(err, other.status, -1, "%s", other.message);
    const FlowTrial trial = { .op = op, .frame_bytes = frame_bytes, .n_frames_max = 3, .input = in, .output = out };
    TRY(way->run(flow, way, &trial, &figures, err));
    return compare(way, op, out, should, out_bytes, err);
}

weft_status flow_check(FlowLab *flow, const FlowWay *way, const LabOperator *op, size_t frame_bytes, Error *err)
{
    Arena *scratch = arena_new(NULL, "check");
    const weft_status status = check_in(flow, scratch, way, op, frame_bytes, err);
    arena_free(scratch);
    return status;
}
