// store.h - tables in chunks: types, columns, dictionaries, statistics, the catalog and the files behind it.
//
//     TRY(store_open("sales.weft", budget, &store, err));         // NULL: in memory
//     TRY(store_create_table(store, "t", columns, n, err));
//     TRY(append_begin(store, "t", &append, err));                // one appender per table at a time; others wait
//     TRY(append_rows(append, sequence, inputs, n_rows, err));    // any thread; pieces end up ordered by sequence
//     TRY(append_commit(append, &n_rows, err));                   // or append_abort: nothing happened
//     const Table *t = store_table(store, "t");                  // a snapshot: never changes; held until table_release
//
// A kernel reads a column chunk as it is stored: N values of 1, 2, 4 or 8 bytes over a base value.
// A commit writes new files, syncs them, and switches the manifest by rename; a crash leaves the old or the new state.

#ifndef WEFT_STORE_H
#define WEFT_STORE_H

#include "base/base.h"

// ---- types -------------------------------------------------------------------------------------------------------

typedef enum TypeKind {
    TYPE_BOOLEAN, TYPE_SMALLINT, TYPE_INTEGER, TYPE_BIGINT,
    TYPE_DECIMAL,                      // i64 scaled by 10^scale, precision <= 18
    TYPE_REAL, TYPE_DOUBLE,
    TYPE_DATE,                         // days since 1970-01-01
    TYPE_TEXT,                         // code in a dictionary
    TYPE_NUMERIC,                      // i128 scaled by 10^scale, precision 38; in tables 19 to 38
    // Only in expressions and results, never in a table:
    TYPE_INTERVAL,                     // months, days, microseconds
    TYPE_NULL,                         // an untyped NULL or, before binding settles it, an untyped literal
    // In tables again; numbers are in files, so they stay as they are:
    TYPE_TIMESTAMP,                    // microseconds since 1970-01-01, years 1 to 9999
    TYPE_TIMESTAMPTZ,                  // the same in UTC; scale: the zone in which it is shown and read (zone.c)
    TYPE_TIME                          // microseconds since midnight, up to 24:00
} TypeKind;

typedef struct Type { u8 kind, precision, scale; } Type;

// The precision of a numeric that was divided, or computed from such: it shows as many digits behind the point as
// PostgreSQL gives a quotient of that size, of the SCALE that it has room for (value_shown).
// A TRIMMED one comes from floats and texts and shows no zeros at its end; it counts as a quotient.
enum { NUMERIC_QUOTIENT = 39, NUMERIC_TRIMMED = 41 };

// The type of a column that is numeric without a precision, where it is made and in the manifest: SCALE is the largest
// that a value of it has.  A snapshot shows it as a numeric of 38 digits and that scale (Column.is_free).
enum { NUMERIC_FREE = 40 };

#define TYPE(k) ((Type){ .kind = TYPE_##k })
#define TYPE_OF_FREE_NUMERIC ((Type){ .kind = TYPE_NUMERIC, .precision = NUMERIC_FREE })
// A uuid is a text of 36 characters, always in its canonical form: texts and uuids have the same order then.
#define TYPE_OF_UUID ((Type){ .kind = TYPE_TEXT, .precision = 255, .scale = 255 })

// An interval in a table is a number of 128 bits, as a numeric is stored: length * 2^64 + months * 2^32 + days.  The
// length in microseconds decides when intervals are equal ('1 day' and '24 hours' are), and is the high word.
#define TYPE_OF_STORED_INTERVAL ((Type){ .kind = TYPE_NUMERIC, .precision = 255 })

