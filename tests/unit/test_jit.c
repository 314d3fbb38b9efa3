// test_jit.c - both compilers, the swap between them, the cache on disk, and compilers that misbehave.

#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "base/base.h"
#include "jit/jit.h"
#include "jit/jit_int.h"

static const char prelude[] =
    "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;\n"
    "typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;\n"
    "typedef struct Args { i64 n; i64 *in; double *numbers; i64 *out; double *out_numbers; } Args;\n";

typedef struct Args { i64 n; i64 *in; double *numbers; i64 *out; double *out_numbers; } Args;

#define HEAD(name) "void " name "(void *args_)\n{\n    Args *a = args_;\n"

static const char sum_text[] = HEAD("p_sum") "    i64 sum = 0;\n"
    "    for (i64 i = 0; i < a->n; i++)\n        sum += a->in[i] * 3;\n    a->out[0] = sum;\n}\n";

// ---- helpers -------------------------------------------------------------------------------------------------------

static Jit *new_jit(const char *cache_dir, const char *cc)
{
    return jit_new(&(JitOptions){ .prelude = prelude, .cache_dir = cache_dir, .cc = cc });
}

static i64 run_sum(const Code *code, JitTier *tier)
{
    i64 in[1000], out[1] = { 0 };
    for (int i = 0; i < 1000; i++)
        in[i] = i;
    Args args = { 1000, in, NULL, out, NULL };
    code_function(code, tier)(&args);
    return out[0];
}

static const i64 sum_expected = 3 * 999 * 1000 / 2;

static Code *get_ok(Jit *jit, const char *text, const char *name, JitMode mode)
{
    Code *code = NULL;
    const char *notice = NULL;
    Error err = { 0 };
    CHECK_OK(jit_get(jit, text, name, mode, &code, &notice, &err), err);
    if (notice)
        CHECK_FAIL("unexpected notice: %s", notice);
    return code;
}

static const char *get_notice(Jit *jit, JitMode mode, JitTier expected)
{
    Code *code = NULL;
    const char *notice = NULL;
    Error err = { 0 };
    JitTier tier;
    CHECK_OK(jit_get(jit, sum_text, "p_sum", mode, &code, &notice, &err), err);
    CHECK_INT(run_sum(code, &tier), sum_expected);
    CHECK_INT(tier, expected);
    return notice;
}

static int count_files(const char *directory, const char *part)
{
    int n = 0;
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.' && strstr(entry->d_name, part) != NULL;
    if (dir)
        closedir(dir);
    return n;
}

static void find_file(const char *directory, const char *part, char *path, size_t capacity)
{
    DIR *dir = opendir(directory);
    path[0] = '\0';
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strstr(entry->d_name, part))
            snprintf(path, capacity, "%s/%s", directory, entry->d_name);
    if (dir)
        closedir(dir);
    CHECK(path[0]);
}

// A compiler of our own making.
static const char *write_script(const char *name, const char *body)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "#!/bin/sh\n%s\n", body);
    fclose(file);
    chmod(path, 0700);
    return path;
}

// ---- both tiers ----------------------------------------------------------------------------------------------------

typedef struct Kernel {
    const char *name, *body;
} Kernel;

static const Kernel kernels[] = {
    { "k_divide", "for (i64 i = 0; i < a->n; i++) { i64 d = a->in[i]; if (d == 0) d = 7;\n"
                  "    a->out[i] = 1234567890123456789ll / d + (i64)(9876543210987654321ull % (u64)d); }" },
    { "k_shift",
      "for (i64 i = 0; i < a->n; i++) a->out[i] = (i64)((u64)a->in[i] << (i & 63)) ^ (a->in[i] >> (i & 63));" },
    { "k_wrap",
      "for (i64 i = 0; i < a->n; i++) { i32 x = (i32)a->in[i];\n"
      "    a->out[i] = (i32)(x * 1000003) + (i64)(u16)x + (i8)x; }" },
    { "k_u64_to_double",
      "for (i64 i = 0; i < a->n; i++) { u64 u = (u64)a->in[i]; a->out_numbers[i] = (double)u + (double)(float)u; }" },
    { "k_double_to_u64",
      "for (i64 i = 0; i < a->n; i++) { double d = a->numbers[i] < 0 ? -a->numbers[i] : a->numbers[i];\n"
      "    d = d < 1e19 ? d : 5; d = d == d ? d : 6; float f = (float)(d < 1e18 ? d : 8);\n"
      "    a->out[i] = (i64)((u64)d ^ (u64)f ^ (u32)(u64)d); }" },
    { "k_signed_conversions",
      "for (i64 i = 0; i < a->n; i++) { a->out_numbers[i] = (double)a->in[i] * 0.5 + (float)a->in[i];\n"
      "    double d = a->numbers[i]; a->out[i] = d > -1e9 && d < 1e9 ? (i32)d + (i64)d : 0; }" },
    { "k_nan",
      "for (i64 i = 0; i < a->n; i++) { double d = a->numbers[i]; a->out[i] = (d == d) + 2 * (d < 0) + 4 * (d > 0)\n"
      "    + 8 * (d != d) + 16 * (d >= 1e308 * 10) + 32 * !(d <= 0); a->out_numbers[i] = d * 0.1 + d / 3 - d * d; }" },
    { "k_struct",
      "typedef struct Big { i64 v[20]; double d; char c[5]; } Big; Big all[3];\n"
      "Big one = { { 1, 2, 3 }, 4.5, { 'x' } };\n"
      "for (int k = 0; k < 3; k++) { all[k] = one; all[k].v[k] += k; }\n"
      "Big copy = all[2]; a->out[0] = copy.v[0] + copy.v[1] + copy.v[2] + copy.c[0] + copy.c[4];\n"
      "a->out_numbers[0] = copy.d + all[1].d;" },
    { "k_large_local",
      "i64 table[512] = { 5 }; u8 flags[300] = { 0 };\n"
      "for (i64 i = 0; i < a->n; i++) { table[i & 511] += a->in[i]; flags[i % 300] ^= (u8)a->in[i]; }\n"
      "for (int i = 0; i < 300; i++) a->out[i] = table[i] + flags[i];" },
    { "k_switch", "static const i64 primes[] = { 2, 3, 5, 7, 11, 13, 17, 19 };\n"
                  "for (i64 i = 0; i < a->n; i++) switch (a->in[i] & 3) { case 0: a->out[i] = primes[i & 7]; break;\n"
                  "case 1: a->out[i] = -primes[(i + 1) & 7]; break; default: a->out[i] = i; }" },
};

