// slots.c - see share.h.
//
// States are made member by member: all combinations of the classes that it wants, column by column.  Each leads to a
// slot, where the member is told which of its groups each cell is for.  So sets of any number of members are possible,
// and what a row costs does not depend on it.

#include "share/share.h"
#include "share/classes.h"

#include <math.h>
#include <stdlib.h>

#define MOST_VALUES    ((i128)1 << 23) // of a column's range
#define MOST_STATES    65534u          // numbers have 16 bits, and 0 is none
#define MOST_NEXT      ((u64)1 << 21)  // entries of a table of states
#define MOST_PAIRS     ((u64)1 << 22)  // cells that are added up, for all members
#define PAIRS_AT_FIRST ((u64)1024)
#define KEPT_TIMES     4               // as much memory for pairs as is expected to be used, at most
#define MOST_WANTED    ((u64)1 << 21)  // combinations of classes, for all members
#define TESTS_TAKEN    1024            // of queries that are gone, before classes are made anew,
#define TESTS_COPIED   32              // and where all of them are copied first
#define COARSE_RANKS   3.0             // ranks that differ by less than this are alike, about
#define FEW_PAYLOADS   16              // of a column: they tell classes apart, so that slots have no empty cells

typedef struct StateTable {            // of a place in the order, but the first
    u16 *next;                         // by state before and class: state + 1, 0: none
    u64  n_before, room;               // rows, and entries that there is room for
    u32  n_states;                     // that it leads to
    double *weight;                    // by state: share of the rows that are expected in it
} StateTable;

struct Slots {
    Arena     *arena;
    Budget    *budget;
    CubeForm   form;                   // tables of tests, and the key, are not to be looked at
    int        order[CUBE_TESTS];      // by place: test of the form
    bool       by_atom;
    ClassValues values[CUBE_TESTS];    // by place, as what follows; kinds are not to be looked at
    Classes   *classes[CUBE_TESTS];
    ClassMap   maps[CUBE_TESTS];
    u16       *local_of_kind[CUBE_TESTS];      // by atom, with kinds: code of a kind within its class
    StateTable states[CUBE_TESTS];
    int        n_members;
    int       *tests;                  // by member and place: number among the classes' tests
    int       *uses;                   // the same: number among the tests in use
    u32       *places;                 // by slot: its first cell, and the strides of all group keys but the last
    int        n_places;               // of places
    u64        n_slots, n_cells;
    u64        cells_most;
    u64       *first_pair;             // by member, and behind the last one
    u32       *cells, *groups;         // pairs: a cell, and the member's group that it is added to
    u64        n_pairs, pairs_room;
};

// ---- which fit ------------------------------------------------------------------------------------------------------

static const Range *values_of(const SlotMember *member, int test)
{
    return &member->source->columns[member->woven->columns[member->form->tests[test].column]].range;
}

const CubeForm *slots_form(Arena *arena, const Woven *woven, const Source *source)
{
    const CubeForm  *form = weave_cube_form(arena, &(FuseMember){ woven, source->chunk_column });
    const SlotMember member = { woven, source, form };
    for (int t = 0; form && t < form->n_tests; t++) {
        const Range *range = values_of(&member, t);
        if (!range->known || range->nullable || range->low > range->high || range->high - range->low >= MOST_VALUES)
            return NULL;
    }
    return form;
}

bool slots_can_read(const CubeForm *form)
{
    for (int t = 0; t < form->n_tests; t++) {
        const JoinTable *table = form->tests[t].table;
        if (table && !table->kinds && table->shape == SHAPE_BITS && !table->slots) return false;
        for (int p = 0; table && !table->kinds && p < table->n_payloads; p++)
            if (!table->payloads[p].data) return false;
    }
    return true;
}

// ---- the order of columns -------------------------------------------------------------------------------------------

double slots_values(const SlotMember *member, int test)
{
    const Range     *range = values_of(member, test);
    const JoinTable *table = member->form->tests[test].table;
    return table && table->kinds ? (double)table->kinds->n_kinds : (double)(range->high - range->low) + 1;
}

// The range of the column itself must not be tested: it is not looked at.
static const Kinds *kinds_of(const SlotMember *member, int test)
{
    const CubeTest *own = &member->form->tests[test];
    const Range    *range = values_of(member, test);
    return own->table && own->low <= range->low && own->high >= range->high ? own->table->kinds : NULL;
}

