#include "backend/peer/peer_set.h"

#include "shared/byte_order.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/number.h"
#include "shared/tls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { PEERS_TICK_MS = 100, TICKS_A_SECOND = 10, INCOMING_MAX = 4 * SHARD_COUNT_MAX };

struct peer_set {
    struct peer_self self;
    struct peer_host host;
    struct timer *tick;
    uint32_t ticks;
    struct shard_map *map;        /* NULL: none */
    int shard;                    /* index of our shard in the map; -1: not in the map */
    bool is_elsewhere;            /* the map has our name at another address */
    struct peer_leaders *leaders; /* of other shards */
    /* of the last older leader that was not admitted */
    char refusal[PEER_REDIRECTION_MAX];
    /* for partitions of this process; NULL: closed */
    struct process_listener *listener;
    char *listens_at; /* its name */
    struct list links;
    struct list incoming;
    uint32_t links_count;
    uint32_t listeners;             /* links to shards that want PUBLISH */
    char *echoes[PEER_ECHOES_KEPT]; /* a ring; see peer_set_echoes */
    uint64_t echoes_count;          /* number of echoes so far */
};

/* ---- this partition in the map ---- */

/* The index of the shard that has the address, or -1. */
static int shard_of_address(const struct shard_map *map, const char *address)
{
    for (size_t i = 0; i < map->shard_count; i++)
        for (size_t n = 0; n < map->shards[i].address_count; n++)
            if (strcasecmp(map->shards[i].addresses[n], address) == 0)
                return (int)i;
    return -1;
}

const struct shard *peer_shard_at(const struct shard_map *map, const char *address)
{
    int shard = shard_of_address(map, address);
    return shard < 0 ? NULL : &map->shards[shard];
}

/* ---- leaders of other shards ---- */

/* What the new leader has sent is read from now on, and nothing any more that came from older ones. */
static void sort_incoming(struct peer_set *peers, const char *shard)
{
    for (struct list *at = peers->incoming.next; at != &peers->incoming; at = at->next) {
        struct peer_incoming *incoming = container_of(at, struct peer_incoming, link);
        if (strcmp(incoming->peer.shard, shard) != 0)
            continue;
        enum peer_leader_heard order = peer_leaders_compare(peers->leaders, &incoming->peer);
        if (order == PEER_LEADER_OLDER)
            incoming->is_broken = true;
        else if (order == PEER_LEADER_SAME)
            peer_incoming_release(incoming);
    }
}

/* on_newer of the leaders. May be called by the link to this shard, which then is on its way up and stays. */
static void follow_leader(void *owner, const char *shard)
{
    struct peer_set *peers = owner;
    struct peer_link *link = peer_set_find(peers, bytes_of(shard));
    const char *address = peer_leaders_address(peers->leaders, shard);
    log_event(LOG_INFO, "peer_leader", "shard=%s address=%s", shard, address ? address : "-");
    sort_incoming(peers, shard);
    if (link)
        peer_link_new_leader(link, address);
    if (peers->host.on_new_leader)
        peers->host.on_new_leader(peers->host.owner, shard);
}

const char *peer_set_leader(const struct peer_set *peers, const struct shard *shard)
{
    const char *known = peers ? peer_leaders_address(peers->leaders, shard->name) : NULL;
    return known ? known : shard->addresses[0];
}

/* ---- create and free ---- */

static void follow_leaving_shards(struct peer_set *peers);

static void peers_tick(void *owner)
{
    struct peer_set *peers = owner;
    struct list *next;
    for (struct list *link = peers->links.next; link != &peers->links; link = link->next)
        peer_link_tick(container_of(link, struct peer_link, link));
    for (struct list *link = peers->incoming.next; link != &peers->incoming; link = next) {
        next = link->next;
        peer_incoming_tick(container_of(link, struct peer_incoming, link));
    }
    if (++peers->ticks % TICKS_A_SECOND == 0)
        follow_leaving_shards(peers);
}

