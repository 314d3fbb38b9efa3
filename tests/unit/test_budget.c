// test_budget.c - what a kernel is estimated to need, and where a pipeline is split that needs too much.
//
// Jobs are made here, by hand: no row is read, and the tables that they probe have no contents.

#include "test.h"
#include "weave/weave.h"

enum { MOST_COLUMNS = 12, MOST_STEPS = 12 };
enum { FIRST_MADE = 100 };                                  // columns that steps give

static Arena *arena;
static Error  err;
static u64    random_state = 88172645463325252ull;

static int draw(int n)                                      // 0 .. n - 1
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (int)(random_state % (u64)n);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

static Expr *column(int id) { return expr_column(arena, id, TYPE(INTEGER), -1); }
static Expr *number(i64 value) { return expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = value }, -1); }

static Expr *call(Op op, Expr *a, Expr *b)
{
    Expr *out;
    CHECK_OK(expr_call(arena, op, (Expr *[]){ a, b }, 2, -1, &out, &err), err);
    return out;
}

static Source *source_of(int n_columns, u8 width, bool nullable)
{
    Source *source = arena_make(arena, Source);
    *source = (Source){ .name = "t", .n_columns = n_columns, .n_rows = 1000 };
    source->columns = arena_array(arena, SourceColumn, n_columns + 1);
    for (int c = 0; c < n_columns; c++)
        source->columns[c] = (SourceColumn){ .id = c,
                                             .name = "c",
                                             .type = TYPE(INTEGER),
                                             .width = width,
                                             .range = { .known = true, .high = 9, .nullable = nullable } };
    return source;
}

static JoinTable *table_of(int n_payloads, int first_id, TableShape shape, bool is_unique)
{
    JoinTable *table = arena_make(arena, JoinTable);
    *table = (JoinTable){ .name = "d",
                          .shape = shape,
                          .is_unique = is_unique,
                          .n_keys = 1,
                          .n_payloads = n_payloads,
                          .payloads = arena_array(arena, Payload, n_payloads + 1),
                          .bytes = 1000 };
    for (int p = 0; p < n_payloads; p++)
        table->payloads[p] = (Payload){ .id = first_id + p, .name = "p", .type = TYPE(INTEGER), .width = 4 };
    return table;
}

static WeaveStep filter_on(int id) { return (WeaveStep){ .filter = call(OP_LT, column(id), number(7)) }; }

static WeaveStep probe_by(int id, const JoinTable *table, ProbeKind probe)
{
    Expr **keys = arena_array(arena, Expr *, 1);
    keys[0] = column(id);
    return (WeaveStep){ .table = table, .keys = keys, .probe = probe, .mark = table->payloads[0].id };
}

// Its sink puts out columns 0 .. N_OUTPUTS - 1.
static WeaveJob job_of(const Source *source, const WeaveStep *steps, int n_steps, int n_outputs)
{
    Expr **outputs = arena_array(arena, Expr *, n_outputs + 1);
    for (int o = 0; o < n_outputs; o++) outputs[o] = column(o);
    return (WeaveJob){ .source = source,
                       .steps = steps,
                       .n_steps = n_steps,
                       .sink = SINK_ROWS,
                       .n_outputs = n_outputs,
                       .outputs = outputs };
}

static int any_of(const ColumnSet *columns)
{
    int n = draw(columns_count(columns)), c = columns_next(columns, -1);
    while (n-- > 0) c = columns_next(columns, c);
    return c;
}

// A step on columns that are there; what it gives is there for the next ones.
static WeaveStep random_step(ColumnSet *there, int *n_made)
{
    const int kind = draw(4), by = any_of(there);
    const int made = FIRST_MADE + *n_made, n_payloads = 1 + draw(3);
    if (kind == 0) return filter_on(by);
    *n_made += n_payloads;
    if (kind == 1) {
        columns_add(arena, there, made);
        return (WeaveStep){ .value = call(OP_ADD, column(by), call(OP_MUL, column(any_of(there)), number(3))),
                            .let = made };
    }
    const ProbeKind probe = (ProbeKind)draw(PROBE_MARK + 1);
    WeaveStep       step = probe_by(by, table_of(n_payloads, made, (TableShape)draw(SHAPE_HASH + 1), draw(2)), probe);
    step.mark = made + n_payloads, *n_made += 1;
    if (draw(3) == 0) step.residual = call(OP_LT, column(made), column(any_of(there)));
    for (int p = 0; p < n_payloads; p++)
        if (probe == PROBE_INNER || probe == PROBE_LEFT || probe == PROBE_SINGLE) columns_add(arena, there, made + p);
    if (probe == PROBE_MARK) columns_add(arena, there, step.mark);
    return step;
}

