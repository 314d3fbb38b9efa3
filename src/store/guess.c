// guess.c - names and types of the columns of a file, from its beginning.
//
// CSV: the delimiter is the one of , ; tab | that cuts the most lines into the same number of fields, more than one.
// The first line holds names when none of its fields looks like a value and either some column with a name has another
// type than text below it or no field is empty.  JSON: names are keys, in order of first appearance.
//
// A column's type is the narrowest that holds all values seen: boolean (true, false), integer, bigint, double
// precision, date, timestamp, time, uuid, else text.  Digits behind a leading zero are text.  Numbers with a point
// are double precision: a decimal's scale would round what comes further down.

#include <stdio.h>
#include <stdlib.h>

#include "store/copy_int.h"
#include "store/guess.h"
#include "store/store_int.h"
#include "store/stream.h"

enum { SAMPLE_BYTES = 8 << 20, NAMES_LONG = NAME_BYTES_MAX, DOUBLE_DIGITS = 17 };

// ---- types ----------------------------------------------------------------------------------------------------------

typedef enum Looks {
    LOOKS_NONE, LOOKS_BOOLEAN, LOOKS_INTEGER, LOOKS_BIGINT, LOOKS_DOUBLE, LOOKS_NUMERIC, LOOKS_DATE,
    LOOKS_TIMESTAMP, LOOKS_TIMESTAMPTZ, LOOKS_TIME, LOOKS_UUID, LOOKS_TEXT
} Looks;

static bool has_leading_zero(const char *bytes, size_t length)
{
    const size_t sign = length && (*bytes == '-' || *bytes == '+');
    return length > sign + 1 && bytes[sign] == '0' && bytes[sign + 1] >= '0' && bytes[sign + 1] <= '9';
}

static bool parses_as(Type type, const char *bytes, size_t length)
{
    Value value;
    Error ignored;
    error_clear(&ignored);
    return !value_parse(type, bytes, length, &value, &ignored);
}

static bool is_word(const char *bytes, size_t length, const char *word)
{
    if (length != strlen(word))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((bytes[i] | 0x20) != word[i])
            return false;
    return true;
}

static bool has_digit(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] >= '0' && bytes[i] <= '9')
            return true;
    return false;
}

static Type type_of(Looks looks)
{
    switch (looks) {
    case LOOKS_BOOLEAN: return TYPE(BOOLEAN);
    case LOOKS_INTEGER: return TYPE(INTEGER);
    case LOOKS_BIGINT:  return TYPE(BIGINT);
    case LOOKS_DOUBLE:  return TYPE(DOUBLE);
    case LOOKS_NUMERIC: return TYPE_OF_FREE_NUMERIC;
    case LOOKS_DATE:    return TYPE(DATE);
    case LOOKS_TIMESTAMP: return TYPE(TIMESTAMP);
    case LOOKS_TIMESTAMPTZ: return TYPE(TIMESTAMPTZ);
    case LOOKS_TIME:    return TYPE(TIME);
    case LOOKS_UUID:    return TYPE_OF_UUID;
    default:            return TYPE(TEXT);
    }
}

// The length without an offset at the end: Z, +hh, +hhmm or +hh:mm.
static size_t length_without_offset(const char *bytes, size_t length)
{
    if (bytes[length - 1] == 'Z')
        return length - 1;
    for (size_t n = 2; n <= 5 && n < length; n++)
        if (bytes[length - 1 - n] == '+' || bytes[length - 1 - n] == '-')
            return length - 1 - n;
    return length;
}

// 2026-01-31, 2026-01-31 10:20:30 and 2026-01-31T10:20:30.5, and the latter two with an offset.  02/01/2026 is text,
// since nothing says whether that is in January.  10:20:30 is a time; 10:20 may be minutes and seconds.
static Looks looks_of_time(const char *bytes, size_t length)
{
    if (length >= 8 && length <= 15 && bytes[2] == ':' && bytes[5] == ':' &&
        strspn(bytes, "0123456789:.") >= length)
        return parses_as(TYPE(TIME), bytes, length) ? LOOKS_TIME : LOOKS_TEXT;
    if (length < 10 || bytes[4] != '-' || bytes[7] != '-')
        return LOOKS_TEXT;
    if (length == 10)
        return parses_as(TYPE(DATE), bytes, length) ? LOOKS_DATE : LOOKS_TEXT;
    const size_t plain = length_without_offset(bytes, length);
    const Looks  looks = plain < length ? LOOKS_TIMESTAMPTZ : LOOKS_TIMESTAMP;
    const bool   has_form = plain >= 16 && plain <= 26 && (bytes[10] == ' ' || bytes[10] == 'T') && bytes[13] == ':' &&
                            strspn(bytes + 11, "0123456789:.") >= plain - 11;
    return has_form && parses_as(type_of(looks), bytes, length) ? looks : LOOKS_TEXT;
}

