/*
 * tls_openssl.h - what tls_context.c and tls.c share; nobody else includes it.
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
    struct tickets *tickets;   /* of a server; NULL: none are given */
    struct sessions *sessions; /* of a client; NULL: none are kept */
    bool is_client;
    bool verifies_name;
    char *server_name;                    /* NULL: that of the host */
    unsigned char digest[TLS_DIGEST_LEN]; /* of options and files */
};

/* tls_tickets.c: keys of session tickets, the same for all threads. The context must not outlive them. */
struct tickets *tickets_new(uint32_t lifetime_s);
void tickets_free(struct tickets *tickets); /* NULL is allowed */
void tickets_use(struct tickets *tickets, SSL_CTX *ssl);

/* tls_sessions.c: what a client resumes, the same for all threads. A connection's app data is its peer's address. */
struct sessions *sessions_new(void);
void sessions_free(struct sessions *sessions); /* NULL is allowed */
void sessions_use(SSL_CTX *ssl);
/* Before the handshake: goes on with what is known of this peer. */
void sessions_resume(struct sessions *sessions, SSL *ssl, const char *peer);
