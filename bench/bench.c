// bench.c - what the benchmarks share; see bench.h.

#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const SSB_TABLES[] = { "part", "supplier", "customer", "date", "lineorder" };
static const char *const TPCH_TABLES[] = { "region", "nation",   "part",   "supplier",
                                           "partsupp", "customer", "orders", "lineitem" };
static const char *const SETQUERY_TABLES[] = { "bench" };

const Workload WORKLOAD_SSB = { "ssb", SSB_TABLES, COUNT(SSB_TABLES) };
const Workload WORKLOAD_TPCH = { "tpch", TPCH_TABLES, COUNT(TPCH_TABLES) };
const Workload WORKLOAD_SETQUERY = { "setquery", SETQUERY_TABLES, COUNT(SETQUERY_TABLES) };

#ifdef __clang__
#define BUILT_WITH __VERSION__
#else
#define BUILT_WITH "gcc " __VERSION__
#endif

void die(const char *what, const char *why)
{
    fprintf(stderr, "bench/%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

void must(Peer *peer, bool ok, const char *what)
{
    if (!ok)
        die(what, peer->error);
}

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

double run_ms(Peer *peer, const char *sql)
{
    double start = now_ms();
    bool ok = peer_run(peer, sql, NULL);
    double elapsed = now_ms() - start;
    must(peer, ok, sql);
    return elapsed;
}

// ---- options ------------------------------------------------------------------------------------------------------

bool bench_options(int argc, char **argv, Options *options, const OwnOption *own, int n_own)
{
    enum { MOST = 32 };
    const char *threads = NULL, *repeats = NULL, *command = NULL;
    const OwnOption common[] = {
        { "db", &options->db, NULL },           { "tbl", &options->tbl, NULL },
        { "folder", &options->folder, NULL },   { "duckdb", &options->duckdb, NULL },
        { "scratch", &options->scratch, NULL }, { "scale", &options->scale, NULL },
        { "parts", &options->parts, NULL },     { "record", &options->record, NULL },
        { "child", &options->child, NULL },     { "child-query", &options->child_query, NULL },
        { "threads", &threads, NULL },          { "repeats", &repeats, NULL },
        { "command", &command, NULL },
    };
    OwnOption all[MOST];
    struct option long_options[MOST + 1] = { 0 };
    int n_all = 0, option;
    for (int i = 0; i < COUNT(common); i++)
        all[n_all++] = common[i];
    for (int i = 0; i < n_own && n_all < MOST; i++)
        all[n_all++] = own[i];
    for (int i = 0; i < n_all; i++)
        long_options[i] = (struct option){ all[i].name, all[i].text ? required_argument : no_argument, NULL, i };
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option < 0 || option >= n_all)
            return false;
        if (all[option].text)
            *all[option].text = optarg;
        else
            *all[option].flag = true;
    }
    options->program = argv[0];
    options->threads = threads ? atoi(threads) : options->threads;
    options->repeats = repeats ? atoi(repeats) : options->repeats;
    if (command)
        snprintf(options->command, sizeof options->command, "%s", command);
    return optind == argc;
}

bool options_are_whole(const Options *options)
{
    return options->db && options->tbl && options->duckdb && options->scratch && options->threads > 0 &&
           options->repeats > 0;
}

// ---- the report: printed as it grows, and kept for --record -------------------------------------------------------

void say(Bench *bench, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    vprintf(format, args);
    vfprintf(bench->report, format, again);
    va_end(again);
    va_end(args);
    fflush(stdout);
}

// The rest of the first line of a command's output that begins with PREFIX, or "unknown".
static void ask_command(const char *command, const char *prefix, char *answer, size_t capacity)
{
    char line[512];
    FILE *in = popen(command, "r");
    snprintf(answer, capacity, "unknown");
    bool is_found = false;
    while (in && fgets(line, sizeof line, in)) {
        if (is_found || strncmp(line, prefix, strlen(prefix)))
            continue;
        char *rest = line + strlen(prefix);
        rest += strspn(rest, " \t:");
        rest[strcspn(rest, "\n")] = 0;
        snprintf(answer, capacity, "%s", rest);
        is_found = true;
    }
    if (in)
        pclose(in);
}

