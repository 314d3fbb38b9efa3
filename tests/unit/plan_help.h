// plan_help.h - what tests of plans share: tables that exist only as statistics, expressions from text, and an
// interpreter that runs a tree by nested loops.  Include after test.h.
//
// Inline, so that a program may leave some of them unused.

#ifndef WEFT_PLAN_HELP_H
#define WEFT_PLAN_HELP_H

#include <ctype.h>

#include "plan/functions.h"
#include "store_help.h"

static Arena *arena;                                        // of the test that runs

static inline void free_arena(void) { arena_free(arena); }

static inline Plan *begin(void)
{
    if (arena) arena_free(arena);
    else atexit(free_arena);
    arena = arena_new(NULL, "test");
    error_clear(&err);
    return plan_new(arena);
}

// ---- tables without rows: what a planner sees of large ones --------------------------------------------------------

// "name key 1 6000000" (increasing), "name int 0 99", "name text 25", "name date 1992-01-01 1998-12-31", "name money 0
// 5000"; a comma between columns.
static inline void fake_column(char *text, u64 n_rows, Column *column, ColumnChunk *chunk)
{
    char name[64], kind[16], low[32] = "0", high[32] = "0";
    CHECK(sscanf(text, " %63s %15s %31s %31s", name, kind, low, high) >= 3);
    *column = (Column){ .name = arena_strdup(arena, name), .type = TYPE(INTEGER) };
    *chunk = (ColumnChunk){ .has_range = n_rows > 0,
                            .width = 4,
                            .min = atoll(low),
                            .max = atoll(high),
                            .is_increasing = strcmp(kind, "key") == 0 };
    if (strcmp(kind, "text") == 0) {
        column->type = TYPE(TEXT), column->dict_count = (u32)atoll(low);
        chunk->min = 0, chunk->max = atoll(low) - 1;
    } else if (strcmp(kind, "money") == 0) {
        column->type = (Type){ TYPE_DECIMAL, 12, 2 };
        chunk->min *= 100, chunk->max *= 100;
    } else if (strcmp(kind, "date") == 0) {
        Value value;
        column->type = TYPE(DATE);
        CHECK_OK(value_parse(column->type, low, strlen(low), &value, &err), err);
        chunk->min = (i64)value.i;
        CHECK_OK(value_parse(column->type, high, strlen(high), &value, &err), err);
        chunk->max = (i64)value.i;
    }
}

static inline const Table *fake_table(const char *name, u64 n_rows, const char *columns)
{
    Snapshot    *snapshot = arena_make(arena, Snapshot);
    Table       *table = &snapshot->table;
    Chunk       *chunk = arena_make(arena, Chunk);
    const Chunk **chunks = arena_array(arena, const Chunk *, 1);
    Column      *defs = arena_array(arena, Column, 32);
    char        *rest = arena_strdup(arena, columns);
    *table = (Table){ .name = name, .n_chunks = 1, .columns = defs, .chunks = chunks, .n_rows = n_rows };
    chunks[0] = chunk;
    chunk->n_rows = (u32)n_rows, chunk->columns = arena_array(arena, ColumnChunk, 32);
    snapshot->distincts = (_Atomic double *)arena_array(arena, double, 32);
    for (char *part; (part = strsep(&rest, ",")); table->n_columns++) {
        const ColumnChunk *stored = &chunk->columns[table->n_columns];
        fake_column(part, n_rows, &defs[table->n_columns], &chunk->columns[table->n_columns]);
        snapshot->distincts[table->n_columns] = MAX_OF(1,
                                                       MIN_OF((double)(stored->max - stored->min + 1), (double)n_rows));
    }
    table->n_stored = table->n_columns;
    return table;
}

// ---- expressions from text -----------------------------------------------------------------------------------------

typedef struct Reader { Plan *plan; const char *at; } Reader;

static inline Expr *read_or(Reader *reader);

static inline void skip_blanks(Reader *reader)
{
    while (isspace((unsigned char)*reader->at)) reader->at++;
}

static inline bool takes(Reader *reader, const char *word)
{
    skip_blanks(reader);
    const size_t length = strlen(word);
    if (strncmp(reader->at, word, length) != 0) return false;
    if (isalpha((unsigned char)word[0]) && (isalnum((unsigned char)reader->at[length]) || reader->at[length] == '_'))
        return false;
    reader->at += length;
    return true;
}

static inline Expr *make_call(Op op, Expr **args, int n_args)
{
    Expr *expr = NULL;
    CHECK_OK(expr_call(arena, op, args, n_args, -1, &expr, &err), err);
    return expr;
}

static inline Expr *call2(Op op, Expr *a, Expr *b) { return make_call(op, (Expr *[]){ a, b }, 2); }

