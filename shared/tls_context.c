/*
 * tls_context.c - builds a context from options and files.
 *
 * Not configurable: at least TLS 1.2, no renegotiation (a client could use it to overload a server), no compression,
 * tickets instead of a session cache in the server (no lock, no memory), buffers are freed while a connection is idle.
 */
#include "shared/tls_openssl.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILE_BYTES_MAX = 16 * 1024 * 1024 };

/* The context being built, and where to put error messages. */
struct making {
    const struct tls_options *options;
    SSL_CTX *ssl;
    EVP_MD_CTX *digest;
    char *error;
    size_t size;
};

static bool set_tls_error(struct making *making, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes an error message "upstream.tls-cert-file: …". */
static bool set_tls_error(struct making *making, const char *option, const char *format, ...)
{
    char text[TLS_REASON_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(making->error, making->size, "%s%s: %s", making->options->section, option, text);
    ERR_clear_error();
    return false;
}

static const char *why(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = ERR_reason_error_string(code);
    return text                             ? text
           : ERR_SYSTEM_ERROR(code) && code ? strerror(ERR_GET_REASON(code))
                                            : "the file cannot be used";
}

/* ---- digest ----------------------------------------------------------------------------------- */

static void digest_bytes(struct making *making, const void *data, size_t len)
{
    uint64_t head = len;
    CHECK(EVP_DigestUpdate(making->digest, &head, sizeof head) == 1);
    CHECK(EVP_DigestUpdate(making->digest, data, len) == 1);
}

static void digest_text(struct making *making, const char *text)
{
    digest_bytes(making, text, strlen(text));
}

/* Adds the file's content to the digest. False: it cannot be read. */
static bool digest_file(struct making *making, const char *option, const char *path)
{
    char block[16 * 1024];
    size_t total = 0;
    size_t got;
    digest_text(making, path);
    if (!*path)
        return true;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return set_tls_error(making, option, "%s: %s", path, strerror(errno));
    while ((got = fread(block, 1, sizeof block, file)) > 0 && (total += got) <= FILE_BYTES_MAX)
        digest_bytes(making, block, got);
    bool is_good = !ferror(file) && total <= FILE_BYTES_MAX;
    OPENSSL_cleanse(block, sizeof block);
    (void)fclose(file);
    return is_good ||
           set_tls_error(making, option, "%s: the file cannot be read, or is too big", path);
}

static bool digest_all(struct making *making)
{
    const struct tls_options *options = making->options;
    const uint32_t numbers[] = {options->is_client,           options->clients,
                                options->prefers_own_ciphers, options->resumes,
                                options->ticket_lifetime_s,   options->verifies_name};
    digest_bytes(making, numbers, sizeof numbers);
    digest_text(making, options->key_file_pass);
    digest_text(making, options->protocols);
    digest_text(making, options->ciphers);
    digest_text(making, options->ciphersuites);
    digest_text(making, options->server_name);
    return digest_file(making, "tls-cert-file", options->cert_file) &&
           digest_file(making, "tls-key-file", options->key_file) &&
           digest_file(making, "tls-ca-cert-file", options->ca_cert_file);
}

/* ---- applying the options --------------------------------------------------------------------- */

static bool set_protocols(struct making *making)
{
    const char *rest = making->options->protocols;
    int lowest = 0;
    int highest = 0;
    char word[16];
    for (int used; sscanf(rest, " %15s%n", word, &used) == 1; rest += used) {
        int version = strcasecmp(word, "TLSv1.2") == 0   ? TLS1_2_VERSION
                      : strcasecmp(word, "TLSv1.3") == 0 ? TLS1_3_VERSION
                                                         : 0;
        if (!version)
            return set_tls_error(making, "tls-protocols",
                                 "expected TLSv1.2, TLSv1.3 or both, found %s", word);
        if (!lowest || version < lowest)
            lowest = version;
        if (version > highest)
            highest = version;
    }
    CHECK(SSL_CTX_set_min_proto_version(making->ssl, lowest ? lowest : TLS1_2_VERSION) == 1);
    /* 0: the newest version that OpenSSL supports */
    CHECK(SSL_CTX_set_max_proto_version(making->ssl, highest) == 1);
    return true;
}

static bool set_ciphers(struct making *making)
{
    const struct tls_options *options = making->options;
    if (*options->ciphers && SSL_CTX_set_cipher_list(making->ssl, options->ciphers) != 1)
        return set_tls_error(making, "tls-ciphers", "%s", why());
    if (*options->ciphersuites && SSL_CTX_set_ciphersuites(making->ssl, options->ciphersuites) != 1)
        return set_tls_error(making, "tls-ciphersuites", "%s", why());
    if (options->prefers_own_ciphers)
        (void)SSL_CTX_set_options(making->ssl, SSL_OP_CIPHER_SERVER_PREFERENCE);
    return true;
}

static int on_passphrase(char *to, int size, int is_writing, void *owner)
{
    const char *pass = owner;
    size_t len = strlen(pass);
    (void)is_writing;
    if (len > (size_t)size)
        return -1;
    memcpy(to, pass, len);
    return (int)len;
}

static bool use_certificate(struct making *making)
{
    const struct tls_options *options = making->options;
    SSL_CTX *ssl = making->ssl;
    bool is_given = *options->cert_file;
    if (is_given != (*options->key_file != '\0'))
        return set_tls_error(making, is_given ? "tls-key-file" : "tls-cert-file",
                             "expected a file, because certificate and key must both be set");
    if (!is_given)
        return options->is_client || set_tls_error(making, "tls-cert-file",
                                                   "expected a file, because a listener uses TLS");
    SSL_CTX_set_default_passwd_cb(ssl, on_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, (void *)(uintptr_t)options->key_file_pass);
    bool is_good = true;
    if (SSL_CTX_use_certificate_chain_file(ssl, options->cert_file) != 1)
        is_good = set_tls_error(making, "tls-cert-file", "%s: %s", options->cert_file, why());
    else if (SSL_CTX_use_PrivateKey_file(ssl, options->key_file, SSL_FILETYPE_PEM) != 1)
        is_good = set_tls_error(making, "tls-key-file", "%s: %s", options->key_file, why());
    else if (SSL_CTX_check_private_key(ssl) != 1)
        is_good = set_tls_error(making, "tls-key-file",
                                "%s is not the private key of the certificate in %s",
                                options->key_file, options->cert_file);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    return is_good;
}

static bool trust(struct making *making)
{
    const struct tls_options *options = making->options;
    const char *path = options->ca_cert_file;
    bool checks = options->is_client || options->clients != TLS_CLIENTS_ANY;
    int mode = !checks ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
    if (!options->is_client && options->clients == TLS_CLIENTS_VERIFIED)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(making->ssl, mode, NULL);
    if (!*path && options->is_client) {
        CHECK(SSL_CTX_set_default_verify_paths(making->ssl) == 1);
        return true;
    }
    if (!*path)
        return !checks ||
               set_tls_error(making, "tls-ca-cert-file",
                             "expected a file with the authorities of client certificates, "
                             "or tls-auth-clients = no");
    if (SSL_CTX_load_verify_file(making->ssl, path) != 1)
        return set_tls_error(making, "tls-ca-cert-file", "%s: %s", path, why());
    if (!options->is_client) { /* names of the authorities whose certificates clients may send */
        STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
        if (!names)
            return set_tls_error(making, "tls-ca-cert-file", "%s: %s", path, why());
        SSL_CTX_set_client_CA_list(making->ssl, names);
    }
    return true;
}

static void set_options(struct making *making, struct tls_context *context)
{
    SSL_CTX *ssl = making->ssl;
    const struct tls_options *options = making->options;
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_app_data(ssl, context);
    context->is_client = options->is_client;
    context->verifies_name = options->verifies_name;
    if (*options->server_name) {
        context->server_name = strdup(options->server_name);
        CHECK(context->server_name);
    }
    CHECK(EVP_DigestFinal_ex(making->digest, context->digest, NULL) == 1);
    if (options->is_client && options->resumes) {
        context->sessions = sessions_new();
        sessions_use(ssl);
    }
    if (options->is_client)
        return;
    CHECK(SSL_CTX_set_session_id_context(ssl, context->digest, TLS_DIGEST_LEN) == 1);
    CHECK(SSL_CTX_set_num_tickets(ssl, options->resumes) == 1);
    if (options->resumes) {
        context->tickets = tickets_new(options->ticket_lifetime_s);
        tickets_use(context->tickets, ssl);
    } else {
        (void)SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
    }
}

/* Notes when the certificate expires. One that has expired is loaded too, since peers may not check it, but not silently. */
static void read_expiry(struct tls_context *context, const struct tls_options *options)
{
    const X509 *certificate = SSL_CTX_get0_certificate(context->ssl);
    struct tm at;
    if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &at) != 1)
        return;
    time_t expires_s = timegm(&at);
    context->expires_s = expires_s > 0 ? (uint64_t)expires_s : 0;
    if (context->expires_s < clock_wall_us() / 1000000)
        log_event(LOG_ERROR, "tls_certificate_expired", "file=%s", options->cert_file);
}

