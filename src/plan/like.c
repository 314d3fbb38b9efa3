// like.c - a LIKE whose pattern is literals between percent signs, over many texts at once.
//
// The longest literal is looked for in texts that lie one behind the other, without a look at where each begins; where
// it is found, the text around it is matched with all of the pattern.  Patterns with _ and ILIKE are left to the
// interpreter, text by text (eval_text.c).  A character of UTF-8 does not begin within another, so bytes do.

#include "plan/expr_int.h"
#include "plan/like.h"

// ---- the pattern ----------------------------------------------------------------------------------------------------

typedef struct PatternCursor { const char *at, *end, *escape; size_t escape_length; } PatternCursor;

static bool at_escape(const PatternCursor *cursor)
{
    return cursor->escape_length > 0 && (size_t)(cursor->end - cursor->at) >= cursor->escape_length &&
           memcmp(cursor->at, cursor->escape, cursor->escape_length) == 0;
}

// The literal up to the next % or the end.  False: there is something else in it.
static bool take_literal(PatternCursor *cursor, char *room, weft_text *literal)
{
    *literal = (weft_text){ room, 0 };
    while (cursor->at < cursor->end) {
        if (at_escape(cursor)) {
            cursor->at += cursor->escape_length;
            if (cursor->at == cursor->end) return false;               // an error, which the interpreter raises
        } else if (*cursor->at == '%') {
            break;
        } else if (*cursor->at == '_') {
            return false;
        }
        if (*cursor->at == '\0') return false;
        room[literal->length++] = *cursor->at++;
    }
    return true;
}

static bool split_pattern(Arena *arena, PatternCursor cursor, LikePattern *out)
{
    const size_t length = (size_t)(cursor.end - cursor.at);
    char        *room = arena_alloc(arena, length + 1);
    out->literals = arena_array(arena, weft_text, length + 2);
    for (;;) {
        weft_text *literal = &out->literals[out->n_literals++];
        if (!take_literal(&cursor, room, literal)) return false;
        room += literal->length;
        if (cursor.at == cursor.end) return true;
        cursor.at++;                                                   // the %
    }
}

bool like_prepare(Arena *arena, const Expr *like, const Expr *text, LikePattern *out)
{
    *out = (LikePattern){ 0 };
    if (like->kind != EXPR_CALL || like->op != OP_LIKE || like->args[0] != text) return false;
    for (int i = 1; i < like->n_args; i++)
        if (like->args[i]->kind != EXPR_CONST || like->args[i]->value.is_null) return false;
    const Value  *pattern = &like->args[1]->value, *escape = like->n_args > 2 ? &like->args[2]->value : NULL;
    PatternCursor cursor = { pattern->text.bytes, pattern->text.bytes + pattern->text.length, "\\", 1 };
    if (escape) cursor.escape = escape->text.bytes, cursor.escape_length = escape->text.length;
    if (pattern->text.length == 0 || !split_pattern(arena, cursor, out)) return false;
    weft_text longest = { "", 0 };
    for (int i = 0; i < out->n_literals; i++)
        if (out->literals[i].length > longest.length) longest = out->literals[i];
    out->longest = needle_of(longest.bytes, longest.length);
    out->needles = arena_array(arena, Needle, out->n_literals);
    for (int i = 0; i < out->n_literals; i++)
        out->needles[i] = needle_of(out->literals[i].bytes, out->literals[i].length);
    return longest.length > 0;
}

// ---- one text -------------------------------------------------------------------------------------------------------

static bool begins_with(const char *bytes, size_t length, weft_text literal)
{
    return length >= literal.length && memcmp(bytes, literal.bytes, literal.length) == 0;
}

bool like_matches(const LikePattern *pattern, const char *bytes, size_t length)
{
    const int       last = pattern->n_literals - 1;
    const weft_text begin = pattern->literals[0], end = pattern->literals[last];
    if (!begins_with(bytes, length, begin)) return false;
    if (last == 0) return length == begin.length;
    bytes += begin.length, length -= begin.length;
    if (length < end.length || !begins_with(bytes + length - end.length, end.length, end)) return false;
    length -= end.length;
    for (int i = 1; i < last; i++) {
        const char *found = needle_find(&pattern->needles[i], bytes, length);
        if (!found) return false;
        length -= (size_t)(found - bytes) + pattern->literals[i].length;
        bytes = found + pattern->literals[i].length;
    }
    return true;
}

// ---- many texts -----------------------------------------------------------------------------------------------------

static void set_bit(u64 *bits, u32 code) { bits[code / 64] |= (u64)1 << code % 64; }

static bool matches_at(const LikePattern *pattern, const TextRun *run, u32 at)
{
    const u64 from = text_run_offset(run, at);
    return like_matches(pattern, run->bytes + from, text_run_offset(run, at + 1) - from - 1);
}

// The text, of those from AT on, in which the byte PLACE lies.  It is near, most often.
static u32 text_with(const TextRun *run, u32 at, u32 end, u64 place)
{
    u32 step = 1;
    while (at + step < end && text_run_offset(run, at + step) <= place) at += step, step *= 2;
    u32 high = MIN_OF(at + step, end);                                 // begins behind PLACE, or there is none
    while (high - at > 1) {
        const u32 middle = at + (high - at) / 2;
        if (text_run_offset(run, middle) <= place) at = middle;
        else high = middle;
    }
    return at;
}

static void search_inside(const LikePattern *pattern, const TextRun *run, u32 at, u32 end, u64 *bits)
{
    const bool  is_all = pattern->n_literals == 3 && !pattern->literals[0].length && !pattern->literals[2].length;
    const char *last = run->bytes + text_run_offset(run, end), *from = run->bytes + text_run_offset(run, at);
    while (at < end) {
        const char *found = needle_find(&pattern->longest, from, (size_t)(last - from));
        if (!found) return;
        at = text_with(run, at, end, (u64)(found - run->bytes));
        if (is_all || matches_at(pattern, run, at)) set_bit(bits, run->first + at);
        from = run->bytes + text_run_offset(run, ++at);
    }
}

void like_search(const LikePattern *pattern, const TextRun *run, u32 first, u32 end, u64 *bits)
{
    u32       at = first - run->first;
    const u32 last = end - run->first;
    if (pattern->literals[0].length == 0) {
        search_inside(pattern, run, at, last, bits);
        return;
    }
    for (; at < last; at++)
        if (matches_at(pattern, run, at)) set_bit(bits, run->first + at);
}
