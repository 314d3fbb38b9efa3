// execute.h - one statement at work, shared by api.c and the files that run its kinds (lookup.c, change.c, copy_out.c).

#ifndef WEFT_EXECUTE_H
#define WEFT_EXECUTE_H

#include "engine/engine.h"

typedef struct Execution {
    weft_session *session;
    Arena        *arena;
    weft_result  *result;
    Error        *err;
    const char   *text;                // of the statement
    weft_status   lookup;              // a failure while looking up a name
    int           n_tables;            // that were looked up and are stored
    const Table **tables;
    bool          uses_virtual;        // tables whose rows are made for this query, or that only this session has
    int           n_used;              // names that were looked up: what a view depends on
    const char  **used;
    bool          uses_temporary;
    const Table  *given;               // stands for the table of its name; NULL: none does
    int           n_behind;            // continuous views whose streams have more rows than they have seen
    const char  **behind;
    bool          has_waited;          // for these
    int           quotient_scale;      // see Names
    bool          has_quotients;
} Execution;

// lookup.c: what names mean.  The context of the Names is the execution.
Names       execution_names(Execution *ex, const Value *params, int n_params);
// The store that has the table: the session's own or the database's.  HOME_ANY: the latter when neither has;
// HOME_TEMPORARY: the session's own, NULL where it has none.
Store      *execution_store(const Execution *ex, const char *table, TableHome home);
Store      *execution_target(const Execution *ex, const Statement *statement);      // of the statement's table
Store      *execution_temporary(Execution *ex);                   // the session's own, made if missing; NULL: failed

// tries.c: a try is one call of BODY, which runs the query of RUN and makes ex->result.  It is called again, with
// another RUN, where query_next_try says so.
typedef weft_status (*QueryBody)(Execution *ex, QueryRun *run, const Statement *statement);
weft_status run_tries(Execution *ex, const Statement *statement, QueryBody body);
weft_status run_plan(Execution *ex, const Statement *statement);  // the statement's plan; its rows in ex->result

// change.c: statements that change tables and views
weft_status run_change(Execution *ex, const Statement *statement);
weft_status change_append_result(Execution *ex, Append *append);  // the rows of ex->result

// copy_out.c
weft_status run_copy_to(Execution *ex, const Statement *statement);

// prepared.c: PREPARE and DEALLOCATE; what EXECUTE has to run
typedef struct Prepared {
    Arena           *arena;
    const char      *name, *text;
    int              n_types;
    Type            *types;            // of kind NULL: open
    struct Prepared *next;
} Prepared;

weft_status run_prepare(Execution *ex, const Statement *statement);
weft_status run_deallocate(Execution *ex, const Statement *statement);
const Prepared *prepared_find(const weft_session *session, const char *name);     // NULL: there is none
void        prepared_free_all(weft_session *session);
// What a statement is checked with: NULLs of these types, and without one where there are more parameters.
Value      *prepared_nulls(Arena *arena, const Type *types, int n_types, int n_params);
// While a statement is prepared, NULLs stand for its parameters.  Whether STATUS may be due to them.
bool        prepared_may_be_null(weft_status status);
// The arguments as values of the parameters' types.
weft_status prepared_values(Execution *ex, const Prepared *prepared, const Value *arguments, int n_arguments, int at,
                            Value **values);

// files.c: rows of a file as a table that lives as long as the statement
weft_status file_table(Execution *ex, const char *path, const char *format, const Table **table);
bool        file_is_meant(const char *name);                      // "sales.csv": by its suffix

#endif
