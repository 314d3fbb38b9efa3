// The books of a GPU's memory: runs of frames, copies held and evicted by use.

#include "test.h"

#include "device/frames.h"

static CopyKey key(u64 owner) { return (CopyKey){ owner, 7 }; }

TEST(frames_are_neighbours_and_come_back)
{
    Frames *frames = frames_new(8 * FRAME_BYTES);
    u64     a, b, c;
    CHECK(frames_take(frames, 3 * FRAME_BYTES, &a));
    CHECK(frames_take(frames, 4 * FRAME_BYTES + 1, &b));
    CHECK(a + 3 * FRAME_BYTES <= b || b + 5 * FRAME_BYTES <= a);
    CHECK(!frames_take(frames, 1, &c));                    // 3 + 5: all are taken
    CHECK_INT((i64)frames_held(frames), (i64)(7 * FRAME_BYTES + 1));
    frames_give(frames, a, 3 * FRAME_BYTES);
    CHECK(!frames_take(frames, 4 * FRAME_BYTES, &c));
    CHECK(frames_take(frames, 2 * FRAME_BYTES, &c));
    CHECK_INT((i64)c, (i64)a);
    frames_free(frames);
}

// Small things that stay are taken and given back a million times over, and a large one still finds room.
TEST(large_runs_find_room_away_from_what_stays)
{
    enum { N_FRAMES = 200000, N_KEPT = 1000, LARGE = 60000 };
    Frames *frames = frames_new((u64)N_FRAMES * FRAME_BYTES);
    u64     kept[N_KEPT] = { 0 }, large, at;
    bool    has[N_KEPT] = { 0 };
    u32     x = 1;
    for (int i = 0; i < 20000; i++) {
        x = x * 1664525 + 1013904223;
        const int k = (int)(x >> 8) % N_KEPT;
        if (has[k]) frames_give(frames, kept[k], 16 * FRAME_BYTES);
        has[k] = frames_take(frames, 16 * FRAME_BYTES, &kept[k]);
        CHECK(has[k]);
        if (i % 100) continue;
        CHECK(frames_take_high(frames, (u64)LARGE * FRAME_BYTES, false, &large));
        CHECK(frames_take(frames, FRAME_BYTES, &at));
        frames_give(frames, large, (u64)LARGE * FRAME_BYTES);
        frames_give(frames, at, FRAME_BYTES);
    }
    frames_free(frames);
}

TEST(the_highest_frames_are_found_and_nothing_makes_way_unless_it_may)
{
    Frames *frames = frames_new(200 * FRAME_BYTES);
    u64     low, high, next;
    Copy   *copy = copy_add(frames, key(1), 100 * FRAME_BYTES, false);
    CHECK(frames_take_high(frames, 70 * FRAME_BYTES, false, &high));
    CHECK_INT((i64)(high / FRAME_BYTES), 130);
    CHECK(frames_take_high(frames, 30 * FRAME_BYTES, false, &low));
    CHECK_INT((i64)(low / FRAME_BYTES), 100);
    copy_release(frames, copy);
    CHECK(!frames_take_high(frames, FRAME_BYTES, false, &next));
    CHECK(copy_find(frames, key(1)) == copy);
    copy_release(frames, copy);
    CHECK(frames_take_high(frames, FRAME_BYTES, true, &next));
    CHECK(!copy_find(frames, key(1)));
    frames_give(frames, high, 70 * FRAME_BYTES);
    CHECK(frames_take_high(frames, 64 * FRAME_BYTES, false, &high));
    CHECK_INT((i64)(high / FRAME_BYTES), 136);
    frames_free(frames);
}

TEST(a_copy_is_found_until_its_room_is_wanted)
{
    Frames *frames = frames_new(4 * FRAME_BYTES);
    Copy   *one = copy_add(frames, key(1), 2 * FRAME_BYTES, false), *two = copy_add(frames, key(2), FRAME_BYTES, false);
    CHECK(one && two && copy_find(frames, key(2)) == two);
    copy_release(frames, two);
    copy_release(frames, two);
    copy_release(frames, one);                              // used after two: two is older
    CHECK_INT((i64)frames_held(frames), 0);
    Copy *three = copy_add(frames, key(3), 2 * FRAME_BYTES, false);
    CHECK(three);
    CHECK(!copy_find(frames, key(2)));
    CHECK_INT((i64)frames_copied(frames),
              (i64)(2 * FRAME_BYTES) + (copy_find(frames, key(1)) ? (i64)(2 * FRAME_BYTES) : 0));
    frames_free(frames);
}

