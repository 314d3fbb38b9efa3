// crew.h - threads for submitted queries, kept when a query is done: the next one finds a thread waiting.

#ifndef WEFT_CREW_H
#define WEFT_CREW_H

#include "base/base.h"

typedef struct Crew Crew;
typedef struct CrewJob CrewJob;

struct CrewJob {                           // belongs to the caller until crew_wait returns
    void  (*run)(CrewJob *job);
    bool    is_done;                   // the crew's
    CrewJob    *next;
};

Crew *crew_new(void);                                  // starts no thread
void  crew_free(Crew *crew);                           // all jobs have been waited for
bool  crew_start(Crew *crew, CrewJob *job);                // false: the system refused a thread, and there is none to wait for
bool  crew_is_done(Crew *crew, const CrewJob *job);
void  crew_wait(Crew *crew, const CrewJob *job);

#endif
