// test_math.c - functions of doubles: as near to the C library's as they claim, and the same bits from every compiler.

#include "test.h"

#include <float.h>

#include "base/base.h"
#include "jit/jit.h"
#include "jit/jit_int.h"
#include "kernel/kernel.h"

enum { N_INPUTS = 2000000, N_EXACT = 100000, N_COMPILED = 100000 };

typedef struct Function {
    const char *name, *word;
    double (*ours)(double x);
    double (*libc)(double x);
    u64 apart_most;                                         // from libc's, which may be off by one, log10 by two
    long double (*exact)(long double x);                    // more bits, to measure errors below one
} Function;

static const Function functions[] = {
    { "sqrt", "SQRT_F64", math_sqrt, sqrt, 0, sqrtl },      { "exp", "EXP_F64", math_exp, exp, 1, expl },
    { "ln", "LN_F64", math_ln, log, 1, logl },              { "log10", "LOG10_F64", math_log10, log10, 2, log10l },
    { "log2", "LOG2_F64", math_log2, log2, 1, log2l },      { "floor", "FLOOR_F64", math_floor, floor, 0, floorl },
    { "ceil", "CEIL_F64", math_ceil, ceil, 0, ceill },      { "round", "NEAREST_F64", math_round, round, 0, roundl },
    { "trunc", "TRUNC_F64", math_trunc, trunc, 0, truncl },
};

// ---- inputs ---------------------------------------------------------------------------------------------------------

static const double edges[] = {
    0.0, 0x1p-1074, 0x1p-1023, 0x0.fffffffffffffp-1022, 0x1p-1022, 0x1p-60, 0x1p-54, 0x1p-53, 0.1, 0.25,
    0x1.fffffffffffffp-2, 0.5, 0x1.0000000000001p-1, 0x1.fffffffffffffp-1, 1, 0x1.0000000000001p0, 1.5, 2, 2.5, 3, 10,
    100, 1000, 1024, 1074, 1075, 1e15, 1e22, 1e23, 0x1p51, 0x1.0000000000001p51, 0x1p52, 0x1.0000000000001p52,
    0x1.fffffffffffffp52, 0x1p53, 0x1.0000000000001p53, 0x1p62, 0x1p63, 0x1p64, 0x1p66, 0x1p67, 0x1p1023, DBL_MAX,
    INFINITY, NAN,
    // where exp becomes subnormal, infinite or 0; ln 2; where the table of ln begins
    708.3964185322641, 708.3964185322642, 709.7827128933840, 709.7827128933841, 710, 744.4400719213812,
    745.1332191019411, 745.1332191019412, 745.1332191019413, 746, 0x1.62e42fefa39efp-1, 0x1.62e42fefa39efp-2,
    0x1.6abp-1, 0x1.6abp0,
};

