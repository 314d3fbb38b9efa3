// steps.c - filters, and values that get a name.
//
// Filters at the start that compare one stored column with constants become dense tests over the mask, on the values as
// they
// are stored: the host moves the constants into each chunk's domain (PARAM_RANGE_*), so an 8-bit column is compared in
// 8 bits.
// The same ranges are zone tests: a chunk outside of one is never read.  So are those that an OR or an IN implies.
// Everything later works on the selection.

#include "weave/weave_int.h"

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)
#define SUBJECTS_MOST 4                // columns of an OR whose ranges are looked for

// ---- ranges over stored columns -------------------------------------------------------------------------------------

typedef struct RangeTest { Var *var; i64 low, high; } RangeTest;

bool weave_source_var(Weaver *w, const Expr *expr, Var **var)
{
    if (expr->kind != EXPR_COLUMN) return false;
    *var = weave_var_of(w, expr);
    return *var && (*var)->source >= 0 && !type_is_float((*var)->type) && !weave_low_var(w, expr->column);
}

static i64 clamp(i128 value) { return value < INT64_MIN ? INT64_MIN : value > INT64_MAX ? INT64_MAX : (i64)value; }

static RangeTest compare_range(Var *var, Op op, i128 constant)
{
    RangeTest test = { var, INT64_MIN, INT64_MAX };
    if ((op == OP_LT && constant <= INT64_MIN) || (op == OP_GT && constant >= INT64_MAX))
        return (RangeTest){ var, 0, -1 };  // no number is beyond these
    switch (op) {
        case OP_EQ: test.low = test.high = clamp(constant); break;
        case OP_LT: test.high = clamp(constant - 1); break;
        case OP_LE: test.high = clamp(constant); break;
        case OP_GT: test.low = clamp(constant + 1); break;
        default:    test.low = clamp(constant); break;
    }
    return test;
}

