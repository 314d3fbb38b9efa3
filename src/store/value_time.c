// value_time.c - dates, times, timestamps and intervals: from text, to text.  As PostgreSQL does it with its default
// settings (ISO, MDY, intervals in its own style), for the years 1 to 9999.

#include <math.h>
#include <stdio.h>

#include "store/store_int.h"

#define SECOND ((i64)1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

typedef struct Reader { const char *at, *end; } Reader;     // what is left of the input

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static Reader trimmed(const char *bytes, size_t length)
{
    Reader r = { bytes, bytes + length };
    while (r.at < r.end && is_blank(*r.at))
        r.at++;
    while (r.end > r.at && is_blank(r.end[-1]))
        r.end--;
    return r;
}

static bool skip_blanks(Reader *r)
{
    const char *start = r->at;
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    return r->at > start;
}

static bool take(Reader *r, char c)
{
    bool is_there = r->at < r->end && *r->at == c;
    r->at += is_there;
    return is_there;
}

// The count of digits, all of them taken; *NUMBER is of the first nine.
static int take_digits(Reader *r, int *number)
{
    int n = 0;
    for (*number = 0; r->at < r->end && is_digit(*r->at); r->at++, n++)
        if (n < 9)
            *number = *number * 10 + (*r->at - '0');
    return n;
}

static bool take_word(Reader *r, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (lower(r->at[i]) != word[i])
            return false;
    if (r->at + length < r->end && is_letter(r->at[length]))
        return false;
    r->at += length;
    return true;
}

// ---- parts of a timestamp -------------------------------------------------------------------------------------------

typedef struct Moment {
    int  year, month, day;
    bool has_date, has_time, has_zone, is_out_of_range;
    i64  micros;                       // of the day
    i32  offset;                       // of the zone, in seconds
    u8   zone;                         // by name, when not 0
} Moment;

// One of a date's three fields: a number, or a month by its name.
typedef struct DateField { int number, n_digits; bool is_month; } DateField;

static bool take_month(Reader *r, int *month)
{
    static const struct { const char *name, *abbreviation; } months[] = {
        { "january", "jan" }, { "february", "feb" }, { "march", "mar" },     { "april", "apr" },
        { "may", "may" },     { "june", "jun" },     { "july", "jul" },      { "august", "aug" },
        { "september", "sep" }, { "october", "oct" }, { "november", "nov" }, { "december", "dec" },
    };
    for (*month = 1; *month <= COUNT_OF(months); (*month)++)
        if (take_word(r, months[*month - 1].name) || take_word(r, months[*month - 1].abbreviation)) return true;
    *month = 9;
    return take_word(r, "sept");
}

// A day of the week before the date says nothing, be it right or wrong.
static void skip_weekday(Reader *r)
{
    static const char *const days[] = { "monday", "mon", "tuesday", "tues", "tue", "wednesday", "weds", "wed",
                                        "thursday", "thurs", "thur", "thu", "friday", "fri", "saturday", "sat",
                                        "sunday", "sun" };
    for (int i = 0; i < COUNT_OF(days); i++)
        if (take_word(r, days[i])) {
            take(r, ',');
            skip_blanks(r);
            return;
        }
}

static bool take_date_field(Reader *r, DateField *field)
{
    field->n_digits = take_digits(r, &field->number);
    field->is_month = !field->n_digits && take_month(r, &field->number);
    return field->n_digits || field->is_month;
}

// '-', '/' or '.', or ' ' for blanks and a comma; 0: none of them.
static char take_separator(Reader *r)
{
    for (const char *separator = "-/."; *separator; separator++)
        if (take(r, *separator)) return *separator;
    const bool has_comma = take(r, ','), has_blanks = skip_blanks(r);
    return has_comma || has_blanks ? ' ' : 0;
}

// Years of two digits are those from 1970 to 2069.  Too many digits are out of range.
static int full_year(const DateField *field)
{
    if (field->n_digits > 4) return 0;
    return field->n_digits > 2 ? field->number : field->number + (field->number < 70 ? 2000 : 1900);
}

