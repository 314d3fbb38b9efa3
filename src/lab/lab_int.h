// lab_int.h - how an experiment is written.
//
//     weft_status run_example(Lab *lab)
//     {
//         lab_section(lab, "Two kernels at once");
//         lab_say(lab, "What is shown, and what the paper has (paper 1, figure 6).");
//         LabTable *table = lab_table_new(lab, "example-times", "Times of two kernels");
//         lab_column(table, "kernel", LAB_LEFT);
//         lab_column(table, "ms", LAB_RIGHT);
//         lab_column(table, "paper, ms", LAB_RIGHT);
//         lab_row(table, "A", lab_number(lab, 14.2, 1), "14");
//         lab_table_end(table);                            // printed, CSV written, added to the page
//         Text svg = { 0 };
//         plot_lines(&(LinePlot){ ... }, &svg);
//         lab_plot(lab, "example-plot", "Caption", &svg);  // SVG written, added to the page; frees the text
//         return WEFT_OK;
//     }
//
// The terminal and the page get the same words and numbers in the same order.  File names are the experiment's name, a
// hyphen and what it is.  Files of one experiment must not depend on each other in a circle: lab.c has the list and
// calls the experiments, which call everything else.
//
// A card is simulated or real, and experiments need not know which: lab_run_set runs launches on either.

#ifndef WEFT_LAB_INT_H
#define WEFT_LAB_INT_H

#include "lab/lab.h"
#include "lab/plot.h"
#include "lab/pool.h"
#include "model/model.h"

// ---- the lab --------------------------------------------------------------------------------------------------------

typedef struct LabBlock LabBlock;                           // a heading, a paragraph, a table or a plot of the page

struct Lab {
    LabOptions  options;
    Arena      *arena;                                      // lives as long as the lab
    Error      *err;
    const char *experiment;                                 // the name of the one that runs
    bool        is_sim;
    GpuLimits   limits;                                     // of the card, simulated or real; with its name
    const char *device_title;                               // "Tesla K40, simulated"
    LabGpu     *gpu;                                        // NULL on a simulated card
    LabBlock   *blocks;                                     // of the page
    int         n_blocks;
    double      started_ms, progress_ms;                    // of the experiment; when progress was last printed
};

// How often a random experiment is to run: what --runs says, else what the paper has.
int  lab_runs(const Lab *lab, int paper_runs);
// DONE of TOTAL steps are done.  Cheap: prints a few times a second at most.
void lab_progress(Lab *lab, const char *what, i64 done, i64 total);

// ---- sections, prose, tables, plots (page.c, table.c) ---------------------------------------------------------------
// Text is plain UTF-8 and is escaped where it must be.  What is passed is copied.

void lab_section(Lab *lab, const char *title);
void lab_say(Lab *lab, const char *format, ...) PRINTF_LIKE(2, 3);  // a paragraph
// SVG is what a plot_* function wrote.  NAME is the file's, without .svg.  Frees the text.
weft_status lab_plot(Lab *lab, const char *name, const char *caption, Text *svg);

typedef enum LabAlign { LAB_LEFT, LAB_RIGHT } LabAlign;
typedef struct LabTable LabTable;

LabTable   *lab_table_new(Lab *lab, const char *name, const char *title);   // NAME is the file's, without .csv
void        lab_column(LabTable *table, const char *title, LabAlign align); // before the first row
// As many texts (const char *) as there are columns; "" is an empty cell.  lab_row(table, "A", "14").
void        lab_row_cells(LabTable *table, int n_cells, const char *const *cells);
#define lab_row(table, ...) \
    lab_row_cells((table), COUNT_OF(((const char *const[]){ __VA_ARGS__ })), (const char *const[]){ __VA_ARGS__ })
weft_status lab_table_end(LabTable *table);
// Instead of lab_table_end, for tables too long to read: only the CSV file is written.
weft_status lab_table_file(LabTable *table);

// For cells: text in the lab's arena.
const char *lab_number(Lab *lab, double value, int n_decimals);             // "-" for a value that is not finite
const char *lab_count_text(Lab *lab, i64 value);
const char *lab_ms(Lab *lab, i64 ns);                                       // milliseconds with 3 decimals
const char *lab_percent(Lab *lab, double share);                            // "95.7 %"

