// test_model_tune.c - warps per operator: the fit, the exact split against brute force, equation 3, and their time.

#include "test.h"

#include "base/random.h"
#include "model/tune.h"

static TuneFit quadratic(double a, double b, double c) { return (TuneFit){ .theta = { c, b, a }, .degree = 2 }; }

static double noise(u64 seed, u64 i) { return random_share(random_bits(seed, i)) - 0.5; }

// ---- the fit --------------------------------------------------------------------------------------------------------

TEST(tune_finds_the_polynomial_that_made_the_samples)
{
    for (u64 seed = 0; seed < 200; seed++) {
        const TuneFit made = quadratic(noise(seed, 0), 40 * noise(seed, 1), 900 * noise(seed, 2));
        TuneSample samples[40];
        for (int i = 0; i < 40; i++) {
            samples[i].warps = 1 + (int)(random_bits(seed, (u64)i + 9) % 32);
            samples[i].time = tune_time(&made, samples[i].warps);
        }
        TuneFit fit;
        CHECK(tune_fit(samples, 40, &fit));
        CHECK_INT(fit.degree, 2);
        for (int k = 0; k < 3; k++)
            CHECK_DOUBLE(fit.theta[k], made.theta[k], 1e-8);
    }
}

TEST(tune_fits_less_where_samples_say_less)
{
    TuneFit fit;
    CHECK(!tune_fit(NULL, 0, &fit));
    CHECK(tune_fit((TuneSample[]){ { 4, 10 }, { 4, 12 } }, 2, &fit));
    CHECK_INT(fit.degree, 0);
    CHECK_DOUBLE(tune_time(&fit, 17), 11, 1e-12);
    CHECK(tune_fit((TuneSample[]){ { 4, 10 }, { 4, 12 }, { 8, 21 } }, 3, &fit));
    CHECK_INT(fit.degree, 1);
    CHECK_DOUBLE(tune_time(&fit, 4), 11, 1e-12);
    CHECK_DOUBLE(tune_time(&fit, 8), 21, 1e-12);
    CHECK(!tune_fit((TuneSample[]){ { 1, NAN } }, 1, &fit));
}

// The paper's way, on scaled warps: batch gradient descent with momentum.  It must come to the same polynomial.
static void descend(const TuneSample *samples, int n, double *theta)
{
    double w[3] = { 0 }, speed[3] = { 0 };
    for (int pass = 0; pass < 20000; pass++) {
        double slope[3] = { 0 };
        for (int i = 0; i < n; i++) {
            const double x = samples[i].warps / 16.0 - 1, off = w[0] + w[1] * x + w[2] * x * x - samples[i].time;
            slope[0] += off / n;
            slope[1] += off * x / n;
            slope[2] += off * x * x / n;
        }
        for (int k = 0; k < 3; k++) {
            speed[k] = 0.9 * speed[k] - 0.1 * slope[k];
            w[k] += speed[k];
        }
    }
    theta[2] = w[2] / 256;
    theta[1] = w[1] / 16 - 2 * w[2] / 16;
    theta[0] = w[0] - w[1] + w[2];
}

TEST(tune_agrees_with_gradient_descent)
{
    for (u64 seed = 0; seed < 5; seed++) {
        TuneSample samples[30];
        for (int i = 0; i < 30; i++) {
            const int warps = 1 + (int)(random_bits(seed, (u64)i) % 32);
            samples[i] = (TuneSample){ warps, 3 + 0.02 * warps * warps - 0.3 * warps + noise(seed, (u64)i + 100) };
        }
        TuneFit fit;
        double theta[3];
        CHECK(tune_fit(samples, 30, &fit));
        descend(samples, 30, theta);
        for (int k = 0; k < 3; k++)
            CHECK_DOUBLE(fit.theta[k], theta[k], 1e-6);
    }
}

// ---- the split ------------------------------------------------------------------------------------------------------

static double try_all(const TuneFit *fits, int n, int left, double slowest)
{
    if (n == 1)
        return fmax(slowest, tune_time(fits, left));
    double best = INFINITY;
    for (int k = 1; k <= left - (n - 1); k++)
        best = fmin(best, try_all(fits + 1, n - 1, left - k, fmax(slowest, tune_time(fits, k))));
    return best;
}

