// first.h - the part of bench/tpch that starts processes; see first.c.

#ifndef WEFT_BENCH_TPCH_FIRST_H
#define WEFT_BENCH_TPCH_FIRST_H

#include "../bench.h"

void part_first(Bench *bench);
int  first_as_child(Bench *bench);     // in the processes that part_first starts

#endif
