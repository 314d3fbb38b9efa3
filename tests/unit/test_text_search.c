// test_text_search.c - words in texts: against a naive search, and LIKE against the interpreter.

#include "test.h"

#include "plan/like.h"

static u64 next_random(u64 *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static const char *find_naive(const char *needle, size_t n, const char *bytes, size_t length)
{
    for (size_t at = 0; at + n <= length; at++)
        if (memcmp(bytes + at, needle, n) == 0)
            return bytes + at;
    return NULL;
}

TEST(a_needle_is_found_where_a_naive_search_finds_it)
{
    u64 state = 42;
    char needle[24];
    for (int round = 0; round < 30000; round++) {
        const u64 letters = round % 3 ? 2 : 5;              // few letters: many places that nearly match
        const size_t length = next_random(&state) % (round % 10 ? 90 : 700), n = 1 + next_random(&state) % 20;
        char *bytes = malloc(length + 1);                   // a read behind the end is seen by the sanitizer
        for (size_t i = 0; i < length; i++) bytes[i] = "eqatx"[next_random(&state) % letters];
        for (size_t i = 0; i < n; i++) needle[i] = "eqatx"[next_random(&state) % letters];
        if (n <= length && round % 2) memcpy(bytes + next_random(&state) % (length - n + 1), needle, n);
        const Needle prepared = needle_of(needle, n);
        CHECK(needle_find(&prepared, bytes, length) == find_naive(needle, n, bytes, length));
        free(bytes);
    }
    const Needle none = needle_of("", 0);
    CHECK_STR(needle_find(&none, "abc", 3), "abc");
}

// ---- LIKE -----------------------------------------------------------------------------------------------------------

static void give_text(void *context, const Expr *node, Value *value)
{
    (void)node;
    *value = *(const Value *)context;
}

static Value text_value(const char *bytes, size_t length)
{
    Value value = { .type = TYPE(TEXT) };
    value.text.bytes = bytes, value.text.length = (u32)length;
    return value;
}

typedef struct Like { Expr call, column, pattern, escape, *args[3]; } Like;

static void make_like(Like *like, Op op, const char *pattern, const char *escape)
{
    *like = (Like){ .column = { .kind = EXPR_COLUMN, .type = TYPE(TEXT) } };
    like->pattern = (Expr){ .kind = EXPR_CONST, .type = TYPE(TEXT), .value = text_value(pattern, strlen(pattern)) };
    if (escape)
        like->escape = (Expr){ .kind = EXPR_CONST, .type = TYPE(TEXT), .value = text_value(escape, strlen(escape)) };
    like->args[0] = &like->column, like->args[1] = &like->pattern, like->args[2] = &like->escape;
    like->call = (Expr){ .kind = EXPR_CALL, .type = TYPE(BOOLEAN), .op = op, .n_args = escape ? 3 : 2,
                         .args = like->args };
}

static bool interpret(const Like *like, weft_text text, Arena *arena)
{
    Value             value = text_value(text.bytes, text.length), result;
    const EvalContext of = { .arena = arena, .column = give_text, .context = &value };
    Error             err;
    error_clear(&err);
    CHECK_OK(expr_eval(&like->call, &of, &result, &err), err);
    return result.i != 0;
}

// How often the search and the interpreter differ; -1: the search does not take the pattern.
static int count_wrong(Dictionary *dict, const char *pattern, const char *escape, int *n_matches)
{
    Arena      *arena = arena_new(NULL, "test");
    const u32   count = dict_count(dict);
    u64        *bits = arena_array(arena, u64, count / 64 + 1);
    LikePattern prepared;
    Like        like;
    int         n_wrong = 0;
    make_like(&like, OP_LIKE, pattern, escape);
    if (!like_prepare(arena, &like.call, &like.column, &prepared)) {
        arena_free(arena);
        return -1;
    }
    for (u32 code = 0; code < count;) {
        TextRun run;
        CHECK(dict_run(dict, code, &run));
        const u32 end = MIN_OF(run.first + run.n_texts, code + 64 - code % 64);     // as threads cut it
        like_search(&prepared, &run, code, end, bits);
        code = end;
    }
    for (u32 code = 0; code < count; code++) {
        const weft_text text = dict_get(dict, code);
        const bool      wanted = interpret(&like, text, arena), found = bits[code / 64] >> code % 64 & 1;
        n_wrong += wanted != found || wanted != like_matches(&prepared, text.bytes, text.length);
        *n_matches += wanted;
    }
    arena_free(arena);
    return n_wrong;
}

static Dictionary *random_texts(u64 *state, u32 count)
{
    static const char *const letters[] = { "a", "b", "ab", "é", "€", "%", "_", "\\", "😀", " " };
    Dictionary *dict = dict_new(NULL);
    Error       err;
    u32         code;
    error_clear(&err);
    while (dict_count(dict) < count) {
        char text[256] = "";
        for (u64 n = next_random(state) % 12; n > 0; n--) strcat(text, letters[next_random(state) % 10]);
        CHECK_OK(dict_intern(dict, text, strlen(text), &code, &err), err);
    }
    return dict;
}

TEST(like_by_search_is_like_by_the_interpreter)
{
    static const char *const pieces[] = { "%", "%", "a", "b", "é", "€", "\\%", "\\_", "\\\\", "😀", "ab" };
    u64         state = 7;
    int         n_matches = 0, n_taken = 0;
    Dictionary *dict = random_texts(&state, 700);
    for (int round = 0; round < 1500; round++) {
        char pattern[64] = "";
        for (u64 n = 1 + next_random(&state) % 6; n > 0; n--) strcat(pattern, pieces[next_random(&state) % 11]);
        const int n_wrong = count_wrong(dict, pattern, NULL, &n_matches);
        CHECK(n_wrong <= 0);
        n_taken += n_wrong == 0;
    }
    CHECK(n_taken > 1200 && n_matches > 10000);
    dict_release(dict);
}

TEST(escapes_are_those_of_the_interpreter)
{
    u64         state = 8;
    int         n_matches = 0;
    Dictionary *dict = random_texts(&state, 700);
    CHECK_INT(count_wrong(dict, "%a%%%", "%", &n_matches), -1);        // ends with an escape
    CHECK_INT(count_wrong(dict, "%a\\b%", "", &n_matches), 0);         // nothing escapes
    CHECK_INT(count_wrong(dict, "%éé%", "é", &n_matches), 0);
    CHECK_INT(count_wrong(dict, "%é%a%", "é", &n_matches), 0);
    CHECK_INT(count_wrong(dict, "%a€_%", "€", &n_matches), 0);
    CHECK_INT(count_wrong(dict, "%a€%%", "€", &n_matches), 0);
    CHECK(n_matches > 0);
    dict_release(dict);
}

TEST(other_patterns_are_left_to_the_interpreter)
{
    Arena      *arena = arena_new(NULL, "test");
    LikePattern prepared;
    Like        like;
    const char *others[] = { "%", "", "%%", "a_b", "_", "%ab\\" };
    for (int i = 0; i < 6; i++) {
        make_like(&like, OP_LIKE, others[i], NULL);
        CHECK(!like_prepare(arena, &like.call, &like.column, &prepared));
    }
    make_like(&like, OP_ILIKE, "%ab%", NULL);
    CHECK(!like_prepare(arena, &like.call, &like.column, &prepared));
    make_like(&like, OP_LIKE, "%ab%", NULL);
    CHECK(like_prepare(arena, &like.call, &like.column, &prepared));
    like.pattern.value.is_null = true;
    CHECK(!like_prepare(arena, &like.call, &like.column, &prepared));
    arena_free(arena);
}
