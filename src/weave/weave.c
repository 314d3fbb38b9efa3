// weave.c - one kernel from the steps of a pipeline.
//
//     head     COLUMN, PARAM, TABLE: what the kernel is handed
//     tiles    tests on the mask, PICK, then filters and probes on the selection, then the sink
//
// Same work, same text, byte for byte: names come from columns, numbers from the order of use, and the kernel's own name is
// the hash of its text.  The functions here keep the books; value.c, steps.c and sink.c write.

#include "weave/weave_int.h"

#include <stdio.h>
#include <stdlib.h>

// ---- names ---------------------------------------------------------------------------------------------------------------

// Words of C, of tile C and of our own naming that a column must not take.  Tile C's macros are upper case: no clash.
static const char *const reserved[] = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for",
    "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
    "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm", "typeof", "i", "live", "group", "key", "words",
    "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "main", "linux", "unix", "class", "new", "template",
    "this", "operator", "bool", "true", "false", "namespace", "private", "public", "protected", "delete", "try", "catch", "throw",
    "friend", "virtual", "export", "mutable", "explicit", "using", "typename", "and", "or", "not", "xor", "bitand", "bitor", "compl",
    "wchar_t", "int8_t", "half", "min", "max", "abs", "printf", "assert", "clock", "and_eq", "or_eq", "xor_eq", "not_eq", "alignas",
    "alignof", "char8_t", "char16_t", "char32_t", "concept", "const_cast", "consteval", "constexpr", "constinit", "co_await",
    "co_return", "co_yield", "decltype", "dynamic_cast", "noexcept", "nullptr", "reinterpret_cast", "requires", "static_assert",
    "static_cast", "thread_local", "typeid", "errno", "stdin", "stdout", "stderr",
};

// Temporaries, parameters and outputs (e1, e1_null, p2, o3) and all about live rows (live, live1, live_n) are ours.
static bool is_ours(const char *name)
{
    const size_t n_digits = strchr("epo", name[0]) ? strspn(name + 1, "0123456789") : 0;
    return (n_digits > 0 && (!name[1 + n_digits] || name[1 + n_digits] == '_')) || strncmp(name, "live", 4) == 0;
}

// Words derive further names from a column's, so two names clash where one is the other and such an ending.
static const char *const suffixes[] = { "_all", "_base", "_valid", "_valid_all", "_col", "_low", "_span", "_row", "_at",
                                        "_of", "_null", "_map", "_mask", "_next", "_n", "_in", "_rows", "_u", "_words", "_size",
                                        "_picked" };

// Both lists by hash, made once: every name of every kernel is looked up in them.
typedef enum WordMark { WORD_RESERVED = 1, WORD_SUFFIX = 2 } WordMark;
typedef struct Word { const char *text; size_t length; WordMark mark; } Word;

enum { N_WORD_SLOTS = 512 };
static Word           word_slots[N_WORD_SLOTS];
static pthread_once_t words_once = PTHREAD_ONCE_INIT;

static Word *find_word(const char *text, size_t length)
{
    u64 at = hash_bytes(text, length) % N_WORD_SLOTS;
    while (word_slots[at].text && (word_slots[at].length != length || memcmp(word_slots[at].text, text, length) != 0)) at = (at + 1) % N_WORD_SLOTS;
    return &word_slots[at];
}

static void fill_words(void)
{
    _Static_assert(COUNT_OF(reserved) + COUNT_OF(suffixes) < N_WORD_SLOTS / 2, "the words fill their slots");
    for (int i = 0; i < COUNT_OF(reserved); i++) *find_word(reserved[i], strlen(reserved[i])) = (Word){ reserved[i], strlen(reserved[i]), WORD_RESERVED };
    for (int i = 0; i < COUNT_OF(suffixes); i++) *find_word(suffixes[i], strlen(suffixes[i])) = (Word){ suffixes[i], strlen(suffixes[i]), WORD_SUFFIX };
}

