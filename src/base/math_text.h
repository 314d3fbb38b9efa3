// math_text.h - sqrt, exp, ln, power and their kind: one text for every compiler, and the same bits from each of them.
//
// math.c includes it for the host; the jit puts it before kernels that use these functions, for cc and NVRTC (math_text
// in base.h).  So it is C that is C++ too, without headers, and uses only operations that IEEE 754 rounds in one way:
// + - * / and the square root.  The compilers must not fuse a * b + c: -ffp-contract=off, --fmad=false.
//
// A number that needs more than 53 bits is a sum high + low, low being at most half of high's last place.
//
//     exp     x = n ln 2 / 16 + r, |r| < 0.022: a table's 2^(n / 16) times the Taylor series of e^r
//     ln      x = 2^k m, m near 1; a table has 1 / c for a c near m, and m / c = 1 + f is exact:
//             ln x = k ln 2 + ln c + ln(1 + f), where ln(1 + f) = 2 atanh(s), s = f / (2 + f), a series in s^2 < 2^-14
//     power   exp(y ln x), with ln x and the product as high + low: ln x is off by 2^-67 of itself
//
// Largest errors that were seen, in units of the last place: sqrt 0.5, which is the correctly rounded root; ln 0.52,
// log10 and log2 0.51, exp and power 0.57; 0.76 where the result is subnormal, as it is rounded twice.
//
// NaN, infinities and zeros: as C has it (annex F).  Each NaN that is made here has the same bits.
// Names end in _, as no column's name does.  Needs i64 and u64.

#ifndef WEFT_MATH_TEXT_H
#define WEFT_MATH_TEXT_H

#if defined(__CUDACC__)
#define MATH_FN_      static __device__ inline
#define MATH_TABLE_   static __device__ const
#define MATH_ROOT_(x) __dsqrt_rn(x)
#elif defined(__TINYC__)
#define MATH_FN_      static inline
#define MATH_TABLE_   static const
#define MATH_ROOT_(x) math_root_(x)
#else
#define MATH_FN_      static inline
#define MATH_TABLE_   static const
#define MATH_ROOT_(x) __builtin_sqrt(x)
#endif

#define MATH_SIGN_     0x8000000000000000ull
#define MATH_FRACTION_ 0xfffffffffffffull
#define MATH_INFINITY_ math_from_bits_(0x7ff0000000000000ull)
#define MATH_NAN_      math_from_bits_(0x7ff8000000000000ull)

MATH_FN_ u64 math_bits_(double x)
{
    union {
        double f;
        u64    u;
    } both;
    both.f = x;
    return both.u;
}

MATH_FN_ double math_from_bits_(u64 bits)
{
    union {
        double f;
        u64    u;
    } both;
    both.u = bits;
    return both.f;
}

MATH_FN_ double math_size_(double x)
{
    return math_from_bits_(math_bits_(x) & ~MATH_SIGN_);
}

MATH_FN_ double math_signed_(double size, double x)          // SIZE with the sign of X
{
    return math_from_bits_((math_bits_(size) & ~MATH_SIGN_) | (math_bits_(x) & MATH_SIGN_));
}

// 2^k of a normal number.
MATH_FN_ double math_two_to_(i64 k)
{
    return math_from_bits_((u64)(k + 1023) << 52);
}

// ---- to an integer --------------------------------------------------------------------------------------------------
// From 2^52 on every number is an integer; those, infinities and NaN are returned as they are.  0 keeps the sign of X.

#define MATH_WHOLE_ 0x1p52

// To the nearest, half to even, for |x| < 2^52: the sum has no bit for a fraction.
MATH_FN_ double math_nearest_(double x)
{
    const double whole = math_signed_(MATH_WHOLE_, x);
    return (x + whole) - whole;
}

MATH_FN_ double math_floor_(double x)
{
    if (!(math_size_(x) < MATH_WHOLE_))
        return x;
    const double near = math_nearest_(x);
    return math_signed_(near > x ? near - 1 : near, x);
}

MATH_FN_ double math_ceil_(double x)
{
    if (!(math_size_(x) < MATH_WHOLE_))
        return x;
    const double near = math_nearest_(x);
    return math_signed_(near < x ? near + 1 : near, x);
}

