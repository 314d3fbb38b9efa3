// budget.c - what a kernel takes of a multiprocessor, and where a pipeline is split that would take too much.
//
// Kernel Weaver (Wu et al., MICRO 2012) fuses operators while the estimated registers and shared memory stay within a
// budget (section 4.2, algorithm 2; section 4.3.3 for the estimate).  A part here is a step of the job, or its sink,
// which comes last.  The registers of a thread that takes one row at a time are
//
//     BASE + held + kept + the most that any part needs for its row
//
//     held    what the kernel is handed and reads all the time: addresses (2 each) of columns, tables, payloads and
//             accumulators, constants (1; of 64 bits 2).  Beyond HELD_MOST a compiler reads them again when they are
//             needed, so no more are counted.
//     kept    what only this thread has: totals (2 for each word), and the place in a chain of matches.
//     row     values that are live: a column is, from the first part that touches it (late loads) to the last one that
//             needs it.  A value of up to 32 bits takes 1, one of 64 bits 2, and one that can be NULL 1 more.  To this
//             come values on the way in the deepest expression of the part, and of a probe its key and slot.
//
// A device takes more rows per thread where registers are left (device/gpu_kernel.c), so one row is the least that
// works.  On a CPU the values of a row are arrays of a tile; they grow in the same way.  The shared memory of a block
// is that of the tables and groups that a GPU would like to have there.
//
// What stores the rows at a cut is not counted: it begins when no step runs any more, and columns that no step has
// touched pass one by one.  So the estimate never falls when a part is added, and the search can be greedy:
//
//     scan ─> filter ─> join a ─> join b ─> join c ─> sum         join c passes the budget:
//                   ^1        ^2        ^3                        cut at 1, 2 or 3, where the fewest bytes flow
//
// Departure from the paper: algorithm 2 always cuts at 3.  Of edges over which equally many bytes flow, the last one is
// taken, so where nothing is known of the rows and no column is dropped, the cut is the paper's.  A part that passes
// the budget by itself is a kernel of its own.

#include "weave/weave_int.h"

enum {
    BASE = 8,                          // rows at hand, number and end of the tile, the arguments
    ADDRESS = 2,
    WORD = 2,                          // of 64 bits
    HELD_MOST = 128,
    CHAIN = 3,                         // built row, rows that go round, whether there was a match
    FLOAT_PARTS = 4,                   // words of an exact sum of floats, mostly
    STORED_BYTES = 8,                  // per value between two kernels
};

#define SHARED_TABLE_MOST  ((u64)32 << 10)     // larger ones stay in the GPU's memory (device/gpu_kernel.c)
#define SHARED_GROUPS_MOST ((u64)48 << 10)

// ---- columns: which parts need them, which give them ----------------------------------------------------------------

static void add_sink_columns(Arena *arena, const WeaveJob *job, ColumnSet *columns)
{
    for (int k = 0; k < job->n_keys; k++) columns_add_expr(arena, columns, job->keys[k]);
    for (int a = 0; a < job->n_aggs; a++)
        if (job->aggs[a].arg) columns_add_expr(arena, columns, job->aggs[a].arg);
    if (job->weight) columns_add_expr(arena, columns, job->weight);
    for (int o = 0; o < job->n_outputs; o++) columns_add_expr(arena, columns, job->outputs[o]);
}

static void add_part_columns(Arena *arena, const WeaveJob *job, int part, ColumnSet *columns)
{
    if (part == job->n_steps) add_sink_columns(arena, job, columns);
    else weave_step_columns(arena, &job->steps[part], columns);
}

ColumnSet weave_columns_needed(Arena *arena, const WeaveJob *job, int first_step)
{
    ColumnSet needed = { 0 };
    for (int part = first_step; part <= job->n_steps; part++) add_part_columns(arena, job, part, &needed);
    return needed;
}

static bool gives_payloads(const WeaveStep *step)
{
    return step->table && (step->probe == PROBE_INNER || step->probe == PROBE_LEFT || step->probe == PROBE_SINGLE);
}

static void add_given_columns(Arena *arena, const WeaveStep *step, ColumnSet *columns)
{
    if (step->value) columns_add(arena, columns, step->let);
    if (step->table && step->probe == PROBE_MARK) columns_add(arena, columns, step->mark);
    for (int p = 0; gives_payloads(step) && p < step->table->n_payloads; p++)
        if (step->table->payloads[p].id >= 0) columns_add(arena, columns, step->table->payloads[p].id);
}

static ColumnSet columns_given(Arena *arena, const WeaveJob *job, int end)
{
    ColumnSet given = { 0 };
    for (int c = 0; c < job->source->n_columns; c++)
        if (job->source->columns[c].id >= 0) columns_add(arena, &given, job->source->columns[c].id);
    for (int step = 0; step < end; step++) add_given_columns(arena, &job->steps[step], &given);
    return given;
}

