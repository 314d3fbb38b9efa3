// cube.h - queries of one shape that differ in their constants, as one: the dashboard with forty tiles.
//
//     q1: discount 1..3, quantity < 25      values of discount nobody tells apart:  0 | 1 | 2 3 | 4 | 5..10     classes
//     q2: discount 2..4, quantity < 30      values of quantity:                     1..24 | 25..29 | 30..50
//
// Values of a column that no member tells from each other are a class (Crescando indexes predicates for the same end).
// One kernel
// (weave_cube) does the members' work for every combination of classes, a cell; after each chunk every member adds up
// the cells it
// wants.  So a row costs the same for two members and for two hundred, and one more member costs what its classes and
// cells cost.
//
// Only where the classes make few enough cells to stay in the cache.  Members keep their own state: a cube is a way to
// fill it.

#ifndef WEFT_CUBE_H
#define WEFT_CUBE_H

#include "engine/sieve.h"

#define CUBE_MEMBERS 256               // of one that is not over joins, at most

typedef struct Cube Cube;              // immutable once made; counted, since open chunks use it
typedef struct CubeRun CubeRun;        // a chunk on its way through one

bool  cube_suits(const Launch *launch);
bool  cube_fits(const SieveMember *a, const SieveMember *b);           // both can be in one cube
// BEFORE, or NULL: the one of the chunk before; its classes are taken over and split further.  NULL: too many cells, or
// no memory.
Cube *cube_make(Budget *budget, const Cube *before, const SieveMember *members, int n_members);
Cube *cube_hold(Cube *cube);
void  cube_release(Cube *cube);                                        // NULL is fine
// Made for these, and for few others that are gone.  NUMBERS: their places among those that it was made for.
bool  cube_is_for(const Cube *cube, const SieveMember *members, int n_members, int *numbers);
bool  cube_is_like(const Cube *cube, const SieveMember *member);       // made for queries of its shape, not over joins
BodyFigures cube_figures(const Cube *cube);
// Whether the kernel is compiled.  If not, it is wanted for ROWS_LEFT rows: when that is worth it, it will be; nobody
// waits for it.
bool  cube_is_ready(const Cube *cube, u64 rows_left);

CubeRun *cube_open(Cube *cube, const Chunk *chunk);  // NULL: no memory, or the chunk is damaged; then without a cube
void     cube_push(CubeRun *run, int slot, u32 first, u32 end);        // while some member's gate is entered
// After the last push, from one thread: to each of N members whose gate is open its cells.  NUMBERS[m]: its place, as
// cube_is_for says; CHUNKS[m]: the chunk's number in its source.
void     cube_fold(CubeRun *run, const int *numbers, const int *chunks, int n, Gate *gates, int slot);
void     cube_close(CubeRun *run);

#endif
