// compile_times.c - how long NVRTC takes for kernels, with which options, and how many it compiles side by side.  Needs
// no GPU.
//
//     compile_times [--architecture 90] [--repeats 3] [--threads 1,4,16] FILE.k...
//
// Tables in Markdown: per variant the mean over the kernels of their best times (by the wall and of the CPU) and the
// slowest; what NVRTC says that its phases take; then all kernels compiled by several threads at once.  NVRTC can have
// a cache of its own, in the user's home, for texts that it has seen, and compiles every time only with --no-cache: so
// all variants but one have it.  An option that this NVRTC does not know says so.  Whether the code that comes out is
// as fast is another question: WEFT_NVRTC_OPTIONS=... bench/gpu/run.sh answers it.  scripts/gpu-test compile collects
// the kernels of SSB.

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "jit/jit_int.h"
#include "jit/nvrtc_library.h"
#include "kernel/kernel.h"

enum { KERNELS_MOST = 200, VARIANT_OPTIONS = 2 };

// HEADER: the words are a header that is included, as a precompiled one must be.  BARE: they have no comments.  CACHED:
// without --no-cache.
typedef struct Variant { const char *name, *options[VARIANT_OPTIONS]; bool is_header, is_bare, is_cached; } Variant;

static const Variant variants[] = {
    { .name = "as the device compiles" },
    { .name = "with NVRTC's own cache", .is_cached = true },
    { .name = "the words without comments", .is_bare = true },
    { .name = "--minimal", .options = { "--minimal" } },
    { .name = "--no-source-include", .options = { "--no-source-include" } },
    { .name = "--split-compile=0", .options = { "--split-compile=0" } },
    { .name = "--Ofast-compile=min", .options = { "--Ofast-compile=min" } },
    { .name = "--Ofast-compile=mid", .options = { "--Ofast-compile=mid" } },
    { .name = "--Ofast-compile=mid --minimal", .options = { "--Ofast-compile=mid", "--minimal" } },
    { .name = "--Ofast-compile=max", .options = { "--Ofast-compile=max" } },
    { .name = "--ptxas-options=-O2", .options = { "--ptxas-options=-O2" } },
    { .name = "--ptxas-options=-O1", .options = { "--ptxas-options=-O1" } },
    { .name = "--ptxas-options=-O0", .options = { "--ptxas-options=-O0" } },
    { .name = "the words as a header", .is_header = true },
    { .name = "the words as a header, --pch", .options = { "--pch" }, .is_header = true },
    { .name = "the same and --minimal", .options = { "--pch", "--minimal" }, .is_header = true },
};

typedef struct Kernel { char *text; const char *items; } Kernel;

static const Nvrtc *nvrtc;
static char         architecture[40];
static int          repeats = 3;
static Kernel       kernels[KERNELS_MOST];
static int          n_kernels;
static char        *words, *bare_words;
static bool         knows_no_cache = true;                  // older ones have neither the option nor a cache

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// As the device begins with, about (gpu_kernel.c).
static const char *items_of(const char *text) { return strstr(text, "GROUP(") ? "-DITEMS=2" : "-DITEMS=8"; }

static void read_kernel(const char *path)
{
    Text  text = { 0 };
    Error err = { 0 };
    if (n_kernels == KERNELS_MOST || file_read_all(path, &text, &err)) {
        printf("failed: %s: %s\n", path, err.status ? err.message : "too many kernels");
        exit(1);
    }
    kernels[n_kernels++] = (Kernel){ text.bytes, items_of(text.bytes) };
}

// Comments to the end of a line; the words have no others, and no text in quotes with slashes.
static char *without_comments(const char *text)
{
    Text bare = { 0 };
    while (*text) {
        const size_t line = strcspn(text, "\n");
        const char  *comment = strstr(text, "//");
        const size_t kept = comment && comment < text + line ? (size_t)(comment - text) : line;
        text_add_bytes(&bare, text, kept);
        text_add(&bare, "\n");
        text += line + (text[line] != 0);
    }
    return bare.bytes;
}

// ---- one compile ----------------------------------------------------------------------------------------------------

static weft_status compile_program(NvrtcProgram program, const Variant *variant, const Kernel *kernel, size_t *bytes,
                                   Error *err)
{
    const char *options[16] = { architecture, "--std=c++17", "--fmad=false",          "--diag-suppress=177,550",
                                "-w",         kernel->items, "-DSHARED_TABLES_=0x3u", "-DEAGER_=0x1u" };
    int         n = 8;
    if (knows_no_cache && !variant->is_cached) options[n++] = "--no-cache";
    for (int o = 0; o < VARIANT_OPTIONS && variant->options[o]; o++) options[n++] = variant->options[o];
    NVRTC_TRY(nvrtc, CompileProgram, (program, n, options), err);
    NVRTC_TRY(nvrtc, GetCUBINSize, (program, bytes), err);
    return WEFT_OK;
}

