// tune.h - how many warps each of several operators gets, from samples of their round times (paper 5, 5.2 and 5.3).
//
//     TuneFit fits[2];
//     tune_fit(samples_of_a, n_a, &fits[0]);  tune_fit(samples_of_b, n_b, &fits[1]);
//     tune_split(fits, 2, 32, warps, &time);                 // the least time that the slowest of them can have
//
// Arithmetic only: no device, no threads, no memory.

#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include "base/base.h"

enum { TUNE_WARPS_MOST = 32 };

typedef struct TuneSample { int warps; double time; } TuneSample;

typedef struct TuneFit {               // time = theta[2] * warps^2 + theta[1] * warps + theta[0]    (equation 2)
    double theta[3];
    int    degree;                     // of the polynomial: 2 needs three different numbers of warps
} TuneFit;

// Least squares in closed form.  False: there is no sample, or one is not finite.
bool   tune_fit(const TuneSample *samples, int n_samples, TuneFit *fit);
double tune_time(const TuneFit *fit, int warps);

// Equation 1: the split of N_WARPS, at least one for each of N_FITS, whose slowest operator is quickest; among equal
// ones that with the least sum.  Exact, for fits of any form.  TIME may be NULL.  False: 1 to N_WARPS operators and 1
// to 32 warps are possible, and fits must be finite.
bool   tune_split(const TuneFit *fits, int n_fits, int n_warps, int *warps, double *time);
// Equation 3: shares in proportion to the warps with which each operator takes TARGET; 0: the mean of all fits over all
// numbers of warps.  Always a split, not always a good one.
bool   tune_split_equal(const TuneFit *fits, int n_fits, int n_warps, double target, int *warps, double *time);
double tune_slowest(const TuneFit *fits, int n_fits, const int *warps);

#endif
