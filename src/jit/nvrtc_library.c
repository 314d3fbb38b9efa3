// nvrtc_library.c - find NVRTC and put its errors into our words.
//
// Its file carries the major version in its name.  A driver loads code of its own major version and of those before,
// so we look for the driver's first and go back two.  It is found by the system's search or where NVIDIA's installer
// puts it; Python's packages of it are found when LD_LIBRARY_PATH or $WEFT_LIBNVRTC names them.

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "jit/nvrtc_library.h"

enum {
    NEWEST_MAJOR = 13,
    N_MAJORS = 3,
    OLDEST_MAJOR = NEWEST_MAJOR - N_MAJORS + 1,
    N_FOLDERS = 3,
    NAME_MAX_BYTES = 96
};

static const char *const folders[N_FOLDERS] = { "", "/usr/local/cuda/lib64/", "/usr/lib/wsl/lib/" };

static const LibrarySymbol symbols[] = {
#define NVRTC_SYMBOL(field, symbol, parameters) { #symbol, offsetof(Nvrtc, field), false },
    NVRTC_CALLS(NVRTC_SYMBOL)                               // nvrtcVersion first: a library without it is another one
    { "nvrtcGetErrorString", offsetof(Nvrtc, GetErrorString), false },
};

static Nvrtc           the_library;                         // written under the lock, once
static bool            is_opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// From 11.2 on, all of CUDA 11 shares one name.
static const char *file_name(int major)
{
    ASSERT(major >= OLDEST_MAJOR && major <= NEWEST_MAJOR);
    static const char *const names[N_MAJORS] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2" };
    return names[NEWEST_MAJOR - major];
}

static int newest_for(int driver_major) { return driver_major ? MIN_OF(driver_major, NEWEST_MAJOR) : NEWEST_MAJOR; }

static void open_named(int driver_major, Text *path)
{
    Error    *problem = &the_library.problem;
    const int newest = newest_for(driver_major);
    if (library_open_named("WEFT_LIBNVRTC", "NVRTC", symbols, COUNT_OF(symbols), &the_library, path, problem))
        return;
    if (newest < OLDEST_MAJOR)
        error_hint(problem, "Correct WEFT_LIBNVRTC, or unset it.");
    else
        error_hint(problem,
                   "Correct WEFT_LIBNVRTC, or unset it: then NVRTC of CUDA %d%s is looked for where the system has it.",
                   newest, newest > OLDEST_MAJOR ? " or older" : "");
}

static void open_default(int driver_major, Text *path, Text *why)
{
    char paths[N_MAJORS * N_FOLDERS][NAME_MAX_BYTES];
    const char *names[N_MAJORS * N_FOLDERS + 1] = { NULL };
    int n_names = 0;
    for (int major = NEWEST_MAJOR; major >= OLDEST_MAJOR; major--) {
        if (driver_major > 0 && major > driver_major)
            continue;
        for (int folder = 0; folder < N_FOLDERS; folder++) {
            strcpy(paths[n_names], folders[folder]);
            strcat(paths[n_names], file_name(major));
            names[n_names] = paths[n_names];
            n_names++;
        }
    }
    library_open(names, symbols, COUNT_OF(symbols), &the_library, path, why);
}

// DRIVER_MAJOR 0: not known.
static void nothing_found(Error *problem, int driver_major, const Text *why)
{
    const int   newest = newest_for(driver_major);
    const char *reason = why->bytes ? why->bytes : "the driver is too old for any that Weft knows";
    fail(problem, WEFT_NO_DEVICE, -1, "NVRTC was not found: %.*s", (int)strcspn(reason, "\n"), reason);
    if (newest < OLDEST_MAJOR)
        error_hint(problem, "Update NVIDIA's driver: it is of CUDA %d, and Weft needs NVRTC of CUDA %d to %d.",
                   driver_major, OLDEST_MAJOR, NEWEST_MAJOR);
    else
        error_hint(
            problem,
            "Install NVRTC of CUDA %d%s (NVIDIA: cuda-nvrtc-%d-*; Debian: libnvrtc*; pip: nvidia-cuda-nvrtc), or set "
            "WEFT_LIBNVRTC to its file.",
            newest, newest > OLDEST_MAJOR ? " or older" : "", newest);
}

// ---- the end of the process -----------------------------------------------------------------------------------------
// exit calls what is registered last first, and NVRTC registers destructors: most when it is opened, a few in the
// middle of the first compile.  What waits for compiles is to be called before them.  So it is registered before NVRTC
// is opened and after it, again and again during the first compile, and after that.

#define REGISTER_US  2000
#define WAIT_SECONDS 10                                     // for one that was met in the middle of it and never ends

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  left;
    int             n_inside, n_compiled;
    bool            is_ending;
    _Atomic pid_t   process;                                // whose threads are inside: a fork has none of them
} compiles = { .lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER };

static void wait_for_compiles(void)
{
    struct timespec until;
    int             timed_out = 0;
    if (compiles.process != getpid())
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&compiles.lock);
    compiles.is_ending = true;
    while (compiles.n_inside && !timed_out)
        timed_out = pthread_cond_timedwait(&compiles.left, &compiles.lock, &until);
    pthread_mutex_unlock(&compiles.lock);
}

