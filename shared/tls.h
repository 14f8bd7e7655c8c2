/*
 * tls.h - TLS as bytes in, bytes out: no socket, no thread of its own, no waiting.
 *
 *   from the peer ─ tls_feed ─► ┌─────┐ ─ tls_read ──► plain bytes
 *                               │ tls │
 *   to the peer ◄── tls_out ─── └─────┘ ◄─ tls_write ─ plain bytes
 *
 * A context is what all connections of one kind have in common: certificates, authorities, protocols, keys of session
 * tickets, sessions to resume. Any thread may use it and hold references; a reload makes a new one, and connections go
 * on with the one they began with.
 *
 * Only tls.c and tls_*.c know OpenSSL.
 */
#pragma once

#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TLS_REASON_MAX = 256,
    /* What a connection holds while nothing is under way, most of it OpenSSL's; while its handshake lasts. Measured, not
     * counted: unit/test_tls. */
    TLS_CONNECTION_BYTES = 24 * 1024,
    TLS_HANDSHAKE_BYTES = 64 * 1024,
};

/* What a server asks of its clients. */
enum tls_clients {
    TLS_CLIENTS_ANY,      /* no certificate */
    TLS_CLIENTS_OPTIONAL, /* one is checked when it is shown */
    TLS_CLIENTS_VERIFIED, /* without a good one the handshake fails */
};

/* Texts are never NULL; empty: not given. */
struct tls_options {
    bool is_client;
    const char *section; /* how messages name the options: "" or "upstream." */
    const char *cert_file;
    const char *key_file;
    const char *key_file_pass;
    const char *ca_cert_file; /* empty: a client trusts the system's authorities */
    const char *protocols;    /* "TLSv1.2 TLSv1.3"; empty: both */
    const char *ciphers;      /* of TLS 1.2 */
    const char *ciphersuites; /* of TLS 1.3 */

    enum tls_clients clients;
    bool prefers_own_ciphers;
    bool resumes;               /* a server gives tickets, a client comes back with them */
    uint32_t ticket_lifetime_s; /* of a server */

    bool verifies_name;      /* the server's certificate must be for the host we connect to */
    const char *server_name; /* or for this name */
};

struct tls_context;

/* Reads the files. NULL: one line in error[size]. */
struct tls_context *tls_context_new(const struct tls_options *options, char *error, size_t size);
struct tls_context *tls_context_ref(struct tls_context *context);
/* NULL is allowed. */
void tls_context_unref(struct tls_context *context);
/* The same options, and files with the same bytes? NULL equals NULL. */
bool tls_context_equal(const struct tls_context *a, const struct tls_context *b);

enum tls_result {
    TLS_DONE,
    TLS_MORE,   /* needs bytes from the peer */
    TLS_END,    /* the peer has said that nothing more comes */
    TLS_FAILED, /* for good; tls_reason. What is in tls_out may still tell the peer why */
};

struct tls;

/* A connection, before its handshake. Of a client: `host` is whom it connects to, `peer` tells apart those who do not
 * know each other's sessions, "host:port". */
struct tls *tls_new(struct tls_context *context, const char *host, const char *peer);
/* NULL is allowed. */
void tls_free(struct tls *tls);

/* Bytes from the peer, borrowed until tls_keep; there must be none left from before. */
void tls_feed(struct tls *tls, const void *data, size_t len);
/* Copies what is left of them. */
void tls_keep(struct tls *tls);
/* Is there something that tls_read could look at? */
bool tls_has_input(const struct tls *tls);

enum tls_result tls_handshake(struct tls *tls);
/* Up to `size` bytes; *got > 0 with TLS_DONE. */
enum tls_result tls_read(struct tls *tls, char *to, size_t size, size_t *got);
/* Encrypts from the front of `from` until it is empty or tls_out has `limit` bytes. False: failed. */
bool tls_write(struct tls *tls, struct out *from, size_t limit);
/* Says that nothing more comes from us. */
void tls_shutdown(struct tls *tls);
/* Bytes for the peer. */
struct out *tls_out(struct tls *tls);
size_t tls_pending(const struct tls *tls);

/* Has the peer shown a certificate that an authority of ours vouches for? */
bool tls_is_verified(const struct tls *tls);
/* Did the handshake go on with an earlier session? */
bool tls_is_resumed(const struct tls *tls);
/* Why it failed; "" before that. */
const char *tls_reason(const struct tls *tls);
