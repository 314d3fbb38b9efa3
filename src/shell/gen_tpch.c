// gen_tpch.c - the eight tables of TPC-H.
//
// The rules are those of the TPC-H specification (clause 4.2) and of TPC's generator, dbgen 2.14: the files are equal
// to dbgen's, byte for byte.  Random numbers come from one stream per column, which can be entered at any row (see
// gen_tpch_int.h), so any block of rows can be made by any worker.
//
// Orders and lineitem are made apart from each other.  The price and the status of an order follow from its lines, so a
// line's part, quantity, discount, tax and date of shipping are drawn twice, once for each table.
//
// dbgen counts scale factors below 1 in thousandths, and so do we.  Above 1 it drops the fraction: its 1.5 is 1.  Ours
// is 1.5, with the rows that the formulas give.

#include <math.h>
#include <stdio.h>

#include "shell/gen_tpch_int.h"

enum {
    TPCH_ORDER_DAYS = 2406,            // days of orders: so many that deliveries still fall into 1998
    TPCH_NAME_WORDS = 5                // of a part's name
};

typedef struct Tpch {
    i64         n_parts, n_suppliers, n_customers, n_orders, n_clerks;
    i32         first_day;             // 1992-01-01
    i32         today;                 // 1995-06-17: what is dated later has not happened yet
    const char *text;                  // comments are pieces of it
} Tpch;

// ---- words ----------------------------------------------------------------------------------------------------------

typedef enum TpchList {
    TPCH_NO_LIST,                      // the texts of the column are not from a list
    TPCH_MFGR, TPCH_BRAND, TPCH_TYPE, TPCH_CONTAINER,
    TPCH_REGION, TPCH_NATION, TPCH_SEGMENT,
    TPCH_ORDER_STATUS, TPCH_PRIORITY, TPCH_CLERK,
    TPCH_RETURN_FLAG, TPCH_LINE_STATUS, TPCH_INSTRUCTION, TPCH_SHIP_MODE,
    TPCH_N_LISTS
} TpchList;

typedef enum OrderStatus { ORDER_OPEN, ORDER_FILLED, ORDER_PARTIAL } OrderStatus;
typedef enum ReturnFlag { RETURNED, ACCEPTED, NOT_YET } ReturnFlag;

static const char *const order_statuses[] = { [ORDER_OPEN] = "O", [ORDER_FILLED] = "F", [ORDER_PARTIAL] = "P" };
static const char *const return_flags[] = { [RETURNED] = "R", [ACCEPTED] = "A", [NOT_YET] = "N" };
static const char *const line_statuses[] = { "O", "F" };   // by whether it is shipped
static const char *const instructions[] = { "DELIVER IN PERSON", "COLLECT COD", "TAKE BACK RETURN", "NONE" };

static int tpch_list_size(const Tpch *tpch, TpchList list)
{
    switch (list) {
    case TPCH_MFGR:         return 5;
    case TPCH_BRAND:        return 25;
    case TPCH_TYPE:         return GEN_TYPES;
    case TPCH_CONTAINER:    return GEN_CONTAINERS;
    case TPCH_REGION:       return GEN_REGIONS;
    case TPCH_NATION:       return GEN_NATIONS;
    case TPCH_SEGMENT:      return GEN_SEGMENTS;
    case TPCH_ORDER_STATUS: return COUNT_OF(order_statuses);
    case TPCH_PRIORITY:     return GEN_PRIORITIES;
    case TPCH_CLERK:        return (int)tpch->n_clerks;
    case TPCH_RETURN_FLAG:  return COUNT_OF(return_flags);
    case TPCH_LINE_STATUS:  return COUNT_OF(line_statuses);
    case TPCH_INSTRUCTION:  return COUNT_OF(instructions);
    case TPCH_SHIP_MODE:    return GEN_SHIP_MODES;
    default:                return 0;
    }
}

