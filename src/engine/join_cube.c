// join_cube.c - see join_cube.h.
//
// The order of columns: those first that drop many rows for what a look-up costs.  It is in the kernel's text, and is
// kept from cube to cube, since another order is another compile.
//
// Cost model (nanoseconds per row on one core): a look-up per column by where its table lies, for the rows that are
// left by then; an addition per accumulator for those that are left at the end; cells that are cleared and added up
// after each chunk.  Its constants are estimates but for SIEVE_NS, which is from one profile on a busy machine.

#include "engine/join_cube.h"

#include "engine/cube_int.h"
#include "share/share.h"

#include <stdlib.h>

#define MOST_CELLS     ((u64)4 << 20)  // bytes, of a thread: it may leave L2, since few rows get so far
#define MERGED_FROM    0.4             // share of rows that the first column leaves: then the second is asked at once
#define ROW_NS         0.4
#define STEP_NS        1.0             // of a look-up, beside the table's distance
#define ADD_NS         2.0
#define SIEVE_NS       12.0            // of a sieve of up to 64, made and looked at, as with Q4.3's shape
#define SIEVED_NS      6.0             // of a match in it
#define CELL_NS        1.5             // cleared, and looked at when it is added up
#define CLEARED_ROWS   1e6             // that cells are cleared for, about

struct JoinCube {
    CubeForm form;                     // tables of tests are not to be looked at
    int      order[CUBE_TESTS];        // by place: test of the form
    bool     is_merged;
    Slots   *slots;
    double   row_ns;                   // expected
};

static SlotMember slot_member(const SieveMember *member)
{
    return (SlotMember){ member->launch->woven, member->launch->source, member->form };
}

static SlotMember *slot_members(const SieveMember *members, int n_members)
{
    SlotMember *list = calloc((size_t)n_members, sizeof *list);
    for (int m = 0; m < n_members; m++) list[m] = slot_member(&members[m]);
    return list;
}

// ---- which fit ------------------------------------------------------------------------------------------------------

