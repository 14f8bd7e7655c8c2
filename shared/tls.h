/*
 * tls.h - TLS as bytes in, bytes out: it uses no socket and no thread, and never waits.
 *
 *   from the peer ─ tls_feed ─► ┌─────┐ ─ tls_read ──► plain bytes
 *                               │ tls │
 *   to the peer ◄── tls_out ─── └─────┘ ◄─ tls_write ─ plain bytes
 *
 * A context is what all connections of one kind share: certificates, authorities, protocols, keys of session tickets,
 * sessions to resume. Any thread may use it and hold references. A reload makes a new context; existing connections
 * keep theirs.
 *
 * Only tls.c and tls_*.c use OpenSSL.
 */
#pragma once

#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TLS_REASON_MAX = 256,
    /* Memory of an idle connection, mostly OpenSSL's, and of a connection during its handshake. Measured by
     * unit/test_tls, not counted at run time. */
    TLS_CONNECTION_BYTES = 24 * 1024,
    TLS_HANDSHAKE_BYTES = 64 * 1024,
};

/* What a server requires of its clients. */
enum tls_clients {
    TLS_CLIENTS_ANY,      /* no certificate is requested */
    TLS_CLIENTS_OPTIONAL, /* a certificate is verified if the client sends one */
    TLS_CLIENTS_VERIFIED, /* without a valid certificate the handshake fails */
};

/* Options. Texts are never NULL; empty: not given. */
struct tls_options {
    bool is_client;
    const char *section; /* prefix of option names in messages: "" or "upstream." */
    const char *cert_file;
    const char *key_file;
    const char *key_file_pass;
    const char *ca_cert_file; /* empty: a client trusts the authorities of the system */
    const char *protocols;    /* "TLSv1.2 TLSv1.3"; empty: both */
    const char *ciphers;      /* of TLS 1.2 */
    const char *ciphersuites; /* of TLS 1.3 */

    enum tls_clients clients;
    bool prefers_own_ciphers;
    bool resumes;               /* a server issues session tickets, a client uses them */
    uint32_t ticket_lifetime_s; /* of a server */

    bool verifies_name;      /* the server's certificate must match the host that we connect to */
    const char *server_name; /* the name to match instead of the host; empty: none */
};

struct tls_context;

/* Reads the files. NULL: error[size] has one line. */
struct tls_context *tls_context_new(const struct tls_options *options, char *error, size_t size);
struct tls_context *tls_context_ref(struct tls_context *context);
/* NULL is allowed. */
void tls_context_unref(struct tls_context *context);
/* When its own certificate expires, Unix time; 0: the context is NULL or has none. */
uint64_t tls_context_expires_s(const struct tls_context *context);
/* Are the options and the content of the files equal? NULL equals NULL. */
bool tls_context_equal(const struct tls_context *a, const struct tls_context *b);

enum tls_result {
    TLS_DONE,
    TLS_MORE, /* needs bytes from the peer */
    TLS_END,  /* the peer has closed its sending direction */
    /* final; see tls_reason. tls_out may hold an alert that gives the peer the reason */
    TLS_FAILED,
};

struct tls;

/* A connection before its handshake. Only for clients: `host` is the name that the client connects to; `peer`
 * ("host:port") is the key for sessions to resume. */
struct tls *tls_new(struct tls_context *context, const char *host, const char *peer);
/* NULL is allowed. */
void tls_free(struct tls *tls);

/* Passes bytes from the peer, borrowed until tls_keep. All earlier bytes must have been read. */
void tls_feed(struct tls *tls, const void *data, size_t len);
/* Copies the bytes of tls_feed that have not been read. */
void tls_keep(struct tls *tls);
/* Has tls_feed left bytes that tls_read has not decrypted yet? */
bool tls_has_input(const struct tls *tls);

enum tls_result tls_handshake(struct tls *tls);
/* Decrypts up to `size` bytes; *got > 0 with TLS_DONE. */
enum tls_result tls_read(struct tls *tls, char *to, size_t size, size_t *got);
/* Encrypts from the front of `from` until it is empty or tls_out has `limit` bytes. False: failed. */
bool tls_write(struct tls *tls, struct out *from, size_t limit);
/* Ends our sending direction. */
void tls_shutdown(struct tls *tls);
/* Encrypted bytes to be sent to the peer. */
struct out *tls_out(struct tls *tls);
size_t tls_pending(const struct tls *tls);

/* Has the peer's certificate been verified against our authorities? */
bool tls_is_verified(const struct tls *tls);
/* Did the handshake resume an earlier session? */
bool tls_is_resumed(const struct tls *tls);
/* Why the connection failed; "" while it has not failed. */
const char *tls_reason(const struct tls *tls);
