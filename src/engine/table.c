// table.c - join tables from the rows a build pipeline left.
//
// What the rows are is known exactly by now, so the shape of the table rests on facts: the range of the keys, whether
// they are
// unique, the range of each payload after the filters.
//
//     keys in a small range          no payload       bits
//                                    unique           direct: payload by key, the first one also says "there is a
//                                    match"
//                                    not unique       heads: first row by key, rows chained
//     otherwise                                       hash: open addressing; rows of equal key chained
//
// Where the rows are in the memory of a device that can make tables, they stay there: it tells the facts, is told the
// shape, and fills
// the table itself.  What it refuses (too little room, a key with too many rows) is made here, of rows that are
// fetched.
//
// Payloads are stored as codes in the narrowest of 8 to 64 bits.  A payload that is only grouped by is renumbered
// densely, so
// that groups over it become a small array.

#include "engine/chains.h"
#include "engine/engine.h"
#include "engine/kinds.h"
#include "engine/remote.h"
#include "engine/wide.h"

#define DIRECT_SPAN_FREE  ((u128)1 << 20)      // a range up to this is worth a direct table whatever the number of rows
#define DIRECT_SPAN_SHARE 32                   // beyond it, at most this many keys per row
#define RENUMBER_SPAN     ((u128)1 << 22)
// So few keys get a byte each: it stays near a core and needs no shift.  SSB Q2.1 at SF 20, 40,000 suppliers, a core of
// an x86-64: 0.23 to 0.27 s instead of
// 0.37 to 0.39.
#define BYTES_SPAN        ((u128)1 << 16)
#define REMOTE_BYTES_SPAN ((u128)1 << 15)      // on a device: what is larger is not put into shared memory
// a table is widened up to this to cover the probing column: no bounds check then
#define COVER_SPAN        ((u128)1 << 18)

// On a device: from so many rows on a compiler is waited for, which takes 100 to 600 ms for each of two or three
// kernels (device/README.md).  The host takes 17 to 120 ns for a row of
// a table of chained rows (bench/results/2026-11-16-join-tables-h200.md).
#define COMPILE_ROWS      ((u64)1 << 23)

typedef struct Builder {
    QueryRun       *run;
    Arena          *home;              // where the table lives
    int             number;
    const Pipeline *pipeline;
    const Probe    *probe;             // that will use the table
    const Woven    *woven;
    const RowSet   *rows;
    u64             n_scanned;         // rows that the pipeline read
    const RowFacts *facts;             // by output, where the rows are on a device; NULL: they are here
    const Kinds    *kinds;             // not NULL: a row stands for a kind, whose number is its key
    bool            fills_later;       // with kinds: what is read by key is made when it is asked for
    JoinTable      *table;
    Team            team;
    RowParts        parts;             // of the rows, where they are here
    Arena          *scratch;           // until the table is made
    u32            *at;                // the place of each row, where it was worked out
    bool            is_ascending;      // the one key of each row is larger than that of the row before: all differ
} Builder;

static const i64 *int_column(const Builder *b, int output)
{
    return b->facts ? NULL : b->rows->columns[b->woven->outputs[output].value];
}
static const u8  *null_column(const Builder *b, int output)
{
    const int slot = b->woven->outputs[output].null;
    return slot < 0 || b->facts ? NULL : b->rows->columns[slot];
}

static weft_status home_alloc(Builder *b, size_t bytes, void **out)
{
    return counted_alloc(b->home, query_budget(b->run), bytes, out, b->run->err);
}

static weft_status scratch_alloc(Builder *b, size_t bytes, void **out)
{
    return counted_alloc(b->scratch, query_budget(b->run), bytes, out, b->run->err);
}

// WORK gets the rows in blocks, those of a part in order.
static weft_status each_row(const Builder *b, void (*work)(void *context, int part, u64 first, u64 end), void *context)
{
    return team_rows(&b->team, &b->parts, work, context) ? WEFT_OK : query_canceled(b->run);
}

static void release_dict(void *dict) { dict_release(dict); }

static Dictionary *keep_dict(Builder *b, Dictionary *dict)
{
    if (dict) arena_defer(b->home, release_dict, dict_hold(dict));
    return dict;
}

// ---- keys -----------------------------------------------------------------------------------------------------------

typedef struct PartRange { i64 low, high; u64 n_down; } PartRange;        // down: not larger than the one before

typedef struct RangeWork { const i64 *values; const u8 *nulls; PartRange *parts; } RangeWork;

static void find_part_range(void *context, int part, u64 first, u64 end)
{
    const RangeWork *work = context;
    const i64       *values = work->values;
    const u8        *nulls = work->nulls;
    PartRange        range = work->parts[part];
    for (u64 r = first; r < end; r++) {
        if (nulls && nulls[r]) continue;
        range.low = MIN_OF(range.low, values[r]);
        range.high = MAX_OF(range.high, values[r]);
    }
    for (u64 r = MAX_OF(first, 1); !nulls && r < end; r++) range.n_down += values[r] <= values[r - 1];
    work->parts[part] = range;
}

// IS_ASCENDING may be NULL, and is not told where there are NULLs.
static weft_status find_range(const Builder *b, const i64 *values, const u8 *nulls, i64 *low, i64 *high,
                              bool *is_ascending)
{
    const RangeWork work = { values, nulls, arena_array(b->scratch, PartRange, b->parts.n_parts + 1) };
    u64             n_down = 0;
    for (int p = 0; p < b->parts.n_parts; p++) work.parts[p] = (PartRange){ .low = INT64_MAX, .high = INT64_MIN };
    TRY(each_row(b, find_part_range, (void *)&work));
    *low = INT64_MAX, *high = INT64_MIN;
    for (int p = 0; p < b->parts.n_parts; p++) {
        *low = MIN_OF(*low, work.parts[p].low);
        *high = MAX_OF(*high, work.parts[p].high);
        n_down += work.parts[p].n_down;
    }
    if (is_ascending) *is_ascending = !n_down;
    return WEFT_OK;
}

static weft_status output_range(const Builder *b, int output, const u8 *nulls, i64 *low, i64 *high, bool *is_ascending)
{
    if (!b->facts) return find_range(b, int_column(b, output), nulls, low, high, is_ascending);
    *low = b->facts[output].low, *high = b->facts[output].high;
    return WEFT_OK;
}

