// spill_join.c - a join whose table does not fit into memory: partition by partition.
//
//     built rows, in files    [ keys < a | a <= keys < b | b <= keys ]      ordered by ranges of one key
//     pass 1                  table of the first range;  the probing rows with keys < a, or NULL  -> rows
//     pass 2                  table of the second range; those with a <= keys < b                 -> rows
//     ...                                                              all rows -> the rest of the pipeline
//
// The probing side is read once for each partition, with a filter on its key: where it is a table in the order of the
// key, statistics leave most chunks out, and else a pass costs the reading of one column for rows that are not its own.
// A probing row belongs to exactly one pass, so every kind of join is right, those that keep rows without a match, too.
// Ranges instead of a hash: the filter is one that kernels have already, zones can use it, and a table by key shrinks
// with its range.  Bounds come from a sample of the built keys.
//
// Rows come out by partition, and within one in the order of the source: what no ORDER BY decides may be another order
// than that of a query that does not spill.
//
// Not done: a table without a key that is an integer, a date or a time is not partitioned, nor one in which most rows
// have a key in common with others (the rows of the join are stored, and would be very many), nor one key whose rows
// alone do not fit.  Such a table is in files and probed at random.
// Refused: writing the probing side to partitions, too; it moves all its columns, where a filter reads one.

#include "engine/spill.h"
#include "engine/wide.h"

#include <stdlib.h>

#define PARTS_MOST   64
#define SAMPLE       4096u
#define ROW_BYTES    48.0              // of a row in a hash table: slots, link, and what it takes while it is made
#define DIRECT_SHARE 32.0              // as table.c: keys by row up to which a table is by key

struct JoinParts {
    Arena  *home;                      // with all below; freed by spill_join_end
    int     pipeline;                  // that builds
    int     key;                       // by which it is cut
    Launch  launch;                    // its rows, by partition
    int     n_parts;
    i64     bounds[PARTS_MOST];        // part p has keys from bounds[p - 1] on, below bounds[p]
    u64     starts[PARTS_MOST + 1];
};

// ---- whether --------------------------------------------------------------------------------------------------------

static bool is_number(Type type)
{
    switch (type.kind) {
        case TYPE_SMALLINT: case TYPE_INTEGER: case TYPE_BIGINT: case TYPE_DATE:
        case TYPE_TIMESTAMP: case TYPE_TIMESTAMPTZ: case TYPE_TIME: return true;
        default: return false;
    }
}

static bool is_integer(Type type)
{
    return type.kind == TYPE_SMALLINT || type.kind == TYPE_INTEGER || type.kind == TYPE_BIGINT;
}

static bool is_word(const Expr *expr) { return expr_is_low_word(expr) || expr_is_high_word(expr); }

static bool has_words(const Pipeline *pipeline)
{
    for (int k = 0; k < pipeline->n_keys; k++)
        if (is_word(pipeline->keys[k].value)) return true;
    for (int p = 0; p < pipeline->n_payload; p++)
        if (is_word(pipeline->payload[p].value)) return true;
    return false;
}

// The first key that is a number on both sides, or -1.
static int key_to_cut_by(const QueryRun *run, int number)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    const Probe    *probe = query_probe_of(run->graph, number);
    if (!probe || has_words(pipeline)) return -1;
    for (int k = 0; k < pipeline->n_keys; k++) {
        const Type built = pipeline->keys[k].value->type, probing = probe->keys[k]->type;
        if (!is_number(built) || !is_number(probing)) continue;
        if (built.kind == probing.kind || (is_integer(built) && is_integer(probing))) return k;
    }
    return -1;
}

static const i64 *keys_of(const Launch *launch, int key)
{
    return launch->out.rows.columns[launch->woven->outputs[key].value];
}

static double key_span(const Launch *launch)
{
    const i64 *keys = keys_of(launch, 0);
    i64        low = INT64_MAX, high = INT64_MIN;
    for (u64 r = 0; r < launch->out.rows.n_rows; r++) low = MIN_OF(low, keys[r]), high = MAX_OF(high, keys[r]);
    return (double)high - (double)low + 1;
}

