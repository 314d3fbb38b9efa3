// program_loops.h - a program (generic_args.h) run on the CPU, a vector of rows at a time: no compiler at run time.
//
// Included by program.c, and once more for each set of instructions that CPUs may have (program_avx2.c, ...); each
// names its function RUN_PROGRAM first.
//
//     rows        9 12 40 41 ...        of the chunk, that are left; no list while all are
//     value       v  v  v  v ...        at hand, side by side for the rows that are left
//     registers   r  r  r  r ...        likewise
//
// An operation is one loop over the rows that are left, which the compiler turns into vector code; what chooses the
// loop is paid once for a vector of rows.  Where rows are dropped, the values that are still wanted (find_wanted) move
// together.  So what comes after a filter takes time for its rows only.
//
// Answers are those of the other compilers to the last bit: the same macros (cpu.h) in another order, and no operation
// on a row depends on another row but the sums, which are of integers.

#include "base/base.h"
#include "kernel/generic_args.h"
#include "kernel/kernel.h"

#include "kernel/cpu.h"

// Rows: values at hand, an operand and a few registers stay in the nearest caches.  Of a list that a sieve has left
// most go all the way; of others few do.
enum { VECTOR = 1024, VECTOR_PICKED = 512 };

typedef struct ProgramRun {
    KernelArgs *args;
    u32         first;                 // row of the chunk
    u32         n;                     // rows that are left
    bool        has_list;              // which: those in ROWS; else N rows from FIRST on
    i32         rows[VECTOR];
    u16         kept[VECTOR + 8];      // of a test: which of the N rows stay
    u8          mask[VECTOR + 8];
    i64         values[VECTOR], operands[VECTOR];
    i64         regs[REGISTERS_MOST][VECTOR];
} ProgramRun;

static f64 as_f64(i64 bits)
{
    const union { i64 i; f64 f; } both = { .i = bits };
    return both.f;
}

static i64 as_bits(f64 number)
{
    const union { f64 f; i64 i; } both = { .f = number };
    return both.i;
}

// A loop that writes at K what lies at K or behind it: the compiler cannot see that vectors do no harm there.  A
// sanitizer's checks make it one without vectors, of which clang would warn.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define MOVES_DOWN_ _Pragma("clang loop vectorize(assume_safety)")
#else
#define MOVES_DOWN_ _Pragma("GCC ivdep")
#endif

// A loop of look-ups: vectors that are put together value by value take longer.
#ifdef __clang__
#define SCALAR_          _Pragma("clang loop vectorize(disable) interleave(disable)")
#define SCALAR_FUNCTION_
#else
#define SCALAR_
#define SCALAR_FUNCTION_ __attribute__((noinline, optimize("no-tree-vectorize")))
#endif

// ---- rows -----------------------------------------------------------------------------------------------------------

static void drop_values(ProgramRun *run, i64 *values, u32 n)
{
    const u16 *kept = run->kept;
    MOVES_DOWN_ for (u32 k = 0; k < n; k++) values[k] = values[kept[k]];
}

// N of the rows stay, those in KEPT, and the registers in WANTED with them.
static void drop_rows(ProgramRun *run, u32 n, u32 wanted)
{
    const u16 *kept = run->kept;
    i32       *rows = run->rows;
    if (n == run->n) return;
    if (run->has_list) {
        MOVES_DOWN_ for (u32 k = 0; k < n; k++) rows[k] = rows[kept[k]];
    } else {
        for (u32 k = 0; k < n; k++) rows[k] = (i32)(run->first + kept[k]);
    }
    for (; wanted; wanted &= wanted - 1) drop_values(run, run->regs[__builtin_ctz(wanted)], n);
    run->has_list = true;
    run->n = n;
}

static void begin_rows(ProgramRun *run, u32 at)
{
    const KernelArgs *args = run->args;
    run->n = MIN_OF(args->row_end - at, (u32)(args->picked ? VECTOR_PICKED : VECTOR));
    run->first = at;
    run->has_list = args->picked != NULL;
    for (u32 k = 0; k < run->n && run->has_list; k++) run->rows[k] = (i32)(args->row_base + args->picked[at + k]);
}

static bool has_guard(const KernelOp *op)
{
    const bool is_other = op->code == DO_BETWEEN || op->code == DO_PROBE || op->code == DO_PAYLOAD;
    return op->guard != NO_REGISTER && !is_other;
}

