// fake_flow.c - see fake_flow.h.

#include "fake_flow.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "jit/jit_int.h"
#include "kernel/flow.h"
#include "kernel/flow_pages.h"
#include "kernel/flow_args.h"
#include "kernel/kernel.h"

enum { CODES_MOST = 256, BLOCKS_MOST = 32 };               // the bits of the one lane's word

struct FakeFlow { TccCode codes[CODES_MOST]; int n_codes; };

typedef struct FakeLaunch {
    const FakeFlow    *flow;
    const FlowArgs    *args;
    u32                n_blocks;
    const _Atomic int *dead;
    void             (*ended)(void *context);
    void              *context;
} FakeLaunch;

typedef struct FakeBlock { const FakeLaunch *launch; u32 block; } FakeBlock;

static _Thread_local const FakeLaunch *here;

// ---- the words of a CPU: a block is one thread ----------------------------------------------------------------------

static void end_if_dead(void)
{
    if (*here->dead)
        pthread_exit(NULL);
}

#define FLOW_FUNCTION_              static
#define FLOW_THREAD_                0u
#define FLOW_THREADS_               1u
#define FLOW_LANES_                 1u
#define FLOW_BARRIER_()             ((void)0)
#define FLOW_WARP_()                ((void)0)
#define FLOW_BALLOT_(is)            ((is) ? 1u : 0u)
#define FLOW_COUNT_(mask)           ((u32)__builtin_popcount(mask))
#define FLOW_FROM_(value, lane)     ((void)(lane), (value))
#define FLOW_FENCE_()               ((void)0)            // all below are strong enough
#define FLOW_FENCE_HERE_()          ((void)0)
#define FLOW_DISPATCH_(code, round) dispatch(code, round)

static void dispatch(u32 code, FlowRound *round)
{
    here->flow->codes[code].function(round);
}

static u64 flow_acquire_system_(const u64 *word)
{
    end_if_dead();
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static u32 flow_load_byte_(const unsigned char *byte) { return __atomic_load_n(byte, __ATOMIC_RELAXED); }
static void flow_release_system_(u64 *word, u64 value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static u64 flow_acquire_(const u64 *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static u32 flow_acquire_32_(const u32 *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void flow_release_(u64 *word, u64 value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static void flow_release_32_(u32 *word, u32 value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static void flow_store_(u64 *word, u64 value) { flow_release_(word, value); }
static u32 flow_exchange_32_(u32 *word, u32 value) { return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL); }
static void flow_or_32_(u32 *word, u32 value) { __atomic_fetch_or(word, value, __ATOMIC_ACQ_REL); }
static u32 flow_add_(u32 *word, u32 value) { return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL); }
static u32 flow_first_(u32 mask) { return (u32)__builtin_ctz(mask); }

static u32 flow_swap_if_32_(u32 *word, u32 old, u32 value)
{
    __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return old;
}

static void flow_add_64_(u64 *word, u64 value) { __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL); }

static void flow_max_(u64 *word, u64 value)
{
    u64 old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (old < value && !__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        continue;
}

static u64 flow_time_ns_(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

// Far longer than a GPU: its blocks are cheap, and cores here are few.
static void flow_sleep_(u32 ns)
{
    end_if_dead();
    if (ns < 500)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

#include "kernel/flow_loop.h"

// ---- modules --------------------------------------------------------------------------------------------------------

bool fake_flow_is(const char *image) { return strstr(image, "\nFLOW_KERNEL\n") != NULL; }

static weft_status load_one(const char *text, size_t length, TccCode *code, Error *err)
{
    char *own = strndup(text, length), name[96] = "";
    const char *at = strstr(own, "OPERATOR(");
    if (at)
        sscanf(at, "OPERATOR(%95[^)])", name);
    Text words = { 0 };
    text_add(&words, "%s\n%s", kernel_flow_text, kernel_flow_pages_text);
    const weft_status status = tcc_build(&(KernelText){ words.bytes, own, name }, code, err);
    text_free(&words);
    free(own);
    return status;
}

weft_status fake_flow_load(const char *image, FakeFlow **out, Error *err)
{
    static const char line[] = "#line 1 \"operator\"\n";
    FakeFlow *flow = calloc(1, sizeof(*flow));
    for (const char *at = image; (at = strstr(at, line)); flow->n_codes++) {
        char end[40];
        at += strlen(line);
        snprintf(end, sizeof(end), "\n}\n\nnamespace code_%d {", flow->n_codes + 1);
        const char *last = strstr(at, end);
        if (!last)
            last = strstr(at, "\n}\nstatic __device__ __forceinline__ void flow_dispatch_");
        if (load_one(at, (size_t)(last - at), &flow->codes[flow->n_codes], err)) {
            fake_flow_unload(flow);
            return err->status;
        }
    }
    *out = flow;
    return WEFT_OK;
}

void fake_flow_unload(FakeFlow *flow)
{
    if (!flow)
        return;
    for (int i = 0; i < CODES_MOST; i++)
        tcc_unload(&flow->codes[i]);
    free(flow);
}

// ---- launches -------------------------------------------------------------------------------------------------------

static void *block_body(void *context)
{
    const FakeBlock *block = context;
    FlowShared shared;
    memset(&shared, 0xa5, sizeof(shared));                  // as on a GPU, nothing is zero by itself
    here = block->launch;
    flow_block_(here->args, &shared, block->block, here->n_blocks);
    return NULL;
}

static void *launch_body(void *context)
{
    FakeLaunch *launch = context;
    pthread_t threads[BLOCKS_MOST];
    FakeBlock blocks[BLOCKS_MOST];
    for (u32 b = 0; b < launch->n_blocks; b++) {
        blocks[b] = (FakeBlock){ launch, b };
        if (pthread_create(&threads[b], NULL, block_body, &blocks[b]))
            abort();
    }
    for (u32 b = 0; b < launch->n_blocks; b++)
        pthread_join(threads[b], NULL);
    launch->ended(launch->context);
    free(launch);
    return NULL;
}

void fake_flow_launch(const FakeFlow *flow, const void *args, u32 n_blocks, const _Atomic int *dead,
                      void (*ended)(void *context), void *context)
{
    FakeLaunch *launch = malloc(sizeof(*launch));
    pthread_t thread;
    if (!launch || n_blocks > BLOCKS_MOST)
        abort();
    *launch = (FakeLaunch){ flow, args, n_blocks, dead, ended, context };
    if (pthread_create(&thread, NULL, launch_body, launch))
        abort();
    pthread_detach(thread);
}
