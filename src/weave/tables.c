// tables.c - the kernel that makes a join table where the rows of its build pipeline are.
//
// A part of its launch fills a part of the table: the code of each row goes to the place of its key.  The first one
// also counts the places
// that were empty before: as many as rows, or keys are not unique.  It is the same for all queries, so it is compiled
// once for each
// number of keys.  What the table is to look like is decided by engine/table.c.
//
// Where keys are not unique, or far apart, rows keep their numbers.  t_link chains those of equal key, from heads by
// key or from slots of a hash table, in whatever
// order threads come, and notes where each row is from; t_order then takes each chain into the order of the source,
// counts keys, and finds the longest.  A thread
// does so with a whole chain: up to four rows in registers; of more it merges sorted pieces of 1, 2, 4, ... rows,
// CHAIN_PIECES of them at most.  Of a longer chain the
// host makes the table.
//
// And the kernel that makes columns of rows, for the next kernel of the query to read: with weaving off, rows stay
// where they are.  A part of its launch is a column.  Where the order of the source matters, segments say how far each
// row has to move.
//
// And the kernel that puts cells of a cube (cube.c) together for one of its queries.  A part is one of its
// accumulators, a sum of 128 bits as a whole; a row is a
// group, or one of several lanes that share a group's cells: few groups would leave most threads without any, and one
// thread with all cells of a group.
// What a lane has goes to the accumulator as rows go there, since there are other lanes, and parts of the table that
// came before.
//
// And the two that let many queries look at a row at once.  For each column that any of them tests, a table says value
// by value who wants it, a bit for
// each query: t_who makes it, a part for each column, out of ranges and join tables.  t_sieve then takes the rows of
// the source through these
// tables and leaves a bit per row for each query.  Its text depends on the widths of columns and on how many queries
// there can be, nothing else.

#include "weave/weave_int.h"

static void add_key(Text *head, Text *loads, Text *at, int k)
{
    text_add(head, "    PARAM(u64, low%d, %d)\n    PARAM(u64, stride%d, %d)\n    COLUMN(u64, key%d, %d)\n", k,
             FILL_KEY + 2 * k, k, FILL_KEY + 2 * k + 1, k, FILL_KEYS_FROM + k);
    text_add(loads, "        LOAD(u64, key%d, live)\n", k);
    text_add(at, "%s(key%d[i] - low%d) * stride%d", k ? " + " : "", k, k, k);
}

const char *weave_fill_text(Arena *arena, int n_keys, const char **name)
{
    Text head = { 0 }, loads = { 0 }, at = { 0 };
    *name = arena_printf(arena, "t_fill%d", n_keys);
    for (int k = 0; k < n_keys; k++) add_key(&head, &loads, &at, k);
    const char *text = arena_printf(
        arena,
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
        "    PARAM(u64, is_by_row, 8)\n"
        "    PARAM(u64, is_valid, 9)\n"
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
        "            const u64 at = is_by_row ? ROW_NUMBER : %s, offset = value[i] - base;\n"
        "            const u64 code = is_set ? 0 : has_nulls && is_null[i] ? null_code : has_codes ?"
        " codes[offset] : offset;\n"
        "            if (is_counted && !(is_valid && is_null[i])) {\n"
        "                FRESH(is_fresh, bits, at)\n"
        "                ADD(n_places, is_fresh)\n"
        "            }\n"
        "            if (width) { PLACE(places, width, at, code + plus) }\n"
        "        }\n"
        "    }\n"
        "    TOTAL_END(sum, i64, n_places, 2)\n"
        "}\n",
        *name, head.bytes, loads.bytes, at.bytes);
    text_free(&head);
    text_free(&loads);
    text_free(&at);
    return text;
}

// In the order of LINK_...: a key's low, its stride, and whether it is a float.
static void add_link_key(Text *head, Text *loads, Text *words, int k)
{
    const int param = LINK_KEY + 3 * k;
    text_add(head, "    PARAM(u64, low%d, %d)\n    PARAM(u64, stride%d, %d)\n    PARAM(u64, is_float%d, %d)\n", k,
             param, k, param + 1, k, param + 2);
    text_add(head, "    COLUMN(u64, key%d, %d)\n    TABLE(u64, key%d_of, %d)\n", k, k, k, k);
    text_add(loads, "        LOAD(u64, key%d, live)\n", k);
    text_add(words, "            const u64 word%d = is_float%d ? KEY_OF_F64(key%d[i]) : key%d[i];\n", k, k, k, k);
}

