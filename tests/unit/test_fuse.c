// test_fuse.c - several kernels woven into one: what it does once, and that each query gets what it gets alone.
//
// Members are woven from jobs over a table of four columns.  Every fused text is compiled by tcc and by cc and run over
// rows; what it
// leaves in the members' accumulators must be what their own texts leave there.

#include "test.h"
#include "device/device.h"
#include "jit/jit.h"
#include "kernel/kernel.h"

enum { N_ROWS = 5000, N_COLUMNS = 4, MOST = 16, MOST_STATE = 8 };
enum { A, B, C, D };                                        // columns; relation 0

static u8  column_a[N_ROWS + 64], column_b[N_ROWS + 64], column_c[N_ROWS + 64];
static u32 column_d[N_ROWS + 64];
static u64 valid_c[N_ROWS / 64 + 2];

static const KernelColumn stored[N_COLUMNS] = {
    { column_a, NULL, 10, 1, 0 },
    { column_b, NULL, 0, 1, 0 },
    { column_c, valid_c, -5, 1, 0 },
    { column_d, NULL, 1000, 4, 0 },
};

static const Range ranges[N_COLUMNS] = {
    { .known = true, .low = 10, .high = 20 },
    { .known = true, .low = 0, .high = 49 },
    { .known = true, .nullable = true, .low = -5, .high = 94 },
    { .known = true, .low = 1000, .high = 1000999 },
};

typedef struct Handmade {                                   // a query
    int         n_steps;
    WeaveStep   steps[6];
    Expr       *sum;                                        // of what; beside it, the number of rows
    const char *names[N_COLUMNS];                           // of columns, where they are not a, b, c, d
    int         chunk_column[N_COLUMNS];                    // its source columns, all it has
    int         n_columns;
} Handmade;

static Arena *arena;
static Jit   *jit;
static Error  err;

static void begin(void)
{
    arena = arena_new(NULL, "test");
    jit = jit_new(&(JitOptions){ .prelude = arena_printf(arena, "%s\n%s\n", kernel_args_text, kernel_cpu_text),
                                 .cache_dir = "" });
    u64 x = 88172645463325252ull;
    memset(valid_c, 0, sizeof valid_c);
    for (int i = 0; i < N_ROWS; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        column_a[i] = (u8)(x % 11), column_b[i] = (u8)(x / 11 % 50), column_c[i] = (u8)(x / 550 % 100),
        column_d[i] = (u32)(x / 55000 % 1000000);
        valid_c[i / 64] |= (u64)(x % 7 != 0) << (i % 64);
    }
}

static void end(void)
{
    jit_free(jit);
    arena_free(arena);
}

// ---- expressions, tables, queries -----------------------------------------------------------------------------------

static Expr *column(int number) { return expr_column(arena, number, TYPE(INTEGER), -1); }
static Expr *number(i64 value) { return expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = value }, -1); }

static Expr *call(Op op, Expr *a, Expr *b)
{
    Expr *out;
    CHECK_OK(expr_call(arena, op, (Expr *[]){ a, b }, 2, -1, &out, &err), err);
    return out;
}

static void add_step(Handmade *query, WeaveStep step) { query->steps[query->n_steps++] = step; }
static void add_filter(Handmade *query, Op op, Expr *a, Expr *b)
{
    add_step(query, (WeaveStep){ .filter = call(op, a, b) });
}

static void add_between(Handmade *query, int of, i64 low, i64 high)
{
    add_filter(query, OP_GE, column(of), number(low));
    add_filter(query, OP_LE, column(of), number(high));
}

static Handmade query_over(int n_columns, const int *columns, int sum)
{
    Handmade query = { .n_columns = n_columns, .sum = column(sum) };
    memcpy(query.chunk_column, columns, (size_t)n_columns * sizeof(int));
    return query;
}

