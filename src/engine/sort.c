// sort.c - ORDER BY, LIMIT and OFFSET as a permutation of rows.
//
// Rows are sorted by a 64-bit prefix: order-preserving numbers of their keys, one behind the other, each in as many
// bits as its range over
// these rows takes, as far as 64 bits go.  Only equal prefixes are compared in full, and not even these where the
// prefix holds all of
// every key.  A merge sort on all threads, so ties keep the order of the source and a cancel is seen in the middle.
// With a small LIMIT heaps of the first rows replace most of the sort.  Many rows that a GPU left are sorted by it
// (sort_gpu.c).

#include "engine/sort_int.h"
#include "engine/spill.h"

ViewKind view_kind(Type type)
{
    if (type_is_float(type)) return VIEW_FLOAT;
    if (type.kind == TYPE_NUMERIC || type.kind == TYPE_INTERVAL) return VIEW_WIDE;
    return type.kind == TYPE_TEXT || type.kind == TYPE_NULL ? VIEW_TEXT : VIEW_INT;
}

// ---- comparing ------------------------------------------------------------------------------------------------------

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_text(weft_text a, weft_text b)
{
    const int order = memcmp(a.bytes, b.bytes, MIN_OF(a.length, b.length));
    return order ? order : COMPARE(a.length, b.length);
}

static int compare_codes(const View *view, i64 a, i64 b)
{
    if (a == b) return 0;
    if (view->ranks) return COMPARE(view->ranks[a], view->ranks[b]);
    return compare_text(dict_get(view->dict, (u32)a), dict_get(view->dict, (u32)b));
}

int compare_view_cells(const View *view, u64 a, u64 b)
{
    switch (view->kind) {
        case VIEW_INT:  return COMPARE(((const i64 *)view->data)[a], ((const i64 *)view->data)[b]);
        case VIEW_WIDE: {
            const i128 x = view_wide(view, a), y = view_wide(view, b);
            return COMPARE(x, y);
        }
        case VIEW_TEXT: return compare_text(((const weft_text *)view->data)[a], ((const weft_text *)view->data)[b]);
        case VIEW_CODE:  return compare_codes(view, ((const i64 *)view->data)[a], ((const i64 *)view->data)[b]);
        case VIEW_FLOAT: break;
    }
    const double x = ((const double *)view->data)[a], y = ((const double *)view->data)[b];
    return x != x || y != y ? (x != x) - (y != y) : COMPARE(x, y);
}

static int compare_rows(const Sorter *sorter, u64 a, u64 b)
{
    for (int k = 0; k < sorter->n_keys; k++) {
        const ViewKey *key = &sorter->keys[k];
        const View    *view = &sorter->views[key->view];
        const bool     a_null = view->nulls && view->nulls[a], b_null = view->nulls && view->nulls[b];
        if (a_null && b_null) continue;
        if (a_null || b_null) return a_null == key->nulls_first ? -1 : 1;
        const int order = compare_view_cells(view, a, b);
        if (order) return key->descending ? -order : order;
    }
    return sorter->tie ? sorter->tie->compare(sorter->tie->context, a, b)
                       : COMPARE(a, b);  // ties keep the order of the source
}

// ---- prefixes -------------------------------------------------------------------------------------------------------

// Of what follows the first SKIP bytes, which all texts have in common.
static u64 prefix_of_text(weft_text text, size_t skip)
{
    u64          prefix = 0;
    const size_t end = MIN_OF(text.length, skip + 8);
    for (size_t i = skip; i < end; i++) prefix |= (u64)(u8)text.bytes[i] << (56 - 8 * (i - skip));
    return prefix;
}

static i64 clamped(i128 value) { return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (i64)value; }

