// cc.c - kernel text to code with the system's compiler, a separate process, into a shared library that is loaded.
//
// The compiler has to be met before it is used:
//
//     find it in PATH -> --version -> try its options: compile a small kernel, load it, run it in a child, compare
//
// The last step is there because native CPU options cannot be believed: on a virtual machine that hides some of the
// CPU's features, clang 14 takes -mcpu=native for the whole CPU and makes instructions that trap.  The first set of
// options whose code runs and is right stays.  All that was learnt is kept in the cache directory under a key of the
// compiler's file (path, size, time) and the CPU, so a process normally starts no compiler at all before it has
// something to compile; when that file is not there, nothing that this compiler made can be in the cache either, so no
// query waits for it.
//
// Options: no -ffast-math, as NaN and Infinity are values, and no contraction to fused multiply-add, as tcc and cc
// must agree to the last bit.  -lgcc is for 128-bit division; libgcc.a is part of gcc, but a clang may be without it.
// Nearly all of the time is the compiler proper: of 140 ms for a long kernel, assembler and linker take 8.  Tried for
// the linker, each within the noise: gold, lld, --hash-style=gnu, -O0, -s, no build id.  -pipe saves 3 ms.  Without
// relro a library is 5 KB; with it 67, nearly all padding, where pages may have 64 KiB.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "jit/jit_int.h"

#define CACHE_FORMAT "weft-jit-1"                            // change it when files of older versions must not be used

enum { VERSION_MAX = 256, PROBE_ROWS = 1003, PROBE_CPU_S = 1, PROBE_S = 60 };

// clang-format off
static const char *const base_options[] = {
    "-std=gnu17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fwrapv", "-fPIC", "-shared", "-nostdlib", "-Wl,-z,norelro", "-pipe", "-w", "-x", "c",
};
// clang-format on

#if defined(__x86_64__)
#define ARCHITECTURE  "x86-64"
#define NATIVE_OPTION "-march=native"
#elif defined(__aarch64__)
#define ARCHITECTURE  "arm64"
#define NATIVE_OPTION "-mcpu=native"
#else
#define ARCHITECTURE  "other"
#define NATIVE_OPTION "-O3"                                  // none is known; this one changes nothing
#endif

// After the source file, best first.
typedef struct OptionSet {
    bool        is_native;
    const char *options[3];
} OptionSet;

static const OptionSet option_sets[] = {
    { true, { NATIVE_OPTION, "-lgcc" } },
    { false, { "-lgcc" } },
    { true, { NATIVE_OPTION } },
    { false, { NULL } },
};

struct Compiler {
    const char     *program;
    Cache          *cache;
    int             timeout_ms, stop_fd;

    _Atomic bool    is_known;                               // set last: version and options do not change any more
    _Atomic bool    is_broken;                              // set last: why_broken does not change any more
    pthread_mutex_t meet_lock;                              // held while processes run
    pthread_mutex_t lock;                                   // held for the lookup only; taken after meet_lock
    bool            is_looked_up;
    char            path[JIT_PATH_MAX];                     // empty: not found
    bool            has_identity;
    CacheKey        identity;                               // of its file and this CPU
    char            version[VERSION_MAX];                   // first line of --version
    int             option_set;
    char            why_broken[512];
};

Compiler *compiler_new(Arena *arena, const char *program, Cache *cache, int timeout_ms, int stop_fd)
{
    Compiler *compiler = arena_make(arena, Compiler);
    compiler->program = arena_strdup(arena, program);
    compiler->cache = cache;
    compiler->timeout_ms = timeout_ms;
    compiler->stop_fd = stop_fd;
    pthread_mutex_init(&compiler->meet_lock, NULL);
    pthread_mutex_init(&compiler->lock, NULL);
    return compiler;
}

void compiler_free(Compiler *compiler)
{
    pthread_mutex_destroy(&compiler->meet_lock);
    pthread_mutex_destroy(&compiler->lock);
}

bool compiler_is_native(const Compiler *compiler)
{
    return compiler->is_known && option_sets[compiler->option_set].is_native;
}

const char *compiler_path(const Compiler *compiler)
{
    return compiler->path;
}

const char *compiler_version(const Compiler *compiler)
{
    return compiler->version;
}

bool compiler_is_broken(const Compiler *compiler)
{
    return compiler->is_broken;
}

