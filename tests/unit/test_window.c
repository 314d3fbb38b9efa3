// Frames, prefix sums and trees of window functions against the plainest way: every row looks at every other row.

#include "test.h"

#include "engine/exact.h"
#include "engine/window.h"

enum { ROWS = 120, ROUNDS = 400 };

static u64 seed;

static u32 draw(u32 n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (u32)((seed >> 33) % n);
}

static weft_status alloc_in_arena(void *arena, size_t bytes, void **out)
{
    *out = arena_alloc(arena, bytes);
    return WEFT_OK;
}

typedef struct Rows {                  // in sorted order: partition, then key, NULLs last or first
    u64    n;
    int    part[ROWS], group[ROWS];    // group: its number
    i64    key[ROWS];
    double real[ROWS];                 // the key as a double, with NaN and infinities
    u8     is_null[ROWS];
    i64    value[ROWS];
    double number[ROWS];
    u8     value_null[ROWS];
    bool   descending, nulls_first, has_reals;
} Rows;

static int compare_reals(double a, double b)
{
    return isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b);
}

static int compare(const Rows *rows, u64 a, u64 b)
{
    if (rows->part[a] != rows->part[b]) return rows->part[a] - rows->part[b];
    if (rows->is_null[a] || rows->is_null[b])
        return rows->is_null[a] == rows->is_null[b] ? 0 : rows->is_null[a] == rows->nulls_first ? -1 : 1;
    const int order = rows->has_reals ? compare_reals(rows->real[a], rows->real[b])
                                      : (rows->key[a] > rows->key[b]) - (rows->key[a] < rows->key[b]);
    return rows->descending ? -order : order;
}

static void swap_rows(Rows *rows, u64 a, u64 b)
{
#define SWAP(field)                                                 \
    do {                                                            \
        __typeof__(rows->field[0]) swap_ = rows->field[a];          \
        rows->field[a] = rows->field[b], rows->field[b] = swap_;    \
    } while (0)
    SWAP(part);
    SWAP(key);
    SWAP(real);
    SWAP(is_null);
#undef SWAP
}

static double draw_real(void)
{
    static const double specials[] = { NAN, INFINITY, -INFINITY };
    if (draw(8) == 0) return specials[draw(3)];
    return ((double)draw(1000) - 500) * ldexp(1, (int)draw(40) - 20);
}

static void draw_rows(Rows *rows)
{
    rows->n = 1 + draw(ROWS);
    rows->descending = draw(2), rows->nulls_first = draw(2), rows->has_reals = draw(2);
    const u32 n_parts = 1 + draw(4), n_keys = 1 + draw(20);
    for (u64 i = 0; i < rows->n; i++) {
        rows->part[i] = (int)draw(n_parts), rows->key[i] = draw(n_keys), rows->is_null[i] = draw(6) == 0;
        rows->real[i] = draw(3) ? (double)draw(n_keys) / 2 : draw_real();
        rows->value[i] = (i64)draw(2000) - 1000, rows->value_null[i] = draw(5) == 0;
        rows->number[i] = draw_real();
    }
    for (u64 i = 1; i < rows->n; i++)
        for (u64 at = i; at > 0 && compare(rows, at, at - 1) < 0; at--) swap_rows(rows, at, at - 1);
    for (u64 i = 0; i < rows->n; i++) rows->group[i] = i ? rows->group[i - 1] + (compare(rows, i - 1, i) != 0) : 0;
}

static bool is_same(const void *context, bool all_keys, u64 a, u64 b)
{
    const Rows *rows = context;
    return all_keys ? compare(rows, a, b) == 0 : rows->part[a] == rows->part[b];
}

