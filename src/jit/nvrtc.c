// nvrtc.c - see nvrtc.h.
//
// The same options as scripts/cuda-check: no contraction to multiply-add, so that a GPU rounds as the CPU does; words
// declare more than every kernel uses.  A text that NVRTC refuses is a fault of ours, so its log goes into the error.

#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "jit/jit_int.h"
#include "jit/nvrtc.h"
#include "jit/nvrtc_exit.h"
#include "jit/nvrtc_library.h"

enum { OPTIONS_MAX = 24, LOG_SHOWN = 300 };

struct Cubins {
    Arena *arena;
    Cache *cache;
};

Cubins *cubins_new(const char *cache_dir)
{
    Arena  *arena = arena_new(NULL, "cubins");
    Cubins *cubins = arena_make(arena, Cubins);
    cubins->arena = arena;
    cubins->cache = cache_new(arena, cache_dir ? cache_dir : jit_cache_dir(arena), JIT_CACHE_BYTES);
    return cubins;
}

void cubins_free(Cubins *cubins)
{
    if (!cubins) return;
    cache_free(cubins->cache);
    arena_free(cubins->arena);
}

typedef struct NvrtcOptions {
    char        architecture[32], defines[OPTIONS_MAX][64], own[512];
    const char *list[OPTIONS_MAX];
    int         n_options;
} NvrtcOptions;

static void add_own(NvrtcOptions *options)
{
    const char *own = getenv("WEFT_NVRTC_OPTIONS");
    char       *rest;
    snprintf(options->own, sizeof options->own, "%s", own ? own : "");
    for (char *word = strtok_r(options->own, " ", &rest); word && options->n_options < OPTIONS_MAX;
         word = strtok_r(NULL, " ", &rest))
        options->list[options->n_options++] = word;
}

static void list_options(const CubinJob *job, NvrtcOptions *options)
{
    static const char *const always[] = { "--std=c++17", "--fmad=false", "--diag-suppress=177,550", "-w" };
    ASSERT(job->n_defines <= OPTIONS_MAX - COUNT_OF(always) - 3);
    options->n_options = 0;
    snprintf(options->architecture, sizeof options->architecture, "--gpu-architecture=sm_%d%d", job->major, job->minor);
    options->list[options->n_options++] = options->architecture;
    for (int i = 0; i < COUNT_OF(always); i++) options->list[options->n_options++] = always[i];
    if (job->is_quick) options->list[options->n_options++] = "--Ofast-compile=mid";
    if (job->is_tile_c) options->list[options->n_options++] = "--device-as-default-execution-space";
    for (int i = 0; i < job->n_defines && options->n_options < OPTIONS_MAX; i++) {
        snprintf(options->defines[i], sizeof options->defines[i], "-D%s", job->defines[i]);
        options->list[options->n_options++] = options->defines[i];
    }
    add_own(options);
}

static CacheKey hash_key(const Text *text)
{
    XXH128_canonical_t canonical;
    CacheKey           key;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text->bytes, text->length));
    memcpy(key.bytes, canonical.digest, sizeof key.bytes);
    return key;
}

static CacheKey key_of(const Nvrtc *nvrtc, const CubinJob *job, const NvrtcOptions *options)
{
    Text all = { 0 };
    text_add(&all, "nvrtc %d.%d", nvrtc->major, nvrtc->minor);
    for (int i = 0; i < options->n_options; i++) text_add(&all, " %s", options->list[i]);
    text_add(&all, "\n%s\n%s%s", job->prelude, jit_functions(job->text), job->text);
    const CacheKey key = hash_key(&all);
    text_free(&all);
    return key;
}

// What NVRTC said, in front of everything else: the first error of its log; where that is empty, the result's name.
static weft_status refused(const Nvrtc *nvrtc, NvrtcProgram program, NvrtcResult result, Error *err)
{
    size_t bytes = 0;
    char  *log = nvrtc->GetProgramLogSize(program, &bytes) || !bytes ? NULL : calloc(1, bytes + 1);
    if (log && nvrtc->GetProgramLog(program, log) == NVRTC_SUCCESS) {
        const char *first = strstr(log, "error");
        const char *said = first ? first : log + strspn(log, " \t\r\n");
        log_debug("nvrtc: %s", log);
        if (*said)
            fail(err, result == NVRTC_OUT_OF_MEMORY ? WEFT_OUT_OF_MEMORY : WEFT_KERNEL_BUILD, -1,
                 "nvrtcCompileProgram: %.*s", LOG_SHOWN, said);
    }
    free(log);
    return nvrtc_check(nvrtc, result, "nvrtcCompileProgram", err);
}

