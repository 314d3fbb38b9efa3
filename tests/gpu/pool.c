// pool.c - how much memory of a GPU Weft takes: what WEFT_DEVICE_MEMORY says, at most what is free and at least a
// frame; where it is not understood, 80 % of what is free.
//
// Run by tests/check-gpu with the fake driver.  A pool is whole frames, and a device takes a little memory besides
// before it asks what is free.

#include "device/cuda.h"
#include "device/frames.h"

#include "help.h"

enum { MEMORY = 256 << 20 };           // of the fake
#define MB ((u64)1 << 20)

static u64 pool_of(const char *wanted)
{
    Error   err = { 0 };
    Device *device;
    if (wanted) setenv("WEFT_DEVICE_MEMORY", wanted, 1);
    else unsetenv("WEFT_DEVICE_MEMORY");
    if (device_cuda_open(0, &(CudaOptions){ .cache_dir = "" }, &device, &err)) {
        check(0, wanted ? wanted : "no size", err.message);
        return 0;
    }
    const u64 bytes = cuda_memory(device).bytes;
    device->close(device);
    return bytes;
}

static void check_pool(const char *wanted, u64 least, u64 most)
{
    char      got[40];
    const u64 bytes = pool_of(wanted);
    snprintf(got, sizeof got, "%llu bytes", (unsigned long long)bytes);
    check(bytes >= least && bytes <= most, wanted, got);
}

int main(void)
{
    static const struct { const char *wanted; u64 bytes;
    } sizes[] = {
        { "67108864", 64 * MB }, { "65536kB", 64 * MB },  { "64MB", 64 * MB },     { "64 mib", 64 * MB },
        { "64M", 64 * MB },      { "0.0625GB", 64 * MB }, { "0.0625 g", 64 * MB }, { "64kB", 64 << 10 },
        { "63kB", 64 << 10 },    { "1kB", 64 << 10 },     { "100", 64 << 10 },     { "5", 64 << 10 },
        { "0", 64 << 10 },       { "0%", 64 << 10 },      { "0.0001%", 64 << 10 },
    };
    static const char *const not_understood[] = { "lots", "2 G B", "-5",   "inf",   "nan",   "nan%",
                                                  "1e30", "0.5",   "0x10", "0x10%", "64MBs", "%" };
    const u64 standard = pool_of(NULL);
    check(standard > MEMORY / 100 * 70 && standard <= MEMORY / 100 * 80, "without a size",
          "another share of the memory");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_pool(sizes[i].wanted, sizes[i].bytes, sizes[i].bytes);
    for (size_t i = 0; i < sizeof not_understood / sizeof *not_understood; i++)
        check_pool(not_understood[i], standard, standard);
    check_pool("", standard, standard);
    check_pool("80%", standard, standard + FRAME_BYTES);
    check_pool("40 %", standard / 2 - FRAME_BYTES, standard / 2 + FRAME_BYTES);
    const u64 all = pool_of("100%");
    check(all > standard && all <= MEMORY, "100%", "not all");
    check_pool("200%", all, all);
    check_pool("1e30%", all, all);
    check_pool("1TB", all, all);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
