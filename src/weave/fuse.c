// fuse.c - one kernel for several queries over a table: what they have in common is done once.
//
//     TILES {
//         ROWS(live)
//         MASK(live)  BETWEEN_TEST(live, u8, discount, ...)  PICK(live)      the steps that all members begin with,
//         once
//         LOAD(u32, price, live)                                            columns that several members look at from
//         here on
//         {
//     #define A m0_
//         EACH(live) { ADD(m0_a0_, VALUE(price)) }                          member 0 has no step of its own: its sink
//     #undef A
//         }
//         {
//         COPY_ROWS(live, live1)                                            member 1 drops more rows, on a copy,
//     #define A m1_
//         BETWEEN_FILTER(live1, u8, quantity, ...)
//         EACH(live1) { ADD(m1_a0_, VALUE(price)) }                         then its sink
//     #undef A
//         }
//     }
//
// Words find what a kernel is handed through A.  Here A is a macro that names the member whose lines follow, so each
// member keeps its own
// columns, parameters, tables, groups and errors.  What means the same to two members is declared once, by the first of
// them; a name
// that means something else to an earlier member gets this one's prefix.
//
// Which steps are shared: tests and look-ups of stored columns do not depend on what was done before, so those that all
// members have come
// first, whatever the order of each.  Other steps may rest on earlier ones: they are shared where they come next for
// all.  A step that
// can fail is never shared, since nobody could say whose failure it is, and nothing is moved before it (Step.is_free).

#include "weave/weave_int.h"

#include <stdlib.h>

// ---- what is the same -----------------------------------------------------------------------------------------------

static int table_column(const FuseMember *member, int column)
{
    return member->chunk_column[member->woven->columns[column]];
}

// Parts of join tables have an id; what was made for one kernel is the same when its bytes are, or where it is large,
// when it is at the same place.
static void add_table_meaning(Text *text, const FuseMember *member, int number)
{
    const WovenTable *facts = &member->woven->table_facts[number];
    const void       *table = member->woven->tables[number];
    if (facts->owner) text_add(text, "%llu.%d", (unsigned long long)facts->owner, facts->number);
    else if (facts->bytes > COMPARED_BYTES) text_add(text, "%p", table);
    else text_add(text, "%zu:", facts->bytes), text_add_bytes(text, table, facts->bytes);
}

static void add_param_meaning(Text *text, const FuseMember *member, int number)
{
    const Param *param = &member->woven->params[number];
    text_add(text, "%d %lld %lld %d", param->kind, (long long)param->value, (long long)param->other,
             param->kind == PARAM_VALUE ? -1 : table_column(member, param->column));
}

// What a declaration stands for: equal where two members mean the same.  OWN is not below 0 where parameters and tables
// are this member's alone.
void fuse_add_meaning(Text *text, const FuseMember *member, int d, int own)
{
    const Decl *decl = &member->woven->ir->decls[d];
    const bool is_column = decl->kind <= DECL_NULLS,
               is_param = decl->kind == DECL_PARAM || decl->kind == DECL_PARAM_F64;
    text_add(text, "<%d %s ", decl->kind, decl->type ? decl->type : "");
    if (decl->kind == DECL_CARRY)
        text_add(text, "%s", decl->name);  // members call what they carry as they did
    else if (is_column) text_add(text, "%d", table_column(member, decl->number));
    else if (own >= 0) text_add(text, "own %d %d", own, d);
    else if (is_param) add_param_meaning(text, member, decl->number);
    else if (decl->kind == DECL_TABLE) add_table_meaning(text, member, decl->number);
    text_add(text, ">");
}

static void add_fragment(Text *text, const FuseMember *member, const char *fragment, int own)
{
    for (const char *ref; (ref = strchr(fragment, REF_OPEN)); fragment = strchr(ref, REF_CLOSE) + 1) {
        text_add_bytes(text, fragment, (size_t)(ref - fragment));
        fuse_add_meaning(text, member, atoi(ref + 2), own);                    // steps name nothing but declarations
    }
    text_add(text, "%s;", fragment);
}

