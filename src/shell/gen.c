// gen.c - the command `weft gen`: options, the progress bar, Ctrl-C, the summary.

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shell/gen.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, BAR_CELLS = 30, TICK_MS = 100, FIRST_DRAW_MS = 1000 };

static const char help_text[] =
    "Usage: weft gen ssb|tpch|setquery [OPTION]... [DB]\n"
    "\n"
    "Makes the tables of a benchmark in the database in directory DB, and with --tbl as text files.\n"
    "\n"
    "  ssb    Star Schema Benchmark: part, customer, supplier, date, lineorder.\n"
    "         The same scale factor and seed always give the same rows.\n"
    "  tpch   TPC-H: region, nation, part, supplier, partsupp, customer, orders, lineitem.\n"
    "         The files are equal to those of TPC's dbgen 2.14.\n"
    "  setquery  Set Query: bench, with 13 columns of whole numbers and 10,000,000 * N rows.\n"
    "\n"
    "  -s, --sf N         scale factor: about 6,000,000 * N rows in the largest table; may be a fraction; default 1\n"
    "      --seed N       seed of the random numbers, 1 by default; not for tpch\n"
    "      --tbl DIR      write DIR/part.tbl and so on, as dbgen does; without DB nothing else\n"
    "      --threads N    threads to use, by default one for each core\n"
    "      --help         this text\n"
    "\n"
    "Tables and files that exist already are not overwritten.\n"
    "Exit status: 0 when all went well, 1 after an error, 2 for a usage error.\n";

typedef struct Benchmark {
    const char  *name;
    weft_status (*generate)(Store *store, Pool *pool, const GenOptions *options, Error *err);
    int          n_tables;
    bool         has_seed;                                 // --seed means something
} Benchmark;

static const Benchmark benchmarks[] = {
    { "ssb", gen_ssb, GEN_SSB_TABLES, true },
    { "tpch", gen_tpch, GEN_TPCH_TABLES, false },
    { "setquery", gen_setquery, GEN_SETQUERY_TABLES, true },
};

typedef struct GenCommand {
    const Benchmark *benchmark;
    GenOptions       options;
    bool             has_seed;                             // --seed was given
    const char      *database;                             // NULL: only files
    int              n_threads;
} GenCommand;

static _Atomic bool was_interrupted;                       // lock-free, so the signal handler may set it
static _Atomic int  progress;

static void on_interrupt(int number)
{
    (void)number;
    was_interrupted = true;
}

// ---- the command line -----------------------------------------------------------------------------------------------

__attribute__((format(printf, 1, 2))) static int usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("weft gen: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\nTry 'weft gen --help'.\n", stderr);
    return EXIT_USAGE;
}

static bool parse_scale(const char *text, double *scale)
{
    char *end;
    errno = 0;
    *scale = strtod(text, &end);
    return end != text && !*end && !errno && *scale > 0 && *scale <= GEN_SCALE_MAX;
}

static bool parse_whole(const char *text, u64 max, u64 *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return end != text && !*end && !errno && text[0] >= '0' && text[0] <= '9' && *number <= max;
}

enum { OPTION_SEED = 256, OPTION_TBL, OPTION_THREADS, OPTION_HELP };

static const struct option long_options[] = {
    { "sf",      required_argument, NULL, 's' },
    { "seed",    required_argument, NULL, OPTION_SEED },
    { "tbl",     required_argument, NULL, OPTION_TBL },
    { "threads", required_argument, NULL, OPTION_THREADS },
    { "help",    no_argument,       NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

// -1: go on; else the exit status.
static int take_option(GenCommand *command, int option)
{
    u64 n_threads;
    switch (option) {
    case 's':
        return parse_scale(optarg, &command->options.scale)
                   ? -1
                   : usage_error("--sf takes a number above 0 and at most %d, not '%s'", GEN_SCALE_MAX, optarg);
    case OPTION_SEED:
        command->has_seed = true;
        return parse_whole(optarg, UINT64_MAX, &command->options.seed)
                   ? -1
                   : usage_error("--seed takes a whole number, not '%s'", optarg);
    case OPTION_TBL:
        command->options.tbl_dir = optarg;
        return -1;
    case OPTION_THREADS:
        if (!parse_whole(optarg, 1024, &n_threads) || n_threads == 0)
            return usage_error("--threads takes a number from 1 to 1024, not '%s'", optarg);
        command->n_threads = (int)n_threads;
        return -1;
    case OPTION_HELP:
        fputs(help_text, stdout);
        return 0;
    default:
        fputs("Try 'weft gen --help'.\n", stderr);          // getopt has said what is wrong
        return EXIT_USAGE;
    }
}

static int take_benchmark(GenCommand *command, const char *name)
{
    for (int i = 0; i < COUNT_OF(benchmarks); i++) {
        if (!strcmp(benchmarks[i].name, name))
            command->benchmark = &benchmarks[i];
    }
    if (!command->benchmark)
        return usage_error("there is no benchmark '%s', only ssb, tpch and setquery", name);
    if (command->has_seed && !command->benchmark->has_seed)
        return usage_error("--seed does not go with %s, whose specification fixes the seeds", name);
    return -1;
}

static int parse_arguments(int argc, char **argv, GenCommand *command)
{
    int option, status;
    argv[0] = (char *)"weft gen";                           // getopt begins its messages with it
    optind = 1;
    while ((option = getopt_long(argc, argv, "s:", long_options, NULL)) != -1) {
        status = take_option(command, option);
        if (status >= 0)
            return status;
    }
    if (optind == argc)
        return usage_error("which benchmark?  There are ssb, tpch and setquery");
    status = take_benchmark(command, argv[optind]);
    if (status >= 0)
        return status;
    if (++optind < argc)
        command->database = argv[optind++];
    if (optind < argc)
        return usage_error("only one database at a time: %s", argv[optind]);
    if (!command->database && !command->options.tbl_dir)
        return usage_error("where to?  Name a database, or a directory with --tbl");
    return -1;
}

// ---- the bar --------------------------------------------------------------------------------------------------------

// Shows the progress until the lock is taken away from it.
typedef struct Bar {
    pthread_t       thread;
    bool            has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t  ended;
    bool            has_ended, has_drawn;
    double          start_ms;
} Bar;

static void draw(double share, double elapsed_s)
{
    fprintf(stderr, "\r%3d%% ", (int)(share * 100));
    for (int i = 0; i < BAR_CELLS; i++)
        fputc(i < (int)(share * BAR_CELLS) ? '#' : '.', stderr);
    fprintf(stderr, " %.1f s", elapsed_s);
    if (share > 0.05)
        fprintf(stderr, ", %.0f s left", elapsed_s / share - elapsed_s);
    fputs("\033[K", stderr);
    fflush(stderr);
}

static void wait_a_tick(Bar *bar)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&bar->ended, &bar->mutex, &until);
}

