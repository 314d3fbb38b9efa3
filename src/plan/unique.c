// unique.c - which columns are proved to tell all rows of a node apart.

#include "plan/rewrite.h"

static bool is_before(Type type, const ColumnChunk *a, const ColumnChunk *b)
{
    return type_is_float(type) ? a->fmax < b->fmin : a->max < b->min;
}

// Strictly increasing within each chunk, without NULLs, and from one chunk to the next.  A text's codes tell texts
// apart.
bool table_column_is_unique(const Table *table, int column)
{
    for (int c = 0; c < table->n_chunks; c++) {
        const ColumnChunk *chunk = &table->chunks[c]->columns[column];
        if (!chunk->is_increasing) return false;
        if (c > 0 && !is_before(table->columns[column].type, &table->chunks[c - 1]->columns[column], chunk))
            return false;
    }
    return true;
}

// A key that the store keeps, without NULLs, all of whose columns are among those asked for.
static bool has_key_among(const Node *node, const ColumnSet *columns)
{
    const Table *table = node->table;
    for (int i = 0; i < table->n_indexes; i++) {
        const IndexDef *index = &table->indexes[i];
        int             n_found = 0;
        for (int k = 0; k < index->n_columns && index->kind != INDEX_PLAIN; k++) {
            bool is_found = false;
            for (int c = 0; c < node->n_out && !is_found; c++)
                is_found = node->table_columns[c] == index->columns[k] && columns_has(columns, node->out[c]) &&
                           table->columns[index->columns[k]].not_null;
            n_found += is_found;
        }
        if (index->kind != INDEX_PLAIN && n_found == index->n_columns) return true;
    }
    return false;
}

static bool scan_is_unique(const Node *node, const ColumnSet *columns)
{
    if (node->table->n_rows <= 1) return true;
    for (int c = 0; c < node->n_out; c++)
        if (columns_has(columns, node->out[c]) && table_column_is_unique(node->table, node->table_columns[c]))
            return true;
    return has_key_among(node, columns);
}

static bool aggregate_is_unique(const Node *node, const ColumnSet *columns)
{
    for (int k = 0; k < node->n_keys; k++)
        if (!columns_has(columns, node->out[k])) return false;
    return true;
}

// The columns of the input that COLUMNS are, where they are just that.
static bool project_is_unique(const Plan *plan, const Node *node, const ColumnSet *columns)
{
    ColumnSet below = { 0 };
    if (node->copies >= 0) return false;
    for (int c = 0; c < node->n_out; c++)
        if (columns_has(columns, node->out[c]) && node->exprs[c]->kind == EXPR_COLUMN)
            columns_add(plan->arena, &below, node->exprs[c]->column);
    return node_is_unique(plan, node->inputs[0], &below);
}

// A left row meets one right row at most if the keys tell the right rows apart.
static bool join_is_unique(const Plan *plan, const Node *node, const ColumnSet *columns)
{
    ColumnSet right = { 0 };
    if (!node_is_unique(plan, node->inputs[0], columns)) return false;
    if (!join_gives_right(node->join)) return true;
    if (node->join != JOIN_INNER && node->join != JOIN_LEFT && node->join != JOIN_SINGLE) return false;
    for (int k = 0; k < node->n_keys; k++)
        if (node->right_keys[k]->kind == EXPR_COLUMN) columns_add(plan->arena, &right, node->right_keys[k]->column);
    return node->join == JOIN_SINGLE || node_is_unique(plan, node->inputs[1], &right);
}

bool node_is_unique(const Plan *plan, const Node *node, const ColumnSet *columns)
{
    switch (node->kind) {
        case NODE_SCAN:      return scan_is_unique(node, columns);
        case NODE_VALUES:    return node->n_rows <= 1;
        case NODE_FILTER: case NODE_SORT: case NODE_WINDOW: return node_is_unique(plan, node->inputs[0], columns);
        case NODE_LIMIT:
            return (node->limit >= 0 && node->limit <= 1) || node_is_unique(plan, node->inputs[0], columns);
        case NODE_PROJECT:   return project_is_unique(plan, node, columns);
        case NODE_AGGREGATE: return aggregate_is_unique(node, columns);
        case NODE_JOIN:      return join_is_unique(plan, node, columns);
        default:             return false;
    }
}
