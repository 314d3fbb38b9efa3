// expressions.c - random expressions of each kind.
//
// Scopes: below grouping the leaves of a term are columns; above it they are group keys and aggregates.  The same
// functions draw both, so HAVING and outputs over aggregates are as deep as WHERE.

#define _GNU_SOURCE
#include "query_int.h"

#include <math.h>

// ---- what all kinds have: leaf, literal, CASE, COALESCE, NULLIF ---------------------------------------------------

static Term *leaf_or_literal(Scope *s, Kind kind)
{
    if (may_nest(s, 2))
        return draw_scalar_subquery(s, kind);
    Term *leaf = pick_leaf(s, kind);
    return leaf && rng_chance(s->rng, 85) ? leaf : literal(s, kind);
}

static Term *draw_pair(Scope *s, Kind kind, int depth, Term **b)
{
    Term *a = draw_kind(s, kind, depth);
    *b = draw_kind(s, kind, depth);
    if (kind == KIND_DECIMAL && !unify(s, &a, b))
        *b = a;
    return a;
}

static Term *draw_case(Scope *s, Kind kind, int depth)
{
    Term *b, *a = draw_pair(s, kind, depth - 1, &b), *when = draw_boolean(s, depth - 1);
    switch (rng_below(s->rng, 5)) {
    case 0:
        return like_this(term_2(s, kind, "case when @0 then @1 end", NULL, when, a), a);
    case 3: {
        Term *args[] = { when, a, draw_boolean(s, depth - 1), b };
        return either(term_new(s, kind, "case when @0 then @1 when @2 then @3 else @1 end", NULL, 4, args), a, b);
    }
    case 1:
        return like_this(term_2(s, kind, "case when @0 then null else @1 end", NULL, when, a), a);
    case 2: {
        Term *subject = leaf_or_literal(s, KIND_INTEGER), *value = literal_for(s, subject);
        return either(term_new(s, kind, "case @0 when @1 then @2 else @3 end", NULL, 4,
                               (Term *[]){ subject, value, a, b }),
                      a, b);
    }
    default:
        return either(term_new(s, kind, "case when @0 then @1 else @2 end", NULL, 3, (Term *[]){ when, a, b }), a, b);
    }
}

static Term *draw_choice(Scope *s, Kind kind, int depth)
{
    Term *b, *a;
    switch (rng_below(s->rng, 4)) {
    case 0:
        a = draw_pair(s, kind, depth - 1, &b);
        if (rng_chance(s->rng, 20))
            return either(term_2(s, kind, "coalesce(null, @0, @1, @0)", NULL, a, b), a, b);
        return either(term_2(s, kind, "coalesce(@0, @1)", NULL, a, b), a, b);
    case 1:
        s->needs_exact |= kind == KIND_DOUBLE;                    // NULLIF compares; the caller restores the flag
        a = draw_pair(s, kind, depth - 1, &b);
        return like_this(term_2(s, kind, "nullif(@0, @1)", NULL, a, b), a);
    default:
        return draw_case(s, kind, depth);
    }
}

static Term *draw_choice_restoring(Scope *s, Kind kind, int depth)
{
    bool needs_exact = s->needs_exact;
    Term *term = draw_choice(s, kind, depth);
    s->needs_exact = needs_exact;
    return term;
}

// ---- numbers ------------------------------------------------------------------------------------------------------

Term *sum_or_product(Scope *s, Kind kind, Term *a, Term *b, double largest)
{
    int op = rng_below(s->rng, 3);
    static const char *const FORMS[] = { "(@0 + @1)", "(@0 - @1)", "(@0 * @1)" };
    double bound = op == 2 ? a->bound * b->bound : a->bound + b->bound;
    if (bound > largest)
        return a;
    Term *made = either(term_2(s, kind, FORMS[op], NULL, a, b), a, b);
    made->bound = bound;
    return made;
}

static Term *draw_quotient(Scope *s, Term *a, Term *b)
{
    static const char *const FORMS[] = { "(@0 / nullif(@1, 0))", "(@0 % nullif(@1, 0))",
                                         "case when @1 <> 0 then @0 / @1 end" };
    Term *made = term_2(s, KIND_INTEGER, FORMS[rng_below(s->rng, 3)], NULL, a, b);
    made->bits = MAX_OF(a->bits, b->bits);
    made->bound = fmax(a->bound, b->bound);
    return made;
}

