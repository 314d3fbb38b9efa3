// dialect_expr.c - random expressions, drawn from forms.def.

#define _GNU_SOURCE
#include "dialect.h"

#include <ctype.h>
#include <stdlib.h>

enum { INEXACT = 1, WHOLE = 2, W_TOTAL = 4, W_RANK = 8, FRAMED = 16 };

typedef struct Form { TreeType type; int weight, flags; const char *text; } Form;

static const Form FORMS[] = {
#define FORM(type, weight, flags, text) { TYPE_##type, weight, flags, text },
#define ANY_FORM(text)
#define AGGREGATE(type, weight, flags, text)
#define WINDOW(type, weight, flags, text)
#include "forms.def"
#undef FORM
#undef ANY_FORM
#undef AGGREGATE
#undef WINDOW
};

static const char *const ANY_FORMS[] = {
#define FORM(type, weight, flags, text)
#define ANY_FORM(text) text,
#define AGGREGATE(type, weight, flags, text)
#define WINDOW(type, weight, flags, text)
#include "forms.def"
#undef FORM
#undef ANY_FORM
#undef AGGREGATE
#undef WINDOW
};

static const Form AGGREGATES[] = {
#define FORM(type, weight, flags, text)
#define ANY_FORM(text)
#define AGGREGATE(type, weight, flags, text) { TYPE_##type, weight, flags, text },
#define WINDOW(type, weight, flags, text)
#include "forms.def"
#undef FORM
#undef ANY_FORM
#undef AGGREGATE
#undef WINDOW
};

static const Form WINDOWS[] = {
#define FORM(type, weight, flags, text)
#define ANY_FORM(text)
#define AGGREGATE(type, weight, flags, text)
#define WINDOW(type, weight, flags, text) { TYPE_##type, weight, flags, text },
#include "forms.def"
#undef FORM
#undef ANY_FORM
#undef AGGREGATE
#undef WINDOW
};

TreeType draw_type(Names *names)
{
    static const TreeType TYPES[] = {
        TYPE_INTEGER, TYPE_INTEGER, TYPE_INTEGER, TYPE_TEXT, TYPE_TEXT, TYPE_TEXT, TYPE_NUMERIC, TYPE_NUMERIC,
        TYPE_DATE, TYPE_DATE, TYPE_TIMESTAMP, TYPE_BOOLEAN, TYPE_BIGINT, TYPE_SMALLINT, TYPE_DOUBLE, TYPE_REAL,
        TYPE_TIMESTAMPTZ, TYPE_TIME, TYPE_UUID };
    return TYPES[rng_below(names->rng, COUNT_OF(TYPES))];
}

// ---- leaves -------------------------------------------------------------------------------------------------------

static Tree *leaf(Names *names, TreeType type, const char *text)
{
    return tree_new(names->arena, type, text, 0, NULL);
}

static Tree *pick_name(Names *names, const Names *from, TreeType type)
{
    const Name *found = NULL;
    int n = 0;
    for (int i = 0; i < from->n; i++)
        if (from->list[i].type == type && rng_below(names->rng, ++n) == 0)
            found = &from->list[i];
    if (!found)
        return NULL;
    return found->tree ? found->tree : leaf(names, type, found->text);
}

static Tree *draw_leaf(Names *names, TreeType type)
{
    Tree *found = NULL;
    if (names->outer && rng_chance(names->rng, 25))
        found = pick_name(names, names->outer, type);
    if (!found && rng_chance(names->rng, 80))
        found = pick_name(names, names, type);
    if (found)
        return found;
    const char *text = dialect_literal(names->arena, names->rng, type, names->is_wild);
    if (names->has_typed_text && text[0] == '\'')
        text = arena_printf(names->arena, "text %s", text);
    return leaf(names, type, text);
}

static const char *one_of(Rng *rng, const char *const *list, int n)
{
    return list[rng_below(rng, n)];
}

static Tree *draw_pattern(Names *names)
{
    static const char *const PATTERNS[] = { "'a%'", "'%b'", "'%a%'", "'_b%'", "'%'", "''", "'a!%b'", "'%\\%%'",
                                            "'___'", "'%O%'", "'Zo_'", "'%l% w%'", "cast(null as text)", "'abc'" };
    return leaf(names, TYPE_TEXT, one_of(names->rng, PATTERNS, COUNT_OF(PATTERNS)));
}

