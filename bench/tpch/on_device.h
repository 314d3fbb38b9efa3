// on_device.h - TPC-H on a device that is told, beside DuckDB or alone.

#ifndef WEFT_BENCH_TPCH_ON_DEVICE_H
#define WEFT_BENCH_TPCH_ON_DEVICE_H

#include "../bench.h"

// Each query hot on DEVICE, with the number of its kernels that ran there and on the CPU.  DuckDB's answers and times
// stand beside it unless it is to be left out.
void part_device(Bench *bench, const char *device);

#endif
