// query.c - random queries that Weft and SQLite must answer alike.
//
// Every draw keeps inside what the two agree on.  Kept out, and why:
//   overflow              an error here, a double in SQLite: each term carries a bound on its values
//   division by zero      an error here, NULL in SQLite: divisors are nullif(x, 0) or guarded by CASE
//   inexact doubles       sums and quotients may differ in the last bit: such terms are compared within 1e-9 when they
//                         are put out, and never compared, grouped or sorted by
//   implicit casts        SQLite compares 'a' < 1 happily: both sides are always of one kind
//   order of NULLs        spelt out
//   order of ties         LIMIT comes only with an order over all columns
//   scalar subqueries     of several rows: see subqueries.c
//   conditions of FULL    that have no equality: PostgreSQL refuses them, so most have one
//
// Half of the queries are one SELECT over tables.  The others nest up to three levels: derived tables, VALUES, WITH,
// set operations and subqueries, with outer joins, DISTINCT ON, FILTER and DISTINCT in aggregates, window functions.

#define _GNU_SOURCE
#include "query_int.h"

enum { MOST_NESTED = 6 };                                         // queries in one

RandomQuery *query_new(Scope *s, QueryKind kind)
{
    RandomQuery *query = arena_make(s->arena, RandomQuery);
    *query = (RandomQuery){ .kind = kind, .limit = -1, .offset = -1, .alias = s->alias };
    return query;
}

Shape draw_shape(Scope *s)
{
    Shape shape = { .n_items = rng_between(s->rng, 1, 4) };
    for (int i = 0; i < shape.n_items; i++)
        shape.kinds[i] = (Kind)rng_below(s->rng, KIND_BOOLEAN + 1);
    return shape;
}

// ---- FROM ---------------------------------------------------------------------------------------------------------

static void add_leaf(Scope *s, int ref, Term *leaf)
{
    leaf->is_constant = false;
    leaf->refs = 1u << ref;
    if (s->n_leaves < MAX_LEAVES)
        s->leaves[s->n_leaves++] = leaf;
}

static void columns_of_table(Scope *s, const RandomQuery *query, int ref)
{
    const RandomTable *table = &s->data->tables[query->from[ref].table];
    for (int c = 0; c < table->n_columns; c++) {
        const RandomColumn *column = &table->columns[c];
        const char *name = query->has_aliases ? arena_printf(s->arena, "%c%d.%s", s->alias, ref, column->name)
                                              : column->name;
        Term *leaf = term_new(s, kind_of_column(column->type), name, NULL, 0, NULL);
        leaf->column = column;
        leaf->bound = column_bound(column);
        leaf->scale = column->type == COLUMN_DECIMAL ? 2 : 0;
        leaf->bits = column->type == COLUMN_SMALLINT ? 16 : column->type == COLUMN_BIGINT ? 64 : 32;
        add_leaf(s, ref, leaf);
    }
}

// Computed doubles have more bits behind the point at each level, so only plain columns stay exact.
static void columns_of_query(Scope *s, const RandomQuery *nested, int ref)
{
    for (int c = 0; c < nested->n_items; c++) {
        const Term *item = nested->items[c];
        Term *leaf = term_new(s, item->kind, arena_printf(s->arena, "%c%d.c%d", s->alias, ref, c), NULL, 0, NULL);
        like_this(leaf, item);
        leaf->column = item->column;
        leaf->is_exact = item->kind != KIND_DOUBLE || (item->is_exact && item->column);
        add_leaf(s, ref, leaf);
    }
}

static void add_columns(Scope *s, const RandomQuery *query, int ref)
{
    const Source *source = &query->from[ref];
    if (source->kind == FROM_TABLE)
        columns_of_table(s, query, ref);
    else
        columns_of_query(s, source->kind == FROM_WITH ? s->with[source->table] : source->query, ref);
}

static int n_distinct_of(const Term *leaf)
{
    return leaf->column ? leaf->column->n_distinct : leaf->kind == KIND_BOOLEAN ? 2 : 20;
}

