// cost.c - see cost.h.
//
// What the model leaves out: how long a kernel takes to compile (the devices ask for code when queries have met, or
// when it is worth it, and go without until then), and launches where a sieve or a fused kernel is weighed, which
// changes their number by little.

#include "share/cost.h"

#include <math.h>
#include <stdlib.h>

#define SETS_OF       64               // queries in a sieve
#define ADDS_MOST     8                // a wide float sum has many slots, a row adds to few of them
#define CLASS_BYTES   2.0              // of a value, in a table of classes

// ---- constants ------------------------------------------------------------------------------------------------------

// One core.  Measured (m) on an arm64 and an x86-64 core with SSB, see bench/results, or estimated from such figures
// (e).
const ShareCosts share_cpu_costs = {
    .byte = 0,                         // m: 16 sums by group over 6 M rows took 112 ms slice by slice, 110 apart
    .launch = 0,
    .test = 0.35,                      // m: a dense test
    .probe = 1.2,                      // m
    .sparse = 2,                       // e
    .match = 6.0,                      // m: list entry, gather, tests again, sink
    .body_row = 0.5,                   // m, as the next
    .body_class = 0.35,
    .body_add = 1.4,                   // m: 3.7 to 4.7 ns a row with 3 classes, 2 sums; unwanted rows wait for one cell
    .join_row = 0.4,                   // e, as all of a body over joins
    .join_step = 1.0,
    .join_reach = { { 32e3, 0.4 }, { 1e6, 1.0 }, { 8e6, 2.5 }, { INFINITY, 6 } },
    .join_add = 2.0,
    .join_cell = 1.5,
    .sieve_row = 0.3,                  // m, as the next
    .sieve_reach = { { 32e3, 0.6 }, { 512e3, 1.2 }, { 4e6, 2.5 }, { INFINITY, 6 } },
    .sieve_set = 5.0,                  // m, as the next: crowds at SF 1, 2 members 6 ns a row, 7 12, 13 19 to 27, 31 39
    .sieve_member = 0.8,
    .sieve_has_all = true,
    .sieve_span = (i128)1 << 20,
    .fuse_test = 0.1,                  // m, as all of fusing
    .fuse_pick = 0.2,
    .fuse_filter = 0.8,
    .fuse_step = 1.5,
    .fuse_sink = 1.5,
    .least_columns = 1.1,
    .least_joins = 1.1,
    .least_sieve = 1.1,
    .least_fused = 1.1,
};

#define BYTE_NS (1 / 3000.0)           // e: what an H200 reads beside other work; it reads 4.2 bytes a picosecond alone

// A GPU waits for memory, so things are counted in the bytes that it reads meanwhile.
const ShareCosts share_gpu_costs = {
    .byte = BYTE_NS,
    .launch = 4.6e3,                   // m
    .sparse = 1,
    .body_load = 1.5,                  // m: a cube takes about as long as a scan and a half
    .join_reach = { { CLASS_BYTES * 16384, 2.0 * BYTE_NS },        // e: in L1
                    { INFINITY, 16.0 * BYTE_NS } },                // m: bodies over 120 M rows took 2.1 ms
    .join_add = 16.0 * BYTE_NS,        // e
    .join_far = 32.0 * BYTE_NS,        // e: a sector of what is added up
    .make = 30e3,                      // e, as the next two
    .make_value = 0.15,
    .make_row = 2.0,
    .sieve_near = 1.2 * BYTE_NS,       // m: tests of 13 queries of SSB, 120 M rows: 1.12 ms, without part 0.74,
    .sieve_reach = { { INFINITY, 5.0 * BYTE_NS } },                // without part and customer 0.48
    .sieve_sector = 32.0 * BYTE_NS,
    .sieve_bit = BYTE_NS / 4,          // written and read
    .sieve_value = 4.0 * BYTE_NS,      // e
    .sieve_column = 5.0 * BYTE_NS,     // e: as if all tables were far
    .sieve_span = (i128)1 << 22,
    .sieve_one_width = true,
    .fuse_own = 1 / 1.5,               // m: 14 filter-and-sum queries over 120 M rows took 2.1 ms, 0.22 each alone
    .least_columns = 1.2,
    .least_joins = 1.2,
    .least_sieve = 1.2,
    .least_fused = 1.2,
};

double share_reach(const ShareReach *levels, double bytes)
{
    int level = 0;
    while (level < SHARE_LEVELS - 1 && bytes > levels[level].bytes) level++;
    return levels[level].ns;
}

// ---- facts ----------------------------------------------------------------------------------------------------------

double share_values(const Range *range)
{
    return range->known && range->low <= range->high ? (double)(range->high - range->low) + 1 : 0;
}

