// fake_flow.h - the kernel of a flow (src/kernel/flow_loop.h) in its CPU meaning: a thread for each block.
//
// The loop is the one that a GPU runs, compiled with the words below; the operators are compiled by libtcc.  A launch
// returns at once, and its blocks see the same memory as the host, so TSan looks at both sides of the protocol.

#ifndef WEFT_TESTS_FAKE_FLOW_H
#define WEFT_TESTS_FAKE_FLOW_H

#include "base/base.h"

typedef struct FakeFlow FakeFlow;      // a module

bool        fake_flow_is(const char *image);
weft_status fake_flow_load(const char *image, FakeFlow **out, Error *err);
void        fake_flow_unload(FakeFlow *flow);
// Blocks end at once when DEAD is not 0, as those of a card that was lost.  ENDED is called by a thread when the last
// block has ended.
void fake_flow_launch(const FakeFlow *flow, const void *args, u32 n_blocks, const _Atomic int *dead,
                      void (*ended)(void *context), void *context);

#endif
