// weft.h - the public C API of Weft's database; weft_flow.h beside it is the one of its streams.
//
//     weft_db *db;  weft_session *session;  weft_result *result;  weft_error error;
//     if (weft_open("sales.weft", &db, &error)) ...;           // NULL, "" or ":memory:" opens a database in memory
//     weft_connect(db, &session, &error);
//     if (weft_query(session, "select sum(price) from t", &result, &error)) puts(error.message);
//     const weft_column *sum = weft_result_column(result, 0);
//     printf("%lld\n", (long long)sum->i64[0]);
//     weft_result_free(result);  weft_disconnect(session);  weft_close(db);
//
// Threads: one database serves any number of sessions, each used by one thread at a time.  weft_cancel, weft_progress
// and weft_queue_position are the exceptions: any thread may call them while another waits in weft_query.  Ownership: a
// result is independent of its session once returned, and must be freed before the database is closed.

#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)  // what libweft.so shows
#endif

#define WEFT_VERSION "0.1.0"

// Every way a call can end: name, SQLSTATE, what it means.  The names below, the log and the SQLSTATEs come from this
// list.
#define WEFT_STATUS_LIST(X)                                                    \
    X(OK,                  "00000", "success")                                 \
    X(END_OF_STREAM,       "02000", "stream has ended")                        \
    X(UNSUPPORTED,         "0A000", "feature is not supported")                \
    X(BAD_COPY,            "22P04", "file does not have the expected form")    \
    X(BAD_TEXT,            "22P02", "text is not a value of the type")         \
    X(TEXT_TOO_LONG,       "22001", "text is longer than its column allows")   \
    X(OUT_OF_RANGE,        "22003", "value is out of range of its type")       \
    X(DIVISION_BY_ZERO,    "22012", "division by zero")                        \
    X(BAD_DATETIME,        "22007", "text is not a date")                      \
    X(DATETIME_OVERFLOW,   "22008", "date is out of range")                    \
    X(INTERVAL_OVERFLOW,   "22015", "interval is out of range")                \
    X(BAD_ESCAPE,          "22025", "pattern ends with its escape character")  \
    X(BAD_SUBSTRING,       "22011", "length of a substring is negative")       \
    X(BAD_REGEXP,          "2201B", "regular expression is not valid")         \
    X(BAD_ENCODING,        "22021", "text is not UTF-8")                       \
    X(INVALID_PARAMETER,   "22023", "setting or option has no such value")     \
    X(BAD_LIMIT,           "2201W", "limit is negative")                       \
    X(BAD_OFFSET,          "2201X", "offset is negative")                      \
    X(BAD_FRAME,           "22013", "frame of a window is not valid")          \
    X(BAD_NTILE,           "22014", "ntile of less than one")                  \
    X(BAD_NTH_VALUE,       "22016", "nth_value of less than one")              \
    X(NULL_NOT_ALLOWED,    "22004", "null where a value is needed")            \
    X(BAD_POWER,           "2201F", "no real number is the root or power")     \
    X(BAD_LOGARITHM,       "2201E", "logarithm of zero or a negative number")  \
    X(BAD_WIDTH_BUCKET,    "2201G", "bounds or count of width_bucket are wrong") \
    X(NOT_NULL_VIOLATION,  "23502", "null in a column that forbids it")        \
    X(UNIQUE_VIOLATION,    "23505", "key is there already")                    \
    X(CARDINALITY,         "21000", "more than one row where one was expected") \
    X(SYNTAX_ERROR,        "42601", "syntax error")                            \
    X(UNDEFINED_COLUMN,    "42703", "column does not exist")                   \
    X(AMBIGUOUS_COLUMN,    "42702", "column name is ambiguous")                \
    X(UNDEFINED_PARAMETER, "42P02", "parameter does not exist")                \
    X(UNDEFINED_STATEMENT, "26000", "prepared statement does not exist")       \
    X(DUPLICATE_STATEMENT, "42P05", "prepared statement exists already")       \
    X(DEPENDENT_OBJECTS,   "2BP01", "other objects depend on it")              \
    X(UNDEFINED_TABLE,     "42P01", "table does not exist")                    \
    X(DUPLICATE_TABLE,     "42P07", "table exists already")                    \
    X(DUPLICATE_COLUMN,    "42701", "column named twice")                      \
    X(DUPLICATE_ALIAS,     "42712", "table name used twice")                   \
    X(UNDEFINED_FUNCTION,  "42883", "no such function or operator")            \
    X(UNDEFINED_OBJECT,    "42704", "no such type or setting")                 \
    X(WRONG_OBJECT,        "42809", "name is not of the kind that is needed")   \
    X(TYPE_MISMATCH,       "42804", "types do not fit")                        \
    X(CANNOT_COERCE,       "42846", "type cannot be cast to the other")        \
    X(GROUPING_ERROR,      "42803", "column must be grouped or aggregated")    \
    X(WINDOWING_ERROR,     "42P20", "window function is not allowed here")     \
    X(INVALID_REFERENCE,   "42P10", "position is not in the select list")      \
    X(INVALID_RECURSION,   "42P19", "a recursive query is not of a form that is possible") \
    X(INVALID_NAME,        "42602", "name is not valid")                       \
    X(INVALID_TABLE,       "42P16", "table cannot be defined so")              \
    X(DUPLICATE_OBJECT,    "42710", "constraint exists already")               \
    X(TOO_MANY_COLUMNS,    "54011", "too many columns")                        \
    X(TOO_COMPLEX,         "54001", "statement is too complex")                \
    X(TOO_LONG,            "54000", "a program limit was exceeded")            \
    X(OUT_OF_MEMORY,       "53200", "out of host or device memory")            \
    X(DISK_FULL,           "53100", "disk is full")                            \
    X(TEMP_LIMIT,          "53400", "temporary files need more than temp_limit") \
    X(OBJECT_IN_USE,       "55006", "database is in use by another process")   \
    X(SESSION_BUSY,        "55000", "session is running another query")        \
    X(READ_ONLY,           "25006", "database can only be read")               \
    X(QUERY_CANCELED,      "57014", "query was cancelled")                     \
    X(NOT_READY,           "55P03", "not there within the time that was given") \
    X(OPERATOR_FAILED,     "38000", "operator of a flow failed, hung or died") \
    X(NO_DEVICE,           "55000", "device is not there or cannot be used")   \
    X(DEVICE_FAILED,       "58000", "device failed")                           \
    X(IO_ERROR,            "58030", "file could not be read or written")       \
    X(UNDEFINED_FILE,      "58P01", "no such file")                            \
    X(CORRUPT,             "XX001", "database file is damaged")                \
    X(KERNEL_BUILD,        "XX000", "generated kernel did not compile")        \
    X(INTERNAL,            "XX000", "internal error")                          \
    X(AMBIGUOUS_ALIAS,     "42P09", "table name is ambiguous")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, sqlstate, text) WEFT_##name,
    WEFT_STATUS_LIST(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
    WEFT_N_STATUS
} weft_status;

