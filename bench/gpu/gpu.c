// gpu.c - the Star Schema Benchmark on a GPU: kernels, single and at once, resident and streamed, beside DuckDB.
//
//     gpu --db DB --tbl DIR --folder bench/ssb --duckdb LIBRARY --scratch DIR [--device cuda] [--pool 128MB]
//         [--threads N] [--repeats N] [--scale SF] [--rows N] [--alone] [--record FILE]
//         [--parts single,together,shape,shapes,idle,tables,stream,duckdb,first,warm,disk]
//     gpu --figures FILE                  what it reads out of a text of EXPLAIN ANALYZE; for its test
//
// bench/README.md says what each part measures.

#define _GNU_SOURCE
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int print_figures(const char *path)
{
    Figures figures;
    char *text = read_whole_file(path);
    if (!text || !figures_of(text, &figures))
        die(path, text ? "names no kernel" : "cannot be read");
    printf(
        "kernels %.3f ms, tables %.3f ms, %.0f bytes, %.0f over the link, %d kernels on the device, %d on the CPU, %d "
        "launches\n",
        figures.kernels_ms, figures.build_ms, figures.bytes, figures.bytes_link, figures.n_on_device, figures.n_on_cpu,
        figures.n_launches);
    JoinFigures join;
    if (join_of(text, &join))
        printf("table: %s, %s, %.3f ms by %s\n", join.kind, join.bytes, join.build_ms, join.by);
    free(text);
    return 0;
}

static bool parse_options(int argc, char **argv, GpuBench *gpu, const char **figures)
{
    Options *options = &gpu->bench.options;
    gpu->bench.workload = &WORKLOAD_SSB;
    *options = (Options){ .folder = "bench/ssb",
                          .scale = "20",
                          .parts = "single,together,shape,shapes,idle,tables,stream,duckdb,first,warm,disk",
                          .threads = (int)sysconf(_SC_NPROCESSORS_ONLN),
                          .repeats = 5,
                          .command = "bench/gpu/run.sh" };
    gpu->device = "cuda";
    gpu->pool = "128MB";
    gpu->rows = "10000000";
    const OwnOption own[] = { { "device", &gpu->device, NULL },
                              { "pool", &gpu->pool, NULL },
                              { "rows", &gpu->rows, NULL },
                              { "figures", figures, NULL },
                              { "alone", NULL, &options->alone } };
    return bench_options(argc, argv, options, own, COUNT(own)) && (*figures || options_are_whole(options));
}

static bool wants(const GpuBench *gpu, const char *part)
{
    const size_t length = strlen(part);
    for (const char *at = gpu->bench.options.parts; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, part, length))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static GpuBench gpu;
    const char *figures = NULL;
    if (!parse_options(argc, argv, &gpu, &figures)) {
        fprintf(stderr,
                "usage: gpu --db DB --tbl DIR --folder DIR --duckdb LIBRARY --scratch DIR [--device cuda]\n"
                "           [--pool 128MB] [--threads N] [--repeats N] [--scale SF] [--rows N] [--alone]\n"
                "           [--parts single,together,shape,shapes,idle,tables,stream,duckdb,first,warm,disk]\n"
                "           [--record FILE]\n");
        return 2;
    }
    if (figures)
        return print_figures(figures);
    // What is timed runs on the device; first runs switch it off.
    setenv("WEFT_GPU_WAIT", "on", 1);
    if (gpu.bench.options.child)
        return !strcmp(gpu.bench.options.child, "stream") ? child_stream(&gpu)
               : !strcmp(gpu.bench.options.child, "disk") ? child_disk(&gpu)
               : !strcmp(gpu.bench.options.child, "warm") ? child_warm(&gpu)
                                                          : child_first(&gpu);
    gpu.has_targets = strcmp(gpu.device, "cpu") != 0 && !strcmp(gpu.bench.options.scale, "20");
    bench_begin(&gpu.bench);
    write_heading(&gpu.bench,
                  strcmp(gpu.device, "cpu") ? "Star Schema Benchmark on a GPU" : "Star Schema Benchmark, as on a GPU");
    measure_peaks(&gpu);
    // Those with processes of their own go first: one process at a time has the device and the database.  So does the
    // one with a database of its own.
    if (wants(&gpu, "stream"))
        part_stream(&gpu);
    if (wants(&gpu, "first"))
        part_first(&gpu);
    if (wants(&gpu, "warm"))
        part_warm(&gpu);
    if (wants(&gpu, "disk"))
        part_disk(&gpu);
    if (wants(&gpu, "tables"))
        part_tables(&gpu);
    gpu.weft = open_on_device(&gpu);
    if (!gpu.bench.options.alone && (wants(&gpu, "single") || wants(&gpu, "shape") || wants(&gpu, "duckdb")))
        gpu.duckdb = open_duckdb(&gpu.bench);
    if (wants(&gpu, "single"))
        part_single(&gpu);
    if (wants(&gpu, "together"))
        part_together(&gpu);
    if (wants(&gpu, "shape"))
        part_shape(&gpu);
    if (wants(&gpu, "shapes"))
        part_shapes(&gpu);
    if (wants(&gpu, "idle"))
        part_idle(&gpu);
    if (wants(&gpu, "duckdb") && gpu.duckdb)
        part_duckdb(&gpu);
    peer_close(gpu.weft);
    peer_close(gpu.duckdb);
    bench_end(&gpu.bench);
    return 0;
}