// An equality between a column of the new table and one of the tables before it; of a few candidates the most
// selective.
static Term *draw_equality(Scope *s, int first_new)
{
    Term *best_a = NULL, *best_b = NULL;
    int best = 0, wanted = rng_between(s->rng, 1, 4);
    for (int attempt = 0; attempt < 40 && wanted && first_new < s->n_leaves; attempt++) {
        Term *a = s->leaves[rng_below(s->rng, first_new)];
        Term *b = s->leaves[rng_between(s->rng, first_new, s->n_leaves - 1)];
        bool is_number = a->kind <= KIND_DECIMAL && b->kind <= KIND_DECIMAL && rng_chance(s->rng, 20);
        if ((a->kind != b->kind && !is_number) || a->kind == KIND_BOOLEAN || !a->is_exact || !b->is_exact)
            continue;
        wanted--;
        int n_distinct = MAX_OF(n_distinct_of(a), n_distinct_of(b));
        if (n_distinct > best) {
            best = n_distinct;
            best_a = a;
            best_b = b;
        }
    }
    if (!best_a)
        return NULL;
    Term *a = best_a, *b = best_b;
    if (a->kind <= KIND_DECIMAL && !unify(s, &a, &b))
        return NULL;
    if (a->kind == KIND_INTEGER && b->bits == 32 && rng_chance(s->rng, 10))
        b = sum_or_product(s, KIND_INTEGER, b, literal(s, KIND_INTEGER), largest_integer(32));
    return rng_chance(s->rng, 50) ? term_2(s, KIND_BOOLEAN, "(@0 = @1)", NULL, a, b)
                                  : term_2(s, KIND_BOOLEAN, "(@0 = @1)", NULL, b, a);
}

static void add_condition(Term **list, int *n, Term *term)
{
    if (term && *n < MAX_CONDITIONS)
        list[(*n)++] = term;
}

static JoinKind draw_join_kind(Scope *s)
{
    static const JoinKind KINDS[] = { JOIN_INNER, JOIN_INNER, JOIN_INNER, JOIN_LEFT, JOIN_LEFT, JOIN_LEFT,
                                      JOIN_RIGHT, JOIN_RIGHT, JOIN_FULL,  JOIN_FULL };
    if (!s->has_all)
        return JOIN_INNER;
    return rng_chance(s->rng, 3) ? JOIN_CROSS : KINDS[rng_below(s->rng, COUNT_OF(KINDS))];
}

static bool is_outer(JoinKind kind)
{
    return kind == JOIN_LEFT || kind == JOIN_RIGHT || kind == JOIN_FULL;
}

static bool names_column(const Term *term)
{
    bool is_there = term->refs != 0;
    for (int i = 0; i < term->n_args; i++)
        is_there |= names_column(term->args[i]);
    return is_there;
}

// SQLite 3.40 tests ON conditions of an inner join that name no column too late where a RIGHT or FULL JOIN follows: of
// "t join t on false full join u on true" it gives no row of u.
static bool has_inner_on_without_columns(const RandomQuery *query, int n_refs)
{
    for (int ref = 0; ref < n_refs; ref++)
        for (int i = 0; query->from[ref].join == JOIN_INNER && i < query->from[ref].n_on; i++)
            if (!names_column(query->from[ref].on[i]))
                return true;
    return false;
}

// Conditions of a comma or CROSS JOIN are in WHERE.
static void draw_join(Scope *s, RandomQuery *query, int ref, bool is_loose)
{
    int first_new = s->n_leaves;
    add_columns(s, query, ref);
    Source *source = &query->from[ref];
    if ((source->join == JOIN_RIGHT || source->join == JOIN_FULL) && has_inner_on_without_columns(query, ref))
        source->join = JOIN_LEFT;
    bool has_on = source->join != JOIN_COMMA && source->join != JOIN_CROSS;
    Term **list = has_on ? source->on : query->where;
    int *n = has_on ? &source->n_on : &query->n_where;
    bool has_equality = (!is_loose || source->join == JOIN_FULL) && rng_chance(s->rng, 98);
    int n_equalities = has_equality ? rng_between(s->rng, 1, rng_chance(s->rng, 30) ? 2 : 1) : 0;
    for (int i = 0; i < n_equalities; i++)
        add_condition(list, n, draw_equality(s, first_new));
    if (source->join == JOIN_FULL && *n == 0)
        source->join = JOIN_LEFT;
    if (rng_chance(s->rng, is_outer(source->join) ? 35 : is_loose ? 80 : 15))
        add_condition(list, n, draw_boolean(s, 1));
    if (has_on && *n == 0)
        add_condition(list, n, term_new(s, KIND_BOOLEAN, "true", NULL, 0, NULL));
}

static Source draw_source(Scope *s, int ref, bool is_loose)
{
    Source source = { .kind = FROM_TABLE, .is_used = true, .table = rng_below(s->rng, s->data->n_tables) };
    if (ref == 0 && rng_chance(s->rng, 40))
        source.table = 0;
    if ((is_loose || s->n_outer) && source.table == 0)            // the large one
        source.table = rng_between(s->rng, 1, s->data->n_tables - 1);
    if (s->n_with && rng_chance(s->rng, 45)) {
        source.kind = FROM_WITH;
        source.table = rng_below(s->rng, s->n_with);
    } else if (may_nest(s, 30)) {
        Scope below = scope_below(s);
        below.n_outer = 0;                                        // SQLite does not always find them from there
        source.kind = FROM_QUERY;
        source.query = query_new(&below, QUERY_SELECT);
        draw_query(&below, source.query, NULL);
    }
    return source;
}

