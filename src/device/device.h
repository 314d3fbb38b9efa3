// device.h - where kernels run: a device is a table of functions.
//
//     Launch launch = { .device = device, .woven = woven, .source = source, .sink = job.sink, ... };
//     TRY(device->ride(device, &launch, err));             // any thread; all chunks that it wants: launch.out
//     if (launch.out.refused[0]) ...                       // nothing was done: give it to another device
//     device->free_launch(device, &launch);
//
// A launch is a request with room for its outcome.  Launches over one table that ride at the same time share its scan;
// which rows go through which kernels when is the device's own business.  A GPU (cuda.h) takes whole chunks, many at a
// time.  The CPU is pushed, slice by slice, by the engine's threads (engine/network.c, which adds ride and list to what
// cpu.c gives):
//
//     TRY(device->open(device, &launch, err));
//     device->push(device, &launch, slot, chunk, first, end);      // any thread, one per slot at a time; in any order
//     TRY(device->finish(device, &launch, err));                   // merges the slots: launch.out.rows or .groups
//
// A device with memory of its own may also keep the rows of a launch and make a join table of them there (make_table),
// or a chunk that the next launch reads (keep_rows).

#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include "jit/jit.h"
#include "kernel/args.h"
#include "weave/weave.h"

typedef struct Device Device;

typedef struct RowSet {                // what a kernel that ends in rows leaves, in the order of the source
    u64   n_rows;
    void **columns;                    // by state slot: i64, f64 or (NULL flags) u8
} RowSet;

typedef struct GroupSet {              // merged over workers
    u64         n_groups;              // array: size of the domain; hash: number of groups; one: 1
    void      **state;                 // by state slot, n_groups each
    const u64  *keys;                  // hash, one word: by group
    const u64  *words;                 // hash, several words: n_words by group
} GroupSet;

// What is to be known of an output column of a launch whose rows stay on the device, before a join table or a chunk is
// made of them.
typedef struct RowFacts {
    int   value, null;                 // state slots; null -1: never NULL
    i64   marks_low;
    u64   n_marks;                     // 0: which values occur is not asked for
    // out
    i64   low, high;                   // of what is not NULL; low > high: nothing is
    bool  has_null;
    u8   *marks;                       // n_marks, the caller's: not 0 where marks_low + its number occurs
} RowFacts;

// How the rows of a launch become a join table.  By key: keys are numbers in a small range, and each has a place.  Else
// rows keep their numbers, payloads are by row, and those of equal key are chained, in the order of the source, from a
// head by key or from a slot of a hash table.
typedef enum FillKind { FILL_BY_KEY, FILL_HEADS, FILL_HASH } FillKind;

// Place, or key of one word = sum of (key - low) * stride.
typedef struct FillKey { int value; bool is_float; i64 low; u64 stride; } FillKey;

typedef struct FillPart {
    int        number;                 // as in WovenTable
    bool       is_link;                // slots, words or next of a table whose rows are chained: the rest of this is of
                                       // no interest
    u8         width;                  // bytes per place; 0: a bit that there is a row
    u64        bytes;                  // of the part
    bool       is_set;                 // bytes only say that there is a row: their code is 0
    bool       is_valid;               // bits only say which rows are not NULL
    int        value, null;            // state slots: else it is value - base, or null_code
    i64        base;
    u64        null_code, plus;        // plus is added to every code
    const u32 *codes;                  // not NULL: of n_codes, by value - base
    u64        n_codes;
} FillPart;

typedef struct TableFill {
    u64       table;                   // its id
    FillKind  kind;
    u64       span;                    // places, heads or slots; slots are a power of two
    bool      has_words;               // hash: the key is several words, and its hash in the slots
    bool      may_compile;             // else code that is not there yet is only asked for, and the host makes this one
    int       n_keys, n_parts;
    FillKey  *keys;
    FillPart *parts;                   // links first: slots, next, words
    // out
    u64       n_places;                // that have a row: keys; fewer than rows: some had the same
    u64       longest;                 // chained: rows of one key, at most
    double    kernel_ms;               // by the device's clock; 0: not asked for
    char      refused[300];            // why it failed at one of the kind it makes; empty: it did not
} TableFill;

#define FILL_KEYS 8                    // at most

// How the rows of a launch that stayed on the device become columns of a chunk that the next launch reads there.
typedef struct RowKeep {
    const Chunk *chunk;                // its id and number of rows; of each column width, base, and valid: whether
                                       // there are NULLs
    int          n_columns;
    const int   *values, *nulls;       // by column: state slots; NULL flags -1: never NULL
    bool         in_order;             // rows come in the order of the source; else in any
    bool         may_compile;          // as of a TableFill, and so are the next two
    // out
    double       kernel_ms;
    char         refused[300];
    u64          bytes;                // of the device's memory
} RowKeep;