static bool is_word(const char *text, size_t length, WordMark mark)
{
    pthread_once(&words_once, fill_words);
    const Word *word = find_word(text, length);
    return word->text && word->mark == mark;
}

static bool is_reserved(const char *name, size_t length)
{
    return is_word(name, length, WORD_RESERVED) || is_ours(name) || (length > 1 && name[length - 1] == '_');
}

// The length of the next shorter stem of NAME: what is left without an ending.  0: there is none; begin with the whole length.
static size_t next_stem(const char *name, size_t length, size_t stem)
{
    while (stem-- > 1)
        if (name[stem] == '_' && is_word(name + stem, length - stem, WORD_SUFFIX)) return stem;
    return 0;
}

typedef enum NameMark { NAME_TAKEN = 1, NAME_IS_STEM = 2 } NameMark;    // a stem: a taken name is this and an ending

static u64 name_marks(const Weaver *w, const char *name, size_t length)
{
    u64 marks = 0;
    map_get(w->names, name, length, &marks);
    return marks;
}

static bool is_taken(const Weaver *w, const char *name, size_t length)
{
    if (name_marks(w, name, length)) return true;
    for (size_t stem = next_stem(name, length, length); stem; stem = next_stem(name, length, stem))
        if (name_marks(w, name, stem) & NAME_TAKEN) return true;
    return false;
}

bool weave_names_clash(const char *a, const char *b)
{
    const size_t x = strlen(a), y = strlen(b), shorter = MIN_OF(x, y);
    const char  *rest = x < y ? b + shorter : a + shorter;
    if (memcmp(a, b, shorter) != 0) return false;
    for (int i = 0; i < COUNT_OF(suffixes); i++)
        if (strcmp(rest, suffixes[i]) == 0) return true;
    return !*rest;
}

static void take_name(Weaver *w, const char *name, size_t length)
{
    map_set(w->names, name, length, name_marks(w, name, length) | NAME_TAKEN);
    for (size_t stem = next_stem(name, length, length); stem; stem = next_stem(name, length, stem))
        map_set(w->names, name, stem, name_marks(w, name, stem) | NAME_IS_STEM);
}

const char *weave_name(Weaver *w, const char *wanted)
{
    char   clean[48];
    size_t length = 0;
    bool   is_ok = true;
    for (const char *c = wanted; *c && length < 32; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'), digit = *c >= '0' && *c <= '9';
        if (letter) clean[length++] = (char)(*c | 0x20);
        else if ((digit || *c == '_') && length > 0) clean[length++] = *c;
        else if (length > 0) clean[length++] = '_';
    }
    if (!length) memcpy(clean, "column", length = 6), is_ok = false;
    clean[length] = 0;
    u64    n = 1;                      // the last number given to this stem, so that many equal names take no longer than others
    size_t n_name = length;
    char   name[64];
    memcpy(name, clean, length + 1);
    if (!is_ok || is_reserved(clean, length)) memcpy(name + length, "_c", 3), n_name += 2;
    if (is_taken(w, name, n_name)) {
        map_get(w->numbers, clean, length, &n);
        while (is_taken(w, name, n_name)) n_name = (size_t)snprintf(name, sizeof name, "%s_%llu_c", clean, (unsigned long long)++n);
        map_set(w->numbers, clean, length, n);
    }
    take_name(w, name, n_name);
    return arena_strndup(w->arena, name, n_name);
}

const char *weave_width_type(int width)
{
    return width == 1 ? "u8" : width == 2 ? "u16" : width == 4 ? "u32" : "u64";
}

// ---- writing --------------------------------------------------------------------------------------------------------------

void weave_line(Weaver *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_add(&w->body, "%*s", 8 + 4 * w->n_open, "");
    text_add_args(&w->body, format, args);
    text_add_bytes(&w->body, "\n", 1);
    va_end(args);
}

void weave_stmt(Weaver *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_add_args(&w->block, format, args);
    text_add_bytes(&w->block, "\n", 1);
    va_end(args);
}

// How a line changes the depth of braces: before it is written, and after.
static int closes(const char *line) { return line[0] == '}' ? (int)strspn(line, "}") : 0; }

