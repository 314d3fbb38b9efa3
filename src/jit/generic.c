// generic.c - a kernel's IR as operations for the generic kernel.
//
//     IR -- steps, sink --> statements -- generic_tree.c --> trees --> operations, one behind the other
//
// There is one value at hand for each row.  A tree becomes operations such that the value of its left side is at hand
// and its right side is the operand, or waits in a register where it is more than one.  Names of a step, and values
// that steps carry, are registers; those of a step are given back at its end.
//
// C does not look at what it skips: table[at] in `inside ? table[at] : 0` may lie beyond the table where `inside` is
// 0.  All rows go through all operations here, so what is skipped has a guard: a register that is 0 for rows that are
// not to look anything up, not to fail, not to add.  Statements of an `if` have the same.
//
// What is not known is refused, and the kernel is compiled as if there were no generic one: rows with several matches,
// keys of several words, numbers of 128 bits, functions, sums of floats in many parts.

#include "jit/generic_int.h"

#include "kernel/kernel.h"

#include <stdlib.h>

// ---- operations and registers ---------------------------------------------------------------------------------------

static KernelOp *put_op(Generic *g, int code)
{
    static const KernelOp nothing = { .to = NO_REGISTER, .guard = NO_REGISTER };
    if (g->n_ops == OPS_MOST) {
        generic_refuse(g, "more than %d operations", (int)OPS_MOST);
        g->n_ops--;
    }
    KernelOp *op = &g->ops[g->n_ops++];
    *op = nothing;
    op->code = (u8)code;
    return op;
}

static int take_register(Generic *g)
{
    int reg = 0;
    while (reg < REGISTERS_MOST && g->taken >> reg & 1) reg++;
    if (reg == REGISTERS_MOST) {
        generic_refuse(g, "more than %d values at once", (int)REGISTERS_MOST);
        return 0;
    }
    g->taken |= 1u << reg;
    return reg;
}

static void free_register(Generic *g, int reg) { g->taken &= ~(1u << reg); }

static KernelOp *put_leaf_op(Generic *g, int code, const CodeTree *leaf)
{
    KernelOp *op = put_op(g, code);
    op->from = leaf->from, op->at = leaf->at, op->x = leaf->x;
    g->held = -1;
    return op;
}

static void put_number_op(Generic *g, int code, i32 number)
{
    KernelOp *op = put_op(g, code);
    op->from = FROM_NUMBER, op->x = number;
    g->held = -1;
}

// The value at hand stays there.
static void store(Generic *g, int reg)
{
    KernelOp *last = g->n_ops ? &g->ops[g->n_ops - 1] : NULL;
    const bool can_store = last && last->to == NO_REGISTER && last->code < DO_KEEP && g->held < 0;
    if (can_store) last->to = (u16)reg;
    else {
        KernelOp *op = put_op(g, DO_OR);           // it stays as it is
        op->from = FROM_NUMBER, op->to = (u16)reg;
    }
    g->held = reg;
}

static int stored_value(Generic *g)
{
    const int reg = take_register(g);
    store(g, reg);
    return reg;
}

static void load_register(Generic *g, int reg)
{
    KernelOp *op = put_op(g, DO_LOAD);
    op->from = FROM_REGISTER, op->at = (u16)reg;
    g->held = reg;
}

// ---- trees ----------------------------------------------------------------------------------------------------------

static void put_tree(Generic *g, const CodeTree *tree);

static bool looks_up(const CodeTree *tree)
{
    return tree && (tree->kind == TREE_TABLE || looks_up(tree->a) || looks_up(tree->b) || looks_up(tree->c));
}

static void put_flag(Generic *g, const CodeTree *tree)
{
    put_tree(g, tree);
    if (!tree_is_flag(tree)) put_number_op(g, DO_NE, 0);
}

static void put_cast(Generic *g, const CodeTree *tree)
{
    const CodeTree *of = tree->a;
    const int   bits = generic_bits(tree->type);
    put_tree(g, of);
    if (tree->type == GEN_F64) {
        put_op(g, DO_TO_F64), g->held = -1;
    } else if (tree->type == GEN_I32) {
        if (of->type > GEN_U16 && !tree_is_flag(of)) put_op(g, DO_SIGN_32), g->held = -1;
    } else if (bits < 64 && !tree_is_flag(of) && !(of->type < GEN_I32 && generic_bits(of->type) <= bits)) {
        if (bits < 32) {
            put_number_op(g, DO_AND, ((i64)1 << bits) - 1);
        } else {                       // a mask of 32 bits would have a sign
            put_number_op(g, DO_SHL, 32);
            put_number_op(g, DO_SHR, 32);
        }
    }
}

