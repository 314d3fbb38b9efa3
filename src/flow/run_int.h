// run_int.h - a flow that runs: operators, the virtual kernel, the split of its workers.

#ifndef WEFT_FLOW_RUN_INT_H
#define WEFT_FLOW_RUN_INT_H

#include "flow/flow_int.h"
#include "jit/jit.h"
#include "model/tune.h"

enum { KERNEL_OPERATORS_MOST = 64, PAGE_COUNTS = 8 };         // the latter: words of weft_page_counts

// ---- samples of round times, and the split that they suggest (split.c) ----------------------------------------------

typedef struct OperatorSamples {
    double  mean_ms[WEFT_WORKERS_MOST + 1];                 // of rounds with so many workers
    u32     n_rounds[WEFT_WORKERS_MOST + 1];
    u32     n_all;
    TuneFit fit;
    bool    has_fit;
    int     n_drifted;                 // rounds in a row that were far from the mean
} OperatorSamples;

// ---- operators (operator.c) -----------------------------------------------------------------------------------------

struct weft_operator {
    weft_flow            *flow;
    weft_operator        *next;        // of the flow
    weft_operator        *entering;    // of the virtual kernel's list, or of the resident one's
    char                  name[TOPIC_NAME_BYTES];
    weft_operator_options options;     // texts are not kept
    Code                 *code;        // of tile C
    bool                  is_on_gpu, has_state, has_pages;  // the latter: its text has the word STATE, COLUMN
    u32                   text_code;   // on a GPU: which of the card's texts
    weft_subscriber      *input;       // NULL: a source
    weft_publisher       *output;      // NULL: a sink
    const weft_frame     *in;          // at hand
    u64                   in_offset;
    weft_frame           *out;         // at hand: to be filled, or (is_publishing) to be published
    bool                  is_publishing, is_at_end, has_had_end;
    weft_status           wants_to_end;                     // what it said in its last round
    int                   n_idle, n_skip;                   // rounds without a frame; rounds to sit out for that
    OperatorSamples       samples;
    pthread_t             thread;      // HOST
    bool                  has_thread, has_begun;            // guarded by the flow's lock
    _Atomic u32           stop;
    _Atomic i64           busy_since_us;                    // in a round since then; 0: in none; below: which, untimed
    i64                   watched_round, watched_since_us;  // the watchdog's: an untimed round, and when it was seen
    bool                  is_short;    // HOST: its rounds are so short that one in a few is timed
    _Atomic bool          has_ended, is_stuck;
    _Atomic i64           rounds, frames_in, frames_out, busy_us, waits;
    _Atomic i64           page_counts[PAGE_COUNTS];         // as the words of weft_page_counts
    _Atomic int           workers;
};

// Gets what the next round needs: a frame of the input, an empty one for the output.  NOT_READY: not within the time.
// END_OF_STREAM: there is no next round.
weft_status operator_prepare(weft_operator *op, int timeout_ms, Error *err);
// The part of worker THREAD, which begins now; BEGAN_MS 0: it is not timed.  Returns how long it took; fills ROUND with
// what the operator has set.
double      operator_compute(weft_operator *op, u32 thread, u32 n_threads, double began_ms, weft_round *round);
// After the last worker: lets go of the input and publishes what the round gave.  NOT_READY: the topic is full, and
// operator_publish must be called until it says otherwise.  END_OF_STREAM: that was the last round.
weft_status operator_finish(weft_operator *op, const weft_round *round, int timeout_ms, Error *err);
weft_status operator_publish(weft_operator *op, int timeout_ms, Error *err);
void        operator_note_pages(weft_operator *op, const i64 *counts);      // adds PAGE_COUNTS of a round
void        operator_close(weft_operator *op);              // leaves its topics; safe to call twice

// ---- the flow (state.c) ---------------------------------------------------------------------------------------------

typedef struct VirtualKernel VirtualKernel;
typedef struct ResidentKernel ResidentKernel;
struct FlowCard;

struct weft_flow {
    weft_flow_options  options;        // with defaults filled in
    FrameHeap         *heap;
    Catalog           *catalog;
    _Atomic(weft_topic *) newest;      // topics, newest first
    _Atomic u32        stop;           // NOW: ends all waits
    _Atomic bool       is_draining, is_leaving;
    pthread_mutex_t    lock;           // guards all that follows
    pthread_cond_t     changed;        // an operator ended, or the flow failed
    u64                n_topics;
    weft_operator     *operators;
    bool               is_running;
    Error              error;          // the first
    Jit               *jit;            // once there is tile C
    VirtualKernel     *kernel;         // once there is an operator on the DEVICE side that runs on threads
    ResidentKernel    *resident;       // once there is one that runs on the GPU
    struct FlowCard   *card;           // NULL: no GPU is used.  Set once, by weft_flow_new.
    bool               is_card_asked;  // the GPU was named, so nothing may run elsewhere in silence
    pthread_t          supervisor;
    bool               has_supervisor;
};

void flow_fail(weft_flow *flow, const Error *error);        // the first counts; all operators end
void flow_note_failure(weft_flow *flow, const Error *error);                // with the flow's lock; flow_wake follows
void flow_wake(weft_flow *flow);                            // all who wait look again
// The operator leaves its topics and counts as ended.  STATUS other than END_OF_STREAM fails the flow.
void flow_operator_ended(weft_operator *op, weft_status status, const Error *error);

// ---- the virtual kernel (virtual.c) ---------------------------------------------------------------------------------

weft_status virtual_new(weft_flow *flow, VirtualKernel **kernel, Error *err);       // starts its workers
void        virtual_free(VirtualKernel *kernel);            // all of its operators have ended
void        virtual_enter(VirtualKernel *kernel, weft_operator *op);                // with the flow's lock
Bell       *virtual_bell(VirtualKernel *kernel);

// ---- operators on a GPU (resident.c) --------------------------------------------------------------------------------

weft_status resident_new(weft_flow *flow, ResidentKernel **resident, Error *err);   // starts the serving thread
void        resident_free(ResidentKernel *resident);        // all of its operators have ended; NULL is fine
void        resident_enter(ResidentKernel *resident, weft_operator *op);            // with the flow's lock
Bell       *resident_bell(ResidentKernel *resident);

// ---- which device (choice.c) ----------------------------------------------------------------------------------------

// Opens the GPU that the options or the environment ask for, and puts its memory behind the flow's heap.  OK without
// one: operators run on threads.
weft_status choose_device(weft_flow *flow, Error *err);
// Whether OP runs on the flow's GPU; compiles its TEXT then.  Fails where the GPU was asked for and cannot.
weft_status choose_place(weft_operator *op, const char *text, const weft_topic *from, const weft_topic *to, Error *err);

// ---- memory before the start (prepare.c) ----------------------------------------------------------------------------

// On a GPU, memory for the frames that the flow's topics may hold.  With the flow's lock; no operator has begun.
void prepare_memory(weft_flow *flow);

// How many workers each of N operators gets, all of N_WORKERS together; at least one each.
void split_workers(weft_operator *const *operators, int n, int n_workers, u64 round, bool is_untuned, int *workers);
void split_note(weft_operator *op, int workers, double time_ms);

#endif
