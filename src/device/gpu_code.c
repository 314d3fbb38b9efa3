// gpu_code.c - kernel texts that a GPU knows, and their code: noted, built, tried again.
//
// An entry is made when a text is first asked for, and stays.  Others build it: queries that wait for it
// (gpu_kernel.c), or threads in the background (gpu_ready.c).
//
// Quick code is an entry of its own, beside the one that it stands for: less is optimised, which takes half the time
// (NVRTC 13.0, --Ofast-compile=mid: 155 ms of CPU instead of 306 for kernels of SSB).  A launch takes what is there,
// the better one first.  Code is never exchanged under a launch.

#include "device/gpu_int.h"

#include <stdio.h>
#include <stdlib.h>

#define SHARED_SMALL       ((u64)16 << 10)     // so much is soon fetched: small blocks, and several in turn
#define COMPILES_KNOWN 8.0              // that the time expected for the next one comes from
#define PAUSE_MS       1000.0           // between tries, the second time
#define PAUSE_MOST_MS  60000.0

// ---- entries --------------------------------------------------------------------------------------------------------

static CodeEntry *_Atomic *bucket_of(Gpu *gpu, const char *key)
{
    return &gpu->by_key[hash_bytes(key, strlen(key)) % KERNEL_BUCKETS];
}

CodeEntry *kernel_find(Gpu *gpu, const char *key)
{
    CodeEntry *kernel = *bucket_of(gpu, key);
    while (kernel && strcmp(kernel->key, key) != 0) kernel = kernel->same;
    return kernel;
}

static char *copy_text(const char *text)
{
    Text copy = { 0 };
    text_add(&copy, "%s", text);
    return copy.bytes;
}

CodeEntry *kernel_note(Gpu *gpu, const char *key, const Woven *woven, const Shape *shape)
{
    ASSERT(mutex_is_held(&gpu->lock));
    CodeEntry         *kernel = kernel_find(gpu, key);
    CodeEntry *_Atomic *bucket = bucket_of(gpu, key);
    if (kernel) return kernel;
    kernel = calloc(1, sizeof *kernel);
    *kernel = (CodeEntry){ .state = KERNEL_NOTED,
                           .text = copy_text(woven->text),
                           .name = copy_text(woven->name),
                           .shape = *shape,
                           .next = gpu->kernels,
                           .same = *bucket };
    snprintf(kernel->key, sizeof kernel->key, "%s", key);
    gpu->kernels = *bucket = kernel;
    return kernel;
}

void kernel_note_quick(Gpu *gpu, CodeEntry *kernel)
{
    char key[sizeof kernel->key];
    ASSERT(mutex_is_held(&gpu->lock));
    if (kernel->quick || kernel->state != KERNEL_NOTED || gpu->is_quick_only || !gpu->vendor->can_be_quick(gpu))
        return;
    snprintf(key, sizeof key, "%.*s quick", (int)(sizeof key - sizeof " quick"), kernel->key);
    const Woven woven = { .text = kernel->text, .name = kernel->name };
    CodeEntry  *quick = kernel_note(gpu, key, &woven, &kernel->shape);
    quick->is_quick = true;
    kernel->quick = quick;
}

// ---- building -------------------------------------------------------------------------------------------------------

static u32 list_bytes(const GpuCode *code, const Shape *shape, int threads)
{
    return shape->is_picked ? (u32)threads * (u32)PICK_BYTES(code->items) : 0;
}

weft_status kernel_find_fit(Gpu *gpu, const GpuCode *code, const Shape *shape, Fit *fit, Error *err)
{
    static const int sizes[] = { 128, 256, 512, 1024 };
    int              most = 0;
    *fit = (Fit){ .dynamic_shared = shape->dynamic_shared };
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        const u32 shared = shape->dynamic_shared + list_bytes(code, shape, sizes[i]);
        int       blocks = 0;
        if (shared > (u32)(gpu->shared_per_block - code->static_shared)) continue;
        GPU_TRY(gpu, OccupancyMaxActiveBlocksPerMultiprocessor, (&blocks, code->function, sizes[i], shared), err);
        const int busy = blocks * sizes[i];
        if (busy < most || busy == 0 || (busy == most && sizes[i] > 256 && shape->dynamic_shared <= SHARED_SMALL))
            continue;
        most = busy;
        fit->threads = sizes[i], fit->blocks_per_sm = blocks, fit->launch_shared = shared;
    }
    return WEFT_OK;
}

static weft_status compile_and_load(Gpu *gpu, CodeEntry *kernel, int items, GpuCode *code, Error *err)
{
    Fit           fit = { 0 };
    bool          was_cached = false;
    const CodeJob job = { .text = kernel->text, .name = kernel->name, .shape = &kernel->shape, .items = items,
                          .is_quick = kernel->is_quick || gpu->is_quick_only };
    weft_status   status = gpu_enter(gpu, err);
    *code = (GpuCode){ .items = items };
    if (!status) status = gpu->vendor->load_code(gpu, &job, code, &was_cached, err);
    if (!status) status = kernel_find_fit(gpu, code, &kernel->shape, &fit, err);
    code->busy = fit.threads * fit.blocks_per_sm;
    kernel->was_cached = kernel->was_cached && was_cached;
    return status;
}