struct peer_set *peer_set_new(const struct peer_host *host)
{
    struct peer_set *peers = calloc(1, sizeof *peers);
    CHECK(peers);
    peers->host = *host;
    peers->shard = -1;
    peers->leaders = peer_leaders_new(follow_leader, peers);
    peers->self = (struct peer_self){.loop = host->loop,
                                     .word = "PEER",
                                     .metrics = host->metrics,
                                     .counts_links = true,
                                     .links = host->links,
                                     .thread = host->thread,
                                     .leaders = peers->leaders,
                                     .clock = host->clock,
                                     .hybrid = host->hybrid,
                                     .log_id = host->log_id,
                                     .current_index = host->current_index,
                                     .copies = host->copies,
                                     .requests = host->requests,
                                     .listeners = &peers->listeners,
                                     .owner = host->owner};
    list_init(&peers->links);
    list_init(&peers->incoming);
    return peers;
}

static void drop_link(struct peer_set *peers, struct peer_link *link)
{
    peer_link_free(link);
    peers->links_count--;
}

static void drop_links(struct peer_set *peers)
{
    while (!list_empty(&peers->links))
        drop_link(peers, container_of(peers->links.next, struct peer_link, link));
}

static void drop_incoming(struct peer_set *peers)
{
    while (!list_empty(&peers->incoming))
        peer_incoming_free(container_of(peers->incoming.next, struct peer_incoming, link));
}

void peer_set_cut(struct peer_set *peers)
{
    peer_set_stop_accepting(peers);
    timer_free(peers->tick);
    peers->tick = NULL;
    for (struct list *link = peers->links.next; link != &peers->links; link = link->next)
        peer_link_cut(container_of(link, struct peer_link, link));
    drop_incoming(peers);
}

void peer_set_free(struct peer_set *peers)
{
    if (!peers)
        return;
    peer_set_stop_accepting(peers);
    drop_links(peers);
    drop_incoming(peers);
    timer_free(peers->tick);
    peer_leaders_free(peers->leaders);
    shard_map_unref(peers->map);
    peer_self_free_credentials(&peers->self);
    for (int i = 0; i < PEER_ECHOES_KEPT; i++)
        free(peers->echoes[i]);
    free(peers);
}

/* ---- a new map or new settings ---- */

/* The shard that the partition was, and that the map has at another address; -1: none. */
static int shard_elsewhere(const struct peer_config *config, int shard)
{
    return config->map && shard < 0 ? shard_map_named(config->map, bytes_of(config->old_shard))
                                    : -1;
}

/* The partition's name: that of its shard in the map, or the one it had before, unless another address has it now. */
static const char *name_in(const struct peer_config *config, int shard)
{
    if (!config->map || shard_elsewhere(config, shard) >= 0)
        return "";
    return shard < 0 ? config->old_shard : config->map->shards[shard].name;
}

/* Logs that no shard has the partition's address, or that another address has its shard. */
static void report_address(const struct peer_config *config, int shard)
{
    int elsewhere = shard_elsewhere(config, shard);
    if (config->map && shard < 0)
        log_event(LOG_WARN, "peer_not_in_map", "address=%s epoch=%" PRIu64, config->address,
                  config->map->epoch);
    if (elsewhere >= 0)
        log_event(LOG_ERROR, "shard_elsewhere", "shard=%s address=%s map_address=%s",
                  config->old_shard, config->address, config->map->shards[elsewhere].addresses[0]);
}

static void set_identity(struct peer_set *peers, const struct peer_config *config)
{
    struct peer_identity *identity = &peers->self.identity;
    *identity = (struct peer_identity){.listens = identity->listens};
    (void)snprintf(identity->run_id, sizeof identity->run_id, "%s", peers->host.run_id);
    (void)snprintf(identity->version, sizeof identity->version, "%s", peers->host.version);
    (void)snprintf(identity->address, sizeof identity->address, "%s", config->address);
    identity->leadership = config->leadership;
    identity->port = config->port;
    identity->tls_port = config->tls_port;
    (void)snprintf(identity->shard, sizeof identity->shard, "%s", name_in(config, peers->shard));
    if (!peers->map)
        return;
    identity->map_epoch = peers->map->epoch;
    identity->map_hash = shard_map_hash(peers->map);
}

