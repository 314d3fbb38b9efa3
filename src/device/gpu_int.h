// gpu_int.h - shared by the gpu_*.c files, which do not depend on the vendor.
//
//     gpu.c          a GPU used: pool of memory, streams, scans
//     gpu_context.c  its driver asked: errors, the context, waiting; losing it
//     gpu_code.c     texts of kernels that it knows, and their code
//     gpu_ready.c    kernels compiled in the background
//     gpu_kernel.c   which code a launch needs, and its shape
//     gpu_generic.c  the generic kernel, for launches whose own is not compiled yet
//     gpu_launch.c   what one launch needs in device memory, and what it leaves
//     gpu_pack.c     results of many launches by one copy
//     gpu_notes.c    what its kernel notes about rows that stay there
//     gpu_timer.c    how long its kernels took
//     gpu_table.c    join tables and chunks made of the rows that a launch left in device memory
//     gpu_made.c     these, as long as they are kept
//     gpu_sort.c     rows put in order
//     gpu_scan.c     the dispatcher: runs of chunks through the kernels of all riders
//     gpu_schedule.c shapes of launches, their order and streams (with gpu_plan.c, which asks src/model)
//     gpu_copy.c     the columns of a run copied to the device
//     gpu_pin.c      host memory pinned in place
//     gpu_figures.c  running launches and scanned tables
//     frames.c       the allocation of the pool
//
// Drivers are asked through gpu_driver.h; what else is a vendor's own is a GpuVendor (cuda.c).

#ifndef WEFT_GPU_INT_H
#define WEFT_GPU_INT_H

#include "device/device.h"
#include "device/frames.h"
#include "device/gpu_driver.h"
#include "model/model.h"
#include "share/choose.h"
#include "jit/generic.h"

#include <semaphore.h>

enum {
    N_STREAMS = 32,                    // shared by launches
    N_SMALL_STREAMS = N_STREAMS / 2,   // the first of them: for small scans
    N_PLAIN_STREAMS = 8,               // of the small ones, and of the others, that the plain schedule uses
    N_COPY_STREAMS = 2,
    N_RUNS = 6,                        // runs of chunks in flight
    N_STAGES = 32,                     // pinned frames through which the host's memory goes
    PARTS_MAX = 4096,                  // chunks of one launch
    EXPECTED_MOST = 16,                // tables that queries are expected for
    N_COMPILERS = 4,                   // threads that compile in the background, at most
    N_PINNED_SLOTS = 64,                      // a bit each
    N_MADE = 1024,                     // buckets of tables that it made
    KERNEL_BUCKETS = 256,
    N_FITS = 8,                        // shapes that a kernel remembers
    N_EVENTS = 64,                     // created when the device is opened
    N_EVENTS_KEPT = 8192,              // kept at most for later launches
    CALL_TRIES = 3,                    // of a call that must not fail
    ADMITTED_SHARE = 4,                // quarters of the pool: three of them
};

_Static_assert(N_STREAMS <= 32, "RunSlot.streams has a bit for each");
_Static_assert(N_PINNED_SLOTS == 64, "Gpu.pinned_taken has a bit for each");

#define SHARED_LIMIT ((u64)96 << 10)   // of Gpu.shared_most: that of the largest multiprocessors so far, with 228 KiB
#define SMALL_ROWS  ((u64)8 << 20)     // of a scan that goes first
#define STAGE_BYTES ((u64)2 << 20)
#define STAGE_SPARE ((u64)4096)        // behind it, for what follows a column
#define ARGS_BYTES  ((u64)4 << 20)     // of all launches of a run, at first
#define ARGS_MOST   ((u64)64 << 20)    // the same, when many queries ride over many chunks
// Pinned memory of one launch: most transfers are small, and a copy from pageable memory waits.
#define PINNED_SLOT_BYTES ((u64)64 << 10)
#define STAGING_BYTES ((u64)2 << 20)   // of pinned memory, for the results of a pack

typedef struct Gpu  Gpu;
typedef struct MadeTable MadeTable;    // gpu_made.h

// Of those that a launch does not use, the most hopeful: the queries of some wait for no memory, so they will go; or
// the launches of all wait for memory, too.
typedef enum OtherTables { NO_TABLES, TABLES_THAT_WAIT, TABLES_THAT_GO } OtherTables;

typedef struct Demand Demand;          // gpu_kernel.c
typedef struct Pack Pack;              // gpu_pack.c
typedef struct Pins Pins;
typedef struct Pin  Pin;               // what is pinned of a chunk

// ---- code -----------------------------------------------------------------------------------------------------------

