// fuse.c - one kernel for several queries over a table: what they have in common is done once.
//
//     TILES {
//         ROWS(live)
//         MASK(live)  BETWEEN_TEST(live, u8, discount, ...)  PICK(live)      the steps that all members begin with, once
//         LOAD(u32, price, live)                                            columns that several members look at from here on
//         {
//     #define A m0_
//         EACH(live) { ADD(m0_a0_, VALUE(price)) }                          member 0 has no step of its own: its sink
//     #undef A
//         }
//         {
//         COPY_ROWS(live, live1)                                            member 1 drops more rows, on a copy,
//     #define A m1_
//         BETWEEN_FILTER(live1, u8, quantity, ...)
//         EACH(live1) { ADD(m1_a0_, VALUE(price)) }                         then its sink
//     #undef A
//         }
//     }
//
// Words find what a kernel is handed through A.  Here A is a macro that names the member whose lines follow, so these lines stay as
// they are, and each member keeps its own columns, parameters, tables, groups and errors.  Names that mean different things in two
// members are told apart by a prefix; those that mean the same are declared once.  After that, lines are the same work where they are the
// same text, and a column is the same column where its load is the same line.
//
// Which steps are shared: tests and look-ups of stored columns do not depend on what was done before, so those that all members have come
// first, whatever the order of each.  Other steps (blocks) may rest on earlier ones: they are shared where they come next for all.  A step that
// can fail is never shared, since nobody could say whose failure it is, and nothing is moved before it: a row that a query drops alone after
// it failed must fail here, too.

#include "weave/weave_int.h"

// ---- what a kernel is handed ------------------------------------------------------------------------------------------------

typedef struct Declared {
    const char *line;                  // in the member's text
    const char *name;
    int         number;                // of column, parameter, table or slot
    const char *means;                 // equal where two members mean the same (tables: and same_table); NULL: nobody else's
    const char *renamed;               // in the fused text
    bool        is_shared;             // declared by an earlier member
} Declared;

typedef enum PieceKind {
    PIECE_BETWEEN,                     // what: the arguments of BETWEEN_TEST and BETWEEN_FILTER but the rows
    PIECE_CONDITION,                   // what: the condition of PASS and KEEP
    PIECE_PROBE,                       // what: as of BETWEEN; word: FLAG, BIT or LOOKUP
    PIECE_BLOCK                        // what: lines, for a selection; and of the sink
} PieceKind;

typedef struct Piece {                 // of what a member does in a tile, but for loads; rows are never handed over as lists here
    PieceKind   kind;
    const char *what;
    const char *word;
    const char *carry;                 // PROBE: lines that declare what it carries; else ""
    const char *dense;                 // BLOCK that the member begins with: its lines for all rows
    bool        is_dense;              // the member begins with it, over all rows
    bool        is_free;               // does not depend on what comes before
    bool        can_fail;
    double      pass;                  // share of the rows that get to it and are expected to be left
    bool        is_shared;             // by all members
} Piece;

typedef struct Load { const char *name, *line; } Load;

typedef struct Part {                  // a member
    const FuseMember *member;
    int               n_declared, n_steps, n_loads;
    Declared         *declared;
    u32              *by_name;         // places in it, and one; 0: none
    int               n_places;        // of by_name, a power of two
    Piece            *steps, sink;
    Load             *loads;           // of columns; one with NULLs has two lines
    const char       *ends;            // lines after the tiles
} Part;

static bool is_about(const char *line, const char *word) { return line_begins(line + 4, word) && line[4 + strlen(word)] == '('; }

// Most words have a type first; these do not.
static int name_argument(const char *line)
{
    if (is_about(line, "TOTAL")) return 2;
    return is_about(line, "PARAM_F64") || is_about(line, "COLUMN_ANY") || is_about(line, "NULLS") || is_about(line, "TOTAL_WIDE") ? 0 : 1;
}

static bool is_state(const char *line) { return is_about(line, "TOTAL") || is_about(line, "TOTAL_WIDE") || is_about(line, "SUMS"); }

static int table_column(const FuseMember *member, int column) { return member->chunk_column[member->woven->columns[column]]; }


