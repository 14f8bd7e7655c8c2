/*
 * fuzz_upstream.c - backends that reply with any bytes: the proxy keeps running, and each request of a client gets one
 * reply, in order.
 *
 *   honest client, curious client ──► proxy ──► 2 backends, whose bytes come from the input   (the world of sim.h)
 *
 * Input: 1 byte of options, then steps, each one byte and its arguments:
 *
 *   0x00 - 0x5f  the honest client sends REQUESTS[b]; its ECHOs are numbered
 *   0x60 - 0x7f  the curious client sends ODD_REQUESTS[b]
 *   0x80 - 0x9f  a backend's connection sends bytes of the input; the next byte is their number
 *   0xa0 - 0xdf  a backend's connection sends REPLIES[b]
 *   0xe0 - 0xef  a backend's connection is closed, or reset
 *   0xf0 - 0xfe  some time passes
 *   0xff         enough time passes for idle connections to be closed
 *
 * At the end time passes until all requests have timed out. By then the honest client must have one frame for each
 * request, and for every ECHO its own number; the curious client must have received only whole frames.
 */
#include "config/config.h"
#include "config/reload.h"
#include "proxy/run/proxy_run.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "shared/resp.h"
#include "tests/sim/sim_world.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BACKENDS = 2,
    CONNECTIONS_MAX = 16, /* of each backend; a further one is reset */
    PENDING_MAX = 4096,
    STEP_US = 3000,
    LONG_US = 40 * 1000 * 1000,
    ROUND_US = 200 * 1000,
    ROUNDS_MAX = 1000, /* a request may wait for another one, and each for its timeout */
    STEPS_MAX = 400,
    LINE_MAX_BYTES = 256
};

enum {
    HAS_SECRET = 1,
    IS_POLITE = 2
}; /* options; polite: the proxy's own commands get valid replies */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const char *const requests[] = {
    "ECHO %d",
    "GET a",
    "GET b",
    "SET a %d",
    "MGET a b c d",
    "MSET a 1 b 2",
    "DEL a b c",
    "EXISTS a b",
    "DBSIZE",
    "KEYS *",
    "SCAN 0",
    "SCAN 7 COUNT 3",
    "RANDOMKEY",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH a",
    "WATCH b",
    "UNWATCH",
    "BLPOP a 0.1",
    "BLPOP a{b} 0.1",
    "EVAL return(1) 1 a",
    "EVALSHA x 1 b",
    "SCRIPT LOAD x",
    "SCRIPT EXISTS x",
    "FLUSHALL",
    "INFO",
    "PUBLISH ch x",
    "SPUBLISH ch x",
    "SELECT 1",
    "SELECT 0",
    "XREAD BLOCK 50 STREAMS a 0",
    "PUBSUB CHANNELS",
    "PUBSUB NUMSUB ch",
    "SCREE HOTKEYS",
    "SCREE BIGKEYS",
    "LATENCY LATEST",
    "TIME",
    "OBJECT ENCODING a",
    "UNLINK a d",
    "TOUCH a b",
    "WAIT 0 50",
    "FUNCTION LIST",
    "MEMORY USAGE a",
    "LASTSAVE",
    "SLOWLOG GET",
    "CLIENT LIST",
    "SAVE",
    "CONFIG GET maxmemory",
    "KEYS x*",
};

static const char *const odd_requests[] = {
    "HELLO 3",     "HELLO 2", "SUBSCRIBE ch", "PSUBSCRIBE p*",      "SSUBSCRIBE sh",
    "UNSUBSCRIBE", "GET a",   "BLPOP b 0",    "CLIENT TRACKING on", "RESET",
    "MGET a b",    "MONITOR", "HGETALL b",    "CLIENT CACHING yes", "PUNSUBSCRIBE",
    "BLPOP a 0",   "MULTI",   "EXEC",
};

