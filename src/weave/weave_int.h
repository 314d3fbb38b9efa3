// weave_int.h - shared by the files that make a kernel of a job.
//
// A step is put together in the Weaver: expressions append statements to BLOCK, declare what they are handed, and
// return a fragment (ir.h) for
// their value; weave_step then takes all of it.

#ifndef WEFT_WEAVE_INT_H
#define WEFT_WEAVE_INT_H

#include "plan/functions.h"
#include "weave/ir.h"

typedef struct Var {                   // a column of the query, as this kernel sees it
    int              id;               // in the plan
    const char      *name;             // a C identifier, unique in the kernel
    const char      *ref;              // source column: fragment that names it; NULL until used
    Type             type;
    Dictionary      *dict;
    u32              dict_count;
    Range            range;
    int              source;           // source column, or -1: payload of a table, or else a value that is carried
    const JoinTable *table;
    const Payload   *payload;
    u8               width;
    int              column;           // kernel column, -1 until used
    bool             is_loaded;
    bool             is_gone;          // not to be found any more
    int              same_as;          // 1 + number of the Var that this is another name of; 0: none
    const char      *slots;            // payload: name of the table that holds its codes
    const char      *code;             // payload: C text of its stored code
    bool             is_looked_up;     // payload of a table that a plain step looks a stored column up in
    const char      *index;            // payload: C text of its row in valid
    const char *missing;  // payload: C text, 1 where there is no match (code is 0 then); NULL: always a match
    const char      *base, *decode, *null;     // payload: parameter and table names; NULL until used
    const char      *value, *value_null;       // carried: C text; value_null may be NULL
} Var;

typedef struct Val {                   // an expression in C: pure text, safe to repeat
    const char *value;                 // i64 or f64
    const char *high;                  // numbers of 128 bits: i64, and VALUE is the low word; NULL: VALUE is all of it
    const char *null;                  // 1 where NULL; NULL pointer: never
    Range       range;
    bool        is_float;
    Dictionary *dict;                  // text: what the code means
    u32         dict_count;
    const Var  *stored;                // it is just this source column, of one width in all chunks
} Val;

typedef struct MergedDict {            // a dictionary made for one expression
    const Expr *expr;
    Dictionary *dict;
    u32         count;
} MergedDict;

typedef struct TextTest {              // a predicate on one text, worked out for every code
    const Expr *test;                  // the predicate
    const Expr *text;                  // the expression it tests
    Dictionary *dict;
    u32         dict_count;
    const u64  *bits;                  // by code: whether it is true; NULL: the outcome says so
    const u8   *outcome;               // by code: 0 false, 1 true, 2 NULL; not for a run
    bool        is_run;                // true exactly for the codes low .. high, and never NULL (low > high: for none)
    i64         low, high;
} TextTest;

// How the values of an island are stored: texts as codes, numbers by what the largest and the least of them need.
#define ISLAND_FORM_LIST(X)                                                                                            \
    X(ISLAND_U8, "u8", u8, 1) X(ISLAND_U16, "u16", u16, 2) X(ISLAND_I32, "i32", i32, 4) X(ISLAND_I64, "i64", i64, 8)   \
    X(ISLAND_F64, "f64", double, 8)
#define ISLAND_FORM_NAME(form, name, type, width) form,
typedef enum IslandForm { ISLAND_FORM_LIST(ISLAND_FORM_NAME) } IslandForm;

typedef struct Island {                // an expression over one text column, worked out for every code (island.c)
    const Expr *expr;
    u32         n_codes;               // of the column; the entry behind them is what NULL gives
    IslandForm  form;                  // of the values
    const void *values;                // numbers, or codes of DICT
    const i64  *highs;                 // numbers that do not fit 64 bits: what is above these; NULL: all fit
    const u8   *states;                // by code: ISLAND_...; NULL: all texts have a value
    bool        has_null;              // some text gives NULL
    bool        null_is_null;          // and so does NULL
    Dictionary *dict;                  // text: of the results
    u32         dict_count;
    Range       range;
    Error      *error;                 // the first one; NULL: there is none
} Island;

