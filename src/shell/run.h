// run.h - `weft run`: what its parts share.
//
// A client is a thread with a session of its own.  All clients are there, with their settings made, before the clock
// starts; then they run statements in rounds:
//
//     at once   a client per statement; a round is all statements together, --repeat is the number of rounds
//     clients   --clients N: one round, each client takes the next statement when its last has ended (closed loop)
//     rate      --rate R: one round, statements arrive by the clock, whether or not others have ended (open loop);
//               time counts from the planned arrival, so waiting for a free client is part of the answer

#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include <pthread.h>
#include <stdint.h>

#include "shell/shell.h"

#define MOST_CLIENTS 4096

typedef enum RunMode { RUN_AT_ONCE, RUN_CLIENTS, RUN_RATE } RunMode;

typedef struct RunOptions {
    const char  *path;                 // of the database
    RunMode      mode;
    long         n_clients;
    long         repeat;               // the whole set so often; 0: until the duration is over
    double       rate;                 // statements per second
    double       duration_ms;          // 0: until the statements are done
    bool         is_poisson;           // arrivals at random, from the seed; otherwise evenly spaced
    uint64_t     seed;
    bool         is_quiet, is_json, has_top;
    bool         has_progress;         // a line a second, also where standard error is no terminal
    const char **settings;             // "name=value"
    int          n_settings;
} RunOptions;

typedef struct RunStatement {
    const char  *path;                 // the file
    int          line;                 // in it, where the statement begins
    char        *name;                 // q11, or all.sql:3 when the file has several
    char        *sql;
    // what came of it; under the lock of the run
    double      *times_ms;             // of the runs that went well
    size_t       n_times, capacity;
    size_t       n_failed;
    size_t       n_noticed;            // runs that went well and had something to say, as that the CPU stood in for a
                                       // GPU
    char        *notice;               // the first
    size_t       n_rows;
    weft_result *result;               // of the first run that went well, when it will be printed
    weft_error   error;                // of the first that failed
} RunStatement;

typedef struct TableReads {            // one line of weft_scans
    char   *name;
    int64_t rows;                      // of the table
    int64_t rides, chunks_read, chunks_ridden, rows_read, rows_ridden, bytes_read, bytes_ridden;
    int64_t chunks_woven, chunks_woven_ridden, rides_woven;
} TableReads;

typedef struct FigureList { TableReads *tables; int n_tables; } FigureList;

typedef struct RunSecond { unsigned n_ended, n_failed; double sum_ms; } RunSecond;

typedef struct RunRate {               // over time, from begin_ms on
    RunSecond *seconds;                // under the lock of the run
    size_t     n, capacity;
    size_t     n_shown;                // seconds that the live line has told of
    bool       has_line;               // one is on the screen
} RunRate;

typedef struct Times { size_t n; double min, mean, p50, p90, p95, p99, max; } Times;   // milliseconds

typedef struct Run Run;

typedef struct Client {
    Run          *run;
    weft_session *session;
    pthread_t     thread;
    long          number;
    int           round;               // the last one it took part in
    bool          has_run;             // in this round; only at once
    bool          is_running;          // a statement; under the lock
} Client;

struct Run {
    RunOptions      options;
    Shell           shell;             // its session is for looking on
    RunStatement   *statements;
    long            n_statements;

    pthread_mutex_t lock;
    pthread_cond_t  go, ended;         // a round begins; the last client of a round is done
    Client        **clients;
    long            n_clients, n_busy; // busy: still in the round
    int             round;
    long            next;              // statement to take; counts on through the repeats
    double          begin_ms;          // of the first round
    double          start_ms;          // of the round
    double          deadline_ms;       // of all rounds; INFINITY when there is none
    bool            is_over;           // clients go home
    _Atomic bool    is_stopped;        // Ctrl-C: nothing new begins

    pthread_mutex_t turn;              // open loop: its holder waits for the next arrival
    _Atomic long    n_waiting;         // for the turn
    double          arrival_ms;        // the last one, from the start
    uint64_t        random;

    // what came of it all
    long            n_running, most_running;
    double          wall_ms, best_round_ms;
    long            n_rounds;
    RunRate         rate;
    FigureList      figures;           // what these statements added
};

bool   run_rounds(Run *run);                                                   // false: could not begin; has said why

void   print_summary(const Run *run, FILE *out);
void   print_summary_json(const Run *run, FILE *out);

bool   figures_take(Run *run, FigureList *list);
void   figures_subtract(FigureList *list, const FigureList *before);
void   figures_free(FigureList *list);

// How many statements end in each second.  rate_note: with the lock held, whenever one has ended.  rate_show: now and
// then, with the lock held; it draws when a second is over.
void   rate_note(Run *run, double time_ms, bool has_failed);
void   rate_show(Run *run);
void   rate_erase(Run *run);
void   print_rate(const Run *run, FILE *out);
void   print_rate_json(const Run *run, FILE *out);                              // a member of an object, and a comma

// SORTED: the times that TIMES sums up.
void   print_histogram(const Run *run, const double *sorted, const Times *times, FILE *out);
void   print_histogram_json(const double *sorted, size_t n, FILE *out);          // a member of an object, and a comma

// The live view on standard error: call it now and then, it looks twice a second.
void   top_show(Run *run);
void   top_erase(void);

#endif
