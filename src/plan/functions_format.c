// functions_format.c - to_char, to_date and to_timestamp, for the patterns that people use.  What is not among them is
// refused by name.

#include "plan/functions.h"

#include "plan/expr_int.h"
#include "plan/text.h"
#include "plan/time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define EVAL(name)                                                                                  \
    static weft_status name(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)

static bool give_date(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(DATE);
    return true;
}

static bool give_timestamptz(Expr *const *args, Type *types, Type *result)
{
    *result = TYPE(TIMESTAMPTZ);
    return true;
}

static weft_status keep_text(Arena *arena, const Expr *call, Text *text, Value *value, Error *err)
{
    char             *bytes;
    const weft_status status = text_make(arena, call, text->length, &bytes, value, err);
    if (!status && text->length) memcpy(bytes, text->bytes, text->length);
    text_free(text);
    return status;
}

// ---- patterns of dates and times ------------------------------------------------------------------------------------

typedef enum FormatField {
    F_YYYY, F_YYY, F_YY, F_Y, F_IYYY, F_IY, F_MM, F_DDD, F_IDDD, F_DD, F_D, F_ID, F_HH24, F_HH12, F_MI, F_SSSS, F_SS,
    F_MS, F_US, F_AM, F_A_M, F_MONTH, F_MON, F_DAY, F_DY, F_WW, F_IW, F_W, F_Q, F_CC, F_J, F_NONE, F_REFUSED
} FormatField;

typedef struct FormatPattern { const char *text; FormatField field; } FormatPattern;

// Longer ones first.  Names of months and days, and AM, are in the case of their letters.
static const FormatPattern patterns[] = {
    { "SSSSS", F_SSSS }, { "SSSS", F_SSSS }, { "IYYY", F_IYYY }, { "YYYY", F_YYYY }, { "Y,YYY", F_REFUSED },
    { "YYY", F_YYY },    { "HH24", F_HH24 }, { "HH12", F_HH12 }, { "Month", F_MONTH }, { "IDDD", F_IDDD },
    { "DDD", F_DDD },    { "A.M.", F_A_M },  { "P.M.", F_A_M },  { "FF3", F_MS },    { "FF6", F_US },
    { "FF1", F_REFUSED }, { "FF2", F_REFUSED }, { "FF4", F_REFUSED }, { "FF5", F_REFUSED }, { "TZH", F_REFUSED },
    { "TZM", F_REFUSED }, { "Mon", F_MON },  { "Day", F_DAY },   { "YY", F_YY },     { "IY", F_IY },
    { "MM", F_MM },      { "DD", F_DD },     { "ID", F_ID },     { "HH", F_HH12 },   { "MI", F_MI },
    { "SS", F_SS },      { "MS", F_MS },     { "US", F_US },     { "AM", F_AM },     { "PM", F_AM },
    { "Dy", F_DY },      { "WW", F_WW },     { "IW", F_IW },     { "CC", F_CC },     { "TZ", F_REFUSED },
    { "FX", F_REFUSED }, { "OF", F_REFUSED }, { "RM", F_REFUSED }, { "BC", F_REFUSED }, { "AD", F_REFUSED },
    { "Y", F_Y },        { "D", F_D },       { "W", F_W },       { "Q", F_Q },       { "J", F_J },
    { "I", F_REFUSED },
};

static const char *const month_names[] = { "January", "February", "March",     "April",   "May",      "June",
                                           "July",    "August",   "September", "October", "November", "December" };