enum { ROWS = 1000 };

typedef struct Data {
    i64    in[ROWS], out[ROWS];
    double numbers[ROWS], out_numbers[ROWS];
} Data;

static void fill_data(Data *data)
{
    static const double special[] = { 0.0,    -0.0,        1.0 / 3, -1e300, 1e308, 5e-324, 1.8446744073709550e19,
                                      9.3e18, 4294967296.0 };
    memset(data, 0, sizeof(*data));
    u64 random = 88172645463325252ull;
    for (int i = 0; i < ROWS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        data->in[i] = (i64)(i % 3 ? random : random >> (i % 64));
        data->numbers[i] = (double)(i64)random / (i % 5 ? 1e9 : 1e3);
    }
    for (int i = 0; i < COUNT_OF(special); i++)
        data->numbers[i * 3] = special[i];
    data->numbers[100] = NAN;
    data->numbers[101] = INFINITY;
    data->numbers[102] = -INFINITY;
    data->in[5] = INT64_MAX;
    data->in[6] = INT64_MIN + 1;
    data->in[7] = -1;
}

static void run_data(const Code *code, JitTier expected, Data *data)
{
    fill_data(data);
    Args args = { ROWS, data->in, data->numbers, data->out, data->out_numbers };
    JitTier tier;
    KernelFunction function = code_function(code, &tier);
    CHECK_INT(tier, expected);
    function(&args);
}