static void *bar_main(void *context)
{
    Bar *bar = context;
    pthread_mutex_lock(&bar->mutex);
    while (!bar->has_ended) {
        wait_a_tick(bar);
        double elapsed_ms = time_now_ms() - bar->start_ms;
        if (bar->has_ended || elapsed_ms < FIRST_DRAW_MS)
            continue;
        draw(progress / 1000.0, elapsed_ms / 1000);
        bar->has_drawn = true;
    }
    pthread_mutex_unlock(&bar->mutex);
    return NULL;
}

static void bar_begin(Bar *bar)
{
    const char *terminal = getenv("TERM");
    *bar = (Bar){ .start_ms = time_now_ms() };
    pthread_mutex_init(&bar->mutex, NULL);
    pthread_cond_init(&bar->ended, NULL);
    if (isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0)
        bar->has_thread = pthread_create(&bar->thread, NULL, bar_main, bar) == 0;
}

// Returns how long it took, in seconds.
static double bar_end(Bar *bar)
{
    pthread_mutex_lock(&bar->mutex);
    bar->has_ended = true;
    pthread_cond_signal(&bar->ended);
    pthread_mutex_unlock(&bar->mutex);
    if (bar->has_thread)
        pthread_join(bar->thread, NULL);
    if (bar->has_drawn)
        fputs("\r\033[K", stderr);
    pthread_cond_destroy(&bar->ended);
    pthread_mutex_destroy(&bar->mutex);
    return (time_now_ms() - bar->start_ms) / 1000;
}

// ---- the work -------------------------------------------------------------------------------------------------------

static weft_status generate(const GenCommand *command, Arena *arena, Error *err)
{
    Store *store = NULL;
    Budget budget = { 0 };
    if (command->database)
        TRY(store_open(store_directory(arena, command->database), &budget, &store, err));
    Pool *pool = pool_new(command->n_threads);
    weft_status status = command->benchmark->generate(store, pool, &command->options, err);
    pool_free(pool);
    if (store)
        store_close(store);
    return status;
}

// 6001171 as "6,001,171".
static const char *with_commas(u64 number, char text[32])
{
    char digits[24];
    int n_digits = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number), n = 0;
    for (int i = 0; i < n_digits; i++) {
        if (i > 0 && (n_digits - i) % 3 == 0)
            text[n++] = ',';
        text[n++] = digits[i];
    }
    text[n] = '\0';
    return text;
}

static void print_summary(const GenCount *counts, int n_tables, double seconds)
{
    u64 n_rows = 0;
    char text[32];
    for (int i = 0; i < n_tables; i++) {
        printf("%-10s %15s rows\n", counts[i].table, with_commas(counts[i].n_rows, text));
        n_rows += counts[i].n_rows;
    }
    printf("%-10s %15s rows in %.2f s\n", "all", with_commas(n_rows, text), seconds);
}

static void show_error(const Error *err)
{
    fprintf(stderr, "error: %s [%s]\n", err->message, err->sqlstate);
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", err->hint);
}

static int run(GenCommand *command)
{
    GenCount counts[GEN_TABLES_MAX] = { 0 };
    Error err;
    Bar bar;
    command->options.progress = &progress;
    command->options.cancel = &was_interrupted;
    command->options.counts = counts;
    error_clear(&err);
    struct sigaction action = { .sa_handler = on_interrupt }, before;
    sigaction(SIGINT, &action, &before);
    Arena *arena = arena_new(NULL, "gen");
    bar_begin(&bar);
    weft_status status = generate(command, arena, &err);
    double seconds = bar_end(&bar);
    arena_free(arena);
    sigaction(SIGINT, &before, NULL);
    if (status)
        show_error(&err);
    else
        print_summary(counts, command->benchmark->n_tables, seconds);
    return status || fflush(stdout) ? EXIT_FAILED : 0;
}

int gen_main(int argc, char **argv)
{
    GenCommand command = { .options = { .scale = 1, .seed = 1 }, .n_threads = cpu_count() };
    int status = parse_arguments(argc, argv, &command);
    return status >= 0 ? status : run(&command);
}
