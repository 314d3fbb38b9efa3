// cube.c - see cube.h.
//
// Classes are made exactly, member by member: each one splits every class that holds values it wants and values it does
// not.  What was
// worked out for members that left stays until the cube is made anew: classes finer than needed are right, only more.
// Whether a cube pays is decided in src/share (cost_columns).

#include "engine/cube_int.h"

#include <stdio.h>
#include <stdlib.h>

#define CELL_BYTES  ((u64)1 << 19)     // of all cells of a slot: half of a usual L2

// ---- who fits -------------------------------------------------------------------------------------------------------

bool cube_suits(const Launch *launch)
{
    const Woven *woven = launch->woven;
    if (!launch->jit || launch->sink != SINK_GROUPS || !weave_can_cube(woven)) return false;
    for (int s = 0; s < woven->n_sieves; s++)
        if (woven->sieves[s].is_exact && !sieve_is_usable(launch, &woven->sieves[s])) return false;
    return true;
}

bool cube_fits(const SieveMember *a, const SieveMember *b)
{
    const Launch *x = a->launch, *y = b->launch;
    if (a->device != b->device || !weave_is_same_but_sieves(x->woven, y->woven)) return false;
    for (int c = 0; c < x->woven->n_columns; c++)
        if (x->source->chunk_column[x->woven->columns[c]] != y->source->chunk_column[y->woven->columns[c]])
            return false;
    return true;
}

static int find_dims(const Launch *launch, Dim *dims)
{
    const Woven *woven = launch->woven;
    int          n_dims = 0;
    for (int s = 0; s < woven->n_sieves; s++) {
        bool is_new = woven->sieves[s].is_exact;
        for (int d = 0; d < n_dims; d++) is_new = is_new && woven->columns[dims[d].column] != woven->sieves[s].column;
        if (!is_new) continue;
        if (n_dims == MAX_DIMS) return 0;
        dims[n_dims] = (Dim){ .number = launch->source->chunk_column[woven->sieves[s].column] };
        while (woven->columns[dims[n_dims].column] != woven->sieves[s].column) dims[n_dims].column++;
        n_dims++;
    }
    return n_dims;
}

double cube_alone_ns(const SieveMember *members, int n_members)
{
    double ns = 0;
    for (int m = 0; m < n_members; m++) ns += members[m].facts->alone;
    return ns;
}

// ---- classes --------------------------------------------------------------------------------------------------------

static void cover(Dim *dim, const SieveMember *members, int n_members)
{
    i64 high = INT64_MIN;
    dim->low = INT64_MAX;
    for (int m = 0; m < n_members; m++) {
        const Launch *launch = members[m].launch;
        const Range  *range = &launch->source->columns[launch->woven->columns[dim->column]].range;
        dim->low = MIN_OF(dim->low, (i64)range->low);
        high = MAX_OF(high, (i64)range->high);
    }
    dim->size = (u64)(high - dim->low) + 1;
}

// A class whose values differ in PASS becomes two: the number of the second is new, and members that want the class
// want both.
static bool split(Cube *cube, int d, int member, const u8 *pass)
{
    Dim *dim = &cube->dims[d];
    u16  id_of[MAX_CLASSES][2];
    memset(id_of, 0xff, sizeof id_of);
    for (u64 v = 0; v < dim->size; v++) {
        const u16 old = dim->class_of[v];
        u16      *id = &id_of[old][pass[v]];
        if (*id == 0xffff) {
            const bool is_first = id_of[old][!pass[v]] == 0xffff;
            if (!is_first && dim->n_classes == MAX_CLASSES) return false;
            *id = is_first ? old : (u16)dim->n_classes++;
            u64 *wants = cube->wants[member].classes[d];
            if (pass[v]) wants[*id / 64] |= (u64)1 << *id % 64;
            for (int m = 0; m < cube->n_members && !is_first; m++) {
                u64 *other = cube->wants[m].classes[d];
                if (m != member && other[old / 64] >> old % 64 & 1) other[*id / 64] |= (u64)1 << *id % 64;
            }
        }
        dim->class_of[v] = *id;
    }
    return true;
}

// What members that both have want; *IS_NEW tells the others.
static void take_over(Cube *cube, const Cube *before, bool *is_new)
{
    for (int m = 0; m < cube->n_members; m++) {
        is_new[m] = true;
        for (int b = 0; before && b < before->n_members && is_new[m]; b++) {
            if (before->members[b].ride != cube->members[m].ride) continue;
            cube->wants[m] = before->wants[b];
            is_new[m] = false;
        }
    }
}

