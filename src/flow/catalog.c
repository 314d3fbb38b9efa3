// catalog.c - the topics of a flow, once on each side.
//
// Topics are looked up often and made seldom, so each side reads a replica of its own and the one that makes a topic
// writes both (the paper's read-mostly layer, 4.2).  Rule: an entry is stored before the count that covers it is
// released, it never changes afterwards, and no entry is removed.  So a reader needs no lock: what is below the count
// that it acquired is whole.  Whether a topic has ended is no matter of the catalog but a word of the topic.

#include "flow/flow_int.h"

_Static_assert(sizeof(CatalogEntry) == 128, "two lines of the link");

bool catalog_add(Catalog *catalog, weft_side by, const CatalogEntry *entry)
{
    const u64 number = entry->number;
    if (number >= TOPICS_MAX)
        return false;
    for (int side = 0; side < WEFT_N_SIDES; side++) {
        struct CatalogReplica *replica = &catalog->replicas[side];
        link_store(catalog->link, by, &replica->entries[number], entry, sizeof(*entry));
        link_release(catalog->link, by, &replica->n_entries, number + 1);
    }
    return true;
}

bool catalog_get(Catalog *catalog, weft_side by, u64 number, CatalogEntry *entry)
{
    struct CatalogReplica *replica = &catalog->replicas[by];
    if (number >= link_acquire(catalog->link, by, &replica->n_entries))
        return false;
    link_load(catalog->link, by, entry, &replica->entries[number], sizeof(*entry));
    return true;
}

bool catalog_find(Catalog *catalog, weft_side by, const char *name, CatalogEntry *entry)
{
    for (u64 i = 0; catalog_get(catalog, by, i, entry); i++)
        if (strcmp(entry->name, name) == 0)
            return true;
    return false;
}