static const char *table_meaning(Arena *arena, const FuseMember *member, int number)
{
    const WovenTable *facts = &member->woven->table_facts[number];
    const void       *table = member->woven->tables[number];
    if (facts->owner) return arena_printf(arena, "%llu.%d", (unsigned long long)facts->owner, facts->number);
    if (facts->bytes > COMPARED_BYTES) return arena_printf(arena, "%p", table);
    return arena_printf(arena, "%zu:%016llx", facts->bytes, (unsigned long long)hash_bytes(table, facts->bytes));
}

// The word, its type, and what is behind its number.
static const char *meaning(Arena *arena, const FuseMember *member, const char *line, int number)
{
    const int n = (int)strcspn(line, name_argument(line) == 1 ? "," : "(");
    if (is_state(line)) return NULL;
    if (is_about(line, "TABLE")) return arena_printf(arena, "%.*s %s", n, line, table_meaning(arena, member, number));
    if (!line_begins(line, "    PARAM")) return arena_printf(arena, "%.*s %d", n, line, table_column(member, number));
    const Param *param = &member->woven->params[number];
    return arena_printf(arena, "%.*s %d %lld %lld %d", n, line, param->kind, (long long)param->value, (long long)param->other,
                        param->kind == PARAM_VALUE ? -1 : table_column(member, param->column));
}

static bool same_table(const FuseMember *a, int x, const FuseMember *b, int y)
{
    const WovenTable *facts = &a->woven->table_facts[x];
    if (facts->owner || facts->bytes > COMPARED_BYTES) return true;            // told apart by what they mean
    return facts->bytes == b->woven->table_facts[y].bytes && memcmp(a->woven->tables[x], b->woven->tables[y], facts->bytes) == 0;
}

static bool is_same(const Part *a, const Declared *x, const Part *b, const Declared *y)
{
    if (!x->means || !y->means || strcmp(x->means, y->means) != 0) return false;
    return !is_about(x->line, "TABLE") || same_table(a->member, x->number, b->member, y->number);
}

// ---- a member's text, read again -----------------------------------------------------------------------------------------------

static bool is_name_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static bool has_name(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if (!is_name_char(at[length]) && (at == text || !is_name_char(at[-1]))) return true;
    return false;
}

static bool is_load(const char *line) { return line_begins(line, "        LOAD"); }

static bool has_check(const char *lines) { return strstr(lines, "CHECK") || strstr(lines, "FAIL(") || strstr(lines, "ROUND_F64("); }

static void add_plain(Text *out, const char *line)
{
    static const char unsure[] = "        UNSURE ", pick[] = "        PICK_UNSURE(";
    const int         length = (int)(line_next(line) - line);
    if (line_is_load(line)) line_add_load(out, line);
    else if (line_begins(line, unsure)) text_add(out, "        %.*s", length - (int)strlen(unsure), line + strlen(unsure));
    else if (line_begins(line, pick)) text_add(out, "        PICK(%.*s", length - (int)strlen(pick), line + strlen(pick));
    else text_add_bytes(out, line, (size_t)length);
}

static void read_load(Arena *arena, Part *part, const char *line)
{
    Text plain = { 0 };
    add_plain(&plain, line);
    const bool has_type = line_begins(plain.bytes, "        LOAD(");
    *LIST_PUSH(arena, part->loads, part->n_loads) = (Load){ line_argument(arena, plain.bytes, has_type), arena_strdup(arena, plain.bytes) };
    text_free(&plain);
}

// The lines from LINE to END without loads, which are kept apart.
static const char *read_lines(Arena *arena, Part *part, const char *line, const char *end)
{
    Text lines = { 0 };
    for (; line < end; line = line_next(line)) {
        if (is_load(line)) read_load(arena, part, line);
        else add_plain(&lines, line);
    }
    return text_keep(arena, &lines);
}

// What comes between BEGIN and END in a line, or NULL when it is another line.
static const char *between(Arena *arena, const char *line, const char *begin, const char *end)
{
    const size_t length = (size_t)(line_next(line) - line), n_begin = strlen(begin), n_end = strlen(end);
    if (!line_begins(line, begin) || length < n_begin + n_end || memcmp(line + length - n_end, end, n_end) != 0) return NULL;
    return arena_strndup(arena, line + n_begin, length - n_begin - n_end);
}

