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
//
// Scopes: below grouping the leaves of a term are columns; above it they are group keys and aggregates.  The same
// functions draw both, so HAVING and outputs over aggregates are as deep as WHERE.

#define _GNU_SOURCE
#include "random.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_LEAVES = 64 };

typedef struct Scope {
    Arena *arena;
    Rng   *rng;
    Term  *leaves[MAX_LEAVES];
    int    n_leaves;
    bool   needs_exact;                // doubles drawn now will be compared
} Scope;

static Term *draw_kind(Scope *s, Kind kind, int depth);
static Term *draw_boolean(Scope *s, int depth);

// ---- terms --------------------------------------------------------------------------------------------------------

static Term *term_new(Scope *s, Kind kind, const char *weft, const char *sqlite, int n_args, Term **args)
{
    Term *term = arena_make(s->arena, Term);
    *term = (Term){ .kind = kind, .bits = 32, .bound = 1, .is_exact = true, .is_constant = true,
                    .form = { weft, sqlite ? sqlite : weft }, .n_args = n_args };
    for (int i = 0; i < n_args; i++) {
        term->args[i] = args[i];
        term->is_constant &= args[i]->is_constant;
        term->is_exact &= args[i]->kind != KIND_DOUBLE || args[i]->is_exact;
    }
    return term;
}

static Term *term_1(Scope *s, Kind kind, const char *weft, const char *sqlite, Term *a)
{
    return term_new(s, kind, weft, sqlite, 1, &a);
}

static Term *term_2(Scope *s, Kind kind, const char *weft, const char *sqlite, Term *a, Term *b)
{
    return term_new(s, kind, weft, sqlite, 2, (Term *[]){ a, b });
}

// A term with the measure (bits, scale, bound) of another.
static Term *like_this(Term *term, const Term *other)
{
    term->bits = other->bits;
    term->scale = other->scale;
    term->bound = other->bound;
    return term;
}

uint32_t term_refs(const Term *term)
{
    uint32_t refs = term->refs;
    for (int i = 0; i < term->n_args; i++)
        refs |= term_refs(term->args[i]);
    return refs;
}

static double largest_integer(int bits)
{
    return bits == 16 ? 32767.0 : bits == 32 ? 2147483647.0 : 4e18;
}

#define LARGEST_DECIMAL 1e15                                      // scaled; three digits below what 18 digits hold
#define LARGEST_DOUBLE  1e9                                       // with at most 16 bits behind the point: always exact

static Term *pick_leaf(Scope *s, Kind kind)
{
    Term *found = NULL;
    int n = 0;
    for (int i = 0; i < s->n_leaves; i++) {
        Term *leaf = s->leaves[i];
        if (leaf->kind == kind && (leaf->is_exact || !s->needs_exact) && rng_below(s->rng, ++n) == 0)
            found = leaf;
    }
    return found;
}

// ---- casts that SQLite needs spelt out ----------------------------------------------------------------------------

static Term *to_scale(Scope *s, Term *term, int scale)
{
    int from = term->kind == KIND_DECIMAL ? term->scale : 0;
    if (term->kind == KIND_DECIMAL && from == scale)
        return term;
    int64_t factor = 1;
    for (int i = from; i < scale; i++)
        factor *= 10;
    Term *scaled = term_1(s, KIND_DECIMAL, "@0", arena_printf(s->arena, "(@0 * %" PRId64 ")", factor), term);
    scaled->scale = scale;
    scaled->bound = term->bound * (double)factor;
    return scaled;
}

static Term *to_double(Scope *s, Term *term)
{
    if (term->kind == KIND_DOUBLE)
        return term;
    bool is_cast = rng_chance(s->rng, 50);
    Term *made = term_1(s, KIND_DOUBLE, is_cast ? "cast(@0 as double precision)" : "@0", "(@0 * 1.0)", term);
    made->bound = term->bound;
    return made;
}

