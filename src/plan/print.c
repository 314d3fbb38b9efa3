// print.c - an expression as SQL, for EXPLAIN: what was understood, with every cast and no more parentheses than
// needed.

#include "plan/aggregates.h"
#include "plan/expr_int.h"
#include "plan/functions.h"

// How tightly a node holds together; an argument that binds less than its place demands gets parentheses.
enum {
    BIND_OR = 1,
    BIND_AND,
    BIND_NOT,
    BIND_IS,
    BIND_COMPARE,
    BIND_IN,
    BIND_ADD,
    BIND_MUL,
    BIND_SIGN,
    BIND_CAST,
    BIND_ALL
};

typedef struct ExprPrinter { const Plan *plan; Text *text; } ExprPrinter;

static void print(const ExprPrinter *printer, const Expr *expr, int least);

static bool is_negative_const(const Expr *expr)
{
    if (expr->value.is_null) return false;
    if (type_is_float(expr->type)) return expr->value.f < 0;
    return type_is_exact(expr->type) && expr->value.i < 0;
}

static int binding(const Expr *expr)
{
    if (expr->kind == EXPR_CONST) return is_negative_const(expr) ? BIND_SIGN : BIND_ALL;
    if (expr->kind != EXPR_CALL) return BIND_ALL;
    switch (expr->op) {
        case OP_OR:  return BIND_OR;
        case OP_AND: return BIND_AND;
        case OP_NOT: return BIND_NOT;
        case OP_IS_NULL: case OP_IS_NOT_NULL: return BIND_IS;
        case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE: return BIND_COMPARE;
        case OP_LIKE: case OP_ILIKE: case OP_IN: return BIND_IN;
        case OP_ADD: case OP_SUB: return BIND_ADD;
        case OP_MUL: case OP_DIV: case OP_MOD: return BIND_MUL;
        case OP_NEG:  return BIND_SIGN;
        case OP_CAST: return BIND_CAST;
        default:      return BIND_ALL;
    }
}

// ---- leaves ---------------------------------------------------------------------------------------------------------

static void print_quoted(const ExprPrinter *printer, const char *bytes, size_t length, char quote)
{
    text_add_bytes(printer->text, &quote, 1);
    for (size_t i = 0; i < length; i++) {
        text_add_bytes(printer->text, &bytes[i], 1);
        if (bytes[i] == quote) text_add_bytes(printer->text, &quote, 1);
    }
    text_add_bytes(printer->text, &quote, 1);
}

