// bind_func.c - function calls: aggregates, a few scalar functions, and a name for each that is missing.

#include "plan/aggregates.h"
#include "plan/functions.h"
#include "plan/manual.h"
#include "plan/window.h"
#include "sql/sql_int.h"

// ---- aggregates -----------------------------------------------------------------------------------------------------

static bool same_agg(const Agg *a, const Agg *b)
{
    if (a->kind != b->kind || a->is_distinct != b->is_distinct) return false;
    return a->kind == AGG_COUNT_ALL || expr_equal(a->arg, b->arg);
}

// A column of OWNER is named in this query and all those between.
static void name_in_blocks(Binder *binder, const Block *owner, int column)
{
    for (Block *inner = binder->place.block; inner != owner; inner = inner->around)
        columns_add(binder->arena, &inner->outer, column);
}

// The same aggregate twice is computed once.
weft_status bind_add_agg(Binder *binder, Block *block, const Agg *agg, const char *name, Expr **out)
{
    int index = 0;
    while (index < block->n_aggs && !same_agg(&block->aggs[index].agg, agg)) index++;
    if (index == AGGS_MAX)
        return fail(binder->err, WEFT_TOO_MANY_COLUMNS, agg->at, "a query can have at most %d different aggregates",
                    AGGS_MAX);
    if (index == block->n_aggs) {
        const int column = plan_add_column(binder->plan, agg->type, name, NULL);
        *LIST_PUSH(binder->arena, block->aggs, block->n_aggs) = (BoundAgg){ *agg, column };
        Agg *kept = arena_make(binder->arena, Agg);         // the list may move
        *kept = *agg;
        binder->plan->columns[column].agg = kept;
        if (agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL) columns_add(binder->arena, &binder->not_null, column);
        if (agg->arg) TRY(bind_count(binder, agg->arg));
    }
    *out = plan_column_expr(binder->plan, block->aggs[index].column, agg->at);
    name_in_blocks(binder, block, (*out)->column);
    return WEFT_OK;
}

static weft_status refuse_agg_options(Binder *binder, const PgQuery__FuncCall *call)
{
    const int at = call->location;
    if (call->agg_within_group)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at,
                    "an aggregate that is no ordered-set aggregate cannot have WITHIN GROUP");
    if (call->n_agg_order) return refuse(binder, at, "ORDER BY in an aggregate");
    if (call->func_variadic) return refuse(binder, at, "VARIADIC");
    return WEFT_OK;
}

static weft_status no_such_aggregate(Binder *binder, const PgQuery__FuncCall *call, const char *name)
{
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s with %zu argument%s does not exist",
                name, call->n_args, call->n_args == 1 ? "" : "s");
}

// The argument; NULL for count(*).
static weft_status bind_agg_arg(Binder *binder, const PgQuery__FuncCall *call, const char *name,
                                const Aggregate *aggregate, AggKind *kind, Expr **arg)
{
    const int at = call->location;
    *arg = NULL;
    if (call->agg_star && *kind == AGG_COUNT) {
        *kind = AGG_COUNT_ALL;
        return WEFT_OK;
    }
    if (call->n_args == 0 && *kind == AGG_COUNT)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, at,
                    "count(*) must be used to call a parameterless aggregate function");
    if (call->n_args != 1) return no_such_aggregate(binder, call, name);
    TRY(binder->bind_expr(binder, call->args[0], arg));
    TRY(expr_refuse_long(*arg, binder->err));
    if (aggregate->takes(TYPE(TEXT))) TRY(bind_settle(binder, *arg, arg));
    if (*kind == AGG_COUNT && !call->agg_distinct && expr_is_const(*arg) && !(*arg)->value.is_null)
        *kind = AGG_COUNT_ALL, *arg = NULL;                 // count(1)
    return WEFT_OK;
}