static Tree *draw_regex(Names *names)
{
    static const char *const PATTERNS[] = {
        "'a'", "'^a'", "'b$'", "'[a-c]+'", "'(a|b)c?'", "'[0-9]+'", "'\\d'", "'.'", "'o+'", "'^$'", "'\\s'", "'(l)(o)'",
        "'[^a]'", "'\\w+'", "'a{2}'", "'x*'", "'ë'", "'[[:upper:]]'", "'('", "'\\mw'", "'^.{3}$'", "'***=a'",
        "'***:a.'" };
    return leaf(names, TYPE_TEXT, one_of(names->rng, PATTERNS, COUNT_OF(PATTERNS)));
}

static Tree *draw_short_text(Names *names)
{
    static const char *const TEXTS[] = { "'a'", "'b'", "','", "''", "' '", "'ab'", "'ë'", "'l'", "'xyz'", "'%'" };
    return leaf(names, TYPE_TEXT, one_of(names->rng, TEXTS, COUNT_OF(TEXTS)));
}

static Tree *draw_array(Names *names)
{
    static const char *const ARRAYS[] = { "'{1.5,2,3.25}'::numeric[]", "'{0,-2.25,1e1}'::numeric[]",
                                          "'{7,null,0.005}'::numeric[]", "array[1.5,2,99.999]::numeric[]" };
    return leaf(names, TYPE_NUMERIC, one_of(names->rng, ARRAYS, COUNT_OF(ARRAYS)));
}

// Few bits: their sums, and the sums of their squares, are the same in every order.
static Tree *draw_friendly(Names *names)
{
    Tree *arg = pick_name(names, names, TYPE_SMALLINT);
    if (!arg || rng_chance(names->rng, 10))
        arg = leaf(names, TYPE_SMALLINT, "cast(3 as smallint)");
    const char *form = "cast(@0 as double precision)";
    if (rng_chance(names->rng, 40))
        form = "(cast(@0 as double precision) / 4)";
    return tree_new(names->arena, TYPE_DOUBLE, form, 1, &arg);
}

// ---- texts of numbers ---------------------------------------------------------------------------------------------

static bool begins_with_one_of(const char *text, const char *const *starts, int n)
{
    for (int i = 0; i < n; i++)
        if (!strncmp(text, starts[i], strlen(starts[i])))
            return true;
    return false;
}

// Whether all values of a numeric expression have the same number of digits behind the point in PostgreSQL, too: it is
// made of columns with a precision and of literals, and nothing chooses among its arguments.
static bool has_one_scale(const Tree *tree)
{
    static const char *const CHOICES[] = { "case ", "coalesce(", "greatest(", "least(", "nullif(", "(select ",
                                           "cast(@0 as numeric)", "cast(cast(@0 as text) as numeric)" };
    const char *dot = tree->n_args ? NULL : strchr(tree->form, '.');
    if (dot && strchr("rwj", tree->form[0]))
        return tree->type != TYPE_NUMERIC || !strcmp(dot, ".n") || !strcmp(dot, ".w");
    if (begins_with_one_of(tree->form, CHOICES, COUNT_OF(CHOICES)))
        return false;
    for (int i = 0; i < tree->n_args; i++)
        if (!has_one_scale(tree->args[i]))
            return false;
    return true;
}

// A numeric to be made a text of.  Weft shows all values of an expression with as many digits behind the point as the
// longest has, PostgreSQL each with its own (src/sql/README.md).  Where that may differ, it is a text without zeros at
// its end.
static Tree *draw_number_for_text(Names *names, int depth)
{
    Tree *number = draw_value(names, TYPE_NUMERIC, depth);
    if (has_one_scale(number))
        return number;
    return tree_new(names->arena, TYPE_TEXT,
                    "regexp_replace(cast(@0 as text), '(\\.[0-9]*[1-9])0+$|\\.0+$', '\\1')", 1, &number);
}

// ---- forms --------------------------------------------------------------------------------------------------------

static const char TYPE_LETTERS[] = "silnrfbdmzcvut";

static Tree *draw_argument(Names *names, char letter, TreeType whole, int depth)
{
    const char *at = strchr(TYPE_LETTERS, letter);
    if (at)
        return draw_value(names, (TreeType)(at - TYPE_LETTERS), depth);
    switch (letter) {
    case 'T': return draw_value(names, whole, depth);
    case '#': return leaf(names, TYPE_INTEGER, arena_printf(names->arena, "%d", rng_below(names->rng, 9)));
    case '%': return leaf(names, TYPE_INTEGER, arena_printf(names->arena, "%d", rng_between(names->rng, -4, 20)));
    case 'L': return draw_pattern(names);
    case 'E': return draw_regex(names);
    case 'S': return draw_short_text(names);
    case 'G': return draw_friendly(names);
    case 'A': return draw_array(names);
    case 'N': return draw_number_for_text(names, depth);
    default: abort();
    }
}

