// guess.h - what a file of CSV or JSON lines holds: the names and types of its columns, and how COPY is to read it.

#ifndef WEFT_GUESS_H
#define WEFT_GUESS_H

#include "store/store.h"

typedef struct Guess {
    CopyOptions options;
    int         n_columns;
    ColumnDef  *columns;
    bool        has_header;            // csv: the first line has the names
} Guess;

// "csv" or "json" by the suffix of a file's name (.csv, .tsv, .json, .jsonl, .ndjson, with .gz or .zst behind it or
// not); NULL: it has another.
const char *guess_format(const char *name);

// Looks at the first few megabytes.  FORMAT NULL: by the name, else csv.  All of *OUT lives in the arena.
weft_status guess_file(Arena *arena, const char *path, const char *format, const _Atomic bool *cancel, Guess *out,
                       Error *err);
// After COPY has failed because a value did not fit its column: makes that column text.  False: it was something else.
bool        guess_widen(Guess *guess, const Error *error);

#endif