typedef struct weft_error {
    weft_status status;
    char        sqlstate[6];
    char        message[512];
    char        hint[256];            // empty when there is none
    int         position;             // 1-based character in the SQL text; 0 when the error has no place
} weft_error;

typedef struct weft_db      weft_db;
typedef struct weft_session weft_session;
typedef struct weft_result  weft_result;

typedef enum weft_type {
    WEFT_BOOLEAN, WEFT_SMALLINT, WEFT_INTEGER, WEFT_BIGINT,
    WEFT_DECIMAL,                     // scaled by 10^scale; i64
    WEFT_NUMERIC,                     // the same with 128 bits, where a sum needs them; i128
    WEFT_REAL, WEFT_DOUBLE,           // f64
    WEFT_DATE,                        // days since 1970-01-01; i64
    WEFT_TEXT,                        // UTF-8; text
    WEFT_TIMESTAMP,                   // microseconds since 1970-01-01; i64
    WEFT_TIMESTAMPTZ,                 // the same in UTC; i64
    WEFT_TIME,                        // microseconds since midnight; i64
    WEFT_INTERVAL,                    // as PostgreSQL writes it: "1 mon 2 days 03:04:05"; text
    WEFT_UUID                         // 36 characters; text
} weft_type;

typedef struct weft_int128    { uint64_t low; int64_t high; } weft_int128;
typedef struct weft_text      { const char *bytes; size_t length; } weft_text;   // also NUL-terminated

// A column of a result.  Boolean, all integers, decimal, date, time and timestamps are in i64.
typedef struct weft_column {
    const char    *name;
    weft_type      type;
    int            precision, scale;  // decimal and numeric only
    const uint8_t *is_null;           // a byte per row, or NULL when no row is NULL
    union {
        const int64_t     *i64;
        const weft_int128 *i128;
        const double      *f64;
        const weft_text   *text;
    };
    const uint8_t *shown;             // of quotients and averages: the digits behind the point that each row shows, at
                                      // most scale, as weft_format does; NULL: scale
} weft_column;