const Kinds *slots_kinds(const SlotMember *members, int n_members, int test)
{
    const Kinds *kinds = kinds_of(&members[0], test);
    for (int m = 1; m < n_members && kinds; m++) {
        const Kinds *others = kinds_of(&members[m], test);
        if (!others || others->id != kinds->id) return NULL;
    }
    return kinds;
}

double slots_pass(const SlotMember *member, int t)
{
    const CubeTest *test = &member->form->tests[t];
    const Range    *range = values_of(member, t);
    const double low = MAX_OF((double)test->low, (double)range->low),
                 high = MIN_OF((double)test->high, (double)range->high);
    const double inside = MAX_OF(0, high - low + 1) / ((double)(range->high - range->low) + 1);
    const double found =
        test->table ? (double)test->table->n_rows / (double)MAX_OF(test->table->n_scanned, test->table->n_rows) : 1;
    return MIN_OF(inside, 1) * (test->table && test->table->n_rows ? found : 1);
}

static double rank_of(const SlotMember *members, int n_members, int test, double cost)
{
    double pass = 0;
    for (int m = 0; m < n_members; m++) pass += slots_pass(&members[m], test);
    return cost / (1.02 - pass / n_members);
}

void slots_order(const SlotMember *members, int n_members, const double *costs, bool is_coarse, int *order)
{
    double rank[CUBE_TESTS];
    for (int t = 0; t < members[0].form->n_tests; t++) {
        int at = t;
        rank[t] = rank_of(members, n_members, t, costs[t]);
        if (is_coarse) rank[t] = floor(log(rank[t]) / log(COARSE_RANKS) + 0.5);
        for (; at > 0 && rank[order[at - 1]] > rank[t]; at--) order[at] = order[at - 1];
        order[at] = t;
    }
}

// ---- classes --------------------------------------------------------------------------------------------------------

static void cover(Slots *slots, const SlotMember *members, int n_members, int d)
{
    i64 low = INT64_MAX, high = INT64_MIN;
    if (slots->values[d].kinds) {
        slots->values[d].low = 0, slots->values[d].size = (u64)slots->values[d].kinds->n_kinds;
        return;
    }
    for (int m = 0; m < n_members; m++) {
        const Range *range = values_of(&members[m], slots->order[d]);
        low = MIN_OF(low, (i64)range->low), high = MAX_OF(high, (i64)range->high);
    }
    slots->values[d].low = low, slots->values[d].size = (u64)high - (u64)low + 1;
}

static Classes *new_classes(const Slots *slots, const Classes *before, int d)
{
    const bool by_atom = slots->by_atom && !slots->values[d].kinds;        // by kind no table has a row for each atom
    return classes_new(slots->budget, before, &slots->values[d], by_atom ? FEW_ATOMS : MOST_ATOMS);
}

// Those of queries before, if they are of the same values and not mostly for queries that are gone.
static Classes *base_classes(const Slots *slots, const SlotsWish *wish, int d)
{
    Slots *before = wish->before;
    if (!before || !before->classes[d] || !classes_cover(before->classes[d], &slots->values[d]) ||
        classes_n_tests(before->classes[d]) > 2 * wish->n_members + (wish->takes ? TESTS_TAKEN : TESTS_COPIED))
        return new_classes(slots, NULL, d);
    if (!wish->takes) return new_classes(slots, before->classes[d], d);
    Classes *taken = before->classes[d];
    classes_unmap(taken, &before->maps[d]);
    before->classes[d] = NULL;
    return taken;
}

// Its payloads are in the order of the group keys, which is the same for all queries of a form.
static ClassTest class_test(const CubeForm *form, int test)
{
    const CubeTest *own = &form->tests[test];
    ClassTest       asked = { own->low, own->high, own->table, 0, { 0 } };
    for (int k = cube_next_key(form, test, -1); k >= 0 && own->n_payloads; k = cube_next_key(form, test, k))
        asked.payloads[asked.n_payloads++] = (u8)form->payload_of_key[k];
    return asked;
}