static FuseStep fuse_step(Arena *arena, const FuseMember *member, int s, int own)
{
    const Step *step = &member->woven->ir->steps[s];
    Text        key = { 0 };
    text_add(&key, "%d %s ", step->kind, step->word ? step->word : "");
    for (int c = 0; c < step->n_carries; c++) fuse_add_meaning(&key, member, step->carries[c], own);
    add_fragment(&key, member, step->text ? step->text : "", own);
    add_fragment(&key, member, step->keep ? step->keep : "", own);
    const size_t   length = key.length;
    const FuseStep out = { .step = s,
                           .hash = hash_bytes(key.bytes, length),
                           .length = length,
                           .pass = step->pass,
                           .is_test = step->is_dense && step->kind <= STEP_CONDITION,
                           .is_free = step->is_free,
                           .can_fail = step->can_fail };
    FuseStep       kept = out;
    kept.key = text_keep(arena, &key);
    return kept;
}

static FuseSteps *list_steps(Arena *arena, const FuseMember *member, int own)
{
    const Ir  *ir = member->woven->ir;
    FuseSteps *steps = arena_make(arena, FuseSteps);
    steps->steps = arena_array(arena, FuseStep, ir->n_steps + 1);
    for (int s = 0; s < ir->n_steps; s++) {
        if (ir->steps[s].kind == STEP_NOTHING) continue;
        FuseStep *step = &steps->steps[steps->n_steps++];
        *step = fuse_step(arena, member, s, own);
        steps->hash = steps->hash * 31 + step->hash;
    }
    return steps;
}

FuseSteps *weave_fuse_steps(Arena *arena, const FuseMember *member) { return list_steps(arena, member, -1); }

bool weave_can_fuse(const Woven *woven)
{
    return woven->ir && woven->ir->sink.kind == SINK_GROUPS && woven->n_state > 0 && !woven->has_matches &&
           woven->ir->n_steps < FUSE_STEPS;
}

// ---- which steps are shared -----------------------------------------------------------------------------------------

static bool is_same(const FuseStep *a, const FuseStep *b)
{
    return a->hash == b->hash && a->length == b->length && memcmp(a->key, b->key, a->length) == 0;
}

static const FuseStep *find_step(const FuseStep *steps, int n_steps, const FuseStep *step, bool only_free)
{
    for (int s = 0; s < n_steps; s++)
        if ((steps[s].is_free || !only_free) && is_same(&steps[s], step)) return &steps[s];
    return NULL;
}

bool weave_has_step(const FuseStep *steps, int n_steps, const FuseStep *step)
{
    return find_step(steps, n_steps, step, false) != NULL;
}

static const FuseStep *first_unshared(const FuseSteps *steps, const FuseStep *shared, int n_shared)
{
    for (int s = 0; s < steps->n_steps; s++)
        if (!weave_has_step(shared, n_shared, &steps->steps[s])) return &steps->steps[s];
    return NULL;
}

int weave_shared_steps(const FuseSteps *const *members, int n_members, FuseStep *shared)
{
    int n = 0;
    for (int s = 0; s < members[0]->n_steps; s++) {
        const FuseStep *step = &members[0]->steps[s];
        bool            is_shared = step->is_free && !weave_has_step(shared, n, step);
        for (int m = 1; m < n_members && is_shared; m++)
            is_shared = find_step(members[m]->steps, members[m]->n_steps, step, true) != NULL;
        if (is_shared) shared[n++] = *step;
    }
    for (;;) {                         // steps that come next for all
        const FuseStep *next = first_unshared(members[0], shared, n);
        for (int m = 1; m < n_members && next; m++) {
            const FuseStep *other = first_unshared(members[m], shared, n);
            if (!other || !is_same(other, next)) next = NULL;
        }
        if (!next || next->can_fail) return n;
        shared[n++] = *next;
    }
}

// ---- names ----------------------------------------------------------------------------------------------------------

typedef struct Naming {
    Arena     *arena;
    TakenNames taken;                  // by earlier members
    Map       *by_meaning;             // the name that what it means goes by
    Map       *nulls;                  // names of columns whose bitmap is declared
} Naming;

