// jit.c - which text has which code by now, and which thread compiles it.
//
// A Code is one text.  Each of its two tiers goes its own way, under the jit's lock:
//
//     NONE -> RUNNING -> DONE | FAILED             compiled by the first thread that asks; others wait
//     NONE -> QUEUED -> RUNNING -> ...             cc only: by the background thread, the one first that was asked for
//                                                  most often; then in the order of asking, and code of jit_later
//                                                  after all others, newest first
//     NONE -> LOADING -> DONE | NONE               cc only: looked for on disk
//
// A third tier is no code of its own: a program (generic.h), which one function compiled beforehand runs.
//
// The functions themselves are atomics beside that: once set they stay until jit_free, so running code takes no lock.
// TCC and PROGRAM mode have Codes of their own, or a query that asks for tcc's code would get cc's when another query
// improved it.
// FAILED stays, so that a text that a compiler does not like costs time once; only when both have failed, and the query
// with them, does the next one try again.

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "jit/generic.h"
#include "jit/jit_int.h"
#include "kernel/kernel.h"

enum { CC_TIMEOUT_MS = 20000, WANTED_OFTEN = 3,
       WANTED_BY_MANY = 8,                                  // then the compiler does not step back for queries
       CC_MS = 100, SAVED_PERCENT = 50 };                   // of CPU time: a compile; saved of what tcc's code takes

typedef enum CompileStep {
    COMPILE_NONE, COMPILE_QUEUED, COMPILE_LOADING, COMPILE_RUNNING, COMPILE_DONE, COMPILE_FAILED
} CompileStep;

struct Code {
    KernelText kernel;
    _Atomic(KernelFunction) functions[N_TIERS];
    _Atomic double compile_ms[N_TIERS];
    _Atomic int n_wanted;                                   // how often cc's code was asked for
    _Atomic int n_uses;                                     // queries that ran tcc's code, as jit_offer was told
    _Atomic i64 spent_us;                                   // and their CPU time in it

    // Under the jit's lock.
    CompileStep steps[N_TIERS];
    const char *reasons[N_TIERS];                           // why it failed
    const char *notices[N_TIERS];                           // the same for the user
    bool        is_cc_notice_given;                         // in AUTO, once
    bool        is_final;                                   // of TCC or PROGRAM mode: cc is not asked
    _Atomic(const void *) program;                          // of TIER_PROGRAM
    bool        is_for_several;                             // of jit_later
    TccCode     tcc;
    CcCode      cc;
    Code       *next, *next_queued;
};

struct Jit {
    const char *prelude;
    Cache      *cache;
    Compiler   *compiler;
    JitCounts   counts;
    int         stop_fd;                                    // readable from jit_free on
    _Atomic int n_queued;                                   // codes that wait for cc

    pthread_mutex_t lock;                                   // for all below
    pthread_cond_t  changed;                                // a step was made
    Arena      *arena;
    Map        *by_hash;
    Code       *codes;                                      // all, newest first
    Code       *queue_first, *queue_last;
    Code       *later_newest;                               // of those for several queries: the newest first, as its
                                                            // queries still run
    pthread_t   thread;
    bool        has_thread, is_busy, is_stopping;
    bool        is_broken_notice_given;                     // that cc is of no use: once, not for each text
};

// ---- life ----------------------------------------------------------------------------------------------------------

const char *jit_cache_dir(Arena *arena)
{
    const char *own = getenv("WEFT_CACHE"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own)
        return own;
    if (caches && *caches == '/')                           // others are to be ignored, says the XDG specification
        return arena_printf(arena, "%s/weft", caches);
    return home && *home ? arena_printf(arena, "%s/.cache/weft", home) : "";
}

static const char *default_cc(void)
{
    const char *own = getenv("WEFT_CC");
    return own && *own ? own : "cc";
}

static int cc_timeout_ms(void)
{
    const char *own = getenv("WEFT_CC_TIMEOUT_MS");
    int ms = own ? atoi(own) : 0;
    return ms > 0 ? ms : CC_TIMEOUT_MS;
}

