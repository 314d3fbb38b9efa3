// NVRTC's code: made from the samples of kernel text, remembered on disk.  Passes over where there is no NVRTC; needs
// no GPU.

#include "test.h"

#include "jit/nvrtc.h"
#include "jit/nvrtc_library.h"
#include "kernel/kernel.h"

#include <stdlib.h>

static char *words(void)
{
    Text text = { 0 };
    text_add(&text, "%s\n%s", kernel_args_text, kernel_cuda_text);
    return text.bytes;
}

static bool has_nvrtc(void) { return nvrtc_library(0)->path != NULL; }

static void remove_folder(const char *directory)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    CHECK(system(command) == 0);
}

static void read_sample(const char *name, Text *text)
{
    Error err = { 0 };
    char  path[256];
    snprintf(path, sizeof path, "tests/kernels/%s.k", name);
    CHECK_OK(file_read_all(path, text, &err), err);
}

static void check_compiles(const char *name, const char *items, const char *tables, const char *groups)
{
    Error       err = { 0 };
    Text        text = { 0 }, cubin = { 0 };
    bool        was_cached;
    char       *prelude = words();
    Cubins     *cubins = cubins_new("");
    read_sample(name, &text);
    const CubinJob job = { .prelude = prelude,
                           .text = text.bytes,
                           .major = 9,
                           .minor = 0,
                           .n_defines = 3,
                           .defines = (const char *[]){ items, tables, groups } };
    CHECK_OK(cubins_get(cubins, &job, &cubin, &was_cached, &err), err);
    CHECK(!was_cached);
    CHECK(cubin.length > 4 && memcmp(cubin.bytes, "\177ELF", 4) == 0);
    text_free(&text);
    text_free(&cubin);
    free(prelude);
    cubins_free(cubins);
}

TEST(samples_compile_in_all_shapes)
{
    static const char *const names[] = { "totals", "groups_array", "groups_hash", "groups_words",
                                         "joins",  "rows",         "arithmetic",  "dates",        "math" };
    if (!has_nvrtc()) return;
    for (int n = 0; n < COUNT_OF(names); n++) {
        check_compiles(names[n], "ITEMS=8", "SHARED_TABLES_=0", "SHARED_GROUPS_=0");
        if (n < 2) check_compiles(names[n], "ITEMS=4", "SHARED_TABLES_=0xffu", "SHARED_GROUPS_=0x1ffu");
    }
}

TEST(a_cubin_is_found_again_and_its_options_count)
{
    Error   err = { 0 };
    Text    text = { 0 }, first = { 0 }, second = { 0 };
    bool    was_cached;
    char    directory[] = "/tmp/weft-cubins.XXXXXX";
    if (!has_nvrtc()) return;
    CHECK(mkdtemp(directory));
    char   *prelude = words();
    Cubins *cubins = cubins_new(directory);
    read_sample("totals", &text);
    CubinJob job = { .prelude = prelude,
                     .text = text.bytes,
                     .major = 9,
                     .minor = 0,
                     .n_defines = 1,
                     .defines = (const char *[]){ "ITEMS=2" } };
    CHECK(!cubins_have(cubins, &job));
    CHECK_OK(cubins_get(cubins, &job, &first, &was_cached, &err), err);
    CHECK(!was_cached);
    CHECK(cubins_have(cubins, &job));
    CHECK_OK(cubins_get(cubins, &job, &second, &was_cached, &err), err);
    CHECK(was_cached);
    CHECK(first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0);
    job.defines = (const char *[]){ "ITEMS=1" };
    CHECK(!cubins_have(cubins, &job));
    text_clear(&second);
    CHECK_OK(cubins_get(cubins, &job, &second, &was_cached, &err), err);
    CHECK(!was_cached);
    cubins_free(cubins);
    free(prelude);
    text_free(&text);
    text_free(&first);
    text_free(&second);
    remove_folder(directory);
}

TEST(options_of_the_environment_count_too)
{
    Error   err = { 0 };
    Text    text = { 0 }, cubin = { 0 };
    bool    was_cached;
    char    directory[] = "/tmp/weft-cubins.XXXXXX";
    if (!has_nvrtc()) return;
    CHECK(mkdtemp(directory));
    char    *prelude = words();
    Cubins  *cubins = cubins_new(directory);
    read_sample("totals", &text);
    const CubinJob job = { .prelude = prelude, .text = text.bytes, .major = 9, .minor = 0 };
    CHECK_OK(cubins_get(cubins, &job, &cubin, &was_cached, &err), err);
    setenv("WEFT_NVRTC_OPTIONS", "--ptxas-options=-O1  -DITEMS=2", 1);
    CHECK(!cubins_have(cubins, &job));
    text_clear(&cubin);
    CHECK_OK(cubins_get(cubins, &job, &cubin, &was_cached, &err), err);
    setenv("WEFT_NVRTC_OPTIONS", "--no-such-option", 1);
    CHECK_STATUS(cubins_get(cubins, &job, &cubin, &was_cached, &err), WEFT_KERNEL_BUILD);
    unsetenv("WEFT_NVRTC_OPTIONS");
    CHECK(cubins_have(cubins, &job));
    cubins_free(cubins);
    free(prelude);
    text_free(&text);
    text_free(&cubin);
    remove_folder(directory);
}

