// survey.h - what devices this machine has and how fast their memory is; for people, and for shares of a peak.
//
//     CpuInfo cpu;  survey_cpu(&cpu);
//     GpuInfo gpu;  TRY(survey_gpu(0, &gpu, err));
//     GpuSpeeds speeds;  TRY(measure_gpu(0, &speeds, err));       // about a second, and a few GiB on the device
//
// Any thread may call.  Speeds are the best of a few tries in GB/s (10^9 bytes): a peak to compare with, not a mean.

#ifndef WEFT_SURVEY_H
#define WEFT_SURVEY_H

#include "base/base.h"

enum { SURVEY_CACHES = 4 };

typedef struct CpuInfo {
    char model[128];                                        // "" when the system does not say
    int  n_cores;                                           // that this process may use
    i64  memory_bytes;                                      // of the machine, or of the container where that is less
    i64  cache_bytes[SURVEY_CACHES];                        // by level from 1, of data; 0: unknown
} CpuInfo;

typedef struct GpuInfo {
    char   name[128];
    char   bus_id[32];                                      // 0000:1b:00.0
    size_t memory_bytes;
    int    major, minor;                                    // compute capability
    int    n_multiprocessors;
    int    clock_mhz;
    i64    l2_bytes;
} GpuInfo;

typedef struct CpuSpeeds { double read_one, read_all; } CpuSpeeds;     // with one thread, with all cores

typedef struct GpuSpeeds {
    double to_device_pinned, to_device_pageable, to_host_pinned;
    double read;                                            // of its own memory, by a kernel
    double launch_us;                                       // of a kernel that does nothing, one after the other
    Error  no_kernel;                                       // why the last two are missing; OK when they are not
} GpuSpeeds;

void        survey_cpu(CpuInfo *cpu);
weft_status survey_gpu(int ordinal, GpuInfo *gpu, Error *err);         // from 0 to cuda_driver()->n_gpus - 1
void        survey_driver_version(char *version, size_t capacity);     // "580.159.04"; "" when it is not known

weft_status measure_cpu(CpuSpeeds *speeds, Error *err);                // a second; takes an eighth of memory, at most 1
                                                                       // GiB
weft_status measure_gpu(int ordinal, GpuSpeeds *speeds, Error *err);
// Only reads of its own memory, within a few milliseconds once the compiler is warm: for a device that is in use but
// idle.  Takes at most 1 GiB that is free, and fails where less is free than it takes to get past the caches.
weft_status measure_gpu_reads(int ordinal, double *speed, Error *err);

#endif