// Starts no process and no thread and touches no file, as a program may well end without compiling anything.
Jit *jit_new(const JitOptions *options)
{
    Arena *arena = arena_new(NULL, "jit");
    Jit *jit = arena_make(arena, Jit);
    jit->arena = arena;
    jit->prelude = arena_strdup(arena, options->prelude ? options->prelude : "");
    jit->by_hash = map_new(arena);
    jit->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);  // without one (-1): jit_free waits for a running cc
    pthread_mutex_init(&jit->lock, NULL);
    pthread_cond_init(&jit->changed, NULL);
    const char *directory = options->cache_dir ? options->cache_dir : jit_cache_dir(arena);
    jit->cache = cache_new(arena, directory, options->cache_bytes > 0 ? options->cache_bytes : JIT_CACHE_BYTES);
    jit->compiler =
        compiler_new(arena, options->cc ? options->cc : default_cc(), jit->cache, cc_timeout_ms(), jit->stop_fd);
    return jit;
}

static void stop_background(Jit *jit)
{
    pthread_mutex_lock(&jit->lock);
    jit->is_stopping = true;
    pthread_cond_broadcast(&jit->changed);
    pthread_mutex_unlock(&jit->lock);
    if (jit->stop_fd >= 0)
        eventfd_write(jit->stop_fd, 1);
    if (jit->has_thread)
        pthread_join(jit->thread, NULL);
}

void jit_free(Jit *jit)
{
    if (!jit)
        return;
    stop_background(jit);
    for (Code *code = jit->codes; code; code = code->next) {
        tcc_unload(&code->tcc);
        cc_unload(&code->cc);
    }
    compiler_free(jit->compiler);
    cache_free(jit->cache);
    pthread_cond_destroy(&jit->changed);
    pthread_mutex_destroy(&jit->lock);
    if (jit->stop_fd >= 0)
        close(jit->stop_fd);
    arena_free(jit->arena);
}

// ---- steps: the lock is held when they begin and when they end, but not while they work ----------------------------

static void end_step(Jit *jit, Code *code, JitTier tier, weft_status status, const Error *err)
{
    pthread_mutex_lock(&jit->lock);
    ASSERT(code->steps[tier] == COMPILE_RUNNING);
    ASSERT(status || code->functions[tier]);
    code->steps[tier] = status ? COMPILE_FAILED : COMPILE_DONE;
    if (status) {
        jit->counts.failures++;
        code->reasons[tier] = arena_strdup(jit->arena, err->message);
        const char *other = jit_tier_name(tier == TIER_TCC ? TIER_CC : TIER_TCC);
        code->notices[tier] =
            arena_printf(jit->arena, "%s; kernel %s runs with %s's code", err->message, code->kernel.name, other);
    }
    pthread_cond_broadcast(&jit->changed);
}

static weft_status fault(Error *err, JitTier tier)
{
    return fail(err, WEFT_KERNEL_BUILD, -1, "%s: made to fail by a fault", jit_tier_name(tier));
}

static void count_time(Code *code, JitTier tier, double begin_ms, _Atomic i64 *compiles, _Atomic i64 *us)
{
    double ms = time_now_ms() - begin_ms;
    code->compile_ms[tier] = ms;
    *us += (i64)(ms * 1000);
    *compiles += 1;
}

static weft_status compile_with_tcc(Jit *jit, Code *code, Error *err)
{
    double begin = time_now_ms();
    if (fault_now(FAULT_COMPILE))
        return fault(err, TIER_TCC);
    TRY(tcc_build(&code->kernel, &code->tcc, err));
    count_time(code, TIER_TCC, begin, &jit->counts.tcc_compiles, &jit->counts.tcc_us);
    code->functions[TIER_TCC] = code->tcc.function;
    return WEFT_OK;
}

// Whether code has tcc's function, compiled now if need be.
static bool get_tcc(Jit *jit, Code *code)
{
    ASSERT(mutex_is_held(&jit->lock));
    while (code->steps[TIER_TCC] == COMPILE_RUNNING)
        pthread_cond_wait(&jit->changed, &jit->lock);
    if (code->steps[TIER_TCC] == COMPILE_NONE) {
        code->steps[TIER_TCC] = COMPILE_RUNNING;
        pthread_mutex_unlock(&jit->lock);
        Error err = { 0 };
        weft_status status = compile_with_tcc(jit, code, &err);
        end_step(jit, code, TIER_TCC, status, &err);
    }
    return code->functions[TIER_TCC] != NULL;
}

