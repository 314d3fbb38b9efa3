// sorting.c - the kernels of a radix sort on a GPU: the same for all queries.
//
// Rows are sorted by keys of 32 or 64 bits, 8 bits in a pass, the least significant first.  A pass keeps the order of
// rows with equal digits, so after the last one rows are in the order of the whole key, and equal ones as they came.
//
//     rows      [part 0      ][part 1      ][part 2      ] ...      a block each, in the order of the rows
//     t_digits   counts the digits of each part                     counts[digit][part]
//     t_starts   adds up, a digit each                              counts: of the parts before; totals[digit]
//     t_scatter  puts keys and row numbers where they belong
//
// Keys of several words are sorted word by word, from the last one on; t_gather fetches the next word of the rows in
// the order reached so far.  device/gpu_sort.c launches them.

#include "weave/weave_int.h"

const char *weave_digits_text(Arena *arena, int width, const char **name)
{
    *name = arena_printf(arena, "t_digits%d", width);
    return arena_printf(arena,
        "// how many rows of a part have which digit\n"
        "KERNEL(%s)\n"
        "{\n"
        "    PARAM(u64, shift, 0)\n"
        "    PARAM(u64, n_parts, 1)\n"
        "    COLUMN(u%d, key, 0)\n"
        "    PLACES(counts, 0)\n"
        "    DIGIT_COUNTS(own)\n"
        "    TILES {\n"
        "        COUNT_DIGITS(u%d, key, shift, own)\n"
        "    }\n"
        "    DIGIT_COUNTS_END(own, counts, n_parts)\n"
        "}\n", *name, 8 * width, 8 * width);
}

const char *weave_starts_text(const char **name)
{
    *name = "t_starts";
    return "// rows of a digit in the parts before each part\n"
           "KERNEL(t_starts)\n"
           "{\n"
           "    PARAM(u64, n_parts, 1)\n"
           "    PLACES(counts, 0)\n"
           "    PLACES(totals, 1)\n"
           "    u32 *const own = (u32 *)counts + A->place * n_parts;\n"
           "    u32 total = 0;\n"
           "    TILES {\n"
           "        RUN_UP(total, own)\n"
           "    }\n"
           "    ((u32 *)totals)[A->place] = total;\n"        // all threads the same
           "}\n";
}

const char *weave_scatter_text(Arena *arena, int width, const char **name)
{
    *name = arena_printf(arena, "t_scatter%d", width);
    return arena_printf(arena,
        "// rows to the places of their digits\n"
        "KERNEL(%s)\n"
        "{\n"
        "    PARAM(u64, shift, 0)\n"
        "    PARAM(u64, n_parts, 1)\n"
        "    PARAM(u64, has_rows, 2)\n"
        "    PARAM(u64, has_keys, 3)\n"
        "    COLUMN(u%d, key, 0)\n"
        "    COLUMN(u32, row, 1)\n"
        "    PLACES(counts, 0)\n"
        "    PLACES(totals, 1)\n"
        "    PLACES(keys, 2)\n"
        "    PLACES(rows, 3)\n"
        "    DIGIT_STARTS(starts, counts, totals, n_parts)\n"
        "    TILES {\n"
        "        SCATTER(u%d, key, row, shift, starts, keys, rows, has_rows, has_keys)\n"
        "    }\n"
        "}\n", *name, 8 * width, 8 * width);
}

const char *weave_gather_text(const char **name)
{
    *name = "t_gather";
    return "// a word of each row, in their order so far\n"
           "KERNEL(t_gather)\n"
           "{\n"
           "    TABLE(u64, word, 0)\n"
           "    TABLE(u32, row, 1)\n"
           "    PLACES(keys, 2)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        EACH_ROW(live) {\n"
           "            PLACE(keys, 8, ROW_NUMBER, word[row[ROW_NUMBER]])\n"
           "        }\n"
           "    }\n"
           "}\n";
}
