// print.c - kernels as text: the one place that knows how steps and sinks are written in the words of src/kernel.
//
//     head     COLUMN, PARAM, TABLE, TOTAL, SUMS: what the kernel is handed
//     tiles    loads, each before the first step that looks at the column; steps; the sink
//     ends     TOTAL_END, NOTES_END
//
// While no row was dropped, steps go over all rows (TEST on a mask, EACH_ROW); the first that drops any leaves a
// selection (PICK), and from then on
// they go over that (FILTER, EACH).

#include "weave/weave_int.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Printer {
    const Ir          *ir;
    Text              *out;
    const char *const *names;          // by declaration; NULL: as they were declared
    const char        *prefix;         // of accumulators
    const char        *live;           // instead of a step's own; NULL: that
    bool               is_plain;       // never handed a list of rows, and nobody counts
    bool               has_selection, is_on_mask;
    int                n_open;         // MATCHES to be closed
    Map *loaded, *loaded_here;  // several queries: columns that were loaded for all of them, and for the one at hand
} Printer;

// ---- fragments ------------------------------------------------------------------------------------------------------

static const char *decl_name(const Printer *p, int decl) { return p->names ? p->names[decl] : p->ir->decls[decl].name; }

static const char *group_name(const Ir *ir)
{
    return ir->sink.groups == GROUP_ONE ? (ir->n_dims ? "cube_" : "") : ir->n_dims ? "cube_ + group" : "group";
}

static void add_cell(const Printer *p, Text *out, int slot)
{
    const char *group = group_name(p->ir);
    text_add(out, *group ? "%sa%d_[%s]" : "%sa%d_", p->prefix, slot, group);
}

// AT is what follows REF_OPEN; returns what follows REF_CLOSE.
static const char *add_ref(const Printer *p, Text *out, const char *at)
{
    char     *end;
    const int number = (int)strtol(at + 1, &end, 10);
    if (*at == 'd') text_add(out, "%s", decl_name(p, number));
    else if (*at == 'c') add_cell(p, out, number);
    else text_add(out, "%s", *group_name(p->ir) ? group_name(p->ir) : "0");
    return end + 1;
}

static void add_fragment(const Printer *p, Text *out, const char *text)
{
    for (const char *ref; (ref = strchr(text, REF_OPEN));) {
        text_add_bytes(out, text, (size_t)(ref - text));
        text = add_ref(p, out, ref + 1);
    }
    text_add_bytes(out, text, strlen(text));
}

size_t ir_length(const Ir *ir, const char *fragment)
{
    size_t length = strlen(fragment);
    for (const char *ref = strchr(fragment, REF_OPEN); ref; ref = strchr(ref + 1, REF_OPEN)) {
        const char *end = strchr(ref, REF_CLOSE);
        length -= (size_t)(end + 1 - ref);
        if (ref[1] == 'd') length += strlen(ir->decls[atoi(ref + 2)].name);
    }
    return length;
}

bool ir_uses(const int *uses, int n_uses, int decl)
{
    for (int u = 0; u < n_uses; u++)
        if (uses[u] == decl) return true;
    return false;
}

void ir_find_uses(Arena *arena, const char *fragment, int **uses, int *n_uses)
{
    for (const char *ref = fragment ? strchr(fragment, REF_OPEN) : NULL; ref; ref = strchr(ref + 1, REF_OPEN)) {
        const int decl = ref[1] == 'd' ? atoi(ref + 2) : -1;
        if (decl >= 0 && !ir_uses(*uses, *n_uses, decl)) *LIST_PUSH(arena, *uses, *n_uses) = decl;
    }
}

bool ir_has_matches(const Ir *ir)
{
    for (int s = 0; s < ir->n_steps; s++)
        if (ir->steps[s].kind == STEP_MATCHES) return true;
    return false;
}

// ---- lines and blocks -----------------------------------------------------------------------------------------------

static void add_indent(const Printer *p) { text_add_blanks(p->out, (size_t)(8 + 4 * p->n_open)); }

PRINTF_LIKE(2, 3) static void print_line(const Printer *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_indent(p);
    text_add_args(p->out, format, args);
    text_add_bytes(p->out, "\n", 1);
    va_end(args);
}

