// arena.c - memory with a named lifetime.
//
// An arena hands out pieces of blocks and gives all of them back at once.  Since it also undoes whatever was deferred
// to it, a function may leave early anywhere and leaks nothing:
//
//     session ── query ─┬─ chunk        arena_free(query): deferred calls newest first, then the children
//                       └─ chunk        (newest first too), then the blocks
//
// Blocks double, from 1 KiB to 256 KiB, and are kept for later ones (blocks.c).  A piece that would waste most of the
// next block gets one that fits it; from 32 KiB on, one of its own.  Under AddressSanitizer every piece is a block of
// its own, so that a step past its end is seen.

#include <stdlib.h>

#include "base/base_int.h"

enum { ALIGNMENT = 16, CLASS_NONE = -1, CLASS_PAGES = -2 };

#if defined(__SANITIZE_ADDRESS__)
enum { ONE_BLOCK_EACH = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { ONE_BLOCK_EACH = 1 };
#else
enum { ONE_BLOCK_EACH = 0 };
#endif
#else
enum { ONE_BLOCK_EACH = 0 };
#endif

typedef struct ArenaBlock {
    struct ArenaBlock *older;
    size_t        used, capacity;
    int           class;                                    // of its size; others are for one piece each: CLASS_NONE
                                                            // from small_alloc, CLASS_PAGES from pages_alloc
    _Alignas(16) unsigned char bytes[];
} ArenaBlock;

typedef struct Deferred {
    struct Deferred *older;
    void           (*undo)(void *);
    void            *context;
} Deferred;

struct Arena {
    const char *name;                                       // a literal, for debuggers
    Arena      *parent;
    Arena      *newest_child;
    Arena      *older, *newer;                              // siblings
    ArenaBlock *blocks;                                     // the first one has the free room
    int         next_class;                                 // of the next ordinary block
    Deferred   *deferred;                                   // newest first
};

Arena *arena_new(Arena *parent, const char *name)
{
    ASSERT(name);
    Arena *arena = small_alloc(sizeof(Arena));
    arena->name = name;
    arena->parent = parent;
    if (parent) {
        arena->older = parent->newest_child;
        if (arena->older)
            arena->older->newer = arena;
        parent->newest_child = arena;
    }
    return arena;
}

static void leave_parent(Arena *arena)
{
    ASSERT(!arena->older || arena->older->newer == arena);
    ASSERT(!arena->newer || arena->newer->older == arena);
    ASSERT(arena->newer || !arena->parent || arena->parent->newest_child == arena);
    if (arena->older)
        arena->older->newer = arena->newer;
    if (arena->newer)
        arena->newer->older = arena->older;
    else if (arena->parent)
        arena->parent->newest_child = arena->older;
}

void arena_free(Arena *arena)
{
    if (!arena)
        return;
    // A deferred call may defer another one or free a child, so look at the heads anew each time.
    while (arena->deferred || arena->newest_child) {
        Deferred *deferred = arena->deferred;
        if (deferred) {
            arena->deferred = deferred->older;
            deferred->undo(deferred->context);
        } else {
            arena_free(arena->newest_child);
        }
    }
    ASSERT(!arena->deferred && !arena->newest_child);
    leave_parent(arena);
    while (arena->blocks) {
        ArenaBlock *block = arena->blocks;
        arena->blocks = block->older;
        if (block->class == CLASS_NONE)
            free(block);
        else if (block->class == CLASS_PAGES)
            pages_free(block, sizeof(ArenaBlock) + block->capacity);
        else
            block_give(block, block->class, sizeof(ArenaBlock) + block->used);
    }
    free(arena);
}

static ArenaBlock *block_alone(size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(ArenaBlock))
        out_of_small_memory(bytes);
    const size_t with_head = sizeof(ArenaBlock) + bytes;
    const bool   has_pages = pages_take(with_head);
    ArenaBlock  *block = has_pages ? pages_alloc(with_head) : small_alloc(with_head);
    if (!block)
        out_of_small_memory(bytes);
    block->class = has_pages ? CLASS_PAGES : CLASS_NONE;
    return block;
}

// A block for one piece goes behind the first block, whose room stays in use.
static void *alloc_alone(Arena *arena, size_t bytes)
{
    ArenaBlock *block = block_alone(bytes);
    block->used = block->capacity = bytes;
    if (arena->blocks) {
        block->older = arena->blocks->older;
        arena->blocks->older = block;
    } else {
        arena->blocks = block;
    }
    return block->bytes;
}

