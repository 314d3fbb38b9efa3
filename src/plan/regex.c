// regex.c - see regex.h.
//
// Compiled patterns are kept per thread, the last few of them: a pattern is nearly always a constant that meets many
// values, and threads then share nothing.  They go when their thread ends.

#define PCRE2_CODE_UNIT_WIDTH 8
#include "plan/regex.h"

#include <pcre2.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    KEPT = 8,
    MATCH_LIMIT = 5000000,                                  // steps of a match
    DEPTH_LIMIT = 100000,                                   // places to come back to
    HEAP_LIMIT_KB = 64 << 10
};

struct Regex {
    char              *pattern;
    size_t             length;
    u32                options;
    u64                used;
    pcre2_code        *code;
    pcre2_match_data  *data;
};

typedef struct RegexCache {
    Regex                entries[KEPT];
    u64                  now;
    pcre2_match_context *limits;
} RegexCache;

static pthread_key_t  cache_key;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

static void regex_clear(Regex *regex)
{
    pcre2_match_data_free(regex->data);
    pcre2_code_free(regex->code);
    free(regex->pattern);
    *regex = (Regex){ 0 };
}

static void cache_free(void *context)
{
    RegexCache *cache = context;
    for (int i = 0; i < KEPT; i++) regex_clear(&cache->entries[i]);
    pcre2_match_context_free(cache->limits);
    free(cache);
}

static void make_key(void) { pthread_key_create(&cache_key, cache_free); }

static RegexCache *cache_of_thread(void)
{
    pthread_once(&cache_once, make_key);
    RegexCache *cache = pthread_getspecific(cache_key);
    if (cache) return cache;
    cache = calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->limits = pcre2_match_context_create(NULL);
    if (!cache->limits || pthread_setspecific(cache_key, cache)) {
        pcre2_match_context_free(cache->limits);
        free(cache);
        return NULL;
    }
    pcre2_set_match_limit(cache->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(cache->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(cache->limits, HEAP_LIMIT_KB);
    return cache;
}

static weft_status no_memory(int at, Error *err)
{
    return fail(err, WEFT_OUT_OF_MEMORY, at, "out of memory for a regular expression");
}

// ---- flags ----------------------------------------------------------------------------------------------------------

// Without flags: a dot matches a newline, and ^ and $ only the ends of the text.
// PCRE2 allows few options where a pattern is text.
static u32 as_text(u32 options) { return PCRE2_LITERAL | (options & (PCRE2_CASELESS | PCRE2_UTF)); }

static weft_status options_of(const char *flags, size_t n_flags, int at, u32 *options, Error *err)
{
    *options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY;
    for (size_t i = 0; i < n_flags; i++) {
        switch (flags[i]) {
            case 'i': *options |= PCRE2_CASELESS; break;
            case 'c': *options &= ~(u32)PCRE2_CASELESS; break;
            case 'x': *options |= PCRE2_EXTENDED; break;
            case 't': *options &= ~(u32)PCRE2_EXTENDED; break;
            case 'm': case 'n':
                *options = (*options | PCRE2_MULTILINE) & ~(u32)(PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY);
                break;
            case 'p': *options &= ~(u32)PCRE2_DOTALL; break;
            case 'w': *options = (*options | PCRE2_MULTILINE) & ~(u32)PCRE2_DOLLAR_ENDONLY; break;
            case 's': *options = (*options & ~(u32)PCRE2_MULTILINE) | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY; break;
            case 'q': *options |= PCRE2_LITERAL; break;
            default:
                return fail(err, WEFT_INVALID_PARAMETER, at, "invalid regular expression option: \"%c\"", flags[i]);
        }
    }
    if (*options & PCRE2_LITERAL) *options = as_text(*options);
    return WEFT_OK;
}

// ---- PostgreSQL's escapes -------------------------------------------------------------------------------------------

static const char *escape_in_pcre(char letter)
{
    switch (letter) {
        case 'y': return "\\b";
        case 'Y': return "\\B";
        case 'm': return "\\b(?=\\w)";
        case 'M': return "\\b(?<=\\w)";
        case 'Z': return "\\z";
        default:  return NULL;
    }
}

// [:upper:] or [:lower:] in brackets, which match letters of either case where case does not matter.
static bool is_class_of_case(const char *p, const char *end)
{
    return end - p >= 9 && (memcmp(p, "[:upper:]", 9) == 0 || memcmp(p, "[:lower:]", 9) == 0);
}

static void translate(const Value *pattern, bool any_case, Text *out)
{
    const char *p = pattern->text.bytes, *end = p + pattern->text.length;
    bool        in_class = false;
    for (; p < end; p++) {
        const char *instead = *p == '\\' && p + 1 < end && !in_class ? escape_in_pcre(p[1]) : NULL;
        if (instead) {
            text_add(out, "%s", instead);
            p++;
        } else if (*p == '\\' && p + 1 < end) {
            text_add_bytes(out, p++, 2);
        } else if (any_case && in_class && is_class_of_case(p, end)) {
            text_add(out, "[:alpha:]");
            p += 8;
        } else {
            if (*p == '[' && !in_class) in_class = true;
            else if (*p == ']') in_class = false;
            text_add_bytes(out, p, 1);
        }
    }
}

// ---- patterns -------------------------------------------------------------------------------------------------------

// ***=abc is the text abc, ***:abc the pattern abc.  Flag q takes stars as text, too.
static Value follow_director(const Value *pattern, u32 *options)
{
    enum { LENGTH = 4 };
    Value      rest = *pattern;
    const bool is_long = pattern->text.length >= LENGTH && !(*options & PCRE2_LITERAL);
    if (!is_long || memcmp(pattern->text.bytes, "***", 3) != 0 || !strchr("=:", pattern->text.bytes[3])) return rest;
    if (pattern->text.bytes[3] == '=') *options = as_text(*options);
    rest.text.bytes += LENGTH, rest.text.length -= LENGTH;
    return rest;
}

static weft_status compile(const Value *pattern, u32 options, int at, Regex *regex, Error *err)
{
    Text        text = { 0 };
    int         error;
    PCRE2_SIZE  place;
    u32         used = options;
    const Value rest = follow_director(pattern, &used);
    if (used & PCRE2_LITERAL) text_add_bytes(&text, rest.text.bytes, rest.text.length);
    else translate(&rest, used & PCRE2_CASELESS, &text);
    regex->code = pcre2_compile((PCRE2_SPTR)(text.bytes ? text.bytes : ""), text.length, used, &error, &place, NULL);
    text_free(&text);
    if (!regex->code) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(error, message, sizeof message);
        return fail(err, WEFT_BAD_REGEXP, at, "invalid regular expression: %s", (const char *)message);
    }
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);     // where there is none, the interpreter matches
    regex->data = pcre2_match_data_create_from_pattern(regex->code, NULL);
    regex->pattern = malloc((size_t)pattern->text.length + 1);
    if (!regex->data || !regex->pattern) return no_memory(at, err);
    memcpy(regex->pattern, pattern->text.bytes, pattern->text.length);
    regex->length = pattern->text.length, regex->options = options;
    return WEFT_OK;
}

