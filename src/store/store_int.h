// store_int.h - shared inside src/store only.
//
// What is behind the public structs:
//
//     Store -> TableEntry -> Snapshot (a Table) -> StoredChunk (a Chunk) -> columns, in memory or in a mapped file
//                  |            |
//                  |            +-> Dictionary            shared by all snapshots of the table
//                  +-> TableMeta                          what the manifest says of the table
//
// Snapshots, chunks and metas never change once made; commits make new ones and swap the entry's pointers.

#ifndef WEFT_STORE_INT_H
#define WEFT_STORE_INT_H

#include <pthread.h>

#include "store/store.h"

enum {
    DECIMAL_DIGITS = 18,
    NUMERIC_DIGITS = 38,
    COLUMNS_MAX = 1600,
    NAME_BYTES_MAX = 63,
    DATE_MIN = -719162,                // 0001-01-01
    DATE_MAX = 2932896,                // 9999-12-31
    TEXT_BYTES_MAX = 1 << 30,
    ALIGNMENT = 64,                    // of every part of a chunk
    PATH_BYTES = 4096
};
#define DAY_MICROS    ((i64)86400000000)
#define TIMESTAMP_MIN (DATE_MIN * DAY_MICROS)
#define TIMESTAMP_MAX ((DATE_MAX + 1) * DAY_MICROS - 1)
#define DICT_MAX (1u << 31)            // entries of a dictionary

static inline u64 aligned(u64 bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(u64)(ALIGNMENT - 1);
}

// ---- types and values ----------------------------------------------------------------------------------------------

bool   type_is_storable(Type type);                         // may be the type of a column
void   type_limits(Type type, i64 *min, i64 *max);          // what a column may hold; not for floats
size_t utf8_valid_length(const char *bytes, size_t length); // how much of it is good; LENGTH when all is
enum { VALUE_QUOTE_BYTES = 104 };
const char *value_quote(const char *bytes, size_t length, char buffer[VALUE_QUOTE_BYTES]);  // for a message
weft_status value_bad_text(Type type, const char *bytes, size_t length, Error *err);        // invalid input syntax
// value_time.c
weft_status parse_moment(Type type, const char *bytes, size_t length, Value *value, Error *err);   // date, time, ...
weft_status parse_interval(Type type, const char *bytes, size_t length, Value *value, Error *err);
int         format_moment(Type type, i64 number, char *buffer);                // at least 64 bytes
int         format_interval(const Value *value, char *buffer);                 // at least 128 bytes
int    compare_bytes(const char *a, size_t a_length, const char *b, size_t b_length);

typedef enum FloatText { FLOAT_OK, FLOAT_NONE, FLOAT_TOO_LARGE } FloatText;

FloatText float_parse(const char *text, bool is_real, double *number);
int       float_format(double number, bool is_real, char *buffer, size_t capacity);   // 32 bytes are enough

// ---- dictionaries --------------------------------------------------------------------------------------------------

// Gives the text the next code without looking for it: for loading, where entries are known to differ.
weft_status dict_append(Dictionary *dict, const char *bytes, size_t length, u64 hash, Error *err);
weft_status dict_copy(const Dictionary *from, u32 count, Budget *budget, Dictionary **copy, Error *err);

typedef struct DictLoader {            // where the texts of a dictionary are until dict_load
    weft_status (*load)(Dictionary *dict, void *context, Error *err);  // puts all of them; after a failure it is called
                                                                       // again by the next dict_load
    void (*drop)(void *context);       // with the dictionary, or once its texts are in memory
    void *context;
} DictLoader;

typedef struct TextBlocks TextBlocks;  // text_blocks.h

typedef struct DictNotes {             // dict_notes.c; all by LOCK
    pthread_mutex_t  lock;
    struct KeptNote *newest;
    u64              bytes;            // of all
    Budget          *budget;
    void           (*release)(Dictionary *made);            // takes NULL
} DictNotes;

