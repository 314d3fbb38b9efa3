// flow_int.h - what the files of this folder share: the frame heap, links, the catalog, topics, owners of handles.
//
// Locks, in the order in which they may be taken: registry of owners, flow, topic, books of a topic, heap.

#ifndef WEFT_FLOW_INT_H
#define WEFT_FLOW_INT_H

#include <time.h>

#include "base/base.h"
#include "weft_flow.h"

// Errors here go straight to users, for whom places count from 1 and 0 is none (fail's -1 is weft_query's).
enum { NO_PLACE = 0 };

// ---- bells (bell.c)
// --------------------------------------------------------------------------------------------------

typedef struct Bell {                  // wakes all who wait for something to happen
    pthread_mutex_t lock;
    pthread_cond_t  rung;
    _Atomic u64     number;            // of rings so far
    _Atomic u32     n_waiting;
} Bell;

void bell_init(Bell *bell);
void bell_destroy(Bell *bell);
void bell_ring(Bell *bell);
void bell_wait(Bell *bell, u64 number, int time_ms);        // until it rang since NUMBER was read
// Waits with LOCK held, for TIME_MS of a monotonic clock at most; no cancellation point.
void wait_for(pthread_cond_t *condition, pthread_mutex_t *lock, int time_ms);
struct timespec time_after(int time_ms);                    // of the monotonic clock

// ---- the frame heap (heap.c) ----------------------------------------------------------------------------------------

typedef struct FrameHeap FrameHeap;
typedef struct HeapBuffer HeapBuffer;

typedef struct FrameInfo {
    weft_frame        frame;           // first, so that a weft_frame * is a FrameInfo *
    HeapBuffer       *buffer;
    u32               bit;             // of the buffer
    _Atomic u32       holds;           // 0: the frame is free, or in a reserve
    weft_topic       *reserve_of;      // goes back there instead of to the heap; NULL: to the heap
    weft_publisher   *taker;           // has taken and not published it; guarded by the topic's books
    struct FrameInfo *next, *previous; // in the taker's list or the reserve's
} FrameInfo;

static inline FrameInfo *info_of(const weft_frame *frame) { return (FrameInfo *)(uintptr_t)frame; }

FrameHeap  *heap_new(const weft_flow_options *options);
i64         heap_free(FrameHeap *heap);                     // returns how many frames were never given back
// A frame of at least BYTES for SIDE, with one hold.  OUT_OF_MEMORY: no frame is free, and there is no memory for more.
// Any thread.
weft_status heap_take(FrameHeap *heap, weft_side side, u64 bytes, FrameInfo **out, Error *err);
// Grows until there are N_FRAMES of at least BYTES, free or not, or memory is refused.  Returns how many there are.
i64         heap_prepare(FrameHeap *heap, weft_side side, u64 bytes, i64 n_frames);
void        heap_give(FrameInfo *info);                     // its last hold is gone.  Any thread.
// Waits until a frame came back since NUMBER was read, or for TIME_MS; for those whom heap_take refused.
u64         heap_number(FrameHeap *heap);
void        heap_wait(FrameHeap *heap, u64 number, int time_ms);
bool        heap_has_waiters(FrameHeap *heap);
void        heap_wake(FrameHeap *heap);                     // ends all waits: a frame went to a reserve, or all ends
weft_heap_counts heap_counts(FrameHeap *heap, weft_side side);
FrameHeap  *heap_of(const FrameInfo *info);

// ---- links: how bytes and words reach the other side ----------------------------------------------------------------
// A topic writes what the other side reads through its link.  NULL is the processor's own memory.  Anything else obeys
// the same four rules and no more: stores may arrive late and in any order; a release arrives after all earlier stores
// of its side; a load may give what was there at any time since its side's last acquire; an acquire gives what is there
// now.  link_sim.c is the worst link that keeps to them.

typedef struct FlowLink FlowLink;
struct FlowLink {
    void (*store)(FlowLink *link, weft_side by, void *to, const void *bytes, size_t n_bytes);
    void (*release)(FlowLink *link, weft_side by, _Atomic u64 *to, u64 value);
    void (*load)(FlowLink *link, weft_side by, void *to, const void *from, size_t n_bytes);
    u64  (*acquire)(FlowLink *link, weft_side by, const _Atomic u64 *from);
};

static inline void link_store(FlowLink *link, weft_side by, void *to, const void *bytes, size_t n_bytes)
{
    if (link)
        link->store(link, by, to, bytes, n_bytes);
    else
        memcpy(to, bytes, n_bytes);
}

static inline void link_release(FlowLink *link, weft_side by, _Atomic u64 *to, u64 value)
{
    if (link)
        link->release(link, by, to, value);
    else
        atomic_store_explicit(to, value, memory_order_release);
}

static inline void link_load(FlowLink *link, weft_side by, void *to, const void *from, size_t n_bytes)
{
    if (link)
        link->load(link, by, to, from, n_bytes);
    else
        memcpy(to, from, n_bytes);
}

