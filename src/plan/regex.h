// regex.h - regular expressions: PCRE2 behind PostgreSQL's flags, with limits on what a match may cost.
//
//     const Regex *regex;
//     TRY(regex_get(&pattern, "i", at, &regex, err));       // of this thread, compiled once; valid until the next call
//     TRY(regex_find(regex, text, 0, at, &match, err));
//
// A pattern that takes too much to match is an error (54001), never a hang.  docs/text.md lists what differs from
// PostgreSQL.

#ifndef WEFT_REGEX_H
#define WEFT_REGEX_H

#include "plan/text.h"

enum { REGEX_GROUPS = 10 };                                 // \0 to \9

typedef struct Regex Regex;

typedef struct RegexMatch {
    bool   is_found;
    int    n_groups;                                        // in the pattern, without the whole
    size_t begin[REGEX_GROUPS], end[REGEX_GROUPS];          // 0: the whole; SIZE_MAX: not part of the match
} RegexMatch;

// FLAGS: PostgreSQL's letters (c i m n p q s t w x; g and what else there is, is an error).
weft_status regex_get(const Value *pattern, const char *flags, size_t n_flags, int at, const Regex **regex, Error *err);
// The first match that begins at byte FROM or later.
weft_status regex_find(const Regex *regex, Chars text, size_t from, int at, RegexMatch *match, Error *err);

#endif
