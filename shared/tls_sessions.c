/*
 * tls_sessions.c - sessions that a client can resume: the newest session of each peer.
 *
 *   a peer's ticket ─► on_session: a copy replaces the previous session
 *   a new connection ─► sessions_resume: resumes a copy; no certificates, no signatures
 *
 * We use copies, because OpenSSL marks a session as not resumable when its connection breaks. A ticket may be sent
 * more than once: an eavesdropper can then see that two connections have the same client and server, but the
 * addresses show this too.
 *
 * Sessions are stored in memory only and freed with the context, so a change of certificates or authorities drops
 * them: a resumed handshake does not verify certificates. They are stored by address, so a session is used for its
 * own peer only.
 */
#include "shared/check.h"
#include "shared/table.h"
#include "shared/tls_openssl.h"

#include <pthread.h>
#include <stdlib.h>

enum { PEERS_MAX = 4096 }; /* addresses; when there are more, all sessions are dropped */

struct sessions {
    pthread_mutex_t lock;
    struct table *by_peer; /* SSL_SESSION by address */
};

struct sessions *sessions_new(void)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    CHECK(sessions);
    CHECK(pthread_mutex_init(&sessions->lock, NULL) == 0);
    sessions->by_peer = table_new();
    return sessions;
}

static void free_sessions(struct sessions *sessions)
{
    struct bytes peer;
    void *session;
    for (size_t cursor = 0; table_next(sessions->by_peer, &cursor, &peer, &session);)
        SSL_SESSION_free(session);
    table_free(sessions->by_peer);
}

void sessions_free(struct sessions *sessions)
{
    if (!sessions)
        return;
    free_sessions(sessions);
    (void)pthread_mutex_destroy(&sessions->lock);
    free(sessions);
}

/* Stores the session and owns its reference. */
static void sessions_put(struct sessions *sessions, const char *peer, SSL_SESSION *session)
{
    CHECK(pthread_mutex_lock(&sessions->lock) == 0);
    if (table_count(sessions->by_peer) >= PEERS_MAX) {
        free_sessions(sessions);
        sessions->by_peer = table_new();
    }
    SSL_SESSION *before = table_put(sessions->by_peer, bytes_of(peer), session);
    CHECK(pthread_mutex_unlock(&sessions->lock) == 0);
    SSL_SESSION_free(before);
}

/* Returns 0 to OpenSSL: we do not keep the original. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const char *peer = SSL_get_app_data(ssl);
    SSL_SESSION *copy = SSL_SESSION_is_resumable(session) ? SSL_SESSION_dup(session) : NULL;
    if (copy)
        sessions_put(context->sessions, peer, copy);
    return 0;
}

void sessions_use(SSL_CTX *ssl)
{
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ssl, on_session);
}

void sessions_resume(struct sessions *sessions, SSL *ssl, const char *peer)
{
    CHECK(pthread_mutex_lock(&sessions->lock) == 0);
    SSL_SESSION *kept = table_get(sessions->by_peer, bytes_of(peer));
    SSL_SESSION *copy = kept ? SSL_SESSION_dup(kept) : NULL;
    CHECK(pthread_mutex_unlock(&sessions->lock) == 0);
    if (copy)
        CHECK(SSL_set_session(ssl, copy) == 1);
    SSL_SESSION_free(copy);
}
