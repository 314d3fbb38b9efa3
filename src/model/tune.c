// tune.c - warps per operator from samples (paper 5, equations 1 to 3).
//
// The fit.  With u = warps - mean, the polynomials 1, u and u^2 - a u - b (a = sum u^3 / sum u^2, b = sum u^2 / n) are
// orthogonal over the samples, so each coefficient is one quotient of sums.  No system of equations, nothing badly
// conditioned, and where the samples have one or two different numbers of warps the higher quotients are simply left
// out. The paper's batch gradient descent goes to the same place in thousands of passes; a test compares them.
//
// The split.  best[w] = the least possible time of the slowest of the first i operators with w warps together; a table
// of 32 by 32 by 32 steps at most, microseconds.  So the paper's fear of exhaustive search (5.2) is unfounded: equation
// 1 has an exact solution that costs less than the fit.  A second pass of the same form takes the least sum among
// splits that reach it.
//
// Equation 3 is here for comparison.  Looseness in the paper: it divides by theta_2, which is near 0 when time grows
// with warps in proportion; its root is the one on the rising branch, so a time that falls with warps gets the wrong
// one; and the square root may be of a negative number.  Here a vanishing theta_2 gives the linear solution, a root
// that is not positive the other one, and no root at all the vertex, or an even share.

#include <math.h>

#include "model/tune.h"

bool tune_fit(const TuneSample *samples, int n_samples, TuneFit *fit)
{
    double mean = 0, time = 0;
    for (int i = 0; i < n_samples; i++) {
        mean += (double)samples[i].warps / n_samples;
        time += samples[i].time / n_samples;
    }
    *fit = (TuneFit){ .theta = { time } };
    if (n_samples <= 0 || !isfinite(time))
        return false;
    double u2 = 0, u3 = 0, uy = 0;
    for (int i = 0; i < n_samples; i++) {
        const double u = samples[i].warps - mean;
        u2 += u * u;
        u3 += u * u * u;
        uy += u * samples[i].time;
    }
    if (u2 < 1e-9 * n_samples)                              // one number of warps
        return true;
    const double slope = uy / u2, a = u3 / u2, b = u2 / n_samples;
    double p2 = 0, py = 0;
    for (int i = 0; i < n_samples; i++) {
        const double u = samples[i].warps - mean, p = u * u - a * u - b;
        p2 += p * p;
        py += p * samples[i].time;
    }
    const bool is_square = p2 > 1e-9 * u2 * u2 / n_samples;
    const double curve = is_square ? py / p2 : 0;
    fit->degree = is_square ? 2 : 1;
    fit->theta[2] = curve;
    fit->theta[1] = slope - curve * (2 * mean + a);
    fit->theta[0] = time - slope * mean + curve * (mean * mean + a * mean - b);
    return true;
}

double tune_time(const TuneFit *fit, int warps)
{
    return (fit->theta[2] * warps + fit->theta[1]) * warps + fit->theta[0];
}

double tune_slowest(const TuneFit *fits, int n_fits, const int *warps)
{
    double slowest = -INFINITY;
    for (int i = 0; i < n_fits; i++)
        slowest = fmax(slowest, tune_time(&fits[i], warps[i]));
    return slowest;
}

static bool is_possible(const TuneFit *fits, int n_fits, int n_warps)
{
    if (n_fits < 1 || n_warps < n_fits || n_warps > TUNE_WARPS_MOST)
        return false;
    for (int i = 0; i < n_fits; i++)
        if (!isfinite(fits[i].theta[0]) || !isfinite(fits[i].theta[1]) || !isfinite(fits[i].theta[2]))
            return false;
    return true;
}

