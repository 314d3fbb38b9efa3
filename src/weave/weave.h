// weave.h - the operators of a pipeline as one kernel text, and the recipe that feeds it.
//
//     WeaveJob job = { source, steps, n_steps, SINK_GROUPS, ... };
//     TRY(weave(arena, &job, &woven, err));            // woven->text goes to the jit, the rest to the device
//
// Everything that is not the shape of the work is kept out of the text: literals, ranges, sizes and offsets are
// parameters
// (woven->params), so queries that differ only in constants get the same text, byte for byte.
// What statistics and built tables prove decides the shape: widths, checks, direct or hash tables, array or hash
// groups.

#ifndef WEFT_WEAVE_H
#define WEFT_WEAVE_H

#include "plan/plan.h"

// ---- where rows come from -------------------------------------------------------------------------------------------

// A column whose values need 128 bits is two here, of a word each, number = high * 2^64 + low with both words signed:
// the high words have the column's id, the low words this one, which no column of the plan has.  So sources, join
// tables and what lies between kernels know only words.  Steps and sinks that hand such values on are given both words
// by name (plan/words.c).
static inline int weave_low_id(int column) { return -1 - column; }

typedef struct SourceColumn {
    int         id;                    // which column of the plan this is; below 0: see weave_low_id
    const char *name;
    Type        type;
    Dictionary *dict;                  // text
    u32         dict_count;
    u8          width;                 // bytes per value in every chunk, 0: they differ
    Range       range;
} SourceColumn;

typedef struct KeptRows KeptRows;              // rows that stayed in the memory of a device (engine/stored.c)

typedef struct Source {                // a table snapshot, or the rows another kernel left
    const char    *name;
    int            n_columns;
    SourceColumn  *columns;
    int            n_chunks;
    const Chunk  **chunks;
    const int     *chunk_column;       // source column -> column number in the chunks
    u64            n_rows;
    bool           from_store;         // chunks are to be checked (chunk_verify) before they are read
    KeptRows          *kept;               // not NULL: columns have no data here until they are fetched
} Source;

// ---- tables to probe ------------------------------------------------------------------------------------------------

typedef enum TableShape {
    SHAPE_BITS,    // a bit per key (a byte where few keys: quicker): only whether there is a match matters
    SHAPE_DIRECT,  // unique keys; the first payload is found by key, stored + 1, 0: no match
    SHAPE_HEADS,   // row + 1 by key, 0: no match; payloads by row
    SHAPE_HASH     // slots; payloads by row
} TableShape;

typedef struct JoinKey {
    Type        type;
    Dictionary *dict;                  // text: the probing side's codes are mapped to these
    u32         dict_count;
    i64 low, high;  // that the table covers: the built rows, and the probing column where that costs little
    i64         zone_low, zone_high;   // of the built rows
    u64         stride;                // of this key in the one-word key: word = sum of (key - low) * stride
} JoinKey;

typedef struct Payload {
    int         id;                    // of its column in the plan
    int         number;                // in the build pipeline's list
    const char *name;
    Type        type;
    Dictionary *dict;
    u32         dict_count;
    Range       range;                 // of the built rows
    u8          width;                 // bytes per stored code; floats: 8, raw
    i64         base;                  // value = base + code, or
    const i64  *decode;                // value = decode[code], n_codes of them, where values were renumbered densely
    u64         n_codes;               // codes are below this; floats: 0
    u64         null_code;             // == n_codes - 1 where the payload can be NULL and has no valid
    const u64 *valid;  // can be NULL, and no code is free to say so (floats, 63 bits or more): a bit per row (key)
    const void *data;
    size_t      bytes, valid_bytes;    // of data and of valid; no valid: 0
} Payload;

// Rows of a dimension with the same values in all columns that queries look at are of one kind (engine/kinds.h).
typedef struct Kinds {
    u64        id;                     // no others of this process have it
    i64        low;                    // the first key
    u64        size;                   // of the keys' range
    const u16 *kind_of;                // by key - low; 0: no row has the key
    int        n_kinds;                // 0 counted in
    const u32 *n_rows;                 // by kind; of 0: keys without a row
} Kinds;