// Noted: a query asked how long compiling it would take.  Queued: the compiling threads may begin.
typedef enum KernelState { KERNEL_NOTED, KERNEL_QUEUED, KERNEL_BUILDING, KERNEL_READY, KERNEL_FAILED } KernelState;

typedef struct Shape {                 // of a launch
    u32  shared_tables;                // bit k: table k
    u32  shared_groups;                // bit CELLS_... for each kind of accumulator; 0: they are not in shared memory
    u32  near_groups;                  // the same for the first n_near groups of a hash table
    u32  n_near;
    u32  eager;                        // bit c: column c
    int  items;
    bool is_picked;                    // it lists the rows whose bits are set (KernelArgs.sieved)
    bool has_fixed_items;              // it is not compiled for fewer rows per thread
    u32  cells_bytes;                  // of dynamic_shared: accumulators of groups
    u32  dynamic_shared;
    u32  launch_shared;                // with the list of rows that are picked, which is as long as the block is large
    int  threads, blocks_per_sm;
} Shape;

// Of a launch: threads of a block, and blocks for each of so many parts.
typedef struct Grid { int threads; u32 x, y; } Grid;

// What the driver said for so much shared memory.
typedef struct Fit { u32 dynamic_shared, launch_shared; int threads, blocks_per_sm; } Fit;

typedef struct GpuCode {               // for so many rows per thread
    int        items;
    GpuModule   module;
    GpuFunction function;
    int        registers, local_bytes, static_shared;
    int        threads_most;           // of a block, with these registers
    int        busy;                   // threads of a multiprocessor that it leaves room for, with the shared memory of
                                       // its first user
} GpuCode;

// What is compiled: a text for so many rows per thread.  Of the shape, what goes to shared memory and what is loaded
// early.
typedef struct CodeJob { const char *text, *name; const Shape *shape; int items; bool is_quick; } CodeJob;

typedef struct CodeEntry {             // lives as long as the device
    char               key[128];       // name of the text, and how it was compiled
    _Atomic KernelState state;         // set under the lock
    double             begun_ms;       // building
    char              *text, *name;    // copies, kept until it is built or can never be
    Shape              shape;          // what of it is compiled in; its items: to begin with
    Error              error;          // the latest; under the lock, as the next two
    double             again_ms;       // failed: not tried before
    double             pause_ms;       // the next one
    int                n_asked;        // how often a query asked how long it would wait for it; under the lock
    bool               is_quick;       // of another entry: less optimised, and sooner there
    struct CodeEntry *_Atomic quick;   // its quick one; set once, under the lock
    GpuCode            code;
    Fit                fits[N_FITS];   // under slots_lock; the latest, in turn
    int                n_fits;
    bool               was_cached;
    struct CodeEntry *next, *same;     // of all, and of those in its bucket
} CodeEntry;

// What lies side by side in a block of device memory begins at such a distance.
static inline u64 aligned(u64 bytes) { return (bytes + 255) / 256 * 256; }

// ---- a launch -------------------------------------------------------------------------------------------------------

