// operators.h - what weft lab flow computes: operators as tile C, their parameters, and how long their outputs are.
//
//     const LabOperator *raid6 = operator_find("raid6");
//     OperatorParams params;
//     operator_params(raid6, frame_bytes, &params);
//     operator_output_bytes(raid6, frame_bytes);

#ifndef WEFT_LAB_OPERATORS_H
#define WEFT_LAB_OPERATORS_H

#include "base/base.h"

typedef struct OperatorParams {
    _Alignas(16) u8 bytes[64 * 64 * sizeof(float)];
} OperatorParams;

typedef struct LabOperator {
    const char *name;                                       // of the function in the text
    const char *title;                                      // for people
    const char *text;                                       // tile C
    int         bytes_in, bytes_out;                        // so many bytes of output for so many of input
    u32         number;                                     // of FMAx: x
    bool        is_heavy;                                   // computes much for each byte
} LabOperator;

int                operator_count(void);
const LabOperator *operator_at(int i);
const LabOperator *operator_find(const char *title);        // by title: "RAID-6", "FMA16".  NULL: there is none
void               operator_params(const LabOperator *op, size_t frame_bytes, OperatorParams *params);
size_t             operator_output_bytes(const LabOperator *op, size_t frame_bytes);

// The CPU's answer by another way, for one frame of any bytes: RAID-6 by tables of logarithms; the AES key is that of
// FIPS 197, C.1, whose vector must come out.  UNDEFINED_OBJECT: there is no other way.
weft_status operator_check(const LabOperator *op, const void *in, size_t bytes, const void *out, Error *err);
extern const u8 operator_aes_plain[16], operator_aes_cipher[16], operator_aes_key[16];

#endif