// Makes two terms of the same number kind.  False when that would leave the safe range.
static bool unify(Scope *s, Term **a, Term **b)
{
    if ((*a)->kind == KIND_DECIMAL || (*b)->kind == KIND_DECIMAL) {
        if ((*a)->kind == KIND_DOUBLE || (*b)->kind == KIND_DOUBLE)
            return false;
        int scale = MAX_OF((*a)->kind == KIND_DECIMAL ? (*a)->scale : 0, (*b)->kind == KIND_DECIMAL ? (*b)->scale : 0);
        *a = to_scale(s, *a, scale);
        *b = to_scale(s, *b, scale);
        return (*a)->bound < LARGEST_DECIMAL && (*b)->bound < LARGEST_DECIMAL;
    }
    if ((*a)->kind == KIND_DOUBLE || (*b)->kind == KIND_DOUBLE) {
        if ((*a)->bound > 1e15 || (*b)->bound > 1e15)
            return false;
        *a = to_double(s, *a);
        *b = to_double(s, *b);
    }
    return (*a)->kind == (*b)->kind;
}

// ---- literals -----------------------------------------------------------------------------------------------------

static Kind kind_of_column(ColumnType type)
{
    static const Kind KINDS[] = { KIND_INTEGER, KIND_INTEGER, KIND_INTEGER, KIND_DOUBLE,
                                  KIND_DECIMAL, KIND_TEXT,    KIND_DATE,    KIND_BOOLEAN };
    return KINDS[type];
}

static double column_bound(const RandomColumn *column)
{
    double first = (double)column->offset, last = first + (double)column->n_distinct * column->stride;
    double largest = fmax(fabs(first), fabs(last));
    switch (column->type) {
    case COLUMN_DOUBLE:
        return largest * 0.25;
    case COLUMN_DECIMAL:
        return largest * 35;
    default:
        return largest;
    }
}

// A value that may well be in the column.  BARE leaves the type to what it is compared with; otherwise it is spelt out.
static Term *column_term(Scope *s, const RandomColumn *column, bool is_bare)
{
    char text[N_DIALECTS][160];
    int value = rng_below(s->rng, column->n_distinct);
    for (int d = 0; d < N_DIALECTS; d++)
        column_literal(column, value, d, text[d], sizeof text[d]);
    const char *weft = arena_strdup(s->arena, text[IN_WEFT]);
    if (!is_bare && column->type == COLUMN_DATE)
        weft = arena_printf(s->arena, "date %s", text[IN_WEFT]);
    if (!is_bare && column->type == COLUMN_DOUBLE)
        weft = arena_printf(s->arena, "cast(%s as double precision)", text[IN_WEFT]);
    Term *term = term_new(s, kind_of_column(column->type), weft, arena_strdup(s->arena, text[IN_SQLITE]), 0, NULL);
    term->bound = column_bound(column);
    term->scale = column->type == COLUMN_DECIMAL ? 2 : 0;
    term->bits = term->bound > 2e9 ? 64 : 32;
    return term;
}

static Term *literal(Scope *s, Kind kind)
{
    static const ColumnType TYPES[] = { COLUMN_INTEGER, COLUMN_DOUBLE, COLUMN_DECIMAL,
                                        COLUMN_TEXT,    COLUMN_DATE,   COLUMN_BOOLEAN };
    static const int SIZES[] = { 2, 4, 12, 40, 150 };
    RandomColumn column = { .type = TYPES[kind], .n_distinct = SIZES[rng_below(s->rng, COUNT_OF(SIZES))],
                            .stride = 1 };
    if (kind == KIND_BOOLEAN)
        column.n_distinct = 2;
    if (kind == KIND_DATE)
        column.offset = 32142;                                    // 1992
    else if (rng_chance(s->rng, 20))
        column.offset = -column.n_distinct / 2;
    return column_term(s, &column, false);
}