// Opens the database in directory PATH, which is made when missing (".weft" is added to a bare name).
weft_status weft_open(const char *path, weft_db **db, weft_error *error);
void        weft_close(weft_db *db);  // sessions must be disconnected first; NULL is fine

weft_status weft_connect(weft_db *db, weft_session **session, weft_error *error);
void        weft_disconnect(weft_session *session);                      // NULL is fine

// Runs SQL, one statement or several separated by ';', and returns the result of the last.
// On failure *RESULT is NULL, and the statements before the failing one stay done.
weft_status weft_query(weft_session *session, const char *sql, weft_result **result, weft_error *error);
void        weft_cancel(weft_session *session);  // any thread: the running query ends with 57014
double      weft_progress(const weft_session *session);                  // any thread: 0 to 1, or -1 when nothing runs
// Any thread: the place of the session's query among those that wait until their memory fits beside what runs, from 1
// on; 0: it does not wait.
int         weft_queue_position(const weft_session *session);

// The same without waiting: the query joins those that run, and shares their scans.  A session runs one query at a
// time, so each task needs a session of its own; sessions are cheap.  SQL is copied.  weft_wait ends the task, and must
// be called once.
typedef struct weft_task weft_task;
weft_status weft_submit(weft_session *session, const char *sql, weft_task **task, weft_error *error);
bool        weft_is_done(const weft_task *task);                         // weft_wait will not block
// The same, and NOTIFY is called once the task is done: for a program that has many tasks in flight and waits for any
// of them.  It is called on a thread of the database, so it should do little: wake another thread, write to an eventfd.
// CONTEXT must live until the call has come; *TASK is set before it comes, and may be waited for in it.
weft_status weft_submit_notify(weft_session *session, const char *sql, void (*notify)(void *context), void *context,
                               weft_task **task, weft_error *error);
weft_status weft_wait(weft_task *task, weft_result **result, weft_error *error);

// A statement with parameters ($1, $2, ...), to be run many times.  It belongs to its session, whose thread uses it,
// and must be freed before the session is disconnected.  Parameters count from 1; one that was never bound is NULL.  A
// text becomes what its place asks for, as a literal in quotes does: '2026-01-31' is a date beside a date.  Texts are
// copied; LENGTH -1: up to the NUL.  Each value stays until it is bound again.
typedef struct weft_statement weft_statement;
weft_status weft_prepare(weft_session *session, const char *sql, weft_statement **statement, weft_error *error);
weft_status weft_bind_null(weft_statement *statement, int number);       // UNDEFINED_PARAMETER: the number is none
weft_status weft_bind_bool(weft_statement *statement, int number, bool value);
weft_status weft_bind_int64(weft_statement *statement, int number, int64_t value);
weft_status weft_bind_double(weft_statement *statement, int number, double value);
weft_status weft_bind_text(weft_statement *statement, int number, const char *bytes, size_t length);
weft_status weft_execute(weft_statement *statement, weft_result **result, weft_error *error);     // as weft_query
void        weft_statement_free(weft_statement *statement);              // NULL is fine

// Descriptors that COPY ... FROM STDIN reads to its end and COPY ... TO STDOUT writes; 0 and 1 unless said otherwise.
void        weft_set_input(weft_session *session, int fd);
void        weft_set_output(weft_session *session, int fd);

size_t             weft_result_rows(const weft_result *result);
int                weft_result_columns(const weft_result *result);       // 0 for statements that return no table
const weft_column *weft_result_column(const weft_result *result, int column);
const char        *weft_result_tag(const weft_result *result);  // "SELECT 3", "CREATE TABLE", "COPY 6001171", ...
int                weft_result_notices(const weft_result *result);
// "cc not found: ...": never silent, never fatal.
const char        *weft_result_notice(const weft_result *result, int n);
void               weft_result_free(weft_result *result);                // NULL is fine

// The value as psql would print it, NUL-terminated and cut to CAPACITY; returns the full length.  NULL gives "".
size_t weft_format(const weft_result *result, int column, size_t row, char *buffer, size_t capacity);

// The length of the first statement in SQL, its ';' included, or 0 when the text ends inside one (or is blank).
// Knows quotes, dollar quotes and comments; for shells that read line by line.
size_t weft_statement_length(const char *sql);

const char *weft_status_name(weft_status status);                        // "UNDEFINED_TABLE"
const char *weft_type_name(weft_type type);                              // "bigint"

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
