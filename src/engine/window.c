// window.c - window functions, computed by the host on all threads once all rows of a pipeline are there.
//
// The rows are sorted once for each order, and functions that share an order follow each other.  Results go to their
// rows' places, so the rows stay in the order in which they came.  What a function needs of all rows (prefix sums, a
// tree) is made first; then each row is computed on its own.

#include "base/random.h"
#include "engine/exact.h"
#include "engine/window.h"

#define ROWS_MAX ((u64)1 << 31)

typedef struct WindowRun {
    QueryRun            *run;
    const FinishWindows *finish;
    WindowMemory         memory;
    View                *views;        // by input
    View               **constants;    // by key: a column of a constant; made when it is needed
    u64                  n_rows;
    Sorted               sorted;
    const WindowOrder   *order;        // of SORTED
} WindowRun;

static weft_status alloc_for_query(void *context, size_t bytes, void **out) { return query_alloc(context, bytes, out); }

static size_t cell_size(ViewKind kind) { return kind == VIEW_WIDE || kind == VIEW_TEXT ? 16 : 8; }

// ---- inputs ---------------------------------------------------------------------------------------------------------

static weft_status make_constant(WindowRun *w, const Expr *key, View **out)
{
    View *view = *out = arena_make(w->run->arena, View);
    void *data;
    u8   *nulls;
    *view = (View){ .kind = view_kind(key->type), .type = key->type };
    TRY(query_alloc(w->run, (w->n_rows + 1) * cell_size(view->kind), &data));
    view->data = data;
    if (key->value.is_null) {
        TRY(query_alloc(w->run, w->n_rows + 1, (void **)&nulls));
        memset(nulls, 1, w->n_rows + 1);
        view->nulls = nulls;
        return WEFT_OK;
    }
    for (u64 r = 0; r < w->n_rows; r++) {
        if (query_should_stop(w->run, r)) return query_canceled(w->run);
        switch (view->kind) {
            case VIEW_FLOAT: ((double *)data)[r] = key->value.f; break;
            case VIEW_WIDE:  ((i128 *)data)[r] = key->value.i; break;
            case VIEW_TEXT:
                ((weft_text *)data)[r] = (weft_text){ key->value.text.bytes, key->value.text.length };
                break;
            default:         ((i64 *)data)[r] = (i64)key->value.i; break;
        }
    }
    return WEFT_OK;
}

// A key's values; *OUT NULL where KEY is -1.
static weft_status view_of_key(WindowRun *w, int key, View **out)
{
    *out = NULL;
    if (key < 0) return WEFT_OK;
    if (w->finish->places[key] >= 0) *out = &w->views[w->finish->places[key]];
    else {
        if (!w->constants[key]) TRY(make_constant(w, w->finish->keys[key], &w->constants[key]));
        *out = w->constants[key];
    }
    return WEFT_OK;
}

// Groups come in an order of their own (Tie): from here on their place in it is their number.
static weft_status put_in_order(WindowRun *w, const Order *order, View *view)
{
    const size_t size = cell_size(view->kind);
    u8          *data, *nulls = NULL;
    TRY(query_alloc(w->run, (order->n_rows + 1) * size, (void **)&data));
    if (view->nulls) TRY(query_alloc(w->run, order->n_rows + 1, (void **)&nulls));
    for (u64 r = 0; r < order->n_rows; r++) {
        const u64 row = order->rows[order->first + r];
        if (query_should_stop(w->run, r)) return query_canceled(w->run);
        memcpy(data + r * size, (const u8 *)view->data + row * size, size);
        if (nulls) nulls[r] = view->nulls[row];
    }
    view->data = data, view->nulls = nulls, view->shown = NULL;
    return WEFT_OK;
}

// ---- orders ---------------------------------------------------------------------------------------------------------

static bool is_null_in(const View *view, u64 row) { return view->nulls && view->nulls[row]; }

typedef struct WindowKeys { const View *views; ViewKey *keys; int n_partition, n_keys; } WindowKeys;