static u64 prefix_of(const View *view, const ViewKey *key, size_t skip, u64 row)
{
    u64 prefix = 0;
    if (view->nulls && view->nulls[row]) return key->nulls_first ? 0 : UINT64_MAX;
    switch (view->kind) {
        case VIEW_INT:   prefix = prefix_of_int(((const i64 *)view->data)[row]); break;
        case VIEW_CODE:  prefix = view->ranks[((const i64 *)view->data)[row]]; break;
        case VIEW_TEXT:  prefix = prefix_of_text(((const weft_text *)view->data)[row], skip); break;
        case VIEW_FLOAT: prefix = prefix_of_float(((const double *)view->data)[row]); break;
        case VIEW_WIDE:  prefix = prefix_of_int(clamped(view_wide(view, row))); break;
    }
    return key->descending ? ~prefix : prefix;
}

// What the rows have in one key.
typedef struct KeyFacts {
    u64    low, high;                  // of its prefixes
    size_t skip, longest, shortest;    // text: bytes that all have in common; lengths
    bool is_exact;  // a prefix says all: no NULL, whose prefix a value could have, and nothing cut off
} KeyFacts;

// A key that is looked at by all threads, each with facts of its own for each part.
typedef struct KeyLook {
    const View      *view;
    const ViewKey   *key;
    const weft_text *first;            // text: of the first row that is not NULL
    size_t           skip;
    u64             *prefixes;
    KeyFacts        *facts;            // by part
} KeyLook;

static bool view_is_null(const View *view, u64 row) { return view->nulls && view->nulls[row]; }

static size_t common_length(weft_text a, weft_text b, size_t most)
{
    size_t n = 0;
    while (n < most && n < b.length && a.bytes[n] == b.bytes[n]) n++;
    return n;
}

static void look_at_texts(void *context, int part, u64 first, u64 end)
{
    const KeyLook *look = context;
    KeyFacts      *facts = &look->facts[part];
    for (u64 r = first; r < end; r++) {
        const weft_text text = ((const weft_text *)look->view->data)[r];
        if (view_is_null(look->view, r)) continue;
        if (text.length < facts->skip || memcmp(look->first->bytes, text.bytes, facts->skip) != 0)
            facts->skip = common_length(*look->first, text, facts->skip);
        facts->longest = MAX_OF(facts->longest, text.length), facts->shortest = MIN_OF(facts->shortest, text.length);
    }
}

static void look_at_prefixes(void *context, int part, u64 first, u64 end)
{
    const KeyLook *look = context;
    const View    *view = look->view;
    KeyFacts      *facts = &look->facts[part];
    for (u64 r = first; r < end; r++) {
        const u64 prefix = look->prefixes[r] = prefix_of(view, look->key, look->skip, r);
        facts->low = MIN_OF(facts->low, prefix), facts->high = MAX_OF(facts->high, prefix);
        if (view_is_null(view, r)) facts->is_exact = false;
        else if (view->kind == VIEW_WIDE && clamped(view_wide(view, r)) != view_wide(view, r))
            facts->is_exact = false;
    }
}

static KeyFacts *new_facts(const Sorter *sorter, int n_parts, size_t skip)
{
    KeyFacts *facts = arena_array(sorter->run->arena, KeyFacts, n_parts + 1);
    for (int p = 0; p <= n_parts; p++)
        facts[p] = (KeyFacts){ .low = UINT64_MAX, .skip = skip, .shortest = SIZE_MAX, .is_exact = true };
    return facts;
}

static KeyFacts all_facts(const KeyFacts *parts, int n_parts)
{
    KeyFacts all = parts[0];
    for (int p = 1; p < n_parts; p++) {
        all.low = MIN_OF(all.low, parts[p].low), all.high = MAX_OF(all.high, parts[p].high);
        all.skip = MIN_OF(all.skip, parts[p].skip);
        all.longest = MAX_OF(all.longest, parts[p].longest), all.shortest = MIN_OF(all.shortest, parts[p].shortest);
        all.is_exact &= parts[p].is_exact;
    }
    return all;
}

