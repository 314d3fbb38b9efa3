#!/bin/sh
# Many queries at once, Weft beside DuckDB: builds, makes the data, runs, prints tables in Markdown (concurrency.c).
#
#     bench/concurrency/run.sh [--scale SF] [--parts thirteen,random,loop,marginal,alone,attach,new,clients,fair]
#         [--device cpu|cuda|cuda:N] [--threads N] [--repeats N] [--seconds S] [--seed N] [--duckdb-clients N]
#         [--clients N,N,...] [--strangers PERCENT] [--check] [--quick] [--alone] [--record FILE]
#
# Scale 1 and all parts unless told otherwise; some ten minutes, with --quick one.  The data is that of bench/ssb, in
# build/bench (or $BENCH_DIR).  --record writes the same text to a file, for bench/results.  Leave the machine alone
# while it runs.  --alone leaves DuckDB out, for --parts clients and fair.
set -eu
cd "$(dirname "$0")/../.."
program=concurrency
options='scale parts device threads repeats seconds seed duckdb-clients clients strangers record'
flags='quick check alone'
parts='thirteen random loop marginal alone attach new clients fair'
. bench/prepare.sh
