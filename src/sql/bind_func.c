// bind_func.c - function calls: aggregates, a few scalar functions, and a name for each that is missing.

#include "sql/sql_int.h"

// PostgreSQL has them, we do not: 0A000 and not "no such function".
static const char *const missing_functions[] = {
    "substring", "substr", "upper", "lower", "length", "char_length", "character_length", "octet_length", "btrim",
    "ltrim", "rtrim", "trim", "replace", "position", "strpos", "concat", "concat_ws", "left", "right", "lpad", "rpad",
    "repeat", "reverse", "initcap", "split_part", "translate", "overlay", "format", "md5", "ascii", "chr",
    "regexp_replace", "regexp_match", "regexp_matches", "regexp_like", "starts_with", "to_char", "to_date", "to_number",
    "to_timestamp", "round", "trunc", "floor", "ceil", "ceiling", "sqrt", "cbrt", "exp", "ln", "log", "log10", "power",
    "pow", "sign", "pi", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "degrees", "radians", "div", "gcd",
    "lcm", "random", "setseed", "width_bucket", "now", "current_timestamp", "clock_timestamp", "statement_timestamp",
    "timeofday", "age", "date_trunc", "date_bin", "make_date", "make_interval", "isfinite", "timezone", "like_escape",
    "similar_to_escape", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr", "covar_pop",
    "covar_samp", "regr_slope", "bool_and", "bool_or", "every", "bit_and", "bit_or", "string_agg", "array_agg",
    "json_agg", "jsonb_agg", "mode", "percentile_cont", "percentile_disc", "row_number", "rank", "dense_rank",
    "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "generate_series",
    "unnest", "version", "current_database", "current_schema", "pg_typeof", "gen_random_uuid", "nextval",
};

enum { AGGS_MAX = 1664 };                                   // as many as outputs

// ---- aggregates -----------------------------------------------------------------------------------------------------

typedef struct NamedAgg { const char *name; AggKind kind; } NamedAgg;

static const NamedAgg named_aggs[] = {
    { "count", AGG_COUNT }, { "sum", AGG_SUM }, { "min", AGG_MIN }, { "max", AGG_MAX }, { "avg", AGG_AVG },
};

static bool same_agg(const Agg *a, const Agg *b)
{
    if (a->kind != b->kind) return false;
    return a->kind == AGG_COUNT_ALL || expr_equal(a->arg, b->arg);
}

// The same aggregate twice is computed once.
static weft_status add_agg(Binder *binder, const Agg *agg, Expr **out)
{
    Query *query = binder->query;
    int    index = 0;
    while (index < query->n_aggs && !same_agg(&query->aggs[index], agg)) index++;
    if (index == AGGS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, agg->at, "a query can have at most %d different aggregates",
                    AGGS_MAX);
    if (index == query->n_aggs) {
        *LIST_PUSH(binder->arena, query->aggs, query->n_aggs) = *agg;
        if (agg->arg) TRY(bind_count(binder, agg->arg));
    }
    Expr *expr = arena_make(binder->arena, Expr);
    *expr = (Expr){ .kind = EXPR_AGG, .type = agg->type, .at = agg->at, .index = index, .depth = 1, .size = 1 };
    *out = expr;
    return WEFT_OK;
}

static weft_status refuse_agg_options(Binder *binder, const PgQuery__FuncCall *call, AggKind kind)
{
    const int at = call->location;
    if (call->over)
        return refuse(binder, call->over->location >= 0 ? call->over->location : at, "a window function (OVER)");
    if (call->agg_filter) return refuse(binder, node_at(call->agg_filter), "FILTER");
    if (call->n_agg_order) return refuse(binder, at, "ORDER BY in an aggregate");
    if (call->agg_within_group) return refuse(binder, at, "WITHIN GROUP");
    if (call->func_variadic) return refuse(binder, at, "VARIADIC");
    if (call->agg_distinct && kind != AGG_MIN && kind != AGG_MAX) return refuse(binder, at, "DISTINCT in an aggregate");
    return WEFT_OK;
}

static weft_status bind_agg_arg(Binder *binder, const PgQuery__FuncCall *call, AggKind kind, Expr **arg)
{
    binder->in_agg = true;
    TRY(bind_expr(binder, call->args[0], arg));             // after an error the binder is not used again
    binder->in_agg = false;
    return kind == AGG_SUM || kind == AGG_AVG ? WEFT_OK : bind_settle(binder, *arg, arg);
}

static weft_status bind_agg(Binder *binder, const PgQuery__FuncCall *call, const char *name, AggKind kind, Expr **out)
{
    const int at = call->location;
    Expr     *arg = NULL;
    Agg       agg;
    TRY(refuse_agg_options(binder, call, kind));
    if (binder->in_agg) return fail(binder->err, WEFT_GROUPING_ERROR, at, "aggregate function calls cannot be nested");
    if (!binder->allows_aggs || !binder->query)
        return fail(binder->err, WEFT_GROUPING_ERROR, at, "aggregate functions are not allowed in %s",
                    binder->clause ? binder->clause : "this context");
    if (call->agg_star && kind == AGG_COUNT) kind = AGG_COUNT_ALL;
    else if (call->n_args == 0 && kind == AGG_COUNT)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at,
                    "count(*) must be used to call a parameterless aggregate function");
    else if (call->n_args != 1)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function %s with %zu arguments does not exist", name,
                    call->n_args);
    else TRY(bind_agg_arg(binder, call, kind, &arg));
    if (kind == AGG_COUNT && expr_is_const(arg) && !arg->value.is_null)
        kind = AGG_COUNT_ALL, arg = NULL;  // count(1)
    TRY(expr_agg(kind, arg, at, &agg, binder->err));
    return add_agg(binder, &agg, out);
}

