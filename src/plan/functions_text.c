// functions_text.c - functions of text, as PostgreSQL has them.  Positions and lengths count characters.

#define _GNU_SOURCE                    // memmem
#include "plan/functions.h"

#include "plan/expr_int.h"
#include "plan/text.h"

#include <md5.h>

#define EVAL(name)                                                                                  \
    static weft_status name(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)

static weft_status give_chars(Chars chars, Value *value)
{
    text_set(value, chars.at, chars_bytes(chars));
    return WEFT_OK;
}

// ---- case -----------------------------------------------------------------------------------------------------------

// A code point and the one that it maps to may differ in length, by no more than one to three.
static weft_status map_chars(Arena *arena, const Expr *call, Chars from, i32 (*map)(i32 c, bool *in_word), Value *value,
                             Error *err)
{
    char *out;
    bool  in_word = false;
    TRY(text_make(arena, call, 3 * (u64)chars_bytes(from), &out, value, err));
    char *at = out;
    while (from.at < from.end) at += char_put(map(chars_take(&from), &in_word), at);
    text_set(value, out, (size_t)(at - out));
    return WEFT_OK;
}

static i32 to_upper(i32 c, bool *in_word) { return char_upper(c); }
static i32 to_lower(i32 c, bool *in_word) { return char_lower(c); }

static i32 to_title(i32 c, bool *in_word)
{
    const bool is_first = !*in_word;
    *in_word = char_is_word(c);
    return is_first ? char_upper(c) : char_lower(c);
}

EVAL(eval_upper) { return map_chars(arena, call, chars_of(&args[0]), to_upper, value, err); }
EVAL(eval_lower) { return map_chars(arena, call, chars_of(&args[0]), to_lower, value, err); }
EVAL(eval_initcap) { return map_chars(arena, call, chars_of(&args[0]), to_title, value, err); }

// ---- lengths and places ---------------------------------------------------------------------------------------------

EVAL(eval_length)
{
    value->i = chars_count(chars_of(&args[0]));
    return WEFT_OK;
}

EVAL(eval_octet_length)
{
    value->i = args[0].text.length;
    return WEFT_OK;
}

EVAL(eval_bit_length)
{
    value->i = (i128)8 * args[0].text.length;
    return value_fits(value->i, TYPE(INTEGER)) ? WEFT_OK : range_error(TYPE(INTEGER), call->at, err);
}

// No character of UTF-8 begins within another, so bytes are as good as characters.
static const char *find(Chars in, Chars what)
{
    return chars_bytes(what) ? memmem(in.at, chars_bytes(in), what.at, chars_bytes(what)) : in.at;
}

EVAL(eval_strpos)
{
    const Chars text = chars_of(&args[0]);
    const char *found = find(text, chars_of(&args[1]));
    value->i = found ? 1 + (i64)chars_count((Chars){ text.at, found }) : 0;
    return WEFT_OK;
}

EVAL(eval_starts_with)
{
    const Chars text = chars_of(&args[0]), start = chars_of(&args[1]);
    value->i = chars_bytes(start) <= chars_bytes(text) && memcmp(text.at, start.at, chars_bytes(start)) == 0;
    return WEFT_OK;
}

EVAL(eval_ascii)
{
    Chars     text = chars_of(&args[0]);
    const i32 first = chars_take(&text);
    value->i = MAX_OF(first, 0);
    return WEFT_OK;
}

EVAL(eval_chr)
{
    char *out;
    const i128 c = args[0].i;
    if (c < 0) return fail(err, WEFT_TOO_LONG, call->at, "character number must be positive");
    if (c == 0) return fail(err, WEFT_TOO_LONG, call->at, "null character not permitted");
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return fail(err, WEFT_TOO_LONG, call->at, "requested character too large for encoding: %lld", (long long)c);
    TRY(text_make(arena, call, 4, &out, value, err));
    text_set(value, out, (size_t)char_put((i32)c, out));
    return WEFT_OK;
}

// ---- parts ----------------------------------------------------------------------------------------------------------

static Chars first_chars(Chars text, i64 n)
{
    return (Chars){ text.at, chars_skip(text, n).at };
}

