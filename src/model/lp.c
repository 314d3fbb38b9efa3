// lp.c - linear programs, solved by COIN-OR's CLP through its C interface.
//
// CLP is opened at run time, as NVIDIA's driver is: without it batches are packed by first-fit decreasing, and nothing
// else changes.  No header of it is used.  $WEFT_LIBCLP names another file.  Debian builds it with the default
// CoinBigIndex, an int.

#include <float.h>

#include "model/model_int.h"

typedef struct ClpModel ClpModel;                           // Clp_Simplex

struct LpLibrary {
    ClpModel *(*new_model)(void);
    void (*delete_model)(ClpModel *model);
    void (*set_log_level)(ClpModel *model, int level);
    void (*set_perturbation)(ClpModel *model, int mode);
    void (*scaling)(ClpModel *model, int mode);
    void (*resize)(ClpModel *model, int n_rows, int n_columns);
    double *(*row_lower)(ClpModel *model);
    double *(*row_upper)(ClpModel *model);
    void (*add_columns)(ClpModel *model, int n, const double *lower, const double *upper, const double *objective,
                        const int *starts, const int *rows, const double *elements);
    int (*primal)(ClpModel *model, int uses_values);
    int (*status)(ClpModel *model);
    double (*objective_value)(ClpModel *model);
    double *(*row_duals)(ClpModel *model);
    double *(*column_amounts)(ClpModel *model);
};

// ---- the library ----------------------------------------------------------------------------------------------------

static const LibrarySymbol symbols[] = {
    { "Clp_newModel", offsetof(LpLibrary, new_model), false },
    { "Clp_deleteModel", offsetof(LpLibrary, delete_model), false },
    { "Clp_setLogLevel", offsetof(LpLibrary, set_log_level), false },
    { "Clp_setPerturbation", offsetof(LpLibrary, set_perturbation), false },
    { "Clp_scaling", offsetof(LpLibrary, scaling), false },
    { "Clp_resize", offsetof(LpLibrary, resize), false },
    { "Clp_rowLower", offsetof(LpLibrary, row_lower), false },
    { "Clp_rowUpper", offsetof(LpLibrary, row_upper), false },
    { "Clp_addColumns", offsetof(LpLibrary, add_columns), false },
    { "Clp_primal", offsetof(LpLibrary, primal), false },
    { "Clp_status", offsetof(LpLibrary, status), false },
    { "Clp_objectiveValue", offsetof(LpLibrary, objective_value), false },
    { "Clp_dualRowSolution", offsetof(LpLibrary, row_duals), false },
    { "Clp_primalColumnSolution", offsetof(LpLibrary, column_amounts), false },
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static LpLibrary the_library;
static bool is_open;
static Error problem;

static void open_library(void)
{
    Text path = { 0 }, why = { 0 };
    if (library_named("WEFT_LIBCLP")) {
        is_open = library_open_named("WEFT_LIBCLP", "CLP", symbols, COUNT_OF(symbols), &the_library, &path, &problem);
    } else {
        const char *const names[] = { "libClp.so.1", "libClp.so", NULL };
        is_open = library_open(names, symbols, COUNT_OF(symbols), &the_library, &path, &why);
        if (!is_open)
            fail(&problem, WEFT_NO_DEVICE, -1, "no library for linear programs: %s", why.bytes);
    }
    text_free(&path);
    text_free(&why);
}

const LpLibrary *lp_library(Error *why)
{
    pthread_once(&once, open_library);
    if (is_open)
        return &the_library;
    fail(why, problem.status, -1, "%s", problem.message);
    return NULL;
}

// ---- a covering problem ---------------------------------------------------------------------------------------------

struct CoverLp {
    const LpLibrary *library;
    ClpModel *model;
    int n_rows;
    int *rows;                                              // scratch of one column
    double *elements;
};

static void delete_model(void *context)
{
    CoverLp *cover = context;
    cover->library->delete_model(cover->model);
}

CoverLp *cover_new(Arena *arena, const LpLibrary *library, const int *demand, int n_rows)
{
    CoverLp *cover = arena_make(arena, CoverLp);
    cover->library = library;
    cover->model = library->new_model();
    cover->n_rows = n_rows;
    cover->rows = arena_array(arena, int, n_rows);
    cover->elements = arena_array(arena, double, n_rows);
    arena_defer(arena, delete_model, cover);
    library->set_log_level(cover->model, 0);
    library->set_perturbation(cover->model, 102);
    library->scaling(cover->model, 0);                      // counts of kernels are small numbers already
    library->resize(cover->model, n_rows, 0);
    for (int i = 0; i < n_rows; i++) {
        library->row_lower(cover->model)[i] = demand[i];
        library->row_upper(cover->model)[i] = DBL_MAX;      // infinity, for CLP
    }
    return cover;
}

void cover_add(CoverLp *cover, const int *counts)
{
    const double lower = 0, upper = DBL_MAX, price = 1;
    int n = 0;
    for (int i = 0; i < cover->n_rows; i++)
        if (counts[i] > 0) {
            cover->rows[n] = i;
            cover->elements[n++] = counts[i];
        }
    const int starts[] = { 0, n };
    cover->library->add_columns(cover->model, 1, &lower, &upper, &price, starts, cover->rows, cover->elements);
}

bool cover_solve(CoverLp *cover, double *value, const double **values, const double **amounts)
{
    const LpLibrary *library = cover->library;
    library->primal(cover->model, 0);
    if (library->status(cover->model) != 0)
        return false;
    *value = library->objective_value(cover->model);
    *values = library->row_duals(cover->model);
    *amounts = library->column_amounts(cover->model);
    return true;
}
