// join_cube.c - see join_cube.h.
//
//     class of lo_suppkey ─> state ─ class of lo_orderdate ─> state ─ class of lo_partkey ─> slot        or none
//
// States are made member by member: all combinations of the classes that it wants, column by column.  Each leads to a
// slot, where the member is told which of its groups each cell is for.  So sets of any number of members are possible,
// and what a row costs does not depend on it.
//
// The order of columns: those first that drop many rows for what a look-up costs.  It is in the kernel's text, and is
// kept from cube to cube, since another order is another compile.
//
// Cost model (nanoseconds per row on one core): a look-up per column by where its table lies, for the rows that are
// left by then; an addition per accumulator for those that are left at the end; cells that are cleared and added up
// after each chunk.  Its constants are estimates but for SIEVE_NS, which is from one profile on a busy machine.

#include "engine/join_cube.h"

#include "engine/classes.h"
#include "engine/cube_int.h"

#include <stdlib.h>

#define MOST_VALUES    ((i128)1 << 23) // of a column's range
#define MOST_STATES    65534u          // numbers have 16 bits, and 0 is none
#define MOST_NEXT      ((u64)1 << 21)  // entries of a table of states
#define MOST_CELLS     ((u64)4 << 20)  // bytes, of a thread: it may leave L2, since few rows get so far
#define MOST_PAIRS     ((u64)1 << 22)  // cells that are added up, for all members
#define MOST_WANTED    ((u64)1 << 21)  // combinations of classes, for all members
#define FEW_PAYLOADS   16              // of a column: they tell classes apart, so that slots have no empty cells
#define MERGED_FROM    0.4             // share of rows that the first column leaves: then the second is asked at once
#define ROW_NS         0.4
#define STEP_NS        1.0             // of a look-up, beside the table's distance
#define ADD_NS         2.0
#define SIEVE_NS       12.0            // of a sieve of up to 64, made and looked at, as with Q4.3's shape
#define SIEVED_NS      6.0             // of a match in it
#define CELL_NS        1.5             // cleared, and looked at when it is added up
#define CLEARED_ROWS   1e6             // that cells are cleared for, about

typedef struct StateTable {            // of a place in the order, but the first
    u16 *next;                         // by state before and class: state + 1, 0: none
    u64  n_before, room;               // rows, and how many fit
    u32  n_states;                     // that it leads to
    double *weight;                    // by state: share of the rows that are expected in it
} StateTable;

struct JoinCube {
    Arena     *arena;                  // the cube's
    Budget    *budget;
    CubeForm   form;                   // tables of tests are not to be looked at
    int        order[CUBE_TESTS];      // by place: test of the form
    bool       is_merged;
    Classes   *classes[CUBE_TESTS];    // by place, from here on
    ClassMap   maps[CUBE_TESTS];
    StateTable states[CUBE_TESTS];
    int       *tests;                  // by member and place: number among the classes' tests
    int       *uses;                   // the same: number among the tests in use
    int        n_local[CUBE_KEYS];     // by group key: cells of a slot are all combinations of so many
    u64        stride[CUBE_KEYS];
    u64        n_slots, n_in_slot;
    double     left;                   // share of the rows that is expected to get to a cell
    double     row_ns;                 // expected
    u64       *first_pair;             // by member, and behind the last one
    u32       *cells, *groups;         // pairs: a cell, and the member's group that it is added to
    u64        n_pairs;
};

// ---- which fit ------------------------------------------------------------------------------------------------------

static const Range *values_of(const Launch *launch, const CubeTest *test)
{
    return &launch->source->columns[launch->woven->columns[test->column]].range;
}

const CubeForm *join_cube_form(Arena *arena, const Launch *launch)
{
    if (!launch->jit || launch->sink != SINK_GROUPS) return NULL;
    const CubeForm *form =
        weave_cube_form(arena, &(FuseMember){ launch->woven, launch->source->chunk_column });
    for (int t = 0; form && t < form->n_tests; t++) {
        const Range *range = values_of(launch, &form->tests[t]);
        if (!range->known || range->nullable || range->low > range->high || range->high - range->low >= MOST_VALUES)
            return NULL;
    }
    return form;
}