static bool is_same_row(const void *context, bool all_keys, u64 a, u64 b)
{
    const WindowKeys *keys = context;
    for (int k = 0; k < (all_keys ? keys->n_keys : keys->n_partition); k++) {
        const View *view = &keys->views[keys->keys[k].view];
        const bool  a_null = is_null_in(view, a), b_null = is_null_in(view, b);
        if (a_null != b_null || (!a_null && compare_view_cells(view, a, b) != 0)) return false;
    }
    return true;
}

static weft_status sort_for(WindowRun *w, const WindowOrder *order)
{
    WindowKeys keys = { .views = w->views, .keys = arena_array(w->run->arena, ViewKey, order->n_keys + 1) };
    u64       *rows;
    bool       is_stopped;
    for (int k = 0; k < order->n_keys; k++) {
        const SortKey *key = &order->keys[k];
        if (w->finish->places[key->column] < 0) continue;                      // a constant
        keys.keys[keys.n_keys++] = (ViewKey){ w->finish->places[key->column], key->descending, key->nulls_first };
        if (k < order->n_partition) keys.n_partition = keys.n_keys;
    }
    TRY(sort_views(w->run, w->views, w->n_rows, keys.keys, keys.n_keys, &rows));
    w->sorted = (Sorted){ .n_rows = w->n_rows, .rows = rows };
    w->order = order;
    TRY(sorted_group(&w->memory, &(Likeness){ is_same_row, &keys }, &w->sorted, &is_stopped));
    return is_stopped ? query_canceled(w->run) : WEFT_OK;
}

// ---- frames ---------------------------------------------------------------------------------------------------------

static i128 ten_to(int n)
{
    i128 power = 1;
    for (; n > 0; n--) power *= 10;
    return power;
}

static bool has_offset(const FrameBound *bound)
{
    return bound->edge == EDGE_PRECEDING || bound->edge == EDGE_FOLLOWING;
}

static int scale_of(Type type) { return type.kind == TYPE_DECIMAL || type.kind == TYPE_NUMERIC ? type.scale : 0; }

// The offset in units of a key of SCALE.  Where it has more digits behind the point, no key lies between it and the
// next unit, so that it is rounded towards the keys that are in range.  One that is too large has all in range.
static i128 scaled_offset(const FrameBound *bound, int scale, bool is_start, bool descending)
{
    const Type type = bound->offset.type;
    const i128 offset = bound->offset.i;
    i128       scaled;
    if (!has_offset(bound) || type.kind == TYPE_INTERVAL || type_is_float(type)) return 0;
    if (scale_of(type) > scale) {
        const i128 unit = ten_to(scale_of(type) - scale);
        const bool subtracts = (bound->edge == EDGE_PRECEDING) != descending, is_most = is_start == descending;
        return offset / unit + (subtracts == is_most && offset % unit != 0);
    }
    return __builtin_mul_overflow(offset, ten_to(scale - scale_of(type)), &scaled) ? ten_to(38) : scaled;
}

static weft_status look_at_frame(WindowRun *w, const WindowFunc *func, FrameLook *look)
{
    const Frame *frame = &func->frame;
    View        *view;
    int          scale = 0;
    *look = (FrameLook){ .frame = frame, .sorted = &w->sorted };
    if (frame->unit == FRAME_RANGE && (has_offset(&frame->start) || has_offset(&frame->end))) {
        const SortKey *key = &w->order->keys[w->order->n_partition];
        TRY(view_of_key(w, key->column, &view));
        look->view = view, look->descending = key->descending, look->nulls_first = key->nulls_first;
        scale = scale_of(view->type);
    }
    look->start = scaled_offset(&frame->start, scale, true, look->descending);
    look->end = scaled_offset(&frame->end, scale, false, look->descending);
    return WEFT_OK;
}

// ---- a function at work ---------------------------------------------------------------------------------------------

typedef enum Trouble { TROUBLE_NONE, TROUBLE_RANGE, TROUBLE_NTILE, TROUBLE_NTH } Trouble;

typedef struct PartWork {              // an aggregate over frames
    const WindowPart *part;
    const View       *view;            // its argument; NULL: count(*)
    PrefixSums        sums;
    MinTree           tree;            // min, max: of keys that order the values
    const u64        *row_of_key;      // where a key is a row's number in the order of values: the row
    const i64        *code_of_rank;    // where it is a rank
} PartWork;