TEST(what_is_held_is_never_evicted)
{
    Frames *frames = frames_new(4 * FRAME_BYTES);
    Copy   *one = copy_add(frames, key(1), 3 * FRAME_BYTES, false);
    CHECK(one);
    CHECK(!copy_add(frames, key(2), 2 * FRAME_BYTES, false));
    CHECK(copy_find(frames, key(1)) == one);
    copy_release(frames, one);
    copy_release(frames, one);
    CHECK(copy_add(frames, key(2), 2 * FRAME_BYTES, false));
    CHECK(!copy_find(frames, key(1)));
    frames_free(frames);
}

// Frames 8, 17, 26 ... are held: between them there are runs of eight.
TEST(nothing_goes_for_what_finds_no_room_all_the_same)
{
    enum { N_RUNS = 16, LENGTH = 8 };
    Frames *frames = frames_new((LENGTH + 1) * N_RUNS * FRAME_BYTES);
    int     n_left = 0;
    for (int r = 0; r < N_RUNS; r++) {
        u64 held;
        for (int f = 0; f < LENGTH; f++)
            copy_release(frames, copy_add(frames, key((u64)(1 + r * LENGTH + f)), FRAME_BYTES, false));
        CHECK(frames_take(frames, FRAME_BYTES, &held));
    }
    CHECK(!copy_add(frames, key(1000), (LENGTH + 1) * FRAME_BYTES, false));
    for (int c = 1; c <= N_RUNS * LENGTH; c++) {
        Copy *copy = copy_find(frames, key((u64)c));
        n_left += copy != NULL;
        if (copy) copy_release(frames, copy);
    }
    CHECK_INT(n_left, N_RUNS * LENGTH - 2 * (LENGTH + 1));
    CHECK(!copy_add(frames, key(1000), LENGTH * N_RUNS * FRAME_BYTES + 1, false));      // more than is not held
    CHECK_INT((i64)frames_copied(frames), (i64)((u64)n_left * FRAME_BYTES));
    CHECK(copy_add(frames, key(1000), LENGTH * FRAME_BYTES, false));
    frames_free(frames);
}

TEST(copies_that_pass_go_before_those_that_stay)
{
    Frames *frames = frames_new(4 * FRAME_BYTES);
    copy_release(frames, copy_add(frames, key(1), FRAME_BYTES, false));
    copy_release(frames, copy_add(frames, key(2), FRAME_BYTES, true));
    copy_release(frames, copy_add(frames, key(3), FRAME_BYTES, true));
    CHECK(copy_add(frames, key(4), FRAME_BYTES, false));    // the last free one
    CHECK(copy_add(frames, key(5), FRAME_BYTES, false));
    // Of those that pass the newest: a circular scan comes to it last.
    CHECK(!copy_find(frames, key(3)));
    CHECK(copy_find(frames, key(1)) && copy_find(frames, key(2)));
    frames_free(frames);
}

TEST(a_copy_of_nobody_goes_when_it_is_released)
{
    Frames *frames = frames_new(2 * FRAME_BYTES);
    Copy   *own = copy_add(frames, (CopyKey){ 0, 1 }, FRAME_BYTES, false);
    CHECK(own && !copy_find(frames, own->key));
    copy_release(frames, own);
    CHECK_INT((i64)frames_copied(frames), 0);
    Copy *failed = copy_add(frames, key(9), 2 * FRAME_BYTES, false);
    CHECK(failed);
    copy_forget(frames, failed);                            // its content never came
    CHECK(!copy_find(frames, key(9)));
    CHECK_INT((i64)frames_copied(frames), 0);
    CHECK_INT((i64)frames_held(frames), 0);
    frames_free(frames);
}

TEST(any_order_of_taking_and_giving_keeps_the_books)
{
    enum { N = 64, STEPS = 20000 };
    Frames *frames = frames_new(256 * FRAME_BYTES);
    u64     at[N] = { 0 }, bytes[N] = { 0 }, seed = 1;
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        const int n = (int)(seed >> 33) % N;
        if (bytes[n]) {
            frames_give(frames, at[n], bytes[n]);
            bytes[n] = 0;
            continue;
        }
        const u64 wanted = 1 + (seed >> 20) % (9 * FRAME_BYTES);
        if (!frames_take(frames, wanted, &at[n])) continue;
        bytes[n] = wanted;
        for (int m = 0; m < N; m++)
            CHECK(m == n || !bytes[m] || at[m] + (bytes[m] + FRAME_BYTES - 1) / FRAME_BYTES * FRAME_BYTES <= at[n] ||
                  at[n] + (bytes[n] + FRAME_BYTES - 1) / FRAME_BYTES * FRAME_BYTES <= at[m]);
    }
    for (int n = 0; n < N; n++)
        if (bytes[n]) frames_give(frames, at[n], bytes[n]);
    CHECK_INT((i64)frames_held(frames), 0);
    u64 all;
    CHECK(frames_take(frames, 256 * FRAME_BYTES, &all));
    frames_free(frames);
}
