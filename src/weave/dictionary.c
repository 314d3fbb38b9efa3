// dictionary.c - text in kernels: codes, and what is known of them before the kernel runs.
//
// A kernel sees text as codes of a dictionary.  A predicate on one text is worked out once per distinct value, here, by
// the host's threads, into a table that the kernel looks up by code, or into a range of codes where the matches are
// neighbours (always so for =).  The table has a bit for each code where values are many: where all texts of a column
// differ, that is a bit for each row.
// Where texts of several dictionaries meet (CASE, COALESCE, joins, comparing two columns) their codes are mapped into
// one.

#include "plan/like.h"
#include "weave/weave_int.h"

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

static void release_dict(void *dict) { dict_release(dict); }

// Loops over a dictionary can take long: a cancel is seen in them.
static weft_status canceled(Weaver *w)
{
    return fail(w->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

static weft_status check_stop(Weaver *w, u32 code)
{
    return (code & 255) || !team_is_stopped(&w->job->team) ? WEFT_OK : canceled(w);
}

// Adds the texts of FROM to INTO.  CODES: the code of each text in INTO; may be NULL.
static weft_status intern_all(Weaver *w, Dictionary *into, const Dictionary *from, u32 count, u32 *codes)
{
    enum { BATCH = 256 };
    weft_text texts[BATCH];
    u32       ignored[BATCH] = { 0 };
    for (u32 first = 0; first < count; first += BATCH) {
        const u32 n = MIN_OF(BATCH, count - first);
        TRY(check_stop(w, first));
        for (u32 i = 0; i < n; i++) texts[i] = dict_get(from, first + i);
        TRY(dict_intern_many(into, texts, n, codes ? codes + first : ignored, w->err));
    }
    return WEFT_OK;
}

// ---- which dictionary -----------------------------------------------------------------------------------------------

typedef void LeafVisit(void *context, const Expr *leaf);

static void visit_leaves(const Expr *expr, LeafVisit *visit, void *context)
{
    if (weave_is_island(expr)) {
        visit(context, expr);
    } else if (expr->kind == EXPR_CASE) {
        for (int i = 1; i < expr->n_args; i += 2) visit_leaves(expr->args[i], visit, context);
        visit_leaves(expr->args[expr->n_args - 1], visit, context);
    } else if (expr->kind == EXPR_CALL) {      // COALESCE, CAST
        for (int i = 0; i < expr->n_args; i++) visit_leaves(expr->args[i], visit, context);
    } else {
        visit(context, expr);
    }
}

typedef struct Leaves {
    Weaver     *w;
    Dictionary *only;                  // the one dictionary of all leaves, while there is but one
    u32         count;
    bool        is_mixed;
    Dictionary *merged;                // second pass: everything goes in here
    weft_status status;
} Leaves;

// The dictionary of a column or an island; false: there is none.
static bool dict_of_leaf(Leaves *leaves, const Expr *leaf, Dictionary **dict, u32 *count)
{
    if (leaves->status) return false;
    if (leaf->kind != EXPR_COLUMN) {
        leaves->status = weave_island_dict(leaves->w, leaf, dict, count);
        return !leaves->status;
    }
    const Var *var = weave_var_of(leaves->w, leaf);
    if (var) *dict = var->dict, *count = var->dict_count;
    return var != NULL;
}

static void look_at_leaf(void *context, const Expr *leaf)
{
    Leaves     *leaves = context;
    Dictionary *dict;
    u32         count;
    if (leaf->kind == EXPR_CONST) {
        leaves->is_mixed |= !leaf->value.is_null;
        return;
    }
    if (!dict_of_leaf(leaves, leaf, &dict, &count)) return;
    if (leaves->only && leaves->only != dict) leaves->is_mixed = true;
    leaves->only = dict;
    leaves->count = MAX_OF(leaves->count, count);
}

static void merge_leaf(void *context, const Expr *leaf)
{
    Leaves *leaves = context;
    u32     ignored;
    if (leaves->status) return;
    if (leaf->kind == EXPR_CONST) {
        if (!leaf->value.is_null)
            leaves->status =
                dict_intern(leaves->merged, leaf->value.text.bytes, leaf->value.text.length, &ignored, leaves->w->err);
        return;
    }
    Dictionary *dict;
    u32         count;
    if (dict_of_leaf(leaves, leaf, &dict, &count))
        leaves->status = intern_all(leaves->w, leaves->merged, dict, count, NULL);
}

weft_status weave_text_dict(Weaver *w, const Expr *expr, Dictionary **dict, u32 *n_codes)
{
    for (int i = 0; i < w->n_merged; i++)
        if (w->merged[i].expr == expr) {
            *dict = w->merged[i].dict, *n_codes = w->merged[i].count;
            return WEFT_OK;
        }
    Leaves leaves = { .w = w };
    visit_leaves(expr, look_at_leaf, &leaves);
    TRY(leaves.status);
    if (leaves.only && !leaves.is_mixed) {
        *dict = leaves.only, *n_codes = leaves.count;
        return WEFT_OK;
    }
    leaves.merged = dict_new(w->job->budget);
    arena_defer(w->arena, release_dict, leaves.merged);
    visit_leaves(expr, merge_leaf, &leaves);
    *dict = leaves.merged, *n_codes = dict_count(leaves.merged);
    *LIST_PUSH(w->arena, w->merged, w->n_merged) = (MergedDict){ expr, *dict, *n_codes };
    return leaves.status;
}

weft_status weave_text_const(Weaver *w, const Expr *expr, Val *out)
{
    *out = (Val){ .value = "0", .null = "1", .range = { .known = true, .nullable = true, .low = 0, .high = -1 } };
    TRY(weave_text_dict(w, expr, &out->dict, &out->dict_count));
    if (expr->value.is_null) return WEFT_OK;
    u32 code = 0;
    dict_find(out->dict, expr->value.text.bytes, expr->value.text.length, &code);
    out->value = weave_param_i64(w, NULL, code);
    out->null = NULL;
    out->range = (Range){ .known = true, .low = 0, .high = (i128)out->dict_count - 1 };
    return WEFT_OK;
}

// ---- from one dictionary to another ---------------------------------------------------------------------------------

static weft_status map_codes(Weaver *w, const Dictionary *from, u32 from_count, const Dictionary *to, u32 to_count,
                             i32 **out)
{
    i32 *map = *out = arena_array(w->arena, i32, from_count + 1);
    for (u32 code = 0; code < from_count; code++) {
        const weft_text text = dict_get(from, code);
        u32             found;
        TRY(check_stop(w, code));
        map[code] = dict_find(to, text.bytes, text.length, &found) && found < to_count ? (i32)found : -1;
    }
    return WEFT_OK;
}

// A NULL's code is arbitrary, and there may be no codes at all: it must not be looked up.
static const char *safe_code(Weaver *w, const Val *text)
{
    return text->null ? PRINT("(%s ? 0 : %s)", text->null, text->value) : text->value;
}

static Val look_up(Weaver *w, Val text, const char *type, const void *map, size_t bytes, Range range)
{
    const char *table = weave_table(w, type, weave_name(w, "codes"), map, bytes);
    range.nullable = text.null != NULL;
    return (Val){ .value = PRINT("(i64)%s[%s]", table, safe_code(w, &text)), .null = text.null, .range = range };
}

Val weave_code_in(Weaver *w, const Value *text, Dictionary *dict, u32 dict_count)
{
    u32        code;
    const bool found = dict_find(dict, text->text.bytes, text->text.length, &code) && code < dict_count;
    return (Val){ .value = weave_param_i64(w, NULL, found ? (i64)code : -1), .dict = dict, .dict_count = dict_count,
                  .range = { .known = true, .low = -1, .high = (i128)dict_count - 1 } };
}

weft_status weave_recode(Weaver *w, Val *text, Dictionary *dict, u32 dict_count)
{
    const Range range = { .known = true, .low = -1, .high = (i128)dict_count - 1 };
    i32        *map;
    if (text->dict == dict) return WEFT_OK;
    TRY(map_codes(w, text->dict, text->dict_count, dict, dict_count, &map));
    *text = look_up(w, *text, "i32", map, ((size_t)text->dict_count + 1) * sizeof *map, range);
    return WEFT_OK;
}

// ---- comparing two texts: both as ranks in the sorted union of their dictionaries -----------------------------------

weft_status weave_ranks(Weaver *w, Dictionary *dict, u32 dict_count, const u32 **ranks)
{
    const RanksWith with = { w->job->budget, w->job->team.stop };
    return dict_hold_ranks(w->arena, dict, dict_count, with, ranks, w->err);
}

// MAP: codes in the merged dictionary, which become their ranks.
static weft_status rank_in(Weaver *w, Val *text, u32 *map, const u32 *ranks, u32 n_ranks)
{
    for (u32 code = 0; code < text->dict_count; code++) {
        TRY(check_stop(w, code));
        map[code] = ranks[map[code]];
    }
    *text = look_up(w, *text, "u32", map, ((size_t)text->dict_count + 1) * sizeof *map,
                    (Range){ .known = true, .low = 0, .high = n_ranks });
    return WEFT_OK;
}

static Val look_up_rank(Weaver *w, Val text, const u32 *ranks, u32 n_ranks)
{
    return look_up(w, text, "u32", ranks, (size_t)n_ranks * sizeof *ranks,
                   (Range){ .known = true, .low = 0, .high = n_ranks });
}

// Texts of one dictionary.
static weft_status rank_both(Weaver *w, Val *a, Val *b)
{
    const u32  n_ranks = MAX_OF(a->dict_count, b->dict_count);
    const u32 *ranks;
    TRY(weave_ranks(w, a->dict, n_ranks, &ranks));
    *a = look_up_rank(w, *a, ranks, n_ranks), *b = look_up_rank(w, *b, ranks, n_ranks);
    return WEFT_OK;
}

weft_status weave_text_compare(Weaver *w, Op op, Val *a, Val *b)
{
    const bool only_equality = op == OP_EQ || op == OP_NE;
    if (a->dict == b->dict) return only_equality ? WEFT_OK : rank_both(w, a, b);
    Dictionary *merged = dict_new(w->job->budget);
    arena_defer(w->arena, release_dict, merged);
    u32 *a_codes = arena_array(w->arena, u32, a->dict_count + 1);
    u32 *b_codes = arena_array(w->arena, u32, b->dict_count + 1);
    TRY(intern_all(w, merged, a->dict, a->dict_count, a_codes));
    TRY(intern_all(w, merged, b->dict, b->dict_count, b_codes));
    const u32  n_ranks = dict_count(merged);
    const u32 *ranks;
    TRY(weave_ranks(w, merged, n_ranks, &ranks));
    TRY(rank_in(w, a, a_codes, ranks, n_ranks));
    return rank_in(w, b, b_codes, ranks, n_ranks);
}

// ---- predicates on one text -----------------------------------------------------------------------------------------

static const Expr *text_side(const Expr *expr)
{
    const Expr *text = NULL;
    for (int i = 0; i < expr->n_args; i++) {
        if (expr->args[i]->kind == EXPR_CONST) continue;
        if (text || expr->args[i]->type.kind != TYPE_TEXT) return NULL;
        text = expr->args[i];
    }
    return text;
}

bool weave_is_text_test(const Expr *expr)
{
    if (expr->kind != EXPR_CALL || expr->op < OP_EQ || expr->op > OP_IN) return false;
    if (expr->op == OP_AND || expr->op == OP_OR || expr->op == OP_NOT || expr->op == OP_IS_NULL ||
        expr->op == OP_IS_NOT_NULL)
        return false;
    return text_side(expr) != NULL;
}

static void set_found(const TextTest *test, const Expr *constant, u8 *outcome, u8 value)
{
    u32 code;
    if (!constant->value.is_null &&
        dict_find(test->dict, constant->value.text.bytes, constant->value.text.length, &code) &&
        code < test->dict_count)
        outcome[code] = value;
}

// =, <> and IN ask the dictionary instead of looking at each of its values.
static bool test_by_lookup(const Expr *expr, const TextTest *test, u8 *outcome)
{
    const bool is_ne = expr->op == OP_NE;
    bool       has_null = false;
    if (expr->op != OP_EQ && !is_ne && expr->op != OP_IN) return false;
    for (int i = 0; i < expr->n_args; i++)
        has_null |= expr->args[i]->kind == EXPR_CONST && expr->args[i]->value.is_null;
    memset(outcome, has_null ? 2 : is_ne, test->dict_count);
    for (int i = 0; i < expr->n_args; i++)
        if (expr->args[i]->kind == EXPR_CONST) set_found(test, expr->args[i], outcome, !is_ne);
    return true;
}

static void give_text(void *context, const Expr *node, Value *value)
{
    (void)node;
    *value = *(const Value *)context;
}

typedef struct TextWork {
    const Expr     *expr;
    const TextTest *test;
    u8             *outcome;
    Error          *errors;            // by part: its first
} TextWork;

static void test_values(void *context, int part, u64 first, u64 end)
{
    const TextWork   *work = context;
    Value             text = { .type = TYPE(TEXT) }, result;
    Arena            *scratch = arena_new(NULL, "text test");
    const EvalContext of = { .arena = scratch, .column = give_text, .context = &text };
    for (u64 code = first; code < end && !work->errors[part].status; code++) {
        const weft_text bytes = dict_get(work->test->dict, (u32)code);
        text.text.bytes = bytes.bytes, text.text.length = (u32)bytes.length;
        if (!expr_eval(work->expr, &of, &result, &work->errors[part]))
            work->outcome[code] = result.is_null ? 2 : result.i != 0;
    }
    arena_free(scratch);
}

static weft_status test_by_value(Weaver *w, const Expr *expr, const TextTest *test, u8 *outcome)
{
    const RowParts parts = team_split(&w->job->team, test->dict_count);
    Expr          *column = expr_column(w->arena, 0, TYPE(TEXT), expr->at), copy = *expr;
    TextWork       work = { &copy, test, outcome, arena_array(w->arena, Error, parts.n_parts) };
    copy.args = arena_array(w->arena, Expr *, expr->n_args);
    for (int i = 0; i < expr->n_args; i++) copy.args[i] = expr->args[i] == test->text ? column : expr->args[i];
    for (int p = 0; p < parts.n_parts; p++) error_clear(&work.errors[p]);
    if (!team_rows(&w->job->team, &parts, test_values, &work)) return canceled(w);
    for (int p = 0; p < parts.n_parts; p++)
        if (work.errors[p].status) {
            *w->err = work.errors[p];
            return w->err->status;
        }
    return WEFT_OK;
}

// ---- LIKE: a search through the texts where they lie ----------------------------------------------------------------

typedef struct LikeWork {
    const LikePattern *pattern;
    const TextTest    *test;
    u64               *bits;
} LikeWork;

// A damaged block has no matches; dict_status tells.
static void search_texts(void *context, int part, u64 first, u64 end)
{
    const LikeWork *work = context;
    (void)part;
    for (u64 code = first; code < end;) {
        TextRun   run;
        const bool is_good = dict_run(work->test->dict, (u32)code, &run);
        const u64 run_end = MIN_OF(end, (u64)run.first + run.n_texts);
        if (is_good) like_search(work->pattern, &run, (u32)code, (u32)run_end, work->bits);
        code = run_end;
    }
}

static weft_status test_by_search(Weaver *w, const LikePattern *pattern, TextTest *test)
{
    const RowParts parts = team_split(&w->job->team, test->dict_count);
    LikeWork       work = { pattern, test, arena_array(w->arena, u64, (size_t)test->dict_count / 64 + 1) };
    test->bits = work.bits;
    if (!team_rows(&w->job->team, &parts, search_texts, &work)) return canceled(w);
    return dict_status(test->dict, w->err);
}

enum { MANY_CODES = 1 << 16 };         // whose outcome is better kept in bits than in bytes

static void outcome_to_bits(Weaver *w, TextTest *test)
{
    u64 *bits = arena_array(w->arena, u64, (size_t)test->dict_count / 64 + 1);
    for (u32 code = 0; code < test->dict_count; code++) {
        if (test->outcome[code] == 2) return;
        bits[code / 64] |= (u64)test->outcome[code] << code % 64;
    }
    test->bits = bits;
}

// ---- what the kernel is told ----------------------------------------------------------------------------------------

static void find_run_of_bits(TextTest *test)
{
    const u32 n_words = test->dict_count / 64 + 1;
    i64       n_true = 0;
    test->low = 0, test->high = -1;
    for (u32 i = 0; i < n_words; i++) {
        if (!test->bits[i]) continue;
        if (n_true == 0) test->low = (i64)i * 64 + __builtin_ctzll(test->bits[i]);
        test->high = (i64)i * 64 + 63 - __builtin_clzll(test->bits[i]);
        n_true += __builtin_popcountll(test->bits[i]);
    }
    test->is_run = test->high - test->low + 1 == n_true;
}

// Whether the matches are neighbours: then two numbers say it all.
static void find_run(TextTest *test)
{
    i64 n_true = 0;
    test->low = 0, test->high = -1;
    for (u32 code = 0; code < test->dict_count; code++) {
        if (test->outcome[code] == 2) return;
        if (!test->outcome[code]) continue;
        if (n_true++ == 0) test->low = code;
        test->high = code;
    }
    test->is_run = test->high - test->low + 1 == n_true;
}

weft_status weave_text_test(Weaver *w, const Expr *expr, TextTest *out)
{
    for (int i = 0; i < w->n_tests; i++)
        if (w->tests[i].test == expr) {
            *out = w->tests[i];
            return WEFT_OK;
        }
    *out = (TextTest){ .test = expr, .text = text_side(expr) };
    TRY(weave_text_dict(w, out->text, &out->dict, &out->dict_count));
    LikePattern pattern;
    if (like_prepare(w->arena, expr, out->text, &pattern)) {
        TRY(test_by_search(w, &pattern, out));
    } else {
        u8 *outcome = arena_array(w->arena, u8, (size_t)out->dict_count + 1);
        if (!test_by_lookup(expr, out, outcome)) TRY(test_by_value(w, expr, out, outcome));
        out->outcome = outcome;
        if (out->dict_count >= MANY_CODES) outcome_to_bits(w, out);
    }
    if (out->bits) find_run_of_bits(out);
    else find_run(out);
    *LIST_PUSH(w->arena, w->tests, w->n_tests) = *out;
    return WEFT_OK;
}
