// temp.c - memory in temporary files: where a query goes on when memory_limit has no more for it.
//
// A block is a file without a name (O_TMPFILE, or removed as soon as it is open), as long as the block, mapped, and
// closed again.  The mapping alone keeps the file, so munmap gives the disk its space back, no descriptor is held, and
// a process that is killed leaves nothing behind.  The system writes pages to the disk and reads them again as it sees
// fit: a block that is written and read in order costs little however large it is.  One that is used at random is as
// fast as memory while there is memory, and slow beyond that; so tables of groups, sorts and joins are cut into
// partitions first (engine/spill.h).
//
// The space is reserved before the file is mapped.  A full disk is therefore an error here (53100), and never a signal
// when a page is touched.
//
// Refused: writing blocks with write() and reading them back into buffers.  Everything above works on arrays, the
// user's result among it, and would need a second form that comes in pieces.

#include "base/base_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#define PAGE ((size_t)4096)
#define N_BUCKETS 4096

struct TempSpace {
    pthread_mutex_t lock;
    char            directory[4096];
    _Atomic i64     limit;                                  // TEMP_LIMIT_AUTO, or bytes; 0: nothing goes here
    _Atomic i64     used;
};

typedef struct TempBlock {
    void             *memory;
    size_t            bytes;                                // as mapped
    TempSpace        *space;
    struct TempBlock *next;
} TempBlock;

// Blocks of all spaces, found by address: the code that frees memory does not know which space it is from.
static struct {
    pthread_mutex_t lock;
    _Atomic i64     n_blocks;
    TempBlock      *buckets[N_BUCKETS];
} blocks = { .lock = PTHREAD_MUTEX_INITIALIZER };

TempSpace *temp_new(const char *directory)
{
    TempSpace *space = calloc(1, sizeof *space);
    pthread_mutex_init(&space->lock, NULL);
    atomic_store(&space->limit, TEMP_LIMIT_AUTO);
    temp_set_directory(space, directory);
    return space;
}

void temp_free(TempSpace *space)
{
    if (!space) return;
    pthread_mutex_destroy(&space->lock);
    free(space);
}

bool temp_set_directory(TempSpace *space, const char *directory)
{
    const size_t length = strlen(directory);
    if (length >= sizeof space->directory) return false;
    pthread_mutex_lock(&space->lock);
    memcpy(space->directory, directory, length + 1);
    pthread_mutex_unlock(&space->lock);
    return true;
}

void temp_get_directory(TempSpace *space, Text *text)
{
    pthread_mutex_lock(&space->lock);
    text_add(text, "%s", space->directory);
    pthread_mutex_unlock(&space->lock);
}

void temp_set_limit(TempSpace *space, i64 bytes) { atomic_store(&space->limit, bytes); }
i64  temp_limit(const TempSpace *space) { return atomic_load(&space->limit); }
i64  temp_used(const TempSpace *space) { return atomic_load(&space->used); }

// ---- the limit ------------------------------------------------------------------------------------------------------

// Half of what the file system would have without Weft's blocks: others need room, too.
static i64 half_of_disk(const char *directory, i64 used)
{
    struct statvfs disk;
    if (statvfs(directory, &disk) != 0) return INT64_MAX;   // opening the file will say what is wrong
    const double available = (double)disk.f_bavail * (double)disk.f_frsize + (double)used;
    return available / 2 < 9e18 ? (i64)(available / 2) : INT64_MAX;
}

static i64 most_now(const TempSpace *space, const char *directory, i64 used)
{
    const i64 limit = atomic_load(&space->limit);
    return limit == TEMP_LIMIT_AUTO ? half_of_disk(directory, used) : limit;
}

i64 temp_most(TempSpace *space)
{
    Text directory = { 0 };
    temp_get_directory(space, &directory);
    const i64 most = most_now(space, directory.bytes, temp_used(space));
    text_free(&directory);
    return most;
}

static weft_status take_space(TempSpace *space, const char *directory, i64 bytes, Error *err)
{
    const i64 used = atomic_fetch_add(&space->used, bytes), most = most_now(space, directory, used);
    if (used <= most && bytes <= most - used) return WEFT_OK;
    atomic_fetch_sub(&space->used, bytes);
    fail(err, WEFT_TEMP_LIMIT, -1, "temp_limit reached: %lld KiB more wanted, %lld of %lld KiB in use in \"%s\"",
         (long long)bytes / 1024, (long long)used / 1024, (long long)most / 1024, directory);
    error_hint(err, "Raise temp_limit or memory_limit, or let temp_directory name a larger disk.");
    return WEFT_TEMP_LIMIT;
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

static TempBlock **bucket_of(const void *memory)
{
    return &blocks.buckets[((uintptr_t)memory / PAGE * 0x9e3779b97f4a7c15u) >> 52 & (N_BUCKETS - 1)];
}

static void remember(TempBlock block)
{
    TempBlock *kept = malloc(sizeof *kept), **bucket = bucket_of(block.memory);
    pthread_mutex_lock(&blocks.lock);
    *kept = block;
    kept->next = *bucket;
    *bucket = kept;
    atomic_fetch_add(&blocks.n_blocks, 1);
    pthread_mutex_unlock(&blocks.lock);
}

static bool forget(const void *memory, TempBlock *block)
{
    bool is_found = false;
    if (atomic_load_explicit(&blocks.n_blocks, memory_order_acquire) == 0) return false;
    pthread_mutex_lock(&blocks.lock);
    for (TempBlock **link = bucket_of(memory); *link && !is_found; link = &(*link)->next) {
        TempBlock *found = *link;
        if (found->memory != memory) continue;
        *block = *found;
        *link = found->next;
        free(found);
        is_found = true;
        atomic_fetch_sub(&blocks.n_blocks, 1);
        break;
    }
    pthread_mutex_unlock(&blocks.lock);
    return is_found;
}

static weft_status map_new_file(const char *directory, size_t bytes, void **memory, Error *err)
{
    File file;
    TRY(file_open_temporary(directory, &file, err));
    weft_status status = file_reserve(&file, bytes, err);
    if (!status) status = file_map_to_write(&file, bytes, memory, err);
    file_close(&file);
    return status;
}

weft_status temp_alloc(TempSpace *space, size_t bytes, void **out, Error *err)
{
    Text         directory = { 0 };
    const size_t mapped = (MAX_OF(bytes, 1) + PAGE - 1) / PAGE * PAGE;
    *out = NULL;
    temp_get_directory(space, &directory);
    weft_status status = take_space(space, directory.bytes, (i64)mapped, err);
    if (!status) {
        status = map_new_file(directory.bytes, mapped, out, err);
        if (status) atomic_fetch_sub(&space->used, (i64)mapped);
        else remember((TempBlock){ .memory = *out, .bytes = mapped, .space = space });
    }
    text_free(&directory);
    return status;
}

bool temp_give_back(void *memory)
{
    TempBlock block;
    if (!forget(memory, &block)) return false;
    munmap(memory, block.bytes);
    const i64 before = atomic_fetch_sub(&block.space->used, (i64)block.bytes);
    ASSERT(before >= (i64)block.bytes);
    (void)before;
    return true;
}
