// windows.c - random window functions.
//
// What they give must not depend on how rows that tie are ordered.  Ranks do not, nor do aggregates over RANGE and
// GROUPS.  All others get an order over all columns in scope: rows that still tie are the same.  Arguments are exact:
// SQLite adds and subtracts doubles as its frames move.

#define _GNU_SOURCE
#include "query_int.h"

enum { MOST_ORDERED = 10 };

// "a desc nulls first, b nulls last"
static Term *order_by(Scope *s, Term *before, Term *leaf)
{
    const char *form = arena_printf(s->arena, "@0%s nulls %s", rng_chance(s->rng, 50) ? " desc" : "",
                                    rng_chance(s->rng, 50) ? "first" : "last");
    Term *made = term_1(s, KIND_INTEGER, form, NULL, leaf);
    return before ? term_2(s, KIND_INTEGER, "@0, @1", NULL, before, made) : made;
}

// NULL: a column is inexact, or there are too many.
static Term *order_by_all(Scope *s)
{
    Term *order = NULL;
    if (s->n_leaves > MOST_ORDERED)
        return NULL;
    int first = rng_below(s->rng, s->n_leaves);
    for (int i = 0; i < s->n_leaves; i++) {
        Term *leaf = s->leaves[(first + i) % s->n_leaves];
        if (!leaf->is_exact)
            return NULL;
        order = order_by(s, order, leaf);
    }
    return order;
}

static Term *exact_leaf(Scope *s)
{
    for (int attempt = 0; attempt < 10; attempt++) {
        Term *leaf = s->leaves[rng_below(s->rng, s->n_leaves)];
        if (leaf->is_exact && !leaf->is_constant)
            return leaf;
    }
    return NULL;
}

static Term *order_by_some(Scope *s)
{
    Term *order = NULL;
    for (int i = rng_between(s->rng, 1, 2); i > 0; i--) {
        Term *leaf = exact_leaf(s);
        if (leaf)
            order = order_by(s, order, leaf);
    }
    return order;
}

// ---- frames -------------------------------------------------------------------------------------------------------

typedef struct Ends { const char *weft, *sqlite; } Ends;

// The offset in SQLite's terms, where a decimal is its digits.
static void add_bound(Scope *s, Ends *ends, int edge, int digits)
{
    static const char *const EDGES[] = { "unbounded preceding", "preceding", "current row", "following",
                                         "unbounded following" };
    if (edge == 1 || edge == 3) {
        int n = rng_below(s->rng, 4), scaled = n;
        for (int d = 0; d < digits; d++)
            scaled *= 10;
        ends->weft = arena_printf(s->arena, "%s%d %s", ends->weft, n, EDGES[edge]);
        ends->sqlite = arena_printf(s->arena, "%s%d %s", ends->sqlite, scaled, EDGES[edge]);
    } else {
        ends->weft = arena_printf(s->arena, "%s%s", ends->weft, EDGES[edge]);
        ends->sqlite = arena_printf(s->arena, "%s%s", ends->sqlite, EDGES[edge]);
    }
}

// " rows between 1 preceding and current row exclude ties"; empty: the default.  Offsets only where HAS_OFFSETS.
static Ends draw_frame(Scope *s, const char *unit, bool has_offsets, int digits)
{
    static const char *const EXCLUDED[] = { "", "", "", " exclude current row", " exclude group", " exclude ties" };
    Ends ends = { arena_printf(s->arena, " %s between ", unit), NULL };
    int start = rng_below(s->rng, 4), end = rng_between(s->rng, start < 1 ? 1 : start, 4);
    if (!has_offsets && start % 2)
        start--;
    if (!has_offsets && end % 2)
        end++;
    ends.sqlite = ends.weft;
    add_bound(s, &ends, start, digits);
    ends.weft = arena_printf(s->arena, "%s and ", ends.weft);
    ends.sqlite = arena_printf(s->arena, "%s and ", ends.sqlite);
    add_bound(s, &ends, end, digits);
    const char *exclude = EXCLUDED[rng_below(s->rng, COUNT_OF(EXCLUDED))];
    ends.weft = arena_printf(s->arena, "%s%s", ends.weft, exclude);
    ends.sqlite = arena_printf(s->arena, "%s%s", ends.sqlite, exclude);
    return ends;
}

// ---- OVER ---------------------------------------------------------------------------------------------------------

