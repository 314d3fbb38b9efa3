// test_probe.c - every kind of join over every shape of table, against nested loops.
//
// Rows, built rows and tables are made here, by hand, at random; so no other part of the engine is asked.  After the
// probe come a named
// value and a filter, which must work inside the loop over matches as well as without one; then rows or groups.
// WEFT_TEST_DEVICE=cuda runs the same on a GPU.

#include "test.h"
#include "device/cuda.h"
#include "device/device.h"
#include "jit/jit.h"
#include "kernel/kernel.h"

enum { N_ROWS = 4500, MOST_BUILT = 60 };
enum { PROBING, BUILT, MADE };                              // whose columns they are
#define ID_OF(owner, number) ((owner) * 16 + (number))      // of a column in the plan
enum { ID, K, K2, V, N_SOURCE };                            // columns of the probing side
enum { P, Q, B, N_PAYLOADS };                               // of the built one
enum { MARK, LET };

#define NO_VALUE INT64_MIN                                  // NULL, in what is compared

static Arena  *arena;
static Jit    *jit;
static Device *device;
static Budget  budget;
static Error   err;
static u64     random_state;

static i64 draw(i64 n)                                      // 0 .. n - 1
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (i64)(random_state % (u64)n);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

typedef struct Rows {
    i64  n;
    i64  k[N_ROWS], k2[N_ROWS], v[N_ROWS];                  // k may be NO_VALUE
} Rows;

typedef struct Built {
    i64    n;
    i64    k[MOST_BUILT], k2[MOST_BUILT], p[MOST_BUILT], b[MOST_BUILT];
    double q[MOST_BUILT];                                   // NAN: NULL
} Built;

typedef struct Case {
    ProbeKind  probe;
    TableShape shape;
    int        n_keys;
    bool       is_bytes, is_wide;                           // is_wide: keys of several words
    bool       is_chained, is_empty, has_residual, has_null_keys;
    u64        seed;
} Case;

static Rows *make_rows(const Case *c)
{
    Rows *rows = arena_make(arena, Rows);
    rows->n = N_ROWS;
    for (i64 r = 0; r < rows->n; r++) {
        rows->k[r] = c->has_null_keys && draw(5) == 0 ? NO_VALUE : 100 + draw(40);
        rows->k2[r] = draw(3), rows->v[r] = draw(30);
    }
    return rows;
}

static bool is_taken(const Built *built, i64 n, i64 k, i64 k2, int n_keys)
{
    for (i64 r = 0; r < n; r++)
        if ((n_keys < 1 || built->k[r] == k) && (n_keys < 2 || built->k2[r] == k2))
            return true;
    return false;
}

static Built *make_built(const Case *c)
{
    Built *built = arena_make(arena, Built);
    for (i64 r = 0, n = c->is_empty      ? 0
                        : c->n_keys == 0 ? (c->is_chained ? 5 : 1)
                        : c->is_chained  ? MOST_BUILT
                                         : 20;
         r < n; r++) {
        i64 k = 105 + draw(25), k2 = draw(3);
        if (!c->is_chained && is_taken(built, r, k, k2, c->n_keys)) {
            n--, r--;
            continue;
        }
        built->k[r] = k, built->k2[r] = k2, built->n = r + 1;
        built->p[r] = draw(4) == 0 ? NO_VALUE : draw(25);
        built->q[r] = draw(4) == 0 ? NAN : (double)draw(9) / 2;
        built->b[r] = draw(4) == 0 ? NO_VALUE : draw(2) ? INT64_MAX - draw(5) : INT64_MIN + 1 + draw(5);
    }
    return built;
}

static ColumnChunk store_column(const i64 *values, i64 n, u8 width)
{
    u8  *data = arena_alloc(arena, (size_t)n * width + 64);
    u64 *valid = NULL;
    for (i64 r = 0; r < n; r++) {
        const i64 value = values[r] == NO_VALUE ? 0 : values[r];
        memcpy(data + r * width, &value, width);
        if (value != values[r] && !valid) {
            valid = arena_array(arena, u64, n / 64 + 2);
            memset(valid, 0xff, (size_t)(n / 64 + 2) * 8);
        }
        if (value != values[r])
            valid[r / 64] &= ~((u64)1 << (r % 64));
    }
    return (ColumnChunk){
        .data = data, .valid = valid, .width = width, .has_range = true, .min = INT64_MIN, .max = INT64_MAX
    };
}

