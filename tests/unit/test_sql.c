// test_sql.c - SQL text to bound statements: what they become, what is refused and where, and that no text crashes.
//
// A bound SELECT is compared by how it reads: "select a, sum(p) where a > 1 group by a".

#include "test.h"

#include <pthread.h>

#include <pg_query.h>

#include "bound_help.h"
#include "sql/sql_int.h"

static Store *store;
static Arena *arena;
static Error err;

static const ColumnDef t_columns[] = {
    { "a", { TYPE_INTEGER, 0, 0 }, false },        { "b", { TYPE_BIGINT, 0, 0 }, false },
    { "s", { TYPE_SMALLINT, 0, 0 }, false },
    { "p", { TYPE_DECIMAL, 12, 2 }, false },       { "q", { TYPE_DECIMAL, 12, 4 }, false },
    { "f", { TYPE_DOUBLE, 0, 0 }, false },
    { "d", { TYPE_DATE, 0, 0 }, false },           { "x", { TYPE_TEXT, 0, 0 }, false },
    { "k", { TYPE_BOOLEAN, 0, 0 }, false },
};
static const ColumnDef u_columns[] = {
    { "a", { TYPE_INTEGER, 0, 0 }, true },         { "z", { TYPE_TEXT, 0, 0 }, false },
    { "e", { TYPE_DATE, 0, 0 }, false },
};
static const ColumnDef odd_columns[] = { { "Mixed Case", { TYPE_INTEGER, 0, 0 }, false },
                                         { "real", { TYPE_REAL, 0, 0 }, false } };

static void finish(void)
{
    arena_free(arena);
    store_close(store);
}

static const Table *find_table(void *context, const char *name, TableHome home)
{
    (void)context;
    return home == HOME_TEMPORARY ? NULL : store_table(store, name);
}

static Statement *try_bind(const char *sql)
{
    const Names names = { .table = find_table, .context = NULL, .stop = NULL };
    Statement *statement = NULL;
    if (!store) {
        error_clear(&err);
        CHECK_OK(store_open(NULL, NULL, &store, &err), err);
        CHECK_OK(store_create_table(store, "t", t_columns, COUNT_OF(t_columns), &err), err);
        CHECK_OK(store_create_table(store, "u", u_columns, COUNT_OF(u_columns), &err), err);
        CHECK_OK(store_create_table(store, "Odd", odd_columns, COUNT_OF(odd_columns), &err), err);
        atexit(finish);
    }
    arena_free(arena);
    arena = arena_new(NULL, "test");
    error_clear(&err);
    return sql_bind(arena, sql, &names, &statement, &err) ? NULL : statement;
}

static Statement *bind_ok(const char *sql)
{
    Statement *statement = try_bind(sql);
    if (!statement)
        CHECK_FAIL("%s: %s (%s) at %d", sql, err.message, err.sqlstate, err.position);
    return statement;
}

// ---- how a query reads ----------------------------------------------------------------------------------------------

static void add_list(Text *text, const char *word, const char *separator, int i)
{
    if (i == 0)
        text_add(text, "%s%s ", text->length ? " " : "", word);
    else
        text_add(text, "%s", separator);
}

// The clauses of a plain SELECT, found from the root down.
typedef struct Clauses {
    const Node *limit, *sort, *distinct, *having, *groups, *where, *from;
} Clauses;

static const Node *take(const Node **node, NodeKind kind)
{
    const Node *taken = (*node)->kind == kind ? *node : NULL;
    if (taken) *node = taken->inputs[0];
    return taken;
}

static bool is_distinct(const Node *node)
{
    return node->kind == NODE_AGGREGATE && node->inputs[0]->kind == NODE_PROJECT;
}

static Clauses find_clauses(const Plan *plan)
{
    const Node *node = plan->root;
    Clauses     clauses = { 0 };
    clauses.limit = take(&node, NODE_LIMIT);
    clauses.sort = take(&node, NODE_SORT);
    if (is_distinct(node) || is_distinct(node->inputs[0])) {
        take(&node, NODE_PROJECT);
        clauses.distinct = take(&node, NODE_AGGREGATE);
    }
    take(&node, NODE_PROJECT);
    const Node *filter = take(&node, NODE_FILTER);
    clauses.groups = take(&node, NODE_AGGREGATE);
    clauses.having = clauses.groups ? filter : NULL;
    clauses.where = clauses.groups ? take(&node, NODE_FILTER) : filter;
    clauses.from = node;
    return clauses;
}

static void read_conditions(const Plan *plan, const Node *node, const char *word, int *n, Text *text)
{
    for (int i = 0; node && i < node->n_conditions; i++) {
        add_list(text, word, " and ", (*n)++);
        expr_print(node->conditions[i], plan, text);
    }
}

static void read_joins(const Plan *plan, const Node *node, int *n, Text *text)
{
    for (int i = 0; i < node->n_inputs; i++) read_joins(plan, node->inputs[i], n, text);
    read_conditions(plan, node, "where", n, text);
}

static void read_keys(const Plan *plan, const Node *groups, Text *text)
{
    for (int i = 0; i < groups->n_keys; i++) {
        add_list(text, "group by", ", ", i);
        expr_print(groups->keys[i], plan, text);
    }
    if (!groups->n_keys) text_add(text, " group by nothing");
}

static void read_sort(const Plan *plan, const Node *sort, Text *text)
{
    for (int i = 0; sort && i < sort->n_sort; i++) {
        const SortKey *key = &sort->sort[i];
        int            output = 0;
        while (plan->root->out[output] != key->column) output++;
        add_list(text, "order by", ", ", i);
        text_add(text, "%d%s%s", output + 1, key->descending ? " desc" : "",
                 key->nulls_first == key->descending ? "" : key->nulls_first ? " nulls first" : " nulls last");
    }
}

static const char *read_plan(const Plan *plan)
{
    Text          text = { 0 };
    const Clauses clauses = find_clauses(plan);
    int           n_where = 0, n_having = 0;
    for (int i = 0; i < plan->root->n_out; i++) {
        add_list(&text, clauses.distinct && clauses.groups ? "select distinct" : "select",
                 i == plan->n_visible ? " hidden " : ", ", i);
        expr_print(plan_column_expr(plan, plan->root->out[i], -1), plan, &text);
    }
    read_joins(plan, clauses.from, &n_where, &text);
    read_conditions(plan, clauses.where, "where", &n_where, &text);
    if (clauses.groups || clauses.distinct) read_keys(plan, clauses.groups ? clauses.groups : clauses.distinct, &text);
    read_conditions(plan, clauses.having, "having", &n_having, &text);
    read_sort(plan, clauses.sort, &text);
    if (clauses.limit && clauses.limit->limit >= 0) text_add(&text, " limit %lld", (long long)clauses.limit->limit);
    if (clauses.limit && clauses.limit->offset > 0) text_add(&text, " offset %lld", (long long)clauses.limit->offset);
    return text_keep(arena, &text);
}

static const Plan *plan_of(const char *sql)
{
    const Plan *plan = bind_ok(sql)->plan;
    CHECK(plan != NULL);
    const char *fault = plan_fault(plan);
    if (fault) CHECK_FAIL("%s: not true: %s", sql, fault);
    return plan;
}

static const char *bound(const char *sql)
{
    return read_plan(plan_of(sql));
}

static const char *tree(const char *sql)
{
    Text text = { 0 };
    plan_line(plan_of(sql), &text);
    return text_keep(arena, &text);
}

#define CHECK_BOUND(sql, should) CHECK_STR(bound(sql), should)
#define CHECK_TREE(sql, should) CHECK_STR(tree(sql), should)

// Where the text has MARK for the last time; -1 when there is no mark.
static int place_of(const char *sql, const char *mark)
{
    int at = -1;
    for (const char *p = mark ? strstr(sql, mark) : NULL; p; p = strstr(p + 1, mark))
        at = (int)(p - sql);
    return at;
}

// Fails with the SQLSTATE, at the mark, with MESSAGE in it.
static void check_fails(const char *sql, const char *sqlstate, const char *mark, const char *message, int line)
{
    int at = place_of(sql, mark);
    if (try_bind(sql))
        CHECK_FAIL("line %d: %s is bound", line, sql);
    if (strcmp(err.sqlstate, sqlstate) != 0 || err.position != at || !strstr(err.message, message))
        CHECK_FAIL("line %d: %s: %s at %d: %s, should be %s at %d: %s", line, sql, err.sqlstate, err.position,
                   err.message, sqlstate, at, message);
}
#define CHECK_FAILS(sql, sqlstate, mark, message) check_fails(sql, sqlstate, mark, message, __LINE__)

// Refused by name.
#define CHECK_REFUSED(sql, mark, name) check_fails(sql, "0A000", mark, name " is not supported yet", __LINE__)

static char *repeat(const char *before, const char *left, int n, const char *middle, const char *right,
                    const char *after)
{
    size_t bytes = strlen(before) + strlen(middle) + strlen(after) + (strlen(left) + strlen(right)) * (size_t)n + 1;
    char *text = malloc(bytes), *p = stpcpy(text, before);
    for (int i = 0; i < n; i++)
        p = stpcpy(p, left);
    p = stpcpy(p, middle);
    for (int i = 0; i < n; i++)
        p = stpcpy(p, right);
    stpcpy(p, after);
    return text;
}

// ---- splitting ------------------------------------------------------------------------------------------------------

TEST(statements_end_at_semicolons)
{
    CHECK_INT(sql_statement_length("select 1; select 2"), 9);
    CHECK_INT(sql_statement_length("select 1"), 0);
    CHECK_INT(sql_statement_length(""), 0);
    CHECK_INT(sql_statement_length("  \n"), 0);
    CHECK_INT(sql_statement_length(";"), 1);
    CHECK_INT(sql_statement_length("-- x;\n ;"), 8);
    CHECK_INT(sql_statement_length("select ';';x"), 11);
    CHECK_INT(sql_statement_length("select 'it''s;';"), 16);
    CHECK_INT(sql_statement_length("select 'a\\';';"), 12);
    CHECK_INT(sql_statement_length("select e'a\\';';"), 15);
    CHECK_INT(sql_statement_length("select E'a\\\\';';"), 14);
    CHECK_INT(sql_statement_length("select some'a\\';'"), 16);
    CHECK_INT(sql_statement_length("select \";\"\"\";"), 13);
    CHECK_INT(sql_statement_length("select $$;$$;"), 13);
    CHECK_INT(sql_statement_length("select $a$;$$;$a$;"), 18);
    CHECK_INT(sql_statement_length("select a$b$;"), 12);
    CHECK_INT(sql_statement_length("select $1;"), 10);
    CHECK_INT(sql_statement_length("/* ; /* ; */ ; */;"), 18);
    CHECK_INT(sql_statement_length("/* ; /* ; */ ;"), 0);
    CHECK_INT(sql_statement_length("select 'open;"), 0);
    CHECK_INT(sql_statement_length("select $x$open;"), 0);
    CHECK_INT(sql_statement_length("select 1--;\n;"), 13);
    CHECK_INT(sql_statement_length("select 1/2;"), 11);
}

TEST(empty_statements)
{
    CHECK_INT(bind_ok("")->kind, STATEMENT_EMPTY);
    CHECK_INT(bind_ok(" ; ")->kind, STATEMENT_EMPTY);
    CHECK_INT(bind_ok("-- nothing")->kind, STATEMENT_EMPTY);
    CHECK_FAILS("select 1; select 2", "42601", " select 2", "more than one statement");
}

TEST(syntax_errors_have_a_byte_offset)
{
    CHECK_FAILS("selec 1", "42601", "selec", "syntax error at or near \"selec\"");
    CHECK_FAILS("select 'ää' frm t x", "42601", "t x", "syntax error at or near \"t\"");
    CHECK(!try_bind("select 1 +"));
    CHECK_STR(err.message, "syntax error at end of input");
    CHECK_INT(err.position, 10);
}

TEST(text_must_be_utf8)
{
    CHECK_FAILS("select '\xff'", "22021", NULL, "UTF8");
    CHECK_FAILS("select E'\\xff'", "42601", NULL, "invalid byte sequence");
}

// ---- SELECT: expressions --------------------------------------------------------------------------------------------

TEST(select_constants)
{
    CHECK_BOUND("select 1, -1, 1.50, 'x', null, true, 0", "select 1, -1, 1.50, 'x', null, true, 0");
    CHECK_BOUND("select -2147483648, -9223372036854775808, 1e3", "select -2147483648, -9223372036854775808, 1000");
    CHECK_BOUND("select + 5, - (-3), +'7'", "select 5, 3, 7");
    CHECK_BOUND("select 1 + 2 * 3, 7 / 2, 7 % 4, 1 = 1", "select 7, 3, 3, true");
    CHECK_BOUND("select $$it's$$, E'a\\tb', U&'\\00e4'", "select 'it''s', 'a\tb', 'ä'");
    CHECK_FAILS("select b'101'", "0A000", "b'101'", "bit strings");
}

