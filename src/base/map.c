// map.c - bytes to a number (or a pointer in a number).
//
// Open addressing with linear probing over slots that remember the whole hash, so a key is compared only when its 64
// bits agree, and growing never hashes again.  At most 3/4 full.  There is no delete: maps here live as long as a query
// or a catalog snapshot and are rebuilt, not edited.

#include <stdlib.h>

#define XXH_INLINE_ALL                                      // keys are short: a call would cost more than the hash
#include <xxhash.h>

#include "base/base_int.h"

enum { SLOTS_MIN = 16 };

typedef struct Slot {
    const void *key;                                        // in the arena; NULL: the slot is empty
    size_t      length;
    u64         hash, value;
} Slot;

struct Map {
    Arena *arena;
    Slot  *slots;                                           // the first ones in the arena, for many maps stay small;
                                                            // then from malloc, so that growing returns the old ones
    size_t n_slots;                                         // a power of two
    size_t n_used;
};

u64 hash_bytes(const void *bytes, size_t length)
{
    return length < HASH_LONG ? XXH3_64bits(length ? bytes : "", length) : hash_long(bytes, length);
}

static void free_slots(void *context)
{
    Map *map = context;
    free(map->slots);
}

Map *map_new(Arena *arena)
{
    Map *map = arena_make(arena, Map);
    map->arena = arena;
    map->n_slots = SLOTS_MIN;
    map->slots = arena_array(arena, Slot, map->n_slots);
    return map;
}

// The key's slot, or the empty one where it belongs.
static Slot *find_slot(const Map *map, const void *key, size_t length, u64 hash)
{
    for (size_t i = hash & (map->n_slots - 1);; i = (i + 1) & (map->n_slots - 1)) {
        Slot *slot = &map->slots[i];
        if (!slot->key)
            return slot;
        if (slot->hash == hash && slot->length == length && (length == 0 || memcmp(slot->key, key, length) == 0))
            return slot;
    }
}

static void grow(Map *map)
{
    Slot *old = map->slots;
    size_t n_old = map->n_slots;
    ASSERT((n_old & (n_old - 1)) == 0);
    map->n_slots = n_old * 2;
    map->slots = small_alloc(sizeof(Slot) * map->n_slots);
    for (size_t i = 0; i < n_old; i++) {
        if (!old[i].key)
            continue;
        size_t to = old[i].hash & (map->n_slots - 1);
        while (map->slots[to].key)
            to = (to + 1) & (map->n_slots - 1);
        map->slots[to] = old[i];
    }
    if (n_old > SLOTS_MIN)
        free(old);
    else
        arena_defer(map->arena, free_slots, map);
}

bool map_get(const Map *map, const void *key, size_t length, u64 *value)
{
    const Slot *slot = find_slot(map, key, length, hash_bytes(key, length));
    if (!slot->key)
        return false;
    if (value)
        *value = slot->value;
    return true;
}

void map_set(Map *map, const void *key, size_t length, u64 value)
{
    u64 hash = hash_bytes(key, length);
    Slot *slot = find_slot(map, key, length, hash);
    if (!slot->key) {
        if (map->n_used + 1 > map->n_slots / 4 * 3) {
            grow(map);
            slot = find_slot(map, key, length, hash);
        }
        *slot = (Slot){ arena_strndup(map->arena, key, length), length, hash, 0 };
        map->n_used++;
        ASSERT(map->n_used < map->n_slots);                 // else a search for another key would never end
    }
    slot->value = value;
}

int map_count(const Map *map)
{
    return (int)map->n_used;
}
