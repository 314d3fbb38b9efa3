// test_float_sum.c - sums of floats are the exact sum, rounded once: the same bits whatever the order.
//
// Compared with another exact algorithm (Shewchuk's: a sum is a few doubles that do not overlap), which shares no idea
// with ours.

#include "test.h"
#include "float_help.h"

#include "engine/exact.h"
#include "engine_help.h"

// ---- the reference --------------------------------------------------------------------------------------------------

// a + b exactly, as the nearest double and what it lacks.  No multiplication: nothing that a compiler could fuse.
static void add_exactly(double a, double b, double *sum, double *rest)
{
    if (fabs(a) < fabs(b)) {
        double swap = a;
        a = b;
        b = swap;
    }
    *sum = a + b;
    *rest = b - (*sum - a);
}

// Not for sums beyond the largest double.
static double reference_sum(const double *values, size_t n_values)
{
    double partials[2200], sum = 0, rest = 0;               // increasing in magnitude, no bit in two of them
    int n = 0;
    for (size_t i = 0; i < n_values; i++) {
        double x = values[i];
        int kept = 0;
        for (int j = 0; j < n; j++) {
            add_exactly(x, partials[j], &x, &rest);
            if (rest != 0)
                partials[kept++] = rest;
        }
        partials[kept] = x;
        n = kept + 1;
    }
    if (n > 0)
        sum = partials[--n];
    for (rest = 0; n > 0 && rest == 0;)
        add_exactly(sum, partials[--n], &sum, &rest);
    // Half way between two doubles, so far: what is below decides.
    if (n > 0 && rest != 0 && (rest < 0) == (partials[n - 1] < 0)) {
        double twice = 2 * rest, next = sum + twice;
        if (next - sum == twice)
            sum = next;
    }
    return sum;
}

// How far N times MEAN is from the sum.
static double distance(const double *values, size_t n, double mean)
{
    double *all = malloc(sizeof(double) * 2 * (n + 1));
    for (size_t i = 0; i < n; i++) {
        all[2 * i] = values[i];
        all[2 * i + 1] = -mean;
    }
    double is = fabs(reference_sum(all, 2 * n));
    free(all);
    return is;
}

// No neighbour is nearer.
static bool is_mean(const double *values, size_t n, double mean)
{
    double is = distance(values, n, mean);
    return is <= distance(values, n, nextafter(mean, INFINITY)) &&
           is <= distance(values, n, nextafter(mean, -INFINITY));
}

// ---- rounding -------------------------------------------------------------------------------------------------------

