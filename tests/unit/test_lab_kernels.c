// test_lab_kernels.c - the lab's kernels: their CUDA text, run by threads of the CPU, gives the CPU's answers at every
// launch shape, and a wrong answer is noticed.

#include "test.h"

#include "lab_kernels.h"
#include "jit/nvrtc.h"
#include "jit/nvrtc_library.h"
#include "lab/work.h"

typedef struct Shape { u32 n_blocks, threads; } Shape;

static const Shape shapes[] = { { 1, 32 }, { 3, 64 }, { 2, 160 }, { 7, 96 }, { 1, 512 } };

typedef struct Outputs { void *out[WORK_OUTPUTS], *scratch; LabBlockTime *times; } Outputs;

// As much garbage as there is behind an output would be noticed by a sanitizer.
static Outputs run(const LabWork *work, void (*kernel)(const LabArgs), Shape shape)
{
    LabArgs args = { 0 };
    Outputs outputs = { 0 };
    for (int i = 0; i < WORK_INPUTS; i++)
        args.in[i] = work->in[i];
    for (int i = 0; i < WORK_OUTPUTS; i++)
        args.out[i] = outputs.out[i] = calloc(1, work->out_bytes[i] + 1);
    for (int i = 0; i < WORK_NUMBERS; i++)
        args.n[i] = work->n[i], args.f[i] = work->f[i];
    args.scratch = outputs.scratch = calloc(1, work->scratch_bytes + 1);
    args.times = outputs.times = calloc(shape.n_blocks, sizeof *outputs.times);
    shim_launch(kernel, &args, shape.n_blocks, shape.threads);
    return outputs;
}

static void free_outputs(Outputs *outputs)
{
    for (int i = 0; i < WORK_OUTPUTS; i++)
        free(outputs->out[i]);
    free(outputs->scratch);
    free(outputs->times);
}

static bool is_right(const LabWork *work, const Outputs *outputs, Error *err)
{
    error_clear(err);
    return work_check(work, (const void *const *)outputs->out, err) == WEFT_OK;
}

static void check_kernel(const char *name, void (*kernel)(const LabArgs), int items)
{
    Arena *arena = arena_new(NULL, "test");
    const WorkKind *kind = work_find(name);
    Error err = { 0 };
    CHECK(kind != NULL);
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        const LabWork *work = work_new(arena, kind, &(WorkSize){ 61, items + s }, (u64)s + 1);
        Outputs outputs = run(work, kernel, shapes[s]);
        if (!is_right(work, &outputs, &err))
            CHECK_FAIL("%u blocks of %u threads: %s", shapes[s].n_blocks, shapes[s].threads, err.message);
        for (u32 b = 0; b < shapes[s].n_blocks; b++)
            CHECK(outputs.times[b].start_ns > 0 && outputs.times[b].end_ns >= outputs.times[b].start_ns);
        // A bit that is changed is found, in each output.
        for (int i = 0; i < WORK_OUTPUTS; i++) {
            u8 *bytes = outputs.out[i];
            if (!work->out_bytes[i])
                continue;
            // Of outputs with room for more rows than there are, the first byte is of their number.
            const size_t last = strstr(name, "select") ? 0 : work->out_bytes[i] - 1;
            bytes[last] ^= 0x40;
            CHECK(!is_right(work, &outputs, &err));
            CHECK_HAS(err.message, name);
            bytes[last] ^= 0x40;
        }
        free_outputs(&outputs);
    }
    arena_free(arena);
}

