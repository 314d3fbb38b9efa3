// continuous.h - continuous views: groups over a stream that are kept up to date while rows come.
//
//     streams_wake(db->streams);                       // rows were committed to some stream
//     streams_wait(db->streams, "v", row, cancel);     // until the view has seen the rows before ROW
//     streams_state(db->streams, "v", arena, &rows, err);      // what plan_read_groups makes the answer of
//
// One thread of the database feeds the views, saves them and drops the rows of streams that retention lets go.

#ifndef WEFT_CONTINUOUS_H
#define WEFT_CONTINUOUS_H

#include "engine/execute.h"

// What runs the views' queries: files above this one.
typedef struct StreamCalls {
    Names       (*names)(Execution *ex, const Value *params, int n_params);
    weft_status (*run_plan)(Execution *ex, const Statement *statement);
    weft_status (*append_result)(Execution *ex, Append *append);
    weft_status (*connect)(weft_db *db, weft_session **session, weft_error *error);
    void        (*disconnect)(weft_session *session);
} StreamCalls;

// Loads the views of the database.  The thread is started when there is a stream.
Streams *streams_new(weft_db *db, const StreamCalls *calls);
void     streams_free(Streams *streams);               // saves the views first; NULL is fine
void     streams_wake(Streams *streams);               // any thread; starts the thread when there is none

// Whether a view of STREAM is fed, and all such views have taken up the rows of all commits that were reported.
bool     streams_await_rows(Streams *streams, const char *stream);

// CREATE MATERIALIZED VIEW ... WITH (continuous): VIEW is what CREATE VIEW would store.  Returns when the rows that
// were there are in it.
weft_status streams_create_view(Execution *ex, const Statement *statement, const ViewDef *view);
weft_status streams_drop_view(Streams *streams, const char *name, Error *err);
// The tables are held for the caller; the rest is in ARENA.  Fails when the view could not be loaded.
weft_status streams_state(Streams *streams, const char *name, Arena *arena, ViewRows *rows, Error *err);
// Until the view has seen all rows that its stream has now, or has stopped, is dropped, or *CANCEL becomes true.
void        streams_wait(Streams *streams, const char *name, const _Atomic bool *cancel);
// Until the view has seen more rows than *POSITION, which becomes what it has seen.  AT is the place of errors.
weft_status streams_wait_change(Streams *streams, const char *name, int at, u64 *position, const _Atomic bool *cancel,
                                Error *err);

typedef struct ViewFigures {           // for weft_views; texts are in the caller's arena
    const char *name, *stream, *error; // error NULL: none
    u64         position, saved, n_late, n_kept;
    int         n_together;            // views that one query feeds, this one among them
    bool        has_watermark;
    i64         watermark;             // microseconds since 1970
} ViewFigures;

int streams_figures(Streams *streams, Arena *arena, ViewFigures **out);

// subscribe.c: SUBSCRIBE TO v.  The rows of the view that changed since this session's last SUBSCRIBE TO v; the first
// gives all.  Waits for a change.  AT is where the text names the view: the place of its errors.
typedef weft_status (*ReadView)(weft_session *session, const char *sql, weft_result **result, Error *err);
weft_status run_subscribe(Execution *ex, const char *name, int at, ReadView read);
void        subscription_free(weft_session *session);

#endif