static const char *tpch_word(Arena *arena, int list, int number)
{
    switch ((TpchList)list) {
    case TPCH_MFGR:         return arena_printf(arena, "Manufacturer#%d", number + 1);
    case TPCH_BRAND:        return arena_printf(arena, "Brand#%d%d", number / 5 + 1, number % 5 + 1);
    case TPCH_TYPE:         return gen_type(arena, number);
    case TPCH_CONTAINER:    return gen_container(arena, number);
    case TPCH_REGION:       return gen_regions[number];
    case TPCH_NATION:       return gen_nations[number].name;
    case TPCH_SEGMENT:      return gen_segments[number];
    case TPCH_ORDER_STATUS: return order_statuses[number];
    case TPCH_PRIORITY:     return gen_priorities[number];
    case TPCH_CLERK:        return arena_printf(arena, "Clerk#%09d", number + 1);
    case TPCH_RETURN_FLAG:  return return_flags[number];
    case TPCH_LINE_STATUS:  return line_statuses[number];
    case TPCH_INSTRUCTION:  return instructions[number];
    case TPCH_SHIP_MODE:    return gen_ship_modes[number];
    default:                return "";
    }
}

// ---- columns --------------------------------------------------------------------------------------------------------

static const GenColumn tpch_region_columns[] = {
    { "r_regionkey", GEN_INTEGER, 0, false }, { "r_name", 25, TPCH_REGION, false }, { "r_comment", 152, 0, true },
};

static const GenColumn tpch_nation_columns[] = {
    { "n_nationkey", GEN_INTEGER, 0, false }, { "n_name", 25, TPCH_NATION, false },
    { "n_regionkey", GEN_INTEGER, 0, false }, { "n_comment", 152, 0, true },
};

static const GenColumn tpch_part_columns[] = {
    { "p_partkey", GEN_INTEGER, 0, false },       { "p_name", 55, 0, false },
    { "p_mfgr", 25, TPCH_MFGR, false },           { "p_brand", 10, TPCH_BRAND, false },
    { "p_type", 25, TPCH_TYPE, false },           { "p_size", GEN_INTEGER, 0, false },
    { "p_container", 10, TPCH_CONTAINER, false }, { "p_retailprice", GEN_MONEY, 0, false },
    { "p_comment", 23, 0, false },
};

static const GenColumn tpch_supplier_columns[] = {
    { "s_suppkey", GEN_INTEGER, 0, false }, { "s_name", 25, 0, false },
    { "s_address", 40, 0, false },          { "s_nationkey", GEN_INTEGER, 0, false },
    { "s_phone", 15, 0, false },            { "s_acctbal", GEN_MONEY, 0, false },
    { "s_comment", 101, 0, false },
};

static const GenColumn tpch_partsupp_columns[] = {
    { "ps_partkey", GEN_INTEGER, 0, false },  { "ps_suppkey", GEN_INTEGER, 0, false },
    { "ps_availqty", GEN_INTEGER, 0, false }, { "ps_supplycost", GEN_MONEY, 0, false },
    { "ps_comment", 199, 0, false },
};

static const GenColumn tpch_customer_columns[] = {
    { "c_custkey", GEN_INTEGER, 0, false },      { "c_name", 25, 0, false },
    { "c_address", 40, 0, false },               { "c_nationkey", GEN_INTEGER, 0, false },
    { "c_phone", 15, 0, false },                 { "c_acctbal", GEN_MONEY, 0, false },
    { "c_mktsegment", 10, TPCH_SEGMENT, false }, { "c_comment", 117, 0, false },
};

static const GenColumn tpch_orders_columns[] = {
    { "o_orderkey", GEN_INTEGER, 0, false },          { "o_custkey", GEN_INTEGER, 0, false },
    { "o_orderstatus", 1, TPCH_ORDER_STATUS, false }, { "o_totalprice", GEN_MONEY, 0, false },
    { "o_orderdate", GEN_DATE, 0, false },            { "o_orderpriority", 15, TPCH_PRIORITY, false },
    { "o_clerk", 15, TPCH_CLERK, false },             { "o_shippriority", GEN_INTEGER, 0, false },
    { "o_comment", 79, 0, false },
};