// Each of these steps is a line, over all rows or over a selection.
static bool as_piece(Arena *arena, const char *line, Piece *piece)
{
    static const struct { const char *begin, *end, *word; PieceKind kind; } forms[] = {
        { "        BETWEEN_TEST(live, ", ")\n", NULL, PIECE_BETWEEN },
        { "        BETWEEN_TEST_ALSO(live, ", ")\n", NULL, PIECE_BETWEEN },
        { "        TEST(live) { PASS(live, ", "); }\n", NULL, PIECE_CONDITION },
        { "        TEST(live) { PASS_ALSO(live, ", "); }\n", NULL, PIECE_CONDITION },
        { "        FILTER(live) { KEEP(live, ", "); }\n", NULL, PIECE_CONDITION },
        { "        FLAG_TEST(live, ", ")\n", "FLAG", PIECE_PROBE },
        { "        FLAG_FILTER(live, ", ")\n", "FLAG", PIECE_PROBE },
        { "        BIT_TEST(live, ", ")\n", "BIT", PIECE_PROBE },
        { "        BIT_FILTER(live, ", ")\n", "BIT", PIECE_PROBE },
        { "        LOOKUP_TEST(live, ", ")\n", "LOOKUP", PIECE_PROBE },
        { "        LOOKUP_FILTER(live, ", ")\n", "LOOKUP", PIECE_PROBE },
    };
    for (int f = 0; f < COUNT_OF(forms); f++) {
        const char *what = between(arena, line, forms[f].begin, forms[f].end);
        if (what) *piece = (Piece){ .kind = forms[f].kind, .word = forms[f].word, .what = what, .carry = "" };
        if (what) return true;
    }
    return false;
}

static bool is_about_mask(const char *line) { return line_begins(line, "        MASK(") || line_begins(line, "        PICK("); }

// A block for all rows as one for a selection.
static const char *as_sparse(Arena *arena, const char *lines)
{
    Text out = { 0 };
    for (const char *line = lines; *line; line = line_next(line)) {
        const char *end = line_next(line), *pass = strstr(line, "PASS(live, ");
        if (is_about_mask(line)) continue;
        if (line_begins(line, "        TEST(live)")) text_add(&out, "        FILTER(live)"), line += strlen("        TEST(live)");
        if (pass && pass < end) text_add(&out, "%.*sKEEP", (int)(pass - line), line), line = pass + strlen("PASS");
        text_add_bytes(&out, line, (size_t)(end - line));
    }
    return text_keep(arena, &out);
}

static bool mentions_carried(Arena *arena, const Part *part, const char *what)
{
    for (int s = 0; s < part->n_steps; s++) {
        const char *carry = part->steps[s].kind == PIECE_BLOCK ? part->steps[s].what : part->steps[s].carry;
        for (const char *line = carry; *line; line = line_next(line)) {
            if (line_begins(line, "        CARRY(") && has_name(what, line_argument(arena, line, 1))) return true;
        }
    }
    return false;
}

static void add_step(Arena *arena, Part *part, Piece piece)
{
    piece.can_fail = has_check(piece.what);
    piece.is_free = piece.kind != PIECE_BLOCK && !piece.can_fail && !mentions_carried(arena, part, piece.what);
    for (int s = 0; s < part->n_steps; s++) piece.is_free = piece.is_free && !part->steps[s].can_fail;
    *LIST_PUSH(arena, part->steps, part->n_steps) = piece;
}

// Of a test, by what weaving knew of its column.
static double test_pass(const Part *part, const Piece *test)
{
    const Woven *woven = part->member->woven;
    for (int s = 0; s < woven->n_sieves && test->kind == PIECE_BETWEEN; s++)
        for (int d = 0; d < part->n_declared && !woven->sieves[s].table; d++) {
            const Declared *column = &part->declared[d];
            if (!line_begins(column->line, "    COLUMN") || woven->columns[column->number] != woven->sieves[s].column) continue;
            if (has_name(test->what, column->name)) return woven->sieves[s].pass;
        }
    return 0.5;
}

// Several tests over all rows have one count.  True when that is what the lines are.
static bool read_tests(Arena *arena, Part *part, const char *lines)
{
    Piece piece;
    int   n_tests = 0;
    for (const char *line = lines; *line; line = line_next(line)) {
        if (is_about_mask(line)) continue;
        if (!as_piece(arena, line, &piece) || piece.kind == PIECE_PROBE) return false;
        n_tests++;
    }
    for (const char *line = lines; *line && n_tests > 1; line = line_next(line)) {
        if (is_about_mask(line)) continue;
        as_piece(arena, line, &piece);
        piece.is_dense = true;
        piece.pass = test_pass(part, &piece);
        add_step(arena, part, piece);
    }
    return n_tests > 1;
}