static int opens(const char *line)
{
    int depth = 0;
    for (; *line; line++) depth += *line == '{' ? 1 : *line == '}' ? -1 : 0;
    return depth;
}

// One short statement stays on the line of its block; more get a line each.
void weave_block(Weaver *w, const char *open)
{
    char *block = text_keep(w->arena, &w->block), *end = strchr(block, '\n');
    int   depth = 1;
    if (end && !end[1] && strlen(block) < 100) {
        *end = 0;
        weave_line(w, "%s { %s }", open, block);
        return;
    }
    weave_line(w, "%s {", open);
    for (char *line = block; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) *end = 0;
        weave_line(w, "%*s%s", 4 * MAX_OF(depth - closes(line), 0), "", line);
        depth += opens(line);
    }
    weave_line(w, "}");
}

void weave_count(Weaver *w, const char *what, int at_step)
{
    weave_line(w, "STEP(%d, %s)", w->out->n_counts, w->live);
    *LIST_PUSH(w->arena, w->out->counts, w->out->n_counts) = (WovenStep){ arena_strdup(w->arena, what), at_step, w->pass };
}

const char *weave_temp(Weaver *w, const char *type, const char *value)
{
    const char *name = arena_printf(w->arena, "e%d", w->n_temps++);
    weave_stmt(w, "const %s %s = %s;", type, name, value);
    return name;
}

// ---- what the kernel is handed ------------------------------------------------------------------------------------------------

int weave_param(Weaver *w, Param param)
{
    *LIST_PUSH(w->arena, w->out->params, w->out->n_params) = param;
    return w->out->n_params - 1;
}

const char *weave_param_i64(Weaver *w, const char *name, i64 value)
{
    const int k = weave_param(w, (Param){ .kind = PARAM_VALUE, .value = value });
    if (!name) name = arena_printf(w->arena, "p%d", k);
    text_add(&w->head, "    PARAM(i64, %s, %d)\n", name, k);
    return name;
}

const char *weave_param_f64(Weaver *w, double value)
{
    i64 bits;
    memcpy(&bits, &value, sizeof bits);
    const int   k = weave_param(w, (Param){ .kind = PARAM_VALUE, .value = bits });
    const char *name = arena_printf(w->arena, "p%d", k);
    text_add(&w->head, "    PARAM_F64(%s, %d)\n", name, k);
    return name;
}

const char *weave_table(Weaver *w, const char *type, const char *name, const void *data, size_t bytes)
{
    return weave_table_of(w, NULL, 0, type, name, data, bytes);
}

const char *weave_table_of(Weaver *w, const JoinTable *owner, int number, const char *type, const char *name, const void *data, size_t bytes)
{
    *LIST_PUSH(w->arena, w->out->table_facts, w->out->n_table_facts) = (WovenTable){ bytes, owner ? owner->id : 0, number };
    *LIST_PUSH(w->arena, w->out->tables, w->out->n_tables) = data;
    text_add(&w->head, "    TABLE(%s, %s, %d)\n", type, name, w->out->n_tables - 1);
    return name;
}

int weave_check(Weaver *w, weft_status status, int at, const char *message)
{
    *LIST_PUSH(w->arena, w->out->checks, w->out->n_checks) = (Check){ status, at, message };
    return w->out->n_checks - 1;
}

int weave_state(Weaver *w, SlotKind kind, int bytes, u64 init)
{
    *LIST_PUSH(w->arena, w->out->state, w->out->n_state) = (StateSlot){ kind, (u8)bytes, init };
    return w->out->n_state - 1;
}

// ---- columns ---------------------------------------------------------------------------------------------------------------------

Var *weave_var(Weaver *w, ColumnRef ref)
{
    for (int i = 0; i < w->n_vars; i++)
        if (w->vars[i].ref.relation == ref.relation && w->vars[i].ref.column == ref.column) return &w->vars[i];
    return NULL;
}

