// functions_regexp.c - regular expressions: ~ and its kin, regexp_replace and so on (regex.h).

#include "plan/functions.h"

#include "plan/expr_int.h"
#include "plan/regex.h"

#define EVAL(name)                                                                                  \
    static weft_status name(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)

// ---- all matches of a text ------------------------------------------------------------------------------------------

typedef struct RegexSearch {
    const Regex *regex;
    Chars        text;
    size_t       from;                                      // SIZE_MAX: the text is at its end
    int          at;
    RegexMatch   match;
} RegexSearch;

static weft_status next_match(RegexSearch *search, Error *err)
{
    search->match.is_found = false;
    if (search->from == SIZE_MAX) return WEFT_OK;
    TRY(regex_find(search->regex, search->text, search->from, search->at, &search->match, err));
    if (!search->match.is_found) return WEFT_OK;
    search->from = search->match.end[0];
    if (search->match.end[0] > search->match.begin[0]) return WEFT_OK;
    const Chars rest = { search->text.at + search->from, search->text.end };
    search->from = rest.at == rest.end ? SIZE_MAX : (size_t)(chars_skip(rest, 1).at - search->text.at);
    return WEFT_OK;
}

// FLAGS: the argument that holds them, or -1; *IS_GLOBAL may be NULL, then g is an error.
static weft_status begin_search(const Expr *call, const Value *args, int flags, i64 start, bool *is_global,
                                RegexSearch *search, Error *err)
{
    char         own[16];
    size_t       n = 0;
    const Chars  given = flags >= 0 ? chars_of(&args[flags]) : (Chars){ "", "" };
    *search = (RegexSearch){ .text = chars_of(&args[0]), .at = call->at };
    if (start < 1) return fail(err, WEFT_INVALID_PARAMETER, call->at, "invalid value for parameter \"%s\": %lld",
                               "start", (long long)start);
    for (const char *p = given.at; p < given.end; p++) {
        if (*p == 'g' && is_global) *is_global = true;
        else if (*p == 'g')
            return fail(err, WEFT_INVALID_PARAMETER, call->at, "only regexp_replace supports the \"global\" option");
        else if (n < sizeof own) own[n++] = *p;
        else return fail(err, WEFT_INVALID_PARAMETER, call->at, "too many regular expression options");
    }
    TRY(regex_get(&args[1], own, n, call->at, &search->regex, err));
    const Chars from = chars_skip(search->text, start - 1);
    search->from = start - 1 > (i64)chars_count(search->text) ? SIZE_MAX : (size_t)(from.at - search->text.at);
    return WEFT_OK;
}

// ---- tests and counts -----------------------------------------------------------------------------------------------

static weft_status test(const Expr *call, const Value *args, const char *flags, bool wanted, Value *value, Error *err)
{
    RegexMatch   match;
    const Regex *regex;
    TRY(regex_get(&args[1], flags, strlen(flags), call->at, &regex, err));
    TRY(regex_find(regex, chars_of(&args[0]), 0, call->at, &match, err));
    value->i = match.is_found == wanted;
    return WEFT_OK;
}

EVAL(eval_match) { return test(call, args, "", true, value, err); }
EVAL(eval_match_any_case) { return test(call, args, "i", true, value, err); }
EVAL(eval_no_match) { return test(call, args, "", false, value, err); }
EVAL(eval_no_match_any_case) { return test(call, args, "i", false, value, err); }

EVAL(eval_like)
{
    RegexSearch search;
    TRY(begin_search(call, args, call->n_args > 2 ? 2 : -1, 1, NULL, &search, err));
    TRY(next_match(&search, err));
    value->i = search.match.is_found;
    return WEFT_OK;
}

EVAL(eval_count)
{
    RegexSearch search;
    TRY(begin_search(call, args, call->n_args > 3 ? 3 : -1, call->n_args > 2 ? (i64)args[2].i : 1, NULL, &search, err));
    value->i = 0;
    for (;;) {
        TRY(next_match(&search, err));
        if (!search.match.is_found) return WEFT_OK;
        value->i++;
    }
}

// ---- parts ----------------------------------------------------------------------------------------------------------

