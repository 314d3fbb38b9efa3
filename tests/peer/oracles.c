// oracles.c - what must hold of Weft's answers whatever they are.
//
// Ternary logic partitioning (Rigger and Su, OOPSLA 2020): a condition is true, false or NULL of each row, so the rows
// of a query are the rows of its three parts; likewise distinct rows, sums and groups.  NoREC (the same, ESEC/FSE
// 2020): a condition in WHERE, which is pushed down, reordered and turned into joins, keeps as many rows as it is true
// for when it is computed as a value.

#define _GNU_SOURCE
#include "dialect.h"

#include <stdlib.h>

static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *print(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    return text;
}

// SELECT is repeated for each of the three values of CONDITION, TAIL after each.
static char *three_parts(const char *select, const char *condition, const char *tail, const char *set)
{
    return print("%s where %s%s %s %s where (not %s)%s %s %s where (%s is null)%s", select, condition, tail, set,
                 select, condition, tail, set, select, condition, tail);
}

static char *positions(int n)
{
    char *text = print("1");
    for (int i = 2; i <= n; i++) {
        char *longer = print("%s, %d", text, i);
        free(text);
        text = longer;
    }
    return text;
}

// "count(*), count(c0), min(c0), .." over the outputs of the items, as their types allow.
static char *aggregates_of(const Tree *items)
{
    char *text = print("count(*)");
    for (int i = 0; i < items->n_args; i++) {
        TreeType type = items->args[i]->args[0]->type;
        const char *name = strrchr(items->args[i]->form, 'c');
        char *longer = print("%s, count(%s), count(distinct %s)", text, name, name);
        free(text);
        text = longer;
        if (type != TYPE_BOOLEAN && type != TYPE_UUID) {
            longer = print("%s, min(%s), max(%s)", text, name, name);
            free(text);
            text = longer;
        }
        if (type <= TYPE_NUMERIC) {
            longer = print("%s, sum(%s)", text, name);
            free(text);
            text = longer;
        }
    }
    return text;
}

static void sums_sql(const Tree *items, const char *select, const char *condition, char **whole, char **parts)
{
    char *aggregates = aggregates_of(items), *all = three_parts(select, condition, "", "union all");
    *whole = print("select %s from (%s) as q", aggregates, select);
    *parts = print("select %s from (%s) as q", aggregates, all);
    free(aggregates);
    free(all);
}

static void groups_sql(const Tree *items, const char *list, const char *from, const char *condition, char **whole,
                       char **parts)
{
    char *keys = positions(items->n_args), *select = print("select %s, count(*) as n from %s", list, from);
    char *tail = print(" group by %s", keys), *all = three_parts(select, condition, tail, "union all");
    char *names = print("%s", strrchr(items->args[0]->form, 'c'));
    for (int i = 1; i < items->n_args; i++) {
        char *longer = print("%s, %s", names, strrchr(items->args[i]->form, 'c'));
        free(names);
        names = longer;
    }
    *whole = print("%s group by %s", select, keys);
    *parts = print("select %s, sum(n) from (%s) as q group by %s", names, all, keys);
    free(keys), free(select), free(tail), free(all), free(names);
}

void oracle_sql(const Statement *statement, char **whole, char **parts)
{
    const Tree *root = statement->root;
    char *items = tree_sql(root->args[0]), *from = tree_sql(root->args[1]), *condition = tree_sql(root->args[2]);
    char *select = print("select %s%s from %s", statement->oracle == ORACLE_DISTINCT ? "distinct " : "", items, from);
    switch (statement->oracle) {
    case ORACLE_SUMS:
        sums_sql(root->args[0], select, condition, whole, parts);
        break;
    case ORACLE_GROUPS:
        groups_sql(root->args[0], items, from, condition, whole, parts);
        break;
    case ORACLE_COUNT:
        *whole = print("select count(*) from %s where %s", from, condition);
        *parts = print("select coalesce(sum(case when %s then 1 else 0 end), 0) from %s", condition, from);
        break;
    default:
        *whole = print("%s", select);
        *parts = three_parts(select, condition, "", statement->oracle == ORACLE_DISTINCT ? "union" : "union all");
    }
    free(items), free(from), free(condition), free(select);
}
