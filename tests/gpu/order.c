// order.c - the fake driver itself: work behind a wait is done after what is waited for, also when another thread looks
// at the stream meanwhile.
//
// Run by tests/check-gpu.  Stream 2 is at work for a while; stream 1 has a copy, and waits for stream 2; stream 0 waits
// for stream 1, and then copies what stream 1 has copied last.  One thread waits for stream 0 while another does.

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "device/cuda_driver.h"

#include "help.h"

static const CudaDriver *cu;
static CuStream          streams[3];

static void must_be(int result, const char *what)
{
    if (result) exit((printf("failed: %s: %d\n", what, result), 1));
}

static void *wait_too(void *context)
{
    must_be(cu->CtxSetCurrent(context), "a context");
    usleep(20000);
    must_be(cu->StreamSynchronize(streams[0]), "the first stream");
    return NULL;
}

static CuStream new_stream(void)
{
    CuStream stream;
    must_be(cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a stream");
    return stream;
}

static void go_on_behind(CuStream stream, CuStream other, CuEvent event)
{
    must_be(cu->EventRecord(event, other), "an event");
    must_be(cu->StreamWaitEvent(stream, event, 0), "a wait");
}

int main(void)
{
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL, (*busy)(int) = NULL;
    Error       err = { 0 };
    CuContext   context;
    CuAddress   memory;
    CuModule    module;
    CuFunction  function;
    CuEvent     events[2];
    pthread_t   thread;
    u32         value = 7, got = 0;
    *(void **)&busy = fake ? dlsym(fake, "fake_cuda_busy") : NULL;
    if (!busy || cuda_need(&cu, &err)) return puts("failed: WEFT_LIBCUDA does not name the fake driver"), 1;
    must_be(cu->DevicePrimaryCtxRetain(&context, 0) || cu->CtxSetCurrent(context), "a context");
    must_be(cu->MemAlloc(&memory, 4096) || cu->ModuleLoadData(&module, "weft_read") ||
                cu->ModuleGetFunction(&function, module, "weft_read"),
            "memory and a kernel");
    for (int s = 0; s < 3; s++) streams[s] = new_stream();
    for (int e = 0; e < 2; e++) must_be(cu->EventCreate(&events[e], CU_EVENT_DISABLE_TIMING), "an event");
    void *parameters[] = { &memory };
    busy(200);
    must_be(cu->LaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, streams[2], parameters, NULL), "a launch");
    must_be(cu->MemcpyHtoDAsync(memory, &value, sizeof value, streams[2]), "a copy");
    must_be(cu->MemsetD8Async(memory + 1024, 0, 64, streams[1]), "zeros");
    go_on_behind(streams[1], streams[2], events[0]);
    must_be(cu->MemcpyDtoDAsync(memory + 256, memory, sizeof value, streams[1]), "a copy of it");
    go_on_behind(streams[0], streams[1], events[1]);
    must_be(cu->MemcpyDtoDAsync(memory + 512, memory + 256, sizeof value, streams[0]), "a copy of that");
    must_be(pthread_create(&thread, NULL, wait_too, context), "a thread");
    must_be(cu->StreamSynchronize(streams[0]), "the first stream");
    pthread_join(thread, NULL);
    must_be(cu->MemcpyDtoHAsync(&got, memory + 512, sizeof got, streams[0]) || cu->StreamSynchronize(streams[0]),
            "what has come");
    char text[20];
    snprintf(text, sizeof text, "%u", got);
    check(got == value, "a copy behind two waits", text);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    fflush(stdout);
    _exit(n_failed != 0);              // what is left goes with the program
}
