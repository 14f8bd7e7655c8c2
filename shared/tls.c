#include "shared/tls.h"

#include "shared/check.h"
#include "shared/tls_openssl.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECORD_MAX = 16 * 1024, /* plaintext bytes of one TLS record */
    PIECES_MAX = 64,        /* joined into one record */
};

struct tls {
    SSL *ssl;
    struct tls_context *context;
    char *peer;     /* of a client: address under which sessions to resume are stored */
    const char *in; /* bytes from the peer that OpenSSL has not read yet */
    size_t in_len;
    char *kept; /* own copy of `in` between calls of tls_feed; NULL: `in` belongs to the caller */
    struct out out;
    char reason[TLS_REASON_MAX];
};

/* ---- BIO: OpenSSL's input and output ---------------------------------------------------------- */

static int on_bio_read(BIO *bio, char *to, int size)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->in_len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = tls->in_len < (size_t)size ? tls->in_len : (size_t)size;
    memcpy(to, tls->in, len);
    tls->in += len;
    tls->in_len -= len;
    return (int)len;
}

static int on_bio_write(BIO *bio, const char *data, int len)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    out_write(&tls->out, data, (size_t)len);
    return len;
}

static long on_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void method_make(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "scree");
    CHECK(method);
    CHECK(BIO_meth_set_read(method, on_bio_read) == 1);
    CHECK(BIO_meth_set_write(method, on_bio_write) == 1);
    CHECK(BIO_meth_set_ctrl(method, on_bio_ctrl) == 1);
}

/* ---- creation --------------------------------------------------------------------------------- */

/* Sets the name that the certificate must match, and the SNI that is sent (never an address, RFC 6066). */
static void name_peer(struct tls *tls, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    const char *name = tls->context->server_name ? tls->context->server_name : host;
    bool is_address =
        inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    if (!is_address && *name)
        (void)SSL_set_tlsext_host_name(tls->ssl, name);
    if (!tls->context->verifies_name)
        return;
    SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_address)
        CHECK(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), name) == 1);
    else
        CHECK(*name && SSL_set1_host(tls->ssl, name) == 1);
}

/* Resumes the stored session of this peer, and stores new ones for later connections. */
static void remember_peer(struct tls *tls, const char *peer)
{
    if (!tls->context->sessions)
        return;
    tls->peer = strdup(peer);
    CHECK(tls->peer);
    SSL_set_app_data(tls->ssl, tls->peer);
    sessions_resume(tls->context->sessions, tls->ssl, peer);
}

struct tls *tls_new(struct tls_context *context, const char *host, const char *peer)
{
    struct tls *tls = calloc(1, sizeof *tls);
    CHECK(tls);
    CHECK(pthread_once(&method_once, method_make) == 0);
    tls->context = tls_context_ref(context);
    tls->ssl = SSL_new(context->ssl);
    BIO *bio = BIO_new(method);
    CHECK(tls->ssl);
    CHECK(bio);
    out_init(&tls->out);
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    if (context->is_client) {
        SSL_set_connect_state(tls->ssl);
        name_peer(tls, host);
        remember_peer(tls, peer);
    } else {
        SSL_set_accept_state(tls->ssl);
    }
    return tls;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    tls_context_unref(tls->context);
    out_clear(&tls->out);
    free(tls->kept);
    free(tls->peer);
    free(tls);
}

/* ---- bytes in --------------------------------------------------------------------------------- */

void tls_feed(struct tls *tls, const void *data, size_t len)
{
    CHECK(tls->in_len == 0);
    free(tls->kept);
    tls->kept = NULL;
    tls->in = data;
    tls->in_len = len;
}

void tls_keep(struct tls *tls)
{
    if (tls->kept && tls->in_len > 0)
        return;
    char *copy = NULL;
    if (tls->in_len > 0) {
        copy = malloc(tls->in_len);
        CHECK(copy);
        memcpy(copy, tls->in, tls->in_len);
    }
    free(tls->kept);
    tls->in = tls->kept = copy;
}

bool tls_has_input(const struct tls *tls)
{
    return tls->in_len > 0 || SSL_pending(tls->ssl) > 0;
}

/* ---- results of OpenSSL calls ----------------------------------------------------------------- */

static bool is_not_tls(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_UNKNOWN_PROTOCOL;
}

