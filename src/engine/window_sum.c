// window_sum.c - sums and counts of any frame, from sums of all rows before a place.
//
// The sum of a frame is the difference of two such sums.  That is right only if sums are exact, and they are: integers
// of as many words as the values and their number can need.  Floats are integers times a power of two, so a sum of
// floats has one value, rounded once (exact.c), whatever the order of rows and the number of threads.
//
// Two words are kept for every place.  More words, which take floats of very different sizes or numerics of 128 bits,
// are kept for every 16th place, and what is between is added when asked for.

#include "engine/window.h"

#include <math.h>

#include "engine/exact.h"

enum { WORDS_MAX = EXACT_BITS / 64, LONG_STEP = 16, MANTISSA_BITS = 53 };

// ---- numbers --------------------------------------------------------------------------------------------------------

typedef struct Term { i128 number; int bit; } Term;                    // number * 2^bit, in units of the sums

static bool is_special(double value) { return isnan(value) || isinf(value); }

// The mantissa without its last zeros, and the exponent of its last bit.
static i64 split_float(double value, int *exponent)
{
    if (value == 0) return *exponent = 0, 0;
    i64       mantissa = (i64)ldexp(frexp(value, exponent), MANTISSA_BITS);
    const int n_zeros = __builtin_ctzll((u64)mantissa);
    *exponent += n_zeros - MANTISSA_BITS;
    return mantissa / ((i64)1 << n_zeros);
}

static bool is_null_row(const View *view, u64 row) { return view->nulls && view->nulls[row]; }

// False: it adds nothing.
static bool term_at(const PrefixSums *sums, u64 place, Term *term)
{
    const View *view = sums->view;
    const u64   row = sorted_row(sums->sorted, place);
    if (is_null_row(view, row)) return false;
    if (view->kind == VIEW_FLOAT) {
        const double value = ((const double *)view->data)[row];
        int          exponent;
        if (value == 0 || is_special(value)) return false;
        term->number = split_float(value, &exponent);
        term->bit = exponent - sums->unit;
        return true;
    }
    *term = (Term){ view->kind == VIEW_WIDE ? ((const i128 *)view->data)[row] : ((const i64 *)view->data)[row], 0 };
    return true;
}

// Adds or subtracts in two's complement; what is beyond the last word is lost, and is 0 by the choice of n_words.
static void add_term(u64 *words, int n_words, Term term, bool subtract)
{
    const i128 number = subtract ? -term.number : term.number;
    const int  shift = term.bit % 64;
    const u64  sign = number < 0 ? UINT64_MAX : 0;
    const u64  pieces[3] = { (u64)((u128)number << shift), shift ? (u64)(number >> (64 - shift)) : (u64)(number >> 64),
                             shift ? (u64)((number >> 64) >> (64 - shift)) : sign };
    u64        carry = 0;
    for (int i = term.bit / 64, n = 0; i < n_words; i++, n++) {
        const u128 sum = (u128)words[i] + (n < 3 ? pieces[n] : sign) + carry;
        words[i] = (u64)sum;
        carry = (u64)(sum >> 64);
    }
}

static void add_words(u64 *words, const u64 *more, int n_words, bool subtract)
{
    u64 carry = subtract;
    for (int i = 0; i < n_words; i++) {
        const u128 sum = (u128)words[i] + (subtract ? ~more[i] : more[i]) + carry;
        words[i] = (u64)sum;
        carry = (u64)(sum >> 64);
    }
}

// ---- how many words -------------------------------------------------------------------------------------------------

typedef struct SumExtent { int low, high; bool has_special, any; } SumExtent;  // of the bits that terms have

typedef struct ExtentLook { const PrefixSums *sums; SumExtent *extents; } ExtentLook;

static void measure_floats(void *context, int part, u64 first, u64 end)
{
    const ExtentLook *look = context;
    const View       *view = look->sums->view;
    SumExtent        *extent = &look->extents[part];
    for (u64 row = first; row < end; row++) {
        int exponent, top;
        if (is_null_row(view, row)) continue;
        const double value = ((const double *)view->data)[row];
        if (is_special(value)) extent->has_special = true;
        if (value == 0 || is_special(value)) continue;
        split_float(value, &exponent);
        frexp(value, &top);
        extent->low = extent->any ? MIN_OF(extent->low, exponent) : exponent;
        extent->high = extent->any ? MAX_OF(extent->high, top) : top;
        extent->any = true;
    }
}

static int bits_of_count(u64 n) { return n ? 64 - __builtin_clzll(n) : 1; }

