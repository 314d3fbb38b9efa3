// spill_sort.c - ORDER BY of rows whose sort does not fit into memory.
//
//     rows, as they came      [ range 0 | range 1 | range 2 ]       a range is what can be sorted in memory
//     runs, in files          [ sorted  | sorted  | sorted  ]       whole rows, column by column
//     merged, in files        [ ------------ sorted ---------- ]    by a loser tree, reading each run from its begin on
//
// Whole rows are moved, twice, so that every file is read and written in order; only the rows of a range are looked up
// at random, and these fit into memory about as well as their sort.  The columns of the result take the place of those
// that came, and the order is then the rows as they are.
//
// Rows that are equal keep the order of the source: ranges are sorted so, and of equal rows of two runs that of the
// earlier run goes first.  One merge takes any number of runs; each costs a page or two of every column.

#include "engine/spill.h"

#include <stdlib.h>

#define BYTES_PER_ROW 64u              // that sort.c takes: items twice, prefixes, the order, a text
#define LEAST_ROWS    4096u            // of a range
#define BATCH         4096u            // rows that are merged before their columns are copied

typedef struct SortedColumn { void *data; u8 *nulls, *shown; } SortedColumn;   // what a View has by row

typedef struct RunSort {
    QueryRun      *run;
    SortWith       with;
    View          *views;
    int            n_views;
    const ViewKey *keys;
    int            n_keys;
    u64            n_rows, range_rows;
    int            n_runs;
    SortedColumn  *runs, *merged;      // by view
    View          *run_views;          // of the runs, for comparing
    u64           *next;               // by run: its first row that is not merged yet
    int           *losers;             // tree: by inner node the run that lost there; [0] is the winner
} RunSort;

static u64 cell_bytes(const View *view) { return view->kind == VIEW_WIDE || view->kind == VIEW_TEXT ? 16 : 8; }

bool spill_sort_suits(const QueryRun *run, u64 n_rows, u64 n_wanted)
{
    return run->spills && n_wanted > n_rows / 4 && !mem_fits(query_budget(run), (i64)(n_rows * BYTES_PER_ROW));
}

// ---- ranges, sorted into runs ---------------------------------------------------------------------------------------

static u64 rows_of_range(const QueryRun *run)
{
    const Budget *budget = query_budget(run);
    const i64     bytes = (atomic_load(&budget->limit) - atomic_load(&budget->used)) / 4 * 3;
    return MAX_OF((u64)MAX_OF(bytes, 0) / BYTES_PER_ROW, LEAST_ROWS);
}

static weft_status file_column(const RunSort *sort, Arena *arena, const View *view, SortedColumn *out)
{
    TRY(spill_alloc(sort->run, arena, sort->n_rows * cell_bytes(view) + 16, &out->data));
    if (view->shown) TRY(spill_alloc(sort->run, arena, sort->n_rows + 1, (void **)&out->shown));
    return view->nulls ? spill_alloc(sort->run, arena, sort->n_rows + 1, (void **)&out->nulls) : WEFT_OK;
}

static void gather(const View *view, u64 first, const u64 *rows, u64 n, const SortedColumn *to, u64 at)
{
    if (cell_bytes(view) == 8) {
        const u64 *from = (const u64 *)view->data + first;
        for (u64 i = 0; i < n; i++) ((u64 *)to->data)[at + i] = from[rows[i]];
    } else {
        const i128 *from = (const i128 *)view->data + first;
        for (u64 i = 0; i < n; i++) ((i128 *)to->data)[at + i] = from[rows[i]];
    }
    for (u64 i = 0; view->nulls && i < n; i++) to->nulls[at + i] = view->nulls[first + rows[i]];
    for (u64 i = 0; view->shown && i < n; i++) to->shown[at + i] = view->shown[first + rows[i]];
}

static void show(View *view, const SortedColumn *column)
{
    view->data = column->data, view->nulls = column->nulls, view->shown = column->shown;
}

static View view_from(const View *view, u64 first)
{
    View part = *view;
    part.data = (const u8 *)view->data + first * cell_bytes(view);
    if (view->nulls) part.nulls = view->nulls + first;
    if (view->shown) part.shown = view->shown + first;
    return part;
}

// ROWS may be NULL: the range is one row.
static weft_status copy_range(const RunSort *sort, u64 first, const u64 *rows, u64 n)
{
    static const u64 only[1];
    for (int v = 0; v < sort->n_views; v++)
        for (u64 at = 0; at < n; at += BATCH) {
            if (query_should_stop(sort->run, 0)) return query_canceled(sort->run);
            gather(&sort->views[v], first, rows ? rows + at : only, MIN_OF(BATCH, n - at), &sort->runs[v], first + at);
        }
    return WEFT_OK;
}

// What sorting takes is given back after each range.
static weft_status sort_range(const RunSort *sort, u64 first, u64 n)
{
    QueryRun *run = sort->run;
    Arena    *outer = run->arena, *own = arena_new(outer, "range");
    View     *parts = arena_array(own, View, sort->n_views + 1);
    u64      *rows;
    for (int v = 0; v < sort->n_views; v++) parts[v] = view_from(&sort->views[v], first);
    run->arena = own;
    weft_status status = sort->with.sort(run, parts, n, sort->keys, sort->n_keys, &rows);
    run->arena = outer;
    if (!status) status = copy_range(sort, first, rows, n);
    arena_free(own);
    return status;
}