// A part of a join table that is made when it is first asked for: in a crowd most tables by kinds are never read by
// key.
typedef struct LatePart LatePart;
struct LatePart { const void *(*get)(LatePart *part); };       // any thread; NULL: no memory

typedef struct Remote Remote;          // a join table that a device made in its own memory (engine/remote.h)

typedef struct JoinTable {
    u64               id;              // no other table of this process has it: devices keep copies by it
    const char       *name;            // of the relation scanned to build it
    TableShape        shape;
    bool              is_bytes;        // bits: a byte per key
    bool              is_unique;       // else rows of equal key are chained through next
    int               n_keys;
    JoinKey          *keys;
    bool              is_one_word;     // the key fits one word (a single key always does)
    u64               span;            // of the one-word key: it is below this (bits, direct, heads, filter)
    u64               n_rows, n_distinct, max_chain;
    u64               n_scanned;       // rows of the relation it was built from
    int               n_payloads;
    Payload          *payloads;
    const void       *slots;           // bits, heads or KernelSlots by shape
    u64               mask;            // hash
    const u64        *words;           // hash, several words: n_keys per row
    const u8         *filter;          // hash of one key, which is a number: a bit for each that occurs; NULL: none
    const u32        *next;            // row + 1 of the next row with this key, 0: last
    size_t            bytes;
    Remote *remote;  // not NULL: all of it that has an address is there, and NULL here until it is fetched
    const Kinds      *kinds;           // of the rows it was built from; NULL: not known
    const u32        *code_of_kind;    // with kinds: 1, or the first payload's code + 1; 0: not in the table
    const u32        *kinds_in;        // the kinds whose code is not 0, each once: most tables have few of all kinds
    u64               n_kinds_in;
    LatePart         *late;            // with kinds: makes slots, or the payload's data, which are NULL here; or NULL
} JoinTable;

// ---- the job --------------------------------------------------------------------------------------------------------

// What becomes of a row that is looked up in a table.  A match is a built row of equal key for which the residual is
// true; a key that is
// NULL has none.
typedef enum ProbeKind {
    PROBE_INNER,                       // the row goes on once per match
    PROBE_LEFT,                        // once per match, or once with NULL in all columns of the table
    PROBE_SEMI,                        // once, if there is a match
    PROBE_ANTI,                        // once, if there is none
    PROBE_SINGLE,                      // as LEFT, but a second match is an error (WEFT_CARDINALITY)
    PROBE_MARK                         // once, with a boolean that says whether there is a match
} ProbeKind;

typedef struct WeaveStep {             // one of three
    const Expr      *filter;           // a condition that rows must meet

    const JoinTable *table;            // a table to probe
    Expr *const     *keys;             // as many as the table has; none: every row matches every built row (cross join)
    ProbeKind        probe;
    const Expr      *residual;         // a condition on a row and a built row of equal key; NULL: none
    int              mark;             // PROBE_MARK: the column that says whether there is a match, never NULL

    const Expr      *value;            // a value to name: from here on the column LET stands for it
    int              let;
} WeaveStep;

enum { NOTE_NOTHING, NOTE_RANGE, NOTE_VALUES };        // its range and whether there are NULLs; and which values occur

typedef struct WeaveJob {
    const Source    *source;
    int              n_steps;
    const WeaveStep *steps;            // in order; simple filters at the start may be regrouped
    SinkKind         sink;             // SINK_TABLE and SINK_ROWS both write rows: the table is made of them afterwards
    int              n_keys;           // groups
    Expr *const     *keys;
    int              n_aggs;
    const Agg       *aggs;
    Expr            *weight;           // of groups: how many rows a row stands for, in counts; NULL: it is one
    double           n_groups;         // so many are expected
    u64              array_bytes;      // an array of many groups may take so much of each thread; 0: it may not be
    int              n_outputs;        // rows
    Expr *const     *outputs;
    const u8        *notes;            // by output: what a device is to find out about it (NOTE_...); NULL: nothing
    Team             team;             // for loops over dictionaries: who takes part, and what ends them
    Budget          *budget;           // for texts that are made; NULL: not counted
} WeaveJob;

