// gpu_made.c - join tables and chunks that a GPU made (gpu_table.c): kept, waited for, fetched, dropped.
//
// Their parts are copies in the pool without a source elsewhere, so they are held until the table is dropped, and count
// as admitted memory.  A launch that probes a table finds its parts by the table's id, like those that came over the
// link, and the columns of a chunk by the chunk's.

#include "device/gpu_made.h"
#include "device/gpu_room.h"
#include "device/gpu_wave.h"

#include <stdlib.h>

// ---- room -----------------------------------------------------------------------------------------------------------

static void free_here(PartHere *here)
{
    mem_free(here->budget, here->data, here->bytes);
    free(here);
}

static void free_table(Gpu *gpu, MadeTable *table)                     // under the lock
{
    ASSERT(mutex_is_held(&gpu->lock) && gpu->bytes_admitted >= table->bytes);
    for (int p = 0; p < table->n_parts; p++) copy_forget(gpu->frames, table->parts[p]);
    gpu->bytes_admitted -= table->bytes;
    gpu->moved_ms = time_now_ms();
    room_given(gpu);
    pthread_cond_broadcast(&gpu->changed);
    for (PartHere *here = table->here, *next; here; here = next) {
        next = here->next;
        free_here(here);
    }
    free(table->parts);
    free(table);
}

MadeTable *made_take(Gpu *gpu, const PartSize *sizes, int n_parts)
{
    MadeTable *table = calloc(1, sizeof *table);
    table->parts = calloc((size_t)n_parts + 1, sizeof *table->parts);
    for (int p = 0; p < n_parts; p++) table->bytes += aligned(sizes[p].bytes + 1);
    bool fits = gpu->bytes_admitted + table->bytes <= launch_admitted_most(gpu);
    gpu->bytes_admitted += table->bytes;
    for (int p = 0; p < n_parts && fits; p++) {
        Copy *copy = copy_add(gpu->frames, sizes[p].key, sizes[p].bytes + TABLE_PAST, false);
        if (copy) table->parts[table->n_parts++] = copy;
        else fits = false;
    }
    if (fits) return table;
    free_table(gpu, table);
    return NULL;
}

// A table stays until the launch that probes it has run.  If tables of many queries took all that may be admitted, none
// of these launches would find room, and all would wait for each other.  So the tables of several queries have half.
bool made_leaves_room(const Gpu *gpu, const void *owner, const PartSize *sizes, int n_parts)
{
    u64 bytes = gpu->made_bytes;
    for (int p = 0; p < n_parts; p++) bytes += sizes[p].bytes;
    if (bytes <= launch_admitted_most(gpu) / 2) return true;
    for (int b = 0; b < N_MADE; b++)
        for (const MadeTable *made = gpu->made[b]; made; made = made->next)
            if (made->owner != owner) return false;
    return true;
}

static MadeTable **bucket_of(Gpu *gpu, u64 id) { return &gpu->made[id % N_MADE]; }

void made_keep(Gpu *gpu, MadeTable *table)
{
    pthread_mutex_lock(&gpu->lock);
    for (int p = 0; p < table->n_parts; p++) table->parts[p]->is_filled = true;
    table->next = *bucket_of(gpu, table->id);
    *bucket_of(gpu, table->id) = table;
    gpu->made_bytes += table->bytes;
    pthread_mutex_unlock(&gpu->lock);
}

void made_give_up(Gpu *gpu, MadeTable *table)
{
    pthread_mutex_lock(&gpu->lock);
    free_table(gpu, table);
    pthread_mutex_unlock(&gpu->lock);
}

// ---- launches that wait for memory ----------------------------------------------------------------------------------

static MadeTable *find_made(const Gpu *gpu, u64 id, bool is_rows)      // under the lock
{
    MadeTable *made = gpu->made[id % N_MADE];
    while (made && (made->id != id || made->is_rows != is_rows)) made = made->next;
    return made;
}

