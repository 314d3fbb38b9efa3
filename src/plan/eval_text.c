// eval_text.c - LIKE and ILIKE over UTF-8.
//
// One pass with one place to go back to: after a % the pattern so far is settled, so a later mismatch only ever moves
// the last % by one character.  At worst text length times pattern length, never exponential.  ILIKE compares
// characters as lower() makes them: one for one, though one may have more bytes than the other.

#define _GNU_SOURCE                    // memmem
#include "plan/expr_int.h"
#include "plan/text.h"

typedef struct Matcher {
    const unsigned char *text, *text_end;
    const unsigned char *pattern, *pattern_end;
    const unsigned char *escape;
    size_t               escape_length;
    bool                 fold_case;
    bool                 is_cut;                            // the pattern ended right after its escape character
} Matcher;

static size_t character_length(const unsigned char *p, const unsigned char *end)
{
    const size_t length = *p >= 0xF0 ? 4 : *p >= 0xE0 ? 3 : *p >= 0xC0 ? 2 : 1;
    return MIN_OF(length, (size_t)(end - p));
}

// Compares two characters and moves past both where they are the same but for case.
static bool match_folded(Matcher *m)
{
    Chars     text = { (const char *)m->text, (const char *)m->text_end };
    Chars     pattern = { (const char *)m->pattern, (const char *)m->pattern_end };
    const i32 a = chars_take(&text), b = chars_take(&pattern);
    if (a != b && char_lower(a) != char_lower(b)) return false;
    m->text = (const unsigned char *)text.at;
    m->pattern = (const unsigned char *)pattern.at;
    return true;
}

static bool at_escape(const Matcher *m)
{
    return m->escape_length > 0 && (size_t)(m->pattern_end - m->pattern) >= m->escape_length &&
           memcmp(m->pattern, m->escape, m->escape_length) == 0;
}

static bool at_percent(const Matcher *m)
{
    return m->pattern < m->pattern_end && !at_escape(m) && *m->pattern == '%';
}

// Moves past one character of the text and its counterpart in the pattern.
static bool match_one(Matcher *m)
{
    if (m->pattern == m->pattern_end) return false;
    if (at_escape(m)) {
        m->pattern += m->escape_length;
        m->is_cut = m->pattern == m->pattern_end;
        if (m->is_cut) return false;
    } else if (*m->pattern == '_') {
        m->pattern++;
        m->text += character_length(m->text, m->text_end);
        return true;
    }
    if (m->fold_case) return match_folded(m);
    const size_t length = character_length(m->pattern, m->pattern_end);
    if ((size_t)(m->text_end - m->text) < length || memcmp(m->text, m->pattern, length) != 0) return false;
    m->text += length;
    m->pattern += length;
    return true;
}

// How many bytes of the pattern, from here on, stand for themselves.
static size_t literal_length(const Matcher *m)
{
    Matcher at = *m;
    while (at.pattern < at.pattern_end && !at_percent(&at) && !at_escape(&at) && *at.pattern != '_') at.pattern++;
    return (size_t)(at.pattern - m->pattern);
}

// After a %: on to the next place in the text where the literal that follows begins.  False: there is none.  No
// character begins within another, so that place is the beginning of one.
static bool skip_to_literal(Matcher *m)
{
    const size_t length = m->fold_case ? 0 : literal_length(m);
    if (!length) return true;
    const void *found = memmem(m->text, (size_t)(m->text_end - m->text), m->pattern, length);
    if (!found) return false;
    m->text = found;
    return true;
}

static bool match_all(Matcher *m)
{
    const unsigned char *retry_text = NULL, *retry_pattern = NULL;     // where the last % stands
    while (m->text < m->text_end) {
        if (at_percent(m)) {
            retry_pattern = ++m->pattern;
            if (m->pattern == m->pattern_end) return true;
        } else if (!match_one(m)) {
            if (m->is_cut || !retry_text) return false;
            m->text = retry_text + character_length(retry_text, m->text_end);
            m->pattern = retry_pattern;
        } else {
            continue;
        }
        if (!skip_to_literal(m)) return false;
        retry_text = m->text;
    }
    while (at_percent(m)) m->pattern++;
    return m->pattern == m->pattern_end;
}

weft_status like_match(const Value *text, const Value *pattern, const char *escape, size_t escape_length,
                       bool fold_case, int at, bool *matches, Error *err)
{
    const unsigned char *text_bytes = (const unsigned char *)(text->text.bytes ? text->text.bytes : "");
    const unsigned char *pattern_bytes = (const unsigned char *)(pattern->text.bytes ? pattern->text.bytes : "");
    Matcher matcher = {
        .text = text_bytes,         .text_end = text_bytes + text->text.length,
        .pattern = pattern_bytes,   .pattern_end = pattern_bytes + pattern->text.length,
        .escape = (const unsigned char *)escape, .escape_length = escape_length, .fold_case = fold_case,
    };
    *matches = match_all(&matcher);
    if (!matcher.is_cut) return WEFT_OK;
    return fail(err, WEFT_BAD_ESCAPE, at, "LIKE pattern must not end with escape character");
}
