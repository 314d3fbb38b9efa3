// encode.c - columns into few bits: from the values of a piece, and from other chunks.
//
// A column chunk holds value - base in the narrowest of 8, 16, 32 or 64 bits, where base is the least value.  All
// arithmetic is on u64, where differences are right even when the range is larger than an i64 can say.  So there are
// two passes, and both are plain loops that a compiler turns into vector code: measure (least, greatest, NULLs), then
// fill.  Floats are stored as they are; measured are also their exponents and how far down their digits go.
//
// Chunks are made from pieces that were encoded before (and small chunks are merged into larger ones) by the same two
// steps over slices.  A whole slice brings its statistics along; of a part they are measured again, since they must be
// exact: plans rest on them as proofs.

#ifndef __clang__
#pragma GCC optimize("O3")                                  // for the vectors; clang makes them anyway
#endif

#include <math.h>

#include "store/store_int.h"

// ---- one value -----------------------------------------------------------------------------------------------------

static bool is_valid(const u64 *valid, u32 row)
{
    return !valid || (valid[row / 64] >> (row % 64) & 1);
}

static u64 stored_at(const void *data, u8 width, u32 row)
{
    switch (width) {
    case 1:
        return ((const u8 *)data)[row];
    case 2:
        return ((const u16 *)data)[row];
    case 4:
        return ((const u32 *)data)[row];
    default:
        return ((const u64 *)data)[row];
    }
}

static double float_at(const ColumnChunk *column, u32 row)
{
    return column->width == 4 ? (double)((const float *)column->data)[row] : ((const double *)column->data)[row];
}

// ---- measuring input -----------------------------------------------------------------------------------------------

static u8 width_of_range(u64 range)
{
    return range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : 8;
}

static void settle_integers(ColumnChunk *column)
{
    column->base = column->has_range ? column->min : 0;
    column->width = column->has_range ? width_of_range((u64)column->max - (u64)column->min) : 1;
}

static u8 float_width(Type type)
{
    return type.kind == TYPE_REAL ? 4 : 8;
}

static u32 count_nulls(const u8 *is_null, u32 n_rows)
{
    u32 n_nulls = 0;
    for (u32 i = 0; is_null && i < n_rows; i++)
        n_nulls += is_null[i] != 0;
    return n_nulls;
}

static void measure_integers(const i64 *values, u32 n_rows, ColumnChunk *column)
{
    i64 min = INT64_MAX, max = INT64_MIN;
    for (u32 i = 0; i < n_rows; i++) {
        min = MIN_OF(min, values[i]);
        max = MAX_OF(max, values[i]);
    }
    column->min = min;
    column->max = max;
    u32 n = 1;
    while (n < n_rows && values[n - 1] < values[n])
        n++;
    column->is_increasing = n_rows > 0 && n >= n_rows;
}

static void measure_integers_with_nulls(const i64 *values, const u8 *is_null, u32 n_rows, ColumnChunk *column)
{
    i64 min = INT64_MAX, max = INT64_MIN;
    for (u32 i = 0; i < n_rows; i++) {
        i64 low = is_null[i] ? INT64_MAX : values[i], high = is_null[i] ? INT64_MIN : values[i];
        min = MIN_OF(min, low);
        max = MAX_OF(max, high);
    }
    column->min = min;
    column->max = max;
}

FloatBits float_bits_none(void)
{
    return (FloatBits){ .is_known = true, .unit = 0, .least = 1, .most = 0 };
}

FloatBits float_bits_of(double value)
{
    u64 bits;
    memcpy(&bits, &value, sizeof(bits));
    u64 digits = bits & (((u64)1 << 52) - 1);
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff || (exponent == 0 && digits == 0))
        return float_bits_none();
    if (exponent == 0)
        exponent = 1;                                       // subnormal: no hidden bit
    else
        digits |= (u64)1 << 52;
    int place = exponent - 1075, top = place + 63 - __builtin_clzll(digits);
    return (FloatBits){
        .is_known = true, .unit = (i16)(place + __builtin_ctzll(digits)), .least = (i16)top, .most = (i16)top
    };
}

FloatBits float_bits_unite(FloatBits a, FloatBits b)
{
    if (!a.is_known || !b.is_known)
        return (FloatBits){ 0 };
    if (a.least > a.most)
        return b;
    if (b.least > b.most)
        return a;
    return (FloatBits){ .is_known = true, .unit = MIN_OF(a.unit, b.unit), .least = MIN_OF(a.least, b.least),
                        .most = MAX_OF(a.most, b.most) };
}

