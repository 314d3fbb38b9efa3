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

// "hash, chained", "1.2 MB", "cuda:0".
typedef struct JoinFigures { char kind[32], bytes[16], by[16]; double build_ms; } JoinFigures;

bool join_of(const char *explained, JoinFigures *join);         // of the first join table; false: there is none

// ---- the parts (parts.c, shapes.c, idle.c, warm.c, tables.c, disk.c): each prints its section ----------------------

enum { N_SHAPE = 16, N_STREAM = 32, MOST_AT_ONCE = 32 };

typedef struct GpuBench {
    Bench       bench;
    const char *device;                // cuda, cuda:1; cpu to try the benchmark itself
    const char *pool;                  // device memory for the part that streams
    const char *rows;                  // of the dimension for the part that makes join tables
    bool        has_targets;           // they hold for SF 20 on a GPU: else figures stand without a verdict
    Peer       *weft, *duckdb;
    double      link_gb_s, read_gb_s, launch_us;           // as measured; 0: not
    double      single_ms[MAX_QUERIES];                         // kernels and tables, by query
    double      single_sum_ms, whole_sum_ms;               // of the kernels; from SQL to result
} GpuBench;

Peer *open_on_device(GpuBench *gpu);                            // Weft, told to run there
void  measure_peaks(GpuBench *gpu);
// "- WHAT: 12.3 ms (wanted: at most 14.0): met"
void  verdict(GpuBench *gpu, const char *what, double value, const char *unit, bool at_most, double limit);
void  part_single(GpuBench *gpu);
void  part_together(GpuBench *gpu);
void  part_shape(GpuBench *gpu);
void  part_shapes(GpuBench *gpu);                               // shapes.c
void  part_idle(GpuBench *gpu);                                 // idle.c
void  part_duckdb(GpuBench *gpu);
void  part_stream(GpuBench *gpu);                               // in a process of its own
void  part_first(GpuBench *gpu);                                // in processes of their own
void  part_warm(GpuBench *gpu);                                 // the same (warm.c)
void  part_disk(GpuBench *gpu);                                 // the same (disk.c)

void  part_tables(GpuBench *gpu);                               // with a database of its own (tables.c)

// What these processes do: their figures go to standard output.
int child_stream(GpuBench *gpu);
int child_first(GpuBench *gpu);
int child_warm(GpuBench *gpu);
int child_disk(GpuBench *gpu);

void  touch_columns(Peer *weft);                                // each that the queries read is read once
char *explain_text(Peer *weft, const char *sql);                // of EXPLAIN ANALYZE; to be freed
void  explain_analyze(Peer *weft, const char *sql, Figures *figures);
char *shape_query(int n);              // number n of a family of filter-and-sum queries

// Kernels and tables; from SQL text to result.
typedef struct Single { Figures figures; double kernels_ms, whole_ms; } Single;

Single time_single(GpuBench *gpu, const char *sql);             // the least of each; the figures are those of the least
                                                                // kernels_ms

// ---- queries at once (crowd.c) --------------------------------------------------------------------------------------

// When queries of several threads meet differs from round to round, so there are more of them than of single runs.
enum { ONCE_ROUNDS = 4 };

typedef struct Crowd { Peer *peers[MOST_AT_ONCE]; char *queries[MOST_AT_ONCE]; int n; } Crowd;

// Of one round, in the mean: kernels that the device was handed; scans of lineorder, those that had a kernel in common
// with others, and in which way.
typedef struct Counts { double kernels, scans, woven, one_body, fused, sieved; } Counts;
typedef struct AtOnce { double ms; Counts counts; } AtOnce;

Peer  *connect_on(const GpuBench *gpu, Peer *weft, const char *device);        // one more session
void   crowd_join(GpuBench *gpu, Crowd *crowd, Peer *weft, const char *sql);
void   crowd_free(Crowd *crowd);
double run_at_once(const Crowd *crowd);
// And compares the answers with the CPU's.
AtOnce best_at_once(GpuBench *gpu, const Crowd *crowd, Peer *weft);
void   say_woven(GpuBench *gpu, const Counts *counts);
void   say_launches(GpuBench *gpu, double kernels, double ms);

#endif