// A byte per key 0 .. 99.
static JoinTable *make_set(u64 id, const u8 *ok)
{
    JoinTable *table = arena_make(arena, JoinTable);
    *table = (JoinTable){ .id = id,
                          .name = "t",
                          .shape = SHAPE_BITS,
                          .is_bytes = true,
                          .is_unique = true,
                          .n_keys = 1,
                          .is_one_word = true,
                          .span = 100,
                          .n_rows = 5,
                          .n_distinct = 5,
                          .n_scanned = 20,
                          .max_chain = 1,
                          .slots = ok };
    table->keys = arena_make(arena, JoinKey);
    table->keys[0] =
        (JoinKey){ .type = TYPE(INTEGER), .low = 0, .high = 99, .zone_low = 0, .zone_high = 99, .stride = 1 };
    return table;
}

// With one payload of codes + 1.
static JoinTable *make_direct(u64 id, const u8 *codes)
{
    JoinTable *table = make_set(id, NULL);
    table->shape = SHAPE_DIRECT, table->is_bytes = false, table->n_payloads = 1;
    table->payloads = arena_make(arena, Payload);
    table->payloads[0] = (Payload){ .id = 100,
                                    .name = "kind",
                                    .type = TYPE(INTEGER),
                                    .range = { .known = true, .low = 0, .high = 9 },
                                    .width = 1,
                                    .n_codes = 10,
                                    .data = codes,
                                    .bytes = 100 };
    return table;
}

static void add_probe(Handmade *query, const JoinTable *table, int key, ProbeKind kind)
{
    Expr **keys = arena_array(arena, Expr *, 1);
    keys[0] = column(key);
    add_step(query, (WeaveStep){ .table = table, .keys = keys, .probe = kind });
}

static FuseMember member_of(const Handmade *query)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    Source *source = arena_make(arena, Source);
    Woven  *woven;
    Agg    *aggs = arena_array(arena, Agg, 2);
    aggs[0] = (Agg){ .kind = AGG_COUNT_ALL, .type = TYPE(BIGINT) },
    aggs[1] = (Agg){ .kind = AGG_SUM, .arg = query->sum, .type = TYPE(BIGINT) };
    *source = (Source){ .name = "t",
                        .n_columns = query->n_columns,
                        .n_rows = N_ROWS,
                        .from_store = true,
                        .chunk_column = query->chunk_column };
    source->columns = arena_array(arena, SourceColumn, N_COLUMNS);
    for (int c = 0; c < query->n_columns; c++) {
        const int   of = query->chunk_column[c];
        const char *name = query->names[of] ? query->names[of] : names[of];
        source->columns[c] = (SourceColumn){
            .id = of, .name = name, .type = TYPE(INTEGER), .width = (u8)stored[of].width, .range = ranges[of]
        };
    }
    const WeaveJob job = { .source = source,
                           .n_steps = query->n_steps,
                           .steps = query->steps,
                           .sink = SINK_GROUPS,
                           .n_aggs = 2,
                           .aggs = aggs };
    CHECK_OK(weave(arena, &job, &woven, &err), err);
    CHECK(weave_can_fuse(woven));
    return (FuseMember){ woven, query->chunk_column };
}

// ---- running --------------------------------------------------------------------------------------------------------

typedef struct Run {                                        // what a kernel is handed, and where it adds up
    KernelArgs   args;
    KernelColumn columns[N_COLUMNS];
    i64          params[64];
    i64          sums[MOST_STATE];
    void        *state[MOST_STATE];
    u64          counts[8];
    u32          cancel;
} Run;

static void set_up(Run *run, const FuseMember *member)
{
    const Woven *woven = member->woven;
    memset(run, 0, sizeof *run);
    CHECK(woven->n_params <= 64 && woven->n_state <= MOST_STATE && woven->n_counts <= 8);
    for (int c = 0; c < woven->n_columns; c++)
        run->columns[c] = stored[member->chunk_column[woven->columns[c]]];
    for (int p = 0; p < woven->n_params; p++)
        run->params[p] = launch_param(&woven->params[p], run->columns);
    for (int s = 0; s < woven->n_state; s++)
        run->state[s] = &run->sums[s], run->sums[s] = (i64)woven->state[s].init;
    run->args = (KernelArgs){ .columns = run->columns,
                              .params = run->params,
                              .tables = woven->tables,
                              .state = run->state,
                              .counts = run->counts,
                              .cancel = &run->cancel,
                              .picks = kernel_picks(),
                              .words = kernel_words() };
}