// ---- what comes out -------------------------------------------------------------------------------------------------

typedef enum ParamKind {
    PARAM_VALUE,                       // value
    PARAM_RANGE_LOW,                   // value, as stored in column's chunk, clipped: the low end of a range test
    PARAM_RANGE_SPAN,                  // high end (value) - low end (other), as stored
    PARAM_OFFSET                       // base of column's chunk - value: from stored to distance from a value
} ParamKind;

typedef struct Param {
    ParamKind kind;
    i64       value, other;
    int       column;                  // kernel column
    bool      is_sieved;               // only tests look at it that a sieve can stand in for (UNSURE)
} Param;

typedef struct ZoneTest {
    int column;
    i64 low, high;
} ZoneTest;  // source column: a chunk outside holds no row for us

// What a row must satisfy in one stored column to matter here: a range, or a match in a table.  Necessary, not
// sufficient: the
// kernel tests again.  Queries that share a scan look at all their sieves together (engine/sieve.c).
typedef struct Sieve {
    int              column;           // source column
    i64              low, high;
    const JoinTable *table;            // NULL: the range alone
    bool             is_exact;         // the kernel skips its own test where this one was made (UNSURE)
    double           pass;             // share of rows expected to pass, as far as weaving knows
} Sieve;

typedef struct Check { weft_status status; int at; const char *message; } Check;

typedef enum SlotKind {                // how two workers' accumulators are merged
    SLOT_OUT, SLOT_SEEN, SLOT_ADD, SLOT_MIN, SLOT_MAX, SLOT_MIN_F64, SLOT_MAX_F64,
    SLOT_WIDE_LOW, SLOT_WIDE_HIGH,     // the high word is always the next slot
    SLOT_MIN_WIDE, SLOT_MAX_WIDE,      // the high word of an extreme of 128 bits, of which the next slot,
    SLOT_EXTREME_LOW                   // is the low word
} SlotKind;

typedef struct StateSlot { SlotKind kind; u8 bytes; u64 init; } StateSlot;       // per group, or per output row

typedef enum GroupKind { GROUP_ONE, GROUP_ARRAY, GROUP_HASH } GroupKind;

#define GROUP_PLACES_MOST 8            // of a large array, for each group that is expected (sink.c)

typedef struct GroupKey {
    Type        type;
    Dictionary *dict;
    i64         base;                  // value = base + code, or decode[code]; code == null_code: NULL
    const i64  *decode;
    u64         n_codes, stride;       // one-word keys: code = word / stride % n_codes
    bool        nullable;
    u64         null_code;
} GroupKey;

typedef struct AggState {              // -1: not there
    int         sum, high;             // value, and the high word of a 128-bit sum or extreme
    int         upper;                 // sum of numbers of 128 bits: slot of the sum of their upper words, of 128 bits
    int n_parts;  // sum of floats: slots from sum on, part p in multiples of 2^(unit + p * digits); else 0
    int         digits, unit;
    int special;  // sum of floats: counts infinities and NaNs, the slot after it -infinities and NaNs
    int         count;                 // number of non-NULL inputs
    bool        is_float, is_rank;     // min and max of text work on ranks in dict
    Dictionary *dict;
    u32         dict_count;
} AggState;

typedef struct OutColumn {
    int         value, null;           // state slots; null -1: never NULL
    Type        type;
    bool        is_float;
    Dictionary *dict;
    u32         dict_count;
    Range       range;
} OutColumn;

typedef struct WovenStep {             // for EXPLAIN ANALYZE, by counter
    const char *what;
    int         at_step;
    double      pass;                  // share of all rows that is expected to be left
} WovenStep;

typedef struct WovenTable {            // what a device with memory of its own must know to copy a table
    size_t bytes;
    u64    owner;                      // id of the join table it is part of; 0: made for this kernel
    int    number;                     // which part: with owner, the same bytes for ever
    LatePart *late;                    // makes it when it is asked for; NULL: it is there, or a device made it
} WovenTable;

enum {
    TABLE_SLOTS,
    TABLE_WORDS,
    TABLE_NEXT,
    TABLE_FILTER,
    TABLE_PAYLOADS
};  // parts of a join table; a payload has three numbers: data, valid, decode

