// gpu_ready.c - kernels compiled in the background.
//
// A compile takes 100 to 600 ms (30 where NVRTC has the same text in its own cache), and a query has a pipeline for
// each table.  So a query waits for a kernel only where the CPU would take as long (the engine decides, by how long
// compiles have taken so far).  Other kernels are compiled in the background, for the next time:
//
//     wait_ms: 150 ──> noted ── get_ready ──> queued ──> compiled by one of a few threads
//                        └── a scan that needs it now compiles it itself; a kernel that failed is noted again later
//
// A query that waits goes first: of NVRTC's work not three compiles go on side by side (measured with 4 and with 16
// threads), so nothing is begun here while a query compiles for itself.  What has begun cannot be stopped: closing
// waits for it.
//
// The CPU runs queries meanwhile, on all cores, so these threads step back where there are few cores.  Where there are
// many they would starve: with 16, the thirteen queries of SSB took 3.6 s until all ran on the GPU.  SSB's Q4.2 at SF 2
// on 2 cores with NVRTC at work beside it: 37 ms at least and 47 in the median of 16 first runs without that, 31 and 38
// so; second runs 28 and 39, 25 and 28.  With twice the step 28 and 43, 23 and 26.
//
// The compiler's own start (130 to 300 ms) is the first thing that is done here, with a kernel that uses the words as
// real ones do.

#include "device/gpu_int.h"

#define MANY_CORES 8                   // then a quarter of them compiles, and does not step back

// ---- the threads ----------------------------------------------------------------------------------------------------

// The oldest quick one, else the generic kernel, else the oldest of the others: first all that is asked for can run,
// then all that will be, then it gets better.
static CodeEntry *next_queued(const Gpu *gpu)
{
    CodeEntry *oldest = NULL, *quick = NULL, *generic = NULL;          // the list has the newest first
    for (CodeEntry *kernel = gpu->kernels; kernel; kernel = kernel->next) {
        if (kernel->state != KERNEL_QUEUED) continue;
        *(kernel->is_quick ? &quick : kernel->shape.has_fixed_items ? &generic : &oldest) = kernel;
    }
    return quick ? quick : generic ? generic : oldest;
}

static void build_quietly(Gpu *gpu, CodeEntry *kernel)
{
    Error err = { 0 };
    if (kernel_build(gpu, kernel, &err))
        log_debug("%s: %s was not made ready: %s", gpu->name, kernel->key, err.message);
}

// With the lock, which is given up while it works.  False: there is nothing to do.
static bool build_next(Gpu *gpu)
{
    ASSERT(mutex_is_held(&gpu->lock));
    CodeEntry *kernel = gpu->n_demanded ? NULL : next_queued(gpu);
    void (*const warm)(Gpu *) = gpu->n_demanded ? NULL : gpu->warm;    // else that one starts the compiler
    if (!warm && !kernel) return false;
    if (warm) gpu->warm = NULL;
    else kernel_begin(kernel);
    pthread_mutex_unlock(&gpu->lock);
    if (warm) warm(gpu);
    else build_quietly(gpu, kernel);
    pthread_mutex_lock(&gpu->lock);
    return true;
}

static void *make_ready(void *context)
{
    Gpu *gpu = context;
    if (cpu_count() < MANY_CORES) thread_step_back();
    pthread_mutex_lock(&gpu->lock);
    while (!gpu->stops_compiling)
        if (!build_next(gpu)) pthread_cond_wait(&gpu->wanted, &gpu->lock);
    pthread_mutex_unlock(&gpu->lock);
    return NULL;
}

// With the lock.  A quarter of the cores: queries that run on the CPU meanwhile need the others.  A refused thread is
// no failure: queries then go on without it, and compile for themselves where they must.
static void start_threads(Gpu *gpu, int n_wanted)
{
    ASSERT(mutex_is_held(&gpu->lock));
    const int n = MIN_OF(n_wanted, MIN_OF(N_COMPILERS, MAX_OF(1, cpu_count() / 4)));
    while (gpu->n_compilers < n && thread_start(&gpu->compilers[gpu->n_compilers], NULL, make_ready, gpu) == 0)
        gpu->n_compilers++;
    pthread_cond_broadcast(&gpu->wanted);
}

void ready_begin(Gpu *gpu, bool all)
{
    int n_queued = 0;
    pthread_mutex_lock(&gpu->lock);
    for (CodeEntry *kernel = gpu->kernels; kernel; kernel = kernel->next) {
        kernel_revive(kernel);
        if (kernel->state == KERNEL_NOTED && (all || kernel->n_asked > 1)) kernel->state = KERNEL_QUEUED;
        n_queued += kernel->state == KERNEL_QUEUED;
    }
    if (n_queued) start_threads(gpu, n_queued);
    pthread_mutex_unlock(&gpu->lock);
}

void ready_warm(Gpu *gpu, void (*warm)(Gpu *gpu))
{
    pthread_mutex_lock(&gpu->lock);
    gpu->warm = warm;
    start_threads(gpu, 1);
    pthread_mutex_unlock(&gpu->lock);
}

void ready_stop(Gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->stops_compiling = true;
    pthread_cond_broadcast(&gpu->wanted);
    pthread_mutex_unlock(&gpu->lock);
    for (int c = 0; c < gpu->n_compilers; c++) pthread_join(gpu->compilers[c], NULL);
    gpu->n_compilers = 0;
}
