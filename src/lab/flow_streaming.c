// flow_streaming.c - tables that are in host memory: copied chunk by chunk and then computed, or read where they are.
//
// The table is in pinned memory.  Three ways give the same sum of the same bytes:
//
//     copied    columns of a chunk to the device, then a kernel; three chunks under way     the engine's way
//     in place  one kernel that reads the host's memory                                      a launch a query
//     posted    frames that name slices of rows, to an operator that stays                   through weft_flow.h
//
// The latter two read the key of every row, and other columns only around rows that pass: 32 bytes at a time over the
// link, which hold eight values.  So their bytes depend on how many rows pass and on how they lie; they are counted
// here from the data, not estimated.

#include <math.h>
#include <stdlib.h>

#include "lab/flow_gpu.h"
#include "lab/flow_query.h"

enum {
    KEYS = 1000000,  // values of a key
    CHUNK_ROWS = 1 << 20,
    CHUNKS_AT_ONCE = 3,
    SLICE_ROWS = 32768,
    SLICES_MAX = 4096,
    SECTOR_ROWS = 32 / sizeof(i32),
    CLUSTERED = QUERY_COLUMNS,  // the column with the other key
    N_COLUMNS,
};

typedef enum StreamWay { STREAM_COPIED, STREAM_IN_PLACE, STREAM_POSTED, N_STREAM_WAYS } StreamWay;

typedef struct StreamCase {
    bool is_clustered;
    double selectivity;
    int n_columns;
    i64 right;                       // the sum
    i64 bytes_copied, bytes_direct;  // over the link
    double ms[N_STREAM_WAYS];
    Error errs[N_STREAM_WAYS];
} StreamCase;

typedef struct Streaming {
    FlowLab *flow;
    QueryDoor *door;
    i64 n_rows;
    i64 chunk_rows, slice_rows;
    i32 *columns[N_COLUMNS];  // pinned where there is a GPU
    u8 *chunks;               // without a GPU
    CuAddress chunk_there[CHUNKS_AT_ONCE];
    StreamCase *cases;
    int n_cases;
} Streaming;

static const char *const way_titles[N_STREAM_WAYS] = { "copied", "in place", "posted" };

// ---- the table and the cases ----------------------------------------------------------------------------------------

static weft_status take_column(Streaming *streaming, i32 **column, Error *err)
{
    FlowGpu *gpu = streaming->flow->gpu;
    const size_t bytes = (size_t)streaming->n_rows * sizeof(i32);
    u8 *memory = NULL;
    if (gpu)
        TRY(flow_gpu_pin(gpu->cu, bytes, &memory, err));
    else
        memory = malloc(bytes);
    *column = (i32 *)memory;
    return memory ? WEFT_OK : fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory for %zu bytes", bytes);
}

static void fill_table(Streaming *streaming)
{
    LabRandom random = lab_random(streaming->flow->lab, "streaming");
    for (i64 row = 0; row < streaming->n_rows; row++) {
        const u64 bits = lab_random_next(&random);
        streaming->columns[0][row] = (i32)(bits % KEYS);
        streaming->columns[CLUSTERED][row] = (i32)(row * KEYS / streaming->n_rows);
        for (int c = 1; c < QUERY_COLUMNS; c++)
            streaming->columns[c][row] = (i32)(bits >> 8 * c & 0xffff);
    }
}

static weft_status make_table(Streaming *streaming, Error *err)
{
    FlowGpu *gpu = streaming->flow->gpu;
    const size_t chunk_bytes = (size_t)streaming->chunk_rows * QUERY_COLUMNS * sizeof(i32);
    if (gpu)
        TRY(lab_gpu_enter(gpu->lab_gpu, &gpu->cu, err));
    for (int c = 0; c < N_COLUMNS; c++)
        TRY(take_column(streaming, &streaming->columns[c], err));
    for (int i = 0; gpu && i < CHUNKS_AT_ONCE; i++)
        CUDA_TRY(gpu->cu, MemAlloc, (&streaming->chunk_there[i], chunk_bytes), err);
    if (!gpu && !(streaming->chunks = malloc(chunk_bytes)))
        return fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory for %zu bytes", chunk_bytes);
    fill_table(streaming);
    return WEFT_OK;
}

static void free_table(Streaming *streaming)
{
    const FlowGpu *gpu = streaming->flow->gpu;
    for (int c = 0; c < N_COLUMNS; c++) {
        if (gpu && streaming->columns[c])
            gpu->cu->MemFreeHost(streaming->columns[c]);
        if (!gpu)
            free(streaming->columns[c]);
    }
    for (int i = 0; i < CHUNKS_AT_ONCE; i++)
        if (streaming->chunk_there[i])
            gpu->cu->MemFree(streaming->chunk_there[i]);
    free(streaming->chunks);
}

