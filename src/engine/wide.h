// wide.h - numbers of 128 bits between pipelines (wide.c).

#ifndef WEFT_ENGINE_WIDE_H
#define WEFT_ENGINE_WIDE_H

#include "engine/engine.h"

// Whether EXPR, a value of PIPELINE, may need 128 bits.  All that the pipeline reads is there.
bool wide_is_needed(const QueryRun *run, const Pipeline *pipeline, const Expr *expr);
// Keys, payloads and outputs of a pipeline that need 128 bits become two, of a word each, and so do the keys that probe
// its table.  Once for each pipeline, when its turn has come.
void wide_prepare(QueryRun *run, int pipeline);
// A pipeline that was cut again probes tables whose keys were made two before.
void wide_follow(QueryRun *run, int pipeline);
// Columns as outputs between two kernels: an expression each, or one for each of two words.
Expr **wide_columns(QueryRun *run, const Pipeline *pipeline, const ColumnSet *columns, int *n_exprs);
int    wide_column_id(const Expr *output);     // of such an expression, for the kernel that reads it

const char *wide_column_name(const QueryRun *run, int id);     // for people, of low words too
bool   wide_has_digits(i128 value);            // 38 at most

// Words of a column (weave_low_id): both signed.
static inline i128 wide_of_words(i64 high, i64 low) { return (i128)(((u128)(u64)high << 64) + (u128)(i128)low); }
static inline i64  wide_high_word(i128 number) { return (i64)((number - (i64)number) >> 64); }
// Words of an accumulator: two's complement.
static inline i128 wide_of_cells(i64 high, i64 low) { return (i128)((u128)(u64)high << 64 | (u64)low); }

#endif
