// fuzz_sql.c - any text: sql_bind answers or refuses, and never crashes, hangs or leaks.
//
//     fuzz_sql [ITERATIONS [SEED]]            random mutations of the statements below; runs with any compiler
//     clang -fsanitize=fuzzer -DWEFT_LIBFUZZER ...    the same entry, driven by coverage
//
// What is bound is also printed, compared with itself and, where it has no columns, evaluated.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/bound_help.h"
#include "sql/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Store *store;

static void make_store(void)
{
    static const ColumnDef t_columns[] = {
        { "a", { TYPE_INTEGER, 0, 0 }, false },        { "b", { TYPE_BIGINT, 0, 0 }, false },
        { "s", { TYPE_SMALLINT, 0, 0 }, false },
        { "p", { TYPE_DECIMAL, 12, 2 }, false },       { "q", { TYPE_DECIMAL, 12, 4 }, false },
        { "r", { TYPE_REAL, 0, 0 }, false },
        { "f", { TYPE_DOUBLE, 0, 0 }, false },         { "d", { TYPE_DATE, 0, 0 }, false },
        { "x", { TYPE_TEXT, 0, 0 }, false },
        { "k", { TYPE_BOOLEAN, 0, 0 }, false },
    };
    static const ColumnDef u_columns[] = {
        { "a", { TYPE_INTEGER, 0, 0 }, true },         { "z", { TYPE_TEXT, 0, 0 }, false },
        { "e", { TYPE_DATE, 0, 0 }, false },
    };
    Error err;
    error_clear(&err);
    if (store_open(NULL, NULL, &store, &err) || store_create_table(store, "t", t_columns, COUNT_OF(t_columns), &err) ||
        store_create_table(store, "u", u_columns, COUNT_OF(u_columns), &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(2);
    }
}

static const Table *find_table(void *context, const char *name, TableHome home)
{
    (void)context;
    return home == HOME_TEMPORARY ? NULL : store_table(store, name);
}

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "not true: %s\n", what);
    abort();
}

static bool has_input(const Expr *expr)
{
    if (expr->kind == EXPR_COLUMN || expr->kind == EXPR_PARAM) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (has_input(expr->args[i])) return true;
    return false;
}

// What needs no row can be evaluated.
static void evaluate(Arena *arena, const Node *project)
{
    for (int i = 0; i < project->n_out; i++) {
        Value value;
        Error err;
        error_clear(&err);
        if (has_input(project->exprs[i])) continue;
        if (expr_eval(project->exprs[i], &(EvalContext){ .arena = arena }, &value, &err) == WEFT_OK)
            require(type_equal(value.type, project->exprs[i]->type), "a value has the type of its expression");
    }
}

static void use_plan(Arena *arena, const Plan *plan)
{
    Text        text = { 0 };
    const char *fault = plan_fault(plan);
    if (fault) require(false, fault);
    plan_line(plan, &text);
    text_free(&text);
    if (plan->root->kind == NODE_PROJECT) evaluate(arena, plan->root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!store)
        make_store();
    char *sql = malloc(size + 1);
    if (size)
        memcpy(sql, data, size);
    sql[size] = '\0';
    Arena *arena = arena_new(NULL, "fuzz");
    const Names names = { .table = find_table, .context = NULL, .stop = NULL };
    Statement *statement;
    Error err;
    error_clear(&err);
    weft_status status = sql_bind(arena, sql, &names, &statement, &err);
    require(status == err.status, "the error says what was returned");
    require(status != WEFT_INTERNAL, "no internal error");
    require(err.position >= -1 && err.position <= (int)strlen(sql), "the place is in the text");
    require(sql_statement_length(sql) <= strlen(sql), "a statement is part of the text");
    if (status == WEFT_OK && statement->plan)
        use_plan(arena, statement->plan);
    arena_free(arena);
    free(sql);
    return 0;
}

#ifndef WEFT_LIBFUZZER

