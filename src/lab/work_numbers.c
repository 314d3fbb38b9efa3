// work_numbers.c - work of kernels that compute: matrix multiplication, convolution, option prices, md5, distances.
//
// Kernels are compiled without fused multiply-add, so what is only added, multiplied and rooted is the same to the last
// bit; exp, log and cos of a GPU may differ in the last places, and so may what is computed from them.

#include <math.h>
#include <md5.h>

#include "lab/work.h"

extern const char lab_matrix_multiply_text[], lab_convolution_text[], lab_black_scholes_text[], lab_monte_carlo_text[],
    lab_md5_text[], lab_radial_distribution_text[];

static u64 item_count(const WorkSize *size)
{
    return (u64)size->n_threads * (u64)size->items;
}

// ---- matrix multiplication ------------------------------------------------------------------------------------------

// ITEMS are multiplications, in thousands.
static void make_matrix_multiply(LabWork *work, const WorkSize *size)
{
    u64 n = 32;
    while ((n + 32) * (n + 32) * (n + 32) <= item_count(size) * 1000)
        n += 32;
    work->n[0] = n;
    work_input_floats(work, 0, n * n, -1, 1);
    work_input_floats(work, 1, n * n, -1, 1);
    work->out_bytes[0] = n * n * sizeof(float);
}

// A row of the result.
static void multiply_row(const float *a, const float *b, u64 n, double *row)
{
    memset(row, 0, n * sizeof *row);
    for (u64 k = 0; k < n; k++)
        for (u64 column = 0; column < n; column++)
            row[column] += (double)a[k] * b[k * n + column];
}

static weft_status check_matrix_multiply(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *a = work->in[0], *b = work->in[1], *c = out[0];
    const u64 n = work->n[0];
    Arena *arena = arena_new(NULL, "row");
    double *should = arena_array(arena, double, n);
    weft_status status = WEFT_OK;
    for (u64 row = 0; row < n && !status; row++) {
        multiply_row(a + row * n, b, n, should);
        for (u64 column = 0; column < n && !status; column++)
            if (!work_is_near(c[row * n + column], should[column], 1e-5, 1e-5 * (double)n))
                status = work_differs(work, "value", row * n + column, c[row * n + column], should[column], err);
    }
    arena_free(arena);
    return status;
}

const WorkKind work_matrix_multiply = {
    "matrix_multiply", "matrix_multiply", lab_matrix_multiply_text, 93, 4, make_matrix_multiply, check_matrix_multiply,
};

// ---- convolution ----------------------------------------------------------------------------------------------------

enum { RADIUS = 8, IMAGE_WIDTH = 1000 };                    // the radius as in kernels/convolution.cu

static void make_convolution(LabWork *work, const WorkSize *size)
{
    const u64 width = work->n[0] = MIN_OF(item_count(size), IMAGE_WIDTH);
    const u64 height = work->n[1] = MAX_OF(item_count(size) / width, 1);
    work_input_floats(work, 0, width * height, 0, 255);
    work_input_floats(work, 1, 2 * RADIUS + 1, -1, 1);
    work->out_bytes[0] = width * height * sizeof(float);
}

static double convolve(const float *row, const float *mask, i64 width, i64 at)
{
    double sum = 0;
    for (i64 i = -RADIUS; i <= RADIUS; i++)
        if (at + i >= 0 && at + i < width)
            sum += (double)row[at + i] * mask[i + RADIUS];
    return sum;
}

static weft_status check_convolution(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *image = work->in[0], *mask = work->in[1], *is = out[0];
    const u64 width = work->n[0];
    for (u64 i = 0; i < width * work->n[1]; i++) {
        const double should = convolve(image + i / width * width, mask, (i64)width, (i64)(i % width));
        if (!work_is_near(is[i], should, 1e-5, 1e-3))
            return work_differs(work, "value", i, is[i], should, err);
    }
    return WEFT_OK;
}

const WorkKind work_convolution = {
    "convolution", "convolution", lab_convolution_text, 1024, 16, make_convolution, check_convolution,
};

// ---- Black-Scholes --------------------------------------------------------------------------------------------------

static void make_black_scholes(LabWork *work, const WorkSize *size)
{
    const u64 n = work->n[0] = item_count(size);
    work_input_floats(work, 0, n, 5, 30);
    work_input_floats(work, 1, n, 1, 100);
    work_input_floats(work, 2, n, 0.25f, 10);
    work->f[0] = 0.02f;
    work->f[1] = 0.3f;
    work->out_bytes[0] = work->out_bytes[1] = n * sizeof(float);
}

static double normal_share(double d)                        // the kernel has a polynomial
{
    return 0.5 * erfc(-d * M_SQRT1_2);
}