static void add_link_steps(Text *sum, Text *hashed, Text *same, int k, int n_keys)
{
    text_add(sum, "%s(word%d - low%d) * stride%d", k ? " + " : "", k, k, k);
    text_add(
        hashed,
        "                    key = HASH_MIX(key, word%d);\n"
        "                    PLACE(words, 8, row * %d + %d, word%d)\n",
        k, n_keys, k, k);
    text_add(same, "%s(is_float%d ? KEY_OF_F64(key%d_of[c_ - 1]) : key%d_of[c_ - 1]) == word%d", k ? " && " : "", k, k,
             k, k);
}

const char *weave_link_text(Arena *arena, int n_keys, const char **name)
{
    Text head = { 0 }, loads = { 0 }, words = { 0 }, sum = { 0 }, hashed = { 0 }, same = { 0 };
    *name = arena_printf(arena, "t_link%d", n_keys);
    for (int k = 0; k < n_keys; k++) {
        add_link_key(&head, &loads, &words, k);
        add_link_steps(&sum, &hashed, &same, k, n_keys);
    }
    const char *text = arena_printf(arena,
        "// rows to chains of equal keys\n"
        "KERNEL(%s)\n"
        "{\n"
        "    PARAM(u64, is_hash, 0)\n"
        "    PARAM(u64, has_words, 1)\n"
        "    PARAM(u64, mask, 2)\n"
        "    PARAM(u64, n_segments, 3)\n"
        "%s"
        "    TABLE(KernelSegment, segments, %d)\n"
        "    PLACES(slots, 0)\n"
        "    PLACES(next, 1)\n"
        "    PLACES(words, 2)\n"
        "    PLACES(from, 3)\n"
        "    TILES {\n"
        "        ROWS(live)\n"
        "%s"
        "        EACH_ROW(live) {\n"
        "            const u64 row = ROW_NUMBER;\n"
        "            PLACE_OF(place, segments, n_segments, row)\n"
        "            PLACE(from, 8, row, place)\n"
        "%s"
        "            u64 key = %s;\n"
        "            if (is_hash) {\n"
        "                if (has_words) {\n"
        "                    key = HASH_SEED;\n"
        "%s"
        "                }\n"
        "                CHAIN_HASHED(slots, mask, key, next, row, %s)\n"
        "            } else { CHAIN(slots, next, key, row) }\n"
        "        }\n"
        "    }\n"
        "}\n", *name, head.bytes, n_keys, loads.bytes, words.bytes, sum.bytes, hashed.bytes, same.bytes);
    text_free(&head);
    text_free(&loads);
    text_free(&words);
    text_free(&sum);
    text_free(&hashed);
    text_free(&same);
    return text;
}

