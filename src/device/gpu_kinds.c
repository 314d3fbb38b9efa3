// gpu_kinds.c - see gpu_kinds.h.
//
//     pool    [kind of a key]                   a copy for each set of kinds
//             [kind of a row]                   a copy for each set of kinds, chunk and column
//
// A body over joins looks at each row's kind in each dimension: two bytes that are read in order, and a class by kind
// that is near.  By key, each look is a sector of the L2 cache: 0.7 ms a dimension over 120 million rows, where reading
// the kinds takes 0.06.  The kernel that makes a column of kinds makes that look once.
//
// All are made in one stream, so an event there tells of all that were made before it.

#include "device/gpu_kinds.h"
#include "device/gpu_schedule.h"
#include "kernel/kernel.h"

#include <stdlib.h>

#define KEY_KIND_OF      ((u64)4 << 32)            // of copies, as KEY_TABLE
#define KEY_KIND_COLUMN  ((u64)1 << 63)            // with the number of the kinds, and of the column
#define KIND_COLUMN_BITS 12

typedef struct KindsArgs {
    i64         params[KINDS_PARAMS];
    const void *tables[KINDS_TABLES];
    void       *state[KINDS_STATE];
} KindsArgs;

struct KindsJob {                      // a column that is to be made
    u32         n_rows;
    KindsArgs   args;
};

static void *pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

static u64 rounded(u64 bytes) { return (bytes + 63) / 64 * 64; }

static CodeEntry *kinds_kernel(Gpu *gpu)
{
    const char *name, *text = weave_kinds_text(&name);
    if (!gpu->kinds_kernel)
        gpu->kinds_kernel = kernel_want(gpu, &(KernelWish){ .name = name, .text = text }, &gpu->kinds_shape);
    return gpu->kinds_kernel;
}

bool gpu_kinds_are_ready(Gpu *gpu)
{
    const CodeEntry *kernel = kinds_kernel(gpu);
    return kernel && kernel->state == KERNEL_READY;
}

static weft_status no_room(Error *err) { return fail(err, WEFT_OUT_OF_MEMORY, -1, "no room for a column of kinds"); }

// ---- while a run is put together ------------------------------------------------------------------------------------

static weft_status send_kind_of(Wave *wave, const Kinds *kinds, GpuAddress *at, Error *err)
{
    bool      is_new;
    const u64 bytes = kinds->size * sizeof(u16);
    Copy     *copy = wave_hold(wave, (CopyKey){ kinds->id, KEY_KIND_OF }, bytes, &is_new);
    if (!copy) return no_room(err);
    *at = gpu_address(wave->gpu, copy->at);
    if (!is_new) return WEFT_OK;
    const weft_status status = stage_send(wave->gpu, wave->gpu->kinds_stream, copy->at, kinds->kind_of, bytes, err);
    if (status) wave_forget(wave, copy);
    return status;
}

static struct KindsJob job_for(const Wave *wave, const RunChunk *chunk, const Kinds *kinds, int column,
                               GpuAddress kind_of, GpuAddress out)
{
    const KernelColumn keys = wave_column(wave->gpu, chunk, column);
    return (struct KindsJob){ .n_rows = chunk->chunk->n_rows,
                              .args = { .params = { [KINDS_WIDTH] = keys.width,
                                                    [KINDS_FROM] = (i64)((u64)keys.base - (u64)kinds->low),
                                                    [KINDS_SIZE] = (i64)kinds->size },
                                        .tables = { [KINDS_KEYS] = keys.data, [KINDS_OF_KEYS] = pointer(kind_of) },
                                        .state = { [KINDS_OUT] = pointer(out) } } };
}

weft_status gpu_kinds_columns(Wave *wave, const Kinds *kinds, int column, const int *chunks, int n_chunks,
                              KernelColumn *columns, Error *err)
{
    const u64  part = KEY_KIND_COLUMN | kinds->id << KIND_COLUMN_BITS | (u64)column;
    GpuAddress kind_of = 0;
    // Columns that pass leave no room for others.
    if (column >= 1 << KIND_COLUMN_BITS || wave->is_passing) return no_room(err);
    TRY(send_kind_of(wave, kinds, &kind_of, err));
    for (int c = 0; c < n_chunks; c++) {
        bool            is_new;
        const RunChunk *chunk = &wave->chunks[chunks[c]];
        // Kernels may read past the last row.
        Copy *copy = chunk->chunk->id ? wave_hold(wave, (CopyKey){ chunk->chunk->id, part },
                                                  rounded((u64)chunk->chunk->n_rows * sizeof(u16)) + 64, &is_new)
                                      : NULL;
        if (!copy || chunk->chunk->columns[column].valid) return no_room(err);
        const GpuAddress at = gpu_address(wave->gpu, copy->at);
        columns[c] = (KernelColumn){ .data = pointer(at), .width = sizeof(u16) };
        if (is_new)
            *PUSH(wave->kinds, wave->n_kinds, wave->kinds_room) = job_for(wave, chunk, kinds, column, kind_of, at);
    }
    return WEFT_OK;
}

