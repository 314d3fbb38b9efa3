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

#include "aes_key.h"

#define TILE_C(name, ...) static const char name##_text[] = #__VA_ARGS__;
#include "aes.tile"                                        // the operator, as text

enum { FRAMES = 200, FRAME_BYTES = 16384 };

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
        worker = { .name = "aes", .tile_c = aes_text, .context = &state, .context_bytes = sizeof state,
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
        worker = { .name = "aes", .tile_c = aes_text, .context = &state, .context_bytes = sizeof state,
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
