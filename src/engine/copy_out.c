// copy_out.c - COPY ... TO: the rows of a query as text, csv or JSON lines, into a file or a descriptor.
//
// What is written can be read back: NULL and the empty text differ in every format, and quotes, tabs, new lines and
// backslashes are escaped as PostgreSQL does it.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/execute.h"
#include "store/stream.h"

enum { PIECE_BYTES = 1 << 20, FORMAT_BYTES = 512 };

typedef struct Writer {
    const CopyOptions *options;
    const weft_result *result;
    CopyStream            *stream;
    Text               text;           // not yet written
    char              *value;          // as text
    size_t             capacity, length;
    Error             *err;
} Writer;

// ---- one value ------------------------------------------------------------------------------------------------------

static weft_status format_value(Writer *writer, int column, size_t row)
{
    writer->length = weft_format(writer->result, column, row, writer->value, writer->capacity);
    if (writer->length < writer->capacity) return WEFT_OK;
    char *larger = realloc(writer->value, writer->length + 1);
    if (!larger) return fail(writer->err, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    writer->value = larger;
    writer->capacity = writer->length + 1;
    weft_format(writer->result, column, row, writer->value, writer->capacity);
    return WEFT_OK;
}

static void put_text(Writer *writer, const char *bytes, size_t length)
{
    static const char special[] = "\b\f\n\r\t\v", letters[] = "bfnrtv";
    Text *out = &writer->text;
    for (size_t i = 0; i < length; i++) {
        const char  byte = bytes[i];
        const char *found = byte ? strchr(special, byte) : NULL;
        if (found) text_add(out, "\\%c", letters[found - special]);
        else if (byte == '\\' || byte == writer->options->delimiter) text_add(out, "\\%c", byte);
        else text_add_bytes(out, &byte, 1);
    }
}

static bool wants_quotes(const CopyOptions *options, const char *bytes, size_t length, bool is_only)
{
    if (length == strlen(options->null_text) && memcmp(bytes, options->null_text, length) == 0) return true;
    if (is_only && length == 2 && memcmp(bytes, "\\.", 2) == 0) return true;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] == options->delimiter || bytes[i] == options->quote || bytes[i] == '\n' || bytes[i] == '\r')
            return true;
    return false;
}

static void put_csv(Writer *writer, const char *bytes, size_t length, bool is_only)
{
    const CopyOptions *options = writer->options;
    Text *out = &writer->text;
    if (!wants_quotes(options, bytes, length, is_only)) {
        text_add_bytes(out, bytes, length);
        return;
    }
    text_add_bytes(out, &options->quote, 1);
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == options->quote || bytes[i] == options->escape) text_add_bytes(out, &options->escape, 1);
        text_add_bytes(out, &bytes[i], 1);
    }
    text_add_bytes(out, &options->quote, 1);
}

static void put_json_text(Writer *writer, const char *bytes, size_t length)
{
    Text *out = &writer->text;
    text_add_bytes(out, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\') text_add(out, "\\%c", byte);
        else if (byte == '\n') text_add_bytes(out, "\\n", 2);
        else if (byte == '\r') text_add_bytes(out, "\\r", 2);
        else if (byte == '\t') text_add_bytes(out, "\\t", 2);
        else if (byte < 0x20) text_add(out, "\\u%04x", byte);
        else text_add_bytes(out, (const char *)&byte, 1);
    }
    text_add_bytes(out, "\"", 1);
}