static weft_status compile(const Variant *variant, const Kernel *kernel, size_t *bytes, Error *err)
{
    NvrtcProgram      program;
    Text              source = { 0 };
    const char *const headers[] = { words }, *const names[] = { "words.h" };
    text_add(&source, "%s\n%s%s\n",
             variant->is_header ? "#include \"words.h\""
             : variant->is_bare ? bare_words
                                : words,
             jit_functions(kernel->text), kernel->text);
    weft_status status =
        nvrtc_check(nvrtc,
                    nvrtc->CreateProgram(&program, source.bytes, "kernel.cu", variant->is_header, headers, names),
                    "nvrtcCreateProgram", err);
    if (!status) {
        status = compile_program(program, variant, kernel, bytes, err);
        nvrtc->DestroyProgram(&program);
    }
    text_free(&source);
    return status;
}

// ---- variants -------------------------------------------------------------------------------------------------------

typedef struct Times { double wall_ms, cpu_ms, slowest_ms; size_t bytes; } Times;

static weft_status time_kernel(const Variant *variant, const Kernel *kernel, Times *sum, Error *err)
{
    const int times = variant->is_cached ? MAX_OF(repeats, 2) : repeats;       // the first fills the cache
    double    wall = 0, cpu = 0;
    size_t    bytes = 0;
    for (int r = 0; r < times; r++) {
        const double wall_start = time_now_ms(), cpu_start = cpu_ms();
        TRY(compile(variant, kernel, &bytes, err));
        const double wall_now = time_now_ms() - wall_start, cpu_now = cpu_ms() - cpu_start;
        wall = r ? MIN_OF(wall, wall_now) : wall_now;
        cpu = r ? MIN_OF(cpu, cpu_now) : cpu_now;
    }
    sum->wall_ms += wall, sum->cpu_ms += cpu, sum->bytes += bytes, sum->slowest_ms = MAX_OF(sum->slowest_ms, wall);
    return WEFT_OK;
}

static void time_variant(const Variant *variant)
{
    Times sum = { 0 };
    Error err = { 0 };
    for (int k = 0; k < n_kernels && !err.status; k++) time_kernel(variant, &kernels[k], &sum, &err);
    if (err.status) printf("| %s | %.80s | | | |\n", variant->name, err.message);
    else
        printf("| %s | %.1f | %.1f | %.1f | %zu |\n", variant->name, sum.wall_ms / n_kernels, sum.cpu_ms / n_kernels,
               sum.slowest_ms, sum.bytes / (size_t)n_kernels);
    fflush(stdout);
}

// What the compiler takes for nothing, with and without the words.
static void time_nothing(void)
{
    static const Kernel  nothing = { "extern \"C\" __global__ void nothing(unsigned *p) { *p = 1; }", "-DITEMS=4" };
    static const Variant with = { .name = "an empty kernel" };
    char  *kept = words, none[] = "";
    Times  sum = { 0 }, without = { 0 };
    Error  err = { 0 };
    time_kernel(&with, &nothing, &sum, &err);
    words = none;
    time_kernel(&with, &nothing, &without, &err);
    words = kept;
    if (err.status) printf("an empty kernel: %s\n\n", err.message);
    else
        printf("- an empty kernel: %.1f ms (%.1f of the CPU) with the words, %.1f (%.1f) without\n\n", sum.wall_ms,
               sum.cpu_ms, without.wall_ms, without.cpu_ms);
}

// ---- phases ---------------------------------------------------------------------------------------------------------

typedef struct Phase { char name[64]; double ms; int count; } Phase;

enum { PHASES_MOST = 16 };

static void add_phase(Phase *phases, const char *name, double ms)
{
    int p = 0;
    while (p < PHASES_MOST && phases[p].count && strcmp(phases[p].name, name) != 0) p++;
    if (p == PHASES_MOST) return;
    snprintf(phases[p].name, sizeof phases[p].name, "%s", name);
    phases[p].ms += ms, phases[p].count++;
}

// Every compile has added lines like "kernel.cu, CUDA C++ Frontend, 41, ms"; the heading has no number.
static void print_phases(const char *lines)
{
    Phase  phases[PHASES_MOST] = { 0 };
    char   name[64];
    double ms;
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (sscanf(at, "%*[^,\n], %63[^,\n], %lf, ms", name, &ms) == 2) add_phase(phases, name, ms);
    printf("\n| phase | mean ms |\n| :-- | --: |\n");
    for (int p = 0; p < PHASES_MOST && phases[p].count; p++)
        printf("| %s | %.1f |\n", phases[p].name, phases[p].ms / phases[p].count);
    if (!phases[0].count) printf("| NVRTC told none | |\n");
}