static const char *const day_names[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool begins(Chars in, const char *with)
{
    for (; *with; with++, in.at++)
        if (in.at == in.end || upper(*in.at) != upper(*with)) return false;
    return true;
}

static const FormatPattern *find_pattern(Chars format)
{
    for (int i = 0; i < COUNT_OF(patterns); i++)
        if (begins(format, patterns[i].text)) return &patterns[i];
    return NULL;
}

// FM: without zeros and blanks that fill up; TM: names without these, in the language of messages, which is English.
typedef enum FormatPrefix { PREFIX_NONE, PREFIX_FM, PREFIX_TM } FormatPrefix;

static FormatPrefix take_prefix(Chars *format)
{
    const FormatPrefix prefix = begins(*format, "FM") ? PREFIX_FM : begins(*format, "TM") ? PREFIX_TM : PREFIX_NONE;
    if (prefix) format->at += 2;
    return prefix;
}

static weft_status refuse_pattern(const Expr *call, const FormatPattern *pattern, Error *err)
{
    return fail(err, WEFT_UNSUPPORTED, call->at, "the pattern \"%s\" is not supported yet", pattern->text);
}

// ---- to_char of a timestamp -----------------------------------------------------------------------------------------

// is_span: of an interval, whose parts may be negative and as long as they like; days are all of it then, by months of
// 30 days.
typedef struct FormatMoment {
    Calendar c;
    i64      days, hour;
    int      minute, second;
    i64      micros;
    bool     is_span;
} FormatMoment;

static void set_clock(FormatMoment *m)
{
    m->hour = m->c.micros / HOUR_MICROS, m->minute = (int)(m->c.micros / MINUTE_MICROS % 60);
    m->second = (int)(m->c.micros / SECOND_MICROS % 60), m->micros = m->c.micros % SECOND_MICROS;
}

static FormatMoment moment_of(i64 micros)
{
    FormatMoment m = { .c = calendar_of(micros), .days = days_of_micros(micros) };
    set_clock(&m);
    return m;
}

static FormatMoment moment_of_span(i32 months, i32 days, i64 micros)
{
    FormatMoment m = { .c = { months / 12, months % 12, days, micros }, .days = (i64)months * 30 + days,
                       .is_span = true };
    set_clock(&m);
    return m;
}

static int day_of_year(const FormatMoment *m) { return (int)(m->days - date_from_civil(m->c.year, 1, 1)) + 1; }
static int weekday(const FormatMoment *m) { return (int)(((m->days + 4) % 7 + 7) % 7); }

static void iso_week(const FormatMoment *m, int *year, int *week)
{
    const i64 thursday = m->days - (weekday(m) + 6) % 7 + 3;
    int       month, day;
    date_to_civil((i32)thursday, year, &month, &day);
    *week = (int)(thursday - date_from_civil(*year, 1, 1)) / 7 + 1;
}

static i64 number_of(const FormatMoment *m, FormatField field, int *width)
{
    int       year, week;
    *width = 2;
    iso_week(m, &year, &week);
    switch (field) {
        case F_YYYY: *width = 4; return m->c.year;
        case F_YYY:  *width = 3; return m->c.year % 1000;
        case F_YY:   return m->c.year % 100;
        case F_Y:    *width = 1; return m->c.year % 10;
        case F_IYYY: *width = 4; return year;
        case F_IY:   return year % 100;
        case F_MM:   return m->c.month;
        case F_DDD:  *width = 3; return day_of_year(m);
        case F_IDDD: *width = 3; return 7 * (week - 1) + (weekday(m) + 6) % 7 + 1;
        case F_DD:   return m->c.day;
        case F_D:    *width = 1; return weekday(m) + 1;
        case F_ID:   *width = 1; return weekday(m) ? weekday(m) : 7;
        case F_HH24: return m->hour;
        case F_HH12: return m->hour % 12 ? m->hour % 12 : 12;
        case F_MI:   return m->minute;
        case F_SSSS: *width = 1; return m->c.micros / SECOND_MICROS;
        case F_SS:   return m->second;
        case F_MS:   *width = 3; return m->micros / 1000;
        case F_US:   *width = 6; return m->micros;
        case F_WW:   return (day_of_year(m) - 1) / 7 + 1;
        case F_IW:   return week;
        case F_W:    *width = 1; return (m->c.day - 1) / 7 + 1;
        case F_Q:    *width = 1; return (m->c.month - 1) / 3 + 1;
        case F_CC:   return (m->c.year + 99) / 100;
        case F_J:    *width = 1; return m->days + 2440588;
        default:     return -1;
    }
}

// A minus makes these a digit longer; false: an interval has no such field.
static bool number_of_span(const FormatMoment *m, FormatField field, int *width, i64 *number)
{
    *width = 2;
    switch (field) {
        case F_YYYY: *width = 4, *number = m->c.year; break;
        case F_YYY:  *width = 3, *number = m->c.year % 1000; break;
        case F_YY:   *number = m->c.year % 100; break;
        case F_CC:   *number = m->c.year / 100; break;
        case F_MM:   *number = m->c.month; break;
        case F_HH24: *number = m->hour; break;
        case F_HH12: *number = m->hour % 12 ? m->hour % 12 : 12; break;
        case F_MI:   *number = m->minute; break;
        case F_SS:   *number = m->second; break;
        case F_Y:    *width = 1, *number = m->c.year % 10; return true;
        case F_DDD:  *width = 3, *number = m->days; return true;
        case F_DD:   *number = m->c.day; return true;
        case F_WW:   *number = (m->days - 1) / 7 + 1; return true;
        case F_W:    *width = 1, *number = (m->c.day - 1) / 7 + 1; return true;
        case F_Q:    *width = 1, *number = (m->c.month - 1) / 3 + 1; return true;
        case F_MS:   *width = 3, *number = m->micros / 1000; return true;
        case F_US:   *width = 6, *number = m->micros; return true;
        case F_SSSS: *width = 1, *number = m->c.micros / SECOND_MICROS; return true;
        default:     return false;
    }
    *width += *number < 0;
    return true;
}

// In the case of the pattern's first two letters; padded to nine, unless it is short.
static void add_name(Text *out, const char *name, const char *pattern, size_t length, bool is_padded)
{
    const bool all_upper = upper(pattern[0]) == pattern[0] && upper(pattern[1]) == pattern[1];
    const bool all_lower = lower(pattern[0]) == pattern[0];
    size_t     n = 0;
    for (; n < length && name[n]; n++) {
        const char c = all_upper ? upper(name[n]) : all_lower ? lower(name[n]) : name[n];
        text_add_bytes(out, &c, 1);
    }
    for (; is_padded && n < 9; n++) text_add_bytes(out, " ", 1);
}

static bool add_words(Text *out, const FormatMoment *m, FormatField field, const char *pattern, bool fills)
{
    const bool is_small = lower(pattern[0]) == pattern[0], is_morning = m->hour % 24 < 12;
    switch (field) {
        case F_MONTH: add_name(out, month_names[m->c.month - 1], pattern, 9, fills); return true;
        case F_MON:   add_name(out, month_names[m->c.month - 1], pattern, 3, false); return true;
        case F_DAY:   add_name(out, day_names[weekday(m)], pattern, 9, fills); return true;
        case F_DY:    add_name(out, day_names[weekday(m)], pattern, 3, false); return true;
        case F_AM:
            text_add(out, "%s", is_morning ? (is_small ? "am" : "AM") : is_small ? "pm" : "PM");
            return true;
        case F_A_M:
            text_add(out, "%s", is_morning ? (is_small ? "a.m." : "A.M.") : is_small ? "p.m." : "P.M.");
            return true;
        default: return false;
    }
}

static void add_ordinal(Text *out, i64 number, bool is_upper)
{
    const i64   last = llabs(number % 10);
    const bool  is_teen = llabs(number / 10 % 10) == 1;
    const char *ending = is_teen ? "th" : last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
    for (int i = 0; i < 2; i++) {
        const char c = is_upper ? upper(ending[i]) : ending[i];
        text_add_bytes(out, &c, 1);
    }
}

// A quoted text or a character that is no pattern, as it is.
static void add_literal(Text *out, Chars *format)
{
    if (*format->at != '"') {
        const char *start = format->at;
        *format = chars_skip(*format, 1);
        text_add_bytes(out, start, (size_t)(format->at - start));
        return;
    }
    for (format->at++; format->at < format->end && *format->at != '"'; format->at++) {
        if (*format->at == '\\' && format->at + 1 < format->end) format->at++;
        text_add_bytes(out, format->at, 1);
    }
    if (format->at < format->end) format->at++;
}

static weft_status not_of_span(const Expr *call, const FormatPattern *pattern, Error *err)
{
    static const FormatField tied[] = { F_MONTH, F_MON, F_DAY, F_DY, F_D, F_ID };
    bool is_tied = false;
    for (int i = 0; i < COUNT_OF(tied); i++) is_tied |= tied[i] == pattern->field;
    if (!is_tied) return refuse_pattern(call, pattern, err);
    fail(err, WEFT_BAD_DATETIME, call->at, "invalid format specification for an interval value");
    error_hint(err, "Intervals are not tied to specific calendar dates, as \"%s\" is.", pattern->text);
    return WEFT_BAD_DATETIME;
}

// Nothing for the quarter of an interval without months.
static weft_status add_pattern(const Expr *call, const FormatMoment *m, const FormatPattern *pattern,
                               FormatPrefix prefix, Chars *format, Text *out, Error *err)
{
    int         width;
    i64         number;
    const char *start = format->at;
    if (pattern->field == F_REFUSED) return refuse_pattern(call, pattern, err);
    format->at += strlen(pattern->text);
    if (m->is_span && pattern->field == F_Q && !m->c.month) return WEFT_OK;
    const bool is_half = pattern->field == F_AM || pattern->field == F_A_M;
    if (m->is_span && !is_half) {
        if (!number_of_span(m, pattern->field, &width, &number)) return not_of_span(call, pattern, err);
    } else {
        if (add_words(out, m, pattern->field, start, !prefix)) return WEFT_OK;
        number = number_of(m, pattern->field, &width);
    }
    text_add(out, "%0*lld", prefix == PREFIX_FM ? 1 : width, (long long)number);
    const bool has_ordinal = begins(*format, "TH");
    if (has_ordinal) add_ordinal(out, number, *format->at == 'T');
    if (has_ordinal || (begins(*format, "SP") && *format->at == 'S')) format->at += 2;      // SP does nothing
    return WEFT_OK;
}

static weft_status format_moment(const Expr *call, const FormatMoment *m, Chars format, Text *out, Error *err)
{
    while (format.at < format.end) {
        const FormatPrefix   prefix = take_prefix(&format);
        const FormatPattern *pattern = find_pattern(format);
        if (!pattern) {
            if (format.at < format.end) add_literal(out, &format);
            continue;
        }
        TRY(add_pattern(call, m, pattern, prefix, &format, out, err));
    }
    return WEFT_OK;
}

static weft_status char_of(Arena *arena, const Expr *call, const FormatMoment *m, const Value *args, Value *value,
                           Error *err)
{
    Text              out = { 0 };
    const weft_status status = format_moment(call, m, chars_of(&args[1]), &out, err);
    if (!status) return keep_text(arena, call, &out, value, err);
    text_free(&out);
    return status;
}

EVAL(eval_char_of_stamp)
{
    const FormatMoment m = moment_of((i64)args[0].i);
    return char_of(arena, call, &m, args, value, err);
}

EVAL(eval_char_of_interval)
{
    const FormatMoment m =
        moment_of_span(args[0].interval.months, args[0].interval.days, args[0].interval.micros);
    return char_of(arena, call, &m, args, value, err);
}

// ---- to_char of a number --------------------------------------------------------------------------------------------

typedef struct NumberFormat {
    bool fills;                        // not FM
    int  n_whole, n_fraction;          // digits
    int  first_zero;                   // place of the first 0 before the point; n_whole: there is none
    int  last_zero;                    // digits behind the point that are always there
    bool has_point, has_sign, has_minus, has_brackets;      // S; MI or SG; PR
    bool has_sign_last;                // S behind the digits
} NumberFormat;

static bool read_number_format(Chars format, NumberFormat *f)
{
    bool is_cut = false;                                    // a text or sign stands behind digits: none may follow
    *f = (NumberFormat){ .fills = true, .first_zero = 1 << 20 };
    for (const char *p = format.at; p < format.end; p++) {
        const char c = upper(*p), next = p + 1 < format.end ? upper(p[1]) : 0;
        if (c == '9' || c == '0') {
            if (is_cut) return false;
            if (c == '0' && !f->has_point) f->first_zero = MIN_OF(f->first_zero, f->n_whole);
            if (f->has_point) f->n_fraction++;
            else f->n_whole++;
            if (c == '0' && f->has_point) f->last_zero = f->n_fraction;
        } else if (c == '.' || c == 'D') {
            f->has_point = true;
        } else if (c == 'F' && next == 'M') {
            f->fills = false, p++;
        } else if (c == 'S' && next == 'G') {
            f->has_minus = true, p++;
        } else if (c == '"') {
            is_cut |= f->n_whole + f->n_fraction > 0;
            for (p++; p < format.end && *p != '"'; p++) p += *p == '\\' && p + 1 < format.end;
        } else if (c == 'S') {
            if (f->n_whole + f->n_fraction) f->has_sign_last = is_cut = true;
            else f->has_sign = true;
        } else if (c == 'M' && next == 'I') {
            f->has_minus = true, p++;
        } else if (c == 'P' && next == 'R') {
            f->has_brackets = true, p++;
        } else if (strchr("EVRTBCL", c) || (c >= 'A' && c <= 'Z' && c != 'G')) {
            return false;
        }
    }
    return true;
}

// The number's digits, rounded to the format's, without a sign and a point; false: it has too many before the point.
static bool digits_of(const Value *number, const NumberFormat *f, char whole[64], char fraction[64])
{
    char text[512];
    if (type_is_float(number->type)) {
        if (!isfinite(number->f)) return false;
        snprintf(text, sizeof text, "%.*f", MIN_OF(f->n_fraction, 30), fabs(number->f));
    } else {
        Value scaled = { .type = { TYPE_NUMERIC, NUMERIC_DIGITS, (u8)f->n_fraction } };
        const i128 size = number->i < 0 ? -number->i : number->i;
        if (!rescale(size, number->type.scale, f->n_fraction, &scaled.i)) return false;
        value_format(&scaled, text, sizeof text);
    }
    const char *point = strchr(text, '.');
    const int   n_whole = point ? (int)(point - text) : (int)strlen(text);
    if (n_whole > 60) return false;
    snprintf(whole, 64, "%.*s", n_whole, text);
    snprintf(fraction, 64, "%.60s", point ? point + 1 : "");
    return n_whole <= f->n_whole;
}

typedef struct NumberText {
    Text   body;
    size_t prefix;                     // bytes before the first digit's place
    bool   has_begun;
    int    at_whole, at_fraction;
} NumberText;

static void add_char(NumberText *t, char c) { text_add_bytes(&t->body, &c, 1); }

// N_SHOWN digits will follow the point; where FM leaves none, a 0 stands before it.
static void add_whole_digit(NumberText *t, const NumberFormat *f, const char *whole, int n_shown, bool fits)
{
    if (!t->at_whole) t->prefix = t->body.length;
    const int  n = (int)strlen(whole), place = t->at_whole++ - (f->n_whole - n);
    const bool is_zero = strcmp(whole, "0") == 0;
    const bool is_last = t->at_whole == f->n_whole && (!f->n_fraction || n_shown == 0);
    if (!fits) {
        add_char(t, '#');
        t->has_begun = true;
        return;
    }
    if ((place >= 0 && !is_zero) || t->at_whole - 1 >= f->first_zero || (is_zero && is_last)) t->has_begun = true;
    if (t->has_begun) add_char(t, place >= 0 ? whole[place] : '0');
    else if (f->fills) add_char(t, ' ');
}

static int shown_fraction(const NumberFormat *f, const char *fraction)
{
    int n = f->n_fraction;
    while (!f->fills && n > f->last_zero && fraction[n - 1] == '0') n--;
    return n;
}

// MI and SG, where they stand.
static void add_sign(NumberText *t, const NumberFormat *f, char kind, bool is_negative)
{
    if (is_negative) add_char(t, '-');
    else if (kind == 'S') add_char(t, '+');
    else if (f->fills) add_char(t, ' ');
}

static void format_body(NumberText *t, const NumberFormat *f, Chars format, const char *whole, const char *fraction,
                        bool fits, bool is_negative)
{
    const int n_shown = fits ? shown_fraction(f, fraction) : f->n_fraction;
    bool      has_point = false;
    for (const char *p = format.at; p < format.end; p++) {
        const char c = upper(*p), next = p + 1 < format.end ? upper(p[1]) : 0;
        if ((c == '9' || c == '0') && !has_point) add_whole_digit(t, f, whole, n_shown, fits);
        else if (c == '9' || c == '0') {
            if (t->at_fraction++ < n_shown) add_char(t, fits ? fraction[t->at_fraction - 1] : '#');
        } else if (c == '.' || c == 'D') {
            has_point = true, t->has_begun = true;
            if (f->n_fraction || !fits) add_char(t, '.');
        } else if (c == ',' || c == 'G') {
            if (t->has_begun) add_char(t, ',');
            else if (f->fills) add_char(t, ' ');
        } else if ((c == 'M' && next == 'I') || (c == 'S' && next == 'G')) add_sign(t, f, c, is_negative), p++;
        else if (c == 'F' || c == 'P') p++;
        else if (c == '"') {
            for (p++; p < format.end && *p != '"'; p++) {
                p += *p == '\\' && p + 1 < format.end;
                add_char(t, *p);
            }
        } else if (c != 'S') add_char(t, *p);
    }
}

static const char *sign_before(const NumberFormat *f, bool is_negative)
{
    if (f->has_brackets) return is_negative ? "<" : f->fills ? " " : "";
    if (f->has_sign) return is_negative ? "-" : "+";
    if (f->has_minus || f->has_sign_last) return "";
    return is_negative ? "-" : f->fills ? " " : "";
}

static const char *sign_behind(const NumberFormat *f, bool is_negative)
{
    if (f->has_brackets) return is_negative ? ">" : f->fills ? " " : "";
    if (f->has_sign_last) return is_negative ? "-" : "+";
    return "";
}

// The sign stands right before the first digit; blanks go before it.
static void put_sign(Text *out, const NumberFormat *f, const NumberText *t, bool is_negative)
{
    const char *bytes = t->body.bytes ? t->body.bytes : "";
    size_t      begin = t->prefix;
    while (begin < t->body.length && bytes[begin] == ' ') begin++;
    text_add_bytes(out, bytes, begin);
    text_add(out, "%s", sign_before(f, is_negative));
    text_add_bytes(out, bytes + begin, t->body.length - begin);
    text_add(out, "%s", sign_behind(f, is_negative));
}

EVAL(eval_char_of_number)
{
    const Chars  format = chars_of(&args[1]);
    NumberFormat f;
    NumberText   t = { 0 };
    Text         out = { 0 };
    char         whole[64] = "0", fraction[64] = "";
    if (!read_number_format(format, &f) || f.n_whole > 60 || f.n_fraction > 30)
        return fail(err, WEFT_UNSUPPORTED, call->at, "this pattern for numbers is not supported yet");
    const bool is_negative = type_is_float(args[0].type) ? args[0].f < 0 : args[0].i < 0;
    const bool fits = digits_of(&args[0], &f, whole, fraction);
    const bool is_zero = strspn(whole, "0") == strlen(whole) && strspn(fraction, "0") == strlen(fraction);
    const bool has_minus = is_negative && !(is_zero && (fits || !f.n_whole));
    format_body(&t, &f, format, whole, fraction, fits, has_minus);
    put_sign(&out, &f, &t, has_minus);
    text_free(&t.body);
    return keep_text(arena, call, &out, value, err);
}

// ---- from text ------------------------------------------------------------------------------------------------------

typedef struct Parsed {
    int  year, month, day, day_of_year, hour, minute, second;
    int  century, week, month_week, iso_day;       // 0 where there is none
    bool has_short_year, is_iso, is_gregorian;     // by which calendar fields count: the two do not mix
    i64  micros, julian;               // julian: 0 where there is none
    bool is_pm, has_half;              // has_half: AM or PM was there
} Parsed;

static bool take_number(Chars *text, int n_most, i64 *number)
{
    int n = 0;
    for (*number = 0; n < n_most && text->at < text->end && *text->at >= '0' && *text->at <= '9'; n++)
        *number = *number * 10 + (*text->at++ - '0');
    return n > 0;
}

static bool take_name(Chars *text, const char *const *names, int n_names, size_t length, int *number)
{
    for (int i = 0; i < n_names; i++) {
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)MIN_OF(length, 15), names[i]);
        if (!begins(*text, name)) continue;
        text->at += strlen(name), *number = i + 1;
        return true;
    }
    return false;
}

