// measured.c - what measures a GPU waits for what it has begun before it frees the memory, whatever fails, and the
// error names the call that failed.
//
// Run by tests/check-gpu with the fake driver, which works as late as it may.  Not by `weft devices --measure`, one
// process for each call: that measures the CPU as well, for two seconds each time.

#include <dlfcn.h>

#include "device/survey.h"
#include "help.h"

// The nth call from now on fails with this result.
typedef struct Failing { const char *call; int nth, result; } Failing;

// clang-format off
static const Failing failing[] = {
    { "cuMemHostAlloc", 1, 2 },       { "cuMemsetD8Async", 1, 2 },    { "cuStreamSynchronize", 1, 1 },
    { "cuStreamSynchronize", 2, 1 },  { "cuStreamSynchronize", 12, 1 }, { "cuMemcpyHtoDAsync", 7, 1 },
    { "cuEventRecord", 1, 1 },        { "cuEventRecord", 2, 1 },      { "cuEventSynchronize", 1, 1 },
    { "cuEventElapsedTime", 1, 1 },   { "cuLaunchKernel", 1, 1 },     { "cuLaunchKernel", 9, 1 },
};
// clang-format on

static void check_failing(const Failing *fault)
{
    GpuSpeeds speeds = { 0 };
    Error     problem = { 0 };
    char      what[100];
    measure_gpu(0, &speeds, &problem);
    const Error *told = problem.status ? &problem : &speeds.no_kernel;
    snprintf(what, sizeof what, "measured although %s:%d:%d", fault->call, fault->nth, fault->result);
    check(strstr(told->message, fault->call) && (!strcmp(told->sqlstate, "53200") || !strcmp(told->sqlstate, "58000")),
          what, told->message);
}

int main(void)
{
    void *fake = dlopen(getenv("WEFT_LIBCUDA"), RTLD_NOW);
    void (*fail_at)(const char *call, int nth, int result);
    *(void **)&fail_at = fake ? dlsym(fake, "fake_cuda_fail") : NULL;
    if (!fail_at) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    for (int i = 0; i < COUNT_OF(failing); i++) {
        fail_at(failing[i].call, failing[i].nth, failing[i].result);
        check_failing(&failing[i]);
    }
    fail_at("", 0, 0);
    GpuSpeeds speeds = { 0 };
    Error     problem = { 0 };
    check(measure_gpu(0, &speeds, &problem) == WEFT_OK && !speeds.no_kernel.status, "measured after that",
          problem.status ? problem.message : speeds.no_kernel.message);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
