// kinds.h - kinds of a dimension's rows: rows with the same values in all columns that queries look at.
//
//     customer   c_city, c_nation, c_region        250 kinds of 30,000 rows
//     lineorder  lo_custkey                        a column of kinds beside it, made once for each chunk
//
// Queries of a crowd filter a dimension by a few columns, each with constants of its own.  Rows that have the same
// values in these columns pass the same filters and bring the same payload.  So a filter is computed for each kind, not
// for each row, and bodies over joins look at the kind of a row's key, a small number from a column that is read in
// order, not at the key in a table that is as large as the dimension (join_cube.c).
//
// Kinds belong to a snapshot of a table and to its key.  A query that looks at further columns gets finer kinds, which
// take the place of those before; where these would be too many, there are several families of kinds for a table.

#ifndef WEFT_KINDS_H
#define WEFT_KINDS_H

#include "device/device.h"

typedef struct KindsBook KindsBook;                // all kinds of a database

KindsBook *kinds_book_new(Budget *budget);
void       kinds_book_free(KindsBook *book);       // what is held elsewhere stays until it is released
// Gives back the kinds of tables that have changed; all of them: of all tables.  Those that are held stay for their
// holders.
void       kinds_trim(KindsBook *book, Store *store, bool is_all);
int        kinds_count(KindsBook *book);

// The kinds of TABLE's rows by the columns at PLACES, and perhaps by others; KEY is the place of its key.  Held for the
// caller.  NULL: there are none: too many, a key that is not unique or that is NULL somewhere, columns that are not
// suited, no memory, a damaged file; or *STOP was set while they were made, and a later call may have them.
const Kinds *kinds_get(KindsBook *book, Store *store, const Table *table, int key, const int *places, int n_places,
                       const _Atomic u32 *stop);
const Kinds *kinds_hold(const Kinds *kinds);
void         kinds_release(const Kinds *kinds);                        // NULL is fine
void         kinds_release_deferred(void *kinds);                      // for arena_defer

// The kinds as rows, for a pipeline over their table: its columns by their values, and its key by the kind's number.
Source *kinds_source(const Kinds *kinds, Arena *arena, const Pipeline *pipeline, const ColumnSet *needed);
i64     kinds_low_key(const Kinds *kinds, u64 kind);                   // of the rows of this kind
i64     kinds_high_key(const Kinds *kinds, u64 kind);

// By kind, from 1 on: a column that tells kinds apart.  VALID: a bit for each that is not NULL; NULL: all are not.
typedef struct KindCells { const i64 *values; const u64 *valid; const Column *column; } KindCells;
// False: the kinds do not know the column at PLACE.
bool kinds_cells(const Kinds *kinds, int place, KindCells *cells);

// Sets of kinds that pass a test, a bit each, as they were kept by the bytes of the test.  SET has room for all kinds.
// Any thread.
bool kinds_find_set(const Kinds *kinds, const void *test, size_t length, u64 *set);
void kinds_keep_set(const Kinds *kinds, const void *test, size_t length, const u64 *set);

// kind_rows.c: what a kernel for a build pipeline over kinds_source() would leave, in ARENA: ROWS, and of WOVEN its
// outputs.  False: a kernel must do it.
bool kind_rows(Arena *arena, const Kinds *kinds, const Pipeline *pipeline, Woven *woven, RowSet *rows);

// The kind of each row of a chunk of another table, whose column COLUMN holds keys; 0 where no row has the key.  Made
// when first asked for, kept with the kinds.  NULL: no memory, or a damaged file.  Any thread.
typedef struct KindColumn KindColumn;
KindColumn        *kinds_column(const Kinds *kinds, const Chunk *chunk, int column);
const ColumnChunk *kind_column_chunk(const KindColumn *column);
void               kind_column_release(KindColumn *column);            // NULL is fine

#endif