static weft_status choose_words(const WindowMemory *memory, PrefixSums *sums, bool *is_stopped)
{
    const u64      n_rows = sums->sorted->n_rows;
    const RowParts parts = team_split(&memory->team, n_rows);
    ExtentLook     look = { .sums = sums };
    SumExtent      all = { 0 };
    sums->n_words = sums->view->kind == VIEW_WIDE ? 3 : 2;
    if (sums->view->kind == VIEW_FLOAT) {
        TRY(memory->alloc(memory->context, (size_t)parts.n_parts * sizeof *look.extents, (void **)&look.extents));
        *is_stopped = !team_rows(&memory->team, &parts, measure_floats, &look);
        for (int p = 0; p < parts.n_parts; p++) {
            const SumExtent own = look.extents[p];
            all.has_special |= own.has_special;
            if (!own.any) continue;
            all.low = all.any ? MIN_OF(all.low, own.low) : own.low;
            all.high = all.any ? MAX_OF(all.high, own.high) : own.high;
            all.any = true;
        }
        sums->unit = all.low, sums->has_special = all.has_special;
        sums->n_words = MAX_OF((all.high - all.low + bits_of_count(n_rows) + 2 + 63) / 64, 2);
        ASSERT(sums->n_words <= WORDS_MAX);
    }
    sums->step = sums->n_words == 2 ? 1 : LONG_STEP;
    return WEFT_OK;
}

// ---- counts ---------------------------------------------------------------------------------------------------------

typedef enum CountWhat { COUNT_VALUES, COUNT_PLUS, COUNT_MINUS } CountWhat;

typedef struct CountRun { const Sorted *sorted; const View *view; CountWhat what; u32 *before, *totals; } CountRun;

static bool counts(const CountRun *run, u64 place)
{
    const u64 row = sorted_row(run->sorted, place);
    if (is_null_row(run->view, row)) return false;
    if (run->what == COUNT_VALUES) return true;
    const double value = ((const double *)run->view->data)[row];
    return isnan(value) || (isinf(value) && (value > 0) == (run->what == COUNT_PLUS));
}

static void count_part(void *context, int part, u64 first, u64 end)
{
    const CountRun *run = context;
    for (u64 i = first; i < end; i++) run->totals[part] += counts(run, i);
}

static void count_places(void *context, int part, u64 first, u64 end)
{
    const CountRun *run = context;
    for (u64 i = first; i < end; i++) {
        run->before[i] = run->totals[part];
        run->totals[part] += counts(run, i);
    }
}

static weft_status count_before(const WindowMemory *memory, const PrefixSums *sums, CountWhat what, Counts *out,
                                bool *is_stopped)
{
    const u64      n_rows = sums->sorted->n_rows;
    const RowParts parts = team_split(&memory->team, n_rows);
    CountRun       run = { .sorted = sums->sorted, .view = sums->view, .what = what };
    u32            before = 0;
    TRY(memory->alloc(memory->context, (n_rows + 1) * sizeof *run.before, (void **)&run.before));
    TRY(memory->alloc(memory->context, (size_t)parts.n_parts * sizeof *run.totals, (void **)&run.totals));
    *is_stopped |= !team_rows(&memory->team, &parts, count_part, &run);
    for (int p = 0; p < parts.n_parts; p++) {
        const u32 own = run.totals[p];
        run.totals[p] = before;
        before += own;
    }
    *is_stopped |= !team_rows(&memory->team, &parts, count_places, &run);
    run.before[n_rows] = before;
    out->before = run.before;
    return WEFT_OK;
}

static u64 count_in(Counts counts, const Stretches *frame)
{
    u64 n = 0;
    for (int s = 0; s < frame->n; s++) {
        const Stretch stretch = frame->list[s];
        n += counts.before ? counts.before[stretch.end] - counts.before[stretch.first] : stretch.end - stretch.first;
    }
    return n;
}

u64 prefix_count(const PrefixSums *sums, const Stretches *frame) { return count_in(sums->values, frame); }

// ---- sums -----------------------------------------------------------------------------------------------------------

typedef struct SumRun { PrefixSums *sums; u64 *totals; } SumRun;

static void sum_part(void *context, int part, u64 first, u64 end)
{
    const SumRun     *run = context;
    const PrefixSums *sums = run->sums;
    Term              term;
    for (u64 i = first; i < end; i++)
        if (term_at(sums, i, &term)) add_term(run->totals + part * sums->n_words, sums->n_words, term, false);
}

static void sum_places(void *context, int part, u64 first, u64 end)
{
    const SumRun     *run = context;
    const PrefixSums *sums = run->sums;
    u64              *sum = run->totals + part * sums->n_words;
    const size_t      bytes = (size_t)sums->n_words * sizeof *sum;
    Term              term;
    for (u64 i = first; i < end; i++) {
        if (i % sums->step == 0) memcpy(sums->sums + i / sums->step * (u64)sums->n_words, sum, bytes);
        if (term_at(sums, i, &term)) add_term(sum, sums->n_words, term, false);
    }
}

