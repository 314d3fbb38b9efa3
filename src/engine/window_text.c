// window_text.c - string_agg: the texts of a frame, joined.
//
// A frame's text is made once, in a dictionary of the function's own, and all rows that have the frame have its code: a
// whole partition where string_agg is an aggregate (sql/bind_string_agg.c).  Rows that had the text itself would be
// hashed one by one on their way to the groups: quadratic.  A frame that only grows at its end adds to the last text.

#include "engine/window.h"

typedef struct Joining {
    QueryRun        *run;
    const FrameLook *look;
    const View      *values, *delimiters;
    bool             is_distinct;
    char            *room;             // for the longest text; NULL: lengths are only counted
    Stretches        frame;            // that the text is of
    u64              same_until;       // all places before this one have it, too
    size_t           length;
    bool             has_value;        // false: the text is NULL
    weft_text        last;             // the value that it ends in
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

static void add_bytes(Joining *joining, weft_text text)
{
    if (joining->room && text.length) memcpy(joining->room + joining->length, text.bytes, text.length);
    joining->length += text.length;
}

static weft_status join_places(Joining *joining, u64 first, u64 end)
{
    weft_text text, delimiter;
    for (u64 place = first; place < end; place++) {
        const u64 row = sorted_row(joining->look->sorted, place);
        if (query_should_stop(joining->run, place)) return query_canceled(joining->run);
        if (!text_at(joining->values, row, &text)) continue;
        if (joining->is_distinct && joining->has_value && texts_equal(text, joining->last)) continue;
        if (joining->has_value && text_at(joining->delimiters, row, &delimiter)) add_bytes(joining, delimiter);
        add_bytes(joining, text);
        joining->last = text, joining->has_value = true;
    }
    return WEFT_OK;
}

static bool frames_equal(const Stretches *a, const Stretches *b)
{
    bool are_equal = a->n == b->n;
    for (int i = 0; i < a->n && are_equal; i++)
        are_equal = a->list[i].first == b->list[i].first && a->list[i].end == b->list[i].end;
    return are_equal;
}

static bool frame_grows(const Stretches *before, const Stretches *after)
{
    return before->n == 1 && after->n == 1 && before->list[0].first == after->list[0].first &&
           before->list[0].end <= after->list[0].end;
}

static bool is_whole_part(const Frame *frame)
{
    return frame->start.edge == EDGE_FIRST && frame->end.edge == EDGE_LAST && frame->exclude == EXCLUDE_NONE;
}

// The text of the frame at PLACE.  *IS_SAME: it is that of the place before.
static weft_status join_frame(Joining *joining, u64 place, bool *is_same)
{
    if (query_should_stop(joining->run, place)) return query_canceled(joining->run);
    *is_same = place < joining->same_until;
    if (*is_same) return WEFT_OK;
    const Stretches before = joining->frame, frame = frame_of(joining->look, place);
    *is_same = frames_equal(&before, &frame);
    if (*is_same) return WEFT_OK;
    joining->frame = frame;
    if (is_whole_part(joining->look->frame)) joining->same_until = frame.list[0].end;
    if (frame_grows(&before, &frame)) return join_places(joining, before.list[0].end, frame.list[0].end);
    joining->length = 0, joining->has_value = false;
    for (int i = 0; i < frame.n; i++) TRY(join_places(joining, frame.list[i].first, frame.list[i].end));
    return WEFT_OK;
}

static void begin(Joining *joining)
{
    joining->frame.n = 0, joining->same_until = 0;
    joining->length = 0, joining->has_value = false;
}

// Memory is asked for before any text is made: for the longest one, and for what the dictionary will hold.
static weft_status make_room(Joining *joining)
{
    size_t longest = 0, total = 0;
    bool   is_same;
    begin(joining);
    for (u64 place = 0; place < joining->look->sorted->n_rows; place++) {
        TRY(join_frame(joining, place, &is_same));
        longest = MAX_OF(longest, joining->length), total += is_same ? 0 : joining->length;
    }
    begin(joining);
    return query_alloc(joining->run, longest + total + 1, (void **)&joining->room);
}

static void release_dict(void *dict) { dict_release(dict); }

weft_status window_join_texts(QueryRun *run, const FrameLook *look, const View *values, const View *delimiters,
                              bool is_distinct, View *out)
{
    const Sorted *sorted = look->sorted;
    Joining       joining = { .run = run, .look = look, .values = values, .delimiters = delimiters,
                              .is_distinct = is_distinct };
    i64 *codes;
    u8  *nulls;
    u32  code = 0;
    TRY(make_room(&joining));
    TRY(query_alloc(run, (sorted->n_rows + 1) * sizeof *codes, (void **)&codes));
    TRY(query_alloc(run, sorted->n_rows + 1, (void **)&nulls));
    *out = (View){ .kind = VIEW_CODE, .type = TYPE(TEXT), .data = codes, .nulls = nulls };
    arena_defer(run->arena, release_dict, out->dict = dict_new(query_budget(run)));
    for (u64 place = 0; place < sorted->n_rows; place++) {
        const u64 row = sorted_row(sorted, place);
        bool      is_same;
        TRY(join_frame(&joining, place, &is_same));
        if (!is_same && joining.has_value) TRY(dict_intern(out->dict, joining.room, joining.length, &code, run->err));
        codes[row] = joining.has_value ? code : 0, nulls[row] = !joining.has_value;
    }
    out->dict_count = dict_count(out->dict);
    return WEFT_OK;
}
