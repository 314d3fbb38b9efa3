// finish.c - what is done with the rows, groups or values of a pipeline once all are there.
//
// Rows come as columns of numbers (text as codes).  Groups are filtered and decoded column by column, on all
// threads: an aggregate beside a constant is a range of its cells (having.c).  Other conditions go through the
// interpreter, and outputs that are more than a key or an aggregate as well, on one thread.  Values are constants.  All
// become views, one for each output, and an order: sorted and cut (sort.c).  result.c copies them for the user,
// stored.c for the pipelines that read them.

#include "base/divide.h"
#include "engine/exact.h"
#include "engine/having.h"
#include "engine/wide.h"
#include "engine/window.h"

#include <math.h>

typedef struct Cells {                 // an output column
    ViewKind    kind;
    Type        type;
    void       *data;
    u8         *nulls;                 // NULL: there are none
    u8         *shown;                 // quotients: Value.shown of each; else NULL
    size_t      size;
    Dictionary *dict;                  // text: where it lies; NULL: in the query's arena
} Cells;

typedef struct KeyDivisors { Divisor stride, n_codes; } KeyDivisors;

typedef struct Groups {
    QueryRun       *run;
    const Pipeline *pipeline;
    const Finish   *finish;
    const Woven    *woven;             // NULL: values
    const GroupSet *set;
    const u64      *words;             // hashed keys of several words, else NULL
    KeyDivisors    *divisors;          // of keys that are parts of one word
    const u32     **code_of_rank;      // by aggregate: min and max of text
    const int *places;  // by column of the plan: the number of the key, n_keys + that of the aggregate, or of the value
    bool            as_codes;
    Cells          *cells;
    u64            *kept;              // the groups that become rows; NULL: all, in order
    u64             n_rows;
    u64             group;             // at hand, for the interpreter
} Groups;

static u64 group_of(const Groups *groups, u64 row) { return groups->kept ? groups->kept[row] : row; }

// ---- one value of a group -------------------------------------------------------------------------------------------

static u64 key_code(const Groups *groups, int k, u64 group, bool *is_null)
{
    const Woven    *woven = groups->woven;
    const GroupKey *key = &woven->group_keys[k];
    if (groups->words) {
        const u64 *words = groups->words + group * (u64)woven->n_words;
        const u64  null_bits = woven->has_null_word ? words[groups->pipeline->n_keys] : 0;
        *is_null = key->nullable && (key->n_codes ? words[k] == key->null_code : (null_bits >> k & 1) != 0);
        return words[k];
    }
    const u64 word = woven->group_kind == GROUP_ARRAY ? group : groups->set->keys[group];
    const u64 rest = divided(word, groups->divisors[k].stride);
    const u64 code = rest - divided(rest, groups->divisors[k].n_codes) * MAX_OF(key->n_codes, 1);
    *is_null = key->nullable && key->n_codes && code == key->null_code;
    return code;
}

static i64 key_number(const GroupKey *key, u64 code)
{
    return key->decode ? key->decode[code] : (i64)((u64)key->base + code);
}

static void make_divisors(Groups *groups)
{
    const int n_keys = groups->pipeline->n_keys;
    groups->divisors = arena_array(groups->run->arena, KeyDivisors, n_keys + 1);
    for (int k = 0; k < n_keys; k++) {
        const GroupKey *key = &groups->woven->group_keys[k];
        groups->divisors[k] = (KeyDivisors){ divisor_of(key->stride), divisor_of(MAX_OF(key->n_codes, 1)) };
    }
}

// The number of a key that is one word, or whose low word is the next key.
static i128 whole_key(const Groups *groups, int k, u64 group, u64 code)
{
    const GroupKey *keys = groups->woven->group_keys;
    bool            is_null;
    if (!expr_is_high_word(groups->pipeline->keys[k].value)) return key_number(&keys[k], code);
    const u64 low = key_code(groups, k + 1, group, &is_null);
    return wide_of_words(key_number(&keys[k], code), key_number(&keys[k + 1], low));
}

static void decode_key(const Groups *groups, int k, u64 group, Value *value)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    bool            is_null;
    const u64       code = key_code(groups, k, group, &is_null);
    *value = (Value){ .type = key->type, .is_null = is_null };
    if (is_null) return;
    if (type_is_float(key->type)) {
        memcpy(&value->f, &code, sizeof value->f);
    } else if (key->type.kind == TYPE_TEXT) {
        const weft_text text = dict_get(key->dict, (u32)key_number(key, code));
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else {
        value->i = whole_key(groups, k, group, code);
    }
}

static i64 cell_of(const Groups *groups, int slot, u64 group) { return ((const i64 *)groups->set->state[slot])[group]; }

