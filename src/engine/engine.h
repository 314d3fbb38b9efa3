// engine.h - the life of a query: settings, pipelines run in order, tables built, results put together.
//
//     weft_query -> sql_bind -> (select) query_run: plan -> for each pipeline: weave -> jit -> device -> table | result
//
// Shared by the files of this folder; the world outside uses include/weft.h.

#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

#include "device/device.h"
#include "engine/admission.h"
#include "engine/gpus.h"
#include "engine/network.h"
#include "engine/pieces.h"
#include "engine/plans.h"
#include "engine/shape_plans.h"
#include "engine/squad.h"
#include "sql/sql.h"

#include <pthread.h>

typedef struct Deadlines Deadlines;
typedef struct Streams Streams;        // continuous.h

struct weft_db {
    Arena   *arena;
    _Atomic u64 n_queries;             // numbered as they come
    _Atomic int n_running;             // queries whose pipelines run now
    _Atomic i64 gpu_crowd_until_ms;    // GPUs are expected to have many queries until then (query.c)
    Store   *store;
    Budget   budget;                   // of all that grows with data; memory_limit is its limit
    Budget
        looks;  // what does not grow with data, such as virtual tables: one can look at a database whose memory is full
    TempSpace *temp;                   // temporary files of queries that met the limit
    Admission *admission;              // which queries may run beside which
    Network *network;                  // for queries
    Pieces  *pieces;                   // what running queries have in common
    struct KindsBook *kinds;           // of rows of dimensions (kinds.h)
    Plans   *plans;                    // of texts that came before
    ShapePlans *shape_plans;           // of their shapes
    Squad    *squad;                     // threads of submitted queries
    Deadlines *deadlines;              // of statements with a timeout
    Streams  *streams;                 // continuous views and retention
    Jit     *jit;
    Device  *cpu;
    Gpus    *gpus;
};

// What is kept for later queries goes: a table has changed, or memory is short.
void db_trim(weft_db *db, bool is_short);

// A GPU is asked by itself (SET device = auto) from so many rows on: below, the CPU is done before a launch would be
// prepared.
#define GPU_ROWS (4u << 20)            // why_not_on_gpu (query.c) says it in words

typedef enum DeviceChoice { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA } DeviceChoice;

typedef enum GpuSort { GPU_SORT_AUTO, GPU_SORT_ON, GPU_SORT_OFF } GpuSort;     // auto: many rows only

typedef enum RowKinds { ROW_KINDS_AUTO, ROW_KINDS_ON, ROW_KINDS_OFF } RowKinds;        // auto: in a crowd

typedef struct Settings {
    DeviceChoice device;               // auto: a GPU where there is one and the work is worth it
    int     gpu;                       // number, for cuda
    GenericUse  gpu_generic;           // whether a GPU's generic kernel runs what is not compiled yet
    GpuSchedule gpu_schedule;          // of kernels that a GPU runs for several queries
    GpuSort gpu_sort;                  // whether a GPU sorts the rows that it left
    bool    gpu_wait;                  // on: always wait for a GPU's code, even where the CPU would be done sooner
    bool    weave;                     // off: every operator is its own kernel
    WeaveNeed weave_budget;            // a pipeline that needs more is several kernels; 0: what the device has
    JitMode jit;
    int     threads;
    bool    sharing;                   // off: every query scans alone
    TreeKeeping plan_cache;            // what is kept of earlier queries: shapes ("on"), texts, nothing ("off")
    bool    keep_tables;               // join tables stay when no query uses them, for later ones (pieces.h)
    RowKinds row_kinds;                // whether join tables are made by kinds of rows (kinds.h)
    bool    weave_queries;             // off: queries on one scan run side by side, never together (sieve.h)
    int     priority;                  // 0 to 10; larger goes first
    i64     timeout_ms;                // statement_timeout; 0: none
    u8      zone;                      // timezone: its number (store.h)
    int     stream_commit_ms;          // COPY from a pipe into a stream: between two commits
} Settings;

