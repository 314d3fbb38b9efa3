// holes.c - literals that a plan does not know the values of.
//
// A plan that is made for a literal is good for another one where nothing was taken from its value.  So a literal that
// may be another one next time is taken out where it is bound: the comparison gets a parameter, and the value is
// nowhere in the plan (but as a guess for estimates).  What is left to show is that the value went nowhere else, and
// that the parameter's new value is what binding would make of the new literal:
//
//     lo_quantity < 25        bound as ever: column, <, constant 25        then: column < $1
//     ... < 30                $1 = the constant of "column < 30", bound the same way
//
// - A literal is counted each time it is bound, and each time it becomes a hole.  One that was bound in any other way,
//   or that the parser took, has to be the same in the next text (holes_cover).
// - The new value comes from the same call that made the comparison, over a column of the same type.  Where that gives
//   another form (x < 1.5 is x <= 1 for an integer x), another type, or an error, the plan is not for this text.
// - Literals of equal type and value are one parameter, since rewrites drop conditions that are equal.  So the values
//   of other texts must be equal, and differ, in the same way.
//
// Only in WHERE, ON and HAVING, and only where the other side is no constant: elsewhere a literal decides for types,
// names, groups and folding.  Not in views: their texts are others.

#include "sql/sql_int.h"

void holes_begin(TextHoles *holes, Arena *arena, const TextShape *shape)
{
    holes->arena = arena, holes->shape = shape;
    holes->n = holes->n_params = 0;
    holes->has_failed = false;
    holes->n_bound = arena_array(arena, int, shape->n_literals + 1);
    holes->n_holes = arena_array(arena, int, shape->n_literals + 1);
}

bool holes_cover(const TextHoles *holes, int literal)
{
    return holes->n_holes[literal] > 0 && holes->n_holes[literal] == holes->n_bound[literal];
}

// ---- values ---------------------------------------------------------------------------------------------------------

// As bind_const makes it of the tree's constant.
static weft_status bare_const(Arena *arena, const TextShape *shape, const TextHole *hole, Expr **out, Error *err)
{
    const Literal *literal = &shape->literals[hole->literal];
    Value          value = { .type = TYPE(NULL) };
    if (literal->kind == LITERAL_INTEGER) {
        value = (Value){ .type = TYPE(INTEGER), .i = hole->is_negated ? -literal->number : literal->number };
    } else {
        const char *bytes = literal_bytes(arena, literal, hole->is_negated);
        if (literal->kind == LITERAL_NUMBER) return expr_number(arena, bytes, strlen(bytes), -1, out, err);
        value.text.bytes = bytes;
        value.text.length = (u32)strlen(bytes);
    }
    *out = expr_const(arena, value, -1);
    return WEFT_OK;
}

// And bind_cast, to a type without a length.
static weft_status literal_const(Arena *arena, const TextShape *shape, const TextHole *hole, Expr **out, Error *err)
{
    TRY(bare_const(arena, shape, hole, out, err));
    return hole->cast.kind == TYPE_NULL ? WEFT_OK : expr_cast(arena, *out, hole->cast, -1, out, err);
}

// The constant in COMPARISON, which must be of RESULT with X as it is; NULL: it has another form.
static Expr *constant_in(const Expr *comparison, Op result, const Expr *x)
{
    if (comparison->kind != EXPR_CALL || comparison->op != result || comparison->n_args != 2) return NULL;
    const int side = comparison->args[0] == x ? 1 : 0;
    Expr     *constant = comparison->args[side];
    if (comparison->args[1 - side] != x || x->is_long || !expr_is_const(constant)) return NULL;
    return constant->value.is_null || constant->is_long ? NULL : constant;
}

// What the hole's literal is in the text of SHAPE; NULL: no value for the hole.
static Expr *value_of(Arena *arena, const TextShape *shape, const TextHole *hole)
{
    Error err;
    Expr *args[2], *comparison;
    error_clear(&err);
    args[1 - hole->side] = expr_column(arena, 0, hole->compared, -1);
    if (literal_const(arena, shape, hole, &args[hole->side], &err)) return NULL;
    if (expr_call(arena, hole->op, args, 2, -1, &comparison, &err)) return NULL;
    Expr *constant = constant_in(comparison, hole->result, args[1 - hole->side]);
    return constant && type_equal(constant->type, hole->type) ? constant : NULL;
}