static void declare_column(Weaver *w, Var *var)
{
    Woven *out = w->out;
    int n_pass = out->n_columns;
    *LIST_PUSH(w->arena, out->column_pass, n_pass) = w->pass;
    *LIST_PUSH(w->arena, out->columns, out->n_columns) = var->source;
    var->column = out->n_columns - 1;
    const bool is_float = type_is_float(var->type);
    if (is_float) text_add(&w->head, "    COLUMN(%s, %s, %d)\n", var->type.kind == TYPE_REAL && var->width == 4 ? "f32" : "f64", var->name, var->column);
    else if (var->width == 0) text_add(&w->head, "    COLUMN_ANY(%s, %d)\n", var->name, var->column);
    else text_add(&w->head, "    COLUMN(%s, %s, %d)\n", weave_width_type(var->width), var->name, var->column);
    if (var->range.nullable) text_add(&w->head, "    NULLS(%s, %d)\n", var->name, var->column);
}

void weave_on_stack(Weaver *w, int bytes)
{
    w->out->tile_bytes += (u64)bytes;
    w->out->fused_bytes += (u64)bytes;
}

const char *weave_unsure(const Weaver *w) { return w->out->can_pick ? "UNSURE " : ""; }

static bool is_needed_later(const Weaver *w, const Var *var)
{
    for (int i = 0; i < w->n_later; i++)
        if (w->later[i].relation == var->ref.relation && w->later[i].column == var->ref.column) return true;
    return false;
}

void weave_load(Weaver *w, Var *var)
{
    if (var->source < 0 || var->is_loaded) return;
    declare_column(w, var);
    var->is_loaded = true;
    const char *type = !type_is_float(var->type) ? weave_width_type(var->width) : var->type.kind == TYPE_REAL && var->width == 4 ? "f32" : "f64";
    if (var->width == 0) weave_on_stack(w, 8);
    else if (w->out->can_pick) w->out->tile_bytes += 8;        // gathered
    if (!type_is_float(var->type) && var->width == 0) weave_line(w, "LOAD_ANY(%s, %s)", var->name, w->live);
    else weave_line(w, "LOAD%s(%s, %s, %s)", !w->out->can_pick ? "" : is_needed_later(w, var) ? "_ROWS" : "_TEST", type, var->name, w->live);
    if (var->range.nullable) weave_line(w, "LOAD_NULLS(%s, %s)", var->name, w->live);
}

static void add_source_vars(Weaver *w)
{
    for (int c = 0; c < w->job->source->n_columns; c++) {
        const SourceColumn *column = &w->job->source->columns[c];
        *LIST_PUSH(w->arena, w->vars, w->n_vars) = (Var){
            .ref = column->ref, .name = weave_name(w, column->name), .type = column->type, .dict = column->dict,
            .dict_count = column->dict_count, .range = column->range, .source = c, .width = column->width, .column = -1,
        };
    }
}

// ---- the whole --------------------------------------------------------------------------------------------------------------------

static void write_title(Weaver *w, Text *text)
{
    Weaver      names = { .arena = w->arena, .names = map_new(w->arena), .numbers = map_new(w->arena) };     // titles pass the same alphabet as identifiers
    const char *separator = ": ";
    text_add(text, "// %s", weave_name(&names, w->job->source->name));
    for (int s = 0; s < w->job->n_steps; s++) {
        if (w->job->steps[s].table) text_add(text, "%sjoin %s", separator, weave_name(&names, w->job->steps[s].table->name));
        else if (s == 0) text_add(text, "%sfilter", separator);
        else continue;
        separator = ", ";
    }
    text_add(text, "%s%s\n", separator, w->job->sink == SINK_GROUPS ? (w->job->n_keys ? "groups" : "totals") : "rows");
}

static char *assemble(Weaver *w)
{
    Text text = { 0 };
    write_title(w, &text);
    text_add(&text, "KERNEL(@)\n{\n");
    text_add_bytes(&text, w->head.bytes ? w->head.bytes : "", w->head.length);
    text_add_bytes(&text, w->body.bytes, w->body.length);
    text_add(&text, "}\n");
    return text_keep(w->arena, &text);
}