// When all values of the probing column lie in the table, the kernel need not ask whether one does.
static void cover_probe(const Builder *b, int k, JoinKey *key)
{
    const Expr *column = b->probe->keys[k];
    if (column->kind != EXPR_COLUMN || column->type.kind == TYPE_TEXT || type_is_float(column->type)) return;
    const Range probing = plan_range(b->run->plan, column);
    if (!probing.known || probing.low > probing.high) return;
    const i128 low = MIN_OF((i128)key->low, probing.low), high = MAX_OF((i128)key->high, probing.high);
    if ((u128)(high - low) < MAX_OF(COVER_SPAN, 2 * (u128)((i128)key->high - key->low)))
        key->low = (i64)low, key->high = (i64)high;
}

// The key of the rows that the kinds stand for.
static weft_status describe_kinds_key(Builder *b, u128 *span)
{
    const i64 *numbers = int_column(b, 0);
    JoinTable *table = b->table;
    JoinKey   *key = &table->keys[0];
    *key = (JoinKey){ .type = b->woven->outputs[0].type, .low = 0, .high = -1, .stride = 1 };
    table->is_one_word = true, table->n_rows = 0;
    for (u64 r = 0; r < b->rows->n_rows; r++) {
        const u64 kind = (u64)numbers[r];
        const i64 low = kinds_low_key(b->kinds, kind), high = kinds_high_key(b->kinds, kind);
        key->low = r ? MIN_OF(key->low, low) : low, key->high = r ? MAX_OF(key->high, high) : high;
        table->n_rows += b->kinds->n_rows[kind];
    }
    key->zone_low = key->low, key->zone_high = key->high;
    if (table->n_rows) cover_probe(b, 0, key);
    *span = (u128)((i128)key->high - key->low + 1);
    return WEFT_OK;
}

static weft_status describe_keys(Builder *b, u128 *span)
{
    JoinTable *table = b->table;
    *span = 1;
    table->is_one_word = true;
    for (int k = table->n_keys - 1; k >= 0; k--) {
        const OutColumn *out = &b->woven->outputs[k];
        JoinKey         *key = &table->keys[k];
        *key = (JoinKey){
            .type = out->type, .dict = keep_dict(b, out->dict), .dict_count = out->dict_count, .low = 0, .high = -1
        };
        if (out->is_float) {
            *span = (u128)1 << 100;
            table->is_one_word = table->n_keys == 1;
            continue;
        }
        if (b->rows->n_rows)
            TRY(output_range(b, k, NULL, &key->low, &key->high, table->n_keys == 1 ? &b->is_ascending : NULL));
        key->zone_low = key->low, key->zone_high = key->high;
        if (b->rows->n_rows) cover_probe(b, k, key);
        key->stride = (u64)*span;
        const u128 width = (u128)((i128)key->high - key->low + 1);
        *span = width == 0 || *span >> 64 ? *span : *span * width;
        if (*span >> 62) table->is_one_word = table->n_keys == 1;
    }
    return WEFT_OK;
}

static u64 direct_key(const Builder *b, u64 row)
{
    u64 word = 0;
    for (int k = 0; k < b->table->n_keys; k++) {
        const JoinKey *key = &b->table->keys[k];
        word += ((u64)int_column(b, k)[row] - (u64)key->low) * (b->table->n_keys > 1 ? key->stride : 1);
    }
    return word;
}

static u64 word_of(const Builder *b, int k, u64 row)
{
    const i64 value = int_column(b, k)[row];
    return b->woven->outputs[k].is_float ? KEY_OF_F64(value) : (u64)value;
}

// ---- payloads -------------------------------------------------------------------------------------------------------

// A group key as it is does not count.
static bool uses_more_than_keys(const Pipeline *pipeline, int column, bool *is_key)
{
    for (int f = 0; f < pipeline->n_filters; f++)
        if (expr_has_column(pipeline->filters[f], column)) return true;
    for (int l = 0; l < pipeline->n_lets; l++)
        if (expr_has_column(pipeline->lets[l].value, column)) return true;
    for (int q = 0; q < pipeline->n_probes; q++) {
        const Probe *probe = &pipeline->probes[q];
        for (int k = 0; k < probe->n_keys; k++)
            if (expr_has_column(probe->keys[k], column)) return true;
        if (probe->residual && expr_has_column(probe->residual, column)) return true;
    }
    for (int k = 0; k < pipeline->n_keys; k++) {
        const Expr *key = pipeline->keys[k].value;
        if (!expr_has_column(key, column)) continue;
        if (pipeline->sink != SINK_GROUPS || key->kind != EXPR_COLUMN) return true;
        *is_key = true;
    }
    for (int a = 0; a < pipeline->n_aggs; a++)
        if (pipeline->aggs[a].arg && expr_has_column(pipeline->aggs[a].arg, column)) return true;
    for (int o = 0; o < pipeline->n_outputs; o++)
        if (expr_has_column(pipeline->outputs[o].value, column)) return true;
    return false;
}

// Whether the query does nothing with the column above this table but group by it.
bool query_only_grouped_by(const QueryRun *run, int number, int column)
{
    bool is_key = false;
    for (int p = 0; p < run->graph->n_pipelines; p++) {
        const Pipeline *pipeline = &run->graph->pipelines[p];
        if (p == number) continue;
        if (uses_more_than_keys(pipeline, column, &is_key)) return false;
        for (int i = 0; i < pipeline->n_payload; i++)
            if (pipeline->payload[i].value->kind != EXPR_COLUMN && expr_has_column(pipeline->payload[i].value, column))
                return false;
        for (int q = 0; q < pipeline->n_probes; q++)
            if (pipeline->probes[q].build == number && pipeline->probes[q].join != JOIN_INNER) return false;
    }
    return is_key;
}

typedef struct Coding { const i64 *values; const u8 *nulls; const u32 *renumbered; const Payload *payload; } Coding;

typedef struct MarkWork { const Coding *coding; i64 low; _Atomic u32 *codes; } MarkWork;

// Several threads may mark the same value: all write a 1.
static void mark_rows(void *context, int part, u64 first, u64 end)
{
    const MarkWork *work = context;
    const Coding   *coding = work->coding;
    (void)part;
    for (u64 r = first; r < end; r++)
        if (!coding->nulls || !coding->nulls[r])
            atomic_store_explicit(&work->codes[coding->values[r] - work->low], 1, memory_order_relaxed);
}

// CODES[value - low] is not 0 where the value occurs.
static weft_status mark_values(Builder *b, int output, const Coding *coding, i64 low, u64 span, u32 *codes)
{
    MarkWork work = { coding, low, (_Atomic u32 *)codes };
    for (u64 v = 0; b->facts && v < span; v++)
        codes[v] = b->facts[output].marks[(u64)(low - b->facts[output].marks_low) + v] != 0;
    return b->facts ? WEFT_OK : each_row(b, mark_rows, &work);
}

