// sort.c - ORDER BY, LIMIT and OFFSET as a permutation of rows.
//
// Rows are sorted by a 64-bit prefix: order-preserving numbers of their keys, one behind the other, each in as many
// bits as its range over
// these rows takes, as far as 64 bits go.  Only equal prefixes are compared in full, and not even these where the
// prefix holds all of
// every key.  A merge sort, so ties keep the order of the source and a cancel is seen in the middle.  With a small
// LIMIT a heap of the
// first rows replaces the sort.

#include "engine/engine.h"

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

// By which it is sorted.
static i128 wide_of(const View *view, u64 row)
{
    const Value value = { .type = view->type, .i = ((const i128 *)view->data)[row] };
    return view->type.kind == TYPE_INTERVAL ? interval_micros(&value) : value.i;
}

int compare_view_cells(const View *view, u64 a, u64 b)
{
    switch (view->kind) {
        case VIEW_INT:  return COMPARE(((const i64 *)view->data)[a], ((const i64 *)view->data)[b]);
        case VIEW_WIDE: {
            const i128 x = wide_of(view, a), y = wide_of(view, b);
            return COMPARE(x, y);
        }
        case VIEW_TEXT: return compare_text(((const weft_text *)view->data)[a], ((const weft_text *)view->data)[b]);
        case VIEW_CODE:
            return COMPARE(view->ranks[((const i64 *)view->data)[a]], view->ranks[((const i64 *)view->data)[b]]);
        case VIEW_FLOAT: break;
    }
    const double x = ((const double *)view->data)[a], y = ((const double *)view->data)[b];
    return x != x || y != y ? (x != x) - (y != y) : COMPARE(x, y);
}

typedef struct ViewKey { int view; bool descending, nulls_first; } ViewKey;

typedef struct Sorter {
    QueryRun *run;
    const View *views;
    const ViewKey *keys;
    int n_keys;
    const Tie *tie;
    bool is_exact;
} Sorter;  // exact: equal prefixes, equal keys

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

static u64 prefix_of_int(i64 value) { return (u64)value ^ (u64)1 << 63; }

static u64 prefix_of_float(double value)
{
    u64 bits;
    if (value != value) return UINT64_MAX;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (u64)1 << 63;
}

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
        case VIEW_WIDE:  prefix = prefix_of_int(clamped(wide_of(view, row))); break;
    }
    return key->descending ? ~prefix : prefix;
}

// What the rows have in one key.
typedef struct KeyFacts {
    u64    low, high;                  // of its prefixes
    size_t skip;                       // text: bytes that all have in common
    bool is_exact;  // a prefix says all: no NULL, whose prefix a value could have, and nothing cut off
} KeyFacts;

static size_t common_length(weft_text a, weft_text b, size_t most)
{
    size_t n = 0;
    while (n < most && n < b.length && a.bytes[n] == b.bytes[n]) n++;
    return n;
}

static weft_status text_facts(const Sorter *sorter, const View *view, u64 n_rows, KeyFacts *facts)
{
    const weft_text *texts = view->data;
    const weft_text *first = NULL;
    size_t           longest = 0, shortest = SIZE_MAX;
    for (u64 r = 0; r < n_rows; r++) {
        if (query_should_stop(sorter->run, r)) return query_canceled(sorter->run);
        if (view->nulls && view->nulls[r]) continue;
        if (!first) first = &texts[r], facts->skip = first->length;
        if (texts[r].length < facts->skip || memcmp(first->bytes, texts[r].bytes, facts->skip) != 0)
            facts->skip = common_length(*first, texts[r], facts->skip);
        longest = MAX_OF(longest, texts[r].length), shortest = MIN_OF(shortest, texts[r].length);
    }
    facts->is_exact = longest == shortest && longest <= facts->skip + 8;
    return WEFT_OK;
}

static weft_status key_facts(const Sorter *sorter, const ViewKey *key, u64 *prefixes, u64 n_rows, KeyFacts *facts)
{
    const View *view = &sorter->views[key->view];
    *facts = (KeyFacts){ .low = UINT64_MAX, .is_exact = true };
    if (view->kind == VIEW_TEXT) TRY(text_facts(sorter, view, n_rows, facts));
    for (u64 r = 0; r < n_rows; r++) {
        const u64 prefix = prefixes[r] = prefix_of(view, key, facts->skip, r);
        if (query_should_stop(sorter->run, r)) return query_canceled(sorter->run);
        facts->low = MIN_OF(facts->low, prefix), facts->high = MAX_OF(facts->high, prefix);
        if (view->nulls && view->nulls[r]) facts->is_exact = false;
        else if (view->kind == VIEW_WIDE && clamped(wide_of(view, r)) != wide_of(view, r))
            facts->is_exact = false;
    }
    return WEFT_OK;
}

