// gpu_wave.h - a run of chunks while it is put together: shared by gpu_scan.c, which decides, and gpu_copy.c, which
// brings the columns.

#ifndef WEFT_GPU_WAVE_H
#define WEFT_GPU_WAVE_H

#include "device/gpu_int.h"

typedef struct ColumnCopy {
    int       column;
    Copy     *copy;                    // NULL: kernels read it where it is
    GpuAddress in_place;
    u64       valid_at;
    bool      is_straight;             // it need not go through stages
} ColumnCopy;

typedef struct RunChunk {
    const Chunk *chunk;
    int          number;               // in the leader's source; in most others it is the same
    bool         from_store;
    Pin         *pin;                  // held; NULL: it does not pass
    int          n_columns;
    ColumnCopy  *columns;
} RunChunk;

typedef struct CopyPiece {             // to be copied
    const Chunk *chunk;                // of a store, that it is from; NULL: of none
    int          column;
    bool         needs_check;          // before it is copied
    const u8    *from;                 // NULL: to be set to zero instead
    u64          at, bytes;
    bool         is_last;              // of its column: PAST_BYTES of zeros follow
} CopyPiece;

typedef struct CopyPieces { u64 n, room; CopyPiece *pieces; } CopyPieces;

// A launch's KernelArgs in the args of its run, one for each chunk.
typedef struct Parts { int n_parts; u32 most_rows; GpuAddress at; } Parts;

// Bytes of arguments: of several riders together, and of the one that has the most.
typedef struct ArgsSum { u64 all, most; } ArgsSum;

typedef struct HeldCopy { Copy *copy; bool is_new; } HeldCopy;

typedef struct Wave {
    Gpu       *gpu;
    GpuSchedule schedule;              // of its leader
    RunSlot   *slot;
    int        n_chunks, chunks_room;
    RunChunk  *chunks;
    int        n_riders, riders_room;
    int        n_left;                 // behind these: riders that have been left to the next run
    GpuRun   **riders;
    const GpuRun *leader;
    // Most riders want the same chunks: then what is so for one is so for all, and is not worked out for each rider and
    // chunk.
    bool       is_uniform;             // all riders want the leader's chunks, and so all chunks of the run
    bool       has_sums;               // what follows was worked out for these riders
    ArgsSum    part_args;              // of all riders, for a chunk
    int        n_columns, columns_room;
    int       *columns;                // of the table, that any rider wants
    ArgsSum    least_args;             // of all riders, for one chunk
    int        n_new, new_room;        // copies that are yet to be filled
    Copy     **new_copies;
    int        n_held, held_room;      // copies besides columns, held until the run is done
    HeldCopy  *held;
    int        n_kinds, kinds_room;    // columns of kinds that are yet to be made (gpu_kinds.c)
    struct KindsJob *kinds;
    int        n_packs, packs_room;
    Pack     **packs;
    CopyPieces staged;                 // not more than a stage holds each
    CopyPieces straight;               // from pinned columns
    u64        bytes_staged, bytes_straight, args_bytes;
    bool       is_passing;             // its columns are more than the pool keeps
    _Atomic u64 next_piece;
    _Atomic bool is_failed;
    pthread_mutex_t lock;              // for what follows
    weft_status status;
    Error      error;
    const Chunk *damaged;              // one of which a column is
    int        damaged_column;
} Wave;

#define PUSH(items, n, room)                                                                                           \
    ((n) == (room) ? ((room) = (room) ? 2 * (room) : 16,                                                               \
                      (items) = realloc((items), (size_t)(room) * sizeof *(items))) : (items), &(items)[(n)++])

// A column in device memory: values, validity, and what kernels may read past them.
u64 column_valid_at(const Chunk *chunk, int column);        // offset of the validity
u64 column_copy_bytes(const Chunk *chunk, int column);      // all of it

GpuAddress  column_in_place(const RunChunk *chunk, int column);        // where kernels can read it in the host's
                                                                       // memory; 0: nowhere
