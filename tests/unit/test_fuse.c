// test_fuse.c - several kernels woven into one: what it does once, and that each query gets what it gets alone.
//
// Members are written by hand, as src/weave writes them, over a table of four columns.  Every fused text is compiled by tcc and by cc and
// run over rows; what it leaves in the members' accumulators must be what their own texts leave there.

#include "test.h"
#include "jit/jit.h"
#include "kernel/kernel.h"
#include "weave/weave.h"

enum { N_ROWS = 5000, N_COLUMNS = 4, N_STATE = 4, N_PARAMS = 8 };

static u8  column_a[N_ROWS + 64], column_b[N_ROWS + 64], column_c[N_ROWS + 64];
static u32 column_d[N_ROWS + 64];
static u64 valid_c[N_ROWS / 64 + 2];

static const KernelColumn stored[N_COLUMNS] = {
    { column_a, NULL, 10, 1, 0 }, { column_b, NULL, 0, 1, 0 }, { column_c, valid_c, -5, 1, 0 }, { column_d, NULL, 1000, 4, 0 },
};

typedef struct Handmade {                 // a member, written down
    const char *steps, *head, *sink, *ends;
    int         columns[N_COLUMNS];    // kernel column -> column of the table
    i64         params[N_PARAMS];
    const u8   *table;
    int         n_counts;
} Handmade;

static Arena *arena;
static Jit   *jit;

static void begin(void)
{
    arena = arena_new(NULL, "test");
    jit = jit_new(&(JitOptions){ .prelude = arena_printf(arena, "%s\n%s\n", kernel_args_text, kernel_cpu_text), .cache_dir = "" });
    u64 x = 88172645463325252ull;
    for (int i = 0; i < N_ROWS; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        column_a[i] = (u8)(x % 11), column_b[i] = (u8)(x / 11 % 50), column_c[i] = (u8)(x / 550 % 100), column_d[i] = (u32)(x / 55000 % 1000000);
        valid_c[i / 64] |= (u64)(x % 7 != 0) << (i % 64);
    }
}

static void end(void)
{
    jit_free(jit);
    arena_free(arena);
}

static FuseMember member_of(const Handmade *query)
{
    static const int chunk_column[N_COLUMNS] = { 0, 1, 2, 3 };
    Woven           *woven = arena_make(arena, Woven);
    woven->name = arena_printf(arena, "p_%016llx", (unsigned long long)hash_bytes(query, sizeof *query));
    const char *before = arena_printf(arena, "// t: filter, totals\nKERNEL(%s)\n{\n%s    TILES {\n        ROWS(live)\n%s", woven->name, query->head, query->steps);
    woven->sink_at = strlen(before);
    woven->text = arena_printf(arena, "%s%s    }\n%s}\n", before, query->sink, query->ends);
    woven->columns = arena_array(arena, int, N_COLUMNS);
    woven->params = arena_array(arena, Param, N_PARAMS);
    woven->counts = arena_array(arena, WovenStep, 8);
    for (int c = 0; c < N_COLUMNS; c++)
        woven->columns[c] = query->columns[c];
    for (int p = 0; p < N_PARAMS; p++)
        woven->params[p] = (Param){ .kind = PARAM_VALUE, .value = query->params[p] };
    for (int s = 0; s < query->n_counts; s++)
        woven->counts[s] = (WovenStep){ "step", s, 1.0 / (s + 2) };
    woven->n_columns = N_COLUMNS, woven->n_params = N_PARAMS, woven->n_counts = query->n_counts, woven->fan_out = 1;
    woven->n_tables = woven->n_table_facts = 1;
    woven->tables = arena_make(arena, const void *);
    woven->tables[0] = query->table;
    woven->table_facts = arena_make(arena, WovenTable);
    woven->table_facts[0] = (WovenTable){ query->table ? 100 : 0, 0, 0 };
    woven->n_state = N_STATE;
    woven->state = arena_array(arena, StateSlot, N_STATE);
    for (int s = 0; s < N_STATE; s++)
        woven->state[s] = (StateSlot){ SLOT_ADD, 8, 0 };
    CHECK(weave_can_fuse(woven));
    return (FuseMember){ woven, chunk_column };
}

