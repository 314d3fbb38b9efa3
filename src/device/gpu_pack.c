// gpu_pack.c - the results of many launches by one copy.
//
//     device   [state of member 0 | of member 1 | ...]   of a run of chunks; set by one operation before its kernels
//                        | one copy, one event
//     pinned   [state of member 0 | of member 1 | ...]   each member reads its part; the last one gives it back
//
// Every call of a driver takes its locks.  A launch that has its first content, its results and its event for itself
// makes about ten of them, and with a thousand launches at once the threads of queries do little else but wait for each
// other there.  So a launch that comes while others are about leaves its block unwritten (gpu_launch.c), and where one
// run of chunks is all that it wants, the dispatcher gives it a place in a pack instead: beside the others of its body
// (gpu_cube.c, gpu_join_cube.c), without the head of the block, which only a kernel of its own reads.  In a crowd those
// that have kernels of their own are packed, too, with the others of their stream.
//
// The first member is woken when all is issued, and waits for the event; then it wakes the others, which make no call
// at all and are woken once.  They may read their results long after the run of chunks has ended, so what a pack brings
// is in memory of its own, and stays until the last member has left.  No member leaves before all work of the pack is
// done, whether it is stopped or not.

#include "device/gpu_wave.h"

#include <stdlib.h>

#define STAGINGS_MOST 64               // of STAGING_BYTES each; a launch beyond them has its results for itself
#define PACK_LEAST    2                // members; in a body, one: it needs no head
#define MEMORY_SHARE  64               // of the pool: 1 / this, at most

struct Staging {                       // pinned
    u8             *memory;
    struct Staging *next;              // that no pack has
};

struct Pack {
    Gpu            *gpu;
    const void     *maker;             // the cube; NULL: the members have kernels of their own
    GpuStream       stream;            // of the first content, of the kernels and of the copy back
    Copy           *copy;              // the pack has a hold of its own
    u64             bytes;
    struct Staging *staging;
    GpuEvent        arrived;
    int             n_members;
    GpuRun        **members;           // until they are woken
    bool            has_heads;
    _Atomic int     n_left;            // members that have not left
    weft_status     status;            // set before the others are woken, as the next
    Error           error;
};

// ---- pinned memory --------------------------------------------------------------------------------------------------

static struct Staging *find_staging(Gpu *gpu)
{
    pthread_mutex_lock(&gpu->slots_lock);
    struct Staging *staging = gpu->stagings;
    if (staging) gpu->stagings = staging->next;
    pthread_mutex_unlock(&gpu->slots_lock);
    return staging;
}

// Made when it is first needed, and kept.
static struct Staging *take_staging(Gpu *gpu)
{
    Error           ignored = { 0 };
    struct Staging *staging = find_staging(gpu);
    void           *memory;
    if (staging || gpu->n_stagings >= STAGINGS_MOST) return staging;
    if (gpu_check(gpu, gpu->calls->MemHostAlloc(&memory, STAGING_BYTES, GPU_HOST_PORTABLE), "MemHostAlloc", &ignored))
        return NULL;
    staging = calloc(1, sizeof *staging);
    staging->memory = memory;
    gpu->n_stagings++;
    return staging;
}

static void give_staging(Gpu *gpu, struct Staging *staging)
{
    if (!staging) return;
    pthread_mutex_lock(&gpu->slots_lock);
    staging->next = gpu->stagings, gpu->stagings = staging;
    pthread_mutex_unlock(&gpu->slots_lock);
}

void packs_close(Gpu *gpu, bool has_context)
{
    for (struct Staging *staging = gpu->stagings, *next; staging; staging = next) {
        next = staging->next;
        if (has_context) gpu->calls->MemFreeHost(staging->memory);
        free(staging);
    }
    gpu->stagings = NULL;
}

// ---- making ---------------------------------------------------------------------------------------------------------

static u64 bytes_of(const GpuRun *run, bool has_heads) { return run->copied_bytes - (has_heads ? 0 : run->room_at); }

static bool can_join(const Wave *wave, const GpuRun *run)
{
    return run->can_pack && !run->pack && run->n_wanted == run->n_chunks_wanted && wave_completes(wave, run);
}

static void free_pack(Pack *pack)
{
    Gpu *gpu = pack->gpu;
    if (pack->arrived) event_give(gpu, pack->arrived);
    give_staging(gpu, pack->staging);
    pthread_mutex_lock(&gpu->lock);
    if (pack->copy) copy_release(gpu->frames, pack->copy);
    pthread_mutex_unlock(&gpu->lock);
    free(pack->members);
    free(pack);
}

static bool take_memory(Wave *wave, Pack *pack)
{
    Gpu  *gpu = wave->gpu;
    Error ignored = { 0 };
    bool  is_new;
    if (MAX_OF(pack->bytes, FRAME_BYTES) > frames_total(gpu->frames) / MEMORY_SHARE) return false;
    pack->staging = take_staging(gpu);
    if (!pack->staging || event_take(gpu, &pack->arrived, &ignored)) return false;
    Copy *copy = wave_hold(wave, (CopyKey){ 0 }, pack->bytes, &is_new);
    if (!copy) return false;
    pthread_mutex_lock(&gpu->lock);
    copy->n_holds++;
    pthread_mutex_unlock(&gpu->lock);
    pack->copy = copy;
    return true;
}

