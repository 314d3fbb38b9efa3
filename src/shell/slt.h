// slt.h - SQL tests: the parts of weft slt (see docs/shell.md for the form of the files).

#ifndef WEFT_SLT_H
#define WEFT_SLT_H

#include "shell/shell.h"

typedef enum SltSort { SLT_NOSORT, SLT_ROWSORT, SLT_VALUESORT } SltSort;

// What a query record asks for.  Everything points into the record's file.
typedef struct SltExpect {
    const char  *types;                // a letter per column: I, R or T
    SltSort      sort;
    char *const *lines;                // below ----
    int          n_lines;
} SltExpect;

// What came: the values in reading order, as text, already sorted the way the record says.
typedef struct SltValues {
    char **values;
    int    n_values, n_columns, n_rows;
    char   hash[33];                   // MD5 in the way of sqllogictest: each value and a new line
} SltValues;

void slt_values_get(const weft_result *result, const SltExpect *expect, SltValues *out);
void slt_values_free(SltValues *values);
bool slt_values_match(const SltValues *values, const SltExpect *expect);
void slt_values_print(const SltValues *values, const SltExpect *expect, FILE *out);   // in the form the record uses

#endif
