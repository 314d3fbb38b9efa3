// compared.c - see compared.h.
//
// What is compared, and how, is drawn from the query's number; the literals from another source.  Among those are
// numbers with other digits, fractions for integers, numbers that overflow, dates that are none, empty and long texts,
// and often the one that was drawn before: rewrites take something from the equality of two constants.

#include "compared.h"

typedef struct Writer {
    const DataSet *data;
    Rng            shape, *values;
    Text           text;
    bool           is_odd;             // this text has odd literals, and many that are equal
    int            tables[2], n_tables;
    char           last[COLUMN_N][80]; // literals, by type
} Writer;

static const RandomColumn *draw_column(Writer *w, int *alias)
{
    *alias = rng_below(&w->shape, w->n_tables);
    const RandomTable *table = &w->data->tables[w->tables[*alias]];
    return &table->columns[rng_below(&w->shape, table->n_columns)];
}

static bool is_number(const RandomColumn *column) { return column->type <= COLUMN_DECIMAL; }
static bool is_integer(const RandomColumn *column) { return column->type <= COLUMN_BIGINT; }

static const char *odd_literal(Writer *w, const RandomColumn *column)
{
    static const char *const numbers[] = { "0", "7", "-3", "12345", "1.5", "-0.25", "12.345", "3000000000",
                                           "99999999999999999999", "'5'", "1e2" };
    static const char *const texts[] = { "''", "'A'", "'it''s'", "'ä'", "'a text that is longer than the others'" };
    static const char *const dates[] = { "'1995-03-01'", "'1904-01-01'", "'1995-02-30'", "'9999-12-31'", "'soon'" };
    if (is_number(column)) return numbers[rng_below(w->values, COUNT_OF(numbers))];
    if (column->type == COLUMN_TEXT) return texts[rng_below(w->values, COUNT_OF(texts))];
    return column->type == COLUMN_DATE ? dates[rng_below(w->values, COUNT_OF(dates))] : "true";
}

static void add_literal(Writer *w, const RandomColumn *column)
{
    char *last = w->last[column->type];
    if (column->type == COLUMN_DATE && rng_chance(&w->shape, 30)) text_add(&w->text, "date ");
    const int choice = w->is_odd ? rng_below(w->values, 100) : 25;
    if (choice < 8) {
        text_add(&w->text, "%s", odd_literal(w, column));
        return;
    }
    if (choice >= 25 || !*last) column_literal(column, rng_below(w->values, column->n_distinct), IN_WEFT, last, 80);
    text_add(&w->text, "%s", last);
}

static void add_list(Writer *w, const RandomColumn *column)
{
    const int n = rng_between(&w->shape, 1, 4);
    text_add(&w->text, "(");
    for (int i = 0; i < n; i++) {
        if (i) text_add(&w->text, ", ");
        add_literal(w, column);
    }
    text_add(&w->text, ")");
}

static void add_test(Writer *w)
{
    static const char *const ops[] = { "=", "=", "=", "<>", "<", "<=", ">", ">=" };
    int                 alias;
    const RandomColumn *column = draw_column(w, &alias);
    const char         *op = ops[rng_below(&w->shape, COUNT_OF(ops))];
    const int           form = rng_below(&w->shape, 12);
    char                name[40];
    snprintf(name, sizeof name, form == 10 && is_integer(column) ? "(x%d.%s %% 7)" : "x%d.%s", alias, column->name);
    if (column->type == COLUMN_BOOLEAN) {
        text_add(&w->text, "%s is not %s", name, form % 2 ? "true" : "null");
    } else if (form < 2) {
        text_add(&w->text, form ? "%s not in " : "%s in ", name);
        add_list(w, column);
    } else if (form < 5) {
        text_add(&w->text, form == 2 ? "%s not between " : "%s between ", name);
        add_literal(w, column);
        text_add(&w->text, " and ");
        add_literal(w, column);
    } else if (form == 6 && column->type == COLUMN_TEXT) {
        static const char *const patterns[] = { "a%", "%b", "_%", "%", "", "%a%b%", "A%", "\\%", "no \\" };
        text_add(&w->text, rng_chance(&w->shape, 30) ? "%s not like '%s'" : "%s like '%s'", name,
                 patterns[rng_below(w->values, COUNT_OF(patterns))]);
    } else if (form == 5) {
        add_literal(w, column);
        text_add(&w->text, " %s %s", op, name);
    } else {
        text_add(&w->text, "%s %s ", name, op);
        add_literal(w, column);
    }
}

