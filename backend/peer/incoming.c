#include "backend/peer/incoming.h"

#include "backend/context/hybrid_clock.h"
#include "backend/peer/messages.h"
#include "shared/byte_order.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ECHO_DELAY_MS_MAX = 60 * 1000, SILENCE_FACTOR = 3 };

static receive_fn incoming_received;
static void incoming_ended(void *owner, int err);
static void incoming_drained(void *owner);
static const struct stream_events incoming_events = {
    .on_data = incoming_received, .on_end = incoming_ended, .on_drain = incoming_drained};

/* ---- replies ---- */

static void reply(struct peer_incoming *incoming, uint8_t kind, uint64_t id, struct bytes payload)
{
    if (incoming->is_broken)
        return;
    size_t pending = stream_pending(incoming->stream) + PEER_FRAME_HEADER_BYTES + payload.len;
    if (pending > incoming->self->options.output_max) {
        log_event(LOG_WARN, "peer_disconnected",
                  "shard=%s reason=\"the peer does not read its replies\"", incoming->peer.shard);
        incoming->is_broken = true;
        return;
    }
    peer_frame_write(stream_out(incoming->stream),
                     &(struct peer_frame){.kind = kind,
                                          .id = id,
                                          .hybrid = hybrid_clock_now(incoming->self->hybrid),
                                          .payload = payload});
    stream_send(incoming->stream);
    metric_add(incoming->self->metrics, METRIC_BACKEND_PEER_BYTES_OUT,
               PEER_FRAME_HEADER_BYTES + payload.len);
    if (pending > STREAM_HIGH_WATER)
        stream_pause(incoming->stream);
}

void peer_incoming_done(struct peer_incoming *incoming, uint64_t id, struct bytes payload)
{
    reply(incoming, PEER_DONE, id, payload);
}

void peer_incoming_refuse(struct peer_incoming *incoming, uint64_t id, struct refusal refusal)
{
    char payload[REFUSAL_BYTES_MAX];
    size_t len = refusal_write(refusal, payload);
    reply(incoming, PEER_FAILED, id, (struct bytes){payload, len});
}

void peer_call_open(struct peer_call *call, struct peer_incoming *incoming, uint64_t id,
                    size_t bytes)
{
    call->incoming = incoming;
    call->id = id;
    call->bytes = bytes;
    incoming->calls_count++;
    incoming->calls_bytes += bytes;
    list_push(&incoming->calls, &call->link);
}

static void close_call(struct peer_call *call)
{
    call->incoming->calls_count--;
    call->incoming->calls_bytes -= call->bytes;
    list_remove(&call->link);
}

void peer_call_done(struct peer_call *call, struct bytes payload)
{
    close_call(call);
    peer_incoming_done(call->incoming, call->id, payload);
}

void peer_call_refuse(struct peer_call *call, struct refusal refusal)
{
    close_call(call);
    peer_incoming_refuse(call->incoming, call->id, refusal);
}

/* ---- requests of the connection itself ---- */

static bool is_same_peer(const struct peer_incoming *incoming, const struct peer_identity *peer)
{
    return strcmp(peer->shard, incoming->peer.shard) == 0 &&
           peer_leadership_compare(&peer->leadership, &incoming->peer.leadership) == 0;
}

static void handle_status(struct peer_incoming *incoming, uint64_t id, struct bytes payload)
{
    struct peer_identity peer;
    char identity[PEER_IDENTITY_MAX];
    if (!peer_identity_read(payload, &peer) || !is_same_peer(incoming, &peer)) {
        peer_incoming_refuse(incoming, id,
                             REFUSAL(OTHER, "the identity is not the one sent at the greeting"));
        return;
    }
    incoming->peer = peer;
    size_t len = peer_self_encode(incoming->self, identity);
    peer_incoming_done(incoming, id, (struct bytes){identity, len});
}

struct echo {
    struct peer_call call;
    struct timer *timer;
    size_t len;
    char text[];
};

static void free_echo(struct echo *echo)
{
    timer_free(echo->timer);
    free(echo);
}