static void duckdb_version(Bench *bench, char *version, size_t capacity)
{
    char error[PEER_ERROR_BYTES] = "";
    Rows rows;
    Peer *duckdb = peer_open_duckdb(bench->options.duckdb, NULL, error);
    if (!duckdb)
        die(bench->options.duckdb, error);
    must(duckdb, peer_run(duckdb, "select version()", &rows), "version");
    snprintf(version, capacity, "%s", rows_cell(&rows, 0, 0));
    rows_free(&rows);
    peer_close(duckdb);
}

void write_heading(Bench *bench, const char *title)
{
    char cpu[256], compiler[256], version[64] = "", date[32];
    time_t now = time(NULL);
    ask_command("LC_ALL=C lscpu", "Model name", cpu, sizeof cpu);
    ask_command("cc --version", "", compiler, sizeof compiler);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    say(bench, "# %s, SF %s\n\n", title, bench->options.scale);
    say(bench, "- date: %s\n- CPU: %s, %ld cores\n", date, cpu, sysconf(_SC_NPROCESSORS_ONLN));
    say(bench, "- Weft %s, built with %s, kernels by %s\n", WEFT_VERSION, BUILT_WITH, compiler);
    if (!bench->options.alone) {
        duckdb_version(bench, version, sizeof version);
        say(bench, "- DuckDB %s, tables in memory\n", version);
    }
    say(bench, "- threads: %d%s\n- command: `%s`\n\n", bench->options.threads,
        bench->options.alone ? "" : " on both sides", bench->options.command);
}

// ---- engines ------------------------------------------------------------------------------------------------------

Peer *open_weft(const Bench *bench)
{
    char error[PEER_ERROR_BYTES] = "";
    Peer *weft = peer_open_weft(bench->options.db, error);
    if (!weft)
        die(bench->options.db, error);
    must(weft, peer_runf(weft, "set threads = %d", bench->options.threads), "set threads");
    must(weft, peer_run(weft, "set keep_tables = off", NULL), "set keep_tables");      // each run does all of its work
    return weft;
}

// Tables in memory, filled from the database file: faster than from .tbl, and needed once per process.
Peer *open_duckdb(const Bench *bench)
{
    char error[PEER_ERROR_BYTES] = "";
    Peer *duckdb = peer_open_duckdb(bench->options.duckdb, NULL, error);
    if (!duckdb)
        die(bench->options.duckdb, error);
    must(duckdb, peer_runf(duckdb, "set threads = %d", bench->options.threads), "set threads");
    must(duckdb, peer_runf(duckdb, "attach '%s' as disk (read_only)", bench->duckdb_path), "attach");
    for (int t = 0; t < bench->workload->n_tables; t++) {
        const char *table = bench->workload->tables[t];
        must(duckdb, peer_runf(duckdb, "create table %s as select * from disk.%s", table, table), table);
    }
    must(duckdb, peer_run(duckdb, "detach disk", NULL), "detach");
    return duckdb;
}

void create_tables(Bench *bench, Peer *peer)
{
    char path[512];
    snprintf(path, sizeof path, "%s/schema.sql", bench->options.folder);
    char *schema = read_whole_file(path);
    if (!schema)
        die(path, "cannot be read");
    must(peer, peer_run(peer, schema, NULL), path);
    free(schema);
}

void set_duckdb_path(Bench *bench)
{
    snprintf(bench->duckdb_path, sizeof bench->duckdb_path, "%s/%s.duckdb", bench->options.scratch,
             bench->workload->name);
}

// Made once from the .tbl files, under another name until it is complete.
static void make_duckdb_file(Bench *bench)
{
    char begun[600], path[512], error[PEER_ERROR_BYTES] = "";
    set_duckdb_path(bench);
    if (access(bench->duckdb_path, R_OK) == 0)
        return;
    snprintf(begun, sizeof begun, "%s.begun", bench->duckdb_path);
    unlink(begun);
    fprintf(stderr, "loading DuckDB\n");
    Peer *duckdb = peer_open_duckdb(bench->options.duckdb, begun, error);
    if (!duckdb)
        die(begun, error);
    create_tables(bench, duckdb);
    for (int t = 0; t < bench->workload->n_tables; t++) {
        snprintf(path, sizeof path, "%s/%s.tbl", bench->options.tbl, bench->workload->tables[t]);
        must(duckdb, peer_load_duckdb(duckdb, bench->workload->tables[t], path), path);
    }
    must(duckdb, peer_run(duckdb, "checkpoint", NULL), "checkpoint");
    peer_close(duckdb);
    if (rename(begun, bench->duckdb_path))
        die(begun, "cannot be renamed");
}