// {a|b|c} becomes one of them.
static char *choose(Names *names, const char *text)
{
    char *made = arena_alloc(names->arena, strlen(text) + 1), *to = made;
    while (*text) {
        if (*text != '{') {
            *to++ = *text++;
            continue;
        }
        const char *end = strchr(text, '}');
        int n = 1;
        for (const char *c = text; c < end; c++)
            n += *c == '|';
        const char *from = text + 1;
        for (int chosen = rng_below(names->rng, n); chosen > 0; chosen--)
            from = strchr(from, '|') + 1;
        while (*from != '|' && *from != '}')
            *to++ = *from++;
        text = end + 1;
    }
    return made;
}

// "||" is an operator, so that braces are looked at only where one opens.
static Tree *draw_form(Names *names, TreeType type, const char *text, int depth)
{
    char *form = choose(names, text);
    Tree *tree = tree_new(names->arena, type, form, 0, NULL);
    for (char *c = form; *c; c++) {
        if (*c != '@' || isdigit((unsigned char)c[1]))            // @0: the first argument once more
            continue;
        tree->args[tree->n_args] = draw_argument(names, c[1], type, depth - 1);
        c[1] = (char)('0' + tree->n_args++);
    }
    return tree;
}

static const Form *pick_form(Rng *rng, const Form *list, int n, TreeType type, int without)
{
    const Form *found = NULL;
    int total = 0;
    for (int i = 0; i < n; i++) {
        if ((list[i].type != type && type != TYPE_N) || (list[i].flags & without))
            continue;
        total += list[i].weight;
        if (rng_below(rng, total) < list[i].weight)
            found = &list[i];
    }
    return found;
}

static Tree *draw_subquery(Names *names, TreeType type)
{
    if (!names->has_subqueries || !rng_chance(names->rng, type == TYPE_BOOLEAN ? 10 : 4))
        return NULL;
    return type == TYPE_BOOLEAN && rng_chance(names->rng, 80) ? draw_condition_query(names) : draw_scalar(names, type);
}

static Tree *draw(Names *names, TreeType type, int depth, int without)
{
    if (depth <= 0 || (type != TYPE_BOOLEAN && rng_chance(names->rng, 20)))
        return draw_leaf(names, type);
    Tree *nested = draw_subquery(names, type);
    if (nested)
        return nested;
    if (rng_chance(names->rng, 12))
        return draw_form(names, type, one_of(names->rng, ANY_FORMS, COUNT_OF(ANY_FORMS)), depth);
    const Form *form = pick_form(names->rng, FORMS, COUNT_OF(FORMS), type, without);
    if (!form)
        return draw_leaf(names, type);
    Tree *made = draw_form(names, type, form->text, depth);
    made->is_inexact = form->flags & INEXACT;
    return made;
}

Tree *draw_value(Names *names, TreeType type, int depth)
{
    return draw(names, type, depth, INEXACT);
}

Tree *draw_output(Names *names, TreeType type, int depth)
{
    return draw(names, type, depth, 0);
}

// ---- aggregates and windows ---------------------------------------------------------------------------------------

// A column of the query around would make it an aggregate of that query.
Tree *draw_dialect_aggregate(Names *rows, TreeType type)
{
    const Form *form = pick_form(rows->rng, AGGREGATES, COUNT_OF(AGGREGATES), type, type == TYPE_N ? 0 : INEXACT);
    if (!form)
        return NULL;
    Names inner = *rows;
    inner.outer = NULL;
    inner.has_subqueries = false;
    inner.has_typed_text = form->flags & WHOLE;
    Tree *made = draw_form(&inner, form->type, form->text, rng_between(rows->rng, 1, 3));
    made->is_inexact = form->flags & INEXACT;
    if (!rng_chance(rows->rng, 15))
        return made;
    Tree *args[] = { made, draw_value(&inner, TYPE_BOOLEAN, 2) };
    Tree *filtered = tree_new(rows->arena, made->type, "@0 filter (where @1)", 2, args);
    filtered->is_inexact = made->is_inexact;
    return filtered;
}