typedef struct TakenNames { Arena *arena; Map *taken, *numbers; } TakenNames;  // numbers: the last one of each stem

typedef struct Weaver {
    Arena          *arena;
    const WeaveJob *job;
    Woven          *out;
    Ir             *ir;
    Error          *err;
    Text            block;             // statements of the step at hand
    int             n_carries, *carries;       // declarations of the step at hand
    int             n_placed;          // columns that earlier steps look at
    bool            can_fail;          // the step at hand
    int             n_vars;
    Var            *vars;
    int             n_temps;
    const char     *live;              // name of the rows at hand
    int             n_lives;
    bool            is_all;            // no row of the tile has been dropped: no selection yet
    double          max_rows;          // rows that can reach the sink: proves sums
    TakenNames      names;
    double          pass;              // share of the rows that is expected to be left by now
    bool           *done;              // by step: written already
    ColumnSet       later;             // columns that more than range tests and bit tables look at
    int             n_merged;          // dictionaries made for texts that come from several columns or constants
    MergedDict     *merged;
    int             n_tests;           // predicates on texts that were worked out already
    TextTest       *tests;
    int             n_islands;         // the same of expressions over one text column
    Island         *islands;
} Weaver;

// ---- names.c
TakenNames  names_begin(Arena *arena);
const char *names_new(TakenNames *names, const char *wanted);                  // a fresh identifier close to WANTED
bool names_are_taken(const TakenNames *names,
                     const char *name);  // it, or one from which words derive it, or that words derive from it
void        names_take(TakenNames *names, const char *name);

// ---- weave.c
Var        *weave_var(Weaver *w, int id);
Var        *weave_var_of(Weaver *w, const Expr *column);
Var        *weave_low_var(Weaver *w, int id);          // of a column of 128 bits: its low words; NULL: it is no such
Var *weave_add_value(Weaver *w, int id, const char *name, Type type,
                     const Val *val);       // VAL's texts hold in every later block
void weave_load(Weaver *w, Var *var);       // declared; the step at hand, or an earlier one, loads it
void weave_on_stack(Weaver *w, int bytes);  // the kernel keeps BYTES per row of a tile on its stack
const char *weave_name(Weaver *w, const char *wanted);
const char *weave_temp(Weaver *w, const char *type, const char *value);        // a const in the block
const char *weave_param(Weaver *w, const char *type, const char *name, Param param);         // name may be NULL
const char *weave_param_i64(Weaver *w, const char *name, i64 value);
const char *weave_param_f64(Weaver *w, double value);
// Tables made for one kernel (predicates on texts, many constants) are the same when their bytes are; larger ones by
// address.
#define COMPARED_BYTES 4096
const char *weave_table(Weaver *w, const char *type, const char *name, const void *data, size_t bytes);
// The same for a part of a join table, which has a number there: TABLE_SLOTS, ... or TABLE_PAYLOADS + 3 * payload + 0
// (data), 1 (valid), 2 (decode).
const char *weave_table_of(Weaver *w, const JoinTable *owner, int number, const char *type, const char *name,
                           const void *data, size_t bytes);
const char *weave_carry(Weaver *w, const char *type, const char *name,
                        int bytes);  // a value per row, for this step and later ones
void        weave_notes(Weaver *w, int output);
int         weave_check(Weaver *w, weft_status status, int at, const char *message);
int         weave_state(Weaver *w, SlotKind kind, int bytes, u64 init);
const char *weave_width_type(int width);                                       // "u16"
void        weave_stmt(Weaver *w, const char *format, ...) PRINTF_LIKE(2, 3);  // to BLOCK
const char *weave_take_block(Weaver *w);                                       // BLOCK, which is empty again
// Adds a step with what was put together for it; of STEP only what cannot be known from that is looked at.
Step       *weave_step(Weaver *w, Step step);
const StepTest *weave_step_test(Weaver *w, int column, i64 low, i64 high, const JoinTable *table);
void weave_keep(Weaver *w, const char *condition);  // a step of BLOCK that drops the rows without CONDITION
void        weave_each(Weaver *w);                                             // a step of BLOCK that drops none
const char *weave_distance(Weaver *w, const Val *val, const char *name, i64 low);   // u64 text: val - low
void weave_pass(Weaver *w, double share);  // of the rows, about, that the newest step lets pass
void        weave_count(Weaver *w, const char *what, int at_step);             // counts the rows that are left

