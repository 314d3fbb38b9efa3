// kind_rows.c - the rows of a build pipeline over kinds (kinds.h), without a kernel.
//
//     where s_region = 'ASIA' and s_city in ('CHINA 1', 'CHINA 4')      a bit for each kind, from each comparison
//
// Kinds are hundreds, and in a crowd most queries filter them by constants of their own.  Weaving a kernel for a filter
// takes far longer than running it over so few rows.  What is done here is what filters mostly are: comparisons of a
// column with constants, IN, IS NULL, and AND and OR of these.  None of it can fail, and it agrees with plan/eval.c: a
// row passes where the filter is true, so false and NULL are one.  Any other filter, and a payload that is computed, is
// left to a kernel.
//
// Comparing texts, and testing many kinds, takes long, so the answers are kept with the kinds (kinds_keep_set).  This
// code looks at no cancel.  So a filter with very many constants is left to a kernel, too.

#include "engine/kinds.h"

#define FEW_KINDS 1024                 // a number is compared with so many in no time
#define MOST_TESTS ((u64)1 << 20)      // kinds times constants: some milliseconds

typedef struct KindFilter {
    Arena          *arena;
    const Kinds    *kinds;
    const Pipeline *pipeline;
    u64             n_words;           // of a set of kinds: a bit for each
} KindFilter;

static int place_of(const Pipeline *pipeline, int column)
{
    for (int c = 0; c < pipeline->n_columns; c++)
        if (pipeline->columns[c] == column) return pipeline->places[c];
    return -1;
}

static bool has(const u64 *set, u64 kind) { return set[kind >> 6] >> (kind & 63) & 1; }

// ---- one column and constants ---------------------------------------------------------------------------------------

static bool cells_of(const KindFilter *filter, const Expr *expr, KindCells *cells)
{
    Error ignored;
    error_clear(&ignored);
    if (expr->kind != EXPR_COLUMN || !kinds_cells(filter->kinds, place_of(filter->pipeline, expr->column), cells))
        return false;
    return !cells->column->dict || dict_load(cells->column->dict, &ignored) == WEFT_OK;
}

// Of a text, its code in the column's dictionary; false: no row has it.
static bool cell_of(const KindCells *cells, const Value *value, i128 *cell)
{
    u32 code;
    *cell = value->i;
    if (!cells->column->dict) return true;
    *cell = 0;
    if (!dict_find(cells->column->dict, value->text.bytes, value->text.length, &code)) return false;
    *cell = code;
    return true;
}

// Adds those with LOW .. HIGH, or all others, to SET.  Without those that are NULL, and without kind 0, which has no
// rows.
static void add_between(const KindFilter *filter, const KindCells *cells, i128 low, i128 high, bool is_wanted, u64 *set)
{
    const u64 n = (u64)filter->kinds->n_kinds;
    low = MAX_OF(low, INT64_MIN), high = MIN_OF(high, INT64_MAX);
    const bool is_none = low > high;
    const i64  first = is_none ? 0 : (i64)low;
    const u64  span = is_none ? 0 : (u64)high - (u64)low;
    for (u64 w = 0; w < filter->n_words; w++) {
        u64 bits = 0, valid = cells->valid ? cells->valid[w] : ~(u64)0;
        if (w == 0) valid &= ~(u64)1;
        for (u64 k = 64 * w, end = MIN_OF(k + 64, n); k < end; k++)
            bits |= (u64)((((u64)cells->values[k] - (u64)first <= span) & !is_none) == is_wanted) << (k & 63);
        set[w] |= bits & valid;
    }
}

static void add_equal(const KindFilter *filter, const KindCells *cells, const Value *value, u64 *set)
{
    i128 wanted;
    if (value->is_null || !cell_of(cells, value, &wanted)) return;
    add_between(filter, cells, wanted, wanted, true, set);
}

static bool is_so(Op op, int order)
{
    switch (op) {
        case OP_NE: return order != 0;
        case OP_LT: return order < 0;
        case OP_LE: return order <= 0;
        case OP_GT: return order > 0;
        default:    return order >= 0;
    }
}

static void add_texts(const KindFilter *filter, Op op, const KindCells *cells, const Value *value, u64 *set)
{
    for (u64 k = 1; k < (u64)filter->kinds->n_kinds; k++) {
        if (cells->valid && !has(cells->valid, k)) continue;
        const weft_text text = dict_get(cells->column->dict, (u32)cells->values[k]);
        const Value     cell = { .type = cells->column->type, .text = { text.bytes, (u32)text.length } };
        set[k >> 6] |= (u64)is_so(op, value_compare(&cell, value)) << (k & 63);
    }
}

