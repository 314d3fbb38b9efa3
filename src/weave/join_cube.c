// join_cube.c - one kernel for queries of one shape that differ in what they join: classes of keys, slots, cells.
//
//     LOOKUP_FILTER(live, u16, lo_suppkey, ..., s_city_of, s_city)     a query's own table, and its own codes
//     LOOKUP_FILTER(live, u32, lo_partkey, ..., p_brand1_of, p_brand1)
//     EACH(live) { const u64 group = p_brand1[i] + s_city[i] * p4; ADD(a0_[group], VALUE(lo_revenue)) }
//
// becomes, for any number of queries,
//
//     TEST(live) { c0 = class0_[lo_suppkey[i] + from0_]; s1 = next1_[c0 * n1_ + class1_[lo_partkey[i] + from1_]];
//                  state1_[i] = s1 - 1; PASS(live, s1 != 0) }          no query wants these two: the row is gone
//     EACH(live) { const u32 *const place = places_ + state1_[i] * 2;
//                  const u64 group = place[0] + local0_[atom0_[lo_partkey[i] + from1_]] * place[1] + ...;
//                  ADD(a0_[group], VALUE(lo_revenue)) }
//
// A class is a set of keys that no query tells apart.  The classes of a row lead, column by column, from state to
// state; the last state is its slot.  Within a slot cells are numbered by the group keys: a joined one counts from 0
// within its class.  A slot has as many cells as its own classes need, so each has strides of its own: with one stride
// for all, a query for a nation's ten cities would make room for ten in every slot of a query for one city.  The
// tables are made by share/slots.c, which knows which groups of which queries a cell belongs to.
// On a GPU a value leads to its atom, and that to its class: tables by value are large, and stay in its memory as long
// as the atoms do.
//
// Which queries have one shape does not depend on the order of their steps, on the widths of their tables or on how
// each numbers its groups: weave_cube_form writes down what is left, and queries of one form fit together.

#include "weave/weave_int.h"

#include <stdlib.h>

// ---- what a query does, but for its tests ---------------------------------------------------------------------------

static bool is_plain_sum(SlotKind kind)
{
    return kind == SLOT_SEEN || kind == SLOT_ADD || kind == SLOT_MIN || kind == SLOT_MAX || kind == SLOT_WIDE_LOW ||
           kind == SLOT_WIDE_HIGH;
}

// Nothing that can fail, since a failure would not know whose it is.
static bool can_be_in(const Woven *woven)
{
    if (!woven->ir || !woven->can_pick || woven->group_kind == GROUP_HASH || woven->n_checks || woven->has_matches ||
        woven->n_state == 0 || woven->seen < 0 || woven->is_empty)
        return false;
    for (int s = 0; s < woven->n_state; s++)
        if (!is_plain_sum(woven->state[s].kind)) return false;
    for (int s = 0; s < woven->ir->n_steps; s++)
        if (!woven->ir->steps[s].test && woven->ir->steps[s].kind != STEP_NOTHING) return false;
    return true;
}

#define MOST_CODES 65536u              // of a payload that is grouped by

static CubeTest *test_on(CubeForm *form, int column)
{
    for (int t = 0; t < form->n_tests; t++)
        if (form->tests[t].column == column) return &form->tests[t];
    if (form->n_tests == CUBE_TESTS) return NULL;
    CubeTest *test = &form->tests[form->n_tests++];
    *test = (CubeTest){ .column = column, .low = INT64_MIN, .high = INT64_MAX };
    return test;
}

// Whether classes can be made of it, wherever it is.  Codes that say NULL elsewhere are not known here.
static bool is_readable(const JoinTable *table)
{
    if (table->n_keys != 1) return false;
    if (table->shape == SHAPE_BITS) return true;
    for (int p = 0; p < table->n_payloads; p++) {
        const Payload *payload = &table->payloads[p];
        if (payload->valid || payload->valid_bytes || !payload->n_codes || payload->n_codes > MOST_CODES) return false;
    }
    return table->shape == SHAPE_DIRECT && table->n_payloads > 0;
}