// Characters FIRST (from 1 on, or before) up to END, which is left out.
static Chars between(Chars text, i64 first, i64 end)
{
    const Chars from = chars_skip(text, first - 1);
    return first_chars(from, end - MAX_OF(first, 1));
}

EVAL(eval_substring) { return give_chars(chars_skip(chars_of(&args[0]), (i64)args[1].i - 1), value); }

EVAL(eval_substring_length)
{
    const i64 first = (i64)args[1].i, length = (i64)args[2].i;
    if (length < 0) return fail(err, WEFT_BAD_SUBSTRING, call->at, "negative substring length not allowed");
    return give_chars(between(chars_of(&args[0]), first, first + length), value);
}

// Below zero: all but so many.
static i64 wanted_chars(Chars text, i64 n) { return n >= 0 ? n : MAX_OF((i64)chars_count(text) + n, 0); }

EVAL(eval_left)
{
    const Chars text = chars_of(&args[0]);
    return give_chars(first_chars(text, wanted_chars(text, (i64)args[1].i)), value);
}

// For a column of varchar(n) or char(n), by the code of its type: blanks past its length are cut off, anything else is
// an error.
EVAL(eval_fitted)
{
    const Chars text = chars_of(&args[0]);
    size_t      length = chars_bytes(text);
    Error       local;
    (void)arena;
    error_clear(&local);
    if (value_fit_text(type_text((int)args[1].i), text.at, &length, &local))
        return fail(err, local.status, call->at, "%s", local.message);
    return give_chars((Chars){ text.at, text.at + length }, value);
}

EVAL(eval_right)
{
    const Chars text = chars_of(&args[0]);
    const i64   n = (i64)args[1].i;
    return give_chars(chars_skip(text, n >= 0 ? (i64)chars_count(text) - n : -n), value);
}

static bool has_char(Chars set, i32 c)
{
    while (set.at < set.end)
        if (chars_take(&set) == c) return true;
    return false;
}

static Chars trimmed_left(Chars text, Chars set)
{
    for (Chars rest = text; rest.at < rest.end; text = rest)
        if (!has_char(set, chars_take(&rest))) return text;
    return text;
}

static Chars trimmed_right(Chars text, Chars set)
{
    while (text.at < text.end) {
        const char *last = text.end - 1;
        while (last > text.at && ((unsigned char)*last & 0xC0) == 0x80) last--;
        Chars one = { last, text.end };
        if (!has_char(set, chars_take(&one))) break;
        text.end = last;
    }
    return text;
}

static Chars set_of(const Expr *call, const Value *args)
{
    static const char blank[] = " ";
    return call->n_args > 1 ? chars_of(&args[1]) : (Chars){ blank, blank + 1 };
}

EVAL(eval_ltrim) { return give_chars(trimmed_left(chars_of(&args[0]), set_of(call, args)), value); }
EVAL(eval_rtrim) { return give_chars(trimmed_right(chars_of(&args[0]), set_of(call, args)), value); }

EVAL(eval_btrim)
{
    const Chars set = set_of(call, args);
    return give_chars(trimmed_right(trimmed_left(chars_of(&args[0]), set), set), value);
}

// Moves past the next delimiter; what stood before it.  *IS_LAST: there was no more of them.
static Chars next_part(Chars *text, Chars delimiter, bool *is_last)
{
    const char *found = chars_bytes(delimiter) ? find(*text, delimiter) : NULL;
    const Chars part = { text->at, found ? found : text->end };
    *is_last = !found;
    text->at = found ? found + chars_bytes(delimiter) : text->end;
    return part;
}

EVAL(eval_split_part)
{
    Chars       text = chars_of(&args[0]), part = { "", "" };
    const Chars delimiter = chars_of(&args[1]);
    i64         n = (i64)args[2].i, n_parts = 0;
    bool        is_last = false;
    if (n == 0) return fail(err, WEFT_INVALID_PARAMETER, call->at, "field position must not be zero");
    if (!chars_bytes(text)) return give_chars(part, value);
    for (Chars rest = text; n < 0 && !is_last; n_parts++) next_part(&rest, delimiter, &is_last);
    if (n < 0) n += n_parts + 1;
    is_last = n < 1;
    for (; n > 0 && !is_last; n--) part = next_part(&text, delimiter, &is_last);
    return give_chars(n == 0 ? part : (Chars){ "", "" }, value);
}