static void add_condition(Writer *w, int depth)
{
    const int form = depth ? rng_below(&w->shape, 10) : 9;
    if (form >= 8) {
        add_test(w);
    } else if (form == 7) {
        text_add(&w->text, "not (");
        add_condition(w, depth - 1);
        text_add(&w->text, ")");
    } else {
        const int n = rng_between(&w->shape, 2, 3);
        text_add(&w->text, "(");
        for (int i = 0; i < n; i++) {
            if (i) text_add(&w->text, form < 4 ? " and " : " or ");
            add_condition(w, depth - 1);
        }
        text_add(&w->text, ")");
    }
}

// The same tests in several branches of an OR, whose constants may be equal or not.
static void add_branches(Writer *w)
{
    const Rng start = w->shape;
    for (int i = 0; i < 3; i++) {
        w->shape = start;
        text_add(&w->text, i ? " or (" : "((");
        add_test(w);
        text_add(&w->text, " and ");
        add_test(w);
        text_add(&w->text, ")");
    }
    text_add(&w->text, ")");
}

static void add_where(Writer *w)
{
    if (rng_chance(&w->shape, 25)) add_branches(w);
    else add_condition(w, 2);
}

// "x0.a = x1.b", of integers; any two are of some use.
static void add_equality(Writer *w)
{
    const char *names[2] = { NULL, NULL };
    for (int t = 0; t < 2; t++) {
        const RandomTable *table = &w->data->tables[w->tables[t]];
        for (int c = 0; c < table->n_columns; c++)
            if (is_integer(&table->columns[c]) && (!names[t] || rng_chance(&w->shape, 40)))
                names[t] = table->columns[c].name;
    }
    if (names[0] && names[1]) text_add(&w->text, "x0.%s = x1.%s and ", names[0], names[1]);
}

static void add_from(Writer *w, int form)
{
    const char *first = w->data->tables[w->tables[0]].name, *second = w->data->tables[w->tables[1]].name;
    if (form < 4) text_add(&w->text, " from %s x0 where ", first);
    if (form == 4 || form == 5) text_add(&w->text, " from %s x0, %s x1 where ", first, second);
    if (form == 4 || form == 5) add_equality(w);
    if (form == 6 || form == 7) {
        text_add(&w->text, " from %s x0 %sjoin %s x1 on ", first, form == 6 ? "left " : "", second);
        add_equality(w);
        add_condition(w, 1);
        text_add(&w->text, " where ");
    }
    if (form == 8 || form == 9) {
        text_add(&w->text, " from %s x0 where %sexists (select 1 from %s x1 where ", first, form == 8 ? "" : "not ",
                 second);
        add_equality(w);
        add_condition(w, 1);
        text_add(&w->text, ") and ");
        w->n_tables = 1;
    }
}

static void add_query(Writer *w)
{
    const int form = rng_below(&w->shape, 10), shown = rng_below(&w->shape, 4);
    w->tables[0] = rng_below(&w->shape, w->data->n_tables);
    w->tables[1] = rng_below(&w->shape, w->data->n_tables);
    const RandomTable *table = &w->data->tables[w->tables[0]];
    const char        *a = table->columns[rng_below(&w->shape, table->n_columns)].name,
                      *b = table->columns[rng_below(&w->shape, table->n_columns)].name;
    w->n_tables = form < 4 ? 1 : 2;
    if (shown == 0) text_add(&w->text, "select count(*), min(x0.%s), max(x0.%s)", a, b);
    if (shown == 1) text_add(&w->text, "select x0.%s, x0.%s, count(*)", a, b);
    if (shown == 2) text_add(&w->text, "select x0.*");
    if (shown == 3) text_add(&w->text, "select distinct x0.%s as k, x0.%s as l", a, b);
    add_from(w, form);
    add_where(w);
    if (shown == 1) text_add(&w->text, " group by x0.%s, x0.%s", a, b);
    if (shown == 1 && rng_chance(&w->shape, 30))
        text_add(&w->text, " having count(*) > %d and x0.%s is not null", rng_below(w->values, 4), a);
}

char *compared_sql(Arena *arena, const DataSet *data, uint64_t number, Rng *values)
{
    Writer writer = { .data = data, .shape = rng_from(data->seed, 77, number), .values = values };
    writer.is_odd = rng_chance(values, 40);
    add_query(&writer);
    if (rng_chance(&writer.shape, 10)) {
        text_add(&writer.text, " union all ");
        writer.shape = rng_from(data->seed, 77, number);
        add_query(&writer);
    }
    return text_keep(arena, &writer.text);
}
