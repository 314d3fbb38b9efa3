// jit_int.h - what the files of the jit share; see README.md for how they fit together.

#ifndef WEFT_JIT_INT_H
#define WEFT_JIT_INT_H

#include "jit/jit.h"

enum { JIT_PATH_MAX = 4096 };

#define JIT_CACHE_BYTES (256ll << 20)                       // of the files in the cache, unless told otherwise
const char *jit_cache_dir(Arena *arena);                    // $WEFT_CACHE, ... : see JitOptions

typedef struct KernelText {
    const char *prelude, *text;                             // compiled one after the other
    const char *name;                                       // of the function
} KernelText;

// ---- functions.c ---------------------------------------------------------------------------------------------------

// What cc and NVRTC need between the prelude and TEXT: math_text and wide_text, each where TEXT has one of its words.
const char *jit_functions(const char *text);

// ---- tcc.c: text to code in memory ---------------------------------------------------------------------------------

typedef struct TccCode {
    KernelFunction function;
    void          *memory;                                  // its own pages, readable and executable
    size_t         bytes;
} TccCode;

weft_status tcc_build(const KernelText *kernel, TccCode *code, Error *err);
void        tcc_unload(TccCode *code);                       // an empty one is fine

// ---- process.c: run a program, but not for ever --------------------------------------------------------------------

enum { PROCESS_OUTPUT_MAX = 400 };

typedef struct ProcessOptions {
    const char *temp_dir;                                   // its TMPDIR; what is left there is the caller's to remove
    int         timeout_ms;
    int         stop_fd;                                    // readable: kill the program and return
    bool        is_background;                              // lower priority than ours
} ProcessOptions;

typedef enum ProcessEnd {
    PROCESS_EXITED,
    PROCESS_SIGNALED,
    PROCESS_TIMED_OUT,
    PROCESS_STOPPED,
    PROCESS_LOST
} ProcessEnd;

typedef struct ProcessResult {
    ProcessEnd end;
    int        code;                                        // exit status or signal
    char       output[PROCESS_OUTPUT_MAX + 1];              // how its output and errors begin; ASCII, newlines
    size_t     n_output;
} ProcessResult;

// Fails only when the program could not be started: KERNEL_BUILD when the program is to blame, else something else.
// PATH is run as it is, without a search and without a shell.
weft_status process_run(const char *path, char *const arguments[], const ProcessOptions *options, ProcessResult *result,
                        Error *err);

// ---- cache.c: files found again by a key ---------------------------------------------------------------------------

typedef struct Cache Cache;
typedef struct CacheKey { u8 bytes[16]; } CacheKey;         // xxh3, 128 bits, in canonical order

Cache *cache_new(Arena *arena, const char *directory, i64 bytes_max); // NULL or "": no directory.  Touches no file yet.
void   cache_free(Cache *cache);
bool   cache_is_usable(Cache *cache);                        // makes the directory on the first call

// Whether there is a whole file of this key, made by this user.  PATH holds JIT_PATH_MAX bytes.
bool        cache_find(Cache *cache, CacheKey key, const char *extension, char *path);
bool        cache_read(Cache *cache, CacheKey key, const char *extension, Text *content);
// A file in a work directory gets its seal, and then moves into the cache.  PATH becomes its new one.
weft_status cache_seal(CacheKey key, const char *extension, const char *path, Error *err);
weft_status cache_keep(Cache *cache, CacheKey key, const char *extension, char *path, Error *err);

// A new private directory for one compile: in the cache, where files can be renamed from, else in $TMPDIR.
weft_status work_dir_new(Cache *cache, char *path, Error *err);
void        work_dir_remove(const char *path);

// ---- cc.c: the system's compiler -----------------------------------------------------------------------------------

typedef struct Compiler Compiler;

typedef struct CcCode {
    KernelFunction function;
    void          *library;                                 // from dlopen
} CcCode;

// PROGRAM is a path or a name to look for in PATH.  Starts nothing and reads nothing yet.
Compiler   *compiler_new(Arena *arena, const char *program, Cache *cache, int timeout_ms, int stop_fd);
void        compiler_free(Compiler *compiler);
// Whether the compiler was met before, in this process or as the cache tells: quick, and no process is started.
bool        compiler_is_known(Compiler *compiler);
// Meets it: asks for its version and tries its options by running what they make.  Fails when it is of no use: for ever
// with KERNEL_BUILD, this time with any other status.
weft_status compiler_meet(Compiler *compiler, bool is_background, Error *err);
bool        compiler_is_native(const Compiler *compiler);
const char *compiler_path(const Compiler *compiler);        // of one that was met
const char *compiler_version(const Compiler *compiler);     // the first line that it says
bool        compiler_is_broken(const Compiler *compiler);   // it will not be started again

// For a compiler that is known.
CacheKey    compiler_key(const Compiler *compiler, const KernelText *kernel);
weft_status compiler_build(Compiler *compiler, const KernelText *kernel, bool is_background, CcCode *code, Error *err);
weft_status cc_load(const char *path, const char *name, CcCode *code, Error *err);
void        cc_unload(CcCode *code);                         // an empty one is fine

#endif