static bool looks_like_uuid(const char *bytes, size_t length)
{
    return length == 36 && bytes[8] == '-' && bytes[13] == '-' && bytes[18] == '-' && bytes[23] == '-' &&
           parses_as(TYPE_OF_UUID, bytes, length);
}

// More digits than a double is ever written with, and no exponent: as a double it would lose some.
static bool is_long_number(const char *bytes, size_t length)
{
    Value value;
    Error ignored;
    int   n_digits = 0;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == 'e' || bytes[i] == 'E')
            return false;
        n_digits += bytes[i] >= '0' && bytes[i] <= '9' && (n_digits || bytes[i] != '0');
    }
    error_clear(&ignored);
    return n_digits > DOUBLE_DIGITS && !value_parse_free(bytes, length, &value, &ignored);
}

static Looks looks_of(const char *bytes, size_t length)
{
    if (is_word(bytes, length, "true") || is_word(bytes, length, "false"))
        return LOOKS_BOOLEAN;
    if (looks_like_uuid(bytes, length))
        return LOOKS_UUID;
    if (length == 0 || length > 64 || !has_digit(bytes, length) || *bytes == ' ' || bytes[length - 1] == ' ')
        return LOOKS_TEXT;
    if (has_leading_zero(bytes, length))
        return looks_of_time(bytes, length) == LOOKS_TIME ? LOOKS_TIME : LOOKS_TEXT;
    if (parses_as(TYPE(INTEGER), bytes, length))
        return LOOKS_INTEGER;
    if (parses_as(TYPE(BIGINT), bytes, length))
        return LOOKS_BIGINT;
    if (is_long_number(bytes, length))
        return LOOKS_NUMERIC;
    if (parses_as(TYPE(DOUBLE), bytes, length))
        return LOOKS_DOUBLE;
    return looks_of_time(bytes, length);
}

static bool is_number(Looks looks)
{
    return looks >= LOOKS_INTEGER && looks <= LOOKS_NUMERIC;
}

static Looks both(Looks a, Looks b)
{
    if (a == LOOKS_NONE || a == b)
        return b;
    if (is_number(a) && is_number(b))
        return MAX_OF(a, b);
    if ((a == LOOKS_DATE && b == LOOKS_TIMESTAMP) || (a == LOOKS_TIMESTAMP && b == LOOKS_DATE))
        return LOOKS_TIMESTAMP;
    return LOOKS_TEXT;
}

// ---- names ----------------------------------------------------------------------------------------------------------

static bool is_taken(const Guess *guess, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(guess->columns[i].name, name) == 0)
            return true;
    return false;
}

// A name of at most 63 bytes, cut where a character begins, and other than those before it.
static const char *free_name(Arena *arena, const Guess *guess, int n, const char *bytes, size_t length)
{
    while (length && (*bytes == ' ' || *bytes == '\t'))
        bytes++, length--;
    while (length && (bytes[length - 1] == ' ' || bytes[length - 1] == '\t'))
        length--;
    if (length > NAMES_LONG - 4)
        for (length = NAMES_LONG - 4; length && ((unsigned char)bytes[length] & 0xC0) == 0x80; length--)
            ;
    if (utf8_valid_length(bytes, length) < length || memchr(bytes, 0, length))
        length = 0;
    const char *name = length ? arena_strndup(arena, bytes, length) : arena_printf(arena, "column%d", n + 1);
    const char *wanted = name;
    for (int k = 2; is_taken(guess, n, name); k++)
        name = arena_printf(arena, "%s_%d", wanted, k);
    return name;
}

// ---- the beginning of the file --------------------------------------------------------------------------------------

typedef struct Sample { char *bytes; size_t length; bool is_all; } Sample;

static void free_bytes(void *bytes)
{
    free(bytes);
}