// Which field is what: the month by its name, else it is the first that is not the year; the year by its digits, else
// it is the last.
static bool set_date(Moment *m, const DateField *first, const DateField *second, const DateField *third)
{
    const DateField *numbers[3] = { first }, *month = NULL;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        const DateField *field = i == 0 ? first : i == 1 ? second : third;
        if (!field->is_month)
            numbers[n++] = field;
        else if (month)
            return false;
        else
            month = field;
    }
    const bool begins_with_year = numbers[0]->n_digits > 2;
    if (month == third && !begins_with_year)
        return false;
    const DateField *year = numbers[begins_with_year ? 0 : n - 1], *day = numbers[begins_with_year ? n - 1 : n - 2];
    if (!month)
        month = numbers[begins_with_year ? 1 : 0];
    m->year = full_year(year), m->month = month->number, m->day = day->number;
    return day->n_digits <= 2 && month->n_digits <= 2;
}

// YYYY-MM-DD, YYYYMMDD, MM/DD/YYYY, and with a month's name 8 Jan 1999, January 8, 1999 and 1999-Jan-08.  Where the
// year does not come first, months come before days, as with PostgreSQL's datestyle "ISO, MDY".
static bool take_date(Reader *r, Moment *m)
{
    DateField first, second, third;
    skip_weekday(r);
    if (!take_date_field(r, &first))
        return false;
    m->has_date = true;
    if (first.n_digits == 8 && (r->at == r->end || *r->at != '-')) {
        m->year = first.number / 10000, m->month = first.number / 100 % 100, m->day = first.number % 100;
        return true;
    }
    const char before = take_separator(r);
    if (!before || !take_date_field(r, &second))
        return false;
    const char behind = take_separator(r);
    if (behind != before || !take_date_field(r, &third))
        return false;
    return set_date(m, &first, &second, &third);
}

// The digits behind a point, rounded to microseconds.
static i64 take_fraction(Reader *r)
{
    i64 micros = 0, unit = SECOND / 10;
    int n = 0;
    for (; r->at < r->end && is_digit(*r->at); r->at++, n++, unit /= 10) {
        micros += unit * (*r->at - '0');
        if (n == 6)
            micros += *r->at >= '5';
    }
    return micros;
}

// One digit is enough, as in PostgreSQL: 1:2:3 is 01:02:03.
static bool take_two_digits(Reader *r, int *number)
{
    const int n = take_digits(r, number);
    return n == 1 || n == 2;
}

static bool take_time(Reader *r, Moment *m)
{
    int hour, minute, second = 0;
    i64 fraction = 0;
    int n = take_digits(r, &hour);
    if (n == 6) {                                           // hhmmss
        second = hour % 100, minute = hour / 100 % 100, hour /= 10000;
        if (take(r, '.'))
            fraction = take_fraction(r);
    } else if (n < 1 || !take(r, ':') || !take_two_digits(r, &minute)) {
        return false;
    } else if (take(r, ':')) {
        if (!take_two_digits(r, &second))
            return false;
        if (take(r, '.'))
            fraction = take_fraction(r);
    }
    Reader half = *r;
    skip_blanks(&half);
    bool is_am = take_word(&half, "am"), is_pm = !is_am && take_word(&half, "pm");
    if (is_am || is_pm) {
        *r = half;
        m->is_out_of_range |= hour > 12;
        hour = hour % 12 + (is_pm ? 12 : 0);
    }
    m->has_time = true;
    m->micros = hour * HOUR + minute * MINUTE + second * SECOND + fraction;
    m->is_out_of_range |= minute > 59 || second > 60 || m->micros > DAY || hour > 24;
    return true;
}

