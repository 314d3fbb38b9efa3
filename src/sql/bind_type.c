// bind_type.c - type names, and casts to them.
//
// The grammar has already turned INT into pg_catalog.int4 and so on, so the names here are PostgreSQL's internal ones.

#include "plan/functions.h"
#include "plan/time.h"
#include "sql/sql_int.h"

enum { DECIMAL_MOST = 18, NUMERIC_MOST = 38 };               // digits: up to 18 take a word, up to 38 two

typedef struct NamedType { const char *name; u8 kind; } NamedType;

static const NamedType named_types[] = {
    { "bool", TYPE_BOOLEAN },      { "boolean", TYPE_BOOLEAN },   { "int2", TYPE_SMALLINT },
    { "smallint", TYPE_SMALLINT }, { "int4", TYPE_INTEGER },      { "int", TYPE_INTEGER },
    { "integer", TYPE_INTEGER },   { "int8", TYPE_BIGINT },       { "bigint", TYPE_BIGINT },
    { "numeric", TYPE_DECIMAL },   { "decimal", TYPE_DECIMAL },   { "float4", TYPE_REAL },
    { "real", TYPE_REAL },         { "float8", TYPE_DOUBLE },     { "float", TYPE_DOUBLE },
    { "date", TYPE_DATE },         { "text", TYPE_TEXT },         { "varchar", TYPE_TEXT },
    { "bpchar", TYPE_TEXT },       { "interval", TYPE_INTERVAL }, { "timestamp", TYPE_TIMESTAMP },
    { "timestamptz", TYPE_TIMESTAMPTZ }, { "time", TYPE_TIME },   { "uuid", TYPE_TEXT },
};

// The last part of the name; pg_catalog is the only schema with types.
static const char *last_name(const PgQuery__TypeName *name)
{
    if (name->n_names == 0 || name->n_names > 2) return NULL;
    const char *schema = name->n_names == 2 ? node_string(name->names[0]) : "pg_catalog";
    if (!schema || strcmp(schema, "pg_catalog") != 0) return NULL;
    return node_string(name->names[name->n_names - 1]);
}

static weft_status no_such_type(Binder *binder, const PgQuery__TypeName *name)
{
    const char *last = name->n_names ? node_string(name->names[name->n_names - 1]) : NULL;
    if (!last) last = "?";
    if (refuse_known(binder, name->location, REFUSAL_TYPE, last)) return WEFT_UNSUPPORTED;
    fail(binder->err, WEFT_UNDEFINED_OBJECT, name->location, "type \"%s\" does not exist", last);
    const char *names[COUNT_OF(named_types)];
    for (int i = 0; i < COUNT_OF(named_types); i++) names[i] = named_types[i].name;
    const char *nearest = nearest_name(last, names, COUNT_OF(named_types));
    if (nearest) error_hint(binder->err, "Perhaps you meant \"%s\".", nearest);
    return WEFT_UNDEFINED_OBJECT;
}

static bool modifier(const PgQuery__TypeName *name, size_t i, int *value)
{
    const ParseNode *node = name->typmods[i];
    if (node->node_case != PG_QUERY__NODE__NODE_A_CONST || node->a_const->val_case != PG_QUERY__A__CONST__VAL_IVAL)
        return false;
    *value = node->a_const->ival->ival;
    return true;
}

static weft_status bind_decimal(Binder *binder, const PgQuery__TypeName *name, TypeDetail *out)
{
    int precision = 0, scale = 0;
    out->is_bare = name->n_typmods == 0;
    out->type = TYPE_OF_FREE_NUMERIC;
    if (out->is_bare) return WEFT_OK;
    if (name->n_typmods > 2 || !modifier(name, 0, &precision) ||
        (name->n_typmods > 1 && !modifier(name, 1, &scale)))
        return fail(binder->err, WEFT_INVALID_PARAMETER, name->location, "invalid type modifier of numeric");
    if (precision > NUMERIC_MOST && precision <= 1000) {
        fail(binder->err, WEFT_UNSUPPORTED, name->location, "numeric precision %d is not supported", precision);
        error_hint(binder->err, "The largest precision is %d.", NUMERIC_MOST);
        return WEFT_UNSUPPORTED;
    }
    if (precision < 1 || precision > NUMERIC_MOST)
        return fail(binder->err, WEFT_INVALID_PARAMETER, name->location,
                    "numeric precision %d must be between 1 and %d", precision, NUMERIC_MOST);
    if (scale < 0 || scale > precision)
        return fail(binder->err, WEFT_INVALID_PARAMETER, name->location,
                    "numeric scale %d must be between 0 and precision %d", scale, precision);
    out->type = (Type){ precision > DECIMAL_MOST ? TYPE_NUMERIC : TYPE_DECIMAL, (u8)precision, (u8)scale };
    return WEFT_OK;
}

