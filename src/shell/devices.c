// devices.c - weft devices: what kernels can run on here, what was found, what is missing and how to get it.
//
// First all is gathered, then told: as text for people, as JSON for programs.  A machine without a GPU is not a
// failure; only --need-gpu makes it one, for scripts that cannot do without.

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"
#include "device/survey.h"
#include "jit/jit.h"
#include "jit/nvrtc_library.h"
#include "shell/devices.h"
#include "shell/shell.h"

static const char help_text[] =
    "Usage: weft devices [OPTION]...\n"
    "\n"
    "Lists what kernels can run on: the CPU and its compilers, GPUs, their driver and compiler; and what is missing.\n"
    "\n"
    "      --measure    also measure copies and reads of memory; about a second each, on an idle machine\n"
    "      --json       as a JSON object\n"
    "      --need-gpu   exit status 1 when no GPU can be used\n"
    "      --help       this text\n"
    "\n"
    "WEFT_LIBCUDA and WEFT_LIBNVRTC name the driver's and the compiler's libraries where they are not found.\n"
    "Exit status: 0 when all went well, 1 when something failed while measuring, 2 for a usage error.\n";

typedef struct SurveyedGpu {
    GpuInfo   info;
    GpuSpeeds speeds;
    Error     unusable;                                     // why Weft does not use it, although nothing went wrong
    Error     problem;                                      // while looking at it or measuring
} SurveyedGpu;

typedef struct Survey {
    bool              is_measured;
    CpuInfo           cpu;
    CpuSpeeds         cpu_speeds;
    Error             cpu_problem;
    Jit              *jit;
    const char       *cc_path, *cc_version;
    Error             cc_problem;
    const CudaDriver *driver;
    char              driver_version[64];
    const Nvrtc      *nvrtc;
    SurveyedGpu      *gpus;                                 // driver->n_gpus
} Survey;

// ---- gathering ------------------------------------------------------------------------------------------------------

static void add_hint(Error *problem)
{
    error_hint(problem, problem->status == WEFT_OUT_OF_MEMORY
                            ? "Another process may have the memory: nvidia-smi lists them."
                            : "nvidia-smi says more about the GPU and its driver.");
}

static void look_at_gpu(Survey *survey, int ordinal)
{
    SurveyedGpu *gpu = &survey->gpus[ordinal];
    const GpuInfo *info = &gpu->info;
    char name[24];
    snprintf(name, sizeof(name), "cuda:%d", ordinal);
    if (survey_gpu(ordinal, &gpu->info, &gpu->problem))
        return;
    if (!cuda_check_number(ordinal, &gpu->unusable) &&
        !cuda_check_capability(name, info->name, info->major, info->minor, &gpu->unusable) &&
        !nvrtc_need(survey->driver->version, &survey->nvrtc, &gpu->unusable))
        nvrtc_check_capability(survey->nvrtc, info->major, info->minor, &gpu->unusable);
    if (survey->is_measured)
        measure_gpu(ordinal, &gpu->speeds, &gpu->problem);
}

static void look_at_gpus(Survey *survey)
{
    survey->gpus = must_realloc(NULL, sizeof(SurveyedGpu) * (size_t)MAX_OF(survey->driver->n_gpus, 1));
    for (int i = 0; i < survey->driver->n_gpus; i++) {
        survey->gpus[i] = (SurveyedGpu){ 0 };
        look_at_gpu(survey, i);
        add_hint(&survey->gpus[i].problem);
        add_hint(&survey->gpus[i].speeds.no_kernel);
    }
}

static void gather(Survey *survey)
{
    survey_cpu(&survey->cpu);
    survey->jit = jit_new(&(JitOptions){ .prelude = "" });
    jit_meet_cc(survey->jit, &survey->cc_path, &survey->cc_version, &survey->cc_problem);
    if (survey->is_measured)
        measure_cpu(&survey->cpu_speeds, &survey->cpu_problem);
    survey->driver = cuda_driver();
    survey->nvrtc = nvrtc_library(survey->driver->version);
    survey_driver_version(survey->driver_version, sizeof(survey->driver_version));
    look_at_gpus(survey);
}