static double table_bytes(const Pipeline *pipeline, const Launch *launch)
{
    const double n = (double)launch->out.rows.n_rows, span = pipeline->n_keys == 1 ? key_span(launch) : 1e30;
    const double payload = 8.0 * pipeline->n_payload, by_key = span * MAX_OF(payload, 4) + 4 * n;
    const double hashed = n * (ROW_BYTES + payload + (pipeline->n_keys > 1 ? 8.0 * pipeline->n_keys : 0));
    return span <= DIRECT_SHARE * n ? MIN_OF(by_key, hashed) : hashed;
}

static int parts_wanted(const QueryRun *run, int number, const Launch *launch)
{
    const double share = (double)atomic_load(&query_budget(run)->limit) / 2;
    if (share == 0) return 1;          // there is no limit any more
    const double n = table_bytes(&run->graph->pipelines[number], launch) / MAX_OF(share, 1) + 1;
    return (int)MIN_OF(n, PARTS_MOST);
}

static int by_number(const void *a, const void *b)
{
    const i64 x = *(const i64 *)a, y = *(const i64 *)b;
    return (x > y) - (x < y);
}

static void take_sample(const i64 *keys, u64 n_rows, i64 *sample)
{
    const u64 step = n_rows / SAMPLE;
    for (u64 i = 0; i < SAMPLE; i++) sample[i] = keys[step * i + i % step];
    qsort(sample, SAMPLE, sizeof *sample, by_number);
}

// The rows of the join are stored: where each row may meet very many it is better to have none between.
static bool meets_many(const Launch *launch, int key)
{
    i64 sample[SAMPLE];
    u64 n_distinct = 1;
    take_sample(keys_of(launch, key), launch->out.rows.n_rows, sample);
    for (u64 i = 1; i < SAMPLE; i++) n_distinct += sample[i] != sample[i - 1];
    return n_distinct < SAMPLE / 2;
}

bool spill_join_suits(const QueryRun *run, int number, const Launch *launch)
{
    if (!run->spills || run->graph->n_repeats || run->only_weave || launch->out.rows.n_rows < SAMPLE) return false;
    const int key = key_to_cut_by(run, number);
    return key >= 0 && parts_wanted(run, number, launch) > 1 && !meets_many(launch, key);
}

// ---- the built rows, cut --------------------------------------------------------------------------------------------

// Bounds that differ: a key that comes very often is not divided.
static void choose_bounds(JoinParts *parts, const i64 *keys, u64 n_rows, int n_wanted)
{
    i64 sample[SAMPLE];
    take_sample(keys, n_rows, sample);
    parts->n_parts = 1;
    for (int p = 1; p < n_wanted; p++) {
        const i64 bound = sample[SAMPLE * (u64)p / (u64)n_wanted];
        if (bound > sample[0] && (parts->n_parts == 1 || bound > parts->bounds[parts->n_parts - 2]))
            parts->bounds[parts->n_parts++ - 1] = bound;
    }
}

static int part_of(const JoinParts *parts, i64 key)
{
    int low = 0, high = parts->n_parts - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (key < parts->bounds[middle]) high = middle;
        else low = middle + 1;
    }
    return low;
}

static weft_status number_rows(QueryRun *run, JoinParts *parts, const Launch *launch, u8 *numbers)
{
    const i64 *keys = keys_of(launch, parts->key);
    for (u64 r = 0; r < launch->out.rows.n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        numbers[r] = (u8)part_of(parts, keys[r]);
        parts->starts[numbers[r] + 1]++;
    }
    for (int p = 0; p < parts->n_parts; p++) parts->starts[p + 1] += parts->starts[p];
    return WEFT_OK;
}

static weft_status cut_column(QueryRun *run, const JoinParts *parts, const u8 *numbers, u64 size, const void *from,
                              void *to)
{
    u64 next[PARTS_MOST];
    memcpy(next, parts->starts, sizeof next);
    for (u64 r = 0; r < parts->launch.out.rows.n_rows; r++) {
        const u64 at = next[numbers[r]]++;
        if (query_should_stop(run, r)) return query_canceled(run);
        if (size == 8) ((u64 *)to)[at] = ((const u64 *)from)[r];
        else memcpy((u8 *)to + at * size, (const u8 *)from + r * size, size);
    }
    return WEFT_OK;
}