// Text of a limited length, as varchar(n): the limit is where other types have their digits.  0: no limit.  char(n) is
// CHAR_BASE + n there, and 0 of n characters is bpchar; it is stored without blanks at its end.
enum { TEXT_LENGTH_MAX = 0xfdff, CHAR_BASE = 0xfe00, CHAR_LENGTH_MAX = 0x1fe, TEXT_IS_UUID = 0xffff };
static inline Type type_text(int length) { return (Type){ TYPE_TEXT, (u8)length, (u8)(length >> 8) }; }
static inline int  type_text_code(Type type) { return type.kind == TYPE_TEXT ? type.precision | type.scale << 8 : 0; }
static inline bool type_is_char(Type type)
{
    return type_text_code(type) >= CHAR_BASE && type_text_code(type) < TEXT_IS_UUID;
}
static inline int type_text_length(Type type)
{
    const int code = type_text_code(type);
    return code == TEXT_IS_UUID ? 0 : code >= CHAR_BASE ? code - CHAR_BASE : code;
}
// How many of LENGTH bytes are left without blanks at the end.
static inline size_t text_without_blanks(const char *bytes, size_t length)
{
    while (length && bytes[length - 1] == ' ') length--;
    return length;
}

const char *type_name(Type type, char buffer[32]);                // "decimal(12,2)"; returns buffer
const char *type_whole_name(Type type, char buffer[32]);          // with all digits and lengths: "varchar(10)"
bool        type_is_integer(Type type);                            // smallint, integer, bigint
bool        type_is_float(Type type);                              // real, double
bool        type_is_uuid(Type type);
bool        type_is_stored_interval(Type type);
bool        type_is_free_numeric(Type type);
bool        type_is_time(Type type);                               // date, time, timestamps, interval
bool        type_equal(Type a, Type b);
i64         power_of_ten(int n);                                   // 0 <= n <= 18

// ---- values: one at a time, for literals, statistics and interpretation ---------------------------------------------

typedef struct Value {
    Type type;
    bool is_null;
    u8   shown;                        // of a quotient: 1 + the digits behind the point that it shows; 0: not known
    union {
        i128   i;                      // boolean, integers, decimal, numeric, date
        double f;                      // real (already rounded to float), double
        struct { i32 months, days; i64 micros; } interval;         // as many bytes as I, which carries it about
        struct { const char *bytes; u32 length; } text;            // not owned
    };
} Value;

// Text to value, as PostgreSQL reads literals and COPY fields (surrounding blanks allowed except for text).
// BAD_TEXT, BAD_DATETIME or OUT_OF_RANGE on failure.  Text values point into the input.
weft_status value_parse(Type type, const char *bytes, size_t length, Value *value, Error *err);
// Text for a column of TYPE: blanks past its length are cut off (*LENGTH), anything else is TEXT_TOO_LONG.
weft_status value_fit_text(Type type, const char *bytes, size_t *length, Error *err);
// A number for a column of type numeric without a precision: the value's type has as many digits behind the point as
// the text.  OUT_OF_RANGE beyond 38 digits.
weft_status value_parse_free(const char *bytes, size_t length, Value *value, Error *err);
// As PostgreSQL makes a numeric of a float: its first 15 digits, 6 of a real, without zeros at the end.
weft_status value_free_of_float(double number, bool is_real, Value *value, Error *err);
bool        type_is_trimmed(Type type);
bool        type_is_quotient(Type type);
int         value_shown(const Value *value);                       // digits behind the point, of exact numbers
// As psql prints it; full length is returned.
size_t      value_format(const Value *value, char *buffer, size_t capacity);
int         value_compare(const Value *a, const Value *b);         // same type, neither NULL; NaN is largest, text by
                                                                   // bytes

i128 interval_micros(const Value *interval);                       // by which it is compared: a month has 30 days
// As it is stored; false: it is longer than 146,000 years.  And back.
bool  interval_to_number(const Value *interval, i128 *number);
Value interval_from_number(i128 number);
bool uuid_canonical(const char *bytes, size_t length, char out[37]);           // false: it is none