static Source *make_source(const Case *c, const Rows *rows)
{
    static const char *const names[] = { "id", "k", "k2", "v" };
    static const Range ranges[] = { { .known = true, .high = N_ROWS - 1 }, { .known = true, .low = 100, .high = 139 },
                                    { .known = true, .high = 2 }, { .known = true, .high = 29 } };
    static const u8 widths[] = { 4, 4, 1, 1 };
    Source *source = arena_make(arena, Source);
    Chunk  *chunk = arena_make(arena, Chunk);
    i64     ids[N_ROWS];
    int    *chunk_column = arena_array(arena, int, N_SOURCE);
    for (i64 r = 0; r < rows->n; r++)
        ids[r] = r;
    const i64 *values[] = { ids, rows->k, rows->k2, rows->v };
    *source = (Source){
        .name = "probing", .n_columns = N_SOURCE, .n_chunks = 1, .n_rows = (u64)rows->n, .chunk_column = chunk_column
    };
    source->columns = arena_array(arena, SourceColumn, N_SOURCE);
    source->chunks = arena_array(arena, const Chunk *, 1);
    source->chunks[0] = chunk;
    chunk->n_rows = (u32)rows->n;
    chunk->columns = arena_array(arena, ColumnChunk, N_SOURCE);
    for (int i = 0; i < N_SOURCE; i++) {
        chunk->columns[i] = store_column(values[i], rows->n, widths[i]);
        chunk_column[i] = i;
        source->columns[i] = (SourceColumn){ .id = ID_OF(PROBING, i),
                                             .name = names[i],
                                             .type = i == ID ? TYPE(BIGINT) : TYPE(INTEGER),
                                             .width = widths[i],
                                             .range = ranges[i] };
    }
    source->columns[K].range.nullable = c->has_null_keys;
    return source;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

static u64 word_of_key(const JoinTable *table, const Built *built, i64 r)
{
    u64 word = 0;
    for (int k = 0; k < table->n_keys; k++)
        word += ((u64)(k ? built->k2[r] : built->k[r]) - (u64)table->keys[k].low) * table->keys[k].stride;
    return word;
}

static void describe_keys(const Case *c, const Built *built, JoinTable *table)
{
    table->keys = arena_array(arena, JoinKey, 2);
    table->span = 1;
    table->is_one_word = !c->is_wide;
    for (int k = c->n_keys - 1; k >= 0; k--) {
        const i64 low = !built->n ? 0 : k ? 0 : 105, high = !built->n ? -1 : k ? 2 : 129;
        table->keys[k] = (JoinKey){
            .type = TYPE(INTEGER), .low = low, .high = high, .zone_low = low, .zone_high = high, .stride = table->span
        };
        table->span *= (u64)MAX_OF(high - low + 1, 1);
    }
}

static void link_rows(const Case *c, const Built *built, JoinTable *table)
{
    u32        *heads = arena_array(arena, u32, table->span + 1), *next = arena_array(arena, u32, built->n + 1);
    KernelSlot *slots = arena_array(arena, KernelSlot, 256);
    u64        *words = arena_array(arena, u64, built->n * 2 + 2);
    for (i64 r = built->n; r-- > 0;) {
        const bool is_hash = c->shape == SHAPE_HASH;
        u64        key = c->n_keys == 1 && is_hash ? (u64)built->k[r] : word_of_key(table, built, r), at = key;
        words[2 * r] = (u64)built->k[r], words[2 * r + 1] = (u64)built->k2[r];
        if (c->is_wide)
            key = HASH_MIX(HASH_MIX(HASH_SEED, words[2 * r]), words[2 * r + 1]);
        for (at = is_hash ? HASH_SLOT(key) & 255 : at; is_hash && slots[at].row && slots[at].key != key;)
            at = (at + 1) & 255;
        next[r] = is_hash ? slots[at].row : heads[at];
        if (is_hash)
            slots[at] = (KernelSlot){ .key = key, .row = (u32)r + 1 };
        else
            heads[at] = (u32)r + 1;
    }
    table->mask = 255, table->next = next, table->words = words;
    table->slots = c->shape == SHAPE_HASH ? (const void *)slots : heads;
}

static Payload payload_of(int number, const char *name, Type type)
{
    return (Payload){
        .id = ID_OF(BUILT, number), .number = number, .name = name, .type = type, .range = range_of_type(type)
    };
}

static void put(Payload *payload, u64 place, u64 code, bool is_null)
{
    memcpy((u8 *)(uintptr_t)payload->data + place * payload->width, &code, payload->width);
    if (payload->valid && !is_null)
        ((u8 *)(uintptr_t)payload->valid)[place / 8] |= (u8)(1u << place % 8);
}

static void make_room(Payload *payload, u64 n, u8 width, bool has_valid)
{
    payload->width = width;
    payload->bytes = n * width;
    payload->data = arena_alloc(arena, payload->bytes + 8);
    if (has_valid)
        payload->valid_bytes = n / 8 + 1, payload->valid = arena_alloc(arena, payload->valid_bytes + 8);
}

static void store_payloads(const Case *c, const Built *built, JoinTable *table)
{
    const bool is_direct = c->shape == SHAPE_DIRECT;
    const u64  n_places = is_direct ? table->span : (u64)built->n + 1;
    table->n_payloads = N_PAYLOADS;
    table->payloads = arena_array(arena, Payload, N_PAYLOADS);
    Payload *p = &table->payloads[P], *q = &table->payloads[Q], *b = &table->payloads[B];
    *p = payload_of(P, "p", TYPE(INTEGER)), *q = payload_of(Q, "q", TYPE(DOUBLE)),
    *b = payload_of(B, "b", TYPE(BIGINT));
    p->range = (Range){ .known = true, .nullable = true, .low = 0, .high = 24 };
    p->n_codes = 26, p->null_code = 25;
    q->range.nullable = b->range.nullable = true, b->range.known = true;
    b->base = INT64_MIN;
    make_room(p, n_places, 1, false), make_room(q, n_places, 8, true), make_room(b, n_places, 8, true);
    for (i64 r = 0; r < built->n; r++) {
        const u64 place = is_direct ? word_of_key(table, built, r) : (u64)r;
        u64       bits;
        memcpy(&bits, &built->q[r], 8);
        put(p, place, (built->p[r] == NO_VALUE ? p->null_code : (u64)built->p[r]) + is_direct, false);
        put(q, place, bits, isnan(built->q[r]));
        put(b, place, built->b[r] == NO_VALUE ? 0 : (u64)built->b[r] - (u64)b->base, built->b[r] == NO_VALUE);
    }
}

static JoinTable *make_table(const Case *c, const Built *built)
{
    static u64 n_tables = 1000000;
    JoinTable *table = arena_make(arena, JoinTable);
    *table = (JoinTable){ .id = ++n_tables,
                          .name = "built",
                          .shape = c->shape,
                          .is_bytes = c->is_bytes,
                          .is_unique = !c->is_chained,
                          .n_keys = c->n_keys,
                          .n_rows = (u64)built->n,
                          .n_distinct = (u64)built->n,
                          .n_scanned = MOST_BUILT,
                          .max_chain = c->is_chained ? MOST_BUILT : 1 };
    describe_keys(c, built, table);
    if (c->shape == SHAPE_BITS) {
        u8 *bits = arena_alloc(arena, table->span + 8);
        for (i64 r = 0; r < built->n; r++) {
            const u64 at = word_of_key(table, built, r);
            if (c->is_bytes)
                bits[at] = 1;
            else
                bits[at / 8] |= (u8)(1u << at % 8);
        }
        table->slots = bits;
        return table;
    }
    if (c->shape != SHAPE_DIRECT)
        link_rows(c, built, table);
    store_payloads(c, built, table);
    return table;
}

// ---- what is asked --------------------------------------------------------------------------------------------------

static Expr *column(int relation, int number, Type type)
{
    return expr_column(arena, ID_OF(relation, number), type, -1);
}
static Expr *number(i64 value) { return expr_const(arena, (Value){ .type = TYPE(INTEGER), .i = value }, -1); }

static Expr *call(Op op, Expr *a, Expr *b)
{
    Expr *out;
    CHECK_OK(expr_call(arena, op, (Expr *[]){ a, b }, 2, -1, &out, &err), err);
    return out;
}

static bool has_payloads(const Case *c) { return c->shape != SHAPE_BITS; }
static bool shows_payloads(const Case *c)
{
    return has_payloads(c) && (c->probe == PROBE_INNER || c->probe == PROBE_LEFT || c->probe == PROBE_SINGLE);
}

typedef struct Asked {
    WeaveStep steps[3];
    Expr     *outputs[6], *group, *keys[2];
    Agg       aggs[2];
    int       n_outputs;
} Asked;

static Asked *ask(const Case *c, const JoinTable *table)
{
    Asked *asked = arena_make(arena, Asked);
    Expr *v = column(PROBING, V, TYPE(INTEGER)), *p = column(BUILT, P, TYPE(INTEGER)),
         *let = column(MADE, LET, TYPE(INTEGER));
    asked->keys[0] = column(PROBING, K, TYPE(INTEGER)), asked->keys[1] = column(PROBING, K2, TYPE(INTEGER));
    asked->steps[0] = (WeaveStep){ .table = table, .keys = asked->keys, .probe = c->probe, .mark = ID_OF(MADE, MARK) };
    if (c->has_residual)
        asked->steps[0].residual = has_payloads(c) ? call(OP_LT, p, v) : call(OP_GT, v, number(10));
    asked->steps[1] =
        (WeaveStep){ .value = call(OP_ADD, v, shows_payloads(c) ? call(OP_COALESCE, p, number(7)) : number(1)),
                     .let = ID_OF(MADE, LET) };
    asked->steps[2] = (WeaveStep){ .filter = call(OP_NE, let, number(9)) };
    asked->outputs[0] = column(PROBING, ID, TYPE(BIGINT)), asked->outputs[1] = let;
    asked->outputs[2] = c->probe == PROBE_MARK ? column(MADE, MARK, TYPE(BOOLEAN)) : let;
    asked->outputs[3] = p, asked->outputs[4] = column(BUILT, Q, TYPE(DOUBLE)),
    asked->outputs[5] = column(BUILT, B, TYPE(BIGINT));
    asked->n_outputs = shows_payloads(c) ? 6 : 3;
    asked->group = shows_payloads(c) ? p : v;
    asked->aggs[0] = (Agg){ .kind = AGG_COUNT_ALL, .type = TYPE(BIGINT) };
    asked->aggs[1] = (Agg){ .kind = AGG_SUM, .arg = let, .type = TYPE(BIGINT) };
    return asked;
}

// ---- what should come out -------------------------------------------------------------------------------------------

typedef struct Row { i64 cells[6]; } Row;

typedef struct Answer {
    int   n_rows;
    Row  *rows;
    bool  fails;
} Answer;

static bool is_match(const Case *c, const Rows *rows, i64 r, const Built *built, i64 m)
{
    if (c->n_keys > 0 && (rows->k[r] == NO_VALUE || rows->k[r] != built->k[m]))
        return false;
    if (c->n_keys > 1 && rows->k2[r] != built->k2[m])
        return false;
    if (!c->has_residual)
        return true;
    return has_payloads(c) ? built->p[m] != NO_VALUE && built->p[m] < rows->v[r] : rows->v[r] > 10;
}

static void expect_row(const Case *c, Answer *answer, const Rows *rows, i64 r, const Built *built, i64 m, bool mark)
{
    const i64 p = m < 0 ? NO_VALUE : built->p[m], let = rows->v[r] + (!shows_payloads(c) ? 1 : p == NO_VALUE ? 7 : p);
    Row       row = { { r, let, c->probe == PROBE_MARK ? mark : let } };
    if (let == 9)
        return;
    if (shows_payloads(c)) {
        row.cells[3] = p;
        row.cells[4] = m < 0 || isnan(built->q[m]) ? NO_VALUE : (i64)(built->q[m] * 2);
        row.cells[5] = m < 0 ? NO_VALUE : built->b[m];
    }
    *LIST_PUSH(arena, answer->rows, answer->n_rows) = row;
}

static Answer expect(const Case *c, const Rows *rows, const Built *built)
{
    const bool is_outer = c->probe == PROBE_LEFT || c->probe == PROBE_SINGLE;
    Answer     answer = { 0 };
    for (i64 r = 0; r < rows->n; r++) {
        i64 n_matches = 0;
        for (i64 m = 0; m < built->n; m++) {
            if (!is_match(c, rows, r, built, m))
                continue;
            n_matches++;
            if (c->probe == PROBE_INNER || is_outer)
                expect_row(c, &answer, rows, r, built, m, true);
        }
        answer.fails |= c->probe == PROBE_SINGLE && n_matches > 1;
        if ((is_outer && !n_matches) || (c->probe == PROBE_SEMI && n_matches) ||
            (c->probe == PROBE_ANTI && !n_matches) || c->probe == PROBE_MARK)
            expect_row(c, &answer, rows, r, built, -1, n_matches > 0);
    }
    return answer;
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(Row)); }

