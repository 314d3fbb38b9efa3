#!/bin/sh
# TPC-H, Weft beside DuckDB: builds, makes the data, runs, prints a table in Markdown (bench/tpch/tpch.c).
#
#     bench/tpch/run.sh [--scale SF] [--queries q01,q03] [--threads N] [--repeats N] [--device cuda] [--alone]
#         [--parts hot,first] [--record FILE]
#
# Scale 1 and all 22 queries unless told otherwise: some seven minutes and 3 GB in build/bench (or $BENCH_DIR),
# kept for the next time.  --record writes the same text to a file, for bench/results.  Leave the machine alone
# meanwhile.  --device runs Weft there, with a column that says how many kernels did; --alone leaves DuckDB out.
set -eu
cd "$(dirname "$0")/../.."
program=tpch
workload=tpch
options='scale queries threads repeats device parts record'
flags='alone'
parts='hot first'
. bench/prepare.sh