// +hh, +hmm, +hhmm, +hh:mm[:ss]
static bool take_offset(Reader *r, Moment *m)
{
    int sign = *r->at++ == '-' ? -1 : 1, hours, minutes = 0, seconds = 0, n = take_digits(r, &hours);
    if (n == 3 || n == 4)
        minutes = hours % 100, hours /= 100;
    else if (n != 1 && n != 2)
        return false;
    else if (take(r, ':') && take_digits(r, &minutes) != 2)
        return false;
    else if (take(r, ':') && take_digits(r, &seconds) != 2)
        return false;
    m->has_zone = true;
    m->offset = sign * (hours * 3600 + minutes * 60 + seconds);
    m->is_out_of_range |= hours > 15 || minutes > 59 || seconds > 59;
    return true;
}

static bool take_zone(Reader *r, Moment *m)
{
    const char *start = r->at;
    if (*r->at == '+' || *r->at == '-')
        return take_offset(r, m);
    m->has_zone = true;
    while (r->at < r->end && !is_blank(*r->at))
        r->at++;
    const size_t length = (size_t)(r->at - start);
    if (zone_abbreviation(start, length, &m->offset))
        return true;
    const bool is_rule = memchr(start, ',', length) || memchr(start, '<', length);
    return !is_rule && length && !is_digit(*start) && zone_find_named(start, length, &m->zone);
}

// A date, a time, a zone, in this order; what may be left out is for the caller to say.
static bool scan_moment(Reader r, Moment *m)
{
    *m = (Moment){ 0 };
    if (take_word(&r, "epoch")) {
        m->year = 1970, m->month = m->day = 1, m->has_date = m->has_time = m->has_zone = true;
        return r.at == r.end;
    }
    const char *colon = memchr(r.at, ':', (size_t)MIN_OF(r.end - r.at, 3));
    if (!colon && !take_date(&r, m))
        return false;
    bool is_apart = skip_blanks(&r);
    if (!colon && r.at < r.end && !is_apart && lower(*r.at) == 't')
        r.at++, is_apart = true;
    skip_blanks(&r);
    if (r.at < r.end && is_digit(*r.at) && (is_apart || colon) && !take_time(&r, m))
        return false;
    skip_blanks(&r);
    if (take_word(&r, "bc")) {
        m->is_out_of_range = true;                          // before year 1, which we do not keep
    } else if (r.at < r.end && (m->has_time || is_apart) && !take_zone(&r, m)) {
        return false;
    }
    skip_blanks(&r);
    m->is_out_of_range |= take_word(&r, "bc");
    return r.at == r.end;
}

// What PostgreSQL reads and we do not.
static weft_status refuse_special(Reader r, Error *err)
{
    static const char *const words[] = { "infinity", "-infinity", "+infinity",
                                         "now",      "today",     "tomorrow", "yesterday" };
    for (int i = 0; i < COUNT_OF(words); i++) {
        Reader rest = r;
        if (!take_word(&rest, words[i]) || rest.at != rest.end)
            continue;
        fail(err, WEFT_UNSUPPORTED, -1, "the date or time \"%s\" is not supported", words[i]);
        if (i > 2)
            error_hint(err, "now() and current_date give the present.");
        return WEFT_UNSUPPORTED;
    }
    return WEFT_OK;
}

static weft_status out_of_range(const char *bytes, size_t length, Error *err)
{
    char quoted[VALUE_QUOTE_BYTES];
    return fail(err, WEFT_DATETIME_OVERFLOW, -1, "date/time field value out of range: \"%s\"",
                value_quote(bytes, length, quoted));
}

weft_status parse_moment(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    Moment m;
    Reader r = trimmed(bytes, length);
    TRY(refuse_special(r, err));
    bool is_time = type.kind == TYPE_TIME;
    if (!scan_moment(r, &m) || (is_time ? !m.has_time : !m.has_date))
        return value_bad_text(type, bytes, length, err);
    if (m.is_out_of_range || (m.has_date && !date_is_valid(m.year, m.month, m.day)))
        return out_of_range(bytes, length, err);
    i64 days = m.has_date ? date_from_civil(m.year, m.month, m.day) : 0;
    value->i = is_time ? m.micros : type.kind == TYPE_DATE ? days : days * DAY + m.micros;
    if (type.kind == TYPE_TIMESTAMPTZ) {
        bool by_name = !m.has_zone || m.zone;
        value->i = by_name ? zone_from_local(m.has_zone ? m.zone : type.scale, (i64)value->i)
                           : (i64)value->i - m.offset * SECOND;
    }
    i64 min, max;
    type_limits(type, &min, &max);
    return value->i >= min && value->i <= max ? WEFT_OK : out_of_range(bytes, length, err);
}