TEST(columns_of_a_query_have_postgresql_names)
{
    const char *sql =
        "select a, t.b, a + 1, count(*), sum(a) as total, coalesce(a, 1), nullif(a, 1), greatest(a, 1), case "
        "when k then 1 end,"
        " case when k then 1 else a end, a::bigint, 1::bigint, date '1994-01-01', extract(year from d), true, 'x'"
        " from t group by a, b, k, d";
    const char *names[] = { "a",    "b", "?column?", "count", "total", "coalesce", "nullif", "greatest",
                            "case", "a", "a",        "int8",  "date",  "extract",  "bool",   "?column?" };
    const Plan *plan = plan_of(sql);
    CHECK_INT(plan->n_visible, COUNT_OF(names));
    for (int i = 0; i < COUNT_OF(names); i++)
        CHECK_STR(plan->names[i], names[i]);
}

TEST(operators_become_what_there_is)
{
    CHECK_BOUND("select a between 1 and 2 from t", "select a >= 1 and a <= 2");
    CHECK_BOUND("select a not between 1 and 2 from t", "select a < 1 or a > 2");
    CHECK_BOUND("select a in (3, 1), a not in (1), a in (1, b, 3), a not in (1, b, 3) from t",
                "select a in (1, 3), a <> 1, a = b or a in (1, 3), a <> b and not a in (1, 3)");
    CHECK_BOUND("select x like 'a%', x not like 'b', x ilike 'c', x like 'd' escape '!' from t",
                "select x like 'a%', not x like 'b', x ilike 'c', x like 'd' escape '!'");
    CHECK_BOUND(
        "select a is null, a is not null, k is true, k is not true, k is false, k is not false, k is unknown from t",
        "select a is null, a is not null, coalesce(k, false), not coalesce(k, false), not coalesce(k, true), "
        "coalesce(k, true), k is null");
    CHECK_BOUND("select a is distinct from b, a is not distinct from b from t",
                "select coalesce(a <> b, a is not null or b is not null), "
                "not coalesce(a <> b, a is not null or b is not null)");
    CHECK_BOUND("select a is distinct from null, a is not distinct from 1 from t",
                "select a is not null, not coalesce(a <> 1, true)");
    CHECK_BOUND("select nullif(a, 1), coalesce(a, b) from t",
                "select case when a = 1 then null else a end, coalesce(a::bigint, b)");
    CHECK_BOUND("select case a when 1 then 'x' when 2 then 'y' end from t",
                "select case when a = 1 then 'x' when a = 2 then 'y' else null end");
    CHECK_BOUND("select greatest(a, 1), least(a) from t",
                "select case when coalesce(a >= 1, a is not null) then a else 1 end, a");
    CHECK_BOUND("select greatest(1, null, 3), least(2, 1, null), greatest(null, null)", "select 3, 1, null");
}

TEST(operators_that_are_missing)
{
    CHECK_REFUSED("select a @> 1 from t", "@>", "operator @>");
    CHECK_BOUND("select a & 1 from t", "select bits_and(a, 1)");
    CHECK_BOUND("select a between symmetric 1 and 2 from t", "select a >= 1 and a <= 2 or a >= 2 and a <= 1");
    CHECK_BOUND("select a = any (array[1]), a <> all ('{1,2}') from t", "select a = 1, not a in (1, 2)");
    CHECK_BOUND("select (a, b) = (1, 2), (a, b) < (1, 2) from t", "select a = 1 and b = 2, a < 1 or a = 1 and b < 2");
    CHECK_REFUSED("select (a, b) from t", "(a, b)", "a row (a, b)");
    CHECK_FAILS("select a from t where a = $1", "42P02", "$1", "there is no parameter $1");
    CHECK_BOUND("select x collate \"C\" from t", "select x");
    CHECK_REFUSED("select x collate \"de\" from t", "collate", "COLLATE of another order than C");
    CHECK_REFUSED("select current_time", "current_time", "CURRENT_TIME");
    CHECK_REFUSED("select array[1]", "array", "ARRAY");
    CHECK_FAILS("select a === b from t", "42883", "===", "operator does not exist: ===");
}

TEST(functions)
{
    CHECK_BOUND("select abs(a), mod(a, 2), extract(year from d), date_part('DOW', d) from t",
                "select abs(a), a % 2, extract(year from d), extract(dow from d)::double precision");
    CHECK_BOUND("select pg_catalog.abs(-1)", "select 1");
    CHECK_BOUND("select upper(x), substring(x from 1 for 2), x || 'a', x ~ 'a' from t",
                "select upper(x), substring(x, 1, 2), textcat(x, 'a'), x ~ 'a'");
    CHECK_REFUSED("select regexp_match(x, 'a') from t", "regexp_match", "function regexp_match");
    CHECK_FAILS("select extract(hour from d) from t", "0A000", "hour", "unit \"hour\" not supported for type date");
    CHECK_FAILS("select extract(foo from d) from t", "22023", "foo", "unit \"foo\" not recognized");
    CHECK_FAILS("select foo(a) from t", "42883", "foo", "function foo with 1 argument does not exist");
    CHECK_HAS(err.hint, "stddev");
    CHECK_FAILS("select abs(a, b) from t", "42883", "abs", "function abs(integer, bigint) does not exist");
    CHECK_FAILS("select abs(distinct a) from t", "42809", "abs", "not an aggregate");
    CHECK_FAILS("select myschema.abs(a) from t", "42883", "myschema", "does not exist");
}

TEST(casts)
{
    CHECK_BOUND("select '1994-01-01'::date, date '1994-01-01', cast('7' as int), 1.6::int",
                "select date '1994-01-01', date '1994-01-01', 7, 2");
    CHECK_BOUND("select date '1998-12-01' - interval '90' day, date '1995-01-31' + interval '1' month",
                "select timestamp '1998-09-02 00:00:00', timestamp '1995-02-28 00:00:00'");
    CHECK_BOUND("select date '1996-02-29' + interval '1 year'", "select timestamp '1997-02-28 00:00:00'");
    CHECK_BOUND("select d from t where d < date '1996-02-29' + interval '1 year'",
                "select d where d < date '1997-02-28'");
    CHECK_BOUND("select d from t where d < timestamp '1996-02-29 12:00'", "select d where d <= date '1996-02-29'");
    CHECK_BOUND("select d + interval '3' day from t",
                "select timestamp_shift(date_to_timestamp(d), interval '3 days')");
    CHECK_BOUND(
        "select a::numeric, p::numeric, '1.2345'::numeric, p::numeric(10,1), sum(p)::numeric from t group by 1, 2, 4",
        "select a::decimal(10,0), p, 1.2345, p::decimal(10,1), sum(p) group by a::decimal(10,0), p, p::decimal(10,1)");
    CHECK_BOUND("select a::double precision, a::float4, a::float8, a::real, a::int2, p::bigint from t",
                "select a::double precision, a::real, a::double precision, a::real, a::smallint, p::bigint");
    CHECK_BOUND("select d + interval '1 month' from t",
                "select timestamp_shift_months(date_to_timestamp(d), interval '1 mon')");
    CHECK_BOUND("select interval '1 hour'", "select interval '01:00:00'");
    CHECK_BOUND("select x::varchar(3) from t", "select left(x, 3)");
    CHECK_BOUND("select avg(f)::numeric from t", "select avg(f)::numeric group by nothing");
    CHECK_REFUSED("select x::money from t", "money", "type money");
    CHECK_REFUSED("select x::timestamp(3) from t", "timestamp", "a number of digits of seconds");
    CHECK_FAILS("select x::int[] from t", "0A000", "int[]", "arrays are not supported");
    CHECK_FAILS("select x::foo from t", "42704", "foo", "type \"foo\" does not exist");
    CHECK_FAILS("select 'x'::int", "22P02", "::int", "invalid input syntax for type integer: \"x\"");
    CHECK_FAILS("select date '1994-13-01'", "22008", "date", "out of range");
    CHECK_FAILS("select true::date", "42846", "::date", "cannot cast type boolean to date");
}

// ---- SELECT: FROM ---------------------------------------------------------------------------------------------------

TEST(names_are_found)
{
    CHECK_BOUND("select A, T.b, public.t.s from T", "select a, b, s");
    CHECK_BOUND("select v.a from t as v", "select a");
    CHECK_BOUND("select \"Mixed Case\", \"real\" from \"Odd\"", "select \"Mixed Case\", real");
    CHECK_BOUND("select * from u", "select a, z, e");
    CHECK_BOUND("select u.*, t.a from t, u", "select u.a, u.z, u.e, t.a");
    CHECK_BOUND("select * from u v, u w", "select v.a, v.z, v.e, w.a, w.z, w.e");
    CHECK_FAILS("select nope from t", "42703", "nope", "column \"nope\" does not exist");
    CHECK_FAILS("select t.nope from t", "42703", "t.nope", "column \"nope\" of table \"t\" does not exist");
    CHECK_FAILS("select v.a from t", "42P01", "v.a", "missing FROM-clause entry for table \"v\"");
    CHECK_FAILS("select t.a from t as v", "42P01", "t.a", "missing FROM-clause entry for table \"t\"");
    CHECK_FAILS("select a from nope", "42P01", "nope", "table \"nope\" does not exist");
    CHECK_FAILS("select a from other.t", "42P01", "other.t", "table \"other.t\" does not exist");
    CHECK_FAILS("select a from t, u", "42702", "a from", "column reference \"a\" is ambiguous");
    CHECK_FAILS("select 1 from t, t", "42712", "t", "table name \"t\" specified more than once");
    CHECK_FAILS("select *", "42601", "*", "SELECT * with no tables");
    CHECK_FAILS("select a + t.* from t", "42601", "t.*", "row expansion");
    CHECK_FAILS("select \"mixed case\" from \"Odd\"", "42703", "\"mixed", "does not exist");
    CHECK_STR(err.hint, "Perhaps you meant \"Mixed Case\".");
}

TEST(joins_are_conditions)
{
    CHECK_BOUND("select 1 from t join u on t.a = u.a where k", "select 1 where t.a = u.a and t.k");
    CHECK_BOUND("select 1 from t inner join u on t.a = u.a and b > 1", "select 1 where t.a = u.a and t.b > 1");
    CHECK_BOUND("select 1 from t cross join u where true", "select 1");
    CHECK_BOUND("select * from u join t using (a) where a = 1",
                "select u.a, u.z, u.e, t.b, t.s, t.p, t.q, t.f, t.d, t.x, t.k where u.a = t.a and u.a = 1");
    CHECK_BOUND("select t.a, u.a from t natural join u", "select t.a, u.a where t.a = u.a");
    CHECK_BOUND("select a from u v join u w using (a) join u y using (a)", "select v.a where v.a = w.a and v.a = y.a");
    CHECK_BOUND("select 1 from (t join u on t.a = u.a)", "select 1 where t.a = u.a");
    CHECK_REFUSED("select 1 from (t join u on true) j", "u on", "an alias for a join");
    CHECK_FAILS("select 1 from t join u using (b)", "42703", "u using", "does not exist in right table");
    CHECK_FAILS("select 1 from t v, t w join u on v.a = u.a", "42P01", "v.a",
                "invalid reference to FROM-clause entry for table \"v\"");
    CHECK_FAILS("select 1 from t join u on t.a", "42804", "t.a",
                "argument of JOIN/ON must be type boolean, not type integer");
    CHECK_FAILS("select 1 from t join u on count(*) > 1", "42803", "count",
                "aggregate functions are not allowed in JOIN/ON");
}

TEST(where_is_split_at_and)
{
    CHECK_BOUND("select 1 from t where a = 1 and (b = 2 and (s = 3 or s = 4)) and true",
                "select 1 where a = 1 and b = 2 and s = 3 or s = 4");
    CHECK_INT(find_clauses(plan_of("select 1 from t where a = 1 and b = 2 and k")).where->n_conditions, 3);
    CHECK(!find_clauses(plan_of("select 1 from t where 1 = 1")).where);
    CHECK_BOUND("select 1 from t where 1 = 2", "select 1 where false");
    CHECK_BOUND("select 1 from t where null", "select 1 where null");
    CHECK_BOUND("select 1 from t where a between 1 and 3 and 't'", "select 1 where a >= 1 and a <= 3");
    CHECK_FAILS("select 1 from t where a", "42804", "a", "");
    CHECK_FAILS("select 1 from t where sum(a) > 1", "42803", "sum", "aggregate functions are not allowed in WHERE");
}

TEST(from_refuses)
{
    CHECK_REFUSED("select * from sqrt(1)", "from", "a function in FROM other than generate_series and unnest");
    CHECK_REFUSED("select * from t tablesample system (1)", "system", "TABLESAMPLE");
}

// ---- SELECT: groups -------------------------------------------------------------------------------------------------