// Time zones, by number; 0 is UTC.  Numbers and names stay until the process ends.  Any thread may call.
// Each false: there is none, or too many are in use.
bool        zone_find(const char *name, size_t length, u8 *number);        // an abbreviation, else as zone_find_named
bool        zone_find_named(const char *name, size_t length, u8 *number);  // Europe/Berlin in any case, UTC+3
bool        zone_find_setting(const char *name, u8 *number);               // the same, or hours to the east
bool        zone_abbreviation(const char *name, size_t length, i32 *seconds);      // CET: 3600, in summer too
bool        zone_has_room(Error *err);                             // for one more; else ERR gets a hint
const char *zone_name(u8 number);
i32         zone_offset(u8 number, i64 seconds);                   // from UTC, in seconds, at a moment of UTC
i32         zone_offset_of_local(u8 number, i64 local_seconds);
i64         zone_to_local(u8 number, i64 micros);                  // a timestamptz as the clock there shows it
i64         zone_from_local(u8 number, i64 micros);
// The two words of a number of 128 bits as columns have them, both signed: number = high * 2^64 + low.
static inline void value_words(i128 number, i64 *high, i64 *low)
{
    *low = (i64)number;
    *high = (i64)((number - *low) >> 64);
}

static inline i128 value_of_words(i64 high, i64 low) { return (i128)((u128)(i128)high << 64) + low; }
// NUMBER times 10^UP; false: it takes more than 38 digits then.
bool value_scale_up(i128 *number, int up);

i32  date_from_civil(int year, int month, int day);
void date_to_civil(i32 days, int *year, int *month, int *day);
bool date_is_valid(int year, int month, int day);

// ---- dictionaries: text to code, append-only, any thread ------------------------------------------------------------
// Codes count from 0 in order of first use.  A code once given out never changes, and entries are never moved, so a
// reader needs no lock for a code it got from a snapshot.

typedef struct Dictionary Dictionary;

Dictionary *dict_new(Budget *budget);        // reference count 1; counts against the budget, which must outlive it
Dictionary *dict_hold(Dictionary *dict);
void        dict_release(Dictionary *dict);                        // NULL is fine
u32         dict_count(const Dictionary *dict);
// Prepares the texts of a stored column for reading, once.  To be called before all that follows for dictionaries of
// tables that were only peeked at.  CORRUPT for a damaged file, OUT_OF_MEMORY.  A large file is read and checked later,
// block by block, as texts are asked for.
weft_status dict_load(Dictionary *dict, Error *err);
// CORRUPT when a block that was asked for is damaged.  Its texts are empty, so a query asks this before it answers.
weft_status dict_status(const Dictionary *dict, Error *err);
weft_text   dict_get(const Dictionary *dict, u32 code);            // NUL-terminated

// Texts that lie one behind the other, each with a NUL behind it.
typedef struct TextRun {
    u32         first, n_texts;        // codes
    const char *bytes;
    u64         n_bytes;
    const void *offsets;               // for text_run_offset
    int         width;
} TextRun;

// The texts from CODE on that lie together; run->first may be before it.  False: its block is damaged.
bool        dict_run(const Dictionary *dict, u32 code, TextRun *run);
// Where text AT of the run begins; AT = n_texts: where the run ends.
u64         text_run_offset(const TextRun *run, u32 at);
bool        dict_find(const Dictionary *dict, const char *bytes, size_t length, u32 *code);
// Up to 2^31 entries.
weft_status dict_intern(Dictionary *dict, const char *bytes, size_t length, u32 *code, Error *err);
// The same for N texts, several times as fast where the dictionary is larger than the processor's caches.
weft_status dict_intern_many(Dictionary *dict, const weft_text *texts, u32 n, u32 *codes, Error *err);
weft_status dict_reserve(Dictionary *dict, u32 count, Error *err);    // room for COUNT entries
// Rank by bytes of the first COUNT codes, cached.  Held until dict_ranks_release, or else until the dictionary goes;
// NULL when there is no memory for it.
const u32  *dict_ranks(Dictionary *dict, u32 count);
// The query that asks for ranks.  Making them takes 32 bytes a text of BUDGET.  If that query uses temporary files,
// ranks that do not fit into memory lie in one, which goes with their last user.
typedef struct RanksWith {
    Budget            *budget;         // NULL: the dictionary's own
    const _Atomic u32 *stop;           // not 0: QUERY_CANCELED; NULL: never
} RanksWith;