static weft_status make_program(Jit *jit, Code *code, const Woven *woven, Error *err)
{
    Arena *arena = arena_new(NULL, "program");
    double begin = time_now_ms();
    JitProgram made = jit_cpu_program(arena, woven);
    if (made.refused)
        fail(err, WEFT_KERNEL_BUILD, -1, "no program: %s", made.refused);
    jit->counts.program_us += (i64)((time_now_ms() - begin) * 1000);
    pthread_mutex_lock(&jit->lock);
    if (!made.refused) {
        void *program = arena_alloc(jit->arena, made.bytes);
        memcpy(program, made.data, made.bytes);
        atomic_store(&code->program, program);
        code->functions[TIER_PROGRAM] = kernel_run_program;
        jit->counts.programs++;
    }
    code->steps[TIER_PROGRAM] = made.refused ? COMPILE_FAILED : COMPILE_DONE;
    pthread_cond_broadcast(&jit->changed);
    arena_free(arena);
    return made.refused ? err->status : WEFT_OK;
}

// Whether code has a program, made now if need be.  One that is refused is no failure: tcc's code does the same.
static bool get_program(Jit *jit, Code *code, const Woven *woven)
{
    ASSERT(mutex_is_held(&jit->lock));
    while (code->steps[TIER_PROGRAM] == COMPILE_RUNNING)
        pthread_cond_wait(&jit->changed, &jit->lock);
    if (woven && code->steps[TIER_PROGRAM] == COMPILE_NONE) {
        code->steps[TIER_PROGRAM] = COMPILE_RUNNING;
        pthread_mutex_unlock(&jit->lock);
        Error err = { 0 };
        if (make_program(jit, code, woven, &err))
            log_debug("%s: %s", code->kernel.name, err.message);
    }
    return code->functions[TIER_PROGRAM] != NULL;
}

static bool load_from_disk(Jit *jit, Code *code)
{
    char path[JIT_PATH_MAX];
    Error ignored = { 0 };
    if (!compiler_is_known(jit->compiler))
        return false;
    CacheKey key = compiler_key(jit->compiler, &code->kernel);
    if (!cache_find(jit->cache, key, "so", path) || cc_load(path, code->kernel.name, &code->cc, &ignored))
        return false;
    jit->counts.disk_hits++;
    code->functions[TIER_CC] = code->cc.function;
    return true;
}

static weft_status compile_with_cc(Jit *jit, Code *code, bool is_background, Error *err)
{
    if (load_from_disk(jit, code))
        return WEFT_OK;
    TRY(compiler_meet(jit->compiler, is_background, err));
    double begin = time_now_ms();
    if (fault_now(FAULT_COMPILE))
        return fault(err, TIER_CC);
    TRY(compiler_build(jit->compiler, &code->kernel, is_background, &code->cc, err));
    count_time(code, TIER_CC, begin, &jit->counts.cc_compiles, &jit->counts.cc_us);
    code->functions[TIER_CC] = code->cc.function;
    return WEFT_OK;
}

static void run_cc_step(Jit *jit, Code *code, bool is_background)
{
    ASSERT(mutex_is_held(&jit->lock));
    ASSERT(code->steps[TIER_CC] == COMPILE_NONE || code->steps[TIER_CC] == COMPILE_QUEUED);
    code->steps[TIER_CC] = COMPILE_RUNNING;
    pthread_mutex_unlock(&jit->lock);
    Error err = { 0 };
    weft_status status = compile_with_cc(jit, code, is_background, &err);
    end_step(jit, code, TIER_CC, status, &err);
}

// Whether code has cc's function, compiled now if need be.  Code in the queue is taken out of turn, as a query waits
// for it.
static bool get_cc(Jit *jit, Code *code)
{
    ASSERT(mutex_is_held(&jit->lock));
    while (code->steps[TIER_CC] == COMPILE_LOADING || code->steps[TIER_CC] == COMPILE_RUNNING)
        pthread_cond_wait(&jit->changed, &jit->lock);
    if (code->steps[TIER_CC] == COMPILE_NONE || code->steps[TIER_CC] == COMPILE_QUEUED)
        run_cc_step(jit, code, false);
    return code->functions[TIER_CC] != NULL;
}

