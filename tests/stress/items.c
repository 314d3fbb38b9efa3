// items.c - queries: templates of a condition, a join and an ending that fit together, with random constants.
//
// Drawing twice from one template gives queries of one shape that differ in literals; drawing one item twice gives
// identical ones.  Besides there are queries that fail at run time, tiny ones, ones about the catalog, and endless
// ones.

#include "stress.h"

#include <stdlib.h>

enum { CUSTOMER = 1, ITEM = 2, OFFER = 4 };
enum { MOST_TEMPLATES = 240 };

typedef struct Draw {
    const Data *data;
    Random *random;
    Text sql;
    int last_batch;
} Draw;

static int last_row(const Draw *draw)
{
    return (int)draw->data->totals[draw->last_batch].n_rows - 1;
}

// Adds TEXT with each @ replaced by a number from 1 to 40.
static void add(Draw *draw, const char *text)
{
    for (; *text; text++) {
        if (*text == '@')
            text_add(&draw->sql, "%d", random_between(draw->random, 1, 40));
        else
            text_add_bytes(&draw->sql, text, 1);
    }
}

// ---- conditions on the fact table --------------------------------------------------------------------------------

static void where_qty(Draw *draw)
{
    const int low = random_between(draw->random, 1, 40);
    text_add(&draw->sql, " and f.qty between %d and %d", low, low + random_below(draw->random, 15));
}

static void where_day(Draw *draw)
{
    const int year = random_between(draw->random, 2020, 2023), month = random_between(draw->random, 1, 12);
    text_add(&draw->sql, " and f.day >= date '%d-%02d-01' and f.day < date '%d-%02d-15'", year, month,
             year + random_below(draw->random, 2), month);
}

static void where_tag(Draw *draw)
{
    text_add(&draw->sql, " and f.tag = 'tag_%d'", random_below(draw->random, 45));
}

static void where_tag_like(Draw *draw)
{
    static const char *const patterns[] = { "tag_1%", "%3", "b%", "b1%_2", "t_g%", "%_4", "none%" };
    text_add(&draw->sql, " and f.tag like '%s'", patterns[random_below(draw->random, COUNT_OF(patterns))]);
}

static void where_tag_in(Draw *draw)
{
    text_add(&draw->sql, " and f.tag in ('tag_%d', 'tag_%d', 'b%d_%d')", random_below(draw->random, 40),
             random_below(draw->random, 40), random_below(draw->random, draw->last_batch + 2),
             random_below(draw->random, 7));
}

static void where_price(Draw *draw)
{
    text_add(&draw->sql, " and f.price > %d.%02d and f.code in (%d, %d, %d)", random_below(draw->random, 10000),
             random_below(draw->random, 100), random_between(draw->random, -5, 0), random_between(draw->random, 0, 5),
             random_between(draw->random, 1, 7));
}

static void where_cust(Draw *draw)
{
    text_add(&draw->sql, " and (f.cust is null or f.cust < %d)", random_below(draw->random, N_CUSTOMERS));
}

static void where_weight(Draw *draw)
{
    text_add(&draw->sql, " and f.weight < %d.5", random_below(draw->random, 1000));
}

static void where_id(Draw *draw)
{
    const int first = random_below(draw->random, last_row(draw));
    text_add(&draw->sql, " and f.id between %d and %d", first, first + random_below(draw->random, 3000));
}

static void where_batch(Draw *draw)
{
    text_add(&draw->sql, " and f.batch = %d", random_below(draw->random, draw->last_batch + 1));
}

static void where_or(Draw *draw)
{
    text_add(&draw->sql, " and (f.qty < %d or f.code = %d) and f.tag is not null", random_between(draw->random, 1, 50),
             random_between(draw->random, -5, 5));
}

static void where_computed(Draw *draw)
{
    text_add(&draw->sql, " and f.qty * 3 + f.code > %d and f.id %% %d = %d", random_between(draw->random, 5, 140),
             random_between(draw->random, 2, 9), random_below(draw->random, 3));
}