static Frame draw_frame(const Rows *rows)
{
    Frame frame = { .unit = (FrameUnit)draw(3), .exclude = (FrameExclude)draw(4) };
    frame.start.edge = (FrameEdge)draw(4);
    const u32 least = MAX_OF((u32)frame.start.edge, 1);
    frame.end.edge = (FrameEdge)(least + draw(5 - least));
    FrameBound *bounds[] = { &frame.start, &frame.end };
    for (int b = 0; b < 2; b++) {
        bounds[b]->offset = (Value){ .type = TYPE(BIGINT), .i = draw(6) };
        if (rows->has_reals && frame.unit == FRAME_RANGE)
            bounds[b]->offset = (Value){ .type = TYPE(DOUBLE), .f = draw(10) ? draw(6) / 2.0 : INFINITY };
    }
    return frame;
}

// ---- the plainest way -----------------------------------------------------------------------------------------------

static bool real_in_range(double value, double base, double offset, bool subtract, bool less)
{
    if (isnan(value) || isnan(base)) return isnan(value) && isnan(base) ? true : isnan(value) ? !less : less;
    const double bound = subtract ? base - offset : base + offset;
    if (isnan(bound)) return true;                          // infinity less infinity: all of them
    return less ? value <= bound : value >= bound;
}

// Whether row J is not before the start, or not after the end, of row I's frame.
static bool is_inside(const Rows *rows, const Frame *frame, bool is_start, u64 i, u64 j)
{
    const FrameBound *bound = is_start ? &frame->start : &frame->end;
    const int         sign = bound->edge == EDGE_PRECEDING ? -1 : 1;
    const i64         offset = bound->edge == EDGE_CURRENT ? 0 : (i64)bound->offset.i * sign;
    if (bound->edge == EDGE_FIRST || bound->edge == EDGE_LAST) return true;
    if (frame->unit == FRAME_ROWS) return is_start ? (i64)j >= (i64)i + offset : (i64)j <= (i64)i + offset;
    const int distance = rows->group[j] - rows->group[i];
    if (frame->unit == FRAME_GROUPS) return is_start ? distance >= offset : distance <= offset;
    if (bound->edge == EDGE_CURRENT) return is_start ? distance >= 0 : distance <= 0;
    if (rows->is_null[i] || rows->is_null[j]) {
        if (rows->is_null[i] == rows->is_null[j]) return true;
        const bool j_is_first = rows->is_null[j] == rows->nulls_first;
        return is_start ? !j_is_first : j_is_first;
    }
    const bool subtract = (sign < 0) != rows->descending, less = is_start == rows->descending;
    if (rows->has_reals) return real_in_range(rows->real[j], rows->real[i], bound->offset.f, subtract, less);
    const i64 edge = subtract ? rows->key[i] - (i64)bound->offset.i : rows->key[i] + (i64)bound->offset.i;
    return less ? rows->key[j] <= edge : rows->key[j] >= edge;
}

static bool is_in_frame(const Rows *rows, const Frame *frame, u64 i, u64 j)
{
    if (rows->part[i] != rows->part[j]) return false;
    if (!is_inside(rows, frame, true, i, j) || !is_inside(rows, frame, false, i, j)) return false;
    const bool is_peer = compare(rows, i, j) == 0;
    switch (frame->exclude) {
        case EXCLUDE_CURRENT: return i != j;
        case EXCLUDE_GROUP:   return !is_peer;
        case EXCLUDE_TIES:    return i == j || !is_peer;
        default:              return true;
    }
}

// ---- frames ---------------------------------------------------------------------------------------------------------

static bool is_listed(const Stretches *list, u64 place)
{
    for (int s = 0; s < list->n; s++)
        if (place >= list->list[s].first && place < list->list[s].end) return true;
    return false;
}

typedef struct Trial {
    Arena       *arena;
    Rows         rows;
    Frame        frame;
    Sorted       sorted;
    View         keys;
    FrameLook    look;
    WindowMemory memory;
} Trial;