// LAST: bpchar is what the grammar makes of char(n).
static weft_status bind_text_type(Binder *binder, const PgQuery__TypeName *name, const char *last, TypeDetail *out)
{
    const bool  is_char = strcmp(last, "bpchar") == 0;
    const char *shown = is_char ? "char" : "varchar";
    const int   most = is_char ? CHAR_LENGTH_MAX : TEXT_LENGTH_MAX;
    int         length = 1;
    out->has_length = name->n_typmods > 0;
    if (name->n_typmods > 1 || (name->n_typmods == 1 && !modifier(name, 0, &length)))
        return fail(binder->err, WEFT_INVALID_PARAMETER, name->location, "invalid type modifier of %s", shown);
    if (length < 1)
        return fail(binder->err, WEFT_INVALID_PARAMETER, name->location, "length for type %s must be at least 1",
                    shown);
    if (length > most) {
        fail(binder->err, WEFT_UNSUPPORTED, name->location, "a length of %d is not supported", length);
        error_hint(binder->err, "The largest length is %d; text has no limit.", most);
        return WEFT_UNSUPPORTED;
    }
    out->type = type_text((is_char ? CHAR_BASE : 0) + (out->has_length ? length : 0));
    return WEFT_OK;
}

weft_status bind_type(Binder *binder, const PgQuery__TypeName *name, TypeDetail *out)
{
    *out = (TypeDetail){ .type = TYPE(NULL) };
    const char *last = last_name(name);
    if (name->setof || name->pct_type) return refuse(binder, name->location, name->setof ? "SETOF" : "%TYPE");
    if (name->n_array_bounds)
        return fail(binder->err, WEFT_UNSUPPORTED, name->location, "arrays are not supported yet");
    for (int i = 0; last && i < COUNT_OF(named_types); i++)
        if (strcmp(named_types[i].name, last) == 0) out->type.kind = named_types[i].kind;
    switch ((TypeKind)out->type.kind) {
        case TYPE_NULL:     return no_such_type(binder, name);
        case TYPE_DECIMAL:  return bind_decimal(binder, name, out);
        case TYPE_TEXT:
            if (strcmp(last, "uuid") != 0) return bind_text_type(binder, name, last, out);
            out->type = TYPE_OF_UUID;
            break;
        case TYPE_INTERVAL: return WEFT_OK;
        case TYPE_TIMESTAMPTZ: out->type = bind_zoned(binder); break;
        default: break;
    }
    if (name->n_typmods && type_is_time(out->type))
        return refuse(binder, name->location, "a number of digits of seconds");
    if (name->n_typmods)
        return fail(binder->err, WEFT_INVALID_PARAMETER, name->location, "type modifier is not allowed for type \"%s\"",
                    last);
    return WEFT_OK;
}

// ---- casts ----------------------------------------------------------------------------------------------------------

typedef struct IntervalField { int bit; const char *unit; i64 micros; int months; } IntervalField;

// The smallest first: it gives a bare number its unit, and what is finer is cut off.
static const IntervalField interval_fields[] = {
    { 1 << 12, "second", 1, 1 },        { 1 << 11, "minute", MINUTE_MICROS, 1 }, { 1 << 10, "hour", HOUR_MICROS, 1 },
    { 1 << 3, "day", DAY_MICROS, 1 },   { 1 << 1, "month", 0, 1 },               { 1 << 2, "year", 0, 12 },
};

// '90' minute is '90 minute', '1 2' day to hour is '1 2 hour', and '2:03' minute to second is '0:2:03'.
static const char *with_unit(Arena *arena, const char *text, const IntervalField *field, bool has_minutes)
{
    const size_t length = strlen(text);
    size_t       end = length, start;
    while (end && text[end - 1] == ' ') end--;
    for (start = end; start && text[start - 1] != ' ';) start--;
    const char  *last = text + start;
    const size_t n = end - start, n_sign = n && (*last == '+' || *last == '-');
    if (n && strspn(last, "+-.0123456789") >= n) return arena_printf(arena, "%s %s", text, field->unit);
    const char *colon = memchr(last, ':', n);
    const bool  is_pair = colon && strspn(last + n_sign, ":.0123456789") >= n - n_sign && !strchr(colon + 1, ':');
    if (!is_pair || field->bit != interval_fields[0].bit || !has_minutes) return text;
    return arena_printf(arena, "%.*s0:%s", (int)(start + n_sign), text, last + n_sign);
}