static bool is_probed_by(const Woven *woven, u64 table)
{
    int t = 0;
    while (t < woven->n_tables && woven->table_facts[t].owner != table) t++;
    return t < woven->n_tables;
}

static bool is_used_by(const GpuRun *run, const MadeTable *made)
{
    const Source *source = run->launch->source;
    return made->is_rows ? source->kept && source->chunks[0]->id == made->id
                         : is_probed_by(run->launch->woven, made->id);
}

static bool is_named_before(const Woven *woven, int t)
{
    for (int b = 0; b < t; b++)
        if (woven->table_facts[b].owner == woven->table_facts[t].owner) return true;
    return false;
}

// Several parts of a woven kernel's tables have one owner.
void tables_waited_for(const GpuRun *run, int plus)
{
    const Woven  *woven = run->launch->woven;
    const Source *source = run->launch->source;
    ASSERT(mutex_is_held(&run->gpu->lock));
    for (int t = 0; t < woven->n_tables; t++) {
        MadeTable *made = is_named_before(woven, t) ? NULL : find_made(run->gpu, woven->table_facts[t].owner, false);
        if (made) made->n_waiting += plus;
    }
    MadeTable *rows = source->kept ? find_made(run->gpu, source->chunks[0]->id, true) : NULL;
    if (rows) rows->n_waiting += plus;
}

// A later kernel of the same query probes it: as long as this launch waits it stays, too.
static bool will_wait(const GpuRun *run, const MadeTable *made)
{
    return made->n_waiting || made->owner == run->launch->stop;
}

OtherTables tables_of_others(const GpuRun *run)
{
    OtherTables others = NO_TABLES;
    ASSERT(mutex_is_held(&run->gpu->lock));
    for (int b = 0; b < N_MADE; b++)
        for (const MadeTable *made = run->gpu->made[b]; made; made = made->next)
            if (!is_used_by(run, made))
                others = MAX_OF(others, will_wait(run, made) ? TABLES_THAT_WAIT : TABLES_THAT_GO);
    return others;
}

u64 rows_kept_bytes(const Launch *launch)
{
    const Source *source = launch->source;
    u64           bytes = 0;
    for (int c = 0; source->kept && c < source->n_columns; c++)
        bytes += aligned(column_copy_bytes(source->chunks[0], source->chunk_column[c]) + 1);
    return bytes;
}

// ---- the end, and the way to the host -------------------------------------------------------------------------------

static void drop_made(Gpu *gpu, u64 id, bool is_rows)
{
    pthread_mutex_lock(&gpu->lock);
    MadeTable **link = bucket_of(gpu, id);
    while (*link && ((*link)->id != id || (*link)->is_rows != is_rows)) link = &(*link)->next;
    MadeTable *table = *link;
    if (table) {
        *link = table->next;
        gpu->made_bytes -= table->bytes;
        free_table(gpu, table);
    }
    pthread_mutex_unlock(&gpu->lock);
}

// ---- tables that no query uses --------------------------------------------------------------------------------------

#define KEPT_SHARE 8                   // of what may be admitted: 1 / this

u64 gpu_kept_most(const Device *device) { return launch_admitted_most((const Gpu *)device) / KEPT_SHARE; }

void gpu_relieve(Gpu *gpu)
{
    ASSERT(!mutex_is_held(&gpu->lock));
    if (gpu->device.relieve) gpu->device.relieve(gpu->device.relief);
}

bool relieve_unlocked(Gpu *gpu)
{
    pthread_mutex_unlock(&gpu->lock);
    gpu_relieve(gpu);
    pthread_mutex_lock(&gpu->lock);
    return true;
}

void gpu_drop_table(Device *device, u64 id) { drop_made((Gpu *)device, id, false); }
void gpu_drop_rows(Device *device, u64 chunk) { drop_made((Gpu *)device, chunk, true); }

// BYTES of it from AT on.
typedef struct PartRead { void *to; u64 at, bytes; } PartRead;

