// test_rewrite.c - rewrites of plans: what the tree looks like afterwards, and that it means the same.

#include "test.h"

#include "plan/window.h"
#include "plan_help.h"

// The tree without estimates.
static const char *shape_of(const Plan *plan)
{
    char *text = arena_strdup(arena, tree_text(plan));
    for (char *rows; (rows = strstr(text, "    (rows "));) {
        const char *end = strchr(rows, ')') + 1;
        memmove(rows, end, strlen(end) + 1);
    }
    return text;
}

static const char *rewritten(Plan *plan, Node *root)
{
    finish(plan, root);
    CHECK_OK(plan_rewrite(plan, NULL, &err), err);
    return shape_of(plan);
}

static Node *cross(Plan *plan, Node *a, Node *b) { return plan_join(plan, JOIN_INNER, a, b, NULL, 0); }

static Node *scan_fake(Plan *plan, const char *name, const char *alias, u64 n_rows, const char *columns)
{
    return plan_scan(plan, fake_table(name, n_rows, columns), alias, -1);
}

// Two columns of 100 values, one of which may be NULL, and a key.
static Node *scan_small(Plan *plan, const char *alias)
{
    Node *node = scan_fake(plan, "small", alias, 1000, "k key 1 1000, a int 1 100, b int 1 100, s text 10");
    ((ColumnChunk *)(uintptr_t)node->table->chunks[0]->columns)[2].n_nulls = 50;
    return node;
}

#define CHECK_SHAPE(plan, root, shape) CHECK_STR(rewritten(plan, root), shape)

// ---- one rewrite at a time -----------------------------------------------------------------------------------------

TEST(a_tree_reads_well)
{
    Plan *plan = begin();
    Node *t = filter(plan, scan_small(plan, "t"), "a > 5 and (b = 1 or b is null)");
    t = join(plan, JOIN_LEFT, t, scan_small(plan, "u"), "t.k = u.k and t.a < u.b");
    t = aggregate(plan, t, "t.s", "count(*) as n;sum(u.a) as total");
    t = plan_limit(plan, sort(plan, project(plan, t, "s;n + 1 as more;total"), "more desc;s"), 10, 2);
    finish(plan, t);
    plan_prove(plan, t);
    CHECK_STR(tree_text(plan), "limit 10 offset 2\n"
              "  sort more desc, t.s\n"
              "    project t.s, count(*) + 1 as more, sum(u.a) as total\n"
              "      aggregate count(*) as n, sum(u.a) as total by t.s    (rows 10)\n"
              "        join left on t.k = u.k and t.a < u.b    (rows 57)\n"
              "          filter t.a > 5 and (t.b = 1 or t.b is null)    (rows 57)\n"
              "            scan small t    (rows 1,000): k, a, b, s\n"
              "          scan small u    (rows 1,000): k, a, b, s\n");
}

TEST(filters_go_down_and_equalities_become_keys)
{
    Plan *plan = begin();
    Node *t = project(plan, scan_small(plan, "t"), "k;a + 1 as more;b");
    plan_add_param(plan, TYPE(INTEGER), NULL, -1);
    t = filter(plan, cross(plan, t, scan_small(plan, "u")),
               "more = u.a and more > 7 and u.b < 3 and t.b < u.b and $1 = 2");
    CHECK_SHAPE(plan, project(plan, t, "t.k;u.k"),
                "project t.k, u.k\n"
                "  join inner on more = u.a if t.b < u.b\n"
                "    project t.k, t.a + 1 as more, t.b\n"
                "      filter t.a + 1 > 7 and $1 = 2\n"
                "        scan small t: k, a, b\n"
                "    filter u.b < 3 and $1 = 2\n"
                "      scan small u: k, a, b\n");
}

TEST(a_subplan_with_one_reference_is_put_in_its_place)
{
    Plan   *plan = begin();
    Shared *once = plan_share(plan, aggregate(plan, scan_small(plan, "t"), "a", "count(*) as n"), "once");
    Node   *r = filter(plan, plan_reference(plan, once, "r", -1), "r.a = 3");
    CHECK_SHAPE(plan, project(plan, r, "r.n"),
                "project count(*) as n\n"
                "  aggregate count(*) as n by a\n"
                "    filter a = 3\n"
                "      scan small t: a\n");
    CHECK_INT(plan->n_shared, 0);
}

TEST(a_subplan_with_two_references_stays_and_gives_what_they_need)
{
    Plan   *plan = begin();
    Shared *twice = plan_share(plan, aggregate(plan, scan_small(plan, "t"), "a", "count(*) as n;max(k) as most"),
                               "twice");
    Node   *x = plan_reference(plan, twice, "x", -1), *y = plan_reference(plan, twice, "y", -1);
    CHECK_SHAPE(plan, project(plan, join(plan, JOIN_INNER, x, y, "x.a = y.n"), "x.a;y.a"),
                "project a, a\n"
                "  join inner on a = n\n"
                "    rows of twice x\n"
                "    rows of twice y\n"
                "twice =\n"
                "  aggregate count(*) as n by a\n"
                "    scan small t: a\n");
    CHECK_INT(plan->shared[0]->n_uses, 2);
}

TEST(a_cheap_subplan_is_read_twice)
{
    Plan   *plan = begin();
    Shared *cheap = plan_share(plan, filter(plan, scan_small(plan, "t"), "a < 10"), "cheap");
    Node   *x = plan_reference(plan, cheap, "x", -1), *y = plan_reference(plan, cheap, "y", -1);
    CHECK_SHAPE(plan, project(plan, filter(plan, cross(plan, x, y), "x.a = y.k and y.s = 'w'"), "x.k;y.s"),
                "project x.k, y.s\n"
                "  join inner on x.a = y.k\n"
                "    filter x.a < 10\n"
                "      scan small x: k, a\n"
                "    filter y.a < 10 and y.s = 'w' and y.k < 10\n"
                "      scan small y: k, a, s\n");
}

TEST(what_is_never_null_folds)
{
    Plan *plan = begin();
    Node *t = filter(plan, scan_small(plan, "t"),
                     "(a is not null or b = 1) and coalesce(b, 0) = 1 and (k is null or s = 'w')");
    CHECK_SHAPE(plan, project(plan, t, "coalesce(a, b) as x;case when k is null then 1 else b end as y"),
                "project a as x, b as y\n"
                "  filter coalesce(b, 0) = 1 and s = 'w'\n"
                "    scan small t: a, b, s\n");
}

TEST(what_gives_no_row_is_not_computed)
{
    Plan *plan = begin();
    Node *none = filter(plan, scan_small(plan, "t"), "a = 1 and k is null");
    Node *some = project(plan, scan_small(plan, "u"), "u.a");
    Node *t = set_of(plan, SET_UNION, true, some,
                     project(plan, join(plan, JOIN_INNER, none, scan_small(plan, "v"), "t.k = v.k"), "t.a"));
    CHECK_SHAPE(plan, t,
                "project u.a\n"
                "  scan small u: a\n");
    plan = begin();
    CHECK_SHAPE(plan, aggregate(plan, filter(plan, scan_small(plan, "t"), "k is null"), "", "count(*) as n"),
                "aggregate count(*) as n\n"
                "  values\n");
    CHECK(!plan_is_empty(plan, plan->root));
}

TEST(what_branches_of_an_or_share_is_taken_out)
{
    Plan *plan = begin();
    Node *t = filter(plan, cross(plan, scan_small(plan, "t"), scan_small(plan, "u")),
                     "(t.k = u.k and t.a = 1 and u.b < 5) or (u.k = t.k and t.a = 2 and u.b < 9) or "
                     "(t.k = u.k and t.a = 3 and u.b = 50)");
    CHECK_SHAPE(plan, project(plan, t, "t.k"),
                "project t.k\n"
                "  join inner on u.k = t.k if t.a = 1 and u.b < 5 or t.a = 2 and u.b < 9 or t.a = 3 and u.b = 50\n"
                "    filter u.b < 5 or u.b < 9 or u.b = 50\n"
                "      scan small u: k, b\n"
                "    filter t.a in (1, 2, 3)\n"
                "      scan small t: k, a\n");
}

static Node *first_value(Plan *plan, Node *input, const char *arg)
{
    Expr      **keys = arena_array(arena, Expr *, 2);
    WindowOrder order = { .n_keys = 1, .keys = arena_make(arena, SortKey) };
    WindowFunc  func = { .kind = WINDOW_FIRST_VALUE, .arg = 1, .n = -1, .frame = frame_default(), .name = "first" };
    Windows    *windows = arena_make(arena, Windows);
    keys[0] = expr_of(plan, "k"), keys[1] = expr_of(plan, arg);
    func.type = keys[1]->type, func.column = plan_add_column(plan, func.type, "x", NULL);
    *LIST_PUSH(arena, windows->orders, windows->n_orders) = order;
    *LIST_PUSH(arena, windows->funcs, windows->n_funcs) = func;
    return plan_window(plan, input, keys, 2, windows);
}

TEST(an_argument_that_can_fail_is_computed_for_the_rows_that_are_chosen)
{
    Plan *plan = begin();
    CHECK_SHAPE(plan, project(plan, first_value(plan, scan_small(plan, "t"), "b / (a - 1)"), "x"),
                "project case when \"first(a)\" is not null then \"first(b)\" / (\"first(a)\" - 1) else null end "
                "as x\n"
                "  window first(a) over (order by k), first(b) over (order by k)\n"
                "    scan small t: k, a, b\n");
    plan = begin();
    CHECK_SHAPE(plan, project(plan, first_value(plan, scan_small(plan, "t"), "coalesce(1 / (b - 1), 7)"), "x"),
                "project case when \"first(true)\" then coalesce(1 / (\"first(b)\" - 1), 7) else null end as x\n"
                "  window first(b) over (order by k), first(true) over (order by k)\n"
                "    scan small t: k, b\n");
    plan = begin();
    CHECK_SHAPE(plan, project(plan, first_value(plan, scan_small(plan, "t"), "(a * 2 + b) / k"), "x"),
                "project x\n"
                "  window first((a * 2 + b) / k) over (order by k)\n"
                "    scan small t: k, a, b\n");
}

