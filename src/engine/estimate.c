// estimate.c - what a query will need of memory, before it has seen a row: for admission.h.
//
// One part for each pipeline, and one for what comes after the last: ordering, and the result.  A pipeline's part is
// what it takes at the most
// while it is made: rows collected by threads, in arrays that double, and what is made of them.  Row counts are the
// plan's, which rest on
// statistics; where these know nothing, on guesses.  An estimate need not be right: too low, and the limit itself still
// holds; too high, and
// others wait until the pipeline is done and the facts are known.

#include "engine/engine.h"
#include "plan/window.h"

#include <math.h>

#define PLAN_BYTES   65536.0           // text, plan, small things
#define GROWING      3.0               // an array that doubles, while the old one is still there
#define SLOT_BYTES   16.0              // of a hash table
#define SORT_BYTES   40.0              // per row: two arrays of items, one of rows
#define ARRAY_GROUPS 16777216.0        // bytes up to which groups are an array (weave/sink.c)
#define MANY_GROUPS  ((i64)1 << 30)    // bytes of all threads, where groups are many and an array is better yet
#define DIRECT_SPAN  1048576.0         // as table.c chooses
#define DIRECT_SHARE 32.0
#define RENUMBERED   4194304.0

static i64 bytes_of(double bytes) { return bytes < 4e18 ? (i64)bytes : (i64)4e18; }

static double power_of_two(double least) { return exp2(ceil(log2(fmax(least, 1)))); }

// Values that an expression can take; more than there are rows says nothing.
static double span_of(QueryRun *run, const Expr *expr, double unknown)
{
    const Range range = plan_range(run->plan, expr);
    if (!range.known || type_is_float(expr->type)) return unknown;
    return range.low > range.high ? 1 : (double)range.high - (double)range.low + 1 + range.nullable;
}

static double width_of(double span) { return span <= 256 ? 1 : span <= 65536 ? 2 : span <= 4294967296.0 ? 4 : 8; }

static double n_workers(const QueryRun *run, const Pipeline *pipeline)
{
    return fmin(network_threads(run->session->db->network), floor(pipeline->rows_in / TILE) + 1);
}

// Rows with N_COLUMNS values of 8 bytes and a NULL flag each, collected by the threads.
static double bytes_of_rows(const QueryRun *run, const Pipeline *pipeline, double n_rows, int n_columns)
{
    return (n_rows * GROWING + n_workers(run, pipeline) * 2 * TILE) * 9 * n_columns;
}

// Where a pipeline is several kernels, each stores its rows; the columns between them are at most about those of the
// sink and the keys.
static double bytes_unwoven(const QueryRun *run, const Pipeline *pipeline, int n_columns)
{
    if (!segments_may_be_many(run) || pipeline->n_filters + pipeline->n_probes == 0) return 0;
    return pipeline->rows_in * (GROWING + 1) * 9 * (n_columns + pipeline->n_probes);
}

static double key_span(QueryRun *run, const Pipeline *pipeline)
{
    double span = 1;
    for (int k = 0; k < pipeline->n_keys; k++) span *= span_of(run, pipeline->keys[k].value, 1e30);
    return span;
}

static double payload_bytes(QueryRun *run, int number, double *renumbering)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    double          bytes = 0;
    for (int p = 0; p < pipeline->n_payload; p++) {
        const double span = span_of(run, pipeline->payload[p].value, 1e30);
        bytes += width_of(span);
        if (span <= RENUMBERED && query_only_grouped_by(run, number, pipeline->payload[p].column))
            *renumbering += span * 4;
    }
    return bytes;
}

static double estimate_table(QueryRun *run, int number)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    const int       n_columns = pipeline->n_keys + pipeline->n_payload;
    const double    n = pipeline->rows_out, span = key_span(run, pipeline);
    double          renumbering = 0;
    const double    payload = payload_bytes(run, number, &renumbering);
    const double    by_row = n * (8 + payload), by_key = span * fmax(payload, 4) + span / 8 + 4 * n;
    const bool      is_direct = span <= DIRECT_SPAN || span <= DIRECT_SHARE * n;
    const double    hash = power_of_two(2 * n) * SLOT_BYTES + (pipeline->n_keys > 1 ? n * 8 * pipeline->n_keys : 0);
    return bytes_of_rows(run, pipeline, n, n_columns) + bytes_unwoven(run, pipeline, n_columns) + by_row +
           (is_direct ? by_key : hash) + renumbering;
}

// Not on a GPU, where arrays of more than ARRAY_GROUPS were not measured; not with temporary files, which take hash
// tables only.
u64 query_array_bytes(const QueryRun *run)
{
    const weft_db  *db = run->session->db;
    const Settings *settings = &run->session->settings;
    const bool      is_gpu = settings->device == DEVICE_CUDA ||
                             (settings->device == DEVICE_AUTO && gpus_is_wanted(db->gpus));
    const i64       limit = atomic_load(&db->budget.limit), n_threads = network_threads(db->network);
    if (run->spills || (is_gpu && !run->must_use_cpu)) return 0;
    return (u64)MIN_OF((limit ? MIN_OF(limit / 4, MANY_GROUPS) : MANY_GROUPS) / n_threads, MANY_GROUPS / 4);
}