// Equal bits, but for the sign and payload of a NaN, which no language promises.
static bool equal_numbers(const double *a, const double *b)
{
    for (int i = 0; i < ROWS; i++)
        if (memcmp(&a[i], &b[i], sizeof(a[i])) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void compare_tiers(Jit *jit)
{
    static Data by_tcc, by_cc;
    for (int i = 0; i < COUNT_OF(kernels); i++) {
        char text[2048];
        snprintf(text, sizeof(text), "void %s(void *args_)\n{\n    Args *a = args_;\n    %s\n}\n", kernels[i].name,
                 kernels[i].body);
        run_data(get_ok(jit, text, kernels[i].name, JIT_TCC), TIER_TCC, &by_tcc);
        run_data(get_ok(jit, text, kernels[i].name, JIT_CC), TIER_CC, &by_cc);
        if (memcmp(by_tcc.out, by_cc.out, sizeof(by_cc.out)) != 0 ||
            !equal_numbers(by_tcc.out_numbers, by_cc.out_numbers))
            CHECK_FAIL("%s: tcc and cc differ", kernels[i].name);
    }
    CHECK_INT(jit_counts(jit)->tcc_compiles, COUNT_OF(kernels));
    CHECK_INT(jit_counts(jit)->failures, 0);
}

TEST(both_tiers_give_the_same_answers)
{
    Jit *jit = new_jit(test_path("main"), NULL);
    CHECK(!jit_flags_native(jit));                          // not known yet
    compare_tiers(jit);
    jit_free(jit);
}

TEST(both_tiers_give_the_same_answers_with_clang)
{
    if (system("clang --version > /dev/null 2>&1") != 0) {
        print_message("skipped: there is no clang\n");
        return;
    }
    Jit *jit = new_jit(test_path("main"), "clang");
    compare_tiers(jit);
    jit_free(jit);
}

TEST(cc_divides_128_bits)
{
    Jit *jit = new_jit(test_path("main"), NULL);
    Code *code = get_ok(jit, HEAD("p_wide") "    __int128 x = (__int128)a->n << 70;\n    a->out[0] = (i64)(x / 3);\n"
                                            "    a->out_numbers[0] = (double)x;\n}\n", "p_wide", JIT_CC);
    i64 out[1];
    double out_numbers[1];
    JitTier tier;
    code_function(code, &tier)(&(Args){ 9, NULL, NULL, out, out_numbers });
    CHECK_INT(out[0], (i64)(((i128)9 << 70) / 3));
    CHECK_DOUBLE(out_numbers[0], 9 * 0x1p70, 0);
    jit_free(jit);
}

TEST(code_in_memory_cannot_be_written)
{
    TccCode code;
    Error err = { 0 };
    CHECK_OK(tcc_build(&(KernelText){ prelude, sum_text, "p_sum" }, &code, &err), err);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024], rights[8] = "";
    unsigned long from, to;
    while (maps && fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && from <= (uintptr_t)code.function &&
            to > (uintptr_t)code.function)
            break;
    if (maps)
        fclose(maps);
    CHECK_STR(rights, "r-xp");
    tcc_unload(&code);
}

TEST(tcc_says_what_is_wrong_and_where)
{
    TccCode code;
    Error err = { 0 };
    KernelText bad = { "int before;\n", "void p_x(void *args_)\n{\n    undeclared = 1;\n}\n", "p_x" };
    CHECK_STATUS(tcc_build(&bad, &code, &err), WEFT_KERNEL_BUILD);
    CHECK_HAS(err.message, ":4: error: 'undeclared' undeclared");
    error_clear(&err);
    KernelText open = { "", "void nowhere(void); void p_x(void *args_) { nowhere(); }", "p_x" };
    CHECK_STATUS(tcc_build(&open, &code, &err), WEFT_KERNEL_BUILD);
    CHECK_HAS(err.message, "undefined symbol 'nowhere'");
    error_clear(&err);
    KernelText other = { "", "void p_y(void *args_) { }", "p_x" };
    CHECK_STATUS(tcc_build(&other, &code, &err), WEFT_KERNEL_BUILD);
    CHECK_HAS(err.message, "does not define p_x");
    CHECK(code.memory == NULL);
    error_clear(&err);
    KernelText good = { "", "void p_x(void *args_) { *(int *)args_ = 5; }", "p_x" };
    CHECK_OK(tcc_build(&good, &code, &err), err);           // none of it hurts the next
    int five = 0;
    code.function(&five);
    CHECK_INT(five, 5);
    tcc_unload(&code);
}

TEST(a_text_neither_compiles_is_an_error)
{
    Jit *jit = new_jit(test_path("main"), NULL);
    Code *code;
    const char *notice;
    for (int mode = JIT_AUTO; mode <= JIT_CC; mode++) {
        Error err = { 0 };
        CHECK_STATUS(jit_get(jit, "void p_x(void *a) { syntax error }", "p_x", (JitMode)mode, &code, &notice, &err),
                     WEFT_KERNEL_BUILD);
        CHECK_HAS(err.message, "tcc: ");
        CHECK_HAS(err.message, "cc: ");
        CHECK(code == NULL && notice == NULL);
    }
    CHECK_INT(jit_counts(jit)->failures, 6);
    jit_free(jit);
}

// ---- swapping ------------------------------------------------------------------------------------------------------

TEST(better_code_is_swapped_in_while_it_runs)
{
    Jit *jit = new_jit("", NULL);
    Code *code = get_ok(jit, sum_text, "p_sum", JIT_AUTO);
    JitTier tier;
    CHECK_INT(run_sum(code, &tier), sum_expected);
    CHECK_INT(tier, TIER_TCC);
    double begin = time_now_ms();
    jit_improve(jit, code);
    jit_improve(jit, code);                                 // asked twice, compiled once
    i64 n_tcc = 0, n_cc = 0;
    while (n_cc < 100 && time_now_ms() - begin < 60000) {
        CHECK_INT(run_sum(code, &tier), sum_expected);
        n_tcc += tier == TIER_TCC;
        n_cc += tier == TIER_CC;
    }
    CHECK(n_tcc > 0);
    CHECK_INT(n_cc, 100);
    jit_wait_idle(jit);
    jit_improve(jit, code);
    CHECK_INT(jit_counts(jit)->cc_compiles, 1);
    CHECK(code_compile_ms(code, TIER_TCC) > 0 && code_compile_ms(code, TIER_CC) > code_compile_ms(code, TIER_TCC));
    CHECK(get_ok(jit, sum_text, "p_sum", JIT_AUTO) == code);
    CHECK(get_ok(jit, sum_text, "p_sum", JIT_CC) == code);
    CHECK_INT(jit_counts(jit)->memory_hits, 2);
    jit_free(jit);
}

TEST(tcc_mode_stays_with_tcc)
{
    Jit *jit = new_jit(test_path("main"), NULL);
    Code *plain = get_ok(jit, sum_text, "p_sum", JIT_TCC);
    Code *best = get_ok(jit, sum_text, "p_sum", JIT_CC);
    jit_improve(jit, plain);
    jit_wait_idle(jit);
    JitTier tier;
    CHECK_INT(run_sum(plain, &tier), sum_expected);
    CHECK_INT(tier, TIER_TCC);
    CHECK_INT(run_sum(best, &tier), sum_expected);
    CHECK_INT(tier, TIER_CC);
    CHECK_STR(jit_tier_name(TIER_TCC), "tcc");
    CHECK_STR(jit_tier_name(TIER_CC), "cc");
    jit_free(jit);
}

typedef struct Worker {
    Jit    *jit;
    JitMode mode;
    int     n_kinds;                                        // of texts, distinct
    int     n_wrong;
} Worker;

static void *use_many(void *context)
{
    Worker *worker = context;
    for (int round = 0; round < 3 * worker->n_kinds; round++) {
        char text[512], name[32];
        int kind = round % worker->n_kinds;
        snprintf(name, sizeof(name), "p_many%d", kind);
        snprintf(text, sizeof(text), "void %s(void *args_)\n{\n    Args *a = args_;\n    a->out[0] = a->n * %d;\n}\n",
                 name, kind);
        Code *code = NULL;
        const char *notice = NULL;
        Error err = { 0 };
        i64 out[1] = { -1 };
        Args args = { 7, NULL, NULL, out, NULL };
        JitTier tier;
        if (jit_get(worker->jit, text, name, worker->mode, &code, &notice, &err)) {
            worker->n_wrong++;
            continue;
        }
        jit_improve(worker->jit, code);
        code_function(code, &tier)(&args);
        worker->n_wrong += out[0] != 7 * kind || notice;
    }
    return NULL;
}

static void use_from_threads(Jit *jit, JitMode mode, int n_kinds)
{
    enum { N_THREADS = 8 };
    pthread_t threads[N_THREADS];
    Worker workers[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (Worker){ jit, mode, n_kinds, 0 };
        CHECK_INT(pthread_create(&threads[i], NULL, use_many, &workers[i]), 0);
    }
    int n_wrong = 0;
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_wrong += workers[i].n_wrong;
    }
    CHECK_INT(n_wrong, 0);
}

