// split.c - a lexer that looks at the text before libpg_query does: where a statement ends, and how deep it can nest.
//
// It knows just enough: quotes, dollar quotes, nested comments, words.  Operators are single characters.
//
// Nesting.  libpg_query recurses without a guard, and writes its tree in time that grows with the square of the depth
// (30,000 terms of 1+1+...: most of a second), so the depth must be known before it is asked.  No token adds more than
// a few levels, and siblings do not add up, so this is an upper bound:
//
//     f(a, b + c) + case when x then y + z end        at z: "f ( ) + case" and "y + z", so at most 8 deep
//
// Separators are "," in a bracket, WHEN, THEN and ELSE in a CASE, and AND and OR, whose operands become one flat list
// (but not the AND of a BETWEEN).  What chains to the left across separators is counted apart: JOIN, UNION and its kin.

#include "sql/sql_int.h"

#include <stdlib.h>

// ---- tokens ---------------------------------------------------------------------------------------------------------

static bool starts_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(unsigned char c)
{
    return starts_word(c) || is_digit(c) || c == '$';
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Past the comment that begins at P, or NULL when it does not end.  Comments nest.
static const char *skip_comment(const char *p)
{
    int depth = 0;
    do {
        if (!*p) return NULL;
        if (p[0] == '/' && p[1] == '*') depth++, p += 2;
        else if (p[0] == '*' && p[1] == '/') depth--, p += 2;
        else p++;
    } while (depth > 0);
    return p;
}

static const char *skip_blanks(const char *p)
{
    for (;;) {
        if (is_blank((unsigned char)*p)) {
            p++;
        } else if (p[0] == '-' && p[1] == '-') {
            p += strcspn(p, "\r\n");
        } else if (p[0] == '/' && p[1] == '*') {
            const char *end = skip_comment(p);
            if (!end) return p;                             // unfinished: left for token_next to see
            p = end;
        } else {
            return p;
        }
    }
}

// Past the quote that begins at P, or NULL.  A doubled quote stands for one.
static const char *skip_quoted(const char *p, bool has_backslash)
{
    const char quote = *p++;
    for (; *p; p++) {
        if (has_backslash && *p == '\\' && p[1]) p++;
        else if (*p == quote && p[1] == quote) p++;
        else if (*p == quote) return p + 1;
    }
    return NULL;
}

// P is at "$": past $tag$...$tag$, NULL when it does not end, P itself when it is no dollar quote.
static const char *skip_dollar(const char *p)
{
    const char *tag_end = p + 1;
    if (starts_word((unsigned char)*tag_end))
        while (is_word((unsigned char)*tag_end) && *tag_end != '$') tag_end++;
    if (*tag_end != '$') return p;
    const size_t length = (size_t)(tag_end + 1 - p);
    for (const char *q = strchr(tag_end + 1, '$'); q; q = strchr(q + 1, '$'))
        if (strncmp(q, p, length) == 0) return q + length;
    return NULL;
}

static Token token_make(TokenKind kind, const char *start, const char *end, const char **text)
{
    if (!end) {
        end = start + strlen(start);
        kind = TOKEN_CUT;
    }
    *text = end;
    return (Token){ kind, start, (size_t)(end - start) };
}

Token token_next(const char **text)
{
    const char *start = skip_blanks(*text), *p = start;
    const unsigned char c = (unsigned char)*p;
    if (!c) return token_make(TOKEN_END, p, p, text);
    if (p[0] == '/' && p[1] == '*') return token_make(TOKEN_CUT, p, NULL, text);
    if (c == '\'' || c == '"') return token_make(TOKEN_OTHER, start, skip_quoted(p, false), text);
    if ((c == 'e' || c == 'E') && p[1] == '\'') return token_make(TOKEN_OTHER, start, skip_quoted(p + 1, true), text);
    if (starts_word(c)) {
        while (is_word((unsigned char)*p)) p++;
        return token_make(TOKEN_WORD, start, p, text);
    }
    if (is_digit(c)) {
        while (is_word((unsigned char)*p) || *p == '.') p++;
        return token_make(TOKEN_OTHER, start, p, text);
    }
    if (c == '$') {
        p = skip_dollar(p);
        if (p != start) return token_make(TOKEN_OTHER, start, p, text);
    }
    return token_make(TOKEN_SYMBOL, start, start + 1, text);
}

bool token_is(const Token *token, const char *word)
{
    if (token->kind != TOKEN_WORD || strlen(word) != token->length) return false;
    for (size_t i = 0; i < token->length; i++) {
        const char c = token->start[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != word[i]) return false;
    }
    return true;
}

static bool is_symbol(const Token *token, char c)
{
    return token->kind == TOKEN_SYMBOL && *token->start == c;
}

size_t sql_statement_length(const char *text)
{
    const char *p = text;
    for (Token token = token_next(&p); token.kind != TOKEN_END && token.kind != TOKEN_CUT; token = token_next(&p))
        if (is_symbol(&token, ';')) return (size_t)(p - text);
    return 0;
}

int sql_first_token(const char *text)
{
    const char *p = text;
    return (int)(token_next(&p).start - text);
}

int sql_find_word(const char *text, const char *word)
{
    const char *p = text;
    for (Token token = token_next(&p); token.kind != TOKEN_END && token.kind != TOKEN_CUT; token = token_next(&p))
        if (token_is(&token, word)) return (int)(token.start - text);
    return -1;
}

// ---- nesting --------------------------------------------------------------------------------------------------------

typedef struct Level {
    bool is_case;                      // else a bracket, or the statement
    int  tokens;                       // since the last separator
    int  chain;                        // JOIN, UNION, ...
    int  betweens;                     // whose AND is still to come
} Level;

typedef struct Nesting {
    Level *levels;
    int    n_levels;
    int    total;                      // of all levels: tokens, chains, and the levels themselves
} Nesting;

static Level *top(const Nesting *nesting)
{
    return &nesting->levels[nesting->n_levels - 1];
}

static void count_token(Nesting *nesting)
{
    top(nesting)->tokens++;
    nesting->total++;
}

static void separate(Nesting *nesting)
{
    nesting->total -= top(nesting)->tokens;
    top(nesting)->tokens = 0;
}

static void push_level(Nesting *nesting, bool is_case)
{
    count_token(nesting);
    nesting->levels[nesting->n_levels++] = (Level){ .is_case = is_case };
    nesting->total++;
}

static void pop_level(Nesting *nesting)
{
    nesting->total -= top(nesting)->tokens + top(nesting)->chain + 1;
    nesting->n_levels--;
}

static void close_bracket(Nesting *nesting)
{
    int open = nesting->n_levels - 1;
    while (open > 0 && nesting->levels[open].is_case) open--;
    if (open == 0) return;                                  // one too many: libpg_query will say so
    while (nesting->n_levels > open) pop_level(nesting);
}

static void count_word(Nesting *nesting, const Token *token)
{
    Level *level = top(nesting);
    if (token_is(token, "case")) {
        push_level(nesting, true);
    } else if (level->is_case && token_is(token, "end")) {
        pop_level(nesting);
    } else if (level->is_case && (token_is(token, "when") || token_is(token, "then") || token_is(token, "else"))) {
        separate(nesting);
    } else if (token_is(token, "and") && level->betweens > 0) {
        level->betweens--;
        count_token(nesting);
    } else if (token_is(token, "and") || token_is(token, "or")) {
        separate(nesting);
    } else {
        level->betweens += token_is(token, "between");
        const bool chains = token_is(token, "join") || token_is(token, "union") || token_is(token, "intersect") ||
                            token_is(token, "except");
        level->chain += chains;
        nesting->total += chains;
        count_token(nesting);
    }
}

static void count_symbol(Nesting *nesting, char c)
{
    switch (c) {
        case '(': case '[': push_level(nesting, false);  break;
        case ')': case ']': close_bracket(nesting);      break;
        case ',':           separate(nesting);           break;
        default:            count_token(nesting);
    }
}

int sql_nesting(const char *text, int limit, int *at)
{
    const size_t most = MIN_OF((size_t)limit, strlen(text));               // a level takes a token, and counts as one
    Nesting      nesting = { .levels = calloc(most + 2, sizeof(Level)), .n_levels = 1 };
    if (!nesting.levels) return limit + 1;
    const char *p = text;
    int         deepest = 0;
    bool        is_label = false;                           // after "." or AS a keyword is only a name
    for (Token token = token_next(&p); token.kind != TOKEN_END && deepest <= limit; token = token_next(&p)) {
        if (token.kind == TOKEN_SYMBOL) count_symbol(&nesting, *token.start);
        else if (token.kind == TOKEN_WORD && !is_label) count_word(&nesting, &token);
        else count_token(&nesting);
        is_label = is_symbol(&token, '.') || (token_is(&token, "as") && !is_label);
        if (nesting.total > deepest) deepest = nesting.total;
        if (deepest > limit) *at = (int)(token.start - text);
        if (token.kind == TOKEN_CUT) break;
    }
    free(nesting.levels);
    return deepest;
}

// ---- runs of operator characters ------------------------------------------------------------------------------------

static bool is_operator(char c)
{
    return c && strchr("~!@#^&|`?+-*/%<>=", c);
}

// PostgreSQL's lexer first takes a whole run of operator characters and then gives back what it cannot use.  At the
// beginning of a comment that is all but two characters, and + and - are given back one by one.
static i64 run_rescans(const char *run, size_t length)
{
    i64 n_starts = 1;
    for (size_t i = 0; i < length; i++) {
        const bool is_alone = run[i] == '-' && (i == 0 || run[i - 1] != '-') && (i + 1 == length || run[i + 1] != '-');
        n_starts += run[i] == '+' || is_alone || (run[i] == '/' && i + 1 < length && run[i + 1] == '*');
    }
    return n_starts * (i64)length;
}

i64 sql_rescans(const char *text)
{
    i64 sum = 0;
    while (*text) {
        size_t length = 0;
        while (is_operator(text[length])) length++;
        if (length) sum += run_rescans(text, length);
        text += MAX_OF(length, 1);
    }
    return sum;
}