static void start_trial(Trial *trial, u64 round)
{
    bool is_stopped;
    seed = round;
    trial->arena = arena_new(NULL, "test");
    trial->memory = (WindowMemory){ alloc_in_arena, trial->arena, { .n_threads = 1 } };
    draw_rows(&trial->rows);
    trial->frame = draw_frame(&trial->rows);
    trial->sorted = (Sorted){ .n_rows = trial->rows.n };
    CHECK_INT(sorted_group(&trial->memory, &(Likeness){ is_same, &trial->rows }, &trial->sorted, &is_stopped), WEFT_OK);
    CHECK(!is_stopped);
    trial->keys = (View){ .kind = trial->rows.has_reals ? VIEW_FLOAT : VIEW_INT, .nulls = trial->rows.is_null,
                          .data = trial->rows.has_reals ? (void *)trial->rows.real : (void *)trial->rows.key };
    trial->look = (FrameLook){ .frame = &trial->frame, .sorted = &trial->sorted, .view = &trial->keys,
                               .descending = trial->rows.descending, .nulls_first = trial->rows.nulls_first,
                               .start = trial->frame.start.offset.i, .end = trial->frame.end.offset.i };
    if (trial->rows.has_reals && trial->frame.unit == FRAME_RANGE) trial->look.start = trial->look.end = 0;
}

TEST(frames_are_what_every_row_would_say)
{
    for (u64 round = 1; round <= ROUNDS; round++) {
        Trial trial;
        start_trial(&trial, round);
        for (u64 i = 0; i < trial.rows.n; i++) {
            const Stretches frame = frame_of(&trial.look, i);
            for (u64 j = 0; j < trial.rows.n; j++)
                if (is_listed(&frame, j) != is_in_frame(&trial.rows, &trial.frame, i, j))
                    CHECK_FAIL("round %llu: row %llu in the frame of row %llu", (unsigned long long)round,
                               (unsigned long long)j, (unsigned long long)i);
        }
        arena_free(trial.arena);
    }
}

// ---- sums, counts, extremes -----------------------------------------------------------------------------------------

// A sum of doubles by 128-bit integers: the test's numbers are multiples of 2^-20 below 2^40.
static double plain_sum(const Trial *trial, u64 i, u64 *count)
{
    i128 sum = 0;
    bool has_plus = false, has_minus = false;
    *count = 0;
    for (u64 j = 0; j < trial->rows.n; j++) {
        const double number = trial->rows.number[j];
        if (trial->rows.value_null[j] || !is_in_frame(&trial->rows, &trial->frame, i, j)) continue;
        ++*count;
        has_plus |= isnan(number) || number == INFINITY, has_minus |= isnan(number) || number == -INFINITY;
        if (isfinite(number)) sum += (i128)(number * 1048576);
    }
    if (has_plus || has_minus) return has_plus && has_minus ? NAN : has_plus ? INFINITY : -INFINITY;
    return ldexp((double)sum, -20);
}

TEST(sums_of_frames_are_exact)
{
    for (u64 round = 1; round <= ROUNDS; round++) {
        Trial      trial;
        PrefixSums ints, floats;
        bool       is_stopped;
        start_trial(&trial, round);
        const View values = { .kind = VIEW_INT, .data = trial.rows.value, .nulls = trial.rows.value_null };
        const View numbers = { .kind = VIEW_FLOAT, .data = trial.rows.number, .nulls = trial.rows.value_null };
        CHECK_INT(prefix_make(&trial.memory, &trial.sorted, &values, true, &ints, &is_stopped), WEFT_OK);
        CHECK_INT(prefix_make(&trial.memory, &trial.sorted, &numbers, true, &floats, &is_stopped), WEFT_OK);
        for (u64 i = 0; i < trial.rows.n; i++) {
            const Stretches frame = frame_of(&trial.look, i);
            i128            sum = 0, expected = 0;
            u64             count;
            for (u64 j = 0; j < trial.rows.n; j++)
                if (!trial.rows.value_null[j] && is_in_frame(&trial.rows, &trial.frame, i, j))
                    expected += trial.rows.value[j];
            const double number = plain_sum(&trial, i, &count), got = prefix_float(&floats, &frame, AGG_SUM, count);
            CHECK(prefix_int(&ints, &frame, &sum));
            CHECK_INT((i64)sum, (i64)expected);
            CHECK_INT(prefix_count(&ints, &frame), count);
            CHECK(compare_reals(number, got) == 0);
        }
        arena_free(trial.arena);
    }
}

