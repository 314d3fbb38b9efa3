// Libraries that may be missing: what is there is used, what is not is named.  No GPU is needed; see also
// tests/check-devices, which has a driver of its own.

#include "test.h"

#include "device/cuda_driver.h"
#include "jit/nvrtc_library.h"

typedef struct MathTable { double (*cosine)(double); double (*none)(double); } MathTable;

TEST(library_is_opened_by_the_first_name_that_has_all_symbols)
{
    const char *const names[] = { "libweft-does-not-exist.so.9", "libm.so.6", NULL };
    const LibrarySymbol symbols[] = { { "cos", offsetof(MathTable, cosine), false },
                                      { "weft_no_such_function", offsetof(MathTable, none), true } };
    MathTable table = { .none = cos };
    Text path = { 0 }, why = { 0 };
    CHECK(library_open(names, symbols, COUNT_OF(symbols), &table, &path, &why));
    CHECK_DOUBLE(table.cosine(0), 1, 0);
    CHECK(!table.none);
    CHECK_HAS(path.bytes, "/libm.so.6");
    CHECK_HAS(why.bytes, "libweft-does-not-exist.so.9: cannot open");
    text_free(&path);
    text_free(&why);
}

TEST(library_without_a_needed_symbol_is_too_old)
{
    const char *const names[] = { "libm.so.6", NULL };
    const LibrarySymbol symbols[] = { { "weft_no_such_function", offsetof(MathTable, none), false } };
    MathTable table = { 0 };
    Text path = { 0 }, why = { 0 };
    CHECK(!library_open(names, symbols, COUNT_OF(symbols), &table, &path, &why));
    CHECK_STR(why.bytes, "libm.so.6: has no weft_no_such_function: it is too old");
    CHECK(!path.bytes);
    text_free(&why);
}

// The first symbol tells whether it is the library at all, the others how old it is.
TEST(a_library_of_the_environment_is_named_with_its_variable)
{
    const LibrarySymbol known[] = { { "cos", offsetof(MathTable, cosine), false },
                                    { "weft_no_such_function", offsetof(MathTable, none), false } };
    const LibrarySymbol unknown[] = { known[1], known[0] };
    static const struct { const char *name; bool knows_first; const char *message;
    } cases[] = {
        { "libm.so.6", true, "WEFT_LIBMATHS names \"libm.so.6\", which is too old: it has no weft_no_such_function" },
        { "libm.so.6", false,
          "WEFT_LIBMATHS names \"libm.so.6\", which is not a book of maths: it has no weft_no_such_function" },
        { "/nowhere/libm.so", true,
          "WEFT_LIBMATHS names \"/nowhere/libm.so\", which cannot be opened: No such file or directory" },
        { "/", true, "WEFT_LIBMATHS names \"/\", which cannot be opened: cannot read file data: Is a directory" },
        { "/proc/self/status", true, "WEFT_LIBMATHS names \"/proc/self/status\", which cannot be opened: " },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        MathTable table = { 0 };
        Text path = { 0 };
        Error err = { 0 };
        setenv("WEFT_LIBMATHS", cases[i].name, 1);
        CHECK(!library_open_named("WEFT_LIBMATHS", "a book of maths", cases[i].knows_first ? known : unknown, 2, &table,
                                  &path, &err));
        CHECK_STATUS(err.status, WEFT_NO_DEVICE);
        CHECK_HAS(err.message, cases[i].message);
        CHECK(!path.bytes);
    }
    setenv("WEFT_LIBMATHS", "", 1);
    CHECK(!library_named("WEFT_LIBMATHS"));
}

TEST(a_missing_driver_is_named_with_a_hint)
{
    setenv("WEFT_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    const CudaDriver *driver;
    Error err = { 0 };
    CHECK_STATUS(cuda_need(&driver, &err), WEFT_NO_DEVICE);
    CHECK_STR(err.sqlstate, "55000");
    CHECK_STR(err.message,
              "WEFT_LIBCUDA names \"/nowhere/libcuda.so.1\", which cannot be opened: No such file or directory");
    CHECK_HAS(err.hint, "Correct WEFT_LIBCUDA, or unset it");
    CHECK(!driver->path && driver->n_gpus == 0);
}

TEST(a_missing_nvrtc_is_named_with_a_hint)
{
    setenv("WEFT_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
    const Nvrtc *nvrtc;
    Error err = { 0 };
    CHECK_STATUS(nvrtc_need(12040, &nvrtc, &err), WEFT_NO_DEVICE);
    CHECK_STR(err.message,
              "WEFT_LIBNVRTC names \"/nowhere/libnvrtc.so\", which cannot be opened: No such file or directory");
    CHECK_HAS(err.hint, "Correct WEFT_LIBNVRTC, or unset it");
    CHECK_HAS(err.hint, "CUDA 12 or older");
    CHECK(!nvrtc->path);
}

static CuResult error_name(CuResult result, const char **name)
{
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return result == CU_OUT_OF_MEMORY ? CU_SUCCESS : 1;
}

static CuResult error_string(CuResult result, const char **text)
{
    *text = "out of memory";
    return result == CU_OUT_OF_MEMORY ? CU_SUCCESS : 1;
}

static CuResult mem_alloc_fails(CuAddress *address, size_t bytes)
{
    return bytes == 1 ? CU_OUT_OF_MEMORY : 12345;
}

static weft_status allocate(const CudaDriver *driver, size_t bytes, Error *err)
{
    CuAddress address = 0;
    CUDA_TRY(driver, MemAlloc, (&address, bytes), err);
    return WEFT_OK;
}

TEST(errors_of_the_driver_carry_the_name_of_the_call)
{
    const CudaDriver driver = { .GetErrorName = error_name,
                                .GetErrorString = error_string,
                                .MemAlloc = mem_alloc_fails };
    Error err = { 0 };
    CHECK_STATUS(allocate(&driver, 1, &err), WEFT_OUT_OF_MEMORY);
    CHECK_STR(err.message, "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)");
    error_clear(&err);
    CHECK_STATUS(allocate(&driver, 2, &err), WEFT_DEVICE_FAILED);
    CHECK_STR(err.message, "cuMemAlloc: failed (an error the driver has no name for, 12345)");
}

TEST(only_errors_that_end_a_context_are_sticky)
{
    CHECK(cuda_is_sticky(CU_ILLEGAL_ADDRESS) && cuda_is_sticky(719) && cuda_is_sticky(214));
    CHECK(!cuda_is_sticky(CU_SUCCESS) && !cuda_is_sticky(CU_OUT_OF_MEMORY) && !cuda_is_sticky(CU_NOT_READY) &&
          !cuda_is_sticky(701));                            // too many resources asked for: that launch only
}
