// families.c - continuous views of one shape are fed as one: a family.
//
//     new rows --> one query, by the views' keys and the classes of what they test --> cells, kept by the family
//
//     a view  =  its own state (up to when it joined)  +  the cells of the classes that it wants
//
// A round costs one query for each family, however many views are in it.  Reading and saving a view merge both parts.
// When views come, a family ends and another begins, since classes change: each of its views gets its part of the cells
// into its own state.  That is one commit and one change of view->family, under the lock, so a reader sees the rows of
// the cells once.  A view that goes just leaves.
//
// A family's query takes rows that some of its views do not want.  Where it fails, its views go on alone: the error
// belongs to the view that meets the row.
// Not done: views with a watermark, which see other rows each.

#include "engine/continuous_int.h"

enum {
    FAMILY_MOST = 256,                 // views of a family
    BREAKS_MOST = 512,                 // of a column: each is a comparison for each row
    CELLS_MERGED = 1 << 16,            // rows of cells that need not be merged
};

// ---- a round --------------------------------------------------------------------------------------------------------

// The views' query again: where it is another than it was, its tables have changed.
static weft_status bind_cells(const ViewFamily *family, Execution *ex, Statement **statement)
{
    KeptGroups kept;
    FamilyForm form;
    TRY(view_bind(family->streams, ex, family->views[0]->text, &kept, statement));
    if (!plan_family_form((*statement)->plan, ex->arena, &form) || strcmp(form.text, family->form) != 0)
        return fail(ex->err, WEFT_WRONG_OBJECT, -1, "the views' tables have changed");
    return plan_family_groups((*statement)->plan, &family->classes, ex->err);
}

static weft_status add_cells(const ViewFamily *family, const TableTraits *seen, Error *err)
{
    const Streams *streams = family->streams;
    Execution      ex = view_execution(family->session, family->rows, err);
    Statement     *statement = NULL;
    weft_status    status = bind_cells(family, &ex, &statement);
    if (!status) status = plan_rewrite(statement->plan, NULL, err);
    if (!status) status = streams->calls.run_plan(&ex, statement);
    if (!status && ex.result->n_rows)
        status = view_append_rows(streams, &ex, streams->states, family->state, seen, false);
    view_execution_end(&ex);
    return status;
}

static weft_status merge_cells(ViewFamily *family, const Table *cells, const TableTraits *seen, Error *err)
{
    const Streams *streams = family->streams;
    Execution      ex = view_execution(family->session, NULL, err);
    Statement      statement = { .kind = STATEMENT_SELECT, .plan = plan_new(ex.arena) };
    weft_status    status = plan_merge_groups(statement.plan, &(ViewRows){ .own = cells }, &family->kept, err);
    if (!status) status = plan_rewrite(statement.plan, NULL, err);
    if (!status) status = streams->calls.run_plan(&ex, &statement);
    if (!status) {
        family->n_merged = ex.result->n_rows;
        status = view_append_rows(streams, &ex, streams->states, family->state, seen, true);
    }
    view_execution_end(&ex);
    return status;
}

static weft_status merge_cells_if_many(ViewFamily *family, const TableTraits *seen, Error *err)
{
    const Table *cells;
    TRY(store_peek_table(family->streams->states, family->state, &cells, err));
    const bool is_large = cells->n_rows > 2 * family->n_merged + CELLS_MERGED;
    const weft_status status = is_large ? merge_cells(family, cells, seen, err) : WEFT_OK;
    table_release(cells);
    return status;
}

// Where only the merge fails, the rows are in the cells already: they are seen, and must not be taken again.
void family_run(SquadJob *job)
{
    ViewFamily       *family = (ViewFamily *)job;
    Streams          *streams = family->streams;
    const TableTraits seen = { .kind = TABLE_STATE, .position = family->until };
    Error             error = { 0 };
    weft_status       status = add_cells(family, &seen, &error);
    const bool        is_taken = !status;
    if (is_taken) status = merge_cells_if_many(family, &seen, &error);
    const bool comes_again = status == WEFT_OUT_OF_MEMORY || status == WEFT_QUERY_CANCELED;
    pthread_mutex_lock(&streams->lock);
    for (int i = 0; i < family->n_views && is_taken; i++) family->views[i]->seen.position = family->until;
    family->has_failed |= status && !comes_again;
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
}

// ---- leaving --------------------------------------------------------------------------------------------------------

static void free_family(ViewFamily *family)
{
    Streams *streams = family->streams;
    (void)store_drop_table(streams->states, family->state, &(Error){ 0 });
    if (family->session) streams->calls.disconnect(family->session);
    arena_free(family->arena);
}

// The caller has the lock.
static void remove_view(ContinuousView *view)
{
    ViewFamily *family = view->family;
    int         n = 0;
    for (int i = 0; i < family->n_views; i++)
        if (family->views[i] != view) family->views[n++] = family->views[i];
    family->n_views = n;
    view->family = NULL;
}

void family_leave(ContinuousView *view)
{
    ViewFamily *family = view->family;
    if (!family) return;
    pthread_mutex_lock(&view->streams->lock);
    remove_view(view);
    pthread_mutex_unlock(&view->streams->lock);
    if (!family->n_views) free_family(family);
}