// ---- new texts ------------------------------------------------------------------------------------------------------

static char *put(char *at, Chars chars)
{
    memcpy(at, chars.at, chars_bytes(chars));
    return at + chars_bytes(chars);
}

EVAL(eval_concat)
{
    char       *out;
    const Chars a = chars_of(&args[0]), b = chars_of(&args[1]);
    TRY(text_make(arena, call, (u64)chars_bytes(a) + chars_bytes(b), &out, value, err));
    put(put(out, a), b);
    return WEFT_OK;
}

// Each C is doubled; the text stands between two of QUOTE.
static weft_status quoted(Arena *arena, const Expr *call, Chars text, char quote, Value *value, Error *err)
{
    const bool has_backslash = quote == '\'' && memchr(text.at, '\\', chars_bytes(text));
    char      *out;
    TRY(text_make(arena, call, 2 * (u64)chars_bytes(text) + 3, &out, value, err));
    char *at = out;
    if (has_backslash) *at++ = 'E';
    *at++ = quote;
    for (const char *from = text.at; from < text.end; from++) {
        if (*from == quote || (has_backslash && *from == '\\')) *at++ = *from;
        *at++ = *from;
    }
    *at++ = quote;
    text_set(value, out, (size_t)(at - out));
    return WEFT_OK;
}

EVAL(eval_quote_literal) { return quoted(arena, call, chars_of(&args[0]), '\'', value, err); }

// Words that PostgreSQL puts in quotes: those that cannot name a column or a table.
static bool is_keyword(Chars text)
{
    static const char *const words[] = {
        "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
        "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
        "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
        "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user", "dec",
        "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists", "extract",
        "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest", "group",
        "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer", "intersect", "interval",
        "into", "is", "isnull", "join", "lateral", "leading", "least", "left", "like", "limit", "localtime",
        "localtimestamp", "national", "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif",
        "numeric", "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing", "position",
        "precision", "primary", "real", "references", "returning", "right", "row", "select", "session_user", "setof",
        "similar", "smallint", "some", "substring", "symmetric", "table", "tablesample", "then", "time", "timestamp",
        "to", "trailing", "treat", "trim", "true", "union", "unique", "user", "using", "values", "varchar", "variadic",
        "verbose", "when", "where", "window", "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists",
        "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable"
    };
    for (int i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i]) == chars_bytes(text) && memcmp(words[i], text.at, chars_bytes(text)) == 0) return true;
    return false;
}

