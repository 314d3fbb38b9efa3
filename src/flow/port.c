// port.c - an operator on a GPU, seen from the host: jobs go out, results come back, in rings of shared memory.
//
//     topic ──> entry ──> job r ──> [kernel] ──> result r ──> publish ──> topic
//               peek      n_posted               n_done       n_published
//
// Up to n_slots rounds are under way at a time: as many as keep the link busy, fewer where frames are large.  Blocks
// finish them in any order; they are taken back and published in the order of the input.  A round is posted when it has
// an input frame and an empty output frame, so the kernel never waits for memory.  Frames that were computed and find
// no room stay in their slots, and no more is posted then: that is how a full topic slows down its operator.
//
// An operator with STATE has one round at a time, since its rounds must see each other's state in order.

#include <stdio.h>
#include <stdlib.h>

#include "flow/port_int.h"

enum { SLOTS_MOST = 256, SLOTS_LEAST = 4, PIECE_BYTES = 32768, PIECES_MOST = 64, PUBLISH_MOST = 64 };

#define UNDER_WAY_BYTES ((u64)16 << 20)                     // of frames: a link moves these in a third of a millisecond

static u64 slot_of(const FlowPort *port, u64 round) { return round & (port->n_slots - 1); }

// ---- making and freeing ---------------------------------------------------------------------------------------------

static size_t context_at(const FlowPort *port) { return 64 + (port->n_slots * sizeof(FlowPieces) + 63) / 64 * 64; }

static u64 frame_bytes_of(const weft_operator *op)          // of the larger one
{
    const weft_topic *from = op->input ? op->input->topic : NULL, *to = op->output ? op->output->topic : NULL;
    return MAX_OF(from ? from->entry.frame_bytes : 0, to ? to->entry.frame_bytes : 0);
}

// More bytes under way than the link holds would only wait, and pin memory.
u64 port_rounds_most(const weft_operator *op)
{
    const u64 bytes = MAX_OF(frame_bytes_of(op), (u64)WEFT_FRAME_LEAST);
    return op->has_state ? 1 : MAX_OF(MIN_OF(UNDER_WAY_BYTES / bytes, (u64)SLOTS_MOST), (u64)SLOTS_LEAST);
}

static void choose_shape(FlowPort *port)
{
    port->n_slots = port_rounds_most(port->op);
    port->n_pieces = (u32)MAX_OF(MIN_OF(frame_bytes_of(port->op) / PIECE_BYTES, (u64)PIECES_MOST), (u64)1);
}

static weft_status take_parts(FlowPort *port, FlowCard *card, Error *err)
{
    const size_t ring = port->n_slots * sizeof(FlowJob);
    const size_t counts = port->op->has_pages ? port->n_slots * sizeof(FlowPageCounts) : 0;
    const u64 bytes = port->op->options.context ? port->op->options.context_bytes : 0;
    void *rings;
    port->outs = calloc(port->n_slots, sizeof(FrameInfo *));
    if (!port->outs)
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for an operator");
    TRY(card_take_mapped(card, 2 * ring + counts, &rings, err));
    port->jobs = rings;
    port->results = (FlowResult *)(void *)((u8 *)rings + ring);
    port->page_counts = counts ? (FlowPageCounts *)(void *)((u8 *)rings + 2 * ring) : NULL;
    TRY(card_take_device(card, context_at(port) + bytes + 64, &port->device, err));
    return bytes ? card_copy_in(card, port->device + context_at(port), port->op->options.context, bytes, err) : WEFT_OK;
}

weft_status port_new(weft_operator *op, int number, FlowCard *card, FlowPort **out, Error *err)
{
    FlowPort *port = calloc(1, sizeof(FlowPort));
    *out = NULL;
    if (!port)
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for an operator");
    port->op = op;
    port->number = number;
    choose_shape(port);
    const weft_status status = take_parts(port, card, err);
    if (status) {
        port_free(port, card);
        return status;
    }
    card->args->lines[number] = (FlowLine){
        .jobs = port->jobs, .results = port->results, .next = (u64 *)(uintptr_t)port->device,
        .pieces = (FlowPieces *)(uintptr_t)(port->device + 64), .context = NULL,
        .page_counts = port->page_counts, .n_slots = port->n_slots, .n_pieces = port->n_pieces,
        .code = op->text_code };
    if (op->options.context)
        card->args->lines[number].context = (void *)(uintptr_t)(port->device + context_at(port));
    __atomic_store_n(&card->posted->posted[number], 0, __ATOMIC_RELEASE);
    port->next_offset = op->input ? op->input->offset : 0;
    *out = port;
    return WEFT_OK;
}

