// flow_crossover.c - small and frequent queries over tables that are on the device: launched, or posted as frames to a
// kernel that stays.  Where is the crossover?
//
// Both run the same text, filter_sums, over two columns.  A launch is what the engine does: arguments copied, kernel,
// result copied back, wait.  A posted query goes through weft_flow.h: a frame of 4 KB for every 16,384 rows, so that a
// table of some size has several blocks, and partial sums that the host adds up.  All launches are measured before the
// first frame goes, since a kernel that stays would take multiprocessors from them.

#include <math.h>
#include <stdlib.h>

#include "lab/flow_gpu.h"
#include "lab/flow_query.h"

enum { SIZES = 9, SLICE_ROWS = 16384, SLICES_MAX = 128, AT_ONCE = 8, KEYS = 1000 };

typedef enum CrossWay { CROSS_LAUNCH, CROSS_FRAMES, N_CROSS_WAYS } CrossWay;

typedef struct CrossFigures {
    double p50_us, p99_us, per_s;
    bool has_run;
    Error err;
} CrossFigures;

typedef struct Crossover {
    FlowLab *flow;
    QueryDoor *door;
    i64 rows[SIZES];
    i64 right[SIZES];  // the CPU's answer
    int n_sizes;
    i32 *columns[2];     // on the host: key and value
    CuAddress there[2];  // the same on the device; without a GPU the same addresses
    CrossFigures figures[N_CROSS_WAYS][SIZES];
} Crossover;

static i64 rows_most(const Crossover *cross)
{
    return cross->rows[cross->n_sizes - 1];
}

static FilterQuery query_of(const Crossover *cross, int size)
{
    return (FilterQuery){ .n_rows = (u64)cross->rows[size],
                          .low = KEYS / 4,
                          .high = KEYS / 2 - 1,
                          .n_columns = 2,
                          .columns = { cross->there[0], cross->there[1] } };
}

static int slices_of(const FilterQuery *query)
{
    return (int)MIN_OF(MAX_OF(query->n_rows / SLICE_ROWS, 1), SLICES_MAX);
}

// ---- the table ------------------------------------------------------------------------------------------------------

static void choose_rows(Crossover *cross)
{
    static const i64 all[SIZES] = { 1000, 4000, 16000, 64000, 250000, 1000000, 2000000, 4000000, 10000000 };
    const i64 most = cross->flow->measure_ms < 10 ? 64000 : cross->flow->lab->is_sim ? 1000000 : 10000000;
    for (int i = 0; i < SIZES && all[i] <= most; i++)
        cross->rows[cross->n_sizes++] = all[i];
}

static void fill_columns(Crossover *cross)
{
    LabRandom random = lab_random(cross->flow->lab, "crossover");
    i64 sum = 0;
    int size = 0;
    for (i64 row = 0; row < rows_most(cross); row++) {
        const u64 bits = lab_random_next(&random);
        const i32 key = (i32)(bits % KEYS), value = (i32)(bits >> 40);
        cross->columns[0][row] = key;
        cross->columns[1][row] = value;
        sum += key >= KEYS / 4 && key < KEYS / 2 ? value : 0;
        if (row + 1 == cross->rows[size])
            cross->right[size++] = sum;
    }
}

static weft_status make_table(Crossover *cross, Error *err)
{
    const size_t bytes = (size_t)rows_most(cross) * sizeof(i32);
    FlowGpu *gpu = cross->flow->gpu;
    for (int c = 0; c < 2; c++) {
        cross->columns[c] = malloc(bytes);
        if (!cross->columns[c])
            return fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory for %zu bytes", bytes);
        cross->there[c] = (CuAddress)(uintptr_t)cross->columns[c];
    }
    fill_columns(cross);
    if (!gpu)
        return WEFT_OK;
    cross->there[0] = cross->there[1] = 0;
    TRY(lab_gpu_enter(gpu->lab_gpu, &gpu->cu, err));
    for (int c = 0; c < 2; c++) {
        CUDA_TRY(gpu->cu, MemAlloc, (&cross->there[c], bytes), err);
        CUDA_TRY(gpu->cu, MemcpyHtoDAsync, (cross->there[c], cross->columns[c], bytes, gpu->slots[0].stream), err);
        CUDA_TRY(gpu->cu, StreamSynchronize, (gpu->slots[0].stream), err);
    }
    return WEFT_OK;
}