TEST(groups)
{
    CHECK_BOUND("select a, sum(p) from t group by a", "select a, sum(p) group by a");
    CHECK_BOUND("select a + 1, count(*) from t group by a + 1", "select a + 1, count(*) group by a + 1");
    CHECK_BOUND("select a + 1 + b from t group by a + 1, b", "select a + 1 + b group by a + 1, b");
    CHECK_BOUND("select a + 1 as y from t group by y", "select a + 1 group by a + 1");
    CHECK_BOUND("select b as a from t group by a, b", "select b group by a, b");
    CHECK_BOUND("select a, b from t group by 2, 1", "select a, b group by b, a");
    CHECK_BOUND("select sum(a), sum(a) + count(*), count(1) from t",
                "select sum(a), sum(a) + count(*), count(*) group by nothing");
    CHECK_BOUND("select 1 from t having count(*) > 1", "select 1 group by nothing having count(*) > 1");
    CHECK_BOUND("select a from t group by a having sum(p) > 300 and a < 5",
                "select a group by a having sum(p) > 300.00 and a < 5");
    CHECK_BOUND("select min(distinct a), max(x) from t", "select min(a), max(x) group by nothing");
    CHECK_BOUND("select 'x', a from t group by 1, 2", "select 'x', a group by a");
    CHECK_BOUND("select 1 from t group by 1", "select 1 group by 1");
    CHECK_BOUND("select count(null), min('a') from t", "select count(null), min('a') group by nothing");
    CHECK_BOUND("select sum(case when x = 'a' then p else 0 end) from t",
                "select sum(case when x = 'a' then p else 0.00 end) group by nothing");
    CHECK_INT(find_clauses(plan_of("select sum(a), sum(a), avg(a), sum(a) + avg(a) from t")).groups->n_aggs, 2);
}

TEST(groups_refuse)
{
    CHECK_FAILS("select a, b from t group by a", "42803", "b from",
                "column \"t.b\" must appear in the GROUP BY clause or be used in an aggregate");
    CHECK_FAILS("select a + b from t group by a + 1", "42803", "a + b", "column \"t.a\" must appear");
    CHECK_FAILS("select v.a, sum(b) from t v", "42803", "v.a", "column \"v.a\" must appear");
    CHECK_FAILS("select a from t having k", "42803", "a from", "column \"t.a\" must appear");
    CHECK_FAILS("select sum(sum(a)) from t", "42803", "sum(a)", "aggregate function calls cannot be nested");
    CHECK_FAILS("select a from t group by sum(a)", "42803", "sum", "aggregate functions are not allowed in GROUP BY");
    CHECK_FAILS("select sum(a) from t group by 1", "42803", "1", "aggregate functions are not allowed in GROUP BY");
    CHECK_FAILS("select a from t group by 2", "42P10", "2", "GROUP BY position 2 is not in select list");
    CHECK_FAILS("select a from t group by 'a'", "42601", "'a'", "non-integer constant in GROUP BY");
    CHECK_FAILS("select sum(x) from t", "42883", "sum", "function sum(text) does not exist");
    CHECK_FAILS("select count() from t", "42883", "count", "count(*) must be used");
    CHECK_FAILS("select sum(a, b) from t", "42883", "sum", "function sum with 2 arguments does not exist");
    CHECK_FAILS("select a from t having a", "42804", "a", "");
    CHECK_REFUSED("select a from t group by distinct a", "group", "GROUP BY DISTINCT");
}

