// streams.c - paper 3, section IV: how the block scheduler treats streams.
//
// The figures are those of the paper's own cards, whatever card was chosen, since their phases depend on the number of
// multiprocessors.  The chosen card runs streams of the same shape afterwards: a simulated one by the same rules, a
// real one beside what the rules predict for it.

#include "lab/lab_int.h"

enum { STREAMS_MAX = 8, CHAIN_MAX = 2, NS_PER_MS = 1000000, PHASES_DRAWN = 12 };

typedef struct FigureStream {
    const char *kernels[CHAIN_MAX];                         // of Table III; NULL: no second one
    int n_blocks[CHAIN_MAX];
} FigureStream;

typedef struct StreamFigure {
    const char *name;                                       // of the file
    const char *title;
    const char *card;
    const char *claim;                                      // what it shows
    const char *paper_phases;                               // in ms
    int n_streams;
    FigureStream streams[STREAMS_MAX];                      // the last one that is given stands for those after it
} StreamFigure;

static const StreamFigure figures[] = {
    { "streams-figure-5", "figure 5", "GTX 680", "four of eight streams run at once", "14, 14", 8,
      { { { "A" }, { 4 } } } },
    { "streams-figure-6", "figure 6", "GTX 680", "blocks of a kernel take as many multiprocessors as possible",
      "14, 6, 20", 3, { { { "A" }, { 8 } }, { { "B" }, { 5 } } } },
    { "streams-figure-7", "figures 7 and 8", "GTX 680", "blocks start as soon as there is room", "14, 6, 8", 3,
      { { { "A" }, { 8 } }, { { "B" }, { 8 } }, { { "A" }, { 8 } } } },
    { "streams-figure-9", "figure 9", "GTX 680", "without Hyper-Q a stream waits for those of higher rank",
      "14, 14, 6, 14, 6, 14, 6, 14", 4, { { { "A", "B" }, { 8, 6 } } } },
    { "streams-figure-10", "figure 10", "Tesla K40", "with Hyper-Q every A starts before any B", "14, 20", 8,
      { { { "A", "B" }, { 1, 1 } } } },
};

static const FigureStream *stream_of(const StreamFigure *figure, int stream)
{
    const FigureStream *found = &figure->streams[0];
    for (int i = 1; i <= stream && i < STREAMS_MAX; i++)
        if (figure->streams[i].kernels[0])
            found = &figure->streams[i];
    return found;
}

static int chain_length(const FigureStream *stream)
{
    return stream->kernels[1] ? 2 : 1;
}

static SimKernel sim_kernel(const char *name, int n_blocks)
{
    const LabKernel *kernel = lab_pool_find(LAB_POOL_TABLE3, name);
    return (SimKernel){ kernel->needs, kernel->threads_per_block, n_blocks, kernel->duration_ns };
}

// ---- the figures ----------------------------------------------------------------------------------------------------

typedef struct FigureRun {
    GpuLimits   limits;
    SimStream   streams[STREAMS_MAX];
    SimKernel   kernels[STREAMS_MAX][CHAIN_MAX];
    const char *names[STREAMS_MAX * CHAIN_MAX];             // A1, B1, A2, ...: by kernel and stream, as in the paper
    int         n_kernels;                                  // of the longest stream
    Timeline    timeline;
} FigureRun;

static weft_status simulate(Lab *lab, const StreamFigure *figure, const GpuLimits *limits, FigureRun *run)
{
    run->limits = *limits;
    run->n_kernels = 1;
    for (int i = 0; i < figure->n_streams; i++)
        run->n_kernels = MAX_OF(run->n_kernels, chain_length(stream_of(figure, i)));
    for (int i = 0; i < figure->n_streams; i++) {
        const FigureStream *stream = stream_of(figure, i);
        for (int k = 0; k < chain_length(stream); k++) {
            run->kernels[i][k] = sim_kernel(stream->kernels[k], stream->n_blocks[k]);
            run->names[i * run->n_kernels + k] = arena_printf(lab->arena, "%s%d", stream->kernels[k], i + 1);
        }
        run->streams[i] = (SimStream){ run->kernels[i], chain_length(stream) };
    }
    return sim_run(lab->arena, limits, run->streams, figure->n_streams, &run->timeline, lab->err);
}