// A constant to compare TERM with: from its column when it is one.
static Term *literal_for(Scope *s, const Term *term)
{
    if (!term->column)
        return literal(s, term->kind);
    return column_term(s, term->column, rng_chance(s->rng, 70));
}

// ---- what all kinds have: leaf, literal, CASE, COALESCE, NULLIF ---------------------------------------------------

static Term *leaf_or_literal(Scope *s, Kind kind)
{
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

static Term *either(Term *made, const Term *a, const Term *b)
{
    made->bits = MAX_OF(a->bits, b->bits);
    made->scale = a->scale;
    made->bound = fmax(a->bound, b->bound);
    return made;
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

static Term *sum_or_product(Scope *s, Kind kind, Term *a, Term *b, double largest)
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

static Kind kind_to_compare(Scope *s)
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
    char *forms[N_DIALECTS] = { "(@0 in (", "(@0 in (" };
    for (int n = rng_between(s->rng, 6, 40); n > 0; n--) {
        Term *value = literal_for(s, a);
        for (int d = 0; d < N_DIALECTS; d++)
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

static Term *draw_boolean(Scope *s, int depth)
{
    bool needs_exact = s->needs_exact;
    s->needs_exact = true;
    Term *term = draw_boolean_here(s, depth);
    s->needs_exact = needs_exact;
    return term;
}

static Term *draw_kind(Scope *s, Kind kind, int depth)
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

// ---- FROM ---------------------------------------------------------------------------------------------------------

static void add_columns(Scope *s, const RandomQuery *query, const DataSet *data, int ref)
{
    const RandomTable *table = &data->tables[query->table[ref]];
    for (int c = 0; c < table->n_columns && s->n_leaves < MAX_LEAVES; c++) {
        const RandomColumn *column = &table->columns[c];
        const char *name = query->has_aliases ? arena_printf(s->arena, "r%d.%s", ref, column->name) : column->name;
        Term *leaf = term_new(s, kind_of_column(column->type), name, NULL, 0, NULL);
        leaf->column = column;
        leaf->is_constant = false;
        leaf->refs = 1u << ref;
        leaf->bound = column_bound(column);
        leaf->scale = column->type == COLUMN_DECIMAL ? 2 : 0;
        leaf->bits = column->type == COLUMN_SMALLINT ? 16 : column->type == COLUMN_BIGINT ? 64 : 32;
        s->leaves[s->n_leaves++] = leaf;
    }
}

// An equality between a column of the new table and one of the tables before it; of a few candidates the most
// selective.
static Term *draw_equality(Scope *s, int first_new)
{
    Term *best_a = NULL, *best_b = NULL;
    int best = 0, wanted = rng_between(s->rng, 1, 4);
    for (int attempt = 0; attempt < 40 && wanted; attempt++) {
        Term *a = s->leaves[rng_below(s->rng, first_new)];
        Term *b = s->leaves[rng_between(s->rng, first_new, s->n_leaves - 1)];
        bool is_number = a->kind <= KIND_DECIMAL && b->kind <= KIND_DECIMAL && rng_chance(s->rng, 20);
        if ((a->kind != b->kind && !is_number) || a->kind == KIND_BOOLEAN)
            continue;
        wanted--;
        int n_distinct = MAX_OF(a->column->n_distinct, b->column->n_distinct);
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

static void draw_join(Scope *s, RandomQuery *query, const DataSet *data, int ref)
{
    int first_new = s->n_leaves;
    add_columns(s, query, data, ref);
    Term **list = query->is_join[ref] ? query->on[ref] : query->where;
    int *n = query->is_join[ref] ? &query->n_on[ref] : &query->n_where;
    int n_equalities = rng_chance(s->rng, 98) ? rng_between(s->rng, 1, rng_chance(s->rng, 30) ? 2 : 1) : 0;
    for (int i = 0; i < n_equalities; i++)
        add_condition(list, n, draw_equality(s, first_new));
    if (rng_chance(s->rng, 15))
        add_condition(list, n, draw_boolean(s, 1));
    if (query->is_join[ref] && *n == 0)
        add_condition(list, n, term_new(s, KIND_BOOLEAN, "true", NULL, 0, NULL));
}

static void draw_from(Scope *s, RandomQuery *query, const DataSet *data)
{
    int draw = rng_below(s->rng, 100);
    query->n_refs = draw < 45 ? 1 : draw < 80 ? 2 : draw < 95 ? 3 : 4;
    query->has_aliases = query->n_refs > 1 || rng_chance(s->rng, 50);
    int n_joined = rng_chance(s->rng, 50) ? 0 : rng_below(s->rng, query->n_refs);      // the rest follow after commas
    for (int ref = 0; ref < query->n_refs; ref++) {
        query->table[ref] = rng_below(s->rng, data->n_tables);
        if (ref == 0 && rng_chance(s->rng, 40))
            query->table[ref] = 0;
        query->is_used[ref] = true;
        query->is_join[ref] = ref > 0 && ref <= n_joined;
        if (ref == 0)
            add_columns(s, query, data, ref);
        else
            draw_join(s, query, data, ref);
    }
}

// ---- GROUP BY -----------------------------------------------------------------------------------------------------

static Term *draw_key(Scope *s)
{
    bool needs_exact = s->needs_exact;
    s->needs_exact = true;
    Term *key = NULL;
    while (!key || key->is_constant) {
        if (rng_chance(s->rng, 75))
            key = s->leaves[rng_below(s->rng, s->n_leaves)];
        else
            key = draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), 2);
    }
    s->needs_exact = needs_exact;
    return key;
}

#define MOST_ROWS 1e6                                             // that a join may give before SQLite gives up on it

static Term *draw_sum(Scope *s)
{
    Term *arg = draw_kind(s, (Kind)rng_below(s->rng, KIND_DECIMAL + 1), rng_below(s->rng, 3)), *made;
    if (arg->bound * MOST_ROWS > 1e18)
        return term_1(s, KIND_INTEGER, "count(@0)", NULL, arg);
    if (arg->kind == KIND_INTEGER && arg->bits < 64) {
        made = term_1(s, KIND_INTEGER, "sum(@0)", NULL, arg);
        made->bits = 64;
    } else {
        made = term_1(s, arg->kind == KIND_DOUBLE ? KIND_DOUBLE : KIND_DECIMAL, "sum(@0)", NULL, arg);
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
        return term_1(s, KIND_INTEGER, "count(@0)", NULL, arg);
    const char *sqlite = arg->kind == KIND_DECIMAL ? arena_printf(s->arena, "(avg(@0) / 1e%d)", arg->scale) : NULL;
    Term *made = term_1(s, KIND_DOUBLE, "avg(@0)", sqlite, arg);
    made->bound = arg->bound;
    made->is_exact = false;
    return made;
}

static Term *draw_extreme(Scope *s)
{
    Term *arg = draw_kind(s, (Kind)rng_below(s->rng, KIND_DATE + 1), rng_below(s->rng, 3));
    return like_this(term_1(s, arg->kind, rng_chance(s->rng, 50) ? "min(@0)" : "max(@0)", NULL, arg), arg);
}

static Term *draw_aggregate(Scope *s)
{
    Term *made;
    int draw = rng_below(s->rng, 100);
    if (draw < 15)
        made = term_new(s, KIND_INTEGER, "count(*)", NULL, 0, NULL);
    else if (draw < 30)
        made = term_1(s, KIND_INTEGER, "count(@0)", NULL, draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), 1));
    else if (draw < 60)
        made = draw_sum(s);
    else if (draw < 75)
        made = draw_average(s);
    else
        made = draw_extreme(s);
    if (made->kind == KIND_INTEGER && made->form[0][0] == 'c') {
        made->bits = 64;
        made->bound = MOST_ROWS;
    }
    made->is_constant = false;
    return made;
}

// SELECT DISTINCT may not have it.  Never a literal: that would be a position.
static Term *draw_order_last(Scope *s)
{
    s->needs_exact = true;
    Term *term = draw_kind(s, s->leaves[rng_below(s->rng, s->n_leaves)]->kind, 2);
    s->needs_exact = false;
    return term->is_constant ? NULL : term;
}

static void draw_grouped(Scope *rows, RandomQuery *query)
{
    query->is_grouped = true;
    query->n_keys = rng_chance(rows->rng, 25) ? 0 : rng_between(rows->rng, 1, MAX_KEYS);
    Scope groups = { .arena = rows->arena, .rng = rows->rng };
    for (int k = 0; k < query->n_keys; k++) {
        query->keys[k] = groups.leaves[groups.n_leaves++] = draw_key(rows);
        if (rng_chance(rows->rng, 90))
            query->items[query->n_items++] = query->keys[k];
    }
    query->keys_by_position = query->n_keys > 0 && query->n_items == query->n_keys && rng_chance(rows->rng, 30);
    int n_aggregates = rng_between(rows->rng, query->n_keys ? 0 : 1, 3);
    for (int a = 0; a < n_aggregates; a++) {
        Term *aggregate = groups.leaves[groups.n_leaves++] = draw_aggregate(rows);
        if (rng_chance(rows->rng, 85) || (query->n_keys == 0 && a == 0))  // SQLite wants one there before HAVING
            query->items[query->n_items++] = aggregate;
    }
    if (query->n_items == 0 || rng_chance(rows->rng, 15)) {
        Kind kind = groups.leaves[rng_below(rows->rng, groups.n_leaves)]->kind;
        query->items[query->n_items++] = draw_kind(&groups, kind, 2);
    }
    if (rng_chance(rows->rng, 20))
        query->having = draw_boolean(&groups, 2);
    query->is_distinct = rng_chance(rows->rng, 3);
    for (int i = 0; i < query->n_items; i++)
        query->is_distinct &= query->items[i]->is_exact;
    if (!query->is_distinct && rng_chance(rows->rng, 10))
        query->order_last = draw_order_last(&groups);
}

// ---- SELECT, ORDER BY, LIMIT --------------------------------------------------------------------------------------

static void draw_plain(Scope *s, RandomQuery *query)
{
    query->is_distinct = rng_chance(s->rng, 25);
    s->needs_exact = query->is_distinct;
    int n = rng_between(s->rng, 1, 5);
    for (int i = 0; i < n; i++)
        query->items[query->n_items++] =
            rng_chance(s->rng, 50) ? s->leaves[rng_below(s->rng, s->n_leaves)]
                                   : draw_kind(s, (Kind)rng_below(s->rng, KIND_BOOLEAN + 1), rng_between(s->rng, 1, 3));
    s->needs_exact = false;
    if (!query->is_distinct && rng_chance(s->rng, 10))
        query->order_last = draw_order_last(s);
}

static void draw_order(Scope *s, RandomQuery *query)
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
    if (query->n_order > 1 && rng_chance(s->rng, 30)) {
        query->n_order = rng_between(s->rng, 1, query->n_order - 1);
        is_total = false;
    }
    if (is_total && rng_chance(s->rng, 60)) {
        static const int LIMITS[] = { 0, 1, 3, 10, 50, 1000 };
        query->limit = LIMITS[rng_below(s->rng, COUNT_OF(LIMITS))];
        if (rng_chance(s->rng, 30))
            query->offset = LIMITS[rng_below(s->rng, COUNT_OF(LIMITS))];
    }
}

void query_draw(Arena *arena, const DataSet *data, uint64_t number, RandomQuery *query)
{
    Rng rng = rng_from(data->seed, 0, number);
    Scope scope = { .arena = arena, .rng = &rng };
    *query = (RandomQuery){ .limit = -1, .offset = -1 };
    draw_from(&scope, query, data);
    int n_filters = rng_below(&rng, 4);
    for (int i = 0; i < n_filters; i++)
        add_condition(query->where, &query->n_where, draw_boolean(&scope, rng_between(&rng, 1, 3)));
    if (rng_chance(&rng, 60))
        draw_grouped(&scope, query);
    else
        draw_plain(&scope, query);
    if (rng_chance(&rng, 40))
        draw_order(&scope, query);
}

// ---- as text ------------------------------------------------------------------------------------------------------

static void write_term(FILE *out, const Term *term, int dialect)
{
    for (const char *c = term->form[dialect]; *c; c++) {
        if (*c != '@') {
            fputc(*c, out);
            continue;
        }
        c++;
        write_term(out, term->args[*c - '0'], dialect);
    }
}

static void write_terms(FILE *out, Term *const *terms, int n, const char *between, int dialect)
{
    for (int i = 0; i < n; i++) {
        if (i)
            fputs(between, out);
        write_term(out, terms[i], dialect);
    }
}

static void write_from(FILE *out, const RandomQuery *query, const DataSet *data, int dialect)
{
    bool is_first = true;
    for (int ref = 0; ref < query->n_refs; ref++) {
        if (!query->is_used[ref])
            continue;
        bool is_join = query->is_join[ref] && !is_first;
        fputs(is_first ? "" : is_join ? " join " : ", ", out);
        fputs(data->tables[query->table[ref]].name, out);
        if (query->has_aliases)
            fprintf(out, " r%d", ref);
        if (is_join) {
            fputs(" on ", out);
            if (query->n_on[ref] == 0)
                fputs("true", out);
            write_terms(out, query->on[ref], query->n_on[ref], " and ", dialect);
        }
        is_first = false;
    }
}

static void write_group(FILE *out, const RandomQuery *query, int dialect)
{
    if (query->n_keys)
        fputs(" group by ", out);
    for (int k = 0; k < query->n_keys; k++) {
        if (k)
            fputs(", ", out);
        if (query->keys_by_position)
            fprintf(out, "%d", k + 1);
        else
            write_term(out, query->keys[k], dialect);
    }
    if (query->having) {
        fputs(" having ", out);
        write_term(out, query->having, dialect);
    }
}

static void write_order(FILE *out, const RandomQuery *query, int dialect)
{
    for (int i = 0; i < query->n_order; i++) {
        fprintf(out, i ? ", " : " order by ");
        fprintf(out, i % 2 ? "c%d" : "%d", query->order[i] + (i % 2 ? 0 : 1));     // by alias and by position in turn
        fprintf(out, "%s nulls %s", query->order_descends[i] ? " desc" : "",
                query->order_nulls_first[i] ? "first" : "last");
    }
    if (query->order_last && query->n_order > 0) {
        fputs(", ", out);
        write_term(out, query->order_last, dialect);
        fputs(" desc nulls last", out);
    }
    if (query->limit >= 0)
        fprintf(out, " limit %d", query->limit);
    if (query->offset >= 0)
        fprintf(out, " offset %d", query->offset);
}

char *query_sql(const RandomQuery *query, const DataSet *data, int dialect)
{
    char *sql = NULL;
    size_t length;
    FILE *out = open_memstream(&sql, &length);
    fputs(query->is_distinct ? "select distinct " : "select ", out);
    for (int i = 0; i < query->n_items; i++) {
        fputs(i ? ", " : "", out);
        write_term(out, query->items[i], dialect);
        fprintf(out, " as c%d", i);
    }
    fputs(" from ", out);
    write_from(out, query, data, dialect);
    if (query->n_where) {
        fputs(" where ", out);
        write_terms(out, query->where, query->n_where, " and ", dialect);
    }
    write_group(out, query, dialect);
    write_order(out, query, dialect);
    fclose(out);
    return sql;
}