TEST(many_threads_compile_each_text_once)
{
    Jit *jit = new_jit("", NULL);
    use_from_threads(jit, JIT_AUTO, 10);
    CHECK_INT(jit_counts(jit)->tcc_compiles, 10);
    jit_wait_idle(jit);
    CHECK_INT(jit_counts(jit)->cc_compiles, 10);
    jit_free(jit);

    jit = new_jit("", NULL);
    use_from_threads(jit, JIT_CC, 4);
    CHECK_INT(jit_counts(jit)->cc_compiles, 4);
    CHECK_INT(jit_counts(jit)->tcc_compiles, 0);
    jit_free(jit);
}

// A query's own kernel is compiled before one for several queries, for which no query waits.  But a kernel that was
// asked for more often goes first: else queries of shapes that come once would hold it up for ever.
TEST(code_of_a_query_is_compiled_before_that_of_several_unless_that_is_wanted_often)
{
    static const char *const names[] = { "p_own", "p_old", "p_new", "p_late", "p_often" };
    enum { N = 5, OFTEN = 4 };
    Jit *jit = new_jit("", write_script("steady-cc", "sleep 0.2; exec cc \"$@\""));
    Arena *arena = arena_new(NULL, "texts");
    Code *codes[N];
    int order[N], n_done = 0;
    for (int i = 0; i < N; i++) {
        const char *text = arena_printf(arena, HEAD("%s") "    a->out[0] = %d;\n}\n", names[i], i);
        bool is_for_several = i == 1 || i == 2 || i == OFTEN;
        codes[i] = is_for_several ? jit_later(jit, text, names[i]) : get_ok(jit, text, names[i], JIT_AUTO);
        for (int n = 0; n < (i == OFTEN ? 3 : is_for_several ? 1 : 0); n++)
            jit_want(jit, codes[i], i != OFTEN);
        for (int n = 0; n < (i == 0 ? 4 : is_for_several ? 0 : 1); n++)   // the first even where its thread starts late
            jit_improve(jit, codes[i]);
    }
    for (double end = time_now_ms() + 120000; n_done < N && time_now_ms() < end; usleep(2000))
        for (int i = 0; i < N; i++) {
            JitTier tier;
            bool is_known = !code_function(codes[i], &tier) || tier != TIER_CC;
            for (int k = 0; k < n_done; k++)
                is_known = is_known || order[k] == i;
            if (!is_known)
                order[n_done++] = i;
        }
    CHECK_INT(n_done, N);
    CHECK(order[0] == 0 && order[1] == OFTEN && order[2] == 3 && order[3] == 2 && order[4] == 1);
    jit_wait_idle(jit);
    jit_free(jit);
    arena_free(arena);
}

static bool has_cc(const Code *code)
{
    JitTier tier;
    return code_function(code, &tier) && tier == TIER_CC;
}

// Beside idle cores a compile costs nothing.  In a crowd it must save more than it takes: of what is left of the query,
// or of what uses took so far, if there were several.
TEST(in_a_crowd_cc_is_asked_for_where_its_code_pays)
{
    static const char *const names[] = { "p_idle", "p_again", "p_short", "p_long" };
    enum { IDLE, AGAIN, SHORT, LONG, N };
    Jit   *jit = new_jit("", NULL);
    Arena *arena = arena_new(NULL, "texts");
    Code  *codes[N];
    for (int i = 0; i < N; i++)
        codes[i] = get_ok(jit, arena_printf(arena, HEAD("%s") "    a->out[0] = %d;\n}\n", names[i], i), names[i],
                          JIT_AUTO);
    CHECK(!jit_offer(jit, codes[AGAIN], &(JitUse){ .spent_ms = 5000, .is_crowded = true }));
    CHECK(!jit_offer(jit, codes[SHORT], &(JitUse){ .left_ms = 50, .is_crowded = true }));
    for (int n = 0; n < 10; n++)
        CHECK(!jit_offer(jit, codes[SHORT], &(JitUse){ .spent_ms = 10, .is_crowded = true }));
    CHECK_INT(jit_counts(jit)->put_off, 12);
    CHECK(jit_offer(jit, codes[IDLE], &(JitUse){ .spent_ms = 1 }));
    CHECK(jit_offer(jit, codes[AGAIN], &(JitUse){ .spent_ms = 1, .is_crowded = true }));
    CHECK(jit_offer(jit, codes[LONG], &(JitUse){ .left_ms = 5000, .is_crowded = true }));
    jit_wait_idle(jit);
    CHECK(has_cc(codes[IDLE]) && has_cc(codes[AGAIN]) && has_cc(codes[LONG]) && !has_cc(codes[SHORT]));
    CHECK(jit_offer(jit, codes[LONG], &(JitUse){ .is_crowded = true }));
    CHECK_INT(jit_counts(jit)->put_off, 12);
    jit_free(jit);
    arena_free(arena);
}

TEST(free_does_not_wait_for_the_compiler)
{
    Jit *jit = new_jit("", write_script("slow-cc", "sleep 100 & echo $! > $0.pid; sleep 100"));
    Code *code = get_ok(jit, sum_text, "p_sum", JIT_AUTO);
    jit_improve(jit, code);
    double begin = time_now_ms();
    int child = 0;
    while (!child && time_now_ms() - begin < 60000) {       // until it runs
        FILE *file = fopen(test_path("slow-cc.pid"), "r");
        if (file && fscanf(file, "%d", &child) != 1)
            child = 0;
        if (file)
            fclose(file);
        usleep(1000);
    }
    CHECK(child > 0);
    begin = time_now_ms();
    jit_free(jit);
    CHECK(time_now_ms() - begin < 50000);                   // it would take 100 s
    for (int i = 0; i < 60000 && kill(child, 0) == 0; i++)   // what the compiler had started is gone as well
        usleep(1000);
    char path[64], state = 'Z';
    snprintf(path, sizeof(path), "/proc/%d/stat", child);
    FILE *file = fopen(path, "r");                          // or a zombie, where nobody reaps orphans
    CHECK(!file || (fscanf(file, "%*d %*s %c", &state) == 1 && state == 'Z'));
    if (file)
        fclose(file);
}