static ColumnSet columns_in_both(Arena *arena, const ColumnSet *a, const ColumnSet *b)
{
    ColumnSet both = { 0 };
    for (int c = columns_next(a, -1); c >= 0; c = columns_next(a, c))
        if (columns_has(b, c)) columns_add(arena, &both, c);
    return both;
}

ColumnSet weave_columns_across(Arena *arena, const WeaveJob *job, int step)
{
    const ColumnSet given = columns_given(arena, job, step), needed = weave_columns_needed(arena, job, step);
    return columns_in_both(arena, &given, &needed);
}

// ---- registers of values --------------------------------------------------------------------------------------------

typedef struct Values { int n; u8 *registers; } Values;      // by column; one that is not known has 0

static u8 registers_of(int width, bool nullable)
{
    return (u8)((width >= 1 && width <= 4 ? 1 : WORD) + nullable);
}

static void set_value(Arena *arena, Values *values, int column, u8 registers)
{
    if (column < 0) {                  // low words of a column that has come already, or comes
        set_value(arena, values, weave_low_id(column), WORD + WORD + 1);
        return;
    }
    if (column < values->n && values->registers[column] > registers) return;
    while (values->n <= column) *LIST_PUSH(arena, values->registers, values->n) = 0;
    values->registers[column] = registers;
}

static Values find_values(Arena *arena, const WeaveJob *job)
{
    Values values = { 0 };
    for (int c = 0; c < job->source->n_columns; c++) {
        const SourceColumn *column = &job->source->columns[c];
        set_value(arena, &values, column->id, registers_of(column->width, column->range.nullable));
    }
    for (int s = 0; s < job->n_steps; s++) {
        const WeaveStep *step = &job->steps[s];
        if (step->value) set_value(arena, &values, step->let, registers_of(8, true));
        if (step->table && step->probe == PROBE_MARK) set_value(arena, &values, step->mark, registers_of(1, false));
        for (int p = 0; step->table && p < step->table->n_payloads; p++) {
            const Payload *payload = &step->table->payloads[p];
            const bool     nullable = payload->range.nullable || step->probe != PROBE_INNER;
            set_value(arena, &values, payload->id, registers_of(payload->width, nullable));
        }
    }
    return values;
}

// ---- registers of expressions ---------------------------------------------------------------------------------------

static bool is_leaf(const Expr *expr) { return expr->n_args == 0; }
static int  larger(int a, int b) { return MAX_OF(a, b); }      // each is looked at once

static int registers_of_type(Type type)
{
    switch (type.kind) {
        case TYPE_BOOLEAN: case TYPE_SMALLINT: case TYPE_INTEGER: case TYPE_DATE: return 1;
        default: return WORD;          // of text: the address of what is known of each code
    }
}

static int constant_registers(const Expr *expr)
{
    int registers = 0;
    if (expr->kind == EXPR_COLUMN) return 0;
    if (expr->kind == EXPR_CONST || expr->kind == EXPR_PARAM) return registers_of_type(expr->type);
    if (expr->kind == EXPR_CALL && expr->op == OP_IN && expr->n_args > FEW_CONSTANTS + 1)
        return constant_registers(expr->args[0]) + ADDRESS;
    for (int i = 0; i < expr->n_args && registers < HELD_MOST; i++) registers += constant_registers(expr->args[i]);
    return registers;
}

// Values on the way, beside those of columns and constants: what was computed last stays while the next argument is.
static int working_registers(const Expr *expr)
{
    int most = is_leaf(expr) ? 0 : WORD, result = 0;
    for (int i = 0; i < expr->n_args; i++) {
        if (is_leaf(expr->args[i])) continue;
        most = larger(most, result + working_registers(expr->args[i]));
        result = WORD;
    }
    return most;
}

// ---- the kernel that grows part by part -----------------------------------------------------------------------------

typedef struct Gauge {
    Arena           *arena;
    const WeaveJob  *job;
    const Values    *values;
    const ColumnSet *needed;           // by part: columns that it or a later one needs
    ColumnSet        stored;           // columns that earlier kernels have stored
    ColumnSet        touched;          // by a part of this kernel
    int              held, kept, row;
    u64              shared_bytes;
} Gauge;

static Gauge gauge_begin(Arena *arena, const WeaveJob *job, const Values *values, const ColumnSet *needed, int first)
{
    Gauge gauge = { .arena = arena, .job = job, .values = values, .needed = needed };
    if (first) gauge.stored = columns_given(arena, job, first);
    return gauge;
}