static void check_same(const Case *c, const char *what, const char *text, Answer *is, Answer *should)
{
    if (is->n_rows)
        qsort(is->rows, (size_t)is->n_rows, sizeof(Row), by_bytes);
    if (should->n_rows)
        qsort(should->rows, (size_t)should->n_rows, sizeof(Row), by_bytes);
    for (int r = 0; r < MIN_OF(is->n_rows, should->n_rows); r++)
        for (int i = 0; i < 6; i++)
            if (is->rows[r].cells[i] != should->rows[r].cells[i])
                CHECK_FAIL("%s, probe %d shape %d keys %d%s%s%s%s seed %d: row %d cell %d is %lld, should be %lld\n%s",
                           what, c->probe, c->shape, c->n_keys, c->is_chained ? " chained" : "",
                           c->is_empty ? " empty" : "", c->has_residual ? " residual" : "",
                           c->has_null_keys ? " nulls" : "", (int)c->seed, r, i, (long long)is->rows[r].cells[i],
                           (long long)should->rows[r].cells[i], text);
    if (is->n_rows != should->n_rows)
        CHECK_FAIL("%s, probe %d shape %d keys %d: %d rows, should be %d\n%s", what, c->probe, c->shape, c->n_keys,
                   is->n_rows, should->n_rows, text);
}