static bool add_tests(Slots *slots, const SlotsWish *wish, int d)
{
    for (int m = 0; m < wish->n_members && slots->classes[d]; m++) {
        const ClassTest asked = class_test(wish->members[m].form, slots->order[d]);
        const int       number = classes_add(slots->classes[d], &asked);
        slots->tests[m * slots->form.n_tests + d] = number;
        if (number < 0) return false;
    }
    return slots->classes[d] != NULL;
}

// Where tests of queries that are gone leave no room, without these.
static bool make_classes(Slots *slots, const SlotsWish *wish, int d)
{
    cover(slots, wish->members, wish->n_members, d);
    if (slots->values[d].size > (u64)MOST_VALUES) return false;
    slots->classes[d] = base_classes(slots, wish, d);
    const bool has_others = slots->classes[d] && classes_n_tests(slots->classes[d]) > 0;
    if (add_tests(slots, wish, d)) return true;
    if (!has_others) return false;
    classes_free(slots->classes[d]);
    slots->classes[d] = new_classes(slots, NULL, d);
    return add_tests(slots, wish, d);
}

// The tests in use, each once.
static bool map_classes(Slots *slots, int d)
{
    const int n_tests = slots->form.n_tests, n_made = classes_n_tests(slots->classes[d]);
    int      *use_of = calloc((size_t)n_made + 1, sizeof *use_of), *used = calloc((size_t)n_made + 1, sizeof *used);
    int       n_used = 0;
    for (int m = 0; m < slots->n_members; m++) {
        const int test = slots->tests[m * n_tests + d];
        if (!use_of[test]) used[n_used] = test, use_of[test] = ++n_used;
        slots->uses[m * n_tests + d] = use_of[test] - 1;
    }
    const bool in_class = classes_n_payloads(slots->classes[d]) <= FEW_PAYLOADS;
    classes_map(slots->classes[d], slots->arena, used, n_used, in_class, &slots->maps[d]);
    free(use_of);
    free(used);
    if (slots->by_atom && !slots->values[d].kinds) return true;
    return classes_map_values(slots->classes[d], &slots->maps[d]);
}

