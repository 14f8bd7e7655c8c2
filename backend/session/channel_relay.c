#include "backend/session/channel_relay.h"

#include "backend/context/call.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/session/pause.h"
#include "backend/session/pubsub.h"
#include "backend/session/push_message.h"
#include "backend/session/session.h"
#include "backend/session/ticket_wait.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/metrics.h"

#include <stdlib.h>

enum {
    CHANNEL_LENGTH_BYTES = 4,
    LISTEN_BYTES = 9,
    KEEP_MS = 2000, /* the shard listens at least so long after a SUBSCRIBE */
    LEAVE_MS = 500, /* time between two checks whether subscribers are left */
};

struct channel_relay {
    struct partition *partition;
    uint32_t told;       /* number of PEER_LISTEN requests without a reply */
    uint64_t order;      /* of the last PEER_LISTEN; increases over restarts too */
    bool listens;        /* as in the last PEER_LISTEN */
    uint64_t leave_ms;   /* monotonic: when to check whether subscribers are left */
    struct list delayed; /* struct delayed_message, oldest first */
    size_t delayed_bytes;
};

/* A message that waits for its batch. */
struct delayed_message {
    struct list link; /* in relay->delayed */
    struct ticket_wait wait;
    struct channel_relay *relay;
    struct block *message;
};

struct channel_relay *channel_relay_new(struct partition *partition)
{
    struct channel_relay *relay = calloc(1, sizeof *relay);
    CHECK(relay);
    relay->partition = partition;
    list_init(&relay->delayed);
    return relay;
}

static void free_delayed(struct delayed_message *delayed)
{
    delayed->relay->delayed_bytes -= delayed->message->used;
    ticket_wait_cancel(&delayed->wait);
    list_remove(&delayed->link);
    block_unref(delayed->message);
    free(delayed);
}

void channel_relay_free(struct channel_relay *relay)
{
    while (relay && !list_empty(&relay->delayed))
        free_delayed(container_of(relay->delayed.next, struct delayed_message, link));
    free(relay);
}

/* ---- this shard listens ---- */

struct listen_request {
    struct peer_request request;
    struct channel_relay *relay;
};

/* on_reply: the shard has confirmed, or its link broke: then the identity has the state when it connects again. */
static void listen_replied(struct peer_request *request, enum peer_result result,
                           struct bytes payload)
{
    struct listen_request *listen = container_of(request, struct listen_request, request);
    struct channel_relay *relay = listen->relay;
    (void)result;
    (void)payload;
    free(listen);
    if (--relay->told == 0 && relay->partition->shards.peers)
        partition_resume(relay->partition);
}

/* peer_link_fn */
static void tell_link(void *owner, struct peer_link *link)
{
    struct channel_relay *relay = owner;
    char payload[LISTEN_BYTES] = {(char)relay->listens};
    struct listen_request *listen = calloc(1, sizeof *listen);
    CHECK(listen);
    put_le64(payload + 1, relay->order);
    listen->request.on_reply = listen_replied;
    listen->relay = relay;
    if (peer_link_send(link, &listen->request, PEER_LISTEN,
                       (struct bytes){payload, sizeof payload}) == PEER_SENT)
        relay->told++;
    else
        free(listen);
}

static void tell_links(struct channel_relay *relay, struct peer_set *peers)
{
    struct partition *partition = relay->partition;
    relay->order = partition_version(partition, loop_wall_us(partition->loop));
    peer_set_each_link(peers, tell_link, relay);
}

void channel_relay_listen(struct channel_relay *relay)
{
    struct peer_set *peers = relay->partition->shards.peers;
    if (!peers)
        return;
    relay->listens = true;
    relay->leave_ms = loop_mono_ms(relay->partition->loop) + KEEP_MS;
    if (peer_set_listen(peers, true))
        tell_links(relay, peers);
}

/* Is a client, not a proxy, subscribed here? */
static bool has_client_subscribers(const struct partition *partition)
{
    for (const struct list *at = partition->clients.all.next; at != &partition->clients.all;
         at = at->next) {
        const struct session *session = container_of(at, struct session, link);
        const struct follower *kinds = session->subscriber.kinds;
        if (!session->login.is_internal &&
            (kinds[CHANNEL_PLAIN].count || kinds[CHANNEL_PATTERN].count))
            return true;
    }
    return false;
}

/* To be called when a message has come: sends PEER_LISTEN with 0 to all shards if no client is subscribed here any more. */
static void leave_if_unused(struct channel_relay *relay)
{
    struct partition *partition = relay->partition;
    uint64_t now_ms = loop_mono_ms(partition->loop);
    if (now_ms < relay->leave_ms)
        return;
    relay->leave_ms = now_ms + LEAVE_MS;
    if (has_client_subscribers(partition) || !partition->shards.peers)
        return;
    relay->listens = false;
    (void)peer_set_listen(partition->shards.peers, false);
    tell_links(relay, partition->shards.peers);
}