static void add_compared(const KindFilter *filter, Op op, const KindCells *cells, const Value *value, u64 *set)
{
    if (value->is_null) return;
    if (cells->column->dict) {
        add_texts(filter, op, cells, value, set);
        return;
    }
    const bool is_below = op == OP_LT || op == OP_LE, is_above = op == OP_GT || op == OP_GE;
    const i128 low = is_below ? INT64_MIN : value->i + (op == OP_GT),
               high = is_above ? INT64_MAX : value->i - (op == OP_LT);
    add_between(filter, cells, low, high, op != OP_NE, set);
}

static void add_null(const KindFilter *filter, const KindCells *cells, bool wanted, u64 *set)
{
    for (u64 k = 1; k < (u64)filter->kinds->n_kinds; k++) {
        const bool is_null = cells->valid && !has(cells->valid, k);
        set[k >> 6] |= (u64)(is_null == wanted) << (k & 63);
    }
}

static bool are_constants(const Expr *expr)
{
    for (int i = 1; i < expr->n_args; i++)
        if (expr->args[i]->kind != EXPR_CONST) return false;
    return true;
}

// False: it is something else.
static bool add_passing(const KindFilter *filter, const Expr *expr, const KindCells *cells, u64 *set)
{
    switch (expr->op) {
        case OP_EQ:
        case OP_IN:
            for (int i = 1; i < expr->n_args; i++) add_equal(filter, cells, &expr->args[i]->value, set);
            return true;
        case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
            add_compared(filter, expr->op, cells, &expr->args[1]->value, set);
            return true;
        case OP_IS_NULL: add_null(filter, cells, true, set); return true;
        case OP_IS_NOT_NULL: add_null(filter, cells, false, set); return true;
        default: return false;
    }
}

static bool is_dear(const KindFilter *filter, const Expr *expr, const KindCells *cells)
{
    return filter->kinds->n_kinds > FEW_KINDS || (cells->column->dict && expr->op != OP_EQ && expr->op != OP_IN);
}

// What the test of the column at PLACE is, within the snapshot that the kinds are of.
static void write_test(const KindFilter *filter, const Expr *expr, bool is_text, Text *test)
{
    const int head[2] = { (int)expr->op, place_of(filter->pipeline, expr->args[0]->column) };
    text_add_bytes(test, (const char *)head, sizeof head);
    for (int i = 1; i < expr->n_args; i++) {
        const Value *value = &expr->args[i]->value;
        const u32    length = value->is_null ? UINT32_MAX : is_text ? value->text.length : (u32)sizeof value->i;
        text_add_bytes(test, (const char *)&length, sizeof length);
        if (value->is_null) continue;
        text_add_bytes(test, is_text ? value->text.bytes : (const char *)&value->i, length);
    }
}

static bool find_or_add(const KindFilter *filter, const Expr *expr, const KindCells *cells, u64 *set)
{
    Text test = { 0 };
    if (!is_dear(filter, expr, cells)) return add_passing(filter, expr, cells, set);
    write_test(filter, expr, cells->column->dict != NULL, &test);
    bool ok = kinds_find_set(filter->kinds, test.bytes, test.length, set);
    if (!ok) {
        ok = add_passing(filter, expr, cells, set);
        if (ok) kinds_keep_set(filter->kinds, test.bytes, test.length, set);
    }
    text_free(&test);
    return ok;
}

// The kinds that pass; NULL: it is no test of a column by constants, or a text cannot be read.
static u64 *pass_test(const KindFilter *filter, const Expr *expr)
{
    KindCells cells;
    Error     ignored;
    u64      *set = arena_array(filter->arena, u64, filter->n_words);
    error_clear(&ignored);
    if (!expr->n_args || !are_constants(expr) || !cells_of(filter, expr->args[0], &cells) ||
        !find_or_add(filter, expr, &cells, set))
        return NULL;
    return cells.column->dict && dict_status(cells.column->dict, &ignored) ? NULL : set;
}

// ---- filters --------------------------------------------------------------------------------------------------------