static Term *draw_date_part(Scope *s, int depth)
{
    static const char *const FORMS[][2] = {
        { "extract(year from @0)",    "cast(strftime('%Y', @0) as integer)" },
        { "extract(month from @0)",   "cast(strftime('%m', @0) as integer)" },
        { "extract(day from @0)",     "cast(strftime('%d', @0) as integer)" },
        { "extract(dow from @0)",     "cast(strftime('%w', @0) as integer)" },
        { "extract(isodow from @0)",  "((cast(strftime('%w', @0) as integer) + 6) % 7 + 1)" },
        { "extract(doy from @0)",     "cast(strftime('%j', @0) as integer)" },
        { "extract(quarter from @0)", "((cast(strftime('%m', @0) as integer) + 2) / 3)" },
    };
    int part = rng_below(s->rng, COUNT_OF(FORMS));
    Term *made = term_1(s, KIND_INTEGER, FORMS[part][0], FORMS[part][1], draw_kind(s, KIND_DATE, depth - 1));
    made->bound = 9999;
    return made;
}

static Term *draw_date_difference(Scope *s, int depth)
{
    Term *b, *a = draw_pair(s, KIND_DATE, depth - 1, &b);
    Term *made = term_2(s, KIND_INTEGER, "(@0 - @1)", "cast(julianday(@0) - julianday(@1) as integer)", a, b);
    made->bound = 100000;
    return made;
}

static Term *draw_integer_cast(Scope *s, int depth)
{
    Term *made, *a;
    switch (rng_below(s->rng, 3)) {
    case 0:
        return term_1(s, KIND_INTEGER, "cast(@0 as integer)", NULL, draw_boolean(s, depth - 1));
    case 1:
        a = draw_kind(s, KIND_DECIMAL, 0);
        if (a->scale != 2 || a->bound > 1e10)
            return leaf_or_literal(s, KIND_INTEGER);
        made =
            term_1(s, KIND_INTEGER, "cast(@0 as integer)", "((@0 + case when @0 < 0 then -50 else 50 end) / 100)", a);
        made->bound = a->bound / 100 + 1;
        return made;
    default:
        a = draw_kind(s, KIND_INTEGER, depth - 1);
        made = like_this(term_1(s, KIND_INTEGER, "cast(@0 as bigint)", "@0", a), a);
        made->bits = 64;
        return made;
    }
}

static Term *draw_integer(Scope *s, int depth)
{
    if (depth <= 0 || rng_chance(s->rng, 25))
        return leaf_or_literal(s, KIND_INTEGER);
    Term *b, *a;
    switch (rng_below(s->rng, 10)) {
    case 0: case 1: case 2: case 3:
        a = draw_pair(s, KIND_INTEGER, depth - 1, &b);
        return sum_or_product(s, KIND_INTEGER, a, b, largest_integer(MAX_OF(a->bits, b->bits)));
    case 4:
        a = draw_pair(s, KIND_INTEGER, depth - 1, &b);
        return draw_quotient(s, a, b);
    case 5:
        a = draw_kind(s, KIND_INTEGER, depth - 1);
        return like_this(term_1(s, KIND_INTEGER, rng_chance(s->rng, 50) ? "(- @0)" : "abs(@0)", NULL, a), a);
    case 6:
        return draw_date_part(s, depth);
    case 7:
        return draw_date_difference(s, depth);
    case 8:
        return draw_integer_cast(s, depth);
    default:
        return draw_choice_restoring(s, KIND_INTEGER, depth);
    }
}

// Division gives the nearest double in both engines, but what is done with it afterwards may be fused or reordered.
static Term *draw_inexact(Scope *s, int depth)
{
    Term *a = draw_kind(s, rng_chance(s->rng, 70) ? KIND_DOUBLE : KIND_DECIMAL, depth - 1);
    Term *b = draw_kind(s, a->kind, depth - 1);
    if (a->kind == KIND_DECIMAL) {
        const char *sqlite = arena_printf(s->arena, "((@0 / 1e%d) / nullif(@1 / 1e%d, 0))", a->scale, b->scale);
        a = term_2(s, KIND_DOUBLE, "(@0 / nullif(@1, 0))", sqlite, a, b);
    } else {
        // either may be an integer that is only meant to be a double, and both would divide as integers do
        a = term_2(s, KIND_DOUBLE, "(cast(@0 as double precision) / nullif(@1, 0))", "(@0 / nullif(@1, 0))", a, b);
    }
    a->bound = LARGEST_DOUBLE;
    a->is_exact = false;
    return a;
}