// NaN counts as an infinity of both signs, and so do infinities of both signs make NaN.
static bool special_sum(const Groups *groups, const AggState *state, u64 group, double *sum)
{
    if (state->special < 0) return false;
    const bool has_infinity = cell_of(groups, state->special, group) != 0,
               has_minus_infinity = cell_of(groups, state->special + 1, group) != 0;
    *sum = has_infinity && has_minus_infinity ? NAN : has_infinity ? INFINITY : -INFINITY;
    return has_infinity || has_minus_infinity;
}

static double float_sum(const Groups *groups, const AggState *state, u64 group, AggKind kind, u64 count)
{
    i64    parts[EXACT_BITS / 8];
    double sum;
    if (special_sum(groups, state, group, &sum)) return sum;
    for (int p = 0; p < state->n_parts; p++) parts[p] = cell_of(groups, state->sum + p, group);
    if (kind == AGG_SUM_REST) return exact_rest(parts, state->n_parts, state->digits, state->unit);
    return exact_round(parts, state->n_parts, state->digits, state->unit, kind == AGG_AVG ? count : 1);
}

// False: it leaves 38 digits.  Numbers of 128 bits were added word by word (write_wide_sum in weave/sink.c).
static bool add_words(const Groups *groups, const AggState *state, u64 group, i128 low, i128 *sum)
{
    const i128 upper = wide_of_cells(cell_of(groups, state->upper + 1, group), cell_of(groups, state->upper, group));
    if (upper < INT64_MIN || upper > INT64_MAX) return false;
    if (__builtin_add_overflow((i128)((u128)upper << 64), low, sum)) return false;
    return wide_has_digits(*sum);
}

static i128 sum_of(const Groups *groups, const AggState *state, u64 group)
{
    const i64 low = cell_of(groups, state->sum, group);
    i128      sum = state->high < 0 ? low : wide_of_cells(cell_of(groups, state->high, group), low);
    if (state->upper >= 0 && !add_words(groups, state, group, sum, &sum)) sum = 0;             // check_sums has failed
    return sum;
}

static weft_status check_wide_sums(const Groups *groups, const Agg *agg, const AggState *state)
{
    for (u64 r = 0; r < groups->n_rows; r++) {
        const u64 group = group_of(groups, r);
        i128      sum = wide_of_cells(cell_of(groups, state->high, group), cell_of(groups, state->sum, group));
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        if (!add_words(groups, state, group, sum, &sum))
            return fail(groups->run->err, WEFT_OUT_OF_RANGE, agg->at, "numeric out of range");
    }
    return WEFT_OK;
}

static bool has_values(const Groups *groups, const AggState *state, u64 group)
{
    return cell_of(groups, state->count, group) != 0;
}

// Those that have so many digits are few: an average is no larger than the sum.  Where the scale may lose digits of an
// average of any size, all but 0 are looked at.
static weft_status check_averages(const Groups *groups, const Agg *agg, const AggState *state)
{
    const int  scale = type_is_integer(agg->arg->type) ? 0 : agg->arg->type.scale, spare = agg->type.scale - scale;
    i128       limit = agg->type.scale < QUOTIENT_SCALE_LEAST ? 0 : range_of_type(agg->type).high;
    for (int i = 0; i < spare; i++) limit /= 10;
    for (u64 r = 0; r < groups->n_rows; r++) {
        const u64 group = group_of(groups, r);
        Value     value = { .type = agg->type, .i = sum_of(groups, state, group) };
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        if ((value.i > limit || value.i < -limit) && has_values(groups, state, group) &&
            !exact_average(&value, agg->arg->type, cell_of(groups, state->count, group)))
            return fail(groups->run->err, WEFT_OUT_OF_RANGE, agg->at, "numeric out of range");
    }
    return WEFT_OK;
}

// Also of groups and sums that nobody comes to see: what a statement says must not depend on how it is computed.
static weft_status check_sums(const Groups *groups)
{
    for (int a = 0; a < groups->pipeline->n_aggs; a++) {
        const Agg      *agg = &groups->pipeline->aggs[a];
        const AggState *state = &groups->woven->aggs[a];
        if (state->upper >= 0) TRY(check_wide_sums(groups, agg, state));
        if (agg->kind == AGG_AVG && !state->is_float) TRY(check_averages(groups, agg, state));
        if (agg->kind != AGG_SUM || agg->type.kind != TYPE_BIGINT || state->high < 0) continue;
        for (u64 r = 0; r < groups->n_rows; r++) {
            if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
            const i128 sum = sum_of(groups, state, group_of(groups, r));
            if (sum < INT64_MIN || sum > INT64_MAX)
                return fail(groups->run->err, WEFT_OUT_OF_RANGE, agg->at, "bigint out of range");
        }
    }
    return WEFT_OK;
}

static weft_text extreme_text(const Groups *groups, int a, const AggState *state, u64 group)
{
    const i64 cell = cell_of(groups, state->sum, group);
    return dict_get(state->dict, state->is_rank ? groups->code_of_rank[a][cell] : (u32)cell);
}