static const GenColumn tpch_lineitem_columns[] = {
    { "l_orderkey", GEN_INTEGER, 0, false },           { "l_partkey", GEN_INTEGER, 0, false },
    { "l_suppkey", GEN_INTEGER, 0, false },            { "l_linenumber", GEN_INTEGER, 0, false },
    { "l_quantity", GEN_QUANTITY, 0, false },          { "l_extendedprice", GEN_MONEY, 0, false },
    { "l_discount", GEN_MONEY, 0, false },             { "l_tax", GEN_MONEY, 0, false },
    { "l_returnflag", 1, TPCH_RETURN_FLAG, false },    { "l_linestatus", 1, TPCH_LINE_STATUS, false },
    { "l_shipdate", GEN_DATE, 0, false },              { "l_commitdate", GEN_DATE, 0, false },
    { "l_receiptdate", GEN_DATE, 0, false },           { "l_shipinstruct", 25, TPCH_INSTRUCTION, false },
    { "l_shipmode", 10, TPCH_SHIP_MODE, false },       { "l_comment", 44, 0, false },
};

// ---- cells ----------------------------------------------------------------------------------------------------------

static inline void put_cells(GenBatch *batch, u32 row, const i64 *cells, int n_cells)
{
    for (int column = 0; column < n_cells; column++)
        batch->cells[column][row] = cells[column];
}

typedef struct TextPiece { const char *bytes; size_t length; } TextPiece;

// A piece of the text, as long as AVERAGE or 60% of it shorter or longer.
static inline TextPiece draw_piece(const Tpch *tpch, RandomStream *stream, int average)
{
    i64 shortest = average * 4 / 10, longest = average * 16 / 10;
    i64 offset = stream_draw(stream, 0, TPCH_TEXT_BYTES - longest);
    i64 length = stream_draw(stream, shortest, longest);
    return (TextPiece){ tpch->text + offset, (size_t)length };
}

static inline i64 add_comment(const Tpch *tpch, GenBatch *batch, RandomStream *stream, int average)
{
    TextPiece piece = draw_piece(tpch, stream, average);
    return gen_add_text(batch, piece.bytes, piece.length);
}

// "Supplier#000000001".
static i64 add_name(GenBatch *batch, const char *kind, u64 number)
{
    char text[40];
    int length = snprintf(text, sizeof(text), "%s#%09llu", kind, (unsigned long long)number);
    return gen_add_text(batch, text, (size_t)length);
}

// 10 to 40 characters.  dbgen's range for their bits overflows its 32 bits to -2^31, and so does ours.
static i64 add_address(GenBatch *batch, RandomStream *stream)
{
    char text[40];
    i64 length = stream_draw(stream, 10, 40);
    u64 bits = 0;
    for (i64 i = 0; i < length; i++, bits >>= 6) {
        if (i % 5 == 0)
            bits = (u64)stream_share(stream, INT32_MIN);
        text[i] = gen_alphabet[bits & 63];
    }
    return gen_add_text(batch, text, (size_t)length);
}

static i64 add_phone(GenBatch *batch, RandomStream *stream, i64 nation)
{
    char text[40];
    int area = (int)stream_draw(stream, 100, 999);
    int exchange = (int)stream_draw(stream, 100, 999);
    int number = (int)stream_draw(stream, 1000, 9999);
    int length = snprintf(text, sizeof(text), "%02d-%03d-%03d-%04d", 10 + (int)nation, area, exchange, number);
    return gen_add_text(batch, text, (size_t)length);
}

// ---- the rows of region and nation ----------------------------------------------------------------------------------