static Term *draw_double(Scope *s, int depth)
{
    if (depth <= 0 || rng_chance(s->rng, 25))
        return leaf_or_literal(s, KIND_DOUBLE);
    Term *b, *a;
    switch (rng_below(s->rng, 7)) {
    case 0: case 1: case 2:
        a = draw_pair(s, KIND_DOUBLE, depth - 1, &b);
        if (rng_chance(s->rng, 30))
            b = draw_kind(s, KIND_INTEGER, depth - 1);
        a = sum_or_product(s, KIND_DOUBLE, a, b, LARGEST_DOUBLE);
        a->bits = 32;
        return a;
    case 3:
        a = draw_kind(s, KIND_INTEGER, depth - 1);
        return a->bound < LARGEST_DOUBLE ? to_double(s, a) : leaf_or_literal(s, KIND_DOUBLE);
    case 4:
        a = draw_kind(s, KIND_DOUBLE, depth - 1);
        return like_this(term_1(s, KIND_DOUBLE, rng_chance(s->rng, 50) ? "(- @0)" : "abs(@0)", NULL, a), a);
    case 5:
        return s->needs_exact ? leaf_or_literal(s, KIND_DOUBLE) : draw_inexact(s, depth);
    default:
        return draw_choice_restoring(s, KIND_DOUBLE, depth);
    }
}

static Term *decimal_product(Scope *s, Term *a, Term *b)
{
    if (a->bound * b->bound > LARGEST_DECIMAL || a->scale + b->scale > 6)
        return a;
    Term *made = term_2(s, KIND_DECIMAL, "(@0 * @1)", NULL, a, b);
    made->scale = a->scale + b->scale;
    made->bound = a->bound * b->bound;
    return made;
}

static Term *draw_decimal(Scope *s, int depth)
{
    if (depth <= 0 || rng_chance(s->rng, 30))
        return leaf_or_literal(s, KIND_DECIMAL);
    Term *a = draw_kind(s, KIND_DECIMAL, depth - 1), *b = draw_kind(s, KIND_DECIMAL, depth - 1), *made;
    switch (rng_below(s->rng, 6)) {
    case 0: case 1:
        if (rng_chance(s->rng, 40))
            b = draw_kind(s, KIND_INTEGER, depth - 1);
        if (!unify(s, &a, &b) || a->bound + b->bound > LARGEST_DECIMAL)
            return a;
        made = either(term_2(s, KIND_DECIMAL, rng_chance(s->rng, 50) ? "(@0 + @1)" : "(@0 - @1)", NULL, a, b), a, b);
        made->bound = a->bound + b->bound;
        return made;
    case 2:
        return decimal_product(s, a, b);
    case 3:
        b = draw_kind(s, KIND_INTEGER, depth - 1);
        if (a->bound * b->bound > LARGEST_DECIMAL)
            return a;
        made = like_this(term_2(s, KIND_DECIMAL, "(@0 * @1)", NULL, a, b), a);
        made->bound = a->bound * b->bound;
        return made;
    case 4:
        return like_this(term_1(s, KIND_DECIMAL, rng_chance(s->rng, 50) ? "(- @0)" : "abs(@0)", NULL, a), a);
    default:
        return draw_choice_restoring(s, KIND_DECIMAL, depth);
    }
}

// ---- text, dates --------------------------------------------------------------------------------------------------

static Term *draw_text(Scope *s, int depth)
{
    if (depth <= 0 || rng_chance(s->rng, 70))
        return leaf_or_literal(s, KIND_TEXT);
    return draw_choice_restoring(s, KIND_TEXT, depth);
}

static Term *draw_date(Scope *s, int depth)
{
    if (depth <= 0 || rng_chance(s->rng, 50))
        return leaf_or_literal(s, KIND_DATE);
    if (rng_chance(s->rng, 40))
        return draw_choice_restoring(s, KIND_DATE, depth);
    Term *date = draw_kind(s, KIND_DATE, 0), *days = draw_kind(s, KIND_INTEGER, depth - 1);
    if (days->bound > 1000 || days->bits == 64)                // date + bigint is not a thing
        days = literal(s, KIND_INTEGER);
    if (rng_chance(s->rng, 50))
        return term_2(s, KIND_DATE, "(@0 + @1)", "date(@0, (@1) || ' days')", date, days);
    return term_2(s, KIND_DATE, "(@0 - @1)", "date(@0, (-(@1)) || ' days')", date, days);
}

// ---- booleans -----------------------------------------------------------------------------------------------------

Kind kind_to_compare(Scope *s)
{
    static const Kind KINDS[] = {
        KIND_INTEGER, KIND_INTEGER, KIND_DOUBLE, KIND_DECIMAL, KIND_TEXT, KIND_TEXT, KIND_DATE
    };
    for (int attempt = 0; attempt < 6; attempt++) {
        Kind kind = KINDS[rng_below(s->rng, COUNT_OF(KINDS))];
        if (pick_leaf(s, kind))
            return kind;
    }
    return KIND_INTEGER;
}