enum { STREAM_COMMIT_MS = 20 };

struct weft_session {
    weft_db      *db;
    Settings      settings;
    u64           query_number;        // of the running or last query
    _Atomic u32   stop;                // the running query is to end: cancelled, or one of its workers failed
    _Atomic bool  cancelled;
    _Atomic bool  timed_out;           // it was stopped by its timeout
    _Atomic bool  running;
    _Atomic u64   rows_done, rows_total;
    _Atomic int   copy_progress;       // 0 .. 1000
    _Atomic int   position;            // in the queue for memory, from 1 on; 0: it does not wait
    int           deadline_place;      // of its timeout, from 1 on; 0: none.  Under the lock of the deadlines
    RandomSource  random;              // what random() draws from
    Store        *temporary;           // tables that only this session sees; NULL: there are none yet
    struct Prepared *prepared;         // statements by name
    struct Subscription *subscription; // what SUBSCRIBE TO gave last (subscribe.c); NULL: nothing
    int           input, output;       // descriptors of COPY FROM STDIN and TO STDOUT
};

struct weft_result {
    Arena       *arena;
    Budget      *budget;
    size_t       n_rows;
    int          n_columns;
    weft_column *columns;
    char         tag[64];
    int          n_notices;
    const char **notices;
};

// ---- statement timeouts ---------------------------------------------------------------------------------------------

Deadlines *deadlines_new(void);
void       deadlines_free(Deadlines *deadlines);
void deadline_set(Deadlines *deadlines, weft_session *session,
                  i64 timeout_ms);  // stops its query then, unless cleared first
void       deadline_clear(Deadlines *deadlines, weft_session *session);

// ---- one query at work ----------------------------------------------------------------------------------------------

typedef struct KernelReport {          // for EXPLAIN ANALYZE
    const char  *label;
    const Woven *woven;
    Device      *device;
    u32          morsels[N_TIERS];
    GpuFigures   gpu;                  // threads 0: it ran on the CPU
    u64          rows_in, rows_out, bytes_read;
    int          chunks_read, chunks_skipped, n_workers;
    u64         *counts;
    double       time_ms, compile_ms;
    const char  *meanwhile;            // the CPU ran it while code for this device is made; NULL: it did not
    const char *unsuited;  // why it is none for the GPU that was asked for, or why that did not run it; NULL: it is one
    double       wait_ms, gain;        // see LaunchOutcome
    int          n_beside, n_woven;
    const char  *woven_as;
    BodyFigures  body;
    bool         reads_kept;           // its rows were in the memory of the device
    u64          bytes_kept;           // that its rows take there, for the next kernel; 0: they did not stay
    double       keep_ms;              // to put them together, by the device's clock; 0: not asked for
    int          n_runs;               // see LaunchOutcome
    u64          groups_in_runs;
} KernelReport;

typedef struct SplitReport {           // a pipeline is several kernels, as one would pass weave_budget: for EXPLAIN
    WeaveCut    cut;
    WeaveNeed   budget;
    const char *before, *passed_by;    // steps of the cut, for people
} SplitReport;

typedef struct SortReport {            // of ORDER BY and of window functions, where a GPU left the rows
    Device     *device;                // that sorted; NULL: the host did
    const char *refused;               // why the device did not; NULL: it did, or was not asked
    int         n_sorts, n_bits, n_passes;         // all of them; bits of the key, and passes, of the last one
    u64         n_rows;
    double      time_ms, kernel_ms;    // of all; with what goes over the link; of kernels, 0: not asked for
} SortReport;