typedef struct GpuRun {
    Gpu         *gpu;
    Launch      *launch;
    CodeEntry   *kernel;
    Shape        shape;
    GpuStream    stream;
    int          stream_number;
    int          at_stream;            // where its latest work is (wave_join)
    u64          number;               // of the launch: owner of copies of what is the query's own
    u64          rows_wanted;
    // device memory: one block
    bool         has_block;
    u64          block_at, block_bytes;
    u64          n_room, segments_room, n_slots;
    u64          head_bytes, copied_bytes;                     // of its begin: written by the host; read back in one go
    // Offsets in it.
    u64          tables_at, state_at, spots_at, cells_at, counts_at, segments_at, slots_at, words_at, program_at;
    u64          notes_at, marks_at;                           // of a launch that keeps its rows
    u64          room_at;                                      // from here on: what there is for each row or group
    bool         can_pack;             // its results are few, and their size is known
    bool         may_wait;             // with its first content, until it is in a run: others are about
    bool         is_written;           // its block has its first content, or will when the stream comes to it
    Pack        *pack;                 // its results come with those of others; NULL: by themselves
    u64          pack_at;              // in what comes
    bool         is_headless;          // its block has no head there: no kernel of its own works on it
    GpuAddress   home;                 // of its block while it is in a pack, less what it does not have there; 0: it is
                                       // in the pool
    u64         *slot_at;              // by state slot
    KernelSpot  *spots;                // by table
    KernelCells *cells;                // by state slot
    void        *program;              // of the generic kernel; NULL: it has a kernel of its own
    u64          program_bytes;
    bool         can_do_without_tables;    // a body over kinds does not read them; else launch_get_tables
    int          n_tables;
    Copy       **tables;
    // the scan (gpu_scan.c, under the lock)
    bool        *wants;                // by chunk
    int          n_wanted, n_chunks_wanted;
    double       attached_ms;
    double       left_ms;              // when a run first left it, because it waits for code; 0: none did
    bool         was_expected;         // before it came
    int          n_prefetches;            // of its columns, while it waited for others
    int          asked_until;          // chunks before were asked to be read from disk
    u64          bytes_wanted;
    u64          chunk_bytes;          // of the pool, that columns of one chunk take at most
    bool         is_attached, is_in_run, is_issued;
    struct RoomWaiter *waiter;         // under the lock: while it waits for memory
    bool         is_crowded;           // there was no room for its columns or tables; there may be when others have
                                       // given theirs back
    bool         can_fuse, can_cube, can_sieve;            // worked out when it gets on
    struct JoinRide *joins;            // gpu_join_cube.c; NULL: it is for no cube over joins
    u64          columns;              // that it reads, hashed
    const ShareFacts *facts;           // what the cost model knows of it; NULL: it is served by itself
    u64          shape_key, text_key;  // see choose.h
    u64          n_fused_chunks, n_cubed_chunks, n_sieved_chunks;              // of the run at hand
    bool         is_join_cubed;        // the cube is one over joins
    bool         was_woven, was_fused, was_cubed, was_sieved, was_join_cubed;  // in any run
    bool         is_woven;             // in its last run, as launch->out.woven_as says
    // A rider sleeps until all of its work is issued, or its pack has come.  With the device's lock, riders that are
    // woken together would wait for each other; with a lock and a condition of its own, each would call the system
    // once more.
    sem_t        woken;
    _Atomic int  n_looks;              // of what was posted, that it is only to look at its stop flag
    weft_status  status;               // the dispatcher failed it
    Error        error;
    struct GpuRun *next, *before;
    struct GpuRun *next_listed, *before_listed;            // gpu_figures.c
    // for EXPLAIN ANALYZE
    bool         is_timed, is_counted;
    GpuEvent    *timers;               // begin and end of each launch
    int          n_timers;
    GpuEvent     done;
    u8          *pinned;               // its pinned slot until it is freed; NULL: none was left.  Written only while
                                       // its stream is idle
    // what came back
    const u8    *back;                 // the begin of the block, or NULL: a pack brought its state alone
    const u8    *back_state;           // from room_at on
    u8          *back_own;             // what of it is to be freed
    bool         is_coming;            // it was asked for, and is there when the stream is idle
    u64          n_used, n_segments;
    void       **state;
    u64         *state_bytes;          // as allocated
    u64         *keys, *words;
    u64          keys_bytes, words_bytes;
} GpuRun;

// ---- the device -----------------------------------------------------------------------------------------------------

typedef struct Stage { pthread_mutex_t lock; u8 *memory; GpuEvent done; bool is_used; } Stage;

// When what was done for a run (time_now_ms); 0: not yet.
typedef struct RunTimes { double oldest, begun, chosen, issued; int n_riders, n_units; } RunTimes;

// How long the runs took that riders of their table wait for, of late: the dispatcher puts the next one together while
// the last one is at work.
typedef struct RunPace { double prepared_ms, worked_ms, last_done; } RunPace;

typedef struct RunSlot {               // a run of chunks in flight
    bool     is_used;
    u64      number;                   // runs end in this order
    int      copy_stream;              // that it brings its columns in
    GpuEvent  columns_copied[N_COPY_STREAMS];       // with its args behind them
    GpuEvent  args_copied;             // where no columns have to come
    bool     waits_for_copies;         // of its own, or of runs before that may still be on their way
    bool     has_gate;                 // its kernels wait for the one or the other
    bool     has_arrived;                 // the dispatcher has seen the gate open
    u64      gathers;                  // table: later riders of this table wait for this run, if they could share a
                                       // kernel; 0: none do
    bool     is_streaming;             // its columns come directly from pinned memory, and the host has not waited for
                                       // them
    GpuEvent  done[N_STREAMS];
    u32      streams;                  // bit s: done[s] is to be waited for
    u8      *args;                     // pinned
    GpuAddress args_at;
    u64      args_bytes;               // of both
    u8      *first_args;               // what there was before it grew
    GpuAddress first_args_at;
    u64      args_used, args_sent;
    int      n_copies;
    Copy   **copies;                   // held until it is done
    int      n_pins;
    Pin    **pins;                     // the same
    u64      sieve_at, sieve_bytes;    // of the pool, the same
    RunTimes times;                    // for people
} RunSlot;

