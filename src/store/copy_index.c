// copy_index.c - where the fields of a block end.
//
// Finding delimiters byte by byte costs a mispredicted branch per field.  So 64 bytes are compared at once, the matches
// become the bits of a word, and bit operations take away the delimiters and new lines that are data (the idea is from
// Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019):
//
//     bytes     7|"a|b"|c\n
//     ends      .1..1..1.1          delimiters and new lines
//     quotes    ..1...1...
//     inside    ..1111....          prefix xor of the quotes
//     result    .1.....1.1          ends and not inside
//
// In the text format the same is done with the bytes that a backslash escapes.  Only csv with an escape character other
// than the quote goes byte by byte.

#include "store/copy_int.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef u8  Bytes16 __attribute__((vector_size(16)));
typedef u64 Words2 __attribute__((vector_size(16)));

// ---- 64 bytes at a time ---------------------------------------------------------------------------------------------

typedef struct ByteMatches { u64 ends, lines, special; } ByteMatches;

#if defined(__SSE2__)

static inline u64 bits_of(const Bytes16 matched[4])
{
    u64 bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (u64)(u32)_mm_movemask_epi8((__m128i)matched[i]) << 16 * i;
    return bits;
}

#else

static inline Bytes16 add_pairs(Bytes16 a, Bytes16 b)
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// Of every eight bytes, byte i is left with 1 << i where it matched; their sum is a byte of the mask.
static inline u64 bits_of(const Bytes16 matched[4])
{
    const Bytes16 weights = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    Bytes16 low = add_pairs(matched[0] & weights, matched[1] & weights);
    Bytes16 high = add_pairs(matched[2] & weights, matched[3] & weights);
    Bytes16 sums = add_pairs(low, high);
    u64 bits = ((Words2)add_pairs(sums, sums))[0];
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    return bits;
}

#endif

static inline Bytes16 all_bytes(char value)
{
    u8 byte = (u8)value;
    return (Bytes16){ byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte };
}

static inline bool is_any(const Bytes16 matched[4])
{
    Words2 words = (Words2)(matched[0] | matched[1] | matched[2] | matched[3]);
    return (words[0] | words[1]) != 0;
}

static inline ByteMatches match_64(const char *bytes, Bytes16 delimiter, Bytes16 newline, Bytes16 special)
{
    Bytes16 lines[4], ends[4], specials[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        Bytes16 piece;
        memcpy(&piece, bytes + 16 * i, 16);
        lines[i] = (Bytes16)(piece == newline);
        ends[i] = lines[i] | (Bytes16)(piece == delimiter);
        specials[i] = (Bytes16)(piece == special);
    }
    return (ByteMatches){ bits_of(ends), bits_of(lines), is_any(specials) ? bits_of(specials) : 0 };
}

// Bit i tells whether an odd number of quotes came up to and with byte i.
static inline u64 inside_quotes(u64 quotes)
{
    for (int shift = 1; shift < 64; shift *= 2)
        quotes ^= quotes << shift;
    return quotes;
}

// The bytes behind an unescaped backslash.  *IS_ESCAPED goes from word to word.
static inline u64 escaped_bytes(u64 backslashes, bool *is_escaped)
{
    u64 escaped = *is_escaped;
    backslashes &= ~escaped;
    *is_escaped = false;
    while (backslashes) {
        u64 backslash = backslashes & -backslashes;
        escaped |= backslash << 1;
        *is_escaped = backslash >> 63;
        backslashes &= ~(backslash | backslash << 1);
    }
    return escaped;
}

static inline u32 lowest_bit(u64 bits)
{
    return bits ? (u32)__builtin_ctzll(bits) : 64;
}

// Four at a time without asking how many there are; what is written too much is overwritten or never read.
static inline void put_ends(u32 *to, u64 bits, int n_bits, u32 offset)
{
    for (int done = 0; done < n_bits; done += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            to[done + i] = offset + lowest_bit(bits);
            bits &= bits - 1;
        }
    }
}

// The places of the new lines among the ends, of which N_BEFORE came before.  Returns where the next goes.
static inline u32 *put_rows(u32 *to, ByteMatches found, u32 n_before)
{
    while (found.lines) {
        u64 line = found.lines & -found.lines;
        *to++ = n_before + (u32)__builtin_popcountll(found.ends & (line - 1));
        found.lines &= found.lines - 1;
    }
    return to;
}

// Takes away what is data, and goes on from word to word.
typedef struct DataState {
    u64  is_inside;                    // csv: all ones inside quotes
    bool is_escaped;                   // text: the next byte is
} DataState;

