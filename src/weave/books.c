// books.c - what a kernel is handed and does so far: declarations, parameters, tables, steps, columns.
//
// The other files put a kernel together through these calls; none of them knows the lists behind them.

#include "weave/weave_int.h"

#include <stdlib.h>

#define PRINT(...) arena_printf(w->arena, __VA_ARGS__)

// ---- what the kernel is handed --------------------------------------------------------------------------------------

const char *weave_name(Weaver *w, const char *wanted) { return names_new(&w->names, wanted); }

const char *weave_width_type(int width)
{
    return width == 1 ? "u8" : width == 2 ? "u16" : width == 4 ? "u32" : "u64";
}

static int declare(Weaver *w, DeclKind kind, const char *type, const char *name, int number)
{
    *LIST_PUSH(w->arena, w->ir->decls, w->ir->n_decls) = (Decl){ kind, type, name, number };
    return w->ir->n_decls - 1;
}

static const char *ref_to(Weaver *w, int decl) { return PRINT("%cd%d%c", REF_OPEN, decl, REF_CLOSE); }

static int add_param(Weaver *w, Param param)
{
    *LIST_PUSH(w->arena, w->out->params, w->out->n_params) = param;
    return w->out->n_params - 1;
}

const char *weave_param(Weaver *w, const char *type, const char *name, Param param)
{
    const int k = add_param(w, param);
    return ref_to(w, declare(w, DECL_PARAM, type, name ? name : PRINT("p%d", k), k));
}

const char *weave_param_i64(Weaver *w, const char *name, i64 value)
{
    return weave_param(w, "i64", name, (Param){ .kind = PARAM_VALUE, .value = value });
}

const char *weave_param_f64(Weaver *w, double value)
{
    i64 bits;
    memcpy(&bits, &value, sizeof bits);
    const int k = add_param(w, (Param){ .kind = PARAM_VALUE, .value = bits });
    return ref_to(w, declare(w, DECL_PARAM_F64, NULL, PRINT("p%d", k), k));
}

const char *weave_table(Weaver *w, const char *type, const char *name, const void *data, size_t bytes)
{
    return weave_table_of(w, NULL, 0, type, name, data, bytes);
}

const char *weave_table_of(Weaver *w, const JoinTable *owner, int number, const char *type, const char *name,
                           const void *data, size_t bytes)
{
    *LIST_PUSH(w->arena, w->out->table_facts, w->out->n_table_facts) =
        (WovenTable){ bytes, owner ? owner->id : 0, number, owner && !data ? owner->late : NULL };
    *LIST_PUSH(w->arena, w->out->tables, w->out->n_tables) = data;
    return ref_to(w, declare(w, DECL_TABLE, type, name, w->out->n_tables - 1));
}

const char *weave_carry(Weaver *w, const char *type, const char *name, int bytes)
{
    const int decl = declare(w, DECL_CARRY, type, name, bytes);
    *LIST_PUSH(w->arena, w->carries, w->n_carries) = decl;
    weave_on_stack(w, bytes);
    return ref_to(w, decl);
}

void weave_notes(Weaver *w, int output) { declare(w, DECL_NOTES, NULL, "", output); }

int weave_check(Weaver *w, weft_status status, int at, const char *message)
{
    *LIST_PUSH(w->arena, w->out->checks, w->out->n_checks) = (Check){ status, at, message };
    w->can_fail = true;
    return w->out->n_checks - 1;
}