// "x", or "t.x"; the newest column of that name.
static inline int find_column(const Plan *plan, const char *name)
{
    char        qualifier[64] = "";
    const char *dot = strchr(name, '.');
    if (dot) snprintf(qualifier, sizeof qualifier, "%.*s", (int)(dot - name), name);
    for (int c = plan->n_columns - 1; c >= 0; c--) {
        const PlanColumn *column = &plan->columns[c];
        if (!column->name || strcmp(column->name, dot ? dot + 1 : name) != 0) continue;
        if (!dot || (column->qualifier && strcmp(column->qualifier, qualifier) == 0)) return c;
    }
    CHECK_FAIL("no column %s", name);
    return -1;
}

static inline Expr *read_text(Reader *reader)
{
    const char *end = strchr(reader->at, '\'');
    Value       value = { .type = TYPE(NULL) };
    value.text.bytes = reader->at, value.text.length = (u32)(end - reader->at);
    reader->at = end + 1;
    return expr_const(arena, value, -1);
}

static inline Expr *read_name(Reader *reader)
{
    char name[64];
    int  n = 0;
    while (isalnum((unsigned char)*reader->at) || *reader->at == '_' || *reader->at == '.') name[n++] = *reader->at++;
    name[n] = 0;
    return plan_column_expr(reader->plan, find_column(reader->plan, name), -1);
}

static inline Expr *read_case(Reader *reader)
{
    Expr *args[9], *expr;
    int   n = 0;
    while (takes(reader, "when")) {
        args[n++] = read_or(reader);
        CHECK(takes(reader, "then"));
        args[n++] = read_or(reader);
    }
    CHECK(takes(reader, "else"));
    args[n++] = read_or(reader);
    CHECK(takes(reader, "end"));
    CHECK_OK(expr_case(arena, args, n, -1, &expr, &err), err);
    return expr;
}

static inline Expr *read_coalesce(Reader *reader)
{
    Expr *args[9];
    int   n = 0;
    CHECK(takes(reader, "("));
    do args[n++] = read_or(reader);
    while (takes(reader, ","));
    CHECK(takes(reader, ")"));
    return make_call(OP_COALESCE, args, n);
}

static inline Expr *read_date(Reader *reader)
{
    Expr *expr = NULL;
    CHECK(takes(reader, "'"));
    CHECK_OK(expr_cast(arena, read_text(reader), TYPE(DATE), -1, &expr, &err), err);
    return expr;
}

static inline Expr *read_param(Reader *reader)
{
    const int param = (int)strtol(reader->at, (char **)(uintptr_t)&reader->at, 10) - 1;
    return expr_param(arena, param, reader->plan->params[param].type, -1);
}

static inline Expr *read_leaf(Reader *reader)
{
    Expr       *expr = NULL;
    const char *from;
    if (takes(reader, "(")) {
        expr = read_or(reader);
        CHECK(takes(reader, ")"));
        return expr;
    }
    if (takes(reader, "'")) return read_text(reader);
    if (takes(reader, "$")) return read_param(reader);
    if (takes(reader, "date")) return read_date(reader);
    if (takes(reader, "case")) return read_case(reader);
    if (takes(reader, "coalesce")) return read_coalesce(reader);
    if (takes(reader, "year")) {
        Expr *date = read_leaf(reader);
        return make_call(function_find_field("year", date), &date, 1);
    }
    if (takes(reader, "null")) return expr_const(arena, (Value){ .type = TYPE(NULL), .is_null = true }, -1);
    if (takes(reader, "true")) return expr_const(arena, (Value){ .type = TYPE(BOOLEAN), .i = 1 }, -1);
    if (takes(reader, "false")) return expr_const(arena, (Value){ .type = TYPE(BOOLEAN), .i = 0 }, -1);
    if (!isdigit((unsigned char)*reader->at)) return read_name(reader);
    for (from = reader->at; isdigit((unsigned char)*reader->at) || *reader->at == '.';) reader->at++;
    CHECK_OK(expr_number(arena, from, (size_t)(reader->at - from), -1, &expr, &err), err);
    return expr;
}

static inline Expr *read_product(Reader *reader)
{
    Expr *expr = read_leaf(reader);
    for (;;) {
        if (takes(reader, "*")) expr = call2(OP_MUL, expr, read_leaf(reader));
        else if (takes(reader, "/")) expr = call2(OP_DIV, expr, read_leaf(reader));
        else return expr;
    }
}

static inline Expr *read_sum(Reader *reader)
{
    Expr *expr = read_product(reader);
    for (;;) {
        if (takes(reader, "+")) expr = call2(OP_ADD, expr, read_product(reader));
        else if (takes(reader, "-")) expr = call2(OP_SUB, expr, read_product(reader));
        else return expr;
    }
}