// ---- the cache on disk ---------------------------------------------------------------------------------------------

TEST(a_second_jit_finds_the_code_on_disk)
{
    const char *directory = test_path("second");
    Jit *jit = new_jit(directory, NULL);
    get_ok(jit, sum_text, "p_sum", JIT_CC);
    CHECK_INT(jit_counts(jit)->cc_compiles, 1);
    bool is_native = jit_flags_native(jit);
    jit_free(jit);
    CHECK_INT(count_files(directory, ".so"), 1);
    CHECK_INT(count_files(directory, ".compiler"), 1);
    CHECK_INT(count_files(directory, ""), 2);               // no work directory stays

    for (int mode = JIT_AUTO; mode <= JIT_CC; mode += JIT_CC - JIT_AUTO) {
        jit = new_jit(directory, NULL);
        fault_set(FAULT_COMPILE, 1, true);
        Code *code = get_ok(jit, sum_text, "p_sum", (JitMode)mode);
        CHECK_INT(fault_count(FAULT_COMPILE), 0);
        fault_set(FAULT_COMPILE, 0, false);
        JitTier tier;
        CHECK_INT(run_sum(code, &tier), sum_expected);
        CHECK_INT(tier, TIER_CC);
        CHECK_INT(jit_counts(jit)->disk_hits, 1);
        CHECK_INT(jit_counts(jit)->cc_compiles + jit_counts(jit)->tcc_compiles, 0);
        CHECK_DOUBLE(code_compile_ms(code, TIER_CC), 0, 0);
        CHECK_INT(jit_flags_native(jit), is_native);
        use_from_threads(jit, JIT_AUTO, 3);                 // other texts are not there
        jit_free(jit);
    }
}

TEST(another_prelude_is_another_kernel)
{
    const char *directory = test_path("second");
    Jit *jit = jit_new(&(JitOptions){
        .prelude = "typedef long long i64; typedef struct Args { i64 n, *in; double *x; i64 *out; } Args;\n",
        .cache_dir = directory });
    Code *code = get_ok(jit, sum_text, "p_sum", JIT_AUTO);
    JitTier tier;
    CHECK_INT(run_sum(code, &tier), sum_expected);
    CHECK_INT(tier, TIER_TCC);
    CHECK_INT(jit_counts(jit)->disk_hits, 0);
    jit_free(jit);
}

typedef enum Damage {
    DAMAGE_CUT,
    DAMAGE_EMPTY,
    DAMAGE_BYTE,
    DAMAGE_OTHER_KEY,
    DAMAGE_WRITABLE,
    DAMAGE_LINK,
    DAMAGE_N
} Damage;

static void damage_file(const char *path, const char *other, Damage damage)
{
    struct stat info;
    char moved[2100];
    CHECK_INT(stat(path, &info), 0);
    switch (damage) {
    case DAMAGE_CUT:
        CHECK_INT(truncate(path, info.st_size / 2), 0);
        break;
    case DAMAGE_EMPTY:
        CHECK_INT(truncate(path, 0), 0);
        break;
    case DAMAGE_BYTE: {
        FILE *file = fopen(path, "r+");
        fseek(file, info.st_size / 2, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, info.st_size / 2, SEEK_SET);
        fputc(byte ^ 1, file);
        fclose(file);
        break;
    }
    case DAMAGE_OTHER_KEY:
        CHECK_INT(rename(other, path), 0);
        break;
    case DAMAGE_WRITABLE:
        CHECK_INT(chmod(path, 0622), 0);
        break;
    case DAMAGE_LINK:
        snprintf(moved, sizeof(moved), "%s.moved", path);
        CHECK_INT(rename(path, moved), 0);
        CHECK_INT(symlink(moved, path), 0);
        break;
    case DAMAGE_N:
        break;
    }
}

TEST(a_damaged_file_is_replaced)
{
    static const char other_text[] = HEAD("p_other") "    a->out[0] = -1;\n}\n";
    char path[2048], other[2048];
    for (Damage damage = DAMAGE_CUT; damage < DAMAGE_N; damage++) {
        char name[32];
        snprintf(name, sizeof(name), "damaged%d", (int)damage);
        const char *directory = test_path(name);
        Jit *jit = new_jit(directory, NULL);
        get_ok(jit, other_text, "p_other", JIT_CC);
        find_file(directory, ".so", other, sizeof(other));
        CHECK_INT(rename(other, test_path("kept-aside")), 0);
        get_ok(jit, sum_text, "p_sum", JIT_CC);
        jit_free(jit);
        find_file(directory, ".so", path, sizeof(path));
        damage_file(path, test_path("kept-aside"), damage);

        jit = new_jit(directory, NULL);
        JitTier tier;
        CHECK_INT(run_sum(get_ok(jit, sum_text, "p_sum", JIT_CC), &tier), sum_expected);
        CHECK_INT(jit_counts(jit)->disk_hits, 0);
        CHECK_INT(jit_counts(jit)->cc_compiles, 1);
        jit_free(jit);

        jit = new_jit(directory, NULL);
        CHECK_INT(run_sum(get_ok(jit, sum_text, "p_sum", JIT_AUTO), &tier), sum_expected);
        CHECK_INT(jit_counts(jit)->disk_hits, 1);
        jit_free(jit);
    }
}

