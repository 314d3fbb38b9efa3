// sorted.c - a GPU puts rows in order: keys of 1 to 4 words, of all shapes and sizes; equal keys stay as they came.
//
//     sorted                     all shapes in small sizes; with the fake driver also each call that fails
//     sorted --large N           N rows (100 M) at most: the same checks, and how many keys are sorted in a second
//
// Run by tests/check-gpu with the fake driver, and by scripts/gpu-test (part sort) on a GPU.

#include <dlfcn.h>

#include "device/cuda.h"

#include "help.h"

enum { N_FAULTS_MOST = 300 };

typedef enum Shape { SHAPE_RANDOM, SHAPE_FEW, SHAPE_EQUAL, SHAPE_SORTED, SHAPE_REVERSED, SHAPE_HIGH, N_SHAPES } Shape;
static const char *const shape_names[] = { "random", "few distinct", "all equal", "sorted", "reversed",
                                           "high bits only" };

typedef struct Keys { u64 n; int n_words, width; u64 *words[SORT_WORDS]; } Keys;

static u64 next_random(u64 *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state ^ *state >> 29;
}

// Of the last word; the words before it have few values, so that ties are broken by it.
static u64 key_of(Shape shape, u64 row, u64 n, u64 *state)
{
    switch (shape) {
        case SHAPE_FEW: return next_random(state) % 7 * 1000003;
        case SHAPE_EQUAL: return 42;
        case SHAPE_SORTED: return row;
        case SHAPE_REVERSED: return n - row;
        case SHAPE_HIGH: return next_random(state) << 56;
        default: return next_random(state);
    }
}

static Keys make_keys(u64 n, int n_words, int width, Shape shape)
{
    Keys keys = { n, n_words, width, { 0 } };
    u64  state = n * 31 + (u64)n_words + (u64)shape;
    for (int w = 0; w < n_words; w++) {
        keys.words[w] = malloc((n + 1) * sizeof(u64));
        for (u64 r = 0; r < n; r++) {
            u64 key = key_of(shape, r, n, &state);
            if (w + 1 < n_words && shape != SHAPE_HIGH) key %= 5;
            keys.words[w][r] = width == 4 ? (shape == SHAPE_HIGH ? key >> 32 : key & 0xffffffff) : key;
        }
    }
    return keys;
}

static void free_keys(Keys *keys)
{
    for (int w = 0; w < keys->n_words; w++) free(keys->words[w]);
}

static void write_words(void *context, int word, u64 first, u64 end, void *to)
{
    const Keys *keys = context;
    if (keys->width == 8) memcpy(to, keys->words[word] + first, (end - first) * 8);
    for (u64 r = first; keys->width == 4 && r < end; r++) ((u32 *)to)[r - first] = (u32)keys->words[word][r];
}

static DeviceSort sort_of(Keys *keys, u32 *rows)
{
    DeviceSort sort = { .n_rows = keys->n, .n_words = keys->n_words, .width = keys->width, .write = write_words,
                        .context = keys, .may_compile = true, .rows = rows };
    for (int w = 0; w < keys->n_words; w++)
        for (u64 r = 0; r < keys->n; r++) sort.varies[w] |= keys->words[w][r] ^ keys->words[w][0];
    return sort;
}

static int compare(const Keys *keys, u32 a, u32 b)
{
    for (int w = 0; w < keys->n_words; w++)
        if (keys->words[w][a] != keys->words[w][b]) return keys->words[w][a] < keys->words[w][b] ? -1 : 1;
    return 0;
}

// NULL: each row is there once, behind those that are less, and behind equal ones that came before.
static const char *fault_of(const Keys *keys, const u32 *rows)
{
    u8         *seen = calloc(keys->n + 1, 1);
    const char *fault = NULL;
    for (u64 r = 0; r < keys->n && !fault; r++) {
        if (rows[r] >= keys->n || seen[rows[r]]) fault = "a row is there twice, or is none";
        else if (r && compare(keys, rows[r - 1], rows[r]) > 0) fault = "rows are not in order";
        else if (r && compare(keys, rows[r - 1], rows[r]) == 0 && rows[r - 1] > rows[r])
            fault = "equal rows are not as they came";
        else seen[rows[r]] = 1;
    }
    free(seen);
    return fault;
}

