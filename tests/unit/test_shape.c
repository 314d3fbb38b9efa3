// test_shape.c - texts without their literals, and trees that are filled in for another text: each must be, byte for
// byte, the tree that libpg_query makes of that text.

#include "test.h"

#include <dirent.h>
#include <pthread.h>

#include <pg_query.h>

#include "sql/sql_int.h"

static TextShape shape_of(Arena *arena, const char *text)
{
    TextShape shape;
    sql_shape(arena, text, strlen(text), false, &shape);
    return shape;
}

static bool is_same_key(const TextShape *a, const TextShape *b)
{
    return a->key_length == b->key_length && memcmp(a->key, b->key, a->key_length) == 0;
}

static bool has_same_shape(const char *a, const char *b)
{
    Arena          *arena = arena_new(NULL, "test");
    const TextShape of_a = shape_of(arena, a), of_b = shape_of(arena, b);
    const bool      is_same = is_same_key(&of_a, &of_b) && of_a.hash == of_b.hash;
    arena_free(arena);
    return is_same;
}

static ParseTree *parse(const char *text)
{
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(text);
    ParseTree *tree = parsed.error ? NULL : tree_unpack(parsed.parse_tree.data, parsed.parse_tree.len);
    pg_query_free_protobuf_parse_result(parsed);
    return tree;
}

static size_t pack(const ParseTree *tree, u8 **bytes)
{
    *bytes = malloc(pg_query__parse_result__get_packed_size(tree_result(tree)) + 1);
    return pg_query__parse_result__pack(tree_result(tree), *bytes);
}

// The tree of MADE_FROM, filled in for TEXT, is the one of TEXT.  What is found out is whether it suits.
static bool fills(const char *made_from, const char *text)
{
    Arena          *arena = arena_new(NULL, "test");
    const TextShape from = shape_of(arena, made_from), to = shape_of(arena, text);
    ParseTree      *tree = parse(made_from), *wanted = parse(text);
    void           *result = tree ? (void *)(uintptr_t)tree_result(tree) : NULL;
    TreeFields     *fields = tree ? tree_fields(arena, result, &from, false) : NULL;
    const bool      suits = fields && is_same_key(&from, &to) && fields_suit(fields, &to);
    if (suits) {
        u8          *filled_bytes, *wanted_bytes;
        if (!wanted) CHECK_FAIL("not SQL, but of the shape of what is: %s", text);
        fields_fill(arena, fields, &to);
        const size_t n_filled = pack(tree, &filled_bytes), n_wanted = pack(wanted, &wanted_bytes);
        if (n_filled != n_wanted || memcmp(filled_bytes, wanted_bytes, n_wanted) != 0)
            CHECK_FAIL("another tree is filled in for\n%s\nmade from\n%s", text, made_from);
        free(filled_bytes), free(wanted_bytes);
    }
    tree_release(tree), tree_release(wanted);
    arena_free(arena);
    return suits;
}

TEST(literals_of_one_kind_have_one_shape)
{
    CHECK(has_same_shape("select 1", "select 2147483647"));
    CHECK(has_same_shape("select 'a'", "select 'it''s'"));
    CHECK(has_same_shape("select 1.5", "select 2147483648"));     // what no int holds
    CHECK(has_same_shape("select 007", "select 00000000000000000000000000001"));
    CHECK(has_same_shape("select  a\nfrom t", "select a  from\tt -- x"));
    CHECK(has_same_shape("select 'ä'", "select 'o'"));
}

TEST(what_may_mean_something_else_has_another_shape)
{
    const char *const pairs[][2] = {
        { "select 1", "select 1.0" },
        { "select 1", "select '1'" },
        { "select 1", "select 2147483648" },
        { "select a < = b", "select a <= b" },
        { "select a - -1", "select a --1" },
        { "select 1", " select 1" },                        // a place of 0 may be none
        { "select E'a'", "select E'b'" },
        { "select B'0'", "select X'0'" },
        { "select $$a$$", "select $$b$$" },
        { "select 1e5", "select 1e6" },
        { "select .5", "select .6" },
        { "select a.1", "select a .1" },
        { "select 'a'\n'b'", "select 'a' 'b'" },
        { "select a from t", "select A from t" },
        { "select a not in (1)", "select a not /* */ in (1)" },                // no SQL for libpg_query
        { "select \"a\"", "select \"b\"" },
        { "select 1\v", "select 1 " },
        { "select 'a", "select 'b" },
        { "select '\xff'", "select 'a'" },
    };
    for (int i = 0; i < COUNT_OF(pairs); i++)
        if (has_same_shape(pairs[i][0], pairs[i][1])) CHECK_FAIL("one shape: %s | %s", pairs[i][0], pairs[i][1]);
}