static inline Expr *read_list(Reader *reader, Expr *expr)
{
    Expr *args[16] = { expr };
    int   n = 1;
    CHECK(takes(reader, "("));
    do args[n++] = read_leaf(reader);
    while (takes(reader, ","));
    CHECK(takes(reader, ")"));
    return make_call(OP_IN, args, n);
}

static inline Expr *read_comparison(Reader *reader)
{
    static const struct { const char *text; Op op;
    } ops[] = {
        { "<>", OP_NE }, { "<=", OP_LE }, { ">=", OP_GE },     { "=", OP_EQ },
        { "<", OP_LT },  { ">", OP_GT },  { "like", OP_LIKE },
    };
    Expr *expr = read_sum(reader);
    if (takes(reader, "is")) {
        const bool is_not = takes(reader, "not");
        CHECK(takes(reader, "null"));
        return make_call(is_not ? OP_IS_NOT_NULL : OP_IS_NULL, &expr, 1);
    }
    if (takes(reader, "in")) return read_list(reader, expr);
    if (takes(reader, "between")) {
        Expr *low = call2(OP_GE, expr, read_sum(reader));
        CHECK(takes(reader, "and"));
        return call2(OP_AND, low, call2(OP_LE, expr, read_sum(reader)));
    }
    for (int i = 0; i < COUNT_OF(ops); i++)
        if (takes(reader, ops[i].text)) return call2(ops[i].op, expr, read_sum(reader));
    return expr;
}

static inline Expr *read_not(Reader *reader)
{
    if (!takes(reader, "not")) return read_comparison(reader);
    Expr *expr = read_not(reader);
    return make_call(OP_NOT, &expr, 1);
}

static inline Expr *read_and(Reader *reader)
{
    Expr *expr = read_not(reader);
    while (takes(reader, "and")) expr = call2(OP_AND, expr, read_not(reader));
    return expr;
}

static inline Expr *read_or(Reader *reader)
{
    Expr *expr = read_and(reader);
    while (takes(reader, "or")) expr = call2(OP_OR, expr, read_and(reader));
    return expr;
}

static inline Expr *expr_of(Plan *plan, const char *text)
{
    Reader reader = { plan, text };
    Expr  *expr = read_or(&reader);
    skip_blanks(&reader);
    if (*reader.at) CHECK_FAIL("not understood: %s", reader.at);
    return expr;
}

// ---- nodes from text -----------------------------------------------------------------------------------------------

static inline Expr **list_of(Expr *expr)
{
    Expr **list = arena_array(arena, Expr *, 1);
    list[0] = expr;
    return list;
}

static inline Node *filter(Plan *plan, Node *input, const char *condition)
{
    return plan_filter(plan, input, list_of(expr_of(plan, condition)), 1);
}

static inline Node *join(Plan *plan, JoinKind kind, Node *left, Node *right, const char *condition)
{
    return plan_join(plan, kind, left, right, condition ? list_of(expr_of(plan, condition)) : NULL, condition != NULL);
}

// The columns named; "expr as name" makes a new one.
static inline Node *project(Plan *plan, Node *input, const char *exprs)
{
    char  *rest = arena_strdup(arena, exprs);
    Expr **list = arena_array(arena, Expr *, 64);
    int    columns[64], n = 0;
    for (char *part; (part = strsep(&rest, ";")); n++) {
        char *as = strstr(part, " as ");
        if (as) *as = 0;
        list[n] = expr_of(plan, part);
        columns[n] = as ? plan_add_column(plan, list[n]->type, arena_strdup(arena, as + 4), NULL) : list[n]->column;
    }
    return plan_project(plan, input, list, columns, n);
}

static inline AggKind agg_kind_of(const char **text)
{
    static const struct { const char *text; AggKind kind;
    } kinds[] = {
        { "count(*)", AGG_COUNT_ALL },
        { "count", AGG_COUNT },
        { "sum", AGG_SUM },
        { "min", AGG_MIN },
        { "max", AGG_MAX },
        { "avg", AGG_AVG },
    };
    while (**text == ' ') ++*text;
    for (int i = 0; i < COUNT_OF(kinds); i++) {
        if (strncmp(*text, kinds[i].text, strlen(kinds[i].text)) != 0) continue;
        *text += strlen(kinds[i].text);
        return kinds[i].kind;
    }
    CHECK_FAIL("no aggregate: %s", *text);
    return AGG_COUNT;
}

static inline Agg agg_of(Plan *plan, const char *text)
{
    Agg           agg;
    const AggKind kind = agg_kind_of(&text);
    if (kind == AGG_COUNT_ALL) {
        CHECK_OK(expr_agg(kind, NULL, -1, &agg, &err), err);
        return agg;
    }
    const bool is_distinct = strncmp(text, "(distinct", 9) == 0;
    char      *arg = arena_strdup(arena, text + (is_distinct ? 9 : 1));
    arg[strlen(arg) - 1] = 0;
    CHECK_OK(expr_agg(kind, expr_of(plan, arg), -1, &agg, &err), err);
    agg.is_distinct = is_distinct;
    return agg;
}

