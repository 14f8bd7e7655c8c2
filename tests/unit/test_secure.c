/*
 * test_secure.c - many handshakes on one loop: each turn does a few of them, and serves other connections in between.
 *
 *   PEERS sockets, each with a hello in it ──► listener with TLS ┐
 *                                                                ├ one loop, measured at the end of each turn
 *   one plain stream to an echo, a message back and forth ──────►┘
 */
#include "shared/check.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/tls.h"
#include "tests/unit/await.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PEERS = 60,
    STEPS_MAX = 4, /* handshake steps in a turn, as in secure_uv.c */
    CONNECT_MS = 10000,
};

static char folder[] = "/tmp/scree-secure-XXXXXX";
static struct tls_context *server_context;
static struct tls_context *client_context;
static struct loop *loop;
static struct await await;
static struct stream *accepted[PEERS];
static int accepted_count;
static struct stream *player;
static struct stream *echo;
static int returns; /* messages that `echo` sent back to `player` */

/* A client whose handshake the test does by hand. */
struct peer {
    struct tls *tls;
    int fd;
    bool is_answered;
};

static struct peer peers[PEERS];
static int answered_count;
static int turns;
static int most_in_a_turn;

/* ---- contexts ---- */

static struct tls_context *context_of(bool is_client)
{
    char cert[64];
    char key[64];
    char error[256];
    (void)snprintf(cert, sizeof cert, "%s/crt", folder);
    (void)snprintf(key, sizeof key, "%s/key", folder);
    const struct tls_options options = {
        .is_client = is_client,
        .section = "",
        .cert_file = cert,
        .key_file = key,
        .key_file_pass = "",
        .ca_cert_file = cert,
        .protocols = "",
        .ciphers = "",
        .ciphersuites = "",
        .ticket_lifetime_s = 300,
        .server_name = "",
    };
    struct tls_context *context = tls_context_new(&options, error, sizeof error);
    CHECK(context);
    return context;
}

static void make_certificate(void)
{
    char command[512];
    CHECK(mkdtemp(folder));
    (void)snprintf(command, sizeof command,
                   "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                   "-days 2 -subj /CN=server -keyout %s/key -out %s/crt 2>/dev/null",
                   folder, folder);
    CHECK(system(command) == 0);
    server_context = context_of(false);
    client_context = context_of(true);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

/* ---- the echoed message ---- */

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct stream **own = owner;
    (void)block;
    (void)need;
    out_write(stream_out(*own), data, len);
    stream_send(*own);
    returns += own == &player;
    return len;
}

static void on_end(void *owner, int err)
{
    (void)owner;
    CHECK(err == 0);
}

static const struct stream_events events = {on_data, on_end, NULL};

static void on_open(void *owner, int err)
{
    (void)owner;
    CHECK(err == 0);
}

static void on_echo_accept(void *owner, struct stream *stream)
{
    echo = stream;
    stream_set_owner(stream, &events, owner);
}

/* ---- the handshakes ---- */

static void on_secure_accept(void *owner, struct stream *stream)
{
    (void)owner;
    CHECK(accepted_count < PEERS);
    accepted[accepted_count] = stream;
    stream_set_owner(stream, &events, &accepted[accepted_count++]);
}

static struct tls_context *tls_of(void *owner)
{
    (void)owner;
    return server_context;
}

static void send_all(struct peer *peer)
{
    char bytes[16 * 1024];
    size_t len = tls_pending(peer->tls);
    CHECK(len > 0 && len <= sizeof bytes);
    out_copy(tls_out(peer->tls), bytes);
    out_consume(tls_out(peer->tls), len);
    CHECK(write(peer->fd, bytes, len) == (ssize_t)len);
}

static void peer_start(struct peer *peer, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer->fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(peer->fd >= 0 && connect(peer->fd, (struct sockaddr *)&at, sizeof at) == 0);
    peer->tls = tls_new(client_context, "", "");
    CHECK(tls_handshake(peer->tls) == TLS_MORE);
    send_all(peer);
}

static bool is_readable(const struct peer *peer)
{
    struct pollfd entry = {.fd = peer->fd, .events = POLLIN};
    return poll(&entry, 1, 0) == 1;
}

/* At the end of each turn: counts the handshakes that were answered in it. */
static bool all_are_answered(void *owner)
{
    int before = answered_count;
    (void)owner;
    for (int i = 0; i < PEERS; i++) {
        if (!peers[i].is_answered && is_readable(&peers[i])) {
            peers[i].is_answered = true;
            answered_count++;
        }
    }
    turns++;
    if (answered_count - before > most_in_a_turn)
        most_in_a_turn = answered_count - before;
    return answered_count == PEERS;
}

static void peer_finish(struct peer *peer)
{
    char bytes[16 * 1024];
    ssize_t got = read(peer->fd, bytes, sizeof bytes);
    CHECK(got > 0);
    tls_feed(peer->tls, bytes, (size_t)got);
    CHECK(tls_handshake(peer->tls) == TLS_DONE);
    tls_keep(peer->tls);
    send_all(peer);
}

static bool all_are_accepted(void *owner)
{
    (void)owner;
    return accepted_count == PEERS;
}

/* ---- the test ---- */

static struct listener *listen_on(char address[128], accept_fn *on_accept, void *owner)
{
    char error[128];
    const struct listen_options options = {.address = "127.0.0.1:0", .backlog = PEERS};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    listen_address(fd, address, 128);
    return listener_new(loop, fd, &options, on_accept, owner);
}

static bool has_begun(void *owner)
{
    (void)owner;
    return returns > 0;
}

static void test_a_turn_does_few_handshakes_and_others_are_served_between(void)
{
    char plain_address[128];
    char secure_address[128];
    struct listener *plain = listen_on(plain_address, on_echo_accept, &echo);
    struct listener *secure = listen_on(secure_address, on_secure_accept, NULL);
    listener_secure(secure, tls_of, CONNECT_MS);
    player = stream_connect(loop, plain_address, CONNECT_MS, &events, on_open, &player);
    out_printf(stream_out(player), "ball");
    CHECK(await_until(&await, has_begun, NULL));

    uint16_t port = (uint16_t)strtoul(strrchr(secure_address, ':') + 1, NULL, 10);
    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i], port);
    int returns_before = returns;
    CHECK(await_until(&await, all_are_answered, NULL));
    CHECK(most_in_a_turn <= STEPS_MAX);
    CHECK(turns > PEERS / STEPS_MAX);
    CHECK(returns - returns_before >= PEERS / STEPS_MAX / 4); /* back and forth takes two turns */

    for (int i = 0; i < PEERS; i++)
        peer_finish(&peers[i]);
    CHECK(await_until(&await, all_are_accepted, NULL));
    for (int i = 0; i < PEERS; i++) {
        stream_abort(accepted[i]);
        tls_free(peers[i].tls);
        CHECK(close(peers[i].fd) == 0);
    }
    stream_abort(player);
    stream_abort(echo);
    listener_free(plain);
    listener_free(secure);
}

int main(void)
{
    make_certificate();
    loop = loop_new();
    await_init(&await, loop);
    test_a_turn_does_few_handshakes_and_others_are_served_between();
    loop_free(loop);
    tls_context_unref(server_context);
    tls_context_unref(client_context);
    return 0;
}