TEST(distinct)
{
    CHECK_BOUND("select distinct a, x from t order by x", "select a, x group by a, x order by 2");
    CHECK_BOUND("select distinct a, a + 1, 1 from t", "select a, a + 1, 1 group by a, a + 1");
    CHECK_BOUND("select distinct 1", "select 1");
    CHECK_BOUND("select distinct 1 from t", "select 1 group by 1");
    CHECK_BOUND("select distinct sum(a) from t group by b", "select distinct sum(a) group by b");
    CHECK_BOUND("select distinct b, sum(a) from t group by b", "select b, sum(a) group by b");
    CHECK_FAILS("select distinct a from t order by b", "42P10", "b",
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list");
}

// ---- SELECT: order and limit ----------------------------------------------------------------------------------------

TEST(order)
{
    CHECK_BOUND("select a, b from t order by 2, a desc", "select a, b order by 2, 1 desc");
    CHECK_BOUND("select a from t order by b + 1", "select a hidden b + 1 order by 2");
    CHECK_BOUND("select a as b, b as a from t order by a, t.a", "select a, b order by 2, 1");
    CHECK_BOUND("select a, a + 1 from t order by a + 1, a", "select a, a + 1 order by 2, 1");
    CHECK_BOUND("select a from t order by a nulls first, a desc", "select a order by 1 nulls first");
    CHECK_BOUND("select a from t order by a desc nulls last", "select a order by 1 desc nulls last");
    CHECK_BOUND("select a, sum(b) from t group by a order by sum(b) desc, count(*)",
                "select a, sum(b) hidden count(*) group by a order by 2 desc, 3");
    CHECK_BOUND("select a, a from t order by a", "select a, a order by 1");
    CHECK_FAILS("select a from t order by 2", "42P10", "2", "ORDER BY position 2 is not in select list");
    CHECK_FAILS("select a from t order by 'x'", "42601", "'x'", "non-integer constant in ORDER BY");
    CHECK_FAILS("select a as c, b as c from t order by c", "42702", "c", "");
    CHECK_FAILS("select a, sum(b) from t group by a order by b", "42803", "b", "");
    CHECK_REFUSED("select a from t order by a using <", "a using", "ORDER BY USING");
}

TEST(limits)
{
    CHECK_BOUND("select a from t limit 10 offset 5", "select a limit 10 offset 5");
    CHECK_BOUND("select a from t limit 2 + 3", "select a limit 5");
    CHECK_BOUND("select a from t limit all", "select a");
    CHECK_BOUND("select a from t limit null offset null", "select a");
    CHECK_BOUND("select a from t limit '7'", "select a limit 7");
    CHECK_BOUND("select a from t fetch first 3 rows only", "select a limit 3");
    CHECK_BOUND("select a from t fetch first row only", "select a limit 1");
    CHECK_BOUND("select a from t limit 0", "select a limit 0");
    CHECK_FAILS("select a from t limit -1", "2201W", "-1", "LIMIT must not be negative");
    CHECK_FAILS("select a from t offset -1", "2201X", "-1", "OFFSET must not be negative");
    CHECK_FAILS("select a from t limit true", "42804", "true", "must be type bigint, not type boolean");
    CHECK_FAILS("select a from t limit a", "42P10", "a", "argument of LIMIT must not contain variables");
    CHECK_FAILS("select a from t limit 1/0", "22012", "/", "division by zero");
}

TEST(clauses_that_are_missing)
{
    CHECK_FAILS("with recursive v (n) as (select 1 union select v.n from v, v w) select n from v", "42P19", "v w)",
                "must not appear more than once");
    CHECK_REFUSED("with v as (delete from t returning a) select * from v", "v as", "INSERT, UPDATE or DELETE in WITH");
    CHECK_REFUSED("select a into v from t", "into", "SELECT INTO");
    CHECK_REFUSED("select a from t for update", "for", "FOR UPDATE or FOR SHARE");
    CHECK_REFUSED("select from t", "select", "SELECT without columns");
}

// ---- joins of all kinds ---------------------------------------------------------------------------------------------

TEST(outer_joins)
{
    CHECK_TREE("select t.a, z from t left join u on t.a = u.a and b > 1 where k",
               "project[t.a, u.z](filter[t.k](left[t.a = u.a, t.b > 1](t, u)))");
    CHECK_TREE("select 1 from t right join u on t.a < u.a", "project[1](right[t.a < u.a](t, u))");
    CHECK_TREE("select 1 from t full outer join u on true", "project[1](full[](t, u))");
    CHECK_TREE("select 1 from t left join u on false", "project[1](left[false](t, u))");
    CHECK_TREE("select 1 from t v, t w left join u on w.a = u.a, u y",
               "project[1](inner[](inner[](v, left[w.a = u.a](w, u)), y))");
    CHECK_TREE("select 1 from t left join (u v join u w on v.a = w.a) on t.a = v.a",
               "project[1](left[t.a = v.a](t, inner[v.a = w.a](v, w)))");
    CHECK_TREE("select 1 from t v(o) join u w(o, m) on v.o = w.o and m = 'x' and w.e is null",
               "project[1](inner[v.a = w.a, w.z = 'x', w.e is null](v, w))");
    CHECK_FAILS("select 1 from t v(o, m) join u w(o) on v.o = w.m", "42703", "w.m", "column \"m\" of table \"u\"");
    CHECK_FAILS("select 1 from u v(o, m, n, l)", "42P10", "u v",
                "table \"v\" has 3 columns available but 4 columns specified");
    CHECK_FAILS("select 1 from t left join u on t.a", "42804", "t.a", "argument of JOIN/ON must be type boolean");
}

TEST(merged_columns_of_outer_joins)
{
    CHECK_TREE("select a from t left join u using (a)", "project[t.a](left[t.a = u.a](t, u))");
    CHECK_TREE("select a from t right join u using (a)", "project[u.a](right[t.a = u.a](t, u))");
    CHECK_BOUND("select a, t.a, u.a from t full join u using (a) where a > 1",
                "select coalesce(t.a, u.a), t.a, u.a where t.a = u.a and coalesce(t.a, u.a) > 1");
    CHECK_TREE("select a from u v natural full join (select a from t) w",
               "project[coalesce(v.a, t.a)](project[v.a, v.z, v.e, t.a, coalesce(v.a, t.a)](full[v.a = t.a](v, "
               "project[t.a](t))))");
    CHECK_BOUND("select * from (select 1 as y, 2 as z) v full join (select 1 as y, 3 as w) o using (y)",
                "select coalesce(1, 1), 2, 3 where 1 = 1");
    CHECK_FAILS("select 1 from t full join u using (a, a)", "42701", "u using",
                "appears more than once in USING clause");
}

// ---- subqueries in FROM, VALUES, WITH -------------------------------------------------------------------------------

TEST(derived_tables)
{
    CHECK_TREE("select y, v.b from (select a + 1 as y, b from t where k) v where y > 3 and b < 2",
               "project[a + 1, b](filter[a + 1 > 3, b < 2](project[a + 1, b](filter[k](t))))");
    CHECK_TREE("select * from (select a, sum(b) from t group by a order by 2 limit 3) v(c, d) where d > 1",
               "project[a, sum(b)](filter[sum(b) > 1](limit[3, 0](sort[sum(b)](project[a, sum(b)](group[a; "
               "sum(b)](t))))))");
    CHECK_TREE("select v.a from (select a from t order by b) v",
               "project[a](project[a](sort[b](project[a, b](t))))");
    CHECK_TREE("select v.b from (select a, a as b from t) v", "project[a](project[a, a](t))");
    CHECK_TREE("select max(v.c) from (select count(*) as c from t group by a) v",
               "project[max(count(*))](group[max(count(*))](project[count(*)](group[a; count(*)](t))))");
    CHECK_TREE("select 1 from (select 1 as y) v join (select 2 as y) w on v.y = w.y",
               "project[1](inner[1 = 2](project[1](values ()), project[2](values ())))");
    CHECK_FAILS("select * from (select 1)", "42601", "(select", "subquery in FROM must have an alias");
    CHECK_FAILS("select * from (select 1) v(c, d)", "42P10", "1) v", "table \"v\" has 1 columns available but 2");
    CHECK_FAILS("select v.y from (select a from t) v", "42703", "v.y", "column \"y\" of table \"v\" does not exist");
    CHECK_FAILS("select t.a from (select a from t) v", "42P01", "t.a", "missing FROM-clause entry for table \"t\"");
    CHECK_FAILS("select a from (select a, b as a from t) v", "42702", "a from (",
                "column reference \"a\" is ambiguous");
    CHECK_FAILS("select v.a from (select a, b as a from t) v", "42702", "v.a", "column reference \"a\" is ambiguous");
    CHECK_FAILS("select 1 from (select 1) v, (select 2) v", "42712", "2)", "table name \"v\" specified more than once");
    CHECK_FAILS("select * from t, (select t.a) v", "42P01", "t.a",
                "invalid reference to FROM-clause entry for table \"t\"");
    CHECK_HAS(err.hint, "cannot be referenced from this part of the query");
    CHECK_FAILS("select * from t, (select b) v", "42703", "b)", "column \"b\" does not exist");
    CHECK_FAILS("select y, count(*) from (select a as y from t) v", "42803", "y, c", "column \"v.y\" must appear");
}

TEST(values)
{
    CHECK_TREE("values (1, 'x'), (2.5, null), (null, 'y')", "values (1.0, x), (2.5, null), (null, y)");
    CHECK_TREE("values (2), (1) order by 1 desc limit 1", "limit[1, 0](sort[column1 desc](values (2), (1)))");
    CHECK_TREE("values (2), (1) order by column1 + 1",
               "sort[column1 + 1](project[column1, column1 + 1](values (2), (1)))");
    CHECK_TREE("select v.b, column1 from (values (1, 2, 3), (4, 5, 6)) v(c, b), (values (date '2020-01-01')) w",
               "project[column2, column1](inner[](values (1, 2, 3), (4, 5, 6), values (2020-01-01)))");
    CHECK_STR(plan_of("values (1, 2)")->names[1], "column2");
    CHECK_TREE("select a from t where a in (values (1), (2))", "project[a](semi[a = column1](t, values (1), (2)))");
    CHECK_FAILS("values (1), (1, 2)", "42601", "1, 2", "VALUES lists must all be the same length");
    CHECK_FAILS("values (1), ('x'::text)", "42804", "::text", "VALUES types integer and text cannot be matched");
    CHECK_FAILS("values (1), ('x')", "22P02", "'x'", "invalid input syntax for type integer");
    CHECK_FAILS("values (count(*))", "42803", "count", "aggregate functions are not allowed in VALUES");
    CHECK_FAILS("values (a)", "42703", "a)", "column \"a\" does not exist");
    CHECK_FAILS("values (1), (default)", "42601", "default", "DEFAULT is not allowed in this context");
    CHECK_FAILS("values (1) order by 2", "42P10", "2", "ORDER BY position 2 is not in select list");
    CHECK_FAILS("values (1) order by sum(column1)", "42803", "sum", "aggregate functions are not allowed in ORDER BY");
    CHECK_FAILS("values (1/0)", "22012", "/", "division by zero");
    CHECK_TREE("values (1, (select 2))", "project[1, $1](values ()); $1: project[2](values ())");
}

TEST(with_queries)
{
    CHECK_TREE("with v as (select a, b from t) select v.a, w.b from v, v w where v.a = w.a",
               "project[a, b](filter[a = a](inner[](v#0, w#0))); #0: project[a, b](t)");
    CHECK_TREE("with v(c) as materialized (select a from u), w as not materialized (select c + 1 as d from v) table w",
               "project[d](w#1); #0: project[a](u); #1: project[c + 1](v#0)");
    CHECK_TREE("with u as (select 1 as c) select c from u", "project[c](u#0); #0: project[1](values ())");
    CHECK_TREE("with v as (select 1 as c) select * from (with v as (select 2 as d) select d from v) w, v",
               "project[d, c](inner[](project[d](v#1), v#0)); #0: project[1](values ()); #1: project[2](values ())");
    CHECK_TREE("with v as (select a from t order by b limit 1) values (1)",
               "values (1); #0: project[a](limit[1, 0](sort[b](project[a, b](t))))");
    CHECK_TREE("select (with v as (select 7 as c) select c from v)",
               "project[$1](values ()); #0: project[7](values ()); $1: project[c](v#0)");
    CHECK_FAILS("with v as (select 1) select * from public.v", "42P01", "public.v", "table \"v\" does not exist");
    CHECK_FAILS("with v as (select * from w), w as (select 1) select 1", "42P01", "w), w",
                "table \"w\" does not exist");
    CHECK_FAILS("with v as (select * from v) select 1", "42P01", "v) s", "table \"v\" does not exist");
    CHECK_FAILS("select * from (with v as (select 1) select 1) w, v", "42P01", "v", "table \"v\" does not exist");
    CHECK_FAILS("with v(c, d) as (select 1) select 1", "42P10", "v(c",
                "WITH query \"v\" has 1 columns available but 2");
    CHECK_FAILS("with v as (select 1), v as (select 2) select 1", "42712", "v as (select 2",
                "WITH query name \"v\" specified");
    CHECK_FAILS("with v as (select nope from t) select 1", "42703", "nope", "");
}

// ---- set operations -------------------------------------------------------------------------------------------------

TEST(set_operations)
{
    CHECK_TREE("select a from t union all select a from u", "union all(project[t.a](t), project[u.a](u))");
    CHECK_TREE("select 1 union select 2 intersect select 3 except all select 4",
               "except all(union(project[1](values ()), intersect(project[2](values ()), project[3](values ()))), "
               "project[4](values ()))");
    CHECK_TREE("(select a from t order by b limit 1) union (select a from u except all values (1))",
               "union(project[t.a](limit[1, 0](sort[t.b](project[t.a, t.b](t)))), except all(project[u.a](u), values "
               "(1)))");
    CHECK_TREE("select a as y from t union select a from u order by y desc, 1 limit 3",
               "limit[3, 0](sort[y desc](union(project[t.a](t), project[u.a](u))))");
    const Plan *plan = plan_of("select a as y, 'x' from t union select a, z from u");
    CHECK_STR(plan->names[0], "y");
    CHECK_STR(plan->names[1], "?column?");
    CHECK_TREE("select y + 1 from (select a as y from t union all select a from u) v where y > 1",
               "project[v.y + 1](filter[v.y > 1](union all(project[t.a](t), project[u.a](u))))");
}

TEST(set_operations_have_one_type)
{
    CHECK_TREE("select a from t union all select b from t v",
               "union all(project[t.a::bigint](project[t.a](t)), project[v.b](v))");
    CHECK_TREE("select null union all select a from t",
               "union all(project[null](project[null](values ())), project[a](t))");
    CHECK_TREE("select d from t union all select '2020-01-01'",
               "union all(project[d](t), project[date '2020-01-01'](project['2020-01-01'](values ())))");
    CHECK_TREE("select 'x' union all select null",
               "union all(project['x'](project['x'](values ())), project[null](project[null](values ())))");
    CHECK_TREE("select 1 except select 1.5",
               "except(project[1::decimal(11,1)](project[1](values ())), "
               "project[1.5::decimal(11,1)](project[1.5](values ())))");
    CHECK_FAILS("select null union select null union select 1", "42804", "1",
                "UNION types text and integer cannot be matched");
    CHECK_FAILS("select 1 union select 'x'", "22P02", "'x'", "invalid input syntax for type integer: \"x\"");
    CHECK_FAILS("select 1 intersect select 'x'::text", "42804", "::text",
                "INTERSECT types integer and text cannot be matched");
    CHECK_FAILS("select 1, 2 union select 1", "42601", "1", "each UNION query must have the same number of columns");
    CHECK_FAILS("select 1 as y union select 2 order by y + 1", "0A000", "+ 1",
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause");
    CHECK_FAILS("select 1 as y union select 2 order by z", "42703", "z", "column \"z\" does not exist");
    CHECK_FAILS("select a from t union select a from u order by t.a", "42P01", "t.a",
                "missing FROM-clause entry for table \"t\"");
    CHECK_FAILS("select 1 as y union select 2 order by 2", "42P10", "2", "ORDER BY position 2 is not in select list");
    CHECK_FAILS("select 1 union select a from nope", "42P01", "nope", "");
}

// ---- DISTINCT ON, FILTER, DISTINCT in aggregates --------------------------------------------------------------------

TEST(distinct_on)
{
    CHECK_TREE("select distinct on (a) a, b from t order by a, d desc",
               "sort[a, d desc; first of 1](project[a, b, d](t))");
    CHECK_TREE("select distinct on (a, x) b from t", "sort[a, x; first of 2](project[b, a, x](t))");
    CHECK_TREE("select distinct on (a, b) a, b from t order by b desc",
               "sort[b desc, a; first of 2](project[a, b](t))");
    CHECK_TREE("select distinct on (b, 1) a, b from t order by 1, b, s limit 2",
               "limit[2, 0](sort[a, b, s; first of 2](project[a, b, s](t)))");
    CHECK_TREE("select distinct on (a + 1) a + 1 as y, sum(b) from t group by a + 1 order by y, 2",
               "sort[a + 1, sum(b); first of 1](project[a + 1, sum(b)](group[a + 1; sum(b)](t)))");
    CHECK_FAILS("select distinct on (a) a, b from t order by b", "42P10", "a) a",
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions");
    CHECK_FAILS("select distinct on (a, b) a from t order by b, s", "42P10", "a, b",
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions");
    CHECK_FAILS("select distinct on (3) a from t", "42P10", "3", "DISTINCT ON position 3 is not in select list");
}

TEST(aggregates_with_filter_or_distinct)
{
    CHECK_BOUND("select count(*) filter (where k), count(1) filter (where a > 1), sum(a) filter (where k) from t",
                "select count(case when k then 1 else null end), count(case when a > 1 then 1 else null end), "
                "sum(case when k then a else null end) group by nothing");
    CHECK_BOUND("select count(distinct a), sum(distinct a), min(distinct a), count(distinct 1), sum(a) from t",
                "select count(distinct a), sum(distinct a), min(a), count(distinct 1), sum(a) group by nothing");
    CHECK_BOUND("select count(distinct x) filter (where k) from t",
                "select count(distinct case when k then x else null end) group by nothing");
    CHECK_BOUND("select max(x) filter (where true) from t", "select max(x) group by nothing");
    CHECK_FAILS("select sum(a) filter (where count(*) > 1) from t", "42803", "count", "not allowed in FILTER");
    CHECK_FAILS("select sum(a) filter (where a) from t", "42804", "a)",
                "argument of FILTER must be type boolean, not type integer");
    CHECK_FAILS("select sum(sum(a)) filter (where k) from t", "42803", "sum(a)",
                "aggregate function calls cannot be nested");
    CHECK_FAILS("select count(distinct a, b) from t", "42883", "count",
                "function count with 2 arguments does not exist");
    CHECK_REFUSED("select sum(a order by b) from t", "sum", "ORDER BY in an aggregate");
}

// ---- subqueries in expressions --------------------------------------------------------------------------------------

TEST(scalar_subqueries)
{
    CHECK_TREE("select a + (select max(a) from u) from t where b > (select min(b) from t v)",
               "project[t.a + $2](filter[t.b > $1](t)); $1: project[min(v.b)](group[min(v.b)](v)); "
               "$2: project[max(u.a)](group[max(u.a)](u))");
    CHECK_TREE("select (select a from u order by z limit 1)",
               "project[$1](values ()); $1: project[a](limit[1, 0](sort[z](project[a, z](u))))");
    CHECK_TREE("select sum(a) + (select 1) from t having count(*) > (select 2)",
               "project[sum(a) + $1](filter[count(*) > $2](group[sum(a), count(*)](t))); $1: project[1](values ()); "
               "$2: project[2](values ())");
    CHECK_TREE("select a from t order by a + (select 1)",
               "sort[a + $1](project[a, a + $1](t)); $1: project[1](values ())");
    CHECK_TREE("select count(*) from t group by a + (select 1)",
               "project[count(*)](group[a + $1; count(*)](t)); $1: project[1](values ())");
    CHECK_TREE("select sum(a + (select 1)) from t",
               "project[sum(a + $1)](group[sum(a + $1)](t)); $1: project[1](values ())");
    CHECK_TREE("select (select 1 union select 2)",
               "project[$1](values ()); $1: union(project[1](values ()), project[2](values ()))");
    const Plan *plan = plan_of("select (select max(a) from t), (select 1 as q), exists (select 1), 1 in (select 1), "
                               "(values (1))");
    const char *names[] = { "max", "q", "exists", "?column?", "column1" };
    for (int i = 0; i < COUNT_OF(names); i++) CHECK_STR(plan->names[i], names[i]);
    CHECK_FAILS("select (select 1, 2)", "42601", "(select", "subquery must return only one column");
    CHECK_FAILS("select (select a from nope)", "42P01", "nope", "");
    CHECK_REFUSED("select a from t limit (select 1)", "(select", "a subquery in LIMIT");
    CHECK_REFUSED("select array(select 1)", "array", "ARRAY (subquery)");
    CHECK_REFUSED("insert into u values ((select 1))", "(select", "a subquery in INSERT");
}

TEST(exists_is_a_count)
{
    CHECK_TREE("select 1 from t where exists (select a from u where a > 1)",
               "project[1](filter[$1 > 0](t)); $1: group[count(*)](limit[1, 0](project[u.a](filter[u.a > 1](u))))");
    CHECK_TREE("select 1 from t where not exists (select 1 from u)",
               "project[1](filter[$1 <= 0](t)); $1: group[count(*)](limit[1, 0](project[1](u)))");
}

TEST(in_subquery_as_a_condition)
{
    CHECK_TREE("select 1 from t where a in (select a from u) and b > 1",
               "project[1](filter[t.b > 1](semi[t.a = u.a](t, project[u.a](u))))");
    CHECK_TREE("select 1 from t where k and (a + 1 = any (select a from u))",
               "project[1](filter[t.k](semi[t.a + 1 = u.a](t, project[u.a](u))))");
    CHECK_TREE("select 1 from t v join t w on v.a = w.a and v.b in (select a from u)",
               "project[1](semi[v.b = u.a](inner[v.a = w.a](v, w), project[u.a](u)))");
    CHECK_TREE("select 1 from t where k or a in (select a from u)",
               "project[1](filter[t.k or mark](mark[t.a = u.a](t, project[u.a](u))))");
    CHECK_TREE("select count(*) from t group by a having sum(b) in (select a from u)",
               "project[count(*)](semi[sum(t.b) = u.a::numeric](group[t.a; count(*), sum(t.b)](t), project[u.a](u)))");
    CHECK_TREE("select 1 from t where a in (select a from u where a in (select 3))",
               "project[1](semi[t.a = u.a](t, project[u.a](semi[u.a = 3](u, project[3](values ())))))");
    CHECK_FAILS("select 1 from t where a in (select a from u) and 1", "42804", "1",
                "argument of AND must be type boolean");
    CHECK_FAILS("select a in (select 1, 2) from t", "42601", "in (", "subquery has too many columns");
    CHECK_FAILS("select a in (select z from u) from t", "42883", "in (", "operator does not exist: integer = text");
    CHECK_TREE("select 1 from t where a > any (select a from u)",
               "project[1](filter[case when t.a > $1 then true when t.a is null and $2 > 0 or $2 > $3 then null "
               "else false end](t)); #0: project[u.a](u); $1: group[min(subquery.a)](subquery#0); $2: "
               "group[count(*)](subquery#0); $3: group[count(subquery.a)](subquery#0)");
    CHECK_REFUSED("select 1 from t where (a, b) = (select 1, 2)", "=", "(a, b) = (subquery)");
}

// a of u is NOT NULL, a of t is not.
TEST(in_subquery_knows_null)
{
    CHECK_TREE("select 1 from u where a not in (select a from u v)",
               "project[1](filter[not mark](mark[u.a = v.a](u, project[v.a](v))))");
    CHECK_TREE("select a in (select a from u) from t",
               "project[case when mark then true when t.a is null and $1 > 0 then null else false end]"
               "(mark[t.a = subquery.a](t, subquery#0)); #0: project[u.a](u); $1: group[count(*)](subquery#0)");
    CHECK_TREE("select 1 from u where a <> all (select a from t)",
               "project[1](filter[not case when mark then true when $1 > $2 then null else false end]"
               "(mark[u.a = subquery.a](u, subquery#0))); #0: project[t.a](t); $1: group[count(*)](subquery#0); "
               "$2: group[count(subquery.a)](subquery#0)");
    CHECK_TREE("select 1 from u left join u v on u.a = v.a where v.a not in (select 1)",
               "project[1](filter[not case when mark then true when v.a is null and $1 > 0 then null else false end]"
               "(mark[v.a = subquery.\"?column?\"](left[u.a = v.a](u, v), subquery#0))); #0: project[1](values ()); "
               "$1: group[count(*)](subquery#0)");
}

TEST(in_subquery_and_groups)
{
    CHECK_TREE("select a in (select a from u), count(*) from u v group by a",
               "project[mark, count(*)](mark[v.a = u.a](group[v.a; count(*)](v), project[u.a](u)))");
    CHECK_TREE("select a in (select a from u), count(*) from u v group by 1",
               "project[mark, count(*)](group[mark; count(*)](mark[v.a = u.a](v, project[u.a](u))))");
    CHECK_TREE("select count(*) filter (where a in (select a from u)) from u v",
               "project[count(case when mark then 1 else null end)](group[count(case when mark then 1 else null end)]"
               "(mark[v.a = u.a](v, project[u.a](u))))");
    CHECK_TREE("select count(*) from u v group by a in (select a from u)",
               "project[count(*)](group[mark; count(*)](mark[v.a = u.a](v, project[u.a](u))))");
    CHECK_TREE("select a from u v order by a in (select a from u)",
               "sort[mark](project[v.a, mark](mark[v.a = u.a](v, project[u.a](u))))");
    CHECK_TREE("select 1 from t left join u v on t.a = v.a and v.a in (select a from u)",
               "project[1](left[t.a = v.a, mark](t, mark[v.a = u.a](v, project[u.a](u))))");
    CHECK_TREE("select 1 from u left join u v on u.a = v.a and u.a in (select a from u)",
               "project[1](left[u.a = v.a, mark](mark[u.a = u.a](u, project[u.a](u)), v))");
    CHECK_TREE("select (a in (select a from u)) in (select k from t) from u v",
               "project[case when mark then true when $1 > $2 then null else false end]"
               "(mark[mark = subquery.k](mark[v.a = u.a](v, project[u.a](u)), subquery#0)); #0: project[t.k](t); "
               "$1: group[count(*)](subquery#0); $2: group[count(subquery.k)](subquery#0)");
    CHECK_FAILS("select b in (select a from u) from t group by a", "42803", "b in", "column \"t.b\" must appear");
    CHECK_FAILS("select sum(a) in (select 1) from t group by 1", "42803", "1",
                "aggregate functions are not allowed in GROUP BY");
    CHECK_TREE("select 1 from t left join u on x = z and t.a + u.a in (select a from u v)",
               "project[1](left[t.x = u.z](t, semi[t.a + u.a = v.a](u, project[v.a](v))))");
    CHECK_TREE("select 1 from t right join u on not exists (select 1 from u v where v.a < t.a + u.a)",
               "project[1](left[](u, filter[not mark](mark[](t, project[1](filter[v.a < t.a + u.a](v))))))");
    CHECK_TREE("select 1 from t full join u on t.a + u.a in (select a from u v)",
               "project[1](full[number = number](left[](t, semi[t.a + a = v.a]((null)#0, project[v.a](v))), projec"
               "t[a, z, e, number]((null)#0))); #0: ?(u)");
}

// A join's right side names columns of its left side.
TEST(correlated_subqueries_are_dependent_joins)
{
    CHECK_TREE("select (select t.a) from t",
               "project[a](single[](t, project[a](project[a](values ()))))");
    CHECK_TREE("select 1 from t where exists (select 1 from u where u.a = b)",
               "project[1](semi[](t, project[1](filter[u.a = t.b](u))))");
    CHECK_TREE("select 1 from t where not exists (select 1 from u where u.a = b)",
               "project[1](filter[not mark](mark[](t, project[1](filter[u.a = t.b](u)))))");
    CHECK_TREE("select 1 from t where a in (select a from u where z = x)",
               "project[1](semi[t.a = u.a](t, project[u.a](filter[u.z = t.x](u))))");
    CHECK_TREE("select 1 from t v where 1 = (select count(*) from (select v.a) w)",
               "project[1](filter[1 = count](single[](v, "
               "project[count(*)](project[count(*)](group[count(*)](project[a](values ())))))))");
    CHECK_TREE("select 1 from t join u on t.a = (select u.a)",
               "project[1](filter[t.a = a](single[](inner[](t, u), project[u.a](project[u.a](values ())))))");
    CHECK_TREE("select (with v as (select b) select 1) from t",
               "project[$1](t); $1: project[1](values ())");
    CHECK_TREE("select a, (select t.a) from t group by a",
               "project[a, a](single[](group[a](t), project[a](project[a](values ()))))");
    CHECK_TREE("select a > all (select u.a from u where z = x) from t",
               "project[not any](single[](t, project[case when t.a <= max(u.a) then true when t.a is null and "
               "count(*) > 0 or count(*) > count(u.a) then null else false end](project[case when t.a <= max(u.a) "
               "then true when t.a is null and count(*) > 0 or count(*) > count(u.a) then null else false "
               "end](group[min(u.a), max(u.a), count(*), count(u.a)](project[u.a](filter[u.z = t.x](u)))))))");
    CHECK_TREE("select 1 from t, lateral (select u.a from u where u.a = t.a) v",
               "project[1](inner[](t, project[u.a](filter[u.a = t.a](u))))");
    CHECK_FAILS("select (select nope) from t", "42703", "nope", "column \"nope\" does not exist");
    CHECK_FAILS("select (select t.*) from t", "42601", "(select t", "subquery must return only one column");
    CHECK_FAILS("select (select b) from t group by a", "42803", "b)",
                "subquery uses ungrouped column \"t.b\" from outer query");
    CHECK_TREE("select (select sum(b)) from t",
               "project[sum](single[](group[sum(b)](t), project[sum(b)](project[sum(b)](values ()))))");
    CHECK_FAILS("select 1 from t where a in (select sum(b) from u)", "42803", "sum",
                "aggregate functions are not allowed in WHERE");
    CHECK_TREE("select (values (b)) from t", "project[column1](single[](t, project[b](project[b](values ()))))");
    CHECK_BOUND("select 1 from t where a in (select a from u)", "select 1 where t.a = u.a");
}

// ---- limits of the whole statement ----------------------------------------------------------------------------------

TEST(statements_are_limited)
{
    char *scans = repeat("select 1 from u", " union all select 1 from u", 64, "", "", "");
    CHECK_FAILS(scans, "54001", "u", "a query can have at most 64 tables");
    char *members = repeat("select 1", " union all select 1", 600, "", "", "");
    CHECK_STATUS(try_bind(members) ? WEFT_OK : err.status, WEFT_TOO_COMPLEX);
    CHECK_STR(err.message, "statement is too complex");
    Text text = { 0 };
    text_add(&text, "with v as (select 1) select 1 from v");
    for (int i = 0; i < 300; i++) text_add(&text, ", v w%d", i);
    CHECK_STATUS(try_bind(text.bytes) ? WEFT_OK : err.status, WEFT_TOO_COMPLEX);
    CHECK_STR(err.message, "query is too large");
    text_free(&text);
    free(scans), free(members);
}

// Columns that stand for columns do not print twice as long each time.
TEST(stacked_columns_print_short)
{
    Text text = { 0 };
    for (int i = 0; i < 60; i++) text_add(&text, "select y + y as y from (");
    text_add(&text, "select a as y from t");
    for (int i = 0; i < 60; i++) text_add(&text, ") v group by y + y");
    CHECK(strlen(tree(text.bytes)) < 1 << 20);
    text_free(&text);
}

// ---- other statements -----------------------------------------------------------------------------------------------

TEST(statements_that_are_missing_have_names)
{
    CHECK_REFUSED("  update t set a = 1", "update", "UPDATE");
    CHECK_REFUSED("delete from t", "delete", "DELETE");
    CHECK_REFUSED("/* hi */ truncate t restart identity", "restart", "RESTART IDENTITY");
    CHECK_REFUSED("begin", "begin", "BEGIN");
    CHECK_REFUSED("commit", "commit", "COMMIT");
    CHECK_REFUSED("rollback", "rollback", "ROLLBACK");
    CHECK_REFUSED("start transaction", "start", "START TRANSACTION");
    CHECK_REFUSED("alter table t add c int", "alter", "ALTER TABLE");
    CHECK_REFUSED("vacuum t", "vacuum", "VACUUM or ANALYZE");
    CHECK_REFUSED("grant select on t to v", "grant", "GRANT or REVOKE");
    CHECK_REFUSED("do $$ begin end $$", "do", "DO");
}

TEST(create_table)
{
    const Statement *create = bind_ok(
        "create table if not exists v (a int not null, b numeric(18,3), c decimal(10,2), d varchar(10), e char(3),"
        " f float, g real, h date, i bool null, j double precision, k bigint, l smallint, m text, n numeric(5),"
        " o numeric(30,2), p numeric(38), q numeric)");
    const char *types[] = { "integer",          "decimal(18,3)", "decimal(10,2)", "text",        "text",
                            "double precision", "real",          "date",          "boolean",     "double precision",
                            "bigint",           "smallint",      "text",          "decimal(5,0)", "numeric(30,2)",
                            "numeric",          "numeric" };
    char name[32];
    CHECK_INT(create->kind, STATEMENT_CREATE_TABLE);
    CHECK_STR(create->name, "v");
    CHECK(create->if_exists && create->columns[0].not_null && !create->columns[1].not_null);
    CHECK_INT(create->n_columns, COUNT_OF(types));
    for (int i = 0; i < COUNT_OF(types); i++)
        CHECK_STR(type_name(create->columns[i].type, name), types[i]);
    CHECK_STR(bind_ok("create table public.\"V w\" (a int)")->name, "V w");
}

TEST(create_table_refuses)
{
    CHECK_REFUSED("create table v (a int default 1)", "default", "DEFAULT");
    CHECK_REFUSED("create table v (a int check (a > 0))", "check", "CHECK");
    CHECK_REFUSED("create table v (a int references t)", "references", "REFERENCES");
    CHECK_REFUSED("create table v (a int generated always as identity)", "generated", "GENERATED AS IDENTITY");
    CHECK_REFUSED("create table v (a int, check (a > 0))", "check", "CHECK");
    CHECK_REFUSED("create table v (a int, unique (a) deferrable)", "unique", "a key that is DEFERRABLE");
    CHECK_REFUSED("create table v (like t)", "like", "LIKE in CREATE TABLE");
    CHECK_REFUSED("create unlogged table v (a int)", "v (", "CREATE UNLOGGED TABLE");
    CHECK_REFUSED("create table v (a int) partition by hash (a)", "partition", "PARTITION BY");
    CHECK_REFUSED("create table v (a int) inherits (t)", "t)", "INHERITS");
    CHECK_REFUSED("create table v (a int) with (x = 1)", "x =", "WITH");
    CHECK_REFUSED("create table v (a money)", "money", "type money");
    CHECK_REFUSED("create table v (a text collate \"C\")", "collate", "COLLATE");
    CHECK_REFUSED("create table v (a interval hour)", "interval", "a column of an interval with fields or a precision");
    CHECK_REFUSED("create table v ()", "v (", "a table without columns");
    CHECK_REFUSED("create table w.v (a int)", "w.v", "a schema other than public");
    CHECK_FAILS("create table v (a numeric(39,2))", "0A000", "numeric", "numeric precision 39");
    CHECK_FAILS("create table v (a numeric(2,3))", "22023", "numeric",
                "numeric scale 3 must be between 0 and precision 2");
    CHECK_FAILS("create table v (a numeric(0))", "22023", "numeric", "numeric precision 0");
    CHECK_FAILS("create table v (a varchar(0))", "22023", "varchar", "length for type varchar must be at least 1");
    CHECK_FAILS("create table v (a foo)", "42704", "foo", "type \"foo\" does not exist");
    CHECK_FAILS("create table v (a int, a text)", "42701", "a text", "column \"a\" specified more than once");
    CHECK_FAILS("create table v (a int null not null)", "42601", "not null", "conflicting NULL/NOT NULL");
}

TEST(drop_table)
{
    const Statement *drop = bind_ok("drop table if exists a, public.b, \"C\"");
    CHECK_INT(drop->kind, STATEMENT_DROP_TABLE);
    CHECK(drop->if_exists);
    CHECK_INT(drop->n_names, 3);
    CHECK_STR(drop->names[1], "b");
    CHECK_STR(drop->names[2], "C");
}

static const char *cell(const Statement *insert, int n_columns, int row, int column)
{
    const Value *value = &insert->rows[row * n_columns + column];
    char *buffer = arena_alloc(arena, 128);
    value_format(value, buffer, 128);
    return value->is_null ? "NULL" : buffer;
}

TEST(insert_values)
{
    const Statement *insert = bind_ok("insert into u values (1, 'x', '1994-01-01'), (1.6, 2, null),"
                                      " (-3.5, true, default), ('7', 1.50, date '1994-01-01' + 1)");
    CHECK_INT(insert->kind, STATEMENT_INSERT);
    CHECK_STR(insert->name, "u");
    CHECK_INT(insert->n_rows, 4);
    const char *cells[4][3] = {
        { "1", "x", "1994-01-01" }, { "2", "2", "NULL" }, { "-4", "true", "NULL" }, { "7", "1.50", "1994-01-02" }
    };
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 3; column++) {
            CHECK_STR(cell(insert, 3, row, column), cells[row][column]);
            CHECK(type_equal(insert->rows[row * 3 + column].type, u_columns[column].type));
        }
    insert = bind_ok(
        "insert into t (p, k, f, s, q) values (1.005, 't', 'NaN', 1.5, -0.00005),"
        " ('12.345', false, 2, 2.5::float8, 7)");
    CHECK_STR(cell(insert, COUNT_OF(t_columns), 0, 3), "1.01");
    CHECK_STR(cell(insert, COUNT_OF(t_columns), 0, 4), "-0.0001");
    CHECK_STR(cell(insert, COUNT_OF(t_columns), 1, 2), "2");
    CHECK_STR(cell(insert, COUNT_OF(t_columns), 0, 0), "NULL");
    CHECK_INT(bind_ok("insert into t values (1)")->n_rows, 1);
    insert = bind_ok("insert into t (a, b, s) values (abs(-3), mod(7, 4), extract(year from date '1994-05-06'))");
    CHECK_STR(cell(insert, COUNT_OF(t_columns), 0, 0), "3");
    CHECK_STR(cell(insert, COUNT_OF(t_columns), 0, 2), "1994");
}

TEST(insert_refuses)
{
    CHECK_FAILS("insert into u values ('x')", "22P02", "'x'", "invalid input syntax for type integer");
    CHECK_FAILS("insert into u values (99999999999)", "22003", "99999999999", "integer out of range");
    CHECK_FAILS("insert into u values (1/0)", "22012", "/0", "division by zero");
    CHECK_FAILS("insert into u values (true)", "42804", "true",
                "column \"a\" is of type integer but expression is of type boolean");
    CHECK_FAILS("insert into u values ('1'::text)", "42804", "::text", "expression is of type text");
    CHECK_FAILS("insert into u (z) values ('x')", "23502", "'x'", "null value in column \"a\" of table \"u\"");
    CHECK_FAILS("insert into u values (1, 2, null, 4)", "42601", "4",
                "INSERT has more expressions than target columns");
    CHECK_FAILS("insert into u (a, z) values (1)", "42601", "1", "INSERT has more target columns than expressions");
    CHECK_FAILS("insert into u values (1), (1, 2)", "42601", "2)", "VALUES lists must all be the same length");
    CHECK_FAILS("insert into u (nope) values (1)", "42703", "nope", "column \"nope\" of table \"u\" does not exist");
    CHECK_FAILS("insert into u (a, a) values (1, 2)", "42701", "a) v", "column \"a\" specified more than once");
    CHECK_FAILS("insert into nope values (1)", "42P01", "nope", "table \"nope\" does not exist");
    CHECK_FAILS("insert into u values (a)", "42703", "a)", "column \"a\" does not exist");
    CHECK_FAILS("insert into u values (count(*))", "42803", "count", "aggregate functions are not allowed in VALUES");
    CHECK_REFUSED("insert into u default values", "default", "INSERT ... DEFAULT VALUES");
    CHECK_REFUSED("insert into u values (1) returning a", "returning", "RETURNING");
    CHECK_REFUSED("insert into u values (1) on conflict do nothing", "on conflict", "ON CONFLICT");
}

TEST(copy)
{
    const Statement *copy = bind_ok("copy u from '/tmp/u.tbl'");
    CHECK_INT(copy->kind, STATEMENT_COPY);
    CHECK_STR(copy->path, "/tmp/u.tbl");
    CHECK(copy->copy.delimiter == '\t' && !copy->copy.trailing_delimiter && !copy->copy.csv && !copy->copy.header);
    CHECK_STR(copy->copy.null_text, "\\N");
    copy = bind_ok("copy u (z, a) from 'f' (format csv, header)");
    CHECK(copy->copy.delimiter == ',' && !copy->copy.trailing_delimiter && copy->copy.csv && copy->copy.header &&
          copy->copy.quote == '"');
    CHECK_STR(copy->copy.null_text, "");
    CHECK_INT(copy->copy.n_columns, 2);
    CHECK_INT(copy->copy.columns[0], 1);
    copy = bind_ok("copy u from 'f' csv header delimiter '|' null 'NIL' quote ''''");
    CHECK(copy->copy.delimiter == '|' && !copy->copy.trailing_delimiter && copy->copy.csv && copy->copy.quote == '\'' &&
          copy->copy.escape == '\'');
    copy = bind_ok("copy u from 'f' with (header false, encoding 'UTF8')");
    CHECK(copy->copy.delimiter == '\t' && !copy->copy.header && !copy->copy.trailing_delimiter);
    copy = bind_ok("copy u from 'f' (delimiter '|', trailing_delimiter, on_error ignore, reject 'bad')");
    CHECK(copy->copy.trailing_delimiter && copy->copy.ignores_errors);
    CHECK_STR(copy->copy.reject_path, "bad");
    copy = bind_ok("copy u from stdin (format json)");
    CHECK(copy->copy.is_std && copy->copy.json && !copy->copy.csv);
    copy = bind_ok("copy u (z) to 'f'");
    CHECK_INT(copy->kind, STATEMENT_COPY_TO);
    CHECK_INT(copy->plan->n_visible, 1);
    copy = bind_ok("copy (select a, z from u) to stdout");
    CHECK(copy->copy.is_std && copy->plan->n_visible == 2);
    CHECK_REFUSED("copy u from program 'x'", "program", "COPY ... PROGRAM");
    CHECK_FAILS("copy u from 'f' (reject 'bad')", "22023", "reject", "COPY reject needs ON_ERROR ignore");
    CHECK_FAILS("copy u from 'f' (on_error perhaps)", "22023", "on_error", "COPY on_error is stop or ignore");
    CHECK_FAILS("copy u from 'f' (format json, header)", "22023", "header", "cannot be used with FORMAT json");
    CHECK_FAILS("copy u from 'f' (delimiter '\\t')", "22023", "delimiter", "must be a single one-byte character");
    CHECK_REFUSED("copy u from 'f' where a > 1", "where", "COPY ... WHERE");
    CHECK_REFUSED("copy u from 'f' (format binary)", "format", "COPY format binary");
    CHECK_REFUSED("copy u from 'f' (force_null (a))", "force_null", "COPY option \"force_null\"");
    CHECK_FAILS("copy u from 'f' (quote 'x')", "0A000", "quote", "COPY quote available only in CSV mode");
    CHECK_FAILS("copy u from 'f' (delimiter 'xy')", "22023", "delimiter", "must be a single one-byte character");
    CHECK_FAILS("copy u from 'f' (foo 1)", "42601", "foo", "option \"foo\" not recognized");
    CHECK_FAILS("copy u from 'f' (header, header)", "42601", "header)", "conflicting or redundant options");
    CHECK_FAILS("copy u (nope) from 'f'", "42703", "u (", "column \"nope\" of table \"u\" does not exist");
    CHECK_FAILS("copy nope from 'f'", "42P01", "nope", "table \"nope\" does not exist");
}

TEST(settings)
{
    const struct { const char *sql, *name, *value; } sets[] = {
        { "set weave = off", "weave", "off" },
        { "set weave to 'on'", "weave", "on" },
        { "set x = 5", "x", "5" },
        { "set x = -1.5", "x", "-1.5" },
        { "set x.y to a, 'b c'", "x.y", "a, b c" },
        { "set local x = true", "x", "true" },
        { "set time zone 'utc'", "timezone", "utc" },
    };
    for (int i = 0; i < COUNT_OF(sets); i++) {
        const Statement *set = bind_ok(sets[i].sql);
        CHECK_INT(set->kind, STATEMENT_SET);
        CHECK_STR(set->name, sets[i].name);
        CHECK_STR(set->value, sets[i].value);
    }
    CHECK(bind_ok("set x to default")->value == NULL);
    CHECK(bind_ok("reset x")->value == NULL);
    CHECK_STR(bind_ok("reset all")->name, "all");
    CHECK_INT(bind_ok("show x")->kind, STATEMENT_SHOW);
    CHECK_STR(bind_ok("show all")->name, "all");
    CHECK_REFUSED("set transaction isolation level serializable", "set", "SET TRANSACTION");
}

TEST(explain)
{
    const Statement *explain = bind_ok("explain (analyze, kernel on, verbose) select a from t");
    CHECK_INT(explain->kind, STATEMENT_EXPLAIN);
    CHECK(explain->explain_analyze && explain->explain_kernel && explain->plan->n_visible == 1);
    CHECK(bind_ok("explain analyze select 1")->explain_analyze);
    explain = bind_ok("explain (tree, rewrites off) select 1");
    CHECK(explain->explain_tree && !explain->explain_rewrites);
    CHECK(bind_ok("explain (rewrites) values (1)")->explain_rewrites);
    CHECK(!bind_ok("explain (analyze false, kernel 0) select 1")->explain_analyze);
    CHECK_FAILS("explain (costs off) select 1", "0A000", "costs", "EXPLAIN option \"costs\" is not supported yet");
    CHECK_FAILS("explain (nope) select 1", "22023", "nope", "unrecognized EXPLAIN option \"nope\"");
    CHECK_FAILS("explain (analyze maybe) select 1", "22023", "analyze", "requires a Boolean value");
    CHECK_REFUSED("explain insert into t values (1)", "explain", "EXPLAIN of anything but SELECT");
}

// ---- long and deep text: an answer or 54001, never a crash ----------------------------------------------------------

static const struct { const char *before, *left, *middle, *right, *after; } constructs[] = {
    { "select 1", "+1", "", "", "" },
    { "select a", "+a", "", "", " from t" },
    { "select a", "::int", "", "", " from t" },
    { "select k", " and k", "", "", " from t" },
    { "select a=1", " or a=1", "", "", " from t" },
    { "select a", " is null", "", "", " from t" },
    { "select x", "||x", "", "", " from t" },
    { "select ", "f(", "1", ")", "" },
    { "select ", "(", "1", ")", "" },
    { "select 1", " union select 1", "", "", "" },
    { "select 1, 2", " union select 1, 2", "", "", "" },
    { "select k and k from t", " union select k and k from t", "", "", "" },
    { "select a", ".a", "", "", " from t" },
    { "select a", "[1]", "", "", " from t" },
    { "select x", " collate c", "", "", " from t" },
    { "select ", "case when k then ", "1", " end", " from t" },
    { "select 1", " + case when k and k then 1 end", "", "", " from t" },
    { "select 1", " + case when k then t.end end", "", "", " from t" },
    { "select case", " when a = 1 then 1", "", "", " end from t" },
    { "select 1 from t", " join t on k", "", "", "" },
    { "select 1 from t", " join t on k and k", "", "", "" },
    { "select 1 from t", ", t", "", "", "" },
    { "select 1 from t", " left join u on true", "", "", "" },
    { "", "select * from (", "select 1 as y", ") v", "" },
    { "", "select y + y as y from (", "select a as y from t", ") v group by y + y", "" },
    { "select ", "1 in (select ", "1", ")", "" },
    { "select ", "exists (select ", "1", ")", "" },
    { "", "with v as (", "select 1", ") select * from v", "" },
    { "with v as (select 1)", ", w as (select 1)", "", "", " select 1" },
    { "values (1)", ",(1)", "", "", "" },
    { "", "(", "select 1", " union select 1)", "" },
    { "select 1 from t where a in (select 1)", " and a in (select 1)", "", "", "" },
    { "select 1 from t where not k", " or a not in (select 1)", "", "", "" },
    { "select sum(a)", ", sum(a) filter (where k)", "", "", " from t" },
    { "select distinct on (a", ",a", "", "", ") a from t" },
    { "select ", "not ", "k", "", " from t" },
    { "select ", "- ", "a", "", " from t" },
    { "select ", "+-", "a", "", " from t" },
    { "select k", " is null between k and k", "", "", " from t" },
    { "select ", "(", "k", " between k and k)", " from t" },
    { "select ", "(select ", "1", ")", "" },
    { "select ", "array[", "1", "]", "" },
    { "select a in (1", ",1", "", "", ") from t" },
    { "select a in (a", ",a", "", "", ") from t" },
    { "select ", "nullif(", "a", ",1)", " from t" },
    { "select ", "greatest(", "a", ",1)", " from t" },
    { "select ", "coalesce(", "a", ",1)", " from t" },
    { "select ", "abs(", "a", ")", " from t" },
    { "select a", ",a", "", "", " from t" },
    { "select a from t group by a", ",a", "", "", "" },
    { "select a from t order by a", ",a+1", "", "", "" },
    { "insert into u values (1)", ",(1)", "", "", "" },
    { "select sum(a)", "+sum(a)", "", "", " from t" },
    { "create table v (a int", ",a int", "", "", ")" },
    { "drop table a", ",a", "", "", "" },
    { "set x = 1", ",1", "", "", "" },
    { "copy u (a", ",a", "", "", ") from 'f'" },
    { "explain (analyze", ",analyze", "", "", ") select 1" },
    { "select '", "ä", "", "", "'" },
    { "select 1 -- ", "x", "", "", "" },
    { "", "/*", "", "*/", "select 1" },
    { "", "(", "", "", "" },
    { "", ")", "", "", "" },
    { "", "case ", "", "", "" },
    { "", "end ", "", "", "" },
    { "", "select ", "", "", "" },
};

TEST(long_statements_give_an_answer_or_54001)
{
    const int counts[] = { 60, 990, 1100, 3000, 30000 };
    for (int c = 0; c < COUNT_OF(constructs); c++) {
        for (int i = 0; i < COUNT_OF(counts); i++) {
            char *sql = repeat(constructs[c].before, constructs[c].left, counts[i], constructs[c].middle,
                               constructs[c].right, constructs[c].after);
            Statement *statement = try_bind(sql);
            if (statement && statement->plan) {             // what was accepted can be walked
                Text text = { 0 };
                CHECK(!plan_fault(statement->plan));
                plan_line(statement->plan, &text);
                text_free(&text);
            }
            free(sql);
        }
    }
}

// The lexer of libpg_query would take minutes.
TEST(long_runs_of_operators_are_refused)
{
    const char *runs[] = { "/*", "/**/", "+-", "/*+" };
    for (int i = 0; i < COUNT_OF(runs); i++) {
        char *sql = repeat("select 1 ", runs[i], 100000, "", "", "");
        CHECK_STATUS(try_bind(sql) ? WEFT_OK : err.status, WEFT_TOO_COMPLEX);
        free(sql);
    }
    char *sql = repeat("select 1 /*", "*", 100000, "*/", "", "");
    bind_ok(sql);
    free(sql);
    sql = repeat("select 1 --", "-", 100000, "", "", "");
    bind_ok(sql);
    free(sql);
    sql = repeat("select ", "(", 100000, "1", ")", "");
    CHECK_STATUS(try_bind(sql) ? WEFT_OK : err.status, WEFT_TOO_COMPLEX);
    free(sql);
}

TEST(many_terms_are_not_deep)
{
    char *sql = repeat("select 1 from t where a = 1", " or a = 2", 20000, "", "", "");
    CHECK(find_clauses(plan_of(sql)).where->conditions[0]->depth < 40);
    free(sql);
    sql = repeat("select 1 from t where k", " and k", 20000, "", "", "");
    CHECK_INT(find_clauses(plan_of(sql)).where->n_conditions, 20001);
    free(sql);
}

TEST(shared_subtrees_do_not_explode)
{
    char *sql = repeat("select ", "nullif(", 60, "a", ", 1)", " from t");
    CHECK_STATUS(try_bind(sql) ? WEFT_OK : err.status, WEFT_TOO_COMPLEX);
    free(sql);
    char *inner = repeat("", "nullif(", 16, "a", ", 1)", "");       // 2^16 nodes each, of which a query may have 2^22
    char *item = malloc(strlen(inner) + 2);
    sprintf(item, ",%s", inner);
    sql = repeat("select 1", item, 500, "", "", " from t");
    CHECK_STATUS(try_bind(sql) ? WEFT_OK : err.status, WEFT_TOO_COMPLEX);
    CHECK_STR(err.message, "query is too large");
    free(sql);
    free(item);
    free(inner);
}

TEST(four_megabytes)
{
    const size_t bytes = 4 << 20;
    char *sql = malloc(bytes + 2);
    memset(sql, ' ', bytes + 1);
    memcpy(sql, "select 1", 8);
    sql[bytes] = '\0';
    bind_ok(sql);
    sql[bytes] = ' ';
    sql[bytes + 1] = '\0';
    CHECK_STATUS(try_bind(sql) ? WEFT_OK : err.status, WEFT_TOO_LONG);
    free(sql);
    sql = repeat("insert into u values (1,'abcdefgh',null)", ",(1,'abcdefgh',null)", 200000, "", "", "");
    CHECK_INT(bind_ok(sql)->n_rows, 200001);
    free(sql);
}

TEST(wide_tables_limit_rows)
{
    Text text = { 0 };
    ColumnDef columns[1000];
    char names[1000][16];
    try_bind("");
    for (int i = 0; i < COUNT_OF(columns); i++) {
        snprintf(names[i], sizeof(names[i]), "c%d", i);
        columns[i] = (ColumnDef){ names[i], TYPE(INTEGER), false };
    }
    CHECK_OK(store_create_table(store, "wide", columns, COUNT_OF(columns), &err), err);
    text_add(&text, "insert into wide (c0) values (1)");
    for (int i = 0; i < 10000; i++)
        text_add(&text, ",(1)");
    CHECK_STATUS(try_bind(text.bytes) ? WEFT_OK : err.status, WEFT_TOO_LONG);
    text_free(&text);
}

// The levels of messages in the parse tree: what libpg_query and protobuf-c recurse over.
static int message_depth(const ProtobufCMessage *message)
{
    int deepest = 0;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *base = (const char *)message;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)(base + field->quantifier_offset);
            ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)(base + field->offset);
            for (size_t j = 0; j < n; j++) {
                int depth = message_depth(items[j]);
                deepest = MAX_OF(deepest, depth);
            }
            continue;
        }
        bool is_other = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                        *(const unsigned *)(base + field->quantifier_offset) != field->id;
        const ProtobufCMessage *child = is_other ? NULL : *(ProtobufCMessage *const *)(base + field->offset);
        int depth = child ? message_depth(child) : 0;
        deepest = MAX_OF(deepest, depth);
    }
    return deepest + 1;
}