MATH_FN_ double math_trunc_(double x)
{
    const double size = math_size_(x);
    if (!(size < MATH_WHOLE_))
        return x;
    const double near = math_nearest_(size);
    return math_signed_(near > size ? near - 1 : near, x);
}

// Half away from zero.
MATH_FN_ double math_round_(double x)
{
    const double size = math_size_(x);
    if (!(size < MATH_WHOLE_))
        return x;
    const double near = math_nearest_(size);
    return math_signed_(size - near == 0.5 ? near + 1 : near, x);
}

// ---- square root ----------------------------------------------------------------------------------------------------

#ifdef __TINYC__
// For a compiler without the instruction.  x is n 2^52 times an even power of 2, and the root of n 2^52 has 53 bits
// before the point: an estimate, corrected by what n 2^52 - root^2 leaves, then rounded (no root ends in exactly a
// half).  What is left is far below 2^63, so 64 bits that wrap around hold it.
MATH_FN_ double math_root_of_(u64 n, i64 exponent)
{
    const double size = (double)(i64)n * 0x1p-52;            // 1 <= size < 4
    double       guess = 0.75 + 0.3 * size;
    for (int i = 0; i < 4; i++)
        guess = 0.5 * (guess + size / guess);
    u64 root = (u64)(i64)(guess * 0x1p52);
    i64 left = (i64)((n << 52) - root * root);
    for (; left < 0; left += (i64)(2 * root + 1))
        root--;
    for (; left > (i64)(2 * root); root++)
        left -= (i64)(2 * root + 1);
    root += left > (i64)root;
    return math_from_bits_(((u64)(exponent + 1023) << 52) + (root & MATH_FRACTION_));
}

MATH_FN_ double math_root_(double x)
{
    if (x == 0 || x == MATH_INFINITY_)
        return x;
    const int is_tiny = x < 0x1p-1022;
    const u64 bits = math_bits_(is_tiny ? x * 0x1p54 : x);
    const i64 exponent = (i64)(bits >> 52) - 1023, is_odd = exponent & 1;
    return math_root_of_(((bits & MATH_FRACTION_) | (1ull << 52)) << is_odd, (exponent - is_odd) / 2 - 27 * is_tiny);
}
#endif

MATH_FN_ double math_sqrt_(double x)
{
    return x >= 0 ? MATH_ROOT_(x) : MATH_NAN_;
}

// ---- high + low -----------------------------------------------------------------------------------------------------

// a + b as a rounded sum and what that lacks; |a| >= |b|, or a is 0.
MATH_FN_ double math_sum_(double a, double b, double *low)
{
    const double high = a + b;
    *low = (a - high) + b;
    return high;
}

// Of 53 bits the first 26.
MATH_FN_ double math_upper_half_(double x)
{
    return math_from_bits_(math_bits_(x) & ~0x7ffffffull);
}

// a * b likewise.  Products of halves are exact, but for that of the lower ones, which is off by 2^-105 of a * b.
MATH_FN_ double math_product_(double a, double b, double *low)
{
    const double high = a * b;
    const double a1 = math_upper_half_(a), a2 = a - a1;
    const double b1 = math_upper_half_(b), b2 = b - b1;
    *low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2;
    return high;
}

// ---- exp ------------------------------------------------------------------------------------------------------------

