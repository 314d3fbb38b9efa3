// classes.h - values of a stored column that no query of a group tells apart.
//
//     q1: s_nation = 'CHINA', by city      keys of supplier:   CHINA 0 | CHINA 1 | ... | PERU 0 | ... | of no query
//     q2: s_region = 'ASIA', by city                           atoms: the same tests, and the same payload
//                                                              classes: the same tests
//
// An atom is a set of values that pass the same tests and, where join tables bring payloads, have the same ones.  Atoms
// are made exactly, test by test: each one splits every atom that holds values that it wants and values that it does
// not.  What was split for tests that are gone stays until the atoms are made anew: finer than needed is right, only
// more.  Atoms that pass the same of the tests in use are a class; within it, payloads are numbered from 0.
//
// Equal tests are one test: a join table has an id, and queries that filter a dimension alike share it.  So making
// classes costs what the different tables cost, not what the queries do.

#ifndef WEFT_CLASSES_H
#define WEFT_CLASSES_H

#include "weave/weave.h"

#define MOST_ATOMS 16384               // on a CPU,
#define FEW_ATOMS  4096                // and on a GPU, where tables by atom are to stay near its cores

enum { CLASS_PAYLOADS = CUBE_KEYS };   // of a table, at most; all that a value has are one payload here

typedef struct ClassTest {
    i64              low, high;
    const JoinTable *table;            // NULL: the range alone
    int              n_payloads;       // the same for all tests of a column
    u8               payloads[CLASS_PAYLOADS];     // the table's own numbers of them
} ClassTest;

typedef struct Classes Classes;        // of a column

// Of the values LOW .. LOW + SIZE - 1; with KINDS, whose column is looked at instead: of the kinds 0 .. SIZE - 1.
typedef struct ClassValues { i64 low; u64 size; const Kinds *kinds; } ClassValues;

// With N_MOST atoms at most.  BEFORE, or NULL: its tests are taken over.  NULL: no memory.
Classes *classes_new(Budget *budget, const Classes *before, const ClassValues *values, int n_most);
void     classes_free(Classes *classes);                               // NULL is fine
bool     classes_cover(const Classes *classes, const ClassValues *values);     // they are of these values
int      classes_n_tests(const Classes *classes);
// Its number; -1: not to be told apart by so few atoms, a payload that is not the one of other tests, or no memory.
// Then the classes are good for nothing any more.
bool     classes_know(const Classes *classes, const ClassTest *test);  // it was added
int      classes_add(Classes *classes, const ClassTest *test);
u64      classes_bytes(const Classes *classes);                        // of memory, about
u64      classes_version(const Classes *classes);                      // as long as it is the same, so is each atom

// Classes for some of the tests.
typedef struct ClassMap {
    u16     *class_of;                 // by value - low; 0: no query wants it; NULL: not asked for
    int      n_atoms;
    u16     *class_of_atom;
    int      n_classes;                // 0 counted in
    u16     *local_of_atom;
    int     *n_payloads;               // by class
    u32    **payload_at;               // by class and place in it: code of the payload
    double  *share;                    // by class: of all values
    int    **wanted;                   // by test in use: classes
    int     *n_wanted;
    u64      bytes;                    // of class_of
} ClassMap;

// TESTS: their numbers, each once.  PAYLOAD_IN_CLASS: values of one class have one payload.  All of it is in the arena.
void       classes_map(const Classes *classes, Arena *arena, const int *tests, int n_tests, bool payload_in_class,
                       ClassMap *map);
// class_of, too, which is the budget's until classes_unmap; false: no memory.
bool       classes_map_values(const Classes *classes, ClassMap *map);
void       classes_unmap(const Classes *classes, ClassMap *map);
int        classes_n_payloads(const Classes *classes);                 // different ones
// By number of a payload: the code that the test's own table has for its part PLACE, where the test wants a value with
// it.
const u32 *classes_own_codes(const Classes *classes, int test, int place);
const u16 *classes_atoms(const Classes *classes);                      // by value - low
int        classes_n_atoms(const Classes *classes);

#endif