// The same, saying why there are none.
weft_status dict_get_ranks(Dictionary *dict, u32 count, RanksWith with, const u32 **ranks, Error *err);
bool        dict_has_ranks(Dictionary *dict, u32 count);           // they are there, so asking for them costs nothing
void        dict_ranks_release(Dictionary *dict, const u32 *ranks); // NULL is fine
// The same, held together with the dictionary until the arena is freed.
weft_status dict_hold_ranks(Arena *arena, Dictionary *dict, u32 count, RanksWith with, const u32 **ranks, Error *err);

// What was worked out from the texts of the first COUNT codes, kept with the dictionary under a key that says how, so
// that the next pipeline need not.  Notes that no query holds go when room is short (dict_notes.c).  Any thread.
typedef struct DictNote {
    const void *bytes;                 // 64-byte aligned
    u64         n_bytes;
    Dictionary *made;                  // texts that the bytes have codes of; NULL: none
} DictNote;

// NULL: there is none.  Held until dict_note_release, which must come before the caller's dict_release.
const DictNote *dict_note_find(Dictionary *dict, u32 count, const void *key, size_t length);
void            dict_note_release(Dictionary *dict, const DictNote *note);
// Copies key and bytes and holds note.made; without room for it nothing happens.
void            dict_note_put(Dictionary *dict, u32 count, const void *key, size_t length, DictNote note);

// ---- chunks ---------------------------------------------------------------------------------------------------------

#define CHUNK_ROWS (1u << 20)                                      // default; settable per store for tests

// Of the nonzero finite values of a float column: each is a multiple of 2^unit, and its magnitude lies in
// [2^least, 2^(most + 1)).  What proves how many bits an exact sum of them takes.
typedef struct FloatBits {
    bool is_known;                     // false: nothing is said (files of format 1)
    i16  unit, least, most;            // least > most: there are none
} FloatBits;

FloatBits float_bits_none(void);
FloatBits float_bits_of(double value);
FloatBits float_bits_unite(FloatBits a, FloatBits b);

typedef struct ColumnChunk {
    const void *data;                  // n_rows values, 64-byte aligned, readable to a multiple of 64 bytes past the
                                       // end; NULL: they are in the memory of a device only (Source.kept)
    const u64  *valid;                 // bit i is 1 where row i is not NULL; NULL when no row is NULL
    i64         base;                  // value = base + stored; 0 for real and double
    u8          width;                 // bytes per stored value: 1, 2, 4, 8 (real 4, double 8, both raw)
    u32         n_nulls;
    bool        has_range;             // false when all rows are NULL (or, for floats, NaN)
    union { i64 min; double fmin; };   // exact, over the non-NULL values (text: codes; floats: without NaN)
    union { i64 max; double fmax; };
    bool        has_nan;
    FloatBits   bits;                  // floats
    bool        is_increasing;         // strictly, no NULLs: proves unique within the chunk
} ColumnChunk;
// The stored value of a NULL row is 0 (that is, base), so a kernel may compute with it before it looks at the bitmap.

typedef struct Chunk {
    u64          id;                   // no other chunk of this process has it: devices keep copies by it.  0: not from
                                       // a store
    u32          n_rows;
    ColumnChunk *columns;              // one per table column
} Chunk;

u64 chunk_new_id(void);                // for a chunk that is not from a store and of which a device has copies

// Checks the column's data against its checksum, the first time; later calls cost one atomic read.  Any thread.  Needed
// only in tables from store_peek_table.
weft_status chunk_verify(const Chunk *chunk, int column, Error *err);
// Part of a column that will be read before it is verified.
void        chunk_expect(const Chunk *chunk, int column, const void *from, u64 bytes);
void        chunk_try_verify(const Chunk *chunk, int column);      // unless another thread is at it; call it for all
                                                                   // columns before chunk_verify waits for one

// Columns of files are read and checked before a scan waits for them, by threads that are started when there is
// something to read.  Chunks are held until then, so that it must go before the budget of their store.
typedef struct Ahead Ahead;