typedef struct DepthJob { const char *sql; int depth; } DepthJob;

static void measure_depth(void *context, size_t stack_bytes)
{
    DepthJob *job = context;
    (void)stack_bytes;
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(job->sql);
    if (!parsed.error) {
        PgQuery__ParseResult *tree =
            pg_query__parse_result__unpack(NULL, parsed.parse_tree.len, (const uint8_t *)parsed.parse_tree.data);
        job->depth = message_depth(&tree->base);
        pg_query__parse_result__free_unpacked(tree, NULL);
    }
    pg_query_free_protobuf_parse_result(parsed);
}

// The stack that parsing needs is promised by sql_nesting: two messages (1.9 kB) a token at most, where parse.c reckons
// with 8 KiB.
TEST(nesting_is_an_upper_bound)
{
    const int counts[] = { 1, 7, 500 };
    for (int c = 0; c < COUNT_OF(constructs); c++) {
        for (int i = 0; i < COUNT_OF(counts); i++) {
            char *sql = repeat(constructs[c].before, constructs[c].left, counts[i], constructs[c].middle,
                               constructs[c].right, constructs[c].after);
            DepthJob job = { sql, 0 };
            int at = -1, nesting = sql_nesting(sql, 1 << 24, &at);
            error_clear(&err);
            CHECK_OK(sql_worker_run(measure_depth, &job, NULL, &err), err);
            if (job.depth > 2 * nesting + 16)
                CHECK_FAIL("%.60s: %d levels, nesting %d", sql, job.depth, nesting);
            free(sql);
        }
    }
}