// sum(x) filter (where c) is sum(case when c then x end).
weft_status bind_agg_filter(Binder *binder, const ParseNode *filter, AggKind *kind, Expr **arg)
{
    const int at = node_at(filter);
    char      buffer[32];
    Expr     *condition;
    binder->place.clause = "FILTER";
    binder->place.allows_aggs = binder->place.allows_windows = false;
    TRY(binder->bind_expr(binder, filter, &condition));
    if (condition->type.kind != TYPE_BOOLEAN && condition->type.kind != TYPE_NULL)
        return fail(binder->err, WEFT_TYPE_MISMATCH, at, "argument of FILTER must be type boolean, not type %s",
                    type_name(condition->type, buffer));
    if (*kind == AGG_COUNT_ALL) *kind = AGG_COUNT, *arg = term_integer(binder, 1, at);
    Expr *args[3] = { condition, *arg, term_null(binder, at) };
    return expr_case(binder->arena, args, 3, at, arg, binder->err);
}

// y and x; a literal becomes a double.
static weft_status bind_pair(Binder *binder, const PgQuery__FuncCall *call, const char *name,
                             const Aggregate *aggregate, Expr *args[2])
{
    char y_type[32], x_type[32];
    if (call->n_args != 2) return no_such_aggregate(binder, call, name);
    for (int i = 0; i < 2; i++) {
        TRY(binder->bind_expr(binder, call->args[i], &args[i]));
        if (args[i]->type.kind == TYPE_NULL)
            TRY(expr_coerce(binder->arena, args[i], TYPE(DOUBLE), args[i]->at, &args[i], binder->err));
    }
    if (aggregate->takes(args[0]->type) && aggregate->takes(args[1]->type)) return WEFT_OK;
    return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s(%s, %s) does not exist", name,
                type_name(args[0]->type, y_type), type_name(args[1]->type, x_type));
}

// case when OTHER is not null then ARG end
static weft_status null_with(Binder *binder, Expr *arg, Expr *other, Expr **out)
{
    Expr *args[3] = { NULL, arg, term_null(binder, arg->at) };
    TRY(bind_call(binder, OP_IS_NOT_NULL, other, NULL, arg->at, &args[0]));
    return expr_case(binder->arena, args, 3, arg->at, out, binder->err);
}

// The sum and the average of times are intervals.
static weft_status sum_time(Binder *binder, const char *name, Expr **arg)
{
    const bool is_sum = strcmp(name, "sum") == 0 || strcmp(name, "avg") == 0;
    if (!*arg || (*arg)->type.kind != TYPE_TIME || !is_sum) return WEFT_OK;
    return expr_cast(binder->arena, *arg, TYPE(INTERVAL), (*arg)->at, arg, binder->err);
}

// A row counts where both arguments are not NULL, so either is NULL where the other is.
weft_status bind_agg_args(Binder *binder, const PgQuery__FuncCall *call, const char *name, const Aggregate *aggregate,
                          AggKind *kind, Expr *args[2])
{
    Expr *both[2];
    if (!aggregate->build_pair) {
        TRY(bind_agg_arg(binder, call, name, aggregate, kind, &args[0]));
        TRY(sum_time(binder, name, &args[0]));
        return call->agg_filter ? bind_agg_filter(binder, call->agg_filter, kind, &args[0]) : WEFT_OK;
    }
    TRY(bind_pair(binder, call, name, aggregate, both));
    if (call->agg_filter) TRY(bind_agg_filter(binder, call->agg_filter, kind, &both[0]));
    TRY(null_with(binder, both[0], both[1], &args[0]));
    return null_with(binder, both[1], both[0], &args[1]);
}

typedef struct AggOwner { Binder *binder; Block *block; } AggOwner;

static weft_status add_part(void *context, AggKind kind, Expr *arg, Expr **out)
{
    const AggOwner *owner = context;
    Agg             agg;
    TRY(expr_agg(kind, arg, arg->at, &agg, owner->binder->err));
    return bind_add_agg(owner->binder, owner->block, &agg, agg_name(kind), out);
}