static const char *draw_frame(Names *names, bool is_total)
{
    static const char *const ROWS[] = {
        " rows between 2 preceding and current row", " rows between unbounded preceding and 1 following",
        " rows between current row and unbounded following", " rows between 1 following and 3 following",
        " rows 2 preceding", " rows between 3 preceding and 1 preceding",
        " rows between 1 preceding and 1 following exclude current row" };
    static const char *const GROUPS[] = {
        " groups between 1 preceding and 1 following", " groups between unbounded preceding and current row",
        " range between unbounded preceding and unbounded following",
        " groups between current row and 2 following exclude ties",
        " range between current row and unbounded following", " groups 1 preceding exclude group" };
    if (rng_chance(names->rng, 40))
        return "";
    return is_total && rng_chance(names->rng, 60) ? one_of(names->rng, ROWS, COUNT_OF(ROWS))
                                                  : one_of(names->rng, GROUPS, COUNT_OF(GROUPS));
}

// NULL: nothing to order by.
static Tree *draw_window_order(Names *names, bool is_total)
{
    static const char *const ORDERS[] = { "@0", "@0 desc", "@0 nulls first", "@0 desc nulls last" };
    Tree *list = tree_list(names->arena, ", ");
    for (int n = rng_between(names->rng, is_total ? 0 : 1, 2); n > 0; n--) {
        Tree *key = draw_value(names, draw_type(names), rng_below(names->rng, 2));
        if (key->n_args == 0 && !isalpha((unsigned char)key->form[0]))
            continue;                                             // a literal: a position
        tree_push(list, tree_new(names->arena, PART_ITEM, one_of(names->rng, ORDERS, COUNT_OF(ORDERS)), 1, &key));
    }
    if (is_total)
        tree_push(list, tree_new(names->arena, PART_CLAUSE, names->unique, 0, NULL));
    return list->n_args ? list : NULL;
}

// "range between interval '1 day' preceding and current row": one key, of a type with a distance
static Tree *draw_range_window(Names *names, Tree *call)
{
    static const struct { TreeType type; const char *distance; } KEYS[] = {
        { TYPE_INTEGER, "3" }, { TYPE_BIGINT, "10" }, { TYPE_NUMERIC, "1.5" }, { TYPE_DOUBLE, "2.5" },
        { TYPE_DATE, "interval '1 month'" }, { TYPE_TIMESTAMP, "interval '1 day'" }, { TYPE_SMALLINT, "2" } };
    int which = rng_below(names->rng, COUNT_OF(KEYS));
    Tree *key = pick_name(names, names, KEYS[which].type);
    if (!key)
        return NULL;
    const char *form = arena_printf(names->arena, "@0 over (order by @1%s range between %s preceding and %s)",
                                    rng_chance(names->rng, 40) ? " desc" : "", KEYS[which].distance,
                                    rng_chance(names->rng, 50) ? "current row"
                                        : arena_printf(names->arena, "%s following", KEYS[which].distance));
    return tree_new(names->arena, call->type, form, 2, (Tree *[]){ call, key });
}

Tree *draw_dialect_window(Names *names)
{
    int without = names->unique ? 0 : W_TOTAL;
    const Form *form = pick_form(names->rng, WINDOWS, COUNT_OF(WINDOWS), TYPE_N, without);
    Names inner = *names;
    inner.has_subqueries = false;
    Tree *call = draw_form(&inner, form->type, form->text, rng_between(names->rng, 1, 2));
    bool is_total = (form->flags & W_TOTAL) || (names->unique && (form->flags & FRAMED) && rng_chance(names->rng, 50));
    Tree *made = NULL;
    if ((form->flags & FRAMED) && !(form->flags & W_TOTAL) && rng_chance(names->rng, 20))
        made = draw_range_window(&inner, call);
    if (!made) {
        Tree *order = draw_window_order(&inner, is_total);
        Tree *partition = rng_chance(names->rng, 50) ? draw_value(&inner, draw_type(names), 1) : NULL;
        if (partition)
            partition = tree_new(names->arena, PART_CLAUSE, "partition by @0", 1, &partition);
        else
            partition = tree_new(names->arena, PART_CLAUSE, "", 0, NULL);
        partition->can_go = true;
        const char *frame = order && (form->flags & FRAMED) ? draw_frame(names, is_total) : "";
        const char *text = arena_printf(names->arena, "@0 over (@1%s%s)", order ? " order by @2" : "", frame);
        made = tree_new(names->arena, call->type, text, order ? 3 : 2, (Tree *[]){ call, partition, order });
    }
    made->is_inexact = form->flags & INEXACT;
    return made;
}
