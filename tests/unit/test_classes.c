// test_classes.c - classes of values that no query tells apart, against a look at every pair of values.

#include "test.h"
#include "share/classes.h"

enum { SIZE = 700, N_PAYLOADS = 23, MOST_TESTS = 40, LOW = -50 };

typedef struct Handmade {              // a test, and what it lets pass
    ClassTest test;
    JoinTable table;
    JoinKey   key;
    Payload   payload;
    bool      passes[SIZE];            // by value - LOW
    u32       code[SIZE];              // of the payload there
    void     *memory;
    i64      *decode;
} Handmade;

static u32               rows_of_kind[SIZE];
static const Kinds       all_kinds = { .id = 5, .n_kinds = SIZE, .n_rows = rows_of_kind };
static const ClassValues values = { LOW, SIZE, NULL }, kind_values = { 0, SIZE, &all_kinds };

static u64      x;
static Budget   budget;
static Arena   *arena;
static i64      attribute[SIZE];       // the payload of each value, for all tables; INT64_MIN: NULL
static Handmade made[MOST_TESTS];
static int      n_made;

static u32 draw(u32 below)
{
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (u32)(x >> 20) % below;
}

static void begin(u64 seed)
{
    x = seed * 2654435761u + 88172645463325252ull, n_made = 0, budget = (Budget){ 0 };
    arena = arena_new(NULL, "test");
    for (int v = 0; v < SIZE; v++) attribute[v] = draw(30) ? 1000 + 3 * (i64)draw(N_PAYLOADS) : INT64_MIN;
}

static void end(void)
{
    for (int t = 0; t < n_made; t++) free(made[t].memory), free(made[t].decode);
    arena_free(arena);
    CHECK_INT(budget.used, 0);
}

// Codes of a table are its own: those of the payloads that it has, in an order of its own.
static void code_payloads(Handmade *h)
{
    h->decode = malloc((N_PAYLOADS + 1) * sizeof *h->decode);
    u32 n = 0;
    for (u32 p = 0; p < N_PAYLOADS; p++) {
        h->decode[n] = 1000 + 3 * (i64)((p * 7 + (u32)n_made) % N_PAYLOADS);
        for (int v = 0; v < SIZE; v++)
            if (h->passes[v] && attribute[v] == h->decode[n]) {
                n++;
                break;
            }
    }
    h->payload = (Payload){ .decode = h->decode, .n_codes = n + 1, .null_code = n, .range = { .nullable = true } };
    for (int v = 0; v < SIZE; v++) {
        h->code[v] = n;
        for (u32 c = 0; c < n; c++)
            if (attribute[v] == h->decode[c]) h->code[v] = c;
    }
}

static void put(Handmade *h, int width, u64 at, u64 value)
{
    switch (width) {
        case 0:  ((u8 *)h->memory)[at / 8] |= (u8)(1 << at % 8); break;
        case 1:  ((u8 *)h->memory)[at] = (u8)value; break;
        case 2:  ((u16 *)h->memory)[at] = (u16)value; break;
        case 4:  ((u32 *)h->memory)[at] = (u32)value; break;
        default: ((u64 *)h->memory)[at] = value;
    }
}

// WIDTH of its slots, 0: bits.  Its keys may begin before the column's values and end behind them.
static void make_table(Handmade *h, bool has_payload, int width)
{
    const i64 low = LOW - (i64)draw(20), high = LOW + SIZE - 1 + (i64)draw(20);
    h->memory = calloc((size_t)(high - low) + 16, 8);
    h->key = (JoinKey){ .low = low, .high = high };
    h->table = (JoinTable){ .id = 1 + (u64)n_made,
                            .shape = has_payload ? SHAPE_DIRECT : SHAPE_BITS,
                            .is_bytes = width == 1,
                            .n_keys = 1,
                            .keys = &h->key,
                            .slots = h->memory,
                            .n_payloads = has_payload,
                            .payloads = &h->payload };
    if (has_payload) code_payloads(h);
    h->payload.data = h->memory, h->payload.width = (u8)width;
    for (int v = 0; v < SIZE; v++) {
        if (!h->passes[v]) continue;
        put(h, width, (u64)(LOW + v - low), has_payload ? h->code[v] + 1 : 1);
        h->table.n_rows++;
    }
    h->test.table = &h->table;
}

