// operator_words.h - the words of an operator's text (src/kernel/flow.h) for the lab's baselines on a GPU: an operator
// becomes two kernels of CUDA C, NAME for a launch a frame and NAME_tasks, which stays and takes frames from a queue as
// Pagoda does (Yeh and others, 2017).
//
// A launch: in[0] is the frame, in[1] the parameters, out[0] the output; n[0] the bytes, n[1] the tag.  A queue: out[1]
// is the LabTasks, in pinned memory of the host.  Blocks take tasks by a ticket; a large frame is several tasks of one
// part each.  The kernel leaves when the host says so, and by itself after two seconds without a task.

#ifndef WEFT_LAB_OPERATOR_WORDS_H
#define WEFT_LAB_OPERATOR_WORDS_H

typedef struct LabTask {
    unsigned long long in, out;                             // addresses on the device
    unsigned long long bytes, tag;
    unsigned part, n_parts;
    unsigned long long posted;                              // its number + 1, by the host; written last
    unsigned long long done;                                // likewise, by the device
} LabTask;

enum { LAB_TASKS = 256 };

typedef struct LabTasks {
    unsigned long long stop;                                // by the host
    unsigned long long params;
    LabTask tasks[LAB_TASKS];                               // task number N is at N % LAB_TASKS
} LabTasks;

#if defined(__CUDACC__) || defined(LAB_SHIM)

#ifdef __CUDACC__
typedef signed char i8;
typedef int         i32;
typedef long long   i64;
#define LAB_PAUSE   __nanosleep(200)
// Functions of an operator's text say no more than static.
#define OPERATOR_FUNCTION static
#define static      static __device__ __forceinline__
#else
#define OPERATOR_FUNCTION static inline
#define LAB_PAUSE   usleep(200)
#endif
typedef float       f32;
typedef double      f64;

typedef struct LabRound {
    const void *input;
    u64         input_bytes;
    void       *output;
    const void *context;
    u64         tag;
    u64         thread, n_threads;
    u64         output_bytes, output_tag;                   // the host knows how long an output is
} LabRound;

#define OPERATOR(name)                                                                                         \
    OPERATOR_FUNCTION void name##_body(LabRound *R);                                                           \
    KERNEL(name)                                                                                               \
    {                                                                                                          \
        LabRound round = { A.in[0], A.n[0], A.out[0], A.in[1], A.n[1], GRID_THREAD, GRID_THREADS, 0, 0 };      \
        name##_body(&round);                                                                                   \
    }                                                                                                          \
    KERNEL(name##_tasks)                                                                                       \
    {                                                                                                          \
        SHARED LabTask task;                                                                                   \
        SHARED u64 has_ended;                                                                                  \
        volatile LabTasks *queue = (volatile LabTasks *)A.out[1];                                              \
        for (;;) {                                                                                             \
            if (THREAD == 0) {                                                                                 \
                const u64 number = atomicAdd((u64 *)A.scratch, (u64)1), began = lab_now();                     \
                volatile LabTask *next = &queue->tasks[number % LAB_TASKS];                                    \
                has_ended = 0;                                                                                 \
                while (next->posted != number + 1 && !has_ended) {                                             \
                    has_ended = queue->stop || lab_now() - began > 2000000000ull;                              \
                    LAB_PAUSE;                                                                                 \
                }                                                                                              \
                __threadfence_system();                                                                        \
                task.in = next->in;                                                                            \
                task.out = next->out;                                                                          \
                task.bytes = next->bytes;                                                                      \
                task.tag = next->tag;                                                                          \
                task.part = next->part;                                                                        \
                task.n_parts = next->n_parts;                                                                  \
                task.done = number;                                                                            \
            }                                                                                                  \
            __syncthreads();                                                                                   \
            if (has_ended) return;                                                                             \
            LabRound round = { (const void *)task.in, task.bytes, (void *)task.out, (const void *)queue->params, \
                               task.tag, (u64)task.part * THREADS + THREAD, (u64)task.n_parts * THREADS, 0, 0 }; \
            name##_body(&round);                                                                               \
            __threadfence_system();                                                                            \
            __syncthreads();                                                                                   \
            if (THREAD == 0) queue->tasks[task.done % LAB_TASKS].done = task.done + 1;                         \
            __syncthreads();                                                                                   \
        }                                                                                                      \
    }                                                                                                          \
    OPERATOR_FUNCTION void name##_body(LabRound *R)

#define INPUT(type, name)  const type *name = (const type *)R->input
#define OUTPUT(type, name) type *name = (type *)R->output
#define PARAMS(type, name) const type *name = (const type *)R->context
#define N_ITEMS(type)      (R->input_bytes / sizeof(type))
#define EACH_ITEM(i, n)    for (u64 i = R->thread, i##_end = (u64)(n); i < i##_end; i += R->n_threads)
#define MAP_ITEMS(type, out, in, n, name, expression)   \
    EACH_ITEM(item_, n)                                 \
    {                                                   \
        const type name = (in)[item_];                  \
        (out)[item_] = (type)(expression);              \
    }
#define EMIT(type, n)      (R->output_bytes = (u64)(n) * sizeof(type))
#define TAG                (R->tag)
#define EMIT_TAG(tag_)     (R->output_tag = (tag_))

#endif
#endif
