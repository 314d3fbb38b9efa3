// test_share_choose.c - who rides together and how (share/choose.h), with a device that only keeps notes, and the cost
// model (share/cost.h).

#include "test.h"
#include "share/choose.h"

#include <limits.h>

enum { MOST = 4096, VALUES = 1000 };

// A device that makes everything, but for what it is told not to.
typedef struct Fake {
    int       n_fit;                   // riders that a body holds
    ShareMade made[SHARE_WAYS];        // what comes of asking, where riders fit
    int       n_asked, n_fits;
    int       most_asked;
    int       n_prepared, n_asked_before, n_met;       // bodies that were announced, and what was asked by then
    ShareAsk  prepared[16];
} Fake;

static Arena       *arena;
static Fake         fake;
static ShareKept    kept;
static ShareRider   riders[MOST];
static int          n_riders;
static Range        range = { .known = true, .low = 0, .high = VALUES - 1 };
static SourceColumn columns[4];
static int          numbers[4] = { 0, 1, 2, 3 };
static Source       source = { .n_columns = 4, .columns = columns, .chunk_column = numbers };

static bool fake_fits(void *device, ShareWay way, const ShareRider *a, const ShareRider *b)
{
    (void)device, (void)way;
    fake.n_fits++;
    return a->member.woven->n_groups == b->member.woven->n_groups;
}

static ShareMade fake_make(void *device, ShareAsk *ask)
{
    (void)device;
    fake.n_asked++;
    fake.most_asked = MAX_OF(fake.most_asked, ask->n_riders);
    if ((ask->way == SHARE_COLUMNS || ask->way == SHARE_JOINS) && ask->n_riders > fake.n_fit) return SHARE_TOO_MANY;
    ask->handle = &fake;
    return fake.made[ask->way];
}

static void fake_prepare(void *device, const ShareAsk *asks, int n)
{
    (void)device;
    fake.n_asked_before = fake.n_asked;
    for (int a = 0; a < n; a++) fake.prepared[fake.n_prepared++ % COUNT_OF(fake.prepared)] = asks[a];
}

static ShareMade fake_meet(void *device, ShareWay way, const ShareRider *const *met, int n)
{
    (void)device, (void)way, (void)met, (void)n;
    fake.n_met++;
    return SHARE_DONE;
}

static ShareWays ways_of(const ShareCosts *costs)
{
    static const int sizes[] = { 8, 4, 2, 0 };
    return (ShareWays){ .costs = costs,
                        .limits = { [SHARE_COLUMNS] = { 2, 256, 0 },
                                    [SHARE_JOINS] = { 2, INT_MAX, 0 },
                                    [SHARE_FUSED] = { 2, 8, 16 },
                                    [SHARE_SIEVED] = { 2, 64, 0 } },
                        .rows = 1e6,
                        .fuse_bytes = 1 << 20,
                        .fuse_sizes = costs == &share_gpu_costs ? sizes : NULL,
                        .fuse_others = 3,
                        .fits = fake_fits,
                        .make = fake_make,
                        .meet = fake_meet,
                        .prepare = fake_prepare };
}

static void begin(void)
{
    arena = arena_new(NULL, "test");
    fake = (Fake){ .n_fit = MOST };
    for (int w = 0; w < SHARE_WAYS; w++) fake.made[w] = SHARE_DONE;
    for (int c = 0; c < COUNT_OF(columns); c++) columns[c] = (SourceColumn){ .width = 4, .range = range };
    kept = (ShareKept){ 0 };
    n_riders = 0;
}

static void end(void)
{
    share_kept_free(&kept);
    arena_free(arena);
}