static size_t room_of(int class) { return ((size_t)BLOCK_LEAST << class) - sizeof(ArenaBlock); }

static size_t room_left(const ArenaBlock *block) { return block->capacity - block->used; }

static ArenaBlock *block_new(Arena *arena, int class)
{
    ArenaBlock *block = block_take(class);
    block->class = class;
    block->capacity = room_of(class);
    if (class == arena->next_class && class < BLOCK_CLASSES - 1)
        arena->next_class++;
    return block;
}

static void add_block(Arena *arena)
{
    ArenaBlock *block = block_new(arena, arena->next_class);
    block->older = arena->blocks;
    arena->blocks = block;
}

// A piece that would waste most of the next block: in one that it fills by half at least, since the thread may have
// kept one of that size.  The block with more free room goes to the front.  NULL: it is too large.
static void *alloc_large(Arena *arena, size_t bytes)
{
    int class = 0;
    while (class < BLOCK_CLASSES && room_of(class) < bytes)
        class++;
    if (class == BLOCK_CLASSES || pages_take((size_t)BLOCK_LEAST << class))
        return NULL;
    ArenaBlock *block = block_new(arena, class), *first = arena->blocks;
    block->used = bytes;
    const bool is_first = !first || room_left(block) > room_left(first);
    block->older = is_first ? first : first->older;
    if (is_first)
        arena->blocks = block;
    else
        first->older = block;
    return block->bytes;
}

void *arena_alloc(Arena *arena, size_t bytes)
{
    if (bytes > PTRDIFF_MAX)                                // a negative count times a size
        out_of_small_memory(bytes);
    if (ONE_BLOCK_EACH)
        return alloc_alone(arena, bytes);
    bytes = (MAX_OF(bytes, 1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!arena->blocks || room_left(arena->blocks) < bytes) {
        if (bytes > room_of(arena->next_class) / 4) {
            void *large = alloc_large(arena, bytes);
            return large ? large : alloc_alone(arena, bytes);
        }
        add_block(arena);
    }
    void *piece = arena->blocks->bytes + arena->blocks->used;
    arena->blocks->used += bytes;
    ASSERT(arena->blocks->used <= arena->blocks->capacity);
    return piece;
}

char *arena_strndup(Arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}

char *arena_strdup(Arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

// Most texts are short and are formatted once.
char *arena_printf(Arena *arena, const char *format, ...)
{
    char small[256];
    va_list args;
    va_start(args, format);
    const size_t length = format_args(small, sizeof(small), format, args);
    va_end(args);
    if (length < sizeof(small))
        return arena_strndup(arena, small, length);
    char *text = arena_alloc(arena, length + 1);
    va_start(args, format);
    format_args(text, length + 1, format, args);
    va_end(args);
    return text;
}

void arena_defer(Arena *arena, void (*undo)(void *), void *context)
{
    ASSERT(undo);
    Deferred *deferred = arena_make(arena, Deferred);
    *deferred = (Deferred){ arena->deferred, undo, context };
    arena->deferred = deferred;
}

static size_t list_room(int count)
{
    size_t room = count ? 4 : 0;
    while (room < (size_t)count) room *= 2;
    return room;
}

void *list_grow_by(Arena *arena, void *items, int count, int more, size_t item_size)
{
    ASSERT(count >= 0 && more >= 0 && more <= INT32_MAX - count && item_size > 0);
    ASSERT(items || count == 0);
    const size_t room = list_room(count + more);
    if (room == list_room(count)) return items;
    if (item_size > PTRDIFF_MAX / room)
        out_of_small_memory(SIZE_MAX);
    void *grown = arena_alloc(arena, room * item_size);
    if (count > 0)
        memcpy(grown, items, (size_t)count * item_size);
    return grown;
}

// Room is 4, 8, 16, ... items, so it is full exactly when the count is one of these (or 0).
void *list_grow(Arena *arena, void *items, int count, size_t item_size)
{
    const bool is_full = count == 0 || (count >= 4 && (count & (count - 1)) == 0);
    return is_full ? list_grow_by(arena, items, count, 1, item_size) : items;
}