// ---- trees that are kept --------------------------------------------------------------------------------------------

static ParseTree *find_tree(const char *sql)
{
    Arena     *home = arena_new(NULL, "shape");
    TextShape  shape;
    sql_shape(home, sql, strlen(sql), false, &shape);
    ParseTree *tree = tree_find(&shape);
    arena_free(home);
    return tree;
}

static bool is_kept(const char *sql)
{
    ParseTree *tree = find_tree(sql);
    tree_release(tree);
    return tree != NULL;
}

TEST(the_same_text_is_parsed_once)
{
    bind_ok("select a + 1 from t where b > 2 /* once */ and true");
    CHECK(is_kept("select a + 1 from t where b > 2 /* once */ and true"));
    CHECK(!is_kept("select a + 1 from t where b > 2 /* twice */ and true"));
    const TreeCounts before = tree_counts();
    CHECK_BOUND("select a + 1 from t where b > 2 /* once */ and true", "select a + 1 where b > 2");
    CHECK_BOUND("select a + 1 from t where a > 2 /* once */ and true", "select a + 1 where a > 2");
    CHECK_INT(tree_counts().n_found, before.n_found + 1);
    CHECK_INT(tree_counts().n_missed, before.n_missed + 1);
    CHECK_INT(tree_counts().n_trees, MIN_OF(before.n_trees + 1, 256));
}