// ---- figures of many runs (figures.c) -------------------------------------------------------------------------------

typedef struct LabFigures { int n; double mean, geomean, min, median, p99, max; } LabFigures;
LabFigures lab_figures(const double *values, int n);        // NAN for none, which tables show as "-"
double     lab_pearson(const double *x, const double *y, int n);            // 0 where one of them is constant

// Random numbers of an experiment: the same for the same seed, wherever it runs.
typedef struct LabRandom { u64 state; } LabRandom;
LabRandom lab_random(const Lab *lab, const char *what);     // a stream of its own for each WHAT
u64       lab_random_next(LabRandom *random);
int       lab_random_below(LabRandom *random, int n);       // 0 .. n - 1

// ---- running kernels (set.c) ----------------------------------------------------------------------------------------

// What the kernel needs on this card: recorded on a simulated one, from the compiled code on a real one.
weft_status lab_needs(Lab *lab, const LabKernel *kernel, KernelNeeds *needs);
// Threads of the kernel's grid on this card: its warps on every multiprocessor, of an even number of them, so that
// pairs that share blocks have whole warps, too.
i64         lab_threads(const Lab *lab, const LabKernel *kernel);
// Runs the launches on the idle card and waits for all.  Launches of one stream run one after the other, in the order
// of the array; streams are ranked by number.  MAKESPAN_NS is from the first start to the last end.
weft_status lab_run_set(Lab *lab, const LabLaunch *launches, int n_launches, i64 *makespan_ns);
// The same, and when each block ran on which multiprocessor.  What TIMELINE points to lives in ARENA.
weft_status lab_run_timeline(Lab *lab, Arena *arena, const LabLaunch *launches, int n_launches, Timeline *timeline);

// ---- shapes of launches (shapes.c) ----------------------------------------------------------------------------------

// A kernel of a set, with what launches are computed from.
typedef struct LabMember {
    const LabKernel *kernel;
    LaunchKernel     launch;                                // its needs and threads on this card
} LabMember;

weft_status lab_member(Lab *lab, const LabKernel *kernel, LabMember *member);
// All kernels of a pool on this card, in the order of the pool.  Members live in the lab's arena.
weft_status lab_members(Lab *lab, LabPool pool, LabMember **members, int *n_members);
// With the fewest running rounds (paper 3, equations 10 to 13), as of a kernel that has the card for itself.
weft_status lab_shape_alone(Lab *lab, const LabMember *member, int stream, LabLaunch *launch);
// With a block size of whole warps, all equally likely.
weft_status lab_shape_random(Lab *lab, const LabMember *member, LabRandom *random, int stream, LabLaunch *launch);
// As the plan of these members says: a stream for each, in the plan's order.
void        lab_shapes_planned(const LabMember *const *members, int n_members, const LaunchPlan *plan,
                               LabLaunch *launches);

// CPU time of the calling thread, for solve times: what else runs on the machine does not count.
double      lab_cpu_ms(void);

// ---- the page (page.c) ----------------------------------------------------------------------------------------------

typedef enum LabBlockKind { LAB_BLOCK_EXPERIMENT, LAB_BLOCK_SECTION, LAB_BLOCK_PROSE, LAB_BLOCK_TABLE,
                            LAB_BLOCK_PLOT } LabBlockKind;

struct LabBlock {
    LabBlockKind kind;
    const char  *name;                                      // of the experiment, or of the file
    const char  *title;                                     // of an experiment, a section or a table; caption; prose
    const char  *text;                                      // HTML of a table, SVG of a plot, summary
};

void        page_add(Lab *lab, LabBlockKind kind, const char *name, const char *title, const char *text);
weft_status page_write(Lab *lab);                           // index.html
weft_status lab_write_file(Lab *lab, const char *name, const char *extension, const Text *text);

// ---- experiments, each in a file of its name; the list is in lab.c --------------------------------------------------

weft_status run_occupancy(Lab *lab);
weft_status run_streams(Lab *lab);
weft_status run_launch(Lab *lab);
weft_status run_batch(Lab *lab);
weft_status run_queries(Lab *lab);
weft_status run_fuse(Lab *lab);
weft_status run_flow(Lab *lab);

#endif