// ---- intervals ------------------------------------------------------------------------------------------------------

typedef struct IntervalUnit { const char *word; int months; i64 days, micros; } IntervalUnit;

static const IntervalUnit units[] = {
    { "microsecond", 0, 0, 1 },     { "usec", 0, 0, 1 },         { "us", 0, 0, 1 },
    { "millisecond", 0, 0, 1000 },  { "msec", 0, 0, 1000 },      { "ms", 0, 0, 1000 },
    { "second", 0, 0, SECOND },     { "sec", 0, 0, SECOND },     { "s", 0, 0, SECOND },
    { "minute", 0, 0, MINUTE },     { "min", 0, 0, MINUTE },     { "m", 0, 0, MINUTE },
    { "hour", 0, 0, HOUR },         { "hr", 0, 0, HOUR },        { "h", 0, 0, HOUR },
    { "day", 0, 1, 0 },             { "d", 0, 1, 0 },            { "week", 0, 7, 0 },      { "w", 0, 7, 0 },
    { "mon", 1, 0, 0 },             { "month", 1, 0, 0 },        { "year", 12, 0, 0 },     { "yr", 12, 0, 0 },
    { "y", 12, 0, 0 },              { "decade", 120, 0, 0 },     { "dec", 120, 0, 0 },    { "century", 1200, 0, 0 },
    { "centurie", 1200, 0, 0 },     { "c", 1200, 0, 0 },         { "millennium", 12000, 0, 0 },
    { "millennia", 12000, 0, 0 },   { "mil", 12000, 0, 0 },
};

static bool is_unit(const char *start, const char *end, const char *word)
{
    size_t length = (size_t)(end - start);
    if (length != strlen(word))
        return false;
    for (size_t i = 0; i < length; i++)
        if (lower(start[i]) != word[i])
            return false;
    return true;
}

// A word of letters; an s at its end is a plural.
static const IntervalUnit *take_unit(Reader *r)
{
    const char *start = r->at, *end = start;
    while (end < r->end && is_letter(*end))
        end++;
    r->at = end;
    for (int is_plural = 0; is_plural < 2; is_plural++) {
        for (int i = 0; i < COUNT_OF(units) && end > start; i++)
            if (is_unit(start, end, units[i].word))
                return &units[i];
        if (end > start && lower(end[-1]) == 's')
            end--;
    }
    return NULL;
}

typedef struct Span { i128 months, days, micros; } Span;    // wide enough for the sum of all parts that there can be

typedef struct Amount { bool is_negative; i128 whole; double fraction; bool has_fraction; } Amount;

#define AMOUNT_MOST ((i128)1 << 64)

static bool take_amount(Reader *r, Amount *a)
{
    *a = (Amount){ 0 };
    if (take(r, '-'))
        a->is_negative = true;
    else
        take(r, '+');
    int n = 0;
    for (; r->at < r->end && is_digit(*r->at); r->at++, n++)
        a->whole = MIN_OF(a->whole * 10 + (*r->at - '0'), AMOUNT_MOST);
    if (take(r, '.')) {
        double unit = 0.1;
        a->has_fraction = true;
        for (; r->at < r->end && is_digit(*r->at); r->at++, unit /= 10, n++)
            a->fraction += unit * (*r->at - '0');
    }
    return n > 0;
}