static weft_status check_black_scholes(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *prices = work->in[0], *strikes = work->in[1], *years = work->in[2], *calls = out[0], *puts = out[1];
    const double rate = work->f[0], volatility = work->f[1];
    for (u64 i = 0; i < work->n[0]; i++) {
        const double spread = volatility * sqrt(years[i]), today = strikes[i] * exp(-rate * years[i]);
        const double d1 = (log((double)prices[i] / strikes[i]) + rate * years[i]) / spread + spread / 2;
        const double call = prices[i] * normal_share(d1) - today * normal_share(d1 - spread);
        const double put = call - prices[i] + today;        // by parity, which the kernel does not use
        if (!work_is_near(calls[i], call, 1e-4, 1e-3))
            return work_differs(work, "call", i, calls[i], call, err);
        if (!work_is_near(puts[i], put, 1e-4, 1e-3))
            return work_differs(work, "put", i, puts[i], put, err);
    }
    return WEFT_OK;
}

const WorkKind work_black_scholes = {
    "black_scholes", "black_scholes", lab_black_scholes_text, 512, 16, make_black_scholes, check_black_scholes,
};

// ---- Monte Carlo ----------------------------------------------------------------------------------------------------

static void make_monte_carlo(LabWork *work, const WorkSize *size)
{
    work->n[0] = item_count(size);                          // paths
    work->n[1] = 64;                                        // steps of a path
    work->n[2] = (u32)work_random(work);
    work->f[0] = 100, work->f[1] = 102, work->f[2] = 0.0002f, work->f[3] = 0.02f;
    work->out_bytes[0] = sizeof(u64);
}

static u32 mix(u32 x)                                       // as in kernels/monte_carlo.cu: the same paths
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static double next_normal(u32 *state)
{
    const double u1 = ((*state = mix(*state + 0x9e3779b9u)) >> 8) + 0.5;
    const double u2 = ((*state = mix(*state + 0x9e3779b9u)) >> 8) + 0.5;
    return sqrt(-2 * log(u1 / (1 << 24))) * cos(2 * M_PI * u2 / (1 << 24));
}

static double payoff_of(const LabWork *work, u64 path)
{
    u32 state = mix((u32)work->n[2] ^ mix((u32)path));
    double now = work->f[0], total = 0;
    for (u64 step = 0; step < work->n[1]; step++) {
        now *= exp((double)work->f[2] + (double)work->f[3] * next_normal(&state));
        total += now;
    }
    return MAX_OF(total / (double)work->n[1] - work->f[1], 0);
}

static weft_status check_monte_carlo(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u64 *is = out[0];
    double sum = 0;
    for (u64 path = 0; path < work->n[0]; path++)
        sum += payoff_of(work, path);
    const double mean = (double)*is / 65536 / (double)work->n[0], should = sum / (double)work->n[0];
    return work_is_near(mean, should, 1e-3, 1e-3) ? WEFT_OK : work_differs(work, "price", 0, mean, should, err);
}

const WorkKind work_monte_carlo = {
    "monte_carlo", "monte_carlo", lab_monte_carlo_text, 64, 2, make_monte_carlo, check_monte_carlo,
};

// ---- md5 ------------------------------------------------------------------------------------------------------------

enum { MESSAGE_WORDS = 8, DIGEST_WORDS = 4 };

static void digest_of(const u32 *messages, u64 n, u64 i, u32 digest[DIGEST_WORDS])
{
    u32 message[MESSAGE_WORDS];
    MD5_CTX state;
    for (u64 w = 0; w < MESSAGE_WORDS; w++)
        message[w] = messages[w * n + i];
    MD5Init(&state);
    MD5Update(&state, (const u8 *)message, sizeof message);
    MD5Final((u8 *)digest, &state);
}

// One digest of 16 is wrong in one bit.
static void make_md5(LabWork *work, const WorkSize *size)
{
    const u64 n = work->n[0] = item_count(size);
    const u32 *messages = work_input_numbers(work, 0, n * MESSAGE_WORDS, UINT32_MAX);
    u32 *digests = work_input(work, 1, n * DIGEST_WORDS * sizeof *digests), digest[DIGEST_WORDS];
    for (u64 i = 0; i < n; i++) {
        digest_of(messages, n, i, digest);
        if (work_random_below(work, 16) == 0)
            digest[work_random_below(work, DIGEST_WORDS)] ^= 1u << work_random_below(work, 32);
        for (u64 w = 0; w < DIGEST_WORDS; w++)
            digests[w * n + i] = digest[w];
    }
    work->out_bytes[0] = n;
    work->out_bytes[1] = sizeof(u32);
}

static weft_status check_md5(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const u32 *messages = work->in[0], *digests = work->in[1], *n_wrong = out[1];
    const u8 *is_right = out[0];
    const u64 n = work->n[0];
    u32 digest[DIGEST_WORDS], wrong = 0;
    for (u64 i = 0; i < n; i++) {
        bool right = true;
        digest_of(messages, n, i, digest);
        for (u64 w = 0; w < DIGEST_WORDS; w++)
            right = right && digest[w] == digests[w * n + i];
        wrong += !right;
        if (is_right[i] != right)
            return work_differs(work, "verdict", i, is_right[i], right, err);
    }
    return *n_wrong == wrong ? WEFT_OK : work_differs(work, "wrong digests", 0, *n_wrong, wrong, err);
}