static bool is_json_number(const weft_column *column, size_t row)
{
    switch (column->type) {
        case WEFT_SMALLINT: case WEFT_INTEGER: case WEFT_BIGINT: case WEFT_DECIMAL: case WEFT_NUMERIC: return true;
        case WEFT_REAL: case WEFT_DOUBLE: return isfinite(column->f64[row]);
        default: return false;
    }
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static bool is_null_at(const weft_column *column, size_t row) { return column->is_null && column->is_null[row]; }

static weft_status put_json_row(Writer *writer, size_t row)
{
    Text *out = &writer->text;
    for (int c = 0; c < writer->result->n_columns; c++) {
        const weft_column *column = &writer->result->columns[c];
        text_add_bytes(out, c ? "," : "{", 1);
        put_json_text(writer, column->name, strlen(column->name));
        text_add_bytes(out, ":", 1);
        if (is_null_at(column, row)) {
            text_add_bytes(out, "null", 4);
            continue;
        }
        TRY(format_value(writer, c, row));
        if (column->type == WEFT_BOOLEAN) text_add(out, column->i64[row] ? "true" : "false");
        else if (is_json_number(column, row)) text_add_bytes(out, writer->value, writer->length);
        else put_json_text(writer, writer->value, writer->length);
    }
    text_add_bytes(out, writer->result->n_columns ? "}\n" : "{}\n", writer->result->n_columns ? 2 : 3);
    return WEFT_OK;
}

static void put_field(Writer *writer, const char *bytes, size_t length)
{
    if (writer->options->csv) put_csv(writer, bytes, length, writer->result->n_columns == 1);
    else put_text(writer, bytes, length);
}

static void end_field(Writer *writer, int c)
{
    const bool is_last = c + 1 == writer->result->n_columns;
    if (!is_last || writer->options->trailing_delimiter) text_add_bytes(&writer->text, &writer->options->delimiter, 1);
    if (is_last) text_add_bytes(&writer->text, "\n", 1);
}

static weft_status put_row(Writer *writer, size_t row)
{
    const CopyOptions *options = writer->options;
    for (int c = 0; c < writer->result->n_columns; c++) {
        if (is_null_at(&writer->result->columns[c], row)) {
            text_add_bytes(&writer->text, options->null_text, strlen(options->null_text));
        } else {
            TRY(format_value(writer, c, row));
            put_field(writer, writer->value, writer->length);
        }
        end_field(writer, c);
    }
    return WEFT_OK;
}

static void put_header(Writer *writer)
{
    for (int c = 0; c < writer->result->n_columns; c++) {
        put_field(writer, writer->result->columns[c].name, strlen(writer->result->columns[c].name));
        end_field(writer, c);
    }
}

static weft_status flush(Writer *writer, size_t least)
{
    if (writer->text.length < least || !writer->text.length) return WEFT_OK;
    TRY(stream_write(writer->stream, writer->text.bytes, writer->text.length, writer->err));
    text_clear(&writer->text);
    return WEFT_OK;
}

static weft_status put_rows(Execution *ex, Writer *writer)
{
    if (writer->options->header) put_header(writer);
    for (size_t row = 0; row < writer->result->n_rows; row++) {
        if (row % 1024 == 0 && atomic_load(&ex->session->cancelled))
            return fail(ex->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
        TRY(writer->options->json ? put_json_row(writer, row) : put_row(writer, row));
        TRY(flush(writer, PIECE_BYTES));
    }
    return flush(writer, 1);
}

static weft_status write_result(Execution *ex, const Statement *statement)
{
    CopyOptions options = statement->copy;
    Writer      writer = { .options = &options, .result = ex->result, .value = malloc(FORMAT_BYTES),
                           .capacity = FORMAT_BYTES, .err = ex->err };
    if (!writer.value) return fail(ex->err, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    weft_status status =
        stream_open_write(statement->path, options.is_std ? ex->session->output : -1, &writer.stream, ex->err);
    if (!status) {
        status = put_rows(ex, &writer);
        if (status) stream_close(writer.stream);
        else status = stream_finish(writer.stream, ex->err);
    }
    text_free(&writer.text);
    free(writer.value);
    return status;
}

// The rows are the query's; the result of the statement has none.
weft_status run_copy_to(Execution *ex, const Statement *statement)
{
    TRY(run_plan(ex, statement));
    const weft_status status = write_result(ex, statement);
    const size_t      n_rows = ex->result->n_rows;
    ex->result->n_rows = 0;
    ex->result->n_columns = 0;
    // Where rows went to the terminal or into a pipe, a word behind them would be taken for one.
    if (statement->copy.is_std) ex->result->tag[0] = 0;
    else snprintf(ex->result->tag, sizeof ex->result->tag, "COPY %zu", n_rows);
    return status;
}
