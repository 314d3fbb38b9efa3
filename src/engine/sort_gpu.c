// sort_gpu.c - rows that a GPU left, put in order by it.
//
// The rows are in the host's memory by then.  Only their keys go back, as numbers, and the order comes: 12 bytes a row
// over the link, where sorting on all threads reads and writes 32 bytes a row some twenty times.  All keys of a row are
// one number of up to 256 bits, each key in as many bits as its range over these rows takes:
//
//     order by a desc nulls first, b        a in 1000 .. 1700 with NULLs, b in 0 .. 99
//     [ a is there | 1700 - a | b - 0 ]     1 + 10 + 7 bits: three passes of 8 bits
//
// So the device compares numbers only, and skips what ranges leave out.  Where that is not all of a key (long texts,
// more than 256 bits, groups whose keys break ties), rows of equal numbers are neighbours afterwards, and the host puts
// these in order; where they are very many, it sorts all.
//
// Refused: rows that stay on the device until they are sorted, and come back in order.  It would save the way of the
// keys, a third of what an answer of two columns takes over the link, and the host's gathering of rows.  But groups,
// texts by rank and outputs that the host computes are on the host anyway, and rows would hold device memory longer.

#include "engine/sort_int.h"

#define GPU_SORT_ROWS ((u64)1 << 20)     // auto: fewer are sorted by the host before the device would be asked
#define COMPILE_ROWS  ((u64)1 << 23)     // so many are worth waiting for the compiler (as in table.c)
#define TOP_SHARE     16                 // auto: of so many rows one is wanted: the host keeps the first in heaps

enum {
    BITS_MOST = 64 * SORT_WORDS,
    CODE_BITS = 128,                     // of a key, at most
    TEXT_BYTES = 16,                     // of a text, behind what all have in common
    RUN_ROWS_MOST = 1 << 16,             // of rows that the host has to compare
};

// ---- keys as numbers ------------------------------------------------------------------------------------------------

// Which bytes of texts are looked at: those behind what all have in common, as far as any goes.
typedef struct TextPart { size_t skip, n_bytes; } TextPart;

typedef struct CodedKey {
    const View *view;
    bool        descending, nulls_first, has_null;
    u128        low, high;               // of its numbers, without NULLs
    TextPart    part;
    int         n_bits;                  // of the key, with one for NULLs
    int         n_cut;                   // of its last bits, which are left out
    int         shift;                   // of its last bit, from the end of the whole number
} CodedKey;

typedef struct Coded {
    const Sorter *sorter;
    RowCompare   *compare;
    CodedKey     *keys;
    int           n_keys, n_bits, n_words;         // keys: those that are part of the number
    bool          is_exact;                        // rows of equal numbers have equal keys, and nothing breaks ties
} Coded;

static bool is_null(const View *view, u64 row) { return view->nulls && view->nulls[row]; }

// Zeros stand for bytes behind the end.
static u128 number_of_text(weft_text text, TextPart part)
{
    u128 number = 0;
    for (size_t i = part.skip; i < part.skip + part.n_bytes; i++)
        number = number << 8 | (i < text.length ? (u8)text.bytes[i] : 0);
    return number;
}

// Of a row that is not NULL.
static u128 number_of(const View *view, TextPart part, u64 row)
{
    switch (view->kind) {
        case VIEW_INT:   return prefix_of_int(((const i64 *)view->data)[row]);
        case VIEW_CODE:  return view->ranks[((const i64 *)view->data)[row]];
        case VIEW_FLOAT: return prefix_of_float(((const double *)view->data)[row]);
        case VIEW_WIDE:  return (u128)view_wide(view, row) ^ (u128)1 << 127;
        default:         return number_of_text(((const weft_text *)view->data)[row], part);
    }
}

// With the bit for NULLs first: a row that is NULL has no other.
static u128 code_of(const CodedKey *key, u64 row)
{
    const int  value_bits = key->n_bits - key->has_null - key->n_cut;
    const bool is_missing = key->has_null && is_null(key->view, row);
    const u128 number = is_missing ? 0 : number_of(key->view, key->part, row);
    const u128 whole = is_missing ? 0 : key->descending ? key->high - number : number - key->low;
    const u128 code = key->n_cut < CODE_BITS ? whole >> key->n_cut : 0;
    const bool comes_last = is_missing != key->nulls_first;
    return key->has_null && comes_last ? code | (u128)1 << value_bits : code;
}