static void where_never(Draw *draw)
{
    text_add(&draw->sql, " and f.qty > %d", random_between(draw->random, 50, 60));
}

static void where_all(Draw *draw)
{
    (void)draw;
}

static void (*const conditions[])(Draw *draw) = { where_all,      where_qty,    where_day,   where_tag,
                                                  where_tag_like, where_tag_in, where_price, where_cust,
                                                  where_weight,   where_id,     where_batch, where_or,
                                                  where_computed, where_never };

// ---- joins -------------------------------------------------------------------------------------------------------

typedef struct Join {
    int brings;
    const char *from, *where;
} Join;

static const Join joins[] = {
    { 0, "", "" },
    { CUSTOMER, ", customer c", " and f.cust = c.c_id" },
    { CUSTOMER, ", customer c", " and f.cust = c.c_id and c.c_limit > @@" },
    { CUSTOMER, ", customer c", " and f.cust = c.c_id and c.c_region in ('region_1', 'region_3')" },
    { CUSTOMER, ", customer c", " and f.cust = c.c_id and c.c_city like 'city_@%'" },
    { ITEM, ", item i", " and f.item = i.i_id" },
    { ITEM, ", item i", " and f.item = i.i_id and i.i_kind < @ and i.i_price < @@" },
    { CUSTOMER | ITEM, ", customer c, item i", " and f.cust = c.c_id and f.item = i.i_id and c.c_level < 4" },
    { CUSTOMER | ITEM, ", item i, customer c", " and f.cust = c.c_id and f.item = i.i_id and i.i_brand = 'brand_@'" },
    { OFFER, ", offer o", " and f.item = o.o_item and o.o_kind = 3" },
    { OFFER, ", offer o", " and f.item = o.o_item and o.o_item >= 0 and o.o_rate < 0.@" },
    { OFFER, ", offer o", " and f.tag = o.o_name and o.o_item between 0 and @" },
    { ITEM | OFFER, ", item i, offer o", " and f.item = i.i_id and i.i_id = o.o_item and i.i_kind <= 4" },
};

// ---- endings -----------------------------------------------------------------------------------------------------

typedef struct Ending {
    int needs;
    bool is_ordered;  // the rows come in one order
    int n_sorted;
    bool is_narrow;  // many rows or groups come out: only for few that go in
    const char *select, *tail;
} Ending;

