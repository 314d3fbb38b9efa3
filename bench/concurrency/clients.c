// clients.c - closed loops of 1 to 4,096 clients, no two queries of which are the same: the part clients.
//
// All clients take the next text from one list of different ones, so a text comes again only when all others have come:
// at no time are two equal queries in flight.  With strangers a share of the queries is of shapes that never come
// again.  With --check each loop ends when every client has had two answers, and then each text that was asked for is
// asked again alone (SET sharing = off).

#define _GNU_SOURCE
#include "concurrency.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_KNOWN, KIND_STRANGER };
enum { N_WARM = 8 * N_SHAPES };        // texts that run alone first: the code of the shapes is compiled then

static const char LEVELS[] = "1,4,16,64,256,1024,4096", QUICK_LEVELS[] = "1,16,256";
enum { MOST_LEVELS = 16, MOST_CLIENTS = 65536 };
static const int DUCKDB_LEVELS[] = { 1, 16, 64 };

typedef struct Texts {
    char       **known, **strangers;
    int          n_known, n_strangers;
    _Atomic unsigned next, next_known, next_stranger;
    int          percent;              // of strangers
    // of --check: a digest of the answer, known first; 0: not asked for.  Under the lock
    uint64_t    *answers;
    pthread_mutex_t lock;
} Texts;

// ---- texts ---------------------------------------------------------------------------------------------------------

// Strangers are others in every run: neither memory nor the cache on disk has code for them.
static Texts texts_new(void)
{
    Texts texts = { .n_known = settings.is_quick ? 8192 : 65536, .n_strangers = settings.is_quick ? 4096 : 32768 };
    uint64_t now = (uint64_t)(now_ms() * 1e3) * 2654435761u + settings.seed;
    texts.known = draw_queries(-1, texts.n_known, settings.seed);
    texts.strangers = draw_strangers(texts.n_strangers, now);
    texts.answers = calloc((size_t)(texts.n_known + texts.n_strangers), sizeof *texts.answers);
    pthread_mutex_init(&texts.lock, NULL);
    return texts;
}

static void texts_free(Texts *texts)
{
    free_queries(texts->known, texts->n_known);
    free_queries(texts->strangers, texts->n_strangers);
    free(texts->answers);
    pthread_mutex_destroy(&texts->lock);
}

static const char *text_at(const Texts *texts, int number)
{
    return number < texts->n_known ? texts->known[number] : texts->strangers[number - texts->n_known];
}

// Strangers come evenly spread among the others.
static void next_query(void *context, int client, CrowdQuery *query)
{
    Texts *texts = context;
    unsigned turn = texts->next++;
    (void)client;
    bool is_stranger = turn * (unsigned)texts->percent / 100 != (turn + 1) * (unsigned)texts->percent / 100;
    int number = is_stranger ? texts->n_known + (int)(texts->next_stranger++ % (unsigned)texts->n_strangers)
                             : (int)(texts->next_known++ % (unsigned)texts->n_known);
    *query = (CrowdQuery){ text_at(texts, number), number, is_stranger ? KIND_STRANGER : KIND_KNOWN };
}

// ---- answers -----------------------------------------------------------------------------------------------------

static uint64_t digest(const weft_result *result)
{
    uint64_t sum = 14695981039346656037u;
    char cell[256];
    for (size_t row = 0; row < weft_result_rows(result); row++)
        for (int c = 0; c < weft_result_columns(result); c++) {
            weft_format(result, c, row, cell, sizeof cell);
            for (const char *at = cell; *at; at++)
                sum = (sum ^ (unsigned char)*at) * 1099511628211u;
            sum = (sum ^ 0xff) * 1099511628211u;
        }
    return sum | 1;
}

static void note_answer(void *context, int client, const CrowdQuery *query, const weft_result *result,
                        const weft_error *error)
{
    Texts *texts = context;
    (void)client;
    if (!result)
        die(query->sql, error->message);
    uint64_t found = digest(result), *answer = &texts->answers[query->number];
    pthread_mutex_lock(&texts->lock);
    if (*answer && *answer != found)
        die(query->sql, "two answers to one query");
    *answer = found;
    pthread_mutex_unlock(&texts->lock);
}