bool join_cube_has_payloads(const CubeForm *form)
{
    for (int t = 0; t < form->n_tests; t++)
        if (form->tests[t].has_payload) return true;
    return false;
}

bool join_cube_fits(const SieveMember *a, const SieveMember *b)
{
    return a->device == b->device && a->form && b->form && weave_is_same_form(a->form, b->form);
}

bool join_cube_is_like(const Cube *cube, const SieveMember *member)
{
    return cube->joins && weave_is_same_form(&cube->joins->form, member->form);
}

// ---- what it costs --------------------------------------------------------------------------------------------------

static double reach_ns(double bytes) { return bytes < 32e3 ? 0.4 : bytes < 1e6 ? 1.0 : bytes < 8e6 ? 2.5 : 6; }

// Share of a column's values that pass, as far as is known without looking.
static double test_pass(const Launch *launch, const CubeTest *test)
{
    const Range *range = values_of(launch, test);
    const double span = (double)(range->high - range->low) + 1;
    const double low = MAX_OF((double)test->low, (double)range->low),
                 high = MIN_OF((double)test->high, (double)range->high);
    const double inside = MAX_OF(0, high - low + 1) / span;
    const double found =
        test->table ? (double)test->table->n_rows / (double)MAX_OF(test->table->n_scanned, test->table->n_rows) : 1;
    return MIN_OF(inside, 1) * (test->table && test->table->n_rows ? found : 1);
}

static double column_bytes(const Launch *launch, const CubeTest *test)
{
    const Range *range = values_of(launch, test);
    return 2 * ((double)(range->high - range->low) + 1);
}

static int n_adds(const SieveMember *member) { return MIN_OF(member->launch->woven->n_state, 8); }

static double alone_ns(const SieveMember *members, int n_members)
{
    double ns = 0;
    for (int m = 0; m < n_members; m++) ns += sieve_alone_ns(members[m].launch);
    return ns;
}

// ---- the order of columns -------------------------------------------------------------------------------------------

static double rank_of(const SieveMember *members, int n_members, int test)
{
    double pass = 0;
    for (int m = 0; m < n_members; m++) pass += test_pass(members[m].launch, &members[m].form->tests[test]);
    pass /= n_members;
    return (STEP_NS + reach_ns(column_bytes(members[0].launch, &members[0].form->tests[test]))) / (1.02 - pass);
}

static void choose_order(const SieveMember *members, int n_members, int *order)
{
    double rank[CUBE_TESTS];
    for (int t = 0; t < members[0].form->n_tests; t++) {
        int at = t;
        rank[t] = rank_of(members, n_members, t);
        for (; at > 0 && rank[order[at - 1]] > rank[t]; at--) order[at] = order[at - 1];
        order[at] = t;
    }
}

// ---- whether it pays ------------------------------------------------------------------------------------------------

// Expected before anything is made: in each place the rows that any member has left by then are looked at.
static double expect_row(const SieveMember *members, int n_members, const int *order)
{
    const CubeForm *form = members[0].form;
    double         *left = malloc((size_t)n_members * sizeof *left), any = 1, ns = ROW_NS;
    for (int m = 0; m < n_members; m++) left[m] = 1;
    for (int d = 0; d < form->n_tests; d++) {
        ns += any * ((d ? STEP_NS : 0) + reach_ns(column_bytes(members[0].launch, &form->tests[order[d]])));
        any = 0;
        for (int m = 0; m < n_members; m++) {
            left[m] *= test_pass(members[m].launch, &members[m].form->tests[order[d]]);
            any += left[m];
        }
        any = MIN_OF(any, 1);
    }
    free(left);
    return ns + any * ADD_NS * n_adds(&members[0]);
}

// What the members' rows would cost in a sieve with all others that suit one: their part of it, and their matches.
static double sieved_ns(const SieveMember *members, int n_members, int n_sieved)
{
    const int n_all = MAX_OF(n_sieved, n_members), n_sets = (n_all + SIEVE_MEMBERS - 1) / SIEVE_MEMBERS;
    double    ns = SIEVE_NS * n_sets * n_members / n_all;
    for (int m = 0; m < n_members; m++) ns += members[m].pass * SIEVED_NS;
    return ns;
}