// 2^(j / 16), as high and low.
MATH_TABLE_ double math_exp_table_[16][2] = {
    { 1,                                         0 },
    { 0x1.0b5586cf9890fp0,   0x1.8a62e4adc610bp-54 },
    { 0x1.172b83c7d517bp0,  -0x1.19041b9d78a76p-55 },
    { 0x1.2387a6e756238p0,   0x1.9b07eb6c70573p-54 },
    { 0x1.306fe0a31b715p0,   0x1.6f46ad23182e4p-55 },
    { 0x1.3dea64c123422p0,   0x1.ada0911f09ebcp-55 },
    { 0x1.4bfdad5362a27p0,   0x1.d4397afec42e2p-56 },
    { 0x1.5ab07dd485429p0,   0x1.6324c054647adp-54 },
    { 0x1.6a09e667f3bcdp0,  -0x1.bdd3413b26456p-54 },
    { 0x1.7a11473eb0187p0,  -0x1.41577ee04992fp-55 },
    { 0x1.8ace5422aa0dbp0,   0x1.6e9f156864b27p-54 },
    { 0x1.9c49182a3f09p0,    0x1.c7c46b071f2bep-56 },
    { 0x1.ae89f995ad3adp0,   0x1.7a1cd345dcc81p-54 },
    { 0x1.c199bdd85529cp0,   0x1.11065895048ddp-55 },
    { 0x1.d5818dcfba487p0,   0x1.2ed02d75b3707p-55 },
    { 0x1.ea4afa2a490dap0,  -0x1.e9c23179c2893p-54 },
};

// ln 2 / 16, high with 15 bits to spare: its multiple is exact.
#define MATH_STEP_HIGH_ 0x1.62e42fefap-5
#define MATH_STEP_LOW_  0x1.cf79abc9e3b3ap-44
#define MATH_STEPS_     0x1.71547652b82fep4                 // 16 / ln 2

// e^r - 1, |r| < 0.022: r + r^2 / 2! + ... + r^7 / 7!, in pairs, so that a CPU need not wait for each term.
MATH_FN_ double math_exp_series_(double r)
{
    const double r2 = r * r;
    const double a = 0.5 + r * 0x1.5555555555555p-3;
    const double b = 0x1.5555555555555p-5 + r * 0x1.1111111111111p-7;
    const double c = 0x1.6c16c16c16c17p-10 + r * 0x1.a01a01a01a01ap-13;
    return r + r2 * (a + r2 * (b + r2 * c));
}

// e^(x + low).  2^k in two steps: k may be 1024, and where the result is subnormal only the second one may round.
MATH_FN_ double math_exp_parts_(double x, double low)
{
    if (x > 710)
        return MATH_INFINITY_;
    if (x < -746)
        return 0;
    const double  steps = math_nearest_(x * MATH_STEPS_);
    const double  r = (x - steps * MATH_STEP_HIGH_) + (low - steps * MATH_STEP_LOW_);
    const i64     n = (i64)steps, k = n >> 4, half = k / 2;
    const double *root = math_exp_table_[n & 15];
    const double  value = root[0] + (root[1] + root[0] * math_exp_series_(r));
    return value * math_two_to_(half) * math_two_to_(k - half);
}

MATH_FN_ double math_exp_(double x)
{
    return x == x ? math_exp_parts_(x, 0) : MATH_NAN_;
}

// ---- ln -------------------------------------------------------------------------------------------------------------

// ln 2, high with 11 bits to spare.
#define MATH_LN2_HIGH_ 0x1.62e42fefa38p-1
#define MATH_LN2_LOW_  0x1.ef35793c7673p-45

// 1 / c for each 32nd of an octave, which begins at MATH_LN_FROM_, and ln c, high with so few bits that its sum with a
// multiple of MATH_LN2_HIGH_ is exact.  Around 1, c is 1: there ln x is all f.
#define MATH_LN_FROM_ 0x3fe6ab0000000000ull

