// squad.h - threads for submitted queries, kept when a query is done: the next one finds a thread waiting.

#ifndef WEFT_SQUAD_H
#define WEFT_SQUAD_H

#include "base/base.h"

#include <pthread.h>

typedef struct Squad Squad;
typedef struct SquadJob SquadJob;

// Belongs to the caller until squad_wait returns; the squad does not touch it afterwards.
struct SquadJob {
    void  (*run)(SquadJob *job);
    void  (*notify)(void *context);    // optional; called once when the job is done, with no lock held
    void   *notify_context;            // lives until that call
    _Atomic bool    is_done;           // from here on the squad's
    bool            is_awaited;        // a thread waits on DONE; under the squad's lock
    pthread_cond_t  done;
    SquadJob       *next;              // of those that wait for a thread
};

Squad *squad_new(void);                                    // starts no thread
void   squad_free(Squad *squad);                           // all jobs have been waited for
// Runs JOB on a thread of its own, or, where the system refuses one, on the next thread that is done with another job.
// False: it refused, and there is no other.
bool   squad_start(Squad *squad, SquadJob *job);
bool   squad_is_done(const SquadJob *job);                 // takes no lock
void   squad_wait(Squad *squad, SquadJob *job);            // to be called once for each job that was started
int    squad_threads(Squad *squad);                        // that exist now, idle ones included

#endif