/* Does a setting change with which the links were made? */
static bool needs_new_links(const struct peer_set *peers, const struct peer_config *config,
                            int shard)
{
    return strcmp(peers->self.identity.shard, name_in(config, shard)) != 0 ||
           strcmp(peers->self.identity.address, config->address) != 0 ||
           peer_leadership_compare(&peers->self.identity.leadership, &config->leadership) != 0 ||
           !peer_self_has_credentials(&peers->self, config->secret, config->secret_previous,
                                      config->tls);
}

/* The identity of a connected shard, of its newest leader; NULL: it is not connected. */
static const struct peer_identity *incoming_of(const struct peer_set *peers, struct bytes shard)
{
    const struct peer_identity *newest = NULL;
    for (const struct list *at = peers->incoming.next; at != &peers->incoming; at = at->next) {
        const struct peer_incoming *incoming = container_of(at, struct peer_incoming, link);
        if (bytes_equal(bytes_of(incoming->peer.shard), shard) &&
            (!newest ||
             peer_leadership_compare(&incoming->peer.leadership, &newest->leadership) > 0))
            newest = &incoming->peer;
    }
    return newest;
}

/* Of a shard of the map: at an address of the map, or at one that a copy has named. */
static bool is_at_known_address(const struct peer_set *peers, const struct peer_link *link)
{
    for (unsigned i = 0; i < peer_leaders_addresses(peers->leaders, link->shard); i++)
        if (strcasecmp(peer_leaders_at(peers->leaders, link->shard, i), link->address) == 0)
            return true;
    return false;
}

/* Does the map have the shard at the link's address? Or is the shard connected, although the map does not have it? */
static bool is_link_wanted(const struct peer_set *peers, const struct peer_link *link)
{
    struct bytes name = bytes_of(link->shard);
    if (shard_map_named(peers->map, name) >= 0)
        return is_at_known_address(peers, link);
    const struct peer_identity *peer = incoming_of(peers, name);
    return peer && strcmp(peer->address, link->address) == 0;
}

static void add_peer_link(struct peer_set *peers, const char *shard, const char *address)
{
    struct peer_link *link = peer_link_new(&peers->self, shard, address, shard);
    list_push(&peers->links, &link->link);
    peers->links_count++;
}

/* A link at an address that nothing names any more. A shard of the map has another one from then on. */
static void replace_link(struct peer_set *peers, struct peer_link *link)
{
    int index = shard_map_named(peers->map, bytes_of(link->shard));
    const struct shard *shard = index >= 0 ? &peers->map->shards[index] : NULL;
    drop_link(peers, link);
    if (shard && index != peers->shard)
        add_peer_link(peers, shard->name, peer_set_leader(peers, shard));
}

/* Frees links to shards that moved, or are neither in the map nor connected. */
static void drop_old_links(struct peer_set *peers)
{
    struct list *next;
    for (struct list *at = peers->links.next; at != &peers->links; at = next) {
        struct peer_link *link = container_of(at, struct peer_link, link);
        next = at->next;
        if (!is_link_wanted(peers, link))
            replace_link(peers, link);
    }
}

static void add_new_links(struct peer_set *peers)
{
    for (size_t i = 0; i < peers->map->shard_count; i++) {
        const struct shard *shard = &peers->map->shards[i];
        if ((int)i == peers->shard || peer_set_find(peers, bytes_of(shard->name)))
            continue;
        add_peer_link(peers, shard->name, peer_set_leader(peers, shard));
    }
}

