// shape.c - the shape of a text: what is left of it when its literals are taken out.
//
// Programs ask the same few queries with other constants.  The grammar does not look at the value of a literal, only at
// its kind, so two texts of one shape have one parse tree, but for the constants and the places in the text (fill.c):
//
//     select sum(a)  from t where b = 'x' and c < 10
//     select sum(a) from t where b = ?S and c < ?I              the key; S: text, I: integer, F: any other number
//     literals: 'x', 10          starts: 0, 7, 10, 11, ...      where the tokens are in this very text
//
// The key is what decides: equal keys, equal tokens.  So it has every token as it was written, and one blank where
// there were blanks, since < = is not <=.  Comments stay, too: libpg_query does not see NOT IN where one stands between
// the words.  Taken out are only 'plain' texts and numbers of digits and at most one point.  All others (E'', dollar
// quotes, B'', 1e5, parameters) stay in the key.  Whether the tree has a constant where a literal was taken out is for
// fill.c to find out: the 3 of int[3] has none.
//
// A few texts are their own shape, since a blank or a byte may mean more than is kept of it: texts that go on after a
// line break ('a' <newline> 'b'), control characters, what is not UTF-8, a point before digits, an open quote.

#include "sql/sql_int.h"

enum { MARK = 1, EXACT = 2 };          // first bytes of a literal in the key, and of a key that is the text

static void set_exact(Arena *arena, TextShape *shape)
{
    shape->is_exact = true;
    shape->n_literals = shape->n_tokens = 0;
    shape->key = arena_alloc(arena, shape->length + 2);
    shape->key[0] = EXACT;
    memcpy(shape->key + 1, shape->text, shape->length);
    shape->key_length = shape->length + 1;
}

// Blanks are those of PostgreSQL's lexer.  A byte of 128 and more is part of a name or a literal, or the text is not
// UTF-8, which is an error that another text of its shape need not have.
static bool has_plain_bytes(const TextShape *shape)
{
    bool is_ascii = true;
    for (size_t i = 0; i < shape->length; i++) {
        const u8 c = (u8)shape->text[i];
        if (c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f') return false;
        is_ascii &= c < 0x80;
    }
    Value ignored;
    return is_ascii || value_parse(TYPE(TEXT), shape->text, shape->length, &ignored, &(Error){ 0 }) == WEFT_OK;
}

// As PostgreSQL's lexer: digits that fit an int.
static bool is_int(const char *digits, size_t length, i32 *number)
{
    i64 value = 0;
    for (size_t i = 0; i < length; i++) {
        value = 10 * value + (digits[i] - '0');
        if (value > INT32_MAX) return false;
    }
    *number = (i32)value;
    return true;
}

static LiteralKind number_kind(const Token *token, i32 *number)
{
    int n_points = 0;
    for (size_t i = 0; i < token->length; i++) {
        const char c = token->start[i];
        n_points += c == '.';
        if (c != '.' && (c < '0' || c > '9')) return LITERAL_NONE;
    }
    if (n_points > 1) return LITERAL_NONE;
    return n_points == 0 && is_int(token->start, token->length, number) ? LITERAL_INTEGER : LITERAL_NUMBER;
}

static LiteralKind literal_kind(const Token *token, i32 *number)
{
    const char first = *token->start;
    if (token->kind != TOKEN_OTHER) return LITERAL_NONE;
    if (first == '\'') return LITERAL_TEXT;
    return first >= '0' && first <= '9' ? number_kind(token, number) : LITERAL_NONE;
}

static void add_bytes(TextShape *shape, const char *bytes, size_t length)
{
    memcpy(shape->key + shape->key_length, bytes, length);
    shape->key_length += length;
}

static void add_literal(Arena *arena, TextShape *shape, const Token *token, LiteralKind kind, i32 number)
{
    static const char kinds[] = { [LITERAL_INTEGER] = 'I', [LITERAL_NUMBER] = 'F', [LITERAL_TEXT] = 'S' };
    add_bytes(shape, (char[]){ MARK, kinds[kind] }, 2);
    *LIST_PUSH(arena, shape->literals, shape->n_literals) = (Literal){
        .kind = kind, .token = shape->n_tokens, .bytes = token->start, .length = token->length, .number = number
    };
}

// The token before ends where this one begins: no blank is between them.
static bool is_known(const char *before_end, char before_last, const Token *token)
{
    const char first = *token->start;
    if (token->kind == TOKEN_CUT) return false;
    if (first == '\'' && before_last == '\'') return false;                    // one text, or an error
    return !(first >= '0' && first <= '9' && before_last == '.' && before_end == token->start);
}

// What stands between two tokens: blanks, or blanks and comments.
static void add_gap(TextShape *shape, const char *from, const char *to)
{
    const char *p = from;
    while (p < to && (*p == ' ' || (*p >= '\t' && *p <= '\r'))) p++;
    if (p < to) add_bytes(shape, from, (size_t)(to - from));
    else if (from < to) add_bytes(shape, " ", 1);
}

static bool add_tokens(Arena *arena, TextShape *shape)
{
    const char *p = shape->text, *end = p;
    for (Token token = token_next(&p); token.kind != TOKEN_END; token = token_next(&p)) {
        i32               number = 0;
        const LiteralKind kind = literal_kind(&token, &number);
        if (!is_known(end, end > shape->text ? end[-1] : ' ', &token)) return false;
        add_gap(shape, end, token.start);
        if (kind) add_literal(arena, shape, &token, kind, number);
        else add_bytes(shape, token.start, token.length);
        shape->starts[shape->n_tokens++] = (i32)(token.start - shape->text);
        end = p;
    }
    return true;
}

// The key takes two bytes for each that is there, at most: those of a literal, or a blank and a token.
void sql_shape(Arena *arena, const char *text, size_t length, bool is_exact, TextShape *shape)
{
    *shape = (TextShape){ .text = text, .length = length };
    if (is_exact || !has_plain_bytes(shape)) {
        set_exact(arena, shape);
    } else {
        shape->key = arena_alloc(arena, 2 * length + 2);
        shape->starts = arena_array(arena, i32, length + 1);
        if (!add_tokens(arena, shape)) set_exact(arena, shape);
    }
    shape->hash = hash_bytes(shape->key, shape->key_length);
}
