#include "backend/peer/link.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/cluster_clock.h"
#include "backend/context/hybrid_clock.h"
#include "backend/peer/leaders.h"
#include "shared/backoff.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "shared/number.h"
#include "shared/table.h"
#include "shared/tls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static receive_fn link_received;
static void link_ended(void *owner, int err);
static void link_drained(void *owner);
static const struct stream_events link_events = {
    .on_data = link_received, .on_end = link_ended, .on_drain = link_drained};

size_t peer_self_encode(const struct peer_self *self, char to[PEER_IDENTITY_MAX])
{
    struct peer_identity identity = self->identity;
    identity.log_index = self->current_index(self->owner);
    identity.log_id = self->log_id ? *self->log_id : 0;
    identity.wall_us = clock_system_us();
    if (self->copies)
        self->copies(self->owner, &identity.copies);
    return peer_identity_write(&identity, to);
}

/* ---- requests ---- */

static struct bytes request_key(const uint64_t *id)
{
    return (struct bytes){(const char *)id, sizeof *id};
}

static void forget_request(struct peer_link *link, struct peer_request *request)
{
    CHECK(table_remove(link->by_id, request_key(&request->id)) == request);
    list_remove(&request->link);
    request->id = 0;
    metric_sub(link->self->metrics, METRIC_BACKEND_PEER_OUTSTANDING, 1);
}

static void lose_requests(struct peer_link *link)
{
    while (!list_empty(&link->requests)) {
        struct peer_request *request = container_of(link->requests.next, struct peer_request, link);
        forget_request(link, request);
        request->on_reply(request, PEER_LOST, (struct bytes){"", 0});
    }
}

static void write_frame(struct peer_link *link, uint8_t kind, uint64_t id, struct bytes payload)
{
    peer_frame_write(stream_out(link->stream),
                     &(struct peer_frame){.kind = kind,
                                          .id = id,
                                          .hybrid = hybrid_clock_now(link->self->hybrid),
                                          .payload = payload});
    stream_send(link->stream);
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_REQUESTS, 1);
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_BYTES_OUT,
               PEER_FRAME_HEADER_BYTES + payload.len);
}

static void send_frame(struct peer_link *link, struct peer_request *request, uint8_t kind,
                       struct bytes payload)
{
    request->id = ++link->last_id;
    list_push(&link->requests, &request->link);
    table_put(link->by_id, request_key(&request->id), request);
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_OUTSTANDING, 1);
    write_frame(link, kind, request->id, payload);
}

uint32_t peer_link_outstanding(const struct peer_link *link)
{
    return (uint32_t)table_count(link->by_id) - (link->status.id != 0);
}

static void report_over_limit(struct peer_link *link)
{
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_OVER_LIMIT, 1);
    if (link->was_over_limit)
        return;
    link->was_over_limit = true;
    log_event(LOG_WARN, "peer_over_limit",
              "shard=%s outstanding=%u requests_max=%u output_bytes=%zu peer_output_limit=%" PRIu64,
              link->shard, peer_link_outstanding(link), link->self->options.requests_max,
              stream_pending(link->stream), link->self->options.output_max);
}

static bool has_output_space(const struct peer_link *link, struct bytes payload)
{
    return stream_pending(link->stream) + PEER_FRAME_HEADER_BYTES + payload.len <=
           link->self->options.output_max;
}

enum peer_sent peer_link_post(struct peer_link *link, uint8_t kind, struct bytes payload)
{
    if (link->state != PEER_LINK_UP)
        return PEER_NOT_UP;
    if (payload.len > PEER_PAYLOAD_MAX || !has_output_space(link, payload)) {
        report_over_limit(link);
        return PEER_FULL;
    }
    write_frame(link, kind, ++link->last_id, payload);
    return PEER_SENT;
}

size_t peer_link_pending(const struct peer_link *link)
{
    return link->state == PEER_LINK_UP ? stream_pending(link->stream) : 0;
}