uint64_t tls_context_expires_s(const struct tls_context *context)
{
    return context ? context->expires_s : 0;
}

/* ---- creation --------------------------------------------------------------------------------- */

struct tls_context *tls_context_new(const struct tls_options *options, char *error, size_t size)
{
    struct making making = {.options = options, .error = error, .size = size};
    struct tls_context *context = calloc(1, sizeof *context);
    CHECK(context);
    context->refs = 1;
    ERR_clear_error();
    context->ssl = making.ssl =
        SSL_CTX_new(options->is_client ? TLS_client_method() : TLS_server_method());
    making.digest = EVP_MD_CTX_new();
    CHECK(making.ssl);
    CHECK(making.digest);
    CHECK(EVP_DigestInit_ex(making.digest, EVP_sha256(), NULL) == 1);
    if (digest_all(&making) && set_protocols(&making) && set_ciphers(&making) &&
        use_certificate(&making) && trust(&making)) {
        set_options(&making, context);
        read_expiry(context, options);
    } else {
        tls_context_unref(context);
        context = NULL;
    }
    EVP_MD_CTX_free(making.digest);
    return context;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
    CHECK(atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed) > 0);
    return context;
}

void tls_context_unref(struct tls_context *context)
{
    if (!context)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&context->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1)
        return;
    SSL_CTX_free(context->ssl);
    tickets_free(context->tickets);
    sessions_free(context->sessions);
    free(context->server_name);
    free(context);
}

bool tls_context_equal(const struct tls_context *a, const struct tls_context *b)
{
    return a == b || (a && b && memcmp(a->digest, b->digest, TLS_DIGEST_LEN) == 0);
}