// Whether code has cc's function, from disk if need be.  Does not wait for a compiler.
static bool get_cc_from_disk(Jit *jit, Code *code)
{
    ASSERT(mutex_is_held(&jit->lock));
    while (code->steps[TIER_CC] == COMPILE_LOADING)
        pthread_cond_wait(&jit->changed, &jit->lock);
    if (code->steps[TIER_CC] == COMPILE_NONE) {
        code->steps[TIER_CC] = COMPILE_LOADING;
        pthread_mutex_unlock(&jit->lock);
        bool is_loaded = load_from_disk(jit, code);
        pthread_mutex_lock(&jit->lock);
        code->steps[TIER_CC] = is_loaded ? COMPILE_DONE : COMPILE_NONE;
        pthread_cond_broadcast(&jit->changed);
    }
    return code->functions[TIER_CC] != NULL;
}

// ---- getting -------------------------------------------------------------------------------------------------------

// MODE: where code is of this mode alone, that mode.
static XXH128_hash_t hash_code(const char *text, const char *name, JitMode mode)
{
    u64 seed = XXH3_64bits_withSeed(name, strlen(name), mode);
    return XXH3_128bits_withSeed(text, strlen(text), seed);
}

static Code *find_code(Jit *jit, XXH128_hash_t hash, const char *text, const char *name, bool is_final)
{
    u64 value;
    ASSERT(mutex_is_held(&jit->lock));
    if (map_get(jit->by_hash, &hash, sizeof(hash), &value))
        return (Code *)(uintptr_t)value;
    Code *code = arena_make(jit->arena, Code);
    code->kernel = (KernelText){ jit->prelude, arena_strdup(jit->arena, text), arena_strdup(jit->arena, name) };
    code->is_final = is_final;
    code->next = jit->codes;
    jit->codes = code;
    map_set(jit->by_hash, &hash, sizeof(hash), (u64)(uintptr_t)code);
    return code;
}

static bool is_in_memory(const Code *code, JitMode mode)
{
    bool has_tcc = code->functions[TIER_TCC] != NULL, has_cc = code->functions[TIER_CC] != NULL,
         has_program = code->functions[TIER_PROGRAM] != NULL;
    return mode == JIT_TCC ? has_tcc : mode == JIT_CC ? has_cc : has_tcc || has_cc || has_program;
}

// WOVEN: what a program can be made of; NULL: none is wanted.
static bool get_any(Jit *jit, Code *code, JitMode mode, const Woven *woven)
{
    switch (mode) {
    case JIT_AUTO:
        return get_cc_from_disk(jit, code) || (woven && get_program(jit, code, woven)) || get_tcc(jit, code) ||
               get_cc(jit, code);
    case JIT_PROGRAM:
        return get_program(jit, code, woven) || get_tcc(jit, code) || get_cc(jit, code);
    case JIT_TCC:
        return get_tcc(jit, code) || get_cc(jit, code);
    case JIT_CC:
        return get_cc(jit, code) || get_tcc(jit, code);
    }
    return false;
}

// In AUTO a notice says once why a query stays with tcc's code.
static const char *find_auto_notice(Jit *jit, Code *code)
{
    bool has_cc = code->functions[TIER_CC] != NULL;
    if (has_cc && code->functions[TIER_TCC] == NULL)
        return code->notices[TIER_TCC];
    bool is_broken = compiler_is_broken(jit->compiler);
    if (code->functions[TIER_PROGRAM] && !code->functions[TIER_TCC] && !has_cc && !code->notices[TIER_CC])
        return NULL;
    if (has_cc || code->is_cc_notice_given || (is_broken && jit->is_broken_notice_given))
        return NULL;
    code->is_cc_notice_given = code->notices[TIER_CC] != NULL;
    jit->is_broken_notice_given |= is_broken && code->is_cc_notice_given;
    return code->notices[TIER_CC];
}

static const char *find_notice(Jit *jit, Code *code, JitMode mode)
{
    if (mode == JIT_AUTO)
        return find_auto_notice(jit, code);
    if (code->functions[TIER_PROGRAM])
        return NULL;
    JitTier wanted = mode == JIT_CC ? TIER_CC : TIER_TCC;
    return code->functions[wanted] ? NULL : code->notices[wanted];
}

