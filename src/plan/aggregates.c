// aggregates.c - the list of aggregates, and how those are built that no accumulator computes.
//
//     var_pop(x)     m / n        with n = count(x), m = sum(x * x) - sum(x)^2 / n
//     var_samp(x)    m / (n - 1)  where n > 1
//     covar_pop(y, x)    sxy / n  with sxy = sum(x * y) - sum(x) * sum(y) / n, over rows where both are not NULL
//     bool_and(x)    min(x), as false < true
//
// The sums are exact, so m is good however large the mean is beside the deviation; of doubles, up to 2^49 times.
//
//     smallint, integer, decimals of up to 9 digits     x * x is exact in 64 bits
//     bigint, longer decimals                           x = h * 2^32 + l: the sums of h * h, h * l and l * l
//     double                                            x * x is rounded; what it lost is a double, too (square_low)
//     real                                              x * x is exact as a double
//     pairs                                             both become doubles, as in PostgreSQL
//
// Sums of doubles are rounded once; AGG_SUM_REST is what that took away.  Numerics become doubles.

#include "plan/aggregates.h"

#include "plan/expr_int.h"
#include "plan/functions.h"
#include "plan/time.h"

// ---- types ----------------------------------------------------------------------------------------------------------

static bool takes_any(Type type)
{
    return true;
}

static bool takes_order(Type type)
{
    return type_is_number(type) || (type_is_time(type) && type.kind != TYPE_INTERVAL) || type.kind == TYPE_TEXT;
}

static bool takes_boolean(Type type)
{
    return type.kind == TYPE_BOOLEAN;
}

static Type give_count(Type type)
{
    return TYPE(BIGINT);
}

static Type give_sum(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: case TYPE_INTEGER: return TYPE(BIGINT);
        case TYPE_BIGINT:   return (Type){ TYPE_NUMERIC, NUMERIC_DIGITS, 0 };
        case TYPE_DECIMAL: case TYPE_NUMERIC:
            return (Type){ TYPE_NUMERIC, type_is_quotient(type) ? type.precision : NUMERIC_DIGITS, type.scale };
        default:            return TYPE(DOUBLE);
    }
}

static Type give_same(Type type)
{
    return type;
}

static Type give_average(Type type)
{
    return type_is_exact(type) ? type_of_average(type) : TYPE(DOUBLE);
}

// ---- variances ------------------------------------------------------------------------------------------------------

static weft_status call2(const AggBuilder *builder, Op op, Expr *a, Expr *b, Expr **out)
{
    return expr_call(builder->arena, op, (Expr *[]){ a, b }, 2, builder->at, out, builder->err);
}

static Expr *integer(const AggBuilder *builder, int value)
{
    return expr_const(builder->arena, (Value){ .type = TYPE(INTEGER), .i = value }, builder->at);
}

static weft_status hidden(const AggBuilder *builder, const char *name, Expr **args, int n_args, Expr **out)
{
    return expr_call(builder->arena, function_find_hidden(name), args, n_args, builder->at, out, builder->err);
}

static weft_status sum(const AggBuilder *builder, Expr *arg, Expr **out)
{
    return builder->add(builder->context, AGG_SUM, arg, out);
}

// Squares that fit the type of x.
static weft_status short_squares(const AggBuilder *builder, Expr *x, Expr *count, Expr **squares)
{
    Expr *square, *args[3] = { count };
    TRY(call2(builder, OP_MUL, x, x, &square));
    TRY(sum(builder, x, &args[1]));
    TRY(sum(builder, square, &args[2]));
    return hidden(builder, "squares", args, 3, squares);
}

static weft_status long_squares(const AggBuilder *builder, Expr *x, Expr *count, Expr **squares)
{
    Expr *high, *low, *args[5] = { count };
    TRY(hidden(builder, "high_half", &x, 1, &high));
    TRY(hidden(builder, "low_half", &x, 1, &low));
    TRY(sum(builder, x, &args[1]));
    TRY(call2(builder, OP_MUL, high, high, &args[2]));
    TRY(call2(builder, OP_MUL, high, low, &args[3]));
    TRY(call2(builder, OP_MUL, low, low, &args[4]));
    for (int i = 2; i < 5; i++) TRY(sum(builder, args[i], &args[i]));
    return hidden(builder, "long_squares", args, 5, squares);
}

