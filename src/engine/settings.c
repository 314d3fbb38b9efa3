// settings.c - SET and SHOW.

#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGISTERS_MOST 255              // of weave_budget: no GPU gives a thread more

typedef struct Setting {
    const char *name, *values;         // what it takes, for the hint
    weft_status (*set)(weft_session *session, const char *value, bool *understood, Error *err);   // value NULL: default
    void        (*show)(const weft_session *session, Text *text);
    // or, where it is on or off:
    size_t      flag;                  // where in Settings
    bool        (*standard)(void);     // its default
} Setting;

static bool parse_bool(const char *value, bool *out)
{
    static const char *const on[] = { "on", "true", "yes", "1" }, *const off[] = { "off", "false", "no", "0" };
    for (int i = 0; i < COUNT_OF(on); i++) {
        if (strcasecmp(value, on[i]) == 0) { *out = true; return true; }
        if (strcasecmp(value, off[i]) == 0) { *out = false; return true; }
    }
    return false;
}

static bool is_on(void) { return true; }

static bool *flag_of(const Setting *setting, weft_session *session)
{
    return (bool *)((char *)&session->settings + setting->flag);
}

static void set_flag(const Setting *setting, weft_session *session, const char *value, bool *understood)
{
    if (!value) *flag_of(setting, session) = setting->standard();
    else *understood = parse_bool(value, flag_of(setting, session));
}

static const char *const jit_names[] = { [JIT_AUTO] = "auto", [JIT_TCC] = "tcc", [JIT_CC] = "cc",
                                         [JIT_PROGRAM] = "program" };

static weft_status set_jit(weft_session *session, const char *value, bool *understood, Error *err)
{
    (void)err;
    *understood = value == NULL;
    if (!value) session->settings.jit = JIT_AUTO;
    for (int i = 0; value && i < COUNT_OF(jit_names); i++) {
        if (strcasecmp(value, jit_names[i]) != 0) continue;
        session->settings.jit = (JitMode)i;
        *understood = true;
    }
    return WEFT_OK;
}

static void show_jit(const weft_session *session, Text *text)
{
    text_add(text, "%s", jit_names[session->settings.jit]);
}

static const char *const plan_cache_names[] = { [KEEP_SHAPES] = "on", [KEEP_TEXTS] = "text", [KEEP_NOTHING] = "off" };

static weft_status set_plan_cache(weft_session *session, const char *value, bool *understood, Error *err)
{
    (void)err;
    *understood = value == NULL;
    if (!value) session->settings.plan_cache = KEEP_SHAPES;
    for (int i = 0; value && i < COUNT_OF(plan_cache_names); i++) {
        if (strcasecmp(value, plan_cache_names[i]) != 0) continue;
        session->settings.plan_cache = (TreeKeeping)i;
        *understood = true;
    }
    return WEFT_OK;
}

static void show_plan_cache(const weft_session *session, Text *text)
{
    text_add(text, "%s", plan_cache_names[session->settings.plan_cache]);
}

static weft_status set_threads(weft_session *session, const char *value, bool *understood, Error *err)
{
    char      *end;
    const int  most = network_threads(session->db->network);
    const long n = value ? strtol(value, &end, 10) : most;
    (void)err;
    *understood = !value || (*value && !*end && n >= 1);
    if (*understood) session->settings.threads = (int)MIN_OF(n, most);
    return WEFT_OK;
}

static void show_threads(const weft_session *session, Text *text) { text_add(text, "%d", session->settings.threads); }

// Most of what the machine or the control group has: a query that explodes ends before the machine does.
i64 settings_default_memory_limit(void)
{
    const i64 megabyte = 1048576, memory = machine_memory();
    return memory / 10 * 8 / megabyte * megabyte;
}

static weft_status set_memory_limit(weft_session *session, const char *value, bool *understood, Error *err)
{
    i64 bytes = settings_default_memory_limit();
    (void)err;
    *understood = !value || mem_parse_size(value, &bytes);
    if (*understood) atomic_store(&session->db->budget.limit, bytes);
    return WEFT_OK;
}