// Values in use, in order, get the codes 0, 1, 2, ...
static weft_status renumber(Builder *b, int output, Payload *payload, Coding *coding, i64 low, i64 high)
{
    const u64 span = (u64)(high - low) + 1;
    u32      *codes;
    i64      *decode;
    u64       n_used = 0;
    TRY(home_alloc(b, span * sizeof *codes, (void **)&codes));
    TRY(mark_values(b, output, coding, low, span, codes));
    for (u64 v = 0; v < span; v++) n_used += codes[v];
    if (n_used * 2 > span) return WEFT_OK;
    TRY(home_alloc(b, (n_used + 1) * sizeof *decode, (void **)&decode));
    n_used = 0;
    for (u64 v = 0; v < span; v++) {
        if (!codes[v]) continue;
        decode[n_used] = low + (i64)v;
        codes[v] = (u32)n_used++;
    }
    payload->decode = decode;
    payload->n_codes = n_used + payload->range.nullable;
    coding->renumbered = codes;
    return WEFT_OK;
}

static bool is_renumbered(const Builder *b, int output, int column, u128 span)
{
    if (span > RENUMBER_SPAN || !query_only_grouped_by(b->run, b->number, column)) return false;
    return !b->facts || (b->facts[output].n_marks && b->facts[output].low <= b->facts[output].high);
}

static weft_status describe_payload(Builder *b, int p, Payload *payload, Coding *coding)
{
    const int        output = b->table->n_keys + p;
    const OutColumn *out = &b->woven->outputs[output];
    const int        column = b->pipeline->payload[p].column;
    const int        id = expr_is_low_word(b->pipeline->payload[p].value) ? weave_low_id(column) : column;
    *payload = (Payload){ .id = id,
                          .number = p,
                          .name = arena_strdup(b->home, wide_column_name(b->run, id)),
                          .type = out->type,
                          .dict = keep_dict(b, out->dict),
                          .dict_count = out->dict_count,
                          .width = 8,
                          .range = out->range };
    *coding = (Coding){ .values = int_column(b, output), .nulls = null_column(b, output), .payload = payload };
    payload->range.nullable =
        b->facts ? b->facts[output].has_null : coding->nulls && memchr(coding->nulls, 1, b->rows->n_rows);
    if (!payload->range.nullable) coding->nulls = NULL;
    if (out->is_float) return WEFT_OK;
    i64 low, high;
    TRY(output_range(b, output, coding->nulls, &low, &high, NULL));
    if (low > high) low = 0, high = 0;
    payload->base = low;
    payload->range.known = true, payload->range.low = low, payload->range.high = high;
    const u128 span = (u128)((i128)high - low) + 1;
    payload->n_codes = span >> 63 ? 0 : (u64)span + payload->range.nullable;
    if (is_renumbered(b, output, column, span)) TRY(renumber(b, output, payload, coding, low, high));
    payload->null_code = payload->n_codes ? payload->n_codes - 1 : 0;
    return WEFT_OK;
}

// No code is free to say NULL: a bit beside the values does.
static bool has_valid(const Payload *payload)
{
    return payload->range.nullable && (type_is_float(payload->type) || payload->n_codes == 0);
}

static u8 width_for(u64 largest)
{
    return largest <= UINT8_MAX ? 1 : largest <= UINT16_MAX ? 2 : largest <= UINT32_MAX ? 4 : 8;
}

static u8 payload_width(const Payload *payload, u64 plus)
{
    return type_is_float(payload->type) || payload->n_codes == 0 ? 8 : width_for(payload->n_codes - 1 + plus);
}

// Where a row's payload goes: by key (one key: how far it is from the lowest; several: worked out before) or by row.
typedef struct Places { const i64 *keys; u64 low; const u32 *at; } Places;

static Places places_by_key(const Builder *b)
{
    return b->table->n_keys == 1 ? (Places){ .keys = int_column(b, 0), .low = (u64)b->table->keys[0].low }
                                 : (Places){ .at = b->at };
}

static inline u64 place_of(const Places *places, u64 row)
{
    return places->keys ? (u64)places->keys[row] - places->low : places->at ? places->at[row] : row;
}

// The codes of rows FIRST .. END to their places: DATA is of one type here, and so is what else a row needs.
#define PUT_CODES(type)                                                                         \
    for (u64 r = first; r < end; r++) {                                                         \
        const u64 offset = (u64)values[r] - base, code = nulls && nulls[r] ? null_code          \
                                                         : renumbered      ? renumbered[offset] \
                                                                           : offset;                 \
        ((type *)data)[place_of(&places, r)] = (type)(code + plus);                             \
    }

static void put_codes(const Coding *coding, void *data, u8 width, Places places, u64 plus, u64 first, u64 end)
{
    const i64 *values = coding->values;
    const u8  *nulls = coding->nulls;
    const u32 *renumbered = coding->renumbered;
    const u64  base = (u64)coding->payload->base, null_code = coding->payload->null_code;
    switch (width) {
        case 1: PUT_CODES(u8) break;
        case 2: PUT_CODES(u16) break;
        case 4: PUT_CODES(u32) break;
        default: PUT_CODES(u64) break;
    }
}

typedef struct StoreWork {
    const Coding *coding;
    void         *data;
    u8           *valid;
    u8            width;
    bool          is_float;
    Places        places;
    u64           plus;
} StoreWork;

// By key no two rows have the same place, so threads do not meet.
static void store_rows(void *context, int part, u64 first, u64 end)
{
    const StoreWork *work = context;
    (void)part;
    if (!work->is_float) put_codes(work->coding, work->data, work->width, work->places, work->plus, first, end);
    for (u64 r = first; work->is_float && r < end; r++)
        ((i64 *)work->data)[place_of(&work->places, r)] = work->coding->values[r];
}

static void store_valid(void *context, int part, u64 first, u64 end)
{
    const StoreWork *work = context;
    (void)part;
    for (u64 r = first; r < end; r++) {
        const u64 place = place_of(&work->places, r);
        if (!work->coding->nulls[r]) work->valid[place >> 3] |= (u8)(1u << (place & 7));
    }
}

// PLUS is 1 for the one that says "match".
static weft_status store_payload(Builder *b, Payload *payload, const Coding *coding, Places places, u64 size, u64 plus)
{
    const bool is_by_row = !places.keys && !places.at;
    StoreWork  work = { .coding = coding, .is_float = type_is_float(payload->type), .places = places, .plus = plus };
    work.width = payload->width = payload_width(payload, plus);
    TRY(home_alloc(b, size * payload->width + 8, &work.data));
    payload->data = work.data;
    payload->bytes = size * payload->width;
    b->table->bytes += size * payload->width;
    TRY(each_row(b, store_rows, &work));
    if (!has_valid(payload)) return WEFT_OK;
    TRY(home_alloc(b, size / 8 + 8, (void **)&work.valid));
    // Bits of rows are apart where parts are, bits of keys are not.
    const RowParts parts = is_by_row ? b->parts : team_split(&(Team){ .n_threads = 1 }, b->rows->n_rows);
    if (!team_rows(&b->team, &parts, store_valid, &work)) return query_canceled(b->run);
    payload->valid = (const u64 *)(const void *)work.valid;
    payload->valid_bytes = size / 8 + 1;
    return WEFT_OK;
}