// A fork in the middle of atexit would leave its child a locked mutex, and the child could not exit.
static void lock_for_fork(void) { pthread_mutex_lock(&compiles.lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&compiles.lock); }
static void watch_forks(void) { pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork); }

// False: a compile is done, and NVRTC registers nothing any more; or the program ends.
static bool wait_at_exit(void)
{
    pthread_mutex_lock(&compiles.lock);
    const bool is_early = !compiles.n_compiled && !compiles.is_ending;
    if (is_early)
        atexit(wait_for_compiles);
    pthread_mutex_unlock(&compiles.lock);
    return is_early;
}

static void *keep_registering(void *context)
{
    while (wait_at_exit())
        usleep(REGISTER_US);
    return context;
}

static bool begin_inside(void)
{
    pthread_mutex_lock(&compiles.lock);
    const bool may_begin = !compiles.is_ending;
    compiles.process = getpid();
    compiles.n_inside += may_begin;
    pthread_mutex_unlock(&compiles.lock);
    return may_begin;
}

static void end_inside(void)
{
    pthread_mutex_lock(&compiles.lock);
    ASSERT(compiles.n_inside > 0);
    compiles.n_inside--;
    pthread_cond_broadcast(&compiles.left);
    pthread_mutex_unlock(&compiles.lock);
}

static void start_registrar(void)
{
    pthread_t      thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    thread_start(&thread, &detached, keep_registering, NULL);          // refused: what is registered so far must do
    pthread_attr_destroy(&detached);
}

bool nvrtc_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!begin_inside())
        return false;
    pthread_once(&once, start_registrar);
    return true;
}

void nvrtc_leave(void)
{
    wait_at_exit();
    pthread_mutex_lock(&compiles.lock);
    compiles.n_compiled++;
    pthread_mutex_unlock(&compiles.lock);
    end_inside();
}

// ---- opening --------------------------------------------------------------------------------------------------------

static void open_library(int driver_major)
{
    Text path = { 0 }, why = { 0 };
    if (library_named("WEFT_LIBNVRTC"))
        open_named(driver_major, &path);
    else
        open_default(driver_major, &path, &why);
    the_library.path = path.bytes;                          // NULL when nothing was found; else kept
    if (the_library.path)
        the_library.Version(&the_library.major, &the_library.minor);
    else if (!the_library.problem.status)
        nothing_found(&the_library.problem, driver_major, &why);
    text_free(&why);
}

const Nvrtc *nvrtc_library(int driver_version)
{
    pthread_mutex_lock(&lock);
    if (!is_opened) {
        watch_forks();
        wait_at_exit();
        // Where the program ends already, it is too late to be careful.
        const bool is_inside = begin_inside();
        open_library(driver_version / 1000);
        wait_at_exit();
        if (is_inside)
            end_inside();
    }
    is_opened = true;
    pthread_mutex_unlock(&lock);
    return &the_library;
}

weft_status nvrtc_need(int driver_version, const Nvrtc **nvrtc, Error *err)
{
    *nvrtc = nvrtc_library(driver_version);
    const Error *problem = &(*nvrtc)->problem;
    if (!problem->status)
        return WEFT_OK;
    weft_status status = fail(err, problem->status, -1, "%s", problem->message);
    error_hint(err, "%s", problem->hint);
    return status;
}

// ---- errors ---------------------------------------------------------------------------------------------------------

weft_status nvrtc_check(const Nvrtc *nvrtc, NvrtcResult result, const char *call, Error *err)
{
    if (result == NVRTC_SUCCESS)
        return WEFT_OK;
    const char *text = nvrtc->GetErrorString(result);
    weft_status status = result == NVRTC_OUT_OF_MEMORY ? WEFT_OUT_OF_MEMORY : WEFT_KERNEL_BUILD;
    return fail(err, status, -1, "%s: %s (%d)", call, text ? text : "failed", result);
}

static bool knows(const Nvrtc *nvrtc, int major, int minor)
{
    enum { MAX_ARCHITECTURES = 128 };
    int count = 0, architectures[MAX_ARCHITECTURES];
    if (nvrtc->GetNumSupportedArchs(&count) || count > MAX_ARCHITECTURES || nvrtc->GetSupportedArchs(architectures))
        return false;
    for (int i = 0; i < count; i++)
        if (architectures[i] == major * 10 + minor)
            return true;
    return false;
}

weft_status nvrtc_check_capability(const Nvrtc *nvrtc, int major, int minor, Error *err)
{
    const bool is_dropped = nvrtc->major >= 13 && major * 10 + minor < 75;     // CUDA 13 begins with Turing
    if (knows(nvrtc, major, minor))
        return WEFT_OK;
    fail(err, WEFT_NO_DEVICE, -1, "NVRTC %d.%d does not know compute capability %d.%d", nvrtc->major, nvrtc->minor,
         major, minor);
    error_hint(err, "Install NVRTC of %s, or set WEFT_LIBNVRTC to its file.",
               is_dropped ? "CUDA 12, the last for this GPU" : "a newer CUDA, and a driver that goes with it");
    return WEFT_NO_DEVICE;
}
