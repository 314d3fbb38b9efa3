#!/bin/sh
# The Star Schema Benchmark on a GPU, beside DuckDB: builds, makes the data, runs, prints tables in Markdown (bench/gpu/gpu.c).
#
#     bench/gpu/run.sh [--scale SF] [--device cuda:1] [--parts single,together,shape,shapes,idle,tables,stream,duckdb,first,warm,disk]
#                      [--repeats N] [--pool 128MB] [--rows N] [--threads N] [--alone] [--record FILE]
#
# Scale 20 unless told otherwise: 25 GB in build/bench (or $BENCH_DIR), kept for the next time.  --record writes the same text
# to a file, for bench/results.  --alone leaves DuckDB out: answers are not compared, and there is no part duckdb.
# --device cpu tries the benchmark itself where there is no GPU (with a small --scale).
set -eu
cd "$(dirname "$0")/../.."
program=gpu
default_scale=20
default_device=cuda
options='scale device parts repeats pool rows threads record'
flags='alone'
parts='single together shape shapes idle tables stream duckdb first warm disk'
. bench/prepare.sh
