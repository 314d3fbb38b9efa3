// window_text.c - string_agg: the texts of a partition, joined.
//
// A partition's text is made once, in a dictionary of the function's own, and all rows of the partition have its code.
// Rows that had the text itself would be hashed one by one on their way to the groups: quadratic.

#include "engine/window.h"

typedef struct Joining {
    QueryRun     *run;
    const Sorted *sorted;
    const View   *values, *delimiters;
    bool          is_distinct;
    char         *room;                // for the longest text; NULL: lengths are only counted
} Joining;

static bool text_at(const View *view, u64 row, weft_text *text)           // false: it is NULL
{
    if (view->nulls && view->nulls[row]) return false;
    const Value value = view_value(view, row);
    if (value.is_null) return false;
    *text = (weft_text){ value.text.bytes, value.text.length };
    return true;
}

static bool texts_equal(weft_text a, weft_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static void add_bytes(const Joining *joining, weft_text text, size_t *length)
{
    if (joining->room && text.length) memcpy(joining->room + *length, text.bytes, text.length);
    *length += text.length;
}

// The text of a partition; *HAS_VALUE false: it is NULL.
static weft_status join_part(const Joining *joining, Stretch part, size_t *length, bool *has_value)
{
    weft_text text, last = { 0 }, delimiter;
    *length = 0, *has_value = false;
    for (u64 place = part.first; place < part.end; place++) {
        const u64 row = sorted_row(joining->sorted, place);
        if (query_should_stop(joining->run, place)) return query_canceled(joining->run);
        if (!text_at(joining->values, row, &text)) continue;
        if (joining->is_distinct && *has_value && texts_equal(text, last)) continue;
        if (*has_value && text_at(joining->delimiters, row, &delimiter)) add_bytes(joining, delimiter, length);
        add_bytes(joining, text, length);
        last = text, *has_value = true;
    }
    return WEFT_OK;
}

static Stretch part_at(const Sorted *sorted, u32 part)
{
    const u32 first = sorted->part_group[part], end = sorted->part_group[part + 1];
    return (Stretch){ sorted->group_first[first], sorted->group_first[end] };
}

// Memory is asked for before any text is made: for the longest one, and for what the dictionary will hold.
static weft_status make_room(Joining *joining)
{
    size_t longest = 0, total = 0, length;
    bool   has_value;
    for (u32 p = 0; p < joining->sorted->n_parts; p++) {
        TRY(join_part(joining, part_at(joining->sorted, p), &length, &has_value));
        longest = MAX_OF(longest, length), total += length;
    }
    return query_alloc(joining->run, longest + total + 1, (void **)&joining->room);
}

static void release_dict(void *dict) { dict_release(dict); }

weft_status window_join_texts(QueryRun *run, const Sorted *sorted, const View *values, const View *delimiters,
                              bool is_distinct, View *out)
{
    Joining joining = { run, sorted, values, delimiters, is_distinct, NULL };
    i64    *codes;
    u8     *nulls;
    u32     code = 0;
    TRY(make_room(&joining));
    TRY(query_alloc(run, (sorted->n_rows + 1) * sizeof *codes, (void **)&codes));
    TRY(query_alloc(run, sorted->n_rows + 1, (void **)&nulls));
    *out = (View){ .kind = VIEW_CODE, .type = TYPE(TEXT), .data = codes, .nulls = nulls };
    arena_defer(run->arena, release_dict, out->dict = dict_new(query_budget(run)));
    for (u32 p = 0; p < sorted->n_parts; p++) {
        const Stretch part = part_at(sorted, p);
        size_t        length;
        bool          has_value;
        TRY(join_part(&joining, part, &length, &has_value));
        if (has_value) TRY(dict_intern(out->dict, joining.room, length, &code, run->err));
        for (u64 place = part.first; place < part.end; place++) {
            const u64 row = sorted_row(sorted, place);
            codes[row] = has_value ? code : 0, nulls[row] = !has_value;
        }
    }
    out->dict_count = dict_count(out->dict);
    return WEFT_OK;
}
