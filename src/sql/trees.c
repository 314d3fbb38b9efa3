// trees.c - parse trees of the queries that came last, found again by their text.
//
// Programs ask the same few texts over and over, and reading one takes longer than the rest of binding: libpg_query
// parses, writes its tree as protobuf, and that is read back.  So the trees of queries are kept; the least recently
// used goes first:
//
//     text ── hash ──> bucket ─> tree ─> tree        lists through next_same
//     newest <─> tree <─> ... <─> tree <─> oldest    the order in which they go
//
// A tree says only what the text says.  Binding is done anew each time, so a table that was made or dropped since is
// seen.  Trees are never changed after they are made, so any number of threads may bind one at a time; who binds holds
// it, and one that was pushed out meanwhile is freed by the last to release it.
//
// One cache for the process, as with the workers: a tree knows no database.  Kept are only queries (an INSERT is not
// asked twice, and would push out many), of short text, and shallow: those can be bound on whatever stack the caller
// has.

#include "sql/sql_int.h"

enum {
    N_BUCKETS = 512,
    TREES_MOST = 256,
    BYTES_MOST = 16 << 20,
    TREE_BYTES_MOST = 1 << 20,
    TEXT_BYTES_MOST = 64 << 10
};

struct ParseTree {
    const PgQuery__ParseResult *result;
    Arena      *arena;                 // of all this
    size_t      bytes;                 // that were asked of the arena
    _Atomic int n_users;               // the cache is one
    const char *text;                  // from here on: once it is in the cache
    size_t      length;
    u64         hash;
    ParseTree  *next_same;             // of its bucket
    ParseTree  *newer, *older;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards all below and the lists of all trees
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static ParseTree      *buckets[N_BUCKETS];
static ParseTree      *newest, *oldest;
static TreeCounts      counts;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
static void set_up(void) { pthread_atfork(lock, unlock, unlock); }             // a child finds the lists whole

// ---- a tree ---------------------------------------------------------------------------------------------------------

static void *tree_alloc(void *context, size_t bytes)
{
    ParseTree *tree = context;
    tree->bytes += bytes;
    return arena_alloc(tree->arena, bytes);
}

static void tree_free(void *context, void *memory)
{
    (void)context, (void)memory;                            // the arena does, without recursion
}

ParseTree *tree_unpack(const void *packed, size_t length)
{
    Arena             *arena = arena_new(NULL, "parse tree");
    ParseTree         *tree = arena_make(arena, ParseTree);
    ProtobufCAllocator allocator = { tree_alloc, tree_free, tree };
    tree->arena = arena;
    tree->bytes = sizeof *tree;
    atomic_init(&tree->n_users, 1);
    tree->result = pg_query__parse_result__unpack(&allocator, length, packed);
    if (tree->result) return tree;
    arena_free(arena);
    return NULL;
}

const PgQuery__ParseResult *tree_result(const ParseTree *tree)
{
    return tree->result;
}

void tree_release(ParseTree *tree)
{
    if (tree && atomic_fetch_sub(&tree->n_users, 1) == 1) arena_free(tree->arena);
}

// ---- the lists, with the mutex held ---------------------------------------------------------------------------------

static void link_newest(ParseTree *tree)
{
    tree->newer = NULL;
    tree->older = newest;
    *(newest ? &newest->newer : &oldest) = tree;
    newest = tree;
}

static void unlink_tree(ParseTree *tree)
{
    *(tree->newer ? &tree->newer->older : &newest) = tree->older;
    *(tree->older ? &tree->older->newer : &oldest) = tree->newer;
}

static ParseTree **find_place(const char *text, size_t length, u64 hash)
{
    ParseTree **place = &buckets[hash % N_BUCKETS];
    while (*place && ((*place)->hash != hash || (*place)->length != length ||
                      memcmp((*place)->text, text, length) != 0))
        place = &(*place)->next_same;
    return place;
}

static void drop_oldest(ParseTree **dropped)
{
    ParseTree *tree = oldest;
    *find_place(tree->text, tree->length, tree->hash) = tree->next_same;
    unlink_tree(tree);
    counts.n_trees--;
    counts.bytes -= tree->bytes;
    tree->next_same = *dropped;
    *dropped = tree;
}

// ---- the cache ------------------------------------------------------------------------------------------------------

ParseTree *tree_find(const char *text, size_t length)
{
    if (length > TEXT_BYTES_MOST) return NULL;
    const u64 hash = hash_bytes(text, length);
    pthread_once(&once, set_up);
    lock();
    ParseTree *tree = *find_place(text, length, hash);
    if (tree) {
        unlink_tree(tree);
        link_newest(tree);
        atomic_fetch_add(&tree->n_users, 1);
    }
    *(tree ? &counts.n_found : &counts.n_missed) += 1;
    unlock();
    return tree;
}

static bool is_query(const PgQuery__ParseResult *result)
{
    return result->n_stmts == 1 && result->stmts[0]->stmt &&
           result->stmts[0]->stmt->node_case == PG_QUERY__NODE__NODE_SELECT_STMT;
}

void tree_keep(ParseTree *tree, const char *text, size_t length)
{
    ParseTree *dropped = NULL;
    if (length > TEXT_BYTES_MOST || tree->bytes + length > TREE_BYTES_MOST || !is_query(tree->result)) return;
    tree->hash = hash_bytes(text, length);
    tree->text = arena_strndup(tree->arena, text, length);
    tree->length = length;
    tree->bytes += length + 1;
    pthread_once(&once, set_up);
    lock();
    ParseTree **place = find_place(text, length, tree->hash);
    if (!*place) {                                          // else another thread was sooner
        *place = tree;
        link_newest(tree);
        atomic_fetch_add(&tree->n_users, 1);
        counts.n_trees++;
        counts.bytes += tree->bytes;
        while (counts.n_trees > TREES_MOST || counts.bytes > BYTES_MOST) drop_oldest(&dropped);
    }
    unlock();
    while (dropped) {
        ParseTree *next = dropped->next_same;
        tree_release(dropped);
        dropped = next;
    }
}

TreeCounts tree_counts(void)
{
    lock();
    const TreeCounts now = counts;
    unlock();
    return now;
}