static weft_status float_squares(const AggBuilder *builder, Expr *x, bool is_real, Expr *count, Expr **squares)
{
    Expr *square, *args[6] = { count };
    TRY(hidden(builder, "square", &x, 1, &square));
    TRY(sum(builder, x, &args[1]));
    TRY(builder->add(builder->context, AGG_SUM_REST, x, &args[2]));
    TRY(sum(builder, square, &args[3]));
    TRY(builder->add(builder->context, AGG_SUM_REST, square, &args[4]));
    if (is_real) return hidden(builder, "real_squares", args, 5, squares);
    TRY(hidden(builder, "square_low", &x, 1, &args[5]));
    TRY(sum(builder, args[5], &args[5]));
    return hidden(builder, "double_squares", args, 6, squares);
}

// *COUNT: the number of values, *SQUARES: the sum of the squares of their distances from the mean.
static weft_status build_squares(const AggBuilder *builder, Expr *arg, Expr **count, Expr **squares)
{
    const bool is_long = arg->type.kind == TYPE_DECIMAL && arg->type.precision > DECIMAL_DIGITS / 2;
    const bool is_short = arg->type.kind == TYPE_SMALLINT || arg->type.kind == TYPE_INTEGER;
    Expr      *x = arg;
    TRY(builder->add(builder->context, AGG_COUNT, arg, count));
    if (is_short) TRY(expr_cast(builder->arena, arg, TYPE(BIGINT), builder->at, &x, builder->err));
    if (is_short || (arg->type.kind == TYPE_DECIMAL && !is_long)) return short_squares(builder, x, *count, squares);
    if (is_long || arg->type.kind == TYPE_BIGINT) return long_squares(builder, x, *count, squares);
    TRY(expr_cast(builder->arena, arg, TYPE(DOUBLE), builder->at, &x, builder->err));
    return float_squares(builder, x, arg->type.kind == TYPE_REAL, *count, squares);
}

static weft_status build_var_pop(const AggBuilder *builder, Expr *arg, Expr **out)
{
    Expr *count, *squares;
    TRY(build_squares(builder, arg, &count, &squares));
    return call2(builder, OP_DIV, squares, count, out);
}

// SUM / (COUNT - 1), of two at least.
static weft_status of_sample(const AggBuilder *builder, Expr *sum_around, Expr *count, Expr **out)
{
    Expr *args[3];
    TRY(call2(builder, OP_GT, count, integer(builder, 1), &args[0]));
    TRY(call2(builder, OP_SUB, count, integer(builder, 1), &args[1]));
    TRY(call2(builder, OP_DIV, sum_around, args[1], &args[1]));
    args[2] = expr_null(builder->arena, TYPE(DOUBLE), builder->at);
    return expr_case(builder->arena, args, 3, builder->at, out, builder->err);
}

static weft_status build_var_samp(const AggBuilder *builder, Expr *arg, Expr **out)
{
    Expr *count, *squares;
    TRY(build_squares(builder, arg, &count, &squares));
    return of_sample(builder, squares, count, out);
}

static weft_status build_root(const AggBuilder *builder, Expr *variance, Expr **out)
{
    return expr_call(builder->arena, function_find("sqrt", &variance, 1), &variance, 1, builder->at, out, builder->err);
}

static weft_status build_stddev_pop(const AggBuilder *builder, Expr *arg, Expr **out)
{
    TRY(build_var_pop(builder, arg, out));
    return build_root(builder, *out, out);
}

static weft_status build_stddev_samp(const AggBuilder *builder, Expr *arg, Expr **out)
{
    TRY(build_var_samp(builder, arg, out));
    return build_root(builder, *out, out);
}

// ---- pairs ----------------------------------------------------------------------------------------------------------
//
// The names are those of PostgreSQL's manual: sxx and syy are sums of squares of distances from the mean, sxy of
// products.

static weft_status pair_squares(const AggBuilder *builder, Expr *arg, Expr **squares)
{
    Expr *count, *x;
    TRY(builder->add(builder->context, AGG_COUNT, arg, &count));
    TRY(expr_cast(builder->arena, arg, TYPE(DOUBLE), builder->at, &x, builder->err));
    return float_squares(builder, x, arg->type.kind == TYPE_REAL, count, squares);
}

