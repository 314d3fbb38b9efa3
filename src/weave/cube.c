// cube.c - one kernel for queries of one shape that differ in their constants, from the kernel of any of them.
//
//     UNSURE BETWEEN_TEST(live, u8, discount, discount_low, discount_span)      ->  gone: the value's class stands for it
//     EACH(live) { ADD(a1_, VALUE(price)) }   ->  EACH_ROW(live) { const u64 cube_ = c0_[discount[i] + f0_] * s0_ + ...;
//                                                                  ADD(a1_[cube_], VALUE(price)) }
//
// Values of a column that no query tells from each other are a class.  A row's classes lead to a cell, and what the queries would do
// with the row is done once, for its cell; each query then adds up the cells it wants.  So the work per row does not depend on the
// number of queries.  The text is written when such queries meet, not for every query.

#include "weave/weave_int.h"

static const char sink_begins[] = "        EACH(live)", rows_begin[] = "        TOTAL_ROWS(";

static bool is_plain_sum(SlotKind kind)
{
    return kind == SLOT_SEEN || kind == SLOT_ADD || kind == SLOT_MIN || kind == SLOT_MAX || kind == SLOT_WIDE_LOW || kind == SLOT_WIDE_HIGH;
}

// Groups of an array, or none; nothing that can fail, as a failure would not know whose it is.
bool weave_can_cube(const Woven *woven)
{
    bool ok = woven->can_pick && woven->group_kind != GROUP_HASH && woven->n_checks == 0 && woven->fan_out == 1 && woven->n_state > 0 && woven->seen >= 0;
    for (int s = 0; s < woven->n_state; s++) ok = ok && is_plain_sum(woven->state[s].kind);
    for (int s = 0; s < woven->n_sieves; s++)
        if (woven->sieves[s].is_exact) return ok;
    return false;
}

// Made for one kernel, of its query's text.
static bool is_small_and_own(const WovenTable *facts) { return !facts->owner && facts->bytes <= COMPARED_BYTES; }

// What a device made has no address here, but an owner.
static bool is_same_table(const Woven *a, const Woven *b, int t)
{
    const WovenTable *x = &a->table_facts[t], *y = &b->table_facts[t];
    if (is_small_and_own(x) && is_small_and_own(y)) return x->bytes == y->bytes && memcmp(a->tables[t], b->tables[t], x->bytes) == 0;
    return a->tables[t] == b->tables[t] && x->owner == y->owner && x->number == y->number;
}

bool weave_is_same_but_sieves(const Woven *a, const Woven *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_groups != b->n_groups || a->sieved_tables != b->sieved_tables) return false;
    for (int p = 0; p < a->n_params; p++) {
        const Param *x = &a->params[p], *y = &b->params[p];
        if (x->is_sieved && y->is_sieved) continue;
        if (x->kind != y->kind || x->value != y->value || x->other != y->other || x->column != y->column) return false;
    }
    for (int t = 0; t < a->n_tables; t++)
        if (!is_same_table(a, b, t) && (t >= 64 || !(a->sieved_tables >> t & 1))) return false;
    return true;
}

static const void *copy_bytes(Arena *arena, const void *from, size_t bytes)
{
    return memcpy(arena_alloc(arena, bytes), from, bytes);
}

// ---- the text ---------------------------------------------------------------------------------------------------------------

typedef struct CubeText {
    Arena       *arena;
    const Woven *member;
    int          n_dims, class_bytes;
    const int   *dims;                 // kernel columns
    bool         has_tail;             // steps besides those that classes stand for
    Text         out;
} CubeText;

static const char *column_name(const CubeText *t, int column)
{
    for (const char *line = t->member->text; *line; line = line_next(line))
        if (line_begins(line, "    COLUMN(") && line_number(line) == column) return line_argument(t->arena, line, 1);
    return "";
}

static void add_line(CubeText *t, const char *line) { text_add_bytes(&t->out, line, (size_t)(line_next(line) - line)); }