// ---- running --------------------------------------------------------------------------------------------------------

static weft_status run_job(const WeaveJob *job, Woven *woven, JitMode mode, Launch *launch)
{
    static _Atomic u32 stop;
    const char *notice = NULL;
    stop = 0;
    error_clear(&err);
    *launch = (Launch){ .device = device,
                        .label = "test",
                        .woven = woven,
                        .source = job->source,
                        .sink = job->sink,
                        .n_slots = 2,
                        .limit = -1,
                        .budget = &budget,
                        .stop = &stop };
    if (device->ride) {
        weft_status status = device->ride(device, launch, &err);
        if (launch->out.refused[0])
            CHECK_FAIL("refused: %s\n%s", launch->out.refused, woven->text);
        return status;
    }
    if (jit_get(jit, woven->text, woven->name, mode, &launch->code, &notice, &err) != WEFT_OK || notice)
        CHECK_FAIL("%s%s\n%s", err.message, notice ? notice : "", woven->text);
    CHECK_OK(device->open(device, launch, &err), err);
    for (u32 first = 0; first < N_ROWS; first += 2560)
        device->push(device, launch, first > 0, 0, first, MIN_OF(first + 2560, (u32)N_ROWS));
    return device->finish(device, launch, &err);
}

static i64 cell_of(const Launch *launch, int output, u64 r)
{
    const OutColumn *out = &launch->woven->outputs[output];
    if (out->null >= 0 && ((const u8 *)launch->out.rows.columns[out->null])[r])
        return NO_VALUE;
    return out->is_float ? (i64)(((const double *)launch->out.rows.columns[out->value])[r] * 2)
                         : ((const i64 *)launch->out.rows.columns[out->value])[r];
}

