// trees.c - parse trees of the queries that came last, found again by the shape of their text.
//
// Programs ask the same few queries over and over, often with other constants, and reading a text takes longer than the
// rest of binding: libpg_query parses, writes its tree as protobuf, and that is read back.  So the trees of queries are
// kept by shape (shape.c), and filled in with the constants and places of the text at hand (fill.c).  The least
// recently used goes first:
//
//     key ── hash ──> bucket ─> tree ─> tree         lists through next_same
//                                 └─> tree ─> tree   more of the same key, through next_spare
//     newest <─> tree <─> ... <─> tree <─> oldest    the order in which they go, with their spares
//
// A tree says only what the text says.  Binding is done anew each time, so a table that was made or dropped since is
// seen, and nothing that a value decides is taken from another text.
// Filling in changes a tree, so it has one user at a time: who finds it takes it out, and puts it back by releasing it.
// Threads that want the same shape at once get a tree each, the first time by parsing; up to SPARES_MOST are kept.
//
// One cache for the process, as with the workers: a tree knows no database.  Kept are only queries (an INSERT is not
// asked twice, and would push out many), of short text, and shallow: those can be bound on whatever stack the caller
// has.

#include "sql/sql_int.h"

enum {
    N_BUCKETS = 512,
    TREES_MOST = 256,
    SPARES_MOST = 32,
    BYTES_MOST = 16 << 20,
    TREE_BYTES_MOST = 1 << 20
};

struct ParseTree {
    PgQuery__ParseResult *result;
    Arena      *arena;                 // of all this
    size_t      bytes;                 // that were asked of the arena
    TreeFields *fields;                // NULL: it is not kept.  From here on: once it may be kept
    const char *key;
    size_t      key_length;
    u64         hash;
    ParseTree  *next_same;             // of its bucket
    ParseTree  *next_spare;            // of the same key
    int         n_spares;
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
    tree->result = pg_query__parse_result__unpack(&allocator, length, packed);
    if (tree->result) return tree;
    arena_free(arena);
    return NULL;
}

const PgQuery__ParseResult *tree_result(const ParseTree *tree)
{
    return tree->result;
}

static void free_with_spares(ParseTree *tree)
{
    while (tree) {
        ParseTree *next = tree->next_spare;
        arena_free(tree->arena);
        tree = next;
    }
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

static void count_tree(const ParseTree *tree, int sign)
{
    counts.n_trees += sign;
    counts.bytes = sign > 0 ? counts.bytes + tree->bytes : counts.bytes - tree->bytes;
}

static bool has_key(const ParseTree *tree, const char *key, size_t length, u64 hash)
{
    return tree->hash == hash && tree->key_length == length && memcmp(tree->key, key, length) == 0;
}

// Trees of one key differ in literals that are fixed.
static ParseTree **find_suited(const TextShape *shape)
{
    ParseTree **place = &buckets[shape->hash % N_BUCKETS];
    while (*place && !(has_key(*place, shape->key, shape->key_length, shape->hash) &&
                       fields_suit((*place)->fields, shape)))
        place = &(*place)->next_same;
    return place;
}

static ParseTree **find_equal(const ParseTree *tree)
{
    ParseTree **place = &buckets[tree->hash % N_BUCKETS];
    while (*place && !(has_key(*place, tree->key, tree->key_length, tree->hash) &&
                       fields_equal((*place)->fields, tree->fields)))
        place = &(*place)->next_same;
    return place;
}

static void take_out(ParseTree **place)
{
    ParseTree *tree = *place;
    *place = tree->next_same;
    unlink_tree(tree);
}

// A spare, so that the first one keeps its place in the lists; or the only one.
static ParseTree *take_one(ParseTree **place)
{
    ParseTree *first = *place, *tree = first->next_spare;
    if (tree) {
        first->next_spare = tree->next_spare;
        first->n_spares--;
        unlink_tree(first);
        link_newest(first);
    } else {
        take_out(place);
        tree = first;
    }
    tree->next_spare = NULL;
    count_tree(tree, -1);
    return tree;
}

static void drop_oldest(ParseTree **dropped)
{
    ParseTree  *tree = oldest;
    ParseTree **place = &buckets[tree->hash % N_BUCKETS];
    while (*place != tree) place = &(*place)->next_same;
    take_out(place);
    for (const ParseTree *t = tree; t; t = t->next_spare) count_tree(t, -1);
    tree->next_same = *dropped;
    *dropped = tree;
}

// True: it is in the lists, and no longer the caller's.
static bool put_back(ParseTree *tree)
{
    ParseTree **place = find_equal(tree), *first = *place;
    if (first && first->n_spares == SPARES_MOST) return false;
    tree->next_spare = tree->next_same = NULL;
    tree->n_spares = 0;
    if (first) {
        tree->next_spare = first->next_spare;
        first->next_spare = tree;
        first->n_spares++;
        unlink_tree(first);
        link_newest(first);
    } else {
        *place = tree;
        link_newest(tree);
    }
    count_tree(tree, 1);
    return true;
}

// ---- the cache ------------------------------------------------------------------------------------------------------

ParseTree *tree_find(const TextShape *shape)
{
    if (shape->length > TREE_TEXT_BYTES_MOST) return NULL;
    pthread_once(&once, set_up);
    lock();
    ParseTree **place = find_suited(shape), *tree = *place ? take_one(place) : NULL;
    *(tree ? &counts.n_found : &counts.n_missed) += 1;
    unlock();
    if (tree) tree->bytes += fields_fill(tree->arena, tree->fields, shape);
    return tree;
}

static bool is_query(const PgQuery__ParseResult *result)
{
    return result->n_stmts == 1 && result->stmts[0]->stmt &&
           result->stmts[0]->stmt->node_case == PG_QUERY__NODE__NODE_SELECT_STMT;
}

void tree_keep(ParseTree *tree, const TextShape *shape, bool is_exact)
{
    if (shape->length > TREE_TEXT_BYTES_MOST || tree->bytes > TREE_BYTES_MOST || !is_query(tree->result)) return;
    tree->hash = shape->hash;
    tree->key_length = shape->key_length;
    tree->key = arena_strndup(tree->arena, shape->key, shape->key_length);
    tree->fields = tree_fields(tree->arena, tree->result, shape, is_exact);
    tree->bytes += shape->key_length + fields_bytes(tree->fields);
}

void tree_release(ParseTree *tree)
{
    ParseTree *dropped = NULL;
    if (tree && tree->fields && tree->bytes <= TREE_BYTES_MOST) {
        pthread_once(&once, set_up);
        lock();
        if (put_back(tree)) tree = NULL;
        while (counts.n_trees > TREES_MOST || counts.bytes > BYTES_MOST) drop_oldest(&dropped);
        unlock();
    }
    free_with_spares(tree);
    while (dropped) {
        ParseTree *next = dropped->next_same;
        free_with_spares(dropped);
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