/* Links to connected shards that the map does not have: they are giving their slots away. */
static void follow_leaving_shards(struct peer_set *peers)
{
    drop_old_links(peers);
    for (const struct list *at = peers->incoming.next; at != &peers->incoming; at = at->next) {
        const struct peer_identity *peer = &container_of(at, struct peer_incoming, link)->peer;
        struct bytes name = bytes_of(peer->shard);
        if (strcmp(peer->shard, peers->self.identity.shard) == 0)
            continue; /* a copy of this shard */
        if (shard_map_named(peers->map, name) < 0 && !peer_set_find(peers, name))
            add_peer_link(peers, peer->shard, peer->address);
    }
}

void peer_set_stop_accepting(struct peer_set *peers)
{
    process_listener_free(peers->listener);
    free(peers->listens_at);
    peers->listener = NULL;
    peers->listens_at = NULL;
}

static void accept_here(struct peer_set *peers, bool accepts)
{
    const char *address = peers->self.identity.address;
    if (peers->listener && accepts && strcmp(peers->listens_at, address) == 0)
        return;
    peer_set_stop_accepting(peers);
    if (!accepts || !peers->host.on_accept)
        return;
    peers->listens_at = strdup(address);
    CHECK(peers->listens_at);
    peers->listener =
        process_listener_new(peers->host.loop, address, peers->host.on_accept, peers->host.owner);
}

/* The shard that the partition is in the map, or -1. */
static int find_own_shard(const struct peer_config *config)
{
    int shard = config->map ? shard_of_address(config->map, config->address) : -1;
    if (config->map && shard < 0 && config->is_leaving_group)
        return shard_map_named(config->map, bytes_of(config->old_shard));
    return shard;
}

void peer_set_configure(struct peer_set *peers, const struct peer_config *config)
{
    int shard = find_own_shard(config);
    bool has_name = *name_in(config, shard);
    if (!has_name || needs_new_links(peers, config, shard)) {
        drop_links(peers);
        drop_incoming(peers);
    }
    struct shard_map *old = peers->map;
    peer_leaders_configure(peers->leaders, config->map);
    peers->map = config->map ? shard_map_ref((struct shard_map *)config->map) : NULL;
    shard_map_unref(old);
    peers->shard = shard;
    peers->is_elsewhere = shard_elsewhere(config, shard) >= 0;
    peers->self.options = config->options;
    peer_self_set_credentials(&peers->self, config->secret, config->secret_previous, config->tls);
    set_identity(peers, config);
    report_address(config, shard);
    accept_here(peers, has_name && config->accepts_here);
    if (!has_name) {
        timer_free(peers->tick);
        peers->tick = NULL;
        return;
    }
    drop_old_links(peers);
    add_new_links(peers);
    if (!peers->tick) {
        peers->tick = timer_new(peers->host.loop, peers_tick, peers);
        timer_start(peers->tick, 1, PEERS_TICK_MS);
    }
}

void peer_set_close(struct peer_set *peers)
{
    peer_set_stop_accepting(peers);
    peers->self.identity.shard[0] = 0;
    drop_links(peers);
    drop_incoming(peers);
    timer_free(peers->tick);
    peers->tick = NULL;
}

const char *peer_set_shard(const struct peer_set *peers)
{
    return peers->self.identity.shard;
}

bool peer_set_is_elsewhere(const struct peer_set *peers)
{
    return peers->is_elsewhere;
}

const struct shard_map *peer_set_map(const struct peer_set *peers)
{
    return peers->map;
}

struct peer_link *peer_set_find(const struct peer_set *peers, struct bytes shard)
{
    for (struct list *at = peers->links.next; at != &peers->links; at = at->next) {
        struct peer_link *link = container_of(at, struct peer_link, link);
        if (bytes_equal(bytes_of(link->shard), shard))
            return link;
    }
    return NULL;
}

/* ---- peers that connect ---- */

static uint32_t count_incoming(const struct peer_set *peers)
{
    uint32_t count = 0;
    for (struct list *at = peers->incoming.next; at != &peers->incoming; at = at->next)
        count++;
    return count;
}

