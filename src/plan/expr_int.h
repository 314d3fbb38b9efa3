// expr_int.h - what the files of the expression half of plan/ share: values out of their nodes.

#ifndef WEFT_EXPR_INT_H
#define WEFT_EXPR_INT_H

#include "plan/plan.h"

enum { DECIMAL_DIGITS = 18, NUMERIC_DIGITS = 38 };

Expr *expr_as_double(Arena *arena, const Expr *expr);       // a copy of what is_long, as any other double

bool        type_is_number(Type type);
bool        type_is_exact(Type type);                       // integers, decimal, numeric: a whole number over 10^scale
const char *type_label(Type type, char buffer[32]);         // as type_name, "unknown" for an untyped literal
const char *op_text(Op op);                                 // "+"; of operators, not of functions
bool        op_has(Op op, int property);                    // OP_FAILS, OP_TESTS, OP_LAX

// The type of A / B and of an average: a quotient with room for the digits that quotients_begin says, more where the
// operands have more.
Type type_of_quotient(Type a, Type b);
Type type_of_average(Type type);

i128 ten_to(int n);                                         // 0 <= n <= 38
bool multiply_wide(i128 a, i128 b, i128 *product);          // false when it leaves 128 bits
int  count_digits(i128 value);                              // decimal digits, at least 1
bool rescale(i128 value, int from_scale, int to_scale,
             i128 *out);                 // half away from zero; false when it leaves 128 bits
bool value_fits(i128 value, Type type);  // boolean, integers, decimal (18 digits), numeric (38 digits), date

weft_status range_error(Type type, int at, Error *err);     // "integer out of range"

// The number that a literal names, typed by its digits: integer, bigint, decimal, numeric (19 to 38 digits), or with an
// exponent double.
weft_status number_parse(const char *bytes, size_t length, int at, Value *value, Error *err);
// Converts a value; untyped literals and text are read, everything can become text.  FROM may be NULL-valued.
weft_status value_cast(Arena *arena, const Value *from, Type to, int at, Value *out, Error *err);

// ESCAPE has one character, or none when no character escapes.
weft_status like_match(const Value *text, const Value *pattern, const char *escape, size_t escape_length,
                       bool fold_case, int at, bool *matches, Error *err);

// Makes the call as it is, its arguments already of fitting types: folds constants, checks depth and size.
weft_status expr_make_call(Arena *arena, Op op, Type type, Expr **args, int n_args, int at, Expr **out, Error *err);
weft_status expr_make_case(Arena *arena, Type type, Expr **args, int n_args, int at, Expr **out, Error *err);
weft_status expr_make_cast(Arena *arena, Expr *arg, Type type, int at, Expr **out, Error *err);
Expr       *expr_null(Arena *arena, Type type, int at);
Expr       *expr_boolean(Arena *arena, bool value, int at);
bool        expr_is_untyped(const Expr *expr);              // a literal whose type is not settled, or a bare NULL
bool        expr_is_null_const(const Expr *expr);

// Typing rules, by operator: change the arguments and the type, or put something else in RESULT.
typedef struct Call {
    Arena *arena;
    Op     op;
    Type   type;
    Expr **args;                                            // a copy: may be replaced
    int    n_args;
    int    at;
    Error *err;
    Expr  *result;                                          // stands for the whole call when set
} Call;

weft_status type_call(Call *call);
// expr_time.c.  WEFT_UNDEFINED_FUNCTION without an error: there is no such operator.
weft_status type_time_call(Call *call);                     // + - * / of dates, times and intervals
weft_status type_time_comparison(Call *call);
weft_status type_interval_sign(Call *call);

// range.c
Range range_of_value(const Value *value);
Range range_unite(Range a, Range b);                        // what holds for values of either

// float_range.c: as range_of_..., for floats.  IS_REAL: results are rounded to reals.
FloatRange float_range_of_value(double value);
FloatRange float_range_of_exact(i128 low, i128 high, int scale);
FloatRange float_range_of_call(Op op, FloatRange a, FloatRange b, bool is_real);       // + - * /
FloatRange float_range_negate(FloatRange a);
FloatRange float_range_abs(FloatRange a);
FloatRange float_range_of_product_low(FloatRange a, FloatRange b);                     // x * y less its rounded value
FloatRange float_range_unite(FloatRange a, FloatRange b);
FloatRange float_range_to_real(FloatRange a);
// Of F(x, 0, 0), which never falls as x grows.
typedef enum Rising {
    RISING_WHOLE,                                           // all values are whole numbers
    RISING_ROOT,                                            // correctly rounded; 0 at 0, nothing below
    RISING_SMOOTH                                           // good to 2^-50
} Rising;
FloatRange float_range_of_rising(FloatRange a, double (*f)(double x, double y, double r), Rising rising);

#endif