bool join_cube_pays(const SieveMember *members, int n_members, int n_sieved, double *gain)
{
    int          order[CUBE_TESTS] = { 0 };
    const double alone = alone_ns(members, n_members);
    choose_order(members, n_members, order);
    const double together = expect_row(members, n_members, order);
    *gain = alone / together;
    return n_members > 1 && MIN_OF(alone, sieved_ns(members, n_members, n_sieved)) > 1.1 * together;
}

// ---- classes --------------------------------------------------------------------------------------------------------

static const CubeTest *test_at(const JoinCube *joins, const SieveMember *member, int d)
{
    return &member->form->tests[joins->order[d]];
}

static void cover(const JoinCube *joins, const SieveMember *members, int n_members, int d, i64 *low, u64 *size)
{
    i64 high = INT64_MIN;
    *low = INT64_MAX;
    for (int m = 0; m < n_members; m++) {
        const Range *range = values_of(members[m].launch, test_at(joins, &members[m], d));
        *low = MIN_OF(*low, (i64)range->low), high = MAX_OF(high, (i64)range->high);
    }
    *size = (u64)high - (u64)*low + 1;
}

static bool make_classes(JoinCube *joins, const JoinCube *before, const SieveMember *members, int n_members, int d)
{
    i64 low;
    u64 size;
    cover(joins, members, n_members, d, &low, &size);
    if (size > (u64)MOST_VALUES) return false;
    const Classes *base = before ? before->classes[d] : NULL;
    if (base && (!classes_cover(base, low, size) || classes_n_tests(base) > 2 * n_members + 32)) base = NULL;
    joins->classes[d] = classes_new(joins->budget, base, low, size);
    for (int m = 0; m < n_members && joins->classes[d]; m++) {
        const CubeTest *test = test_at(joins, &members[m], d);
        const ClassTest asked = { test->low, test->high, test->table, test->has_payload };
        const int       number = classes_add(joins->classes[d], &asked);
        joins->tests[m * joins->form.n_tests + d] = number;
        if (number < 0) return false;
    }
    return joins->classes[d] != NULL;
}

// The tests in use, each once.
static bool map_classes(JoinCube *joins, int n_members, int d)
{
    const int n_tests = joins->form.n_tests, n_made = classes_n_tests(joins->classes[d]);
    int      *use_of = calloc((size_t)n_made + 1, sizeof *use_of), *used = calloc((size_t)n_made + 1, sizeof *used);
    int       n_used = 0;
    for (int m = 0; m < n_members; m++) {
        const int test = joins->tests[m * n_tests + d];
        if (!use_of[test]) used[n_used] = test, use_of[test] = ++n_used;
        joins->uses[m * n_tests + d] = use_of[test] - 1;
    }
    const bool in_class = classes_n_payloads(joins->classes[d]) <= FEW_PAYLOADS;
    const bool ok = classes_map(joins->classes[d], joins->arena, used, n_used, in_class, &joins->maps[d]);
    free(use_of);
    free(used);
    return ok;
}

// ---- states ---------------------------------------------------------------------------------------------------------

static bool grow(Budget *budget, void **memory, u64 used, u64 room, u64 more)
{
    Error ignored;
    void *larger;
    error_clear(&ignored);
    if (mem_alloc(budget, more, &larger, &ignored)) return false;
    if (used) memcpy(larger, *memory, used);
    mem_free(budget, *memory, room);
    *memory = larger;
    return true;
}

// A row of the table of place D for one more state before it.
static bool add_row(JoinCube *joins, int d)
{
    StateTable *table = &joins->states[d];
    const u64   n_classes = (u64)joins->maps[d].n_classes;
    if (table->n_before == table->room) {
        const u64 room = MAX_OF(2 * table->room, 16);
        if (room * n_classes > MOST_NEXT) return false;
        if (!grow(joins->budget, (void **)&table->next, table->n_before * n_classes * 2, table->room * n_classes * 2,
                  room * n_classes * 2))
            return false;
        table->room = room;
    }
    memset(table->next + table->n_before * n_classes, 0, n_classes * sizeof(u16));
    table->n_before++;
    return true;
}

static bool add_state(JoinCube *joins, int d, u16 *next, double weight)
{
    StateTable *table = &joins->states[d];
    int         n_states = (int)table->n_states;
    if (table->n_states == MOST_STATES) return false;
    *LIST_PUSH(joins->arena, table->weight, n_states) = weight;
    *next = (u16)(table->n_states = (u32)n_states);
    return d + 1 == joins->form.n_tests || add_row(joins, d + 1);
}

