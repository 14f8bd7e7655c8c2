#include "backend/replica/replica.h"

#include "backend/replica/replica_inner.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/net/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 100 };

/* ---- orders: what home says, in order ---------------------------------------------------------- */

struct settings {
    struct replica_links_config links; /* its strings are copies */
    uint64_t epoch;
};

struct order {
    struct replica_letter letter;
    struct replica *replica;
    void (*obey)(struct replica *replica, const struct order *order);
    uint64_t index, term;
    bool is_forced;
    struct replica_members *members; /* NULL: none */
    struct settings *settings;       /* likewise */
    struct own_record *record;       /* likewise */
    char *address;                   /* likewise */
    void (*on_stopped)(void *owner);
    void *owner;
};

static void free_settings(struct settings *settings)
{
    if (!settings)
        return;
    const struct replica_links_config *links = &settings->links;
    for (unsigned i = 0; i < links->address_count; i++)
        free((char *)links->addresses[i]);
    free((char *)links->shard);
    free((char *)links->address);
    free((char *)links->secret);
    free((char *)links->secret_previous);
    free(settings);
}

static struct order *sent_order(struct replica_letter *letter)
{
    return container_of(letter, struct order, letter);
}

static void read_order(struct replica_letter *letter)
{
    const struct order *order = sent_order(letter);
    if (!order->replica->has_ended)
        order->obey(order->replica, order);
}

static void free_order(struct replica_letter *letter)
{
    struct order *order = sent_order(letter);
    free(order->members);
    free_settings(order->settings);
    own_record_end(order->record);
    free(order->address);
    free(order);
}

static struct order *order_new(struct replica *replica,
                               void (*obey)(struct replica *replica, const struct order *order))
{
    struct order *order = calloc(1, sizeof *order);
    CHECK(order);
    order->letter.read = read_order;
    order->letter.free = free_order;
    order->replica = replica;
    order->obey = obey;
    return order;
}

static void post(struct order *order)
{
    struct replica *replica = order->replica;
    replica_mail_send(&replica->home.mail, replica->options.loop, &order->letter);
}

/* ---- links ------------------------------------------------------------------------------------- */

static bool is_welcome(void *owner, const struct replica_hello *hello)
{
    return replica_change_welcomes(owner, hello);
}

static void on_hello(void *owner, const struct replica_hello *hello)
{
    replica_group_hear(owner, hello);
    replica_hear_run(owner, hello);
}

static void on_down(void *owner, uint64_t id)
{
    replica_step_down(owner, id);
}

static void on_drain(void *owner, uint64_t id)
{
    (void)id;
    replica_plan_turn_end(owner);
}

/* The copy would send the same again and again on the next connection: what it sends is said once. */
static void refuse_frame(struct replica *replica, struct peer_incoming *incoming,
                         enum replica_received why)
{
    incoming->is_broken = true;
    if (!replica->net.has_refused)
        log_event(
            LOG_ERROR, "replica_refused", "address=%s reason=" LOG_QUOTED, incoming->peer.address,
            why == REPLICA_NEWER_DATA ? "a record has a data format that this release does not have"
                                      : "a message is not valid");
    replica->net.has_refused = true;
}

/* Frames for a copy that takes part in nothing are lost. */
static void take_frame(struct replica *replica, struct peer_incoming *incoming,
                       const struct peer_frame *frame, uint64_t from)
{
    if (!replica->has_core)
        return;
    enum replica_received result = replica_peers_take(replica->net.peers, incoming, frame, from);
    if (result != REPLICA_RECEIVED)
        refuse_frame(replica, incoming, result);
}

static struct refusal handle_copy_frame(void *owner, struct peer_incoming *incoming,
                                        const struct peer_frame *frame, uint64_t from)
{
    struct replica *replica = owner;
    const struct replica_snapshots *snapshots = &replica->options.snapshots;
    bool is_known = true;
    if (frame->kind == PEER_REPLICA_KNOWN)
        incoming->is_broken |= !replica_change_take_known(replica, from, frame->payload);
    else if (frame->kind != PEER_REPLICA_CORE && frame->kind != PEER_REPLICA_PART)
        is_known = snapshots->handle && snapshots->handle(snapshots->owner, incoming, frame, from);
    else
        take_frame(replica, incoming, frame, from);
    return is_known ? NO_REFUSAL : REFUSAL(OTHER, "unknown request");
}

static void on_closed(void *owner, struct peer_incoming *incoming)
{
    struct replica *replica = owner;
    const struct replica_snapshots *snapshots = &replica->options.snapshots;
    if (replica->net.peers)
        replica_peers_closed(replica->net.peers, incoming);
    if (snapshots->closed)
        snapshots->closed(snapshots->owner, incoming);
}

static void on_bulk_end(void *owner)
{
    const struct replica *replica = owner;
    const struct replica_snapshots *snapshots = &replica->options.snapshots;
    if (snapshots->cancel)
        snapshots->cancel(snapshots->owner);
}