// By kind instead of by value; no row is of kind 0.
static void make_kind_table(Handmade *h, bool has_payload)
{
    u32 *codes = calloc(2 * SIZE, sizeof *codes), *kinds_in = codes + SIZE;
    h->memory = codes, h->passes[0] = false;
    h->table = (JoinTable){ .id = 1 + (u64)n_made,
                            .n_payloads = has_payload,
                            .payloads = &h->payload,
                            .kinds = &all_kinds,
                            .code_of_kind = codes,
                            .kinds_in = kinds_in };
    if (has_payload) code_payloads(h);
    for (u32 k = 1; k < SIZE; k++)
        if (h->passes[k]) codes[k] = has_payload ? h->code[k] + 1 : 1, kinds_in[h->table.n_kinds_in++] = k;
    h->test.table = &h->table;
}

static Handmade *make_kind_test(bool has_payload)
{
    Handmade *h = &made[n_made];
    const u32 modulus = 2 + draw(9), rest = draw(modulus);
    memset(h, 0, sizeof *h);
    h->test = (ClassTest){ .low = INT64_MIN, .high = INT64_MAX, .n_payloads = has_payload };
    for (u32 k = 0; k < SIZE; k++) h->passes[k] = rest ? k % modulus == rest : draw(modulus) == 0;
    make_kind_table(h, has_payload);
    n_made++;
    return h;
}

static Handmade *make_test(bool has_payload)
{
    static const int widths[] = { 1, 2, 4, 8 };
    Handmade *h = &made[n_made];
    const u32 kind = has_payload ? 1 + draw(3) : draw(4), modulus = 2 + draw(9), rest = draw(modulus);
    memset(h, 0, sizeof *h);
    h->test = (ClassTest){ .low = INT64_MIN, .high = INT64_MAX, .n_payloads = has_payload };
    if (kind == 0 || draw(3) == 0)
        h->test.low = LOW - 30 + (i64)draw(SIZE), h->test.high = h->test.low + (i64)draw(SIZE / 2);
    for (int v = 0; v < SIZE; v++) {
        const u64 group = attribute[v] == INT64_MIN ? 1 : (u64)attribute[v];
        h->passes[v] = kind == 0 || (kind == 1 && group % modulus == rest) || (kind == 2 && (u32)v % modulus == rest) ||
                       (kind == 3 && draw(modulus) == 0);
    }
    if (kind) make_table(h, has_payload, has_payload ? widths[draw(4)] : (int)draw(2));
    for (int v = 0; v < SIZE; v++) h->passes[v] = h->passes[v] && LOW + v >= h->test.low && LOW + v <= h->test.high;
    n_made++;
    return h;
}

static bool is_wanted(const ClassMap *map, int use, int class)
{
    for (int c = 0; c < map->n_wanted[use]; c++)
        if (map->wanted[use][c] == class) return true;
    return false;
}

static bool are_told_apart(const int *used, int n_used, int a, int b)
{
    for (int t = 0; t < n_used; t++)
        if (made[used[t]].passes[a] != made[used[t]].passes[b]) return true;
    return false;
}

static bool is_of_anybody(const int *used, int n_used, int v)
{
    for (int t = 0; t < n_used; t++)
        if (made[used[t]].passes[v]) return true;
    return false;
}