static bool is_usable(const SurveyedGpu *gpu) { return !gpu->unusable.status && !gpu->problem.status; }

static int count_usable(const Survey *survey)
{
    int n_usable = 0;
    for (int i = 0; i < survey->driver->n_gpus; i++)
        n_usable += is_usable(&survey->gpus[i]);
    return n_usable;
}

// Without NVRTC, or for a GPU that is not used, there is no kernel to measure: that is no failure.
static bool has_failed(const Survey *survey)
{
    bool any = survey->cpu_problem.status != WEFT_OK;
    for (int i = 0; i < survey->driver->n_gpus; i++) {
        const SurveyedGpu *gpu = &survey->gpus[i];
        any |= gpu->problem.status || (gpu->speeds.no_kernel.status && is_usable(gpu));
    }
    return any;
}

// ---- for people -----------------------------------------------------------------------------------------------------

static void print_size(i64 bytes) { fputs(mem_size_text((u64)bytes).text, stdout); }

static void print_problem(const Error *problem)
{
    printf("%s [%s]\n", problem->message, problem->sqlstate);
    if (problem->hint[0])
        printf("         hint: %s\n", problem->hint);
}

static void print_cpu(const Survey *survey)
{
    const CpuInfo *cpu = &survey->cpu;
    printf("cpu      %s, %d %s, ", cpu->model[0] ? cpu->model : "unknown model", cpu->n_cores,
           cpu->n_cores == 1 ? "core" : "cores");
    print_size(cpu->memory_bytes);
    fputs(" memory", stdout);
    for (int i = 0; i < SURVEY_CACHES; i++) {
        if (!cpu->cache_bytes[i])
            continue;
        printf(", L%d ", i + 1);
        print_size(cpu->cache_bytes[i]);
    }
    fputs("\n         compilers: tcc (built in); cc ", stdout);
    if (survey->cc_problem.status)
        print_problem(&survey->cc_problem);
    else
        printf("(%s: %s%s)\n", survey->cc_path, survey->cc_version,
               jit_flags_native(survey->jit) ? ", code for this CPU" : ", code for any CPU of this kind");
    if (!survey->is_measured)
        return;
    fputs("         reads memory: ", stdout);
    if (survey->cpu_problem.status)
        print_problem(&survey->cpu_problem);
    else
        printf("%.1f GB/s with 1 thread, %.1f GB/s with %d\n", survey->cpu_speeds.read_one, survey->cpu_speeds.read_all,
               cpu->n_cores);
}

static void print_speeds(const GpuSpeeds *speeds)
{
    printf("         copies from the host: %.1f GB/s pinned, %.1f GB/s pageable; to the host: %.1f GB/s pinned\n",
           speeds->to_device_pinned, speeds->to_device_pageable, speeds->to_host_pinned);
    fputs("         reads its memory: ", stdout);
    if (speeds->no_kernel.status)
        print_problem(&speeds->no_kernel);
    else
        printf("%.0f GB/s; a launch takes %.1f us\n", speeds->read, speeds->launch_us);
}

// What is not known, as of a GPU that did not answer, is left out.
static void print_gpu_info(int ordinal, const GpuInfo *info)
{
    printf("cuda:%-3d %s", ordinal, info->name[0] ? info->name : "a GPU");
    if (info->memory_bytes) {
        fputs(", ", stdout);
        print_size((i64)info->memory_bytes);
        fputs(" memory", stdout);
    }
    if (info->major)
        printf(", compute capability %d.%d", info->major, info->minor);
    if (info->n_multiprocessors)
        printf(", %d multiprocessors", info->n_multiprocessors);
    if (info->clock_mhz)
        printf(" at %d MHz", info->clock_mhz);
    if (info->l2_bytes) {
        fputs(", L2 ", stdout);
        print_size(info->l2_bytes);
    }
    printf("%s%s\n", info->bus_id[0] ? ", PCI " : "", info->bus_id);
}

