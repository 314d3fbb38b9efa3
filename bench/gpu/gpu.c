// gpu.c - the Star Schema Benchmark on a GPU: kernels, single and at once, resident and streamed, beside DuckDB.
//
//     gpu --db DB --tbl DIR --ssb bench/ssb --duckdb LIBRARY --scratch DIR [--device cuda] [--pool 512MB] [--threads N]
//         [--repeats N] [--scale SF] [--parts single,together,shape,stream,duckdb,first] [--record FILE]
//     gpu --figures FILE                  what it reads out of a text of EXPLAIN ANALYZE; for its test
//
// bench/README.md says what each part measures.

#define _GNU_SOURCE
#include "gpu.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int print_figures(const char *path)
{
    Figures figures;
    char *text = read_whole_file(path);
    if (!text || !figures_of(text, &figures))
        die(path, text ? "names no kernel" : "cannot be read");
    printf("kernels %.3f ms, tables %.3f ms, %.0f bytes, %.0f over the link, %d kernels on the device, %d on the CPU\n",
           figures.kernels_ms, figures.build_ms, figures.bytes, figures.bytes_link, figures.n_on_device, figures.n_on_cpu);
    free(text);
    return 0;
}

static bool parse_options(int argc, char **argv, GpuBench *gpu, const char **figures)
{
    enum { DB, TBL, SSB, DUCKDB, SCRATCH, SCALE, PARTS, RECORD, CHILD, CHILD_QUERY, DEVICE, POOL, FIGURES, THREADS, REPEATS,
           COMMAND };
    static const struct option LONG[] = {
        { "db", 1, NULL, DB },           { "tbl", 1, NULL, TBL },         { "ssb", 1, NULL, SSB },
        { "duckdb", 1, NULL, DUCKDB },   { "scratch", 1, NULL, SCRATCH }, { "scale", 1, NULL, SCALE },
        { "parts", 1, NULL, PARTS },     { "record", 1, NULL, RECORD },   { "child", 1, NULL, CHILD },
        { "child-query", 1, NULL, CHILD_QUERY }, { "device", 1, NULL, DEVICE }, { "pool", 1, NULL, POOL },
        { "figures", 1, NULL, FIGURES }, { "threads", 1, NULL, THREADS }, { "repeats", 1, NULL, REPEATS },
        { "command", 1, NULL, COMMAND }, { 0 },
    };
    Options *options = &gpu->bench.options;
    *options = (Options){ .ssb = "bench/ssb", .scale = "20", .parts = "single,together,shape,stream,duckdb,first",
                          .threads = (int)sysconf(_SC_NPROCESSORS_ONLN), .repeats = 5, .program = argv[0],
                          .command = "bench/gpu/run.sh" };
    gpu->device = "cuda";
    gpu->pool = "512MB";
    const char **texts[] = { &options->db,     &options->tbl,   &options->ssb,         &options->duckdb, &options->scratch,
                             &options->scale,  &options->parts, &options->record,      &options->child,  &options->child_query,
                             &gpu->device,     &gpu->pool,      figures };
    int option;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        if (option >= 0 && option < COUNT(texts))
            *texts[option] = optarg;
        else if (option == THREADS)
            options->threads = atoi(optarg);
        else if (option == REPEATS)
            options->repeats = atoi(optarg);
        else if (option == COMMAND)
            snprintf(options->command, sizeof options->command, "%s", optarg);
        else
            return false;
    }
    return optind == argc && (*figures || (options->db && options->tbl && options->duckdb && options->scratch)) &&
           options->threads > 0 && options->repeats > 0;
}

static bool wants(const GpuBench *gpu, const char *part)
{
    return strstr(gpu->bench.options.parts, part);
}

int main(int argc, char **argv)
{
    static GpuBench gpu;
    const char *figures = NULL;
    if (!parse_options(argc, argv, &gpu, &figures)) {
        fprintf(stderr, "usage: gpu --db DB --tbl DIR --ssb DIR --duckdb LIBRARY --scratch DIR [--device cuda] [--pool 512MB]\n"
                        "           [--threads N] [--repeats N] [--scale SF] [--parts single,together,shape,stream,duckdb,first]\n"
                        "           [--record FILE]\n");
        return 2;
    }
    if (figures)
        return print_figures(figures);
    setenv("WEFT_GPU_WAIT", "on", 1);                          // what is timed runs on the device; first runs switch it off
    if (gpu.bench.options.child)
        return !strcmp(gpu.bench.options.child, "stream") ? child_stream(&gpu) : child_first(&gpu);
    gpu.has_targets = strcmp(gpu.device, "cpu") != 0 && !strcmp(gpu.bench.options.scale, "20");
    bench_begin(&gpu.bench);
    write_heading(&gpu.bench, strcmp(gpu.device, "cpu") ? "Star Schema Benchmark on a GPU" : "Star Schema Benchmark, as on a GPU");
    measure_peaks(&gpu);
    // Those with processes of their own go first: one process at a time has the device and the database.
    if (wants(&gpu, "stream"))
        part_stream(&gpu);
    if (wants(&gpu, "first"))
        part_first(&gpu);
    gpu.weft = open_on_device(&gpu);
    gpu.duckdb = open_duckdb(&gpu.bench);
    if (wants(&gpu, "single"))
        part_single(&gpu);
    if (wants(&gpu, "together"))
        part_together(&gpu);
    if (wants(&gpu, "shape"))
        part_shape(&gpu);
    if (wants(&gpu, "duckdb"))
        part_duckdb(&gpu);
    peer_close(gpu.weft);
    peer_close(gpu.duckdb);
    bench_end(&gpu.bench);
    return 0;
}