void            notes_init(DictNotes *notes, Budget *budget, void (*release)(Dictionary *made));
void            notes_free(DictNotes *notes);               // none is held
// As dict_note_find and so on of store.h; notes_put takes over the hold of note.made.
const DictNote *notes_find(DictNotes *notes, u32 count, const void *key, size_t length);
void            notes_release(DictNotes *notes, const DictNote *note);
void            notes_put(DictNotes *notes, u32 count, const void *key, size_t length, DictNote note);
typedef struct DictFile DictFile;

// A dictionary that is said to have COUNT texts, which dict_load will ask the loader for.
Dictionary *dict_new_unloaded(Budget *budget, u32 count, DictLoader loader);
bool        dict_is_loaded(const Dictionary *dict);
weft_status dict_put(Dictionary *dict, u32 code, const char *bytes, size_t length, u64 hash, Error *err);  // a loader's
// A loader's: all texts, read in place.  Takes them over.
void        dict_put_blocks(Dictionary *dict, TextBlocks *texts);
weft_status dict_check_all(Dictionary *dict, Error *err);   // dict_load, and reads all texts that are read in place

// ---- texts in order (text_sort.c) ----------------------------------------------------------------------------------

typedef struct TextKey {
    u64 prefix;                        // for the sort itself
    u32 code;
} TextKey;

typedef weft_text (*TextOf)(const void *context, u32 code);

// Sorts the keys by the bytes of their texts, which are all different.  SPARE has as much room.  False: stopped.
bool texts_sort(TextKey *keys, TextKey *spare, u64 n_keys, TextOf text_of, const void *context,
                const _Atomic u32 *stop);

struct DictFile {                      // what the manifest says of a dictionary's file
    u64 file_id;
    u64 length;                        // bytes that count; a crash may have left more.  0: there is no file yet
    u32 count;                         // entries in them
    u64 checksum;                      // over the entries in order, or of the last directory (text_blocks.c)
};

// Maps the file and checks its size.  Its texts are read, and checked, from dict_load on.
weft_status dict_file_open(const char *path, const DictFile *file, Budget *budget, Dictionary **dict, Error *err);
// Writes the entries from old->count up to COUNT behind the old ones and syncs.  *CHANGED says what the file holds now.
weft_status dict_file_extend(const char *path, const DictFile *old, const Dictionary *dict, u32 count,
                             DictFile *changed, Error *err);
// Gives back the space of entries that FILE does not count.  Failures are ignored: the next writer cuts them off.
void        dict_file_cut(const char *path, const DictFile *file);

// ---- sketches: how many different values (sketch.c) ----------------------------------------------------------------

enum {
    SKETCH_REGISTERS = 1024,
    SKETCH_COUPONS = 192,              // at most
    SKETCH_BITS = 6144,                // of a bitmap, at most
    SKETCH_BYTES_MAX = 16 + 768        // saved
};

typedef enum SketchForm { SKETCH_IS_EMPTY, SKETCH_IS_BITMAP, SKETCH_IS_COUPONS, SKETCH_IS_REGISTERS } SketchForm;

typedef struct Sketch {                // all 0: of no value
    SketchForm form;
    u32        count;                  // bits of the bitmap, or coupons
    i64        first;                  // bitmap: the value of bit 0
    union {
        u64 bits[SKETCH_BITS / 64];
        u32 coupons[512];              // a hash table; 0: free
        u8  registers[SKETCH_REGISTERS];
    };
} Sketch;

// The sketch of a column chunk's values without its NULLs.  Text counts by code, so sketches of two tables cannot be
// compared.  COLUMN must have its data and statistics.
void   sketch_column(Type type, const ColumnChunk *column, u32 n_rows, Sketch *sketch);
void   sketch_merge(Sketch *sketch, const Sketch *other);          // becomes that of the values of both
double sketch_count(const Sketch *sketch);                         // different values, estimated when they are many
u32    sketch_save(const Sketch *sketch, u8 bytes[SKETCH_BYTES_MAX]);      // returns how many bytes it takes
bool   sketch_load(Sketch *sketch, const u8 *bytes, u32 length);   // false: these are not the bytes of a sketch

