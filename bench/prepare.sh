# shellcheck shell=sh disable=SC2154
# Sourced by bench/*/run.sh, which has set $program, $options (each followed by a value), $flags (followed by none) and $parts: reads its
# arguments, builds the program, makes the data of the asked scale, and runs it.  $workload is ssb unless it was set.

BUILD=${BUILD:-build}
folder=${BENCH_DIR:-$BUILD/bench}
command="bench/$program/run.sh $*"

# ---- arguments -------------------------------------------------------------------------------------------------------
# All are read before anything is fetched, built or made: who mistypes one is told at once, and the scale is part of a path that is removed.

wrong() { # MESSAGE
    printf "bench/%s/run.sh: %s\nTry 'bench/%s/run.sh --help'.\n" "$program" "$1" "$program" >&2
    exit 2
}

is_among() { # WORD WORDS
    case $1 in '' | *[!a-z-]*) return 1 ;; esac
    case " $2 " in *" $1 "*) return 0 ;; esac
    return 1
}

is_number() { # TEXT MOST: digits with at most one point among them, above 0
    case $1 in *[!0-9.]* | *.*.* | .* | *.) return 1 ;; esac
    awk -v number="$1" -v most="$2" 'BEGIN { exit !(number + 0 > 0 && number + 0 <= most + 0) }'
}

is_whole_number() { # TEXT
    case $1 in *[!0-9]*) return 1 ;; esac
    is_number "$1" 1000000000
}

check_parts() { # LIST
    rest=$1,
    while [ -n "$rest" ]; do
        is_among "${rest%%,*}" "$parts" || wrong "there is no part '${rest%%,*}': parts are $(echo "$parts" | sed 's/ /, /g')"
        rest=${rest#*,}
    done
}

# weft gen takes scales up to 350.
check_value() { # OPTION VALUE
    case $2 in '' | -*) wrong "--$1 takes a value, not '$2'" ;; esac
    case $1 in
        scale) is_number "$2" 350 || wrong "--scale takes a number above 0 and at most 350, not '$2'" ;;
        seconds) is_number "$2" 1000000 || wrong "--seconds takes a number above 0, not '$2'" ;;
        seed) case $2 in *[!0-9]*) wrong "--seed takes a whole number, not '$2'" ;; esac ;;
        threads | repeats | rows | duckdb-clients) is_whole_number "$2" || wrong "--$1 takes a whole number from 1 on, not '$2'" ;;
        clients) case $2 in *[!0-9,]* | ,* | *, | *,,*) wrong "--clients takes numbers with commas between them, not '$2'" ;; esac ;;
        strangers) case $2 in [0-9] | [0-9][0-9] | 100) ;; *) wrong "--strangers takes a share in percent, not '$2'" ;; esac ;;
        pool) case $2 in [0-9]*) ;; *) wrong "--pool takes a size such as 128MB, not '$2'" ;; esac ;;
        device) case $2 in cpu | cuda | cuda:[0-9] | cuda:[0-9][0-9]) ;; *) wrong "--device takes cpu, cuda or cuda:N, not '$2'" ;; esac ;;
        parts) check_parts "$2" ;;
    esac
}

scale=${default_scale:-1} device=${default_device:-} option=
take_value() { # VALUE, of $option
    check_value "$option" "$1"
    case $option in scale) scale=$1 ;; device) device=$1 ;; esac
    option=
}

for argument; do
    if [ -n "$option" ]; then
        take_value "$argument"
        continue
    fi
    case $argument in
        --help) sed -n '2,/^set /s/^# \{0,1\}//p' "bench/$program/run.sh"; exit 0 ;;
        --*) option=${argument#--} ;;
        *) wrong "there is nothing to do with '$argument'" ;;
    esac
    if is_among "$option" "$flags"; then
        option=
        continue
    fi
    is_among "${option%%=*}" "$options" || wrong "there is no option '${argument%%=*}'"
    case $argument in --*=*) option=${option%%=*}; take_value "${argument#*=}" ;; esac
done
[ -z "$option" ] || wrong "--$option takes a value"

# ---- the program, and where it runs ----------------------------------------------------------------------------------

make -s BUILD="$BUILD" "$BUILD/weft" "$BUILD/bench/$program"
case $device in
    cuda*)
        if ! "$BUILD/weft" devices --need-gpu; then
            echo "bench/$program: nothing was measured: no GPU can be used here (above: why, and what to do)." >&2
            exit 1
        fi
        # Opened once, so that one that is not there is named before the data is made.
        if ! WEFT_DEVICE_MEMORY=64MB "$BUILD/weft" -q --set device="$device" -c 'show device' >/dev/null; then
            echo "bench/$program: nothing was measured: $device cannot be used here (above: why)." >&2
            exit 1
        fi ;;
esac
case " $* " in *' --alone '*) alone=yes duckdb=none ;; *) alone=no duckdb=$(scripts/duckdb) ;; esac

# ---- data ------------------------------------------------------------------------------------------------------------

workload=${workload:-ssb}
data=$folder/sf$scale
[ "$workload" = ssb ] || data=$folder/$workload-sf$scale
[ $alone = no ] || data=$data-alone                         # only the database: DuckDB reads the .tbl files
if [ ! -e "$data/complete" ]; then
    rm -rf "$data"
    mkdir -p "$data"
    if [ $alone = yes ]; then
        "$BUILD/weft" gen "$workload" --sf "$scale" "$data/$workload.weft"
    else
        "$BUILD/weft" gen "$workload" --sf "$scale" --tbl "$data/tbl" "$data/$workload.weft"
    fi
    : >"$data/complete"
fi

# Kernels from the user's own cache would be no lie here, since hot means compiled; but a folder of its own is cleaner.
[ -d "$data/cache" ] || mkdir -m 700 "$data/cache"
WEFT_CACHE=$(cd "$data/cache" && pwd)
export WEFT_CACHE
exec "$BUILD/bench/$program" --db "$data/$workload.weft" --tbl "$data/tbl" --folder "bench/$workload" \
    --duckdb "$duckdb" --scratch "$data" --command "$command" "$@"
