// weft_flow.h - frames, topics and operators that stay: the public C API of Weft for pipelines that never stop.
//
//     weft_flow *flow;  weft_topic *numbers;  weft_error error;
//     if (weft_flow_new(NULL, &flow, &error)) ...;
//     weft_topic_new(flow, "numbers", &(weft_topic_options){ .frame_bytes = 16384 }, &numbers, &error);
//     weft_flow_link(flow, NULL, &(weft_operator_options){ .name = "up", .compute = count_up }, numbers, NULL, &error);
//     weft_flow_link(flow, numbers, &(weft_operator_options){ .name = "sink", .compute = print }, NULL, NULL, &error);
//     if (weft_flow_run(flow, &error)) puts(error.message);      // until all operators have ended
//     weft_flow_free(flow);
//
// A flow has topics and operators.  An operator takes frames from one topic, computes, and puts frames into another.
// It is called once for each frame and never launched again.  docs/flow.md explains more; examples/ping_pong.c is a
// program.
//
// Sides.  A frame, a topic's publishers and an operator are each on one side.  WEFT_SIDE_HOST operators have a thread
// of their own.  WEFT_SIDE_DEVICE operators that are tile C run on a GPU where there is one (weft_flow_options.device):
// in one kernel, which stays as long as frames come.  All others on that side share the workers of one virtual kernel,
// which are threads.  With a GPU, frames of HOST topics are pinned memory that both sides use in place, and frames of
// DEVICE topics are device memory, which only operators there can use.
//
// Memory order.  Whatever a thread wrote before it published a frame can be read by every thread that took that frame.
// Whatever a subscriber read of a frame was read before the frame's memory is used again.  Two frames of one topic are
// seen in the order of their offsets.  Nothing orders frames of two topics.  Across a link to a device the same holds,
// and rests on four rules:
//
//     1. a publisher stores frame and index entry, then releases the word that says how many entries there are;
//     2. a subscriber acquires that word, then copies entries and reads frames;
//     3. it releases the word that says how many frames it is done with, after its last read of them;
//     4. a publisher acquires that word, then uses their slots and memory again.
//
// Each word is written by one side only, so no atomic operation ever crosses the link.  To a GPU the words are in
// pinned memory of the host.  The host stores a job (input frame, output frame), then releases the count of jobs; a
// block of the kernel acquires that count with the scope of the system (ld.acquire.sys), reads the job and its frame,
// writes the output frame, makes a fence for the whole system (__threadfence_system), stores the result, and releases
// its number (st.release.sys), which the host acquires before it publishes the frame.
//
// Threads.  Any thread may call anything, but a publisher, a subscriber and a frame are used by one thread at a time.
// A thread that ends while it owns a publisher or a subscriber (it opened it, or used it last) leaves its topic: what
// it published can still be read, and then subscribers get OPERATOR_FAILED instead of waiting for ever.
//
// Calls that wait take TIMEOUT_MS: 0 does not wait, WEFT_FOREVER waits until the flow is stopped.  None of them is a
// cancellation point.  ERROR may be NULL in every call.

#ifndef WEFT_FLOW_H
#define WEFT_FLOW_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

typedef enum weft_side { WEFT_SIDE_HOST, WEFT_SIDE_DEVICE, WEFT_N_SIDES } weft_side;

enum {
    WEFT_FOREVER      = -1,
    WEFT_FRAME_LEAST  = 4096,          // bytes of the smallest frame; sizes are rounded up to powers of two
    WEFT_FRAME_MOST   = 16 << 20,
    WEFT_WORKERS_MOST = 32
};

typedef struct weft_flow       weft_flow;
typedef struct weft_topic      weft_topic;
typedef struct weft_publisher  weft_publisher;
typedef struct weft_subscriber weft_subscriber;
typedef struct weft_operator   weft_operator;

// ---- a flow ---------------------------------------------------------------------------------------------------------

// Where the frames of one side come from.  take returns BYTES of memory at a page's boundary, or NULL; it need not be
// zeroed.  Both are called by one thread at a time.
typedef struct weft_memory {
    void *(*take)(void *context, size_t bytes);             // NULL: memory of the process
    void  (*give)(void *context, void *memory, size_t bytes);
    void   *context;
    bool    is_private;                // the other side cannot use it, so it never borrows frames from here
    bool    is_remote;                 // the host cannot touch it: freed frames are not filled with a pattern
    int64_t bytes_max;                 // all buffers of this side together; 0: no limit
} weft_memory;

