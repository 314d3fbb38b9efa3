// flow.h - the words of an operator's text: tile C that runs once for each frame (include/weft_flow.h).
//
//     OPERATOR(twice)
//     {
//         INPUT(i32, in);  OUTPUT(i32, out);
//         EACH_ITEM(i, N_ITEMS(i32)) out[i] = in[i] * 2;
//         EMIT(i32, N_ITEMS(i32));
//     }
//
// Several workers run the same text for one frame, each with its part of the items.  Here a part is a run of
// neighbours; on a GPU it will be every n-th item.  So a text must not rely on which items are whose.  No includes and
// no literals of users: what a text needs comes through PARAMS.

#ifndef WEFT_KERNEL_FLOW_H
#define WEFT_KERNEL_FLOW_H

#ifndef WEFT_BASE_H
typedef signed char        i8;
typedef short              i16;
typedef int                i32;
typedef long long          i64;
typedef unsigned char      u8;
typedef unsigned short     u16;
typedef unsigned int       u32;
typedef unsigned long long u64;
#endif
typedef float              f32;
typedef double             f64;

typedef struct FlowRound {             // weft_round of weft_flow.h, field by field
    const void *input;
    u64         input_bytes;
    void       *output;
    u64         output_capacity;
    void       *context;
    u64         offset, tag;
    u32         thread, n_threads;
    u32         at_end, status;
    u64         output_bytes, output_tag;
} FlowRound;

#define OPERATOR(name)                                                                  \
    static void name##_body(FlowRound *R);                                              \
    void name(void *round_) { name##_body((FlowRound *)round_); }                       \
    static void name##_body(FlowRound *R)

#define INPUT(type, name)  const type *name = (const type *)R->input
#define OUTPUT(type, name) type *name = (type *)R->output
#define PARAMS(type, name) const type *name = (const type *)R->context
#define STATE(type, name)  type *name = (type *)R->context     // shared by all workers: see to it that they do not meet
#define N_ITEMS(type)      (R->input_bytes / sizeof(type))
#define CAPACITY(type)     (R->output_capacity / sizeof(type))

// This worker's items of N.
#define EACH_ITEM(i, n)                                                                 \
    for (u64 i = (u64)(n) * R->thread / R->n_threads, i##_end = (u64)(n) * (R->thread + 1) / R->n_threads; \
         i < i##_end; i++)

#define EMIT(type, n)      (R->output_bytes = (u64)(n) * sizeof(type))
#define TAG                (R->tag)                           // of the input frame
#define EMIT_TAG(tag)      (R->output_tag = (tag))
#define IS_FIRST_WORKER    (R->thread == 0)
#define IS_END             (R->at_end)
#define FAIL_WITH(code)    (R->status = (code))

#endif