bool        column_is_straight(const RunChunk *chunk, int column);     // most of it need not go through a stage
void        wave_list_pieces(Wave *wave);
void        wave_copy(Wave *wave);                          // a failure shows in wave->status
void        wave_failed(Wave *wave, weft_status status, const Error *err);
void        figures_read(const Wave *wave);                 // gpu_figures.c.  Under the lock.
// Room in the args of the run, zeroed: pieces begin at multiples of 64 bytes.
static inline u64 args_rounded(u64 bytes) { return (bytes + 63) / 64 * 64; }
void       *wave_take_args(Wave *wave, u64 bytes, GpuAddress *at);
bool        wave_are_fellows(const GpuRun *leader, const GpuRun *other);       // they scan one table
bool        wave_may_meet(const GpuRun *run);               // others, whose rows may be looked for together
bool        wave_may_share(const GpuRun *run);              // a kernel, with others
// A copy that is held until the run is done; NULL: there is no room.  IS_NEW: the caller is to write it, or to forget
// it.  If the run fails, it is forgotten.
Copy       *wave_hold(Wave *wave, CopyKey key, u64 bytes, bool *is_new);
void        wave_forget(Wave *wave, Copy *copy);
// Of KERNEL, its code and shared memory.
weft_status wave_launch(Gpu *gpu, const GpuRun *kernel, GpuStream stream, GpuAddress parts, const Grid *grid,
                        Error *err);
int         table_column(const GpuRun *run, int c);        // of the table that its kernel's column C is
// Of the chunk in the run's source, -1: none; HINT: where it may be.
int         chunk_number(const GpuRun *run, const Chunk *chunk, int hint);
bool        wants_chunk(const GpuRun *run, const Chunk *chunk, int hint);
bool        wave_wants(const Wave *wave, const GpuRun *run, int chunk);        // of the wave; RUN is one of its riders
int         wave_n_wanted(const Wave *wave, const GpuRun *run);        // of the wave's chunks
bool        wave_completes(const Wave *wave, const GpuRun *run);       // all that it wants is in this run
const ColumnCopy *chunk_column(const RunChunk *chunk, int column);     // NULL: no rider wants it
// Of the table; no data: no rider wants it of this chunk.
KernelColumn wave_column(const Gpu *gpu, const RunChunk *chunk, int number);
// As a kernel gets them.
void        wave_columns(const GpuRun *run, const RunChunk *chunk, KernelColumn *columns);
// gpu_pack.c: those of these runs that have their results together, in packs of STAGING_BYTES at most.  Their first
// content comes in STREAM.  MAKER: what serves them there in one kernel, so that no head is needed; NULL: kernels of
// their own, in STREAM.  Where it fails they have their results by themselves, as have those that it is not for.
void        packs_make(Wave *wave, const void *maker, GpuStream stream, GpuRun *const *runs, int n);
void        packs_undo(Wave *wave, const void *maker);      // NULL: all of them
weft_status packs_fetch(const Wave *wave, const void *maker, Error *err);      // behind their kernels
// A run's work is in one stream at a time, its own or that of another rider whose kernel serves both (at_stream;
// gpu_fuse.c).  Join: the first one's stream goes on behind the work of all, and has it from then on; as long as they
// stay together there is nothing to wait for.  Fork: all go on behind the first one's stream, each in its own.
weft_status wave_join(Gpu *gpu, GpuRun *const *riders, int n_riders, Error *err);
weft_status wave_fork(Gpu *gpu, GpuRun *const *riders, int n_riders, Error *err);
weft_status run_use_own_stream(GpuRun *run, Error *err);         // its own stream goes on behind its work
weft_status wave_gate(Wave *wave, Error *err);              // sends the args written so far; behind them and all
                                                            // columns of this run and those before is the gate
// What is put into the stream from here on waits for the gate.
weft_status wave_wait(const Wave *wave, GpuStream stream, Error *err);
bool        event_has_arrived(Gpu *gpu, GpuEvent event);
bool        slot_has_arrived(Gpu *gpu, RunSlot *slot);                // the host asks whether it has been passed,
void        slot_wait(Gpu *gpu, const RunSlot *slot);       // or waits
void        event_wait(Gpu *gpu, GpuEvent event);            // until it has come, or the device is lost

#endif