// Returns how many were compared, and forgets them.
static int check_alone(Peer *weft, Texts *texts)
{
    char error[PEER_ERROR_BYTES] = "";
    Peer *alone = peer_connect(weft, error);
    int n = 0;
    must(weft, alone != NULL, "a session");
    must(alone, peer_run(alone, SHARING_OFF, NULL), SHARING_OFF);
    for (int i = 0; i < texts->n_known + texts->n_strangers; i++) {
        weft_result *result;
        weft_error why;
        if (!texts->answers[i])
            continue;
        progress("checking answer", ++n);
        if (weft_query(peer_weft_session(alone), text_at(texts, i), &result, &why))
            die(text_at(texts, i), why.message);
        if (digest(result) != texts->answers[i])
            die(text_at(texts, i), "another answer among others than alone");
        weft_result_free(result);
        texts->answers[i] = 0;
    }
    peer_close(alone);
    return n;
}

// ---- levels ------------------------------------------------------------------------------------------------------

static void measure_level(Peer *weft, Texts *texts, int n_clients, CrowdFigures *figures, Reads *reads)
{
    Crowd *crowd = crowd_new(weft, n_clients, NULL);
    CrowdLoop loop = { .next = next_query, .context = texts, .warm_ms = settings.seconds * 300,
                       .min_ms = settings.seconds * 1e3, .min_done = (size_t)(n_clients > 30 ? n_clients : 30) };
    if (settings.checks) {
        loop.ended = note_answer;
        loop.warm_ms = loop.min_ms = 0;
    }
    Reads before = reads_now(weft);
    crowd_loop(crowd, &loop, figures);
    *reads = reads_since(weft, &before);
    crowd_free(crowd);
}

static void measure_duckdb(Peer *duckdb, const Texts *texts, int n_clients, LoopFigures *figures)
{
    // Those that Weft had first, mixed alike.  Its clients draw from them.
    enum { N_MIXED = 4096 };
    char *mixed[N_MIXED];
    Texts again = *texts;
    again.next = again.next_known = again.next_stranger = 0;
    for (int i = 0; i < N_MIXED; i++) {
        CrowdQuery query;
        next_query(&again, 0, &query);
        mixed[i] = (char *)(uintptr_t)query.sql;
    }
    Crew *crew = crew_new(duckdb, n_clients, NULL);
    Loop loop = { .queries = mixed, .n_queries = N_MIXED, .min_ms = settings.seconds * 1e3,
                  .min_done = (size_t)n_clients, .seed = settings.seed };
    crew_loop(crew, &loop, figures);
    crew_free(crew);
}

// WITHOUT: the rate without strangers; 0: there are none.
static void say_level(Bench *bench, int n_clients, const CrowdFigures *f, const Reads *reads, double of_one,
                      double without)
{
    const Latencies *known = &f->kinds[KIND_KNOWN], *strangers = &f->kinds[KIND_STRANGER];
    bool has_strangers = without > 0;
    const double rides = fmax(reads->rides, 1) / 100;
    say(bench, "| %d | Weft | %.1f | %.2f | %.2f | %.2f | %.2f | %.1f | %.0f, %.0f, %.0f, %.0f |", n_clients,
        f->per_second, known->p50, known->p99, f->per_second / of_one, f->cpu_ms,
        reads->times_ridden / fmax(reads->times_read, 1e-9), reads->joined / rides,
        (reads->cubed - reads->joined) / rides, reads->sieved / rides, reads->fused / rides);
    if (has_strangers)
        say(bench, " %.2f | %.2f | %.2f |", strangers->p50, strangers->p99, f->per_second / without);
    say(bench, " %zu of %zu |\n", f->n_noticed, f->all.n);
}

static void say_duckdb(Bench *bench, int n_clients, const LoopFigures *f, double of_one, bool has_strangers)
{
    say(bench, "| %d | DuckDB | %.1f | %.2f | %.2f | %.2f | | | |%s |\n", n_clients, f->per_second, f->large.p50,
        f->large.p99, f->per_second / of_one, has_strangers ? " | | |" : "");
}