static int bits_of(u64 number)
{
    int bits = 0;
    for (; number; number >>= 1) bits++;
    return bits;
}

// ---- merge sort -----------------------------------------------------------------------------------------------------

typedef struct Item { u64 prefix, row; } Item;

static bool is_before(const Sorter *sorter, const Item *a, const Item *b)
{
    if (a->prefix != b->prefix) return a->prefix < b->prefix;
    return sorter->is_exact ? a->row < b->row : compare_rows(sorter, a->row, b->row) < 0;
}

// A key goes behind the keys before it, which left N_FREE bits; its last bits are cut off where they do not fit.
static weft_status add_prefixes(const Sorter *sorter, const u64 *prefixes, u64 low, int bits, int n_free, Item *items,
                                u64 n_rows)
{
    const int cut = MAX_OF(bits - n_free, 0), n_bits = bits - cut;
    for (u64 r = 0; r < n_rows && n_bits; r++) {
        if (query_should_stop(sorter->run, r)) return query_canceled(sorter->run);
        const u64 prefix = (prefixes[r] - low) >> cut;
        items[r].prefix = n_bits == 64 ? prefix : items[r].prefix << n_bits | prefix;
    }
    return WEFT_OK;
}

static weft_status make_items(Sorter *sorter, Item *items, u64 n_rows)
{
    int  n_free = 64;
    u64 *prefixes;
    TRY(query_alloc(sorter->run, (n_rows + 1) * sizeof *prefixes, (void **)&prefixes));
    for (u64 r = 0; r < n_rows; r++) items[r] = (Item){ 0, r };
    sorter->is_exact = true;
    for (int k = 0; k < sorter->n_keys && sorter->is_exact; k++) {
        KeyFacts facts;
        TRY(key_facts(sorter, &sorter->keys[k], prefixes, n_rows, &facts));
        const int bits = bits_of(facts.high - facts.low);
        TRY(add_prefixes(sorter, prefixes, facts.low, bits, n_free, items, n_rows));
        sorter->is_exact = facts.is_exact && bits <= n_free;
        n_free = MAX_OF(n_free - bits, 0);
    }
    sorter->is_exact = sorter->is_exact && !sorter->tie;
    return WEFT_OK;
}

#define RUN_ROWS 16

