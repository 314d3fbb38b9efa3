// split.c - how the workers of a round are shared among its operators.
//
// At first evenly, with one worker moved about each round so that every operator is seen with several numbers of
// workers. Of each number of workers the mean time of the last 64 rounds or so is kept, and a fit (model/tune.h) goes
// through these means; it is made anew every few rounds.  Once all operators have one, the split is the exact one of
// the paper's equation 1.  An operator whose rounds are a quarter off their mean for 32 rounds in a row has changed:
// its means are forgotten, and the search begins again.

#include <math.h>

#include "flow/run_int.h"

enum { ROUNDS_LEAST = 12, ROUNDS_BETWEEN = 4, MEAN_LEAST = 4, MEAN_OF = 64, DRIFT_ROUNDS = 32 };

static void split_evenly(int n, int n_workers, int *workers)
{
    for (int i = 0; i < n; i++)
        workers[i] = n_workers / n + (i < n_workers % n);
}

// Round after round another operator gets a worker, or two, of its neighbour.
static void vary(int n, u64 round, int *workers)
{
    const int to = (int)(round % (u64)n), from = (to + 1) % n, wanted = 1 + (int)(round / (u64)n % 2);
    const int moved = MIN_OF(wanted, workers[from] - 1);
    if (n < 2 || moved <= 0)
        return;
    workers[to] += moved;
    workers[from] -= moved;
}

void split_workers(weft_operator *const *operators, int n, int n_workers, u64 round, bool is_untuned, int *workers)
{
    TuneFit fits[WEFT_WORKERS_MOST];
    bool have_all = true;
    ASSERT(n >= 1 && n <= n_workers);
    for (int i = 0; i < n; i++) {
        have_all &= operators[i]->samples.has_fit;
        fits[i] = operators[i]->samples.fit;
    }
    if (!is_untuned && n > 1 && have_all && tune_split(fits, n, n_workers, workers, NULL))
        return;
    split_evenly(n, n_workers, workers);
    if (!is_untuned && n > 1)
        vary(n, round, workers);
}

static void fit_means(OperatorSamples *s)
{
    TuneSample samples[WEFT_WORKERS_MOST];
    int n = 0;
    for (int workers = 1; workers <= WEFT_WORKERS_MOST; workers++)
        if (s->n_rounds[workers] > 0)
            samples[n++] = (TuneSample){ workers, s->mean_ms[workers] };
    s->has_fit = tune_fit(samples, n, &s->fit);
}

void split_note(weft_operator *op, int workers, double time_ms)
{
    OperatorSamples *s = &op->samples;
    double *mean = &s->mean_ms[workers];
    const u32 n = s->n_rounds[workers]++;
    const bool is_far = n >= MEAN_LEAST && fabs(time_ms - *mean) > 0.25 * *mean + 0.001;
    *mean += (time_ms - *mean) / MIN_OF(n + 1, MEAN_OF);
    s->n_drifted = is_far ? s->n_drifted + 1 : 0;
    if (s->n_drifted >= DRIFT_ROUNDS) {
        *s = (OperatorSamples){ 0 };                        // it has changed: look anew
        return;
    }
    if (++s->n_all >= ROUNDS_LEAST && s->n_all % ROUNDS_BETWEEN == 0)
        fit_means(s);
}
