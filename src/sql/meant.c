// meant.c - texts that PostgreSQL's grammar does not know and whose meaning is plain: DESCRIBE t, SHOW TABLES, and a
// file in quotes behind FROM or JOIN.

#include "sql/sql_int.h"

#include <stdlib.h>

enum { LEVELS_MOST = 64, NAME_BYTES_MAX = 63, PARAMS_MOST = 65535 };

static bool is_last(const char *p)
{
    Token token = token_next(&p);
    if (token.kind == TOKEN_SYMBOL && *token.start == ';') token = token_next(&p);
    return token.kind == TOKEN_END;
}

char *sql_last_name(Arena *arena, const char *p)
{
    const Token name = token_next(&p);
    const bool  is_quoted = name.kind != TOKEN_WORD && name.length > 2 && *name.start == '"';
    if ((name.kind != TOKEN_WORD && !is_quoted) || !is_last(p)) return NULL;
    char *out = arena_strndup(arena, name.start + is_quoted, name.length - 2 * (size_t)is_quoted);
    for (char *c = out; *c && !is_quoted; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    return out;
}

char *sql_described(Arena *arena, const char *text, TableHome *home)
{
    const char *p = text;
    const Token verb = token_next(&p);
    if (!token_is(&verb, "describe") && !token_is(&verb, "desc")) return NULL;
    const char *behind = p;
    const Token schema = token_next(&behind), dot = token_next(&behind);
    *home = HOME_ANY;
    if (dot.kind == TOKEN_SYMBOL && *dot.start == '.') {
        if (!token_is(&schema, "public") && !token_is(&schema, "pg_temp")) return NULL;
        *home = token_is(&schema, "public") ? HOME_PUBLIC : HOME_TEMPORARY, p = behind;
    }
    return sql_last_name(arena, p);
}

bool sql_is_show_tables(const char *text)
{
    const char *p = text;
    const Token show = token_next(&p), tables = token_next(&p);
    return token_is(&show, "show") && token_is(&tables, "tables") && is_last(p);
}

const char *sql_explained(const char *text)
{
    const char *p = text;
    int         depth = 0;
    Token       token = token_next(&p);
    if (!token_is(&token, "explain")) return NULL;
    token = token_next(&p);
    if (token.kind == TOKEN_SYMBOL && *token.start == '(') {
        for (; token.kind != TOKEN_END && token.kind != TOKEN_CUT; token = token_next(&p)) {
            depth += token.kind != TOKEN_SYMBOL ? 0 : *token.start == '(' ? 1 : *token.start == ')' ? -1 : 0;
            if (depth == 0) return token_next(&p).start;
        }
    }
    while (token_is(&token, "analyze") || token_is(&token, "verbose")) token = token_next(&p);
    return token.start;
}

int sql_count_params(const char *text)
{
    const char *p = text;
    int         most = 0;
    for (Token token = token_next(&p); token.kind != TOKEN_END && token.kind != TOKEN_CUT; token = token_next(&p)) {
        if (token.kind != TOKEN_SYMBOL || *token.start != '$' || strspn(token.start + 1, "0123456789") > 5) continue;
        const int number = atoi(token.start + 1);
        most = MAX_OF(most, MIN_OF(number, PARAMS_MOST));
    }
    return most;
}

// ---- files in FROM --------------------------------------------------------------------------------------------------

// Whether a SELECT has begun at this level of brackets, and its FROM: extract(year from 'x') has none.
typedef struct FileLevel { bool has_select, is_in_from, can_begin; } FileLevel;

static bool is_text(const Token *token)
{
    return token->kind != TOKEN_WORD && token->kind != TOKEN_SYMBOL && token->length > 2 && *token->start == '\'' &&
           token->length - 2 <= NAME_BYTES_MAX && !memchr(token->start, '"', token->length) &&
           !memchr(token->start + 1, '\'', token->length - 2);
}

static void see_word(FileLevel *level, const Token *token, bool is_after_distinct)
{
    static const char *const ends[] = { "where", "group", "having", "window", "order", "limit",
                                        "union", "intersect", "except", "offset", "fetch", "for" };
    if (token_is(token, "select")) *level = (FileLevel){ .has_select = true };
    else if (token_is(token, "from") && level->has_select && !is_after_distinct)
        level->is_in_from = level->can_begin = true;
    else if (token_is(token, "join") && level->is_in_from) level->can_begin = true;
    else level->can_begin = false;
    for (int i = 0; i < COUNT_OF(ends); i++)
        if (token_is(token, ends[i])) level->is_in_from = false;
}

char *sql_quote_files(Arena *arena, const char *text, bool *may_change)
{
    FileLevel       levels[LEVELS_MOST] = { 0 };
    int         depth = 0;
    char       *out = NULL;
    const char *p = text;
    bool        is_after_distinct = false;
    *may_change = false;
    for (Token token = token_next(&p); token.kind != TOKEN_END && token.kind != TOKEN_CUT; token = token_next(&p)) {
        FileLevel *level = &levels[depth];
        *may_change |= level->can_begin && *token.start == '\'';
        if (token.kind == TOKEN_SYMBOL && *token.start == '(') {
            if (++depth == LEVELS_MOST) return out;
            levels[depth] = (FileLevel){ 0 };
            level->can_begin = false;
        } else if (token.kind == TOKEN_SYMBOL && *token.start == ')') {
            if (--depth < 0) return out;
        } else if (token.kind == TOKEN_SYMBOL) {
            level->can_begin = *token.start == ',' && level->is_in_from;
        } else if (token.kind == TOKEN_WORD) {
            see_word(level, &token, is_after_distinct);
        } else if (is_text(&token) && level->can_begin) {
            if (!out) out = arena_strdup(arena, text);
            out[token.start - text] = out[token.start - text + (ptrdiff_t)token.length - 1] = '"';
            level->can_begin = false;
        }
        is_after_distinct = token_is(&token, "distinct");
    }
    return out;
}
