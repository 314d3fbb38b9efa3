// cuda_peak.c - how fast a kernel reads a card's memory, which EXPLAIN ANALYZE compares with.
//
// It is measured when the first EXPLAIN ANALYZE asks, after its query, so that no other query waits for it; and kept in
// the cache directory for this card and driver.  Other launches would falsify it: while there are some, the nominal
// peak is reported.  That others compile is no reason to wait: the device's own start does, in every process that ends
// soon.

#include "device/cuda_int.h"
#include "device/survey.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIES 5                        // of a process: each compiles, too

typedef struct PeakName { char text[300]; } PeakName;

static PeakName peak_name(const CudaGpu *cuda)
{
    PeakName name;
    char     bus[32] = "", driver[64];
    cuda->cu->DeviceGetPCIBusId(bus, sizeof bus, cuda->handle);
    survey_driver_version(driver, sizeof driver);
    snprintf(name.text, sizeof name.text, "GB/s of %s at %s, driver %s, CUDA %d", cuda->gpu.card, bus, driver,
             cuda->cu->version);
    return name;
}

void peak_recall(CudaGpu *cuda)
{
    Gpu           *gpu = &cuda->gpu;
    const PeakName name = peak_name(cuda);
    Text           text = { 0 };
    if (cubins_recall(cuda_gpu(gpu)->cubins, name.text, &text)) gpu->measured_gbs = atoi(text.bytes);
    text_free(&text);
    gpu->n_tries_left = gpu->measured_gbs > 0 ? 0 : TRIES;
}

static void remember(Gpu *gpu)
{
    const PeakName name = peak_name(cuda_gpu(gpu));
    char           figure[32];
    snprintf(figure, sizeof figure, "%d", gpu->measured_gbs);
    cubins_remember(cuda_gpu(gpu)->cubins, name.text, figure);
}

// With the lock, which is given up meanwhile.
static void measure(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock) && !gpu->is_measuring && gpu->n_tries_left > 0);
    const u64 n_before = gpu->n_launches;
    double    speed = 0;
    Error     err = { 0 };
    gpu->n_tries_left--;
    gpu->is_measuring = true;
    pthread_mutex_unlock(&gpu->lock);
    const weft_status status = measure_gpu_reads(cuda_gpu(gpu)->number, &speed, &err);
    const bool        can_measure = !status && speed >= 1, was_alone = gpu->n_launches == n_before;
    if (status) log_debug("%s: the speed of its memory was not measured: %s", gpu->name, err.message);
    if (can_measure && was_alone) {
        gpu->measured_gbs = (int)MIN_OF(speed, 1e6);
        remember(gpu);
    }
    pthread_mutex_lock(&gpu->lock);
    gpu->is_measuring = false;
    if (!can_measure || was_alone) gpu->n_tries_left = 0;
    pthread_cond_broadcast(&gpu->wanted);
}

void peak_tell(Device *device, GpuFigures *figures)
{
    Gpu *gpu = (Gpu *)device;
    pthread_mutex_lock(&gpu->lock);
    while (gpu->is_measuring) pthread_cond_wait(&gpu->wanted, &gpu->lock);
    if (gpu->n_tries_left && !gpu->n_active && !gpu->is_lost) measure(gpu);
    pthread_mutex_unlock(&gpu->lock);
    peak_known(gpu, figures);
}
