// memory.c - large memory: columns, tables, sums.  Counted against a budget, and allowed to fail.
//
// From 64 KiB on, blocks share huge pages (pages.c), and some of what is freed is kept for the next query.  From 8 MiB
// on they have huge pages of their own, straight from the system: fresh pages are zero already and go back at once when
// freed, where malloc would keep them.  Scans and hash tables live on TLB hits, and the first touch of a page is dear.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>

#include "base/base_int.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

#define HUGE_PAGE (2 * MIB)

enum { ALIGNMENT = 64 };

bool mem_has_own_pages(size_t bytes)
{
    return bytes >= 1 * MIB;
}

static size_t rounded(size_t bytes)
{
    return (MAX_OF(bytes, 1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static void note_most(Budget *budget, i64 used)
{
    i64 most = atomic_load_explicit(&budget->most, memory_order_relaxed);
    while (most < used && !atomic_compare_exchange_weak(&budget->most, &most, used))
        continue;
}

static bool take_here(Budget *budget, i64 bytes)
{
    i64 used = budget->used;
    i64 limit = budget->limit;
    do {
        if (limit > 0 && (used > limit || bytes > limit - used))
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    note_most(budget, used + bytes);
    return true;
}

// What is small is not worth a file: a query that spills gets some of it beyond the limit.
#define FILE_LEAST  ((i64)64 << 10)
#define BEYOND_MOST ((i64)1 << 20)

static bool take_beyond(Budget *budget, i64 bytes)
{
    if (bytes >= FILE_LEAST || atomic_load(&budget->used) > atomic_load(&budget->limit) + BEYOND_MOST)
        return false;
    for (; budget; budget = budget->parent)
        note_most(budget, atomic_fetch_add(&budget->used, bytes) + bytes);
    return true;
}

// The parent's count first: another thread that sees 0 in use here may reuse the budget, so this count is touched last,
// and giving back nothing touches none.
static void budget_give(Budget *budget, i64 bytes)
{
    if (bytes == 0)
        return;
    if (budget->parent)
        budget_give(budget->parent, bytes);
    const i64 before = atomic_fetch_sub(&budget->used, bytes);
    ASSERT(bytes > 0 && before >= bytes);
    (void)before;
}

static bool budget_take(Budget *budget, i64 bytes)
{
    if (budget->parent && !budget_take(budget->parent, bytes))
        return false;
    if (take_here(budget, bytes))
        return true;
    if (budget->parent)
        budget_give(budget->parent, bytes);
    return false;
}

bool mem_fits(const Budget *budget, i64 bytes)
{
    for (; budget; budget = budget->parent) {
        const i64 limit = budget->limit;
        if (limit > 0 && bytes > limit - budget->used)
            return false;
    }
    return true;
}

weft_status mem_alloc_in_file(Budget *budget, size_t bytes, void **out, Error *err)
{
    TRY(temp_alloc(budget->temp, bytes, out, err));
    atomic_fetch_add(&budget->temp_bytes, (i64)bytes);
    atomic_fetch_add(&budget->n_temp_files, 1);
    return WEFT_OK;
}

static weft_status fail_budget(const Budget *budget, size_t bytes, Error *err)
{
    while (budget->parent && budget->limit == 0)
        budget = budget->parent;
    long long used = budget->used, limit = budget->limit;
    weft_status status = fail(err, WEFT_OUT_OF_MEMORY, -1,
                              "memory_limit reached: %zu KiB more wanted, %lld of %lld KiB in use",
                              (bytes + 1023) / 1024, used / 1024, limit / 1024);
    error_hint(err, "Raise it with SET memory_limit, or run fewer queries at once.");
    return status;
}

static size_t mapped_bytes(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

static void *alloc_mapped(size_t bytes)
{
    void *memory = pages_map(mapped_bytes(bytes), HUGE_PAGE);
    if (memory)
        (void)madvise(memory, mapped_bytes(bytes), MADV_HUGEPAGE);  // a wish; kernels without huge pages refuse it
    return memory;
}

static void *alloc_small(size_t bytes)
{
    void *memory = aligned_alloc(ALIGNMENT, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static void *alloc_any(size_t bytes)
{
    if (pages_take(bytes))
        return pages_alloc(bytes);
    return mem_has_own_pages(bytes) ? alloc_mapped(bytes) : alloc_small(rounded(bytes));
}

static void free_any(void *memory, size_t bytes)
{
    if (pages_take(bytes))
        pages_free(memory, bytes);
    else if (mem_has_own_pages(bytes))
        munmap(memory, mapped_bytes(bytes));
    else
        free(memory);
}

weft_status mem_alloc(Budget *budget, size_t bytes, void **out, Error *err)
{
    *out = NULL;
    if (bytes > PTRDIFF_MAX - ALIGNMENT)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: %zu bytes wanted", bytes);
    if (budget && !budget_take(budget, (i64)bytes)) {
        atomic_store(&budget->was_refused, true);
        if (!budget->temp)
            return fail_budget(budget, bytes, err);
        if (!take_beyond(budget, (i64)bytes))
            return mem_alloc_in_file(budget, bytes, out, err);
    }
    void *memory = NULL;
    if (!fault_now(FAULT_MEMORY))
        memory = alloc_any(bytes);
    if (!memory) {
        if (budget)
            budget_give(budget, (i64)bytes);
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: the system refused %zu KiB", (bytes + 1023) / 1024);
    }
    *out = memory;
    return WEFT_OK;
}

void mem_free(Budget *budget, void *memory, size_t bytes)
{
    if (!memory || temp_give_back(memory))
        return;
    free_any(memory, bytes);
    if (budget)
        budget_give(budget, (i64)bytes);
}

typedef struct Counted { Budget *budget; void *memory; size_t bytes; } Counted;

static void free_counted(void *context)
{
    Counted *counted = context;
    mem_free(counted->budget, counted->memory, counted->bytes);
}

weft_status counted_alloc(Arena *arena, Budget *budget, size_t bytes, void **out, Error *err)
{
    Counted *counted = arena_make(arena, Counted);
    *counted = (Counted){ .budget = budget, .bytes = bytes };
    TRY(mem_alloc(counted->budget, bytes, &counted->memory, err));
    arena_defer(arena, free_counted, counted);
    *out = counted->memory;
    return WEFT_OK;
}

// ---- sizes as people write them -------------------------------------------------------------------------------------

// "", "b", or a letter with "b", "ib" or nothing behind it; 0 for anything else.
static double factor_of(const char *unit)
{
    static const char letters[] = "kmgt";
    if (!*unit || strcasecmp(unit, "b") == 0)
        return 1;
    const char *letter = strchr(letters, tolower((unsigned char)*unit));
    if (!letter || (unit[1] && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0))
        return 0;
    return (double)((u64)1024 << 10 * (letter - letters));
}

bool mem_parse_size(const char *text, i64 *bytes)
{
    char *unit;
    // Strtod takes signs, inf and 0x10 for numbers, too.
    if ((*text != '.' && !isdigit((unsigned char)*text)) || strpbrk(text, "xX"))
        return false;
    const double number = strtod(text, &unit);
    while (*unit == ' ')
        unit++;
    const double factor = factor_of(unit);
    // Less than a byte would be 0, which means something else.
    if (factor == 0 || !(number * factor < 9e18) || (number > 0 && number * factor < 1))
        return false;
    *bytes = (i64)(number * factor);
    return true;
}

SizeText mem_size_text(u64 bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    SizeText size;
    double number = (double)bytes;
    int unit = 0;
    for (; number >= 1024 && unit < COUNT_OF(units) - 1; unit++)
        number /= 1024;
    const bool is_whole = number == (double)(i64)number;
    snprintf(size.text, sizeof(size.text), is_whole ? "%.0f %s" : "%.1f %s", number, units[unit]);
    return size;
}