static weft_status cut_rows(QueryRun *run, JoinParts *parts, const Launch *launch, int n_wanted)
{
    const u64 n_rows = launch->out.rows.n_rows;
    const int n_columns = launch->woven->n_state;
    void     *numbers;
    parts->launch = *launch;
    parts->launch.memory = NULL;
    parts->launch.out.rows.columns = arena_array(parts->home, void *, n_columns + 1);
    choose_bounds(parts, keys_of(launch, parts->key), n_rows, n_wanted);
    TRY(counted_alloc(parts->home, query_budget(run), n_rows + 1, &numbers, run->err));
    TRY(number_rows(run, parts, launch, numbers));
    for (int s = 0; s < n_columns; s++) {
        const u64 size = launch->woven->state[s].bytes;
        void    **to = &parts->launch.out.rows.columns[s];
        TRY(spill_alloc(run, parts->home, n_rows * size + 8, to));
        TRY(cut_column(run, parts, numbers, size, launch->out.rows.columns[s], *to));
    }
    return WEFT_OK;
}

weft_status spill_join_cut(QueryRun *run, int number, const Launch *launch, JoinTable **table)
{
    Arena     *home = arena_new(run->own, "join parts");
    JoinParts *parts = arena_make(home, JoinParts);
    parts->home = home, parts->pipeline = number, parts->key = key_to_cut_by(run, number);
    TRY(cut_rows(run, parts, launch, parts_wanted(run, number, launch)));
    run->join_parts[number] = parts;
    run->reports[number].n_parts = parts->n_parts;
    run->spilled.n_joins++, run->spilled.n_join_parts += (u64)parts->n_parts;
    *table = expected_table(run, number);
    (*table)->n_rows = launch->out.rows.n_rows;
    return WEFT_OK;
}

JoinParts *spill_join_parts(const QueryRun *run, const JoinTable *table)
{
    for (int p = 0; table && p < run->graph->n_pipelines; p++)
        if (run->join_parts[p] && run->tables[p] == table) return run->join_parts[p];
    return NULL;
}

int spill_join_count(const JoinParts *parts) { return parts->n_parts; }
int spill_join_key(const JoinParts *parts) { return parts->key; }

void spill_join_end(QueryRun *run, JoinParts *parts)
{
    run->join_parts[parts->pipeline] = NULL;
    arena_free(parts->home);
}

// ---- one part -------------------------------------------------------------------------------------------------------

weft_status spill_join_table(QueryRun *run, const JoinParts *parts, int part, Arena *home, JoinTable **table)
{
    Launch       launch = parts->launch;
    const Woven *woven = launch.woven;
    const u64    first = parts->starts[part];
    double       ignored = 0;
    launch.out.rows.n_rows = parts->starts[part + 1] - first;
    launch.out.rows.columns = arena_array(home, void *, woven->n_state + 1);
    for (int s = 0; s < woven->n_state; s++)
        launch.out.rows.columns[s] = (u8 *)parts->launch.out.rows.columns[s] + first * woven->state[s].bytes;
    return table_build(run, home, parts->pipeline, &launch, table, &ignored);
}

static weft_status test_key(QueryRun *run, Op op, Expr *key, i64 bound, Expr **out)
{
    const Type type = is_integer(key->type) ? TYPE(BIGINT) : key->type;
    Expr      *args[] = { key, expr_const(run->arena, (Value){ .type = type, .i = bound }, -1) };
    return expr_call(run->arena, op, args, 2, -1, out, run->err);
}

weft_status spill_join_filter(QueryRun *run, const JoinParts *parts, int part, Expr *key, Expr **filter)
{
    Expr *low = NULL, *high = NULL;
    if (part > 0) TRY(test_key(run, OP_GE, key, parts->bounds[part - 1], &low));
    if (part < parts->n_parts - 1) TRY(test_key(run, OP_LT, key, parts->bounds[part], &high));
    if (part == 0 && high && plan_range(run->plan, key).nullable) {            // NULL is in no range, and in this part
        Expr *is_null, *args[] = { high, NULL };
        TRY(expr_call(run->arena, OP_IS_NULL, &key, 1, -1, &is_null, run->err));
        args[1] = is_null;
        TRY(expr_call(run->arena, OP_OR, args, 2, -1, &high, run->err));
    }
    *filter = low ? low : high;
    if (low && high) return expr_call(run->arena, OP_AND, (Expr *[]){ low, high }, 2, -1, filter, run->err);
    return WEFT_OK;
}
