// owner.c - which thread owns a publisher or a subscriber, so that a thread that ends does not leave others waiting.
//
// Each thread has a list of the handles that it opened or used last.  A destructor of a thread-specific value goes
// through the list when the thread ends, in whatever way: it returns, exits or is cancelled.  A thread changes its own
// list with every handle that it takes over from another, and the destructor of that other may run at the same time, so
// one lock guards all lists.  It is taken when handles change hands, not when frames do.

#include <stdlib.h>

#include "flow/flow_int.h"

struct OwnerThread { Owned *first; };

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t   key;
static pthread_once_t  key_once = PTHREAD_ONCE_INIT;
static _Thread_local OwnerThread *this_thread;

static void unlink_owned(Owned *owned)
{
    OwnerThread *owner = atomic_load(&owned->owner);
    if (!owner)
        return;
    if (owned->previous)
        owned->previous->next = owned->next;
    else
        owner->first = owned->next;
    if (owned->next)
        owned->next->previous = owned->previous;
    owned->next = owned->previous = NULL;
    atomic_store(&owned->owner, NULL);
}

static void thread_has_ended(void *value)
{
    OwnerThread *thread = value;
    pthread_mutex_lock(&registry);
    while (thread->first) {
        Owned *owned = thread->first;
        unlink_owned(owned);
        owned->abandon(owned->context);
    }
    pthread_mutex_unlock(&registry);
    this_thread = NULL;
    free(thread);
}

static void make_key(void)
{
    if (pthread_key_create(&key, thread_has_ended))
        log_warn("flow: no thread-specific value left: threads that end without closing are not noticed");
}

static OwnerThread *own_thread(void)
{
    if (!this_thread) {
        pthread_once(&key_once, make_key);
        OwnerThread *thread = calloc(1, sizeof(OwnerThread));
        if (!thread || pthread_setspecific(key, thread)) {
            free(thread);
            return NULL;
        }
        this_thread = thread;
    }
    return this_thread;
}

void owned_adopt(Owned *owned)
{
    OwnerThread *mine = own_thread();
    if (!mine || atomic_load_explicit(&owned->owner, memory_order_relaxed) == mine)
        return;
    pthread_mutex_lock(&registry);
    unlink_owned(owned);
    owned->next = mine->first;
    if (mine->first)
        mine->first->previous = owned;
    mine->first = owned;
    atomic_store(&owned->owner, mine);
    pthread_mutex_unlock(&registry);
}

void owned_release(Owned *owned)
{
    pthread_mutex_lock(&registry);
    unlink_owned(owned);
    pthread_mutex_unlock(&registry);
}
