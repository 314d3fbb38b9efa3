// wide_text.h - numbers of 128 bits as two words, where it takes more than a line: products, quotients, doubles.
//
// One text for every compiler, as math_text.h: tcc and NVRTC have no type of 128 bits.  wide.c includes it for the
// host; the jit puts it before kernels that use these functions, for cc and NVRTC (wide_text in base.h).  A number is a
// high word and a low word, two's complement: high * 2^64 + (u64)low.
//
// NVRTC would inline all of it at every call, once for each row of a thread, and unroll each loop there: one division
// in the text of a kernel took 33 s to compile, and 0.4 as a function that is called (WIDE_CALL_) with loops that stay
// loops (WIDE_LOOP_).  What is inlined still (WIDE_FN_) is short.
//
// Names end in _, as no column's name does.  Needs i64, u64 and u32.

#ifndef WEFT_WIDE_TEXT_H
#define WEFT_WIDE_TEXT_H

#if defined(__CUDACC__)
#define WIDE_FN_    static __device__ inline
#define WIDE_CALL_  static __device__ __noinline__
#define WIDE_LOOP_  _Pragma("unroll 1")
#define WIDE_TABLE_ static __device__ const
#else
#define WIDE_FN_    static inline
#define WIDE_CALL_  static inline
#define WIDE_LOOP_
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
    WIDE_LOOP_ for (int bit = 0; bit < 128; bit++) {
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
WIDE_CALL_ void wide_divide_(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int is_rest, i64 *high, i64 *low)
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
WIDE_CALL_ double wide_to_f64_(i64 a_high, i64 a_low)
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

// D 10^UP, D being 2 10^15 at most.  0: beyond 128 bits, or (IS_EXACT) a digit is lost.
WIDE_FN_ int wide_times_tens_(u64 d, int up, int is_negative, int is_exact, i64 *high, i64 *low)
{
    u64 h, l;
    *high = *low = 0;
    if (up > 38 || up < -17)                                // more digits than a number has; far less than a half
        return up < 0 && !is_exact;
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
    return !is_exact || !rest;
}

// X as a decimal of this SCALE, 0 to 38, by its first N_DIGITS digits: 15, or 6 where it is a real; -15 or -6: and none
// of these may be lost.  0: no finite number, beyond 128 bits, or one is lost.
WIDE_CALL_ int wide_from_f64_(double x, int n_digits, int scale, i64 *high, i64 *low)
{
    union {
        double f;
        u64    u;
    } bits;
    bits.f = x;
    const int exponent = (int)(bits.u >> 52 & 0x7ff) - 1023, is_negative = (int)(bits.u >> 63), is_exact = n_digits < 0;
    u64       m = (bits.u & 0xfffffffffffffull) | 1ull << 52, limit, digits, round;
    int       e = exponent - 52;
    *high = *low = 0;
    if (exponent < -130 || exponent > 126)                  // below 10^-39: 0; from 2^127 on: 39 digits
        return exponent < 0 && (!is_exact || x == 0);
    if (is_exact)
        n_digits = -n_digits;
    if (n_digits == 6 && !(m & 0x1fffffff))                 // a real has 24 bits
        m >>= 29, e += 29;
    limit = wide_fives_[n_digits] << n_digits;
    // floor(exponent log10 2) is the exponent of ten, or one less than that, which shows.
    WIDE_LOOP_ for (int q = ((exponent * 1233) >> 12) - n_digits + 1;; q++) {
        digits = q > 0 ? wide_over_fives_(m, q, e - q, &round) : wide_times_fives_(m, -q, q - e, &round);
        if (digits < limit)
            return wide_times_tens_(digits + round, q + scale, is_negative, is_exact, high, low);
    }
}

// ---- quotients ------------------------------------------------------------------------------------------------------
// As PostgreSQL has them: a quotient has at least 16 significant digits, counted in fours as it stores numbers, and at
// least the digits behind the point of either operand.  What a number shows behind the point is said with it, since
// 1.50 and 1.5 are the same number; of a quotient that comes without, as many digits are taken as a quotient of that
// size has (wide_shown_).

enum { WIDE_UNKNOWN_ = -1,             // digits behind the point: as many as a quotient of that size has
       WIDE_SCALE_LEAST_ = 16 };       // with a smaller scale no digit of a quotient may be lost

// 10^n, n <= 19.
WIDE_FN_ u64 wide_ten_(int n)
{
    return wide_fives_[n] << n;
}

WIDE_FN_ int wide_is_below_(u64 ah, u64 al, u64 bh, u64 bl)
{
    return ah < bh || (ah == bh && al < bl);
}

// 10^n, n <= 38.
WIDE_FN_ void wide_ten_to_(int n, u64 *high, u64 *low)
{
    wide_product_(wide_ten_(n < 19 ? n : 19), wide_ten_(n < 19 ? 0 : n - 19), high, low);
}

// Of a whole number; 0 has one, as any number below 10.
WIDE_CALL_ int wide_count_digits_(u64 high, u64 low)
{
    u64 h, l;
    int n = 1;
    if (!high) {
        WIDE_LOOP_ while (n < 20 && low >= wide_ten_(n)) n++;
        return n;
    }
    WIDE_LOOP_ for (n = 20; n < 39; n++) {
        wide_ten_to_(n, &h, &l);
        if (wide_is_below_(high, low, h, l)) break;
    }
    return n;
}

// Long division by half words (Knuth, volume 2, 4.3.1, D): U of eight by V of four, lowest first; V is not 0.  The
// quotient takes the place of U, the rest that of V.
WIDE_CALL_ void wide_divide_halves_(u32 *u, u32 *v)
{
    u32 q[8] = { 0 }, top = 0, carry = 0;
    int n = 4, shift = 0;
    WIDE_LOOP_ while (n > 1 && !v[n - 1]) n--;
    if (n == 1) {
        u64 rest = 0;
        WIDE_LOOP_ for (int i = 7; i >= 0; i--) {
            rest = rest << 32 | u[i];
            u[i] = (u32)(rest / v[0]), rest %= v[0];
        }
        v[0] = (u32)rest;
        return;
    }
    WIDE_LOOP_ while (!((u64)v[n - 1] << shift >> 31)) shift++;
    WIDE_LOOP_ for (int i = 0; shift && i < n; i++) {
        const u32 next = v[i] >> (32 - shift);
        v[i] = v[i] << shift | carry, carry = next;
    }
    carry = 0;
    WIDE_LOOP_ for (int i = 0; shift && i < 8; i++) {
        const u32 next = u[i] >> (32 - shift);
        u[i] = u[i] << shift | carry, carry = next;
    }
    top = carry;
    WIDE_LOOP_ for (int j = 8 - n; j >= 0; j--) {
        const u32 first = j + n == 8 ? top : u[j + n];
        const u64 pair = (u64)first << 32 | u[j + n - 1];
        u64       digit = pair / v[n - 1], rest = pair % v[n - 1];
        i64       borrow = 0;
        WIDE_LOOP_ while (digit >> 32 || digit * v[n - 2] > (rest << 32 | u[j + n - 2])) {
            digit--, rest += v[n - 1];
            if (rest >> 32) break;
        }
        WIDE_LOOP_ for (int i = 0; i < n; i++) {
            const u64 product = digit * v[i];
            const i64 left = (i64)(u64)u[i + j] - borrow - (i64)(product & 0xffffffffull);
            u[i + j] = (u32)left;
            borrow = (i64)(product >> 32) - (left >> 32);
        }
        if ((i64)(u64)first - borrow < 0) {
            u64 over = 0;
            digit--;
            WIDE_LOOP_ for (int i = 0; i < n; i++) {
                over += (u64)u[i + j] + v[i];
                u[i + j] = (u32)over, over >>= 32;
            }
        }
        if (j + n < 8) u[j + n] = 0;
        q[j] = (u32)digit;
    }
    WIDE_LOOP_ for (int i = 0; i < 4; i++)
        v[i] = i >= n ? 0 : u[i] >> shift | (shift && i + 1 < n ? u[i + 1] << (32 - shift) : 0);
    WIDE_LOOP_ for (int i = 0; i < 8; i++) u[i] = q[i];
}

// U times a word, within eight half words.  0: beyond them.
WIDE_CALL_ int wide_times_word_(u32 *u, u64 word)
{
    u32 r[8] = { 0 };
    WIDE_LOOP_ for (int part = 0; part < 2; part++) {
        const u64 half = part ? word >> 32 : word & 0xffffffffull;
        u64       carry = 0;
        WIDE_LOOP_ for (int i = 0; half && i + part < 8; i++) {
            carry += u[i] * half;
            const u64 sum = (carry & 0xffffffffull) + r[i + part];
            r[i + part] = (u32)sum, carry = (carry >> 32) + (sum >> 32);
        }
        if (carry || (part && half && u[7])) return 0;
    }
    WIDE_LOOP_ for (int i = 0; i < 8; i++) u[i] = r[i];
    return 1;
}

WIDE_FN_ void wide_to_halves_(u64 high, u64 low, u32 *u)
{
    u[0] = (u32)low, u[1] = (u32)(low >> 32), u[2] = (u32)high, u[3] = (u32)(high >> 32);
}

// round(A * 10^UP / B), half away from zero, of whole numbers; 0 <= UP <= 76, B is not 0.  0: beyond 38 digits.
WIDE_CALL_ int wide_scaled_quotient_(u64 ah, u64 al, int up, u64 bh, u64 bl, u64 *high, u64 *low)
{
    u32 u[8] = { 0 }, v[4];
#if defined(__SIZEOF_INT128__) && !defined(__CUDACC__)
    for (; up > 19 && !ah && al < WIDE_SIGN_ / 10; up--) al *= 10;
    if (!(ah | bh) && up <= 19) {                           // most are so short
        const unsigned __int128 a = (unsigned __int128)al * wide_ten_(up), q = (a + bl / 2) / bl;
        *high = (u64)(q >> 64), *low = (u64)q;
        return wide_is_below_(*high, *low, 0x4b3b4ca85a86c47aull, 0x098a224000000000ull);
    }
#endif
    wide_to_halves_(ah, al, u);
    wide_to_halves_(bh, bl, v);
    for (; up > 19; up -= 19)
        if (!wide_times_word_(u, wide_ten_(19))) return 0;
    if (up > 0 && !wide_times_word_(u, wide_ten_(up))) return 0;
    wide_divide_halves_(u, v);
    if (u[4] | u[5] | u[6] | u[7]) return 0;
    const u64 rh = (u64)v[3] << 32 | v[2], rl = (u64)v[1] << 32 | v[0];
    const u64 to_go_low = bl - rl, to_go_high = bh - rh - (bl < rl);
    *high = (u64)u[3] << 32 | u[2], *low = (u64)u[1] << 32 | u[0];
    if (!wide_is_below_(rh, rl, to_go_high, to_go_low)) *high += ++*low == 0;
    return wide_is_below_(*high, *low, 0x4b3b4ca85a86c47aull, 0x098a224000000000ull);
}

WIDE_FN_ int wide_count_bits_(u64 high, u64 low)
{
    int n = high ? 64 : 0;
    for (high = high ? high : low; high; high >>= 1) n++;
    return n;
}

// A / 10^SCALE as the nearest double, half to even; SCALE is 38 at most.  The quotient gets 66 bits or more, of which
// the last says whether there is a rest: then only wide_to_f64_ rounds.
WIDE_CALL_ double wide_decimal_to_f64_(i64 a_high, i64 a_low, int scale)
{
    u64       h = (u64)a_high, l = (u64)a_low, th, tl;
    const int is_negative = wide_magnitude_(&h, &l);
    u32       u[8] = { 0 }, v[4];
    double    power = 1, x;
    if (!h && l < 1ull << 53 && scale < 20) {               // both are exact as doubles
        x = (double)(i64)l / (double)wide_ten_(scale);
        return is_negative ? -x : x;
    }
    wide_ten_to_(scale, &th, &tl);
    int shift = 66 + wide_count_bits_(th, tl) - wide_count_bits_(h, l);
    if (shift < 0 || !(h | l)) shift = 0;
    wide_to_halves_(h, l, u);
    wide_to_halves_(th, tl, v);
    for (int left = shift; left > 0; left -= left < 32 ? left : 32) {
        const int by = left < 32 ? left : 32;
        wide_times_word_(u, 1ull << by);
    }
    for (int i = 0; i < shift; i++) power *= 0.5;
    wide_divide_halves_(u, v);
    h = (u64)u[3] << 32 | u[2], l = (u64)u[1] << 32 | u[0];
    if (v[0] | v[1] | v[2] | v[3]) l |= 1;
    x = wide_to_f64_((i64)h, (i64)l) * power;
    return is_negative ? -x : x;
}

// Digits come in fours, counted from the point: the place of the first four that are not 0, and what they are.
WIDE_CALL_ int wide_first_four_(u64 high, u64 low, int scale, int *place)
{
    u64       h, l;
    const int first = wide_count_digits_(high, low) - 1 - scale;
    *place = 0;
    if (!(high | low)) return 0;
    *place = first >= 0 ? first / 4 : -((3 - first) / 4);
    const int down = scale + 4 * *place;
    if (down <= 0) return (int)(low * wide_ten_(-down));
    if (!high && down < 20) return (int)(low / wide_ten_(down));
    u32 u[8] = { 0 }, v[4];
    wide_ten_to_(down, &h, &l);
    wide_to_halves_(high, low, u);
    wide_to_halves_(h, l, v);
    wide_divide_halves_(u, v);
    return (int)u[0];
}

// Whether the last N digits of a whole number are 0.
WIDE_CALL_ int wide_ends_in_zeros_(u64 high, u64 low, int n)
{
    u64 h, l;
    u32 u[8] = { 0 }, v[4];
    if (!high && n < 20) return low % wide_ten_(n) == 0;
    if (n > 38) return !(high | low);
    wide_ten_to_(n, &h, &l);
    wide_to_halves_(high, low, u);
    wide_to_halves_(h, l, v);
    wide_divide_halves_(u, v);
    return !(v[0] | v[1] | v[2] | v[3]);
}

// How many digits behind the point a quotient of that size shows; more where it has more that are not 0.
WIDE_CALL_ int wide_shown_(i64 a_high, i64 a_low, int scale)
{
    u64 h = (u64)a_high, l = (u64)a_low;
    int place, shown;
    wide_magnitude_(&h, &l);
    if (!(h | l)) return scale < 20 ? scale : 20;
    const int is_one = wide_first_four_(h, l, scale, &place) == 1;
    const int zeros = scale + 4 * place;                    // 1, 10000, ...: of numbers that begin alike
    shown = 16 - 4 * place;
    if (is_one && zeros > 0 && wide_ends_in_zeros_(h, l, zeros)) shown += 4;
    if (shown < 0) shown = 0;
    while (shown < scale && !wide_ends_in_zeros_(h, l, scale - shown)) shown++;
    return shown < scale ? shown : scale;
}

// A / B, at SCALE digits behind the point; those that the quotient does not show are 0.  A_SHOWN and B_SHOWN: how many
// digits behind the point the operands show (all others are 0), or WIDE_UNKNOWN_.  SCALE is no less than either, and
// 38 at most; B is not 0.  *SHOWN: what the quotient shows.  0: beyond 38 digits, or SCALE is below 16
// and has no room for all that the quotient should show.
WIDE_CALL_ int wide_quotient_(i64 a_high, i64 a_low, int a_scale, int a_shown, i64 b_high, i64 b_low, int b_scale,
                            int b_shown, int scale, i64 *high, i64 *low, int *shown)
{
    u64       ah = (u64)a_high, al = (u64)a_low, bh = (u64)b_high, bl = (u64)b_low, h, l;
    int       a_place, b_place, digits;
    *high = *low = *shown = 0;
    if (a_shown < 0) a_shown = wide_shown_(a_high, a_low, a_scale);
    if (b_shown < 0) b_shown = wide_shown_(b_high, b_low, b_scale);
    const int is_negative = wide_magnitude_(&ah, &al) != wide_magnitude_(&bh, &bl);
    const int a_four = wide_first_four_(ah, al, a_scale, &a_place),
              b_four = wide_first_four_(bh, bl, b_scale, &b_place);
    digits = 16 - 4 * (a_place - b_place - (a_four <= b_four));
    if (digits < a_shown) digits = a_shown;
    if (digits < b_shown) digits = b_shown;
    *shown = digits < scale ? digits : scale;
    if (digits > scale && scale < WIDE_SCALE_LEAST_) return 0;
    digits = *shown;
    if (digits + b_scale < a_scale) {                       // then the last digits of A are 0
        wide_ten_to_(a_scale - digits - b_scale, &h, &l);
        if (!wide_scaled_quotient_(ah, al, 0, h, l, &ah, &al)) return 0;
        a_scale = digits + b_scale;
    }
    if (!wide_scaled_quotient_(ah, al, digits + b_scale - a_scale, bh, bl, &h, &l)) return 0;
    if (digits < scale && !wide_scaled_quotient_(h, l, scale - digits, 0, 1, &h, &l)) return 0;
    if (is_negative) wide_negate_(&h, &l);
    *high = (i64)h, *low = (i64)l;
    return 1;
}

// A * B, rounded to DOWN digits less than they have together, half away from zero.  0: beyond 38 digits.
WIDE_CALL_ int wide_rounded_product_(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int down, i64 *high, i64 *low)
{
    u64       ah = (u64)a_high, al = (u64)a_low, bh = (u64)b_high, bl = (u64)b_low, h, l;
    const int is_negative = wide_magnitude_(&ah, &al) != wide_magnitude_(&bh, &bl);
    u32       u[8] = { 0 }, more[8] = { 0 }, v[4];
    u64       carry = 0;
    *high = *low = 0;
    wide_to_halves_(ah, al, u);
    wide_to_halves_(ah, al, more);
    wide_times_word_(u, bl);
    wide_times_word_(more, bh);
    WIDE_LOOP_ for (int i = 0; i < 6; i++) {
        carry += (u64)u[i + 2] + more[i];
        u[i + 2] = (u32)carry, carry >>= 32;
    }
    wide_ten_to_(down, &h, &l);
    wide_to_halves_(h, l, v);
    wide_divide_halves_(u, v);
    if (u[4] | u[5] | u[6] | u[7]) return 0;
    const u64 rh = (u64)v[3] << 32 | v[2], rl = (u64)v[1] << 32 | v[0];
    const u64 to_go_low = l - rl, to_go_high = h - rh - (l < rl);
    ah = (u64)u[3] << 32 | u[2], al = (u64)u[1] << 32 | u[0];
    if (!wide_is_below_(rh, rl, to_go_high, to_go_low)) ah += ++al == 0;
    if (!wide_is_below_(ah, al, 0x4b3b4ca85a86c47aull, 0x098a224000000000ull)) return 0;
    if (is_negative) wide_negate_(&ah, &al);
    *high = (i64)ah, *low = (i64)al;
    return 1;
}

#endif