// All of a small file, or the beginning of a larger one.
static weft_status read_beginning(Arena *arena, CopyStream *stream, Sample *sample, Error *err)
{
    const bool   is_small = stream_is_plain_file(stream) && stream_size(stream) < SAMPLE_BYTES - 2;
    const size_t most = is_small ? stream_size(stream) + 1 : SAMPLE_BYTES - 1;
    *sample = (Sample){ .bytes = malloc(most + 1 + BLOCK_PADDING) };
    if (!sample->bytes)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory");
    arena_defer(arena, free_bytes, sample->bytes);
    TRY(stream_read(stream, sample->bytes, most, &sample->length, err));
    sample->is_all = sample->length < most;
    return WEFT_OK;
}

// Whole lines, with room behind them for the parser of fields.
static weft_status read_sample(Arena *arena, const char *path, const CopyOptions *options, const _Atomic bool *cancel,
                               Sample *sample, Error *err)
{
    CopyStream *stream;
    CopyReturns returns = { 0 };
    size_t      n_seen = 0;
    TRY(stream_open_read(path, -1, cancel, &stream, err));
    weft_status status = read_beginning(arena, stream, sample, err);
    stream_close(stream);
    TRY(status);
    // A mix of line ends is COPY's to report.
    copy_returns_mend(&returns, options, sample->bytes, sample->length, sample->is_all, &n_seen);
    if (sample->length >= 3 && memcmp(sample->bytes, "\xEF\xBB\xBF", 3) == 0)
        sample->bytes += 3, sample->length -= 3;
    if (sample->is_all && sample->length && sample->bytes[sample->length - 1] != '\n')
        sample->bytes[sample->length++] = '\n';
    memset(sample->bytes + sample->length, 0, BLOCK_PADDING - 4);
    return WEFT_OK;
}

// ---- csv ------------------------------------------------------------------------------------------------------------

static CopyOptions csv_options(char delimiter)
{
    return (CopyOptions){ .csv = true, .delimiter = delimiter, .quote = '"', .escape = '"', .null_text = "" };
}

// Rows that have as many fields as the first; 0 when that is one.
static u32 count_alike(const FieldIndex *index)
{
    const u32 *row_ends = index->row_ends;
    const u32 n_fields = index->n_rows ? row_ends[0] + 1 : 0;
    u32 n = 0;
    for (u32 r = 0; r < index->n_rows && n_fields > 1; r++)
        n += row_ends[r] - row_ends[(ptrdiff_t)r - 1] == n_fields;
    return n;
}

static weft_status choose_delimiter(const Sample *sample, FieldIndex *index, char *chosen, Error *err)
{
    static const char usual[] = ",;\t|";
    const CopyBlock block = { .bytes = sample->bytes, .length = MIN_OF(sample->length, (size_t)256 << 10) };
    double best = 0;
    *chosen = ',';
    for (const char *c = usual; *c; c++) {
        const CopyOptions options = csv_options(*c);
        TRY(copy_index_block(index, &block, &options, NULL, err));
        const double share = index->n_rows ? (double)count_alike(index) / index->n_rows : 0;
        if (share > best + 0.001) {
            best = share;
            *chosen = *c;
        }
    }
    return WEFT_OK;
}

typedef struct CsvLook {
    Arena            *arena;
    const Sample     *sample;
    const FieldIndex *index;
    Guess            *guess;
    CopySpace         scratch;
    int               n_fields;
} CsvLook;

static weft_status field_at(CsvLook *look, u32 row, int number, FieldText *field, bool *is_empty, Error *err)
{
    const u32 *ends = look->index->ends + (look->index->row_ends[(ptrdiff_t)row - 1] + 1) + number;
    u32 start = ends[-1] + 1, end = ends[0];
    if (end > start && look->sample->bytes[end] == '\n' && look->sample->bytes[end - 1] == '\r')
        end--;
    *field = (FieldText){ look->sample->bytes + start, end - start };
    *is_empty = end == start;                               // NULL; "" is a text
    return copy_clean_field(&look->guess->options, field, &look->scratch, NULL, err);
}

static u32 fields_in(const CsvLook *look, u32 row)
{
    return look->index->row_ends[row] - look->index->row_ends[(ptrdiff_t)row - 1];
}

