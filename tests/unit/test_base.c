// test_base.c - what src/base promises.

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "test.h"

#include "base/base.h"
#include "base/divide.h"

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(error_first_one_wins)
{
    Error err;
    error_clear(&err);
    CHECK_INT(err.position, -1);
    CHECK_STATUS(fail(&err, WEFT_UNDEFINED_TABLE, 14, "table \"%s\" does not exist", "t"), WEFT_UNDEFINED_TABLE);
    CHECK_STATUS(fail(&err, WEFT_IO_ERROR, 3, "later"), WEFT_UNDEFINED_TABLE);
    CHECK_STR(err.message, "table \"t\" does not exist");
    CHECK_STR(err.sqlstate, "42P01");
    CHECK_INT(err.position, 14);
}

TEST(error_hint_needs_an_error_and_stays)
{
    Error err;
    error_clear(&err);
    error_hint(&err, "no error yet");
    CHECK_STR(err.hint, "");
    fail(&err, WEFT_INTERNAL, -1, "x");
    error_hint(&err, "first");
    error_hint(&err, "second");
    CHECK_STR(err.hint, "first");
}

TEST(error_is_optional)
{
    CHECK_STATUS(fail(NULL, WEFT_INTERNAL, -1, "nobody listens"), WEFT_INTERNAL);
    error_hint(NULL, "nobody listens");
    error_clear(NULL);
}

TEST(error_message_is_cut_between_characters)
{
    char long_name[1024];
    for (size_t i = 0; i + 3 < sizeof(long_name); i += 3)   // U+20AC, three bytes
        memcpy(long_name + i, "\xE2\x82\xAC", 3);
    long_name[1023] = '\0';
    for (int shift = 0; shift < 3; shift++) {
        Error err;
        error_clear(&err);
        fail(&err, WEFT_INTERNAL, -1, "%.*s%s", shift, "ab", long_name);
        size_t length = strlen(err.message);
        CHECK(length > sizeof(err.message) - 4);
        CHECK_INT((length - (size_t)shift) % 3, 0);
    }
}

TEST(error_by_errno)
{
    Error err;
    error_clear(&err);
    errno = ENOSPC;
    CHECK_STATUS(fail_errno(&err, "write file", "a.seg"), WEFT_DISK_FULL);
    CHECK_HAS(err.message, "could not write file \"a.seg\": ");
    error_clear(&err);
    errno = EACCES;
    CHECK_STATUS(fail_errno(&err, "open file", "b"), WEFT_IO_ERROR);
}

TEST(error_status_names)
{
    CHECK_STR(weft_status_name(WEFT_OK), "OK");
    CHECK_STR(weft_status_name(WEFT_UNDEFINED_TABLE), "UNDEFINED_TABLE");
    CHECK_STR(weft_status_name((weft_status)999), "UNKNOWN");
}

// ---- asserts --------------------------------------------------------------------------------------------------------

// What a child process says before ASSERT(condition) ends it; its wait status in *STATE.
static void run_failing_assert(char *said, size_t capacity, int *state)
{
    int pipe_fds[2];
    CHECK_INT(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        dup2(pipe_fds[1], STDERR_FILENO);
        int one = 1;
        ASSERT(one + one == 3);
        _exit(0);
    }
    close(pipe_fds[1]);
    size_t length = 0;
    for (ssize_t n; length + 1 < capacity && (n = read(pipe_fds[0], said + length, capacity - length - 1)) > 0;)
        length += (size_t)n;
    said[length] = '\0';
    close(pipe_fds[0]);
    waitpid(child, state, 0);
}

TEST(assert_says_where_and_aborts)
{
    char said[400];
    int state;
    run_failing_assert(said, sizeof said, &state);
#ifdef WEFT_ASSERTS
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGABRT);
    CHECK_HAS(said, "test_base.c:");
    CHECK_HAS(said, "assertion failed: one + one == 3");
#else
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CHECK_STR(said, "");
#endif
}

TEST(assert_evaluates_its_condition_at_most_once)
{
    int n = 0;
    ASSERT(++n == 1);
#ifdef WEFT_ASSERTS
    CHECK_INT(n, 1);
#else
    CHECK_INT(n, 0);
#endif
}

typedef struct Held { pthread_mutex_t mutex; bool here, there; } Held;

static void *look_from_there(void *context)
{
    Held *held = context;
    held->there = mutex_is_held(&held->mutex);
    return NULL;
}

TEST(mutex_is_held_by_the_thread_that_locked_it)
{
    Held held = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    pthread_t thread;
    pthread_mutex_lock(&held.mutex);
    held.here = mutex_is_held(&held.mutex);
    CHECK_INT(pthread_create(&thread, NULL, look_from_there, &held), 0);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&held.mutex);
    CHECK(held.here);
#ifdef __GLIBC__
    CHECK(!held.there);
    CHECK(!mutex_is_held(&held.mutex));
#endif
}

TEST(mutex_is_held_in_the_child_of_a_fork)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int state = 0;
    pthread_mutex_lock(&mutex);
    CHECK(mutex_is_held(&mutex));                           // the parent's id is remembered from here on
    pthread_mutex_unlock(&mutex);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&mutex);
        _exit(mutex_is_held(&mutex) ? 0 : 1);
    }
    waitpid(child, &state, 0);
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

// ---- arenas ---------------------------------------------------------------------------------------------------------

static char call_log[64];

static void log_name(void *name)
{
    strncat(call_log, name, sizeof(call_log) - strlen(call_log) - 1);
}

