// cuda_driver.c - find NVIDIA's driver, ask it how many GPUs there are, and put its errors into our words.
//
// The library has one name on all systems (libcuda.so.1) since its interface only grows; the folders after it are where
// containers and WSL put it without telling the system's search.  What is missing is a sentence with a hint, not a log
// line: people who see it have bought a card and want to know what to install.

#include <stdio.h>

#include "device/cuda_driver.h"

static const char *const default_names[] = {
    "libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    NULL,
};

static const LibrarySymbol symbols[] = {
#define CUDA_SYMBOL(field, symbol, parameters)          { #symbol, offsetof(CudaDriver, field), false },
#define CUDA_OPTIONAL_SYMBOL(field, symbol, parameters) { #symbol, offsetof(CudaDriver, field), true },
    CUDA_CALLS(CUDA_SYMBOL)
    CUDA_OPTIONAL_CALLS(CUDA_OPTIONAL_SYMBOL)
};

static CudaDriver     the_driver;                           // written by open_driver only
static pthread_once_t is_opened = PTHREAD_ONCE_INIT;

static void no_driver(Error *problem, Text *why)
{
    bool has_card =
        file_exists("/proc/driver/nvidia/version") || file_exists("/dev/nvidia0") || file_exists("/dev/dxg");
    char *line = why->bytes ? strchr(why->bytes, '\n') : NULL;
    if (line)
        *line = 0;                                          // the first name is the one that matters
    fail(problem, WEFT_NO_DEVICE, -1, "no NVIDIA driver: %s", why->bytes ? why->bytes : "libcuda.so.1 was not found");
    if (has_card)
        error_hint(
            problem,
            "There is a card: set WEFT_LIBCUDA to the driver's libcuda.so.1 or LD_LIBRARY_PATH to its folder; in a "
            "container, give it the driver (docker run --gpus all).");
    else
        error_hint(problem, "For a GPU, install NVIDIA's driver (Debian: nvidia-driver).");
}

static void count_gpus(CudaDriver *driver)
{
    Error *problem = &driver->problem;
    const char *call = "cuInit";
    CuResult result = driver->Init(0);
    if (result == CU_SUCCESS) {
        call = "cuDeviceGetCount";
        result = driver->DeviceGetCount(&driver->n_gpus);
    }
    if (result == CU_NO_DEVICE || (result == CU_SUCCESS && driver->n_gpus <= 0)) {
        fail(problem, WEFT_NO_DEVICE, -1, "the NVIDIA driver sees no GPU");
        error_hint(problem, "CUDA_VISIBLE_DEVICES hides GPUs; nvidia-smi lists them.");
    } else if (cuda_check(driver, result, call, problem)) {
        problem->status = WEFT_NO_DEVICE;
        snprintf(problem->sqlstate, sizeof(problem->sqlstate), "55000");
        error_hint(problem, "nvidia-smi says more about the driver.");
    }
    if (problem->status)
        driver->n_gpus = 0;
}

// A user who names a file has a driver, so no hint what to install.
static bool open_named(Text *path)
{
    Error *problem = &the_driver.problem;
    if (library_open_named("WEFT_LIBCUDA", "NVIDIA's driver", symbols, COUNT_OF(symbols), &the_driver, path, problem))
        return true;
    error_hint(
        problem,
        "Correct WEFT_LIBCUDA, or unset it: then the driver's libcuda.so.1 is looked for where the system has it.");
    return false;
}

static bool open_default(Text *path)
{
    Text why = { 0 };
    const bool is_open = library_open(default_names, symbols, COUNT_OF(symbols), &the_driver, path, &why) != NULL;
    if (!is_open)
        no_driver(&the_driver.problem, &why);
    text_free(&why);
    return is_open;
}

static void open_driver(void)
{
    Text path = { 0 };
    if (library_named("WEFT_LIBCUDA") ? open_named(&path) : open_default(&path)) {
        the_driver.path = path.bytes;                       // kept for the life of the process
        the_driver.DriverGetVersion(&the_driver.version);
        count_gpus(&the_driver);
    } else {
        text_free(&path);
    }
}