// Operators whose operands may be swapped, and those that have another for that; -1: none.
static int swapped(int op)
{
    switch (op) {
        case DO_ADD: case DO_MUL: case DO_AND: case DO_OR: case DO_EQ: case DO_NE: case DO_ADD_F64: case DO_MUL_F64:
        case DO_EQ_F64: case DO_NE_F64: case DO_SAME_F64: return op;
        case DO_SUB: return DO_SUB_FROM;
        case DO_LT: return DO_GT;
        case DO_LE: return DO_GE;
        case DO_GT: return DO_LT;
        case DO_GE: return DO_LE;
        case DO_LT_U64: return DO_GT_U64;
        case DO_LE_U64: return DO_GE_U64;
        case DO_GT_U64: return DO_LT_U64;
        case DO_GE_U64: return DO_LE_U64;
        case DO_SUB_F64: return DO_SUB_FROM_F64;
        case DO_LT_F64: return DO_GT_F64;
        case DO_LE_F64: return DO_GE_F64;
        case DO_GT_F64: return DO_LT_F64;
        case DO_GE_F64: return DO_LE_F64;
        case DO_LESS_F64: return DO_MORE_F64;
        default: return -1;
    }
}

// A leaf, or a register that is to be given back.
static CodeTree operand_of(Generic *g, const CodeTree *tree, int *reg)
{
    *reg = -1;
    if (tree->kind == TREE_LEAF) return *tree;
    put_tree(g, tree);
    *reg = stored_value(g);
    return (CodeTree){ .kind = TREE_LEAF, .from = FROM_REGISTER, .at = (u16)*reg };
}

// A, with B as the operand of the operation that is returned.
static KernelOp *put_two(Generic *g, int op, const CodeTree *a, const CodeTree *b)
{
    int        reg;
    const CodeTree operand = operand_of(g, b, &reg);
    put_tree(g, a);
    KernelOp *made = put_leaf_op(g, op, &operand);
    if (reg >= 0) free_register(g, reg);
    return made;
}

static void put_binary(Generic *g, const CodeTree *tree)
{
    const bool can_swap = tree->a->kind == TREE_LEAF && tree->b->kind != TREE_LEAF && swapped(tree->op) >= 0;
    if (can_swap) put_two(g, swapped(tree->op), tree->b, tree->a);
    else put_two(g, tree->op, tree->a, tree->b);
}

// The register of rows that are meant where FLAG holds, too; *IS_OWN: it is to be given back.
static u16 guard_and(Generic *g, int flag, bool *is_own)
{
    *is_own = g->guard != NO_REGISTER;
    if (!*is_own) return (u16)flag;
    load_register(g, flag);
    KernelOp *both = put_op(g, DO_AND);
    both->from = FROM_REGISTER, both->at = g->guard;
    g->held = -1;
    return (u16)stored_value(g);
}

static void put_guarded(Generic *g, const CodeTree *tree, int flag)
{
    const u16 outer = g->guard;
    bool      is_own = false;
    if (looks_up(tree)) g->guard = guard_and(g, flag, &is_own);
    put_tree(g, tree);
    if (is_own) free_register(g, g->guard);
    g->guard = outer;
}

static int flag_of(Generic *g, const CodeTree *tree)
{
    put_flag(g, tree);
    return stored_value(g);
}

static int opposite_of(Generic *g, int flag)
{
    load_register(g, flag);
    put_number_op(g, DO_EQ, 0);
    return stored_value(g);
}

static void put_logic(Generic *g, const CodeTree *tree)
{
    const int flag = flag_of(g, tree->a);
    int       where = flag;
    if (tree->kind == TREE_OR && looks_up(tree->b)) where = opposite_of(g, flag);
    put_guarded(g, tree->b, where);
    if (!tree_is_flag(tree->b)) put_number_op(g, DO_NE, 0);
    KernelOp *op = put_op(g, tree->kind == TREE_AND ? DO_AND : DO_OR);
    op->from = FROM_REGISTER, op->at = (u16)flag;
    g->held = -1;
    if (where != flag) free_register(g, where);
    free_register(g, flag);
}

static void put_select(Generic *g, const CodeTree *tree)
{
    const int  flag = flag_of(g, tree->a);
    int        reg = -1, no_flag = -1;
    CodeTree       other = *tree->c;
    if (tree->c->kind != TREE_LEAF) {
        if (looks_up(tree->c)) no_flag = opposite_of(g, flag);
        put_guarded(g, tree->c, no_flag >= 0 ? no_flag : flag);
        if (no_flag >= 0) free_register(g, no_flag);
        reg = stored_value(g);
        other = (CodeTree){ .kind = TREE_LEAF, .from = FROM_REGISTER, .at = (u16)reg };
    }
    put_guarded(g, tree->b, flag);
    put_leaf_op(g, DO_SELECT, &other)->guard = (u16)flag;
    if (reg >= 0) free_register(g, reg);
    free_register(g, flag);
}

