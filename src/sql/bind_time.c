// bind_time.c - forms of dates and times: extract, date_trunc, date_bin, AT TIME ZONE, now and its kin, make_interval.
//
//     extract(month from ts)          extract(month from ts::date)
//     extract(hour from ts)           extract(hour from ts::time)
//     date_trunc('month', ts)         trunc_month(ts::date)::timestamp
//     date_trunc('hour', ts)          floor_to(ts, 3600000000)
//     current_date                    a constant: a statement has one time
//
// A timestamp with time zone goes by the clock of the session's zone.

#include "plan/functions.h"
#include "plan/time.h"
#include "sql/sql_int.h"

#include <time.h>

static bool is_kind(const Expr *expr, TypeKind kind) { return expr->type.kind == kind; }

static Expr *term_bigint(Binder *binder, i64 value, int at)
{
    return expr_const(binder->arena, (Value){ .type = TYPE(BIGINT), .i = value }, at);
}

static weft_status cast_to(Binder *binder, Expr *arg, Type type, int at, Expr **out)
{
    return expr_cast(binder->arena, arg, type, at, out, binder->err);
}

static weft_status hidden(Binder *binder, const char *name, Expr **args, int n_args, int at, Expr **out)
{
    return time_call(binder->arena, name, args, n_args, at, out, binder->err);
}

Type bind_zoned(Binder *binder)
{
    if (binder->plan) binder->plan->is_momentary = true;
    return (Type){ .kind = TYPE_TIMESTAMPTZ, .scale = binder->names->zone };
}

Expr *bind_shown_in(Binder *binder, const Expr *stamp, Type type)
{
    Expr *shown = arena_make(binder->arena, Expr);
    *shown = *stamp, shown->type = type;
    if (shown->kind == EXPR_CONST) shown->value.type = type;
    return shown;
}

static bool is_null(const Expr *arg) { return arg->kind == EXPR_CONST && arg->value.is_null; }

// Of a function that is NULL where its field or zone is: a parameter is NULL while a statement is prepared.
static weft_status null_of(Binder *binder, Type type, int at, Expr **out)
{
    return cast_to(binder, term_null(binder, at), type, at, out);
}