static const i32 *column_of(const Streaming *streaming, const StreamCase *is, int c)
{
    return streaming->columns[c == 0 && is->is_clustered ? CLUSTERED : c];
}

static FilterQuery query_of(const Streaming *streaming, const StreamCase *is)
{
    FilterQuery query = { .n_rows = (u64)streaming->n_rows,
                          .high = (u64)(is->selectivity * KEYS) - 1,
                          .n_columns = (u64)is->n_columns };
    for (int c = 0; c < is->n_columns; c++)
        query.columns[c] = (u64)(uintptr_t)column_of(streaming, is, c);
    return query;
}

// The sum, and the bytes that each way moves.
static void expect(const Streaming *streaming, StreamCase *is)
{
    const i32 *key = column_of(streaming, is, 0), high = (i32)query_of(streaming, is).high;
    i64 n_sectors = 0;
    for (i64 first = 0; first < streaming->n_rows; first += SECTOR_ROWS) {
        bool is_read = false;
        for (i64 row = first; row < MIN_OF(first + SECTOR_ROWS, streaming->n_rows); row++) {
            if (key[row] > high)
                continue;
            is_read = true;
            for (int c = 1; c < is->n_columns; c++)
                is->right += streaming->columns[c][row];
        }
        n_sectors += is_read;
    }
    is->bytes_copied = streaming->n_rows * (i64)sizeof(i32) * is->n_columns;
    is->bytes_direct = streaming->n_rows * (i64)sizeof(i32) + n_sectors * 32 * (is->n_columns - 1);
}

static void choose_cases(Streaming *streaming)
{
    static const struct {
        bool is_clustered;
        double selectivity;
    } kinds[] = { { false, 1 }, { false, 0.1 }, { false, 0.01 }, { false, 0.001 }, { true, 0.1 }, { true, 0.01 } };
    static const int columns[] = { 2, 4, 8 };
    streaming->cases = arena_array(streaming->flow->arena, StreamCase, COUNT_OF(kinds) * COUNT_OF(columns));
    for (int c = 0; c < COUNT_OF(columns); c++)
        for (int k = 0; k < COUNT_OF(kinds); k++)
            streaming->cases[streaming->n_cases++] = (StreamCase){ .is_clustered = kinds[k].is_clustered,
                                                                   .selectivity = kinds[k].selectivity,
                                                                   .n_columns = columns[c] };
}

// ---- copied ---------------------------------------------------------------------------------------------------------

// The same query over a chunk that is at CHUNK, column behind column.
static FilterQuery query_of_chunk(const Streaming *streaming, const FilterQuery *rows, u64 chunk)
{
    FilterQuery query = *rows;
    for (u64 c = 0; c < rows->n_columns; c++)
        query.columns[c] = chunk + c * (u64)streaming->chunk_rows * sizeof(i32);
    return query;
}

static weft_status start_chunk(Streaming *streaming, int slot, const FilterQuery *rows, Error *err)
{
    FlowGpu *gpu = streaming->flow->gpu;
    const FilterQuery query = query_of_chunk(streaming, rows, streaming->chunk_there[slot]);
    for (u64 c = 0; c < rows->n_columns; c++)
        CUDA_TRY(gpu->cu, MemcpyHtoDAsync,
                 (query.columns[c], (const void *)(uintptr_t)rows->columns[c], rows->n_rows * sizeof(i32),
                  gpu->slots[slot].stream),
                 err);
    return query_launch(streaming->flow, slot, &query, err);
}

static weft_status call_chunk(Streaming *streaming, const FilterQuery *rows, i64 *sum, Error *err)
{
    const FilterQuery query = query_of_chunk(streaming, rows, (u64)(uintptr_t)streaming->chunks);
    for (u64 c = 0; c < rows->n_columns; c++)
        memcpy((void *)(uintptr_t)query.columns[c], (const void *)(uintptr_t)rows->columns[c],
               rows->n_rows * sizeof(i32));
    return query_by_call(streaming->flow, &query, sum, err);
}

static weft_status run_copied(Streaming *streaming, const FilterQuery *query, i64 *sum, Error *err)
{
    const u64 chunk_rows = (u64)streaming->chunk_rows, n_chunks = (query->n_rows + chunk_rows - 1) / chunk_rows;
    const bool is_gpu = streaming->flow->gpu != NULL;
    *sum = 0;
    for (u64 i = 0; i < n_chunks + (is_gpu ? CHUNKS_AT_ONCE : 0); i++) {
        const int slot = (int)(i % CHUNKS_AT_ONCE);
        i64 part = 0;
        if (is_gpu && i >= CHUNKS_AT_ONCE && i - CHUNKS_AT_ONCE < n_chunks)
            TRY(query_wait(streaming->flow, slot, &part, err));
        if (i < n_chunks) {
            const u64 first = i * chunk_rows;
            const FilterQuery rows = query_slice(query, first, MIN_OF(chunk_rows, query->n_rows - first));
            if (is_gpu)
                TRY(start_chunk(streaming, slot, &rows, err));
            else
                TRY(call_chunk(streaming, &rows, &part, err));
        }
        *sum += part;
    }
    return WEFT_OK;
}