static bool add_test(CubeForm *form, const Step *step)
{
    CubeTest *test = test_on(form, step->test->column);
    if (!test || (test->table && step->test->table)) return false;
    test->low = MAX_OF(test->low, step->test->low), test->high = MIN_OF(test->high, step->test->high);
    if (!step->test->table) return true;
    test->table = step->test->table;
    test->n_payloads = step->n_carries ? test->table->n_payloads : 0;
    return is_readable(test->table) && (test->n_payloads > 0) == (test->table->shape == SHAPE_DIRECT);
}

static int by_number(const void *a, const void *b)
{
    const CubeTest *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

// The test whose payload the key is, and which one; -1: the key is computed from stored columns.
static int test_of_key(const CubeForm *form, const IrKey *key, int *payload)
{
    for (int t = 0; t < form->n_tests && key->payload; t++)
        for (*payload = 0; *payload < form->tests[t].n_payloads; ++*payload)
            if (&form->tests[t].table->payloads[*payload] == key->payload) return t;
    return -1;
}

// What is carried must be group keys and nothing else, since its codes are the query's own.  Tables may be gone before
// the kernel is.
static bool uses_only_stored(const Ir *ir, const char *fragment)
{
    for (const char *ref = strchr(fragment, REF_OPEN); ref; ref = strchr(ref + 1, REF_OPEN)) {
        if (ref[1] != 'd') continue;
        const DeclKind kind = ir->decls[atoi(ref + 2)].kind;
        if (kind == DECL_CARRY || kind == DECL_TABLE) return false;
    }
    return true;
}

// A fragment with what its declarations stand for instead of their numbers.
static void add_fragment(Text *text, const FuseMember *member, const char *fragment)
{
    for (const char *ref; (ref = strchr(fragment, REF_OPEN)); fragment = strchr(ref, REF_CLOSE) + 1) {
        text_add_bytes(text, fragment, (size_t)(ref - fragment));
        if (ref[1] == 'd') fuse_add_meaning(text, member, atoi(ref + 2), -1);
        else text_add_bytes(text, ref, (size_t)(strchr(ref, REF_CLOSE) + 1 - ref));
    }
    text_add(text, "%s;", fragment);
}

static bool add_keys(Text *text, const FuseMember *member, CubeForm *form)
{
    const Ir *ir = member->woven->ir;
    form->n_keys = ir->sink.n_keys;
    if (form->n_keys > CUBE_KEYS || !uses_only_stored(ir, form->n_keys ? ir->sink.key_values : "")) return false;
    if (form->n_keys) add_fragment(text, member, ir->sink.key_values);
    for (int k = 0; k < form->n_keys; k++) {
        const IrKey    *key = &ir->sink.key_codes[k];
        const GroupKey *group = &member->woven->group_keys[k];
        const int       t = form->test_of_key[k] = test_of_key(form, key, &form->payload_of_key[k]);
        text_add(text, "key %d %p ", group->type.kind, (const void *)group->dict);
        if (t >= 0) {
            text_add(text, "%d %s;", t, key->payload->name);
        } else {
            if (!uses_only_stored(ir, key->code)) return false;
            text_add(text, "%lld %llu ", (long long)group->base, (unsigned long long)group->n_codes);
            add_fragment(text, member, key->code);
        }
    }
    return true;
}

static bool add_form(Text *text, const FuseMember *member, CubeForm *form)
{
    const Woven *woven = member->woven;
    for (int t = 0; t < form->n_tests; t++) {
        const JoinTable *table = form->tests[t].table;
        text_add(text, "test %d of %d ", form->tests[t].number, form->tests[t].n_payloads);
        if (table && table->kinds) text_add(text, "kinds ");
        form->tests[t].kinds = table && table->kinds ? table->kinds->id : 0;
        fuse_add_meaning(text, member, woven->ir->columns[form->tests[t].column].decl, -1);
    }
    if (!add_keys(text, member, form) || !uses_only_stored(woven->ir, woven->ir->sink.adds)) return false;
    text_add(text, "seen %d groups %d ", woven->seen, woven->group_kind);
    for (int s = 0; s < woven->n_state; s++)
        text_add(text, "%d %d %llu ", woven->state[s].kind, woven->state[s].bytes,
                 (unsigned long long)woven->state[s].init);
    add_fragment(text, member, woven->ir->sink.adds);
    return true;
}

static bool is_key(const CubeForm *form, int test, int payload)
{
    for (int k = cube_next_key(form, test, -1); k >= 0; k = cube_next_key(form, test, k))
        if (form->payload_of_key[k] == payload) return true;
    return false;
}

// Each payload is a group key: what no query groups by has other uses.
static bool has_all_payloads(const CubeForm *form)
{
    for (int t = 0; t < form->n_tests; t++)
        for (int p = 0; p < form->tests[t].n_payloads; p++)
            if (!is_key(form, t, p)) return false;
    return true;
}

const CubeForm *weave_cube_form(Arena *arena, const FuseMember *member)
{
    const Woven *woven = member->woven;
    CubeForm    *form = arena_make(arena, CubeForm);
    Text         text = { 0 };
    if (!can_be_in(woven)) return NULL;
    for (int s = 0; s < woven->ir->n_steps; s++)
        if (woven->ir->steps[s].test && !add_test(form, &woven->ir->steps[s])) return NULL;
    for (int t = 0; t < form->n_tests; t++)
        form->tests[t].number = member->chunk_column[woven->columns[form->tests[t].column]];
    qsort(form->tests, (size_t)form->n_tests, sizeof *form->tests, by_number);
    const bool ok = form->n_tests && add_form(&text, member, form) && has_all_payloads(form);
    form->length = text.length, form->hash = ok ? hash_bytes(text.bytes, text.length) : 0;
    form->key = text_keep(arena, &text);
    return ok ? form : NULL;
}

bool weave_is_same_kernel(const CubeForm *a, const CubeForm *b)
{
    return a->hash == b->hash && a->length == b->length && memcmp(a->key, b->key, a->length) == 0;
}

bool weave_is_same_form(const CubeForm *a, const CubeForm *b)
{
    if (!weave_is_same_kernel(a, b)) return false;
    for (int t = 0; t < a->n_tests; t++)
        if (a->tests[t].kinds != b->tests[t].kinds) return false;
    return true;
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

// Of a test, in its place.  Number: C text of the class of row i.
typedef struct DimNames { const char *type, *column, *from, *class, *number; } DimNames;

typedef struct CubeMaker {
    Arena            *arena;
    const FuseMember *member;
    const CubeForm   *form;
    const int        *order;           // of the tests
    const int        *kinds;           // by test: column of the source; -1: none
    int               kind_columns[CUBE_TESTS];        // by test: column of the kernel + 1; 0: not declared yet
    CubeLook          look;
    DimNames          dims[CUBE_TESTS];        // by place, as the next one; no type: not declared yet
    int               atoms[CUBE_TESTS];       // what carries the atom of a row, less 1
    Ir               *ir;
    Woven            *out;
    int              *moved;           // by declaration of the member: 1 + that of the kernel; 0: none yet
    int               first_own;       // number of the first parameter of the sink
} CubeMaker;

#define PRINT(...) arena_printf(m->arena, __VA_ARGS__)

static int declare(CubeMaker *m, DeclKind kind, const char *type, const char *name, int number)
{
    *LIST_PUSH(m->arena, m->ir->decls, m->ir->n_decls) = (Decl){ kind, type, name, number };
    return m->ir->n_decls - 1;
}

static const char *ref_to(CubeMaker *m, int decl) { return PRINT("%cd%d%c", REF_OPEN, decl, REF_CLOSE); }

static const char *table(CubeMaker *m, const char *type, const char *name, int at, int number)
{
    return ref_to(m, declare(m, DECL_TABLE, type, PRINT("%s%d_", name, at), number));
}

static const char *param(CubeMaker *m, const char *type, const char *name, int at, int number)
{
    return ref_to(m, declare(m, DECL_PARAM, type, PRINT("%s%d_", name, at), number));
}

// Of numbers of states and cells.  Registers decide how many threads of a GPU can work at once.
static const char *number_type(const CubeMaker *m) { return m->look == CUBE_BY_ATOM ? "u32" : "u64"; }

// A column of the member becomes the next of the kernel, with its NULLs.
static int move_column(CubeMaker *m, int from)
{
    const Ir       *ir = m->member->woven->ir;
    const IrColumn *column = &ir->columns[from];
    const Decl     *decl = &ir->decls[column->decl];
    const int       number = m->ir->n_columns, moved = declare(m, decl->kind, decl->type, decl->name, number);
    *LIST_PUSH(m->arena, m->ir->columns, m->ir->n_columns) =
        (IrColumn){ .decl = moved, .load = LOAD_PLAIN, .has_nulls = column->has_nulls };
    *LIST_PUSH(m->arena, m->out->columns, m->out->n_columns) = m->member->woven->columns[from];
    m->moved[column->decl] = moved + 1;
    for (int d = 0; d < ir->n_decls && column->has_nulls; d++) {
        if (ir->decls[d].kind != DECL_NULLS || ir->decls[d].number != from) continue;
        m->moved[d] = 1 + declare(m, DECL_NULLS, ir->decls[d].type, ir->decls[d].name, number);
    }
    return number;
}

static int column_of(CubeMaker *m, int from)
{
    const int moved = m->moved[m->member->woven->ir->columns[from].decl];
    return moved ? m->ir->decls[moved - 1].number : move_column(m, from);
}

// What a test looks at: its column, or beside it the kinds of that column's values.
static int column_of_test(CubeMaker *m, int test)
{
    const int   from = m->form->tests[test].column;
    const Decl *decl = &m->member->woven->ir->decls[m->member->woven->ir->columns[from].decl];
    if (!m->kinds || m->kinds[test] < 0) return column_of(m, from);
    if (m->kind_columns[test]) return m->kind_columns[test] - 1;
    const int number = m->ir->n_columns, moved = declare(m, DECL_COLUMN, "u16", PRINT("%s_kind", decl->name), number);
    *LIST_PUSH(m->arena, m->ir->columns, m->ir->n_columns) = (IrColumn){ .decl = moved, .load = LOAD_PLAIN };
    *LIST_PUSH(m->arena, m->out->columns, m->out->n_columns) = m->kinds[test];
    m->kind_columns[test] = number + 1;
    return number;
}

static void move_param(CubeMaker *m, int d)
{
    const Decl *decl = &m->member->woven->ir->decls[d];
    Param       value = m->member->woven->params[decl->number];
    if (value.kind != PARAM_VALUE) value.column = column_of(m, value.column);
    const int number = m->out->n_params;
    *LIST_PUSH(m->arena, m->out->params, m->out->n_params) = value;
    m->moved[d] = 1 + declare(m, decl->kind, decl->type, PRINT("p%d_", number - m->first_own), number);
}

static int moved_decl(CubeMaker *m, int d)
{
    const Ir   *ir = m->member->woven->ir;
    const Decl *decl = &ir->decls[d];
    if (!m->moved[d] && (decl->kind == DECL_PARAM || decl->kind == DECL_PARAM_F64)) move_param(m, d);
    if (!m->moved[d]) move_column(m, decl->number);
    return m->moved[d] - 1;
}

static void move_fragment(CubeMaker *m, Text *text, const char *fragment)
{
    for (const char *ref; (ref = strchr(fragment, REF_OPEN)); fragment = strchr(ref, REF_CLOSE) + 1) {
        text_add_bytes(text, fragment, (size_t)(ref - fragment));
        if (ref[1] == 'd') text_add(text, "%s", ref_to(m, moved_decl(m, atoi(ref + 2))));
        else text_add_bytes(text, ref, (size_t)(strchr(ref, REF_CLOSE) + 1 - ref));
    }
    text_add(text, "%s", fragment);
}

static bool has_kinds(const CubeMaker *m, int d) { return m->kinds && m->kinds[m->order[d]] >= 0; }

// By atom: the kind of row i, or the atom that was looked up.
static const char *atom_of_row(CubeMaker *m, int d)
{
    const int column = column_of_test(m, m->order[d]);
    return PRINT("%s[i]", ref_to(m, has_kinds(m, d) ? m->ir->columns[column].decl : m->atoms[d]));
}

static DimNames name_dim(CubeMaker *m, int d)
{
    if (m->dims[d].type) return m->dims[d];
    const int   column = column_of_test(m, m->order[d]);
    const Decl *decl = &m->ir->decls[m->ir->columns[column].decl];
    const bool  is_direct = m->look == CUBE_BY_ATOM && has_kinds(m, d);
    m->out->params[cube_param_from(d)] = (Param){ .kind = PARAM_OFFSET, .column = column };
    DimNames dim = { decl->type, ref_to(m, m->ir->columns[column].decl),
                     is_direct ? "0" : param(m, "u64", "from", d, cube_param_from(d)),
                     table(m, "u16", "class", d, cube_table_class(d)), NULL };
    dim.number = m->look == CUBE_BY_ATOM ? PRINT("%s[%s]", dim.class, atom_of_row(m, d))
                                         : PRINT("%s[%s[i] + %s]", dim.class, dim.column, dim.from);
    return m->dims[d] = dim;
}

static void add_step(CubeMaker *m, Step step, int first_column, int carry)
{
    step.live = "live", step.count = -1, step.pass = 1;
    step.first_column = first_column, step.end_column = m->ir->n_columns;
    step.n_carries = 1, step.carries = arena_array(m->arena, int, 1);
    step.carries[0] = carry;
    *LIST_PUSH(m->arena, m->ir->steps, m->ir->n_steps) = step;
}

static int carry_state(CubeMaker *m, int d) { return declare(m, DECL_CARRY, "u16", PRINT("state%d_", d), 2); }

// The class, less 1, or the atom: 0 is wanted by no query.
static void write_lookup(CubeMaker *m, const DimNames *dim, const char *in, int carry, int first_column)
{
    add_step(m,
             (Step){ .kind = STEP_LOOKUP,
                     .word = "LOOKUP",
                     .text = PRINT("%s, %s, %s, u16, %s, %s", dim->type, dim->column, dim->from, in,
                                   ref_to(m, carry)) },
             first_column, carry);
}

// On a GPU: the row's class, less 1, of its kind; or its atom.
static int write_class(CubeMaker *m, int d, bool is_state)
{
    const int      first_column = m->ir->n_columns;
    const DimNames dim = name_dim(m, d);
    const int      class = is_state ? carry_state(m, d) : declare(m, DECL_CARRY, "u16", PRINT("in%d_", d), 2);
    write_lookup(m, &dim, dim.class, class, first_column);
    return class;
}

static void write_atoms(CubeMaker *m, int d)
{
    const int first_column = m->ir->n_columns;
    m->atoms[d] = declare(m, DECL_CARRY, "u16", PRINT("atom%d_", d), 2);
    const DimNames dim = name_dim(m, d);
    write_lookup(m, &dim, table(m, "u16", "atoms", d, cube_table_values(m->form, d)), m->atoms[d], first_column);
}

// AT: C text of a number that depends on the row, whose entry in TABLE is a state + 1.
static void write_state(CubeMaker *m, const char *at, const char *in, int state)
{
    add_step(m, (Step){ .kind = STEP_LOOKUP, .word = "STATE", .text = PRINT("%s, %s, %s", at, in, ref_to(m, state)) },
             m->ir->n_columns, state);
}

static void write_first(CubeMaker *m)
{
    if (m->look != CUBE_BY_ATOM || has_kinds(m, 0)) {
        write_class(m, 0, true);
        return;
    }
    write_atoms(m, 0);
    const DimNames dim = name_dim(m, 0);
    const int      state = carry_state(m, 0);
    write_state(m, atom_of_row(m, 0), dim.class, state);
}

// BEFORE: C text of what the row is in so far.
static void write_next(CubeMaker *m, int d, int first_column, const char *statements, const char *before)
{
    const DimNames dim = name_dim(m, d);
    const int      state = carry_state(m, d);
    const char    *next = table(m, "u16", "next", d, cube_table_next(m->form, d)),
               *n_classes = param(m, number_type(m), "n", d, cube_param_classes(m->form, d));
    add_step(m,
             (Step){ .kind = STEP_BLOCK,
                     .text = PRINT("%sconst u32 e%d = %s[%s * %s + %s];\n%s[i] = (u16)(e%d - 1);\n", statements,
                                   d, next, before, n_classes, dim.number, ref_to(m, state), d),
                     .keep = PRINT("e%d != 0", d) },
             first_column, state);
}

// The same by atom: all that a thread looks up is under way at once, and a class that nobody wants ends it.
static void write_next_state(CubeMaker *m, int d, const char *before)
{
    const char *class;
    if (has_kinds(m, d)) {
        class = PRINT("%s[i] + 1", ref_to(m, write_class(m, d, false)));
    } else {
        write_atoms(m, d);
        class = name_dim(m, d).number;
    }
    const char *next = table(m, "u16", "next", d, cube_table_next(m->form, d)),
               *n_classes = param(m, "u32", "n", d, cube_param_classes(m->form, d));
    const int   state = carry_state(m, d);
    write_state(m, PRINT("%s * %s + %s", before, n_classes, class), next, state);
}

// Classes begin at 1, what LOOKUP carries at 0, and so do states.
static void write_steps(CubeMaker *m)
{
    int d = 1;
    if (m->look == CUBE_MERGED && m->form->n_tests > 1) {
        write_next(m, d++, 0, PRINT("const u64 e0 = %s;\n", name_dim(m, 0).number), "e0");
    } else {
        write_first(m);
    }
    for (; d < m->form->n_tests; d++) {
        const int   last = m->ir->steps[m->ir->n_steps - 1].carries[0];
        const char *before = PRINT(d == 1 ? "((%s)%s[i] + 1)" : "(%s)%s[i]", number_type(m), ref_to(m, last));
        if (m->look == CUBE_BY_ATOM) write_next_state(m, d, before);
        else write_next(m, d, m->ir->n_columns, "", before);
    }
}

static int place_of(const CubeMaker *m, int test)
{
    for (int d = 0; d < m->form->n_tests; d++)
        if (m->order[d] == test) return d;
    return -1;
}

// The place of group key K, and of the other keys of its test, among the cells of its slot.
static void write_key(CubeMaker *m, Text *text, int k)
{
    const int t = m->form->test_of_key[k];
    if (t < 0) {
        move_fragment(m, text, m->member->woven->ir->sink.key_codes[k].code);
        return;
    }
    const int   d = place_of(m, t), column = column_of_test(m, t);
    const char *local = table(m, "u16", "local", k, cube_table_local(m->form, k));
    if (m->look == CUBE_BY_ATOM) text_add(text, "%s[%s]", local, atom_of_row(m, d));
    else
        text_add(text, "%s[%s[%s[i] + %s]]", local, table(m, "u16", "atom", k, cube_table_atoms(m->form, k)),
                 ref_to(m, m->ir->columns[column].decl), param(m, "u64", "from_key", k, cube_param_from(d)));
}

// The slot's first cell, then the place of each group key among its cells.
static void write_group(CubeMaker *m, Text *text)
{
    const IrSink *sink = &m->member->woven->ir->sink;
    const int     last = m->ir->steps[m->ir->n_steps - 1].carries[0], n_keys = m->form->n_keys;
    if (!n_keys) {
        text_add(text, "const u64 group = %s[i];\n", ref_to(m, last));
        return;
    }
    move_fragment(m, text, sink->key_values);
    text_add(text, "const u32 *const place = %s + (%s)%s[i] * %d;\nconst u64 group = place[0]",
             table(m, "u32", "places", 0, cube_table_places(m->form)), number_type(m), ref_to(m, last), n_keys);
    for (int k = 0; k < n_keys; k++) {
        if (m->form->test_of_key[k] >= 0 && !cube_is_first_key(m->form, k)) continue;
        text_add(text, " + ");
        write_key(m, text, k);
        if (k + 1 < n_keys) text_add(text, " * place[%d]", k + 1);
    }
    text_add(text, ";\n");
}

static void write_sink(CubeMaker *m)
{
    const IrSink *from = &m->member->woven->ir->sink;
    IrSink       *sink = &m->ir->sink;
    Text          keys = { 0 }, adds = { 0 };
    *sink = (IrSink){ .kind = SINK_GROUPS, .groups = GROUP_ARRAY, .live = "live" };
    sink->n_accumulators = from->n_accumulators;
    sink->accumulators = arena_array(m->arena, Accumulator, from->n_accumulators + 1);
    memcpy(sink->accumulators, from->accumulators, (size_t)from->n_accumulators * sizeof *sink->accumulators);
    sink->first_column = m->ir->n_columns;
    write_group(m, &keys);
    move_fragment(m, &adds, from->adds);
    if (from->groups == GROUP_ONE) text_add(&adds, "ADD(%cc%d%c, 1)\n", REF_OPEN, from->rows, REF_CLOSE);
    sink->end_column = m->ir->n_columns;
    sink->keys = text_keep(m->arena, &keys), sink->adds = text_keep(m->arena, &adds);
}

static void name_kernel(CubeMaker *m)
{
    Text text = { 0 };
    m->ir->title = "queries of one shape";
    ir_print(m->ir, "j", &text);
    m->out->name = PRINT("j_%016llx", (unsigned long long)hash_bytes(text.bytes, text.length));
    text_clear(&text);
    ir_print(m->ir, m->out->name, &text);
    m->out->text = text_keep(m->arena, &text);
}

Woven *weave_join_cube(Arena *arena, const FuseMember *member, const CubeForm *form, const int *order, CubeLook look,
                       const int *kinds)
{
    const Woven *woven = member->woven;
    CubeMaker    m = { .arena = arena, .member = member, .form = form, .order = order, .look = look,
                     .kinds = kinds };
    m.ir = arena_make(arena, Ir), m.out = arena_make(arena, Woven);
    m.moved = arena_array(arena, int, woven->ir->n_decls + 1);
    *m.out = (Woven){ .group_kind = GROUP_ARRAY,
                      .seen = woven->seen,
                      .n_state = woven->n_state,
                      .n_tables = cube_n_tables(form) + (look == CUBE_BY_ATOM ? form->n_tests : 0),
                      .tile_bytes = woven->tile_bytes + 4 * (u64)form->n_tests };
    m.out->state = arena_array(arena, StateSlot, woven->n_state);
    memcpy(m.out->state, woven->state, (size_t)woven->n_state * sizeof *woven->state);
    m.out->tables = arena_array(arena, const void *, m.out->n_tables);
    m.out->n_table_facts = m.out->n_tables, m.out->table_facts = arena_array(arena, WovenTable, m.out->n_tables);
    for (int p = 0; p < cube_n_params(form); p++) LIST_PUSH(arena, m.out->params, m.out->n_params);
    m.first_own = m.out->n_params;
    write_steps(&m);
    write_sink(&m);
    name_kernel(&m);
    return m.out;
}