static weft_status fail_both(Code *code, Error *err)
{
    ASSERT(code->reasons[TIER_TCC] && code->reasons[TIER_CC]);
    fail(err, WEFT_KERNEL_BUILD, -1, "kernel %.40s did not compile; %.200s; %.200s", code->kernel.name,
         code->reasons[TIER_TCC], code->reasons[TIER_CC]);
    for (int tier = 0; tier < N_TIERS; tier++)
        if (code->steps[tier] == COMPILE_FAILED)
            code->steps[tier] = COMPILE_NONE;
    return err->status;
}

static weft_status get(Jit *jit, const KernelText *kernel, JitMode mode, const Woven *woven, Code **code,
                       const char **notice, Error *err)
{
    bool is_final = mode == JIT_TCC || mode == JIT_PROGRAM;
    XXH128_hash_t hash = hash_code(kernel->text, kernel->name, is_final ? mode : JIT_AUTO);
    pthread_mutex_lock(&jit->lock);
    *code = find_code(jit, hash, kernel->text, kernel->name, is_final);
    *notice = NULL;
    weft_status status = WEFT_OK;
    if (is_in_memory(*code, mode))
        jit->counts.memory_hits++;
    else if (!get_any(jit, *code, mode, woven))
        status = fail_both(*code, err);
    if (!status)
        *notice = find_notice(jit, *code, mode);
    else
        *code = NULL;
    pthread_mutex_unlock(&jit->lock);
    return status;
}

weft_status jit_get(Jit *jit, const char *text, const char *name, JitMode mode, Code **code, const char **notice,
                    Error *err)
{
    KernelText kernel = { jit->prelude, text, name };
    return get(jit, &kernel, mode, NULL, code, notice, err);
}

weft_status jit_get_woven(Jit *jit, const Woven *woven, JitMode mode, bool is_crowded, Code **code,
                          const char **notice, Error *err)
{
    KernelText kernel = { jit->prelude, woven->text, woven->name };
    bool may_be_program = mode == JIT_PROGRAM || (mode == JIT_AUTO && is_crowded);
    return get(jit, &kernel, mode, may_be_program ? woven : NULL, code, notice, err);
}

// A program is quicker than tcc's code.
KernelFunction code_function(const Code *code, JitTier *tier)
{
    static const JitTier best_first[] = { TIER_CC, TIER_PROGRAM };
    for (int i = 0; i < COUNT_OF(best_first); i++) {
        KernelFunction function = atomic_load_explicit(&code->functions[best_first[i]], memory_order_acquire);
        *tier = best_first[i];
        if (function)
            return function;
    }
    *tier = TIER_TCC;
    return atomic_load_explicit(&code->functions[TIER_TCC], memory_order_acquire);
}

const void *code_program(const Code *code)
{
    return atomic_load_explicit(&code->program, memory_order_acquire);
}

double code_compile_ms(const Code *code, JitTier tier)
{
    return code->compile_ms[tier];
}

const char *jit_tier_name(JitTier tier)
{
    return tier == TIER_TCC ? "tcc" : tier == TIER_CC ? "cc" : "program";
}

const JitCounts *jit_counts(const Jit *jit)
{
    return &jit->counts;
}

bool jit_flags_native(const Jit *jit)
{
    return compiler_is_native(jit->compiler);
}

// ---- in the background ---------------------------------------------------------------------------------------------

// Where the code in LIST that was wanted most often is linked, the first of equal ones; MOST: one wanted more often.
static Code **most_wanted(Code **list, int most)
{
    Code **found = NULL;
    for (Code **link = list; *link; link = &(*link)->next_queued)
        if ((*link)->n_wanted > most)
            most = (*link)->n_wanted, found = link;
    return found;
}

static void unlink_queued(Jit *jit, Code **link)
{
    Code *before = NULL;
    if (*link == jit->queue_last) {
        for (Code *code = jit->queue_first; code && code != *link; code = code->next_queued)
            before = code;
        jit->queue_last = before;
    }
    *link = (*link)->next_queued;
    atomic_fetch_sub(&jit->n_queued, 1);
}

// What was wanted most often.  Queries of shapes that never come again ask once for each, and would else keep the
// compiler from what all others wait for.  Of equal ones a query's own code goes first: without it the query stays
// slow.
static Code *take_queued(Jit *jit)
{
    ASSERT(mutex_is_held(&jit->lock));
    Code **own = most_wanted(&jit->queue_first, -1);
    Code **later = most_wanted(&jit->later_newest, own ? (*own)->n_wanted : -1);
    Code **link = later ? later : own, *code = link ? *link : NULL;
    if (link)
        unlink_queued(jit, link);
    return code;
}

