// run.c - what everything that works for a query needs: memory that is counted, the stop flag, notices.

#include "engine/engine.h"

// ---- memory of the query --------------------------------------------------------------------------------------------

Budget *query_budget(const QueryRun *run) { return run->claim ? claim_budget(run->claim) : &run->session->db->looks; }

bool query_may_be_alone(const QueryRun *run)
{
    return run->claim && !run->is_second_try && claim_had_company(run->claim);
}

weft_status query_alloc(QueryRun *run, size_t bytes, void **out)
{
    return counted_alloc(run->arena, query_budget(run), bytes, out, run->err);
}

#define FEW_TEXTS  ((u32)1 << 16)      // are ranked in a few ms
#define RANK_BYTES 36                  // a text, while its rank is made

bool query_wants_ranks(const QueryRun *run, const View *view, u64 n_rows, u64 n_wanted)
{
    const u32 n_texts = view->dict_count;
    if (dict_has_ranks(view->dict, n_texts)) return true;
    if (!mem_fits(query_budget(run), (i64)n_texts * RANK_BYTES)) return false;
    return n_texts <= FEW_TEXTS || (n_wanted > n_rows / 4 && n_rows > n_texts / 4);
}

weft_status query_ranks(QueryRun *run, Dictionary *dict, u32 count, const u32 **ranks)
{
    const RanksWith with = { query_budget(run), &run->session->stop };
    return dict_hold_ranks(run->arena, dict, count, with, ranks, run->err);
}

void query_notice(QueryRun *run, const char *notice)
{
    for (int i = 0; i < run->n_notices; i++)
        if (strcmp(run->notices[i], notice) == 0) return;
    *LIST_PUSH(run->own, run->notices, run->n_notices) = arena_strdup(run->own, notice);
}

bool query_should_stop(const QueryRun *run, u64 step)
{
    return (step & 4095) == 0 && atomic_load_explicit(&run->session->stop, memory_order_relaxed);
}

weft_status query_copy(QueryRun *run, void *to, const void *from, u64 bytes)
{
    const u64 piece = 4 << 20;
    for (u64 at = 0; at < bytes; at += piece) {
        if (query_should_stop(run, 0)) return query_canceled(run);
        memcpy((u8 *)to + at, (const u8 *)from + at, MIN_OF(piece, bytes - at));
    }
    return WEFT_OK;
}

Team query_team(const QueryRun *run)
{
    const weft_session *session = run->session;
    return (Team){ .helpers = network_helpers(session->db->network),
                   .n_threads = session->settings.threads,
                   .stop = &session->stop };
}

weft_status query_canceled(QueryRun *run)
{
    return fail(run->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

// ---- what others ask of a run ---------------------------------------------------------------------------------------

weft_status query_device_failed(QueryRun *run, weft_status status)
{
    if (status && status != WEFT_QUERY_CANCELED) run->has_lost_tables = true;
    return status;
}

i64 query_rows_enough(const Pipeline *pipeline)
{
    const Finish *finish = &pipeline->finish;
    if (pipeline->sink != SINK_ROWS || finish->limit < 0 || finish->n_sort || finish->copies >= 0) return -1;
    return finish->limit > INT64_MAX - finish->offset ? -1 : finish->limit + finish->offset;
}