// ---- keys ----------------------------------------------------------------------------------------------------------

// The NUL goes in as well, so that ("ab", "c") and ("a", "bc") differ.
static void hash_text(XXH3_state_t *hash, const char *text)
{
    XXH3_128bits_update(hash, text, strlen(text) + 1);
}

static void hash_number(XXH3_state_t *hash, i64 number)
{
    XXH3_128bits_update(hash, &number, sizeof(number));
}

static void hash_base_options(XXH3_state_t *hash)
{
    for (int i = 0; i < COUNT_OF(base_options); i++)
        hash_text(hash, base_options[i]);
}

static CacheKey hash_end(XXH3_state_t *hash)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash));
    CacheKey key;
    _Static_assert(sizeof(key.bytes) == sizeof(canonical.digest), "a key is the whole hash");
    memcpy(key.bytes, canonical.digest, sizeof(key.bytes));
    return key;
}

CacheKey compiler_key(const Compiler *compiler, const KernelText *kernel)
{
    XXH3_state_t hash;
    ASSERT(compiler->is_known && compiler->option_set >= 0 && compiler->option_set < COUNT_OF(option_sets));
    XXH3_128bits_reset(&hash);
    XXH3_128bits_update(&hash, compiler->identity.bytes, sizeof(compiler->identity.bytes));
    hash_text(&hash, compiler->version);
    hash_number(&hash, compiler->option_set);
    hash_text(&hash, kernel->prelude);
    hash_text(&hash, jit_functions(kernel->text));
    hash_text(&hash, kernel->text);
    hash_text(&hash, kernel->name);
    return hash_end(&hash);
}

// What makes a CPU one that the same code runs on, of the first processor's lines in /proc/cpuinfo.
static bool hash_cpu(XXH3_state_t *hash)
{
    static const char *const wanted[] = { "vendor_id", "cpu family", "model", "stepping", "flags",          // x86-64
                                          "Features", "CPU implementer", "CPU architecture", "CPU variant", // arm64
                                          "CPU part", "CPU revision" };
    File file;
    Error ignored = { 0 };
    char text[16384];
    size_t length = 0;
    if (file_open_read("/proc/cpuinfo", &file, &ignored))
        return false;
    weft_status status = file_read_at(&file, text, sizeof(text) - 1, 0, &length, &ignored);
    file_close(&file);
    text[status ? 0 : length] = '\0';
    bool has_features = false;
    for (char *line = text; *line && *line != '\n';) {
        char *end = strchr(line, '\n');
        if (!end)
            break;
        *end = '\0';
        for (int i = 0; i < COUNT_OF(wanted); i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
                hash_text(hash, line);
        has_features |= strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
        line = end + 1;
    }
    return has_features;
}

// ---- running the compiler ------------------------------------------------------------------------------------------

// From now on no process of it is started; what it made before may still be loaded.  The first reason stays.
static void give_up_on(Compiler *compiler, const Error *why)
{
    pthread_mutex_lock(&compiler->lock);
    if (!compiler->is_broken) {
        snprintf(compiler->why_broken, sizeof(compiler->why_broken), "%s", why->message);
        compiler->is_broken = true;
    }
    pthread_mutex_unlock(&compiler->lock);
}

// KERNEL_BUILD means that the compiler is to blame.
static weft_status judge(Compiler *compiler, const ProcessResult *result, Error *err)
{
    const char *colon = result->n_output ? ": " : "";
    switch (result->end) {
    case PROCESS_EXITED:
        if (result->code == 0)
            return WEFT_OK;
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: %.60s ended with exit status %d%s%s", compiler->program,
                    result->code, colon, result->output);
    case PROCESS_SIGNALED:
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: %.60s was killed by signal %d%s%s", compiler->program,
                    result->code, colon, result->output);
    case PROCESS_TIMED_OUT:
        fail(err, WEFT_KERNEL_BUILD, -1, "cc: %.60s did not end within %g s and is not used any more",
             compiler->program, compiler->timeout_ms / 1000.0);
        give_up_on(compiler, err);
        return err->status;
    case PROCESS_STOPPED:
        return fail(err, WEFT_QUERY_CANCELED, -1, "cc: stopped");
    case PROCESS_LOST:
        break;
    }
    return fail(err, WEFT_INTERNAL, -1, "cc: the exit status of %.60s was taken by another part of this program",
                compiler->program);
}