// ---- date fields ----------------------------------------------------------------------------------------------------

static const struct { const char *name; Op op; } date_fields[] = {
    { "year", OP_YEAR }, { "quarter", OP_QUARTER }, { "month", OP_MONTH }, { "day", OP_DAY },
    { "dow", OP_DOW },   { "isodow", OP_ISODOW },   { "doy", OP_DOY },
};

static const char *const missing_fields[] = {
    "century", "decade", "epoch", "hour", "isoyear", "julian", "microseconds", "millennium", "milliseconds", "minute",
    "second", "timezone", "timezone_hour", "timezone_minute", "week",
};

static weft_status unknown_field(Binder *binder, const char *field, int at)
{
    for (int i = 0; i < COUNT_OF(missing_fields); i++)
        if (strcmp(missing_fields[i], field) == 0)
            return fail(binder->err, WEFT_UNSUPPORTED, at, "extract(%s) is not supported yet", field);
    fail(binder->err, WEFT_INVALID_PARAMETER, at, "unit \"%s\" not recognized for type date", field);
    error_hint(binder->err, "There are year, quarter, month, day, dow, isodow and doy.");
    return WEFT_INVALID_PARAMETER;
}

static weft_status bind_extract(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    Expr **args;
    char   field[16] = "";
    TRY(bind_exprs(binder, call->args, call->n_args, &args));
    if (args[0]->kind != EXPR_CONST || args[0]->type.kind != TYPE_NULL || args[0]->value.is_null)
        return refuse(binder, args[0]->at, "a field that is not a literal");
    for (u32 i = 0; i < MIN_OF(args[0]->value.text.length, 15); i++) {
        const char c = args[0]->value.text.bytes[i];
        field[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    for (int i = 0; i < COUNT_OF(date_fields); i++)
        if (strcmp(date_fields[i].name, field) == 0)
            return bind_call(binder, date_fields[i].op, args[1], NULL, call->location, out);
    return unknown_field(binder, field, args[0]->at);
}

// ---- other functions ------------------------------------------------------------------------------------------------

static weft_status bind_abs(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    Expr *arg;
    TRY(bind_expr(binder, call->args[0], &arg));
    return bind_call(binder, OP_ABS, arg, NULL, call->location, out);
}

static weft_status bind_mod(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    Expr **args;
    TRY(bind_exprs(binder, call->args, 2, &args));
    return bind_call(binder, OP_MOD, args[0], args[1], call->location, out);
}

typedef struct NamedFunction {
    const char   *name;
    size_t        n_args;
    weft_status (*bind)(Binder *binder, const PgQuery__FuncCall *call, Expr **out);
} NamedFunction;

static const NamedFunction named_functions[] = {
    { "abs", 1, bind_abs }, { "mod", 2, bind_mod }, { "extract", 2, bind_extract }, { "date_part", 2, bind_extract },
};

static weft_status unknown_function(Binder *binder, const PgQuery__FuncCall *call, const char *name)
{
    for (int i = 0; i < COUNT_OF(missing_functions); i++)
        if (strcmp(missing_functions[i], name) == 0)
            return fail(binder->err, WEFT_UNSUPPORTED, call->location, "function %s is not supported yet", name);
    fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s with %zu argument%s does not exist", name,
         call->n_args, call->n_args == 1 ? "" : "s");
    error_hint(binder->err, "There are count, sum, min, max, avg, abs, mod, coalesce, nullif, greatest, least, extract, "
                            "date_part and cast.");
    return WEFT_UNDEFINED_FUNCTION;
}

weft_status bind_function(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    const char *name = call->n_funcname ? node_string(call->funcname[call->n_funcname - 1]) : NULL;
    const char *schema = call->n_funcname == 2 ? node_string(call->funcname[0]) : "pg_catalog";
    if (!name || !schema || call->n_funcname > 2 || strcmp(schema, "pg_catalog") != 0)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s does not exist",
                    name ? name : "?");
    for (int i = 0; i < COUNT_OF(named_aggs); i++)
        if (strcmp(named_aggs[i].name, name) == 0) return bind_agg(binder, call, name, named_aggs[i].kind, out);
    if (call->over)
        return refuse(binder, call->over->location >= 0 ? call->over->location : call->location,
                      "a window function (OVER)");
    for (int i = 0; i < COUNT_OF(named_functions); i++) {
        const NamedFunction *function = &named_functions[i];
        if (strcmp(function->name, name) != 0 || function->n_args != call->n_args) continue;
        if (call->agg_star || call->agg_distinct || call->n_agg_order || call->agg_filter || call->func_variadic ||
            call->agg_within_group)
            return fail(binder->err, WEFT_TYPE_MISMATCH, call->location, "%s is not an aggregate function", name);
        return function->bind(binder, call, out);
    }
    return unknown_function(binder, call, name);
}