TEST(outer_joins_whose_nulls_are_dropped_become_inner)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a");
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "u.b > 1"), "t.k"),
                "project t.k\n"
                "  join inner on t.a = u.a\n"
                "    scan small t: k, a\n"
                "    filter u.b > 1\n"
                "      scan small u: a, b\n");
    plan = begin();
    t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a");
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "u.b > 1 or u.b is null"), "t.k"),
                "project t.k\n"
                "  filter u.b > 1 or u.b is null\n"
                "    join left on t.a = u.a\n"
                "      scan small t: k, a\n"
                "      scan small u: a, b\n");
    plan = begin();
    t = join(plan, JOIN_FULL, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a and t.b < 3");
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "u.b > 1"), "t.k;u.k"),
                "project t.k, u.k\n"
                "  join left on u.a = t.a\n"
                "    filter u.b > 1\n"
                "      scan small u: k, a, b\n"
                "    filter t.b < 3\n"
                "      scan small t: k, a, b\n");
}

TEST(a_single_join_with_one_row_per_key_is_a_left_join)
{
    Plan *plan = begin();
    Node *groups = aggregate(plan, scan_small(plan, "u"), "u.a as key", "max(u.b) as most");
    Node *t = join(plan, JOIN_SINGLE, scan_small(plan, "t"), groups, "t.a = key");
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "t.b = most"), "t.k"),
                "project t.k\n"
                "  join inner on t.a = u.a and t.b = max(u.b)\n"
                "    scan small t: k, a, b\n"
                "    aggregate max(u.b) as most by u.a as key\n"
                "      scan small u: a, b\n");
    plan = begin();
    t = join(plan, JOIN_SINGLE, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.k");
    CHECK_SHAPE(plan, project(plan, t, "t.k;u.b"),
                "project t.k, u.b\n"
                "  join left on t.a = u.k\n"
                "    scan small t: k, a\n"
                "    scan small u: k, b\n");
    plan = begin();
    t = join(plan, JOIN_SINGLE, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a");
    CHECK_SHAPE(plan, project(plan, t, "t.k;u.b"),
                "project t.k, u.b\n"
                "  join single on t.a = u.a\n"
                "    scan small t: k, a\n"
                "    scan small u: a, b\n");
}

TEST(a_mark_that_must_be_true_is_a_semi_join)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_MARK, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.b");
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "mark and t.b < 5"), "t.k"),
                "project t.k\n"
                "  join semi on t.a = u.b\n"
                "    filter t.b < 5\n"
                "      scan small t: k, a, b\n"
                "    scan small u: b\n");
    plan = begin();
    t = join(plan, JOIN_MARK, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.b");
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "mark or t.b < 5"), "t.k"),
                "project t.k\n"
                "  filter mark or t.b < 5\n"
                "    join mark on t.a = u.b\n"
                "      scan small t: k, a, b\n"
                "      scan small u: b\n");
}

TEST(a_full_join_is_a_left_join_and_what_it_lacks)
{
    Plan *plan = begin();
    Node *groups = aggregate(plan, scan_small(plan, "u"), "u.a as key", "max(u.b) as most");
    Node *t = join(plan, JOIN_FULL, filter(plan, scan_small(plan, "t"), "t.b = 4"), groups, "t.a = key");
    CHECK_SHAPE(plan, project(plan, t, "t.k;most"),
                "union all\n"
                "  project t.k, most\n"
                "    join left on t.a = key\n"
                "      filter t.b = 4\n"
                "        scan small t: k, a, b\n"
                "      rows of shared 1\n"
                "  project null as k, most\n"
                "    join anti on key = t.a\n"
                "      rows of shared 1\n"
                "      filter t.b = 4\n"
                "        scan small t: a, b\n"
                "shared 1 =\n"
                "  aggregate max(u.b) as most by u.a as key\n"
                "    scan small u: a, b\n");
}

TEST(a_condition_for_the_host_is_one_of_pairs)
{
    Plan *plan = begin();
    Node *t = filter(plan, scan_small(plan, "t"), "t.b = 4");
    t = join(plan, JOIN_LEFT, t, scan_small(plan, "u"), "t.a = u.a and t.s like u.s and u.b < 3 and t.k > 5");
    CHECK_SHAPE(plan, project(plan, t, "t.k;u.k"),
                "project t.k, u.k\n"
                "  join left on number = number\n"
                "    project k, number\n"
                "      rows of shared 1\n"
                "    filter s like u.s\n"
                "      project k, a, s, number, u.k, u.a, u.b, u.s, s like u.s as computed\n"
                "        join inner on a = u.a if k > 5\n"
                "          rows of shared 1\n"
                "          filter u.b < 3\n"
                "            scan small u: k, a, b, s\n"
                "shared 1 =\n"
                "  project t.k, t.a, t.s, number\n"
                "    window row_number() over ()\n"
                "      filter t.b = 4\n"
                "        scan small t: k, a, b, s\n");
    plan = begin();
    t = join(plan, JOIN_ANTI, scan_small(plan, "t"), scan_small(plan, "u"), "t.s like u.s");
    CHECK_SHAPE(plan, project(plan, t, "t.k"),
                "project t.k\n"
                "  join anti on number = number\n"
                "    project k, number\n"
                "      rows of shared 1\n"
                "    filter s like u.s\n"
                "      project k, s, number, u.s, s like u.s as computed\n"
                "        join inner\n"
                "          rows of shared 1\n"
                "          scan small u: s\n"
                "shared 1 =\n"
                "  window row_number() over ()\n"
                "    scan small t: k, s\n");
    plan = begin();
    t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a and t.s like 'x%'");
    CHECK_SHAPE(plan, project(plan, t, "t.k;u.k"),
                "project t.k, u.k\n"
                "  join left on t.a = u.a if t.s like 'x%'\n"
                "    scan small t: k, a, s\n"
                "    scan small u: k, a\n");
}

TEST(a_computing_project_goes_above_the_joins_around_it)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_INNER, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.k");
    t = project(plan, t, "t.k;u.a + t.a as both");
    t = join(plan, JOIN_INNER, t, scan_fake(plan, "large", "w", 1000000, "k key 1 1000000, r int 1 1000"),
             "both = w.r");
    CHECK_SHAPE(plan, project(plan, t, "t.k;both;w.k"),
                "project t.k, u.a + t.a as both, w.k\n"
                "  join inner on w.r = u.a + t.a\n"
                "    scan large w: k, r\n"
                "    join inner on t.a = u.k\n"
                "      scan small t: k, a\n"
                "      scan small u: k, a\n");
}

static const char *decorrelated(Plan *plan, Node *root)
{
    plan->is_correlated = true;
    return rewritten(plan, root);
}

#define CHECK_DECORRELATED(plan, root, shape) CHECK_STR(decorrelated(plan, root), shape)

TEST(conditions_on_outer_columns_become_the_joins)
{
    Plan *plan = begin();
    Node *t = scan_small(plan, "t"), *u = filter(plan, scan_small(plan, "u"), "u.k = t.k and u.a <> t.a and u.b = 1");
    t = plan_join(plan, JOIN_SEMI, t, plan_limit(plan, project(plan, u, "u.s"), 1, 0), NULL, 0);
    CHECK_DECORRELATED(plan, project(plan, t, "t.s"),
                       "project t.s\n"
                       "  join semi on t.k = u.k if u.a <> t.a\n"
                       "    scan small t: k, a, s\n"
                       "    filter u.b = 1\n"
                       "      scan small u: k, a, b\n");
}

TEST(a_total_becomes_groups_and_a_left_join)
{
    Plan *plan = begin();
    Node *t = scan_small(plan, "t"), *u = filter(plan, scan_small(plan, "u"), "u.a = t.a");
    u = project(plan, aggregate(plan, u, "", "count(*) as n;max(u.b) as most"), "n + most as x");
    t = plan_join(plan, JOIN_SINGLE, t, u, NULL, 0);
    CHECK_DECORRELATED(plan, project(plan, t, "t.k;x"),
                       "project t.k, coalesce(count(*), 0) + max(u.b) as x\n"
                       "  join left on t.a = u.a\n"
                       "    scan small t: k, a\n"
                       "    aggregate count(*) as n, max(u.b) as most by u.a\n"
                       "      scan small u: a, b\n");
}

TEST(what_compares_otherwise_meets_the_distinct_outer_values)
{
    Plan *plan = begin();
    Node *t = scan_small(plan, "t"), *u = filter(plan, scan_small(plan, "u"), "u.a < t.b");
    t = plan_join(plan, JOIN_SINGLE, t, aggregate(plan, u, "", "sum(u.b) as total"), NULL, 0);
    CHECK_DECORRELATED(plan, project(plan, t, "t.k;total"),
                       "project outer.k, sum(u.b) as total\n"
                       "  join left on outer.b = domain.b\n"
                       "    scan small outer: k, b\n"
                       "    aggregate sum(u.b) as total by outer.b\n"
                       "      join inner on u.a < outer.b\n"
                       "        scan small u: a, b\n"
                       "        aggregate by outer.b\n"
                       "          scan small outer: b\n");
}

