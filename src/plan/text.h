// text.h - UTF-8 text, character by character: what the functions of text share.
//
// Texts are valid UTF-8: literals, files and dictionaries are checked where they come in.

#ifndef WEFT_PLAN_TEXT_H
#define WEFT_PLAN_TEXT_H

#include "plan/plan.h"

enum { TEXT_RESULT_MAX = 256 << 20 };                        // bytes of one text that a function may make

typedef struct Chars { const char *at, *end; } Chars;       // what is left of a text

Chars chars_of(const Value *value);
u32   chars_count(Chars chars);
static inline size_t chars_bytes(Chars chars) { return (size_t)(chars.end - chars.at); }
i32   chars_take(Chars *chars);                             // the next code point; -1: the end
Chars chars_skip(Chars chars, i64 n);                       // without its first N characters, or as many as there are
int   char_put(i32 code_point, char *out);                  // 1 to 4 bytes

i32  char_upper(i32 code_point);                            // simple case mapping: one code point for one
i32  char_lower(i32 code_point);
bool char_is_word(i32 code_point);                          // a letter or a digit

// A text of so many bytes in the arena, NUL-terminated, to be filled in; TOO_LONG past TEXT_RESULT_MAX.
weft_status text_make(Arena *arena, const Expr *call, u64 length, char **bytes, Value *value, Error *err);
void        text_set(Value *value, const char *bytes, size_t length);          // not copied

#endif
