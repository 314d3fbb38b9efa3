// gen_tpch_int.h - what the tables of TPC-H (gen_tpch.c) are made from: streams of random numbers (gen_random.c), and
// the text that comments are cut from (gen_tpch_text.c).

#ifndef WEFT_GEN_TPCH_INT_H
#define WEFT_GEN_TPCH_INT_H

#include "shell/gen_int.h"

enum {
    TPCH_LINES_MAX = 7,                // of an order
    TPCH_SUPPLIERS = 4                 // of a part
};

// ---- random numbers: each column has a stream of its own ------------------------------------------------------------
//
//     Stream streams[STREAM_N];
//     streams_enter(streams, STREAM_S_ADDRESS, STREAM_S_PRESS_PLACE, row);         // any row, counted from 0
//     i64 nation = stream_draw(&streams[STREAM_S_NATION], 0, 24);
//     streams_next_row(streams, STREAM_S_ADDRESS, STREAM_S_PRESS_PLACE);           // however many were drawn
//
// A stream is the generator of Park and Miller (1988): the next number is the last one times 16807, modulo 2^31 - 1.
// Every row owns the same number of draws, used or not, so the number before row R is the seed times a power of 16807.

// Columns of one table stand together, so that a range of streams moves on by a row.  In partsupp, a row here is a part
// with all its suppliers.  Orders and lineitem share a range, and a row is an order: lineitem needs no stream before
// O_DATE, orders none behind L_SHIP_DATE.
typedef enum StreamName {
    STREAM_P_NAME, STREAM_P_MFGR, STREAM_P_BRAND, STREAM_P_TYPE, STREAM_P_SIZE, STREAM_P_CONTAINER, STREAM_P_COMMENT,
    STREAM_PS_QUANTITY, STREAM_PS_COST, STREAM_PS_COMMENT,
    STREAM_S_ADDRESS, STREAM_S_NATION, STREAM_S_PHONE, STREAM_S_BALANCE, STREAM_S_COMMENT,
    STREAM_S_PRESS, STREAM_S_PRESS_KIND, STREAM_S_PRESS_GAP, STREAM_S_PRESS_PLACE,
    STREAM_C_ADDRESS, STREAM_C_NATION, STREAM_C_PHONE, STREAM_C_BALANCE, STREAM_C_SEGMENT, STREAM_C_COMMENT,
    STREAM_O_CUSTOMER, STREAM_O_PRIORITY, STREAM_O_CLERK, STREAM_O_COMMENT, STREAM_O_DATE, STREAM_O_LINES,
    STREAM_L_QUANTITY, STREAM_L_DISCOUNT, STREAM_L_TAX, STREAM_L_PART, STREAM_L_SHIP_DATE,
    STREAM_L_SUPPLIER, STREAM_L_COMMIT_DATE, STREAM_L_RECEIPT_DATE, STREAM_L_RETURN_FLAG,
    STREAM_L_INSTRUCTION, STREAM_L_MODE, STREAM_L_COMMENT,
    STREAM_N_COMMENT, STREAM_R_COMMENT,
    STREAM_TEXT,                       // the grammar's choices
    STREAM_N
} StreamName;

typedef struct RandomStream {
    u32 value;                         // the last number drawn
    u32 row_value;                     // the last number before this row's
    u32 row_factor;                    // leads from row to row: 16807 to the power of a row's draws
} RandomStream;

enum { STREAM_FACTOR = 16807, STREAM_MODULUS = 2147483647 };

static inline u32 stream_times(u32 value, u32 factor)
{
    return (u32)((u64)value * factor % STREAM_MODULUS);
}

// A share of RANGE: from 0 to below it, or, where the range is negative, from above it to 0.
static inline i64 stream_share(RandomStream *stream, double range)
{
    stream->value = stream_times(stream->value, STREAM_FACTOR);
    return (i64)((double)stream->value / STREAM_MODULUS * range);
}

// LOW to HIGH, both included.
static inline i64 stream_draw(RandomStream *stream, i64 low, i64 high)
{
    return low + stream_share(stream, (double)(high - low + 1));
}

static inline void streams_next_row(RandomStream *streams, StreamName first, StreamName last)
{
    for (int i = first; i <= (int)last; i++)
        streams[i].value = streams[i].row_value = stream_times(streams[i].row_value, streams[i].row_factor);
}

// Makes streams FIRST to LAST ready for row ROW, counted from 0.
void streams_enter(RandomStream *streams, StreamName first, StreamName last, u64 row);

// ---- text -----------------------------------------------------------------------------------------------------------

enum { TPCH_TEXT_BYTES = 300 << 20 };

// TPCH_TEXT_BYTES of sentences, always the same ones, made by the pool's workers.  The caller frees them with
// tpch_text_free.
weft_status tpch_text_make(Pool *pool, const char **text, Error *err);
void        tpch_text_free(const char *text);               // NULL is fine

#endif