// The registers that operations behind each read before they write them.
static void find_wanted(const KernelOp *ops, u32 n_ops, u16 *wanted)
{
    u32 now = 0;
    for (u32 o = n_ops; o-- > 0;) {
        const KernelOp *op = &ops[o];
        const bool      adds = op->code >= DO_SUM && op->code <= DO_SEEN;
        wanted[o] = (u16)now;          // behind it
        if (op->to != NO_REGISTER && adds) now |= 1u << op->to;
        else if (op->to != NO_REGISTER) now &= ~(1u << op->to);
        if (op->from == FROM_REGISTER) now |= 1u << op->at;
        if (has_guard(op)) now |= 1u << op->guard;
    }
}

// ---- columns --------------------------------------------------------------------------------------------------------

#define LISTED_LOOP_(type)                                                                                             \
    {                                                                                                                  \
        const type *stored = column->data;                                                                             \
        SCALAR_ for (u32 k = 0; k < n; k++) to[k] = (i64)((u64)stored[rows[k]] + plus);                                \
    }

SCALAR_FUNCTION_ static void load_listed(const KernelColumn *column, const i32 *rows, u32 n, u64 plus, i64 *to)
{
    switch (column->width) {
        case 1: LISTED_LOOP_(u8) break;
        case 2: LISTED_LOOP_(u16) break;
        case 4: LISTED_LOOP_(u32) break;
        default: LISTED_LOOP_(u64) break;
    }
}

#define STORED_LOOP_(type)                                                                                             \
    {                                                                                                                  \
        const type *stored = (const type *)column->data + first;                                                       \
        for (u32 k = 0; k < n; k++) to[k] = (i64)((u64)stored[k] + plus);                                              \
    }

static void load_neighbours(const KernelColumn *column, u32 first, u32 n, u64 plus, i64 *to)
{
    switch (column->width) {
        case 1: STORED_LOOP_(u8) break;
        case 2: STORED_LOOP_(u16) break;
        case 4: STORED_LOOP_(u32) break;
        default: STORED_LOOP_(u64) break;
    }
}

static void load_stored(const ProgramRun *run, const KernelColumn *column, u64 plus, i64 *to)
{
    if (run->has_list) load_listed(column, run->rows, run->n, plus, to);
    else load_neighbours(column, run->first, run->n, plus, to);
}

static void load_f32(const ProgramRun *run, const KernelColumn *column, i64 *to)
{
    const f32 *stored = column->data;
    for (u32 k = 0; k < run->n; k++)
        to[k] = as_bits((f64)stored[run->has_list ? (u32)run->rows[k] : run->first + k]);
}

static void load_nulls(const ProgramRun *run, const KernelColumn *column, i64 *to)
{
    const u64 *valid = column->valid;
    for (u32 k = 0; k < run->n; k++) {
        const u32 row = run->has_list ? (u32)run->rows[k] : run->first + k;
        to[k] = valid && !(valid[row >> 6] >> (row & 63) & 1);
    }
}

static bool is_column(u8 from) { return from >= FROM_STORED; }

static void load_column(const ProgramRun *run, const KernelOp *op, i64 *to)
{
    const KernelColumn *column = &run->args->columns[op->at];
    if (op->from == FROM_F32) load_f32(run, column, to);
    else if (op->from == FROM_NULL) load_nulls(run, column, to);
    else load_stored(run, column, op->from == FROM_VALUE ? (u64)column->base : 0, to);
}

static bool is_test(const KernelOp *op) { return op->code >= DO_KEEP && op->code <= DO_PROBE; }

static void fetch_column(const ProgramRun *run, const KernelColumn *column)
{
    const i32 *rows = run->rows;
    const u32  width = column->width, n = run->n;
    const u8  *data = column->data;
    if (n * FETCH_LINE >= VECTOR * width) return;
    for (u32 k = 0; k < n; k++) __builtin_prefetch(data + (u64)width * (u32)rows[k]);
}