// ---- the kinds ------------------------------------------------------------------------------------------------------

static void place_rows(void *context, int part, u64 first, u64 end)
{
    const Builder *b = context;
    u32           *at = b->at;
    (void)part;
    for (int k = 0; k < b->table->n_keys; k++) {
        const i64 *values = int_column(b, k);
        const u32  low = (u32)(u64)b->table->keys[k].low,
                   stride = b->table->n_keys > 1 ? (u32)b->table->keys[k].stride : 1;
        for (u64 r = first; r < end; r++) at[r] = (k ? at[r] : 0) + ((u32)(u64)values[r] - low) * stride;
    }
}

// Worked out once, for the several passes over the rows; of one key only where something is long in the making anyway.
static weft_status find_places(Builder *b)
{
    if (b->at) return WEFT_OK;
    TRY(scratch_alloc(b, (b->rows->n_rows + 1) * sizeof *b->at, (void **)&b->at));
    return each_row(b, place_rows, b);
}

typedef struct BitsWork { const i64 *keys; i64 low; u8 *bits; } BitsWork;

static void add_bits(u8 *byte, u32 bits)
{
    atomic_fetch_or_explicit((_Atomic u8 *)byte, (u8)bits, memory_order_relaxed);
}

// Keys ascend, so only the first and the last byte can be another part's, too.
static void set_ascending_bits(void *context, int part, u64 first, u64 end)
{
    const BitsWork *work = context;
    const i64      *keys = work->keys, low = work->low;
    const u64       at_first = (u64)(keys[first] - low) >> 3, at_last = (u64)(keys[end - 1] - low) >> 3;
    (void)part;
    for (; first < end && (u64)(keys[first] - low) >> 3 == at_first; first++)
        add_bits(&work->bits[at_first], 1u << ((keys[first] - low) & 7));
    for (; first < end && (u64)(keys[end - 1] - low) >> 3 == at_last; end--)
        add_bits(&work->bits[at_last], 1u << ((keys[end - 1] - low) & 7));
    for (; first < end; first++) {
        const u64 place = (u64)(keys[first] - low);
        work->bits[place >> 3] = (u8)(work->bits[place >> 3] | 1u << (place & 7));
    }
}

static Chains chains_of(const Builder *b, u32 *next)
{
    return (Chains){ .team = b->team, .budget = query_budget(b->run), .n_rows = b->rows->n_rows, .next = next };
}

static weft_status set_bits(Builder *b, u8 *bits, u64 *n_distinct)
{
    Chains chains = chains_of(b, NULL);
    *n_distinct = b->rows->n_rows;
    if (b->is_ascending) {
        BitsWork work = { .keys = int_column(b, 0), .low = b->table->keys[0].low, .bits = bits };
        return each_row(b, set_ascending_bits, &work);
    }
    TRY(find_places(b));
    TRY(chains_set_bits(&chains, b->at, bits, b->table->span, b->run->err));
    *n_distinct = chains.n_distinct;
    return WEFT_OK;
}

// A bit for each key that occurs: *OUT NULL where nobody needs them, as keys that ascend are unique without.
static weft_status make_bits(Builder *b, u8 **out)
{
    u64 n_distinct = b->rows->n_rows;
    *out = NULL;
    if (!b->is_ascending || !b->table->n_payloads) {
        TRY(home_alloc(b, (size_t)b->table->span / 8 + 8, (void **)out));
        TRY(set_bits(b, *out, &n_distinct));
    }
    b->table->n_distinct = n_distinct;
    b->table->is_unique = n_distinct == b->rows->n_rows;
    return WEFT_OK;
}

static weft_status chain_rows(Builder *b, u32 **next)
{
    if (b->rows->n_rows >= UINT32_MAX)
        return fail(b->run->err, WEFT_UNSUPPORTED, -1, "a join table of more than 4 billion rows is not supported");
    return home_alloc(b, (b->rows->n_rows + 1) * sizeof **next, (void **)next);
}

static void finish_chains(JoinTable *table, const Chains *chains)
{
    table->next = chains->next;
    table->n_distinct = chains->n_distinct;
    table->max_chain = chains->longest;
    table->is_unique = table->max_chain <= 1;
    table->bytes += table->n_rows * 4;
}

static weft_status build_heads(Builder *b)
{
    u32 *heads, *next;
    TRY(find_places(b));
    TRY(home_alloc(b, (size_t)b->table->span * 4 + 8, (void **)&heads));
    TRY(chain_rows(b, &next));
    Chains chains = chains_of(b, next);
    TRY(chains_by_place(&chains, b->at, heads, b->table->span, b->run->err));
    b->table->shape = SHAPE_HEADS;
    b->table->slots = heads;
    b->table->bytes += (size_t)b->table->span * 4;
    finish_chains(b->table, &chains);
    return WEFT_OK;
}

static u64 count_slots(u64 n_rows)
{
    u64 n_slots = 16;
    while (n_slots < 2 * n_rows) n_slots *= 2;
    return n_slots;
}

typedef struct KeyWork { const Builder *b; u64 *keys, *words; } KeyWork;

static void find_row_keys(void *context, int part, u64 first, u64 end)
{
    const KeyWork *work = context;
    const Builder *b = work->b;
    const int      n_keys = b->table->n_keys;
    (void)part;
    for (u64 r = first; r < end; r++) {
        u64 key = b->table->is_one_word ? (n_keys == 1 ? word_of(b, 0, r) : direct_key(b, r)) : HASH_SEED;
        for (int k = 0; work->words && k < n_keys; k++) {
            const u64 word = word_of(b, k, r);
            work->words[r * (u64)n_keys + (u64)k] = word;
            key = HASH_MIX(key, word);
        }
        work->keys[r] = key;
    }
}

// The word that is hashed, of each row.  A column of numbers is it as it is.
static weft_status find_keys(Builder *b, const u64 **keys, u64 *words)
{
    KeyWork work = { .b = b, .words = words };
    *keys = (const u64 *)int_column(b, 0);
    if (b->table->n_keys == 1 && !b->woven->outputs[0].is_float) return WEFT_OK;
    TRY(scratch_alloc(b, (b->rows->n_rows + 1) * sizeof **keys, (void **)&work.keys));
    *keys = work.keys;
    return each_row(b, find_row_keys, &work);
}