// Bits BASE .. BASE + 63 of the whole number, counted from its end.
static u64 word_of(const Coded *coded, int base, u64 row)
{
    u64 word = 0;
    for (int k = 0; k < coded->n_keys; k++) {
        const CodedKey *key = &coded->keys[k];
        if (key->shift >= base + 64 || key->shift + key->n_bits - key->n_cut <= base) continue;
        const u128 code = code_of(key, row);
        word |= key->shift >= base ? (u64)(code << (key->shift - base)) : (u64)(code >> (base - key->shift));
    }
    return word;
}

static int base_of(const Coded *coded, int word) { return 64 * (coded->n_words - 1 - word); }

static void write_word(void *context, int word, u64 first, u64 end, void *to)
{
    const Coded *coded = context;
    const int    base = base_of(coded, word);
    if (coded->n_bits > 32)
        for (u64 r = first; r < end; r++) ((u64 *)to)[r - first] = word_of(coded, base, r);
    else
        for (u64 r = first; r < end; r++) ((u32 *)to)[r - first] = (u32)word_of(coded, base, r);
}

// ---- their ranges ---------------------------------------------------------------------------------------------------

typedef struct KeyRange {
    u128   low, high;                              // low > high: no value so far
    bool   has_null;
    size_t skip, longest, shortest;                // of texts
} KeyRange;

typedef struct RangeLook {
    const View      *view;
    TextPart         part;
    const weft_text *first;                        // text: some
    KeyRange        *ranges;                       // by part
} RangeLook;

static void look_at_numbers(void *context, int part, u64 first, u64 end)
{
    const RangeLook *look = context;
    KeyRange        *range = &look->ranges[part];
    for (u64 r = first; r < end; r++) {
        if (is_null(look->view, r)) {
            range->has_null = true;
            continue;
        }
        const u128 number = number_of(look->view, look->part, r);
        range->low = MIN_OF(range->low, number), range->high = MAX_OF(range->high, number);
    }
}

static void look_at_texts(void *context, int part, u64 first, u64 end)
{
    const RangeLook *look = context;
    KeyRange        *range = &look->ranges[part];
    for (u64 r = first; r < end; r++) {
        const weft_text text = ((const weft_text *)look->view->data)[r];
        size_t          n = 0;
        if (is_null(look->view, r)) continue;
        while (n < range->skip && n < text.length && text.bytes[n] == look->first->bytes[n]) n++;
        range->skip = n;
        range->longest = MAX_OF(range->longest, text.length), range->shortest = MIN_OF(range->shortest, text.length);
    }
}

// WORK over all rows, by all threads; *ALL: what the parts found together.
static weft_status look_at(const Sorter *sorter, const RowParts *parts, RangeLook *look,
                           void (*work)(void *context, int part, u64 first, u64 end), KeyRange *all)
{
    const KeyRange none = { .low = ~(u128)0, .skip = look->first ? look->first->length : 0, .shortest = SIZE_MAX };
    look->ranges = arena_array(sorter->run->arena, KeyRange, parts->n_parts + 1);
    for (int p = 0; p < parts->n_parts; p++) look->ranges[p] = none;
    if (!team_rows(&sorter->team, parts, work, look)) return query_canceled(sorter->run);
    *all = none;
    for (int p = 0; p < parts->n_parts; p++) {
        const KeyRange *range = &look->ranges[p];
        all->low = MIN_OF(all->low, range->low), all->high = MAX_OF(all->high, range->high);
        all->has_null |= range->has_null, all->skip = MIN_OF(all->skip, range->skip);
        all->longest = MAX_OF(all->longest, range->longest), all->shortest = MIN_OF(all->shortest, range->shortest);
    }
    return WEFT_OK;
}

// Zeros stand for what is behind a text's end, so texts of different lengths may have the same number.
static weft_status look_at_lengths(const Sorter *sorter, const RowParts *parts, RangeLook *look, bool *is_exact)
{
    const weft_text *texts = look->view->data;
    KeyRange         range;
    u64              r = 0;
    while (r < parts->n_rows && is_null(look->view, r)) r++;
    if (r == parts->n_rows) return WEFT_OK;
    look->first = &texts[r];
    TRY(look_at(sorter, parts, look, look_at_texts, &range));
    look->part = (TextPart){ range.skip, MIN_OF(range.longest - range.skip, TEXT_BYTES) };
    *is_exact = range.longest == range.shortest && range.longest - range.skip <= TEXT_BYTES;
    return WEFT_OK;
}

static int bits_of(u128 number)
{
    int n = 0;
    for (; number; number >>= 1) n++;
    return n;
}