// USED: handmade tests; NUMBERS: theirs among the classes'.
static void check_map(const Classes *classes, const int *used, const int *numbers, int n_used, bool has_payload,
                      bool in_class)
{
    ClassMap map;
    classes_map(classes, arena, numbers, n_used, in_class, &map);
    CHECK(classes_map_values(classes, &map));
    for (int a = 0; a < SIZE; a++) {
        const int class = map.class_of[a];
        CHECK_INT(map.class_of_atom[classes_atoms(classes)[a]], class);
        CHECK(class < map.n_classes && (class != 0) == is_of_anybody(used, n_used, a));
        for (int t = 0; t < n_used && class; t++) {
            CHECK_INT(is_wanted(&map, t, class), made[used[t]].passes[a]);
            if (!has_payload || !made[used[t]].passes[a]) continue;
            const int local = map.local_of_atom[classes_atoms(classes)[a]];
            CHECK(local < map.n_payloads[class] && (!in_class || map.n_payloads[class] == 1));
            CHECK_INT(classes_own_codes(classes, numbers[t], 0)[map.payload_at[class][local]], made[used[t]].code[a]);
        }
        for (int b = a + 1; b < SIZE && class; b += 1 + (int)draw(7)) {
            const bool has_other = in_class && has_payload && attribute[a] != attribute[b];
            CHECK_INT(map.class_of[b] == class, !are_told_apart(used, n_used, a, b) && !has_other);
        }
    }
    classes_unmap(classes, &map);
}

static void check_tests(u64 seed, bool has_payload, const ClassValues *of)
{
    Handmade *(*make)(bool) = of->kinds ? make_kind_test : make_test;
    int used[MOST_TESTS], numbers[MOST_TESTS], n_used = 0;
    begin(seed);
    Classes  *classes = classes_new(&budget, NULL, of, MOST_ATOMS);
    const int n_tests = 1 + (int)draw(MOST_TESTS / 2);
    for (int t = 0; t < n_tests; t++) {
        const int number = classes_add(classes, &make(has_payload)->test);
        CHECK(number >= 0 && classes_add(classes, &made[t].test) == number);   // the same again is no other test
        if (draw(3) == 0) continue;                                            // as if its query were gone
        used[n_used] = t, numbers[n_used++] = number;
    }
    check_map(classes, used, numbers, n_used, has_payload, false);
    check_map(classes, used, numbers, n_used, has_payload, true);
    Classes *later = classes_new(&budget, classes, of, MOST_ATOMS);                      // others come
    classes_free(classes);
    for (int t = 0; t < 5; t++) {
        used[n_used] = n_made;
        numbers[n_used++] = classes_add(later, &make(has_payload)->test);
    }
    check_map(later, used, numbers, n_used, has_payload, draw(2));
    classes_free(later);
    end();
}

TEST(values_are_in_one_class_when_no_test_tells_them_apart)
{
    for (u64 seed = 1; seed <= 40; seed++) check_tests(seed, false, &values);
}

TEST(payloads_are_numbered_within_their_class)
{
    for (u64 seed = 1; seed <= 40; seed++) check_tests(seed, true, &values);
}

TEST(kinds_are_told_apart_as_values_are)
{
    for (u32 k = 1; k < SIZE; k++) rows_of_kind[k] = 1 + k % 3;
    for (u64 seed = 1; seed <= 40; seed++) check_tests(seed, seed % 2, &kind_values);
}

// A table of two payloads, v % 7 and v % 5 of value v.  SWAPPED: it has them the other way round, and others' codes.
typedef struct Pair { JoinTable table; JoinKey key; Payload payloads[2]; u8 sevens[SIZE]; u16 fives[SIZE]; } Pair;

static void make_pair(Pair *pair, int number, bool is_swapped, int every)
{
    const i64 base = is_swapped ? -3 : 0;
    memset(pair, 0, sizeof *pair);
    pair->key = (JoinKey){ .low = LOW, .high = LOW + SIZE - 1 };
    pair->payloads[is_swapped] = (Payload){ .data = pair->sevens, .width = 1, .n_codes = 10, .base = base };
    pair->payloads[!is_swapped] = (Payload){ .data = pair->fives, .width = 2, .n_codes = 5 };
    for (int v = 0; v < SIZE; v += every) {
        pair->sevens[v] = (u8)(v % 7 - base + !is_swapped), pair->fives[v] = (u16)(v % 5 + is_swapped);
        pair->table.n_rows++;
    }
    pair->table = (JoinTable){ .id = (u64)number, .shape = SHAPE_DIRECT, .n_keys = 1, .keys = &pair->key,
                               .n_rows = pair->table.n_rows, .n_payloads = 2, .payloads = pair->payloads };
}