static weft_status build_hash(Builder *b)
{
    JoinTable  *table = b->table;
    const u64   n_slots = count_slots(table->n_rows);
    KernelSlot *slots;
    const u64  *keys;
    u64        *words = NULL;
    u32        *next;
    TRY(home_alloc(b, n_slots * sizeof *slots, (void **)&slots));
    TRY(chain_rows(b, &next));
    if (!table->is_one_word) TRY(home_alloc(b, (table->n_rows * (u64)table->n_keys + 1) * 8, (void **)&words));
    TRY(find_keys(b, &keys, words));
    Chains chains = chains_of(b, next);
    TRY(chains_by_hash(&chains, keys, words, table->n_keys, slots, n_slots, b->run->err));
    table->shape = SHAPE_HASH;
    table->slots = slots, table->mask = n_slots - 1, table->words = words;
    table->bytes += n_slots * sizeof *slots + (words ? table->n_rows * (u64)table->n_keys * sizeof *words : 0);
    finish_chains(table, &chains);
    return WEFT_OK;
}

static weft_status store_by_row(Builder *b, Coding *codings)
{
    for (int p = 0; p < b->table->n_payloads; p++)
        TRY(store_payload(b, &b->table->payloads[p], &codings[p], (Places){ 0 }, b->rows->n_rows + 1, 0));
    return WEFT_OK;
}

static weft_status store_by_key(Builder *b, Coding *codings)
{
    b->table->shape = SHAPE_DIRECT;
    for (int p = 0; p < b->table->n_payloads; p++)
        TRY(store_payload(b, &b->table->payloads[p], &codings[p], places_by_key(b), (u64)b->table->span, p == 0));
    return WEFT_OK;
}

// The payload that also says "match" must be a number with codes to spare: it goes first.
static bool put_carrier_first(JoinTable *table, Coding *codings)
{
    for (int p = 0; p < table->n_payloads; p++) {
        if (type_is_float(table->payloads[p].type) || table->payloads[p].n_codes == 0) continue;
        const Payload payload = table->payloads[0];
        const Coding  coding = codings[0];
        table->payloads[0] = table->payloads[p], table->payloads[p] = payload;
        codings[0] = codings[p], codings[p] = coding;
        codings[0].payload = &table->payloads[0], codings[p].payload = &table->payloads[p];
        return true;
    }
    return false;
}

static weft_status store_bits(JoinTable *table, const u8 *bits)
{
    table->shape = SHAPE_BITS;
    table->slots = bits;
    table->bytes += (size_t)table->span / 8;
    return WEFT_OK;
}

static weft_status store_bytes(Builder *b)
{
    const Places places = places_by_key(b);
    u8          *bytes;
    TRY(home_alloc(b, (size_t)b->table->span + 8, (void **)&bytes));
    for (u64 r = 0; r < b->rows->n_rows; r++) {
        if (query_should_stop(b->run, r)) return query_canceled(b->run);
        bytes[place_of(&places, r)] = 1;
    }
    b->table->shape = SHAPE_BITS;
    b->table->is_bytes = true;
    b->table->slots = bytes;
    b->table->bytes += (size_t)b->table->span;
    return WEFT_OK;
}

bool query_probe_is_test(const Probe *probe)
{
    return (probe->join == JOIN_SEMI || probe->join == JOIN_ANTI || probe->join == JOIN_MARK) && !probe->residual;
}

const Probe *query_probe_of(const Graph *graph, int pipeline)
{
    for (int p = pipeline + 1; p < graph->n_pipelines; p++)
        for (int q = 0; q < graph->pipelines[p].n_probes; q++)
            if (graph->pipelines[p].probes[q].build == pipeline) return &graph->pipelines[p].probes[q];
    return NULL;
}

// ---- the table ------------------------------------------------------------------------------------------------------

// Names, keys, payloads and their ranges: what all kinds have.
static weft_status describe(Builder *b, Coding **codings, u128 *span)
{
    static _Atomic u64 n_tables;
    Arena             *home = b->home;
    const Pipeline    *pipeline = b->pipeline;
    JoinTable         *table = b->table = arena_make(home, JoinTable);
    table->id = ++n_tables;
    table->name = arena_strdup(home, pipeline->table ? pipeline->table->name : pipeline->name);
    table->n_keys = pipeline->n_keys, table->n_payloads = pipeline->n_payload, table->n_rows = b->rows->n_rows;
    table->n_scanned = b->n_scanned;
    table->keys = arena_array(home, JoinKey, table->n_keys + 1);
    table->payloads = arena_array(home, Payload, table->n_payloads + 1);
    *codings = arena_array(b->run->arena, Coding, table->n_payloads + 1);
    TRY(b->kinds ? describe_kinds_key(b, span) : describe_keys(b, span));
    for (int p = 0; p < table->n_payloads; p++) TRY(describe_payload(b, p, &table->payloads[p], &(*codings)[p]));
    return WEFT_OK;
}

static bool is_direct(const Builder *b, u128 span)
{
    return span <= DIRECT_SPAN_FREE || (span <= (u128)DIRECT_SPAN_SHARE * b->table->n_rows && span < UINT32_MAX);
}

// ---- filters --------------------------------------------------------------------------------------------------------

#define FILTER_BYTES ((u128)1 << 20)           // stays in a core's cache, whatever the table
#define FILTER_HITS  0.5                       // of the rows that will ask: at most

// Rows of the pipeline that will probe the table.
static double rows_probing(const Builder *b)
{
    const Graph *graph = b->run->graph;
    for (int p = b->number + 1; p < graph->n_pipelines; p++)
        for (int q = 0; q < graph->pipelines[p].n_probes; q++)
            if (graph->pipelines[p].probes[q].build == b->number) return graph->pipelines[p].rows_in;
    return 0;
}

// A GPU's kernels are the same for tables that it made itself, which have no filter.
bool query_is_for_cpu(const QueryRun *run)
{
    const DeviceChoice device = run->session->settings.device;
    return device == DEVICE_CPU || run->must_use_cpu ||
           (device == DEVICE_AUTO && !gpus_is_wanted(run->session->db->gpus));
}

// A bit for each key that could be: where few rows will find theirs, the others need not look at the hash table.  It
// must pay: not much larger than a cache or than the slots, and asked for at least every fourth of its bytes.
static bool wants_filter(const Builder *b, u128 span)
{
    const JoinTable *table = b->table;
    const u128       bytes = span / 8, slots_bytes = (u128)count_slots(table->n_rows) * sizeof(KernelSlot);
    if (table->n_keys != 1 || type_is_float(table->keys[0].type) || table->keys[0].type.kind == TYPE_TEXT) return false;
    if (bytes > MAX_OF(FILTER_BYTES, slots_bytes / 2) || span >= UINT32_MAX || !query_is_for_cpu(b->run)) return false;
    return (double)table->n_rows < FILTER_HITS * (double)table->n_scanned && 4 * rows_probing(b) > (double)bytes;
}