static inline u64 link_acquire(FlowLink *link, weft_side by, const _Atomic u64 *from)
{
    return link ? link->acquire(link, by, from) : atomic_load_explicit(from, memory_order_acquire);
}

// ---- a link that delays and reorders (link_sim.c) -------------------------------------------------------------------

typedef struct LinkSim LinkSim;
typedef struct LinkSimOptions {
    u64  seed;
    int  delay_most;                   // steps that a store may take
    int  stale_percent;                // loads that leave their line in the reader's cache
    bool ignores_release, ignores_acquire;                  // a broken link: tests must notice it
} LinkSimOptions;

LinkSim  *link_sim_new(const LinkSimOptions *options);
void      link_sim_free(LinkSim *sim);                      // what is under way is lost
FlowLink *link_sim_link(LinkSim *sim);
void      link_sim_step(LinkSim *sim);                      // time passes; every access is a step, too
bool      link_sim_is_idle(LinkSim *sim);                   // nothing is under way

// ---- who owns a handle (owner.c) ------------------------------------------------------------------------------------

typedef struct OwnerThread OwnerThread;
typedef struct Owned {
    struct Owned         *next, *previous;
    _Atomic(OwnerThread *) owner;      // the thread that opened or last used the handle; NULL: none
    void                (*abandon)(void *context);          // called by the owner as it ends, with the registry locked
    void                 *context;
} Owned;

void owned_adopt(Owned *owned);        // the calling thread owns it from now on
void owned_release(Owned *owned);      // no thread owns it then; safe to call twice.  No other lock may be held.

// ---- the catalog (catalog.c) ----------------------------------------------------------------------------------------
// Each side has a replica.  Entries never change and are never removed, so a replica is its first n entries.

enum { TOPICS_MAX = 256, TOPIC_NAME_BYTES = 64 };

typedef struct CatalogEntry {          // 128 bytes
    char        name[TOPIC_NAME_BYTES];
    u64         number;                // from 0 on
    u64         frame_bytes, n_slots;
    u64         side;                  // of its publishers
    weft_topic *topic;
    u64         spare[3];
} CatalogEntry;

struct CatalogReplica {
    _Alignas(64) CatalogEntry entries[TOPICS_MAX];
    _Atomic u64  n_entries;
};

typedef struct Catalog {
    struct CatalogReplica replicas[WEFT_N_SIDES];
    FlowLink             *link;
} Catalog;

// The caller sees to it that one thread at a time adds, and that the name is new.  False: it is full.
bool catalog_add(Catalog *catalog, weft_side by, const CatalogEntry *entry);
bool catalog_find(Catalog *catalog, weft_side by, const char *name, CatalogEntry *entry);   // in its own replica
bool catalog_get(Catalog *catalog, weft_side by, u64 number, CatalogEntry *entry);

// ---- topics (topic.c) -----------------------------------------------------------------------------------------------

enum { INDEX_PAGE = 64 };              // entries that a subscriber copies at a time: 4 KB

typedef struct IndexEntry {            // 64 bytes
    u64 offset;
    u64 frame;                         // a FrameInfo *, for the host
    u64 data, length, capacity, tag;   // for any side
    u64 publisher;                     // number
    u64 check;                         // offset and frame mixed: a torn entry does not pass for a whole one
} IndexEntry;
_Static_assert(sizeof(IndexEntry) == 64, "an entry is a line of the link");

struct weft_publisher {
    Owned           owned;
    weft_topic     *topic;
    weft_publisher *next;              // of the topic, open or not
    FrameInfo      *taken;             // not yet published; guarded by the topic's books
    u64             number;
    _Atomic bool    is_open;           // changes with the topic's lock
    bool            is_operator;
};

struct weft_subscriber {
    Owned            owned;
    weft_topic      *topic;
    weft_subscriber *next;             // of the topic, open or not
    weft_side        side;
    _Atomic u64      done;             // frames before this offset are done with: the publishers' side reads it
    u64              offset;           // of the frame at hand, or of the next one
    bool             has_frame;
    bool             is_open;
    int              n_untidied;       // frames that it has read and not dropped
    u64              page_first, page_n;                    // offsets in the replica
    IndexEntry       page[INDEX_PAGE]; // the subscriber's replica of the index
};

typedef struct KeptFrame { FrameInfo *info; u64 bytes; } KeptFrame;

