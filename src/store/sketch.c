// sketch.c - how many different values a column has, in at most 784 bytes.
//
// A sketch takes one of these forms.  The set of values alone decides which, so two sketches merged are the sketch of
// the union, byte for byte:
//
//     bitmap     integers whose range is at most SKETCH_BITS: a bit for each value of the range; exact
//     coupons    at most SKETCH_COUPONS values: 32 bits of each value's hash; exact but for one collision in thousands
//     registers  more: HyperLogLog, the relative standard error is 1.04 / sqrt(SKETCH_REGISTERS) = 3.3 %
//
// Registers: a value's hash picks a register by its first 10 bits; its rank is the place of the first 1 among the
// others.  A register keeps the greatest rank.  (Flajolet and others: HyperLogLog, 2007.)  The estimate is that of Ertl
// (New cardinality estimation algorithms for HyperLogLog sketches, 2017, algorithm 6): it needs no tables against bias.
// A coupon holds the hash's first 26 bits and the rank behind them, so that registers can still be made of it.
//
// Speed is what the rest is about: a sketch is made while rows are imported.  Small ranges are marked in a map of bytes
// until the whole range was seen, which mostly takes a few thousand rows.  For other values a hash below the least
// register's rank changes nothing; one comparison finds that, and once a column has many values it mostly is so.

#include <math.h>
#include <stdlib.h>

#include "store/store_int.h"

enum {
    SLOTS = 512,                                            // of the hash table of coupons
    SLOT_SHIFT = 32 - 9,
    INDEX_BITS = 10,                                        // of a hash: which register
    COUPON_BITS = 26,                                       // of a hash: in a coupon
    MIDDLE_BITS = COUPON_BITS - INDEX_BITS,
    RANK_BITS = 6,
    COUPON_RANK_MAX = 64 - COUPON_BITS + 1,
    RANK_MAX = 64 - INDEX_BITS + 1,
    PACKED_BYTES = SKETCH_REGISTERS * RANK_BITS / 8,
    MAP_VALUES = 1 << 17,                                   // a range up to this may be marked in a map of bytes
    MAP_ROWS = 4096,                                        // between two looks at whether the map is full
    BLOCK = 4096                                            // values between two looks for the least register
};

typedef struct SketchHead {
    i64 first;                                              // bitmap: its first value
    u16 count;                                              // bits of a bitmap, or coupons
    u8  form;
    u8  zero[5];
} SketchHead;

_Static_assert(sizeof(SketchHead) + PACKED_BYTES == SKETCH_BYTES_MAX, "all forms are about equally long");
_Static_assert(SKETCH_BITS / 8 <= PACKED_BYTES && SKETCH_COUPONS * 4 <= PACKED_BYTES, "all forms fit");

// ---- hashes, coupons and registers ---------------------------------------------------------------------------------

