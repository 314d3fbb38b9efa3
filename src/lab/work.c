// work.c - see work.h.

#include "lab/work.h"

static const WorkKind *const kinds[] = {
    &work_vector_add,     &work_reduction,        &work_scan,        &work_matrix_multiply,     &work_transpose,
    &work_histogram,      &work_black_scholes,    &work_convolution, &work_monte_carlo,         &work_md5,
    &work_radial_distribution, &work_nested_loop_join, &work_hash_join, &work_hash_build, &work_hash_probe,
    &work_hash_probe_2, &work_arithmetic, &work_one_minus, &work_one_plus, &work_product,
    &work_two_selects, &work_first_select, &work_second_select,
};

int work_count(void)
{
    return COUNT_OF(kinds);
}

const WorkKind *work_kind(int i)
{
    return kinds[i];
}

const WorkKind *work_find(const char *name)
{
    for (int i = 0; i < COUNT_OF(kinds); i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return NULL;
}

LabWork *work_new(Arena *arena, const WorkKind *kind, const WorkSize *size, u64 seed)
{
    LabWork *work = arena_make(arena, LabWork);
    work->kind = kind;
    work->arena = arena;
    work->random = seed ^ hash_bytes(kind->name, strlen(kind->name));
    kind->make(work, size);
    return work;
}

weft_status work_check(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    return work->kind->check(work, out, err);
}

// ---- the synthetic kernel -------------------------------------------------------------------------------------------

extern const char lab_synthetic_text[];

static void make_nothing(LabWork *work, const WorkSize *size)
{
    work->out_bytes[0] = sizeof(float);
    work->n[0] = (u64)size->items;                          // rounds
}

static weft_status check_nothing(const LabWork *work, const void *const out[WORK_OUTPUTS], Error *err)
{
    const float *value = out[0];
    return *value == 0 ? WEFT_OK : work_differs(work, "value", 0, *value, 0, err);
}

const WorkKind work_synthetic = {
    "synthetic", "synthetic", lab_synthetic_text, 0, 0, make_nothing, check_nothing,
};
