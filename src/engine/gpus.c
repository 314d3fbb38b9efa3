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
};

Gpus *gpus_new(void)
{
    Gpus *gpus = calloc(1, sizeof *gpus);
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

// ---- for people -----------------------------------------------------------------------------------------------------

static DeviceFigures figures_of(Gpus *gpus, int number, Arena *arena)
{
    Device       *device = gpus->devices[number];
    DeviceFigures figures = { 0 };
    if (device && device->list) device->list(device, arena, &figures);
    return figures;
}

bool gpus_figures(Gpus *gpus, int number, Arena *arena, const char **name, DeviceFigures *figures)
{
    Device *device = gpus->devices[number];
    if (!device) return false;
    *name = device->name;
    *figures = figures_of(gpus, number, arena);
    return true;
}

static WovenAs woven_as_of(const char *name)
{
    for (int as = WOVEN_SIEVE; name && as <= WOVEN_CUBE; as++)
        if (strcmp(woven_as_name((WovenAs)as), name) == 0) return (WovenAs)as;
    return WOVEN_NOT;
}

void gpus_add_riders(Gpus *gpus, Arena *arena, RiderFigures **figures, int *n_figures)
{
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        const DeviceFigures found = figures_of(gpus, g, arena);
        for (int i = 0; i < found.n_launches; i++) {
            const LaunchFigures *launch = &found.launches[i];
            *LIST_PUSH(arena, *figures, *n_figures) =
                (RiderFigures){ .query = launch->query,
                                .table = launch->table ? launch->table : "stored rows",
                                .label = launch->label,
                                .kernel = launch->kernel,
                                .n_chunks = launch->n_chunks,
                                .n_chunks_done = launch->n_chunks_done,
                                .n_fellow = launch->n_fellow,
                                .woven_as = woven_as_of(launch->woven_as),
                                .n_woven = launch->n_woven,
                                .gain = launch->gain,
                                .cube = launch->cube };
        }
    }
}

static void add_scan(Arena *arena, const TableFigures *table, ScanFigures **figures, int *n_figures)
{
    ScanFigures *scan = NULL;
    for (int i = 0; i < *n_figures; i++)
        if ((*figures)[i].id == table->id) scan = &(*figures)[i];
    if (!scan) {
        scan = LIST_PUSH(arena, *figures, *n_figures);
        *scan = (ScanFigures){ .id = table->id, .table = table->table };
    }
    scan->n_rides += table->n_rides;
    scan->chunks_woven += table->chunks_woven, scan->chunks_woven_ridden += table->chunks_woven_ridden;
    scan->rides_woven += table->n_woven, scan->rides_fused += table->n_fused, scan->rides_cubed += table->n_cubed,
        scan->rides_sieved += table->n_sieved, scan->rides_join_cubed += table->n_join_cubed;
    scan->chunks_read += table->chunks_read, scan->rows_read += table->rows_read, scan->bytes_read += table->bytes_read;
    scan->chunks_ridden += table->chunks_ridden, scan->rows_ridden += table->rows_ridden,
        scan->bytes_ridden += table->bytes_ridden;
}

void gpus_add_scans(Gpus *gpus, Arena *arena, ScanFigures **figures, int *n_figures)
{
    ScanFigures *all = NULL;
    int          n_all = 0;
    for (int i = 0; i < *n_figures; i++) *LIST_PUSH(arena, all, n_all) = (*figures)[i];
    for (int g = 0; g < CUDA_GPUS_MOST; g++) {
        const DeviceFigures found = figures_of(gpus, g, arena);
        for (int t = 0; t < found.n_tables; t++) add_scan(arena, &found.tables[t], &all, &n_all);
    }
    *figures = all, *n_figures = n_all;
}
