// subqueries.c - queries within expressions, and those that WITH names.
//
// A scalar subquery has one row at most: it is one group, or sorted and cut to one row.  SQLite would take the first of
// several, where Weft and PostgreSQL raise an error.

#define _GNU_SOURCE
#include "query_int.h"

bool may_nest(Scope *s, int percent)
{
    return s->level > 0 && *s->n_nested_left > 0 && rng_chance(s->rng, percent);
}

Scope scope_below(Scope *s)
{
    Scope below = { .arena = s->arena, .rng = s->rng, .data = s->data, .has_all = s->has_all, .level = s->level - 1,
                    .n_nested_left = s->n_nested_left, .n_with = s->n_with, .alias = (char)(s->alias + 1),
                    .n_outer = s->n_outer };
    memcpy(below.with, s->with, sizeof below.with);
    memcpy(below.outer, s->outer, sizeof below.outer);
    --*s->n_nested_left;
    return below;
}

// A plain column that can be named from within: its table has an alias.
static bool is_nameable(const Term *leaf)
{
    return leaf->refs && !leaf->n_args && !leaf->query && strchr(leaf->form[IN_WEFT], '.');
}

// Half of the subqueries may name columns of the query that they stand in, and so of those around that.
static Scope scope_within(Scope *s)
{
    Scope below = scope_below(s);
    bool may_name = s->has_all && rng_chance(s->rng, 50);
    for (int i = 0; i < s->n_leaves && may_name && below.n_outer < MAX_OUTER; i++) {
        if (!is_nameable(s->leaves[i]))
            continue;
        Term *copy = arena_make(s->arena, Term);
        *copy = *s->leaves[i];
        below.outer_refs |= copy->refs;
        copy->refs = 0;                                           // it is no reference of the query below
        below.outer[below.n_outer++] = copy;
    }
    return below;
}

static Term *query_term(Scope *s, Kind kind, const char *form, RandomQuery *query, int n_args, Term **args)
{
    Term *term = term_new(s, kind, form, NULL, n_args, args);
    term->query = query;
    term->is_constant = false;         // it is no position in ORDER BY
    return term;
}

static RandomQuery *draw_one_group(Scope *s, Kind kind)
{
    RandomQuery *query = query_new(s, QUERY_SELECT);
    draw_from_where(s, query);
    query->is_grouped = true;
    Term *item = draw_aggregate_of(s, kind);
    if (!item || item->scale != (kind == KIND_DECIMAL ? 2 : 0) || !item->is_exact)
        return NULL;
    query->items[query->n_items++] = item;
    return query;
}

static RandomQuery *draw_first_row(Scope *s, Kind kind)
{
    RandomQuery *query = query_new(s, QUERY_SELECT);
    draw_select(s, query, &(Shape){ 1, { kind } });
    draw_order(s, query);
    query->limit = 1;
    query->offset = rng_chance(s->rng, 20) ? rng_below(s->rng, 3) : -1;
    query->distinct_on = 0;
    return query;
}

Term *draw_scalar_subquery(Scope *s, Kind kind)
{
    Scope below = scope_within(s);
    below.needs_exact = true;
    RandomQuery *query = rng_chance(s->rng, 70) ? draw_one_group(&below, kind) : NULL;
    if (!query) {
        below.n_leaves = 0;
        query = draw_first_row(&below, kind);
    }
    Term *term = like_this(query_term(s, kind, "@q", query, 0, NULL), query->items[0]);
    term->refs = below.outer_refs;
    term->is_exact = kind != KIND_DOUBLE || query->items[0]->column;             // see columns_of_query()
    return !term->is_exact && s->needs_exact ? literal(s, kind) : term;
}

// Decimals have two digits on both sides, as the outputs of a shape have.
Term *draw_in_subquery(Scope *s, int depth)
{
    Term *a = draw_shaped(s, kind_to_compare(s), depth - 1);
    Scope below = scope_within(s);
    RandomQuery *query = query_new(&below, QUERY_SELECT);
    draw_query(&below, query, &(Shape){ 1, { a->kind } });
    Term *term = query_term(s, KIND_BOOLEAN, rng_chance(s->rng, 60) ? "(@0 in @q)" : "(@0 not in @q)", query, 1, &a);
    term->refs = below.outer_refs;
    return term;
}

Term *draw_exists(Scope *s)
{
    Scope below = scope_within(s);
    RandomQuery *query = query_new(&below, QUERY_SELECT);
    draw_query(&below, query, NULL);
    if (query->is_distinct) query->offset = -1;             // SQLite drops the DISTINCT of EXISTS, offset or not
    Term *term = query_term(s, KIND_BOOLEAN, rng_chance(s->rng, 60) ? "exists @q" : "(not exists @q)", query, 0, NULL);
    term->refs = below.outer_refs;
    return term;
}

// Later ones may use the earlier ones, and the query all of them, as often as it likes.
void draw_with(Scope *s, RandomQuery *query)
{
    int n = rng_between(s->rng, 1, MAX_WITH);
    for (int i = 0; i < n; i++) {
        Scope below = scope_below(s);
        RandomQuery *named = query_new(&below, QUERY_SELECT);
        draw_query(&below, named, NULL);
        query->with[query->n_with++] = s->with[s->n_with++] = named;
    }
}