// ---- texts.c
// The kernel's name and text, in the arena.  Any thread.
void texts_get(Arena *arena, const Ir *ir, const char **name, const char **text);

// ---- value.c
#define FEW_CONSTANTS 24               // of x in (...): compared one by one; more are a table
weft_status weave_value(Weaver *w, const Expr *expr, Val *out);
weft_status weave_truth(Weaver *w, const Expr *expr, bool wanted,
                        const char **condition);  // 1 where expr is WANTED, not NULL
// The same with what it adds to BLOCK in *STATEMENTS instead; NULL when there is nothing.
weft_status weave_truth_apart(Weaver *w, const Expr *expr, bool wanted, const char **condition,
                              const char **statements);
weft_status weave_column(Weaver *w, const Expr *expr, Val *out);
// As a number of 64 bits: a value that has more is an error, 22003.
weft_status weave_word(Weaver *w, const Expr *expr, Val *out);
// The call of a function that has such a form, by operators; of the same type.
weft_status weave_wide_form(Arena *arena, WideForm form, const Expr *call, Expr **out, Error *err);
weft_status weave_text_in(Weaver *w, const Expr *expr, Dictionary *dict, u32 dict_count,
                          Val *out);                                           // as a code of DICT; -1: not there
FloatRange  weave_float_range(Weaver *w, const Expr *expr);                    // what is proved of a float's values

// ---- dictionary.c
bool weave_is_text_test(const Expr *expr);  // a comparison, LIKE or IN of one text with constants
weft_status weave_text_test(Weaver *w, const Expr *expr, TextTest *out);
weft_status weave_text_dict(Weaver *w, const Expr *expr, Dictionary **dict, u32 *dict_count);  // what its codes mean
weft_status weave_text_const(Weaver *w, const Expr *expr, Val *out);           // its code in that dictionary
Val         weave_code_in(Weaver *w, const Value *text, Dictionary *dict, u32 dict_count);        // -1: not there
weft_status weave_recode(Weaver *w, Val *text, Dictionary *dict, u32 dict_count);  // to codes of DICT; -1: not there
weft_status weave_text_compare(Weaver *w, Op op, Val *a, Val *b);              // comparable numbers of both sides
weft_status weave_ranks(Weaver *w, Dictionary *dict, u32 dict_count, const u32 **ranks);  // held as long as the arena

// ---- island.c
bool        weave_is_island(const Expr *expr);              // kernels do not know it, and it reads one text column only
weft_status weave_island(Weaver *w, const Expr *expr, const Val *text, Val *out);       // TEXT: its column
weft_status weave_island_dict(Weaver *w, const Expr *expr, Dictionary **dict, u32 *dict_count);       // of a text

// ---- steps.c
weft_status weave_tests(Weaver *w);  // the filters at the start that need no selection
bool        weave_is_range(Weaver *w, const Expr *filter);                     // weave_tests will write it
bool        weave_source_var(Weaver *w, const Expr *expr, Var **var);          // a stored column that is no float
weft_status weave_filter(Weaver *w, const Expr *filter, int at_step);
weft_status weave_filter_rows(Weaver *w, const Expr *filter);                  // without a count
weft_status weave_let(Weaver *w, const WeaveStep *step);

// ---- probe.c
bool        weave_is_sure_probe(Weaver *w, const WeaveStep *step);             // a bit table, by one stored column
weft_status weave_probe(Weaver *w, const WeaveStep *step, int at_step);

// ---- sink.c
weft_status weave_rows(Weaver *w);
weft_status weave_groups(Weaver *w);

// ---- fuse.c
// What a declaration stands for: equal where two members mean the same.  OWN is not below 0 where parameters and tables
// are this member's alone.
void fuse_add_meaning(Text *text, const FuseMember *member, int d, int own);

#endif