TEST(a_limit_holds_for_each_outer_value)
{
    Plan *plan = begin();
    Node *t = scan_small(plan, "t"), *u = filter(plan, scan_small(plan, "u"), "u.a = t.a");
    u = plan_limit(plan, sort(plan, project(plan, u, "u.b;u.k"), "u.b desc"), 3, 1);
    t = plan_join(plan, JOIN_INNER, t, u, NULL, 0);
    CHECK_DECORRELATED(plan, project(plan, t, "t.k;u.k"),
                       "project t.k, u.k\n"
                       "  join inner on t.a = u.a\n"
                       "    scan small t: k, a\n"
                       "    sort u.a, u.b desc, distinct on u.a, 3 each but the first 1\n"
                       "      scan small u: k, a, b\n");
}

TEST(what_could_fail_for_other_values_meets_only_those_that_occur)
{
    Plan *plan = begin();
    Node *t = scan_small(plan, "t"), *u = filter(plan, scan_small(plan, "u"), "u.a = t.a");
    t = plan_join(plan, JOIN_SINGLE, t, aggregate(plan, u, "", "max(100 / u.b) as most"), NULL, 0);
    CHECK_DECORRELATED(plan, project(plan, t, "t.k;most"),
                       "project outer.k, max(100 / u.b) as most\n"
                       "  join left on outer.a = domain.a\n"
                       "    scan small outer: k, a\n"
                       "    aggregate max(100 / u.b) as most by outer.a\n"
                       "      join inner on u.a = outer.a\n"
                       "        scan small u: a, b\n"
                       "        aggregate by outer.a\n"
                       "          scan small outer: a\n");
}

TEST(a_left_join_that_adds_nothing_goes)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.k");
    CHECK_SHAPE(plan, aggregate(plan, t, "t.s", "count(*) as n"),
                "aggregate count(*) as n by t.s\n"
                "  scan small t: s\n");
    plan = begin();
    t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a");
    CHECK_SHAPE(plan, aggregate(plan, t, "t.s", "count(*) as n"),
                "aggregate count(*) as n by t.s\n"
                "  join left on t.a = u.a\n"
                "    scan small t: a, s\n"
                "    scan small u: a\n");
}

TEST(conditions_travel_along_equalities)
{
    Plan *plan = begin();
    Node *t = cross(plan, cross(plan, scan_small(plan, "t"), scan_small(plan, "u")), scan_small(plan, "v"));
    CHECK_SHAPE(plan, project(plan, filter(plan, t, "t.k = u.k and u.k = v.k and v.k between 5 and 9"), "t.a;u.a"),
                "project t.a, u.a\n"
                "  join inner on t.k = u.k\n"
                "    filter t.k >= 5 and t.k <= 9\n"
                "      scan small t: k, a\n"
                "    join inner on u.k = v.k\n"
                "      filter u.k >= 5 and u.k <= 9\n"
                "        scan small u: k, a\n"
                "      filter v.k >= 5 and v.k <= 9\n"
                "        scan small v: k\n");
    plan = begin();
    t = join(plan, JOIN_ANTI, filter(plan, scan_small(plan, "t"), "t.a in (1, 2)"), scan_small(plan, "u"), "t.a = u.b");
    CHECK_SHAPE(plan, project(plan, t, "t.k"),
                "project t.k\n"
                "  join anti on t.a = u.b\n"
                "    filter t.a in (1, 2)\n"
                "      scan small t: k, a\n"
                "    filter u.b in (1, 2)\n"
                "      scan small u: b\n");
}

static Node *small_set(Plan *plan, SetKind kind, bool is_all)
{
    Node *a = project(plan, scan_small(plan, "t"), "t.a;t.s"), *b = project(plan, scan_small(plan, "u"), "u.b;u.s");
    return set_of(plan, kind, is_all, a, b);
}

TEST(sets_become_groups)
{
    Plan *plan = begin();
    CHECK_SHAPE(plan, small_set(plan, SET_UNION, false),
                "aggregate by a, s\n"
                "  union all\n"
                "    scan small t: a, s\n"
                "    scan small u: b, s\n");
    plan = begin();
    CHECK_SHAPE(plan, small_set(plan, SET_INTERSECT, false),
                "project a, s\n"
                "  filter count(in_left) > 0 and count(in_right) > 0\n"
                "    aggregate count(in_left), count(in_right) by a, s\n"
                "      union all\n"
                "        project t.a, t.s, 1 as in_left, null as in_right\n"
                "          scan small t: a, s\n"
                "        project u.b, u.s, null as in_left, 1 as in_right\n"
                "          scan small u: b, s\n");
    plan = begin();
    CHECK_SHAPE(plan, small_set(plan, SET_EXCEPT, true),
                "project a, s, each row times copies\n"
                "  project a, s, count(in_left) - count(in_right) as copies\n"
                "    filter count(in_left) > count(in_right)\n"
                "      aggregate count(in_left), count(in_right) by a, s\n"
                "        union all\n"
                "          project t.a, t.s, 1 as in_left, null as in_right\n"
                "            scan small t: a, s\n"
                "          project u.b, u.s, null as in_left, 1 as in_right\n"
                "            scan small u: b, s\n");
}

TEST(distinct_arguments_are_grouped_first)
{
    Plan *plan = begin();
    CHECK_SHAPE(plan, aggregate(plan, scan_small(plan, "t"), "s", "count(distinct a) as n;avg(distinct a) as mean"),
                "aggregate count(a) as n, avg(a) as mean by s\n"
                "  aggregate by s, a as distinct\n"
                "    scan small t: a, s\n");
    plan = begin();
    CHECK_SHAPE(plan,
                aggregate(plan, scan_small(plan, "t"), "s",
                          "count(distinct a) as n;sum(b) as total;max(distinct k) as most"),
                "aggregate max(n) as n, max(total) as total, max(most) as most by s\n"
                "  union all\n"
                "    project t.s, count(t.a) as n, null as total, null as most\n"
                "      aggregate count(t.a) as n by t.s\n"
                "        aggregate by t.s, t.a as distinct\n"
                "          scan small t: a, s\n"
                "    project t.s, null as n, sum(t.b) as total, max(t.k) as most\n"
                "      aggregate sum(t.b) as total, max(t.k) as most by t.s\n"
                "        scan small t: k, b, s\n");
}

TEST(keys_that_others_determine_are_no_keys)
{
    Plan *plan = begin();
    Node *t = filter(plan, cross(plan, scan_small(plan, "t"), scan_small(plan, "u")), "t.a = u.k and t.b = 7");
    CHECK_SHAPE(plan, aggregate(plan, t, "t.s;u.s;t.k;u.k;t.b", "count(*) as n"),
                "project any(t.s) as s, any(u.s) as s, t.k, any(u.k) as k, 7 as b, count(*) as n\n"
                "  aggregate count(*) as n, any(t.s) as s, any(u.s) as s, any(u.k) as k by t.k\n"
                "    join inner on u.k = t.a\n"
                "      scan small u: k, s\n"
                "      filter t.b = 7\n"
                "        scan small t: k, a, b, s\n");
}

TEST(what_nobody_needs_is_not_read)
{
    Plan *plan = begin();
    Node *groups = aggregate(plan, scan_small(plan, "t"), "a", "sum(k) as x;max(b) as y");
    Node *all = set_of(plan, SET_UNION, true, groups,
                       aggregate(plan, scan_small(plan, "u"), "u.a", "sum(u.k) as x;max(u.b) as y"));
    CHECK_SHAPE(plan, aggregate(plan, project(plan, sort(plan, all, "y"), "x"), "", "sum(x / 2) as total"),
                "aggregate sum(x / 2) as total\n"
                "  union all\n"
                "    project sum(t.k) as x\n"
                "      aggregate sum(t.k) as x by t.a\n"
                "        scan small t: k, a\n"
                "    project sum(u.k) as x\n"
                "      aggregate sum(u.k) as x by u.a\n"
                "        scan small u: k, a\n");
}

// ---- proofs --------------------------------------------------------------------------------------------------------

// "5 .. 9", and "?" behind it if NULL can occur; "unknown".
static const char *range_text(const Plan *plan, const char *name)
{
    const Range range = plan->columns[find_column(plan, name)].range;
    if (!range.known) return range.nullable ? "unknown?" : "unknown";
    return arena_printf(arena, "%lld .. %lld%s", (long long)range.low, (long long)range.high,
                        range.nullable ? "?" : "");
}

TEST(what_is_computed_above_a_filter_is_narrowed_by_it)
{
    Plan *plan = begin();
    Node *t = filter(plan, scan_small(plan, "t"), "a >= 5 and a < 10 and b in (3, 7)");
    t = project(plan, t, "a * 2 as double;b + 0 as same;a");
    plan_prove(plan, aggregate(plan, t, "a as key", "count(*) as n;sum(double) as total;min(same) as least"));
    CHECK_STR(range_text(plan, "double"), "10 .. 18");
    CHECK_STR(range_text(plan, "same"), "3 .. 7");
    CHECK_STR(range_text(plan, "key"), "5 .. 9");
    CHECK_STR(range_text(plan, "n"), "0 .. 1000");
    CHECK_STR(range_text(plan, "total"), "10 .. 18000");
    CHECK_STR(range_text(plan, "least"), "3 .. 7");
    CHECK_STR(range_text(plan, "t.a"), "1 .. 100");         // the filter itself reads all of it
    CHECK_STR(range_text(plan, "t.b"), "1 .. 100?");
}

