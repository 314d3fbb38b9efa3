// flow_lab.h - frames through operators in several ways, measured: what the parts of weft lab flow share.
//
//     const FlowTrial trial = { .op = operator_find("ping-pong"), .n_ops = 1, .frame_bytes = 16384 };
//     FlowFigures figures;
//     if (flow_measure(flow, way, &trial, &figures, &err)) ...;      // the others go on
//     figures.gb_s, figures.p99_us
//
// A way is how frames get from the host to the operator and back: copy-kernel-copy, tasks, managed memory, ours.  The
// host writes one word of each page of a frame before it goes and reads one of each page that comes back, whatever the
// way: no way has to make or read a stream faster than a core can.

#ifndef WEFT_LAB_FLOW_H
#define WEFT_LAB_FLOW_H

#include "jit/jit.h"
#include "lab/lab_int.h"
#include "lab/operators.h"
#include "lab/page_faults.h"
#include "weft_flow.h"

enum { FLOW_PAGE = 4096, FLOW_SIZES_MAX = 8, FLOW_OPS_MAX = 4 };

typedef struct FlowGpu FlowGpu;                             // flow_gpu.c
typedef struct FlowWay FlowWay;

typedef struct FlowLab {
    Lab    *lab;
    Arena  *arena;
    Jit    *jit;                                            // of operators on the CPU
    FlowGpu *gpu;                                           // NULL: the CPU's form
    size_t  sizes[FLOW_SIZES_MAX];                          // of frames
    int     n_sizes;
    double  measure_ms;                                     // of one measurement
    int     n_runs;
    const FlowWay *const *ways;                             // ours is the last of the first n_ways
    int     n_ways;                                         // of every part
    int     n_all;                                          // and those that only ping-pong has
    double  half_ms, until_ms;                              // of the part that runs: then one run each; then none
    int     n_measured;                                     // of that part
    char    place[48];                                      // where ours ran last
} FlowLab;

typedef struct FlowTrial {
    const LabOperator *op;
    int         n_ops;                                      // so many of them, one after the other; 0: one
    bool        is_back_and_forth;                          // C(GC)n, the host between two; else C(G)nC
    size_t      frame_bytes;
    i64         n_frames_max;                               // 0: until the time is up
    bool        is_alone;                                   // one frame at a time, for its latency
    const void *input;                                      // of every frame; NULL: whatever is there
    void       *output;                                     // of the last frame; NULL: not wanted
} FlowTrial;

typedef struct FlowFigures {
    i64    n_frames;
    double seconds;
    double gb_s;                                            // of input, 10^9 bytes
    double p50_us, p99_us;                                  // of a frame, from the host to the host
    double invocations;                                     // copies and launches that the host asked for, for each GB
    double busy;                                            // of ours: share of the time inside operators
    double waits;                                           // of ours: rounds that operators sat out, per frame
    int    workers;                                         // of ours: that the operator had at last
} FlowFigures;

struct FlowWay {
    const char *title;
    weft_status (*run)(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures, Error *err);
    int  n_at_once;                                         // streams or threads
    bool is_pinned;
    int  rules;                                             // of topics over managed memory: layers that have theirs
};

extern const FlowWay flow_way_ours;                         // flow_ours.c: through weft_flow.h
extern const FlowWay flow_way_ours_managed;                 // the same, frames in managed memory
extern const FlowWay flow_way_call, flow_way_call_2;        // flow_cpu.c: copy, call, copy
extern const FlowWay flow_way_pageable, flow_way_pinned, flow_way_streams_2, flow_way_streams_4, flow_way_streams_8,
    flow_way_tasks;                                         // flow_gpu.c
extern const FlowWay flow_way_managed, flow_way_topics, flow_way_catalog, flow_way_index,
    flow_way_xeflow;                                        // flow_managed.c: a kernel, and topics rule by rule

// ---- measuring (flow_measure.c) -------------------------------------------------------------------------------------