static void read_step(Arena *arena, Part *part, const char *lines, double pass)
{
    Piece piece = { 0 };
    Text  carry = { 0 };
    int   n_lines = 0;
    bool  is_line = true, is_dense = strstr(lines, "        MASK(") != NULL;
    for (const char *line = lines; *line; line = line_next(line)) {
        if (is_about_mask(line)) continue;
        if (line_begins(line, "        CARRY(")) text_add_bytes(&carry, line, (size_t)(line_next(line) - line));
        else is_line = is_line && as_piece(arena, line, &piece), n_lines++;
    }
    const char *carried = text_keep(arena, &carry);
    if (is_line && n_lines == 1) piece.carry = carried;
    else piece = (Piece){ .kind = PIECE_BLOCK, .what = as_sparse(arena, lines), .carry = "", .dense = is_dense ? lines : NULL };
    piece.is_dense = is_dense, piece.pass = pass;
    add_step(arena, part, piece);
}

static void read_steps(Arena *arena, Part *part, const char *line, const char *sink)
{
    const Woven *woven = part->member->woven;
    double       before = 1;
    for (int s = 0; s < woven->n_counts; s++) {
        const char *end = line;
        while (end < sink && !line_begins(end, "        STEP(")) end = line_next(end);
        const char  *lines = read_lines(arena, part, line, end);
        const double pass = before > 0 ? woven->counts[s].pass / before : 0;
        before = woven->counts[s].pass;
        if (s > 0 || !read_tests(arena, part, lines)) read_step(arena, part, lines, pass);
        line = end < sink ? line_next(end) : end;
    }
}

// The place of the first that has this name, or where it would be.
static u32 *place_of_name(const Part *part, const char *name)
{
    u32 at = (u32)hash_bytes(name, strlen(name));
    for (;; at++) {
        u32 *place = &part->by_name[at & (u32)(part->n_places - 1)];
        if (!*place || strcmp(part->declared[*place - 1].name, name) == 0) return place;
    }
}

// A kernel may have thousands of parameters, and its text names each.
static void index_names(Arena *arena, Part *part)
{
    for (part->n_places = 16; part->n_places < 2 * part->n_declared;) part->n_places *= 2;
    part->by_name = arena_array(arena, u32, part->n_places);
    for (int d = 0; d < part->n_declared; d++) {
        u32 *place = place_of_name(part, part->declared[d].name);
        if (!*place) *place = (u32)d + 1;
    }
}

static Part read_part(Arena *arena, const FuseMember *member, bool only_columns)
{
    const char *text = member->woven->text, *sink = text + member->woven->sink_at;
    const char *tiles = line_last(text, "    TILES {"), *end = line_last(text, "    }\n");
    Part        part = { .member = member, .ends = line_next(end) };
    for (const char *line = line_next(strchr(text, '{')); line < tiles; line = line_next(line)) {
        const int  number = line_number(line);
        const bool is_own = only_columns && (line_begins(line, "    PARAM") || is_about(line, "TABLE"));
        *LIST_PUSH(arena, part.declared, part.n_declared) = (Declared){ .line = line, .name = line_argument(arena, line, name_argument(line)), .number = number,
                                                                         .means = is_own ? NULL : meaning(arena, member, line, number) };
    }
    index_names(arena, &part);
    read_steps(arena, &part, line_next(line_next(tiles)), sink);               // after ROWS
    part.sink = (Piece){ .kind = PIECE_BLOCK, .what = read_lines(arena, &part, sink, end), .carry = "" };
    return part;
}

// ---- names --------------------------------------------------------------------------------------------------------------------

// No column's name ends in '_', so nobody else has this one.
static const char *own_name(Arena *arena, int n, const char *name)
{
    return arena_printf(arena, "m%d_%s%s", n, name, name[strlen(name) - 1] == '_' ? "" : "_");
}

static Declared *find_declared(Part *part, const char *name)
{
    const u32 place = *place_of_name(part, name);
    return place ? &part->declared[place - 1] : NULL;
}

static bool is_nulls(const Declared *declared) { return line_begins(declared->line, "    NULLS"); }