TEST(arena_runs_deferred_calls_newest_first)
{
    call_log[0] = '\0';
    Arena *arena = arena_new(NULL, "test");
    arena_defer(arena, log_name, "a");
    arena_defer(arena, log_name, "b");
    arena_free(arena);
    CHECK_STR(call_log, "ba");
}

TEST(arena_frees_children_after_its_own_calls)
{
    call_log[0] = '\0';
    Arena *parent = arena_new(NULL, "parent");
    arena_defer(parent, log_name, "p");
    for (int i = 0; i < 4; i++) {
        Arena *child = arena_new(parent, "child");
        arena_defer(child, log_name, &"1\0002\0003\0004"[2 * i]);
        if (i == 1)
            arena_free(child);                              // on its own, from the middle of the family
    }
    CHECK_STR(call_log, "2");
    arena_free(parent);
    CHECK_STR(call_log, "2p431");
}

typedef struct Late { Arena *arena; } Late;

static void defer_another(void *context)
{
    Late *late = context;
    arena_defer(late->arena, log_name, "late");
}

TEST(arena_deferred_call_may_defer)
{
    call_log[0] = '\0';
    Arena *arena = arena_new(NULL, "test");
    Late late = { arena };
    arena_defer(arena, log_name, ".");
    arena_defer(arena, defer_another, &late);
    arena_free(arena);
    CHECK_STR(call_log, "late.");
}

TEST(arena_memory_is_zeroed_aligned_and_apart)
{
    Arena *arena = arena_new(NULL, "test");
    unsigned char *pieces[2000];
    for (size_t i = 0; i < 2000; i++) {
        size_t bytes = i % 7 == 0 ? i * 40 : i % 50;
        pieces[i] = arena_alloc(arena, bytes);
        CHECK_INT((uintptr_t)pieces[i] % 16, 0);
        for (size_t b = 0; b < bytes; b++)
            CHECK_INT(pieces[i][b], 0);
        memset(pieces[i], (int)(i & 255), bytes);
    }
    for (size_t i = 0; i < 2000; i++) {
        size_t bytes = i % 7 == 0 ? i * 40 : i % 50;
        for (size_t b = 0; b < bytes; b++)
            CHECK_INT(pieces[i][b], i & 255);
    }
    arena_free(arena);
}

// The thread keeps blocks for its next arena, and a thread that ends gives them back.
static void *fill_arenas(void *context)
{
    _Atomic int *n_wrong = context;
    int          n_mine = 0;                                // of all threads it would go from core to core at each byte
    for (int round = 0; round < 20; round++) {
        Arena *arena = arena_new(NULL, "test");
        for (int i = 0; i < 400; i++) {
            const size_t   bytes = (size_t)(i % 40 ? i * 37 % 1500 : 100 * (i + round));
            unsigned char *piece = arena_alloc(arena, bytes);
            for (size_t b = 0; b < bytes; b++) n_mine += piece[b] != 0;
            memset(piece, 0xa5, bytes);
        }
        arena_free(arena);
    }
    *n_wrong += n_mine;
    return NULL;
}

TEST(arena_memory_that_was_used_before_is_zeroed)
{
    pthread_t   threads[3];
    _Atomic int n_wrong = 0;
    fill_arenas(&n_wrong);
    for (int i = 0; i < COUNT_OF(threads); i++) CHECK_INT(pthread_create(&threads[i], NULL, fill_arenas, &n_wrong), 0);
    for (int i = 0; i < COUNT_OF(threads); i++) pthread_join(threads[i], NULL);
    CHECK_INT(n_wrong, 0);
}

// More threads than may keep blocks of their own: the others share what they give back.
typedef struct Crowd { pthread_barrier_t all_there; _Atomic int n_wrong; } Crowd;

static void *fill_in_crowd(void *context)
{
    Crowd *crowd = context;
    Arena *arena = arena_new(NULL, "test");
    arena_alloc(arena, 1);
    arena_free(arena);
    pthread_barrier_wait(&crowd->all_there);
    fill_arenas(&crowd->n_wrong);
    pthread_barrier_wait(&crowd->all_there);
    return NULL;
}

TEST(arenas_of_many_threads_are_zeroed)
{
    enum { N = 100 };
    pthread_t threads[N];
    Crowd     crowd = { .n_wrong = 0 };
    CHECK_INT(pthread_barrier_init(&crowd.all_there, NULL, N), 0);
    for (int i = 0; i < N; i++) CHECK_INT(pthread_create(&threads[i], NULL, fill_in_crowd, &crowd), 0);
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd.all_there);
    CHECK_INT(crowd.n_wrong, 0);
}

TEST(arena_text)
{
    Arena *arena = arena_new(NULL, "test");
    CHECK_STR(arena_strdup(arena, "weft"), "weft");
    CHECK_STR(arena_strndup(arena, "weft", 2), "we");
    CHECK_STR(arena_strndup(arena, NULL, 0), "");
    CHECK_STR(arena_printf(arena, "%s-%d", "p", 7), "p-7");
    arena_free(arena);
    arena_free(NULL);
}

TEST(list_grows_and_keeps_its_items)
{
    Arena *arena = arena_new(NULL, "test");
    i64 *items = NULL;
    int n_items = 0;
    for (i64 i = 0; i < 10000; i++) {
        i64 *item = LIST_PUSH(arena, items, n_items);
        CHECK_INT(*item, 0);
        *item = i * i;
    }
    CHECK_INT(n_items, 10000);
    for (i64 i = 0; i < 10000; i++)
        CHECK_INT(items[i], i * i);
    arena_free(arena);
}