typedef struct FuncWork {
    const WindowRun  *w;
    const WindowFunc *func;
    const Sorted     *sorted;
    const View       *arg, *n;         // NULL: it has none
    FrameLook         look;
    PartWork         *parts;
    Arena           **arenas;          // by part of the work: for the interpreter; NULL: it is not used
    ViewKind          kind;            // of the result
    u8               *data, *nulls;
    _Atomic int       trouble;
    Error            *errors;          // by part of the work: of the interpreter
} FuncWork;

static void put_int(const FuncWork *work, u64 row, i128 value)
{
    if (work->kind == VIEW_WIDE) ((i128 *)work->data)[row] = value;
    else ((i64 *)work->data)[row] = (i64)value;
}

static void put_float(const FuncWork *work, u64 row, double value) { ((double *)(void *)work->data)[row] = value; }

// The argument's value at another row, or NULL.
static void put_row(const FuncWork *work, u64 row, const View *from, u64 source)
{
    const size_t size = cell_size(work->kind);
    if (is_null_in(from, source)) work->nulls[row] = 1;
    else memcpy(work->data + row * size, (const u8 *)from->data + source * size, size);
}

// What lag, nth_value and others take besides: a number of the row itself.  False: it is NULL.
static bool number_of(const FuncWork *work, u64 row, i64 *n)
{
    *n = 1;
    if (!work->n) return true;
    if (is_null_in(work->n, row)) return false;
    *n = ((const i64 *)work->n->data)[row];
    return true;
}

static void set_trouble(FuncWork *work, Trouble trouble)
{
    atomic_store_explicit(&work->trouble, (int)trouble, memory_order_relaxed);
}

// ---- by place -------------------------------------------------------------------------------------------------------

// N rows are distributed to TILES of them, the first ones one larger.
static i64 tile_of(u64 at, u64 n, u64 tiles)
{
    const u64 size = n / tiles, n_larger = n % tiles;
    if (at < n_larger * (size + 1)) return (i64)(at / (size + 1)) + 1;
    return (i64)(n_larger + (at - n_larger * (size + 1)) / size) + 1;
}

static void put_tile(FuncWork *work, u64 place, u64 row)
{
    const Stretch part = sorted_part(work->sorted, place);
    i64           tiles;
    if (!number_of(work, sorted_row(work->sorted, part.first), &tiles)) work->nulls[row] = 1;      // the first row's
    else if (tiles <= 0) set_trouble(work, TROUBLE_NTILE);
    else put_int(work, row, tile_of(place - part.first, part.end - part.first, (u64)tiles));
}

static void put_rank(const FuncWork *work, u64 place, u64 row)
{
    const Sorted *sorted = work->sorted;
    const Stretch part = sorted_part(sorted, place), peers = sorted_peers(sorted, place);
    const u32     group = sorted->group_of[place], first_group = sorted->part_group[sorted->part_of[group]];
    const double  n = (double)(part.end - part.first), before = (double)(peers.first - part.first);
    switch (work->func->kind) {
        case WINDOW_ROW_NUMBER:   put_int(work, row, (i128)(place - part.first) + 1); break;
        case WINDOW_RANK:         put_int(work, row, (i128)(peers.first - part.first) + 1); break;
        case WINDOW_DENSE_RANK:   put_int(work, row, (i128)(group - first_group) + 1); break;
        case WINDOW_PERCENT_RANK: put_float(work, row, n > 1 ? before / (n - 1) : 0); break;
        default:                  put_float(work, row, (double)(peers.end - part.first) / n); break;
    }
}

static void put_neighbour(const FuncWork *work, u64 place, u64 row)
{
    const Stretch part = sorted_part(work->sorted, place);
    i64           n;
    if (!number_of(work, row, &n)) {
        work->nulls[row] = 1;
        return;
    }
    const i128 at = work->func->kind == WINDOW_LAG ? (i128)place - n : (i128)place + n;
    if (at < (i128)part.first || at >= (i128)part.end) work->nulls[row] = 1;
    else put_row(work, row, work->arg, sorted_row(work->sorted, (u64)at));
}

