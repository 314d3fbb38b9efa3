// stream_merges.c - small chunks of streams are merged beside the rounds of the views.
//
// Commits of a pipe leave them (store/merge.c).  One run of chunks is merged at a time, by a thread of the squad, which
// the thread that feeds the views starts.  After a failure, of a full disk say, the next try comes after a pause: the
// rows are there either way.

#include "engine/continuous_int.h"
#include "engine/plans.h"

#include <stdio.h>

enum { PAUSE_MS = 1000 };

static void run_merge(SquadJob *job)
{
    ChunkMerging     *merging = (ChunkMerging *)job;
    const weft_status status = store_merge_small_chunks(merging->db->store, merging->stream, &(Error){ 0 });
    plans_forget(merging->db->plans);                       // they hold the chunks that are gone
    shape_plans_forget(merging->db->shape_plans);
    db_trim(merging->db, false);                            // so do these
    merging->after_ms = status ? time_now_ms() + PAUSE_MS : 0;
    atomic_store(&merging->is_running, false);
}

void merges_end(Streams *streams)
{
    if (streams->merging.is_started) squad_wait(streams->db->squad, &streams->merging.job);
    streams->merging.is_started = false;
}

void merges_go_on(Streams *streams, const char *stream)
{
    ChunkMerging *merging = &streams->merging;
    if (atomic_load(&merging->is_running) || time_now_ms() < merging->after_ms ||
        !store_has_small_chunks(streams->db->store, stream))
        return;
    merges_end(streams);
    merging->db = streams->db;
    merging->job = (SquadJob){ .run = run_merge };
    snprintf(merging->stream, sizeof merging->stream, "%s", stream);
    atomic_store(&merging->is_running, true);
    merging->is_started = squad_start(streams->db->squad, &merging->job);
    if (!merging->is_started) run_merge(&merging->job);
}