// Sets what the texts have in common, before their prefixes are made.
static weft_status text_facts(const Sorter *sorter, const RowParts *parts, KeyLook *look, bool *is_exact)
{
    const weft_text *texts = look->view->data;
    u64              r = 0;
    while (r < parts->n_rows && view_is_null(look->view, r)) r++;
    if (r == parts->n_rows) return WEFT_OK;
    look->first = &texts[r];
    look->facts = new_facts(sorter, parts->n_parts, look->first->length);
    if (!team_rows(&sorter->team, parts, look_at_texts, look)) return query_canceled(sorter->run);
    const KeyFacts all = all_facts(look->facts, parts->n_parts);
    look->skip = all.skip;
    *is_exact = all.longest == all.shortest && all.longest <= all.skip + 8;
    return WEFT_OK;
}

static weft_status key_facts(const Sorter *sorter, const RowParts *parts, const ViewKey *key, u64 *prefixes,
                             KeyFacts *facts)
{
    KeyLook look = { .view = &sorter->views[key->view], .key = key, .prefixes = prefixes };
    bool    is_exact = true;
    if (look.view->kind == VIEW_TEXT) TRY(text_facts(sorter, parts, &look, &is_exact));
    look.facts = new_facts(sorter, parts->n_parts, 0);
    if (!team_rows(&sorter->team, parts, look_at_prefixes, &look)) return query_canceled(sorter->run);
    *facts = all_facts(look.facts, parts->n_parts);
    facts->is_exact &= is_exact;
    return WEFT_OK;
}

static int bits_of(u64 number)
{
    int bits = 0;
    for (; number; number >>= 1) bits++;
    return bits;
}

// ---- items ----------------------------------------------------------------------------------------------------------

typedef struct Item { u64 prefix, row; } Item;

static bool is_before(const Sorter *sorter, const Item *a, const Item *b)
{
    if (a->prefix != b->prefix) return a->prefix < b->prefix;
    return sorter->is_exact ? a->row < b->row : compare_rows(sorter, a->row, b->row) < 0;
}

// A key goes behind the keys before it, which left some bits; its last bits are cut off where they do not fit.
typedef struct AddKey { Item *items; const u64 *prefixes; u64 low; int cut, n_bits; } AddKey;

static void number_items(void *context, int part, u64 first, u64 end)
{
    const AddKey *add = context;
    for (u64 r = first; r < end; r++) add->items[r] = (Item){ 0, r };
}

static void add_prefixes(void *context, int part, u64 first, u64 end)
{
    const AddKey *add = context;
    for (u64 r = first; r < end; r++) {
        const u64 prefix = (add->prefixes[r] - add->low) >> add->cut;
        add->items[r].prefix = add->n_bits == 64 ? prefix : add->items[r].prefix << add->n_bits | prefix;
    }
}

static weft_status make_items(Sorter *sorter, Item *items, u64 n_rows)
{
    const RowParts parts = team_split(&sorter->team, n_rows);
    AddKey         add = { .items = items };
    int            n_free = 64;
    u64           *prefixes;
    TRY(query_alloc(sorter->run, (n_rows + 1) * sizeof *prefixes, (void **)&prefixes));
    if (!team_rows(&sorter->team, &parts, number_items, &add)) return query_canceled(sorter->run);
    sorter->is_exact = true;
    for (int k = 0; k < sorter->n_keys && sorter->is_exact; k++) {
        KeyFacts facts = { 0 };
        TRY(key_facts(sorter, &parts, &sorter->keys[k], prefixes, &facts));
        const int bits = bits_of(facts.high - facts.low), cut = MAX_OF(bits - n_free, 0);
        add.prefixes = prefixes, add.low = facts.low, add.cut = cut, add.n_bits = bits - cut;
        if (add.n_bits && !team_rows(&sorter->team, &parts, add_prefixes, &add)) return query_canceled(sorter->run);
        sorter->is_exact = facts.is_exact && bits <= n_free;
        n_free = MAX_OF(n_free - bits, 0);
    }
    sorter->is_exact = sorter->is_exact && !sorter->tie;
    return WEFT_OK;
}

