// test_having.c - conditions as ranges of numbers, beside what the interpreter says for each number.

#include "test.h"
#include "engine/having.h"

static Arena *arena;
static Error  err;
static int    n_checked;
static u64    random_state = 88172645463325252ull;

static u64 draw(void)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

static void give_number(void *context, const Expr *node, Value *value)
{
    *value = (Value){ .type = node->type, .i = *(const i64 *)context };
}

static bool is_true(const Expr *condition, i64 number)
{
    const EvalContext context = { .arena = arena, .column = give_number, .context = &number };
    Value             value;
    CHECK_OK(expr_eval(condition, &context, &value, &err), err);
    return !value.is_null && value.i;
}

static void check_number(const Expr *condition, const CellRange *range, i64 number)
{
    if (range_has(range, number) != is_true(condition, number))
        CHECK_FAIL("op %d: %lld is %s", (int)condition->op, (long long)number,
                   range_has(range, number) ? "in the range" : "outside of the range");
}

// Numbers where it may turn, the least and the largest ones, and some of each size.
static void check_condition(const Expr *condition, Type type)
{
    CellRange range;
    if (having_column(condition) != 7) return;              // beside a constant of no such type it is always the same
    n_checked++;
    CHECK(having_range(condition, type, &range));
    const i64 ends[] = { range.low, range.high, INT64_MIN, INT64_MAX, 0 };
    for (int e = 0; e < (int)COUNT_OF(ends); e++)
        for (i64 by = -3; by <= 3; by++) check_number(condition, &range, (i64)((u64)ends[e] + (u64)by));
    for (int shift = 0; shift < 64; shift++) {
        const i64 number = (i64)(draw() >> shift);
        check_number(condition, &range, number);
        check_number(condition, &range, (i64)(0 - (u64)number));
    }
}

static Expr *constant_of(Type type, i64 number)
{
    return expr_const(arena, (Value){ .type = type, .i = number }, -1);
}

static void check_all_ops(Expr *value, Expr *constant, Type type)
{
    for (int op = OP_EQ; op <= OP_GE; op++)
        for (int side = 0; side < 2; side++) {
            Expr *args[2], *condition;
            args[side] = value, args[1 - side] = constant;
            CHECK_OK(expr_call(arena, (Op)op, args, 2, -1, &condition, &err), err);
            check_condition(condition, type);
        }
}

static Expr *column_of(Type type) { return expr_column(arena, 7, type, -1); }

static Expr *as_number(Expr *value, Type type)
{
    Expr *out;
    CHECK_OK(expr_cast(arena, value, type, -1, &out, &err), err);
    return out;
}

TEST(a_range_says_what_the_interpreter_says)
{
    arena = arena_new(NULL, "test");
    error_clear(&err);
    const Type bigint = TYPE(BIGINT), money = { TYPE_DECIMAL, 18, 2 }, sum = { TYPE_NUMERIC, 38, 2 },
               fine = { TYPE_NUMERIC, 38, 12 };
    const i64  numbers[] = { 0, 1, -1, 299, 300, -300, 1000000007, INT64_MAX, INT64_MIN + 1, INT64_MIN };
    for (int n = 0; n < (int)COUNT_OF(numbers); n++) {
        check_all_ops(column_of(bigint), constant_of(bigint, numbers[n]), bigint);
        check_all_ops(column_of(money), constant_of(money, numbers[n]), money);
        check_all_ops(column_of(sum), constant_of(sum, numbers[n]), sum);
        check_all_ops(column_of(sum), constant_of(fine, numbers[n]), sum);
        check_all_ops(column_of(TYPE(DATE)), constant_of(TYPE(DATE), (i32)numbers[n]), TYPE(DATE));
        Expr *constant = expr_const(arena, (Value){ .type = TYPE(DOUBLE), .f = (double)numbers[n] / 100 }, -1);
        check_all_ops(as_number(column_of(bigint), TYPE(DOUBLE)), constant, bigint);
        check_all_ops(as_number(column_of(sum), TYPE(DOUBLE)), constant, sum);
        check_all_ops(as_number(column_of(sum), TYPE(REAL)), as_number(constant, TYPE(REAL)), sum);
    }
    CHECK(n_checked > 600);
    arena_free(arena);
}

TEST(what_is_no_range_is_left_to_the_interpreter)
{
    arena = arena_new(NULL, "test");
    error_clear(&err);
    Expr     *column = column_of(TYPE(BIGINT)), *one = constant_of(TYPE(BIGINT), 1), *condition, *other;
    CellRange range;
    CHECK_OK(expr_call(arena, OP_ADD, (Expr *[]){ column, one }, 2, -1, &other, &err), err);
    CHECK_OK(expr_call(arena, OP_GT, (Expr *[]){ other, one }, 2, -1, &condition, &err), err);
    CHECK_INT(having_column(condition), -1);
    CHECK_OK(expr_call(arena, OP_GT, (Expr *[]){ column, column }, 2, -1, &condition, &err), err);
    CHECK_INT(having_column(condition), -1);
    // A cast that fails for some numbers, which a group may have.
    CHECK_OK(expr_call(arena, OP_GT, (Expr *[]){ as_number(column, TYPE(SMALLINT)), constant_of(TYPE(SMALLINT), 1) }, 2,
                       -1, &condition, &err), err);
    CHECK_INT(having_column(condition), 7);
    CHECK(!having_range(condition, TYPE(BIGINT), &range));
    // Texts are no numbers, and the two words of an interval are not in order.
    CHECK(!having_range(condition, TYPE(TEXT), &range));
    CHECK(!having_range(condition, TYPE(INTERVAL), &range));
    arena_free(arena);
}
