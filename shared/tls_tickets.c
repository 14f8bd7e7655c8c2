/*
 * tls_tickets.c - keys of session tickets: a ticket is the session's state, encrypted so that only we can read it.
 *
 *   key `now` encrypts new tickets      after each lifetime `now` becomes `before`, and a new key is drawn
 *   key `before` still decrypts them    so a ticket is valid for one to two lifetimes of a key, never longer
 *
 * Keys are in memory only and freed with the context: after a change of certificates or authorities, no client can
 * resume a session that was verified with the old ones.
 */
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/tls_openssl.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_NAME_LEN = 16, KEY_LEN = 32 };

struct ticket_key {
    unsigned char name[KEY_NAME_LEN];
    unsigned char seal[KEY_LEN];
    unsigned char sign[KEY_LEN];
};

struct tickets {
    pthread_mutex_t lock;
    uint64_t lifetime_us;
    uint64_t made_us; /* when `now` was drawn */
    struct ticket_key now;
    struct ticket_key before;
};

static void key_draw(struct ticket_key *key)
{
    CHECK(RAND_bytes((unsigned char *)key, sizeof *key) == 1);
}

struct tickets *tickets_new(uint32_t lifetime_s)
{
    struct tickets *tickets = calloc(1, sizeof *tickets);
    CHECK(tickets);
    CHECK(pthread_mutex_init(&tickets->lock, NULL) == 0);
    tickets->lifetime_us = (uint64_t)lifetime_s * 1000000;
    tickets->made_us = clock_mono_us();
    key_draw(&tickets->now);
    key_draw(&tickets->before);
    return tickets;
}

void tickets_free(struct tickets *tickets)
{
    if (!tickets)
        return;
    (void)pthread_mutex_destroy(&tickets->lock);
    OPENSSL_cleanse(tickets, sizeof *tickets);
    free(tickets);
}

/* Copies the key for encryption or, when `name` is given, the key with this name. False: there is none. */
static bool key_find(struct tickets *tickets, const unsigned char *name, struct ticket_key *key)
{
    bool found = true;
    CHECK(pthread_mutex_lock(&tickets->lock) == 0);
    uint64_t age_us = clock_mono_us() - tickets->made_us;
    if (age_us >= tickets->lifetime_us) {
        if (age_us < 2 * tickets->lifetime_us)
            tickets->before = tickets->now;
        else
            key_draw(&tickets->before); /* both are too old */
        key_draw(&tickets->now);
        tickets->made_us += age_us;
    }
    if (!name || memcmp(name, tickets->now.name, KEY_NAME_LEN) == 0)
        *key = tickets->now;
    else if (memcmp(name, tickets->before.name, KEY_NAME_LEN) == 0)
        *key = tickets->before;
    else
        found = false;
    CHECK(pthread_mutex_unlock(&tickets->lock) == 0);
    return found;
}

static bool key_apply(struct ticket_key *key, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, bool seals)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->sign, KEY_LEN),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, params) == 1 &&
           EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->seal, iv, seals) == 1;
}

/* Returns to OpenSSL: 1 the key is set, 2 the key is set and a new ticket must be sent, 0 the ticket is not ours, -1
 * error. In TLS 1.3 a client uses a ticket once, so it always gets a new one. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int seals)
{
    struct tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct ticket_key key;
    if (!key_find(context->tickets, seals ? NULL : name, &key))
        return 0;
    if (seals) {
        memcpy(name, key.name, KEY_NAME_LEN);
        if (RAND_bytes(iv, EVP_CIPHER_iv_length(EVP_aes_256_cbc())) != 1)
            return -1;
    }
    bool applied = key_apply(&key, iv, cipher, mac, seals);
    OPENSSL_cleanse(&key, sizeof key);
    if (!applied)
        return -1;
    return !seals && SSL_version(ssl) >= TLS1_3_VERSION ? 2 : 1;
}

void tickets_use(struct tickets *tickets, SSL_CTX *ssl)
{
    (void)SSL_CTX_set_timeout(ssl, (long)(tickets->lifetime_us / 1000000));
    CHECK(SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, on_ticket) == 1);
}
