#include "backend/replica/replica_links.h"

#include "backend/context/hybrid_clock.h"
#include "backend/replica/replica_known.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    LINKS_TICK_MS = 100,
    HELLO_EVERY_MS = 1000, /* until it is answered */
    VISIT_MS = 10000,      /* without a connection to it */
};

/* Another address of the shard, and the copy there. */
struct neighbour {
    char *address;
    struct peer_link *link;
    struct peer_link *bulk;    /* NULL: none is needed */
    struct replica_hello said; /* id 0 and address empty: nothing yet */
    struct peer_request hello; /* ours to it; id 0: none is outstanding */
    struct replica_links *links;
    uint64_t asked_ms;    /* monotonic, when it was sent */
    uint64_t visit_ms;    /* a visitor until then, and as long as it is greeted; 0: none */
    bool is_hello_due;    /* it has not answered our newest hello */
    bool is_id_confirmed; /* it has answered on the present connection */
    bool is_in_map;       /* else an address of replica_links_also */
    bool is_double;       /* it has said the id of another copy, which was logged */
};

struct replica_links {
    struct peer_self self;
    struct replica_links_options options;
    struct hybrid_clock hybrid; /* of the frames of this thread; the partition has its own */
    struct timer *tick;
    struct list incoming;
    struct neighbour *neighbours[REPLICA_ADDRESSES_MAX];
    unsigned count;
    uint64_t said_count;      /* numbers of what this copy has said */
    struct replica_hello own; /* id 0 and state 0: this copy has nothing to say yet */
    bool has_others;          /* replica_links_also adds addresses to those of the map */
    uint32_t listeners;       /* stays 0 */
};

/* ---- neighbours -------------------------------------------------------------------------------- */

static struct neighbour *neighbour_at(const struct replica_links *links, const char *address,
                                      size_t len)
{
    for (unsigned i = 0; i < links->count; i++)
        if (strlen(links->neighbours[i]->address) == len &&
            strncasecmp(links->neighbours[i]->address, address, len) == 0)
            return links->neighbours[i];
    return NULL;
}

static struct neighbour *neighbour_of_id(const struct replica_links *links, uint64_t id)
{
    for (unsigned i = 0; i < links->count; i++)
        if (id && links->neighbours[i]->said.id == id)
            return links->neighbours[i];
    return NULL;
}

static struct neighbour *neighbour_of_link(const struct replica_links *links,
                                           const struct peer_link *link)
{
    for (unsigned i = 0; i < links->count; i++)
        if (links->neighbours[i]->link == link)
            return links->neighbours[i];
    return NULL; /* a second one */
}

static struct peer_link *link_new(struct replica_links *links, const char *address,
                                  const char *suffix)
{
    char label[SHARD_NAME_MAX + PEER_ADDRESS_MAX + 16];
    (void)snprintf(label, sizeof label, "%s@%s%s", links->self.identity.shard, address, suffix);
    return peer_link_new(&links->self, links->self.identity.shard, address, label);
}

static struct neighbour *neighbour_add(struct replica_links *links, const char *address)
{
    struct neighbour *neighbour = calloc(1, sizeof *neighbour);
    CHECK(neighbour && links->count < REPLICA_ADDRESSES_MAX);
    neighbour->address = strdup(address);
    CHECK(neighbour->address);
    neighbour->links = links;
    neighbour->is_hello_due = true;
    neighbour->link = link_new(links, address, "");
    links->neighbours[links->count++] = neighbour;
    return neighbour;
}

static void neighbour_free(struct neighbour *neighbour)
{
    if (neighbour->bulk)
        peer_link_free(neighbour->bulk);
    peer_link_free(neighbour->link);
    free(neighbour->address);
    free(neighbour);
}

/* A visitor that is gone believes that its hello was heard: on a new connection it says it again. */
static void break_incoming(struct replica_links *links, const char *address)
{
    for (struct list *at = links->incoming.next; at != &links->incoming; at = at->next) {
        struct peer_incoming *incoming = container_of(at, struct peer_incoming, link);
        incoming->is_broken |= strcasecmp(incoming->peer.address, address) == 0;
    }
}

