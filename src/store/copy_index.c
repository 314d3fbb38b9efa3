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
//
// Which of the ends are of rows is found afterwards: mostly every n-th, and one look at each shows whether they are.
//
// CPUs with AVX2 compare 32 bytes with an instruction, and find and count bits with others.  The compiler may use these
// in functions for such CPUs only, so the loop is there twice.

#include "store/copy_int.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

static bool is_careful;

void copy_set_careful(bool careful)
{
    is_careful = careful;
}

bool copy_is_careful(void)
{
    return is_careful;
}

typedef u8  Bytes16 __attribute__((vector_size(16)));
typedef u64 Words2 __attribute__((vector_size(16)));

// ---- 64 bytes at a time ---------------------------------------------------------------------------------------------

typedef struct ByteMatches { u64 ends, lines, special; } ByteMatches;
typedef struct WantedBytes { char delimiter, special; } WantedBytes;

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

INLINE ByteMatches match_64(const char *bytes, WantedBytes wanted)
{
    const Bytes16 delimiter = all_bytes(wanted.delimiter), newline = all_bytes('\n');
    const Bytes16 special = all_bytes(wanted.special);
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

#if defined(__x86_64__)

#define FOR_AVX2 __attribute__((target("avx2,bmi,popcnt")))

FOR_AVX2 static inline u64 bits_of_32(__m256i low, __m256i high)
{
    return (u32)_mm256_movemask_epi8(low) | (u64)(u32)_mm256_movemask_epi8(high) << 32;
}

FOR_AVX2 static inline ByteMatches match_64_avx2(const char *bytes, WantedBytes wanted)
{
    const __m256i delimiter = _mm256_set1_epi8(wanted.delimiter), newline = _mm256_set1_epi8('\n');
    const __m256i special = _mm256_set1_epi8(wanted.special);
    const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32));
    const __m256i low_lines = _mm256_cmpeq_epi8(low, newline), high_lines = _mm256_cmpeq_epi8(high, newline);
    const __m256i low_ends = _mm256_or_si256(low_lines, _mm256_cmpeq_epi8(low, delimiter));
    const __m256i high_ends = _mm256_or_si256(high_lines, _mm256_cmpeq_epi8(high, delimiter));
    const u64 specials = bits_of_32(_mm256_cmpeq_epi8(low, special), _mm256_cmpeq_epi8(high, special));
    return (ByteMatches){ bits_of_32(low_ends, high_ends), bits_of_32(low_lines, high_lines), specials };
}

#endif

// Bit i tells whether an odd number of quotes came up to and with byte i.
INLINE u64 inside_quotes(u64 quotes)
{
    for (int shift = 1; shift < 64; shift *= 2)
        quotes ^= quotes << shift;
    return quotes;
}

// The bytes behind an unescaped backslash.  *IS_ESCAPED goes from word to word.
INLINE u64 escaped_bytes(u64 backslashes, bool *is_escaped)
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

// Four at a time without asking how many there are; what is written too much is overwritten or never read.
INLINE void put_ends(u32 *to, u64 bits, int n_bits, u32 offset)
{
    for (int done = 0; done < n_bits; done += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            to[done + i] = offset + (u32)__builtin_ctzll(bits | (u64)1 << 63);
            bits &= bits - 1;
        }
    }
}

// Takes away what is data, and goes on from word to word.
typedef struct DataState {
    u64  is_inside;                    // csv: all ones inside quotes
    bool is_escaped;                   // text: the next byte is
} DataState;

INLINE void drop_data(FieldIndex *index, const CopyOptions *options, DataState *state, ByteMatches *found)
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