typedef struct PipelineReport {
    SortReport       sort;
    int              n_kernels;
    KernelReport    *kernels;
    int              n_splits;
    SplitReport     *splits;
    const JoinTable *table;
    int              n_parts;          // of a table that did not fit (spill.h); 0: it is whole
    double           build_ms;         // by a device: of its kernels
    double           window_ms;        // of window functions, by the host
    u64              window_rows;
    u64              n_rounds, n_round_rows;   // the last pipeline of a repeat: rounds, and rows of all of them
    double           rounds_ms;                // of the rounds after the first
} PipelineReport;

typedef struct Signature {             // equal texts, equal work
    char  *text;                       // NULL: shared with nobody
    size_t length;
    int    n_things;
    int   *things;                     // sources and columns, in the order in which the text numbers them (signature.c)
} Signature;

// The rows that a pipeline left, kept for the pipelines that read them.  Cells have 8 bytes each.
typedef struct StoredColumn {
    Type        type;
    const i64  *cells;                 // numbers, codes of DICT, or doubles; of a NULL row, some value of the range
    const i64  *high;                  // numbers of 128 bits: their high words, and CELLS are the low ones; else NULL
    i64         high_low, high_high;   // what lies between which
    const u64  *valid;                 // a bit per row, 1 where it is not NULL; NULL: there is no NULL
    Dictionary *dict;                  // text; held by the query
    u32         dict_count;
    Range       range;                 // of these rows
} StoredColumn;

typedef struct Stored {
    u64           n_rows;
    StoredColumn *columns;             // by output of the pipeline
} Stored;

typedef struct Spilled { u64 n_sorts, n_sorted_runs, n_joins, n_join_parts; } Spilled;  // for people (spill.h)
typedef struct JoinParts JoinParts;    // the rows of a join table that does not fit (spill.h)

typedef struct SharedRun SharedRun;    // rows or groups that several queries use (query.c)

typedef struct UsedCode { Code *code; double spent_ms; } UsedCode;             // CPU time in it

typedef struct QueryRun {
    Arena          *own;               // lives as long as the query
    Arena          *arena;             // for the pipeline at hand: its own, or that of a shared piece
    weft_session   *session;
    const Plan     *plan;
    Graph          *graph;             // its pipelines
    Claim *claim;  // its memory; NULL before it is planned.  Whoever runs the query leaves it, after own is freed.
    Signature      *signatures;        // by pipeline
    JoinTable     **tables;            // by pipeline
    Stored        **stored;            // by pipeline: what the pipelines after it read
    Expr          **params;            // by number: the constant, once it is known
    struct RepeatRows **repeats;       // by number in the graph (repeat.h)
    PipelineReport *reports;           // by pipeline
    int             n_pieces;
    Piece         **pieces;            // shared ones that it uses; released when it is done
    int             n_answers;
    SharedRun     **answers;           // of these pieces, those that are rows or groups
    int             n_notices;
    const char    **notices;
    UsedCode       *codes;             // that ran as tcc made them; told to the jit once the query is done
    int             n_codes;
    bool            is_counted;        // in db->n_running
    bool            has_chosen_kinds, wants_kinds;     // its join tables are made by kinds of rows (kinds.h)
    Device         *unready;           // a GPU that has code to compile once the query is done; NULL: none
    bool            is_explained;      // EXPLAIN: everything is made anew, so that it can be shown
    bool            only_weave;        // EXPLAIN (KERNEL): the last pipeline is woven, not run
    bool            is_empty;          // its text says that no row comes out: nothing was run
    bool            is_second_try;     // the first met the memory limit: this one is to be alone
    Spilled         spilled;
    JoinParts     **join_parts;        // by pipeline; NULL: its table is whole
    bool            spills;            // it met the limit alone: this try goes through temporary files (spill.h)
    Device *announced;  // expects this query's last scan, and is to be told when that does not come; NULL: none does
    bool            must_use_cpu;      // a device was lost that had tables of the first try
    bool            has_lost_tables;   // it was lost in this one
    Device         *sort_device;       // left the rows that are being finished, and can sort; NULL: it is the host's
    SortReport     *sort_report;       // of their pipeline
    Launch         *last;              // the root's launch, its own or a shared one
    const Woven    *last_woven;
    Error          *err;
} QueryRun;