Ahead *ahead_new(void);
void   ahead_ask(Ahead *ahead, const Chunk *chunk, int column);    // of a store; any thread.  Returns at once
void   ahead_free(Ahead *ahead);                                   // NULL is fine; what was asked for and not begun is
                                                                   // forgotten

// Pages that hold this chunk's columns and nothing else, so that a device may pin them.
typedef struct ChunkPages {
    const u8 *first;                   // begin of a page; NULL: it shares its pages with others
    u64       bytes;                   // whole pages
    bool      is_file;                 // a private mapping that may only be read: not written to, and maybe not in
                                       // memory yet
} ChunkPages;

ChunkPages chunk_pages(const Chunk *chunk);

// What a scan reads of a column, without what it is padded with.
u64 column_data_bytes(const Chunk *chunk, int column);          // values
u64 column_valid_bytes(const Chunk *chunk, int column);         // which of them are NULL
u64 column_read_bytes(const Chunk *chunk, int column);          // both

// A watch is called before a chunk's memory goes: GONE is called once for each chunk of this process that goes, by the
// thread that let go of it last, and may wait, but not for anything of the store.
typedef struct ChunkWatch {
    void (*gone)(struct ChunkWatch *watch, const Chunk *chunk);
    struct ChunkWatch *next;           // the store's
} ChunkWatch;

void chunks_watch(ChunkWatch *watch);
void chunks_unwatch(ChunkWatch *watch);                            // no call is at work any more when it returns

// ---- tables ---------------------------------------------------------------------------------------------------------

typedef struct Column {
    const char *name;
    Type        type;
    bool        not_null;
    Dictionary *dict;                  // text only
    u32         dict_count;            // codes that exist in this snapshot
    int         low;                   // numeric: the stored column of its low words; this one has the high words
    bool        is_free;               // numeric without a precision: a later snapshot may have a larger scale
} Column;

// A column of type numeric (19 to 38 digits) is stored as two of 64 bits: number = high * 2^64 + low, both signed.  The
// low words come after all columns of the table, in their order.

// Weft has no index structures.  An index is a name and, unless it is plain, a promise that every append checks: no two
// rows are equal in all of its columns (keys.c).  NULLs are not equal.
enum { INDEX_COLUMNS_MAX = 32 };       // as in PostgreSQL

typedef enum IndexKind {               // numbers are in files
    INDEX_PLAIN,                       // CREATE INDEX: nothing but a name that can be dropped
    INDEX_UNIQUE,                      // CREATE UNIQUE INDEX
    INDEX_UNIQUE_KEY,                  // the constraint UNIQUE
    INDEX_PRIMARY_KEY                  // its columns are NOT NULL, too
} IndexKind;

typedef struct IndexDef {
    const char *name;                  // NULL, when it is to be made: the store chooses one, as PostgreSQL does
    u8          kind;                  // an IndexKind
    u8          n_columns;             // of a plain index: only those that are columns, not expressions
    u16         columns[INDEX_COLUMNS_MAX];
} IndexDef;

// What a table is beside its columns.  A stream only grows at its end and may lose rows at its begin; its rows are
// numbered from 0 on, and keep their numbers.  A state holds the groups of a continuous view (engine/continuous.c).
typedef enum TableKind { TABLE_PLAIN, TABLE_STREAM, TABLE_STATE } TableKind;    // numbers are in files

typedef struct TableTraits {
    u8   kind;                         // a TableKind
    i64  retain_us;                    // stream: how long rows stay after they came, at least; 0: for good
    u64  first_row;                    // stream: number of the first row that is still there
    u64  position;                     // state: number of the stream's first row that is not in it
    u64  n_late;                       // state: rows that came too late for it
    bool has_latest;
    i64  latest;                       // state: the largest time in the rows up to POSITION
} TableTraits;

typedef struct Table {                 // a snapshot
    const char   *name;
    u64           id;                  // of the table, equal for all its snapshots
    u64           version;             // grows with each commit
    int           n_columns, n_chunks;
    int           n_stored;            // columns of the chunks: n_columns, and low words; as many has COLUMNS
    const Column *columns;
    const Chunk **chunks;
    u64           n_rows;
    int           n_indexes;
    const IndexDef *indexes;           // in the order in which they were made
    TableTraits   traits;
} Table;