static Answer rows_of(const Launch *launch, int n_outputs)
{
    Answer answer = { 0 };
    for (u64 r = 0; r < launch->out.rows.n_rows; r++) {
        Row *row = LIST_PUSH(arena, answer.rows, answer.n_rows);
        for (int o = 0; o < n_outputs; o++)
            row->cells[o] = cell_of(launch, o, r);
    }
    return answer;
}

// Key, number of rows, sum.
static Answer groups_of(const Launch *launch)
{
    const Woven    *woven = launch->woven;
    const GroupKey *key = &woven->group_keys[0];
    Answer          answer = { 0 };
    for (u64 g = 0; g < launch->out.groups.n_groups; g++) {
        const u64 code = woven->group_kind == GROUP_ARRAY ? g : launch->out.groups.keys[g];
        const i64 n = ((const i64 *)launch->out.groups.state[woven->aggs[0].count])[g];
        if (n)
            *LIST_PUSH(arena, answer.rows, answer.n_rows) =
                (Row){ { key->nullable && code == key->null_code ? NO_VALUE : key->base + (i64)code, n,
                         ((const i64 *)launch->out.groups.state[woven->aggs[1].sum])[g] } };
    }
    return answer;
}

static Answer group_rows(const Case *c, const Answer *all, const Rows *rows)
{
    Answer answer = { 0 };
    for (int r = 0; r < all->n_rows; r++) {
        const i64 key = shows_payloads(c) ? all->rows[r].cells[3] : rows->v[all->rows[r].cells[0]];
        int       at = 0;
        while (at < answer.n_rows && answer.rows[at].cells[0] != key)
            at++;
        if (at == answer.n_rows)
            *LIST_PUSH(arena, answer.rows, answer.n_rows) = (Row){ { key } };
        answer.rows[at].cells[1]++, answer.rows[at].cells[2] += all->rows[r].cells[1];
    }
    return answer;
}

