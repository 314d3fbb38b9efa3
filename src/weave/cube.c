// cube.c - one kernel for queries of one shape that differ in their constants, from the kernel of any of them.
//
//     UNSURE BETWEEN_TEST(live, u8, discount, discount_low, discount_span)      ->  gone: the value's class stands for
//     it
//     EACH(live) { ADD(a1_, VALUE(price)) }   ->  EACH_ROW(live) { const u64 cube_ = c0_[discount[i] + f0_] * s0_ +
//     ...;
//                                                                  ADD(a1_[cube_], VALUE(price)) }
//
// Values of a column that no query tells from each other are a class.  A row's classes lead to a cell, and what the
// queries would do
// with the row is done once, for its cell; each query then adds up the cells it wants.  So the work per row does not
// depend on the
// number of queries.  The text is written when such queries meet, not for every query.

#include "weave/weave_int.h"

static bool is_plain_sum(SlotKind kind)
{
    return kind == SLOT_SEEN || kind == SLOT_ADD || kind == SLOT_MIN || kind == SLOT_MAX || kind == SLOT_WIDE_LOW ||
           kind == SLOT_WIDE_HIGH;
}

// Groups of an array, or none; nothing that can fail, as a failure would not know whose it is.
bool weave_can_cube(const Woven *woven)
{
    bool ok = woven->ir && woven->can_pick && woven->group_kind != GROUP_HASH && woven->n_checks == 0 &&
              !woven->has_matches && woven->n_state > 0 && woven->seen >= 0;
    for (int s = 0; s < woven->n_state; s++) ok = ok && is_plain_sum(woven->state[s].kind);
    for (int s = 0; s < woven->n_sieves; s++)
        if (woven->sieves[s].is_exact) return ok;
    return false;
}

// Made for one kernel, of its query's text.
static bool is_small_and_own(const WovenTable *facts) { return !facts->owner && facts->bytes <= COMPARED_BYTES; }

// What a device made has no address here, but an owner.
static bool is_same_table(const Woven *a, const Woven *b, int t)
{
    const WovenTable *x = &a->table_facts[t], *y = &b->table_facts[t];
    if (is_small_and_own(x) && is_small_and_own(y))
        return x->bytes == y->bytes && memcmp(a->tables[t], b->tables[t], x->bytes) == 0;
    return a->tables[t] == b->tables[t] && x->owner == y->owner && x->number == y->number;
}

bool weave_is_same_but_sieves(const Woven *a, const Woven *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_groups != b->n_groups || a->sieved_tables != b->sieved_tables)
        return false;
    for (int p = 0; p < a->n_params; p++) {
        const Param *x = &a->params[p], *y = &b->params[p];
        if (x->is_sieved && y->is_sieved) continue;
        if (x->kind != y->kind || x->value != y->value || x->other != y->other || x->column != y->column) return false;
    }
    for (int t = 0; t < a->n_tables; t++)
        if (!is_same_table(a, b, t) && (t >= 64 || !(a->sieved_tables >> t & 1))) return false;
    return true;
}

static const void *copy_bytes(Arena *arena, const void *from, size_t bytes)
{
    return memcpy(arena_alloc(arena, bytes), from, bytes);
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static bool is_left_out(const Woven *member, const Decl *decl)
{
    if (decl->kind == DECL_PARAM) return member->params[decl->number].is_sieved;
    return decl->kind == DECL_TABLE && decl->number < 64 && (member->sieved_tables >> decl->number & 1);
}

// Steps that classes stand for only load their columns, and what they were handed is left out.
static Ir *cube(Arena *arena, const Woven *member, const int *dims, int n_dims, int class_bytes)
{
    Ir *ir = arena_make(arena, Ir);
    *ir = *member->ir;
    ir->decls = arena_array(arena, Decl, ir->n_decls + 1);
    ir->steps = arena_array(arena, Step, ir->n_steps + 1);
    for (int d = 0; d < ir->n_decls; d++) {
        ir->decls[d] = member->ir->decls[d];
        if (is_left_out(member, &ir->decls[d])) ir->decls[d].kind = DECL_NOTHING;
    }
    for (int s = 0; s < ir->n_steps; s++) {
        ir->steps[s] = member->ir->steps[s];
        if (ir->steps[s].is_unsure) ir->steps[s].kind = STEP_NOTHING, ir->steps[s].is_on_mask = false;
    }
    ir->n_dims = n_dims, ir->dims = dims, ir->class_bytes = class_bytes, ir->first_class = member->n_tables,
    ir->first_param = member->n_params;
    return ir;
}

static void *copy_list(Arena *arena, const void *from, int n, int more, size_t size)
{
    void *to = arena_alloc(arena, ((size_t)n + (size_t)more + 1) * size);
    if (n) memcpy(to, from, (size_t)n * size);
    return to;
}

static void copy_tables(Arena *arena, const Woven *member, int n_dims, Woven *cube)
{
    cube->tables = copy_list(arena, member->tables, member->n_tables, n_dims, sizeof(void *));
    cube->table_facts = copy_list(arena, member->table_facts, member->n_tables, n_dims, sizeof(WovenTable));
    for (int k = 0; k < member->n_tables; k++)             // the member may leave before the others
        if (is_small_and_own(&member->table_facts[k]))
            cube->tables[k] = copy_bytes(arena, member->tables[k], member->table_facts[k].bytes);
    cube->n_tables += n_dims, cube->n_table_facts = cube->n_tables;
}

Woven *weave_cube(Arena *arena, const Woven *member, const int *dims, int n_dims, int class_bytes)
{
    Woven *out = arena_make(arena, Woven);
    Text   text = { 0 };
    *out = *member;
    Ir *ir = cube(arena, member, dims, n_dims, class_bytes);
    out->name = arena_printf(arena, "c_%s", member->name + 2);
    ir_print(ir, out->name, &text);
    out->text = text_keep(arena, &text);
    out->ir = NULL;                    // its fragments are the member's, who may leave before the others
    out->columns = copy_list(arena, member->columns, member->n_columns, 0, sizeof(int));
    out->params = copy_list(arena, member->params, member->n_params, 2 * n_dims, sizeof(Param));
    out->state = copy_list(arena, member->state, member->n_state, 0, sizeof(StateSlot));
    copy_tables(arena, member, n_dims, out);
    out->n_params += 2 * n_dims;
    out->group_kind = GROUP_ARRAY;
    out->n_zones = out->n_sieves = out->n_counts = 0;
    out->is_empty = out->can_pick = false;
    return out;
}