static bool is_usable_before(const Cube *before, const Cube *cube)
{
    if (!before || before->n_dims != cube->n_dims || before->n_split > 2 * cube->n_members + 32) return false;
    for (int d = 0; d < cube->n_dims; d++)
        if (before->dims[d].number != cube->dims[d].number || before->dims[d].low != cube->dims[d].low ||
            before->dims[d].size != cube->dims[d].size)
            return false;
    return true;
}

static bool make_classes(Cube *cube, const Cube *before, const bool *is_new)
{
    Error ignored;
    bool  ok = true;
    error_clear(&ignored);
    for (int d = 0; d < cube->n_dims && ok; d++) {
        Dim *dim = &cube->dims[d];
        u8  *pass = malloc(dim->size + 8);
        ok = mem_alloc(cube->budget, dim->size * sizeof(u16), (void **)&dim->class_of, &ignored) == WEFT_OK;
        if (ok && before) memcpy(dim->class_of, before->dims[d].class_of, dim->size * sizeof(u16));
        dim->n_classes = before ? before->dims[d].n_classes : 1;
        for (int m = 0; m < cube->n_members && ok; m++) {
            if (!is_new[m]) continue;
            sieve_values(cube->members[m].launch, dim->number, dim->low, dim->size, pass);
            ok = split(cube, d, m, pass);
        }
        free(pass);
    }
    cube->n_split = before ? before->n_split : 0;
    for (int m = 0; m < cube->n_members; m++) cube->n_split += is_new[m];
    return ok;
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static bool place_cells(Cube *cube, const Woven *member)
{
    const u64 n_groups = member->group_kind == GROUP_ARRAY ? member->n_groups : 1;
    u64       cell_bytes = 0;
    cube->n_cells = 1;
    for (int d = 0; d < cube->n_dims; d++) cube->n_cells *= (u64)cube->dims[d].n_classes;
    for (int s = 0; s < member->n_state; s++) cell_bytes += member->state[s].bytes;
    if (cube->n_cells > CELL_BYTES || cube->n_cells * n_groups * cell_bytes > CELL_BYTES) return false;
    u64 stride = n_groups;
    for (int d = cube->n_dims - 1; d >= 0; d--) {
        const Dim *dim = &cube->dims[d];
        Param     *params = &cube->woven->params[member->n_params + 2 * d];
        params[0] = (Param){ .kind = PARAM_OFFSET, .value = dim->low, .column = dim->column };
        params[1] = (Param){ .kind = PARAM_VALUE, .value = (i64)stride };
        cube->woven->tables[member->n_tables + d] = dim->class_of;
        cube->woven->table_facts[member->n_tables + d].bytes = dim->size * sizeof(u16);
        stride *= (u64)dim->n_classes;
    }
    cube->woven->n_groups = stride;
    cube->figures = (BodyFigures){ .n_slots = cube->n_cells, .n_cells = stride };
    for (int d = 0; d < cube->n_dims; d++) cube->figures.n_classes += (u64)cube->dims[d].n_classes;
    return true;
}

static bool make_kernel(Cube *cube, const Cube *before)
{
    const Launch *launch = cube->members[0].launch;
    int           columns[MAX_DIMS];
    for (int d = 0; d < cube->n_dims; d++) columns[d] = cube->dims[d].column;
    cube->woven = weave_cube(cube->arena, launch->woven, columns, cube->n_dims, sizeof(u16));
    if (!place_cells(cube, launch->woven)) return false;
    cube_compile(cube, before);
    return true;
}

// A cube belongs to none of its queries and allocates when one of them may be gone already: the database's budget, not
// a query's.
static Budget *common_budget(Budget *budget)
{
    while (budget->parent) budget = budget->parent;
    return budget;
}

Cube *cube_new(Budget *budget, const SieveMember *members, int n_members)
{
    Arena        *arena = arena_new(NULL, "cube");
    Cube         *cube = arena_make(arena, Cube);
    const Launch *launch = members[0].launch;
    atomic_init(&cube->n_users, 1);
    cube->arena = arena, cube->budget = common_budget(budget), cube->device = members[0].device;
    cube->n_members = n_members, cube->members = arena_array(arena, SieveMember, n_members);
    memcpy(cube->members, members, (size_t)n_members * sizeof *members);
    cube->jit = launch->jit, cube->n_columns = launch->source->n_columns, cube->n_slots = launch->n_slots;
    cube->chunk_column = arena_array(arena, int, launch->source->n_columns + 1);
    memcpy(cube->chunk_column, launch->source->chunk_column, (size_t)launch->source->n_columns * sizeof(int));
    return cube;
}

void cube_compile(Cube *cube, const Cube *before)
{
    const bool is_same = before && strcmp(before->woven->name, cube->woven->name) == 0;
    snprintf(cube->figures.kernel, sizeof cube->figures.kernel, "%s", cube->woven->name);
    cube->code = is_same ? before->code : jit_later(cube->jit, cube->woven->text, cube->woven->name);
}

Cube *cube_make(Budget *budget, const Cube *before, const SieveMember *members, int n_members)
{
    Cube *cube = cube_new(budget, members, n_members);
    cube->wants = arena_array(cube->arena, Wants, n_members);
    cube->n_dims = find_dims(members[0].launch, cube->dims);
    for (int d = 0; d < cube->n_dims; d++) cover(&cube->dims[d], members, n_members);
    const Cube *base = is_usable_before(before, cube) ? before : NULL;
    bool        is_new[CUBE_MEMBERS];
    cube->saves_ns = cube_alone_ns(members, n_members) - cost_columns(&share_cpu_costs, members[0].facts);
    take_over(cube, base, is_new);
    if (cube->n_dims && make_classes(cube, base, is_new) && make_kernel(cube, before)) return cube;
    cube_release(cube);
    return NULL;
}

Cube *cube_hold(Cube *cube)
{
    atomic_fetch_add(&cube->n_users, 1);
    return cube;
}

void cube_release(Cube *cube)
{
    if (!cube || atomic_fetch_sub(&cube->n_users, 1) > 1) return;
    for (int d = 0; d < cube->n_dims; d++)
        mem_free(cube->budget, cube->dims[d].class_of, cube->dims[d].size * sizeof(u16));
    if (cube->joins) cube->kind->free(cube->joins);
    for (int k = 0; k < cube->n_kinds; k++) kinds_release(cube->kinds[k].kinds);
    arena_free(cube->arena);
}

// Rides are numbered as they come, and members are in that order.
bool cube_is_for(const Cube *cube, const SieveMember *members, int n_members, int *numbers)
{
    const bool may_lack = cube->joins && 2 * n_members > cube->n_members;
    if (cube->n_members != n_members && !(may_lack && cube->n_members > n_members)) return false;
    for (int m = 0, c = 0; m < n_members; m++, c++) {
        while (c < cube->n_members && cube->members[c].ride < members[m].ride) c++;
        if (c == cube->n_members || cube->members[c].ride != members[m].ride) return false;
        numbers[m] = c;
    }
    return true;
}

bool cube_is_like(const Cube *cube, const SieveMember *member)
{
    const char *name = member->launch->woven->name;
    if (cube->joins || strcmp(cube->woven->name + 2, name + 2) != 0) return false;
    for (int c = 0; c < cube->woven->n_columns; c++)
        if (cube->chunk_column[cube->woven->columns[c]] !=
            member->launch->source->chunk_column[member->launch->woven->columns[c]])
            return false;
    return true;
}

BodyFigures cube_figures(const Cube *cube) { return cube->figures; }

bool cube_is_ready(const Cube *cube, u64 rows_left)
{
    JitTier tier;
    if (code_function(cube->code, &tier)) return true;
    jit_want(cube->jit, cube->code, cube->saves_ns * 1e-6 * (double)rows_left > WORTH_COMPILING_MS);
    return false;
}

// ---- a chunk --------------------------------------------------------------------------------------------------------

static bool is_intact(const Cube *cube, const Chunk *chunk)
{
    Error ignored;
    error_clear(&ignored);
    for (int c = 0; c < cube->woven->n_columns; c++)
        if (cube->woven->columns[c] < cube->n_columns &&
            chunk_verify(chunk, cube->chunk_column[cube->woven->columns[c]], &ignored))
            return false;
    return true;
}

// Columns of the chunk that the kernel does not read are not there.  False: no memory.
static bool add_kinds(CubeRun *run, const Chunk *chunk)
{
    const Cube *cube = run->cube;
    if (!cube->n_kinds) return true;
    run->own = (Chunk){ .id = chunk->id, .n_rows = chunk->n_rows };
    run->own.columns = calloc((size_t)(cube->n_columns + cube->n_kinds), sizeof *run->own.columns);
    for (int c = 0; c < cube->n_columns; c++) run->own.columns[c] = chunk->columns[cube->chunk_column[c]];
    for (int k = 0; k < cube->n_kinds; k++) {
        run->kinds[k] = kinds_column(cube->kinds[k].kinds, chunk, cube->kinds[k].number);
        if (!run->kinds[k]) return false;
        run->own.columns[cube->n_columns + k] = *kind_column_chunk(run->kinds[k]);
    }
    run->chunks[0] = &run->own;
    return true;
}

CubeRun *cube_open(Cube *cube, const Chunk *chunk)
{
    Error ignored;
    error_clear(&ignored);
    if (!is_intact(cube, chunk)) return NULL;
    CubeRun *run = calloc(1, sizeof *run);
    run->cube = cube;
    run->chunks[0] = chunk;
    const bool has_kinds = add_kinds(run, chunk);
    run->source = (Source){ .n_columns = cube->n_columns + cube->n_kinds,
                            .n_chunks = 1,
                            .chunks = run->chunks,
                            .chunk_column = cube->n_kinds ? cube->own_column : cube->chunk_column,
                            .n_rows = chunk->n_rows };
    run->launch = (Launch){ .woven = cube->woven,
                            .code = cube->code,
                            .source = &run->source,
                            .sink = SINK_GROUPS,
                            .n_slots = cube->n_slots,
                            .limit = -1,
                            .budget = cube->budget,
                            .stop = &run->stop };
    weft_status status =
        has_kinds ? cube->device->open(cube->device, &run->launch, &ignored) : WEFT_OUT_OF_MEMORY;
    if (!status) status = cube->device->prepare(cube->device, &run->launch, &ignored);
    if (!status) return run;
    cube_close(run);
    return NULL;
}

void cube_push(CubeRun *run, int slot, u32 first, u32 end)
{
    run->cube->device->push(run->cube->device, &run->launch, slot, 0, first, end);
}

static bool wants(const Wants *member, int dim, int class)
{
    return member->classes[dim][class / 64] >> class % 64 & 1;
}

// The cells that the member wants: all combinations of classes that it does.
static u32 list_cells(const Cube *cube, const Wants *member, u32 *cells)
{
    u32 n = 1;
    cells[0] = 0;
    for (int d = 0; d < cube->n_dims; d++) {
        const u32 n_classes = (u32)cube->dims[d].n_classes, n_before = n;
        u32       list[MAX_CLASSES] = { 0 }, n_list = 0;
        for (u32 c = 0; c < n_classes; c++)
            if (wants(member, d, (int)c)) list[n_list++] = c;
        n = n_before * n_list;
        for (u32 at = n_before; at-- > 0;)  // from the end: what is written lies at or after what is read
            for (u32 k = n_list; k-- > 0;) cells[at * n_list + k] = cells[at] * n_classes + list[k];
    }
    return n;
}

void cube_fold(CubeRun *run, const int *numbers, const int *chunks, int n, Gate *gates, int slot)
{
    const Cube *cube = run->cube;
    u32        *cells = malloc((cube->n_cells + 1) * sizeof *cells);
    if (cube->device->gather) cube->device->gather(cube->device, &run->launch);
    for (int m = 0; m < n; m++) {
        if (!gate_enter(&gates[m])) continue;
        const int number = numbers[m];
        Fold      fold = { .member = cube->members[number].launch, .slot = slot, .chunk = chunks[m], .cells = cells };
        if (cube->joins) cube->kind->fold(cube, number, &fold);
        else fold.n_cells = list_cells(cube, &cube->wants[number], cells);
        cube->device->fold(cube->device, &run->launch, &fold);
        gate_leave(&gates[m]);
    }
    free(cells);
}

void cube_close(CubeRun *run)
{
    if (run->launch.memory) run->cube->device->free_launch(run->cube->device, &run->launch);
    for (int k = 0; k < run->cube->n_kinds; k++) kind_column_release(run->kinds[k]);
    free(run->own.columns);
    free(run);
}