static void put_table(Generic *g, const CodeTree *tree)
{
    put_tree(g, tree->a);
    KernelOp *op = put_op(g, DO_TABLE);
    op->x = tree->op, op->y = tree->number, op->guard = g->guard;
    g->held = -1;
}

// Its value is at hand then.
static void put_tree(Generic *g, const CodeTree *tree)
{
    if (g->refused) return;
    switch (tree->kind) {
        case TREE_LEAF:
            if (tree->from == FROM_REGISTER && g->held == tree->at) return;
            put_leaf_op(g, DO_LOAD, tree);
            if (tree->from == FROM_REGISTER) g->held = tree->at;
            return;
        case TREE_BINARY: put_binary(g, tree); return;
        case TREE_CAST: put_cast(g, tree); return;
        case TREE_NOT: put_tree(g, tree->a), put_number_op(g, DO_EQ, 0); return;
        case TREE_UNARY: put_tree(g, tree->a), put_op(g, tree->op), g->held = -1; return;
        case TREE_SELECT: put_select(g, tree); return;
        case TREE_AND:
        case TREE_OR: put_logic(g, tree); return;
        case TREE_TABLE: put_table(g, tree); return;
    }
}

// ---- names ----------------------------------------------------------------------------------------------------------

static Local *add_local(Generic *g, const char *name, size_t length, GenType type)
{
    if (g->n_locals == LOCALS_MOST) {
        generic_refuse(g, "more than %d names in a step", (int)LOCALS_MOST);
        g->n_locals--;
    }
    Local *local = &g->locals[g->n_locals++];
    *local = (Local){ .name = name, .length = length, .type = type, .reg = -1 };
    return local;
}

static void free_locals(Generic *g)
{
    for (int l = 0; l < g->n_locals; l++)
        if (g->locals[l].reg >= 0) free_register(g, g->locals[l].reg);
    g->n_locals = 0;
    g->held = -1;
}

// The value at hand to a register that has one already, for the rows that are meant.
static void assign(Generic *g, int reg)
{
    if (g->guard != NO_REGISTER) {
        const CodeTree before = { .kind = TREE_LEAF, .from = FROM_REGISTER, .at = (u16)reg };
        put_leaf_op(g, DO_SELECT, &before)->guard = g->guard;
    }
    store(g, reg);
}

// A result of a word: a new name.
static void name_value(Generic *g, const char *name, size_t length, GenType type)
{
    Local *local = add_local(g, name, length, type);
    local->reg = stored_value(g);
}

// [const] TYPE name = expression, name = expression;
static void read_declaration(Generic *g, GenType type, bool is_const)
{
    do {
        const char *name;
        size_t      length;
        if (!tree_word(g, &name, &length)) generic_refuse(g, "a name is missing before \"%.20s\"", g->at);
        if (tree_takes(g, "[")) generic_refuse(g, "an array");
        if (!tree_takes(g, "=")) {
            if (!g->refused) add_local(g, name, length, type)->reg = take_register(g);
            continue;
        }
        const CodeTree *tree = tree_cast(g, tree_read(g), type);
        if (is_const && tree->kind == TREE_LEAF && tree->from != FROM_REGISTER) {
            add_local(g, name, length, type)->tree = tree;
            continue;
        }
        put_tree(g, tree);
        name_value(g, name, length, type);
    } while (!g->refused && tree_takes(g, ","));
    tree_needs(g, ";");
}

// ---- statements -----------------------------------------------------------------------------------------------------

static void read_statement(Generic *g);

static bool is_word(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(name, word, length) == 0;
}

static void read_block(Generic *g)
{
    if (!tree_takes(g, "{")) {
        read_statement(g);
        return;
    }
    while (!g->refused && !tree_takes(g, "}")) read_statement(g);
}

static void read_branch(Generic *g, int flag)
{
    const u16 outer = g->guard;
    bool      is_own;
    const u16 guard = guard_and(g, flag, &is_own);
    g->guard = guard;
    read_block(g);
    if (is_own) free_register(g, guard);
    g->guard = outer;
    g->held = -1;
}

static void read_if(Generic *g)
{
    tree_needs(g, "(");
    const int flag = flag_of(g, tree_read(g));
    tree_needs(g, ")");
    read_branch(g, flag);
    if (tree_takes(g, "else")) {
        const int opposite = opposite_of(g, flag);
        read_branch(g, opposite);
        free_register(g, opposite);
    }
    free_register(g, flag);
}