// A word whose last arguments are a fragment.
PRINTF_LIKE(3, 4) static void print_word(const Printer *p, const char *fragment, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_indent(p);
    text_add_args(p->out, format, args);
    add_fragment(p, p->out, fragment);
    text_add_bytes(p->out, ")\n", 2);
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

#define SHORT_LINE 100

// One short statement stays on the line of its block; more get a line each.  Frees BLOCK.
static void print_block(const Printer *p, const char *word, const char *live, Text *block)
{
    char *line = block->bytes, *end = strchr(line, '\n');
    int   depth = 1;
    if (end && !end[1] && block->length < SHORT_LINE) {
        *end = 0;
        print_line(p, "%s(%s) { %s }", word, live, line);
        text_free(block);
        return;
    }
    print_line(p, "%s(%s) {", word, live);
    for (; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end) *end = 0;
        add_indent(p);
        text_add_blanks(p->out, (size_t)(4 * MAX_OF(depth - closes(line), 0)));
        text_add_bytes(p->out, line, end ? (size_t)(end - line) : strlen(line));
        text_add_bytes(p->out, "\n", 1);
        depth += opens(line);
    }
    print_line(p, "}");
    text_free(block);
}

// ---- declarations ---------------------------------------------------------------------------------------------------

static void print_decl(const Printer *p, int d)
{
    const Decl *decl = &p->ir->decls[d];
    const char *name = decl_name(p, d);
    switch (decl->kind) {
        case DECL_COLUMN:     text_add(p->out, "    COLUMN(%s, %s, %d)\n", decl->type, name, decl->number); break;
        case DECL_COLUMN_ANY: text_add(p->out, "    COLUMN_ANY(%s, %d)\n", name, decl->number); break;
        case DECL_NULLS:      text_add(p->out, "    NULLS(%s, %d)\n", name, decl->number); break;
        case DECL_PARAM:      text_add(p->out, "    PARAM(%s, %s, %d)\n", decl->type, name, decl->number); break;
        case DECL_PARAM_F64:  text_add(p->out, "    PARAM_F64(%s, %d)\n", name, decl->number); break;
        case DECL_TABLE:      text_add(p->out, "    TABLE(%s, %s, %d)\n", decl->type, name, decl->number); break;
        case DECL_NOTES:      text_add(p->out, "    NOTES(%d)\n", decl->number); break;
        case DECL_CARRY:
        case DECL_NOTHING:    break;
    }
}

// A total says how several of it, one per thread on a GPU, become one; the words of a 128-bit total can only do so
// together.
static void print_total(const Printer *p, const Accumulator *sum, const char *end)
{
    static const char *const hows[] = {
        [SLOT_ADD] = "sum",           [SLOT_MIN] = "least",     [SLOT_MAX] = "most",
        [SLOT_MIN_F64] = "least",     [SLOT_MAX_F64] = "most",
        [SLOT_MIN_WIDE] = "least", [SLOT_MAX_WIDE] = "most", [SLOT_EXTREME_LOW] = "least"
    };
    if (sum->kind == SLOT_WIDE_HIGH) return;
    if (sum->kind == SLOT_WIDE_LOW)
        text_add(p->out, "    TOTAL_WIDE%s(%sa%d_, %sa%d_, %d)\n", end, p->prefix, sum->slot, p->prefix, sum->slot + 1,
                 sum->slot);
    else
        text_add(p->out, "    TOTAL%s(%s, %s, %sa%d_, %d)\n", end, hows[sum->kind], sum->type, p->prefix, sum->slot,
                 sum->slot);
}

static bool has_totals(const Ir *ir)
{
    return ir->sink.kind == SINK_GROUPS && ir->sink.groups == GROUP_ONE && !ir->n_dims;
}

static void print_accumulators(const Printer *p)
{
    const IrSink *sink = &p->ir->sink;
    for (int a = 0; a < sink->n_accumulators && sink->groups != GROUP_HASH; a++) {
        const Accumulator *sum = &sink->accumulators[a];
        if (has_totals(p->ir)) print_total(p, sum, "");
        else text_add(p->out, "    SUMS(%s, %sa%d_, %d)\n", sum->type, p->prefix, sum->slot, sum->slot);
    }
}