static void add_head_line(CubeText *t, const char *line)
{
    const int k = line_number(line);
    if (line_begins(line, "    PARAM(") && t->member->params[k].is_sieved) return;
    if (line_begins(line, "    TABLE(") && k < 64 && t->member->sieved_tables >> k & 1) return;
    if (line_begins(line, "    TOTAL_WIDE(")) {
        text_add(&t->out, "    SUMS(i64, a%d_, %d)\n    SUMS(i64, a%d_, %d)\n", k, k, k + 1, k + 1);
    } else if (line_begins(line, "    TOTAL(")) {
        text_add(&t->out, "    SUMS(%s\n", arena_printf(t->arena, "%.*s", (int)strcspn(strchr(line, ',') + 2, "\n"), strchr(line, ',') + 2));
    } else {
        add_line(t, line);
    }
}

static void add_dims(CubeText *t)
{
    for (int d = 0; d < t->n_dims; d++) {
        text_add(&t->out, "    TABLE(u%d, c%d_, %d)\n", 8 * t->class_bytes, d, t->member->n_tables + d);
        text_add(&t->out, "    PARAM(u64, f%d_, %d)\n    PARAM(u64, s%d_, %d)\n", d, t->member->n_params + 2 * d, d, t->member->n_params + 2 * d + 1);
    }
}

static bool is_replaced(const char *line)
{
    static const char *const words[] = { "        UNSURE ", "        MASK(", "        PICK_UNSURE(", "        STEP(" };
    for (int i = 0; i < COUNT_OF(words); i++)
        if (line_begins(line, words[i])) return true;
    return false;
}

// Steps that are not replaced need a selection where the replaced ones had made one.
static void add_step(CubeText *t, const char *line)
{
    if (line_is_load(line)) line_add_load(&t->out, line);
    else if (t->has_tail && line_begins(line, "        PICK_UNSURE(")) text_add(&t->out, "        MASK(live)\n        TEST(live) { PASS(live, 1); }\n        PICK(live)\n");
    else if (!is_replaced(line)) add_line(t, line);
}

// Accumulators are called a0_, a1_, ...; nothing else is.  a0_ becomes a0_[cube_], a0_[group] becomes a0_[cube_ + group].
static void add_statement(CubeText *t, const char *text, size_t length)
{
    const char *end = text + length;
    text_add(&t->out, "            ");
    if (line_begins(text, "SPREAD(")) {                        // finds its accumulators by slot and group
        const char *group = strchr(text, ',') + 2;
        text_add(&t->out, "%.*scube_ + %.*s\n", (int)(group - text), text, (int)(end - group), group);
        return;
    }
    for (char before = ' '; text < end; before = text[-1]) {
        const bool   can_begin = *text == 'a' && strchr(" (,", before);
        const size_t n_digits = can_begin ? strspn(text + 1, "0123456789") : 0;
        const bool   is_cell = n_digits && text[1 + n_digits] == '_' && strchr("[,)", text[2 + n_digits]);
        const size_t n = is_cell ? n_digits + 2 : 1;
        text_add_bytes(&t->out, text, n);
        text += n;
        if (!is_cell) continue;
        if (*text == '[') text_add(&t->out, "[cube_ + "), text++;
        else text_add(&t->out, "[cube_]");
    }
    text_add(&t->out, "\n");
}

static void add_cell(CubeText *t)
{
    text_add(&t->out, "            const u64 cube_ = ");
    for (int d = 0; d < t->n_dims; d++) text_add(&t->out, "%s(u64)c%d_[%s[i] + f%d_] * s%d_", d ? " + " : "", d, column_name(t, t->dims[d]), d, d);
    text_add(&t->out, ";\n");
}

