// gpus.c - see gpus.h.

#include "engine/gpus.h"
#include "device/cuda.h"

#include <stdlib.h>

#define GPUS_MOST 16

struct Gpus {
    pthread_mutex_t lock;
    Device         *devices[GPUS_MOST];
    _Atomic(Device *) ready;           // the first, once it is open
    _Atomic bool    is_opening;        // somebody has begun to open it in the background
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
    for (int g = 0; g < GPUS_MOST; g++)
        if (gpus->devices[g]) gpus->devices[g]->close(gpus->devices[g]);
    pthread_mutex_destroy(&gpus->lock);
    free(gpus);
}

weft_status gpus_get(Gpus *gpus, int number, Device **device, Error *err)
{
    const CudaDriver *driver;
    TRY(cuda_need(&driver, err));
    if (number < 0 || number >= MIN_OF(driver->n_gpus, GPUS_MOST)) {
        fail(err, WEFT_NO_DEVICE, -1, "there is no device cuda:%d", number);
        error_hint(err, "The driver sees %d of them, from cuda:0 on.", driver->n_gpus);
        return WEFT_NO_DEVICE;
    }
    pthread_mutex_lock(&gpus->lock);
    weft_status status = WEFT_OK;
    if (!gpus->devices[number]) {
        status = device_cuda_open(number, &(CudaOptions){ 0 }, &gpus->devices[number], err);
        if (!status) cuda_warm(gpus->devices[number]);
    }
    *device = gpus->devices[number];
    if (number == 0) gpus->ready = *device;
    pthread_mutex_unlock(&gpus->lock);
    return status;
}

static void *open_first(void *context)
{
    Gpus   *gpus = context;
    Device *device;
    Error   err = { 0 };
    if (gpus_get(gpus, 0, &device, &err)) log_info("no GPU is used: %s", err.message);
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
