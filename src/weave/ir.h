// ir.h - a kernel as structs: what it is handed, its steps, its sink.  weave() builds one, fuse() and cube() make
// others of it, and
// print.c writes the text.
//
//     source ─> step ─> step ─> ... ─> sink             each step drops rows, or carries a value for later ones, or
//     opens a loop
//
// Expressions in a step are fragments: C text in which the names of declarations, and the cells of accumulators, are
// references.  So a kernel's
// pieces can be put into another one, where things have other names, and what a step reads is known without reading its
// text.

#ifndef WEFT_WEAVE_IR_H
#define WEFT_WEAVE_IR_H

#include "weave/weave.h"

// ---- what a kernel is handed, and what its steps carry --------------------------------------------------------------

typedef enum DeclKind {
    DECL_COLUMN, DECL_COLUMN_ANY,      // number: kernel column; any: of different widths
    DECL_NULLS,                        // goes by the name of its column
    DECL_PARAM, DECL_PARAM_F64, DECL_TABLE,
    DECL_NOTES,                        // number: output
    DECL_CARRY,                        // a value per row, from the step that declares it on
    DECL_NOTHING                       // was left out
} DeclKind;

typedef struct Decl {
    DeclKind    kind;
    const char *type;                  // "u8"; NULL where the kind says it
    const char *name;
    int         number;
} Decl;

typedef enum LoadKind {
    LOAD_PLAIN,
    LOAD_ROWS,  // or gathered, where the kernel is handed a list of rows
    LOAD_TEST   // the same, but not where tests that sieves make sure of are skipped: nothing else looks at it
} LoadKind;

typedef struct IrColumn {              // by kernel column
    int      decl;
    LoadKind load;
    bool     has_nulls;
} IrColumn;

// ---- fragments ------------------------------------------------------------------------------------------------------

#define REF_OPEN \
    '\1'  // then 'd' and the number of a declaration, 'c' and the slot of an accumulator, or 'g': the group
#define REF_CLOSE '\2'

// ---- steps ----------------------------------------------------------------------------------------------------------

typedef enum StepKind {
    STEP_RANGE,      // a stored column lies between two parameters; text: the word's arguments after the rows
    STEP_CONDITION,  // keep, and nothing else
    STEP_LOOKUP,     // a stored column is looked up in a table; word: FLAG, BIT or LOOKUP; text: as of a range
    STEP_BLOCK,      // text: statements, a line each, then keep
    STEP_EACH,       // text: statements; all rows stay
    STEP_MATCHES,    // the rest of the kernel runs once per match
    STEP_NOTHING     // only columns are loaded
} StepKind;

// What a step does, where that is all: rows stay whose value in one stored column, which is never NULL, lies between
// LOW and HIGH and is a key of TABLE.
typedef struct StepTest {
    int              column;           // kernel column
    i64              low, high;
    const JoinTable *table;            // NULL: the range alone
} StepTest;

typedef struct Step {
    StepKind    kind;
    const char *word;
    const char *text;                  // fragment
    const char *keep;                  // fragment: the row stays where this is not 0
    const char *live;                  // the rows at hand
    const char *inner, *row, *next,
        // matches: rows within the loop; fragments: built row, table of next rows; of left joins: whether there was a
        // match, else NULL
        *hit;
    int         n_carries, *carries;   // declarations
    int         first_column, end_column;      // kernel columns that are looked at for the first time
    int         n_uses, *uses;         // declarations that the fragments name, each once
    bool        is_unsure;             // a sieve can stand in for it
    bool        is_dense;              // all rows are at hand when it comes
    bool        is_on_mask;            // dense, together with the tests beside it
    bool        can_fail;
    bool        is_free;               // could come first: rests on no carried value, and on no step that can fail
    double      pass;                  // share of the rows that get to it and are expected to be left
    const StepTest *test;              // NULL: it does more, or something else
    int         at_step;               // of the job
    int         count;                 // number of the count that follows; -1: none
} Step;

// ---- sinks ----------------------------------------------------------------------------------------------------------

typedef struct Accumulator { int slot; SlotKind kind; const char *type; } Accumulator;

typedef struct IrKey {                 // of a group of an array
    const char    *code;               // fragment
    const Payload *payload;            // whose code it is, of a table of a step with a test; NULL: it is something else
} IrKey;

typedef struct IrSink {
    SinkKind     kind;
    GroupKind    groups;               // where the kind is groups
    const char  *live;
    bool         is_dense;             // no row was dropped
    const char  *keys;                 // fragment: statements that find the group; "" without keys
    const char  *key_values;           // array: the part of KEYS before the group's number, which is a sum of
    int          n_keys;               // these, each times its stride
    const IrKey *key_codes;
    const char  *adds;                 // fragment: what is added to it; of rows: what is put out
    int          n_accumulators;
    Accumulator *accumulators;
    int          rows;                 // totals: slot of the number of rows
    int          first_column, end_column;
    int          n_uses, *uses;
    bool         can_fail;
    int          n_outs;               // rows
    OutColumn   *outs;
    const u8    *notes;                // by output; NULL: none
} IrSink;

struct Ir {
    const char *title;                 // "lineorder: filter, join part, groups"
    int         n_decls;
    Decl       *decls;
    int         n_columns;
    IrColumn   *columns;
    int         n_steps;
    Step       *steps;
    IrSink      sink;
    bool        can_pick;              // may be handed a list of rows
    int         n_dims;                // of a cube: a cell for each combination of classes in these kernel columns
    const int  *dims;
    // of a class; tables that map values to classes are numbered from first_class on, their parameters from first_param
    // on
    int class_bytes;
    int         first_class, first_param;
};

// ---- several queries in one kernel (fuse.c) -------------------------------------------------------------------------

typedef struct FusedMember {
    const Ir    *ir;
    const char **names;                // by declaration
    bool        *is_declared;          // by declaration: here, not by an earlier member
    bool        *is_shared;            // by step: all members have it
} FusedMember;

typedef struct FusedIr {
    int          n_members;
    FusedMember *members;
    bool         is_apart;             // members may want different chunks: each has its own rows
} FusedIr;

// ---- print.c
void   ir_print(const Ir *ir, const char *name, Text *text);
void   ir_print_fused(Arena *arena, const FusedIr *fused, Text *text);         // all but its name and title
size_t ir_length(const Ir *ir, const char *fragment);                          // of its text
bool   ir_uses(const int *uses, int n_uses, int decl);
void   ir_find_uses(Arena *arena, const char *fragment, int **uses, int *n_uses);
bool   ir_has_matches(const Ir *ir);

#endif