typedef struct GroupGuess { double n_groups, bytes; } GroupGuess;

// A table of groups, while it is made twice as large as it was.
static double hash_groups(double n_groups, double bytes_per_group)
{
    const double room = power_of_two(fmax(n_groups, 1024));
    return 1.5 * (room * bytes_per_group + fmax(2 * room, 4096) * SLOT_BYTES);
}

static GroupGuess estimate_groups(QueryRun *run, const Pipeline *pipeline)
{
    const double state = 8 + 16.0 * pipeline->n_aggs, workers = n_workers(run, pipeline);
    double       domain = 1;
    for (int k = 0; k < pipeline->n_keys; k++) domain *= span_of(run, pipeline->keys[k].value, 1e30);
    const double n_groups = fmax(1, fmin(domain, pipeline->rows_out));
    const double unwoven = bytes_unwoven(run, pipeline, pipeline->n_keys + pipeline->n_aggs);
    const bool   are_many = domain <= fmin(pipeline->rows_out, GROUP_PLACES_MOST * pipeline->n_groups) &&
                            domain * state <= (double)query_array_bytes(run);
    if (are_many || domain * state <= ARRAY_GROUPS)
        return (GroupGuess){ n_groups, unwoven + domain * state * workers };
    const double words = pipeline->n_keys > 1 ? 8.0 * (pipeline->n_keys + 1) : 0,
                 own = fmin(n_groups, pipeline->rows_out / workers);
    const double all = hash_groups(n_groups, state + 8 + words), of_one = hash_groups(own, state + 8 + words);
    return (GroupGuess){ n_groups, unwoven + all + (workers - 1) * of_one };  // one of them gets what the others have
}

static double output_bytes(const Finish *finish, int n_outputs)
{
    double bytes = 0;
    for (int o = 0; o < n_outputs; o++) {
        const ViewKind kind = view_kind(finish->outputs[o].value->type);
        bytes += kind == VIEW_INT || kind == VIEW_FLOAT ? 9 : 17;
    }
    return bytes;
}

// Of each order the sort and its groups; of each function its values, and prefix sums or a tree.
static double window_bytes(const Finish *finish, double n_rows)
{
    if (!finish->windows) return 0;
    return n_rows * (finish->windows->windows->n_orders * (SORT_BYTES + 24) + finish->windows->n_funcs * 40.0);
}

// What is done with N_ROWS rows or groups: outputs of groups in arrays that double, the order, the copy for the user or
// the next pipeline.
static double estimate_finish(const Pipeline *pipeline, double n_rows)
{
    const Finish *finish = &pipeline->finish;
    const double  n_result = finish->limit >= 0 ? fmin((double)finish->limit, n_rows) : n_rows;
    const double  cells = pipeline->sink == SINK_ROWS ? 0 : n_rows * GROWING * output_bytes(finish, finish->n_outputs);
    return cells + window_bytes(finish, n_rows) + (finish->n_sort ? n_rows * SORT_BYTES : 0) +
           n_result * output_bytes(finish, finish->n_outputs);
}

static double rows_of(const Pipeline *pipeline)
{
    const i64 enough = query_rows_enough(pipeline);
    return enough >= 0 ? fmin(pipeline->rows_out, (double)enough) : pipeline->rows_out;
}

// The kernel of a pipeline that ends in rows or groups, and *FINISH: what comes after it.
static double estimate_answer(QueryRun *run, const Pipeline *pipeline, double *finish)
{
    if (pipeline->sink == SINK_GROUPS) {
        const GroupGuess groups = estimate_groups(run, pipeline);
        *finish = estimate_finish(pipeline, groups.n_groups);
        return groups.bytes;
    }
    const double n_rows = rows_of(pipeline);
    *finish = estimate_finish(pipeline, n_rows);
    if (pipeline->sink == SINK_VALUES) return 0;
    return bytes_of_rows(run, pipeline, n_rows, pipeline->n_outputs) +
           bytes_unwoven(run, pipeline, pipeline->n_outputs);
}

void query_estimate(QueryRun *run, Part *parts)
{
    const int last = run->graph->n_pipelines - 1;
    for (int p = 0; p <= last; p++) {
        const Pipeline *pipeline = &run->graph->pipelines[p];
        double          finish = 0;
        const double bytes =
            pipeline->sink == SINK_TABLE ? estimate_table(run, p) : estimate_answer(run, pipeline, &finish);
        parts[p].bytes = bytes_of(p == last ? bytes : bytes + finish);
        if (p == last) parts[last + 1].bytes = bytes_of(PLAN_BYTES + finish);
    }
}