static WeaveJob random_job(void)
{
    const int  n_columns = 1 + draw(MOST_COLUMNS), n_steps = draw(MOST_STEPS);
    WeaveStep *steps = arena_array(arena, WeaveStep, n_steps + 1);
    ColumnSet  there = { 0 };
    int        n_made = 0;
    for (int c = 0; c < n_columns; c++) columns_add(arena, &there, c);
    for (int s = 0; s < n_steps; s++) steps[s] = random_step(&there, &n_made);
    WeaveJob job = job_of(source_of(n_columns, (u8)(1 << draw(4)), draw(2)), steps, n_steps, 3);
    for (int o = 0; o < job.n_outputs; o++) ((Expr **)(uintptr_t)job.outputs)[o] = column(any_of(&there));
    if (draw(2)) return job;
    Agg *aggs = arena_array(arena, Agg, 2);
    aggs[0] = (Agg){ .kind = AGG_COUNT_ALL, .type = TYPE(BIGINT) };
    aggs[1] = (Agg){ .kind = AGG_SUM, .arg = job.outputs[0], .type = TYPE(BIGINT) };
    job.sink = SINK_GROUPS, job.aggs = aggs, job.n_aggs = 2;
    job.keys = job.outputs + 1, job.n_keys = draw(3), job.n_outputs = 0;
    return job;
}

static void begin(void)
{
    if (arena) arena_free(arena);
    arena = arena_new(NULL, "test");
    error_clear(&err);
}

static int split(const WeaveJob *job, int registers, const double *pass, WeaveCut **cuts)
{
    return weave_split(arena, job, (WeaveNeed){ .registers = registers }, pass, cuts);
}

static int registers_of_all(const WeaveJob *job) { return weave_need(arena, job, 0, job->n_steps + 1).registers; }

// ---- the model ------------------------------------------------------------------------------------------------------

TEST(wide_values_and_nulls_take_more_registers)
{
    begin();
    const WeaveStep steps[] = { filter_on(0), filter_on(1) };
    WeaveJob        narrow = job_of(source_of(2, 4, false), steps, 2, 2), wide = narrow, nullable = narrow;
    wide.source = source_of(2, 8, false), nullable.source = source_of(2, 4, true);
    CHECK_INT(registers_of_all(&wide) - registers_of_all(&narrow), 2);
    CHECK_INT(registers_of_all(&nullable) - registers_of_all(&narrow), 2);
}

TEST(a_column_is_live_from_its_first_use_to_its_last)
{
    begin();
    const WeaveStep steps[] = { filter_on(0), filter_on(1), filter_on(2) }, again[] = { steps[0], steps[1], steps[0] };
    const WeaveJob  apart = job_of(source_of(3, 8, false), steps, 3, 0), held = job_of(apart.source, again, 3, 0);
    // Column 0 stays for the third filter; of that one less is new: the address.
    CHECK_INT(registers_of_all(&held) - registers_of_all(&apart), 2 - 2);
    const WeaveJob out = job_of(apart.source, steps, 3, 1);
    CHECK_INT(registers_of_all(&out) - registers_of_all(&apart), 2);
}

TEST(totals_stay_in_registers_and_groups_do_not)
{
    begin();
    WeaveJob totals = job_of(source_of(2, 4, false), NULL, 0, 0), more = totals;
    Agg      aggs[8];
    for (int a = 0; a < COUNT_OF(aggs); a++)
        aggs[a] = (Agg){ .kind = AGG_MIN, .arg = column(0), .type = TYPE(INTEGER) };
    totals.sink = more.sink = SINK_GROUPS, totals.aggs = more.aggs = aggs, totals.n_aggs = 1, more.n_aggs = 8;
    CHECK_INT(registers_of_all(&more) - registers_of_all(&totals), 7 * 4);
    Expr    *keys[] = { column(1) };
    WeaveJob groups = more;
    groups.n_keys = 1, groups.keys = keys;
    CHECK_INT(weave_need(arena, &totals, 0, 1).shared_bytes, 0);
    CHECK_INT(weave_need(arena, &groups, 0, 1).shared_bytes, 10 * 8 * 2 * 8);  // ten values, 8 aggregates, 2 words
}