static u64 bits_of(double value)
{
    u64 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

#define CHECK_SAME(is, should)                                                                            \
    do {                                                                                                  \
        double is_ = (is), should_ = (should);                                                            \
        if (bits_of(is_) != bits_of(should_))                                                             \
            CHECK_FAIL("%s:%d: is %.17g, should be %.17g", __FILE__, __LINE__, is_, should_);             \
    } while (0)

TEST(parts_are_put_together_and_rounded_once)
{
    CHECK_SAME(exact_round((i64[]){ 0 }, 1, 40, 0, 1), 0);
    CHECK_SAME(exact_round((i64[]){ -5, 1 }, 2, 3, 0, 1), 3);
    CHECK_SAME(exact_round((i64[]){ 5, -1 }, 2, 3, -1, 1), -1.5);
    CHECK_SAME(exact_round((i64[]){ ((i64)1 << 53) + 1 }, 1, 51, 0, 1), 0x1p53);               // half: to even
    CHECK_SAME(exact_round((i64[]){ ((i64)1 << 53) + 3 }, 1, 51, 0, 1), 0x1p53 + 4);
    // A little more than half.
    CHECK_SAME(exact_round((i64[]){ 1, 0, ((i64)1 << 53) + 1 }, 3, 40, -80, 1), 0x1p53 + 2);
    CHECK_SAME(exact_round((i64[]){ -1, 0, ((i64)1 << 53) + 1 }, 3, 40, -80, 1), 0x1p53);
    CHECK_SAME(exact_round((i64[]){ INT64_MAX, INT64_MAX }, 2, 51, 0, 1), 0x1p114 + 0x1p63);
    CHECK_SAME(exact_round((i64[]){ INT64_MIN, INT64_MIN }, 2, 51, 0, 1), -0x1p114 - 0x1p63);
    CHECK_SAME(exact_round((i64[]){ 3 }, 1, 51, -1074, 1), 3 * 0x1p-1074);
    // Subnormals: half, to even.
    CHECK_SAME(exact_round((i64[]){ 3 }, 1, 51, -1074, 2), 2 * 0x1p-1074);
    CHECK_SAME(exact_round((i64[]){ 1 }, 1, 51, -1074, 2), 0);
    CHECK_SAME(exact_round((i64[]){ 5 }, 1, 51, -1074, 3), 2 * 0x1p-1074);
    CHECK_SAME(exact_round((i64[]){ 1 }, 1, 51, 0, 3), 1.0 / 3);
    CHECK_SAME(exact_round((i64[]){ -2 }, 1, 51, 0, 3), -2.0 / 3);
    CHECK_SAME(exact_round((i64[]){ 1 }, 1, 51, 1023, 1), 0x1p1023);
    CHECK_SAME(exact_round((i64[]){ 2 }, 1, 51, 1023, 1), INFINITY);
    CHECK_SAME(exact_round((i64[]){ -2 }, 1, 51, 1023, 1), -INFINITY);
    CHECK_SAME(exact_round((i64[]){ 2 }, 1, 51, 1023, 2), 0x1p1023);
    CHECK_SAME(exact_round((i64[]){ ((i64)1 << 54) - 1 }, 1, 51, 970, 1), INFINITY);           // rounds up to 2^1024
}

// The sum is the rounded one and the rest together, to twice as many bits.
TEST(what_rounding_took_away)
{
    CHECK_SAME(exact_rest((i64[]){ 0 }, 1, 40, 0), 0);
    CHECK_SAME(exact_rest((i64[]){ 77 }, 1, 40, -3), 0);
    CHECK_SAME(exact_rest((i64[]){ ((i64)1 << 53) + 1 }, 1, 51, 0), 1);
    CHECK_SAME(exact_rest((i64[]){ ((i64)1 << 53) + 3 }, 1, 51, 0), -1);
    CHECK_SAME(exact_rest((i64[]){ -((i64)1 << 53) - 3 }, 1, 51, 0), 1);
    CHECK_SAME(exact_rest((i64[]){ 1, 0, (i64)1 << 52 }, 3, 40, -80), 0x1p-80);
    CHECK_SAME(exact_rest((i64[]){ -1, 0, ((i64)1 << 53) + 1 }, 3, 40, -80), 1);       // 1 - 2^-80, rounded
    CHECK_SAME(exact_rest((i64[]){ 3 }, 1, 51, -1074), 0);
}

// ---- sums through SQL -----------------------------------------------------------------------------------------------

enum { N_ROWS = 3000, N_GROUPS = 5 };

typedef struct Data {
    const char *name;
    double      x[N_ROWS], y[N_ROWS], r[N_ROWS];
    u8          is_null[N_ROWS];                            // x
    i64         g[N_ROWS], h[N_ROWS];                       // groups, and the same as keys far apart
} Data;

typedef double (*FloatOf)(int row);

static double one_of_cents(int row) { return (double)(random_bits() % 10000000) / 100; }
static double one_of_integers(int row) { return (double)((i64)(random_bits() >> 24) - ((i64)1 << 39)); }
static double one_of_many(int row) { return random_float(-40, 40); }
static double one_of_all(int row) { return random_float(-900, 900); }
static double one_of_tiny(int row) { return ldexp((double)(i64)(random_bits() % 1000 - 500), -1074); }
static double one_of_huge(int row) { return random_float(1000, 1010); }
static double one_that_cancels(int row) { return row % 3 == 0 ? 1e16 + row : row % 3 == 1 ? 0.1 : -1e16 - (row - 2); }
static double one_half(int row) { return row % 7 == 0 ? 0x1p53 : row % 7 == 1 ? 1 : row % 7 == 2 ? 0x1p-30 : 0; }
static double one_zero(int row) { return row % 2 ? 0.0 : -0.0; }

static void make_data(Data *data, FloatOf one)
{
    for (int i = 0; i < N_ROWS; i++) {
        data->x[i] = one(i);
        data->is_null[i] = random_bits() % 11 == 0;
        data->y[i] = random_float(-3, 4);
        if (data->x[i] * data->y[i] == 0 && data->x[i] != 0)
            data->y[i] = 1;                                 // a product that rounds to 0 is an error
        data->r[i] = (double)(float)random_float(-6, 6);
        data->g[i] = (i64)(random_bits() % N_GROUPS);
        data->h[i] = data->g[i] * 800000000000000000;
    }
    error_clear(&err);
    Append *append;
    u64 n_rows;
    const ColumnInput inputs[] = { { .i = data->g }, { .i = data->h }, { .f = data->x, .is_null = data->is_null },
                                   { .f = data->y }, { .f = data->r } };
    CHECK_OK(append_begin(db->store, "t", &append, &err), err);
    CHECK_OK(append_rows(append, 0, inputs, N_ROWS, &err), err);
    CHECK_OK(append_commit(append, &n_rows, &err), err);
}

typedef struct Picked {                                     // of a group; -1: of all
    double x[N_ROWS], xy[N_ROWS], r[N_ROWS], other[N_ROWS];
    size_t n_x, n_rows;
} Picked;

static Picked *pick(const Data *data, int group)
{
    Picked *picked = calloc(1, sizeof(*picked));
    for (int i = 0; i < N_ROWS; i++) {
        if (group >= 0 && data->g[i] != group)
            continue;
        picked->r[picked->n_rows] = data->r[i];
        picked->other[picked->n_rows++] = (1 - data->y[i]) / 3;
        if (data->is_null[i])
            continue;
        volatile double product = data->x[i] * data->y[i];  // rounded, not fused with what follows
        picked->xy[picked->n_x] = product;
        picked->x[picked->n_x++] = data->x[i];
    }
    return picked;
}

#define SUMS "sum(x), sum(x * y), sum(r), sum((1 - y) / 3), avg(x), avg(r)"

static void check_row(const weft_result *result, size_t row, int first, const Data *data, int group)
{
    double is[6];
    Picked *picked = pick(data, group);
    for (int c = 0; c < 6; c++)
        is[c] = weft_result_column(result, first + c)->f64[row];
    CHECK_SAME(is[0], reference_sum(picked->x, picked->n_x));
    CHECK_SAME(is[1], reference_sum(picked->xy, picked->n_x));
    CHECK_SAME(is[2], reference_sum(picked->r, picked->n_rows));
    CHECK_SAME(is[3], reference_sum(picked->other, picked->n_rows));
    CHECK(is_mean(picked->x, picked->n_x, is[4]));
    CHECK(is_mean(picked->r, picked->n_rows, is[5]));
    free(picked);
}

static void check_sums(const Data *data)
{
    const char *by[] = { "select g, " SUMS " from t group by g order by g",
                         "select h, " SUMS " from t group by h order by h" };
    weft_result *result = query("select " SUMS " from t");
    check_row(result, 0, 0, data, -1);
    weft_result_free(result);
    for (int b = 0; b < 2; b++) {
        result = query(by[b]);
        CHECK_INT(weft_result_rows(result), N_GROUPS);
        for (int g = 0; g < N_GROUPS; g++)
            check_row(result, (size_t)g, 1, data, g);
        weft_result_free(result);
    }
}

static void start_table(const char *chunk_rows)
{
    char sql[128];
    open_db(NULL);
    snprintf(sql, sizeof(sql), "set chunk_rows = %s", chunk_rows);
    run(sql);
    run("create table t (g integer, h bigint, x double precision, y double precision, r real)");
}

static const struct { const char *name; FloatOf one;
} kinds[] = {
    { "cents", one_of_cents },          { "integers", one_of_integers }, { "many exponents", one_of_many },
    { "all exponents", one_of_all },    { "tiny", one_of_tiny },         { "huge", one_of_huge },
    { "cancelling", one_that_cancels }, { "halves", one_half },          { "zeros", one_zero },
};

TEST(sums_are_exact_whatever_the_values)
{
    const char *settings[] = { "set jit = tcc; set weave = on", "set jit = tcc; set weave = off",
                               "set jit = cc; set weave = on" };
    Data *data = calloc(1, sizeof(*data));
    for (int k = 0; k < COUNT_OF(kinds); k++)
        for (int small = 0; small < 2; small++) {
            state = (u64)k + 1;
            start_table(small ? "64" : "1000000");
            make_data(data, kinds[k].one);
            for (int s = 0; s < COUNT_OF(settings); s++) {
                run(settings[s]);
                check_sums(data);
            }
            close_db();
        }
    free(data);
}

// What a naive sum would give differs from chunk size to chunk size; this does not, and threads and company do not
// matter either.
TEST(sums_do_not_depend_on_threads_or_on_other_queries)
{
    enum { N_OTHERS = 5, N_ROUNDS = 12 };
    const char *others[N_OTHERS] = { "select count(*) from t where x > 0", "select g, max(x) from t group by g",
                                     "select " SUMS " from t", "select sum(x), sum(y * r) from t where g < 3",
                                     "select h, avg(y) from t where r > 0 group by h" };
    Data *data = calloc(1, sizeof(*data));
    start_table("64");
    state = 99;
    make_data(data, one_of_many);
    weft_session *sessions[N_OTHERS];
    for (int i = 0; i < N_OTHERS; i++)
        CHECK_OK(weft_connect(db, &sessions[i], &err), err);
    for (int round = 0; round < N_ROUNDS; round++) {
        weft_task *tasks[N_OTHERS];
        run(round % 2 ? "set threads = 1" : "set threads = default");
        for (int i = 0; i < N_OTHERS; i++)
            CHECK_OK(weft_submit(sessions[i], others[(i + round) % N_OTHERS], &tasks[i], &err), err);
        check_sums(data);
        for (int i = 0; i < N_OTHERS; i++) {
            weft_result *result;
            CHECK_OK(weft_wait(tasks[i], &result, &err), err);
            if ((i + round) % N_OTHERS == 2)
                check_row(result, 0, 0, data, -1);
            weft_result_free(result);
        }
    }
    for (int i = 0; i < N_OTHERS; i++)
        weft_disconnect(sessions[i]);
    close_db();
    free(data);
}
