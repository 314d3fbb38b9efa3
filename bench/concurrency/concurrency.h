// concurrency.h - what the parts of bench/concurrency share: random SSB queries, and crews of clients.

#ifndef WEFT_BENCH_CONCURRENCY_H
#define WEFT_BENCH_CONCURRENCY_H

#include <stdint.h>

#include "../bench.h"

// ---- random queries (draw.c) --------------------------------------------------------------------------------------

enum { N_TEMPLATES = 13, TEMPLATE_Q11 = 0 };

uint64_t draw_number(uint64_t *state);
int      draw_between(uint64_t *state, int low, int high);       // both included

// N different queries of one template, or of all in turn when TEMPLATE is -1.  The same seed gives the same queries.
char **draw_queries(int template, int n, uint64_t seed);
void   free_queries(char **queries, int n);

// ---- crews (crew.c): client threads, each with a connection of its own ---------------------------------------------

typedef struct Crew Crew;

Crew  *crew_new(Peer *base, int n_clients, const char *setting); // SETTING: run on each connection; may be NULL
void   crew_free(Crew *crew);

// Runs each query once, each client taking the next; milliseconds from the first to the last.
double crew_once(Crew *crew, char *const *queries, int n_queries);

// A closed loop: clients draw from the queries, again when the last answer is there.  With SMALL, one of the clients
// runs that query instead, with a pause of PAUSE_MS before each.  It goes on for MIN_MS and until MIN_DONE are done.
typedef struct Loop {
    char *const *queries;
    int          n_queries;
    const char *const *small;          // several forms of it, taken in turn; NULL: none
    int          n_small;
    double       pause_ms;
    double       min_ms;
    size_t       min_done;             // of the queries, and of the small one when there is one
    uint64_t     seed;
} Loop;

typedef struct Latencies { size_t n; double p50, p95, p99, max; } Latencies;   // milliseconds

typedef struct LoopFigures {
    double    per_second;              // queries done while all clients were at work, over that time
    double    time_ms;                 // until the last answer
    Latencies large, small;
} LoopFigures;

void crew_loop(Crew *crew, const Loop *loop, LoopFigures *figures);

#endif