TEST(list_grows_by_several)
{
    Arena *arena = arena_new(NULL, "test");
    i64   *items = NULL;
    int    n_items = 0;
    for (int more = 0; more < 70; more++) {
        i64 *some = LIST_PUSH_SOME(arena, items, n_items, more);
        for (int i = 0; i < more; i++) {
            CHECK_INT(some[i], 0);
            some[i] = n_items - more + i;
        }
        i64 *item = LIST_PUSH(arena, items, n_items);
        *item = n_items - 1;
    }
    CHECK_INT(n_items, 69 * 70 / 2 + 70);
    for (int i = 0; i < n_items; i++) CHECK_INT(items[i], i);
    arena_free(arena);
}

// ---- text -----------------------------------------------------------------------------------------------------------

TEST(text_grows)
{
    Text text = { 0 };
    for (int i = 0; i < 1000; i++)
        text_add(&text, "%d,", i % 10);
    CHECK_INT(text.length, 2000);
    CHECK_INT(strlen(text.bytes), 2000);
    CHECK_BYTES(text.bytes + 1996, "8,9,", 4);
    text_clear(&text);
    CHECK_STR(text.bytes, "");
    text_add_bytes(&text, "a\0b", 3);
    CHECK_INT(text.length, 3);
    CHECK_BYTES(text.bytes, "a\0b", 4);
    text_free(&text);
    CHECK_INT(text.length, 0);
}

TEST(text_of_every_length_near_its_room)
{
    for (int length = 0; length < 300; length++) {
        Text text = { 0 };
        text_add(&text, "%*s", length, "");
        text_add(&text, "%s", "x");
        CHECK_INT(text.length, length + 1);
        CHECK_STR(text.bytes + length, "x");
        text_free(&text);
    }
}

// Against the C library, in a room of ROOM bytes: the length, what fits, the NUL, and nothing behind it.
static void check_format(size_t room, const char *format, ...)
{
    char is[512], should[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    memset(is, '#', sizeof(is));
    memset(should, '#', sizeof(should));
    const size_t length = format_args(room ? is : NULL, room, format, args);
    const int    wanted = vsnprintf(room ? should : NULL, room, format, again);
    va_end(again);
    va_end(args);
    if ((int)length != wanted || memcmp(is, should, room) != 0 || is[room] != '#')
        CHECK_FAIL("\"%s\" in %zu bytes: %zu \"%.*s\", should be %d \"%.*s\"", format, room, length, (int)room, is,
                   wanted, (int)room, should);
}

TEST(formats_are_the_librarys)
{
    for (size_t room = 0; room < 100; room++) {
        check_format(room, "plain%%");
        check_format(room, "%s", "");
        check_format(room, "LOAD(%s, %s, %d)\n", "u16", "lo_orderdate", 3);
        check_format(room, "%d %d %d %d", 0, -1, INT32_MAX, INT32_MIN);
        check_format(room, "%u %u", 0u, UINT32_MAX);
        check_format(room, "%lld %lld", (long long)INT64_MIN, (long long)INT64_MAX);
        check_format(room, "%llu %llx %zu", ~0ULL, 0xfedcba9876543210ULL, (size_t)12345);
        check_format(room, "%.*s|%.*s|%.*s|%.*s", 3, "abcdef", 9, "abc", 0, "x", -1, "all");
        check_format(room, "%*s|%*s|%*s|%*s", 8, "", 3, "abcdef", -7, "left", 0, "none");
        check_format(room, "%c%c", 'x', '\n');
        check_format(room, "%x %x", 0u, UINT32_MAX);
        check_format(room, "%s %5.2f %s %d", "rest", 3.14159, "to the library", 7);
        check_format(room, "%s%016llx%s", "p_", 0x4589acb7bb86a446ULL, "_");
        check_format(room, "%ld %lu %x %hhd %a %p %-5d|%05d|%+d %i", -5L, 5UL, 255u, 7, 1.5, (void *)0, 3, 4, 5, 6);
    }
}

TEST(long_texts_in_an_arena)
{
    Arena *arena = arena_new(NULL, "test");
    for (int length = 250; length < 260; length++) {
        const char *text = arena_printf(arena, "%*s|%d", length, "x", 7);
        CHECK_INT(strlen(text), length + 2);
        CHECK_STR(text + length - 1, "x|7");
    }
    arena_free(arena);
}

TEST(text_keep_is_never_null)
{
    Arena *arena = arena_new(NULL, "test");
    Text empty = { 0 }, some = { 0 };
    text_add(&some, "kernel");
    CHECK_STR(text_keep(arena, &empty), "");
    CHECK_STR(text_keep(arena, &some), "kernel");
    CHECK(some.bytes == NULL);
    arena_free(arena);
}

// ---- maps -----------------------------------------------------------------------------------------------------------

TEST(map_with_many_keys)
{
    enum { N_KEYS = 100000 };
    Arena *arena = arena_new(NULL, "test");
    Map *map = map_new(arena);
    char key[32];
    u64 value;
    for (u64 i = 0; i < N_KEYS; i++) {
        int length = snprintf(key, sizeof(key), "key%llu", (unsigned long long)i);
        map_set(map, key, (size_t)length, i);
    }
    CHECK_INT(map_count(map), N_KEYS);
    for (u64 i = 0; i < N_KEYS; i++) {
        int length = snprintf(key, sizeof(key), "key%llu", (unsigned long long)i);
        CHECK(map_get(map, key, (size_t)length, &value));
        CHECK_INT(value, i);
        CHECK(!map_get(map, key, (size_t)length - 1, NULL) || length > 4);
    }
    CHECK(!map_get(map, "key", 3, &value));
    arena_free(arena);
}

TEST(map_set_again_replaces)
{
    Arena *arena = arena_new(NULL, "test");
    Map *map = map_new(arena);
    u64 value = 7;
    map_set(map, "", 0, 1);
    map_set(map, "a\0b", 3, 2);
    map_set(map, "a\0c", 3, 3);
    map_set(map, "a\0b", 3, 4);
    CHECK_INT(map_count(map), 3);
    CHECK(map_get(map, NULL, 0, &value));
    CHECK_INT(value, 1);
    CHECK(map_get(map, "a\0b", 3, &value));
    CHECK_INT(value, 4);
    CHECK(!map_get(map, "a", 1, &value));
    CHECK_INT(value, 4);
    arena_free(arena);
}

TEST(hash_is_xxh3)
{
    CHECK(hash_bytes("", 0) == 0x2D06800538D394C2ull);      // the published value for no input
    CHECK(hash_bytes(NULL, 0) == hash_bytes("x", 0));
    CHECK(hash_bytes("a", 1) != hash_bytes("b", 1));
}

// ---- faults ---------------------------------------------------------------------------------------------------------

TEST(fault_on_the_nth_call_only)
{
    fault_set(FAULT_COMPILE, 3, false);
    for (int call = 1; call <= 6; call++)
        CHECK_INT(fault_now(FAULT_COMPILE), call == 3);
    CHECK_INT(fault_count(FAULT_COMPILE), 6);
    fault_set(FAULT_COMPILE, 0, false);
    CHECK_INT(fault_count(FAULT_COMPILE), 0);
    CHECK(!fault_now(FAULT_COMPILE));
}

TEST(fault_on_all_calls_from_the_nth_on)
{
    fault_set(FAULT_COMPILE, 3, true);
    for (int call = 1; call <= 6; call++)
        CHECK_INT(fault_now(FAULT_COMPILE), call >= 3);
    fault_set(FAULT_COMPILE, 0, false);
}

TEST(fault_kinds_are_apart)
{
    fault_set(FAULT_MEMORY, 1, true);
    CHECK(!fault_now(FAULT_COMPILE));
    CHECK(fault_now(FAULT_MEMORY));
    fault_set(FAULT_MEMORY, 0, false);
}

// Starts this program again with WEFT_FAULT set, running the one test below that asks for it.
static int run_with_fault(const char *fault, const char *expected)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("WEFT_FAULT", fault, 1);
        setenv("WEFT_TEST_EXPECT", expected, 1);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);        // this process looks for them already
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(99);
        execl("/proc/self/exe", "test_base", "environment_child", (char *)NULL);
        _exit(98);
    }
    int state = 0;
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