// The least cost of a split, where the cost of an operator is its time (the slowest counts), or, if LIMIT is finite,
// its time as part of a sum, and infinite above the limit.
static double solve(const TuneFit *fits, int n_fits, int n_warps, double limit, int *warps)
{
    double best[TUNE_WARPS_MOST + 1][TUNE_WARPS_MOST + 1];  // [operators][warps]
    int    given[TUNE_WARPS_MOST + 1][TUNE_WARPS_MOST + 1];
    const bool is_sum = isfinite(limit);
    for (int w = 0; w <= n_warps; w++)
        best[0][w] = w ? INFINITY : is_sum ? 0 : -INFINITY;
    for (int i = 1; i <= n_fits; i++)
        for (int w = 0; w <= n_warps; w++) {
            best[i][w] = INFINITY;
            given[i][w] = 0;
            for (int k = 1; k <= w - (i - 1); k++) {
                const double time = tune_time(&fits[i - 1], k), before = best[i - 1][w - k];
                const double cost = !is_sum ? fmax(before, time) : time > limit ? INFINITY : before + time;
                if (!given[i][w] || cost < best[i][w]) {
                    best[i][w] = cost;
                    given[i][w] = k;
                }
            }
        }
    for (int i = n_fits, w = n_warps; i >= 1; w -= given[i][w], i--)
        warps[i - 1] = given[i][w];
    return best[n_fits][n_warps];
}

bool tune_split(const TuneFit *fits, int n_fits, int n_warps, int *warps, double *time)
{
    if (!is_possible(fits, n_fits, n_warps))
        return false;
    const double slowest = solve(fits, n_fits, n_warps, INFINITY, warps);
    if (isfinite(slowest))
        solve(fits, n_fits, n_warps, slowest, warps);
    if (time)
        *time = slowest;
    return isfinite(slowest);
}

// Warps with which the fit takes TARGET; 0: none does.
static double warps_for(const TuneFit *fit, double target)
{
    const double a = fit->theta[2], b = fit->theta[1], c = fit->theta[0] - target;
    // Negligible where the square changes the time by less than a millionth over all warps.
    if (fabs(a) * TUNE_WARPS_MOST * TUNE_WARPS_MOST <= 1e-6 * (fabs(b) * TUNE_WARPS_MOST + fabs(c)))
        return b != 0 ? fmax(-c / b, 0) : 0;
    const double square = b * b - 4 * a * c;
    if (square < 0)
        return fmax(-b / (2 * a), 0);
    const double q = -(b + copysign(sqrt(square), b)) / 2;  // no difference of nearly equal numbers
    const double x = q / a, y = q != 0 ? c / q : 0;
    const double papers = a > 0 ? fmax(x, y) : fmin(x, y);  // (sqrt(b^2 - 4 a c) - b) / 2 a
    return papers > 0 ? papers : fmax(fmax(x, y), 0);
}

static double mean_time(const TuneFit *fits, int n_fits, int n_warps)
{
    double sum = 0;
    for (int i = 0; i < n_fits; i++)
        for (int k = 1; k <= n_warps; k++)
            sum += tune_time(&fits[i], k);
    return sum / n_fits / n_warps;
}

// Whole warps in proportion to SHARES, at least one each: the largest remainders are rounded up.
static void round_shares(const double *shares, int n, int n_warps, int *warps)
{
    double rest[TUNE_WARPS_MOST], sum = 0;
    int left = n_warps;
    for (int i = 0; i < n; i++)
        sum += shares[i];
    for (int i = 0; i < n; i++) {
        const double exact = sum > 0 ? shares[i] / sum * n_warps : (double)n_warps / n;
        warps[i] = (int)fmax(1, floor(exact));
        rest[i] = exact - warps[i];
        left -= warps[i];
    }
    for (; left != 0; left += left > 0 ? -1 : 1) {
        int at = -1;
        for (int i = 0; i < n; i++)
            if (left > 0 ? at < 0 || rest[i] > rest[at] : warps[i] > 1 && (at < 0 || rest[i] < rest[at]))
                at = i;
        warps[at] += left > 0 ? 1 : -1;
        rest[at] += left > 0 ? -1 : 1;
    }
}

bool tune_split_equal(const TuneFit *fits, int n_fits, int n_warps, double target, int *warps, double *time)
{
    double shares[TUNE_WARPS_MOST];
    if (!is_possible(fits, n_fits, n_warps))
        return false;
    if (target == 0)
        target = mean_time(fits, n_fits, n_warps);
    for (int i = 0; i < n_fits; i++) {
        shares[i] = warps_for(&fits[i], target);
        if (!isfinite(shares[i]) || shares[i] <= 0)
            shares[i] = (double)n_warps / n_fits;
    }
    round_shares(shares, n_fits, n_warps, warps);
    if (time)
        *time = tune_slowest(fits, n_fits, warps);
    return true;
}