static void free_table(Crossover *cross)
{
    const FlowGpu *gpu = cross->flow->gpu;
    for (int c = 0; c < 2; c++) {
        if (gpu && cross->there[c] && cross->there[c] != (CuAddress)(uintptr_t)cross->columns[c])
            gpu->cu->MemFree(cross->there[c]);
        free(cross->columns[c]);
    }
}

// ---- one query, and several at once ---------------------------------------------------------------------------------

static weft_status check_sum(const Crossover *cross, int size, i64 sum, Error *err)
{
    return sum == cross->right[size] ? WEFT_OK
                                     : fail(err, WEFT_DEVICE_FAILED, -1, "the sum is %lld and should be %lld",
                                            (long long)sum, (long long)cross->right[size]);
}

static weft_status ask_once(Crossover *cross, CrossWay way, int size, Error *err)
{
    const FilterQuery query = query_of(cross, size);
    i64 sum = 0;
    if (way == CROSS_FRAMES) {
        TRY(query_by_frames(cross->door, &query, slices_of(&query), &sum, err));
    } else if (!cross->flow->gpu) {
        TRY(query_by_call(cross->flow, &query, &sum, err));
    } else {
        TRY(query_launch(cross->flow, 0, &query, err));
        TRY(query_wait(cross->flow, 0, &sum, err));
    }
    return check_sum(cross, size, sum, err);
}

static weft_status post_one(Crossover *cross, CrossWay way, const FilterQuery *query, i64 number, Error *err)
{
    return way == CROSS_FRAMES ? query_post(cross->door, query, slices_of(query), err)
                               : query_launch(cross->flow, (int)(number % AT_ONCE), query, err);
}

static weft_status take_one(Crossover *cross, CrossWay way, const FilterQuery *query, i64 number, i64 *sum, Error *err)
{
    return way == CROSS_FRAMES ? query_take(cross->door, slices_of(query), sum, err)
                               : query_wait(cross->flow, (int)(number % AT_ONCE), sum, err);
}

// Queries a second with AT_ONCE of them under way, or with as many as have frames.
static weft_status measure_rate(Crossover *cross, CrossWay way, int size, double *per_s, Error *err)
{
    const FilterQuery query = query_of(cross, size);
    const bool is_call = way == CROSS_LAUNCH && !cross->flow->gpu;
    const i64 at_once = is_call ? 1 : MIN_OF(AT_ONCE, QUERY_FRAMES_MAX / slices_of(&query));
    const double start_ms = time_now_ms();
    i64 n_posted = 0, n_taken = 0;
    while (n_taken < n_posted || time_now_ms() - start_ms < cross->flow->measure_ms) {
        const bool is_late = time_now_ms() - start_ms >= cross->flow->measure_ms;
        i64 sum = 0;
        for (; !is_late && !is_call && n_posted - n_taken < at_once; n_posted++)
            TRY(post_one(cross, way, &query, n_posted, err));
        if (is_call) {
            TRY(ask_once(cross, way, size, err));
            n_posted++;
        } else {
            TRY(take_one(cross, way, &query, n_taken, &sum, err));
            TRY(check_sum(cross, size, sum, err));
        }
        n_taken++;
    }
    *per_s = (double)n_taken * 1000 / (time_now_ms() - start_ms);
    return WEFT_OK;
}