// ---- in place, and posted -------------------------------------------------------------------------------------------

static weft_status run_in_place(Streaming *streaming, const FilterQuery *query, i64 *sum, Error *err)
{
    if (!streaming->flow->gpu)
        return query_by_call(streaming->flow, query, sum, err);
    TRY(query_launch(streaming->flow, 0, query, err));
    return query_wait(streaming->flow, 0, sum, err);
}

static weft_status run_way(Streaming *streaming, StreamWay way, const StreamCase *is, Error *err)
{
    const FilterQuery query = query_of(streaming, is);
    const int n_slices = (int)MIN_OF(MAX_OF(streaming->n_rows / streaming->slice_rows, 1), SLICES_MAX);
    i64 sum = 0;
    if (way == STREAM_COPIED)
        TRY(run_copied(streaming, &query, &sum, err));
    else if (way == STREAM_IN_PLACE)
        TRY(run_in_place(streaming, &query, &sum, err));
    else
        TRY(query_by_frames(streaming->door, &query, n_slices, &sum, err));
    return sum == is->right ? WEFT_OK
                            : fail(err, WEFT_DEVICE_FAILED, -1, "the sum is %lld and should be %lld", (long long)sum,
                                   (long long)is->right);
}

// The best of some runs after one that warms up.
static weft_status measure_case(Streaming *streaming, StreamWay way, StreamCase *is, Error *err)
{
    const int n_runs = MAX_OF(streaming->flow->n_runs, 1);
    is->ms[way] = NAN;
    TRY(flow_has_time(streaming->flow, err));
    TRY(run_way(streaming, way, is, err));
    double best = INFINITY;
    for (int run = 0; run < n_runs; run++) {
        const double start_ms = time_now_ms();
        TRY(run_way(streaming, way, is, err));
        best = MIN_OF(best, time_now_ms() - start_ms);
    }
    is->ms[way] = best;
    return WEFT_OK;
}

static void measure_way(Streaming *streaming, StreamWay way)
{
    for (int i = 0; i < streaming->n_cases; i++) {
        StreamCase *is = &streaming->cases[i];
        lab_progress(streaming->flow->lab, "streaming", way * streaming->n_cases + i,
                     N_STREAM_WAYS * streaming->n_cases);
        measure_case(streaming, way, is, &is->errs[way]);
    }
}

static weft_status measure_all(Streaming *streaming, Error *err)
{
    TRY(make_table(streaming, err));
    for (int i = 0; i < streaming->n_cases; i++)
        expect(streaming, &streaming->cases[i]);
    measure_way(streaming, STREAM_COPIED);
    measure_way(streaming, STREAM_IN_PLACE);
    TRY(query_door_open(streaming->flow, &streaming->door, err));  // last: it would take multiprocessors from launches
    measure_way(streaming, STREAM_POSTED);
    return WEFT_OK;
}

// ---- the report -----------------------------------------------------------------------------------------------------

static int fastest_of(const StreamCase *is)
{
    int fastest = -1;
    for (int way = 0; way < N_STREAM_WAYS; way++)
        if (isfinite(is->ms[way]) && (fastest < 0 || is->ms[way] < is->ms[fastest]))
            fastest = way;
    return fastest;
}

static const char *time_cell(Lab *lab, const StreamCase *is, StreamWay way)
{
    return is->errs[way].status ? flow_problem(lab, &is->errs[way]) : lab_number(lab, is->ms[way], 3);
}

static weft_status show_cases(Streaming *streaming)
{
    Lab *lab = streaming->flow->lab;
    LabTable *table = lab_table_new(lab, "flow-streaming", "A table in host memory: times and bytes over the link");
    lab_column(table, "columns", LAB_RIGHT);
    lab_column(table, "rows that pass", LAB_RIGHT);
    lab_column(table, "which lie", LAB_LEFT);
    lab_column(table, "copied, ms", LAB_RIGHT);
    lab_column(table, "in place, ms", LAB_RIGHT);
    lab_column(table, "posted, ms", LAB_RIGHT);
    lab_column(table, "MB copied", LAB_RIGHT);
    lab_column(table, "MB read directly", LAB_RIGHT);
    lab_column(table, "posted, GB/s over the link", LAB_RIGHT);
    lab_column(table, "fastest", LAB_LEFT);
    for (int i = 0; i < streaming->n_cases; i++) {
        const StreamCase *is = &streaming->cases[i];
        const int fastest = fastest_of(is);
        lab_row(table, lab_count_text(lab, is->n_columns), lab_percent(lab, is->selectivity),
                is->is_clustered ? "together" : "anywhere", time_cell(lab, is, STREAM_COPIED),
                time_cell(lab, is, STREAM_IN_PLACE), time_cell(lab, is, STREAM_POSTED),
                lab_number(lab, (double)is->bytes_copied / 1e6, 3), lab_number(lab, (double)is->bytes_direct / 1e6, 3),
                lab_number(lab, (double)is->bytes_direct / 1e6 / is->ms[STREAM_POSTED], 2),
                fastest < 0 ? "-" : way_titles[fastest]);
    }
    return lab_table_end(table);
}