typedef struct SavedSketch {
    const u8 *bytes;                   // in the chunk's memory or mapping
    u32       length;                  // 0: there is none (pieces of an append, and files of formats 1 and 2)
} SavedSketch;

// ---- chunks --------------------------------------------------------------------------------------------------------

typedef struct ChunkFile {             // what the manifest says of a chunk's file
    u64 file_id;
    u64 length;
    u32 n_rows;
    u64 checksum;                      // of the header, which holds those of the columns
    i64 arrived_first, arrived_last;   // when its rows came, in microseconds since 1970; in manifests of streams only
} ChunkFile;

// Of a column against its checksum.
typedef enum ColumnCheck { CHECK_NONE, CHECK_AT_WORK, CHECK_RIGHT } ColumnCheck;

typedef struct StoredChunk StoredChunk;
struct StoredChunk {
    Chunk         chunk;               // first: what others see
    _Atomic u32   n_holds;
    int           n_columns;
    Budget       *budget;              // of this struct and of the memory below
    size_t        bytes;               // of this struct
    u8           *memory;              // the columns, or NULL: they are in the mapping
    u64           memory_bytes;
    Mapping       mapping;
    ChunkFile     file;                // file_id is 0 in memory
    const char   *path;                // of the file, for messages
    _Atomic u8   *checks;              // per column: a ColumnCheck
    u8           *scales;              // per column: of its numbers, where it is numeric without a precision
    u64          *checksums;           // per column
    SavedSketch  *sketches;            // per column
    u8           *sketch_memory;       // holds them, or NULL: they are in the mapping
    u64           sketch_memory_bytes;
    u64           sequence;            // append.c: place of a piece
    StoredChunk  *next;                // append.c: in a list of pieces
};

typedef struct ChunkSlice { const Chunk *chunk; u32 start, count; } ChunkSlice;

u64 chunk_column_bytes(const Chunk *chunk, int column);              // with its bitmap, which lies behind the data

// Both make a chunk in memory, held once.
weft_status chunk_encode(Budget *budget, const Table *table, const ColumnInput *inputs, u32 n_rows, StoredChunk **out,
                         Error *err);
weft_status chunk_merge(Budget *budget, const Table *table, const ChunkSlice *slices, int n_slices, StoredChunk **out,
                        Error *err);

// The same rows, with columns made from INPUTS where these have values; the others are copied, and must be verified.
weft_status chunk_replace_columns(Budget *budget, const Table *table, const Chunk *chunk, const ColumnInput *inputs,
                                  StoredChunk **out, Error *err);
// scale.c: whether the numbers of numerics without a precision have these scales (per column of TABLE), and a chunk in
// which they do.  OUT_OF_RANGE: one would take more than 38 digits; FIRST_ROW is what messages call the chunk's first
// row, 0: they do not say.
bool        chunk_has_scales(const Table *table, const Chunk *chunk, const u8 *scales);
weft_status chunk_rescale(Budget *budget, const Table *table, const Chunk *chunk, const u8 *scales, u64 first_row,
                          StoredChunk **out, Error *err);

// Gives each column of a chunk that chunk_encode or chunk_merge made its sketch, unless it has one, with up to
// N_THREADS threads when the chunk is large.  No other thread may have the chunk yet.  SLICES: what the chunk was
// merged of, if it was.  If all of them are whole chunks with sketches, these sketches are merged instead.
weft_status chunk_sketch(StoredChunk *chunk, const Column *columns, const ChunkSlice *slices, int n_slices,
                         int n_threads, Error *err);

// Writes the chunk to PATH with NEW_SUFFIX, syncs, and gives back its mapped twin (held once); the one in memory stays
// the caller's.  A commit takes the suffix off (store_switch).
weft_status chunk_write(const StoredChunk *chunk, const char *path, u64 file_id, u64 table_id, Budget *budget,
                        const Column *columns, StoredChunk **out, Error *err);