static weft_status look_at_rows(CsvLook *look, Looks *first, Looks *rest, Error *err)
{
    for (u32 row = 0; row < look->index->n_rows; row++)
        for (int c = 0; c < look->n_fields && fields_in(look, row) == (u32)look->n_fields; c++) {
            FieldText field;
            bool is_empty;
            TRY(field_at(look, row, c, &field, &is_empty, err));
            Looks *looks = row ? rest : first;
            if (!is_empty)
                looks[c] = both(looks[c], looks_of(field.bytes, field.length));
        }
    return WEFT_OK;
}

static bool is_header(const CsvLook *look, const Looks *first, const Looks *rest)
{
    bool has_other = false, has_empty = false;
    for (int c = 0; c < look->n_fields; c++) {
        if (first[c] != LOOKS_TEXT && first[c] != LOOKS_NONE)
            return false;
        has_empty |= first[c] == LOOKS_NONE;
        has_other |= first[c] == LOOKS_TEXT && rest[c] != LOOKS_TEXT && rest[c] != LOOKS_NONE;
    }
    return has_other || (!has_empty && look->index->n_rows > 1);
}

static weft_status name_csv_columns(CsvLook *look, const Looks *looks, Error *err)
{
    Guess *guess = look->guess;
    guess->columns = arena_array(look->arena, ColumnDef, look->n_fields + 1);
    for (int c = 0; c < look->n_fields; c++) {
        FieldText field = { "", 0 };
        bool is_empty;
        if (guess->has_header)
            TRY(field_at(look, 0, c, &field, &is_empty, err));
        guess->columns[c] =
            (ColumnDef){ .name = free_name(look->arena, guess, c, field.bytes, field.length),
                         .type = type_of(looks[c]) };
    }
    guess->n_columns = look->n_fields;
    return WEFT_OK;
}

static weft_status look_at_csv(CsvLook *look, Error *err)
{
    Guess *guess = look->guess;
    if (look->index->n_rows == 0)
        return fail(err, WEFT_BAD_COPY, -1, "there is no line from which columns could be told");
    look->n_fields = (int)MIN_OF(fields_in(look, 0), (u32)COLUMNS_MAX);
    Looks *first = arena_array(look->arena, Looks, look->n_fields + 1);
    Looks *rest = arena_array(look->arena, Looks, look->n_fields + 1);
    TRY(look_at_rows(look, first, rest, err));
    guess->has_header = guess->options.header = is_header(look, first, rest);
    for (int c = 0; c < look->n_fields && !guess->has_header; c++)
        rest[c] = first[c] == LOOKS_NONE ? rest[c] : both(rest[c], first[c]);
    return name_csv_columns(look, rest, err);
}

