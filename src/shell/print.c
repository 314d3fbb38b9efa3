// print.c - results as people and programs read them.
//
//      year | brand     | revenue        table: numbers to the right, as psql prints it.  On a UTF-8 terminal with
//     ------+-----------+---------       drawn lines; wide text columns are cut there to fit (the value is
//      1992 | MFGR#2221 | 6659.50        only shortened on a terminal, never in a file or pipe)
//     (1 row)
//
// CSV and JSON are exact: they can be read back.  In a table, control characters are shown as \n, \t, \x1b, so that no
// value can move the cursor or break a row.
// A row is formatted twice, once to find the widths and once to print: cheaper than keeping all text in memory.

#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell.h"

#define LEAST_COLUMNS 12                                   // a text column is not cut below this

// ---- cells: a value as shown in a table --------------------------------------------------------------------------

typedef struct Cell {
    Buffer      raw;                                       // the value
    Buffer      text;                                      // what is shown
    int         columns;                                   // of it, on a terminal
    bool        is_null;
    const char *mark;                                      // one column wide, shows where text was cut
} Cell;

static void cell_free(Cell *cell)
{
    buffer_free(&cell->raw);
    buffer_free(&cell->text);
}

// The code of a control character that starts BYTES (C0, DEL, or C1 as two bytes of UTF-8), or -1.
static int control_code(const char *bytes, size_t n_bytes)
{
    unsigned char first = (unsigned char)bytes[0], second = n_bytes == 2 ? (unsigned char)bytes[1] : 0;
    if (n_bytes == 1)
        return first < 0x20 || first == 0x7f ? first : -1;
    return n_bytes == 2 && first == 0xC2 && second < 0xA0 ? second : -1;
}

