// fuse.c - one kernel for queries that look at the same rows and do different things with them: the same filters and joins, other sums.
//
//     TILES {
//         ROWS(live)
//         BETWEEN_TEST(live, ...)  PICK(live)                    once, as the first member has it
//     #define A m0_
//         { EACH(live) { ADD(m0_a0_, VALUE(price)) } }           each member's sink, with its own accumulators
//     #undef A
//     #define A m1_
//         { EACH(live) { SEEN(m1_a1_[group]) } }
//     #undef A
//     }
//
// Words find what a kernel is handed through A.  Here A is a macro that names the member whose lines follow, so these lines stay as
// they are, and each member keeps its own columns, parameters, tables, groups and errors.  Names that mean different things in two
// members are told apart by a prefix; those that mean the same are declared once.

#include "weave/weave_int.h"

// ---- what a kernel is handed ------------------------------------------------------------------------------------------------

typedef struct Declared {
    const char *line;                  // in the member's text
    const char *name;
    int         number;                // of column, parameter, table or slot
    const char *renamed;               // in the fused text
    bool        is_shared;             // declared by an earlier member
} Declared;

typedef struct Part {                  // a member
    const FuseMember *member;
    int               n_declared;
    Declared         *declared;
    const char       *tiles, *sink, *end;      // lines of its text: TILES, the first of the sink, the one that closes the tiles
} Part;

static bool is_about(const char *line, const char *word) { return line_begins(line + 4, word) && line[4 + strlen(word)] == '('; }

// Most words have a type first; these do not.
static int name_argument(const char *line)
{
    if (is_about(line, "TOTAL")) return 2;
    return is_about(line, "PARAM_F64") || is_about(line, "COLUMN_ANY") || is_about(line, "NULLS") || is_about(line, "TOTAL_WIDE") ? 0 : 1;
}

static Part read_part(Arena *arena, const FuseMember *member)
{
    const char *text = member->woven->text;
    Part        part = { .member = member, .tiles = line_last(text, "    TILES {"), .sink = text + member->woven->sink_at, .end = line_last(text, "    }\n") };
    for (const char *line = line_next(strchr(text, '{')); line < part.tiles; line = line_next(line))
        *LIST_PUSH(arena, part.declared, part.n_declared) = (Declared){ line, line_argument(arena, line, name_argument(line)), line_number(line), NULL, false };
    return part;
}

// A word of more than one name: the low and the high word of a sum.
static bool is_state(const char *line) { return is_about(line, "TOTAL") || is_about(line, "TOTAL_WIDE") || is_about(line, "SUMS"); }

static bool is_same_column(const FuseMember *a, int x, const FuseMember *b, int y)
{
    return a->chunk_column[a->woven->columns[x]] == b->chunk_column[b->woven->columns[y]];
}

static bool is_same_param(const FuseMember *a, int x, const FuseMember *b, int y)
{
    const Param *p = &a->woven->params[x], *q = &b->woven->params[y];
    if (p->kind != q->kind || p->value != q->value || p->other != q->other) return false;
    return p->kind == PARAM_VALUE || is_same_column(a, p->column, b, q->column);
}

static size_t word_length(const char *line) { return strcspn(line, "("); }

// Both are declared by the same word, as the same type, and mean the same.
static bool is_same(const Part *a, const Declared *x, const Part *b, const Declared *y)
{
    const size_t length = word_length(x->line);
    if (is_state(x->line) || word_length(y->line) != length || strncmp(x->line, y->line, length) != 0) return false;
    if (name_argument(x->line) == 1) {
        const size_t type = strcspn(x->line, ",");
        if (strcspn(y->line, ",") != type || strncmp(x->line, y->line, type) != 0) return false;
    }
    if (line_begins(x->line, "    PARAM")) return is_same_param(a->member, x->number, b->member, y->number);
    if (line_begins(x->line, "    TABLE")) return a->member->woven->tables[x->number] == b->member->woven->tables[y->number];
    return is_same_column(a->member, x->number, b->member, y->number);
}