static bool is_same(const Regex *regex, const Value *pattern, u32 options)
{
    return regex->code && regex->options == options && regex->length == pattern->text.length &&
           memcmp(regex->pattern, pattern->text.bytes, regex->length) == 0;
}

weft_status regex_get(const Value *pattern, const char *flags, size_t n_flags, int at, const Regex **out, Error *err)
{
    RegexCache *cache = cache_of_thread();
    Regex      *oldest;
    u32         options;
    if (!cache) return no_memory(at, err);
    TRY(options_of(flags, n_flags, at, &options, err));
    oldest = &cache->entries[0];
    for (int i = 0; i < KEPT; i++) {
        Regex *regex = &cache->entries[i];
        if (is_same(regex, pattern, options)) {
            regex->used = ++cache->now;
            *out = regex;
            return WEFT_OK;
        }
        if (regex->used < oldest->used) oldest = regex;
    }
    regex_clear(oldest);
    const weft_status status = compile(pattern, options, at, oldest, err);
    if (status) regex_clear(oldest);
    else oldest->used = ++cache->now;
    *out = oldest;
    return status;
}

weft_status regex_find(const Regex *regex, Chars text, size_t from, int at, RegexMatch *match, Error *err)
{
    const size_t length = (size_t)(text.end - text.at);
    const int    n = pcre2_match(regex->code, (PCRE2_SPTR)text.at, length, from, PCRE2_NO_UTF_CHECK, regex->data,
                                 cache_of_thread()->limits);
    uint32_t     n_groups = 0;
    *match = (RegexMatch){ .is_found = n > 0 };
    if (n == PCRE2_ERROR_NOMATCH) return WEFT_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return no_memory(at, err);
    if (n <= 0) {
        fail(err, WEFT_TOO_COMPLEX, at, "regular expression takes too long to match");
        error_hint(err, "Repetitions inside repetitions, as in (a+)+, are the usual reason.");
        return WEFT_TOO_COMPLEX;
    }
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(regex->data);
    pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &n_groups);
    match->n_groups = (int)n_groups;
    for (int g = 0; g < REGEX_GROUPS; g++) {
        const bool is_set = g < n && places[2 * g] != PCRE2_UNSET;
        match->begin[g] = is_set ? places[2 * g] : SIZE_MAX;
        match->end[g] = is_set ? places[2 * g + 1] : SIZE_MAX;
    }
    match->end[0] = MAX_OF(match->end[0], match->begin[0]); // \K in a lookahead may turn them round
    return WEFT_OK;
}