static weft_status measure_size(Crossover *cross, CrossWay way, int size, CrossFigures *figures, Error *err)
{
    Arena *scratch = arena_new(NULL, "crossover");
    FlowLog log = flow_log_new(scratch);
    weft_status status = flow_has_time(cross->flow, err);
    if (!status)
        status = ask_once(cross, way, size, err);  // the first takes longer: code is loaded, the kernel comes
    const double start_ms = time_now_ms();
    while (!status && (log.n == 0 || time_now_ms() - start_ms < cross->flow->measure_ms)) {
        const double began_ms = time_now_ms();
        status = ask_once(cross, way, size, err);
        flow_log_add(&log, (time_now_ms() - began_ms) * 1000);
    }
    const LabFigures latency = lab_figures(log.us, (int)MIN_OF(log.n, FLOW_LOG_MAX));
    figures->p50_us = latency.median;
    figures->p99_us = latency.p99;
    if (!status)
        status = measure_rate(cross, way, size, &figures->per_s, err);
    figures->has_run = !status;
    arena_free(scratch);
    return status;
}

static void measure_way(Crossover *cross, CrossWay way)
{
    for (int i = 0; i < cross->n_sizes; i++) {
        CrossFigures *figures = &cross->figures[way][i];
        lab_progress(cross->flow->lab, "crossover", way * cross->n_sizes + i, N_CROSS_WAYS * cross->n_sizes);
        measure_size(cross, way, i, figures, &figures->err);
    }
}

static weft_status measure_all(Crossover *cross, Error *err)
{
    TRY(make_table(cross, err));
    measure_way(cross, CROSS_LAUNCH);
    TRY(query_door_open(cross->flow, &cross->door, err));
    measure_way(cross, CROSS_FRAMES);
    return WEFT_OK;
}

// ---- the report -----------------------------------------------------------------------------------------------------

static const char *way_title(const Crossover *cross, CrossWay way)
{
    return way == CROSS_FRAMES ? "posted" : cross->flow->gpu ? "launched" : "called";
}

static double value_of(const CrossFigures *figures, bool is_rate)
{
    return !figures->has_run ? NAN : is_rate ? figures->per_s : figures->p50_us;
}

// Words and lines that cross the link for a query, both ways; tables are on the device.
static i64 link_bytes(CrossWay way, const FilterQuery *query)
{
    enum { JOB = 64, RESULT = 64, SUMS = 16 * sizeof(i64), COMMAND = 128 };
    return way == CROSS_LAUNCH ? (i64)sizeof(*query) + 2 * (i64)sizeof(i64) + COMMAND
                               : (i64)slices_of(query) * ((i64)sizeof(*query) + JOB + RESULT + SUMS);
}

static weft_status show_table(Crossover *cross)
{
    Lab *lab = cross->flow->lab;
    LabTable *table = lab_table_new(lab, "flow-crossover", "A filter and a sum over two columns on the device");
    lab_column(table, "rows", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "p50, us", LAB_RIGHT);
    lab_column(table, "p99, us", LAB_RIGHT);
    lab_column(table, "queries per s", LAB_RIGHT);
    lab_column(table, "frames", LAB_RIGHT);
    lab_column(table, "bytes over the link", LAB_RIGHT);
    for (int i = 0; i < cross->n_sizes; i++)
        for (int way = 0; way < N_CROSS_WAYS; way++) {
            const CrossFigures *figures = &cross->figures[way][i];
            const FilterQuery query = query_of(cross, i);
            lab_row(table, lab_count_text(lab, cross->rows[i]), way_title(cross, way),
                    figures->has_run ? lab_number(lab, figures->p50_us, 1) : flow_problem(lab, &figures->err),
                    figures->has_run ? lab_number(lab, figures->p99_us, 1) : "-",
                    figures->has_run ? lab_number(lab, figures->per_s, 0) : "-",
                    way == CROSS_FRAMES ? lab_count_text(lab, slices_of(&query)) : "-",
                    cross->flow->gpu ? lab_count_text(lab, link_bytes(way, &query)) : "-");
        }
    return lab_table_end(table);
}

