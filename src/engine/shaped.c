// shaped.c - statements made of plans that were kept for the shape of their text, and such plans made.
//
// With WEFT_CHECK_PLANS in the environment, as in all tests, each statement that was made this way is planned as ever,
// too, and the two plans are compared; and a plan is made for each shape, also for those that come once.

#include "engine/shaped.h"

#include <stdio.h>
#include <stdlib.h>

static void free_shaped(void *home) { arena_free(home); }

const TextShape *shaped_text(Execution *ex, const char *sql)
{
    const weft_session *session = ex->session;
    const size_t        length = strlen(sql);
    if (session->temporary || session->settings.plan_cache != KEEP_SHAPES || !sql_has_shape(sql, length)) return NULL;
    TextShape *shape = arena_make(ex->arena, TextShape);
    sql_shape(ex->arena, sql, length, false, shape);
    return shape;
}

// Binds and rewrites the text once more, with HOLES or without.  The names are looked up again: tables that changed
// meanwhile give another plan.  GUESSES: a plan whose guesses are taken; may be NULL.
static weft_status plan_again(const Execution *ex, const char *sql, const TextShape *shape, TextHoles *holes,
                              Arena *home, Execution *other, const Plan *guesses, Statement **statement, Error *err)
{
    *other = (Execution){ .session = ex->session, .arena = ex->arena, .err = err, .text = sql };
    Names names = execution_names(other, NULL, 0);
    names.shape = shape;
    names.holes = holes;
    TRY(sql_bind(home, sql, &names, statement, err));
    if (other->lookup) return other->lookup;
    if (holes && (holes->has_failed || !holes->n || (*statement)->plan->n_params != holes->n_params))
        return WEFT_UNSUPPORTED;
    for (int p = 0; guesses && p < guesses->n_params; p++)
        (*statement)->plan->params[p].guess = guesses->params[p].guess;
    return plan_rewrite((*statement)->plan, NULL, err);
}

// ---- finding --------------------------------------------------------------------------------------------------------

static bool is_checked(void)
{
    static _Atomic int is_on = -1;
    if (is_on < 0) is_on = getenv("WEFT_CHECK_PLANS") != NULL;
    return is_on;
}

// A table that has changed since the plan was found gives another one.
static bool has_tables(const Execution *other, const ShapeFound *found)
{
    bool is_same = other->n_tables == found->n_tables;
    for (int t = 0; is_same && t < found->n_tables; t++) is_same = other->tables[t] == found->tables[t];
    return is_same;
}

static bool is_same_text(const Text *a, const Text *b)
{
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static int stay(void *context, int at)
{
    (void)context;
    return at;
}

// The plan of the text as a new plan with parameters would give it, were it made with the estimates of FOUND's.
static weft_status dump_with_guesses(const Execution *ex, const char *sql, const TextShape *shape, Arena *home,
                                     const ShapeFound *found, Text *text)
{
    Execution  other = { 0 };
    Statement *statement;
    Error      err;
    Plan      *instance;
    TextHoles *holes = arena_make(home, TextHoles);
    error_clear(&err);
    holes->arena = home, holes->shape = shape;
    TRY(plan_again(ex, sql, shape, holes, home, &other, found->of, &statement, &err));
    const Constants constants = { (const Expr *const *)holes->values, stay, NULL };
    double          ignored;
    TRY(plan_instance(home, statement->plan, &constants, &instance, &ignored, &err));
    plan_dump(instance, text);
    return WEFT_OK;
}

typedef struct Dumps { Text planned, guessed, found; } Dumps;

static void complain(const char *sql, const Dumps *dumps)
{
    const Text *texts[] = { &dumps->planned, &dumps->guessed, &dumps->found };
    const char *const titles[] = { "planned", "with the estimates of then", "found" };
    fprintf(stderr, "a plan of a shape is not the plan of its text: %s\n", sql);
    for (int i = 0; i < COUNT_OF(texts); i++)
        fprintf(stderr, "-- %s:\n%s\n", titles[i], texts[i]->bytes ? texts[i]->bytes : "");
}

// Where the plan of the text is another one, estimates decided otherwise: with those of then it is the same.
static bool is_right(const Execution *ex, const char *sql, const TextShape *shape, const ShapeFound *found)
{
    Arena     *home = arena_new(NULL, "statement");
    Dumps      dumps = { { 0 }, { 0 }, { 0 } };
    Execution  other;
    Statement *statement;
    Error      err;
    error_clear(&err);
    const weft_status status = plan_again(ex, sql, shape, NULL, home, &other, NULL, &statement, &err);
    bool              is_right = !has_tables(&other, found);
    plan_dump(found->statement->plan, &dumps.found);
    if (!status && !is_right) {
        plan_dump(statement->plan, &dumps.planned);
        is_right = is_same_text(&dumps.planned, &dumps.found) ||
                   (!dump_with_guesses(ex, sql, shape, home, found, &dumps.guessed) &&
                    is_same_text(&dumps.guessed, &dumps.found));
    }
    if (!is_right) complain(sql, &dumps);
    text_free(&dumps.planned);
    text_free(&dumps.guessed);
    text_free(&dumps.found);
    arena_free(home);
    return is_right;
}

KeptPlan *shaped_find(Execution *ex, const char *sql, const TextShape *shape, weft_status *status)
{
    weft_db   *db = ex->session->db;
    Arena     *home = arena_new(NULL, "statement");
    ShapeFound found;
    *status = WEFT_OK;
    if (!shape_plans_find(db->shape_plans, db->store, shape, home, &found)) {
        arena_free(home);
        return NULL;
    }
    if (is_checked() && !is_right(ex, sql, shape, &found)) {
        arena_defer(ex->arena, free_shaped, home);
        *status = fail(ex->err, WEFT_INTERNAL, -1, "the plan of a shape is not the plan of its text");
        return NULL;
    }
    return plans_keep(db->plans, sql, home, found.statement, found.tables, found.n_tables);
}

// ---- making ---------------------------------------------------------------------------------------------------------

void shaped_offer(const Execution *ex, const char *sql, const TextShape *shape, const Plan *plan)
{
    weft_db *db = ex->session->db;
    if (ex->n_behind || !shape_plans_wants(db->shape_plans, shape, is_checked())) return;
    Arena     *home = arena_new(NULL, "statement");
    TextHoles *holes = arena_make(home, TextHoles);
    Execution  other;
    Statement *statement = NULL;
    Error      ignored;
    error_clear(&ignored);
    holes->arena = home, holes->shape = shape;
    // A table may be a view by now, whose changes a plan that is kept would not see (lookup.c).
    if (!plan_again(ex, sql, shape, holes, home, &other, NULL, &statement, &ignored) && !other.uses_virtual &&
        plan_is_template(statement->plan)) {
        shape_plans_add(db->shape_plans, shape, home, statement, holes, plan, other.tables, other.n_tables);
        return;
    }
    arena_free(home);
    shape_plans_discourage(db->shape_plans, shape);
}
