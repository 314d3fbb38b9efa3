// aes_key.h - the parameters of the operator in aes.tile: round keys, tables, counter and mode.

#include <stdint.h>
#include <stdio.h>

enum { ECB, CTR };

typedef struct Aes {
    uint32_t keys[44];                 // of all rounds, big-endian words
    uint32_t table[256];               // SubBytes and MixColumns of one byte
    uint8_t  substitute[256];
    uint8_t  counter[16];
    uint32_t mode;
} Aes;

static uint8_t doubled(uint8_t x) { return (uint8_t)(x << 1 ^ (x & 0x80 ? 0x1b : 0)); }

static void make_tables(Aes *state)
{
    uint8_t p = 1, q = 1;                                   // q = 1 / p, p runs through all but 0
    do {
        p ^= doubled(p);                                    // times 3
        q ^= (uint8_t)(q << 1);                             // over 3
        q ^= (uint8_t)(q << 2);
        q ^= (uint8_t)(q << 4);
        if (q & 0x80)
            q ^= 0x09;
        const uint8_t s = (uint8_t)(q ^ (q << 1 | q >> 7) ^ (q << 2 | q >> 6) ^ (q << 3 | q >> 5) ^ (q << 4 | q >> 4));
        state->substitute[p] = s ^ 0x63;
    } while (p != 1);
    state->substitute[0] = 0x63;
    for (int i = 0; i < 256; i++) {
        const uint32_t s = state->substitute[i], two = doubled((uint8_t)s);
        state->table[i] = two << 24 | s << 16 | s << 8 | (two ^ s);
    }
}

static Aes make_key(const char *key, const char *counter, uint32_t mode)
{
    Aes state = { .mode = mode };
    uint8_t factor = 1;
    make_tables(&state);
    for (int i = 0; i < 4; i++)
        sscanf(key + 8 * i, "%8x", &state.keys[i]);
    for (int i = 0; i < 16; i++)
        sscanf(counter + 2 * i, "%2hhx", &state.counter[i]);
    for (int i = 4; i < 44; i++) {
        uint32_t word = state.keys[i - 1];
        if (i % 4 == 0) {
            const uint8_t *s = state.substitute;
            word = (uint32_t)s[word >> 16 & 255] << 24 | (uint32_t)s[word >> 8 & 255] << 16 |
                   (uint32_t)s[word & 255] << 8 | s[word >> 24];
            word ^= (uint32_t)factor << 24;
            factor = doubled(factor);
        }
        state.keys[i] = state.keys[i - 4] ^ word;
    }
    return state;
}