bool share_is_sievable(const ShareCosts *costs, const SourceColumn *column)
{
    const Range *range = &column->range;
    return (column->width || !costs->sieve_one_width) && range->known && range->low <= range->high &&
           range->high - range->low < costs->sieve_span;
}

double share_pass(const Sieve *sieve, const Range *range)
{
    const double span = (double)(range->high - range->low) + 1;
    const double low = fmax((double)sieve->low, (double)range->low),
                 high = fmin((double)sieve->high, (double)range->high);
    const double inside = fmax(0, high - low + 1);
    const JoinTable *table = sieve->table;
    if (table) {
        const u64 n_keys = table->n_distinct ? table->n_distinct : table->n_rows;      // a device may not count them
        return fmin(1, (double)n_keys / fmax(1, fmin(span, (double)table->n_scanned)));
    }
    return fmin(1, inside / span);
}

static ShareTest test_of(const ShareCosts *costs, const Sieve *sieve, const Source *source)
{
    const SourceColumn *column = &source->columns[sieve->column];
    return (ShareTest){ .column = source->chunk_column[sieve->column],
                        .width = MAX_OF(column->width, 1),
                        .values = share_values(&column->range),
                        .pass = share_pass(sieve, &column->range),
                        .has_table = sieve->table != NULL,
                        .is_exact = sieve->is_exact,
                        .is_usable = share_is_sievable(costs, column) };
}