static void fill_tpch_region(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_R_COMMENT, STREAM_R_COMMENT, first);
    for (u32 row = 0; row < n; row++) {
        i64 region = (i64)first + row;
        const i64 cells[] = { region, region, add_comment(context, batch, &streams[STREAM_R_COMMENT], 72) };
        put_cells(batch, row, cells, COUNT_OF(cells));
        streams_next_row(streams, STREAM_R_COMMENT, STREAM_R_COMMENT);
    }
    batch->n_rows = n;
}

static void fill_tpch_nation(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_N_COMMENT, STREAM_N_COMMENT, first);
    for (u32 row = 0; row < n; row++) {
        i64 nation = (i64)first + row;
        const i64 cells[] = { nation, nation, gen_nations[nation].region,
                              add_comment(context, batch, &streams[STREAM_N_COMMENT], 72) };
        put_cells(batch, row, cells, COUNT_OF(cells));
        streams_next_row(streams, STREAM_N_COMMENT, STREAM_N_COMMENT);
    }
    batch->n_rows = n;
}

// ---- the rows of part and partsupp ----------------------------------------------------------------------------------

// Different colours: the first five of a shuffle, whose other steps would change nothing.
static i64 add_part_name(GenBatch *batch, RandomStream *stream)
{
    u8 colors[GEN_COLORS];
    char text[64];
    size_t length = 0;
    for (int i = 0; i < GEN_COLORS; i++)
        colors[i] = (u8)i;
    for (int i = 0; i < TPCH_NAME_WORDS; i++) {
        i64 picked = stream_draw(stream, i, GEN_COLORS - 1);
        const char *word = gen_colors[colors[picked]];
        colors[picked] = colors[i];
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i > 0 ? " " : "", word);
    }
    return gen_add_text(batch, text, length);
}

static void fill_tpch_part(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_P_NAME, STREAM_P_COMMENT, first);
    for (u32 row = 0; row < n; row++) {
        i64 part = (i64)first + row + 1;
        i64 mfgr = stream_draw(&streams[STREAM_P_MFGR], 0, 4);
        const i64 cells[] = { part,
                              add_part_name(batch, &streams[STREAM_P_NAME]),
                              mfgr,
                              mfgr * 5 + stream_draw(&streams[STREAM_P_BRAND], 0, 4),
                              stream_draw(&streams[STREAM_P_TYPE], 0, GEN_TYPES - 1),
                              stream_draw(&streams[STREAM_P_SIZE], 1, 50),
                              stream_draw(&streams[STREAM_P_CONTAINER], 0, GEN_CONTAINERS - 1),
                              gen_part_price(part),
                              add_comment(context, batch, &streams[STREAM_P_COMMENT], 14) };
        put_cells(batch, row, cells, COUNT_OF(cells));
        streams_next_row(streams, STREAM_P_NAME, STREAM_P_COMMENT);
    }
    batch->n_rows = n;
}

// Supplier NUMBER, 0 to 3, of a part: a quarter of all suppliers apart from each other, and shifted from part to part.
static inline i64 part_supplier(const Tpch *tpch, i64 part, i64 number)
{
    i64 n = tpch->n_suppliers, step = n / TPCH_SUPPLIERS + (part - 1) / n;
    return (part + number * step) % n + 1;
}

static void fill_tpch_partsupp(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    u32 row = 0;
    streams_enter(streams, STREAM_PS_QUANTITY, STREAM_PS_COMMENT, first);
    for (u32 i = 0; i < n; i++) {
        i64 part = (i64)first + i + 1;
        for (int number = 0; number < TPCH_SUPPLIERS; number++) {
            const i64 cells[] = { part, part_supplier(context, part, number),
                                  stream_draw(&streams[STREAM_PS_QUANTITY], 1, 9999),
                                  stream_draw(&streams[STREAM_PS_COST], 100, 100000),
                                  add_comment(context, batch, &streams[STREAM_PS_COMMENT], 124) };
            put_cells(batch, row++, cells, COUNT_OF(cells));
        }
        streams_next_row(streams, STREAM_PS_QUANTITY, STREAM_PS_COMMENT);
    }
    batch->n_rows = row;
}