TEST(fault_environment_child)
{
    const char *expected = getenv("WEFT_TEST_EXPECT");      // a letter for each call of a kind: file, then memory
    for (int call = 0; expected && call < 3; call++) {
        CHECK_INT(fault_now(FAULT_FILE), expected[call] == 'f');
        CHECK_INT(fault_now(FAULT_MEMORY), expected[3 + call] == 'f');
    }
}

TEST(fault_from_the_environment)
{
    CHECK_INT(run_with_fault("file:2", ".f...."), 0);
    CHECK_INT(run_with_fault("file:2+", ".ff..."), 0);
    CHECK_INT(run_with_fault("memory:1,file:3", "..ff.."), 0);
    CHECK_INT(run_with_fault("memory:1,file:3", "......"), 1);
    CHECK_INT(run_with_fault("rubbish", "......"), 0);
    CHECK_INT(run_with_fault("file:x", "......"), 0);
}

// ---- large memory ---------------------------------------------------------------------------------------------------

TEST(memory_is_zeroed_and_aligned_at_every_size)
{
    // The same again and nearly the same: what was freed may be handed out anew.
    const size_t sizes[] = { 0,
                             1,
                             63,
                             64,
                             65,
                             4096,
                             65535,
                             65536,
                             65537,
                             100000,
                             110000,
                             100000,
                             (1 << 20) - 65,
                             (1 << 20) - 64,
                             (1 << 20) - 1,
                             (1 << 20) - 1,
                             1 << 20,
                             1 << 20,
                             (1 << 20) + 1,
                             1700000,
                             (2 << 20) - 1,
                             (4 << 20) + 5,
                             (4 << 20) + 5 };
    Budget budget = { 0 };
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        Error err;
        error_clear(&err);
        void *memory;
        CHECK_OK(mem_alloc(&budget, sizes[i], &memory, &err), err);
        CHECK(memory != NULL);
        CHECK_INT((uintptr_t)memory % 64, 0);
        CHECK_INT(budget.used, sizes[i]);
        for (size_t b = 0; b < sizes[i]; b += 61)
            CHECK_INT(((unsigned char *)memory)[b], 0);
        memset(memory, 1, sizes[i]);
        mem_free(&budget, memory, sizes[i]);
        CHECK_INT(budget.used, 0);
    }
    mem_free(&budget, NULL, 100);
    CHECK_INT(budget.used, 0);
}

TEST(memory_in_use_is_nobody_elses)
{
    enum { N = 60 };                   // more than is kept when it is freed
    unsigned char *blocks[N];
    Error err;
    error_clear(&err);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            const size_t bytes = 700000 + (size_t)i * 5000;
            CHECK_OK(mem_alloc(NULL, bytes, (void **)&blocks[i], &err), err);
            CHECK_INT(blocks[i][0] + blocks[i][bytes / 2] + blocks[i][bytes - 1], 0);
            memset(blocks[i], i + 1, bytes);
        }
        for (int i = 0; i < N; i++) {
            const size_t bytes = 700000 + (size_t)i * 5000;
            CHECK(blocks[i][0] == i + 1 && blocks[i][bytes / 2] == i + 1 && blocks[i][bytes - 1] == i + 1);
            mem_free(NULL, blocks[i], bytes);
        }
    }
}

