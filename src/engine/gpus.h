// gpus.h - the GPUs of a database: opened when first wanted, kept until it closes.
//
//     TRY(gpus_get(gpus, 0, &device, err));              // SET device = cuda: opens it now, or says what is missing
//     Device *device = gpus_ready(gpus);                 // auto: NULL while there is none, or until it is open; never
//     waits
//
// Opening takes a second and most of a card's memory, so nobody pays for it who does not use it: auto opens in the
// background when the
// first pipeline comes that is worth it.  The compiler is started in the background by the device itself.

#ifndef WEFT_GPUS_H
#define WEFT_GPUS_H

#include "engine/network.h"

typedef struct Gpus Gpus;

Gpus       *gpus_new(void);
void        gpus_free(Gpus *gpus);
weft_status gpus_get(Gpus *gpus, int number, Device **device, Error *err);
Device     *gpus_ready(Gpus *gpus);
bool        gpus_is_wanted(const Gpus *gpus);              // auto has asked for one, and it is open or may still be

// What network_riders and network_scans say, of the GPUs as well.  Riders are added to a list (LIST_PUSH); scans are
// added to those of the same
// table, in a list of its own.
void gpus_add_riders(Gpus *gpus, Arena *arena, RiderFigures **figures, int *n_figures);
// Of the GPU of this number; false: it is not open.
bool gpus_figures(Gpus *gpus, int number, Arena *arena, const char **name, DeviceFigures *figures);
void gpus_add_scans(Gpus *gpus, Arena *arena, ScanFigures **figures, int *n_figures);

#endif
