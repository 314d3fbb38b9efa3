// copy_json.c - lines of JSON objects as lines of the text format, which the parser of fields reads.
//
//     {"id": 7, "name": "a\tb"}     becomes     7 TAB a\tb            in the order of the columns
//     {"name": null}                            \N TAB \N             a key that is missing is NULL
//
// One object, one line: so line numbers stay those of the file, but for empty lines, which are skipped.  Strings become
// text without their escapes; numbers, true and false stay as they are written; what is nested stays JSON, as text.
// Where the text of an object would be ambiguous (a key twice) the last one counts, as in PostgreSQL's jsonb.

#include <stdio.h>

#include "store/copy_int.h"
#include "store/store_int.h"

enum { NESTING_MAX = 512, NONE = -1 };

typedef struct JsonValue { u32 start, length; bool is_there, is_null, is_string; } JsonValue;

struct CopyJson {
    int                n_fields;
    Budget            *budget;
    Map               *names;          // of the columns: field number
    JsonValue         *values;         // of the line, by field
    Text               text;           // the lines made so far
    CopySpace          starts;         // u32 of each line made: where its object's line begins in the block
    u32                n_rows;
};

// ---- reading --------------------------------------------------------------------------------------------------------

typedef struct JsonCursor {
    const char *start, *at, *end;      // of the line
    char        problem[120];          // "": none so far
} JsonCursor;

static void skip_blanks(JsonCursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r", *cursor->at) && *cursor->at)
        cursor->at++;
}

static bool take(JsonCursor *cursor, char byte)
{
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

static bool complain(JsonCursor *cursor, const char *problem)
{
    if (!cursor->problem[0])
        snprintf(cursor->problem, sizeof(cursor->problem), "%s", problem);
    return false;
}

static int hex_value(char byte)
{
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

// Four digits behind \u; -1: there are none.
static int code_unit(const char *at, const char *end)
{
    int code = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_value(at[i]);
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

// Past a string, whose quote is next.  Checks its escapes.
static bool skip_string(JsonCursor *cursor)
{
    cursor->at++;
    while (cursor->at < cursor->end && *cursor->at != '"') {
        if ((unsigned char)*cursor->at < 0x20)
            return complain(cursor, "a control character in a string");
        if (*cursor->at++ != '\\')
            continue;
        if (cursor->at == cursor->end || !*cursor->at || !strchr("\"\\/bfnrtu", *cursor->at))
            return complain(cursor, "an unknown escape in a string");
        if (*cursor->at++ == 'u') {
            if (code_unit(cursor->at, cursor->end) < 0)
                return complain(cursor, "\\u without four digits");
            cursor->at += 4;
        }
    }
    if (cursor->at == cursor->end)
        return complain(cursor, "a string does not end");
    cursor->at++;
    return true;
}

static bool skip_digits(JsonCursor *cursor)
{
    const char *first = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9')
        cursor->at++;
    return cursor->at > first;
}

static bool skip_number(JsonCursor *cursor)
{
    cursor->at += *cursor->at == '-';
    bool is_number = skip_digits(cursor);
    if (is_number && cursor->at < cursor->end && *cursor->at == '.') {
        cursor->at++;
        is_number = skip_digits(cursor);
    }
    if (is_number && cursor->at < cursor->end && (*cursor->at == 'e' || *cursor->at == 'E')) {
        cursor->at++;
        cursor->at += cursor->at < cursor->end && (*cursor->at == '+' || *cursor->at == '-');
        is_number = skip_digits(cursor);
    }
    return is_number || complain(cursor, "a value is expected");
}

static bool skip_word(JsonCursor *cursor, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < n || memcmp(cursor->at, word, n) != 0)
        return complain(cursor, "a value is expected");
    cursor->at += n;
    return true;
}

static bool skip_scalar(JsonCursor *cursor)
{
    switch (*cursor->at) {
    case '"': return skip_string(cursor);
    case 't': return skip_word(cursor, "true");
    case 'f': return skip_word(cursor, "false");
    case 'n': return skip_word(cursor, "null");
    default:  return skip_number(cursor);
    }
}

// Past arrays and objects: brackets that match, strings that end.  What is between them is kept as it is, not checked.
static bool skip_nested(JsonCursor *cursor)
{
    char open[NESTING_MAX];
    int n_open = 0;
    do {
        skip_blanks(cursor);
        if (cursor->at == cursor->end)
            return complain(cursor, "an array or object does not end");
        const char byte = *cursor->at;
        if (byte == '"') {
            if (!skip_string(cursor))
                return false;
        } else {
            cursor->at++;
        }
        if (byte == '{' || byte == '[') {
            if (n_open == NESTING_MAX)
                return complain(cursor, "arrays or objects are nested too deeply");
            open[n_open++] = byte;
        } else if ((byte == '}' || byte == ']') && open[--n_open] != (byte == '}' ? '{' : '[')) {
            return complain(cursor, "brackets do not match");
        }
    } while (n_open > 0);
    return true;
}

static bool read_value(JsonCursor *cursor, JsonValue *value)
{
    skip_blanks(cursor);
    const char *first = cursor->at;
    if (first == cursor->end)
        return complain(cursor, "a value is expected");
    if (!(*first == '{' || *first == '[' ? skip_nested(cursor) : skip_scalar(cursor)))
        return false;
    *value = (JsonValue){ (u32)(first - cursor->start), (u32)(cursor->at - first), true, *first == 'n', *first == '"' };
    return true;
}

// ---- writing --------------------------------------------------------------------------------------------------------

static void put_utf8(Text *out, u32 code)
{
    char bytes[4];
    size_t n = 0;
    if (code < 0x80) {
        bytes[n++] = (char)code;
    } else if (code < 0x800) {
        bytes[n++] = (char)(0xC0 | code >> 6);
        bytes[n++] = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        bytes[n++] = (char)(0xE0 | code >> 12);
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3F));
        bytes[n++] = (char)(0x80 | (code & 0x3F));
    } else {
        bytes[n++] = (char)(0xF0 | code >> 18);
        bytes[n++] = (char)(0x80 | (code >> 12 & 0x3F));
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3F));
        bytes[n++] = (char)(0x80 | (code & 0x3F));
    }
    text_add_bytes(out, bytes, n);
}