static const char *const corpus[] = {
    "select 1, -2.5, 1e3, 'text', null, true, date '1994-01-01', interval '1 day'",
    "select a, b + 1, p * (1 - q) * (1 + p) as charge from t where d <= date '1998-12-01' - interval '90' day",
    "select x, sum(p), avg(a), count(*), min(d), max(x) from t where a between 1 and 10 group by x having "
    "sum(p) > 300 order by 2 desc nulls last limit 10",
    "select distinct a, x from t order by x, a offset 5",
    "select t.a, u.z from t join u on t.a = u.a and d < e where k and x like 'PROMO%' or x not like '_\\%_' escape '!'",
    "select * from t natural join u", "select u.*, v.b from u join t v using (a) cross join t w",
    "select case a when 1 then 'x' when 2 then 'y' else 'z' end, case when k then 1 else 2.5 end from t",
    "select coalesce(a, b, 1), nullif(a, 1), greatest(a, b, 3), least(p, 1.5, null) from t",
    "select a in (1, 2, 3.5, null), x in ('a', 'b'), a not in (1, b) from t",
    "select k is true, k is not false, k is unknown, a is null, a is distinct from b, a is not distinct from "
    "null from t",
    "select extract(year from d), date_part('month', d), extract(dow from date '2000-02-29' + interval '1 "
    "year') from t",
    "select cast(a as double precision), p::int, '7'::smallint, x::text, f::numeric(10,2), 1.5::numeric from t",
    "select sum(case when x = 'a' then p else 0 end) / sum(p) from t group by extract(year from d), a + 1 order "
    "by count(*)",
    "select 1/0, 7 % 0, 2147483647 + 1, 9223372036854775807 * 2, abs(-32768::smallint), 1e308 * 10",
    "select 'a' || 'b', upper(x), current_date, array[1], row(1, 2), $1, (select 1) from t",
    "select a from t where exists (select 1 from u) union select a from u",
    "with v as (select 1) select * from v left join u on true for update",
    "select t.a, z from t left join u on t.a = u.a and b > 1 right join (select a + 1 as y from t) v on y = u.a full "
    "join u w using (a)",
    "select * from (select a, sum(b) from t group by a order by 2 limit 3) v(c, d) natural full join (values (1, 2), "
    "(3, null)) w(c, e)",
    "with v(c) as materialized (select a from u), w as (select c + 1 as d from v) select d, (select max(c) from v) "
    "from w, v, w x",
    "(select a, 'x' from t order by b limit 1) union all (select null, z from u except values (1, 'x')) order by 1, 2 "
    "limit 5",
    "select 1 intersect select 1.5 union select '2' except all select null",
    "select distinct on (a, x) b, count(*) filter (where k) from t group by a, x, b order by x, a, b desc",
    "select count(distinct a), sum(distinct b) filter (where a in (select a from u)) from t having count(*) in (select "
    "a from t)",
    "select a in (select a from u), a not in (select b from t), a <> all (select 1) from t where k or a = any (select "
    "a from u)",
    "select x from t where a in (select a from u where exists (select 1 from t)) and not exists (select * from u) "
    "order by a in (select 1)",
    "select a in (select 1), (select max(a) from u) + a from t group by 1, a having (select true) order by (select 2)",
    "table t", "values (1, 'x', null), (2.5, null, date '2020-01-01') order by column1 + 1 offset 1",
    "explain (tree, rewrites) select (a in (select 1)) in (select k from t), (with v as (select 7 as c) select c from "
    "v) from t",
    "create table if not exists v (a int not null, b decimal(12,2), c varchar(10), d date, e bool null, f "
    "double precision, g text)",
    "create table v (a int primary key, b int default 1 check (b > 0) references t, unique (a))",
    "drop table if exists a, public.b cascade",
    "insert into u (a, z, e) values (1, 'x', '1994-01-01'), (2, null, default), (-3.5, 4, date '1994-01-01' + 1)",
    "insert into t values (1, 2, 3, 4.5, 5.6, 7, 8, '1999-09-09', 'it''s', true) on conflict do nothing returning a",
    "copy t (a, b) from '/tmp/f.tbl' with (format csv, header, delimiter '|', null 'x', quote '\"', escape '\\')",
    "copy t from stdin csv header", "explain (analyze, kernel, verbose off) select a from t",
    "set local weave to on, 'x', 5; ", "reset all", "show time zone", "update t set a = 1 where b = 2 -- comment\n",
    "/* nested /* comment */ */ select $tag$ dollar $tag$, E'\\n\\x41', U&'\\00e4', \"Quoted\" from \"T\"",
    "select a, row_number() over (partition by b order by a rows between 1 preceding and current row) from t "
    "window w as ()",
    "select count(distinct a) filter (where k), percentile_cont(0.5) within group (order by a) from t group by "
    "rollup (a, b)",
    "select ä, '日本語' from t where x ilike 'Ä%'",
};

