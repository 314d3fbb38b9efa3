// shell.h - the command line: what its parts share.
//
// Text comes in pieces (a line from the prompt, a file, standard input, -c) and goes through a Script, which runs each
// statement as soon as its ';' is there:
//
//     Script script = { .shell = shell, .name = "load.sql", .line = 1 };
//     while (there is a line) if (!script_feed(&script, line, length)) break;
//     script_finish(&script);
//
// Everything stands on weft.h alone: what the shell can do, any program that links the library can do.

#ifndef WEFT_SHELL_H
#define WEFT_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "weft.h"

// ---- the shell ---------------------------------------------------------------------------------------------------

typedef enum OutputFormat { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON } OutputFormat;

typedef struct NextFile { char *path; bool is_temporary; } NextFile;          // temporary: removed once it has run

// What \top and weft run --top ask of weft_riders and weft_scans.
#define TOP_SHAPE "coalesce(shared_kernel, kernel)"
#define TOP_RUNS "coalesce(woven_as, case when fellow_riders > 0 then 'side by side' else 'alone' end)"
#define TOP_PER_READ "cast(round(chunks_ridden * 1.0 / nullif(chunks_read, 0), 1) as text)"
#define TOP_PER_KERNEL "cast(round(chunks_woven_ridden * 1.0 / nullif(chunks_woven, 0), 1) as text)"

typedef struct Shell {
    weft_db      *db;
    weft_session *session;
    OutputFormat  format;
    bool          is_interactive;      // a prompt, with a user who can read notes and press Ctrl-C
    bool          has_timing;          // after each statement: how long it took
    bool          is_expanded;         // one line per value instead of one per row
    bool          is_auto_expanded;    // the same, on a terminal, where a row would not fit into a line
    bool          has_pager;           // long results go through $PAGER, when a person looks at them
    size_t        rows_shown;          // of a table on a terminal, at most; 0: all
    FILE         *out;                 // \o: where results go; NULL: standard output
    char         *last_sql;            // the statement before: \e, \watch
    bool          is_quiet;            // no "CREATE TABLE" after statements without rows
    bool          keep_going;          // an error does not end a script
    bool          wants_exit;          // \q was given
    NextFile      next_file;           // \i and \e: to be run when the command is done; path NULL: none
    bool          out_is_terminal, err_is_terminal;
    bool          has_unicode;         // the terminal's character set is UTF-8
    bool          has_escapes;         // the terminal is not a dumb one
    bool          has_color;           // nor does NO_COLOR ask for none
    int           script_depth;        // of \i inside \i
    int           n_printed;           // tables so far: in scripts an empty line goes between two
} Shell;

enum { EXIT_SQL_ERROR = 1, EXIT_USAGE = 2 };

// ---- scripts (script.c) ------------------------------------------------------------------------------------------

typedef struct Buffer { char *bytes; size_t length, capacity; } Buffer;        // NUL-terminated once anything was added

typedef struct Script {
    Shell      *shell;
    const char *name;                  // file to name in errors, or NULL
    int         line;                  // of the first pending byte
    Buffer      pending;               // text that has not run yet
    bool        has_failed;
    bool        has_data;              // the rows of COPY ... FROM STDIN follow it, up to a line \.
    FILE       *data;                  // those rows, while they are read, and
    char       *data_sql;              // the COPY
} Script;

bool script_feed(Script *script, const char *bytes, size_t length);            // false: stop reading
bool script_finish(Script *script);                                            // runs the rest; false: it failed
void script_drop(Script *script);                                              // forgets the pending text
bool script_is_inside(const Script *script);                                   // a statement has begun and not ended

bool script_run_text(Shell *shell, const char *text);
bool script_run_stream(Shell *shell, FILE *stream, const char *name);          // NAME may be NULL
bool script_run_file(Shell *shell, const char *path);

// A line that begins with a backslash, and the file of statements that it names (\i, \e).
bool script_run_command(Shell *shell, const char *line);                       // false: it failed, and said so