enum peer_sent peer_link_send(struct peer_link *link, struct peer_request *request, uint8_t kind,
                              struct bytes payload)
{
    const struct peer_options *options = &link->self->options;
    CHECK(payload.len <= PEER_PAYLOAD_MAX);
    CHECK(request->on_reply);
    if (link->state != PEER_LINK_UP)
        return PEER_NOT_UP;
    if (peer_link_outstanding(link) >= options->requests_max || !has_output_space(link, payload)) {
        report_over_limit(link);
        return PEER_FULL;
    }
    send_frame(link, request, kind, payload);
    return PEER_SENT;
}

void peer_link_cancel(struct peer_link *link, struct peer_request *request)
{
    forget_request(link, request);
}

void peer_link_note_listener(struct peer_link *link, bool listens, uint64_t order)
{
    if (order < link->listens_order)
        return;
    *link->self->listeners += listens;
    *link->self->listeners -= link->listens;
    link->listens = listens;
    link->listens_order = order;
}

/* What an identity says has no order: that the peer wants nothing may be older than its LISTEN. */
static void note_identity(struct peer_link *link)
{
    if (link->peer.listens)
        peer_link_note_listener(link, true, link->listens_order);
}

/* ---- going up and down ---- */

/* What was known of the copy at the address of before does not hold for the one at this. */
static void use_address(struct peer_link *link, const char *address)
{
    if (strcmp(link->address, address) == 0)
        return;
    free(link->address);
    link->address = strdup(address);
    CHECK(link->address);
    link->peer = (struct peer_identity){.copies = link->peer.copies}; /* these are the same */
    if (link->self->clock)
        cluster_clock_forget(link->self->clock, bytes_of(link->shard));
}

/* Each of several addresses is tried once without a wait. */
static void plan_connect(struct peer_link *link)
{
    const struct peer_self *self = link->self;
    unsigned addresses = self->leaders ? peer_leaders_addresses(self->leaders, link->shard) : 1;
    const char *next =
        addresses > 1 ? peer_leaders_at(self->leaders, link->shard, ++link->retry.turn % addresses)
                      : NULL;
    uint32_t rounds = next ? (link->retry.failures - 1) / addresses : link->retry.failures;
    link->retry.at_ms = loop_mono_ms(self->loop);
    if (rounds)
        link->retry.at_ms +=
            backoff_ms(rounds, self->options.backoff_min_ms, self->options.backoff_max_ms);
    if (next)
        use_address(link, next);
    link->retry.is_named = false;
}

static void set_cell(const struct peer_link *link, uint32_t word, uint64_t value)
{
    if (link->cell)
        cell_set(link->cell, word, value);
}

static void count_up(const struct peer_link *link, bool is_up)
{
    set_cell(link, LINK_IS_UP, is_up);
    if (link->self->counts_links && is_up)
        metric_add(link->self->metrics, METRIC_BACKEND_PEER_LINKS_UP, 1);
    else if (link->self->counts_links)
        metric_sub(link->self->metrics, METRIC_BACKEND_PEER_LINKS_UP, 1);
}

static void link_down(struct peer_link *link, const char *reason)
{
    bool is_first = link->retry.failures == 0;
    bool was_up = link->state == PEER_LINK_UP;
    if (was_up) {
        link->since_ms = loop_mono_ms(link->self->loop);
        count_up(link, false);
    }
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_FAILURES, 1);
    link->state = PEER_LINK_DOWN;
    link->retry.failures++;
    (void)snprintf(link->reason, sizeof link->reason, "%s", reason);
    stream_abort(link->stream);
    link->stream = NULL;
    log_event(is_first ? LOG_WARN : LOG_DEBUG, "peer_down",
              "shard=%s address=%s reason=" LOG_QUOTED, link->shard, link->address, reason);
    plan_connect(link);
    lose_requests(link);
    if (was_up && link->self->events.on_down)
        link->self->events.on_down(link->self->owner, link);
}