static void show_memory_limit(const weft_session *session, Text *text)
{
    const i64 limit = atomic_load(&session->db->budget.limit);
    if (limit == 0) text_add(text, "none");
    else if (limit % 1048576 == 0) text_add(text, "%lldMB", (long long)(limit / 1048576));
    else text_add(text, "%lldB", (long long)limit);
}

// Beside the database; one in memory, or in a directory that cannot be written, has TMPDIR's.
const char *settings_default_temp_directory(const char *database)
{
    const char *own = getenv("TMPDIR");
    if (database && access(database, W_OK) == 0) return database;
    return own && *own ? own : "/tmp";
}

static weft_status set_temp_directory(weft_session *session, const char *value, bool *understood, Error *err)
{
    const char *directory = value ? value : settings_default_temp_directory(store_path(session->db->store));
    struct stat info;
    if (stat(directory, &info) != 0) return fail_errno(err, "use directory", directory);
    if (!S_ISDIR(info.st_mode)) return fail(err, WEFT_INVALID_PARAMETER, -1, "\"%s\" is not a directory", directory);
    if (access(directory, W_OK) != 0) return fail_errno(err, "write to directory", directory);
    *understood = temp_set_directory(session->db->temp, directory);
    return WEFT_OK;
}

static void show_temp_directory(const weft_session *session, Text *text)
{
    temp_get_directory(session->db->temp, text);
}

static weft_status set_temp_limit(weft_session *session, const char *value, bool *understood, Error *err)
{
    i64        bytes = TEMP_LIMIT_AUTO;
    const bool is_off = value && strcasecmp(value, "off") == 0;
    (void)err;
    *understood = !value || is_off || strcasecmp(value, "auto") == 0 || mem_parse_size(value, &bytes);
    if (*understood) temp_set_limit(session->db->temp, is_off ? 0 : bytes);
    return WEFT_OK;
}

static void show_temp_limit(const weft_session *session, Text *text)
{
    const i64 limit = temp_limit(session->db->temp);
    if (limit == TEMP_LIMIT_AUTO) text_add(text, "auto");
    else if (limit == 0) text_add(text, "off");
    else if (limit % 1048576 == 0) text_add(text, "%lldMB", (long long)(limit / 1048576));
    else text_add(text, "%lldB", (long long)limit);
}

static weft_status set_chunk_rows(weft_session *session, const char *value, bool *understood, Error *err)
{
    char      *end;
    const long n = value ? strtol(value, &end, 10) : (long)CHUNK_ROWS;
    (void)err;
    *understood = !value || (*value && !*end && n >= 64 && n <= (long)CHUNK_ROWS * 64);
    if (*understood) store_set_chunk_rows(session->db->store, (u32)n);
    return WEFT_OK;
}

static void show_chunk_rows(const weft_session *session, Text *text)
{
    text_add(text, "%u", store_chunk_rows(session->db->store));
}

// auto, cpu, cuda or cuda:N.  What is not understood leaves both as they were.
static bool parse_device(const char *value, DeviceChoice *device, int *gpu)
{
    enum { DIGITS_MOST = 3 };          // more GPUs than anybody has
    const bool   is_auto = strcasecmp(value, "auto") == 0, is_cpu = strcasecmp(value, "cpu") == 0;
    const bool   has_number = strncasecmp(value, "cuda:", 5) == 0;
    const char  *digits = has_number ? value + 5 : "0";
    const size_t n_digits = strspn(digits, "0123456789");
    if (!is_auto && !is_cpu && !has_number && strcasecmp(value, "cuda") != 0) return false;
    if (n_digits == 0 || n_digits > DIGITS_MOST || digits[n_digits]) return false;
    *device = is_auto ? DEVICE_AUTO : is_cpu ? DEVICE_CPU : DEVICE_CUDA;
    *gpu = (int)strtol(digits, NULL, 10);
    return true;
}

