// copy_space.c - large memory of COPY that grows.

#include "store/copy_int.h"

weft_status copy_space_grow(CopySpace *space, size_t capacity, size_t n_kept, Budget *budget, Error *err)
{
    if (capacity <= space->capacity)
        return WEFT_OK;
    void *memory;
    ASSERT(n_kept <= space->capacity);
    TRY(mem_alloc(budget, capacity, &memory, err));
    if (n_kept > 0)
        memcpy(memory, space->bytes, n_kept);
    copy_space_free(space, budget);
    *space = (CopySpace){ memory, capacity };
    return WEFT_OK;
}

weft_status copy_space_reserve(CopySpace *space, size_t capacity, Budget *budget, Error *err)
{
    if (capacity <= space->capacity)
        return WEFT_OK;
    copy_space_free(space, budget);                         // first, so that both are never there at once
    return copy_space_grow(space, capacity, 0, budget, err);
}

void copy_space_free(CopySpace *space, Budget *budget)
{
    mem_free(budget, space->bytes, space->capacity);
    *space = (CopySpace){ 0 };
}

void copy_space_swap(CopySpace *a, CopySpace *b)
{
    const CopySpace before = *a;
    *a = *b;
    *b = before;
}
