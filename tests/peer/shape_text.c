// shape_text.c - see shapes.h.

#include "shapes.h"

#include "sql/sql_int.h"

int64_t trees_found(void) { return tree_counts().n_found; }

static uint64_t below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static bool has_chance(uint64_t *state, uint64_t percent) { return below(state, 100) < percent; }

static const char *other_literal(uint64_t *state, const Literal *literal)
{
    static const char *const integers[] = { "0", "1", "2", "3", "5", "10", "31", "100", "1995", "32768", "2147483647" };
    static const char *const numbers[] = { "0.0", "0.5", "1.25", "99.99", "2147483648", "9223372036854775807",
                                           "99999999999999999999.5" };
    static const char *const texts[] = { "''",      "'a'",   "'A'",           "'b%'",         "'_'",
                                         "'12'",    "'-3'",  "'1.5'",         "'1995-03-01'", "'1995-02-30'",
                                         "'t'",     "'true'", "'it''s'",      "'1904-01-01'", "'9999-12-31'",
                                         "'1 day'", "'ä'",   "'no such value'", "'1 month'",  "'%'" };
    switch (literal->kind) {
        case LITERAL_INTEGER: return integers[below(state, COUNT_OF(integers))];
        case LITERAL_TEXT:    return texts[below(state, COUNT_OF(texts))];
        default:              return numbers[below(state, COUNT_OF(numbers))];
    }
}

// Most often some literals are others; now and then one is NULL or of another kind, and blanks are others.
char *text_with_others(Arena *arena, const char *sql, uint64_t *state)
{
    TextShape   shape;
    sql_shape(arena, sql, strlen(sql), false, &shape);
    Text        text = { 0 };
    const char *from = shape.text;
    const int   percent = has_chance(state, 50) ? 30 : 100;
    for (int i = 0; i < shape.n_literals; i++) {
        const Literal *literal = &shape.literals[i];
        text_add(&text, "%.*s", (int)(literal->bytes - from), from);
        from = literal->bytes + literal->length;
        if (has_chance(state, 2)) text_add(&text, has_chance(state, 50) ? " null " : " '7' ");
        else if (has_chance(state, percent)) text_add(&text, "%s", other_literal(state, literal));
        else text_add(&text, "%.*s", (int)literal->length, literal->bytes);
        if (has_chance(state, 5)) text_add(&text, "  ");
    }
    text_add(&text, "%s", from);
    return text_keep(arena, &text);
}
