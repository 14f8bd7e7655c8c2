/*
 * digest.h - message digests as lower-case hex, from OpenSSL.
 */
#pragma once

#include "shared/bytes.h"

enum { SHA1_HEX_LEN = 40, SHA256_HEX_LEN = 64 };

/* Writes the hex digits without a zero byte. */
void sha1_hex(struct bytes data, char to[SHA1_HEX_LEN]);
void sha256_hex(struct bytes data, char to[SHA256_HEX_LEN]);

/* SHA-256 of bytes that arrive in pieces. */
struct sha256;
struct sha256 *sha256_new(void);
void sha256_add(struct sha256 *sha256, struct bytes data);
/* Writes the hex digits and frees the context; `to` NULL: only frees. */
void sha256_end(struct sha256 *sha256, char to[SHA256_HEX_LEN]);