static void print_name(const ExprPrinter *printer, const char *name)
{
    bool is_plain = (name[0] >= 'a' && name[0] <= 'z') || name[0] == '_';
    for (const char *p = name; *p; p++) is_plain &= (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '_';
    if (is_plain) text_add(printer->text, "%s", name);
    else print_quoted(printer, name, strlen(name), '"');
}

static void print_const(const ExprPrinter *printer, const Value *value)
{
    char buffer[512];
    Text *text = printer->text;
    if (value->is_null) {
        text_add(text, "null");
        return;
    }
    switch ((TypeKind)value->type.kind) {
        case TYPE_TEXT: case TYPE_NULL:
            print_quoted(printer, value->text.bytes, value->text.length, '\'');
            break;
        case TYPE_BOOLEAN:
            text_add(text, value->i ? "true" : "false");
            break;
        case TYPE_DATE: case TYPE_INTERVAL: case TYPE_TIMESTAMP: case TYPE_TIMESTAMPTZ: case TYPE_TIME: {
            static const char *const names[] = { [TYPE_DATE] = "date", [TYPE_INTERVAL] = "interval",
                                                 [TYPE_TIMESTAMP] = "timestamp", [TYPE_TIMESTAMPTZ] = "timestamptz",
                                                 [TYPE_TIME] = "time" };
            value_format(value, buffer, sizeof buffer);
            text_add(text, "%s '%s'", names[value->type.kind], buffer);
            break;
        }
        default:
            value_format(value, buffer, sizeof buffer);
            text_add(text, "%s", buffer);
    }
}

static void print_agg(const ExprPrinter *printer, const Agg *agg)
{
    text_add(printer->text, "%s(%s", agg_name(agg->kind), agg->is_distinct ? "distinct " : "");
    if (agg->arg) print(printer, agg->arg, 0);
    else text_add(printer->text, "*");
    text_add(printer->text, ")");
}

// A column that a node made prints as what it stands for.
static void print_column(const ExprPrinter *printer, const Expr *expr, int least)
{
    if (!printer->plan || expr->column >= printer->plan->n_columns) {
        text_add(printer->text, "c%d", expr->column);
        return;
    }
    const PlanColumn *column = &printer->plan->columns[expr->column];
    if (column->agg) {
        print_agg(printer, column->agg);
    } else if (column->value) {
        print(printer, column->value, least);
    } else {
        if (printer->plan->n_scans > 1 && column->qualifier) {
            print_name(printer, column->qualifier);
            text_add(printer->text, ".");
        }
        print_name(printer, column->name);
    }
}

// ---- inner nodes ----------------------------------------------------------------------------------------------------

static void print_list(const ExprPrinter *printer, Expr *const *args, int n_args)
{
    for (int i = 0; i < n_args; i++) {
        if (i > 0) text_add(printer->text, ", ");
        print(printer, args[i], 0);
    }
}

static void print_case(const ExprPrinter *printer, const Expr *expr)
{
    text_add(printer->text, "case");
    for (int i = 0; i + 1 < expr->n_args; i += 2) {
        text_add(printer->text, " when ");
        print(printer, expr->args[i], 0);
        text_add(printer->text, " then ");
        print(printer, expr->args[i + 1], 0);
    }
    text_add(printer->text, " else ");
    print(printer, expr->args[expr->n_args - 1], 0);
    text_add(printer->text, " end");
}

static void print_like(const ExprPrinter *printer, const Expr *expr)
{
    print(printer, expr->args[0], BIND_IN + 1);
    text_add(printer->text, " %s ", op_text(expr->op));
    print(printer, expr->args[1], BIND_IN + 1);
    if (expr->n_args < 3) return;
    text_add(printer->text, " escape ");
    print(printer, expr->args[2], BIND_IN + 1);
}

static void print_in(const ExprPrinter *printer, const Expr *expr)
{
    print(printer, expr->args[0], BIND_IN + 1);
    text_add(printer->text, " in (");
    print_list(printer, expr->args + 1, expr->n_args - 1);
    text_add(printer->text, ")");
}

// AND and OR read the same in any grouping, comparisons do not chain, the rest groups to the left.
static void print_binary(const ExprPrinter *printer, const Expr *expr)
{
    const int  own = binding(expr);
    const bool is_logic = own == BIND_AND || own == BIND_OR;
    print(printer, expr->args[0], own == BIND_COMPARE ? own + 1 : own);
    text_add(printer->text, " %s ", op_text(expr->op));
    print(printer, expr->args[1], is_logic ? own : own + 1);
}

static void print_function(const ExprPrinter *printer, const Expr *expr, const char *name, bool is_field)
{
    if (strchr("~!", *name)) {                              // operators of regular expressions
        print(printer, expr->args[0], BIND_IN + 1);
        text_add(printer->text, " %s ", name);
        print(printer, expr->args[1], BIND_IN + 1);
        return;
    }
    if (is_field) text_add(printer->text, "extract(%s from ", name);
    else text_add(printer->text, "%s(", name);
    print_list(printer, expr->args, expr->n_args);
    text_add(printer->text, ")");
}

static void print_call(const ExprPrinter *printer, const Expr *expr)
{
    const Function *function = function_of(expr->op);
    char            buffer[32];
    if (function) {
        print_function(printer, expr, function->names[0], function->is_field);
        return;
    }
    switch (expr->op) {
        case OP_NEG:
            text_add(printer->text, "- ");                  // "--" would be a comment
            print(printer, expr->args[0], BIND_SIGN);
            break;
        case OP_NOT:
            text_add(printer->text, "not ");
            print(printer, expr->args[0], BIND_NOT);
            break;
        case OP_IS_NULL: case OP_IS_NOT_NULL:
            print(printer, expr->args[0], BIND_IS);
            text_add(printer->text, " %s", op_text(expr->op));
            break;
        case OP_CAST:
            print(printer, expr->args[0], BIND_CAST);
            text_add(printer->text, "::%s", type_label(expr->type, buffer));
            break;
        case OP_LIKE: case OP_ILIKE: print_like(printer, expr);  break;
        case OP_IN:                  print_in(printer, expr);    break;
        case OP_COALESCE:            print_function(printer, expr, "coalesce", false);  break;
        default: print_binary(printer, expr);
    }
}

// A numeric of 18 digits that is computed with as one of 38.
static bool is_same_numeric(const Expr *expr)
{
    return expr->kind == EXPR_CALL && expr->op == OP_CAST && expr->type.kind == TYPE_NUMERIC &&
           expr->type.precision == NUMERIC_DIGITS && expr->args[0]->type.kind == TYPE_DECIMAL &&
           expr->args[0]->type.scale == expr->type.scale;
}

static void print(const ExprPrinter *printer, const Expr *expr, int least)
{
    if (is_same_numeric(expr)) expr = expr->args[0];
    const bool needs_parens = binding(expr) < least;
    if (needs_parens) text_add(printer->text, "(");
    switch (expr->kind) {
        case EXPR_CONST:  print_const(printer, &expr->value);  break;
        case EXPR_COLUMN: print_column(printer, expr, least);  break;
        case EXPR_PARAM:  text_add(printer->text, "$%d", expr->param + 1);  break;
        case EXPR_CALL:   print_call(printer, expr);           break;
        case EXPR_CASE:   print_case(printer, expr);           break;
    }
    if (needs_parens) text_add(printer->text, ")");
}

void expr_print(const Expr *expr, const Plan *plan, Text *text)
{
    const ExprPrinter printer = { plan, text };
    print(&printer, expr, 0);
}

void agg_print(const Agg *agg, const Plan *plan, Text *text)
{
    const ExprPrinter printer = { plan, text };
    print_agg(&printer, agg);
}