// No column's name ends in '_', so nobody else has this one.
static const char *own_name(Arena *arena, int n, const char *name) { return arena_printf(arena, "m%d_%s_", n, name); }

static void name_decl(Naming *naming, const FuseMember *from, FusedMember *member, int n, int d, int own)
{
    const Decl *decl = &member->ir->decls[d];
    Text        meaning = { 0 };
    u64         found = 0;
    fuse_add_meaning(&meaning, from, d, own);
    if (!map_get(naming->by_meaning, meaning.bytes, meaning.length, &found)) {
        const char *name =
            names_are_taken(&naming->taken, decl->name) ? own_name(naming->arena, n, decl->name) : decl->name;
        found = (u64)(uintptr_t)name;
        map_set(naming->by_meaning, meaning.bytes, meaning.length, found);
        member->is_declared[d] = true;
    }
    member->names[d] = (const char *)(uintptr_t)found;
    text_free(&meaning);
}

// A bitmap goes by the name of its column, and is declared with it or by the first member that has one.
static void name_nulls(Naming *naming, FusedMember *member, int d)
{
    const char *name = member->names[d] = member->names[member->ir->columns[member->ir->decls[d].number].decl];
    member->is_declared[d] = !map_get(naming->nulls, name, strlen(name), NULL);
    map_set(naming->nulls, name, strlen(name), 1);
}

static void name_decls(Naming *naming, const FuseMember *from, FusedMember *member, int n, int own)
{
    const Ir *ir = member->ir;
    member->names = arena_array(naming->arena, const char *, ir->n_decls + 1);
    member->is_declared = arena_array(naming->arena, bool, ir->n_decls + 1);
    for (int d = 0; d < ir->n_decls; d++) {
        if (ir->decls[d].kind == DECL_NULLS) name_nulls(naming, member, d);
        else if (ir->decls[d].kind == DECL_CARRY) member->names[d] = ir->decls[d].name;
        else name_decl(naming, from, member, n, d, own);
    }
    for (int d = 0; d < ir->n_decls; d++)
        if (ir->decls[d].kind != DECL_CARRY) names_take(&naming->taken, ir->decls[d].name);
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static void mark_shared(Arena *arena, FusedMember *member, const FuseSteps *steps, const FuseStep *shared, int n_shared)
{
    member->is_shared = arena_array(arena, bool, member->ir->n_steps + 1);
    for (int s = 0; s < steps->n_steps; s++)
        member->is_shared[steps->steps[s].step] = weave_has_step(shared, n_shared, &steps->steps[s]);
}

static FusedIr fuse(Arena *arena, const FuseMember *members, int n_members, bool only_columns)
{
    FusedIr fused = { .n_members = n_members,
                      .members = arena_array(arena, FusedMember, n_members),
                      .is_apart = only_columns };
    const FuseSteps **steps = arena_array(arena, const FuseSteps *, n_members);
    Naming            naming = { arena, names_begin(arena), map_new(arena), map_new(arena) };
    FuseStep          shared[FUSE_STEPS];
    for (int n = 0; n < n_members; n++) {
        const int own = only_columns ? n : -1;
        fused.members[n].ir = members[n].woven->ir;
        steps[n] = list_steps(arena, &members[n], own);
        name_decls(&naming, &members[n], &fused.members[n], n, own);
    }
    const int n_shared = weave_shared_steps(steps, n_members, shared);
    for (int n = 0; n < n_members; n++) mark_shared(arena, &fused.members[n], steps[n], shared, n_shared);
    return fused;
}

const char *weave_fuse(Arena *arena, const FuseMember *members, int n_members, bool only_columns, const char **name)
{
    const FusedIr fused = fuse(arena, members, n_members, only_columns);
    Text          body = { 0 };
    ir_print_fused(arena, &fused, &body);
    *name = arena_printf(arena, "u_%016llx", (unsigned long long)hash_bytes(body.bytes, body.length));
    const char *text =
        arena_printf(arena, "// %d queries over one table\nKERNEL(%s)\n{\n%s}\n", n_members, *name, body.bytes);
    text_free(&body);
    return text;
}