// A bitmap goes by the name of its column, and is declared with it or by the first member that has one.
static void rename_nulls(Part *parts, int n, Declared *own)
{
    own->renamed = find_declared(&parts[n], own->name)->renamed;
    for (int p = 0; p < n; p++)
        for (int j = 0; j < parts[p].n_declared; j++)
            if (is_nulls(&parts[p].declared[j]) && strcmp(parts[p].declared[j].renamed, own->renamed) == 0) own->is_shared = true;
}

// What an earlier member has declared is used; a name that means something else there gets this member's prefix.
static void rename_declared(Arena *arena, Part *parts, int n)
{
    for (int i = 0; i < parts[n].n_declared; i++) {
        Declared *own = &parts[n].declared[i];
        bool      is_taken = is_state(own->line);
        if (is_nulls(own)) {
            rename_nulls(parts, n, own);
            continue;
        }
        own->renamed = own->name;
        for (int p = 0; p < n && !own->is_shared; p++)
            for (int j = 0; j < parts[p].n_declared && !own->is_shared; j++) {
                const Declared *other = &parts[p].declared[j];
                if (is_nulls(other) || !weave_names_clash(other->name, own->name)) continue;
                if (strcmp(other->name, own->name) == 0 && is_same(&parts[n], own, &parts[p], other)) own->is_shared = true, own->renamed = other->renamed;
                else is_taken = true;
            }
        if (!own->is_shared && is_taken) own->renamed = own_name(arena, n, own->name);
    }
}

// The high word of a wide total is named in the line of the low one.
static const char *renamed(Part *part, int n, Arena *arena, const char *name)
{
    const Declared *declared = find_declared(part, name);
    const size_t    n_digits = name[0] == 'a' ? strspn(name + 1, "0123456789") : 0;
    if (declared) return declared->renamed;
    return n_digits && strcmp(name + 1 + n_digits, "_") == 0 ? own_name(arena, n, name) : name;
}

// TEXT up to END; CHANGE is asked for every name in it.
typedef const char *(*ChangeName)(const void *context, const char *name);

static void add_changed(Text *out, Arena *arena, const char *text, const char *end, ChangeName change, const void *context)
{
    while (text < end) {
        size_t length = 0;
        while (text + length < end && is_name_char(text[length])) length++;
        if (!length) {
            text_add_bytes(out, text++, 1);
            continue;
        }
        const char *name = arena_strndup(arena, text, length);
        text_add(out, "%s", text[0] >= '0' && text[0] <= '9' ? name : change(context, name));
        text += length;
    }
}

typedef struct Renaming { Arena *arena; Part *part; int n; } Renaming;

static const char *rename_name(const void *context, const char *name)
{
    const Renaming *renaming = context;
    return renamed(renaming->part, renaming->n, renaming->arena, name);
}

static const char *rename_text(const Renaming *renaming, const char *text)
{
    Text out = { 0 };
    add_changed(&out, renaming->arena, text, text + strlen(text), rename_name, renaming);
    return text_keep(renaming->arena, &out);
}

static void rename_piece(const Renaming *renaming, Piece *piece)
{
    piece->what = rename_text(renaming, piece->what);
    piece->carry = rename_text(renaming, piece->carry);
    if (piece->dense) piece->dense = rename_text(renaming, piece->dense);
}

static void rename_part(Arena *arena, Part *part, int n)
{
    const Renaming renaming = { arena, part, n };
    for (int s = 0; s < part->n_steps; s++) rename_piece(&renaming, &part->steps[s]);
    for (int l = 0; l < part->n_loads; l++) part->loads[l] = (Load){ rename_text(&renaming, part->loads[l].name), rename_text(&renaming, part->loads[l].line) };
    rename_piece(&renaming, &part->sink);
}

// ---- what is shared -------------------------------------------------------------------------------------------------------------

bool weave_can_fuse(const Woven *woven) { return woven->sink_at && woven->n_state > 0 && woven->fan_out == 1 && woven->state[0].kind != SLOT_OUT; }

typedef struct Meaning { Arena *arena; Part *part; } Meaning;

static const char *name_and_meaning(const void *context, const char *name)
{
    const Meaning  *meanings = context;
    const Declared *declared = find_declared(meanings->part, name);
    return declared && declared->means ? arena_printf(meanings->arena, "%s<%s>", name, declared->means) : name;
}