TEST(a_budget_counts_in_its_parent)
{
    Budget all = { .limit = 1000 }, one = { .parent = &all }, other = { .limit = 300, .parent = &all };
    void *memory, *more, *none;
    Error err;
    error_clear(&err);
    CHECK_OK(mem_alloc(&one, 600, &memory, &err), err);
    CHECK_OK(mem_alloc(&other, 300, &more, &err), err);
    CHECK_INT(all.used, 900);
    CHECK_STATUS(mem_alloc(&one, 101, &none, &err), WEFT_OUT_OF_MEMORY);       // the parent's limit
    CHECK_HAS(err.message, "memory_limit");
    CHECK_STATUS(mem_alloc(&other, 1, &none, &(Error){ 0 }), WEFT_OUT_OF_MEMORY);
    // What its own limit refused is given back there.
    CHECK_INT(all.used, 900);
    CHECK_INT(one.used, 600);
    mem_free(&one, memory, 600);
    mem_free(&other, more, 300);
    CHECK_INT(one.used + other.used + all.used, 0);
    CHECK_INT(one.most, 600);
    CHECK_INT(all.most, 901);
}

TEST(memory_budget_is_a_limit)
{
    Budget budget = { .limit = 1000000 };
    Error err;
    error_clear(&err);
    void *first, *second;
    CHECK_OK(mem_alloc(&budget, 600000, &first, &err), err);
    CHECK_STATUS(mem_alloc(&budget, 400001, &second, &err), WEFT_OUT_OF_MEMORY);
    CHECK(second == NULL);
    CHECK_HAS(err.message, "memory_limit");
    CHECK_INT(budget.used, 600000);
    error_clear(&err);
    CHECK_OK(mem_alloc(&budget, 400000, &second, &err), err);
    mem_free(&budget, first, 600000);
    mem_free(&budget, second, 400000);
    CHECK_INT(budget.used, 0);
}

TEST(memory_that_cannot_be_had)
{
    Budget budget = { 0 };
    Error err;
    error_clear(&err);
    void *memory;
    CHECK_STATUS(mem_alloc(&budget, SIZE_MAX, &memory, &err), WEFT_OUT_OF_MEMORY);
    error_clear(&err);
    CHECK_STATUS(mem_alloc(&budget, (size_t)1 << 60, &memory, &err), WEFT_OUT_OF_MEMORY);
    error_clear(&err);
    fault_set(FAULT_MEMORY, 1, false);
    CHECK_STATUS(mem_alloc(&budget, 100, &memory, &err), WEFT_OUT_OF_MEMORY);
    fault_set(FAULT_MEMORY, 0, false);
    CHECK(memory == NULL);
    CHECK_INT(budget.used, 0);
}

static void allocate_and_free(void *context, int worker)
{
    Budget *budget = context;
    for (int i = 0; i < 2000; i++) {
        void *memory;
        if (mem_alloc(budget, 1000, &memory, NULL) == WEFT_OK)
            mem_free(budget, memory, 1000);
    }
}

TEST(sizes_as_people_write_them)
{
    static const struct { const char *text; i64 bytes;
    } sizes[] = {
        { "0", 0 },
        { "0.0GB", 0 },
        { "1000", 1000 },
        { "1.5", 1 },
        { "7b", 7 },
        { "7 B", 7 },
        { "64k", 64 << 10 },
        { "64kB", 64 << 10 },
        { "64 KiB", 64 << 10 },
        { "512MB", 512 << 20 },
        { "1.5M", 3 << 19 },
        { ".5M", 1 << 19 },
        { "2g", (i64)2 << 30 },
        { "2GB", (i64)2 << 30 },
        { "2 gib", (i64)2 << 30 },
        { "3T", (i64)3 << 40 },
        { "3tb", (i64)3 << 40 },
        { "1e3", 1000 },
    };
    static const char *const others[] = { "",    " ",    ".",      ".k",        "lots",  "-5",   "+5",  "inf",
                                          "nan", "1e30", "1e30GB", "9000000TB", "2 G B", "2GBs", "GB",  "2ki",
                                          "2q",  "0x10", "0.5",    ".0001kB",   "1,5GB", "50%",  "2GB " };
    i64 bytes;
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        bytes = -1;
        CHECK(mem_parse_size(sizes[i].text, &bytes));
        CHECK_INT(bytes, sizes[i].bytes);
    }
    for (int i = 0; i < COUNT_OF(others); i++) {
        bytes = -1;
        CHECK(!mem_parse_size(others[i], &bytes));
        CHECK_INT(bytes, -1);
    }
}

TEST(sizes_as_people_read_them)
{
    static const struct { u64 bytes; const char *text;
    } sizes[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1 KiB" },
        { 1536, "1.5 KiB" },
        { (u64)48 << 20, "48 MiB" },
        { ((u64)48 << 20) + 1, "48.0 MiB" },
        { (u64)5 << 40, "5 TiB" },
        { (u64)5 << 50, "5120 TiB" },
    };
    for (int i = 0; i < COUNT_OF(sizes); i++)
        CHECK_STR(mem_size_text(sizes[i].bytes).text, sizes[i].text);
}

