// nvrtc.h - kernel text to code for a GPU: NVRTC, and what it made remembered on disk.
//
//     Cubins *cubins = cubins_new(NULL);
//     CubinJob job = { .prelude = words, .text = woven->text, .major = 9, .minor = 0,
//                      .n_defines = 1, .defines = (const char *[]){ "ITEMS=8" } };
//     TRY(cubins_get(cubins, &job, &cubin, &was_cached, err));        // cubin.bytes goes to cuModuleLoadData
//
// A cubin is machine code for one architecture.  Its key in the code cache (see jit.h) is the hash of prelude, text,
// defines, architecture and NVRTC's version.  Compiling takes 20 to 60 ms, the first one in a process some 150 more:
// cubins_warm takes that on itself.  $WEFT_NVRTC_OPTIONS are further options, with spaces between them: for finding out
// which pay.  Any thread may call anything here but cubins_free.

#ifndef WEFT_NVRTC_H
#define WEFT_NVRTC_H

#include "base/base.h"

typedef struct Cubins Cubins;

typedef struct CubinJob {
    const char        *prelude, *text;
    int                driver_version;     // as the driver says it: NVRTC must not be newer
    int                major, minor;       // compute capability
    int                n_defines;
    const char *const *defines;            // "NAME=value"
    bool               is_quick;           // less is optimised, in half the time (cubins_can_be_quick)
    bool               is_tile_c;          // functions without a mark are the device's: text that is C, too
} CubinJob;

Cubins     *cubins_new(const char *cache_dir);     // NULL: as for the jit (JitOptions.cache_dir)
void        cubins_free(Cubins *cubins);
weft_status cubins_get(Cubins *cubins, const CubinJob *job, Text *cubin, bool *was_cached, Error *err);
bool        cubins_have(Cubins *cubins, const CubinJob *job);      // on disk: cubins_get will not compile
bool        cubins_can_be_quick(int driver_version);       // this NVRTC knows the option
// A short text about a card or its compiler, such as a speed that takes a while to measure, kept beside the code; NAME
// says what it is.
bool        cubins_recall(Cubins *cubins, const char *name, Text *text);
void        cubins_remember(Cubins *cubins, const char *name, const char *text);
// Compiles it, whether it is there or not, so that NVRTC's own start is behind it; keeps nothing.  Failure shows in
// cubins_get.
void        cubins_warm(Cubins *cubins, const CubinJob *job);

#endif