// Maps a file; nothing of it may be used before chunk_check, which checks all but the column data.  Its header is read
// ahead: to open many, map them all first.
weft_status chunk_map(const char *path, const ChunkFile *file, int n_columns, Budget *budget, StoredChunk **out,
                      Error *err);
weft_status chunk_check(StoredChunk *chunk, u64 table_id, const Column *columns, Error *err);
bool         chunk_is_verified(const Chunk *chunk, int column);
void         chunk_verify_asked(const Chunk *chunk, int column);   // chunk_try_verify, of what file_ask asked for
StoredChunk *chunk_stored(const Chunk *chunk);
const Chunk *chunk_hold(const Chunk *chunk);
void         chunk_release(const Chunk *chunk);              // NULL is fine

// encode.c: measure decides width, base and statistics; fill writes data and bitmap (both zeroed) where those point.
void encode_measure(Type type, const ColumnInput *input, u32 n_rows, ColumnChunk *column);
void encode_fill(Type type, const ColumnInput *input, u32 n_rows, const ColumnChunk *column, void *data, u64 *valid);
void merge_measure(Type type, const ChunkSlice *slices, int n_slices, int at, ColumnChunk *column);
void merge_fill(Type type, const ChunkSlice *slices, int n_slices, int at, const ColumnChunk *column, void *data,
                u64 *valid);

// ---- the manifest --------------------------------------------------------------------------------------------------

typedef struct ColumnMeta {
    const char *name;
    Type        type;
    bool        not_null;
    DictFile    dict;                  // text only
} ColumnMeta;

typedef struct TableMeta {
    Arena      *arena;                 // holds all of it
    const char *name;
    u64         id, version;
    int         n_columns, n_chunks;
    ColumnMeta *columns;
    ChunkFile  *chunks;
    int         n_indexes;
    IndexDef   *indexes;
    TableTraits traits;
} TableMeta;

TableMeta *meta_new(const char *name, u64 id, u64 version, int n_columns, int n_chunks);   // columns and chunks zeroed
TableMeta *meta_copy(const TableMeta *meta, int n_chunks);  // the first N_CHUNKS chunks, and room for more up to it
void       meta_free(TableMeta *meta);                      // NULL is fine
// Of a numeric without a precision; TABLE says where its low words are.
void       meta_set_scale(TableMeta *meta, const Table *table, int column, int scale);
void       meta_set_indexes(TableMeta *meta, const IndexDef *indexes, int n_indexes);      // copies them

// Ids on disk are smaller: a database never gives out so many, so a larger one is damage.
#define DISK_IDS ((u64)1 << 62)

// The bytes of a manifest, and back.  Reading trusts nothing: CORRUPT, or UNSUPPORTED for a later format.
void        manifest_encode(const TableMeta *const *tables, int n_tables, u64 next_id, bool has_views, Text *out);
bool        manifest_has_views(const void *bytes);          // of one that was decoded: there must be a file of views
weft_status manifest_decode(const char *path, const void *bytes, size_t length, Arena *arena, TableMeta ***tables,
                            int *n_tables, u64 *next_id, Error *err);

// ---- snapshots -----------------------------------------------------------------------------------------------------

typedef struct Snapshot {
    Table        table;                // first: what others see
    _Atomic u32  n_holds;
    _Atomic bool is_verified;          // every column of every chunk is
    _Atomic double *distincts;         // per column: what table_distinct found; 0: nobody has asked yet
    Arena       *arena;
} Snapshot;

// Holds the dictionaries and takes over one hold of each chunk.
Snapshot *snapshot_new(const TableMeta *meta, Dictionary *const *dicts, const u32 *dict_counts,
                       const Chunk *const *chunks, int n_chunks);
weft_status table_load_dicts(const Table *table, Error *err);        // dict_check_all of all of them
weft_status snapshot_verify(Snapshot *snapshot, Error *err);

// ---- the catalog ---------------------------------------------------------------------------------------------------