typedef struct SlotWalk {                  // through what a member wants
    JoinCube          *joins;
    const SieveMember *member;
    int                number;
    int                classes[CUBE_TESTS];    // by place
    u64                n_wanted;               // slots so far
    u64                n_pairs;
    bool               is_filling;             // else they are only counted
} SlotWalk;

static int place_of(const JoinCube *joins, int test)
{
    for (int d = 0; d < joins->form.n_tests; d++)
        if (joins->order[d] == test) return d;
    return -1;
}

// How many cells of the slot at hand a group key tells apart.
static u64 n_codes_of(const SlotWalk *walk, int k)
{
    const int t = walk->joins->form.test_of_key[k];
    if (t < 0) return (u64)walk->joins->n_local[k];
    const int d = place_of(walk->joins, t);
    return (u64)walk->joins->maps[d].n_payloads[walk->classes[d]];
}

// The part of the member's group that the key's CODE within its class is.
static u64 group_part(const SlotWalk *walk, int k, u64 code)
{
    const JoinCube *joins = walk->joins;
    const GroupKey *key = &walk->member->launch->woven->group_keys[k];
    const int       t = joins->form.test_of_key[k];
    if (t < 0) return code * key->stride;
    const int d = place_of(joins, t), test = joins->tests[walk->number * joins->form.n_tests + d];
    return classes_own_code(joins->classes[d], test, joins->maps[d].payload_at[walk->classes[d]][code]) * key->stride;
}

static void add_pairs(SlotWalk *walk, int k, u64 cell, u64 group)
{
    JoinCube *joins = walk->joins;
    if (k == joins->form.n_keys) {
        joins->cells[walk->n_pairs] = (u32)cell, joins->groups[walk->n_pairs++] = (u32)group;
        return;
    }
    for (u64 code = 0, n = n_codes_of(walk, k); code < n; code++)
        add_pairs(walk, k + 1, cell + code * joins->stride[k], group + group_part(walk, k, code));
}

static void reach_slot(SlotWalk *walk, u64 slot)
{
    u64 n_pairs = 1;
    walk->n_wanted++;
    if (walk->is_filling) {
        add_pairs(walk, 0, slot * walk->joins->n_in_slot, 0);
        return;
    }
    for (int k = 0; k < walk->joins->form.n_keys; k++) n_pairs *= n_codes_of(walk, k);
    walk->n_pairs += n_pairs;
}

// All combinations of the classes that the member wants from place D on; BEFORE: the state so far, or in place 1 the
// class.
static bool walk_from(SlotWalk *walk, int d, u64 before, double weight)
{
    JoinCube       *joins = walk->joins;
    const ClassMap *map = &joins->maps[d];
    const int       use = joins->uses[walk->number * joins->form.n_tests + d];
    const bool      is_last = d + 1 == joins->form.n_tests;
    for (int c = 0; c < map->n_wanted[use]; c++) {
        const int class = walk->classes[d] = map->wanted[use][c];
        u64       state = (u64)class;
        if (d > 0) {
            u16 *next = &joins->states[d].next[before * (u64)map->n_classes + (u64)class];
            if (!*next && !add_state(joins, d, next, weight * map->share[class])) return false;
            state = *next - 1u;
        }
        if (is_last) reach_slot(walk, d > 0 ? state : state - 1);
        else if (!walk_from(walk, d + 1, state, weight * map->share[class])) return false;
        if (walk->n_wanted > MOST_WANTED || walk->n_pairs > MOST_PAIRS) return false;
    }
    return true;
}

// ---- cells ----------------------------------------------------------------------------------------------------------

// Classes must be there.
static bool place_keys(JoinCube *joins, const Woven *member)
{
    joins->n_in_slot = 1;
    for (int k = joins->form.n_keys - 1; k >= 0; k--) {
        const int t = joins->form.test_of_key[k];
        const u64 n = t < 0 ? member->group_keys[k].n_codes : (u64)joins->maps[place_of(joins, t)].n_local;
        if (n > MOST_CELLS) return false;
        joins->n_local[k] = (int)n, joins->stride[k] = joins->n_in_slot;
        joins->n_in_slot *= MAX_OF(n, 1);
        if (joins->n_in_slot > MOST_CELLS) return false;
    }
    return true;
}