typedef struct ColumnRange {           // over all chunks of a snapshot: what is proved about a column
    bool has_range;
    union { i64 min; double fmin; };
    union { i64 max; double fmax; };
    bool has_nan;
    FloatBits bits;                    // floats
    u64  n_nulls;
    u8   width;                        // of all chunks, or 0 when they differ
} ColumnRange;

// As CREATE TABLE would take it: "numeric", "numeric(38,2)", "varchar(10)"; returns BUFFER.
const char *column_type_name(const Column *column, char buffer[32]);
ColumnRange table_column_range(const Table *table, int column);
// How many different values the column has, NULL not counted.  An estimate, never a proof: exact up to 192 values, for
// integers and texts in a small range and for increasing columns; else the standard error is 3.3 %.  Files of formats 1
// and 2 know less: then it is what there can be at most.  At least 1 when the table has rows, never more than its rows.
// Counted once per snapshot, so every query may ask.  Any thread.
double      table_distinct(const Table *table, int column);
int         table_find_column(const Table *table, const char *name);       // -1 when there is none
const Table *table_hold(const Table *table);
void        table_release(const Table *table);                              // NULL is fine

// ---- the store ------------------------------------------------------------------------------------------------------

typedef struct Store Store;

typedef struct ColumnDef { const char *name; Type type; bool not_null; } ColumnDef;

weft_status  store_open(const char *path, Budget *budget, Store **store, Error *err);
// In memory, for tables that live as long as one statement: nothing is to be remembered of them.
weft_status  store_open_passing(Budget *budget, Store **store, Error *err);
bool         table_is_passing(const Table *table);
// Whether tables of this store may have the id: no other store in memory has such ids.
bool         store_may_have(const Store *store, u64 table_id);
void         store_close(Store *store);
const char  *store_path(const Store *store);                               // NULL: in memory
char        *store_directory(Arena *arena, const char *name);  // the directory a user means by a database's name
u32          store_chunk_rows(const Store *store);
void         store_set_chunk_rows(Store *store, u32 rows);                  // for tests; affects later appends
weft_status  store_create_table(Store *store, const char *name, const ColumnDef *columns, int n_columns, Error *err);
// The same with keys and indexes, whose columns count from 0.
weft_status  store_create_keyed_table(Store *store, const char *name, const ColumnDef *columns, int n_columns,
                                      const IndexDef *indexes, int n_indexes, Error *err);
// A stream or a state.
weft_status  store_create_special_table(Store *store, const char *name, const ColumnDef *columns, int n_columns,
                                        const TableTraits *traits, Error *err);
weft_status  store_drop_table(Store *store, const char *name, Error *err);
const Table *store_table(Store *store, const char *name);  // held for the caller; NULL: none, or damaged
// The same, saying why there is no table: UNDEFINED_TABLE, or CORRUPT, IO_ERROR, OUT_OF_MEMORY when it cannot be used.
// Both read and check all of the table's data the first time in a process.
weft_status  store_get_table(Store *store, const char *name, const Table **table, Error *err);
// The same without reading the column data: names, types, dictionaries and statistics may be used at once, the data of
// a column chunk only after chunk_verify has returned OK for it.
weft_status  store_peek_table(Store *store, const char *name, const Table **table, Error *err);
bool         store_is_newest(Store *store, const Table *table);             // what store_peek_table would give
weft_status  store_list(Store *store, Arena *arena, const char ***names, int *n_names);   // sorted; without states
weft_status  store_list_all(Store *store, Arena *arena, const char ***names, int *n_names);
bool         store_traits(Store *store, const char *name, TableTraits *traits);           // false: no such table
i64          store_bytes_on_disk(Store *store, const char *name);           // 0 in memory

