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

typedef enum WovenAs { WOVEN_NOT, WOVEN_SIEVE, WOVEN_FUSED, WOVEN_CUBE } WovenAs;   // how a pipeline runs with others

const char *woven_as_name(WovenAs as);                                 // NULL for not

weft_status ride_alone(Launch *launch, Error *err);            // Launch.is_alone (alone.c)

Network *network_new(int n_threads);
void     network_free(Network *network);
Device  *network_cpu(Network *network);                // the network's own; closing it frees the network
int      network_threads(const Network *network);
Helpers *network_helpers(Network *network);            // its threads, while they have nothing to push

#endif
