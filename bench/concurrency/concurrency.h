// concurrency.h - what the parts of bench/concurrency share: engines, random SSB queries, crews of clients.

#ifndef WEFT_BENCH_CONCURRENCY_H
#define WEFT_BENCH_CONCURRENCY_H

#include <stdint.h>

#include "../bench.h"

enum { N_RANDOM = 64 };                // queries in the random set

#define SHARING_OFF "set sharing = off"

typedef struct BenchSettings {
    double   seconds;                  // of a closed loop
    uint64_t seed;
    bool     is_quick;
    int      duckdb_clients;           // most of them in a closed loop
    const char *device;                // NULL: what WEFT_DEVICE says, or the CPU
    const char *levels;                // numbers of clients of the part clients; NULL: the usual ones
    int      strangers;                // percent of the queries of the part clients
    bool     checks;                   // every answer of the part clients, against the same query alone
} BenchSettings;

extern BenchSettings settings;

typedef struct Engines { Peer *weft, *duckdb; } Engines;

// Every kernel is compiled by cc, and every answer the same on both sides; otherwise the program ends.
void check_all(const Engines *engines, char *const *queries, int n);
void progress(const char *what, int n);                          // on a terminal

// What Weft has counted since it was opened.
typedef struct Reads {
    double rides, times_read, times_ridden, chunks_read;         // of lineorder; ridden: without sharing
    double joined, cubed, sieved, fused;                         // rides in one body over joins, in any body, and so on
    double bytes_read, bytes_ridden;                             // of all tables
} Reads;

Reads  reads_now(Peer *weft);
Reads  reads_since(Peer *weft, const Reads *before);
double sum_of(Peer *weft, const char *sql);                      // the one number that SQL returns

// ---- the parts ---------------------------------------------------------------------------------------------------

void part_thirteen(Bench *bench, const Engines *engines);        // together.c
void part_random(Bench *bench, const Engines *engines);
void part_marginal(Bench *bench, const Engines *engines);
void part_alone(Bench *bench, const Engines *engines);
void part_loop(Bench *bench, const Engines *engines);            // loops.c
void part_attach(Bench *bench, const Engines *engines);
void part_new(Bench *bench, const Engines *engines);
void part_clients(Bench *bench, const Engines *engines);         // clients.c
void part_fair(Bench *bench, const Engines *engines);            // fair.c

// ---- random queries (draw.c) -------------------------------------------------------------------------------------

enum { N_SHAPES = 13, SHAPE_Q11 = 0 };

uint64_t draw_number(uint64_t *state);
int      draw_between(uint64_t *state, int low, int high);       // both included

// N different queries of one shape, or of all in turn when SHAPE is -1.  The same seed gives the same queries.
char **draw_queries(int shape, int n, uint64_t seed);
void   free_queries(char **queries, int n);

// Which texts came before.
typedef struct TextSet TextSet;

TextSet *text_set_new(void);
void     text_set_free(TextSet *set);
// False: it is in there.  WITHOUT_CONSTANTS: so is every text that differs in numbers and quoted texts only.
bool     text_set_add(TextSet *set, const char *text, bool without_constants);

// N queries over SSB's tables, each of a shape of its own (strangers.c).
char **draw_strangers(int n, uint64_t seed);

// ---- crews (crew.c): client threads, each with a connection of its own -------------------------------------------

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
    double     (*sample)(Peer *peer, const char *sql);     // what to note of the small one; NULL: its time
    double       min_ms;
    size_t       min_done;             // of the queries, and of the small one when there is one
    uint64_t     seed;
} Loop;

typedef struct Samples { double *ms; size_t n, capacity; } Samples;
typedef struct Latencies { size_t n; double p50, p95, p99, max; } Latencies;   // milliseconds

typedef struct LoopFigures {
    double    per_second;              // queries done while all clients were at work, over that time
    double    time_ms;                 // until the last answer
    Latencies large, small;
} LoopFigures;

void crew_loop(Crew *crew, const Loop *loop, LoopFigures *figures);

void add_sample(Samples *samples, double ms);
// Of samples in any order; sorts them.
Latencies latencies_of(Samples *samples);

// Each query once, as crew_once; what SAMPLE says of each.
Latencies crew_sample(Crew *crew, char *const *queries, int n_queries, double (*sample)(Peer *peer, const char *sql));

// ---- crowds (crowd.c): thousands of sessions, driven by few threads through weft_submit ---------------------------

typedef struct Crowd Crowd;

enum { MOST_DRIVERS = 16 };

// What each client runs next: any thread may call it, once for each query.
typedef struct CrowdQuery { const char *sql; int number; int kind; } CrowdQuery;
enum { MOST_KINDS = 4 };

// A closed loop of N_CLIENTS sessions.  Counting begins after WARM_MS and when each client has had an answer, and
// lasts for MIN_MS and until MIN_DONE are done.
typedef struct CrowdLoop {
    void      (*next)(void *context, int client, CrowdQuery *query);
    // What came of it, when STATUS is not OK with the error; NULL: an error ends the program.  Any driver calls it.
    void      (*ended)(void *context, int client, const CrowdQuery *query, const weft_result *result,
                       const weft_error *error);
    void       *context;
    double      warm_ms, min_ms;
    size_t      min_done;
} CrowdLoop;

typedef struct CrowdFigures {
    double    cpu_ms;                  // of the process, for each answer
    double    per_second;
    size_t    n_noticed;               // answers with a notice, as that the CPU stood in for a GPU
    Latencies kinds[MOST_KINDS], all;
} CrowdFigures;

Crowd *crowd_new(Peer *weft, int n_clients, const char *setting);
Peer  *crowd_peer(const Crowd *crowd, int client);
void   crowd_free(Crowd *crowd);
void   crowd_loop(Crowd *crowd, const CrowdLoop *loop, CrowdFigures *figures);

#endif
