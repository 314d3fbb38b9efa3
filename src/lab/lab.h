// lab.h - weft lab: the experiments of the papers as commands.
//
//     LabOptions options = { .device = "sim:k40", .runs = 5, .seed = 1, .out = "lab" };
//     const Experiment *all[LAB_EXPERIMENTS_MAX];
//     TRY(lab_find("all", all, &n, &err));
//     TRY(lab_run(&options, all, n, &err));
//
// An experiment prints tables beside the paper's figures and writes CSV files, SVG plots and its sections of one HTML
// page.  It runs on a simulated card (src/model) or on a GPU.  How an experiment is written is in lab_int.h.

#ifndef WEFT_LAB_H
#define WEFT_LAB_H

#include <stdio.h>

#include "base/base.h"

enum { LAB_EXPERIMENTS_MAX = 16 };

typedef struct Lab Lab;

typedef struct Experiment {
    const char *name;
    const char *summary;                                    // one line for the list
    weft_status (*run)(Lab *lab);
} Experiment;

typedef struct LabOptions {
    const char *device;                                     // "sim:NAME" or "cuda", "cuda:N"; NULL: sim:k40
    int   runs;                                             // of each random experiment; 0: as many as the paper has
    i64   frame_bytes;                                      // of flow: this frame size only; 0: 4 KB to 16 MB
    i64   rows;                                             // of flow's Set Query; 0: ten million, or one without a GPU
    int   measure_ms;                                       // of flow: time of one measurement; 0: 50 ms
    int   seconds;                                          // of flow: all of its parts; 0: 85, no limit without a GPU
    const char *parts;                                      // of flow: these only, with commas; NULL: all
    u64   seed;                                             // of what is random; equal seeds, equal experiments
    const char *out;                                        // folder of the files; NULL: no files are written
    FILE *report;                                           // tables and prose; NULL: nowhere
    FILE *progress;                                         // a line that changes while it runs; NULL: none
    bool  progress_is_terminal;                             // false: a line for each experiment, nothing between
} LabOptions;

int               lab_count(void);
const Experiment *lab_experiment(int i);                    // of 0 .. lab_count() - 1
// The experiment of that name, or all.  UNDEFINED_OBJECT with a hint for any other name.  FOUND has room for
// LAB_EXPERIMENTS_MAX.
weft_status lab_find(const char *name, const Experiment **found, int *n_found, Error *err);

// Runs the experiments one after the other and writes index.html at the end.  Stops at the first that fails.
weft_status lab_run(const LabOptions *options, const Experiment *const *experiments, int n_experiments, Error *err);

#endif