static void echo_abandoned(struct peer_call *call)
{
    free_echo(container_of(call, struct echo, call));
}

static void echo_due(void *owner)
{
    struct echo *echo = owner;
    peer_call_done(&echo->call, (struct bytes){echo->text, echo->len});
    free_echo(echo);
}

static void handle_echo(struct peer_incoming *incoming, uint64_t id, struct bytes payload)
{
    uint32_t delay_ms = payload.len < PEER_ECHO_HEADER_BYTES ? UINT32_MAX : get_le32(payload.data);
    if (delay_ms > ECHO_DELAY_MS_MAX) {
        peer_incoming_refuse(incoming, id, REFUSAL(OTHER, "the delay must be at most 60000 ms"));
        return;
    }
    size_t len = payload.len - PEER_ECHO_HEADER_BYTES;
    struct echo *echo = malloc(sizeof *echo + len);
    CHECK(echo);
    echo->call.on_abandoned = echo_abandoned;
    echo->timer = timer_new(incoming->self->loop, echo_due, echo);
    echo->len = len;
    memcpy(echo->text, payload.data + PEER_ECHO_HEADER_BYTES, len);
    peer_call_open(&echo->call, incoming, id, payload.len);
    timer_start(echo->timer, delay_ms, 0);
}

/* ---- requests ---- */

/* Is this the request's first delivery? If that is unknown, the connection is marked as broken. */
static bool is_first_time(struct peer_incoming *incoming, uint64_t id)
{
    enum peer_id_seen seen = peer_id_window_add(&incoming->ids, id);
    if (seen == PEER_ID_SEEN)
        metric_add(incoming->self->metrics, METRIC_BACKEND_PEER_DUPLICATES, 1);
    if (seen == PEER_ID_TOO_OLD) {
        log_event(LOG_WARN, "peer_disconnected",
                  "shard=%s reason=\"a request id is too old to be checked for duplicates\"",
                  incoming->peer.shard);
        incoming->is_broken = true;
    }
    return seen == PEER_ID_NEW;
}

static bool exceeds_limits(const struct peer_incoming *incoming, const struct peer_frame *frame)
{
    const struct peer_options *options = &incoming->self->options;
    return incoming->calls_count >= options->requests_max ||
           incoming->calls_bytes + frame->payload.len > options->output_max;
}

/* Refuses a request that exceeds the limit of open requests. */
static struct refusal reject(struct peer_incoming *incoming)
{
    metric_add(incoming->self->metrics, METRIC_BACKEND_PEER_REJECTED, 1);
    if (!incoming->was_over_limit)
        log_event(LOG_WARN, "peer_rejected",
                  "shard=%s open=%u requests_max=%u open_bytes=%zu peer_output_limit=%" PRIu64,
                  incoming->peer.shard, incoming->calls_count, incoming->self->options.requests_max,
                  incoming->calls_bytes, incoming->self->options.output_max);
    incoming->was_over_limit = true;
    return REFUSAL(OTHER, "too many requests are outstanding");
}

static struct refusal run_peer_request(struct peer_incoming *incoming,
                                       const struct peer_frame *frame)
{
    const struct peer_requests *requests = &incoming->self->requests;
    if (frame->kind == PEER_STATUS)
        handle_status(incoming, frame->id, frame->payload);
    else if (exceeds_limits(incoming, frame))
        return reject(incoming);
    else if (frame->kind == PEER_ECHO)
        handle_echo(incoming, frame->id, frame->payload);
    else if (requests->handle)
        return requests->handle(incoming->self->owner, incoming, frame);
    else
        return REFUSAL(OTHER, "unknown request");
    return NO_REFUSAL;
}

static void run_request_frame(struct peer_incoming *incoming, const struct peer_frame *frame)
{
    if (!is_first_time(incoming, frame->id))
        return;
    metric_add(incoming->self->metrics, METRIC_BACKEND_PEER_REQUESTS_IN, 1);
    struct refusal refusal = run_peer_request(incoming, frame);
    if (refusal.code && !peer_message(frame->kind)->is_silent)
        peer_incoming_refuse(incoming, frame->id, refusal);
}