static const char other_protocol[] =
    "ERR this backend has another version of the protocol between backends: run the same version "
    "of Scree on all backends";

static const char other_shard[] = "ERR this backend belongs to another shard: check the shard maps";

static bool is_protocol(struct bytes text)
{
    int64_t number;
    return number_parse_int64(text, &number) && number == PEER_PROTOCOL;
}

const char *peer_refuse_at_copy(struct bytes protocol, struct bytes shard, const char *own,
                                const char *leader, char to[PEER_REDIRECTION_MAX])
{
    if (!is_protocol(protocol))
        return other_protocol;
    if (!bytes_equal(shard, bytes_of(own)))
        return other_shard;
    return peer_redirect(to, leader);
}

bool peer_admit_copy(const struct peer_identity *self, struct bytes protocol, struct bytes shard,
                     struct bytes identity, struct peer_identity *peer, const char **error)
{
    *error = NULL;
    if (!is_protocol(protocol))
        *error = other_protocol;
    else if (!bytes_equal(shard, bytes_of(self->shard)))
        *error = other_shard;
    else if (!peer_identity_read(identity, peer) || strcmp(peer->shard, self->shard) != 0)
        *error = "ERR the identity is not that of a copy of this shard";
    else if (strcasecmp(peer->address, self->address) == 0)
        *error = "ERR both copies have the same address: check advertise-host and advertise-port";
    return !*error;
}

/* The error of a peer that another one has succeeded as the leader of its shard. */
static const char *refuse_older(struct peer_set *peers, const struct peer_identity *peer)
{
    const char *leader = peer_leaders_address(peers->leaders, peer->shard);
    (void)snprintf(peers->refusal, sizeof peers->refusal, "ERR the shard has a newer leader, at %s",
                   leader ? leader : "-");
    return peers->refusal;
}

/* Only the address of a newer leader is asked about: an older map may have the shard elsewhere. */
static bool is_claim_known(const struct peer_set *peers, const struct peer_identity *peer)
{
    return peer_leaders_compare(peers->leaders, peer) != PEER_LEADER_NEWER ||
           peer_leaders_claimed(peers->leaders, peer);
}

bool peer_set_admit(struct peer_set *peers, struct bytes protocol, struct bytes shard,
                    struct bytes identity, struct peer_identity *peer, const char **error)
{
    *error = NULL;
    if (!is_protocol(protocol))
        *error = other_protocol;
    else if (!*peers->self.identity.shard)
        *error = "ERR this backend's address is not in its shard map: check advertise-host "
                 "and advertise-port";
    else if (!bytes_equal(shard, bytes_of(peers->self.identity.shard)))
        *error = other_shard;
    else if (!peer_identity_read(identity, peer) || !*peer->shard)
        *error = "ERR the identity is not valid";
    else if (strcmp(peer->shard, peers->self.identity.shard) == 0)
        *error = "ERR both backends have the same shard name: check the shard maps";
    else if (peer_leaders_compare(peers->leaders, peer) == PEER_LEADER_OLDER)
        *error = refuse_older(peers, peer);
    else if (!is_claim_known(peers, peer))
        *error = "ERR the shard map here does not have the address of this leader: reload it";
    else if (count_incoming(peers) >= INCOMING_MAX)
        *error = "ERR too many backends are connected";
    if (*error)
        metric_add(peers->host.metrics, METRIC_BACKEND_PEER_REFUSED, 1);
    return !*error;
}

size_t peer_set_identity(const struct peer_set *peers, char to[PEER_IDENTITY_MAX])
{
    return peer_self_encode(&peers->self, to);
}

/* Of a shard that connects again, what an earlier connection has brought must not be read behind what this one brings. */
static void break_held(const struct peer_set *peers, const char *shard)
{
    for (struct list *at = peers->incoming.next; at != &peers->incoming; at = at->next) {
        struct peer_incoming *incoming = container_of(at, struct peer_incoming, link);
        incoming->is_broken |= incoming->is_held && strcmp(incoming->peer.shard, shard) == 0;
    }
}