// The name is the hash of the text with '@' in its place.
static void name_kernel(Weaver *w, const char *text)
{
    const char *at = strchr(text, '@');
    w->out->name = arena_printf(w->arena, "p_%016llx", (unsigned long long)hash_bytes(text, strlen(text)));
    w->out->text = arena_printf(w->arena, "%.*s%s%s", (int)(at - text), text, w->out->name, at + 1);
    w->out->sink_at += strlen(w->out->text) - w->body.length - strlen("}\n");          // from the body's begin to the text's
}

#define PICK_COLUMNS 16                // gathered columns lie on the stack

// Rows can be gathered where columns are of one width and without NULLs, and there are not too many of them.
static bool can_pick(const WeaveJob *job)
{
    const Source *source = job->source;
    bool          ok = source->from_store && job->sink != SINK_TABLE && job->n_steps > 0 && source->n_columns <= PICK_COLUMNS;
    for (int c = 0; c < source->n_columns; c++) ok = ok && source->columns[c].width && !source->columns[c].range.nullable;
    return ok;
}

// Everything but the steps that a sieve makes sure of (see weave_tests and probe_plain).  Filters after a probe are never that, and may use
// columns that are not there yet.
static void find_later_columns(Weaver *w)
{
    const WeaveJob *job = w->job;
    bool            is_first = true;
    for (int s = 0; s < job->n_steps; s++) {
        if (job->steps[s].table) is_first = false;
        if (job->steps[s].filter && !(is_first && weave_is_range(w, job->steps[s].filter))) plan_collect_columns(w->arena, job->steps[s].filter, &w->later, &w->n_later);
        if (!job->steps[s].table || weave_is_sure_probe(w, &job->steps[s])) continue;
        for (int k = 0; k < job->steps[s].table->n_keys; k++) plan_collect_columns(w->arena, job->steps[s].keys[k], &w->later, &w->n_later);
    }
    for (int k = 0; k < job->n_keys; k++) plan_collect_columns(w->arena, job->keys[k], &w->later, &w->n_later);
    for (int a = 0; a < job->n_aggs; a++)
        if (job->aggs[a].arg) plan_collect_columns(w->arena, job->aggs[a].arg, &w->later, &w->n_later);
    for (int o = 0; o < job->n_outputs; o++) plan_collect_columns(w->arena, job->outputs[o], &w->later, &w->n_later);
}

static weft_status write_kernel(Weaver *w)
{
    w->done = arena_array(w->arena, bool, w->job->n_steps + 1);
    w->out->can_pick = can_pick(w->job);
    if (w->out->can_pick) find_later_columns(w);
    w->live = "live";
    w->is_all = true;
    text_add(&w->body, "    TILES {\n");
    weave_line(w, "ROWS(live)");
    weave_on_stack(w, 4);              // and its mask
    TRY(weave_tests(w));
    for (int step = 0; step < w->job->n_steps; step++) {
        const WeaveStep *next = &w->job->steps[step];
        if (w->done[step]) continue;
        if (next->table) TRY(weave_probe(w, next, step));
        else TRY(weave_filter(w, next->filter, step));
    }
    w->out->sink_at = w->body.length;
    return w->job->sink == SINK_GROUPS ? weave_groups(w) : weave_rows(w);
}

weft_status weave(Arena *arena, const WeaveJob *job, Woven **out, Error *err)
{
    Weaver w = { .arena = arena, .job = job, .err = err, .out = arena_make(arena, Woven), .names = map_new(arena), .numbers = map_new(arena) };
    w.max_rows = (double)job->source->n_rows;
    w.pass = 1;
    w.out->fan_out = 1;
    add_source_vars(&w);
    const weft_status status = write_kernel(&w);
    if (!status) name_kernel(&w, assemble(&w));
    text_free(&w.head);
    text_free(&w.body);
    text_free(&w.block);
    *out = w.out;
    return status;
}
