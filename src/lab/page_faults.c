// page_faults.c - see page_faults.h.
//
// CUPTI's activity records of kind "unified memory counter" begin alike in all versions from CUDA 7 on: kind, kind of
// counter, value.  Nothing else of them is read.  The numbers below are those of cupti_activity.h.

#include <stddef.h>
#include <stdlib.h>

#include "lab/page_faults.h"

enum {
    KIND_MEMORY_COUNTER = 25,                               // CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER
    SCOPE_SINGLE_DEVICE = 1,
    COUNTER_BYTES_THERE = 1,
    COUNTER_BYTES_BACK = 2,
    COUNTER_CPU_FAULTS = 3,
    COUNTER_GPU_FAULTS = 4,                                 // its value is the number of faults of a group
    BUFFER_BYTES = 1 << 20,
};

typedef struct CounterConfig { u32 scope, kind, device, is_enabled; } CounterConfig;
typedef struct CounterRecord { u32 kind, counter; u64 value; } CounterRecord;

typedef struct Cupti {
    int (*Register)(void (*request)(u8 **, size_t *, size_t *), void (*complete)(void *, u32, u8 *, size_t, size_t));
    int (*Configure)(CounterConfig *config, u32 count);
    int (*Enable)(int kind);
    int (*Disable)(int kind);
    int (*FlushAll)(u32 flags);
    int (*GetNextRecord)(u8 *buffer, size_t bytes, void **record);
} Cupti;

static const LibrarySymbol symbols[] = {
    { "cuptiActivityRegisterCallbacks", offsetof(Cupti, Register), false },
    { "cuptiActivityConfigureUnifiedMemoryCounter", offsetof(Cupti, Configure), false },
    { "cuptiActivityEnable", offsetof(Cupti, Enable), false },
    { "cuptiActivityDisable", offsetof(Cupti, Disable), false },
    { "cuptiActivityFlushAll", offsetof(Cupti, FlushAll), false },
    { "cuptiActivityGetNextRecord", offsetof(Cupti, GetNextRecord), false },
};

static Cupti cupti;
static bool is_open;
static _Atomic i64 counted[COUNTER_GPU_FAULTS + 1];           // by counter

static void give_buffer(u8 **buffer, size_t *bytes, size_t *n_records)
{
    *n_records = 0;                                         // as many as fit
    *bytes = BUFFER_BYTES;
    *buffer = aligned_alloc(16, BUFFER_BYTES);
    if (!*buffer)
        *bytes = 0;
}

static void read_buffer(void *context, u32 stream, u8 *buffer, size_t bytes, size_t bytes_used)
{
    void *next = NULL;
    while (buffer && bytes_used && cupti.GetNextRecord(buffer, bytes_used, &next) == 0) {
        const CounterRecord *record = next;
        if (record->kind == KIND_MEMORY_COUNTER && record->counter <= COUNTER_GPU_FAULTS)
            counted[record->counter] += record->counter == COUNTER_CPU_FAULTS ? 1 : (i64)record->value;
    }
    free(buffer);
}

static weft_status open_library(Error *err)
{
    static const char *const usual[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                         "/usr/local/cuda/lib64/libcupti.so",
                                         "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", NULL };
    const char *const named[] = { library_named("WEFT_LIBCUPTI"), NULL };
    Text path = { 0 }, why = { 0 };
    is_open = library_open(named[0] ? named : usual, symbols, COUNT_OF(symbols), &cupti, &path, &why) != NULL;
    text_free(&path);
    text_free(&why);
    return is_open ? WEFT_OK : fail(err, WEFT_NO_DEVICE, -1, "there is no CUPTI on this machine");
}

weft_status page_faults_begin(int device, Error *err)
{
    CounterConfig configs[] = { { SCOPE_SINGLE_DEVICE, COUNTER_CPU_FAULTS, (u32)device, 1 },
                                { SCOPE_SINGLE_DEVICE, COUNTER_GPU_FAULTS, (u32)device, 1 },
                                { SCOPE_SINGLE_DEVICE, COUNTER_BYTES_THERE, (u32)device, 1 },
                                { SCOPE_SINGLE_DEVICE, COUNTER_BYTES_BACK, (u32)device, 1 } };
    if (!is_open)
        TRY(open_library(err));
    int result = cupti.Register(give_buffer, read_buffer);
    if (!result)
        result = cupti.Configure(configs, COUNT_OF(configs));
    if (!result)
        result = cupti.Enable(KIND_MEMORY_COUNTER);
    if (result)
        return fail(err, WEFT_NO_DEVICE, -1, "CUPTI cannot count page faults here (its error %d)", result);
    for (int i = 0; i < COUNT_OF(counted); i++)
        counted[i] = 0;
    return WEFT_OK;
}

PageFaults page_faults_end(void)
{
    cupti.FlushAll(1);
    cupti.Disable(KIND_MEMORY_COUNTER);
    return (PageFaults){ (double)counted[COUNTER_GPU_FAULTS], (double)counted[COUNTER_CPU_FAULTS],
                         (double)counted[COUNTER_BYTES_THERE], (double)counted[COUNTER_BYTES_BACK] };
}
