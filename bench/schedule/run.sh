#!/bin/bash
# What gpu_schedule makes of small kernels, and whether model is ever slower than plain (schedule.c): builds, makes the
# data, runs, prints tables in Markdown.
#
#     bench/schedule/run.sh [--device cuda] [--parts small,forced,ssb,streamed] [--scale SF] [--rows N] [--rounds N]
#         [--record FILE]
#
#   small     16 different kernels over a million rows, every schedule; the target is judged here
#   forced    the same with WEFT_GPU_PLAN=always: what the plan does where it is used whether it is quicker or not
#   ssb       the 13 queries at scale 20 (--scale), plain and model
#   streamed  the same with less device memory than their columns take (WEFT_DEVICE_MEMORY, 1GB unless it is set)
#
# Without a GPU, try it with the fake driver (make fake-cuda; WEFT_LIBCUDA, WEFT_LIBNVRTC), --rows 20000 --scale 0.01:
# figures of the fake driver mean nothing.  Leave the machine alone while it runs.
set -eu
cd "$(dirname "$0")/../.."

BUILD=${BUILD:-build}
device=cuda parts=small,forced,ssb,streamed scale=20 rows=1000000 rounds= record=
while [ $# -gt 0 ]; do
    case $1 in
        --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --device | --parts | --scale | --rows | --rounds | --record)
            [ $# -gt 1 ] || { echo "bench/schedule/run.sh: $1 takes a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift ;;
        *) echo "bench/schedule/run.sh: there is no option '$1'" >&2; exit 2 ;;
    esac
    shift
done
make -s BUILD="$BUILD" all "$BUILD/bench/schedule"

has() { case ,$parts, in *,"$1",*) true ;; *) false ;; esac; }
schedule() { "$BUILD/bench/schedule" "$@" --device "$device" ${rounds:+--rounds "$rounds"}; }

run_parts() {
    local db=${BENCH_DIR:-$BUILD/bench}/schedule-ssb$scale.weft
    printf '# gpu_schedule\n\n`bench/schedule/run.sh --parts %s --scale %s --rows %s`\n\n' "$parts" "$scale" "$rows"
    "$BUILD/weft" devices | sed 's/^/    /'
    echo
    if has small; then
        printf '## Small kernels\n\n'
        schedule small --rows "$rows"
    fi
    if has forced; then
        printf '## Small kernels, always planned\n\n'
        WEFT_GPU_PLAN=always schedule small --rows "$rows"
    fi
    if { has ssb || has streamed; } && [ ! -d "$db" ]; then
        mkdir -p "$(dirname "$db")"
        "$BUILD/weft" gen ssb --sf "$scale" "$db" >/dev/null
    fi
    if has ssb; then
        printf '## SSB %s, resident\n\n' "$scale"
        schedule ssb --db "$db" --folder bench/ssb/queries
    fi
    if has streamed; then
        printf '## SSB %s, streamed\n\n' "$scale"
        WEFT_DEVICE_MEMORY=${WEFT_DEVICE_MEMORY:-1GB} schedule ssb --db "$db" --folder bench/ssb/queries
    fi
}

if [ -n "$record" ]; then
    run_parts | tee "$record"
else
    run_parts
fi