// WORD(name, a, b, check): a new name.
static void read_checked(Generic *g, int code, GenType type, bool has_check)
{
    const char *name = "";
    size_t      length = 0;
    if (!tree_word(g, &name, &length)) generic_refuse(g, "a name is missing before \"%.20s\"", g->at);
    tree_needs(g, ",");
    const CodeTree *a = tree_cast(g, tree_read(g), type);
    tree_needs(g, ",");
    const CodeTree *b = tree_cast(g, tree_read(g), type);
    int         check = 0;
    if (has_check) tree_needs(g, ","), check = (int)tree_number(g);
    tree_needs(g, ")");
    if (g->refused) return;
    KernelOp *op = put_two(g, code, a, b);
    op->y = check, op->guard = g->guard;
    name_value(g, name, length, type);
}

static void read_check(Generic *g)
{
    put_flag(g, tree_read(g));
    tree_needs(g, ",");
    const int check = (int)tree_number(g);
    tree_needs(g, ")");
    KernelOp *op = put_op(g, DO_CHECK);
    op->y = check, op->guard = g->guard;
    g->held = -1;
}

// F64_BITS(name, value)
static void read_key_f64(Generic *g)
{
    const char *name = "";
    size_t      length = 0;
    if (!tree_word(g, &name, &length)) generic_refuse(g, "a name is missing before \"%.20s\"", g->at);
    tree_needs(g, ",");
    put_tree(g, tree_read(g));
    tree_needs(g, ")");
    if (g->refused) return;
    put_op(g, DO_KEY_F64), g->held = -1;
    name_value(g, name, length, GEN_U64);
}

// ONE_OF(name, value, table, n)
static void read_one_of(Generic *g)
{
    const char *name = "";
    size_t      length = 0;
    if (!tree_word(g, &name, &length)) generic_refuse(g, "a name is missing before \"%.20s\"", g->at);
    tree_needs(g, ",");
    const CodeTree *value = tree_read(g);
    tree_needs(g, ",");
    const Decl *table = tree_decl(g, DECL_TABLE);
    tree_needs(g, ",");
    const CodeTree *n = tree_read(g);
    tree_needs(g, ")");
    if (g->refused) return;
    put_two(g, DO_ONE_OF, value, n)->y = table->number;
    name_value(g, name, length, GEN_U8);
}

// FIND(row, slots, mask, key, confirm): the row has been declared.
static void read_find(Generic *g)
{
    const char  *name = "";
    size_t       length = 0;
    const Local *row = tree_word(g, &name, &length) ? generic_local(g, name, length) : NULL;
    tree_needs(g, ",");
    const Decl *slots = tree_decl(g, DECL_TABLE);
    tree_needs(g, ",");
    const CodeTree *mask = tree_read(g);
    tree_needs(g, ",");
    const CodeTree *key = tree_read(g);
    tree_needs(g, ",");
    if (!tree_takes(g, "1")) generic_refuse(g, "keys of several words");
    tree_needs(g, ")");
    if (!row || row->reg < 0) generic_refuse(g, "FIND without a row");
    if (g->refused) return;
    KernelOp *op = put_two(g, DO_FIND, key, mask);
    op->y = slots->number, op->guard = g->guard;
    assign(g, row->reg);
}

// GROUP(group, key, 0, 1): the group has been declared.
static void read_group(Generic *g)
{
    const char  *name = "";
    size_t       length = 0;
    const Local *group = tree_word(g, &name, &length) ? generic_local(g, name, length) : NULL;
    tree_needs(g, ",");
    const CodeTree *key = tree_read(g);
    tree_needs(g, ",");
    if (!tree_takes(g, "0")) generic_refuse(g, "groups of keys of several words");
    tree_needs(g, ",");
    tree_needs(g, "1");
    tree_needs(g, ")");
    if (!group || group->reg < 0) generic_refuse(g, "GROUP without a group");
    if (g->refused) return;
    put_tree(g, key);
    put_op(g, DO_GROUP)->to = (u16)group->reg;
    g->held = group->reg;
}

// ---- sinks ----------------------------------------------------------------------------------------------------------

static bool is_total(const Generic *g) { return g->ir->sink.groups == GROUP_ONE; }

static void add_end(Generic *g, int code, int y)
{
    for (int e = 0; e < g->n_ends; e++)
        if (g->ends[e].code == code && g->ends[e].y == y) return;
    if (g->n_ends == COUNT_OF(g->ends) || y >= (code == DO_NOTE ? NOTES_MOST : TOTALS_MOST - 1)) {
        generic_refuse(g, "more totals or notes than a thread keeps");
        return;
    }
    g->ends[g->n_ends++] = (KernelOp){ .code = (u8)code, .y = y };
}

static int cell_number(Generic *g)
{
    char      letter = 0;
    const int slot = tree_ref(g, &letter);
    if (slot < 0 || letter != 'c') generic_refuse(g, "something else than a cell before \"%.20s\"", g->at);
    return slot;
}