// One that is built from others.
static weft_status build_agg(Binder *binder, Block *block, const PgQuery__FuncCall *call, const char *name,
                             const Aggregate *aggregate, Expr *const *args, Expr **out)
{
    AggOwner         owner = { binder, block };
    const AggBuilder builder = { binder->arena, call->location, binder->err, add_part, &owner };
    if (call->agg_distinct) return refuse(binder, call->location, arena_printf(binder->arena, "%s(DISTINCT)", name));
    return aggregate_build(aggregate, &builder, args, out);
}

weft_status bind_joined_args(Binder *binder, const PgQuery__FuncCall *call, Expr *args[2])
{
    char first[32], second[32];
    if (call->func_variadic) return refuse(binder, call->location, "VARIADIC");
    if (call->n_args != 2 || call->agg_star) return no_such_aggregate(binder, call, "string_agg");
    for (int i = 0; i < 2; i++) {
        TRY(binder->bind_expr(binder, call->args[i], &args[i]));
        TRY(bind_settle(binder, args[i], &args[i]));
        TRY(bind_count(binder, args[i]));
    }
    const bool has_uuid = type_is_uuid(args[0]->type) || type_is_uuid(args[1]->type);
    if (args[0]->type.kind == TYPE_TEXT && args[1]->type.kind == TYPE_TEXT && !has_uuid) return WEFT_OK;
    fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function string_agg(%s, %s) does not exist",
         type_name(args[0]->type, first), type_name(args[1]->type, second));
    error_hint(binder->err, "A cast may make the types fit.");
    return WEFT_UNDEFINED_FUNCTION;
}

// ---- the query that an aggregate belongs to -------------------------------------------------------------------------

static weft_status none_in(Binder *binder, const char *what, const char *clause, int at)
{
    return fail(binder->err, WEFT_GROUPING_ERROR, at, "%s are not allowed in %s", what,
                clause ? clause : "this context");
}

weft_status bind_no_agg_here(Binder *binder, int at)
{
    return none_in(binder, "aggregate functions", binder->place.clause, at);
}

// Aggregates of the block, and calls of grouping().
static bool names_agg(const Block *block, const Expr *expr)
{
    for (int a = 0; a < block->n_aggs && expr->kind == EXPR_COLUMN; a++)
        if (block->aggs[a].column == expr->column) return true;
    for (int g = 0; g < block->n_groupings && expr->kind == EXPR_COLUMN; g++)
        if (block->groupings[g].column == expr->column) return true;
    for (int i = 0; i < expr->n_args; i++)
        if (names_agg(block, expr->args[i])) return true;
    return false;
}

// PLACE: that of the call in the owner's clause, by way of subqueries or not.
static weft_status check_place(Binder *binder, const AggPlace *agg, const Place *place)
{
    if (!place) return none_in(binder, agg->what, "FROM clause of their own query level", agg->at);
    if (!place->allows_aggs) return none_in(binder, agg->what, place->clause, agg->at);
    if (place->in_agg)
        return fail(binder->err, WEFT_GROUPING_ERROR, agg->at, "aggregate function calls cannot be nested");
    return WEFT_OK;
}

static weft_status begin_call(Binder *binder, const char *what, int at, AggPlace *agg)
{
    Block *const block = binder->place.block;
    *agg = (AggPlace){ .place = binder->place, .first = binder->n_named, .at = at, .what = what };
    if (!block) return none_in(binder, what, binder->place.clause, at);
    if (!block->around) TRY(check_place(binder, agg, &binder->place));
    agg->n_marks = block->n_marks;
    binder->place.in_agg = true;
    return WEFT_OK;
}

weft_status begin_agg(Binder *binder, int at, AggPlace *agg)
{
    return begin_call(binder, "aggregate functions", at, agg);
}

bool again_for_owner(Binder *binder, AggPlace *agg, Expr *const *args, int n_args)
{
    Block *const own = agg->place.block;
    bool         fits = true;
    agg->owner = named_owner(binder, agg->first);
    for (int i = 0; i < n_args && agg->owner != own; i++)
        fits &= !args[i] || expr_uses_only(args[i], &own->outer);
    if (fits) return false;
    own->n_marks = agg->n_marks, binder->n_named = agg->first;
    binder->place = (Place){ .block = agg->owner, .scope = &agg->owner->scope, .clause = agg->place.clause,
                             .in_agg = true };
    return true;
}

