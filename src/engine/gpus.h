// gpus.h - the GPUs of a database: opened when first wanted, kept until it closes.
//
//     TRY(gpus_get(gpus, 0, &device, err));              // SET device = cuda: opens it now, or says what is missing
//     Device *device = gpus_ready(gpus);                 // auto: NULL until it is open; never waits
//
// Opening takes a second and most of a card's memory, so nobody pays for it who does not use it: auto opens in the
// background when the first pipeline comes that is worth it.  The compiler is started in the background by the device
// itself.

#ifndef WEFT_GPUS_H
#define WEFT_GPUS_H

#include "device/device.h"

typedef struct Gpus Gpus;

Gpus       *gpus_new(void (*relieve)(void *context), void *relief);       // as in device.h
void        gpus_free(Gpus *gpus);
weft_status gpus_get(Gpus *gpus, int number, Device **device, Error *err);
Device     *gpus_ready(Gpus *gpus);
bool        gpus_is_wanted(const Gpus *gpus);              // auto has asked for one, and it is open or may still be
void        gpus_wake(Gpus *gpus, const _Atomic u32 *stop);                        // as Device.wake

// Of the GPU of this number; false: it is not open.
bool gpus_figures(Gpus *gpus, int number, Arena *arena, const char **name, DeviceFigures *figures);
// What all devices counted of tables that are gone, as Device.forget.
void gpus_forget_with(Gpus *gpus, Device *cpu, bool (*which)(const void *context, u64 table), const void *context);
// Of the CPU and all GPUs that are open: riders of all, and scans added up by table.
DeviceFigures gpus_figures_with(Gpus *gpus, Device *cpu, Arena *arena);

#endif
