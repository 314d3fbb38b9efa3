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
#define WIDE_FN_ static __device__ inline
#else
#define WIDE_FN_ static inline
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

#endif