TEST(what_is_remembered_is_recalled_by_its_name)
{
    Text    text = { 0 };
    char    directory[] = "/tmp/weft-cubins.XXXXXX";
    CHECK(mkdtemp(directory));
    Cubins *cubins = cubins_new(directory);
    CHECK(!cubins_recall(cubins, "GB/s of a card", &text));
    cubins_remember(cubins, "GB/s of a card", "4523");
    cubins_free(cubins);
    cubins = cubins_new(directory);
    CHECK(cubins_recall(cubins, "GB/s of a card", &text));
    CHECK_STR(text.bytes, "4523");
    CHECK(!cubins_recall(cubins, "GB/s of another", &text));
    cubins_free(cubins);
    text_free(&text);
    remove_folder(directory);
}

TEST(a_text_that_does_not_compile_says_why)
{
    Error    err = { 0 };
    Text     cubin = { 0 };
    bool     was_cached;
    Cubins  *cubins = cubins_new("");
    CubinJob job = { .prelude = "", .text = "this is no kernel", .major = 9, .minor = 0 };
    if (has_nvrtc()) {
        CHECK_STATUS(cubins_get(cubins, &job, &cubin, &was_cached, &err), WEFT_KERNEL_BUILD);
        CHECK_HAS(err.message, "nvrtcCompileProgram: error");
    }
    cubins_free(cubins);
    text_free(&cubin);
}

// The kernel that stays on a GPU, as src/flow writes it: texts in C with helpers of one name, all words.
TEST(a_flow_of_three_operators_compiles)
{
    static const char text[] =
        "namespace code_0 {\nstatic u32 helper(u32 a) { return a + 1; }\n"
        "OPERATOR(first)\n{\n    INPUT(u32, in);  OUTPUT(u32, out);  PARAMS(u32, by);\n"
        "    EACH_ITEM(i, N_ITEMS(u32)) out[i] = helper(in[i]) * by[0];\n"
        "    EMIT(u32, N_ITEMS(u32));\n    EMIT_TAG(TAG);\n}\n}\n"
        "namespace code_1 {\ntypedef struct Total { u64 n; } Total;\nstatic u32 helper(u32 a) { return a + 2; }\n"
        "OPERATOR(second)\n{\n    INPUT(u8, in);  OUTPUT(u8, out);  STATE(Total, total);\n"
        "    COPY_ITEMS(u8, out, in, N_ITEMS(u8));\n"
        "    MAP_ITEMS(u8, out, in, N_ITEMS(u8), x, helper(x));\n"
        "    if (IS_FIRST_WORKER) total->n++;\n    if (IS_END) FAIL_WITH(1);\n"
        "    EMIT(u8, CAPACITY(u8));\n}\n}\n"
        "namespace code_2 {\nOPERATOR(third)\n{\n    COLUMN(i32, day, 0);  COLUMN(f64, price, 1);  OUTPUT(f64, out);\n"
        "    PARAMS(i32, days);\n    f64 sum = 0;\n"
        "    EACH_PAGE(p, day, MAY_HOLD(day, p, days[0], days[1]) && MAY_HOLD_F64(price, p, 0, 1e9)) {\n"
        "        VALUES(i32, d, day, p);  VALUES(f64, x, price, p);\n"
        "        EACH_ROW(i, day, p) if (days[0] <= d[i] && d[i] <= days[1]) sum += x[i];\n    }\n"
        "    SUM_WORKERS(f64, out, sum);\n}\n}\n"
        "static __device__ __forceinline__ void flow_dispatch_(u32 code, FlowRound *round)\n{\n    switch (code) {\n"
        "    case 0: code_0::operator_(round); break;\n    case 1: code_1::operator_(round); break;\n"
        "    case 2: code_2::operator_(round); break;\n    }\n}\n"
        "FLOW_KERNEL\n";
    if (!has_nvrtc()) return;
    Error   err = { 0 };
    Text    prelude = { 0 }, cubin = { 0 };
    bool    was_cached;
    Cubins *cubins = cubins_new("");
    text_add(&prelude, "%s\n%s\n%s\n%s\n", kernel_flow_text, kernel_flow_pages_text, kernel_flow_args_text,
             kernel_flow_loop_text);
    const CubinJob job = { .prelude = prelude.bytes, .text = text, .major = 9, .minor = 0, .is_tile_c = true };
    CHECK_OK(cubins_get(cubins, &job, &cubin, &was_cached, &err), err);
    CHECK(cubin.length > 4 && memcmp(cubin.bytes, "\177ELF", 4) == 0);
    text_free(&prelude);
    text_free(&cubin);
    cubins_free(cubins);
}