// Lists separated by ";"; an aggregate or a key may have " as name".
static inline Node *aggregate(Plan *plan, Node *input, const char *keys, const char *aggs)
{
    Expr **list = arena_array(arena, Expr *, 32);
    Agg   *agg_list = arena_array(arena, Agg, 32);
    int    key_columns[32], agg_columns[32], n_keys = 0, n_aggs = 0;
    char  *rest = arena_strdup(arena, keys);
    for (char *part; *keys && (part = strsep(&rest, ";")); n_keys++) {
        char *as = strstr(part, " as ");
        if (as) *as = 0;
        list[n_keys] = expr_of(plan, part);
        const char *name = as                                  ? arena_strdup(arena, as + 4)
                           : list[n_keys]->kind == EXPR_COLUMN ? plan->columns[list[n_keys]->column].name
                                                               : "key";
        key_columns[n_keys] = plan_add_column(plan, list[n_keys]->type, name, NULL);
    }
    rest = arena_strdup(arena, aggs);
    for (char *part; *aggs && (part = strsep(&rest, ";")); n_aggs++) {
        char *as = strstr(part, " as ");
        if (as) *as = 0;
        agg_list[n_aggs] = agg_of(plan, part);
        agg_columns[n_aggs] = plan_add_column(plan, agg_list[n_aggs].type, as ? arena_strdup(arena, as + 4) : "agg",
                                              NULL);
    }
    return plan_aggregate(plan, input, list, key_columns, n_keys, agg_list, agg_columns, n_aggs);
}

static inline Node *set_of(Plan *plan, SetKind kind, bool is_all, Node *left, Node *right)
{
    int columns[64];
    for (int c = 0; c < left->n_out; c++) {
        const PlanColumn column = plan->columns[left->out[c]];
        columns[c] = plan_add_column(plan, column.type, column.name, NULL);
    }
    return plan_set(plan, kind, is_all, left, right, columns);
}

// "x", "x desc"
static inline Node *sort(Plan *plan, Node *input, const char *keys)
{
    SortKey *list = arena_array(arena, SortKey, 32);
    char    *rest = arena_strdup(arena, keys);
    int      n = 0;
    for (char *part; (part = strsep(&rest, ";")); n++) {
        char *descending = strstr(part, " desc");
        if (descending) *descending = 0;
        while (*part == ' ') part++;
        list[n] = (SortKey){ .column = find_column(plan, part), .descending = descending, .nulls_first = descending };
    }
    return plan_sort(plan, input, list, n);
}

static inline void finish(Plan *plan, Node *root)
{
    plan->root = root, plan->n_visible = root->n_out;
}

static inline const char *tree_text(const Plan *plan)
{
    Text text = { 0 };
    plan_print(plan, &text);
    return text_keep(arena, &text);
}

// ---- the interpreter -----------------------------------------------------------------------------------------------

enum { ROWS_MAX = 30000 };

typedef struct Rows { int n_out; const int *out; int n; Value **rows; } Rows;

typedef struct Scope { const int *out; int n_out; const Value *row; } Scope;

typedef struct Interpreter {
    const Plan *plan;
    Scope       scopes[2];
    Scope       outer[16];             // left rows of the dependent joins around, the innermost last
    int         n_outer;
    bool        has_failed;            // too many rows, or an error
    bool        checks_ranges;         // of every column that comes out of every node
} Interpreter;

static inline Rows interpret(Interpreter *in, const Node *node);

static inline Value interpret_param(Interpreter *in, int param)
{
    const PlanParam *p = &in->plan->params[param];
    Value            value = { .type = p->type, .is_null = true };
    if (!p->subplan) {                                      // $N: some value
        value.is_null = false, value.i = 2;
        return value;
    }
    Interpreter inner = { .plan = in->plan, .checks_ranges = in->checks_ranges };
    const Rows  rows = interpret(&inner, p->subplan);
    in->has_failed |= inner.has_failed || rows.n > 1;
    return rows.n == 1 ? rows.rows[0][0] : value;
}

static inline void interpret_leaf(void *context, const Expr *leaf, Value *value)
{
    Interpreter *in = context;
    if (leaf->kind == EXPR_PARAM) {
        *value = interpret_param(in, leaf->param);
        return;
    }
    for (int s = 0; s < 2; s++)
        for (int c = 0; c < in->scopes[s].n_out; c++)
            if (in->scopes[s].out[c] == leaf->column) {
                *value = in->scopes[s].row[c];
                return;
            }
    for (int s = in->n_outer - 1; s >= 0; s--)
        for (int c = 0; c < in->outer[s].n_out; c++)
            if (in->outer[s].out[c] == leaf->column) {
                *value = in->outer[s].row[c];
                return;
            }
    CHECK_FAIL("column %d (%s) is not there", leaf->column, in->plan->columns[leaf->column].name);
}

