// stress.h - many queries at once against one database, with a known answer for each.
//
//     data.c      the tables, whose rows are a function of their number; and the thread that appends to them
//     items.c     queries: templates with random constants
//     answer.c    is this the right answer?
//     stress.c    who runs what when: waves, clients, cancels, faults
//     crowd.c     thousands of sessions that one thread drives
//
// How an answer can be known while rows arrive: each appended row carries the number of its batch, and a query that
// asks for "batch <= k" has one answer for good once batch k is committed.  It is computed alone first.  Queries
// without that condition (live ones) must give the answer of one of the snapshots between their start and their end;
// those are computed here, from the rows' numbers, without Weft.

#ifndef WEFT_STRESS_H
#define WEFT_STRESS_H

#include "engine/engine.h"

// ---- random numbers ----------------------------------------------------------------------------------------------

typedef struct Random { u64 state; } Random;

u64  random_next(Random *random);
int  random_below(Random *random, int n);                          // 0 .. n-1
int  random_between(Random *random, int low, int high);            // both included
bool random_chance(Random *random, int percent);
u64  mix(u64 a, u64 b);                                            // a number for two

// ---- data --------------------------------------------------------------------------------------------------------

enum { FIRST_BATCHES = 10, MOST_BATCHES = 1 << 16, N_CODES = 11 };
enum { N_CUSTOMERS = 2000, N_ITEMS = 500, N_OFFERS = 1500, N_SHELVES = 200 };

typedef struct Totals {                                            // of all rows up to a batch
    i64 n_rows, n_qty, sum_qty, sum_price;
    i64 code_rows[N_CODES], code_qty[N_CODES];
} Totals;

typedef struct Data {
    weft_db       *db;
    u64            seed;
    int            first_rows;                                     // in the table before anything is appended
    const char    *directory;                                      // for files to COPY
    Totals        *totals;                                         // by batch
    _Atomic int    committed;                                      // the last batch that is in the table
    _Atomic int    begun;                                          // the last batch that may be in the table
    _Atomic bool   may_fail;                                       // memory faults are on: 53200 is right
    _Atomic bool   is_ending;
    _Atomic i64    n_failed;                                       // appends that should not have failed
    _Atomic i64    n_appends, n_refused;                           // batches; tries that a fault refused
    pthread_t      thread;
    Random         random;
    weft_session  *session;
} Data;

bool data_create(Data *data);                                      // the tables, and their first batches
void data_start(Data *data);                                       // a thread that appends until data_stop
void data_stop(Data *data);
void data_drop(Data *data);

// ---- queries -----------------------------------------------------------------------------------------------------

typedef enum CheckKind {
    CHECK_ANSWER,                                                  // it has one answer, or one error
    CHECK_LIVE,                                                    // that of a snapshot between start and end
    CHECK_NOTHING,                                                 // any answer, but no error
    CHECK_ENDLESS                                                  // takes hours: it must be cancelled
} CheckKind;

typedef enum LiveKind { LIVE_TOTALS, LIVE_CODES, LIVE_JOIN, LIVE_BATCHES, LIVE_N } LiveKind;

typedef struct Item {
    char        *sql;
    CheckKind    check;
    LiveKind     live;
    bool         is_dash;                                          // a dashboard's: sieved together with its like
    bool         is_ordered;                                       // rows come in one order only
    int          n_sorted;                                         // else: leading columns whose values do
    weft_result *answer;                                           // or
    char         sqlstate[6];                                      // of the error
} Item;

typedef struct Items { int n; Item *list; } Items;

void  items_fill(Items *items, const Data *data, Random *random, int n_items);   // without answers
void  items_clear(Items *items);
int   items_templates(void);                                        // how many there are
Item *items_draw(Items *items, Random *random);
Item *items_draw_endless(Items *items, Random *random);
Item *items_draw_dash(Items *items, Random *random);
Item *items_draw_join(Items *items, Random *random);                  // one with a join table to share; it may fail

// ---- answers -----------------------------------------------------------------------------------------------------

bool answer_equal(const Item *item, const weft_result *got, Text *why);
bool answer_is_live(const Data *data, LiveKind live, int from, int to, const weft_result *got, Text *why);

// ---- queries at work (stress.c) ----------------------------------------------------------------------------------

enum { MOST_LATENCIES = 1 << 16 };

typedef struct Options {
    u64 seed;
    double seconds;
    int most, n_clients, n_rows;
    bool on_disk, is_verbose;
    const char *jit, *only;
    double latency_ms;  // a cancelled query must end within; 0: only reported
} Options;

typedef struct Latencies {
    pthread_mutex_t lock;
    int n;
    float ms[MOST_LATENCIES];
} Latencies;

typedef struct Stress {
    Options options;
    weft_db *db;
    Data data;
    Items items;
    Random random;
    const char *mode;
    int round;
    _Atomic i64 n_passed, n_failed, n_cancelled, n_refused, n_errors;  // refused: 53200 while memory faults are on
    _Atomic int n_running, most_running;
    _Atomic u64 n_ended;  // for the watchdog
    _Atomic bool has_faults, is_over;
    pthread_mutex_t printing;
    Latencies latencies;
} Stress;

typedef struct Call {
    Item *item;
    weft_session *session;
    weft_task *task;
    char *sql;
    int from;                                 // batches that were committed when it began
    double cancel_at, cancelled_at, seen_at;  // ms; 0: never, not yet; seen: running
    double work_at;  // work_ms() when it was cancelled
    double latency;  // from the cancel until it was seen running last
    bool may_be_cancelled, is_timed;
} Call;

extern const char *const reset_settings;                           // of a session that ran other queries

const char *draw_settings(Random *random);                          // SQL that goes before a query's, or ""
void call_prepare(Stress *stress, Call *call, Item *item, const char *settings);
void call_begin(Stress *stress, Call *call);                        // right before it is submitted
void call_plan_cancel(Call *call, double within_ms, Random *random);
// Cancels those whose time has come, among calls with a task; false: none is left that waits for it.
bool calls_cancel(Stress *stress, Call *calls, int n_calls);
void call_fail(Stress *stress, const Call *call, const char *what, Text *why);  // frees WHY's text
// Is this what it should have come to?  Counts it.
void call_judge(Stress *stress, const Call *call, weft_status status, const weft_result *result,
                const weft_error *error);
void add_latency(Stress *stress, const Call *call);

// Memory, and threads for submitted queries, that run out now and then.
typedef struct Faults {
    Stress *stress;
    Random random;
    pthread_t thread;
    _Atomic bool is_ending;
} Faults;

void faults_start(Stress *stress, Faults *faults);
void faults_stop(Faults *faults);                                   // nothing may be running

void crowd(Stress *stress, double until);                           // crowd.c

#endif