void settings_default_device(Settings *settings)
{
    const char *own = getenv("WEFT_DEVICE");
    settings->device = DEVICE_AUTO, settings->gpu = 0;
    if (own && *own && !parse_device(own, &settings->device, &settings->gpu))
        log_warn("WEFT_DEVICE=%s is not understood: auto, cpu, cuda or cuda:N", own);
}

static weft_status set_device(weft_session *session, const char *value, bool *understood, Error *err)
{
    Settings    *settings = &session->settings;
    DeviceChoice device;
    int          gpu;
    Device      *ignored;
    if (!value) {
        settings_default_device(settings);
        return WEFT_OK;
    }
    if (strncasecmp(value, "sim:", 4) == 0) {
        fail(err, WEFT_UNSUPPORTED, -1, "queries do not run on a simulated card");
        error_hint(err, "The experiments do: weft lab all --device %s", value);
        return err->status;
    }
    *understood = parse_device(value, &device, &gpu);
    if (*understood && device == DEVICE_CUDA) TRY(gpus_get(session->db->gpus, gpu, &ignored, err));
    if (*understood) settings->device = device, settings->gpu = gpu;
    return WEFT_OK;
}

static void show_device(const weft_session *session, Text *text)
{
    const Settings *settings = &session->settings;
    if (settings->device == DEVICE_CUDA) text_add(text, "cuda:%d", settings->gpu);
    else text_add(text, "%s", settings->device == DEVICE_CPU ? "cpu" : "auto");
}

bool settings_default_gpu_wait(void)
{
    const char *own = getenv("WEFT_GPU_WAIT");
    bool        wait = false;
    if (own && *own && !parse_bool(own, &wait)) log_warn("WEFT_GPU_WAIT=%s is not understood: on or off", own);
    return wait;
}

bool settings_default_keep_tables(void)
{
    const char *own = getenv("WEFT_KEEP_TABLES");
    bool        keeps = true;
    if (own && *own && !parse_bool(own, &keeps)) log_warn("WEFT_KEEP_TABLES=%s is not understood: on or off", own);
    return keeps;
}

// The place of VALUE among the words that a setting may be; -1: it is none of them.
static int find_word(const char *const *words, int n_words, const char *value)
{
    int i = 0;
    while (i < n_words && strcasecmp(value, words[i]) != 0) i++;
    return i < n_words ? i : -1;
}

static const char *const kinds_names[] = { [ROW_KINDS_AUTO] = "auto",
                                           [ROW_KINDS_ON] = "on",
                                           [ROW_KINDS_OFF] = "off" };

static bool parse_row_kinds(const char *value, RowKinds *how)
{
    const int i = find_word(kinds_names, COUNT_OF(kinds_names), value);
    if (i >= 0) *how = (RowKinds)i;
    return i >= 0;
}

RowKinds settings_default_row_kinds(void)
{
    const char *own = getenv("WEFT_ROW_KINDS");
    RowKinds    how = ROW_KINDS_AUTO;
    if (own && *own && !parse_row_kinds(own, &how))
        log_warn("WEFT_ROW_KINDS=%s is not understood: auto, on or off", own);
    return how;
}

static weft_status set_row_kinds(weft_session *session, const char *value, bool *understood, Error *err)
{
    (void)err;
    if (!value) session->settings.row_kinds = settings_default_row_kinds();
    else *understood = parse_row_kinds(value, &session->settings.row_kinds);
    return WEFT_OK;
}

static void show_row_kinds(const weft_session *session, Text *text)
{
    text_add(text, "%s", kinds_names[session->settings.row_kinds]);
}

static const char *const schedule_names[] = { [SCHEDULE_PLAIN] = "plain",
                                              [SCHEDULE_SEQUENTIAL] = "sequential",
                                              [SCHEDULE_RANDOM] = "random",
                                              [SCHEDULE_MULTIQX] = "multiqx",
                                              [SCHEDULE_MODEL] = "model" };
static const char         schedule_values[] = "plain, sequential, random, multiqx or model";

static bool parse_schedule(const char *value, GpuSchedule *schedule)
{
    const int i = find_word(schedule_names, COUNT_OF(schedule_names), value);
    if (i >= 0) *schedule = (GpuSchedule)i;
    return i >= 0;
}