// Fractions of months are days of which a month has 30, fractions of days are hours.
static void add_amount(Span *span, const Amount *a, const IntervalUnit *unit)
{
    i64 sign = a->is_negative ? -1 : 1;
    span->months += sign * a->whole * unit->months;
    span->days += sign * a->whole * unit->days;
    span->micros += sign * a->whole * unit->micros;
    if (!a->has_fraction)
        return;
    double rest = a->fraction;
    if (unit->months) {
        double months = rest * unit->months;
        i64 whole = unit->months > 1 ? (i64)(months + 0.5) : 0;
        span->months += sign * whole;
        rest = unit->months > 1 ? 0 : months * 30;
        if (unit->months == 1) {
            i64 days = (i64)(rest + 1e-9);
            span->days += sign * days;
            rest -= (double)days;
            span->micros += sign * (i64)(rest * (double)DAY + 0.5);
        }
    } else if (unit->days) {
        double days = rest * (double)unit->days;
        i64 whole = (i64)(days + 1e-9);
        span->days += sign * whole;
        span->micros += sign * (i64)((days - (double)whole) * (double)DAY + 0.5);
    } else {
        span->micros += sign * (i64)rint(rest * (double)unit->micros);
    }
}

// P1Y2M3DT4H5M6S
static bool take_iso(Reader *r, Span *span)
{
    static const IntervalUnit date[] = { { "Y", 12, 0, 0 }, { "M", 1, 0, 0 }, { "W", 0, 7, 0 }, { "D", 0, 1, 0 } };
    static const IntervalUnit clock[] = { { "H", 0, 0, HOUR }, { "M", 0, 0, MINUTE }, { "S", 0, 0, SECOND } };
    bool in_time = false;
    while (r->at < r->end) {
        Amount amount;
        const IntervalUnit *unit = NULL;
        if (take(r, 'T')) {
            in_time = true;
            continue;
        }
        if (!take_amount(r, &amount) || r->at == r->end)
            return false;
        for (int i = 0; i < (in_time ? COUNT_OF(clock) : COUNT_OF(date)) && !unit; i++)
            if ((in_time ? clock : date)[i].word[0] == *r->at)
                unit = &(in_time ? clock : date)[i];
        if (!unit)
            return false;
        r->at++;
        add_amount(span, &amount, unit);
    }
    return true;
}

// ---- intervals in PostgreSQL's own style ----
//
// As in PostgreSQL the parts are read from the last to the first, so that each number's unit is known: that of the word
// behind it, days before a time of day, seconds at the end.

typedef enum IntervalPartKind { PART_NUMBER, PART_CLOCK, PART_WORD } IntervalPartKind;
typedef struct IntervalPart { IntervalPartKind kind; const char *start, *end; } IntervalPart;

enum { PARTS_MOST = 25 };

static bool is_of(char c, const char *set) { return c && strchr(set, c); }

// "12", "1.5", "1-2", "12:30:05.5", with a sign before or not.
static bool scan_number(Reader *r, IntervalPart *part)
{
    *part = (IntervalPart){ PART_NUMBER, r->at, r->at };
    if (is_of(*r->at, "+-")) {
        r->at++;
        skip_blanks(r);
    }
    if (r->at == r->end || !(is_digit(*r->at) || (*r->at == '.' && part->start == r->at)))
        return false;
    while (r->at < r->end && is_digit(*r->at))
        r->at++;
    if (r->at < r->end && *r->at == ':')
        part->kind = PART_CLOCK;
    if (part->kind == PART_CLOCK) {
        while (r->at < r->end && (is_digit(*r->at) || is_of(*r->at, ":.")))
            r->at++;
    } else if (r->at < r->end && is_of(*r->at, "-.") && (*r->at == '.' || (r->at + 1 < r->end && is_digit(r->at[1])))) {
        r->at++;
        while (r->at < r->end && is_digit(*r->at))
            r->at++;
    }
    part->end = r->at;
    return true;
}

