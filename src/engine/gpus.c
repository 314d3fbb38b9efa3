// gpus.c - see gpus.h.

#include "engine/gpus.h"
#include "device/cuda.h"

#include <stdlib.h>

struct Gpus {
    pthread_mutex_t lock;
    _Atomic(Device *) devices[CUDA_GPUS_MOST];      // opened under the lock; looked at without
    _Atomic(Device *) ready;           // the first, once it is open
    _Atomic bool    is_opening;        // somebody has begun to open it in the background,
    _Atomic bool    has_failed;        // and could not
    bool            has_thread;
    pthread_t       thread;
    void          (*relieve)(void *context);
    void           *relief;
};

Gpus *gpus_new(void (*relieve)(void *context), void *relief)
{
    Gpus *gpus = calloc(1, sizeof *gpus);
    gpus->relieve = relieve, gpus->relief = relief;
    pthread_mutex_init(&gpus->lock, NULL);
    return gpus;
}

void gpus_free(Gpus *gpus)
{
    if (!gpus) return;
    if (gpus->has_thread) pthread_join(gpus->thread, NULL);
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        Device *device = gpus->devices[g];
        if (device) device->close(device);
    }
    pthread_mutex_destroy(&gpus->lock);
    free(gpus);
}

// After what to do about the GPU: only who asked for it is refused.
static void hint_way_without(int number, Error *err)
{
    const Error found = *err;
    err->hint[0] = 0;
    error_hint(err, "%s%sTo go on without cuda:%d, SET device = auto or cpu, or unset WEFT_DEVICE.", found.hint,
               found.hint[0] ? " " : "", number);
}

static weft_status get(Gpus *gpus, int number, Device **device, Error *err)
{
    TRY(cuda_check_number(number, err));
    pthread_mutex_lock(&gpus->lock);
    weft_status status = WEFT_OK;
    *device = gpus->devices[number];
    if (!*device) {
        status = device_cuda_open(number, &(CudaOptions){ 0 }, device, err);
        if (!status) (*device)->relieve = gpus->relieve, (*device)->relief = gpus->relief;
        if (!status) cuda_warm(*device);
    }
    gpus->devices[number] = *device;
    if (number == 0) gpus->ready = *device;
    pthread_mutex_unlock(&gpus->lock);
    return status;
}

weft_status gpus_get(Gpus *gpus, int number, Device **device, Error *err)
{
    const weft_status status = get(gpus, number, device, err);
    if (status) hint_way_without(number, err);
    return status;
}

static void *open_first(void *context)
{
    Gpus   *gpus = context;
    Device *device;
    Error   err = { 0 };
    gpus->has_failed = gpus_get(gpus, 0, &device, &err) != WEFT_OK;
    if (gpus->has_failed) log_info("no GPU is used: %s", err.message);
    return NULL;
}

Device *gpus_ready(Gpus *gpus)
{
    Device *device = gpus->ready;
    if (device || atomic_exchange(&gpus->is_opening, true)) return device;
    pthread_mutex_lock(&gpus->lock);
    if (!gpus->has_thread) gpus->has_thread = thread_start(&gpus->thread, NULL, open_first, gpus) == 0;
    pthread_mutex_unlock(&gpus->lock);
    return NULL;
}

bool gpus_is_wanted(const Gpus *gpus) { return gpus->ready || (gpus->is_opening && !gpus->has_failed); }

void gpus_wake(Gpus *gpus, const _Atomic u32 *stop)
{
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        Device *device = gpus->devices[g];
        if (device && device->wake) device->wake(device, stop);
    }
}

// ---- for people -----------------------------------------------------------------------------------------------------

bool gpus_figures(Gpus *gpus, int number, Arena *arena, const char **name, DeviceFigures *figures)
{
    Device *device = gpus->devices[number];
    if (!device) return false;
    *name = device->name;
    device->list(device, arena, figures);
    return true;
}

void gpus_forget_with(Gpus *gpus, Device *cpu, bool (*which)(const void *context, u64 table), const void *context)
{
    cpu->forget(cpu, which, context);
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        Device *device = gpus->devices[g];
        if (device && device->forget) device->forget(device, which, context);
    }
}

static void add_scan(Arena *arena, const ScanFigures *more, DeviceFigures *all)
{
    ScanFigures *scan = NULL;
    for (int i = 0; i < all->n_scans; i++)
        if (all->scans[i].id == more->id) scan = &all->scans[i];
    if (!scan) {
        *LIST_PUSH(arena, all->scans, all->n_scans) = *more;
        return;
    }
    scan->n_rides += more->n_rides;
    scan->chunks_woven += more->chunks_woven, scan->chunks_woven_ridden += more->chunks_woven_ridden;
    scan->rides_woven += more->rides_woven, scan->rides_fused += more->rides_fused,
        scan->rides_cubed += more->rides_cubed, scan->rides_sieved += more->rides_sieved,
        scan->rides_join_cubed += more->rides_join_cubed;
    scan->chunks_read += more->chunks_read, scan->rows_read += more->rows_read, scan->bytes_read += more->bytes_read;
    scan->chunks_ridden += more->chunks_ridden, scan->rows_ridden += more->rows_ridden,
        scan->bytes_ridden += more->bytes_ridden;
}

DeviceFigures gpus_figures_with(Gpus *gpus, Device *cpu, Arena *arena)
{
    DeviceFigures all, found;
    const char   *ignored;
    cpu->list(cpu, arena, &all);
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        if (!gpus_figures(gpus, g, arena, &ignored, &found)) continue;
        for (int i = 0; i < found.n_riders; i++) *LIST_PUSH(arena, all.riders, all.n_riders) = found.riders[i];
        for (int i = 0; i < found.n_scans; i++) add_scan(arena, &found.scans[i], &all);
    }
    return all;
}