// ---- merge sort -----------------------------------------------------------------------------------------------------
//
// Runs of RUN_ITEMS are sorted, a part of work each.  Then pairs of runs are merged, level by level.  The items of a
// level are cut into pieces of PIECE_ITEMS, again a part of work each, wherever the runs end: a binary search finds
// what each of the two runs gives to a piece.  So the last merge, of two runs, is as parallel as the first, and no
// result depends on the number of threads.

#define SHORT_ITEMS 16
#define RUN_ITEMS   ((u64)1 << 14)
#define PIECE_ITEMS ((u64)1 << 14)

typedef struct MergeSort { const Sorter *sorter; Item *from, *to; u64 n_items, width; } MergeSort;

static void sort_short(const Sorter *sorter, Item *items, u64 n)
{
    for (u64 i = 1; i < n; i++) {
        const Item item = items[i];
        u64        at = i;
        for (; at > 0 && is_before(sorter, &item, &items[at - 1]); at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

static void merge(const Sorter *sorter, const Item *a, u64 n_a, const Item *b, u64 n_b, Item *out)
{
    while (n_a && n_b) {
        if (is_before(sorter, b, a)) *out++ = *b++, n_b--;
        else *out++ = *a++, n_a--;
    }
    if (n_a) memcpy(out, a, n_a * sizeof *a);
    if (n_b) memcpy(out + n_a, b, n_b * sizeof *b);
}

// Gives where the sorted items are: in ITEMS or in SPARE.
static Item *sort_run(const Sorter *sorter, Item *items, Item *spare, u64 n)
{
    for (u64 first = 0; first < n; first += SHORT_ITEMS)
        sort_short(sorter, items + first, MIN_OF(SHORT_ITEMS, n - first));
    for (u64 width = SHORT_ITEMS; width < n; width *= 2) {
        for (u64 first = 0; first < n; first += 2 * width) {
            const u64 n_a = MIN_OF(width, n - first), n_b = MIN_OF(width, n - first - n_a);
            merge(sorter, items + first, n_a, items + first + n_a, n_b, spare + first);
        }
        Item *swap = items;
        items = spare, spare = swap;
    }
    return items;
}

static void sort_part(void *context, int part)
{
    const MergeSort *sort = context;
    const u64        first = (u64)part * RUN_ITEMS, n = MIN_OF(RUN_ITEMS, sort->n_items - first);
    if (team_is_stopped(&sort->sorter->team)) return;
    const Item *sorted = sort_run(sort->sorter, sort->from + first, sort->to + first, n);
    if (sorted != sort->from + first) memcpy(sort->from + first, sorted, n * sizeof *sorted);
}

// Of the first K items of A and B merged, how many are A's.
static u64 items_of_first(const Sorter *sorter, const Item *a, u64 n_a, const Item *b, u64 n_b, u64 k)
{
    u64 low = k > n_b ? k - n_b : 0, high = MIN_OF(k, n_a);
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
        if (is_before(sorter, &b[k - middle - 1], &a[middle])) high = middle;
        else low = middle + 1;
    }
    return low;
}

// The width is a multiple of the piece, so a piece lies within a pair.
static void merge_part(void *context, int part)
{
    const MergeSort *sort = context;
    const u64        first = (u64)part * PIECE_ITEMS, end = MIN_OF(first + PIECE_ITEMS, sort->n_items);
    const u64        pair = first / (2 * sort->width) * 2 * sort->width;
    const u64        n_a = MIN_OF(sort->width, sort->n_items - pair);
    const u64        n_b = MIN_OF(sort->width, sort->n_items - pair - n_a);
    const Item      *a = sort->from + pair, *b = a + n_a;
    if (team_is_stopped(&sort->sorter->team)) return;
    const u64 a_first = items_of_first(sort->sorter, a, n_a, b, n_b, first - pair),
              a_end = items_of_first(sort->sorter, a, n_a, b, n_b, end - pair);
    const u64 b_first = first - pair - a_first, b_end = end - pair - a_end;
    merge(sort->sorter, a + a_first, a_end - a_first, b + b_first, b_end - b_first, sort->to + first);
}

static int n_pieces(u64 n_items, u64 piece) { return (int)((n_items + piece - 1) / piece); }

static weft_status merge_sort(const Sorter *sorter, Item **items, Item *spare, u64 n)
{
    MergeSort sort = { sorter, *items, spare, n, RUN_ITEMS };
    if (!team_parts(&sorter->team, n_pieces(n, RUN_ITEMS), sort_part, &sort)) return query_canceled(sorter->run);
    for (; sort.width < n; sort.width *= 2) {
        if (!team_parts(&sorter->team, n_pieces(n, PIECE_ITEMS), merge_part, &sort)) return query_canceled(sorter->run);
        Item *swap = sort.from;
        sort.from = sort.to, sort.to = swap;
    }
    *items = sort.from;
    return WEFT_OK;
}

// ---- the first few --------------------------------------------------------------------------------------------------
//
// Each part of the rows keeps its first ones in a heap, the last of them on top; what is left of all parts is sorted.

typedef struct FirstItems { const Sorter *sorter; const RowParts *parts; Item *items; u64 n_wanted; } FirstItems;

static void sift_down(const Sorter *sorter, Item *heap, u64 n, u64 at)
{
    for (;;) {
        u64 last = at;
        for (u64 child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
            if (is_before(sorter, &heap[last], &heap[child])) last = child;
        if (last == at) return;
        const Item swap = heap[at];
        heap[at] = heap[last], heap[last] = swap;
        at = last;
    }
}

// The first rows of a part become a heap in their place.
static void keep_first_of_part(void *context, int part)
{
    const FirstItems *first = context;
    const Sorter     *sorter = first->sorter;
    const u64         begin = (u64)part * first->parts->part_rows;
    Item             *items = first->items + begin;
    const u64         n_rows = MIN_OF(first->parts->part_rows, first->parts->n_rows - begin);
    const u64         n = MIN_OF(first->n_wanted, n_rows);
    for (u64 at = n / 2; at-- > 0;) {
        if ((at & 4095) == 0 && team_is_stopped(&sorter->team)) return;
        sift_down(sorter, items, n, at);
    }
    for (u64 r = n; r < n_rows; r++) {
        if ((r & 4095) == 0 && team_is_stopped(&sorter->team)) return;
        if (!is_before(sorter, &items[r], &items[0])) continue;
        items[0] = items[r];
        sift_down(sorter, items, n, 0);
    }
}

// *N_LEFT: so many items, from the first on, hold all that are wanted.
static weft_status keep_first(const Sorter *sorter, Item *items, u64 n_rows, u64 n_wanted, u64 *n_left)
{
    const RowParts   parts = team_split(&sorter->team, n_rows);
    const FirstItems first = { sorter, &parts, items, n_wanted };
    *n_left = n_rows;
    if (!n_wanted || n_wanted >= parts.part_rows / 4) return WEFT_OK;          // little would be left out
    if (!team_parts(&sorter->team, parts.n_parts, keep_first_of_part, (void *)(uintptr_t)&first))
        return query_canceled(sorter->run);
    *n_left = 0;
    for (int p = 0; p < parts.n_parts; p++) {
        const u64 begin = (u64)p * parts.part_rows, n = MIN_OF(n_wanted, n_rows - begin);
        memmove(items + *n_left, items + begin, n * sizeof *items);
        *n_left += n;
    }
    return WEFT_OK;
}

// ---- texts by their codes -------------------------------------------------------------------------------------------
//
// Ranks order all texts of a dictionary, and are kept with it.  Where few rows are sorted, or few of them wanted, or
// memory is short, the texts of the rows are sorted instead: 16 bytes a row, of which a file may hold what is too much.

typedef struct LookUp { const View *view; weft_text *texts; } LookUp;

static void look_up_texts(void *context, int part, u64 first, u64 end)
{
    const LookUp *look = context;
    const i64    *codes = look->view->data;
    for (u64 r = first; r < end; r++)
        if (!view_is_null(look->view, r)) look->texts[r] = dict_get(look->view->dict, (u32)codes[r]);
}

static weft_status texts_of_codes(const Sorter *sorter, const View *view, u64 n_rows, View *out)
{
    const RowParts parts = team_split(&sorter->team, n_rows);
    LookUp         look = { .view = view };
    TRY(query_alloc(sorter->run, (n_rows + 1) * sizeof *look.texts, (void **)&look.texts));
    if (!team_rows(&sorter->team, &parts, look_up_texts, &look)) return query_canceled(sorter->run);
    *out = *view;
    out->kind = VIEW_TEXT, out->data = look.texts;
    return WEFT_OK;
}

// The views to sort by: copies, where some keys are texts that were looked up.
static weft_status views_of_keys(Sorter *sorter, View *views, u64 n_rows, u64 n_wanted)
{
    QueryRun *run = sorter->run;
    int       n_views = 0;
    for (int k = 0; k < sorter->n_keys; k++) n_views = MAX_OF(n_views, sorter->keys[k].view + 1);
    View *own = arena_array(run->arena, View, n_views + 1);
    for (int v = 0; v < n_views; v++) own[v] = views[v];
    for (int k = 0; k < sorter->n_keys; k++) {
        const int v = sorter->keys[k].view;
        View     *view = &views[v];
        if (own[v].kind != VIEW_CODE || own[v].ranks) continue;
        if (query_wants_ranks(run, view, n_rows, n_wanted)) {
            TRY(query_ranks(run, view->dict, view->dict_count, &view->ranks));
            own[v].ranks = view->ranks;
        } else {
            TRY(texts_of_codes(sorter, view, n_rows, &own[v]));
        }
    }
    sorter->views = own;
    return WEFT_OK;
}

static weft_status sort_rows(Sorter *sorter, View *views, u64 n_rows, u64 n_wanted, u64 **rows)
{
    QueryRun *run = sorter->run;
    Item     *items, *spare;
    u64       n_sorted, *out;
    TRY(views_of_keys(sorter, views, n_rows, n_wanted));
    TRY(sort_on_gpu(sorter, compare_rows, n_rows, n_wanted, rows));
    if (*rows) return WEFT_OK;
    TRY(query_alloc(run, (n_rows + 1) * sizeof *items, (void **)&items));
    TRY(make_items(sorter, items, n_rows));
    TRY(keep_first(sorter, items, n_rows, n_wanted, &n_sorted));
    TRY(query_alloc(run, (n_sorted + 1) * sizeof *spare, (void **)&spare));
    TRY(query_alloc(run, (n_sorted + 1) * sizeof *out, (void **)&out));
    TRY(merge_sort(sorter, &items, spare, n_sorted));
    for (u64 r = 0; r < n_sorted; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        out[r] = items[r].row;
    }
    *rows = out;
    return WEFT_OK;
}

weft_status sort_views(QueryRun *run, View *views, u64 n_rows, const ViewKey *keys, int n_keys, u64 **rows)
{
    Sorter sorter = { .run = run, .team = query_team(run), .views = views, .keys = keys, .n_keys = n_keys };
    *rows = NULL;
    return n_keys && n_rows > 1 ? sort_rows(&sorter, views, n_rows, n_rows, rows) : WEFT_OK;
}

// ---- DISTINCT ON, copies --------------------------------------------------------------------------------------------

static u64 row_at(const u64 *rows, u64 at) { return rows ? rows[at] : at; }

static bool same_keys(const Sorter *sorter, int n_keys, u64 a, u64 b)
{
    for (int k = 0; k < n_keys; k++) {
        const View *view = &sorter->views[sorter->keys[k].view];
        const bool  a_null = view->nulls && view->nulls[a], b_null = view->nulls && view->nulls[b];
        if (a_null != b_null || (!a_null && compare_view_cells(view, a, b) != 0)) return false;
    }
    return true;
}

// Of neighbours that are equal in the first keys the first one stays, or those that the Finish says.
static weft_status keep_distinct(const Sorter *sorter, const Finish *finish, u64 **rows, u64 *n_rows)
{
    const u64 first = (u64)finish->run_skipped, n_most = (u64)finish->run_more + 1;
    u64       n_kept = 0, *kept, head = 0, n_run = 0;        // a run's first row, and how many of it came so far
    TRY(query_alloc(sorter->run, (*n_rows + 1) * sizeof *kept, (void **)&kept));
    for (u64 r = 0; r < *n_rows; r++) {
        const u64 row = row_at(*rows, r);
        if (query_should_stop(sorter->run, r)) return query_canceled(sorter->run);
        if (!r || !same_keys(sorter, finish->n_distinct_on, head, row)) head = row, n_run = 0;
        if (n_run >= first && n_run - first < n_most) kept[n_kept++] = row;
        n_run++;
    }
    *rows = kept, *n_rows = n_kept;
    return WEFT_OK;
}

static i64 copies_of(const View *view, u64 row)
{
    return view->nulls && view->nulls[row] ? 0 : MAX_OF(((const i64 *)view->data)[row], 0);
}

static weft_status make_copies(QueryRun *run, const View *view, u64 **rows, u64 *n_rows)
{
    u64 n_all = 0, *all, n = 0;
    for (u64 r = 0; r < *n_rows; r++) n_all += (u64)copies_of(view, row_at(*rows, r));
    TRY(query_alloc(run, (n_all + 1) * sizeof *all, (void **)&all));
    for (u64 r = 0; r < *n_rows; r++)
        for (i64 c = copies_of(view, row_at(*rows, r)); c > 0; c--) {
            if (query_should_stop(run, n)) return query_canceled(run);
            all[n++] = row_at(*rows, r);
        }
    *rows = all, *n_rows = n_all;
    return WEFT_OK;
}

static int view_of(const Finish *finish, int column)
{
    int o = 0;
    while (o < finish->n_outputs && finish->outputs[o].column != column) o++;
    return o;
}

// A tie matters where not all rows are wanted: which of them are must not depend on which thread found them first.
weft_status order_rows(QueryRun *run, const Finish *finish, View *views, u64 n_rows, const Tie *tie, Order *order)
{
    const u64  offset = (u64)MAX_OF(finish->offset, 0), limit = (u64)finish->limit;
    const bool is_all = finish->limit < 0 || offset + limit < offset,
               drops_later = finish->n_distinct_on || finish->copies >= 0;
    ViewKey   *keys = arena_array(run->arena, ViewKey, finish->n_sort + 1);
    Sorter     sorter = {
        .run = run, .team = query_team(run), .views = views, .keys = keys, .n_keys = finish->n_sort, .tie = tie
    };
    u64       *rows = NULL, wanted = is_all ? n_rows : MIN_OF(n_rows, offset + limit);
    for (int k = 0; k < finish->n_sort; k++)
        keys[k] = (ViewKey){ view_of(finish, finish->sort[k].column), finish->sort[k].descending,
                             finish->sort[k].nulls_first };
    if (wanted == n_rows && !offset && !finish->n_distinct_on && !finish->windows) sorter.tie = NULL;
    const bool is_sorted = (finish->n_sort || sorter.tie) && n_rows > 1 && (wanted > offset || drops_later);
    if (is_sorted && !sorter.tie && spill_sort_suits(run, n_rows, drops_later ? n_rows : wanted))
        TRY(spill_sort(run, (SortWith){ sort_views, compare_view_cells }, views, finish->n_outputs, keys,
                       finish->n_sort, n_rows, drops_later ? n_rows : wanted));
    else if (is_sorted)
        TRY(sort_rows(&sorter, views, n_rows, drops_later ? n_rows : wanted, &rows));
    if (finish->n_distinct_on) TRY(keep_distinct(&sorter, finish, &rows, &n_rows));
    if (finish->copies >= 0) TRY(make_copies(run, &views[view_of(finish, finish->copies)], &rows, &n_rows));
    wanted = is_all ? n_rows : MIN_OF(n_rows, offset + limit);
    *order = (Order){ .rows = rows, .first = MIN_OF(offset, wanted), .n_rows = wanted - MIN_OF(offset, wanted) };
    return WEFT_OK;
}
