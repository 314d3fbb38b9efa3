#!/bin/sh
# What the host does for a query beside pushing rows: instructions of SSB queries with random constants, counted by
# callgrind, with plan_cache = text (each text is parsed) and on (texts of one shape share a plan).
#
#     bench/host/run.sh [QUERIES]                 6 of each shape unless said; a minute or two
#
# SSB at scale 0.01 in build/bench (or $BENCH_DIR), kernels by tcc, since valgrind does not know all instructions that
# cc uses.  Needs valgrind, with its headers when the program is built.  glibc clears and copies with vector
# instructions, not with "rep": valgrind would count each byte of those.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
folder=${BENCH_DIR:-$BUILD/bench}
queries=${1:-6}
data=$folder/host-ssb.weft
command -v callgrind_annotate >/dev/null || { echo "bench/host/run.sh: valgrind is not installed" >&2; exit 2; }

make -s BUILD="$BUILD" "$BUILD/weft" "$BUILD/bench/host"
mkdir -p "$folder"
[ -d "$data" ] || "$BUILD/weft" gen ssb --sf 0.01 "$data" >/dev/null
scratch=$(mktemp -d "${TMPDIR:-/tmp}/weft-host.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=1000000000:glibc.cpu.x86_rep_movsb_threshold=1000000000

count() { # NAME SETTING
    valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$scratch/$1" "$BUILD/bench/host" "$data" \
        "$queries" "set jit = tcc" "$2" >/dev/null 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
    for shape in $(seq 13); do
        awk -v n="$queries" '/^totals:/ { printf "%.0f\n", $2 / n / 1000 }' "$scratch/$1.$shape"
        callgrind_annotate --inclusive=yes --auto=no --threshold=100 "$scratch/$1.$shape" >>"$scratch/$1.functions"
    done >"$scratch/$1.totals"
}

# FUNCTION: thousands of instructions of a query, with all that it calls, mean of the shapes; both ways
of() {
    for way in text on; do
        sed 's/([^)]*)//' "$scratch/$way.functions" |
            awk -v f=":$1 " -v n="$queries" 'index($0, f) { gsub(",", "", $1); sum += $1 }
                                             END { printf " %.0f |", sum / n / 13 / 1000 }'
    done
}

line() { printf '| %s |%s\n' "$1" "$(of "$2")"; } # LABEL FUNCTION

count text "set plan_cache = text"
count on "set plan_cache = on"

echo "Thousands of instructions of a query, all threads:"
echo
echo "| query | plan_cache = text | on | of it |"
echo "| --- | --: | --: | --: |"
printf '%s\n' Q1.1 Q1.2 Q1.3 Q2.1 Q2.2 Q2.3 Q3.1 Q3.2 Q3.3 Q3.4 Q4.1 Q4.2 Q4.3 |
    paste - "$scratch/text.totals" "$scratch/on.totals" |
    awk '{ printf "| %s | %d | %d | %.0f %% |\n", $1, $2, $3, 100 * $3 / $2; a += $2; b += $3 }
         END { printf "| mean | %.0f | %.0f | %.0f %% |\n", a / NR, b / NR, 100 * b / a }'
echo
echo "Where, mean of the thirteen (a line may hold what is called from another one):"
echo
echo "| part | plan_cache = text | on |"
echo "| --- | --: | --: |"
line "libpg_query: parse, and write the tree (worker)" pg_query_parse_protobuf
line "read the tree back (worker)" tree_unpack
line "shape of the text" sql_shape
line "find a tree and fill it in" tree_find
line "a plan of the shape, with the constants put in" shape_plans_find
line "such plans made" shaped_offer
line "bind" bind_statement
line "rewrites, join order" plan_rewrite
line "cut into pipelines" plan_cut
line "signatures, for sharing" query_signature
line "weave: kernel text" weave
line "code of a text" jit_get
line "push rows (the caller's thread), with kernels" network_ride
line "kernels, all threads" call_kernel
line "join tables from rows" table_build
line "the answer" result_from_query
