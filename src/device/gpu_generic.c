// gpu_generic.c - the generic kernel: launches whose own kernel is not compiled yet.
//
//     wait_ms: is the kernel there? ── no ──> can the generic kernel do it, and is that compiled?
//                                                 yes: the launch takes a program along (jit/generic.h), and waits
//                                                      for no compiler
//                                                 no: as if there were none; it is compiled from now on
//
// One text serves all shapes, compiled up to three times: cells of groups in memory that all blocks share, in a block's
// own, or the first ones of a hash table there.  It takes several times as long as a kernel of its own, so that is
// made, too: in the background, in a crowd only once it is asked for again.
//
// Everything after the kernel is as with another: same arguments, same cells.  The launch takes no part in cubes and
// fused kernels, which are made of kernels' texts.  A sieve may find its rows: it is compiled once more for these.

#include "device/gpu_int.h"

#include <stdlib.h>

// Operations on a row that a multiprocessor does in a millisecond: an estimate, half of what its instructions per clock
// suggest.
#define OPS_PER_MS 4.0e6
#define ALL_KINDS  0xffu               // of cells: CELLS_...

typedef enum GenericCode { GENERIC_ANY, GENERIC_SHARED, GENERIC_NEAR } GenericCode;

static GenericCode code_for(const Shape *shape)
{
    return shape->shared_groups ? GENERIC_SHARED : shape->near_groups ? GENERIC_NEAR : GENERIC_ANY;
}

static KernelWish wish_for(GenericCode which)
{
    return (KernelWish){ .name = GENERIC_NAME,
                         .text = jit_generic_text(),
                         .shared_groups = which == GENERIC_SHARED ? ALL_KINDS : 0,
                         .near_groups = which == GENERIC_NEAR ? ALL_KINDS : 0,
                         .items = GENERIC_ITEMS,
                         .has_fixed_items = true };
}

static CodeEntry *wanted_code(Gpu *gpu, GenericCode which)
{
    const KernelWish wish = wish_for(which);
    Shape            ignored;
    CodeEntry       *code = gpu->generic[which];
    if (code && code->state != KERNEL_FAILED) return code;             // one that failed may be tried again
    code = kernel_want(gpu, &wish, &ignored);
    gpu->generic[which] = code;
    return code;
}

// Groups of a hash table are in memory that all blocks share, as in other kernels of picked rows.
CodeEntry *generic_picked(Gpu *gpu, const GpuRun *run, Shape *shape)
{
    KernelWish wish = wish_for(run->shape.shared_groups ? GENERIC_SHARED : GENERIC_ANY);
    wish.is_picked = true;
    return kernel_want(gpu, &wish, shape);
}

// How long it would take for N_ROWS rows, about; below 0: it cannot, or is not compiled yet, but will be.
static double expected_ms(Gpu *gpu, const Launch *launch, const Shape *shape, u64 n_rows)
{
    Arena           *arena = arena_new(NULL, "generic");
    const JitProgram program = jit_program(arena, launch->woven);
    const bool       can = !program.refused && wanted_code(gpu, code_for(shape))->state == KERNEL_READY;
    const double     ms = (double)n_rows * program.n_ops / (OPS_PER_MS * MAX_OF(gpu->n_sms, 1));
    arena_free(arena);
    return can ? ms : -1;
}

// How long a launch waits before it runs: for its own kernel, or not at all where the generic kernel can run it.
double generic_wait_ms(Gpu *gpu, const Launch *launch)
{
    Shape        shape = { 0 };
    u64          n_rows = 0;
    const double wait_ms = kernel_wait_ms(gpu, launch, &shape, &n_rows);
    if (launch->generic == GENERIC_OFF || wait_ms <= 0) return wait_ms;
    const double own_ms = expected_ms(gpu, launch, &shape, n_rows);
    return own_ms < 0 ? wait_ms : MIN_OF(own_ms, wait_ms);
}

static bool take_program(GpuRun *run)
{
    Arena           *arena = arena_new(NULL, "generic");
    const JitProgram program = jit_program(arena, run->launch->woven);
    if (program.refused) {
        log_debug("%s: %s is not for the generic kernel: %s", run->gpu->name, run->launch->woven->name,
                  program.refused);
    } else {
        run->program = malloc(program.bytes);
        run->program_bytes = program.bytes;
        memcpy(run->program, program.data, program.bytes);
        run->launch->out.gpu.n_generic_ops = program.n_ops;
    }
    arena_free(arena);
    return run->program != NULL;
}

static void leave_program(GpuRun *run)
{
    free(run->program);
    run->program = NULL, run->program_bytes = 0;
    run->launch->out.gpu.n_generic_ops = 0;
}

// RUN, whose shape has been chosen, gets the generic kernel and its program.  False: as it was.
static bool take_generic(Gpu *gpu, GpuRun *run)
{
    CodeEntry *code = wanted_code(gpu, code_for(&run->shape));
    Error      ignored = { 0 };
    const bool waits = run->launch->generic == GENERIC_ALWAYS && code->state != KERNEL_READY;
    if (!waits && code->state != KERNEL_READY) return false;
    if (!take_program(run)) return false;
    if (waits && kernel_wait_until_built(gpu, run, code, &ignored)) {
        leave_program(run);
        return false;
    }
    run->kernel = code;
    run->shape.shared_tables = run->shape.eager = 0;
    run->shape.dynamic_shared = run->shape.cells_bytes;
    run->shape.items = GENERIC_ITEMS;
    run->launch->out.gpu.is_generic = true, run->launch->out.gpu.is_quick = false;
    gpu->n_generic++;
    return true;
}

weft_status generic_get(Gpu *gpu, GpuRun *run, Error *err)
{
    const GenericUse use = run->launch->generic;
    const bool       is_ready = kernel_find_ready(gpu, run);
    const bool       is_missing = !is_ready && use == GENERIC_AUTO && !kernel_is_in_cache(gpu, run);
    if ((is_missing || use == GENERIC_ALWAYS) && take_generic(gpu, run)) return WEFT_OK;
    return is_ready ? WEFT_OK : kernel_make(gpu, run, err);
}