static void run_text(const char *text, const char *name, JitMode mode, KernelArgs *args)
{
    Code *code;
    const char *notice;
    JitTier tier;
    if (jit_get(jit, text, name, mode, &code, &notice, &err) != WEFT_OK || notice)
        CHECK_FAIL("%s%s\n%s", err.message, notice ? notice : "", text);
    args->row_first = 64, args->row_end = N_ROWS - 3;
    code_function(code, &tier)(args);
}

// The fused text of the queries, after both compilers' code for it gave what each gives alone.
static const char *fuse_as(const Handmade *queries, int n_queries, bool only_columns)
{
    FuseMember members[MOST];
    Run alone[MOST], together[MOST];
    KernelArgs *args[MOST], all = { .members = args, .words = kernel_words() };
    const char *name;
    for (int q = 0; q < n_queries; q++)
        members[q] = member_of(&queries[q]);
    const char *text = weave_fuse(arena, members, n_queries, only_columns, &name);
    for (JitMode mode = JIT_TCC; mode <= JIT_CC; mode++) {
        for (int q = 0; q < n_queries; q++) {
            set_up(&alone[q], &members[q]);
            set_up(&together[q], &members[q]);
            args[q] = &together[q].args;
            run_text(members[q].woven->text, members[q].woven->name, mode, &alone[q].args);
        }
        run_text(text, name, mode, &all);
        for (int q = 0; q < n_queries; q++) {
            for (int s = 0; s < members[q].woven->n_state; s++)
                if (together[q].sums[s] != alone[q].sums[s])
                    CHECK_FAIL("query %d, sum %d: %lld, alone %lld\n%s", q, s, (long long)together[q].sums[s],
                               (long long)alone[q].sums[s], text);
            CHECK_INT(together[q].args.failed, alone[q].args.failed);
        }
        CHECK(alone[0].sums[0] != 0);
    }
    return text;
}

static const char *fuse(const Handmade *queries, int n_queries)
{
    fuse_as(queries, n_queries, true);
    return fuse_as(queries, n_queries, false);
}

