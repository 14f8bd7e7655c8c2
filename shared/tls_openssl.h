/*
 * tls_openssl.h - private to tls.c and tls_*.c: the parts that use OpenSSL's types.
 */
#pragma once

#include "shared/tls.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

enum { TLS_DIGEST_LEN = 32 };

struct tickets;
struct sessions;

struct tls_context {
    _Atomic uint32_t refs;
    SSL_CTX *ssl;
    struct tickets *tickets;   /* of a server; NULL: issues no tickets */
    struct sessions *sessions; /* of a client; NULL: stores no sessions */
    uint64_t expires_s;        /* of its own certificate, Unix time; 0: it has none */
    bool is_client;
    bool verifies_name;
    char *server_name;                    /* NULL: the host's name */
    unsigned char digest[TLS_DIGEST_LEN]; /* digest of options and files */
};

/* tls_tickets.c: keys of session tickets, shared by all threads. The context must be freed before the keys. */
struct tickets *tickets_new(uint32_t lifetime_s);
void tickets_free(struct tickets *tickets); /* NULL is allowed */
void tickets_use(struct tickets *tickets, SSL_CTX *ssl);

/* tls_sessions.c: sessions that a client can resume, shared by all threads. A connection's app data is its peer's
 * address. */
struct sessions *sessions_new(void);
void sessions_free(struct sessions *sessions); /* NULL is allowed */
void sessions_use(SSL_CTX *ssl);
/* Call before the handshake: resumes the stored session of this peer, if there is one. */
void sessions_resume(struct sessions *sessions, SSL *ssl, const char *peer);