INLINE void index_words(FieldIndex *index, const CopyBlock *block, const CopyOptions *options,
                        ByteMatches (*match)(const char *bytes, WantedBytes wanted))
{
    const WantedBytes wanted = { options->delimiter, options->csv ? options->quote : '\\' };
    DataState state = { 0, false };
    u32 n_ends = 0, n_rows = 0;
    for (size_t at = 0; at < block->length; at += 64) {
        ByteMatches found = match(block->bytes + at, wanted);
        if (block->length - at < 64) {
            u64 in_block = ((u64)1 << (block->length - at)) - 1;
            found = (ByteMatches){ found.ends & in_block, found.lines & in_block, found.special & in_block };
        }
        if (found.special | state.is_inside | state.is_escaped)
            drop_data(index, options, &state, &found);
        int n_found = __builtin_popcountll(found.ends);
        put_ends(index->ends + n_ends, found.ends, n_found, (u32)at);
        n_ends += (u32)n_found;
        n_rows += (u32)__builtin_popcountll(found.lines);
    }
    index->n_ends = n_ends;
    index->n_rows = n_rows;
    index->n_newlines += n_rows;
}

static void index_words_anywhere(FieldIndex *index, const CopyBlock *block, const CopyOptions *options)
{
    index_words(index, block, options, match_64);
}

#if defined(__x86_64__)

FOR_AVX2 static void index_words_avx2(FieldIndex *index, const CopyBlock *block, const CopyOptions *options)
{
    index_words(index, block, options, match_64_avx2);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

#else

static bool has_avx2(void) { return false; }
#define index_words_avx2 index_words_anywhere

#endif

// ---- rows -----------------------------------------------------------------------------------------------------------

// Whether each row has as many fields as the first, which then tells where all of them end.  There are as many new
// lines among the ends as rows, so when each N-th is one no other is.
static bool put_even_rows(FieldIndex *index, const char *bytes)
{
    u32 n = 0;
    while (n < index->n_ends && bytes[index->ends[n]] != '\n')
        n++;
    n++;
    if (index->n_ends != (u64)index->n_rows * n)
        return false;
    const u32 *ends = index->ends + n - 1;
    bool is_even = true, has_returns = n == 1;              // of one column there may be nothing before a new line
    for (u32 row = 0; row < index->n_rows; row++, ends += n) {
        index->row_ends[row] = row * n + n - 1;
        is_even &= bytes[*ends] == '\n';
        has_returns |= bytes[*ends - (n > 1)] == '\r';
    }
    index->has_returns = has_returns || !is_even;
    index->fields_per_row = is_even ? n : 0;
    return is_even;
}

static void put_rows(FieldIndex *index, const char *bytes)
{
    if (index->n_rows == 0 || (!copy_is_careful() && put_even_rows(index, bytes)))
        return;
    u32 *to = index->row_ends;
    for (u32 i = 0; i < index->n_ends; i++)
        if (bytes[index->ends[i]] == '\n')
            *to++ = i;
    ASSERT(to == index->row_ends + index->n_rows);
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
        index->n_rows += byte == '\n';
        index->ends[index->n_ends++] = (u32)at;
    }
}

// ---- quotes only ----------------------------------------------------------------------------------------------------

// Each lane is flipped by each quote in it.
bool copy_is_odd(const char *bytes, size_t length, char quote)
{
    const char *first = memchr(bytes, quote, length);       // mostly there is none
    if (!first)
        return false;
    Bytes16 quotes = all_bytes(quote), lanes = all_bytes(0);
    size_t at = (size_t)(first - bytes);
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
    index->n_ends = index->n_rows = index->n_newlines = index->fields_per_row = 0;
    index->has_special = false;
    index->has_returns = true;
    if (options->csv && options->quote != options->escape)
        index_bytes(index, block, options);
    else if (has_avx2() && !copy_is_careful())
        index_words_avx2(index, block, options);
    else
        index_words_anywhere(index, block, options);
    put_rows(index, block->bytes);
    index->is_whole = index->n_ends > 0 && index->ends[index->n_ends - 1] == block->length - 1;
    return WEFT_OK;
}

void copy_index_free(FieldIndex *index, Budget *budget)
{
    copy_space_free(&index->ends_memory, budget);
    copy_space_free(&index->rows_memory, budget);
}
