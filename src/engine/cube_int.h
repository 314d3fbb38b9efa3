// cube_int.h - a cube as the files that make cubes see it.

#ifndef WEFT_CUBE_INT_H
#define WEFT_CUBE_INT_H

#include "engine/cube.h"
#include "engine/kinds.h"

#define MAX_DIMS    8
#define MAX_CLASSES 1024
#define CLASS_WORDS (MAX_CLASSES / 64)

typedef struct JoinCube JoinCube;

typedef struct CubeKind {              // of cubes over joins: what is done otherwise
    void (*fold)(const Cube *cube, int member, Fold *fold);    // fills in the cells, and their groups
    void (*free)(JoinCube *joins);
} CubeKind;

typedef struct Dim {
    int  number;                       // column of the table
    int  column;                       // of the kernel
    i64  low;                          // value of the first entry
    u64  size;                         // entries
    int  n_classes;
    u16 *class_of;
} Dim;

typedef struct Wants { u64 classes[MAX_DIMS][CLASS_WORDS]; } Wants;            // of one member, a bit per class

struct Cube {
    _Atomic int n_users;
    Arena      *arena;
    Budget     *budget;
    Device     *device;
    int         n_members;
    SieveMember *members;
    Woven      *woven;
    Code       *code;
    Jit        *jit;
    double      saves_ns;              // expected, per row
    int        *chunk_column;          // source column -> column of the table, as the members have it
    int         n_columns, n_slots;
    int        *own_column;            // the same, of a run's own chunk
    int         n_kinds;               // columns of kinds, behind those of the members
    struct CubeKinds { const Kinds *kinds; int number; } kinds[CUBE_TESTS];        // held; of this column of the table
    BodyFigures figures;
    JoinCube   *joins;                 // what is made for classes over joins (join_cube.c); NULL: of stored columns
    const CubeKind *kind;              // with joins
    Wants      *wants;                 // of stored columns: by member
    int         n_split;               // members that split the classes, those gone counted in
    int         n_dims;
    Dim         dims[MAX_DIMS];
    u64         n_cells;
};

struct CubeRun {
    Cube        *cube;
    const Chunk *chunks[1];
    Chunk        own;                  // with columns of kinds: the chunk, and these behind its columns
    KindColumn  *kinds[CUBE_TESTS];
    Source       source;
    Launch       launch;
    _Atomic u32  stop;
};

// With all that does not depend on classes; the kernel and its tables are to be made.
Cube *cube_new(Budget *budget, const SieveMember *members, int n_members);
double cube_alone_ns(const SieveMember *members, int n_members);       // expected per row, of each by itself
// The kernel's code, in the background.  BEFORE, or NULL: a cube whose code it is if the text is the same.
void  cube_compile(Cube *cube, const Cube *before);

#endif