MATH_TABLE_ double math_ln_table_[32][3] = {
    { 1.396484375,   -0x1.55f9107a44p-2,   0x1.1e64778df4a62p-46 },
    { 1.3671875,     -0x1.404308686ap-2,  -0x1.f8ef43049f7d3p-44 },
    { 1.337890625,   -0x1.2a1499f763p-2,   0x1.0dbbf51f3aadcp-44 },
    { 1.310546875,   -0x1.14ef67f887p-2,   0x1.e97a65dfc9794p-44 },
    { 1.28515625,    -0x1.00e6c45ad5p-2,  -0x1.cc68d52e01203p-50 },
    { 1.259765625,   -0x1.d8ef91af32p-3,   0x1.5105fc364c784p-46 },
    { 1.234375,      -0x1.af3c94e80cp-3,   0x1.a4e633fcd9066p-52 },
    { 1.2109375,     -0x1.87fa06520cp-3,  -0x1.22120401202fcp-44 },
    { 1.189453125,   -0x1.6350a28aaap-3,  -0x1.d5ec0ab8163afp-45 },
    { 1.16796875,    -0x1.3dfc2b0eccp-3,  -0x1.8a72a62b8c13fp-45 },
    { 1.146484375,   -0x1.17f6458fcap-3,  -0x1.843fad093c8dcp-45 },
    { 1.126953125,    -0x1.e98b54967p-4,  -0x1.4677489c50e97p-44 },
    { 1.107421875,    -0x1.a1ef1d806p-4,  -0x1.cd4176df97bcbp-44 },
    { 1.087890625,     -0x1.590cafdfp-4,  -0x1.c284f5722abaap-44 },
    { 1.0703125,     -0x1.16536eea38p-4,   0x1.47c5e768fa309p-46 },
    { 1.052734375,    -0x1.a4fe9ffa4p-5,   0x1.6e584a0402925p-44 },
    { 1.03515625,     -0x1.1b0d98924p-5,   0x1.3401e9ae889bbp-44 },
    { 1.017578125,    -0x1.1d7f7eb9fp-6,   0x1.4193a83fcc7a6p-46 },
    { 1.0,                            0,                       0 },
    { 0.974609375,     0x1.a55f548c6p-6,  -0x1.de0709f2d03c9p-45 },
    { 0.9453125,      0x1.ccb73cddd8p-5,   0x1.965c36e09f5fep-44 },
    { 0.91796875,     0x1.5e95a4d978p-4,   0x1.1cb7ce1d17171p-44 },
    { 0.892578125,    0x1.d179788218p-4,   0x1.36433b5efbeedp-44 },
    { 0.869140625,    0x1.1f3b925f26p-3,  -0x1.5f74e9b083633p-46 },
    { 0.845703125,    0x1.5737cc9018p-3,   0x1.9baa7a6b887f6p-44 },
    { 0.82421875,      0x1.8beafeb39p-3,  -0x1.73d54aae92cd1p-47 },
    { 0.802734375,     0x1.c2028ab18p-3,  -0x1.92e0ee55c7ac6p-45 },
    { 0.783203125,     0x1.f474b134ep-3,  -0x1.bae49f1df7b5ep-44 },
    { 0.765625,       0x1.1178e8227ep-2,   0x1.1ef78ce2d07f2p-44 },
    { 0.74609375,     0x1.2bef07cdc9p-2,   0x1.a9cfa4a5004f4p-45 },
    { 0.73046875,     0x1.419b423d5fp-2,  -0x1.ce379226de3ecp-44 },
    { 0.712890625,    0x1.5a8cadbbeep-2,  -0x1.7c79b0af7ecf8p-48 },
};

// x = 2^k c (1 + f + f_low), |f| < 2^-6, for a positive and finite x.  Returns k ln 2 + ln c, which is 0 or larger
// than f, and in *low what it lacks.
MATH_FN_ double math_ln_reduce_(double x, double *low, double *f, double *f_low)
{
    const int     is_tiny = x < 0x1p-1022;
    const u64     bits = math_bits_(is_tiny ? x * 0x1p54 : x);
    const u64     from = bits - MATH_LN_FROM_;
    const i64     exponent = (i64)from >> 52;
    const double  k = (double)(exponent - 54 * is_tiny);
    const double  m = math_from_bits_(bits - ((u64)exponent << 52)), m1 = math_upper_half_(m);
    const double *entry = math_ln_table_[from >> 47 & 31];
    // Where the first part is the smaller one, the sum needs 38 bits only, and low is 0.
    *f = math_sum_(m1 * entry[0] - 1, (m - m1) * entry[0], f_low);
    *low = k * MATH_LN2_LOW_ + entry[2];
    return k * MATH_LN2_HIGH_ + entry[1];
}

// atanh(s) / s - 1 for z = s^2 < 2^-14: z / 3 + z^2 / 5 + ... + z^5 / 11
MATH_FN_ double math_ln_series_(double z)
{
    const double a = 0x1.5555555555555p-2 + z * 0x1.999999999999ap-3;
    const double b = 0x1.2492492492492p-3 + z * 0x1.c71c71c71c71cp-4;
    return z * (a + z * z * (b + z * z * 0x1.745d1745d1746p-4));
}

