// sql.h - SQL text to a bound statement, with PostgreSQL's grammar (libpg_query).
//
//     TRY(sql_bind(arena, text, &names, &statement, err));
//
// TEXT is one statement (sql_split gives them one at a time).  Errors carry a byte offset in TEXT.
// libpg_query recurses without a guard, so parsing and binding run on a thread with a large known stack, the length of
// a statement is limited by that stack, and every walk of ours counts its depth: 54001 instead of a crash.  A query
// whose text came before is bound from its tree of then, on the caller's thread.

#ifndef WEFT_SQL_H
#define WEFT_SQL_H

#include "plan/plan.h"

typedef struct Names {                 // how table names are looked up; the engine adds its virtual tables here
    const Table *(*table)(void *context, const char *name);    // held for the caller; NULL when there is none
    void *context;
    const _Atomic u32 *stop;           // looked at while waiting for a thread to parse on; may be NULL
    u8    zone;                        // the session's time zone
    i64   now;                         // the statement's time, in microseconds since 1970; 0: whatever the clock says
} Names;

weft_status sql_bind(Arena *arena, const char *text, const Names *names, Statement **statement, Error *err);

// Length of the first statement in TEXT with its ';', or 0 when the text ends before one does (see
// weft_statement_length).
size_t sql_statement_length(const char *text);

#endif
