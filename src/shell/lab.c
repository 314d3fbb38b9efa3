// lab.c - weft lab: the papers' experiments from the command line.  What they do is in src/lab.

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/lab.h"
#include "shell/shell.h"

static const char help_text[] =
    "Usage: weft lab [EXPERIMENT [OPTION]...]\n"
    "\n"
    "Runs an experiment of the papers behind Weft, prints its figures beside the paper's and writes tables (CSV),\n"
    "plots (SVG) and a page (index.html).  Without an experiment: lists them.\n"
    "\n"
    "      --device DEVICE   sim:NAME, a simulated card by part of its name (sim:k40), or cuda, or cuda:N\n"
    "      --runs N          runs of each experiment (as many as the paper has; flow: 3, without a GPU 1)\n"
    "      --seed N          of what is random (1); the same seed gives the same experiment\n"
    "      --out DIR         folder of the files (weft-lab)\n"
    "      --size BYTES      flow: frames of this size only, 4K to 16M (4K to 16M; without a GPU 4K to 1M)\n"
    "      --ms N            flow: milliseconds of one measurement (50)\n"
    "      --rows N          flow: rows of Set Query's table (10000000; without a GPU 1000000)\n"
    "      --parts LIST      flow: these parts only: answers, ping-pong, chains, rounds, splits, encoding, workloads,\n"
    "                        crossover, streaming, set-query, page-faults\n"
    "      --seconds N       flow: time for all parts (85; without a GPU no limit); then rows say that none is left\n"
    "      --help            this text\n"
    "\n"
    "Exit status: 0 when all went well, 1 when an experiment failed, 2 for a usage error.\n";

enum { OPTION_DEVICE = 256, OPTION_RUNS, OPTION_SEED, OPTION_OUT, OPTION_SIZE, OPTION_MS,
       OPTION_ROWS, OPTION_PARTS, OPTION_SECONDS, OPTION_HELP };

static const struct option long_options[] = {
    { "device", required_argument, NULL, OPTION_DEVICE },
    { "runs",   required_argument, NULL, OPTION_RUNS },
    { "seed",   required_argument, NULL, OPTION_SEED },
    { "out",    required_argument, NULL, OPTION_OUT },
    { "size",   required_argument, NULL, OPTION_SIZE },
    { "ms",     required_argument, NULL, OPTION_MS },
    { "rows",   required_argument, NULL, OPTION_ROWS },
    { "parts",  required_argument, NULL, OPTION_PARTS },
    { "seconds", required_argument, NULL, OPTION_SECONDS },
    { "help",   no_argument,       NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

static int usage_error(const char *message, const char *argument)
{
    if (message)
        fprintf(stderr, "weft lab: %s%s\n", message, argument);
    fputs("Try 'weft lab --help'.\n", stderr);
    return EXIT_USAGE;
}

static bool parse_number(const char *text, unsigned long long least, unsigned long long most, unsigned long long *value)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *value = strtoull(text, &end, 10);
    return !*end && *value >= least && *value <= most;
}

// 16384, 16K, 1M: a power of two from 4K to 16M.
static bool parse_size(const char *text, i64 *bytes)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    const unsigned long long number = strtoull(text, &end, 10);
    const int shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 0;
    if (number > 16 << 20 || end[shift > 0])
        return false;
    *bytes = (i64)(number << shift);
    return *bytes >= 4096 && *bytes <= 16 << 20 && !(*bytes & (*bytes - 1));
}

static int parse_option(int option, LabOptions *options)
{
    enum { RUNS_MAX = 1000000 };
    unsigned long long number;
    switch (option) {
    case OPTION_DEVICE: options->device = optarg; return 0;
    case OPTION_OUT: options->out = optarg; return 0;
    case OPTION_PARTS:
        if (!*optarg)
            return usage_error("--parts takes names of parts", "");
        options->parts = optarg;
        return 0;
    case OPTION_SECONDS:
        if (!parse_number(optarg, 1, 86400, &number))
            return usage_error("--seconds takes a number from 1 to 86400, not ", optarg);
        options->seconds = (int)number;
        return 0;
    case OPTION_RUNS:
        if (!parse_number(optarg, 1, RUNS_MAX, &number))
            return usage_error("--runs takes a number from 1 to 1000000, not ", optarg);
        options->runs = (int)number;
        return 0;
    case OPTION_SIZE:
        return parse_size(optarg, &options->frame_bytes)
                   ? 0
                   : usage_error("--size takes a power of two from 4K to 16M, not ", optarg);
    case OPTION_MS:
        if (!parse_number(optarg, 1, 60000, &number))
            return usage_error("--ms takes a number from 1 to 60000, not ", optarg);
        options->measure_ms = (int)number;
        return 0;
    case OPTION_ROWS:
        if (!parse_number(optarg, 1, 1000000000, &number))
            return usage_error("--rows takes a number from 1 to 1000000000, not ", optarg);
        options->rows = (i64)number;
        return 0;
    case OPTION_SEED:
        if (!parse_number(optarg, 0, ULLONG_MAX, &number))
            return usage_error("--seed takes a number, not ", optarg);
        options->seed = number;
        return 0;
    default: return usage_error(NULL, NULL);                // getopt has said what is wrong
    }
}

static int list_experiments(void)
{
    for (int i = 0; i < lab_count(); i++)
        printf("%-10s %s\n", lab_experiment(i)->name, lab_experiment(i)->summary);
    printf("%-10s %s\n", "all", "all of them, in one page");
    return 0;
}

static int report(const Error *error, int status)
{
    fprintf(stderr, "weft lab: %s [%s]\n", error->message, error->sqlstate);
    if (error->hint[0])
        fprintf(stderr, "hint: %s\n", error->hint);
    return status;
}

int lab_main(int argc, char **argv)
{
    const Experiment *chosen[LAB_EXPERIMENTS_MAX];
    LabOptions options = { .seed = 1, .out = "weft-lab", .report = stdout, .progress = stderr };
    Error error = { .status = WEFT_OK };
    int option, n_chosen;
    options.progress_is_terminal = isatty(STDERR_FILENO);
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            fputs(help_text, stdout);
            return 0;
        }
        const int status = parse_option(option, &options);
        if (status)
            return status;
    }
    if (optind == argc)
        return list_experiments();
    if (optind + 1 < argc)
        return usage_error("one experiment at a time, or all: ", argv[optind + 1]);
    if (lab_find(argv[optind], chosen, &n_chosen, &error))
        return report(&error, EXIT_USAGE);
    if (lab_run(&options, chosen, n_chosen, &error))
        return report(&error, error.status == WEFT_UNDEFINED_OBJECT ? EXIT_USAGE : EXIT_SQL_ERROR);
    return fflush(stdout) || ferror(stdout) ? EXIT_SQL_ERROR : 0;
}