void port_free(FlowPort *port, FlowCard *card)
{
    if (card) {
        card->args->lines[port->number] = (FlowLine){ .n_pieces = 0 };
        card_give_mapped(card, port->jobs);
        card_give_device(card, port->device);
    }
    free(port->outs);
    free(port);
}

weft_status port_fetch_context(FlowPort *port, FlowCard *card, Error *err)
{
    const weft_operator_options *options = &port->op->options;
    if (!options->context || !options->context_bytes || !port->op->has_state)
        return WEFT_OK;
    return card_copy_out(card, options->context, port->device + context_at(port), options->context_bytes, err);
}

// ---- results --------------------------------------------------------------------------------------------------------

static weft_status fail_round(const FlowPort *port, u64 said, Error *err)
{
    const weft_status status = said < WEFT_N_STATUS ? (weft_status)said : WEFT_OPERATOR_FAILED;
    return fail(err, status, NO_PLACE, "operator \"%s\" failed in round %lld", port->op->name,
                (long long)port->op->rounds);
}

// What the round left in its output frame; one without a word is dropped.
static weft_status take_output(FlowPort *port, const FlowResult *result, Error *err)
{
    FrameInfo **info = &port->outs[slot_of(port, port->n_done)];
    if (!*info)
        return WEFT_OK;
    if (result->output_bytes > (*info)->frame.capacity)
        return fail(err, WEFT_OPERATOR_FAILED, NO_PLACE, "operator \"%s\" says that %llu bytes are in a frame of %llu",
                    port->op->name, (unsigned long long)result->output_bytes,
                    (unsigned long long)(*info)->frame.capacity);
    (*info)->frame.length = result->output_bytes;
    (*info)->frame.tag = result->output_tag;
    if (result->output_bytes == 0 || port->has_ended) {
        weft_frame_drop(&(*info)->frame);
        *info = NULL;
    }
    return WEFT_OK;
}

static void take_page_counts(const FlowPort *port)
{
    i64 counts[PAGE_COUNTS];
    if (!port->page_counts)
        return;
    memcpy(counts, &port->page_counts[slot_of(port, port->n_done)], sizeof(counts));
    operator_note_pages(port->op, counts);
}

static weft_status take_result(FlowPort *port, const FlowResult *result, Error *err)
{
    weft_operator *op = port->op;
    if (result->status && result->status != WEFT_END_OF_STREAM && !port->has_ended)
        return fail_round(port, result->status, err);
    TRY(take_output(port, result, err));
    if (!port->has_ended) {
        atomic_fetch_add_explicit(&op->rounds, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&op->frames_in, op->input && !port->has_posted_end, memory_order_relaxed);
        take_page_counts(port);
    }
    atomic_fetch_add_explicit(&op->busy_us, (i64)(result->time_ns / 1000), memory_order_relaxed);
    port->busy_ns += result->time_ns;
    port->has_ended |= result->status == WEFT_END_OF_STREAM || port->has_posted_end;
    return WEFT_OK;
}

// In order, as far as they are there.
static weft_status collect(FlowPort *port, bool *has_moved, Error *err)
{
    const u64 before = port->n_done;
    while (port->n_done < port->n_posted) {
        const FlowResult *result = &port->results[slot_of(port, port->n_done)];
        if (__atomic_load_n(&result->ready, __ATOMIC_ACQUIRE) != port->n_done + 1)
            break;
        TRY(take_result(port, result, err));
        port->n_done++;
    }
    if (port->n_done == before)
        return WEFT_OK;
    *has_moved = true;
    if (port->op->input && !port->has_posted_end)
        subscriber_done(port->op->input, port->op->input->offset + (port->n_done - before));
    atomic_store(&port->op->busy_since_us, port->n_done < port->n_posted ? (i64)(time_now_ms() * 1000) : 0);
    return WEFT_OK;
}

