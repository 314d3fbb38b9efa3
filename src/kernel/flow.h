// flow.h - the words of an operator's text: tile C that runs once for each frame (include/weft_flow.h).
//
//     OPERATOR(twice)
//     {
//         INPUT(i32, in);  OUTPUT(i32, out);
//         EACH_ITEM(i, N_ITEMS(i32)) out[i] = in[i] * 2;
//         EMIT(i32, N_ITEMS(i32));
//     }
//
// Several workers run the same text for one frame, each with its part of the items.  On a CPU a part is a run of
// neighbours; on a GPU it is every n-th item, so that the lanes of a warp read neighbours.  So a text must not rely on
// which items are whose.  No includes and no literals of users: what a text needs comes through PARAMS.
//
// One text, two meanings: tcc and cc read the first one below, NVRTC the second.  There each text is in a namespace of
// its own, so helpers of two operators may have one name, and functions without a mark are the device's.

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
    struct FlowPageCounts *page_counts;                     // flow_pages.h
} FlowRound;

#ifndef __CUDACC__
#define OPERATOR(name)                                                                  \
    static void name##_body(FlowRound *R);                                              \
    void name(void *round_) { name##_body((FlowRound *)round_); }                       \
    static void name##_body(FlowRound *R)

// This worker's items of N.
#define EACH_ITEM(i, n)                                                                 \
    for (u64 i = (u64)(n) * R->thread / R->n_threads, i##_end = (u64)(n) * (R->thread + 1) / R->n_threads; \
         i < i##_end; i++)

// OUT[i] = EXPRESSION of NAME = IN[i], for this worker's items of N.  For what goes over a link: a GPU moves 16 bytes
// at a time and asks for four of them before it waits.  IN and OUT begin at a boundary of 16 bytes, as frames do.
#define MAP_ITEMS(type, out, in, n, name, expression)                                   \
    EACH_ITEM(item_, n) {                                                               \
        const type name = (in)[item_];                                                  \
        (out)[item_] = (type)(expression);                                              \
    }
#define COPY_ITEMS(type, out, in, n) MAP_ITEMS(type, out, in, n, value_, value_)

// Emits partial sums, whose sum is that of all workers' VALUE: one for each worker, or for each warp.  Once in a text,
// where every worker comes by.
#define SUM_WORKERS(type, out, value) \
    ((out)[R->thread] = (value), R->output_bytes = (u64)R->n_threads * sizeof(type))

#else
#define OPERATOR(name)     static __device__ __forceinline__ void operator_(FlowRound *R)
#define EACH_ITEM(i, n)    for (u64 i = R->thread, i##_end = (u64)(n); i < i##_end; i += R->n_threads)

// Loads through pointers that are const and restrict might go through a cache that is not kept coherent, and a kernel
// that stays would read what a frame held before.  So nothing here is restrict; loads come before stores by hand.
template <typename T> union Pack_ { uint4 bits; T at[16 / sizeof(T)]; };
enum { PACKS_AHEAD_ = 4 };
#define MAP_ITEMS(type, out, in, n, name, expression)                                                                  \
    do {                                                                                                               \
        const u64 n_ = (u64)(n), packs_ = n_ * sizeof(type) / 16, step_ = R->n_threads;                                \
        const uint4 *from_ = (const uint4 *)(in);                                                                      \
        uint4 *to_ = (uint4 *)(out);                                                                                   \
        for (u64 p_ = R->thread; p_ < packs_; p_ += PACKS_AHEAD_ * step_) {                                            \
            Pack_<type> v_[PACKS_AHEAD_];                                                                              \
            _Pragma("unroll") for (int k_ = 0; k_ < PACKS_AHEAD_; k_++)                                                \
                if (p_ + k_ * step_ < packs_) v_[k_].bits = from_[p_ + k_ * step_];                                    \
            _Pragma("unroll") for (int k_ = 0; k_ < PACKS_AHEAD_; k_++) {                                              \
                if (p_ + k_ * step_ >= packs_) continue;                                                               \
                _Pragma("unroll") for (int j_ = 0; j_ < (int)(16 / sizeof(type)); j_++) {                              \
                    const type name = v_[k_].at[j_];                                                                   \
                    v_[k_].at[j_] = (type)(expression);                                                                \
                }                                                                                                      \
                to_[p_ + k_ * step_] = v_[k_].bits;                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        for (u64 i_ = packs_ * (16 / sizeof(type)) + R->thread; i_ < n_; i_ += step_) {                                \
            const type name = (in)[i_];                                                                                \
            (out)[i_] = (type)(expression);                                                                            \
        }                                                                                                              \
    } while (0)
#define COPY_ITEMS(type, out, in, n) MAP_ITEMS(type, out, in, n, value_, value_)
#define SUM_WORKERS(type, out, value)                                                                                  \
    do {                                                                                                               \
        type sum_ = (value);                                                                                           \
        _Pragma("unroll") for (int by_ = 16; by_; by_ /= 2) sum_ += __shfl_down_sync(0xffffffffu, sum_, by_);          \
        if (R->thread % 32 == 0) (out)[R->thread / 32] = sum_;                                                         \
        R->output_bytes = (u64)(R->n_threads / 32) * sizeof(type);                                                     \
    } while (0)
#endif

#define INPUT(type, name)  const type *name = (const type *)R->input
#define OUTPUT(type, name) type *name = (type *)R->output
#define PARAMS(type, name) const type *name = (const type *)R->context
#define STATE(type, name)  type *name = (type *)R->context     // shared by all workers: see to it that they do not meet
#define N_ITEMS(type)      (R->input_bytes / sizeof(type))
#define CAPACITY(type)     (R->output_capacity / sizeof(type))

#define EMIT(type, n)      (R->output_bytes = (u64)(n) * sizeof(type))
#define TAG                (R->tag)                           // of the input frame
#define EMIT_TAG(tag)      (R->output_tag = (tag))
#define IS_FIRST_WORKER    (R->thread == 0)
#define IS_END             (R->at_end)
#define FAIL_WITH(code)    (R->status = (code))

#endif