TEST(outer_joins_make_columns_nullable)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "u"), "t.a = u.a");
    t = join(plan, JOIN_SEMI, t, scan_small(plan, "v"), "t.b = v.k");
    t = project(plan, t, "t.b + 0 as key;u.k + 0 as other");
    plan_prove(plan, aggregate(plan, t, "", "max(key) as most;count(other) as n"));
    CHECK_STR(range_text(plan, "t.a"), "1 .. 100");
    CHECK_STR(range_text(plan, "u.a"), "1 .. 100?");
    CHECK_STR(range_text(plan, "key"), "1 .. 100");         // the semi join found it in v
    CHECK_STR(range_text(plan, "other"), "1 .. 1000?");
    CHECK_STR(range_text(plan, "most"), "1 .. 100?");       // of no rows
    CHECK_STR(range_text(plan, "n"), "0 .. 1000000");
}

TEST(sums_are_as_wide_as_their_rows_allow)
{
    Plan *plan = begin();
    Node *t = scan_fake(plan, "t", "t", 1000, "g int 1 3, big money 0 900000000000000, n int 5 9");
    plan_prove(plan, aggregate(plan, t, "g", "sum(big) as total;sum(n) as few;avg(n) as mean"));
    const Range range = plan->columns[find_column(plan, "total")].range;
    CHECK(range.known && range.low == 0 && range.high == (i128)90000000000000000 * 1000);
    CHECK_STR(range_text(plan, "few"), "5 .. 9000");
    CHECK_STR(range_text(plan, "mean"), "unknown");
}

TEST(estimates_follow_distinct_values)
{
    Plan *plan = begin();
    Node *c = filter(plan, scan_fake(plan, "c", "c", 150000, "ck key 1 150000, seg text 5"), "seg = 'x'");
    Node *o = filter(plan, scan_fake(plan, "o", "o", 1500000, "ok key 1 1500000, oc int 1 150000, day int 1 2400"),
                     "day between 1 and 240");
    Node *j = join(plan, JOIN_INNER, o, c, "oc = ck");
    finish(plan, j);
    CHECK_OK(plan_rewrite(plan, NULL, &err), err);
    CHECK_DOUBLE(plan->root->rows, 30000.0 * 150000 / 150000, 300);
    plan = begin();
    Node *t = scan_fake(plan, "t", "t", 1000000, "a int 1 1000, b int 1 1000");
    Node *g = aggregate(plan, t, "a;b", "count(*) as n");
    plan_prove(plan, filter(plan, g, "a = 5"));
    CHECK_DOUBLE(g->rows, 1000000, 0.5);
}

// ---- the order of joins --------------------------------------------------------------------------------------------

TEST(a_chain_with_repeated_keys_builds_no_large_table)
{
    Plan *plan = begin();
    Node *chain = NULL;
    for (int i = 0; i < 5; i++) {
        Node *t = scan_fake(plan, "t", (const char *[]){ "a", "b", "c", "d", "e" }[i], 1000,
                            "x int 1 10, y int 1 10, z int 1 1000");
        chain = chain ? cross(plan, chain, t) : t;
    }
    chain = filter(plan, chain, "a.y = b.x and b.y = c.x and c.y = d.x and d.y = e.x and a.z = 5");
    CHECK_SHAPE(plan, aggregate(plan, chain, "", "count(*) as n"),
                "aggregate count(*) as n\n"
                "  join inner on d.x = c.y\n"
                "    join inner on d.y = e.x\n"
                "      scan t d: x, y\n"
                "      scan t e: x\n"
                "    join inner on c.x = b.y\n"
                "      scan t c: x, y\n"
                "      join inner on b.x = a.y\n"
                "        scan t b: x, y\n"
                "        filter a.z = 5\n"
                "          scan t a: y, z\n");
}

TEST(semi_joins_ride_and_left_joins_stay_on_top)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_LEFT, scan_small(plan, "t"), scan_small(plan, "l"), "t.a = l.a");
    t = join(plan, JOIN_INNER, t, scan_small(plan, "u"), "t.b = u.k");
    t = join(plan, JOIN_SEMI, t, scan_small(plan, "v"), "u.b = v.a");
    t = filter(plan, cross(plan, t, scan_fake(plan, "large", "w", 1000000, "k key 1 1000000, r int 1 1000")),
               "w.r = u.k");
    CHECK_SHAPE(plan, project(plan, t, "t.k;l.k;w.k"),
                "project t.k, l.k, w.k\n"
                "  join left on t.a = l.a\n"
                "    join inner on w.r = t.b\n"
                "      scan large w: k, r\n"
                "      join inner on t.b = u.k\n"
                "        scan small t: k, a, b\n"
                "        join semi on u.b = v.a\n"
                "          scan small u: k, b\n"
                "          scan small v: a\n"
                "    scan small l: k, a\n");
}

// More leaves than are ordered exactly, and leaves that are all joined with each other.
TEST(many_tables_are_ordered_greedily)
{
    for (int is_star = 0; is_star < 2; is_star++) {
        Plan *plan = begin();
        Node *all = scan_small(plan, "t0");
        for (int i = 1; i < (is_star ? 12 : 40); i++) {
            const char *alias = arena_printf(arena, "t%d", i);
            all = join(plan, JOIN_INNER, all, scan_small(plan, alias),
                       arena_printf(arena, "t%d.k = %s.%s", is_star ? 0 : i - 1, alias, is_star ? "k" : "a"));
        }
        const char *text = rewritten(plan, aggregate(plan, all, "", "count(*) as n"));
        int         n_joins = 0;
        for (const char *at = text; (at = strstr(at, "join inner on")); at++) n_joins++;
        CHECK_INT(n_joins, is_star ? 11 : 39);
    }
}

// ---- TPC-H at scale factor 1 ---------------------------------------------------------------------------------------

static const struct { const char *name; u64 n_rows; const char *columns;
} tpch_tables[] = {
    { "lineitem", 6001215,
      "l_orderkey int 1 1500000, l_partkey int 1 200000, l_suppkey int 1 10000, l_quantity money 1 50,"
      "l_extendedprice money 900 104949, l_discount money 0 1, l_shipdate date 1992-01-02 1998-12-01,"
      "l_shipinstruct text 4, l_shipmode text 7" },
    { "orders", 1500000, "o_orderkey key 1 1500000, o_custkey int 1 149999, o_orderdate date 1992-01-01 1998-08-02" },
    { "customer", 150000, "c_custkey key 1 150000, c_name text 150000, c_nationkey int 0 24, c_acctbal money 0 9999" },
    { "part", 200000,
      "p_partkey key 1 200000, p_name text 199997, p_brand text 25, p_size int 1 50, p_container text 40" },
    { "supplier", 10000, "s_suppkey key 1 10000, s_nationkey int 0 24" },
    { "partsupp", 800000, "ps_partkey int 1 200000, ps_suppkey int 1 10000, ps_supplycost money 1 1000" },
    { "nation", 25, "n_nationkey key 0 24, n_name text 25, n_regionkey int 0 4" },
    { "region", 5, "r_regionkey key 0 4, r_name text 5" },
};

// Names separated by blanks, "nation:n1" with an alias.
static Node *tpch_from(Plan *plan, const char *names)
{
    char *rest = arena_strdup(arena, names);
    Node *from = NULL;
    for (char *name; (name = strsep(&rest, " "));) {
        char *alias = strchr(name, ':');
        if (alias) *alias++ = 0;
        for (int t = 0; t < COUNT_OF(tpch_tables); t++) {
            if (strcmp(tpch_tables[t].name, name) != 0) continue;
            Node *scan = scan_fake(plan, tpch_tables[t].name, alias ? alias : name, tpch_tables[t].n_rows,
                                   tpch_tables[t].columns);
            from = from ? cross(plan, from, scan) : scan;
        }
    }
    return from;
}

TEST(tpch_q5_may_use_any_of_three_equal_columns)
{
    Plan *plan = begin();
    Node *from = filter(
        plan, tpch_from(plan, "customer orders lineitem supplier nation region"),
        "c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey and "
        "s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'ASIA' and "
        "o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'");
    CHECK_SHAPE(plan, aggregate(plan, from, "n_name", "sum(l_extendedprice * (1 - l_discount)) as revenue"),
                "aggregate sum(lineitem.l_extendedprice * (1.00 - lineitem.l_discount)) as revenue by "
                "nation.n_name\n"
                "  join inner on nation.n_nationkey = supplier.s_nationkey and lineitem.l_suppkey = "
                "supplier.s_suppkey\n"
                "    join inner on lineitem.l_orderkey = orders.o_orderkey\n"
                "      scan lineitem: l_orderkey, l_suppkey, l_extendedprice, l_discount\n"
                "      join inner on orders.o_custkey = customer.c_custkey\n"
                "        filter orders.o_orderdate >= date '1994-01-01' and orders.o_orderdate < date "
                "'1995-01-01'\n"
                "          scan orders: o_orderkey, o_custkey, o_orderdate\n"
                "        join inner on customer.c_nationkey = nation.n_nationkey\n"
                "          scan customer: c_custkey, c_nationkey\n"
                "          join inner on nation.n_regionkey = region.r_regionkey\n"
                "            scan nation: n_nationkey, n_name, n_regionkey\n"
                "            filter region.r_name = 'ASIA'\n"
                "              scan region: r_regionkey, r_name\n"
                "    scan supplier: s_suppkey, s_nationkey\n");
}