// ---- rows per thread: more of them keep more loads in flight, but each takes registers, and with them threads -------
// Kernels of 34 queries over 120 M rows were compiled for eight, four, two and one, and timed on an H200.  Most are
// best with eight, though that leaves fewer threads.  Those for which it leaves too few are known by two signs: less
// than two fifths of a multiprocessor's threads, and one and a half times as many, or more, with half the rows.  So
// Q2.2: 0.50 ms with eight rows (37 % of the threads), 0.39 with four (62 %); but five sums and a count by three
// columns, whose registers are not for rows: 1.18 with eight (31 %), 1.39 with four (37 %).  What these rules take was
// 1.3 % slower than the best of the four in the mean (with two rows for hash groups, too), 5 % at most, but for one:
// 2.19 ms instead of 1.88 (with one row), 600,000 groups.

#define BUSY_ENOUGH  0.4
#define FLIGHT_LEAST 0.75              // rows in flight, of those with twice as many per thread

static bool is_crowded(const Gpu *gpu, const GpuCode *code)
{
    return code->local_bytes > 0 || code->busy < BUSY_ENOUGH * gpu->threads_per_sm;
}

static bool is_better(const GpuCode *fewer, const GpuCode *code)
{
    return fewer->local_bytes < code->local_bytes ||
           fewer->items * fewer->busy >= FLIGHT_LEAST * (code->items * code->busy);
}

static void unload(Gpu *gpu, GpuCode *code)
{
    if (code->module && !gpu->is_gone) gpu->calls->ModuleUnload(code->module);
    *code = (GpuCode){ 0 };
}

// Where the device or the compiler cannot make it for fewer rows, what there is will do.
static weft_status load_code(Gpu *gpu, CodeEntry *kernel, Error *err)
{
    kernel->was_cached = true;
    weft_status status = compile_and_load(gpu, kernel, kernel->shape.items, &kernel->code, err);
    bool is_best = status != WEFT_OK || kernel->is_quick || gpu->is_quick_only || kernel->shape.has_fixed_items;
    while (!is_best && is_crowded(gpu, &kernel->code) && kernel->code.items > 1) {
        Error ignored = { 0 };
        GpuCode fewer;
        is_best = compile_and_load(gpu, kernel, kernel->code.items / 2, &fewer, &ignored) ||
                  !is_better(&fewer, &kernel->code);
        unload(gpu, is_best ? &fewer : &kernel->code);
        if (!is_best) kernel->code = fewer;
    }
    return status;
}

static void forget_text(CodeEntry *kernel)
{
    free(kernel->text);
    free(kernel->name);
    kernel->text = kernel->name = NULL;
}

void kernel_begin(CodeEntry *kernel)
{
    ASSERT(kernel->state == KERNEL_NOTED || kernel->state == KERNEL_QUEUED);
    kernel->begun_ms = time_now_ms();
    kernel->state = KERNEL_BUILDING;
}

// A text that does not compile will not get better.  Other errors may pass, and the kernel is tried again when a query
// asks for it: the first time at once, then after 1 s, 3, 7, and every minute at last, so that a card on which it never
// passes does not have its compiler at work for each query.
static void note_failure(CodeEntry *kernel, const Error *err)
{
    kernel->error = *err;
    kernel->again_ms = time_now_ms() + kernel->pause_ms;
    kernel->pause_ms = MIN_OF(2 * kernel->pause_ms + PAUSE_MS, PAUSE_MOST_MS);
}

void kernel_revive(CodeEntry *kernel)
{
    if (kernel->state == KERNEL_FAILED && kernel->text && time_now_ms() >= kernel->again_ms)
        kernel->state = KERNEL_NOTED;
}

weft_status kernel_build(Gpu *gpu, CodeEntry *kernel, Error *err)
{
    ASSERT(kernel->text && kernel->name);
    const weft_status status = load_code(gpu, kernel, err);
    if (status) unload(gpu, &kernel->code);
    if (!status || status == WEFT_KERNEL_BUILD || kernel->is_quick) forget_text(kernel);
    pthread_mutex_lock(&gpu->lock);
    if (!status && !kernel->was_cached && !kernel->is_quick)
        gpu->compile_ms += (time_now_ms() - kernel->begun_ms - gpu->compile_ms) / COMPILES_KNOWN;
    if (status) note_failure(kernel, err);
    kernel->state = status ? KERNEL_FAILED : KERNEL_READY;
    pthread_cond_broadcast(&gpu->built);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

void kernels_free(Gpu *gpu)
{
    for (CodeEntry *kernel = gpu->kernels, *next; kernel; kernel = next) {
        next = kernel->next;
        unload(gpu, &kernel->code);
        forget_text(kernel);
        free(kernel);
    }
    gpu->kernels = NULL;
}