static int whole_year(int number, int n_digits)
{
    if (n_digits > 3) return number;
    return number + (number < 70 ? 2000 : number < 100 ? 1900 : number < 520 ? 2000 : 1000);
}

// A number of at most so many digits where others may follow (is_tight), else with all of its digits.
static bool take_field(Chars *text, FormatField field, bool is_tight, Parsed *p)
{
    i64       number;
    int       weekday_read;
    const int width = !is_tight && field != F_MS && field != F_US ? 9
                      : field == F_YYYY || field == F_IYYY ? 4
                      : field == F_DDD || field == F_IDDD || field == F_MS ? 3
                      : field == F_US ? 6 : field == F_J ? 9 : field == F_SSSS ? 5
                      : field == F_Y || field == F_Q || field == F_D || field == F_ID || field == F_W ? 1
                      : field == F_YYY ? 3 : 2;
    switch (field) {
        case F_MONTH: return take_name(text, month_names, 12, 15, &p->month);
        case F_MON:   return take_name(text, month_names, 12, 3, &p->month);
        case F_DAY: case F_DY:
            if (!take_name(text, day_names, 7, field == F_DAY ? 15 : 3, &weekday_read)) return false;
            p->iso_day = weekday_read > 1 ? weekday_read - 1 : 7;
            return true;
        case F_AM: case F_A_M:
            p->is_pm = begins(*text, "p"), p->has_half = true;
            if (!p->is_pm && !begins(*text, "a")) return false;
            text->at += MIN_OF(field == F_AM ? 2 : 4, text->end - text->at);
            return true;
        default: break;
    }
    const char *start = text->at;
    if (!take_number(text, width, &number)) return false;
    const int n = (int)(text->at - start);
    switch (field) {
        case F_YYYY: case F_IYYY: p->year = (int)number; break;
        case F_CC:   p->century = (int)number; break;
        case F_WW: case F_IW: p->week = (int)number; break;
        case F_W:    p->month_week = (int)number; break;
        case F_ID:   p->iso_day = (int)number; break;
        case F_YYY: case F_YY: case F_Y: p->year = whole_year((int)number, n); break;
        case F_MM:   p->month = (int)number; break;
        case F_DDD: case F_IDDD: p->day_of_year = (int)number; break;
        case F_DD:   p->day = (int)number; break;
        case F_HH24: case F_HH12: p->hour = (int)number; break;
        case F_MI:   p->minute = (int)number; break;
        case F_SS:   p->second = (int)number; break;
        case F_SSSS:
            p->hour = (int)number / 3600, p->minute = (int)number / 60 % 60, p->second = (int)number % 60;
            break;
        case F_MS: case F_US: {
            for (int i = n; i < 6; i++) number *= 10;
            p->micros = number;
            break;
        }
        case F_J: p->julian = number; break;
        default: break;
    }
    return true;
}