static FuseStep fuse_step(Arena *arena, Part *part, const Piece *piece)
{
    const Meaning context = { arena, part };
    Text          text = { 0 };
    text_add(&text, "%d %s ", piece->kind, piece->word ? piece->word : "");
    add_changed(&text, arena, piece->carry, piece->carry + strlen(piece->carry), name_and_meaning, &context);
    add_changed(&text, arena, piece->what, piece->what + strlen(piece->what), name_and_meaning, &context);
    const FuseStep step = { .hash = hash_bytes(text.bytes, text.length), .pass = piece->pass, .is_test = piece->kind < PIECE_PROBE && piece->is_dense,
                            .is_free = piece->is_free, .can_fail = piece->can_fail };
    text_free(&text);
    return step;
}

FuseSteps *weave_fuse_steps(Arena *arena, const FuseMember *member)
{
    Arena     *work = arena_new(arena, "fuse steps");
    Part       part = read_part(work, member, false);
    FuseSteps *steps = arena_make(arena, FuseSteps);
    steps->n_steps = part.n_steps;
    steps->steps = arena_array(arena, FuseStep, part.n_steps + 1);
    for (int s = 0; s < part.n_steps; s++) {
        steps->steps[s] = fuse_step(work, &part, &part.steps[s]);
        steps->hash = steps->hash * 31 + steps->steps[s].hash;
    }
    arena_free(work);
    return steps;
}

static bool has_free(const FuseSteps *steps, u64 hash)
{
    for (int s = 0; s < steps->n_steps; s++)
        if (steps->steps[s].is_free && steps->steps[s].hash == hash) return true;
    return false;
}

bool weave_has_step(const FuseStep *steps, int n_steps, u64 hash)
{
    for (int s = 0; s < n_steps; s++)
        if (steps[s].hash == hash) return true;
    return false;
}

static const FuseStep *first_unshared(const FuseSteps *steps, const FuseStep *shared, int n_shared)
{
    for (int s = 0; s < steps->n_steps; s++)
        if (!weave_has_step(shared, n_shared, steps->steps[s].hash)) return &steps->steps[s];
    return NULL;
}

int weave_shared_steps(const FuseSteps *const *members, int n_members, FuseStep *shared)
{
    int n = 0;
    for (int s = 0; s < members[0]->n_steps; s++) {
        const FuseStep *step = &members[0]->steps[s];
        bool            is_shared = step->is_free && !weave_has_step(shared, n, step->hash);
        for (int m = 1; m < n_members && is_shared; m++) is_shared = has_free(members[m], step->hash);
        if (is_shared) shared[n++] = *step;
    }
    for (;;) {                         // blocks that come next for all
        const FuseStep *next = first_unshared(members[0], shared, n);
        for (int m = 1; m < n_members && next; m++) {
            const FuseStep *other = first_unshared(members[m], shared, n);
            if (!other || other->hash != next->hash) next = NULL;
        }
        if (!next || next->can_fail) return n;
        shared[n++] = *next;
    }
}

static bool is_same_piece(const Piece *a, const Piece *b)
{
    return a->kind == b->kind && strcmp(a->what, b->what) == 0 && strcmp(a->carry, b->carry) == 0 && (!a->word || strcmp(a->word, b->word) == 0);
}

// The first step of the part like this one that is free to come first, and is not shared yet.
static Piece *find_free(const Part *part, const Piece *piece)
{
    for (int s = 0; s < part->n_steps; s++)
        if (part->steps[s].is_free && !part->steps[s].is_shared && is_same_piece(&part->steps[s], piece)) return &part->steps[s];
    return NULL;
}

static Piece *next_step(const Part *part)
{
    for (int s = 0; s < part->n_steps; s++)
        if (!part->steps[s].is_shared) return &part->steps[s];
    return NULL;
}

static void share_steps(Part *parts, int n_parts)
{
    for (int s = 0; s < parts[0].n_steps; s++) {
        Piece *piece = &parts[0].steps[s];
        bool   is_shared = piece->is_free;
        for (int n = 1; n < n_parts && is_shared; n++) is_shared = find_free(&parts[n], piece) != NULL;
        for (int n = 1; n < n_parts && is_shared; n++) find_free(&parts[n], piece)->is_shared = true;
        piece->is_shared = is_shared;
    }
    for (;;) {                         // blocks that come next for all
        Piece *next = next_step(&parts[0]);
        for (int n = 1; n < n_parts && next; n++) {
            const Piece *other = next_step(&parts[n]);
            if (!other || !is_same_piece(other, next)) next = NULL;
        }
        if (!next || next->can_fail) return;
        for (int n = n_parts - 1; n >= 0; n--) next_step(&parts[n])->is_shared = true;
    }
}

