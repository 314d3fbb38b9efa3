// math.c - the functions of math_text.h for the host: the interpreter, and code by tcc, which calls them.

#include "base/base.h"
#include "base/math_text.h"

// clang-format off
double math_sqrt(double x)            { return math_sqrt_(x); }
double math_exp(double x)             { return math_exp_(x); }
double math_ln(double x)              { return math_ln_(x); }
double math_log10(double x)           { return math_log10_(x); }
double math_log2(double x)            { return math_log2_(x); }
double math_power(double x, double y) { return math_power_(x, y); }
double math_floor(double x)           { return math_floor_(x); }
double math_ceil(double x)            { return math_ceil_(x); }
double math_round(double x)           { return math_round_(x); }
double math_trunc(double x)           { return math_trunc_(x); }
// clang-format on