static const Ending endings[] = {
    { 0, true, 0, false, "count(*)", "" },
    { 0, true, 0, false, "sum(f.qty), avg(f.qty), count(f.tag), min(f.price), max(f.price)", "" },
    { 0, true, 0, false, "sum(f.weight), avg(f.weight), min(f.weight), max(f.weight)", "" },
    { 0, true, 0, false, "min(f.tag), max(f.tag), count(*)", "" },
    { 0, true, 0, false, "sum(f.price * f.qty), sum(f.qty * f.code), sum(abs(f.code)), sum(f.price * @)", "" },
    { 0, true, 0, false, "f.code, count(*), sum(f.price)", " group by f.code order by f.code" },
    { 0, false, 0, false, "f.tag, f.code, count(*), sum(f.qty), sum(f.weight)", " group by f.tag, f.code" },
    { 0, true, 0, false, "f.day, count(*), sum(f.qty)", " group by f.day order by count(*) desc, f.day limit @" },
    { 0, false, 0, false, "f.cust, sum(f.price)", " group by f.cust having count(*) > @" },
    { 0, false, 0, true, "f.item, f.code, f.batch, min(f.weight), max(f.day)", " group by f.item, f.code, f.batch" },
    { 0, true, 0, false, "f.id, f.tag, f.price, f.weight", " order by f.price desc, f.id limit @" },
    { 0, true, 0, true, "f.id, f.qty, f.day", " order by f.id" },
    { 0, false, 1, true, "f.code, f.id, f.tag", " order by f.code desc" },
    { 0, false, 0, false, "distinct f.tag, f.code", "" },
    { 0, true, 0, false, "extract(year from f.day), count(*), avg(f.weight)", " group by 1 order by 1" },
    { 0, false, 0, false, "f.id % 1009, count(*), max(f.tag)", " group by f.id % 1009" },
    { 0, false, 0, false, "case when f.qty > 25 then f.tag else 'few' end, count(*), sum(f.qty)", " group by 1" },
    { CUSTOMER, true, 0, false, "c.c_region, count(*), sum(f.price)", " group by c.c_region order by c.c_region" },
    { CUSTOMER, false, 0, false, "c.c_city, sum(f.qty), sum(f.weight)", " group by c.c_city" },
    { CUSTOMER, true, 0, false, "min(c.c_city), max(c.c_region), sum(c.c_limit)", "" },
    { CUSTOMER, true, 0, true, "f.id, c.c_city, c.c_limit", " order by f.id" },
    { ITEM, true, 0, false, "i.i_brand, count(*), sum(i.i_price * f.qty)", " group by i.i_brand order by i.i_brand" },
    { ITEM, true, 0, false, "sum(i.i_weight * f.weight), count(i.i_weight), max(i.i_brand)", "" },
    { ITEM, false, 0, false, "i.i_brand, f.code, max(f.tag)", " group by i.i_brand, f.code" },
    { CUSTOMER | ITEM, true, 0, false, "c.c_region, i.i_brand, sum(f.price)",
      " group by c.c_region, i.i_brand order by sum(f.price) desc, 1, 2 limit @" },
    { OFFER, true, 0, false, "o.o_name, count(*), sum(f.qty)", " group by o.o_name order by 2 desc, 1 limit @" },
    { OFFER, false, 0, false, "o.o_kind, sum(o.o_rate * f.price)", " group by o.o_kind" },
    { OFFER, false, 0, true, "f.id, o.o_name, o.o_rate", "" },
    { ITEM | OFFER, false, 0, false, "i.i_brand, o.o_kind, count(*)", " group by i.i_brand, o.o_kind" },
};

// ---- templates ---------------------------------------------------------------------------------------------------

typedef struct Template {
    int condition, join, ending;
} Template;

static Template templates[COUNT_OF(conditions) * COUNT_OF(joins) * COUNT_OF(endings)];
static int n_templates;

