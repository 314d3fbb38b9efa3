// bind_series.c - functions that give rows: generate_series and unnest, in FROM and in the select list.
//
// A few rows of constants are VALUES, and so are those with steps of months.  Many rows are made when the query runs, in
// memory that memory_limit counts and temporary files can take; so are those of other values: generate_series(a, b) is
//
//     project a + k - 1
//       window k = row_number()
//         project n copies of a row, n = series_count(a, b, 1)
//           one row
//
// and where a and b are columns of what stands before it in FROM, it is a correlated query as any other: the rewrites
// compute it once for each a and b.

#include "plan/functions.h"
#include "plan/time.h"
#include "plan/window.h"
#include "sql/sql_int.h"

enum { SERIES_MOST = 10 << 20, SERIES_LISTED = 1 << 15 };

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

static weft_status check_types(Binder *binder, Expr **args, int n_args, int at, Type *type)
{
    char buffer[32];
    TRY(settle(binder, args, n_args, at, type));
    const bool is_stamp = type->kind == TYPE_TIMESTAMP || type->kind == TYPE_TIMESTAMPTZ;
    if ((is_exact_kind(*type) || is_stamp) && (!is_stamp || n_args == 3)) return WEFT_OK;
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at, "function generate_series of %s with %d arguments does "
                "not exist", type_name(*type, buffer), n_args);
}

static void read_series(Expr *const *args, int n_args, Series *series)
{
    const bool is_stamp = !is_exact_kind(series->type);
    series->first = args[0]->value, series->last = args[1]->value;
    series->step = n_args == 3 ? args[2]->value : (Value){ .type = series->type, .i = one_of(series->type) };
    const i128 size = is_stamp ? interval_micros(&series->step) : series->step.i;
    series->sign = (size > 0) - (size < 0);
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

static Value *list_rows(Binder *binder, const Series *series, u64 n_rows)
{
    i128   value = series->first.i;
    Value *rows = arena_array(binder->arena, Value, n_rows + 1);
    for (u64 i = 0; i < n_rows; i++) {
        rows[i] = (Value){ .type = series->type, .i = value };
        (void)advance(series, &value);
    }
    return rows;
}

// How many rows constants give.
static weft_status count_constant_rows(Binder *binder, Expr *const *args, int n_args, Series *series, int at,
                                       u64 *n_rows)
{
    bool has_null = false;
    for (int i = 0; i < n_args; i++) has_null |= args[i]->value.is_null;
    read_series(args, n_args, series);
    if (!has_null && !series->sign) return zero_step(binder, at);
    *n_rows = has_null ? 0 : count_rows(series);
    if (*n_rows <= SERIES_MOST) return WEFT_OK;
    return fail(binder->err, WEFT_TOO_LONG, at, "generate_series can give at most %d rows", SERIES_MOST);
}

static void constant_rows(Binder *binder, const Series *series, u64 n_rows, const char *name, Node **out)
{
    const int column = plan_add_column(binder->plan, series->type, name, NULL);
    columns_add(binder->arena, &binder->not_null, column);
    *out = plan_values(binder->plan, n_rows, 1, &column, list_rows(binder, series, n_rows));
}

// ---- values that are not constant -----------------------------------------------------------------------------------

// One row, as often as COUNT says; NULL: not at all.  *OUT gives each one its number, from 1 on.
static weft_status number_copies(Binder *binder, Expr *count, int at, Node **out, Expr **number)
{
    Plan    *plan = binder->plan;
    Expr   **exprs = arena_array(binder->arena, Expr *, 1), **passed = arena_array(binder->arena, Expr *, 1);
    Windows *windows = arena_make(binder->arena, Windows);
    TRY(bind_call(binder, OP_COALESCE, count, expr_const(binder->arena, (Value){ .type = TYPE(BIGINT) }, at), at,
                  &exprs[0]));
    const int n = plan_add_column(plan, TYPE(BIGINT), "rows", NULL);
    const int k = plan_add_column(plan, TYPE(BIGINT), "number", NULL);
    Node     *node = plan_project(plan, plan_values(plan, 1, 0, NULL, NULL), exprs, &n, 1);
    passed[0] = plan_column_expr(plan, n, at);
    node = plan_project(plan, node, passed, &n, 1);
    node->copies = n;
    windows->n_orders = windows->n_funcs = 1;
    windows->orders = arena_array(binder->arena, WindowOrder, 1);
    windows->funcs = arena_array(binder->arena, WindowFunc, 1);
    windows->funcs[0] = (WindowFunc){ .kind = WINDOW_ROW_NUMBER, .type = TYPE(BIGINT), .column = k, .arg = -1, .n = -1,
                                      .frame = frame_default(), .name = "row_number", .at = at };
    *out = plan_window(plan, node, NULL, 0, windows);
    *number = plan_column_expr(plan, k, at);
    return WEFT_OK;
}

static weft_status hidden_call(Binder *binder, const char *name, Expr *a, Expr *b, Expr *c, int at, Expr **out)
{
    Expr *args[3] = { a, b, c };
    return expr_call(binder->arena, function_find_hidden(name), args, 3, at, out, binder->err);
}

static weft_status value_at(Binder *binder, Type type, Expr *const *args, Expr *number, int at, Expr **out)
{
    Expr *before, *shift;
    if (!is_exact_kind(type)) return hidden_call(binder, "series_time", args[0], args[2], number, at, out);
    TRY(bind_call(binder, OP_SUB, number, term_integer(binder, 1, at), at, &before));
    TRY(bind_call(binder, OP_MUL, before, args[2], at, &shift));
    TRY(bind_call(binder, OP_ADD, args[0], shift, at, out));
    return expr_cast(binder->arena, *out, type, at, out, binder->err);
}

static weft_status computed_rows(Binder *binder, Expr **given, int n_args, Type type, const char *name, int at,
                                 Node **out)
{
    Expr *args[3] = { given[0], given[1], n_args == 3 ? given[2] : NULL }, *count, *number;
    Expr **exprs = arena_array(binder->arena, Expr *, 1);
    if (!args[2]) args[2] = expr_const(binder->arena, (Value){ .type = type, .i = one_of(type) }, at);
    TRY(hidden_call(binder, is_exact_kind(type) ? "series_count" : "series_time_count", args[0], args[1], args[2], at,
                    &count));
    TRY(number_copies(binder, count, at, out, &number));
    TRY(value_at(binder, type, args, number, at, &exprs[0]));
    const int column = plan_add_column(binder->plan, type, name, NULL);
    *out = plan_project(binder->plan, *out, exprs, &column, 1);
    return WEFT_OK;
}

static weft_status bind_series(Binder *binder, const PgQuery__FuncCall *call, const char *name, Node **out)
{
    const int at = call->location, n_args = (int)call->n_args;
    Expr     *args[3];
    Series    series;
    bool      is_const = true;
    if (n_args != 2 && n_args != 3)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at,
                    "function generate_series with %d arguments does not exist", n_args);
    for (int i = 0; i < n_args; i++) TRY(binder->bind_expr(binder, call->args[i], &args[i]));
    TRY(check_types(binder, args, n_args, at, &series.type));
    for (int i = 0; i < n_args; i++) is_const &= args[i]->kind == EXPR_CONST;
    u64 n_rows = 0;
    if (is_const) TRY(count_constant_rows(binder, args, n_args, &series, at, &n_rows));
    const bool is_even = is_const && (is_exact_kind(series.type) || series_is_even(series.type, &series.step));
    if (!is_const || (n_rows > SERIES_LISTED && is_even)) {
        TRY(computed_rows(binder, args, n_args, series.type, name, at, out));
        if (is_const) columns_add(binder->arena, &binder->not_null, (*out)->out[0]);
        return WEFT_OK;
    }
    constant_rows(binder, &series, n_rows, name, out);
    return WEFT_OK;
}

