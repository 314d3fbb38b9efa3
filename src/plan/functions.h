// functions.h - the functions of SQL: one descriptor each, and all that is known of a function is in it.
//
// A family of functions is a file (functions_math.c, functions_date.c) with a list of descriptors.  Typing, the
// interpreter, ranges, EXPLAIN, kernels, the lookup of names, hints, completion and the manual read the lists.
//
//     const Op op = function_find("sqrt", args, 1);         // OP_N: there is none that takes these
//     expr_call(arena, op, args, 1, at, &root, err);        // as with any operator
//
// A function's operator is OP_FUNCTION plus its place in the lists; function_of goes back.  An overload is a descriptor
// of its own: floor of a decimal and floor of a double have the same name.  Functions are strict: NULL gives NULL.
//
// The value is a formula: C text that is compiled into Weft, for the interpreter, and into kernels, so both agree.
//
//     FORMULA_F64(square_root, SQRT_F64(x))                 // x, y: arguments; r: the result, in checks
//     FORMULA_WHOLE(rounded_down, x / k - (x % k < 0))      // k, m: constants that depend on the types

#ifndef WEFT_FUNCTIONS_H
#define WEFT_FUNCTIONS_H

#include "plan/plan.h"

enum { FUNCTION_ARGS = 8, FUNCTION_CHECKS = 4 };

// TEXT is for kernels; words of it that are x, y, k, m, r or begin with t_ are replaced.  Exact values are whole
// numbers, as they are stored: with 64 bits in kernels, 128 in the interpreter.
typedef struct Formula {
    const char *text;
    double    (*f64)(double x, double y, double r);
    i128      (*whole)(i128 x, i128 k, i128 m, i128 r);
} Formula;

