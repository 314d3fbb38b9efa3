// copy_hint.c - why a row is bad, as far as its text tells: another delimiter, csv that was not said, compressed files,
// a mix of line ends, a header, delimiters at the end of lines.
//
// A hint is a guess, so it never changes what is read.

#include "store/copy_int.h"
#include "store/stream.h"

static int count_bytes(const char *bytes, size_t length, char byte)
{
    int n = 0;
    for (size_t i = 0; i < length; i++)
        n += bytes[i] == byte;
    return n;
}

static const char *delimiter_name(char byte, char buffer[8])
{
    if (byte == '\t')
        return "a tab (E'\\t')";
    buffer[0] = '\'', buffer[1] = byte, buffer[2] = '\'', buffer[3] = '\0';
    return buffer;
}

// What the whole block looks like, when it is the first one.
static bool hint_of_file(const CopyBlock *block, Error *err)
{
    const char *packed = stream_compression(block->bytes, block->length);
    const bool is_readable = packed && (strcmp(packed, "gzip") == 0 || strcmp(packed, "zstd") == 0);
    if (packed && is_readable)
        error_hint(err, "The file is compressed (%s): give it a name that ends in %s.", packed,
                   packed[0] == 'g' ? ".gz" : ".zst");
    else if (packed)
        error_hint(err, "The file is %s, not text.", packed);
    else if (block->length >= 2 &&
             (memcmp(block->bytes, "\xff\xfe", 2) == 0 || memcmp(block->bytes, "\xfe\xff", 2) == 0))
        error_hint(err, "The file is UTF-16; only UTF-8 can be read.");
    else
        return false;
    return true;
}

static bool is_trailing(const char *row, size_t length, char delimiter)
{
    return length > 0 && row[length - 1] == delimiter;
}

// Another delimiter that is as often in the row as in the first line, when the row has none of those that were said.
static char likely_delimiter(const CopyOptions *options, const CopyBlock *block, const char *row, size_t length)
{
    static const char usual[] = ";|\t,";
    const char *first_end = memchr(block->bytes, '\n', block->length);
    if (block->sequence != 0 || !first_end || count_bytes(row, length, options->delimiter) > 0)
        return '\0';
    for (const char *c = usual; *c; c++) {
        const int n = count_bytes(row, length, *c);
        if (*c != options->delimiter && n > 0 &&
            n == count_bytes(block->bytes, (size_t)(first_end - block->bytes), *c))
            return *c;
    }
    return '\0';
}

// Another delimiter that cuts the row into as many fields as there are columns.
static char other_delimiter(const CopyOptions *options, const char *row, size_t length, int n_fields, bool *is_behind)
{
    static const char usual[] = ",\t|;:";
    for (const char *c = usual; *c; c++) {
        const int n = count_bytes(row, length, *c);
        *is_behind = n == n_fields && is_trailing(row, length, *c);
        if (*c != options->delimiter && n_fields > 1 && (n == n_fields - 1 || *is_behind))
            return *c;
    }
    return '\0';
}

static void hint_of_fields(const CopyOptions *options, const CopyBlock *block, const char *row, size_t length,
                           int n_fields, Error *err)
{
    char buffer[8];
    bool is_behind;
    const int n_found = count_bytes(row, length, options->delimiter) + 1;
    char other = other_delimiter(options, row, length, n_fields, &is_behind);
    if (!other)
        other = likely_delimiter(options, block, row, length);
    if (n_found == n_fields + 1 && is_trailing(row, length, options->delimiter))
        error_hint(err,
                   "Lines end in a delimiter, as dbgen writes them: say WITH (%sDELIMITER %s, TRAILING_DELIMITER).",
                   options->csv ? "FORMAT csv, " : "", delimiter_name(options->delimiter, buffer));
    else if (row[0] == '{')
        error_hint(err, "The file looks like JSON: say WITH (FORMAT json).");
    else if (other == ',' && !options->csv)
        error_hint(err, "The file looks like CSV: say WITH (FORMAT csv), and HEADER when its first line has names.");
    else if (other)
        error_hint(err, "The delimiter looks like %s: say WITH (%sDELIMITER %s%s).", delimiter_name(other, buffer),
                   options->csv ? "FORMAT csv, " : "", other == '\t' ? "E'\\t'" : delimiter_name(other, buffer),
                   is_behind ? ", TRAILING_DELIMITER" : "");
    else if (memchr(row, '\r', length))
        error_hint(err, "A carriage return is in the line; all lines have to end as the first one does.");
    else if (options->csv && memchr(row, '\n', length))
        error_hint(err, "A quoted field may have begun and not ended in this line or before.");
    else if (!options->csv && (memchr(row, '"', length) || (n_found == 1 && memchr(row, ',', length))))
        error_hint(err, "The file looks like CSV: say WITH (FORMAT csv).");
}

// The words of a header where values are expected.
static bool is_header(const CopyOptions *options, const CopyBlock *block, const CopyProblem *problem)
{
    if (block->sequence != 0 || problem->row_start != 0 || options->header || problem->column < 0)
        return false;
    for (u32 i = problem->row_start; i + 1 < problem->row_end; i++)
        if (block->bytes[i] >= '0' && block->bytes[i] <= '9')
            return false;
    return true;
}

void copy_hint(const CopyOptions *options, const CopyBlock *block, int n_fields, CopyProblem *problem)
{
    const char *row = block->bytes + problem->row_start;
    size_t length = problem->row_end > problem->row_start ? problem->row_end - problem->row_start : 0;
    while (length > 0 && (row[length - 1] == '\n' || row[length - 1] == '\r'))
        length--;
    if (problem->error.hint[0] || problem->line < 0 || (block->sequence == 0 && hint_of_file(block, &problem->error)))
        return;
    if (options->json) {
        if (length > 0 && row[0] != '{' && row[0] != '[')
            error_hint(&problem->error, "The file does not look like JSON: leave out FORMAT json.");
    } else if (problem->error.status == WEFT_BAD_COPY && problem->column < 0) {
        hint_of_fields(options, block, row, length, n_fields, &problem->error);
    } else if (is_header(options, block, problem)) {
        error_hint(&problem->error, "The first line looks like the names of columns: add the option HEADER.");
    }
}