static void note_reason(struct tls *tls)
{
    unsigned long code = ERR_peek_error();
    const char *text = ERR_reason_error_string(code);
    int reason = ERR_GET_REASON(code);
    long verdict = SSL_get_verify_result(tls->ssl);
    if (!text)
        text = "unknown error";
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
        (void)snprintf(tls->reason, sizeof tls->reason, "TLS: %s: %s", text,
                       X509_verify_cert_error_string(verdict));
    else if (!SSL_is_init_finished(tls->ssl) && is_not_tls(reason))
        (void)snprintf(tls->reason, sizeof tls->reason, "TLS: the peer does not use TLS (%s)",
                       text);
    else if (reason >= SSL_AD_REASON_OFFSET)
        (void)snprintf(tls->reason, sizeof tls->reason, "TLS: the peer refused the connection: %s",
                       text);
    else
        (void)snprintf(tls->reason, sizeof tls->reason, "TLS: %s", text);
}

/* Translates the result of an OpenSSL call that has failed. */
static enum tls_result outcome(struct tls *tls, int returned)
{
    switch (SSL_get_error(tls->ssl, returned)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        note_reason(tls);
        ERR_clear_error();
        return TLS_FAILED;
    }
}

enum tls_result tls_handshake(struct tls *tls)
{
    ERR_clear_error();
    int returned = SSL_do_handshake(tls->ssl);
    if (returned == 1) {
        /* otherwise an idle connection would keep its buffers; fails, harmlessly, while they hold data */
        (void)SSL_free_buffers(tls->ssl);
        return TLS_DONE;
    }
    enum tls_result result = outcome(tls, returned);
    if (result != TLS_END)
        return result;
    (void)snprintf(tls->reason, sizeof tls->reason,
                   "TLS: the peer closed the connection during the handshake");
    return TLS_FAILED;
}

enum tls_result tls_read(struct tls *tls, char *to, size_t size, size_t *got)
{
    if (*tls->reason)
        return TLS_FAILED;
    ERR_clear_error();
    int returned = SSL_read_ex(tls->ssl, to, size, got);
    return returned == 1 ? TLS_DONE : outcome(tls, returned);
}

/* ---- bytes out -------------------------------------------------------------------------------- */

/* Writes one record from the front of `from`; small pieces are joined into one record. */
static bool write_record(struct tls *tls, struct out *from)
{
    struct iovec iov[PIECES_MAX];
    char gathered[RECORD_MAX];
    size_t len = 0;
    size_t written;
    int count = out_iov(from, iov, PIECES_MAX);
    const char *data = iov[0].iov_base;
    if (count == 1 || iov[0].iov_len >= RECORD_MAX) {
        len = iov[0].iov_len < RECORD_MAX ? iov[0].iov_len : RECORD_MAX;
    } else {
        data = gathered;
        for (int i = 0; i < count && len < RECORD_MAX; i++) {
            size_t some = iov[i].iov_len < RECORD_MAX - len ? iov[i].iov_len : RECORD_MAX - len;
            memcpy(gathered + len, iov[i].iov_base, some);
            len += some;
        }
    }
    ERR_clear_error();
    int returned = SSL_write_ex(tls->ssl, data, len, &written);
    if (returned != 1) {
        (void)outcome(tls, returned);
        if (!*tls->reason)
            (void)snprintf(tls->reason, sizeof tls->reason, "TLS: closed by the peer");
        return false;
    }
    out_consume(from, written);
    return true;
}

bool tls_write(struct tls *tls, struct out *from, size_t limit)
{
    if (*tls->reason)
        return false;
    while (from->bytes > 0 && tls->out.bytes < limit) {
        if (!write_record(tls, from))
            return false;
    }
    return true;
}

void tls_shutdown(struct tls *tls)
{
    if (*tls->reason || !SSL_is_init_finished(tls->ssl))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

struct out *tls_out(struct tls *tls)
{
    return &tls->out;
}

size_t tls_pending(const struct tls *tls)
{
    return tls->out.bytes;
}

/* ---- properties ------------------------------------------------------------------------------- */

bool tls_is_verified(const struct tls *tls)
{
    return SSL_get0_peer_certificate(tls->ssl) &&
           SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE &&
           SSL_get_verify_result(tls->ssl) == X509_V_OK;
}

bool tls_is_resumed(const struct tls *tls)
{
    return SSL_session_reused(tls->ssl);
}

const char *tls_reason(const struct tls *tls)
{
    return tls->reason;
}
