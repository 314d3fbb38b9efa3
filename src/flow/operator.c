// operator.c - one round of one operator: take a frame, compute, publish.
//
// The same steps serve an operator with a thread of its own, which waits in each of them, and one in the virtual
// kernel, which never waits and comes back later (paper, algorithm 1, lines 6 to 14).  The input is let go before the
// output is published: its memory may be what those behind are waiting for.

#include <stddef.h>

#include "flow/run_int.h"
#include "kernel/flow.h"
#include "kernel/flow_pages.h"

#define SAME_PLACE(field) \
    _Static_assert(offsetof(weft_round, field) == offsetof(FlowRound, field), "tile C sees the same round")
SAME_PLACE(input);
SAME_PLACE(input_bytes);
SAME_PLACE(output);
SAME_PLACE(output_capacity);
SAME_PLACE(context);
SAME_PLACE(offset);
SAME_PLACE(tag);
SAME_PLACE(thread);
SAME_PLACE(n_threads);
SAME_PLACE(at_end);
SAME_PLACE(status);
SAME_PLACE(output_bytes);
SAME_PLACE(output_tag);
SAME_PLACE(page_counts);
_Static_assert(sizeof(weft_page_counts) == sizeof(FlowPageCounts) &&
               sizeof(weft_page_counts) == PAGE_COUNTS * sizeof(i64), "and counts pages the same way");

static weft_status take_input(weft_operator *op, int timeout_ms, Error *err)
{
    if (op->in || op->is_at_end)
        return WEFT_OK;
    const weft_status status = weft_subscriber_next(op->input, timeout_ms, &op->in, &op->in_offset, err);
    if (status == WEFT_OK)
        atomic_fetch_add(&op->frames_in, 1);
    if (status != WEFT_END_OF_STREAM || !op->options.wants_end || op->has_had_end || atomic_load(&op->flow->stop))
        return status;
    op->is_at_end = op->has_had_end = true;
    error_clear(err);
    return WEFT_OK;
}

static weft_status take_output(weft_operator *op, int timeout_ms, Error *err)
{
    if (op->out)
        return WEFT_OK;
    const weft_status status = weft_publisher_take(op->output, timeout_ms, &op->out, err);
    if (status != WEFT_OUT_OF_MEMORY)
        return status;
    error_clear(err);                                       // frames come back as others go on
    return fail(err, WEFT_NOT_READY, NO_PLACE, "no frame is free");
}

weft_status operator_prepare(weft_operator *op, int timeout_ms, Error *err)
{
    const bool is_source = !op->input;
    if (atomic_load(&op->stop) || atomic_load(&op->flow->stop) || (is_source && atomic_load(&op->flow->is_draining)))
        return fail(err, WEFT_END_OF_STREAM, NO_PLACE, "operator \"%s\" was stopped", op->name);
    if (op->input)
        TRY(take_input(op, timeout_ms, err));
    return op->output ? take_output(op, timeout_ms, err) : WEFT_OK;
}

static void fill_round(const weft_operator *op, u32 thread, u32 n_threads, weft_round *round)
{
    *round = (weft_round){ .context = op->options.context, .thread = thread, .n_threads = n_threads,
                           .at_end = op->is_at_end, .offset = op->input ? op->in_offset : (u64)op->rounds };
    if (op->in) {
        round->input = op->in->data;
        round->input_bytes = op->in->length;
        round->tag = op->in->tag;
    }
    if (op->out) {
        round->output = op->out->data;
        round->output_capacity = op->out->capacity;
    }
}

void operator_note_pages(weft_operator *op, const i64 *counts)
{
    for (int i = 0; i < PAGE_COUNTS; i++)
        if (counts[i])
            atomic_fetch_add_explicit(&op->page_counts[i], counts[i], memory_order_relaxed);
}

double operator_compute(weft_operator *op, u32 thread, u32 n_threads, double began_ms, weft_round *round)
{
    union { weft_page_counts fields; i64 all[PAGE_COUNTS]; } counts = { .all = { 0 } };
    fill_round(op, thread, n_threads, round);
    round->page_counts = &counts.fields;
    if (op->code) {
        JitTier tier;
        code_function(op->code, &tier)(round);
    } else {
        op->options.compute(round);
    }
    round->page_counts = NULL;
    operator_note_pages(op, counts.all);
    if (began_ms == 0)
        return 0;
    const double time_ms = time_now_ms() - began_ms;
    atomic_fetch_add_explicit(&op->busy_us, (i64)(time_ms * 1000), memory_order_relaxed);
    return time_ms;
}

weft_status operator_publish(weft_operator *op, int timeout_ms, Error *err)
{
    const weft_status status = weft_publisher_publish(op->output, op->out, timeout_ms, err);
    op->is_publishing = status == WEFT_NOT_READY;
    if (status == WEFT_OK) {
        op->out = NULL;
        atomic_fetch_add(&op->frames_out, 1);
    }
    return status == WEFT_OK ? op->wants_to_end : status;
}

static weft_status fail_round(const weft_operator *op, const weft_round *round, Error *err)
{
    const weft_status status = round->status < WEFT_N_STATUS ? (weft_status)round->status : WEFT_OPERATOR_FAILED;
    return fail(err, status, NO_PLACE, "operator \"%s\" failed in round %lld", op->name, (long long)op->rounds);
}

weft_status operator_finish(weft_operator *op, const weft_round *round, int timeout_ms, Error *err)
{
    if (round->status && round->status != WEFT_END_OF_STREAM)
        return fail_round(op, round, err);
    if (op->out && round->output_bytes > op->out->capacity)
        return fail(err, WEFT_OPERATOR_FAILED, NO_PLACE, "operator \"%s\" says that %llu bytes are in a frame of %llu",
                    op->name, (unsigned long long)round->output_bytes, (unsigned long long)op->out->capacity);
    atomic_fetch_add(&op->rounds, 1);
    if (op->in)
        subscriber_read(op->input);
    op->in = NULL;
    op->wants_to_end = op->is_at_end ? WEFT_END_OF_STREAM : (weft_status)round->status;
    if (!op->out || round->output_bytes == 0)
        return op->wants_to_end;
    op->out->length = round->output_bytes;
    op->out->tag = round->output_tag;
    return operator_publish(op, timeout_ms, err);
}

void operator_close(weft_operator *op)
{
    weft_subscriber_close(op->input);
    weft_publisher_close(op->output);                       // drops the frame at hand
    op->input = NULL;
    op->output = NULL;
    op->in = NULL;
    op->out = NULL;
}
