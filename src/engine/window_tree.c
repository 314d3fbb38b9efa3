// window_tree.c - the least key of any frame: a tree over the places, each node the lesser of the two below it.
//
// keys[n + i] is place i's, keys[k] the lesser of keys[2k] and keys[2k + 1].  A stretch of places is covered by at most
// two nodes of each level.  The order of minimum does not matter, so n need not be a power of two.

#include "engine/window.h"

typedef struct TreeLevel { MinTree *tree; u64 first; } TreeLevel;

weft_status tree_room(const WindowMemory *memory, u64 n, MinTree *tree)
{
    tree->n = n;
    return memory->alloc(memory->context, (2 * n + 2) * sizeof *tree->keys, (void **)&tree->keys);
}

static void build_nodes(void *context, int part, u64 first, u64 end)
{
    const TreeLevel *level = context;
    u64             *keys = level->tree->keys;
    for (u64 k = level->first + first; k < level->first + end; k++) keys[k] = MIN_OF(keys[2 * k], keys[2 * k + 1]);
}

// Nodes from half of END on need only nodes from END on.
bool tree_build(const Team *team, MinTree *tree)
{
    for (u64 end = tree->n; end > 1;) {
        const u64      first = (end + 1) / 2;
        TreeLevel      level = { tree, first };
        const RowParts parts = team_split(team, end - first);
        if (!team_rows(team, &parts, build_nodes, &level)) return false;
        end = first;
    }
    return true;
}

u64 tree_least(const MinTree *tree, const Stretches *frame)
{
    u64 least = UINT64_MAX;
    for (int s = 0; s < frame->n; s++)
        for (u64 l = tree->n + frame->list[s].first, r = tree->n + frame->list[s].end; l < r; l /= 2, r /= 2) {
            if (l & 1) least = MIN_OF(least, tree->keys[l]), l++;
            if (r & 1) r--, least = MIN_OF(least, tree->keys[r]);
        }
    return least;
}
