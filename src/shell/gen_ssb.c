// gen_ssb.c - the five tables of the Star Schema Benchmark.
//
// The rules are those of the paper (O'Neil, O'Neil, Chen: Star Schema Benchmark, revision 3, 2009) and of its
// generator, ssb-dbgen: how many rows, which keys, which words, which formulas.  The random numbers are others: each is
// a hash of seed, table, row and column, so any block of rows can be made by any worker, in any order, and comes out
// the same.
//
// Departures from ssb-dbgen: a scale below 1 also makes part smaller; lineorder refers to all parts (dbgen takes the
// natural logarithm there and log2 for part); date has all 2557 days of its seven years (old versions lack the last).
// Kept although it looks wrong: the weekday is one too late (1 January 1992 was no Thursday), so that date.tbl is the
// one that everybody has.

#include <math.h>
#include <stdio.h>

#include "shell/gen_int.h"

enum {
    DAYS = 2557,                       // 1992-01-01 to 1998-12-31
    ORDER_DAYS = 2406,                 // orders come up to 1998-08-02, so that deliveries still fall into 1998
    LINES_MAX = 7                      // of an order
};

// ---- random numbers -------------------------------------------------------------------------------------------------

static inline u64 row_key(u64 seed, int table, u64 row)
{
    return gen_mix(gen_mix(seed * 0x9E3779B97F4A7C15u + (u64)table + 1) + row * 0x9E3779B97F4A7C15u);
}

static inline u64 random_bits(u64 key, int column)
{
    return gen_mix(key + (u64)(column + 1) * 0x9E3779B97F4A7C15u);
}

// LOW to HIGH, both included, all equally often.
static inline i64 random_number(u64 key, int column, i64 low, i64 high)
{
    return low + (i64)((u128)random_bits(key, column) * (u64)(high - low + 1) >> 64);
}

// ---- words ----------------------------------------------------------------------------------------------------------

typedef enum ListName {
    LIST_NONE,                         // the texts of the column are not from a list
    LIST_MFGR, LIST_CATEGORY, LIST_BRAND, LIST_COLOR, LIST_TYPE, LIST_CONTAINER,
    LIST_REGION, LIST_NATION, LIST_CITY, LIST_SEGMENT,
    LIST_PRIORITY, LIST_SHIP_PRIORITY, LIST_SHIP_MODE,
    LIST_WEEKDAY, LIST_MONTH, LIST_YEAR_MONTH, LIST_SEASON, LIST_FLAG,
    N_LISTS
} ListName;