TEST(texts_that_differ_in_constants_are_parsed_once)
{
    const TreeCounts before = tree_counts();
    CHECK_BOUND("select a + 100 from t where x = 'filled'", "select a + 100 where x = 'filled'");
    CHECK_BOUND("select  a + 7 from t where x = 'it''s'", "select a + 7 where x = 'it''s'");
    CHECK_BOUND("select a + -8 from t where x = 'filled'", "select a + -8 where x = 'filled'");    // another shape
    CHECK_INT(tree_counts().n_missed, before.n_missed + 2);
    CHECK_INT(tree_counts().n_found, before.n_found + 1);
}

// Places of errors are in the present text, and what a value decides is decided anew.
TEST(a_tree_that_is_filled_in_is_bound_as_its_own_text)
{
    bind_ok("select a, b from t where p < 1.5 group by 1, 2 order by 2");
    CHECK(is_kept("select a, b from t where p < 1.5 group by 1, 2 order by 2"));
    CHECK(!try_bind("select a, b from t where p < 1234567.5 group by 1, 2 order by 3"));
    CHECK_STATUS(err.status, WEFT_INVALID_REFERENCE);
    CHECK_INT(err.position, 62);
    CHECK(!try_bind("select a,   b from t where p < 0.5 group by 111, 2 order by 2"));
    CHECK_INT(err.position, 44);
    bind_ok("select 1, date '2000-01-01' + 1");
    CHECK(!try_bind("select 1000, date '2000-13-01' + 1"));
    CHECK_INT(err.position, 13);
    CHECK(!try_bind("select date 'x\xff' + 1"));             // not UTF-8: not even parsed
    bind_ok("select cast(a as numeric(10,2)) from t");
    CHECK(!try_bind("select cast(a as numeric(1000,2)) from t"));
}

TEST(what_is_kept_is_short_and_shallow_and_a_query)
{
    char *wide = repeat("select 1", ", 1", 700, "", "", ""), *deep = repeat("select 1", " + 1", 60, "", "", "");
    char *text = repeat("select 1 --", "-", 66000, "", "", ""), *tree = repeat("select 1", ",1", 20000, "", "", "");
    const char *not_kept[] = { deep, text, tree, "insert into u values (1)", "set threads = 1", "explain select 1",
                               "" };
    bind_ok(wide);
    CHECK(is_kept(wide));
    for (int i = 0; i < COUNT_OF(not_kept); i++) {
        try_bind(not_kept[i]);
        if (is_kept(not_kept[i])) CHECK_FAIL("%.60s is kept", not_kept[i]);
    }
    free(wide), free(deep), free(text), free(tree);
}