bool channel_relay_waits(const struct call *call)
{
    struct channel_relay *relay = call->partition->watchers.messages->relay;
    if (!(call->command->traits & TRAIT_SUBSCRIBES) || call->session->login.is_internal)
        return false;
    channel_relay_listen(relay);
    return relay->told > 0;
}

/* ---- publishing ---- */

/* A message for other shards: u32 length of the channel, channel, payload. NULL: out of memory. */
static struct block *new_message(struct bytes channel, struct bytes payload)
{
    struct block *block = block_new_exact(CHANNEL_LENGTH_BYTES + channel.len + payload.len);
    if (!block)
        return NULL;
    put_le32(block->data, (uint32_t)channel.len);
    if (channel.len)
        memcpy(block->data + CHANNEL_LENGTH_BYTES, channel.data, channel.len);
    if (payload.len)
        memcpy(block->data + CHANNEL_LENGTH_BYTES + channel.len, payload.data, payload.len);
    block->used = (uint32_t)(CHANNEL_LENGTH_BYTES + channel.len + payload.len);
    return block;
}

static uint32_t listening_shards(const struct partition *partition)
{
    return partition->shards.peers ? peer_set_listeners(partition->shards.peers) : 0;
}

static void count_lost(struct partition *partition, uint32_t shards)
{
    metric_add(partition->metrics.process, METRIC_BACKEND_MESSAGES_LOST, shards);
}

void channel_relay_add(struct call *call, struct bytes channel, struct bytes payload)
{
    uint32_t listeners = listening_shards(call->partition);
    if (!listeners || session_namespace(call->session).len)
        return;
    struct block *message = new_message(channel, payload);
    if (!message) {
        count_lost(call->partition, listeners);
        return;
    }
    push_message_send(call->partition->watchers.messages, NULL, message, MESSAGE_RELAYED);
    block_unref(message);
}

static void send_message(struct channel_relay *relay, const struct block *message)
{
    struct peer_set *peers = relay->partition->shards.peers;
    if (!peers)
        return;
    uint32_t listeners = peer_set_listeners(peers);
    uint32_t sent =
        peer_set_post(peers, PEER_PUBLISH, (struct bytes){message->data, message->used});
    metric_add(relay->partition->metrics.process, METRIC_BACKEND_MESSAGES_RELAYED, sent);
    count_lost(relay->partition, listeners - sent);
}

/* on_end of a ticket_wait */
static void batch_ended(struct ticket_wait *wait, int err)
{
    struct delayed_message *delayed = container_of(wait, struct delayed_message, wait);
    if (!err)
        send_message(delayed->relay, delayed->message);
    free_delayed(delayed);
}

/* A message is sent no earlier than this ticket, that of the newest delayed message, so messages keep their order. */
static uint64_t last_ticket(const struct channel_relay *relay)
{
    return list_empty(&relay->delayed)
               ? 0
               : container_of(relay->delayed.prev, struct delayed_message, link)->wait.ticket;
}

void channel_relay_send(struct channel_relay *relay, struct block *message, uint64_t ticket)
{
    struct partition *partition = relay->partition;
    ticket = ticket > last_ticket(relay) ? ticket : last_ticket(relay);
    if (!ticket) {
        send_message(relay, message);
        return;
    }
    if (relay->delayed_bytes + message->used >
        partition->snapshot->config.peer_output_limit_bytes) {
        count_lost(partition, listening_shards(partition));
        return;
    }
    struct delayed_message *delayed = calloc(1, sizeof *delayed);
    CHECK(delayed);
    delayed->relay = relay;
    delayed->message = block_ref(message);
    relay->delayed_bytes += message->used;
    list_push(&relay->delayed, &delayed->link);
    ticket_wait_init(&delayed->wait, batch_ended);
    ticket_wait_begin_at(partition, &delayed->wait, ticket);
}

/* ---- other shards ---- */

/* peer_handle_fn. A message that is not valid is dropped. */
void handle_publish(struct partition *partition, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    struct message_reader reader = message_read(frame->payload);
    struct bytes channel = message_bytes(&reader);
    (void)incoming;
    if (reader.is_good && !pubsub_publish_relayed(partition, channel, reader.rest))
        count_lost(partition, 1);
    leave_if_unused(partition->watchers.messages->relay);
}

/* peer_handle_fn. An older version sends no payload. */
void handle_listen(struct partition *partition, struct peer_incoming *incoming,
                   const struct peer_frame *frame)
{
    struct bytes payload = frame->payload;
    bool is_whole = payload.len == LISTEN_BYTES;
    peer_set_note_listener(partition->shards.peers, bytes_of(incoming->peer.shard),
                           !is_whole || *payload.data, is_whole ? get_le64(payload.data + 1) : 0);
    peer_incoming_done(incoming, frame->id, BYTES(""));
}
