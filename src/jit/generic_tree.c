// generic_tree.c - fragments (ir.h) read back: what value.c, steps.c, probe.c and sink.c wrote as C becomes trees.
//
// Fragments are C of a few types and words, so a small parser reads them by C's own rules: precedence, promotion,
// the common type of two operands.  A word that it does not know ends the program before it begins: the kernel is
// then compiled, as all are without this.

#include "jit/generic_int.h"

#include <ctype.h>
#include <stdlib.h>

void generic_refuse(Generic *g, const char *format, ...)
{
    va_list args;
    if (g->refused) return;
    Text why = { 0 };
    va_start(args, format);
    text_add_args(&why, format, args);
    va_end(args);
    g->refused = text_keep(g->arena, &why);
    g->at = "";                        // nothing more is read
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void skip_blanks(Generic *g)
{
    while (isspace((unsigned char)*g->at)) g->at++;
}

// A token that begins a longer one is not it: "<" of "<=", "&" of "&&".
static bool goes_on(const char *token, char next)
{
    const char last = token[strlen(token) - 1];
    if (is_letter(last)) return is_letter(next);
    if (token[1]) return false;
    return next == '=' ? strchr("<>=!", last) != NULL : next == last && strchr("<>&|", last);
}

bool tree_takes(Generic *g, const char *token)
{
    const size_t length = strlen(token);
    skip_blanks(g);
    if (strncmp(g->at, token, length) != 0 || goes_on(token, g->at[length])) return false;
    g->at += length;
    return true;
}

void tree_needs(Generic *g, const char *token)
{
    if (!tree_takes(g, token)) generic_refuse(g, "\"%s\" is missing before \"%.20s\"", token, g->at);
}

bool tree_word(Generic *g, const char **name, size_t *length)
{
    skip_blanks(g);
    *name = g->at, *length = 0;
    if (!isalpha((unsigned char)*g->at) && *g->at != '_') return false;
    while (is_letter(g->at[*length])) ++*length;
    g->at += *length;
    return true;
}

int tree_ref(Generic *g, char *kind)
{
    char *end;
    skip_blanks(g);
    if (*g->at != REF_OPEN) return -1;
    *kind = g->at[1];
    const int number = (int)strtol(g->at + 2, &end, 10);
    g->at = end + 1;
    return number;
}

i64 tree_number(Generic *g)
{
    const char *from = g->at;
    char       *end;
    skip_blanks(g);
    const bool is_negative = tree_takes(g, "-");
    skip_blanks(g);
    if (!isdigit((unsigned char)*g->at)) {
        generic_refuse(g, "a number is missing before \"%.20s\"", from);
        return 0;
    }
    const u64 number = strtoull(g->at, &end, 0);
    g->at = end;
    while (*g->at == 'u' || *g->at == 'l') g->at++;
    return (i64)(is_negative ? 0 - number : number);
}

static const char *const type_names[] = {
    [GEN_U8] = "u8", [GEN_U16] = "u16", [GEN_U32] = "u32", [GEN_I32] = "i32", [GEN_I64] = "i64", [GEN_U64] = "u64",
    [GEN_F64] = "f64"
};

bool tree_type(Generic *g, GenType *type)
{
    for (int t = 0; t < COUNT_OF(type_names); t++) {
        *type = (GenType)t;
        if (tree_takes(g, type_names[t])) return true;
    }
    return false;
}

GenType generic_type(Generic *g, const char *name)
{
    for (int t = 0; t < COUNT_OF(type_names); t++)
        if (strcmp(name, type_names[t]) == 0) return (GenType)t;
    generic_refuse(g, "the type %s", name);
    return GEN_I64;
}

int generic_bits(GenType type)
{
    static const int bits[] = { [GEN_U8] = 8,   [GEN_U16] = 16, [GEN_U32] = 32, [GEN_I32] = 32,
                                [GEN_I64] = 64, [GEN_U64] = 64, [GEN_F64] = 64 };
    return bits[type];
}

const Decl *tree_decl(Generic *g, DeclKind kind)
{
    static const Decl nothing = { .type = "i64" };
    char              letter = 0;
    const int         number = tree_ref(g, &letter);
    if (letter == 'd' && number >= 0 && number < g->ir->n_decls && g->ir->decls[number].kind == kind)
        return &g->ir->decls[number];
    generic_refuse(g, "something else than a declaration of kind %d before \"%.20s\"", (int)kind, g->at);
    return &nothing;
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static const CodeTree *new_tree(Generic *g, CodeTree tree)
{
    CodeTree *made = arena_make(g->arena, CodeTree);
    *made = tree;
    return made;
}

const CodeTree *tree_leaf(Generic *g, u8 from, int at, i32 x, GenType type)
{
    if (at < 0 || at >= NO_REGISTER) generic_refuse(g, "more of something than a program can number");
    return new_tree(g, (CodeTree){ .kind = TREE_LEAF, .type = type, .from = from, .at = (u16)at, .x = x });
}

// Arguments of kernels are words; PARAM casts them.
const CodeTree *tree_param(Generic *g, const Decl *decl)
{
    const GenType type = decl->kind == DECL_PARAM_F64 ? GEN_F64 : generic_type(g, decl->type);
    const bool    is_word = generic_bits(type) == 64;
    const CodeTree   *word = tree_leaf(g, FROM_PARAM, decl->number, 0, is_word ? type : GEN_I64);
    return is_word ? word : tree_cast(g, word, type);
}

static const CodeTree *stored(Generic *g, const Decl *decl, bool with_base)
{
    const bool is_f32 = strcmp(decl->type, "f32") == 0;
    if (is_f32) return tree_leaf(g, FROM_F32, decl->number, 0, GEN_F64);
    return tree_leaf(g, with_base ? FROM_VALUE : FROM_STORED, decl->number, 0,
                     with_base ? GEN_I64 : generic_type(g, decl->type));
}

static int element_of(Generic *g, const Decl *table)
{
    const int bits = generic_bits(generic_type(g, table->type));
    if (strcmp(table->type, "i32") == 0) return ELEMENT_I32;
    return bits == 8 ? ELEMENT_U8 : bits == 16 ? ELEMENT_U16 : bits == 32 ? ELEMENT_U32 : ELEMENT_U64;
}

static const CodeTree *element(Generic *g, const Decl *table, int how, GenType type, const CodeTree *at)
{
    return new_tree(g, (CodeTree){ .kind = TREE_TABLE, .type = type, .op = how, .number = table->number, .a = at });
}

// What a reference to a declaration stands for: name[i] of columns and carried values, table[place].
static const CodeTree *read_ref(Generic *g)
{
    char        letter = 0;
    const int   number = tree_ref(g, &letter);
    const Decl *decl = &g->ir->decls[number];
    if (letter != 'd') {
        generic_refuse(g, "a cell as a value");
        return tree_leaf(g, FROM_NUMBER, 0, 0, GEN_I64);
    }
    if (decl->kind == DECL_PARAM || decl->kind == DECL_PARAM_F64) return tree_param(g, decl);
    tree_needs(g, "[");
    if (decl->kind == DECL_TABLE) {
        const CodeTree *at = tree_read(g);
        tree_needs(g, "]");
        return element(g, decl, element_of(g, decl), generic_type(g, decl->type), at);
    }
    tree_needs(g, "i");
    tree_needs(g, "]");
    if (decl->kind == DECL_COLUMN) return stored(g, decl, false);
    if (decl->kind == DECL_COLUMN_ANY) return tree_leaf(g, FROM_VALUE, decl->number, 0, GEN_I64);
    if (decl->kind == DECL_CARRY && g->carried[number])
        return tree_leaf(g, FROM_REGISTER, g->carried[number] - 1, 0, generic_type(g, decl->type));
    generic_refuse(g, "%s as a value", decl->name);
    return tree_leaf(g, FROM_NUMBER, 0, 0, GEN_I64);
}

Local *generic_local(Generic *g, const char *name, size_t length)
{
    for (int l = g->n_locals - 1; l >= 0; l--)
        if (g->locals[l].length == length && memcmp(g->locals[l].name, name, length) == 0) return &g->locals[l];
    return NULL;
}

// ---- operators ------------------------------------------------------------------------------------------------------

bool tree_is_flag(const CodeTree *tree)
{
    switch (tree->kind) {
        case TREE_NOT: case TREE_AND: case TREE_OR: return true;
        case TREE_CAST: return tree_is_flag(tree->a);
        case TREE_BINARY: return (tree->op >= DO_EQ && tree->op <= DO_GE_U64) ||
                                 (tree->op >= DO_EQ_F64 && tree->op <= DO_MORE_F64) ||
                                 ((tree->op == DO_AND || tree->op == DO_OR) && tree_is_flag(tree->a) &&
                                  tree_is_flag(tree->b));
        case TREE_TABLE: return tree->op == ELEMENT_BIT;
        case TREE_LEAF: return tree->from == FROM_NULL || (tree->from == FROM_NUMBER && (tree->x & ~1) == 0);
        case TREE_UNARY: return tree->op == DO_FINITE;
        default: return false;
    }
}

const CodeTree *tree_unary(Generic *g, TreeKind kind, int op, GenType type, const CodeTree *a)
{
    return new_tree(g, (CodeTree){ .kind = kind, .op = op, .type = type, .a = a });
}

static const CodeTree *binary(Generic *g, int op, GenType type, const CodeTree *a, const CodeTree *b)
{
    return new_tree(g, (CodeTree){ .kind = TREE_BINARY, .op = op, .type = type, .a = a, .b = b });
}

const CodeTree *tree_cast(Generic *g, const CodeTree *tree, GenType type)
{
    const bool from_float = tree->type == GEN_F64, to_float = type == GEN_F64;
    if (tree->type == type) return tree;
    if (from_float || (to_float && tree->type == GEN_U64)) generic_refuse(g, "a cast between floats and words");
    return tree_unary(g, TREE_CAST, 0, type, tree);
}

static GenType promoted(GenType type) { return type < GEN_U32 ? GEN_I32 : type; }

static GenType common_type(GenType a, GenType b)
{
    a = promoted(a), b = promoted(b);
    if (a == GEN_F64 || b == GEN_F64) return GEN_F64;
    if (a == GEN_U64 || b == GEN_U64) return GEN_U64;
    if (a == GEN_I64 || b == GEN_I64) return GEN_I64;
    return a == GEN_U32 || b == GEN_U32 ? GEN_U32 : GEN_I32;
}

typedef struct Operator { const char *token; int level; int op, op_u64, op_f64; } Operator;

enum { NONE = -1, LEVEL_MOST = 8 };

static const Operator operators[] = {                      // longer tokens first
    { "==", 4, DO_EQ, DO_EQ, DO_EQ_F64 },          { "!=", 4, DO_NE, DO_NE, DO_NE_F64 },
    { "<=", 5, DO_LE, DO_LE_U64, DO_LE_F64 },      { ">=", 5, DO_GE, DO_GE_U64, DO_GE_F64 },
    { "<<", 6, DO_SHL, DO_SHL, NONE },             { ">>", 6, NONE, DO_SHR, NONE },
    { "<", 5, DO_LT, DO_LT_U64, DO_LT_F64 },       { ">", 5, DO_GT, DO_GT_U64, DO_GT_F64 },
    { "|", 1, DO_OR, DO_OR, NONE },                { "&", 3, DO_AND, DO_AND, NONE },
    { "+", 7, DO_ADD, DO_ADD, DO_ADD_F64 },        { "-", 7, DO_SUB, DO_SUB, DO_SUB_F64 },
    { "*", 8, DO_MUL, DO_MUL, DO_MUL_F64 },        { "/", 8, NONE, NONE, DO_DIV_F64 },
};

// As C converts an operand to the common type: what is held in 64 bits changes only for negative numbers.
static const CodeTree *converted(Generic *g, const CodeTree *tree, GenType type)
{
    if (type == GEN_F64) return tree_cast(g, tree, type);
    return type == GEN_U32 && tree->type == GEN_I32 && !tree_is_flag(tree) ? tree_cast(g, tree, type) : tree;
}

// Sums and products of 32 bits without a sign wrap there; others are the same in 64 bits.
static const CodeTree *apply(Generic *g, const Operator *how, const CodeTree *a, const CodeTree *b)
{
    const bool    is_shift = how->level == 6;
    const GenType type = is_shift ? promoted(a->type) : common_type(a->type, b->type);
    const int     op = type == GEN_F64 ? how->op_f64 : type == GEN_U64 ? how->op_u64 : how->op;
    if (op == NONE || (is_shift && type != GEN_U64)) generic_refuse(g, "%s of these types", how->token);
    if (!is_shift) a = converted(g, a, type), b = converted(g, b, type);
    if (how->level == 4 || how->level == 5) return binary(g, op, GEN_I32, a, b);
    if (type == GEN_U32 && how->level > 6) return tree_cast(g, binary(g, op, GEN_U64, a, b), GEN_U32);
    return binary(g, op, type, a, b);
}

// ---- words ----------------------------------------------------------------------------------------------------------

static const CodeTree *compare(Generic *g, int op, const CodeTree *a, const CodeTree *b)
{
    return binary(g, op, GEN_I32, a, b);
}

static const CodeTree *two_arguments(Generic *g, const CodeTree **second)
{
    const CodeTree *first = tree_read(g);
    tree_needs(g, ",");
    *second = tree_read(g);
    return first;
}

// BETWEEN(type, stored, low, span): in the stored type, which wraps.
static const CodeTree *read_between(Generic *g)
{
    GenType type = GEN_U64;
    if (!tree_type(g, &type)) generic_refuse(g, "a range of another type");
    tree_needs(g, ",");
    const CodeTree *low, *value = two_arguments(g, &low);
    tree_needs(g, ",");
    const CodeTree *span = tree_read(g), *distance = binary(g, DO_SUB, GEN_U64, value, low);
    return compare(g, DO_LE_U64, tree_cast(g, distance, type), span);
}

static const CodeTree *read_table_word(Generic *g, bool is_bit)
{
    const Decl *table = tree_decl(g, DECL_TABLE);
    tree_needs(g, ",");
    const CodeTree *at = tree_read(g);
    return is_bit ? element(g, table, ELEMENT_BIT, GEN_I32, at)
                  : element(g, table, element_of(g, table), generic_type(g, table->type), at);
}

static bool is_word(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(name, word, length) == 0;
}

static const CodeTree *read_word(Generic *g, const char *name, size_t length)
{
    const CodeTree *a, *b, *out = NULL;
    if (is_word(name, length, "VALUE")) out = stored(g, tree_decl(g, DECL_COLUMN), true);
    else if (is_word(name, length, "IS_NULL")) {
        char      letter = 0;
        const int decl = tree_ref(g, &letter);
        if (decl >= 0) out = tree_leaf(g, FROM_NULL, g->ir->decls[decl].number, 0, GEN_I32);
    } else if (is_word(name, length, "BETWEEN")) out = read_between(g);
    else if (is_word(name, length, "BIT")) out = read_table_word(g, true);
    else if (is_word(name, length, "FLAG")) out = read_table_word(g, false);
    else if (is_word(name, length, "INSIDE")) a = two_arguments(g, &b), out = compare(g, DO_LT_U64, a, b);
    else if (is_word(name, length, "SAME_F64")) a = two_arguments(g, &b), out = compare(g, DO_SAME_F64, a, b);
    else if (is_word(name, length, "LESS_F64")) a = two_arguments(g, &b), out = compare(g, DO_LESS_F64, a, b);
    else if (is_word(name, length, "WIDE_HIGH")) {         // -1 of a negative number
        const CodeTree *zero = tree_leaf(g, FROM_NUMBER, 0, 0, GEN_I64);
        out = binary(g, DO_SUB, GEN_I64, zero, compare(g, DO_LT, tree_cast(g, tree_read(g), GEN_I64), zero));
    } else if (is_word(name, length, "FINITE")) out = tree_unary(g, TREE_UNARY, DO_FINITE, GEN_I32, tree_read(g));
    if (out) {
        tree_needs(g, ")");
        return out;
    }
    generic_refuse(g, "the word %.*s", (int)length, name);
    return tree_leaf(g, FROM_NUMBER, 0, 0, GEN_I64);
}

// ---- expressions ----------------------------------------------------------------------------------------------------

static const CodeTree *read_unary(Generic *g);

static const CodeTree *read_name(Generic *g, const char *name, size_t length)
{
    if (tree_takes(g, "(")) return read_word(g, name, length);
    const Local *local = generic_local(g, name, length);
    if (local && local->tree) return local->tree;
    if (local) return tree_leaf(g, FROM_REGISTER, local->reg, 0, local->type);
    generic_refuse(g, "the name %.*s", (int)length, name);
    return tree_leaf(g, FROM_NUMBER, 0, 0, GEN_I64);
}

// An operation has room for 32 bits.
static const CodeTree *constant(Generic *g, i64 number, GenType type)
{
    const i32   low = (i32)(u32)(u64)number;
    const CodeTree *small = tree_leaf(g, FROM_NUMBER, 0, low, type);
    if (low == number) return small;
    const i32   high = (i32)(u32)(((u64)number - (u64)(i64)low) >> 32);
    const CodeTree *upper = binary(g, DO_SHL, type, tree_leaf(g, FROM_NUMBER, 0, high, type),
                               tree_leaf(g, FROM_NUMBER, 0, 32, GEN_I32));
    return binary(g, DO_ADD, type, upper, small);
}

// 0.0 and the like, too.
static const CodeTree *read_constant(Generic *g)
{
    char        *end;
    const double number = strtod(g->at, &end);
    const bool   is_float = memchr(g->at, '.', (size_t)(end - g->at)) != NULL;
    if (!is_float) {
        const i64 whole = tree_number(g);
        return constant(g, whole, g->at[-1] == 'l' || whole != (i32)whole ? GEN_I64 : GEN_I32);
    }
    g->at = end;
    if (number > 1e9 || number != (double)(i32)number) generic_refuse(g, "a floating-point constant");
    return tree_cast(g, tree_leaf(g, FROM_NUMBER, 0, number > 1e9 ? 0 : (i32)number, GEN_I32), GEN_F64);
}

// "(" is behind us: a cast, or an expression.
static const CodeTree *read_paren(Generic *g)
{
    const char *from = g->at;
    GenType     type = GEN_I64;
    if (tree_takes(g, "f32") && tree_takes(g, ")")) {      // rounded; (f64) comes before it
        const CodeTree *of = read_unary(g);
        return tree_unary(g, TREE_UNARY, DO_TO_F32, GEN_F64, tree_cast(g, of, GEN_F64));
    }
    g->at = from;
    if (tree_type(g, &type) && tree_takes(g, ")")) return tree_cast(g, read_unary(g), type);
    g->at = from;
    const CodeTree *inner = tree_read(g);
    tree_needs(g, ")");
    return inner;
}

static const CodeTree *negated(Generic *g, const CodeTree *a)
{
    const GenType type = promoted(a->type);
    if (type == GEN_U32) generic_refuse(g, "- of a number without a sign");
    if (type == GEN_F64) {             // -0.0, too
        const CodeTree *minus = tree_cast(g, tree_leaf(g, FROM_NUMBER, 0, -1, GEN_I32), GEN_F64);
        return binary(g, DO_MUL_F64, GEN_F64, a, minus);
    }
    return binary(g, DO_SUB, type, tree_leaf(g, FROM_NUMBER, 0, 0, type), a);
}

static const CodeTree *read_unary(Generic *g)
{
    const char *name;
    size_t      length;
    skip_blanks(g);
    if (*g->at == REF_OPEN) return read_ref(g);
    if (isdigit((unsigned char)*g->at)) return read_constant(g);
    if (tree_takes(g, "(")) return read_paren(g);
    if (tree_takes(g, "!")) return tree_unary(g, TREE_NOT, 0, GEN_I32, read_unary(g));
    if (tree_takes(g, "-")) return negated(g, read_unary(g));
    if (tree_word(g, &name, &length)) return read_name(g, name, length);
    generic_refuse(g, "an expression is missing before \"%.20s\"", g->at);
    return tree_leaf(g, FROM_NUMBER, 0, 0, GEN_I64);
}

static const Operator *next_operator(Generic *g, int level)
{
    for (int o = 0; o < COUNT_OF(operators); o++)
        if (operators[o].level >= level && tree_takes(g, operators[o].token)) return &operators[o];
    return NULL;
}

// Operators of LEVEL or more; all bind to the left.
static const CodeTree *read_operators(Generic *g, int level)
{
    const CodeTree *left = read_unary(g);
    for (const Operator *how; !g->refused && (how = next_operator(g, level));)
        left = apply(g, how, left, read_operators(g, how->level + 1));
    return left;
}

static const CodeTree *read_both(Generic *g, const char *token, TreeKind kind)
{
    const CodeTree *left = kind == TREE_OR ? read_both(g, "&&", TREE_AND) : read_operators(g, 1);
    while (!g->refused && tree_takes(g, token)) {
        const CodeTree *right = kind == TREE_OR ? read_both(g, "&&", TREE_AND) : read_operators(g, 1);
        left = new_tree(g, (CodeTree){ .kind = kind, .type = GEN_I32, .a = left, .b = right });
    }
    return left;
}

const CodeTree *tree_read(Generic *g)
{
    const CodeTree *condition = read_both(g, "||", TREE_OR);
    if (!tree_takes(g, "?")) return condition;
    const CodeTree *yes = tree_read(g);
    tree_needs(g, ":");
    const CodeTree   *no = tree_read(g);
    const GenType type = common_type(yes->type, no->type);
    return new_tree(g, (CodeTree){ .kind = TREE_SELECT,
                               .type = type,
                               .a = condition,
                               .b = converted(g, yes, type),
                               .c = converted(g, no, type) });
}
