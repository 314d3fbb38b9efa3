// weave_int.h - shared by the files that write kernel text.
//
// Text is written in three places at once: HEAD holds declarations (columns, parameters, tables), BODY the tile's steps, and
// BLOCK the statements of the row block at hand.  Emitting an expression appends statements to BLOCK and returns C text for
// its value; columns it is the first to touch are loaded in BODY, before the block.

#ifndef WEFT_WEAVE_INT_H
#define WEFT_WEAVE_INT_H

#include "weave/weave.h"

typedef struct Var {                   // a column of the query, as this kernel sees it
    ColumnRef        ref;
    const char      *name;             // a C identifier, unique in the kernel
    Type             type;
    Dictionary      *dict;
    u32              dict_count;
    Range            range;
    int              source;           // source column, or -1: payload of
    const JoinTable *table;
    const Payload   *payload;
    u8               width;
    int              column;           // kernel column, -1 until used
    bool             is_loaded;
    const char      *code;             // payload: C text of its stored code
    const char      *index;            // payload: C text of its row in float_valid
    const char      *base, *decode, *null;     // payload: parameter and table names; NULL until used
} Var;

typedef struct Val {                   // an expression in C: pure text, safe to repeat
    const char *value;                 // i64 or f64
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
    const u8   *outcome;               // by code: 0 false, 1 true, 2 NULL
    bool        is_run;                // true exactly for the codes low .. high, and never NULL (low > high: for none)
    i64         low, high;
} TextTest;

typedef struct Weaver {
    Arena          *arena;
    const WeaveJob *job;
    Woven          *out;
    Error          *err;
    Text            head, body, block;
    int             n_vars;
    Var            *vars;
    int             n_temps;
    const char     *live;              // name of the rows at hand
    int             n_lives;
    bool            is_all;            // no row of the tile has been dropped: no selection yet
    int             n_open;            // MATCHES to be closed
    const char    **closings;
    double          max_rows;          // rows that can reach the sink: proves sums
    Map            *names, *numbers;   // taken, and the last number given to each stem
    double          pass;              // share of the rows that is expected to be left by now
    bool           *done;              // by step: written already
    int             n_later;           // columns that more than range tests and bit tables look at
    ColumnRef      *later;
    int             n_merged;          // dictionaries made for texts that come from several columns or constants
    MergedDict     *merged;
    int             n_tests;           // predicates on texts that were worked out already
    TextTest       *tests;
} Weaver;

// ---- weave.c
Var        *weave_var(Weaver *w, ColumnRef ref);
void        weave_load(Weaver *w, Var *var);                                   // declared and loaded from here on
void        weave_on_stack(Weaver *w, int bytes);                              // the kernel keeps BYTES per row of a tile on its stack
const char *weave_unsure(const Weaver *w);                                     // "UNSURE " where a test can be skipped
const char *weave_name(Weaver *w, const char *wanted);                         // a fresh identifier close to WANTED
bool        weave_names_clash(const char *a, const char *b);                   // equal, or words derive one from the other
const char *weave_temp(Weaver *w, const char *type, const char *value);        // a const in the block
int         weave_param(Weaver *w, Param param);
const char *weave_param_i64(Weaver *w, const char *name, i64 value);           // name may be NULL
const char *weave_param_f64(Weaver *w, double value);
#define COMPARED_BYTES 4096            // tables made for one kernel (predicates on texts, many constants) are the same when their bytes are; larger ones by address
const char *weave_table(Weaver *w, const char *type, const char *name, const void *data, size_t bytes);
// The same for a part of a join table, which has a number there: TABLE_SLOTS, ... or TABLE_PAYLOADS + 3 * payload + 0 (data), 1 (valid), 2 (decode).
const char *weave_table_of(Weaver *w, const JoinTable *owner, int number, const char *type, const char *name, const void *data, size_t bytes);
int         weave_check(Weaver *w, weft_status status, int at, const char *message);
int         weave_state(Weaver *w, SlotKind kind, int bytes, u64 init);
const char *weave_width_type(int width);                                       // "u16"
void        weave_line(Weaver *w, const char *format, ...) PRINTF_LIKE(2, 3);  // to BODY
void        weave_stmt(Weaver *w, const char *format, ...) PRINTF_LIKE(2, 3);  // to BLOCK
void        weave_block(Weaver *w, const char *open);                          // BODY += open { BLOCK }, and BLOCK is empty again
const char *weave_keep(Weaver *w, const char *condition);                      // statement that lets a row pass, dense or sparse
void        weave_filter_block(Weaver *w);                                     // BLOCK, with such a statement, over the rows at hand
const char *weave_distance(Weaver *w, const Val *val, const char *name, i64 low);   // u64 text: val - low
void        weave_count(Weaver *w, const char *what, int at_step);             // counts the rows that are left

// ---- value.c
weft_status weave_value(Weaver *w, const Expr *expr, Val *out);
weft_status weave_truth(Weaver *w, const Expr *expr, bool wanted, const char **condition);  // 1 where expr is WANTED, not NULL
weft_status weave_column(Weaver *w, const Expr *expr, Val *out);
FloatRange  weave_float_range(Weaver *w, const Expr *expr);                    // what is proved of a float's values

// ---- dictionary.c
bool        weave_is_text_test(const Expr *expr);                              // a comparison, LIKE or IN of one text with constants
weft_status weave_text_test(Weaver *w, const Expr *expr, TextTest *out);
weft_status weave_text_dict(Weaver *w, const Expr *expr, Dictionary **dict, u32 *dict_count);        // what its codes mean
weft_status weave_text_const(Weaver *w, const Expr *expr, Val *out);           // its code in that dictionary
weft_status weave_text_in(Weaver *w, const Expr *expr, Dictionary *dict, u32 dict_count, Val *out);  // in DICT; -1: not there
weft_status weave_text_compare(Weaver *w, const Expr *expr, Val *a, Val *b);   // comparable numbers of both sides
weft_status weave_ranks(Weaver *w, Dictionary *dict, u32 dict_count, const u32 **ranks);     // held as long as the arena

// ---- steps.c
weft_status weave_tests(Weaver *w);                                            // the filters at the start that need no selection
bool        weave_is_range(Weaver *w, const Expr *filter);                     // weave_tests will write it
bool        weave_is_sure_probe(Weaver *w, const WeaveStep *step);             // a bit table, by one stored column
weft_status weave_filter(Weaver *w, const Expr *filter, int at_step);
weft_status weave_probe(Weaver *w, const WeaveStep *step, int at_step);

// ---- sink.c
weft_status weave_rows(Weaver *w);
weft_status weave_groups(Weaver *w);

// ---- lines.c
bool        line_begins(const char *line, const char *with);
const char *line_next(const char *line);
const char *line_last(const char *text, const char *with);                     // the last line that begins so, or NULL
int         line_number(const char *line);                                     // 7 at the end of a line
const char *line_argument(Arena *arena, const char *line, int n);              // of COLUMN(u8, discount, 0), 1: discount
bool        line_is_load(const char *line);                                    // of a kernel that can be handed lists of rows
void        line_add_load(Text *out, const char *line);                        // the same for all rows

#endif