static inline Value interpret_expr(Interpreter *in, const Expr *expr)
{
    const EvalContext context = { .arena = arena, .column = interpret_leaf, .context = in };
    Value             value = { .type = expr->type, .is_null = true };
    Error             ignored;
    error_clear(&ignored);
    if (!in->has_failed && expr_eval(expr, &context, &value, &ignored)) in->has_failed = true;
    return value;
}

static inline bool is_true(Interpreter *in, Expr *const *conditions, int n_conditions)
{
    for (int c = 0; c < n_conditions; c++) {
        const Value value = interpret_expr(in, conditions[c]);
        if (value.is_null || !value.i) return false;
    }
    return true;
}

static inline void add_row(Interpreter *in, Rows *rows, Value *row)
{
    if (rows->n >= ROWS_MAX) in->has_failed = true;
    if (in->has_failed) return;
    *LIST_PUSH(arena, rows->rows, rows->n) = row;
}

static inline Value *new_row(int n) { return arena_array(arena, Value, n + 1); }

static inline Scope scope_of(const Rows *rows, const Value *row) { return (Scope){ rows->out, rows->n_out, row }; }

// ROW of FROM with the columns of TO, which FROM may have more of and in another order.
static inline Value *row_to(Interpreter *in, const Rows *from, const Value *row, const Node *to)
{
    Value *copy = new_row(to->n_out);
    for (int c = 0; c < to->n_out; c++) {
        int place = 0;
        while (place < from->n_out && from->out[place] != to->out[c]) place++;
        if (place == from->n_out)
            CHECK_FAIL("column %d (%s) does not come from below", to->out[c], in->plan->columns[to->out[c]].name);
        copy[c] = row[place];
    }
    return copy;
}

static inline Value stored_value(const Table *table, const Chunk *chunk, int column, u32 row)
{
    const Column *def = &table->columns[column];
    Value         value = { .type = def->type, .is_null = is_null_at(&chunk->columns[column], row) };
    if (value.is_null) return value;
    if (def->type.kind == TYPE_TEXT) {
        const weft_text text = dict_get(def->dict, (u32)integer_at(&chunk->columns[column], row));
        value.text.bytes = text.bytes, value.text.length = (u32)text.length;
    } else if (type_is_float(def->type)) {
        value.f = float_at(&chunk->columns[column], row);
    } else {
        value.i = integer_at(&chunk->columns[column], row);
    }
    return value;
}

static inline void interpret_scan(Interpreter *in, const Node *node, Rows *rows)
{
    for (int k = 0; k < node->table->n_chunks; k++)
        for (u32 r = 0; r < node->table->chunks[k]->n_rows; r++) {
            Value *row = new_row(node->n_out);
            for (int c = 0; c < node->n_out; c++)
                row[c] = stored_value(node->table, node->table->chunks[k], node->table_columns[c], r);
            add_row(in, rows, row);
        }
}

static inline void interpret_project(Interpreter *in, const Node *node, const Rows *input, int r, Rows *rows)
{
    Value *row = new_row(node->n_out);
    i128   copies = 1;
    in->scopes[0] = scope_of(input, input->rows[r]), in->scopes[1] = (Scope){ 0 };
    for (int c = 0; c < node->n_out; c++) row[c] = interpret_expr(in, node->exprs[c]);
    if (node->copies >= 0) copies = interpret_expr(in, plan_column_expr(in->plan, node->copies, -1)).i;
    for (; copies > 0 && !in->has_failed; copies--) add_row(in, rows, row);
}

static inline bool keys_match(Interpreter *in, const Node *node)
{
    for (int k = 0; k < node->n_keys; k++) {
        const Value a = interpret_expr(in, node->keys[k]), b = interpret_expr(in, node->right_keys[k]);
        if (in->has_failed || a.is_null || b.is_null) return false;
        Value x = a, y = b;
        if (type_is_integer(x.type)) x.type = y.type = TYPE(BIGINT);
        if (value_compare(&x, &y) != 0) return false;
    }
    return is_true(in, node->conditions, node->n_conditions);
}

static inline Value *joined_row(Interpreter *in, const Node *node, const Value *left, const Value *right)
{
    const Node *l = node->inputs[0], *r = node->inputs[1];
    Value      *row = new_row(node->n_out);
    for (int c = 0; c < node->n_out; c++) {
        row[c] = (Value){ .type = in->plan->columns[node->out[c]].type, .is_null = true };
        for (int i = 0; left && i < l->n_out; i++)
            if (l->out[i] == node->out[c]) row[c] = left[i];
        for (int i = 0; right && i < r->n_out; i++)
            if (r->out[i] == node->out[c]) row[c] = right[i];
    }
    return row;
}