TEST(payloads_of_a_table_are_told_apart_together)
{
    static Pair pairs[2];
    begin(5);
    Classes  *classes = classes_new(&budget, NULL, &values, MOST_ATOMS);
    ClassTest tests[2];
    int       numbers[2];
    ClassMap  map;
    for (int t = 0; t < 2; t++) {
        make_pair(&pairs[t], 7 + t, t, 1 + t);
        tests[t] = (ClassTest){ INT64_MIN, INT64_MAX, &pairs[t].table, 2, { (u8)t, (u8)!t } };
        CHECK((numbers[t] = classes_add(classes, &tests[t])) >= 0);
    }
    // The same table's payloads in another order are another test: its values have others.
    CHECK(!classes_know(classes, &(ClassTest){ INT64_MIN, INT64_MAX, &pairs[0].table, 2, { 1, 0 } }));
    CHECK_INT(classes_n_payloads(classes), 35);
    classes_map(classes, arena, numbers, 2, false, &map);
    CHECK_INT(map.n_classes, 3);
    for (int v = 0; v < SIZE; v++) {
        const int atom = classes_atoms(classes)[v], class = map.class_of_atom[atom];
        const u32 payload = map.payload_at[class][map.local_of_atom[atom]];
        for (int t = 0; t < 2; t++) {
            CHECK_INT(is_wanted(&map, t, class), t == 0 || v % 2 == 0);
            if (t && v % 2) continue;
            CHECK_INT(classes_own_codes(classes, numbers[t], 0)[payload], v % 7 + 3 * t);
            CHECK_INT(classes_own_codes(classes, numbers[t], 1)[payload], v % 5);
        }
    }
    classes_free(classes);
    end();
}

TEST(tables_that_disagree_about_a_payload_do_not_go_together)
{
    begin(7);
    Classes *classes = classes_new(&budget, NULL, &values, MOST_ATOMS);
    for (int t = 0; t < 6; t++) CHECK(classes_add(classes, &make_test(true)->test) >= 0);
    for (int v = 0; v < SIZE; v++) attribute[v] = 1000 + 3 * (attribute[v] / 3 % 5);   // another column of the table
    int number = 0;
    for (int t = 0; t < 6 && number >= 0; t++) number = classes_add(classes, &make_test(true)->test);
    CHECK_INT(number, -1);
    classes_free(classes);
    end();
}

TEST(too_many_classes_are_refused)
{
    begin(1);
    for (int most = FEW_ATOMS; most <= MOST_ATOMS; most *= 2) {
        Classes *classes = classes_new(&budget, NULL, &(ClassValues){ 0, 1000000, NULL }, most);
        int      number = 0, n = 0;
        for (; number >= 0; n++) number = classes_add(classes, &(ClassTest){ .low = 10 * n, .high = 10 * n + 14 });
        CHECK(n > most / 4 && n <= most);
        classes_free(classes);
    }
    end();
}

TEST(classes_do_without_memory)
{
    begin(3);
    budget.limit = SIZE * sizeof(u16) / 2;
    CHECK(!classes_new(&budget, NULL, &values, MOST_ATOMS));
    budget.limit = SIZE * sizeof(u16) + 64;
    Classes *classes = classes_new(&budget, NULL, &values, MOST_ATOMS);
    CHECK(classes);
    CHECK_INT(classes_add(classes, &(ClassTest){ .low = LOW, .high = LOW + 300 }), -1);
    ClassMap map;
    classes_map(classes, arena, NULL, 0, false, &map);
    CHECK(!classes_map_values(classes, &map));
    classes_free(classes);
    end();
}
