#!/bin/sh
# Rows through pipes into a stream with many continuous views: rows a second, and how soon every view has a row.
#
#     bench/streams/run.sh [--views 100] [--pipes 1] [--seconds 5] [--rate ROWS] [--device cpu] [FOLDER]
#
# FOLDER is where the database is made, and removed again.  Leave the machine alone while it runs.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
case ${1:-} in --help) sed -n '2,/^set /s/^# \{0,1\}//p' bench/streams/run.sh; exit 0 ;; esac
make -s BUILD="$BUILD" "$BUILD/bench/streams"
exec "$BUILD/bench/streams" "$@"