// A literal that names a field or a zone, in small letters; 22023 when it is none.
static weft_status literal_word(Binder *binder, const Expr *arg, const char *what, char word[64])
{
    if (arg->kind != EXPR_CONST || (!is_kind(arg, TYPE_NULL) && !is_kind(arg, TYPE_TEXT)) || arg->value.is_null)
        return refuse(binder, arg->at, arena_printf(binder->arena, "a %s that is not a literal", what));
    const u32 length = MIN_OF(arg->value.text.length, 63);
    for (u32 i = 0; i < length; i++) {
        const char c = arg->value.text.bytes[i];
        word[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    word[length] = 0;
    return WEFT_OK;
}

typedef struct FieldName { const char *name, *also[5]; } FieldName;

static const FieldName field_names[] = {
    { "microseconds", { "microsecond", "us", "usec", "usecs", "usecond" } },
    { "milliseconds", { "millisecond", "ms", "msec", "msecs" } },
    { "second", { "seconds", "s", "sec", "secs" } }, { "minute", { "minutes", "m", "min", "mins" } },
    { "hour", { "hours", "h", "hr", "hrs" } },       { "day", { "days", "d" } },
    { "week", { "weeks", "w" } },                    { "month", { "months", "mon", "mons" } },
    { "quarter", { "qtr" } },                        { "year", { "years", "y", "yr", "yrs" } },
    { "decade", { "decades", "dec", "decs" } },      { "century", { "centuries", "c", "cent" } },
    { "millennium", { "millennia", "mil", "mils" } },
};

static const char *field_name(const char *word)
{
    for (int i = 0; i < COUNT_OF(field_names); i++)
        for (int a = 0; a < COUNT_OF(field_names[i].also) && field_names[i].also[a]; a++)
            if (strcmp(field_names[i].also[a], word) == 0) return field_names[i].name;
    return word;
}

// ---- extract --------------------------------------------------------------------------------------------------------

static weft_status no_field(Binder *binder, const char *field, const Expr *arg, int at)
{
    char buffer[32];
    const bool is_known = function_is_field(field) || strncmp(field, "timezone", 8) == 0;
    return fail(binder->err, is_known ? WEFT_UNSUPPORTED : WEFT_INVALID_PARAMETER, at,
                is_known ? "unit \"%s\" not supported for type %s" : "unit \"%s\" not recognized for type %s", field,
                type_name(arg->type, buffer));
}

static weft_status divided(Binder *binder, Expr *arg, Op op, i64 by, int at, Expr **out)
{
    return bind_call(binder, op, arg, term_bigint(binder, by, at), at, out);
}

static weft_status months_field(Binder *binder, const char *field, Expr *interval, int at, Expr **out)
{
    static const struct { const char *name; int months; } years[] = {
        { "year", 12 }, { "decade", 120 }, { "century", 1200 }, { "millennium", 12000 }
    };
    TRY(hidden(binder, "interval_months", &interval, 1, at, out));
    for (int i = 0; i < COUNT_OF(years); i++)
        if (strcmp(years[i].name, field) == 0) return divided(binder, *out, OP_DIV, years[i].months, at, out);
    TRY(divided(binder, *out, OP_MOD, 12, at, out));
    if (strcmp(field, "quarter") != 0) return WEFT_OK;
    TRY(divided(binder, *out, OP_DIV, 3, at, out));
    return divided(binder, *out, OP_ADD, 1, at, out);
}

static weft_status clock_field(Binder *binder, const char *field, Expr *micros, int at, Expr **out)
{
    *out = micros;
    if (strcmp(field, "hour") == 0) return divided(binder, micros, OP_DIV, HOUR_MICROS, at, out);
    if (strcmp(field, "minute") == 0) {
        TRY(divided(binder, micros, OP_DIV, MINUTE_MICROS, at, out));
        return divided(binder, *out, OP_MOD, 60, at, out);
    }
    TRY(divided(binder, micros, OP_MOD, MINUTE_MICROS, at, out));
    if (strcmp(field, "microseconds") == 0) return WEFT_OK;
    TRY(hidden(binder, "seconds_of_micros", out, 1, at, out));
    if (strcmp(field, "second") == 0) return WEFT_OK;
    return bind_call(binder, OP_MUL, *out, term_integer(binder, 1000, at), at, out);
}

// Of a difference of timestamps, kernels know the fields; it has no months.
static weft_status interval_field(Binder *binder, const char *field, Expr *interval, int at, Expr **out)
{
    static const char *const of_months[] = { "year", "month", "quarter", "decade", "century", "millennium" };
    static const char *const of_clock[] = { "hour", "minute", "second", "milliseconds", "microseconds" };
    const bool is_difference = time_is_difference(interval);
    Expr      *micros = NULL;
    if (is_difference) TRY(time_difference(binder->arena, interval, at, &micros, binder->err));
    if (strcmp(field, "epoch") == 0)
        return is_difference ? hidden(binder, "seconds_of_micros", &micros, 1, at, out)
                             : hidden(binder, "interval_epoch", &interval, 1, at, out);
    if (strcmp(field, "day") == 0)
        return is_difference ? divided(binder, micros, OP_DIV, DAY_MICROS, at, out)
                             : hidden(binder, "interval_days", &interval, 1, at, out);
    for (int i = 0; i < COUNT_OF(of_months); i++)
        if (strcmp(of_months[i], field) == 0) return months_field(binder, field, interval, at, out);
    if (is_difference) TRY(divided(binder, micros, OP_MOD, DAY_MICROS, at, &micros));
    else TRY(hidden(binder, "interval_micros", &interval, 1, at, &micros));
    for (int i = 0; i < COUNT_OF(of_clock); i++)
        if (strcmp(of_clock[i], field) == 0) return clock_field(binder, field, micros, at, out);
    return no_field(binder, field, interval, at);
}

static weft_status zone_field(Binder *binder, const char *field, Expr *stamp, int at, Expr **out)
{
    Expr *args[2] = { stamp, term_integer(binder, stamp->type.scale, at) };
    TRY(hidden(binder, "zone_seconds", args, 2, at, out));
    if (strcmp(field, "timezone_hour") == 0) return divided(binder, *out, OP_DIV, 3600, at, out);
    if (strcmp(field, "timezone") == 0) return WEFT_OK;
    TRY(divided(binder, *out, OP_DIV, 60, at, out));
    return divided(binder, *out, OP_MOD, 60, at, out);
}

static weft_status stamp_field(Binder *binder, const char *field, Expr *arg, int at, Expr **out)
{
    Expr *part;
    if (strcmp(field, "epoch") == 0) {
        TRY(hidden(binder, "micros", &arg, 1, at, out));
        return hidden(binder, "seconds_of_micros", out, 1, at, out);
    }
    if (is_kind(arg, TYPE_TIMESTAMPTZ) && strncmp(field, "timezone", 8) == 0)
        return zone_field(binder, field, arg, at, out);
    TRY(cast_to(binder, arg, TYPE(TIME), at, &part));
    Op op = function_find_field(field, part);
    if (op == OP_N && strcmp(field, "julian") != 0) {
        TRY(cast_to(binder, arg, TYPE(DATE), at, &part));
        op = function_find_field(field, part);
    }
    return op == OP_N ? no_field(binder, field, arg, at) : bind_call(binder, op, part, NULL, at, out);
}

weft_status bind_extract(Binder *binder, Expr *field_arg, Expr *arg, bool as_double, int at, Expr **out)
{
    char word[64];
    if (is_null(field_arg)) return null_of(binder, TYPE(DOUBLE), at, out);
    TRY(literal_word(binder, field_arg, "field", word));
    const char *field = field_name(word);
    if (is_kind(arg, TYPE_INTERVAL)) {
        TRY(interval_field(binder, field, arg, at, out));
    } else if (is_kind(arg, TYPE_TIMESTAMP) || is_kind(arg, TYPE_TIMESTAMPTZ)) {
        TRY(stamp_field(binder, field, arg, at, out));
    } else if (is_kind(arg, TYPE_TIME) && strcmp(field, "epoch") == 0) {
        TRY(hidden(binder, "micros", &arg, 1, at, out));
        TRY(hidden(binder, "seconds_of_micros", out, 1, at, out));
    } else {
        const Op op = function_find_field(field, arg);
        if (op == OP_N) return no_field(binder, field, arg, field_arg->at);
        TRY(bind_call(binder, op, arg, NULL, at, out));
    }
    return as_double ? cast_to(binder, *out, TYPE(DOUBLE), at, out) : WEFT_OK;
}

// ---- date_trunc -----------------------------------------------------------------------------------------------------

static i64 unit_micros(const char *field)
{
    static const struct { const char *name; i64 micros; } units[] = {
        { "microseconds", 1 }, { "milliseconds", 1000 }, { "second", SECOND_MICROS }, { "minute", MINUTE_MICROS },
        { "hour", HOUR_MICROS }, { "day", DAY_MICROS },
    };
    for (int i = 0; i < COUNT_OF(units); i++)
        if (strcmp(units[i].name, field) == 0) return units[i].micros;
    return 0;
}

static weft_status trunc_stamp(Binder *binder, const char *field, Expr *stamp, int field_at, int at, Expr **out)
{
    const i64 micros = unit_micros(field);
    Expr     *args[2] = { stamp, term_bigint(binder, micros, at) };
    *out = stamp;
    if (micros == 1) return WEFT_OK;
    if (micros) return hidden(binder, "floor_to", args, 2, at, out);
    const char *name = arena_printf(binder->arena, "trunc_%s", field);
    if (function_find_hidden(name) == OP_N) return no_field(binder, field, stamp, field_at);
    TRY(cast_to(binder, stamp, TYPE(DATE), at, out));
    TRY(hidden(binder, name, out, 1, at, out));
    return cast_to(binder, *out, TYPE(TIMESTAMP), at, out);
}

static weft_status find_zone(Binder *binder, const Expr *arg, u8 *zone)
{
    char word[64];
    TRY(literal_word(binder, arg, "time zone", word));
    if (zone_find(arg->value.text.bytes, arg->value.text.length, zone)) return WEFT_OK;
    fail(binder->err, WEFT_INVALID_PARAMETER, arg->at, "time zone \"%.*s\" not recognized",
         (int)MIN_OF(arg->value.text.length, 60), arg->value.text.bytes);
    (void)zone_has_room(binder->err);
    return WEFT_INVALID_PARAMETER;
}

// Of a timestamp with time zone by the clock of its zone, unless that is a matter of less than a minute.  Hours and
// minutes keep the offset; days begin with the one that they have at midnight.
static weft_status trunc_zoned(Binder *binder, const char *field, Expr *stamp, int field_at, int at, Expr **out)
{
    const Type type = stamp->type;
    const i64  micros = unit_micros(field);
    if (micros && micros <= SECOND_MICROS) return trunc_stamp(binder, field, stamp, field_at, at, out);
    if (micros && micros < DAY_MICROS && type.scale) {
        Expr *args[3] = { stamp, term_integer(binder, type.scale, at), term_bigint(binder, micros, at) };
        return hidden(binder, "zone_floor", args, 3, at, out);
    }
    TRY(cast_to(binder, stamp, TYPE(TIMESTAMP), at, out));
    TRY(trunc_stamp(binder, field, *out, field_at, at, out));
    return cast_to(binder, *out, type, at, out);
}

static Type stamp_type(Binder *binder, const Expr *arg)
{
    return is_kind(arg, TYPE_TIMESTAMP) ? TYPE(TIMESTAMP) : bind_zoned(binder);
}

static weft_status bind_date_trunc(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    char  word[64];
    Expr *arg = args[1];
    if (is_null(args[0])) return null_of(binder, stamp_type(binder, arg), at, out);
    TRY(literal_word(binder, args[0], "field", word));
    const char *field = field_name(word);
    if (is_kind(arg, TYPE_INTERVAL) || is_kind(arg, TYPE_TIME)) return refuse(binder, at, "date_trunc of an interval");
    if (is_kind(arg, TYPE_DATE) || is_kind(arg, TYPE_NULL) || n_args == 3)
        TRY(cast_to(binder, arg, bind_zoned(binder), at, &arg));
    if (is_kind(arg, TYPE_TIMESTAMP)) return trunc_stamp(binder, field, arg, args[0]->at, at, out);
    if (!is_kind(arg, TYPE_TIMESTAMPTZ))
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function date_trunc of this type does not exist");
    if (n_args < 3) return trunc_zoned(binder, field, arg, args[0]->at, at, out);
    const Type shown = arg->type;
    if (is_null(args[2])) return null_of(binder, shown, at, out);
    Expr      *zoned = arena_make(binder->arena, Expr);
    *zoned = *arg;
    TRY(find_zone(binder, args[2], &zoned->type.scale));
    TRY(trunc_zoned(binder, field, zoned, args[0]->at, at, out));
    *out = bind_shown_in(binder, *out, shown);
    return WEFT_OK;
}

static weft_status bind_date_bin(Binder *binder, Expr **args, int at, Expr **out)
{
    Expr *stride, *origin, *stamp = args[1];
    Type  type = is_kind(stamp, TYPE_TIMESTAMPTZ) ? stamp->type : TYPE(TIMESTAMP);
    TRY(expr_coerce(binder->arena, args[0], TYPE(INTERVAL), at, &stride, binder->err));
    TRY(cast_to(binder, stamp, type, at, &stamp));
    TRY(cast_to(binder, args[2], type, at, &origin));
    if (stride->kind != EXPR_CONST || origin->kind != EXPR_CONST || stride->value.is_null || origin->value.is_null)
        return refuse(binder, at, "date_bin with a stride or an origin that is not constant");
    if (stride->value.interval.months)
        return fail(binder->err, WEFT_UNSUPPORTED, stride->at,
                    "timestamps cannot be binned into intervals containing months or years");
    const i128 micros = interval_micros(&stride->value);
    if (micros <= 0) return fail(binder->err, WEFT_DATETIME_OVERFLOW, stride->at, "stride must be greater than zero");
    if (micros > (i128)400000000000000000)
        return fail(binder->err, WEFT_DATETIME_OVERFLOW, stride->at, "interval out of range");
    Expr *bin[3] = { stamp, term_bigint(binder, (i64)micros, at), term_bigint(binder, (i64)origin->value.i, at) };
    return hidden(binder, "bin", bin, 3, at, out);
}

// ---- zones ----------------------------------------------------------------------------------------------------------

// x AT TIME ZONE z is timezone(z, x).
static weft_status bind_at_zone(Binder *binder, Expr **args, int at, Expr **out)
{
    u8    zone;
    Expr *arg = args[1], *parts[2];
    if (is_null(args[0]))
        return null_of(binder, is_kind(arg, TYPE_TIMESTAMP) ? bind_zoned(binder) : TYPE(TIMESTAMP), at, out);
    TRY(find_zone(binder, args[0], &zone));
    if (is_kind(arg, TYPE_NULL) || is_kind(arg, TYPE_DATE)) TRY(cast_to(binder, arg, bind_zoned(binder), at, &arg));
    parts[0] = arg, parts[1] = term_integer(binder, zone, at);
    if (is_kind(arg, TYPE_TIMESTAMPTZ))
        return hidden(binder, zone ? "zone_to_local" : "as_timestamp", parts, 1 + (zone != 0), at, out);
    if (!is_kind(arg, TYPE_TIMESTAMP)) return refuse(binder, at, "AT TIME ZONE of a value of this type");
    TRY(hidden(binder, zone ? "zone_from_local" : "as_timestamptz", parts, 1 + (zone != 0), at, out));
    *out = bind_shown_in(binder, *out, bind_zoned(binder));
    return WEFT_OK;
}

// ---- the present ----------------------------------------------------------------------------------------------------

static i64 statement_time(Binder *binder)
{
    struct timespec now;
    if (!binder->now && binder->names->now) binder->now = binder->names->now;
    if (!binder->now && clock_gettime(CLOCK_REALTIME, &now) == 0)
        binder->now = (i64)now.tv_sec * SECOND_MICROS + now.tv_nsec / 1000;
    return binder->now;
}

weft_status bind_now(Binder *binder, Type type, int digits, int at, Expr **out)
{
    const Type zoned = bind_zoned(binder);
    i64        micros = statement_time(binder), unit = 1;
    for (int d = 6; d > digits && digits >= 0; d--) unit *= 10;
    micros = (micros + unit / 2) / unit * unit;
    *out = expr_const(binder->arena, (Value){ .type = zoned, .i = micros }, at);
    return type.kind == TYPE_TIMESTAMPTZ ? WEFT_OK : cast_to(binder, *out, type, at, out);
}

// ---- make_interval --------------------------------------------------------------------------------------------------

static const struct { const char *name; i64 unit; int part; } interval_parts[] = {
    { "years", 12, 0 }, { "months", 1, 0 }, { "weeks", 7, 1 }, { "days", 1, 1 }, { "hours", HOUR_MICROS, 2 },
    { "mins", MINUTE_MICROS, 2 }, { "secs", SECOND_MICROS, 2 },
};

static weft_status add_part(Binder *binder, int number, Expr *arg, int at, Expr **sum)
{
    Expr *part = arg;
    if (number == COUNT_OF(interval_parts) - 1) TRY(cast_to(binder, arg, (Type){ TYPE_DECIMAL, 18, 6 }, at, &part));
    else TRY(expr_coerce(binder->arena, arg, TYPE(BIGINT), at, &part, binder->err));
    TRY(bind_call(binder, OP_MUL, part, term_bigint(binder, interval_parts[number].unit, at), at, &part));
    TRY(cast_to(binder, part, TYPE(BIGINT), at, &part));
    return bind_call(binder, OP_ADD, *sum, part, at, sum);
}

static weft_status bind_make_interval(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    const int at = call->location;
    Expr     *sums[3];
    for (int i = 0; i < 3; i++) sums[i] = term_bigint(binder, 0, at);
    for (size_t i = 0; i < call->n_args; i++) {
        const ParseNode *node = call->args[i];
        int              number = (int)i;
        Expr            *arg;
        if (node->node_case == PG_QUERY__NODE__NODE_NAMED_ARG_EXPR) {
            for (number = 0; number < COUNT_OF(interval_parts); number++)
                if (strcmp(interval_parts[number].name, node->named_arg_expr->name) == 0) break;
            node = node->named_arg_expr->arg;
        }
        if (number >= COUNT_OF(interval_parts))
            return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function make_interval has no such argument");
        TRY(binder->bind_expr(binder, node, &arg));
        TRY(add_part(binder, number, arg, at, &sums[interval_parts[number].part]));
    }
    return hidden(binder, "interval_of", sums, 3, at, out);
}

// ---- by name --------------------------------------------------------------------------------------------------------

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

bool bind_is_time_function(const char *name, size_t n_args)
{
    static const char *const now[] = { "now", "transaction_timestamp", "statement_timestamp", "clock_timestamp", NULL };
    if (is_one_of(name, now)) return n_args == 0;
    if (strcmp(name, "age") == 0) return n_args == 1;
    if (strcmp(name, "date_trunc") == 0) return n_args == 2 || n_args == 3;
    if (strcmp(name, "date_bin") == 0) return n_args == 3;
    if (strcmp(name, "timezone") == 0) return n_args == 2;
    if (strcmp(name, "extract") == 0 || strcmp(name, "date_part") == 0) return n_args == 2;
    return strcmp(name, "make_interval") == 0;
}

weft_status bind_time_function(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const int at = call->location, n_args = (int)call->n_args;
    Expr     *args[3];
    if (strcmp(name, "make_interval") == 0) return bind_make_interval(binder, call, out);
    for (int i = 0; i < n_args; i++) TRY(binder->bind_expr(binder, call->args[i], &args[i]));
    if (n_args == 0) return bind_now(binder, TYPE(TIMESTAMPTZ), -1, at, out);
    if (strcmp(name, "date_trunc") == 0) return bind_date_trunc(binder, args, n_args, at, out);
    if (strcmp(name, "date_bin") == 0) return bind_date_bin(binder, args, at, out);
    if (strcmp(name, "timezone") == 0) return bind_at_zone(binder, args, at, out);
    if (strcmp(name, "age") == 0) {
        args[1] = args[0];
        TRY(bind_now(binder, TYPE(DATE), -1, at, &args[0]));
        const Op op = function_find("age", args, 2);
        if (op == OP_N) return bind_no_function(binder, "age", &args[1], 1, at);
        return expr_call(binder->arena, op, args, 2, at, out, binder->err);
    }
    return bind_extract(binder, args[0], args[1], strcmp(name, "date_part") == 0, at, out);
}
