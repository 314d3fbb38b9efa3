// draw.c - SSB queries with random constants: the thirteen shapes, every constant drawn from its domain.
//
// The text is that of bench/ssb/queries but for the constants.  Ranges keep about the width they have there, so a drawn
// query keeps about the selectivity of the one it is made after.

#define _GNU_SOURCE
#include "concurrency.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 20 };                   // texts of a shape that were all drawn before: then it needs more constants

static const char *const REGIONS[] = { "AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST" };

static const char *const NATIONS[] = {
    "ALGERIA",    "ARGENTINA",    "BRAZIL",  "CANADA", "EGYPT",          "ETHIOPIA",      "FRANCE",
    "GERMANY",    "INDIA",        "INDONESIA", "IRAN", "IRAQ",           "JAPAN",         "JORDAN",
    "KENYA",      "MOROCCO",      "MOZAMBIQUE", "PERU", "CHINA",         "ROMANIA",       "SAUDI ARABIA",
    "VIETNAM",    "RUSSIA",       "UNITED KINGDOM",    "UNITED STATES",
};

static const char *const MONTHS[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

uint64_t draw_number(uint64_t *state)                            // SplitMix64
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int draw_between(uint64_t *state, int low, int high)
{
    return low + (int)(draw_number(state) % (uint64_t)(high - low + 1));
}

// ---- constants ---------------------------------------------------------------------------------------------------

static int year(uint64_t *state)
{
    return draw_between(state, 1992, 1998);
}

static const char *region(uint64_t *state)
{
    return REGIONS[draw_between(state, 0, COUNT(REGIONS) - 1)];
}

static const char *nation(uint64_t *state)
{
    return NATIONS[draw_between(state, 0, COUNT(NATIONS) - 1)];
}

static int category(uint64_t *state)                             // the digits of MFGR#12
{
    return 10 * draw_between(state, 1, 5) + draw_between(state, 1, 5);
}

static void two_different(uint64_t *state, int low, int high, int *a, int *b)
{
    *a = draw_between(state, low, high);
    do
        *b = draw_between(state, low, high);
    while (*b == *a);
}

static void put_discount(FILE *out, uint64_t *state)
{
    int low = draw_between(state, 0, 8);
    fprintf(out, "and lo_discount between %d and %d\n", low, low + 2);
}

static void put_quantity_range(FILE *out, uint64_t *state)
{
    int low = draw_between(state, 1, 41);
    fprintf(out, "and lo_quantity between %d and %d", low, low + 9);
}

static void put_years(FILE *out, uint64_t *state)
{
    int first = draw_between(state, 1992, 1993);
    fprintf(out, "and d_year >= %d and d_year <= %d\n", first, first + draw_between(state, 3, 5));
}

// Two cities of one nation.
static void put_cities(FILE *out, const char *column, const char *of_nation, uint64_t *state)
{
    int a, b;
    two_different(state, 0, 9, &a, &b);
    fprintf(out, "and (%s = '%-9.9s%d' or %s = '%-9.9s%d')\n", column, of_nation, a, column, of_nation, b);
}

static void put_makers(FILE *out, uint64_t *state)
{
    int a, b;
    two_different(state, 1, 5, &a, &b);
    fprintf(out, "and (p_mfgr = 'MFGR#%d' or p_mfgr = 'MFGR#%d')\n", a, b);
}

static void put_two_years(FILE *out, uint64_t *state)
{
    int a, b;
    two_different(state, 1992, 1998, &a, &b);
    fprintf(out, "and (d_year = %d or d_year = %d)\n", a, b);
}

// ---- shapes ---------------------------------------------------------------------------------------------------

// More texts of a shape: a wide range on a column of a dimension that is filtered in all of them.
static void put_wide(FILE *out, bool is_wide, bool of_part, uint64_t *state)
{
    if (is_wide && of_part)
        fprintf(out, "and p_size between %d and %d\n", draw_between(state, 1, 10), draw_between(state, 41, 50));
    else if (is_wide)
        fprintf(out, "and d_daynuminyear between %d and %d\n", draw_between(state, 1, 36),
                draw_between(state, 330, 366));
}

static void put_flight_1(FILE *out, int number, bool is_wide, uint64_t *state)
{
    fprintf(out, "select sum(lo_extendedprice*lo_discount) as revenue\nfrom lineorder, date\n"
                 "where lo_orderdate = d_datekey\n");
    if (number == 1)
        fprintf(out, "and d_year = %d\n", year(state));
    else if (number == 2)
        fprintf(out, "and d_yearmonthnum = %d\n", 100 * year(state) + draw_between(state, 1, 12));
    else
        fprintf(out, "and d_weeknuminyear = %d\nand d_year = %d\n", draw_between(state, 1, 52), year(state));
    put_wide(out, is_wide, false, state);
    put_discount(out, state);
    if (number == 1)
        fprintf(out, "and lo_quantity < %d", draw_between(state, 15, 35));
    else
        put_quantity_range(out, state);
}

static void put_flight_2(FILE *out, int number, bool is_wide, uint64_t *state)
{
    fprintf(out, "select sum(lo_revenue), d_year, p_brand1\nfrom lineorder, date, part, supplier\n"
                 "where lo_orderdate = d_datekey\nand lo_partkey = p_partkey\nand lo_suppkey = s_suppkey\n");
    int of_category = category(state), brand = draw_between(state, 10, 33);        // of 1 to 40
    if (number == 1)
        fprintf(out, "and p_category = 'MFGR#%d'\n", of_category);
    else if (number == 2)
        fprintf(out, "and p_brand1 between 'MFGR#%d%d' and 'MFGR#%d%d'\n", of_category, brand, of_category, brand + 7);
    else
        fprintf(out, "and p_brand1 = 'MFGR#%d%d'\n", of_category, brand);
    put_wide(out, is_wide, true, state);
    fprintf(out, "and s_region = '%s'\ngroup by d_year, p_brand1\norder by d_year, p_brand1", region(state));
}

static void put_flight_3(FILE *out, int number, bool is_wide, uint64_t *state)
{
    const char *by = number == 1 ? "nation" : "city";
    fprintf(out, "select c_%s, s_%s, d_year, sum(lo_revenue) as revenue\nfrom customer, lineorder, supplier, date\n"
                 "where lo_custkey = c_custkey\nand lo_suppkey = s_suppkey\nand lo_orderdate = d_datekey\n", by, by);
    if (number == 1)
        fprintf(out, "and c_region = '%s'\nand s_region = '%s'\n", region(state), region(state));
    else if (number == 2)
        fprintf(out, "and c_nation = '%s'\nand s_nation = '%s'\n", nation(state), nation(state));
    if (number >= 3) {
        put_cities(out, "c_city", nation(state), state);
        put_cities(out, "s_city", nation(state), state);
    }
    if (number < 4)
        put_years(out, state);
    else
        fprintf(out, "and d_yearmonth = '%s%d'\n", MONTHS[draw_between(state, 0, 11)], year(state));
    put_wide(out, is_wide, false, state);
    fprintf(out, "group by c_%s, s_%s, d_year\norder by d_year asc, revenue desc", by, by);
}

static void put_flight_4(FILE *out, int number, bool is_wide, uint64_t *state)
{
    static const char *const GROUPS[] = { "d_year, c_nation", "d_year, s_nation, p_category",
                                          "d_year, s_city, p_brand1" };
    fprintf(out, "select %s, sum(lo_revenue - lo_supplycost) as profit\n"
                 "from date, customer, supplier, part, lineorder\nwhere lo_custkey = c_custkey\n"
                 "and lo_suppkey = s_suppkey\nand lo_partkey = p_partkey\n"
                 "and lo_orderdate = d_datekey\nand c_region = '%s'\n", GROUPS[number - 1], region(state));
    if (number < 3)
        fprintf(out, "and s_region = '%s'\n", region(state));
    else
        fprintf(out, "and s_nation = '%s'\n", nation(state));
    if (number > 1)
        put_two_years(out, state);
    if (number < 3)
        put_makers(out, state);
    else
        fprintf(out, "and p_category = 'MFGR#%d'\n", category(state));
    put_wide(out, is_wide, true, state);
    fprintf(out, "group by %s\norder by %s", GROUPS[number - 1], GROUPS[number - 1]);
}

static char *draw_query(int shape, bool is_wide, uint64_t *state)
{
    static const struct {
        void (*put)(FILE *out, int number, bool is_wide, uint64_t *state);
        int number;
    } SHAPES[N_SHAPES] = {
        { put_flight_1, 1 }, { put_flight_1, 2 }, { put_flight_1, 3 }, { put_flight_2, 1 }, { put_flight_2, 2 },
        { put_flight_2, 3 }, { put_flight_3, 1 }, { put_flight_3, 2 }, { put_flight_3, 3 }, { put_flight_3, 4 },
        { put_flight_4, 1 }, { put_flight_4, 2 }, { put_flight_4, 3 },
    };
    char *sql = NULL;
    size_t length;
    FILE *out = open_memstream(&sql, &length);
    SHAPES[shape].put(out, SHAPES[shape].number, is_wide, state);
    fclose(out);
    return sql;
}

// ---- sets of texts -------------------------------------------------------------------------------------------------

struct TextSet { uint64_t *keys; size_t n, capacity; };    // 0: empty; open addressing

TextSet *text_set_new(void)
{
    TextSet *set = calloc(1, sizeof *set);
    set->capacity = 1024;
    set->keys = calloc(set->capacity, sizeof *set->keys);
    return set;
}

void text_set_free(TextSet *set)
{
    free(set->keys);
    free(set);
}

static bool put_key(TextSet *set, uint64_t key)
{
    size_t at = key & (set->capacity - 1);
    while (set->keys[at] && set->keys[at] != key)
        at = (at + 1) & (set->capacity - 1);
    if (set->keys[at])
        return false;
    set->keys[at] = key;
    set->n++;
    return true;
}

static void grow(TextSet *set)
{
    uint64_t *old = set->keys;
    size_t n_old = set->capacity;
    set->capacity *= 2;
    set->keys = calloc(set->capacity, sizeof *set->keys);
    set->n = 0;
    for (size_t i = 0; i < n_old; i++)
        if (old[i])
            put_key(set, old[i]);
    free(old);
}

// 64 bits of it stand for a text: of a million texts, one in thirty million sets would lose one.
bool text_set_add(TextSet *set, const char *text, bool without_constants)
{
    uint64_t key = 14695981039346656037u;                  // FNV-1a
    bool is_quoted = false;
    for (; *text; text++) {
        is_quoted ^= *text == '\'';
        if (without_constants && (is_quoted || (*text >= '0' && *text <= '9')))
            continue;
        key = (key ^ (unsigned char)*text) * 1099511628211u;
    }
    if (2 * set->n >= set->capacity)
        grow(set);
    return put_key(set, draw_number(&key) | 1);
}

// ---- queries -------------------------------------------------------------------------------------------------------

// Different ones: the same query twice would be computed once.  Q2.1, Q3.1 and Q4.1 have few constants: when one has
// come up as often as there are texts, a range on a column of a dimension makes more of them.  It keeps the shape of
// the pipeline over lineorder, and four fifths of the rows.
char **draw_queries(int shape, int n, uint64_t seed)
{
    uint64_t state = seed;
    char **queries = calloc((size_t)n, sizeof *queries);
    TextSet *seen = text_set_new();
    int n_tries = 0;
    for (int i = 0; i < n;) {
        queries[i] = draw_query(shape < 0 ? i % N_SHAPES : shape, n_tries >= TRIES, &state);
        bool is_new = text_set_add(seen, queries[i], false);
        n_tries = is_new ? 0 : n_tries + 1;
        if (!is_new)
            free(queries[i]);
        i += is_new;
    }
    text_set_free(seen);
    return queries;
}

void free_queries(char **queries, int n)
{
    for (int i = 0; i < n; i++)
        free(queries[i]);
    free(queries);
}
