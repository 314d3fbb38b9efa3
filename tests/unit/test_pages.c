// test_pages.c - blocks that share huge pages, and checksums by wide vectors.

#include <stdio.h>

#include "test.h"

#include "base/base_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static u64 next_random(u64 *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

typedef struct TestBlock { u64 *memory; size_t bytes; u64 mark; } TestBlock;

static bool has_all(const TestBlock *block, u64 value)
{
    for (size_t i = 0; i < block->bytes / sizeof(u64); i += 61)
        if (block->memory[i] != value)
            return false;
    return block->memory[block->bytes / sizeof(u64) - 1] == value;
}

static bool take(TestBlock *block, u64 *random, u64 mark)
{
    const size_t limits[] = { PAGES_LEAST, PAGES_LEAST * 4, PAGES_MOST / 4, PAGES_MOST };
    const size_t most = limits[next_random(random) % COUNT_OF(limits)];
    Error err = { 0 };
    block->bytes = (size_t)(next_random(random) % most + 64);
    block->mark = mark;
    if (mem_alloc(NULL, block->bytes, (void **)&block->memory, &err) || !has_all(block, 0))
        return false;
    for (size_t i = 0; i < block->bytes / sizeof(u64); i++)
        block->memory[i] = mark;
    return true;
}

static bool give(TestBlock *block)
{
    const bool is_right = has_all(block, block->mark);
    mem_free(NULL, block->memory, block->bytes);
    block->memory = NULL;
    return is_right;
}

enum { N_BLOCKS = 24, N_STEPS = 300 };

// The number of its first mark; a block that lost its bytes, or was not zero, makes it 0.
static void *take_and_give(void *context)
{
    u64      *number = context, random = *number;
    TestBlock blocks[N_BLOCKS] = { 0 };
    bool      is_right = true;
    for (int step = 0; step < N_STEPS && is_right; step++) {
        TestBlock *block = &blocks[next_random(&random) % N_BLOCKS];
        is_right = block->memory ? give(block) : take(block, &random, *number + (u64)step);
    }
    for (int b = 0; b < N_BLOCKS; b++)
        is_right &= !blocks[b].memory || give(&blocks[b]);
    if (!is_right)
        *number = 0;
    return NULL;
}

TEST(blocks_of_all_sizes_are_zero_and_nobody_elses)
{
    enum { N_THREADS = 3 };
    pthread_t threads[N_THREADS];
    u64       numbers[N_THREADS];
    for (int t = 0; t < N_THREADS; t++) {
        numbers[t] = (u64)(t + 1) * 1000000;
        CHECK_INT(pthread_create(&threads[t], NULL, take_and_give, &numbers[t]), 0);
    }
    for (int t = 0; t < N_THREADS; t++) {
        pthread_join(threads[t], NULL);
        CHECK_INT(numbers[t], (t + 1) * 1000000);
    }
}

static i64 resident_bytes(void)
{
    long long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lld %lld", &all, &resident) == 2);
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

// Two blocks stay, so that no region is empty but those between and behind them.
TEST(most_of_what_is_freed_goes_back_to_the_system)
{
    enum { N = 120, BYTES = 3 << 19, LEFT = 48 << 20 };     // 180 MiB, several regions
    void     *blocks[N];
    Error     err = { 0 };
    const i64 before = resident_bytes();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            CHECK_OK(mem_alloc(NULL, BYTES, &blocks[i], &err), err);
            memset(blocks[i], 1, BYTES);
        }
        CHECK(resident_bytes() - before >= (i64)N * BYTES - LEFT);      // before, some was kept already
        for (int i = 1; i < N - 1; i++)
            mem_free(NULL, blocks[i], BYTES);
        CHECK(resident_bytes() - before <= LEFT);
        mem_free(NULL, blocks[0], BYTES);
        mem_free(NULL, blocks[N - 1], BYTES);
        CHECK(resident_bytes() - before <= LEFT);
    }
}

TEST(large_pieces_of_arenas_are_zero)
{
    const size_t sizes[] = { PAGES_LEAST, 1 << 20, PAGES_MOST - 1000, PAGES_MOST };
    for (int round = 0; round < 2; round++) {
        Arena *arena = arena_new(NULL, "test");
        for (int i = 0; i < COUNT_OF(sizes); i++) {
            TestBlock block = { arena_alloc(arena, sizes[i]), sizes[i], 0 };
            CHECK(has_all(&block, 0));
            memset(block.memory, 1, sizes[i]);
        }
        arena_free(arena);
    }
}

TEST(wide_vectors_give_the_same_checksum)
{
    const size_t lengths[] = { HASH_LONG, HASH_LONG + 1, 4095, 4096, 65537, 300001 };
    static u8 bytes[300001 + 64];
    u64 random = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (u8)next_random(&random);
    for (int i = 0; i < COUNT_OF(lengths); i++)
        for (int at = 0; at < 64; at += 21) {
            const u64 wanted = XXH3_64bits(bytes + at, lengths[i]);
            CHECK(hash_bytes(bytes + at, lengths[i]) == wanted);
#if defined(__x86_64__)
            CHECK(!__builtin_cpu_supports("avx2") || hash_long_avx2(bytes + at, lengths[i]) == wanted);
            CHECK(!__builtin_cpu_supports("avx512f") || hash_long_avx512(bytes + at, lengths[i]) == wanted);
#endif
        }
}
