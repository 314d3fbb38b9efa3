// gpu.h - what the parts of bench/gpu share.

#ifndef WEFT_BENCH_GPU_H
#define WEFT_BENCH_GPU_H

#include "../bench.h"

// ---- what EXPLAIN ANALYZE says of a query (figures.c) ---------------------------------------------------------------

typedef struct Figures {
    double kernels_ms;                 // of all its pipelines; on the CPU the time of the scans
    double build_ms;                   // join tables made by the host
    double bytes;                      // read by kernels
    double bytes_link;                 // of these, copied from the host
    int    n_on_device, n_on_cpu;      // kernels
    int    n_launches;                 // on the device, those that fill join tables included
} Figures;

bool figures_of(const char *explained, Figures *figures);       // false: there is no kernel in this text

// ---- the parts (parts.c): each prints its section -------------------------------------------------------------------

enum { N_SHAPE = 16, N_STREAM = 32, MOST_AT_ONCE = 32 };

typedef struct GpuBench {
    Bench       bench;
    const char *device;                // cuda, cuda:1; cpu to try the benchmark itself
    const char *pool;                  // device memory for the part that streams
    bool        has_targets;           // they hold for SF 20 on a GPU: else figures stand without a verdict
    Peer       *weft, *duckdb;
    double      link_gb_s, read_gb_s, launch_us;           // as measured; 0: not
    double      single_ms[MAX_QUERIES];                         // kernels and tables, by query
    double      single_sum_ms, whole_sum_ms;               // of the kernels; from SQL to result
} GpuBench;

Peer *open_on_device(GpuBench *gpu);                            // Weft, told to run there
void  measure_peaks(GpuBench *gpu);
void  part_single(GpuBench *gpu);
void  part_together(GpuBench *gpu);
void  part_shape(GpuBench *gpu);
void  part_duckdb(GpuBench *gpu);
void  part_stream(GpuBench *gpu);                               // in a process of its own
void  part_first(GpuBench *gpu);                                // in processes of their own
void  part_disk(GpuBench *gpu);                                 // the same (disk.c)

// What these processes do: their figures go to standard output.
int child_stream(GpuBench *gpu);
int child_first(GpuBench *gpu);
int child_disk(GpuBench *gpu);

void  explain_analyze(Peer *weft, const char *sql, Figures *figures);
char *shape_query(int n);              // number n of a family of filter-and-sum queries

#endif
