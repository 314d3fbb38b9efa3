// gen_int.h - between the rules of a benchmark (gen_ssb.c) and the loading of its rows (gen_load.c).

#ifndef WEFT_GEN_INT_H
#define WEFT_GEN_INT_H

#include "shell/gen.h"

enum { GEN_COLUMNS_MAX = 17, GEN_TABLES_MAX = 8, GEN_BIGINT = -1 };

typedef struct WordList { const weft_text *words; int n_words; } WordList;

typedef struct GenColumn {
    const char *name;
    int         width;                 // varchar(width); 0: an integer, GEN_BIGINT: a bigint, neither below 0
    int         list;                  // of its words; 0: it has none
    bool        may_be_null;           // none ever is, but the schema allows it
} GenColumn;

// Rows on their way to the store and the file.  A cell is a number, a word's place in its list, or a text's in TEXTS.
typedef struct GenBatch {
    u32   n_rows;
    i64  *cells[GEN_COLUMNS_MAX];
    Text  texts;                       // each with its NUL
} GenBatch;

// Makes N units from number FIRST on, counted from 0.  Any thread.
typedef void GenFill(const void *rules, u64 first, u32 n, GenBatch *batch);

typedef struct GenTable {
    const char      *name;
    const GenColumn *columns;
    int              n_columns;
    GenFill         *fill;
    u64              n_units;          // what the table is counted in: rows, or orders of several rows
    u32              unit_rows_max;
    bool             is_split;         // made by all workers at once; all its texts are words
} GenTable;

typedef struct GenPlan {
    const GenTable *tables;            // in the order they are begun: first the large ones that are not split
    int             n_tables;
    const WordList *lists;             // number 0 is empty
    const void     *rules;             // for GenFill
} GenPlan;

// Random numbers out of numbers in order: the finalizer of splitmix64 (Steele, Lea, Flood 2014).
static inline u64 gen_mix(u64 x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

weft_status gen_load(const GenPlan *plan, Store *store, Pool *pool, const GenOptions *options, Error *err);

#endif