static bool is_source_column(const WeaveJob *job, int column)
{
    for (int c = 0; c < job->source->n_columns; c++)
        if (job->source->columns[c].id == column) return true;
    return false;
}

static int value_registers(const Gauge *gauge, int column)
{
    const int registers = column < gauge->values->n ? gauge->values->registers[column] : 0;
    return columns_has(&gauge->stored, column) ? MAX_OF(registers, WORD) : registers;      // 8 bytes each
}

// A column that the kernel reads has an address, whoever has stored it.
static void touch(Gauge *gauge, const ColumnSet *columns)
{
    for (int c = columns_next(columns, -1); c >= 0; c = columns_next(columns, c)) {
        if (columns_has(&gauge->touched, c)) continue;
        columns_add(gauge->arena, &gauge->touched, c);
        if (columns_has(&gauge->stored, c) || is_source_column(gauge->job, c)) gauge->held += ADDRESS;
    }
}

static int live_registers(const Gauge *gauge, int part)
{
    int registers = 0;
    for (int c = columns_next(&gauge->touched, -1); c >= 0; c = columns_next(&gauge->touched, c))
        if (columns_has(&gauge->needed[part], c)) registers += value_registers(gauge, c);
    return registers;
}

// Gives the registers of what is on the way.
static int add_expr(Gauge *gauge, const Expr *expr)
{
    gauge->held += constant_registers(expr);
    return working_registers(expr);
}

static int add_exprs(Gauge *gauge, Expr *const *exprs, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++) most = larger(most, add_expr(gauge, exprs[i]));
    return most;
}

static int add_probe(Gauge *gauge, const WeaveStep *step, int part)
{
    const JoinTable *table = step->table;
    const bool       is_hash = table->shape == SHAPE_HASH;
    int              working = add_exprs(gauge, step->keys, table->n_keys);
    if (step->residual) working = larger(working, add_expr(gauge, step->residual));
    gauge->held += ADDRESS + WORD * table->n_keys + (is_hash ? WORD : 0);      // slots, lowest keys, mask
    for (int p = 0; p < table->n_payloads; p++)
        if (columns_has(&gauge->needed[part], table->payloads[p].id)) gauge->held += ADDRESS;
    if (!table->is_unique && gives_payloads(step)) gauge->kept += CHAIN;
    if (table->bytes <= SHARED_TABLE_MOST) gauge->shared_bytes += table->bytes;
    return working + 2 * WORD + (is_hash ? WORD : 0);
}

static int words_of(const Agg *agg)
{
    const bool is_sum = agg->kind == AGG_SUM || agg->kind == AGG_AVG || agg->kind == AGG_SUM_REST;
    if (!agg->arg || agg->kind == AGG_COUNT) return 1;
    if (!is_sum) return 2;                                 // and the number of values
    if (type_is_float(agg->arg->type)) return FLOAT_PARTS + 1;
    return agg->arg->type.kind == TYPE_INTEGER ? 2 : 3;
}

// Of a column that can be grouped by as it is; 0: not known.
static double domain_of(const WeaveJob *job, const Expr *key)
{
    for (int c = 0; key->kind == EXPR_COLUMN && c < job->source->n_columns; c++) {
        const SourceColumn *column = &job->source->columns[c];
        if (column->id == key->column && column->range.known && !type_is_float(column->type))
            return MAX_OF((double)column->range.high - (double)column->range.low + 1, 1) + column->range.nullable;
    }
    for (int s = 0; key->kind == EXPR_COLUMN && s < job->n_steps; s++)
        for (int p = 0; gives_payloads(&job->steps[s]) && p < job->steps[s].table->n_payloads; p++)
            if (job->steps[s].table->payloads[p].id == key->column)
                return (double)job->steps[s].table->payloads[p].n_codes;
    return 0;
}

static u64 shared_groups(const WeaveJob *job, int n_words)
{
    double bytes = (double)n_words * 8;
    for (int k = 0; k < job->n_keys; k++) bytes *= domain_of(job, job->keys[k]);
    return bytes <= (double)SHARED_GROUPS_MOST ? (u64)bytes : 0;
}

static int add_sink(Gauge *gauge)
{
    const WeaveJob *job = gauge->job;
    int             n_words = 0, working = larger(add_exprs(gauge, job->keys, job->n_keys),
                                                  add_exprs(gauge, job->outputs, job->n_outputs));
    for (int a = 0; a < job->n_aggs; a++) {
        if (job->aggs[a].arg) working = larger(working, add_expr(gauge, job->aggs[a].arg));
        n_words += words_of(&job->aggs[a]);
    }
    if (!job->n_keys) {
        gauge->kept += WORD * n_words;
        return working;
    }
    gauge->held += ADDRESS * n_words + WORD * job->n_keys;                     // cells, strides
    gauge->shared_bytes += shared_groups(job, n_words);
    return working + WORD;                                                     // the group
}

