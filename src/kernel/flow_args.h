// flow_args.h - what the host and the kernel that stays agree on (flow_loop.h): jobs, results, words.
//
//     host    job, job, job ──> posted                      a ring of jobs and one of results for each operator;
//     kernel                    ──> result, ready           round r is in slot r % n_slots of both
//
// Every word and line has one writing side.  Host memory that is pinned and mapped holds all that both sides see, and
// has the same address on both; what only the kernel writes and reads is in device memory.  Order:
//
//     the host    writes a job, then releases `posted`;     it reads a result after it acquired its `ready`
//     the kernel  acquires `posted`, then reads jobs and the frames that they name; writes the output frame, then the
//                 result, then releases `ready` for the whole system
//
// The thread that releases `ready` has written the result itself: bytes, tag, status.  The frame is the work of all
// threads of its block, which a barrier orders before it; a release covers what its thread has seen in this way, so no
// fence comes between.  Other blocks of a round have a fence and add to n_done, which the last block sees before it
// writes the result.

#ifndef WEFT_KERNEL_FLOW_ARGS_H
#define WEFT_KERNEL_FLOW_ARGS_H

enum {
    FLOW_OPERATORS_MOST = 64,
    FLOW_BLOCKS_MOST = 1024,
    FLOW_NO_HOME = 255,                // of the work vector: the block has no operator of its own
    FLOW_LEFT_IDLE = 1, FLOW_LEFT_ASKED = 2, FLOW_LEFT_TURN = 3,
    FLOW_ORDER_NONE = 0, FLOW_ORDER_OP_BITS = 8, FLOW_ORDER_BITS = 16
};

typedef struct FlowJob {               // 64 bytes; the host writes
    u64 input, input_bytes;            // 0: none
    u64 output, output_capacity;
    u64 offset, tag;
    u64 at_end;
    u64 spare;
} FlowJob;

typedef struct FlowResult {            // 64 bytes; the kernel writes
    u64 ready;                         // number of the round, from 1 on: the rest is whole
    u64 output_bytes, output_tag;
    u64 status;                        // a weft_status
    u64 time_ns;                       // from the first worker's start to the last one's end
    u64 spare[3];
} FlowResult;

typedef struct FlowPieces {            // of a round that several blocks share; the kernel's own
    u32 n_done, status, has_ended, spare;
    u64 output_bytes, output_tag, began_ns;
    FlowPageCounts page_counts;
} FlowPieces;

typedef struct FlowLine {              // an operator; the host writes it while no kernel runs
    const FlowJob *jobs;
    FlowResult    *results;
    FlowPieces    *pieces;             // device memory, one for each slot
    u64           *next;               // device memory: the next piece to hand out, as the last launch left it
    void          *context;            // device memory
    FlowPageCounts *page_counts;       // mapped, one for each slot, written before its result; NULL: the text reads no
                                       // frames of columns
    u64            n_slots;            // a power of two
    u32            n_pieces;           // of a round: so many blocks may share a frame; 0: there is no such operator
    u32            code;               // which text
} FlowLine;

typedef struct FlowPosted {            // mapped; the host writes
    u64 leave;                         // not 0: leave at the next round boundary
    u64 vector_number;                 // goes up when the work vector has changed
    u64 spare[6];
    u64 posted[FLOW_OPERATORS_MOST];   // rounds that have a job
    unsigned char vector[FLOW_BLOCKS_MOST];                 // the operator that a block serves first
} FlowPosted;

typedef struct FlowSaid {              // mapped; the kernel writes
    u64 left;                          // number of the last launch that all blocks have left
    u64 why;                           // FLOW_LEFT_...
    u64 arrived;                       // number of the last launch that block 0 has begun
    u64 spare[5];
} FlowSaid;

typedef struct FlowMirror {            // device memory, the kernel's own; zeroed before a launch
    u32 is_leaving, n_left;
    u32 spare[30];
    u32 idle[FLOW_BLOCKS_MOST / 32];   // a bit for each block that waits for an order
    u64 orders[FLOW_BLOCKS_MOST];      // from the lowest bit on: operator, how many pieces, the first one's number + 1
} FlowMirror;

typedef struct FlowArgs {              // mapped; the host writes it while no kernel runs
    const FlowPosted *posted;
    FlowSaid         *said;
    FlowMirror       *mirror;
    u64               launch;          // its number, from 1 on
    u64               idle_ns;         // leaves after so long without a frame
    u64               stay_ns;         // leaves after so long at any rate, so that calls of the driver get their turn
    u32               n_operators, end_of_stream;           // the latter: WEFT_END_OF_STREAM
    FlowLine          lines[FLOW_OPERATORS_MOST];
} FlowArgs;

#endif
