// survey.c - what the system says about its processors and GPUs.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/cuda_driver.h"
#include "device/survey.h"

// ---- the CPU --------------------------------------------------------------------------------------------------------

// The first line of the file that begins with KEY and a colon, what follows; an empty KEY takes the first line.
static bool read_line_of(const char *path, const char *key, char *value, size_t capacity)
{
    FILE *file = fopen(path, "re");
    char line[1024];
    bool is_found = false;
    while (file && !is_found && fgets(line, sizeof(line), file)) {
        size_t length = strlen(key);
        char *rest = line + length;
        if (strncmp(line, key, length) != 0 || (*key && !strchr(" \t:", *rest)))
            continue;
        rest += strspn(rest, " \t:");
        rest[strcspn(rest, "\n")] = 0;
        is_found = *rest != 0;
        snprintf(value, capacity, "%.*s", (int)MIN_OF(strlen(rest), capacity - 1), rest);
    }
    if (file)
        fclose(file);
    return is_found;
}

// arm64 kernels give numbers of implementer and part only; these are the ones that servers have.
static void name_arm_part(char *model, size_t capacity)
{
    static const struct { unsigned implementer, part; const char *name; } parts[] = {
        { 0x41, 0xd0c, "ARM Neoverse-N1" }, { 0x41, 0xd40, "ARM Neoverse-V1" }, { 0x41, 0xd49, "ARM Neoverse-N2" },
        { 0x41, 0xd4f, "ARM Neoverse-V2" }, { 0x41, 0xd84, "ARM Neoverse-V3" }, { 0x41, 0xd8e, "ARM Neoverse-N3" },
        { 0x41, 0xd08, "ARM Cortex-A72" },  { 0x41, 0xd0b, "ARM Cortex-A76" },  { 0xc0, 0xac3, "Ampere-1" },
    };
    char text[32];
    if (!read_line_of("/proc/cpuinfo", "CPU implementer", text, sizeof(text)))
        return;
    unsigned implementer = (unsigned)strtoul(text, NULL, 0);
    unsigned part =
        read_line_of("/proc/cpuinfo", "CPU part", text, sizeof(text)) ? (unsigned)strtoul(text, NULL, 0) : 0;
    snprintf(model, capacity, "ARM, implementer %#x, part %#x", implementer, part);
    for (int i = 0; i < COUNT_OF(parts); i++)
        if (parts[i].implementer == implementer && parts[i].part == part)
            snprintf(model, capacity, "%s", parts[i].name);
}

// "64K", "32768K", "8M"
static i64 size_of_text(const char *text)
{
    char *unit;
    i64 size = strtoll(text, &unit, 10);
    return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : size;
}

static void look_at_caches(CpuInfo *cpu)
{
    for (int i = 0; i < 8; i++) {
        char path[128], level[16], kind[32], size[32];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_line_of(path, "", level, sizeof(level)))
            return;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        bool is_data = read_line_of(path, "", kind, sizeof(kind)) && strcmp(kind, "Instruction") != 0;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        int n = atoi(level);
        if (is_data && n >= 1 && n <= SURVEY_CACHES && read_line_of(path, "", size, sizeof(size)))
            cpu->cache_bytes[n - 1] = size_of_text(size);
    }
}

void survey_cpu(CpuInfo *cpu)
{
    *cpu = (CpuInfo){ .n_cores = cpu_count() };
    if (!read_line_of("/proc/cpuinfo", "model name", cpu->model, sizeof(cpu->model)))
        name_arm_part(cpu->model, sizeof(cpu->model));
    cpu->memory_bytes = (i64)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    char limit[32];
    if (read_line_of("/sys/fs/cgroup/memory.max", "", limit, sizeof(limit)) && isdigit((unsigned char)*limit))
        cpu->memory_bytes = MIN_OF(cpu->memory_bytes, strtoll(limit, NULL, 10));
    look_at_caches(cpu);
}

// ---- GPUs -----------------------------------------------------------------------------------------------------------

weft_status survey_gpu(int ordinal, GpuInfo *gpu, Error *err)
{
    const CudaDriver *cu;
    CuDevice device;
    int l2 = 0, clock_khz = 0;
    *gpu = (GpuInfo){ 0 };
    TRY(cuda_need(&cu, err));
    CUDA_TRY(cu, DeviceGet, (&device, ordinal), err);
    CUDA_TRY(cu, DeviceGetName, (gpu->name, sizeof(gpu->name), device), err);
    CUDA_TRY(cu, DeviceTotalMem, (&gpu->memory_bytes, device), err);
    CUDA_TRY(cu, DeviceGetAttribute, (&gpu->major, CU_DEVICE_CAPABILITY_MAJOR, device), err);
    CUDA_TRY(cu, DeviceGetAttribute, (&gpu->minor, CU_DEVICE_CAPABILITY_MINOR, device), err);
    CUDA_TRY(cu, DeviceGetAttribute, (&gpu->n_multiprocessors, CU_DEVICE_MULTIPROCESSORS, device), err);
    cu->DeviceGetAttribute(&l2, CU_DEVICE_L2_BYTES, device);                   // nice to have: 0 when it does not know
    cu->DeviceGetAttribute(&clock_khz, CU_DEVICE_CLOCK_KHZ, device);
    if (cu->DeviceGetPCIBusId(gpu->bus_id, sizeof(gpu->bus_id), device))
        gpu->bus_id[0] = 0;
    gpu->l2_bytes = l2;
    gpu->clock_mhz = clock_khz / 1000;
    return WEFT_OK;
}

// The module says it; in some containers only the name of the library does (libcuda.so.580.159.04).
void survey_driver_version(char *version, size_t capacity)
{
    version[0] = 0;
    if (read_line_of("/sys/module/nvidia/version", "", version, capacity))
        return;
    const char *path = cuda_driver()->path;
    char *resolved = path ? realpath(path, NULL) : NULL;
    const char *suffix = resolved ? strstr(resolved, "libcuda.so.") : NULL;
    if (suffix && strchr(suffix + strlen("libcuda.so."), '.'))
        snprintf(version, capacity, "%s", suffix + strlen("libcuda.so."));
    free(resolved);
}