static bool is_plain_name(Chars text)
{
    if (!chars_bytes(text) || !((*text.at >= 'a' && *text.at <= 'z') || *text.at == '_')) return false;
    for (const char *at = text.at; at < text.end; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_')) return false;
    return !is_keyword(text);
}

EVAL(eval_quote_ident)
{
    const Chars name = chars_of(&args[0]);
    return is_plain_name(name) ? give_chars(name, value) : quoted(arena, call, name, '"', value, err);
}

// Blanks before it until it has N characters, below 0 behind it: a width of format.
EVAL(eval_padded)
{
    const Chars text = chars_of(&args[0]);
    const i64   width = (i64)args[1].i, n = MAX_OF(width < 0 ? -width : width, 0) - (i64)chars_count(text);
    char       *out;
    if (n <= 0) return give_chars(text, value);
    TRY(text_make(arena, call, chars_bytes(text) + (u64)n, &out, value, err));
    if (width > 0) memset(out, ' ', (size_t)n);
    memcpy(out + (width > 0 ? n : 0), text.at, chars_bytes(text));
    if (width < 0) memset(out + chars_bytes(text), ' ', (size_t)n);
    return WEFT_OK;
}

EVAL(eval_replace)
{
    Chars       text = chars_of(&args[0]);
    const Chars from = chars_of(&args[1]), to = chars_of(&args[2]);
    u64         n_found = 0;
    bool        is_last = false;
    char       *out;
    if (!chars_bytes(from)) return give_chars(text, value);
    for (Chars rest = text; !is_last; n_found += !is_last) next_part(&rest, from, &is_last);
    if (!n_found) return give_chars(text, value);
    TRY(text_make(arena, call, chars_bytes(text) - n_found * chars_bytes(from) + n_found * chars_bytes(to), &out,
        value, err));
    for (is_last = false; !is_last;) {
        out = put(out, next_part(&text, from, &is_last));
        if (!is_last) out = put(out, to);
    }
    return WEFT_OK;
}

EVAL(eval_translate)
{
    Chars text = chars_of(&args[0]);
    char *out;
    TRY(text_make(arena, call, 4 * (u64)chars_bytes(text), &out, value, err));
    char *at = out;
    while (text.at < text.end) {
        const i32 c = chars_take(&text);
        Chars     from = chars_of(&args[1]), to = chars_of(&args[2]);
        i32       instead = c;
        for (bool is_found = false; !is_found && from.at < from.end;) {
            is_found = chars_take(&from) == c;
            const i32 other = chars_take(&to);
            if (is_found) instead = other;
        }
        if (instead >= 0) at += char_put(instead, at);
    }
    text_set(value, out, (size_t)(at - out));
    return WEFT_OK;
}

EVAL(eval_reverse)
{
    Chars text = chars_of(&args[0]);
    char *out;
    TRY(text_make(arena, call, chars_bytes(text), &out, value, err));
    char *at = out + chars_bytes(text);
    while (text.at < text.end) {
        const Chars one = first_chars(text, 1);
        put(at -= chars_bytes(one), one);
        text.at = one.end;
    }
    return WEFT_OK;
}

EVAL(eval_repeat)
{
    const Chars text = chars_of(&args[0]);
    const i64   n = args[1].i < 0 ? 0 : (i64)args[1].i;
    char       *out;
    TRY(text_make(arena, call, (u64)n * chars_bytes(text), &out, value, err));
    for (i64 i = 0; i < n && chars_bytes(text); i++) out = put(out, text);
    return WEFT_OK;
}

// So many characters of FILL, which is repeated.
static Chars filling(Arena *arena, Chars fill, i64 n)
{
    char *out = arena_alloc(arena, (size_t)n * 4 + 1), *at = out;
    while (n > 0 && chars_bytes(fill))
        for (Chars rest = fill; n > 0 && rest.at < rest.end; n--) at += char_put(chars_take(&rest), at);
    return (Chars){ out, at };
}

static weft_status pad(Arena *arena, const Expr *call, const Value *args, bool on_left, Value *value, Error *err)
{
    static const char blank[] = " ";
    const Chars       text = chars_of(&args[0]);
    const Chars       fill = call->n_args > 2 ? chars_of(&args[2]) : (Chars){ blank, blank + 1 };
    const i64         n = args[1].i < 0 ? 0 : (i64)args[1].i, length = chars_count(text);
    char             *out;
    if (length >= n || !chars_bytes(fill)) return give_chars(first_chars(text, n), value);
    if (n > TEXT_RESULT_MAX / 4) return fail(err, WEFT_TOO_LONG, call->at, "requested length too large");
    const Chars filled = filling(arena, fill, n - length);
    TRY(text_make(arena, call, chars_bytes(text) + chars_bytes(filled), &out, value, err));
    put(put(out, on_left ? filled : text), on_left ? text : filled);
    return WEFT_OK;
}

EVAL(eval_lpad) { return pad(arena, call, args, true, value, err); }
EVAL(eval_rpad) { return pad(arena, call, args, false, value, err); }

EVAL(eval_overlay)
{
    const Chars text = chars_of(&args[0]), instead = chars_of(&args[1]);
    const i64   first = (i64)args[2].i, length = call->n_args > 3 ? (i64)args[3].i : (i64)chars_count(instead);
    char       *out;
    if (first <= 0) return fail(err, WEFT_BAD_SUBSTRING, call->at, "negative substring length not allowed");
    const Chars before = first_chars(text, first - 1), after = chars_skip(text, first + length - 1);
    TRY(text_make(arena, call, (u64)chars_bytes(before) + chars_bytes(instead) + chars_bytes(after), &out, value, err));
    put(put(put(out, before), instead), after);
    return WEFT_OK;
}

EVAL(eval_md5)
{
    char    *out;
    MD5_CTX  state;
    u8       digest[16];
    MD5Init(&state);
    MD5Update(&state, (const u8 *)chars_of(&args[0]).at, args[0].text.length);
    MD5Final(digest, &state);
    TRY(text_make(arena, call, 32, &out, value, err));
    for (int i = 0; i < 32; i++) out[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
    return WEFT_OK;
}

EVAL(eval_to_hex)
{
    char *out;
    u64   rest = (u64)args[0].i;
    int   n = 0;
    if (call->args[0]->type.kind != TYPE_BIGINT) rest &= UINT32_MAX;
    for (u64 left = rest; left || !n; left >>= 4) n++;
    TRY(text_make(arena, call, (u64)n, &out, value, err));
    while (n > 0) out[--n] = "0123456789abcdef"[rest & 15], rest >>= 4;
    return WEFT_OK;
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

static Range range_of_count(const Function *function, const Expr *call, const Range *args)
{
    return (Range){ .known = true, .low = 0, .high = INT32_MAX };
}

// ---- the list -------------------------------------------------------------------------------------------------------

#define T ARG_TEXT
#define N ARG_INTEGER
#define TEXT_FUNCTION(names_, usage_, about_, n_, args_, eval_, ...)                                \
    { .names = names_, .usage = usage_, .gives = "text", .about = about_, .n_args = n_, .args = args_, \
      .types = function_gives_text, .eval_in = eval_, ##__VA_ARGS__ }
#define COUNT_FUNCTION(names_, usage_, about_, n_, args_, eval_, ...)                               \
    { .names = names_, .usage = usage_, .gives = "integer", .about = about_, .n_args = n_, .args = args_, \
      .types = function_gives_integer, .eval_in = eval_, .range = range_of_count, ##__VA_ARGS__ }
#define L(...) { __VA_ARGS__ }

static const Function functions[] = {
    TEXT_FUNCTION(L("upper"), "upper(text)", "in capital letters", 1, L(T), eval_upper),
    TEXT_FUNCTION(L("lower"), "lower(text)", "in small letters", 1, L(T), eval_lower),
    TEXT_FUNCTION(L("initcap"), "initcap(text)", "each word with a capital first letter, the rest small", 1, L(T),
                  eval_initcap),
    COUNT_FUNCTION(L("length", "char_length", "character_length"), "length(text)", "number of characters", 1, L(T),
                   eval_length),
    COUNT_FUNCTION(L("octet_length"), "octet_length(text)", "number of bytes", 1, L(T), eval_octet_length),
    COUNT_FUNCTION(L("bit_length"), "bit_length(text)", "number of bits", 1, L(T), eval_bit_length, .can_fail = true),
    TEXT_FUNCTION(L("substring", "substr"), "substring(text from n)", "the text from its nth character on", 2, L(T, N),
                  eval_substring),
    TEXT_FUNCTION(L("substring", "substr"), "substring(text from n for m)", "m characters, from the nth on", 3,
                  L(T, N, N), eval_substring_length, .can_fail = true),
    TEXT_FUNCTION(L("left"), "left(text, n)", "the first n characters; below 0: all but the last -n", 2, L(T, N),
                  eval_left),
    TEXT_FUNCTION(L("fitted"), NULL, NULL, 2, L(T, N), eval_fitted, .can_fail = true, .is_hidden = true),
    TEXT_FUNCTION(L("right"), "right(text, n)", "the last n characters; below 0: all but the first -n", 2, L(T, N),
                  eval_right),
    TEXT_FUNCTION(L("btrim"), "trim(both from text)", "without blanks at both ends", 1, L(T), eval_btrim),
    TEXT_FUNCTION(L("btrim"), "trim(both characters from text)", "without these characters at both ends", 2, L(T, T),
                  eval_btrim),
    TEXT_FUNCTION(L("ltrim"), "ltrim(text)", "without blanks at the beginning", 1, L(T), eval_ltrim),
    TEXT_FUNCTION(L("ltrim"), "ltrim(text, characters)", "without these characters at the beginning", 2, L(T, T),
                  eval_ltrim),
    TEXT_FUNCTION(L("rtrim"), "rtrim(text)", "without blanks at the end", 1, L(T), eval_rtrim),
    TEXT_FUNCTION(L("rtrim"), "rtrim(text, characters)", "without these characters at the end", 2, L(T, T), eval_rtrim),
    TEXT_FUNCTION(L("replace"), "replace(text, from, to)", "every from becomes to", 3, L(T, T, T), eval_replace,
                  .can_fail = true),
    TEXT_FUNCTION(L("translate"), "translate(text, from, to)",
                  "each character of from becomes the one at its place in to, or goes", 3, L(T, T, T), eval_translate),
    COUNT_FUNCTION(L("strpos", "position"), "position(part in text), strpos(text, part)",
                   "where part begins, from 1; 0: nowhere", 2, L(T, T), eval_strpos),
    { .names = { "starts_with" }, .usage = "starts_with(text, start)", .gives = "boolean",
      .about = "whether it begins so", .n_args = 2, .args = { T, T }, .types = function_gives_boolean,
      .eval_in = eval_starts_with },
    TEXT_FUNCTION(L("split_part"), "split_part(text, delimiter, n)",
                  "the nth part between delimiters; below 0: from the end", 3, L(T, T, N), eval_split_part,
                  .can_fail = true),
    TEXT_FUNCTION(L("quote_literal"), "quote_literal(text)", "in quotes, as a literal of SQL", 1, L(T),
                  eval_quote_literal, .can_fail = true),
    TEXT_FUNCTION(L("quote_ident"), "quote_ident(text)", "as a name of SQL, in quotes where it needs them", 1, L(T),
                  eval_quote_ident, .can_fail = true),
    TEXT_FUNCTION(L("padded"), NULL, NULL, 2, L(T, N), eval_padded, .can_fail = true, .is_hidden = true),
    TEXT_FUNCTION(L("reverse"), "reverse(text)", "backwards", 1, L(T), eval_reverse),
    TEXT_FUNCTION(L("repeat"), "repeat(text, n)", "n times", 2, L(T, N), eval_repeat, .can_fail = true),
    TEXT_FUNCTION(L("lpad"), "lpad(text, n)", "n characters: blanks before it, or cut", 2, L(T, N), eval_lpad,
                  .can_fail = true),
    TEXT_FUNCTION(L("lpad"), "lpad(text, n, fill)", "the same with other characters before it", 3, L(T, N, T),
                  eval_lpad, .can_fail = true),
    TEXT_FUNCTION(L("rpad"), "rpad(text, n)", "n characters: blanks behind it, or cut", 2, L(T, N), eval_rpad,
                  .can_fail = true),
    TEXT_FUNCTION(L("rpad"), "rpad(text, n, fill)", "the same with other characters behind it", 3, L(T, N, T),
                  eval_rpad, .can_fail = true),
    TEXT_FUNCTION(L("overlay"), "overlay(text placing other from n)", "other in place of as many characters, from n on",
                  3, L(T, T, N), eval_overlay, .can_fail = true),
    TEXT_FUNCTION(L("overlay"), "overlay(text placing other from n for m)", "other in place of m characters", 4,
                  L(T, T, N, N), eval_overlay, .can_fail = true),
    TEXT_FUNCTION(L("md5"), "md5(text)", "its MD5 hash, as 32 hexadecimal digits", 1, L(T), eval_md5),
    COUNT_FUNCTION(L("ascii"), "ascii(text)", "the code point of its first character", 1, L(T), eval_ascii),
    TEXT_FUNCTION(L("chr"), "chr(n)", "the character with this code point", 1, L(N), eval_chr, .can_fail = true),
    TEXT_FUNCTION(L("to_hex"), "to_hex(n)", "in hexadecimal digits", 1, L(ARG_BIGINT), eval_to_hex),
    TEXT_FUNCTION(L("to_hex"), NULL, NULL, 1, L(N), eval_to_hex),
    TEXT_FUNCTION(L("textcat"), "a \\|\\| b", "one after the other", 2, L(T, T), eval_concat, .can_fail = true),
};

extern const FunctionFamily functions_text;
const FunctionFamily functions_text = { "Text", functions, COUNT_OF(functions) };