TEST(what_can_be_read_again_counts_up_to_a_limit)
{
    begin();
    WeaveStep steps[400];
    for (int s = 0; s < COUNT_OF(steps); s++) steps[s] = filter_on(s % 2);
    const WeaveJob job = job_of(source_of(2, 4, false), steps, COUNT_OF(steps), 2);
    CHECK(registers_of_all(&job) < 255);                    // or many filters would be many kernels
}

TEST(a_larger_kernel_never_needs_less)
{
    for (int i = 0; i < 2000; i++) {
        begin();
        const WeaveJob job = random_job();
        for (int first = 0; first <= job.n_steps; first++) {
            WeaveNeed last = { 0 };
            for (int end = first + 1; end <= job.n_steps + 1; end++) {
                const WeaveNeed need = weave_need(arena, &job, first, end);
                CHECK(need.registers >= last.registers && need.shared_bytes >= last.shared_bytes);
                last = need;
            }
        }
    }
}

// ---- the split ------------------------------------------------------------------------------------------------------

TEST(without_a_limit_or_within_it_nothing_is_split)
{
    WeaveCut *cuts;
    for (int i = 0; i < 500; i++) {
        begin();
        const WeaveJob job = random_job();
        CHECK_INT(split(&job, 0, NULL, &cuts), 0);
        CHECK_INT(split(&job, registers_of_all(&job), NULL, &cuts), 0);
        if (job.n_steps) CHECK(split(&job, registers_of_all(&job) - 1, NULL, &cuts) > 0);
    }
}

TEST(a_step_is_never_split)
{
    WeaveCut *cuts;
    for (int i = 0; i < 500; i++) {
        begin();
        const WeaveJob job = random_job();
        CHECK_INT(split(&job, 1, NULL, &cuts), job.n_steps);
        for (int c = 0; c < job.n_steps; c++) CHECK_INT(cuts[c].before, c + 1);
    }
}

static void check_kernels(const WeaveJob *job, WeaveNeed budget, const WeaveCut *cuts, int n_cuts)
{
    for (int c = 0, first = 0; c <= n_cuts; c++) {
        const int       end = c < n_cuts ? cuts[c].before : job->n_steps + 1;
        const WeaveNeed need = weave_need(arena, job, first, end);
        CHECK(end > first);
        CHECK(end == first + 1 || (need.registers <= budget.registers && need.shared_bytes <= budget.shared_bytes));
        if (c < n_cuts) {
            CHECK(cuts[c].need.registers == need.registers && cuts[c].passed_by >= end);
            CHECK(cuts[c].passed.registers > budget.registers || cuts[c].passed.shared_bytes > budget.shared_bytes);
        }
        first = end;
    }
}

// What later steps read is stored, unless a later step gives it.
static void check_columns(const WeaveJob *job, int before)
{
    const ColumnSet across = weave_columns_across(arena, job, before);
    ColumnSet       there = across;
    for (int s = before; s <= job->n_steps; s++) {
        const WeaveStep *step = &job->steps[s];
        ColumnSet        reads = { 0 };
        WeaveJob         sink = *job;
        sink.n_steps = 0;
        if (s == job->n_steps) reads = weave_columns_needed(arena, &sink, 0);
        else weave_step_columns(arena, step, &reads);
        for (int p = 0; s < job->n_steps && step->table && p < step->table->n_payloads; p++)
            columns_add(arena, &there, step->table->payloads[p].id);           // a residual reads its table's own
        if (s < job->n_steps && step->value) columns_add(arena, &there, step->let);
        if (s < job->n_steps && step->table && step->probe == PROBE_MARK) columns_add(arena, &there, step->mark);
        CHECK(columns_is_subset(&reads, &there));
    }
}

