// nvrtc_library.c - find NVRTC and put its errors into our words.
//
// Its file carries the major version in its name.  A driver loads code of its own major version and of those before,
// so we look for the driver's first and go back two.  It is found by the system's search or where NVIDIA's installer
// puts it; Python's packages of it are found when LD_LIBRARY_PATH or $WEFT_LIBNVRTC names them.

#include "jit/nvrtc_exit.h"
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
        // Where the program ends already, it is too late to be careful.
        const bool is_inside = nvrtc_begin_opening();
        open_library(driver_version / 1000);
        nvrtc_end_opening(is_inside);
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
