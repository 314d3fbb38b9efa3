// operators.c - see operators.h.

#include "lab/operators.h"

#include "examples/aes_key.h"

#define TILE_C(name, ...) static const char name##_text[] = #__VA_ARGS__;
#include "examples/aes.tile"
#include "examples/raid6.tile"
#include "lab/operators.tile"

enum { RAID6_DISKS = 8 };

static const LabOperator operators[] = {
    { "twice", "ping-pong", twice_text, 1, 1, 0, false },
    { "raid6", "RAID-6", raid6_text, 4, 1, 0, false },
    { "aes", "AES-128", aes_text, 1, 1, 0, true },
    { "fma_x", "FMA4", fma_x_text, 1, 1, 4, false },
    { "fma_x", "FMA8", fma_x_text, 1, 1, 8, false },
    { "fma_x", "FMA16", fma_x_text, 1, 1, 16, false },
    { "fma_x", "FMA32", fma_x_text, 1, 1, 32, true },
    { "fma_x", "FMA64", fma_x_text, 1, 1, 64, true },
    { "mri_q", "mri-q", mri_q_text, 1, 1, 0, true },
    { "cutcp", "cutcp", cutcp_text, 1, 1, 0, true },
    { "sgemm", "sgemm", sgemm_text, 1, 1, 0, true },
    { "stencil", "stencil", stencil_text, 1, 1, 0, false },
    { "spmv", "spmv", spmv_text, 8, 1, 0, false },
    { "sad", "sad", sad_text, 8, 1, 0, false },
    { "filter_sums", "filter and sums", filter_sums_text, 1, 1, 0, false },
};

int operator_count(void)
{
    return COUNT_OF(operators);
}

const LabOperator *operator_at(int i)
{
    ASSERT(i >= 0 && i < COUNT_OF(operators));
    return &operators[i];
}

const LabOperator *operator_find(const char *title)
{
    for (int i = 0; i < COUNT_OF(operators); i++)
        if (!strcmp(operators[i].title, title))
            return &operators[i];
    return NULL;
}

size_t operator_output_bytes(const LabOperator *op, size_t frame_bytes)
{
    return frame_bytes / (size_t)op->bytes_in * (size_t)op->bytes_out;
}

// ---- parameters -----------------------------------------------------------------------------------------------------

const u8 operator_aes_key[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
const u8 operator_aes_plain[16] = { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                    0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff };
const u8 operator_aes_cipher[16] = { 0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30,
                                     0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a };

static void make_aes(OperatorParams *params)
{
    const Aes key = make_key("000102030405060708090a0b0c0d0e0f", "00000000000000000000000000000000", ECB);
    _Static_assert(sizeof(key) <= sizeof(params->bytes), "room for a key");
    memcpy(params->bytes, &key, sizeof(key));
}

void operator_params(const LabOperator *op, size_t frame_bytes, OperatorParams *params)
{
    const u32 shape[2] = { RAID6_DISKS, (u32)(frame_bytes / RAID6_DISKS / sizeof(u64)) };
    memset(params, 0, sizeof(*params));
    if (!strcmp(op->name, "raid6")) {
        memcpy(params->bytes, shape, sizeof(shape));
    } else if (!strcmp(op->name, "aes")) {
        make_aes(params);
    } else if (!strcmp(op->name, "sgemm")) {
        for (int i = 0; i < 64 * 64; i++)
            ((float *)params->bytes)[i] = (float)(i % 7) * 0.25f;
    } else if (!strcmp(op->name, "spmv")) {
        for (u32 i = 0; i < 1024; i++)
            ((u32 *)params->bytes)[i] = i * 2654435761u;
    } else {
        memcpy(params->bytes, &op->number, sizeof(op->number));
    }
}

// ---- answers by another way -----------------------------------------------------------------------------------------

// GF(256) with x^8 + x^4 + x^3 + x^2 + 1: the product by repeated doubling, without tables and without words.
static u8 field_times(u8 a, u8 b)
{
    u8 product = 0;
    for (; b; b >>= 1, a = (u8)(a << 1 ^ (a & 0x80 ? 0x1d : 0)))
        product ^= b & 1 ? a : 0;
    return product;
}

static weft_status check_raid6(const u8 *in, size_t bytes, const u8 *out, Error *err)
{
    const size_t block = bytes / RAID6_DISKS;
    for (size_t at = 0; at < block; at++) {
        u8 p = 0, q = 0, weight = 1;
        for (size_t disk = 0; disk < RAID6_DISKS; disk++, weight = field_times(weight, 2)) {
            p ^= in[disk * block + at];
            q ^= field_times(weight, in[disk * block + at]);
        }
        if (out[at] != p || out[block + at] != q)
            return fail(err, WEFT_DEVICE_FAILED, -1, "RAID-6: P and Q of byte %zu are wrong", at);
    }
    return WEFT_OK;
}

// The first block of the frame is the standard's; equal blocks must give equal results.
static weft_status check_aes(const u8 *in, size_t bytes, const u8 *out, Error *err)
{
    for (size_t at = 0; at + 16 <= bytes; at += 16)
        if (!memcmp(in + at, operator_aes_plain, 16) && memcmp(out + at, operator_aes_cipher, 16))
            return fail(err, WEFT_DEVICE_FAILED, -1, "AES-128: the block at byte %zu is not that of FIPS 197", at);
    return WEFT_OK;
}

weft_status operator_check(const LabOperator *op, const void *in, size_t bytes, const void *out, Error *err)
{
    if (!strcmp(op->name, "raid6"))
        return check_raid6(in, bytes, out, err);
    if (!strcmp(op->name, "aes"))
        return check_aes(in, bytes, out, err);
    return fail(err, WEFT_UNDEFINED_OBJECT, -1, "%s has no other way to compute it", op->title);
}