static void print_dims(const Printer *p)
{
    const Ir *ir = p->ir;
    for (int d = 0; d < ir->n_dims; d++) {
        text_add(p->out, "    TABLE(u%d, c%d_, %d)\n", 8 * ir->class_bytes, d, ir->first_class + d);
        text_add(p->out, "    PARAM(u64, f%d_, %d)\n    PARAM(u64, s%d_, %d)\n", d, ir->first_param + 2 * d, d,
                 ir->first_param + 2 * d + 1);
    }
}

static void print_ends(const Printer *p)
{
    const IrSink *sink = &p->ir->sink;
    for (int a = 0; a < sink->n_accumulators && has_totals(p->ir); a++) print_total(p, &sink->accumulators[a], "_END");
    for (int o = 0; sink->notes && o < sink->n_outs; o++)
        if (sink->notes[o]) text_add(p->out, "    NOTES_END(%d)\n", o);
}

// ---- loads ----------------------------------------------------------------------------------------------------------

// Of several queries each column is loaded once: for all, or within a query.  PART: "" or what else of a column is
// loaded by itself.
static bool is_loaded(const Printer *p, int column, const char *part)
{
    char        key[128];
    const char *name = decl_name(p, p->ir->columns[column].decl);
    if (!p->loaded) return false;
    const size_t length = (size_t)snprintf(key, sizeof key, "%s%s", name, part);
    if (map_get(p->loaded, key, length, NULL) || (p->loaded_here && map_get(p->loaded_here, key, length, NULL)))
        return true;
    map_set(p->loaded_here ? p->loaded_here : p->loaded, key, length, 1);
    return false;
}

static void print_load(const Printer *p, int c, const char *live)
{
    static const char *const words[] = { [LOAD_PLAIN] = "LOAD", [LOAD_ROWS] = "LOAD_ROWS", [LOAD_TEST] = "LOAD_TEST" };
    const IrColumn *column = &p->ir->columns[c];
    const Decl     *decl = &p->ir->decls[column->decl];
    const char     *name = decl_name(p, column->decl);
    if (!is_loaded(p, c, "")) {
        if (decl->kind == DECL_COLUMN_ANY) print_line(p, "LOAD_ANY(%s, %s)", name, live);
        else print_line(p, "%s(%s, %s, %s)", words[p->is_plain ? LOAD_PLAIN : column->load], decl->type, name, live);
    }
    if (column->has_nulls && !is_loaded(p, c, " nulls")) print_line(p, "LOAD_NULLS(%s, %s)", name, live);
}

