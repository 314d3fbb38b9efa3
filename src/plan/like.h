// like.h - LIKE over many texts at once, for patterns of literals between percent signs.

#ifndef WEFT_PLAN_LIKE_H
#define WEFT_PLAN_LIKE_H

#include "plan/plan.h"

typedef struct LikePattern {           // literal % literal % ... literal; the first and the last may be empty
    int        n_literals;
    weft_text *literals;
    Needle    *needles;                // the same
    Needle     longest;
} LikePattern;

// Takes apart the pattern of LIKE, which tests TEXT.  False: it is ILIKE, or its pattern is no constant, has no literal
// or more than literals and percent signs.
bool like_prepare(Arena *arena, const Expr *like, const Expr *text, LikePattern *out);
bool like_matches(const LikePattern *pattern, const char *bytes, size_t length);
// Sets the bits, by code, of the texts FIRST .. END - 1 of the run that match.  Any thread; threads that share a word
// of BITS must not call it at the same time.
void like_search(const LikePattern *pattern, const TextRun *run, u32 first, u32 end, u64 *bits);

#endif
