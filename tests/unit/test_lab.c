// test_lab.c - the lab: tables, CSV, plots, the page, options, and that experiments say what they must.

#include "test.h"

#include "lab/lab_int.h"

static Error err;

// ---- help -----------------------------------------------------------------------------------------------------------

static Lab lab;                                             // without an experiment
static char *report;
static size_t report_length;

static void open_lab(void)
{
    error_clear(&err);
    lab = (Lab){ .options = { .seed = 1, .out = test_path("lab") },
                 .arena = arena_new(NULL, "test"),
                 .err = &err,
                 .experiment = "test",
                 .is_sim = true,
                 .device_title = "a <card> & more" };
    CHECK_OK(limits_of_card("Tesla K40", &lab.limits, &err), err);
    CHECK_OK(dir_make(lab.options.out, &err), err);
    lab.options.report = open_memstream(&report, &report_length);
}

static void close_lab(void)
{
    fclose(lab.options.report);
    arena_free(lab.arena);
    free(report);
}

// A file of the lab's folder; good until the next call.
static const char *file_of(const char *name)
{
    static Text text;
    char path[64];
    snprintf(path, sizeof(path), "lab/%s", name);
    text_clear(&text);
    error_clear(&err);
    CHECK_OK(file_read_all(test_path(path), &text, &err), err);
    return text.bytes;
}

// ---- markup: every element ends where it must, attributes are quoted, entities are known ----------------------------

static bool is_void_element(const char *name)
{
    return !strcmp(name, "meta") || !strcmp(name, "!DOCTYPE");
}

static const char *check_entity(const char *at)
{
    static const char *const known[] = { "&amp;", "&lt;", "&gt;", "&quot;" };
    for (int i = 0; i < COUNT_OF(known); i++)
        if (!strncmp(at, known[i], strlen(known[i])))
            return at + strlen(known[i]);
    CHECK_FAIL("unknown entity: %.20s", at);
    return at;
}

// From behind a name to the end of the tag.  IS_EMPTY: it ends with "/>".
static const char *check_attributes(const char *at, bool *is_empty)
{
    *is_empty = false;
    while (*at != '>') {
        CHECK(*at);
        *is_empty = *at == '/';
        if (*at != '"') {
            at++;
            continue;
        }
        for (at++; *at != '"';) {
            CHECK(*at && *at != '<');
            at = *at == '&' ? check_entity(at) : at + 1;
        }
        at++;
    }
    return at + 1;
}

static void check_markup(const char *text)
{
    char open[64][32], name[32];
    int depth = 0;
    for (const char *at = text; *at;) {
        if (*at == '&') {
            at = check_entity(at);
            continue;
        }
        CHECK(*at != '>' || (depth > 0 && !strcmp(open[depth - 1], "style")));
        if (*at++ != '<')
            continue;
        const bool is_end = *at == '/';
        bool is_empty;
        at += is_end;
        const size_t length = strcspn(at, " />\n");
        CHECK(length > 0 && length < sizeof(name));
        snprintf(name, sizeof(name), "%.*s", (int)length, at);
        at = check_attributes(at + length, &is_empty);
        if (is_end) {
            CHECK(depth > 0);
            CHECK_STR(open[--depth], name);
        } else if (!is_empty && !is_void_element(name)) {
            CHECK(depth < 64);
            strcpy(open[depth++], name);
        }
    }
    CHECK_INT(depth, 0);
}

