// test_team.c - work in parts, done by the caller and by threads that are lent to it.

#include <pthread.h>

#include "test.h"
#include "base/base.h"

// ---- threads to lend ------------------------------------------------------------------------------------------------

#define LENT_MOST 8

typedef struct Lender {                // as the engine's network does it: threads that sleep until they are woken
    pthread_mutex_t lock;
    pthread_cond_t  has_work;
    Helpers        *helpers;
    bool            is_closing;
    int             n_threads;
    pthread_t       threads[LENT_MOST];
} Lender;

static void wake(void *context, int n_threads)
{
    Lender *lender = context;
    (void)n_threads;
    pthread_mutex_lock(&lender->lock);
    pthread_cond_broadcast(&lender->has_work);
    pthread_mutex_unlock(&lender->lock);
}

static void *lent_thread(void *context)
{
    Lender *lender = context;
    pthread_mutex_lock(&lender->lock);
    while (!lender->is_closing) {
        if (!helpers_are_wanted(lender->helpers)) {
            pthread_cond_wait(&lender->has_work, &lender->lock);
            continue;
        }
        pthread_mutex_unlock(&lender->lock);
        helpers_help(lender->helpers);
        pthread_mutex_lock(&lender->lock);
    }
    pthread_mutex_unlock(&lender->lock);
    return NULL;
}

static void lend(Lender *lender, int n_threads)
{
    *lender = (Lender){ .n_threads = n_threads };
    pthread_mutex_init(&lender->lock, NULL);
    pthread_cond_init(&lender->has_work, NULL);
    lender->helpers = helpers_new(wake, lender);
    for (int t = 0; t < n_threads; t++) CHECK_INT(pthread_create(&lender->threads[t], NULL, lent_thread, lender), 0);
}

static void take_back(Lender *lender)
{
    pthread_mutex_lock(&lender->lock);
    lender->is_closing = true;
    pthread_cond_broadcast(&lender->has_work);
    pthread_mutex_unlock(&lender->lock);
    for (int t = 0; t < lender->n_threads; t++) pthread_join(lender->threads[t], NULL);
    helpers_free(lender->helpers);
    pthread_cond_destroy(&lender->has_work);
    pthread_mutex_destroy(&lender->lock);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

typedef struct Tally { _Atomic int calls[64]; _Atomic int n_inside, n_most; } Tally;

static void tally_part(void *context, int part)
{
    Tally *tally = context;
    const int n_inside = ++tally->n_inside;
    int       most = tally->n_most;
    while (most < n_inside && !atomic_compare_exchange_weak(&tally->n_most, &most, n_inside)) continue;
    tally->calls[part]++;
    tally->n_inside--;
}

TEST(every_part_is_done_once)
{
    for (int n_lent = 0; n_lent <= 6; n_lent += 3) {
        Lender lender;
        lend(&lender, n_lent);
        for (int run = 0; run < 300; run++)
            for (int n_parts = 0; n_parts <= 17; n_parts += 1 + n_parts / 3) {
                Tally tally = { 0 };
                helpers_run(lender.helpers, 4, n_parts, tally_part, &tally);
                for (int part = 0; part < 64; part++) CHECK_INT(tally.calls[part], part < n_parts);
                CHECK(tally.n_most <= 4);
            }
        take_back(&lender);
    }
}

TEST(without_helpers_the_caller_does_all)
{
    Tally tally = { 0 };
    helpers_run(NULL, 4, 9, tally_part, &tally);
    for (int part = 0; part < 9; part++) CHECK_INT(tally.calls[part], 1);
    CHECK_INT(tally.n_most, 1);
    helpers_free(NULL);
}

typedef struct Nested { Helpers *helpers; Tally inner; } Nested;

static void run_inside(void *context, int part)
{
    Nested *nested = context;
    (void)part;
    helpers_run(nested->helpers, 8, 5, tally_part, &nested->inner);
}

TEST(a_part_may_begin_a_run)
{
    Lender lender;
    lend(&lender, 3);
    for (int run = 0; run < 200; run++) {
        Nested nested = { .helpers = lender.helpers };
        helpers_run(lender.helpers, 8, 7, run_inside, &nested);
        for (int part = 0; part < 5; part++) CHECK_INT(nested.inner.calls[part], 7);
    }
    take_back(&lender);
}

static void *many_runs(void *context)
{
    for (int run = 0; run < 500; run++) {
        Tally tally = { 0 };
        helpers_run(context, 3, 8, tally_part, &tally);
        for (int part = 0; part < 8; part++)
            if (tally.calls[part] != 1) return context;
    }
    return NULL;
}

TEST(several_runs_at_a_time)
{
    Lender    lender;
    pthread_t callers[4];
    lend(&lender, 2);
    for (int c = 0; c < 4; c++) CHECK_INT(pthread_create(&callers[c], NULL, many_runs, lender.helpers), 0);
    for (int c = 0; c < 4; c++) {
        void *wrong;
        pthread_join(callers[c], &wrong);
        CHECK(wrong == NULL);
    }
    take_back(&lender);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

#define ROWS_MOST 200001

typedef struct Marks { u8 rows[ROWS_MOST]; u64 next[64]; _Atomic int n_wrong; _Atomic u32 stop; } Marks;

static void mark_rows(void *context, int part, u64 first, u64 end)
{
    Marks *marks = context;
    if (first < marks->next[part] || first >= end) marks->n_wrong++;
    marks->next[part] = end;
    for (u64 r = first; r < end; r++) marks->rows[r]++;
}

TEST(rows_are_split_and_none_is_lost)
{
    static const u64 sizes[] = { 0, 1, 63, 65535, 65536, 65537, 100000, ROWS_MOST };
    Lender lender;
    lend(&lender, 3);
    for (int s = 0; s < COUNT_OF(sizes); s++)
        for (int n_threads = 1; n_threads <= 7; n_threads += 3) {
            static Marks   marks;
            const Team     team = { lender.helpers, n_threads, &marks.stop };
            const RowParts parts = team_split(&team, sizes[s]);
            memset(&marks, 0, sizeof marks);
            CHECK(parts.part_rows % 64 == 0);
            CHECK((parts.n_parts > 1) == (n_threads > 1 && sizes[s] >= 65536));
            CHECK(team_rows(&team, &parts, mark_rows, &marks));
            CHECK_INT(marks.n_wrong, 0);
            for (u64 r = 0; r < ROWS_MOST; r++) CHECK_INT(marks.rows[r], r < sizes[s]);
        }
    take_back(&lender);
}

static void stop_soon(void *context, int part, u64 first, u64 end)
{
    Marks *marks = context;
    (void)part;
    for (u64 r = first; r < end; r++) marks->rows[r]++;
    atomic_store(&marks->stop, 1);
}

TEST(a_stopped_team_leaves_the_rest)
{
    static Marks marks;
    Lender       lender;
    u64          n_done = 0;
    lend(&lender, 3);
    const Team     team = { lender.helpers, 4, &marks.stop };
    const RowParts parts = team_split(&team, ROWS_MOST);
    CHECK(!team_rows(&team, &parts, stop_soon, &marks));
    for (u64 r = 0; r < ROWS_MOST; r++) n_done += marks.rows[r];
    CHECK(n_done > 0 && n_done < ROWS_MOST / 2);
    take_back(&lender);
}

