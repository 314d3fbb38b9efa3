// matches.c - matches that are multiplied, not visited.
//
// A row that meets a thousand built rows goes through the rest of the kernel a thousand times.  Where it is only
// counted there, and built rows differ in nothing that anybody looks at, once is enough, with the number of such rows:
//
//     scan a -> chain of b -> chain of c -> count        scan a -> n of b -> n of c -> add n * n
//
// The table is looked at as one in which those rows are one: of each chain the first row of every combination of the
// payload's codes that are needed, and how many it stands for as a further payload.  No payload is needed: each key has
// one row.  Slots, keys and payloads are those of the table, which others may use; only the chains are new.
//
// It is done where the codes prove that rows are at least halved, and where the matches to visit would be more than the
// rows of the table, which are all looked at.  A query that merely gets quicker by it visits its matches where there is
// no room for the new chains, not even for it alone.

#include "engine/engine.h"

#define VISITS_LEAST 4                 // matches saved, per row of the table

// ---- where it is right, and pays ------------------------------------------------------------------------------------

typedef struct Needed {
    int             n_payloads;
    const Payload **payloads;
    u64             n_codes;           // combinations of their codes
} Needed;

static bool is_needed(const ColumnSet *columns, const Payload *payload)
{
    return columns_has(columns, payload->id < 0 ? weave_low_id(payload->id) : payload->id);
}

// IS_LONG: it is enough that the longest chain is halved.
static bool find_needed(QueryRun *run, const JoinTable *table, const ColumnSet *columns, bool is_long, Needed *needed)
{
    *needed = (Needed){ .payloads = arena_array(run->arena, const Payload *, table->n_payloads + 1), .n_codes = 1 };
    for (int p = 0; p < table->n_payloads; p++) {
        const Payload *payload = &table->payloads[p];
        if (!is_needed(columns, payload)) continue;
        if (!payload->n_codes || payload->valid || payload->n_codes > table->n_rows) return false;
        if (__builtin_mul_overflow(needed->n_codes, payload->n_codes, &needed->n_codes)) return false;
        needed->payloads[needed->n_payloads++] = payload;
    }
    return needed->n_codes <= (is_long ? table->max_chain : table->n_rows / MAX_OF(table->n_distinct, 1)) / 2;
}

static bool has_chains(const WeaveStep *step)
{
    const JoinTable *table = step->table;
    return table && (step->probe == PROBE_INNER || step->probe == PROBE_LEFT) && !table->is_unique && table->next &&
           !table->remote && !table->late && (table->shape == SHAPE_HEADS || table->shape == SHAPE_HASH);
}

static bool pays(const WeaveJob *job, const JoinTable *table)
{
    return job->source->n_rows / VISITS_LEAST >= table->n_distinct;
}

// ---- the table ------------------------------------------------------------------------------------------------------

static u64 code_at(const Payload *payload, u64 row)
{
    switch (payload->width) {
        case 1: return ((const u8 *)payload->data)[row];
        case 2: return ((const u16 *)payload->data)[row];
        case 4: return ((const u32 *)payload->data)[row];
        default: return ((const u64 *)payload->data)[row];
    }
}

static u64 combination(const Needed *needed, u64 row)
{
    u64 number = 0;
    for (int p = 0; p < needed->n_payloads; p++)
        number = number * needed->payloads[p]->n_codes + code_at(needed->payloads[p], row);
    ASSERT(number < needed->n_codes);
    return number;
}

typedef struct ChainMerge {
    const Needed *needed;
    const u32    *next;                // of the table
    u32          *next_kept, *counts;  // by row; of rows that are not kept the count is 0
    u32          *kept;                // by combination: row + 1 that stands for it, of any chain
    u32          *chain;               // by combination: that chain's first row + 1
} ChainMerge;

// Gives how many rows of the chain are kept.
static u64 merge_chain(ChainMerge *m, u32 head)
{
    u64 n_kept = 0;
    u32 last = 0;
    for (u32 row = head; row; row = m->next[row - 1]) {
        const u64 number = combination(m->needed, row - 1);
        if (m->chain[number] == head) {
            m->counts[m->kept[number] - 1]++;
            continue;
        }
        m->chain[number] = head, m->kept[number] = row, m->counts[row - 1] = 1;
        if (last) m->next_kept[last - 1] = row;
        last = row;
        n_kept++;
    }
    return n_kept;
}

static u64 later_bytes(const JoinTable *table) { return (table->n_rows / 64 + 1) * sizeof(u64); }

// A chain goes from its first row, of which no row is before, to later ones.
static weft_status merge_chains(QueryRun *run, const JoinTable *table, ChainMerge *m, u64 *longest)
{
    u64 *is_later;
    void *memory;
    TRY(query_alloc(run, later_bytes(table), &memory));
    is_later = memory;
    *longest = 1;
    for (u64 row = 0; row < table->n_rows; row++) {
        const u64 next = table->next[row];
        if (query_should_stop(run, row)) return query_canceled(run);
        ASSERT(next <= table->n_rows);
        if (next) is_later[(next - 1) / 64] |= (u64)1 << ((next - 1) % 64);
    }
    for (u64 row = 0; row < table->n_rows; row++) {
        if (query_should_stop(run, row)) return query_canceled(run);
        if (is_later[row / 64] >> (row % 64) & 1) continue;
        const u64 n_kept = merge_chain(m, (u32)row + 1);
        *longest = MAX_OF(*longest, n_kept);
    }
    return WEFT_OK;
}