static WeaveNeed gauge_add(Gauge *gauge, int part)
{
    const WeaveJob  *job = gauge->job;
    const WeaveStep *step = part < job->n_steps ? &job->steps[part] : NULL;
    ColumnSet        columns = { 0 };
    add_part_columns(gauge->arena, job, part, &columns);
    if (step) add_given_columns(gauge->arena, step, &columns);
    touch(gauge, &columns);
    const int working = !step         ? add_sink(gauge)
                        : step->table ? add_probe(gauge, step, part)
                                      : add_expr(gauge, step->filter ? step->filter : step->value);
    gauge->row = larger(gauge->row, working + live_registers(gauge, part));
    return (WeaveNeed){ .registers = BASE + MIN_OF(gauge->held, HELD_MOST) + gauge->kept + gauge->row,
                        .shared_bytes = gauge->shared_bytes };
}

// ---- the split ------------------------------------------------------------------------------------------------------

static const ColumnSet *needed_by_part(Arena *arena, const WeaveJob *job)
{
    ColumnSet *needed = arena_array(arena, ColumnSet, job->n_steps + 1);
    for (int part = job->n_steps; part >= 0; part--) {
        if (part < job->n_steps) columns_add_all(arena, &needed[part], &needed[part + 1]);
        add_part_columns(arena, job, part, &needed[part]);
    }
    return needed;
}

static bool passes(WeaveNeed need, WeaveNeed budget)
{
    return (budget.registers && need.registers > budget.registers) ||
           (budget.shared_bytes && need.shared_bytes > budget.shared_bytes);
}

WeaveNeed weave_need(Arena *arena, const WeaveJob *job, int first, int end)
{
    const Values values = find_values(arena, job);
    Gauge        gauge = gauge_begin(arena, job, &values, needed_by_part(arena, job), first);
    WeaveNeed    need = { 0 };
    ASSERT(first >= 0 && first < end && end <= job->n_steps + 1);
    for (int part = first; part < end; part++) need = gauge_add(&gauge, part);
    return need;
}

// By edge: what it would cost to cut there.  Edge E is before part E.
static WeaveCut *find_edges(Arena *arena, const WeaveJob *job, const ColumnSet *needed, const double *pass)
{
    WeaveCut *edges = arena_array(arena, WeaveCut, job->n_steps + 1);
    ColumnSet given = columns_given(arena, job, 0);
    double    n_rows = (double)job->source->n_rows;
    for (int e = 1; e <= job->n_steps; e++) {
        add_given_columns(arena, &job->steps[e - 1], &given);
        const ColumnSet across = columns_in_both(arena, &given, &needed[e]);
        if (pass) n_rows *= pass[e - 1];
        edges[e] = (WeaveCut){ .before = e, .n_columns = columns_count(&across), .n_rows = n_rows };
        edges[e].bytes = n_rows * edges[e].n_columns * STORED_BYTES;
    }
    return edges;
}

static int cheapest(const WeaveCut *edges, int first, int last)
{
    int best = last;
    for (int e = last; e >= first; e--)
        if (edges[e].bytes < edges[best].bytes) best = e;
    return best;
}

// From part FIRST on, as far as the budget goes.  Gives the part that passes it, and what is needed with it; n_steps +
// 1: none does.  Edges on the way learn what the kernel that ends there needs.
static int grow(Gauge *gauge, int first, WeaveNeed budget, WeaveCut *edges, WeaveNeed *passed)
{
    WeaveNeed need = gauge_add(gauge, first);
    for (int part = first + 1; part <= gauge->job->n_steps; part++) {
        edges[part].need = need;
        *passed = need = gauge_add(gauge, part);
        if (passes(need, budget)) return part;
    }
    return gauge->job->n_steps + 1;
}

int weave_split(Arena *arena, const WeaveJob *job, WeaveNeed budget, const double *pass, WeaveCut **cuts)
{
    const Values     values = find_values(arena, job);
    const ColumnSet *needed = needed_by_part(arena, job);
    WeaveCut        *edges = find_edges(arena, job, needed, pass);
    int              n_cuts = 0;
    *cuts = NULL;
    for (int first = 0;;) {
        WeaveNeed passed;
        Gauge     gauge = gauge_begin(arena, job, &values, needed, first);
        const int part = grow(&gauge, first, budget, edges, &passed);
        if (part > job->n_steps) return n_cuts;
        first = cheapest(edges, first + 1, part);
        edges[first].passed_by = part, edges[first].passed = passed;
        *LIST_PUSH(arena, *cuts, n_cuts) = edges[first];
    }
}