typedef struct Ir Ir;                  // the kernel as structs (ir.h)

typedef struct Woven {
    const char   *name, *text;
    const Ir     *ir;                          // what the text was printed from; NULL: it was not woven
    int           n_columns, *columns;         // kernel column -> source column
    double *column_pass;  // by kernel column: the share of rows that is expected to be left where it is loaded
    int           n_params;
    Param        *params;
    int           n_tables;
    const void  **tables;
    u64           sieved_tables;               // of the first 64: those that only such tests look at
    int           n_table_facts;               // == n_tables
    WovenTable   *table_facts;
    int           n_checks;
    Check        *checks;
    int           n_zones;
    ZoneTest     *zones;
    int           n_sieves;
    Sieve        *sieves;
    bool          can_pick;                    // can be handed a list of rows instead of all
    bool          is_empty;                    // proved: no row passes
    bool          has_matches;                 // rows with several matches go round in a loop
    bool          is_for_cpu;                  // has a word that a GPU does not know (LEAST_WIDE)
    u64           tile_bytes;                  // on the stack of the kernel, per row of a tile, about
    u64 fused_bytes;  // what it adds to a kernel of several queries: less, as that is never handed lists of rows
    double        fan_out;                     // rows that one row can become at most, by joins with many matches
    int           n_counts;
    WovenStep    *counts;
    int           n_state;
    StateSlot    *state;
    GroupKind     group_kind;
    u64           n_groups;                    // array
    bool          is_one_word;
    int n_words;  // hash: of a key; of several, the last holds NULL bits when any key is nullable
    bool          has_null_word;
    u64           group_domain;                // hash, a key of one word: how many values it can have; else 0
    GroupKey     *group_keys;                  // job->n_keys
    int           seen;                        // state slot that is not 0 where a group has rows; -1: hash
    AggState     *aggs;                        // job->n_aggs
    OutColumn    *outputs;                     // job->n_outputs
} Woven;

weft_status weave(Arena *arena, const WeaveJob *job, Woven **woven, Error *err);

void weave_step_columns(Arena *arena, const WeaveStep *step, ColumnSet *columns);      // adds those that it reads
bool weave_probe_filters(const WeaveStep *step);        // a row without a match is dropped: inner and semi-joins
const char *weave_join_name(const WeaveStep *step);     // "left join"

// ---- a budget for a kernel (budget.c) -------------------------------------------------------------------------------

// Columns that FIRST_STEP or a later step, or the sink, reads.
ColumnSet weave_columns_needed(Arena *arena, const WeaveJob *job, int first_step);
// Those of them that are there before STEP (n_steps: before the sink): what a kernel that ends there must store.
ColumnSet weave_columns_across(Arena *arena, const WeaveJob *job, int step);

typedef struct WeaveNeed { int registers; u64 shared_bytes; } WeaveNeed;       // per thread; per block

typedef struct WeaveCut {              // rows are stored between two steps: one kernel ends, the next one begins
    int       before;                  // step; n_steps: the sink
    WeaveNeed need;                    // of the kernel that ends here
    int       passed_by;               // the step (n_steps: the sink) with which that kernel would pass the budget
    WeaveNeed passed;                  // what it would need then
    int       n_columns;               // that are stored
    double    n_rows, bytes;           // about
} WeaveCut;

// What a kernel of the steps FIRST .. END - 1 needs, estimated; END == n_steps + 1: with the sink.  Never less with a
// larger END.
WeaveNeed weave_need(Arena *arena, const WeaveJob *job, int first, int end);
// Cuts, in order, such that each kernel is within the budget (0: no limit) or has one step alone.  PASS, by step: rows
// that leave it for each row that comes; NULL: not known.  Gives their number; *CUTS lives in ARENA.
int weave_split(Arena *arena, const WeaveJob *job, WeaveNeed budget, const double *pass, WeaveCut **cuts);

