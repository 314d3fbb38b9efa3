// work.h - what the lab's kernels compute: their text, input made from a seed, and the CPU's answer to compare with.
//
//     const WorkKind *kind = work_find("md5");
//     LabWork *work = work_new(arena, kind, &(WorkSize){ .n_threads = 4096, .items = kind->items }, seed);
//     ...                                      // in, n and f go to the kernel; out and scratch are zeroed memory
//     TRY(work_check(work, outputs, err));     // what the kernel left in out
//
// The result does not depend on the launch: any grid of whole warps gives it.  References are computed by another way
// than the kernel's where there is one.  Nothing here knows a device.

#ifndef WEFT_LAB_WORK_H
#define WEFT_LAB_WORK_H

#include "base/base.h"

enum { WORK_INPUTS = 5, WORK_OUTPUTS = 2, WORK_NUMBERS = 4 };

typedef struct WorkSize {
    i64 n_threads;                                          // that share the work
    int items;                                              // of a thread: values, rows, paths, atoms
} WorkSize;

typedef struct LabWork {
    const struct WorkKind *kind;
    Arena      *arena;                                      // of the input
    u64         random;                                     // state of what makes the input
    const void *in[WORK_INPUTS];                            // NULL: none
    size_t      in_bytes[WORK_INPUTS];
    size_t      out_bytes[WORK_OUTPUTS];
    size_t      scratch_bytes;
    u64         n[WORK_NUMBERS];
    float       f[WORK_NUMBERS];
} LabWork;

typedef struct WorkKind {
    const char *name;
    const char *function;                                   // in the text
    const char *text;
    int         items;                                      // of a thread where the warps of the pool share the work
    int         items_alone;                                // of a thread where the kernel has the whole card
    void (*make)(LabWork *work, const WorkSize *size);
    weft_status (*check)(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err);
} WorkKind;

int             work_count(void);                           // of kinds
const WorkKind *work_kind(int i);
const WorkKind *work_find(const char *name);                // NULL: there is none
LabWork        *work_new(Arena *arena, const WorkKind *kind, const WorkSize *size, u64 seed);
// DEVICE_FAILED with the first difference.
weft_status     work_check(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err);

// ---- for the files that make work (work_help.c) ---------------------------------------------------------------------

u64    work_random(LabWork *work);
u32    work_random_below(LabWork *work, u32 n);
float  work_random_float(LabWork *work, float least, float most);
void  *work_input(LabWork *work, int i, size_t bytes);      // room for input I, to be filled
float *work_input_floats(LabWork *work, int i, u64 n, float least, float most);
u32   *work_input_numbers(LabWork *work, int i, u64 n, u32 below);
weft_status work_differs(const LabWork *work, const char *what, u64 at, double is, double should, Error *err);
// Floats within SHARE of the greater value, or within LEAST.
bool   work_is_near(double is, double should, double share, double least);

// Pairs of rows (r in the upper half, s in the lower) with equal keys; keys are below N_KEYS.
typedef struct WorkPairs { u64 n, hash; } WorkPairs;
WorkPairs   work_pairs(const u32 *keys_r, u32 n_r, const u32 *keys_s, u32 n_s, u32 n_keys);
weft_status work_check_pairs(const LabWork *work, const WorkPairs *should, const u32 *keys_r, u32 n_r,
                             const u32 *keys_s, u32 n_s, const u64 *pairs, u64 n_pairs, Error *err);

// ---- kinds, by file -------------------------------------------------------------------------------------------------

extern const WorkKind work_vector_add, work_reduction, work_scan, work_transpose, work_histogram;   // work_arrays.c
extern const WorkKind work_matrix_multiply, work_convolution, work_black_scholes, work_monte_carlo, // work_numbers.c
    work_md5, work_radial_distribution, work_arithmetic, work_one_minus, work_one_plus, work_product;
extern const WorkKind work_nested_loop_join, work_hash_join, work_hash_build, work_hash_probe,      // work_joins.c
    work_hash_probe_2;
extern const WorkKind work_two_selects, work_first_select, work_second_select;                      // work_selects.c
extern const WorkKind work_synthetic;                       // computes nothing: its time is what counts

#endif
