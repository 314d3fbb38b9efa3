// gpu_made.h - join tables and chunks that a GPU made: shared by gpu_made.c, which keeps them, and gpu_table.c, which
// fills them.
//
//     MadeTable *table = made_take(gpu, sizes, n_parts);      // room, counted as admitted
//     ...                                                     // its parts are filled
//     made_keep(gpu, table);                                  // launches find it, or: made_give_up(gpu, table)

#ifndef WEFT_GPU_MADE_H
#define WEFT_GPU_MADE_H

#include "device/gpu_int.h"

typedef struct PartHere {              // see table_part_here
    int              number;
    void            *data;
    u64              bytes;
    Budget          *budget;
    struct PartHere *next;
} PartHere;

struct MadeTable {                     // or a chunk
    u64               id, bytes;
    const void       *owner;           // the query that had it made; only compared
    int               n_waiting;       // launches that probe or read it, and wait for memory
    bool              is_rows;
    int               n_parts;
    Copy            **parts;
    PartHere         *here;            // parts of it in the host's memory, as far as they were asked for
    struct MadeTable *next;
};

typedef struct PartSize { CopyKey key; u64 bytes; } PartSize;

// Under the lock.  NULL: there is no room.
MadeTable *made_take(Gpu *gpu, const PartSize *sizes, int n_parts);
// Whether launches of others would still find room beside tables of OWNER with such parts.  Under the lock.
bool       made_leaves_room(const Gpu *gpu, const void *owner, const PartSize *sizes, int n_parts);
void       made_keep(Gpu *gpu, MadeTable *table);              // until gpu_drop_table or gpu_drop_rows
void       made_give_up(Gpu *gpu, MadeTable *table);           // gives its room back

#endif