static void put_byte(Text *out, char byte)
{
    switch (byte) {
    case '\n': text_add_bytes(out, "\\n", 2);  break;
    case '\t': text_add_bytes(out, "\\t", 2);  break;
    case '\r': text_add_bytes(out, "\\r", 2);  break;
    case '\\': text_add_bytes(out, "\\\\", 2); break;
    default:   text_add_bytes(out, &byte, 1);
    }
}

// The code point at \uXXXX (AT is behind the u), with its second half where it has one.  *USED: digits taken.
static bool code_point(const char *at, const char *end, u32 *code, size_t *used)
{
    const int high = code_unit(at, end);
    *code = (u32)high;
    *used = 4;
    if (high < 0xD800 || high > 0xDFFF)
        return high != 0;                                   // no text of ours holds a NUL
    if (high > 0xDBFF || end - at < 10 || at[4] != '\\' || at[5] != 'u')
        return false;
    const int low = code_unit(at + 6, end);
    if (low < 0xDC00 || low > 0xDFFF)
        return false;
    *code = 0x10000 + ((u32)(high - 0xD800) << 10) + (u32)(low - 0xDC00);
    *used = 10;
    return true;
}

static bool put_string(Text *out, const char *at, const char *end, JsonCursor *cursor)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    while (at < end) {
        const char *plain = at;
        while (at < end && *at != '\\' && *at != '\t')
            at++;
        text_add_bytes(out, plain, (size_t)(at - plain));
        if (at == end)
            break;
        if (*at == '\t') {
            put_byte(out, *at++);
            continue;
        }
        const char letter = at[1];
        const char *found = strchr(letters, letter);
        at += 2;
        if (letter == 'u') {
            u32 code;
            size_t used;
            if (!code_point(at, end, &code, &used))
                return complain(cursor, "\\u that is no character of text");
            if (code < 0x80)
                put_byte(out, (char)code);
            else
                put_utf8(out, code);
            at += used;
        } else {
            put_byte(out, found ? meanings[found - letters] : letter);
        }
    }
    return true;
}