// What the maker of a GPU gives besides the calls of its driver.
typedef struct GpuVendor {
    const char *lost_hint;             // what to do after an error that ends the context
    // OK for GPU_SUCCESS, else fails with the driver's words; CALL without the vendor's prefix.
    weft_status (*check)(GpuResult result, const char *call, Error *err);
    bool        (*is_sticky)(GpuResult result);             // no call in this context will succeed any more
    bool        (*is_ending)(GpuResult result);             // the program ends
    // The calling thread has entered the device.  Sets all of CODE but items and busy.
    weft_status (*load_code)(Gpu *gpu, const CodeJob *job, GpuCode *code, bool *was_cached, Error *err);
    bool        (*has_code)(Gpu *gpu, const CodeJob *job);  // load_code will not compile
    bool        (*can_be_quick)(Gpu *gpu);                  // the compiler can leave optimisations out
    void        (*warm_compiler)(Gpu *gpu);                 // its start is behind it
    void        (*close)(Gpu *gpu);    // the context, and what else is the vendor's own; the Gpu itself is freed after
} GpuVendor;

typedef struct GpuTable { ScanFigures figures; char name[64]; } GpuTable;

struct Gpu {
    Device            device;          // first: what others see
    const GpuCalls   *calls;           // of its driver
    const GpuVendor  *vendor;
    char              name[16];        // "cuda:0"
    GpuContext        context;
    int               major, minor, n_sms, threads_per_sm, shared_per_block, shared_per_sm;
    u64               shared_most;     // of a block's tables and groups, so that as many blocks of 1024 threads fit a
                                       // multiprocessor as its threads allow
    bool              has_limits;      // the driver's figures are those of a GPU that the model knows
    GpuLimits         limits;
    struct GpuScheduler *scheduler;    // gpu_schedule.c
    int               gather_n;        // $WEFT_GPU_GATHER: small scans wait until so many are there; 0: not set
    double            peak_gbs;        // of its memory, by clock and width; 0: not known
    _Atomic int       measured_gbs;    // as a kernel reads it; 0: not measured yet
    char              card[96];
    GpuAddress        memory;          // the pool
    u64               memory_bytes;
    GpuStream streams[N_STREAMS], copy_streams[N_COPY_STREAMS], gate_stream, table_stream, fetch_stream, control_stream,
              kinds_stream;
    u32              *one;             // pinned: what is written to a kernel's cancel flag
    u8               *pinned_slots;           // pinned
    Stage             stages[N_STAGES];
    RunSlot           runs[N_RUNS];
    Pool             *copiers, *fetchers;      // threads that fill stages, and threads that empty them
    Pins             *pins;            // NULL: nothing is pinned
    Ahead            *ahead;

    _Atomic bool      is_lost;         // no query goes to it any more
    _Atomic bool      is_gone;         // lost with its context; where it is lost for another reason, what it has is
                                       // given back at the end
    _Atomic int       n_unanswered;    // questions for events, in a row
    pthread_mutex_t   lock;            // for all below, up to slots_lock
    pthread_cond_t    changed;         // a launch came, left, or was issued
    pthread_cond_t    built;           // a kernel was, or there is a place for the next: not the above, of which there
                                       // are thousands in a second
    Error             lost_error;
    Frames           *frames;
    u64               bytes_admitted;  // of blocks and tables
    bool              has_small_args;  // the driver has no memory for more arguments of a run
    double            moved_ms;        // when some of it was last given back, or a run ended
    CodeEntry        *_Atomic kernels; // added under the lock, and none goes
    CodeEntry        *_Atomic by_key[KERNEL_BUCKETS];      // the same by a hash of their keys
    MadeTable        *made[N_MADE];    // tables and chunks that it made, by id,
    u64               made_bytes;      // and what all of them take
    struct FusedKernel *fused;         // used by the dispatcher only, as the next one
    ShareKept         share;           // what choices remember
    struct CubeKernel *cubes;
    CodeEntry        *_Atomic generic[3];          // gpu_generic.c; NULL: not wanted yet
    _Atomic u64       n_generic;       // launches that it served
    _Atomic u64       n_kind_columns;  // that were made
    CodeEntry        *fold_kernel;     // gpu_cube.c; NULL: not needed yet
    Shape             fold_shape;
    struct JoinShape *join_shapes;     // gpu_join_cube.c: added under the lock, and none goes
    u64               n_join_cubes;
    CodeEntry        *collect_kernel;
    Shape             collect_shape;
    CodeEntry        *kinds_kernel;    // gpu_kinds.c; NULL: not asked for
    Shape             kinds_shape;
    GpuEvent          kinds_made;      // all columns of kinds that were asked for
    bool              has_kinds_made;
    struct SieveTable *sieves;         // gpu_sieve.c
    struct PickedKernel *picked;
    CodeEntry        *who_kernel;
    Shape             who_shape;
    pthread_cond_t    wanted;          // for the compiling threads: there is work, or no query compiles for itself any
                                       // more; the peak was measured
    pthread_t         compilers[N_COMPILERS];
    int               n_compilers, n_demanded;     // demanded: compiles that a query waits for
    Demand           *demands;         // threads that compile for these
    double            compile_ms;      // that one takes, about
    bool              is_quick_only;   // all code is quick, and no better one is made: WEFT_GPU_CODE, for tests
    void            (*warm)(Gpu *gpu); // starts the compiler; NULL: it has been started, or need not be
    bool              stops_compiling;
    bool              is_measuring;    // its memory's speed is being measured
    int               n_tries_left;    // to do so
    _Atomic u64       n_launches, n_kernels;       // kernels: handed to the driver
    _Atomic u64       n_sorts;
    u64               n_runs, n_copying;           // copying: of these, those that brought columns
    int               n_stagings;      // all; used by the dispatcher only
    GpuRun           *first, *last;    // attached, the oldest first
    int               n_attached;
    int               n_active;        // launches that hold memory
    GpuRun           *exclusive;       // found no room beside others, or waited for too long: no other launch is
                                       // admitted
    struct RoomWaiter *waiting, **waiting_end;     // launches that wait for memory, the oldest first (gpu_room.h)
    int               n_waiting;
    int               n_passed;        // of them, that found none after they were woken, since some was given back
    double            admits_until_ms; // until then no launch may block others: the last one did so in vain
    pthread_t         dispatcher;
    bool              has_dispatcher, is_dispatching, is_closing;
    bool              was_long;        // the latest run was one of a long scan
    RunPace           pace;            // under the lock
    bool              is_polling;      // its thread polls, because a rider waits for others