TEST(what_is_known_of_a_compiler_can_be_lost)
{
    const char *directory = test_path("second");
    char path[2048];
    find_file(directory, ".compiler", path, sizeof(path));
    CHECK_INT(truncate(path, 10), 0);
    Jit *jit = new_jit(directory, NULL);
    Code *code = get_ok(jit, sum_text, "p_sum", JIT_AUTO);  // not known, and AUTO does not wait to learn it
    JitTier tier;
    CHECK_INT(run_sum(code, &tier), sum_expected);
    CHECK_INT(tier, TIER_TCC);
    jit_improve(jit, code);
    jit_wait_idle(jit);
    CHECK_INT(run_sum(code, &tier), sum_expected);
    CHECK_INT(tier, TIER_CC);
    CHECK_INT(jit_counts(jit)->cc_compiles + jit_counts(jit)->disk_hits, 1);
    jit_free(jit);
}

TEST(an_unsafe_directory_is_not_used)
{
    const char *directory = test_path("unsafe");
    CHECK_INT(mkdir(directory, 0700), 0);
    CHECK_INT(chmod(directory, 0777), 0);
    const char *file = test_path("a-file");
    fclose(fopen(file, "w"));
    const char *unsafe[] = { directory, file, "/proc/no/such/directory" };
    for (int i = 0; i < COUNT_OF(unsafe); i++) {
        for (int again = 0; again < 2; again++) {
            Jit *jit = new_jit(unsafe[i], NULL);
            JitTier tier;
            CHECK_INT(run_sum(get_ok(jit, sum_text, "p_sum", JIT_CC), &tier), sum_expected);
            CHECK_INT(tier, TIER_CC);
            CHECK_INT(jit_counts(jit)->cc_compiles, 1);
            jit_free(jit);
        }
    }
    CHECK_INT(count_files(directory, ""), 0);
}

TEST(the_cache_forgets_what_was_not_used_for_long)
{
    const char *directory = test_path("small");
    char text[512], oldest[2048], path[2048], abandoned[1024];
    Jit *jit = new_jit(directory, NULL);
    get_ok(jit, sum_text, "p_sum", JIT_CC);
    find_file(directory, ".so", oldest, sizeof(oldest));
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof(name), "p_small%d", i);
        snprintf(text, sizeof(text), "void %s(void *args_) { ((Args *)args_)->n = %d; }\n", name, i);
        get_ok(jit, text, name, JIT_CC);
    }
    jit_free(jit);
    CHECK_INT(count_files(directory, ".so"), 5);
    struct stat info;
    CHECK_INT(stat(oldest, &info), 0);
    struct timespec long_ago[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    DIR *dir = opendir(directory);
    for (struct dirent *entry; (entry = readdir(dir));)     // all are old ...
        if (strstr(entry->d_name, ".so"))
            utimensat(dirfd(dir), entry->d_name, long_ago, 0);
    closedir(dir);
    snprintf(abandoned, sizeof(abandoned), "%s/tmp-dead00", directory);
    CHECK_INT(mkdir(abandoned, 0700), 0);
    snprintf(path, sizeof(path), "%s/k0.c", abandoned);
    fclose(fopen(path, "w"));
    utimensat(AT_FDCWD, abandoned, long_ago, 0);

    jit = jit_new(&(JitOptions){ .prelude = prelude, .cache_dir = directory, .cache_bytes = 3 * info.st_size });
    get_ok(jit, sum_text, "p_sum", JIT_AUTO);               // ... but this one is used
    CHECK_INT(jit_counts(jit)->disk_hits, 1);
    get_ok(jit, "void p_new(void *args_) { }\n", "p_new", JIT_CC);
    jit_free(jit);
    CHECK_INT(count_files(directory, ".so"), 2);
    CHECK(file_exists(oldest));
    CHECK(!file_exists(abandoned));
}

// ---- compilers that misbehave --------------------------------------------------------------------------------------

TEST(a_missing_compiler_is_told)
{
    Jit *jit = new_jit(test_path("main"), "/no/such/cc");
    CHECK_HAS(get_notice(jit, JIT_CC, TIER_TCC), "cc: /no/such/cc not found; kernel p_sum runs with tcc's code");
    CHECK_HAS(get_notice(jit, JIT_CC, TIER_TCC), "not found");
    CHECK(get_notice(jit, JIT_TCC, TIER_TCC) == NULL);
    CHECK_INT(jit_counts(jit)->failures, 1);
    CHECK(!jit_flags_native(jit));
    jit_free(jit);

    jit = new_jit("", "no-such-cc-in-path");
    Code *code = get_ok(jit, sum_text, "p_sum", JIT_AUTO);  // there is nothing to tell yet
    jit_improve(jit, code);
    jit_wait_idle(jit);
    CHECK_HAS(get_notice(jit, JIT_AUTO, TIER_TCC), "no-such-cc-in-path not found");
    CHECK(get_notice(jit, JIT_AUTO, TIER_TCC) == NULL);     // once
    code = get_ok(jit, HEAD("p_else") "    a->n = 0;\n}\n", "p_else", JIT_AUTO);
    jit_improve(jit, code);
    jit_wait_idle(jit);
    get_ok(jit, HEAD("p_else") "    a->n = 0;\n}\n", "p_else", JIT_AUTO);
    jit_free(jit);
}

TEST(the_environment_names_compiler_and_cache)
{
    setenv("WEFT_CC", "/no/such/cc-of-the-environment", 1);
    setenv("WEFT_CACHE", test_path("environment/deep/er"), 1);
    Jit *jit = jit_new(&(JitOptions){ .prelude = prelude });
    CHECK_HAS(get_notice(jit, JIT_CC, TIER_TCC), "cc-of-the-environment not found");
    jit_free(jit);
    unsetenv("WEFT_CC");
    jit = jit_new(&(JitOptions){ .prelude = prelude });
    CHECK(get_notice(jit, JIT_CC, TIER_CC) == NULL);
    jit_free(jit);
    unsetenv("WEFT_CACHE");
    CHECK_INT(count_files(test_path("environment/deep/er"), ".so"), 1);
    struct stat info;
    CHECK_INT(stat(test_path("environment/deep/er"), &info), 0);
    CHECK_INT(info.st_mode & 0777, 0700);
}