static void drop_neighbour(struct replica_links *links, unsigned at)
{
    struct neighbour *neighbour = links->neighbours[at];
    if (neighbour->visit_ms)
        break_incoming(links, neighbour->address);
    if (neighbour->bulk && links->options.events.on_bulk_end)
        links->options.events.on_bulk_end(links->options.owner);
    links->neighbours[at] = links->neighbours[--links->count];
    neighbour_free(neighbour);
}

/* ---- hello ------------------------------------------------------------------------------------- */

/* A hello and a reply to ours come on two connections, and a frame of an earlier one may come late. Fewer starts are no sign of that: the
 * disk may have gone back. */
static bool is_old_hello(const struct replica_hello *hello, const struct replica_hello *said)
{
    return hello->run == said->run && hello->number < said->number;
}

static bool is_greeted(const struct neighbour *neighbour)
{
    return neighbour->is_id_confirmed && neighbour->link->state == PEER_LINK_UP;
}

/* Is the id that of this copy, or of one at another address that is connected? */
static bool is_of_another(const struct neighbour *neighbour, uint64_t id)
{
    const struct replica_links *links = neighbour->links;
    bool is_double = id && id == links->own.id;
    for (unsigned i = 0; i < links->count && id; i++) {
        const struct neighbour *other = links->neighbours[i];
        is_double |= other != neighbour && other->said.id == id && is_greeted(other);
    }
    return is_double;
}

/* Two disks with one content: what one of them promises, the other one does not know. Or one copy that has moved, while its connection at
 * the old address is not broken yet: so it is asked again at a later tick. */
static void refuse_double(struct neighbour *neighbour)
{
    if (!neighbour->is_double)
        log_event(LOG_ERROR, "replica_double", "address=%s", neighbour->address);
    neighbour->is_double = neighbour->is_hello_due = true;
    neighbour->is_id_confirmed = false;
}

/* Another id at an address: the copy that was there is gone. */
static void note_hello(struct neighbour *neighbour, const struct replica_hello *hello)
{
    struct replica_links *links = neighbour->links;
    uint64_t old = neighbour->said.id;
    if (is_old_hello(hello, &neighbour->said))
        hello = &neighbour->said;
    if (is_of_another(neighbour, hello->id)) {
        refuse_double(neighbour);
        return;
    }
    if (old && old != hello->id)
        links->options.events.on_down(links->options.owner, old);
    neighbour->said = *hello;
    neighbour->said.address = bytes_of(neighbour->address);
    links->options.events.on_hello(links->options.owner, &neighbour->said);
}

static bool has_something_to_say(const struct replica_links *links)
{
    return links->own.state != 0;
}

/* `receiver`: its id; 0: not known. */
static void write_own_hello(const struct replica_links *links, uint64_t receiver, struct out *out)
{
    struct replica_hello hello = links->own;
    if (links->options.known)
        hello.known = replica_known_of(links->options.known, receiver);
    hello.address = bytes_of(links->self.identity.address);
    replica_hello_write(&hello, out);
}

static void send_hello(struct neighbour *neighbour);

/* on_reply */
static void hello_replied(struct peer_request *request, enum peer_result result,
                          struct bytes payload)
{
    struct neighbour *neighbour = container_of(request, struct neighbour, hello);
    struct replica_hello hello;
    bool is_good =
        result == PEER_OK && replica_hello_read(payload, &hello) &&
        neighbour_at(neighbour->links, hello.address.data, hello.address.len) == neighbour;
    neighbour->is_hello_due |= !is_good;
    if (!is_good)
        return;
    bool has_more_to_say = neighbour->is_hello_due;
    neighbour->is_id_confirmed = true;
    note_hello(neighbour, &hello);
    if (has_more_to_say)
        send_hello(neighbour);
}

static void send_hello(struct neighbour *neighbour)
{
    struct replica_links *links = neighbour->links;
    struct out out;
    if (!has_something_to_say(links) || neighbour->hello.id ||
        neighbour->link->state != PEER_LINK_UP)
        return;
    out_init(&out);
    write_own_hello(links, neighbour->said.id, &out);
    neighbour->hello.on_reply = hello_replied;
    neighbour->asked_ms = loop_mono_ms(links->self.loop);
    neighbour->is_hello_due = peer_link_send_out(neighbour->link, &neighbour->hello,
                                                 PEER_REPLICA_HELLO, &out) != PEER_SENT;
}