static void extreme_value(const Groups *groups, int a, const AggState *state, u64 group, Value *value)
{
    if (state->is_float) {
        value->f = ((const double *)groups->set->state[state->sum])[group] +
                   0.0;  // -0 and 0 are equal: which one came first must not show
    } else if (state->dict) {
        const weft_text text = extreme_text(groups, a, state, group);
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else {
        value->i = cell_of(groups, state->sum, group);
        if (state->high >= 0) value->i = wide_of_cells(cell_of(groups, state->high, group), (i64)value->i);
    }
}

static void decode_agg(const Groups *groups, int a, u64 group, Value *value)
{
    const Agg      *agg = &groups->pipeline->aggs[a];
    const AggState *state = &groups->woven->aggs[a];
    const i64       count = state->count >= 0 ? cell_of(groups, state->count, group) : 1;
    *value = (Value){ .type = agg->type };
    if (agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL) {
        value->i = count;
    } else if (count == 0) {
        value->is_null = true;
    } else if (agg->kind == AGG_MIN || agg->kind == AGG_MAX || agg->kind == AGG_ANY) {
        extreme_value(groups, a, state, group, value);
    } else if (state->is_float) {
        value->f = float_sum(groups, state, group, agg->kind, (u64)count);
    } else {
        value->i = sum_of(groups, state, group);
        if (agg->kind == AGG_AVG && !exact_average(value, agg->arg->type, count)) value->i = 0;   // see check_sums
    }
}

static void give_value(void *context, const Expr *node, Value *value)
{
    const Groups *groups = context;
    const int     place = groups->places[node->column], n_keys = groups->pipeline->n_keys;
    if (!groups->woven)
        *value = groups->pipeline->values->values[groups->group * (u64)groups->pipeline->n_columns + (u64)place];
    else if (place < n_keys) {
        decode_key(groups, place, groups->group, value);
        if (expr_is_high_word(groups->pipeline->keys[place].value)) value->type = node->type;  // that of both words
    } else decode_agg(groups, place - n_keys, groups->group, value);
}

// Texts stay where they are, in a dictionary or the query's arena; the result gets copies in the end.
static void put_value(Cells *cells, u64 at, const Value *value)
{
    if (value->is_null) {
        cells->nulls[at] = 1;
        return;
    }
    switch (cells->kind) {
        case VIEW_INT: ((i64 *)cells->data)[at] = (i64)value->i; break;
        case VIEW_FLOAT: ((double *)cells->data)[at] = value->f; break;
        case VIEW_WIDE:
            ((i128 *)cells->data)[at] = value->i;
            if (cells->shown) cells->shown[at] = value->shown;
            break;
        default: ((weft_text *)cells->data)[at] = (weft_text){ value->text.bytes, value->text.length }; break;
    }
}

// ---- which groups become rows ---------------------------------------------------------------------------------------

static bool group_exists(const Groups *groups, u64 group)
{
    const int seen = groups->woven->seen;
    return groups->woven->state[seen].bytes == 1 ? ((const u8 *)groups->set->state[seen])[group] != 0
                                                 : cell_of(groups, seen, group) != 0;
}

typedef struct GroupChoice {
    const Groups *groups;
    const u8     *holds;
    u64          *n_chosen;            // by part
    u64          *chosen;
} GroupChoice;

static void count_chosen(void *context, int part, u64 first, u64 end)
{
    const GroupChoice *choice = context;
    u64           n = 0;
    for (u64 r = first; r < end; r++) n += choice->holds[r] != 0;
    choice->n_chosen[part] += n;
}

// N_CHOSEN is where the part goes on by now.
static void list_chosen(void *context, int part, u64 first, u64 end)
{
    const GroupChoice *choice = context;
    u64          *chosen = choice->chosen, n = choice->n_chosen[part];
    for (u64 r = first; r < end; r++)
        if (choice->holds[r]) chosen[n++] = group_of(choice->groups, r);
    choice->n_chosen[part] = n;
}

// The rows are those that HOLDS has a byte for that is not 0.
static weft_status choose_rows(Groups *groups, const u8 *holds)
{
    const Team     team = query_team(groups->run);
    const RowParts parts = team_split(&team, groups->n_rows);
    GroupChoice         choice = { groups, holds, arena_array(groups->run->arena, u64, parts.n_parts + 1), NULL };
    u64            n = 0;
    if (!team_rows(&team, &parts, count_chosen, &choice)) return query_canceled(groups->run);
    for (int p = 0; p < parts.n_parts; p++) {
        const u64 n_part = choice.n_chosen[p];
        choice.n_chosen[p] = n, n += n_part;
    }
    if (n == groups->n_rows) return WEFT_OK;
    TRY(query_alloc(groups->run, (n + 1) * sizeof *choice.chosen, (void **)&choice.chosen));
    if (!team_rows(&team, &parts, list_chosen, &choice)) return query_canceled(groups->run);
    groups->kept = choice.chosen, groups->n_rows = n;
    return WEFT_OK;
}

static void look_for_groups(void *context, int part, u64 first, u64 end)
{
    const GroupChoice *choice = context;
    (void)part;
    for (u64 g = first; g < end; g++) ((u8 *)(uintptr_t)choice->holds)[g] = group_exists(choice->groups, g);
}

static weft_status find_groups(Groups *groups)
{
    const Team     team = query_team(groups->run);
    const RowParts parts = team_split(&team, groups->set->n_groups);
    const int      seen = groups->woven->seen;
    u8            *exists;
    groups->n_rows = groups->set->n_groups;
    if (groups->woven->group_kind != GROUP_ARRAY) return WEFT_OK;
    if (groups->woven->state[seen].bytes == 1) return choose_rows(groups, groups->set->state[seen]);
    TRY(query_alloc(groups->run, groups->n_rows + 1, (void **)&exists));
    if (!team_rows(&team, &parts, look_for_groups, &(GroupChoice){ groups, exists, NULL, NULL }))
        return query_canceled(groups->run);
    return choose_rows(groups, exists);
}

// ---- HAVING: as ranges of cells (having.c), or by the interpreter ---------------------------------------------------

typedef struct CellTest { const i64 *cells, *counts; CellRange range; } CellTest;      // counts: 0 is NULL; or none

// False: the condition is for the interpreter.
static bool cell_test(const Groups *groups, const Expr *condition, CellTest *test)
{
    const int column = groups->woven ? having_column(condition) : -1;
    const int a = column >= 0 ? groups->places[column] - groups->pipeline->n_keys : -1;
    if (a < 0) return false;
    const Agg      *agg = &groups->pipeline->aggs[a];
    const AggState *state = &groups->woven->aggs[a];
    const bool      is_count = agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL;
    if (is_count ? state->count < 0
                 : agg->kind == AGG_AVG || state->is_float || state->dict || state->high >= 0 || state->upper >= 0)
        return false;
    test->cells = groups->set->state[is_count ? state->count : state->sum];
    test->counts = !is_count && state->count >= 0 ? groups->set->state[state->count] : NULL;
    return having_range(condition, agg->type, &test->range);
}

typedef struct Having {
    const Groups *groups;
    int           n_tests;             // of the first conditions; those behind them are for the interpreter
    CellTest     *tests;
    u8           *holds;
    Error        *errors;              // by part: its first
} Having;

static void test_cells(const CellTest *test, const u64 *kept, u64 first, u64 end, u8 *holds)
{
    const CellRange range = test->range;
    const i64      *cells = test->cells, *counts = test->counts;
    if (!kept && !counts) {            // most often, and as fast as memory is
        for (u64 r = first; r < end; r++) holds[r] &= range_has(&range, cells[r]);
        return;
    }
    for (u64 r = first; r < end; r++) {
        const u64 group = kept ? kept[r] : r;
        holds[r] &= range_has(&range, cells[group]) && (!counts || counts[group]);
    }
}

static weft_status others_hold(const Having *having, const Groups *groups, Arena *scratch, Error *err, bool *holds)
{
    const EvalContext context = { .arena = scratch, .column = give_value, .context = (void *)(uintptr_t)groups };
    Value             value;
    *holds = true;
    for (int i = having->n_tests; *holds && i < groups->finish->n_conditions; i++) {
        TRY(expr_eval(groups->finish->conditions[i], &context, &value, err));
        *holds = !value.is_null && value.i;
    }
    return WEFT_OK;
}

static void test_rows(void *context, int part, u64 first, u64 end)
{
    const Having *having = context;
    Error        *err = &having->errors[part];
    Groups        groups = *having->groups;                 // the group at hand is the part's own
    if (err->status) return;
    memset(having->holds + first, 1, end - first);
    for (int t = 0; t < having->n_tests; t++) test_cells(&having->tests[t], groups.kept, first, end, having->holds);
    if (having->n_tests == groups.finish->n_conditions) return;
    Arena *scratch = arena_new(NULL, "having");
    for (u64 r = first; r < end && !err->status; r++) {
        bool holds;
        groups.group = group_of(&groups, r);
        if (having->holds[r]) having->holds[r] = !others_hold(having, &groups, scratch, err, &holds) && holds;
    }
    arena_free(scratch);
}

// On all threads: the interpreter takes most of the time of a query with many groups.
static weft_status test_groups(const Groups *groups, Having *having)
{
    QueryRun      *run = groups->run;
    const Team     team = query_team(run);
    const RowParts parts = team_split(&team, groups->n_rows);
    having->errors = arena_array(run->arena, Error, parts.n_parts + 1);
    for (int p = 0; p < parts.n_parts; p++) error_clear(&having->errors[p]);
    if (!team_rows(&team, &parts, test_rows, having)) return query_canceled(run);
    for (int p = 0; p < parts.n_parts; p++)
        if (having->errors[p].status) {
            *run->err = having->errors[p];
            return run->err->status;
        }
    return WEFT_OK;
}

static weft_status keep_where(Groups *groups)
{
    const Finish *finish = groups->finish;
    Having        having = { .groups = groups };
    if (!finish->n_conditions) return WEFT_OK;
    having.tests = arena_array(groups->run->arena, CellTest, finish->n_conditions);
    TRY(query_alloc(groups->run, groups->n_rows + 1, (void **)&having.holds));
    while (having.n_tests < finish->n_conditions &&
           cell_test(groups, finish->conditions[having.n_tests], &having.tests[having.n_tests]))
        having.n_tests++;
    TRY(test_groups(groups, &having));
    return choose_rows(groups, having.holds);
}

// ---- outputs --------------------------------------------------------------------------------------------------------

// Which key an output is as it is, or -1; then which aggregate.
static int key_of(const Groups *groups, const Expr *expr)
{
    const int place = groups->woven && expr->kind == EXPR_COLUMN ? groups->places[expr->column] : -1;
    return place < groups->pipeline->n_keys ? place : -1;
}

static int agg_of(const Groups *groups, const Expr *expr)
{
    const int place = groups->woven && expr->kind == EXPR_COLUMN ? groups->places[expr->column] : -1;
    return place >= groups->pipeline->n_keys ? place - groups->pipeline->n_keys : -1;
}

static bool can_be_null(const Groups *groups, const Expr *expr)
{
    const int     key = key_of(groups, expr), agg = agg_of(groups, expr);
    const AggKind kind = agg >= 0 ? groups->pipeline->aggs[agg].kind : AGG_SUM;
    if (key >= 0) return groups->woven->group_keys[key].nullable;
    if (agg < 0) return true;
    return kind != AGG_COUNT && kind != AGG_COUNT_ALL && groups->woven->aggs[agg].count >= 0;
}

static weft_status room_for_cells(QueryRun *run, Cells *cells, u64 n_rows, bool has_nulls)
{
    TRY(query_alloc(run, (n_rows + 1) * cells->size, &cells->data));
    if (type_is_quotient(cells->type)) TRY(query_alloc(run, n_rows + 1, (void **)&cells->shown));
    return has_nulls ? query_alloc(run, n_rows + 1, (void **)&cells->nulls) : WEFT_OK;
}

// Texts that were looked up, by code; where rows are not many more than codes, each row looks up its own.  (Not all
// codes have a text:
// the domain of a key is as wide as ranges prove, and values need not be dense in it.)
static weft_status room_for_texts(const Groups *groups, const GroupKey *key, weft_text **texts)
{
    *texts = NULL;
    if (!key->n_codes || key->n_codes > groups->n_rows / 2) return WEFT_OK;
    return query_alloc(groups->run, key->n_codes * sizeof **texts, (void **)texts);
}

static weft_text key_text(const GroupKey *key, u64 code, weft_text *texts)
{
    if (!texts) return dict_get(key->dict, (u32)key_number(key, code));
    if (!texts[code].bytes) texts[code] = dict_get(key->dict, (u32)key_number(key, code));
    return texts[code];
}

static weft_status put_key_texts(const Groups *groups, int k, Cells *cells)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    weft_text      *out = cells->data, *texts;
    TRY(room_for_texts(groups, key, &texts));
    for (u64 r = 0; r < groups->n_rows; r++) {
        bool      is_null;
        const u64 code = key_code(groups, k, group_of(groups, r), &is_null);
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        if (is_null) cells->nulls[r] = 1;
        else out[r] = key_text(key, code, texts);
    }
    return WEFT_OK;
}