static const char *const replies[] = {
    "+OK\r\n",
    ":1\r\n",
    "$-1\r\n",
    "$1\r\nx\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    "-ERR no\r\n",
    "-NOSCRIPT x\r\n",
    "-MOVED 1 b:1\r\n",
    "+QUEUED\r\n",
    "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n",
    "*2\r\n$1\r\n9\r\n*0\r\n",
    "_\r\n",
    "%1\r\n+a\r\n:1\r\n",
    "~1\r\n:1\r\n",
    ",1.5\r\n",
    "#t\r\n",
    "(12\r\n",
    "=5\r\ntxt:x\r\n",
    "!3\r\nERR\r\n",
    ":-9223372036854775808\r\n",
    ":9223372036854775807\r\n",
    ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nx\r\n",
    ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n",
    ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n",
    ">2\r\n$10\r\ninvalidate\r\n_\r\n",
    ">0\r\n",
    ">1\r\n:1\r\n",
    "|1\r\n+k\r\n+v\r\n:1\r\n",
    "*1\r\n>1\r\n:1\r\n",
    "*1\r\n*1\r\n*1\r\n-ERR deep\r\n",
    "$3\r\nabc",
    "*3\r\n:1\r\n",
    "*2\r\n+OK\r\n-ERR in EXEC\r\n",
    "-\r\n",
    "+\r\n",
    "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
    "%0\r\n",
    "-EXECABORT no\r\n",
    "*1\r\n:1\r\n",
    "$0\r\n\r\n",
    ":x\r\n",
    "$5\r\nabc\r\n\r\n",
    "\r\n",
    /* a connection's first blocked command begins to wait, or gets its reply */
    ">1\r\n:4294967297\r\n",
    ">2\r\n:4294967297\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ">2\r\n:8589934593\r\n_\r\n", /* the connection's second blocked command gets this reply */
    ">2\r\n:4294967298\r\n*-1\r\n",
    ">2\r\n:-1\r\n:1\r\n",
    /* bounces (shared/bounce.h): one shard sends to the other, or to one that the map does not name */
    "!60\r\nBOUNCE 1 15495 15495 15495 2 0 1 1 0 0\na*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n",
    "!60\r\nBOUNCE 1 15495 15495 15495 3 0 1 1 0 0\nb*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n",
    "!60\r\nBOUNCE 1 3300 3300 3300 2 0 1 1 3 0\ncc:1*2\r\n$3\r\nGET\r\n$1\r\nb\r\n\r\n",
    "!96\r\nBOUNCE 1 15495 15495 15495 2 0 3 1 0 "
    "0\na*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$4\r\nEXEC\r\n\r\n",
    "!62\r\nBOUNCE 1 15495 15495 15495 2 0 1 1 0 0\na*2\r\n$5\r\nWATCH\r\n$1\r\na\r\n\r\n",
    "!82\r\nBOUNCE 1 15495 15495 15495 2 0 1 1 0 "
    "0\na*5\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n\r\n",
    ">2\r\n:4294967297\r\n!71\r\nBOUNCE 1 15495 15495 15495 2 0 1 1 0 "
    "0\na*3\r\n$5\r\nBLPOP\r\n$1\r\na\r\n$3\r\n0.1\r\n\r\n",
};

struct client {
    struct stream *stream;
    struct resp_skip skip;
    uint32_t expected[PENDING_MAX]; /* number of an ECHO; 0: any frame */
    uint32_t sent;
    uint32_t got;
    bool is_strict;
    bool has_ended;
};

struct connection {
    struct stream *stream; /* NULL: none */
    struct resp_scan scan;
};

struct backend {
    struct listener *listener;
    struct connection connections[CONNECTIONS_MAX];
};

static struct loop *backend_loop;
static struct loop *client_loop;
static struct proxy *proxy;
static struct backend backends[BACKENDS];
static struct client clients[2];
static unsigned options;

/* Writes to a stream come between two events, so this schedules a turn of its loop. */
static void flush(struct stream *stream, struct loop *loop)
{
    stream_send(stream);
    if (!sim_is_scheduled(&loop->turn))
        sim_schedule(&loop->turn, 0);
}

/* ---- backends --------------------------------------------------------------------------------- */

static void backend_write(struct connection *connection, struct bytes text)
{
    if (!connection->stream)
        return;
    out_write(stream_out(connection->stream), text.data, text.len);
    flush(connection->stream, backend_loop);
}

static bool word_is(const struct resp_scan *scan, const char *data, uint32_t i, const char *word)
{
    if (i >= scan->argc)
        return false;
    const char *at = resp_scan_base(scan, data) + scan->args[i].at;
    return bytes_equal((struct bytes){at, scan->args[i].len}, bytes_of(word));
}

/* Replies to the proxy's own requests, so that the input need not contain these replies. */
static void be_polite(struct connection *connection, const char *data)
{
    const struct resp_scan *scan = &connection->scan;
    if (word_is(scan, data, 1, "WAIT") || word_is(scan, data, 1, "UNBLOCK"))
        return; /* the reply, if any, carries a number */
    if (word_is(scan, data, 0, "SCREE") || word_is(scan, data, 0, "SELECT"))
        backend_write(connection, BYTES("+OK\r\n"));
    else if (word_is(scan, data, 0, "HELLO"))
        backend_write(connection, BYTES("%1\r\n$5\r\nproto\r\n:3\r\n"));
    else if (word_is(scan, data, 0, "CLIENT") && word_is(scan, data, 1, "ID"))
        backend_write(connection, BYTES(":5\r\n"));
}