// To the cell of the group, or the total.
static void put_sink(Generic *g, int code, int total_code, int slot)
{
    const Local *group = generic_local(g, "group", 5);
    if (is_total(g)) add_end(g, total_code, slot);
    else if (!group) generic_refuse(g, "a cell without a group");
    if (g->refused) return;
    KernelOp *op = put_op(g, is_total(g) ? total_code : code);
    op->y = slot, op->guard = g->guard;
    if (!is_total(g)) op->to = (u16)group->reg;
}

// WORD(cell, value)
static void read_sum(Generic *g, int code, int total_code, GenType type)
{
    const int slot = cell_number(g);
    tree_needs(g, ",");
    const CodeTree *value = tree_cast(g, tree_read(g), type);
    tree_needs(g, ")");
    if (g->refused) return;
    put_tree(g, value);
    put_sink(g, code, total_code, slot);
}

static void read_wide_sum(Generic *g)
{
    const int slot = cell_number(g);
    tree_needs(g, ",");
    if (cell_number(g) != slot + 1) generic_refuse(g, "words of a sum apart from each other");
    tree_needs(g, ",");
    const CodeTree *value = tree_cast(g, tree_read(g), GEN_I64);
    tree_needs(g, ")");
    if (g->refused) return;
    put_tree(g, value);
    put_sink(g, DO_SUM_WIDE, DO_TOTAL_WIDE, slot);
}

static void read_seen(Generic *g)
{
    const int slot = cell_number(g);
    tree_needs(g, ")");
    if (is_total(g)) generic_refuse(g, "a mark without groups");
    put_sink(g, DO_SEEN, DO_TOTAL, slot);
}

// PART(name, rest, radix): the rest is a variable.
static void read_part(Generic *g)
{
    const char *name = "", *of = "";
    size_t      length = 0, of_length = 0;
    if (!tree_word(g, &name, &length)) generic_refuse(g, "a name is missing before \"%.20s\"", g->at);
    tree_needs(g, ",");
    const Local *rest = tree_word(g, &of, &of_length) ? generic_local(g, of, of_length) : NULL;
    tree_needs(g, ",");
    const CodeTree *radix = tree_cast(g, tree_read(g), GEN_F64);
    tree_needs(g, ")");
    if (!rest || rest->reg < 0) generic_refuse(g, "PART of something else than a variable");
    if (g->refused) return;
    const CodeTree value = { .kind = TREE_LEAF, .type = GEN_F64, .from = FROM_REGISTER, .at = (u16)rest->reg };
    put_two(g, DO_PART, &value, radix)->to = (u16)rest->reg;
    g->held = -1;
    name_value(g, name, length, GEN_I64);
}

// PUT(o3, value): o and the number of its state slot.
static void read_put(Generic *g)
{
    const char *name = "o0";
    size_t      length;
    if (!tree_word(g, &name, &length) || *name != 'o') generic_refuse(g, "an output is missing");
    const int slot = atoi(name + 1);
    tree_needs(g, ",");
    const CodeTree *value = tree_read(g);
    tree_needs(g, ")");
    if (g->refused) return;
    put_tree(g, value);
    put_op(g, g->woven->state[slot].bytes == 1 ? DO_PUT_FLAG : DO_PUT)->y = slot;
}

static void read_note(Generic *g, int code)
{
    const int   output = (int)tree_number(g);
    const CodeTree *value = NULL;
    if (code != DO_NOTE_NULL) tree_needs(g, ","), value = tree_read(g);
    tree_needs(g, ")");
    add_end(g, DO_NOTE, output);
    if (g->refused) return;
    if (value) put_tree(g, value);
    KernelOp *op = put_op(g, code);
    op->y = output, op->guard = g->guard;
}

// ---- any statement --------------------------------------------------------------------------------------------------

typedef struct StatementWord { const char *name; int code, total_code; GenType type; } StatementWord;

static const StatementWord checked_words[] = {
    { "ADD_CHECKED", DO_ADD_CHECKED, 1, GEN_I64 }, { "SUB_CHECKED", DO_SUB_CHECKED, 1, GEN_I64 },
    { "MUL_CHECKED", DO_MUL_CHECKED, 1, GEN_I64 }, { "DIV_CHECKED", DO_DIV_CHECKED, 1, GEN_I64 },
    { "MOD_CHECKED", DO_MOD_CHECKED, 1, GEN_I64 }, { "DIV_F64_CHECKED", DO_DIV_F64_CHECKED, 1, GEN_F64 },
    { "ROUND_DIV", DO_ROUND_DIV, 0, GEN_I64 },
};

static const StatementWord sum_words[] = {
    { "ADD", DO_SUM, DO_TOTAL, GEN_I64 },
    { "LEAST", DO_LEAST, DO_TOTAL_LEAST, GEN_I64 },
    { "MOST", DO_MOST, DO_TOTAL_MOST, GEN_I64 },
    { "LEAST_F64", DO_LEAST_F64, DO_TOTAL_LEAST_F64, GEN_F64 },
    { "MOST_F64", DO_MOST_F64, DO_TOTAL_MOST_F64, GEN_F64 },
};

