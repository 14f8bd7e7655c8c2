#include "tests/sim/sim_peer.h"

#include "shared/check.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_greeting.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_open(void *owner)
{
    const struct sim_peer *peer = owner;
    return peer->set != NULL;
}

static bool admit_peer(void *owner, struct bytes protocol, struct bytes shard,
                       struct bytes identity, struct peer_identity *peer, const char **error)
{
    struct sim_peer *self = owner;
    if (self->leader) {
        *error = peer_refuse_at_copy(protocol, shard, self->shard, self->leader, self->redirect);
        return false;
    }
    return peer_set_admit(self->set, protocol, shard, identity, peer, error);
}

static size_t write_identity(void *owner, char to[PEER_IDENTITY_MAX])
{
    const struct sim_peer *peer = owner;
    return peer_set_identity(peer->set, to);
}

static void adopt_peer(void *owner, struct stream *stream, const struct peer_identity *identity)
{
    const struct sim_peer *peer = owner;
    peer_set_adopt_stream(peer->set, stream, identity);
}

static void peer_accepted(void *owner, struct stream *stream)
{
    static const struct sim_greeter greeter = {.word = "PEER",
                                               .is_open = is_open,
                                               .admit = admit_peer,
                                               .identity = write_identity,
                                               .adopt = adopt_peer};
    sim_greet(&greeter, stream, owner);
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

void sim_peer_lead(struct sim_peer *peer, const struct sim_peer_options *options,
                   const struct peer_leadership *leadership)
{
    char advertised[16];
    (void)snprintf(advertised, sizeof advertised, "relay-%s:1", options->name);
    const struct peer_config config = {.map = options->map,
                                       .old_shard = "",
                                       .address = advertised,
                                       .leadership = *leadership,
                                       .secret = "secret",
                                       .secret_previous = "",
                                       .options = with_timeouts(options->options)};
    peer->leader = NULL;
    peer_set_configure(peer->set, &config);
}

void sim_peer_follow(struct sim_peer *peer, const char *leader)
{
    peer->leader = leader;
    peer_set_close(peer->set);
}

/* Its relay, and its place in the map. */
static void find_place(struct sim_peer *peer, const struct sim_peer_options *options)
{
    char advertised[16];
    (void)snprintf(advertised, sizeof advertised, "relay-%s:1", options->name);
    const struct shard *shard = peer_shard_at(options->map, advertised);
    CHECK(shard);
    peer->shard = shard->name;
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
    find_place(peer, options);
    peer->leader = "";
    if (!options->is_copy)
        sim_peer_lead(peer, options, &(struct peer_leadership){0});
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