const CubeForm *join_cube_form(Arena *arena, const Launch *launch)
{
    if (!launch->jit || launch->sink != SINK_GROUPS) return NULL;
    const CubeForm *form = slots_form(arena, launch->woven, launch->source);
    return form && slots_can_read(form) ? form : NULL;
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

static int n_adds(const Woven *woven) { return MIN_OF(woven->n_state, 8); }

static double alone_ns(const SieveMember *members, int n_members)
{
    double ns = 0;
    for (int m = 0; m < n_members; m++) ns += sieve_alone_ns(members[m].launch);
    return ns;
}

static double column_ns(const SlotMember *member, int test) { return reach_ns(2 * slots_values(member, test)); }

static void choose_order(const SlotMember *members, int n_members, int *order)
{
    double costs[CUBE_TESTS];
    for (int t = 0; t < members[0].form->n_tests; t++) costs[t] = STEP_NS + column_ns(&members[0], t);
    slots_order(members, n_members, costs, order);
}

// ---- whether it pays ------------------------------------------------------------------------------------------------

// Expected before anything is made: in each place the rows that any member has left by then are looked at.
static double expect_row(const SlotMember *members, int n_members, const int *order)
{
    double *left = malloc((size_t)n_members * sizeof *left), any = 1, ns = ROW_NS;
    for (int m = 0; m < n_members; m++) left[m] = 1;
    for (int d = 0; d < members[0].form->n_tests; d++) {
        ns += any * ((d ? STEP_NS : 0) + column_ns(&members[0], order[d]));
        any = 0;
        for (int m = 0; m < n_members; m++) {
            left[m] *= slots_pass(&members[m], order[d]);
            any += left[m];
        }
        any = MIN_OF(any, 1);
    }
    free(left);
    return ns + any * ADD_NS * n_adds(members[0].woven);
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
    SlotMember  *list = slot_members(members, n_members);
    choose_order(list, n_members, order);
    const double together = expect_row(list, n_members, order);
    free(list);
    *gain = alone / together;
    return n_members > 1 && MIN_OF(alone, sieved_ns(members, n_members, n_sieved)) > 1.1 * together;
}

// What a row is expected to cost, from the slots.
static double slots_ns(const JoinCube *joins, const SlotFigures *figures, const Woven *member)
{
    double ns = ROW_NS + reach_ns((double)slots_class_bytes(joins->slots, 0));
    u64    cell_bytes = 0;
    for (int s = 0; s < member->n_state; s++) cell_bytes += member->state[s].bytes;
    for (int d = 1; d < joins->form.n_tests; d++)
        ns += (d == 1 && joins->is_merged ? 1 : figures->left[d - 1]) *
              (STEP_NS + reach_ns((double)slots_class_bytes(joins->slots, d)));
    ns += figures->left[joins->form.n_tests - 1] *
          (ADD_NS * n_adds(member) + reach_ns((double)(figures->n_cells * cell_bytes)));
    return ns + CELL_NS * (double)(figures->n_cells + figures->n_pairs) / CLEARED_ROWS;
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static void make_kernel(Cube *cube, const Cube *before, double share)
{
    JoinCube     *joins = cube->joins;
    const Launch *launch = cube->members[0].launch;
    const bool    was_merged = before && before->joins->is_merged;
    joins->is_merged = was_merged ? share > MERGED_FROM / 2 : share > MERGED_FROM;
    cube->woven = weave_join_cube(cube->arena, &(FuseMember){ launch->woven, launch->source->chunk_column },
                                  cube->members[0].form, joins->order, joins->is_merged ? CUBE_MERGED : CUBE_PLAIN);
    slots_fill_in(joins->slots, cube->woven);
    cube_compile(cube, before);
}

static void fold_member(const Cube *cube, int member, Fold *fold)
{
    const SlotPairs pairs = slots_pairs(cube->joins->slots, member);
    fold->n_cells = (u32)pairs.n, fold->cells = pairs.cells, fold->groups = pairs.groups;
}

static void free_joins(JoinCube *joins) { slots_free(joins->slots); }

static const CubeKind over_joins = { fold_member, free_joins };

static JoinCube *joins_new(Cube *cube, const Cube *before, const SlotMember *members)
{
    const CubeForm *form = cube->members[0].form;
    JoinCube       *joins = arena_make(cube->arena, JoinCube);
    joins->form = *form;
    joins->form.key = arena_strndup(cube->arena, form->key, form->length);
    for (int t = 0; t < form->n_tests; t++) joins->form.tests[t].table = NULL;
    if (before) memcpy(joins->order, before->joins->order, sizeof joins->order);
    else choose_order(members, cube->n_members, joins->order);
    return joins;
}

static bool make_slots(Cube *cube, const Cube *before, const SlotMember *members)
{
    cube->joins->slots = slots_make(&(SlotsWish){ .arena = cube->arena,
                                                  .budget = cube->budget,
                                                  .before = before ? before->joins->slots : NULL,
                                                  .members = members,
                                                  .n_members = cube->n_members,
                                                  .order = cube->joins->order,
                                                  .cell_bytes = MOST_CELLS });
    return cube->joins->slots != NULL;
}

Cube *join_cube_make(Budget *budget, const Cube *before, const SieveMember *members, int n_members)
{
    Cube       *cube = cube_new(budget, members, n_members);
    SlotMember *list = slot_members(members, n_members);
    JoinCube   *joins = cube->joins = joins_new(cube, before, list);
    cube->kind = &over_joins;
    const bool ok = make_slots(cube, before, list);
    free(list);
    if (!ok) {
        cube_release(cube);
        return NULL;
    }
    const SlotFigures figures = slots_figures(joins->slots);
    make_kernel(cube, before, figures.left[0]);
    joins->row_ns = slots_ns(joins, &figures, members[0].launch->woven);
    cube->saves_ns = alone_ns(members, n_members) - joins->row_ns;
    cube->figures =
        (CubeFigures){ .n_classes = figures.n_classes, .n_slots = figures.n_slots, .n_cells = figures.n_cells };
    return cube;
}