typedef struct Misbehaviour {
    const char *name, *body, *notice;
} Misbehaviour;

static const Misbehaviour misbehaviours[] = {
    { "cc-false", "exit 1", "ended with exit status 1" },
    { "cc-complains", "echo first >&2; echo second; exit 3", "ended with exit status 3: first\nsecond; kernel" },
    { "cc-silent", "exit 0", "does not tell its version" },
    { "cc-nothing", "echo version 1", "made no library" },
    { "cc-dies", "kill -11 $$", "was killed by signal 11" },
    { "cc-garbage", "echo version 2; while [ $# -gt 1 ]; do [ $1 = -o ] && echo garbage > $2; shift; done",
      "could not load" },
    { "cc-binary", "head -c 100000 /dev/urandom; exit 1", "ended with exit status 1" },
    { "cc-directory", "echo version 3; while [ $# -gt 1 ]; do [ $1 = -o ] && mkdir $2; shift; done",
      "made no library" },
    // Right for the probe, wrong from then on.
    { "cc-later",
      "case \"$*\" in *--version*) echo v; exit;; esac\n"
      "for f in \"$@\"; do case $f in *.c) grep -q weft_probe $f && exec cc \"$@\";; esac; done\n"
      "echo tired; exit 9",
      "exit status 9: tired" },
};

TEST(a_compiler_that_misbehaves_is_told_and_tcc_goes_on)
{
    for (int i = 0; i < COUNT_OF(misbehaviours); i++) {
        const Misbehaviour *m = &misbehaviours[i];
        const char *program = write_script(m->name, m->body);
        const char *directory = test_path("misbehave");
        Jit *jit = new_jit(i % 2 ? directory : "", program);
        const char *notice = get_notice(jit, JIT_CC, TIER_TCC);
        CHECK_HAS(notice, m->notice);
        CHECK(strlen(notice) < 600);
        jit_free(jit);
        if (i % 2)
            CHECK_INT(count_files(directory, ".so") + count_files(directory, "tmp-"), 0);
    }
    const char *not_a_program = write_script("cc-text", "");
    FILE *file = fopen(not_a_program, "w");
    fprintf(file, "this is not a program");
    fclose(file);
    Jit *jit = new_jit("", not_a_program);
    CHECK_HAS(get_notice(jit, JIT_CC, TIER_TCC), "cc-text");
    jit_free(jit);
}

static off_t bytes_of(const char *name)
{
    struct stat info;
    return stat(test_path(name), &info) == 0 ? info.st_size : 0;
}

TEST(a_compiler_that_hangs_is_killed_and_not_tried_again)
{
    setenv("WEFT_CC_TIMEOUT_MS", "300", 1);
#define COUNTS "echo run >>$0.runs; "
    const char *bodies[] = { COUNTS "sleep 100", COUNTS "sleep 100 & exec > /dev/null 2>&1; wait",
                             COUNTS "trap '' TERM; while :; do echo again; done" };
    for (int i = 0; i < COUNT_OF(bodies); i++) {
        Jit *jit = new_jit("", write_script("cc-hangs", bodies[i]));
        double begin = time_now_ms();
        CHECK_HAS(get_notice(jit, JIT_CC, TIER_TCC), "did not end within 0.3 s");
        double first = time_now_ms() - begin;
        CHECK(first >= 300 && first < 50000);
        const off_t bytes = bytes_of("cc-hangs.runs");
        Code *code;
        const char *notice;
        Error err = { 0 };
        CHECK_OK(jit_get(jit, "void p_x(void *a) { }", "p_x", JIT_CC, &code, &notice, &err), err);
        CHECK_HAS(notice, "did not end");
        CHECK_INT(bytes_of("cc-hangs.runs"), bytes);        // it was not started again
        jit_free(jit);
    }
    unsetenv("WEFT_CC_TIMEOUT_MS");
}

// Native options whose code traps or is wrong are not used, other options of the same compiler are.
TEST(native_options_are_tried_first)
{
    static const struct { const char *when, *what; } sabotage[] = {
        { "*native*", "sed -i 's/ProbeData \\*d = /__builtin_trap(); &/' $f" },
        { "*native*", "sed -i 's/ProbeData \\*d = /for (volatile int i = 0; i < 1;) ; &/' $f" },
        { "*native*", "sed -i 's/long long total = 0/long long total = 1/' $f" },
        { "*native*", "exit 1" },
        { "*-lgcc*", "exit 1" },
    };
    for (int i = 0; i < COUNT_OF(sabotage); i++) {
        char body[1024];
        snprintf(body, sizeof(body), "for f in \"$@\"; do case \"$* $f\" in %s.c) %s;; esac; done; exec cc \"$@\"",
                 sabotage[i].when, sabotage[i].what);
        Jit *jit = new_jit("", write_script("cc-native", body));
        JitTier tier;
        CHECK_INT(run_sum(get_ok(jit, sum_text, "p_sum", JIT_CC), &tier), sum_expected);
        CHECK_INT(tier, TIER_CC);
        if (i < 4)
            CHECK(!jit_flags_native(jit));
        jit_free(jit);
    }
}

TEST(an_updated_compiler_is_another_one)
{
    const char *directory = test_path("updated");
    for (int i = 0; i < 2; i++) {
        Jit *jit = new_jit(directory, write_script("cc-updated", i ? "exec cc \"$@\" # newer" : "exec cc \"$@\""));
        get_ok(jit, sum_text, "p_sum", JIT_CC);
        CHECK_INT(jit_counts(jit)->cc_compiles, 1);
        jit_free(jit);
    }
    CHECK_INT(count_files(directory, ".so"), 2);
}