static weft_status add_filter(Builder *b, u128 span)
{
    JoinTable *table = b->table;
    u64        n_distinct;
    u8        *bits;
    if (!wants_filter(b, span)) return WEFT_OK;
    table->span = (u64)span;
    TRY(home_alloc(b, (size_t)table->span / 8 + 8, (void **)&bits));
    TRY(set_bits(b, bits, &n_distinct));
    ASSERT(n_distinct == table->n_distinct);
    table->filter = bits;
    table->bytes += (size_t)table->span / 8;
    return WEFT_OK;
}

static weft_status make_here(Builder *b)
{
    Coding *codings;
    u128    span;
    u8     *bits;
    TRY(describe(b, &codings, &span));
    JoinTable *table = b->table;
    if (!is_direct(b, span)) {
        TRY(build_hash(b));
        TRY(add_filter(b, span));
        return store_by_row(b, codings);
    }
    table->span = (u64)span;
    TRY(make_bits(b, &bits));
    table->max_chain = 0;
    if (table->n_payloads == 0 && (table->is_unique || query_probe_is_test(b->probe))) {
        table->is_unique = true;                                       // a test does not count how often a key occurs
        table->max_chain = 1;
        return span <= BYTES_SPAN ? store_bytes(b) : store_bits(table, bits);
    }
    if (table->is_unique && put_carrier_first(table, codings)) {
        table->max_chain = 1;
        return store_by_key(b, codings);
    }
    TRY(build_heads(b));
    return store_by_row(b, codings);
}

static weft_status build_here(Builder *b)
{
    b->scratch = arena_new(b->run->arena, "join table");
    b->team = query_team(b->run);
    b->parts = team_split(&b->team, b->rows->n_rows);
    const weft_status status = make_here(b);
    arena_free(b->scratch);
    return status;
}

static u64 rows_read(const QueryRun *run, const Pipeline *pipeline)
{
    u64 n_rows = pipeline->table ? pipeline->table->n_rows : 0;
    for (int i = 0; i < pipeline->n_inputs; i++) n_rows += run->stored[pipeline->inputs[i]]->n_rows;
    return n_rows;
}

static Builder new_builder(QueryRun *run, Arena *home, int number, const Launch *launch)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    return (Builder){ .run = run,
                      .home = home,
                      .number = number,
                      .pipeline = pipeline,
                      .probe = query_probe_of(run->graph, number),
                      .woven = launch->woven,
                      .rows = &launch->out.rows,
                      .n_scanned = rows_read(run, pipeline) };
}

// ---- by kinds of rows -----------------------------------------------------------------------------------------------
//
// The rows of a build pipeline over kinds (kinds.h): few of them say what the table has for every key.

// By kind: 0, or what the table says of its keys.  And which kinds are in the table.
static weft_status list_codes(Builder *b, const Coding *coding, u32 **codes, u32 **kinds_in)
{
    const i64 *numbers = int_column(b, 0);
    TRY(home_alloc(b, ((size_t)b->kinds->n_kinds + 1) * sizeof **codes, (void **)codes));
    TRY(home_alloc(b, ((size_t)b->rows->n_rows + 1) * sizeof **kinds_in, (void **)kinds_in));
    for (u64 r = 0; r < b->rows->n_rows; r++) {
        const u64 offset = coding ? (u64)coding->values[r] - (u64)coding->payload->base : 0,
                  code = !coding                            ? 0
                         : coding->nulls && coding->nulls[r] ? coding->payload->null_code
                         : coding->renumbered                ? coding->renumbered[offset]
                                                             : offset;
        (*codes)[numbers[r]] = (u32)code + 1, (*kinds_in)[r] = (u32)numbers[r];
    }
    return WEFT_OK;
}

#define PUT_BY_KIND(type) \
    for (u64 k = 0; k < n; k++) ((type *)out)[first + k] = (type)codes[kind_of[k]]

static void put_bits_by_kind(const u32 *codes, const u16 *kind_of, u64 first, u64 n, u8 *out)
{
    for (u64 k = 0; k < n; k++) {
        const u64 at = first + k;
        out[at >> 3] = (u8)(out[at >> 3] | (codes[kind_of[k]] != 0) << (at & 7));
    }
}

// WIDTH 0: bits.
static void put_by_kind(const JoinKey *key, const Kinds *kinds, const u32 *codes, int width, void *out)
{
    const i64 low = MAX_OF(key->low, kinds->low), high = MIN_OF(key->high, kinds->low + (i64)kinds->size - 1);
    if (low > high) return;
    const u64  first = (u64)low - (u64)key->low, n = (u64)(high - low) + 1;
    const u16 *kind_of = kinds->kind_of + ((u64)low - (u64)kinds->low);
    switch (width) {
        case 0:  put_bits_by_kind(codes, kind_of, first, n, out); break;
        case 1:  PUT_BY_KIND(u8); break;
        case 2:  PUT_BY_KIND(u16); break;
        default: PUT_BY_KIND(u32); break;
    }
}

typedef struct LaterFill {
    LatePart        part;              // first: what others see
    pthread_mutex_t lock;
    Budget         *budget;
    JoinKey         key;
    const Kinds    *kinds;             // held by the table
    const u32      *codes;
    int             width;
    size_t          bytes;
    void           *data;              // NULL: nobody has asked for it yet
} LaterFill;

static const void *get_later(LatePart *part)
{
    LaterFill *later = (LaterFill *)(void *)part;
    Error      ignored;
    void      *data;
    error_clear(&ignored);
    pthread_mutex_lock(&later->lock);
    if (!later->data && mem_alloc(later->budget, later->bytes + 8, &data, &ignored) == WEFT_OK) {
        put_by_kind(&later->key, later->kinds, later->codes, later->width, data);
        later->data = data;
    }
    data = later->data;
    pthread_mutex_unlock(&later->lock);
    return data;
}

static void free_later(void *context)
{
    LaterFill *later = context;
    if (later->data) mem_free(later->budget, later->data, later->bytes + 8);
    pthread_mutex_destroy(&later->lock);
}

static LatePart *fill_later(Builder *b, const u32 *codes, int width, size_t bytes)
{
    LaterFill *later = arena_make(b->home, LaterFill);
    *later = (LaterFill){ .part.get = get_later, .budget = query_budget(b->run), .key = b->table->keys[0],
                          .kinds = b->kinds, .codes = codes, .width = width, .bytes = bytes };
    pthread_mutex_init(&later->lock, NULL);
    arena_defer(b->home, free_later, later);
    return &later->part;
}