typedef struct Putting { const Groups *groups; int number; Cells *cells; } Putting;    // number: key, or aggregate

static void put_key_rows(void *context, int part, u64 first, u64 end)
{
    const Putting  *putting = context;
    const Groups   *groups = putting->groups;
    const int       k = putting->number;
    const GroupKey *key = &groups->woven->group_keys[k];
    Cells          *cells = putting->cells;
    const bool      is_float = type_is_float(key->type);
    u64            *out = cells->data; // a double goes as its bits
    (void)part;
    for (u64 r = first; r < end; r++) {
        bool      is_null;
        const u64 code = key_code(groups, k, group_of(groups, r), &is_null);
        if (is_null) cells->nulls[r] = 1;
        else if (cells->kind == VIEW_WIDE)
            ((i128 *)cells->data)[r] = whole_key(groups, k, group_of(groups, r), code);
        else out[r] = is_float ? code : (u64)key_number(key, code);
    }
}

static weft_status put_rows(const Groups *groups, int number, Cells *cells,
                            void (*work)(void *context, int part, u64 first, u64 end))
{
    const Team     team = query_team(groups->run);
    const RowParts parts = team_split(&team, groups->n_rows);
    Putting        putting = { groups, number, cells };
    return team_rows(&team, &parts, work, &putting) ? WEFT_OK : query_canceled(groups->run);
}

