// words.c - the loops of cpu.h, compiled with the library for the tier that cannot optimise them.
//
// tcc is quick to compile and slow to run: 4 to 5 times slower than gcc, and most of that is lost in a few loops that
// every kernel has.  So those are compiled here, once per width, from the same macros, and tcc's code calls them tile
// by tile.

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#include "base/base.h"
#include "kernel/kernel.h"

#include <pthread.h>

#include "kernel/cpu.h"

static u16         picks[256 * 8];
static KernelWords words;

static u32 pick(u16 *live, u8 *mask, u32 n_rows, const u16 *table)
{
    u32 n;
    PICK_(live, n, mask, n_rows, table)
    return n;
}

static void fetch(const void *column, u32 width, const u16 *live, u32 n)
{
    for (u32 k = 0; k < n; k++) __builtin_prefetch((const u8 *)column + (u64)width * live[k]);
}

static void spread(void *const *state, u64 group, f64 value, i64 unit, u32 log, u32 n)
{
    SPREAD_(state, group, value, unit, log, n);
}

#define ONE_KEY(type)                                                                                                  \
    static void between_##type(u8 *mask, const void *column, u64 low_, u64 span_, u32 n_rows, u32 also)                \
    {                                                                                                                  \
        const type *stored = column, low = (type)low_, span = (type)span_;                                             \
        if (also) BETWEEN_LOOP_(mask, type, stored, low, span, n_rows, &=)                                             \
        else BETWEEN_LOOP_(mask, type, stored, low, span, n_rows, =)                                                   \
    }                                                                                                                  \
    static void test_flag_##type(u8 *mask, const void *column, u64 from, const u8 *table, u32 n_rows)                  \
    {                                                                                                                  \
        const type *stored = column;                                                                                   \
        TEST_LOOP_(mask, n_rows, FLAG(table, stored[i] + from))                                                        \
    }                                                                                                                  \
    static void test_bit_##type(u8 *mask, const void *column, u64 from, const u8 *table, u32 n_rows)                   \
    {                                                                                                                  \
        const type *stored = column;                                                                                   \
        TEST_LOOP_(mask, n_rows, BIT(table, stored[i] + from))                                                         \
    }                                                                                                                  \
    static u32 filter_flag_##type(u16 *live, u32 n, const void *column, u64 from, const u8 *table)                     \
    {                                                                                                                  \
        const type *stored = column;                                                                                   \
        FILTER_LOOP_(live, n, FLAG(table, stored[i] + from))                                                           \
        return n;                                                                                                      \
    }                                                                                                                  \
    static u32 filter_bit_##type(u16 *live, u32 n, const void *column, u64 from, const u8 *table)                      \
    {                                                                                                                  \
        const type *stored = column;                                                                                   \
        FILTER_LOOP_(live, n, BIT(table, stored[i] + from))                                                            \
        return n;                                                                                                      \
    }                                                                                                                  \
    static void gather_##type(void *out_, const void *column, const u16 *rows, u32 n_rows)                             \
    {                                                                                                                  \
        const type *stored = column;                                                                                   \
        type       *out = out_;                                                                                        \
        for (u32 i = 0; i < n_rows; i++) out[i] = stored[rows[i]];                                                     \
    }

#define KEY_AND_PAYLOAD(type, ptype)                                                                                   \
    static void test_lookup_##type##_##ptype(u8 *mask, void *carried_, const void *column, u64 from,                   \
                                             const void *table_, u32 n_rows)                                           \
    {                                                                                                                  \
        const type  *stored = column;                                                                                  \
        const ptype *table = table_;                                                                                   \
        ptype       *carried = carried_;                                                                               \
        TEST_LOOKUP_LOOP_(mask, carried, ptype, stored, from, table, n_rows)                                           \
    }                                                                                                                  \
    static u32 filter_lookup_##type##_##ptype(u16 *live, u32 n, void *carried_, const void *column, u64 from,          \
                                              const void *table_)                                                      \
    {                                                                                                                  \
        const type  *stored = column;                                                                                  \
        const ptype *table = table_;                                                                                   \
        ptype       *carried = carried_;                                                                               \
        FILTER_LOOKUP_LOOP_(live, n, carried, ptype, stored, from, table)                                              \
        return n;                                                                                                      \
    }

#define EACH_WIDTH(DO) DO(u8) DO(u16) DO(u32) DO(u64)
#define EACH_PAIR(DO)                                                                                               \
    DO(u8, u8)                                                                                                      \
    DO(u8, u16) DO(u8, u32) DO(u8, u64) DO(u16, u8) DO(u16, u16) DO(u16, u32) DO(u16, u64) DO(u32, u8) DO(u32, u16) \
        DO(u32, u32) DO(u32, u64) DO(u64, u8) DO(u64, u16) DO(u64, u32) DO(u64, u64)

EACH_WIDTH(ONE_KEY)
EACH_PAIR(KEY_AND_PAYLOAD)

static void fill_in(void)
{
    for (int which = 0; which < 256; which++)
        for (int j = 0, n = 0; j < 8; j++)
            if (which >> j & 1) picks[8 * which + n++] = (u16)j;
    words.pick = pick, words.fetch = fetch, words.spread = spread;
    words.sqrt = math_sqrt, words.exp = math_exp, words.ln = math_ln, words.log10 = math_log10, words.log2 = math_log2;
    words.power = math_power;
    words.floor = math_floor, words.ceil = math_ceil, words.round = math_round, words.trunc = math_trunc;
    words.wide_multiply = wide_multiply, words.wide_divide = wide_divide, words.wide_to_f64 = wide_to_f64;
    words.wide_from_f64 = wide_from_f64, words.wide_quotient = wide_quotient;
    words.wide_rounded_product = wide_rounded_product, words.wide_decimal_to_f64 = wide_decimal_to_f64;
#define SET_KEY(type)                                                                                                  \
    words.between[sizeof(type)] = between_##type, words.test_flag[sizeof(type)] = test_flag_##type;                    \
    words.test_bit[sizeof(type)] = test_bit_##type, words.filter_flag[sizeof(type)] = filter_flag_##type;              \
    words.filter_bit[sizeof(type)] = filter_bit_##type, words.gather[sizeof(type)] = gather_##type;
#define SET_PAIR(type, ptype)                                                                                          \
    words.test_lookup[sizeof(type)][sizeof(ptype)] = test_lookup_##type##_##ptype;                                     \
    words.filter_lookup[sizeof(type)][sizeof(ptype)] = filter_lookup_##type##_##ptype;
    EACH_WIDTH(SET_KEY)
    EACH_PAIR(SET_PAIR)
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const KernelWords *kernel_words(void)
{
    pthread_once(&once, fill_in);
    return &words;
}

const u16 *kernel_picks(void)
{
    pthread_once(&once, fill_in);
    return picks;
}