// The product of two reals is a double.
static weft_status pair_products(const AggBuilder *builder, Expr *y, Expr *x, Expr **count, Expr **products)
{
    const bool is_real = y->type.kind == TYPE_REAL && x->type.kind == TYPE_REAL;
    Expr      *both[2], *product, *args[8];
    TRY(builder->add(builder->context, AGG_COUNT, y, count));
    TRY(expr_cast(builder->arena, x, TYPE(DOUBLE), builder->at, &both[0], builder->err));
    TRY(expr_cast(builder->arena, y, TYPE(DOUBLE), builder->at, &both[1], builder->err));
    TRY(hidden(builder, "product", both, 2, &product));
    Expr *const sums[3] = { both[0], both[1], product };
    args[0] = *count;
    for (int i = 0; i < 3; i++) {
        TRY(sum(builder, sums[i], &args[1 + 2 * i]));
        TRY(builder->add(builder->context, AGG_SUM_REST, sums[i], &args[2 + 2 * i]));
    }
    if (is_real) return hidden(builder, "real_products", args, 7, products);
    TRY(hidden(builder, "product_low", both, 2, &args[7]));
    TRY(sum(builder, args[7], &args[7]));
    return hidden(builder, "double_products", args, 8, products);
}

static weft_status build_regr_count(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return builder->add(builder->context, AGG_COUNT, y, out);
}

static weft_status pair_mean(const AggBuilder *builder, Expr *arg, Expr **out)
{
    TRY(expr_cast(builder->arena, arg, TYPE(DOUBLE), builder->at, &arg, builder->err));
    return builder->add(builder->context, AGG_AVG, arg, out);
}

static weft_status build_regr_avgx(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return pair_mean(builder, x, out);
}

static weft_status build_regr_avgy(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return pair_mean(builder, y, out);
}

static weft_status build_regr_sxx(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return pair_squares(builder, x, out);
}

static weft_status build_regr_syy(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return pair_squares(builder, y, out);
}

static weft_status build_regr_sxy(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    Expr *count;
    return pair_products(builder, y, x, &count, out);
}

static weft_status build_covar_pop(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    Expr *count, *products;
    TRY(pair_products(builder, y, x, &count, &products));
    return call2(builder, OP_DIV, products, count, out);
}

static weft_status build_covar_samp(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    Expr *count, *products;
    TRY(pair_products(builder, y, x, &count, &products));
    return of_sample(builder, products, count, out);
}

// FUNCTION of sxx, syy and sxy.
static weft_status of_all_three(const AggBuilder *builder, const char *function, Expr *y, Expr *x, Expr **out)
{
    Expr *count, *args[3];
    TRY(pair_squares(builder, x, &args[0]));
    TRY(pair_squares(builder, y, &args[1]));
    TRY(pair_products(builder, y, x, &count, &args[2]));
    return hidden(builder, function, args, 3, out);
}

static weft_status build_corr(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return of_all_three(builder, "correlation", y, x, out);
}

static weft_status build_regr_r2(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    return of_all_three(builder, "determination", y, x, out);
}

static weft_status build_regr_slope(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    Expr *count, *args[2];
    TRY(pair_squares(builder, x, &args[0]));
    TRY(pair_products(builder, y, x, &count, &args[1]));
    return hidden(builder, "slope", args, 2, out);
}

static weft_status build_regr_intercept(const AggBuilder *builder, Expr *y, Expr *x, Expr **out)
{
    Expr *both[2], *args[5];
    TRY(pair_squares(builder, x, &args[0]));
    TRY(pair_products(builder, y, x, &args[2], &args[1]));
    TRY(expr_cast(builder->arena, x, TYPE(DOUBLE), builder->at, &both[0], builder->err));
    TRY(expr_cast(builder->arena, y, TYPE(DOUBLE), builder->at, &both[1], builder->err));
    for (int i = 0; i < 2; i++) TRY(sum(builder, both[i], &args[3 + i]));
    return hidden(builder, "intercept", args, 5, out);
}

// ---- intervals ------------------------------------------------------------------------------------------------------
//
// Months, days and microseconds are summed apart, as PostgreSQL does.  Of differences of timestamps kernels know the
// parts, and there are no months among them.

static weft_status micros_per_day(const AggBuilder *builder, Op op, Expr *micros, Expr **out)
{
    const Value day = { .type = TYPE(BIGINT), .i = DAY_MICROS };
    return call2(builder, op, micros, expr_const(builder->arena, day, builder->at), out);
}

static weft_status interval_parts(const AggBuilder *builder, Expr *arg, Expr *parts[3])
{
    static const char *const names[] = { "interval_months", "interval_days", "interval_micros" };
    Expr                    *micros;
    if (!time_is_difference(arg)) {
        for (int i = 0; i < 3; i++) TRY(hidden(builder, names[i], &arg, 1, &parts[i]));
        return WEFT_OK;
    }
    TRY(time_difference(builder->arena, arg, builder->at, &micros, builder->err));
    parts[0] = NULL;
    TRY(micros_per_day(builder, OP_DIV, micros, &parts[1]));
    return micros_per_day(builder, OP_MOD, micros, &parts[2]);
}