static void read_word(Generic *g, const char *name, size_t length)
{
    for (int w = 0; w < COUNT_OF(checked_words); w++)
        if (is_word(name, length, checked_words[w].name)) {
            read_checked(g, checked_words[w].code, checked_words[w].type, checked_words[w].total_code);
            return;
        }
    for (int w = 0; w < COUNT_OF(sum_words); w++)
        if (is_word(name, length, sum_words[w].name)) {
            read_sum(g, sum_words[w].code, sum_words[w].total_code, sum_words[w].type);
            return;
        }
    if (is_word(name, length, "CHECK")) read_check(g);
    else if (is_word(name, length, "F64_BITS")) read_key_f64(g);
    else if (is_word(name, length, "ONE_OF")) read_one_of(g);
    else if (is_word(name, length, "FIND")) read_find(g);
    else if (is_word(name, length, "GROUP")) read_group(g);
    else if (is_word(name, length, "ADD_WIDE")) read_wide_sum(g);
    else if (is_word(name, length, "SEEN")) read_seen(g);
    else if (is_word(name, length, "PART")) read_part(g);
    else if (is_word(name, length, "PUT")) read_put(g);
    else if (is_word(name, length, "NOTE")) read_note(g, DO_NOTE);
    else if (is_word(name, length, "NOTE_NULL")) read_note(g, DO_NOTE_NULL);
    else if (is_word(name, length, "MARK")) read_note(g, DO_MARK);
    else generic_refuse(g, "the word %.*s", (int)length, name);
}

// carried[i] = expression;
static void read_carried(Generic *g)
{
    char        letter = 0;
    const int   number = tree_ref(g, &letter);
    const Decl *decl = letter == 'd' ? &g->ir->decls[number] : NULL;
    if (!decl || decl->kind != DECL_CARRY || !g->carried[number]) {
        generic_refuse(g, "something else is assigned to");
        return;
    }
    tree_needs(g, "[");
    tree_needs(g, "i");
    tree_needs(g, "]");
    tree_needs(g, "=");
    const CodeTree *value = tree_cast(g, tree_read(g), generic_type(g, decl->type));
    tree_needs(g, ";");
    if (g->refused) return;
    put_tree(g, value);
    assign(g, g->carried[number] - 1);
}

static void read_assignment(Generic *g, const char *name, size_t length)
{
    const Local *local = generic_local(g, name, length);
    if (!local || local->reg < 0 || !tree_takes(g, "=")) {
        generic_refuse(g, "the statement %.*s", (int)length, name);
        return;
    }
    const CodeTree *value = tree_cast(g, tree_read(g), local->type);
    const int   reg = local->reg;
    tree_needs(g, ";");
    if (g->refused) return;
    put_tree(g, value);
    assign(g, reg);
}

static void read_statement(Generic *g)
{
    const bool  is_const = tree_takes(g, "const");
    const char *name;
    size_t      length;
    GenType     type;
    if (tree_type(g, &type)) read_declaration(g, type, is_const);
    else if (tree_takes(g, "if")) read_if(g);
    else if (tree_takes(g, ";")) return;
    else if (!tree_word(g, &name, &length)) read_carried(g);
    else if (tree_takes(g, "(")) read_word(g, name, length), (void)tree_takes(g, ";");
    else read_assignment(g, name, length);
}