static weft_status code_key(const Sorter *sorter, const RowParts *parts, const ViewKey *key, CodedKey *coded,
                            bool *is_exact)
{
    RangeLook look = { .view = &sorter->views[key->view] };
    KeyRange  range;
    if (look.view->kind == VIEW_TEXT) TRY(look_at_lengths(sorter, parts, &look, is_exact));
    TRY(look_at(sorter, parts, &look, look_at_numbers, &range));
    if (range.low > range.high) range.low = range.high = 0;        // all are NULL
    *coded = (CodedKey){ .view = look.view,
                         .descending = key->descending,
                         .nulls_first = key->nulls_first,
                         .has_null = range.has_null,
                         .low = range.low,
                         .high = range.high,
                         .part = look.part,
                         .n_bits = bits_of(range.high - range.low) + range.has_null };
    return WEFT_OK;
}

// The keys up to one that has too many bits, or of which a number is not all.
static weft_status code_keys(const Sorter *sorter, u64 n_rows, Coded *coded)
{
    const RowParts parts = team_split(&sorter->team, n_rows);
    *coded = (Coded){ .sorter = sorter, .keys = arena_array(sorter->run->arena, CodedKey, sorter->n_keys + 1),
                      .is_exact = true };
    for (int k = 0; k < sorter->n_keys && coded->is_exact; k++) {
        const int n_free = MIN_OF(BITS_MOST - coded->n_bits, CODE_BITS);
        CodedKey *key = &coded->keys[coded->n_keys];
        coded->is_exact = n_free > 0;
        if (!n_free) break;
        TRY(code_key(sorter, &parts, &sorter->keys[k], key, &coded->is_exact));
        key->n_cut = MAX_OF(key->n_bits - n_free, 0);
        coded->n_keys++;
        coded->is_exact &= key->n_cut == 0;
        coded->n_bits += key->n_bits - key->n_cut;
    }
    for (int k = 0, left = coded->n_bits; k < coded->n_keys; k++)
        coded->keys[k].shift = left -= coded->keys[k].n_bits - coded->keys[k].n_cut;
    coded->is_exact &= !sorter->tie;
    coded->n_words = MAX_OF((coded->n_bits + 63) / 64, 1);
    return WEFT_OK;
}

// ---- rows of equal numbers ------------------------------------------------------------------------------------------

typedef struct Runs {
    const Coded *coded;
    u64         *rows, *spare, n_rows;
    u8          *is_same;                          // as the row before it
    _Atomic bool are_long;
} Runs;

static void find_runs(void *context, int part, u64 first, u64 end)
{
    const Runs *runs = context;
    (void)part;
    for (u64 r = first; r < end; r++) {
        bool is_same = r > 0;
        for (int w = 0; w < runs->coded->n_words && is_same; w++) {
            const int base = base_of(runs->coded, w);
            is_same = word_of(runs->coded, base, runs->rows[r]) == word_of(runs->coded, base, runs->rows[r - 1]);
        }
        runs->is_same[r] = is_same;
    }
}

// From the bottom up: pairs of runs of 1, 2, 4 rows become one.
static void sort_run(const Coded *coded, u64 *rows, u64 *spare, u64 n)
{
    for (u64 width = 1; width < n; width *= 2) {
        for (u64 first = 0; first < n; first += 2 * width) {
            const u64 middle = MIN_OF(first + width, n), end = MIN_OF(first + 2 * width, n);
            for (u64 a = first, b = middle, to = first; to < end; to++) {
                const bool takes_b = a == middle || (b < end && coded->compare(coded->sorter, rows[b], rows[a]) < 0);
                spare[to] = takes_b ? rows[b++] : rows[a++];
            }
        }
        memcpy(rows, spare, n * sizeof *rows);
    }
}

// A run belongs to the part in which it begins.
static void sort_runs(void *context, int part, u64 first, u64 end)
{
    Runs *runs = context;
    (void)part;
    for (u64 r = first; r < end; r++) {
        u64 n = 1;
        if (runs->is_same[r]) continue;
        while (r + n < runs->n_rows && runs->is_same[r + n] && n <= RUN_ROWS_MOST) n++;
        if (n > RUN_ROWS_MOST) runs->are_long = true;
        else if (n > 1) sort_run(runs->coded, runs->rows + r, runs->spare + r, n);
        if (runs->are_long) return;
    }
}

// *ARE_LONG: there are runs that are not worth it, and nothing is in order.
static weft_status order_equals(const Coded *coded, u64 *rows, u64 n_rows, bool *are_long)
{
    const Sorter  *sorter = coded->sorter;
    const RowParts parts = team_split(&sorter->team, n_rows);
    Runs           runs = { .coded = coded, .rows = rows, .n_rows = n_rows };
    TRY(query_alloc(sorter->run, n_rows * sizeof *runs.spare + 8, (void **)&runs.spare));
    TRY(query_alloc(sorter->run, n_rows + 8, (void **)&runs.is_same));
    if (!team_rows(&sorter->team, &parts, find_runs, &runs) || !team_rows(&sorter->team, &parts, sort_runs, &runs))
        return query_canceled(sorter->run);
    *are_long = runs.are_long;
    return WEFT_OK;
}

