// pool.c - the kernels that experiments run: recorded needs, stated durations.
//
// Registers and shared memory of the real kernels are what ptxas says of kernels/*.cu (nvcc 13.0, --fmad=false), for
// sm_75, the oldest that it compiles for, and for sm_90; scripts/lab-needs prints them.  Simulated cards get those of
// sm_75: older compilers would give other numbers, but of that order.
//
// The papers publish neither the resources nor the durations of their 13 kernels.  Durations here are stated by one
// rule, before any experiment was run: a thread executes so many instructions and waits for so many accesses to the
// card's memory, and takes
//
//     instructions * 10 ns + accesses * 400 ns
//
// which is the latency of dependent arithmetic and of memory on cards of that time at about 1 GHz.  With two or three
// warps of a kernel on a multiprocessor it is latencies that count, so a thread beside others takes nearly as long as
// alone, as the simulator has it.  The counts are of the inner loops in kernels/*.cu times the items of a thread
// (work_*.c); loads that do not wait for each other count once.  They are not fitted to any figure of the papers.

#include "lab/pool.h"

enum { NS_PER_INSTRUCTION = 10, NS_PER_ACCESS = 400, MS_NS = 1000000 };

// clang-format off
#define DURATION(instructions, accesses) \
    .duration_ns = (i64)(instructions) * NS_PER_INSTRUCTION + (i64)(accesses) * NS_PER_ACCESS, \
    .duration_from = #instructions " instructions, " #accesses " accesses"

// Name, title, registers and shared memory, registers for sm_90, warps, duration.
static const LabKernel real_kernels[] = {
    { "vector_add",          "vector addition",         { 14,     0, 0 }, 16, 1, DURATION(1024 * 8, 1024) },
    { "reduction",           "sum reduction",           { 17,   256, 0 }, 20, 2, DURATION(2048 * 6, 2048) },
    { "scan",                "running sums",            { 50,   140, 0 }, 32, 1, DURATION(256 * 80, 256 * 3) },
    { "matrix_multiply",     "matrix multiplication",   { 40,  8320, 0 }, 30, 3, DURATION(93000 * 5, 93000 / 32) },
    { "transpose",           "matrix transpose",        { 17,  4224, 0 }, 22, 2, DURATION(4096 * 6, 4096 / 4) },
    { "histogram",           "histogram",               { 14,  1024, 0 }, 18, 2, DURATION(2048 * 8, 2048) },
    { "black_scholes",       "Black-Scholes",           { 27,     0, 0 }, 30, 2, DURATION(512 * 120, 512) },
    { "convolution",         "convolution of rows",     { 32,  4228, 0 }, 30, 2, DURATION(1024 * 60, 1024) },
    { "monte_carlo",         "Monte Carlo",             { 29,     8, 0 }, 27, 2, DURATION(64 * 64 * 90, 0) },
    { "md5",                 "md5 verification",        { 25,     0, 0 }, 28, 2, DURATION(512 * 420, 512) },
    { "radial_distribution", "radial distribution",     { 30,  5120, 0 }, 31, 3, DURATION(23300 * 15, 23300 / 256) },
    { "nested_loop_join",    "nested-loop join",        { 24,  4096, 0 }, 26, 3, DURATION(131072 * 4, 131072 / 1024) },
    { "hash_join",           "hash join",               { 23, 16384, 0 }, 26, 1, DURATION(4096 * 20, 4096) },
};

// Of queries that build a table in global memory and probe it.
static const LabKernel query_kernels[] = {
    { "hash_build",          "build of a hash table",   { 22,     0, 0 }, 22, 2, DURATION(1024 * 12, 1024 * 2) },
    { "hash_probe",          "probe of one table",      { 24,     0, 0 }, 24, 2, DURATION(2048 * 16, 2048 * 2) },
    { "hash_probe_2",        "probe of two tables",     { 24,     0, 0 }, 24, 2, DURATION(2048 * 24, 2048 * 3) },
};