static void place_members(Pack *pack)
{
    const GpuAddress first = gpu_address(pack->gpu, pack->copy->at);
    u64              at = 0;
    for (int m = 0; m < pack->n_members; m++) {
        GpuRun *run = pack->members[m];
        run->pack = pack, run->pack_at = at, run->is_headless = !pack->has_heads;
        run->home = first + at - (pack->has_heads ? 0 : run->room_at);
        at += bytes_of(run, pack->has_heads);
    }
}

static void forget(GpuRun *run) { run->pack = NULL, run->home = 0, run->is_headless = false; }

static void forget_members(const Pack *pack)
{
    for (int m = 0; m < pack->n_members; m++) forget(pack->members[m]);
}

// Zeros where that is all; else as the host writes it.
static weft_status send_first_content(const Pack *pack, Error *err)
{
    Gpu *gpu = pack->gpu;
    if (!pack->has_heads && !launch_has_init(pack->members[0])) {
        GPU_TRY(gpu, MemsetD8Async, (gpu_address(gpu, pack->copy->at), 0, pack->bytes, pack->stream), err);
        return WEFT_OK;
    }
    u8 *image = calloc(1, pack->bytes);
    for (int m = 0; m < pack->n_members; m++) {
        const GpuRun *run = pack->members[m];
        if (pack->has_heads) launch_write_head(run, image + run->pack_at);
        launch_write_state(run, image + run->pack_at + (pack->has_heads ? run->room_at : 0));
    }
    const weft_status status = stage_send(gpu, pack->stream, pack->copy->at, image, pack->bytes, err);
    free(image);
    return status;
}

// False: they are as before.
static bool make_pack(Wave *wave, Pack *pack)
{
    Error ignored = { 0 };
    if (pack->n_members >= (pack->maker ? 1 : PACK_LEAST) && take_memory(wave, pack)) {
        place_members(pack);
        if (!send_first_content(pack, &ignored)) return true;
        forget_members(pack);
    }
    return false;
}

static Pack *new_pack(Gpu *gpu, const void *maker, GpuStream stream, int room)
{
    Pack *pack = calloc(1, sizeof *pack);
    pack->gpu = gpu, pack->maker = maker, pack->stream = stream, pack->has_heads = !maker;
    pack->members = calloc((size_t)room, sizeof *pack->members);
    return pack;
}

static void end_pack(Wave *wave, Pack *pack)
{
    if (!make_pack(wave, pack)) {
        free_pack(pack);
        return;
    }
    pack->n_left = pack->n_members;
    *PUSH(wave->packs, wave->n_packs, wave->packs_room) = pack;
}

void packs_make(Wave *wave, const void *maker, GpuStream stream, GpuRun *const *runs, int n)
{
    Pack *pack = new_pack(wave->gpu, maker, stream, n);
    for (int r = 0; r < n; r++) {
        const u64 bytes = bytes_of(runs[r], pack->has_heads);
        if (!can_join(wave, runs[r])) continue;
        if (pack->bytes + bytes > STAGING_BYTES) {
            end_pack(wave, pack);
            pack = new_pack(wave->gpu, maker, stream, n);
        }
        pack->members[pack->n_members++] = runs[r];
        pack->bytes += bytes;
    }
    end_pack(wave, pack);
}

void packs_undo(Wave *wave, const void *maker)
{
    int n = 0;
    for (int p = 0; p < wave->n_packs; p++) {
        if (maker && wave->packs[p]->maker != maker) {
            wave->packs[n++] = wave->packs[p];
            continue;
        }
        forget_members(wave->packs[p]);
        free_pack(wave->packs[p]);
    }
    wave->n_packs = n;
}

weft_status packs_fetch(const Wave *wave, const void *maker, Error *err)
{
    Gpu *gpu = wave->gpu;
    for (int p = 0; p < wave->n_packs; p++) {
        const Pack *pack = wave->packs[p];
        if (pack->maker != maker) continue;
        GPU_TRY(gpu, MemcpyDtoHAsync,
                (pack->staging->memory, gpu_address(gpu, pack->copy->at), pack->bytes, pack->stream), err);
        GPU_TRY(gpu, EventRecord, (pack->arrived, pack->stream), err);
    }
    return WEFT_OK;
}

// ---- a member -------------------------------------------------------------------------------------------------------

bool pack_wakes(const GpuRun *run) { return run->pack && run->pack->members[0] != run; }

// Until the event has come, or the driver fails: then what is in the stream is waited for.
static void wait_for_all(GpuRun *first)
{
    Pack *pack = first->pack;
    pack->status = run_wait_event(first, pack->arrived, &pack->error);
    if (pack->status) gpu_wait_for(pack->gpu, pack->stream);
    for (int m = 1; m < pack->n_members; m++) run_wake(pack->members[m]);
}

weft_status pack_wait(GpuRun *run, Error *err)
{
    Pack *pack = run->pack;
    if (!pack_wakes(run)) wait_for_all(run);
    if (pack->status) *err = pack->error;
    const u8 *memory = pack->staging->memory + run->pack_at;
    run->back = pack->has_heads ? memory : NULL, run->back_state = pack->has_heads ? memory + run->room_at : memory;
    return pack->status;
}

void pack_leave(GpuRun *run)
{
    Pack *pack = run->pack;
    if (!pack) return;
    forget(run);
    run->back = run->back_state = NULL;
    if (atomic_fetch_sub(&pack->n_left, 1) == 1) free_pack(pack);
}