typedef struct Run {                   // what a kernel is handed, and where it adds up
    KernelArgs   args;
    KernelColumn columns[N_COLUMNS];
    i64          params[N_PARAMS];
    const void  *tables[1];
    i64          sums[N_STATE];
    void        *state[N_STATE];
    u64          counts[8];
    u32          cancel;
} Run;

static void set_up(Run *run, const Handmade *query)
{
    memset(run, 0, sizeof *run);
    for (int c = 0; c < N_COLUMNS; c++)
        run->columns[c] = stored[query->columns[c]];
    memcpy(run->params, query->params, sizeof run->params);
    run->tables[0] = query->table;
    for (int s = 0; s < N_STATE; s++)
        run->state[s] = &run->sums[s];
    run->args = (KernelArgs){ .columns = run->columns, .params = run->params, .tables = run->tables, .state = run->state, .counts = run->counts,
                              .cancel = &run->cancel, .picks = kernel_picks(), .words = kernel_words() };
}

static void run_text(const char *text, const char *name, JitMode mode, KernelArgs *args)
{
    Code *code;
    const char *notice;
    Error err = { 0 };
    JitTier tier;
    if (jit_get(jit, text, name, mode, &code, &notice, &err) != WEFT_OK || notice)
        CHECK_FAIL("%s%s\n%s", err.message, notice ? notice : "", text);
    args->row_first = 64, args->row_end = N_ROWS - 3;
    code_function(code, &tier)(args);
}

// The fused text of the queries, after both compilers' code for it gave what each gives alone.
static const char *fuse(const Handmade *queries, int n_queries)
{
    FuseMember members[16];
    Run alone[16], together[16];
    KernelArgs *args[16], all = { .members = args, .words = kernel_words() };
    const char *name;
    for (int q = 0; q < n_queries; q++)
        members[q] = member_of(&queries[q]);
    const char *text = weave_fuse(arena, members, n_queries, false, &name);
    for (JitMode mode = JIT_TCC; mode <= JIT_CC; mode++) {
        for (int q = 0; q < n_queries; q++) {
            set_up(&alone[q], &queries[q]);
            set_up(&together[q], &queries[q]);
            args[q] = &together[q].args;
            run_text(members[q].woven->text, members[q].woven->name, mode, &alone[q].args);
        }
        run_text(text, name, mode, &all);
        for (int q = 0; q < n_queries; q++) {
            for (int s = 0; s < N_STATE; s++)
                if (together[q].sums[s] != alone[q].sums[s])
                    CHECK_FAIL("query %d, sum %d: %lld, alone %lld\n%s", q, s, (long long)together[q].sums[s], (long long)alone[q].sums[s], text);
            CHECK_INT(together[q].args.failed, alone[q].args.failed);
        }
        CHECK(alone[0].sums[1] != 0);
    }
    return text;
}

