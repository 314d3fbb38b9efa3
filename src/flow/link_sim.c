// link_sim.c - a link that delays and reorders whatever the rules of flow_int.h leave open, for tests of memory order.
//
// A store waits in a queue of its side for a random number of steps, in pieces of a line (64 bytes) that arrive one by
// one and overtake each other.  Only two things hold them: a release arrives when all stores before it have, and bytes
// that are stored twice arrive in that order.  Later stores may overtake a release, as on hardware.  A reader has a
// cache that is not kept coherent: a line that was loaded once, or was fetched ahead with its neighbour, is read again
// as it was until the next acquire empties the cache.
//
//     publisher: store, store, release ──> queue ──> memory ──> cache ──> load :subscriber
//                                          any order            stale until acquire
//
// A line never tears: both PCIe and caches move whole lines that are aligned.  With ignores_release or ignores_acquire
// the link breaks its own rules, so that a test can show that it would notice.

#include <stdlib.h>

#include "base/random.h"
#include "flow/flow_int.h"

enum { LINE = 64, CACHE_LINES = 64, KNOWN_LINES = 128, PAGE_BYTES = 4096 };

typedef struct SimStore {              // at most a line
    u8  *to;
    u8   bytes[LINE];
    u32  n_bytes;
    bool is_release;
    u64  arrives_at;                   // step, at the earliest
} SimStore;

typedef struct SimLine { const u8 *at; u8 bytes[LINE]; } SimLine;

typedef struct SimSide {
    SimStore  *queue;                  // oldest first
    int        n_queue, capacity;
    SimLine    cache[CACHE_LINES];     // a place for each line by its address; at NULL: empty
    const u8  *known[KNOWN_LINES];     // lines that this side has loaded: may be fetched ahead again
    int        n_known;
} SimSide;

struct LinkSim {
    FlowLink        link;              // first
    LinkSimOptions  options;
    pthread_mutex_t lock;
    SimSide         sides[WEFT_N_SIDES];
    u64             now, n_random;
};

static u64 draw(LinkSim *sim, u64 below)
{
    return below ? random_bits(sim->options.seed, sim->n_random++) % below : 0;
}

// ---- memory: read and written by several threads, under the lock ----------------------------------------------------

static bool overlaps(const SimStore *a, const SimStore *b)
{
    return a->to < b->to + b->n_bytes && b->to < a->to + a->n_bytes;
}

static bool may_arrive(const SimSide *side, int i, u64 now)
{
    const SimStore *store = &side->queue[i];
    if (store->arrives_at > now || (store->is_release && i > 0))
        return false;
    for (int j = 0; j < i; j++)
        if (overlaps(store, &side->queue[j]))
            return false;
    return true;
}

static void deliver(SimSide *side, int i)
{
    SimStore *store = &side->queue[i];
    if (store->n_bytes == sizeof(u64) && (uintptr_t)store->to % sizeof(u64) == 0) {
        u64 word;
        memcpy(&word, store->bytes, sizeof(word));
        atomic_store_explicit((_Atomic u64 *)(void *)store->to, word, memory_order_release);
    } else {
        memcpy(store->to, store->bytes, store->n_bytes);
    }
    memmove(store, store + 1, (size_t)(side->n_queue - i - 1) * sizeof(SimStore));
    side->n_queue--;
}

// What is fetched ahead may be part of a frame that is free by now: no matter for ASan.
__attribute__((no_sanitize("address"))) static void fetch(SimSide *side, const u8 *line)
{
    SimLine *place = &side->cache[(uintptr_t)line / LINE % CACHE_LINES];
    place->at = line;
    for (int i = 0; i < LINE; i++)
        place->bytes[i] = ((const volatile u8 *)line)[i];
}

static void step(LinkSim *sim)
{
    sim->now++;
    for (int s = 0; s < WEFT_N_SIDES; s++) {
        SimSide *side = &sim->sides[s];
        for (int i = 0; i < side->n_queue; i++)
            if (may_arrive(side, i, sim->now))
                deliver(side, i--);
        if (side->n_known > 0 && (int)draw(sim, 100) < sim->options.stale_percent)
            fetch(side, side->known[draw(sim, (u64)side->n_known)]);    // ahead of any load
    }
}

// ---- the four accesses ----------------------------------------------------------------------------------------------