TEST(tpch_q7_filters_both_nations)
{
    Plan *plan = begin();
    Node *from = filter(plan, tpch_from(plan, "supplier lineitem orders customer nation:n1 nation:n2"),
                        "s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey and "
                        "s_nationkey = n1.n_nationkey and "
                        "c_nationkey = n2.n_nationkey and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY') or "
                        "(n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE')) and "
                        "l_shipdate between date '1995-01-01' and date '1996-12-31'");
    from = project(
        plan, from,
        "n1.n_name as supp;n2.n_name as cust;year(l_shipdate) as l_year;l_extendedprice * (1 - l_discount) as volume");
    CHECK_SHAPE(plan, aggregate(plan, from, "supp;cust;l_year", "sum(volume) as revenue"),
                "aggregate sum(lineitem.l_extendedprice * (1.00 - lineitem.l_discount)) as revenue by n1.n_name "
                "as supp, n2.n_name as cust, extract(year from lineitem.l_shipdate) as l_year\n"
                "  join inner on lineitem.l_orderkey = orders.o_orderkey if n1.n_name = 'FRANCE' and n2.n_name = "
                "'GERMANY' or n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'\n"
                "    join inner on lineitem.l_suppkey = supplier.s_suppkey\n"
                "      filter lineitem.l_shipdate >= date '1995-01-01' and lineitem.l_shipdate <= date "
                "'1996-12-31'\n"
                "        scan lineitem: l_orderkey, l_suppkey, l_extendedprice, l_discount, l_shipdate\n"
                "      join inner on supplier.s_nationkey = n1.n_nationkey\n"
                "        scan supplier: s_suppkey, s_nationkey\n"
                "        filter n1.n_name in ('FRANCE', 'GERMANY')\n"
                "          scan nation n1: n_nationkey, n_name\n"
                "    join inner on orders.o_custkey = customer.c_custkey\n"
                "      scan orders: o_orderkey, o_custkey\n"
                "      join inner on customer.c_nationkey = n2.n_nationkey\n"
                "        scan customer: c_custkey, c_nationkey\n"
                "        filter n2.n_name in ('FRANCE', 'GERMANY')\n"
                "          scan nation n2: n_nationkey, n_name\n");
}

TEST(tpch_q9_streams_lineitem)
{
    Plan *plan = begin();
    Node *from = filter(
        plan, tpch_from(plan, "part supplier lineitem partsupp orders nation"),
        "s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey and "
        "o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%green%'");
    CHECK_SHAPE(plan,
                aggregate(plan, from, "n_name;year(o_orderdate) as o_year",
                          "sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) as profit"),
                "aggregate sum(lineitem.l_extendedprice * (1.00 - lineitem.l_discount) - partsupp.ps_supplycost "
                "* lineitem.l_quantity) as profit by nation.n_name, extract(year from orders.o_orderdate) as "
                "o_year\n"
                "  join inner on lineitem.l_suppkey = partsupp.ps_suppkey and lineitem.l_partkey = "
                "partsupp.ps_partkey\n"
                "    join inner on lineitem.l_suppkey = supplier.s_suppkey\n"
                "      join inner on lineitem.l_orderkey = orders.o_orderkey\n"
                "        join inner on lineitem.l_partkey = part.p_partkey\n"
                "          scan lineitem: l_orderkey, l_partkey, l_suppkey, l_quantity, l_extendedprice, "
                "l_discount\n"
                "          filter part.p_name like '%green%'\n"
                "            scan part: p_partkey, p_name\n"
                "        scan orders: o_orderkey, o_orderdate\n"
                "      join inner on supplier.s_nationkey = nation.n_nationkey\n"
                "        scan supplier: s_suppkey, s_nationkey\n"
                "        scan nation: n_nationkey, n_name\n"
                "    scan partsupp: ps_partkey, ps_suppkey, ps_supplycost\n");
}

TEST(tpch_q10_groups_by_the_customer)
{
    Plan *plan = begin();
    Node *from = filter(plan, tpch_from(plan, "customer orders lineitem nation"),
                        "c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01' and "
                        "o_orderdate < date '1994-01-01' and c_nationkey = n_nationkey");
    CHECK_SHAPE(plan,
                aggregate(plan, from, "c_custkey;c_name;c_acctbal;n_name",
                          "sum(l_extendedprice * (1 - l_discount)) as revenue"),
                "project customer.c_custkey, any(customer.c_name) as c_name, any(customer.c_acctbal) as "
                "c_acctbal, any(nation.n_name) as n_name, sum(lineitem.l_extendedprice * (1.00 - "
                "lineitem.l_discount)) as revenue\n"
                "  aggregate sum(lineitem.l_extendedprice * (1.00 - lineitem.l_discount)) as revenue, "
                "any(customer.c_name) as c_name, any(customer.c_acctbal) as c_acctbal, any(nation.n_name) as "
                "n_name by customer.c_custkey\n"
                "    join inner on lineitem.l_orderkey = orders.o_orderkey\n"
                "      scan lineitem: l_orderkey, l_extendedprice, l_discount\n"
                "      join inner on customer.c_nationkey = nation.n_nationkey\n"
                "        join inner on orders.o_custkey = customer.c_custkey\n"
                "          filter orders.o_orderdate >= date '1993-10-01' and orders.o_orderdate < date "
                "'1994-01-01'\n"
                "            scan orders: o_orderkey, o_custkey, o_orderdate\n"
                "          scan customer: c_custkey, c_name, c_nationkey, c_acctbal\n"
                "        scan nation: n_nationkey, n_name\n");
}

TEST(tpch_q19_finds_its_key_inside_an_or)
{
    Plan *plan = begin();
    Node *from = filter(plan, tpch_from(plan, "lineitem part"),
                        "(p_partkey = l_partkey and p_brand = 'Brand#12' and l_quantity >= 1 and l_quantity <= 11 "
                        "and l_shipmode in ('AIR', 'AIR REG')) or "
                        "(p_partkey = l_partkey and p_brand = 'Brand#23' and l_quantity >= 10 and l_quantity <= 20 "
                        "and l_shipmode in ('AIR', 'AIR REG'))");
    CHECK_SHAPE(plan, aggregate(plan, from, "", "sum(l_extendedprice * (1 - l_discount)) as revenue"),
                "aggregate sum(lineitem.l_extendedprice * (1.00 - lineitem.l_discount)) as revenue\n"
                "  join inner on lineitem.l_partkey = part.p_partkey if part.p_brand = 'Brand#12' and "
                "lineitem.l_quantity >= 1.00 and lineitem.l_quantity <= 11.00 or part.p_brand = 'Brand#23' and "
                "lineitem.l_quantity >= 10.00 and lineitem.l_quantity <= 20.00\n"
                "    filter lineitem.l_shipmode in ('AIR', 'AIR REG') and (lineitem.l_quantity >= 1.00 and "
                "lineitem.l_quantity <= 11.00 or lineitem.l_quantity >= 10.00 and lineitem.l_quantity <= 20.00)\n"
                "      scan lineitem: l_partkey, l_quantity, l_extendedprice, l_discount, l_shipmode\n"
                "    filter part.p_brand in ('Brand#12', 'Brand#23')\n"
                "      scan part: p_partkey, p_brand\n");
}

// ---- the star schema benchmark -------------------------------------------------------------------------------------

static const char *const ssb_tables[][2] = {
    { "lineorder", "lo_orderkey int 1 6000000, lo_custkey int 1 30000, lo_partkey int 1 200000, lo_suppkey int 1 2000,"
                   "lo_orderdate date 1992-01-01 1998-12-31, lo_quantity int 1 50, lo_extendedprice int 1 100000,"
                   "lo_discount int 0 10, lo_revenue int 1 100000, lo_supplycost int 1 1000" },
    { "date", "d_datekey date 1992-01-01 1998-12-31, d_year int 1992 1998, d_yearmonthnum int 1 84,"
              "d_weeknuminyear int 1 53, d_yearmonth text 84" },
    { "customer", "c_custkey key 1 30000, c_city text 250, c_nation text 25, c_region text 5" },
    { "supplier", "s_suppkey key 1 2000, s_city text 250, s_nation text 25, s_region text 5" },
    { "part", "p_partkey key 1 200000, p_mfgr text 5, p_category text 25, p_brand1 text 1000" },
};
static const u64 ssb_rows[] = { 6000000, 2556, 30000, 2000, 200000 };

// Dimensions (letters: d, c, s, p), conditions beside the joins, group keys.
static const char *const ssb_queries[][3] = {
    { "d", "d_year = 1993 and lo_discount between 1 and 3 and lo_quantity < 25", "" },
    { "d", "d_yearmonthnum = 25 and lo_discount between 4 and 6 and lo_quantity between 26 and 35", "" },
    { "d", "d_weeknuminyear = 6 and d_year = 1994 and lo_discount between 5 and 7 and lo_quantity between 26 and 35",
      "" },
    { "dsp", "p_category = 'MFGR#12' and s_region = 'AMERICA'", "d_year;p_brand1" },
    { "psd", "p_brand1 >= 'MFGR#2221' and p_brand1 <= 'MFGR#2228' and s_region = 'ASIA'", "d_year;p_brand1" },
    { "spd", "p_brand1 = 'MFGR#2239' and s_region = 'EUROPE'", "d_year;p_brand1" },
    { "csd", "c_region = 'ASIA' and s_region = 'ASIA' and d_year >= 1992 and d_year <= 1997",
      "c_nation;s_nation;d_year" },
    { "scd", "c_nation = 'U' and s_nation = 'U' and d_year >= 1992 and d_year <= 1997", "c_city;s_city;d_year" },
    { "csd", "(c_city = 'A' or c_city = 'B') and (s_city = 'A' or s_city = 'B') and d_year >= 1992 and d_year <= 1997",
      "c_city;s_city;d_year" },
    { "dcs", "(c_city = 'A' or c_city = 'B') and (s_city = 'A' or s_city = 'B') and d_yearmonth = 'Dec1997'",
      "c_city;s_city;d_year" },
    { "dcsp", "c_region = 'AMERICA' and s_region = 'AMERICA' and (p_mfgr = 'MFGR#1' or p_mfgr = 'MFGR#2')",
      "d_year;c_nation" },
    { "pscd",
      "c_region = 'AMERICA' and s_region = 'AMERICA' and (d_year = 1997 or d_year = 1998) and "
      "(p_mfgr = 'MFGR#1' or p_mfgr = 'MFGR#2')",
      "d_year;s_nation;p_category" },
    { "dcsp",
      "c_region = 'AMERICA' and s_nation = 'UNITED STATES' and (d_year = 1997 or d_year = 1998) and "
      "p_category = 'MFGR#14'",
      "d_year;s_city;p_brand1" },
};