// ---- the rows of supplier and customer ------------------------------------------------------------------------------

// One supplier in a thousand has "Customer ... Complaints" or "Customer ... Recommends" in its comment.
static i64 add_supplier_comment(const Tpch *tpch, GenBatch *batch, RandomStream *streams)
{
    enum { CUSTOMER_LENGTH = 9, KIND_LENGTH = 10, BOTH_LENGTH = CUSTOMER_LENGTH + KIND_LENGTH };
    TextPiece piece = draw_piece(tpch, &streams[STREAM_S_COMMENT], 63);
    i64 room = (i64)piece.length - BOTH_LENGTH;
    bool has_press = stream_draw(&streams[STREAM_S_PRESS], 1, 10000) <= 10;
    bool is_bad = stream_draw(&streams[STREAM_S_PRESS_KIND], 0, 100) < 50;
    i64 gap = stream_draw(&streams[STREAM_S_PRESS_GAP], 0, room);
    i64 place = stream_draw(&streams[STREAM_S_PRESS_PLACE], 0, room - gap);
    i64 cell = gen_add_text(batch, piece.bytes, piece.length);
    if (has_press) {
        char *text = batch->texts.bytes + cell + place;
        memcpy(text, "Customer ", CUSTOMER_LENGTH);
        memcpy(text + CUSTOMER_LENGTH + gap, is_bad ? "Complaints" : "Recommends", KIND_LENGTH);
    }
    return cell;
}

static void fill_tpch_supplier(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_S_ADDRESS, STREAM_S_PRESS_PLACE, first);
    for (u32 row = 0; row < n; row++) {
        u64 number = first + row + 1;
        i64 nation = stream_draw(&streams[STREAM_S_NATION], 0, GEN_NATIONS - 1);
        const i64 cells[] = { (i64)number,
                              add_name(batch, "Supplier", number),
                              add_address(batch, &streams[STREAM_S_ADDRESS]),
                              nation,
                              add_phone(batch, &streams[STREAM_S_PHONE], nation),
                              stream_draw(&streams[STREAM_S_BALANCE], -99999, 999999),
                              add_supplier_comment(context, batch, streams) };
        put_cells(batch, row, cells, COUNT_OF(cells));
        streams_next_row(streams, STREAM_S_ADDRESS, STREAM_S_PRESS_PLACE);
    }
    batch->n_rows = n;
}

static void fill_tpch_customer(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_C_ADDRESS, STREAM_C_COMMENT, first);
    for (u32 row = 0; row < n; row++) {
        u64 number = first + row + 1;
        i64 nation = stream_draw(&streams[STREAM_C_NATION], 0, GEN_NATIONS - 1);
        const i64 cells[] = { (i64)number,
                              add_name(batch, "Customer", number),
                              add_address(batch, &streams[STREAM_C_ADDRESS]),
                              nation,
                              add_phone(batch, &streams[STREAM_C_PHONE], nation),
                              stream_draw(&streams[STREAM_C_BALANCE], -99999, 999999),
                              stream_draw(&streams[STREAM_C_SEGMENT], 0, GEN_SEGMENTS - 1),
                              add_comment(context, batch, &streams[STREAM_C_COMMENT], 73) };
        put_cells(batch, row, cells, COUNT_OF(cells));
        streams_next_row(streams, STREAM_C_ADDRESS, STREAM_C_COMMENT);
    }
    batch->n_rows = n;
}

// ---- the rows of orders and lineitem --------------------------------------------------------------------------------

// What an order needs of its lines, and what a line needs of its order.
typedef struct Line { i64 part, quantity, price, discount, tax, ship_date; bool is_shipped; } Line;
typedef struct GenOrder { i64 key, date; int n_lines; } GenOrder;

