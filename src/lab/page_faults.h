// page_faults.h - page faults of managed memory, counted by CUPTI where it can: opened while running, never needed.
//
//     if (!page_faults_begin(device, &err)) ...;           // err says why they are not counted
//     ...
//     n = page_faults_end();                               // of the GPU and of the CPU

#ifndef WEFT_LAB_PAGE_FAULTS_H
#define WEFT_LAB_PAGE_FAULTS_H

#include "base/base.h"

// $WEFT_LIBCUPTI names the library instead.  Any failure means "not counted", and nothing else changes.
weft_status page_faults_begin(int device, Error *err);
i64         page_faults_end(void);

#endif