static void enqueue(LinkSim *sim, weft_side by, void *to, const void *bytes, u32 n_bytes, bool is_release)
{
    SimSide *side = &sim->sides[by];
    if (side->n_queue == side->capacity) {
        side->capacity = MAX_OF(64, 2 * side->capacity);
        side->queue = realloc(side->queue, (size_t)side->capacity * sizeof(SimStore));
        if (!side->queue)
            abort();                                        // a few kilobytes, in a test
    }
    SimStore *store = &side->queue[side->n_queue++];
    *store = (SimStore){ .to = to, .n_bytes = n_bytes, .is_release = is_release && !sim->options.ignores_release,
                         .arrives_at = sim->now + draw(sim, (u64)sim->options.delay_most + 1) };
    memcpy(store->bytes, bytes, n_bytes);
}

static void sim_store(FlowLink *link, weft_side by, void *to, const void *bytes, size_t n_bytes)
{
    LinkSim *sim = (LinkSim *)link;
    pthread_mutex_lock(&sim->lock);
    for (size_t at = 0; at < n_bytes;) {
        const size_t in_line = LINE - ((uintptr_t)to + at) % LINE, n = MIN_OF(in_line, n_bytes - at);
        enqueue(sim, by, (u8 *)to + at, (const u8 *)bytes + at, (u32)n, false);
        at += n;
    }
    step(sim);
    pthread_mutex_unlock(&sim->lock);
}

static void sim_release(FlowLink *link, weft_side by, _Atomic u64 *to, u64 value)
{
    LinkSim *sim = (LinkSim *)link;
    pthread_mutex_lock(&sim->lock);
    enqueue(sim, by, (void *)(uintptr_t)to, &value, sizeof(value), true);
    step(sim);
    pthread_mutex_unlock(&sim->lock);
}

static void load_line(LinkSim *sim, SimSide *side, u8 *to, const u8 *from, size_t n_bytes)
{
    const u8 *line = from - (uintptr_t)from % LINE;
    const SimLine *cached = &side->cache[(uintptr_t)line / LINE % CACHE_LINES];
    if (cached->at != line) {
        if (side->n_known < KNOWN_LINES)
            side->known[side->n_known++] = line;
        if ((int)draw(sim, 100) >= sim->options.stale_percent) {
            memcpy(to, from, n_bytes);
            return;
        }
        fetch(side, line);
        if ((uintptr_t)(line + LINE) % PAGE_BYTES != 0)
            fetch(side, line + LINE);                       // the neighbour comes along, written or not
    }
    memcpy(to, cached->bytes + (from - line), n_bytes);
}

static void sim_load(FlowLink *link, weft_side by, void *to, const void *from, size_t n_bytes)
{
    LinkSim *sim = (LinkSim *)link;
    pthread_mutex_lock(&sim->lock);
    for (size_t at = 0; at < n_bytes;) {
        const size_t in_line = LINE - ((uintptr_t)from + at) % LINE, n = MIN_OF(in_line, n_bytes - at);
        load_line(sim, &sim->sides[by], (u8 *)to + at, (const u8 *)from + at, n);
        step(sim);                                          // more may arrive between two lines
        at += n;
    }
    pthread_mutex_unlock(&sim->lock);
}

static u64 sim_acquire(FlowLink *link, weft_side by, const _Atomic u64 *from)
{
    LinkSim *sim = (LinkSim *)link;
    pthread_mutex_lock(&sim->lock);
    step(sim);
    const u64 value = atomic_load_explicit(from, memory_order_acquire);
    if (!sim->options.ignores_acquire)
        for (int i = 0; i < CACHE_LINES; i++)
            sim->sides[by].cache[i].at = NULL;
    pthread_mutex_unlock(&sim->lock);
    return value;
}

// ---- for tests ------------------------------------------------------------------------------------------------------

LinkSim *link_sim_new(const LinkSimOptions *options)
{
    LinkSim *sim = calloc(1, sizeof(LinkSim));
    if (!sim)
        abort();
    sim->link = (FlowLink){ sim_store, sim_release, sim_load, sim_acquire };
    sim->options = *options;
    pthread_mutex_init(&sim->lock, NULL);
    return sim;
}

void link_sim_free(LinkSim *sim)
{
    for (int s = 0; s < WEFT_N_SIDES; s++)
        free(sim->sides[s].queue);
    pthread_mutex_destroy(&sim->lock);
    free(sim);
}

FlowLink *link_sim_link(LinkSim *sim) { return &sim->link; }

void link_sim_step(LinkSim *sim)
{
    pthread_mutex_lock(&sim->lock);
    step(sim);
    pthread_mutex_unlock(&sim->lock);
}

bool link_sim_is_idle(LinkSim *sim)
{
    pthread_mutex_lock(&sim->lock);
    const bool is_idle = sim->sides[WEFT_SIDE_HOST].n_queue == 0 && sim->sides[WEFT_SIDE_DEVICE].n_queue == 0;
    pthread_mutex_unlock(&sim->lock);
    return is_idle;
}
