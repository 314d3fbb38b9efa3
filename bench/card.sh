#!/bin/bash
# Benchmarks on a card that is lent for minutes: part by part, each in the form that bench/results keeps.
#
#     bench/card.sh [--out DIR] [--scale 20] [--device cuda] [--threads 16] [--seconds 3] PART...
#
#   single     each query of SSB, all at once, first runs, warm-up, beside a flow without frames  1 minute
#   crowd      1 to 4,096 clients on the card                                                     2 minutes
#   strangers  16, 256 and 1,024 clients, a fifth of the queries of shapes seen once              2 minutes
#   fair       short queries beside 1,000 clients with long ones                                  1 minute
#   host       1 to 1,024 clients on the CPU's cores                                              2 minutes
#   beside     as crowd, with DuckDB in the same run, which loads text files first                6 minutes?
#   large      1, 64 and 1,024 clients at five times the scale                                    4 minutes
#   streams    CSV through eight pipes into 100 views, on the card and on the CPU                 1 minute
#   flow       weft lab flow                                                                      2 minutes
#   setquery   its seven queries as SQL, beside DuckDB                                            1 minute
#   fuse       weft lab fuse, with large inputs                                                   3 minutes?
#   tpch       all 22 queries at half the scale, beside DuckDB                                    3 minutes?
#
# Minutes are of an H200's host; those with a ? are guesses.
# Each part has 9 minutes at most.  DIR/PART.md has its tables, DIR/PART.log the rest.
# Crowds run twice: the first run fills the cache of kernels and is not kept.  Data is made once, in $BENCH_DIR.
# Ends with one line: N parts passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 2

BUILD=${BUILD:-build}
out=$BUILD/card scale=20 device=cuda threads=16 seconds=3
parts=()
all_parts=' single crowd strangers fair host beside large streams flow setquery fuse tpch '

wrong() { # MESSAGE
    printf "bench/card.sh: %s\nTry 'bench/card.sh --help'.\n" "$1" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
        --help) sed -n '2,/^set /s/^# \{0,1\}//p' bench/card.sh; exit 0 ;;
        --out | --scale | --device | --threads | --seconds)
            [ $# -gt 1 ] || wrong "$1 takes a value"
            declare "${1#--}=$2"
            shift ;;
        *)
            [[ $1 != *' '* && $all_parts == *" $1 "* ]] || wrong "there is no part '$1': parts are$all_parts"
            parts+=("$1") ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || wrong "name a part: parts are$all_parts"

# ---- parts: each writes tables to $record ----------------------------------------------------------------------------

# crowd_of CLIENTS STRANGERS ARGUMENT...: a run that is not kept, then one that is.
crowd_of() {
    local clients=$1 strangers=$2
    shift 2
    set -- --threads "$threads" --parts clients --clients "$clients" --strangers "$strangers" "$@"
    bench/concurrency/run.sh "$@" --alone --seconds 2 &&
        bench/concurrency/run.sh "$@" --alone --seconds "$seconds" --record "$record"
}

part_single() {
    bench/gpu/run.sh --scale "$scale" --device "$device" --alone --parts single,together,idle,first,warm \
        --record "$record"
}

part_crowd() { crowd_of 1,16,64,256,1024,4096 0 --scale "$scale" --device "$device"; }

part_strangers() { crowd_of 16,256,1024 20 --scale "$scale" --device "$device"; }

part_fair() {
    bench/concurrency/run.sh --scale "$scale" --device "$device" --threads "$threads" --parts fair --alone \
        --record "$record"
}

part_host() { crowd_of 1,64,256,1024 0 --scale "$scale" --device cpu; }

part_beside() {
    set -- --scale "$scale" --device "$device" --threads "$threads" --parts clients --strangers 0
    set -- "$@" --clients 1,16,64,256,1024,4096
    bench/concurrency/run.sh "$@" --alone --seconds 2 &&
        bench/concurrency/run.sh "$@" --duckdb-clients 64 --seconds "$seconds" --record "$record"
}

part_large() { crowd_of 1,64,1024 0 --scale $((scale * 5)) --device "$device"; }

part_streams() {
    local folder=${BENCH_DIR:-$BUILD/bench} on
    mkdir -p "$folder"
    for on in "$device" cpu; do
        echo "$on:"
        bench/streams/run.sh --views 100 --pipes 8 --seconds 2 --device "$on" "$folder" || return 1
    done >"$record"
}

part_flow() {
    "$BUILD/weft" lab flow --device "${device/%cuda/cuda:0}" --seconds 100 --ms 30 --runs 2 --out "$out/flow" >"$record"
}

part_setquery() { bench/setquery/run.sh --device "$device" --threads "$threads" --record "$record"; }

part_fuse() {
    "$BUILD/weft" lab fuse --device "${device/%cuda/cuda:0}" --runs 4 --out "$out/fuse" >"$record"
}

part_tpch() {
    bench/tpch/run.sh --scale $(((scale + 1) / 2)) --device "$device" --threads "$threads" --repeats 2 \
        --record "$record"
}

# ---- one after the other ------------------------------------------------------------------------------------

# A part is this script once more, in a process of its own, so that its time can have a limit.
if [ "${CARD_PART:-}" ]; then
    record=$CARD_RECORD
    "part_$CARD_PART"
    exit
fi

mkdir -p "$out" || exit 2
make -s -j"$(nproc)" BUILD="$BUILD" "$BUILD/weft" "$BUILD"/bench/{gpu,concurrency,streams} || exit 1
n_passed=0 n_failed=0
for part in "${parts[@]}"; do
    start=$SECONDS
    if CARD_PART=$part CARD_RECORD=$out/$part.md timeout -k 10 540 bash "$0" --out "$out" --scale "$scale" \
        --device "$device" --threads "$threads" --seconds "$seconds" "$part" >"$out/$part.log" 2>&1; then
        n_passed=$((n_passed + 1))
        echo "ok      $part: $((SECONDS - start)) s, $out/$part.md"
    else
        n_failed=$((n_failed + 1))
        echo "FAILED  $part: $((SECONDS - start)) s; its log ends:"
        tail -n 5 "$out/$part.log" | sed 's/^/    | /'
    fi
done
echo "$n_passed parts passed, $n_failed failed"
[ $n_failed = 0 ]