static weft_status plot_cases(Streaming *streaming)
{
    enum { BARS_MAX = 32 };
    const char *groups[BARS_MAX];
    double values[BARS_MAX * N_STREAM_WAYS];
    Text svg = { 0 };
    for (int i = 0; i < streaming->n_cases; i++) {
        const StreamCase *is = &streaming->cases[i];
        groups[i] = arena_printf(streaming->flow->arena, "%d, %g%%%s", is->n_columns, is->selectivity * 100,
                                 is->is_clustered ? "*" : "");
        for (int way = 0; way < N_STREAM_WAYS; way++)
            values[i * N_STREAM_WAYS + way] = is->ms[way];
    }
    plot_bars(&(BarPlot){ .title = "A table in host memory",
                          .description =
                              "Milliseconds by columns and share of rows that pass; a star: they lie together.",
                          .y_label = "ms",
                          .groups = groups,
                          .n_groups = streaming->n_cases,
                          .series = way_titles,
                          .n_series = N_STREAM_WAYS,
                          .values = values,
                          .y_is_log = true },
              &svg);
    return lab_plot(streaming->flow->lab, "flow-streaming-plot",
                    "Times by columns and rows that pass (a star: rows that pass lie together)", &svg);
}

static void name_winners(const Streaming *streaming)
{
    Lab *lab = streaming->flow->lab;
    int n_posted = 0, n_direct = 0, n_measured = 0;
    for (int i = 0; i < streaming->n_cases; i++) {
        const StreamCase *is = &streaming->cases[i];
        n_measured += isfinite(is->ms[STREAM_COPIED]) && isfinite(is->ms[STREAM_POSTED]);
        n_posted += is->ms[STREAM_POSTED] < is->ms[STREAM_COPIED];
        n_direct += is->ms[STREAM_IN_PLACE] < is->ms[STREAM_COPIED];
    }
    lab_say(lab,
            "Frames posted to a kernel that stays are faster than copies in %d of %d cases, a kernel that reads in "
            "place in %d.",
            n_posted, n_measured, n_direct);
}

static void choose_rows(Streaming *streaming)
{
    const FlowLab *flow = streaming->flow;
    const bool is_test = flow->measure_ms < 10;
    streaming->n_rows = is_test ? 20000 : flow->lab->is_sim ? 2 << 20 : 8 << 20;
    streaming->chunk_rows = is_test ? 8192 : CHUNK_ROWS;
    streaming->slice_rows = is_test ? 4096 : SLICE_ROWS;
}

weft_status flow_streaming(FlowLab *flow)
{
    Lab *lab = flow->lab;
    Streaming *streaming = arena_make(flow->arena, Streaming);
    Error err = { 0 };
    streaming->flow = flow;
    choose_rows(streaming);
    choose_cases(streaming);
    lab_section(lab, "Tables in host memory: copies or frames");
    lab_say(
        lab,
        "The same filter and sum over %lld rows in pinned memory. Copied: chunks of %lld rows to the device, then a "
        "kernel, three chunks under way. In place: one kernel that reads the host's memory. Posted: frames that name "
        "%lld rows each, to an operator that stays. All give the same sum, which is compared with the CPU's. Bytes "
        "are counted from the data: what is read directly are all keys, and 32 bytes of each other column around "
        "rows that pass.",
        (long long)streaming->n_rows, (long long)streaming->chunk_rows, (long long)streaming->slice_rows);
    const weft_status status = measure_all(streaming, &err);
    query_door_close(streaming->door);
    if (status && flow->gpu)
        flow->gpu->cu->CtxSynchronize();
    free_table(streaming);
    for (int i = 0; status && i < streaming->n_cases * N_STREAM_WAYS; i++) {
        StreamCase *is = &streaming->cases[i / N_STREAM_WAYS];
        const int way = i % N_STREAM_WAYS;
        if (!is->errs[way].status && !(is->ms[way] > 0)) {
            is->errs[way] = err;
            is->ms[way] = NAN;
        }
    }
    TRY(show_cases(streaming));
    name_winners(streaming);
    return plot_cases(streaming);
}
