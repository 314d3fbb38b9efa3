// dict_notes.c - what was worked out from the texts of a dictionary, kept with it.
//
// A query may look at one function of a text column in several pipelines, and dashboards ask the same again and again.
// Like ranks, such a table depends on nothing but texts, which never change.  A dictionary keeps 64 MiB of them, or a
// 256th of the budget's limit where that is more: a machine with more memory has columns of more texts.  The ones that
// were not used for longest go first.  They count against the budget, and take no more than the first half of it.

#include "store/store_int.h"

enum { NOTES_LEAST = 64 << 20, NOTES_SHARE = 256 };

typedef struct KeptNote {
    DictNote         note;             // first: what others see
    struct KeptNote *next;             // used before it
    int              n_holds;
    u32              count;
    size_t           length;           // of the key, which lies behind the note's bytes
    u64              size;             // of this struct and what follows
} KeptNote;

void notes_init(DictNotes *notes, Budget *budget, void (*release)(Dictionary *made))
{
    *notes = (DictNotes){ .budget = budget, .release = release };
    pthread_mutex_init(&notes->lock, NULL);
}

static void drop(DictNotes *notes, KeptNote *kept)
{
    notes->release(kept->note.made);
    mem_free(notes->budget, kept, kept->size);
}

void notes_free(DictNotes *notes)
{
    for (KeptNote *kept = notes->newest, *next; kept; kept = next) {
        next = kept->next;
        ASSERT(kept->n_holds == 0);
        drop(notes, kept);
    }
    pthread_mutex_destroy(&notes->lock);
}

static const char *key_of(const KeptNote *kept)
{
    return (const char *)kept->note.bytes + kept->note.n_bytes;
}

// Moved to the front.
static KeptNote *find(DictNotes *notes, u32 count, const void *key, size_t length)
{
    ASSERT(mutex_is_held(&notes->lock));
    for (KeptNote **link = &notes->newest; *link; link = &(*link)->next) {
        KeptNote *kept = *link;
        if (kept->count != count || kept->length != length || memcmp(key_of(kept), key, length) != 0)
            continue;
        *link = kept->next;
        kept->next = notes->newest;
        notes->newest = kept;
        return kept;
    }
    return NULL;
}

const DictNote *notes_find(DictNotes *notes, u32 count, const void *key, size_t length)
{
    pthread_mutex_lock(&notes->lock);
    KeptNote *kept = find(notes, count, key, length);
    if (kept)
        kept->n_holds++;
    pthread_mutex_unlock(&notes->lock);
    return kept ? &kept->note : NULL;
}

void notes_release(DictNotes *notes, const DictNote *note)
{
    KeptNote *kept = (KeptNote *)(uintptr_t)note;
    pthread_mutex_lock(&notes->lock);
    ASSERT(kept->n_holds > 0);
    kept->n_holds--;
    pthread_mutex_unlock(&notes->lock);
}

// ---- keeping -------------------------------------------------------------------------------------------------------

static u64 most_bytes(const Budget *budget)
{
    const i64 limit = budget ? budget->limit : 0;
    return (u64)MAX_OF((i64)NOTES_LEAST, limit / NOTES_SHARE);
}

static KeptNote *make_note(Budget *budget, u32 count, const void *key, size_t length, DictNote note)
{
    const u64 begin = aligned(sizeof(KeptNote)), size = begin + note.n_bytes + length;
    void *memory;
    if (size > most_bytes(budget) || (budget && budget->limit > 0 && budget->used + (i64)size > budget->limit / 2) ||
        mem_alloc(budget, size, &memory, NULL))
        return NULL;
    KeptNote *kept = memory;
    u8 *bytes = (u8 *)memory + begin;
    memcpy(bytes, note.bytes, note.n_bytes);
    memcpy(bytes + note.n_bytes, key, length);
    *kept = (KeptNote){ .note = note, .count = count, .length = length, .size = size };
    kept->note.bytes = bytes;
    return kept;
}

// Takes the oldest notes that are not held out of the list until there is room.  The caller drops them.
static KeptNote *make_room(DictNotes *notes, u64 size, u64 most)
{
    KeptNote *out = NULL;
    while (notes->bytes + size > most) {
        KeptNote **oldest = NULL;
        for (KeptNote **link = &notes->newest; *link; link = &(*link)->next)
            if ((*link)->n_holds == 0)
                oldest = link;
        if (!oldest)
            break;
        KeptNote *kept = *oldest;
        *oldest = kept->next;
        notes->bytes -= kept->size;
        kept->next = out;
        out = kept;
    }
    return out;
}

// Puts the note into the list, or among those to drop: another thread was quicker, or all others are held.
static KeptNote *put(DictNotes *notes, KeptNote *kept)
{
    ASSERT(mutex_is_held(&notes->lock));
    const u64  most = most_bytes(notes->budget);
    const bool is_known = find(notes, kept->count, key_of(kept), kept->length) != NULL;
    KeptNote *out = is_known ? NULL : make_room(notes, kept->size, most);
    const bool is_kept = !is_known && notes->bytes + kept->size <= most;
    KeptNote **list = is_kept ? &notes->newest : &out;
    kept->next = *list;
    *list = kept;
    notes->bytes += is_kept ? kept->size : 0;
    return out;
}

void notes_put(DictNotes *notes, u32 count, const void *key, size_t length, DictNote note)
{
    KeptNote *kept = make_note(notes->budget, count, key, length, note);
    if (!kept) {
        notes->release(note.made);
        return;
    }
    pthread_mutex_lock(&notes->lock);
    KeptNote *out = put(notes, kept);
    pthread_mutex_unlock(&notes->lock);
    for (KeptNote *next; out; out = next) {
        next = out->next;
        drop(notes, out);
    }
}