static void put_queued(Jit *jit, Code *code)
{
    ASSERT(mutex_is_held(&jit->lock));
    ASSERT(code->steps[TIER_CC] == COMPILE_QUEUED && !code->is_final);
    atomic_fetch_add(&jit->n_queued, 1);
    code->next_queued = code->is_for_several ? jit->later_newest : NULL;
    if (code->is_for_several) {
        jit->later_newest = code;
        return;
    }
    if (jit->queue_first)
        jit->queue_last->next_queued = code;
    else
        jit->queue_first = code;
    jit->queue_last = code;
}

static void *work_off_queue(void *context)
{
    Jit *jit = context;
    pthread_mutex_lock(&jit->lock);
    while (!jit->is_stopping) {
        Code *code = take_queued(jit);
        if (!code) {
            pthread_cond_wait(&jit->changed, &jit->lock);
            continue;
        }
        if (code->steps[TIER_CC] != COMPILE_QUEUED)         // a query has compiled it itself
            continue;
        jit->is_busy = true;
        run_cc_step(jit, code, code->n_wanted < WANTED_BY_MANY);
        jit->is_busy = false;
        pthread_cond_broadcast(&jit->changed);
    }
    pthread_mutex_unlock(&jit->lock);
    return NULL;
}

// The host program's signals are for its own threads.
static bool start_thread(Jit *jit)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    jit->has_thread = jit->has_thread || pthread_create(&jit->thread, NULL, work_off_queue, jit) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return jit->has_thread;
}

static void improve(Jit *jit, Code *code)
{
    if (code->is_final || code->functions[TIER_CC])
        return;
    pthread_mutex_lock(&jit->lock);
    if (code->steps[TIER_CC] == COMPILE_NONE && start_thread(jit)) {
        code->steps[TIER_CC] = COMPILE_QUEUED;
        put_queued(jit, code);
        pthread_cond_broadcast(&jit->changed);
    }
    pthread_mutex_unlock(&jit->lock);
}

void jit_improve(Jit *jit, Code *code)
{
    atomic_fetch_add(&code->n_wanted, 1);
    improve(jit, code);
}

// In a crowd.
static bool pays(const Jit *jit, const Code *code, double left_ms)
{
    const double share = SAVED_PERCENT / 100.0;
    if (left_ms * share > CC_MS * (1.0 + jit->n_queued)) return true;
    return code->n_uses > 1 && (double)code->spent_us * 1e-3 * share > CC_MS;
}

bool jit_offer(Jit *jit, Code *code, const JitUse *use)
{
    if (code->functions[TIER_CC])
        return true;
    if (use->spent_ms > 0) {
        atomic_fetch_add(&code->n_uses, 1);
        atomic_fetch_add(&code->spent_us, (i64)(use->spent_ms * 1e3));
    }
    if (use->is_crowded && !pays(jit, code, use->left_ms)) {
        jit->counts.put_off++;
        return false;
    }
    jit_improve(jit, code);
    return true;
}

Code *jit_later(Jit *jit, const char *text, const char *name)
{
    XXH128_hash_t hash = hash_code(text, name, JIT_AUTO);
    pthread_mutex_lock(&jit->lock);
    Code *code = find_code(jit, hash, text, name, false);
    code->is_for_several = true;
    pthread_mutex_unlock(&jit->lock);
    return code;
}

void jit_want(Jit *jit, Code *code, bool at_once)
{
    int n_wanted = atomic_fetch_add(&code->n_wanted, 1) + 1;
    if (at_once || n_wanted >= WANTED_OFTEN)
        improve(jit, code);
}

void jit_wait_idle(Jit *jit)
{
    pthread_mutex_lock(&jit->lock);
    while (jit->has_thread && (jit->queue_first || jit->later_newest || jit->is_busy))
        pthread_cond_wait(&jit->changed, &jit->lock);
    pthread_mutex_unlock(&jit->lock);
}

weft_status jit_meet_cc(Jit *jit, const char **path, const char **version, Error *err)
{
    TRY(compiler_meet(jit->compiler, false, err));
    *path = compiler_path(jit->compiler);
    *version = compiler_version(jit->compiler);
    return WEFT_OK;
}