static int by_number(const void *a, const void *b)
{
    const ShareColumn *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

const ShareFacts *share_facts(Arena *arena, const ShareCosts *costs, const Woven *woven, const Source *source)
{
    ShareFacts *facts = arena_make(arena, ShareFacts);
    facts->n_tests = woven->n_sieves, facts->tests = arena_array(arena, ShareTest, woven->n_sieves + 1);
    facts->n_columns = woven->n_columns, facts->columns = arena_array(arena, ShareColumn, woven->n_columns + 1);
    facts->n_adds = MIN_OF(woven->n_state, ADDS_MOST), facts->pass = 1;
    for (int s = 0; s < woven->n_sieves; s++) {
        facts->tests[s] = test_of(costs, &woven->sieves[s], source);
        if (facts->tests[s].is_usable) facts->pass *= facts->tests[s].pass;
    }
    for (int c = 0; c < woven->n_columns; c++) {
        const int from = woven->columns[c];
        facts->columns[c] = (ShareColumn){ source->chunk_column[from], MAX_OF(source->columns[from].width, 1) };
        facts->row_bytes += facts->columns[c].width;
    }
    qsort(facts->columns, (size_t)facts->n_columns, sizeof *facts->columns, by_number);
    facts->alone = cost_alone(costs, facts);
    return facts;
}

// ---- alone ----------------------------------------------------------------------------------------------------------

double cost_alone(const ShareCosts *costs, const ShareFacts *facts)
{
    double rows = 1, ns = costs->byte * facts->row_bytes;
    for (int t = 0; t < facts->n_tests; t++) {
        const ShareTest *test = &facts->tests[t];
        ns += rows * (test->has_table ? costs->probe * (rows < 1 ? costs->sparse : 1) : costs->test);
        rows *= test->pass;
    }
    return ns + rows * costs->match;
}

// ---- one body -------------------------------------------------------------------------------------------------------

static bool is_exact_before(const ShareFacts *facts, int t)
{
    for (int b = 0; b < t; b++)
        if (facts->tests[b].is_exact && facts->tests[b].column == facts->tests[t].column) return true;
    return false;
}

// Tests that classes cannot stand for are made for all rows, as all members have the same.
double cost_columns(const ShareCosts *costs, const ShareFacts *member)
{
    double ns = costs->body_row + costs->body_load * costs->byte * member->row_bytes +
                costs->body_add * member->n_adds;
    for (int t = 0; t < member->n_tests; t++) {
        const ShareTest *test = &member->tests[t];
        if (!test->is_exact) ns += test->has_table ? costs->probe : costs->test;
        else if (!is_exact_before(member, t)) ns += costs->body_class;
    }
    return ns;
}

static int width_of(const SlotMember *member, int test)
{
    if (slots_kinds(member, 1, test)) return CLASS_BYTES;          // of a column of kinds
    return MAX_OF(member->source->columns[member->woven->columns[member->form->tests[test].column]].width, 1);
}

// Beside the step.
static double look_ns(const ShareCosts *costs, const SlotMember *member, int test)
{
    return costs->byte * width_of(member, test) +
           share_reach(costs->join_reach, CLASS_BYTES * slots_values(member, test));
}

void cost_join_looks(const ShareCosts *costs, const SlotMember *member, double *looks)
{
    for (int t = 0; t < member->form->n_tests; t++) looks[t] = costs->join_step + look_ns(costs, member, t);
}

static double add_ns(const ShareCosts *costs, const Woven *woven)
{
    return costs->join_far + costs->join_add * MIN_OF(woven->n_state, ADDS_MOST);
}

// In each place the rows that any member has left by then are looked at.
double cost_joins(const ShareCosts *costs, const SlotMember *members, int n_members, const int *order)
{
    double *left = malloc((size_t)n_members * sizeof *left), any = 1, ns = costs->join_row;
    for (int m = 0; m < n_members; m++) left[m] = 1;
    for (int d = 0; d < members[0].form->n_tests; d++) {
        ns += any * ((d ? costs->join_step : 0) + look_ns(costs, &members[0], order[d]));
        any = 0;
        for (int m = 0; m < n_members; m++) {
            left[m] *= slots_pass(&members[m], order[d]);
            any += left[m];
        }
        any = MIN_OF(any, 1);
    }
    free(left);
    return ns + any * add_ns(costs, members[0].woven);
}

static int by_id(const void *a, const void *b)
{
    const JoinTable *x = *(const JoinTable *const *)a, *y = *(const JoinTable *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Equal join tables are looked at once, and those of queries before are known.
static double making_of_test(const ShareCosts *costs, const SlotMember *members, int n_members, int test,
                             const Slots *before)
{
    const JoinTable **tables = malloc((size_t)n_members * sizeof *tables);
    const double      values = slots_values(&members[0], test);
    double            ns = 0;
    int               n = 0;
    for (int m = 0; m < n_members; m++) {
        const CubeTest *own = &members[m].form->tests[test];
        if (own->table && !(before && slots_knows(before, members[m].form, test))) tables[n++] = own->table;
    }
    qsort(tables, (size_t)n, sizeof *tables, by_id);
    for (int i = 0; i < n; i++) {
        const double rows = (double)tables[i]->n_rows;
        if (!i || tables[i]->id != tables[i - 1]->id)
            ns += costs->make_value * values + costs->make_row * (tables[i]->kinds ? MIN_OF(rows, values) : rows);
    }
    free(tables);
    return ns;
}

double cost_making(const ShareCosts *costs, const SlotMember *members, int n_members, const Slots *before)
{
    double ns = costs->make;
    for (int t = 0; t < members[0].form->n_tests && costs->make_row > 0; t++)
        ns += making_of_test(costs, members, n_members, t, before);
    return ns;
}

double cost_slots(const ShareCosts *costs, const Slots *slots, int n_tests, const Woven *member, bool is_merged,
                  double rows)
{
    const SlotFigures figures = slots_figures(slots);
    double            ns = costs->join_row + share_reach(costs->join_reach, (double)slots_class_bytes(slots, 0));
    u64               cell_bytes = 0;
    for (int s = 0; s < member->n_state; s++) cell_bytes += member->state[s].bytes;
    for (int d = 1; d < n_tests; d++)
        ns += (d == 1 && is_merged ? 1 : figures.left[d - 1]) *
              (costs->join_step + share_reach(costs->join_reach, (double)slots_class_bytes(slots, d)));
    ns += figures.left[n_tests - 1] *
          (add_ns(costs, member) + share_reach(costs->join_reach, (double)(figures.n_cells * cell_bytes)));
    return ns + costs->join_cell * (double)(figures.n_cells + figures.n_pairs) / rows;
}

// ---- a sieve --------------------------------------------------------------------------------------------------------

static int lane_bytes(int n_members) { return n_members <= 8 ? 1 : n_members <= 16 ? 2 : n_members <= 32 ? 4 : 8; }

typedef struct SieveColumns { int n; const ShareTest *tests[SHARE_COLUMNS_MOST]; } SieveColumns;

static void add_columns(SieveColumns *columns, const ShareFacts *facts)
{
    for (int t = 0; t < facts->n_tests; t++) {
        bool is_new = facts->tests[t].is_usable && columns->n < SHARE_COLUMNS_MOST;
        for (int c = 0; c < columns->n && is_new; c++) is_new = columns->tests[c]->column != facts->tests[t].column;
        if (is_new) columns->tests[columns->n++] = &facts->tests[t];
    }
}

static int by_values(const void *a, const void *b)
{
    const ShareTest *x = *(const ShareTest *const *)a, *y = *(const ShareTest *const *)b;
    return x->values < y->values ? -1 : x->values > y->values;
}

static double matches_ns(const ShareCosts *costs, const ShareFacts *facts)
{
    return facts->pass * (costs->match + costs->sieve_sector * (facts->n_columns + 2));    // 2: the list
}

// Small tables are near, as far as there is room.
double cost_sieve(const ShareCosts *costs, const ShareFacts *const *members, int n_members, double near_bytes,
                  double rows)
{
    SieveColumns columns = { 0 };
    double       ns = costs->sieve_row, n_tested = 0;
    for (int m = 0; m < n_members; m++) {
        add_columns(&columns, members[m]);
        ns += matches_ns(costs, members[m]) + costs->sieve_bit;
        for (int t = 0; t < members[m]->n_tests; t++)
            if (members[m]->tests[t].is_usable) n_tested += members[m]->tests[t].values;
    }
    qsort(columns.tests, (size_t)columns.n, sizeof *columns.tests, by_values);
    for (int c = 0; c < columns.n; c++) {
        const double bytes = columns.tests[c]->values * lane_bytes(n_members);
        near_bytes -= bytes;
        ns += costs->byte * columns.tests[c]->width +
              (near_bytes >= 0 ? costs->sieve_near : share_reach(costs->sieve_reach, bytes));
    }
    return ns + costs->sieve_value * n_tested / MAX_OF(rows, 1);
}

double cost_sieve_part(const ShareCosts *costs, const ShareFacts *const *members, int n_members, int n_sieved)
{
    SieveColumns columns = { 0 };
    const int    n_all = costs->sieve_has_all ? MAX_OF(n_sieved, n_members) : n_members;
    double       set = costs->sieve_set, ns = 0;
    add_columns(&columns, members[0]);
    for (int c = 0; c < columns.n; c++) set += costs->byte * columns.tests[c]->width + costs->sieve_column;
    for (int m = 0; m < n_members; m++) ns += matches_ns(costs, members[m]) + costs->sieve_member;
    return ns + set * ((n_all + SETS_OF - 1) / SETS_OF) * n_members / n_all;
}

// ---- fused ----------------------------------------------------------------------------------------------------------

// The steps but those in SHARED, from where PASS of the rows are left.  A test over all rows costs fuse_test, making
// the selection of it fuse_pick; where there is a selection, a test costs fuse_filter for each of its rows, and another
// step fuse_step.
static double steps_ns(const ShareCosts *costs, const FuseSteps *own, const FuseStep *shared, int n_shared,
                       double *pass)
{
    const bool has_selection = n_shared > 0;
    double     ns = 0;
    bool       is_mask = false;
    for (int s = 0; s < own->n_steps; s++) {
        const FuseStep *step = &own->steps[s];
        if (weave_has_step(shared, n_shared, step)) continue;
        const bool is_test = step->is_test && !has_selection;
        ns += is_test ? costs->fuse_test : *pass * (step->is_test ? costs->fuse_filter : costs->fuse_step);
        if (is_test && !is_mask) ns += costs->fuse_pick, is_mask = true;
        *pass *= step->pass;
    }
    return ns;
}

// The shared steps once, then each member's others over what is left, and its sink.  Nothing shared, nothing saved.
static FuseCosts cost_steps(const ShareCosts *costs, const FuseSteps *const *steps, int n_members)
{
    FuseStep        list[FUSE_STEPS];
    const int       n_shared = weave_shared_steps(steps, n_members, list);
    const FuseSteps shared = { .n_steps = n_shared, .steps = list };
    double          left = 1;
    FuseCosts       cost = { .together = steps_ns(costs, &shared, NULL, 0, &left) };
    for (int m = 0; m < n_members; m++) {
        double alone = 1, rest = left;
        cost.alone += steps_ns(costs, steps[m], NULL, 0, &alone) + alone * costs->fuse_sink;
        cost.together += steps_ns(costs, steps[m], list, n_shared, &rest) + rest * costs->fuse_sink;
    }
    if (!n_shared) cost.together = cost.alone;
    return cost;
}

static bool is_read_before(const ShareFacts *const *members, int m, int number)
{
    for (int b = 0; b < m; b++)
        for (int c = 0; c < members[b]->n_columns; c++)
            if (members[b]->columns[c].number == number) return true;
    return false;
}

FuseCosts cost_fused(const ShareCosts *costs, const ShareFacts *const *members, const FuseSteps *const *steps,
                     int n_members)
{
    FuseCosts cost = { 0 };
    if (steps) cost = cost_steps(costs, steps, n_members);
    for (int m = 0; m < n_members && costs->byte > 0; m++) {
        cost.alone += costs->byte * members[m]->row_bytes;
        for (int c = 0; c < members[m]->n_columns; c++)
            if (!is_read_before(members, m, members[m]->columns[c].number))
                cost.together += costs->byte * members[m]->columns[c].width;
    }
    cost.together = MAX_OF(cost.together, costs->fuse_own * cost.alone);
    return cost;
}
