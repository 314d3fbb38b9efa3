// operator_words.h - the words of an operator's text (src/kernel/flow.h) for the lab's baselines on a GPU: an operator
// becomes three kernels of CUDA C: NAME for a launch a frame; NAME_tasks, which stays and takes frames from a queue as
// Pagoda does (Yeh and others, 2017); NAME_topics, which stays and subscribes and publishes by itself, over managed
// memory, as XeFlow does (paper 5, 4.1, 4.2 and algorithm 2).
//
// A launch: in[0] is the frame, in[1] the parameters, out[0] the output; n[0] the bytes, n[1] the tag.  A queue: out[1]
// is the LabTasks, in pinned memory of the host.  Blocks take tasks by a ticket; a large frame is several tasks of one
// part each.  The kernel leaves when the host says so, and by itself after two seconds without a task.
//
// Topics: out[0] is the word that says stop, in pinned memory; out[1] the LabCatalog; scratch the LabTopicWords, in
// device memory.  A topic has a publishers' index and, with the index's rule, a replica of it for the subscribers, who
// copy up to the end of a page of 64 entries at once.  Publishing locks the index.  A frame of several parts is several
// blocks', and the last one publishes.

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

enum { LAB_INDEX = 1024, LAB_INDEX_PAGE = 64 };            // entries of an index; of a page of it

typedef struct LabEntry {                                   // 64 bytes, as in the paper
    unsigned long long in, out, bytes, tag;
    unsigned long long slot, spare[3];                      // slot: the host's, of both frames
} LabEntry;

typedef struct LabIndex {
    unsigned long long tail;                                // entries so far; entry N is at N % LAB_INDEX
    unsigned long long lock, spare[510];                    // a page
    LabEntry entries[LAB_INDEX];
} LabIndex;

typedef struct LabCatalog {                                 // of the topics to the device (0) and back (1)
    unsigned long long published[2], subscribed[2];         // the indexes' addresses; equal: there is one replica
    unsigned long long params;
    unsigned n_parts, spare;                                // of each frame
} LabCatalog;

typedef struct LabTopicWords {                              // of the kernel alone
    unsigned long long ticket, copying;                     // copying: the lock of the subscribers' replica
    unsigned long long n_done[LAB_INDEX];                   // parts of a frame
} LabTopicWords;

#if defined(__CUDACC__) || defined(LAB_SHIM)

#ifdef __CUDACC__
typedef signed char i8;
typedef int         i32;
typedef long long   i64;
#define LAB_PAUSE   __nanosleep(200)
#define LAB_LOAD(word)         (*(const volatile u64 *)&(word))
#define LAB_STORE(word, value) (*(volatile u64 *)&(word) = (value))
// Functions of an operator's text say no more than static.
#define OPERATOR_FUNCTION static
#define static      static __device__ __forceinline__
#else
#define OPERATOR_FUNCTION static inline
#define LAB_PAUSE   usleep(200)
#define LAB_LOAD(word)         __atomic_load_n(&(word), __ATOMIC_ACQUIRE)
#define LAB_STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)
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

// ---- topics over managed memory -------------------------------------------------------------------------------------

// Moves new entries from the publishers' replica to that of the subscribers, unless another block is at it.
OPERATOR_FUNCTION void lab_copy_index(LabIndex *mine, LabIndex *theirs, LabTopicWords *words)
{
    if (atomicCAS(&words->copying, 0ull, 1ull) != 0)
        return;
    __threadfence_system();
    const u64 from = LAB_LOAD(mine->tail), there = LAB_LOAD(theirs->tail);
    const u64 page_end = (from / LAB_INDEX_PAGE + 1) * LAB_INDEX_PAGE, to = there < page_end ? there : page_end;
    __threadfence_system();
    for (u64 at = from; at < to; at++) {
        const LabEntry *entry = &theirs->entries[at % LAB_INDEX];
        LabEntry *copy = &mine->entries[at % LAB_INDEX];
        LAB_STORE(copy->in, LAB_LOAD(entry->in));
        LAB_STORE(copy->out, LAB_LOAD(entry->out));
        LAB_STORE(copy->bytes, LAB_LOAD(entry->bytes));
        LAB_STORE(copy->tag, LAB_LOAD(entry->tag));
        LAB_STORE(copy->slot, LAB_LOAD(entry->slot));
    }
    __threadfence_system();
    LAB_STORE(mine->tail, to);
    __threadfence_system();
    atomicExch(&words->copying, 0ull);
}