weft_status query_run(QueryRun *run);  // all pipelines; run->last holds what came out
weft_status query_foresee(QueryRun *run);  // runs nothing: where its pipelines will be split, in run->reports
void        query_free(QueryRun *run);
Budget *query_budget(const QueryRun *run);  // what its memory is counted in; may be used after the query is gone
// What to do once a try ended with STATUS: nothing more, or run it again on the CPU (a device was lost), alone (it met
// the memory limit, and others were there), or through temporary files (it met the limit alone).
typedef enum NextTry { TRY_NO_MORE, TRY_ON_CPU, TRY_ALONE, TRY_SPILLING } NextTry;
NextTry query_next_try(const QueryRun *run, weft_status status);
u64  query_array_bytes(const QueryRun *run);      // WeaveJob.array_bytes (estimate.c)
void query_estimate(QueryRun *run, Part *parts);  // what its pipelines will need, and last the rest (estimate.c)
bool        query_may_be_alone(const QueryRun *run);   // others ran beside it: without memory it is tried again alone
weft_status query_alloc(QueryRun *run, size_t bytes, void **out);          // counted, zeroed, freed with the query
weft_status query_ranks(QueryRun *run, Dictionary *dict, u32 count,
                        const u32 **ranks);  // of a dictionary's codes; held as long as the query
void        query_notice(QueryRun *run, const char *notice);

// Where a pipeline's steps are divided between kernels (segments.c).  Gives the number of cuts: 0, it is one kernel.
int         segments_of(QueryRun *run, int pipeline, const WeaveJob *job, WeaveCut **cuts);
bool        segments_may_be_many(const QueryRun *run);                     // rows may be stored within a pipeline
double      probe_pass_rate(ProbeKind probe, const JoinTable *table);      // rows that pass per row that comes
JoinTable  *expected_table(QueryRun *run, int pipeline);                   // as the plan expects it, without contents
Source     *expected_source(QueryRun *run, const Pipeline *pipeline);      // of rows that other pipelines will leave

// The table lives in HOME, and so does all it points to.
weft_status table_build(QueryRun *run, Arena *home, int pipeline, Launch *launch, JoinTable **out, double *kernel_ms);
bool        query_is_for_cpu(const QueryRun *run);                         // no GPU will run any of it
// Of a query's own view of a table that is filled when it is asked for (JoinTable.late): fills it.  NULL: no memory.
const void *table_filled(JoinTable *view);
// The same of rows that stand for kinds.  *IS_DONE false: a table by key is not suited, and nothing was made.
weft_status table_build_by_kind(QueryRun *run, Arena *home, int pipeline, const Launch *launch, const Kinds *kinds,
                                JoinTable **out, bool *is_done);
// What table_build will want to know, to be found out by a device that keeps the rows: asked for in the kernel's text,
// and in its launch.
const u8   *table_notes(QueryRun *run, int pipeline);
void        table_facts(QueryRun *run, int pipeline, const Woven *woven, const u8 *notes, Launch *launch);
weft_status query_device_failed(
    QueryRun *run, weft_status status);  // of a device that has what the query needs: then it is run again, without
Signature query_signature(const QueryRun *run, int pipeline);  // of builds before it first: they become part of it
const Probe *query_probe_of(const Graph *graph, int pipeline);             // the probe that uses the table it builds
bool query_probe_is_test(const Probe *probe);              // asks only whether a key is there, not for its rows
bool        query_only_grouped_by(const QueryRun *run, int pipeline, int column);
bool        query_has_kernels(const QueryRun *run);                        // else its rows are constants
// Rows that JOB only counts, as one with their number (matches.c).  Factors: one for each step that was changed; a row
// stands for as many as their product says.  ALWAYS: also where it does not pay.
weft_status matches_multiply(QueryRun *run, const WeaveJob *job, bool always, const WeaveStep **steps, Expr ***factors,
                             int *n_factors);