TEST(trees_are_filled_in)
{
    const char *const pairs[][2] = {
        { "select 1", "select 22" },
        { "select 1;", "select 1000;" },
        { "  select 1 ;", "\n\nselect 1000\n; -- comment" },
        { "select 'a', \"x\" from t", "select 'it''s', \"x\" from t -- longer" },
        { "select '' from t", "select 'x' from t" },
        { "select 'x' from t", "select '' from t" },
        { "select -1, - 1, a-1, a - 1.5, -1.5", "select -0, - 2147483647, a-77, a - 2147483648, -2147483648" },
        { "select date '1994-01-01' + interval '3' day", "select date 'never' + interval '30000' day" },
        { "select x::numeric(10,2), cast(y as varchar(5))", "select x::numeric(7,0), cast(y as varchar(1000000))" },
        { "select a from t order by 1 limit 2 offset 3", "select a from t order by 100 limit 0 offset 3000000" },
        { "select a in (1, 2, 3), b in ('x')", "select a in (10, 20, 30), b in ('')" },
        { "select x like 'a%' escape 'b'", "select x like '' escape 'cc'" },
        { "select extract('year' from d), substring(x from 1 for 2)",
          "select extract('' from d), substring(x from 9 for 0)" },
        { "select sum(a) over (order by b rows 1 preceding)", "select sum(a) over (order by b rows 12345 preceding)" },
        { "with q as (select 1) select * from q where a between 1 and 2",
          "with q as (select 100) select * from q where a between 3 and 9999" },
        { "select case a when 1 then 'x' else 'y' end", "select case a when 123 then '' else 'zzzzzz' end" },
        { "select timestamp(3) '2000-01-01'", "select timestamp(6) 'x'" },
        { "select 'ä', b", "select 'äöü', b" },
        { "select a from t fetch first 5 rows only", "select a from t fetch first 500 rows only" },
        { "select n'a', date'b'", "select n'a', date'cc'" },
        { "values (1, 'a'), (2, 'b')", "values (111, ''), (0, 'bbbb')" },
    };
    for (int i = 0; i < COUNT_OF(pairs); i++) {
        if (!fills(pairs[i][0], pairs[i][1])) CHECK_FAIL("not filled in: %s from %s", pairs[i][1], pairs[i][0]);
        if (!fills(pairs[i][1], pairs[i][0])) CHECK_FAIL("not filled in: %s from %s", pairs[i][0], pairs[i][1]);
    }
}

// Where the grammar decides by the value, or where no constant is left of a literal.
TEST(literals_that_the_grammar_looks_at_are_fixed)
{
    const char *const pairs[][2] = {
        { "select a::float(24)", "select a::float(25)" },
        { "select a::int[3]", "select a::int[4]" },
        { "select - -1", "select - -2" },
        { "select $1", "select $2" },
        { "select B'01'", "select B'11'" },
        { "select U&'a'", "select U&'b'" },
        { "select 1e-5", "select 1e-6" },
        { "select a from 'x.csv'", "select a from 'y.csv'" },
    };
    for (int i = 0; i < COUNT_OF(pairs); i++)
        if (fills(pairs[i][0], pairs[i][1])) CHECK_FAIL("filled in: %s from %s", pairs[i][1], pairs[i][0]);
    CHECK(fills("select a::float(24), 1", "select a::float(24), 2"));
}

// ---- trees in use by several threads --------------------------------------------------------------------------------

enum { N_THREADS = 4, N_ROUNDS = 400 };

static _Atomic int n_wrong;

static const PgQuery__AConst *constant_of(const ParseTree *tree, size_t output)
{
    const PgQuery__SelectStmt *select = tree_result(tree)->stmts[0]->stmt->select_stmt;
    return select->target_list[output]->res_target->val->a_const;
}

// Each thread has a tree of its own, with its own constants.
static void *find_and_keep(void *context)
{
    const int own = *(const int *)context;
    for (int i = 0; i < N_ROUNDS; i++) {
        Arena    *arena = arena_new(NULL, "test");
        char      sql[80], text[20];
        const int number = own * N_ROUNDS + i;
        snprintf(text, sizeof text, "%d", number);
        snprintf(sql, sizeof sql, "select '%s', %d as of_threads", text, number);
        const TextShape shape = shape_of(arena, sql);
        ParseTree      *tree = tree_find(&shape);
        if (!tree) tree = parse(sql), tree_keep(tree, &shape, false);
        if (i % 16 == 0) usleep(100);                       // another thread wants one meanwhile
        n_wrong += strcmp(constant_of(tree, 0)->sval->sval, text) != 0 || constant_of(tree, 1)->ival->ival != number;
        tree_release(tree);
        arena_free(arena);
    }
    return NULL;
}