void peer_link_new_leader(struct peer_link *link, const char *address)
{
    bool is_elsewhere = address && strcasecmp(link->address, address) != 0; /* as in maps */
    link->listens_order = 0; /* of the leader before */
    if (link->state == PEER_LINK_UP || (is_elsewhere && link->state != PEER_LINK_DOWN))
        link_down(link, "the shard has a newer leader");
    if (!address || link->state != PEER_LINK_DOWN)
        return;
    use_address(link, address);
    link->retry.failures = 0;
    link->retry.at_ms = loop_mono_ms(link->self->loop);
}

/* Begins again at the same address; link_down goes on to the next one of the shard. */
static void connect_here_again(struct peer_link *link)
{
    char address[PEER_ADDRESS_MAX + 1];
    (void)snprintf(address, sizeof address, "%s", link->address);
    link_down(link, "the peer is there: its address is looked up again");
    link->retry.turn--;
    use_address(link, address);
}

void peer_link_hurry(struct peer_link *link)
{
    if (link->state == PEER_LINK_CONNECTING)
        connect_here_again(link);
    if (link->state == PEER_LINK_DOWN)
        link->retry.at_ms = loop_mono_ms(link->self->loop);
}

static void link_ended(void *owner, int err)
{
    struct peer_link *link = owner;
    link_down(link, err ? stream_error(link->stream, err) : "the peer closed the connection");
}

static void link_drained(void *owner)
{
    struct peer_link *link = owner;
    if (link->state == PEER_LINK_UP && link->self->events.on_drain)
        link->self->events.on_drain(link->self->owner, link);
}

/* The peer read its clock somewhere within the round trip of STATUS: in the middle, give or take half the round trip. */
static void hear_clock(struct peer_link *link)
{
    struct cluster_clock *clock = link->self->clock;
    uint64_t now_us = clock_mono_us();
    uint64_t half_us = (now_us - link->pinged_us) / 2;
    if (!clock || !link->peer.wall_us)
        return;
    cluster_clock_heard(clock, bytes_of(link->shard), link->peer.wall_us, now_us - half_us,
                        half_us);
}

static void status_replied(struct peer_request *request, enum peer_result result,
                           struct bytes payload)
{
    struct peer_link *link = container_of(request, struct peer_link, status);
    struct peer_identity identity;
    if (result != PEER_OK || !peer_identity_read(payload, &identity))
        return;
    if (peer_leadership_compare(&identity.leadership, &link->peer.leadership) != 0) {
        link_down(link, "the identity is not the one sent at the greeting");
        return;
    }
    link->peer = identity;
    note_identity(link);
    link->round_trip_us = clock_mono_us() - link->pinged_us;
    if (link->cell)
        cell_observe(link->cell, LINK_ROUND_TRIP_SECONDS, link->round_trip_us);
    hear_clock(link);
}

static void send_status(struct peer_link *link)
{
    char identity[PEER_IDENTITY_MAX];
    size_t len = peer_self_encode(link->self, identity);
    link->pinged_us = clock_mono_us();
    link->status.on_reply = status_replied;
    send_frame(link, &link->status, PEER_STATUS, (struct bytes){identity, len});
}

static void link_up(struct peer_link *link)
{
    CHECK(link->stream);
    link->state = PEER_LINK_UP;
    link->retry.failures = 0;
    link->was_over_limit = false;
    link->since_ms = loop_mono_ms(link->self->loop);
    link->connects++;
    note_identity(link);
    count_up(link, true);
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_CONNECTS, 1);
    log_event(LOG_INFO, "peer_up", "shard=%s address=%s run_id=%s", link->shard, link->address,
              link->peer.run_id);
    send_status(link);
    if (link->self->events.on_up)
        link->self->events.on_up(link->self->owner, link);
}

/* ---- greeting ---- */