// Takes all rows away, at once and for good.  It waits for an append that is under way.
weft_status  store_truncate_table(Store *store, const char *name, const _Atomic bool *cancel, Error *err);
weft_status  store_rename_table(Store *store, const char *name, const char *new_name, const _Atomic bool *cancel,
                                Error *err);
weft_status  store_rename_column(Store *store, const char *table, const char *column, const char *new_name,
                                 const _Atomic bool *cancel, Error *err);

// streams.c.  Drops the chunks at the begin of a stream whose youngest row came more than traits.retain_us before
// NOW_US (since 1970), as long as all their rows are before row KEEP_FROM.  *N_DROPPED: rows.  Snapshots keep theirs.
weft_status  store_expire(Store *store, const char *name, i64 now_us, u64 keep_from, u64 *n_dropped, Error *err);
// merge.c.  Whether a stream has small chunks in a row that are as many rows as a chunk may have, and one such run
// made one chunk.  Appends go on meanwhile; Error: nothing has changed, or nothing is certain (see append_commit).
bool         store_has_small_chunks(Store *store, const char *name);
weft_status  store_merge_small_chunks(Store *store, const char *name, Error *err);
i64          store_now_us(void);                                            // the system's clock
// The rows of TABLE from place FIRST (0: its first) on, N_ROWS of them, as a table of their own with the same name, id
// and dictionaries; held for the caller.  Whole chunks are shared, parts of chunks are copied.
weft_status  table_slice(const Table *table, u64 first, u64 n_rows, Budget *budget, const Table **out, Error *err);
// The same rows without those that KEEP has a 0 for, a byte per row.
weft_status  table_sift(const Table *table, const u8 *keep, Budget *budget, const Table **out, Error *err);

// Both wait for an append that is under way.  Adding checks the rows that are there: UNIQUE_VIOLATION, and
// NOT_NULL_VIOLATION for a primary key.  DUPLICATE_TABLE: the name is taken, by whatever it is.
weft_status  store_add_index(Store *store, const char *table, const IndexDef *index, const _Atomic bool *cancel,
                             Error *err);
weft_status  store_drop_index(Store *store, const char *table, const char *name, const _Atomic bool *cancel,
                              Error *err);
// The table that has the index, and of which kind it is; NULL: there is no such index.
const char  *store_index_table(Store *store, Arena *arena, const char *name, IndexKind *kind);

// ---- views: texts that the store keeps beside the tables, under names that no table has -----------------------------

typedef struct ViewDef {
    const char  *name, *text;
    int          n_columns, n_uses;
    const char **columns, **types;     // as they were when it was made
    const char **uses;                 // tables and views that it reads
    const char  *options;              // of a continuous view (engine/continuous.c); NULL: it is a plain one
} ViewDef;

// Copies the definition.  DUPLICATE_TABLE when the name is taken, unless it is a view's and MAY_REPLACE.
weft_status  store_create_view(Store *store, const ViewDef *view, bool may_replace, Error *err);
weft_status  store_drop_view(Store *store, const char *name, Error *err);  // UNDEFINED_TABLE
weft_status  store_rename_view(Store *store, const char *name, const char *new_name, Error *err);
const ViewDef *store_view(Store *store, Arena *arena, const char *name);   // a copy; NULL: there is none
void         store_list_views(Store *store, Arena *arena, const ViewDef **views, int *n_views);   // copies, by name
const char  *store_user_of(Store *store, Arena *arena, const char *name);  // a view that reads NAME; NULL: none does

// ---- appending ------------------------------------------------------------------------------------------------------

// A piece of a column to append: N values as 64-bit integers (text: codes from the column's dictionary) or doubles.
typedef struct ColumnInput {
    union { const i64 *i; const double *f; };
    const u8 *is_null;                 // a byte per row, or NULL when no row is NULL
    u8        scale;                   // of these numbers, where the column is_free; larger or smaller than the table's
} ColumnInput;

typedef struct Append Append;

weft_status  append_begin(Store *store, const char *table, Append **append, Error *err);
// The same; a wait for another appender ends with QUERY_CANCELED when *CANCEL becomes true.
weft_status append_begin_unless(Store *store, const char *table, const _Atomic bool *cancel, Append **append,
                                Error *err);