static bool has_steps(const Part *part, bool shared)
{
    for (int s = 0; s < part->n_steps; s++)
        if (part->steps[s].is_shared == shared) return true;
    return false;
}

// ---- the text ---------------------------------------------------------------------------------------------------------------

typedef struct FusedText {
    Arena *arena;
    Text   out;
    int    n_parts;
    Part  *parts;
    Map   *loaded;                     // lines of loads that were made before the members' blocks
    Map   *loaded_here;                // in the block at hand; NULL: before
    bool   only_columns;               // and then members may want different chunks: each has its own rows (MEMBER_ROWS)
} FusedText;

static const char *own_rows(const void *context, const char *name) { return strcmp(name, "live") == 0 ? context : name; }

static void add_lines(FusedText *t, const char *text, const char *live) { add_changed(&t->out, t->arena, text, text + strlen(text), own_rows, live); }

static bool is_loaded(const FusedText *t, const char *line)
{
    return map_get(t->loaded, line, strlen(line), NULL) || (t->loaded_here && map_get(t->loaded_here, line, strlen(line), NULL));
}

static void add_load(FusedText *t, const char *line, const char *live)
{
    if (is_loaded(t, line)) return;
    map_set(t->loaded_here ? t->loaded_here : t->loaded, line, strlen(line), 1);
    add_lines(t, line, live);
}

// The columns that TEXT looks at, where they are not loaded yet.
static void add_loads(FusedText *t, const Part *part, const char *text, const char *live)
{
    for (int l = 0; l < part->n_loads; l++)
        if (has_name(text, part->loads[l].name)) add_load(t, part->loads[l].line, live);
}

static void begin_member(FusedText *t, int n) { text_add(&t->out, "#define A m%d_\n", n); }
static void end_member(FusedText *t) { text_add(&t->out, "#undef A\n"); }

static void write_heads(FusedText *t)
{
    for (int n = 0; n < t->n_parts; n++) text_add(&t->out, "    MEMBER(m%d_, %d)\n", n, n);
    for (int n = 0; n < t->n_parts; n++) {
        const Renaming renaming = { t->arena, &t->parts[n], n };
        begin_member(t, n);
        for (int i = 0; i < t->parts[n].n_declared; i++) {
            const Declared *declared = &t->parts[n].declared[i];
            if (!declared->is_shared) add_changed(&t->out, t->arena, declared->line, line_next(declared->line), rename_name, &renaming);
        }
        end_member(t);
    }
}

static void write_test(FusedText *t, const Piece *piece, const char *live, bool is_dense, const char *also)
{
    if (piece->kind == PIECE_BETWEEN) text_add(&t->out, "        BETWEEN_%s%s(%s, %s)\n", is_dense ? "TEST" : "FILTER", also, live, piece->what);
    else if (is_dense) text_add(&t->out, "        TEST(%s) { PASS%s(%s, %s); }\n", live, also, live, piece->what);
    else text_add(&t->out, "        FILTER(%s) { KEEP(%s, %s); }\n", live, live, piece->what);
}

// A step by itself: over the selection, or over all rows, and then there is a selection.
static void write_step(FusedText *t, const Piece *piece, const char *live, bool has_selection)
{
    add_lines(t, piece->carry, live);
    if (piece->kind == PIECE_BLOCK) {
        add_lines(t, has_selection || !piece->dense ? piece->what : piece->dense, live);
        return;
    }
    if (!has_selection) text_add(&t->out, "        MASK(%s)\n", live);
    if (piece->kind == PIECE_PROBE) text_add(&t->out, "        %s_%s(%s, %s)\n", piece->word, has_selection ? "FILTER" : "TEST", live, piece->what);
    else write_test(t, piece, live, !has_selection, "");
    if (!has_selection) text_add(&t->out, "        PICK(%s)\n", live);
}