static bool scan_parts(Reader *r, IntervalPart parts[PARTS_MOST], int *n_parts)
{
    for (*n_parts = 0; skip_blanks(r), r->at < r->end;) {
        const bool is_number = is_digit(*r->at) || is_of(*r->at, "+-.");
        if (!is_number && !is_letter(*r->at)) {
            if (!is_of(*r->at, ",;@!#$%&*()[]{}<>=?|~^_'\"/\\:"))
                return false;
            r->at++;                                        // other signs stand between parts
            continue;
        }
        if (*n_parts == PARTS_MOST)
            return false;
        IntervalPart *part = &parts[(*n_parts)++];
        if (is_number) {
            if (!scan_number(r, part))
                return false;
            continue;
        }
        *part = (IntervalPart){ PART_WORD, r->at, r->at };
        while (r->at < r->end && is_letter(*r->at))
            r->at++;
        part->end = r->at;
        if (r->at < r->end && (is_digit(*r->at) || is_of(*r->at, "+-./:")))
            return false;
    }
    return true;
}

// [+-]h:m[:s[.f]], or m:s.f; a field that is left out is 0.  OUT_OF_RANGE: more than 59 minutes.
static bool read_clock(const IntervalPart *part, Span *span, bool *out_of_range)
{
    Reader     r = { part->start, part->end };
    const bool is_negative = *r.at == '-';
    i64        fields[3] = { 0 }, fraction = 0;
    int        n = 0;
    if (is_of(*r.at, "+-"))
        r.at++;
    skip_blanks(&r);
    for (;; n++) {
        const char *start = r.at;
        for (; r.at < r.end && is_digit(*r.at); r.at++)
            if (r.at - start < 12)
                fields[n] = fields[n] * 10 + (*r.at - '0');
        if (r.at - start > 11)
            return false;
        if (n == 2 || !take(&r, ':'))
            break;
    }
    if (take(&r, '.')) {
        fraction = take_fraction(&r);
        if (n == 1)
            fields[2] = fields[1], fields[1] = fields[0], fields[0] = 0;
    }
    *out_of_range |= fields[1] > 59 || fields[2] > 60;
    const i128 micros = (i128)fields[0] * HOUR + fields[1] * MINUTE + fields[2] * SECOND + fraction;
    span->micros += is_negative ? -micros : micros;
    return r.at == r.end;
}

// A number of UNIT, or 1-2: years and months.
static bool read_number(const IntervalPart *part, const IntervalUnit *unit, Span *span, bool *out_of_range)
{
    Reader r = { part->start, part->end };
    Amount amount;
    int    months = 0;
    const char sign = *r.at;
    if (is_of(sign, "+-"))
        r.at++;
    skip_blanks(&r);
    if (!take_amount(&r, &amount))
        return false;
    amount.is_negative = sign == '-';
    if (take(&r, '-')) {
        const int n = take_digits(&r, &months);
        *out_of_range |= n > 2 || months > 11;
        span->months += (amount.is_negative ? -1 : 1) * (amount.whole * 12 + months);
    } else {
        add_amount(span, &amount, unit);
    }
    return r.at == r.end;
}

// What a part gives, one bit for each kind: each comes once.  A time of day is hours, minutes and seconds.
static u64 bits_of(const IntervalPart *part, const IntervalUnit *unit)
{
    enum { SECONDS = 61, MINUTES = 62, HOURS = 63 };
    const bool is_clock = part->kind == PART_CLOCK;
    const i64  micros = is_clock ? 0 : unit->micros;
    if (is_clock)
        return (u64)1 << HOURS | (u64)1 << MINUTES | (u64)1 << SECONDS;
    if (memchr(part->start + 1, '-', (size_t)(part->end - part->start - 1)))
        return 1;
    if (micros == HOUR || micros == MINUTE || micros == SECOND)
        return (u64)1 << (micros == HOUR ? HOURS : micros == MINUTE ? MINUTES : SECONDS);
    if (micros)
        return micros == 1 ? 2 : 4;
    if (unit->days)
        return unit->days == 1 ? 8 : 16;
    return unit->months == 1 ? 1 : unit->months == 12 ? 32 : unit->months == 120 ? 64 : unit->months == 1200 ? 128
                                                                                                            : 256;
}