static void write_greeting_word(struct out *out, struct bytes word)
{
    out_printf(out, "$%zu\r\n", word.len);
    out_write(out, word.data, word.len);
    out_write(out, "\r\n", 2);
}

static void send_auth(struct peer_link *link, const char *secret)
{
    struct out *out = stream_out(link->stream);
    out_printf(out, "*3\r\n");
    write_greeting_word(out, BYTES("SCREE"));
    write_greeting_word(out, BYTES("AUTH"));
    write_greeting_word(out, bytes_of(secret));
    link->greeting.auths_left++;
}

static void send_greeting(struct peer_link *link)
{
    char identity[PEER_IDENTITY_MAX];
    size_t len = peer_self_encode(link->self, identity);
    struct out *out = stream_out(link->stream);
    char protocol[16];
    (void)snprintf(protocol, sizeof protocol, "%d", PEER_PROTOCOL);
    if (*link->self->secret_previous)
        send_auth(link, link->self->secret_previous);
    send_auth(link, link->self->secret);
    out_printf(out, "*5\r\n");
    write_greeting_word(out, BYTES("SCREE"));
    write_greeting_word(out, bytes_of(link->self->word));
    write_greeting_word(out, bytes_of(protocol));
    write_greeting_word(out, bytes_of(link->shard));
    write_greeting_word(out, (struct bytes){identity, len});
    stream_send(link->stream);
}

static void link_opened(void *owner, int err)
{
    struct peer_link *link = owner;
    if (err) {
        link_down(link, stream_error(link->stream, err));
        return;
    }
    link->state = PEER_LINK_GREETING;
    link->greeting.auths_left = 0;
    link->greeting.is_admitted = false;
    silence_end(&link->silence, loop_mono_ms(link->self->loop));
    send_greeting(link);
}

/* Goes to the address that a copy has named; then the turn goes on. */
static void go_to_named(struct peer_link *link, const char *address)
{
    link->retry.turn--;
    link->retry.is_named = true;
    use_address(link, address);
}

/* Closes the connection; the reason is the peer's reply, e.g. an error. A copy that does not lead may have named the one that does. */
static void refuse_greeting(struct peer_link *link, struct bytes line)
{
    struct peer_leaders *leaders = link->self->leaders;
    const char *leader =
        leaders && !link->retry.is_named ? peer_leaders_named(leaders, link->shard, line) : NULL;
    char reason[PEER_REASON_MAX];
    size_t len = line.len < PEER_REASON_MAX - 1 ? line.len : PEER_REASON_MAX - 1;
    for (size_t i = 0; i < len; i++)
        reason[i] = (char)(line.data[i] < ' ' || line.data[i] > '~' ? '?' : line.data[i]);
    reason[len] = 0;
    link_down(link,
              len && *reason == '-'
                  ? reason + 1
                  : "the peer did not reply like a backend: check its address in the shard map");
    if (leader)
        go_to_named(link, leader);
}

/* Is the peer the newest leader of its shard that was heard? */
static bool is_newest(const struct peer_link *link)
{
    struct peer_leaders *leaders = link->self->leaders;
    return !leaders || peer_leaders_hear(leaders, &link->peer, link->address) != PEER_LEADER_OLDER;
}

/* Brings the link up if the identity names the shard that the map has at this address, and this shard has no newer leader. */
static void handle_identity(struct peer_link *link, struct bytes payload)
{
    char reason[PEER_REASON_MAX];
    if (!peer_identity_read(payload, &link->peer)) {
        link_down(link, "the peer's identity is not valid");
    } else if (strcmp(link->peer.shard, link->shard) != 0) {
        (void)snprintf(reason, sizeof reason,
                       "the peer is shard %s and not %s: check the shard maps", link->peer.shard,
                       link->shard);
        link_down(link, reason);
    } else if (!is_newest(link)) {
        link_down(link, "the peer does not lead its shard any more");
    } else {
        link_up(link);
    }
}