static const char *phases_text(Lab *lab, const Timeline *timeline)
{
    Text text = { 0 };
    i64 before_ns = 0;
    for (int i = 0; i < timeline->n_phases; i++) {
        text_add(&text, "%s%lld", i ? ", " : "", (long long)((timeline->phase_ends_ns[i] - before_ns) / NS_PER_MS));
        before_ns = timeline->phase_ends_ns[i];
    }
    return text_keep(lab->arena, &text);
}

static const char *streams_text(Lab *lab, const StreamFigure *figure)
{
    Text text = { 0 };
    for (int i = 0; i < figure->n_streams; i++) {
        const FigureStream *stream = stream_of(figure, i);
        int n_equal = 1;
        while (i + 1 < figure->n_streams && stream_of(figure, i + 1) == stream) {
            n_equal++;
            i++;
        }
        text_add(&text, "%s", text.length ? " | " : "");
        if (n_equal > 1)
            text_add(&text, "%d times ", n_equal);
        for (int k = 0; k < chain_length(stream); k++)
            text_add(&text, "%s%d %s", k ? ", " : "", stream->n_blocks[k], stream->kernels[k]);
    }
    return text_keep(lab->arena, &text);
}

static weft_status draw(Lab *lab, const StreamFigure *figure, const FigureRun *run)
{
    Text svg = { 0 };
    const char *title = arena_printf(lab->arena, "Paper 3, %s: %s", figure->title, figure->claim);
    plot_gantt(&(GanttPlot){ .title = title,
                             .description = arena_printf(lab->arena, "Blocks on each multiprocessor of the %s over "
                                                         "time; phases of %s ms.", figure->card,
                                                         phases_text(lab, &run->timeline)),
                             .timeline = &run->timeline,
                             .n_multiprocessors = run->limits.n_multiprocessors,
                             .n_streams = figure->n_streams,
                             .names = run->names,
                             .n_kernels = run->n_kernels },
               &svg);
    return lab_plot(lab, figure->name,
                    arena_printf(lab->arena, "%s, streams: %s", figure->card, streams_text(lab, figure)), &svg);
}

static weft_status show_figures(Lab *lab)
{
    FigureRun *runs = arena_array(lab->arena, FigureRun, COUNT_OF(figures));
    lab_section(lab, "Figures 5 to 10 on the paper's cards, simulated");
    lab_say(lab, "A block of kernel A takes 14 ms and one of B 20 ms (Table IV). \"8 A\" is a kernel A of 8 blocks. A "
                 "phase ends when blocks end. A1 is the kernel A of the first stream.");
    LabTable *table = lab_table_new(lab, "streams-phases", "Phases in ms");
    lab_column(table, "figure", LAB_LEFT);
    lab_column(table, "card", LAB_LEFT);
    lab_column(table, "streams", LAB_LEFT);
    lab_column(table, "phases", LAB_LEFT);
    lab_column(table, "paper", LAB_LEFT);
    lab_column(table, "agrees", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(figures); i++) {
        GpuLimits limits;
        TRY(limits_of_card(figures[i].card, &limits, lab->err));
        TRY(simulate(lab, &figures[i], &limits, &runs[i]));
        const char *phases = phases_text(lab, &runs[i].timeline);
        lab_row(table, figures[i].title, figures[i].card, streams_text(lab, &figures[i]), phases,
                figures[i].paper_phases, strcmp(phases, figures[i].paper_phases) ? "no" : "yes");
        lab_progress(lab, "figures", i + 1, COUNT_OF(figures));
    }
    TRY(lab_table_end(table));
    for (int i = 0; i < COUNT_OF(figures); i++)
        TRY(draw(lab, &figures[i], &runs[i]));
    return WEFT_OK;
}

// ---- what runs together ---------------------------------------------------------------------------------------------

typedef struct Company {
    const char *first, *second;
    const char *paper;
} Company;

static const Company companies[] = {
    { "A", "B", "1 A + 1 B" },
    { "C", "D", "1 C + 5 D" },
    { "E", "F", "1 E + 1 F" },
};

// Blocks of each of the two streams on a multiprocessor that start before the first ends.
static void count_on(const Timeline *timeline, int multiprocessor, int counts[2])
{
    i64 first_end_ns = INT64_MAX;
    counts[0] = counts[1] = 0;
    for (int i = timeline->first_span[multiprocessor]; i < timeline->first_span[multiprocessor + 1]; i++)
        first_end_ns = MIN_OF(first_end_ns, timeline->spans[i].end_ns);
    for (int i = timeline->first_span[multiprocessor]; i < timeline->first_span[multiprocessor + 1]; i++)
        counts[timeline->spans[i].stream] += timeline->spans[i].start_ns < first_end_ns;
}

