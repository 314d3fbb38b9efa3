// pages.c - blocks of 64 KiB to 8 MiB, cut from huge pages that they share.
//
// The first touch of a page is dear, up to 4 us on a virtual machine, and a block of 3 MiB has 768 small ones: the
// first run of a query spent more time with them than with its rows.  A huge page is cleared as a whole, ten times as
// quickly.
//
//     region, 64 MiB   [books][ block ][ free ][    block    ][ free ]|[ never touched, so zero ..................]
//                      units of 16 KiB, 128 of them a huge page       n_touched
//
// A block goes to the first place that is long enough, so memory that was touched is used before memory that was not.
// What is freed is kept for the next block, KEPT_MOST of it in all regions; beyond that, huge pages without a block go
// back to the system, and regions without a block as a whole.

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base_int.h"

#define UNIT        ((size_t)16 << 10)
#define REGION      ((size_t)64 << 20)
#define HUGE_PAGE   ((size_t)2 << 20)
#define KEPT_MOST   ((size_t)32 << 20)

enum {
    N_UNITS = REGION / UNIT, PAGE_UNITS = HUGE_PAGE / UNIT, N_PAGES = N_UNITS / PAGE_UNITS, WORD = 64,
    PAGE_WORDS = PAGE_UNITS / WORD,
};

// At the beginning of its memory, so that it is found from the address of a block.
typedef struct PageRegion {
    struct PageRegion *next, **link;   // link: the pointer to this one
    int  n_blocks;
    int  longest;                      // no free place is longer
    int  n_touched;                    // units from here on are zero
    u64  used[N_UNITS / WORD];         // a bit for each unit
    bool is_back[N_PAGES];             // the system has it back, though it was touched: it is zero, and takes no memory
} PageRegion;

_Static_assert(sizeof(PageRegion) <= UNIT, "the first unit has the books");
_Static_assert(PAGES_MOST <= REGION / 2, "a region has room for several blocks");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    // for all below, and for the books of regions
static PageRegion     *regions;
static size_t          n_kept;         // units that are free, were touched and take memory

// ---- regions --------------------------------------------------------------------------------------------------------

void *pages_map(size_t bytes, size_t alignment)
{
    u8 *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if ((uintptr_t)memory % alignment == 0)
        return memory;
    munmap(memory, bytes);
    memory = mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    const size_t before = (alignment - (uintptr_t)memory % alignment) % alignment;
    if (before)
        munmap(memory, before);
    munmap(memory + before + bytes, alignment - before);
    ASSERT((uintptr_t)(memory + before) % alignment == 0);
    return memory + before;
}

static void set_used(PageRegion *region, int first, int n, bool is_used)
{
    for (int u = first; u < first + n; u++) {
        const u64 bit = (u64)1 << u % WORD;
        ASSERT(!(region->used[u / WORD] & bit) == is_used);
        region->used[u / WORD] ^= bit;
    }
}

// Behind all others: their memory is used first.
static PageRegion *new_region(void)
{
    PageRegion *region = pages_map(REGION, REGION), **link = &regions;
    if (!region)
        return NULL;
    (void)madvise(region, REGION, MADV_HUGEPAGE);           // a wish; kernels without huge pages refuse it
    while (*link)
        link = &(*link)->next;
    region->link = link;
    *link = region;
    region->longest = N_UNITS - 1;
    region->n_touched = 1;
    set_used(region, 0, 1, true);
    return region;
}

static void free_region(PageRegion *region)
{
    for (int p = 0; p < N_PAGES; p++)
        n_kept -= region->is_back[p] ? 0 : (size_t)MAX_OF(MIN_OF(region->n_touched - p * PAGE_UNITS, PAGE_UNITS), 0);
    n_kept++;                                               // the books were never kept
    *region->link = region->next;
    if (region->next)
        region->next->link = region->link;
    munmap(region, REGION);
}

// ---- taking ---------------------------------------------------------------------------------------------------------