static weft_status cut_interval(Binder *binder, Expr *interval, const IntervalField *field, int at, Expr **out)
{
    Expr *args[3] = { interval, term_integer(binder, field->months, at),
                      expr_const(binder->arena, (Value){ .type = TYPE(BIGINT), .i = field->micros }, at) };
    *out = interval;
    return field->micros == 1 ? WEFT_OK : time_call(binder->arena, "interval_cut", args, 3, at, out, binder->err);
}

// The qualifier (interval '90' day) is a set of fields.
static weft_status bind_interval(Binder *binder, const PgQuery__TypeCast *cast, Expr *arg, int at, Expr **out)
{
    const PgQuery__TypeName *name = cast->type_name;
    const IntervalField     *field = interval_fields;
    int                      mask = 0;
    if (name->n_typmods > 1 || (name->n_typmods == 1 && !modifier(name, 0, &mask)))
        return refuse(binder, name->location, "a precision of intervals");
    if (!mask) return expr_cast(binder->arena, arg, TYPE(INTERVAL), at, out, binder->err);
    while (!(mask & field->bit) && field < interval_fields + COUNT_OF(interval_fields) - 1) field++;
    if (arg->kind == EXPR_CONST && arg->type.kind == TYPE_NULL && !arg->value.is_null) {
        const bool from_minutes = mask == (1 << 11 | 1 << 12);
        Value      value = { .type = TYPE(NULL) };
        value.text.bytes = with_unit(binder->arena, arg->value.text.bytes, field, from_minutes);
        value.text.length = (u32)strlen(value.text.bytes);
        arg = expr_const(binder->arena, value, at);
    }
    TRY(expr_cast(binder->arena, arg, TYPE(INTERVAL), at, out, binder->err));
    return cut_interval(binder, *out, field, at, out);
}

// It cuts, where a column refuses what is too long.  What becomes a char(n) has no blanks at its end and keeps its
// type, so that literals that it is compared with lose theirs.
static weft_status cast_to_length(Binder *binder, Expr *arg, TypeDetail detail, int at, Expr **out)
{
    Expr *args[2] = { NULL, term_integer(binder, type_text_length(detail.type), at) };
    TRY(expr_cast(binder->arena, arg, TYPE(TEXT), at, &args[0], binder->err));
    if (detail.has_length) TRY(bind_by_name(binder, "left", args, 2, at, &args[0]));
    *out = args[0];
    if (!type_is_char(detail.type)) return WEFT_OK;
    TRY(bind_by_name(binder, "rtrim", args, 1, at, &args[0]));
    Expr *copy = arena_make(binder->arena, Expr);
    *copy = *args[0];
    copy->type = copy->value.type = detail.type;
    *out = copy;
    return WEFT_OK;
}

// A copy, since a cast may give its argument, which others use too.
static Expr *declared(Arena *arena, const Expr *expr)
{
    Expr *copy = arena_make(arena, Expr);
    *copy = *expr;
    copy->is_declared = true;
    return copy;
}

weft_status bind_cast(Binder *binder, const PgQuery__TypeCast *cast, Expr *arg, Expr **out)
{
    TypeDetail detail;
    const int  at = cast->location >= 0 ? cast->location : cast->type_name->location;
    TRY(bind_type(binder, cast->type_name, &detail));
    if (detail.has_length || type_is_char(detail.type)) return cast_to_length(binder, arg, detail, at, out);
    if (detail.type.kind == TYPE_INTERVAL) return bind_interval(binder, cast, arg, at, out);
    if (detail.is_bare) return bind_bare_numeric(binder, arg, at, out);
    TRY(expr_cast(binder->arena, arg, detail.type, at, out, binder->err));
    if (detail.type.kind == TYPE_DECIMAL || detail.type.kind == TYPE_NUMERIC) *out = declared(binder->arena, *out);
    return WEFT_OK;
}