// The columns that are looked at for the first time; or, of several queries, all that are looked at.
static void print_loads(const Printer *p, int first, int end, const int *uses, int n_uses, const char *live)
{
    for (int c = p->loaded ? 0 : first; c < (p->loaded ? p->ir->n_columns : end); c++)
        if (!p->loaded || ir_uses(uses, n_uses, p->ir->columns[c].decl)) print_load(p, c, live);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

static const char *live_of(const Printer *p, const char *live) { return p->live ? p->live : live; }

static void print_mask(Printer *p, const char *live)
{
    if (!p->has_selection) print_line(p, "MASK(%s)", live);
}

static void print_pick(Printer *p, const Step *step, const char *live)
{
    if (!p->has_selection) print_line(p, "PICK%s(%s)", step->is_unsure && !p->is_plain ? "_UNSURE" : "", live);
    p->has_selection = true;
}

static const char *unsure(const Printer *p, const Step *step)
{
    return step->is_unsure && !p->is_plain ? "UNSURE " : "";
}

// All tests on one mask, where the first sets it and the others narrow it.
static void print_test(Printer *p, const Step *step, const char *live, const char *also)
{
    if (step->kind == STEP_RANGE) {
        print_word(p, step->text, "%sBETWEEN_TEST%s(%s, ", unsure(p, step), also, live);
        return;
    }
    add_indent(p);
    text_add(p->out, "TEST(%s) { PASS%s(%s, ", live, also, live);
    add_fragment(p, p->out, step->keep);
    text_add(p->out, "); }\n");
}

static void print_carries(const Printer *p, const Step *step)
{
    for (int c = 0; c < step->n_carries; c++)
        print_line(p, "CARRY(%s, %s)", p->ir->decls[step->carries[c]].type, decl_name(p, step->carries[c]));
}

static void print_filter(Printer *p, const Step *step, const char *live)
{
    Text block = { 0 };
    if (step->text) add_fragment(p, &block, step->text);
    text_add(&block, "%s(%s, ", p->has_selection ? "KEEP" : "PASS", live);
    add_fragment(p, &block, step->keep);
    text_add(&block, ");\n");
    print_carries(p, step);
    print_mask(p, live);
    print_block(p, p->has_selection ? "FILTER" : "TEST", live, &block);
    print_pick(p, step, live);
}

static void print_lookup(Printer *p, const Step *step, const char *live)
{
    print_mask(p, live);
    print_carries(p, step);
    print_word(p, step->text, "%s%s_%s(%s, ", unsure(p, step), step->word, p->has_selection ? "FILTER" : "TEST", live);
    print_pick(p, step, live);
}

static void print_range(Printer *p, const Step *step, const char *live)
{
    print_mask(p, live);
    print_word(p, step->text, "BETWEEN_%s(%s, ", p->has_selection ? "FILTER" : "TEST", live);
    print_pick(p, step, live);
}

static void print_each(Printer *p, const Step *step, const char *live)
{
    Text block = { 0 };
    add_fragment(p, &block, step->text);
    print_carries(p, step);
    print_block(p, p->has_selection ? "EACH" : "EACH_ROW", live, &block);
}

static void print_matches(Printer *p, const Step *step, const char *live)
{
    print_line(p, "MATCHES(%s, %s)", live, step->inner);
    p->n_open++;
}

static void print_matches_end(Printer *p, const Step *step)
{
    Text row = { 0 };
    add_fragment(p, &row, step->row);
    text_add(&row, ", ");
    add_fragment(p, &row, step->next);
    if (step->hit) text_add(&row, ", "), add_fragment(p, &row, step->hit);
    print_line(p, "MATCHES_%sEND(%s, %s)", step->hit ? "LEFT_" : "", live_of(p, step->live), row.bytes);
    p->n_open--;
    text_free(&row);
}

static void print_step(Printer *p, const Step *step)
{
    const char *live = live_of(p, step->live);
    print_loads(p, step->first_column, step->end_column, step->uses, step->n_uses, live);
    switch (step->kind) {
        case STEP_RANGE:     print_range(p, step, live); break;
        case STEP_CONDITION:
        case STEP_BLOCK:     print_filter(p, step, live); break;
        case STEP_LOOKUP:    print_lookup(p, step, live); break;
        case STEP_EACH:      print_each(p, step, live); break;
        case STEP_MATCHES:   print_matches(p, step, live); break;
        case STEP_NOTHING:   break;
    }
}

// Whether the step is made on the mask together with those beside it.  Of several queries a condition that comes first
// is, too.
static bool is_test(const Printer *p, const Step *step)
{
    return !p->has_selection && (step->is_on_mask || (p->loaded && step->is_dense && step->kind == STEP_CONDITION));
}

static void close_mask(Printer *p, const Step *last)
{
    if (p->is_on_mask) print_pick(p, last, live_of(p, last->live));
    p->is_on_mask = false;
}

// The steps in LIST, in order.
static void print_steps(Printer *p, const Step *const *list, int n)
{
    for (int s = 0; s < n; s++) {
        const Step *step = list[s];
        const char *live = live_of(p, step->live);
        if (!is_test(p, step)) {
            print_step(p, step);
        } else {
            if (!p->is_on_mask) print_mask(p, live);
            print_loads(p, step->first_column, step->end_column, step->uses, step->n_uses, live);
            print_test(p, step, live, p->is_on_mask ? "_ALSO" : "");
            p->is_on_mask = true;
            if (s + 1 == n || !is_test(p, list[s + 1])) close_mask(p, step);
        }
        if (step->count >= 0 && !p->is_plain)
            print_line(p, "STEP(%d, %s)", step->count, step->kind == STEP_MATCHES ? step->inner : step->live);
    }
}

// ---- sinks ----------------------------------------------------------------------------------------------------------

static void print_rows(Printer *p, const char *live)
{
    const IrSink *sink = &p->ir->sink;
    Text          block = { 0 };
    print_line(p, "ROOM(%s)", live);
    for (int o = 0; o < sink->n_outs; o++) {
        const OutColumn *out = &sink->outs[o];
        print_line(p, "OUT(%s, o%d, %d)", out->is_float ? "f64" : "i64", out->value, out->value);
        if (out->null >= 0) print_line(p, "OUT(u8, o%d, %d)", out->null, out->null);
    }
    add_fragment(p, &block, sink->adds);
    if (sink->n_outs) print_block(p, p->has_selection ? "EACH" : "EACH_ROW", live, &block);
    else text_free(&block);
}

static void add_cube(const Printer *p, Text *block)
{
    const Ir *ir = p->ir;
    text_add(block, "const u64 cube_ = ");
    for (int d = 0; d < ir->n_dims; d++)
        text_add(block, "%s(u64)c%d_[%s[i] + f%d_] * s%d_", d ? " + " : "", d,
                 decl_name(p, ir->columns[ir->dims[d]].decl), d, d);
    text_add(block, ";\n");
}

static void print_groups(Printer *p, const char *live)
{
    const IrSink *sink = &p->ir->sink;
    const bool    is_total = sink->groups == GROUP_ONE;
    Text          block = { 0 };
    if (p->ir->n_dims) add_cube(p, &block);
    add_fragment(p, &block, sink->keys);
    for (int a = 0; a < sink->n_accumulators && sink->groups == GROUP_HASH; a++) {  // a new group may have moved them
        const Accumulator *sum = &sink->accumulators[a];
        text_add(&block, "SUMS(%s, %sa%d_, %d)\n", sum->type, p->prefix, sum->slot, sum->slot);
    }
    add_fragment(p, &block, sink->adds);
    if (is_total && p->ir->n_dims) {
        text_add(&block, "ADD(");
        add_cell(p, &block, sink->rows);
        text_add(&block, ", 1)\n");
    }
    if (block.length) print_block(p, p->has_selection ? "EACH" : "EACH_ROW", live, &block);
    else text_free(&block);
    if (is_total && !p->ir->n_dims && sink->rows >= 0)
        print_line(p, "TOTAL_ROWS(%sa%d_, %s)", p->prefix, sink->rows, live);
}

static void print_sink(Printer *p)
{
    const IrSink *sink = &p->ir->sink;
    const char   *live = live_of(p, sink->live);
    print_loads(p, sink->first_column, sink->end_column, sink->uses, sink->n_uses, live);
    if (sink->kind == SINK_GROUPS) print_groups(p, live);
    else print_rows(p, live);
}

// ---- one query ------------------------------------------------------------------------------------------------------

void ir_print(const Ir *ir, const char *name, Text *text)
{
    Printer      p = { .ir = ir, .out = text, .prefix = "", .is_plain = ir->n_dims > 0 };
    const Step **steps = calloc((size_t)ir->n_steps + 1, sizeof *steps);
    for (int s = 0; s < ir->n_steps; s++) steps[s] = &ir->steps[s];
    text_add(text, "// %s\nKERNEL(%s)\n{\n", ir->title, name);
    for (int d = 0; d < ir->n_decls; d++) print_decl(&p, d);
    print_accumulators(&p);
    print_dims(&p);
    text_add(text, "    TILES {\n        ROWS(live)\n");
    print_steps(&p, steps, ir->n_steps);
    print_sink(&p);
    for (int s = ir->n_steps - 1; s >= 0; s--)
        if (ir->steps[s].kind == STEP_MATCHES) print_matches_end(&p, &ir->steps[s]);
    text_add(text, "    }\n");
    print_ends(&p);
    text_add(text, "}\n");
    free(steps);
}

// ---- several queries ------------------------------------------------------------------------------------------------

typedef struct FusedPrinter {
    Arena         *arena;
    const FusedIr *fused;
    Text          *out;
    Map           *loaded;             // for all members
    bool           has_selection;      // of the steps that are shared
} FusedPrinter;

static Printer member_printer(const FusedPrinter *f, int n)
{
    const FusedMember *member = &f->fused->members[n];
    return (Printer){ .ir = member->ir,
                      .out = f->out,
                      .names = member->names,
                      .prefix = arena_printf(f->arena, "m%d_", n),
                      .live = "live",
                      .is_plain = true,
                      .has_selection = f->has_selection,
                      .loaded = f->loaded };
}

static void begin_member(const FusedPrinter *f, int n) { text_add(f->out, "#define A m%d_\n", n); }
static void end_member(const FusedPrinter *f) { text_add(f->out, "#undef A\n"); }

static int steps_of(const FusedPrinter *f, int n, bool is_shared, const Step **list)
{
    const FusedMember *member = &f->fused->members[n];
    int                n_steps = 0;
    for (int s = 0; s < member->ir->n_steps; s++)
        if (member->is_shared[s] == is_shared && member->ir->steps[s].kind != STEP_NOTHING)
            list[n_steps++] = &member->ir->steps[s];
    return n_steps;
}

static void print_heads(const FusedPrinter *f)
{
    for (int n = 0; n < f->fused->n_members; n++) text_add(f->out, "    MEMBER(m%d_, %d)\n", n, n);
    for (int n = 0; n < f->fused->n_members; n++) {
        const Printer p = member_printer(f, n);
        begin_member(f, n);
        for (int d = 0; d < p.ir->n_decls; d++)
            if (f->fused->members[n].is_declared[d]) print_decl(&p, d);
        print_accumulators(&p);
        end_member(f);
    }
}

static void print_shared(FusedPrinter *f)
{
    const Step *steps[FUSE_STEPS];
    Printer     p = member_printer(f, 0);
    const int   n_steps = steps_of(f, 0, true, steps);
    if (!n_steps) return;
    begin_member(f, 0);
    print_steps(&p, steps, n_steps);
    end_member(f);
    f->has_selection = p.has_selection;
}

static bool is_needed(const FusedMember *member, int column)
{
    const Ir *ir = member->ir;
    bool      is_needed = ir_uses(ir->sink.uses, ir->sink.n_uses, ir->columns[column].decl);
    for (int s = 0; s < ir->n_steps && !is_needed; s++)
        is_needed = !member->is_shared[s] && ir_uses(ir->steps[s].uses, ir->steps[s].n_uses, ir->columns[column].decl);
    return is_needed;
}

// Columns that several members look at after the shared steps.
static void print_common_loads(const FusedPrinter *f)
{
    Map *counts = map_new(f->arena);
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < f->fused->n_members; n++) {
            const FusedMember *member = &f->fused->members[n];
            const Printer      p = member_printer(f, n);
            for (int c = 0; c < member->ir->n_columns; c++) {
                const char *name = member->names[member->ir->columns[c].decl];
                u64         n_members = 0;
                if (!is_needed(member, c)) continue;
                map_get(counts, name, strlen(name), &n_members);
                if (pass == 0) map_set(counts, name, strlen(name), n_members + 1);
                else if (n_members > 1) print_load(&p, c, "live");
            }
        }
}