// Averages are doubles on both sides, added up in another order: numbers with a point are compared as such.
static void find_floats(const Rows *rows, bool *is_float)
{
    for (size_t row = 0; row < rows->n_rows; row++)
        for (int column = 0; column < rows->n_columns; column++) {
            const char *cell = rows_cell(rows, row, column);
            if (cell && *cell && strspn(cell, "-0123456789.") == strlen(cell) && strchr(cell, '.'))
                is_float[column] = true;
        }
}

void check_answers(Peer *weft, Peer *duckdb, const char *name, const char *sql)
{
    Rows ours, theirs;
    must(weft, peer_run(weft, sql, &ours), name);
    must(duckdb, peer_run(duckdb, sql, &theirs), name);
    bool *is_float = calloc((size_t)ours.n_columns + 1, sizeof *is_float);
    find_floats(&ours, is_float);
    char *difference = rows_difference(&ours, &theirs, is_float, NULL, 0);
    if (difference)
        die(name, difference);
    free(is_float);
    rows_free(&ours);
    rows_free(&theirs);
}

// ---- processes of their own ----------------------------------------------------------------------------------------

void remove_tree(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

void make_empty_cache(const Bench *bench, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/empty-cache", bench->options.scratch);
    remove_tree(path);
    if (mkdir(path, 0700))
        die(path, "cannot be made");
}

static void start_child(const Bench *bench, const Child *child)
{
    const Options *o = &bench->options;
    char threads[16], repeats[16];
    snprintf(threads, sizeof threads, "%d", o->threads);
    snprintf(repeats, sizeof repeats, "%d", o->repeats);
    setenv(child->name, child->value, 1);
    execl(o->program, o->program, "--child", child->what, "--child-query", child->query_path, "--db", o->db, "--tbl",
          o->tbl, "--folder", o->folder, "--duckdb", o->duckdb, "--scratch", o->scratch, "--threads", threads,
          "--repeats", repeats, child->device ? "--device" : NULL, child->device, (char *)NULL);
    perror(o->program);
    _exit(127);
}

void ask_child(const Bench *bench, const Child *child, double *answers, int n_answers)
{
    int ends[2], status = 1, n_read = 0;
    if (pipe(ends))
        die("pipe", "failed");
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        start_child(bench, child);
    }
    close(ends[1]);
    FILE *in = process > 0 ? fdopen(ends[0], "r") : NULL;
    while (in && n_read < n_answers && fscanf(in, "%lf", &answers[n_read]) == 1)
        n_read++;
    if (in)
        fclose(in);
    if (process < 0 || waitpid(process, &status, 0) < 0 || status || n_read != n_answers)
        die(child->query_path, "the process that measures it failed");
}

// ---- begin and end ---------------------------------------------------------------------------------------------

void load_queries(Bench *bench)
{
    char pattern[512];
    glob_t files;
    snprintf(pattern, sizeof pattern, "%s/queries/q*.sql", bench->options.folder);
    if (glob(pattern, 0, NULL, &files))
        die(pattern, "no queries");
    for (size_t i = 0; i < files.gl_pathc && bench->n_queries < MAX_QUERIES; i++) {
        BenchQuery *query = &bench->queries[bench->n_queries++];
        query->sql = read_whole_file(files.gl_pathv[i]);
        if (!query->sql)
            die(files.gl_pathv[i], "cannot be read");
        snprintf(query->path, sizeof query->path, "%s", files.gl_pathv[i]);
        snprintf(query->name, sizeof query->name, "%s", basename(files.gl_pathv[i]));
        query->name[strcspn(query->name, ".")] = 0;
    }
    globfree(&files);
}

static void write_record(const Bench *bench)
{
    FILE *out = fopen(bench->options.record, "w");
    if (!out || fwrite(bench->text, 1, bench->text_length, out) != bench->text_length || fclose(out))
        die(bench->options.record, "cannot be written");
}

void bench_begin(Bench *bench)
{
    bench->report = open_memstream(&bench->text, &bench->text_length);
    load_queries(bench);
    if (!bench->options.alone)
        make_duckdb_file(bench);
}

void bench_end(Bench *bench)
{
    fclose(bench->report);
    if (bench->options.record)
        write_record(bench);
    free(bench->text);
    for (int q = 0; q < bench->n_queries; q++)
        free(bench->queries[q].sql);
}