static Node *ssb_scan(Plan *plan, char letter)
{
    const int t = letter == 'd' ? 1 : letter == 'c' ? 2 : letter == 's' ? 3 : letter == 'p' ? 4 : 0;
    return scan_fake(plan, ssb_tables[t][0], ssb_tables[t][0], ssb_rows[t], ssb_tables[t][1]);
}

static const char *ssb_equality(char letter)
{
    return letter == 'd' ? "lo_orderdate = d_datekey" : letter == 'c' ? "lo_custkey = c_custkey"
         : letter == 's' ? "lo_suppkey = s_suppkey" : "lo_partkey = p_partkey";
}

static Node *ssb_query(Plan *plan, const char *const *query)
{
    const size_t n = strlen(query[0]);
    Node        *from = NULL;
    for (size_t i = 0; i <= n; i++) {                       // the fact table comes second, as a reader might write it
        Node *scan = ssb_scan(plan, i == 1 ? 'l' : query[0][i > 1 ? i - 1 : 0]);
        from = from ? cross(plan, from, scan) : scan;
    }
    for (size_t i = 0; i < n; i++) from = filter(plan, from, ssb_equality(query[0][i]));
    from = filter(plan, from, query[1]);
    return aggregate(plan, from, query[2], "sum(lo_revenue) as revenue");
}

static const Node *below_filter(const Node *node) { return node->kind == NODE_FILTER ? node->inputs[0] : node; }

// The late orders of a quarter: lineitem streams through the quarter's orders before any of it is stored.
TEST(tpch_q4_stores_only_lines_of_its_orders)
{
    Plan *plan = begin();
    Node *orders = filter(plan, tpch_from(plan, "orders"),
                          "o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'");
    Node *late = filter(plan, tpch_from(plan, "lineitem"), "l_quantity < l_extendedprice");
    Node *t = join(plan, JOIN_SEMI, orders, late, "o_orderkey = l_orderkey");
    CHECK_SHAPE(plan, aggregate(plan, t, "", "count(*) as n"),
                "aggregate count(*) as n\n"
                "  join semi on orders.o_orderkey = lineitem.l_orderkey\n"
                "    filter orders.o_orderdate >= date '1993-07-01' and orders.o_orderdate < date '1993-10-01'\n"
                "      scan orders: o_orderkey, o_orderdate\n"
                "    join semi on lineitem.l_orderkey = orders.o_orderkey\n"
                "      filter lineitem.l_quantity < lineitem.l_extendedprice\n"
                "        scan lineitem: l_orderkey, l_quantity, l_extendedprice\n"
                "      filter orders.o_orderdate >= date '1993-07-01' and orders.o_orderdate < date '1993-10-01'\n"
                "        scan orders: o_orderkey, o_orderdate\n");
}

// Groups of all parts become groups of those that the outer query asks for; an equality leads to where they come from.
TEST(tpch_q17_groups_only_parts_that_are_asked_for)
{
    Plan *plan = begin();
    Node *groups = aggregate(plan, tpch_from(plan, "lineitem:l2"), "l2.l_partkey as k", "avg(l2.l_quantity) as usual");
    Node *t = filter(plan, cross(plan, tpch_from(plan, "lineitem:l1 part"), groups),
                     "p_partkey = l1.l_partkey and p_container = 'a' and k = p_partkey");
    CHECK_SHAPE(plan, aggregate(plan, t, "", "sum(usual) as total"),
                "aggregate sum(avg(l2.l_quantity)) as total\n"
                "  join inner on l1.l_partkey = l2.l_partkey\n"
                "    scan lineitem l1: l_partkey\n"
                "    join inner on l2.l_partkey = part.p_partkey\n"
                "      aggregate avg(l2.l_quantity) as usual by l2.l_partkey as k\n"
                "        join semi on l2.l_partkey = part.p_partkey\n"
                "          scan lineitem l2: l_partkey, l_quantity\n"
                "          project p_partkey\n"
                "            rows of shared 1\n"
                "      project p_partkey\n"
                "        rows of shared 1\n"
                "shared 1 =\n"
                "  project part.p_partkey\n"
                "    filter part.p_container = 'a'\n"
                "      scan part: p_partkey, p_container\n");
}

// Q21: the suppliers of one nation leave few lines, so the large semi join goes above, and its right side shrinks.
TEST(a_large_semi_join_goes_above_joins_that_leave_few_rows)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_SEMI, tpch_from(plan, "lineitem:l1"), tpch_from(plan, "lineitem:l2"),
                   "l1.l_orderkey = l2.l_orderkey and l1.l_suppkey <> l2.l_suppkey");
    t = filter(plan, cross(plan, t, tpch_from(plan, "supplier nation")),
               "s_suppkey = l1.l_suppkey and s_nationkey = n_nationkey and n_name = 'a'");
    CHECK_SHAPE(plan, aggregate(plan, t, "", "count(*) as n"),
                "aggregate count(*) as n\n"
                "  join semi on l1.l_orderkey = l2.l_orderkey if l1.l_suppkey <> l2.l_suppkey\n"
                "    project l_orderkey, l_suppkey\n"
                "      rows of shared 1\n"
                "    join semi on l2.l_orderkey = l1.l_orderkey\n"
                "      scan lineitem l2: l_orderkey, l_suppkey\n"
                "      project l_orderkey\n"
                "        rows of shared 1\n"
                "shared 1 =\n"
                "  project l1.l_orderkey, l1.l_suppkey\n"
                "    join inner on l1.l_suppkey = supplier.s_suppkey\n"
                "      scan lineitem l1: l_orderkey, l_suppkey\n"
                "      join inner on supplier.s_nationkey = nation.n_nationkey\n"
                "        scan supplier: s_suppkey, s_nationkey\n"
                "        filter nation.n_name = 'a'\n"
                "          scan nation: n_nationkey, n_name\n");
}

// Q13: a customer's orders are counted before the join, and the customer without any has none.
TEST(tpch_q13_counts_orders_before_the_join)
{
    Plan *plan = begin();
    Node *t = join(plan, JOIN_LEFT, tpch_from(plan, "customer"), tpch_from(plan, "orders"), "c_custkey = o_custkey");
    t = aggregate(plan, t, "c_custkey;c_name", "count(o_orderkey) as n;count(*) as rows;max(o_orderkey) as last");
    CHECK_SHAPE(plan, t,
                "project customer.c_custkey, customer.c_name, coalesce(count(orders.o_orderkey), 0) as n, "
                "coalesce(count(*), 1) as rows, max(orders.o_orderkey) as last\n"
                "  join left on customer.c_custkey = orders.o_custkey\n"
                "    scan customer: c_custkey, c_name\n"
                "    aggregate count(orders.o_orderkey) as n, count(*) as rows, max(orders.o_orderkey) as last "
                "by orders.o_custkey\n"
                "      scan orders: o_orderkey, o_custkey\n");
}

TEST(star_queries_stream_the_fact_table_through_dimensions)
{
    for (int q = 0; q < COUNT_OF(ssb_queries); q++) {
        Plan       *plan = begin();
        const char *text = rewritten(plan, ssb_query(plan, ssb_queries[q]));
        const Node *node = plan->root;
        size_t      n_joins = 0;
        while (node->kind != NODE_JOIN) node = node->inputs[0];
        for (; node->kind == NODE_JOIN; node = node->inputs[0], n_joins++) {
            if (below_filter(node->inputs[1])->kind != NODE_SCAN)
                CHECK_FAIL("query %d builds more than a table:\n%s", q, text);
            CHECK_INT(node->n_keys, 1);
            CHECK_INT(node->n_conditions, 0);
        }
        CHECK_INT(n_joins, strlen(ssb_queries[q][0]));
        CHECK_STR(below_filter(node)->table->name, "lineorder");
    }
}

// ---- random trees: the rows stay -----------------------------------------------------------------------------------

static u64 seed;
static int pick(int n) { return (int)(random_next(&seed) % (u64)n); }

static Store *store;

static void close_random_store(void) { store_close(store); }