// Numbers of items that no shape divides.
TEST(vector_add) { check_kernel("vector_add", vector_add, 37); }
TEST(reduction) { check_kernel("reduction", reduction, 37); }
TEST(scan_of_tiles_by_ticket) { check_kernel("scan", scan, 37); }
TEST(matrix_multiply) { check_kernel("matrix_multiply", matrix_multiply, 5); }
TEST(transpose) { check_kernel("transpose", transpose, 80); }
TEST(histogram) { check_kernel("histogram", histogram, 37); }
TEST(black_scholes) { check_kernel("black_scholes", black_scholes, 7); }
TEST(convolution_with_edges) { check_kernel("convolution", convolution, 43); }
TEST(monte_carlo) { check_kernel("monte_carlo", monte_carlo, 3); }
TEST(md5_finds_wrong_digests) { check_kernel("md5", md5, 5); }
TEST(radial_distribution_of_all_pairs) { check_kernel("radial_distribution", radial_distribution, 531); }
TEST(nested_loop_join_with_equal_keys) { check_kernel("nested_loop_join", nested_loop_join, 1500); }
TEST(hash_join_of_partitions) { check_kernel("hash_join", hash_join, 150); }
TEST(hash_build) { check_kernel("hash_build", hash_build, 21); }
TEST(hash_probe_of_one_table) { check_kernel("hash_probe", hash_probe, 21); }
TEST(hash_probe_of_two_tables) { check_kernel("hash_probe_2", hash_probe, 21); }

TEST(arithmetic_in_one_kernel) { check_kernel("arithmetic", arithmetic, 21); }
TEST(arithmetic_minus) { check_kernel("one_minus", arithmetic, 21); }
TEST(arithmetic_plus) { check_kernel("one_plus", arithmetic, 21); }
TEST(arithmetic_product) { check_kernel("product", arithmetic, 21); }

TEST(two_selects_in_one_kernel) { check_kernel("two_selects", selects, 21); }
TEST(first_select) { check_kernel("first_select", selects, 21); }
TEST(second_select) { check_kernel("second_select", selects, 21); }

TEST(synthetic_kernel_ends_by_rounds_or_by_time)
{
    LabWork work = { .kind = &work_synthetic, .n = { 1000 }, .out_bytes = { sizeof(float) } };
    Outputs outputs = run(&work, synthetic, shapes[1]);
    free_outputs(&outputs);
    work.n[0] = UINT32_MAX;
    work.n[1] = 2000000;                                    // 2 ms
    const double start_ms = time_now_ms();
    outputs = run(&work, synthetic, (Shape){ 1, 32 });
    CHECK(time_now_ms() - start_ms >= 2);
    CHECK(outputs.times[0].end_ns - outputs.times[0].start_ns >= 1999000);
    free_outputs(&outputs);
}

// Where NVRTC is installed, with or without a GPU.
TEST(nvrtc_compiles_every_kernel)
{
    extern const char lab_kernel_args_text[];
    const Nvrtc *nvrtc;
    Error err = { 0 };
    if (nvrtc_need(0, &nvrtc, &err)) {
        printf("skipped: %s\n", err.message);
        return;
    }
    Cubins *cubins = cubins_new("");
    for (int k = 0; k <= work_count(); k++) {
        const WorkKind *kind = k < work_count() ? work_kind(k) : &work_synthetic;
        const CubinJob job = { .prelude = lab_kernel_args_text, .text = kind->text, .major = 9, .n_defines = 1,
                               .defines = (const char *const[]){ "LIVE=5" } };
        Text cubin = { 0 };
        bool was_cached;
        error_clear(&err);
        CHECK_OK(cubins_get(cubins, &job, &cubin, &was_cached, &err), err);
        CHECK(cubin.length > 0);
        text_free(&cubin);
    }
    cubins_free(cubins);
}

TEST(input_depends_on_the_seed_only)
{
    Arena *arena = arena_new(NULL, "test");
    const WorkSize size = { 40, 9 };
    for (int k = 0; k < work_count(); k++) {
        const LabWork *first = work_new(arena, work_kind(k), &size, 7);
        const LabWork *again = work_new(arena, work_kind(k), &size, 7);
        const LabWork *other = work_new(arena, work_kind(k), &size, 8);
        bool differs = first->n[2] != other->n[2];
        for (int i = 0; i < WORK_INPUTS; i++) {
            CHECK_INT(first->in_bytes[i], again->in_bytes[i]);
            CHECK_BYTES(first->in[i], again->in[i], first->in_bytes[i]);
            differs = differs || first->in_bytes[i] != other->in_bytes[i] ||
                      (first->in_bytes[i] && memcmp(first->in[i], other->in[i], first->in_bytes[i]) != 0);
        }
        CHECK(differs);
    }
    arena_free(arena);
}
