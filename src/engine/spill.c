// spill.c - see spill.h: when a query goes through temporary files, and with how much memory.

#include "engine/spill.h"

#define LEAST_BYTES ((i64)64 << 10)    // of memory for a query that spills, however little is free

bool spill_is_possible(const QueryRun *run)
{
    if (run->spills || !run->claim || temp_limit(run->session->db->temp) == 0) return false;
    return atomic_load(&claim_budget(run->claim)->was_refused);
}

// Half of what is free.  The plan's estimates are of no use here: the query will use what it gets.
static i64 memory_for_spilling(const Budget *all)
{
    const i64 limit = atomic_load(&all->limit), used = atomic_load(&all->used);
    if (limit == 0) return 0;          // it was raised meanwhile
    return MAX_OF((limit - used) / 2, LEAST_BYTES);
}

weft_status spill_wait_for_memory(QueryRun *run)
{
    weft_db    *db = run->session->db;
    const int   n_parts = run->graph->n_pipelines + 1;
    const i64   bytes = memory_for_spilling(&db->budget);
    Part       *parts = arena_array(run->arena, Part, n_parts);
    parts[n_parts - 1].bytes = bytes;
    const Wish wish = { .query = run->session->query_number,
                        .priority = run->session->settings.priority,
                        .most_bytes = bytes,
                        .temp = db->temp,
                        .n_parts = n_parts,
                        .parts = parts,
                        .stop = &run->session->stop,
                        .position = &run->session->position };
    run->claim = admission_ask(db->admission, &wish);
    db_trim(run->session->db, true);
    return claim_wait(run->claim, run->err);
}

// A table is put into a run before it would double beyond this, so most of the time it is half as large.
u64 spill_group_bytes(const QueryRun *run)
{
    const i64 limit = run->spills ? atomic_load(&query_budget(run)->limit) : 0;
    if (limit == 0) return 0;
    return (u64)MAX_OF(limit / 4 * 3 / MAX_OF(run->session->settings.threads, 1), 1);
}

typedef struct InFile { Budget *budget; void *memory; size_t bytes; } InFile;

static void free_file(void *context)
{
    InFile *file = context;
    mem_free(file->budget, file->memory, file->bytes);
}

weft_status spill_alloc(QueryRun *run, Arena *arena, size_t bytes, void **out)
{
    InFile *file = arena_make(arena, InFile);
    *file = (InFile){ .budget = query_budget(run), .bytes = bytes };
    TRY(mem_alloc_in_file(file->budget, bytes, &file->memory, run->err));
    arena_defer(arena, free_file, file);
    *out = file->memory;
    return WEFT_OK;
}

void spill_print(const QueryRun *run, Text *text)
{
    if (!run->spills || !run->claim) return;
    const Budget *budget = claim_budget(run->claim);
    if (run->spilled.n_sorts)
        text_add(text, "sorted through temporary files: %llu runs, merged\n",
                 (unsigned long long)run->spilled.n_sorted_runs);
    if (run->spilled.n_joins)
        text_add(text, "joined through temporary files: %llu join%s, %llu passes\n",
                 (unsigned long long)run->spilled.n_joins, run->spilled.n_joins == 1 ? "" : "s",
                 (unsigned long long)run->spilled.n_join_parts);
    text_add(text, "spilled: %s in %lld temporary files, with %s of memory\n",
             mem_size_text((u64)atomic_load(&budget->temp_bytes)).text, (long long)atomic_load(&budget->n_temp_files),
             mem_size_text((u64)atomic_load(&budget->limit)).text);
}
