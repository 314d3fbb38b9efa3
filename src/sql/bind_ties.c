// bind_ties.c - FETCH FIRST n ROWS WITH TIES: the n first rows, and those that ORDER BY cannot tell from the last one.
//
//     window rank, row_number over (order by ...)
//     filter rank <= offset + n and row_number > offset

#include "plan/window.h"
#include "sql/sql_int.h"

static void add_function(Binder *binder, Windows *windows, WindowKind kind, const char *name, int at)
{
    const int column = plan_add_column(binder->plan, TYPE(BIGINT), name, NULL);
    *LIST_PUSH(binder->arena, windows->funcs, windows->n_funcs) =
        (WindowFunc){ .kind = kind, .type = TYPE(BIGINT), .column = column, .arg = -1, .n = -1,
                      .frame = frame_default(), .name = name, .at = at };
}

static Windows *ranks_of(Binder *binder, const Block *block, Expr **keys)
{
    Windows *windows = arena_make(binder->arena, Windows);
    windows->n_orders = 1;
    windows->orders = arena_array(binder->arena, WindowOrder, 1);
    windows->orders[0] = (WindowOrder){ .n_keys = block->n_sort,
                                        .keys = arena_array(binder->arena, SortKey, block->n_sort + 1) };
    for (int i = 0; i < block->n_sort; i++) {
        const SortItem *item = &block->sort[i];
        keys[i] = plan_column_expr(binder->plan, block->node->out[item->output], -1);
        windows->orders[0].keys[i] = (SortKey){ i, item->descending, item->nulls_first };
    }
    add_function(binder, windows, WINDOW_RANK, "rank", -1);
    if (block->offset > 0) add_function(binder, windows, WINDOW_ROW_NUMBER, "row_number", -1);
    return windows;
}

static weft_status compare_with(Binder *binder, Op op, int column, i64 number, Expr **out)
{
    const Value value = { .type = TYPE(BIGINT), .i = number };
    return bind_call(binder, op, plan_column_expr(binder->plan, column, -1), expr_const(binder->arena, value, -1), -1,
                     out);
}

weft_status build_ties(Binder *binder, Block *block)
{
    Expr    **keys = arena_array(binder->arena, Expr *, block->n_sort + 1);
    Expr    **conditions = arena_array(binder->arena, Expr *, 2);
    Windows  *windows = ranks_of(binder, block, keys);
    const i64 last = block->limit > INT64_MAX - block->offset ? INT64_MAX : block->limit + block->offset;
    block->node = plan_window(binder->plan, block->node, keys, block->n_sort, windows);
    TRY(compare_with(binder, OP_LE, windows->funcs[0].column, last, &conditions[0]));
    if (block->offset > 0)
        TRY(compare_with(binder, OP_GT, windows->funcs[1].column, block->offset, &conditions[1]));
    block->node = plan_filter(binder->plan, block->node, conditions, windows->n_funcs);
    return WEFT_OK;
}