static weft_status make_runs(RunSort *sort, Arena *files)
{
    for (int v = 0; v < sort->n_views; v++) TRY(file_column(sort, files, &sort->views[v], &sort->runs[v]));
    for (u64 first = 0; first < sort->n_rows; first += sort->range_rows)
        TRY(sort_range(sort, first, MIN_OF(sort->range_rows, sort->n_rows - first)));
    for (int v = 0; v < sort->n_views; v++) {
        sort->run_views[v] = sort->views[v];
        show(&sort->run_views[v], &sort->runs[v]);
    }
    return WEFT_OK;
}

// ---- merging --------------------------------------------------------------------------------------------------------

static u64 end_of(const RunSort *sort, int number)
{
    return MIN_OF((u64)(number + 1) * sort->range_rows, sort->n_rows);
}

static int compare(const RunSort *sort, u64 a, u64 b)
{
    for (int k = 0; k < sort->n_keys; k++) {
        const ViewKey *key = &sort->keys[k];
        const View    *view = &sort->run_views[key->view];
        const bool     a_null = view->nulls && view->nulls[a], b_null = view->nulls && view->nulls[b];
        if (a_null && b_null) continue;
        if (a_null || b_null) return a_null == key->nulls_first ? -1 : 1;
        const int order = sort->with.compare(view, a, b);
        if (order) return key->descending ? -order : order;
    }
    return 0;
}

// Whether run A gives its row before run B does; one that has none left comes last.
static bool goes_first(const RunSort *sort, int a, int b)
{
    const bool a_ended = sort->next[a] == end_of(sort, a), b_ended = sort->next[b] == end_of(sort, b);
    if (a_ended || b_ended) return !a_ended;
    const int order = compare(sort, sort->next[a], sort->next[b]);
    return order ? order < 0 : a < b;
}

#define NO_RUN (-1)

// RUN plays its way up: the loser stays, the winner goes on.  While the tree is filled it stops at an empty place.
static void play(RunSort *sort, int run)
{
    int winner = run;
    for (int node = (run + sort->n_runs) / 2; node > 0; node /= 2) {
        const int other = sort->losers[node];
        if (other == NO_RUN) {
            sort->losers[node] = winner;
            return;
        }
        if (!goes_first(sort, other, winner)) continue;
        sort->losers[node] = winner;
        winner = other;
    }
    sort->losers[0] = winner;
}

static void begin_tree(RunSort *sort)
{
    for (int r = 0; r < sort->n_runs; r++) {
        sort->next[r] = (u64)r * sort->range_rows;
        sort->losers[r] = NO_RUN;
    }
    for (int r = 0; r < sort->n_runs; r++) play(sort, r);
}

static weft_status merge_runs(RunSort *sort, u64 n_wanted)
{
    u64 rows[BATCH];
    begin_tree(sort);
    for (u64 at = 0; at < n_wanted; at += BATCH) {
        const u64 n = MIN_OF(BATCH, n_wanted - at);
        if (query_should_stop(sort->run, 0)) return query_canceled(sort->run);
        for (u64 i = 0; i < n; i++) {
            const int run = sort->losers[0];
            rows[i] = sort->next[run]++;
            play(sort, run);
        }
        for (int v = 0; v < sort->n_views; v++) gather(&sort->run_views[v], 0, rows, n, &sort->merged[v], at);
    }
    return WEFT_OK;
}

// ---- the whole ------------------------------------------------------------------------------------------------------

// Else the texts of a range are sorted, and texts are compared where runs are merged.
static weft_status rank_keys(RunSort *sort)
{
    for (int k = 0; k < sort->n_keys; k++) {
        View *view = &sort->views[sort->keys[k].view];
        if (view->kind == VIEW_CODE && !view->ranks && query_wants_ranks(sort->run, view, sort->n_rows, sort->n_rows))
            TRY(query_ranks(sort->run, view->dict, view->dict_count, &view->ranks));
    }
    return WEFT_OK;
}

static weft_status sort_through_files(RunSort *sort, Arena *files, u64 n_wanted)
{
    QueryRun *run = sort->run;
    TRY(rank_keys(sort));
    TRY(make_runs(sort, files));
    for (int v = 0; v < sort->n_views; v++) TRY(file_column(sort, run->arena, &sort->views[v], &sort->merged[v]));
    TRY(merge_runs(sort, n_wanted));
    for (int v = 0; v < sort->n_views; v++)
        show(&sort->views[v], &sort->merged[v]);
    run->spilled.n_sorts++, run->spilled.n_sorted_runs += (u64)sort->n_runs;
    return WEFT_OK;
}

weft_status spill_sort(QueryRun *run, SortWith with, View *views, int n_views, const ViewKey *keys, int n_keys,
                       u64 n_rows, u64 n_wanted)
{
    Arena  *files = arena_new(run->arena, "runs");
    RunSort sort = { .run = run,
                     .with = with,
                     .views = views,
                     .n_views = n_views,
                     .keys = keys,
                     .n_keys = n_keys,
                     .n_rows = n_rows,
                     .range_rows = rows_of_range(run),
                     .runs = arena_array(files, SortedColumn, n_views + 1),
                     .merged = arena_array(files, SortedColumn, n_views + 1),
                     .run_views = arena_array(files, View, n_views + 1) };
    sort.n_runs = (int)((n_rows + sort.range_rows - 1) / sort.range_rows);
    sort.next = arena_array(files, u64, sort.n_runs + 1);
    sort.losers = arena_array(files, int, sort.n_runs + 1);
    const weft_status status = sort_through_files(&sort, files, n_wanted);
    arena_free(files);
    return status;
}