// Tests two columns, of which PASS of the values pass each, and adds up one number.  SHAPE tells its kernel.
static ShareRider *add_rider(const ShareCosts *costs, u32 ways, int shape, double pass)
{
    Woven *woven = arena_make(arena, Woven);
    woven->name = arena_printf(arena, "k_%d", shape);
    woven->n_columns = 3, woven->columns = numbers, woven->n_state = 1, woven->can_pick = true;
    woven->n_sieves = 2, woven->sieves = arena_array(arena, Sieve, 2);
    CubeForm *form = arena_make(arena, CubeForm);
    form->n_tests = 2, form->hash = (u64)shape + 1;
    for (int t = 0; t < 2; t++) {
        woven->sieves[t] = (Sieve){ .column = t, .high = (i64)(pass * VALUES) - 1, .is_exact = true };
        form->tests[t] = (CubeTest){ .column = t, .number = t, .high = woven->sieves[t].high };
    }
    ShareRider *rider = &riders[n_riders];
    *rider = (ShareRider){ .number = (u64)n_riders++,
                           .ways = ways,
                           .shape = share_shape(woven, &source),
                           .text = share_text(woven, &source),
                           .member = { woven, &source, form },
                           .facts = share_facts(arena, costs, woven, &source) };
    return rider;
}

static ShareChoice choose(const ShareCosts *costs)
{
    const ShareWays ways = ways_of(costs);
    return share_choose(arena, &kept, &ways, riders, n_riders);
}

static int n_of(ShareChoice choice, ShareWay way, int *n_units)
{
    int n = 0;
    *n_units = 0;
    for (int u = 0; u < choice.n_units; u++)
        if (choice.units[u].way == way) (*n_units)++, n += choice.units[u].n_riders;
    return n;
}

static int n_units_of(ShareChoice choice, ShareWay way)
{
    int n_units;
    n_of(choice, way, &n_units);
    return n_units;
}

static int n_riders_of(ShareChoice choice, ShareWay way)
{
    int n_units;
    return n_of(choice, way, &n_units);
}

static void check_each_is_in_one_unit(ShareChoice choice)
{
    int n_in[MOST] = { 0 };
    for (int u = 0; u < choice.n_units; u++)
        for (int i = 0; i < choice.units[u].n_riders; i++) n_in[choice.units[u].riders[i]]++;
    for (int r = 0; r < n_riders; r++) CHECK_INT(n_in[r], 1);
}

// ---- the choice -----------------------------------------------------------------------------------------------------

TEST(riders_of_one_shape_are_one_body)
{
    begin();
    for (int r = 0; r < 60; r++) add_rider(&share_cpu_costs, SHARE_BIT(SHARE_COLUMNS), r % 3, 0.9);
    const ShareChoice choice = choose(&share_cpu_costs);
    CHECK_INT(n_units_of(choice, SHARE_COLUMNS), 3);
    CHECK_INT(n_riders_of(choice, SHARE_COLUMNS), 60);
    for (int u = 0; u < choice.n_units; u++) {
        CHECK(choice.units[u].gain > 1.1 && choice.units[u].handle == &fake);
        for (int i = 1; i < choice.units[u].n_riders; i++)
            CHECK(riders[choice.units[u].riders[i - 1]].number < riders[choice.units[u].riders[i]].number &&
                  choice.units[u].riders[i] % 3 == choice.units[u].riders[0] % 3);
    }
    check_each_is_in_one_unit(choice);
    end();
}

TEST(riders_of_one_hash_that_do_not_fit_are_apart)
{
    begin();
    for (int r = 0; r < 20; r++) {
        ShareRider *rider = add_rider(&share_cpu_costs, SHARE_BIT(SHARE_JOINS), 0, 0.9);
        ((Woven *)rider->member.woven)->n_groups = (u64)(r % 2);
    }
    riders[0].sees = riders[1].sees = 7;                   // each of these would be alone
    const ShareChoice choice = choose(&share_cpu_costs);
    CHECK_INT(n_units_of(choice, SHARE_JOINS), 2);
    CHECK_INT(n_riders_of(choice, SHARE_JOINS), 18);
    CHECK_INT(n_riders_of(choice, SHARE_ALONE), 2);
    check_each_is_in_one_unit(choice);
    end();
}