    // For what every launch takes or leaves on its way in and out.  Many launches come at once while runs are put
    // together under the lock above.  This lock is held for a few instructions (longer by gpu_list), alone or inside
    // the other.
    pthread_mutex_t   slots_lock;
    u64               pinned_taken;     // by bit
    int               n_events;
    GpuEvent          events[N_EVENTS_KEPT];   // without timing, unused
    struct Staging   *stagings;        // gpu_pack.c: those that no pack has
    struct { u64 table; int n; } expected[EXPECTED_MOST];          // queries that are on their way
    GpuRun           *listed;          // all launches
    int               n_tables;
    GpuTable         *tables;          // that were scanned

    pthread_mutex_t   tables_lock;     // one at a time, so that a table two launches want at once goes over the link
                                       // once

    pthread_mutex_t   stage_lock;      // for next_stage, which stays apart: compilers read small neighbours above in
                                       // one go
    int               next_stage;
};

// For a vendor's file.  GPU is zeroed, with name, calls and vendor; what comes before the context.
void        gpu_init(Gpu *gpu);
// With its context current and its properties known: memory (0: the default), streams, threads.  When it fails, and at
// the end, gpu->device.close.
weft_status gpu_open(Gpu *gpu, u64 memory_bytes, Error *err);
void        gpu_warm(Gpu *gpu);                                        // starts the compiler; returns at once
bool        gpu_is_lost(Gpu *gpu, char *why, size_t capacity);         // WHY may be NULL
// Of a block's tables and groups, so that as many blocks of 1024 threads fit a multiprocessor as its threads allow.
u64         gpu_shared_most(const Gpu *gpu);

// Fails with the driver's words, and marks the device lost where the driver's context is gone.  CALL: as in GpuCalls.
weft_status gpu_check(Gpu *gpu, GpuResult result, const char *call, Error *err);
void        gpu_lose(Gpu *gpu, const Error *err);         // no query goes to it any more
void        gpu_wait_for(Gpu *gpu, GpuStream stream);      // until it is idle, or the device is lost
void        run_wait_quietly(GpuRun *run);                  // the same for its stream: what failed may still be at work
// Until the event has come; a cancel is passed on.
weft_status run_wait_event(GpuRun *run, GpuEvent event, Error *err);
// If it is stopped, its kernel is told, unless that was just done.
void        run_pass_on_cancel(GpuRun *run, double *passed_on_ms);
void        run_wake(GpuRun *run);                          // it may be gone when this returns
bool        run_sleep(GpuRun *run, int ms);                 // until it is woken; false: not yet
void        run_look(GpuRun *run);                          // so that it looks at its stop flag now
void        gpu_wait_a_little(Gpu *gpu, pthread_cond_t *changed);  // with the lock: until something changes, or it is
                                                                   // time to look again
