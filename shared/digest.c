#include "shared/digest.h"

#include "shared/check.h"

#include <openssl/evp.h>

static void digest_hex(const EVP_MD *algorithm, struct bytes data, char *to)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    CHECK(EVP_Digest(data.data, data.len, raw, &len, algorithm, NULL) == 1);
    for (unsigned i = 0; i < len; i++) {
        *to++ = digits[raw[i] >> 4];
        *to++ = digits[raw[i] & 15];
    }
}

void sha1_hex(struct bytes data, char to[SHA1_HEX_LEN])
{
    digest_hex(EVP_sha1(), data, to);
}

void sha256_hex(struct bytes data, char to[SHA256_HEX_LEN])
{
    digest_hex(EVP_sha256(), data, to);
}