static u64 cell_bytes(const Woven *woven)
{
    u64 bytes = 0;
    for (int s = 0; s < woven->n_state; s++) bytes += woven->state[s].bytes;
    return bytes;
}

static bool make_states(JoinCube *joins, const SieveMember *members, int n_members)
{
    const int n_tests = joins->form.n_tests;
    SlotWalk      walk = { .joins = joins };
    for (int c = 0; n_tests > 1 && c < joins->maps[0].n_classes; c++)
        if (!add_row(joins, 1)) return false;
    for (int m = 0; m < n_members; m++) {
        walk.member = &members[m], walk.number = m;
        joins->first_pair[m] = walk.n_pairs;
        if (!walk_from(&walk, 0, 0, 1)) return false;
    }
    joins->first_pair[n_members] = joins->n_pairs = walk.n_pairs;
    joins->n_slots = n_tests > 1 ? joins->states[n_tests - 1].n_states : (u64)joins->maps[0].n_classes - 1;
    return joins->n_slots * joins->n_in_slot * cell_bytes(members[0].launch->woven) <= MOST_CELLS;
}

static bool make_pairs(JoinCube *joins, const SieveMember *members, int n_members)
{
    Error ignored;
    SlotWalk  walk = { .joins = joins, .is_filling = true };
    void *memory;
    error_clear(&ignored);
    if (mem_alloc(joins->budget, 2 * (joins->n_pairs + 1) * sizeof(u32), &memory, &ignored)) return false;
    joins->cells = memory, joins->groups = joins->cells + joins->n_pairs + 1;
    for (int m = 0; m < n_members; m++) {
        walk.member = &members[m], walk.number = m;
        if (!walk_from(&walk, 0, 0, 1)) return false;
    }
    return walk.n_pairs == joins->n_pairs;
}

