// tables.c - the kernel that makes a join table where the rows of its build pipeline are.
//
// A part of its launch fills a part of the table: the code of each row goes to the place of its key.  The first one also counts the places
// that were empty before: as many as rows, or keys are not unique.  It is the same for all queries, so it is compiled once for each
// number of keys.  What the table is to look like is decided by engine/table.c.
//
// And the kernel that adds up cells of a cube (cube.c) for one of its queries: column 0 lists them, table 0 has their values.

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