static weft_status compile_program(const Nvrtc *nvrtc, NvrtcProgram program, const NvrtcOptions *options, Text *cubin,
                                   Error *err)
{
    size_t            bytes = 0;
    const NvrtcResult result = nvrtc->CompileProgram(program, options->n_options, options->list);
    if (result != NVRTC_SUCCESS) return refused(nvrtc, program, result, err);
    NVRTC_TRY(nvrtc, GetCUBINSize, (program, &bytes), err);
    char             *image = calloc(1, bytes + 1);
    const weft_status status = nvrtc_check(nvrtc, nvrtc->GetCUBIN(program, image), "nvrtcGetCUBIN", err);
    if (!status) text_add_bytes(cubin, image, bytes);
    free(image);
    return status;
}

static weft_status compile(const Nvrtc *nvrtc, const CubinJob *job, const NvrtcOptions *options, Text *cubin,
                           Error *err)
{
    NvrtcProgram program;
    Text         source = { 0 };
    if (fault_now(FAULT_COMPILE)) return fail(err, WEFT_KERNEL_BUILD, -1, "nvrtc: made to fail by a fault");
    if (!nvrtc_enter()) return fail(err, WEFT_KERNEL_BUILD, -1, "nvrtc: the program ends");
    text_add(&source, "%s\n%s%s\n", job->prelude, jit_functions(job->text), job->text);
    weft_status status = nvrtc_check(nvrtc, nvrtc->CreateProgram(&program, source.bytes, "kernel.cu", 0, NULL, NULL),
                                     "nvrtcCreateProgram", err);
    if (!status) {
        status = compile_program(nvrtc, program, options, cubin, err);
        nvrtc->DestroyProgram(&program);
    }
    nvrtc_leave();
    text_free(&source);
    return status;
}

// Without a cache the next process compiles again: never an error.
static void keep(Cubins *cubins, CacheKey key, const char *extension, const Text *content)
{
    char  directory[JIT_PATH_MAX], path[JIT_PATH_MAX + 8];
    Error ignored = { 0 };
    File  file;
    if (!cache_is_usable(cubins->cache) || work_dir_new(cubins->cache, directory, &ignored)) return;
    snprintf(path, sizeof path, "%s/new", directory);
    if (file_create(path, &file, &ignored) == WEFT_OK) {
        const weft_status status = file_write(&file, content->bytes, content->length, &ignored);
        file_close(&file);
        if (!status && cache_seal(key, extension, path, &ignored) == WEFT_OK)
            cache_keep(cubins->cache, key, extension, path, &ignored);
    }
    work_dir_remove(directory);
}

weft_status cubins_get(Cubins *cubins, const CubinJob *job, Text *cubin, bool *was_cached, Error *err)
{
    const Nvrtc *nvrtc;
    NvrtcOptions options;
    TRY(nvrtc_need(job->driver_version, &nvrtc, err));
    list_options(job, &options);
    const CacheKey key = key_of(nvrtc, job, &options);
    *was_cached = cache_read(cubins->cache, key, "cubin", cubin);
    if (*was_cached) return WEFT_OK;
    TRY(compile(nvrtc, job, &options, cubin, err));
    keep(cubins, key, "cubin", cubin);
    return WEFT_OK;
}

static CacheKey note_key(const char *name)
{
    Text text = { 0 };
    text_add(&text, "note %s", name);
    const CacheKey key = hash_key(&text);
    text_free(&text);
    return key;
}

bool cubins_recall(Cubins *cubins, const char *name, Text *text)
{
    return cache_read(cubins->cache, note_key(name), "note", text);
}

void cubins_remember(Cubins *cubins, const char *name, const char *text)
{
    Text content = { 0 };
    text_add(&content, "%s", text);
    keep(cubins, note_key(name), "note", &content);
    text_free(&content);
}

bool cubins_have(Cubins *cubins, const CubinJob *job)
{
    const Nvrtc *nvrtc;
    NvrtcOptions options;
    Error        ignored = { 0 };
    char         path[JIT_PATH_MAX];
    if (nvrtc_need(job->driver_version, &nvrtc, &ignored)) return false;
    list_options(job, &options);
    return cache_find(cubins->cache, key_of(nvrtc, job, &options), "cubin", path);
}

bool cubins_can_be_quick(int driver_version)
{
    const Nvrtc *nvrtc;
    Error        ignored = { 0 };
    return !nvrtc_need(driver_version, &nvrtc, &ignored) && nvrtc->major >= 13;
}

void cubins_warm(Cubins *cubins, const CubinJob *job)
{
    const Nvrtc *nvrtc;
    NvrtcOptions options;
    Error        ignored = { 0 };
    Text         cubin = { 0 };
    (void)cubins;
    if (nvrtc_need(job->driver_version, &nvrtc, &ignored)) return;
    list_options(job, &options);
    if (compile(nvrtc, job, &options, &cubin, &ignored)) log_debug("nvrtc was not warmed up: %s", ignored.message);
    text_free(&cubin);
}