TEST(kernels_are_within_the_budget_and_lose_no_column)
{
    WeaveCut *cuts;
    double    pass[MOST_STEPS];
    for (int i = 0; i < 3000; i++) {
        begin();
        const WeaveJob  job = random_job();
        const WeaveNeed budget = { .registers = 10 + draw(80), .shared_bytes = 500 + (u64)draw(5000) };
        for (int s = 0; s < MOST_STEPS; s++) pass[s] = draw(200) / 100.0;
        const int n_cuts = weave_split(arena, &job, budget, i % 2 ? pass : NULL, &cuts);
        check_kernels(&job, budget, cuts, n_cuts);
        for (int c = 0; c < n_cuts; c++) check_columns(&job, cuts[c].before);
    }
}

// Four steps; the last one passes the budget, so that there are three edges to choose from.
static WeaveJob job_to_split(int *budget)
{
    static WeaveStep steps[4];
    for (int s = 0; s < 4; s++) steps[s] = filter_on(s);
    const WeaveJob job = job_of(source_of(4, 4, false), steps, 4, 4);
    *budget = weave_need(arena, &job, 0, 3).registers;
    return job;
}

TEST(the_cut_is_where_the_fewest_bytes_flow)
{
    WeaveCut *cuts;
    int       budget;
    begin();
    const WeaveJob job = job_to_split(&budget);
    CHECK(split(&job, budget, (double[]){ 1, 0.001, 100, 1 }, &cuts) >= 1);
    CHECK_INT(cuts[0].before, 2);
    CHECK_INT(cuts[0].passed_by, 3);
    CHECK_DOUBLE(cuts[0].n_rows, 1, 1e-9);
    CHECK_INT(cuts[0].n_columns, 4);
    CHECK_DOUBLE(cuts[0].bytes, 32, 1e-9);
    CHECK(split(&job, budget, (double[]){ 0.5, 0.5, 0.5, 1 }, &cuts) >= 1);
    CHECK_INT(cuts[0].before, 3);                           // fewer rows the later it is, as in the paper
    CHECK(split(&job, budget, (double[]){ 0.5, 2, 2, 1 }, &cuts) >= 1);
    CHECK_INT(cuts[0].before, 1);                           // before rows multiply
}

TEST(of_rows_nothing_is_known_the_fewest_columns_decide)
{
    WeaveCut *cuts;
    int       budget;
    begin();
    const WeaveJob job = job_to_split(&budget);
    CHECK(split(&job, budget, NULL, &cuts) >= 1);
    CHECK_INT(cuts[0].before, 3);                           // all columns are put out: equal edges, the last one
    const WeaveStep joined[] = { filter_on(0), probe_by(1, table_of(3, FIRST_MADE, SHAPE_DIRECT, true), PROBE_INNER),
                                 filter_on(2), filter_on(3) };
    WeaveJob        widened = job_of(job.source, joined, 4, 0);
    Expr           *outputs[] = { column(FIRST_MADE), column(FIRST_MADE + 1), column(FIRST_MADE + 2) };
    widened.outputs = outputs, widened.n_outputs = 3;
    CHECK(split(&widened, weave_need(arena, &widened, 0, 2).registers, NULL, &cuts) >= 1);
    CHECK_INT(cuts[0].before, 1);                           // columns 1, 2 and 3; later three of the table as well
}

TEST(shared_memory_splits_as_well)
{
    WeaveCut *cuts;
    begin();
    const WeaveStep steps[] = { probe_by(0, table_of(1, FIRST_MADE, SHAPE_DIRECT, true), PROBE_INNER),
                                probe_by(1, table_of(1, FIRST_MADE + 1, SHAPE_DIRECT, true), PROBE_INNER) };
    const WeaveJob  job = job_of(source_of(2, 4, false), steps, 2, 2);
    CHECK_INT(weave_need(arena, &job, 0, 3).shared_bytes, 2000);
    CHECK_INT(weave_split(arena, &job, (WeaveNeed){ .shared_bytes = 2000 }, NULL, &cuts), 0);
    CHECK_INT(weave_split(arena, &job, (WeaveNeed){ .shared_bytes = 1999 }, NULL, &cuts), 1);
    CHECK_INT(cuts[0].before, 1);
}