static weft_status guess_csv(Arena *arena, const Sample *sample, Guess *out, Error *err)
{
    FieldIndex index = { 0 };
    char delimiter;
    weft_status status = choose_delimiter(sample, &index, &delimiter, err);
    *out = (Guess){ .options = csv_options(delimiter) };
    const CopyBlock block = { .bytes = sample->bytes, .length = sample->length };
    if (!status)
        status = copy_index_block(&index, &block, &out->options, NULL, err);
    CsvLook look = { .arena = arena, .sample = sample, .index = &index, .guess = out };
    if (!status)
        status = look_at_csv(&look, err);
    copy_index_free(&index, NULL);
    copy_space_free(&look.scratch, NULL);
    return status;
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

typedef struct JsonLook { Arena *arena; Guess *guess; Map *numbers; Looks *looks; int n_looks; } JsonLook;

static Looks json_looks(FieldText value, bool is_string)
{
    if (is_string && looks_like_uuid(value.bytes, value.length))
        return LOOKS_UUID;
    if (is_string)
        return looks_of_time(value.bytes, value.length);
    if (value.bytes[0] == 'n')
        return LOOKS_NONE;
    if (value.bytes[0] == '{' || value.bytes[0] == '[')
        return LOOKS_TEXT;
    return looks_of(value.bytes, value.length);
}

static void look_at_member(void *context, FieldText key, FieldText value, bool is_string)
{
    JsonLook *look = context;
    Guess *guess = look->guess;
    u64 number;
    if (key.length == 0 || key.length > NAMES_LONG || guess->n_columns == COLUMNS_MAX)
        return;                                             // COPY names it
    if (!map_get(look->numbers, key.bytes, key.length, &number)) {
        number = (u64)guess->n_columns;
        map_set(look->numbers, key.bytes, key.length, number);
        *LIST_PUSH(look->arena, guess->columns, guess->n_columns) =
            (ColumnDef){ .name = arena_strndup(look->arena, key.bytes, key.length) };
        *LIST_PUSH(look->arena, look->looks, look->n_looks) = LOOKS_NONE;
    }
    const Looks seen = json_looks(value, is_string);
    if (seen != LOOKS_NONE)
        look->looks[number] = both(look->looks[number], seen);
}

static CopyOptions json_options(void)
{
    return (CopyOptions){ .json = true, .delimiter = '\t', .null_text = "\\N", .quote = '"', .escape = '"' };
}

static weft_status guess_json(Arena *arena, const Sample *sample, Guess *out, Error *err)
{
    JsonLook look = { .arena = arena, .guess = out, .numbers = map_new(arena) };
    *out = (Guess){ .options = json_options() };
    for (size_t at = 0; at < sample->length;) {
        const char *newline = memchr(sample->bytes + at, '\n', sample->length - at);
        if (!newline)
            break;                                          // the sample ends inside a line
        copy_json_members(sample->bytes + at, (size_t)(newline - sample->bytes) - at, look_at_member, &look);
        at = (size_t)(newline - sample->bytes) + 1;
    }
    for (int c = 0; c < out->n_columns; c++)
        out->columns[c].type = type_of(look.looks[c]);
    if (out->n_columns == 0) {
        fail(err, WEFT_BAD_COPY, -1, "there is no JSON object from which columns could be told");
        error_hint(err, "Each line has to hold an object.  jq -c . makes such lines of other JSON, jq -c '.[]' of an "
                        "array.");
        return err->status;
    }
    return WEFT_OK;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static bool ends_in(const char *name, size_t length, const char *suffix)
{
    const size_t n = strlen(suffix);
    return length > n && strncmp(name + length - n, suffix, n) == 0;
}

const char *guess_format(const char *name)
{
    static const struct { const char *suffix, *format; } known[] = {
        { ".csv", "csv" }, { ".tsv", "csv" }, { ".json", "json" }, { ".jsonl", "json" }, { ".ndjson", "json" },
    };
    static const char *const packed[] = { ".gz", ".zst", ".zstd" };
    size_t length = strlen(name);
    for (int i = 0; i < COUNT_OF(packed); i++)
        if (ends_in(name, length, packed[i])) {
            length -= strlen(packed[i]);
            break;
        }
    for (int i = 0; i < COUNT_OF(known); i++)
        if (ends_in(name, length, known[i].suffix))
            return known[i].format;
    return NULL;
}

weft_status guess_file(Arena *arena, const char *path, const char *format, const _Atomic bool *cancel, Guess *out,
                       Error *err)
{
    Sample sample;
    Error reason;
    error_clear(&reason);
    if (!format)
        format = guess_format(path);
    const bool is_json = format && strcmp(format, "json") == 0;
    const CopyOptions options = is_json ? json_options() : csv_options(',');
    TRY(read_sample(arena, path, &options, cancel, &sample, err));
    const weft_status status = is_json ? guess_json(arena, &sample, out, &reason)
                                       : guess_csv(arena, &sample, out, &reason);
    if (!status)
        return WEFT_OK;
    fail(err, status, -1, "\"%s\": %s", path, reason.message);
    const char *compression = stream_compression(sample.bytes, sample.length);
    if (compression)
        error_hint(err, "The file is %s.", compression);
    else if (reason.hint[0])
        error_hint(err, "%s", reason.hint);
    return status;
}

// The message says: "sales.csv", line 7, column price: ...
bool guess_widen(Guess *guess, const Error *error)
{
    if (error->status != WEFT_BAD_TEXT && error->status != WEFT_OUT_OF_RANGE && error->status != WEFT_BAD_DATETIME &&
        error->status != WEFT_DATETIME_OVERFLOW)
        return false;
    const char *at = strstr(error->message, ", column ");
    for (int c = 0; at && c < guess->n_columns; c++) {
        const char *name = guess->columns[c].name;
        const size_t length = strlen(name);
        if (strncmp(at + 9, name, length) != 0 || strncmp(at + 9 + length, ": ", 2) != 0 ||
            (guess->columns[c].type.kind == TYPE_TEXT && !type_is_uuid(guess->columns[c].type)))
            continue;
        guess->columns[c].type = TYPE(TEXT);
        return true;
    }
    return false;
}