// As make_here would have made it of all rows.
static weft_status fill_by_kind(Builder *b, const u32 *codes)
{
    JoinTable   *table = b->table;
    const bool   is_bytes = !table->n_payloads && table->span <= BYTES_SPAN;
    const int    width = table->n_payloads ? payload_width(&table->payloads[0], 1) : is_bytes;
    const size_t bytes = width ? table->span * (size_t)width : table->span / 8;
    void        *data = NULL;
    table->shape = table->n_payloads ? SHAPE_DIRECT : SHAPE_BITS, table->is_bytes = is_bytes;
    table->n_distinct = table->n_rows, table->is_unique = true, table->max_chain = 1, table->bytes += bytes;
    if (b->fills_later) {
        table->late = fill_later(b, codes, width, bytes);
    } else {
        TRY(home_alloc(b, bytes + 8, &data));
        put_by_kind(&table->keys[0], b->kinds, codes, width, data);
    }
    if (!table->n_payloads) {
        table->slots = data;
        return WEFT_OK;
    }
    table->payloads[0].width = (u8)width, table->payloads[0].data = data, table->payloads[0].bytes = bytes;
    return WEFT_OK;
}

static bool suits_kinds(const Builder *b, u128 span)
{
    const JoinTable *table = b->table;
    if (!table->n_rows || !is_direct(b, span)) return false;
    return !table->n_payloads || (!type_is_float(table->payloads[0].type) && table->payloads[0].n_codes &&
                                  table->payloads[0].n_codes < UINT32_MAX && !has_valid(&table->payloads[0]));
}

static weft_status make_of_kinds(Builder *b, bool *is_done)
{
    Coding *codings;
    u128    span;
    u32    *codes, *kinds_in;
    TRY(describe(b, &codings, &span));
    *is_done = suits_kinds(b, span);
    if (!*is_done) return WEFT_OK;
    b->table->span = (u64)span;
    TRY(list_codes(b, b->table->n_payloads ? &codings[0] : NULL, &codes, &kinds_in));
    arena_defer(b->home, kinds_release_deferred, (void *)(uintptr_t)kinds_hold(b->kinds));
    TRY(fill_by_kind(b, codes));
    b->table->kinds = b->kinds, b->table->code_of_kind = codes;
    b->table->kinds_in = kinds_in, b->table->n_kinds_in = b->rows->n_rows;
    return WEFT_OK;
}

const void *table_filled(JoinTable *view)
{
    const void *data = view->late ? view->late->get(view->late) : NULL;
    if (!data) return NULL;
    if (view->shape == SHAPE_DIRECT) view->payloads[0].data = data;
    else view->slots = data;
    return data;
}

weft_status table_build_by_kind(QueryRun *run, Arena *home, int number, const Launch *launch, const Kinds *kinds,
                                JoinTable **out, bool *is_done)
{
    Builder b = new_builder(run, home, number, launch);
    b.kinds = kinds, b.fills_later = !query_is_for_cpu(run);
    b.scratch = arena_new(run->arena, "join table");
    b.team = (Team){ .n_threads = 1 };
    b.parts = team_split(&b.team, b.rows->n_rows);
    const weft_status status = make_of_kinds(&b, is_done);
    arena_free(b.scratch);
    *out = b.table;
    return status;
}

// ---- on a device ----------------------------------------------------------------------------------------------------

// What a device is to find out while the rows are made.
const u8 *table_notes(QueryRun *run, int number)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    u8             *notes = arena_alloc(run->arena, (size_t)(pipeline->n_keys + pipeline->n_payload) + 1);
    for (int k = 0; k < pipeline->n_keys; k++) notes[k] = NOTE_RANGE;
    for (int p = 0; p < pipeline->n_payload; p++)
        notes[pipeline->n_keys + p] =
            query_only_grouped_by(run, number, pipeline->payload[p].column) ? NOTE_VALUES : NOTE_RANGE;
    return notes;
}

void table_facts(QueryRun *run, int number, const Woven *woven, const u8 *notes, Launch *launch)
{
    const Pipeline *pipeline = &run->graph->pipelines[number];
    launch->n_facts = pipeline->n_keys + pipeline->n_payload;
    launch->facts = arena_array(run->arena, RowFacts, launch->n_facts + 1);
    for (int o = 0; o < launch->n_facts; o++) {
        const OutColumn *out = &woven->outputs[o];
        RowFacts        *facts = &launch->facts[o];
        *facts = (RowFacts){ .value = out->value, .null = out->null };
        const u128 span =
            out->range.known && out->range.low <= out->range.high ? (u128)(out->range.high - out->range.low) + 1 : 0;
        if (notes[o] != NOTE_VALUES || out->is_float || !span || span > RENUMBER_SPAN) continue;
        facts->marks_low = (i64)out->range.low, facts->n_marks = (u64)span;
        facts->marks = arena_alloc(run->arena, facts->n_marks);
    }
}

// Floats with NULLs have a part more, and there are three of chains.
static bool suits_device(const Builder *b)
{
    int n_parts = 3 + b->table->n_payloads;
    if (!b->rows->n_rows || b->rows->n_rows >= UINT32_MAX || !b->table->n_keys) return false;
    for (int p = 0; p < b->table->n_payloads; p++) {
        const Payload *payload = &b->table->payloads[p];
        if (has_valid(payload) && !type_is_float(payload->type)) return false;
        n_parts += has_valid(payload);
    }
    return n_parts <= REMOTE_PARTS;
}

static void list_keys(const Builder *b, TableFill *fill)
{
    const bool is_sum = fill->n_keys > 1 && !fill->has_words;
    fill->keys = arena_array(b->run->arena, FillKey, fill->n_keys + 1);
    for (int k = 0; k < fill->n_keys; k++) {
        const JoinKey   *key = &b->table->keys[k];
        const OutColumn *out = &b->woven->outputs[k];
        fill->keys[k] = (FillKey){ .value = out->value,
                                   .is_float = out->is_float,
                                   .low = is_sum || fill->kind != FILL_HASH ? key->low : 0,
                                   .stride = is_sum ? key->stride : 1 };
    }
}

static FillPart *add_part(JoinTable *table, TableFill *fill, int number, u64 bytes)
{
    FillPart *part = &fill->parts[fill->n_parts++];
    *part = (FillPart){ .number = number, .bytes = bytes, .value = -1, .null = -1 };
    table->bytes += bytes;
    return part;
}

