#include "tests/sim/sim_peer.h"

#include "shared/check.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/number.h"
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

/* A connection whose greeting the test answers; in the program a session does it. */
struct greeting {
    struct sim_peer *peer;
    struct stream *stream;
};

static void greeting_ended(void *owner, int err)
{
    struct greeting *greeting = owner;
    (void)err;
    stream_abort(greeting->stream);
    free(greeting);
}

static size_t greeting_received(void *owner, struct block *block, const char *data, size_t len,
                                size_t *need)
{
    struct greeting *greeting = owner;
    struct stream *stream = greeting->stream;
    char bytes[PEER_IDENTITY_MAX];
    struct peer_identity identity;
    const char *error;
    (void)block;
    (void)need;
    if (!greeting->peer->set) /* sim_peer_stop: nothing is greeted any more */
        return len;
    const char protocol[] = {(char)('0' + PEER_PROTOCOL), 0};
    char words[32];
    (void)snprintf(words, sizeof words, "$4\r\nPEER\r\n$1\r\n%s\r\n$1\r\n", protocol);
    const char *at = memmem(data, len, words, 21);
    if (!at || data + len - at < 21 + 4)
        return 0;
    const char *size_at = at + 21 + 3; /* behind the shard's name of one letter */
    const char *end = memmem(size_at, len - (size_t)(size_at - data), "\r\n", 2);
    uint64_t size;
    if (!end ||
        !number_parse_uint64((struct bytes){size_at + 1, (size_t)(end - size_at - 1)}, &size) ||
        (size_t)(data + len - end) < size + 4)
        return 0;
    CHECK(peer_set_admit(greeting->peer->set, bytes_of(protocol), (struct bytes){at + 21, 1},
                         (struct bytes){end + 2, size}, &identity, &error));
    size_t written = peer_set_identity(greeting->peer->set, bytes);
    out_printf(stream_out(stream), "+OK\r\n$%zu\r\n", written);
    out_write(stream_out(stream), bytes, written);
    out_write(stream_out(stream), "\r\n", 2);
    stream_send(stream);
    peer_set_adopt_stream(greeting->peer->set, stream, &identity);
    free(greeting);
    return len;
}

static void peer_accepted(void *owner, struct stream *stream)
{
    static const struct stream_events events = {.on_data = greeting_received,
                                                .on_end = greeting_ended};
    struct greeting *greeting = calloc(1, sizeof *greeting);
    CHECK(greeting);
    *greeting = (struct greeting){.peer = owner, .stream = stream};
    stream_set_owner(stream, &events, greeting);
}

static struct listener *listen_at(struct sim_peer *peer)
{
    char error[64];
    const struct listen_options options = {.address = peer->address, .backlog = 16};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    return listener_new(peer->loop, fd, &options, peer_accepted, peer);
}

static uint64_t no_index(void *owner)
{
    (void)owner;
    return 1;
}

static struct peer_options with_timeouts(struct peer_options options)
{
    options.connect_timeout_ms = options.timeout_ms = 1000;
    options.ping_ms = 250;
    options.backoff_min_ms = 10;
    options.backoff_max_ms = 500;
    return options;
}

static void configure(struct sim_peer *peer, const struct sim_peer_options *options)
{
    char advertised[16];
    (void)snprintf(advertised, sizeof advertised, "relay-%s:1", options->name);
    const struct peer_config config = {.map = options->map,
                                       .old_shard = "",
                                       .address = advertised,
                                       .secret = "secret",
                                       .secret_previous = "",
                                       .options = with_timeouts(options->options)};
    peer_set_configure(peer->set, &config);
    sim_relays_add(options->relays, advertised, peer->address);
}

void sim_peer_start(struct sim_peer *peer, const struct sim_peer_options *options)
{
    sim_set_host(options->name);
    (void)snprintf(peer->address, sizeof peer->address, "%s:1", options->name);
    peer->loop = loop_new();
    peer->metrics = metrics_new();
    peer->listener = listen_at(peer);
    const struct peer_host host = {.loop = peer->loop,
                                   .metrics = peer->metrics,
                                   .links = options->links,
                                   .thread = options->index,
                                   .hybrid = &peer->hybrid,
                                   .run_id = "run",
                                   .version = "1",
                                   .current_index = no_index,
                                   .requests = options->requests,
                                   .owner = options->owner};
    peer->set = peer_set_new(&host);
    configure(peer, options);
}

void sim_peer_stop(struct sim_peer *peer)
{
    listener_free(peer->listener);
    peer_set_free(peer->set);
    peer->set = NULL;
}

void sim_peer_fini(struct sim_peer *peer)
{
    loop_free(peer->loop);
}