// Rows to be put in order by a device.  The key of a row is N_WORDS words of WIDTH bytes, compared as unsigned numbers,
// the first one first; 4 bytes only where there is one word.  Rows with equal keys keep their order.
#define SORT_WORDS    4                // at most
#define SORT_ROWS_MOST ((u64)1 << 30)

typedef struct DeviceSort {
    u64                n_rows;
    int                n_words, width;
    u64                varies[SORT_WORDS];         // by word: bits in which rows differ; the others are not looked at
    // Writes this word of rows FIRST .. END - 1.  Any thread, several at a time.
    void             (*write)(void *context, int word, u64 first, u64 end, void *to);
    void              *context;
    const _Atomic u32 *stop;                       // not 0: leave soon
    bool               is_explained;               // kernel_ms is wanted
    bool               may_compile;                // as of a TableFill
    // out
    u32               *rows;                       // the caller's, n_rows: their numbers, in order
    int                n_passes;
    u64                bytes;                      // of the device's memory
    double             time_ms, kernel_ms;
    bool               is_unready;                 // refused because its code is being compiled
    char               refused[300];               // why the device did not sort; empty: it did
} DeviceSort;

// Shapes, order and streams of the kernels that a GPU runs for several queries (README.md).
typedef enum GpuSchedule {
    SCHEDULE_PLAIN, SCHEDULE_SEQUENTIAL, SCHEDULE_RANDOM, SCHEDULE_MULTIQX, SCHEDULE_MODEL
} GpuSchedule;

// Whether a GPU's generic kernel may run what has no code yet.  Always: it runs all it can, for tests.
typedef enum GenericUse { GENERIC_OFF, GENERIC_AUTO, GENERIC_ALWAYS } GenericUse;

// How a GPU ran it, for EXPLAIN ANALYZE.
typedef struct GpuFigures {
    int    registers, shared_bytes;    // per thread; per block
    int    threads, items, blocks_per_sm;
    u32    grid_x, grid_y;             // of the largest launch: blocks per chunk, chunks
    int    n_launches, n_repeats;      // repeats: there was too little room, and all of it ran again
    int    occupancy;                  // percent of the threads a multiprocessor can hold
    i64    rounds;                     // predicted running rounds of the largest launch (src/model); 0: not known
    double model_occupancy;            // predicted, from 0 to 1
    const char *limit;                 // the resource that keeps one more block away
    u64    bytes_host;                 // of bytes_read, what had to come over the link first
    u64    bytes_straight;             // of these, what came from pinned columns, without a stage
    u64    bytes_in_place;             // of bytes_read, columns of which kernels read a little in the host's memory
    double kernel_ms;                  // by the device's clock; 0: not asked for
    double count_ms;                   // of a run of its own that counted rows step by step
    double peak_gbs;                   // tell_peak: what the device's memory gives at most; 0: not known
    bool   is_peak_measured;           // else it is by clock and width
    bool   was_cached;                 // its code came from a cache
    bool   is_quick;                   // it is quickly compiled; the better one is under way
    bool   is_generic;                 // the generic kernel ran it,
    int    n_generic_ops;              // with so many operations
} GpuFigures;

// Of the kernel that serves several queries.  A body has classes, over columns or over joins (share/share.h).
typedef struct BodyFigures {
    u64  n_classes;                    // of all its columns; 0: it is no body
    u64  n_slots, n_cells;             // combinations of classes that are kept apart; with the groups in them
    bool is_over_joins;
    char kernel[32];                   // its name; empty: each query runs its own
} BodyFigures;

// For people: a launch that rides, and what a device has scanned of a table since it was opened.
typedef struct RiderFigures {
    u64         query;
    const char *table, *label, *kernel;
    int         n_chunks, n_chunks_done, n_fellow;         // fellow: riders on the same scan
    const char *woven_as;              // with others at its newest chunks: see LaunchOutcome; NULL: it runs by itself
    int         n_woven;               // how many, itself included; 0: it runs by itself
    double      gain;                  // what the cost model expected of that: time alone / together
    BodyFigures body;                  // of the kernel that served them all
} RiderFigures;

typedef struct ScanFigures {
    u64         id;
    const char *table;
    u64         n_rides;                                   // launches that scanned it
    u64         chunks_read, rows_read, bytes_read;        // each chunk counted once for all that rode on it
    u64         chunks_ridden, rows_ridden, bytes_ridden;  // counted for each: what it would have been without sharing
    u64         chunks_woven, chunks_woven_ridden;         // read for several by one kernel: once for all; for each
    u64         rides_woven;                               // rides of which any chunk was
    u64         rides_sieved, rides_fused, rides_cubed;    // of these: one that was several of them counts for each
    u64         rides_join_cubed;                          // of those in cubes: that were in one over joins
} ScanFigures;