static void drop_data(FieldIndex *index, const CopyOptions *options, DataState *state, ByteMatches *found)
{
    u64 is_data;
    if (options->csv) {
        is_data = inside_quotes(found->special) ^ state->is_inside;
        state->is_inside = -(is_data >> 63);
    } else {
        is_data = escaped_bytes(found->special, &state->is_escaped);
    }
    index->has_special = true;
    index->n_newlines += (u32)__builtin_popcountll(found->lines & is_data);
    found->ends &= ~is_data;
    found->lines &= ~is_data;
}

static void index_words(FieldIndex *index, const CopyBlock *block, const CopyOptions *options)
{
    Bytes16 delimiter = all_bytes(options->delimiter);
    Bytes16 newline = all_bytes('\n');
    Bytes16 special = all_bytes(options->csv ? options->quote : '\\');
    DataState state = { 0, false };
    u32 n_ends = 0, *row_end = index->row_ends;
    for (size_t at = 0; at < block->length; at += 64) {
        ByteMatches found = match_64(block->bytes + at, delimiter, newline, special);
        if (block->length - at < 64) {
            u64 in_block = ((u64)1 << (block->length - at)) - 1;
            found = (ByteMatches){ found.ends & in_block, found.lines & in_block, found.special & in_block };
        }
        if (found.special | state.is_inside | state.is_escaped)
            drop_data(index, options, &state, &found);
        int n_found = __builtin_popcountll(found.ends);
        put_ends(index->ends + n_ends, found.ends, n_found, (u32)at);
        row_end = put_rows(row_end, found, n_ends);
        n_ends += (u32)n_found;
    }
    index->n_ends = n_ends;
    index->n_rows = (u32)(row_end - index->row_ends);
    index->n_newlines += index->n_rows;
}

// ---- byte by byte ---------------------------------------------------------------------------------------------------

static void index_bytes(FieldIndex *index, const CopyBlock *block, const CopyOptions *options)
{
    bool is_inside = false, is_escaped = false;
    index->has_special = true;
    for (size_t at = 0; at < block->length; at++) {
        char byte = block->bytes[at];
        index->n_newlines += byte == '\n';
        if (byte == options->quote && !is_escaped)
            is_inside = !is_inside;
        is_escaped = is_inside && byte == options->escape && !is_escaped;
        if (is_inside || (byte != options->delimiter && byte != '\n'))
            continue;
        if (byte == '\n')
            index->row_ends[index->n_rows++] = index->n_ends;
        index->ends[index->n_ends++] = (u32)at;
    }
}

// ---- quotes only ----------------------------------------------------------------------------------------------------

// Each lane is flipped by each quote in it.
bool copy_is_odd(const char *bytes, size_t length, char quote)
{
    Bytes16 quotes = all_bytes(quote), lanes = all_bytes(0);
    size_t at = 0;
    for (; at + 16 <= length; at += 16) {
        Bytes16 piece;
        memcpy(&piece, bytes + at, 16);
        lanes ^= (Bytes16)(piece == quotes);
    }
    Words2 words = (Words2)(lanes & all_bytes(1));
    bool is_odd = __builtin_parityll(words[0] ^ words[1]);
    for (; at < length; at++)
        is_odd ^= bytes[at] == quote;
    return is_odd;
}

// ---- both -----------------------------------------------------------------------------------------------------------

weft_status copy_index_block(FieldIndex *index, const CopyBlock *block, const CopyOptions *options, Budget *budget,
                             Error *err)
{
    // Every byte may be a delimiter or a new line.  One entry is before the first, and put_ends() writes past the last.
    size_t bytes_max = (block->length + 16) * sizeof(u32);
    TRY(copy_space_reserve(&index->ends_memory, bytes_max, budget, err));
    TRY(copy_space_reserve(&index->rows_memory, bytes_max, budget, err));
    index->ends = (u32 *)(void *)index->ends_memory.bytes + 1;
    index->ends[-1] = UINT32_MAX;
    index->row_ends = (u32 *)(void *)index->rows_memory.bytes + 1;
    index->row_ends[-1] = UINT32_MAX;
    index->n_ends = index->n_rows = index->n_newlines = 0;
    index->has_special = false;
    if (options->csv && options->quote != options->escape)
        index_bytes(index, block, options);
    else
        index_words(index, block, options);
    index->is_whole = index->n_ends > 0 && index->ends[index->n_ends - 1] == block->length - 1;
    return WEFT_OK;
}

void copy_index_free(FieldIndex *index, Budget *budget)
{
    copy_space_free(&index->ends_memory, budget);
    copy_space_free(&index->rows_memory, budget);
}
