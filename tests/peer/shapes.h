// shapes.h - texts with other constants, for shapes.c; apart, since src/sql and random.h both know a JoinKind.

#ifndef WEFT_SHAPES_H
#define WEFT_SHAPES_H

#include <stdint.h>

#include "base/base.h"

// SQL with some of its literals replaced, in ARENA.  STATE is that of the random numbers.
char   *text_with_others(Arena *arena, const char *sql, uint64_t *state);
int64_t trees_found(void);                                  // parse trees of earlier texts, by this process

#endif
