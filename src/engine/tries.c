// tries.c - a statement's query, run as often as it takes.
//
//     first try ──> met the memory limit beside others ──> again, alone
//               ──> met it alone ──> again, through temporary files (spill.h)
//               ──> lost a device that had tables of it ──> again, on the CPU
//
// Nothing of a result is sent before it is whole, so a try leaves nothing behind.

#include "engine/execute.h"

// Nothing of the first try is left: neither memory, nor rows, nor the stop flag that its failing workers set.  A
// notice says that a device was lost.
static void begin_again(Execution *ex, bool has_lost_tables)
{
    weft_session *session = ex->session;
    const char *notice =
        has_lost_tables
            ? arena_printf(ex->arena, "the query was begun again on the CPU, without tables that a device had made: %s",
                           ex->err->message)
            : NULL;
    error_clear(ex->err);
    weft_result_free(ex->result);
    ex->result = result_new(session->db);
    if (notice) result_add_notice(ex->result, notice);
    atomic_store(&session->stop, 0);
    if (atomic_load(&session->cancelled)) atomic_store(&session->stop, 1);     // it came meanwhile
}

typedef struct Tries { bool is_second, must_use_cpu, spills; } Tries;

static void note_try(Tries *tries, NextTry next)
{
    if (next == TRY_ON_CPU) tries->must_use_cpu = true;
    else tries->is_second = true;
    if (next == TRY_SPILLING) tries->spills = true;
}

static weft_status try_once(Execution *ex, const Statement *statement, QueryBody body, Tries *tries, NextTry *next)
{
    Arena            *own = arena_new(ex->arena, "run");
    QueryRun run = { .own = own,
                     .arena = own,
                     .session = ex->session,
                     .plan = statement->plan,
                     .err = ex->err,
                     .is_second_try = tries->is_second,
                     .must_use_cpu = tries->must_use_cpu || tries->spills,
                     .spills = tries->spills };
    const weft_status status = body(ex, &run, statement);
    *next = query_next_try(&run, status);
    note_try(tries, *next);
    query_free(&run);
    result_add_notices(ex->result, &run);
    arena_free(own);
    claim_leave(run.claim);
    return status;
}

weft_status run_tries(Execution *ex, const Statement *statement, QueryBody body)
{
    Tries   tries = { 0 };
    NextTry next;
    for (;;) {
        const weft_status status = try_once(ex, statement, body, &tries, &next);
        if (next == TRY_NO_MORE) return status;
        db_trim(ex->session->db, true);           // neither memory nor what a device has lost is in its way
        begin_again(ex, next == TRY_ON_CPU);
    }
}

static weft_status select_body(Execution *ex, QueryRun *run, const Statement *statement)
{
    (void)statement;
    TRY(query_run(run));
    ex->result->budget = query_budget(run);
    return result_from_query(run, ex->result);
}

weft_status run_plan(Execution *ex, const Statement *statement)
{
    return run_tries(ex, statement, select_body);
}