// Joins come first, then commas: so ON may name everything before it.  IS_LOOSE: no equalities, over small tables.
static void draw_from(Scope *s, RandomQuery *query)
{
    int draw = rng_below(s->rng, 100);
    query->n_refs = draw < 45 ? 1 : draw < 80 ? 2 : draw < 95 ? 3 : 4;
    if (s->has_all && query->n_refs > 2 && rng_chance(s->rng, 50))
        query->n_refs = 2;
    query->has_aliases = query->n_refs > 1 || rng_chance(s->rng, 50);
    int n_joined = rng_chance(s->rng, s->has_all ? 20 : 50) ? 0 : rng_below(s->rng, query->n_refs);
    bool is_loose = s->has_all && rng_chance(s->rng, 10);
    for (int ref = 0; ref < query->n_refs; ref++) {
        query->from[ref] = draw_source(s, ref, is_loose);
        query->from[ref].join = ref > 0 && ref <= n_joined ? draw_join_kind(s) : JOIN_COMMA;
        query->has_aliases |= query->from[ref].kind != FROM_TABLE;
        if (ref == 0)
            add_columns(s, query, ref);
        else
            draw_join(s, query, ref, is_loose);
    }
}

// Conditions that name columns of the query around: equalities most often, or anything.
static void draw_correlation(Scope *s, RandomQuery *query)
{
    Scope both = *s;
    for (int i = 0; i < s->n_outer && both.n_leaves < MAX_LEAVES; i++)
        both.leaves[both.n_leaves++] = s->outer[i];
    if (both.n_leaves == s->n_leaves || !s->n_leaves || rng_chance(s->rng, 10))
        return;
    if (rng_chance(s->rng, 80))
        add_condition(query->where, &query->n_where, draw_equality(&both, s->n_leaves));
    if (rng_chance(s->rng, 35))
        add_condition(query->where, &query->n_where, draw_boolean(&both, rng_between(s->rng, 1, 2)));
}

void draw_from_where(Scope *s, RandomQuery *query)
{
    draw_from(s, query);
    int n_filters = rng_below(s->rng, 4);
    for (int i = 0; i < n_filters; i++)
        add_condition(query->where, &query->n_where, draw_boolean(s, rng_between(s->rng, 1, 3)));
    draw_correlation(s, query);
}

// ---- GROUP BY -----------------------------------------------------------------------------------------------------

// NULL when nothing fits: doubles of a derived table may all be inexact.  SQLite does not find columns of the queries
// around from within a key.
static Term *draw_key(Scope *s)
{
    bool needs_exact = s->needs_exact;
    int n_outer = s->n_outer;
    s->needs_exact = true;
    s->n_outer = 0;
    Term *key = NULL;
    for (int attempt = 0; attempt < 20 && !key; attempt++) {
        if (rng_chance(s->rng, 75))
            key = s->leaves[rng_below(s->rng, s->n_leaves)];
        else
            key = draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), 2);
        if (key->is_constant || !key->is_exact)
            key = NULL;
    }
    s->needs_exact = needs_exact;
    s->n_outer = n_outer;
    return key;
}

// SELECT DISTINCT may not have it.  Never a literal: that would be a position.
static Term *draw_order_term(Scope *s)
{
    int n_outer = s->n_outer;
    s->needs_exact = true;
    s->n_outer = 0;                                               // as in a key
    Term *term = draw_kind(s, s->leaves[rng_below(s->rng, s->n_leaves)]->kind, 2);
    s->needs_exact = false;
    s->n_outer = n_outer;
    return term->is_constant ? NULL : term;
}

static void draw_order_terms(Scope *s, RandomQuery *query)
{
    if (query->is_distinct)
        return;
    if (rng_chance(s->rng, 10))
        query->order_last = draw_order_term(s);
    if (s->has_all && rng_chance(s->rng, 15))
        query->order_first = draw_order_term(s);
}