static void check_split(const TuneFit *fits, int n, int n_warps)
{
    int warps[TUNE_WARPS_MOST], sum = 0;
    double time;
    CHECK(tune_split(fits, n, n_warps, warps, &time));
    CHECK(time == try_all(fits, n, n_warps, -INFINITY));
    CHECK(time == tune_slowest(fits, n, warps));
    for (int i = 0; i < n; i++) {
        CHECK(warps[i] >= 1);
        sum += warps[i];
    }
    CHECK_INT(sum, n_warps);
    double equal;
    int others[TUNE_WARPS_MOST];
    CHECK(tune_split_equal(fits, n, n_warps, 0, others, &equal));
    CHECK(equal >= time);                                   // never better than the exact one
    for (int i = 0; i < n; i++) {
        CHECK(others[i] >= 1);
        sum -= others[i];
    }
    CHECK_INT(sum, 0);
}

TEST(tune_split_is_the_best_of_all)
{
    for (u64 seed = 0; seed < 400; seed++) {
        TuneFit fits[4];
        const int n = 1 + (int)(seed % 4), n_warps = seed % 3 ? 32 : n + (int)(seed % 29);
        for (int i = 0; i < n; i++)
            fits[i] = quadratic(noise(seed, (u64)i), 20 * noise(seed, (u64)i + 10),
                                400 * noise(seed, (u64)i + 20) + 300);
        check_split(fits, n, MIN_OF(n_warps, 32));
    }
    check_split((TuneFit[]){ quadratic(0, 0, 5), quadratic(0, 0, 5) }, 2, 32);
}

TEST(tune_split_takes_the_least_sum_among_equal_ones)
{
    // The first is the slowest with any split, so the second may have what is best for it.
    const TuneFit fits[] = { quadratic(0, 0, 100), quadratic(0.1, -2, 20) };
    int warps[2];
    double time;
    CHECK(tune_split(fits, 2, 32, warps, &time));
    CHECK_DOUBLE(time, 100, 0);
    CHECK_INT(warps[1], 10);
}

TEST(tune_refuses_what_cannot_be_split)
{
    const TuneFit fits[33] = { { { 0 }, 0 } };
    int warps[33];
    CHECK(!tune_split(fits, 0, 32, warps, NULL));
    CHECK(!tune_split(fits, 5, 4, warps, NULL));
    CHECK(!tune_split(fits, 33, 33, warps, NULL));
    CHECK(!tune_split_equal(fits, 5, 4, 0, warps, NULL));
    CHECK(tune_split(fits, 32, 32, warps, NULL));
    CHECK(!tune_split((TuneFit[]){ quadratic(NAN, 0, 0), quadratic(0, 0, 0) }, 2, 32, warps, NULL));
}

TEST(tune_equation_3_as_the_paper_has_it)
{
    // Times that rise with warps: both operators take f0 = 10 with 8 and 24 warps, so 32 are split so.
    const TuneFit squares[] = { quadratic(10.0 / 64, 0, 0), quadratic(10.0 / 576, 0, 0) };
    int warps[2];
    CHECK(tune_split_equal(squares, 2, 32, 10, warps, NULL));
    CHECK_INT(warps[0], 8);
    CHECK_INT(warps[1], 24);
    // A second coefficient of 0, or next to it, is no division by 0.
    const TuneFit lines[] = { quadratic(0, 10.0 / 8, 0), quadratic(1e-300, 10.0 / 24, 0) };
    CHECK(tune_split_equal(lines, 2, 32, 10, warps, NULL));
    CHECK_INT(warps[0], 8);
    const TuneFit nearly[] = { quadratic(1e-12, 10.0 / 8, 0), quadratic(-1e-12, 10.0 / 24, 0) };
    CHECK(tune_split_equal(nearly, 2, 32, 10, warps, NULL));
    CHECK_INT(warps[0], 8);
    // No root at all, and no dependence at all: an even share, not NaN.
    const TuneFit none[] = { quadratic(1, 0, 100), quadratic(0, 0, 3) };
    CHECK(tune_split_equal(none, 2, 32, 10, warps, NULL));
    CHECK_INT(warps[0] + warps[1], 32);
}

TEST(tune_takes_less_than_a_millisecond)
{
    TuneFit fits[32];
    TuneSample samples[64];
    int warps[32];
    double best = INFINITY;
    for (int attempt = 0; attempt < 5; attempt++) {
        const double began = test_cpu_ms();
        for (int i = 0; i < 8; i++) {
            for (int k = 0; k < 64; k++)
                samples[k] = (TuneSample){ 1 + k % 32, i + 1 + k % 32 * 0.1 };
            tune_fit(samples, 64, &fits[i]);
        }
        CHECK(tune_split(fits, 8, 32, warps, NULL));
        best = fmin(best, test_cpu_ms() - began);
    }
    printf("fit and split of 8 operators: %.3f ms\n", best);
    CHECK(best < 1);
}
