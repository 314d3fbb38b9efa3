// cuda_code.c - kernel text to code in an NVIDIA GPU: NVRTC's cubins, loaded by the driver.

#include "device/cuda_int.h"
#include "jit/nvrtc_library.h"

#include <stdio.h>
#include <string.h>

typedef struct Defines { char text[6][40]; const char *list[6]; } Defines;

static CubinJob cubin_job(const CudaGpu *cuda, const CodeJob *job, Defines *defines)
{
    const Shape *shape = job->shape;
    snprintf(defines->text[0], sizeof defines->text[0], "ITEMS=%d", job->items);
    snprintf(defines->text[1], sizeof defines->text[1], "SHARED_TABLES_=0x%xu", shape->shared_tables);
    snprintf(defines->text[2], sizeof defines->text[2], "SHARED_GROUPS_=0x%xu", shape->shared_groups);
    snprintf(defines->text[3], sizeof defines->text[3], "EAGER_=0x%xu", shape->eager);
    snprintf(defines->text[4], sizeof defines->text[4], "NEAR_GROUPS_=0x%xu", shape->near_groups);
    if (shape->is_picked) strcpy(defines->text[5], "PICKED_=1");
    for (int d = 0; d < COUNT_OF(defines->list); d++) defines->list[d] = defines->text[d];
    return (CubinJob){ .prelude = cuda->prelude,
                       .text = job->text,
                       .driver_version = cuda->cu->version,
                       .major = cuda->gpu.major,
                       .minor = cuda->gpu.minor,
                       .is_quick = job->is_quick,
                       .n_defines = shape->is_picked ? 6 : 5,
                       .defines = defines->list };
}

static weft_status read_attributes(CudaGpu *cuda, GpuCode *code, Error *err)
{
    const int shared_per_block = cuda->gpu.shared_per_block;
    CUDA_GPU_TRY(cuda, FuncGetAttribute, (&code->registers, CU_FUNC_REGISTERS, code->function), err);
    CUDA_GPU_TRY(cuda, FuncGetAttribute, (&code->local_bytes, CU_FUNC_LOCAL_BYTES, code->function), err);
    CUDA_GPU_TRY(cuda, FuncGetAttribute, (&code->static_shared, CU_FUNC_SHARED_BYTES, code->function), err);
    CUDA_GPU_TRY(cuda, FuncGetAttribute, (&code->threads_most, CU_FUNC_MAX_THREADS_PER_BLOCK, code->function), err);
    CUDA_GPU_TRY(cuda, FuncSetAttribute,
                 (code->function, CU_FUNC_MAX_DYNAMIC_SHARED_BYTES, shared_per_block - code->static_shared), err);
    return WEFT_OK;
}

static weft_status load_cubin(CudaGpu *cuda, const char *cubin, const char *name, GpuCode *code, Error *err)
{
    CUDA_GPU_TRY(cuda, ModuleLoadData, (&code->module, cubin), err);
    CUDA_GPU_TRY(cuda, ModuleGetFunction, (&code->function, code->module, name), err);
    return read_attributes(cuda, code, err);
}

weft_status cuda_load_code(Gpu *gpu, const CodeJob *job, GpuCode *code, bool *was_cached, Error *err)
{
    CudaGpu       *cuda = cuda_gpu(gpu);
    Defines        defines = { 0 };
    Text           cubin = { 0 };
    const CubinJob cubin_of = cubin_job(cuda, job, &defines);
    weft_status    status = cubins_get(cuda->cubins, &cubin_of, &cubin, was_cached, err);
    if (!status) status = load_cubin(cuda, cubin.bytes, job->name, code, err);
    text_free(&cubin);
    return status;
}

bool cuda_has_code(Gpu *gpu, const CodeJob *job)
{
    Defines        defines = { 0 };
    const CubinJob cubin_of = cubin_job(cuda_gpu(gpu), job, &defines);
    return cubins_have(cuda_gpu(gpu)->cubins, &cubin_of);
}

bool cuda_can_be_quick(Gpu *gpu) { return cubins_can_be_quick(cuda_gpu(gpu)->cu->version); }

// Tests, look-ups, sums: what most kernels have.
static const char warm_text[] =
    "KERNEL(weft_warm)\n"
    "{\n"
    "    COLUMN(u8, day, 0)\n"
    "    PARAM(u8, day_low, 0)\n"
    "    PARAM(u8, day_span, 1)\n"
    "    COLUMN(u32, item, 1)\n"
    "    PARAM(u64, first, 2)\n"
    "    SUMS(i64, a0_, 0)\n"
    "    SUMS(u8, a1_, 1)\n"
    "    TILES {\n"
    "        ROWS(live)\n"
    "        MASK(live)\n"
    "        LOAD(u8, day, live)\n"
    "        BETWEEN_TEST(live, u8, day, day_low, day_span)\n"
    "        PICK(live)\n"
    "        STEP(0, live)\n"
    "        LOAD(u32, item, live)\n"
    "        EACH(live) {\n"
    "            const u64 group = (item[i] + first);\n"
    "            ADD(a0_[group], VALUE(item))\n"
    "            SEEN(a1_[group])\n"
    "        }\n"
    "    }\n"
    "}\n";

void cuda_warm_compiler(Gpu *gpu)
{
    const CudaGpu *cuda = cuda_gpu(gpu);
    const CubinJob job = { .prelude = cuda->prelude,
                           .text = warm_text,
                           .driver_version = cuda->cu->version,
                           .major = gpu->major,
                           .minor = gpu->minor,
                           .n_defines = 1,
                           .defines = (const char *[]){ "ITEMS=4" } };
    cubins_warm(cuda->cubins, &job);
}

// NVRTC is opened on the thread that opens the device: if the program ended while another thread opens it, that thread
// would crash.  A device without a compiler is not opened at all: the CPU would stand in for it for ever, without a
// notice.
weft_status cuda_check_compiler(const CudaGpu *cuda, Error *err)
{
    const Nvrtc *nvrtc;
    TRY(nvrtc_need(cuda->cu->version, &nvrtc, err));
    return nvrtc_check_capability(nvrtc, cuda->gpu.major, cuda->gpu.minor, err);
}