typedef struct DeviceFigures {
    int            n_riders, n_scans;          // lists of LIST_PUSH
    RiderFigures  *riders;
    ScanFigures   *scans;
    u64            n_kernels;                  // started so far; this and all below are a GPU's
    u64            n_generic;                  // launches that the generic kernel served
    u64            n_kind_columns;             // columns of kinds that were made for chunks
    u64            bytes, bytes_held, bytes_copied;            // its memory: all that Weft has of it; what cannot make
                                                               // way; copies of columns and tables
    u64            n_waves, n_planned;                         // runs of kernels; those with shapes of the model
    u64            n_solved, n_unsolved;                       // sets of kernels that the model was asked for
    u64            n_measured, measured_us;                    // waves whose span was measured, and their spans
} DeviceFigures;

#define GROUP_PARTITIONS 256           // of groups that do not fit into memory (runs.h)

// What came of a launch.  The device writes it, and owns what it points to until free_launch.
typedef struct LaunchOutcome {
    bool        keeps_rows;            // they stayed there: rows.columns are NULL until fetch_rows
    RowSet      rows;
    GroupSet    groups;
    u64         rows_in, rows_out;
    u64         bytes_read;            // whole columns that it may look at: late loads skip some, so it read this at
                                       // most
    int         chunks_read, chunks_skipped;
    int         n_workers;             // slots that were used
    u64        *counts;                // by woven->counts
    u32         morsels[N_TIERS];      // by JitTier: which code ran
    double      slow_ms;               // CPU time in other code than cc's, of all workers
    double      time_ms;
    double      wait_ms;               // from when it asked for its first chunk until that was opened
    int         n_beside;              // most others on its scan
    const char *woven_as;              // how it ran with most others: "sieved", "fused", "one body"; NULL: it did not
    int         n_woven;               // how many they were, itself counted in
    double      gain;                  // what the cost model expected of that: time alone / together
    BodyFigures body;                  // of the kernel that served these
    double      compile_ms;            // to get the code
    GpuFigures  gpu;                   // a GPU's
    char        refused[300];          // why the device did not run it; empty: it did
    int         n_runs;                // of groups in temporary files; 0: they were in memory
    u64         groups_in_runs;
} LaunchOutcome;

// What is asked of a device.  It only reads this, but for is_expected.
typedef struct Launch {
    Device           *device;
    u64               table;           // id of the table whose scan it shares; 0: it has a scan of its own, from the
                                       // first chunk on
    const Table      *scanned;         // for people, as are the next two; NULL: rows of the query's own
    const char       *label;
    u64               query;
    bool              is_explained;    // figures that cost time are wanted
    bool              may_weave;       // together with other queries
    GpuSchedule       schedule;        // of a GPU, as the next one
    GenericUse        generic;
    int               priority;        // on the CPU, as the next two: larger goes first
    int               max_threads;     // of a scan of its own
    bool              is_alone;        // it would hold up others: on threads of its own
    bool              is_expected;     // it was announced (Device.expect); ride takes that back
    const Woven      *woven;
    Code             *code;
    const Source     *source;
    SinkKind          sink;
    int               n_slots;         // threads that may push at once
    Team              team;            // and that may merge what they left
    i64               limit;           // rows: enough when this many are there; -1: all
    bool              only_counts;     // rows: none is kept.  out.rows_out is the sum over all rows of the product of
                                       // their outputs, numbers from 1 on; where LIMIT is reached, of some.  CPU only
    Budget           *budget;
    u64               group_bytes;     // a worker's table of groups above this goes to a temporary file; 0: never
    Jit              *jit;             // for kernels that serve several queries; NULL: this one runs by itself
    _Atomic u32      *stop;            // set by a cancel, or by a worker that failed
    _Atomic u64      *rows_done;       // progress; may be NULL
    int               n_facts;         // not 0: rows stay on a device that can keep them, and these are found out
                                       // about them
    RowFacts         *facts;
    LaunchOutcome     out;
    void             *memory;          // the device's own; free_launch gives it back
} Launch;

// Cells of a cube that belong to one of its members: they are merged into that one's state.
typedef struct Fold {
    Launch    *member;
    int        slot, chunk;            // as in a push
    u32        n_cells;
    const u32 *cells;                  // numbers; each has as many groups as the member, or
    const u32 *groups;                 // of the member, by cell: it is one group; NULL: it is all of them, in order
} Fold;

