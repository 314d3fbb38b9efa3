// page_faults.h - page faults of managed memory, counted by CUPTI where it can: opened while running, never needed.
//
//     if (!page_faults_begin(device, &err)) ...;           // err says why they are not counted
//     ...
//     faults = page_faults_end();                          // of the GPU and of the CPU, and what moved

#ifndef WEFT_LAB_PAGE_FAULTS_H
#define WEFT_LAB_PAGE_FAULTS_H

#include "base/base.h"

typedef struct PageFaults {
    double gpu, cpu;                                        // faults of each side
    double bytes_there, bytes_back;                         // that moved to the device, and to the host
} PageFaults;

// $WEFT_LIBCUPTI names the library instead.  Any failure means "not counted", and nothing else changes.
weft_status page_faults_begin(int device, Error *err);
PageFaults  page_faults_end(void);

#endif
