// remote.c - see remote.h.

#include "engine/remote.h"

#include <pthread.h>

typedef struct RemotePart { int number; u64 bytes; void *here; } RemotePart;

struct Remote {
    Device         *device;
    u64             table;
    Budget         *budget;            // may be used after the query that made the table is gone
    int             n_parts;
    RemotePart      parts[REMOTE_PARTS];
    pthread_mutex_t lock;              // for what is here of them
};

static void drop(void *context)
{
    Remote *remote = context;
    remote->device->drop_table(remote->device, remote->table);
    for (int p = 0; p < remote->n_parts; p++)
        mem_free(remote->budget, remote->parts[p].here, remote->parts[p].bytes + 8);
    pthread_mutex_destroy(&remote->lock);
}

Remote *remote_new(Arena *home, Device *device, u64 table, Budget *budget)
{
    Remote *remote = arena_make(home, Remote);
    *remote = (Remote){ .device = device, .table = table, .budget = budget };
    pthread_mutex_init(&remote->lock, NULL);
    arena_defer(home, drop, remote);
    return remote;
}

void remote_add(Remote *remote, int number, u64 bytes)
{
    remote->parts[remote->n_parts++] = (RemotePart){ number, bytes, NULL };
}

bool remote_is_on(const Remote *remote, const Device *device) { return remote->device == device; }

const Device *remote_on(const Remote *remote) { return remote->device; }

const char *remote_device(const Remote *remote) { return remote->device->name; }

static weft_status fetch_part(Remote *remote, RemotePart *part, Error *err)
{
    void *here;
    if (part->here) return WEFT_OK;
    TRY(mem_alloc(remote->budget, part->bytes + 8, &here, err));
    const weft_status status =
        remote->device->fetch_table(remote->device, remote->table, part->number, here, part->bytes, err);
    if (status) mem_free(remote->budget, here, part->bytes + 8);
    else part->here = here;
    return status;
}

static weft_status fetch_parts(Remote *remote, Error *err)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&remote->lock);
    for (int p = 0; p < remote->n_parts && !status; p++) status = fetch_part(remote, &remote->parts[p], err);
    pthread_mutex_unlock(&remote->lock);
    return status;
}

weft_status remote_fetch(JoinTable *view, Error *err)
{
    TRY(fetch_parts(view->remote, err));
    view->slots = remote_part(view, TABLE_SLOTS), view->words = remote_part(view, TABLE_WORDS),
    view->next = remote_part(view, TABLE_NEXT);
    for (int p = 0; p < view->n_payloads; p++) {
        view->payloads[p].data = remote_part(view, TABLE_PAYLOADS + 3 * p);
        view->payloads[p].valid = remote_part(view, TABLE_PAYLOADS + 3 * p + 1);
    }
    return WEFT_OK;
}

const void *remote_part(const JoinTable *view, int number)
{
    const Remote *remote = view->remote;
    for (int p = 0; p < remote->n_parts; p++)
        if (remote->parts[p].number == number) return remote->parts[p].here;
    return NULL;
}
