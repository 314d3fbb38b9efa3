#!/bin/sh
# The Star Schema Benchmark, Weft beside DuckDB: builds, makes the data, runs, prints tables in Markdown
# (bench/ssb/ssb.c).
#
#     bench/ssb/run.sh [--scale SF] [--parts hot,first,copy] [--threads N] [--repeats N] [--record FILE]
#
# Scale 1 and all three parts unless told otherwise: some five minutes and 2 GB in build/bench (or $BENCH_DIR), kept for
# the next time.  --record writes the same text to a file, for bench/results.  Leave the machine alone while it runs.
set -eu
cd "$(dirname "$0")/../.."
program=ssb
options='scale parts threads repeats record'
flags=''
parts='hot first copy'
. bench/prepare.sh