static weft_status count_together(Lab *lab, const GpuLimits *limits, const Company *company, int counts[2])
{
    const int n = limits->n_multiprocessors;
    const SimKernel first = sim_kernel(company->first, n), second = sim_kernel(company->second, n * limits->blocks);
    const SimStream streams[] = { { &first, 1 }, { &second, 1 } };
    Timeline timeline;
    TRY(sim_run(lab->arena, limits, streams, 2, &timeline, lab->err));
    count_on(&timeline, 0, counts);
    return WEFT_OK;
}

// On the GPU, as text: what most multiprocessors had.  There is one block more than is predicted to fit.
static weft_status measure_together(Lab *lab, const Company *company, int n_predicted, const char **text)
{
    const LabKernel *kernels[] = { lab_pool_find(LAB_POOL_TABLE3, company->first),
                                   lab_pool_find(LAB_POOL_TABLE3, company->second) };
    const int n = lab->limits.n_multiprocessors;
    const LabLaunch launches[] = { { kernels[0], kernels[0]->threads_per_block, n, 0 },
                                   { kernels[1], kernels[1]->threads_per_block, (i64)n * (n_predicted + 1), 1 } };
    int best[2] = { 0 }, n_best = 0;
    Timeline timeline;
    TRY(lab_run_timeline(lab, lab->arena, launches, 2, &timeline));
    for (int mp = 0; mp < n; mp++) {
        int counts[2], n_equal = 0;
        count_on(&timeline, mp, counts);
        for (int other = 0; other < n; other++) {
            int others[2];
            count_on(&timeline, other, others);
            n_equal += others[0] == counts[0] && others[1] == counts[1];
        }
        if (n_equal > n_best) {
            n_best = n_equal;
            memcpy(best, counts, sizeof(best));
        }
    }
    *text = arena_printf(lab->arena, "%d %s + %d %s (on %d of %d)", best[0], company->first, best[1], company->second,
                         n_best, n);
    return WEFT_OK;
}

// What keeps one more block of the second kernel away.
static const char *bottleneck(const GpuLimits *limits, const BlockCost *next, int blocks, int warps, int registers,
                              int shared)
{
    if (blocks + 1 > limits->blocks)
        return "blocks";
    if (warps + next->warps > limits->warps)
        return "warps";
    if (shared + next->shared > limits->shared)
        return "shared memory";
    return registers + next->registers > limits->registers ? "registers" : "registers of a partition";
}

static bool runs_on(const GpuLimits *limits, const LabKernel *kernel)
{
    return block_is_allowed(limits, &kernel->needs, kernel->threads_per_block);
}

// What was measured has a place only where something is measured.
static void add_company_row(const Lab *lab, LabTable *table, const char *const cells[8])
{
    const char *shown[8];
    int n = 0;
    for (int i = 0; i < 8; i++)
        if (i != 3 || !lab->is_sim)
            shown[n++] = cells[i];
    lab_row_cells(table, n, shown);
}

static weft_status add_company(Lab *lab, LabTable *table, const GpuLimits *limits, const Company *company)
{
    int counts[2];
    const char *measured = "";
    const LabKernel *first = lab_pool_find(LAB_POOL_TABLE3, company->first);
    const LabKernel *second = lab_pool_find(LAB_POOL_TABLE3, company->second);
    if (!runs_on(limits, first) || !runs_on(limits, second)) {
        const char *missing = runs_on(limits, first) ? company->second : company->first;
        add_company_row(lab, table,
                        (const char *[]){ limits->name, arena_printf(lab->arena, "%s does not run there", missing), "",
                                          "", "", "", "", "block" });
        return WEFT_OK;
    }
    TRY(count_together(lab, limits, company, counts));
    if (!lab->is_sim && limits == &lab->limits)
        TRY(measure_together(lab, company, counts[1], &measured));
    const BlockCost a = block_cost(limits, &first->needs, first->threads_per_block);
    const BlockCost b = block_cost(limits, &second->needs, second->threads_per_block);
    const int warps = counts[0] * a.warps + counts[1] * b.warps;
    const int registers = counts[0] * a.registers + counts[1] * b.registers;
    const int shared = counts[0] * a.shared + counts[1] * b.shared;
    const char *ours =
        arena_printf(lab->arena, "%d %s + %d %s", counts[0], company->first, counts[1], company->second);
    add_company_row(lab, table,
                    (const char *[]){ limits->name, ours, strcmp(limits->name, "GTX 680") ? "" : company->paper,
                                      measured, lab_count_text(lab, warps), lab_count_text(lab, registers),
                                      lab_count_text(lab, shared),
                                      bottleneck(limits, &b, counts[0] + counts[1], warps, registers, shared) });
    return WEFT_OK;
}

