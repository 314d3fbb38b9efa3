// join_cube.h - cubes over joins: queries of one shape that differ in constants anywhere, on joined tables too.
//
// Each member looks up keys in join tables of its own, built by its own filters.  Keys of a column that no member tells
// apart are a class (classes.h); the classes of a row lead from state to state, and the last state is a slot, or the
// row is dropped.  Only combinations that some member wants have a slot.  A cell is a slot and a group within it.
//
// Members keep their own state, as in any cube; the rest of the interface is cube.h.

#ifndef WEFT_JOIN_CUBE_H
#define WEFT_JOIN_CUBE_H

#include "engine/cube.h"

// Within ARENA: what tells which queries fit together; NULL: the launch is for no such cube.
const CubeForm *join_cube_form(Arena *arena, const Launch *launch);
bool            join_cube_fits(const SieveMember *a, const SieveMember *b);
// As cube_make.
Cube           *join_cube_make(Budget *budget, const Cube *before, const SieveMember *members, int n_members);
bool            join_cube_is_like(const Cube *cube, const SieveMember *member);        // made for queries of its shape

#endif