// All of them before the first is asked for, as many riders each as will be asked for; riders meet once.
TEST(bodies_over_joins_are_announced_together)
{
    begin();
    for (int r = 0; r < 90; r++) add_rider(&share_gpu_costs, SHARE_BIT(SHARE_JOINS), r % 3, 0.9);
    ShareChoice choice = choose(&share_gpu_costs);
    CHECK_INT(n_units_of(choice, SHARE_JOINS), 3);
    CHECK_INT(fake.n_prepared, 3);
    CHECK_INT(fake.n_asked_before, 0);
    CHECK_INT(fake.n_asked, 3);
    CHECK_INT(fake.n_met, 3);
    for (int a = 0; a < 3; a++) CHECK_INT(fake.prepared[a].n_riders, 30);
    fake.n_fit = 20;                   // what did not fit is not announced again
    choose(&share_gpu_costs);
    fake.n_prepared = 0;
    choose(&share_gpu_costs);
    CHECK_INT(fake.n_prepared, 3);
    for (int a = 0; a < 3; a++) CHECK(fake.prepared[a].n_riders <= 20);
    end();
}

TEST(where_cells_do_not_fit_half_are_tried_and_that_is_kept)
{
    begin();
    for (int r = 0; r < 100; r++) add_rider(&share_cpu_costs, SHARE_BIT(SHARE_JOINS), 0, 0.9);
    fake.n_fit = 30;
    ShareChoice choice = choose(&share_cpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_JOINS), 100);
    CHECK(n_units_of(choice, SHARE_JOINS) >= 4 && n_units_of(choice, SHARE_JOINS) <= 8);
    CHECK_INT(fake.most_asked, 100);
    fake.most_asked = 0;
    choice = choose(&share_cpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_JOINS), 100);
    CHECK(fake.most_asked < 60);                           // all of them are not tried each time,
    fake.n_fit = MOST;
    for (int i = 0; i < 200; i++) choice = choose(&share_cpu_costs);
    CHECK_INT(n_units_of(choice, SHARE_JOINS), 1);         // but now and then
    end();
}

// A body that is the one of the choice before need not be made again, so its riders stay the same.
TEST(as_many_as_fitted_are_one_body_again)
{
    begin();
    for (int r = 0; r < 200; r++) add_rider(&share_cpu_costs, SHARE_BIT(SHARE_JOINS), 0, 0.9);
    fake.n_fit = 90;
    for (int c = 0; c < 8; c++) choose(&share_cpu_costs);
    const int n_first = choose(&share_cpu_costs).units[0].n_riders;
    CHECK(n_first > 45 && n_first <= 90);
    for (int c = 0; c < 8; c++) {
        fake.n_asked = 0, fake.most_asked = 0;
        const ShareChoice choice = choose(&share_cpu_costs);
        CHECK_INT(choice.units[0].n_riders, n_first);
        CHECK_INT(fake.n_asked, choice.n_units);           // none was refused
    }
    end();
}

TEST(a_body_over_columns_that_does_not_fit_is_left_to_one_over_joins)
{
    begin();
    const u32 both = SHARE_BIT(SHARE_COLUMNS) | SHARE_BIT(SHARE_JOINS);
    for (int r = 0; r < 20; r++) add_rider(&share_cpu_costs, both, 0, 0.9);
    ShareChoice choice = choose(&share_cpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_COLUMNS), 20);     // it is the cheaper one
    fake.made[SHARE_COLUMNS] = SHARE_TOO_MANY;
    choice = choose(&share_cpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_JOINS), 20);
    CHECK_INT(n_units_of(choice, SHARE_JOINS), 1);
    // Each with join tables of its own, so of a shape of its own.
    for (int r = 0; r < 20; r++) riders[r].shape = (u64)r;
    fake.n_asked = 0;
    choice = choose(&share_cpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_JOINS), 20);
    CHECK_INT(fake.n_asked, 1);
    end();
}

