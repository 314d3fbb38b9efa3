// copy_int.h - shared by the parts of COPY only: copy.c reads blocks of whole lines, copy_returns.c sees to lines that
// end in CR, copy_json.c turns lines of JSON into lines of text, copy_index.c finds where the fields end, copy_clean.c
// takes off quotes and escapes, copy_parse.c turns fields into column values, copy_sift.c leaves out bad rows,
// copy_hint.c guesses why a row is bad.

#ifndef WEFT_COPY_INT_H
#define WEFT_COPY_INT_H

#include "store/store.h"

// Blocks are read and parsed with loads of whole words, so their memory goes on a little behind the last line.
enum { BLOCK_PADDING = 64 };

// ---- large memory that grows ----------------------------------------------------------------------------------------

typedef struct CopySpace { char *bytes; size_t capacity; } CopySpace;

// Both make it larger when it is too small; reserve loses the contents, grow keeps the first N_KEPT bytes.
weft_status copy_space_reserve(CopySpace *space, size_t capacity, Budget *budget, Error *err);
weft_status copy_space_grow(CopySpace *space, size_t capacity, size_t n_kept, Budget *budget, Error *err);
void        copy_space_free(CopySpace *space, Budget *budget);
void        copy_space_swap(CopySpace *a, CopySpace *b);

// ---- a block: whole lines of the file -------------------------------------------------------------------------------

typedef struct CopyBlock {
    const char *bytes;                 // the first byte of a line
    size_t      length;                // up to and with the last line's '\n'
    u64         sequence;              // 0, 1, 2, ... in file order
    bool        is_last;
} CopyBlock;

// What is known of a block while it is being read.
typedef struct LineScan {
    size_t n_scanned;
    bool   is_inside, is_escaped;      // csv: the state behind the scanned bytes
    size_t end;                        // behind the last new line that ends a row; 0 when there is none
} LineScan;

// Goes on with the bytes behind those that were scanned.  All zero: at the begin of a line.
void copy_scan_lines(LineScan *scan, const CopyOptions *options, const char *bytes, size_t length);

// Lines that end in CR alone, while a file is read.  All zero: at its begin.
typedef struct CopyReturns {
    bool is_found;                     // its first line ends so
    bool is_over;                      // it does not: there is nothing to do
    bool is_mixed;                     // another line end was met, which is an error once all lines before it were read
    bool is_inside, is_escaped;        // csv: in quotes; csv and text: behind an escape
} CopyReturns;

// Makes new lines of the line ends among the bytes from *N_SEEN on, which becomes LENGTH; or a byte less where the next
// byte has to tell what kind they are.  Until they are known, BYTES is the begin of the file.  Where another line end
// is met, *N_SEEN stays at it.
void copy_returns_mend(CopyReturns *state, const CopyOptions *options, char *bytes, size_t length, bool is_end,
                       size_t *n_seen);
weft_status copy_returns_fail(const CopyOptions *options, Error *err);         // for what is mixed

// What a worker has of memory, for the next that needs it: large memory is expensive to get, clear and give back.
typedef struct CopyMemory { CopySpace ends, row_ends, values; } CopyMemory;

// Lines in memory as (a part of) the file.  They are parsed where they lie; behind them there is room for BLOCK_PADDING
// bytes.
typedef struct CopyLines {
    char       *bytes;
    size_t      length;
    CopyMemory *memory;                // of as many workers as the pool has
    u64         n_before;              // new lines of the file before these
    bool        is_continued, is_end;  // there are lines before; there are none behind
} CopyLines;

struct StoredChunk;

// The rows of LINES as pieces of TABLE, in order; PATH is for messages.  No append need be open; the table's
// dictionaries are loaded.  The caller releases the pieces, also after a failure.
weft_status copy_lines_to_pieces(const Table *table, Pool *pool, Budget *budget, const char *path,
                                 const CopyOptions *options, const CopyLines *lines, struct StoredChunk **pieces,
                                 CopyFigures *figures, Error *err);

// ---- where the fields end -------------------------------------------------------------------------------------------

typedef struct FieldIndex {
    u32      *ends;                    // offset of the delimiter or new line behind each field; ends[-1] + 1 is 0
    u32      *row_ends;                // for each row the place of its last field in ENDS; row_ends[-1] + 1 is 0
    u32       n_ends, n_rows;
    u32       fields_per_row;          // 0: not all rows have the same number
    u32       n_newlines;              // also those inside quotes and behind a backslash
    bool      has_special;             // a quote (csv) or a backslash (text) somewhere in the block
    bool      has_returns;             // a row may end in "\r\n"
    bool      is_whole;                // false: the block ends inside quotes, or behind a backslash
    CopySpace ends_memory, rows_memory;
} FieldIndex;

