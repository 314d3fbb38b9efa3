// encoders.h - RAID-6 and AES-128 by the libraries that people use on host cores: isa-l and OpenSSL's libcrypto, opened
// while running, never needed.

#ifndef WEFT_LAB_ENCODERS_H
#define WEFT_LAB_ENCODERS_H

#include "base/base.h"

typedef struct Encoder Encoder;

typedef struct EncoderKind {
    const char *title;                                      // "isa-l"
    const char *operator_title;                             // of the lab's operator that does the same
    weft_status (*open)(Encoder *encoder, Error *err);      // NO_DEVICE: the library is not there
    // One frame; any thread, with an encoder of its own.
    void (*encode)(Encoder *encoder, const void *in, size_t bytes, void *out);
    void (*close)(Encoder *encoder);
} EncoderKind;

struct Encoder {
    void *state;
};

extern const EncoderKind encoder_isal, encoder_openssl;

#endif
