// bind_series.c - generate_series in FROM: its rows, as constants.

#include "plan/functions.h"
#include "plan/time.h"
#include "sql/sql_int.h"

enum { SERIES_MOST = 10 << 20 };

typedef struct Series {
    Type  type;
    Value first, last, step;
    int   sign;                        // of the step
} Series;

static weft_status zero_step(Binder *binder, int at)
{
    return fail(binder->err, WEFT_INVALID_PARAMETER, at, "step size cannot equal zero");
}

// The type of all three, or of the first two where the step is an interval.
static weft_status settle(Binder *binder, Expr **args, int n_args, int at, Type *type)
{
    const bool is_time = type_is_time(args[0]->type) || type_is_time(args[1]->type);
    if (!is_time) {
        TRY(expr_unify(binder->arena, args, n_args, 1, "generate_series", at, binder->err));
        *type = args[0]->type;
        return WEFT_OK;
    }
    TRY(expr_unify(binder->arena, args, 2, 1, "generate_series", at, binder->err));
    *type = args[0]->type.kind == TYPE_DATE ? bind_zoned(binder) : args[0]->type;
    for (int i = 0; i < 2; i++) TRY(expr_cast(binder->arena, args[i], *type, at, &args[i], binder->err));
    return n_args == 3 ? expr_coerce(binder->arena, args[2], TYPE(INTERVAL), at, &args[2], binder->err) : WEFT_OK;
}

static bool is_exact_kind(Type type)
{
    return type_is_integer(type) || type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
}

static i128 one_of(Type type)
{
    const bool has_scale = type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC;
    return has_scale ? (i128)power_of_ten(MIN_OF(type.scale, 18)) : 1;
}

static weft_status read_series(Binder *binder, Expr **args, int n_args, int at, Series *series)
{
    char buffer[32];
    TRY(settle(binder, args, n_args, at, &series->type));
    const bool is_stamp = series->type.kind == TYPE_TIMESTAMP || series->type.kind == TYPE_TIMESTAMPTZ;
    if ((!is_exact_kind(series->type) && !is_stamp) || (is_stamp && n_args < 3))
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function generate_series of %s with %d arguments does "
                    "not exist", type_name(series->type, buffer), n_args);
    series->first = args[0]->value, series->last = args[1]->value;
    series->step = n_args == 3 ? args[2]->value : (Value){ .type = series->type, .i = one_of(series->type) };
    const i128 size = is_stamp ? interval_micros(&series->step) : series->step.i;
    series->sign = (size > 0) - (size < 0);
    return WEFT_OK;
}

static bool is_past(const Series *series, i128 at)
{
    return series->sign > 0 ? at > series->last.i : at < series->last.i;
}

// False: past all numbers there are.
static bool advance(const Series *series, i128 *at)
{
    i64 stamp;
    switch ((TypeKind)series->type.kind) {
        case TYPE_TIMESTAMP:
            if (!timestamp_shift((i64)*at, &series->step, 1, &stamp)) return false;
            break;
        case TYPE_TIMESTAMPTZ:
            if (!timestamptz_shift(series->type.scale, (i64)*at, &series->step, 1, &stamp)) return false;
            break;
        default: *at += series->step.i; return true;
    }
    const bool moves = series->sign > 0 ? stamp > *at : stamp < *at;           // '1 mon -30 days' may stand still
    *at = stamp;
    return moves;
}

// Stops behind the most there may be.
static u64 count_rows(const Series *series)
{
    u64 n = 0;
    for (i128 value = series->first.i; n <= SERIES_MOST && !is_past(series, value);) {
        n++;
        if (!advance(series, &value)) break;
    }
    return n;
}

// Counted first: a series that is refused takes no memory, and a list that grew would leave what it grew from.
static weft_status list_rows(Binder *binder, const Series *series, int at, Value **rows, u64 *n_rows)
{
    i128 value = series->first.i;
    *n_rows = count_rows(series);
    if (*n_rows > SERIES_MOST)
        return fail(binder->err, WEFT_TOO_LONG, at, "generate_series can give at most %d rows", SERIES_MOST);
    *rows = arena_array(binder->arena, Value, *n_rows + 1);
    for (u64 i = 0; i < *n_rows; i++) {
        (*rows)[i] = (Value){ .type = series->type, .i = value };
        (void)advance(series, &value);
    }
    return WEFT_OK;
}

weft_status bind_series(Binder *binder, const PgQuery__FuncCall *call, const char *name, Node **out)
{
    const int at = call->location, n_args = (int)call->n_args;
    Expr     *args[3];
    Series    series;
    Value    *rows = NULL;
    u64       n_rows = 0;
    bool      has_null = false;
    if (n_args != 2 && n_args != 3)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at,
                    "function generate_series with %d arguments does not exist", n_args);
    for (int i = 0; i < n_args; i++) {
        TRY(binder->bind_expr(binder, call->args[i], &args[i]));
        if (args[i]->kind != EXPR_CONST) return refuse(binder, at, "generate_series of values that are not constant");
        has_null |= args[i]->value.is_null;
    }
    TRY(read_series(binder, args, n_args, at, &series));
    if (!has_null && !series.sign) return zero_step(binder, at);
    if (!has_null) TRY(list_rows(binder, &series, at, &rows, &n_rows));
    const int column = plan_add_column(binder->plan, series.type, name, NULL);
    columns_add(binder->arena, &binder->not_null, column);
    *out = plan_values(binder->plan, n_rows, 1, &column, rows);
    return WEFT_OK;
}