struct weft_topic {
    CatalogEntry       entry;          // a copy
    weft_topic_options options;        // with defaults filled in
    FrameHeap         *heap;
    FlowLink          *link;           // NULL: the processor's own memory
    const _Atomic u32 *stop;           // of the flow: not 0 ends all waits
    char               device[16];     // its frames are there, where the host cannot read them; "": they are not
    bool               is_fast;        // the flow runs on a GPU: its frames take microseconds, so spinning pays
    weft_topic        *older;          // the topic of the flow that was made before this one
    _Atomic(weft_topic *) *newest;     // of the flow: all its topics, for when memory is short
    _Atomic(Bell *)    bells[2];       // rung when something happens here; NULL: none
    pthread_mutex_t    lock;           // guards all that follows but words read across the link
    pthread_cond_t     can_read, can_write;
    int                n_waiting_readers;
    _Atomic int        n_waiting_writers;                   // subscribers look at it without the lock
    IndexEntry        *index;          // the publishers' replica: a ring of n_slots
    KeptFrame         *kept;           // frames by slot, the publishers' own books
    u64                published;      // as tail, the publishers' own
    _Atomic bool       is_closed;      // changes with the lock
    _Atomic u64        tail;           // offset after the last: written by publishers, read across the link
    _Atomic u64        end;            // no frame from this offset on will ever come; UINT64_MAX while open
    u64                head;           // oldest offset that is kept
    u64                read_to;        // all subscribers are done with frames before it, as of the last look
    u64                bytes_kept, bytes_read;              // of frames kept, and of those before read_to
    weft_publisher    *publishers;
    weft_subscriber   *subscribers;
    int                n_publishers, n_subscribers;         // open
    u64                next_publisher;
    bool               has_died;       // a publisher's thread ended without closing it
    Error              error;          // why, then
    pthread_mutex_t    books;          // guards reserve and the lists of taken frames
    FrameInfo         *reserve;        // free frames that belong to this topic
    int                n_reserved, n_guaranteed;            // frames that belong to it, free or not; that should
    i64                frames_published, bytes_published;   // guarded by the lock, the next not
    _Atomic i64        entries_copied, copies, waits_for_room, waits_for_frames;
};

// ---- frames in hands, and reserves (frame.c) ------------------------------------------------------------------------

void        frame_note_taker(FrameInfo *info, weft_publisher *publisher);
void        frame_forget_taker(FrameInfo *info);            // it is published, or gone
void        frames_forget_taker(weft_publisher *publisher, FrameInfo *const *infos, int n);     // the same for N of its
void        frames_drop_taken(weft_publisher *publisher);   // all that it has taken and not published
weft_status reserve_add(weft_topic *topic, Error *err);     // one more publisher: one more frame
void        reserve_remove(weft_topic *topic);              // one less; the frame goes to the heap when it is free
FrameInfo  *reserve_take(weft_topic *topic);                // with one hold; NULL: none is free
void        reserve_empty(weft_topic *topic);               // at the topic's end

weft_status topic_init(weft_topic *topic, const char *name, const weft_topic_options *options, FrameHeap *heap,
                       const _Atomic u32 *stop, _Atomic(weft_topic *) *newest, Error *err);
// Nobody uses it any more: frees its handles and drops its frames.  All topics of a flow come before the first
// topic_destroy, since a topic may hold frames of another's reserve.
void        topic_empty(weft_topic *topic);
void        topic_destroy(weft_topic *topic);
weft_status topic_open_publisher(weft_topic *topic, bool is_operator, weft_publisher **out, Error *err);
weft_status topic_open_subscriber(weft_topic *topic, weft_side side, weft_start start, weft_subscriber **out,
                                  Error *err);
weft_status topic_check_host(const weft_topic *topic, Error *err);  // fails when the host cannot read its frames
// The caller is done with the frame at hand, if there is one, and goes on reading.  Threads that wait for the frame
// learn this at once, the topic after a few frames; with weft_subscriber_release it learns at once, too.
void        subscriber_read(weft_subscriber *subscriber);
// For a device, which has several frames of one subscriber or publisher at a time; none of them waits.  One thread.
// NOT_READY comes often and leaves ERR as it is.
// The entry of OFFSET.  NOT_READY: not published yet.  END_OF_STREAM, OPERATOR_FAILED: never will be.
weft_status subscriber_peek(weft_subscriber *subscriber, u64 offset, const IndexEntry **entry, Error *err);
void        subscriber_done(weft_subscriber *subscriber, u64 offset);               // with all frames before it
bool        publisher_is_over(weft_publisher *publisher);   // the topic or the flow was closed
FrameInfo  *publisher_take_now(weft_publisher *publisher);  // NULL: none is free
// As many of N as the topic has room for, in order.  NOT_READY: not all of them.  END_OF_STREAM: the topic is over.
weft_status publisher_publish_many(weft_publisher *publisher, FrameInfo *const *infos, int n, int *n_published,
                                   Error *err);
bool        topic_has_room(weft_topic *topic, u64 bytes);   // as things are
void        topic_close_foreign(weft_topic *topic);         // where no operator publishes: closes the topic
void        topic_add_bell(weft_topic *topic, Bell *bell);  // safe to call twice; two bells at most
void        topic_forget_bells(weft_topic *topic);          // they are about to go
void        topic_wake(weft_topic *topic);                  // all who wait look again

#endif