typedef struct TableEntry {            // all guarded by store->lock except where it says so
    Arena          *arena;
    const char     *name;
    int             n_users;           // the catalog, appends, loads
    TableMeta      *meta;
    Snapshot       *current;           // NULL until loaded
    bool            is_dropped, is_appending;
    struct LiveRows *live_rows;        // that wait for a commit, in the order in which they came
    bool            is_committing_live;
    pthread_mutex_t load_lock;         // one thread loads
} TableEntry;

struct Store {
    Arena          *home;              // of this struct
    char           *path;              // NULL: in memory
    Budget         *budget;
    File            lock_file;
    bool            is_read_only;      // the directory does not let us write
    _Atomic u64     next_id;           // for tables and files; never given out twice; on disk at most DISK_IDS
    _Atomic u32     chunk_rows;
    pthread_mutex_t commit_lock;       // one change of the manifest at a time; taken before lock
    bool            is_in_doubt;       // by commit_lock: the manifest on disk may be one that was refused
    pthread_mutex_t lock;              // the catalog: held shortly
    pthread_cond_t  append_ended;
    Arena          *arena;             // of the list of entries; a new one for each list
    TableEntry    **entries;           // sorted by name
    int             n_entries;
    struct ViewList *views;            // NULL: there are none
    bool            has_views;         // the manifest says that there is a file of views; by commit_lock
};

typedef enum FileKind { FILE_CHUNK, FILE_DICT } FileKind;

#define NEW_SUFFIX ".new"              // of a chunk's file until a commit names it

const char *store_file_path(const Store *store, FileKind kind, u64 id, char path[PATH_BYTES]);
const char *store_new_chunk_path(const Store *store, u64 id, char path[PATH_BYTES]);   // before it is committed
weft_status store_check_writable(const Store *store, Error *err);   // READ_ONLY
// Failures are ignored: the next open removes the file.
void        store_remove_file(const Store *store, FileKind kind, u64 id);
TableEntry *store_take_entry(Store *store, const char *name);       // counted as a user; NULL when there is none
void        store_drop_user(Store *store, TableEntry *entry);
weft_status store_load(Store *store, TableEntry *entry, Snapshot **held, Error *err);
// The rest needs commit_lock.
weft_status store_settle(Store *store, Error *err);                 // before files of the old state are touched
weft_status store_switch(Store *store, const TableEntry *changed, const TableMeta *meta, Error *err);
weft_status store_check_free(Store *store, const char *name, Error *err);   // DUPLICATE_TABLE: a table or view has it
void        store_add_entry(Store *store, TableEntry *entry);       // its manifest is written
weft_status fail_no_table(Error *err, const char *name);
// A table that is in no catalog yet: one user, loaded.
weft_status store_make_entry(Store *store, const char *name, const ColumnDef *columns, int n_columns, TableEntry **out,
                             Error *err);
// One at a time appends to a table or changes it as a whole.  A wait ends with QUERY_CANCELED when *CANCEL
// (may be NULL) becomes true.
weft_status store_take_turn(Store *store, TableEntry *entry, const _Atomic bool *cancel, Error *err);
void        store_end_turn(Store *store, TableEntry *entry);
// A change of a whole table: CHANGE is called with the table's turn, so that no append is under way, with commit_lock,
// and with the newest snapshot, held until it returns.
typedef weft_status (*TableChange)(Store *store, TableEntry *entry, Snapshot *held, const void *context, Error *err);
weft_status store_change_table(Store *store, const char *table, const _Atomic bool *cancel, TableChange change,
                               const void *context, Error *err);
// The same with CHUNKS, which META names and whose rows are some or all of HELD's.  META is taken over.
weft_status store_put_chunks(Store *store, TableEntry *entry, Snapshot *held, TableMeta *meta,
                             const Chunk *const *chunks, int n_chunks, Error *err);