static void read_statements(Generic *g, const char *text)
{
    if (g->refused || !text) return;
    g->at = text;
    while (!g->refused && g->at[strspn(g->at, " \n")]) read_statement(g);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

static GenType stored_type(Generic *g)
{
    GenType type = GEN_U64;
    if (!tree_type(g, &type)) generic_refuse(g, "a test of another type");
    tree_needs(g, ",");
    return type;
}

// "u8, column, low, span"
static void put_range(Generic *g, const char *text)
{
    char letter = 0;
    g->at = text;
    const GenType type = stored_type(g);
    const int     column = tree_ref(g, &letter);
    tree_needs(g, ",");
    const Decl *low = tree_decl(g, DECL_PARAM);
    tree_needs(g, ",");
    const Decl *span = tree_decl(g, DECL_PARAM);
    if (g->refused || column < 0) return;
    const Decl *decl = &g->ir->decls[column];
    KernelOp   *op = put_op(g, DO_BETWEEN);
    op->from = decl->kind == DECL_COLUMN_ANY ? FROM_VALUE : FROM_STORED, op->at = (u16)decl->number;
    op->x = low->number, op->y = span->number, op->guard = (u16)generic_bits(type);
}

// "u8, column, from, table", or with a payload "u8, column, from, u16, table, carried"
static void put_probe(Generic *g, const Step *step)
{
    static const u16 elements[] = { [GEN_U8] = ELEMENT_U8,   [GEN_U16] = ELEMENT_U16, [GEN_U32] = ELEMENT_U32,
                                    [GEN_U64] = ELEMENT_U64, [GEN_F64] = ELEMENT_U64 };
    char             letter = 0;
    const bool       is_lookup = strcmp(step->word, "LOOKUP") == 0;
    u16              how = strcmp(step->word, "BIT") == 0 ? ELEMENT_BIT : ELEMENT_U8;
    g->at = step->text;
    stored_type(g);
    const Decl *column = tree_decl(g, DECL_COLUMN);
    tree_needs(g, ",");
    const Decl *from = tree_decl(g, DECL_PARAM);
    tree_needs(g, ",");
    if (is_lookup) {
        const GenType type = stored_type(g);
        how = elements[type];
        if (type == GEN_F64 || type == GEN_I32 || type == GEN_I64) generic_refuse(g, "a payload of another type");
    }
    const Decl *table = tree_decl(g, DECL_TABLE);
    int         carried = -1;
    if (is_lookup) tree_needs(g, ","), carried = tree_ref(g, &letter);
    if (g->refused) return;
    KernelOp *op = put_op(g, DO_PROBE);
    op->from = FROM_STORED, op->at = (u16)column->number, op->x = from->number, op->y = table->number, op->guard = how;
    if (carried >= 0) op->to = (u16)(g->carried[carried] - 1);
    g->held = -1;
}

static void put_keep(Generic *g, const char *keep)
{
    if (g->refused) return;
    g->at = keep;
    put_tree(g, tree_read(g));
    if (g->at[strspn(g->at, " \n")]) generic_refuse(g, "a condition that goes on with \"%.20s\"", g->at);
    put_op(g, DO_KEEP);
}

// As in the text: what carries a value is never skipped.
static bool is_skipped_if_sure(const Step *step)
{
    return step->is_unsure && (step->kind == STEP_RANGE || step->kind == STEP_LOOKUP) && step->n_carries == 0;
}

static void put_step(Generic *g, const Step *step)
{
    for (int c = 0; c < step->n_carries; c++) g->carried[step->carries[c]] = 1 + take_register(g);
    const int test = is_skipped_if_sure(step) ? g->n_ops : -1;
    if (test >= 0) put_op(g, DO_UNSURE);
    switch (step->kind) {
        case STEP_RANGE: put_range(g, step->text); break;
        case STEP_LOOKUP: put_probe(g, step); break;
        case STEP_CONDITION: put_keep(g, step->keep); break;
        case STEP_BLOCK:
            read_statements(g, step->text);
            put_keep(g, step->keep);
            break;
        case STEP_EACH: read_statements(g, step->text); break;
        case STEP_MATCHES: generic_refuse(g, "rows with several matches"); break;
        case STEP_NOTHING: break;
    }
    if (test >= 0) g->ops[test].y = g->n_ops - test - 1;
    if (step->count >= 0) put_op(g, DO_STEP)->y = step->count;
    free_locals(g);
}

static void put_sinks(Generic *g)
{
    const IrSink *sink = &g->ir->sink;
    if (sink->kind != SINK_GROUPS) put_op(g, DO_ROOM);
    read_statements(g, sink->keys);
    read_statements(g, sink->adds);
    if (sink->kind != SINK_GROUPS || !is_total(g) || sink->rows < 0 || g->refused) return;
    add_end(g, DO_TOTAL, sink->rows);
    put_op(g, DO_TOTAL_ROWS)->y = sink->rows;
}

// ---- for the CPU ----------------------------------------------------------------------------------------------------

static bool reads(const KernelOp *op, int reg)
{
    const bool adds = op->code >= DO_SUM && op->code <= DO_SEEN;
    const bool is_guard = op->code != DO_BETWEEN && op->code != DO_PROBE;          // these say something else there
    return (op->from == FROM_REGISTER && op->at == reg) || (op->guard == reg && is_guard) || (op->to == reg && adds);
}

// A probe that gives a value becomes a test, and what gives the value, which comes when it is asked for: a CPU then
// looks it up only for rows that other tests have left, too.
static int put_payloads_late(const KernelOp *ops, int n_ops, KernelOp *made)
{
    KernelOp late[REGISTERS_MOST];
    u32      is_late = 0;
    int      n = 0;
    for (int o = 0; o < n_ops; o++) {
        for (u32 left = is_late; left; left &= left - 1) {
            const int reg = __builtin_ctz(left);
            if (!reads(&ops[o], reg)) continue;
            made[n++] = late[reg];
            is_late &= ~(1u << reg);
        }
        made[n++] = ops[o];
        if (ops[o].code != DO_PROBE || ops[o].to == NO_REGISTER) continue;
        late[ops[o].to] = ops[o], late[ops[o].to].code = DO_PAYLOAD;
        is_late |= 1u << ops[o].to;
        made[n - 1].to = NO_REGISTER;
    }
    return n;
}

static int n_of_gpu(const Generic *g)
{
    int n = 0;
    for (int o = 0; o < g->n_ops; o++) n += g->ops[o].code != DO_UNSURE;
    return n;
}

static JitProgram finish(const Generic *g)
{
    const u64      n = (u64)(g->n_ops + g->n_ends), bytes = sizeof(KernelProgram) + n * sizeof(KernelOp);
    KernelProgram *program = arena_alloc(g->arena, bytes);
    KernelOp      *ops = (KernelOp *)(program + 1);
    *program = (KernelProgram){ .n_ops = (u32)g->n_ops,
                                .n_ends = (u32)g->n_ends,
                                .puts_rows = g->ir->sink.kind != SINK_GROUPS };
    memcpy(ops, g->ops, (size_t)g->n_ops * sizeof *ops);
    memcpy(ops + g->n_ops, g->ends, (size_t)g->n_ends * sizeof *ops);
    return (JitProgram){ .n_ops = n_of_gpu(g), .bytes = bytes, .data = program };
}

JitProgram jit_program(Arena *arena, const Woven *woven)
{
    const Ir *ir = woven->ir;
    Generic  *g = arena_make(arena, Generic);
    if (!ir || ir->n_dims) return (JitProgram){ .refused = "it was not woven of one query" };
    *g = (Generic){ .arena = arena, .woven = woven, .ir = ir, .at = "", .guard = NO_REGISTER, .held = -1 };
    g->carried = arena_array(arena, int, ir->n_decls + 1);
    if (woven->is_for_cpu) generic_refuse(g, "extremes of 128 bits");
    for (int s = 0; s < ir->n_steps && !g->refused; s++) put_step(g, &ir->steps[s]);
    if (!g->refused) put_sinks(g);
    if (g->n_ops + g->n_ends > OPS_MOST) generic_refuse(g, "more than %d operations", (int)OPS_MOST);
    if (g->refused) return (JitProgram){ .refused = g->refused };
    return finish(g);
}

// A GPU is not sent DO_UNSURE, which only the CPU looks at, nor DO_STEP where rows are not counted step by step.
static bool is_left_out(const KernelOp *op, bool is_counted)
{
    return op->code == DO_UNSURE || (op->code == DO_STEP && !is_counted);
}

JitProgram jit_cpu_program(Arena *arena, const Woven *woven)
{
    JitProgram           program = jit_program(arena, woven);
    const KernelProgram *from = program.data;
    if (program.refused) return program;
    KernelProgram *to = arena_alloc(arena, sizeof *to + (from->n_ops + REGISTERS_MOST) * sizeof(KernelOp));
    *to = (KernelProgram){ .puts_rows = from->puts_rows };
    to->n_ops = (u32)put_payloads_late((const KernelOp *)(from + 1), (int)from->n_ops, (KernelOp *)(to + 1));
    program.n_ops = (int)to->n_ops, program.bytes = sizeof *to + to->n_ops * sizeof(KernelOp), program.data = to;
    if (to->n_ops > OPS_MOST) program.refused = "more operations than the CPU's loop takes";
    return program;
}

void jit_copy_program(void *to, const void *program, bool is_counted)
{
    const KernelProgram *from = program;
    const KernelOp      *ops = (const KernelOp *)(from + 1);
    KernelProgram       *made = to;
    KernelOp            *made_ops = (KernelOp *)(made + 1);
    u32                  n = 0;
    for (u32 o = 0; o < from->n_ops + from->n_ends; o++)
        if (o >= from->n_ops || !is_left_out(&ops[o], is_counted)) made_ops[n++] = ops[o];
    *made = *from;
    made->n_ops = n - from->n_ends;
}

// ---- its text -------------------------------------------------------------------------------------------------------

static char          *whole_text;
static pthread_once_t text_once = PTHREAD_ONCE_INIT;

// A line that begins with a brace would be taken for the end of the kernel.
static void add_indented(Text *text, const char *lines)
{
    for (const char *end; *lines; lines = end + 1) {
        end = strchr(lines, '\n');
        text_add(text, "    %.*s\n", (int)(end - lines), lines);
    }
}

static void make_text(void)
{
    Text text = { 0 };
    text_add(&text, "#undef BOUNDS_\n#define BOUNDS_ __launch_bounds__(%d)\n", (int)GENERIC_THREADS);
    text_add(&text, "// any kernel, from a program\nKERNEL(%s)\n{\n", GENERIC_NAME);
    add_indented(&text, kernel_generic_args_text);
    text_add(&text, "%s}\n", kernel_generic_text);
    whole_text = text.bytes;
}

const char *jit_generic_text(void)
{
    pthread_once(&text_once, make_text);
    return whole_text;
}