// What a row is expected to cost, from the states.
static void expect(JoinCube *joins, const Woven *member)
{
    const int n_tests = joins->form.n_tests;
    double    left = 1 - joins->maps[0].share[0];
    joins->row_ns = ROW_NS + reach_ns((double)joins->maps[0].bytes);
    for (int d = 1; d < n_tests; d++) {
        joins->row_ns += (d == 1 && joins->is_merged ? 1 : left) * (STEP_NS + reach_ns((double)joins->maps[d].bytes));
        left = 0;
        for (u32 s = 0; s < joins->states[d].n_states; s++) left += joins->states[d].weight[s];
    }
    joins->left = left;
    joins->row_ns += left * (ADD_NS * MIN_OF(member->n_state, 8) +
                             reach_ns((double)(joins->n_slots * joins->n_in_slot * cell_bytes(member))));
    joins->row_ns += CELL_NS * (double)(joins->n_slots * joins->n_in_slot + joins->n_pairs) / CLEARED_ROWS;
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static void set_table(Woven *woven, int number, const void *data, u64 bytes)
{
    woven->tables[number] = data;
    woven->table_facts[number].bytes = bytes;
}

static void fill_in(const JoinCube *joins, const SieveMember *members, int n_members, Woven *woven)
{
    const CubeForm *form = &joins->form;
    for (int d = 0; d < form->n_tests; d++) {
        const StateTable *table = &joins->states[d];
        const u64         n_classes = (u64)joins->maps[d].n_classes;
        i64               low;
        u64               size;
        cover(joins, members, n_members, d, &low, &size);
        woven->params[cube_param_from(d)].value = low;
        set_table(woven, cube_table_class(d), joins->maps[d].class_of, joins->maps[d].bytes);
        if (d == 0) continue;
        set_table(woven, cube_table_next(form, d), table->next, table->n_before * n_classes * sizeof(u16));
        woven->params[cube_param_classes(form, d)].value = (i64)n_classes;
    }
    woven->params[cube_param_groups(form)].value = (i64)joins->n_in_slot;
    for (int k = 0; k < form->n_keys; k++) {
        woven->params[cube_param_stride(form, k)].value = (i64)joins->stride[k];
        if (form->test_of_key[k] < 0) continue;
        const int      d = place_of(joins, form->test_of_key[k]);
        const Classes *classes = joins->classes[d];
        set_table(woven, cube_table_atoms(form, k), classes_atoms(classes), classes_bytes(classes));
        set_table(woven, cube_table_local(form, k), joins->maps[d].local_of_atom,
                  (u64)classes_n_atoms(classes) * sizeof(u16));
    }
    woven->n_groups = joins->n_slots * joins->n_in_slot;
}

static bool make_kernel(Cube *cube, const Cube *before)
{
    JoinCube     *joins = cube->joins;
    const Launch *launch = cube->members[0].launch;
    const double  share = 1 - joins->maps[0].share[0];
    const bool    was_merged = before && before->joins->is_merged;
    joins->is_merged = was_merged ? share > MERGED_FROM / 2 : share > MERGED_FROM;
    cube->woven = weave_join_cube(cube->arena, &(FuseMember){ launch->woven, launch->source->chunk_column },
                                  cube->members[0].form, joins->order, joins->is_merged);
    fill_in(joins, cube->members, cube->n_members, cube->woven);
    cube_compile(cube, before);
    return true;
}

static void note_figures(Cube *cube)
{
    const JoinCube *joins = cube->joins;
    CubeFigures    *figures = &cube->figures;
    for (int d = 0; d < joins->form.n_tests; d++) figures->n_classes += (u64)joins->maps[d].n_classes - 1;
    figures->n_slots = joins->n_slots, figures->n_cells = joins->n_slots * joins->n_in_slot;
}

static void fold_member(const Cube *cube, int member, Fold *fold)
{
    const JoinCube *joins = cube->joins;
    const u64       first = joins->first_pair[member];
    fold->n_cells = (u32)(joins->first_pair[member + 1] - first);
    fold->cells = joins->cells + first, fold->groups = joins->groups + first;
}

static void free_joins(JoinCube *joins)
{
    for (int d = 0; d < joins->form.n_tests; d++) {
        const StateTable *table = &joins->states[d];
        mem_free(joins->budget, table->next, table->room * (u64)joins->maps[d].n_classes * sizeof(u16));
        if (joins->classes[d]) classes_unmap(joins->classes[d], &joins->maps[d]);
        classes_free(joins->classes[d]);
    }
    mem_free(joins->budget, joins->cells, 2 * (joins->n_pairs + 1) * sizeof(u32));
}

static const CubeKind over_joins = { fold_member, free_joins };

static JoinCube *joins_new(Cube *cube, const Cube *before)
{
    const CubeForm *form = cube->members[0].form;
    JoinCube       *joins = arena_make(cube->arena, JoinCube);
    const size_t    n_tests = (size_t)cube->n_members * (size_t)form->n_tests;
    joins->arena = cube->arena, joins->budget = cube->budget, joins->form = *form;
    joins->form.key = arena_strndup(cube->arena, form->key, form->length);
    for (int t = 0; t < form->n_tests; t++) joins->form.tests[t].table = NULL;
    joins->tests = arena_array(cube->arena, int, n_tests), joins->uses = arena_array(cube->arena, int, n_tests);
    joins->first_pair = arena_array(cube->arena, u64, cube->n_members + 1);
    if (before) memcpy(joins->order, before->joins->order, sizeof joins->order);
    else choose_order(cube->members, cube->n_members, joins->order);
    return joins;
}

Cube *join_cube_make(Budget *budget, const Cube *before, const SieveMember *members, int n_members)
{
    Cube     *cube = cube_new(budget, members, n_members);
    JoinCube *joins = cube->joins = joins_new(cube, before);
    cube->kind = &over_joins;
    bool      ok = true;
    for (int d = 0; d < joins->form.n_tests && ok; d++)
        ok = make_classes(joins, before ? before->joins : NULL, members, n_members, d) &&
             map_classes(joins, n_members, d);
    ok = ok && place_keys(joins, members[0].launch->woven) && make_states(joins, members, n_members) &&
         make_pairs(joins, members, n_members) && make_kernel(cube, before);
    if (!ok) {
        cube_release(cube);
        return NULL;
    }
    expect(joins, members[0].launch->woven);
    cube->saves_ns = alone_ns(members, n_members) - joins->row_ns;
    note_figures(cube);
    return cube;
}