static Term *draw_comparison(Scope *s, int depth)
{
    static const char *const FORMS[] = { "(@0 = @1)",
                                         "(@0 <> @1)",
                                         "(@0 < @1)",
                                         "(@0 <= @1)",
                                         "(@0 > @1)",
                                         "(@0 >= @1)",
                                         "(@0 = @1)",
                                         "(@0 is distinct from @1)",
                                         "(@0 is not distinct from @1)" };
    int form = rng_below(s->rng, rng_chance(s->rng, 5) ? 9 : 7);
    Kind kind = kind_to_compare(s);
    Term *a = draw_kind(s, kind, depth - 1), *b;
    if (rng_chance(s->rng, 55))
        b = literal_for(s, a);
    else if (kind <= KIND_DECIMAL && rng_chance(s->rng, 25))
        b = draw_kind(s, (Kind)rng_below(s->rng, KIND_DECIMAL + 1), depth - 1);
    else
        b = draw_kind(s, kind, depth - 1);
    if (kind <= KIND_DECIMAL && !unify(s, &a, &b))
        return term_1(s, KIND_BOOLEAN, "(@0 is not null)", NULL, a);
    return term_2(s, KIND_BOOLEAN, FORMS[form], NULL, a, b);
}

static Term *draw_between(Scope *s, int depth)
{
    Term *a = draw_kind(s, kind_to_compare(s), depth - 1), *low = literal_for(s, a), *high = literal_for(s, a);
    if (a->kind == KIND_DECIMAL) {
        low = to_scale(s, low, MAX_OF(a->scale, low->scale));
        high = to_scale(s, high, low->scale);
        a = to_scale(s, a, low->scale);
    }
    const char *form = rng_chance(s->rng, 80) ? "(@0 between @1 and @2)" : "(@0 not between @1 and @2)";
    return term_new(s, KIND_BOOLEAN, form, NULL, 3, (Term *[]){ a, low, high });
}

// Enough values that an engine may look them up instead of comparing one by one.
static Term *draw_long_in(Scope *s, Term *a)
{
    char *forms[N_FORMS] = { "(@0 in (", "(@0 in (" };
    for (int n = rng_between(s->rng, 6, 40); n > 0; n--) {
        Term *value = literal_for(s, a);
        for (int d = 0; d < N_FORMS; d++)
            forms[d] = arena_printf(s->arena, "%s%s%s", forms[d], value->form[d], n > 1 ? ", " : "))");
    }
    return term_1(s, KIND_BOOLEAN, forms[IN_WEFT], forms[IN_SQLITE], a);
}

static Term *draw_in(Scope *s, int depth)
{
    Term *args[MAX_ARGS];
    Term *a = args[0] = draw_kind(s, kind_to_compare(s), depth - 1);
    if (a->kind == KIND_DECIMAL && a->scale != 2)
        return draw_between(s, depth);
    if (rng_chance(s->rng, 10))
        return draw_long_in(s, a);
    int n = rng_between(s->rng, 1, MAX_ARGS - 1);
    char form[64];
    int length = snprintf(form, sizeof form, "(@0 %sin (%s", rng_chance(s->rng, 75) ? "" : "not ",
                          rng_chance(s->rng, 10) ? "null, " : "");
    for (int i = 1; i <= n; i++) {
        args[i] = literal_for(s, a);
        length += snprintf(form + length, sizeof form - (size_t)length, "%s@%d", i > 1 ? ", " : "", i);
    }
    snprintf(form + length, sizeof form - (size_t)length, "))");
    return term_new(s, KIND_BOOLEAN, arena_strdup(s->arena, form), NULL, n + 1, args);
}