// Comparisons with NaN are false, so it never becomes least or greatest.
static void add_float(ColumnChunk *column, double value)
{
    column->fmin = value < column->fmin ? value : column->fmin;
    column->fmax = value > column->fmax ? value : column->fmax;
    column->has_range |= !isnan(value);
    column->has_nan |= isnan(value);
    column->bits = float_bits_unite(column->bits, float_bits_of(value));
}

static void measure_floats(Type type, const ColumnInput *input, u32 n_rows, ColumnChunk *column)
{
    double last = -INFINITY;
    column->bits = float_bits_none();
    column->fmin = INFINITY;
    column->fmax = -INFINITY;
    column->is_increasing = n_rows > 0 && column->n_nulls == 0;
    for (u32 i = 0; i < n_rows; i++) {
        if (input->is_null && input->is_null[i])
            continue;
        double value = type.kind == TYPE_REAL ? (double)(float)input->f[i] : input->f[i];
        add_float(column, value);
        column->is_increasing &= value > last || (i == 0 && !isnan(value));
        last = value;
    }
    if (!column->has_range)
        column->fmin = column->fmax = 0;
    column->width = float_width(type);
}

void encode_measure(Type type, const ColumnInput *input, u32 n_rows, ColumnChunk *column)
{
    *column = (ColumnChunk){ .n_nulls = count_nulls(input->is_null, n_rows) };
    if (type_is_float(type)) {
        measure_floats(type, input, n_rows, column);
        return;
    }
    column->has_range = column->n_nulls < n_rows;
    if (!column->has_range)
        column->min = column->max = 0;
    else if (column->n_nulls > 0)
        measure_integers_with_nulls(input->i, input->is_null, n_rows, column);
    else
        measure_integers(input->i, n_rows, column);
    settle_integers(column);
}

// ---- filling from input --------------------------------------------------------------------------------------------

// NARROW(type): values less base; NULL rows become 0.
#define DEFINE_NARROW(T)                                                                       \
    static void narrow_##T(const i64 *values, const u8 *is_null, u32 n_rows, u64 base, T *out) \
    {                                                                                          \
        if (!is_null)                                                                          \
            for (u32 i = 0; i < n_rows; i++)                                                   \
                out[i] = (T)((u64)values[i] - base);                                           \
        else                                                                                   \
            for (u32 i = 0; i < n_rows; i++)                                                   \
                out[i] = is_null[i] ? 0 : (T)((u64)values[i] - base);                          \
    }
DEFINE_NARROW(u8)
DEFINE_NARROW(u16)
DEFINE_NARROW(u32)
DEFINE_NARROW(u64)

static void fill_integers(const ColumnInput *input, u32 n_rows, const ColumnChunk *column, void *data)
{
    u64 base = (u64)column->base;
    switch (column->width) {
    case 1:
        narrow_u8(input->i, input->is_null, n_rows, base, data);
        break;
    case 2:
        narrow_u16(input->i, input->is_null, n_rows, base, data);
        break;
    case 4:
        narrow_u32(input->i, input->is_null, n_rows, base, data);
        break;
    default:
        narrow_u64(input->i, input->is_null, n_rows, base, data);
        break;
    }
}

static void fill_floats(const ColumnInput *input, u32 n_rows, u8 width, void *data)
{
    float *narrow = data;
    double *wide = data;
    for (u32 i = 0; i < n_rows; i++) {
        double value = input->is_null && input->is_null[i] ? 0 : input->f[i];
        if (width == 4)
            narrow[i] = (float)value;
        else
            wide[i] = value;
    }
}

static void fill_valid(const u8 *is_null, u32 n_rows, u64 *valid)
{
    for (u32 i = 0; i < n_rows; i++)
        valid[i / 64] |= (u64)(is_null[i] == 0) << (i % 64);
}

void encode_fill(Type type, const ColumnInput *input, u32 n_rows, const ColumnChunk *column, void *data, u64 *valid)
{
    ASSERT(column->n_nulls == 0 || (input->is_null && valid));
    ASSERT(column->n_nulls <= n_rows);
    if (column->n_nulls > 0)
        fill_valid(input->is_null, n_rows, valid);
    if (type_is_float(type))
        fill_floats(input, n_rows, column->width, data);
    else if (column->has_range)
        fill_integers(input, n_rows, column, data);
}

// ---- measuring slices ----------------------------------------------------------------------------------------------

typedef struct StoredRange { u64 low, high; } StoredRange;  // of stored values

#define DEFINE_RANGE(T)                                     \
    static StoredRange range_##T(const T *stored, u32 n_rows)     \
    {                                                       \
        T low = (T)-1, high = 0;                            \
        for (u32 i = 0; i < n_rows; i++) {                  \
            low = MIN_OF(low, stored[i]);                   \
            high = MAX_OF(high, stored[i]);                 \
        }                                                   \
        return (StoredRange){ low, high };                        \
    }
