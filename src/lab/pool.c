// pool.c - the kernels that experiments run: recorded needs, stated durations.
//
// The papers publish neither the resources nor the durations of their 13 kernels.  Durations here are stated by one
// rule, before any experiment was run: a thread executes so many instructions and waits for so many accesses to the
// card's memory, and takes
//
//     instructions * 10 ns + accesses * 400 ns
//
// which is the latency of dependent arithmetic and of memory on cards of that time at about 1 GHz.  They are not fitted
// to any figure of the papers.  The needs are what such kernels take by their source: shared memory is the tile, the
// bins or the table of a block.

#include "lab/pool.h"

enum { NS_PER_INSTRUCTION = 10, NS_PER_ACCESS = 400, MS_NS = 1000000 };

#define DURATION(instructions, accesses) \
    .duration_ns = (i64)(instructions) * NS_PER_INSTRUCTION + (i64)(accesses) * NS_PER_ACCESS, \
    .duration_from = #instructions " instructions, " #accesses " accesses"

// clang-format off
static const LabKernel real_kernels[] = {
    { "vector_add",       "vector addition",              { 10,    0, 0 }, 2, DURATION(3000, 600) },
    { "reduction",        "sum reduction",                { 14, 1024, 0 }, 1, DURATION(4000, 500) },
    { "scan",             "prefix sums",                  { 18, 2048, 0 }, 2, DURATION(8000, 600) },
    { "matmul",           "matrix multiplication",        { 28, 2048, 0 }, 3, DURATION(60000, 500) },
    { "transpose",        "matrix transpose",             { 12, 4224, 0 }, 1, DURATION(3000, 800) },
    { "histogram",        "histogram",                    { 16, 4096, 0 }, 2, DURATION(12000, 700) },
    { "black_scholes",    "Black-Scholes option prices",  { 24,    0, 0 }, 2, DURATION(50000, 250) },
    { "convolution",      "convolution",                  { 22, 3072, 0 }, 2, DURATION(40000, 400) },
    { "monte_carlo",      "Monte Carlo integration",      { 30, 1024, 0 }, 2, DURATION(90000, 50) },
    { "md5",              "MD5 of texts",                 { 26,    0, 0 }, 2, DURATION(80000, 100) },
    { "rdf",              "radial distribution function", { 32, 6144, 0 }, 3, DURATION(100000, 200) },
    { "nested_loop_join", "nested-loop join",             { 20, 4096, 0 }, 2, DURATION(60000, 300) },
    { "hash_join",        "hash join",                    { 25, 8192, 0 }, 2, DURATION(15000, 900) },
};

// Registers and shared memory: paper 1, Table I.  Threads and durations are not published.
static const LabKernel table1_kernels[] = {
    { "I",   "synthetic kernel I",   {  8, 24576, 0 }, 8, MS_NS, "stated: equal for I to V", 0 },
    { "II",  "synthetic kernel II",  { 16, 12288, 0 }, 8, MS_NS, "stated: equal for I to V", 0 },
    { "III", "synthetic kernel III", { 24,  6144, 0 }, 8, MS_NS, "stated: equal for I to V", 0 },
    { "IV",  "synthetic kernel IV",  { 32,  4608, 0 }, 8, MS_NS, "stated: equal for I to V", 0 },
    { "V",   "synthetic kernel V",   { 40,  1536, 0 }, 8, MS_NS, "stated: equal for I to V", 0 },
};

// Paper 3, Tables III and IV.
static const LabKernel table3_kernels[] = {
    { "A", "synthetic kernel A", { 11,     0, 0 }, 32, 14 * MS_NS, "paper 3, Table IV", 1024 },
    { "B", "synthetic kernel B", { 33,     0, 0 }, 32, 20 * MS_NS, "paper 3, Table IV", 1024 },
    { "C", "synthetic kernel C", { 11,     0, 0 },  8, 14 * MS_NS, "stated: as A", 256 },
    { "D", "synthetic kernel D", { 44,     0, 0 },  8, 20 * MS_NS, "stated: as B", 256 },
    { "E", "synthetic kernel E", { 11, 24576, 0 },  8, 14 * MS_NS, "stated: as A", 256 },
    { "F", "synthetic kernel F", { 44, 24576, 0 },  8, 20 * MS_NS, "stated: as B", 256 },
};
// clang-format on

static const struct {
    const LabKernel *kernels;
    int n_kernels;
} pools[] = {
    [LAB_POOL_REAL] = { real_kernels, COUNT_OF(real_kernels) },
    [LAB_POOL_TABLE1] = { table1_kernels, COUNT_OF(table1_kernels) },
    [LAB_POOL_TABLE3] = { table3_kernels, COUNT_OF(table3_kernels) },
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