static weft_status show_together(Lab *lab)
{
    GpuLimits paper_card;
    TRY(limits_of_card("GTX 680", &paper_card, lab->err));
    lab_section(lab, "What runs together on a multiprocessor (Table III)");
    lab_say(lab, "One block of the first kernel is on each multiprocessor; the second kernel fills what is left.");
    LabTable *table = lab_table_new(lab, "streams-together", "Blocks on one multiprocessor at once");
    lab_column(table, "card", LAB_LEFT);
    lab_column(table, "predicted", LAB_LEFT);
    lab_column(table, "paper", LAB_LEFT);
    if (!lab->is_sim)
        lab_column(table, "measured here", LAB_LEFT);
    lab_column(table, "warps", LAB_RIGHT);
    lab_column(table, "registers", LAB_RIGHT);
    lab_column(table, "shared, bytes", LAB_RIGHT);
    lab_column(table, "bottleneck", LAB_LEFT);
    for (int i = 0; i < COUNT_OF(companies); i++)
        TRY(add_company(lab, table, &paper_card, &companies[i]));
    for (int i = 0; i < COUNT_OF(companies) && strcmp(lab->limits.name, "GTX 680"); i++)
        TRY(add_company(lab, table, &lab->limits, &companies[i]));
    return lab_table_end(table);
}

// ---- misprints ------------------------------------------------------------------------------------------------------

static const char *occupancy_text(Lab *lab, const GpuLimits *limits, const char *name)
{
    const LabKernel *kernel = lab_pool_find(LAB_POOL_TABLE3, name);
    const Occupancy occupancy = occupancy_of(limits, &kernel->needs, kernel->threads_per_block);
    return arena_printf(lab->arena, "%d bytes / %d bytes = %d blocks of %d warps: %d of %d warps, %s", limits->shared,
                        kernel->needs.shared, occupancy.blocks, kernel->threads_per_block / limits->threads_per_warp,
                        occupancy.warps, limits->warps, lab_percent(lab, occupancy.share));
}

static weft_status show_misprints(Lab *lab)
{
    GpuLimits limits, less;
    int counts[2];
    TRY(limits_of_card("GTX 680", &limits, lab->err));
    less = limits;
    less.registers = 65535;
    TRY(count_together(lab, &less, &companies[1], counts));
    lab_section(lab, "Misprints of the paper, with the calculation");
    LabTable *table = lab_table_new(lab, "streams-misprints", "Where the paper contradicts itself");
    lab_column(table, "place", LAB_LEFT);
    lab_column(table, "printed", LAB_LEFT);
    lab_column(table, "calculation", LAB_LEFT);
    lab_row(table, "Table I", "65535 registers",
            arena_printf(lab->arena, "C 256 * 16 + 5 D 5 * 256 * 48 = 65536; with 65535 only %d D fit", counts[1]));
    lab_row(table, "Table III, E", "occupancy 100 %", occupancy_text(lab, &limits, "E"));
    lab_row(table, "Table III, F", "occupancy 63 %", occupancy_text(lab, &limits, "F"));
    lab_row(table, "text, E + F", "49,512 bytes of shared memory", "2 * 24576 = 49152, all that there is");
    lab_row(table, "figure 8, caption", "kernels B, A, and B", "the text, figure 7 and the phases are of A, B and A");
    lab_row(table, "text on figure 8", "phase II ran for only 8ms",
            "phase II is 20 - 14 = 6 ms, phase III 14 - 6 = 8");
    lab_row(table, "text on figure 5", "the same on the K40",
            "15 multiprocessors * 2 blocks / 4 blocks = 7.5 streams at once, not 4");
    lab_row(table, "section III-B", "at most 2048 threads in a block",
            arena_printf(lab->arena, "%d; 2048 are the threads of a multiprocessor", limits.threads_per_block));
    return lab_table_end(table);
}