static void check_case(const Case *c, JitMode mode)
{
    Arena *outer = arena;
    arena = arena_new(outer, "case");
    random_state = c->seed * 88172645463325252ull + 1;
    Rows        *rows = make_rows(c);
    const Built *built = make_built(c);
    Asked       *asked = ask(c, make_table(c, built));
    Answer       should = expect(c, rows, built), groups = group_rows(c, &should, rows);
    WeaveJob job = { .source = make_source(c, rows),
                     .n_steps = 3,
                     .steps = asked->steps,
                     .sink = SINK_ROWS,
                     .n_outputs = asked->n_outputs,
                     .outputs = asked->outputs };
    for (int sink = 0; sink < (mode == JIT_CC ? 1 : 2); sink++) {
        Woven *woven;
        Launch launch;
        CHECK_OK(weave(arena, &job, &woven, &err), err);
        const weft_status status = run_job(&job, woven, mode, &launch);
        if (should.fails) {
            CHECK_INT(status, WEFT_CARDINALITY);
            CHECK_STR(err.message, "more than one row returned by a subquery used as an expression");
        } else {
            CHECK_OK(status, err);
            Answer is = sink ? groups_of(&launch) : rows_of(&launch, asked->n_outputs);
            check_same(c, sink ? "groups" : "rows", woven->text, &is, sink ? &groups : &should);
            CHECK(!woven->is_empty || !should.n_rows);
        }
        device->free_launch(device, &launch);
        job.sink = SINK_GROUPS, job.n_outputs = 0, job.n_keys = 1, job.keys = &asked->group, job.n_aggs = 2,
        job.aggs = asked->aggs;
    }
    arena_free(arena);
    arena = outer;
}

static void begin(void)
{
    arena = arena_new(NULL, "test");
    jit = jit_new(&(JitOptions){ .prelude = arena_printf(arena, "%s\n%s\n", kernel_args_text, kernel_cpu_text),
                                 .cache_dir = "" });
    const char *wanted = getenv("WEFT_TEST_DEVICE");
    if (wanted && strcmp(wanted, "cuda") == 0)
        CHECK_OK(device_cuda_open(0, &(CudaOptions){ .memory_bytes = 64 << 20, .cache_dir = "" }, &device, &err), err);
    else
        device = device_cpu_open();
}

static void end(void)
{
    device->close(device);
    jit_free(jit);
    CHECK_INT(budget.used, 0);
    arena_free(arena);
}

// Every probe, residual or not, keys with and without NULL, over one table.  cc takes its time: it compiles what has
// most in it.
static void check_table(Case c)
{
    begin();
    for (JitMode mode = JIT_TCC; mode <= (device->ride ? JIT_TCC : JIT_CC); mode++)
        for (int n = 0; n < 6 * 2 * 2 * 2; n++) {
            c.probe = (ProbeKind)(n % 6), c.has_residual = n / 6 % 2, c.has_null_keys = n / 12 % 2, c.is_empty = n / 24;
            if (mode == JIT_CC && (!c.has_null_keys || !c.has_residual || c.is_empty))
                continue;
            for (c.seed = 1; c.seed <= (mode == JIT_TCC && !c.is_empty ? 3 : 1); c.seed++)
                check_case(&c, mode);
        }
    end();
}