TEST(threads_do_not_see_the_constants_of_others)
{
    pthread_t        threads[N_THREADS];
    int              numbers[N_THREADS];
    const TreeCounts before = tree_counts();
    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        CHECK_INT(pthread_create(&threads[i], NULL, find_and_keep, &numbers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_INT(n_wrong, 0);
    CHECK(tree_counts().n_missed - before.n_missed <= N_THREADS);
    CHECK_INT(tree_counts().n_found + tree_counts().n_missed - before.n_found - before.n_missed, N_THREADS * N_ROUNDS);
}

// ---- all SQL tests, with other constants ----------------------------------------------------------------------------

static u64 seed = 1;

static u64 draw(u64 n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

static void add_other_literal(Text *text, const Literal *literal)
{
    static const char *const texts[] = { "''", "'x'", "'it''s'", "'1994-01-01'", "'%'", "'äöü'", "'--'", "'/*'",
                                         "'a longer text than most'", "'1 day'", "'\\'", "'$$'", "'\n'", "'\"'" };
    static const char *const integers[] = { "0", "1", "7", "2147483647", "00012", "99" };
    static const char *const numbers[] = { "0.0", "2147483648", "1.", "123456789012345678901234567890.5", "00.10" };
    switch (literal->kind) {
        case LITERAL_TEXT:    text_add(text, "%s", texts[draw(COUNT_OF(texts))]);  break;
        case LITERAL_INTEGER: text_add(text, "%s", integers[draw(COUNT_OF(integers))]);  break;
        default:              text_add(text, "%s", numbers[draw(COUNT_OF(numbers))]);
    }
}

// One in four stays.  Blanks become other blanks, now and then comments.
static char *with_other_literals(Arena *arena, const char *sql)
{
    static const char *const blanks[] = { " -- x 'y' 1\n", "/* 2 */", " /* 'x' /* */ */ ", " ", "  ", "\n", "\t" };
    const TextShape shape = shape_of(arena, sql);
    Text            text = { 0 };
    const bool      has_comments = draw(20) == 0;
    int             next = 0;
    size_t          end = 0;
    text_add(&text, "%s", "");
    for (int i = 0; i < shape.n_tokens; i++) {
        const size_t start = (size_t)shape.starts[i];
        const char  *p = sql + start;
        const Token  token = token_next(&p);
        if (start > end) text_add(&text, "%s", blanks[has_comments ? draw(COUNT_OF(blanks)) : 3 + draw(4)]);
        const bool is_literal = next < shape.n_literals && shape.literals[next].token == i;
        if (is_literal && draw(4)) add_other_literal(&text, &shape.literals[next]);
        else text_add(&text, "%.*s", (int)token.length, token.start);
        next += is_literal;
        end = start + token.length;
    }
    return text_keep(arena, &text);
}

typedef struct Tally { int n_texts, n_filled; } Tally;

static void try_statement(const char *sql, Tally *tally)
{
    Arena     *arena = arena_new(NULL, "test");
    ParseTree *tree = strlen(sql) < 3000 ? parse(sql) : NULL;
    for (int i = 0; tree && i < 2; i++) {
        const char *other = with_other_literals(arena, sql);
        tally->n_texts++;
        tally->n_filled += *other && fills(sql, other);
    }
    tree_release(tree);
    arena_free(arena);
}

// Statements stand after "query" and "statement", up to an empty line or ----.
static void try_file(const char *path, Tally *tally)
{
    FILE  *file = fopen(path, "r");
    Text   sql = { 0 };
    char  *line = NULL;
    size_t room = 0;
    bool   is_inside = false;
    CHECK(file != NULL);
    while (getline(&line, &room, file) >= 0) {
        const bool begins = strncmp(line, "query ", 6) == 0 || strncmp(line, "statement ", 10) == 0;
        const bool ends = line[0] == '\n' || strncmp(line, "----", 4) == 0;
        if (is_inside && !ends) text_add(&sql, "%s", line);
        if (is_inside && ends) {
            if (sql.length) try_statement(sql.bytes, tally);
            sql.length = 0;
        }
        is_inside = begins || (is_inside && !ends);
    }
    text_free(&sql);
    free(line);
    fclose(file);
}

TEST(sql_tests_with_other_constants_have_the_trees_that_are_filled_in)
{
    DIR   *folder = opendir("tests/sql");
    Tally  tally = { 0 };
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[512];
        if (!strstr(entry->d_name, ".slt")) continue;
        snprintf(path, sizeof path, "tests/sql/%s", entry->d_name);
        try_file(path, &tally);
    }
    closedir(folder);
    printf("%d of %d texts were filled in\n", tally.n_filled, tally.n_texts);
    CHECK(tally.n_texts > 5000);
    CHECK(tally.n_filled > tally.n_texts / 2);
}