// A kernel that makes a join table of rows that are in a device's memory (tables.c): columns of 8 bytes, NULL flags of
// one.
const char *weave_fill_text(Arena *arena, int n_keys, const char **name);
// Two that chain rows of equal key: in any order; in that of the source.
const char *weave_link_text(Arena *arena, int n_keys, const char **name);
const char *weave_order_text(const char **name);
// One that makes columns of the rows, of as few bytes as they need, for the next kernel to read.
const char *weave_keep_text(const char **name);

// Kernels of a radix sort of rows by keys of WIDTH bytes, 4 or 8 (sorting.c): digits are counted, counts added up, rows
// moved; a word of 8 bytes is fetched for rows in some order.
const char *weave_digits_text(Arena *arena, int width, const char **name);
const char *weave_starts_text(const char **name);
const char *weave_scatter_text(Arena *arena, int width, const char **name);
const char *weave_gather_text(const char **name);

enum {  // what they are handed, by number: parameters; columns; tables; state slots
    SORT_SHIFT = 0,
    SORT_PARTS,
    SORT_HAS_ROWS,                     // else they are numbered as they lie
    SORT_HAS_KEYS,                     // keys are moved, too
    SORT_PARAMS,
    SORT_KEY = 0,
    SORT_ROW,
    SORT_COLUMNS,
    SORT_WORD = 0,
    SORT_ROW_OF,
    SORT_TABLES,
    SORT_COUNTS = 0,                   // by digit and part
    SORT_TOTALS,                       // by digit
    SORT_KEYS_TO,
    SORT_ROWS_TO,
    SORT_STATE,
};

// A kernel that puts cells of a cube together for a query: a part for each accumulator, a row for each group and lane.
const char *weave_fold_text(const char **name);

enum {  // what it is handed, by number: parameters; tables; state slots
    FOLD_HOW = 0,
    FOLD_INIT,
    FOLD_GROUPS,
    FOLD_LISTED,
    FOLD_LANES,
    FOLD_PARAMS,  // how: CELLS_...; of 128 bits: CELLS_WIDE_LOW, with the high words
    FOLD_LIST = 0,
    FOLD_CELLS,
    FOLD_HIGH_CELLS,
    FOLD_TABLES,
    FOLD_SUMS = 0,
    FOLD_HIGH_SUMS,
    FOLD_STATE,
};

// One that does the same for a cube over joins: a part for each query and accumulator, a row for each pair of a cell
// and the group that it is for.
const char *weave_collect_text(const char **name);

enum {  // what it is handed, by number: parameters; tables; state slots
    COLLECT_HOW = 0,  // CELLS_..., as FOLD_HOW
    COLLECT_PARAMS,
    COLLECT_FROM = 0,  // by row: number of the cell, and of the group
    COLLECT_GROUPS,
    COLLECT_CELLS,
    COLLECT_HIGH_CELLS,
    COLLECT_TABLES,
    COLLECT_SUMS = 0,
    COLLECT_HIGH_SUMS,
    COLLECT_STATE,
};

// One that makes a column of kinds (Kinds) from one of keys, a part for each chunk.
const char *weave_kinds_text(const char **name);

enum {  // what it is handed, by number: parameters; tables; state slots
    KINDS_WIDTH = 0,  // of a key, in bytes
    KINDS_FROM,       // base of the column, less the first key
    KINDS_SIZE,       // of the keys' range
    KINDS_PARAMS,
    KINDS_KEYS = 0,
    KINDS_OF_KEYS,    // Kinds.kind_of
    KINDS_TABLES,
    KINDS_OUT = 0,    // u16 by row
    KINDS_STATE,
};

// Kernels with which many queries look at a row at once.  LANE: bytes of a bit set, a bit for each query.
const char *weave_who_text(const char **name);
const char *weave_sieve_text(Arena *arena, const u8 *widths, int n_columns, int lane, const char **name);

enum {                                 // their parameters, by number
    WHO_WIDTH = 0, WHO_ALL, WHO_TESTS, WHO_PARAMS,
};