// The same into a table that the commit makes: DUPLICATE_TABLE then, when there is one of that name.
weft_status  append_begin_new(Store *store, const char *name, const ColumnDef *columns, int n_columns, Append **append,
                              Error *err);
const Table *append_table(const Append *append);                            // the columns and dictionaries to fill
// Copies the piece.  Any thread; SEQUENCE numbers 0, 1, 2, ... without gaps say the order of the pieces.
// Enough rows in order become a chunk, encoded and written by the calling thread.
weft_status  append_rows(Append *append, u64 sequence, const ColumnInput *inputs, u32 n_rows, Error *err);
// The commit gives the table these traits; with REPLACES the new rows are in the place of all that were there.
void         append_set_traits(Append *append, const TableTraits *traits, bool replaces);
// The commit merges its rows with small chunks before them up to so many rows, instead of a chunk's.
void         append_set_merge_rows(Append *append, u32 n_rows);
weft_status  append_commit(Append *append, u64 *n_rows, Error *err);        // frees the append, also on failure
void         append_abort(Append *append);

// ---- import ---------------------------------------------------------------------------------------------------------

typedef struct CopyOptions {
    char        delimiter;             // a tab, or ',' with csv, unless it is said
    bool        csv;                   // quotes, doubled quotes, new lines inside quotes
    bool        json;                  // an object on each line
    bool        header;                // skip the first line; write one
    bool        trailing_delimiter;    // each line ends in a delimiter, as dbgen writes them; a missing one is fine
    bool        ignores_errors;        // bad rows are left out, counted, and written to
    const char *reject_path;           // this file, as they are; NULL: nowhere
    bool        is_std;                // from or to FD, which stays open, instead of a file
    int         fd;
    const char *null_text;             // unquoted field that means NULL: "" with csv, "\\N" without
    char        quote, escape;         // csv only; '"' both by default
    const int  *columns;               // table column of each field, or NULL for all in order
    int         n_columns;
    u64         table_id;              // of the table that has them; 0: of any that has the name
    u8          zone;                  // of timestamps with time zone that do not say theirs
} CopyOptions;

typedef struct CopyFigures {
    u64  n_rows;                       // that were appended
    u64  n_rejected;                   // that were left out
    char first_rejected[1024];         // where and why, when there are any
} CopyFigures;

// Reads PATH (.gz and .zst are decompressed) into TABLE with the pool's workers, all or nothing.  An error names the
// file, the line and the column.  PROGRESS (may be NULL) goes from 0 to 1000; when *CANCEL becomes true the copy ends
// with QUERY_CANCELED.
weft_status copy_from_file(Store *store, Pool *pool, Budget *budget, const char *table, const char *path,
                           const CopyOptions *options, _Atomic int *progress, _Atomic bool *cancel,
                           CopyFigures *figures, Error *err);
// copy_live.c: from a pipe into a stream, with commits while it goes on.  CANCEL ends it with QUERY_CANCELED, behind a
// commit of the lines that had come.  REJECT_PATH cannot be said.
typedef struct LiveCommits {
    double              commit_ms;     // so long a row waits at most before its commit begins
    const _Atomic bool *cancel;
    void              (*committed)(void *context, u64 n_durable);      // rows 0 .. n_durable - 1 of the stream are
    bool              (*is_awaited)(void *context);        // someone has taken up all committed rows and waits for more
    void               *context;
} LiveCommits;

bool        copy_is_live(const char *path, const CopyOptions *options);        // neither a file nor a directory
weft_status copy_live(Store *store, Pool *pool, Budget *budget, const char *table, const char *path,
                      const CopyOptions *options, const LiveCommits *commits, CopyFigures *figures, Error *err);
// The same into an append that the caller commits or aborts.  n_rows of the figures stays 0.
weft_status copy_into_append(Append *append, Pool *pool, Budget *budget, const char *path, const CopyOptions *options,
                             _Atomic int *progress, _Atomic bool *cancel, CopyFigures *figures, Error *err);

#endif