// As the device compiles.  The times are whole milliseconds, so the mean over all kernels and repeats is told.
static void time_phases(void)
{
    char   path[] = "/tmp/weft-phases.XXXXXX", option[60];
    int    file = mkstemp(path);
    Text   lines = { 0 };
    Error  err = { 0 };
    size_t bytes;
    if (file < 0) return (void)printf("\nphases: no file can be made in /tmp\n");
    close(file);
    snprintf(option, sizeof option, "--time=%s", path);
    const Variant timed = { .name = "--time", .options = { option } };
    for (int k = 0; k < n_kernels * repeats && !err.status; k++) compile(&timed, &kernels[k % n_kernels], &bytes, &err);
    if (!err.status) file_read_all(path, &lines, &err);
    if (err.status) printf("\nphases: %.80s\n", err.message);
    else print_phases(lines.bytes ? lines.bytes : "");
    text_free(&lines);
    unlink(path);
}

// ---- side by side ---------------------------------------------------------------------------------------------------

typedef struct Share { _Atomic int next, n_failed; } Share;

static void compile_some(void *context, int worker)
{
    Share *share = context;
    (void)worker;
    for (int k; (k = share->next++) < n_kernels;) {
        Error  err = { 0 };
        size_t bytes;
        share->n_failed += compile(&variants[0], &kernels[k], &bytes, &err) != WEFT_OK;
    }
}

static int time_threads(int n_threads)
{
    Pool        *pool = pool_new(n_threads);
    Share        share = { 0 };
    const double start = time_now_ms(), cpu_start = cpu_ms();
    pool_run(pool, n_threads, compile_some, &share);
    printf("| %d | %.0f | %.0f |\n", n_threads, time_now_ms() - start, cpu_ms() - cpu_start);
    fflush(stdout);
    pool_free(pool);
    return share.n_failed;
}

int main(int argc, char **argv)
{
    static const struct option LONG[] = {
        { "architecture", 1, NULL, 'a' }, { "repeats", 1, NULL, 'r' }, { "threads", 1, NULL, 't' }, { 0 }
    };
    Error err = { 0 };
    Text  all_words = { 0 };
    char *threads = "1,2,4,8,16";
    int   option, capability = 90, n_failed = 0;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
        if (option == 'a') capability = atoi(optarg);
        else if (option == 'r') repeats = MAX_OF(atoi(optarg), 1);
        else if (option == 't') threads = optarg;
        else return 2;
    }
    for (int i = optind; i < argc; i++) read_kernel(argv[i]);
    if (!n_kernels) return puts("usage: compile_times [--architecture 90] [--repeats 3] [--threads 1,4] FILE.k..."), 2;
    if (nvrtc_need(0, &nvrtc, &err)) return printf("%s\n%s\n", err.message, err.hint), 77;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d", capability);
    text_add(&all_words, "%s\n%s", kernel_args_text, kernel_cuda_text);
    words = all_words.bytes, bare_words = without_comments(words);
    double start = time_now_ms();
    size_t bytes;
    if (compile(&variants[0], &kernels[0], &bytes, &err))
        knows_no_cache = false, err = (Error){ 0 }, start = time_now_ms();
    if (!knows_no_cache && compile(&variants[0], &kernels[0], &bytes, &err))
        return printf("failed: %s\n", err.message), 1;
    printf("## NVRTC %d.%d, %d kernels, best of %d\n\n- the first compile of the process: %.1f ms\n", nvrtc->major,
           nvrtc->minor, n_kernels, repeats, time_now_ms() - start);
    if (!knows_no_cache) puts("- it does not know --no-cache: times may be those of a cache");
    time_nothing();
    printf("| variant | mean ms | of the CPU | slowest ms | bytes of code |\n| :-- | --: | --: | --: | --: |\n");
    for (int v = 0; v < COUNT_OF(variants); v++) time_variant(&variants[v]);
    time_phases();
    printf("\n| threads at once | all kernels ms | of the CPU |\n| --: | --: | --: |\n");
    for (char *at = threads; *at; at += strcspn(at, ","), at += *at == ',')
        n_failed += time_threads(MAX_OF(atoi(at), 1));
    printf("\n%d passed, %d failed\n", n_failed == 0, n_failed);
    for (int k = 0; k < n_kernels; k++) free(kernels[k].text);
    free(words);
    free(bare_words);
    return n_failed != 0;
}