weft_status copy_index_block(FieldIndex *index, const CopyBlock *block, const CopyOptions *options, Budget *budget,
                             Error *err);
void        copy_index_free(FieldIndex *index, Budget *budget);
bool        copy_is_odd(const char *bytes, size_t length, char quote);          // the number of quotes in them

// ---- from fields to columns -----------------------------------------------------------------------------------------

typedef struct FieldText { const char *bytes; size_t length; } FieldText;

// Takes quotes and escapes off a field.  What is left is part of it, or in SCRATCH; in both, 16 bytes may be loaded
// from its begin whatever its length.
weft_status copy_clean_field(const CopyOptions *options, FieldText *field, CopySpace *scratch, Budget *budget,
                             Error *err);

// What is wrong with the file, and where.
typedef struct CopyProblem {
    Error error;
    u64   sequence;                    // of the block
    i64   line;                        // new lines in the block before the bad one; -1: it has no line
    int   column;                      // of the table; -1: none
    u32   row, row_start, row_end;     // the row's number in the block, and its bytes with the new line
} CopyProblem;

typedef struct CopyParser CopyParser;                      // one per worker

// The table and the options must outlive the parser.  COLUMNS says which column each field is.
CopyParser *copy_parser_new(Arena *arena, const Table *table, const CopyOptions *options, const int *columns,
                            int n_fields, Budget *budget);
void        copy_parser_free(CopyParser *parser);          // its large memory; the rest lives in the arena
// On failure PROBLEM tells the first bad line of the block, and of that line the first bad field.
weft_status copy_parser_run(CopyParser *parser, const CopyBlock *block, CopyProblem *problem);
void        copy_parser_swap(CopyParser *parser, CopyMemory *memory);      // its memory for that
const ColumnInput *copy_parser_columns(const CopyParser *parser, u32 *n_rows);
u32         copy_parser_newlines(const CopyParser *parser);       // in the last block
const FieldIndex *copy_parser_index(const CopyParser *parser);    // of the last block
void        copy_parser_clear(CopyParser *parser);                // as after a block without rows

// ---- JSON: an object on each line -----------------------------------------------------------------------------------

typedef struct CopyJson CopyJson;                          // one per worker

CopyJson   *copy_json_new(Arena *arena, const Table *table, const int *columns, int n_fields, Budget *budget);
void        copy_json_free(CopyJson *json);                // NULL is fine
// *MADE holds the same rows in the text format, up to the first bad line, and is good until the next call.
weft_status copy_json_block(CopyJson *json, const CopyBlock *block, CopyBlock *made, CopyProblem *problem);
// From the place of a problem in what was made to its place in BLOCK.
void        copy_json_place(const CopyJson *json, const CopyBlock *block, CopyProblem *problem);

// Calls MEMBER for each key and value of the object on a line, escapes resolved, up to the first mistake; false: there
// is one.
typedef void JsonMember(void *context, FieldText key, FieldText value, bool is_string);
bool        copy_json_members(const char *line, size_t length, JsonMember *member, void *context);

// ---- a worker's way from a block to rows ----------------------------------------------------------------------------

typedef struct CopyRows {
    const CopyOptions *options;
    Budget     *budget;
    CopyParser *parser;
    CopyJson   *json;                  // NULL: another format
    Text        kept;                  // copy_sift.c: the block without its bad rows
    Text        rejected;              // and those, as they stand in the file
    CopySpace   bounds;                // where its rows end
    u64         n_rejected;
    CopyProblem first_rejected;        // of the block
    u32         n_newlines;            // of the last block
} CopyRows;

// The rows of BLOCK, in the parser.  With ON_ERROR ignore bad rows are left out, and are in REJECTED.
weft_status copy_rows_run(CopyRows *rows, const CopyBlock *block, CopyProblem *problem);
void        copy_rows_free(CopyRows *rows);

// Adds to the problem's error what the user probably wants, judging by the text of the row.
void        copy_hint(const CopyOptions *options, const CopyBlock *block, int n_fields, CopyProblem *problem);

// ---- for tests ------------------------------------------------------------------------------------------------------

void copy_set_block_bytes(size_t bytes);                   // how much is read at once; 0: the default
// Without the fast ways: what copy_index.c has for any CPU, and value_parse() for all but text.
void copy_set_careful(bool is_careful);
bool copy_is_careful(void);

#endif
