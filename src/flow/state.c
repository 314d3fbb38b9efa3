// state.c - what ends a flow: operators that end, the first error.

#include "flow/run_int.h"

void flow_wake(weft_flow *flow)
{
    for (weft_topic *topic = atomic_load(&flow->newest); topic; topic = topic->older)
        topic_wake(topic);
    heap_wake(flow->heap);
}

void flow_note_failure(weft_flow *flow, const Error *error)
{
    ASSERT(mutex_is_held(&flow->lock));
    if (!flow->error.status)
        flow->error = *error;
    atomic_store(&flow->stop, 1);
    pthread_cond_broadcast(&flow->changed);
}

void flow_fail(weft_flow *flow, const Error *error)
{
    pthread_mutex_lock(&flow->lock);
    flow_note_failure(flow, error);
    pthread_mutex_unlock(&flow->lock);
    flow_wake(flow);
}

void flow_operator_ended(weft_operator *op, weft_status status, const Error *error)
{
    weft_flow *flow = op->flow;
    if (status != WEFT_OK && status != WEFT_END_OF_STREAM)
        flow_fail(flow, error);
    operator_close(op);
    pthread_mutex_lock(&flow->lock);
    atomic_store(&op->has_ended, true);
    pthread_cond_broadcast(&flow->changed);
    pthread_mutex_unlock(&flow->lock);
}