static void list_set(const Builder *b, TableFill *fill)
{
    JoinTable *table = b->table;
    table->shape = SHAPE_BITS;
    table->is_bytes = fill->span <= REMOTE_BYTES_SPAN;
    FillPart *part = add_part(table, fill, TABLE_SLOTS, table->is_bytes ? fill->span : fill->span / 8 + 1);
    part->width = table->is_bytes, part->is_set = true, part->plus = 1;
}

// N_PLACES: by key, or by row; PLUS is 1 for the one that says "match".
static void list_payload(const Builder *b, int p, const Coding *coding, u64 n_places, u64 plus, TableFill *fill)
{
    JoinTable       *table = b->table;
    Payload         *payload = &table->payloads[p];
    const OutColumn *out = &b->woven->outputs[table->n_keys + payload->number];
    payload->width = payload_width(payload, plus);
    payload->bytes = n_places * payload->width;
    FillPart *part = add_part(table, fill, TABLE_PAYLOADS + 3 * p, payload->bytes);
    part->width = payload->width, part->value = out->value,
    part->null = payload->range.nullable && !has_valid(payload) ? out->null : -1;
    part->base = out->is_float ? 0 : payload->base, part->null_code = payload->null_code, part->plus = plus;
    part->codes = coding->renumbered,
    part->n_codes = coding->renumbered ? (u64)(payload->range.high - payload->range.low) + 1 : 0;
    if (!has_valid(payload)) return;
    payload->valid_bytes = n_places / 8 + 1;
    part = add_part(table, fill, TABLE_PAYLOADS + 3 * p + 1, payload->valid_bytes);
    part->is_valid = part->is_set = true, part->null = out->null;
}

static void list_links(const Builder *b, TableFill *fill)
{
    JoinTable *table = b->table;
    const bool is_hash = fill->kind == FILL_HASH;
    table->shape = is_hash ? SHAPE_HASH : SHAPE_HEADS;
    add_part(table, fill, TABLE_SLOTS, fill->span * (is_hash ? sizeof(KernelSlot) : sizeof(u32)));
    add_part(table, fill, TABLE_NEXT, table->n_rows * sizeof(u32));
    if (fill->has_words) add_part(table, fill, TABLE_WORDS, table->n_rows * (u64)table->n_keys * sizeof(u64));
    for (int p = 0; p < fill->n_parts; p++) fill->parts[p].is_link = true;
}

static void list_parts(const Builder *b, const Coding *codings, TableFill *fill)
{
    JoinTable *table = b->table;
    const bool is_by_key = fill->kind == FILL_BY_KEY;
    table->bytes = 0, table->is_bytes = false;
    fill->parts = arena_array(b->run->arena, FillPart, REMOTE_PARTS);
    list_keys(b, fill);
    if (is_by_key && !table->n_payloads) list_set(b, fill);
    if (is_by_key && table->n_payloads) table->shape = SHAPE_DIRECT;
    if (!is_by_key) list_links(b, fill);
    for (int p = 0; p < table->n_payloads; p++)
        list_payload(b, p, &codings[p], is_by_key ? fill->span : table->n_rows, is_by_key && p == 0, fill);
}

// What the longest chain says is known only now: where keys are unique, nobody follows any.
static void keep_remote(Builder *b, Device *device, const TableFill *fill)
{
    JoinTable *table = b->table;
    table->n_distinct = fill->n_places;
    table->max_chain = fill->kind == FILL_BY_KEY ? 1 : fill->longest;
    table->is_unique = table->max_chain <= 1;
    table->remote = remote_new(b->home, device, table->id, query_budget(b->run));
    for (int p = 0; p < fill->n_parts; p++)
        if (fill->parts[p].number != TABLE_NEXT || !table->is_unique)
            remote_add(table->remote, fill->parts[p].number, fill->parts[p].bytes);
    if (fill->kind == FILL_HASH) table->mask = fill->span - 1;
    else table->span = fill->span;
}

// *IS_DONE false: it could not, or some keys have several rows that should have one.
static void make_there(Builder *b, Launch *launch, const Coding *codings, TableFill *fill, double *kernel_ms,
                       bool *is_done)
{
    Device *device = launch->device;
    fill->table = b->table->id, fill->n_keys = b->table->n_keys;
    fill->may_compile = b->run->session->settings.gpu_wait || b->rows->n_rows >= COMPILE_ROWS ||
                        (fill->kind == FILL_BY_KEY && fill->n_keys == 1);  // made when the device is opened
    list_parts(b, codings, fill);
    const bool is_made = device->make_table(device, launch, fill);
    if (fill->refused[0])
        query_notice(b->run, arena_printf(b->run->own, "%s did not make a join table, the CPU did: %s", device->name,
                                          fill->refused));
    if (!is_made) return;
    *kernel_ms += fill->kernel_ms;
    *is_done = fill->kind != FILL_BY_KEY || fill->n_places == b->rows->n_rows;
    if (*is_done) keep_remote(b, device, fill);
    else device->drop_table(device, fill->table);
}

static weft_status build_there(Builder *b, Launch *launch, double *kernel_ms, bool *is_done)
{
    Coding *codings;
    u128    span;
    TRY(describe(b, &codings, &span));
    if (!suits_device(b)) return WEFT_OK;
    const bool has_places = is_direct(b, span);
    TableFill by_key = { .kind = FILL_BY_KEY, .span = (u64)span },
              chained = { .kind = has_places ? FILL_HEADS : FILL_HASH,
                          .has_words = !has_places && !b->table->is_one_word };
    if (has_places && (!b->table->n_payloads || put_carrier_first(b->table, codings))) {
        make_there(b, launch, codings, &by_key, kernel_ms, is_done);
        if (!*is_done && query_should_stop(b->run, 0)) return query_canceled(b->run);
        if (*is_done || by_key.refused[0])
            return WEFT_OK;  // for want of room it may be chained: that is by row, and rows may be fewer than places
    }
    chained.span = has_places ? (u64)span : count_slots(b->table->n_rows);
    make_there(b, launch, codings, &chained, kernel_ms, is_done);
    return WEFT_OK;
}

weft_status table_build(QueryRun *run, Arena *home, int number, Launch *launch, JoinTable **out, double *kernel_ms)
{
    Builder b = new_builder(run, home, number, launch);
    bool    is_done = false;
    if (launch->out.keeps_rows) {
        b.facts = launch->facts;
        TRY(build_there(&b, launch, kernel_ms, &is_done));
        if (!is_done) TRY(query_device_failed(run, launch->device->fetch_rows(launch->device, launch, run->err)));
        b.facts = NULL;
    }
    if (!is_done) TRY(build_here(&b));
    *out = b.table;
    return WEFT_OK;
}
