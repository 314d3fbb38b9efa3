// manual.h - functions and aggregates as people see them: names for hints and completion, and the manual.

#ifndef WEFT_MANUAL_H
#define WEFT_MANUAL_H

#include "base/base.h"

const char *manual_name(int n);                             // of functions, aggregates and forms; NULL past the last
const char *manual_field(int n);                            // of extract
const char *manual_list(Arena *arena, const char *(*name)(int n));             // "a, b and c", cut
void        manual_write(Text *text);                       // docs/functions.md

#endif