static void draw_keys(Scope *rows, Scope *groups, RandomQuery *query, bool are_put_out)
{
    int n_keys = rng_chance(rows->rng, 25) ? 0 : rng_between(rows->rng, 1, MAX_KEYS);
    for (int k = 0; k < n_keys; k++) {
        Term *key = draw_key(rows);
        if (!key)
            continue;
        query->keys[query->n_keys++] = groups->leaves[groups->n_leaves++] = key;
        if (are_put_out && rng_chance(rows->rng, 90))
            query->items[query->n_items++] = key;
    }
    query->keys_by_position = query->n_keys > 0 && query->n_items == query->n_keys && rng_chance(rows->rng, 30);
}

static void draw_aggregates(Scope *rows, Scope *groups, RandomQuery *query, bool are_put_out)
{
    int n_aggregates = rng_between(rows->rng, query->n_keys ? 0 : 1, 3);
    for (int a = 0; a < n_aggregates; a++) {
        Term *aggregate = groups->leaves[groups->n_leaves++] = draw_aggregate(rows);
        if (are_put_out && (rng_chance(rows->rng, 85) || (query->n_keys == 0 && a == 0)))
            query->items[query->n_items++] = aggregate;           // SQLite wants one there before HAVING
    }
}

static void draw_shaped_items(Scope *s, RandomQuery *query, const Shape *shape)
{
    for (int i = 0; i < shape->n_items; i++)
        query->items[query->n_items++] = draw_shaped(s, shape->kinds[i], rng_between(s->rng, 0, 2));
}

// One more item, or several.  Not where a set operation counts them.
static void draw_windows(Scope *s, RandomQuery *query, const Shape *shape)
{
    if (shape || !s->has_all || s->n_leaves == 0 || !rng_chance(s->rng, 25))
        return;
    for (int n = rng_between(s->rng, 1, 3); n > 0 && query->n_items < MAX_ITEMS; n--) {
        Term *window = draw_window(s);
        if (window->is_exact || !query->is_distinct)
            query->items[query->n_items++] = window;
    }
}

static void draw_grouped(Scope *rows, RandomQuery *query, const Shape *shape)
{
    query->is_grouped = true;
    Scope groups = *rows;
    groups.n_leaves = 0;
    draw_keys(rows, &groups, query, !shape);
    draw_aggregates(rows, &groups, query, !shape);
    if (shape) {
        draw_shaped_items(&groups, query, shape);
    } else if (query->n_items == 0 || rng_chance(rows->rng, 15)) {
        Kind kind = groups.leaves[rng_below(rows->rng, groups.n_leaves)]->kind;
        query->items[query->n_items++] = draw_kind(&groups, kind, 2);
    }
    draw_windows(&groups, query, shape);
    if (rng_chance(rows->rng, 20) && (query->n_keys > 0 || !shape))
        query->having = draw_boolean(&groups, 2);
    query->is_distinct = rng_chance(rows->rng, 3);
    for (int i = 0; i < query->n_items; i++)
        query->is_distinct &= query->items[i]->is_exact;
    if (query->n_keys > 0 || !shape)                              // as for HAVING
        draw_order_terms(&groups, query);
}

// ---- SELECT -------------------------------------------------------------------------------------------------------

static void draw_plain(Scope *s, RandomQuery *query, const Shape *shape)
{
    query->is_distinct = rng_chance(s->rng, 25);
    s->needs_exact = query->is_distinct;
    int n = shape ? 0 : rng_between(s->rng, 1, 5);
    if (shape)
        draw_shaped_items(s, query, shape);
    for (int i = 0; i < n; i++) {
        Term *leaf = s->leaves[rng_below(s->rng, s->n_leaves)];
        bool is_leaf = rng_chance(s->rng, 50) && (leaf->is_exact || !query->is_distinct);
        query->items[query->n_items++] =
            is_leaf ? leaf : draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), rng_between(s->rng, 1, 3));
    }
    s->needs_exact = false;
    draw_windows(s, query, shape);
    draw_order_terms(s, query);
}

// ORDER BY is drawn by draw_query().
void draw_select(Scope *s, RandomQuery *query, const Shape *shape)
{
    bool needs_exact = s->needs_exact;
    s->needs_exact = false;
    draw_from_where(s, query);
    if (rng_chance(s->rng, 60))
        draw_grouped(s, query, shape);
    else
        draw_plain(s, query, shape);
    s->needs_exact = needs_exact;
}

// ---- VALUES and set operations ------------------------------------------------------------------------------------

// What a column measures whose values come from A or B; both are outputs of one kind.
static Term *measure(Scope *s, const Term *a, const Term *b)
{
    Term *made = either(term_new(s, a->kind, "", NULL, 0, NULL), a, b);
    made->is_constant = false;
    made->is_exact = a->is_exact && b->is_exact;
    made->column = b->column ? a->column : NULL;
    return made;
}