static inline Value *marked_row(Interpreter *in, const Node *node, const Value *left, bool mark)
{
    Value *row = joined_row(in, node, left, NULL);
    for (int c = 0; c < node->n_out; c++)
        if (node->out[c] == node->mark) row[c] = (Value){ .type = TYPE(BOOLEAN), .i = mark };
    return row;
}

// The right side names columns of the left one.
static inline bool is_dependent_join(const Node *node)
{
    ColumnSet free_columns = { 0 }, left = { 0 };
    plan_free_columns(arena, node->inputs[1], &free_columns);
    node_columns(arena, node->inputs[0], &left);
    return columns_meet(&free_columns, &left);
}

static inline Rows interpret_for(Interpreter *in, const Node *node, Scope outer)
{
    CHECK(in->n_outer < COUNT_OF(in->outer));
    in->outer[in->n_outer++] = outer;
    const Rows rows = interpret(in, node);
    in->n_outer--;
    return rows;
}

static inline void interpret_join(Interpreter *in, const Node *node, Rows *rows)
{
    const bool     is_dependent = is_dependent_join(node);
    const Rows     left = interpret(in, node->inputs[0]);
    Rows           right = { 0 };
    const JoinKind kind = node->join;
    if (!is_dependent) right = interpret(in, node->inputs[1]);
    const bool     gives_pairs = kind != JOIN_SEMI && kind != JOIN_ANTI && kind != JOIN_MARK;
    bool          *is_met = arena_array(arena, bool, right.n + 1);
    for (int l = 0; l < left.n && !in->has_failed; l++) {
        int n_matches = 0;
        if (is_dependent) {
            right = interpret_for(in, node->inputs[1], scope_of(&left, left.rows[l]));
            is_met = arena_array(arena, bool, right.n + 1);
        }
        for (int r = 0; r < right.n && !in->has_failed; r++) {
            in->scopes[0] = scope_of(&left, left.rows[l]), in->scopes[1] = scope_of(&right, right.rows[r]);
            if (!keys_match(in, node)) continue;
            is_met[r] = true;
            n_matches++;
            if (gives_pairs) add_row(in, rows, joined_row(in, node, left.rows[l], right.rows[r]));
        }
        if (kind == JOIN_SINGLE && n_matches > 1) in->has_failed = true;
        const bool alone = !n_matches && (kind == JOIN_LEFT || kind == JOIN_FULL || kind == JOIN_SINGLE);
        if (alone || (kind == JOIN_SEMI && n_matches) || (kind == JOIN_ANTI && !n_matches))
            add_row(in, rows, joined_row(in, node, left.rows[l], NULL));
        if (kind == JOIN_MARK) add_row(in, rows, marked_row(in, node, left.rows[l], n_matches > 0));
    }
    for (int r = 0; r < right.n && (kind == JOIN_RIGHT || kind == JOIN_FULL); r++)
        if (!is_met[r]) add_row(in, rows, joined_row(in, node, NULL, right.rows[r]));
}

// NULLs equal each other and come last.
static inline int order_values(const Value *a, const Value *b)
{
    if (a->is_null || b->is_null) return a->is_null - b->is_null;
    return value_compare(a, b);
}

static inline bool rows_equal(const Value *a, const Value *b, int n)
{
    for (int c = 0; c < n; c++)
        if (order_values(&a[c], &b[c]) != 0) return false;
    return true;
}

static inline Value add_up(const Agg *agg, Value *const *values, int n)
{
    Value  total = { .type = agg->type, .is_null = true };
    i128   sum = 0;
    double float_sum = 0, unit = 1;
    int    count = 0;
    for (int i = 0; i < n; i++) {
        const Value *value = values[i];
        if (agg->kind == AGG_ANY) {                         // of which there is only one
            if (i > 0) CHECK(order_values(values[i], values[0]) == 0);
            total = *value;
        }
        if (agg->arg && value->is_null) continue;
        bool is_repeated = false;
        for (int e = 0; e < i && agg->is_distinct; e++)
            is_repeated |= !values[e]->is_null && order_values(values[e], value) == 0;
        if (is_repeated) continue;
        count++;
        if (agg->kind == AGG_MIN || agg->kind == AGG_MAX) {
            const int order = total.is_null ? -1 : value_compare(value, &total);
            if (total.is_null || (agg->kind == AGG_MIN ? order < 0 : order > 0)) total = *value;
        } else if (agg->arg && type_is_float(value->type)) {
            float_sum += value->f;
        } else if (agg->arg) {
            sum += value->type.kind == TYPE_TEXT ? 0 : value->i;
            for (unit = 1; unit < (double)power_of_ten(value->type.kind == TYPE_DECIMAL ? value->type.scale : 0);)
                unit *= 10;
        }
    }
    if (agg->kind == AGG_COUNT || agg->kind == AGG_COUNT_ALL) return (Value){ .type = agg->type, .i = count };
    if (agg->kind == AGG_MIN || agg->kind == AGG_MAX || agg->kind == AGG_ANY || !count) return total;
    total.is_null = false;
    if (agg->kind == AGG_AVG) total.f = type_is_float(agg->arg->type) ? float_sum / count : (double)sum / unit / count;
    else if (type_is_float(agg->type)) total.f = float_sum;
    else total.i = sum;
    return total;
}