/* ---- the stream ---- */

/* Hears the time of the frame. False: it is too far ahead, and the connection is marked as broken. */
static bool hear_time(struct peer_incoming *incoming, const struct peer_frame *frame)
{
    const struct peer_self *self = incoming->self;
    if (hybrid_clock_hear(self->hybrid, frame->hybrid, loop_wall_us(self->loop)))
        return true;
    log_event(LOG_WARN, "peer_disconnected",
              "shard=%s reason=\"the time in a frame of the peer is more than 100 years ahead\"",
              incoming->peer.shard);
    incoming->is_broken = true;
    return false;
}

/* receive_fn */
static size_t incoming_received(void *owner, struct block *block, const char *data, size_t len,
                                size_t *need)
{
    struct peer_incoming *incoming = owner;
    struct peer_frame frame;
    size_t used = 0;
    size_t size;
    (void)block;
    silence_end(&incoming->silence, loop_mono_ms(incoming->self->loop));
    while (!incoming->is_broken && !stream_is_paused(incoming->stream)) {
        enum peer_decoded decoded = peer_frame_read(data + used, len - used, &frame, &size);
        if (decoded == PEER_FRAME_WHOLE) {
            metric_add(incoming->self->metrics, METRIC_BACKEND_PEER_BYTES_IN, size);
            if (hear_time(incoming, &frame))
                run_request_frame(incoming, &frame);
            used += size;
            continue;
        }
        incoming->is_broken = decoded == PEER_FRAME_BAD;
        *need = size;
        break;
    }
    if (!incoming->is_broken)
        return used;
    peer_incoming_free(incoming);
    return len;
}

static void incoming_ended(void *owner, int err)
{
    (void)err;
    peer_incoming_free(owner);
}

static void incoming_drained(void *owner)
{
    struct peer_incoming *incoming = owner;
    if (stream_is_paused(incoming->stream) && !incoming->is_held)
        stream_resume(incoming->stream);
}

void peer_incoming_hold(struct peer_incoming *incoming)
{
    incoming->is_held = true;
    stream_pause(incoming->stream);
}

void peer_incoming_release(struct peer_incoming *incoming)
{
    if (!incoming->is_held)
        return;
    incoming->is_held = false;
    stream_resume(incoming->stream);
}

/* ---- create, tick, free ---- */

struct peer_incoming *peer_incoming_new(const struct peer_self *self, struct stream *stream,
                                        const struct peer_identity *peer, struct list *all)
{
    struct peer_incoming *incoming = calloc(1, sizeof *incoming);
    CHECK(incoming);
    incoming->self = self;
    incoming->stream = stream;
    incoming->peer = *peer;
    incoming->since_ms = loop_mono_ms(self->loop);
    silence_end(&incoming->silence, incoming->since_ms);
    list_init(&incoming->calls);
    list_push(all, &incoming->link);
    stream_set_owner(stream, &incoming_events, incoming);
    metric_add(self->metrics, METRIC_BACKEND_PEER_INCOMING, 1);
    return incoming;
}

void peer_incoming_free(struct peer_incoming *incoming)
{
    while (!list_empty(&incoming->calls)) {
        struct peer_call *call = container_of(incoming->calls.next, struct peer_call, link);
        close_call(call);
        call->on_abandoned(call);
    }
    if (incoming->self->requests.on_closed)
        incoming->self->requests.on_closed(incoming->self->owner, incoming);
    stream_abort(incoming->stream);
    list_remove(&incoming->link);
    metric_sub(incoming->self->metrics, METRIC_BACKEND_PEER_INCOMING, 1);
    free(incoming);
}

void peer_incoming_tick(struct peer_incoming *incoming)
{
    uint64_t now_ms = loop_mono_ms(incoming->self->loop);
    /* a connection that is paused because its peer does not read replies counts as silent */
    uint64_t limit_ms = incoming->self->options.timeout_ms * SILENCE_FACTOR;
    if (incoming->is_broken || silence_ms(&incoming->silence, now_ms, limit_ms) > limit_ms)
        peer_incoming_free(incoming);
}