// The N-th place of a frame, from 1 on.  False: it has none.
static bool place_in_frame(const Stretches *frame, u64 n, u64 *place)
{
    for (int s = 0; s < frame->n; s++) {
        const u64 n_here = frame->list[s].end - frame->list[s].first;
        *place = frame->list[s].first + n - 1;
        if (n <= n_here) return true;
        n -= n_here;
    }
    return false;
}

static void put_value_of_frame(FuncWork *work, u64 place, u64 row)
{
    const Stretches frame = frame_of(&work->look, place);
    u64             at = 0;
    bool            is_there = frame.n > 0;
    i64             n = 1;
    if (work->func->kind == WINDOW_LAST_VALUE) at = is_there ? frame.list[frame.n - 1].end - 1 : 0;
    else if (!number_of(work, row, &n)) is_there = false;
    else if (n <= 0) set_trouble(work, TROUBLE_NTH), is_there = false;
    else is_there = place_in_frame(&frame, (u64)n, &at);
    if (is_there) put_row(work, row, work->arg, sorted_row(work->sorted, at));
    else work->nulls[row] = 1;
}

// ---- aggregates -----------------------------------------------------------------------------------------------------

static double float_of_key(u64 key)
{
    const u64 bits = key >> 63 ? key ^ (u64)1 << 63 : ~key;
    double    value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void extreme_of(const PartWork *part, const Stretches *frame, Value *value)
{
    const u64  least = tree_least(&part->tree, frame);
    const u64  key = part->part->kind == AGG_MAX ? ~least : least;
    const View *view = part->view;
    if (part->row_of_key && view->kind == VIEW_WIDE) value->i = ((const i128 *)view->data)[part->row_of_key[key]];
    else if (part->row_of_key && view->kind == VIEW_CODE) value->i = ((const i64 *)view->data)[part->row_of_key[key]];
    else if (part->row_of_key) {
        const weft_text text = ((const weft_text *)view->data)[part->row_of_key[key]];
        value->text.bytes = text.bytes, value->text.length = (u32)text.length;
    } else if (part->code_of_rank) value->i = part->code_of_rank[key];
    else if (view->kind == VIEW_FLOAT) value->f = float_of_key(key) + 0.0;
    else value->i = (i64)(key ^ (u64)1 << 63);
}

// The aggregate of a frame.  Text of a dictionary comes as its code.
static void value_of_part(FuncWork *work, const PartWork *part, const Stretches *frame, Value *value)
{
    const AggKind kind = part->part->kind;
    const u64     count = prefix_count(&part->sums, frame);
    *value = (Value){ .type = part->part->type };
    if (kind == AGG_COUNT || kind == AGG_COUNT_ALL) {
        value->i = count;
    } else if (count == 0) {
        value->is_null = true;
    } else if (kind == AGG_MIN || kind == AGG_MAX) {
        extreme_of(part, frame, value);
    } else if (part->view->kind == VIEW_FLOAT) {
        value->f = prefix_float(&part->sums, frame, kind, count);
    } else {
        if (!prefix_int(&part->sums, frame, &value->i)) set_trouble(work, TROUBLE_RANGE);
        if (value->type.kind == TYPE_BIGINT && (value->i < INT64_MIN || value->i > INT64_MAX))
            set_trouble(work, TROUBLE_RANGE);
        if (kind == AGG_AVG && !exact_average(value, part->view->type, (i64)count)) set_trouble(work, TROUBLE_RANGE);
    }
}

static void put_value(const FuncWork *work, u64 row, const Value *value)
{
    if (value->is_null) work->nulls[row] = 1;
    else if (work->kind == VIEW_FLOAT) put_float(work, row, value->f);
    else if (work->kind == VIEW_TEXT)
        ((weft_text *)work->data)[row] = (weft_text){ value->text.bytes, value->text.length };
    else put_int(work, row, value->i);
}

typedef struct PartValues { const WindowFunc *func; const Value *values; } PartValues;

static void give_part(void *context, const Expr *node, Value *value)
{
    const PartValues *parts = context;
    for (int p = 0; p < parts->func->n_parts; p++)
        if (parts->func->parts[p].column == node->column) *value = parts->values[p];
}

enum { PARTS_MAX = 16 };

static void put_aggregate(FuncWork *work, int part, u64 place, u64 row)
{
    const WindowFunc *func = work->func;
    const Stretches   frame = frame_of(&work->look, place);
    Value             values[PARTS_MAX], value;
    for (int p = 0; p < func->n_parts; p++) value_of_part(work, &work->parts[p], &frame, &values[p]);
    if (!func->built) {
        put_value(work, row, &values[0]);
        return;
    }
    PartValues        given = { func, values };
    const EvalContext context = { .arena = work->arenas[part], .column = give_part, .context = &given };
    if (work->errors[part].status) return;
    if (!expr_eval(func->built, &context, &value, &work->errors[part])) put_value(work, row, &value);
}

static void put_random(const FuncWork *work, u64 row)
{
    const u64 bits = random_bits(work->func->seed, row);
    if (work->kind == VIEW_FLOAT) put_float(work, row, random_share(bits));
    else put_int(work, row, (i64)bits);
}

static void compute_rows(void *context, int part, u64 first, u64 end)
{
    FuncWork *work = context;
    for (u64 place = first; place < end; place++) {
        const u64 row = sorted_row(work->sorted, place);
        switch (work->func->kind) {
            case WINDOW_NTILE:     put_tile(work, place, row); break;
            case WINDOW_LAG: case WINDOW_LEAD: put_neighbour(work, place, row); break;
            case WINDOW_FIRST_VALUE: case WINDOW_LAST_VALUE: case WINDOW_NTH_VALUE:
                put_value_of_frame(work, place, row);
                break;
            case WINDOW_AGGREGATE: put_aggregate(work, part, place, row); break;
            case WINDOW_RANDOM:    put_random(work, row); break;
            default:               put_rank(work, place, row); break;
        }
    }
}

// ---- what an aggregate needs of all rows ----------------------------------------------------------------------------

typedef struct LeafRun { const PartWork *part; const Sorted *sorted; const u64 *order_of; u64 *leaves; } LeafRun;

static u64 key_of_float(double value)
{
    u64 bits;
    if (value != value) return UINT64_MAX;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (u64)1 << 63;
}

static u64 key_of_cell(const LeafRun *run, u64 row)
{
    const View *view = run->part->view;
    if (run->order_of) return run->order_of[row];
    if (view->kind == VIEW_FLOAT) return key_of_float(((const double *)view->data)[row]);
    const i64 cell = ((const i64 *)view->data)[row];
    return view->kind == VIEW_CODE ? view->ranks[cell] : (u64)cell ^ (u64)1 << 63;
}

static void fill_leaves(void *context, int part, u64 first, u64 end)
{
    const LeafRun *run = context;
    const bool     is_max = run->part->part->kind == AGG_MAX;
    for (u64 place = first; place < end; place++) {
        const u64 row = sorted_row(run->sorted, place);
        if (is_null_in(run->part->view, row)) run->leaves[place] = UINT64_MAX;
        else run->leaves[place] = is_max ? ~key_of_cell(run, row) : key_of_cell(run, row);
    }
}

// Values that are no 64-bit numbers are sorted first: a key is the place in that order.
static weft_status order_values(WindowRun *w, View *view, PartWork *part, u64 **order_of)
{
    u64 *rows;
    TRY(sort_views(w->run, view, w->n_rows, &(ViewKey){ 0 }, 1, &rows));
    if (!rows) TRY(query_alloc(w->run, (w->n_rows + 1) * sizeof *rows, (void **)&rows));   // one row: it is 0
    TRY(query_alloc(w->run, (w->n_rows + 1) * sizeof **order_of, (void **)order_of));
    for (u64 r = 0; r < w->n_rows; r++) {
        if (query_should_stop(w->run, r)) return query_canceled(w->run);
        (*order_of)[rows[r]] = r;
    }
    part->row_of_key = rows;
    return WEFT_OK;
}

static bool has_numbers(const WindowRun *w, const View *view)
{
    if (view->kind == VIEW_CODE) return view->ranks || query_wants_ranks(w->run, view, w->n_rows, w->n_rows);
    return view->kind != VIEW_WIDE && view->kind != VIEW_TEXT;
}

static weft_status codes_by_rank(WindowRun *w, View *view, PartWork *part)
{
    i64 *codes;
    if (!view->ranks) TRY(query_ranks(w->run, view->dict, view->dict_count, &view->ranks));
    TRY(query_alloc(w->run, ((size_t)view->dict_count + 1) * sizeof *codes, (void **)&codes));
    for (u32 code = 0; code < view->dict_count; code++) codes[view->ranks[code]] = code;
    part->code_of_rank = codes;
    return WEFT_OK;
}

static weft_status make_tree(WindowRun *w, View *view, PartWork *part)
{
    const RowParts parts = team_split(&w->memory.team, w->n_rows);
    LeafRun        run = { .part = part, .sorted = &w->sorted };
    u64           *order_of = NULL;
    if (!has_numbers(w, view)) TRY(order_values(w, view, part, &order_of));
    else if (view->kind == VIEW_CODE) TRY(codes_by_rank(w, view, part));
    TRY(tree_room(&w->memory, w->n_rows, &part->tree));
    run.order_of = order_of, run.leaves = part->tree.keys + w->n_rows;
    if (!team_rows(&w->memory.team, &parts, fill_leaves, &run)) return query_canceled(w->run);
    return tree_build(&w->memory.team, &part->tree) ? WEFT_OK : query_canceled(w->run);
}

static weft_status prepare_part(WindowRun *w, const WindowPart *part, PartWork *out)
{
    const bool is_extreme = part->kind == AGG_MIN || part->kind == AGG_MAX;
    const bool is_count = part->kind == AGG_COUNT || part->kind == AGG_COUNT_ALL;
    View      *view;
    bool       is_stopped;
    *out = (PartWork){ .part = part };
    TRY(view_of_key(w, part->arg, &view));
    out->view = view;
    TRY(prefix_make(&w->memory, &w->sorted, view, !is_extreme && !is_count, &out->sums, &is_stopped));
    if (is_stopped) return query_canceled(w->run);
    return is_extreme ? make_tree(w, view, out) : WEFT_OK;
}

static weft_status prepare_parts(WindowRun *w, FuncWork *work, int n_work_parts)
{
    const WindowFunc *func = work->func;
    if (func->n_parts > PARTS_MAX) return fail(w->run->err, WEFT_INTERNAL, func->at, "an aggregate has too many parts");
    work->parts = arena_array(w->run->arena, PartWork, func->n_parts + 1);
    for (int p = 0; p < func->n_parts; p++) TRY(prepare_part(w, &func->parts[p], &work->parts[p]));
    if (!func->built) return WEFT_OK;
    work->arenas = arena_array(w->run->arena, Arena *, n_work_parts + 1);
    work->errors = arena_array(w->run->arena, Error, n_work_parts + 1);
    for (int p = 0; p < n_work_parts; p++) work->arenas[p] = arena_new(w->run->arena, "window");
    return WEFT_OK;
}

// ---- results --------------------------------------------------------------------------------------------------------

// A value that comes from the argument is of its kind, text in its dictionary.
static void start_view(const FuncWork *work, View *out)
{
    const bool  is_extreme = work->parts && !work->func->built &&
                            (work->parts[0].part->kind == AGG_MIN || work->parts[0].part->kind == AGG_MAX);
    const View *from = is_extreme ? work->parts[0].view : work->arg;
    *out = (View){ .kind = view_kind(work->func->type), .type = work->func->type };
    if (!from) return;
    out->kind = from->kind, out->dict = from->dict, out->dict_count = from->dict_count;
}

static weft_status report_trouble(WindowRun *w, FuncWork *work, int n_work_parts)
{
    Error    *err = w->run->err;
    const int at = work->func->at;
    for (int p = 0; work->errors && p < n_work_parts; p++) {
        if (!work->errors[p].status) continue;
        *err = work->errors[p];
        return err->status;
    }
    switch ((Trouble)atomic_load(&work->trouble)) {
        case TROUBLE_RANGE:
            return fail(err, WEFT_OUT_OF_RANGE, at, "%s out of range",
                        work->func->type.kind == TYPE_BIGINT ? "bigint" : "numeric");
        case TROUBLE_NTILE:
            return fail(err, WEFT_BAD_NTILE, at, "argument of ntile must be greater than zero");
        case TROUBLE_NTH:
            return fail(err, WEFT_BAD_NTH_VALUE, at, "argument of nth_value must be greater than zero");
        case TROUBLE_NONE: break;
    }
    return WEFT_OK;
}

static weft_status compute_func(WindowRun *w, const WindowFunc *func, View *out)
{
    const RowParts parts = team_split(&w->memory.team, w->n_rows);
    FuncWork       work = { .w = w, .func = func, .sorted = &w->sorted };
    View          *arg, *n;
    TRY(view_of_key(w, func->arg, &arg));
    TRY(view_of_key(w, func->n, &n));
    work.arg = arg, work.n = n;
    if (window_uses_frame(func->kind)) TRY(look_at_frame(w, func, &work.look));
    if (func->kind == WINDOW_STRING_AGG)
        return window_join_texts(w->run, &work.look, arg, n, func->is_distinct, out);
    if (func->kind == WINDOW_AGGREGATE) TRY(prepare_parts(w, &work, parts.n_parts));
    start_view(&work, out);
    work.kind = out->kind;
    TRY(query_alloc(w->run, (w->n_rows + 1) * cell_size(work.kind), (void **)&work.data));
    TRY(query_alloc(w->run, w->n_rows + 1, (void **)&work.nulls));
    if (!team_rows(&w->memory.team, &parts, compute_rows, &work)) return query_canceled(w->run);
    TRY(report_trouble(w, &work, parts.n_parts));
    out->data = work.data, out->nulls = work.nulls;
    return WEFT_OK;
}

// The functions of one order after the other; OUT by function.
static weft_status compute_all(WindowRun *w, View *out)
{
    const Windows *windows = w->finish->windows;
    for (int o = 0; o < windows->n_orders; o++) {
        bool is_sorted = false;
        for (int i = 0; i < w->finish->n_funcs; i++) {
            const int f = w->finish->funcs[i];
            if (windows->funcs[f].order != o) continue;
            if (!is_sorted) TRY(sort_for(w, &windows->orders[o]));
            is_sorted = true;
            TRY(compute_func(w, &windows->funcs[f], &out[i]));
        }
    }
    return WEFT_OK;
}

weft_status window_finish(QueryRun *run, int pipeline, Finished *finished)
{
    const FinishWindows *finish = run->graph->pipelines[pipeline].finish.windows;
    const double         start = time_now_ms();
    WindowRun            w = { .run = run, .finish = finish, .views = finished->views };
    View                *views = arena_array(run->arena, View, finish->n_passed + finish->n_funcs + 1);
    w.n_rows = finished->order.n_rows;
    w.memory = (WindowMemory){ alloc_for_query, run, query_team(run) };
    w.constants = arena_array(run->arena, View *, finish->n_keys + 1);
    if (w.n_rows > ROWS_MAX)
        return fail(run->err, WEFT_UNSUPPORTED, finish->windows->funcs[0].at,
                    "window functions over more than %llu rows", (unsigned long long)ROWS_MAX);
    for (int i = 0; finished->order.rows && i < finish->n_inputs; i++)
        TRY(put_in_order(&w, &finished->order, &w.views[i]));
    TRY(compute_all(&w, views + finish->n_passed));
    memcpy(views, w.views, (size_t)finish->n_passed * sizeof *views);
    *finished = (Finished){ .views = views, .n_rows = w.n_rows, .order = { .n_rows = w.n_rows } };
    run->reports[pipeline].window_ms = time_now_ms() - start;
    run->reports[pipeline].window_rows = w.n_rows;
    return WEFT_OK;
}