TEST(text_is_escaped)
{
    Text text = { 0 };
    html_escape(&text, "a<b> & \"c\"\tä\033");
    CHECK_STR(text.bytes, "a&lt;b&gt; &amp; &quot;c&quot;ä");
    text_free(&text);
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static void end_example(void)
{
    LabTable *table = lab_table_new(&lab, "test-example", "An <example>");
    lab_column(table, "name", LAB_LEFT);
    lab_column(table, "ms, mean", LAB_RIGHT);
    lab_row(table, "plain", "1.5");
    lab_row(table, "with \"quotes\", and\nlines", "-");
    lab_row(table, "größe", "100.25");
    CHECK_OK(lab_table_end(table), err);
}

TEST(csv_is_quoted_where_it_must_be)
{
    open_lab();
    end_example();
    CHECK_STR(file_of("test-example.csv"),
              "name,\"ms, mean\"\nplain,1.5\n\"with \"\"quotes\"\", and\nlines\",-\ngröße,100.25\n");
    close_lab();
}

TEST(columns_are_aligned_by_characters)
{
    open_lab();
    LabTable *table = lab_table_new(&lab, "test-aligned", "Aligned");
    lab_column(table, "name", LAB_LEFT);
    lab_column(table, "ms", LAB_RIGHT);
    lab_row(table, "größe", "7");
    lab_row(table, "a", "100");
    CHECK_OK(lab_table_end(table), err);
    fflush(lab.options.report);
    CHECK_STR(report, "\n  Aligned\n\n  name    ms\n  -----  ---\n  größe    7\n  a      100\n");
    close_lab();
}

TEST(long_tables_are_only_files)
{
    open_lab();
    LabTable *table = lab_table_new(&lab, "test-long", "Long");
    lab_column(table, "n", LAB_RIGHT);
    lab_row(table, "1");
    CHECK_OK(lab_table_file(table), err);
    fflush(lab.options.report);
    CHECK_INT(report_length, 0);
    CHECK_INT(lab.n_blocks, 0);
    CHECK_STR(file_of("test-long.csv"), "n\n1\n");
    close_lab();
}

TEST(numbers_that_are_none_are_a_hyphen)
{
    open_lab();
    CHECK_STR(lab_number(&lab, 1.005, 2), "1.00");
    CHECK_STR(lab_number(&lab, NAN, 2), "-");
    CHECK_STR(lab_percent(&lab, 0.957), "95.7 %");
    CHECK_STR(lab_percent(&lab, INFINITY), "-");
    CHECK_STR(lab_ms(&lab, 1234567), "1.235");
    close_lab();
}

// ---- the page -------------------------------------------------------------------------------------------------------

TEST(the_page_is_well_formed_and_needs_no_network)
{
    open_lab();
    page_add(&lab, LAB_BLOCK_EXPERIMENT, "test", "a test & more", NULL);
    lab_section(&lab, "A <section>");
    lab_say(&lab, "1 < 2 & \"so on\", %d times", 3);
    end_example();
    Text svg = { 0 };
    plot_bars(&(BarPlot){ .title = "Bars <1>", .y_label = "&", .groups = (const char *[]){ "g\"" }, .n_groups = 1,
                          .series = (const char *[]){ "s" }, .n_series = 1, .values = (double[]){ 2 } },
              &svg);
    CHECK_OK(lab_plot(&lab, "test-bars", "A caption", &svg), err);
    CHECK(!svg.bytes);
    CHECK_OK(page_write(&lab), err);
    const char *page = file_of("index.html");
    check_markup(page);
    CHECK_HAS(page, "<title>Weft lab: a &lt;card&gt; &amp; more</title>");
    CHECK_HAS(page, "<p>1 &lt; 2 &amp; &quot;so on&quot;, 3 times</p>");
    CHECK_HAS(page, "<a href=\"#test\">");
    CHECK_HAS(page, "prefers-color-scheme: dark");
    CHECK(!strstr(page, "<script") && !strstr(page, "src=") && !strstr(page, "url(") && !strstr(page, "https:"));
    check_markup(file_of("test-bars.svg"));
    CHECK_HAS(file_of("test-bars.svg"), "<style>");
    close_lab();
}

TEST(nothing_is_written_without_a_folder)
{
    open_lab();
    lab.options.out = NULL;
    CHECK_OK(lab_write_file(&lab, "test-nothing", "txt", &(Text){ 0 }), err);
    CHECK(!file_exists(test_path("lab/test-nothing.txt")));
    close_lab();
}

TEST(a_folder_that_cannot_be_written_is_an_error)
{
    open_lab();
    lab.options.out = test_path("lab/no/such/folder");
    LabTable *table = lab_table_new(&lab, "test-lost", "Lost");
    lab_column(table, "n", LAB_RIGHT);
    CHECK(lab_table_end(table) != WEFT_OK);
    CHECK_HAS(err.message, "no/such/folder");
    close_lab();
}

// ---- plots ----------------------------------------------------------------------------------------------------------

static void check_plot(Text *svg, const char *part)
{
    check_markup(svg->bytes);
    CHECK_HAS(svg->bytes, "role=\"img\" aria-label=\"");
    CHECK(!strstr(svg->bytes, "nan") && !strstr(svg->bytes, "inf"));
    if (part)
        CHECK_HAS(svg->bytes, part);
    text_free(svg);
}

TEST(plots_are_well_formed_whatever_the_values)
{
    static const double x[] = { 1, 2, NAN, 4 }, y[] = { 3, INFINITY, 1, 0 }, equal[] = { 5, 5, 5, 5 };
    const PlotSeries series[] = { { "a <&> b", x, y, 4, true, true }, { "equal", equal, equal, 4, true, false },
                                  { "none", x, y, 0, true, true } };
    Text svg = { 0 };
    for (int n = 0; n <= 3; n++)
        for (int log = 0; log < 4; log++) {
            plot_lines(&(LinePlot){ .title = "T & <t>", .description = "\"d\"", .x_label = "x", .y_label = "y",
                                    .series = series, .n_series = n, .x_is_log = log & 1, .y_is_log = log & 2 },
                       &svg);
            check_plot(&svg, "T &amp; &lt;t&gt;");
        }
    for (int n = 0; n <= 3; n++) {
        plot_histogram(&(HistogramPlot){ .title = "H", .x_label = "x", .series = &series[3 - n], .n_series = n,
                                         .bin = n == 1 ? 1e-9 : 0, .mark = n == 2 ? 1 : NAN },
                       &svg);
        check_plot(&svg, "runs, %");
    }
    plot_bars(&(BarPlot){ .title = "B", .y_label = "y", .groups = (const char *[]){ "g", "h" }, .n_groups = 2,
                          .series = (const char *[]){ "s", "t" }, .n_series = 2,
                          .values = (double[]){ 0, NAN, 1000, 1 }, .y_is_log = true },
              &svg);
    check_plot(&svg, "h, s: 1000");
}

TEST(a_histogram_counts_every_value_once)
{
    static const double values[] = { 1, 1, 1.05, 1.1, 2 };
    const PlotSeries series = { .name = "s", .x = values, .n = 5 };
    Text svg = { 0 };
    plot_histogram(&(HistogramPlot){ .title = "H", .x_label = "x", .series = &series, .n_series = 1, .bin = 0.1,
                                     .mark = 1 },
                   &svg);
    CHECK_HAS(svg.bytes, "s: 60.0 % from 1 to 1.1<");
    CHECK_HAS(svg.bytes, "s: 20.0 % from 1.1 to 1.2<");
    check_plot(&svg, "s: 20.0 % from 2 to 2.1<");
}

TEST(a_gantt_chart_has_a_bar_for_every_block)
{
    open_lab();
    const SimKernel kernel = { { .registers = 11 }, 1024, 8, 14000000 };
    const SimStream streams[] = { { &kernel, 1 }, { &kernel, 1 } };
    Timeline timeline;
    Text svg = { 0 };
    int n_bars = 0;
    CHECK_OK(sim_run(lab.arena, &lab.limits, streams, 2, &timeline, &err), err);
    plot_gantt(&(GanttPlot){ .title = "G", .timeline = &timeline, .n_multiprocessors = lab.limits.n_multiprocessors,
                             .n_streams = 2, .names = (const char *[]){ "first", "second" }, .n_kernels = 1 },
               &svg);
    for (const char *at = svg.bytes; (at = strstr(at, "<rect class=\"area s")); at++)
        n_bars++;
    CHECK_INT(n_bars, 16);
    CHECK_HAS(svg.bytes, "MP 15");
    check_plot(&svg, ">second<");
    plot_gantt(&(GanttPlot){ .title = "nothing", .timeline = &(Timeline){ .first_span = (int[]){ 0, 0 } },
                             .n_multiprocessors = 1, .names = NULL, .n_kernels = 1 },
               &svg);
    check_plot(&svg, "MP 1");
    close_lab();
}

// ---- figures --------------------------------------------------------------------------------------------------------

TEST(figures_of_many_runs)
{
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = 100 - i;
    const LabFigures figures = lab_figures(values, 100);
    CHECK_DOUBLE(figures.mean, 50.5, 1e-9);
    CHECK_DOUBLE(figures.min, 1, 0);
    CHECK_DOUBLE(figures.median, 50, 0);
    CHECK_DOUBLE(figures.p99, 99, 0);
    CHECK_DOUBLE(figures.max, 100, 0);
    CHECK_DOUBLE(lab_figures((double[]){ 1, 4 }, 2).geomean, 2, 1e-12);
    CHECK(isnan(lab_figures(NULL, 0).mean));
}

TEST(correlation_is_pearsons)
{
    const double x[] = { 1, 2, 3, 4 };
    CHECK_DOUBLE(lab_pearson(x, (double[]){ 3, 5, 7, 9 }, 4), 1, 1e-12);
    CHECK_DOUBLE(lab_pearson(x, (double[]){ 4, 3, 2, 1 }, 4), -1, 1e-12);
    CHECK_DOUBLE(lab_pearson(x, (double[]){ 1, 3, 2, 4 }, 4), 0.8, 1e-12);
    CHECK_DOUBLE(lab_pearson(x, (double[]){ 5, 5, 5, 5 }, 4), 0, 0);
}

TEST(random_numbers_depend_on_seed_and_purpose_alone)
{
    open_lab();
    LabRandom a = lab_random(&lab, "a"), again = lab_random(&lab, "a"), b = lab_random(&lab, "b");
    int seen[5] = { 0 };
    CHECK(lab_random_next(&a) == lab_random_next(&again));
    CHECK(lab_random_next(&a) != lab_random_next(&b));
    for (int i = 0; i < 1000; i++)
        seen[lab_random_below(&a, 5)]++;
    for (int i = 0; i < 5; i++)
        CHECK(seen[i] > 150 && seen[i] < 250);
    lab.options.seed = 2;
    LabRandom other = lab_random(&lab, "b");
    CHECK(lab_random_next(&b) != lab_random_next(&other));
    close_lab();
}

// ---- kernels --------------------------------------------------------------------------------------------------------

TEST(every_kernel_of_the_pools_runs_on_the_papers_cards)
{
    static const char *const cards[] = { "GTX 680", "Tesla K40", "GTX TITAN X (Maxwell)", "H200" };
    CHECK_INT(lab_pool_count(LAB_POOL_REAL), 13);
    CHECK_INT(lab_pool_count(LAB_POOL_TABLE1), 5);
    CHECK_INT(lab_pool_count(LAB_POOL_TABLE3), 6);
    open_lab();
    for (int card = 0; card < COUNT_OF(cards); card++) {
        CHECK_OK(limits_of_card(cards[card], &lab.limits, &err), err);
        for (LabPool pool = LAB_POOL_REAL; pool <= LAB_POOL_TABLE3; pool++)
            for (int i = 0; i < lab_pool_count(pool); i++) {
                LabMember member;
                LabLaunch launch;
                i64 time_ns;
                CHECK_OK(lab_member(&lab, lab_pool(pool, i), &member), err);
                CHECK_OK(lab_shape_alone(&lab, &member, 0, &launch), err);
                CHECK(launch.n_blocks * launch.threads_per_block >= member.launch.n_threads);
                CHECK_OK(lab_run_set(&lab, &launch, 1, &time_ns), err);
                CHECK(time_ns >= member.kernel->duration_ns);
                CHECK(lab_pool_find(pool, member.kernel->name) == member.kernel);
            }
    }
    CHECK(!lab_pool_find(LAB_POOL_REAL, "no such kernel"));
    close_lab();
}

TEST(launches_of_one_stream_wait_for_each_other)
{
    open_lab();
    const LabKernel *a = lab_pool_find(LAB_POOL_TABLE3, "A"), *b = lab_pool_find(LAB_POOL_TABLE3, "B");
    i64 time_ns;
    CHECK_OK(lab_run_set(&lab, (LabLaunch[]){ { a, 1024, 1, 0 }, { b, 1024, 1, 0 } }, 2, &time_ns), err);
    CHECK_INT(time_ns, 34000000);
    CHECK_OK(lab_run_set(&lab, (LabLaunch[]){ { a, 1024, 1, 0 }, { b, 1024, 1, 1 } }, 2, &time_ns), err);
    CHECK_INT(time_ns, 20000000);
    CHECK_OK(lab_run_set(&lab, NULL, 0, &time_ns), err);
    CHECK_INT(time_ns, 0);
    CHECK_STATUS(lab_run_set(&lab, &(LabLaunch){ a, 1024, (i64)1 << 40, 0 }, 1, &time_ns), WEFT_TOO_LONG);
    close_lab();
}

// ---- experiments ----------------------------------------------------------------------------------------------------

static weft_status run_one(const char *name, const char *device, int runs, u64 seed)
{
    const Experiment *found[LAB_EXPERIMENTS_MAX];
    int n_found;
    error_clear(&err);
    TRY(lab_find(name, found, &n_found, &err));
    return lab_run(&(LabOptions){ .device = device, .runs = runs, .seed = seed, .out = test_path("lab") }, found,
                   n_found, &err);
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

TEST(wrong_names_get_the_right_ones)
{
    CHECK_STATUS(run_one("ocupancy", NULL, 1, 1), WEFT_UNDEFINED_OBJECT);
    CHECK_HAS(err.hint, "occupancy, streams, launch, batch");
    CHECK_STATUS(run_one("streams", "sim:gtx9999", 1, 1), WEFT_UNDEFINED_OBJECT);
    CHECK_HAS(err.hint, "Tesla K40");
    CHECK_STATUS(run_one("streams", "sim:", 1, 1), WEFT_UNDEFINED_OBJECT);
    CHECK_STATUS(run_one("streams", "k40", 1, 1), WEFT_UNDEFINED_OBJECT);
    CHECK_STATUS(run_one("streams", "cuda:x", 1, 1), WEFT_UNDEFINED_OBJECT);
}

TEST(part_of_a_card_s_name_will_do)
{
    static const char *const names[][2] = { { "sim:k40", "Tesla K40" }, { "sim:TITANX", "GTX TITAN X (Maxwell)" },
                                            { "sim:titan x pascal", "GTX TITAN X (Pascal)" }, { "sim:680", "GTX 680" },
                                            { "sim:h200", "H200" } };
    char title[64];
    for (int i = 0; i < COUNT_OF(names); i++) {
        CHECK_OK(run_one("streams", names[i][0], 1, 1), err);
        snprintf(title, sizeof(title), "Weft lab: %s, simulated", names[i][1]);
        CHECK_HAS(file_of("index.html"), title);
    }
}

TEST(streams_agree_with_the_paper)
{
    CHECK_OK(run_one("streams", NULL, 1, 1), err);
    CHECK_INT(count_of(file_of("streams-phases.csv"), ",yes\n"), 5);
    CHECK_HAS(file_of("streams-together.csv"), "GTX 680,1 C + 5 D,1 C + 5 D,48,65536,0,registers\n");
    CHECK_HAS(file_of("streams-misprints.csv"), "with 65535 only 4 D fit");
    check_markup(file_of("streams-figure-9.svg"));
}

TEST(simulated_rounds_are_the_predicted_ones)
{
    CHECK_OK(run_one("occupancy", "sim:680", 1, 1), err);
    CHECK_INT(count_of(file_of("occupancy-correlation.csv"), ",1.0000,32,1.0000,"), 3);
}

TEST(equal_seeds_give_equal_experiments)
{
    CHECK_OK(run_one("launch", "sim:k40", 4, 7), err);
    char *first = strdup(file_of("launch-sequential.csv"));
    CHECK_OK(run_one("launch", "sim:k40", 4, 7), err);
    CHECK_STR(file_of("launch-sequential.csv"), first);
    CHECK_OK(run_one("launch", "sim:k40", 4, 8), err);
    CHECK(strcmp(file_of("launch-sequential.csv"), first));
    free(first);
}

TEST(sets_that_no_card_runs_at_once_are_said_to_be_so)
{
    CHECK_OK(run_one("launch", "sim:680", 2, 1), err);
    CHECK_HAS(file_of("index.html"), "which runs at most 16 kernels");
    CHECK_HAS(file_of("launch-sequential.csv"), "\"fixed set, 31 streams\",0,-,-,-");
}

TEST(optimised_batches_are_faster_than_random_ones_and_these_than_one_by_one)
{
    CHECK_OK(run_one("batch", "sim:titanx", 20, 1), err);
    CHECK_INT(count_of(file_of("batch-times.csv"), ",yes,"), 3);
    check_markup(file_of("index.html"));
}