// ---- making them ----------------------------------------------------------------------------------------------------

// The arguments of all jobs: KernelArgs, then what they point at.
static u8 *write_args(const Wave *wave, GpuAddress at, u64 *bytes, u32 *most_rows)
{
    const u64   n = (u64)wave->n_kinds, own_at = rounded(n * sizeof(KernelArgs)),
                common_at = own_at + rounded(n * sizeof(KindsArgs));
    u8         *host = calloc(1, common_at + rounded(sizeof(KernelCommon)));
    KernelArgs *args = (KernelArgs *)(void *)host;
    KindsArgs  *own = (KindsArgs *)(void *)(host + own_at);
    for (u64 k = 0; k < n; k++) {
        const GpuAddress place = at + own_at + k * sizeof *own;
        own[k] = wave->kinds[k].args;
        args[k] = (KernelArgs){ .row_end = wave->kinds[k].n_rows,
                                .params = pointer(place + offsetof(KindsArgs, params)),
                                .tables = pointer(place + offsetof(KindsArgs, tables)),
                                .state = pointer(place + offsetof(KindsArgs, state)),
                                .common = pointer(at + common_at) };
        *most_rows = MAX_OF(*most_rows, wave->kinds[k].n_rows);
    }
    *bytes = common_at + rounded(sizeof(KernelCommon));
    return host;
}

static u64 args_bytes(const Wave *wave)
{
    const u64 n = (u64)wave->n_kinds;
    return rounded(n * sizeof(KernelArgs)) + rounded(n * sizeof(KindsArgs)) + rounded(sizeof(KernelCommon));
}

static weft_status launch_jobs(Wave *wave, const GpuRun *kernel, Error *err)
{
    Gpu *gpu = wave->gpu;
    bool is_new;
    u64  bytes;
    u32  most_rows = 0;
    Copy *copy = wave_hold(wave, (CopyKey){ 0 }, args_bytes(wave), &is_new);
    if (!copy) return no_room(err);
    const GpuAddress at = gpu_address(gpu, copy->at);
    u8              *host = write_args(wave, at, &bytes, &most_rows);
    weft_status      status = stage_send(gpu, gpu->kinds_stream, copy->at, host, bytes, err);
    free(host);
    const Grid grid = schedule_one_round(gpu, &kernel->shape, most_rows, wave->n_kinds);
    log_debug("%s: %d columns of kinds are made", gpu->name, wave->n_kinds);
    if (!status) status = wave_wait(wave, gpu->kinds_stream, err);
    if (!status) status = wave_launch(gpu, kernel, gpu->kinds_stream, at, &grid, err);
    if (!status)
        status = gpu_check(gpu, gpu->calls->EventRecord(gpu->kinds_made, gpu->kinds_stream), "EventRecord", err);
    gpu->has_kinds_made = gpu->has_kinds_made || !status;
    if (!status) gpu->n_kind_columns += (u64)wave->n_kinds;
    return status;
}

weft_status gpu_kinds_launch(Wave *wave, Error *err)
{
    Gpu        *gpu = wave->gpu;
    const Woven none = { .name = "t_kinds" };
    GpuRun      kernel;
    if (!wave->n_kinds) return WEFT_OK;
    if (!gpu->kinds_made) GPU_TRY(gpu, EventCreate, (&gpu->kinds_made, GPU_EVENT_DISABLE_TIMING), err);
    if (!kernel_fit(gpu, gpu->kinds_kernel, &gpu->kinds_shape, 0, &none, &kernel))
        return fail(err, WEFT_DEVICE_FAILED, -1, "the kernel for columns of kinds cannot be launched");
    return launch_jobs(wave, &kernel, err);
}

weft_status gpu_kinds_wait(Gpu *gpu, GpuStream stream, Error *err)
{
    if (gpu->has_kinds_made) GPU_TRY(gpu, StreamWaitEvent, (stream, gpu->kinds_made, 0), err);
    return WEFT_OK;
}

void gpu_kinds_forget(Wave *wave)
{
    free(wave->kinds);
    wave->kinds = NULL, wave->n_kinds = wave->kinds_room = 0;
}

void gpu_kinds_close(Gpu *gpu)
{
    if (gpu->kinds_made) gpu->calls->EventDestroy(gpu->kinds_made);
    gpu->kinds_made = NULL;
}
