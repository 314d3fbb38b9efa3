// gen_int.h - between the rules of a benchmark (gen_ssb.c, gen_tpch.c) and the loading of its rows (gen_load.c), and
// what the benchmarks have in common.

#ifndef WEFT_GEN_INT_H
#define WEFT_GEN_INT_H

#include "shell/gen.h"

enum { GEN_COLUMNS_MAX = 17 };

// Columns that are not text, in place of a width.
enum {
    GEN_INTEGER = 0,
    GEN_BIGINT = -1,
    GEN_MONEY = -2,                    // decimal(15,2); its cells are cents
    GEN_QUANTITY = -3,                 // the same, always whole: 17.00 in the table, 17 in the file, as dbgen writes it
    GEN_DATE = -4                      // its cells are days since 1970-01-01
};

typedef struct WordList { const weft_text *words; int n_words; } WordList;

typedef struct GenColumn {
    const char *name;
    int         width;                 // varchar(width), or GEN_INTEGER and so on.  Only money may be below 0
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
    bool             is_split;         // made by all workers at once
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

// Adds a text to the batch and returns the cell that stands for it.
static inline i64 gen_add_text(GenBatch *batch, const char *bytes, size_t length)
{
    i64 cell = (i64)batch->texts.length;
    text_add_bytes(&batch->texts, bytes, length);
    text_add_bytes(&batch->texts, "", 1);
    return cell;
}

// Makes the tables and files of PLAN, all or nothing: see gen_ssb.
weft_status gen_load(const GenPlan *plan, Store *store, Pool *pool, const GenOptions *options, Error *err);

// ---- what TPC-H has, and SSB after it -------------------------------------------------------------------------------

enum {
    GEN_REGIONS = 5, GEN_NATIONS = 25, GEN_COLORS = 92, GEN_TYPES = 150, GEN_CONTAINERS = 40,
    GEN_SEGMENTS = 5, GEN_PRIORITIES = 5, GEN_SHIP_MODES = 7
};

typedef struct GenNation { const char *name; int region; } GenNation;

extern const char        gen_alphabet[65];                  // 64 characters for addresses
extern const char *const gen_regions[GEN_REGIONS];
extern const GenNation   gen_nations[GEN_NATIONS];
extern const char *const gen_colors[GEN_COLORS];
extern const char *const gen_segments[GEN_SEGMENTS];
extern const char *const gen_priorities[GEN_PRIORITIES];
extern const char *const gen_ship_modes[GEN_SHIP_MODES];

const char *gen_type(Arena *arena, int number);             // 0 to GEN_TYPES - 1
const char *gen_container(Arena *arena, int number);        // 0 to GEN_CONTAINERS - 1

// Word NUMBER of a list, counted from 0; it lives as long as the arena.
typedef const char *GenWord(Arena *arena, int list, int number);

WordList gen_make_list(Arena *arena, int list, int n_words, GenWord *word_of);

// In cents.
static inline i64 gen_part_price(i64 part)
{
    return 90000 + part / 10 % 20001 + part % 1000 * 100;
}

// Key of order NUMBER, counted from 1: the first eight of every 32 keys are used.
static inline i64 gen_order_key(u64 number)
{
    return (i64)(number >> 3 << 5 | (number & 7));
}

// A third of the customers never buys: the neighbour of such a one does.
static inline i64 gen_buyer(i64 customer, i64 n_customers)
{
    if (customer % 3 == 0)
        customer += customer < n_customers ? 1 : -1;
    return customer;
}

#endif
