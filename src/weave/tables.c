// tables.c - the kernel that makes a join table where the rows of its build pipeline are.
//
// A part of its launch fills a part of the table: the code of each row goes to the place of its key.  The first one also counts the places
// that were empty before: as many as rows, or keys are not unique.  It is the same for all queries, so it is compiled once for each
// number of keys.  What the table is to look like is decided by engine/table.c.
//
// And the kernel that adds up cells of a cube (cube.c) for one of its queries: column 0 lists them, table 0 has their values.
//
// And the two that let many queries look at a row at once.  For each column that any of them tests, a table says value by value who wants it, a bit for
// each query: t_who makes it, a part for each column, out of ranges and join tables.  t_sieve then takes the rows of the source through these
// tables and leaves a bit per row for each query.  Its text depends on the widths of columns and on how many queries there can be, nothing else.

#include "weave/weave_int.h"

static void add_key(Text *head, Text *loads, Text *at, int k)
{
    text_add(head, "    PARAM(u64, low%d, %d)\n    PARAM(u64, stride%d, %d)\n    COLUMN(u64, key%d, %d)\n", k, FILL_KEY + 2 * k, k, FILL_KEY + 2 * k + 1, k, FILL_KEYS_FROM + k);
    text_add(loads, "        LOAD(u64, key%d, live)\n", k);
    text_add(at, "%s(key%d[i] - low%d) * stride%d", k ? " + " : "", k, k, k);
}

const char *weave_fill_text(Arena *arena, int n_keys, const char **name)
{
    Text head = { 0 }, loads = { 0 }, at = { 0 };
    *name = arena_printf(arena, "t_fill%d", n_keys);
    for (int k = 0; k < n_keys; k++) add_key(&head, &loads, &at, k);
    const char *text = arena_printf(arena,
        "// rows to their places in a table\n"
        "KERNEL(%s)\n"
        "{\n"
        "    PARAM(u64, width, 0)\n"
        "    PARAM(u64, base, 1)\n"
        "    PARAM(u64, null_code, 2)\n"
        "    PARAM(u64, plus, 3)\n"
        "    PARAM(u64, has_nulls, 4)\n"
        "    PARAM(u64, has_codes, 5)\n"
        "    PARAM(u64, is_set, 6)\n"
        "    PARAM(u64, is_counted, 7)\n"
        "    TABLE(u32, codes, 0)\n"
        "    COLUMN(u64, value, 0)\n"
        "    COLUMN(u8, is_null, 1)\n"
        "%s"
        "    PLACES(places, 0)\n"
        "    PLACES(bits, 1)\n"
        "    TOTAL(sum, i64, n_places, 2)\n"
        "    TILES {\n"
        "        ROWS(live)\n"
        "        LOAD(u64, value, live)\n"
        "        LOAD(u8, is_null, live)\n"
        "%s"
        "        EACH_ROW(live) {\n"
        "            const u64 at = %s, offset = value[i] - base;\n"
        "            const u64 code = is_set ? 0 : has_nulls && is_null[i] ? null_code : has_codes ? codes[offset] : offset;\n"
        "            if (is_counted) {\n"
        "                FRESH(is_fresh, bits, at)\n"
        "                ADD(n_places, is_fresh)\n"
        "            }\n"
        "            if (width) { PLACE(places, width, at, code + plus) }\n"
        "        }\n"
        "    }\n"
        "    TOTAL_END(sum, i64, n_places, 2)\n"
        "}\n", *name, head.bytes, loads.bytes, at.bytes);
    text_free(&head);
    text_free(&loads);
    text_free(&at);
    return text;
}

const char *weave_fold_text(const char **name)
{
    *name = "t_fold";
    return "// cells of a cube to the sum of a query\n"
           "KERNEL(t_fold)\n"
           "{\n"
           "    COLUMN(u32, cell, 0)\n"
           "    TABLE(u64, cells, 0)\n"
           "    TOTAL(sum, i64, total, 0)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        LOAD(u32, cell, live)\n"
           "        EACH_ROW(live) { ADD(total, (i64)cells[cell[i]]) }\n"
           "    }\n"
           "    TOTAL_END(sum, i64, total, 0)\n"
           "}\n";
}

const char *weave_who_text(const char **name)
{
    *name = "t_who";
    return "// values of a column to the queries that want them\n"
           "KERNEL(t_who)\n"
           "{\n"
           "    PARAM(u64, width, 0)\n"
           "    PARAM(u64, all, 1)\n"
           "    PARAM(u64, n_tests, 2)\n"
           "    TABLE(KernelTest, tests, 0)\n"
           "    PLACES(who, 0)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        EACH_ROW(live) {\n"
           "            const u64 at = ROW_NUMBER;\n"
           "            u64 left = all;\n"
           "            for (u64 t = 0; t < n_tests; t++) {\n"
           "                const KernelTest test = tests[t];\n"
           "                const u64 key = at + test.shift;\n"
           "                u64 passes = at - test.first <= test.span;\n"
           "                if (passes && test.table) {\n"
           "                    if (test.width == 0) passes = BIT((const u8 *)test.table, key);\n"
           "                    else if (test.width == 1) passes = ((const u8 *)test.table)[key] != 0;\n"
           "                    else if (test.width == 2) passes = ((const u16 *)test.table)[key] != 0;\n"
           "                    else if (test.width == 4) passes = ((const u32 *)test.table)[key] != 0;\n"
           "                    else passes = ((const u64 *)test.table)[key] != 0;\n"
           "                }\n"
           "                if (!passes) left &= ~test.bit;\n"
           "            }\n"
           "            PLACE(who, width, at, left)\n"
           "        }\n"
           "    }\n"
           "}\n";
}

// Bits of a row are worked on as a whole word, whatever a table has of them.
static int set_bits(int lane) { return lane == 8 ? 64 : 32; }

const char *weave_sieve_text(Arena *arena, const u8 *widths, int n_columns, int lane, const char **name)
{
    Text steps = { 0 }, digits = { 0 };
    for (int c = 0; c < n_columns; c++) {
        text_add(&steps, "        SIEVE(live, %d, u%d, u%d, u%d, who)\n", c, 8 * widths[c], 8 * lane, set_bits(lane));
        text_add(&digits, "%d", widths[c]);
    }
    *name = arena_printf(arena, "t_sieve%d_%s", lane, digits.bytes);
    const char *text = arena_printf(arena,
        "// rows to the queries that want them\n"
        "KERNEL(%s)\n"
        "{\n"
        "    PARAM(u%d, all, SIEVED_ALL)\n"
        "    PARAM(u32, n_queries, SIEVED_QUERIES)\n"
        "    TILES {\n"
        "        ROWS(live)\n"
        "        MASK(live)\n"
        "        TEST(live) PASS(live, 1);\n"
        "        PICK(live)\n"
        "        CARRY(u%d, who)\n"
        "        EACH_ROW(live) who[i] = all;\n"
        "%s"
        "        SORT_OUT(live, u%d, u%d, who, n_queries)\n"
        "    }\n"
        "}\n", *name, set_bits(lane), set_bits(lane), steps.bytes, 8 * lane, set_bits(lane));
    text_free(&steps);
    text_free(&digits);
    return text;
}