void replica_links_say(struct replica_links *links, const struct replica_hello *hello)
{
    links->own = *hello;
    links->own.number = ++links->said_count;
    for (unsigned i = 0; i < links->count; i++) {
        links->neighbours[i]->is_hello_due = true;
        send_hello(links->neighbours[i]);
    }
}

/* ---- requests ---------------------------------------------------------------------------------- */

static struct neighbour *sender_of(const struct replica_links *links,
                                   const struct peer_incoming *incoming)
{
    return neighbour_at(links, incoming->peer.address, strlen(incoming->peer.address));
}

/* Two copies, or two processes of one, have named this address. The answer on our own link decides which of them is there now. */
static void hear_hello(struct neighbour *sender, const struct replica_hello *hello)
{
    if (!sender->said.id || (sender->said.id == hello->id && sender->said.run == hello->run)) {
        note_hello(sender, hello);
        return;
    }
    sender->is_hello_due = true;
    send_hello(sender);
}

/* NULL: it is not welcome. */
static struct neighbour *take_visitor(struct replica_links *links,
                                      const struct peer_incoming *incoming,
                                      const struct replica_hello *hello)
{
    const struct replica_links_options *options = &links->options;
    const char *address = incoming->peer.address;
    if (!options->events.is_welcome || links->count == REPLICA_ADDRESSES_MAX ||
        strcasecmp(address, links->self.identity.address) == 0 ||
        !options->events.is_welcome(options->owner, hello))
        return NULL;
    struct neighbour *visitor = neighbour_add(links, address);
    visitor->visit_ms = loop_mono_ms(links->self.loop) + VISIT_MS;
    return visitor;
}

static struct refusal handle_hello(struct replica_links *links, struct peer_incoming *incoming,
                                   const struct peer_frame *frame)
{
    struct replica_hello hello;
    struct neighbour *sender = sender_of(links, incoming);
    struct out out;
    if (!replica_hello_read(frame->payload, &hello))
        return REQUEST_IS_NOT_VALID;
    if (!sender)
        sender = take_visitor(links, incoming, &hello);
    if (!sender || neighbour_at(links, hello.address.data, hello.address.len) != sender)
        return REFUSAL(OTHER, "no copy of this shard has this address by the map of this one");
    if (!has_something_to_say(links))
        return REFUSAL(OTHER, "this copy is starting");
    out_init(&out);
    write_own_hello(links, hello.id, &out);
    struct bytes payload = out_take(&out);
    peer_incoming_done(incoming, frame->id, payload);
    free((char *)payload.data);
    hear_hello(sender, &hello);
    return NO_REFUSAL;
}

/* peer_requests.handle */
static struct refusal handle_of_copy(void *owner, struct peer_incoming *incoming,
                                     const struct peer_frame *frame)
{
    struct replica_links *links = owner;
    const struct neighbour *sender = sender_of(links, incoming);
    if (frame->kind == PEER_REPLICA_HELLO)
        return handle_hello(links, incoming, frame);
    return links->options.events.handle(links->options.owner, incoming, frame,
                                        sender ? sender->said.id : 0);
}

/* peer_requests.on_closed */
static void copy_closed(void *owner, struct peer_incoming *incoming)
{
    struct replica_links *links = owner;
    links->options.events.on_closed(links->options.owner, incoming);
}

/* ---- events of links --------------------------------------------------------------------------- */

static void copy_is_up(void *owner, struct peer_link *link)
{
    struct neighbour *neighbour = neighbour_of_link(owner, link);
    if (!neighbour)
        return;
    neighbour->is_hello_due = true;
    send_hello(neighbour);
}

static void copy_is_down(void *owner, struct peer_link *link)
{
    struct replica_links *links = owner;
    struct neighbour *neighbour = neighbour_of_link(links, link);
    if (!neighbour)
        return;
    neighbour->is_id_confirmed = false;
    if (neighbour->said.id)
        links->options.events.on_down(links->options.owner, neighbour->said.id);
}

static void copy_has_drained(void *owner, struct peer_link *link)
{
    struct replica_links *links = owner;
    const struct neighbour *neighbour = neighbour_of_link(links, link);
    if (neighbour && neighbour->is_id_confirmed)
        links->options.events.on_drain(links->options.owner, neighbour->said.id);
}

/* ---- life -------------------------------------------------------------------------------------- */

