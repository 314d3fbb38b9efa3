# shellcheck shell=bash
# Sourced by tests/check-gpu and tests/check-stress-gpu, in the root of the tree: the fake driver is the driver, and what programs say is added up.

BUILD=${BUILD:-build}
make -s BUILD="$BUILD" fake-cuda || exit 1

case $BUILD in /*) folder=$BUILD ;; *) folder=$PWD/$BUILD ;; esac
export WEFT_LIBCUDA=$folder/gpu/libfake_cuda.so WEFT_LIBNVRTC=$folder/gpu/libfake_cuda.so
export WEFT_GPU_WAIT=on                                     # the device runs everything, whatever compiling costs
passed=0 failed=0

run() { # NAME COMMAND...: adds up its "N passed, N failed"
    local name=$1 output counts n status
    shift
    output=$("$@" 2>&1)
    status=$?
    counts=$(grep -aEo '[0-9]+ passed, [0-9]+ failed' <<<"$output" | tail -n 1)
    counts=${counts:-"0 passed, 1 failed"}
    n=${counts##*, }
    n=${n%% *}
    [ $status != 0 ] && [ "$n" = 0 ] && n=1                 # it ended badly
    [ "$n" != 0 ] && { echo "failed: $name"; tail -n 60 <<<"$output"; }
    passed=$((passed + ${counts%% *}))
    failed=$((failed + n))
}
