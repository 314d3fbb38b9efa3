// test_slots.c - the cells of queries of one shape: a slot has as many as its own classes need.

#include "test.h"
#include "share/share.h"

enum { N_VALUES = 64, N_COLUMNS = 2 };

typedef struct Query {                 // wants the values FIRST .. END - 1 of both columns, each a group of its own
    JoinTable table;
    JoinKey   key;
    Payload   payload;
    u8        codes[N_VALUES];
    CubeForm  form;
    Woven     woven;
    GroupKey  keys[N_COLUMNS];
} Query;

static SourceColumn columns[N_COLUMNS];
static Source       source = { .n_columns = N_COLUMNS, .columns = columns };
static int          numbers[N_COLUMNS] = { 0, 1 };
static StateSlot    states[1] = { { .kind = SLOT_ADD, .bytes = 8 } };

static void make_query(Query *query, u64 id, u32 first, u32 end)
{
    memset(query, 0, sizeof *query);
    for (u32 v = first; v < end; v++) query->codes[v] = (u8)(v - first + 1);
    query->key = (JoinKey){ .low = 0, .high = N_VALUES - 1 };
    query->payload = (Payload){ .data = query->codes, .width = 1, .n_codes = end - first, .base = first };
    query->table = (JoinTable){ .id = id, .shape = SHAPE_DIRECT, .n_keys = 1, .keys = &query->key, .n_payloads = 1,
                                .payloads = &query->payload, .n_rows = end - first };
    query->form = (CubeForm){ .n_tests = N_COLUMNS, .n_keys = N_COLUMNS };
    for (int c = 0; c < N_COLUMNS; c++) {
        columns[c].range = (Range){ .known = true, .low = 0, .high = N_VALUES - 1 };
        query->form.tests[c] = (CubeTest){ .column = c, .number = c, .low = INT64_MIN, .high = INT64_MAX,
                                           .table = &query->table, .n_payloads = 1 };
        query->form.test_of_key[c] = c;
        query->keys[c] = (GroupKey){ .n_codes = end - first, .stride = c ? 1 : end - first };
    }
    query->woven = (Woven){ .columns = numbers, .n_columns = N_COLUMNS, .state = states, .n_state = 1,
                            .group_keys = query->keys, .n_groups = (u64)(end - first) * (end - first) };
}

static Slots *make_slots(Arena *arena, Budget *budget, const Query *queries, int n, u64 n_cells)
{
    static const int order[N_COLUMNS] = { 0, 1 };
    SlotMember       members[4];
    for (int q = 0; q < n; q++) members[q] = (SlotMember){ &queries[q].woven, &source, &queries[q].form };
    return slots_make(&(SlotsWish){ .arena = arena, .budget = budget, .members = members, .n_members = n,
                                    .order = order, .cell_bytes = 8 * n_cells });
}

// Each group has a cell, and no cell is for two groups.
static void check_pairs(const Slots *slots, int member, u64 n_groups, u64 n_cells)
{
    const SlotPairs pairs = slots_pairs(slots, member);
    u8              has_group[1000] = { 0 }, has_cell[1000] = { 0 };
    CHECK_INT(pairs.n, n_groups);
    for (u64 p = 0; p < pairs.n; p++) {
        CHECK(pairs.groups[p] < n_groups && pairs.cells[p] < n_cells);
        CHECK_INT(has_group[pairs.groups[p]]++, 0);
        CHECK_INT(has_cell[pairs.cells[p]]++, 0);
    }
}

TEST(a_query_for_one_value_does_not_take_the_cells_of_one_for_many)
{
    Budget budget = { 0 };
    Arena *arena = arena_new(NULL, "test");
    Query  queries[2];
    make_query(&queries[0], 1, 0, 20);
    make_query(&queries[1], 2, 40, 41);
    Slots            *slots = make_slots(arena, &budget, queries, 2, 401);
    const SlotFigures figures = slots_figures(slots);
    CHECK_INT(figures.n_slots, 2);
    CHECK_INT(figures.n_cells, 401);
    check_pairs(slots, 0, 400, 401);
    check_pairs(slots, 1, 1, 401);
    slots_free(slots);
    CHECK(!make_slots(arena, &budget, queries, 2, 400));
    arena_free(arena);
    CHECK_INT(budget.used, 0);
}

// What is kept for later cubes is bounded by this.
TEST(pairs_count_as_memory_of_slots)
{
    Budget budget = { 0 };
    Arena *arena = arena_new(NULL, "test");
    Query  queries[2];
    make_query(&queries[0], 1, 0, 2);
    make_query(&queries[1], 2, 0, 60);
    Slots *few = make_slots(arena, &budget, queries, 1, 4), *many = make_slots(arena, &budget, queries, 2, 3600);
    CHECK(few && many);
    CHECK(slots_bytes(few) > 0 && slots_bytes(many) >= slots_bytes(few) + (3600 - 1024) * sizeof(u32) * 2);
    CHECK(budget.used >= (i64)(slots_bytes(few) + slots_bytes(many)));
    slots_free(few);
    slots_free(many);
    arena_free(arena);
    CHECK_INT(budget.used, 0);
}

TEST(slots_of_queries_that_overlap_have_strides_of_their_own)
{
    Budget budget = { 0 };
    Arena *arena = arena_new(NULL, "test");
    Query  queries[2];
    make_query(&queries[0], 1, 0, 20);
    make_query(&queries[1], 2, 17, 30);                    // 3 values in both, 17 of the first, 10 of the second
    Slots            *slots = make_slots(arena, &budget, queries, 2, 1000);
    const SlotFigures figures = slots_figures(slots);
    CHECK_INT(figures.n_slots, 7);
    CHECK_INT(figures.n_cells, 20 * 20 + 13 * 13 - 3 * 3);
    check_pairs(slots, 0, 400, figures.n_cells);
    check_pairs(slots, 1, 169, figures.n_cells);
    slots_free(slots);
    arena_free(arena);
    CHECK_INT(budget.used, 0);
}