bool holes_fill(const TextHoles *holes, const TextShape *shape, Arena *arena, Expr **values)
{
    for (int p = 0; p < holes->n_params; p++) values[p] = NULL;
    for (int s = 0; s < holes->n; s++) {
        const TextHole *hole = &holes->list[s];
        Expr       *value = value_of(arena, shape, hole);
        if (!value || (values[hole->param] && !expr_equal(values[hole->param], value))) return false;
        values[hole->param] = value;
    }
    for (int p = 0; p < holes->n_params; p++)
        for (int q = 0; q < p; q++)
            if (expr_equal(values[p], values[q])) return false;
    return true;
}

// ---- binding --------------------------------------------------------------------------------------------------------

void bind_note_literal(Binder *binder, int at)
{
    TextHoles *holes = binder->names->holes;
    bool   ignored;
    if (!holes || binder->n_views) return;
    const int literal = shape_literal_at(holes->shape, at, &ignored);
    if (literal >= 0) holes->n_bound[literal]++;
}

static bool may_have_holes(const Binder *binder)
{
    const TextHoles *holes = binder->names->holes;
    const char  *clause = binder->place.clause;
    if (!holes || holes->has_failed || !binder->plan || binder->n_views || binder->place.is_lazy ||
        binder->place.in_agg || !clause)
        return false;
    return strcmp(clause, "WHERE") == 0 || strcmp(clause, "JOIN/ON") == 0 || strcmp(clause, "HAVING") == 0;
}

// A boolean literal folds what it is compared with; the zone of a timestamptz is the session's; an interval is compared
// by two numbers.
static bool is_hole_type(Type type)
{
    switch ((TypeKind)type.kind) {
        case TYPE_SMALLINT: case TYPE_INTEGER: case TYPE_BIGINT: case TYPE_DECIMAL: case TYPE_NUMERIC:
        case TYPE_REAL: case TYPE_DOUBLE: case TYPE_DATE: case TYPE_TIMESTAMP: return true;
        case TYPE_TEXT: return !type_is_uuid(type);
        default:        return false;
    }
}

// DATE and TIMESTAMP before a text.
static bool is_plain_cast(Binder *binder, const PgQuery__TypeCast *cast, Type *type)
{
    TypeDetail detail;
    Error     *err = binder->err, ignored;
    error_clear(&ignored);
    binder->err = &ignored;
    const weft_status status = bind_type(binder, cast->type_name, &detail);
    binder->err = err;
    *type = detail.type;
    return !status && (type->kind == TYPE_DATE || type->kind == TYPE_TIMESTAMP) &&
           cast->arg->node_case == PG_QUERY__NODE__NODE_A_CONST &&
           cast->arg->a_const->val_case == PG_QUERY__A__CONST__VAL_SVAL;
}

// Whether NODE is a literal, or DATE before one.
static bool take_literal(Binder *binder, const ParseNode *node, TextHole *hole)
{
    hole->cast = TYPE(NULL);
    if (node->node_case == PG_QUERY__NODE__NODE_TYPE_CAST) {
        if (!is_plain_cast(binder, node->type_cast, &hole->cast)) return false;
        node = node->type_cast->arg;
    }
    if (node->node_case != PG_QUERY__NODE__NODE_A_CONST) return false;
    hole->literal = shape_literal_of(binder->arena, binder->names->holes->shape, node->a_const, &hole->is_negated);
    return hole->literal >= 0;
}

static int find_value(const TextHoles *holes, const Expr *constant)
{
    for (int p = 0; p < holes->n_params; p++)
        if (expr_equal(holes->values[p], constant)) return p;
    return -1;
}