DEFINE_RANGE(u8)
DEFINE_RANGE(u16)
DEFINE_RANGE(u32)
DEFINE_RANGE(u64)

static StoredRange range_of(const ColumnChunk *from, u32 start, u32 count)
{
    switch (from->width) {
    case 1:
        return range_u8((const u8 *)from->data + start, count);
    case 2:
        return range_u16((const u16 *)from->data + start, count);
    case 4:
        return range_u32((const u32 *)from->data + start, count);
    default:
        return range_u64((const u64 *)from->data + start, count);
    }
}

static StoredRange range_with_nulls(const ColumnChunk *from, u32 start, u32 count, u32 *n_nulls)
{
    StoredRange range = { UINT64_MAX, 0 };
    for (u32 row = start; row < start + count; row++) {
        if (!is_valid(from->valid, row)) {
            *n_nulls += 1;
            continue;
        }
        u64 stored = stored_at(from->data, from->width, row);
        range.low = MIN_OF(range.low, stored);
        range.high = MAX_OF(range.high, stored);
    }
    return range;
}

static bool is_part_increasing(const ColumnChunk *from, u32 start, u32 count)
{
    for (u32 row = start + 1; row < start + count; row++)
        if (stored_at(from->data, from->width, row - 1) >= stored_at(from->data, from->width, row))
            return false;
    return true;
}

static void measure_part_of_integers(const ColumnChunk *from, u32 start, u32 count, ColumnChunk *part)
{
    StoredRange range =
        from->valid ? range_with_nulls(from, start, count, &part->n_nulls) : range_of(from, start, count);
    part->has_range = part->n_nulls < count;
    part->min = part->has_range ? (i64)((u64)from->base + range.low) : 0;
    part->max = part->has_range ? (i64)((u64)from->base + range.high) : 0;
    part->is_increasing = part->n_nulls == 0 && (from->is_increasing || is_part_increasing(from, start, count));
}

static void measure_part_of_floats(const ColumnChunk *from, u32 start, u32 count, ColumnChunk *part)
{
    part->bits = float_bits_none();
    part->fmin = INFINITY;
    part->fmax = -INFINITY;
    bool is_increasing = true;
    for (u32 row = start; row < start + count; row++) {
        if (!is_valid(from->valid, row)) {
            part->n_nulls++;
            continue;
        }
        double value = float_at(from, row);
        add_float(part, value);
        is_increasing &= row == start ? !isnan(value) : value > float_at(from, row - 1);
    }
    part->is_increasing = is_increasing && part->n_nulls == 0;
}

static ColumnChunk measure_slice(Type type, const ChunkSlice *slice, int at)
{
    const ColumnChunk *from = &slice->chunk->columns[at];
    ColumnChunk part = { 0 };
    if (slice->count == slice->chunk->n_rows)
        part = *from;
    else if (type_is_float(type))
        measure_part_of_floats(from, slice->start, slice->count, &part);
    else
        measure_part_of_integers(from, slice->start, slice->count, &part);
    return part;
}

static void add_range(Type type, ColumnChunk *column, const ColumnChunk *part)
{
    column->n_nulls += part->n_nulls;
    column->has_nan |= part->has_nan;
    column->bits = float_bits_unite(column->bits, part->bits);
    if (!part->has_range)
        return;
    bool is_first = !column->has_range;
    column->has_range = true;
    if (type_is_float(type)) {
        column->fmin = is_first || part->fmin < column->fmin ? part->fmin : column->fmin;
        column->fmax = is_first || part->fmax > column->fmax ? part->fmax : column->fmax;
    } else {
        column->min = is_first || part->min < column->min ? part->min : column->min;
        column->max = is_first || part->max > column->max ? part->max : column->max;
    }
}

// Both parts are strictly increasing, so the greatest value of the first is its last, and so on.
static bool is_below(Type type, const ColumnChunk *first, const ColumnChunk *second)
{
    return type_is_float(type) ? first->fmax < second->fmin : first->max < second->min;
}

void merge_measure(Type type, const ChunkSlice *slices, int n_slices, int at, ColumnChunk *column)
{
    ColumnChunk last = { 0 };
    *column = (ColumnChunk){ .is_increasing = n_slices > 0, .bits = float_bits_none() };
    for (int i = 0; i < n_slices; i++) {
        ColumnChunk part = measure_slice(type, &slices[i], at);
        column->is_increasing &= part.is_increasing && (i == 0 || is_below(type, &last, &part));
        add_range(type, column, &part);
        last = part;
    }
    if (type_is_float(type))
        column->width = float_width(type);
    else
        settle_integers(column);
}

// ---- filling from slices -------------------------------------------------------------------------------------------