static int n_shared(const Handmade *queries, int n_queries)
{
    const FuseSteps *steps[MOST];
    for (int q = 0; q < n_queries; q++) {
        const FuseMember member = member_of(&queries[q]);
        steps[q] = weave_fuse_steps(arena, &member);
    }
    FuseStep shared[FUSE_STEPS];
    return weave_shared_steps(steps, n_queries, shared);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

// ---- the members ----------------------------------------------------------------------------------------------------

#define HEAD_AB                                                                 \
    "    COLUMN(u8, a, 0)\n    PARAM(u8, a_low, 0)\n    PARAM(u8, a_span, 1)\n" \
    "    COLUMN(u8, b, 1)\n    PARAM(u8, b_low, 2)\n    PARAM(u8, b_span, 3)\n"

static Handmade sum_ab(i64 a_low, i64 b_high)
{
    Handmade query = query_over(3, (int[]){ A, B, D }, D);
    add_between(&query, A, a_low, 16);
    add_between(&query, B, 5, b_high);
    return query;
}

// The same tests in the other order, and one more, on a column with NULLs.
static Handmade sum_bac(void)
{
    Handmade query = query_over(4, (int[]){ B, C, A, D }, D);
    add_between(&query, B, 5, 35);
    add_between(&query, C, -5, 55);
    add_between(&query, A, 12, 16);
    return query;
}

static u8 few[100] = { [3] = 1, [7] = 1, [20] = 1, [30] = 1, [33] = 1 };

// Both tests, then a look-up by b, then a filter.
static Handmade sum_joined(u64 table, i64 least)
{
    Handmade query = query_over(4, (int[]){ A, B, C, D }, D);
    add_between(&query, A, 12, 16);
    add_between(&query, B, 5, 35);
    add_probe(&query, make_set(table, few), B, PROBE_INNER);
    add_filter(&query, OP_GT, column(C), number(least));
    return query;
}

// ---- what is shared -------------------------------------------------------------------------------------------------

TEST(the_same_steps_are_taken_once)
{
    begin();
    Handmade queries[] = { sum_ab(12, 35), sum_ab(12, 35) };
    queries[1].chunk_column[2] = C, queries[1].sum = column(C);
    const char *text = strchr(fuse(queries, 2), '{');
    CHECK_STR(
        text,
        "{\n"
        "    MEMBER(m0_, 0)\n    MEMBER(m1_, 1)\n"
        "#define A m0_\n" HEAD_AB
        "    COLUMN(u32, d, 2)\n    TOTAL(sum, i64, m0_a0_, 0)\n    TOTAL(sum, i64, m0_a1_, 1)\n#undef A\n"
        "#define A m1_\n    COLUMN(u8, c, 2)\n    NULLS(c, 2)\n    TOTAL(sum, i64, m1_a0_, 0)\n"
        "    TOTAL(sum, i64, m1_a1_, 1)\n    TOTAL(sum, i64, m1_a2_, 2)\n#undef A\n"
        "    TILES {\n        ROWS(live)\n"
        "#define A m0_\n        MASK(live)\n        LOAD(u8, a, live)\n"
        "        BETWEEN_TEST(live, u8, a, a_low, a_span)\n"
        "        LOAD(u8, b, live)\n        BETWEEN_TEST_ALSO(live, u8, b, b_low, b_span)\n        PICK(live)\n"
        "#undef A\n"
        "        {\n#define A m0_\n        LOAD(u32, d, live)\n        EACH(live) { ADD(m0_a1_, VALUE(d)) }\n"
        "        TOTAL_ROWS(m0_a0_, live)\n#undef A\n        }\n"
        "        {\n#define A m1_\n        LOAD(u8, c, live)\n        LOAD_NULLS(c, live)\n"
        "        EACH(live) {\n            if (!IS_NULL(c)) {\n"
        "                ADD(m1_a2_, VALUE(c))\n                ADD(m1_a1_, 1)\n            }\n        }\n"
        "        TOTAL_ROWS(m1_a0_, live)\n#undef A\n        }\n"
        "    }\n"
        "#define A m0_\n    TOTAL_END(sum, i64, m0_a0_, 0)\n    TOTAL_END(sum, i64, m0_a1_, 1)\n#undef A\n"
        "#define A m1_\n    TOTAL_END(sum, i64, m1_a0_, 0)\n    TOTAL_END(sum, i64, m1_a1_, 1)\n"
        "    TOTAL_END(sum, i64, m1_a2_, 2)\n#undef A\n}\n");
    end();
}

// In whatever order they have them.
TEST(tests_that_all_have_come_first_and_the_others_look_at_what_is_left)
{
    begin();
    const Handmade queries[] = { sum_ab(12, 35), sum_bac() };
    const char *tiles = strstr(fuse(queries, 2), "    TILES {");
    const char *expected =
        "    TILES {\n        ROWS(live)\n"
        "#define A m0_\n        MASK(live)\n        LOAD(u8, a, live)\n"
        "        BETWEEN_TEST(live, u8, a, a_low, a_span)\n"
        "        LOAD(u8, b, live)\n        BETWEEN_TEST_ALSO(live, u8, b, b_low, b_span)\n        PICK(live)\n"
        "#undef A\n"
        "        LOAD(u32, d, live)\n"
        "        {\n#define A m0_\n        EACH(live) { ADD(m0_a1_, VALUE(d)) }\n"
        "        TOTAL_ROWS(m0_a0_, live)\n#undef A\n        }\n"
        "        {\n        COPY_ROWS(live, live1)\n#define A m1_\n        MEMBER_ROWS(live1)\n"
        "        LOAD(u8, c, live1)\n        LOAD_NULLS(c, live1)\n"
        "        FILTER(live1) { KEEP(live1, BETWEEN(u8, c[i], c_low, c_span) & !IS_NULL(c)); }\n"
        "        EACH(live1) { ADD(m1_a1_, VALUE(d)) }\n        TOTAL_ROWS(m1_a0_, live1)\n#undef A\n        }\n"
        "    }\n";
    if (strncmp(tiles, expected, strlen(expected)) != 0)
        CHECK_STR(tiles, expected);
    CHECK_INT(n_shared(queries, 2), 2);
    end();
}

TEST(queries_of_one_text_with_other_parameters_share_columns)
{
    Handmade queries[MOST];
    begin();
    for (int q = 0; q < MOST; q++)
        queries[q] = sum_ab(10 + q / 3, 20 + q);
    const char *text = fuse(queries, MOST);
    CHECK_INT(count_of(text, "LOAD("), 3);
    CHECK_INT(count_of(text, " COLUMN("), 3);
    CHECK_INT(count_of(text, " ROWS(live1)"), MOST);
    CHECK_INT(count_of(text, "BETWEEN_TEST("), MOST);
    CHECK_INT(count_of(text, "PARAM(u8, b_low,"), 1);              // the same for all
    CHECK_INT(count_of(text, "PARAM(u8, m3_b_span_, 3)"), 1);
    CHECK_INT(n_shared(queries, MOST), 0);
    CHECK_INT(n_shared(queries, 1), 2);
    end();
}

TEST(look_ups_and_filters_are_shared)
{
    begin();
    Handmade queries[] = { sum_joined(7, 5), sum_joined(7, 5), sum_joined(7, 5) };
    CHECK_INT(n_shared(queries, 3), 4);
    queries[1] = sum_joined(7, 35);                                 // another last filter
    const char *text = fuse(queries, 3);
    CHECK_INT(count_of(text, "FLAG_FILTER(live, u8, b, t_from, t_ok)"), 1);
    CHECK_INT(count_of(text, "COPY_ROWS(live, live1)"), 3);
    CHECK_INT(count_of(text, "LOAD(u8, c, live)"), 1);
    CHECK_INT(n_shared(queries, 3), 3);
    queries[2] = sum_joined(8, 5);                                  // another table
    CHECK_INT(n_shared(queries, 3), 2);
    CHECK_INT(count_of(fuse(queries, 3), "FLAG_FILTER("), 3);
    Handmade mixed[] = { sum_joined(7, 5), sum_ab(12, 35), sum_bac() };
    CHECK_INT(count_of(fuse(mixed, 3), "BETWEEN_TEST("), 1);
    end();
}

static Handmade sum_listed(int step)                        // b is one of forty constants: a table made for the kernel
{
    Handmade query = query_over(2, (int[]){ B, D }, D);
    Expr *args[41] = { column(B) }, *in;
    for (int i = 0; i < 40; i++)
        args[1 + i] = number(i * step);
    CHECK_OK(expr_call(arena, OP_IN, args, 41, -1, &in, &err), err);
    add_step(&query, (WeaveStep){ .filter = in });
    return query;
}

TEST(tables_made_for_one_kernel_are_the_same_when_their_bytes_are)
{
    begin();
    const Handmade same[] = { sum_listed(3), sum_listed(3) }, other[] = { sum_listed(3), sum_listed(2) };
    CHECK_INT(n_shared(same, 2), 1);
    CHECK_INT(count_of(fuse(same, 2), " BIT("), 1);
    CHECK_INT(n_shared(other, 2), 0);
    CHECK_INT(count_of(fuse(other, 2), " BIT("), 2);
    end();
}

static const u8 kinds[100] = { [10] = 1, [11] = 3, [13] = 5, [14] = 1, [15] = 7, [17] = 2, [18] = 9, [19] = 4 };

// A look-up by a, which carries what it found; a test of b, before or after; a block that rests on the look-up.
static Handmade sum_by_kind(bool test_first, ProbeKind kind)
{
    Handmade query = query_over(3, (int[]){ A, B, D }, D);
    Expr *found = expr_column(arena, 100, TYPE(INTEGER), -1);
    if (test_first)
        add_between(&query, B, 5, 35);
    add_probe(&query, make_direct(9, kinds), A, kind);
    if (!test_first)
        add_filter(&query, OP_LT, column(B), number(45));
    add_step(&query, (WeaveStep){ .value = call(OP_MUL, column(B), number(3)), .let = 200 });
    add_filter(&query, OP_GT, expr_column(arena, 200, TYPE(INTEGER), -1), call(OP_COALESCE, found, number(50)));
    return query;
}

TEST(what_does_not_depend_on_other_steps_may_come_first)
{
    begin();
    Handmade queries[] = { sum_by_kind(false, PROBE_INNER), sum_by_kind(true, PROBE_INNER) };
    CHECK_INT(n_shared(queries, 2), 1);
    const char *text = fuse(queries, 2);
    CHECK_INT(count_of(text, "LOOKUP_TEST(live, u8, a, t_from, u8, kind_of, kind)"), 1);
    CHECK_INT(count_of(text, "BETWEEN_FILTER(live1, u8, b, m1_b_low_, m1_b_span_)"), 1);
    CHECK_INT(count_of(text, "CARRY(u8, kind)"), 1);
    const Handmade tested_first[] = { queries[1], queries[0], queries[1] };
    fuse(tested_first, 3);
    queries[0] = sum_by_kind(true, PROBE_INNER);                    // and the steps that rest on it
    CHECK_INT(n_shared(queries, 2), 4);
    CHECK_INT(count_of(fuse(queries, 2), "KEEP("), 1);
    end();
}

// A left join drops no row: what it carries is shared where it comes next for all.
TEST(steps_that_drop_no_row_are_shared_in_order)
{
    begin();
    const Handmade same[] = { sum_by_kind(true, PROBE_LEFT), sum_by_kind(true, PROBE_LEFT),
                              sum_by_kind(true, PROBE_LEFT) };
    CHECK_INT(n_shared(same, 3), 4);
    CHECK_INT(count_of(fuse(same, 3), "CARRY("), 2);
    const Handmade other[] = { sum_by_kind(true, PROBE_LEFT), sum_by_kind(false, PROBE_LEFT),
                               sum_by_kind(true, PROBE_INNER) };
    CHECK_INT(n_shared(other, 3), 0);
    fuse(other, 3);
    end();
}

// Nobody could say whose failure it was.
TEST(steps_that_can_fail_are_not_shared)
{
    begin();
    Handmade failing = sum_ab(12, 35), joined = sum_joined(7, 5);
    add_filter(&failing, OP_GT, call(OP_DIV, column(B), call(OP_SUB, column(A), number(13))), number(0));
    Handmade queries[] = { failing, failing };
    CHECK_INT(n_shared(queries, 2), 2);
    CHECK_INT(count_of(fuse(queries, 2), "DIV_CHECKED("), 2);       // and fuse compares who failed
    Handmade late = failing;                                        // a look-up is not moved before it
    add_probe(&late, make_set(7, few), B, PROBE_INNER);
    const Handmade both[] = { joined, late };
    CHECK_INT(n_shared(both, 2), 2);
    fuse(both, 2);
    end();
}

// A column called as something that a word derives from another member's column: x_base, x.
TEST(names_of_members_do_not_meet)
{
    begin();
    Handmade queries[] = { sum_ab(12, 35), sum_ab(12, 35), sum_ab(12, 35) };
    queries[0].names[D] = "d_base";
    queries[1].chunk_column[2] = C, queries[1].sum = column(C), queries[1].names[C] = "d";
    queries[2] = queries[0];
    fuse(queries, 3);
    queries[0] = queries[1];                                        // d is c here, and with NULLs, and d there
    queries[1] = sum_ab(12, 35);
    fuse(queries, 3);
    end();
}