/* Handles one of the replies of the greeting: to SCREE AUTH, of which one must succeed, and to SCREE PEER. Returns the bytes used; 0: more bytes are needed, or the link went
 * down. */
static size_t handle_peer_greeting(struct peer_link *link, const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n", 2);
    struct bytes line = {data, end ? (size_t)(end - data) : len};
    uint64_t size;
    if (!end) {
        if (len >= PEER_REASON_MAX)
            refuse_greeting(link, line);
        return 0;
    }
    if (link->greeting.auths_left > 0) {
        link->greeting.is_admitted |= bytes_equal(line, BYTES("+OK"));
        link->greeting.auths_left--;
        if (link->greeting.is_admitted || link->greeting.auths_left > 0)
            return line.len + 2;
    }
    if (!link->greeting.is_admitted || line.len < 2 || *line.data != '$' ||
        !number_parse_uint64((struct bytes){line.data + 1, line.len - 1}, &size) ||
        size > PEER_IDENTITY_MAX) {
        refuse_greeting(link, line);
        return 0;
    }
    if (len < line.len + 2 + size + 2)
        return 0;
    handle_identity(link, (struct bytes){data + line.len + 2, size});
    return line.len + 2 + size + 2;
}

/* ---- replies ---- */

static void deliver_reply(struct peer_link *link, const struct peer_frame *frame)
{
    struct peer_request *request = table_get(link->by_id, request_key(&frame->id));
    if (!request)
        return;
    struct bytes payload = frame->payload;
    bool is_done = frame->kind == PEER_DONE;
    forget_request(link, request);
    request->refusal = is_done ? NOT_REFUSED : refusal_read(&payload);
    request->on_reply(request, is_done ? PEER_OK : PEER_REFUSED, payload);
}

static size_t handle_peer_reply(struct peer_link *link, const char *data, size_t len, size_t *need)
{
    struct peer_frame frame;
    size_t size;
    enum peer_decoded decoded = peer_frame_read(data, len, &frame, &size);
    if (decoded == PEER_FRAME_MORE) {
        *need = size;
        return 0;
    }
    if (decoded == PEER_FRAME_BAD || (frame.kind != PEER_DONE && frame.kind != PEER_FAILED)) {
        link_down(link, "the peer sent an invalid frame");
        return 0;
    }
    metric_add(link->self->metrics, METRIC_BACKEND_PEER_BYTES_IN, size);
    if (!hybrid_clock_hear(link->self->hybrid, frame.hybrid, loop_wall_us(link->self->loop))) {
        link_down(link, "the time in a frame of the peer is more than 100 years ahead");
        return 0;
    }
    deliver_reply(link, &frame);
    return size;
}

/* receive_fn */
static size_t link_received(void *owner, struct block *block, const char *data, size_t len,
                            size_t *need)
{
    struct peer_link *link = owner;
    const struct stream *stream = link->stream;
    size_t used = 0;
    (void)block;
    silence_end(&link->silence, loop_mono_ms(link->self->loop));
    while (used < len && link->stream == stream) {
        size_t size = link->state == PEER_LINK_UP
                          ? handle_peer_reply(link, data + used, len - used, need)
                          : handle_peer_greeting(link, data + used, len - used);
        if (size == 0)
            break;
        used += size;
    }
    return link->stream == stream ? used : len;
}

/* ---- create, tick, free ---- */

void peer_self_set_credentials(struct peer_self *self, const char *secret, const char *previous,
                               struct tls_context *tls)
{
    struct tls_context *old = self->tls;
    self->tls = tls ? tls_context_ref(tls) : NULL;
    tls_context_unref(old);
    free(self->secret);
    free(self->secret_previous);
    self->secret = strdup(secret);
    self->secret_previous = strdup(previous);
    CHECK(self->secret && self->secret_previous);
}

bool peer_self_has_credentials(const struct peer_self *self, const char *secret,
                               const char *previous, const struct tls_context *tls)
{
    return self->secret && strcmp(self->secret, secret) == 0 &&
           strcmp(self->secret_previous, previous) == 0 && self->tls == tls;
}

