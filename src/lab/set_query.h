// set_query.h - the table of the Set Query benchmark (O'Neil, 1993): 13 whole-number columns.
//
// KSEQ counts from 1.  Kn has the values 1 to n, all equally likely; K500K and so on have 500,000 and so on.  A value
// is a hash of seed, row and column, so any part of the table can be made by any thread and is the same everywhere.

#ifndef WEFT_LAB_SET_QUERY_H
#define WEFT_LAB_SET_QUERY_H

#include "base/base.h"

enum { SET_QUERY_COLUMNS = 13, SET_QUERY_ROWS = 10000000 };

typedef struct SetQueryColumn { const char *name; u32 n_values; } SetQueryColumn;   // 0: KSEQ

extern const SetQueryColumn set_query_columns[SET_QUERY_COLUMNS];
int set_query_column(const char *name);                     // -1: there is none
i32 set_query_value(u64 seed, u64 row, int column);         // rows count from 0

// The seven SQLs, from bench/setquery/queries.
typedef struct SetQuerySql { const char *title, *text; } SetQuerySql;
enum { SET_QUERY_SQLS = 7 };
extern const SetQuerySql set_query_sqls[SET_QUERY_SQLS];

#endif