static void print_gpu(const Survey *survey, int ordinal)
{
    const SurveyedGpu *gpu = &survey->gpus[ordinal];
    print_gpu_info(ordinal, &gpu->info);
    if (gpu->unusable.status) {
        Error shown = gpu->unusable;
        if (strcmp(shown.hint, survey->nvrtc->problem.hint) == 0)
            shown.hint[0] = 0;                              // it stands below, once for all GPUs
        fputs("         cannot be used: ", stdout);
        print_problem(&shown);
    }
    if (gpu->problem.status) {
        fputs("         ", stdout);
        print_problem(&gpu->problem);
    } else if (survey->is_measured) {
        print_speeds(&gpu->speeds);
    }
}

static void print_cuda(const Survey *survey)
{
    const CudaDriver *driver = survey->driver;
    const Nvrtc *nvrtc = survey->nvrtc;
    for (int i = 0; i < driver->n_gpus; i++)
        print_gpu(survey, i);
    if (driver->problem.status) {
        fputs("cuda     none: ", stdout);
        print_problem(&driver->problem);
    }
    if (driver->path)
        printf("         driver: %s%sCUDA %d.%d (%s)\n", survey->driver_version, survey->driver_version[0] ? ", " : "",
               driver->version / 1000, driver->version % 1000 / 10, driver->path);
    fputs("         compiler: ", stdout);
    if (nvrtc->path)
        printf("NVRTC %d.%d (%s)\n", nvrtc->major, nvrtc->minor, nvrtc->path);
    else
        print_problem(&nvrtc->problem);
}

// ---- for programs ---------------------------------------------------------------------------------------------------

static void put_text(const char *key, const char *text)
{
    printf("\"%s\": ", key);
    if (text)
        put_json_string(text, strlen(text), stdout);
    else
        fputs("null", stdout);
}

// 0.0 is not known.
static void put_version(const char *key, int major, int minor)
{
    char version[24];
    snprintf(version, sizeof(version), "%d.%d", major, minor);
    put_text(key, major || minor ? version : NULL);
}

static void put_problem(const Error *problem)
{
    if (!problem->status) {
        fputs("\"problem\": null", stdout);
        return;
    }
    fputs("\"problem\": {", stdout);
    put_text("sqlstate", problem->sqlstate);
    fputs(", ", stdout);
    put_text("message", problem->message);
    fputs(", ", stdout);
    put_text("hint", problem->hint);
    fputs("}", stdout);
}

static void json_cpu(const Survey *survey)
{
    const CpuInfo *cpu = &survey->cpu;
    fputs("  \"cpu\": {", stdout);
    put_text("model", cpu->model);
    printf(", \"cores\": %d, \"memory_bytes\": %lld, \"cache_bytes\": [", cpu->n_cores, (long long)cpu->memory_bytes);
    for (int i = 0; i < SURVEY_CACHES; i++)
        printf("%s%lld", i ? ", " : "", (long long)cpu->cache_bytes[i]);
    fputs("],\n    \"tcc\": true, \"cc\": {", stdout);
    put_text("path", survey->cc_path);
    fputs(", ", stdout);
    put_text("version", survey->cc_version);
    printf(", \"is_native\": %s, ", jit_flags_native(survey->jit) ? "true" : "false");
    put_problem(&survey->cc_problem);
    fputs("}", stdout);
    if (survey->is_measured && !survey->cpu_problem.status)
        printf(",\n    \"read_gb_s\": {\"one_thread\": %.2f, \"all_threads\": %.2f}", survey->cpu_speeds.read_one,
               survey->cpu_speeds.read_all);
    fputs("},\n", stdout);
}

// 0 is not known.
static void put_known(const char *key, i64 number)
{
    printf(", \"%s\": ", key);
    if (number)
        printf("%lld", (long long)number);
    else
        fputs("null", stdout);
}

// One that is not usable always has one.
static const Error *problem_of(const SurveyedGpu *gpu)
{
    return gpu->problem.status ? &gpu->problem : gpu->unusable.status ? &gpu->unusable : &gpu->speeds.no_kernel;
}

