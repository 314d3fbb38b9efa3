// join_cube.c - see join_cube.h.
//
// The order of columns: those first that drop many rows for what a look-up costs.  It is in the kernel's text, and is
// kept from cube to cube, since another order is another compile.
// Whether it pays is decided in src/share (cost_joins, cost_slots).

#include "engine/join_cube.h"

#include "engine/cube_int.h"
#include "share/share.h"

#include <stdlib.h>

#define MOST_CELLS     ((u64)4 << 20)  // bytes, of a thread: it may leave L2, since few rows get so far
#define MERGED_FROM    0.4             // share of rows that the first column leaves: then the second is asked at once
#define CLEARED_ROWS   1e6             // that cells are cleared for, about

struct JoinCube {
    CubeForm form;                     // tables of tests are not to be looked at
    int      order[CUBE_TESTS];        // by place: test of the form
    bool     is_merged;
    Slots   *slots;
    int      kinds[CUBE_TESTS];        // by test: source column of its kinds; -1: its values are looked at
    const Kinds *kinds_of[CUBE_TESTS]; // by test; NULL: none.  Held by the cube
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

bool join_cube_fits(const SieveMember *a, const SieveMember *b)
{
    return a->device == b->device && a->form && b->form && weave_is_same_form(a->form, b->form);
}

bool join_cube_is_like(const Cube *cube, const SieveMember *member)
{
    return cube->joins && weave_is_same_form(&cube->joins->form, member->form);
}

// ---- what it costs --------------------------------------------------------------------------------------------------

static void choose_order(const SlotMember *members, int n_members, int *order)
{
    double costs[CUBE_TESTS];
    cost_join_looks(&share_cpu_costs, &members[0], costs);
    slots_order(members, n_members, costs, true, order);
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static void make_kernel(Cube *cube, const Cube *before, double share)
{
    JoinCube     *joins = cube->joins;
    const Launch *launch = cube->members[0].launch;
    const bool    was_merged = before && before->joins->is_merged;
    joins->is_merged = was_merged ? share > MERGED_FROM / 2 : share > MERGED_FROM;
    cube->woven = weave_join_cube(cube->arena, &(FuseMember){ launch->woven, launch->source->chunk_column },
                                  cube->members[0].form, joins->order, joins->is_merged ? CUBE_MERGED : CUBE_PLAIN,
                                  joins->kinds);
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

// A column of kinds for each test whose tables were all made by the same kinds.
static void find_kinds(Cube *cube, const SlotMember *members)
{
    JoinCube       *joins = cube->joins;
    const CubeForm *form = members[0].form;
    for (int t = 0; t < form->n_tests; t++) {
        const Kinds *kinds = slots_kinds(members, cube->n_members, t);
        joins->kinds[t] = -1;
        if (!kinds) continue;
        joins->kinds[t] = cube->n_columns + cube->n_kinds;
        joins->kinds_of[t] = cube->kinds[cube->n_kinds].kinds = kinds_hold(kinds);
        cube->kinds[cube->n_kinds++].number = form->tests[t].number;
    }
    cube->own_column = arena_array(cube->arena, int, cube->n_columns + cube->n_kinds + 1);
    for (int c = 0; c < cube->n_columns + cube->n_kinds; c++) cube->own_column[c] = c;
}

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
                                                  .kinds = cube->joins->kinds_of,
                                                  .cell_bytes = MOST_CELLS });
    return cube->joins->slots != NULL;
}

Cube *join_cube_make(Budget *budget, const Cube *before, const SieveMember *members, int n_members)
{
    Cube       *cube = cube_new(budget, members, n_members);
    SlotMember *list = slot_members(members, n_members);
    JoinCube   *joins = cube->joins = joins_new(cube, before, list);
    cube->kind = &over_joins;
    find_kinds(cube, list);
    const bool ok = make_slots(cube, before, list);
    free(list);
    if (!ok) {
        cube_release(cube);
        return NULL;
    }
    const SlotFigures figures = slots_figures(joins->slots);
    make_kernel(cube, before, figures.left[0]);
    joins->row_ns = cost_slots(&share_cpu_costs, joins->slots, joins->form.n_tests, members[0].launch->woven,
                               joins->is_merged, CLEARED_ROWS);
    cube->saves_ns = cube_alone_ns(members, n_members) - joins->row_ns;
    cube->figures.is_over_joins = true, cube->figures.n_classes = figures.n_classes;
    cube->figures.n_slots = figures.n_slots, cube->figures.n_cells = figures.n_cells;
    return cube;
}
