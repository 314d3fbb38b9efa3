// encoders.c - see encoders.h.  Declarations are those of isa-l 2 and OpenSSL 3.

#include <stddef.h>

#include "lab/encoders.h"
#include "lab/operators.h"

enum { DISKS = 8 };

// ---- isa-l ----------------------------------------------------------------------------------------------------------

typedef struct Isal { int (*pq_gen)(int n_blocks, int bytes, void **blocks); } Isal;

static const LibrarySymbol isal_symbols[] = { { "pq_gen", offsetof(Isal, pq_gen), false } };
static Isal isal;

static weft_status open_library(const char *const *names, const LibrarySymbol *symbols, int n_symbols, void *table,
                                const char *title, Error *err)
{
    Text path = { 0 }, why = { 0 };
    const bool is_there = library_open(names, symbols, n_symbols, table, &path, &why) != NULL;
    text_free(&path);
    text_free(&why);
    return is_there ? WEFT_OK : fail(err, WEFT_NO_DEVICE, -1, "%s is not on this machine", title);
}

static weft_status open_isal(Encoder *encoder, Error *err)
{
    static const char *const names[] = { "libisal.so.2", NULL };
    return isal.pq_gen ? WEFT_OK : open_library(names, isal_symbols, COUNT_OF(isal_symbols), &isal, "isa-l", err);
}

static void encode_isal(Encoder *encoder, const void *in, size_t bytes, void *out)
{
    const size_t block = bytes / DISKS;
    void *blocks[DISKS + 2];
    for (size_t i = 0; i < DISKS; i++)
        blocks[i] = (u8 *)in + i * block;
    blocks[DISKS] = out;
    blocks[DISKS + 1] = (u8 *)out + block;
    isal.pq_gen(DISKS + 2, (int)block, blocks);
}

static void close_nothing(Encoder *encoder)
{
}

const EncoderKind encoder_isal = { "isa-l", "RAID-6", open_isal, encode_isal, close_nothing };

// ---- OpenSSL --------------------------------------------------------------------------------------------------------

typedef struct Openssl {
    void *(*ContextNew)(void);
    void  (*ContextFree)(void *context);
    const void *(*Aes128Ecb)(void);
    int   (*EncryptInit)(void *context, const void *cipher, void *engine, const u8 *key, const u8 *start);
    int   (*SetPadding)(void *context, int is_on);
    int   (*EncryptUpdate)(void *context, u8 *out, int *out_bytes, const u8 *in, int bytes);
} Openssl;

static const LibrarySymbol openssl_symbols[] = {
    { "EVP_CIPHER_CTX_new", offsetof(Openssl, ContextNew), false },
    { "EVP_CIPHER_CTX_free", offsetof(Openssl, ContextFree), false },
    { "EVP_aes_128_ecb", offsetof(Openssl, Aes128Ecb), false },
    { "EVP_EncryptInit_ex", offsetof(Openssl, EncryptInit), false },
    { "EVP_CIPHER_CTX_set_padding", offsetof(Openssl, SetPadding), false },
    { "EVP_EncryptUpdate", offsetof(Openssl, EncryptUpdate), false },
};
static Openssl openssl;

static weft_status open_openssl(Encoder *encoder, Error *err)
{
    static const char *const names[] = { "libcrypto.so.3", "libcrypto.so.1.1", NULL };
    if (!openssl.ContextNew)
        TRY(open_library(names, openssl_symbols, COUNT_OF(openssl_symbols), &openssl, "OpenSSL's libcrypto", err));
    encoder->state = openssl.ContextNew();
    if (!encoder->state || openssl.EncryptInit(encoder->state, openssl.Aes128Ecb(), NULL, operator_aes_key, NULL) != 1)
        return fail(err, WEFT_NO_DEVICE, -1, "OpenSSL refuses AES-128");
    openssl.SetPadding(encoder->state, 0);
    return WEFT_OK;
}

static void encode_openssl(Encoder *encoder, const void *in, size_t bytes, void *out)
{
    int out_bytes;
    openssl.EncryptUpdate(encoder->state, out, &out_bytes, in, (int)bytes);
}

static void close_openssl(Encoder *encoder)
{
    if (encoder->state)
        openssl.ContextFree(encoder->state);
    encoder->state = NULL;
}

const EncoderKind encoder_openssl = { "OpenSSL", "AES-128", open_openssl, encode_openssl, close_openssl };