// "1 year 2 mons -3 days 04:05:06.7", "1-2", "3 04:05", "90 minutes ago".
static bool take_parts(Reader *r, Span *span, bool *out_of_range)
{
    static const IntervalUnit second = { "second", 0, 0, SECOND }, day = { "day", 0, 1, 0 };
    IntervalPart        parts[PARTS_MOST];
    int                 n_parts;
    u64                 seen = 0;
    bool                is_ago = false;
    const IntervalUnit *unit = &second;
    if (!scan_parts(r, parts, &n_parts))
        return false;
    for (int i = n_parts - 1; i >= 0; i--) {
        const IntervalPart *part = &parts[i];
        if (part->kind == PART_WORD) {
            Reader word = { part->start, part->end };
            const bool is_before = take_word(&word, "ago") && word.at == word.end;
            word.at = part->start;
            is_ago |= is_before;
            unit = is_before ? NULL : take_unit(&word);
            if (!is_before && !unit)
                return false;
            continue;
        }
        if (!unit && part->kind == PART_NUMBER)
            return false;
        const u64 bits = bits_of(part, unit);
        if (seen & bits)
            return false;
        seen |= bits;
        if (!(part->kind == PART_CLOCK ? read_clock(part, span, out_of_range)
                                       : read_number(part, unit, span, out_of_range)))
            return false;
        if (part->kind == PART_CLOCK || unit->micros == HOUR)
            unit = &day;
    }
    if (is_ago)
        *span = (Span){ -span->months, -span->days, -span->micros };
    return seen != 0;
}

static weft_status interval_out_of_range(const char *bytes, size_t length, Error *err)
{
    char quoted[VALUE_QUOTE_BYTES];
    return fail(err, WEFT_INTERVAL_OVERFLOW, -1, "interval field value out of range: \"%s\"",
                value_quote(bytes, length, quoted));
}

weft_status parse_interval(Type type, const char *bytes, size_t length, Value *value, Error *err)
{
    Span span = { 0 };
    Reader r = trimmed(bytes, length);
    bool is_good, out_of_range = false;
    if (r.at < r.end && *r.at == 'P')
        r.at++, is_good = r.at < r.end && take_iso(&r, &span);
    else
        is_good = take_parts(&r, &span, &out_of_range);
    if (!is_good)
        return value_bad_text(type, bytes, length, err);
    const i128 years = span.months / 12;
    if (out_of_range || years != (i32)years || span.days != (i32)span.days || span.micros != (i64)span.micros)
        return interval_out_of_range(bytes, length, err);
    if (span.months != (i32)span.months)
        return fail(err, WEFT_DATETIME_OVERFLOW, -1, "interval out of range");
    value->interval.months = (i32)span.months;
    value->interval.days = (i32)span.days;
    value->interval.micros = (i64)span.micros;
    return WEFT_OK;
}

i128 interval_micros(const Value *interval)
{
    return ((i128)interval->interval.months * 30 + interval->interval.days) * DAY + interval->interval.micros;
}

#define STORED_LENGTH_MOST ((i128)1 << 62)

bool interval_to_number(const Value *interval, i128 *number)
{
    const i128 length = interval_micros(interval);
    if (length <= -STORED_LENGTH_MOST || length >= STORED_LENGTH_MOST)
        return false;
    *number = length * ((i128)1 << 64) + (i128)interval->interval.months * ((i128)1 << 32) + interval->interval.days;
    return true;
}

Value interval_from_number(i128 number)
{
    i64 length, low;
    value_words(number, &length, &low);
    const i32 days = (i32)low, months = (i32)((low - days) >> 32);
    Value     value = { .type = TYPE(INTERVAL) };
    value.interval.months = months, value.interval.days = days;
    value.interval.micros = (i64)(length - ((i128)months * 30 + days) * DAY);
    return value;
}