typedef struct weft_flow_options {
    weft_memory memory[WEFT_N_SIDES];
    int64_t     buffer_bytes;          // a heap grows by so much, 16 MiB at most; 0: 4 MiB, on a GPU by as much as
                                       // there is
    int         workers;               // of the virtual kernel, 32 at most; 0: one for each core
    int         watchdog_ms;           // an operator that computes one frame for longer fails the flow; 0: 10 s;
                                       // -1: no limit
    int         stop_ms;               // weft_flow_free waits so long for operators that compute; 0: 10 s
    bool        is_untuned;            // workers are always split evenly
    const char *device;                // for tile C on the DEVICE side: "auto", "cpu" (threads), "cuda" or "cuda:1";
                                       // NULL: $WEFT_DEVICE, else "auto": a GPU if there is one that can be used, else
                                       // threads.  With a GPU a memory may have a limit, but no take and give.
    bool        is_managed;            // on a GPU: frames are managed memory, 8 GiB at most, instead of pinned and
                                       // device memory: the paper's way, for comparison
} weft_flow_options;

// OPTIONS may be NULL: the defaults.
weft_status weft_flow_new(const weft_flow_options *options, weft_flow **flow, weft_error *error);
// Stops the flow and frees it with its topics, operators, publishers and subscribers.  Frames that are still held
// become invalid; a warning in the log counts them.  An operator that does not return within stop_ms keeps the flow's
// memory.
void        weft_flow_free(weft_flow *flow);                                                        // NULL is fine

weft_status weft_flow_start(weft_flow *flow, weft_error *error);
// Until all operators have ended, or the flow has failed: then its first error.  NOT_READY: time is up.
weft_status weft_flow_wait(weft_flow *flow, int timeout_ms, weft_error *error);
weft_status weft_flow_run(weft_flow *flow, weft_error *error);                                      // start, then wait
// Any thread; returns at once, weft_flow_wait tells the end.  DRAIN: sources end, and publishers that are not operators
// get END_OF_STREAM; all that was published is still computed.  NOW: every operator ends after the frame at hand.
typedef enum weft_stop { WEFT_STOP_DRAIN, WEFT_STOP_NOW } weft_stop;
void        weft_flow_stop(weft_flow *flow, weft_stop how);

typedef struct weft_heap_counts {      // of one side
    int64_t bytes, bytes_most;         // in buffers: now, and ever
    int64_t buffers, buffers_grown, buffers_given;          // now; taken from and given back to the memory, ever
    int64_t frames_used;               // now
    int64_t frames_taken, frames_freed, frames_stolen;      // ever; stolen: taken from the other side's buffers
    int64_t refused;                   // no frame was free, and no memory for more
} weft_heap_counts;
weft_heap_counts weft_flow_heap_counts(weft_flow *flow, weft_side side);

typedef struct weft_gpu_counts {       // of the kernel that stays on a GPU
    char    device[16];                // "cuda:0"; "": the flow uses none
    int     blocks;                    // that are resident together
    bool    is_running;
    int64_t launches;
    int64_t left_idle, left_asked, left_turn;               // left the card: no frame for 10 ms; for new operators or
                                       // memory; after a second, so that other calls of the driver get their turn
} weft_gpu_counts;
weft_gpu_counts weft_flow_gpu_counts(weft_flow *flow);

// ---- topics ---------------------------------------------------------------------------------------------------------

typedef struct weft_topic_options {
    int64_t   frame_bytes;             // of its frames, 4 KB to 16 MB; 0: 64 KB
    int       frames_max;              // unread frames: then publishers wait; 65,536 at most; 0: 64
    int64_t   bytes_max;               // unread bytes, likewise; 0: no limit.  One frame always fits.
    int       retain_frames;           // frames that all have read are kept for subscribers to come; 0: none
    int64_t   retain_bytes;            // likewise; 0: no limit but retain_frames.  They make way when memory is short
    weft_side side;                    // of its publishers and its frames
} weft_topic_options;

// NAME is unique in the flow, 63 bytes at most.  OPTIONS may be NULL.
weft_status weft_topic_new(weft_flow *flow, const char *name, const weft_topic_options *options, weft_topic **topic,
                           weft_error *error);
weft_topic *weft_topic_find(weft_flow *flow, weft_side from, const char *name);     // by that side's catalog, or NULL
// No more frames come: publishers get END_OF_STREAM, and subscribers do after the last frame.  Happens by itself when
// the last publisher has closed.
void        weft_topic_close(weft_topic *topic);

typedef struct weft_topic_counts {
    int64_t frames_published, bytes_published;
    int64_t frames_kept, bytes_kept;   // now, read or not
    int64_t frames_unread;             // now, by the slowest subscriber
    int64_t entries_copied, copies;    // index entries that subscribers copied, and in how many goes
    int64_t waits_for_room, waits_for_frames;               // of publishers and of subscribers
    int     publishers, subscribers;   // open now
} weft_topic_counts;
weft_topic_counts weft_topic_count(weft_topic *topic);

// ---- frames ---------------------------------------------------------------------------------------------------------