GpuSchedule settings_default_gpu_schedule(void)
{
    const char *own = getenv("WEFT_GPU_SCHEDULE");
    GpuSchedule schedule = SCHEDULE_PLAIN;
    if (own && *own && !parse_schedule(own, &schedule))
        log_warn("WEFT_GPU_SCHEDULE=%s is not understood: %s", own, schedule_values);
    return schedule;
}

static weft_status set_gpu_schedule(weft_session *session, const char *value, bool *understood, Error *err)
{
    (void)err;
    if (!value) session->settings.gpu_schedule = settings_default_gpu_schedule();
    else *understood = parse_schedule(value, &session->settings.gpu_schedule);
    return WEFT_OK;
}

static void show_gpu_schedule(const weft_session *session, Text *text)
{
    text_add(text, "%s", schedule_names[session->settings.gpu_schedule]);
}

static const char *const generic_names[] = { [GENERIC_AUTO] = "auto",
                                             [GENERIC_OFF] = "off",
                                             [GENERIC_ALWAYS] = "always" };

static bool parse_generic(const char *value, GenericUse *use)
{
    const int i = find_word(generic_names, COUNT_OF(generic_names), value);
    if (i >= 0) *use = (GenericUse)i;
    return i >= 0;
}

GenericUse settings_default_gpu_generic(void)
{
    const char *own = getenv("WEFT_GPU_GENERIC");
    GenericUse  use = GENERIC_AUTO;
    if (own && *own && !parse_generic(own, &use))
        log_warn("WEFT_GPU_GENERIC=%s is not understood: auto, off or always", own);
    return use;
}

static weft_status set_gpu_generic(weft_session *session, const char *value, bool *understood, Error *err)
{
    (void)err;
    if (!value) session->settings.gpu_generic = settings_default_gpu_generic();
    else *understood = parse_generic(value, &session->settings.gpu_generic);
    return WEFT_OK;
}

static void show_gpu_generic(const weft_session *session, Text *text)
{
    text_add(text, "%s", generic_names[session->settings.gpu_generic]);
}

static const char *const gpu_sort_names[] = { [GPU_SORT_AUTO] = "auto", [GPU_SORT_ON] = "on", [GPU_SORT_OFF] = "off" };

static bool parse_gpu_sort(const char *value, GpuSort *how)
{
    const int i = find_word(gpu_sort_names, COUNT_OF(gpu_sort_names), value);
    if (i >= 0) *how = (GpuSort)i;
    return i >= 0;
}

GpuSort settings_default_gpu_sort(void)
{
    const char *own = getenv("WEFT_GPU_SORT");
    GpuSort     how = GPU_SORT_AUTO;
    if (own && *own && !parse_gpu_sort(own, &how))
        log_warn("WEFT_GPU_SORT=%s is not understood: auto, on or off", own);
    return how;
}

static weft_status set_gpu_sort(weft_session *session, const char *value, bool *understood, Error *err)
{
    (void)err;
    if (!value) session->settings.gpu_sort = settings_default_gpu_sort();
    else *understood = parse_gpu_sort(value, &session->settings.gpu_sort);
    return WEFT_OK;
}

static void show_gpu_sort(const weft_session *session, Text *text)
{
    text_add(text, "%s", gpu_sort_names[session->settings.gpu_sort]);
}

static weft_status set_priority(weft_session *session, const char *value, bool *understood, Error *err)
{
    char      *end;
    const long n = value ? strtol(value, &end, 10) : 0;
    (void)err;
    *understood = !value || (*value && !*end && n >= 0 && n <= 10);
    if (*understood) session->settings.priority = (int)n;
    return WEFT_OK;
}

static void show_priority(const weft_session *session, Text *text) { text_add(text, "%d", session->settings.priority); }