// One row of each column is no NULL, so that its type is known.
static void draw_values(Scope *s, RandomQuery *query, const Shape *shape)
{
    query->kind = QUERY_VALUES;
    query->n_items = shape->n_items;
    query->n_rows = rng_between(s->rng, 1, MAX_VALUES);
    for (int i = 0; i < shape->n_items; i++) {
        int known = rng_below(s->rng, query->n_rows);
        for (int row = 0; row < query->n_rows; row++) {
            Term *value = literal(s, shape->kinds[i]);
            query->items[i] = measure(s, row ? query->items[i] : value, value);
            bool is_null = row != known && rng_chance(s->rng, 15);
            query->rows[row][i] = is_null ? term_new(s, value->kind, "null", NULL, 0, NULL) : value;
        }
    }
}

static void draw_set(Scope *s, RandomQuery *query, const Shape *shape)
{
    query->kind = QUERY_SET;
    query->set = (SetKind)rng_below(s->rng, rng_chance(s->rng, 75) ? SET_INTERSECT_ALL : SET_N);
    Scope left = scope_below(s), right = scope_below(s);
    query->left = query_new(&left, QUERY_SELECT);
    draw_query(&left, query->left, shape);
    query->right = query_new(&right, QUERY_SELECT);
    draw_query(&right, query->right, shape);
    query->n_items = shape->n_items;
    for (int i = 0; i < query->n_items; i++)
        query->items[i] = measure(s, query->left->items[i], query->right->items[i]);
}

void draw_query(Scope *s, RandomQuery *query, const Shape *shape)
{
    Shape drawn = shape ? *shape : draw_shape(s);
    if (may_nest(s, 20))
        draw_set(s, query, &drawn);
    else if (s->has_all && rng_chance(s->rng, 6))
        draw_values(s, query, &drawn);
    else
        draw_select(s, query, shape);
    if (rng_chance(s->rng, 40))
        draw_order(s, query);
}

// ---- ORDER BY, LIMIT ----------------------------------------------------------------------------------------------

static void draw_limit(Scope *s, RandomQuery *query)
{
    static const int LIMITS[] = { 0, 1, 3, 10, 50, 1000 };
    query->limit = LIMITS[rng_below(s->rng, COUNT_OF(LIMITS))];
    if (rng_chance(s->rng, 30))
        query->offset = LIMITS[rng_below(s->rng, COUNT_OF(LIMITS))];
}

// Returns whether all items are in it, so that rows which tie are the same.
static bool draw_order_items(Scope *s, RandomQuery *query)
{
    bool is_total = true;
    for (int i = 0; i < query->n_items; i++) {
        if (query->items[i]->kind == KIND_DOUBLE && !query->items[i]->is_exact) {
            is_total = false;
            continue;
        }
        int at = rng_below(s->rng, query->n_order + 1);                           // insert at a random place
        memmove(&query->order[at + 1], &query->order[at], sizeof(int) * (size_t)(query->n_order - at));
        query->order[at] = i;
        query->n_order++;
    }
    for (int i = 0; i < query->n_order; i++) {
        query->order_descends[i] = rng_chance(s->rng, 50);
        query->order_nulls_first[i] = rng_chance(s->rng, 50);
    }
    return is_total;
}

void draw_order(Scope *s, RandomQuery *query)
{
    bool is_total = draw_order_items(s, query);
    if (query->n_order > 1 && rng_chance(s->rng, 30)) {
        query->n_order = rng_between(s->rng, 1, query->n_order - 1);
        is_total = false;
    }
    if (!is_total)
        query->order_first = NULL;
    if (is_total && s->has_all && query->kind == QUERY_SELECT && !query->is_distinct && rng_chance(s->rng, 8)) {
        query->distinct_on = rng_between(s->rng, 1, query->n_order);
        query->order_first = query->order_last = NULL;
    }
    if (is_total && rng_chance(s->rng, 60))
        draw_limit(s, query);
}

void query_draw(Arena *arena, const DataSet *data, uint64_t number, RandomQuery *query)
{
    Rng rng = rng_from(data->seed, 0, number);
    int n_nested_left = MOST_NESTED;
    Scope scope = { .arena = arena, .rng = &rng, .data = data, .n_nested_left = &n_nested_left, .alias = 'r' };
    *query = (RandomQuery){ .limit = -1, .offset = -1, .alias = 'r' };
    scope.has_all = rng_chance(&rng, 50);
    scope.level = scope.has_all ? rng_between(&rng, 0, 3) : 0;
    if (may_nest(&scope, 15))
        draw_with(&scope, query);
    draw_query(&scope, query, NULL);
}
