// flow_encoding.c - RAID-6 and AES-128 (paper 5, 6.3 and figure 14): every way, and the libraries on host cores.

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "lab/encoders.h"
#include "lab/flow_lab.h"

enum { CORES_MAX = 16 };

// ---- libraries ------------------------------------------------------------------------------------------------------

typedef struct Core {  // a thread that encodes
    const EncoderKind *kind;
    Encoder encoder;
    u8 *in, *out;
    size_t bytes;
    double until_ms;
    i64 n_frames;
} Core;

static void *encode_on_core(void *context)
{
    Core *core = context;
    do {
        flow_touch(core->in, core->bytes, (u64)core->n_frames);
        core->kind->encode(&core->encoder, core->in, core->bytes, core->out);
        core->n_frames++;
    } while (time_now_ms() < core->until_ms);
    return NULL;
}

static weft_status open_cores(const EncoderKind *kind, Core *cores, int n, size_t bytes, Error *err)
{
    for (int i = 0; i < n; i++) {
        cores[i] = (Core){ .kind = kind, .bytes = bytes };
        TRY(kind->open(&cores[i].encoder, err));
        cores[i].in = aligned_alloc(FLOW_PAGE, MAX_OF(bytes, FLOW_PAGE));
        cores[i].out = aligned_alloc(FLOW_PAGE, MAX_OF(bytes, FLOW_PAGE));
        if (!cores[i].in || !cores[i].out)
            return fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory for frames");
        memset(cores[i].in, i, bytes);
    }
    return WEFT_OK;
}

// The library and the lab's operator must agree.
static weft_status compare_with_operator(FlowLab *flow, Core *core, Error *err)
{
    const LabOperator *op = operator_find(core->kind->operator_title);
    u8 *should = calloc(1, core->bytes);
    KernelFunction function;
    OperatorParams params;
    weft_status status =
        should ? flow_function(flow, op, &function, err) : fail(err, WEFT_OUT_OF_MEMORY, -1, "no memory");
    if (!status) {
        for (size_t i = 0; i < core->bytes; i++)
            core->in[i] = (u8)(i * 2654435761u >> 13);
        operator_params(op, core->bytes, &params);
        flow_call(function, core->in, core->bytes, should, core->bytes, &params);
        core->kind->encode(&core->encoder, core->in, core->bytes, core->out);
        if (memcmp(should, core->out, operator_output_bytes(op, core->bytes)))
            status = fail(err, WEFT_DEVICE_FAILED, -1, "%s has another result than %s", core->kind->title, op->title);
    }
    free(should);
    return status;
}

static weft_status run_cores(FlowLab *flow, Core *cores, int n, double *gb_s, Error *err)
{
    pthread_t threads[CORES_MAX];
    const double start_ms = time_now_ms();
    double bytes = 0;
    int n_started = 1;
    TRY(compare_with_operator(flow, &cores[0], err));
    for (int i = 0; i < n; i++)
        cores[i].until_ms = start_ms + flow->measure_ms;
    while (n_started < n && !thread_start(&threads[n_started], NULL, encode_on_core, &cores[n_started]))
        n_started++;
    encode_on_core(&cores[0]);
    for (int i = 1; i < n_started; i++)
        pthread_join(threads[i], NULL);
    const double ms = time_now_ms() - start_ms;
    for (int i = 0; i < n_started; i++)
        bytes += (double)cores[i].n_frames * (double)cores[i].bytes;
    *gb_s = bytes / 1e6 / ms;
    return WEFT_OK;
}