// ---- the device -----------------------------------------------------------------------------------------------------

typedef struct Widen { const u32 *from; u64 *to; } Widen;

static void widen(void *context, int part, u64 first, u64 end)
{
    const Widen *rows = context;
    (void)part;
    for (u64 r = first; r < end; r++) rows->to[r] = rows->from[r];
}

static void note_refusal(QueryRun *run, const DeviceSort *sort)
{
    run->sort_report->refused = arena_printf(run->own, "%s", sort->refused);
    if (sort->is_unready) return;
    query_notice(run, arena_printf(run->own, "%s did not sort, the CPU did: %s", run->sort_device->name,
                                   sort->refused));
}

static void note_sort(QueryRun *run, const Coded *coded, const DeviceSort *sort, double time_ms)
{
    SortReport *report = run->sort_report;
    *report = (SortReport){ .device = run->sort_device,
                            .n_sorts = report->n_sorts + 1,
                            .n_bits = coded->n_bits,
                            .n_passes = sort->n_passes,
                            .n_rows = sort->n_rows,
                            .time_ms = report->time_ms + time_ms,
                            .kernel_ms = report->kernel_ms + sort->kernel_ms };
}

static weft_status ask_device(const Coded *coded, u32 *numbers, DeviceSort *sort)
{
    QueryRun *run = coded->sorter->run;
    sort->n_words = coded->n_words, sort->width = coded->n_bits > 32 ? 8 : 4;
    sort->write = write_word, sort->context = (void *)(uintptr_t)coded, sort->rows = numbers;
    sort->stop = coded->sorter->team.stop, sort->is_explained = run->is_explained;
    sort->may_compile = run->session->settings.gpu_wait || sort->n_rows >= COMPILE_ROWS;
    for (int w = 0; w < coded->n_words; w++) {
        const int n_bits = MIN_OF(coded->n_bits - base_of(coded, w), 64);
        sort->varies[w] = n_bits <= 0 ? 0 : ~(u64)0 >> (64 - n_bits);
    }
    return run->sort_device->sort(run->sort_device, sort, run->err);
}

// NUMBERS has room for all rows.
static weft_status sort_numbers(const Coded *coded, u32 *numbers, u64 n_rows, u64 **rows)
{
    const Sorter  *sorter = coded->sorter;
    QueryRun      *run = sorter->run;
    const double   start = time_now_ms();
    const RowParts parts = team_split(&sorter->team, n_rows);
    DeviceSort     sort = { .n_rows = n_rows };
    bool           are_long = false;
    u64           *out;
    TRY(ask_device(coded, numbers, &sort));
    if (sort.refused[0]) {
        note_refusal(run, &sort);
        return WEFT_OK;
    }
    TRY(query_alloc(run, (n_rows + 1) * sizeof *out, (void **)&out));
    if (!team_rows(&sorter->team, &parts, widen, &(Widen){ numbers, out })) return query_canceled(run);
    if (!coded->is_exact) TRY(order_equals(coded, out, n_rows, &are_long));
    if (are_long) run->sort_report->refused = "too many rows differ only behind what it compares";
    else note_sort(run, coded, &sort, time_now_ms() - start), *rows = out;
    return WEFT_OK;
}

static bool is_worth_it(const QueryRun *run, u64 n_rows, u64 n_wanted)
{
    const GpuSort how = run->session->settings.gpu_sort;
    if (!run->sort_device || how == GPU_SORT_OFF || n_rows > SORT_ROWS_MOST) return false;
    return how == GPU_SORT_ON || (n_rows >= GPU_SORT_ROWS && n_wanted >= n_rows / TOP_SHARE);
}

weft_status sort_on_gpu(const Sorter *sorter, RowCompare *compare, u64 n_rows, u64 n_wanted, u64 **rows)
{
    QueryRun *run = sorter->run;
    Budget   *budget = query_budget(run);
    const u64 bytes = (n_rows + 1) * sizeof(u32);
    void     *numbers = NULL;
    Coded     coded;
    *rows = NULL;
    if (!sorter->n_keys || !is_worth_it(run, n_rows, n_wanted)) return WEFT_OK;
    TRY(code_keys(sorter, n_rows, &coded));
    coded.compare = compare;
    TRY(mem_alloc(budget, bytes, &numbers, run->err));
    const weft_status status = sort_numbers(&coded, numbers, n_rows, rows);
    mem_free(budget, numbers, bytes);
    return status;
}
