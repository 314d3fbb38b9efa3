// pieces.h - equal pieces of work that exist once for all running queries: join tables, and whole pipelines in flight.
//
//     TRY(pieces_get(pieces, signature, stop, &piece, &must_make, err));
//     if (must_make) ... make it in piece_arena(piece), then piece_made(pieces, piece, value, ok, keep) ...
//     ... piece_value(piece) ...
//     piece_release(pieces, piece);                    // the last user's release frees the arena, or keeps it
//
// A piece whose maker says so (piece_keep) stays when no query uses it any more, for queries to come: dashboards ask
// for the same rows of a dimension over and over.  Those that were used last stay, as far as there is room, until
// pieces_trim: when memory is short, or a table has changed.
//
// A signature says everything that decides the piece: tables and their versions, filters with their constants, keys,
// columns.
// Whoever asks while a piece is being made waits for it.  When making fails, one of those who wait makes it anew: a
// query that
// fails or is cancelled never hurts another.

#ifndef WEFT_PIECES_H
#define WEFT_PIECES_H

#include "base/base.h"

typedef struct Pieces Pieces;
typedef struct Piece Piece;

Pieces *pieces_new(void);
void    pieces_free(Pieces *pieces);

weft_status pieces_get(Pieces *pieces, const char *signature, const _Atomic u32 *stop, Piece **piece, bool *must_make,
                       Error *err);
// The query whose flag STOP is sees it now, if it waits for a piece.
void        pieces_wake(Pieces *pieces, const _Atomic u32 *stop);
// KEEP: others may find it as long as somebody uses it.  Otherwise it serves those who wait for it now, and no one
// later.
void        piece_made(Pieces *pieces, Piece *piece, void *value, bool ok, bool keep);
// By its maker, before it is made: it may stay though no query uses it.  SHARE: of the room for all that stays.
// Its arena holds what it needs and lives elsewhere.
void        piece_keep(Piece *piece, double share);
void        pieces_trim(Pieces *pieces);                               // frees what stays and no query uses
Arena      *piece_arena(Piece *piece);
// What is to be told to all who get it, by its maker before it is made.
void        piece_add_notice(Piece *piece, const char *notice);
int         piece_notices(const Piece *piece);
const char *piece_notice(const Piece *piece, int n);
void       *piece_value(const Piece *piece);
void        piece_release(Pieces *pieces, Piece *piece);               // NULL is fine
u64         pieces_shared(const Pieces *pieces);                       // how often one was found instead of made
int         pieces_count(const Pieces *pieces);                        // that some query uses now
int         pieces_kept(Pieces *pieces);                               // that none does

#endif
