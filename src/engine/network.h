// network.h - the CPU as a device: launches that ride, and the scans that feed them.
//
//     Device *cpu = network_cpu(network);
//     TRY(cpu->ride(cpu, &launch, err));               // returns when every wanted chunk went through the launch
//
// A scan walks the chunks of a table in a circle while any rider is attached.  A rider gets on at the next chunk that
// is opened
// and gets off after one round.  An open chunk is cut into slices; whoever takes a slice pushes it through the kernels
// of all
// riders that wanted the chunk when it was opened, one after the other, while it is in the cache.
//
// Riders bring their own snapshots: a chunk is the same for two riders when it is the same memory, so appending to a
// table
// disturbs nobody.  What a rider computes does not depend on where it got on (see README.md).

#ifndef WEFT_NETWORK_H
#define WEFT_NETWORK_H

#include "device/device.h"

typedef struct Network Network;

typedef struct ScanFigures {           // of one table, since the database was opened
    u64         id;
    const char *table;
    u64         n_rides;               // pipelines that scanned it
    u64         chunks_read, rows_read, bytes_read;        // each chunk counted once for all that rode on it
    u64 chunks_ridden, rows_ridden, bytes_ridden;  // counted for each rider: what it would have been without sharing
    u64 chunks_woven,
        chunks_woven_ridden;  // read for several riders by one kernel: once for all of these, and for each
    u64         rides_woven;                               // rides of which any chunk was
    u64         rides_sieved, rides_fused, rides_cubed;    // of these: one that was several of them counts for each
    u64         rides_join_cubed;                          // of those in cubes: that were in one over joins
} ScanFigures;

typedef enum WovenAs { WOVEN_NOT, WOVEN_SIEVE, WOVEN_FUSED, WOVEN_CUBE } WovenAs;   // how a pipeline runs with others

const char *woven_as_name(WovenAs as);                                 // NULL for not

typedef struct RiderFigures {          // a pipeline at work
    u64         query;
    const char *table, *label, *kernel;
    int         n_chunks, n_chunks_done, n_fellow;         // fellow: riders on the same scan
    WovenAs     woven_as;
    int n_woven;  // riders in its sieve at the newest chunk, 0: it runs by itself
    double gain;  // what the cost model expected of that sieve: time alone / together
    CubeFigures cube;                                      // of the cube over joins that it is in
} RiderFigures;

weft_status ride_alone(Launch *launch, Error *err);            // Launch.is_alone (alone.c)

Network *network_new(int n_threads);
void     network_free(Network *network);
Device  *network_cpu(Network *network);                // the network's own; closing it frees the network
int      network_threads(const Network *network);
Helpers *network_helpers(Network *network);            // its threads, while they have nothing to push

// Copies into the arena; for weft_scans, weft_riders and EXPLAIN (NETWORK).
void network_scans(Network *network, Arena *arena, ScanFigures **figures, int *n_figures);
void network_riders(Network *network, Arena *arena, RiderFigures **figures, int *n_figures);

#endif