static size_t on_request(void *owner, struct block *block, const char *data, size_t len,
                         size_t *need)
{
    static const struct resp_limits limits = {1 << 20, 1 << 20, 1 << 16, false};
    struct connection *connection = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_scan(&connection->scan, &limits, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = connection->scan.need;
            break;
        }
        if (options & IS_POLITE)
            be_polite(connection, data + used);
        used += connection->scan.size;
    }
    return used;
}

static void connection_close(struct connection *connection, void (*close)(struct stream *stream))
{
    if (connection->stream) {
        close(connection->stream);
        resp_scan_fini(&connection->scan);
    }
    connection->stream = NULL;
}

static void on_proxy_gone(void *owner, int err)
{
    (void)err;
    connection_close(owner, stream_abort);
}

static void on_accept(void *owner, struct stream *stream)
{
    static const struct stream_events events = {.on_data = on_request, .on_end = on_proxy_gone};
    struct backend *backend = owner;
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &backend->connections[i];
        if (connection->stream)
            continue;
        connection->stream = stream;
        resp_scan_init(&connection->scan);
        stream_set_owner(stream, &events, connection);
        return;
    }
    stream_abort(stream);
}

static void backends_start(void)
{
    char error[200];
    sim_set_host("backends");
    backend_loop = loop_new();
    for (int i = 0; i < BACKENDS; i++) {
        struct listen_options listen = {.address = i ? "b1:1" : "b0:1"};
        int fd = listen_bind(&listen, error, sizeof(error));
        CHECK(fd >= 0);
        backends[i].listener = listener_new(backend_loop, fd, &listen, on_accept, &backends[i]);
    }
}

/* ---- the proxy -------------------------------------------------------------------------------- */

static struct shard_map *make_map(void)
{
    struct shard_map *map = shard_map_new(1);
    unsigned taken;
    for (unsigned i = 0; i < BACKENDS; i++) {
        unsigned half = SLOT_COUNT / BACKENDS;
        int index = shard_map_add(map, bytes_of(i ? "s1" : "s0"));
        shard_map_add_address(map, index, bytes_of(i ? "b1:1" : "b0:1"));
        CHECK(shard_map_claim(map, index, i * half, i * half + half - 1, &taken));
    }
    return map;
}

static void proxy_begin(void)
{
    char text[500];
    char error[300];
    struct proxy_config config;
    const char *secret = options & HAS_SECRET ? "secret" : "";
    (void)snprintf(
        text, sizeof(text),
        "[proxy]\nlisten = p:1\nadmin =\nworkers = 1\nlog-level = error\nprotected-mode = no\n"
        "drain-timeout = 10ms\n[upstream]\nsecret = %s\ntimeout = 200ms\nbackoff-max = 100ms\n",
        secret);
    config_init_defaults(&config.head, &proxy_schema);
    CHECK(config_parse(&config.head, "p.ini", bytes_of(text), error, sizeof(error)));
    sim_set_host("proxy");
    struct loop *loop = loop_new();
    struct proxy_snapshot *snapshot = snapshot_make(&config, make_map(), error, sizeof(error));
    CHECK(snapshot);
    config_fini(&config.head);
    proxy = proxy_new(loop, snapshot);
    CHECK(proxy_start(proxy, error, sizeof(error)));
}

static bool has_stopped(void *owner)
{
    return ((struct loop *)owner)->is_stopped;
}

static void proxy_end(void)
{
    struct loop *loop = proxy->loop;
    proxy_stop(proxy);
    CHECK(sim_run_until(has_stopped, loop, 1000000));
    proxy_join(proxy);
    CHECK(proxy->clients == 0 && proxy->dedicated_connections == 0);
    proxy_free(proxy);
    loop_free(loop);
}

/* ---- clients ---------------------------------------------------------------------------------- */

static void check_frame(struct client *client, const char *data, size_t len)
{
    char want[64];
    CHECK(client->got < client->sent);
    uint32_t number = client->expected[client->got++];
    if (number == 0 || (len == 9 && memcmp(data, "+QUEUED\r\n", 9) == 0))
        return;
    int digits = snprintf(NULL, 0, "%u", number);
    int size = snprintf(want, sizeof(want), "$%d\r\n%u\r\n", digits, number);
    if (len != (size_t)size || memcmp(data, want, len) != 0) {
        (void)fprintf(stderr, "ECHO %u got %.*s", number, (int)len, data);
        CHECK(!"an ECHO has its own number");
    }
}

