// engine_help.h - what the tests of the engine share: a database, statements, answers as text, big tables.  Include
// after test.h.
//
// Inline, so that a program may leave some of them unused.

#ifndef WEFT_ENGINE_HELP_H
#define WEFT_ENGINE_HELP_H

#include "engine/engine.h"

static weft_db      *db;                                    // of the test that runs
static weft_session *session;
static weft_error    err;

// ---- databases ------------------------------------------------------------------------------------------------------

#define TEST_MEMORY ((i64)4 << 30)                          // a test that goes wrong must not take the machine with it

// A test that failed left its database open; the next one does not care.
// Tests of memory count what queries leave, so join tables do not stay for later ones: see test_pieces.c.
static inline void open_db(const char *path)
{
    setenv("WEFT_KEEP_TABLES", "off", 0);
    CHECK_OK(weft_open(path, &db, &err), err);
    CHECK_OK(weft_connect(db, &session, &err), err);
    db->budget.limit = TEST_MEMORY;
}

static inline void close_db(void)
{
    weft_disconnect(session);
    weft_close(db);
    session = NULL;
    db = NULL;
}

static inline const char *fresh_path(void)
{
    static int n;
    char name[32];
    snprintf(name, sizeof(name), "db%d.weft", ++n);
    return test_path(name);
}

// ---- statements -----------------------------------------------------------------------------------------------------

static inline weft_result *query(const char *sql)
{
    weft_result *result = NULL;
    if (weft_query(session, sql, &result, &err) != WEFT_OK)
        CHECK_FAIL("%.200s failed: %s (%s)", sql, err.message, err.sqlstate);
    return result;
}

static inline void run(const char *sql)
{
    weft_result_free(query(sql));
}

static inline weft_status try_run(const char *sql)
{
    weft_result *result = NULL;
    weft_status status = weft_query(session, sql, &result, &err);
    CHECK((status == WEFT_OK) == (result != NULL) && status == err.status);
    weft_result_free(result);
    return status;
}

static inline void fails(const char *sql, weft_status should)
{
    weft_status is = try_run(sql);
    if (is != should)
        CHECK_FAIL("%.200s: %s (%s), should be %s", sql, weft_status_name(is), err.message, weft_status_name(should));
}

// Rows as a|b;c|d; with NULL as "-".
static inline void result_text(const weft_result *result, Text *text)
{
    text_clear(text);
    text_add(text, "%s", "");
    for (size_t row = 0; row < weft_result_rows(result); row++) {
        for (int i = 0; i < weft_result_columns(result); i++) {
            const weft_column *column = weft_result_column(result, i);
            char small[256];
            text_add(text, i ? "|" : "");
            if (column->is_null && column->is_null[row]) {
                text_add(text, "-");
                continue;
            }
            size_t length = weft_format(result, i, row, small, sizeof(small));
            char *large = length < sizeof(small) ? NULL : malloc(length + 1);
            if (large)
                weft_format(result, i, row, large, length + 1);
            text_add(text, "%s", large ? large : small);
            free(large);
        }
        text_add(text, ";");
    }
}

static inline const char *answer(const char *sql)
{
    static Text text;
    weft_result *result = query(sql);
    result_text(result, &text);
    weft_result_free(result);
    return text.bytes;
}

#define CHECK_ANSWER(sql, should) CHECK_STR(answer(sql), should)

// ---- big tables, put into the store directly ------------------------------------------------------------------------

typedef i64 (*NumberOf)(u64 row);

// The name of a column in SQL says how its values come about.
static inline i64 number_id(u64 row)
{
    return (i64)row;
}

static inline i64 number_ten(u64 row)
{
    return (i64)(row % 10);
}

static inline i64 number_mixed(u64 row)                     // the same numbers as id, in no order, when row < 2^31
{
    return (i64)(row * 2654435761u % 2147483647u);
}

// TABLE must have COUNT bigint (or, with codes, text) columns.
static inline void fill(const char *table, const NumberOf *numbers, int n_columns, u64 n_rows)
{
    enum { PIECE = 1 << 16 };
    Append *append;
    ColumnInput inputs[8];
    i64 *values = malloc(sizeof(i64) * PIECE * (size_t)n_columns);
    u64 n_appended;
    error_clear(&err);
    CHECK_OK(append_begin(db->store, table, &append, &err), err);
    const Table *to = append_table(append);
    for (u64 first = 0, piece = 0; first < n_rows; first += PIECE, piece++) {
        u32 n = (u32)MIN_OF((u64)PIECE, n_rows - first);
        for (int c = 0; c < n_columns; c++) {
            i64 *column = values + (size_t)c * PIECE;
            for (u32 i = 0; i < n; i++) {
                column[i] = numbers[c](first + i);
                if (to->columns[c].type.kind != TYPE_TEXT)
                    continue;
                char word[64];
                u32 code;
                int length = snprintf(word, sizeof(word), "word %lld of %d", (long long)column[i], c);
                CHECK_OK(dict_intern(to->columns[c].dict, word, (size_t)length, &code, &err), err);
                column[i] = code;
            }
            inputs[c] = (ColumnInput){ .i = column };
        }
        CHECK_OK(append_rows(append, piece, inputs, n, &err), err);
    }
    CHECK_OK(append_commit(append, &n_appended, &err), err);
    CHECK_INT(n_appended, n_rows);
    free(values);
}

// id: 0, 1, 2, ...; ten: the last digit; mixed: a number in no order; word: a text, one per mixed.
static inline void make_big(const char *name, u64 n_rows, bool with_words)
{
    const NumberOf numbers[] = { number_id, number_ten, number_mixed, number_mixed };
    char sql[256];
    snprintf(sql, sizeof(sql), "create table %s (id bigint, ten bigint, mixed bigint%s)", name,
             with_words ? ", word text" : "");
    run(sql);
    fill(name, numbers, with_words ? 4 : 3, n_rows);
}

#endif