static weft_status build_interval_sum(const AggBuilder *builder, Expr *arg, Expr **out)
{
    Expr *parts[3];
    TRY(interval_parts(builder, arg, parts));
    for (int i = 0; i < 3; i++) {
        if (parts[i]) TRY(sum(builder, parts[i], &parts[i]));
        else parts[i] = integer(builder, 0);
    }
    return hidden(builder, "interval_of", parts, 3, out);
}

static weft_status build_interval_avg(const AggBuilder *builder, Expr *arg, Expr **out)
{
    Expr *args[2], *part;
    TRY(build_interval_sum(builder, arg, &args[0]));
    if (time_is_difference(arg)) TRY(time_difference(builder->arena, arg, builder->at, &part, builder->err));
    else TRY(hidden(builder, "interval_micros", &arg, 1, &part));
    TRY(builder->add(builder->context, AGG_COUNT, part, &args[1]));
    return hidden(builder, "interval_div", args, 2, out);
}

static weft_status build_interval_extreme(const AggBuilder *builder, AggKind kind, Expr *arg, Expr **out)
{
    Expr *micros, *number;
    if (!time_is_difference(arg)) {
        TRY(interval_as_number(builder->arena, arg, builder->at, &number, builder->err));
        TRY(builder->add(builder->context, kind, number, out));
        return interval_of_stored(builder->arena, *out, builder->at, out, builder->err);
    }
    TRY(time_difference(builder->arena, arg, builder->at, &micros, builder->err));
    TRY(builder->add(builder->context, kind, micros, out));
    return hidden(builder, "interval_of_micros", out, 1, out);
}

static weft_status build_interval_min(const AggBuilder *builder, Expr *arg, Expr **out)
{
    return build_interval_extreme(builder, AGG_MIN, arg, out);
}

static weft_status build_interval_max(const AggBuilder *builder, Expr *arg, Expr **out)
{
    return build_interval_extreme(builder, AGG_MAX, arg, out);
}

static bool takes_interval(Type type) { return type.kind == TYPE_INTERVAL; }

// ---- the list -------------------------------------------------------------------------------------------------------