// By atom, kinds are looked at as atoms are: what an atom has, each of its kinds has.
static void map_kinds(Slots *slots, int d)
{
    const u16 *atom_of = classes_atoms(slots->classes[d]);
    if (!slots->by_atom || !slots->values[d].kinds) return;
    slots->local_of_kind[d] = arena_array(slots->arena, u16, slots->values[d].size + 1);
    for (u64 k = 0; k < slots->values[d].size; k++)
        slots->local_of_kind[d][k] = slots->maps[d].local_of_atom[atom_of[k]];
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
static bool add_row(Slots *slots, int d)
{
    StateTable *table = &slots->states[d];
    const u64   n_classes = (u64)slots->maps[d].n_classes;
    const u64 used = table->n_before * n_classes;
    if (used + n_classes > MOST_NEXT) return false;
    if (used + n_classes > table->room) {
        const u64 room = MAX_OF(2 * table->room, 16 * n_classes);
        if (!grow(slots->budget, (void **)&table->next, used * 2, table->room * 2, room * 2)) return false;
        table->room = room;
    }
    memset(table->next + table->n_before * n_classes, 0, n_classes * sizeof(u16));
    table->n_before++;
    return true;
}

static bool add_state(Slots *slots, int d, u16 *next, double weight)
{
    StateTable *table = &slots->states[d];
    int         n_states = (int)table->n_states;
    if (table->n_states == MOST_STATES) return false;
    *LIST_PUSH(slots->arena, table->weight, n_states) = weight;
    *next = (u16)(table->n_states = (u32)n_states);
    return d + 1 == slots->form.n_tests || add_row(slots, d + 1);
}

typedef struct KeyPart {                   // a group key of the member at hand
    int        place;                      // of its test; -1: it is computed from stored columns, or not the first one
    int        next;                       // key of the same test, whose codes are found with those of the first; or -1
    u64        stride;                     // in the member's groups
    const u32 *own;                        // by number of a payload: the member's code for it
    u64        n_codes;                    // cells of the slot at hand that it tells apart
    const u32 *payloads;                   // of the class at hand: numbers
} KeyPart;

typedef struct SlotWalk {                  // through what a member wants
    Slots  *slots;
    int     number;
    int     classes[CUBE_TESTS];           // by place
    KeyPart keys[CUBE_KEYS];
    u64     n_wanted;                      // slots so far, of all members
} SlotWalk;

static int place_of(const Slots *slots, int test)
{
    for (int d = 0; d < slots->form.n_tests; d++)
        if (slots->order[d] == test) return d;
    return -1;
}

// The group keys of a test: all but the first one tell nothing apart by themselves.
static void begin_keys(SlotWalk *walk, const SlotMember *member, int test)
{
    const Slots    *slots = walk->slots;
    const CubeForm *form = &slots->form;
    const int       d = place_of(slots, test), number = slots->tests[walk->number * form->n_tests + d];
    int             place = 0;
    for (int k = cube_next_key(form, test, -1), next; k >= 0; k = next) {
        next = cube_next_key(form, test, k);
        walk->keys[k] = (KeyPart){ .place = place ? -1 : d,
                                   .next = next,
                                   .stride = member->woven->group_keys[k].stride,
                                   .own = classes_own_codes(slots->classes[d], number, place),
                                   .n_codes = 1 };
        place++;
    }
}

static void begin_member(SlotWalk *walk, const SlotMember *member, int number)
{
    const CubeForm *form = &walk->slots->form;
    walk->number = number;
    for (int k = 0; k < form->n_keys; k++) {
        const GroupKey *key = &member->woven->group_keys[k];
        if (form->test_of_key[k] < 0)
            walk->keys[k] = (KeyPart){ .place = -1, .next = -1, .stride = key->stride, .n_codes = key->n_codes };
        else if (cube_is_first_key(form, k)) begin_keys(walk, member, form->test_of_key[k]);
    }
}

// The classes at hand lead to a slot.
static void look_at_slot(SlotWalk *walk)
{
    for (int k = 0; k < walk->slots->form.n_keys; k++) {
        KeyPart *key = &walk->keys[k];
        if (key->place < 0) continue;
        const ClassMap *map = &walk->slots->maps[key->place];
        const int       class = walk->classes[key->place];
        key->n_codes = (u64)map->n_payloads[class], key->payloads = map->payload_at[class];
    }
}

// The part of the member's group that the key's CODE within its class is, with those of the other keys of its test.
static u64 group_part(const SlotWalk *walk, const KeyPart *key, u64 code)
{
    if (key->place < 0) return key->own ? 0 : code * key->stride;
    const u32 payload = key->payloads[code];
    u64       part = key->own[payload] * key->stride;
    for (int k = key->next; k >= 0; k = walk->keys[k].next) part += walk->keys[k].own[payload] * walk->keys[k].stride;
    return part;
}

// STRIDES: of its slot; STRIDES[0] is that of the second group key.  Most pairs are made here, so what is the same for
// all codes of the last key is not looked up for each.
static void add_pairs(SlotWalk *walk, const u32 *strides, int k, u64 cell, u64 group)
{
    Slots         *slots = walk->slots;
    const KeyPart *key = &walk->keys[k];
    const bool     is_last = k + 1 >= slots->form.n_keys;
    const u64      n_codes = k < slots->form.n_keys ? key->n_codes : 1;
    u32           *cells = slots->cells + slots->n_pairs, *groups = slots->groups + slots->n_pairs;
    for (u64 code = 0; code < n_codes && !is_last; code++)
        // cppcheck-suppress nullPointer ; no strides are needed for one key alone
        add_pairs(walk, strides, k + 1, cell + code * strides[k], group + group_part(walk, key, code));
    if (!is_last) return;
    for (u64 code = 0; code < n_codes; code++) cells[code] = (u32)(cell + code), groups[code] = (u32)group;
    for (u64 code = 0; code < n_codes && k < slots->form.n_keys; code++)
        groups[code] += (u32)group_part(walk, key, code);
    slots->n_pairs += n_codes;
}

// The next slot, which the classes at hand lead to, gets as many cells as they have groups.  False: too many cells.
static bool place_slot(SlotWalk *walk)
{
    Slots    *slots = walk->slots;
    const int n_keys = slots->form.n_keys;
    u64       n_in_slot = 1;
    u32       strides[CUBE_KEYS] = { 0 };
    look_at_slot(walk);
    for (int k = n_keys - 1; k >= 0; k--) {
        strides[k] = (u32)n_in_slot;
        n_in_slot *= MAX_OF(walk->keys[k].n_codes, 1);
        if (n_in_slot > slots->cells_most) return false;
    }
    if (n_keys) *LIST_PUSH(slots->arena, slots->places, slots->n_places) = (u32)slots->n_cells;
    for (int k = 0; k + 1 < n_keys; k++) *LIST_PUSH(slots->arena, slots->places, slots->n_places) = strides[k];
    slots->n_slots++, slots->n_cells += n_in_slot;
    return slots->n_cells <= slots->cells_most;
}

// False: too many of them, or no memory.
static bool has_room_for_pairs(Slots *slots, u64 n)
{
    const u64 used = slots->n_pairs * sizeof(u32), room = slots->pairs_room * sizeof(u32);
    if (slots->n_pairs + n > MOST_PAIRS) return false;
    if (slots->n_pairs + n <= slots->pairs_room) return true;
    const u64 more = MAX_OF(MAX_OF(2 * slots->pairs_room, slots->n_pairs + n), PAIRS_AT_FIRST);
    if (!grow(slots->budget, (void **)&slots->cells, used, room, more * sizeof(u32))) return false;
    if (!grow(slots->budget, (void **)&slots->groups, used, room, more * sizeof(u32))) {
        // Both have one size.
        mem_free(slots->budget, slots->cells, more * sizeof(u32));
        slots->cells = NULL;
        return false;
    }
    slots->pairs_room = more;
    return true;
}

// False: too many pairs, or no memory for them.
static bool reach_slot(SlotWalk *walk, u64 slot)
{
    Slots    *slots = walk->slots;
    const int n_keys = slots->form.n_keys;
    u64       n_pairs = 1;
    look_at_slot(walk);
    for (int k = 0; k < n_keys; k++) n_pairs *= walk->keys[k].n_codes;
    if (++walk->n_wanted > MOST_WANTED || !has_room_for_pairs(slots, n_pairs)) return false;
    if (!n_keys) {
        add_pairs(walk, NULL, 0, slot, 0);
        return true;
    }
    const u32 *place = slots->places + slot * (u64)n_keys;
    if (n_pairs) add_pairs(walk, place + 1, 0, place[0], 0);
    return true;
}

static bool reach_state(SlotWalk *walk, int d, u16 *next, double weight)
{
    return add_state(walk->slots, d, next, weight) && (d + 1 < walk->slots->form.n_tests || place_slot(walk));
}

// All combinations of the classes that the member wants from place D on; BEFORE: the state so far, or in place 1 the
// class.
static bool walk_from(SlotWalk *walk, int d, u64 before, double weight)
{
    Slots       *slots = walk->slots;
    const ClassMap *map = &slots->maps[d];
    const int       use = slots->uses[walk->number * slots->form.n_tests + d];
    const bool      is_last = d + 1 == slots->form.n_tests;
    for (int c = 0; c < map->n_wanted[use]; c++) {
        const int class = walk->classes[d] = map->wanted[use][c];
        u64       state = (u64)class;
        if (d > 0) {
            // cppcheck-suppress arrayIndexOutOfBoundsCond ; there are as many places as tests
            u16 *next = &slots->states[d].next[before * (u64)map->n_classes + (u64)class];
            if (!*next && !reach_state(walk, d, next, weight * map->share[class])) return false;
            state = *next - 1u;
        }
        if (!(is_last ? reach_slot(walk, d > 0 ? state : state - 1)
                      : walk_from(walk, d + 1, state, weight * map->share[class])))
            return false;
    }
    return true;
}

// ---- cells ----------------------------------------------------------------------------------------------------------

static u64 cell_bytes(const Woven *woven)
{
    u64 bytes = 0;
    for (int s = 0; s < woven->n_state; s++) bytes += woven->state[s].bytes;
    return bytes;
}

// With one test a class is a slot.
static bool place_classes(SlotWalk *walk)
{
    for (int c = 1; c < walk->slots->maps[0].n_classes; c++) {
        walk->classes[0] = c;
        if (!place_slot(walk)) return false;
    }
    return true;
}

// And pairs.
static bool make_states(Slots *slots, const SlotMember *members, int n_members, u64 cell_bytes_most)
{
    const int n_tests = slots->form.n_tests;
    SlotWalk  walk = { .slots = slots };
    slots->cells_most = cell_bytes_most / MAX_OF(cell_bytes(members[0].woven), 1);
    for (int c = 0; n_tests > 1 && c < slots->maps[0].n_classes; c++)
        if (!add_row(slots, 1)) return false;
    begin_member(&walk, &members[0], 0);
    if (n_tests == 1 && !place_classes(&walk)) return false;
    for (int m = 0; m < n_members; m++) {
        begin_member(&walk, &members[m], m);
        slots->first_pair[m] = slots->n_pairs;
        if (!walk_from(&walk, 0, 0, 1)) return false;
    }
    slots->first_pair[n_members] = slots->n_pairs;
    return true;
}

// About as many for each member as there were before.
static u64 expect_pairs(const SlotsWish *wish)
{
    const Slots *before = wish->before;
    if (!before || !before->n_members) return 0;
    const u64 n = before->n_pairs * (u64)wish->n_members / (u64)before->n_members;
    return MIN_OF(n + n / 4, MOST_PAIRS);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static Slots *slots_new(const SlotsWish *wish)
{
    const CubeForm *form = wish->members[0].form;
    Slots          *slots = arena_make(wish->arena, Slots);
    const size_t    n_tests = (size_t)wish->n_members * (size_t)form->n_tests;
    slots->arena = wish->arena, slots->budget = wish->budget, slots->form = *form, slots->by_atom = wish->by_atom;
    slots->form.key = NULL;
    for (int t = 0; t < form->n_tests; t++) slots->form.tests[t].table = NULL;
    memcpy(slots->order, wish->order, (size_t)form->n_tests * sizeof *slots->order);
    for (int d = 0; d < form->n_tests && wish->kinds; d++) slots->values[d].kinds = wish->kinds[slots->order[d]];
    slots->n_members = wish->n_members;
    slots->tests = arena_array(wish->arena, int, n_tests), slots->uses = arena_array(wish->arena, int, n_tests);
    slots->first_pair = arena_array(wish->arena, u64, wish->n_members + 1);
    return slots;
}

// The first touch of memory is dear, and pairs of a crowd are megabytes, so what was touched before is used again.
static void take_memory(Slots *slots, const SlotsWish *wish, u64 n_pairs)
{
    Slots *before = wish->before;
    if (!before || !wish->takes || before->budget != slots->budget) return;
    if (before->pairs_room <= KEPT_TIMES * n_pairs) {
        slots->cells = before->cells, slots->groups = before->groups, slots->pairs_room = before->pairs_room;
        before->cells = before->groups = NULL, before->pairs_room = before->n_pairs = 0;
    }
    for (int d = 0; d < MIN_OF(slots->form.n_tests, before->form.n_tests); d++) {
        slots->states[d].next = before->states[d].next, slots->states[d].room = before->states[d].room;
        before->states[d].next = NULL, before->states[d].room = 0;
    }
}

Slots *slots_make(const SlotsWish *wish)
{
    Slots    *slots = slots_new(wish);
    const u64 n_pairs = expect_pairs(wish);
    bool      ok = true;
    take_memory(slots, wish, n_pairs);
    for (int d = 0; d < slots->form.n_tests && ok; d++) {
        ok = make_classes(slots, wish, d) && map_classes(slots, d);
        if (ok) map_kinds(slots, d);
    }
    ok = ok && has_room_for_pairs(slots, n_pairs) &&
         make_states(slots, wish->members, wish->n_members, wish->cell_bytes);
    if (ok) return slots;
    slots_free(slots);
    return NULL;
}

void slots_free(Slots *slots)
{
    for (int d = 0; slots && d < slots->form.n_tests; d++) {
        const StateTable *table = &slots->states[d];
        mem_free(slots->budget, table->next, table->room * sizeof(u16));
        if (slots->classes[d]) classes_unmap(slots->classes[d], &slots->maps[d]);
        classes_free(slots->classes[d]);
    }
    if (!slots) return;
    mem_free(slots->budget, slots->cells, slots->pairs_room * sizeof(u32));
    mem_free(slots->budget, slots->groups, slots->pairs_room * sizeof(u32));
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static void set_table(Woven *woven, int number, const void *data, u64 bytes)
{
    woven->tables[number] = data;
    woven->table_facts[number].bytes = bytes;
}

// By atom: what is looked up is carried less 1, so tables begin at atom 1.
static void fill_in_place(const Slots *slots, int d, Woven *woven)
{
    const CubeForm   *form = &slots->form;
    const StateTable *table = &slots->states[d];
    const ClassMap   *map = &slots->maps[d];
    woven->params[cube_param_from(d)].value = slots->values[d].low;
    if (slots->local_of_kind[d]) {
        set_table(woven, cube_table_class(d), map->class_of, map->bytes);
        set_table(woven, cube_table_values(form, d), NULL, 0);
    } else if (slots->by_atom) {
        set_table(woven, cube_table_class(d), map->class_of_atom + 1, (u64)(map->n_atoms - 1) * sizeof(u16));
        set_table(woven, cube_table_values(form, d), classes_atoms(slots->classes[d]),
                  classes_bytes(slots->classes[d]));
    } else {
        set_table(woven, cube_table_class(d), map->class_of, map->bytes);
    }
    if (d == 0) return;
    set_table(woven, cube_table_next(form, d), table->next, table->n_before * (u64)map->n_classes * sizeof(u16));
    woven->params[cube_param_classes(form, d)].value = map->n_classes;
}

void slots_fill_in(const Slots *slots, Woven *woven)
{
    const CubeForm *form = &slots->form;
    for (int d = 0; d < form->n_tests; d++) fill_in_place(slots, d, woven);
    set_table(woven, cube_table_places(form), slots->places, (u64)slots->n_places * sizeof(u32));
    for (int k = 0; k < form->n_keys; k++) {
        if (!cube_is_first_key(form, k)) continue;
        const int      d = place_of(slots, form->test_of_key[k]);
        const Classes *classes = slots->classes[d];
        const ClassMap *map = &slots->maps[d];
        if (!slots->by_atom)
            set_table(woven, cube_table_atoms(form, k), classes_atoms(classes), classes_bytes(classes));
        if (slots->local_of_kind[d])
            set_table(woven, cube_table_local(form, k), slots->local_of_kind[d], map->bytes);
        else
            set_table(woven, cube_table_local(form, k), map->local_of_atom + slots->by_atom,
                      (u64)(map->n_atoms - slots->by_atom) * sizeof(u16));
    }
    woven->n_groups = slots->n_cells;
}

bool slots_knows(const Slots *slots, const CubeForm *form, int test)
{
    const Classes  *classes = slots->classes[place_of(slots, test)];
    const ClassTest asked = class_test(form, test);
    return classes && classes_know(classes, &asked);
}

u64 slots_version(const Slots *slots, int place) { return classes_version(slots->classes[place]); }
u64 slots_class_bytes(const Slots *slots, int place) { return classes_bytes(slots->classes[place]); }

u64 slots_bytes(const Slots *slots)
{
    u64 bytes = 2 * slots->pairs_room * sizeof(u32);
    for (int d = 0; d < slots->form.n_tests; d++) {
        const ClassMap *map = &slots->maps[d];
        bytes += slots_class_bytes(slots, d) + (map->class_of ? map->bytes : 0) + slots->states[d].room * sizeof(u16);
    }
    return bytes;
}

SlotPairs slots_pairs(const Slots *slots, int member)
{
    const u64 first = slots->first_pair[member];
    return (SlotPairs){ slots->first_pair[member + 1] - first, slots->cells + first, slots->groups + first };
}

SlotPairs slots_all_pairs(const Slots *slots) { return (SlotPairs){ slots->n_pairs, slots->cells, slots->groups }; }

SlotFigures slots_figures(const Slots *slots)
{
    SlotFigures figures = { .n_slots = slots->n_slots,
                            .n_cells = slots->n_cells,
                            .n_pairs = slots->n_pairs };
    for (int d = 0; d < slots->form.n_tests; d++) {
        figures.n_classes += (u64)slots->maps[d].n_classes - 1;
        if (d == 0) figures.left[d] = 1 - slots->maps[0].share[0];
        for (u32 s = 0; d > 0 && s < slots->states[d].n_states; s++) figures.left[d] += slots->states[d].weight[s];
    }
    return figures;
}
