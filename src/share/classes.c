// classes.c - see classes.h.
//
// A test is made a list of the values that pass it, and only these are looked at: most tables of a dimension hold few
// of its rows.  Where all values of an atom pass, it stays as it is, so a test that others have made before costs one
// look at its values.

#include "share/classes.h"

#include <stdlib.h>

#define ATOM_WORDS (MOST_ATOMS / 64)
#define NO_CODE    UINT32_MAX
#define SCRATCH_KEPT ((u64)1 << 15)    // numbers
#define MOST_CODES   ((u64)1 << 20)    // combinations of a table's payloads

typedef struct PayloadPart { i64 value, is_null; } PayloadPart;        // of one payload of a table

typedef struct MadeTest {
    i64   low, high;
    u64   table;                       // id; 0: none
    u64   order;                       // of its payloads
    u64   wants[ATOM_WORDS];           // a bit per atom
    u32  *own_code;                    // by place of a part and payload; NO_CODE: the table does not have it
    int   n_own;
} MadeTest;

typedef struct Split {                 // by what a test finds: as large as it may be, and cleared as far as it is used
    u32 n_passing[MOST_ATOMS];         // by atom
    u16 next[MOST_ATOMS];              // by atom: where its values that pass go; 0: not decided yet
    u16 next_of_payload[MOST_ATOMS + 1];       // the same for atom 0, which no query wants: an atom for each payload
} Split;

struct Classes {
    Arena     *arena;
    u64        version;                // another one whenever a value got another atom
    Budget    *budget;
    i64        low;
    u64        size;
    u64        kinds;                  // id; 0: they are of values, not of kinds
    u32       *weights;                // by kind: rows of the dimension; NULL: of values
    u64        weight;                 // of all of them
    u16       *atom_of;                // atom 0: values that no test wants
    int        n_atoms, n_most;
    u32        n_values[MOST_ATOMS];   // by atom
    u32        payload[MOST_ATOMS];    // by atom; only where tests bring one
    int        n_tests;
    MadeTest **tests;
    Map       *test_numbers;           // by TestKey
    int        n_parts;                // of a payload: as many as tables have payloads; 0: not known yet
    int        n_payloads, n_values_in;
    PayloadPart *payloads;             // their parts, n_values_in in all
    Map       *payload_numbers;
    u32       *scratch;                // for the values that pass a test, and their payloads
    u64        scratch_room;           // of both together
    Split      split;
};

typedef struct TestKey { i64 low, high; u64 table, order; } TestKey;

typedef struct Passing {               // values that pass, and their payload's code
    u32  n, room;
    u32 *at, *codes;
} Passing;