// ln x as high and low: 2 s, where s = f / (2 + f); s_low, which is the division's remainder divided by 2 + f; and the
// rest of the series.
MATH_FN_ double math_ln_parts_(double x, double *low)
{
    double       f, f_low, base_low, sum_low, product_low;
    const double base = math_ln_reduce_(x, &base_low, &f, &f_low);
    const double s = f / (2 + f), z = s * s, product = math_product_(s, f, &product_low);
    const double left = (((f - 2 * s) - product) - product_low) + (f_low - s * f_low);
    const double s_low = left * (0.5 - f * (0.25 - 0.125 * f));
    const double rest = s * math_ln_series_(z) + (s_low + s_low * z);
    const double sum = math_sum_(base, 2 * s, &sum_low);
    return math_sum_(sum, sum_low + (2 * rest + base_low), low);
}

// What ln and its kind give for a number that has no finite logarithm; 1 for all others.
MATH_FN_ double math_ln_limit_(double x)
{
    if (x == 0)
        return -MATH_INFINITY_;
    return x > 0 ? x == MATH_INFINITY_ ? x : 1 : MATH_NAN_;
}

// ln x alone: as 2 s = f - s f, and s f is small, only f needs more than 53 bits.
MATH_FN_ double math_ln_(double x)
{
    double       f, f_low, base_low, sum_low;
    const double limit = math_ln_limit_(x);
    if (limit != 1)
        return limit;
    const double base = math_ln_reduce_(x, &base_low, &f, &f_low), sum = math_sum_(base, f, &sum_low);
    const double s = f / (2 + f), rest = s * (f - 2 * math_ln_series_(s * s));
    return sum + (sum_low + ((f_low + base_low) - rest));
}

// ln x times the constant SCALE + SCALE_LOW.
MATH_FN_ double math_ln_scaled_(double x, double scale, double scale_low)
{
    double       low, product_low;
    const double limit = math_ln_limit_(x);
    if (limit != 1)
        return limit;
    const double high = math_ln_parts_(x, &low), product = math_product_(high, scale, &product_low);
    return product + (product_low + (high * scale_low + low * scale));
}

MATH_FN_ double math_log10_(double x)
{
    return math_ln_scaled_(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
}

MATH_FN_ double math_log2_(double x)
{
    return math_ln_scaled_(x, 0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56);
}

// ---- power ----------------------------------------------------------------------------------------------------------

// A positive and finite X other than 1, and a finite Y.  |ln x| is at least 2^-53, so from |y| = 2^66 on the result is
// 0 or infinity; a larger y is cut down to that, so that the product stays finite.
MATH_FN_ double math_power_parts_(double x, double y)
{
    double       low, product_low;
    const double high = math_ln_parts_(x, &low);
    if (math_size_(y) > 0x1p66)
        y = math_signed_(0x1p66, y);
    const double product = math_product_(high, y, &product_low);
    return math_exp_parts_(product, product_low + low * y);
}

// An infinite Y, or an X of 0 or infinity.
MATH_FN_ double math_power_limit_(double x_size, double y)
{
    if (x_size == 1)
        return 1;
    return (x_size > 1) == (y > 0) ? MATH_INFINITY_ : 0;
}

MATH_FN_ double math_power_(double x, double y)
{
    const double size = math_size_(x);
    if (x == 1 || y == 0)
        return 1;
    if (x != x || y != y)
        return MATH_NAN_;
    const int    is_limit = size == 0 || size == MATH_INFINITY_ || math_size_(y) == MATH_INFINITY_;
    const double value = is_limit || size == 1 ? math_power_limit_(size, y) : math_power_parts_(size, y);
    if (!(math_bits_(x) & MATH_SIGN_))
        return value;
    if (math_trunc_(y) != y)
        return is_limit ? value : MATH_NAN_;
    return math_trunc_(0.5 * y) == 0.5 * y ? value : -value;
}

#endif