// Rows are few where less than one is left in what a cache fetches at once.  Each is a miss then, so all that is read
// before rows are dropped again is asked for before the first is needed.
static void fetch_columns(const ProgramRun *run, const KernelOp *ops, u32 n_ops, u32 o)
{
    for (; o < n_ops; o++) {
        if (is_column(ops[o].from) && ops[o].from != FROM_NULL) fetch_column(run, &run->args->columns[ops[o].at]);
        if (is_test(&ops[o])) return;
    }
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static u32 keep_values(ProgramRun *run, const i64 *value)
{
    const u32 n = run->n;
    u8       *mask = run->mask;
    u32       m;
    for (u32 k = 0; k < n; k++) mask[k] = value[k] != 0;
    PICK_(run->kept, m, mask, n, run->args->picks)
    return m;
}

#define BETWEEN_LIST_(type)                                                                                            \
    {                                                                                                                  \
        const type *stored = column->data, low = (type)low_, span = (type)span_;                                       \
        for (u32 k = 0; k < n; k++) kept[m] = (u16)k, m += BETWEEN(type, stored[rows[k]], low, span);                  \
    }

// The column is as wide as the test.
static u32 keep_between_stored(ProgramRun *run, const KernelColumn *column, u64 low_, u64 span_)
{
    const u32  n = run->n;
    const i32 *rows = run->rows;
    u16       *kept = run->kept;
    u32        m = 0;
    switch (column->width) {
        case 1: BETWEEN_LIST_(u8) break;
        case 2: BETWEEN_LIST_(u16) break;
        case 4: BETWEEN_LIST_(u32) break;
        default: BETWEEN_LIST_(u64) break;
    }
    return m;
}

#define BETWEEN_ALL_(type)                                                                                             \
    {                                                                                                                  \
        const type *stored = (const type *)column->data + run->first, low = (type)low_, span = (type)span_;            \
        if (also) for (u32 k = 0; k < n; k++) mask[k] &= BETWEEN(type, stored[k], low, span);                          \
        else for (u32 k = 0; k < n; k++) mask[k] = BETWEEN(type, stored[k], low, span);                                \
    }

// Of all rows: into the mask.
static void mask_between(ProgramRun *run, const KernelColumn *column, u64 low_, u64 span_, bool also)
{
    const u32 n = run->n;
    u8       *mask = run->mask;
    switch (column->width) {
        case 1: BETWEEN_ALL_(u8) break;
        case 2: BETWEEN_ALL_(u16) break;
        case 4: BETWEEN_ALL_(u32) break;
        default: BETWEEN_ALL_(u64) break;
    }
}

static u32 keep_between_values(ProgramRun *run, const i64 *x, u64 low, u64 span, u64 all)
{
    u32 m = 0;
    for (u32 k = 0; k < run->n; k++) run->kept[m] = (u16)k, m += (((u64)x[k] - low) & all) <= span;
    return m;
}

static bool is_plain_between(const ProgramRun *run, const KernelOp *op)
{
    return op->code == DO_BETWEEN && op->from == FROM_STORED && run->args->columns[op->at].width * 8 == op->guard;
}

// The test at O, and those right behind it that can be made on one mask.  Returns the operation after them.
static u32 do_between(ProgramRun *run, const KernelOp *ops, u32 n_ops, u32 o, const u16 *wanted)
{
    const KernelArgs *args = run->args;
    u32               n_left = 0;
    bool              also = false;
    if (run->has_list || !is_plain_between(run, &ops[o])) {
        const KernelOp *op = &ops[o];
        const u64       all = ~0ull >> (64 - op->guard), low = (u64)args->params[op->x],
                        span = (u64)args->params[op->y] & all;
        if (is_plain_between(run, op)) {
            n_left = keep_between_stored(run, &args->columns[op->at], low, span);
        } else {
            load_column(run, op, run->operands);
            n_left = keep_between_values(run, run->operands, low, span, all);
        }
        drop_rows(run, n_left, wanted[o]);
        return o + 1;
    }
    for (; o < n_ops && (ops[o].code == DO_UNSURE || is_plain_between(run, &ops[o])); o++) {
        if (ops[o].code == DO_UNSURE) continue;            // rows that were picked have a list
        mask_between(run, &args->columns[ops[o].at], (u64)args->params[ops[o].x], (u64)args->params[ops[o].y], also);
        also = true;
    }
    PICK_(run->kept, n_left, run->mask, run->n, args->picks)
    drop_rows(run, n_left, wanted[o - 1]);
    return o;
}

// ---- look-ups -------------------------------------------------------------------------------------------------------

#define PROBE_ROWS_(entry, row)                                                                                        \
    SCALAR_ for (u32 k = 0; k < n; k++) {                                                                              \
        const u64 at = (u64)stored[row] + from;                                                                        \
        kept[m] = (u16)k, m += (entry) != 0;                                                                           \
    }
#define PROBE_BOTH_(type_, entry)                                                                                      \
    {                                                                                                                  \
        const type_ *table = table_;                                                                                   \
        if (run->has_list) PROBE_ROWS_(entry, rows[k])                                                                 \
        else PROBE_ROWS_(entry, first + k)                                                                             \
    }                                                                                                                  \
    break;
#define PROBE_WIDTH_(type)                                                                                             \
    {                                                                                                                  \
        const type *stored = column->data;                                                                             \
        switch (element) {                                                                                             \
            case ELEMENT_BIT: PROBE_BOTH_(u8, BIT(table, at))                                                          \
            case ELEMENT_U8: PROBE_BOTH_(u8, table[at])                                                                \
            case ELEMENT_U16: PROBE_BOTH_(u16, table[at])                                                              \
            case ELEMENT_U32: PROBE_BOTH_(u32, table[at])                                                              \
            default: PROBE_BOTH_(u64, table[at])                                                                       \
        }                                                                                                              \
    }

SCALAR_FUNCTION_ static u32 probe(ProgramRun *run, const KernelOp *op)
{
    const KernelColumn *column = &run->args->columns[op->at];
    const u8 *const    *entries = run->args->common->entries;
    const bool          has_bits = entries && entries[op->y];
    const int           element = has_bits ? ELEMENT_BIT : op->guard;
    const void         *table_ = has_bits ? entries[op->y] : run->args->tables[op->y];
    const u64           from = (u64)run->args->params[op->x];
    const u32           n = run->n, first = run->first;
    const i32          *rows = run->rows;
    u16                *kept = run->kept;
    u32                 m = 0;
    switch (column->width) {
        case 1: PROBE_WIDTH_(u8) break;
        case 2: PROBE_WIDTH_(u16) break;
        case 4: PROBE_WIDTH_(u32) break;
        default: PROBE_WIDTH_(u64) break;
    }
    return m;
}

#define PAYLOAD_TABLE_(element)                                                                                        \
    {                                                                                                                  \
        const element *table = table_;                                                                                 \
        if (run->has_list) SCALAR_ for (u32 k = 0; k < n; k++) out[k] = (i64)((u64)table[stored[rows[k]] + from] - 1); \
        else SCALAR_ for (u32 k = 0; k < n; k++) out[k] = (i64)((u64)table[stored[first + k] + from] - 1);             \
    }                                                                                                                  \
    break;
#define PAYLOAD_WIDTH_(type)                                                                                           \
    {                                                                                                                  \
        const type *stored = column->data;                                                                             \
        switch (op->guard) {                                                                                           \
            case ELEMENT_U8: PAYLOAD_TABLE_(u8)                                                                        \
            case ELEMENT_U16: PAYLOAD_TABLE_(u16)                                                                      \
            case ELEMENT_U32: PAYLOAD_TABLE_(u32)                                                                      \
            default: PAYLOAD_TABLE_(u64)                                                                               \
        }                                                                                                              \
    }

SCALAR_FUNCTION_ static void load_payload(ProgramRun *run, const KernelOp *op)
{
    const KernelColumn *column = &run->args->columns[op->at];
    const void         *table_ = run->args->tables[op->y];
    const u64           from = (u64)run->args->params[op->x];
    const u32           n = run->n, first = run->first;
    const i32          *rows = run->rows;
    i64                *out = run->regs[op->to];
    switch (column->width) {
        case 1: PAYLOAD_WIDTH_(u8) break;
        case 2: PAYLOAD_WIDTH_(u16) break;
        case 4: PAYLOAD_WIDTH_(u32) break;
        default: PAYLOAD_WIDTH_(u64) break;
    }
}

#define EACH_K_ for (u32 k = 0; k < n; k++)
#define MEANT_  (!guard || guard[k])
#define ELEMENTS_(type)                                                                                                \
    {                                                                                                                  \
        const type *table = table_;                                                                                    \
        if (guard) EACH_K_ out[k] = guard[k] ? (i64)table[(u64)value[k]] : 0;                                          \
        else EACH_K_ out[k] = (i64)table[(u64)value[k]];                                                               \
    }

static void look_up(const ProgramRun *run, const KernelOp *op, const i64 *value, const i64 *guard, i64 *out)
{
    const void *table_ = run->args->tables[op->y];
    const u32   n = run->n;
    switch (op->x) {
        case ELEMENT_BIT:
            EACH_K_ {
                const u8 *table = table_;
                out[k] = MEANT_ ? BIT(table, value[k]) : 0;
            }
            break;
        case ELEMENT_U8: ELEMENTS_(u8) break;
        case ELEMENT_U16: ELEMENTS_(u16) break;
        case ELEMENT_U32: ELEMENTS_(u32) break;
        case ELEMENT_I32: ELEMENTS_(i32) break;
        default: ELEMENTS_(u64) break;
    }
}

static void find_rows(const ProgramRun *run, const KernelOp *op, const i64 *value, i64 mask_, const i64 *guard,
                      i64 *out)
{
    const KernelSlot *slots = run->args->tables[op->y];
    const u64         mask = (u64)mask_;
    for (u32 k = 0; k < run->n; k++) {
        u32       row = 0;
        const u64 key = (u64)value[k];
        if (MEANT_) FIND(row, slots, mask, key, 1)
        out[k] = row;
    }
}

// ---- sums -----------------------------------------------------------------------------------------------------------

static void find_groups(const ProgramRun *run, const i64 *value, i64 *out)
{
    KernelArgs *const A = run->args;
    for (u32 k = 0; k < run->n; k++) {
        u32       group = 0;
        const u64 key = (u64)value[k];
        GROUP(group, key, 0, 1)
        out[k] = group;
    }
}

#define CELLS_(type, word, from)                                                                                       \
    {                                                                                                                  \
        type *const cells = args->state[op->y];                                                                        \
        if (guard) { EACH_K_ if (guard[k]) { word(cells[(u64)group[k]], from) } }                                      \
        else { EACH_K_ { word(cells[(u64)group[k]], from) } }                                                          \
    }                                                                                                                  \
    break;

static void add_to_cells(const ProgramRun *run, const KernelOp *op, const i64 *value, const i64 *guard)
{
    const KernelArgs *args = run->args;
    const i64        *group = run->regs[op->to];
    const u32         n = run->n;
    switch (op->code) {
        case DO_SUM: CELLS_(i64, ADD, value[k])
        case DO_LEAST: CELLS_(i64, LEAST, value[k])
        case DO_MOST: CELLS_(i64, MOST, value[k])
        case DO_LEAST_F64: CELLS_(f64, LEAST_F64, as_f64(value[k]))
        case DO_MOST_F64: CELLS_(f64, MOST_F64, as_f64(value[k]))
        case DO_SUM_WIDE: {
            i64 *const low = args->state[op->y], *const high = args->state[op->y + 1];
            EACH_K_ if (MEANT_) ADD_WIDE(low[(u64)group[k]], high[(u64)group[k]], value[k])
        } break;
        default: {
            u8 *const cells = args->state[op->y];
            EACH_K_ cells[(u64)group[k]] = 1;
        } break;
    }
}

#define TOTALS_(type, word, from)                                                                                      \
    {                                                                                                                  \
        type *const cell = args->state[op->y], total = *cell;                                                          \
        if (guard) { EACH_K_ if (guard[k]) { word(total, from) } }                                                     \
        else { EACH_K_ { word(total, from) } }                                                                         \
        *cell = total;                                                                                                 \
    }                                                                                                                  \
    break;

static void add_to_totals(const ProgramRun *run, const KernelOp *op, const i64 *value, const i64 *guard)
{
    const KernelArgs *args = run->args;
    const u32         n = run->n;
    switch (op->code) {
        case DO_TOTAL: {
            i64 *const cell = args->state[op->y];
            u64        total = (u64)*cell;
            if (guard) EACH_K_ total += guard[k] ? (u64)value[k] : 0;
            else EACH_K_ total += (u64)value[k];
            *cell = (i64)total;
        } break;
        case DO_TOTAL_WIDE: {
            i64 low = *(i64 *)args->state[op->y], high = *(i64 *)args->state[op->y + 1];
            EACH_K_ if (MEANT_) ADD_WIDE(low, high, value[k])
            *(i64 *)args->state[op->y] = low, *(i64 *)args->state[op->y + 1] = high;
        } break;
        case DO_TOTAL_LEAST: TOTALS_(i64, LEAST, value[k])
        case DO_TOTAL_MOST: TOTALS_(i64, MOST, value[k])
        case DO_TOTAL_LEAST_F64: TOTALS_(f64, LEAST_F64, as_f64(value[k]))
        case DO_TOTAL_MOST_F64: TOTALS_(f64, MOST_F64, as_f64(value[k]))
        default: *(i64 *)args->state[op->y] += n; break;
    }
}

// ---- any operation --------------------------------------------------------------------------------------------------

// V is the value at hand of a row, X the operand: a vector, or one number for all rows.
#define BINARY_(expression)                                                                                            \
    if (x) EACH_K_ { const i64 V = value[k], X = x[k]; (void)V; (void)X; out[k] = (i64)(expression); }                 \
    else EACH_K_ { const i64 V = value[k], X = number; (void)V; (void)X; out[k] = (i64)(expression); }                 \
    break;
#define UNARY_(expression) EACH_K_ { const i64 V = value[k]; out[k] = (i64)(expression); } break;
#define FLOATS_(expression)                                                                                            \
    if (x) EACH_K_ { const f64 V = as_f64(value[k]), X = as_f64(x[k]); out[k] = as_bits(expression); }                 \
    else EACH_K_ { const f64 V = as_f64(value[k]), X = as_f64(number); out[k] = as_bits(expression); }                 \
    break;
#define COMPARE_F64_(expression)                                                                                       \
    if (x) EACH_K_ { const f64 V = as_f64(value[k]), X = as_f64(x[k]); out[k] = (expression) != 0; }                   \
    else EACH_K_ { const f64 V = as_f64(value[k]), X = as_f64(number); out[k] = (expression) != 0; }                   \
    break;
// Arithmetic that can fail: for rows that are meant, and only they.
#define CHECKED_(word)                                                                                                 \
    {                                                                                                                  \
        EACH_K_ {                                                                                                      \
            const i64 V = value[k], X = x ? x[k] : number;                                                             \
            if (MEANT_) { word(r_, V, X, op->y) out[k] = r_; }                                                         \
            else out[k] = V;                                                                                           \
        }                                                                                                              \
        break;                                                                                                         \
    }

// Quotients of numbers of 32 bits are exact in floats: one that is no whole number is too far from one to be rounded to
// it.  A division of 64 bits takes some 40 cycles, and has no vectors.
static bool do_short_division(const KernelOp *op, const i64 *value, i64 by, u32 n, i64 *out)
{
    u64 beyond = 0;
    EACH_K_ beyond |= ((u64)value[k] + (1ull << 31)) >> 32;
    if (beyond || by <= 0 || by >> 31) return false;
    const f64 divisor = (f64)by;
    if (op->code == DO_DIV_CHECKED) EACH_K_ out[k] = (i32)((f64)(i32)value[k] / divisor);
    else EACH_K_ out[k] = (i32)value[k] - (i64)(i32)((f64)(i32)value[k] / divisor) * by;
    return true;
}

// As ADD_CHECKED and SUB_CHECKED, but all rows are meant, and one question is asked for all of them.
#define SUMS_CHECKED_(result, wrong, operand)                                                                          \
    {                                                                                                                  \
        i64 signs = 0;                                                                                                 \
        EACH_K_ {                                                                                                      \
            const i64 V = value[k], X = operand, r = (i64)(result);                                                    \
            out[k] = r, signs |= wrong;                                                                                \
        }                                                                                                              \
        if (signs < 0) FAIL(op->y)                                                                                     \
        break;                                                                                                         \
    }

static void do_checked(ProgramRun *run, const KernelOp *op, const i64 *value, const i64 *x, i64 number,
                       const i64 *guard, i64 *out)
{
    KernelArgs *const A = run->args;
    const u32         n = run->n;
    switch (op->code) {
        case DO_ADD_CHECKED:
            if (guard) CHECKED_(ADD_CHECKED)
            if (x) SUMS_CHECKED_((u64)V + (u64)X, (V ^ r) & (X ^ r), x[k])
            SUMS_CHECKED_((u64)V + (u64)X, (V ^ r) & (X ^ r), number)
        case DO_SUB_CHECKED:
            if (guard) CHECKED_(SUB_CHECKED)
            if (x) SUMS_CHECKED_((u64)V - (u64)X, (V ^ X) & (V ^ r), x[k])
            SUMS_CHECKED_((u64)V - (u64)X, (V ^ X) & (V ^ r), number)
        case DO_MUL_CHECKED: CHECKED_(MUL_CHECKED)
        case DO_DIV_CHECKED:
            if (!x && !guard && do_short_division(op, value, number, n, out)) break;
            CHECKED_(DIV_CHECKED)
        case DO_MOD_CHECKED:
            if (!x && !guard && do_short_division(op, value, number, n, out)) break;
            CHECKED_(MOD_CHECKED)
        case DO_DIV_F64_CHECKED:
            EACH_K_ {
                const i64 V = value[k], X = x ? x[k] : number;
                if (MEANT_) {
                    DIV_F64_CHECKED(quotient, as_f64(V), as_f64(X), op->y)
                    out[k] = as_bits(quotient);
                } else {
                    out[k] = V;
                }
            }
            break;
        case DO_CHECK:
            EACH_K_ if (MEANT_) CHECK(value[k], op->y)
            break;
        default: break;
    }
}

static void do_part(const ProgramRun *run, const i64 *value, f64 radix, i64 *rests, i64 *out)
{
    for (u32 k = 0; k < run->n; k++) {
        f64 rest = as_f64(value[k]);
        PART(part, rest, radix)
        rests[k] = as_bits(rest), out[k] = part;
    }
}

static void do_arithmetic(const ProgramRun *run, const KernelOp *op, const i64 *value, const i64 *x, i64 number,
                          const i64 *guard, i64 *out)
{
    const u32 n = run->n;
    switch (op->code) {
        case DO_LOAD: EACH_K_ out[k] = x ? x[k] : number; break;
        case DO_ADD: BINARY_((u64)V + (u64)X)
        case DO_SUB: BINARY_((u64)V - (u64)X)
        case DO_SUB_FROM: BINARY_((u64)X - (u64)V)
        case DO_MUL: BINARY_((u64)V * (u64)X)
        case DO_AND: BINARY_(V & X)
        case DO_OR: BINARY_(V | X)
        case DO_SHL: BINARY_((u64)V << (X & 63))
        case DO_SHR: BINARY_((u64)V >> (X & 63))
        case DO_SIGN_32: UNARY_((i32)V)
        case DO_EQ: BINARY_(V == X)
        case DO_NE: BINARY_(V != X)
        case DO_LT: BINARY_(V < X)
        case DO_LE: BINARY_(V <= X)
        case DO_GT: BINARY_(V > X)
        case DO_GE: BINARY_(V >= X)
        case DO_LT_U64: BINARY_((u64)V < (u64)X)
        case DO_LE_U64: BINARY_((u64)V <= (u64)X)
        case DO_GT_U64: BINARY_((u64)V > (u64)X)
        case DO_GE_U64: BINARY_((u64)V >= (u64)X)
        case DO_SELECT: EACH_K_ out[k] = guard[k] ? value[k] : x ? x[k] : number; break;
        case DO_TO_F64: UNARY_(as_bits((f64)V))
        case DO_TO_F32: UNARY_(as_bits((f64)(f32)as_f64(V)))
        case DO_ADD_F64: FLOATS_(V + X)
        case DO_SUB_F64: FLOATS_(V - X)
        case DO_SUB_FROM_F64: FLOATS_(X - V)
        case DO_MUL_F64: FLOATS_(V * X)
        case DO_DIV_F64: FLOATS_(V / X)
        case DO_EQ_F64: COMPARE_F64_(V == X)
        case DO_NE_F64: COMPARE_F64_(V != X)
        case DO_LT_F64: COMPARE_F64_(V < X)
        case DO_LE_F64: COMPARE_F64_(V <= X)
        case DO_GT_F64: COMPARE_F64_(V > X)
        case DO_GE_F64: COMPARE_F64_(V >= X)
        case DO_SAME_F64: COMPARE_F64_(SAME_F64(V, X))
        case DO_LESS_F64: COMPARE_F64_(LESS_F64(V, X))
        case DO_MORE_F64: COMPARE_F64_(LESS_F64(X, V))
        case DO_FINITE: UNARY_(FINITE(as_f64(V)))
        case DO_KEY_F64: UNARY_(KEY_OF_F64(V))
        case DO_ROUND_DIV: EACH_K_ { ROUND_DIV(r_, value[k], x ? x[k] : number) out[k] = r_; } break;
        default: break;
    }
}

static void find_constants(const ProgramRun *run, const KernelOp *op, const i64 *value, i64 n_constants,
                           const i64 *guard, i64 *out)
{
    const i64 *const constants = run->args->tables[op->y];
    for (u32 k = 0; k < run->n; k++) {
        const i64 V = value[k];
        if (MEANT_) {
            ONE_OF(is_one, V, constants, n_constants)
            out[k] = is_one;
        } else {
            out[k] = V;
        }
    }
}

static void put_rows(const ProgramRun *run, const KernelOp *op, const i64 *value, u64 at)
{
    void *const to = run->args->state[op->y];
    if (op->code == DO_PUT) memcpy((i64 *)to + at, value, run->n * sizeof *value);
    else for (u32 k = 0; k < run->n; k++) ((u8 *)to)[at + k] = (u8)value[k];
}

// A loop for all that keeps no state but ROOM, the first of the rows that are put out.
static void run_vector(ProgramRun *run, const KernelOp *ops, u32 n_ops, const u16 *wanted)
{
    KernelArgs *const args = run->args;
    const i64        *value = run->values;
    u64               room = 0;
    for (u32 o = 0; o < n_ops && run->n; o++) {
        const KernelOp *op = &ops[o];
        const i64      *guard = has_guard(op) ? run->regs[op->guard] : NULL, *x = NULL;
        i64             number = 0, *out = op->to == NO_REGISTER ? run->values : run->regs[op->to];
        if (op->code < DO_KEEP) {
            i64 *operands = op->code == DO_LOAD ? out : run->operands;
            if (is_column(op->from)) load_column(run, op, operands), x = operands;
            else if (op->from == FROM_REGISTER) x = run->regs[op->at];
            else number = op->from == FROM_PARAM ? args->params[op->at] : op->x;
        }
        switch (op->code) {
            case DO_LOAD:
                if (x && op->to == NO_REGISTER) out = (i64 *)(uintptr_t)x;         // only read from here on
                else if (x != out) do_arithmetic(run, op, value, x, number, guard, out);
                break;
            case DO_PART: do_part(run, value, as_f64(x ? x[0] : number), out, run->values), out = run->values; break;
            case DO_TABLE: look_up(run, op, value, guard, out); break;
            case DO_FIND: find_rows(run, op, value, x ? x[0] : number, guard, out); break;
            case DO_ONE_OF: find_constants(run, op, value, x ? x[0] : number, guard, out); break;
            case DO_ADD_CHECKED: case DO_SUB_CHECKED: case DO_MUL_CHECKED: case DO_DIV_CHECKED: case DO_MOD_CHECKED:
            case DO_DIV_F64_CHECKED: do_checked(run, op, value, x, number, guard, out); break;
            case DO_CHECK:
                do_checked(run, op, value, x, number, guard, out);
                continue;
            case DO_KEEP:
                drop_rows(run, keep_values(run, value), wanted[o]);
                if (run->has_list) fetch_columns(run, ops, n_ops, o + 1);
                continue;
            case DO_BETWEEN:
                o = do_between(run, ops, n_ops, o, wanted) - 1;
                if (run->has_list) fetch_columns(run, ops, n_ops, o + 1);
                continue;
            case DO_PROBE:
                drop_rows(run, probe(run, op), wanted[o]);
                if (run->has_list) fetch_columns(run, ops, n_ops, o + 1);
                continue;
            case DO_PAYLOAD: load_payload(run, op); continue;
            case DO_STEP: args->counts[op->y] += run->n; continue;
            case DO_UNSURE: o += args->picked && args->sure ? (u32)op->y : 0; continue;
            case DO_GROUP: find_groups(run, value, out); break;
            case DO_SUM: case DO_SUM_WIDE: case DO_LEAST: case DO_MOST: case DO_LEAST_F64: case DO_MOST_F64:
            case DO_SEEN: add_to_cells(run, op, value, guard); continue;
            case DO_TOTAL: case DO_TOTAL_WIDE: case DO_TOTAL_LEAST: case DO_TOTAL_MOST: case DO_TOTAL_LEAST_F64:
            case DO_TOTAL_MOST_F64: case DO_TOTAL_ROWS: add_to_totals(run, op, value, guard); continue;
            case DO_ROOM: room = args->room(args, run->n); continue;
            case DO_PUT: case DO_PUT_FLAG: put_rows(run, op, value, room); continue;
            case DO_NOTE: case DO_NOTE_NULL: case DO_MARK: continue;               // the host looks for itself
            default: do_arithmetic(run, op, value, x, number, guard, out); break;
        }
        value = out;
    }
}

void RUN_PROGRAM(KernelArgs *args)
{
    const KernelProgram *program = args->common->program;
    const KernelOp      *ops = (const KernelOp *)(program + 1);
    u16                  wanted[OPS_MOST];
    ProgramRun           run;
    run.args = args;
    find_wanted(ops, program->n_ops, wanted);
    for (u32 at = args->row_first; at < args->row_end; at += args->picked ? VECTOR_PICKED : VECTOR) {
        begin_rows(&run, at);
        run_vector(&run, ops, program->n_ops, wanted);
    }
}