static const char *const pieces[] = {
    " ", ",", "(", ")", "()", "+", "-", "*", "/", "%", "=", "<>", "<=", "::", ".", ";", "'", "\"", "$$", "--", "/*",
    "*/", "[1]", " and ", " or ", " not ", " is null ", " between 1 and 2 ", " in (1,2) ", "null", "a", "t.", "x", "d",
    "k", "p", "sum(a)", "count(*)", "case when k then ", " end", "::int", "::text", "::date", "::numeric(5,2)",
    "interval '1 month'", "date '1996-02-29'", "9223372036854775807", "-9223372036854775808", "1e999",
    "0.000000000000000001", "999999999999999999.", "'NaN'::float8", "'1994-01-01'", " like '%'", " join u on true ",
    " group by 1 ", " order by 1 ", " limit 1 ", " having true ", " distinct ", "nullif(", "coalesce(", "greatest(",
    " from t ", " where ", " union select ", " intersect ", " except all ", " left join u on ",
    " full join u using (a) ", " natural right join u ", "(select a from u)", " in (select a from t)",
    " = any (select a from u)", "exists (select 1 from t) ", " not in (select b from t) ", " from (select * from t) v ",
    "values (1, 'x'), (null, null)", "with v as (select a from t) ", " filter (where k) ", " distinct on (a) ",
    " v(a, b) ", "table u", "(select max(a) from u)", " limit (select 1)", "abs(-1)", "\xff", "\xc3", "\n", "E'\\",
};

static u64 random_state;

static u32 random_below(u32 n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return n ? (u32)(random_state >> 33) % n : 0;
}

typedef struct Input { char bytes[4096]; size_t length; } Input;

// Replaces LENGTH bytes at AT by BYTES, as far as there is room.
static void splice(Input *input, size_t at, size_t length, const char *bytes, size_t n_bytes)
{
    length = MIN_OF(length, input->length - at);
    if (input->length - length + n_bytes > sizeof(input->bytes))
        return;
    char copy[sizeof(input->bytes)];
    memcpy(copy, bytes, n_bytes);
    memmove(input->bytes + at + n_bytes, input->bytes + at + length, input->length - at - length);
    memcpy(input->bytes + at, copy, n_bytes);
    input->length += n_bytes - length;
}

static void mutate(Input *input)
{
    u32 at = random_below((u32)input->length + 1), from = random_below((u32)input->length + 1);
    const char *piece = pieces[random_below(COUNT_OF(pieces))], *other = corpus[random_below(COUNT_OF(corpus))];
    u32 other_at = random_below((u32)strlen(other)),
        other_end = other_at + random_below((u32)strlen(other) - other_at + 1);
    switch (random_below(8)) {
    case 0:
        splice(input, at, random_below(20), "", 0);
        break;
    case 1:
        splice(input, at, 1, &(char){ (char)random_below(256) }, 1);
        break;
    case 2:
        splice(input, at, 0, input->bytes + from, MIN_OF(random_below(200), input->length - from));
        break;
    case 3:
        splice(input, at, random_below(40), other + other_at, other_end - other_at);
        break;
    case 4:
        for (u32 n = random_below(60); n > 0; n--)
            splice(input, at, 0, piece, strlen(piece));
        break;
    default:
        splice(input, at, random_below(2) * random_below(8), piece, strlen(piece));
    }
}

int main(int n_arguments, char **arguments)
{
    long n_iterations = n_arguments > 1 ? atol(arguments[1]) : 10000;
    random_state = n_arguments > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    for (int i = 0; i < COUNT_OF(corpus); i++)
        LLVMFuzzerTestOneInput((const uint8_t *)corpus[i], strlen(corpus[i]));
    for (long i = 0; i < n_iterations; i++) {
        Input input;
        const char *start = corpus[random_below(COUNT_OF(corpus))];
        input.length = strlen(start);
        memcpy(input.bytes, start, input.length);
        for (u32 n = 1 + random_below(6); n > 0; n--)
            mutate(&input);
        LLVMFuzzerTestOneInput((const uint8_t *)input.bytes, input.length);
    }
    store_close(store);
    printf("%ld texts\n", n_iterations);
    return 0;
}

#endif