static weft_status publish(FlowPort *port, bool *has_moved, Error *err)
{
    FrameInfo *infos[PUBLISH_MOST];
    weft_status status = WEFT_OK;
    while (port->n_published < port->n_done && status == WEFT_OK) {
        const u64 first = port->n_published;
        int n = 0, n_published = 0;
        for (; first + (u64)n < port->n_done && n < PUBLISH_MOST && port->outs[slot_of(port, first + (u64)n)]; n++)
            infos[n] = port->outs[slot_of(port, first + (u64)n)];
        if (n == 0) {                                       // a round without an output
            port->n_published++;
            continue;
        }
        status = publisher_publish_many(port->op->output, infos, n, &n_published, err);
        for (int i = 0; i < n_published; i++)
            port->outs[slot_of(port, first + (u64)i)] = NULL;
        port->n_published += (u64)n_published;
        atomic_fetch_add_explicit(&port->op->frames_out, n_published, memory_order_relaxed);
        *has_moved |= n_published > 0;
    }
    return status == WEFT_NOT_READY ? WEFT_OK : status;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

static bool may_post(const FlowPort *port)
{
    const weft_operator *op = port->op;
    if (port->has_ended || port->has_posted_end || port->n_posted - port->n_published >= port->n_slots)
        return false;
    return !atomic_load(&op->stop) && (op->input || !atomic_load(&op->flow->is_draining));
}

// The input of the next round; none of a source, nor at the end.  NOT_READY: there is none yet, or the end must wait
// for the rounds before it.
static weft_status find_input(FlowPort *port, const IndexEntry **entry, bool *is_end, Error *err)
{
    weft_operator *op = port->op;
    *entry = NULL;
    *is_end = false;
    if (!op->input)
        return WEFT_OK;
    const weft_status status = subscriber_peek(op->input, port->next_offset, entry, err);
    if (status != WEFT_END_OF_STREAM)
        return status;
    error_clear(err);
    if (port->n_published < port->n_posted)
        return WEFT_NOT_READY;
    *is_end = op->options.wants_end;
    return *is_end ? WEFT_OK : WEFT_END_OF_STREAM;
}

static void write_job(FlowPort *port, const IndexEntry *entry, FrameInfo *info)
{
    FlowJob *job = &port->jobs[slot_of(port, port->n_posted)];
    *job = (FlowJob){ .offset = port->op->input ? port->next_offset : port->n_posted, .at_end = port->has_posted_end };
    if (entry) {
        job->input = entry->data;
        job->input_bytes = entry->length;
        job->tag = entry->tag;
        port->next_offset++;
    }
    if (info) {
        job->output = (u64)(uintptr_t)info->frame.data;
        job->output_capacity = info->frame.capacity;
    }
    port->outs[slot_of(port, port->n_posted)] = info;
    port->n_posted++;
}

static weft_status post_one(FlowPort *port, Error *err)
{
    const IndexEntry *entry;
    FrameInfo *info = NULL;
    bool is_end;
    TRY(find_input(port, &entry, &is_end, err));
    if (port->op->output) {
        info = publisher_take_now(port->op->output);
        if (!info)
            return WEFT_NOT_READY;
    }
    port->has_posted_end = is_end;
    write_job(port, entry, info);
    return WEFT_OK;
}

static weft_status post(FlowPort *port, FlowCard *card, bool *has_moved, Error *err)
{
    const u64 before = port->n_posted;
    weft_status status = WEFT_OK;
    if (may_post(port) && port->op->output && publisher_is_over(port->op->output))
        return WEFT_END_OF_STREAM;                          // no subscriber is left
    while (status == WEFT_OK && may_post(port))
        status = post_one(port, err);
    if (port->n_posted > before) {
        *has_moved = true;
        if (before == port->n_done)
            atomic_store(&port->op->busy_since_us, (i64)(time_now_ms() * 1000));
        __atomic_store_n(&card->posted->posted[port->number], port->n_posted, __ATOMIC_RELEASE);
    }
    return status == WEFT_NOT_READY ? WEFT_OK : status;
}

// ---- a step ---------------------------------------------------------------------------------------------------------

static bool is_over(const FlowPort *port)
{
    const weft_operator *op = port->op;
    if (port->n_done < port->n_posted)
        return false;
    if (atomic_load(&op->stop))
        return true;                                        // what finds no room is not published any more
    return port->n_published == port->n_posted &&
           (port->has_ended || (!op->input && atomic_load(&op->flow->is_draining)));
}

// No subscriber is left, or the topic was closed: the operator ends when the kernel has returned the frames that it
// still reads and writes.
static void drop_outputs(FlowPort *port, Error *err)
{
    error_clear(err);
    port->has_ended = true;
    for (; port->n_published < port->n_done; port->n_published++) {
        FrameInfo **info = &port->outs[slot_of(port, port->n_published)];
        if (*info)
            weft_frame_drop(&(*info)->frame);
        *info = NULL;
    }
}

weft_status port_step(FlowPort *port, FlowCard *card, bool *has_moved, Error *err)
{
    TRY(collect(port, has_moved, err));
    const weft_status published = publish(port, has_moved, err);
    if (published == WEFT_END_OF_STREAM)
        drop_outputs(port, err);
    else if (published)
        return published;
    const weft_status status = post(port, card, has_moved, err);
    if (status && status != WEFT_END_OF_STREAM)
        return status;
    port->has_ended |= status == WEFT_END_OF_STREAM;
    if (status)
        error_clear(err);
    return is_over(port) ? WEFT_END_OF_STREAM : WEFT_OK;
}