#define FORMULA_F64(name, ...)                                                                  \
    static double name##_host(double x, double y, double r)                                     \
    {                                                                                           \
        return (double)(__VA_ARGS__);                                                           \
    }                                                                                           \
    static const Formula name = { .text = "(" #__VA_ARGS__ ")", .f64 = name##_host };

#define FORMULA_WHOLE(name, ...)                                                                \
    static i128 name##_host(i128 x, i128 k, i128 m, i128 r)                                     \
    {                                                                                           \
        return (i128)(__VA_ARGS__);                                                             \
    }                                                                                           \
    static const Formula name = { .text = "(" #__VA_ARGS__ ")", .whole = name##_host };

// What an argument may be, and becomes.
typedef enum ArgRule {
    ARG_DOUBLE = 1,                    // a number or a literal; becomes a double
    ARG_NUMBER,                        // a number, of any type; a literal is a double
    ARG_EXACT,                         // an integer, decimal or numeric; a literal is typed by its digits
    ARG_DECIMAL,                       // a decimal or numeric
    ARG_DATE,
    ARG_BIGINT,
    ARG_TEXT,                          // a text or a literal
    ARG_INTEGER,                       // an integer, smallint or a literal; becomes an integer
    ARG_MOMENT,                        // a date, time or timestamp as it is: hidden functions alone
    ARG_TIME,
    ARG_TIMESTAMP,                     // what can become a timestamp, or a literal
    ARG_INTERVAL,                      // an interval, a time or a literal
    ARG_CONSTANT,                      // a constant of any type; no formula sees it: hidden functions alone
    ARG_DIGITS                         // a constant integer that decides about the type; no formula sees it
} ArgRule;

typedef struct FunctionCheck {
    const Formula *fails;              // true: the value is an error
    weft_status    status;
    const char    *message;
    bool         (*can_happen)(const Range *args);          // optional: NULL = it can; judged by ranges
} FunctionCheck;

// What kernels make of a function of a number that may need more than 64 bits: they know 128 bits in operators only, so
// the call becomes an expression of these (weave/wide_form.c).
typedef enum WideForm {
    WIDE_FORM_NONE, WIDE_FORM_SIZE, WIDE_FORM_SIGN, WIDE_FORM_FLOOR, WIDE_FORM_CEIL, WIDE_FORM_TRUNC,
    WIDE_FORM_CUT, WIDE_FORM_ROUND
} WideForm;

typedef struct Function {
    const char    *names[3];           // the first one is for people
    const char    *usage, *gives, *about;                   // for the manual: arguments, type of the result, meaning
    bool           is_field;           // written extract(name from x)
    bool           is_hidden;          // no name of SQL: aggregates use it
    Op             op;                 // another name of this operator, and nothing more, when set; OP_ADD cannot be
    int            n_args;
    ArgRule        args[FUNCTION_ARGS];

    // Types, of arguments that obey the rules: those that they become, and the result's.  False: this overload does
    // not take them.  Optional: NULL = the result has the type of the first argument.
    bool         (*types)(Expr *const *args, Type *types, Type *result);
    bool           is_cast;            // its value is its first argument, cast to the result's type

    const Formula *formula;            // NULL: EVAL, and kernels do not know it
    const char    *setup;              // optional: a statement before the formula in kernels; t names what it declares
    i128         (*k)(const Expr *call);                    // optional: the constants of the formula
    i128         (*m)(const Expr *call);
    FunctionCheck  checks[FUNCTION_CHECKS];                 // in this order; the first one that fails is the error
    bool           can_overflow;       // the result may leave its type
    bool           may_be_null;        // of arguments that are not NULL, too: EVAL says so
    const char    *overflow;           // optional: where it holds, 64 bits do not hold the result; only for kernels

    // Optional: NULL = as the formula says.
    weft_status  (*eval)(const Expr *call, const Value *args, Value *value, Error *err);
    // The same for values that need memory.  What has no formula is computed by the host: once per distinct text where
    // it reads one text column and constants (weave/island.c), else row by row (engine/compute.c).
    weft_status  (*eval_in)(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err);
    bool           can_fail;           // EVAL or EVAL_IN may be an error
    WideForm       wide;               // of a first argument that may need more than 64 bits
    // Before the check against the type.  Optional: NULL = whatever the type holds.
    Range        (*range)(const struct Function *function, const Expr *call, const Range *args);
} Function;

// Function.types where the result has one type, whatever the arguments are.
static inline bool function_gives_text(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(TEXT);
    return true;
}

static inline bool function_gives_integer(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(INTEGER);
    return true;
}

static inline bool function_gives_boolean(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(BOOLEAN);
    return true;
}

typedef struct FunctionFamily {
    const char     *title;             // in the manual; NULL: not there
    const Function *functions;
    int             n_functions;
} FunctionFamily;

int                   functions_count(void);
const Function       *function_at(int i);
const FunctionFamily *function_family(int i);               // NULL past the last
const Function       *function_of(Op op);                   // NULL: it is an operator

// By name; OP_N: there is none, or none that takes these arguments.
bool function_is_name(const char *name);
Op   function_find(const char *name, Expr *const *args, int n_args);
Op   function_find_field(const char *name, Expr *arg);      // of extract
bool function_is_field(const char *name);
Op   function_find_hidden(const char *name);

// Whether the arguments obey the rules and *TYPES takes them: the types that they become, and the result's.
bool        function_types(const Function *function, Expr *const *args, int n_args, Type *types, Type *result);
// No argument is NULL.  What the value needs of memory comes from the arena.
weft_status function_eval(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err);
Range       function_range(const Expr *call, const Range *args);
bool        expr_is_interpreted(const Expr *expr);          // has something in it that kernels do not know
bool        expr_is_unknown(const Expr *expr);              // it is such a thing itself
// The text column that is the only column it reads; -1: there is none, or there are others.
int         expr_only_text_column(const Expr *expr);
bool        expr_needs_host(const Expr *expr);              // interpreted, and not per value of one text column
bool        function_can_fail(const Function *function);
int         function_n_values(const Function *function);    // arguments that the formula sees: the first ones

// Ranges of functions of one argument that never fall as it grows, from the range's ends.
Range range_of_whole(const Function *function, const Expr *call, const Range *args);          // whole numbers
Range range_of_root(const Function *function, const Expr *call, const Range *args);           // a root
Range range_of_smooth(const Function *function, const Expr *call, const Range *args);         // good to 2^-50

#endif
