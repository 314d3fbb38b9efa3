// copy_parse.c - the fields of a block become column values.
//
// Once it is known where fields end, each column is parsed on its own in a tight loop that knows its type.  The loops
// take the usual forms only: digits, digits with a point, YYYY-MM-DD, text without quotes and backslashes.  Everything
// else (NULL, blanks, exponents, escapes, nonsense) goes the slow way through value_parse(), which makes the messages.
//
// Text is looked up in a small cache per column and worker before the shared dictionary is asked: most text columns of
// large tables have few values.  Values of up to 16 bytes are compared as two words.  Dates are mostly that of the row
// before, so that is compared first.
//
// The first bad row wins.  A column is parsed only up to the first row that an earlier step found bad, so what is found
// later is always the better answer.

#include "store/copy_int.h"
#include "store/store_int.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define APART __attribute__((noinline))                     // a loop alone, which has all registers for itself

enum { CACHE_ENTRIES = 1024 };

typedef struct CacheEntry {
    u64 word0, word1;                  // the text, or its hash and its place in the dictionary when over 16 bytes
    u32 length_plus_one;               // 0: empty
    u32 code;
} CacheEntry;

typedef struct Field {
    int         column;                // of the table
    Type        type;
    bool        not_null;
    Dictionary *dict;
    i64         min, max;              // of the type
    i64         scale_factor;          // decimal: 10^scale
    CopySpace   cache;                 // text: CACHE_ENTRIES
    union { i64 *i; double *f; };      // values of the block
    int         low_column;            // numeric: of its low words; 0: none
    i64        *low;
    u8         *is_null;               // set only while has_nulls
    bool        has_nulls;
    bool        is_free;               // numeric without a precision: SCALE is that of the block's rows, which grows
    u8          scale;
    i128        most;                  // of these, without their signs
} Field;

struct CopyParser {
    const Table       *table;
    const CopyOptions *options;
    Budget            *budget;
    size_t             null_length;
    bool               is_null_odd;    // the text for NULL looks like a value: the fast ways must not see it
    Field             *fields;
    int                n_fields;
    FieldIndex         index;
    const CopyBlock   *block;
    const u32         *row_ends;       // of the rows to parse: without the header
    u32                n_rows;
    bool               is_plain;       // no quote or backslash in the block
    bool               has_quotes;     // csv, and not plain
    CopySpace          values;         // of all columns
    u32                capacity;       // rows
    ColumnInput       *inputs;         // per table column
    CopySpace          scratch;        // a field without its quotes or escapes
};

// ---- words ----------------------------------------------------------------------------------------------------------