static weft_status measure_library(FlowLab *flow, const EncoderKind *kind, size_t bytes, int n_cores, double *gb_s,
                                   Error *err)
{
    Core cores[CORES_MAX] = { 0 };
    weft_status status = open_cores(kind, cores, n_cores, bytes, err);
    if (!status)
        status = run_cores(flow, cores, n_cores, gb_s, err);
    for (int i = 0; i < n_cores; i++) {
        if (cores[i].kind)
            kind->close(&cores[i].encoder);
        free(cores[i].in);
        free(cores[i].out);
    }
    return status;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

typedef struct Encoding {
    FlowLab *flow;
    LabTable *table;
    const LabOperator *op;
    const EncoderKind *library;
    int n_cores;
    double gb_s[FLOW_SIZES_MAX][16];  // by size and way; the library is behind the ways
} Encoding;

static void add_library(Encoding *encoding, int size, double base)
{
    Lab *lab = encoding->flow->lab;
    Error err = { 0 };
    double gb_s = NAN;
    char *title = arena_printf(lab->arena, "%s, %d cores", encoding->library->title, encoding->n_cores);
    const bool has_failed = measure_library(encoding->flow, encoding->library, encoding->flow->sizes[size],
                                            encoding->n_cores, &gb_s, &err) != WEFT_OK;
    encoding->gb_s[size][encoding->flow->n_ways] = gb_s;
    lab_row(encoding->table, encoding->op->title, flow_size_text(lab, encoding->flow->sizes[size]), title,
            has_failed ? err.message : lab_number(lab, gb_s, 3), has_failed ? "-" : lab_number(lab, gb_s / base, 2),
            "-", "-");
}

static void add_way(Encoding *encoding, int size, int w, double *base)
{
    FlowLab *flow = encoding->flow;
    Lab *lab = flow->lab;
    const FlowTrial trial = { .op = encoding->op, .frame_bytes = flow->sizes[size] };
    FlowFigures figures = { 0 };
    Error err = { 0 };
    weft_status status = size == 0 ? flow_check(flow, flow->ways[w], encoding->op, flow->sizes[0], &err) : WEFT_OK;
    if (!status)
        status = flow_measure(flow, flow->ways[w], &trial, &figures, &err);
    if (flow->ways[w] == &flow_way_pinned || flow->ways[w] == &flow_way_call)
        *base = status ? NAN : figures.gb_s;
    encoding->gb_s[size][w] = status ? NAN : figures.gb_s;
    lab_row(encoding->table, encoding->op->title, flow_size_text(lab, flow->sizes[size]), flow->ways[w]->title,
            status ? flow_problem(lab, &err) : lab_number(lab, figures.gb_s, 3),
            status ? "-" : lab_number(lab, figures.gb_s / *base, 2), status ? "-" : lab_number(lab, figures.p50_us, 1),
            status ? "-" : lab_number(lab, figures.p99_us, 1));
}

static weft_status plot_encoding(const Encoding *encoding, const char *name)
{
    FlowLab *flow = encoding->flow;
    PlotSeries series[16];
    Text svg = { 0 };
    for (int w = 0; w <= flow->n_ways; w++) {
        double *x = arena_array(flow->arena, double, flow->n_sizes),
               *y = arena_array(flow->arena, double, flow->n_sizes);
        for (int i = 0; i < flow->n_sizes; i++) {
            x[i] = (double)flow->sizes[i] / 1024;
            y[i] = encoding->gb_s[i][w];
        }
        series[w] = (PlotSeries){
            w < flow->n_ways ? flow->ways[w]->title : encoding->library->title, x, y, flow->n_sizes, true, true
        };
    }
    plot_lines(&(LinePlot){ .title = encoding->op->title,
                            .description = "Gigabytes of input a second, by frame size.",
                            .x_label = "frame, KB",
                            .y_label = "GB/s",
                            .series = series,
                            .n_series = flow->n_ways + 1,
                            .x_is_log = true,
                            .y_is_log = true },
               &svg);
    return lab_plot(flow->lab, name, "Throughput of encoding (beside the paper's figure 14)", &svg);
}

weft_status flow_encoding(FlowLab *flow)
{
    static const struct {
        const EncoderKind *library;
        const char *plot;
    } kinds[] = { { &encoder_isal, "flow-raid6" }, { &encoder_openssl, "flow-aes" } };
    Lab *lab = flow->lab;
    const int n_cores = MIN_OF(cpu_count(), CORES_MAX);
    lab_section(lab, "Encoding: RAID-6 and AES-128 (figure 14)");
    lab_say(lab,
            "RAID-6 has eight blocks in and two out, AES-128 is in ECB mode, as in the paper, which has 2.2, 1.8 and "
            "3.1 times copy-kernel-copy, the same with four streams, and a kernel over managed memory for RAID-6 at "
            "64 KB. \"Times\" is against %s. The first frame of each way is compared with the CPU's, which is "
            "compared with the definition of P and Q and with FIPS 197. The libraries run on %d cores of the host.",
            flow->gpu ? flow_way_pinned.title : flow_way_call.title, n_cores);
    LabTable *table = lab_table_new(lab, "flow-encoding", "RAID-6 and AES-128");
    lab_column(table, "encoding", LAB_LEFT);
    lab_column(table, "frame", LAB_RIGHT);
    lab_column(table, "way", LAB_LEFT);
    lab_column(table, "GB/s", LAB_RIGHT);
    lab_column(table, "times", LAB_RIGHT);
    lab_column(table, "p50, us", LAB_RIGHT);
    lab_column(table, "p99, us", LAB_RIGHT);
    Encoding *encodings = arena_array(flow->arena, Encoding, COUNT_OF(kinds));
    for (int k = 0; k < COUNT_OF(kinds); k++) {
        Encoding *encoding = &encodings[k];
        *encoding = (Encoding){ .flow = flow,
                                .table = table,
                                .library = kinds[k].library,
                                .n_cores = n_cores,
                                .op = operator_find(kinds[k].library->operator_title) };
        for (int i = 0; i < flow->n_sizes; i++) {
            double base = NAN;
            lab_progress(lab, encoding->op->title, i, flow->n_sizes);
            for (int w = 0; w < flow->n_ways; w++)
                add_way(encoding, i, w, &base);
            add_library(encoding, i, base);
        }
    }
    TRY(lab_table_end(table));
    for (int k = 0; k < COUNT_OF(kinds); k++)
        TRY(plot_encoding(&encodings[k], kinds[k].plot));
    return WEFT_OK;
}
