// needle.c - a text in many bytes.
//
// Two bytes of the needle that are rare in texts are looked for at once, 64 places at a time; only where both stand at
// their distance the rest is compared.  Vectors of the compiler, so it is SSE2 here and NEON there.  The system's
// memmem looks at one place at a time, which is a few times slower for a word in a long text.

#include "base/base.h"

typedef u8 Lanes __attribute__((vector_size(16)));
typedef u64 LanePair __attribute__((vector_size(16)));

enum { N_LANES = sizeof(Lanes), N_STEP = 4 * N_LANES };

// Bytes that occur often in text, the most frequent first.  All other bytes count as rare.
static const char common[] = "etaoinsrhldcumfpgwybv ,.-_/01";

static int rarity(char byte)
{
    const char *found = byte ? strchr(common, byte) : NULL;
    return !found ? 100 : found < common + 21 ? (int)(found - common) : 0;
}

// The second one not close by: bytes beside each other often come together, as q and u.
enum { CLOSE = 3 };

static bool is_apart(size_t a, size_t b)
{
    return (a > b ? a - b : b - a) >= CLOSE;
}

Needle needle_of(const char *bytes, size_t length)
{
    Needle needle = { .bytes = bytes, .length = length };
    for (size_t i = 0; i < length; i++)
        if (rarity(bytes[i]) > rarity(bytes[needle.first]))
            needle.first = i;
    needle.second = needle.first < length / 2 ? length - 1 : 0;
    for (size_t i = 0; i < length; i++)
        if (is_apart(i, needle.first) && rarity(bytes[i]) > rarity(bytes[needle.second]))
            needle.second = i;
    return needle;
}

static u64 word_at(const char *bytes)
{
    u64 word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static u32 half_at(const char *bytes)
{
    u32 half;
    memcpy(&half, bytes, sizeof(half));
    return half;
}

// Most candidates differ in their first bytes: a call for each would take longer than the rest of the search.
static bool stands_at(const Needle *needle, const char *place)
{
    const size_t length = needle->length;
    if (length >= 8)
        return word_at(place) == word_at(needle->bytes) && memcmp(place + 8, needle->bytes + 8, length - 8) == 0;
    if (length >= 4)
        return half_at(place) == half_at(needle->bytes) &&
               half_at(place + length - 4) == half_at(needle->bytes + length - 4);
    for (size_t i = 0; i < length; i++)
        if (place[i] != needle->bytes[i])
            return false;
    return true;
}

// ---- many places at a time -----------------------------------------------------------------------------------------

static Lanes load(const char *bytes)
{
    Lanes lanes;
    memcpy(&lanes, bytes, sizeof(lanes));
    return lanes;
}

static Lanes spread(char byte)
{
    return (Lanes){ 0 } + (u8)byte;
}

static bool is_any(Lanes lanes)
{
    LanePair pair = (LanePair)lanes;
    return (pair[0] | pair[1]) != 0;
}

// The first place at AT + lane where LANES is set and the needle stands.
static const char *confirm(const Needle *needle, const char *at, Lanes lanes)
{
    LanePair pair = (LanePair)lanes;
    for (int half = 0; half < 2; half++)
        for (u64 rest = pair[half]; rest != 0;) {
            int lane = __builtin_ctzll(rest) / 8;
            if (stands_at(needle, at + half * 8 + lane))
                return at + half * 8 + lane;
            rest &= ~((u64)255 << (lane * 8));
        }
    return NULL;
}

typedef struct RareBytes { Lanes first, second; } RareBytes;

static inline Lanes candidates(const Needle *needle, const RareBytes *rare, const char *at)
{
    return (Lanes)(load(at + needle->first) == rare->first) & (Lanes)(load(at + needle->second) == rare->second);
}

static const char *find_in_step(const Needle *needle, const RareBytes *rare, const char *at)
{
    Lanes hits = candidates(needle, rare, at);
    return is_any(hits) ? confirm(needle, at, hits) : NULL;
}

static const char *find_one_by_one(const Needle *needle, const char *at, const char *end)
{
    for (; at < end; at++)
        if (at[needle->first] == needle->bytes[needle->first] && stands_at(needle, at))
            return at;
    return NULL;
}

const char *needle_find(const Needle *needle, const char *bytes, size_t length)
{
    if (needle->length == 0 || needle->length > length)
        return needle->length == 0 ? bytes : NULL;
    if (needle->length == 1)
        return memchr(bytes, needle->bytes[0], length);
    const char *at = bytes, *end = bytes + length - needle->length + 1;    // behind the last place where it can begin
    if (end - at < N_LANES)
        return find_one_by_one(needle, at, end);
    const RareBytes rare = { spread(needle->bytes[needle->first]), spread(needle->bytes[needle->second]) };
    const char *found;
    while (end - at >= N_LANES) {
        bool is_far = end - at >= N_STEP;
        if (is_far && !is_any(candidates(needle, &rare, at) | candidates(needle, &rare, at + N_LANES) |
                              candidates(needle, &rare, at + 2 * N_LANES) |
                              candidates(needle, &rare, at + 3 * N_LANES))) {
            at += N_STEP;
            continue;
        }
        for (int i = is_far ? 4 : 1; i > 0; i--, at += N_LANES)
            if ((found = find_in_step(needle, &rare, at)))
                return found;
    }
    return at < end ? find_in_step(needle, &rare, end - N_LANES) : NULL;   // places before AT do not match
}