struct timespec time_after_ms(int ms);                      // by the clock of conditions
bool        scan_is_busy(const Gpu *gpu);                   // runs are in flight, which hold memory.  Under the lock.
#define GPU_TRY(gpu, field, arguments, err) TRY(gpu_check((gpu), (gpu)->calls->field arguments, #field, (err)))
GpuAddress  gpu_address(const Gpu *gpu, u64 at);
weft_status gpu_enter(Gpu *gpu, Error *err);               // the calling thread's calls go to this GPU; fails when it
                                                           // is lost
// Queries run in the caller's threads, which may have a context of their own.  Functions that are called from outside
// save it (visit) and restore it (leave).
GpuContext  gpu_visit(const Gpu *gpu);
void        gpu_leave(const Gpu *gpu, GpuContext before);

// Events without timing.  Making one takes the driver longer than all that is done with it, so they are kept.
weft_status event_take(Gpu *gpu, GpuEvent *event, Error *err);
void        event_give(Gpu *gpu, GpuEvent event);

// gpu_code.c
CodeEntry  *kernel_find(Gpu *gpu, const char *key);            // any thread; NULL: not noted yet
// The entry of the key, made if there is none: the text and name of WOVEN, to be compiled for SHAPE.  Under the lock.
CodeEntry  *kernel_note(Gpu *gpu, const char *key, const Woven *woven, const Shape *shape);
void        kernel_note_quick(Gpu *gpu, CodeEntry *kernel);  // under the lock: its quick one, if there can be one
void        kernel_begin(CodeEntry *kernel);                  // under the lock: the caller builds it
weft_status kernel_build(Gpu *gpu, CodeEntry *kernel, Error *err);
void        kernel_revive(CodeEntry *kernel);                 // under the lock: one that failed is noted again if it
                                                               // is time to try
// Threads of a block, and blocks, that keep most of a multiprocessor's threads busy; none if it does not fit.
weft_status kernel_find_fit(Gpu *gpu, const GpuCode *code, const Shape *shape, Fit *fit, Error *err);
void        kernels_free(Gpu *gpu);

// gpu_ready.c
void        ready_warm(Gpu *gpu, void (*warm)(Gpu *gpu));   // calls WARM in the background, before anything is compiled
void        ready_begin(Gpu *gpu, bool all);                // see Device.get_ready
void        ready_stop(Gpu *gpu);                           // waits for a compile that has begun; the rest is left
                                                            // undone

// gpu_kernel.c
bool        kernel_find_ready(Gpu *gpu, GpuRun *run);          // chooses the shape; false: its code is not there,
weft_status kernel_make(Gpu *gpu, GpuRun *run, Error *err);    // and is made; a cancel is seen while it is compiled
weft_status kernel_get(Gpu *gpu, GpuRun *run, Error *err);     // the one, else the other
bool        kernel_is_in_cache(Gpu *gpu, const GpuRun *run);   // it is not loaded yet, but need not be compiled
void        demands_stop(Gpu *gpu);                            // waits for compiles that have begun
weft_status kernel_shape(Gpu *gpu, GpuRun *run, Error *err);
// See Device.wait_ms; and what was found out on the way: the shape, and rows that are wanted.
double      kernel_wait_ms(Gpu *gpu, const Launch *launch, Shape *shape, u64 *n_rows);
typedef struct KernelWish {
    const char *name, *text;
    u32         shared_groups, near_groups, shared_tables;
    bool        is_picked;
    int         items;                 // rows per thread to begin with; 0: by what the text does
    bool        has_fixed_items;       // see Shape
} KernelWish;
CodeEntry  *kernel_want(Gpu *gpu, const KernelWish *wish, Shape *shape);                // to be made in the background
// Code that was wanted, and its shape with so much shared memory, for wave_launch; false: it is not there yet, or does
// not fit.  WOVEN: for messages.
bool kernel_fit(Gpu *gpu, CodeEntry *kernel, const Shape *shape, u32 dynamic_shared, const Woven *woven, GpuRun *run);
// For code that was asked for: waits for it, or makes it here if no thread has begun.  Fails when it cannot be
// made, or the query is cancelled.
weft_status kernel_wait_until_built(Gpu *gpu, GpuRun *run, CodeEntry *kernel, Error *err);
// Cells of each accumulator for N groups, those of one behind those of another.  Returns their bytes; where these are
// more than MOST, not all are placed.
u64         kernel_place_cells(const Woven *woven, u64 n, u64 most, KernelCells *cells, u32 *kinds);
// A kernel that a device has for itself: its text is the same for all queries.
//     fixed_describe(&fixed, gpu, weave_keep_text(&name), name);
//     if (!fixed_is_ready(gpu, &fixed)) ...              // compiled in the background from now on
//     TRY(fixed_code(gpu, &fixed, err));                 // fixed.run: its code and shape
// It points to itself, so it stays where it was described; text and name must outlive it.
typedef struct Fixed { Woven woven; Source none; Launch launch; GpuRun run; } Fixed;
void        fixed_describe(Fixed *fixed, Gpu *gpu, const char *text, const char *name);
weft_status fixed_code(Gpu *gpu, Fixed *fixed, Error *err);    // launch.stop, where it is set, ends the wait
bool        fixed_is_ready(Gpu *gpu, const Fixed *fixed);