// The rows are those of the whole kernel, so they are taken before A is the member.
static void print_member(const FusedPrinter *f, int n)
{
    const Step *steps[FUSE_STEPS];
    Printer     p = member_printer(f, n);
    const int   n_steps = steps_of(f, n, false, steps);
    const bool  is_apart = n_steps || f->fused->is_apart;
    if (is_apart) p.live = "live1";
    p.loaded_here = map_new(f->arena);
    text_add(f->out, "        {\n%s",
             !is_apart         ? ""
             : p.has_selection ? "        COPY_ROWS(live, live1)\n"
                               : "        ROWS(live1)\n");
    begin_member(f, n);
    if (is_apart) text_add(f->out, "        MEMBER_ROWS(live1)\n");
    print_steps(&p, steps, n_steps);
    print_sink(&p);
    end_member(f);
    text_add(f->out, "        }\n");
}

void ir_print_fused(Arena *arena, const FusedIr *fused, Text *text)
{
    FusedPrinter f = { .arena = arena, .fused = fused, .out = text, .loaded = map_new(arena) };
    print_heads(&f);
    text_add(text, "    TILES {\n        ROWS(live)\n");
    print_shared(&f);
    print_common_loads(&f);
    for (int n = 0; n < fused->n_members; n++) print_member(&f, n);
    text_add(text, "    }\n");
    for (int n = 0; n < fused->n_members; n++) {
        const Printer p = member_printer(&f, n);
        if (!has_totals(p.ir)) continue;
        begin_member(&f, n);
        print_ends(&p);
        end_member(&f);
    }
}