// Eight bytes, the first one lowest.
static inline u64 load_8(const char *bytes)
{
    u64 word;
    memcpy(&word, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline bool are_digits(u64 values)
{
    return (((values + 0x7676767676767676u) | values) & 0x8080808080808080u) == 0;
}

// Eight digit values, the first (lowest byte) most significant, added up in pairs, fours and eights.
static inline u64 combine_digits(u64 values)
{
    const u64 every_other_pair = 0x000000FF000000FFu;
    values = values * 10 + (values >> 8);
    return ((values & every_other_pair) * (100 + ((u64)1000000 << 32)) +
            (values >> 16 & every_other_pair) * (1 + ((u64)10000 << 32))) >> 32;
}

// One to eight digits.  Shifting the word up puts zeros before the first digit.
static inline bool parse_8_digits(const char *bytes, size_t n, u64 *number)
{
    u64 values = (load_8(bytes) ^ 0x3030303030303030u) << ((64 - 8 * n) & 63);
    *number = combine_digits(values);
    return are_digits(values);
}

// One to sixteen digits.
static bool parse_digits(const char *bytes, size_t n, u64 *number)
{
    if (n - 1 < 8)
        return parse_8_digits(bytes, n, number);
    if (n - 1 >= 16)
        return false;
    u64 high, low;
    if (!parse_8_digits(bytes, n - 8, &high) || !parse_8_digits(bytes + n - 8, 8, &low))
        return false;
    *number = high * 100000000 + low;
    return true;
}

// ---- fields ---------------------------------------------------------------------------------------------------------

// The end of the row's first field in the index.  The entry before it is the end of the row before.
static inline const u32 *first_end(const CopyParser *parser, u32 row)
{
    u32 place = parser->row_ends[(ptrdiff_t)row - 1] + 1;
    return parser->index.ends + place;
}

// As it stands in the file, quotes and all.
static inline FieldText raw_field(const CopyParser *parser, u32 row, int number)
{
    const u32 *ends = first_end(parser, row) + number;
    u32 start = ends[-1] + 1;
    u32 end = ends[0];
    const char *bytes = parser->block->bytes;
    if (number == parser->n_fields - 1 && end > start && bytes[end - 1] == '\r' && bytes[end] == '\n')
        end--;
    return (FieldText){ bytes + start, end - start };
}

// The fields of a number column.  What the loop over them needs is in registers.
typedef struct Numbers {
    const char *bytes;
    const u32  *ends, *row_ends;
    char        quote;
    bool        has_quotes, has_returns;         // to be taken off
    bool        is_bare;                         // neither
} Numbers;

static Numbers numbers_of(const CopyParser *parser, int number)
{
    Numbers numbers = { .bytes = parser->block->bytes,
                        .ends = parser->index.ends + number,
                        .row_ends = parser->row_ends,
                        .quote = parser->options->quote,
                        .has_quotes = parser->has_quotes,
                        .has_returns = number == parser->n_fields - 1 && parser->index.has_returns };
    numbers.is_bare = !numbers.has_quotes && !numbers.has_returns;
    return numbers;
}

// A quote in the middle is no digit, so taking off the outer ones is enough.
static FieldText bare_number(const Numbers *numbers, FieldText text)
{
    if (numbers->has_returns && text.length > 0 && text.bytes[text.length - 1] == '\r')
        text.length--;
    if (numbers->has_quotes && text.length >= 2 && text.bytes[0] == numbers->quote &&
        text.bytes[text.length - 1] == numbers->quote)
        text = (FieldText){ text.bytes + 1, text.length - 2 };
    return text;
}

static inline FieldText number_at(const Numbers *numbers, u32 row)
{
    u32 place = numbers->row_ends[(ptrdiff_t)row - 1] + 1;
    const u32 *ends = numbers->ends + place;
    u32 start = ends[-1] + 1;
    FieldText text = { numbers->bytes + start, ends[0] - start };
    return LIKELY(numbers->is_bare) ? text : bare_number(numbers, text);
}

static inline bool is_null_text(const CopyParser *parser, FieldText raw)
{
    return raw.length == parser->null_length && memcmp(raw.bytes, parser->options->null_text, raw.length) == 0;
}

static weft_status clean_field(CopyParser *parser, FieldText raw, FieldText *clean, Error *err)
{
    *clean = raw;
    return parser->is_plain ? WEFT_OK : copy_clean_field(parser->options, clean, &parser->scratch, parser->budget, err);
}

// ---- values, the slow way -------------------------------------------------------------------------------------------

static weft_status put_null(CopyParser *parser, Field *field, u32 row, Error *err)
{
    if (field->not_null)
        return fail(err, WEFT_NOT_NULL_VIOLATION, -1, "null in a column that forbids it");
    if (!field->has_nulls)
        memset(field->is_null, 0, parser->n_rows);
    field->has_nulls = true;
    field->is_null[row] = 1;
    if (type_is_float(field->type))
        field->f[row] = 0;
    else
        field->i[row] = 0;
    if (field->low_column)
        field->low[row] = 0;
    return WEFT_OK;
}

static weft_status fail_digits(const Field *field, const Value *value, Error *err)
{
    fail(err, WEFT_OUT_OF_RANGE, -1, "numeric field overflow");
    error_hint(err, value->type.scale < field->scale
                        ? "Beside a value with %d digits behind the point this one takes more than 38 digits."
                        : "It has %d digits behind the point, with which another value takes more than 38 digits.",
               MAX_OF(field->scale, value->type.scale));
    return WEFT_OUT_OF_RANGE;
}

// The rows before ROW get a larger scale.
static void scale_rows(Field *field, u32 row, int up)
{
    for (u32 i = 0; i < row; i++) {
        i128 number = value_of_words(field->i[i], field->low[i]);
        const bool is_right = value_scale_up(&number, up);
        ASSERT(is_right);                                   // the largest can be
        (void)is_right;
        value_words(number, &field->i[i], &field->low[i]);
    }
}

// A number with its own digits behind the point, into rows that have one scale.
static weft_status put_free(Field *field, u32 row, Value *value, Error *err)
{
    const int up = value->type.scale - field->scale;
    i128 most = field->most;
    if (up > 0 && !value_scale_up(&most, up))
        return fail_digits(field, value, err);
    if (up < 0 && !value_scale_up(&value->i, -up))
        return fail_digits(field, value, err);
    if (up > 0) {
        scale_rows(field, row, up);
        field->scale = value->type.scale;
    }
    field->most = MAX_OF(most, value->i < 0 ? -value->i : value->i);
    value_words(value->i, &field->i[row], &field->low[row]);
    return WEFT_OK;
}

static weft_status parse_slowly(CopyParser *parser, int number, u32 row, Error *err)
{
    Field *field = &parser->fields[number];
    FieldText raw = raw_field(parser, row, number);
    if (is_null_text(parser, raw))
        return put_null(parser, field, row, err);
    FieldText clean;
    Value value;
    TRY(clean_field(parser, raw, &clean, err));
    if (field->is_free) {
        TRY(value_parse_free(clean.bytes, clean.length, &value, err));
        return put_free(field, row, &value, err);
    }
    TRY(value_parse(field->type, clean.bytes, clean.length, &value, err));
    if (type_is_float(field->type))
        field->f[row] = value.f;
    else if (field->low_column)
        value_words(value.i, &field->i[row], &field->low[row]);
    else
        field->i[row] = (i64)value.i;
    return WEFT_OK;
}

// ---- columns, the fast way: each returns the first bad row, or the number of rows -----------------------------------
//
// Runs of usual fields are taken by loops apart, which call nothing: in one that may call the slow way the compiler
// keeps half of what it needs in memory.  They stop at the first field that is not usual.

typedef u32 ParseColumn(CopyParser *parser, int number, Error *err);

// A sign, or more than eight digits.
static bool parse_long_integer(FieldText text, i64 *value)
{
    bool is_negative = text.length > 0 && text.bytes[0] == '-';
    u64 digits;
    if (!parse_digits(text.bytes + is_negative, text.length - is_negative, &digits))
        return false;
    *value = is_negative ? -(i64)digits : (i64)digits;
    return true;
}

// The field of a row where nothing is to be taken off.  BEFORE: the place of the last field of the row before.
static inline FieldText bare_at(const char *bytes, const u32 *ends, u32 before)
{
    const u32 place = before + 1, start = ends[(ptrdiff_t)place - 1] + 1;
    return (FieldText){ bytes + start, ends[place] - start };
}

// One to eight digits from row ROW on.
APART static u32 parse_short_integers(const Numbers *numbers, u32 row, u32 n_rows, i64 *values)
{
    const char *bytes = numbers->bytes;
    const u32 *ends = numbers->ends, *row_ends = numbers->row_ends - 1;
    for (; row < n_rows; row++) {
        FieldText text = bare_at(bytes, ends, row_ends[row]);
        u64 digits;
        if (text.length - 1 >= 8 || !parse_8_digits(text.bytes, text.length, &digits))
            break;
        values[row] = (i64)digits;
    }
    return row;
}

enum { FEW_ROWS = 8, MANY_ROWS = 256 };

static u32 parse_integers(CopyParser *parser, int number, Error *err)
{
    const Field *field = &parser->fields[number];
    const Numbers numbers = numbers_of(parser, number);
    i64 *values = field->i, min = field->min, max = field->max;
    u32 n_rows = parser->n_rows, next_run = numbers.is_bare && max >= 99999999 ? 0 : n_rows;
    for (u32 row = 0; row < n_rows; row++) {
        if (row >= next_run) {
            const u32 first = row;
            row = parse_short_integers(&numbers, row, n_rows, values);
            if (row == n_rows)
                break;
            next_run = row - first < FEW_ROWS ? row + MANY_ROWS : row + 1;
        }
        FieldText text = number_at(&numbers, row);
        u64 digits;
        if (LIKELY(text.length - 1 < 8 && parse_8_digits(text.bytes, text.length, &digits) && digits <= (u64)max)) {
            values[row] = (i64)digits;
            continue;
        }
        if (parse_long_integer(text, &values[row]) && values[row] >= min && values[row] <= max)
            continue;
        if (parse_slowly(parser, number, row, err))
            return row;
    }
    return n_rows;
}

// As many digits behind the point as the type has, or no point at all.
static inline bool parse_decimal(const Field *field, FieldText text, u64 *value)
{
    size_t scale = field->type.scale;
    if (scale > 0 && text.length >= scale + 2 && text.bytes[text.length - scale - 1] == '.') {
        u64 whole, part;
        if (!parse_digits(text.bytes, text.length - scale - 1, &whole) ||
            !parse_digits(text.bytes + text.length - scale, scale, &part))
            return false;
        return !__builtin_mul_overflow(whole, (u64)field->scale_factor, value) &&
               !__builtin_add_overflow(*value, part, value);
    }
    return parse_digits(text.bytes, text.length, value) &&
           !__builtin_mul_overflow(*value, (u64)field->scale_factor, value);
}

static u32 parse_decimals(CopyParser *parser, int number, Error *err)
{
    const Field *field = &parser->fields[number];
    const Numbers numbers = numbers_of(parser, number);
    for (u32 row = 0; row < parser->n_rows; row++) {
        FieldText text = number_at(&numbers, row);
        bool is_negative = text.length > 0 && text.bytes[0] == '-';
        FieldText unsigned_text = { text.bytes + is_negative, text.length - is_negative };
        u64 value;
        if (LIKELY(parse_decimal(field, unsigned_text, &value) && value <= (u64)field->max))
            field->i[row] = is_negative ? -(i64)value : (i64)value;
        else if (parse_slowly(parser, number, row, err))
            return row;
    }
    return parser->n_rows;
}

// Up to 15 digits and a power of ten up to 10^22 are exact in a double, so one division rounds right (Clinger 1990);
// for a float the same holds for 7 digits and 10^10.
static bool parse_float(FieldText text, bool is_real, double *value)
{
    static const double powers[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
    bool is_negative = text.length > 0 && text.bytes[0] == '-', has_point = false;
    size_t n_digits = 0, n_behind = 0;
    u64 digits = 0;
    for (size_t i = is_negative; i < text.length; i++) {
        unsigned digit = (unsigned)(unsigned char)text.bytes[i] - '0';
        if (digit <= 9) {
            digits = digits * 10 + digit;
            n_digits++;
            n_behind += has_point;
        } else if (text.bytes[i] == '.' && !has_point) {
            has_point = true;
        } else {
            return false;
        }
    }
    if (n_digits == 0 || n_digits > (is_real ? 7 : 15))
        return false;
    double result = is_real ? (double)((float)digits / (float)powers[n_behind]) : (double)digits / powers[n_behind];
    *value = is_negative ? -result : result;
    return true;
}

static u32 parse_floats(CopyParser *parser, int number, Error *err)
{
    const Field *field = &parser->fields[number];
    const Numbers numbers = numbers_of(parser, number);
    bool is_real = field->type.kind == TYPE_REAL;
    for (u32 row = 0; row < parser->n_rows; row++) {
        if (LIKELY(parse_float(number_at(&numbers, row), is_real, &field->f[row])))
            continue;
        if (parse_slowly(parser, number, row, err))
            return row;
    }
    return parser->n_rows;
}

static inline int two_digits(u64 values, int first)
{
    return (int)(values >> 8 * first & 0xFF) * 10 + (int)(values >> (8 * first + 8) & 0xFF);
}

// YYYY-MM-DD.  After the exclusive or, a digit is 0 to 9 and a dash is 0; adding brings anything else to the top bit.
static bool parse_date(FieldText text, i64 *days)
{
    if (text.length != 10)
        return false;
    u64 year_month = load_8(text.bytes) ^ 0x2D30302D30303030u;
    u64 day = (load_8(text.bytes + 2) ^ 0x30302D30302D3030u) >> 48;
    u64 is_odd = (year_month + 0x7F76767F76767676u) | year_month | (day + 0x7676) | day;
    if (is_odd & 0x8080808080808080u)
        return false;
    int y = two_digits(year_month, 0) * 100 + two_digits(year_month, 2);
    int m = two_digits(year_month, 5), d = two_digits(day, 0);
    if (y == 0 || !date_is_valid(y, m, d))
        return false;
    *days = date_from_civil(y, m, d);
    return true;
}

// The date of the row before, as it is written and as days.  All its bytes are in the words, some in both.
typedef struct DateBefore { u64 begin, end; i64 days; } DateBefore;

#define NO_DATE_BEFORE { 0, UINT64_MAX, 0 }                 // no bytes are both

static inline bool is_same_date(const DateBefore *before, const char *bytes)
{
    return load_8(bytes) == before->begin && load_8(bytes + 2) == before->end;
}

static bool parse_other_date(const char *bytes, DateBefore *before)
{
    if (!parse_date((FieldText){ bytes, 10 }, &before->days))
        return false;
    before->begin = load_8(bytes);
    before->end = load_8(bytes + 2);
    return true;
}

static u32 parse_dates(CopyParser *parser, int number, Error *err)
{
    const Field *field = &parser->fields[number];
    const Numbers numbers = numbers_of(parser, number);
    DateBefore before = NO_DATE_BEFORE;
    for (u32 row = 0; row < parser->n_rows; row++) {
        FieldText text = number_at(&numbers, row);
        if (LIKELY(text.length == 10 && (is_same_date(&before, text.bytes) || parse_other_date(text.bytes, &before))))
            field->i[row] = before.days;
        else if (parse_slowly(parser, number, row, err))
            return row;
    }
    return parser->n_rows;
}

// HH:MM:SS.  After the exclusive or, a digit is its value and a colon is 0; adding brings what is more than 2, 9 or 5
// in its place to the top bit.  All pairs of digits become numbers at once.
static inline bool parse_clock(const char *bytes, i64 *seconds)
{
    u64 values = load_8(bytes) ^ 0x30303A30303A3030u;
    u64 is_odd = (values + 0x767A7F767A7F767Du) | values;
    u64 pairs = values * 10 + (values >> 8);
    i64 hour = (i64)(pairs & 0xFF);
    *seconds = (hour * 60 + (i64)(pairs >> 24 & 0xFF)) * 60 + (i64)(pairs >> 48 & 0xFF);
    return (is_odd & 0x8080808080808080u) == 0 && hour < 24;
}

// What is behind the seconds: nothing, or a point with up to six digits.
static bool parse_fraction(FieldText text, i64 *micros)
{
    static const i64 units[] = { 1000000, 100000, 10000, 1000, 100, 10, 1 };
    u64 digits = 0;
    if (text.length > 7 || text.bytes[0] != '.')
        return false;
    if (text.length > 1 && !parse_8_digits(text.bytes + 1, text.length - 1, &digits))
        return false;
    *micros = (i64)digits * units[text.length - 1];
    return true;
}

// YYYY-MM-DD HH:MM:SS, with up to six digits behind a point or without.
static inline bool parse_timestamp(FieldText text, DateBefore *before, i64 *micros)
{
    i64 seconds, fraction = 0;
    if (text.length < 19 || (text.bytes[10] != ' ' && text.bytes[10] != 'T') ||
        !parse_clock(text.bytes + 11, &seconds))
        return false;
    if (!is_same_date(before, text.bytes) && !parse_other_date(text.bytes, before))
        return false;
    if (text.length > 19 && !parse_fraction((FieldText){ text.bytes + 19, text.length - 19 }, &fraction))
        return false;
    *micros = before->days * DAY_MICROS + seconds * 1000000 + fraction;
    return true;
}

APART static u32 parse_usual_timestamps(const Numbers *numbers, u32 row, u32 n_rows, DateBefore before, i64 *values)
{
    const char *bytes = numbers->bytes;
    const u32 *ends = numbers->ends, *row_ends = numbers->row_ends - 1;
    for (; row < n_rows; row++) {
        FieldText text = bare_at(bytes, ends, row_ends[row]);
        i64 seconds;
        if (text.length != 19 || text.bytes[10] != ' ' || !is_same_date(&before, text.bytes) ||
            !parse_clock(text.bytes + 11, &seconds))
            break;
        values[row] = before.days * DAY_MICROS + seconds * 1000000;
    }
    return row;
}

static u32 parse_timestamps(CopyParser *parser, int number, Error *err)
{
    const Field *field = &parser->fields[number];
    const Numbers numbers = numbers_of(parser, number);
    DateBefore before = NO_DATE_BEFORE;
    u32 n_rows = parser->n_rows;
    for (u32 row = 0; row < n_rows; row++) {
        if (!LIKELY(parse_timestamp(number_at(&numbers, row), &before, &field->i[row])) &&
            parse_slowly(parser, number, row, err))
            return row;
        if (numbers.is_bare)
            row = parse_usual_timestamps(&numbers, row + 1, n_rows, before, field->i) - 1;
    }
    return n_rows;
}

static u32 parse_booleans(CopyParser *parser, int number, Error *err)
{
    const Field *field = &parser->fields[number];
    const Numbers numbers = numbers_of(parser, number);
    for (u32 row = 0; row < parser->n_rows; row++) {
        FieldText text = number_at(&numbers, row);
        char byte = text.bytes[0];
        bool is_true = byte == 't' || byte == '1';
        if (LIKELY(text.length == 1 && (is_true || byte == 'f' || byte == '0')))
            field->i[row] = is_true;
        else if (parse_slowly(parser, number, row, err))
            return row;
    }
    return parser->n_rows;
}

// For when the text for NULL looks like a value.
static u32 parse_all_slowly(CopyParser *parser, int number, Error *err)
{
    for (u32 row = 0; row < parser->n_rows; row++) {
        if (parse_slowly(parser, number, row, err))
            return row;
    }
    return parser->n_rows;
}

// ---- text -----------------------------------------------------------------------------------------------------------

static weft_status check_encoding(FieldText text, Error *err)
{
    size_t n_good = utf8_valid_length(text.bytes, text.length);
    if (n_good == text.length)
        return WEFT_OK;
    return fail(err, WEFT_BAD_ENCODING, -1, "text is not UTF-8: byte 0x%02x at place %zu",
                (unsigned)(unsigned char)text.bytes[n_good], n_good + 1);
}

// The key of a text in the cache: its first 16 bytes, or its hash.
static inline CacheEntry cache_key(FieldText text)
{
    static const u64 low_bytes[9] = { 0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFF, 0xFFFFFFFFFFFF,
                                      0xFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF };
    CacheEntry key = { 0, 0, (u32)text.length + 1, 0 };
    if (LIKELY(text.length <= 8)) {
        key.word0 = load_8(text.bytes) & low_bytes[text.length];
    } else if (text.length <= 16) {
        key.word0 = load_8(text.bytes);
        key.word1 = load_8(text.bytes + 8) & low_bytes[text.length - 8];
    } else {
        key.word0 = hash_bytes(text.bytes, text.length);
    }
    return key;
}

static inline bool cache_matches(const CacheEntry *entry, const CacheEntry *key, FieldText text)
{
    if (entry->length_plus_one != key->length_plus_one || entry->word0 != key->word0)
        return false;
    if (text.length <= 16)
        return entry->word1 == key->word1;
    return memcmp((const char *)(uintptr_t)entry->word1, text.bytes, text.length) == 0;
}

static weft_status cache_miss(const Field *field, CacheEntry *slot, CacheEntry key, FieldText text, i64 *code,
                              Error *err)
{
    TRY(check_encoding(text, err));
    TRY(dict_intern(field->dict, text.bytes, text.length, &key.code, err));
    if (text.length > 16)
        key.word1 = (u64)(uintptr_t)dict_get(field->dict, key.code).bytes;
    slot[1] = slot[0];                                      // two places per hash: the last and the one before
    slot[0] = key;
    *code = key.code;
    return WEFT_OK;
}

static inline CacheEntry *cache_slot(const Field *field, const CacheEntry *key)
{
    u64 words = key->word0 ^ key->word1 * 0x9E3779B97F4A7C15u;
    words ^= words >> 32;                                   // what differs in the last bytes only must differ here, too
    u64 hash = (words + key->length_plus_one) * 0xD6E8FEB86659FD93u;
    return (CacheEntry *)(void *)field->cache.bytes + 2 * (hash >> 32) % CACHE_ENTRIES;
}

static weft_status code_of(const Field *field, FieldText text, i64 *code, Error *err)
{
    CacheEntry key = cache_key(text);
    CacheEntry *slot = cache_slot(field, &key);
    for (int i = 0; i < 2; i++) {
        if (LIKELY(cache_matches(&slot[i], &key, text))) {
            *code = slot[i].code;
            return WEFT_OK;
        }
    }
    return cache_miss(field, slot, key, text, code, err);
}

static weft_status canonical_uuid(FieldText *text, char buffer[64], Error *err)
{
    memset(buffer, 0, 64);
    if (!uuid_canonical(text->bytes, text->length, buffer))
        return value_bad_text(TYPE_OF_UUID, text->bytes, text->length, err);
    *text = (FieldText){ buffer, 36 };
    return WEFT_OK;
}

static weft_status parse_text(CopyParser *parser, Field *field, FieldText raw, u32 row, Error *err)
{
    if (is_null_text(parser, raw))
        return put_null(parser, field, row, err);
    FieldText clean;
    char buffer[64];
    TRY(clean_field(parser, raw, &clean, err));
    if (type_is_uuid(field->type))
        TRY(canonical_uuid(&clean, buffer, err));
    if (type_text_length(field->type) || type_is_char(field->type))
        TRY(value_fit_text(field->type, clean.bytes, &clean.length, err));
    return code_of(field, clean, &field->i[row], err);
}

// Texts of up to eight bytes, or of 9 to 16, that are where their hash says.
APART static u32 find_short_texts(const Numbers *texts, u32 row, u32 n_rows, size_t null_length, const Field *field)
{
    const char *bytes = texts->bytes;
    const u32 *ends = texts->ends, *row_ends = texts->row_ends - 1;
    i64 *codes = field->i;
    for (; row < n_rows; row++) {
        FieldText text = bare_at(bytes, ends, row_ends[row]);
        if (text.length > 16 || text.length == null_length)
            break;
        const CacheEntry key = cache_key(text), *slot = cache_slot(field, &key);
        if (slot->word0 != key.word0 || slot->length_plus_one != key.length_plus_one || slot->word1 != key.word1)
            break;
        codes[row] = slot->code;
    }
    return row;
}

// Texts that may be NULL by their length go the other way, as do all of a column that wants a change or a check.
static u32 parse_texts(CopyParser *parser, int number, Error *err)
{
    Field *field = &parser->fields[number];
    const Numbers texts = numbers_of(parser, number);
    const bool may_run = texts.is_bare && parser->is_plain && !copy_is_careful() &&
                         !type_is_uuid(field->type) && !type_text_length(field->type) && !type_is_char(field->type);
    u32 n_rows = parser->n_rows;
    for (u32 row = 0; row < n_rows; row++) {
        if (may_run && (row = find_short_texts(&texts, row, n_rows, parser->null_length, field)) == n_rows)
            break;
        if (parse_text(parser, field, raw_field(parser, row, number), row, err))
            return row;
    }
    return n_rows;
}

static ParseColumn *column_parser(const CopyParser *parser, Type type)
{
    if (type.kind == TYPE_TEXT)
        return parse_texts;
    if (parser->is_null_odd || type.kind == TYPE_NUMERIC || copy_is_careful())
        return parse_all_slowly;
    switch ((TypeKind)type.kind) {
    case TYPE_BOOLEAN:
        return parse_booleans;
    case TYPE_DECIMAL:
        return parse_decimals;
    case TYPE_REAL:
    case TYPE_DOUBLE:
        return parse_floats;
    case TYPE_DATE:
        return parse_dates;
    case TYPE_TIMESTAMP:
        return parse_timestamps;
    case TYPE_TIMESTAMPTZ:
    case TYPE_TIME:
        return parse_all_slowly;
    default:
        return parse_integers;
    }
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static FieldText row_text(const CopyParser *parser, u32 row)
{
    u32 start = first_end(parser, row)[-1] + 1;
    u32 end = parser->index.ends[parser->row_ends[row]];
    const char *bytes = parser->block->bytes;
    if (end > start && bytes[end - 1] == '\r')
        end--;
    return (FieldText){ bytes + start, end - start };
}

static bool is_row(const CopyParser *parser, u32 row, const char *text)
{
    FieldText line = row_text(parser, row);
    return line.length == strlen(text) && memcmp(line.bytes, text, line.length) == 0;
}

static inline u32 count_fields(const CopyParser *parser, u32 row)
{
    return parser->row_ends[row] - parser->row_ends[(ptrdiff_t)row - 1];
}

// One more field than there are columns, and that one empty.
static bool is_trailing_delimiter(const CopyParser *parser, u32 row)
{
    const u32 *ends = parser->index.ends + parser->row_ends[row];
    return parser->options->trailing_delimiter && count_fields(parser, row) == (u32)parser->n_fields + 1 &&
           (ends[0] == ends[-1] + 1 || (ends[0] == ends[-1] + 2 && parser->block->bytes[ends[0] - 1] == '\r'));
}

static weft_status check_row(const CopyParser *parser, u32 row, Error *err)
{
    u32 n_fields = count_fields(parser, row);
    bool may_be_marker = !parser->options->csv && !parser->is_plain;
    if (LIKELY(n_fields == (u32)parser->n_fields) && !(may_be_marker && n_fields == 1))
        return WEFT_OK;
    if (may_be_marker && is_row(parser, row, "\\."))
        return fail(err, WEFT_BAD_COPY, -1, "the end marker \\. is not the last line");
    if (n_fields == (u32)parser->n_fields || is_trailing_delimiter(parser, row))
        return WEFT_OK;
    return fail(err, WEFT_BAD_COPY, -1, parser->options->columns ? "%u fields where %d columns are named"
                                                                 : "%u fields where the table has %d columns",
                n_fields, parser->n_fields);
}

static i64 count_newlines(const char *bytes, size_t length)
{
    i64 n = 0;
    for (size_t i = 0; i < length; i++)
        n += bytes[i] == '\n';
    return n;
}

// An empty last line is not a row, unless the table has one column; nor is the end marker of the text format.
static void drop_last_row(CopyParser *parser)
{
    if (!parser->block->is_last || parser->n_rows == 0 || !parser->index.is_whole)
        return;                                             // not whole: another line follows, which does not end
    u32 last = parser->n_rows - 1;
    if ((parser->n_fields > 1 && is_row(parser, last, "")) || (!parser->options->csv && is_row(parser, last, "\\.")))
        parser->n_rows--;
}

static void set_problem(const CopyParser *parser, const Error *err, u32 row, int column, CopyProblem *problem)
{
    const char *start = row_text(parser, row).bytes;
    i64 line = count_newlines(parser->block->bytes, (size_t)(start - parser->block->bytes));
    *problem = (CopyProblem){ .error = *err, .line = line, .column = column, .row = row,
                              .row_start = (u32)(start - parser->block->bytes),
                              .row_end = parser->index.ends[parser->row_ends[row]] + 1 };
}

// The line behind the last row, when it is not whole.
static void check_tail(const CopyParser *parser, CopyProblem *problem)
{
    const FieldIndex *index = &parser->index;
    if (index->is_whole)
        return;
    u32 start = index->n_rows > 0 ? index->ends[index->row_ends[index->n_rows - 1]] + 1 : 0;
    problem->line = count_newlines(parser->block->bytes, start);
    problem->row_start = start;
    problem->row_end = (u32)parser->block->length;
    fail(&problem->error, WEFT_BAD_COPY, -1,
         parser->options->csv ? "a quoted field does not end" : "the file ends behind a backslash");
}

// Leaves the rows before the first one that has the wrong number of fields.
static void check_rows(CopyParser *parser, CopyProblem *problem)
{
    Error err = { 0 };
    if (parser->index.fields_per_row == (u32)parser->n_fields && parser->n_fields > 1)
        return;
    for (u32 row = 0; row < parser->n_rows; row++) {
        if (LIKELY(check_row(parser, row, &err) == WEFT_OK))
            continue;
        set_problem(parser, &err, row, -1, problem);
        parser->n_rows = row;
    }
}

// ---- a block --------------------------------------------------------------------------------------------------------

// Values of all fields, then their null bytes.  Behind those of the fields is a column of NULLs, which all columns get
// that are not in the file.
static weft_status reserve_rows(CopyParser *parser, u32 n_rows, Error *err)
{
    if (n_rows <= parser->capacity)
        return WEFT_OK;
    size_t capacity = MAX_OF((size_t)n_rows + n_rows / 8, 256), n_fields = (size_t)parser->n_fields, n_lows = 0;
    for (size_t i = 0; i < n_fields; i++)
        n_lows += parser->fields[i].low_column != 0;
    parser->capacity = 0;
    TRY(copy_space_reserve(&parser->values, (n_fields + n_lows + 1) * capacity * 9, parser->budget, err));
    parser->capacity = (u32)capacity;
    i64 *values = (i64 *)(void *)parser->values.bytes, *lows = values + (n_fields + 1) * capacity;
    u8 *is_null = (u8 *)(lows + n_lows * capacity);
    for (size_t i = 0; i < n_fields; i++) {
        parser->fields[i].i = values + i * capacity;
        parser->fields[i].is_null = is_null + i * capacity;
        if (parser->fields[i].low_column) {
            parser->fields[i].low = lows;
            lows += capacity;
        }
    }
    ColumnInput nulls = { .i = values + n_fields * capacity, .is_null = is_null + n_fields * capacity };
    memset(values + n_fields * capacity, 0, capacity * sizeof(i64));
    memset(is_null + n_fields * capacity, 1, capacity);
    for (int column = 0; column < parser->table->n_stored; column++)
        parser->inputs[column] = nulls;
    return WEFT_OK;
}

static weft_status reserve_cache(CopyParser *parser, Field *field, Error *err)
{
    if (field->type.kind != TYPE_TEXT || field->cache.bytes)
        return WEFT_OK;
    return copy_space_reserve(&field->cache, CACHE_ENTRIES * sizeof(CacheEntry), parser->budget, err);
}

static weft_status prepare(CopyParser *parser, const CopyBlock *block, Error *err)
{
    TRY(copy_index_block(&parser->index, block, parser->options, parser->budget, err));
    parser->block = block;
    parser->is_plain = !parser->index.has_special;
    parser->has_quotes = parser->options->csv && parser->index.has_special;
    parser->row_ends = parser->index.row_ends;
    parser->n_rows = parser->index.n_rows;
    if (block->sequence == 0 && parser->options->header && parser->n_rows > 0) {
        parser->row_ends++;
        parser->n_rows--;
    }
    for (int number = 0; number < parser->n_fields; number++)
        TRY(reserve_cache(parser, &parser->fields[number], err));
    return reserve_rows(parser, parser->n_rows, err);
}

static void parse_column(CopyParser *parser, int number, CopyProblem *problem)
{
    Field *field = &parser->fields[number];
    Error err = { 0 };
    field->has_nulls = false;
    field->scale = field->type.scale;
    field->most = 0;
    u32 row = column_parser(parser, field->type)(parser, number, &err);
    if (row < parser->n_rows) {
        set_problem(parser, &err, row, field->column, problem);
        parser->n_rows = row;
    }
    const u8 *is_null = field->has_nulls ? field->is_null : NULL;
    const u8 scale = field->is_free ? field->scale : 0;
    parser->inputs[field->column] = (ColumnInput){ .i = field->i, .is_null = is_null, .scale = scale };
    if (field->low_column)
        parser->inputs[field->low_column] = (ColumnInput){ .i = field->low, .is_null = is_null, .scale = scale };
}

weft_status copy_parser_run(CopyParser *parser, const CopyBlock *block, CopyProblem *problem)
{
    *problem = (CopyProblem){ .line = -1, .column = -1 };
    if (prepare(parser, block, &problem->error) == WEFT_OK) {
        drop_last_row(parser);
        check_tail(parser, problem);
        check_rows(parser, problem);
        for (int number = 0; number < parser->n_fields; number++)
            parse_column(parser, number, problem);
    }
    problem->sequence = block->sequence;
    return problem->error.status;
}

const ColumnInput *copy_parser_columns(const CopyParser *parser, u32 *n_rows)
{
    *n_rows = parser->n_rows;
    return parser->inputs;
}

const FieldIndex *copy_parser_index(const CopyParser *parser)
{
    return &parser->index;
}

void copy_parser_clear(CopyParser *parser)
{
    parser->n_rows = 0;
}

u32 copy_parser_newlines(const CopyParser *parser)
{
    return parser->index.n_newlines;
}

// ---- life -----------------------------------------------------------------------------------------------------------

static Field make_field(const Table *table, int number, u8 zone)
{
    const Column *column = &table->columns[number];
    Field field = { .column = number, .type = column->type, .not_null = column->not_null, .dict = column->dict,
                    .is_free = column->is_free };
    if (!type_is_float(column->type))
        type_limits(column->type, &field.min, &field.max);
    field.low_column = column->low;
    if (!column->low)
        field.scale_factor = power_of_ten(column->type.kind == TYPE_DECIMAL ? column->type.scale : 0);
    if (column->type.kind == TYPE_TIMESTAMPTZ)
        field.type.scale = zone;
    return field;
}

CopyParser *copy_parser_new(Arena *arena, const Table *table, const CopyOptions *options, const int *columns,
                            int n_fields, Budget *budget)
{
    CopyParser *parser = arena_make(arena, CopyParser);
    const char *null_text = options->null_text;
    *parser = (CopyParser){ .table = table, .options = options, .budget = budget, .null_length = strlen(null_text) };
    parser->is_null_odd = null_text[0] && strchr("0123456789-.tf", null_text[0]);
    parser->n_fields = n_fields;
    parser->fields = arena_array(arena, Field, n_fields);
    for (int i = 0; i < n_fields; i++)
        parser->fields[i] = make_field(table, columns[i], options->zone);
    parser->inputs = arena_array(arena, ColumnInput, table->n_stored);
    return parser;
}

// Must not be called while the values are used.
void copy_parser_swap(CopyParser *parser, CopyMemory *memory)
{
    copy_space_swap(&parser->index.ends_memory, &memory->ends);
    copy_space_swap(&parser->index.rows_memory, &memory->row_ends);
    copy_space_swap(&parser->values, &memory->values);
    parser->capacity = 0;                                   // the columns have no place in it yet
}

void copy_parser_free(CopyParser *parser)
{
    for (int number = 0; number < parser->n_fields; number++)
        copy_space_free(&parser->fields[number].cache, parser->budget);
    copy_index_free(&parser->index, parser->budget);
    copy_space_free(&parser->values, parser->budget);
    copy_space_free(&parser->scratch, parser->budget);
}