static void sort_short(const Sorter *sorter, Item *items, u64 n)
{
    for (u64 i = 1; i < n; i++) {
        const Item item = items[i];
        u64        at = i;
        for (; at > 0 && is_before(sorter, &item, &items[at - 1]); at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

static weft_status merge(const Sorter *sorter, const Item *a, u64 n_a, const Item *b, u64 n_b, Item *out)
{
    for (u64 n = 0; n_a && n_b; n++) {
        if (query_should_stop(sorter->run, n)) return query_canceled(sorter->run);
        if (is_before(sorter, b, a)) *out++ = *b++, n_b--;
        else *out++ = *a++, n_a--;
    }
    TRY(query_copy(sorter->run, out, a, n_a * sizeof *a));
    return query_copy(sorter->run, out + n_a, b, n_b * sizeof *b);
}

static weft_status merge_sort(const Sorter *sorter, Item **items, Item *spare, u64 n)
{
    for (u64 first = 0; first < n; first += RUN_ROWS) {
        if (query_should_stop(sorter->run, first / RUN_ROWS)) return query_canceled(sorter->run);
        sort_short(sorter, *items + first, MIN_OF(RUN_ROWS, n - first));
    }
    for (u64 width = RUN_ROWS; width < n; width *= 2) {
        for (u64 first = 0; first < n; first += 2 * width) {
            const u64 n_a = MIN_OF(width, n - first), n_b = MIN_OF(width, n - first - n_a);
            TRY(merge(sorter, *items + first, n_a, *items + first + n_a, n_b, spare + first));
        }
        Item *swap = *items;
        *items = spare, spare = swap;
    }
    return WEFT_OK;
}

// ---- the first few --------------------------------------------------------------------------------------------------

// A heap of the first N rows, the last of them on top.
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

static weft_status keep_first(const Sorter *sorter, Item *items, u64 n_rows, u64 n_wanted)
{
    for (u64 at = n_wanted / 2; at-- > 0;) {
        if (query_should_stop(sorter->run, at)) return query_canceled(sorter->run);
        sift_down(sorter, items, n_wanted, at);
    }
    for (u64 r = n_wanted; r < n_rows; r++) {
        if (query_should_stop(sorter->run, r)) return query_canceled(sorter->run);
        if (!is_before(sorter, &items[r], &items[0])) continue;
        items[0] = items[r];
        sift_down(sorter, items, n_wanted, 0);
    }
    return WEFT_OK;
}

static weft_status rank_codes(QueryRun *run, View *views, const ViewKey *keys, int n_keys)
{
    for (int k = 0; k < n_keys; k++) {
        View *view = &views[keys[k].view];
        if (view->kind == VIEW_CODE && !view->ranks) TRY(query_ranks(run, view->dict, view->dict_count, &view->ranks));
    }
    return WEFT_OK;
}

static weft_status sort_rows(Sorter *sorter, View *views, u64 n_rows, u64 n_wanted, u64 **rows)
{
    QueryRun *run = sorter->run;
    Item     *items, *spare;
    u64       n_sorted = n_rows, *out;
    TRY(rank_codes(run, views, sorter->keys, sorter->n_keys));
    TRY(query_alloc(run, n_rows * sizeof *items, (void **)&items));
    TRY(make_items(sorter, items, n_rows));
    if (n_wanted > 0 && n_wanted < n_rows / 4) {
        TRY(keep_first(sorter, items, n_rows, n_wanted));
        n_sorted = n_wanted;
    }
    TRY(query_alloc(run, n_sorted * sizeof *spare, (void **)&spare));
    TRY(query_alloc(run, (n_sorted + 1) * sizeof *out, (void **)&out));
    TRY(merge_sort(sorter, &items, spare, n_sorted));
    for (u64 r = 0; r < n_sorted; r++) {
        if (query_should_stop(run, r)) return query_canceled(run);
        out[r] = items[r].row;
    }
    *rows = out;
    return WEFT_OK;
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

// Of neighbours that are equal in the first keys the first one stays.
static weft_status keep_distinct(const Sorter *sorter, int n_keys, u64 **rows, u64 *n_rows)
{
    u64 n_kept = 0, *kept;
    TRY(query_alloc(sorter->run, (*n_rows + 1) * sizeof *kept, (void **)&kept));
    for (u64 r = 0; r < *n_rows; r++) {
        const u64 row = row_at(*rows, r);
        if (query_should_stop(sorter->run, r)) return query_canceled(sorter->run);
        if (n_kept && same_keys(sorter, n_keys, kept[n_kept - 1], row)) continue;
        kept[n_kept++] = row;
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
    Sorter     sorter = { .run = run, .views = views, .keys = keys, .n_keys = finish->n_sort, .tie = tie };
    u64       *rows = NULL, wanted = is_all ? n_rows : MIN_OF(n_rows, offset + limit);
    for (int k = 0; k < finish->n_sort; k++)
        keys[k] = (ViewKey){ view_of(finish, finish->sort[k].column), finish->sort[k].descending,
                             finish->sort[k].nulls_first };
    if (wanted == n_rows && !offset && !finish->n_distinct_on) sorter.tie = NULL;
    if ((finish->n_sort || sorter.tie) && n_rows > 1 && (wanted > offset || drops_later))
        TRY(sort_rows(&sorter, views, n_rows, drops_later ? n_rows : wanted, &rows));
    if (finish->n_distinct_on) TRY(keep_distinct(&sorter, finish->n_distinct_on, &rows, &n_rows));
    if (finish->copies >= 0) TRY(make_copies(run, &views[view_of(finish, finish->copies)], &rows, &n_rows));
    wanted = is_all ? n_rows : MIN_OF(n_rows, offset + limit);
    *order = (Order){ .rows = rows, .first = MIN_OF(offset, wanted), .n_rows = wanted - MIN_OF(offset, wanted) };
    return WEFT_OK;
}
