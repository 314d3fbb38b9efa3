// dialect_rows.c - whether Weft's rows are PostgreSQL's, and what of a difference is known to be open.

#define _GNU_SOURCE
#include "dialect.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

// ---- comparing ----------------------------------------------------------------------------------------------------

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

// 1.50 is 1.5, and -0.00 is 0.
static void shorten_number(char *cell)
{
    if (!strchr(cell, '.'))
        return;
    char *end = cell + strlen(cell);
    while (end[-1] == '0')
        *--end = 0;
    if (end[-1] == '.')
        *--end = 0;
    if (!strcmp(cell, "-0"))
        strcpy(cell, "0");
}

// The items that a query puts out, also when it has been cut: those of its first SELECT.
static const Tree *items_of(const Tree *query)
{
    const Tree *first = query->args[0];
    if (begins(query->form, "with "))
        return items_of(query->args[1]);
    return first->type == PART_LIST ? first : items_of(first);
}

static bool is_ordered(const Tree *query)
{
    if (begins(query->form, "with "))
        return is_ordered(query->args[1]);
    const Tree *tail = query->args[query->n_args - 1];
    return !tail->is_gone && strstr(tail->form, "order by");
}

// What is left of terms that cancel each other is 0, and a real is told by its bits: engines may write it differently.
static void shorten_float(char **cell, const Tree *value)
{
    char text[64];
    if (value->is_inexact && fabs(strtod(*cell, NULL)) < 1e-12)
        snprintf(text, sizeof text, "0");
    else if (value->type == TYPE_REAL)
        snprintf(text, sizeof text, "%.9g", (double)strtof(*cell, NULL));
    else
        return;
    free(*cell);
    *cell = strdup(text);
}

static void shorten_numbers(const Tree *items, Rows *rows)
{
    for (size_t i = 0; i < rows->n_cells; i++) {
        const Tree *value = items->args[i % (size_t)rows->n_columns]->args[0];
        if (!rows->cells[i])
            continue;
        if (value->type == TYPE_NUMERIC && !value->is_inexact)
            shorten_number(rows->cells[i]);
        else if (value->type == TYPE_REAL || value->is_inexact)
            shorten_float(&rows->cells[i], value);
    }
}

// The columns of an oracle's texts are not the items of its statement: numbers are told by their form.
static void shorten_all(Rows *rows)
{
    for (size_t i = 0; i < rows->n_cells; i++) {
        const char *cell = rows->cells[i] ? rows->cells[i] : "";
        if (cell[strspn(cell, "-0123456789.")] == 0 && strchr(cell, '.'))
            shorten_number(rows->cells[i]);
    }
}

char *dialect_difference(const Statement *statement, Rows *ours, Rows *theirs)
{
    if (statement->oracle != ORACLE_PEER) {
        shorten_all(ours);
        shorten_all(theirs);
        return rows_difference(ours, theirs, NULL, NULL, 0);
    }
    const Tree *items = items_of(statement->root);
    bool floats[TREE_ARGS];
    int order[TREE_ARGS];
    if (ours->n_columns != items->n_args || theirs->n_columns != items->n_args)
        return rows_difference(ours, theirs, NULL, NULL, 0);
    for (int c = 0; c < items->n_args; c++) {
        const Tree *value = items->args[c]->args[0];
        floats[c] = value->type == TYPE_REAL || value->type == TYPE_DOUBLE || value->is_inexact;
        order[c] = c;
    }
    shorten_numbers(items, ours);
    shorten_numbers(items, theirs);
    return rows_difference(ours, theirs, floats, order, is_ordered(statement->root) ? items->n_args : 0);
}

// ---- what is open -------------------------------------------------------------------------------------------------

// "-0" where no other number begins so.
static bool is_negative_zero(const char *text)
{
    return text[0] == '-' && text[1] == '0' && !isalnum((unsigned char)text[2]) && text[2] != '.' && text[2] != '-';
}

static int compare_texts(const void *left, const void *right, void *n_columns)
{
    char *const *a = left, *const *b = right;
    for (int c = 0; c < *(int *)n_columns; c++) {
        const int order = !a[c] || !b[c] ? !a[c] - !b[c] : strcmp(a[c], b[c]);
        if (order)
            return order;
    }
    return 0;
}

// As text '-0' has another place in the order than '0', so rows that lost one are put in an order of their own.
static void drop_signs_of_zero(Rows *rows)
{
    for (size_t i = 0; i < rows->n_cells; i++)
        for (char *c = rows->cells[i]; c && *c; c++)
            if (is_negative_zero(c))
                memmove(c, c + 1, strlen(c));
    qsort_r(rows->cells, rows->n_rows, (size_t)rows->n_columns * sizeof *rows->cells, compare_texts, &rows->n_columns);
}

bool set_aside_zeros(const Statement *statement, const char *sql, Rows *ours, Rows *theirs)
{
    (void)statement;
    if (!strstr(sql, "min(") && !strstr(sql, "max("))
        return false;
    drop_signs_of_zero(ours);
    drop_signs_of_zero(theirs);
    return true;
}

// What is left of sums that cancel out: PostgreSQL adds floats as they come, Weft exactly.
bool set_aside_remainders(const Statement *statement, const char *sql, Rows *ours, Rows *theirs)
{
    (void)statement;
    if (!strstr(sql, "covar_") && !strstr(sql, "regr_sxy("))
        return false;
    Rows *const both[] = { ours, theirs };
    for (size_t i = 0; i < ours->n_cells + theirs->n_cells; i++) {
        char *cell = both[i >= ours->n_cells]->cells[i >= ours->n_cells ? i - ours->n_cells : i], *end;
        if (cell && fabs(strtod(cell, &end)) < 1e-6 && end != cell && !*end)
            strcpy(cell, "0");
    }
    return true;
}

typedef struct Quotient { double value; char **cell; } Quotient;

static int compare_quotients(const void *left, const void *right)
{
    const Quotient *a = left, *b = right;
    return (a->value > b->value) - (a->value < b->value);
}

static int add_quotients(Quotient *list, int n, Rows *rows, int column)
{
    for (size_t i = (size_t)column; i < rows->n_cells; i += (size_t)rows->n_columns)
        if (rows->cells[i])
            list[n++] = (Quotient){ strtod(rows->cells[i], NULL), &rows->cells[i] };
    return n;
}

// Neighbours that are no further apart than the 16th digit behind the point become the same.
static void join_quotients(Rows *ours, Rows *theirs, int column)
{
    Quotient *list = calloc(ours->n_rows + theirs->n_rows + 1, sizeof *list);
    int n = add_quotients(list, 0, ours, column);
    n = add_quotients(list, n, theirs, column);
    qsort(list, (size_t)n, sizeof *list, compare_quotients);
    for (int i = 1; i < n; i++) {
        if (list[i].value - list[i - 1].value > 1.01e-16)
            continue;
        free(*list[i].cell);
        *list[i].cell = strdup(*list[i - 1].cell);
    }
    free(list);
}

bool set_aside_digits(const Statement *statement, const char *sql, Rows *ours, Rows *theirs)
{
    (void)sql;
    const Tree *items = statement->oracle == ORACLE_PEER ? items_of(statement->root) : NULL;
    bool has_any = false;
    for (int c = 0; items && c < items->n_args && ours->n_columns == theirs->n_columns; c++) {
        const Tree *value = items->args[c]->args[0];
        if (c >= ours->n_columns || value->type != TYPE_NUMERIC || !value->is_inexact)
            continue;
        join_quotients(ours, theirs, c);
        has_any = true;
    }
    return has_any;
}
