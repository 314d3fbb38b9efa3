// share.h - queries of one shape as one body: which rows they want, and which of their groups each row is for.
//
//     class of lo_suppkey ─> state ─ class of lo_orderdate ─> state ─ class of lo_partkey ─> slot        or none
//
// Each member tests columns by ranges, or by join tables of its own.  Values of a column that no member tells apart are
// a class (classes.h); the classes of a row lead from state to state, and the last state is a slot, or the row is
// dropped.  Only combinations that some member wants have a slot.  A cell is a slot and a group within it.
//
//     const CubeForm *form = slots_form(arena, woven, source);            // which queries fit together (weave.h)
//     slots_order(members, n, costs, false, order);
//     Slots *slots = slots_make(&(SlotsWish){ ... });                     // NULL: too many, or no memory
//     Woven *woven = weave_join_cube(arena, ..., order, ...);
//     slots_fill_in(slots, woven);                                        // the kernel's tables and parameters
//     const SlotPairs pairs = slots_pairs(slots, m);                      // afterwards: cells of member M
//     slots_free(slots);
//
// All of it is arithmetic on the host; a device brings the costs, runs the kernel and adds up the cells.

#ifndef WEFT_SHARE_H
#define WEFT_SHARE_H

#include "weave/weave.h"

typedef struct Slots Slots;

// A query.  Its join tables must be in the host's memory while slots are made; nothing of it is looked at later.
typedef struct SlotMember {
    const Woven    *woven;
    const Source   *source;
    const CubeForm *form;              // with tables that can be read here: those of its tests
} SlotMember;

typedef struct SlotsWish {
    Arena            *arena;           // for small things; it outlives the slots
    Budget           *budget;          // for tables by value
    Slots            *before;          // of queries of this form, or NULL: its classes are split further
    bool              takes;           // BEFORE is only to be freed after this: its classes and its memory are taken
    bool              by_atom;         // the kernel looks up a value's atom, and then the atom's class
    const SlotMember *members;
    int               n_members;
    const int        *order;           // of the form's tests
    const Kinds *const *kinds;         // by test: the kernel looks at a column of kinds; NULL: at the values.  Or NULL
    u64               cell_bytes;      // of all cells, at most
} SlotsWish;

typedef struct SlotPairs { u64 n; const u32 *cells, *groups; } SlotPairs;      // a cell, and the group that it is for

typedef struct SlotFigures {
    u64    n_classes;                  // of all columns
    u64    n_slots, n_cells, n_pairs;
    double left[CUBE_TESTS];           // by place in the order: share of the rows expected to be left behind it
} SlotFigures;

// Within ARENA: what tells which queries fit together; NULL: the query is for no such body.  Its tables may be
// anywhere.
const CubeForm *slots_form(Arena *arena, const Woven *woven, const Source *source);
bool            slots_can_read(const CubeForm *form);       // the host has the tables of all tests
// Share of the values of a test's column that are expected to pass, as far as is known without looking; how many values
// there are.
double          slots_pass(const SlotMember *member, int test);
double          slots_values(const SlotMember *member, int test);
// The kinds that all members' tables of a test were made by; NULL: some was not.
const Kinds    *slots_kinds(const SlotMember *members, int n_members, int test);
// Those first that drop many rows for what they cost.  COSTS: by test, of a look-up.  Coarse: tests that are nearly
// alike are in the order of the form, so that few orders come up, each of which is a kernel.
void            slots_order(const SlotMember *members, int n_members, const double *costs, bool is_coarse, int *order);

Slots      *slots_make(const SlotsWish *wish);
void        slots_free(Slots *slots);                       // NULL is fine
// Tables are the slots' own, parameters become values: WOVEN is weave_join_cube's for the same form and order.
void        slots_fill_in(const Slots *slots, Woven *woven);
bool        slots_knows(const Slots *slots, const CubeForm *form, int test);   // it was made for these slots, or before
u64         slots_version(const Slots *slots, int place);   // of the atoms there: the same as long as they are
SlotPairs   slots_pairs(const Slots *slots, int member);
SlotPairs   slots_all_pairs(const Slots *slots);            // of all members, one behind the other
SlotFigures slots_figures(const Slots *slots);
u64         slots_class_bytes(const Slots *slots, int place);          // of the table by value
u64         slots_bytes(const Slots *slots);                // of their budget: all such tables, states and pairs

#endif