static void json_gpu(const Survey *survey, int ordinal)
{
    const SurveyedGpu *gpu = &survey->gpus[ordinal];
    const GpuInfo *info = &gpu->info;
    const GpuSpeeds *speeds = &gpu->speeds;
    printf("%s\n    {\"device\": \"cuda:%d\", ", ordinal ? "," : "", ordinal);
    put_text("name", info->name[0] ? info->name : NULL);
    fputs(", ", stdout);
    put_text("pci", info->bus_id[0] ? info->bus_id : NULL);
    put_known("memory_bytes", (i64)info->memory_bytes);
    fputs(", ", stdout);
    put_version("compute_capability", info->major, info->minor);
    put_known("multiprocessors", info->n_multiprocessors);
    put_known("clock_mhz", info->clock_mhz);
    put_known("l2_bytes", info->l2_bytes);
    printf(", \"is_usable\": %s,\n     ", is_usable(gpu) ? "true" : "false");
    if (survey->is_measured && !gpu->problem.status)
        printf("\"copy_gb_s\": {\"to_device_pinned\": %.2f, \"to_device_pageable\": %.2f, \"to_host_pinned\": %.2f}, ",
               speeds->to_device_pinned, speeds->to_device_pageable, speeds->to_host_pinned);
    if (survey->is_measured && !gpu->problem.status && !speeds->no_kernel.status)
        printf("\"read_gb_s\": %.1f, \"launch_us\": %.2f, ", speeds->read, speeds->launch_us);
    put_problem(problem_of(gpu));
    fputs("}", stdout);
}

static void json_cuda(const Survey *survey)
{
    const CudaDriver *driver = survey->driver;
    const Nvrtc *nvrtc = survey->nvrtc;
    fputs("  \"cuda\": {\"driver\": {", stdout);
    put_text("path", driver->path);
    fputs(", ", stdout);
    put_version("cuda", driver->version / 1000, driver->version % 1000 / 10);
    fputs(", ", stdout);
    put_text("version", survey->driver_version[0] ? survey->driver_version : NULL);
    fputs(", ", stdout);
    put_problem(&driver->problem);
    fputs("},\n   \"nvrtc\": {", stdout);
    put_text("path", nvrtc->path);
    fputs(", ", stdout);
    put_version("version", nvrtc->major, nvrtc->minor);
    fputs(", ", stdout);
    put_problem(&nvrtc->problem);
    fputs("},\n   \"gpus\": [", stdout);
    for (int i = 0; i < driver->n_gpus; i++)
        json_gpu(survey, i);
    fputs("]}\n", stdout);
}

// ---- the command ----------------------------------------------------------------------------------------------------

int devices_main(int argc, char **argv)
{
    enum { OPTION_MEASURE = 256, OPTION_JSON, OPTION_NEED_GPU, OPTION_HELP };
    static const struct option options[] = {
        { "measure",  no_argument, NULL, OPTION_MEASURE },
        { "json",     no_argument, NULL, OPTION_JSON },
        { "need-gpu", no_argument, NULL, OPTION_NEED_GPU },
        { "help",     no_argument, NULL, OPTION_HELP },
        { NULL, 0, NULL, 0 },
    };
    Survey survey = { 0 };
    bool is_json = false, needs_gpu = false;
    int option;
    argv[0] = (char *)"weft devices";                       // getopt begins its messages with it
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case OPTION_MEASURE:  survey.is_measured = true; break;
        case OPTION_JSON:     is_json = true; break;
        case OPTION_NEED_GPU: needs_gpu = true; break;
        case OPTION_HELP:     fputs(help_text, stdout); return 0;
        default:              fputs("Try 'weft devices --help'.\n", stderr); return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "weft devices: there is nothing to name: %s\nTry 'weft devices --help'.\n", argv[optind]);
        return EXIT_USAGE;
    }
    gather(&survey);
    fputs(is_json ? "{\n" : "", stdout);
    (is_json ? json_cpu : print_cpu)(&survey);
    (is_json ? json_cuda : print_cuda)(&survey);
    fputs(is_json ? "}\n" : "", stdout);
    int status = has_failed(&survey) || (needs_gpu && count_usable(&survey) == 0) ? EXIT_SQL_ERROR : 0;
    jit_free(survey.jit);
    free(survey.gpus);
    return status;
}