typedef struct weft_frame {
    void     *data;                    // at a page's boundary
    uint64_t  capacity;                // bytes
    uint64_t  length;                  // bytes that hold something: the publisher's to set
    uint64_t  tag;                     // anything the publisher wants to say about it
    weft_side side;                    // whose memory it is
} weft_frame;

// A frame that was taken belongs to its publisher until it is published or dropped.  A frame of a subscriber is good
// until its next call; weft_frame_hold keeps it longer, until as many weft_frame_drop.  A held frame may be published
// to further topics, and must not be changed then.
void weft_frame_hold(const weft_frame *frame);
void weft_frame_drop(const weft_frame *frame);

weft_status weft_publisher_open(weft_topic *topic, weft_publisher **publisher, weft_error *error);
// Gives an empty frame.  OUT_OF_MEMORY: none was free in time.  END_OF_STREAM: the topic or the flow was closed.
weft_status weft_publisher_take(weft_publisher *publisher, int timeout_ms, weft_frame **frame, weft_error *error);
// The topic owns the frame then, unless the call fails: NOT_READY when the topic stayed full, END_OF_STREAM.
weft_status weft_publisher_publish(weft_publisher *publisher, const weft_frame *frame, int timeout_ms,
                                   weft_error *error);
void        weft_publisher_close(weft_publisher *publisher);                        // once; drops frames it has taken

// From the oldest frame that is kept, or from the next one to come.  Frames from there on wait for this subscriber.
typedef enum weft_start { WEFT_START_OLDEST, WEFT_START_NEXT } weft_start;
weft_status weft_subscriber_open(weft_topic *topic, weft_start start, weft_subscriber **subscriber, weft_error *error);
// The next frame, and its offset (which may be NULL); the one before is done with.  NOT_READY: none came in time.
// END_OF_STREAM: none will come.  OPERATOR_FAILED: none will come, because a publisher died.
weft_status weft_subscriber_next(weft_subscriber *subscriber, int timeout_ms, const weft_frame **frame,
                                 uint64_t *offset, weft_error *error);
void        weft_subscriber_release(weft_subscriber *subscriber);                   // done with the frame at hand
void        weft_subscriber_close(weft_subscriber *subscriber);                     // once

// ---- operators ------------------------------------------------------------------------------------------------------

// What an operator is called with for each frame.  Workers of one operator share a frame: worker THREAD of N_THREADS
// does its part of it, as a GPU's threads do.  Fields before "set by the operator" are given.
typedef struct weft_round {
    const void *input;                 // NULL: a source, or the end (see at_end)
    uint64_t    input_bytes;
    void       *output;                // NULL: a sink
    uint64_t    output_capacity;
    void       *context;               // of the operator's options
    uint64_t    offset;                // of the input frame in its topic; for a source: how many rounds it has had
    uint64_t    tag;                   // of the input frame
    uint32_t    thread, n_threads;     // virtual ids: 0 <= thread < n_threads
    uint32_t    at_end;                // 1: the input has ended, and this is the last call (wants_end)
    uint32_t    status;                // set by the operator: a weft_status.  0: go on; WEFT_END_OF_STREAM: has ended
    uint64_t    output_bytes;          // set by the operator: length of the output.  The most that any worker says
                                       // counts; 0: nothing is published
    uint64_t    output_tag;            // set by the operator: worker 0's counts
    struct weft_page_counts *page_counts;                   // where reads of a frame of columns count; NULL: nowhere
} weft_round;

typedef void (*weft_compute)(weft_round *round);

// Either a function or tile C: the text of a function OPERATOR(name) in the words of src/kernel/flow.h, compiled by the
// jit.  Text is code: compile only what you would link.
typedef struct weft_operator_options {
    const char  *name;                 // for messages and counters; of tile C also the function's
    weft_compute compute;
    const char  *tile_c;
    void        *context;              // handed to each call; for tile C its parameters.  Not owned.
    weft_side    side;                 // HOST: a thread of its own; DEVICE: workers of the virtual kernel
    bool         wants_end;            // one more call, with at_end, when the input has ended: for sums and the like
    weft_start   start;                // in the input topic
    uint64_t     context_bytes;        // of the context: a GPU has a copy of so many bytes, made when the operator
                                       // begins; where the text has STATE, it is copied back when it has ended
} weft_operator_options;

// FROM or TO may be NULL: a source, a sink.  OUT may be NULL.  In a running flow the operator begins at once; one on
// the DEVICE side with the next round.  Its frames begin with the oldest that its topic keeps (or START_NEXT).
weft_status weft_flow_link(weft_flow *flow, weft_topic *from, const weft_operator_options *options, weft_topic *to,
                           weft_operator **out, weft_error *error);
// Asks one operator to end after the frame at hand.  Frames that it has not read no longer wait for it.
void        weft_operator_stop(weft_operator *op);

