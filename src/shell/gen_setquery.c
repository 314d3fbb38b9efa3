// gen_setquery.c - the table of the Set Query benchmark: bench, whose values are those of src/lab/set_query.c.

#include <math.h>

#include "lab/set_query.h"
#include "shell/gen_int.h"

typedef struct SetQueryRules { u64 seed; } SetQueryRules;

static void fill_bench(const void *context, u64 first, u32 n, GenBatch *batch)
{
    const SetQueryRules *rules = context;
    for (int column = 0; column < SET_QUERY_COLUMNS; column++)
        for (u32 row = 0; row < n; row++)
            batch->cells[column][row] = set_query_value(rules->seed, first + row, column);
    batch->n_rows = n;
}

weft_status gen_setquery(Store *store, Pool *pool, const GenOptions *options, Error *err)
{
    if (!(options->scale > 0 && options->scale <= GEN_SETQUERY_SCALE_MAX))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "scale factor must be above 0 and at most %d",
                    GEN_SETQUERY_SCALE_MAX);
    GenColumn columns[SET_QUERY_COLUMNS];
    for (int i = 0; i < SET_QUERY_COLUMNS; i++)
        columns[i] = (GenColumn){ set_query_columns[i].name, GEN_INTEGER, 0, false };
    const SetQueryRules rules = { options->seed };
    const GenTable table = { "bench", columns, SET_QUERY_COLUMNS, fill_bench,
                             (u64)MAX_OF(llround(SET_QUERY_ROWS * options->scale), 1), 1, true };
    const WordList none = { 0 };
    const GenPlan plan = { .tables = &table, .n_tables = 1, .lists = &none, .rules = &rules };
    return gen_load(&plan, store, pool, options, err);
}