// k counts up, a and b are small and often NULL, s is one of three words.
static void fill_table(const char *name, u32 n_rows)
{
    const ColumnDef columns[] = { { "k", TYPE(INTEGER), true },
                                  { "a", TYPE(INTEGER), false },
                                  { "b", TYPE(BIGINT), false },
                                  { "s", TYPE(TEXT), false } };
    i64             values[4][16], codes[4];
    u8              nulls[3][16];
    create(store, name, columns, 4);
    const Table *table = get_table(store, name);
    intern_numbered(table->columns[3].dict, "w", 0, 3, codes);
    for (u32 r = 0; r < n_rows; r++) {
        values[0][r] = r, values[1][r] = pick(4), values[2][r] = pick(6), values[3][r] = codes[pick(3)];
        for (int c = 0; c < 3; c++) nulls[c][r] = pick(5) == 0;
    }
    table_release(table);
    append_all(store, name,
               (ColumnInput[]){ { .i = values[0] },
                                { .i = values[1], .is_null = nulls[0] },
                                { .i = values[2], .is_null = nulls[1] },
                                { .i = values[3], .is_null = nulls[2] } },
               n_rows);
}

static const Table *random_tables[3];

static void open_random_store(void)
{
    if (store) return;
    store = open_store(NULL);
    seed = 88172645463325252u;
    fill_table("t", 9), fill_table("u", 6), fill_table("v", 4);
    random_tables[0] = get_table(store, "t"), random_tables[1] = get_table(store, "u"),
    random_tables[2] = get_table(store, "v");
    atexit(close_random_store);
}

// Left sides of the dependent joins around what is made.
static const Node *outer_nodes[4];
static int         n_outer_nodes;

static Expr *random_column(const Plan *plan, const Node *a, const Node *b, TypeKind kind)
{
    for (int tries = 0; tries < 20; tries++) {
        const Node *side = b && pick(2) ? b : a;
        if (n_outer_nodes && pick(4) == 0) side = outer_nodes[pick(n_outer_nodes)];
        if (!side->n_out) continue;
        const int column = side->out[pick(side->n_out)];
        if (plan->columns[column].type.kind == kind) return plan_column_expr(plan, column, -1);
    }
    return NULL;
}

static Expr *integer(i64 value) { return expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = value }, -1); }

static Expr *random_condition(Plan *plan, const Node *a, const Node *b, int depth);

static Expr *random_number(Plan *plan, const Node *a, const Node *b, int depth)
{
    Expr *x = random_column(plan, a, b, pick(3) ? TYPE_INTEGER : TYPE_BIGINT), *expr;
    if (!x || pick(6) == 0) return integer(pick(6));
    if (depth <= 0 || pick(3)) return x;
    switch (pick(4)) {
        case 0: return call2(OP_ADD, x, random_number(plan, a, b, 0));
        case 1: return make_call(OP_COALESCE, (Expr *[]){ x, random_number(plan, a, b, 0) }, 2);
        case 2: return call2(OP_SUB, x, integer(1));
        default:
            CHECK_OK(expr_case(arena, (Expr *[]){ random_condition(plan, a, b, 0), x, random_number(plan, a, b, 0) }, 3,
                               -1, &expr, &err),
                     err);
            return expr;
    }
}

static bool asks_host;                                      // it has a condition that only the host computes

static Expr *random_text_condition(Plan *plan, const Node *a, const Node *b)
{
    Expr *x = random_column(plan, a, b, TYPE_TEXT), *y = random_column(plan, a, b, TYPE_TEXT);
    Value word = { .type = TYPE(TEXT) };
    if (!x) return NULL;
    word.text.bytes = pick(2) ? "w 1" : "w 2", word.text.length = 3;
    if (y && pick(4) == 0) {
        asks_host = true;
        return call2(OP_LIKE, x, y);
    }
    if (pick(3) == 0) return call2(OP_EQ, x, y ? y : x);
    return call2(pick(2) ? OP_EQ : OP_LT, x, expr_const(arena, word, -1));
}

// (x and y) or (x and z), and (x and y) or x
static Expr *random_or(Plan *plan, const Node *a, const Node *b)
{
    Expr *x = random_condition(plan, a, b, 0), *y = random_condition(plan, a, b, 0),
         *z = random_condition(plan, a, b, 0);
    return call2(OP_OR, call2(OP_AND, x, y), pick(2) ? x : call2(OP_AND, z, x));
}

static Expr *random_condition(Plan *plan, const Node *a, const Node *b, int depth)
{
    static const Op comparisons[] = { OP_EQ, OP_EQ, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE };
    Expr           *x, *mark = random_column(plan, a, b, TYPE_BOOLEAN);
    if (depth > 0 && pick(3) == 0)
        return call2(pick(2) ? OP_OR : OP_AND, random_condition(plan, a, b, depth - 1),
                     random_condition(plan, a, b, depth - 1));
    if (depth > 0 && pick(8) == 0) return random_or(plan, a, b);
    if (depth > 0 && pick(8) == 0) return make_call(OP_NOT, (Expr *[]){ random_condition(plan, a, b, depth - 1) }, 1);
    if (mark && pick(3) == 0) return pick(2) ? mark : make_call(OP_NOT, &mark, 1);
    if (pick(5) == 0 && (x = random_text_condition(plan, a, b))) return x;
    x = random_number(plan, a, b, depth);
    switch (pick(7)) {
        case 0: return make_call(pick(2) ? OP_IS_NULL : OP_IS_NOT_NULL, &x, 1);
        case 1: return make_call(OP_IN, (Expr *[]){ x, integer(pick(4)), integer(pick(6)) }, 3);
        case 2: return call2(comparisons[pick(8)], x, expr_param(arena, pick(plan->n_params), TYPE(INTEGER), -1));
        case 3: return call2(comparisons[pick(8)], x, integer(pick(5)));
        default: return call2(comparisons[pick(8)], x, random_number(plan, a, b, depth - 1));
    }
}

static Node *random_tree(Plan *plan, int depth);

static Node *random_project(Plan *plan, int depth, Node *input);

static bool may_depend;                                     // dependent joins are made, too

static Node *random_join(Plan *plan, int depth)
{
    static const JoinKind kinds[] = { JOIN_INNER, JOIN_INNER, JOIN_INNER, JOIN_INNER,  JOIN_LEFT, JOIN_RIGHT,
                                      JOIN_FULL,  JOIN_SEMI,  JOIN_ANTI,  JOIN_SINGLE, JOIN_MARK };
    JoinKind kind = kinds[pick(COUNT_OF(kinds))];
    Node *left = random_tree(plan, depth - 1), *right;
    if (pick(6) == 0) left = random_project(plan, 1, left);
    const bool is_dependent = may_depend && n_outer_nodes < COUNT_OF(outer_nodes) && pick(2);
    if (is_dependent && (kind == JOIN_RIGHT || kind == JOIN_FULL)) kind = JOIN_SINGLE;
    if (is_dependent) outer_nodes[n_outer_nodes++] = left, plan->is_correlated = true;
    right = random_tree(plan, depth - 1 - pick(2));
    if (pick(6) == 0) right = random_project(plan, 1, right);
    n_outer_nodes -= is_dependent;
    Expr *x = random_column(plan, left, NULL, TYPE_INTEGER), *y = random_column(plan, right, NULL, TYPE_INTEGER),
         **list = NULL;
    int   n = 0;
    if (x && y && pick(5)) *LIST_PUSH(arena, list, n) = call2(OP_EQ, x, y);
    while (pick(3) == 0) *LIST_PUSH(arena, list, n) = random_condition(plan, left, right, 2);
    Node *node = plan_join(plan, kind, left, right, list, n);
    if (!x || !y || pick(8) || may_depend) return node;
    node->n_keys = 1, node->keys = list_of(x), node->right_keys = list_of(y);      // as rewrites leave them
    return node;
}

static Node *random_project(Plan *plan, int depth, Node *input)
{
    if (!input) input = random_tree(plan, depth - 1);
    Expr **exprs = arena_array(arena, Expr *, input->n_out + 4);
    int    columns[200], n = 0;
    for (int c = 0; c < input->n_out && n < 8; c++) {
        if (pick(3) == 0) continue;
        exprs[n] = plan_column_expr(plan, input->out[c], -1);
        columns[n] = pick(3) ? input->out[c] : plan_add_column(plan, exprs[n]->type, "r", NULL);
        n++;
    }
    for (int i = pick(3); i > 0; i--) {
        exprs[n] = random_number(plan, input, NULL, 2);
        columns[n] = plan_add_column(plan, exprs[n]->type, "x", NULL);
        n++;
    }
    return plan_project(plan, input, exprs, columns, n);
}

static Agg random_agg(Plan *plan, const Node *input)
{
    static const AggKind kinds[] = { AGG_COUNT_ALL, AGG_COUNT, AGG_SUM, AGG_MIN, AGG_MAX, AGG_AVG };
    const AggKind        kind = kinds[pick(6)];
    Expr                *text = random_column(plan, input, NULL, TYPE_TEXT);
    Expr                *arg = kind == AGG_COUNT_ALL ? NULL : random_number(plan, input, NULL, 1);
    Agg                  agg;
    if (text && kind != AGG_COUNT_ALL && kind != AGG_SUM && kind != AGG_AVG && pick(4) == 0) arg = text;
    CHECK_OK(expr_agg(kind, arg, -1, &agg, &err), err);
    agg.is_distinct = arg && pick(3) == 0;
    return agg;
}

static Node *random_aggregate(Plan *plan, int depth)
{
    Node  *input = random_tree(plan, depth - 1);
    Expr **keys = arena_array(arena, Expr *, 4);
    Agg   *aggs = arena_array(arena, Agg, 4);
    int    key_columns[4], agg_columns[4], n_keys = 0, n_aggs = 0;
    for (int i = pick(4); i > 0; i--) {
        Expr *text = random_column(plan, input, NULL, TYPE_TEXT);
        keys[n_keys] = text && pick(3) == 0 ? text : random_number(plan, input, NULL, 1);
        key_columns[n_keys] = plan_add_column(plan, keys[n_keys]->type, "g", NULL);
        n_keys++;
    }
    for (int i = pick(4); i > 0 || n_keys + n_aggs == 0; i--) {
        aggs[n_aggs] = random_agg(plan, input);
        agg_columns[n_aggs] = plan_add_column(plan, aggs[n_aggs].type, "agg", NULL);
        n_aggs++;
    }
    return plan_aggregate(plan, input, keys, key_columns, n_keys, aggs, agg_columns, n_aggs);
}