// gpu_generic.c
double      generic_wait_ms(Gpu *gpu, const Launch *launch);           // see Device.wait_ms
weft_status generic_get(Gpu *gpu, GpuRun *run, Error *err);            // its own code, or the generic kernel's
CodeEntry  *generic_picked(Gpu *gpu, const GpuRun *run, Shape *shape); // for rows that a sieve found; asked for here

// gpu_launch.c
// Block and tables are there, or will be when the stream comes to it; but where others are about, a block that may be
// in a pack is yet to be written (launch_write).
weft_status launch_open(GpuRun *run, Error *err);
weft_status launch_write(GpuRun *run, Error *err);          // its first content, unless it is written
weft_status launch_get_tables(GpuRun *run, Error *err);     // unless it has them
// The same for a pack: the head of the block, and from room_at on, into zeros.
void        launch_write_head(const GpuRun *run, u8 *head);
void        launch_write_state(const GpuRun *run, u8 *state);
bool        launch_has_init(const GpuRun *run);             // some of it is not zero
void        launch_close(GpuRun *run);                      // gives device memory back
void        launch_write_params(const GpuRun *run, const KernelColumn *columns, i64 *params);
// Bytes of blocks and tables together.  The rest of the pool is for columns on their way through.
static inline u64 launch_admitted_most(const Gpu *gpu)
{
    return frames_total(gpu->frames) / ADMITTED_SHARE * (ADMITTED_SHARE - 1);
}
bool        launch_wait_for_room(GpuRun *run);              // until it has the pool for itself; false: it had, or
                                                            // waited for too long
void        launch_admit_others(GpuRun *run);                 // be admitted again
weft_status launch_fetch_rows(GpuRun *run, Error *err);     // of a launch that kept them
weft_status launch_ask_back(GpuRun *run, Error *err);       // the begin of the block, once its kernels are issued
weft_status launch_results(GpuRun *run, bool *again, Error *err);
void        launch_free_results(GpuRun *run);
static inline GpuAddress in_block(const GpuRun *run, u64 at)
{
    return run->home ? run->home + at : gpu_address(run->gpu, run->block_at + at);
}
// More than the pool keeps.
static inline bool passes_through(const Gpu *gpu, const GpuRun *run)
{
    return run->bytes_wanted > frames_total(gpu->frames) / 4 * 3;
}

// gpu_pack.c.  Of a run that is in a pack, once it has been issued:
// Until the results of all members are here, and back is set.  One member waits for them, and wakes the others.
weft_status pack_wait(GpuRun *run, Error *err);
bool        pack_wakes(const GpuRun *run);                  // it is woken by another member
void        pack_leave(GpuRun *run);                        // if it is in one; what it brought is gone
void        packs_close(Gpu *gpu, bool has_context);

// gpu_timer.c: kernels between begin and end, in the run's stream, are timed if it is.
weft_status timer_begin(GpuRun *run, Error *err);
weft_status timer_end(GpuRun *run, Error *err);
void        timers_read(GpuRun *run);                       // adds them up for EXPLAIN ANALYZE, once the stream is idle

// gpu_notes.c
u64         notes_bytes(const Launch *launch);              // of the head of its block
u64         marks_bytes(const Launch *launch);
void        notes_write(const GpuRun *run, u8 *head);
void        notes_read(const GpuRun *run);                  // once the head of its block is back

// gpu_fetch.c.  AT: in the run's block.
// Rows of the source that are put out at once, as a segment: those of a block, or of a warp and several times where
// they have several matches.
u64         segment_rows(const GpuRun *run);
weft_status fetch_short(GpuRun *run, void *to, u64 at, u64 bytes, Error *err);
weft_status fetch_long(GpuRun *run, void *to, u64 at, u64 bytes, Error *err);
weft_status fetch_in_order(GpuRun *run, Error *err);         // rows, as the source has them, to run->state
// All of the run's, in the order of its rows: places say where these belong.
weft_status fetch_segments(GpuRun *run, KernelSegment *segments, Error *err);

