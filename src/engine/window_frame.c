// window_frame.c - partitions, groups of peers, and the frame of a row.
//
// A frame is found for each row on its own: by arithmetic on places (ROWS) or on numbers of groups (GROUPS), by the
// row's group (RANGE without offsets), or by a search in its partition (RANGE with offsets).  What a frame contains is
// PostgreSQL's: NULLs are in range of NULLs only, NaN of NaN.

#include "engine/window.h"

#include <math.h>

// ---- groups ---------------------------------------------------------------------------------------------------------

typedef struct GroupCount { u32 n_groups, n_parts; } GroupCount;

typedef struct Grouping {
    const Likeness *likeness;
    Sorted         *sorted;
    GroupCount     *counts;            // by part of the work: those that begin in it, then those that begin before
} Grouping;

static bool begins(const Grouping *grouping, bool all_keys, u64 place)
{
    const Likeness *likeness = grouping->likeness;
    return place == 0 || !likeness->is_same(likeness->context, all_keys, sorted_row(grouping->sorted, place - 1),
                                            sorted_row(grouping->sorted, place));
}

enum { BEGINS_GROUP = 1, BEGINS_PART = 2 };

// Rows are compared once: what begins where is noted in the place of the groups' numbers.
static void count_groups(void *context, int part, u64 first, u64 end)
{
    const Grouping *grouping = context;
    for (u64 i = first; i < end; i++) {
        u32 *note = &grouping->sorted->group_of[i];
        *note = begins(grouping, true, i) ? BEGINS_GROUP : 0;
        if (*note && begins(grouping, false, i)) *note |= BEGINS_PART;
        grouping->counts[part].n_groups += *note & BEGINS_GROUP;
        grouping->counts[part].n_parts += *note & BEGINS_PART ? 1 : 0;
    }
}

static void list_groups(void *context, int part, u64 first, u64 end)
{
    const Grouping *grouping = context;
    Sorted         *sorted = grouping->sorted;
    GroupCount     *next = &grouping->counts[part];
    for (u64 i = first; i < end; i++) {
        if (sorted->group_of[i] & BEGINS_GROUP) {
            if (sorted->group_of[i] & BEGINS_PART) sorted->part_group[next->n_parts++] = next->n_groups;
            sorted->part_of[next->n_groups] = next->n_parts - 1;
            sorted->group_first[next->n_groups++] = (u32)i;
        }
        sorted->group_of[i] = next->n_groups - 1;
    }
}

weft_status sorted_group(const WindowMemory *memory, const Likeness *likeness, Sorted *sorted, bool *is_stopped)
{
    const RowParts parts = team_split(&memory->team, sorted->n_rows);
    Grouping       grouping = { .likeness = likeness, .sorted = sorted };
    GroupCount     before = { 0 };
    TRY(memory->alloc(memory->context, (size_t)parts.n_parts * sizeof *grouping.counts, (void **)&grouping.counts));
    TRY(memory->alloc(memory->context, (sorted->n_rows + 1) * sizeof(u32), (void **)&sorted->group_of));
    *is_stopped = !team_rows(&memory->team, &parts, count_groups, &grouping);
    if (*is_stopped) return WEFT_OK;
    for (int p = 0; p < parts.n_parts; p++) {
        const GroupCount own = grouping.counts[p];
        grouping.counts[p] = before;
        before.n_groups += own.n_groups, before.n_parts += own.n_parts;
    }
    sorted->n_groups = before.n_groups, sorted->n_parts = before.n_parts;
    TRY(memory->alloc(memory->context, ((size_t)sorted->n_groups + 1) * sizeof(u32), (void **)&sorted->group_first));
    TRY(memory->alloc(memory->context, ((size_t)sorted->n_groups + 1) * sizeof(u32), (void **)&sorted->part_of));
    TRY(memory->alloc(memory->context, ((size_t)sorted->n_parts + 1) * sizeof(u32), (void **)&sorted->part_group));
    *is_stopped = !team_rows(&memory->team, &parts, list_groups, &grouping);
    sorted->group_first[sorted->n_groups] = (u32)sorted->n_rows;
    sorted->part_group[sorted->n_parts] = sorted->n_groups;
    return WEFT_OK;
}

Stretch sorted_part(const Sorted *sorted, u64 place)
{
    const u32 part = sorted->part_of[sorted->group_of[place]];
    return (Stretch){ sorted->group_first[sorted->part_group[part]],
                      sorted->group_first[sorted->part_group[part + 1]] };
}

Stretch sorted_peers(const Sorted *sorted, u64 place)
{
    const u32 group = sorted->group_of[place];
    return (Stretch){ sorted->group_first[group], sorted->group_first[group + 1] };
}

// ---- RANGE with offsets ---------------------------------------------------------------------------------------------

static bool is_null_at(const FrameLook *look, u64 place)
{
    return look->view->nulls && look->view->nulls[sorted_row(look->sorted, place)];
}

static bool int_in_range(i128 value, i128 base, i128 offset, bool subtract, bool less)
{
    i128 bound;
    if (subtract ? __builtin_sub_overflow(base, offset, &bound) : __builtin_add_overflow(base, offset, &bound))
        return subtract ? !less : less;
    return less ? value <= bound : value >= bound;
}

static bool float_in_range(double value, double base, double offset, bool subtract, bool less)
{
    if (isnan(value)) return isnan(base) || !less;
    if (isnan(base)) return less;
    if (isinf(offset) && isinf(base) && (subtract ? base > 0 : base < 0)) return true;
    const double bound = subtract ? base - offset : base + offset;
    return less ? value <= bound : value >= bound;
}