// Groups by a table's key, of what a LEFT join adds to it: they may be made before the join.
static Node *random_left_groups(Plan *plan, int depth)
{
    Node *left = plan_scan(plan, random_tables[pick(3)], "t", -1), *right = random_tree(plan, depth - 1);
    Expr *y = random_column(plan, right, NULL, TYPE_INTEGER), **keys = arena_array(arena, Expr *, 2);
    Agg  *aggs = arena_array(arena, Agg, 3);
    int   key_columns[2], agg_columns[3];
    if (!y) return right;
    Expr *x = plan_column_expr(plan, left->out[pick(2)], -1);
    Node *node = plan_join(plan, JOIN_LEFT, left, right, list_of(call2(OP_EQ, x, y)), 1);
    for (int k = 0; k < 2; k++) {
        keys[k] = plan_column_expr(plan, left->out[k], -1);
        key_columns[k] = plan_add_column(plan, keys[k]->type, "g", NULL);
    }
    for (int a = 0; a < 3; a++) {
        aggs[a] = random_agg(plan, right);
        agg_columns[a] = plan_add_column(plan, aggs[a].type, "agg", NULL);
    }
    return plan_aggregate(plan, node, keys, key_columns, 1 + pick(2), aggs, agg_columns, 1 + pick(3));
}

// Some columns of NODE: an integer and a text each, computed if there is none.
static Node *narrowed(Plan *plan, Node *node)
{
    Expr **exprs = arena_array(arena, Expr *, 2);
    int    columns[2], n = 1;
    Expr  *text = random_column(plan, node, NULL, TYPE_TEXT);
    exprs[0] = random_column(plan, node, NULL, TYPE_INTEGER);
    if (!exprs[0]) exprs[0] = integer(1);
    Value word = { .type = TYPE(TEXT) };
    word.text.bytes = "w 1", word.text.length = 3;
    exprs[n++] = text ? text : expr_const(arena, word, -1);
    for (int c = 0; c < n; c++)
        columns[c] = exprs[c]->kind == EXPR_COLUMN && node_gives(node, exprs[c]->column) && pick(2)
                         ? exprs[c]->column
                         : plan_add_column(plan, exprs[c]->type, "n", NULL);
    return plan_project(plan, node, exprs, columns, n);
}

static Node *random_set(Plan *plan, int depth)
{
    Node *left = narrowed(plan, random_tree(plan, depth - 1)), *right = narrowed(plan, random_tree(plan, depth - 1));
    return set_of(plan, (SetKind)pick(3), pick(2), left, right);
}

static Node *random_sort(Plan *plan, int depth)
{
    Node    *input = random_tree(plan, depth - 1);
    SortKey *keys = arena_array(arena, SortKey, input->n_out + 1);
    for (int c = 0; c < input->n_out; c++)
        keys[c] = (SortKey){ .column = input->out[c], .descending = pick(2), .nulls_first = pick(2) };
    if (!input->n_out) return input;
    Node *node = plan_sort(plan, input, keys, input->n_out);
    if (pick(3) == 0) node->n_distinct_on = 1 + pick(node->n_sort);
    return pick(2) ? plan_limit(plan, node, pick(6), pick(2)) : node;
}

static Node *random_reference(Plan *plan, int depth)
{
    const Node *outer[COUNT_OF(outer_nodes)];
    const int   n_outer = n_outer_nodes;
    memcpy(outer, outer_nodes, sizeof outer);
    n_outer_nodes = 0;                                      // what is shared depends on no row
    if (!plan->n_shared || pick(2)) plan_share(plan, random_tree(plan, depth - 1), "w");
    memcpy(outer_nodes, outer, sizeof outer);
    n_outer_nodes = n_outer;
    return plan_reference(plan, plan->shared[pick(plan->n_shared)], "r", -1);
}

static Node *random_values(Plan *plan)
{
    const int columns[] = { plan_add_column(plan, TYPE(INTEGER), "x", NULL),
                            plan_add_column(plan, TYPE(INTEGER), "y", NULL) };
    const int n_rows = pick(4);
    Value    *values = arena_array(arena, Value, n_rows * 2 + 1);
    for (int i = 0; i < n_rows * 2; i++)
        values[i] = (Value){ .type = TYPE(INTEGER), .is_null = pick(4) == 0, .i = pick(5) };
    return plan_values(plan, (u64)n_rows, 2, columns, values);
}

static Node *random_filter(Plan *plan, int depth)
{
    Node  *input = random_tree(plan, depth - 1);
    Expr **list = NULL;
    int    n = 0;
    for (int i = pick(3); i >= 0; i--) *LIST_PUSH(arena, list, n) = random_condition(plan, input, NULL, 2);
    return plan_filter(plan, input, list, n);
}

static Node *random_tree(Plan *plan, int depth)
{
    if (depth <= 0) return pick(8) ? plan_scan(plan, random_tables[pick(3)], "t", -1) : random_values(plan);
    switch (pick(12)) {
        case 0: case 1: case 2: case 3: return random_join(plan, depth);
        case 4: case 5: return random_filter(plan, depth);
        case 6: return random_project(plan, depth, NULL);
        case 7: return pick(3) ? random_aggregate(plan, depth) : random_left_groups(plan, depth);
        case 8: return random_set(plan, depth);
        case 9: return random_sort(plan, depth);
        case 10: return random_reference(plan, depth);
        default: return random_tree(plan, depth - 1);
    }
}

// A row of one for each row of the other.
static bool same_rows(const Rows *a, const Rows *b)
{
    bool *is_used = arena_array(arena, bool, b->n + 1);
    if (a->n != b->n || a->n_out != b->n_out) return false;
    for (int r = 0; r < a->n; r++) {
        int match = 0;
        while (match < b->n && (is_used[match] || !rows_equal(a->rows[r], b->rows[match], a->n_out))) match++;
        if (match == b->n) return false;
        is_used[match] = true;
    }
    return true;
}

static int n_compared, n_failed;

static void compare_one(u64 number)
{
    Plan *plan = begin();
    seed = number * 2654435761u + 88172645463325252u;
    for (int i = 0; i < 8; i++) random_next(&seed);
    plan_add_param(plan, TYPE(INTEGER), NULL, -1);
    plan->is_eager = number % 2, asks_host = false;
    if (pick(2)) {
        Node *subplan = random_tree(plan, 1 + pick(2));
        Expr *arg = random_column(plan, subplan, NULL, TYPE_INTEGER);
        Agg  *agg = arena_make(arena, Agg);
        CHECK_OK(expr_agg(AGG_MAX, arg ? arg : integer(1), -1, agg, &err), err);
        plan_add_param(plan, TYPE(INTEGER),
                       plan_aggregate(plan, subplan, NULL, NULL, 0, agg,
                                      (int[]){ plan_add_column(plan, TYPE(INTEGER), "m", NULL) }, 1),
                       -1);
    }
    Node *root = random_tree(plan, 1 + pick(5));
    finish(plan, root);
    const char *before_text = tree_text(plan);
    Interpreter in = { .plan = plan };
    for (int p = 0; p < plan->n_params; p++) interpret_param(&in, p);
    Rows before = interpret(&in, plan->root);
    before.out = memcpy(arena_array(arena, int, before.n_out + 1), before.out, sizeof(int) * (size_t)before.n_out);
    if (in.has_failed || before.n > 400) return;
    n_compared++;
    const bool is_repeated = pick(4) == 0 && !asks_host;    // what was rewritten can be rewritten, before the host's
    Text trace = { 0 };
    CHECK_OK(plan_rewrite(plan, pick(50) == 0 ? &trace : NULL, &err), err);
    text_free(&trace);
    if (is_repeated) CHECK_OK(plan_rewrite(plan, NULL, &err), err);
    Interpreter again = { .plan = plan, .checks_ranges = true };
    const Rows  after = interpret(&again, plan->root);
    n_failed += again.has_failed;
    if (again.has_failed && may_depend) return;             // a left side has no rows: its right side is computed
    if (!again.has_failed && same_rows(&before, &after) &&
        memcmp(before.out, after.out, sizeof(int) * (size_t)before.n_out) == 0)
        return;
    printf("before:\n%s\nafter:\n%s\n", before_text, tree_text(plan));
    CHECK_FAIL("tree %llu: %d rows before, %d after%s", (unsigned long long)number, before.n, after.n,
               again.has_failed ? ", an error" : "");
}

static void compare_many(u64 n_trees)
{
    const char *one = getenv("WEFT_TEST_TREE"), *many = getenv("WEFT_TEST_TREES");
    open_random_store();
    n_compared = n_failed = 0;
    if (one) compare_one(strtoull(one, NULL, 10));
    for (u64 number = 1; !one && number <= (many ? strtoull(many, NULL, 10) : n_trees); number++) compare_one(number);
    printf("%d trees compared\n", n_compared);
}

TEST(random_trees_mean_the_same) { compare_many(4000); }

// A dependent join is run row by row before, and has to be something else afterwards.
TEST(random_correlated_trees_mean_the_same)
{
    may_depend = true;
    compare_many(4000);
    CHECK(n_failed * 1000 < n_compared);
    may_depend = false;
}