// ---- faults --------------------------------------------------------------------------------------------------------

TEST(a_failing_compile_falls_back_with_a_notice)
{
    struct { JitMode mode; JitTier tier; const char *notice; } cases[] = {
        { JIT_AUTO, TIER_CC, "tcc: made to fail by a fault; kernel p_sum runs with cc's code" },
        { JIT_TCC, TIER_CC, "tcc: made to fail by a fault; kernel p_sum runs with cc's code" },
        { JIT_CC, TIER_TCC, "cc: made to fail by a fault; kernel p_sum runs with tcc's code" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        Jit *jit = new_jit("", NULL);
        fault_set(FAULT_COMPILE, 1, false);
        const char *notice = get_notice(jit, cases[i].mode, cases[i].tier);
        fault_set(FAULT_COMPILE, 0, false);
        CHECK_STR(notice, cases[i].notice);
        CHECK_STR(get_notice(jit, cases[i].mode, cases[i].tier), cases[i].notice);      // it still runs with the other
        CHECK_INT(jit_counts(jit)->failures, 1);
        jit_free(jit);
    }
}

TEST(both_compiles_failing_is_an_error_that_passes)
{
    Jit *jit = new_jit(test_path("main2"), NULL);
    for (int mode = JIT_AUTO; mode <= JIT_CC; mode++) {
        Code *code;
        const char *notice;
        Error err = { 0 };
        fault_set(FAULT_COMPILE, 1, true);
        CHECK_STATUS(jit_get(jit, sum_text, "p_sum", (JitMode)mode, &code, &notice, &err), WEFT_KERNEL_BUILD);
        CHECK_HAS(err.message, "made to fail");
        fault_set(FAULT_COMPILE, 0, false);
        if (mode != JIT_CC)
            continue;
        JitTier tier;
        CHECK_INT(run_sum(get_ok(jit, sum_text, "p_sum", JIT_CC), &tier), sum_expected);
    }
    jit_free(jit);
}

// Whatever file operation fails, the answer is right, and no file stays that should not.
TEST(failing_files_never_hurt)
{
    const char *directory = test_path("faulty");
    i64 n = 1;
    for (bool is_reached = true; is_reached && n < 200; n++) {
        for (int mode = JIT_AUTO; mode <= JIT_CC; mode += JIT_CC - JIT_AUTO) {
            Jit *jit = new_jit(directory, NULL);
            Code *code = NULL;
            const char *notice;
            Error err = { 0 };
            JitTier tier;
            fault_set(FAULT_FILE, n, false);
            CHECK_OK(jit_get(jit, sum_text, "p_sum", (JitMode)mode, &code, &notice, &err), err);
            is_reached = fault_count(FAULT_FILE) >= n;
            fault_set(FAULT_FILE, 0, false);
            CHECK_INT(run_sum(code, &tier), sum_expected);
            CHECK(mode == JIT_AUTO || notice || tier == TIER_CC);
            jit_free(jit);
            CHECK_INT(count_files(directory, "tmp-"), 0);
            if (mode == JIT_CC) {                           // compile again next time
                char path[2048];
                for (int k = count_files(directory, ".so"); k > 0; k--) {
                    find_file(directory, ".so", path, sizeof(path));
                    unlink(path);
                }
            }
        }
    }
    CHECK(n > 5);
}

// ---- times: told, and only grossly checked -------------------------------------------------------------------------

static char *make_long_text(int n_lines)
{
    Text text = { 0 };
    text_add(&text, HEAD("p_long") "    i64 sum = 0; double d = 0;\n");
    for (int i = 0; i < n_lines; i++)
        text_add(&text,
                 "    for (i64 i = 0; i < a->n; i++) { sum += a->in[i] * (i + %d); d += (double)a->in[i] / 3; }\n", i);
    text_add(&text, "    a->out[0] = sum; a->out_numbers[0] = d;\n}\n\n\n\n\n\n");
    return text.bytes;
}

TEST(tcc_is_quick_and_memory_quicker)
{
    Text long_prelude = { 0 };
    text_add(&long_prelude, "%s", prelude);
    for (int i = 0; i < 100; i++)
        text_add(&long_prelude,
                 "// word %d of the prelude, with a comment as long as they are\n"
                 "#define WORD%d(a, b) do { for (int j = 0; j < (a); j++) { \\\n        (b) += j; } } while (0)\n"
                 "static inline i64 function%d(const i64 *x, i64 n) { i64 s = 0; while (n--) s += x[n]; return s; }\n",
                 i, i, i);
    Jit *jit = jit_new(&(JitOptions){ .prelude = long_prelude.bytes, .cache_dir = "" });
    char *text = make_long_text(100);
    double tcc_ms = 1e9, hit_ms = 0, begin;
    for (int i = 0; i < 5; i++) {
        begin = test_cpu_ms();
        CHECK(code_compile_ms(get_ok(jit, text, "p_long", JIT_TCC), TIER_TCC) > 0);
        tcc_ms = MIN_OF(tcc_ms, test_cpu_ms() - begin);
        text[strlen(text) - 1 - (size_t)i] = ' ';           // the same kernel under another hash
    }
    begin = test_cpu_ms();
    for (int i = 0; i < 1000; i++)
        get_ok(jit, text, "p_long", JIT_TCC);
    hit_ms = (test_cpu_ms() - begin) / 1000;
    print_message("tcc %.3f ms for a kernel of 100 lines and a prelude of 400; found in memory in %.5f ms\n", tcc_ms,
                  hit_ms);
    CHECK(tcc_ms < 50);
    CHECK(hit_ms < 1);
    free(text);
    text_free(&long_prelude);
    jit_free(jit);
}