static inline GenOrder draw_order(const Tpch *tpch, RandomStream *streams, u64 number)
{
    return (GenOrder){ .key = gen_order_key(number),
                       .date = tpch->first_day + stream_draw(&streams[STREAM_O_DATE], 0, TPCH_ORDER_DAYS - 1),
                       .n_lines = (int)stream_draw(&streams[STREAM_O_LINES], 1, TPCH_LINES_MAX) };
}

static inline Line draw_line(const Tpch *tpch, RandomStream *streams, i64 order_date)
{
    Line line = { .part = stream_draw(&streams[STREAM_L_PART], 1, tpch->n_parts),
                  .quantity = stream_draw(&streams[STREAM_L_QUANTITY], 1, 50),
                  .discount = stream_draw(&streams[STREAM_L_DISCOUNT], 0, 10),
                  .tax = stream_draw(&streams[STREAM_L_TAX], 0, 8),
                  .ship_date = order_date + stream_draw(&streams[STREAM_L_SHIP_DATE], 1, 121) };
    line.price = line.quantity * gen_part_price(line.part);
    line.is_shipped = line.ship_date <= tpch->today;
    return line;
}

static inline void put_tpch_order(const Tpch *tpch, GenBatch *batch, u32 row, RandomStream *streams, u64 number)
{
    GenOrder order = draw_order(tpch, streams, number);
    i64 total = 0;
    int n_shipped = 0;
    for (int i = 0; i < order.n_lines; i++) {
        Line line = draw_line(tpch, streams, order.date);
        total += line.price * (100 - line.discount) / 100 * (100 + line.tax) / 100;
        n_shipped += line.is_shipped;
    }
    i64 customer = stream_draw(&streams[STREAM_O_CUSTOMER], 1, tpch->n_customers);
    const i64 cells[] = { order.key,
                          gen_buyer(customer, tpch->n_customers),
                          n_shipped == 0 ? ORDER_OPEN : n_shipped == order.n_lines ? ORDER_FILLED : ORDER_PARTIAL,
                          total,
                          order.date,
                          stream_draw(&streams[STREAM_O_PRIORITY], 0, GEN_PRIORITIES - 1),
                          stream_draw(&streams[STREAM_O_CLERK], 0, tpch->n_clerks - 1),
                          0,
                          add_comment(tpch, batch, &streams[STREAM_O_COMMENT], 49) };
    put_cells(batch, row, cells, COUNT_OF(cells));
}

static void fill_tpch_orders(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_O_CUSTOMER, STREAM_L_SHIP_DATE, first);
    for (u32 row = 0; row < n; row++) {
        put_tpch_order(context, batch, row, streams, first + row + 1);
        streams_next_row(streams, STREAM_O_CUSTOMER, STREAM_L_SHIP_DATE);
    }
    batch->n_rows = n;
}

static inline void put_tpch_line(const Tpch *tpch, GenBatch *batch, u32 row, RandomStream *streams,
                                 const GenOrder *order, int number)
{
    Line line = draw_line(tpch, streams, order->date);
    i64 supplier = stream_draw(&streams[STREAM_L_SUPPLIER], 0, TPCH_SUPPLIERS - 1);
    i64 receipt_date = line.ship_date + stream_draw(&streams[STREAM_L_RECEIPT_DATE], 1, 30);
    bool is_received = receipt_date <= tpch->today;         // only then is a flag drawn
    const i64 cells[] = { order->key,
                          line.part,
                          part_supplier(tpch, line.part, supplier),
                          number,
                          line.quantity * 100,
                          line.price,
                          line.discount,
                          line.tax,
                          is_received ? stream_draw(&streams[STREAM_L_RETURN_FLAG], RETURNED, ACCEPTED) : NOT_YET,
                          line.is_shipped,
                          line.ship_date,
                          order->date + stream_draw(&streams[STREAM_L_COMMIT_DATE], 30, 90),
                          receipt_date,
                          stream_draw(&streams[STREAM_L_INSTRUCTION], 0, COUNT_OF(instructions) - 1),
                          stream_draw(&streams[STREAM_L_MODE], 0, GEN_SHIP_MODES - 1),
                          add_comment(tpch, batch, &streams[STREAM_L_COMMENT], 27) };
    put_cells(batch, row, cells, COUNT_OF(cells));
}