static void add_control(Buffer *text, int code)
{
    char escape[8];
    static const char names[][3] = { ['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t" };
    if (code < (int)(sizeof names / sizeof *names) && names[code][0]) {
        buffer_puts(text, names[code]);
    } else {
        snprintf(escape, sizeof escape, "\\x%02x", (unsigned)code);
        buffer_puts(text, escape);
    }
}

// Shows TEXT in the cell, cut to LIMIT columns (with a mark) unless LIMIT is 0.
static void cell_show(Cell *cell, const char *text, size_t length, int limit)
{
    size_t cut_length = 0;                                 // where to cut so that the mark still fits
    int cut_columns = 0;
    buffer_clear(&cell->text);
    cell->columns = 0;
    for (size_t i = 0; i < length && (!limit || cell->columns <= limit);) {
        int columns;
        size_t bytes = glyph_next(text + i, length - i, &columns);
        int code = control_code(text + i, bytes);
        size_t before = cell->text.length;
        if (code >= 0) {
            add_control(&cell->text, code);
            columns = (int)(cell->text.length - before);
        } else {
            buffer_add(&cell->text, text + i, bytes);
        }
        cell->columns += columns;
        i += bytes;
        if (cell->columns < limit) {
            cut_length = cell->text.length;
            cut_columns = cell->columns;
        }
    }
    if (limit && cell->columns > limit) {
        cell->text.length = cut_length;
        buffer_puts(&cell->text, cell->mark);
        cell->columns = cut_columns + 1;
    }
}

static void cell_load(Cell *cell, const weft_result *result, int column, size_t row, int limit)
{
    cell->is_null = result_is_null(result, column, row);
    if (cell->is_null) {
        cell_show(cell, "NULL", 4, 0);
    } else {
        result_text(result, column, row, &cell->raw);
        cell_show(cell, cell->raw.bytes, cell->raw.length, limit);
    }
}

// ---- tables ------------------------------------------------------------------------------------------------------

typedef struct Lines { const char *bar, *dash, *cross, *mark; } Lines;

static const Lines lines_ascii = { "|", "-", "+", ">" };
static const Lines lines_unicode = { "\u2502", "\u2500", "\u253c", "\u2026" };

typedef struct Layout {
    const Lines *lines;
    const char  *dim, *plain;                              // around NULL
    int          n_columns;
    int         *widths;
    int         *limits;                                   // 0: never cut
    bool        *is_right;
} Layout;

static bool is_number(weft_type type)
{
    return type != WEFT_BOOLEAN && type < WEFT_DATE;
}

static void measure(Layout *layout, const weft_result *result, size_t n_rows)
{
    Cell cell = { 0 };
    for (int c = 0; c < layout->n_columns; c++) {
        const weft_column *column = weft_result_column(result, c);
        layout->is_right[c] = is_number(column->type);
        cell_show(&cell, column->name, strlen(column->name), 0);
        layout->widths[c] = cell.columns;
    }
    for (size_t row = 0; row < n_rows && !watch_interrupted(); row++) {
        for (int c = 0; c < layout->n_columns; c++) {
            cell_load(&cell, result, c, row, 0);
            if (cell.columns > layout->widths[c])
                layout->widths[c] = cell.columns;
        }
    }
    cell_free(&cell);
}

static int width_with_limit(const Layout *layout, int limit)
{
    int total = 3 * layout->n_columns - 1;                 // a blank on both sides, a bar between
    for (int c = 0; c < layout->n_columns; c++) {
        bool is_cut = !layout->is_right[c] && layout->widths[c] > limit;
        total += is_cut ? limit : layout->widths[c];
    }
    return total;
}

// Finds the greatest common limit for text columns with which a row fits into ROOM.  When none does, rows wrap.
static void fit(Layout *layout, int room)
{
    int low = LEAST_COLUMNS, high = room;
    if (layout->n_columns < 2 || width_with_limit(layout, room) <= room)
        return;                                            // a single wide column is better read wrapped
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (width_with_limit(layout, middle) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    for (int c = 0; c < layout->n_columns; c++) {
        if (!layout->is_right[c] && layout->widths[c] > low)
            layout->widths[c] = layout->limits[c] = low;
    }
}

static void put_blanks(FILE *out, int n)
{
    fprintf(out, "%*s", n > 0 ? n : 0, "");
}

static void put_cell(const Layout *layout, int c, const Cell *cell, int left, FILE *out)
{
    bool is_last = c + 1 == layout->n_columns;
    int right = layout->widths[c] - cell->columns - left;
    put_blanks(out, left + 1);
    fprintf(out, "%s%s%s", cell->is_null ? layout->dim : "", cell->text.bytes, cell->is_null ? layout->plain : "");
    if (!is_last) {
        put_blanks(out, right + 1);
        fputs(layout->lines->bar, out);
    }
}

static void put_header(const Layout *layout, const weft_result *result, FILE *out)
{
    Cell cell = { .mark = layout->lines->mark };
    for (int c = 0; c < layout->n_columns; c++) {
        const char *name = weft_result_column(result, c)->name;
        cell_show(&cell, name, strlen(name), layout->limits[c]);
        put_cell(layout, c, &cell, (layout->widths[c] - cell.columns) / 2, out);
    }
    fputc('\n', out);
    for (int c = 0; c < layout->n_columns; c++) {
        for (int i = 0; i < layout->widths[c] + 2; i++)
            fputs(layout->lines->dash, out);
        fputs(c + 1 < layout->n_columns ? layout->lines->cross : "\n", out);
    }
    cell_free(&cell);
}

// How many rows are shown: all, except on a terminal, unless the user asked for all.
static size_t rows_shown(const Shell *shell, const weft_result *result)
{
    size_t n = weft_result_rows(result);
    bool is_cut = shell->is_interactive && shell->out_is_terminal && !shell->out && shell->rows_shown;
    return is_cut && n > shell->rows_shown ? shell->rows_shown : n;
}

static void put_rows(const Layout *layout, const weft_result *result, size_t n_rows, FILE *out)
{
    Cell cell = { .mark = layout->lines->mark };
    for (size_t row = 0; row < n_rows && !watch_interrupted(); row++) {
        for (int c = 0; c < layout->n_columns; c++) {
            cell_load(&cell, result, c, row, layout->limits[c]);
            put_cell(layout, c, &cell, layout->is_right[c] ? layout->widths[c] - cell.columns : 0, out);
        }
        fputc('\n', out);
    }
    cell_free(&cell);
}

static Layout layout_new(const Shell *shell, int n_columns)
{
    bool is_terminal = shell->out_is_terminal && !shell->out, has_color = is_terminal && shell->has_color;
    size_t n = (size_t)n_columns;
    Layout layout = {
        .lines = is_terminal && shell->has_unicode ? &lines_unicode : &lines_ascii,
        .dim = has_color ? "\033[2m" : "",
        .plain = has_color ? "\033[0m" : "",
        .n_columns = n_columns,
        .widths = must_realloc(NULL, n * sizeof *layout.widths),
        .limits = must_realloc(NULL, n * sizeof *layout.limits),
        .is_right = must_realloc(NULL, n * sizeof *layout.is_right),
    };
    memset(layout.limits, 0, n * sizeof *layout.limits);
    return layout;
}

static void layout_free(Layout *layout)
{
    free(layout->widths);
    free(layout->limits);
    free(layout->is_right);
}

static void put_row_count(const weft_result *result, size_t n_shown, FILE *out)
{
    size_t n = weft_result_rows(result);
    if (watch_interrupted())
        fputs("(interrupted)\n", out);
    else if (n_shown < n)
        fprintf(out, "(%zu rows, the first %zu shown; \\pset rows 0 shows all)\n", n, n_shown);
    else
        fprintf(out, "(%zu row%s)\n", n, n == 1 ? "" : "s");
}

static void print_expanded(const Shell *shell, const weft_result *result, FILE *out);

// Where not even cut columns fit, a row is better read as lines.
static bool is_too_wide(const Shell *shell, const Layout *layout)
{
    int room = terminal_columns(stdout);
    return shell->is_auto_expanded && shell->out_is_terminal && !shell->out && room > 0 && layout->n_columns > 1 &&
           width_with_limit(layout, LEAST_COLUMNS) > room;
}

static void print_table(const Shell *shell, const weft_result *result, FILE *out)
{
    Layout layout = layout_new(shell, weft_result_columns(result));
    size_t n_rows = rows_shown(shell, result);
    measure(&layout, result, n_rows);
    if (is_too_wide(shell, &layout)) {
        print_expanded(shell, result, out);
    } else {
        if (shell->out_is_terminal && !shell->out)
            fit(&layout, terminal_columns(stdout));
        put_header(&layout, result, out);
        put_rows(&layout, result, n_rows, out);
        put_row_count(result, n_rows, out);
    }
    layout_free(&layout);
}

// ---- one line per value ------------------------------------------------------------------------------------------

static void put_record_line(const Layout *layout, size_t row, FILE *out)
{
    fprintf(out, "%s[ RECORD %zu ]", layout->lines->dash, row + 1);
    for (int i = 0; i < 20; i++)
        fputs(layout->lines->dash, out);
    fputc('\n', out);
}

static void print_expanded(const Shell *shell, const weft_result *result, FILE *out)
{
    Layout layout = layout_new(shell, weft_result_columns(result));
    Cell name = { 0 }, cell = { 0 };
    int name_width = 0;
    for (int c = 0; c < layout.n_columns; c++) {
        const char *text = weft_result_column(result, c)->name;
        int columns = glyph_columns(text, strlen(text));
        name_width = columns > name_width ? columns : name_width;
    }
    size_t n_rows = rows_shown(shell, result);
    for (size_t row = 0; row < n_rows && !watch_interrupted(); row++) {
        put_record_line(&layout, row, out);
        for (int c = 0; c < layout.n_columns; c++) {
            const char *text = weft_result_column(result, c)->name;
            cell_show(&name, text, strlen(text), 0);
            cell_load(&cell, result, c, row, 0);
            fputs(name.text.bytes, out);
            put_blanks(out, name_width - name.columns);
            fprintf(out, " %s %s%s%s\n", layout.lines->bar, cell.is_null ? layout.dim : "", cell.text.bytes,
                    cell.is_null ? layout.plain : "");
        }
    }
    put_row_count(result, n_rows, out);
    cell_free(&name);
    cell_free(&cell);
    layout_free(&layout);
}

// ---- plans: lines of text, to be read and copied as they are -----------------------------------------------------

static bool is_plan(const weft_result *result)
{
    return !strncmp(weft_result_tag(result), "EXPLAIN", 7) && weft_result_columns(result) == 1;
}

static void print_plan(const weft_result *result, FILE *out)
{
    Buffer raw = { 0 };
    for (size_t row = 0; row < weft_result_rows(result); row++) {
        result_text(result, 0, row, &raw);
        for (size_t i = 0; i < raw.length; i++) {
            char byte = raw.bytes[i];
            bool is_control = ((unsigned char)byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
            fputc(is_control ? '?' : byte, out);
        }
        fputc('\n', out);
    }
    buffer_free(&raw);
}

// ---- CSV: RFC 4180 with \n; NULL is nothing, the empty text is "" ------------------------------------------------

static void put_csv(const char *text, size_t length, FILE *out)
{
    if (length && !memchr(text, '"', length) && strcspn(text, ",\r\n") == length) {
        fwrite(text, 1, length, out);
        return;
    }
    fputc('"', out);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

static void print_csv(const weft_result *result, FILE *out)
{
    Buffer raw = { 0 };
    int n_columns = weft_result_columns(result);
    for (int c = 0; c < n_columns; c++) {
        const char *name = weft_result_column(result, c)->name;
        put_csv(name, strlen(name), out);
        fputc(c + 1 < n_columns ? ',' : '\n', out);
    }
    for (size_t row = 0; row < weft_result_rows(result) && !watch_interrupted(); row++) {
        for (int c = 0; c < n_columns; c++) {
            if (!result_is_null(result, c, row)) {
                result_text(result, c, row, &raw);
                if (weft_result_column(result, c)->type == WEFT_TEXT)
                    put_csv(raw.bytes, raw.length, out);
                else
                    fwrite(raw.bytes, 1, raw.length, out);         // nothing in it wants quotes
            }
            fputc(c + 1 < n_columns ? ',' : '\n', out);
        }
    }
    buffer_free(&raw);
}

// ---- JSON: an array of objects per result ------------------------------------------------------------------------

void put_json_string(const char *text, size_t length, FILE *out)
{
    fputc('"', out);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte == '\n')
            fputs("\\n", out);
        else if (byte == '\t')
            fputs("\\t", out);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            fputc(byte, out);
    }
    fputc('"', out);
}

static bool is_json_number(const weft_column *column, size_t row)
{
    if (column->type == WEFT_REAL || column->type == WEFT_DOUBLE)
        return isfinite(column->f64[row]);                 // JSON has no NaN and no Infinity: they become strings
    return is_number(column->type);
}

static void put_json_value(const weft_result *result, int c, size_t row, Buffer *raw, FILE *out)
{
    const weft_column *column = weft_result_column(result, c);
    if (result_is_null(result, c, row)) {
        fputs("null", out);
    } else if (column->type == WEFT_BOOLEAN) {
        fputs(column->i64[row] ? "true" : "false", out);
    } else {
        result_text(result, c, row, raw);
        if (is_json_number(column, row))
            fwrite(raw->bytes, 1, raw->length, out);
        else
            put_json_string(raw->bytes, raw->length, out);
    }
}

static bool name_is_taken(char **keys, int n_keys, const char *name)
{
    for (int i = 0; i < n_keys; i++) {
        if (!strcmp(keys[i], name))
            return true;
    }
    return false;
}

// The keys of the objects: the column names, but a name that is there already gets a number, since readers of JSON keep
// only one value of a key.
static char **json_keys(const weft_result *result)
{
    int n_columns = weft_result_columns(result);
    char **keys = must_realloc(NULL, (size_t)n_columns * sizeof *keys), number[16];
    for (int c = 0; c < n_columns; c++) {
        const char *name = weft_result_column(result, c)->name;
        Buffer key = { 0 };
        buffer_puts(&key, name);
        for (int i = 2; name_is_taken(keys, c, key.bytes); i++) {
            snprintf(number, sizeof number, "_%d", i);
            buffer_clear(&key);
            buffer_puts(&key, name);
            buffer_puts(&key, number);
        }
        keys[c] = key.bytes;
    }
    return keys;
}

static void print_json(const weft_result *result, FILE *out)
{
    Buffer raw = { 0 };
    char **keys = json_keys(result);
    int n_columns = weft_result_columns(result);
    fputc('[', out);
    for (size_t row = 0; row < weft_result_rows(result) && !watch_interrupted(); row++) {
        fputs(row ? ",\n {" : "{", out);
        for (int c = 0; c < n_columns; c++) {
            put_json_string(keys[c], strlen(keys[c]), out);
            fputs(": ", out);
            put_json_value(result, c, row, &raw, out);
            fputs(c + 1 < n_columns ? ", " : "}", out);
        }
    }
    fputs("]\n", out);
    for (int c = 0; c < n_columns; c++)
        free(keys[c]);
    free(keys);
    buffer_free(&raw);
}

// ---- all of them -------------------------------------------------------------------------------------------------

static void print_for_people(Shell *shell, const weft_result *result, FILE *out)
{
    if (shell->n_printed++ && !shell->is_interactive)
        fputc('\n', out);
    if (is_plan(result))
        print_plan(result, out);
    else if (shell->is_expanded)
        print_expanded(shell, result, out);
    else
        print_table(shell, result, out);
    if (shell->is_interactive)
        fputc('\n', out);
}

// With threads about, every character takes and gives back the stream's lock, which takes longer than the character: it
// is taken once for all.
void print_result(Shell *shell, const weft_result *result, FILE *out)
{
    flockfile(out);
    const int locking = __fsetlocking(out, FSETLOCKING_BYCALLER);
    if (!weft_result_columns(result)) {
        if (shell->format == FORMAT_TABLE && !shell->is_quiet && *weft_result_tag(result))
            fprintf(out, "%s\n", weft_result_tag(result));
    } else if (shell->format == FORMAT_CSV) {
        print_csv(result, out);
    } else if (shell->format == FORMAT_JSON) {
        print_json(result, out);
    } else {
        print_for_people(shell, result, out);
    }
    __fsetlocking(out, locking);
    funlockfile(out);
}
