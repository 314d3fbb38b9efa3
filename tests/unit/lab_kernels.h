// lab_kernels.h - all kernels of the lab as functions of the CPU (cuda_shim.h), by name.

#ifndef WEFT_LAB_KERNELS_H
#define WEFT_LAB_KERNELS_H

#include "cuda_shim.h"

#include "lab/kernels/arithmetic.cu"
#include "lab/kernels/black_scholes.cu"
#include "lab/kernels/convolution.cu"
#include "lab/kernels/fma_split.cu"
#include "lab/kernels/histogram.cu"
#include "lab/kernels/matrix_multiply.cu"
#include "lab/kernels/md5.cu"
#include "lab/kernels/monte_carlo.cu"
#include "lab/kernels/nested_loop_join.cu"
#include "lab/kernels/radial_distribution.cu"
#include "lab/kernels/reduction.cu"
#include "lab/kernels/scan.cu"
#include "lab/kernels/selects.cu"
#include "lab/kernels/transpose.cu"
#include "lab/kernels/vector_add.cu"
// On a GPU each is a program of its own.
#define slot_of slot_of_join
#include "lab/kernels/hash_join.cu"
#undef slot_of
#define slot_of slot_of_build
#include "lab/kernels/hash_build.cu"
#undef slot_of
#define slot_of slot_of_probe
#include "lab/kernels/hash_probe.cu"
#undef slot_of
#define LIVE 4
#include "lab/kernels/synthetic.cu"
// Operators of weft lab flow: tile C, each as a kernel for a frame and as one that takes tasks.
#include "lab/operator_words.h"
#define TILE_C(name, ...) __VA_ARGS__
#include "lab/operators.tile"
#include "examples/raid6.tile"
#define turn turn_of_aes
#define mix  mix_of_aes
#include "examples/aes.tile"
#undef mix
#undef turn

typedef struct LabFunction {
    const char *name;
    void (*run)(const LabArgs);
} LabFunction;

#define OPERATOR_FUNCTIONS(name) { #name, name }, { #name "_tasks", name##_tasks }, { #name "_topics", name##_topics }

static const LabFunction lab_functions[] = {
    { "arithmetic", arithmetic }, { "selects", selects },
    { "black_scholes", black_scholes }, { "convolution", convolution }, { "histogram", histogram },
    { "matrix_multiply", matrix_multiply }, { "md5", md5 }, { "monte_carlo", monte_carlo },
    { "nested_loop_join", nested_loop_join }, { "radial_distribution", radial_distribution },
    { "reduction", reduction }, { "scan", scan }, { "transpose", transpose }, { "vector_add", vector_add },
    { "hash_join", hash_join }, { "hash_build", hash_build }, { "hash_probe", hash_probe },
    { "synthetic", synthetic }, { "fma_split", fma_split }, { "fma_alone", fma_alone },
    OPERATOR_FUNCTIONS(twice), OPERATOR_FUNCTIONS(fma_x), OPERATOR_FUNCTIONS(mri_q), OPERATOR_FUNCTIONS(cutcp),
    OPERATOR_FUNCTIONS(sgemm), OPERATOR_FUNCTIONS(stencil), OPERATOR_FUNCTIONS(spmv), OPERATOR_FUNCTIONS(sad),
    OPERATOR_FUNCTIONS(raid6), OPERATOR_FUNCTIONS(aes), OPERATOR_FUNCTIONS(filter_sums),
};

#endif