static weft_status read_copy(Gpu *gpu, const Copy *copy, const PartRead *reads, int n_reads, Error *err)
{
    for (int r = 0; r < n_reads; r++)
        GPU_TRY(gpu, MemcpyDtoHAsync,
                (reads[r].to, gpu_address(gpu, copy->at + reads[r].at), reads[r].bytes, gpu->table_stream), err);
    GPU_TRY(gpu, StreamSynchronize, (gpu->table_stream), err);
    return WEFT_OK;
}

static weft_status fetch_made(Gpu *gpu, CopyKey key, const PartRead *reads, int n_reads, Error *err)
{
    TRY(gpu_enter(gpu, err));
    pthread_mutex_lock(&gpu->lock);
    Copy *copy = copy_find(gpu->frames, key);
    pthread_mutex_unlock(&gpu->lock);
    if (!copy) return fail(err, WEFT_DEVICE_FAILED, -1, "%s has lost a join table or rows", gpu->name);
    weft_status status = read_copy(gpu, copy, reads, n_reads, err);
    if (status) gpu_wait_for(gpu, gpu->table_stream);
    pthread_mutex_lock(&gpu->lock);
    copy_release(gpu->frames, copy);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

weft_status gpu_fetch_table(Device *device, u64 id, int number, void *to, u64 bytes, Error *err)
{
    Gpu              *gpu = (Gpu *)device;
    const GpuContext   before = gpu_visit(gpu);
    const PartRead    read = { .to = to, .bytes = bytes };
    const weft_status status = fetch_made(gpu, table_key(id, number), &read, 1, err);
    gpu_leave(gpu, before);
    return status;
}

static const PartHere *find_here(const MadeTable *made, int number)
{
    const PartHere *here = made ? made->here : NULL;
    while (here && here->number != number) here = here->next;
    return here;
}

static const void *part_here(Gpu *gpu, u64 id, int number)
{
    pthread_mutex_lock(&gpu->lock);
    const PartHere *here = find_here(find_made(gpu, id, false), number);
    const void     *data = here ? here->data : NULL;
    pthread_mutex_unlock(&gpu->lock);
    return data;
}

// False: another query was quicker, or the table is gone.
static bool keep_here(Gpu *gpu, u64 id, PartHere *here)
{
    pthread_mutex_lock(&gpu->lock);
    MadeTable *made = find_made(gpu, id, false);
    const bool is_first = made && !find_here(made, here->number);
    if (is_first) here->next = made->here, made->here = here;
    pthread_mutex_unlock(&gpu->lock);
    return is_first;
}

const void *table_part_here(Gpu *gpu, u64 id, int number, u64 bytes, Budget *budget)
{
    Error       ignored = { 0 };
    void       *memory;
    const void *data = part_here(gpu, id, number);
    if (data || mem_alloc(budget, bytes + 8, &memory, &ignored)) return data;
    const PartRead    read = { .to = memory, .bytes = bytes };
    const weft_status status = fetch_made(gpu, table_key(id, number), &read, 1, &ignored);
    PartHere         *here = malloc(sizeof *here);
    *here = (PartHere){ .number = number, .data = memory, .bytes = bytes + 8, .budget = budget };
    if (status || !keep_here(gpu, id, here)) free_here(here);
    return status ? NULL : part_here(gpu, id, number);
}

weft_status gpu_fetch_column(Device *device, const Chunk *chunk, int column, void *data, void *valid, Error *err)
{
    Gpu              *gpu = (Gpu *)device;
    const GpuContext   before = gpu_visit(gpu);
    const PartRead    reads[] = { { data, 0, column_data_bytes(chunk, column) },
                                  { valid, column_valid_at(chunk, column), column_valid_bytes(chunk, column) } };
    const weft_status status = fetch_made(gpu, (CopyKey){ chunk->id, (u64)(u32)column }, reads, valid ? 2 : 1, err);
    gpu_leave(gpu, before);
    return status;
}