#define NUMBER_TO_DOUBLE .takes = type_is_number, .gives = "double precision"
#define PAIR(name, meaning)                                                                                     \
    { .names = { #name }, .usage = #name "(y, x)", .about = meaning, NUMBER_TO_DOUBLE, .build_pair = build_##name }

static const Aggregate aggregates[] = {
    { .names = { "count" }, .usage = "count(*), count(x)", .gives = "bigint",
      .about = "rows, or values that are not NULL", .takes = takes_any, .kind = AGG_COUNT, .type = give_count },
    { .names = { "sum" }, .usage = "sum(number)",
      .gives = "bigint, numeric or double precision",
      .about = "the sum, exact; of floats rounded once", .takes = type_is_number, .kind = AGG_SUM,
      .type = give_sum },
    { .names = { "min" }, .usage = "min(x)", .gives = "the argument's type", .about = "the smallest value",
      .takes = takes_order, .kind = AGG_MIN, .type = give_same, .ignores_repeats = true },
    { .names = { "max" }, .usage = "max(x)", .gives = "the argument's type", .about = "the largest value",
      .takes = takes_order, .kind = AGG_MAX, .type = give_same, .ignores_repeats = true },
    { .names = { "avg" }, .usage = "avg(number)", .about = "the mean", .kind = AGG_AVG, .type = give_average,
      .takes = type_is_number, .gives = "numeric, or double precision for floats" },
    { .names = { "stddev_samp", "stddev" }, .usage = "stddev_samp(number), stddev(number)", NUMBER_TO_DOUBLE,
      .about = "the standard deviation of a sample, of two at least", .build = build_stddev_samp },
    { .names = { "stddev_pop" }, .usage = "stddev_pop(number)", NUMBER_TO_DOUBLE,
      .about = "the standard deviation of all there is", .build = build_stddev_pop },
    { .names = { "var_samp", "variance" }, .usage = "var_samp(number), variance(number)", NUMBER_TO_DOUBLE,
      .about = "the variance of a sample, of two at least", .build = build_var_samp },
    { .names = { "var_pop" }, .usage = "var_pop(number)", NUMBER_TO_DOUBLE, .about = "the variance of all there is",
      .build = build_var_pop },
    { .names = { "bool_and", "every" }, .usage = "bool_and(boolean), every(boolean)", .gives = "boolean",
      .about = "whether all values are true", .takes = takes_boolean, .kind = AGG_MIN, .type = give_same,
      .ignores_repeats = true },
    { .names = { "bool_or" }, .usage = "bool_or(boolean)", .gives = "boolean", .about = "whether any value is true",
      .takes = takes_boolean, .kind = AGG_MAX, .type = give_same, .ignores_repeats = true },
    PAIR(corr, "the correlation, of rows where both are not NULL, as below"),
    PAIR(covar_pop, "the covariance of all there is"),
    PAIR(covar_samp, "the covariance of a sample, of two at least"),
    PAIR(regr_avgx, "the mean of x"),
    PAIR(regr_avgy, "the mean of y"),
    { .names = { "regr_count" }, .usage = "regr_count(y, x)", .gives = "bigint", .takes = type_is_number,
      .about = "rows where both are not NULL", .build_pair = build_regr_count },
    PAIR(regr_intercept, "y where x is 0, on the line of least squares"),
    PAIR(regr_r2, "the square of the correlation; 1 where all y are equal"),
    PAIR(regr_slope, "the slope of the line of least squares"),
    PAIR(regr_sxx, "the sum of the squares of x around its mean"),
    PAIR(regr_sxy, "the sum of the products of x and y around their means"),
    PAIR(regr_syy, "the sum of the squares of y around its mean"),
};

static const Aggregate of_intervals[] = {
    { .names = { "sum" }, .takes = takes_interval, .build = build_interval_sum },
    { .names = { "avg" }, .takes = takes_interval, .build = build_interval_avg },
    { .names = { "min" }, .takes = takes_interval, .build = build_interval_min },
    { .names = { "max" }, .takes = takes_interval, .build = build_interval_max },
};

const Aggregate *aggregate_of_interval(const char *name)
{
    for (int i = 0; i < COUNT_OF(of_intervals); i++)
        if (strcmp(of_intervals[i].names[0], name) == 0) return &of_intervals[i];
    return NULL;
}

const Aggregate *aggregate_at(int i)
{
    return i < COUNT_OF(aggregates) ? &aggregates[i] : NULL;
}

const Aggregate *aggregate_find(const char *name)
{
    for (int i = 0; i < COUNT_OF(aggregates); i++)
        for (int n = 0; n < COUNT_OF(aggregates[i].names) && aggregates[i].names[n]; n++)
            if (strcmp(aggregates[i].names[n], name) == 0) return &aggregates[i];
    return NULL;
}

bool aggregate_is_built(const Aggregate *aggregate)
{
    return aggregate->build || aggregate->build_pair;
}

weft_status aggregate_build(const Aggregate *aggregate, const AggBuilder *builder, Expr *const *args, Expr **out)
{
    if (aggregate->build_pair) return aggregate->build_pair(builder, args[0], args[1], out);
    return aggregate->build(builder, args[0], out);
}

static const Aggregate *aggregate_of(AggKind kind)
{
    for (int i = 0; i < COUNT_OF(aggregates); i++)
        if (!aggregate_is_built(&aggregates[i]) && aggregates[i].kind == kind) return &aggregates[i];
    return NULL;
}

const char *agg_name(AggKind kind)
{
    if (kind == AGG_ANY) return "any";
    if (kind == AGG_SUM_REST) return "sum_rest";
    return aggregate_of(kind == AGG_COUNT_ALL ? AGG_COUNT : kind)->names[0];
}

weft_status aggregate_check(const Aggregate *aggregate, const char *name, const Expr *arg, int at, Error *err)
{
    char buffer[32];
    if (!arg || aggregate->takes(arg->type)) return WEFT_OK;
    return fail(err, WEFT_UNDEFINED_FUNCTION, at, "function %s(%s) does not exist", name,
                type_label(arg->type, buffer));
}

Agg aggregate_make(const Aggregate *aggregate, AggKind kind, Expr *arg, int at)
{
    return (Agg){ .kind = kind, .arg = arg, .type = aggregate->type(arg ? arg->type : TYPE(BIGINT)), .at = at };
}

weft_status expr_agg(AggKind kind, Expr *arg, int at, Agg *out, Error *err)
{
    const Aggregate *aggregate = aggregate_of(kind == AGG_COUNT_ALL  ? AGG_COUNT
                                              : kind == AGG_ANY      ? AGG_MAX
                                              : kind == AGG_SUM_REST ? AGG_SUM
                                                                     : kind);
    if (kind != AGG_ANY) TRY(aggregate_check(aggregate, agg_name(kind), arg, at, err));
    *out = aggregate_make(aggregate, kind, arg, at);
    return WEFT_OK;
}