static bool put_value(CopyJson *json, JsonCursor *cursor, const JsonValue *value)
{
    const char *bytes = cursor->start + value->start;
    if (!value->is_there || value->is_null) {
        text_add_bytes(&json->text, "\\N", 2);
        return true;
    }
    if (value->is_string)
        return put_string(&json->text, bytes + 1, bytes + value->length - 1, cursor);
    for (u32 i = 0; i < value->length; i++)
        put_byte(&json->text, bytes[i]);
    return true;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// The field of a key, its escapes resolved; NONE: no column has that name.
static int find_field(CopyJson *json, JsonCursor *cursor, const JsonValue *key)
{
    u64 number;
    const char *bytes = cursor->start + key->start + 1;
    size_t length = key->length - 2;
    Text clean = { 0 };
    if (memchr(bytes, '\\', length)) {
        put_string(&clean, bytes, bytes + length, cursor);
        bytes = clean.bytes ? clean.bytes : "";
        length = clean.length;
    }
    const bool is_known = map_get(json->names, bytes, length, &number);
    text_free(&clean);
    return is_known ? (int)number : NONE;
}

static bool read_member(CopyJson *json, JsonCursor *cursor)
{
    JsonValue key = { 0 }, value = { 0 };
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != '"')
        return complain(cursor, "a key in double quotes is expected");
    if (!read_value(cursor, &key))
        return false;
    if (!take(cursor, ':'))
        return complain(cursor, "a colon is expected behind the key");
    if (!read_value(cursor, &value))
        return false;
    const int field = find_field(json, cursor, &key);
    if (field == NONE) {
        snprintf(cursor->problem, sizeof(cursor->problem), "there is no column for the key %.*s",
                 (int)MIN_OF(key.length, 70u), cursor->start + key.start);
        return false;
    }
    json->values[field] = value;
    return true;
}

static bool read_object(CopyJson *json, JsonCursor *cursor)
{
    memset(json->values, 0, (size_t)json->n_fields * sizeof(JsonValue));
    if (!take(cursor, '{'))
        return complain(cursor, cursor->at < cursor->end && *cursor->at == '['
                                    ? "an array; one object on each line is expected"
                                    : "no JSON object; one on each line is expected");
    if (!take(cursor, '}')) {
        do {
            if (!read_member(json, cursor))
                return false;
        } while (take(cursor, ','));
        if (!take(cursor, '}'))
            return complain(cursor, "a comma or } is expected");
    }
    skip_blanks(cursor);
    return cursor->at == cursor->end || complain(cursor, "there is something behind the object");
}

static void put_row(CopyJson *json, JsonCursor *cursor)
{
    for (int i = 0; i < json->n_fields; i++) {
        if (i > 0)
            text_add_bytes(&json->text, "\t", 1);
        if (!put_value(json, cursor, &json->values[i]))
            return;
    }
    text_add_bytes(&json->text, "\n", 1);
}

static weft_status note_row(CopyJson *json, u32 start, Error *err)
{
    const size_t n = json->n_rows;
    if ((n + 1) * sizeof(u32) > json->starts.capacity)
        TRY(copy_space_grow(&json->starts, MAX_OF(2 * json->starts.capacity, (size_t)4096), n * sizeof(u32),
                            json->budget, err));
    ((u32 *)(void *)json->starts.bytes)[json->n_rows++] = start;
    return WEFT_OK;
}

static bool is_blank(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r", *at) && *at)
        at++;
    return at == end;
}

static i64 lines_before(const CopyBlock *block, u32 start)
{
    i64 n = 0;
    for (u32 i = 0; i < start; i++)
        n += block->bytes[i] == '\n';
    return n;
}

// A line becomes a row, or *PROBLEM tells why not.
static weft_status make_row(CopyJson *json, const CopyBlock *block, u32 start, u32 end, CopyProblem *problem)
{
    JsonCursor cursor = { block->bytes + start, block->bytes + start, block->bytes + end, "" };
    const size_t before = json->text.length;
    if (read_object(json, &cursor))
        put_row(json, &cursor);
    if (!cursor.problem[0])
        return note_row(json, start, &problem->error);
    json->text.length = before;
    problem->line = lines_before(block, start);
    problem->row_start = start;
    problem->row_end = end + 1;
    fail(&problem->error, WEFT_BAD_COPY, -1, "%s at character %ld", cursor.problem,
         (long)(cursor.at - cursor.start) + 1);
    return problem->error.status;
}