// Numbers of very different sizes need many words, which are stored for every 16th place only.
TEST(sums_of_very_different_floats_are_exact)
{
    static const double sizes[] = { 1e300, -1e300, 1e-300, 1, -1e-300, 0.1, 1e18, -0.1 };
    Arena              *arena = arena_new(NULL, "test");
    const WindowMemory  memory = { alloc_in_arena, arena, { .n_threads = 1 } };
    double              numbers[ROWS];
    const Sorted        sorted = { .n_rows = ROWS };
    const View          view = { .kind = VIEW_FLOAT, .data = numbers };
    PrefixSums          sums;
    bool                is_stopped;
    for (int i = 0; i < ROWS; i++) numbers[i] = sizes[i % COUNT_OF(sizes)];
    CHECK_INT(prefix_make(&memory, &sorted, &view, true, &sums, &is_stopped), WEFT_OK);
    CHECK(sums.n_words > 30 && sums.step > 1);
    for (u64 first = 0; first < ROWS; first++)
        for (u64 n = 1; n <= 8 && first + n <= ROWS; n++) {
            const Stretches frame = { 1, { { first, first + n } } };
            const double    sum = prefix_float(&sums, &frame, AGG_SUM, n);
            if (n == 1) CHECK(sum == numbers[first]);
            if (n == 8) CHECK(sum == 1e18 + 1);             // all others cancel
            if (n == 2 && first % 8 == 0) CHECK(sum == 0);
        }
    arena_free(arena);
}

TEST(a_sum_of_128_bits_that_does_not_fit_is_told)
{
    Arena             *arena = arena_new(NULL, "test");
    const WindowMemory memory = { alloc_in_arena, arena, { .n_threads = 1 } };
    const i128         large = (i128)1 << 126;
    const i128         values[] = { large, large, -large, -large, 5 };
    const Sorted       sorted = { .n_rows = 5 };
    const View         view = { .kind = VIEW_WIDE, .data = values };
    PrefixSums         sums;
    bool               is_stopped;
    i128               sum;
    CHECK_INT(prefix_make(&memory, &sorted, &view, true, &sums, &is_stopped), WEFT_OK);
    CHECK(!prefix_int(&sums, &(Stretches){ 1, { { 0, 2 } } }, &sum));
    CHECK(prefix_int(&sums, &(Stretches){ 1, { { 0, 5 } } }, &sum) && sum == 5);
    CHECK(prefix_int(&sums, &(Stretches){ 1, { { 1, 4 } } }, &sum) && sum == -large);
    arena_free(arena);
}

TEST(the_least_key_of_a_frame_is_found)
{
    for (u64 round = 1; round <= ROUNDS; round++) {
        Trial   trial;
        MinTree tree;
        start_trial(&trial, round);
        CHECK_INT(tree_room(&trial.memory, trial.rows.n, &tree), WEFT_OK);
        for (u64 i = 0; i < trial.rows.n; i++) tree.keys[tree.n + i] = draw(1000);
        CHECK(tree_build(&trial.memory.team, &tree));
        for (u64 i = 0; i < trial.rows.n; i++) {
            const Stretches frame = frame_of(&trial.look, i);
            u64             least = UINT64_MAX;
            for (u64 j = 0; j < trial.rows.n; j++)
                if (is_in_frame(&trial.rows, &trial.frame, i, j)) least = MIN_OF(least, tree.keys[tree.n + j]);
            CHECK(tree_least(&tree, &frame) == least);
        }
        arena_free(trial.arena);
    }
}