weft_status end_agg(Binder *binder, AggPlace *agg, Expr *const *args, int n_args)
{
    const bool is_own = agg->owner == agg->place.block;
    binder->place = agg->place;
    named_in_agg(binder, agg->first, agg->owner);
    TRY(check_place(binder, agg, is_own ? &agg->place : agg->owner->asks));
    for (int i = 0; i < n_args; i++)
        if (args[i] && names_agg(agg->owner, args[i]))
            return fail(binder->err, WEFT_GROUPING_ERROR, agg->at, "aggregate function calls cannot be nested");
    return WEFT_OK;
}

static weft_status bind_agg(Binder *binder, const PgQuery__FuncCall *call, const char *name,
                            const Aggregate *aggregate, Expr **out)
{
    const int     at = call->location, n_args = aggregate->build_pair ? 2 : 1;
    const AggKind own = aggregate_is_built(aggregate) ? AGG_SUM : aggregate->kind;
    AggKind       kind = own;
    Expr         *args[2];
    AggPlace      place;
    TRY(refuse_agg_options(binder, call));
    TRY(begin_agg(binder, at, &place));
    TRY(bind_agg_args(binder, call, name, aggregate, &kind, args));
    if (again_for_owner(binder, &place, args, n_args)) {
        kind = own;
        TRY(bind_agg_args(binder, call, name, aggregate, &kind, args));
    }
    TRY(end_agg(binder, &place, args, n_args));
    if (args[0] && args[0]->type.kind == TYPE_INTERVAL && kind == AGG_COUNT && !aggregate_is_built(aggregate))
        TRY(interval_as_length(binder->arena, args[0], at, &args[0], binder->err));
    Expr *const arg = args[0];
    if (arg && arg->type.kind == TYPE_INTERVAL && aggregate_of_interval(name)) aggregate = aggregate_of_interval(name);
    TRY(aggregate_check(aggregate, name, arg, at, binder->err));
    if (aggregate_is_built(aggregate)) return build_agg(binder, place.owner, call, name, aggregate, args, out);
    Agg agg = aggregate_make(aggregate, kind, arg, at);
    agg.is_distinct = call->agg_distinct && !aggregate->ignores_repeats;
    return bind_add_agg(binder, place.owner, &agg, name, out);
}

static weft_status bind_grouping_args(Binder *binder, const PgQuery__GroupingFunc *call, GroupingCall *grouping)
{
    for (int i = 0; i < grouping->n_args; i++) {
        TRY(binder->bind_expr(binder, call->args[i], &grouping->args[i]));
        TRY(bind_settle(binder, grouping->args[i], &grouping->args[i]));
    }
    return WEFT_OK;
}

// What is no key among the arguments, bind_sets.c finds.
weft_status bind_grouping(Binder *binder, const PgQuery__GroupingFunc *call, Expr **out)
{
    const int    at = call->location, n = (int)call->n_args;
    GroupingCall grouping = { .n_args = n, .at = at, .args = arena_array(binder->arena, Expr *, n + 1) };
    AggPlace     place;
    TRY(begin_call(binder, "grouping operations", at, &place));
    if (n > 31) return fail(binder->err, WEFT_TOO_MANY_COLUMNS, at, "GROUPING must have fewer than 32 arguments");
    TRY(bind_grouping_args(binder, call, &grouping));
    if (again_for_owner(binder, &place, grouping.args, n)) TRY(bind_grouping_args(binder, call, &grouping));
    TRY(end_agg(binder, &place, grouping.args, n));
    grouping.column = plan_add_column(binder->plan, TYPE(INTEGER), "grouping", NULL);
    columns_add(binder->arena, &binder->not_null, grouping.column);
    *LIST_PUSH(binder->arena, place.owner->groupings, place.owner->n_groupings) = grouping;
    *out = plan_column_expr(binder->plan, grouping.column, at);
    name_in_blocks(binder, place.owner, grouping.column);
    return WEFT_OK;
}