static Term *draw_like(Scope *s, int depth)
{
    static const char *const PATTERNS[] = { "'a%'",
                                            "'%b'",
                                            "'%a%'",
                                            "'_'",
                                            "'__'",
                                            "'a_'",
                                            "''",
                                            "'%'",
                                            "'k1%'",
                                            "'k_%'",
                                            "'%1%'",
                                            "'A%'",
                                            "'%''%'",
                                            "'a!%b' escape '!'",
                                            "'a!_%' escape '!'",
                                            "'\xC3\xA9'",
                                            "'_\xE6\x9C\xAC'",
                                            "'%_%b%'",
                                            "'abc'",
                                            "'a%b'" };
    const char *pattern = PATTERNS[rng_below(s->rng, COUNT_OF(PATTERNS))];
    const char *not = rng_chance(s->rng, 75) ? "" : "not ";
    const char *weft = arena_printf(s->arena, "(@0 %slike %s)", not, pattern), *sqlite = NULL;
    if (rng_chance(s->rng, 20) &&
        !strstr(pattern, "escape")) {  // no word has letters that SQLite's lower() does not know
        weft = arena_printf(s->arena, "(@0 %silike %s)", not, pattern);
        sqlite = arena_printf(s->arena, "(lower(@0) %slike lower(%s))", not, pattern);
    }
    return term_1(s, KIND_BOOLEAN, weft, sqlite, draw_text(s, depth - 1));
}

static Term *draw_null_test(Scope *s, int depth)
{
    Term *a = draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), depth - 1);
    return term_1(s, KIND_BOOLEAN, rng_chance(s->rng, 50) ? "(@0 is null)" : "(@0 is not null)", NULL, a);
}

static Term *draw_boolean_test(Scope *s, int depth)
{
    static const char *const FORMS[] = { "(@0 is true)", "(@0 is not true)", "(@0 is false)", "(@0 is not false)" };
    return term_1(s, KIND_BOOLEAN, FORMS[rng_below(s->rng, COUNT_OF(FORMS))], NULL, draw_boolean(s, depth - 1));
}

static Term *draw_connective(Scope *s, int depth)
{
    Term *a = draw_boolean(s, depth - 1), *b;
    switch (rng_below(s->rng, 8)) {
    case 0: case 1: case 2:
        b = draw_boolean(s, depth - 1);
        return term_2(s, KIND_BOOLEAN, "(@0 and @1)", NULL, a, b);
    case 3: case 4: case 5:
        b = draw_boolean(s, depth - 1);
        return term_2(s, KIND_BOOLEAN, "(@0 or @1)", NULL, a, b);
    default:
        return term_1(s, KIND_BOOLEAN, "(not @0)", NULL, a);
    }
}

static Term *draw_boolean_here(Scope *s, int depth)
{
    if (depth <= 0) {
        Term *leaf = pick_leaf(s, KIND_BOOLEAN);
        return leaf && rng_chance(s->rng, 30) ? leaf : draw_comparison(s, 1);
    }
    if (may_nest(s, 8))
        return rng_chance(s->rng, 70) ? draw_in_subquery(s, depth) : draw_exists(s);
    int draw = rng_below(s->rng, 100);
    if (draw < 40)
        return draw_comparison(s, depth);
    if (draw < 48)
        return draw_between(s, depth);
    if (draw < 58)
        return draw_in(s, depth);
    if (draw < 64)
        return pick_leaf(s, KIND_TEXT) ? draw_like(s, depth) : draw_comparison(s, depth);
    if (draw < 70)
        return draw_null_test(s, depth);
    if (draw < 72)
        return draw_boolean_test(s, depth);
    if (draw < 73)
        return term_1(s, KIND_BOOLEAN, "(@0 = null)", NULL, draw_kind(s, kind_to_compare(s), depth - 1));
    if (draw < 75)
        return draw_choice(s, KIND_BOOLEAN, depth);
    if (draw < 78)
        return leaf_or_literal(s, KIND_BOOLEAN);
    return draw_connective(s, depth);
}

Term *draw_boolean(Scope *s, int depth)
{
    bool needs_exact = s->needs_exact;
    s->needs_exact = true;
    Term *term = draw_boolean_here(s, depth);
    s->needs_exact = needs_exact;
    return term;
}

Term *draw_kind(Scope *s, Kind kind, int depth)
{
    switch (kind) {
    case KIND_INTEGER: return draw_integer(s, depth);
    case KIND_DOUBLE:  return draw_double(s, depth);
    case KIND_DECIMAL: return draw_decimal(s, depth);
    case KIND_TEXT:    return draw_text(s, depth);
    case KIND_DATE:    return draw_date(s, depth);
    default:           return draw_boolean(s, depth);
    }
}

Term *draw_shaped(Scope *s, Kind kind, int depth)
{
    bool needs_exact = s->needs_exact;
    s->needs_exact = true;
    Term *term = draw_kind(s, kind, depth);
    for (int attempt = 0; attempt < 4 && kind == KIND_DECIMAL && term->scale != 2; attempt++)
        term = draw_kind(s, kind, attempt < 2 ? depth : 0);
    if (kind == KIND_DECIMAL && term->scale != 2)
        term = literal(s, kind);
    s->needs_exact = needs_exact;
    return term;
}