// No two states of any atoms have the same.
static u64 next_version(void)
{
    static _Atomic u64 last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

// ---- making and copying ---------------------------------------------------------------------------------------------

static int add_payload(Classes *classes, const PayloadPart *parts)
{
    map_set(classes->payload_numbers, parts, (size_t)classes->n_parts * sizeof *parts, (u64)classes->n_payloads);
    for (int p = 0; p < classes->n_parts; p++)
        *LIST_PUSH(classes->arena, classes->payloads, classes->n_values_in) = parts[p];
    return classes->n_payloads++;
}

static void add_test(Classes *classes, MadeTest *test)
{
    const TestKey key = { test->low, test->high, test->table, test->order };
    map_set(classes->test_numbers, &key, sizeof key, (u64)classes->n_tests);
    *LIST_PUSH(classes->arena, classes->tests, classes->n_tests) = test;
}

static void take_over(Classes *classes, const Classes *before)
{
    memcpy(classes->atom_of, before->atom_of, classes->size * sizeof(u16));
    memcpy(classes->n_values, before->n_values, sizeof classes->n_values);
    memcpy(classes->payload, before->payload, sizeof classes->payload);
    classes->n_atoms = before->n_atoms, classes->n_parts = before->n_parts;
    for (int p = 0; p < before->n_payloads; p++) add_payload(classes, before->payloads + p * before->n_parts);
    for (int t = 0; t < before->n_tests; t++) {
        MadeTest *test = arena_make(classes->arena, MadeTest);
        *test = *before->tests[t];
        const size_t n_codes = (size_t)test->n_own * (size_t)before->n_parts;
        test->own_code = arena_array(classes->arena, u32, n_codes + 1);
        if (n_codes) memcpy(test->own_code, before->tests[t]->own_code, n_codes * sizeof(u32));
        add_test(classes, test);
    }
}

static void weigh_kinds(Classes *classes, const Kinds *kinds)
{
    classes->kinds = kinds->id, classes->weights = arena_array(classes->arena, u32, kinds->n_kinds + 1);
    memcpy(classes->weights, kinds->n_rows, (size_t)kinds->n_kinds * sizeof *classes->weights);
    for (int k = 0; k < kinds->n_kinds; k++) classes->weight += kinds->n_rows[k];
}

Classes *classes_new(Budget *budget, const Classes *before, const ClassValues *values, int n_most)
{
    const u64 size = values->size;
    Error  ignored;
    Arena *arena = arena_new(NULL, "classes");
    error_clear(&ignored);
    Classes *classes = arena_make(arena, Classes);
    classes->arena = arena, classes->budget = budget, classes->low = values->low, classes->size = size;
    classes->payload_numbers = map_new(arena), classes->test_numbers = map_new(arena);
    classes->n_most = MIN_OF(n_most, MOST_ATOMS);
    classes->n_atoms = 1, classes->n_values[0] = (u32)size;
    if (mem_alloc(budget, size * sizeof(u16), (void **)&classes->atom_of, &ignored)) {
        arena_free(arena);
        return NULL;
    }
    classes->version = next_version();
    if (values->kinds) weigh_kinds(classes, values->kinds);
    if (before) take_over(classes, before);
    return classes;
}

void classes_free(Classes *classes)
{
    if (!classes) return;
    mem_free(classes->budget, classes->atom_of, classes->size * sizeof(u16));
    mem_free(classes->budget, classes->scratch, classes->scratch_room * sizeof(u32));
    arena_free(classes->arena);
}

bool classes_cover(const Classes *classes, const ClassValues *values)
{
    return classes->low == values->low && classes->size == values->size &&
           classes->kinds == (values->kinds ? values->kinds->id : 0);
}

int  classes_n_tests(const Classes *classes) { return classes->n_tests; }
int  classes_n_payloads(const Classes *classes) { return classes->n_payloads; }
int  classes_n_atoms(const Classes *classes) { return classes->n_atoms; }
u64  classes_bytes(const Classes *classes) { return classes->size * sizeof(u16); }
u64  classes_version(const Classes *classes) { return classes->version; }

const u16 *classes_atoms(const Classes *classes) { return classes->atom_of; }

const u32 *classes_own_codes(const Classes *classes, int test, int place)
{
    const MadeTest *made = classes->tests[test];
    return made->own_code ? made->own_code + (size_t)place * (size_t)made->n_own : NULL;
}

// ---- the values that pass a test ------------------------------------------------------------------------------------

static void pass(Passing *passing, u64 at, u64 code)
{
    if (passing->n == passing->room) return;                   // cannot be: a table has a row for each of its keys
    passing->at[passing->n] = (u32)at;
    passing->codes[passing->n++] = (u32)code;
}

static void pass_bit(Passing *passing, const u8 *bits, u64 v, u64 shift)
{
    if (bits[(v + shift) >> 3] >> ((v + shift) & 7) & 1) pass(passing, v, 0);
}

static void pass_bits(Passing *passing, const u8 *bits, u64 first, u64 end, u64 shift)
{
    u64 v = first;
    for (; v < end && (v + shift) & 7; v++) pass_bit(passing, bits, v, shift);
    for (; v + 64 <= end; v += 64) {
        u64 set;
        memcpy(&set, bits + ((v + shift) >> 3), 8);            // little-endian, as all we run on
        for (; set; set &= set - 1) pass(passing, v + (u64)__builtin_ctzll(set), 0);
    }
    for (; v < end; v++) pass_bit(passing, bits, v, shift);
}

static void pass_bytes(Passing *passing, const u8 *slots, u64 first, u64 end, u64 shift)
{
    u64 v = first;
    for (; v + 8 <= end; v += 8) {
        const u64 sevens = 0x7f7f7f7f7f7f7f7full;
        u64       eight;
        memcpy(&eight, slots + v + shift, 8);
        u64 set = (((eight & sevens) + sevens) | eight) & ~sevens;             // a bit for each byte that is not 0
        for (; set; set &= set - 1) {
            const u64 b = (u64)__builtin_ctzll(set) / 8;
            pass(passing, v + b, slots[v + b + shift] - 1u);
        }
    }
    for (; v < end; v++)
        if (slots[v + shift]) pass(passing, v, slots[v + shift] - 1u);
}

#define PASS_SLOTS(type)                                                                                               \
    for (u64 v = first; v < end; v++)                                                                                  \
        if (((const type *)slots)[v + shift]) pass(passing, v, ((const type *)slots)[v + shift] - 1)

// Value v of the column is key v + shift of the table.
static void pass_table(Passing *passing, const JoinTable *table, u64 first, u64 end, u64 shift)
{
    const void *slots = table->shape == SHAPE_DIRECT ? table->payloads[0].data : table->slots;
    const int   width = table->shape == SHAPE_DIRECT ? table->payloads[0].width : table->is_bytes ? 1 : 0;
    switch (width) {
        case 0:  pass_bits(passing, slots, first, end, shift); break;
        case 1:  pass_bytes(passing, slots, first, end, shift); break;
        case 2:  PASS_SLOTS(u16); break;
        case 4:  PASS_SLOTS(u32); break;
        default: PASS_SLOTS(u64); break;
    }
}

// LOW .. HIGH, of the column's values, as places FIRST .. END - 1.
static void clip(const Classes *classes, i64 low, i64 high, u64 *first, u64 *end)
{
    const i64 last = classes->low + (i64)classes->size - 1;
    if (low > high || low > last || high < classes->low) {
        *end = *first;
        return;
    }
    if (low > classes->low) *first = MAX_OF(*first, (u64)(low - classes->low));
    if (high < last) *end = MIN_OF(*end, (u64)(high - classes->low) + 1);
    *end = MAX_OF(*end, *first);
}

static void pass_kinds(Passing *passing, const JoinTable *table)
{
    for (u64 i = 0; i < table->n_kinds_in; i++)
        pass(passing, table->kinds_in[i], table->code_of_kind[table->kinds_in[i]] - 1);
}

static void find_passing(const Classes *classes, const ClassTest *test, u64 first, u64 end, Passing *passing)
{
    if (classes->kinds)
        pass_kinds(passing, test->table);
    else if (test->table)
        pass_table(passing, test->table, first, end, (u64)classes->low - (u64)test->table->keys[0].low);
    else
        for (u64 v = first; v < end; v++) pass(passing, v, 0);
}

// ---- payloads -------------------------------------------------------------------------------------------------------

// The table's own number of the codes of all its payloads together.  0: there are too many.
static u64 n_codes_of(const ClassTest *test)
{
    u64 n = 1;
    for (int p = 0; p < test->n_payloads && n; p++) {
        const u64 n_codes = test->table->payloads[test->payloads[p]].n_codes;
        n = n_codes && n_codes <= MOST_CODES / n ? n * n_codes : 0;
    }
    return n;
}

static u64 stored_code(const Payload *payload, u64 place)
{
    switch (payload->width) {
        case 1:  return ((const u8 *)payload->data)[place];
        case 2:  return ((const u16 *)payload->data)[place];
        case 4:  return ((const u32 *)payload->data)[place];
        default: return ((const u64 *)payload->data)[place];
    }
}

// Of the value at a place, whose code of the first payload was found with it.
static u32 code_together(const ClassTest *test, u64 place, u32 first)
{
    u64 code = 0;
    for (int p = 0; p < test->n_payloads; p++) {
        const Payload *payload = &test->table->payloads[test->payloads[p]];
        code = code * payload->n_codes + (test->payloads[p] ? stored_code(payload, place) : first);
    }
    return (u32)code;
}

// The codes of a number of code_together.
static void codes_apart(const ClassTest *test, u64 code, u32 *codes)
{
    for (int p = test->n_payloads - 1; p >= 0; p--) {
        const u64 n_codes = test->table->payloads[test->payloads[p]].n_codes;
        codes[p] = (u32)(code % n_codes), code /= n_codes;
    }
}

static u32 payload_number(Classes *classes, const ClassTest *test, u64 code)
{
    u32         codes[CLASS_PAYLOADS];
    PayloadPart parts[CLASS_PAYLOADS];
    u64         number;
    codes_apart(test, code, codes);
    for (int p = 0; p < test->n_payloads; p++) {
        const Payload *payload = &test->table->payloads[test->payloads[p]];
        parts[p] = (PayloadPart){ .is_null = payload->range.nullable && codes[p] == payload->null_code };
        if (!parts[p].is_null)
            parts[p].value = payload->decode ? payload->decode[codes[p]] : payload->base + (i64)codes[p];
    }
    if (map_get(classes->payload_numbers, parts, (size_t)test->n_payloads * sizeof *parts, &number)) return (u32)number;
    return (u32)add_payload(classes, parts);
}

// By number of a payload: the test's own codes of its parts.
static void note_own_codes(Classes *classes, const ClassTest *test, const u32 *number_of, u64 n_codes, MadeTest *made)
{
    const size_t n_own = (size_t)classes->n_payloads;
    u32          codes[CLASS_PAYLOADS];
    made->n_own = classes->n_payloads;
    made->own_code = arena_array(classes->arena, u32, n_own * (size_t)test->n_payloads + 1);
    memset(made->own_code, 0xff, n_own * (size_t)test->n_payloads * sizeof *made->own_code);
    for (u64 c = 0; c < n_codes; c++) {
        if (number_of[c] == NO_CODE) continue;
        codes_apart(test, c, codes);
        for (size_t p = 0; p < (size_t)test->n_payloads; p++) made->own_code[p * n_own + number_of[c]] = codes[p];
    }
}

// The table's codes become numbers of payloads that all tests share.  False: too many.
static bool number_payloads(Classes *classes, const ClassTest *test, Passing *passing, MadeTest *made)
{
    const bool is_one = test->n_payloads == 1;             // then keys need not be looked at, and there may be none
    const u64  n_codes = n_codes_of(test), shift = is_one ? 0 : (u64)classes->low - (u64)test->table->keys[0].low;
    if (!n_codes || (classes->n_parts && classes->n_parts != test->n_payloads)) return false;
    classes->n_parts = test->n_payloads;
    u32 *number_of = malloc((n_codes + 1) * sizeof *number_of);
    memset(number_of, 0xff, (n_codes + 1) * sizeof *number_of);
    for (u32 i = 0; i < passing->n && classes->n_payloads <= classes->n_most; i++) {
        const u32 code =
            is_one ? passing->codes[i] : code_together(test, passing->at[i] + shift, passing->codes[i]);
        if (number_of[code] == NO_CODE) number_of[code] = payload_number(classes, test, code);
        passing->codes[i] = number_of[code];
    }
    note_own_codes(classes, test, number_of, n_codes, made);
    free(number_of);
    return classes->n_payloads <= classes->n_most;
}

// ---- atoms ----------------------------------------------------------------------------------------------------------

static void want(MadeTest *test, u32 atom) { test->wants[atom / 64] |= (u64)1 << atom % 64; }
static bool wants(const MadeTest *test, u32 atom) { return test->wants[atom / 64] >> atom % 64 & 1; }

// False: a value has another payload than other tests say.  Values that no test wanted yet have none yet.
static bool count_passing(const Classes *classes, const Passing *passing, Split *split)
{
    bool ok = true;
    for (u32 i = 0; i < passing->n; i++) {
        const u32 atom = classes->atom_of[passing->at[i]];
        ok &= !atom || classes->payload[atom] == passing->codes[i];
        split->n_passing[atom]++;
    }
    return ok;
}

static u16 new_atom(Classes *classes, u32 of, u32 payload)
{
    const u16 atom = (u16)classes->n_atoms++;
    classes->n_values[atom] = 0, classes->payload[atom] = payload;
    for (int t = 0; t < classes->n_tests && of; t++)       // no test wants atom 0
        if (wants(classes->tests[t], of)) want(classes->tests[t], atom);
    return atom;
}

// Atoms of which all values pass stay as they are.  True: all that pass are in such atoms.
static bool keep_whole(const Classes *classes, MadeTest *test, Split *split)
{
    bool is_all = split->n_passing[0] == 0;
    for (u32 a = 1; a < (u32)classes->n_atoms; a++) {
        if (!split->n_passing[a]) continue;
        if (split->n_passing[a] != classes->n_values[a]) {
            is_all = false;
            continue;
        }
        split->next[a] = (u16)a;
        want(test, a);
    }
    return is_all;
}

// Of the other atoms, what passes becomes another one.  False: too many.
static bool move_passing(Classes *classes, MadeTest *test, const Passing *passing, Split *split)
{
    for (u32 i = 0; i < passing->n; i++) {
        u16      *atom = &classes->atom_of[passing->at[i]];
        const u16 old = *atom;
        u16      *to = old ? &split->next[old] : &split->next_of_payload[passing->codes[i]];
        if (*to == old && old) continue;
        if (!*to) {
            if (classes->n_atoms == classes->n_most) return false;
            *to = new_atom(classes, old, passing->codes[i]);
            want(test, *to);
        }
        classes->n_values[old]--, classes->n_values[*to]++;
        *atom = *to;
    }
    return true;
}

static bool split_atoms(Classes *classes, MadeTest *test, const Passing *passing)
{
    Split       *split = &classes->split;
    const size_t n_atoms = (size_t)classes->n_atoms, n_payloads = (size_t)MIN_OF(classes->n_payloads, MOST_ATOMS);
    memset(split->n_passing, 0, n_atoms * sizeof *split->n_passing);
    memset(split->next, 0, n_atoms * sizeof *split->next);
    memset(split->next_of_payload, 0, (n_payloads + 1) * sizeof *split->next_of_payload);
    bool ok = count_passing(classes, passing, split);
    if (ok && !keep_whole(classes, test, split)) {
        classes->version = next_version();
        ok = move_passing(classes, test, passing, split);
    }
    return ok;
}

// A digit for each payload: CUBE_KEYS of them fit.
static u64 order_of(const ClassTest *test)
{
    u64 order = 0;
    for (int p = 0; p < test->n_payloads; p++) order = order * CLASS_PAYLOADS + test->payloads[p];
    return order;
}

static int find_test(const Classes *classes, const ClassTest *test)
{
    const TestKey key = { test->low, test->high, test->table ? test->table->id : 0, order_of(test) };
    u64           number;
    return map_get(classes->test_numbers, &key, sizeof key, &number) ? (int)number : -1;
}

bool classes_know(const Classes *classes, const ClassTest *test) { return find_test(classes, test) >= 0; }

static bool make_test(Classes *classes, const ClassTest *test, Passing *passing, MadeTest *made)
{
    if (!test->n_payloads) memset(passing->codes, 0, passing->n * sizeof *passing->codes);
    else if (!number_payloads(classes, test, passing, made)) return false;
    return split_atoms(classes, made, passing);
}

// Room for so many values that pass, from test to test the same.
static bool find_scratch(Classes *classes, u64 room, Passing *passing)
{
    Error ignored;
    void *memory;
    error_clear(&ignored);
    if (classes->scratch_room < 2 * room) {
        mem_free(classes->budget, classes->scratch, classes->scratch_room * sizeof(u32));
        classes->scratch = NULL, classes->scratch_room = 0;
        if (mem_alloc(classes->budget, 2 * room * sizeof(u32), &memory, &ignored)) return false;
        classes->scratch = memory, classes->scratch_room = 2 * room;
    }
    *passing = (Passing){ .at = classes->scratch, .codes = classes->scratch + room, .room = (u32)room };
    return true;
}

// What is kept besides classes is small.
static void trim_scratch(Classes *classes)
{
    if (classes->scratch_room <= SCRATCH_KEPT) return;
    mem_free(classes->budget, classes->scratch, classes->scratch_room * sizeof(u32));
    classes->scratch = NULL, classes->scratch_room = 0;
}

int classes_add(Classes *classes, const ClassTest *test)
{
    const int found = find_test(classes, test);
    if (found >= 0) return found;
    Passing passing;
    u64     first = 0, end = classes->size;
    ASSERT(!classes->kinds || (test->table && test->table->kinds->id == classes->kinds && test->n_payloads <= 1));
    if (!classes->kinds) clip(classes, test->low, test->high, &first, &end);
    if (!classes->kinds && test->table)
        clip(classes, test->table->keys[0].low, test->table->keys[0].high, &first, &end);
    // cppcheck-suppress nullPointerRedundantCheck ; a test of kinds has its table
    const u64 room = classes->kinds ? test->table->n_kinds_in
                     : test->table  ? MIN_OF(end - first, test->table->n_rows)
                                    : end - first;
    if (!find_scratch(classes, room + 1, &passing)) return -1;
    MadeTest *made = arena_make(classes->arena, MadeTest);
    made->low = test->low, made->high = test->high, made->table = test->table ? test->table->id : 0;
    made->order = order_of(test);
    find_passing(classes, test, first, end, &passing);
    const bool ok = make_test(classes, test, &passing, made);
    trim_scratch(classes);
    if (!ok) return -1;
    add_test(classes, made);
    return classes->n_tests - 1;
}

// ---- classes --------------------------------------------------------------------------------------------------------

// By atom: the tests in use that it passes, a bit each, then its payload where that counts.  To be freed.  Most tests
// want few atoms, so these are looked at, not all atoms for each test.
static u64 *sign_all(const Classes *classes, const int *tests, int n_tests, bool with_payload)
{
    const size_t n_words = (size_t)(n_tests + 63) / 64 + 1, n_atoms = (size_t)classes->n_atoms;
    u64         *signs = calloc(n_atoms * n_words, sizeof *signs);
    for (int t = 0; t < n_tests; t++)
        for (size_t w = 0; w < (n_atoms + 63) / 64; w++)
            for (u64 bits = classes->tests[tests[t]]->wants[w]; bits; bits &= bits - 1)
                signs[(w * 64 + (size_t)__builtin_ctzll(bits)) * n_words + (size_t)t / 64] |= (u64)1 << t % 64;
    for (size_t a = 0; a < n_atoms && with_payload; a++) signs[(a + 1) * n_words - 1] = classes->payload[a];
    return signs;
}

static bool is_unwanted(const u64 *words, int n_words)
{
    for (int w = 0; w < n_words; w++)
        if (words[w]) return false;
    return true;
}

static u16 place_in_class(Map *places, Arena *arena, ClassMap *map, int class, u32 payload)
{
    const u32 key[2] = { (u32)class, payload };
    u64       place;
    if (map_get(places, key, sizeof key, &place)) return (u16)place;
    place = (u64)map->n_payloads[class];
    map_set(places, key, sizeof key, place);
    *LIST_PUSH(arena, map->payload_at[class], map->n_payloads[class]) = payload;
    return (u16)place;
}

// By atom: the share of all rows that it is of, where values are expected to be as frequent as each other.
static double *share_of_atoms(const Classes *classes)
{
    double *shares = calloc((size_t)classes->n_atoms + 1, sizeof *shares);
    for (int a = 0; a < classes->n_atoms && !classes->weights; a++)
        shares[a] = (double)classes->n_values[a] / (double)classes->size;
    for (u64 k = 0; k < classes->size && classes->weights; k++)
        shares[classes->atom_of[k]] += (double)classes->weights[k] / (double)MAX_OF(classes->weight, 1);
    return shares;
}

static void class_of_atoms(const Classes *classes, Arena *arena, const int *tests, int n_tests, bool in_class,
                           ClassMap *map)
{
    Arena *scratch = arena_new(NULL, "classes");
    Map   *numbers = map_new(scratch), *places = map_new(scratch);
    u64   *signs = sign_all(classes, tests, n_tests, in_class);
    double   *shares = share_of_atoms(classes);
    const int n_words = (n_tests + 63) / 64;
    map->n_classes = 1;
    for (u32 a = 0; a < (u32)classes->n_atoms; a++) {
        const u64 *words = signs + a * (size_t)(n_words + 1);
        u64        class = 0;
        if (!is_unwanted(words, n_words) && !map_get(numbers, words, (size_t)(n_words + 1) * sizeof *words, &class)) {
            class = (u64)map->n_classes++;
            map_set(numbers, words, (size_t)(n_words + 1) * sizeof *words, class);
            for (int t = 0; t < n_tests; t++)
                if (words[t / 64] >> t % 64 & 1) *LIST_PUSH(arena, map->wanted[t], map->n_wanted[t]) = (int)class;
        }
        map->class_of_atom[a] = (u16)class;
        map->share[class] += shares[a];
        if (class) map->local_of_atom[a] = place_in_class(places, arena, map, (int)class, classes->payload[a]);
    }
    free(signs);
    free(shares);
    arena_free(scratch);
}

void classes_map(const Classes *classes, Arena *arena, const int *tests, int n_tests, bool payload_in_class,
                 ClassMap *map)
{
    *map = (ClassMap){ .n_atoms = classes->n_atoms };
    map->class_of_atom = arena_array(arena, u16, classes->n_atoms);
    map->local_of_atom = arena_array(arena, u16, classes->n_atoms);
    map->n_payloads = arena_array(arena, int, classes->n_atoms + 1);
    map->payload_at = arena_array(arena, u32 *, classes->n_atoms + 1);
    map->share = arena_array(arena, double, classes->n_atoms + 1);
    map->wanted = arena_array(arena, int *, n_tests + 1), map->n_wanted = arena_array(arena, int, n_tests + 1);
    class_of_atoms(classes, arena, tests, n_tests, payload_in_class, map);
}

bool classes_map_values(const Classes *classes, ClassMap *map)
{
    Error ignored;
    error_clear(&ignored);
    map->bytes = classes->size * sizeof(u16);
    if (mem_alloc(classes->budget, map->bytes, (void **)&map->class_of, &ignored)) return false;
    for (u64 v = 0; v < classes->size; v++) map->class_of[v] = map->class_of_atom[classes->atom_of[v]];
    return true;
}

void classes_unmap(const Classes *classes, ClassMap *map)
{
    mem_free(classes->budget, map->class_of, map->bytes);
    map->class_of = NULL;
}