// ---- other functions ------------------------------------------------------------------------------------------------

// What a text says is the clock of the session's zone, what a number says is UTC.
static weft_status bind_stamp_result(Binder *binder, Expr **args, int n_args, int at, Expr **out)
{
    Type       type = bind_zoned(binder);
    const bool is_local = n_args > 0 && (args[0]->type.kind == TYPE_TEXT || args[0]->type.kind == TYPE_NULL);
    if (is_local && type.scale) {
        TRY(expr_cast(binder->arena, *out, TYPE(TIMESTAMP), at, out, binder->err));
        return expr_cast(binder->arena, *out, type, at, out, binder->err);
    }
    *out = bind_shown_in(binder, *out, type);
    return WEFT_OK;
}

// round(x::numeric, n) of a float is round(x, n), which is known for digits behind the point: a numeric with all its
// digits would have no one scale.
static weft_status bind_rounded(Binder *binder, const PgQuery__TypeCast *cast, bool *is_left, Expr **out)
{
    TypeDetail detail;
    TRY(bind_type(binder, cast->type_name, &detail));
    TRY(binder->bind_expr(binder, cast->arg, out));
    *is_left = detail.is_bare && type_is_float((*out)->type);
    return *is_left ? WEFT_OK : bind_cast(binder, cast, *out, out);
}

static bool is_text(const Expr *expr) { return expr->type.kind == TYPE_TEXT; }

// substring(text similar pattern escape '#') and substring(text from pattern for '#') are calls with three texts.
static bool takes_similar(const char *name, Expr *const *args, int n_args)
{
    if (n_args != 3 || strcmp(name, "substring") != 0) return false;
    const bool are_open = args[1]->type.kind == TYPE_NULL && args[2]->type.kind == TYPE_NULL;
    return are_open || is_text(args[1]) || is_text(args[2]);
}

// The digits of round and trunc decide which function it is, and a parameter may have no type.
static weft_status settle_digits(Binder *binder, const char *name, Expr **args, int n_args)
{
    const bool is_ours = n_args == 2 && (strcmp(name, "round") == 0 || strcmp(name, "trunc") == 0);
    if (!is_ours || args[1]->kind != EXPR_CONST || args[1]->type.kind != TYPE_NULL) return WEFT_OK;
    return expr_coerce(binder->arena, args[1], TYPE(INTEGER), args[1]->at, &args[1], binder->err);
}

static weft_status bind_scalar(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    Expr *args[FUNCTION_ARGS];
    const int n_args = (int)call->n_args;
    bool is_rounded_float = false;     // its cast to numeric was left out
    for (int i = 0; i < n_args; i++) {
        const bool is_rounded = i == 0 && n_args == 2 && strcmp(name, "round") == 0 &&
                                call->args[0]->node_case == PG_QUERY__NODE__NODE_TYPE_CAST;
        if (is_rounded) TRY(bind_rounded(binder, call->args[0]->type_cast, &is_rounded_float, &args[0]));
        else TRY(binder->bind_expr(binder, call->args[i], &args[i]));
    }
    TRY(settle_digits(binder, name, args, n_args));
    Op op = function_find(name, args, n_args);
    if (op == OP_N && is_rounded_float) {                   // to tens, hundreds
        TRY(bind_bare_numeric(binder, args[0], call->location, &args[0]));
        op = function_find(name, args, n_args);
    }
    if (takes_similar(name, args, n_args))
        return refuse(binder, call->location, "substring with a pattern of SIMILAR TO");
    if (op == OP_N) return bind_no_function(binder, name, args, n_args, call->location);
    TRY(expr_call(binder->arena, op, args, n_args, call->location, out, binder->err));
    return (*out)->type.kind == TYPE_TIMESTAMPTZ ? bind_stamp_result(binder, args, n_args, call->location, out)
                                                 : WEFT_OK;
}