// ---- unnest ---------------------------------------------------------------------------------------------------------

static weft_status bind_unnest(Binder *binder, const PgQuery__FuncCall *call, const char *name, Node **out)
{
    const int at = call->location;
    Expr    **list;
    int       n;
    bool      is_null;
    if (call->n_args != 1) return refuse(binder, at, "unnest of several arrays");
    TRY(bind_array(binder, call->args[0], &list, &n, &is_null));
    for (int i = 0; i < n; i++) {
        TRY(bind_settle(binder, list[i], &list[i]));
        if (!expr_is_const(list[i])) return refuse(binder, at, "unnest of values that are not constant");
    }
    Value    *values = arena_array(binder->arena, Value, n + 1);
    const int column = plan_add_column(binder->plan, n ? list[0]->type : TYPE(TEXT), name, NULL);
    for (int i = 0; i < n; i++) {
        values[i] = list[i]->value;
        values[i].type = list[i]->type;
    }
    *out = plan_values(binder->plan, (u64)n, 1, &column, values);
    return WEFT_OK;
}

// ---- both -----------------------------------------------------------------------------------------------------------

bool bind_gives_rows(const char *name) { return strcmp(name, "generate_series") == 0 || strcmp(name, "unnest") == 0; }

weft_status bind_rows_of(Binder *binder, const PgQuery__FuncCall *call, const char *function, const char *name,
                         Node **out)
{
    return *function == 'u' ? bind_unnest(binder, call, name, out) : bind_series(binder, call, name, out);
}

// In the select list: the rows of the query, each with every row of the function.
weft_status bind_rows_in_list(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const int at = call->location;
    Block    *block = binder->place.block;
    Mark      mark = { .kind = MARK_ROWS, .at = at };
    if (!block || !binder->place.clause || strcmp(binder->place.clause, "SELECT") != 0 || binder->place.in_agg ||
        binder->place.in_window)
        return fail(binder->err, WEFT_UNSUPPORTED, at, "set-returning functions are not allowed in %s",
                    binder->place.clause && strcmp(binder->place.clause, "SELECT") ? binder->place.clause
                                                                                   : "this context");
    for (int i = 0; i < block->n_marks; i++)
        if (block->marks[i].kind == MARK_ROWS)
            return refuse(binder, at, "a second set-returning function in a select list");
    TRY(bind_rows_of(binder, call, name, name, &mark.rows));
    return add_mark(binder, mark, out);
}
