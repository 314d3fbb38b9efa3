// terms.c - the parts that random expressions are made of: terms, casts and literals, in every dialect at once.

#define _GNU_SOURCE
#include "query_int.h"

#include <inttypes.h>
#include <math.h>

// ---- terms --------------------------------------------------------------------------------------------------------

Term *term_new(Scope *s, Kind kind, const char *weft, const char *sqlite, int n_args, Term **args)
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

Term *term_1(Scope *s, Kind kind, const char *weft, const char *sqlite, Term *a)
{
    return term_new(s, kind, weft, sqlite, 1, &a);
}

Term *term_2(Scope *s, Kind kind, const char *weft, const char *sqlite, Term *a, Term *b)
{
    return term_new(s, kind, weft, sqlite, 2, (Term *[]){ a, b });
}

Term *like_this(Term *term, const Term *other)
{
    term->bits = other->bits;
    term->scale = other->scale;
    term->bound = other->bound;
    return term;
}

Term *either(Term *made, const Term *a, const Term *b)
{
    made->bits = MAX_OF(a->bits, b->bits);
    made->scale = a->scale;
    made->bound = fmax(a->bound, b->bound);
    return made;
}

uint32_t term_refs(const Term *term)
{
    uint32_t refs = term->refs;
    for (int i = 0; i < term->n_args; i++)
        refs |= term_refs(term->args[i]);
    return refs;
}

double largest_integer(int bits)
{
    return bits == 16 ? 32767.0 : bits == 32 ? 2147483647.0 : 4e18;
}

Term *pick_leaf(Scope *s, Kind kind)
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

Term *to_scale(Scope *s, Term *term, int scale)
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

Term *to_double(Scope *s, Term *term)
{
    if (term->kind == KIND_DOUBLE)
        return term;
    bool is_cast = rng_chance(s->rng, 50) || term->bits == 16;   // smallint would overflow where a double does not
    Term *made = term_1(s, KIND_DOUBLE, is_cast ? "cast(@0 as double precision)" : "@0", "(@0 * 1.0)", term);
    made->bound = term->bound;
    return made;
}

// Makes two terms of the same number kind.  False when that would leave the safe range.
bool unify(Scope *s, Term **a, Term **b)
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

Kind kind_of_column(ColumnType type)
{
    static const Kind KINDS[] = { KIND_INTEGER, KIND_INTEGER, KIND_INTEGER, KIND_DOUBLE,
                                  KIND_DECIMAL, KIND_TEXT,    KIND_DATE,    KIND_BOOLEAN };
    return KINDS[type];
}

double column_bound(const RandomColumn *column)
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
    char text[N_FORMS][160];
    int value = rng_below(s->rng, column->n_distinct);
    for (int d = 0; d < N_FORMS; d++)
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

Term *literal(Scope *s, Kind kind)
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
Term *literal_for(Scope *s, const Term *term)
{
    if (!term->column)
        return literal(s, term->kind);
    return column_term(s, term->column, rng_chance(s->rng, 70));
}