const CudaDriver *cuda_driver(void)
{
    pthread_once(&is_opened, open_driver);
    return &the_driver;
}

weft_status cuda_need(const CudaDriver **driver, Error *err)
{
    *driver = cuda_driver();
    const Error *problem = &(*driver)->problem;
    if (!problem->status)
        return WEFT_OK;
    weft_status status = fail(err, problem->status, -1, "%s", problem->message);
    error_hint(err, "%s", problem->hint);
    return status;
}

weft_status cuda_check(const CudaDriver *driver, CuResult result, const char *call, Error *err)
{
    if (result == CU_SUCCESS)
        return WEFT_OK;
    const char *name = NULL, *text = NULL;
    if (driver->GetErrorName(result, &name) || !name)
        name = "an error the driver has no name for";
    if (driver->GetErrorString(result, &text) || !text)
        text = "failed";
    weft_status status = result == CU_OUT_OF_MEMORY ? WEFT_OUT_OF_MEMORY : WEFT_DEVICE_FAILED;
    return fail(err, status, -1, "%s: %s (%s, %d)", call, text, name, result);
}

weft_status cuda_check_number(int number, Error *err)
{
    const CudaDriver *driver;
    TRY(cuda_need(&driver, err));
    const int n_usable = MIN_OF(driver->n_gpus, (int)CUDA_GPUS_MOST);
    if (number >= 0 && number < n_usable)
        return WEFT_OK;
    if (number >= n_usable && number < driver->n_gpus) {
        fail(err, WEFT_NO_DEVICE, -1, "Weft uses the first %d GPUs of the %d that the driver sees, not cuda:%d",
             n_usable, driver->n_gpus, number);
        error_hint(err, "CUDA_VISIBLE_DEVICES says which ones the driver sees, and in which order.");
    } else {
        fail(err, WEFT_NO_DEVICE, -1, "there is no device cuda:%d", number);
        error_hint(err, "The driver sees %d of them, from cuda:0 on.", driver->n_gpus);
    }
    return WEFT_NO_DEVICE;
}

weft_status cuda_check_capability(const char *name, const char *card, int major, int minor, Error *err)
{
    enum { LEAST_MAJOR = 7 };
    if (major >= LEAST_MAJOR)
        return WEFT_OK;
    fail(err, WEFT_NO_DEVICE, -1, "%s (%s) is too old: compute capability %d.%d, and %d.0 is the least", name, card,
         major, minor, LEAST_MAJOR);
    error_hint(err,
               "Weft uses GPUs from Volta on (V100, T4, RTX 20 and later); weft devices lists those that are here.");
    return WEFT_NO_DEVICE;
}

// Those after which the driver's manual says that the context is left in an inconsistent state.
bool cuda_is_sticky(CuResult result)
{
    switch (result) {
    case 214:                                               // ECC_UNCORRECTABLE
    case 220:                                               // NVLINK_UNCORRECTABLE
    case 226:                                               // CONTAINED: an ECC error, fenced in
    case CU_ILLEGAL_ADDRESS:
    case 702:                                               // LAUNCH_TIMEOUT
    case 709:                                               // CONTEXT_IS_DESTROYED
    case 710:                                               // ASSERT
    case 714:                                               // HARDWARE_STACK_ERROR
    case 715:                                               // ILLEGAL_INSTRUCTION
    case 716:                                               // MISALIGNED_ADDRESS
    case 717:                                               // INVALID_ADDRESS_SPACE
    case 718:                                               // INVALID_PC
    case 719:                                               // LAUNCH_FAILED
    case 721:                                               // TENSOR_MEMORY_LEAK
    case CU_DEINITIALIZED:
    case 46:                                                // DEVICE_UNAVAILABLE
    case 999:                                               // UNKNOWN: as from a card that has fallen off the bus
        return true;
    default:
        return false;
    }
}