// CALL over the window; ORDER may be NULL.  CALL keeps its measure.
static Term *over(Scope *s, Term *call, Term *order, Ends frame)
{
    Term *partition = rng_chance(s->rng, 50) ? exact_leaf(s) : NULL;
    const char *by = arena_printf(s->arena, "%s%s", partition ? "partition by @1" : "",
                                  order ? partition ? " order by @2" : "order by @2" : "");
    Term *args[3] = { call, partition ? partition : call, order ? order : call };
    Term *made = term_new(s, call->kind, arena_printf(s->arena, "@0 over (%s%s)", by, frame.weft),
                          arena_printf(s->arena, "@0 over (%s%s)", by, frame.sqlite), 3, args);
    like_this(made, call);
    made->is_exact = call->is_exact;
    made->is_constant = false;
    return made;
}

static const Ends NO_FRAME = { "", "" };

static Term *counted(Term *term)
{
    term->bits = 64;
    term->bound = MOST_ROWS;
    return term;
}

static Term *draw_rank(Scope *s)
{
    static const char *const CALLS[] = { "rank()", "dense_rank()", "percent_rank()", "cume_dist()" };
    int which = rng_below(s->rng, 4);
    Term *call = term_new(s, which < 2 ? KIND_INTEGER : KIND_DOUBLE, CALLS[which], NULL, 0, NULL);
    call->is_exact = which < 2;
    return over(s, counted(call), order_by_some(s), NO_FRAME);
}

static Term *draw_argument(Scope *s, Kind kind)
{
    bool needs_exact = s->needs_exact;
    s->needs_exact = true;
    Term *arg = draw_kind(s, kind, rng_below(s->rng, 2));
    s->needs_exact = needs_exact;
    return arg;
}

static Term *draw_value(Scope *s, Term *order)
{
    static const char *const CALLS[] = { "lag(@0)", "lead(@0, 2)", "lag(@0, 0)", "first_value(@0)", "last_value(@0)",
                                         "nth_value(@0, 2)", "lead(@0, 1)" };
    Term *arg = draw_argument(s, (Kind)rng_below(s->rng, KIND_DATE + 1));
    Term *call = like_this(term_1(s, arg->kind, CALLS[rng_below(s->rng, COUNT_OF(CALLS))], NULL, arg), arg);
    return over(s, call, order, draw_frame(s, rng_chance(s->rng, 70) ? "rows" : "groups", true, 0));
}

static Term *draw_place(Scope *s, Term *order)
{
    Term *call = term_new(s, KIND_INTEGER, rng_chance(s->rng, 60) ? "row_number()" : "ntile(3)", NULL, 0, NULL);
    return over(s, counted(call), order, NO_FRAME);
}

// An aggregate whose argument is exact; NULL: it was not.
static Term *draw_call(Scope *s)
{
    bool needs_exact = s->needs_exact, has_all = s->has_all;
    s->needs_exact = true;
    s->has_all = false;                                           // neither DISTINCT nor nested queries
    Term *call = draw_aggregate(s);
    s->needs_exact = needs_exact;
    s->has_all = has_all;
    bool is_exact = call->is_exact || call->kind != KIND_DOUBLE || strstr(call->form[0], "avg(");
    for (int i = 0; i < call->n_args; i++)
        is_exact &= call->args[i]->is_exact;
    return is_exact ? call : NULL;
}

// RANGE with offsets has one key, a number; in SQLite the scale of a division is behind the call, where OVER cannot be.
static Term *draw_range(Scope *s, Term *call)
{
    Term *leaf = exact_leaf(s);
    if (!leaf || leaf->kind > KIND_DECIMAL)
        return NULL;
    return over(s, call, order_by(s, NULL, leaf),
                draw_frame(s, "range", true, leaf->kind == KIND_DECIMAL ? leaf->scale : 0));
}

static Term *draw_over_frame(Scope *s, Term *total)
{
    Term *call = draw_call(s), *made = NULL;
    if (!call || strcmp(call->form[0], call->form[1]) != 0)
        return NULL;
    if (rng_chance(s->rng, 30))
        made = draw_range(s, call);
    if (made)
        return made;
    if (total && rng_chance(s->rng, 60))
        return over(s, call, total, draw_frame(s, "rows", true, 0));
    Term *order = order_by_some(s);
    if (rng_chance(s->rng, 30))
        return over(s, call, order, NO_FRAME);
    return over(s, call, order, order && rng_chance(s->rng, 60) ? draw_frame(s, "groups", true, 0)
                                                                : draw_frame(s, "range", false, 0));
}

Term *draw_window(Scope *s)
{
    Term *total = order_by_all(s), *made = NULL;
    int draw = rng_below(s->rng, 100);
    if (draw < 20)
        return draw_rank(s);
    if (total && draw < 35)
        return draw_place(s, total);
    if (total && draw < 55)
        return draw_value(s, total);
    for (int attempt = 0; attempt < 5 && !made; attempt++)
        made = draw_over_frame(s, total);
    return made ? made : draw_rank(s);
}
