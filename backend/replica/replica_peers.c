#include "backend/replica/replica_peers.h"

#include "backend/replica/replica_send.h"
#include "shared/check.h"
#include "shared/list.h"

#include <stdlib.h>

struct sender {
    uint64_t id; /* 0: none */
    struct peer_link *link;
    struct replica_send *send;
};

struct receiver {
    struct list link; /* in peers->receivers */
    struct replica_peers *peers;
    const struct peer_incoming *incoming;
    struct replica_receive *receive;
    uint64_t from; /* of the frame that is being taken */
};

struct replica_peers {
    struct replica_peers_options options;
    struct sender senders[REPLICA_ADDRESSES_MAX];
    struct list receivers;
};

/* ---- senders ----------------------------------------------------------------------------------- */

static struct sender *find_sender(struct replica_peers *peers, uint64_t id)
{
    for (unsigned i = 0; i < REPLICA_ADDRESSES_MAX; i++)
        if (peers->senders[i].id == id)
            return &peers->senders[i];
    return NULL;
}

static void sender_free(struct sender *sender)
{
    replica_send_free(sender->send);
    *sender = (struct sender){0};
}

static struct sender *sender_new(struct replica_peers *peers, uint64_t id, struct peer_link *link)
{
    struct sender *sender = find_sender(peers, 0);
    const struct replica_send_options options = {.wal = peers->options.wal,
                                                 .core = peers->options.core,
                                                 .own = peers->options.own,
                                                 .link = link,
                                                 .group = peers->options.group,
                                                 .time = peers->options.time,
                                                 .applied = peers->options.applied,
                                                 .on_gone = peers->options.on_gone,
                                                 .owner = peers->options.owner};
    if (!sender)
        return NULL;
    *sender = (struct sender){id, link, replica_send_new(&options)};
    return sender;
}

/* The one of the present link. */
static struct sender *sender_to(struct replica_peers *peers, uint64_t id)
{
    struct peer_link *link = replica_links_to(peers->options.links, id);
    struct sender *sender = find_sender(peers, id);
    if (sender && sender->link == link)
        return sender;
    if (sender)
        sender_free(sender);
    return link ? sender_new(peers, id, link) : NULL;
}

bool replica_peers_send(struct replica_peers *peers, const struct consensus_message *message)
{
    const struct sender *sender = sender_to(peers, message->to);
    if (sender)
        replica_send_message(sender->send, message);
    return sender != NULL;
}

/* A sender whose link is down is freed by replica_peers_down. */
void replica_peers_turn(struct replica_peers *peers)
{
    for (unsigned i = 0; i < REPLICA_ADDRESSES_MAX; i++)
        if (peers->senders[i].id && sender_to(peers, peers->senders[i].id))
            replica_send_turn(peers->senders[i].send);
}

void replica_peers_refused(struct replica_peers *peers, uint64_t id)
{
    const struct sender *sender = find_sender(peers, id);
    if (sender)
        replica_send_refused(sender->send);
}

bool replica_peers_has_failed(struct replica_peers *peers, uint64_t id)
{
    const struct sender *sender = find_sender(peers, id);
    return sender && replica_send_has_failed(sender->send);
}

void replica_peers_drop(struct replica_peers *peers)
{
    for (unsigned i = 0; i < REPLICA_ADDRESSES_MAX; i++)
        if (peers->senders[i].id)
            replica_send_drop(peers->senders[i].send);
}

void replica_peers_down(struct replica_peers *peers, uint64_t id)
{
    struct sender *sender = find_sender(peers, id);
    if (sender)
        sender_free(sender);
}

/* ---- receivers --------------------------------------------------------------------------------- */

/* A message is heard from the copy that has sent it. */
static void heard(void *owner, const struct replica_heard *heard)
{
    const struct receiver *receiver = owner;
    const struct replica_peers_options *options = &receiver->peers->options;
    if (heard->message->from == receiver->from)
        options->on_heard(options->owner, heard);
}

static void heard_part(void *owner, uint64_t from, uint64_t term)
{
    const struct receiver *receiver = owner;
    const struct replica_peers_options *options = &receiver->peers->options;
    if (from == receiver->from)
        options->on_part(options->owner, from, term);
}

static struct receiver *receiver_of(const struct replica_peers *peers,
                                    const struct peer_incoming *incoming)
{
    for (struct list *at = peers->receivers.next; at != &peers->receivers; at = at->next) {
        struct receiver *receiver = container_of(at, struct receiver, link);
        if (receiver->incoming == incoming)
            return receiver;
    }
    return NULL;
}

static struct receiver *receiver_new(struct replica_peers *peers,
                                     const struct peer_incoming *incoming)
{
    struct receiver *receiver = calloc(1, sizeof *receiver);
    CHECK(receiver);
    const struct replica_receive_options options = {.group = peers->options.group,
                                                    .id = peers->options.id,
                                                    .on_heard = heard,
                                                    .on_part = heard_part,
                                                    .owner = receiver};
    receiver->peers = peers;
    receiver->incoming = incoming;
    receiver->receive = replica_receive_new(&options);
    list_push(&peers->receivers, &receiver->link);
    return receiver;
}

static void receiver_free(struct receiver *receiver)
{
    list_remove(&receiver->link);
    replica_receive_free(receiver->receive);
    free(receiver);
}

enum replica_received replica_peers_take(struct replica_peers *peers,
                                         const struct peer_incoming *incoming,
                                         const struct peer_frame *frame, uint64_t from)
{
    struct receiver *receiver = receiver_of(peers, incoming);
    if (!from) /* it has not said which copy it is */
        return REPLICA_RECEIVED;
    if (!receiver)
        receiver = receiver_new(peers, incoming);
    receiver->from = from;
    return frame->kind == PEER_REPLICA_CORE
               ? replica_receive_core(receiver->receive, frame->payload)
               : replica_receive_part(receiver->receive, frame->payload);
}

void replica_peers_closed(struct replica_peers *peers, const struct peer_incoming *incoming)
{
    struct receiver *receiver = receiver_of(peers, incoming);
    if (receiver)
        receiver_free(receiver);
}

/* ---- life -------------------------------------------------------------------------------------- */

struct replica_peers *replica_peers_new(const struct replica_peers_options *options)
{
    struct replica_peers *peers = calloc(1, sizeof *peers);
    CHECK(peers);
    peers->options = *options;
    list_init(&peers->receivers);
    return peers;
}

void replica_peers_free(struct replica_peers *peers)
{
    if (!peers)
        return;
    for (unsigned i = 0; i < REPLICA_ADDRESSES_MAX; i++)
        sender_free(&peers->senders[i]);
    while (!list_empty(&peers->receivers))
        receiver_free(container_of(peers->receivers.next, struct receiver, link));
    free(peers);
}