static u64 next_random(u64 *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

static double from_bits(u64 bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static u64 to_bits(double x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double between(u64 *random, double low, double high)
{
    return low + (high - low) * (double)(next_random(random) >> 11) * 0x1p-53;
}

// The first call comes first, so that all compilers test the same numbers.
static u64 any_length(u64 *random, int shift_least, int n_shifts)
{
    const u64 bits = next_random(random);
    return bits >> (shift_least + (int)(next_random(random) % (u64)n_shifts));
}

static double any_size(u64 *random, int n_sizes)
{
    const double x = between(random, 0.5, 1);
    return ldexp(x, -(int)(next_random(random) % (u64)n_sizes));
}

static double near_1(u64 *random)
{
    const double off = any_size(random, 53);
    return next_random(random) & 1 ? 1 + off : 1 - off;
}

// A few last places away from X.
static double beside(u64 *random, double x) { return x == 0 ? x : from_bits(to_bits(x) + next_random(random) % 9 - 4); }

// All kinds in turn, after the edges with either sign.
static double input(u64 *random, int i)
{
    if (i < 2 * COUNT_OF(edges)) return i % 2 ? -edges[i / 2] : edges[i / 2];
    const double whole = (double)(i64)any_length(random, 32, 31);
    switch (i % 10) {
        case 0: return from_bits(next_random(random));                                     // any exponent, either sign
        case 1: return from_bits(next_random(random) >> 1);
        case 2: return from_bits(any_length(random, 12, 40));                              // subnormal
        case 3: return near_1(random);
        case 4: return between(random, -746, 711);
        case 5: return between(random, -2, 2);
        case 6: return beside(random, (next_random(random) & 1 ? 1 : -1) * (whole + 0.5)); // halves
        case 7: return beside(random, whole * whole);                                      // squares
        case 8: return beside(random, (double)(int)(next_random(random) % 34400 - 17200) * 0x1.62e42fefa39efp-5);
        default: return between(random, 0, 1000);
    }
}

// Pairs whose power is of any size, near 1 and near the limits, and pairs of whole numbers.
static void input_pair(u64 *random, int i, double *x, double *y)
{
    if (i < 4 * COUNT_OF(edges) * COUNT_OF(edges)) {
        *x = (i & 1 ? -1 : 1) * edges[i / 4 / COUNT_OF(edges)], *y = (i & 2 ? -1 : 1) * edges[i / 4 % COUNT_OF(edges)];
        return;
    }
    *x = i % 3 == 0 ? near_1(random) : i % 3 == 1 ? fabs(input(random, i)) : between(random, 0, 100);
    switch (i % 7) {
        case 0: *y = between(random, -746, 711) / log(*x); break;
        case 1: *y = any_size(random, 60) / log(*x); break;
        case 2: *y = near_1(random) / log(*x) * (i % 2 ? -745.13321910194 : 709.782712893384); break;
        case 3: *x = floor(between(random, -50, 50)), *y = floor(between(random, -60, 60)); break;
        case 4: *x = -*x, *y = floor(between(random, -700, 700) / log(-*x)); break;
        case 5: *y = between(random, -10, 10); break;
        default: *y = input(random, i);
    }
}

// ---- against the C library ------------------------------------------------------------------------------------------

// How many doubles apart; NaNs are equal, zeros of different sign are not.
static u64 apart(double a, double b)
{
    const i64 sign = INT64_MIN, at = (i64)to_bits(a), to = (i64)to_bits(b);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    if (a == 0 && b == 0) return at == to ? 0 : UINT64_MAX;
    const i64 first = at < 0 ? sign - at : at, second = to < 0 ? sign - to : to;
    return first < second ? (u64)second - (u64)first : (u64)first - (u64)second;
}

// In units of the last place of what is right, if that is a number.
static double error_of(double is, long double right)
{
    int exponent;
    if (!isfinite(is) || !isfinite((double)right)) return 0;
    frexp((double)right, &exponent);
    return (double)(fabsl(is - right) / ldexpl(1, MAX_OF(exponent - 53, -1074)));
}

static void tell(const char *name, u64 n_unequal, int n, double error)
{
    print_message("%-6s %5.2f %% of %d are not the C library's; the largest error of %d is %.4f in the last place\n",
                  name, 100.0 * (double)n_unequal / n, n, N_EXACT, error);
}

static void check_function(const Function *function)
{
    u64    random = 88172645463325252ull, n_unequal = 0;
    double error = 0;
    for (int i = 0; i < N_INPUTS; i++) {
        const double x = input(&random, i), is = function->ours(x), should = function->libc(x);
        const u64    n = apart(is, should);
        if (n > function->apart_most) CHECK_FAIL("%s(%a) is %a, should be %a", function->name, x, is, should);
        n_unequal += n > 0;
        if (i < N_EXACT) error = MAX_OF(error, error_of(is, function->exact(x)));
    }
    tell(function->name, n_unequal, N_INPUTS, error);
    CHECK(error < 0.8);
}

TEST(math_functions_are_the_c_librarys_within_one_in_the_last_place)
{
    for (int f = 0; f < COUNT_OF(functions); f++) check_function(&functions[f]);
}

TEST(math_power_is_the_c_librarys_within_one_in_the_last_place)
{
    u64    random = 88172645463325252ull, n_unequal = 0;
    double error = 0, x, y;
    for (int i = 0; i < N_INPUTS; i++) {
        input_pair(&random, i, &x, &y);
        const double is = math_power(x, y), should = pow(x, y);
        const u64    n = apart(is, should);
        if (n > 1) CHECK_FAIL("power(%a, %a) is %a, should be %a", x, y, is, should);
        n_unequal += n;
        if (i < N_EXACT) error = MAX_OF(error, error_of(is, powl(x, y)));
    }
    tell("power", n_unequal, N_INPUTS, error);
    CHECK(error < 0.8);
}

TEST(math_is_exact_where_the_result_is_a_short_number)
{
    for (int k = -1074; k <= 1023; k++) CHECK(math_log2(ldexp(1, k)) == k);
    for (int k = 0; k <= 22; k++) CHECK(math_log10(pow(10, k)) == k);
    for (int k = -1074; k <= 1023; k++) CHECK(math_power(2, k) == ldexp(1, k));
    for (int k = 0; k <= 22; k++) CHECK(math_power(10, k) == pow(10, k));
    for (int n = 1; n <= 200000; n++) CHECK(math_power(n, 2) == (double)n * n);
    for (int n = 1; n <= 200000; n++) CHECK(math_power((double)n * n, 0.5) == n);
    CHECK(math_exp(0) == 1 && math_ln(1) == 0 && math_exp(1) == M_E);
}

// ---- the same bits from every compiler ------------------------------------------------------------------------------

enum { N_RESULTS = COUNT_OF(functions) + 1 };                // the functions of one number, and power

typedef struct Inputs { double x[N_COMPILED], pair_x[N_COMPILED], pair_y[N_COMPILED]; } Inputs;

typedef struct TextArgs { i64 n; const double *x, *pair_x, *pair_y; double *out; } TextArgs;

static Inputs inputs;
static double results[N_RESULTS * N_COMPILED];

static void fill_inputs(void)
{
    u64 random = 0x9E3779B97F4A7C15ull;
    for (int i = 0; i < N_COMPILED; i++) inputs.x[i] = input(&random, i);
    for (int i = 0; i < N_COMPILED; i++) input_pair(&random, i, &inputs.pair_x[i], &inputs.pair_y[i]);
}

// Bit for bit, NaN too.
static void check_results(const char *compiler)
{
    for (int i = 0; i < N_COMPILED; i++) {
        const double x = inputs.x[i], pair_x = inputs.pair_x[i], pair_y = inputs.pair_y[i];
        const double power = results[COUNT_OF(functions) * N_COMPILED + i], should_power = math_power(pair_x, pair_y);
        for (int f = 0; f < COUNT_OF(functions); f++) {
            const double is = results[f * N_COMPILED + i], should = functions[f].ours(x);
            if (to_bits(is) != to_bits(should))
                CHECK_FAIL("%s: %s(%a) is %a, should be %a", compiler, functions[f].name, x, is, should);
        }
        if (to_bits(power) != to_bits(should_power))
            CHECK_FAIL("%s: power(%a, %a) is %a, should be %a", compiler, pair_x, pair_y, power, should_power);
    }
    memset(results, 0, sizeof results);
}

static KernelFunction compiled(Jit *jit, const char *text, const char *name, JitMode mode)
{
    Error       err = { 0 };
    Code       *code;
    const char *notice;
    JitTier     tier;
    CHECK_OK(jit_get(jit, text, name, mode, &code, &notice, &err), err);
    if (notice) CHECK_FAIL("%s", notice);
    KernelFunction function = code_function(code, &tier);
    print_message("%s: %s compiled in %.2f ms\n", name, jit_tier_name(tier), code_compile_ms(code, tier));
    return function;
}

static void add_text(Text *text)
{
    text_add(text, "void p_text(void *args)\n{\n    TextArgs *a = args;\n");
    for (int f = 0; f < COUNT_OF(functions); f++)
        text_add(text, "    for (i64 i = 0; i < a->n; i++) a->out[%d + i] = math_%s_(a->x[i]);\n", f * N_COMPILED,
                 functions[f].name);
    text_add(text, "    for (i64 i = 0; i < a->n; i++) a->out[%d + i] = math_power_(a->pair_x[i], a->pair_y[i]);\n}\n",
             COUNT_OF(functions) * N_COMPILED);
}

static void check_text(const char *cc, JitMode mode)
{
    Text prelude = { 0 }, text = { 0 };
    text_add(&prelude,
             "typedef long long i64; typedef unsigned long long u64;\n"
             "typedef struct TextArgs { i64 n; const double *x, *pair_x, *pair_y; double *out; } TextArgs;\n%s",
             math_text);
    add_text(&text);
    Jit *jit = jit_new(&(JitOptions){ .prelude = prelude.bytes, .cache_dir = "", .cc = cc });
    TextArgs args = { N_COMPILED, inputs.x, inputs.pair_x, inputs.pair_y, results };
    compiled(jit, text.bytes, "p_text", mode)(&args);
    check_results(mode == JIT_TCC ? "tcc" : cc);
    jit_free(jit);
    text_free(&prelude);
    text_free(&text);
}

TEST(math_text_gives_the_same_bits_from_every_compiler)
{
    fill_inputs();
    check_text("cc", JIT_TCC);
    check_text("cc", JIT_CC);
    if (system("clang --version > /dev/null 2>&1") == 0) check_text("clang", JIT_CC);
}

// As kernels have them: tcc's code calls, cc's has the text before it.
static void add_words(Text *text)
{
    text_add(text,
             "KERNEL(p_words)\n{\n    COLUMN(f64, x, 0)\n    COLUMN(f64, pair_x, 1)\n    COLUMN(f64, pair_y, 2)\n"
             "    SUMS(f64, out, 0)\n    TILES {\n        ROWS(live)\n        LOAD(f64, x, live)\n"
             "        LOAD(f64, pair_x, live)\n        LOAD(f64, pair_y, live)\n        EACH_ROW(live) {\n");
    for (int f = 0; f < COUNT_OF(functions); f++)
        text_add(text, "            out[%d + t_ + i] = %s(x[i]);\n", f * N_COMPILED, functions[f].word);
    text_add(text, "            out[%d + t_ + i] = POWER_F64(pair_x[i], pair_y[i]);\n        }\n    }\n}\n",
             COUNT_OF(functions) * N_COMPILED);
}

TEST(math_words_give_the_same_bits_in_both_tiers)
{
    const KernelColumn columns[] = { { .data = inputs.x }, { .data = inputs.pair_x }, { .data = inputs.pair_y } };
    void              *state[] = { results };
    KernelArgs         args = { .row_end = N_COMPILED, .columns = columns, .state = state, .words = kernel_words() };
    Text               prelude = { 0 }, text = { 0 };
    text_add(&prelude, "%s\n%s\n", kernel_args_text, kernel_cpu_text);
    add_words(&text);
    Jit *jit = jit_new(&(JitOptions){ .prelude = prelude.bytes, .cache_dir = "" });
    fill_inputs();
    compiled(jit, text.bytes, "p_words", JIT_TCC)(&args);
    check_results("tcc");
    compiled(jit, text.bytes, "p_words", JIT_CC)(&args);
    check_results("cc");
    jit_free(jit);
    text_free(&prelude);
    text_free(&text);
}

// ---- only where they are needed -------------------------------------------------------------------------------------

static void check_is_recognised(const char *word, size_t length)
{
    char text[80];
    snprintf(text, sizeof text, "    PUT(o0, %.*s(level[i]))\n", (int)length, word);
    if (jit_functions(text) != math_text)
        CHECK_FAIL("%.*s is no word that src/jit/functions.c knows", (int)length, word);
}

TEST(math_text_comes_with_its_words_only)
{
    int n_words = 0;
    for (const char *at = kernel_cpu_text; (at = strstr(at, "\n#define ")); at++) {
        const char *word = at + 9, *end = strchr(word, '\n'), *call = strstr(word, " math_");
        if (!call || call > end) continue;
        check_is_recognised(word, strcspn(word, "("));
        n_words++;
    }
    CHECK_INT(n_words, N_RESULTS);
    CHECK_STR(jit_functions("PARAM_F64(x, 0) ROUND_F64(r, x, low, high, 0) LEAST_F64(a0_, x) F64_BITS(r, x)"), "");
}
