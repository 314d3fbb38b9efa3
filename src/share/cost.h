// cost.h - what queries cost alone and together: one model for all devices, in nanoseconds per row of the scan.
//
//     alone           columns read + tests, each for the rows that are left by then + what is done with a match
//     over columns    columns read + a class per tested column + an addition per accumulator
//     over joins      per tested column, for the rows that any query still wants: the column, a look-up by distance;
//                     then the additions.  Once in a run: classes that the host makes, launches
//     sieved          per tested column: the column, a look-up by distance; per query and match: the row again
//     fused           columns read once + steps that all have, once + each query's others + its matches
//
// A device differs in its constants alone: share_cpu_costs and share_gpu_costs (cost.c), where each says what it rests
// on.  A constant of 0 is something that costs nothing worth counting there: columns on a CPU, where a slice is in the
// cache when the next kernel comes; tests on a GPU, which waits for memory.
//
//     const ShareFacts *facts = share_facts(arena, costs, woven, source);       // once for a query
//     alone = cost_alone(costs, facts);
//     together = cost_columns(costs, facts);

#ifndef WEFT_COST_H
#define WEFT_COST_H

#include "share/share.h"

enum { SHARE_LEVELS = 4, SHARE_COLUMNS_MOST = 32 };         // of memory; in a sieve

typedef struct ShareReach { double bytes, ns; } ShareReach; // a look-up in a table of up to so many bytes

typedef struct ShareCosts {
    // anything
    double     byte;                   // of a column, read for all rows
    double     launch;                 // of a kernel, not of a row
    // alone
    double     test, probe;            // of a range, and of a join table, while all rows are left
    double     sparse;                 // a probe costs so many times as much once rows were dropped
    double     match;                  // a row that passed all: gathered, and added up.  In a sieve as well
    // one body over columns
    double     body_row, body_load;    // beside the columns, which are read for so many times their bytes
    double     body_class, body_add;   // of a column, and of an accumulator
    // one body over joins
    double     join_row, join_step;    // step: of a look-up but the first, beside its distance
    ShareReach join_reach[SHARE_LEVELS];
    double     join_add, join_far;     // of a row that is wanted: per accumulator, and once
    double     join_cell;              // cleared, and looked at when it is added up
    double     make, make_value, make_row;     // classes by the host: once; per value looked at; per value that passes
    // a sieve
    double     sieve_row;              // from bit sets to lists
    ShareReach sieve_reach[SHARE_LEVELS];
    double     sieve_near;             // a look-up in a table that is in the memory set aside for it
    double     sieve_sector, sieve_bit;        // per column of a match, and per query
    double     sieve_value;            // of a query's test of a value; the tables are made for each run
    double     sieve_set, sieve_column;        // before there are tables: of a set, of each of its columns,
    double     sieve_member;           // and of a query in it
    bool       sieve_has_all;          // sets hold all queries that suit one: a group pays its part of them
    i128       sieve_span;             // values of a column that has a table, at most
    bool       sieve_one_width;        // only columns whose values have one width in all chunks
    // fused
    double     fuse_test, fuse_pick, fuse_filter, fuse_step, fuse_sink;        // a CPU's steps: see cost_fused
    double     fuse_own;               // at least this share of what a query costs alone is not shared
    // from which expected gain on it is done: estimates are off by as much
    double     least_columns, least_joins, least_sieve, least_fused;
} ShareCosts;

extern const ShareCosts share_cpu_costs, share_gpu_costs;

// A query's test of a stored column, in the order of its kernel.
typedef struct ShareTest {
    int    column;                     // of the table
    int    width;                      // bytes, at least 1
    double values;                     // of the column
    double pass;                       // share of rows expected to pass
    bool   has_table;                  // a join table, not only a range
    bool   is_exact;                   // classes can stand for it
    bool   is_usable;                  // a sieve can make it
} ShareTest;

typedef struct ShareColumn { int number, width; } ShareColumn;         // of the table

typedef struct ShareFacts {            // what the model knows of a query
    int          n_tests;
    ShareTest   *tests;
    int          n_columns;
    ShareColumn *columns;              // that it reads, by number
    int          n_adds;               // accumulators that a row adds to, about
    double       row_bytes;            // of all columns
    double       pass;                 // share of rows that is expected to pass the tests that a sieve can make
    double       alone;                // cost_alone
} ShareFacts;

// Within ARENA.  WOVEN and SOURCE are not looked at later.
const ShareFacts *share_facts(Arena *arena, const ShareCosts *costs, const Woven *woven, const Source *source);
double share_values(const Range *range);                               // 0: not known
double share_pass(const Sieve *sieve, const Range *range);             // share of rows expected to pass
bool   share_is_sievable(const ShareCosts *costs, const SourceColumn *column);         // a sieve can have a table of it

double share_reach(const ShareReach *levels, double bytes);

// ---- alone ----------------------------------------------------------------------------------------------------------

double cost_alone(const ShareCosts *costs, const ShareFacts *facts);

// ---- one body -------------------------------------------------------------------------------------------------------

double cost_columns(const ShareCosts *costs, const ShareFacts *member);                // any one of them
// Of a look-up of each test: what slots_order wants to know.
void   cost_join_looks(const ShareCosts *costs, const SlotMember *member, double *looks);
double cost_joins(const ShareCosts *costs, const SlotMember *members, int n_members, const int *order);
// Not of a row: of the host, for classes that are yet to be made.
double cost_making(const ShareCosts *costs, const SlotMember *members, int n_members, const Slots *before);
// What a row costs, from slots that were made, about: cells are cleared for ROWS of them.  IS_MERGED: CUBE_MERGED.
double cost_slots(const ShareCosts *costs, const Slots *slots, int n_tests, const Woven *member, bool is_merged,
                  double rows);

// ---- a sieve --------------------------------------------------------------------------------------------------------

// NEAR_BYTES: memory set aside for tables.  ROWS: of the run.
double cost_sieve(const ShareCosts *costs, const ShareFacts *const *members, int n_members, double near_bytes,
                  double rows);
// Before anything is made: what is expected of a sieve for these, among N_SIEVED that suit one, themselves counted in.
double cost_sieve_part(const ShareCosts *costs, const ShareFacts *const *members, int n_members, int n_sieved);

// ---- fused ----------------------------------------------------------------------------------------------------------

typedef struct FuseCosts { double alone, together; } FuseCosts;

// STEPS: NULL where nothing but columns is shared.
FuseCosts cost_fused(const ShareCosts *costs, const ShareFacts *const *members, const FuseSteps *const *steps,
                     int n_members);

#endif