static int n_shared(const Handmade *queries, int n_queries)
{
    const FuseSteps *steps[16];
    for (int q = 0; q < n_queries; q++) {
        const FuseMember member = member_of(&queries[q]);
        steps[q] = weave_fuse_steps(arena, &member);
    }
    FuseStep shared[16];
    return weave_shared_steps(steps, n_queries, shared);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

// ---- the members --------------------------------------------------------------------------------------------------------

#define TEST_AB "        MASK(live)\n"                                                                                                     \
                "        LOAD_ROWS(u8, a, live)\n        UNSURE BETWEEN_TEST(live, u8, a, a_low, a_span)\n"                                \
                "        LOAD_TEST(u8, b, live)\n        UNSURE BETWEEN_TEST_ALSO(live, u8, b, b_low, b_span)\n"                           \
                "        PICK_UNSURE(live)\n        STEP(0, live)\n"
#define HEAD_AB "    COLUMN(u8, a, 0)\n    PARAM(u8, a_low, 0)\n    PARAM(u8, a_span, 1)\n"                                                \
                "    COLUMN(u8, b, 1)\n    PARAM(u8, b_low, 2)\n    PARAM(u8, b_span, 3)\n"
#define SUM_D   "        EACH(live) { ADD(a1_, VALUE(d)) }\n        TOTAL_ROWS(a0_, live)\n"
#define TOTALS  "    TOTAL(sum, i64, a0_, 0)\n    TOTAL(sum, i64, a1_, 1)\n"
#define ENDS    "    TOTAL_END(sum, i64, a0_, 0)\n    TOTAL_END(sum, i64, a1_, 1)\n"

static const Handmade sum_ab = { .steps = TEST_AB, .head = HEAD_AB "    COLUMN(u32, d, 2)\n" TOTALS, .sink = "        LOAD_ROWS(u32, d, live)\n" SUM_D, .ends = ENDS,
                              .columns = { 0, 1, 3 }, .params = { 2, 4, 5, 30 }, .n_counts = 1 };

// The same tests in the other order, and one more, on a column with NULLs.
static const Handmade sum_bac = {
    .steps = "        MASK(live)\n"
             "        LOAD(u8, b, live)\n        BETWEEN_TEST(live, u8, b, b_low, b_span)\n"
             "        LOAD(u8, c, live)\n        LOAD_NULLS(c, live)\n        TEST(live) { PASS_ALSO(live, BETWEEN(u8, c[i], c_low, c_span) & !IS_NULL(c)); }\n"
             "        LOAD(u8, a, live)\n        BETWEEN_TEST_ALSO(live, u8, a, a_low, a_span)\n"
             "        PICK(live)\n        STEP(0, live)\n",
    .head = "    COLUMN(u8, b, 0)\n    PARAM(u8, b_low, 0)\n    PARAM(u8, b_span, 1)\n"
            "    COLUMN(u8, c, 1)\n    NULLS(c, 1)\n    PARAM(u8, c_low, 2)\n    PARAM(u8, c_span, 3)\n"
            "    COLUMN(u8, a, 2)\n    PARAM(u8, a_low, 4)\n    PARAM(u8, a_span, 5)\n    COLUMN(u32, d, 3)\n" TOTALS,
    .sink = "        LOAD(u32, d, live)\n" SUM_D, .ends = ENDS, .columns = { 1, 2, 0, 3 }, .params = { 5, 30, 0, 60, 2, 4 }, .n_counts = 1,
};

static u8 few[100] = { [3] = 1, [7] = 1, [20] = 1, [30] = 1, [33] = 1 };

// Both tests, then a look-up by b, then a filter.
static Handmade sum_joined(void)
{
    Handmade query = sum_ab;
    query.steps = TEST_AB "        UNSURE FLAG_FILTER(live, u8, b, t_from, t_ok)\n        STEP(1, live)\n"
                          "        LOAD_ROWS(u8, c, live)\n        FILTER(live) { KEEP(live, VALUE(c) > p5); }\n        STEP(2, live)\n";
    query.head = HEAD_AB "    PARAM(u64, t_from, 4)\n    TABLE(u8, t_ok, 0)\n    COLUMN(u8, c, 2)\n    PARAM(i64, p5, 5)\n    COLUMN(u32, d, 3)\n" TOTALS;
    query.columns[2] = 2, query.columns[3] = 3;
    query.params[5] = 10;
    query.table = few;
    query.n_counts = 3;
    return query;
}

// ---- what is shared -----------------------------------------------------------------------------------------------------

TEST(the_same_steps_are_taken_once)
{
    Handmade queries[] = { sum_ab, sum_ab };
    begin();
    queries[1].sink = "        LOAD_ROWS(u8, c, live)\n        EACH(live) { ADD(a1_, VALUE(c)) }\n";
    queries[1].head = HEAD_AB "    COLUMN(u8, c, 2)\n" TOTALS;
    queries[1].columns[2] = 2;
    const char *text = strchr(fuse(queries, 2), '{');
    CHECK_STR(text, "{\n"
              "    MEMBER(m0_, 0)\n    MEMBER(m1_, 1)\n"
              "#define A m0_\n" HEAD_AB "    COLUMN(u32, d, 2)\n    TOTAL(sum, i64, m0_a0_, 0)\n    TOTAL(sum, i64, m0_a1_, 1)\n#undef A\n"
              "#define A m1_\n    COLUMN(u8, c, 2)\n    TOTAL(sum, i64, m1_a0_, 0)\n    TOTAL(sum, i64, m1_a1_, 1)\n#undef A\n"
              "    TILES {\n        ROWS(live)\n"
              "#define A m0_\n        MASK(live)\n        LOAD(u8, a, live)\n        BETWEEN_TEST(live, u8, a, a_low, a_span)\n"
              "        LOAD(u8, b, live)\n        BETWEEN_TEST_ALSO(live, u8, b, b_low, b_span)\n        PICK(live)\n#undef A\n"
              "        {\n#define A m0_\n        LOAD(u32, d, live)\n        EACH(live) { ADD(m0_a1_, VALUE(d)) }\n        TOTAL_ROWS(m0_a0_, live)\n#undef A\n        }\n"
              "        {\n#define A m1_\n        LOAD(u8, c, live)\n        EACH(live) { ADD(m1_a1_, VALUE(c)) }\n#undef A\n        }\n"
              "    }\n"
              "#define A m0_\n    TOTAL_END(sum, i64, m0_a0_, 0)\n    TOTAL_END(sum, i64, m0_a1_, 1)\n#undef A\n"
              "#define A m1_\n    TOTAL_END(sum, i64, m1_a0_, 0)\n    TOTAL_END(sum, i64, m1_a1_, 1)\n#undef A\n}\n");
    end();
}

// In whatever order they have them.
TEST(tests_that_all_have_come_first_and_the_others_look_at_what_is_left)
{
    const Handmade queries[] = { sum_ab, sum_bac };
    begin();
    const char *tiles = strstr(fuse(queries, 2), "    TILES {");
    const char *expected = "    TILES {\n        ROWS(live)\n"
        "#define A m0_\n        MASK(live)\n        LOAD(u8, a, live)\n        BETWEEN_TEST(live, u8, a, a_low, a_span)\n"
        "        LOAD(u8, b, live)\n        BETWEEN_TEST_ALSO(live, u8, b, b_low, b_span)\n        PICK(live)\n#undef A\n"
        "        LOAD(u32, d, live)\n"
        "        {\n#define A m0_\n        EACH(live) { ADD(m0_a1_, VALUE(d)) }\n        TOTAL_ROWS(m0_a0_, live)\n#undef A\n        }\n"
        "        {\n        COPY_ROWS(live, live1)\n#define A m1_\n        MEMBER_ROWS(live1)\n        LOAD(u8, c, live1)\n        LOAD_NULLS(c, live1)\n"
        "        FILTER(live1) { KEEP(live1, BETWEEN(u8, c[i], c_low, c_span) & !IS_NULL(c)); }\n"
        "        EACH(live1) { ADD(m1_a1_, VALUE(d)) }\n        TOTAL_ROWS(m1_a0_, live1)\n#undef A\n        }\n    }\n";
    if (strncmp(tiles, expected, strlen(expected)) != 0)
        CHECK_STR(tiles, expected);
    CHECK_INT(n_shared(queries, 2), 2);
    end();
}

TEST(queries_of_one_text_with_other_parameters_share_columns)
{
    Handmade queries[16];
    begin();
    for (int q = 0; q < 16; q++) {
        queries[q] = sum_ab;
        queries[q].params[0] = q / 2, queries[q].params[3] = q;
    }
    const char *text = fuse(queries, 16);
    CHECK_INT(count_of(text, "LOAD("), 3);
    CHECK_INT(count_of(text, " COLUMN("), 3);
    CHECK_INT(count_of(text, " ROWS(live1)"), 16);
    CHECK_INT(count_of(text, "BETWEEN_TEST("), 16);
    CHECK_INT(count_of(text, "PARAM(u8, b_low,"), 1);              // the same for all
    CHECK_INT(count_of(text, "PARAM(u8, m3_b_span_, 3)"), 1);
    CHECK_INT(n_shared(queries, 16), 0);
    CHECK_INT(n_shared(queries, 1), 2);
    end();
}

TEST(look_ups_and_filters_are_shared)
{
    Handmade queries[] = { sum_joined(), sum_joined(), sum_joined() };
    begin();
    CHECK_INT(n_shared(queries, 3), 4);
    queries[1].params[5] = 40;                                      // of the last filter
    const char *text = fuse(queries, 3);
    CHECK_INT(count_of(text, "FLAG_FILTER(live, u8, b, t_from, t_ok)"), 1);
    CHECK_INT(count_of(text, "COPY_ROWS(live, live1)"), 3);
    CHECK_INT(count_of(text, "LOAD(u8, c, live)"), 1);
    CHECK_INT(n_shared(queries, 3), 3);
    u8 same[100], other[100];
    memcpy(same, few, sizeof few);
    memcpy(other, few, sizeof few);
    other[20] = 0;
    queries[2].table = same;                                        // made by another query, with the same in it
    CHECK_INT(n_shared(queries, 3), 3);
    fuse(queries, 3);
    queries[2].table = other;
    CHECK_INT(n_shared(queries, 3), 2);
    CHECK_INT(count_of(fuse(queries, 3), "FLAG_FILTER("), 3);
    Handmade mixed[] = { sum_joined(), sum_ab, sum_bac };
    CHECK_INT(count_of(fuse(mixed, 3), "BETWEEN_TEST("), 1);
    end();
}

// Look-ups come before tests here and after them there; one carries what it found; blocks come after them.
TEST(what_does_not_depend_on_other_steps_may_come_first)
{
    static const u8 found[100] = { 0, 3, 0, 5, 1, 7, 0, 0, 2, 9, 4 };
    static const char block[] = "        FILTER(live) {\n            const i64 e0 = VALUE(b) * p5;\n            KEEP(live, e0 > kind[i]);\n        }\n        STEP(%d, live)\n";
    Handmade queries[] = { sum_joined(), sum_joined() };
    begin();
    for (int q = 0; q < 2; q++) {
        queries[q].table = found;
        queries[q].n_counts = 3;
        queries[q].params[4] = 0, queries[q].params[5] = 1;
        queries[q].head = "    COLUMN(u8, a, 0)\n    PARAM(u64, t_from, 4)\n    TABLE(u8, kind_of, 0)\n    COLUMN(u8, b, 1)\n    PARAM(u8, b_low, 2)\n    PARAM(u8, b_span, 3)\n"
                          "    PARAM(i64, p5, 5)\n    COLUMN(u32, d, 3)\n" TOTALS;
    }
    queries[0].steps = arena_printf(arena, "        LOAD(u8, a, live)\n        MASK(live)\n        CARRY(u8, kind)\n        LOOKUP_TEST(live, u8, a, t_from, u8, kind_of, kind)\n        PICK(live)\n        STEP(0, live)\n"
                                           "        LOAD(u8, b, live)\n        FILTER(live) { KEEP(live, VALUE(b) < 45); }\n        STEP(1, live)\n%s", arena_printf(arena, block, 2));
    queries[1].steps = arena_printf(arena, "        MASK(live)\n        LOAD_TEST(u8, b, live)\n        UNSURE BETWEEN_TEST(live, u8, b, b_low, b_span)\n        PICK_UNSURE(live)\n        STEP(0, live)\n"
                                           "        LOAD_ROWS(u8, a, live)\n        CARRY(u8, kind)\n        LOOKUP_FILTER(live, u8, a, t_from, u8, kind_of, kind)\n        STEP(1, live)\n%s", arena_printf(arena, block, 2));
    CHECK_INT(n_shared(queries, 2), 1);
    const char *text = fuse(queries, 2);
    CHECK_INT(count_of(text, "LOOKUP_TEST(live, u8, a, t_from, u8, kind_of, kind)"), 1);
    CHECK_INT(count_of(text, "BETWEEN_FILTER(live1, u8, b, b_low, b_span)"), 1);
    CHECK_INT(count_of(text, "CARRY("), 1);
    Handmade tested_first[] = { queries[1], queries[0], queries[1] };
    fuse(tested_first, 3);
    queries[0].steps = queries[1].steps;                            // and the blocks, which rest on it
    CHECK_INT(n_shared(queries, 2), 3);
    CHECK_INT(count_of(fuse(queries, 2), "KEEP("), 1);
    end();
}

// Nobody could say whose failure it was.
TEST(steps_that_can_fail_are_not_shared)
{
    Handmade queries[] = { sum_ab, sum_ab };
    begin();
    for (int q = 0; q < 2; q++) {
        queries[q].steps = TEST_AB "        FILTER(live) {\n            DIV_CHECKED(e0, VALUE(b), VALUE(a) - p4, 2)\n            KEEP(live, e0 > 0);\n        }\n        STEP(1, live)\n";
        queries[q].head = HEAD_AB "    PARAM(i64, p4, 4)\n    COLUMN(u32, d, 2)\n" TOTALS;
        queries[q].params[4] = 13;
        queries[q].n_counts = 2;
    }
    CHECK_INT(n_shared(queries, 2), 2);
    CHECK_INT(count_of(fuse(queries, 2), "DIV_CHECKED("), 2);       // and fuse compares who failed
    Handmade joined = sum_joined(), late = queries[0];              // a look-up is not moved before it
    late.steps = arena_printf(arena, "%s        FLAG_FILTER(live, u8, b, t_from, t_ok)\n        STEP(2, live)\n", queries[0].steps);
    late.head = HEAD_AB "    PARAM(i64, p4, 5)\n    PARAM(u64, t_from, 4)\n    TABLE(u8, t_ok, 0)\n    COLUMN(u32, d, 2)\n" TOTALS;
    late.params[4] = 0, late.params[5] = 13, late.table = few, late.n_counts = 3;
    Handmade both[] = { joined, late };
    CHECK_INT(n_shared(both, 2), 2);
    fuse(both, 2);
    end();
}

// A column called as something that a word derives from another member's column: x_base, x.
TEST(names_of_members_do_not_meet)
{
    Handmade queries[] = { sum_ab, sum_ab, sum_ab };
    begin();
    queries[0].head = HEAD_AB "    COLUMN(u32, d_base, 2)\n" TOTALS;
    queries[0].sink = "        LOAD(u32, d_base, live)\n        EACH(live) { ADD(a1_, VALUE(d_base)) }\n        TOTAL_ROWS(a0_, live)\n";
    queries[1].head = HEAD_AB "    COLUMN(u8, d, 2)\n    NULLS(d, 2)\n" TOTALS;
    queries[1].sink = "        LOAD(u8, d, live)\n        LOAD_NULLS(d, live)\n        EACH(live) {\n            if (!IS_NULL(d)) {\n                ADD(a1_, VALUE(d))\n            }\n        }\n";
    queries[1].columns[2] = 2;
    queries[2] = queries[0];
    fuse(queries, 3);
    queries[0] = queries[1];                                        // d is c here, and with NULLs, and d there
    queries[1] = sum_ab;
    fuse(queries, 3);
    end();
}