// The parameter that takes the place of CONSTANT; NULL: there is no room, or CONSTANT is not what the hole would get.
static Expr *add_hole(Binder *binder, TextHole hole, Expr *constant)
{
    TextHoles *holes = binder->names->holes;
    hole.type = constant->type;
    if (!is_hole_type(hole.type) || !is_hole_type(hole.compared)) return NULL;
    const Expr *own = value_of(binder->arena, holes->shape, &hole);
    holes->has_failed |= holes->n == HOLES_MOST || binder->plan->n_params != holes->n_params;
    if (!own || !expr_equal(own, constant) || holes->has_failed) return NULL;
    hole.param = find_value(holes, constant);
    if (hole.param < 0) {
        hole.param = plan_add_param(binder->plan, constant->type, NULL, constant->at);
        binder->plan->params[hole.param].guess = &constant->value;
        holes->values[holes->n_params++] = constant;
    }
    holes->list[holes->n++] = hole;
    holes->n_holes[hole.literal]++;
    return expr_hole(binder->arena, hole.param, constant->type, constant->at);
}

void bind_hole(Binder *binder, Op op, const ParseNode *const *nodes, Expr *const *sides, Expr **out)
{
    TextHole   hole = { .op = op, .side = expr_is_const(sides[0]) ? 0 : 1 };
    const bool is_like = (op == OP_LIKE || op == OP_ILIKE) && hole.side == 1;
    if (!may_have_holes(binder) || !(is_like || (op >= OP_EQ && op <= OP_GE))) return;
    if (expr_is_const(sides[1 - hole.side])) return;
    const Expr *x = sides[1 - hole.side], *made = *out;
    Expr       *constant = constant_in(made, made->op, x), *parameter;
    hole.compared = x->type, hole.result = made->op;
    if (!constant || !take_literal(binder, nodes[hole.side], &hole)) return;
    if ((parameter = add_hole(binder, hole, constant)) == NULL) return;
    Expr **args = arena_array(binder->arena, Expr *, 2);
    for (int i = 0; i < 2; i++) args[i] = made->args[i] == constant ? parameter : made->args[i];
    *out = expr_with_args(binder->arena, made, args, 2);
}

static bool are_literals(Binder *binder, const ParseNode *const *nodes, int n_args)
{
    TextHole ignored = { 0 };
    for (int i = 1; i < n_args; i++)
        if (!take_literal(binder, nodes[i], &ignored)) return false;
    return true;
}

static weft_status make_list(Binder *binder, const ParseNode *const *nodes, Expr *const *args, int n_args, Expr **own)
{
    for (int i = 1; i < n_args; i++) {
        TextHole  hole = { .op = OP_IN, .result = OP_IN, .side = 1, .compared = args[0]->type };
        Expr *comparison, *constant;
        Error err;
        error_clear(&err);
        if (!take_literal(binder, nodes[i], &hole)) return WEFT_UNSUPPORTED;
        TRY(expr_call(binder->arena, OP_IN, (Expr *[]){ args[0], args[i] }, 2, -1, &comparison, &err));
        constant = constant_in(comparison, OP_IN, args[0]);
        own[i] = constant ? add_hole(binder, hole, constant) : NULL;
        if (!own[i]) return WEFT_UNSUPPORTED;
    }
    return WEFT_OK;
}

// IN sorts its constants and drops those that come twice, and so does plan_instance.
void bind_list_holes(Binder *binder, const ParseNode *const *nodes, Expr *const *args, int n_args, Expr **out)
{
    const Expr *made = *out;
    if (!may_have_holes(binder) || expr_is_const(args[0]) || !are_literals(binder, nodes, n_args)) return;
    if (made->kind != EXPR_CALL || made->op != OP_IN || made->args[0] != args[0]) return;
    Expr **own = arena_array(binder->arena, Expr *, n_args);
    own[0] = args[0];
    // The literals before one that cannot be a hole are counted as holes, and are none.
    if (make_list(binder, nodes, args, n_args, own)) binder->names->holes->has_failed = true;
    else *out = expr_with_args(binder->arena, made, own, n_args);
}