static weft_status put_key(const Groups *groups, int k, Cells *cells)
{
    cells->dict = groups->woven->group_keys[k].dict;
    return cells->kind == VIEW_TEXT ? put_key_texts(groups, k, cells) : put_rows(groups, k, cells, put_key_rows);
}

// Sums and counts of 64 bits that are never NULL: the cells as they are.
static bool is_plain_agg(const Groups *groups, int a, int *slot)
{
    const Agg      *agg = &groups->pipeline->aggs[a];
    const AggState *state = &groups->woven->aggs[a];
    const bool      is_count = agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL;
    *slot = is_count ? state->count : state->sum;
    if (is_count) return state->count >= 0;
    return agg->kind != AGG_AVG && !state->is_float && !state->is_rank && state->count < 0;
}

static void put_extreme_code(const Groups *groups, int a, u64 group, Cells *cells, u64 row)
{
    const AggState *state = &groups->woven->aggs[a];
    if (state->count >= 0 && cell_of(groups, state->count, group) == 0) cells->nulls[row] = 1;
    else
        ((i64 *)cells->data)[row] = state->is_rank ? groups->code_of_rank[a][cell_of(groups, state->sum, group)]
                                                   : cell_of(groups, state->sum, group);
}

static void put_agg_rows(void *context, int part, u64 first, u64 end)
{
    const Putting *putting = context;
    const Groups  *groups = putting->groups;
    Cells         *cells = putting->cells;
    int            slot;
    const bool     is_plain = is_plain_agg(groups, putting->number, &slot) && cells->kind == VIEW_INT;
    (void)part;
    for (u64 r = first; r < end; r++) {
        const u64 group = group_of(groups, r);
        Value     value;
        if (is_plain) {
            ((i64 *)cells->data)[r] = cell_of(groups, slot, group);
        } else if (cells->kind == VIEW_CODE) {
            put_extreme_code(groups, putting->number, group, cells, r);
        } else {
            decode_agg(groups, putting->number, group, &value);
            put_value(cells, r, &value);
        }
    }
}