int weave_state(Weaver *w, SlotKind kind, int bytes, u64 init)
{
    *LIST_PUSH(w->arena, w->out->state, w->out->n_state) = (StateSlot){ kind, (u8)bytes, init };
    return w->out->n_state - 1;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void weave_stmt(Weaver *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_add_args(&w->block, format, args);
    text_add_bytes(&w->block, "\n", 1);
    va_end(args);
}

const char *weave_temp(Weaver *w, const char *type, const char *value)
{
    const char *name = PRINT("e%d", w->n_temps++);
    weave_stmt(w, "const %s %s = %s;", type, name, value);
    return name;
}

const char *weave_take_block(Weaver *w) { return text_keep(w->arena, &w->block); }

// It rests on no value that an earlier step carries, and is not moved before one that can fail: a row that a query
// drops alone after it
// failed must fail in company, too.
static bool is_free(const Ir *ir, const Step *step)
{
    if (step->kind > STEP_LOOKUP || step->can_fail) return false;
    for (int s = 0; s < ir->n_steps; s++)
        if (ir->steps[s].can_fail) return false;
    for (int u = 0; u < step->n_uses; u++)
        if (ir->decls[step->uses[u]].kind == DECL_CARRY && !ir_uses(step->carries, step->n_carries, step->uses[u]))
            return false;
    return true;
}

Step *weave_step(Weaver *w, Step step)
{
    Ir *ir = w->ir;
    step.live = w->live, step.is_dense = w->is_all, step.count = -1;
    step.first_column = w->n_placed, step.end_column = w->n_placed = ir->n_columns;
    step.n_carries = w->n_carries, step.carries = w->carries, step.can_fail = w->can_fail;
    w->n_carries = 0, w->carries = NULL, w->can_fail = false;
    const char *const fragments[] = { step.text, step.keep, step.row, step.next, step.hit };
    for (int f = 0; f < COUNT_OF(fragments); f++) ir_find_uses(w->arena, fragments[f], &step.uses, &step.n_uses);
    step.is_free = is_free(ir, &step);
    if (step.pass == 0) step.pass = 1;
    *LIST_PUSH(w->arena, ir->steps, ir->n_steps) = step;
    return &ir->steps[ir->n_steps - 1];
}

const StepTest *weave_step_test(Weaver *w, int column, i64 low, i64 high, const JoinTable *table)
{
    StepTest *test = arena_make(w->arena, StepTest);
    *test = (StepTest){ column, low, high, table };
    return test;
}

void weave_keep(Weaver *w, const char *condition)
{
    const bool has_block = w->block.length > 0;
    weave_step(w, (Step){ .kind = has_block ? STEP_BLOCK : STEP_CONDITION,
                          .text = has_block ? weave_take_block(w) : NULL,
                          .keep = condition });
    w->is_all = false;
}

void weave_each(Weaver *w) { weave_step(w, (Step){ .kind = STEP_EACH, .text = weave_take_block(w) }); }

void weave_pass(Weaver *w, double share)
{
    w->ir->steps[w->ir->n_steps - 1].pass = share;
    w->pass *= share;
}

void weave_count(Weaver *w, const char *what, int at_step)
{
    Ir *ir = w->ir;
    if (!ir->n_steps || ir->steps[ir->n_steps - 1].count >= 0) weave_step(w, (Step){ .kind = STEP_NOTHING });
    ir->steps[ir->n_steps - 1].count = w->out->n_counts;
    *LIST_PUSH(w->arena, w->out->counts, w->out->n_counts) =
        (WovenStep){ arena_strdup(w->arena, what), at_step, w->pass };
}

// ---- columns --------------------------------------------------------------------------------------------------------

Var *weave_var(Weaver *w, int id)
{
    for (int i = 0; i < w->n_vars; i++)
        if (w->vars[i].id == id && !w->vars[i].is_gone)
            return w->vars[i].same_as ? &w->vars[w->vars[i].same_as - 1] : &w->vars[i];
    return NULL;
}

Var *weave_var_of(Weaver *w, const Expr *column) { return weave_var(w, column->column); }

Var *weave_low_var(Weaver *w, int id) { return id < 0 ? NULL : weave_var(w, weave_low_id(id)); }

Var *weave_add_value(Weaver *w, int id, const char *name, Type type, const Val *val)
{
    Var *var = LIST_PUSH(w->arena, w->vars, w->n_vars);
    *var = (Var){ .id = id,
                  .name = name,
                  .type = type,
                  .dict = val->dict,
                  .dict_count = val->dict_count,
                  .range = val->range,
                  .source = -1,
                  .column = -1,
                  .value = val->value,
                  .value_null = val->null };
    return var;
}

void weave_on_stack(Weaver *w, int bytes)
{
    w->out->tile_bytes += (u64)bytes;
    w->out->fused_bytes += (u64)bytes;
}

static bool is_needed_later(const Weaver *w, const Var *var)
{
    return var->id < 0 || columns_has(&w->later, var->id);         // low words: no test looks at them alone
}

static const char *stored_type(const Var *var)
{
    if (!type_is_float(var->type)) return weave_width_type(var->width);
    return var->type.kind == TYPE_REAL && var->width == 4 ? "f32" : "f64";
}

static void declare_column(Weaver *w, Var *var)
{
    Woven     *out = w->out;
    int        n_pass = out->n_columns;
    const bool is_any = !type_is_float(var->type) && var->width == 0;
    *LIST_PUSH(w->arena, out->column_pass, n_pass) = w->pass;
    *LIST_PUSH(w->arena, out->columns, out->n_columns) = var->source;
    var->column = out->n_columns - 1;
    const int decl =
        declare(w, is_any ? DECL_COLUMN_ANY : DECL_COLUMN, is_any ? NULL : stored_type(var), var->name, var->column);
    var->ref = ref_to(w, decl);
    if (var->range.nullable) declare(w, DECL_NULLS, NULL, var->name, var->column);
    const LoadKind load = !out->can_pick ? LOAD_PLAIN : is_needed_later(w, var) ? LOAD_ROWS : LOAD_TEST;
    *LIST_PUSH(w->arena, w->ir->columns, w->ir->n_columns) = (IrColumn){ decl, load, var->range.nullable };
}

void weave_load(Weaver *w, Var *var)
{
    if (var->source < 0 || var->is_loaded) return;
    declare_column(w, var);
    var->is_loaded = true;
    if (var->width == 0) weave_on_stack(w, 8);
    else if (w->out->can_pick) w->out->tile_bytes += 8;        // gathered
}