// Up to which of the sizes, from the smallest on, posted frames are better; -1: not even there.
static int last_better(const Crossover *cross, bool is_rate)
{
    int last = -1;
    for (int i = 0; i < cross->n_sizes; i++) {
        const double launched = value_of(&cross->figures[CROSS_LAUNCH][i], is_rate);
        const double posted = value_of(&cross->figures[CROSS_FRAMES][i], is_rate);
        if (!(is_rate ? posted > launched : posted < launched))
            break;
        last = i;
    }
    return last;
}

static void name_crossover(Crossover *cross, bool is_rate)
{
    Lab *lab = cross->flow->lab;
    const int last = last_better(cross, is_rate);
    const char *by = is_rate ? "rate" : "latency", *other = way_title(cross, CROSS_LAUNCH);
    if (last < 0)
        lab_say(lab, "Crossover by %s: none; a %s query is better at every size from %lld rows on.", by, other,
                (long long)cross->rows[0]);
    else if (last == cross->n_sizes - 1)
        lab_say(lab, "Crossover by %s: none; a posted query is better at every size up to %lld rows.", by,
                (long long)cross->rows[last]);
    else
        lab_say(lab, "Crossover by %s: a posted query is better up to %lld rows, a %s one from %lld rows on.", by,
                (long long)cross->rows[last], other, (long long)cross->rows[last + 1]);
}

static weft_status plot_crossover(Crossover *cross, bool is_rate)
{
    PlotSeries series[N_CROSS_WAYS];
    double x[SIZES], y[N_CROSS_WAYS][SIZES];
    Text svg = { 0 };
    for (int i = 0; i < cross->n_sizes; i++)
        x[i] = (double)cross->rows[i];
    for (int way = 0; way < N_CROSS_WAYS; way++) {
        for (int i = 0; i < cross->n_sizes; i++)
            y[way][i] = value_of(&cross->figures[way][i], is_rate);
        series[way] = (PlotSeries){ way_title(cross, way), x, y[way], cross->n_sizes, true, true };
    }
    plot_lines(&(LinePlot){ .title = is_rate ? "Rate of small queries" : "Latency of small queries",
                            .description = is_rate ? "Queries a second with eight under way, by rows of the table."
                                                   : "Median time of one query alone, by rows of the table.",
                            .x_label = "rows",
                            .y_label = is_rate ? "queries per s" : "us",
                            .series = series,
                            .n_series = N_CROSS_WAYS,
                            .x_is_log = true,
                            .y_is_log = true },
               &svg);
    return lab_plot(cross->flow->lab, is_rate ? "flow-crossover-rate" : "flow-crossover-latency",
                    is_rate ? "Queries a second, launched and posted" : "Latency, launched and posted", &svg);
}

weft_status flow_crossover(FlowLab *flow)
{
    Lab *lab = flow->lab;
    Crossover *cross = arena_make(flow->arena, Crossover);
    Error err = { 0 };
    cross->flow = flow;
    choose_rows(cross);
    lab_section(lab, "Small queries: launches or a kernel that stays");
    lab_say(lab,
            "select sum(v) where k between low and high, over a table of two columns that is on the device. "
            "Launched: arguments copied, kernel, result copied back, as the engine does. Posted: frames of 4 KB that "
            "name a slice of the rows, to an operator that stays. Latency is of one query alone, rate with eight "
            "under way. Every sum is compared with the CPU's.");
    const weft_status status = measure_all(cross, &err);
    query_door_close(cross->door);
    free_table(cross);
    for (int i = 0; status && i < N_CROSS_WAYS * SIZES; i++) {
        CrossFigures *figures = &cross->figures[i / SIZES][i % SIZES];
        if (!figures->has_run && !figures->err.status)
            figures->err = err;
    }
    TRY(show_table(cross));
    for (int is_rate = 0; is_rate < 2; is_rate++) {
        name_crossover(cross, is_rate);
        TRY(plot_crossover(cross, is_rate));
    }
    return WEFT_OK;
}
