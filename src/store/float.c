// float.c - real and double to text and back.
//
// The text is the shortest that reads back as the same number, laid out as PostgreSQL lays it out: plain from 1e-4 up
// to the digits that the type always keeps (6 and 15), with an exponent beyond.  We ask the C library for more and
// more digits until they read back; it rounds correctly, so the first hit is a shortest one.  The program we live in
// may have set any locale, so reading is done in "C" and of what printf writes only digits and exponent are used.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                                         // strtod_l
#endif

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store_int.h"

enum { DIGITS_MAX = 17 };

static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

// Reads in the C locale.  Without memory for a locale we read in the program's own, which is nearly always the same.
static double read_number(const char *text, char **end, bool is_real)
{
    pthread_once(&locale_once, make_locale);
    if (!c_locale)
        return is_real ? strtof(text, end) : strtod(text, end);
    return is_real ? strtof_l(text, end, c_locale) : strtod_l(text, end, c_locale);
}

FloatText float_parse(const char *text, bool is_real, double *number)
{
    char *end;
    errno = 0;
    *number = read_number(text, &end, is_real);
    if (end == text || *end != '\0')
        return FLOAT_NONE;
    bool is_huge = isinf(*number), is_tiny = *number == 0;
    return errno == ERANGE && (is_huge || is_tiny) ? FLOAT_TOO_LARGE : FLOAT_OK;
}

typedef struct Digits {
    char digits[DIGITS_MAX + 1];                            // the first one is before the point
    int  n_digits;                                          // without zeros at the end, but at least 1
    int  exponent;
} Digits;

static Digits digits_of(double magnitude, int n_digits)
{
    char text[64];
    Digits d = { 0 };
    snprintf(text, sizeof(text), "%.*e", n_digits - 1, magnitude);
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && d.n_digits < DIGITS_MAX)
            d.digits[d.n_digits++] = *at;
    d.exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
    while (d.n_digits > 1 && d.digits[d.n_digits - 1] == '0')
        d.digits[--d.n_digits] = '\0';
    return d;
}

static bool reads_back(const Digits *d, double magnitude, bool is_real)
{
    char text[64], *end;
    snprintf(text, sizeof(text), "%se%d", d->digits, d->exponent - (d->n_digits - 1));
    return read_number(text, &end, is_real) == magnitude;
}

static Digits shortest_digits(double magnitude, bool is_real)
{
    // Normal numbers keep every text of 6 or 15 digits, so fewer digits need no try: they show as zeros at the end.
    bool is_subnormal = magnitude < (is_real ? 0x1p-126 : 0x1p-1022);
    int first = is_subnormal ? 1 : is_real ? 6 : 15, last = is_real ? 9 : 17;
    for (int n = first; n < last; n++) {
        Digits d = digits_of(magnitude, n);
        if (reads_back(&d, magnitude, is_real))
            return d;
    }
    return digits_of(magnitude, last);
}

static int layout_exponent(const Digits *d, char *buffer, size_t capacity)
{
    char sign = d->exponent < 0 ? '-' : '+';
    const char *point = d->n_digits > 1 ? "." : "";
    return snprintf(buffer, capacity, "%c%s%se%c%02d", d->digits[0], point, d->digits + 1, sign, abs(d->exponent));
}

static int layout_plain(const Digits *d, char *buffer, size_t capacity)
{
    int n_before = d->exponent + 1;                         // digits before the point
    if (n_before <= 0)
        return snprintf(buffer, capacity, "0.%.*s%s", -n_before, "0000", d->digits);
    if (n_before >= d->n_digits)
        return snprintf(buffer, capacity, "%s%.*s", d->digits, n_before - d->n_digits, "00000000000000");
    return snprintf(buffer, capacity, "%.*s.%s", n_before, d->digits, d->digits + n_before);
}

int float_format(double number, bool is_real, char *buffer, size_t capacity)
{
    if (isnan(number))
        return snprintf(buffer, capacity, "NaN");
    int n_sign = signbit(number) ? 1 : 0;
    if (n_sign)
        snprintf(buffer, capacity, "-");
    buffer += n_sign;
    capacity -= (size_t)n_sign;
    if (isinf(number))
        return n_sign + snprintf(buffer, capacity, "Infinity");
    if (number == 0)
        return n_sign + snprintf(buffer, capacity, "0");
    Digits d = shortest_digits(fabs(number), is_real);
    bool is_plain = d.exponent >= -4 && d.exponent < (is_real ? 6 : 15);
    return n_sign + (is_plain ? layout_plain(&d, buffer, capacity) : layout_exponent(&d, buffer, capacity));
}