// price * (1 - discount) * (1 + tax), and its operations; two selects of one input, and each of them.
static const LabKernel fuse_kernels[] = {
    { "arithmetic",          "all of it",               { 16,     0, 0 }, 20, 2, DURATION(1024 * 10, 1024) },
    { "one_minus",           "one minus a value",       { 16,     0, 0 }, 20, 2, DURATION(1024 * 8, 1024) },
    { "one_plus",            "one plus a value",        { 16,     0, 0 }, 20, 2, DURATION(1024 * 8, 1024) },
    { "product",             "product of two values",   { 16,     0, 0 }, 20, 2, DURATION(1024 * 8, 1024) },
    { "two_selects",         "two selects",             { 24,     0, 0 }, 32, 2, DURATION(512 * 50, 512 * 3) },
    { "first_select",        "the first select",        { 24,     0, 0 }, 32, 2, DURATION(512 * 28, 512 * 2) },
    { "second_select",       "the second select",       { 24,     0, 0 }, 32, 2, DURATION(512 * 28, 512 * 2) },
};

// Registers and shared memory: paper 1, Table I.  Threads and durations are not published.  A kernel of 8 registers
// cannot be had from today's compiler: on a GPU kernel I has 12, and is given 16, as II.
static const LabKernel table1_kernels[] = {
    { "I",   "synthetic kernel I",   {  8, 24576, 0 }, 12, 8, MS_NS, "stated: equal for I to V", 0 },
    { "II",  "synthetic kernel II",  { 16, 12288, 0 }, 15, 8, MS_NS, "stated: equal for I to V", 0 },
    { "III", "synthetic kernel III", { 24,  6144, 0 }, 23, 8, MS_NS, "stated: equal for I to V", 0 },
    { "IV",  "synthetic kernel IV",  { 32,  4608, 0 }, 29, 8, MS_NS, "stated: equal for I to V", 0 },
    { "V",   "synthetic kernel V",   { 40,  1536, 0 }, 36, 8, MS_NS, "stated: equal for I to V", 0 },
};

// Paper 3, Tables III and IV.
static const LabKernel table3_kernels[] = {
    { "A", "synthetic kernel A", { 11,     0, 0 }, 12, 32, 14 * MS_NS, "paper 3, Table IV", 1024 },
    { "B", "synthetic kernel B", { 33,     0, 0 }, 34, 32, 20 * MS_NS, "paper 3, Table IV", 1024 },
    { "C", "synthetic kernel C", { 11,     0, 0 }, 12,  8, 14 * MS_NS, "stated: as A", 256 },
    { "D", "synthetic kernel D", { 44,     0, 0 }, 44,  8, 20 * MS_NS, "stated: as B", 256 },
    { "E", "synthetic kernel E", { 11, 24576, 0 }, 12,  8, 14 * MS_NS, "stated: as A", 256 },
    { "F", "synthetic kernel F", { 44, 24576, 0 }, 44,  8, 20 * MS_NS, "stated: as B", 256 },
};
// clang-format on

static const struct {
    const LabKernel *kernels;
    int n_kernels;
} pools[] = {
    [LAB_POOL_REAL] = { real_kernels, COUNT_OF(real_kernels) },
    [LAB_POOL_TABLE1] = { table1_kernels, COUNT_OF(table1_kernels) },
    [LAB_POOL_TABLE3] = { table3_kernels, COUNT_OF(table3_kernels) },
    [LAB_POOL_QUERY] = { query_kernels, COUNT_OF(query_kernels) },
    [LAB_POOL_FUSE] = { fuse_kernels, COUNT_OF(fuse_kernels) },
};

int lab_pool_count(LabPool pool)
{
    return pools[pool].n_kernels;
}

const LabKernel *lab_pool(LabPool pool, int i)
{
    ASSERT(i >= 0 && i < pools[pool].n_kernels);
    return &pools[pool].kernels[i];
}

const LabKernel *lab_pool_find(LabPool pool, const char *name)
{
    for (int i = 0; i < pools[pool].n_kernels; i++)
        if (!strcmp(pools[pool].kernels[i].name, name))
            return &pools[pool].kernels[i];
    return NULL;
}