// The first of N free units side by side, or -1.
static int find_place(const PageRegion *region, int n)
{
    int first = 0, u = 0;
    while (u < N_UNITS) {
        const u64 rest = region->used[u / WORD] >> u % WORD;
        u += rest ? __builtin_ctzll(rest) : WORD - u % WORD;
        if (u - first >= n)
            return first;
        while (u < N_UNITS && region->used[u / WORD] >> u % WORD & 1) {
            const u64 free_here = ~region->used[u / WORD] >> u % WORD;
            u += free_here ? __builtin_ctzll(free_here) : WORD - u % WORD;
            first = u;
        }
    }
    return -1;
}

// Gives the number of units at the beginning that have to be cleared.
static int take_units(PageRegion *region, int first, int n)
{
    const int n_before = MAX_OF(MIN_OF(region->n_touched - first, n), 0);
    for (int p = first / PAGE_UNITS; p <= (first + n - 1) / PAGE_UNITS; p++)
        if (region->is_back[p]) {
            region->is_back[p] = false;
            n_kept += PAGE_UNITS;
        }
    set_used(region, first, n, true);
    ASSERT(n_kept >= (size_t)n_before && first <= region->n_touched);
    n_kept -= (size_t)n_before;
    region->n_touched = MAX_OF(region->n_touched, first + n);
    region->n_blocks++;
    return n_before;
}

static PageRegion *find_region(int n, int *first)
{
    for (PageRegion *region = regions; region; region = region->next) {
        if (region->longest < n)
            continue;
        if ((*first = find_place(region, n)) >= 0)
            return region;
        region->longest = n - 1;
    }
    *first = 1;
    return new_region();
}

// Not under a memory checker, which must see blocks freed; nor where the system's pages are longer than a unit.
bool pages_take(size_t bytes)
{
    return !MEMORY_IS_WATCHED && bytes >= PAGES_LEAST && bytes < PAGES_MOST && (size_t)sysconf(_SC_PAGESIZE) <= UNIT;
}

static int units_of(size_t bytes) { return (int)((bytes + UNIT - 1) / UNIT); }

void *pages_alloc(size_t bytes)
{
    const int n = units_of(bytes);
    int first, n_dirty = 0;
    ASSERT(pages_take(bytes));
    pthread_mutex_lock(&lock);
    PageRegion *region = find_region(n, &first);
    if (region)
        n_dirty = take_units(region, first, n);
    pthread_mutex_unlock(&lock);
    if (!region)
        return NULL;
    u8 *memory = (u8 *)region + (size_t)first * UNIT;
    memset(memory, 0, MIN_OF((size_t)n_dirty * UNIT, bytes));
    return memory;
}

// ---- giving back ----------------------------------------------------------------------------------------------------

static bool is_page_free(const PageRegion *region, int page)
{
    for (int w = page * PAGE_WORDS; w < (page + 1) * PAGE_WORDS; w++)
        if (region->used[w])
            return false;
    return (page + 1) * PAGE_UNITS <= region->n_touched && !region->is_back[page];
}

static void give_back_pages(PageRegion *region, int first, int n)
{
    for (int p = first / PAGE_UNITS; p <= (first + n - 1) / PAGE_UNITS; p++)
        if (is_page_free(region, p) && madvise((u8 *)region + (size_t)p * HUGE_PAGE, HUGE_PAGE, MADV_DONTNEED) == 0) {
            region->is_back[p] = true;
            n_kept -= PAGE_UNITS;
        }
}

void pages_free(void *memory, size_t bytes)
{
    PageRegion *region = (PageRegion *)((uintptr_t)memory & ~(uintptr_t)(REGION - 1));
    const int first = (int)(((u8 *)memory - (u8 *)region) / UNIT), n = units_of(bytes);
    pthread_mutex_lock(&lock);
    ASSERT(region->n_blocks > 0 && first > 0 && first + n <= region->n_touched);
    set_used(region, first, n, false);
    region->longest = N_UNITS - 1;
    region->n_blocks--;
    n_kept += (size_t)n;
    if (n_kept * UNIT > KEPT_MOST && !region->n_blocks)
        free_region(region);
    else if (n_kept * UNIT > KEPT_MOST)
        give_back_pages(region, first, n);
    pthread_mutex_unlock(&lock);
}
