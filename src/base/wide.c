// wide.c - the functions of wide_text.h for the host: code by tcc calls them.

#include "base/base.h"
#include "base/wide_text.h"

int wide_multiply(i64 a_high, i64 a_low, i64 b_high, i64 b_low, i64 *high, i64 *low)
{
    return wide_multiply_(a_high, a_low, b_high, b_low, high, low);
}

void wide_divide(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int is_rest, i64 *high, i64 *low)
{
    wide_divide_(a_high, a_low, b_high, b_low, is_rest, high, low);
}

double wide_to_f64(i64 high, i64 low) { return wide_to_f64_(high, low); }

double wide_decimal_to_f64(i64 high, i64 low, int scale) { return wide_decimal_to_f64_(high, low, scale); }

int wide_shown(i64 high, i64 low, int scale) { return wide_shown_(high, low, scale); }

int wide_quotient(i64 a_high, i64 a_low, int a_scale, int a_shown, i64 b_high, i64 b_low, int b_scale, int b_shown,
                  int scale, i64 *high, i64 *low, int *shown)
{
    return wide_quotient_(a_high, a_low, a_scale, a_shown, b_high, b_low, b_scale, b_shown, scale, high, low, shown);
}

int wide_rounded_product(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int down, i64 *high, i64 *low)
{
    return wide_rounded_product_(a_high, a_low, b_high, b_low, down, high, low);
}

int wide_from_f64(double x, int n_digits, int scale, i64 *high, i64 *low)
{
    return wide_from_f64_(x, n_digits, scale, high, low);
}