static size_t on_reply(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct client *client = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&client->skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = client->skip.need;
            break;
        }
        if (client->is_strict)
            check_frame(client, data + used, client->skip.size);
        used += client->skip.size;
    }
    return used;
}

static void on_closed(void *owner, int err)
{
    struct client *client = owner;
    (void)err;
    CHECK(!client->is_strict);
    client->has_ended = true;
    stream_abort(client->stream);
    client->stream = NULL;
}

static void on_open(void *owner, int err)
{
    (void)owner;
    CHECK(err == 0);
}

static void client_send(struct client *client, const char *format)
{
    char line[LINE_MAX_BYTES];
    if (client->has_ended || client->sent == PENDING_MAX)
        return;
    uint32_t number = client->sent + 1;
    client->expected[client->sent++] = strncmp(format, "ECHO", 4) == 0 ? number : 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int len = snprintf(line, sizeof(line), format, number);
#pragma GCC diagnostic pop
    out_write(stream_out(client->stream), line, (size_t)len);
    out_write(stream_out(client->stream), "\r\n", 2);
    flush(client->stream, client_loop);
}

static void clients_start(void)
{
    static const struct stream_events events = {.on_data = on_reply, .on_end = on_closed};
    sim_set_host("clients");
    client_loop = loop_new();
    for (int i = 0; i < 2; i++) {
        memset(&clients[i], 0, sizeof(clients[i]));
        clients[i].is_strict = i == 0;
        clients[i].stream = stream_connect(client_loop, "p:1", 1000, &events, on_open, &clients[i]);
    }
    sim_run_for(STEP_US);
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* The connection of a step: the one with the number of the byte's lowest bits, or the next open one. */
static struct connection *choose(uint8_t step)
{
    struct backend *backend = &backends[step & 1];
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &backend->connections[((step >> 1) + i) % CONNECTIONS_MAX];
        if (connection->stream)
            return connection;
    }
    return &backend->connections[0];
}

/* Runs a step; takes its arguments from *input. */
static void run_step(uint8_t step, struct bytes *input)
{
    if (step < 0x60) {
        client_send(&clients[0], requests[step % (sizeof(requests) / sizeof(*requests))]);
    } else if (step < 0x80) {
        client_send(&clients[1],
                    odd_requests[step % (sizeof(odd_requests) / sizeof(*odd_requests))]);
    } else if (step < 0xa0) {
        size_t len = input->len ? (uint8_t)input->data[0] + 1u : 0;
        len = len > input->len ? input->len : len;
        backend_write(choose(step), (struct bytes){input->data, len});
        *input = (struct bytes){input->data + len, input->len - len};
    } else if (step < 0xe0) {
        uint8_t who = input->len ? (uint8_t)input->data[0] : 0;
        const char *reply = replies[(step - 0xa0u) % (sizeof(replies) / sizeof(*replies))];
        backend_write(choose(who), bytes_of(reply));
        *input = (struct bytes){input->data + (input->len > 0), input->len - (input->len > 0)};
    } else if (step < 0xf0) {
        connection_close(choose(step), step & 8 ? stream_abort : stream_close);
    } else {
        sim_run_for(step == 0xff ? LONG_US : STEP_US << (step & 7));
    }
}

static void end_all(void)
{
    for (int i = 0; i < 2; i++) {
        if (clients[i].stream)
            stream_abort(clients[i].stream);
    }
    proxy_end();
    for (int i = 0; i < BACKENDS; i++) {
        for (int j = 0; j < CONNECTIONS_MAX; j++)
            connection_close(&backends[i].connections[j], stream_abort);
        listener_free(backends[i].listener);
    }
    loop_free(client_loop);
    loop_free(backend_loop);
    sim_fini();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    if (size < 2)
        return 0;
    if (!is_ready) {
        command_init();
        (void)log_set_file("/dev/null");
    }
    is_ready = true;
    struct bytes input = {(const char *)data + 1, size - 1};
    options = data[0];
    sim_init(data[0] >> 2);
    backends_start();
    proxy_begin();
    clients_start();
    for (int i = 0; i < STEPS_MAX && input.len > 0; i++) {
        uint8_t step = (uint8_t)input.data[0];
        input = (struct bytes){input.data + 1, input.len - 1};
        run_step(step, &input);
        if (step & 1)
            sim_run_for(STEP_US);
    }
    for (int i = 0; i < ROUNDS_MAX && clients[0].got < clients[0].sent; i++)
        sim_run_for(ROUND_US);
    CHECK(clients[0].got == clients[0].sent);
    end_all();
    return 0;
}