static weft_status set_timeout(weft_session *session, const char *value, bool *understood, Error *err)
{
    char        *end = "";
    const double n = value ? strtod(value, &end) : 0;
    while (*end == ' ') end++;
    const double unit = *end == 0 || strcasecmp(end, "ms") == 0 ? 1
                        : strcasecmp(end, "s") == 0             ? 1000
                        : strcasecmp(end, "min") == 0           ? 60000
                                                                : -1;
    (void)err;
    *understood = !value || (*value && n >= 0 && unit > 0 && n * unit < 1e12);
    if (*understood) session->settings.timeout_ms = (i64)(n * unit);
    return WEFT_OK;
}

static void show_timeout(const weft_session *session, Text *text)
{
    text_add(text, "%lldms", (long long)session->settings.timeout_ms);
}

// The number that VALUE begins with; *REST is what comes after it.
static bool parse_registers(const char *value, int *registers, const char **rest)
{
    char         digits[4] = "";
    const size_t n_digits = strspn(value, "0123456789");
    *rest = value + n_digits;
    if (n_digits == 0 || n_digits >= sizeof digits) return false;
    memcpy(digits, value, n_digits);
    *registers = (int)strtol(digits, NULL, 10);
    return *registers <= REGISTERS_MOST;
}

static weft_status set_weave_budget(weft_session *session, const char *value, bool *understood, Error *err)
{
    WeaveNeed   budget = { 0 };
    i64         bytes = 0;
    const char *rest = "";
    (void)err;
    *understood = !value || strcasecmp(value, "auto") == 0 || parse_registers(value, &budget.registers, &rest);
    if (*understood && *rest == ',') {
        rest += 1 + strspn(rest + 1, " ");
        *understood = mem_parse_size(rest, &bytes);
        rest = "";
    }
    *understood = *understood && !*rest;
    budget.shared_bytes = (u64)bytes;
    if (*understood) session->settings.weave_budget = budget;
    return WEFT_OK;
}

static void show_weave_budget(const weft_session *session, Text *text)
{
    const WeaveNeed budget = session->settings.weave_budget;
    if (!budget.registers && !budget.shared_bytes) text_add(text, "auto");
    else text_add(text, "%d", budget.registers);
    if (budget.shared_bytes) text_add(text, ", %lluB", (unsigned long long)budget.shared_bytes);
}

static weft_status set_timezone(weft_session *session, const char *value, bool *understood, Error *err)
{
    u8 zone = 0;
    *understood = !value || zone_find_setting(value, &zone);
    if (*understood) session->settings.zone = zone;
    if (*understood || zone_has_room(NULL)) return WEFT_OK;
    fail(err, WEFT_INVALID_PARAMETER, -1, "invalid value for setting \"timezone\": \"%s\"", value);
    (void)zone_has_room(err);
    return WEFT_INVALID_PARAMETER;
}

static void show_timezone(const weft_session *session, Text *text)
{
    text_add(text, "%s", zone_name(session->settings.zone));
}

static weft_status set_stream_commit(weft_session *session, const char *value, bool *understood, Error *err)
{
    char      *end;
    const long n = value ? strtol(value, &end, 10) : STREAM_COMMIT_MS;
    (void)err;
    *understood = !value || (*value && !*end && n >= 1 && n <= 60000);
    if (*understood) session->settings.stream_commit_ms = (int)n;
    return WEFT_OK;
}

static void show_stream_commit(const weft_session *session, Text *text)
{
    text_add(text, "%d", session->settings.stream_commit_ms);
}