// The view's part of the cells goes into its own state.
static weft_status take_part(ContinuousView *view, Error *err)
{
    Streams    *streams = view->streams;
    Arena      *scratch = arena_new(NULL, "part");
    ViewRows    rows;
    Append     *append;
    u64         n_rows = 0, n_appended;
    weft_status status = view_kept_rows(view, scratch, &rows, err);
    if (!status) {
        const bool has_cells = rows.shared->n_rows > 0;
        if (has_cells) status = view_merge(view, view->session, &rows, streams->states, &view->seen, &append,
                                           &n_rows, err);
        pthread_mutex_lock(&streams->lock);
        if (!status && has_cells) status = append_commit(append, &n_appended, err);
        if (!status && has_cells) view->n_merged = n_rows;
        if (!status) remove_view(view);
        pthread_mutex_unlock(&streams->lock);
        view_release_rows(&rows);
    }
    arena_free(scratch);
    return status;
}

// Views that could not take their part stay in it, and go on with it.  False: there are such.
static bool end_family(ViewFamily *family)
{
    for (int i = family->n_views; i-- > 0;)
        (void)take_part(family->views[i], &(Error){ 0 });
    if (family->n_views) return false;
    free_family(family);
    return true;
}

// ---- forming --------------------------------------------------------------------------------------------------------

static bool is_same_way(const Settings *a, const Settings *b)
{
    return a->device == b->device && a->gpu == b->gpu && a->weave == b->weave && a->jit == b->jit &&
           a->threads == b->threads && a->sharing == b->sharing && a->priority == b->priority &&
           a->timeout_ms == b->timeout_ms && a->zone == b->zone;
}

static bool may_join(const ContinuousView *view)
{
    return view->has_form && view->watermark_us < 0 && !view->error.status;
}

static bool is_like(const ContinuousView *a, const ContinuousView *b)
{
    return strcmp(a->form.text, b->form.text) == 0 && is_same_way(&a->session->settings, &b->session->settings);
}

static bool fits(Arena *arena, ContinuousView *const *views, int n_views, FamilyClasses *classes)
{
    const FamilyForm **forms = arena_array(arena, const FamilyForm *, n_views + 1);
    for (int i = 0; i < n_views; i++) forms[i] = &views[i]->form;
    plan_family_classes(arena, forms, n_views, classes);
    for (int c = 0; c < classes->n_columns; c++)
        if (classes->columns[c].n_breaks > BREAKS_MOST) return false;
    return n_views <= FAMILY_MOST && classes->n_classes <= 4 * n_views + 16;    // memory: see the states of all views
}

// Views keep their family where it is not made: a later round tries again.
static void new_family(Streams *streams, ContinuousView **views, int n_views)
{
    Arena      *arena = arena_new(NULL, "family");
    ViewFamily *family = arena_make(arena, ViewFamily);
    Error       error = { 0 };
    *family = (ViewFamily){ .streams = streams, .arena = arena, .form = arena_strdup(arena, views[0]->form.text),
                            .state = arena_printf(arena, "family_%llu", (unsigned long long)++streams->n_families),
                            .n_views = n_views, .views = arena_array(arena, ContinuousView *, n_views + 1) };
    memcpy(family->views, views, (size_t)n_views * sizeof *views);
    const TableTraits seen = { .kind = TABLE_STATE, .position = views[0]->seen.position };
    bool              ok = fits(arena, views, n_views, &family->classes);
    plan_family_kept(arena, &views[0]->kept, &family->classes, &family->kept);
    ok = ok && !streams->calls.connect(streams->db, &family->session, &error);
    if (!ok || view_create_state(streams->states, family->state, &family->kept, &seen, &error)) {
        if (family->session) streams->calls.disconnect(family->session);
        arena_free(arena);
        return;
    }
    family->session->settings = views[0]->session->settings;
    pthread_mutex_lock(&streams->lock);
    for (int i = 0; i < n_views; i++) views[i]->family = family;
    pthread_mutex_unlock(&streams->lock);
}

// The views like FIRST that may be in one family with it: those of a family that there is come first, so that newcomers
// join it.
static int gather(Arena *arena, ContinuousView *first, ContinuousView **views, int n_views, ContinuousView **members)
{
    FamilyClasses classes;
    ViewFamily   *family = first->family;
    int           n = 0;
    for (int i = 0; i < n_views && !family; i++)
        if (views[i]->family && is_like(views[i], first)) family = views[i]->family;
    for (int i = 0; family && i < family->n_views; i++) members[n++] = family->views[i];
    for (int i = 0; i < n_views; i++) {
        if (views[i]->family || !may_join(views[i]) || !is_like(views[i], first)) continue;
        members[n] = views[i];
        if (fits(arena, members, n + 1, &classes)) n++;
    }
    return family && n == family->n_views ? 0 : n;
}

static void end_failed(ContinuousView **views, int n_views)
{
    for (int i = 0; i < n_views; i++) {
        ViewFamily *family = views[i]->family;
        if (!family || !family->has_failed) continue;
        for (int k = 0; k < family->n_views; k++) family->views[k]->has_form = false;
        if (!end_family(family)) family->could_not_end = true;
    }
}

void families_form(Streams *streams, ContinuousView **views, int n_joining, int n_views)
{
    Arena           *scratch = arena_new(NULL, "families");
    ContinuousView **members = arena_array(scratch, ContinuousView *, n_views + 1);
    end_failed(views, n_views);
    for (int i = 0; i < n_joining; i++) {
        if (views[i]->family || !may_join(views[i])) continue;
        const int   n = gather(scratch, views[i], views, n_joining, members);
        ViewFamily *old = n ? members[0]->family : NULL;
        if (n > 1 && (!old || end_family(old))) new_family(streams, members, n);
    }
    arena_free(scratch);
}
