// aes.c - AES-128 as a flow: test vectors of the standards first, then a stream that is encrypted and decrypted again.
//
//     text ──> [plain] ──> aes ──> [cipher] ──> aes ──> [again] ──> compare          CTR: the same operator both ways
//
// The operator is tile C; each item is a block of 16 bytes.  Its parameters are the round keys, the mode, the counter's
// start and the tables, so one text serves all keys and modes.  A frame's tag is its place in the stream, which CTR
// needs: frames may be computed in any order.  Lookups in tables leak keys through the cache's timing: an example, no
// library.

#include <stdio.h>
#include <string.h>
#include <weft_flow.h>

enum { ECB, CTR, FRAMES = 200, FRAME_BYTES = 16384 };

typedef struct Aes {
    uint32_t keys[44];                 // of all rounds, big-endian words
    uint32_t table[256];               // SubBytes and MixColumns of one byte
    uint8_t  substitute[256];
    uint8_t  counter[16];
    uint32_t mode;
} Aes;

static const char aes[] =
    "typedef struct Aes { u32 keys[44]; u32 table[256]; u8 substitute[256]; u8 counter[16]; u32 mode; } Aes;\n"
    "static u32 load(const u8 *b) { return (u32)b[0] << 24 | (u32)b[1] << 16 | (u32)b[2] << 8 | b[3]; }\n"
    "static void store(u8 *b, u32 w) { b[0] = w >> 24; b[1] = w >> 16; b[2] = w >> 8; b[3] = w; }\n"
    "static u32 turn(u32 w, int bits) { return w >> bits | w << (32 - bits); }\n"
    "static u32 mix(const u32 *t, u32 a, u32 b, u32 c, u32 d)\n"
    "{\n"
    "    return t[a >> 24] ^ turn(t[b >> 16 & 255], 8) ^ turn(t[c >> 8 & 255], 16) ^ turn(t[d & 255], 24);\n"
    "}\n"
    "static u32 last(const u8 *s, u32 a, u32 b, u32 c, u32 d)\n"
    "{\n"
    "    return (u32)s[a >> 24] << 24 | (u32)s[b >> 16 & 255] << 16 | (u32)s[c >> 8 & 255] << 8 | s[d & 255];\n"
    "}\n"
    "static void encrypt(const Aes *aes, const u8 *in, u8 *out)\n"
    "{\n"
    "    u32 w[4], next[4];\n"
    "    for (int i = 0; i < 4; i++) w[i] = load(in + 4 * i) ^ aes->keys[i];\n"
    "    for (int round = 1; round <= 10; round++) {\n"
    "        for (int i = 0; i < 4; i++) {\n"
    "            const u32 a = w[i], b = w[(i + 1) & 3], c = w[(i + 2) & 3], d = w[(i + 3) & 3];\n"
    "            const u32 mixed = round < 10 ? mix(aes->table, a, b, c, d) : last(aes->substitute, a, b, c, d);\n"
    "            next[i] = mixed ^ aes->keys[4 * round + i];\n"
    "        }\n"
    "        for (int i = 0; i < 4; i++) w[i] = next[i];\n"
    "    }\n"
    "    for (int i = 0; i < 4; i++) store(out + 4 * i, w[i]);\n"
    "}\n"
    "OPERATOR(aes)\n"
    "{\n"
    "    INPUT(u8, in);  OUTPUT(u8, out);  PARAMS(Aes, aes);\n"
    "    EACH_ITEM(i, N_ITEMS(u8) / 16) {\n"
    "        u8 block[16];\n"
    "        if (aes->mode == 0) {\n"
    "            encrypt(aes, in + 16 * i, out + 16 * i);\n"
    "            continue;\n"
    "        }\n"
    "        u64 add = TAG / 16 + i;\n"
    "        for (int k = 15; k >= 0; k--) {                                   // counter + place, 128 bits\n"
    "            add += aes->counter[k];\n"
    "            block[k] = (u8)add;\n"
    "            add >>= 8;\n"
    "        }\n"
    "        encrypt(aes, block, block);\n"
    "        for (int k = 0; k < 16; k++) out[16 * i + k] = in[16 * i + k] ^ block[k];\n"
    "    }\n"
    "    EMIT(u8, N_ITEMS(u8));\n"
    "    EMIT_TAG(TAG);\n"
    "}\n";

// ---- key schedule and tables ----------------------------------------------------------------------------------------

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

// ---- test vectors ---------------------------------------------------------------------------------------------------

static const struct Vector { const char *name, *key, *counter, *plain, *cipher; uint32_t mode; } vectors[] = {
    { "FIPS 197, C.1", "000102030405060708090a0b0c0d0e0f", "00000000000000000000000000000000",
      "00112233445566778899aabbccddeeff", "69c4e0d86a7b0430d8cdb78070b4c55a", ECB },
    { "FIPS 197, B", "2b7e151628aed2a6abf7158809cf4f3c", "00000000000000000000000000000000",
      "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32", ECB },
    { "SP 800-38A, F.1.1", "2b7e151628aed2a6abf7158809cf4f3c", "00000000000000000000000000000000",
      "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
      "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
      "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"
      "43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4", ECB },
    { "SP 800-38A, F.5.1", "2b7e151628aed2a6abf7158809cf4f3c", "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
      "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
      "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
      "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
      "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee", CTR },
};

