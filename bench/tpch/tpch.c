// tpch.c - TPC-H, Weft beside DuckDB: same rows, same machine, same process, same number of threads.
//
//     tpch --db DB --tbl DIR --folder bench/tpch --duckdb LIBRARY --scratch DIR [--queries q01,q03] [--threads N]
//          [--repeats N] [--scale SF] [--device cuda] [--alone] [--parts hot,first] [--record FILE]
//
// hot     Each query by itself (see bench.h); on a device other than the CPU, or without DuckDB, as on_device.c has it.
// first   The first query of a new process, of Weft alone (see first.c).
//
// A run ends when the engine has the whole answer in its own form.  Neither side caches results.  Weft works on a
// database folder, DuckDB on tables in memory.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "first.h"
#include "on_device.h"

static bool is_wanted(const char *name, const char *wanted)
{
    return !wanted || strstr(wanted, name) != NULL;
}

static void choose_queries(Bench *bench, const char *wanted)
{
    int n_kept = 0;
    for (int q = 0; q < bench->n_queries; q++) {
        if (is_wanted(bench->queries[q].name, wanted)) bench->queries[n_kept++] = bench->queries[q];
        else free(bench->queries[q].sql);
    }
    bench->n_queries = n_kept;
}

int main(int argc, char **argv)
{
    static Bench bench = { .workload = &WORKLOAD_TPCH,
                           .options = { .folder = "bench/tpch",
                                        .scale = "1",
                                        .parts = "hot",
                                        .threads = 2,
                                        .repeats = 7,
                                        .command = "bench/tpch/run.sh" } };
    const char     *wanted = NULL, *device = "cpu";
    const OwnOption own[] = { { "queries", &wanted, NULL },
                              { "device", &device, NULL },
                              { "alone", NULL, &bench.options.alone } };
    if (!bench_options(argc, argv, &bench.options, own, COUNT(own)) || !options_are_whole(&bench.options)) {
        fprintf(stderr,
                "usage: tpch --db DB --tbl DIR --folder DIR --duckdb LIBRARY --scratch DIR [--queries q01,q03]\n"
                "            [--threads N] [--repeats N] [--scale SF] [--device cuda] [--alone] [--parts hot,first]\n"
                "            [--record FILE]\n");
        return 2;
    }
    if (bench.options.child) return first_as_child(&bench);
    const bool has_hot = strstr(bench.options.parts, "hot") != NULL, is_alone = bench.options.alone;
    bench.options.alone |= !has_hot;
    bench_begin(&bench);
    choose_queries(&bench, wanted);
    if (!bench.n_queries) die(wanted ? wanted : "queries", "there is no such query");
    write_heading(&bench, "TPC-H");
    if (has_hot && (strcmp(device, "cpu") != 0 || is_alone))
        part_device(&bench, device);
    else if (has_hot)
        part_hot(&bench);
    if (strstr(bench.options.parts, "first"))
        part_first(&bench);
    bench_end(&bench);
    return 0;
}
