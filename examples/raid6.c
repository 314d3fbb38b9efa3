// raid6.c - RAID-6 as a flow: blocks of eight disks come in, P and Q go out, and any two lost blocks are recovered.
//
//     disks ──> [data] ──> raid6, tile C on the DEVICE side ──> [parity] ──> check
//                  └──────────────────────────────────────────────────────────┘
//
// P is the sum of the data blocks, Q the sum of g^disk * block, both over GF(256) with x^8 + x^4 + x^3 + x^2 + 1 and g
// = 2 (H. P. Anvin, "The mathematics of RAID-6").  The operator does eight bytes at once: doubling is a shift and a
// mask. The check loses every pair of the ten blocks of each stripe in turn and recovers it.

#include <stdio.h>
#include <string.h>
#include <weft_flow.h>

enum { DISKS = 8, BLOCK = 4096, P = DISKS, Q = DISKS + 1, BLOCKS = DISKS + 2, STRIPES = 100 };

#define TILE_C(name, ...) static const char name##_text[] = #__VA_ARGS__;
#include "raid6.tile"                                      // the operator, as text

// ---- GF(256), for the recovery --------------------------------------------------------------------------------------

static uint8_t power_of[512], log_of[256];

static void make_tables(void)
{
    for (int i = 0, x = 1; i < 255; i++) {
        power_of[i] = power_of[i + 255] = (uint8_t)x;
        log_of[x] = (uint8_t)i;
        x = x << 1 ^ (x & 0x80 ? 0x11d : 0);
    }
}

static uint8_t times(uint8_t a, uint8_t b) { return a && b ? power_of[log_of[a] + log_of[b]] : 0; }
static uint8_t over(uint8_t a, uint8_t b) { return a ? power_of[log_of[a] + 255 - log_of[b]] : 0; }    // b is not 0

// What P and Q would be if the lost data blocks were zero.
static void sum_known(uint8_t blocks[][BLOCK], int lost_a, int lost_b, int at, uint8_t *p, uint8_t *q)
{
    *p = *q = 0;
    for (int disk = 0; disk < DISKS; disk++)
        if (disk != lost_a && disk != lost_b) {
            *p ^= blocks[disk][at];
            *q ^= times(power_of[disk], blocks[disk][at]);
        }
}

// Writes the bytes of two lost blocks, A < B, from the other eight.
static void recover(uint8_t blocks[][BLOCK], int a, int b)
{
    for (int at = 0; at < BLOCK; at++) {
        uint8_t p, q;
        sum_known(blocks, a, b, at, &p, &q);
        if (b < DISKS) {                                   // two of data: a + b = p', g^a a + g^b b = q'
            const uint8_t sum = p ^ blocks[P][at], weighted = q ^ blocks[Q][at];
            blocks[b][at] = over(weighted ^ times(power_of[a], sum), power_of[a] ^ power_of[b]);
            blocks[a][at] = sum ^ blocks[b][at];
            continue;
        }
        if (a < DISKS)                                     // one of data, by the parity that is left
            blocks[a][at] = b == Q ? p ^ blocks[P][at] : over(q ^ blocks[Q][at], power_of[a]);
        sum_known(blocks, -1, -1, at, &p, &q);
        if (a == P || b == P)
            blocks[P][at] = p;
        if (b == Q)
            blocks[Q][at] = q;
    }
}

// ---- the flow -------------------------------------------------------------------------------------------------------

static void read_disks(weft_round *round)
{
    uint32_t random = (uint32_t)round->offset * 2654435761u + 1;
    uint8_t *out = round->output;
    for (int i = 0; i < DISKS * BLOCK; i++) {
        random = random * 1664525 + 1013904223;
        out[i] = (uint8_t)(random >> 24);
    }
    round->output_bytes = DISKS * BLOCK;
    round->status = round->offset + 1 < STRIPES ? WEFT_OK : WEFT_END_OF_STREAM;
}

typedef struct Check { weft_subscriber *data; int n_recovered, n_wrong; } Check;

static void check_stripe(weft_round *round)                // parity comes from its topic, data from the other
{
    static uint8_t good[BLOCKS][BLOCK], blocks[BLOCKS][BLOCK];
    Check *check = round->context;
    const weft_frame *frame;
    weft_error error;
    round->status = weft_subscriber_next(check->data, WEFT_FOREVER, &frame, NULL, &error);
    if (round->status)
        return;
    memcpy(good, frame->data, DISKS * BLOCK);
    memcpy(good[P], round->input, 2 * BLOCK);
    for (int a = 0; a < BLOCKS; a++)
        for (int b = a + 1; b < BLOCKS; b++) {
            memcpy(blocks, good, sizeof good);
            memset(blocks[a], 0xaa, BLOCK);
            memset(blocks[b], 0x55, BLOCK);
            if (round->offset % 10 == 0) {                 // all pairs of every tenth stripe
                recover(blocks, a, b);
                check->n_recovered++;
                check->n_wrong += memcmp(blocks, good, sizeof good) != 0;
            }
        }
    sum_known(good, -1, -1, (int)round->offset % BLOCK, &blocks[0][0], &blocks[0][1]);
    check->n_wrong += blocks[0][0] != good[P][round->offset % BLOCK] || blocks[0][1] != good[Q][round->offset % BLOCK];
}

int main(void)
{
    weft_flow *flow;
    weft_topic *data, *parity;
    weft_error error;
    uint32_t shape[] = { DISKS, BLOCK / sizeof(uint64_t) };
    Check check = { 0 };
    const weft_topic_options stripe = { .frame_bytes = DISKS * BLOCK }, pair = { .frame_bytes = 2 * BLOCK };
    const weft_operator_options source = { .name = "disks", .compute = read_disks },
        encode = { .name = "raid6", .tile_c = raid6_text, .context = shape, .context_bytes = sizeof shape,
                   .side = WEFT_SIDE_DEVICE },
        sink = { .name = "check", .compute = check_stripe, .context = &check };
    make_tables();
    if (weft_flow_new(NULL, &flow, &error) || weft_topic_new(flow, "data", &stripe, &data, &error) ||
        weft_topic_new(flow, "parity", &pair, &parity, &error) ||
        weft_subscriber_open(data, WEFT_START_OLDEST, &check.data, &error) ||
        weft_flow_link(flow, NULL, &source, data, NULL, &error) ||
        weft_flow_link(flow, data, &encode, parity, NULL, &error) ||
        weft_flow_link(flow, parity, &sink, NULL, NULL, &error) || weft_flow_run(flow, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%lld stripes encoded, %d pairs of lost blocks recovered, %d wrong\n",
           (long long)weft_topic_count(parity).frames_published, check.n_recovered, check.n_wrong);
    weft_flow_free(flow);
    return check.n_wrong != 0 || check.n_recovered != STRIPES / 10 * BLOCKS * (BLOCKS - 1) / 2;
}