static void check_sort(Device *device, u64 n, int n_words, int width, Shape shape)
{
    Keys       keys = make_keys(n, n_words, width, shape);
    u32       *rows = malloc((n + 1) * sizeof *rows);
    Error      err = { 0 };
    DeviceSort sort = sort_of(&keys, rows);
    char       what[120];
    memset(rows, 0xee, (n + 1) * sizeof *rows);
    const weft_status status = device->sort(device, &sort, &err);
    snprintf(what, sizeof what, "%llu rows, %d words of %d bytes, %s", (unsigned long long)n, n_words, width,
             shape_names[shape]);
    const char *fault = status ? err.message : sort.refused[0] ? sort.refused : fault_of(&keys, rows);
    if (shape == SHAPE_EQUAL && sort.n_passes) fault = "there are passes for keys that are all equal";
    if (shape == SHAPE_HIGH && sort.n_passes > n_words) fault = "there are passes for digits that are all equal";
    check(!fault, what, fault ? fault : "");
    free(rows);
    free_keys(&keys);
}

static void check_shapes(Device *device)
{
    static const u64 sizes[] = { 0, 1, 2, 31, 2049, 4097, 20011, 65536 };
    for (int s = 0; s < COUNT_OF(sizes); s++)
        for (int shape = 0; shape < N_SHAPES; shape++) {
            check_sort(device, sizes[s], 1, 4, (Shape)shape);
            for (int n_words = 1; n_words <= SORT_WORDS; n_words++)
                check_sort(device, sizes[s], n_words, 8, (Shape)shape);
        }
}

static void check_held(Device *device, const char *when)
{
    const CudaMemory memory = cuda_memory(device);
    check(memory.bytes_held == 0, when, "memory of the device is held");
}

// ---- what is refused ------------------------------------------------------------------------------------------------

static Device *open_device(u64 memory_bytes)
{
    Device     *device = NULL;
    Error       err = { 0 };
    CudaOptions options = { .memory_bytes = memory_bytes };
    if (device_cuda_open(0, &options, &device, &err)) exit((printf("failed: %s\n", err.message), 1));
    return device;
}

static void check_no_room(void)
{
    Device    *device = open_device((u64)1 << 20);
    Keys       keys = make_keys(100000, 1, 8, SHAPE_RANDOM);
    u32       *rows = malloc((keys.n + 1) * sizeof *rows);
    Error      err = { 0 };
    DeviceSort sort = sort_of(&keys, rows);
    check(!device->sort(device, &sort, &err) && strstr(sort.refused, "out of device memory"),
          "a sort that finds no room", sort.refused);
    check_held(device, "after a sort that found no room");
    check_sort(device, 5000, 2, 8, SHAPE_RANDOM);
    device->close(device);
    free(rows);
    free_keys(&keys);
}

static void check_stopped(Device *device)
{
    Keys        keys = make_keys(5000, 1, 8, SHAPE_RANDOM);
    u32        *rows = malloc((keys.n + 1) * sizeof *rows);
    Error       err = { 0 };
    _Atomic u32 stop = 1;
    DeviceSort  sort = sort_of(&keys, rows);
    sort.stop = &stop;
    check(device->sort(device, &sort, &err) == WEFT_QUERY_CANCELED, "a sort that is stopped", "was not");
    check_held(device, "after a sort that was stopped");
    free(rows);
    free_keys(&keys);
}

typedef void FailAt(const char *call, int nth, int result);
typedef int  CallsSeen(void);

// The Nth such call fails.  The answer is right, or the sort is refused; the next one works.  False: there is no Nth.
static bool check_fault(Device *device, FailAt *fail_at, CallsSeen *calls_seen, const char *call, int nth)
{
    Keys       keys = make_keys(9000, 2, 8, SHAPE_RANDOM);
    u32       *rows = malloc((keys.n + 1) * sizeof *rows);
    Error      err = { 0 };
    DeviceSort sort = sort_of(&keys, rows);
    char       what[120];
    sort.is_explained = true;
    snprintf(what, sizeof what, "%s fails, call %d", call, nth);
    fail_at(call, nth, 2);
    const weft_status status = device->sort(device, &sort, &err);
    const int         seen = calls_seen();
    fail_at("", 0, 0);
    const char *fault = status ? err.message : sort.refused[0] ? NULL : fault_of(&keys, rows);
    check(!fault, what, fault ? fault : "");
    check_held(device, what);
    free(rows);
    free_keys(&keys);
    return seen >= nth;
}