const WorkKind work_md5 = {
    "md5", "md5", lab_md5_text, 512, 16, make_md5, check_md5,
};

// ---- radial distribution --------------------------------------------------------------------------------------------

enum { N_BUCKETS = 512, NEIGHBOURS_MOST = 8192 };           // the buckets as in kernels/radial_distribution.cu

// ITEMS are pairs.  As many atoms as make so many pairs with each other; beyond NEIGHBOURS_MOST of an atom, more atoms.
static void make_radial_distribution(LabWork *work, const WorkSize *size)
{
    const double n_pairs = (double)item_count(size);
    u64 n = (u64)sqrt(2 * n_pairs) | 1;
    if (n > 2 * NEIGHBOURS_MOST)
        n = ((u64)(n_pairs / NEIGHBOURS_MOST) - 1) | 1;     // no more than threads, where each has so many
    work->n[0] = n = MAX_OF(n, 3);
    work->n[1] = MIN_OF((n - 1) / 2, NEIGHBOURS_MOST);
    for (int i = 0; i < 3; i++)
        work_input_floats(work, i, n, 0, 100);
    work->f[0] = N_BUCKETS / 174.0f;                        // the diagonal of the box is 173.2
    work->out_bytes[0] = N_BUCKETS * sizeof(u64);
}

static weft_status check_radial_distribution(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *x = work->in[0], *y = work->in[1], *z = work->in[2];
    const u64 n = work->n[0], *is = out[0];
    u64 counts[N_BUCKETS] = { 0 };
    for (u64 i = 0; i < n; i++)
        for (u64 after = 1; after <= work->n[1]; after++) {
            const u64 j = i + after < n ? i + after : i + after - n;
            const float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            const u32 bucket = (u32)(sqrtf(dx * dx + dy * dy + dz * dz) * work->f[0]);
            counts[MIN_OF(bucket, N_BUCKETS - 1)]++;
        }
    for (int i = 0; i < N_BUCKETS; i++)
        if (is[i] != counts[i])
            return work_differs(work, "bucket", (u64)i, (double)is[i], (double)counts[i], err);
    return WEFT_OK;
}

const WorkKind work_radial_distribution = {
    "radial_distribution", "radial_distribution", lab_radial_distribution_text, 23300, NEIGHBOURS_MOST,
    make_radial_distribution, check_radial_distribution,
};

// ---- arithmetic: one kernel or one operation of it ------------------------------------------------------------------

extern const char lab_arithmetic_text[];

typedef enum ArithmeticPart { ALL_OF_IT, ONE_MINUS, ONE_PLUS, PRODUCT } ArithmeticPart;    // as in arithmetic.cu

static void make_part(LabWork *work, const WorkSize *size, ArithmeticPart part, int n_inputs)
{
    const u64 n = work->n[0] = item_count(size);
    work->n[1] = part;
    for (int i = 0; i < n_inputs; i++)
        work_input_floats(work, i, n, 0, i ? 0.1f : 100);
    work->out_bytes[0] = n * sizeof(float);
}

static void make_all_of_it(LabWork *work, const WorkSize *size)
{
    make_part(work, size, ALL_OF_IT, 3);
}

static void make_one_minus(LabWork *work, const WorkSize *size)
{
    make_part(work, size, ONE_MINUS, 1);
}

static void make_one_plus(LabWork *work, const WorkSize *size)
{
    make_part(work, size, ONE_PLUS, 1);
}

static void make_product(LabWork *work, const WorkSize *size)
{
    make_part(work, size, PRODUCT, 2);
}

static weft_status check_arithmetic(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *a = work->in[0], *b = work->in[1], *c = work->in[2], *is = out[0];
    for (u64 i = 0; i < work->n[0]; i++) {
        const float should = work->n[1] == ALL_OF_IT   ? a[i] * (1.0f - b[i]) * (1.0f + c[i])
                             : work->n[1] == ONE_MINUS ? 1.0f - a[i]
                             : work->n[1] == ONE_PLUS  ? 1.0f + a[i]
                                                       : a[i] * b[i];
        if (is[i] != should)
            return work_differs(work, "value", i, is[i], should, err);
    }
    return WEFT_OK;
}

const WorkKind work_arithmetic = {
    "arithmetic", "arithmetic", lab_arithmetic_text, 1024, 64, make_all_of_it, check_arithmetic,
};
const WorkKind work_one_minus = {
    "one_minus", "arithmetic", lab_arithmetic_text, 1024, 64, make_one_minus, check_arithmetic,
};
const WorkKind work_one_plus = {
    "one_plus", "arithmetic", lab_arithmetic_text, 1024, 64, make_one_plus, check_arithmetic,
};
const WorkKind work_product = {
    "product", "arithmetic", lab_arithmetic_text, 1024, 64, make_product, check_arithmetic,
};