// ---- who fits ---------------------------------------------------------------------------------------------------------------

static bool is_name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static bool has_name(const char *text, const char *end, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = text; at + length <= end; at++)
        if (*at == *name && strncmp(at, name, length) == 0 && !is_name_char(at[length]) && !is_name_char(at[-1])) return true;
    return false;
}

static const Declared *find_declared(const Part *part, const Declared *like)
{
    for (int i = 0; i < part->n_declared; i++) {
        const Declared *other = &part->declared[i];
        const size_t    length = word_length(like->line);
        if (strcmp(other->name, like->name) == 0 && word_length(other->line) == length && strncmp(other->line, like->line, length) == 0) return other;
    }
    return NULL;
}

bool weave_can_fuse(const Woven *woven) { return woven->sink_at && woven->n_state > 0 && woven->fan_out == 1 && woven->state[0].kind != SLOT_OUT; }

bool weave_has_same_steps(Arena *arena, const FuseMember *a, const FuseMember *b)
{
    const Part   x = read_part(arena, a), y = read_part(arena, b);
    const size_t length = (size_t)(x.sink - x.tiles);
    if ((size_t)(y.sink - y.tiles) != length || memcmp(x.tiles, y.tiles, length) != 0) return false;
    for (int i = 0; i < x.n_declared; i++) {
        if (!has_name(x.tiles, x.sink, x.declared[i].name)) continue;
        const Declared *other = find_declared(&y, &x.declared[i]);
        if (!other || !is_same(&x, &x.declared[i], &y, other)) return false;
    }
    return true;
}

// ---- the text ---------------------------------------------------------------------------------------------------------------

// What an earlier member has declared is used; a name that means something else there gets this member's prefix.
static void rename_declared(Arena *arena, Part *parts, int n)
{
    for (int i = 0; i < parts[n].n_declared; i++) {
        Declared *own = &parts[n].declared[i];
        bool      is_taken = is_state(own->line);
        own->renamed = own->name;
        for (int p = 0; p < n && !own->is_shared; p++)
            for (int j = 0; j < parts[p].n_declared && !own->is_shared; j++) {
                const Declared *other = &parts[p].declared[j];
                if (strcmp(other->name, own->name) != 0) continue;
                const bool is_like = word_length(other->line) == word_length(own->line) && strncmp(other->line, own->line, word_length(own->line)) == 0;
                if (!is_like && (line_begins(other->line, "    NULLS") || line_begins(own->line, "    NULLS"))) continue;    // goes with its column
                if (!is_state(own->line) && is_same(&parts[n], own, &parts[p], other)) own->is_shared = true, own->renamed = other->renamed;
                else is_taken = true;
            }
        if (!own->is_shared && is_taken) own->renamed = arena_printf(arena, "m%d_%s", n, own->name);
    }
}

// The high word of a wide total is named in the line of the low one.
static const char *renamed(const Part *part, int n, Arena *arena, const char *name)
{
    for (int i = 0; i < part->n_declared; i++)
        if (strcmp(part->declared[i].name, name) == 0) return part->declared[i].renamed;
    const size_t n_digits = name[0] == 'a' ? strspn(name + 1, "0123456789") : 0;
    return n_digits && strcmp(name + 1 + n_digits, "_") == 0 ? arena_printf(arena, "m%d_%s", n, name) : name;
}

static void add_text(Text *out, Arena *arena, const Part *part, int n, const char *text, const char *end)
{
    while (text < end) {
        size_t length = 0;
        while (text + length < end && is_name_char(text[length])) length++;
        if (!length) {
            text_add_bytes(out, text++, 1);
            continue;
        }
        const char *name = arena_printf(arena, "%.*s", (int)length, text);
        text_add(out, "%s", text[0] >= '0' && text[0] <= '9' ? name : renamed(part, n, arena, name));
        text += length;
    }
}