static void check_faults(Device *device, FailAt *fail_at, CallsSeen *calls_seen)
{
    static const char *const calls[] = { "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync", "cuMemcpyDtoHAsync",
                                         "cuLaunchKernel",    "cuStreamSynchronize", "cuEventRecord",
                                         "cuEventCreate",     "cuEventSynchronize",  "cuCtxSetCurrent",
                                         "cuOccupancyMaxActiveBlocksPerMultiprocessor" };
    for (int c = 0; c < COUNT_OF(calls); c++) {
        int nth = 1;
        while (nth < N_FAULTS_MOST && check_fault(device, fail_at, calls_seen, calls[c], nth)) nth++;
        check(nth > 1 || c >= 7, calls[c], "is never called by a sort");
        check_sort(device, 3000, 1, 8, SHAPE_RANDOM);
    }
}

static void check_code_fails(FailAt *fail_at)
{
    static const char *const calls[] = { "nvrtcCompileProgram", "cuModuleLoadData" };
    for (int c = 0; c < COUNT_OF(calls); c++) {
        Device    *device = open_device((u64)8 << 20);
        Keys       keys = make_keys(100, 1, 4, SHAPE_RANDOM);
        u32        rows[100];
        Error      err = { 0 };
        DeviceSort sort = sort_of(&keys, rows);
        fail_at(calls[c], 1, 2);
        check(!device->sort(device, &sort, &err) && sort.refused[0], calls[c], "is not told");
        fail_at("", 0, 0);
        check_held(device, calls[c]);
        device->close(device);
        free_keys(&keys);
    }
}

// ---- how fast -------------------------------------------------------------------------------------------------------

enum { N_TIMES = 5 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// "sort  100,000,000 keys of 64 bits, 8 passes: kernels 21.3 ms, 4.70 G keys/s; with the link 52.1 ms, 1.92 G keys/s"
static void measure(Device *device, u64 n, int width)
{
    Keys   keys = make_keys(n, 1, width, SHAPE_RANDOM);
    u32   *rows = malloc((n + 1) * sizeof *rows);
    double kernel_ms[N_TIMES], time_ms[N_TIMES];
    int    n_passes = 0;
    for (int t = 0; t < N_TIMES; t++) {
        Error      err = { 0 };
        DeviceSort sort = sort_of(&keys, rows);
        sort.is_explained = true;
        if (device->sort(device, &sort, &err) || sort.refused[0]) {
            check(false, "a sort that is measured", sort.refused);
            break;
        }
        kernel_ms[t] = sort.kernel_ms, time_ms[t] = sort.time_ms, n_passes = sort.n_passes;
        if (t < N_TIMES - 1) continue;
        const char *fault = fault_of(&keys, rows);
        qsort(kernel_ms, N_TIMES, sizeof *kernel_ms, by_value);
        qsort(time_ms, N_TIMES, sizeof *time_ms, by_value);
        check(!fault, "a sort that is measured", fault ? fault : "");
        printf("sort %11llu keys of %d bits, %d passes: kernels %.3f ms, %.2f G keys/s; with the link %.2f ms, "
               "%.2f G keys/s\n", (unsigned long long)n, 8 * width, n_passes, kernel_ms[N_TIMES / 2],
               (double)n / kernel_ms[N_TIMES / 2] / 1e6, time_ms[N_TIMES / 2],
               (double)n / time_ms[N_TIMES / 2] / 1e6);
        fflush(stdout);
    }
    free(rows);
    free_keys(&keys);
}

static void measure_all(u64 most)
{
    Device *device = open_device(0);
    for (int width = 4; width <= 8; width += 4)
        for (u64 n = 100000; n <= most; n *= 10) measure(device, n, width);
    for (int shape = 0; shape < N_SHAPES; shape++) check_sort(device, MIN_OF(most, 3000017), 3, 8, (Shape)shape);
    device->close(device);
}

int main(int n_args, char **args)
{
    const char *driver = getenv("WEFT_LIBCUDA");
    void       *fake = driver ? dlopen(driver, RTLD_NOW) : NULL;
    FailAt     *fail_at = fake ? (FailAt *)dlsym(fake, "fake_cuda_fail") : NULL;
    CallsSeen  *calls_seen = fake ? (CallsSeen *)dlsym(fake, "fake_cuda_calls") : NULL;
    if (fail_at) setenv("WEFT_CACHE", "", 1);      // code that is there need not be compiled
    if (n_args > 1 && strcmp(args[1], "--large") == 0)
        measure_all(n_args > 2 ? strtoull(args[2], NULL, 10) : 100000000);
    Device *device = open_device((u64)16 << 20);
    check_shapes(device);
    check_held(device, "after all");
    check_stopped(device);
    if (fail_at && calls_seen) check_faults(device, fail_at, calls_seen);
    device->close(device);
    check_no_room();
    if (fail_at && calls_seen) check_code_fails(fail_at);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