// Of frames of columns that were opened.  A page is counted when it is asked for or ruled out, each time.
typedef struct weft_page_counts {
    int64_t pages, bytes;              // that the frames have, of all columns, read or not
    int64_t pages_asked, bytes_asked;  // whose address was asked for: no other crosses the link
    int64_t pages_by_range, bytes_by_range;                 // ruled out by minimum and maximum
    int64_t pages_by_bloom, bytes_by_bloom;                 // ruled out by the bloom filter
} weft_page_counts;

typedef struct weft_operator_counts {
    int64_t rounds, frames_in, frames_out;
    double  busy_ms;                   // inside the operator, summed over workers; of rounds below 5 us, from samples
    int     workers;                   // that it had in its last round
    int64_t waits;                     // rounds that it sat out for want of a frame or of room
    bool    has_ended;
    bool    is_compiled;               // tile C: by cc; else still by tcc
    bool    is_on_gpu;                 // then workers are blocks, and a round's time is that of the whole block
    weft_page_counts pages;            // of its input
} weft_operator_counts;
weft_operator_counts weft_operator_count(weft_operator *op);

// ---- frames of columns ----------------------------------------------------------------------------------------------
// A frame may hold rows column by column, in pages of 4 KB, with an index: the smallest and largest value of each page,
// and a bloom filter.  An operator looks pages up in the index, and asks for those that may hold what it looks for.
// A GPU reads frames of HOST topics where they are, so other pages never cross the link.  Page p of every column has
// the same rows; if columns of 8 and 4 bytes meet, those of 4 have 2 KB.
//
//     weft_pages_begin(frame->data, frame->capacity, columns, 2, &pages, &error);     // publisher: fills up to
//     int32_t *day = weft_pages_column(&pages, 0); ...                               // pages.rows_max rows
//     frame->length = weft_pages_finish(&pages, n_rows);
//
//     round->status = weft_pages_open(round, columns, 2, &pages, NULL);               // operator: day 17 to 19
//     for (uint32_t p = 0; p < pages.n_pages; p++)
//         if (weft_page_may_hold_i64(&pages, 0, p, 17, 19)) ... weft_page_values(&pages, 1, p) ...
//
// In tile C the same is COLUMN, EACH_PAGE, MAY_HOLD and VALUES (docs/flow.md).

typedef enum weft_page_type { WEFT_PAGE_I32 = 1, WEFT_PAGE_I64, WEFT_PAGE_F32, WEFT_PAGE_F64 } weft_page_type;

enum { WEFT_PAGE_COLUMNS_MOST = 63 };

typedef struct weft_page_column {
    weft_page_type type;
    uint32_t       n_different;        // values that a page is expected to hold, for its bloom filter: 4 bits for each;
                                       // 0: no filter
} weft_page_column;

typedef struct weft_pages {
    void             *frame;           // its data
    weft_page_counts *counts;          // the round's; NULL: none
    uint64_t          n_rows, rows_max;                     // that it has; that fit into it
    uint32_t          n_columns;
    uint32_t          n_pages, rows_per_page;               // of each column
} weft_pages;

// Lays out an empty frame; FRAME begins at a boundary of 64 bytes.  INVALID_PARAMETER: no page fits into CAPACITY, or
// the columns are wrong.
weft_status weft_pages_begin(void *frame, uint64_t capacity, const weft_page_column *columns, int n_columns,
                             weft_pages *pages, weft_error *error);
void       *weft_pages_column(const weft_pages *pages, int column);         // its rows_max values, to be written
// The first N_ROWS rows (rows_max at most) were written: makes their index.  Returns the length of the frame.
uint64_t    weft_pages_finish(weft_pages *pages, uint64_t n_rows);

// The round's input.  CORRUPT: it is no frame of columns or is damaged, or its first N_COLUMNS have other types.
// A subscriber that is no operator makes a round: .input, .input_bytes and, for counting, .page_counts.
weft_status weft_pages_open(const weft_round *round, const weft_page_column *columns, int n_columns, weft_pages *pages,
                            weft_error *error);
// Whether page PAGE of COLUMN may hold a value from LOW to HIGH, both included; where they are one value, the bloom
// filter is asked, too.  Reads the index only.  _i64 is for integers, _f64 for floats; of others they rule out nothing.
bool        weft_page_may_hold_i64(const weft_pages *pages, int column, uint32_t page, int64_t low, int64_t high);
bool        weft_page_may_hold_f64(const weft_pages *pages, int column, uint32_t page, double low, double high);
// The page's values, to be read: weft_page_rows of them.  NULL: there is no such page.
const void *weft_page_values(const weft_pages *pages, int column, uint32_t page);
uint32_t    weft_page_rows(const weft_pages *pages, uint32_t page);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
