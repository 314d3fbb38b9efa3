// test.h - a thin layer over cmocka, so that a test is its name and what it checks.
//
//     #include "test.h"
//     #include "base/base.h"
//
//     TEST(text_grows)
//     {
//         Text text = { 0 };
//         text_add(&text, "%d", 42);
//         CHECK_STR(text.bytes, "42");
//         text_free(&text);
//     }
//
// Each tests/unit/test_*.c is one program.  There is nothing to register and no main to write: TEST enlists itself, in
// the order of the file.  Given words, the program runs only tests whose names contain one; so does `make test T=text`.
// A check that fails leaves the test by longjmp: check on the test's own thread only, never inside a pool's worker.

#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include <fts.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#undef fail                                                 // cmocka's macros; base.h has functions of these names
#undef skip

enum { TESTS_MAX = 1000 };

static struct CMUnitTest tests_all[TESTS_MAX];
static int n_tests_all;

static inline void test_enlist(const char *name, void (*body)(void **))
{
    if (n_tests_all == TESTS_MAX)
        abort();
    tests_all[n_tests_all++] = (struct CMUnitTest){ .name = name, .test_func = body };
}

#define TEST(name)                                                                       \
    static void test_##name(void **state_);                                              \
    __attribute__((constructor)) static void enlist_##name(void)                         \
    {                                                                                    \
        test_enlist(#name, test_##name);                                                 \
    }                                                                                    \
    static void test_##name(void **state_ __attribute__((unused)))

// ---- time -----------------------------------------------------------------------------------------------------------

// That the process has worked.  A check of how fast something is looks at this and not at a clock, which goes on while
// other programs have the cores.
static inline double test_cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

#define CHECK_FAIL(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#define CHECK(condition) ((condition) ? (void)0 : CHECK_FAIL("not true: %s", #condition))

#define CHECK_INT(is, should)                                                                            \
    do {                                                                                                 \
        long long is_ = (long long)(is), should_ = (long long)(should);                                  \
        if (is_ != should_)                                                                              \
            CHECK_FAIL("%s is %lld, should be %lld", #is, is_, should_);                                 \
    } while (0)

#define CHECK_DOUBLE(is, should, tolerance)                                                              \
    do {                                                                                                 \
        double is_ = (is), should_ = (should);                                                           \
        if (!(fabs(is_ - should_) <= (tolerance)))                                                       \
            CHECK_FAIL("%s is %.17g, should be %.17g", #is, is_, should_);                               \
    } while (0)

#define CHECK_STR(is, should)                                                                            \
    do {                                                                                                 \
        const char *is_ = (is), *should_ = (should);                                                     \
        if (!is_ || strcmp(is_, should_) != 0)                                                           \
            CHECK_FAIL("%s is \"%s\", should be \"%s\"", #is, is_ ? is_ : "(NULL)", should_);            \
    } while (0)

#define CHECK_HAS(text, part)                                                                            \
    do {                                                                                                 \
        const char *text_ = (text), *part_ = (part);                                                     \
        if (!text_ || !strstr(text_, part_))                                                             \
            CHECK_FAIL("%s is \"%s\", should contain \"%s\"", #text, text_ ? text_ : "(NULL)", part_);   \
    } while (0)

// Equal bytes, for results without a NUL.
#define CHECK_BYTES(is, should, length)                                                                  \
    ((length) == 0 || memcmp((is), (should), (length)) == 0 ? (void)0 : CHECK_FAIL("%s differs from %s", #is, #should))

// For calls that fill an Error (or weft_error) named in the second argument.
#define CHECK_OK(step, err)                                                                              \
    do {                                                                                                 \
        if ((step) != WEFT_OK)                                                                           \
            CHECK_FAIL("%s failed: %s (%s)", #step, (err).message, (err).sqlstate);                      \
    } while (0)

#define CHECK_STATUS(step, should)                                                                       \
    do {                                                                                                 \
        weft_status is_ = (step);                                                                        \
        if (is_ != (should))                                                                             \
            CHECK_FAIL("%s is %s, should be %s", #step, weft_status_name(is_), #should);                 \
    } while (0)

// ---- files: a directory of its own for each program, removed at its end ---------------------------------------------

static char test_directory[512];

static inline void test_remove_directory(void)
{
    FTS *tree = fts_open((char *[]){ test_directory, NULL }, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry; tree && (entry = fts_read(tree));)
        if (entry->fts_info != FTS_D)                       // a directory comes again after its entries
            remove(entry->fts_accpath);
    if (tree)
        fts_close(tree);
}

// A path in the directory.  Good for the next 63 calls.
static inline const char *test_path(const char *name)
{
    static char paths[64][1024];
    static int next;
    if (!test_directory[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(test_directory, sizeof(test_directory), "%s/weft-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(test_directory))
            abort();
        atexit(test_remove_directory);
    }
    char *path = paths[next++ % 64];
    snprintf(path, sizeof(paths[0]), "%s/%s", test_directory, name);
    return path;
}

// ---- the program ----------------------------------------------------------------------------------------------------

static inline int test_is_wanted(const char *name, char **words, int n_words)
{
    for (int i = 0; i < n_words; i++)
        if (strstr(name, words[i]))
            return 1;
    return n_words == 0;
}

int main(int n_arguments, char **arguments)
{
    static struct CMUnitTest wanted[TESTS_MAX];
    int n_wanted = 0;
    for (int i = 0; i < n_tests_all; i++)
        if (test_is_wanted(tests_all[i].name, arguments + 1, n_arguments - 1))
            wanted[n_wanted++] = tests_all[i];
    const char *program = strrchr(arguments[0], '/');
    int n_failed = 0;
    if (n_wanted > 0)
        n_failed = _cmocka_run_group_tests(program ? program + 1 : arguments[0], wanted, (size_t)n_wanted, NULL, NULL);
    printf("%d passed, %d failed\n", n_wanted - n_failed, n_failed);
    return n_failed != 0;
}

#endif