/* The link asks at the address whether the peer leads its shard. */
static void check_claim(struct peer_set *peers, struct peer_incoming *incoming)
{
    struct peer_link *link = peer_set_find(peers, bytes_of(incoming->peer.shard));
    break_held(peers, incoming->peer.shard);
    peer_incoming_hold(incoming);
    if (link)
        peer_link_new_leader(link, peer_leaders_claimed(peers->leaders, &incoming->peer));
}

void peer_set_adopt_stream(struct peer_set *peers, struct stream *stream,
                           const struct peer_identity *peer)
{
    struct peer_incoming *incoming =
        peer_incoming_new(&peers->self, stream, peer, &peers->incoming);
    struct peer_link *link = peer_set_find(peers, bytes_of(peer->shard));
    if (peer_leaders_compare(peers->leaders, peer) == PEER_LEADER_NEWER)
        check_claim(peers, incoming);
    else if (link && strcasecmp(link->address, peer->address) == 0)
        peer_link_hurry(link);
}

/* ---- echoes ---- */

struct echo_request {
    struct peer_request request;
    struct peer_set *peers;
};

static void echo_replied(struct peer_request *request, enum peer_result result,
                         struct bytes payload)
{
    static const char *const words[] = {
        [PEER_OK] = "ok ", [PEER_REFUSED] = "refused ", [PEER_LOST] = "lost"};
    struct echo_request *echo = container_of(request, struct echo_request, request);
    char **end = &echo->peers->echoes[echo->peers->echoes_count++ % PEER_ECHOES_KEPT];
    free(*end);
    CHECK(asprintf(end, "%s%.*s", words[result], (int)payload.len, payload.data) >= 0);
    free(echo);
}

const char *peer_set_echo(struct peer_set *peers, struct bytes shard, int64_t delay_ms,
                          struct bytes text)
{
    struct peer_link *link = peer_set_find(peers, shard);
    if (!link)
        return "ERR no such peer";
    if (text.len > PEER_PAYLOAD_MAX - PEER_ECHO_HEADER_BYTES || delay_ms < 0 ||
        delay_ms > UINT32_MAX)
        return "ERR the text or the delay is too long";
    struct echo_request *echo = calloc(1, sizeof *echo);
    char *payload = malloc(PEER_ECHO_HEADER_BYTES + text.len);
    CHECK(echo && payload);
    put_le32(payload, (uint32_t)delay_ms);
    memcpy(payload + PEER_ECHO_HEADER_BYTES, text.data, text.len);
    echo->peers = peers;
    echo->request.on_reply = echo_replied;
    enum peer_sent sent =
        peer_link_send(link, &echo->request, PEER_ECHO,
                       (struct bytes){payload, PEER_ECHO_HEADER_BYTES + text.len});
    free(payload);
    if (sent != PEER_SENT)
        free(echo);
    return sent == PEER_SENT   ? NULL
           : sent == PEER_FULL ? "ERR too many requests to this peer are outstanding"
                               : "ERR the peer is down";
}

int peer_set_echoes(const struct peer_set *peers, const char *ends[PEER_ECHOES_KEPT])
{
    uint64_t count = peers->echoes_count;
    uint64_t first = count > PEER_ECHOES_KEPT ? count - PEER_ECHOES_KEPT : 0;
    for (uint64_t i = first; i < count; i++)
        ends[i - first] = peers->echoes[i % PEER_ECHOES_KEPT];
    return (int)(count - first);
}

void peer_set_each(const struct peer_set *peers, peer_link_fn *on_link,
                   peer_incoming_fn *on_incoming, void *owner)
{
    for (struct list *at = peers->links.next; at != &peers->links; at = at->next)
        if (container_of(at, struct peer_link, link)->state == PEER_LINK_UP)
            on_link(owner, container_of(at, struct peer_link, link));
    for (struct list *at = peers->incoming.next; at != &peers->incoming; at = at->next)
        if (!container_of(at, struct peer_incoming, link)->is_broken)
            on_incoming(owner, container_of(at, struct peer_incoming, link));
}