struct Device {
    const char *name;
    // Returns when every wanted chunk went through the kernel, or out.refused says why the device does not do that; the
    // launch has no memory of the device then.  Fails with what the query did wrong, or when it was stopped.
    weft_status (*ride)(Device *device, Launch *launch, Error *err);
    void        (*free_launch)(Device *device, Launch *launch);
    void        (*close)(Device *device);
    void        (*list)(Device *device, Arena *arena, DeviceFigures *figures);     // copies into the arena; any thread
    // What it counted of tables that are gone: those whose ids WHICH says.  Optional: NULL = it counts nothing.
    void        (*forget)(Device *device, bool (*which)(const void *context, u64 table), const void *context);
    // Optional: NULL = it looks at stop flags by itself, now and then.  Launches with this flag that wait see it now.
    void        (*wake)(Device *device, const _Atomic u32 *stop);
    // For a device that is pushed; NULL = it is not.
    weft_status (*open)(Device *device, Launch *launch, Error *err);
    // A failure shows in finish, and stops the launch.
    void        (*push)(Device *device, Launch *launch, int slot, int chunk, u32 first, u32 end);
    // The same for a list of rows, counted from ROW on; only where woven->can_pick.  Optional: NULL = never.
    // SURE: they passed all of woven's exact sieves.
    void (*push_picked)(Device *device, Launch *launch, int slot, int chunk, u32 row, const u16 *picked, u32 n_picked,
                        bool sure);
    // The same for launches whose kernels were fused into CODE (weave_fuse).  False, and nothing done, when one of them
    // is stopped.  Optional.
    bool (*push_fused)(Device *device, const Code *code, Launch *const *launches, int n_launches, int slot,
                       const int *chunks, u32 first, u32 end);
    // For cubes (weave_cube); optional: NULL = never.  Prepare: no push of this launch will want memory.  After the
    // last push: gather once, which adds up the cells of all slots; then fold, for each member.
    weft_status (*prepare)(Device *device, Launch *cube, Error *err);
    void        (*gather)(Device *device, const Launch *cube);                 // optional: NULL = fold looks at all
    void        (*fold)(Device *device, const Launch *cube, const Fold *fold);
    bool        (*is_enough)(const Device *device, const Launch *launch);      // its limit is reached
    weft_status (*finish)(Device *device, Launch *launch, Error *err);
    // For launches that keep rows; optional: NULL = never.  False: there is no room for the table, or the device could
    // not this time.
    bool        (*make_table)(Device *device, Launch *launch, TableFill *fill);
    weft_status (*fetch_rows)(Device *device, Launch *launch, Error *err);     // as if they had never stayed
    weft_status (*fetch_table)(Device *device, u64 table, int number, void *to, u64 bytes, Error *err);
    void        (*drop_table)(Device *device, u64 table);
    // Bytes of tables that may stay though no query uses them; optional: NULL = none.
    u64         (*kept_most)(const Device *device);
    // The device calls it when its memory is short: the engine then drops the tables that it keeps for later queries.
    // NULL: it keeps none.  Called without a lock.
    void        (*relieve)(void *context);
    void         *relief;
    // For launches that keep rows, too: they become a chunk, which later launches find by its id until it is dropped.
    // False: as of make_table.  Fetch: VALID may be NULL where no row is.
    bool        (*keep_rows)(Device *device, Launch *launch, RowKeep *keep);
    weft_status (*fetch_column)(Device *device, const Chunk *chunk, int column, void *data, void *valid, Error *err);
    void        (*drop_rows)(Device *device, u64 chunk);
    // Optional: NULL = the host sorts.  Fails only when it was stopped; else sort->refused says why it did not sort.
    weft_status (*sort)(Device *device, DeviceSort *sort, Error *err);
    // Optional.  N queries more, or fewer, are about to scan this table: others may wait for them a little, to share
    // the scan.
    void        (*expect)(Device *device, u64 table, int n);
    // Optional: NULL = none.  How long a ride would wait for a compiler, about.  The code is then noted, and made in
    // the background once get_ready is called.  ALL: else only what was asked for twice, since what comes again will
    // come again, and cores are scarce.
    double      (*wait_ms)(Device *device, const Launch *launch);
    void        (*get_ready)(Device *device, bool all);
    // Optional.  Fills in the peak, which is measured now if it never was and no other query runs; takes about as long
    // as a compile.  Any thread.
    void        (*tell_peak)(Device *device, GpuFigures *figures);
};

Device *device_cpu_open(void);             // is pushed, and has no ride

bool launch_wants_chunk(const Launch *launch, int chunk);                      // no zone test rules it out
u64  launch_column_bytes(const Launch *launch, int chunk);  // of the chunk's columns that the kernel reads
// As the kernel gets it for a chunk with these columns.
i64  launch_param(const Param *param, const KernelColumn *columns);
u64  launch_count_groups(const Launch *launch);  // of launch->out.groups, those that have rows

#endif