const char *weave_order_text(const char **name)
{
    *name = "t_order";
    return "// chains of equal keys to the order of the source\n"
           "KERNEL(t_order)\n"
           "{\n"
           "    PARAM(u64, is_hash, 0)\n"
           "    TABLE(u64, from, 0)\n"
           "    PLACES(slots, 0)\n"
           "    PLACES(chains, 1)\n"
           "    TOTAL(sum, i64, n_keys, 2)\n"
           "    TOTAL(most, i64, longest, 3)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        EACH_ROW(live) {\n"
           "            KernelSlot *const slot = (KernelSlot *)slots + ROW_NUMBER;\n"
           "            u32 *const head = is_hash ? &slot->row : (u32 *)slots + ROW_NUMBER, *const next = (u32"
           " *)chains;\n"
           "            const u32 first = *head, second = !first ? 0 : is_hash ? slot->spare : next[first - 1];\n"
           "            i64 length = first != 0;\n"
           "            if (first) { ADD(n_keys, 1) }\n"
           "            if (second) {\n"
           "                u32 rows[4], fifth = second;\n"
           "                u64 places[4];\n"
           "                rows[0] = first, places[0] = from[first - 1];\n"
           "                for (u32 n = 1; n < 4; n++) {\n"
           "                    rows[n] = fifth, places[n] = fifth ? from[fifth - 1] : ~0ull;\n"
           "                    length += fifth != 0;\n"
           "                    fifth = fifth ? next[fifth - 1] : 0;\n"
           "                }\n"
           "                if (!fifth) {\n"
           "                    for (u32 n = 0; n < 9; n++) {\n"  // three times from the first to the last
           "                        const u32 at = n % 3, one = rows[at], other = rows[at + 1];\n"
           "                        const u64 a = places[at], b = places[at + 1];\n"
           "                        const u32 is_turned = b < a || (b == a && other < one);\n"
           "                        rows[at] = is_turned ? other : one, places[at] = is_turned ? b : a;\n"
           "                        rows[at + 1] = is_turned ? one : other, places[at + 1] = is_turned ? a : b;\n"
           "                    }\n"
           "                    for (u32 n = 0; n < 4; n++)\n"
           "                        if (rows[n]) next[rows[n] - 1] = n < 3 ? rows[n + 1] : 0;\n"
           "                    *head = rows[0];\n"
           "                } else {\n"
           "                    u32 pieces[CHAIN_PIECES] = { first }, rest = second, list = 0;\n"
           "                    next[first - 1] = 0, length = 1;\n"
           "                    for (u32 at = 0, is_row = 1; is_row && at < CHAIN_PIECES;) {\n"
           "                        is_row = rest != 0, list = rest;\n"  // none left: all pieces become one
           "                        if (is_row) { rest = next[list - 1]; next[list - 1] = 0; length++; }\n"
           "                        for (at = 0; at < CHAIN_PIECES && (pieces[at] || !is_row); pieces[at++] = 0) {\n"
           "                            u32 one = pieces[at], other = list, *end = &list;\n"
           "                            while (one && other) {\n"
           "                                const u64 a = from[one - 1], b = from[other - 1];\n"
           "                                if (a < b || (a == b && one < other)) { *end = one; end = next +"
           " (one - 1); one = *end; }\n"
           "                                else { *end = other; end = next + (other - 1); other = *end; }\n"
           "                            }\n"
           "                            *end = one ? one : other;\n"
           "                        }\n"
           "                        if (is_row && at < CHAIN_PIECES) pieces[at] = list;\n"
           "                        if (is_row && at == CHAIN_PIECES) length = CHAIN_TOO_LONG;\n"
           "                    }\n"
           "                    *head = list;\n"
           "                }\n"
           "                if (is_hash) slot->spare = 0;\n"
           "            }\n"
           "            MOST(longest, length)\n"
           "        }\n"
           "    }\n"
           "    TOTAL_END(sum, i64, n_keys, 2)\n"
           "    TOTAL_END(most, i64, longest, 3)\n"
           "}\n";
}

const char *weave_keep_text(const char **name)
{
    *name = "t_keep";
    return "// rows to columns that the next kernel reads\n"
           "KERNEL(t_keep)\n"
           "{\n"
           "    PARAM(u64, width, 0)\n"
           "    PARAM(u64, base, 1)\n"
           "    PARAM(u64, has_nulls, 2)\n"
           "    PARAM(u64, n_segments, 3)\n"
           "    TABLE(KernelSegment, segments, 0)\n"
           "    COLUMN(u64, value, 0)\n"
           "    COLUMN(u8, is_null, 1)\n"
           "    PLACES(places, 0)\n"
           "    PLACES(valid, 1)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        LOAD(u64, value, live)\n"
           "        LOAD(u8, is_null, live)\n"
           "        EACH_ROW(live) {\n"
           "            u64 at = ROW_NUMBER;\n"
           "            if (n_segments) {\n"
           "                PLACE_OF(distance, segments, n_segments, at)\n"
           "                at += distance;\n"
           "            }\n"
           "            const u64 is_there = !(has_nulls && is_null[i]);\n"
           "            PLACE(places, width, at, is_there ? value[i] - base : 0)\n"
           "            if (has_nulls && is_there) {\n"
           "                FRESH(is_fresh, valid, at)\n"
           "                (void)is_fresh;\n"
           "            }\n"
           "        }\n"
           "    }\n"
           "}\n";
}