static void say_title(Bench *bench, const Texts *texts)
{
    say(bench, "## Closed loops of many clients, all texts different, for %g s", settings.seconds);
    if (texts->percent)
        say(bench, "; %d %% are of shapes seen once", texts->percent);
    say(bench, "\n\nEach client is a session; at most %d threads drive them through weft_submit.  %d texts of the "
               "thirteen shapes", MOST_DRIVERS, texts->n_known);
    if (texts->percent)
        say(bench, " and %d of other shapes", texts->n_strangers);
    say(bench, ": one comes again when all others have come.%s\n\n",
        texts->percent ? "  DuckDB's latencies are of both kinds." : "");
    say(bench, "| clients | engine | queries/s | p50 ms | p99 ms | against one client | CPU ms per query "
               "| queries per row read | %% over joins, columns, sieved, fused |%s with a notice |\n"
               "| --: | :-- | --: | --: | --: | --: | --: | --: | --: |%s --: |\n",
        texts->percent ? " strangers p50 ms | strangers p99 ms | of the rate without |" : "",
        texts->percent ? " --: | --: | --: |" : "");
}

// How many clients, from a list such as "1,4,16"; returns how many numbers there are.
static int read_levels(const char *list, int levels[MOST_LEVELS])
{
    int n = 0;
    for (char *end; *list && n < MOST_LEVELS; list = *end ? end + 1 : end) {
        long clients = strtol(list, &end, 10);
        if (end == list || (*end && *end != ',') || clients < 1 || clients > MOST_CLIENTS)
            die("--clients", "takes numbers with commas between them");
        levels[n++] = (int)clients;
    }
    return n;
}

// RATES: by level, queries per second without strangers; filled in by the first table, read by the second.
static void say_table(Bench *bench, const Engines *engines, Texts *texts, double *rates)
{
    const char *list = settings.levels ? settings.levels : settings.is_quick ? QUICK_LEVELS : LEVELS;
    int levels[MOST_LEVELS], n_levels = read_levels(list, levels);
    double of_one = 0, duckdb_of_one = 0;
    say_title(bench, texts);
    for (int i = 0; i < n_levels; i++) {
        CrowdFigures figures;
        Reads reads;
        progress("clients", levels[i]);
        measure_level(engines->weft, texts, levels[i], &figures, &reads);
        of_one = i ? of_one : figures.per_second;
        if (!texts->percent)
            rates[i] = figures.per_second;
        say_level(bench, levels[i], &figures, &reads, of_one, texts->percent ? rates[i] : 0);
    }
    const int n_duckdb = engines->duckdb ? COUNT(DUCKDB_LEVELS) : 0;
    for (int i = 0; i < n_duckdb && DUCKDB_LEVELS[i] <= settings.duckdb_clients; i++) {
        LoopFigures figures;
        progress("DuckDB's clients", DUCKDB_LEVELS[i]);
        measure_duckdb(engines->duckdb, texts, DUCKDB_LEVELS[i], &figures);
        duckdb_of_one = i ? duckdb_of_one : figures.per_second;
        say_duckdb(bench, DUCKDB_LEVELS[i], &figures, duckdb_of_one, texts->percent > 0);
    }
    say(bench, "\n");
    if (settings.checks)
        say(bench, "%d answers are those of the same queries alone.\n\n", check_alone(engines->weft, texts));
}

void part_clients(Bench *bench, const Engines *engines)
{
    double rates[MOST_LEVELS] = { 0 };
    Texts texts = texts_new();
    check_all(engines, texts.known, settings.is_quick ? N_SHAPES : N_WARM);
    if (settings.strangers) {                              // else cc would compile them beside the first loops
        check_all(engines, texts.strangers, settings.is_quick ? 5 : 20);
        texts.next_stranger = settings.is_quick ? 5 : 20;  // those have been seen
    }
    say_table(bench, engines, &texts, rates);
    texts.percent = settings.strangers;
    if (texts.percent)
        say_table(bench, engines, &texts, rates);
    texts_free(&texts);
}
