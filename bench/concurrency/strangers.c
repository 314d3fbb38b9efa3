// strangers.c - queries of shapes that no other query has: other columns, other groupings, other aggregates.
//
// Two or three aggregates over expressions of lineorder's columns, filters on some of its columns, up to three
// dimensions joined, filtered and grouped by.  Constants are drawn, too, but two of these queries never differ in
// constants alone, so each needs kernel text, and code, of its own.

#define _GNU_SOURCE
#include "concurrency.h"

#include <stdlib.h>
#include <string.h>

enum { N_DIMENSIONS = 4, MOST_COLUMNS = 5 };

// A column to filter or group by.  Texts: LOW and HIGH are NULL and VALUES are drawn from; numbers: a range.
typedef struct Choice { const char *name; int low, high; const char *values[MOST_COLUMNS]; } Choice;

typedef struct Dimension { const char *table, *join; Choice columns[MOST_COLUMNS]; } Dimension;

static const Dimension DIMENSIONS[N_DIMENSIONS] = {
    { "date", "lo_orderdate = d_datekey",
      { { "d_year", 1992, 1998, { NULL } }, { "d_monthnuminyear", 1, 12, { NULL } },
        { "d_weeknuminyear", 1, 52, { NULL } }, { "d_daynuminweek", 1, 7, { NULL } },
        { "d_sellingseason", 0, 0, { "Winter", "Spring", "Summer", "Fall", "Christmas" } } } },
    { "customer", "lo_custkey = c_custkey",
      { { "c_region", 0, 0, { "AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST" } },
        { "c_nation", 0, 0, { "BRAZIL", "CHINA", "FRANCE", "KENYA", "PERU" } },
        { "c_mktsegment", 0, 0, { "AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD" } },
        { "c_custkey % 7", 0, 6, { NULL } }, { "c_custkey % 10", 0, 9, { NULL } } } },
    { "supplier", "lo_suppkey = s_suppkey",
      { { "s_region", 0, 0, { "AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST" } },
        { "s_nation", 0, 0, { "BRAZIL", "CHINA", "FRANCE", "KENYA", "PERU" } },
        { "s_suppkey % 3", 0, 2, { NULL } }, { "s_suppkey % 5", 0, 4, { NULL } },
        { "s_suppkey % 8", 0, 7, { NULL } } } },
    { "part", "lo_partkey = p_partkey",
      { { "p_mfgr", 0, 0, { "MFGR#1", "MFGR#2", "MFGR#3", "MFGR#4", "MFGR#5" } },
        { "p_category", 0, 0, { "MFGR#11", "MFGR#22", "MFGR#33", "MFGR#44", "MFGR#55" } },
        { "p_size", 1, 50, { NULL } },
        { "p_container", 0, 0, { "SM BOX", "LG CASE", "MED BAG", "WRAP JAR", "JUMBO PKG" } },
        { "p_partkey % 9", 0, 8, { NULL } } } },
};

static const Choice MEASURES[] = {
    { "lo_quantity", 1, 50, { NULL } },          { "lo_discount", 0, 10, { NULL } },
    { "lo_tax", 0, 8, { NULL } },                { "lo_linenumber", 1, 7, { NULL } },
    { "lo_extendedprice", 90000, 5000000, { NULL } }, { "lo_revenue", 80000, 5000000, { NULL } },
    { "lo_supplycost", 50000, 120000, { NULL } },
};

static const Choice *draw_measure(uint64_t *state)
{
    return &MEASURES[draw_between(state, 0, COUNT(MEASURES) - 1)];
}

// ---- parts of a query ----------------------------------------------------------------------------------------------

static void put_aggregates(FILE *out, uint64_t *state)
{
    static const char *const NAMES[] = { "sum", "min", "max", "sum", "count" };
    int n = draw_between(state, 2, 3);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s%s(%s", i ? ", " : "", NAMES[draw_between(state, 0, COUNT(NAMES) - 1)],
                draw_measure(state)->name);
        for (int terms = draw_between(state, 0, 3); terms > 0; terms--)
            fprintf(out, " %c %s", "+-"[draw_between(state, 0, 1)], draw_measure(state)->name);
        fputs(")", out);
    }
}

static void put_test(FILE *out, const Choice *column, uint64_t *state)
{
    if (column->values[0]) {
        int first = draw_between(state, 0, MOST_COLUMNS - 1);
        if (draw_between(state, 0, 1))
            fprintf(out, "%s = '%s'", column->name, column->values[first]);
        else
            fprintf(out, "%s in ('%s', '%s')", column->name, column->values[first],
                    column->values[(first + 1) % MOST_COLUMNS]);
        return;
    }
    int width = column->high - column->low, low = column->low + draw_between(state, 0, width / 2);
    switch (draw_between(state, 0, 2)) {
    case 0:  fprintf(out, "%s between %d and %d", column->name, low, low + width / 3); break;
    case 1:  fprintf(out, "%s <= %d", column->name, column->low + draw_between(state, width / 3, width)); break;
    default: fprintf(out, "%s > %d", column->name, low); break;
    }
}

// From 1 to 3 dimensions, as bits.
static int draw_dimensions(uint64_t *state)
{
    int chosen = 0, n = draw_between(state, 1, 3);
    while (__builtin_popcount((unsigned)chosen) < n)
        chosen |= 1 << draw_between(state, 0, N_DIMENSIONS - 1);
    return chosen;
}

static char *draw_stranger(uint64_t *state)
{
    char *sql = NULL, groups[200] = "";
    size_t length, at = 0;
    FILE *out = open_memstream(&sql, &length);
    int dimensions = draw_dimensions(state);
    for (int d = 0; d < N_DIMENSIONS; d++)
        if (dimensions & 1 << d && draw_between(state, 0, 2))
            at += (size_t)snprintf(groups + at, sizeof groups - at, "%s%s", at ? ", " : "",
                                   DIMENSIONS[d].columns[draw_between(state, 0, MOST_COLUMNS - 1)].name);
    fprintf(out, "select %s%s", groups, at ? ", " : "");
    put_aggregates(out, state);
    fputs("\nfrom lineorder", out);
    for (int d = 0; d < N_DIMENSIONS; d++)
        if (dimensions & 1 << d)
            fprintf(out, ", %s", DIMENSIONS[d].table);
    fputs("\nwhere ", out);
    put_test(out, draw_measure(state), state);
    for (int d = 0; d < N_DIMENSIONS; d++)
        if (dimensions & 1 << d) {
            fprintf(out, "\nand %s and ", DIMENSIONS[d].join);
            put_test(out, &DIMENSIONS[d].columns[draw_between(state, 0, MOST_COLUMNS - 1)], state);
        }
    if (at)
        fprintf(out, "\ngroup by %s\norder by %s", groups, groups);
    fclose(out);
    return sql;
}

char **draw_strangers(int n, uint64_t seed)
{
    uint64_t state = seed;
    char **queries = calloc((size_t)n, sizeof *queries);
    TextSet *seen = text_set_new();
    for (int i = 0; i < n;) {
        queries[i] = draw_stranger(&state);
        if (text_set_add(seen, queries[i], true))
            i++;
        else
            free(queries[i]);
    }
    text_set_free(seen);
    return queries;
}