#define DEFINE_CONVERT(S, T)                                                     \
    static void convert_##S##_##T(const S *from, T *to, u32 n_rows, u64 add)     \
    {                                                                            \
        for (u32 i = 0; i < n_rows; i++)                                         \
            to[i] = (T)(from[i] + add);                                          \
    }
#define DEFINE_CONVERTS(S)                                                       \
    DEFINE_CONVERT(S, u8)                                                        \
    DEFINE_CONVERT(S, u16)                                                       \
    DEFINE_CONVERT(S, u32)                                                       \
    DEFINE_CONVERT(S, u64)                                                       \
    static void convert_##S(const S *from, u8 width, void *to, u32 n, u64 add)   \
    {                                                                            \
        switch (width) {                                                         \
        case 1:                                                                  \
            convert_##S##_u8(from, to, n, add);                                  \
            break;                                                               \
        case 2:                                                                  \
            convert_##S##_u16(from, to, n, add);                                 \
            break;                                                               \
        case 4:                                                                  \
            convert_##S##_u32(from, to, n, add);                                 \
            break;                                                               \
        default:                                                                 \
            convert_##S##_u64(from, to, n, add);                                 \
            break;                                                               \
        }                                                                        \
    }
DEFINE_CONVERTS(u8)
DEFINE_CONVERTS(u16)
DEFINE_CONVERTS(u32)
DEFINE_CONVERTS(u64)

static void convert(const ColumnChunk *from, u32 start, u8 width, void *to, u32 n_rows, u64 add)
{
    switch (from->width) {
    case 1:
        convert_u8((const u8 *)from->data + start, width, to, n_rows, add);
        break;
    case 2:
        convert_u16((const u16 *)from->data + start, width, to, n_rows, add);
        break;
    case 4:
        convert_u32((const u32 *)from->data + start, width, to, n_rows, add);
        break;
    default:
        convert_u64((const u64 *)from->data + start, width, to, n_rows, add);
        break;
    }
}

// Up to 64 bits from any bit on; those past N are 0.
static u64 read_bits(const u64 *bits, u32 start, u32 n)
{
    u32 shift = start % 64;
    u64 word = bits[start / 64] >> shift;
    if (shift > 0 && n > 64 - shift)
        word |= bits[start / 64 + 1] << (64 - shift);
    return n < 64 ? word & (((u64)1 << n) - 1) : word;
}

static void write_bits(u64 *bits, u32 start, u64 word)      // into bits that are 0
{
    u32 shift = start % 64;
    bits[start / 64] |= word << shift;
    if (shift > 0 && word >> (64 - shift) != 0)
        bits[start / 64 + 1] |= word >> (64 - shift);
}

static void copy_valid(const u64 *from, u32 start, u64 *to, u32 to_start, u32 n_rows)
{
    for (u32 i = 0; i < n_rows; i += 64) {
        u32 n = MIN_OF(n_rows - i, 64);
        u64 all = n < 64 ? ((u64)1 << n) - 1 : UINT64_MAX;
        write_bits(to, to_start + i, from ? read_bits(from, start + i, n) : all);
    }
}

// What was 0 over the old base is not 0 over the new one.
static void clear_nulls(const u64 *valid, u32 start, u8 width, u8 *to, u32 n_rows)
{
    for (u32 i = 0; i < n_rows; i += 64) {
        u32 n = MIN_OF(n_rows - i, 64);
        u64 all = n < 64 ? ((u64)1 << n) - 1 : UINT64_MAX;
        for (u64 nulls = all & ~read_bits(valid, start + i, n); nulls != 0; nulls &= nulls - 1)
            memset(to + (size_t)(i + (u32)__builtin_ctzll(nulls)) * width, 0, width);
    }
}

void merge_fill(Type type, const ChunkSlice *slices, int n_slices, int at, const ColumnChunk *column, void *data,
                u64 *valid)
{
    u32 row = 0;
    for (int i = 0; i < n_slices; i++) {
        const ColumnChunk *from = &slices[i].chunk->columns[at];
        u32 start = slices[i].start, count = slices[i].count;
        u8 *to = (u8 *)data + (size_t)row * column->width;
        ASSERT(!type_is_float(type) || from->width == column->width);
        if (type_is_float(type))
            memcpy(to, (const u8 *)from->data + (size_t)start * column->width, (size_t)count * column->width);
        else if (from->has_range)
            convert(from, start, column->width, to, count, (u64)from->base - (u64)column->base);
        if (!type_is_float(type) && from->has_range && from->valid)
            clear_nulls(from->valid, start, column->width, to, count);
        if (valid)
            copy_valid(from->valid, start, valid, row, count);
        row += count;
    }
}