static weft_status run(Compiler *compiler, char *const arguments[], const char *work_dir, bool is_background,
                       ProcessResult *result, Error *err)
{
    ProcessOptions options = { work_dir, compiler->timeout_ms, compiler->stop_fd, is_background };
    TRY(process_run(compiler->path, arguments, &options, result, err));
    return judge(compiler, result, err);
}

static weft_status write_source(const char *path, const KernelText *kernel, Error *err)
{
    const char *const parts[] = { kernel->prelude, jit_functions(kernel->text), kernel->text };
    File file;
    TRY(file_create(path, &file, err));
    weft_status status = WEFT_OK;
    for (int i = 0; i < COUNT_OF(parts) && !status; i++)
        status = file_write(&file, parts[i], strlen(parts[i]), err);
    file_close(&file);
    return status;
}

static weft_status check_library(const char *path, Error *err)
{
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: the compiler made no library, and did not say why");
    return WEFT_OK;
}

// LIBRARY becomes the path of the new file in WORK_DIR.  Names are used once in a process: dlopen takes a path that
// it has seen for the library it has loaded from there.
static weft_status compile(Compiler *compiler, int option_set, const KernelText *kernel, const char *work_dir,
                           bool is_background, char *library, Error *err)
{
    static _Atomic int n_names;
    int number = n_names++;
    char source[JIT_PATH_MAX + 32];
    snprintf(source, sizeof(source), "%s/k%d.c", work_dir, number);
    snprintf(library, JIT_PATH_MAX, "%s/k%d.so", work_dir, number);
    TRY(write_source(source, kernel, err));

    const char *arguments[COUNT_OF(base_options) + 8];
    int n = 0;
    arguments[n++] = compiler->path;
    for (int i = 0; i < COUNT_OF(base_options); i++)
        arguments[n++] = base_options[i];
    arguments[n++] = "-o";
    arguments[n++] = library;
    arguments[n++] = source;
    for (const char *const *option = option_sets[option_set].options; *option; option++)
        arguments[n++] = *option;
    arguments[n] = NULL;
    ProcessResult result;
    TRY(run(compiler, (char *const *)(uintptr_t)arguments, work_dir, is_background, &result, err));
    return check_library(library, err);
}

weft_status cc_load(const char *path, const char *name, CcCode *code, Error *err)
{
    *code = (CcCode){ .library = dlopen(path, RTLD_NOW | RTLD_LOCAL) };
    if (!code->library)
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: could not load the library: %s", dlerror());
    void *symbol = dlsym(code->library, name);
    if (symbol) {
        code->function = (KernelFunction)(uintptr_t)symbol;
        return WEFT_OK;
    }
    cc_unload(code);
    return fail(err, WEFT_KERNEL_BUILD, -1, "cc: the library does not define %s", name);
}

void cc_unload(CcCode *code)
{
    if (code->library)
        dlclose(code->library);
    *code = (CcCode){ 0 };
}

// ---- the probe: is the code that these options make right? ---------------------------------------------------------
// The kernel is here twice: compiled with us, and as text.  Loops like those of real kernels, which a compiler turns
// into vector code; all arithmetic is exact, so both must agree bit for bit.  Nothing that could need libgcc: no
// builtins.

#define TEXT_AND_CODE(name, ...)                 \
    static const char name[] = #__VA_ARGS__;     \
    __VA_ARGS__