static weft_status sum_before(const WindowMemory *memory, PrefixSums *sums, bool *is_stopped)
{
    const u64      n_rows = sums->sorted->n_rows, n_words = (u64)sums->n_words;
    const RowParts parts = team_split(&memory->team, n_rows);
    SumRun         run = { .sums = sums };
    u64            before[WORDS_MAX] = { 0 }, own[WORDS_MAX];
    TRY(memory->alloc(memory->context, (n_rows / sums->step + 2) * n_words * sizeof(u64), (void **)&sums->sums));
    TRY(memory->alloc(memory->context, (u64)parts.n_parts * n_words * sizeof(u64), (void **)&run.totals));
    *is_stopped |= !team_rows(&memory->team, &parts, sum_part, &run);
    for (int p = 0; p < parts.n_parts; p++) {
        memcpy(own, run.totals + (u64)p * n_words, n_words * sizeof *own);
        memcpy(run.totals + (u64)p * n_words, before, n_words * sizeof *own);
        add_words(before, own, sums->n_words, false);
    }
    *is_stopped |= !team_rows(&memory->team, &parts, sum_places, &run);
    if (n_rows % sums->step == 0) memcpy(sums->sums + n_rows / sums->step * n_words, before, n_words * sizeof *before);
    return WEFT_OK;
}

weft_status prefix_make(const WindowMemory *memory, const Sorted *sorted, const View *view, bool with_sums,
                        PrefixSums *out, bool *is_stopped)
{
    *out = (PrefixSums){ .sorted = sorted, .view = view };
    *is_stopped = false;
    if (view && view->nulls) TRY(count_before(memory, out, COUNT_VALUES, &out->values, is_stopped));
    if (!with_sums || *is_stopped) return WEFT_OK;
    TRY(choose_words(memory, out, is_stopped));
    if (out->has_special) {
        TRY(count_before(memory, out, COUNT_PLUS, &out->plus, is_stopped));
        TRY(count_before(memory, out, COUNT_MINUS, &out->minus, is_stopped));
    }
    return *is_stopped ? WEFT_OK : sum_before(memory, out, is_stopped);
}

// ---- the sum of a frame ---------------------------------------------------------------------------------------------

// SUM and all before PLACE.
static void add_before(const PrefixSums *sums, u64 place, bool subtract, u64 *sum)
{
    const u64 stored = place / sums->step;
    Term      term;
    add_words(sum, sums->sums + stored * (u64)sums->n_words, sums->n_words, subtract);
    for (u64 i = stored * sums->step; i < place; i++)
        if (term_at(sums, i, &term)) add_term(sum, sums->n_words, term, subtract);
}

static void sum_of_frame(const PrefixSums *sums, const Stretches *frame, u64 *sum)
{
    memset(sum, 0, (size_t)sums->n_words * sizeof *sum);
    for (int s = 0; s < frame->n; s++) {
        add_before(sums, frame->list[s].end, false, sum);
        add_before(sums, frame->list[s].first, true, sum);
    }
}

bool prefix_int(const PrefixSums *sums, const Stretches *frame, i128 *sum)
{
    u64 words[WORDS_MAX];
    sum_of_frame(sums, frame, words);
    *sum = (i128)((u128)words[0] | (u128)words[1] << 64);
    return sums->n_words == 2 || words[2] == (*sum < 0 ? UINT64_MAX : 0);
}

// exact.c takes signed parts: the words' halves, of which the last has the sign.
static int parts_of(const u64 *words, int n_words, i64 *parts)
{
    for (int w = 0; w < n_words; w++) {
        parts[2 * w] = (i64)(words[w] & UINT32_MAX);
        parts[2 * w + 1] = w + 1 < n_words ? (i64)(words[w] >> 32) : (i64)words[w] >> 32;
    }
    return 2 * n_words;
}

double prefix_float(const PrefixSums *sums, const Stretches *frame, AggKind kind, u64 count)
{
    u64 words[WORDS_MAX];
    i64 parts[2 * WORDS_MAX];
    if (sums->has_special) {
        const bool has_plus = count_in(sums->plus, frame) > 0, has_minus = count_in(sums->minus, frame) > 0;
        if (has_plus || has_minus) return has_plus && has_minus ? NAN : has_plus ? INFINITY : -INFINITY;
    }
    sum_of_frame(sums, frame, words);
    const int n_parts = parts_of(words, sums->n_words, parts);
    if (kind == AGG_SUM_REST) return exact_rest(parts, n_parts, 32, sums->unit);
    return exact_round(parts, n_parts, 32, sums->unit, kind == AGG_AVG ? count : 1);
}
