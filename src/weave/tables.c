// tables.c - kernels that make a join table where the rows of its build pipeline are.
//
//     survey      a part per output column: its range, whether there are NULLs, and which values occur where that is asked for
//     fill        a part per part of the table: each row's code goes to the place of its key
//     count       places that are not empty: as many as rows, or keys are not unique
//
// They are the same for all queries, so that they are compiled once.  What the host makes of the survey is in engine/table.c.

#include "weave/weave_int.h"

const char *weave_survey_text(const char **name)
{
    *name = "t_survey";
    return "// the range of a column\n"
           "KERNEL(t_survey)\n"
           "{\n"
           "    PARAM(u64, has_nulls, 0)\n"
           "    PARAM(u64, first, 1)\n"
           "    PARAM(u64, n_marks, 2)\n"
           "    COLUMN(u64, value, 0)\n"
           "    COLUMN(u8, is_null, 1)\n"
           "    TOTAL(least, i64, low, 0)\n"
           "    TOTAL(most, i64, high, 1)\n"
           "    TOTAL(sum, i64, n_nulls, 2)\n"
           "    PLACES(marks, 3)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        LOAD(u64, value, live)\n"
           "        LOAD(u8, is_null, live)\n"
           "        EACH_ROW(live) {\n"
           "            if (has_nulls && is_null[i]) { ADD(n_nulls, 1) }\n"
           "            else {\n"
           "                const u64 v = value[i];\n"
           "                LEAST(low, (i64)v)\n"
           "                MOST(high, (i64)v)\n"
           "                if (v - first < n_marks) { PLACE(marks, 1, v - first, 1) }\n"
           "            }\n"
           "        }\n"
           "    }\n"
           "    TOTAL_END(least, i64, low, 0)\n"
           "    TOTAL_END(most, i64, high, 1)\n"
           "    TOTAL_END(sum, i64, n_nulls, 2)\n"
           "}\n";
}

static void add_key(Text *head, Text *loads, Text *at, int k)
{
    text_add(head, "    PARAM(u64, low%d, %d)\n    PARAM(u64, stride%d, %d)\n    COLUMN(u64, key%d, %d)\n", k, FILL_KEY + 2 * k, k, FILL_KEY + 2 * k + 1, k, MADE_KEY + k);
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
        "    TABLE(u32, codes, 0)\n"
        "    COLUMN(u64, value, 0)\n"
        "    COLUMN(u8, is_null, 1)\n"
        "%s"
        "    PLACES(places, 0)\n"
        "    TILES {\n"
        "        ROWS(live)\n"
        "        LOAD(u64, value, live)\n"
        "        LOAD(u8, is_null, live)\n"
        "%s"
        "        EACH_ROW(live) {\n"
        "            const u64 at = %s, offset = value[i] - base;\n"
        "            const u64 code = is_set ? 0 : has_nulls && is_null[i] ? null_code : has_codes ? codes[offset] : offset;\n"
        "            PLACE(places, width, at, code + plus)\n"
        "        }\n"
        "    }\n"
        "}\n", *name, head.bytes, loads.bytes, at.bytes);
    text_free(&head);
    text_free(&loads);
    text_free(&at);
    return text;
}

const char *weave_count_text(const char **name)
{
    *name = "t_count";
    return "// places that are not empty\n"
           "KERNEL(t_count)\n"
           "{\n"
           "    PARAM(u64, is_bits, 0)\n"
           "    COLUMN_ANY(place, 0)\n"
           "    TOTAL(sum, i64, n_places, 0)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        LOAD_ANY(place, live)\n"
           "        EACH_ROW(live) {\n"
           "            COUNT_BITS(n_bits, place[i])\n"
           "            ADD(n_places, is_bits ? n_bits : (i64)(place[i] != 0))\n"
           "        }\n"
           "    }\n"
           "    TOTAL_END(sum, i64, n_places, 0)\n"
           "}\n";
}
