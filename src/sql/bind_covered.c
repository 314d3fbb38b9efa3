// bind_covered.c - columns that GROUP BY need not name, since a primary key among its keys tells them.
//
//     select c.id, c.name, sum(o.price) from customers c join orders o on ... group by c.id
//
// Such a column becomes one more key, which changes no group: plan/rewrite_keys.c drops keys that others determine.  As
// in PostgreSQL a primary key does this, UNIQUE does not, and of GROUPING SETS all must have the whole primary key.

#include "sql/sql_int.h"

// Every set has the keys of MASK.
static bool all_sets_have(const Block *block, u64 mask)
{
    for (int i = 0; i < block->n_sets; i++)
        if ((block->sets[i] & mask) != mask) return false;
    return true;
}

static bool find_key(Binder *binder, const Block *block, int column, int *number)
{
    Expr *wanted;
    if (term_of_column(binder, column, -1, &wanted)) return false;
    for (*number = 0; *number < block->n_keys; ++*number)
        if (expr_equal(block->keys[*number], wanted)) return true;
    return false;
}

static const IndexDef *primary_key(const Table *table)
{
    for (int i = 0; i < table->n_indexes; i++)
        if (table->indexes[i].kind == INDEX_PRIMARY_KEY) return &table->indexes[i];
    return NULL;
}

static bool is_covered(Binder *binder, const Block *block, const FromItem *source)
{
    const IndexDef *primary = source->table ? primary_key(source->table) : NULL;
    u64             mask = 0;
    for (int c = 0; primary && c < primary->n_columns; c++) {
        int number;
        if (!find_key(binder, block, source->columns[primary->columns[c]], &number)) return false;
        if (number < 64) mask |= (u64)1 << number;
    }
    return primary && all_sets_have(block, mask);
}

static void columns_above(const Binder *binder, const Block *block, ColumnSet *used)
{
    for (int i = 0; i < block->n_outputs; i++) columns_add_expr(binder->arena, used, block->outputs[i].expr);
    for (int i = 0; i < block->n_window_keys; i++) columns_add_expr(binder->arena, used, block->window_keys[i]);
    for (int i = 0; i < block->n_having; i++) columns_add_expr(binder->arena, used, block->having[i]);
    for (int i = 0; i < block->n_marks; i++)
        if (!block->marks[i].is_placed && !block->marks[i].is_below)
            mark_columns(binder->arena, &block->marks[i], used);
}

static weft_status add_key(Binder *binder, Block *block, int column)
{
    const int number = block->n_keys;
    TRY(term_of_column(binder, column, -1, LIST_PUSH(binder->arena, block->keys, block->n_keys)));
    for (int i = 0; i < block->n_sets && number < 64; i++) block->sets[i] |= (u64)1 << number;
    return WEFT_OK;
}

weft_status add_covered_keys(Binder *binder, Block *block)
{
    ColumnSet used = { 0 };
    int       ignored;
    block->n_named_keys = block->n_keys;
    if (!block->n_keys) return WEFT_OK;
    columns_above(binder, block, &used);
    for (int s = 0; s < block->n_sources; s++) {
        const FromItem *source = block->sources[s];
        if (!is_covered(binder, block, source)) continue;
        for (int c = 0; c < source->n_columns; c++)
            if (columns_has(&used, source->columns[c]) && !find_key(binder, block, source->columns[c], &ignored))
                TRY(add_key(binder, block, source->columns[c]));
    }
    return WEFT_OK;
}