static const Setting settings[] = {
    { "chunk_rows", "a number of rows from 64 on, for later appends", .set = set_chunk_rows, .show = show_chunk_rows },
    { "device", "auto, cpu, cuda or cuda:N", .set = set_device, .show = show_device },
    { "gpu_generic", "auto, off or always", .set = set_gpu_generic, .show = show_gpu_generic },
    { "gpu_schedule", schedule_values, .set = set_gpu_schedule, .show = show_gpu_schedule },
    { "gpu_sort", "auto, on or off", .set = set_gpu_sort, .show = show_gpu_sort },
    { "gpu_wait", "on or off", .flag = offsetof(Settings, gpu_wait), .standard = settings_default_gpu_wait },
    { "jit", "auto, tcc, cc or program", .set = set_jit, .show = show_jit },
    { "keep_tables", "on or off", .flag = offsetof(Settings, keep_tables),
      .standard = settings_default_keep_tables },
    { "memory_limit", "a size such as 512MB or 8GB; 0 for none", .set = set_memory_limit, .show = show_memory_limit },
    { "plan_cache", "on, text or off", .set = set_plan_cache, .show = show_plan_cache },
    { "priority", "a number from 0 to 10; queries with a larger one go first", .set = set_priority,
      .show = show_priority },
    { "row_kinds", "auto, on or off", .set = set_row_kinds, .show = show_row_kinds },
    { "sharing", "on or off", .flag = offsetof(Settings, sharing), .standard = is_on },
    { "statement_timeout", "milliseconds, or a time such as 5s or 2min; 0 for none", .set = set_timeout,
      .show = show_timeout },
    { "stream_commit_ms", "milliseconds from 1 to 60000 between commits of COPY from a pipe into a stream",
      .set = set_stream_commit, .show = show_stream_commit },
    { "temp_directory", "a directory for temporary files", .set = set_temp_directory, .show = show_temp_directory },
    { "temp_limit", "a size such as 20GB, auto for half of what the disk has free, or off for no temporary files",
      .set = set_temp_limit, .show = show_temp_limit },
    { "threads", "a number from 1 on; more than there are cores is as many as there are", .set = set_threads,
      .show = show_threads },
    { "timezone", "the name of a time zone, such as Europe/Berlin or UTC", .set = set_timezone, .show = show_timezone },
    { "weave", "on or off", .flag = offsetof(Settings, weave), .standard = is_on },
    { "weave_budget", "registers per thread up to 255, also with shared memory as in '64, 48kB'; 0 or auto for all",
      .set = set_weave_budget, .show = show_weave_budget },
    { "weave_queries", "on or off", .flag = offsetof(Settings, weave_queries), .standard = is_on },
};

static const Setting *find_setting(const char *name)
{
    for (int i = 0; i < COUNT_OF(settings); i++)
        if (strcasecmp(settings[i].name, name) == 0) return &settings[i];
    return NULL;
}

static weft_status no_such_setting(const char *name, int at, Error *err)
{
    fail(err, WEFT_UNDEFINED_OBJECT, at, "there is no setting \"%s\"", name);
    error_hint(err, "SHOW ALL lists the settings.");
    return WEFT_UNDEFINED_OBJECT;
}

weft_status settings_set(weft_session *session, const char *name, const char *value, int at, Error *err)
{
    const Setting *setting = find_setting(name);
    weft_status    status = WEFT_OK;
    bool           understood = true;
    if (!setting) return no_such_setting(name, at, err);
    if (setting->standard) set_flag(setting, session, value, &understood);
    else status = setting->set(session, value, &understood, err);
    if (status && err->position < 0) err->position = at;       // who opens a device knows nothing of the statement
    if (status || understood) return status;
    fail(err, WEFT_INVALID_PARAMETER, at, "invalid value for setting \"%s\": \"%s\"", setting->name, value);
    error_hint(err, "%s takes %s", setting->name, setting->values);
    return WEFT_INVALID_PARAMETER;
}

static void show(const Setting *setting, weft_session *session, Text *text)
{
    if (setting->standard) text_add(text, "%s", *flag_of(setting, session) ? "on" : "off");
    else setting->show(session, text);
}

weft_status settings_show(weft_session *session, const char *name, int at, Text *text, Error *err)
{
    const Setting *setting = find_setting(name);
    if (strcasecmp(name, "all") == 0) {
        for (int i = 0; i < COUNT_OF(settings); i++) {
            text_add(text, "%s = ", settings[i].name);
            show(&settings[i], session, text);
            text_add(text, "\n");
        }
        return WEFT_OK;
    }
    if (!setting) return no_such_setting(name, at, err);
    show(setting, session, text);
    text_add(text, "\n");
    return WEFT_OK;
}