TEST(memory_budget_is_exact_with_threads)
{
    Budget budget = { .limit = 3000 };
    Pool *pool = pool_new(4);
    pool_run(pool, 4, allocate_and_free, &budget);
    pool_free(pool);
    CHECK_INT(budget.used, 0);
}

// ---- files ----------------------------------------------------------------------------------------------------------

TEST(file_write_and_read_back)
{
    const char *path = test_path("a");
    File file;
    Error err;
    error_clear(&err);
    char bytes[16] = "";
    size_t got;
    u64 size;
    CHECK_OK(file_create(path, &file, &err), err);
    CHECK_OK(file_write(&file, "hello ", 6, &err), err);
    CHECK_OK(file_write(&file, "world", 5, &err), err);
    CHECK_OK(file_write_at(&file, "J", 1, 0, &err), err);
    CHECK_OK(file_sync(&file, &err), err);
    CHECK_OK(file_size(&file, &size, &err), err);
    CHECK_INT(size, 11);
    CHECK_OK(file_read_at(&file, bytes, 5, 0, &got, &err), err);
    CHECK_STR(bytes, "Jello");
    CHECK_OK(file_read_at(&file, bytes, sizeof(bytes), 6, &got, &err), err);
    CHECK_INT(got, 5);
    CHECK_OK(file_read_at(&file, bytes, sizeof(bytes), 600, &got, &err), err);
    CHECK_INT(got, 0);
    CHECK_OK(file_truncate(&file, 4, &err), err);
    file_close(&file);
    file_close(&file);
    Text text = { 0 };
    CHECK_OK(file_read_all(path, &text, &err), err);
    CHECK_STR(text.bytes, "Jell");
    text_free(&text);
}

TEST(file_append_goes_on_at_the_end)
{
    const char *path = test_path("append");
    Error err;
    error_clear(&err);
    for (int round = 0; round < 3; round++) {
        File file;
        CHECK_OK(file_open_append(path, &file, &err), err);
        CHECK_OK(file_write(&file, "ab", 2, &err), err);
        file_close(&file);
    }
    Text text = { 0 };
    CHECK_OK(file_read_all(path, &text, &err), err);
    CHECK_STR(text.bytes, "ababab");
    text_free(&text);
}

TEST(file_map_shows_the_bytes)
{
    const char *path = test_path("map");
    File file;
    Mapping mapping;
    Error err;
    error_clear(&err);
    CHECK_OK(file_create(path, &file, &err), err);
    CHECK_OK(file_map(path, &mapping, &err), err);
    CHECK(mapping.bytes == NULL && mapping.length == 0);
    CHECK_OK(file_write(&file, "weft", 4, &err), err);
    CHECK_OK(file_map(path, &mapping, &err), err);
    CHECK_INT(mapping.length, 4);
    CHECK_BYTES(mapping.bytes, "weft", 4);
    file_unmap(&mapping);
    file_unmap(&mapping);
    file_close(&file);
    CHECK_STATUS(file_map(test_path(""), &mapping, &err), WEFT_IO_ERROR);
}

TEST(file_missing)
{
    File file;
    Mapping mapping;
    Text text = { 0 };
    Error err;
    error_clear(&err);
    CHECK_STATUS(file_open_read(test_path("none"), &file, &err), WEFT_UNDEFINED_FILE);
    CHECK_HAS(err.message, "none");
    error_clear(&err);
    CHECK_STATUS(file_map(test_path("none"), &mapping, &err), WEFT_UNDEFINED_FILE);
    error_clear(&err);
    CHECK_STATUS(file_read_all(test_path("none"), &text, &err), WEFT_UNDEFINED_FILE);
    error_clear(&err);
    CHECK_OK(file_remove(test_path("none"), &err), err);
    CHECK(!file_exists(test_path("none")));
    CHECK_STATUS(file_rename(test_path("none"), test_path("other"), &err), WEFT_UNDEFINED_FILE);
}

TEST(file_path_too_long)
{
    static char path[8192];
    memset(path, 'x', sizeof(path) - 1);
    File file;
    Error err;
    error_clear(&err);
    CHECK_STATUS(file_create(path, &file, &err), WEFT_IO_ERROR);
    file_close(&file);
}

TEST(file_disk_full)
{
    File file;
    Error err;
    error_clear(&err);
    CHECK_OK(file_create("/dev/full", &file, &err), err);
    CHECK_STATUS(file_write(&file, "x", 1, &err), WEFT_DISK_FULL);
    file_close(&file);
}

TEST(file_without_a_size_is_read_to_its_end)
{
    Text text = { 0 };
    Error err;
    error_clear(&err);
    CHECK_OK(file_read_all("/proc/self/status", &text, &err), err);
    CHECK_HAS(text.bytes, "Threads:");
    text_free(&text);
}

TEST(file_lock_is_exclusive)
{
    File first, second;
    Error err;
    error_clear(&err);
    CHECK_OK(file_lock(test_path("lock"), &first, &err), err);
    CHECK_STATUS(file_lock(test_path("lock"), &second, &err), WEFT_OBJECT_IN_USE);
    CHECK_HAS(err.message, "lock");
    file_close(&second);
    file_close(&first);
    error_clear(&err);
    CHECK_OK(file_lock(test_path("lock"), &second, &err), err);
    file_close(&second);
}