// Any number of arguments, NULLs among them.
static weft_status bind_any_concat(Binder *binder, const PgQuery__FuncCall *call, const char *name, Expr **out)
{
    const bool has_separator = strcmp(name, "concat_ws") == 0;
    const int  n_args = (int)call->n_args;
    Expr     **args = arena_array(binder->arena, Expr *, n_args + 1);
    if (n_args < 1 + has_separator)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location,
                    "function %s with %d arguments does not exist", name, n_args);
    if (call->func_variadic) return refuse(binder, call->location, "VARIADIC");
    for (int i = 0; i < n_args; i++) TRY(binder->bind_expr(binder, call->args[i], &args[i]));
    return has_separator ? bind_concat_ws(binder, args, n_args, call->location, out)
                         : bind_concat(binder, args, n_args, call->location, out);
}

static weft_status unknown_function(Binder *binder, const PgQuery__FuncCall *call, const char *name)
{
    if (refuse_known(binder, call->location, REFUSAL_FUNCTION, name)) return WEFT_UNSUPPORTED;
    fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s with %zu argument%s does not exist", name,
         call->n_args, call->n_args == 1 ? "" : "s");
    error_hint(binder->err, "There are %s.", manual_list(binder->arena, manual_name));
    return WEFT_UNDEFINED_FUNCTION;
}

static bool has_agg_options(const PgQuery__FuncCall *call)
{
    return call->agg_star || call->agg_distinct || call->n_agg_order || call->agg_filter || call->func_variadic ||
           call->agg_within_group;
}

weft_status bind_function(Binder *binder, const PgQuery__FuncCall *call, Expr **out)
{
    const char *name = call->n_funcname ? node_string(call->funcname[call->n_funcname - 1]) : NULL;
    const char *schema = call->n_funcname == 2 ? node_string(call->funcname[0]) : "pg_catalog";
    if (!name || !schema || call->n_funcname > 2 || strcmp(schema, "pg_catalog") != 0)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location, "function %s does not exist",
                    name ? name : "?");
    const bool is_joined = strcmp(name, "string_agg") == 0;
    const bool has_over = call->over &&
                          (is_joined || aggregate_find(name) || window_find(name) || function_is_name(name));
    if (has_over && binder->bind_window) return binder->bind_window(binder, call, name, out);
    if (has_over)
        return fail(binder->err, WEFT_WINDOWING_ERROR, call->location, "window functions are not allowed in %s",
                    binder->place.clause ? binder->place.clause : "this context");
    const Aggregate *aggregate = aggregate_find(name);
    if (aggregate) return bind_agg(binder, call, name, aggregate, out);
    const bool is_ordered = strcmp(name, "mode") == 0 || strncmp(name, "percentile_", 11) == 0;
    if (call->agg_within_group && binder->bind_ordered) return binder->bind_ordered(binder, call, name, out);
    if (is_joined && binder->bind_string_agg) return binder->bind_string_agg(binder, call, out);
    if (is_ordered && !call->agg_within_group && !call->over)
        return fail(binder->err, WEFT_UNDEFINED_FUNCTION, call->location,
                    "WITHIN GROUP is required for ordered-set aggregate %s", name);
    if (window_find(name))
        return fail(binder->err, WEFT_WRONG_OBJECT, call->location, "window function %s requires an OVER clause",
                    name);
    if (strcmp(name, "concat") == 0 || strcmp(name, "concat_ws") == 0)
        return bind_any_concat(binder, call, name, out);
    if (bind_is_random(name) && !has_agg_options(call) && !call->over) return bind_random(binder, call, name, out);
    if (bind_gives_rows(name)) return bind_rows_in_list(binder, call, name, out);
    if (bind_is_form(name) && !call->agg_star && !call->over) return bind_form(binder, call, name, out);
    const bool is_time = bind_is_time_function(name, call->n_args);
    if (!is_time && (call->n_args > FUNCTION_ARGS || !function_is_name(name)))
        return unknown_function(binder, call, name);
    if (has_agg_options(call))
        return fail(binder->err, WEFT_WRONG_OBJECT, call->location, "%s is not an aggregate function", name);
    return is_time ? bind_time_function(binder, call, name, out) : bind_scalar(binder, call, name, out);
}
