// jit.h - kernel text to code: libtcc at once, the system's cc in the background, both remembered.
//
//     TRY(jit_get(jit, text, "p_9c41d07e", JIT_AUTO, &code, &notice, err));
//     jit_improve(jit, code);                            // AUTO only: ask for cc's code, later; returns at once
//     code_function(code, &tier)(args);                  // at each morsel: the best code there is by now
//
// TEXT is a kernel without its words: the jit puts the prelude (src/kernel/cpu.h) before it.  Kernel text holds no
// literals and no user text, so queries that differ only in constants share code, and nothing a user writes reaches a
// compiler.  Code lives until jit_free.  Any thread may call anything here except jit_new and jit_free.
//
// Disk cache: one shared object per key in CACHE_DIR (a key is the hash of prelude, text, compiler, its version,
// options and the CPU); written under a temporary name and renamed, so several processes may share it.  A damaged or
// foreign file is ignored and replaced.  The directory must belong to the user and be writable by no one else, or it is
// not used.

#ifndef WEFT_JIT_H
#define WEFT_JIT_H

#include "base/base.h"

typedef enum JitMode { JIT_AUTO, JIT_TCC, JIT_CC, JIT_PROGRAM } JitMode;
typedef enum JitTier { TIER_TCC, TIER_CC, TIER_PROGRAM, N_TIERS } JitTier;

typedef void (*KernelFunction)(void *args);

typedef struct Jit Jit;
typedef struct Code Code;
struct Woven;

typedef struct JitOptions {
    const char *prelude;               // put before every text
    const char *cache_dir;             // NULL: $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else $HOME/.cache/weft; "" : no
                                       // disk cache
    const char *cc;                    // NULL: $WEFT_CC, else "cc"
    i64         cache_bytes;           // oldest files go when the directory grows past this; 0: 256 MiB
} JitOptions;

typedef struct JitCounts {
    _Atomic i64 memory_hits, disk_hits, tcc_compiles, cc_compiles, failures;
    _Atomic i64 tcc_us, cc_us;         // time spent
    _Atomic i64 programs, program_us;  // made of kernels, and time spent on them and on those that were refused
    _Atomic i64 put_off;               // times that cc's code was not asked for, since it was not expected to pay
} JitCounts;

Jit  *jit_new(const JitOptions *options);
void  jit_free(Jit *jit);                                 // stops the background compiler (kills a running cc) and
                                                          // unloads all code

// AUTO: code already in memory, else cc's code from the disk cache, else tcc's, compiled now.  TCC:  tcc's code,
// compiled now unless in memory.  CC: cc's code; waits for the compiler.  When the wanted compiler is missing or fails,
// the other one is used and *NOTICE says so (owned by the jit, else NULL).  Fails with KERNEL_BUILD when neither can;
// with QUERY_CANCELED never.
weft_status jit_get(Jit *jit, const char *text, const char *name, JitMode mode, Code **code, const char **notice,
                    Error *err);

// The same for a kernel that may also run as a program (generic.h), which takes no compiler.  PROGRAM: as one, or as
// with TCC where that cannot be.  AUTO: where code is neither in memory nor on disk and IS_CROWDED, a program comes
// before tcc's code.
weft_status jit_get_woven(Jit *jit, const struct Woven *woven, JitMode mode, bool is_crowded, Code **code,
                          const char **notice, Error *err);

// Queue the code for cc in the background unless it has cc's code, is queued, or cc failed on it before.
void jit_improve(Jit *jit, Code *code);

// How a query uses tcc's code, or a program, for the question whether cc's code would pay.
typedef struct JitUse {
    double spent_ms;                   // CPU time that the query has taken in it
    double left_ms;                    // CPU time that it is expected to take in it still
    bool   is_crowded;                 // more queries run than there are cores: a compile takes time from them
} JitUse;

// jit_improve where cc's code is expected to pay; true: it was asked for, or is there.  Without a crowd it always is:
// cores are idle.  In a crowd it must save more than the compiler takes: of what is left of this query, after the codes
// that wait before it; or of the code's uses so far, if there was more than one, since what came again will come again.
// A query may ask twice, before and after: only what it has spent counts as a use.
bool jit_offer(Jit *jit, Code *code, const JitUse *use);

// Code for a text that no query waits for: code_function is NULL until cc has compiled it in the background.  That is
// begun when it is wanted at once, or has been wanted a few times: what comes again will come again, what came once is
// not worth the compiler's time.  What was asked for most often is compiled first; of equal ones, codes of jit_improve,
// then the newest.
Code *jit_later(Jit *jit, const char *text, const char *name);
void  jit_want(Jit *jit, Code *code, bool at_once);

// The best code now.  An atomic read: call it at each morsel, so better code is swapped in between two morsels.
KernelFunction code_function(const Code *code, JitTier *tier);
double         code_compile_ms(const Code *code, JitTier tier);   // 0 when it came from a cache
const char    *jit_tier_name(JitTier tier);                        // "tcc", "cc", "program"
// Of TIER_PROGRAM: what args->common->program must be when the function is called.
const void    *code_program(const Code *code);

// Whether rows call functions of hundreds of instructions (numbers of 128 bits: base/wide_text.h).
bool jit_has_calls(const char *text);

const JitCounts *jit_counts(const Jit *jit);
void             jit_wait_idle(Jit *jit);                           // until the background queue is empty: benchmarks
                                                                    // and tests
// The system's compiler, for people to read: met now if it was not yet.  The texts are owned by the jit.
weft_status      jit_meet_cc(Jit *jit, const char **path, const char **version, Error *err);
bool             jit_flags_native(const Jit *jit);                  // whether the probed native CPU flag is in use

#endif