enum {  // what it is handed, by number: parameters; columns; state slots
    FILL_WIDTH = 0,
    FILL_BASE,
    FILL_NULL_CODE,
    FILL_PLUS,
    FILL_HAS_NULLS,
    FILL_HAS_CODES,
    FILL_IS_SET,
    FILL_IS_COUNTED,
    FILL_IS_BY_ROW,
    FILL_IS_VALID,
    FILL_KEY,  // low and stride of each key
    FILL_VALUE = 0,
    FILL_NULL,
    FILL_KEYS_FROM,
    FILL_PLACES = 0,
    FILL_BITS,
    FILL_COUNT,
};

// the same for the kernel that makes columns of rows
enum {
    KEEP_WIDTH = 0,
    KEEP_BASE,
    KEEP_HAS_NULLS,
    KEEP_SEGMENTS,  // 0: rows keep their places
    KEEP_PARAMS,
    KEEP_VALUE = 0,
    KEEP_NULL,
    KEEP_PLACES = 0,
    KEEP_VALID,
};

// the same for the kernels that chain rows; keys are columns, and tables, from 0 on, and segments the table after them
enum {
    LINK_IS_HASH = 0,
    LINK_HAS_WORDS,
    LINK_MASK,
    LINK_SEGMENTS,
    LINK_KEY,  // low, stride and is_float of each key
    LINK_SLOTS = 0,
    LINK_NEXT,
    LINK_WORDS,
    LINK_FROM,
    ORDER_IS_HASH = 0,
    ORDER_SLOTS = 0,
    ORDER_NEXT,
    ORDER_KEYS,
    ORDER_LONGEST,
    ORDER_STATE,
};

// ---- several queries in one kernel ----------------------------------------------------------------------------------
//
// Queries of one shape that differ only in what their sieves let pass: one kernel does their work for each combination
// of classes of values
// (cube.c); the host makes the classes, and adds up for each query the cells it wants (engine/cube.h).

bool   weave_can_cube(const Woven *woven);
bool   weave_is_same_but_sieves(const Woven *a, const Woven *b);       // given that their columns are the same
// MEMBER's kernel with a cell for each combination of classes in the kernel columns DIMS.  After the member's own come,
// for each of
// these, the parameters from (PARAM_OFFSET, to be filled in) and stride, and the table class_of[value], of CLASS_BYTES
// each (1 or 2).  So does n_groups, the
// number of cells.
Woven *weave_cube(Arena *arena, const Woven *member, const int *dims, int n_dims, int class_bytes);

// Any queries over the same table: one kernel that loads each column once, takes the steps that all of them begin with
// once, and then goes
// through the rest of each (fuse.c).  It is handed KernelArgs.members.

typedef struct FuseMember {
    const Woven *woven;
    const int *chunk_column;
} FuseMember;  // source column -> column of the table

// What a member does before its sink, so that members can be compared without reading their texts again and again.
typedef struct FuseStep {
    const char *key;                   // the same work on the same columns, parameters and tables
    size_t      length;
    u64         hash;                  // of key
    int         step;                  // its number
    double      pass;                  // share of the rows that get to it and are expected to be left
    bool        is_test;               // over all rows, before there is a selection
    bool        is_free;               // does not depend on what comes before
    bool        can_fail;
} FuseStep;

enum { FUSE_STEPS = 128 };             // of a member that can be fused, at most

typedef struct FuseSteps {
    int       n_steps;
    FuseStep *steps;
    u64       hash;                    // of all of them
} FuseSteps;

bool       weave_can_fuse(const Woven *woven);
FuseSteps *weave_fuse_steps(Arena *arena, const FuseMember *member);
// The steps that a kernel of these members takes once, in this order.  SHARED has room for all steps of the first.
int        weave_shared_steps(const FuseSteps *const *members, int n_members, FuseStep *shared);
bool       weave_has_step(const FuseStep *steps, int n_steps, const FuseStep *step);
// ONLY_COLUMNS: nothing else is shared, so that the text is the same whatever the members' parameters and tables are.
const char *weave_fuse(Arena *arena, const FuseMember *members, int n_members, bool only_columns, const char **name);

// Queries of one shape that differ in the tables they join, too (join_cube.c).  A test is all that a query asks of a
// stored column: a range, a table that its values are keys of, or both.

enum { CUBE_TESTS = 8, CUBE_KEYS = 16 };