TEST(directories)
{
    Arena *arena = arena_new(NULL, "test");
    Error err;
    error_clear(&err);
    char **names;
    int n_names;
    File file;
    CHECK_OK(dir_make(test_path("d"), &err), err);
    CHECK_OK(dir_make(test_path("d"), &err), err);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(file_create(test_path(arena_printf(arena, "d/%d", i)), &file, &err), err);
        file_close(&file);
    }
    CHECK_OK(file_rename(test_path("d/0"), test_path("d/twenty"), &err), err);
    CHECK_OK(dir_sync(test_path("d"), &err), err);
    CHECK_OK(dir_list(arena, test_path("d"), &names, &n_names, &err), err);
    CHECK_INT(n_names, 20);
    for (int i = 0; i < n_names; i++)
        CHECK(names[i][0] != '.' && strcmp(names[i], "0") != 0);
    CHECK_STATUS(dir_list(arena, test_path("nowhere"), &names, &n_names, &err), WEFT_UNDEFINED_FILE);
    error_clear(&err);
    CHECK_STATUS(dir_make(test_path("d/1"), &err), WEFT_IO_ERROR);       // a file is there
    error_clear(&err);
    CHECK_STATUS(dir_make(test_path("no/where"), &err), WEFT_UNDEFINED_FILE);
    arena_free(arena);
}

// One pass over every call that can fail.
static weft_status use_all_file_calls(Error *err)
{
    File file = { .fd = -1 }, lock = { .fd = -1 };
    Mapping mapping = { 0 };
    Text text = { 0 };
    Arena *arena = arena_new(NULL, "files");
    char **names;
    int n_names;
    u64 size;
    size_t got;
    char byte;
    weft_status status = dir_make(test_path("all"), err);
    if (!status)
        status = file_lock(test_path("all/lock"), &lock, err);
    if (!status)
        status = file_create(test_path("all/f"), &file, err);
    if (!status)
        status = file_write(&file, "abc", 3, err);
    if (!status)
        status = file_write_at(&file, "abc", 3, 3, err);
    if (!status)
        status = file_read_at(&file, &byte, 1, 0, &got, err);
    if (!status)
        status = file_truncate(&file, 2, err);
    if (!status)
        status = file_size(&file, &size, err);
    if (!status)
        status = file_sync(&file, err);
    if (!status)
        status = file_map(test_path("all/f"), &mapping, err);
    if (!status)
        status = file_read_all(test_path("all/f"), &text, err);
    if (!status)
        status = file_rename(test_path("all/f"), test_path("all/g"), err);
    if (!status)
        status = file_remove(test_path("all/g"), err);
    if (!status)
        status = dir_list(arena, test_path("all"), &names, &n_names, err);
    if (!status)
        status = dir_sync(test_path("all"), err);
    file_close(&file);
    file_close(&lock);
    file_unmap(&mapping);
    text_free(&text);
    arena_free(arena);
    return status;
}

TEST(file_calls_fail_when_told_to)
{
    Error err;
    error_clear(&err);
    fault_set(FAULT_FILE, 0, false);
    CHECK_OK(use_all_file_calls(&err), err);
    i64 n_calls = fault_count(FAULT_FILE);
    CHECK(n_calls >= 15);
    for (i64 nth = 1; nth <= n_calls; nth++) {
        error_clear(&err);
        fault_set(FAULT_FILE, nth, false);
        CHECK_STATUS(use_all_file_calls(&err), WEFT_IO_ERROR);
        CHECK_HAS(err.message, test_path("all"));
    }
    fault_set(FAULT_FILE, 0, false);
}

// ---- threads --------------------------------------------------------------------------------------------------------

TEST(cpu_count_is_sensible)
{
    CHECK(cpu_count() >= 1);
    CHECK(cpu_count() < 100000);
}

typedef struct Tally { _Atomic int calls[64]; } Tally;

static void tally_worker(void *context, int worker)
{
    Tally *tally = context;
    tally->calls[worker]++;
}

static void *step_back_twice(void *context)
{
    int *priorities = context;
    for (int i = 0; i < 2; i++) {
        thread_step_back();
        priorities[i] = getpriority(PRIO_PROCESS, 0);
    }
    return NULL;
}

TEST(thread_steps_back_alone)
{
    const int before = getpriority(PRIO_PROCESS, 0);
    int priorities[2];
    pthread_t thread;
    CHECK_INT(thread_start(&thread, NULL, step_back_twice, priorities), 0);
    pthread_join(thread, NULL);
    CHECK_INT(priorities[0], MIN_OF(before + STEP_BACK, 19));
    CHECK_INT(priorities[1], MIN_OF(before + 2 * STEP_BACK, 19));
    CHECK_INT(getpriority(PRIO_PROCESS, 0), before);
}

TEST(pool_runs_every_worker_once)
{
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        Pool *pool = pool_new(n_threads);
        CHECK_INT(pool_size(pool), n_threads);
        for (int n_workers = 0; n_workers <= 9; n_workers++) {
            Tally tally = { 0 };
            pool_run(pool, n_workers, tally_worker, &tally);
            for (int worker = 0; worker < 64; worker++)
                CHECK_INT(tally.calls[worker], worker < n_workers);
        }
        pool_free(pool);
    }
    pool_free(NULL);
}

TEST(pool_many_runs)
{
    Pool *pool = pool_new(4);
    Tally tally = { 0 };
    for (int run = 0; run < 20000; run++)
        pool_run(pool, 4, tally_worker, &tally);
    for (int worker = 0; worker < 4; worker++)
        CHECK_INT(tally.calls[worker], 20000);
    pool_free(pool);
}

typedef struct CallerCheck { pthread_t caller; _Atomic int n_wrong; } CallerCheck;

static void check_caller_is_worker_0(void *context, int worker)
{
    CallerCheck *check = context;
    if (worker == 0 && !pthread_equal(pthread_self(), check->caller))
        check->n_wrong++;
}