// gpu_table.c
bool        gpu_make_table(Device *device, Launch *launch, TableFill *fill);
bool        gpu_keep_rows(Device *device, Launch *launch, RowKeep *keep);
void        tables_warm(Gpu *gpu);                          // compiles the kernel that nearly all tables want

// gpu_made.c
enum {
    KEY_TABLE = 1,                     // in the keys of copies; columns have numbers below 2^32
    TABLE_PAST = 16,                   // blocks fetch tables in pieces of so many bytes
};
static inline CopyKey table_key(u64 table, int number)
{
    return (CopyKey){ table, (u64)KEY_TABLE << 32 | (u64)(u32)number };
}

weft_status gpu_fetch_table(Device *device, u64 table, int number, void *to, u64 bytes, Error *err);
void        gpu_drop_table(Device *device, u64 table);
weft_status gpu_fetch_column(Device *device, const Chunk *chunk, int column, void *data, void *valid, Error *err);
void        gpu_drop_rows(Device *device, u64 chunk);
u64         gpu_kept_most(const Device *device);
void        gpu_relieve(Gpu *gpu);                          // tables that no query uses are dropped; without the lock
bool        relieve_unlocked(Gpu *gpu);                     // the same under the lock, released meanwhile; returns true
u64         rows_kept_bytes(const Launch *launch);          // of its source, where that stayed here: admitted already
// Part NUMBER of a table that it made, in the host's memory as long as the table is there; NULL: it could not be
// fetched.  A user of the table holds it.
const void *table_part_here(Gpu *gpu, u64 table, int number, u64 bytes, Budget *budget);
// Whether tables or rows of other queries are here, which go when their queries end; under the lock.
OtherTables tables_of_others(const GpuRun *run);
void        tables_waited_for(const GpuRun *run, int plus); // by launches that wait for memory; under the lock

// gpu_sort.c
weft_status gpu_sort(Device *device, DeviceSort *sort, Error *err);

// gpu_fuse.c
void        units_free(Gpu *gpu);

// gpu_copy.c
Stage      *stage_next(Gpu *gpu);                           // in turn; lock it to use it
// BYTES through stages to AT in the pool; FROM may be changed when this returns.
weft_status stage_send(Gpu *gpu, GpuStream stream, u64 at, const void *from, u64 bytes, Error *err);
// One behind the other: of each its bytes, and zeros up to its room.
typedef struct StagePart { const void *from; u64 bytes, room; } StagePart;
weft_status stage_send_parts(Gpu *gpu, GpuStream stream, u64 at, const StagePart *parts, int n_parts, Error *err);

// gpu_pin.c.  NULL for PINS or PIN is fine: nothing is pinned.
Pins       *pins_new(Gpu *gpu, u64 bytes_most);
void        pins_free(Pins *pins);
Pin        *pin_hold(Pins *pins, const Chunk *chunk);       // while held, what is pinned of it stays; NULL: its pages
                                                            // are not its own
void        pin_release(Pin *pin);
void        pin_use(Pin *pin);                              // its chunk passes: it is the last to be unpinned for want
                                                            // of room
// This column goes over the link: it may be pinned for the next time.
void        pin_pass(Pin *pin, int column, const void *from, u64 bytes);
u64         pin_reach(Pin *pin, const void *from);          // bytes from here on that are pinned in one piece
u64         pin_covers(Pin *pin, const void *from, u64 bytes);          // of these, how many are pinned
GpuAddress  pin_address(Pin *pin, const void *from, u64 bytes);        // where kernels can read all of these; 0:
                                                                        // nowhere

// gpu_figures.c
void        figures_begin(GpuRun *run);
void        figures_end(GpuRun *run);
void        figures_woven(GpuRun *run);                         // in one kernel with others.  Under the lock.
void        figures_ridden(GpuRun *run, u64 n_chunks, u64 n_rows, u64 bytes);
void        gpu_list(Device *device, Arena *arena, DeviceFigures *figures);
void        gpu_forget(Device *device, bool (*which)(const void *context, u64 table), const void *context);
void        peak_known(const Gpu *gpu, GpuFigures *figures);    // how fast its memory is read

// gpu_scan.c
weft_status scan_start(Gpu *gpu, Error *err);
void        scan_stop(Gpu *gpu);
void        gpu_expect(Device *device, u64 table, int n);
void        gpu_wake(Device *device, const _Atomic u32 *stop);
weft_status scan_ride(GpuRun *run, Error *err);             // through all chunks; its stream still works when this
                                                            // returns
// Until its stream is done, or its pack has come; a cancel is passed on.
weft_status scan_wait(GpuRun *run, Error *err);

#endif
