// lab.c - the list of experiments, the card they run on, and one after the other.

#include <ctype.h>
#include <stdlib.h>

#include "lab/lab_int.h"

// ---- the list -------------------------------------------------------------------------------------------------------

static const Experiment experiments[] = {
    { "occupancy", "one kernel: occupancy and running rounds against block size (paper 3)", run_occupancy },
    { "streams", "the block scheduler: figures 5 to 10 as timelines, what runs together (paper 3)", run_streams },
    { "launch", "launch parameters: 16 and 31 kernels at once, against sequential and random (paper 1)", run_launch },
    { "batch", "batches: sets S, CR, CO, BO of 39, 52 and 65 kernels (paper 1)", run_batch },
    { "queries", "queries Q1 to Q5: alone, in pairs, 1 to 16 at once (paper 2)", run_queries },
    { "fuse", "kernels fused and unfused: patterns (a) to (e), TPC-H Q1 (paper 4)", run_fuse },
    { "flow", "frames by copies and launches, and by operators that stay; RAID-6, AES, Set Query (paper 5)", run_flow },
};

_Static_assert(COUNT_OF(experiments) <= LAB_EXPERIMENTS_MAX, "room for all");

int lab_count(void)
{
    return COUNT_OF(experiments);
}

const Experiment *lab_experiment(int i)
{
    ASSERT(i >= 0 && i < COUNT_OF(experiments));
    return &experiments[i];
}

weft_status lab_find(const char *name, const Experiment **found, int *n_found, Error *err)
{
    Text names = { 0 };
    *n_found = 0;
    for (int i = 0; i < COUNT_OF(experiments); i++) {
        if (!strcmp(name, "all") || !strcmp(name, experiments[i].name))
            found[(*n_found)++] = &experiments[i];
        text_add(&names, "%s, ", experiments[i].name);
    }
    if (!*n_found) {
        fail(err, WEFT_UNDEFINED_OBJECT, -1, "there is no experiment \"%s\"", name);
        error_hint(err, "Experiments are %sand all.", names.bytes);
    }
    text_free(&names);
    return *n_found ? WEFT_OK : err->status;
}

// ---- the card -------------------------------------------------------------------------------------------------------

// Letters and digits in lower case, so that "k40" is in "Tesla K40" and "titanx" in "GTX TITAN X (Maxwell)".
static void simplify(const char *name, char *simple, size_t room)
{
    size_t length = 0;
    for (; *name && length + 1 < room; name++)
        if (isalnum((u8)*name))
            simple[length++] = (char)tolower((u8)*name);
    simple[length] = 0;
}

// The first card whose name has this in it: "titanx" is the Maxwell, which the papers used first.
static const char *find_card(const char *name)
{
    char wanted[64], own[64];
    simplify(name, wanted, sizeof(wanted));
    for (int i = 0; *wanted && i < limits_card_count(); i++) {
        simplify(limits_card_name(i), own, sizeof(own));
        if (strstr(own, wanted))
            return limits_card_name(i);
    }
    return NULL;
}

static weft_status no_such_device(Lab *lab, const char *device)
{
    Text names = { 0 };
    for (int i = 0; i < limits_card_count(); i++)
        text_add(&names, "%s%s", i ? ", " : "", limits_card_name(i));
    fail(lab->err, WEFT_UNDEFINED_OBJECT, -1, "there is no device \"%s\"", device);
    error_hint(lab->err, "Devices are cuda, cuda:N and sim:NAME; part of a name will do. Simulated cards: %s.",
               names.bytes);
    text_free(&names);
    return lab->err->status;
}

static weft_status open_simulated(Lab *lab, const char *device)
{
    const char *card = find_card(device + strlen("sim:"));
    if (!card)
        return no_such_device(lab, device);
    TRY(limits_of_card(card, &lab->limits, lab->err));
    lab->is_sim = true;
    lab->device_title = arena_printf(lab->arena, "%s, simulated", card);
    return WEFT_OK;
}

static bool is_cuda(const char *device, int *ordinal)
{
    char *end;
    *ordinal = 0;
    if (!strcmp(device, "cuda"))
        return true;
    if (strncmp(device, "cuda:", 5) || !isdigit((u8)device[5]))
        return false;
    const long number = strtol(device + 5, &end, 10);
    *ordinal = (int)MIN_OF(number, 1000);
    return !*end;
}

static weft_status open_device(Lab *lab)
{
    const char *device = lab->options.device;
    int ordinal;
    if (!strncmp(device, "sim:", 4))
        return open_simulated(lab, device);
    if (!is_cuda(device, &ordinal))
        return no_such_device(lab, device);
    TRY(lab_gpu_open(lab->arena, ordinal, &lab->gpu, lab->err));
    lab->limits = *lab_gpu_limits(lab->gpu);
    if (!lab->limits.name)
        lab->limits.name = "a GPU";
    lab->device_title = lab->limits.name;
    return WEFT_OK;
}

// ---- running --------------------------------------------------------------------------------------------------------

static void end_progress(Lab *lab)
{
    const LabOptions *options = &lab->options;
    if (options->progress)
        fprintf(options->progress, "%s%s: done in %.1f s\n", options->progress_is_terminal ? "\r\033[K" : "",
                lab->experiment, (time_now_ms() - lab->started_ms) / 1000);
}

static weft_status run_experiment(Lab *lab, const Experiment *experiment)
{
    lab->experiment = experiment->name;
    lab->started_ms = time_now_ms();
    if (lab->options.report)
        fprintf(lab->options.report, "\n# %s: %s\n", experiment->name, experiment->summary);
    page_add(lab, LAB_BLOCK_EXPERIMENT, experiment->name, experiment->summary, NULL);
    TRY(experiment->run(lab));
    end_progress(lab);
    return WEFT_OK;
}

static weft_status run_all(Lab *lab, const Experiment *const *chosen, int n_chosen)
{
    TRY(open_device(lab));
    if (lab->options.out)
        TRY(dir_make(lab->options.out, lab->err));
    if (lab->options.report)
        fprintf(lab->options.report, "Card: %s\n", lab->device_title);
    for (int i = 0; i < n_chosen; i++)
        TRY(run_experiment(lab, chosen[i]));
    TRY(page_write(lab));
    if (lab->options.report && lab->options.out)
        fprintf(lab->options.report, "\nPage: %s/index.html\n", lab->options.out);
    return WEFT_OK;
}

weft_status lab_run(const LabOptions *options, const Experiment *const *chosen, int n_chosen, Error *err)
{
    Arena *arena = arena_new(NULL, "lab");
    Lab lab = { .options = *options, .arena = arena, .err = err };
    if (!lab.options.device)
        lab.options.device = "sim:k40";
    const weft_status status = run_all(&lab, chosen, n_chosen);
    arena_free(arena);
    return status;
}