// The steps that are shared, or those that are not.  Tests that the member begins with are made on one mask, if there is no selection yet.
static void write_steps(FusedText *t, const Part *part, bool shared, const char *live, bool has_selection)
{
    int n_tests = 0;
    for (int s = 0; s < part->n_steps; s++) {
        const Piece *piece = &part->steps[s];
        const bool   is_test = !has_selection && piece->is_dense && piece->kind < PIECE_PROBE;
        if (piece->is_shared != shared) continue;
        if (n_tests && !is_test) text_add(&t->out, "        PICK(%s)\n", live), n_tests = 0, has_selection = true;
        if (is_test && !n_tests) text_add(&t->out, "        MASK(%s)\n", live);
        add_loads(t, part, piece->what, live);
        if (is_test) {
            write_test(t, piece, live, true, n_tests++ ? "_ALSO" : "");
        } else {
            write_step(t, piece, live, has_selection);
            has_selection = true;
        }
    }
    if (n_tests) text_add(&t->out, "        PICK(%s)\n", live);
}

static void write_shared(FusedText *t)
{
    if (!has_steps(&t->parts[0], true)) return;
    begin_member(t, 0);
    write_steps(t, &t->parts[0], true, "live", false);
    end_member(t);
}

static bool needs_load(const Part *part, const Load *load)
{
    bool needs = has_name(part->sink.what, load->name);
    for (int s = 0; s < part->n_steps; s++) needs = needs || (!part->steps[s].is_shared && has_name(part->steps[s].what, load->name));
    return needs;
}

// Columns that several members look at after the shared steps.
static void write_loads(FusedText *t)
{
    Map *counts = map_new(t->arena);
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < t->n_parts; n++)
            for (int l = 0; l < t->parts[n].n_loads; l++) {
                const Load  *load = &t->parts[n].loads[l];
                const size_t length = strlen(load->line);
                u64          n_members = 0;
                if (!needs_load(&t->parts[n], load)) continue;
                map_get(counts, load->line, length, &n_members);
                if (pass == 0) map_set(counts, load->line, length, n_members + 1);
                else if (n_members > 1) add_load(t, load->line, "live");
            }
}

// The rows are those of the whole kernel, so they are taken before A is the member.
static void write_member(FusedText *t, const Part *part, int n)
{
    const bool  has_selection = has_steps(part, true), is_apart = has_steps(part, false) || t->only_columns;
    const char *live = is_apart ? "live1" : "live";
    text_add(&t->out, "        {\n%s", !is_apart ? "" : has_selection ? "        COPY_ROWS(live, live1)\n" : "        ROWS(live1)\n");
    begin_member(t, n);
    if (is_apart) text_add(&t->out, "        MEMBER_ROWS(live1)\n");
    t->loaded_here = map_new(t->arena);
    write_steps(t, part, false, live, has_selection);
    add_loads(t, part, part->sink.what, live);
    add_lines(t, part->sink.what, live);
    t->loaded_here = NULL;
    end_member(t);
    text_add(&t->out, "        }\n");
}

static void write_tiles(FusedText *t)
{
    text_add(&t->out, "    TILES {\n        ROWS(live)\n");
    write_shared(t);
    write_loads(t);
    for (int n = 0; n < t->n_parts; n++) write_member(t, &t->parts[n], n);
    text_add(&t->out, "    }\n");
}

static void write_ends(FusedText *t)
{
    for (int n = 0; n < t->n_parts; n++) {
        const Renaming renaming = { t->arena, &t->parts[n], n };
        const char    *end = t->parts[n].ends;
        while (!line_begins(end, "}")) end = line_next(end);
        if (end == t->parts[n].ends) continue;
        begin_member(t, n);
        add_changed(&t->out, t->arena, t->parts[n].ends, end, rename_name, &renaming);
        end_member(t);
    }
}

const char *weave_fuse(Arena *arena, const FuseMember *members, int n_members, bool only_columns, const char **name)
{
    FusedText t = { .arena = arena, .n_parts = n_members, .parts = arena_array(arena, Part, n_members), .loaded = map_new(arena), .only_columns = only_columns };
    for (int n = 0; n < n_members; n++) {
        t.parts[n] = read_part(arena, &members[n], only_columns);
        rename_declared(arena, t.parts, n);
        rename_part(arena, &t.parts[n], n);
    }
    share_steps(t.parts, n_members);
    write_heads(&t);
    write_tiles(&t);
    write_ends(&t);
    *name = arena_printf(arena, "u_%016llx", (unsigned long long)hash_bytes(t.out.bytes, t.out.length));
    const char *text = arena_printf(arena, "// %d queries over one table\nKERNEL(%s)\n{\n%s}\n", n_members, *name, t.out.bytes);
    text_free(&t.out);
    return text;
}