// ---- the chosen card ------------------------------------------------------------------------------------------------
// The paper's figures are of eight multiprocessors.  On a card with more, kernels get as many more blocks, so that the
// same phases must come out, but for Hyper-Q and for what runs together there.

typedef struct OwnRun {
    SimKernel alone[2];                                     // A and B there: needs, and how long a block takes
    LabLaunch launches[STREAMS_MAX * CHAIN_MAX];
    int       n_launches;
    Timeline  predicted, timeline;
    i64       serial_ns;
} OwnRun;

// Kernels of one block stay so: figure 10 is about streams, not about a full card.
static int scaled_blocks(const Lab *lab, int n_blocks)
{
    enum { PAPER_MULTIPROCESSORS = 8 };
    return n_blocks == 1 ? 1 : MAX_OF(1, n_blocks * lab->limits.n_multiprocessors / PAPER_MULTIPROCESSORS);
}

static void make_launches(const Lab *lab, const StreamFigure *figure, OwnRun *run)
{
    run->n_launches = 0;
    for (int i = 0; i < figure->n_streams; i++) {
        const FigureStream *stream = stream_of(figure, i);
        for (int k = 0; k < chain_length(stream); k++) {
            const LabKernel *kernel = lab_pool_find(LAB_POOL_TABLE3, stream->kernels[k]);
            run->launches[run->n_launches++] =
                (LabLaunch){ kernel, kernel->threads_per_block, scaled_blocks(lab, stream->n_blocks[k]), i };
        }
    }
}

static weft_status measure_alone(Lab *lab, SimKernel alone[2])
{
    for (int i = 0; i < 2; i++) {
        const LabKernel *kernel = lab_pool(LAB_POOL_TABLE3, i);
        alone[i] = (SimKernel){ .threads_per_block = kernel->threads_per_block };
        TRY(lab_needs(lab, kernel, &alone[i].needs));
        TRY(lab_run_set(lab, &(LabLaunch){ kernel, kernel->threads_per_block, 1, 0 }, 1, &alone[i].duration_ns));
    }
    return WEFT_OK;
}

// By the rules, with the durations and needs of this card.
static weft_status predict(Lab *lab, const StreamFigure *figure, OwnRun *own)
{
    FigureRun *run = arena_make(lab->arena, FigureRun);
    TRY(simulate(lab, figure, &lab->limits, run));
    for (int i = 0; i < figure->n_streams; i++)
        for (int k = 0; k < run->streams[i].n_kernels; k++) {
            SimKernel *kernel = &run->kernels[i][k];
            const SimKernel *alone = &own->alone[stream_of(figure, i)->kernels[k][0] - 'A'];
            *kernel = (SimKernel){ alone->needs, alone->threads_per_block, scaled_blocks(lab, kernel->n_blocks),
                                   alone->duration_ns };
        }
    return sim_run(lab->arena, &lab->limits, run->streams, figure->n_streams, &own->predicted, lab->err);
}

static i64 end_of(const Timeline *timeline)
{
    return timeline->n_phases ? timeline->phase_ends_ns[timeline->n_phases - 1] : 0;
}

// Ends within half a millisecond are one: blocks of a real card do not end at the same time.
static const char *rough_phases(Lab *lab, const Timeline *timeline)
{
    enum { TOGETHER_NS = NS_PER_MS / 2 };
    Text text = { 0 };
    i64 before_ns = 0;
    for (int i = 0; i < timeline->n_phases; i++) {
        const i64 end_ns = timeline->phase_ends_ns[i];
        if (i + 1 < timeline->n_phases && timeline->phase_ends_ns[i + 1] - end_ns < TOGETHER_NS)
            continue;
        text_add(&text, "%s%.0f", before_ns ? ", " : "", (double)(end_ns - before_ns) / NS_PER_MS);
        before_ns = end_ns;
    }
    return text_keep(lab->arena, &text);
}

static weft_status run_own(Lab *lab, const StreamFigure *figure, OwnRun *run)
{
    LabLaunch serial[STREAMS_MAX * CHAIN_MAX];
    make_launches(lab, figure, run);
    TRY(predict(lab, figure, run));
    TRY(lab_run_timeline(lab, lab->arena, run->launches, run->n_launches, &run->timeline));
    for (int i = 0; i < run->n_launches; i++) {
        serial[i] = run->launches[i];
        serial[i].stream = 0;
    }
    return lab_run_set(lab, serial, run->n_launches, &run->serial_ns);
}

