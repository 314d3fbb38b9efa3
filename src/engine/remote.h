// remote.h - join tables that a device made in its own memory, and what of them the host has.
//
//     table->remote = remote_new(home, device, table->id, budget);       // dropped by the device when HOME is freed
//     remote_add(table->remote, TABLE_SLOTS, bytes);
//     ...
//     TRY(remote_fetch(table, err));                                     // the CPU is to probe it after all:
//     table->slots and so on are set
//
// Several queries may have a view of one table each: its parts are fetched once, and stay.

#ifndef WEFT_REMOTE_H
#define WEFT_REMOTE_H

#include "device/device.h"

enum { REMOTE_PARTS = 64 };            // of a table, at most; one that would have more is made by the host

Remote     *remote_new(Arena *home, Device *device, u64 table, Budget *budget);
void        remote_add(Remote *remote, int number, u64 bytes);
bool        remote_is_on(const Remote *remote, const Device *device);
const Device *remote_on(const Remote *remote);
const char *remote_device(const Remote *remote);                           // its name
weft_status remote_fetch(JoinTable *view, Error *err);  // DEVICE_FAILED: the device is lost, and the table with it
const void *remote_part(const JoinTable *view, int number);                // of a view that was fetched

#endif