// The best of n_runs, or of fewer when the part's time is half over.  NOT_READY: all of it is over.
weft_status flow_measure(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, FlowFigures *figures, Error *err);
// One frame of random bytes: the way's result must be that of the CPU, which must be that of operator_check.
weft_status flow_check(FlowLab *flow, const FlowWay *way, const LabOperator *op, size_t frame_bytes, Error *err);
// The operator compiled for this CPU, for one frame.
weft_status flow_function(FlowLab *flow, const LabOperator *op, KernelFunction *function, Error *err);
void        flow_call(KernelFunction function, const void *in, size_t bytes, void *out, size_t out_bytes,
                      const OperatorParams *params);

enum { FLOW_LOG_MAX = 1 << 15 };
typedef struct FlowLog { double *us; i64 n; } FlowLog;      // latencies; the newest FLOW_LOG_MAX of many
FlowLog     flow_log_new(Arena *arena);
void        flow_log_add(FlowLog *log, double us);
// Fills throughput and latencies of N_FRAMES that took SECONDS.
void        flow_sum_up(const FlowTrial *trial, const FlowLog *log, i64 n_frames, double seconds, double n_invocations,
                        FlowFigures *figures);

const char *flow_size_text(Lab *lab, size_t bytes);         // "16 KB"
// Of the frame sizes that are measured, the one nearest to what the paper has.
size_t      flow_nearest_size(const FlowLab *flow, size_t wanted);
const char *flow_problem(Lab *lab, const Error *err);       // for a cell: "failed: ...", or that there was no time
// OK, or NOT_READY when the time of the part that runs is over.
weft_status flow_has_time(const FlowLab *flow, Error *err);

static inline void flow_touch(void *frame, size_t bytes, u64 number)
{
    for (size_t at = 0; at < bytes; at += FLOW_PAGE)
        *(volatile u64 *)((u8 *)frame + at) = number + at;
}

static inline u64 flow_look(const void *frame, size_t bytes)
{
    u64 sum = 0;
    for (size_t at = 0; at < bytes; at += FLOW_PAGE)
        sum += *(const volatile u64 *)((const u8 *)frame + at);
    return sum;
}

// ---- ours: what only it can be asked (flow_ours.c) ------------------------------------------------------------------

// Two operators in one flow, each on frames of its own, with so many workers in all.
typedef struct FlowPair {
    const LabOperator *ops[2];
    size_t frame_bytes;
    int    n_workers;
    bool   is_untuned;
    double gb_s;                                            // measured, of both
    int    workers[2];                                      // at last
    double round_us[2];                                     // mean, by the operator's own clock
} FlowPair;

weft_status flow_run_pair(FlowLab *flow, FlowPair *pair, Error *err);       // ops[1] may be NULL: only one

// Where operators of the lab's flows run.
void        flow_choose_device(const FlowLab *flow, weft_flow_options *options);
// Notes for the report where OWN ran, and returns how often its kernel was launched.
double      flow_note_place(FlowLab *flow, weft_flow *own);

// ---- on a GPU (flow_gpu.c) ------------------------------------------------------------------------------------------

weft_status flow_gpu_open(FlowLab *flow, Error *err);
// Two FMA operators in blocks of 32 warps, WARPS of them for the first.
typedef struct FlowSplit {
    u32    x[2];
    int    warps;                                           // 0: two kernels at once, in two streams
    double gb_s, round_us[2];
} FlowSplit;

// Page faults of a way for each GB.  NO_DEVICE: they cannot be counted here.  CUPTI is loaded by the first call and
// stays, so this comes after all that is timed.
weft_status flow_gpu_faults(FlowLab *flow, const FlowWay *way, const FlowTrial *trial, PageFaults *per_gb, Error *err);
weft_status flow_gpu_split(FlowLab *flow, FlowSplit *split, Error *err);

// ---- parts of the experiment ----------------------------------------------------------------------------------------
// Each prints what it can and says what failed; only files that cannot be written end the experiment.

weft_status flow_chains(FlowLab *flow);                     // flow_chains.c
weft_status flow_page_faults(FlowLab *flow);                // flow_faults.c
weft_status flow_splits(FlowLab *flow);                     // flow_splits.c
weft_status flow_encoding(FlowLab *flow);                   // flow_encoding.c
weft_status flow_set_query(FlowLab *flow);                  // set_query_lab.c
weft_status flow_crossover(FlowLab *flow);                  // flow_crossover.c
weft_status flow_streaming(FlowLab *flow);                  // flow_streaming.c

#endif