static void add_line(Text *out, Arena *arena, const Part *part, int n, const char *line) { add_text(out, arena, part, n, line, line_next(line)); }

// Rows are never handed over as lists here.
static void add_step(Text *out, Arena *arena, const Part *part, int n, const char *line)
{
    static const char unsure[] = "        UNSURE ", pick[] = "        PICK_UNSURE(";
    Text              plain = { 0 };
    if (line_begins(line, "        STEP(")) return;
    if (line_is_load(line)) line_add_load(&plain, line);
    else if (line_begins(line, unsure)) text_add(&plain, "        %.*s", (int)(line_next(line) - line - (i64)strlen(unsure)), line + strlen(unsure));
    else if (line_begins(line, pick)) text_add(&plain, "        PICK(%.*s", (int)(line_next(line) - line - (i64)strlen(pick)), line + strlen(pick));
    else text_add_bytes(&plain, line, (size_t)(line_next(line) - line));
    add_text(out, arena, part, n, plain.bytes, plain.bytes + plain.length);
    text_free(&plain);
}

static void begin_member(Text *out, int n) { text_add(out, "#define A m%d_\n", n); }
static void end_member(Text *out) { text_add(out, "#undef A\n"); }

static void write_heads(Text *out, Arena *arena, const Part *parts, int n_parts)
{
    for (int n = 0; n < n_parts; n++) text_add(out, "    MEMBER(m%d_, %d)\n", n, n);
    for (int n = 0; n < n_parts; n++) {
        begin_member(out, n);
        for (int i = 0; i < parts[n].n_declared; i++)
            if (!parts[n].declared[i].is_shared) add_line(out, arena, &parts[n], n, parts[n].declared[i].line);
        end_member(out);
    }
}

static void write_tiles(Text *out, Arena *arena, const Part *parts, int n_parts)
{
    const char *line = line_next(parts[0].tiles);
    text_add(out, "    TILES {\n");
    for (; line_begins(line, "        ROWS("); line = line_next(line)) add_step(out, arena, &parts[0], 0, line);
    begin_member(out, 0);
    for (; line < parts[0].sink; line = line_next(line)) add_step(out, arena, &parts[0], 0, line);
    end_member(out);
    for (int n = 0; n < n_parts; n++) {
        begin_member(out, n);
        text_add(out, "        {\n");
        for (line = parts[n].sink; line < parts[n].end; line = line_next(line)) add_step(out, arena, &parts[n], n, line);
        text_add(out, "        }\n");
        end_member(out);
    }
    text_add(out, "    }\n");
}

static void write_ends(Text *out, Arena *arena, const Part *parts, int n_parts)
{
    for (int n = 0; n < n_parts; n++) {
        const char *line = line_next(parts[n].end);
        if (line_begins(line, "}")) continue;
        begin_member(out, n);
        for (; !line_begins(line, "}"); line = line_next(line)) add_line(out, arena, &parts[n], n, line);
        end_member(out);
    }
}

const char *weave_fuse(Arena *arena, const FuseMember *members, int n_members, const char **name)
{
    Part *parts = arena_array(arena, Part, n_members);
    Text  body = { 0 };
    for (int n = 0; n < n_members; n++) {
        parts[n] = read_part(arena, &members[n]);
        rename_declared(arena, parts, n);
    }
    write_heads(&body, arena, parts, n_members);
    write_tiles(&body, arena, parts, n_members);
    write_ends(&body, arena, parts, n_members);
    *name = arena_printf(arena, "u_%016llx", (unsigned long long)hash_bytes(body.bytes, body.length));
    const char *text = arena_printf(arena, "// %d queries on the same rows\nKERNEL(%s)\n{\n%s}\n", n_members, *name, body.bytes);
    text_free(&body);
    return text;
}