static u64 merged_bytes(const JoinTable *table, const Needed *needed)
{
    return (2 * table->n_rows + 2 * needed->n_codes + 1) * sizeof(u32);
}

// There is no room, and none to be had: a query that can be tried again alone is, as visiting may take very long.
static bool must_visit(QueryRun *run, const JoinTable *table, const Needed *needed)
{
    return !mem_fits(query_budget(run), (i64)(merged_bytes(table, needed) + later_bytes(table))) &&
           !query_may_be_alone(run);
}

static weft_status arrays_of(QueryRun *run, const JoinTable *table, ChainMerge *m)
{
    void *memory;
    TRY(query_alloc(run, merged_bytes(table, m->needed), &memory));
    m->next_kept = memory, m->counts = m->next_kept + table->n_rows;
    m->kept = m->counts + table->n_rows, m->chain = m->kept + m->needed->n_codes;
    return WEFT_OK;
}

// ID: of the column that says how many rows each stands for.
static weft_status merged_table(QueryRun *run, const JoinTable *table, const Needed *needed, int id,
                                const JoinTable **out)
{
    JoinTable *merged = arena_make(run->arena, JoinTable);
    Payload   *payloads = arena_array(run->arena, Payload, needed->n_payloads + 1);
    ChainMerge    m = { .needed = needed, .next = table->next };
    u64        longest;
    TRY(arrays_of(run, table, &m));
    TRY(merge_chains(run, table, &m, &longest));
    for (int p = 0; p < needed->n_payloads; p++) payloads[p] = *needed->payloads[p];
    payloads[needed->n_payloads] = (Payload){ .id = id,
                                              .name = "matches",
                                              .type = TYPE(BIGINT),
                                              .range = { .known = true, .low = 0, .high = (i64)table->max_chain },
                                              .width = 4,
                                              .n_codes = table->max_chain + 1,
                                              .data = m.counts,
                                              .bytes = table->n_rows * sizeof *m.counts };
    *merged = *table;
    merged->is_unique = longest == 1, merged->max_chain = longest, merged->next = m.next_kept;
    merged->n_payloads = needed->n_payloads + 1, merged->payloads = payloads;
    *out = merged;
    return WEFT_OK;
}

// A row without a match stays in a left join.
static weft_status factor_of(QueryRun *run, const WeaveStep *step, int id, Expr **out)
{
    *out = expr_column(run->arena, id, TYPE(BIGINT), -1);
    if (step->probe == PROBE_INNER) return WEFT_OK;
    Expr *args[] = { *out, expr_const(run->arena, (Value){ .type = TYPE(BIGINT), .i = 1 }, -1) };
    return expr_call(run->arena, OP_COALESCE, args, 2, -1, out, run->err);
}

weft_status matches_multiply(QueryRun *run, const WeaveJob *job, bool always, const WeaveStep **out, Expr ***factors,
                             int *n_factors)
{
    WeaveStep *steps = arena_array(run->arena, WeaveStep, job->n_steps + 1);
    *factors = arena_array(run->arena, Expr *, job->n_steps + 1);
    *n_factors = 0;
    for (int s = 0; s < job->n_steps; s++) {
        ColumnSet columns = weave_columns_needed(run->arena, job, s + 1);
        Needed    needed;
        steps[s] = job->steps[s];
        if (!has_chains(&steps[s]) || (!always && !pays(job, steps[s].table))) continue;
        if (steps[s].residual) columns_add_expr(run->arena, &columns, steps[s].residual);
        if (!find_needed(run, steps[s].table, &columns, always, &needed)) continue;
        if (!always && must_visit(run, steps[s].table, &needed)) continue;
        const int id = run->plan->n_columns + job->n_steps + s;
        TRY(merged_table(run, steps[s].table, &needed, id, &steps[s].table));
        TRY(factor_of(run, &steps[s], id, &(*factors)[(*n_factors)++]));
    }
    *out = steps;
    return WEFT_OK;
}

// ---- queries that count ---------------------------------------------------------------------------------------------

static bool only_counts(const WeaveJob *job)
{
    for (int a = 0; a < job->n_aggs; a++)
        switch (job->aggs[a].kind) {
            case AGG_COUNT_ALL: case AGG_COUNT: case AGG_MIN: case AGG_MAX: break;
            default: return false;
        }
    return job->sink == SINK_GROUPS;
}

weft_status matches_count_job(QueryRun *run, const WeaveJob *job, const Woven *woven, WeaveJob *out)
{
    Expr **factors;
    int    n_factors;
    *out = *job;
    // Fewer than 2^62 rows: neither their number nor a product overflows.
    if (woven->fan_out <= 1 || !only_counts(job) || woven->fan_out * (double)job->source->n_rows > 4e18) return WEFT_OK;
    TRY(matches_multiply(run, job, false, &out->steps, &factors, &n_factors));
    for (int f = 0; f < n_factors; f++) {
        Expr *args[] = { out->weight, factors[f] };
        if (!out->weight) out->weight = factors[f];
        else TRY(expr_call(run->arena, OP_MUL, args, 2, -1, &out->weight, run->err));
    }
    return WEFT_OK;
}