static weft_status put_agg(const Groups *groups, int a, Cells *cells)
{
    cells->dict = groups->woven->aggs[a].dict;
    return put_rows(groups, a, cells, put_agg_rows);
}

static bool is_plain_output(const Groups *groups, const Expr *expr)
{
    return key_of(groups, expr) >= 0 || agg_of(groups, expr) >= 0;
}

static bool is_sorted_by(const Finish *finish, int output)
{
    for (int s = 0; s < finish->n_sort; s++)
        if (finish->sort[s].column == finish->outputs[output].column) return true;
    return false;
}

// Where most rows are left out in the end, texts that do not decide which are looked up for the rows that stay.
static bool stays_code(const Groups *groups, int output)
{
    const Finish *finish = groups->finish;
    if (groups->as_codes) return true;
    return finish->limit >= 0 && finish->limit < (i64)(groups->n_rows / 4) &&
           finish->offset < (i64)(groups->n_rows / 4) && !is_sorted_by(finish, output);
}

// Ranks of so few are made in a moment and take next to no memory.  They are kept with the dictionary.
enum { FEW_TEXTS = 1 << 14 };

// Texts of a small dictionary are sorted by their ranks, which are small numbers: those of several keys fit the prefix
// of a row (sort.c), and no bytes are compared.
static bool sorts_as_code(const Groups *groups, int output, const Dictionary *dict)
{
    return !groups->finish->windows && is_sorted_by(groups->finish, output) && dict && dict_count(dict) <= FEW_TEXTS;
}

static weft_status put_plain_outputs(Groups *groups)
{
    for (int c = 0; c < groups->finish->n_outputs; c++) {
        const Expr *expr = groups->finish->outputs[c].value;
        Cells      *cells = &groups->cells[c];
        const int   key = key_of(groups, expr), agg = agg_of(groups, expr);
        if (cells->kind == VIEW_TEXT && (key >= 0 || agg >= 0)) {
            const Dictionary *dict = key >= 0 ? groups->woven->group_keys[key].dict : groups->woven->aggs[agg].dict;
            if (stays_code(groups, c) || sorts_as_code(groups, c, dict)) cells->kind = VIEW_CODE, cells->size = 8;
        }
        TRY(room_for_cells(groups->run, cells, groups->n_rows, can_be_null(groups, expr)));
        if (key >= 0) TRY(put_key(groups, key, cells));
        if (agg >= 0) TRY(put_agg(groups, agg, cells));
    }
    return WEFT_OK;
}

static weft_status put_other_outputs(Groups *groups, const EvalContext *context)
{
    const Finish *finish = groups->finish;
    int           n_others = 0;
    int          *others = arena_array(groups->run->arena, int, finish->n_outputs + 1);
    Value         value;
    for (int c = 0; c < finish->n_outputs; c++)
        if (!is_plain_output(groups, finish->outputs[c].value)) others[n_others++] = c;
    for (u64 r = 0; n_others && r < groups->n_rows; r++) {
        if (query_should_stop(groups->run, r)) return query_canceled(groups->run);
        groups->group = group_of(groups, r);
        for (int o = 0; o < n_others; o++) {
            TRY(expr_eval(finish->outputs[others[o]].value, context, &value, groups->run->err));
            put_value(&groups->cells[others[o]], r, &value);
        }
    }
    return WEFT_OK;
}