static struct replica_links *links_new(struct replica *replica)
{
    const struct replica_links_options options = {
        .loop = replica->options.loop,
        .metrics = replica->options.metrics,
        .labels = replica->options.labels,
        .thread = replica->options.thread,
        .run_id = replica->self.run_id,
        .version = replica->self.version,
        .known = &replica->voting.known,
        .events = {.is_welcome = is_welcome,
                   .on_hello = on_hello,
                   .on_down = on_down,
                   .on_drain = on_drain,
                   .on_bulk_end = on_bulk_end,
                   .handle = handle_copy_frame,
                   .on_closed = on_closed},
        .owner = replica,
    };
    return replica_links_new(&options);
}

/* ---- life -------------------------------------------------------------------------------------- */

/* timer_fn */
static void tick_replica(void *owner)
{
    replica_group_tick(owner);
    replica_note_figures(owner);
}

static void obey_begin(struct replica *replica, const struct order *order)
{
    struct loop *loop = replica->options.loop;
    (void)order;
    replica->has_begun = true;
    replica->net.links = links_new(replica);
    replica->disk.log =
        replica_log_new(loop, replica->options.storage, &replica_log_handlers, replica);
    if (replica->options.has_voters)
        replica_log_keep_spare(replica->disk.log);
    replica->timing.core = timer_new(loop, replica_core_is_due, replica);
    replica->timing.tick = timer_new(loop, tick_replica, replica);
    replica->timing.tell = timer_new(loop, replica_telling_is_due, replica);
    timer_start(replica->timing.tick, TICK_MS, TICK_MS);
    replica_group_begin(replica);
}

static struct replica *replica_alloc(const struct replica_options *options,
                                     const struct replica_events *events, void *owner)
{
    struct replica *replica = calloc(1, sizeof *replica);
    CHECK(replica);
    replica->options = *options;
    replica->notes = (struct replica_notes){&replica->home.mail, options->home, *events, owner};
    replica_mail_init(&replica->home.mail);
    replica->self.run = clock_random() | 1; /* 0: none */
    replica->timing.turn_end.run = replica_end_turn;
    CHECK(pthread_mutex_init(&replica->shown.figures_lock, NULL) == 0);
    list_init(&replica->timing.turn_end.link);
    (void)snprintf(replica->self.dir, sizeof replica->self.dir, "%s", options->dir);
    (void)snprintf(replica->self.run_id, sizeof replica->self.run_id, "%s", options->run_id);
    (void)snprintf(replica->self.version, sizeof replica->self.version, "%s", options->version);
    return replica;
}

struct replica *replica_new(const struct replica_options *options,
                            const struct replica_events *events, void *owner, char *error,
                            size_t size)
{
    struct replica *replica = replica_alloc(options, events, owner);
    if (!replica_group_read(replica, error, size)) {
        replica_free(replica);
        return NULL;
    }
    atomic_store(&replica->shown.phase, (int)replica->phase);
    post(order_new(replica, obey_begin));
    return replica;
}

/* Jobs of the disk end first, since they use what is freed after them. */
static void end(struct replica *replica)
{
    replica->has_ended = true;
    atomic_store(&replica->shown.lease_us, 0);
    atomic_store(&replica->shown.served_term, 0);
    replica_append_drop(replica);
    replica->has_core = false;
    if (!replica->has_begun)
        return;
    list_remove(&replica->timing.turn_end.link);
    replica_log_free(replica->disk.log);
    replica_save_free(replica->disk.save);
    replica_links_free(replica->net.links);
    replica_peers_free(replica->net.peers);
    timer_free(replica->timing.core);
    timer_free(replica->timing.tick);
    timer_free(replica->timing.tell);
    replica->has_begun = false;
    replica->net.links = NULL;
    replica->net.peers = NULL;
}

static void obey_stop(struct replica *replica, const struct order *order)
{
    end(replica);
    replica_note_stopped(&replica->notes, order->on_stopped, order->owner);
}

void replica_stop(struct replica *replica, void (*on_stopped)(void *owner), void *owner)
{
    struct order *order = order_new(replica, obey_stop);
    replica->home.is_stopping = true;
    order->on_stopped = on_stopped;
    order->owner = owner;
    post(order);
}

void replica_free(struct replica *replica)
{
    if (!replica)
        return;
    if (!replica->has_ended)
        end(replica);
    replica_file_close(replica->disk.file);
    pthread_mutex_destroy(&replica->shown.figures_lock);
    replica_mail_fini(&replica->home.mail);
    free(replica);
}

/* ---- what home says ---------------------------------------------------------------------------- */

static char *text_copy(const char *text)
{
    char *copy = strdup(text);
    CHECK(copy);
    return copy;
}