// The kinds whose rows pass; NULL: not to be told here.
static u64 *passing(const KindFilter *filter, const Expr *expr)
{
    if (expr->kind != EXPR_CALL) return NULL;
    if (expr->op != OP_AND && expr->op != OP_OR) return pass_test(filter, expr);
    u64       *left = passing(filter, expr->args[0]);
    const u64 *right = left ? passing(filter, expr->args[1]) : NULL;
    for (u64 w = 0; right && w < filter->n_words; w++)
        left[w] = expr->op == OP_AND ? left[w] & right[w] : left[w] | right[w];
    return right ? left : NULL;
}

// Each of which is looked at for all kinds; a test of NULL counts as one.
static u64 count_constants(const Expr *expr)
{
    if (expr->kind != EXPR_CALL || (expr->op != OP_AND && expr->op != OP_OR)) return (u64)MAX_OF(expr->n_args - 1, 1);
    return count_constants(expr->args[0]) + count_constants(expr->args[1]);
}

static bool is_long(const KindFilter *filter)
{
    u64 n = 0;
    for (int f = 0; f < filter->pipeline->n_filters; f++) n += count_constants(filter->pipeline->filters[f]);
    return n * (u64)filter->kinds->n_kinds > MOST_TESTS;
}

static u64 *pass_all(const KindFilter *filter)
{
    const Pipeline *pipeline = filter->pipeline;
    u64            *set = arena_array(filter->arena, u64, filter->n_words);
    for (u64 k = 1; k < (u64)filter->kinds->n_kinds; k++) set[k >> 6] |= (u64)1 << (k & 63);
    for (int f = 0; f < pipeline->n_filters; f++) {
        const u64 *also = passing(filter, pipeline->filters[f]);
        if (!also) return NULL;
        for (u64 w = 0; w < filter->n_words; w++) set[w] &= also[w];
    }
    return set;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static u64 count(const KindFilter *filter, const u64 *set)
{
    u64 n = 0;
    for (u64 w = 0; w < filter->n_words; w++) n += (u64)__builtin_popcountll(set[w]);
    return n;
}

static u64 list_numbers(const KindFilter *filter, const u64 *set, i64 *numbers)
{
    u64 n = 0;
    for (u64 w = 0; w < filter->n_words; w++)
        for (u64 bits = set[w]; bits; bits &= bits - 1) numbers[n++] = (i64)(64 * w) + __builtin_ctzll(bits);
    return n;
}

// The payload of rows NUMBERS, as a kernel would put it out: FLAGS of NULL where there may be any.
static void list_payload(const KindCells *cells, const i64 *numbers, u64 n, i64 *values, u8 *flags)
{
    for (u64 r = 0; r < n; r++) {
        values[r] = cells->values[numbers[r]];
        flags[r] = cells->valid && !has(cells->valid, (u64)numbers[r]);
    }
}

bool kind_rows(Arena *arena, const Kinds *kinds, const Pipeline *pipeline, Woven *woven, RowSet *rows)
{
    enum { KEY, PAYLOAD, FLAGS, N_COLUMNS };
    const KindFilter filter = { arena, kinds, pipeline, (u64)kinds->n_kinds / 64 + 1 };
    KindCells        cells = { 0 };
    if (pipeline->n_payload > 1 || (pipeline->n_payload && !cells_of(&filter, pipeline->payload[0].value, &cells)) ||
        is_long(&filter))
        return false;
    const u64 *set = pass_all(&filter);
    if (!set) return false;
    OutColumn *outputs = arena_array(arena, OutColumn, 2);
    rows->columns = arena_array(arena, void *, N_COLUMNS);
    for (int c = 0; c < N_COLUMNS; c++) rows->columns[c] = arena_array(arena, i64, count(&filter, set) + 1);
    rows->n_rows = list_numbers(&filter, set, rows->columns[KEY]);
    outputs[0] = (OutColumn){ .value = KEY, .null = -1, .type = pipeline->keys[0].value->type };
    if (pipeline->n_payload) {
        const Column *column = cells.column;
        list_payload(&cells, rows->columns[KEY], rows->n_rows, rows->columns[PAYLOAD], rows->columns[FLAGS]);
        outputs[1] = (OutColumn){ .value = PAYLOAD, .null = cells.valid ? FLAGS : -1,
                                  .type = pipeline->payload[0].value->type, .dict = column->dict,
                                  .dict_count = column->dict_count };
    }
    woven->outputs = outputs;
    return true;
}