// clang-format off
TEXT_AND_CODE(probe_text,
typedef struct ProbeData {
    long long rows; long long sums[6]; double double_sums[4];
    long long longs[1024]; double doubles[1024]; double results[1024]; float floats[1024];
    int ints[1024]; unsigned selected[1024]; unsigned short shorts[1024]; unsigned char bytes[1024];
} ProbeData;
void weft_probe(void *context);
void weft_probe(void *context)
{
    ProbeData *d = (ProbeData *)context;
    long long n = d->rows;
    long long total = 0;
    long long largest = d->longs[0];
    unsigned long long bits = 0;
    for (long long i = 0; i < n; i++)
        total += (long long)d->ints[i] * d->ints[i];
    for (long long i = 0; i < n; i++)
        largest = d->longs[i] > largest ? d->longs[i] : largest;
    for (long long i = 0; i < n; i++)
        bits ^= ((unsigned long long)d->longs[i] >> (i & 31)) * 0x9E3779B97F4A7C15ull;
    d->sums[0] = total;
    d->sums[1] = largest;
    d->sums[2] = (long long)bits;
    int n_selected = 0;
    for (int i = 0; i < (int)n; i++) {
        d->selected[n_selected] = (unsigned)i;
        n_selected += (d->bytes[i] > 40) & (d->ints[i] < 500);
    }
    d->sums[3] = n_selected;
    for (int i = 0; i < n_selected; i++)
        d->sums[4] += d->shorts[d->selected[i]] + d->shorts[d->bytes[d->selected[i]]];
    for (long long i = 0; i < n; i++) {
        unsigned long long word = (unsigned long long)d->longs[i];
        word = word - ((word >> 1) & 0x5555555555555555ull);
        word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
        word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Full;
        d->sums[5] += (long long)((word * 0x0101010101010101ull) >> 56);
    }
    for (long long i = 0; i < n; i++)
        d->results[i] = d->doubles[i] * (double)d->ints[i] + (double)d->floats[i];
    for (long long i = 0; i < n; i++)
        d->double_sums[0] += d->results[i];
    for (long long i = 0; i < n; i++)
        d->double_sums[1] += d->bytes[i] & 1 ? (double)d->longs[i] : -d->doubles[i];
    for (long long i = 0; i < n; i++)
        d->ints[i] = (int)d->results[i] / ((d->bytes[i] & 7) + 1) + (d->shorts[i] >> 3);
    for (long long i = 0; i < n; i++)
        d->shorts[i] = (unsigned short)(d->shorts[i] * 7 + d->bytes[i]);
}
)
// clang-format on

static void fill(ProbeData *data)
{
    memset(data, 0, sizeof(*data));
    data->rows = PROBE_ROWS;
    u32 random = 12345;
    for (int i = 0; i < COUNT_OF(data->longs); i++) {
        random = random * 1664525u + 1013904223u;
        data->longs[i] = (i64)(random >> 4) - (1 << 26);
        data->doubles[i] = (double)(random >> 20) / 4;
        data->floats[i] = (float)(random >> 24) / 2;
        data->ints[i] = (int)(random >> 21) - 1000;
        data->shorts[i] = (u16)(random >> 18);
        data->bytes[i] = (u8)(random >> 23);
    }
}

