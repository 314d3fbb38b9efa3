// generic_int.h - shared by the two files that make a program of a kernel's IR: generic_tree.c reads fragments,
// generic.c writes operations.

#ifndef WEFT_JIT_GENERIC_INT_H
#define WEFT_JIT_GENERIC_INT_H

#include "jit/generic.h"
#include "weave/ir.h"

// C types of fragments.  A value of any of them is held in 64 bits: numbers as they are, doubles as their bits.
typedef enum GenType { GEN_U8, GEN_U16, GEN_U32, GEN_I32, GEN_I64, GEN_U64, GEN_F64 } GenType;

typedef enum TreeKind {
    TREE_LEAF,                         // operand, as an operation has it
    TREE_BINARY,                       // op: DO_... of a and b
    TREE_CAST,                         // a, as TYPE
    TREE_NOT,                          // 1 where a is 0
    TREE_UNARY,                        // op: DO_... of a
    TREE_SELECT,                       // a ? b : c
    TREE_AND, TREE_OR,                 // b matters only where a does not decide
    TREE_TABLE                         // element a of table NUMBER; op: ELEMENT_...
} TreeKind;

typedef struct CodeTree {
    TreeKind           kind;
    GenType            type;
    int                op, number;
    u8                 from;           // leaf: FROM_...
    u16                at;
    i32                x;
    const struct CodeTree *a, *b, *c;
} CodeTree;

typedef struct Local { const char *name; size_t length; GenType type; const CodeTree *tree; int reg; } Local;

enum { LOCALS_MOST = 64 };

typedef struct Generic {
    Arena       *arena;
    const Woven *woven;
    const Ir    *ir;
    const char  *at;                   // what is to be read next
    const char  *refused;              // why there is no program; NULL: there may be one
    int          n_locals;             // names of the step at hand
    Local        locals[LOCALS_MOST];
    int         *carried;              // by declaration: its register + 1; 0: none
    u32          taken;                // registers, a bit each
    u16          guard;                // register, of the rows that statements are for; NO_REGISTER: all
    int          held;                 // register that holds the value at hand; -1: none does
    int          n_ops, n_ends;
    KernelOp     ops[OPS_MOST], ends[TOTALS_MOST + NOTES_MOST];
} Generic;

// ---- generic_tree.c: all of them look no further once g->refused is set, and give what does no harm.
void        generic_refuse(Generic *g, const char *format, ...) PRINTF_LIKE(2, 3);
const CodeTree *tree_read(Generic *g);                         // an expression
bool        tree_takes(Generic *g, const char *token);     // the token is next, and is behind us
void        tree_needs(Generic *g, const char *token);
bool        tree_word(Generic *g, const char **name, size_t *length);          // a name is next: it is behind us
int         tree_ref(Generic *g, char *kind);              // the number of a reference; -1: none is next
i64         tree_number(Generic *g);                       // one that must be next
bool        tree_type(Generic *g, GenType *type);          // the name of a type is next: it is behind us
const Decl *tree_decl(Generic *g, DeclKind kind);          // a reference to one of this kind must be next
const CodeTree *tree_leaf(Generic *g, u8 from, int at, i32 x, GenType type);
const CodeTree *tree_param(Generic *g, const Decl *decl);
const CodeTree *tree_cast(Generic *g, const CodeTree *tree, GenType type);
const CodeTree *tree_unary(Generic *g, TreeKind kind, int op, GenType type, const CodeTree *a);
bool        tree_is_flag(const CodeTree *tree);                // 0 or 1
Local      *generic_local(Generic *g, const char *name, size_t length);        // NULL: there is no such name
int         generic_bits(GenType type);
GenType     generic_type(Generic *g, const char *name);    // of a declaration

#endif
