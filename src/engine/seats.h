// seats.h - how the riders of an open chunk are served: as one body, fused, sieved together, or one by one.
//
//     Seating seating = { .n_seats = n, .seats = seats };
//     seats_weave(&seating, chunk, &kept);             // decides, and makes what is not there yet; seats are then in
//     this order:
//
//     | plain, one by one | group by group | fused kernel by fused kernel | cube by cube |
//
// Decided anew (src/share) whenever a chunk is opened, since riders come and go.
// What was made for one chunk (tables of sieves,
// texts, code) is kept with
// the scan and used again as long as the same riders come together.  Who is served when is up to network.c.

#ifndef WEFT_SEATS_H
#define WEFT_SEATS_H

#include "engine/cube.h"
#include "engine/fuse.h"
#include "engine/join_cube.h"
#include "engine/network.h"
#include "engine/sieve.h"
#include "share/choose.h"

typedef struct Seat {                  // of a rider in an open chunk
    struct Rider *rider;               // the network's business
    SieveMember   member;
    bool          suits_sieve, suits_cube;         // the others: see member
    u64           shape;                           // see choose.h
    int           chunk;               // number in the rider's source
    u64           rows_left;           // that the rider wants, this chunk counted in
} Seat;

typedef struct Group {                 // riders that are sieved together
    SieveSet *set;
    int       n_members;
    double    gain;                    // expected time alone / together
    int       chunks[SIEVE_MEMBERS];   // the chunk's number in each member's source
} Group;

typedef struct CubeSeats {             // riders that are one cube
    Cube    *cube;
    CubeRun *run;
    int      first_seat, n_members;
    double   gain;
    int     *numbers;                  // of the seats' members in the cube
    int     *chunks;
} CubeSeats;

typedef struct FusedSeats {            // riders whose kernels are fused
    Fused *fused;
    int    first_seat, n_members;
    double gain;
    int   *chunks;
} FusedSeats;

typedef struct Seating {
    int         n_seats;
    Seat       *seats;
    int         n_plain;               // the first of the seats: pushed one by one
    int         n_groups;
    Group      *groups;
    int         n_fused;
    FusedSeats *fused;
    int         n_cubes;
    CubeSeats  *cubes;
} Seating;

typedef struct Kept {                  // by a scan, from chunk to chunk
    int        n_sets;
    SieveSet **sets;                   // of the newest chunk
    int        n_cubes;
    Cube     **cubes;                  // the newest of each shape
    int        n_fused;
    Fused    **fused;                  // of the newest chunk
    ShareKept  share;                  // what the choice remembers
} Kept;

bool seats_may_weave(const Seating *seating);  // whether there are two that could be served together
void seats_weave(Seating *seating, const Chunk *chunk, Kept *kept);            // one thread at a time for a KEPT
void seats_release(Seating *seating);                                          // all but the seats themselves
void kept_release(Kept *kept);

#endif