// ---- one statement (statement.c) ---------------------------------------------------------------------------------

// Runs one statement, prints its result or its error.  NAME and LINE say where it stands, for errors.
bool run_statement(Shell *shell, const char *sql, const char *name, int line);

// The result to where results go: a file of \o, a pager, standard output (output.c).
void show_result(Shell *shell, const weft_result *result);
bool output_to(Shell *shell, const char *path);                                // "": standard output; false: it failed

double now_ms(void);                                                           // a clock that only goes forward

// ---- lines that begin with a backslash (command.c) ---------------------------------------------------------------

// False: it failed, and said so.  Files of statements are left to script_run_command.
bool command_run(Shell *shell, const char *line);
const char *command_name(int n);                                               // "\\d", ..., NULL after the last

bool copy_command_sql(Shell *shell, const char *argument, Buffer *sql);        // \copy (copy_command.c)

bool background_run(Shell *shell, const char *argument);                       // \bg (background.c)
void background_end(Shell *shell);                                             // cancels what runs, before the end

// ---- the prompt (repl.c) -----------------------------------------------------------------------------------------

int repl_run(Shell *shell, const char *path);                                  // PATH: the database, or NULL

struct editline;                                                               // libedit's
unsigned char complete_word(Shell *shell, struct editline *edit);              // the Tab key (complete.c)

// ---- output (print.c, report.c) ----------------------------------------------------------------------------------

void print_result(Shell *shell, const weft_result *result, FILE *out);
void put_json_string(const char *text, size_t length, FILE *out);

// error: message [SQLSTATE], the line with a caret under the place, the hint; to standard error.
void report_error(const Shell *shell, const weft_error *error, const char *sql, const char *name, int line);
void report_notices(const weft_result *result);
void report_problem(const Shell *shell, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- Ctrl-C and the progress bar (progress.c) --------------------------------------------------------------------

void watch_start(const Shell *shell);                                          // once, before the first watch_begin
void watch_stop(void);
void watch_begin(void);                                                        // a statement runs: Ctrl-C cancels it
void watch_end(void);                                                          // it has ended; the bar is gone
bool watch_interrupted(void);                                                  // Ctrl-C since watch_forget
void watch_forget(void);

// ---- text (text.c) -----------------------------------------------------------------------------------------------

void *must_realloc(void *memory, size_t bytes);                                // out of memory ends the process
char *must_copy(const char *text);
void  buffer_add(Buffer *buffer, const char *bytes, size_t length);
void  buffer_puts(Buffer *buffer, const char *text);
void  buffer_clear(Buffer *buffer);                                            // keeps the memory; bytes is "" after it
void  buffer_free(Buffer *buffer);

// The first character of TEXT: its length in bytes (at least 1) and its columns on a terminal.
size_t glyph_next(const char *text, size_t length, int *columns);
int    glyph_columns(const char *text, size_t length);
bool   terminal_use_utf8(void);                                                // sets the locale; is it UTF-8?
void   terminal_look(Shell *shell);  // what standard output and error can show
int    terminal_rows(FILE *stream);                                            // the same
int    terminal_columns(FILE *stream);                                         // 0 when it is not a terminal

const char *skip_blank_sql(const char *sql);                                   // past blanks and whole comments
void        buffer_add_quoted(Buffer *buffer, const char *text);               // 'text', quotes doubled

// Fills RAW with the value as weft_format gives it.
void result_text(const weft_result *result, int column, size_t row, Buffer *raw);
bool result_is_null(const weft_result *result, int column, size_t row);

// ---- other commands ----------------------------------------------------------------------------------------------

int run_main(int argc, char **argv);                                           // weft run ...
int slt_main(int argc, char **argv);                                           // weft slt ...
int import_main(int argc, char **argv);                                        // weft import ...
int lab_main(int argc, char **argv);                                           // weft lab ...

// Adds "SET name = value" made from "name=value"; false when it has not that form.
bool setting_sql(const char *assignment, Buffer *sql);

#endif
