// wide_text.h - numbers of 128 bits as two words, where it takes more than a line: products, quotients, doubles.
//
// One text for every compiler, as math_text.h: tcc and NVRTC have no type of 128 bits.  wide.c includes it for the
// host; the jit puts it before kernels that use these functions, for cc and NVRTC (wide_text in base.h).  A number is a
// high word and a low word, two's complement: high * 2^64 + (u64)low.
//
// Names end in _, as no column's name does.  Needs i64 and u64.

#ifndef WEFT_WIDE_TEXT_H
#define WEFT_WIDE_TEXT_H

#if defined(__CUDACC__)
#define WIDE_FN_    static __device__ inline
#define WIDE_TABLE_ static __device__ const
#else
#define WIDE_FN_    static inline
#define WIDE_TABLE_ static const
#endif

#define WIDE_SIGN_ 0x8000000000000000ull

// 64 by 64 bits to 128, by halves.
WIDE_FN_ void wide_product_(u64 a, u64 b, u64 *high, u64 *low)
{
    const u64 a0 = a & 0xffffffffull, a1 = a >> 32, b0 = b & 0xffffffffull, b1 = b >> 32;
    const u64 p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0;
    const u64 middle = (p00 >> 32) + (p01 & 0xffffffffull) + (p10 & 0xffffffffull);
    *low = (p00 & 0xffffffffull) | middle << 32;
    *high = a1 * b1 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
}

WIDE_FN_ void wide_negate_(u64 *high, u64 *low)
{
    *low = 0 - *low;
    *high = ~*high + (*low == 0);
}

// The sign goes, and is given back.
WIDE_FN_ int wide_magnitude_(u64 *high, u64 *low)
{
    const int is_negative = (*high & WIDE_SIGN_) != 0;
    if (is_negative) wide_negate_(high, low);
    return is_negative;
}

// 0: the product leaves 128 bits.  (-2^127 is taken to leave them, too: it has 39 digits.)
WIDE_FN_ int wide_multiply_(i64 a_high, i64 a_low, i64 b_high, i64 b_low, i64 *high, i64 *low)
{
    u64       ah = (u64)a_high, al = (u64)a_low, bh = (u64)b_high, bl = (u64)b_low, h, l, cross, over;
    const int a_sign = wide_magnitude_(&ah, &al), b_sign = wide_magnitude_(&bh, &bl);
    *high = *low = 0;
    if (ah && bh) return 0;
    wide_product_(al, bl, &h, &l);
    wide_product_(ah ? ah : bh, ah ? bl : al, &over, &cross);
    h += cross;
    if (over || h < cross || (h & WIDE_SIGN_)) return 0;
    if (a_sign != b_sign) wide_negate_(&h, &l);
    *high = (i64)h, *low = (i64)l;
    return 1;
}

// Whole numbers, bit by bit: the quotient takes the place of A, what is left is the rest.
WIDE_FN_ void wide_long_division_(u64 *ah, u64 *al, u64 bh, u64 bl, u64 *rest_high, u64 *rest_low)
{
    u64 rh = 0, rl = 0;
    for (int bit = 0; bit < 128; bit++) {
        const u64 out = rh >> 63;
        rh = rh << 1 | rl >> 63, rl = rl << 1 | *ah >> 63;
        *ah = *ah << 1 | *al >> 63, *al <<= 1;
        if (out || rh > bh || (rh == bh && rl >= bl)) {
            rh = rh - bh - (rl < bl), rl -= bl;
            *al |= 1;
        }
    }
    *rest_high = rh, *rest_low = rl;
}

// A / B rounded half away from zero, or (IS_REST) what is left when it is cut towards zero.  B is not 0.
WIDE_FN_ void wide_divide_(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int is_rest, i64 *high, i64 *low)
{
    u64       ah = (u64)a_high, al = (u64)a_low, bh = (u64)b_high, bl = (u64)b_low, rh, rl;
    const int a_sign = wide_magnitude_(&ah, &al), b_sign = wide_magnitude_(&bh, &bl);
    wide_long_division_(&ah, &al, bh, bl, &rh, &rl);
    if (is_rest) {
        if (a_sign) wide_negate_(&rh, &rl);
        *high = (i64)rh, *low = (i64)rl;
        return;
    }
    const u64 to_go_low = bl - rl, to_go_high = bh - rh - (bl < rl);
    if (rh > to_go_high || (rh == to_go_high && rl >= to_go_low)) ah += ++al == 0;
    if (a_sign != b_sign) wide_negate_(&ah, &al);
    *high = (i64)ah, *low = (i64)al;
}

// The nearest double, half to even.  All but the first 63 bits can only decide a tie: they become one bit.
WIDE_FN_ double wide_to_f64_(i64 a_high, i64 a_low)
{
    u64       h = (u64)a_high, l = (u64)a_low;
    const int is_negative = wide_magnitude_(&h, &l);
    double    scale = 1;
    while (h || l >> 63) {
        const u64 lost = l & 1;
        l = (l >> 1 | h << 63) | lost, h >>= 1;
        scale *= 2;
    }
    return (is_negative ? -(double)(i64)l : (double)(i64)l) * scale;
}

