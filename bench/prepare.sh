# Sourced by bench/*/run.sh, which has set $program: builds it, makes the SSB data of the asked scale, and runs it.

BUILD=${BUILD:-build}
folder=${BENCH_DIR:-$BUILD/bench}
command="bench/$program/run.sh $*"

scale=${default_scale:-1}
for argument; do
    case ${previous:-} in --scale) scale=$argument ;; esac
    previous=$argument
done

make -s BUILD="$BUILD" "$BUILD/weft" "$BUILD/bench/$program"
if [ "${needs_gpu:-no}" = yes ] && ! "$BUILD/weft" devices --need-gpu; then
    echo "bench/$program: nothing was measured: no GPU can be used here (above: why, and what to do)." >&2
    exit 1
fi
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
exec "$BUILD/bench/$program" --db "$data/ssb.weft" --tbl "$data/tbl" --ssb bench/ssb --duckdb "$duckdb" --scratch "$data" \
    --command "$command" "$@"