TEST(a_bit_per_key) { check_table((Case){ .shape = SHAPE_BITS, .n_keys = 1 }); }
TEST(a_byte_per_key) { check_table((Case){ .shape = SHAPE_BITS, .n_keys = 1, .is_bytes = true }); }
TEST(a_bit_per_pair_of_keys) { check_table((Case){ .shape = SHAPE_BITS, .n_keys = 2 }); }
TEST(direct) { check_table((Case){ .shape = SHAPE_DIRECT, .n_keys = 1 }); }
TEST(direct_by_two_keys) { check_table((Case){ .shape = SHAPE_DIRECT, .n_keys = 2 }); }
TEST(direct_to_rows) { check_table((Case){ .shape = SHAPE_HEADS, .n_keys = 1 }); }
TEST(direct_to_chains) { check_table((Case){ .shape = SHAPE_HEADS, .n_keys = 1, .is_chained = true }); }
TEST(direct_to_chains_by_two_keys) { check_table((Case){ .shape = SHAPE_HEADS, .n_keys = 2, .is_chained = true }); }
TEST(hash) { check_table((Case){ .shape = SHAPE_HASH, .n_keys = 1 }); }
TEST(hash_of_one_word) { check_table((Case){ .shape = SHAPE_HASH, .n_keys = 2, .is_chained = true }); }
TEST(hash_of_chains) { check_table((Case){ .shape = SHAPE_HASH, .n_keys = 1, .is_chained = true }); }
TEST(hash_of_several_words) { check_table((Case){ .shape = SHAPE_HASH, .n_keys = 2, .is_wide = true }); }
TEST(hash_of_several_words_and_chains)
{
    check_table((Case){ .shape = SHAPE_HASH, .n_keys = 2, .is_wide = true, .is_chained = true });
}
TEST(cross_join_with_one_row) { check_table((Case){ .shape = SHAPE_DIRECT, .n_keys = 0 }); }
TEST(cross_join) { check_table((Case){ .shape = SHAPE_HEADS, .n_keys = 0, .is_chained = true }); }

// A named text is carried as a code, and the code means what it meant.
TEST(a_named_text_keeps_its_dictionary)
{
    static const char *const texts[] = { "one", "two", "three" };
    begin();
    random_state = 7;
    const Case  c = { .has_null_keys = true };
    Rows       *rows = make_rows(&c);
    Source     *source = make_source(&c, rows);
    Dictionary *dict = dict_new(NULL);
    u32         code;
    for (int t = 0; t < 3; t++)
        CHECK_OK(dict_intern(dict, texts[t], strlen(texts[t]), &code, &err), err);
    source->columns[K2].type = TYPE(TEXT), source->columns[K2].dict = dict, source->columns[K2].dict_count = 3;
    Expr *text = column(PROBING, K2, TYPE(TEXT)),
         *none = expr_const(arena, (Value){ .type = TYPE(TEXT), .text = { "none", 4 } }, -1);
    Expr *is_low = call(OP_EQ, column(PROBING, K, TYPE(INTEGER)), number(100)), *choice = arena_make(arena, Expr),
         *let = column(MADE, LET, TYPE(TEXT));
    *choice = (Expr){
        .kind = EXPR_CASE, .type = TYPE(TEXT), .at = -1, .n_args = 3, .args = (Expr *[]){ is_low, none, text }
    };
    const WeaveStep steps[] = { { .value = choice, .let = ID_OF(MADE, LET) }, { .filter = call(OP_NE, let, none) } };
    const WeaveJob  job = { .source = source, .n_steps = 2, .steps = steps, .sink = SINK_ROWS, .n_outputs = 2,
                            .outputs = (Expr *[]){ column(PROBING, ID, TYPE(BIGINT)), let } };
    Woven *woven;
    Launch launch;
    CHECK_OK(weave(arena, &job, &woven, &err), err);
    CHECK_OK(run_job(&job, woven, JIT_TCC, &launch), err);
    u64 r = 0;
    for (i64 id = 0; id < rows->n; id++) {
        if (rows->k[id] == 100)
            continue;
        CHECK_INT(cell_of(&launch, 0, r), id);
        CHECK_STR(dict_get(woven->outputs[1].dict, (u32)cell_of(&launch, 1, r)).bytes, texts[rows->k2[id]]);
        r++;
    }
    CHECK_INT(r, launch.out.rows.n_rows);
    device->free_launch(device, &launch);
    end();
    dict_release(dict);
}
