#include "shared/digest.h"

#include "shared/check.h"

#include <openssl/evp.h>

static void write_hex(const unsigned char *raw, unsigned len, char *to)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < len; i++) {
        *to++ = digits[raw[i] >> 4];
        *to++ = digits[raw[i] & 15];
    }
}

static void digest_hex(const EVP_MD *algorithm, struct bytes data, char *to)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    CHECK(EVP_Digest(data.data, data.len, raw, &len, algorithm, NULL) == 1);
    write_hex(raw, len, to);
}

void sha1_hex(struct bytes data, char to[SHA1_HEX_LEN])
{
    digest_hex(EVP_sha1(), data, to);
}

void sha256_hex(struct bytes data, char to[SHA256_HEX_LEN])
{
    digest_hex(EVP_sha256(), data, to);
}

/* struct sha256 is OpenSSL's context under our own name. */
struct sha256 *sha256_new(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    CHECK(context);
    CHECK(EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    return (struct sha256 *)context;
}

void sha256_add(struct sha256 *sha256, struct bytes data)
{
    CHECK(EVP_DigestUpdate((EVP_MD_CTX *)sha256, data.data, data.len) == 1);
}

void sha256_end(struct sha256 *sha256, char to[SHA256_HEX_LEN])
{
    EVP_MD_CTX *context = (EVP_MD_CTX *)sha256;
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    CHECK(EVP_DigestFinal_ex(context, raw, &len) == 1);
    if (to)
        write_hex(raw, len, to);
    EVP_MD_CTX_free(context);
}