static bool time_in_range(Type type, i64 number, i64 base, const Value *offset, bool subtract, bool less)
{
    const i64 value = frame_micros(type, number);
    i64       bound;
    if (!frame_shift_time(type, base, offset, subtract ? -1 : 1, &bound)) return subtract ? !less : less;
    return less ? value <= bound : value >= bound;
}

static i128 number_at(const FrameLook *look, u64 place)
{
    const u64 row = sorted_row(look->sorted, place);
    return look->view->kind == VIEW_WIDE ? ((const i128 *)look->view->data)[row] : ((const i64 *)look->view->data)[row];
}

// Whether the value at PLACE is on this side of BASE's value and the bound's offset.
static bool is_in_range(const FrameLook *look, u64 place, u64 base, bool is_start, bool subtract, bool less)
{
    const Value *offset = is_start ? &look->frame->start.offset : &look->frame->end.offset;
    if (look->view->kind == VIEW_FLOAT) {
        const double *numbers = look->view->data;
        return float_in_range(numbers[sorted_row(look->sorted, place)], numbers[sorted_row(look->sorted, base)],
                              offset->f, subtract, less);
    }
    if (offset->type.kind == TYPE_INTERVAL)
        return time_in_range(look->view->type, (i64)number_at(look, place), (i64)number_at(look, base), offset,
                             subtract, less);
    return int_in_range(number_at(look, place), number_at(look, base), is_start ? look->start : look->end, subtract,
                        less);
}

// NULLs are one group, at one end of the partition.
static Stretch without_nulls(const FrameLook *look, Stretch part)
{
    if (part.first < part.end && look->nulls_first && is_null_at(look, part.first))
        part.first = sorted_peers(look->sorted, part.first).end;
    if (part.first < part.end && !look->nulls_first && is_null_at(look, part.end - 1))
        part.end = sorted_peers(look->sorted, part.end - 1).first;
    return part;
}

// The start: the first place in range; the end: the first place after it that is not.
static u64 search_bound(const FrameLook *look, u64 place, bool is_start, bool is_preceding)
{
    const Stretch part = sorted_part(look->sorted, place);
    if (is_null_at(look, place)) {
        const Stretch peers = sorted_peers(look->sorted, place);
        return is_start ? peers.first : peers.end;
    }
    Stretch    values = without_nulls(look, part);
    const bool subtract = is_preceding != look->descending, less = is_start == look->descending;
    while (values.first < values.end) {
        const u64 middle = values.first + (values.end - values.first) / 2;
        if (is_in_range(look, middle, place, is_start, subtract, less) == is_start) values.end = middle;
        else values.first = middle + 1;
    }
    return values.first;
}

// ---- bounds ---------------------------------------------------------------------------------------------------------

static u64 clipped(i128 at, u64 first, u64 end)
{
    return at < (i128)first ? first : at > (i128)end ? end : (u64)at;
}

static u64 rows_bound(const FrameLook *look, u64 place, Stretch part, bool is_start, bool is_preceding)
{
    const i128 offset = is_start ? look->start : look->end;
    const i128 at = is_preceding ? (i128)place - offset : (i128)place + offset;
    return clipped(is_start ? at : at + 1, part.first, part.end);
}

static u64 groups_bound(const FrameLook *look, u64 place, bool is_start, bool is_preceding)
{
    const Sorted *sorted = look->sorted;
    const u32     group = sorted->group_of[place], part = sorted->part_of[group];
    const i128    offset = is_start ? look->start : look->end;
    const i128    at = is_preceding ? (i128)group - offset : (i128)group + offset;
    return sorted->group_first[clipped(is_start ? at : at + 1, sorted->part_group[part], sorted->part_group[part + 1])];
}

static u64 bound_at(const FrameLook *look, u64 place, Stretch part, bool is_start)
{
    const FrameEdge edge = is_start ? look->frame->start.edge : look->frame->end.edge;
    const bool      is_preceding = edge == EDGE_PRECEDING;
    if (edge == EDGE_FIRST) return part.first;
    if (edge == EDGE_LAST) return part.end;
    if (edge == EDGE_CURRENT) {
        if (look->frame->unit == FRAME_ROWS) return is_start ? place : place + 1;
        const Stretch peers = sorted_peers(look->sorted, place);
        return is_start ? peers.first : peers.end;
    }
    if (look->frame->unit == FRAME_ROWS) return rows_bound(look, place, part, is_start, is_preceding);
    if (look->frame->unit == FRAME_GROUPS) return groups_bound(look, place, is_start, is_preceding);
    return search_bound(look, place, is_start, is_preceding);
}

// ---- what is left once rows are excluded ----------------------------------------------------------------------------

static void add_stretch(Stretches *list, u64 first, u64 end)
{
    if (first < end) list->list[list->n++] = (Stretch){ first, end };
}

Stretches frame_of(const FrameLook *look, u64 place)
{
    const Stretch      part = sorted_part(look->sorted, place);
    const u64          first = bound_at(look, place, part, true), end = bound_at(look, place, part, false);
    const FrameExclude exclude = look->frame->exclude;
    Stretches          list = { 0 };
    if (exclude == EXCLUDE_NONE) {
        add_stretch(&list, first, end);
        return list;
    }
    const Stretch peers = sorted_peers(look->sorted, place);
    const Stretch out = exclude == EXCLUDE_CURRENT ? (Stretch){ place, place + 1 } : peers;
    add_stretch(&list, first, MIN_OF(end, out.first));
    if (exclude == EXCLUDE_TIES && place >= first && place < end) add_stretch(&list, place, place + 1);
    add_stretch(&list, MAX_OF(first, out.end), end);
    return list;
}
