#!/bin/sh
# Set Query, Weft beside DuckDB: builds, makes the data, runs, prints a table in Markdown (bench/setquery/setquery.c).
#
#     bench/setquery/run.sh [--scale SF] [--threads N] [--repeats N] [--device cuda] [--alone] [--record FILE]
#
# Scale 1, 10 million rows, unless told otherwise: a minute and 1.5 GB in build/bench (or $BENCH_DIR), kept for the next
# time.  --record writes the same text to a file, for bench/results.  Leave the machine alone meanwhile.  --device runs
# Weft there, with a column that says how many kernels did; --alone leaves DuckDB out.
set -eu
cd "$(dirname "$0")/../.."
program=setquery
workload=setquery
options='scale threads repeats device record'
flags='alone'
parts=
. bench/prepare.sh