// In the child, where only async-signal-safe calls are allowed.  A trap or an endless loop ends the child and nothing
// else.
static _Noreturn void run_in_child(KernelFunction function, ProbeData *data, const ProbeData *expected)
{
    static const int traps[] = { SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGABRT, SIGALRM, SIGXCPU };
    for (int i = 0; i < COUNT_OF(traps); i++)
        signal(traps[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    // Mainly of its own time, or a busy machine would look like an endless loop.
    setrlimit(RLIMIT_CPU, &(struct rlimit){ PROBE_CPU_S, PROBE_CPU_S + 1 });
    alarm(PROBE_S);
    function(data);
    _exit(memcmp(data, expected, sizeof(*data)) == 0 ? 0 : 1);
}

static weft_status run_probe(KernelFunction function, ProbeData *data, const ProbeData *expected, Error *err)
{
    pid_t pid = fork();
    if (pid == 0)
        run_in_child(function, data, expected);
    int status = 0;
    pid_t waited = pid;
    while (pid > 0 && (waited = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (pid < 0 || waited < 0)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "cc: no process could be started to try its code");
    if (WIFSIGNALED(status))
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: its code ends with signal %d on this CPU", WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? WEFT_OK : fail(err, WEFT_KERNEL_BUILD, -1, "cc: its code gives wrong results");
}

static weft_status try_code(KernelFunction function, Error *err)
{
    ProbeData *data = malloc(2 * sizeof(*data));
    if (!data)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    ProbeData *expected = data + 1;
    fill(data);
    fill(expected);
    weft_probe(expected);
    weft_status status = run_probe(function, data, expected, err);
    free(data);
    return status;
}

static weft_status try_options(Compiler *compiler, int option_set, const char *work_dir, bool is_background, Error *err)
{
    char library[JIT_PATH_MAX];
    CcCode code;
    KernelText kernel = { "", probe_text, "weft_probe" };
    TRY(compile(compiler, option_set, &kernel, work_dir, is_background, library, err));
    TRY(cc_load(library, kernel.name, &code, err));
    weft_status status = try_code(code.function, err);
    cc_unload(&code);
    return status;
}

// ---- meeting it ----------------------------------------------------------------------------------------------------

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

// As a shell would: a name with a slash is a path, any other is looked for in PATH.
static bool find_program(const char *program, char *path)
{
    if (strchr(program, '/')) {
        bool fits = snprintf(path, JIT_PATH_MAX, "%s", program) < JIT_PATH_MAX;
        return fits && is_program(path);
    }
    const char *rest = getenv("PATH");
    if (!rest || !*rest)
        rest = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        int length = (int)strcspn(rest, ":");
        int needed = snprintf(path, JIT_PATH_MAX, "%.*s%s%s", length, rest, length ? "/" : "./", program);
        if (needed > 0 && needed < JIT_PATH_MAX && is_program(path))
            return true;
        if (!rest[length])
            return false;
        rest += length + 1;
    }
}

// The file that would run, as it is now: a compiler that was updated is another one.  Also hashes all that the
// meaning of what we remember depends on.
static bool identify(Compiler *compiler)
{
    char resolved[PATH_MAX];
    struct stat info;
    if (!realpath(compiler->path, resolved) || stat(resolved, &info) != 0)
        return false;
    XXH3_state_t hash;
    XXH3_128bits_reset(&hash);
    hash_text(&hash, CACHE_FORMAT);
    hash_text(&hash, ARCHITECTURE);
    hash_text(&hash, NATIVE_OPTION);
    hash_text(&hash, probe_text);
    hash_base_options(&hash);
    hash_text(&hash, compiler->path);
    hash_text(&hash, resolved);
    hash_number(&hash, info.st_size);
    hash_number(&hash, info.st_mtim.tv_sec);
    hash_number(&hash, info.st_mtim.tv_nsec);
    if (!hash_cpu(&hash))
        return false;
    compiler->identity = hash_end(&hash);
    return true;
}

// The form: version, newline, number of the option set, newline.
static bool remember(Compiler *compiler)
{
    Text text = { 0 };
    if (!compiler->has_identity || !cache_read(compiler->cache, compiler->identity, "compiler", &text))
        return false;
    char *end = memchr(text.bytes, '\n', text.length);
    int option_set = end ? atoi(end + 1) : -1;
    bool is_good = end && end - text.bytes < VERSION_MAX && option_set >= 0 && option_set < COUNT_OF(option_sets);
    if (is_good) {
        memcpy(compiler->version, text.bytes, (size_t)(end - text.bytes));
        compiler->option_set = option_set;
    }
    text_free(&text);
    return is_good;
}

static void write_down(Compiler *compiler, const char *work_dir)
{
    char path[JIT_PATH_MAX];
    File file;
    Error ignored = { 0 };
    Text text = { 0 };
    if (!compiler->has_identity || !cache_is_usable(compiler->cache))
        return;
    text_add(&text, "%s\n%d\n", compiler->version, compiler->option_set);
    bool fits = snprintf(path, sizeof(path), "%s/compiler", work_dir) < JIT_PATH_MAX;
    if (fits && file_create(path, &file, &ignored) == WEFT_OK) {
        weft_status status = file_write(&file, text.bytes, text.length, &ignored);
        file_close(&file);
        if (!status && cache_seal(compiler->identity, "compiler", path, &ignored) == WEFT_OK)
            cache_keep(compiler->cache, compiler->identity, "compiler", path, &ignored);
    }
    text_free(&text);
}

bool compiler_is_known(Compiler *compiler)
{
    if (compiler->is_known)
        return true;
    pthread_mutex_lock(&compiler->lock);
    if (!compiler->is_looked_up) {
        compiler->is_looked_up = true;
        if (find_program(compiler->program, compiler->path))
            compiler->has_identity = identify(compiler);
        else
            compiler->path[0] = '\0';
        if (remember(compiler))
            compiler->is_known = true;
    }
    pthread_mutex_unlock(&compiler->lock);
    return compiler->is_known;
}

static weft_status ask_version(Compiler *compiler, const char *work_dir, bool is_background, Error *err)
{
    char *const arguments[] = { compiler->path, (char *)(uintptr_t) "--version", NULL };
    ProcessResult result;
    TRY(run(compiler, arguments, work_dir, is_background, &result, err));
    size_t length = strcspn(result.output, "\n");
    if (length == 0)
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: %.60s does not tell its version", compiler->program);
    snprintf(compiler->version, sizeof(compiler->version), "%.*s", (int)MIN_OF(length, VERSION_MAX - 1), result.output);
    return WEFT_OK;
}

static weft_status choose_options(Compiler *compiler, const char *work_dir, bool is_background, Error *err)
{
    for (int set = 0; set < COUNT_OF(option_sets); set++) {
        Error reason = { 0 };
        if (try_options(compiler, set, work_dir, is_background, &reason) == WEFT_OK) {
            compiler->option_set = set;
            return WEFT_OK;
        }
        log_debug("cc's options %d are not used: %s", set, reason.message);
        bool is_last = set == COUNT_OF(option_sets) - 1;
        if (is_last || compiler->is_broken || reason.status != WEFT_KERNEL_BUILD)
            return fail(err, reason.status, -1, "%s", reason.message);
    }
    return WEFT_OK;
}

static weft_status learn(Compiler *compiler, const char *work_dir, bool is_background, Error *err)
{
    TRY(ask_version(compiler, work_dir, is_background, err));
    TRY(choose_options(compiler, work_dir, is_background, err));
    write_down(compiler, work_dir);
    compiler->is_known = true;
    log_info("cc: %s, %s", compiler->version, compiler_is_native(compiler) ? NATIVE_OPTION : "no native CPU option");
    return WEFT_OK;
}

static weft_status meet(Compiler *compiler, bool is_background, Error *err)
{
    char work_dir[JIT_PATH_MAX];
    if (!compiler->path[0])
        return fail(err, WEFT_KERNEL_BUILD, -1, "cc: %.200s not found", compiler->program);
    TRY(work_dir_new(compiler->cache, work_dir, err));
    weft_status status = learn(compiler, work_dir, is_background, err);
    work_dir_remove(work_dir);
    return status;
}

weft_status compiler_meet(Compiler *compiler, bool is_background, Error *err)
{
    if (compiler_is_known(compiler) && !compiler->is_broken)
        return WEFT_OK;
    pthread_mutex_lock(&compiler->meet_lock);
    if (!compiler->is_known && !compiler->is_broken && meet(compiler, is_background, err) == WEFT_KERNEL_BUILD)
        give_up_on(compiler, err);                          // its own fault; anything else may be better next time
    pthread_mutex_unlock(&compiler->meet_lock);
    if (compiler->is_broken)
        return fail(err, WEFT_KERNEL_BUILD, -1, "%s", compiler->why_broken);
    return compiler->is_known ? WEFT_OK : err->status;
}

// ---- building ------------------------------------------------------------------------------------------------------

// Into the cache if that is possible; loaded from the work directory if not.
static weft_status build_in(Compiler *compiler, const char *work_dir, const KernelText *kernel, bool is_background,
                            CcCode *code, Error *err)
{
    char library[JIT_PATH_MAX];
    TRY(compile(compiler, compiler->option_set, kernel, work_dir, is_background, library, err));
    CacheKey key = compiler_key(compiler, kernel);
    Error reason = { 0 };
    bool is_sealed = compiler->has_identity && cache_is_usable(compiler->cache) &&
                     cache_seal(key, "so", library, &reason) == WEFT_OK;
    TRY(cc_load(library, kernel->name, code, err));         // before it is kept: what does not load must not stay
    if (is_sealed)
        cache_keep(compiler->cache, key, "so", library, &reason);
    if (reason.status)
        log_info("code of %s is not kept: %s", kernel->name, reason.message);
    return WEFT_OK;
}

weft_status compiler_build(Compiler *compiler, const KernelText *kernel, bool is_background, CcCode *code, Error *err)
{
    char work_dir[JIT_PATH_MAX];
    *code = (CcCode){ 0 };
    TRY(work_dir_new(compiler->cache, work_dir, err));
    weft_status status = build_in(compiler, work_dir, kernel, is_background, code, err);
    work_dir_remove(work_dir);
    return status;
}