// The entry at OFFSET of the topic to the device, as soon as it is there; 0: the kernel is to leave.
OPERATOR_FUNCTION u64 lab_subscribe(LabCatalog *catalog, unsigned long long *stop, LabTopicWords *words, u64 offset,
                                    LabEntry *entry)
{
    const u64 began = lab_now();
    for (u32 n_looks = 0;; n_looks++) {
        LabIndex *mine = (LabIndex *)LAB_LOAD(catalog->subscribed[0]);
        LabIndex *theirs = (LabIndex *)LAB_LOAD(catalog->published[0]);
        if (LAB_LOAD(mine->tail) <= offset && mine != theirs)
            lab_copy_index(mine, theirs, words);
        if (LAB_LOAD(mine->tail) > offset) {
            __threadfence_system();
            const LabEntry *found = &mine->entries[offset % LAB_INDEX];
            entry->in = LAB_LOAD(found->in);
            entry->out = LAB_LOAD(found->out);
            entry->bytes = LAB_LOAD(found->bytes);
            entry->tag = LAB_LOAD(found->tag);
            entry->slot = LAB_LOAD(found->slot);
            return 1;
        }
        // The word is across the link, which is not to be filled with looks at it.
        if (n_looks % 16 == 0 && (LAB_LOAD(*stop) || lab_now() - began > 2000000000ull))
            return 0;
        LAB_PAUSE;
    }
}

OPERATOR_FUNCTION void lab_publish(LabCatalog *catalog, const LabEntry *entry)
{
    LabIndex *index = (LabIndex *)LAB_LOAD(catalog->published[1]);
    while (atomicCAS(&index->lock, 0ull, 1ull) != 0)
        LAB_PAUSE;
    __threadfence_system();
    const u64 at = LAB_LOAD(index->tail);
    LabEntry *next = &index->entries[at % LAB_INDEX];
    LAB_STORE(next->in, entry->in);
    LAB_STORE(next->out, entry->out);
    LAB_STORE(next->bytes, entry->bytes);
    LAB_STORE(next->tag, entry->tag);
    LAB_STORE(next->slot, entry->slot);
    __threadfence_system();
    LAB_STORE(index->tail, at + 1);
    __threadfence_system();
    atomicExch(&index->lock, 0ull);
}

// A part of a frame is done; publishes the frame when it was the last.
OPERATOR_FUNCTION void lab_finish_part(LabCatalog *catalog, LabTopicWords *words, u64 offset, u64 n_parts,
                                       const LabEntry *entry)
{
    unsigned long long *n_done = &words->n_done[offset % LAB_INDEX];
    if (n_parts > 1 && atomicAdd(n_done, 1ull) + 1 != n_parts)
        return;
    if (n_parts > 1)
        LAB_STORE(*n_done, 0ull);
    __threadfence_system();
    lab_publish(catalog, entry);
}

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
    KERNEL(name##_topics)                                                                                  \
    {                                                                                                      \
        SHARED LabEntry entry;                                                                             \
        SHARED u64 has_frame, ticket;                                                                      \
        LabCatalog *catalog = (LabCatalog *)A.out[1];                                                      \
        LabTopicWords *words = (LabTopicWords *)A.scratch;                                                 \
        const u64 n_parts = A.n[0];                                                                        \
        for (;;) {                                                                                         \
            if (THREAD == 0) {                                                                             \
                ticket = atomicAdd(&words->ticket, 1ull);                                                  \
                has_frame = lab_subscribe(catalog, (unsigned long long *)A.out[0], words, ticket / n_parts, &entry);\
            }                                                                                              \
            __syncthreads();                                                                               \
            if (!has_frame) return;                                                                        \
            LabRound round = { (const void *)entry.in, entry.bytes, (void *)entry.out, (const void *)catalog->params,\
                               entry.tag, ticket % n_parts * THREADS + THREAD, n_parts * THREADS, 0, 0 };  \
            name##_body(&round);                                                                           \
            __threadfence_system();                                                                        \
            __syncthreads();                                                                               \
            if (THREAD == 0) lab_finish_part(catalog, words, ticket / n_parts, n_parts, &entry);           \
            __syncthreads();                                                                               \
        }                                                                                                  \
    }                                                                                                      \
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
// One sum of all threads of the grid, in OUT[0], which the host has zeroed: an atomic operation for each block.
#define SUM_WORKERS(type, out, value)                                               \
    do {                                                                            \
        SHARED u64 total_;                                                          \
        type sum_ = (value);                                                        \
        if (THREAD == 0) total_ = 0;                                                \
        __syncthreads();                                                            \
        for (int by_ = 16; by_; by_ /= 2) sum_ += __shfl_down_sync(ALL_LANES, sum_, by_); \
        if (LANE == 0) atomicAdd(&total_, (u64)sum_);                               \
        __syncthreads();                                                            \
        if (THREAD == 0) atomicAdd((u64 *)(out), total_);                           \
        __syncthreads();                                                            \
        R->output_bytes = sizeof(type);                                             \
    } while (0)
#define TAG                (R->tag)
#define EMIT_TAG(tag_)     (R->output_tag = (tag_))

#endif
#endif