typedef struct CubeTest {
    int              column, number;   // kernel column of the query; column of the scanned table
    i64              low, high;
    const JoinTable *table;            // NULL: the range alone
    int              n_payloads;       // of the table; each is a group key
    u64              kinds;            // id of the kinds that the table was made by; 0: none
} CubeTest;

typedef struct CubeForm {              // what a query does, but for the constants and tables of its tests
    int         n_tests;
    CubeTest    tests[CUBE_TESTS];     // in the order of their columns in the table
    int         n_keys;
    int         test_of_key[CUBE_KEYS];        // whose payload the group key is; -1: it is computed from stored columns
    int         payload_of_key[CUBE_KEYS];     // its number in this query's own table
    const char *key;                   // all that must be the same for two queries to be in one kernel
    size_t      length;
    u64         hash;                  // of key
} CubeForm;

// The next group key behind K whose payload is of the same test; the first one for K = -1; -1: none.
static inline int cube_next_key(const CubeForm *form, int test, int k)
{
    for (k++; k < form->n_keys; k++)
        if (form->test_of_key[k] == test) return k;
    return -1;
}

// The group keys of a test are numbered together: this one stands for them all.
static inline bool cube_is_first_key(const CubeForm *form, int k)
{
    return form->test_of_key[k] >= 0 && cube_next_key(form, form->test_of_key[k], -1) == k;
}

const CubeForm *weave_cube_form(Arena *arena, const FuseMember *member);       // NULL: it cannot be in such a kernel
bool            weave_is_same_form(const CubeForm *a, const CubeForm *b);      // they can be in one body
bool            weave_is_same_kernel(const CubeForm *a, const CubeForm *b);    // but perhaps not at once: their kinds
                                                                               // differ
// How a kernel finds the class of a value.  Merged: the first two tests at once, over all rows, since the first alone
// drops few.  By atom: through the value's atom, so that tables by value outlive classes (share/classes.h).
typedef enum CubeLook { CUBE_PLAIN, CUBE_MERGED, CUBE_BY_ATOM } CubeLook;

// The kernel for queries of MEMBER's form: its tests in this ORDER.  share/slots.c fills in what the functions below
// number; tables are of u16 but for cube_table_places.  Of MEMBER nothing is looked at later but its name.
// KINDS, or NULL: by test, the column of the source that holds the kinds of its column's values, u16; -1: the values
// are looked up.  By atom, kinds are what atoms are of values: tables of classes and codes are by kind, from 0 on.
Woven *weave_join_cube(Arena *arena, const FuseMember *member, const CubeForm *form, const int *order, CubeLook look,
                       const int *kinds);

// Tables, by place in ORDER: class of a value (0: it is unwanted); state + 1 by the state before (in place 1 by class)
// and class; by the first group key of a test: atom of a value, and the code of an atom within its class.
static inline int cube_table_class(int d) { return d; }
static inline int cube_table_next(const CubeForm *form, int d) { return form->n_tests + d - 1; }
static inline int cube_table_atoms(const CubeForm *form, int k) { return 2 * form->n_tests - 1 + 2 * k; }
static inline int cube_table_local(const CubeForm *form, int k) { return 2 * form->n_tests + 2 * k; }
// By slot: its first cell, then the strides among its cells of all group keys but the last, whose stride is 1; u32.
// Without group keys there is none: a slot is a cell.
static inline int cube_table_places(const CubeForm *form) { return 2 * form->n_tests - 1 + 2 * form->n_keys; }
// By atom: by atom less 1, instead of by value; atom of a value by place, instead of by group key.
static inline int cube_table_values(const CubeForm *form, int d) { return cube_table_places(form) + 1 + d; }
static inline int cube_n_tables(const CubeForm *form) { return cube_table_places(form) + 1; }
// Parameters: PARAM_OFFSET of each column, whose value is to be set; classes in places from 1 on.
static inline int cube_param_from(int d) { return d; }
static inline int cube_param_classes(const CubeForm *form, int d) { return form->n_tests + d - 1; }
static inline int cube_n_params(const CubeForm *form) { return 2 * form->n_tests - 1; }

#endif