TEST(nothing_is_chosen_that_does_not_pay)
{
    begin();
    const u32 all = SHARE_BIT(SHARE_COLUMNS) | SHARE_BIT(SHARE_JOINS) | SHARE_BIT(SHARE_SIEVED);
    add_rider(&share_cpu_costs, all, 0, 0.9);              // one alone
    for (int r = 0; r < 2; r++) add_rider(&share_cpu_costs, all, 1, 0.001);    // two that drop nearly all at once
    const ShareChoice choice = choose(&share_cpu_costs);
    CHECK_INT(choice.n_units, 3);
    CHECK_INT(n_riders_of(choice, SHARE_ALONE), 3);
    CHECK_INT(fake.n_asked, 0);
    end();
}

TEST(strangers_are_sieved_and_so_are_those_whose_body_is_not_ready)
{
    begin();
    const u32 ways = SHARE_BIT(SHARE_JOINS) | SHARE_BIT(SHARE_SIEVED);
    for (int r = 0; r < 100; r++) add_rider(&share_gpu_costs, ways, r, 0.01);
    ShareChoice choice = choose(&share_gpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_SIEVED), 100);
    CHECK_INT(n_units_of(choice, SHARE_SIEVED), 2);        // of 64 at most
    for (int r = 0; r < 100; r++) ((CubeForm *)riders[r].member.form)->hash = 1;
    choice = choose(&share_gpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_JOINS), 100);
    fake.made[SHARE_JOINS] = SHARE_LATER;
    choice = choose(&share_gpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_SIEVED), 100);
    check_each_is_in_one_unit(choice);
    end();
}

// A device may have them wait for the next run.
TEST(those_that_are_alone_until_their_body_is_ready_are_told_from_others)
{
    begin();
    for (int r = 0; r < 20; r++) add_rider(&share_gpu_costs, SHARE_BIT(SHARE_JOINS), r < 12 ? 0 : r, 0.01);
    fake.made[SHARE_JOINS] = SHARE_LATER;
    const ShareChoice choice = choose(&share_gpu_costs);
    CHECK_INT(n_riders_of(choice, SHARE_ALONE), 20);
    for (int u = 0; u < choice.n_units; u++) CHECK_INT(choice.units[u].awaits, choice.units[u].riders[0] < 12);
    end();
}

TEST(riders_of_one_text_are_fused_in_few_sizes_and_others_with_partners)
{
    begin();
    for (int r = 0; r < 15; r++) add_rider(&share_gpu_costs, SHARE_BIT(SHARE_FUSED), 0, 0.9);
    for (int r = 0; r < 3; r++) add_rider(&share_gpu_costs, SHARE_BIT(SHARE_FUSED), 1 + r, 0.9);
    const ShareChoice choice = choose(&share_gpu_costs);
    CHECK_INT(n_units_of(choice, SHARE_FUSED), 4);         // 8, 4, 2; one is left, and three others: partners are 3
    CHECK_INT(n_riders_of(choice, SHARE_FUSED) + n_riders_of(choice, SHARE_ALONE), 18);
    CHECK_INT(n_riders_of(choice, SHARE_FUSED), 17);
    check_each_is_in_one_unit(choice);
    end();
}

// Hundreds of shapes, thousands of riders: what it takes grows with their number.
static int n_fits_for(int n, int n_shapes)
{
    begin();
    const u32 bodies = SHARE_BIT(SHARE_COLUMNS) | SHARE_BIT(SHARE_JOINS),
              all = bodies | SHARE_BIT(SHARE_SIEVED) | SHARE_BIT(SHARE_FUSED);
    for (int r = 0; r < n; r++) add_rider(&share_gpu_costs, all, r % n_shapes, 0.3);
    const double      start = test_cpu_ms();
    const ShareChoice choice = choose(&share_gpu_costs);
    const double      time_ms = test_cpu_ms() - start;
    check_each_is_in_one_unit(choice);
    if (n / n_shapes > 2) CHECK_INT(n_riders_of(choice, SHARE_ALONE), 0);
    CHECK(time_ms < 2000);                                 // a few milliseconds
    const int n_fits = fake.n_fits;
    end();
    return n_fits;
}