// ---- to text --------------------------------------------------------------------------------------------------------

static int format_fraction(i64 micros, char *buffer)
{
    int n = micros ? snprintf(buffer, 8, ".%06d", (int)micros) : 0;
    while (n > 0 && buffer[n - 1] == '0')
        n--;
    buffer[n] = '\0';
    return n;
}

static int format_clock(i64 micros, char *buffer)
{
    int n = snprintf(buffer, 32, "%02lld:%02d:%02d", (long long)(micros / HOUR), (int)(micros / MINUTE % 60),
                     (int)(micros / SECOND % 60));
    return n + format_fraction(micros % SECOND, buffer + n);
}

static i64 floor_days(i64 micros)
{
    return micros / DAY - (micros % DAY < 0);
}

static int format_day(i64 days, char *buffer, const char **era)
{
    int year, month, day;
    i64 clamped = days < INT32_MIN ? INT32_MIN : days > INT32_MAX ? INT32_MAX : days;
    date_to_civil((i32)clamped, &year, &month, &day);
    *era = year > 0 ? "" : " BC";
    return snprintf(buffer, 32, "%04d-%02d-%02d", year > 0 ? year : 1 - year, month, day);
}

static int format_offset(i32 offset, char *buffer)
{
    i32 size = offset < 0 ? -offset : offset;
    int n = snprintf(buffer, 16, "%c%02d", offset < 0 ? '-' : '+', size / 3600);
    if (size % 3600)
        n += snprintf(buffer + n, 8, ":%02d", size / 60 % 60);
    if (size % 60)
        n += snprintf(buffer + n, 8, ":%02d", size % 60);
    return n;
}

int format_moment(Type type, i64 number, char *buffer)
{
    const char *era = "";
    int n;
    if (type.kind == TYPE_TIME)
        return format_clock(number, buffer);
    if (type.kind == TYPE_DATE) {
        n = format_day(number, buffer, &era);
        return n + snprintf(buffer + n, 8, "%s", era);
    }
    u8 zone = type.kind == TYPE_TIMESTAMPTZ ? type.scale : 0;
    i64 local = zone_to_local(zone, number);
    n = format_day(floor_days(local), buffer, &era);
    buffer[n++] = ' ';
    n += format_clock(local - floor_days(local) * DAY, buffer + n);
    if (type.kind == TYPE_TIMESTAMPTZ)
        n += format_offset((i32)((local - number) / SECOND), buffer + n);
    return n + snprintf(buffer + n, 8, "%s", era);
}

// PostgreSQL's own style: a part is left out when zero, and says + when the part before it was negative.
int format_interval(const Value *value, char *buffer)
{
    const struct { i64 number; const char *unit; } parts[] = {
        { value->interval.months / 12, "year" }, { value->interval.months % 12, "mon" },
        { value->interval.days, "day" },
    };
    i64 micros = value->interval.micros;
    int n = 0;
    bool is_before = false;
    for (int i = 0; i < COUNT_OF(parts); i++) {
        i64 number = parts[i].number;
        if (number == 0)
            continue;
        n += snprintf(buffer + n, 32, "%s%s%lld %s%s", n > 0 ? " " : "", is_before && number > 0 ? "+" : "",
                      (long long)number, parts[i].unit, number == 1 ? "" : "s");
        is_before = number < 0;
    }
    if (micros == 0 && n > 0)
        return n;
    n += snprintf(buffer + n, 8, "%s%s", n > 0 ? " " : "", micros < 0 ? "-" : is_before ? "+" : "");
    u64 size = micros < 0 ? -(u64)micros : (u64)micros;     // of the smallest there is, too
    i64 hours = (i64)(size / (u64)HOUR);
    n += snprintf(buffer + n, 32, "%02lld", (long long)hours);
    char clock[40];
    format_clock((i64)(size % (u64)HOUR), clock);
    return n + snprintf(buffer + n, 32, "%s", clock + 2);
}
