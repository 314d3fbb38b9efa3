// squad.h - threads for submitted queries, kept when a query is done: the next one finds a thread waiting.

#ifndef WEFT_SQUAD_H
#define WEFT_SQUAD_H

#include "base/base.h"

typedef struct Squad Squad;
typedef struct SquadJob SquadJob;

struct SquadJob {                           // belongs to the caller until squad_wait returns
    void  (*run)(SquadJob *job);
    bool    is_done;                   // the squad's
    SquadJob    *next;
};

Squad *squad_new(void);                                  // starts no thread
void  squad_free(Squad *squad);                           // all jobs have been waited for
bool squad_start(Squad *squad, SquadJob *job);  // false: the system refused a thread, and there is none to wait for
bool  squad_is_done(Squad *squad, const SquadJob *job);
void  squad_wait(Squad *squad, const SquadJob *job);

#endif