TEST(thousands_of_riders_and_hundreds_of_shapes)
{
    CHECK(n_fits_for(4096, 1) <= 2 * 4096);
    CHECK(n_fits_for(4096, 400) <= 2 * 4096);
    CHECK(n_fits_for(4096, 4096) <= 2 * 4096);
    CHECK(n_fits_for(1024, 13) <= 2 * 1024);
}

// ---- the model ------------------------------------------------------------------------------------------------------

// Expected time of a row through all units, in terms of each rider alone.
static double share_of_alone(ShareChoice choice)
{
    double ns = 0, all = 0;
    for (int u = 0; u < choice.n_units; u++) {
        double alone = 0;
        for (int i = 0; i < choice.units[u].n_riders; i++) alone += riders[choice.units[u].riders[i]].facts->alone;
        ns += alone / choice.units[u].gain, all += alone;
    }
    return ns / all;
}

TEST(more_clients_never_cost_more_each)
{
    const ShareCosts *const devices[] = { &share_cpu_costs, &share_gpu_costs };
    const u32               all = SHARE_BIT(SHARE_COLUMNS) | SHARE_BIT(SHARE_JOINS);
    for (int d = 0; d < COUNT_OF(devices); d++) {
        double before = 1;
        for (int n = 13; n <= MOST; n *= 2) {             // of each of 13 shapes as many
            begin();
            for (int r = 0; r < n; r++) add_rider(devices[d], all, r % 13, 0.3);
            const double each = share_of_alone(choose(devices[d]));
            if (each > before * 1.001) CHECK_FAIL("%d clients cost %g of alone each, half of them %g", n, each, before);
            before = each;
            end();
        }
        CHECK(before < 0.05);
    }
}

TEST(together_is_cheaper_than_alone_and_distance_costs)
{
    const ShareCosts *const devices[] = { &share_cpu_costs, &share_gpu_costs };
    for (int d = 0; d < COUNT_OF(devices); d++) {
        const ShareCosts *costs = devices[d];
        begin();
        SlotMember        members[8];
        const ShareFacts *facts[8];
        const int         order[] = { 0, 1 };
        for (int m = 0; m < 8; m++) {
            add_rider(costs, 0, 0, 0.05);
            members[m] = riders[m].member, facts[m] = riders[m].facts;
        }
        CHECK(cost_alone(costs, facts[0]) > 0 && facts[0]->alone == cost_alone(costs, facts[0]));
        CHECK(cost_columns(costs, facts[0]) < 8 * facts[0]->alone);
        CHECK(cost_joins(costs, members, 8, order) < 8 * facts[0]->alone);
        CHECK(cost_joins(costs, members, 1, order) < cost_joins(costs, members, 8, order));
        CHECK(cost_sieve(costs, facts, 8, 0, 1e6) < 8 * facts[0]->alone);
        CHECK(cost_sieve(costs, facts, 8, 0, 1e6) > cost_sieve(costs, facts, 4, 0, 1e6));
        const double near = cost_joins(costs, members, 8, order);
        columns[0].range.high = columns[1].range.high = 4 << 20;
        CHECK(cost_joins(costs, members, 8, order) != near);
        for (int i = 0; i + 1 < SHARE_LEVELS && costs->join_reach[i].bytes < 1e12; i++)
            CHECK(costs->join_reach[i].ns < costs->join_reach[i + 1].ns);
        end();
    }
}

TEST(what_was_fused_reads_columns_once)
{
    begin();
    for (int r = 0; r < 8; r++) add_rider(&share_gpu_costs, 0, 0, 0.9);
    const ShareFacts *facts[8];
    for (int r = 0; r < 8; r++) facts[r] = riders[r].facts;
    const FuseCosts two = cost_fused(&share_gpu_costs, facts, NULL, 2),
                    eight = cost_fused(&share_gpu_costs, facts, NULL, 8);
    CHECK(two.alone / two.together > 1.49 && two.alone / two.together < 1.51);     // what they compute is not shared
    CHECK(eight.alone / eight.together < 1.51);
    CHECK(eight.alone > 3.99 * two.alone && eight.alone < 4.01 * two.alone);
    end();
}