static void fill_tpch_lineitem(const void *context, u64 first, u32 n, GenBatch *batch)
{
    RandomStream streams[STREAM_N];
    u32 row = 0;
    streams_enter(streams, STREAM_O_DATE, STREAM_L_COMMENT, first);
    for (u32 i = 0; i < n; i++) {
        GenOrder order = draw_order(context, streams, first + i + 1);
        for (int line = 1; line <= order.n_lines; line++)
            put_tpch_line(context, batch, row++, streams, &order, line);
        streams_next_row(streams, STREAM_O_DATE, STREAM_L_COMMENT);
    }
    batch->n_rows = row;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static Tpch make_tpch(double scale)
{
    i64 thousandths = scale < 1 ? (i64)(1000 * scale) : llround(1000 * scale);
    return (Tpch){ .n_parts = MAX_OF(200 * thousandths, 1),
                   .n_suppliers = MAX_OF(10 * thousandths, 1),
                   .n_customers = MAX_OF(150 * thousandths, 1),
                   .n_orders = MAX_OF(1500 * thousandths, 1),
                   .n_clerks = MAX_OF(thousandths, 1000),
                   .first_day = date_from_civil(1992, 1, 1),
                   .today = date_from_civil(1995, 6, 17) };
}

static weft_status load_tpch(const Tpch *tpch, Store *store, Pool *pool, const GenOptions *options, Error *err)
{
    const GenTable tables[GEN_TPCH_TABLES] = {
#define TABLE(name, n_units, unit_rows_max)                                                                      \
    { #name, tpch_##name##_columns, COUNT_OF(tpch_##name##_columns), fill_tpch_##name, (u64)(n_units), unit_rows_max, \
      true }
        TABLE(region, GEN_REGIONS, 1),
        TABLE(nation, GEN_NATIONS, 1),
        TABLE(part, tpch->n_parts, 1),
        TABLE(supplier, tpch->n_suppliers, 1),
        TABLE(partsupp, tpch->n_parts, TPCH_SUPPLIERS),
        TABLE(customer, tpch->n_customers, 1),
        TABLE(orders, tpch->n_orders, 1),
        TABLE(lineitem, tpch->n_orders, TPCH_LINES_MAX),
#undef TABLE
    };
    Arena *arena = arena_new(NULL, "tpch");
    WordList words[TPCH_N_LISTS];
    for (int list = 0; list < TPCH_N_LISTS; list++)
        words[list] = gen_make_list(arena, list, tpch_list_size(tpch, (TpchList)list), tpch_word);
    GenPlan plan = { .tables = tables, .n_tables = GEN_TPCH_TABLES, .lists = words, .rules = tpch };
    weft_status status = gen_load(&plan, store, pool, options, err);
    arena_free(arena);
    return status;
}

weft_status gen_tpch(Store *store, Pool *pool, const GenOptions *options, Error *err)
{
    if (!(options->scale > 0 && options->scale <= GEN_SCALE_MAX))
        return fail(err, WEFT_INVALID_PARAMETER, -1, "scale factor must be above 0 and at most %d", GEN_SCALE_MAX);
    Tpch tpch = make_tpch(options->scale);
    TRY(tpch_text_make(pool, &tpch.text, err));
    weft_status status = load_tpch(&tpch, store, pool, options, err);
    tpch_text_free(tpch.text);
    return status;
}