// The same of groups, as woven: *OUT has a weight then, or is JOB.
weft_status matches_count_job(QueryRun *run, const WeaveJob *job, const Woven *woven, WeaveJob *out);
// Rows of joins that may not fit into all there is (fits.c).  Doubtful: to be counted by COUNT, *ROWS_MOST fit.  Not:
// the error.
bool        fits_is_doubtful(const QueryRun *run, int pipeline, const Launch *launch, i64 *rows_most);
weft_status fits_count_job(QueryRun *run, const WeaveJob *job, WeaveJob *count);
weft_status fits_not(QueryRun *run, const Launch *rows, const Launch *counted);
i64 query_rows_enough(const Pipeline *pipeline);  // its kernel may stop at so many rows; -1: it may not

bool query_should_stop(const QueryRun *run, u64 step);  // looks at the flag every few thousand steps of a loop
weft_status query_canceled(QueryRun *run);
Team        query_team(const QueryRun *run);           // the threads it may use, and its stop flag
weft_status query_copy(QueryRun *run, void *to, const void *from, u64 bytes);      // memcpy that a cancel can end

// ---- views: columns of the answer before they are ordered -----------------------------------------------------------

typedef enum ViewKind { VIEW_INT, VIEW_FLOAT, VIEW_WIDE, VIEW_TEXT, VIEW_CODE } ViewKind;

typedef struct View {
    ViewKind    kind;
    Type        type;
    const void *data;                  // i64, double, i128, weft_text, or i64 codes of
    Dictionary *dict;
    u32         dict_count;
    const u32  *ranks;                 // codes: by which they are sorted; NULL: by their texts
    const u8   *nulls;
    const u8   *shown;                 // quotients: Value.shown of each; NULL: not known
} View;

typedef struct Order { const u64 *rows; u64 first, n_rows; } Order;            // rows NULL: as they are

typedef struct Finished {
    View *views;                       // for each output of the pipeline
    u64   n_rows;
    Order order;
    bool  is_lasting;                  // what the views show stays as long as what comes from the arena now
} Finished;

ViewKind    view_kind(Type type);
Value       view_value(const View *view, u64 row);     // texts stay where they are
int compare_view_cells(const View *view, u64 a, u64 b);  // neither is NULL
typedef struct Tie {
    int (*compare)(const void *context, u64 a, u64 b);
    const void *context;
} Tie;  // of rows that come in no order of their own
typedef struct ViewKey { int view; bool descending, nulls_first; } ViewKey;
// Whether codes are to be sorted by ranks of the whole dictionary, and not by the texts of the rows.
bool query_wants_ranks(const QueryRun *run, const View *view, u64 n_rows, u64 n_wanted);
// The rows by KEYS, on all threads; rows that are equal stay in order.  *ROWS NULL: they are as they should be.
weft_status sort_views(QueryRun *run, View *views, u64 n_rows, const ViewKey *keys, int n_keys, u64 **rows);
// ORDER BY, DISTINCT ON, copies, LIMIT, OFFSET; TIE may be NULL.  VIEWS are the finish's outputs.
weft_status order_rows(QueryRun *run, const Finish *finish, View *views, u64 n_rows, const Tie *tie, Order *order);

// ---- what is done with the rows or groups of a pipeline once they are there -----------------------------------------

// AS_CODES: text that comes from a dictionary stays codes.  IS_STABLE: rows come in an order that depends on the data
// alone.
weft_status finish_pipeline(QueryRun *run, int pipeline, const Launch *launch, const Woven *woven, bool as_codes,
                            bool is_stable, Finished *out);