// All that fit together, shuffled, so that the first ones are a mixture.
static void list_templates(void)
{
    Random random = { 1 };
    for (int n = 0; n < COUNT_OF(templates); n++) {
        const Template t = { n % COUNT_OF(conditions), n / COUNT_OF(conditions) % COUNT_OF(joins),
                             n / COUNT_OF(conditions) / COUNT_OF(joins) };
        if (endings[t.ending].needs & ~joins[t.join].brings)
            continue;
        const int at = random_below(&random, n_templates + 1);
        templates[n_templates++] = templates[at];
        templates[at] = t;
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

int items_templates(void)
{
    pthread_once(&once, list_templates);
    return MIN_OF(n_templates, MOST_TEMPLATES);
}

static void draw_template(Draw *draw, int number, Item *item)
{
    const Template *t = &templates[number];
    const Ending *ending = &endings[t->ending];
    add(draw, "select ");
    add(draw, ending->select);
    add(draw, " from fact f");
    add(draw, joins[t->join].from);
    text_add(&draw->sql, " where f.batch <= %d", draw->last_batch);
    add(draw, joins[t->join].where);
    if (ending->is_narrow)
        where_id(draw);
    conditions[t->condition](draw);
    add(draw, ending->tail);
    item->is_ordered = ending->is_ordered;
    item->n_sorted = ending->n_sorted;
}

// ---- a dashboard's queries -----------------------------------------------------------------------------------------

// Columns without NULLs and of one width in all chunks, conditions that few rows pass: what queries are sieved together
// for (sieve.h).
static void draw_dash(Draw *draw, Item *item)
{
    static const char *const selects[] = { "count(*)", "count(*), sum(f.size), min(f.size), max(f.code)",
                                           "sum(f.size * f.code), avg(f.mark)" };
    const int low = random_below(draw->random, N_SHELVES), form = random_below(draw->random, 8);
    item->is_dash = item->is_ordered = true;
    text_add(&draw->sql, "select %s%s from fact f%s where f.batch <= %d",
             form == 1   ? "f.mark, "
             : form == 2 ? "f.code, f.mark, "
             : form == 4 ? "s.s_name, "
             : form == 6 ? "s.s_name, t.s_name, "
             : form == 7 ? "t.s_name, f.code, "
                         : "",
             form == 3   ? "f.id, f.size, f.code"
             : form >= 6 ? selects[1]
                         : selects[random_below(draw->random, COUNT_OF(selects))],
             form >= 6   ? ", shelf s, shelf t"
             : form >= 4 ? ", shelf s"
                         : "",
             draw->last_batch);
    if (form < 4 || (form < 6 && random_chance(draw->random, 30)))
        text_add(&draw->sql, " and f.size between %d and %d", low,
                 low + random_below(draw->random, form == 3 ? 2 : 25));
    if (form < 6 && random_chance(draw->random, 50))
        text_add(&draw->sql, " and f.mark = %d", random_below(draw->random, 13));
    if (form < 6 && random_chance(draw->random, 40))
        text_add(&draw->sql, " and f.code <= %d", random_between(draw->random, -5, 5));
    if (form >= 4)
        text_add(&draw->sql, " and f.size = s.s_id and s.s_floor = %d", random_below(draw->random, 11));
    if (form >= 6)                     // two shapes whose queries differ in what they join: cubes over joins
        text_add(&draw->sql, " and f.mark = t.s_id and t.s_floor between %d and %d", random_below(draw->random, 6),
                 random_between(draw->random, 5, 10));
    add(draw, form == 1   ? " group by f.mark order by f.mark"
              : form == 2 ? " group by f.code, f.mark order by 1, 2"
              : form == 3 ? " order by f.id"
              : form == 4 ? " group by s.s_name order by s.s_name"
              : form == 6 ? " group by s.s_name, t.s_name order by 1, 2"
              : form == 7 ? " group by t.s_name, f.code order by 1, 2"
                          : "");
}

// ---- queries of other kinds --------------------------------------------------------------------------------------

static void draw_failing(Draw *draw, Item *item)
{
    const int batch = draw->last_batch, some = random_below(draw->random, last_row(draw));
    item->is_ordered = true;
    switch (random_below(draw->random, 7)) {
    case 0: text_add(&draw->sql, "select sum(1000 / (f.id - %d)) from fact f where f.batch <= %d", some, batch); break;
    case 1:
        text_add(&draw->sql, "select sum(f.qty * 42949673) from fact f where f.batch <= %d", batch);
        break;  // 50 of them
    case 2:
        text_add(
            &draw->sql,
            "select count(*) from fact f, customer c where f.cust = c.c_id and 10 / (c.c_level - %d) > 0"
            " and f.batch <= %d",
            random_below(draw->random, 8), batch);
        break;
    case 3:
        text_add(
            &draw->sql,
            "select i.i_brand, sum(100 / (i.i_kind - f.code)) from fact f, item i where f.item = i.i_id"
            " and f.batch <= %d"
            " group by i.i_brand",
            batch);
        break;
    case 4:
        text_add(&draw->sql, "select f.id, 7 %% f.code from fact f where f.batch <= %d and f.id > %d", batch, some / 2);
        break;
    case 5: text_add(&draw->sql, "select f.nothing from fact f where f.batch <= %d", batch); break;
    default:
        text_add(&draw->sql,
                 "select f.code, 1 / (sum(f.code) - sum(f.code)) from fact f where f.batch <= %d group by f.code",
                 batch);
        break;
    }
}

static void draw_tiny(Draw *draw, Item *item)
{
    item->is_ordered = true;
    switch (random_below(draw->random, 9)) {
    case 0: add(draw, "select count(*), min(c_city), sum(c_limit) from customer where c_level = "); break;
    case 1: add(draw, "select i_id, i_brand, i_price, i_weight from item where i_id < @ order by i_id limit "); break;
    case 2: add(draw, "select i_brand, avg(i_price), count(*) from item group by i_brand order by 1 limit "); break;
    case 3:
        add(draw,
            "select count(*), min(a.c_city), max(b.c_id) from customer a, customer b where a.c_city = b.c_city"
            " and a.c_level < b.c_level and"
            " b.c_id <> ");
        break;
    case 4:
        add(draw,
            "select o_kind, count(*), max(o_name) from offer where o_item >= 0 group by o_kind order by o_kind limit ");
        break;
    case 5:
        add(draw,
            "select a.o_name, b.o_rate, i_id from offer a, offer b, item where a.o_item = b.o_item"
            " and i_id = a.o_item and"
            " a.o_kind = 1 and b.o_kind = 2 order by 1, 2, 3 limit ");
        break;
    case 6: add(draw, "select 1 + @, 'x' where 0 < "); break;
    case 7:
        add(draw,
            "select table_name, column_name, type from weft_columns where table_name <> 'x'"
            " order by 1, position limit ");
        break;
    default: add(draw, "select count(*), max(c_id) from customer, item where c_id = i_id and c_id > "); break;
    }
    text_add(&draw->sql, "%d", random_between(draw->random, 1, 7));
}

// LIMIT without ORDER BY takes the first rows of the table; rows without ORDER BY come as they are stored.
static void draw_as_stored(Draw *draw, Item *item)
{
    item->is_ordered = true;
    text_add(&draw->sql, "select f.id, f.tag, f.weight from fact f where f.batch <= %d and f.code = %d",
             draw->last_batch, random_between(draw->random, -5, 5));
    if (random_chance(draw->random, 60))
        text_add(&draw->sql, " limit %d", random_below(draw->random, 5000));
    else
        where_id(draw);
}

// A join table over the large table itself.
static void draw_self_join(Draw *draw, Item *item)
{
    item->is_ordered = true;
    text_add(
        &draw->sql,
        "select count(*), sum(b.qty), max(a.tag) from fact a, fact b where a.id = b.id and a.batch <= %d"
        " and b.batch <= %d and a.code = %d",
        draw->last_batch, draw->last_batch, random_between(draw->random, -5, 5));
}

static void draw_live(Draw *draw, Item *item)
{
    item->check = CHECK_LIVE;
    item->live = (LiveKind)random_below(draw->random, LIVE_N);
    switch (item->live) {
    case LIVE_TOTALS:
        add(draw, "select count(*), count(qty), sum(qty), sum(price), max(id), max(batch) from fact");
        if (random_chance(draw->random, 50))
            add(draw, " where id >= 0 and code > -@@");
        break;
    case LIVE_CODES: add(draw, "select code, count(*), sum(qty) from fact group by code order by code"); break;
    case LIVE_JOIN: add(draw, "select count(*), sum(qty), max(batch) from fact, item where item = i_id"); break;
    default: add(draw, "select batch, count(*) from fact group by batch order by batch"); break;
    }
}

static void draw_catalog(Draw *draw, Item *item)
{
    item->check = CHECK_NOTHING;
    switch (random_below(draw->random, 5)) {
    case 0: add(draw, "select count(*), max(chunks), max(fellow_riders) from weft_riders"); break;
    case 3: add(draw, "explain (network) select count(*) from fact"); break;
    case 4:
        add(draw,
            "explain analyze select code, count(*) from fact, item where item = i_id and i_kind < @ group by code");
        break;
    case 1: add(draw, "select table_name, rides, chunks_read from weft_scans order by 1"); break;
    default: add(draw, "select name, rows, chunks from weft_tables order by name"); break;
    }
}

// With 10,000 rows there are 7 * 10^12 matches; three tables of so few rows would be joined within seconds.
static void draw_endless(Draw *draw, Item *item)
{
    item->check = CHECK_ENDLESS;
    if (random_chance(draw->random, 70))
        add(draw,
            "select count(*), sum(a.qty + d.qty) from fact a, fact b, fact c, fact d where a.code = b.code"
            " and b.code = c.code and c.code = d.code and a.qty + b.qty + c.qty + d.qty > @");
    else
        add(draw,
            "select sum(a.price) from fact a, fact b, fact c, fact d where a.item = b.item and b.code = c.code"
            " and c.code = d.code and a.day < d.day and b.day <> c.day");
}

// ---- the pool ----------------------------------------------------------------------------------------------------

static void draw_item(const Data *data, Random *random, Item *item)
{
    const int committed = atomic_load(&data->committed), kind = random_below(random, 100);
    Draw draw = { data, random, { 0 }, random_chance(random, 60) ? committed : random_below(random, committed + 1) };
    *item = (Item){ .check = CHECK_ANSWER };
    if (kind < 40)
        draw_template(&draw, random_below(random, items_templates()), item);
    else if (kind < 68)
        draw_dash(&draw, item);
    else if (kind < 75)
        draw_failing(&draw, item);
    else if (kind < 83)
        draw_tiny(&draw, item);
    else if (kind < 87)
        draw_as_stored(&draw, item);
    else if (kind < 89)
        draw_self_join(&draw, item);
    else if (kind < 95)
        draw_live(&draw, item);
    else if (kind < 97)
        draw_catalog(&draw, item);
    else
        draw_endless(&draw, item);
    item->sql = strdup(draw.sql.bytes);
    text_free(&draw.sql);
}

// The first one is endless, so that there is one.
void items_fill(Items *items, const Data *data, Random *random, int n_items)
{
    items->n = n_items;
    items->list = calloc((size_t)n_items, sizeof *items->list);
    do {
        free(items->list[0].sql);
        draw_item(data, random, &items->list[0]);
    } while (items->list[0].check != CHECK_ENDLESS);
    for (int i = 1; i < n_items; i++)
        draw_item(data, random, &items->list[i]);
}

void items_clear(Items *items)
{
    for (int i = 0; i < items->n; i++) {
        weft_result_free(items->list[i].answer);
        free(items->list[i].sql);
    }
    free(items->list);
    *items = (Items){ 0 };
}

Item *items_draw(Items *items, Random *random)
{
    return &items->list[random_below(random, items->n)];
}

static Item *draw_such(Items *items, Random *random, bool (*is_such)(const Item *item))
{
    const int first = random_below(random, items->n);
    for (int i = 0; i < items->n; i++) {
        Item *item = &items->list[(first + i) % items->n];
        if (is_such(item))
            return item;
    }
    return NULL;
}

static bool is_endless(const Item *item)
{
    return item->check == CHECK_ENDLESS;
}

static bool is_join(const Item *item)
{
    return item->check == CHECK_ANSWER && (strstr(item->sql, " from fact f, ") || strstr(item->sql, " from fact a, "));
}

static bool is_dash(const Item *item)
{
    return item->is_dash;
}

Item *items_draw_dash(Items *items, Random *random)
{
    return draw_such(items, random, is_dash);
}

Item *items_draw_endless(Items *items, Random *random)
{
    return draw_such(items, random, is_endless);
}

Item *items_draw_join(Items *items, Random *random)
{
    return draw_such(items, random, is_join);
}
