// continuous_int.h - continuous views inside: a view, its family, the thread's list; queries over what is kept.
//
// view_groups.c runs the queries of a view, families.c those of several views at once, continuous.c decides what runs.

#ifndef WEFT_CONTINUOUS_INT_H
#define WEFT_CONTINUOUS_INT_H

#include "engine/continuous.h"

#define STATE_PREFIX "weft_view_"
enum { NAME_MOST = 63 };

typedef struct ViewFamily ViewFamily;

typedef struct ContinuousView {
    SquadJob      job;                 // first: the squad knows a view at work by it
    Streams      *streams;
    Arena        *arena;
    const char   *name, *text, *stream, *state;        // state: the name of its table
    weft_session *session;             // that its queries run in
    KeptGroups    kept;
    bool          has_form;            // FORM is what tells its family; false: it is for none
    FamilyForm    form;
    i64           watermark_us;        // -1: none
    int           event_column;        // of the stream
    u64           n_merged;            // rows of the state after the last merge
    double        saved_ms;            // when the last save of it began
    const Table  *rows;                // of the round at work,
    u64           until;               // up to this one
    // By streams->lock:
    TableTraits   seen;                // what the state in memory covers, together with the family's cells
    u64           saved;               // what the one on disk does
    Error         error;               // why it stopped
    ViewFamily   *family;              // whose cells are the view's too; NULL: none.  Set by the thread that feeds
} ContinuousView;

// Views of one form that have seen the same rows.  The groups of new rows are made once for all of them (plan/family.c)
// and kept here; each view's own state has what it knew before.
struct ViewFamily {
    SquadJob        job;               // first
    Streams        *streams;
    Arena          *arena;
    const char     *form, *state;      // state: the name of its table of cells
    weft_session   *session;
    FamilyClasses   classes;
    KeptGroups      kept;              // of the cells
    u64             n_merged;
    bool            has_failed;        // its query: its views go on alone
    bool            could_not_end;     // it has failed, and some view found no memory for its part
    int             n_views;
    ContinuousView **views;            // all of them have this family
    const Table    *rows;              // of the round at work
    u64             until;
};

// The save at work, or the last one.
typedef struct ViewSave {
    SquadJob        job;               // first
    bool            is_started;        // the job is to be waited for; the thread that feeds knows
    weft_session   *session;           // NULL until the first
    Arena          *arena;             // of ROWS
    ContinuousView *view;
    ViewRows        rows;
    TableTraits     seen;              // what ROWS cover
    bool            is_running;        // by streams->lock, as the next
    double          after_ms;          // the next may begin
} ViewSave;

// The merge of chunks at work, or the last one.
typedef struct ChunkMerging {
    SquadJob     job;                  // first
    bool         is_started;           // the job is to be waited for; the thread that feeds knows
    _Atomic bool is_running;           // the rest is the job's until it is false
    weft_db     *db;
    char         stream[NAME_MOST + 1];
    double       after_ms;             // the next may begin
} ChunkMerging;

struct Streams {
    weft_db        *db;
    StreamCalls     calls;
    Store          *states;            // in memory
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    pthread_t       thread;
    bool            has_thread, is_closing, is_at_work;
    int             n_changing;        // that want to change the list
    u64             n_wakes, n_wakes_taken;    // taken: the thread has begun to look since that one
    Arena          *arena;             // of the list
    ContinuousView **views;
    int             n_views;
    ViewSave        save;
    ChunkMerging    merging;
    u64             n_families;        // that ever were, for the names of their tables
};

// ---- view_groups.c --------------------------------------------------------------------------------------------------

Execution   view_execution(weft_session *session, const Table *rows, Error *err);       // begins a statement
void        view_execution_end(Execution *ex);
// The groups of a view's rows, as a plan that is not rewritten yet.
weft_status view_bind(const Streams *streams, Execution *ex, const char *text, KeptGroups *kept, Statement **statement);
weft_status view_check_types(const KeptGroups *a, const KeptGroups *b, Error *err);
// The execution's rows, into the table of a state.  The append is aborted where it fails.
weft_status view_fill_append(const Streams *streams, Execution *ex, Append *append);
weft_status view_append_rows(const Streams *streams, Execution *ex, Store *store, const char *state,
                             const TableTraits *traits, bool replaces);
weft_status view_create_state(Store *store, const char *state, const KeptGroups *kept, const TableTraits *traits,
                              Error *err);
weft_status view_add_groups(ContinuousView *view, const TableTraits *seen, Error *err); // of its rows, to its state
// What is kept in memory for the view whose table is STATE, as of one moment; WANTS is in ARENA.  The caller has the
// lock, and VIEW may be NULL while it comes or goes; view_kept_rows takes the lock.
weft_status view_peek(const Streams *streams, const ContinuousView *view, const char *state, Arena *arena,
                      ViewRows *rows, Error *err);
weft_status view_kept_rows(const ContinuousView *view, Arena *arena, ViewRows *rows, Error *err);
void        view_release_rows(const ViewRows *rows);
// Merges ROWS in SESSION, and hands the groups to an append to the view's table in TO, which replaces its rows; the
// caller ends that.
weft_status view_merge(const ContinuousView *view, weft_session *session, const ViewRows *rows, Store *to,
                       const TableTraits *traits, Append **append, u64 *n_rows, Error *err);

// ---- view_saves.c ---------------------------------------------------------------------------------------------------

void        saves_go_on(Streams *streams);     // by the thread that feeds, between two rounds: begins one if it is time
void        saves_wait(Streams *streams);      // until none runs; the caller has the lock
void        saves_end(Streams *streams);       // the thread that feeds has ended
weft_status save_view(ContinuousView *view, Error *err);       // at once; no other save and no round runs

// ---- stream_merges.c ------------------------------------------------------------------------------------------------

void merges_go_on(Streams *streams, const char *stream);       // by the thread that feeds: begins one if there is need
void merges_end(Streams *streams);                             // waits for the one at work

// ---- families.c -----------------------------------------------------------------------------------------------------

// Between two rounds, by the thread that feeds the views: ends families whose query has failed, then makes families of
// the first N_JOINING of VIEWS, which have seen the same rows.
void families_form(Streams *streams, ContinuousView **views, int n_joining, int n_views);
void family_run(SquadJob *job);        // takes the rows of the round at work
// A view that is going away leaves its family, which frees itself with its last view.  The caller holds no lock.
void family_leave(ContinuousView *view);

#endif
