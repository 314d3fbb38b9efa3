// rows.c - rows of text from any engine, and whether two answers are the same.
//
// Answers are compared as multisets: both sides are sorted by one order of ours and then read in step.  Floating point
// columns sort last, numerically, and as equal when they are close, so that two sums which differ in the last bit do
// not tear rows apart that belong together.

#define _GNU_SOURCE
#include "peer.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rows_start(Rows *rows, int n_columns)
{
    *rows = (Rows){ .n_columns = n_columns };
    rows->names = calloc((size_t)n_columns + 1, sizeof(char *));
}

void rows_name(Rows *rows, int column, const char *name)
{
    free(rows->names[column]);
    rows->names[column] = strdup(name ? name : "");
}

void rows_push(Rows *rows, const char *cell)
{
    if (rows->n_cells == rows->capacity) {
        rows->capacity = rows->capacity ? rows->capacity * 2 : 64;
        rows->cells = realloc(rows->cells, rows->capacity * sizeof(char *));
    }
    rows->cells[rows->n_cells++] = cell ? strdup(cell) : NULL;
    rows->n_rows = rows->n_cells / (size_t)rows->n_columns;
}

void rows_free(Rows *rows)
{
    for (size_t i = 0; i < rows->n_cells; i++)
        free(rows->cells[i]);
    for (int c = 0; c < rows->n_columns && rows->names; c++)
        free(rows->names[c]);
    free(rows->cells);
    free(rows->names);
    *rows = (Rows){ 0 };
}

static void print_row(FILE *out, const Rows *rows, size_t row)
{
    for (int c = 0; c < rows->n_columns; c++) {
        const char *cell = rows_cell(rows, row, c);
        fprintf(out, "%s%s", c ? " | " : "", cell ? cell : "NULL");
    }
}

void rows_print(const Rows *rows, size_t at_most)
{
    for (size_t r = 0; r < rows->n_rows && r < at_most; r++) {
        printf("      ");
        print_row(stdout, rows, r);
        printf("\n");
    }
    if (rows->n_rows > at_most)
        printf("      ... %zu more\n", rows->n_rows - at_most);
}

// ---- comparing ----------------------------------------------------------------------------------------------------

typedef struct RowOrder { const Rows *rows; const bool *is_float; } RowOrder;

// Where the terms of a sum cancel, an engine that rounds on the way is left with another remainder, as 0 and -5e-20.
static bool are_close(double x, double y)
{
    if (!isfinite(x) || !isfinite(y))
        return x == y || (isnan(x) && isnan(y));
    return fabs(x - y) <= fmax(1e-15, 1e-9 * fmax(fabs(x), fabs(y)));
}

static int compare_cells(const char *a, const char *b, bool is_float)
{
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    if (!is_float)
        return strcmp(a, b);
    double x = strtod(a, NULL), y = strtod(b, NULL);
    if (isnan(x) || isnan(y))
        return !!isnan(x) - !!isnan(y);
    return are_close(x, y) ? 0 : (x > y) - (x < y);
}

static int compare_rows(const void *left, const void *right, void *context)
{
    const RowOrder *order = context;
    size_t a = *(const size_t *)left, b = *(const size_t *)right;
    for (int floats = 0; floats < 2; floats++) {
        for (int c = 0; c < order->rows->n_columns; c++) {
            bool is_float = order->is_float && order->is_float[c];
            if (is_float != (bool)floats)
                continue;
            int found = compare_cells(rows_cell(order->rows, a, c), rows_cell(order->rows, b, c), is_float);
            if (found)
                return found;
        }
    }
    return 0;
}

static size_t *sorted_rows(const Rows *rows, const bool *is_float)
{
    size_t *index = malloc((rows->n_rows + 1) * sizeof(size_t));
    for (size_t i = 0; i < rows->n_rows; i++)
        index[i] = i;
    RowOrder order = { rows, is_float };
    qsort_r(index, rows->n_rows, sizeof(size_t), compare_rows, &order);
    return index;
}

static bool cells_agree(const char *a, const char *b, bool is_float)
{
    if (!a || !b)
        return a == b;
    if (!is_float)
        return strcmp(a, b) == 0;
    char *a_end, *b_end;
    double x = strtod(a, &a_end), y = strtod(b, &b_end);
    if (a_end == a || b_end == b || *a_end || *b_end)
        return false;                  // not a number at all: "true" is no answer to avg()
    return are_close(x, y);
}

static char *describe(const char *what, const Rows *ours, size_t our_row, const Rows *theirs, size_t their_row)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "%s\n      ours:   ", what);
    if (our_row < ours->n_rows)
        print_row(out, ours, our_row);
    fprintf(out, "\n      theirs: ");
    if (their_row < theirs->n_rows)
        print_row(out, theirs, their_row);
    fclose(out);
    return text;
}

static char *multiset_difference(const Rows *ours, const Rows *theirs, const bool *is_float)
{
    size_t *a = sorted_rows(ours, is_float), *b = sorted_rows(theirs, is_float);
    size_t n_common = ours->n_rows < theirs->n_rows ? ours->n_rows : theirs->n_rows;
    char *found = NULL;
    for (size_t i = 0; i < n_common && !found; i++)
        for (int c = 0; c < ours->n_columns && !found; c++)
            if (!cells_agree(rows_cell(ours, a[i], c), rows_cell(theirs, b[i], c), is_float && is_float[c]))
                found = describe("first row that differs, both sides sorted:", ours, a[i], theirs, b[i]);
    if (!found && ours->n_rows != theirs->n_rows)
        found = describe("one side has more rows, the first of them:",
                         ours, n_common < ours->n_rows ? a[n_common] : SIZE_MAX,
                         theirs, n_common < theirs->n_rows ? b[n_common] : SIZE_MAX);
    free(a);
    free(b);
    return found;
}

static char *order_difference(const Rows *ours, const Rows *theirs, const bool *is_float, const int *keys, int n_keys)
{
    for (size_t r = 0; r < ours->n_rows; r++)
        for (int k = 0; k < n_keys; k++)
            if (!cells_agree(rows_cell(ours, r, keys[k]), rows_cell(theirs, r, keys[k]), is_float && is_float[keys[k]]))
                return describe("the same rows, but in a different order, first seen at:", ours, r, theirs, r);
    return NULL;
}

char *rows_difference(const Rows *ours, const Rows *theirs, const bool *is_float, const int *keys, int n_keys)
{
    char *found = NULL;
    if (ours->n_columns != theirs->n_columns) {
        if (asprintf(&found, "%d columns against %d", ours->n_columns, theirs->n_columns) < 0)
            abort();
        return found;
    }
    found = multiset_difference(ours, theirs, is_float);
    if (!found)
        found = order_difference(ours, theirs, is_float, keys, n_keys);
    if (found && ours->n_rows != theirs->n_rows) {
        char *both;
        if (asprintf(&both, "%zu rows against %zu; %s", ours->n_rows, theirs->n_rows, found) < 0)
            abort();
        free(found);
        found = both;
    }
    return found;
}
