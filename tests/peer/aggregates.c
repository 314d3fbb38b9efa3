// aggregates.c - random aggregates: all of them over all rows, the rows that FILTER keeps, or different values.

#define _GNU_SOURCE
#include "query_int.h"

// "name(@0)", perhaps with DISTINCT and FILTER.  In SQLite the result is divided by 10 to the SCALE.
static Term *aggregate_of(Scope *s, Kind kind, const char *name, Term *arg, int scale)
{
    bool is_distinct = s->has_all && arg->is_exact && rng_chance(s->rng, 15);
    bool is_filtered = s->has_all && rng_chance(s->rng, 20);
    const char *call = arena_printf(s->arena, "%s(%s@0)%s", name, is_distinct ? "distinct " : "",
                                    is_filtered ? " filter (where @1)" : "");
    const char *sqlite = scale ? arena_printf(s->arena, "(%s / 1e%d)", call, scale) : NULL;
    if (is_filtered)
        return term_2(s, kind, call, sqlite, arg, draw_boolean(s, 2));
    return term_1(s, kind, call, sqlite, arg);
}

static Term *as_count(Term *made)
{
    made->bits = 64;
    made->bound = MOST_ROWS;
    made->is_exact = true;
    return made;
}

static Term *draw_count(Scope *s, Term *arg)
{
    return as_count(aggregate_of(s, KIND_INTEGER, "count", arg, 0));
}

static Term *draw_count_all(Scope *s)
{
    if (s->has_all && rng_chance(s->rng, 30))
        return as_count(term_1(s, KIND_INTEGER, "count(*) filter (where @0)", NULL, draw_boolean(s, 2)));
    return as_count(term_new(s, KIND_INTEGER, "count(*)", NULL, 0, NULL));
}

static Term *draw_sum(Scope *s, Kind kind)
{
    Term *arg = draw_kind(s, kind, rng_below(s->rng, 3)), *made;
    if (arg->bound * MOST_ROWS > 1e18)
        return draw_count(s, arg);
    if (arg->kind == KIND_INTEGER && arg->bits < 64) {
        made = aggregate_of(s, KIND_INTEGER, "sum", arg, 0);
        made->bits = 64;
    } else {
        made = aggregate_of(s, arg->kind == KIND_DOUBLE ? KIND_DOUBLE : KIND_DECIMAL, "sum", arg, 0);
        made->scale = arg->kind == KIND_DECIMAL ? arg->scale : 0;
    }
    made->bound = arg->bound * MOST_ROWS;
    made->is_exact = arg->kind != KIND_DOUBLE || arg->column != NULL;             // sums of quarters are exact
    return made;
}

static Term *draw_average(Scope *s)
{
    Term *arg = draw_kind(s, (Kind)rng_below(s->rng, KIND_DECIMAL + 1), rng_below(s->rng, 3));
    if (arg->bound * MOST_ROWS > 1e15)
        return draw_count(s, arg);
    Term *made = aggregate_of(s, KIND_DOUBLE, "avg", arg, arg->kind == KIND_DECIMAL ? arg->scale : 0);
    made->bound = arg->bound;
    made->is_exact = false;
    return made;
}

static Term *draw_extreme(Scope *s, Kind kind)
{
    Term *arg = draw_kind(s, kind, rng_below(s->rng, 3));
    return like_this(aggregate_of(s, arg->kind, rng_chance(s->rng, 50) ? "min" : "max", arg, 0), arg);
}

Term *draw_aggregate(Scope *s)
{
    Term *made;
    int draw = rng_below(s->rng, 100);
    if (draw < 15)
        made = draw_count_all(s);
    else if (draw < 30)
        made = draw_count(s, draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), 1));
    else if (draw < 60)
        made = draw_sum(s, (Kind)rng_below(s->rng, KIND_DECIMAL + 1));
    else if (draw < 75)
        made = draw_average(s);
    else
        made = draw_extreme(s, (Kind)rng_below(s->rng, KIND_DATE + 1));
    made->is_constant = false;
    return made;
}

Term *draw_aggregate_of(Scope *s, Kind kind)
{
    Term *made = NULL;
    if (kind == KIND_BOOLEAN)
        return NULL;
    if (kind == KIND_INTEGER && rng_chance(s->rng, 50))
        made = rng_chance(s->rng, 50) ? draw_count_all(s) : draw_sum(s, kind);
    if (!made || made->kind != kind)
        made = draw_extreme(s, kind);
    made->is_constant = false;
    return made;
}