// Whether the filter is a range over one stored column; its ends are then known here and parameters there.
static weft_status as_range(Weaver *w, const Expr *filter, bool *is_range, RangeTest *test)
{
    *is_range = false;
    if (weave_is_text_test(filter)) {
        TextTest text;
        Var     *var;
        TRY(weave_text_test(w, filter, &text));
        if (!text.is_run || !weave_source_var(w, text.text, &var)) return WEFT_OK;
        *test = (RangeTest){ var, text.low, text.high };
        *is_range = true;
        return WEFT_OK;
    }
    if (filter->kind != EXPR_CALL || filter->op < OP_EQ || filter->op > OP_GE || filter->op == OP_NE) return WEFT_OK;
    static const Op mirrored[] = {
        [OP_EQ] = OP_EQ, [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE
    };
    for (int side = 0; side < 2; side++) {
        const Expr *constant = filter->args[1 - side];
        Var        *var;
        if (!weave_source_var(w, filter->args[side], &var) || constant->kind != EXPR_CONST || constant->value.is_null)
            continue;
        if (var->type.kind == TYPE_TEXT) continue;
        *test = compare_range(var, side == 0 ? filter->op : mirrored[filter->op], constant->value.i);
        *is_range = true;
    }
    return WEFT_OK;
}

bool weave_is_range(Weaver *w, const Expr *filter)
{
    bool      is_range;
    RangeTest test;
    return as_range(w, filter, &is_range, &test) == WEFT_OK && is_range;
}

static void widen(RangeTest *hull, i64 low, i64 high)
{
    if (low > high) return;                                 // no row passes
    const bool is_empty = hull->low > hull->high;
    hull->low = is_empty ? low : MIN_OF(hull->low, low);
    hull->high = is_empty ? high : MAX_OF(hull->high, high);
}

static bool hull_of_list(Weaver *w, const Expr *list, RangeTest *hull)
{
    *hull = (RangeTest){ .low = 0, .high = -1 };
    if (!weave_source_var(w, list->args[0], &hull->var) || hull->var->type.kind == TYPE_TEXT) return false;
    for (int i = 1; i < list->n_args; i++) {
        const Expr *item = list->args[i];
        if (item->kind != EXPR_CONST) return false;
        if (!item->value.is_null) widen(hull, clamp(item->value.i), clamp(item->value.i));
    }
    return true;
}

// A range, or the least one that holds a list.  Not of texts, whose tests look at the whole dictionary.
static weft_status hull_of_test(Weaver *w, const Expr *test, bool *has_hull, RangeTest *hull)
{
    *has_hull = false;
    if (weave_is_text_test(test)) return WEFT_OK;
    TRY(as_range(w, test, has_hull, hull));
    if (!*has_hull && test->kind == EXPR_CALL && test->op == OP_IN) *has_hull = hull_of_list(w, test, hull);
    return WEFT_OK;
}

static bool has_branches(const Expr *expr)
{
    return expr->kind == EXPR_CALL && (expr->op == OP_OR || expr->op == OP_AND);
}

// The range of VAR that every row which passes is in.
static weft_status find_hull(Weaver *w, const Expr *filter, const Var *var, bool *has_hull, RangeTest *hull)
{
    RangeTest other;
    bool      has_other;
    if (!has_branches(filter)) {
        TRY(hull_of_test(w, filter, has_hull, hull));
        *has_hull = *has_hull && hull->var == var;
        return WEFT_OK;
    }
    const bool is_or = filter->op == OP_OR;
    TRY(find_hull(w, filter->args[0], var, has_hull, hull));
    if (is_or && !*has_hull) return WEFT_OK;
    TRY(find_hull(w, filter->args[1], var, &has_other, &other));
    if (is_or) {
        *has_hull = has_other;
        if (has_other) widen(hull, other.low, other.high);
    } else if (has_other && *has_hull) {
        hull->low = MAX_OF(hull->low, other.low), hull->high = MIN_OF(hull->high, other.high);
    } else if (has_other) {
        *has_hull = true, *hull = other;
    }
    return WEFT_OK;
}

// The columns that its first branch has ranges of; others cannot be in all of them.
static weft_status add_subjects(Weaver *w, const Expr *filter, Var **subjects, int *n)
{
    RangeTest hull;
    bool      has_hull, is_new = true;
    if (has_branches(filter)) {
        TRY(add_subjects(w, filter->args[0], subjects, n));
        return filter->op == OP_OR ? WEFT_OK : add_subjects(w, filter->args[1], subjects, n);
    }
    TRY(hull_of_test(w, filter, &has_hull, &hull));
    for (int i = 0; has_hull && i < *n; i++) is_new &= subjects[i] != hull.var;
    if (has_hull && is_new && *n < SUBJECTS_MOST) subjects[(*n)++] = hull.var;
    return WEFT_OK;
}

// Ranges that follow from an OR or an IN rule out chunks; the rows of the others are left to the filter itself.
static weft_status add_hulls(Weaver *w, const Expr *filter)
{
    Var *subjects[SUBJECTS_MOST];
    int  n = 0;
    TRY(add_subjects(w, filter, subjects, &n));
    for (int i = 0; i < n; i++) {
        RangeTest hull;
        bool      has_hull;
        TRY(find_hull(w, filter, subjects[i], &has_hull, &hull));
        if (!has_hull) continue;
        *LIST_PUSH(w->arena, w->out->zones, w->out->n_zones) = (ZoneTest){ subjects[i]->source, hull.low, hull.high };
    }
    return WEFT_OK;
}

static RangeTest *test_on(RangeTest *tests, int n_tests, const Var *var)
{
    for (int i = 0; i < n_tests; i++)
        if (tests[i].var == var) return &tests[i];
    return NULL;
}

// Values are taken to lie evenly.
static double share_of(const RangeTest *test)
{
    const Range *range = &test->var->range;
    const double low = MAX_OF((double)test->low, (double)range->low),
                 high = MIN_OF((double)test->high, (double)range->high);
    return high < low ? 0 : (high - low + 1) / ((double)range->high - (double)range->low + 1);
}

static void add_test(Weaver *w, const RangeTest *test)
{
    Var        *var = test->var;
    const char *type = var->width ? weave_width_type(var->width) : "u64";
    const bool  is_sieved = w->out->can_pick;
    weave_load(w, var);
    const Param low = { .kind = var->width ? PARAM_RANGE_LOW : PARAM_VALUE,
                        .value = test->low,
                        .column = var->column,
                        .is_sieved = is_sieved };
    const Param span = {
        .kind = PARAM_RANGE_SPAN, .value = test->high, .other = test->low, .column = var->column, .is_sieved = is_sieved
    };
    const Param spread = { .kind = PARAM_VALUE, .value = (i64)((u64)test->high - (u64)test->low) };
    const char *from = weave_param(w, type, PRINT("%s_low", var->name), low),
               *size = weave_param(w, type, PRINT("%s_span", var->name), var->width ? span : spread);
    Step        step = { .kind = STEP_RANGE, .is_on_mask = true, .is_unsure = is_sieved, .pass = share_of(test) };
    if (!var->range.nullable) {
        step.text = PRINT("%s, %s, %s, %s", type, var->ref, from, size);
        if (var->width) step.test = weave_step_test(w, var->column, test->low, test->high, NULL);
    } else {
        step.kind = STEP_CONDITION, step.is_unsure = false;
        step.keep = PRINT("BETWEEN(%s, %s[i], %s, %s) & !IS_NULL(%s)", type, var->ref, from, size, var->ref);
    }
    weave_step(w, step);
    *LIST_PUSH(w->arena, w->out->zones, w->out->n_zones) = (ZoneTest){ var->source, test->low, test->high };
    *LIST_PUSH(w->arena, w->out->sieves, w->out->n_sieves) =
        (Sieve){ var->source, test->low, test->high, NULL, true, share_of(test) };
    if (test->low > test->high) w->out->is_empty = true;
    w->pass *= share_of(test);
}

weft_status weave_tests(Weaver *w)
{
    RangeTest *tests = NULL;
    int        n_tests = 0;
    for (int s = 0; s < w->job->n_steps && w->job->steps[s].filter; s++) {
        bool      is_range;
        RangeTest test;
        TRY(as_range(w, w->job->steps[s].filter, &is_range, &test));
        if (!is_range) {
            TRY(add_hulls(w, w->job->steps[s].filter));
            continue;
        }
        RangeTest *same = test_on(tests, n_tests, test.var);
        if (!same) *LIST_PUSH(w->arena, tests, n_tests) = test;
        else same->low = MAX_OF(same->low, test.low), same->high = MIN_OF(same->high, test.high);
        w->done[s] = true;
    }
    if (!n_tests) return WEFT_OK;
    for (int i = 0; i < n_tests; i++) add_test(w, &tests[i]);
    weave_count(w, "range tests", 0);
    w->is_all = false;
    return WEFT_OK;
}

// The distance of a value from LOW: one addition for a stored column, since the host knows each chunk's base.
const char *weave_distance(Weaver *w, const Val *val, const char *name, i64 low)
{
    if (!val->stored) return PRINT("(u64)(%s) - (u64)%s", val->value, weave_param_i64(w, name, low));
    const char *offset =
        weave_param(w, "u64", name, (Param){ .kind = PARAM_OFFSET, .value = low, .column = val->stored->column });
    return PRINT("%s[i] + %s", val->stored->ref, offset);
}

weft_status weave_filter_rows(Weaver *w, const Expr *filter)
{
    const char *condition;
    if (expr_is_never(filter)) w->out->is_empty = true;
    TRY(weave_truth(w, filter, true, &condition));
    weave_keep(w, condition);
    weave_pass(w, 0.5);                // nothing is known
    return WEFT_OK;
}

weft_status weave_filter(Weaver *w, const Expr *filter, int at_step)
{
    TRY(weave_filter_rows(w, filter));
    weave_count(w, "filter", at_step);
    return WEFT_OK;
}

// ---- values with a name ---------------------------------------------------------------------------------------------

static const char *carried_type(const Val *val)
{
    if (val->is_float) return "f64";
    if (!val->range.known) return "i64";
    if (val->range.low >= 0 && val->range.high <= UINT8_MAX) return "u8";
    return val->range.low >= INT32_MIN && val->range.high <= INT32_MAX ? "i32" : "i64";
}

// Of a number of 128 bits each word is carried; together they are the column (weave_low_id).
static weft_status let_words(Weaver *w, const WeaveStep *step, Val *val)
{
    const char *name = weave_name(w, "value"), *high = weave_carry(w, "i64", PRINT("%s_high", name), 8),
               *low = weave_carry(w, "i64", name, 8), *null = NULL;
    weave_stmt(w, "%s[i] = %s - WIDE_HIGH(%s);", high, val->high, val->value);
    weave_stmt(w, "%s[i] = %s;", low, val->value);
    if (val->null) {
        null = weave_carry(w, "u8", PRINT("%s_null", name), 1);
        weave_stmt(w, "%s[i] = (u8)%s;", null, val->null);
    }
    weave_each(w);
    Val word = { .null = null ? PRINT("%s[i]", null) : NULL, .range = val->range };
    word.range.known = true, word.range.nullable = null != NULL;
    const i128 half = (i128)1 << 63;
    if (val->range.low <= val->range.high)
        word.range.low = (val->range.low + half) >> 64, word.range.high = (val->range.high + half) >> 64;
    word.value = PRINT("%s[i]", high);
    weave_add_value(w, step->let, name, step->value->type, &word);
    word.value = PRINT("%s[i]", low);
    word.range.low = INT64_MIN, word.range.high = INT64_MAX;
    weave_add_value(w, weave_low_id(step->let), name, TYPE(BIGINT), &word);
    return WEFT_OK;
}

// Worked out once for each row at hand, and carried.  A column gets one more name instead.
weft_status weave_let(Weaver *w, const WeaveStep *step)
{
    if (step->value->kind == EXPR_COLUMN && weave_var_of(w, step->value)) {
        const int same = (int)(weave_var_of(w, step->value) - w->vars);
        const Var *low = weave_low_var(w, step->value->column);
        const int  same_low = low ? (int)(low - w->vars) : -1;
        *LIST_PUSH(w->arena, w->vars, w->n_vars) = (Var){ .id = step->let, .same_as = 1 + same };
        if (same_low >= 0)
            *LIST_PUSH(w->arena, w->vars, w->n_vars) = (Var){ .id = weave_low_id(step->let), .same_as = 1 + same_low };
        return WEFT_OK;
    }
    Val val;
    TRY(weave_value(w, step->value, &val));
    if (val.high) return let_words(w, step, &val);
    const char *name = weave_name(w, "value"), *type = carried_type(&val), *value = weave_carry(w, type, name, 8),
               *null = NULL;
    weave_stmt(w, "%s[i] = (%s)%s;", value, type, val.value);
    if (val.null) {
        null = weave_carry(w, "u8", PRINT("%s_null", name), 1);
        weave_stmt(w, "%s[i] = (u8)%s;", null, val.null);
    }
    weave_each(w);
    if (val.is_float) val.range.f = weave_float_range(w, step->value);
    val.range.nullable = val.null != NULL;
    val.value = PRINT(val.is_float ? "%s[i]" : "(i64)%s[i]", value);
    if (null) val.null = PRINT("%s[i]", null);
    weave_add_value(w, step->let, name, step->value->type, &val);
    return WEFT_OK;
}