static void tick_neighbour(struct neighbour *neighbour)
{
    uint64_t now_ms = loop_mono_ms(neighbour->links->self.loop);
    peer_link_tick(neighbour->link);
    if (neighbour->bulk)
        peer_link_tick(neighbour->bulk);
    if (neighbour->is_hello_due && now_ms >= neighbour->asked_ms + HELLO_EVERY_MS)
        send_hello(neighbour);
}

static void links_tick(void *owner)
{
    struct replica_links *links = owner;
    struct list *next;
    for (unsigned i = 0; i < links->count; i++)
        tick_neighbour(links->neighbours[i]);
    for (struct list *at = links->incoming.next; at != &links->incoming; at = next) {
        next = at->next;
        peer_incoming_tick(container_of(at, struct peer_incoming, link));
    }
}

static uint64_t last_index(void *owner)
{
    const struct replica_links *links = owner;
    return links->own.last;
}

static struct peer_self peer_self_of(struct replica_links *links)
{
    const struct replica_links_options *options = &links->options;
    struct peer_self self = {
        .loop = options->loop,
        .word = "REPLICA",
        .events = {.on_up = copy_is_up, .on_down = copy_is_down, .on_drain = copy_has_drained},
        .metrics = options->metrics,
        .links = options->labels,
        .thread = options->thread,
        .hybrid = &links->hybrid,
        .listeners = &links->listeners,
        .current_index = last_index,
        .requests = {.handle = handle_of_copy, .on_closed = copy_closed},
        .owner = links,
    };
    (void)snprintf(self.identity.run_id, sizeof self.identity.run_id, "%s", options->run_id);
    (void)snprintf(self.identity.version, sizeof self.identity.version, "%s", options->version);
    return self;
}

struct replica_links *replica_links_new(const struct replica_links_options *options)
{
    struct replica_links *links = calloc(1, sizeof *links);
    CHECK(links);
    links->options = *options;
    links->self = peer_self_of(links);
    list_init(&links->incoming);
    links->tick = timer_new(options->loop, links_tick, links);
    timer_start(links->tick, 1, LINKS_TICK_MS);
    return links;
}

static void drop_all(struct replica_links *links)
{
    while (links->count)
        drop_neighbour(links, links->count - 1);
    while (!list_empty(&links->incoming))
        peer_incoming_free(container_of(links->incoming.next, struct peer_incoming, link));
}

void replica_links_free(struct replica_links *links)
{
    if (!links)
        return;
    drop_all(links);
    timer_free(links->tick);
    peer_self_free_credentials(&links->self);
    free(links);
}

/* ---- configuration ----------------------------------------------------------------------------- */

static bool is_made_anew(const struct replica_links *links,
                         const struct replica_links_config *config)
{
    const struct peer_self *self = &links->self;
    return !self->secret || strcmp(self->identity.shard, config->shard) != 0 ||
           strcmp(self->identity.address, config->address) != 0 ||
           strcmp(self->secret, config->secret) != 0 ||
           strcmp(self->secret_previous, config->secret_previous) != 0 || self->tls != config->tls;
}

static bool is_among_addresses(const struct bytes *addresses, unsigned count, const char *address)
{
    for (unsigned i = 0; i < count; i++)
        if (addresses[i].len == strlen(address) &&
            strncasecmp(addresses[i].data, address, addresses[i].len) == 0)
            return true;
    return false;
}

static bool is_other_copy(const struct replica_links_config *config, const char *address)
{
    for (unsigned i = 0; i < config->address_count; i++)
        if (strcasecmp(config->addresses[i], address) == 0)
            return strcasecmp(address, config->address) != 0;
    return false;
}

/* The copy at an address that is gone is down. */
static void leave_neighbour(struct replica_links *links, unsigned at)
{
    uint64_t id = links->neighbours[at]->said.id;
    if (id) /* it still has its links, which their users leave now */
        links->options.events.on_down(links->options.owner, id);
    drop_neighbour(links, at);
}

/* With replica_links_also, its next call decides which of these stay. */
static void drop_unwanted(struct replica_links *links, const struct replica_links_config *config)
{
    for (unsigned i = links->count; i-- > 0;) {
        if (is_other_copy(config, links->neighbours[i]->address))
            continue;
        links->neighbours[i]->is_in_map = false;
        if (!links->has_others)
            leave_neighbour(links, i);
    }
}

