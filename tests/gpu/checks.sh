# shellcheck shell=bash
# Sourced by tests/check-gpu and tests/check-stress-gpu, in the root of the tree: the fake driver is the driver, and
# what programs say is added up.

BUILD=${BUILD:-build}
make -s BUILD="$BUILD" fake-cuda || exit 1

case $BUILD in /*) folder=$BUILD ;; *) folder=$PWD/$BUILD ;; esac
export WEFT_LIBCUDA=$folder/gpu/libfake_cuda.so WEFT_LIBNVRTC=$folder/gpu/libfake_cuda.so
export WEFT_GPU_WAIT=on                                     # the device runs everything, whatever compiling costs
# What the CPU computes is what the device is compared with, and how cc optimises that is no subject here.
export WEFT_CC=${WEFT_CC:-$PWD/tests/unoptimised-cc}
passed=0 failed=0

# NAME STATUS OUTPUT: adds up its "N passed, N failed", and shows the end of it where something failed.
add_up() {
    local name=$1 status=$2 output=$3 counts n
    counts=$(grep -aEo '[0-9]+ passed, [0-9]+ failed' <<<"$output" | tail -n 1)
    counts=${counts:-"0 passed, 1 failed"}
    n=${counts##*, }
    n=${n%% *}
    [ "$status" != 0 ] && [ "$n" = 0 ] && n=1               # it ended badly
    [ "$n" != 0 ] && { echo "failed: $name"; tail -n 60 <<<"$output"; }
    passed=$((passed + ${counts%% *}))
    failed=$((failed + n))
}

# Where $TIMES names a file, each part adds a line to it: seconds, those of the CPU in user and system, and its name.
timed_part() { # NAME COMMAND...
    local TIMEFORMAT="%R %U %S $1"
    shift
    [ -n "${TIMES:-}" ] || { "$@" 2>&1; return; }
    { time "$@" 2>&1; } 2>>"$TIMES"
}

run() { # NAME COMMAND...
    local name=$1 output
    output=$(timed_part "$@")
    add_up "$name" $? "$output"
}

# begin NAME COMMAND...: as run, beside others that were begun, one on each core; for what looks at no clock and takes
# one core.  finish waits for all of them.
begun=() n_begun=0
begin() {
    local output
    output=$(mktemp "${TMPDIR:-/tmp}/weft-begun.XXXXXX") || exit 2
    [ $n_begun -lt "$(nproc)" ] || { wait -n; n_begun=$((n_begun - 1)); }
    begun+=("$1" "$output")
    n_begun=$((n_begun + 1))
    (timed_part "$@" >"$output"; echo $? >"$output.status") &
}

finish() {
    local i
    wait
    for ((i = 0; i < ${#begun[@]}; i += 2)); do
        add_up "${begun[i]}" "$(cat "${begun[i + 1]}.status" || echo 1)" "$(cat "${begun[i + 1]}")"
        rm -f "${begun[i + 1]}" "${begun[i + 1]}.status"
    done
    begun=() n_begun=0
}