static bool is_separator(char c)
{
    return !((c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || (unsigned char)c >= 0x80);
}

static weft_status bad_value(const Expr *call, const Value *text, Error *err)
{
    return fail(err, WEFT_BAD_DATETIME, call->at, "invalid value \"%.*s\" for this pattern",
                (int)MIN_OF(text->text.length, 60), text->text.bytes ? text->text.bytes : "");
}

static bool is_number_field(FormatField field)
{
    return field != F_MONTH && field != F_MON && field != F_DAY && field != F_DY && field != F_AM && field != F_A_M;
}

static void note_calendar(FormatField field, Parsed *p)
{
    static const FormatField gregorian[] = { F_YYYY, F_YYY, F_YY, F_Y, F_MM, F_MON, F_MONTH, F_DDD, F_DD, F_D, F_WW,
                                             F_W };
    p->is_iso |= field == F_IYYY || field == F_IY || field == F_IW || field == F_ID || field == F_IDDD;
    for (int i = 0; i < COUNT_OF(gregorian); i++) p->is_gregorian |= field == gregorian[i];
    p->has_short_year |= field == F_YY || field == F_Y;
}

static weft_status parse_moment(const Expr *call, const Value *args, Parsed *p, Error *err)
{
    Chars text = chars_of(&args[0]), format = chars_of(&args[1]);
    *p = (Parsed){ .year = 0, .month = 1, .day = 1 };
    while (format.at < format.end) {
        (void)take_prefix(&format);
        const FormatPattern *pattern = find_pattern(format);
        if (!pattern) {
            Text literal = { 0 };
            const char c = format.at < format.end ? *format.at : ' ';
            if (format.at < format.end) add_literal(&literal, &format);
            const i64 n_quoted = c == '"' ? (i64)literal.length : 0;
            text_free(&literal);
            if (c == '"') text = chars_skip(text, n_quoted);
            else if (text.at < text.end && (is_separator(*text.at) || !is_separator(c))) text = chars_skip(text, 1);
            continue;
        }
        if (pattern->field == F_REFUSED || pattern->field == F_IY) return refuse_pattern(call, pattern, err);
        note_calendar(pattern->field, p);
        format.at += strlen(pattern->text);
        while (text.at < text.end && *text.at == ' ') text.at++;
        const FormatPattern *next = find_pattern(format);
        if (text.at == text.end) break;
        const bool is_tight = next ? is_number_field(next->field) : format.at < format.end && *format.at >= '0' &&
                                                                    *format.at <= '9';
        if (!take_field(&text, pattern->field, is_tight, p)) return bad_value(call, &args[0], err);
    }
    if (p->has_half) {
        if (p->hour < 1 || p->hour > 12) return bad_value(call, &args[0], err);
        p->hour = p->hour % 12 + (p->is_pm ? 12 : 0);
    }
    return WEFT_OK;
}

static weft_status out_of_range(const Expr *call, const Value *text, Error *err)
{
    return fail(err, WEFT_DATETIME_OVERFLOW, call->at, "date/time field value out of range: \"%.*s\"",
                (int)MIN_OF(text->text.length, 60), text->text.bytes);
}

// The Monday of the first week, which has the year's first Thursday.
static i64 first_monday(int iso_year)
{
    const i64 fourth = date_from_civil(iso_year, 1, 4);
    return fourth - ((fourth + 3) % 7 + 7) % 7;
}

// By the year, and a week or a day in it, of either calendar.
static weft_status days_of(const Expr *call, const Value *args, Parsed *p, i64 *days, Error *err)
{
    if (p->century) p->year = !p->year ? 100 * p->century - 99
                              : !p->has_short_year ? p->year
                              : p->year % 100 ? (p->century - 1) * 100 + p->year % 100 : p->century * 100;
    if (p->week > 53 || p->month_week > 5 || p->iso_day > 7 || p->day_of_year > 366 + 5 || p->year > 9999)
        return out_of_range(call, &args[0], err);
    if (p->is_iso && (p->week || p->day_of_year)) {
        if (p->year < 1) return out_of_range(call, &args[0], err);
        *days = first_monday(p->year);
        if (p->day_of_year) *days += p->day_of_year - 1;
        else *days += 7 * (p->week - 1) + (p->iso_day ? p->iso_day - 1 : 0);
        return WEFT_OK;
    }
    if (p->week) p->day_of_year = 7 * (p->week - 1) + 1;
    if (p->month_week) p->day = 7 * (p->month_week - 1) + 1;
    const bool is_leap = date_is_valid(p->year, 2, 29);
    if (p->day_of_year) p->month = 1, p->day = 1;
    if (p->day_of_year > 365 + is_leap && !p->week) return out_of_range(call, &args[0], err);
    if (!date_is_valid(p->year, p->month, p->day)) return out_of_range(call, &args[0], err);
    *days = date_from_civil(p->year, p->month, p->day) + (p->day_of_year ? p->day_of_year - 1 : 0);
    return WEFT_OK;
}

static weft_status moment_micros(const Expr *call, const Value *args, i64 *micros, Error *err)
{
    Parsed p;
    TRY(parse_moment(call, args, &p, err));
    if (p.is_iso && p.is_gregorian) {
        fail(err, WEFT_BAD_DATETIME, call->at, "invalid combination of date conventions");
        error_hint(err, "Do not mix Gregorian and ISO week date conventions in a formatting template.");
        return WEFT_BAD_DATETIME;
    }
    if (p.hour > 23 || p.minute > 59 || p.second > 59) return out_of_range(call, &args[0], err);
    i64 days = p.julian - 2440588;
    if (!p.julian) TRY(days_of(call, args, &p, &days, err));
    *micros = days * DAY_MICROS + p.hour * HOUR_MICROS + p.minute * MINUTE_MICROS + p.second * SECOND_MICROS + p.micros;
    return WEFT_OK;
}

EVAL(eval_to_date)
{
    i64 micros;
    TRY(moment_micros(call, args, &micros, err));
    value->i = days_of_micros(micros);
    return value_fits(value->i, TYPE(DATE)) ? WEFT_OK : range_error(TYPE(DATE), call->at, err);
}

// In UTC; the binder moves it to the session's zone.
EVAL(eval_to_timestamp)
{
    i64 micros;
    TRY(moment_micros(call, args, &micros, err));
    value->i = micros;
    return value_fits(value->i, call->type) ? WEFT_OK : range_error(call->type, call->at, err);
}

static const Function functions[] = {
    { .names = { "to_char" }, .usage = "to_char(number, pattern)", .gives = "text",
      .about = "by a pattern of 9, 0, point, comma, S, SG, MI, PR, FM", .n_args = 2, .args = { ARG_EXACT, ARG_TEXT },
      .types = function_gives_text, .eval_in = eval_char_of_number, .can_fail = true },
    { .names = { "to_char" }, .n_args = 2, .args = { ARG_NUMBER, ARG_TEXT }, .types = function_gives_text,
      .eval_in = eval_char_of_number, .can_fail = true },
    { .names = { "to_char" }, .usage = "to_char(timestamp, pattern)", .gives = "text",
      .about = "by a pattern such as YYYY-MM-DD HH24:MI:SS", .n_args = 2, .args = { ARG_TIMESTAMP, ARG_TEXT },
      .types = function_gives_text, .eval_in = eval_char_of_stamp, .can_fail = true },
    { .names = { "to_char" }, .usage = "to_char(interval, pattern)", .gives = "text",
      .about = "also of a time, by a pattern such as HH24:MI:SS; hours beyond 24 stay hours", .n_args = 2,
      .args = { ARG_INTERVAL, ARG_TEXT }, .types = function_gives_text, .eval_in = eval_char_of_interval,
      .can_fail = true },
    { .names = { "to_date" }, .usage = "to_date(text, pattern)", .gives = "date", .about = "what the text says",
      .n_args = 2, .args = { ARG_TEXT, ARG_TEXT }, .types = give_date, .eval_in = eval_to_date, .can_fail = true },
    { .names = { "to_timestamp" }, .usage = "to_timestamp(text, pattern)", .gives = "timestamptz",
      .about = "what the text says, by the clock of the session's zone", .n_args = 2, .args = { ARG_TEXT, ARG_TEXT },
      .types = give_timestamptz, .eval_in = eval_to_timestamp, .can_fail = true },
};

extern const FunctionFamily functions_format;
const FunctionFamily functions_format = { "Formats", functions, COUNT_OF(functions) };
