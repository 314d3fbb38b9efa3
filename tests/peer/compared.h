// compared.h - queries of one shape whose literals are compared in WHERE and ON, for shapes.c.

#ifndef WEFT_COMPARED_H
#define WEFT_COMPARED_H

#include "random.h"

// The query of a number; VALUES draws its literals, so that it is the same query with other constants each time.
char *compared_sql(Arena *arena, const DataSet *data, uint64_t number, Rng *values);

#endif