uint32_t peer_set_links(const struct peer_set *peers)
{
    return peers->links_count;
}

void peer_set_each_link(struct peer_set *peers, peer_each_link_fn *fn, void *owner)
{
    for (struct list *at = peers->links.next; at != &peers->links; at = at->next)
        fn(owner, container_of(at, struct peer_link, link));
}

/* ---- shards that want PUBLISH ---- */

bool peer_set_listen(struct peer_set *peers, bool listens)
{
    bool is_new = peers->self.identity.listens != listens;
    peers->self.identity.listens = listens;
    return is_new;
}

void peer_set_note_listener(struct peer_set *peers, struct bytes shard, bool listens,
                            uint64_t order)
{
    struct peer_link *link = peer_set_find(peers, shard);
    if (link)
        peer_link_note_listener(link, listens, order);
}

uint32_t peer_set_listeners(const struct peer_set *peers)
{
    return peers->listeners;
}

uint32_t peer_set_post(struct peer_set *peers, uint8_t kind, struct bytes payload)
{
    uint32_t sent = 0;
    for (struct list *at = peers->links.next; at != &peers->links; at = at->next) {
        struct peer_link *link = container_of(at, struct peer_link, link);
        sent += link->listens && peer_link_post(link, kind, payload) == PEER_SENT;
    }
    return sent;
}

/* ---- INFO ---- */

static void print_link(const struct peer_set *peers, const struct peer_link *link, struct out *out)
{
    bool is_up = link->state == PEER_LINK_UP;
    out_printf(out,
               "peer_%s:address=%s,state=%s,outstanding=%u,output_bytes=%zu,connects=%" PRIu64
               ",failures=%u,through=%s,since_s=%" PRIu64,
               link->shard, link->address, peer_link_state_name(link), peer_link_outstanding(link),
               link->stream ? stream_pending(link->stream) : 0, link->connects,
               link->retry.failures, peer_link_through(link),
               (loop_mono_ms(peers->host.loop) - link->since_ms) / 1000);
    if (is_up)
        out_printf(out,
                   ",run_id=%s,version=%s,map_epoch=%" PRIu64 ",same_map=%s,log_index=%" PRIu64
                   ",last_heard_ms=%" PRIu64 ",round_trip_us=%" PRIu64 ",clock_skew_ms=%" PRId64
                   ",generation=%" PRIu32 ",term=%" PRIu64 "\r\n",
                   link->peer.run_id, link->peer.version, link->peer.map_epoch,
                   link->peer.map_hash == peers->self.identity.map_hash ? "yes" : "no",
                   link->peer.log_index, loop_mono_ms(peers->host.loop) - link->silence.heard_ms,
                   link->round_trip_us, peer_link_clock_skew_us(link) / 1000,
                   link->peer.leadership.generation, link->peer.leadership.term);
    else
        out_printf(out, ",reason=\"%s\"\r\n", link->reason);
}

void peer_set_print(const struct peer_set *peers, struct out *out)
{
    uint32_t up = 0;
    for (struct list *at = peers->links.next; at != &peers->links; at = at->next)
        up += container_of(at, struct peer_link, link)->state == PEER_LINK_UP;
    out_printf(out, "peers_map_epoch:%" PRIu64 "\r\n", peers->map ? peers->map->epoch : 0);
    out_printf(out, "peers_shard:%s\r\n", peers->self.identity.shard);
    out_printf(out, "peers_address:%s\r\n", peers->self.identity.address);
    out_printf(out, "peers_links:%u\r\n", peers->links_count);
    out_printf(out, "peers_links_up:%u\r\n", up);
    out_printf(out, "peers_incoming:%u\r\n", count_incoming(peers));
    for (struct list *at = peers->links.next; at != &peers->links; at = at->next)
        print_link(peers, container_of(at, struct peer_link, link), out);
}
