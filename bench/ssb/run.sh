#!/bin/sh
# The Star Schema Benchmark, Weft beside DuckDB: builds, makes the data, runs, prints tables in Markdown (bench/ssb/ssb.c).
#
#     bench/ssb/run.sh [--scale SF] [--parts hot,first,copy] [--threads N] [--repeats N] [--record FILE]
#
# Scale 1 and all three parts unless told otherwise: some five minutes and 2 GB in build/bench (or $BENCH_DIR), kept for
# the next time.  --record writes the same text to a file, for bench/results.  Leave the machine alone while it runs.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
folder=${BENCH_DIR:-$BUILD/bench}
command="bench/ssb/run.sh $*"

scale=1
for argument; do
    case ${previous:-} in --scale) scale=$argument ;; esac
    previous=$argument
done

make -s BUILD="$BUILD" "$BUILD/weft" "$BUILD/bench/ssb"
duckdb=$(scripts/duckdb)

data=$folder/sf$scale
if [ ! -e "$data/complete" ]; then
    rm -rf "$data"
    mkdir -p "$data"
    "$BUILD/weft" gen ssb --sf "$scale" --tbl "$data/tbl" "$data/ssb.weft"
    : >"$data/complete"
fi

# Kernels from the user's own cache would be no lie here, since hot means compiled; but a folder of its own is cleaner.
[ -d "$data/cache" ] || mkdir -m 700 "$data/cache"
WEFT_CACHE=$(cd "$data/cache" && pwd)
export WEFT_CACHE
exec "$BUILD/bench/ssb" --db "$data/ssb.weft" --tbl "$data/tbl" --ssb bench/ssb --duckdb "$duckdb" --scratch "$data" \
    --command "$command" "$@"
