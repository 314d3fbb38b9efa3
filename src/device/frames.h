// frames.h - the memory of a GPU as one pool of frames, and the copies of host data that are kept in it.
//
//     Frames *frames = frames_new(bytes);                        // the driver's memory is allocated once, elsewhere
//     u64 at;
//     if (frames_take(frames, bytes, &at)) ...                   // neighbouring frames; evicts unused copies
//     Copy *copy = copy_find(frames, key);                       // held; NULL: not there
//     if (!copy) copy = copy_add(frames, key, bytes, false);     // held; the caller writes it; NULL: no room
//     copy_release(frames, copy);                                // evicted when room is needed
//
// Addresses are offsets in the pool; nothing here touches the device, so it is tested without one.  One thread at a
// time.

#ifndef WEFT_FRAMES_H
#define WEFT_FRAMES_H

#include "base/base.h"

#define FRAME_BYTES ((u64)64 << 10)    // small enough for the chunks of tests, large enough that a card has two million

typedef struct Frames Frames;

typedef struct CopyKey { u64 owner, number; } CopyKey;         // owner: no two things ever have the same; 0: a copy
                                                               // that is not shared

typedef struct Copy {
    u64          at, bytes;
    CopyKey      key;
    int          n_holds;
    bool         is_filled;            // for its users: what it holds has come
    u64          brought_by;           // for its users: whom to wait for
    bool         is_passing;           // part of more than fits: goes first, so that what is there stays
    struct Copy *chain;                // of its bucket
    struct Copy *older, *newer;        // among copies that are not held
} Copy;

Frames *frames_new(u64 bytes);
void    frames_free(Frames *frames);
bool    frames_take(Frames *frames, u64 bytes, u64 *at);
// The same for what is large and soon given back: at the other end of the pool, away from what stays.  Not EVICTS:
// nothing makes way for it.
bool    frames_take_high(Frames *frames, u64 bytes, bool evicts, u64 *at);
void    frames_clear(Frames *frames);                           // evicts all copies that are not held; the next frames
                                                                // are taken from the beginning
void    frames_give(Frames *frames, u64 at, u64 bytes);        // BYTES as taken
u64     frames_total(const Frames *frames);
u64     frames_held(const Frames *frames);                     // bytes taken, or in copies that are held: what cannot
                                                               // make way
u64     frames_copied(const Frames *frames);                   // bytes in copies

Copy *copy_find(Frames *frames, CopyKey key);
Copy *copy_add(Frames *frames, CopyKey key, u64 bytes, bool is_passing);
void  copy_release(Frames *frames, Copy *copy);
void  copy_forget(Frames *frames, Copy *copy);                 // the same, and copy_find no longer finds it: its
                                                               // content never came

#endif