static void say_vector(weft_round *round)
{
    const struct Vector *vector = round->context;
    const size_t n = strlen(vector->plain) / 2;
    for (size_t i = 0; i < n; i++)
        sscanf(vector->plain + 2 * i, "%2hhx", (uint8_t *)round->output + i);
    round->output_bytes = n;
    round->status = WEFT_END_OF_STREAM;
}

static void check_vector(weft_round *round)
{
    const struct Vector *vector = round->context;
    char hex[200] = "";
    for (size_t i = 0; i < round->input_bytes; i++)
        sprintf(hex + 2 * i, "%02x", ((const uint8_t *)round->input)[i]);
    printf("%s: %s\n", vector->name, strcmp(hex, vector->cipher) == 0 ? "right" : "wrong");
    round->status = strcmp(hex, vector->cipher) == 0 ? WEFT_OK : WEFT_CORRUPT;
}

static weft_status run_vector(const struct Vector *vector, weft_error *error)
{
    weft_flow *flow = NULL;
    weft_topic *plain, *cipher;
    Aes state = make_key(vector->key, vector->counter, vector->mode);
    const weft_operator_options source = { .name = "vector", .compute = say_vector, .context = (void *)vector },
        worker = { .name = "aes", .tile_c = aes, .context = &state, .context_bytes = sizeof state,
                   .side = WEFT_SIDE_DEVICE },
        sink = { .name = "check", .compute = check_vector, .context = (void *)vector };
    weft_status status = weft_flow_new(NULL, &flow, error);
    if (!status && !(status = weft_topic_new(flow, "plain", NULL, &plain, error)) &&
        !(status = weft_topic_new(flow, "cipher", NULL, &cipher, error)) &&
        !(status = weft_flow_link(flow, NULL, &source, plain, NULL, error)) &&
        !(status = weft_flow_link(flow, plain, &worker, cipher, NULL, error)) &&
        !(status = weft_flow_link(flow, cipher, &sink, NULL, NULL, error)))
        status = weft_flow_run(flow, error);
    weft_flow_free(flow);
    return status;
}

// ---- a stream -------------------------------------------------------------------------------------------------------

static uint8_t text_at(uint64_t place) { return (uint8_t)((place * 0x9e3779b97f4a7c15u) >> 56); }

static void say_text(weft_round *round)
{
    const uint64_t place = round->offset * FRAME_BYTES;
    for (uint64_t i = 0; i < FRAME_BYTES; i++)
        ((uint8_t *)round->output)[i] = text_at(place + i);
    round->output_bytes = FRAME_BYTES;
    round->output_tag = place;
    round->status = round->offset + 1 < FRAMES ? WEFT_OK : WEFT_END_OF_STREAM;
}

static void compare(weft_round *round)
{
    long long *n_right = round->context;
    for (uint64_t i = 0; i < round->input_bytes; i++)
        *n_right += ((const uint8_t *)round->input)[i] == text_at(round->tag + i);
}

static weft_status run_stream(weft_error *error, long long *n_right)
{
    weft_flow *flow = NULL;
    weft_topic *plain, *cipher, *again;
    Aes state = make_key(vectors[3].key, vectors[3].counter, CTR);
    const weft_topic_options small = { .frame_bytes = FRAME_BYTES };
    const weft_operator_options source = { .name = "text", .compute = say_text },
        worker = { .name = "aes", .tile_c = aes, .context = &state, .context_bytes = sizeof state,
                   .side = WEFT_SIDE_DEVICE },
        sink = { .name = "compare", .compute = compare, .context = n_right };
    weft_status status = weft_flow_new(NULL, &flow, error);
    if (!status && !(status = weft_topic_new(flow, "plain", &small, &plain, error)) &&
        !(status = weft_topic_new(flow, "cipher", &small, &cipher, error)) &&
        !(status = weft_topic_new(flow, "again", &small, &again, error)) &&
        !(status = weft_flow_link(flow, NULL, &source, plain, NULL, error)) &&
        !(status = weft_flow_link(flow, plain, &worker, cipher, NULL, error)) &&
        !(status = weft_flow_link(flow, cipher, &worker, again, NULL, error)) &&
        !(status = weft_flow_link(flow, again, &sink, NULL, NULL, error)))
        status = weft_flow_run(flow, error);
    weft_flow_free(flow);
    return status;
}

int main(void)
{
    weft_error error = { 0 };
    weft_status status = WEFT_OK;
    long long n_right = 0;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0] && !status; i++)
        status = run_vector(&vectors[i], &error);
    if (!status)
        status = run_stream(&error, &n_right);
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%lld of %d bytes are the same after encryption and decryption\n", n_right, FRAMES * FRAME_BYTES);
    return n_right != FRAMES * FRAME_BYTES;
}