/* Addresses of the map and of members come before visitors. */
static void evict_visitor(struct replica_links *links)
{
    for (unsigned i = 0; i < links->count && links->count == REPLICA_ADDRESSES_MAX; i++)
        if (links->neighbours[i]->visit_ms)
            leave_neighbour(links, i);
}

static void want_neighbour(struct replica_links *links, const char *address, bool is_in_map)
{
    struct neighbour *neighbour = neighbour_at(links, address, strlen(address));
    if (!neighbour)
        evict_visitor(links);
    if (!neighbour && links->count < REPLICA_ADDRESSES_MAX)
        neighbour = neighbour_add(links, address);
    if (!neighbour)
        return;
    neighbour->is_in_map |= is_in_map;
    neighbour->visit_ms = 0;
}

void replica_links_configure(struct replica_links *links, const struct replica_links_config *config)
{
    struct peer_self *self = &links->self;
    if (is_made_anew(links, config)) {
        while (links->count)
            leave_neighbour(links, links->count - 1);
        drop_all(links);
    }
    (void)snprintf(self->identity.shard, sizeof self->identity.shard, "%s", config->shard);
    (void)snprintf(self->identity.address, sizeof self->identity.address, "%s", config->address);
    peer_self_set_credentials(self, config->secret, config->secret_previous, config->tls);
    self->options = config->options;
    drop_unwanted(links, config);
    for (unsigned i = 0; i < config->address_count; i++) {
        const char *address = config->addresses[i];
        if (is_other_copy(config, address))
            want_neighbour(links, address, true);
    }
}

static bool is_visitor(const struct neighbour *neighbour)
{
    uint64_t now_ms = loop_mono_ms(neighbour->links->self.loop);
    return neighbour->visit_ms && (is_greeted(neighbour) || now_ms < neighbour->visit_ms);
}

void replica_links_also(struct replica_links *links, const struct bytes *addresses, unsigned count)
{
    char address[PEER_ADDRESS_MAX + 1];
    links->has_others = true;
    for (unsigned i = links->count; i-- > 0;)
        if (!links->neighbours[i]->is_in_map && !is_visitor(links->neighbours[i]) &&
            !is_among_addresses(addresses, count, links->neighbours[i]->address))
            leave_neighbour(links, i);
    for (unsigned i = 0; i < count && links->self.secret; i++) {
        (void)snprintf(address, sizeof address, "%.*s", (int)addresses[i].len, addresses[i].data);
        if (strcasecmp(address, links->self.identity.address) != 0)
            want_neighbour(links, address, false);
    }
}

/* ---- use --------------------------------------------------------------------------------------- */

void replica_links_adopt(struct replica_links *links, struct stream *stream,
                         const struct peer_identity *peer)
{
    const struct neighbour *neighbour = neighbour_at(links, peer->address, strlen(peer->address));
    (void)peer_incoming_new(&links->self, stream, peer, &links->incoming);
    if (neighbour)
        peer_link_hurry(neighbour->link);
}

const struct replica_hello *replica_links_hello(const struct replica_links *links,
                                                const char *address)
{
    const struct neighbour *neighbour = neighbour_at(links, address, strlen(address));
    return neighbour && neighbour->said.address.len ? &neighbour->said : NULL;
}

bool replica_links_is_heard(const struct replica_links *links, const char *address)
{
    const struct neighbour *neighbour = neighbour_at(links, address, strlen(address));
    return neighbour && is_greeted(neighbour);
}

struct peer_link *replica_links_to(const struct replica_links *links, uint64_t id)
{
    const struct neighbour *neighbour = neighbour_of_id(links, id);
    return neighbour && is_greeted(neighbour) ? neighbour->link : NULL;
}

struct peer_link *replica_links_bulk(struct replica_links *links, uint64_t id)
{
    struct neighbour *neighbour = neighbour_of_id(links, id);
    if (neighbour && !neighbour->bulk)
        neighbour->bulk = link_new(links, neighbour->address, "/files");
    return neighbour ? neighbour->bulk : NULL;
}

void replica_links_end_bulk(struct replica_links *links, uint64_t id)
{
    struct neighbour *neighbour = neighbour_of_id(links, id);
    if (!neighbour || !neighbour->bulk)
        return;
    peer_link_free(neighbour->bulk);
    neighbour->bulk = NULL;
}
