// parse_text.c - what is checked before libpg_query sees a text, what it complains about, and the trees of views.
//
// What libpg_query and protobuf-c need of the stack was measured (arm64, libpg_query 15-4.0.0), all in reading the tree
// back:
//
//     1+1+...  a::int::int...  - - -a  f(f(...     1.85 kB a level, and so for all other chains
//     x is null between 1 and 2 is null ...        3.7 kB a round of six tokens
//     (select (select ...                          5.5 kB a level of two tokens
//
// so 8 KiB for each token that can nest (see sql_nesting) is at least twice what is used.  A limit on the length alone
// would have to assume a level for every two bytes, and refuse an INSERT of a few thousand rows.

#include "sql/sql_int.h"

#include <pg_query.h>

enum {
    TEXT_BYTES_MAX = 4 << 20,
    NESTING_MAX = 10000,
    VIEW_NESTING = 1000,               // of a view's text: parsed while the statement that uses it is bound
    STACK_PER_TOKEN = 8 << 10,
    RESCANS_MAX = 300000000            // a second
};

weft_status sql_check_text(const char *text, size_t length, size_t stack_bytes, int *nesting, Error *err)
{
    if (length > TEXT_BYTES_MAX) {
        fail(err, WEFT_TOO_LONG, -1, "statement of %zu bytes is too long", length);
        error_hint(err, "The limit is %d bytes. COPY loads more rows than INSERT can.", TEXT_BYTES_MAX);
        return WEFT_TOO_LONG;
    }
    Value     ignored;
    const int limit = (int)MIN_OF((size_t)NESTING_MAX, stack_bytes / STACK_PER_TOKEN);
    int       at = -1;
    TRY(value_parse(TYPE(TEXT), text, length, &ignored, err));       // UTF-8
    if (sql_rescans(text) > RESCANS_MAX) {
        fail(err, WEFT_TOO_COMPLEX, -1, "statement is too complex");
        error_hint(err, "A run of comments or operators is too long.");
        return WEFT_TOO_COMPLEX;
    }
    *nesting = sql_nesting(text, limit, &at);
    if (*nesting <= limit) return WEFT_OK;
    fail(err, WEFT_TOO_COMPLEX, at, "statement is too complex");
    error_hint(err, "An expression or a chain of joins has more than %d tokens without a comma, AND or OR.",
               limit);
    return WEFT_TOO_COMPLEX;
}

// libpg_query counts characters from 1.
static int byte_offset(const char *text, int cursor)
{
    const char *p = text;
    if (cursor <= 0) return -1;
    for (int i = 1; i < cursor && *p; i++) {
        p++;
        while (((unsigned char)*p & 0xC0) == 0x80) p++;
    }
    return (int)(p - text);
}

weft_status sql_syntax_error(const char *text, const char *message, int cursor, Error *err)
{
    const int at = byte_offset(text, cursor);
    if (strncmp(message, "frame ", 6) == 0)                 // the grammar checks the ends of frames
        return fail(err, WEFT_WINDOWING_ERROR, at, "%s", message);
    if (strncmp(message, "memory exhausted", 16) != 0)
        return fail(err, WEFT_SYNTAX_ERROR, at, "%s", message);
    fail(err, WEFT_TOO_COMPLEX, at, "statement is nested too deeply");    // bison's own stack: 10,000 symbols
    error_hint(err, "The parser's limit is about 10,000 brackets.");
    return WEFT_TOO_COMPLEX;
}

weft_status sql_parse_text(Arena *arena, const char *text, ParseTree **tree, Error *err)
{
    const size_t length = strlen(text);
    TextShape    shape;
    int          nesting;
    sql_shape(arena, text, length, true, &shape);           // a view's text does not change
    *tree = tree_find(&shape);
    if (*tree) return WEFT_OK;
    bool        may_change;
    const char *quoted = sql_quote_files(arena, text, &may_change);
    TRY(sql_check_text(text, length, (size_t)VIEW_NESTING * STACK_PER_TOKEN, &nesting, err));
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(quoted ? quoted : text);
    *tree = parsed.error ? NULL : tree_unpack(parsed.parse_tree.data, parsed.parse_tree.len);
    const weft_status status =
        parsed.error ? sql_syntax_error(text, parsed.error->message, parsed.error->cursorpos, err)
        : *tree      ? WEFT_OK
                     : fail(err, WEFT_INTERNAL, -1, "the parse tree could not be read");
    if (*tree && nesting <= NESTING_KEPT) tree_keep(*tree, &shape, true);
    pg_query_free_protobuf_parse_result(parsed);
    return status;
}