TEST(pool_caller_is_worker_0)
{
    Pool *pool = pool_new(3);
    CallerCheck check = { .caller = pthread_self() };
    for (int run = 0; run < 1000; run++)
        pool_run(pool, 3, check_caller_is_worker_0, &check);
    CHECK_INT(check.n_wrong, 0);
    pool_free(pool);
}

typedef struct Nested { Pool *pool; Tally inner; } Nested;

static void run_inside(void *context, int worker)
{
    Nested *nested = context;
    pool_run(nested->pool, 5, tally_worker, &nested->inner);
}

TEST(pool_run_inside_a_run)
{
    Nested nested = { .pool = pool_new(3) };
    for (int run = 0; run < 100; run++)
        pool_run(nested.pool, 3, run_inside, &nested);
    for (int worker = 0; worker < 5; worker++)
        CHECK_INT(nested.inner.calls[worker], 300);
    pool_free(nested.pool);
}

typedef struct TwoCallers { Pool *pool; _Atomic int n_inside, n_overlaps; } TwoCallers;

static void notice_overlap(void *context, int worker)
{
    TwoCallers *callers = context;
    if (worker != 0)
        return;
    if (atomic_fetch_add(&callers->n_inside, 1) != 0)
        callers->n_overlaps++;
    callers->n_inside--;
}

static void *call_often(void *context)
{
    TwoCallers *callers = context;
    for (int run = 0; run < 2000; run++)
        pool_run(callers->pool, 2, notice_overlap, callers);
    return NULL;
}

TEST(pool_callers_take_turns)
{
    TwoCallers callers = { .pool = pool_new(2) };
    pthread_t threads[3];
    for (int i = 0; i < COUNT_OF(threads); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, call_often, &callers), 0);
    for (int i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(callers.n_overlaps, 0);
    pool_free(callers.pool);
}

typedef struct Depth { size_t stack_bytes; long long sum; } Depth;

static __attribute__((noinline)) long long recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)(depth & 1);
    return depth == 0 ? 0 : 1 + recurse(depth - 1) + (frame[0] & 0);
}

static void recurse_deep(void *context, size_t stack_bytes)
{
    Depth *depth = context;
    depth->stack_bytes = stack_bytes;
    depth->sum = recurse((int)(stack_bytes / 8192));        // sanitizers make frames several times larger
}

TEST(run_with_stack_is_deep)
{
    Depth depth = { 0 };
    Error err;
    error_clear(&err);
    CHECK_OK(run_with_stack((size_t)256 << 20, recurse_deep, &depth, &err), err);
    CHECK_INT(depth.stack_bytes, 256 << 20);
    CHECK_INT(depth.sum, (256 << 20) / 8192);
    CHECK_OK(run_with_stack(1, recurse_deep, &depth, &err), err);
    CHECK_INT(depth.stack_bytes, 1 << 20);
}

TEST(run_with_stack_takes_less_when_refused)
{
    Depth depth = { 0 };
    Error err;
    error_clear(&err);
    fault_set(FAULT_MEMORY, 1, false);
    CHECK_OK(run_with_stack((size_t)64 << 20, recurse_deep, &depth, &err), err);
    CHECK_INT(depth.stack_bytes, 32 << 20);
    fault_set(FAULT_MEMORY, 1, true);
    CHECK_STATUS(run_with_stack((size_t)64 << 20, recurse_deep, &depth, &err), WEFT_OUT_OF_MEMORY);
    fault_set(FAULT_MEMORY, 0, false);
}

static void run_pool_on_stack(void *context, size_t stack_bytes)
{
    Nested *nested = context;
    pool_run(nested->pool, 2, tally_worker, &nested->inner);
}

static void open_stack_inside(void *context, int worker)
{
    run_with_stack(1 << 20, run_pool_on_stack, context, NULL);
}

TEST(pool_run_on_a_stack_inside_a_run)
{
    Nested nested = { .pool = pool_new(2) };
    pool_run(nested.pool, 2, open_stack_inside, &nested);
    CHECK_INT(nested.inner.calls[0], 2);
    CHECK_INT(nested.inner.calls[1], 2);
    pool_free(nested.pool);
}

TEST(time_does_not_go_back)
{
    double before = time_now_ms();
    usleep(2000);
    double after = time_now_ms();
    CHECK(after - before >= 1.9);
    CHECK(after - before < 60000);
}

// ---- division by multiplication -------------------------------------------------------------------------------------

static void check_division(u64 number, u64 by)
{
    if (divided(number, divisor_of(by)) != number / by)
        CHECK_FAIL("%llu / %llu is %llu", (unsigned long long)number, (unsigned long long)by,
                   (unsigned long long)(number / by));
}

TEST(a_divisor_divides)
{
    u64 state = 88172645463325252ull;
    for (int n = 0; n < 200000; n++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const u64 by = (state >> (n % 64)) | 1, even = by << (n % 7), number = state * 0x9e3779b97f4a7c15ull;
        const u64 divisors[] = { by, even ? even : 1, (u64)1 << (n % 64), UINT64_MAX - (u64)n, (u64)n + 1 };
        for (size_t d = 0; d < sizeof(divisors) / sizeof(*divisors); d++) {
            const u64 divisor = divisors[d], multiple = number / divisor * divisor;
            const u64 numbers[] = { number,  multiple, multiple - 1, multiple + divisor - 1,
                                    (u64)n, UINT64_MAX - (u64)n };
            for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) check_division(numbers[i], divisor);
        }
    }
}