// The same with the chunks of HELD from N_GONE on; the files of those before it go.
weft_status store_put_rest(Store *store, TableEntry *entry, Snapshot *held, TableMeta *meta, int n_gone, Error *err);
// The last step of such a change: META, which it takes over, is put on disk and in the place of the entry's, with the
// rows of HELD.
weft_status store_put_meta(Store *store, TableEntry *entry, Snapshot *held, TableMeta *meta, Error *err);

// ---- rows of pipes (append.c, live_commits.c) -----------------------------------------------------------------------

// Takes over a piece that was made before the append began, as the next in order.  One thread; no append_rows.
weft_status append_take_piece(Append *append, StoredChunk *piece, Error *err);
// Texts in the table's dictionaries that came with rows which were given up go, if they are many, as when an append
// fails.  Waits for the table's turn, or until *CANCEL.
void        append_shed_texts(Store *store, const char *table, const _Atomic bool *cancel);

// What a pipe brings to a commit.
typedef struct LiveRows {
    const Table *made_for;             // held; its dictionaries gave the pieces' codes
    StoredChunk *pieces;               // in order
    u64          n_rows, end;          // once committed; the row behind the last
    double       spent_ms;             // by the commit
    bool         is_stale;             // not committed: to be parsed again
    bool         is_alone;             // shares no commit; stays so when it is parsed again
    bool         is_done;              // by store->lock, as what follows
    Error        error;
    struct LiveRows *next;
} LiveRows;

// Commits ROWS, alone or with those that others bring at the same time.  IS_STALE is set where the table has other
// dictionaries than those of the rows, and where there was no memory for a shared commit.
weft_status live_rows_commit(Store *store, const char *table, LiveRows *rows, u32 merge_rows, Error *err);
void        live_rows_release(LiveRows *rows);                      // what was not committed, and the table

// ---- keys (keys.c) ------------------------------------------------------------------------------------------------

// Rows for a table with keys: all that a commit adds.
typedef struct NewRows {
    const ChunkSlice   *slices;
    int                 n_slices;
    Budget             *budget;        // of the memory for the comparison: 12 to 40 bytes for each row
    const _Atomic bool *cancel;        // may be NULL
} NewRows;

// UNIQUE_VIOLATION when a key of the table would hold for two rows, of the new ones or of one of these and one of the
// table's.  The table's own rows are known to differ.
weft_status keys_check_append(const Table *table, const NewRows *rows, Error *err);
// UNIQUE_VIOLATION when two rows of the table are equal in the columns of INDEX.
weft_status keys_check_table(const Table *table, const IndexDef *index, Budget *budget, const _Atomic bool *cancel,
                             Error *err);

// ---- names of indexes (index_names.c); all need commit_lock or lock -------------------------------------------------

// Which table has the index, and which of the table's it is; NULL: there is none.
TableEntry *index_find(const Store *store, const char *name, int *at);
// Gives each index without a name one that is not taken, as PostgreSQL does: t_pkey, t_a_b_key, t_a_idx.  Names that
// are taken: DUPLICATE_TABLE.
weft_status index_name_all(Store *store, TableMeta *meta, Error *err);
weft_status index_name_new(Store *store, TableMeta *meta, Error *err);      // the same for the last one only

// ---- views (view_list.c)
// -----------------------------------------------------------------------------------------------

typedef struct ViewList ViewList;      // all views, never changed once made; by store->lock

weft_status views_load(Store *store, Error *err);                   // when the store is opened
weft_status views_make_file(Store *store, Error *err);              // with the views that there are, unless it is there
void        views_free(Store *store);
bool        views_find(Store *store, const char *name);
// A list with ADDED (may be NULL) and without REMOVED (may be NULL), on disk and in memory.  Needs commit_lock.
weft_status views_change(Store *store, const ViewDef *added, const char *removed, Error *err);

// ---- zone_names.c ---------------------------------------------------------------------------------------------------

#define ZONE_FOLDER "/usr/share/zoneinfo"

// The file of the zone NAME, in whatever case; false: there is none.  PATH has room for MOST bytes.
bool zone_file(const char *name, size_t length, char *path, size_t most);

#endif
