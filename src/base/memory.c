// memory.c - large memory: columns, tables, sums.  Counted against a budget, and allowed to fail.
//
// From 1 MiB on, memory comes straight from the system: fresh pages are zero already and go back at once when freed,
// where malloc would keep them.  From 4 MiB on we ask for huge pages, since scans and hash tables live on TLB hits.

#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

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

// The parent's first: whoever sees 0 in use here may reuse the budget, so this count is the last to be touched, and giving back nothing
// touches none.
static void budget_give(Budget *budget, i64 bytes)
{
    if (bytes == 0)
        return;
    if (budget->parent)
        budget_give(budget->parent, bytes);
    atomic_fetch_sub(&budget->used, bytes);
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

static void *alloc_mapped(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (bytes >= 4 * MIB)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);        // a wish; kernels without huge pages refuse it
    return memory;
}

static void *alloc_small(size_t bytes)
{
    void *memory = aligned_alloc(ALIGNMENT, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

weft_status mem_alloc(Budget *budget, size_t bytes, void **out, Error *err)
{
    *out = NULL;
    if (bytes > PTRDIFF_MAX - ALIGNMENT)
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "out of memory: %zu bytes wanted", bytes);
    if (budget && !budget_take(budget, (i64)bytes))
        return fail_budget(budget, bytes, err);
    void *memory = NULL;
    if (!fault_now(FAULT_MEMORY))
        memory = mem_has_own_pages(bytes) ? alloc_mapped(bytes) : alloc_small(rounded(bytes));
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
    if (!memory)
        return;
    if (mem_has_own_pages(bytes))
        munmap(memory, bytes);
    else
        free(memory);
    if (budget)
        budget_give(budget, (i64)bytes);
}
