// fits.c - joins whose rows cannot fit anywhere, refused before they are made.
//
// A join of two tables on a key with few values can give far more rows than there are in both.  Where these are kept
// (a result, a table, what is sorted), the query would fill all memory and then half of the disk, only to fail.  So
// such rows are counted first, which takes no memory, and the query fails if there are more than memory_limit and
// temp_limit hold together.  The count is a proof: no query fails for an estimate.
//
// The counting kernel has the pipeline's steps, and multiplies numbers of matches (matches.c) where it can.  Where
// later steps look at the built rows (a residual, a further key) chains are followed; the count stops when it is
// decided.
//
// Estimates only say when the count pays: a query that is expected to need more than there is, or that has met the
// limit already and is to go through temporary files.  No count is made where the tables that are probed prove that
// the rows fit, which is so for all joins with a unique key.

#include "engine/engine.h"

// What all that is kept can take, if this query is alone.  INT64_MAX: there is no limit.
static i64 bytes_most(const QueryRun *run)
{
    weft_db  *db = run->session->db;
    const i64 memory = atomic_load(&db->budget.limit), temp = temp_most(db->temp);
    if (memory == 0) return INT64_MAX;
    return temp > INT64_MAX - memory ? INT64_MAX : memory + temp;
}

static double bytes_of_row(const Woven *woven)
{
    double bytes = 0;
    for (int s = 0; s < woven->n_state; s++) bytes += (double)woven->state[s].bytes;
    return bytes;
}

bool fits_is_doubtful(const QueryRun *run, int pipeline, const Launch *launch, i64 *rows_most)
{
    const Woven *woven = launch->woven;
    const double row = bytes_of_row(woven), expected = run->graph->pipelines[pipeline].rows_out;
    if (launch->sink == SINK_GROUPS || woven->fan_out <= 1 || row == 0 || !run->claim) return false;
    const double room = (double)bytes_most(run), most = (double)launch->source->n_rows * woven->fan_out;
    const double wanted = launch->limit >= 0 ? MIN_OF(most, (double)launch->limit) : most;
    *rows_most = (i64)(room / row);
    return wanted * row > room && (run->spills || expected * row > room);
}

// ---- the counting kernel --------------------------------------------------------------------------------------------

// The steps of JOB, and as further ones the outputs that may raise an error: the query fails with that, as it would if
// its rows were made.
static WeaveStep *steps_to_count(QueryRun *run, const WeaveJob *job, int *n_steps)
{
    WeaveStep *steps = arena_array(run->arena, WeaveStep, job->n_steps + job->n_outputs + 1);
    *n_steps = job->n_steps;
    if (job->n_steps) memcpy(steps, job->steps, (size_t)job->n_steps * sizeof *steps);
    for (int o = 0; o < job->n_outputs; o++)
        if (expr_can_fail(job->outputs[o])) {
            const int id = run->plan->n_columns + *n_steps;
            steps[(*n_steps)++] = (WeaveStep){ .value = job->outputs[o], .let = id };
        }
    return steps;
}

weft_status fits_count_job(QueryRun *run, const WeaveJob *job, WeaveJob *count)
{
    *count = *job;
    count->steps = steps_to_count(run, job, &count->n_steps);
    count->sink = SINK_ROWS, count->notes = NULL, count->n_outputs = 0;    // rows are not looked at in the end
    Expr **factors;
    int    n_factors;
    TRY(matches_multiply(run, count, true, &count->steps, &factors, &n_factors));
    count->outputs = factors, count->n_outputs = n_factors;
    return WEFT_OK;
}

weft_status fits_not(QueryRun *run, const Launch *rows, const Launch *counted)
{
    weft_db   *db = run->session->db;
    const bool has_temp = temp_limit(db->temp) != 0;
    fail(run->err, WEFT_OUT_OF_MEMORY, -1, "a join gives %s%llu rows of %.0f bytes: %s %s room for %s",
         counted->limit >= 0 ? "more than " : "", (unsigned long long)counted->out.rows_out,
         bytes_of_row(rows->woven), has_temp ? "memory_limit and temp_limit" : "memory_limit",
         has_temp ? "have" : "has", mem_size_text((u64)bytes_most(run)).text);
    error_hint(run->err, "Add a condition or a LIMIT, or raise %s.",
               has_temp ? "memory_limit or temp_limit" : "memory_limit, or set temp_limit");
    return WEFT_OUT_OF_MEMORY;
}