const char *weave_fold_text(const char **name)
{
    *name = "t_fold";
    return "// cells of a cube to an accumulator of a query\n"
           "KERNEL(t_fold)\n"
           "{\n"
           "    PARAM(u32, how, 0)\n"
           "    PARAM(i64, init, 1)\n"
           "    PARAM(u32, n_groups, 2)\n"
           "    PARAM(u32, n_listed, 3)\n"
           "    PARAM(u32, n_lanes, 4)\n"
           "    TABLE(u32, listed, 0)\n"
           "    TABLE(i64, cells, 1)\n"
           "    TABLE(i64, high_cells, 2)\n"
           "    SUMS(i64, sums, 0)\n"
           "    SUMS(u8, seen, 0)\n"
           "    SUMS(i64, high_sums, 1)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        EACH_ROW(live) {\n"
           "            const u32 group = ROW_NUMBER % n_groups;\n"
           "            i64 sum = init, high = 0;\n"
           "            for (u32 n = ROW_NUMBER / n_groups; n < n_listed; n += n_lanes) {\n"
           "                const u64 at = (u64)listed[n] * n_groups + group;\n"
           "                if (how == CELLS_SEEN) {\n"
           "                    sum |= ((const u8 *)cells)[at];\n"
           "                } else if (how == CELLS_MIN) {\n"
           "                    LEAST(sum, cells[at])\n"
           "                } else if (how == CELLS_MAX) {\n"
           "                    MOST(sum, cells[at])\n"
           "                } else {\n"
           "                    sum = (i64)((u64)sum + (u64)cells[at]);\n"
           "                    if (how == CELLS_WIDE_LOW) high += high_cells[at] + ((u64)sum < (u64)cells[at]);\n"
           "                }\n"
           "            }\n"
           "            if (how == CELLS_SEEN) {\n"
           "                if (sum) { SEEN(seen[group]) }\n"
           "            } else if (how == CELLS_MIN) {\n"
           "                LEAST(sums[group], sum)\n"
           "            } else if (how == CELLS_MAX) {\n"
           "                MOST(sums[group], sum)\n"
           "            } else if (how == CELLS_ADD) {\n"
           "                ADD(sums[group], sum)\n"
           "            } else {\n"  // ADD_WIDE takes the low word for a number with a sign
           "                ADD_WIDE(sums[group], high_sums[group], sum)\n"
           "                ADD(high_sums[group], high + (sum < 0))\n"
           "            }\n"
           "        }\n"
           "    }\n"
           "}\n";
}

const char *weave_collect_text(const char **name)
{
    *name = "t_collect";
    return "// cells of a cube over joins to an accumulator of a query\n"
           "KERNEL(t_collect)\n"
           "{\n"
           "    PARAM(u32, how, 0)\n"
           "    TABLE(u32, from, 0)\n"
           "    TABLE(u32, groups, 1)\n"
           "    TABLE(i64, cells, 2)\n"
           "    TABLE(i64, high_cells, 3)\n"
           "    SUMS(i64, sums, 0)\n"
           "    SUMS(u8, seen, 0)\n"
           "    SUMS(i64, high_sums, 1)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        EACH_ROW(live) {\n"
           "            const u64 at = from[ROW_NUMBER];\n"
           "            const u32 group = groups[ROW_NUMBER];\n"
           "            if (how == CELLS_SEEN) {\n"
           "                if (((const u8 *)cells)[at]) { SEEN(seen[group]) }\n"
           "            } else if (how == CELLS_MIN) {\n"
           "                LEAST(sums[group], cells[at])\n"
           "            } else if (how == CELLS_MAX) {\n"
           "                MOST(sums[group], cells[at])\n"
           "            } else if (how == CELLS_ADD) {\n"
           "                if (cells[at]) { ADD(sums[group], cells[at]) }\n"
           "            } else if (cells[at] | high_cells[at]) {\n"  // ADD_WIDE takes the low word with a sign
           "                ADD_WIDE(sums[group], high_sums[group], cells[at])\n"
           "                ADD(high_sums[group], high_cells[at] + (cells[at] < 0))\n"
           "            }\n"
           "        }\n"
           "    }\n"
           "}\n";
}

const char *weave_kinds_text(const char **name)
{
    *name = "t_kinds";
    return "// keys of a column to the kinds of their rows\n"
           "KERNEL(t_kinds)\n"
           "{\n"
           "    PARAM(u32, width, 0)\n"
           "    PARAM(u64, from, 1)\n"
           "    PARAM(u64, size, 2)\n"
           "    TABLE(u8, keys, 0)\n"
           "    TABLE(u16, kind_of, 1)\n"
           "    PLACES(kinds, 0)\n"
           "    TILES {\n"
           "        ROWS(live)\n"
           "        EACH_ROW(live) {\n"
           "            const u64 row = ROW_NUMBER;\n"
           "            u64 at = from;\n"
           "            if (width == 1) at += keys[row];\n"
           "            else if (width == 2) at += ((const u16 *)keys)[row];\n"
           "            else if (width == 4) at += ((const u32 *)keys)[row];\n"
           "            else at += ((const u64 *)keys)[row];\n"
           "            PLACE(kinds, 2, row, at < size ? kind_of[at] : 0)\n"
           "        }\n"
           "    }\n"
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