static void obey_configure(struct replica *replica, const struct order *order)
{
    const struct replica_links_config *links = &order->settings->links;
    replica->map.epoch = order->settings->epoch;
    replica->map.count = links->address_count;
    (void)snprintf(replica->map.address, sizeof replica->map.address, "%s", links->address);
    for (unsigned i = 0; i < links->address_count; i++)
        (void)snprintf(replica->map.addresses[i], sizeof replica->map.addresses[i], "%s",
                       links->addresses[i]);
    replica_links_configure(replica->net.links, links);
    replica_group_say(replica);
}

void replica_configure(struct replica *replica, const struct replica_settings *settings)
{
    struct order *order = order_new(replica, obey_configure);
    struct settings *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    copy->epoch = settings->epoch;
    copy->links = settings->links;
    copy->links.shard = text_copy(settings->links.shard);
    copy->links.address = text_copy(settings->links.address);
    copy->links.secret = text_copy(settings->links.secret);
    copy->links.secret_previous = text_copy(settings->links.secret_previous);
    for (unsigned i = 0; i < settings->links.address_count; i++)
        copy->links.addresses[i] = text_copy(settings->links.addresses[i]);
    order->settings = copy;
    replica_note_settings(replica, settings);
    post(order);
}

static void obey_make_group(struct replica *replica, const struct order *order)
{
    replica_group_found(replica, order->is_forced);
}

const char *replica_make_group(struct replica *replica, bool is_forced)
{
    enum replica_phase phase = (enum replica_phase)atomic_load(&replica->shown.phase);
    bool is_member = phase == REPLICA_PHASE_FOLLOWING || phase == REPLICA_PHASE_LEADING ||
                     phase == REPLICA_PHASE_SERVING;
    if (is_forced && !is_member)
        return "this copy is not a member of a group";
    if (!is_forced && phase != REPLICA_PHASE_NONE)
        return "this copy is of a group already, waits for one, or has lost what it had promised";
    struct order *order = order_new(replica, obey_make_group);
    order->is_forced = is_forced;
    post(order);
    return NULL;
}

static void obey_logged(struct replica *replica, const struct order *order)
{
    const struct members *members = order->members ? &order->members->named : NULL;
    if (replica->founding != REPLICA_NOT_FOUNDING)
        replica_group_logged(replica, order->index, order->term, members);
    else
        replica_step_logged(replica, order->index, order->term, members);
}

void replica_logged(struct replica *replica, uint64_t index, uint64_t term,
                    const struct members *members)
{
    struct order *order = order_new(replica, obey_logged);
    order->index = index;
    order->term = term;
    if (members) {
        order->members = calloc(1, sizeof *order->members);
        CHECK(order->members);
        replica_members_set(order->members, members);
    }
    post(order);
}

static void obey_append(struct replica *replica, const struct order *order)
{
    replica_append_own(replica, order->record);
}

void replica_append(struct replica *replica, struct bytes record)
{
    struct order *order = order_new(replica, obey_append);
    order->record = own_record_new(record);
    post(order);
}

static void obey_hand_over(struct replica *replica, const struct order *order)
{
    replica_change_hand_over(replica, bytes_of(order->address));
}

void replica_hand_over(struct replica *replica, const char *address)
{
    struct order *order = order_new(replica, obey_hand_over);
    order->address = text_copy(address);
    post(order);
}

static void obey_serves(struct replica *replica, const struct order *order)
{
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_SERVES, .term = order->term});
}

void replica_serves(struct replica *replica, uint64_t term)
{
    struct order *order = order_new(replica, obey_serves);
    order->term = term;
    post(order);
}

static void obey_await(struct replica *replica, const struct order *order)
{
    if (order->index > replica->told.awaited)
        replica->told.awaited = order->index;
    replica_step(replica, (struct consensus_event){.kind = CONSENSUS_COMMITTED,
                                                   .term = order->term,
                                                   .index = order->index});
    if (replica->has_core && replica->timing.is_telling)
        replica_tell_rest(replica);
}

void replica_await_committed(struct replica *replica, uint64_t term, uint64_t index)
{
    struct order *order = order_new(replica, obey_await);
    order->term = term;
    order->index = index;
    post(order);
}

void replica_applied(struct replica *replica, uint64_t index)
{
    atomic_store(&replica->shown.applied, index);
}

bool replica_may_serve(const struct replica *replica, uint64_t now_us)
{
    return now_us < atomic_load(&replica->shown.lease_us);
}

/* The index is read first: if the copy served the term after that, no other leader's record was meant. */
bool replica_has_committed(const struct replica *replica, uint64_t term, uint64_t index)
{
    return atomic_load(&replica->shown.committed) >= index &&
           atomic_load(&replica->shown.served_term) == term;
}

const _Atomic uint64_t *replica_lease(const struct replica *replica)
{
    return &replica->shown.lease_us;
}

void replica_take_stream(struct replica *replica, struct stream *stream,
                         const struct peer_identity *peer)
{
    if (replica->net.links)
        replica_links_adopt(replica->net.links, stream, peer);
    else
        stream_abort(stream);
}