static inline Value *group_row(Interpreter *in, const Node *node, const Rows *input, Value **keys, int first)
{
    Value  *row = new_row(node->n_out);
    Value **values = arena_array(arena, Value *, input->n + 1);
    for (int k = 0; k < node->n_keys; k++) row[k] = keys[first][k];
    for (int a = 0; a < node->n_aggs; a++) {
        int n = 0;
        for (int r = first < 0 ? 0 : first; r < input->n; r++) {
            if (node->n_keys && !rows_equal(keys[r], keys[first], node->n_keys)) continue;
            in->scopes[0] = scope_of(input, input->rows[r]), in->scopes[1] = (Scope){ 0 };
            values[n] = new_row(1);
            if (node->aggs[a].arg) *values[n] = interpret_expr(in, node->aggs[a].arg);
            n++;
        }
        row[node->n_keys + a] = add_up(&node->aggs[a], values, n);
    }
    return row;
}

static inline void interpret_aggregate(Interpreter *in, const Node *node, Rows *rows)
{
    const Rows input = interpret(in, node->inputs[0]);
    Value    **keys = arena_array(arena, Value *, input.n + 1);
    for (int r = 0; r < input.n; r++) {
        keys[r] = new_row(node->n_keys);
        in->scopes[0] = scope_of(&input, input.rows[r]), in->scopes[1] = (Scope){ 0 };
        for (int k = 0; k < node->n_keys; k++) keys[r][k] = interpret_expr(in, node->keys[k]);
    }
    for (int r = 0; r < input.n && node->n_keys; r++) {
        bool is_first = true;
        for (int e = 0; e < r && is_first; e++) is_first = !rows_equal(keys[e], keys[r], node->n_keys);
        if (is_first) add_row(in, rows, group_row(in, node, &input, keys, r));
    }
    if (!node->n_keys) add_row(in, rows, group_row(in, node, &input, keys, -1));
}

static inline int count_equal(const Rows *rows, const Value *row, int before)
{
    int n = 0;
    for (int r = 0; r < before; r++) n += rows_equal(rows->rows[r], row, rows->n_out);
    return n;
}

static inline void interpret_set(Interpreter *in, const Node *node, Rows *rows)
{
    const Rows left = interpret(in, node->inputs[0]), right = interpret(in, node->inputs[1]);
    CHECK_INT(left.n_out, node->n_out);
    CHECK_INT(right.n_out, node->n_out);
    for (int r = 0; r < left.n; r++) {
        const int nth = count_equal(&left, left.rows[r], r), others = count_equal(&right, left.rows[r], right.n);
        const bool is_kept = node->set == SET_UNION       ? node->is_all || nth == 0
                             : node->set == SET_INTERSECT ? (node->is_all ? nth < others : nth == 0 && others)
                                                          : (node->is_all ? nth >= others : nth == 0 && !others);
        if (is_kept) add_row(in, rows, left.rows[r]);
    }
    for (int r = 0; r < right.n && node->set == SET_UNION; r++)
        if (node->is_all || (!count_equal(&right, right.rows[r], r) && !count_equal(&left, right.rows[r], left.n)))
            add_row(in, rows, right.rows[r]);
}

typedef struct SortContext { const Node *node; const int *places; int n; } SortContext;

static inline int order_rows(const Value *a, const Value *b, const SortContext *context)
{
    for (int k = 0; k < context->n; k++) {
        const SortKey *key = &context->node->sort[k];
        const Value   *x = &a[context->places[k]], *y = &b[context->places[k]];
        int order = x->is_null || y->is_null ? (key->nulls_first ? y->is_null - x->is_null : x->is_null - y->is_null)
                                             : (key->descending ? -1 : 1) * value_compare(x, y);
        if (order) return order;
    }
    return 0;
}