static weft_status invert_ranks(Groups *groups)
{
    groups->code_of_rank = arena_array(groups->run->arena, const u32 *, groups->pipeline->n_aggs + 1);
    for (int a = 0; a < groups->pipeline->n_aggs; a++) {
        const AggState *state = &groups->woven->aggs[a];
        if (!state->is_rank) continue;
        const u32 *ranks;
        u32       *codes;
        TRY(query_ranks(groups->run, state->dict, state->dict_count, &ranks));
        TRY(query_alloc(groups->run, ((size_t)state->dict_count + 1) * sizeof *codes, (void **)&codes));
        for (u32 code = 0; code < state->dict_count; code++) {
            if (query_should_stop(groups->run, code)) return query_canceled(groups->run);
            codes[ranks[code]] = code;
        }
        groups->code_of_rank[a] = codes;
    }
    return WEFT_OK;
}

// ---- which groups a LIMIT lets through ------------------------------------------------------------------------------

// Codes of texts and floats are in no order.  NULLs last.
static int compare_key(const Groups *groups, int k, u64 a, u64 b)
{
    const GroupKey *key = &groups->woven->group_keys[k];
    bool            a_null, b_null;
    const u64       a_code = key_code(groups, k, a, &a_null), b_code = key_code(groups, k, b, &b_null);
    if (a_null || b_null) return a_null - b_null;
    if (expr_is_high_word(groups->pipeline->keys[k].value)) {
        const i128 x = whole_key(groups, k, a, a_code), y = whole_key(groups, k, b, b_code);
        return (x > y) - (x < y);
    }
    if (a_code == b_code) return 0;
    if (type_is_float(key->type) || key->type.kind == TYPE_TEXT) {
        Value x, y;
        decode_key(groups, k, a, &x);
        decode_key(groups, k, b, &y);
        return value_compare(&x, &y);
    }
    return key_number(key, a_code) < key_number(key, b_code) ? -1 : 1;
}

// Groups of a hash table come as they were found, by the device and its threads.
static int compare_keys(const void *context, u64 a, u64 b)
{
    const Groups *groups = context;
    int           order = 0;
    for (int k = 0; k < groups->pipeline->n_keys && !order; k++)
        order = compare_key(groups, k, group_of(groups, a), group_of(groups, b));
    return order;
}

// ---- all together ---------------------------------------------------------------------------------------------------

static Cells *make_cells(QueryRun *run, const Finish *finish)
{
    Cells *cells = arena_array(run->arena, Cells, finish->n_outputs + 1);
    for (int c = 0; c < finish->n_outputs; c++) {
        const Type type = finish->outputs[c].value->type;
        cells[c] = (Cells){ .kind = view_kind(type), .type = type };
        cells[c].size = cells[c].kind == VIEW_INT || cells[c].kind == VIEW_FLOAT ? 8 : 16;
    }
    return cells;
}

static int *find_places(QueryRun *run, const Pipeline *pipeline)
{
    int *places = arena_array(run->arena, int, run->plan->n_columns + 1);
    if (pipeline->sink == SINK_VALUES)
        for (int c = 0; c < pipeline->n_columns; c++) places[pipeline->columns[c]] = c;
    for (int k = 0; pipeline->sink == SINK_GROUPS && k < pipeline->n_keys; k++)
        if (!expr_is_low_word(pipeline->keys[k].value)) places[pipeline->keys[k].column] = k;
    for (int a = 0; a < pipeline->n_aggs; a++) places[pipeline->agg_columns[a]] = pipeline->n_keys + a;
    return places;
}

static weft_status views_of_cells(Groups *groups, const Tie *tie, Finished *out)
{
    QueryRun *run = groups->run;
    out->views = arena_array(run->arena, View, groups->finish->n_outputs + 1);
    out->n_rows = groups->n_rows;
    for (int c = 0; c < groups->finish->n_outputs; c++) {
        const Cells *cells = &groups->cells[c];
        out->views[c] = (View){
            .kind = cells->kind, .type = cells->type, .data = cells->data, .nulls = cells->nulls, .dict = cells->dict,
            .shown = cells->shown
        };
        if (cells->kind == VIEW_CODE) out->views[c].dict_count = dict_count(cells->dict);
    }
    return order_rows(run, groups->finish, out->views, out->n_rows, tie, &out->order);
}

// Groups of an array come by key; codes of text are in no order that a user would know.
static bool come_by_key(const Groups *groups)
{
    if (!groups->woven) return true;
    for (int k = 0; k < groups->pipeline->n_keys; k++)
        if (groups->woven->group_keys[k].type.kind == TYPE_TEXT) return false;
    return groups->woven->group_kind != GROUP_HASH;
}