// The first multiprocessors: a large card has too many to draw.
static weft_status draw_own(Lab *lab, const StreamFigure *figure, const OwnRun *run)
{
    enum { DRAWN = 8 };
    FigureRun *named = arena_make(lab->arena, FigureRun);
    Text svg = { 0 };
    Timeline drawn = run->timeline;
    if (drawn.n_phases > PHASES_DRAWN) {                    // one line per phase would be one per block
        drawn.phase_ends_ns = run->predicted.phase_ends_ns;
        drawn.n_phases = run->predicted.n_phases;
    }
    TRY(simulate(lab, figure, &lab->limits, named));        // for the names
    plot_gantt(&(GanttPlot){ .title = arena_printf(lab->arena, "Streams of %s, %s", figure->title,
                                                   lab->is_sim ? "simulated" : "measured"),
                             .description = arena_printf(lab->arena, "Blocks on the first multiprocessors of the %s; "
                                                         "phases of %s ms.", lab->device_title,
                                                         rough_phases(lab, &run->timeline)),
                             .timeline = &drawn,
                             .n_multiprocessors = MIN_OF(DRAWN, lab->limits.n_multiprocessors),
                             .n_streams = figure->n_streams,
                             .names = named->names,
                             .n_kernels = named->n_kernels },
               &svg);
    return lab_plot(lab, arena_printf(lab->arena, "%s-here", figure->name),
                    arena_printf(lab->arena, "%s: the first %d multiprocessors", lab->device_title,
                                 MIN_OF(DRAWN, lab->limits.n_multiprocessors)), &svg);
}

static bool can_run_here(Lab *lab)
{
    for (int i = 0; i < 2; i++) {
        const LabKernel *kernel = lab_pool(LAB_POOL_TABLE3, i);
        if (runs_on(&lab->limits, kernel))
            continue;
        lab_say(lab, "A block of kernel %s does not run on this card: %d threads of %d registers are more than its %d "
                     "registers.", kernel->name, kernel->threads_per_block, kernel->needs.registers,
                lab->limits.registers);
        return false;
    }
    return true;
}

static weft_status show_own_card(Lab *lab)
{
    OwnRun *runs = arena_array(lab->arena, OwnRun, COUNT_OF(figures));
    SimKernel alone[2];
    lab_section(lab, arena_printf(lab->arena, "The same streams on this card: %s", lab->device_title));
    if (!can_run_here(lab))
        return WEFT_OK;
    TRY(measure_alone(lab, alone));
    lab_say(lab, "A block of A takes %s ms here and one of B %s ms. Kernels have as many blocks for each "
                 "multiprocessor as in the figure. Predicted: by the paper's rules, %s Hyper-Q.",
            lab_ms(lab, alone[0].duration_ns), lab_ms(lab, alone[1].duration_ns),
            lab->limits.has_hyper_q ? "with" : "without");
    LabTable *table = lab_table_new(lab, "streams-card", "Phases and times of all streams, ms");
    lab_column(table, "figure", LAB_LEFT);
    lab_column(table, "predicted phases", LAB_LEFT);
    lab_column(table, lab->is_sim ? "simulated phases" : "measured phases", LAB_LEFT);
    lab_column(table, "predicted", LAB_RIGHT);
    lab_column(table, lab->is_sim ? "simulated" : "measured", LAB_RIGHT);
    lab_column(table, "one kernel after the other", LAB_RIGHT);
    for (int i = 0; i < COUNT_OF(figures); i++) {
        OwnRun *run = &runs[i];
        memcpy(run->alone, alone, sizeof(alone));
        TRY(run_own(lab, &figures[i], run));
        lab_row(table, figures[i].title, rough_phases(lab, &run->predicted), rough_phases(lab, &run->timeline),
                lab_ms(lab, end_of(&run->predicted)), lab_ms(lab, end_of(&run->timeline)), lab_ms(lab, run->serial_ns));
        lab_progress(lab, "this card", i + 1, COUNT_OF(figures));
    }
    TRY(lab_table_end(table));
    for (int i = 0; i < COUNT_OF(figures) && !lab->is_sim; i++)
        TRY(draw_own(lab, &figures[i], &runs[i]));
    return WEFT_OK;
}

weft_status run_streams(Lab *lab)
{
    TRY(show_figures(lab));
    TRY(show_together(lab));
    TRY(show_misprints(lab));
    return show_own_card(lab);
}