// "        EACH(live) { ... }", on one line or several, and perhaps the count of rows; END is the line that closes the tiles.
static void add_sink(CubeText *t, const char *sink, const char *end)
{
    const char *rows = strstr(sink, rows_begin);
    if (rows >= end) rows = NULL;
    text_add(&t->out, "        %s(live) {\n", t->has_tail ? "EACH" : "EACH_ROW");
    add_cell(t);
    if (line_begins(sink, sink_begins)) {
        const char *at = strchr(sink, '{') + 1, *close = rows ? rows : end;
        while (*--close != '}') {}
        while (at < close) {
            at += strspn(at, " \n");
            size_t length = MIN_OF(strcspn(at, "\n"), (size_t)(close - at));
            while (length && at[length - 1] == ' ') length--;
            if (length && at < close) add_statement(t, at, length);
            at += length + 1;
        }
    }
    if (rows) text_add(&t->out, "            ADD(%.*s[cube_], 1)\n", (int)strcspn(rows + strlen(rows_begin), ","), rows + strlen(rows_begin));
    text_add(&t->out, "        }\n");
}

static void find_tail(CubeText *t, const char *tiles, const char *sink)
{
    for (const char *line = line_next(tiles); line < sink; line = line_next(line))
        if (!line_begins(line, "        ROWS(") && !line_is_load(line) && !is_replaced(line)) t->has_tail = true;
}

static void write_text(CubeText *t, const char *name)
{
    const char *text = t->member->text, *tiles = line_last(text, "    TILES {"), *end = line_last(text, "    }\n"), *sink = line_last(text, sink_begins);
    if (!sink) sink = line_last(text, rows_begin);
    find_tail(t, tiles, sink);
    for (const char *line = text; line < tiles; line = line_next(line)) {
        if (line_begins(line, "KERNEL(")) text_add(&t->out, "KERNEL(%s)\n", name);
        else add_head_line(t, line);
    }
    add_dims(t);
    add_line(t, tiles);
    for (const char *line = line_next(tiles); line < sink; line = line_next(line)) add_step(t, line);
    add_sink(t, sink, end);
    text_add(&t->out, "    }\n}\n");
}

Woven *weave_cube(Arena *arena, const Woven *member, const int *dims, int n_dims, int class_bytes)
{
    CubeText t = { .arena = arena, .member = member, .n_dims = n_dims, .class_bytes = class_bytes, .dims = dims };
    Woven   *cube = arena_make(arena, Woven);
    *cube = *member;
    cube->name = arena_printf(arena, "c_%s", member->name + 2);
    write_text(&t, cube->name);
    cube->text = text_keep(arena, &t.out);
    cube->columns = arena_array(arena, int, member->n_columns + 1);
    cube->params = arena_array(arena, Param, member->n_params + 2 * n_dims);
    cube->tables = arena_array(arena, const void *, member->n_tables + n_dims);
    cube->state = arena_array(arena, StateSlot, member->n_state);
    memcpy(cube->columns, member->columns, (size_t)member->n_columns * sizeof(int));
    memcpy(cube->params, member->params, (size_t)member->n_params * sizeof(Param));
    cube->table_facts = arena_array(arena, WovenTable, member->n_tables + n_dims);
    if (member->n_tables) {
        memcpy(cube->tables, member->tables, (size_t)member->n_tables * sizeof(void *));
        memcpy(cube->table_facts, member->table_facts, (size_t)member->n_tables * sizeof(WovenTable));
        for (int k = 0; k < member->n_tables; k++)         // the member may leave before the others
            if (is_small_and_own(&member->table_facts[k])) cube->tables[k] = copy_bytes(arena, member->tables[k], member->table_facts[k].bytes);
    }
    memcpy(cube->state, member->state, (size_t)member->n_state * sizeof(StateSlot));
    cube->n_params += 2 * n_dims, cube->n_tables += n_dims, cube->n_table_facts = cube->n_tables;
    cube->group_kind = GROUP_ARRAY;
    cube->n_zones = cube->n_sieves = cube->n_counts = 0;
    cube->is_empty = cube->can_pick = false;
    return cube;
}