static weft_status finish_groups(Groups *groups, bool is_stable, Finished *out)
{
    const EvalContext context = { .arena = groups->run->arena, .column = give_value, .context = groups };
    const Tie         tie = { compare_keys, groups };
    const bool        is_hash = groups->woven && groups->woven->group_kind == GROUP_HASH;
    if (groups->woven) {
        if (is_hash && !groups->woven->is_one_word) groups->words = groups->set->words;
        else make_divisors(groups);
        TRY(invert_ranks(groups));
        TRY(find_groups(groups));
        TRY(check_sums(groups));
    } else {
        groups->n_rows = groups->pipeline->values->n_rows;
    }
    TRY(keep_where(groups));
    TRY(put_plain_outputs(groups));
    TRY(put_other_outputs(groups, &context));
    return views_of_cells(groups, come_by_key(groups) || is_stable ? NULL : &tie, out);
}

// Two columns of words as one of whole numbers.
static weft_status join_words(QueryRun *run, const Launch *launch, const OutColumn *high, const OutColumn *low,
                              const void **out)
{
    const i64 *high_words = launch->out.rows.columns[high->value], *low_words = launch->out.rows.columns[low->value];
    i128      *numbers;
    TRY(query_alloc(run, (launch->out.rows.n_rows + 1) * sizeof *numbers, (void **)&numbers));
    for (u64 r = 0; r < launch->out.rows.n_rows; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        numbers[r] = wide_of_words(high_words[r], low_words[r]);
    }
    *out = numbers;
    return WEFT_OK;
}

static View view_of_rows(const Launch *launch, const OutColumn *column)
{
    View view = { .kind = view_kind(column->type),
                  .type = column->type,
                  .data = launch->out.rows.columns[column->value],
                  .dict = column->dict,
                  .dict_count = column->dict_count,
                  .nulls = column->null < 0 ? NULL : launch->out.rows.columns[column->null] };
    if (view.kind == VIEW_TEXT) view.kind = VIEW_CODE;
    if (view.kind == VIEW_WIDE) view.kind = VIEW_INT;          // an output has one word
    return view;
}

static weft_status finish_rows(QueryRun *run, const Pipeline *pipeline, const Launch *launch, const Woven *woven,
                               Finished *out)
{
    int n_views = 0;
    out->views = arena_array(run->arena, View, pipeline->n_outputs + 1);
    out->n_rows = launch->out.rows.n_rows;
    for (int c = 0; c < pipeline->n_outputs; c++) {
        const Expr *value = pipeline->outputs[c].value;
        View       *view = &out->views[n_views++];
        *view = view_of_rows(launch, &woven->outputs[c]);
        if (!expr_is_high_word(value)) continue;
        view->kind = VIEW_WIDE, view->type = value->args[0]->type;
        TRY(join_words(run, launch, &woven->outputs[c], &woven->outputs[c + 1], &view->data));
        c++;
    }
    return pipeline->finish.is_computed ? compute_outputs(run, pipeline, out) : WEFT_OK;
}

// What comes of the sink: the outputs, or what window functions are computed from.
static Finish finish_of_sink(const Pipeline *pipeline)
{
    Finish finish = pipeline->finish;
    if (!finish.windows) return finish;
    finish.outputs = finish.windows->inputs, finish.n_outputs = finish.windows->n_inputs;
    return finish;
}

weft_status finish_pipeline(QueryRun *run, int number, const Launch *launch, const Woven *woven, bool as_codes,
                            bool is_stable, Finished *out)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    const Finish    finish = finish_of_sink(pipeline);
    run->sort_report = &run->reports[number].sort;
    run->sort_device = launch && pipeline->sink != SINK_VALUES && launch->device->sort ? launch->device : NULL;
    if (pipeline->sink == SINK_ROWS) {
        TRY(finish_rows(run, pipeline, launch, woven, out));
        TRY(order_rows(run, &finish, out->views, out->n_rows, NULL, &out->order));
    } else {
        Groups groups = { .run = run, .pipeline = pipeline, .finish = &finish, .as_codes = as_codes };
        groups.cells = make_cells(run, &finish);
        groups.places = find_places(run, pipeline);
        if (pipeline->sink == SINK_GROUPS) groups.woven = woven, groups.set = &launch->out.groups;
        TRY(finish_groups(&groups, is_stable, out));
    }
    out->is_lasting = pipeline->sink != SINK_ROWS && !finish.windows;          // columns of room_for_cells
    return finish.windows ? window_finish(run, number, out) : WEFT_OK;
}

weft_status finish_nothing(QueryRun *run, const Finish *finish, Finished *out)
{
    *out = (Finished){ .views = arena_array(run->arena, View, finish->n_outputs + 1) };
    for (int c = 0; c < finish->n_outputs; c++) {
        const Type type = finish->outputs[c].value->type;
        out->views[c] = (View){ .kind = view_kind(type), .type = type };
    }
    return WEFT_OK;
}