static inline void interpret_sort(Interpreter *in, const Node *node, Rows *rows)
{
    const Rows  input = interpret(in, node->inputs[0]);
    int        *places = arena_array(arena, int, node->n_sort + 1);
    SortContext context = { node, places, node->n_sort };
    for (int k = 0; k < node->n_sort; k++) {
        for (places[k] = 0; places[k] < input.n_out && input.out[places[k]] != node->sort[k].column;) places[k]++;
        if (places[k] == input.n_out) CHECK_FAIL("a sort key is not there");
    }
    for (int r = 1; r < input.n; r++)                       // by insertion: stable
        for (int i = r; i > 0 && order_rows(input.rows[i - 1], input.rows[i], &context) > 0; i--) {
            Value *swap = input.rows[i];
            input.rows[i] = input.rows[i - 1], input.rows[i - 1] = swap;
        }
    context.n = node->n_distinct_on;
    i64 n_run = 0;
    for (int r = 0; r < input.n; r++, n_run++) {
        if (r == 0 || order_rows(input.rows[r - 1], input.rows[r], &context) != 0) n_run = 0;
        const i64 place = n_run - node->run_skipped;
        if (!node->n_distinct_on || (place >= 0 && place <= node->run_more))
            add_row(in, rows, row_to(in, &input, input.rows[r], node));
    }
}

// row_number() over (), which is all that rewrites make.
static inline void interpret_numbers(Interpreter *in, const Node *node, Rows *rows)
{
    const Rows input = interpret(in, node->inputs[0]);
    CHECK(node->windows->n_funcs == 1 && node->windows->funcs[0].kind == WINDOW_ROW_NUMBER && !node->n_keys);
    CHECK_INT(node->n_out, input.n_out + 1);
    for (int r = 0; r < input.n && !in->has_failed; r++) {
        Value *row = arena_array(arena, Value, node->n_out);
        if (input.n_out) memcpy(row, input.rows[r], sizeof *row * (size_t)input.n_out);
        row[input.n_out] = (Value){ .type = TYPE(BIGINT), .i = r + 1 };
        add_row(in, rows, row);
    }
}

static inline void interpret_rows(Interpreter *in, const Node *node, Rows *rows)
{
    if (node->kind == NODE_SHARED) {
        const Rows shared = interpret(in, node->shared->root);
        CHECK_INT(shared.n_out, node->n_out);
        for (int r = 0; r < shared.n; r++) add_row(in, rows, shared.rows[r]);
        return;
    }
    const Rows input = interpret(in, node->inputs[0]);
    for (int r = 0; r < input.n && !in->has_failed; r++) {
        in->scopes[0] = scope_of(&input, input.rows[r]), in->scopes[1] = (Scope){ 0 };
        if (node->kind == NODE_PROJECT) interpret_project(in, node, &input, r, rows);
        if (node->kind == NODE_FILTER && is_true(in, node->conditions, node->n_conditions))
            add_row(in, rows, row_to(in, &input, input.rows[r], node));
        if (node->kind == NODE_LIMIT && r >= node->offset && (node->limit < 0 || r < node->offset + node->limit))
            add_row(in, rows, row_to(in, &input, input.rows[r], node));
    }
}

static inline void check_range(const Plan *plan, int column, const Value *value)
{
    const PlanColumn *known = &plan->columns[column];
    if (value->is_null && !known->range.nullable) CHECK_FAIL("NULL in %s, column %d", known->name, column);
    if (value->is_null || !known->range.known || known->type.kind == TYPE_TEXT) return;
    if (value->i < known->range.low || value->i > known->range.high)
        CHECK_FAIL("%lld in %s, column %d, is outside %lld .. %lld", (long long)value->i, known->name, column,
                   (long long)known->range.low, (long long)known->range.high);
}

static inline void check_ranges(const Plan *plan, const Rows *rows)
{
    for (int r = 0; r < rows->n; r++)
        for (int c = 0; c < rows->n_out; c++) check_range(plan, rows->out[c], &rows->rows[r][c]);
}

static inline Rows interpret(Interpreter *in, const Node *node)
{
    Rows rows = { .n_out = node->n_out, .out = node->out };
    if (in->has_failed) return rows;
    switch (node->kind) {
        case NODE_SCAN:      interpret_scan(in, node, &rows); break;
        case NODE_JOIN:      interpret_join(in, node, &rows); break;
        case NODE_AGGREGATE: interpret_aggregate(in, node, &rows); break;
        case NODE_SET:       interpret_set(in, node, &rows); break;
        case NODE_SORT:      interpret_sort(in, node, &rows); break;
        case NODE_WINDOW:    interpret_numbers(in, node, &rows); break;
        case NODE_VALUES:
            for (u64 r = 0; r < node->n_rows; r++) add_row(in, &rows, node->values + r * (u64)node->n_out);
            break;
        default: interpret_rows(in, node, &rows); break;
    }
    if (in->checks_ranges) check_ranges(in->plan, &rows);
    return rows;
}

#endif