static weft_status give_group(const RegexSearch *search, int group, Value *value)
{
    const RegexMatch *match = &search->match;
    value->is_null = !match->is_found || group >= REGEX_GROUPS || match->begin[group] == SIZE_MAX;
    if (value->is_null) return WEFT_OK;
    text_set(value, search->text.at + match->begin[group], match->end[group] - match->begin[group]);
    return WEFT_OK;
}

// The nth match; then of it the whole, or what a pair of brackets in the pattern matched.
EVAL(eval_substr)
{
    RegexSearch    search;
    const i64 start = call->n_args > 2 ? (i64)args[2].i : 1, n = call->n_args > 3 ? (i64)args[3].i : 1;
    const i64 group = call->n_args > 5 ? (i64)args[5].i : 0;
    if (n < 1 || group < 0)
        return fail(err, WEFT_INVALID_PARAMETER, call->at, "invalid value for parameter \"%s\": %lld",
                    n < 1 ? "n" : "subexpr", (long long)(n < 1 ? n : group));
    TRY(begin_search(call, args, call->n_args > 4 ? 4 : -1, start, NULL, &search, err));
    for (i64 i = 0; i < n; i++) {
        TRY(next_match(&search, err));
        if (!search.match.is_found) break;
    }
    return give_group(&search, (int)MIN_OF(group, REGEX_GROUPS), value);
}

EVAL(eval_substring)
{
    RegexSearch search;
    TRY(begin_search(call, args, -1, 1, NULL, &search, err));
    TRY(next_match(&search, err));
    return give_group(&search, search.match.n_groups > 0 ? 1 : 0, value);
}

// ---- replace --------------------------------------------------------------------------------------------------------

// \1 to \9 are what the brackets matched, \& is all of it, \\ a backslash.
static void add_replacement(Text *out, const RegexSearch *search, Chars with)
{
    const RegexMatch *match = &search->match;
    for (const char *p = with.at; p < with.end; p++) {
        const char next = *p == '\\' && p + 1 < with.end ? p[1] : 0;
        const int  group = next == '&' ? 0 : next >= '1' && next <= '9' ? next - '0' : -1;
        if (group >= 0 && match->begin[group] != SIZE_MAX)
            text_add_bytes(out, search->text.at + match->begin[group], match->end[group] - match->begin[group]);
        else if (group < 0 && next == '\\') text_add_bytes(out, "\\", 1);
        else if (group < 0) {
            text_add_bytes(out, p, 1);
            continue;
        }
        p++;
    }
}

typedef struct RegexReplacing { i64 start, nth; bool is_global; } RegexReplacing;        // nth 0: all

static weft_status replace_matches(const RegexReplacing *how, RegexSearch *search, Chars with, Text *out, Error *err)
{
    size_t done = 0;
    for (i64 n = 1;; n++) {
        TRY(next_match(search, err));
        if (!search->match.is_found) break;
        if (how->nth && n < how->nth) continue;
        if (search->match.begin[0] >= done) {
            text_add_bytes(out, search->text.at + done, search->match.begin[0] - done);
            add_replacement(out, search, with);
            done = search->match.end[0];
        }
        if (how->nth || out->length > TEXT_RESULT_MAX) break;
    }
    text_add_bytes(out, search->text.at + done, chars_bytes(search->text) - done);
    return WEFT_OK;
}

static weft_status replace(Arena *arena, const Expr *call, const Value *args, RegexReplacing how, int flags,
                           Value *value, Error *err)
{
    RegexSearch search;
    Text   out = { 0 };
    char  *bytes;
    TRY(begin_search(call, args, flags, how.start, &how.is_global, &search, err));
    if (how.nth < 0)
        return fail(err, WEFT_INVALID_PARAMETER, call->at, "invalid value for parameter \"n\": %lld",
                    (long long)how.nth);
    if (call->n_args < 5) how.nth = how.is_global ? 0 : 1;
    weft_status status = replace_matches(&how, &search, chars_of(&args[2]), &out, err);
    if (!status) status = text_make(arena, call, out.length, &bytes, value, err);
    if (!status && out.length) memcpy(bytes, out.bytes, out.length);
    text_free(&out);
    return status;
}

EVAL(eval_replace)
{
    return replace(arena, call, args, (RegexReplacing){ .start = 1 }, call->n_args > 3 ? 3 : -1, value, err);
}