// ---- doubles to decimals --------------------------------------------------------------------------------------------
// By their significant digits, 15 of a double and 6 of a real, as PostgreSQL has it: 1.005 is 1.005, and not what its
// bits say.  |x| = m 2^e; with q so that the digits d = m 2^e / 10^q are a whole number of that length, all integers:
//
//     q <= 0    d = m 5^-q / 2^(q - e)          a product of 179 bits at most, shifted
//     q > 0     d = m 2^(e - q) / 5^q           128 bits at most, divided
//
// d is rounded half to even, as printf does it; then d 10^(q + scale) half away from zero, as exact numbers are.

WIDE_TABLE_ u64 wide_fives_[28] = {                         // 5^n: all that a word holds
    1ull, 5ull, 25ull, 125ull,
    625ull, 3125ull, 15625ull, 78125ull,
    390625ull, 1953125ull, 9765625ull, 48828125ull,
    244140625ull, 1220703125ull, 6103515625ull, 30517578125ull,
    152587890625ull, 762939453125ull, 3814697265625ull, 19073486328125ull,
    95367431640625ull, 476837158203125ull, 2384185791015625ull, 11920928955078125ull,
    59604644775390625ull, 298023223876953125ull, 1490116119384765625ull, 7450580596923828125ull,
};

// 5^n, n <= 54.
WIDE_FN_ void wide_five_to_(int n, u64 *high, u64 *low)
{
    wide_product_(wide_fives_[n < 27 ? n : 27], wide_fives_[n < 27 ? 0 : n - 27], high, low);
}

// M 5^N / 2^SHIFT, cut, in a word; SHIFT > 0.  *ROUND: what half to even adds to it.
WIDE_FN_ u64 wide_times_fives_(u64 m, int n, int shift, u64 *round)
{
    u64 high, low, w0, w1, w2, carry, is_more = 0;
    wide_five_to_(n, &high, &low);
    wide_product_(m, low, &carry, &w0);
    wide_product_(m, high, &w2, &w1);
    w1 += carry;
    w2 += w1 < carry;
    for (; shift > 64; shift -= 64)
        is_more |= w0, w0 = w1, w1 = w2, w2 = 0;
    const u64 half = 1ull << (shift - 1), digits = shift == 64 ? w1 : w0 >> shift | w1 << (64 - shift);
    is_more |= w0 & (half - 1);
    *round = (w0 & half) && (is_more || (digits & 1));
    return digits;
}

// M 2^SHIFT / 5^N likewise; SHIFT may be negative.  What is divided has 128 bits at most, and so has the divisor.
WIDE_FN_ u64 wide_over_fives_(u64 m, int n, int shift, u64 *round)
{
    u64 ah = 0, al = m, bh, bl, rh = 0, rl;
    wide_five_to_(n, &bh, &bl);
    for (; shift >= 1; shift--)
        ah = ah << 1 | al >> 63, al <<= 1;
    for (; shift < 0; shift++)
        bh = bh << 1 | bl >> 63, bl <<= 1;
    if (ah | bh)
        wide_long_division_(&ah, &al, bh, bl, &rh, &rl);
    else
        rl = al % bl, al /= bl;
    const u64 to_go_low = bl - rl, to_go_high = bh - rh - (bl < rl);
    const int is_tie = rh == to_go_high && rl == to_go_low;
    *round = is_tie ? al & 1 : rh > to_go_high || (rh == to_go_high && rl > to_go_low);
    return al;
}

// D 10^UP, D being 2 10^15 at most.  0: beyond 128 bits.
WIDE_FN_ int wide_times_tens_(u64 d, int up, int is_negative, i64 *high, i64 *low)
{
    u64 h, l;
    *high = *low = 0;
    if (up > 38 || up < -17)                                // more digits than a number has; far less than a half
        return up < 0;
    if (up >= 0) {
        const i64 whole = is_negative ? -(i64)d : (i64)d;
        wide_five_to_(up, &h, &l);
        if (up)
            h = h << up | l >> (64 - up), l <<= up;
        return wide_multiply_(-is_negative, whole, (i64)h, (i64)l, high, low);
    }
    const u64 power = wide_fives_[-up] << -up, rest = d % power, whole = d / power + (rest >= power - rest);
    *low = is_negative ? -(i64)whole : (i64)whole;
    *high = -(*low < 0);
    return 1;
}

// X as a decimal of this SCALE, 0 to 38, by its first N_DIGITS digits: 15, or 6 where it is a real.  0: no finite
// number, or beyond 128 bits.
WIDE_FN_ int wide_from_f64_(double x, int n_digits, int scale, i64 *high, i64 *low)
{
    union {
        double f;
        u64    u;
    } bits;
    bits.f = x;
    const int exponent = (int)(bits.u >> 52 & 0x7ff) - 1023, is_negative = (int)(bits.u >> 63);
    u64       m = (bits.u & 0xfffffffffffffull) | 1ull << 52, limit, digits, round;
    int       e = exponent - 52;
    *high = *low = 0;
    if (exponent < -130 || exponent > 126)                  // below 10^-39: 0; from 2^127 on: 39 digits
        return exponent < 0;
    if (n_digits == 6 && !(m & 0x1fffffff))                 // a real has 24 bits
        m >>= 29, e += 29;
    limit = wide_fives_[n_digits] << n_digits;
    // floor(exponent log10 2) is the exponent of ten, or one less than that, which shows.
    for (int q = ((exponent * 1233) >> 12) - n_digits + 1;; q++) {
        digits = q > 0 ? wide_over_fives_(m, q, e - q, &round) : wide_times_fives_(m, -q, q - e, &round);
        if (digits < limit)
            return wide_times_tens_(digits + round, q + scale, is_negative, high, low);
    }
}

#endif
