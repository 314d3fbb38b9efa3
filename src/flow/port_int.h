// port_int.h - an operator on a GPU, seen from the host (port.c), and the thread that serves all of them (resident.c).

#ifndef WEFT_FLOW_PORT_INT_H
#define WEFT_FLOW_PORT_INT_H

#include "flow/card_int.h"
#include "flow/run_int.h"

typedef struct FlowPort {
    weft_operator *op;                 // NULL: it has ended, and the kernel may still know the rings
    int            number;             // of its line in FlowArgs
    FlowJob       *jobs;               // mapped, as the next
    FlowResult    *results;
    FlowPageCounts *page_counts;       // likewise; NULL: the operator reads no frames of columns
    CuAddress      device;             // next, pieces, context
    u64            n_slots;
    u32            n_pieces;
    FrameInfo    **outs;               // by slot: the output frame of the round
    u64            n_posted, n_done, n_published;           // rounds
    u64            next_offset;        // in the input
    u64            busy_ns;            // since the last split
    bool           has_posted_end;     // the last round is the one with at_end
    bool           has_ended;          // no more rounds; what comes back from now on is dropped
} FlowPort;

u64         port_rounds_most(const weft_operator *op);      // that are under way at a time: a power of two
// The kernel is away.  The port knows the operator's place in its input; a slot's memory is zero.
weft_status port_new(weft_operator *op, int number, FlowCard *card, FlowPort **out, Error *err);
void        port_free(FlowPort *port, FlowCard *card);      // the kernel is away; CARD NULL: it is lost
// What can be done now: takes results back, publishes, posts.  END_OF_STREAM: the operator has ended, and no round of
// it is under way.  The serving thread only.
weft_status port_step(FlowPort *port, FlowCard *card, bool *has_moved, Error *err);
weft_status port_fetch_context(FlowPort *port, FlowCard *card, Error *err);     // STATE back into the user's memory

#endif