// MurmurHash3's last steps, but for one that only the lower bits need.  What is taken is the upper ones.
static inline u64 mix(u64 value)
{
    value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
    return (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
}

static u32 coupon_of(u64 hash)
{
    u64 rest = hash << COUPON_BITS | (u64)1 << (COUPON_BITS - 1);
    return (u32)(hash >> (64 - COUPON_BITS)) << RANK_BITS | (u32)(__builtin_clzll(rest) + 1);
}

static inline void raise_register(u8 *registers, u32 index, u32 rank)
{
    if (registers[index] < rank)
        registers[index] = (u8)rank;
}

static inline void raise_by_hash(u8 *registers, u64 hash)
{
    u64 rest = hash << INDEX_BITS | (u64)1 << (INDEX_BITS - 1);
    raise_register(registers, (u32)(hash >> (64 - INDEX_BITS)), (u32)__builtin_clzll(rest) + 1);
}

static void raise_by_coupon(u8 *registers, u32 coupon)
{
    u32 middle = coupon >> RANK_BITS & ((1u << MIDDLE_BITS) - 1), rank = coupon & ((1u << RANK_BITS) - 1);
    raise_register(registers, coupon >> (32 - INDEX_BITS),
                   middle ? (u32)__builtin_clz(middle) - (32 - MIDDLE_BITS) + 1 : rank + MIDDLE_BITS);
}

static void begin(Sketch *sketch, SketchForm form)
{
    *sketch = (Sketch){ .form = form };
}

static void make_registers(Sketch *sketch)
{
    Sketch old = *sketch;
    begin(sketch, SKETCH_IS_REGISTERS);
    for (int i = 0; i < SLOTS; i++)
        if (old.coupons[i] != 0)
            raise_by_coupon(sketch->registers, old.coupons[i]);
}

// The sketch has coupons or registers.
static void add_coupon(Sketch *sketch, u32 coupon)
{
    if (sketch->form == SKETCH_IS_REGISTERS) {
        raise_by_coupon(sketch->registers, coupon);
        return;
    }
    u32 at = coupon >> SLOT_SHIFT;
    while (sketch->coupons[at] != 0 && sketch->coupons[at] != coupon)
        at = (at + 1) % SLOTS;
    if (sketch->coupons[at] == coupon)
        return;
    sketch->coupons[at] = coupon;
    sketch->count++;
    if (sketch->count > SKETCH_COUPONS)
        make_registers(sketch);
}

static void add_value(Sketch *sketch, u64 value)
{
    add_coupon(sketch, coupon_of(mix(value)));
}

// ---- many values ---------------------------------------------------------------------------------------------------

// A hash that has any of these bits has no higher rank than the least register.
static u64 bits_of_no_use(const u8 *registers)
{
    u8 least = RANK_MAX;
    for (int i = 0; i < SKETCH_REGISTERS; i++)
        least = MIN_OF(least, registers[i]);
    least = MIN_OF(least, 32);
    return (((u64)1 << least) - 1) << (64 - INDEX_BITS - least);
}

#define DEFINE_ADD(T)                                                                      \
    static void add_##T(Sketch *sketch, const T *stored, u32 n_rows, u64 base)             \
    {                                                                                      \
        u32 row = 0;                                                                       \
        while (row < n_rows && sketch->form == SKETCH_IS_COUPONS)                          \
            add_value(sketch, base + stored[row++]);                                       \
        while (row < n_rows) {                                                             \
            u32 end = MIN_OF(n_rows - row, BLOCK) + row;                                   \
            for (u64 no_use = bits_of_no_use(sketch->registers); row < end; row++) {       \
                u64 hash = mix(base + stored[row]);                                        \
                if ((hash & no_use) == 0)                                                  \
                    raise_by_hash(sketch->registers, hash);                                \
            }                                                                              \
        }                                                                                  \
    }
DEFINE_ADD(u16)
DEFINE_ADD(u32)
DEFINE_ADD(u64)

static void add_integers(Sketch *sketch, const ColumnChunk *column, u32 n_rows)
{
    begin(sketch, SKETCH_IS_COUPONS);
    if (column->width == 2)
        add_u16(sketch, column->data, n_rows, (u64)column->base);
    else if (column->width == 4)
        add_u32(sketch, column->data, n_rows, (u64)column->base);
    else
        add_u64(sketch, column->data, n_rows, (u64)column->base);
}

// Zeros of both signs are one value, and so are all NaN.
static u64 bits_of_float(double value)
{
    u64 bits;
    value = isnan(value) ? (double)NAN : value + 0.0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void add_floats(Sketch *sketch, const ColumnChunk *column, u32 n_rows)
{
    u64 values[256];
    u32 n = 0;
    begin(sketch, SKETCH_IS_COUPONS);
    for (u32 row = 0; row < n_rows; row++) {
        if (column->valid && !(column->valid[row / 64] >> (row % 64) & 1))
            continue;
        values[n++] = bits_of_float(column->width == 4 ? (double)((const float *)column->data)[row]
                                                       : ((const double *)column->data)[row]);
        if (n == COUNT_OF(values)) {
            add_u64(sketch, values, n, 0);
            n = 0;
        }
    }
    add_u64(sketch, values, n, 0);
}

// ---- small ranges --------------------------------------------------------------------------------------------------

#define DEFINE_MARK(T)                                                           \
    static void mark_##T(const T *restrict stored, u32 n_rows, u8 *restrict map) \
    {                                                                            \
        for (u32 i = 0; i < n_rows; i++)                                         \
            map[stored[i]] = 1;                                                  \
    }
DEFINE_MARK(u8)
DEFINE_MARK(u16)
DEFINE_MARK(u32)

static bool is_full(const u8 *map, u32 n_values)
{
    return !memchr(map, 0, n_values);
}

static void mark(const ColumnChunk *column, u32 n_rows, u8 *map, u32 n_values)
{
    u32 step = MAX_OF(MAP_ROWS, 2 * n_values);
    for (u32 row = 0; row < n_rows && !(row > 0 && is_full(map, n_values)); row += step) {
        u32 n = MIN_OF(n_rows - row, step);
        if (column->width == 1)
            mark_u8((const u8 *)column->data + row, n, map);
        else if (column->width == 2)
            mark_u16((const u16 *)column->data + row, n, map);
        else
            mark_u32((const u32 *)column->data + row, n, map);
    }
}

static void add_small_range(Sketch *sketch, const ColumnChunk *column, u32 n_rows, u32 n_values)
{
    u8 map[MAP_VALUES];
    memset(map, 0, n_values);
    mark(column, n_rows, map, n_values);
    begin(sketch, n_values <= SKETCH_BITS ? SKETCH_IS_BITMAP : SKETCH_IS_COUPONS);
    if (sketch->form == SKETCH_IS_BITMAP) {
        sketch->first = column->base;
        sketch->count = n_values;
        for (u32 i = 0; i < n_values; i++)
            sketch->bits[i / 64] |= (u64)map[i] << (i % 64);
    } else {
        for (u32 i = 0; i < n_values; i++)
            if (map[i])
                add_value(sketch, (u64)column->base + i);
    }
}

// A NULL of an integer column is stored as the least value, which is there anyway.
void sketch_column(Type type, const ColumnChunk *column, u32 n_rows, Sketch *sketch)
{
    u64 range = (u64)column->max - (u64)column->min;        // of integers
    if (column->n_nulls == n_rows)
        begin(sketch, SKETCH_IS_EMPTY);
    else if (type_is_float(type))
        add_floats(sketch, column, n_rows);
    else if (range < SKETCH_BITS || (range < MAP_VALUES && range < (u64)8 * n_rows))
        add_small_range(sketch, column, n_rows, (u32)range + 1);
    else
        add_integers(sketch, column, n_rows);
}

// ---- merging -------------------------------------------------------------------------------------------------------

static u64 last_of(const Sketch *bitmap)
{
    return (u64)bitmap->first + bitmap->count - 1;
}

static void or_bits(u64 *to, const Sketch *from, u64 at)
{
    for (u32 i = 0; i < from->count; i += 64) {
        u64 word = from->bits[i / 64], place = at + i, shift = place % 64;
        to[place / 64] |= word << shift;
        if (shift > 0 && word >> (64 - shift) != 0)
            to[place / 64 + 1] |= word >> (64 - shift);
    }
}

// False, and nothing changed, when both together are too long for a bitmap.
static bool merge_bitmaps(Sketch *sketch, const Sketch *other)
{
    i64 first = MIN_OF(sketch->first, other->first);
    i64 last = MAX_OF((i64)last_of(sketch), (i64)last_of(other));
    if ((u64)last - (u64)first >= SKETCH_BITS)
        return false;
    Sketch both;
    begin(&both, SKETCH_IS_BITMAP);
    both.first = first;
    both.count = (u32)((u64)last - (u64)first) + 1;
    or_bits(both.bits, sketch, (u64)sketch->first - (u64)first);
    or_bits(both.bits, other, (u64)other->first - (u64)first);
    *sketch = both;
    return true;
}

static void add_bitmap(Sketch *sketch, const Sketch *bitmap)
{
    for (u32 i = 0; i < bitmap->count; i += 64)
        for (u64 word = bitmap->bits[i / 64]; word != 0; word &= word - 1)
            add_value(sketch, (u64)bitmap->first + i + (u32)__builtin_ctzll(word));
}

static void add_coupons(Sketch *sketch, const Sketch *coupons)
{
    for (int i = 0; i < SLOTS; i++)
        if (coupons->coupons[i] != 0)
            add_coupon(sketch, coupons->coupons[i]);
}

static void add_registers(Sketch *sketch, const Sketch *registers)
{
    if (sketch->form == SKETCH_IS_COUPONS)
        make_registers(sketch);
    for (int i = 0; i < SKETCH_REGISTERS; i++)
        sketch->registers[i] = MAX_OF(sketch->registers[i], registers->registers[i]);
}

void sketch_merge(Sketch *sketch, const Sketch *other)
{
    if (other->form == SKETCH_IS_EMPTY)
        return;
    if (sketch->form == SKETCH_IS_EMPTY) {
        *sketch = *other;
        return;
    }
    if (sketch->form == SKETCH_IS_BITMAP && other->form == SKETCH_IS_BITMAP && merge_bitmaps(sketch, other))
        return;
    if (sketch->form == SKETCH_IS_BITMAP) {
        Sketch bitmap = *sketch;
        begin(sketch, SKETCH_IS_COUPONS);
        add_bitmap(sketch, &bitmap);
    }
    if (other->form == SKETCH_IS_BITMAP)
        add_bitmap(sketch, other);
    else if (other->form == SKETCH_IS_COUPONS)
        add_coupons(sketch, other);
    else
        add_registers(sketch, other);
}

// ---- counting ------------------------------------------------------------------------------------------------------

// Ertl's sigma: x + x^2 + 2 x^4 + 4 x^8 + ..., for the share X of registers that no value has reached; X < 1.
static double weight_of_untouched(double x)
{
    double weight = x, before, power = 1;
    do {
        x *= x;
        before = weight;
        weight += x * power;
        power += power;
    } while (weight > before);
    return weight;
}

// Ertl's tau is left out: it is about registers at the greatest rank, which takes some 2^60 values.
static double estimate(const u8 *registers)
{
    double m = SKETCH_REGISTERS, sum = 0;
    u32 counts[RANK_MAX + 1] = { 0 };
    for (int i = 0; i < SKETCH_REGISTERS; i++)
        counts[registers[i]]++;
    for (int rank = RANK_MAX; rank > 0; rank--)
        sum = (sum + counts[rank]) / 2;
    sum += m * weight_of_untouched(counts[0] / m);
    return m * m / (2 * (double)M_LN2 * sum);
}

double sketch_count(const Sketch *sketch)
{
    u32 n = 0;
    switch (sketch->form) {
    case SKETCH_IS_BITMAP:
        for (u32 i = 0; i < sketch->count; i += 64)
            n += (u32)__builtin_popcountll(sketch->bits[i / 64]);
        return n;
    case SKETCH_IS_COUPONS:
        return sketch->count;
    case SKETCH_IS_REGISTERS:
        return estimate(sketch->registers);
    default:
        return 0;
    }
}

// ---- as bytes ------------------------------------------------------------------------------------------------------

static u32 body_bytes(u8 form, u32 count)
{
    return form == SKETCH_IS_BITMAP ? (count + 7) / 8 : form == SKETCH_IS_COUPONS ? count * (u32)sizeof(u32) :
           form == SKETCH_IS_REGISTERS ? PACKED_BYTES : 0;
}

static int compare_coupons(const void *a, const void *b)
{
    u32 x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static void save_coupons(const Sketch *sketch, u8 *to)
{
    u32 sorted[SKETCH_COUPONS] = { 0 }, n = 0;
    for (int i = 0; i < SLOTS; i++)
        if (sketch->coupons[i] != 0)
            sorted[n++] = sketch->coupons[i];
    qsort(sorted, n, sizeof(sorted[0]), compare_coupons);
    memcpy(to, sorted, n * sizeof(sorted[0]));
}

// Four registers of six bits in three bytes.
static void pack(const u8 *registers, u8 *to)
{
    for (int i = 0; i < SKETCH_REGISTERS; i += 4, to += 3) {
        u32 bits = 0;
        for (int k = 0; k < 4; k++)
            bits |= (u32)registers[i + k] << (RANK_BITS * k);
        memcpy(to, &bits, 3);
    }
}

static void unpack(const u8 *from, u8 *registers)
{
    for (int i = 0; i < SKETCH_REGISTERS; i += 4, from += 3) {
        u32 bits = 0;
        memcpy(&bits, from, 3);
        for (int k = 0; k < 4; k++)
            registers[i + k] = bits >> (RANK_BITS * k) & 63;
    }
}

u32 sketch_save(const Sketch *sketch, u8 bytes[SKETCH_BYTES_MAX])
{
    SketchHead head = { .first = sketch->first, .count = (u16)sketch->count, .form = (u8)sketch->form };
    u8 *body = bytes + sizeof(head);
    u32 n_body = body_bytes(head.form, head.count);
    memcpy(bytes, &head, sizeof(head));
    if (head.form == SKETCH_IS_BITMAP)
        memcpy(body, sketch->bits, n_body);
    else if (head.form == SKETCH_IS_COUPONS)
        save_coupons(sketch, body);
    else if (head.form == SKETCH_IS_REGISTERS)
        pack(sketch->registers, body);
    return (u32)sizeof(head) + n_body;
}

static bool load_bitmap(Sketch *sketch, const SketchHead *head, const u8 *body)
{
    if (head->count == 0 || head->count > SKETCH_BITS || head->first > INT64_MAX - (head->count - 1))
        return false;
    sketch->first = head->first;
    sketch->count = head->count;
    memcpy(sketch->bits, body, body_bytes(head->form, head->count));
    u32 last = sketch->count - 1;
    return (sketch->bits[0] & 1) && sketch->bits[last / 64] >> (last % 64) == 1;
}

static bool load_coupons(Sketch *sketch, u32 count, const u8 *body)
{
    u32 before = 0;
    if (count == 0 || count > SKETCH_COUPONS)
        return false;
    for (u32 i = 0; i < count; i++) {
        u32 coupon, rank;
        memcpy(&coupon, body + i * sizeof(coupon), sizeof(coupon));
        rank = coupon & ((1u << RANK_BITS) - 1);
        if (coupon <= before || rank == 0 || rank > COUPON_RANK_MAX)
            return false;
        add_coupon(sketch, coupon);
        before = coupon;
    }
    return true;
}

static bool load_registers(Sketch *sketch, const u8 *body)
{
    u8 most = 0;
    unpack(body, sketch->registers);
    for (int i = 0; i < SKETCH_REGISTERS; i++)
        most = MAX_OF(most, sketch->registers[i]);
    return most > 0 && most <= RANK_MAX;
}

bool sketch_load(Sketch *sketch, const u8 *bytes, u32 length)
{
    SketchHead head;
    begin(sketch, SKETCH_IS_EMPTY);
    if (length < sizeof(head))
        return false;
    memcpy(&head, bytes, sizeof(head));
    const u8 *body = bytes + sizeof(head);
    if (head.form > SKETCH_IS_REGISTERS || length != sizeof(head) + body_bytes(head.form, head.count))
        return false;
    sketch->form = head.form;
    switch (sketch->form) {
    case SKETCH_IS_BITMAP:
        return load_bitmap(sketch, &head, body);
    case SKETCH_IS_COUPONS:
        return load_coupons(sketch, head.count, body);
    case SKETCH_IS_REGISTERS:
        return load_registers(sketch, body);
    default:
        return true;
    }
}