EVAL(eval_replace_from)
{
    const RegexReplacing how = { .start = (i64)args[3].i, .nth = call->n_args > 4 ? (i64)args[4].i : 1 };
    return replace(arena, call, args, how, call->n_args > 5 ? 5 : -1, value, err);
}

// ---- the list -------------------------------------------------------------------------------------------------------

#define T ARG_TEXT
#define N ARG_INTEGER
#define L(...) { __VA_ARGS__ }
#define REGEXP(name_, usage_, gives_, about_, n_, args_, types_, eval_, ...)                        \
    { .names = { name_ }, .usage = usage_, .gives = gives_, .about = about_, .n_args = n_, .args = args_, \
      .types = types_, .eval_in = eval_, .can_fail = true, ##__VA_ARGS__ }
#define TEST(name_, eval_)                                                                          \
    { .names = { name_ }, .is_hidden = true, .n_args = 2, .args = { T, T },                         \
      .types = function_gives_boolean, .eval_in = eval_, .can_fail = true }
#define SUBSTR(usage_, about_, n_, ...)                                                             \
    { .names = { "regexp_substr" }, .usage = usage_, .gives = "text", .about = about_, .n_args = n_, \
      .args = { __VA_ARGS__ }, .types = function_gives_text, .eval_in = eval_substr,                  \
      .can_fail = true, .may_be_null = true }

static const Function functions[] = {
    REGEXP("regexp_like", "regexp_like(text, pattern)", "boolean", "whether it matches, as text ~ pattern", 2, L(T, T),
           function_gives_boolean, eval_like),
    REGEXP("regexp_like", "regexp_like(text, pattern, flags)", "boolean", "the same with flags: i any case, n lines, "
           "x blanks mean nothing", 3, L(T, T, T), function_gives_boolean, eval_like),
    REGEXP("regexp_count", "regexp_count(text, pattern)", "integer", "how often it matches", 2, L(T, T),
        function_gives_integer,
           eval_count),
    REGEXP("regexp_count", "regexp_count(text, pattern, start)", "integer", "the same from a character on", 3,
           L(T, T, N), function_gives_integer, eval_count),
    REGEXP("regexp_count", "regexp_count(text, pattern, start, flags)", "integer", "the same with flags", 4,
           L(T, T, N, T), function_gives_integer, eval_count),
    REGEXP("regexp_replace", "regexp_replace(text, pattern, with)", "text", "the first match replaced; \\1 to \\9 in "
           "with stand for brackets", 3, L(T, T, T), function_gives_text, eval_replace),
    REGEXP("regexp_replace", "regexp_replace(text, pattern, with, flags)", "text", "the same with flags: g replaces "
           "every match", 4, L(T, T, T, T), function_gives_text, eval_replace),
    REGEXP("regexp_replace", "regexp_replace(text, pattern, with, start)", "text", "the same from a character on", 4,
           L(T, T, T, N), function_gives_text, eval_replace_from),
    REGEXP("regexp_replace", "regexp_replace(text, pattern, with, start, n)", "text", "the nth match; 0: every one", 5,
           L(T, T, T, N, N), function_gives_text, eval_replace_from),
    REGEXP("regexp_replace", "regexp_replace(text, pattern, with, start, n, flags)", "text", "the same with flags", 6,
           L(T, T, T, N, N, T), function_gives_text, eval_replace_from),
    SUBSTR("regexp_substr(text, pattern)", "the first match, or NULL", 2, T, T),
    SUBSTR("regexp_substr(text, pattern, start)", "the same from a character on", 3, T, T, N),
    SUBSTR("regexp_substr(text, pattern, start, n)", "the nth match", 4, T, T, N, N),
    SUBSTR("regexp_substr(text, pattern, start, n, flags)", "the same with flags", 5, T, T, N, N, T),
    SUBSTR("regexp_substr(text, pattern, start, n, flags, group)", "what a pair of brackets matched", 6,
           T, T, N, N, T, N),
    REGEXP("substring", "substring(text from pattern)", "text", "the first match, or what its first brackets matched",
           2, L(T, T), function_gives_text, eval_substring, .may_be_null = true),
    TEST("~", eval_match),
    TEST("~*", eval_match_any_case),
    TEST("!~", eval_no_match),
    TEST("!~*", eval_no_match_any_case),
};

extern const FunctionFamily functions_regexp;
const FunctionFamily functions_regexp = { "Regular expressions", functions, COUNT_OF(functions) };