// OUT: views of what the kernel left, which become views of the finish's outputs; what kernels cannot compute is
// computed here, by the interpreter (compute.c).
weft_status compute_outputs(QueryRun *run, const Pipeline *pipeline, Finished *out);
weft_status finish_nothing(QueryRun *run, const Finish *finish, Finished *out);  // the outputs without a row
weft_status stored_keep(QueryRun *run, int pipeline, const Finished *finished, Stored **out);
weft_status stored_param(QueryRun *run, int pipeline, const Finished *finished);  // its one value becomes a constant
weft_status stored_source(QueryRun *run, const Pipeline *pipeline, const ColumnSet *needed, Source **out);

// Rows between two kernels of one pipeline (weave = off): where a device made them, they stay in its memory.
// NOTES and FACTS: what the device is to find out about them, as of a table.
const u8 *stored_notes(QueryRun *run, int n_outputs);
void      stored_facts(QueryRun *run, int n_outputs, const Woven *woven, Launch *launch);
// The rows that the launch of JOB left, as the source of the next kernel.  IN_ORDER: their order matters.  REPORT: of
// the launch.
weft_status stored_after(QueryRun *run, Launch *launch, const WeaveJob *job, bool in_order, KernelReport *report,
                         Source **out);
// Sources that the same job left several times, one behind the other.
weft_status stored_union(QueryRun *run, Source *const *sources, int n_sources, Source **out);
Device     *stored_device(const Source *source);                           // that has the rows; NULL: they are here
weft_status stored_fetch(QueryRun *run, const Source *source);           // rows that stayed on any device are here then
void        stored_drop(const Source *source);                             // gives a device its memory back

// ---- results --------------------------------------------------------------------------------------------------------

weft_result *result_new(weft_db *db);
weft_status  result_alloc(weft_result *result, size_t bytes, void **out, Error *err);    // freed with the result
weft_status  result_from_query(QueryRun *run, weft_result *result);
weft_status result_from_lines(weft_result *result, const char *name, const char *lines, Error *err);  // one text column
void         result_add_notice(weft_result *result, const char *notice);
void         result_add_notices(weft_result *result, const QueryRun *run);

// ---- the rest -------------------------------------------------------------------------------------------------------

void        explain_plan(QueryRun *run, bool with_figures, Text *text);    // figures: what a run left in run->reports
// The same for programs: one JSON document in one line (explain_json.c).  ANSWER: of a run; NULL: there was none.
typedef struct AnswerFigures { u64 n_rows; double answer_ms, total_ms; } AnswerFigures;
void        explain_json(QueryRun *run, const AnswerFigures *answer, Text *text);
const Repeat *explain_repeat(const QueryRun *run, int pipeline);           // whose last pipeline it is; NULL: of none
void explain_network(weft_db *db, Arena *arena, bool as_dot, Text *text);  // what runs now, and what is woven with what
void        settings_default_device(Settings *settings);                   // $WEFT_DEVICE, else auto
i64         settings_default_memory_limit(void);                           // 80 % of the memory there is; 0: none
GenericUse  settings_default_gpu_generic(void);                            // $WEFT_GPU_GENERIC, else auto
GpuSchedule settings_default_gpu_schedule(void);                           // $WEFT_GPU_SCHEDULE, else plain
bool        settings_default_keep_tables(void);                            // $WEFT_KEEP_TABLES, else on
RowKinds    settings_default_row_kinds(void);                              // $WEFT_ROW_KINDS, else auto
GpuSort     settings_default_gpu_sort(void);                               // $WEFT_GPU_SORT, else auto
const char *settings_default_temp_directory(const char *database);         // its own, else $TMPDIR; NULL: in memory
bool        settings_default_gpu_wait(void);                               // $WEFT_GPU_WAIT, else off
weft_status settings_set(weft_session *session, const char *name, const char *value, int at,
                         Error *err);  // value NULL: default
weft_status settings_show(weft_session *session, const char *name, int at, Text *text, Error *err);
weft_status virtual_table(weft_session *session, Arena *arena, const char *name, const Table **table,
                          Error *err);  // *table NULL: no such

#endif