weft_status copy_json_block(CopyJson *json, const CopyBlock *block, CopyBlock *made, CopyProblem *problem)
{
    weft_status status = WEFT_OK;
    text_clear(&json->text);
    json->n_rows = 0;
    for (size_t at = 0; at < block->length && !status;) {
        const char *newline = memchr(block->bytes + at, '\n', block->length - at);
        const size_t end = newline ? (size_t)(newline - block->bytes) : block->length;
        if (!is_blank(block->bytes + at, block->bytes + end))
            status = make_row(json, block, (u32)at, (u32)end, problem);
        at = end + 1;
    }
    *made = *block;
    made->is_last = false;                                  // an empty row of one text column is a row
    made->length = json->text.length;
    static const char padding[BLOCK_PADDING];
    text_add_bytes(&json->text, padding, sizeof(padding));  // the parser loads whole words
    made->bytes = json->text.bytes;
    return status;
}

void copy_json_place(const CopyJson *json, const CopyBlock *block, CopyProblem *problem)
{
    ASSERT(problem->row < json->n_rows);
    const u32 start = ((const u32 *)(const void *)json->starts.bytes)[problem->row];
    const char *newline = memchr(block->bytes + start, '\n', block->length - start);
    problem->line = lines_before(block, start);
    problem->row_start = start;
    problem->row_end = newline ? (u32)(newline - block->bytes) + 1 : (u32)block->length;
}

// ---- the members of an object, for guessing columns -----------------------------------------------------------------

// A key with a mistake in its value is shown, too: its column is there, and COPY reports the mistake.
static void show_member(JsonCursor *cursor, const JsonValue *key, const JsonValue *value, JsonMember *member,
                        void *context)
{
    Text name = { 0 }, text = { 0 };
    JsonCursor keys = { .start = cursor->start };
    put_string(&name, cursor->start + key->start + 1, cursor->start + key->start + key->length - 1, &keys);
    const char *bytes = cursor->start + value->start;
    if (value->is_string)
        put_string(&text, bytes + 1, bytes + value->length - 1, cursor);
    else
        text_add_bytes(&text, bytes, value->length);
    if (!keys.problem[0])
        member(context, (FieldText){ name.bytes ? name.bytes : "", name.length },
               (FieldText){ text.bytes ? text.bytes : "", text.length }, value->is_string);
    text_free(&name);
    text_free(&text);
}

bool copy_json_members(const char *line, size_t length, JsonMember *member, void *context)
{
    JsonCursor cursor = { line, line, line + length, "" };
    if (!take(&cursor, '{'))
        return false;
    if (take(&cursor, '}'))
        return true;
    do {
        JsonValue key = { 0 }, value = { 0 };
        skip_blanks(&cursor);
        if (cursor.at == cursor.end || *cursor.at != '"' || !read_value(&cursor, &key) || !take(&cursor, ':'))
            return false;
        const bool is_read = read_value(&cursor, &value);
        if (!is_read)
            value = (JsonValue){ 0 };
        show_member(&cursor, &key, &value, member, context);
        if (!is_read)
            return false;
    } while (take(&cursor, ','));
    return take(&cursor, '}');
}

// ---- life -----------------------------------------------------------------------------------------------------------

CopyJson *copy_json_new(Arena *arena, const Table *table, const int *columns, int n_fields, Budget *budget)
{
    CopyJson *json = arena_make(arena, CopyJson);
    *json = (CopyJson){ .n_fields = n_fields, .budget = budget, .names = map_new(arena),
                        .values = arena_array(arena, JsonValue, n_fields + 1) };
    for (int i = 0; i < n_fields; i++) {
        const char *name = table->columns[columns[i]].name;
        map_set(json->names, name, strlen(name), (u64)i);
    }
    return json;
}

void copy_json_free(CopyJson *json)
{
    if (!json)
        return;
    copy_space_free(&json->starts, json->budget);
    text_free(&json->text);
}