void peer_self_free_credentials(struct peer_self *self)
{
    tls_context_unref(self->tls);
    free(self->secret);
    free(self->secret_previous);
}

struct peer_link *peer_link_new(const struct peer_self *self, const char *shard,
                                const char *address, const char *label)
{
    struct peer_link *link = calloc(1, sizeof *link);
    CHECK(link);
    link->self = self;
    link->shard = strdup(shard);
    link->address = strdup(address);
    CHECK(link->shard && link->address);
    if (label)
        link->cell = labels_cell(self->links, bytes_of(label), self->thread);
    set_cell(link, LINK_COUNT, 1);
    if (self->counts_links)
        metric_add(self->metrics, METRIC_BACKEND_PEER_LINKS, 1);
    link->since_ms = loop_mono_ms(self->loop);
    link->by_id = table_new();
    list_init(&link->requests);
    list_init(&link->link);
    return link;
}

void peer_link_cut(struct peer_link *link)
{
    if (link->state == PEER_LINK_UP)
        count_up(link, false);
    link->state = PEER_LINK_DOWN;
    if (link->stream)
        stream_abort(link->stream);
    link->stream = NULL;
}

void peer_link_free(struct peer_link *link)
{
    peer_link_cut(link); /* first: on_reply may try to send again */
    set_cell(link, LINK_COUNT, 0);
    if (link->self->counts_links)
        metric_sub(link->self->metrics, METRIC_BACKEND_PEER_LINKS, 1);
    lose_requests(link);
    list_remove(&link->link);
    *link->self->listeners -= link->listens;
    if (link->self->clock)
        cluster_clock_forget(link->self->clock, bytes_of(link->shard));
    table_free(link->by_id);
    free(link->shard);
    free(link->address);
    free(link);
}

static bool link_uses_tls(const struct peer_link *link)
{
    return link->self->tls && !link->is_here && strncmp(link->address, "unix:", 5) != 0;
}

static void link_connect(struct peer_link *link)
{
    const struct peer_self *self = link->self;
    char here[sizeof "process:" + PEER_ADDRESS_MAX];
    (void)snprintf(here, sizeof here, "process:%s", link->address);
    link->state = PEER_LINK_CONNECTING;
    link->is_here = process_listener_exists(link->address);
    link->stream =
        stream_connect(self->loop, link->is_here ? here : link->address,
                       self->options.connect_timeout_ms, &link_events, link_opened, link);
    if (link_uses_tls(link))
        stream_secure(link->stream, self->tls, link->address);
}

void peer_link_tick(struct peer_link *link)
{
    const struct peer_options *options = &link->self->options;
    uint64_t now_ms = loop_mono_ms(link->self->loop);
    if (link->state == PEER_LINK_DOWN) {
        if (now_ms >= link->retry.at_ms)
            link_connect(link);
        return;
    }
    if (link->state == PEER_LINK_CONNECTING)
        return;
    if (silence_ms(&link->silence, now_ms, options->timeout_ms) > options->timeout_ms)
        link_down(link, "the peer sent nothing within the timeout");
    else if (link->state == PEER_LINK_UP && link->status.id == 0 &&
             now_ms >= link->pinged_us / 1000 + options->ping_ms)
        send_status(link);
}

int64_t peer_link_clock_skew_us(const struct peer_link *link)
{
    struct cluster_clock *clock = link->self->clock;
    return clock ? cluster_clock_skew_of(clock, bytes_of(link->shard)) : 0;
}

const char *peer_link_through(const struct peer_link *link)
{
    return link->is_here ? "memory" : link_uses_tls(link) ? "tls" : "tcp";
}

const char *peer_link_state_name(const struct peer_link *link)
{
    static const char *const names[] = {"down", "connecting", "greeting", "up"};
    return names[link->state];
}