static const char *const ship_priorities[] = { "0" };
static const char *const weekdays[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
static const char *const months[] = { "January", "February", "March", "April", "May", "June", "July", "August",
                                      "September", "October", "November", "December" };
static const char *const seasons[] = { "Winter", "Spring", "Summer", "Fall", "Christmas" };
static const char *const flags[] = { "0", "1" };

// Words, where they are not put together by list_word(), and how many.
static const struct { const char *const *words; int n_words; } lists[N_LISTS] = {
#define WORDS(array) { array, COUNT_OF(array) }
    [LIST_MFGR] = { NULL, 5 },
    [LIST_CATEGORY] = { NULL, 25 },
    [LIST_BRAND] = { NULL, 1000 },
    [LIST_COLOR] = WORDS(gen_colors),
    [LIST_TYPE] = { NULL, GEN_TYPES },
    [LIST_CONTAINER] = { NULL, GEN_CONTAINERS },
    [LIST_REGION] = WORDS(gen_regions),
    [LIST_NATION] = { NULL, GEN_NATIONS },
    [LIST_CITY] = { NULL, GEN_NATIONS * 10 },
    [LIST_SEGMENT] = WORDS(gen_segments),
    [LIST_PRIORITY] = WORDS(gen_priorities),
    [LIST_SHIP_PRIORITY] = WORDS(ship_priorities),
    [LIST_SHIP_MODE] = WORDS(gen_ship_modes),
    [LIST_WEEKDAY] = WORDS(weekdays),
    [LIST_MONTH] = WORDS(months),
    [LIST_YEAR_MONTH] = { NULL, 7 * 12 },
    [LIST_SEASON] = WORDS(seasons),
    [LIST_FLAG] = WORDS(flags),
#undef WORDS
};

// Word NUMBER of a list, counted from 0.  A number behind the end is never asked for.
static const char *list_word(Arena *arena, int list, int number)
{
    switch ((ListName)list) {
    case LIST_MFGR:
        return arena_printf(arena, "MFGR#%d", number + 1);
    case LIST_CATEGORY:
        return arena_printf(arena, "MFGR#%d%d", number / 5 + 1, number % 5 + 1);
    case LIST_BRAND:
        return arena_printf(arena, "MFGR#%d%d%d", number / 200 + 1, number / 40 % 5 + 1, number % 40 + 1);
    case LIST_TYPE:
        return gen_type(arena, number);
    case LIST_CONTAINER:
        return gen_container(arena, number);
    case LIST_NATION:
        return gen_nations[number].name;
    case LIST_CITY:
        return arena_printf(arena, "%-9.9s%d", gen_nations[number / 10].name, number % 10);
    case LIST_YEAR_MONTH:
        return arena_printf(arena, "%.3s%d", months[number % 12], 1992 + number / 12);
    default:
        return lists[list].words[number];
    }
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static const GenColumn part_columns[] = {
    { "p_partkey", 0, LIST_NONE, false },     { "p_name", 22, LIST_NONE, false },
    { "p_mfgr", 6, LIST_MFGR, true },         { "p_category", 7, LIST_CATEGORY, false },
    { "p_brand1", 9, LIST_BRAND, false },     { "p_color", 11, LIST_COLOR, false },
    { "p_type", 25, LIST_TYPE, false },       { "p_size", 0, LIST_NONE, false },
    { "p_container", 10, LIST_CONTAINER, false },
};

static const GenColumn supplier_columns[] = {
    { "s_suppkey", 0, LIST_NONE, false },     { "s_name", 25, LIST_NONE, false },
    { "s_address", 25, LIST_NONE, false },    { "s_city", 10, LIST_CITY, false },
    { "s_nation", 15, LIST_NATION, false },   { "s_region", 12, LIST_REGION, false },
    { "s_phone", 15, LIST_NONE, false },
};

static const GenColumn customer_columns[] = {
    { "c_custkey", 0, LIST_NONE, false },     { "c_name", 25, LIST_NONE, false },
    { "c_address", 25, LIST_NONE, false },    { "c_city", 10, LIST_CITY, false },
    { "c_nation", 15, LIST_NATION, false },   { "c_region", 12, LIST_REGION, false },
    { "c_phone", 15, LIST_NONE, false },      { "c_mktsegment", 10, LIST_SEGMENT, false },
};

static const GenColumn date_columns[] = {
    { "d_datekey", 0, LIST_NONE, false },          { "d_date", 19, LIST_NONE, false },
    { "d_dayofweek", 10, LIST_WEEKDAY, false },    { "d_month", 10, LIST_MONTH, false },
    { "d_year", 0, LIST_NONE, false },             { "d_yearmonthnum", 0, LIST_NONE, false },
    { "d_yearmonth", 8, LIST_YEAR_MONTH, false },  { "d_daynuminweek", 0, LIST_NONE, false },
    { "d_daynuminmonth", 0, LIST_NONE, false },    { "d_daynuminyear", 0, LIST_NONE, false },
    { "d_monthnuminyear", 0, LIST_NONE, false },   { "d_weeknuminyear", 0, LIST_NONE, false },
    { "d_sellingseason", 13, LIST_SEASON, false }, { "d_lastdayinweekfl", 1, LIST_FLAG, false },
    { "d_lastdayinmonthfl", 1, LIST_FLAG, false }, { "d_holidayfl", 1, LIST_FLAG, false },
    { "d_weekdayfl", 1, LIST_FLAG, false },
};

static const GenColumn lineorder_columns[] = {
    { "lo_orderkey", 0, LIST_NONE, false },            { "lo_linenumber", 0, LIST_NONE, false },
    { "lo_custkey", 0, LIST_NONE, false },             { "lo_partkey", 0, LIST_NONE, false },
    { "lo_suppkey", 0, LIST_NONE, false },             { "lo_orderdate", 0, LIST_NONE, false },
    { "lo_orderpriority", 15, LIST_PRIORITY, false },  { "lo_shippriority", 1, LIST_SHIP_PRIORITY, false },
    { "lo_quantity", 0, LIST_NONE, false },            { "lo_extendedprice", 0, LIST_NONE, false },
    { "lo_ordertotalprice", 0, LIST_NONE, false },     { "lo_discount", 0, LIST_NONE, false },
    { "lo_revenue", 0, LIST_NONE, false },             { "lo_supplycost", 0, LIST_NONE, false },
    { "lo_tax", 0, LIST_NONE, false },                 { "lo_commitdate", 0, LIST_NONE, false },
    { "lo_shipmode", 10, LIST_SHIP_MODE, false },
};

typedef struct Rules {
    u64 seed;
    i64 n_parts, n_suppliers, n_customers, n_orders;
    i32 date_keys[DAYS];               // 19920101, ...
} Rules;

enum { PART, CUSTOMER, SUPPLIER, DATE, LINEORDER, LINEORDER_LINES };     // for row_key()

static void put_text(GenBatch *batch, int column, u32 row, const char *text)
{
    batch->cells[column][row] = gen_add_text(batch, text, strlen(text));
}

// ---- the rows of part -----------------------------------------------------------------------------------------------

// Three different colours: the first is p_color, the others are p_name.
static void pick_colors(u64 key, int column, int picked[3])
{
    for (int i = 0; i < 3; i++)
        picked[i] = (int)random_number(key, column + i, 0, GEN_COLORS - 1 - i);
    if (picked[1] >= picked[0])                             // the second counts the colours without the first,
        picked[1]++;
    int low = MIN_OF(picked[0], picked[1]), high = MAX_OF(picked[0], picked[1]);
    picked[2] += picked[2] >= low;                          // and the third those without both
    picked[2] += picked[2] >= high;
}

static void fill_part(const void *context, u64 first, u32 n, GenBatch *batch)
{
    const Rules *rules = context;
    for (u32 row = 0; row < n; row++) {
        u64 key = row_key(rules->seed, PART, first + row);
        int picked[3];
        char name[32];
        pick_colors(key, 0, picked);
        snprintf(name, sizeof(name), "%s %s", gen_colors[picked[1]], gen_colors[picked[2]]);
        i64 brand = random_number(key, 3, 0, 999);          // manufacturer, category and brand in one
        batch->cells[0][row] = (i64)(first + row + 1);
        put_text(batch, 1, row, name);
        batch->cells[2][row] = brand / 200;
        batch->cells[3][row] = brand / 40;
        batch->cells[4][row] = brand;
        batch->cells[5][row] = picked[0];
        batch->cells[6][row] = random_number(key, 4, 0, 149);
        batch->cells[7][row] = random_number(key, 5, 1, 50);
        batch->cells[8][row] = random_number(key, 6, 0, 39);
    }
    batch->n_rows = n;
}

// ---- the rows of supplier and customer ------------------------------------------------------------------------------

// 6 to 24 characters.
static void put_address(GenBatch *batch, int column, u32 row, u64 key)
{
    char text[25];
    int length = (int)random_number(key, 16, 6, 24);
    for (int i = 0; i < length; i++)
        text[i] = gen_alphabet[random_bits(key, 17 + i / 8) >> 8 * (i % 8) & 63];
    text[length] = '\0';
    put_text(batch, column, row, text);
}

// Name, address, city, nation, region and phone: columns 1 to 6 of both tables.
static void put_company(GenBatch *batch, u32 row, u64 key, const char *kind, u64 number)
{
    char text[40];
    i64 nation = random_number(key, 0, 0, GEN_NATIONS - 1);
    batch->cells[0][row] = (i64)number;
    snprintf(text, sizeof(text), "%s#%09llu", kind, (unsigned long long)number);
    put_text(batch, 1, row, text);
    put_address(batch, 2, row, key);
    batch->cells[3][row] = nation * 10 + random_number(key, 1, 0, 9);
    batch->cells[4][row] = nation;
    batch->cells[5][row] = gen_nations[nation].region;
    snprintf(text, sizeof(text), "%02d-%03d-%03d-%04d", 10 + (int)nation, (int)random_number(key, 2, 100, 999),
             (int)random_number(key, 3, 100, 999), (int)random_number(key, 4, 1000, 9999));
    put_text(batch, 6, row, text);
}

static void fill_supplier(const void *context, u64 first, u32 n, GenBatch *batch)
{
    const Rules *rules = context;
    for (u32 row = 0; row < n; row++)
        put_company(batch, row, row_key(rules->seed, SUPPLIER, first + row), "Supplier", first + row + 1);
    batch->n_rows = n;
}

static void fill_customer(const void *context, u64 first, u32 n, GenBatch *batch)
{
    const Rules *rules = context;
    for (u32 row = 0; row < n; row++) {
        u64 key = row_key(rules->seed, CUSTOMER, first + row);
        put_company(batch, row, key, "Customer", first + row + 1);
        batch->cells[7][row] = random_number(key, 5, 0, GEN_SEGMENTS - 1);
    }
    batch->n_rows = n;
}

// ---- the rows of date -----------------------------------------------------------------------------------------------

static int season_of(int month)
{
    static const int season[12] = { 0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 4, 4 };
    return season[month - 1];
}

static bool is_holiday(int month, int day)
{
    static const struct { int month, day; } holidays[] = { { 12, 24 }, { 1, 1 },  { 2, 20 }, { 4, 20 },  { 5, 20 },
                                                           { 7, 20 },  { 8, 20 }, { 9, 20 }, { 10, 20 }, { 11, 20 } };
    for (int i = 0; i < COUNT_OF(holidays); i++) {
        if (holidays[i].month == month && holidays[i].day == day)
            return true;
    }
    return false;
}

static void fill_date(const void *context, u64 first, u32 n, GenBatch *batch)
{
    const i32 first_day = date_from_civil(1992, 1, 1);
    (void)context;                                          // there is no chance in it
    for (u32 row = 0; row < n; row++) {
        i32 days = first_day + (i32)(first + row);
        int year, month, day;
        char text[32];
        date_to_civil(days, &year, &month, &day);
        int weekday = (days + 5) % 7;                       // one more than it was: 1970-01-01 was a Thursday, number 4
        int day_in_year = days - date_from_civil(year, 1, 1) + 1;
        bool is_last = !date_is_valid(year, month, day + 1);
        snprintf(text, sizeof(text), "%s %d, %d", months[month - 1], day, year);
        const i64 cells[] = { year * 10000 + month * 100 + day, 0, weekday, month - 1, year, year * 100 + month,
                              (year - 1992) * 12 + month - 1, weekday + 1, day, day_in_year, month, day_in_year / 7 + 1,
                              season_of(month), weekday == 6, is_last, is_holiday(month, day),
                              weekday != 0 && weekday != 6 };
        for (int column = 0; column < COUNT_OF(cells); column++)
            batch->cells[column][row] = cells[column];
        put_text(batch, 1, row, text);
    }
    batch->n_rows = n;
}

// ---- the rows of lineorder ------------------------------------------------------------------------------------------

static inline i64 pick_customer(u64 key, i64 n_customers)
{
    return gen_buyer(random_number(key, 0, 1, n_customers), n_customers);
}

static inline void put_line(const Rules *rules, GenBatch *batch, u32 row, u64 key, i64 order_day)
{
    i64 part = random_number(key, 0, 1, rules->n_parts);
    i64 price = gen_part_price(part);
    i64 quantity = random_number(key, 2, 1, 50);
    i64 discount = random_number(key, 3, 0, 10);
    batch->cells[3][row] = part;
    batch->cells[4][row] = random_number(key, 1, 1, rules->n_suppliers);
    batch->cells[8][row] = quantity;
    batch->cells[9][row] = quantity * price;
    batch->cells[11][row] = discount;
    batch->cells[12][row] = quantity * price * (100 - discount) / 100;
    batch->cells[13][row] = 6 * price / 10;
    batch->cells[14][row] = random_number(key, 4, 0, 8);
    batch->cells[15][row] = rules->date_keys[order_day + random_number(key, 5, 30, 90)];
    batch->cells[16][row] = random_number(key, 6, 0, GEN_SHIP_MODES - 1);
}

// One to seven lines; returns how many.
static u32 put_order(const Rules *rules, GenBatch *batch, u32 first_row, u64 number)
{
    u64 key = row_key(rules->seed, LINEORDER, number);
    i64 day = random_number(key, 1, 0, ORDER_DAYS - 1);
    i64 priority = random_number(key, 2, 0, GEN_PRIORITIES - 1);
    u32 n_lines = (u32)random_number(key, 3, 1, LINES_MAX);
    i64 customer = pick_customer(key, rules->n_customers);
    i64 total = 0;
    for (u32 line = 0; line < n_lines; line++) {
        u32 row = first_row + line;
        put_line(rules, batch, row, row_key(rules->seed, LINEORDER_LINES, number * 8 + line), day);
        batch->cells[0][row] = gen_order_key(number);
        batch->cells[1][row] = line + 1;
        batch->cells[2][row] = customer;
        batch->cells[5][row] = rules->date_keys[day];
        batch->cells[6][row] = priority;
        batch->cells[7][row] = 0;
        total += batch->cells[12][row] * (100 + batch->cells[14][row]) / 100;
    }
    for (u32 line = 0; line < n_lines; line++)
        batch->cells[10][first_row + line] = total;
    return n_lines;
}

static void fill_lineorder(const void *context, u64 first, u32 n, GenBatch *batch)
{
    const Rules *rules = context;
    batch->n_rows = 0;
    for (u32 i = 0; i < n; i++)
        batch->n_rows += put_order(rules, batch, batch->n_rows, first + i + 1);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static i64 scaled(double base, double scale)
{
    return MAX_OF(llround(base * scale), 1);
}

static Rules make_rules(const GenOptions *options)
{
    double scale = options->scale;
    Rules rules = { .seed = options->seed,
                    .n_parts = scale < 1 ? scaled(200000, scale) : scaled(200000, floor(1 + log2(scale))),
                    .n_suppliers = scaled(2000, scale),
                    .n_customers = scaled(30000, scale),
                    .n_orders = scaled(1500000, scale) };
    for (int i = 0; i < DAYS; i++) {
        int year, month, day;
        date_to_civil(date_from_civil(1992, 1, 1) + i, &year, &month, &day);
        rules.date_keys[i] = year * 10000 + month * 100 + day;
    }
    return rules;
}

weft_status gen_ssb(Store *store, Pool *pool, const GenOptions *options, Error *err)
{
    if (!(options->scale > 0 && options->scale <= GEN_SCALE_MAX))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "scale factor must be above 0 and at most %d", GEN_SCALE_MAX);
    Rules rules = make_rules(options);
    const GenTable tables[GEN_SSB_TABLES] = {
#define TABLE(name, n_units) #name, name##_columns, COUNT_OF(name##_columns), fill_##name, (u64)(n_units)
        { TABLE(part, rules.n_parts), 1, false },
        { TABLE(customer, rules.n_customers), 1, false },
        { TABLE(supplier, rules.n_suppliers), 1, false },
        { TABLE(date, DAYS), 1, false },
        { TABLE(lineorder, rules.n_orders), LINES_MAX, true },
#undef TABLE
    };
    Arena *arena = arena_new(NULL, "ssb");
    WordList words[N_LISTS];
    for (int list = 0; list < N_LISTS; list++)
        words[list] = gen_make_list(arena, list, lists[list].n_words, list_word);
    GenPlan plan = { .tables = tables, .n_tables = GEN_SSB_TABLES, .lists = words, .rules = &rules };
    weft_status status = gen_load(&plan, store, pool, options, err);
    arena_free(arena);
    return status;
}
