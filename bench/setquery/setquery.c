// setquery.c - the Set Query benchmark's seven SQLs, Weft beside DuckDB: same rows, same machine, same process, same
// number of threads.
//
//     setquery --db DB --tbl DIR --folder bench/setquery --duckdb LIBRARY --scratch DIR [--threads N] [--repeats N]
//              [--scale SF] [--device cuda] [--alone] [--record FILE]
//
// Each query by itself: on the CPU beside DuckDB as bench.h has it, else as on_device.h.

#include <stdio.h>
#include <string.h>

#include "../tpch/on_device.h"

int main(int argc, char **argv)
{
    static Bench bench = { .workload = &WORKLOAD_SETQUERY,
                           .options = { .folder = "bench/setquery",
                                        .scale = "1",
                                        .threads = 2,
                                        .repeats = 15,
                                        .command = "bench/setquery/run.sh" } };
    const char     *device = "cpu";
    const OwnOption own[] = { { "device", &device, NULL }, { "alone", NULL, &bench.options.alone } };
    if (!bench_options(argc, argv, &bench.options, own, COUNT(own)) || !options_are_whole(&bench.options)) {
        fprintf(stderr,
                "usage: setquery --db DB --tbl DIR --folder DIR --duckdb LIBRARY --scratch DIR [--threads N]\n"
                "                [--repeats N] [--scale SF] [--device cuda] [--alone] [--record FILE]\n");
        return 2;
    }
    bench_begin(&bench);
    write_heading(&bench, "Set Query");
    if (strcmp(device, "cpu") != 0 || bench.options.alone) part_device(&bench, device);
    else part_hot(&bench);
    bench_end(&bench);
    return 0;
}