static const char *numbered(int i)
{
    static char sql[64];
    snprintf(sql, sizeof(sql), "select 1 as numbered_%d", i);
    return sql;
}

TEST(the_least_recently_used_tree_goes)
{
    for (int i = 0; i < 256; i++) bind_ok(numbered(i));
    CHECK_INT(tree_counts().n_trees, 256);
    bind_ok(numbered(0));                                   // used again: 1 is the oldest now
    bind_ok(numbered(256));
    CHECK_INT(tree_counts().n_trees, 256);
    CHECK(is_kept(numbered(0)));
    CHECK(!is_kept(numbered(1)));
    CHECK(is_kept(numbered(2)));
}

TEST(trees_are_bounded_in_bytes)
{
    for (int i = 0; i < 60; i++) {
        char begin[64];
        snprintf(begin, sizeof(begin), "select 1 as bounded_%d", i);
        char *sql = repeat(begin, ", 1", 1600, "", "", "");
        bind_ok(sql);
        CHECK(is_kept(sql));
        CHECK(tree_counts().bytes <= 16 << 20);
        free(sql);
    }
    CHECK(tree_counts().n_trees < 60);
    CHECK(tree_counts().bytes > 8 << 20);
}

// A tree that somebody binds stays, whatever happens to the cache.
TEST(a_tree_in_use_outlives_its_place)
{
    const char *sql = "select 'held' as held";
    bind_ok(sql);
    ParseTree *tree = find_tree(sql);
    CHECK(tree != NULL);
    for (int i = 1000; i < 1256; i++) bind_ok(numbered(i));
    CHECK(!is_kept(sql));
    CHECK_STR(tree_result(tree)->stmts[0]->stmt->select_stmt->target_list[0]->res_target->name, "held");
    tree_release(tree);
    CHECK(is_kept(sql));                                    // again
}

// Threads that want the same shape have a tree each, and all of them are kept, up to a number.
TEST(as_many_trees_of_a_shape_are_kept_as_were_in_use)
{
    const char *sql = "select 'spare' as spare";
    ParseTree  *trees[40] = { 0 };
    int         n = 0;
    for (int i = 0; i < COUNT_OF(trees); i++) {
        bind_ok(sql);                                       // parses one, when all are taken
        trees[i] = find_tree(sql);
        CHECK(trees[i] != NULL);
    }
    const int before = tree_counts().n_trees;
    for (int i = 0; i < COUNT_OF(trees); i++) tree_release(trees[i]);
    CHECK_INT(tree_counts().n_trees, MIN_OF(before + 33, 256));
    for (ParseTree *tree; (tree = find_tree(sql));) trees[n++] = tree;
    CHECK_INT(n, 33);
    while (n) tree_release(trees[--n]);
}

TEST(errors_are_the_same_the_second_time)
{
    const char *wrong[] = { "select 1 +", "select ä +", "select ä, nothing from t", "select * from nowhere",
                            "select a from t limit -1",
                            "select sum(a) over w from t", "select x + 1 from t" };
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        CHECK(!try_bind(wrong[i]));
        const Error first = err;
        CHECK_INT(is_kept(wrong[i]), i >= 2);               // what does not parse has no tree
        CHECK(!try_bind(wrong[i]));
        CHECK_INT(err.status, first.status);
        CHECK_INT(err.position, first.position);
        CHECK_STR(err.message, first.message);
        CHECK_STR(err.hint, first.hint);
    }
}

TEST(a_kept_tree_is_bound_to_the_tables_of_the_day)
{
    const ColumnDef one[] = { { "n", TYPE(INTEGER), false } };
    const ColumnDef two[] = { { "n", TYPE(TEXT), false }, { "m", TYPE(DATE), false } };
    CHECK(!try_bind("select * from later"));
    CHECK_STATUS(err.status, WEFT_UNDEFINED_TABLE);
    error_clear(&err);
    CHECK_OK(store_create_table(store, "later", one, 1, &err), err);
    CHECK_INT(plan_of("select * from later")->n_visible, 1);
    arena_free(arena), arena = NULL;
    CHECK_OK(store_drop_table(store, "later", &err), err);
    CHECK(!try_bind("select * from later"));
    error_clear(&err);
    CHECK_OK(store_create_table(store, "later", two, 2, &err), err);
    const Plan *plan = plan_of("select * from later");
    CHECK_INT(plan->n_visible, 2);
    CHECK_INT(plan->columns[plan->root->out[0]].type.kind, TYPE_TEXT);
    arena_free(arena), arena = NULL;
    CHECK_OK(store_drop_table(store, "later", &err), err);
}

static size_t pack_tree(const ParseTree *tree, u8 **bytes)
{
    const size_t length = pg_query__parse_result__get_packed_size(tree_result(tree));
    *bytes = malloc(length + 1);
    return pg_query__parse_result__pack(tree_result(tree), *bytes);
}

// The next one to bind it relies on that.
TEST(binding_leaves_the_tree_as_it_was)
{
    const char *texts[] = { "select distinct x, sum(p) as s, count(*) filter (where k) from t group by 1 order by s "
                            "desc, 1 limit 3 offset 1",
                            "select case a when 1 then 'x' else coalesce(x, 'y') end from t join u using (a) where d + "
                            "interval '1 month' < date '2020-01-01'",
                            "select a, t.*, -1::decimal(5,2), b in (1, 2, 3) or x like 'a%' and not k from t, u where "
                            "t.a = u.a and s between 1 and 2" };
    for (int i = 0; i < COUNT_OF(texts); i++) {
        u8 *before, *after;
        try_bind(texts[i]);
        ParseTree *tree = find_tree(texts[i]);
        CHECK(tree != NULL);
        const size_t length = pack_tree(tree, &before);
        tree_release(tree);
        for (int again = 0; again < 3; again++) try_bind(texts[i]);
        CHECK(find_tree(texts[i]) == tree);
        CHECK_INT(pack_tree(tree, &after), length);
        CHECK_BYTES(after, before, length);
        tree_release(tree);
        free(before), free(after);
    }
}

static const Table *no_table(void *context, const char *name, TableHome home)
{
    (void)context, (void)name, (void)home;
    return NULL;
}

static void *bind_nested(void *context)
{
    int *n_kept = context;
    const Names names = { .table = find_table, .context = NULL, .stop = NULL };
    for (int c = 0; c < COUNT_OF(constructs); c++) {
        int n = 100, at = -1;
        char *sql = NULL;
        do {
            free(sql);
            sql = repeat(constructs[c].before, constructs[c].left, n, constructs[c].middle, constructs[c].right,
                         constructs[c].after);
        } while (sql_nesting(sql, 1000, &at) > 100 && --n);
        for (int again = 0; again < 2; again++) {
            Arena *own = arena_new(NULL, "thread");
            Statement *statement;
            Error error;
            error_clear(&error);
            sql_bind(own, sql, &names, &statement, &error);
            arena_free(own);
        }
        *n_kept += is_kept(sql);
        free(sql);
    }
    return NULL;
}

// What is kept is bound on the caller's stack, so the deepest of them must fit a small one.
TEST(kept_trees_need_little_stack)
{
    pthread_t thread;
    pthread_attr_t attributes;
    int n_kept = 0;
    try_bind("");                                           // opens the store
    CHECK_INT(pthread_attr_init(&attributes), 0);
    CHECK_INT(pthread_attr_setstacksize(&attributes, 128 << 10), 0);
    CHECK_INT(pthread_create(&thread, &attributes, bind_nested, &n_kept), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    CHECK(n_kept > 10);
}

static void *bind_many_texts(void *context)
{
    int *n_wrong = context;
    const Names names = { .table = no_table, .context = NULL, .stop = NULL };
    for (int i = 0; i < 600; i++) {
        Arena *own = arena_new(NULL, "thread");
        Statement *statement;
        Error error;
        char sql[64], want[16];
        snprintf(want, sizeof(want), "c%d", i * 7 % 300);   // more texts than trees are kept
        snprintf(sql, sizeof(sql), "select 1 as %s", want);
        error_clear(&error);
        const bool is_bound = sql_bind(own, sql, &names, &statement, &error) == WEFT_OK;
        *n_wrong += !is_bound || strcmp(statement->plan->names[0], want) != 0;
        arena_free(own);
    }
    return NULL;
}

TEST(many_threads_share_trees)
{
    enum { N = 8 };
    pthread_t threads[N];
    int n_wrong[N] = { 0 };
    for (int i = 0; i < N; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, bind_many_texts, &n_wrong[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(n_wrong[i], 0);
    }
}

// ---- threads --------------------------------------------------------------------------------------------------------

static void *bind_often(void *context)
{
    int *n_wrong = context;
    const Names names = { .table = no_table, .context = NULL, .stop = NULL };
    for (int i = 0; i < 200; i++) {
        Arena *own = arena_new(NULL, "thread");
        Statement *statement;
        Error error;
        error_clear(&error);
        *n_wrong += sql_bind(own, "select 1 + 2, 'x' where 3 < 4", &names, &statement, &error) != WEFT_OK;
        *n_wrong += sql_bind(own, "select 1 +", &names, &statement, &error) != WEFT_SYNTAX_ERROR;
        arena_free(own);
    }
    return NULL;
}

TEST(many_threads_bind_at_once)
{
    enum { N = 24 };
    pthread_t threads[N];
    int n_wrong[N] = { 0 };
    for (int i = 0; i < N; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, bind_often, &n_wrong[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(n_wrong[i], 0);
    }
}

// libpg_query takes a pthread key for each thread that calls it and never gives one back: our threads must not add up.
TEST(short_threads_use_up_no_keys)
{
    for (int i = 0; i < 1100; i++) {
        pthread_t thread;
        int n_wrong = 0;
        if (i % 100 == 0) {
            CHECK_INT(pthread_create(&thread, NULL, bind_often, &n_wrong), 0);
            pthread_join(thread, NULL);
        }
    }
    pthread_key_t key;
    CHECK_INT(pthread_key_create(&key, NULL), 0);
    CHECK((int)key < 100);
    pthread_key_delete(key);
}

// Holds a worker until it is told to go on.
typedef struct Held { _Atomic bool *go_on; _Atomic int *n_held; } Held;

static void hold_worker(void *context, size_t stack_bytes)
{
    const Held *held = context;
    (void)stack_bytes;
    atomic_fetch_add(held->n_held, 1);
    while (!atomic_load(held->go_on)) usleep(1000);
}

static void *hold_one(void *context)
{
    Error error;
    error_clear(&error);
    sql_worker_run(hold_worker, context, NULL, &error);
    return NULL;
}

typedef struct Waiter { const char *sql; _Atomic u32 stop; weft_status status; Error error; } Waiter;

static void *bind_unless_stopped(void *context)
{
    Waiter *binding = context;
    const Names names = { .table = no_table, .context = NULL, .stop = &binding->stop };
    Arena *own = arena_new(NULL, "thread");
    Statement *statement;
    error_clear(&binding->error);
    binding->status = sql_bind(own, binding->sql, &names, &statement, &binding->error);
    arena_free(own);
    return NULL;
}

TEST(waiting_for_a_thread_to_parse_on_can_be_cancelled)
{
    enum { N = 40 };                   // more than there are workers
    pthread_t threads[N], cancelled, patient;
    _Atomic bool go_on = false;
    _Atomic int n_held = 0;
    Held held = { &go_on, &n_held };
    Waiter stopped = { .sql = "select 1 as stopped" }, other = { .sql = "select 1 as other" };   // never parsed before
    for (int i = 0; i < N; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, hold_one, &held), 0);
    const int n_workers = MIN_OF(MAX_OF(2 * cpu_count(), 2), 16);      // as many as there may be (src/sql/worker.c)
    for (int ms = 0; ms < 60000 && n_held < n_workers; ms++)
        usleep(1000);
    CHECK_INT(n_held, n_workers);
    CHECK_INT(pthread_create(&cancelled, NULL, bind_unless_stopped, &stopped), 0);
    CHECK_INT(pthread_create(&patient, NULL, bind_unless_stopped, &other), 0);
    usleep(30000);
    atomic_store(&stopped.stop, 1);
    pthread_join(cancelled, NULL);     // while every worker is held
    atomic_store(&go_on, true);
    pthread_join(patient, NULL);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    CHECK_STATUS(stopped.status, WEFT_QUERY_CANCELED);
    CHECK_STATUS(other.status, WEFT_OK);
}

TEST(no_thread_to_be_had)
{
    // The workers of other tests are there, so this only says that nothing breaks when a new one is refused.
    fault_set(FAULT_MEMORY, 1, true);
    bind_ok("select 1 as no_thread");
    fault_set(FAULT_MEMORY, 0, false);
}
