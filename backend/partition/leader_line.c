#include "backend/partition/leader_line.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition/hand_over.h"
#include "backend/peer/link.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica.h"
#include "backend/slots/cluster_heard.h"
#include "backend/slots/peering.h"
#include "backend/slots/slot_owners.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/out.h"
#include "shared/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    ASK_MS = 100,
    ASK_BYTES = 4 << 10, /* a reply that is longer is asked for less often */
    OUTSTANDING_MAX = 16,
};

struct leader_line {
    struct partition *partition;
    uint64_t epoch; /* of the configuration by which `self` was made */
    struct peer_self self;
    struct peer_link *link; /* NULL: no other copy is known to lead */
    uint32_t listeners;
    struct peer_request leaders, lead, index;
    uint64_t ask_ms; /* monotonic: LEADERS is asked then */
};

/* ---- LEADERS ----------------------------------------------------------------------------------- */

static void describe_own(const struct partition *partition, struct heard_shard *to)
{
    *to = (struct heard_shard){.offset = partition->batch.index};
    peering_address(partition, to->leader, sizeof to->leader);
    peering_copies(partition, &to->copies);
}

static void describe_other(const struct partition *partition, const struct shard *shard,
                           struct heard_shard *to)
{
    const struct peer_set *peers = partition->shards.peers;
    const struct peer_link *link = peer_set_find(peers, bytes_of(shard->name));
    *to = (struct heard_shard){.is_lost = !link || link->state != PEER_LINK_UP};
    (void)snprintf(to->leader, sizeof to->leader, "%s", peer_set_leader(peers, shard));
    if (!link)
        return;
    to->offset = link->peer.log_index;
    to->copies = link->peer.copies;
    if (link->silence.heard_ms)
        to->heard_ms = loop_wall_ms(partition->loop) -
                       (loop_mono_ms(partition->loop) - link->silence.heard_ms);
}

static void describe_all(const struct partition *partition, struct out *out)
{
    const struct shard_map *map = peer_set_map(partition->shards.peers);
    const char *own = peer_set_shard(partition->shards.peers);
    struct heard_shard shard;
    for (size_t i = 0; map && i < map->shard_count; i++) {
        if (strcmp(map->shards[i].name, own) == 0)
            describe_own(partition, &shard);
        else
            describe_other(partition, &map->shards[i], &shard);
        cluster_heard_write(map->shards[i].name, &shard, out);
    }
}

/* Its memory comes from malloc. */
static struct bytes described(const struct partition *partition)
{
    struct out out;
    out_init(&out);
    describe_all(partition, &out);
    return out_take(&out);
}

/* peer_handle_fn */
void handle_leaders(struct partition *partition, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    struct bytes payload = described(partition);
    peer_incoming_done(incoming, frame->id, payload);
    free((char *)payload.data);
}

void leader_line_remember(struct partition *partition)
{
    struct bytes payload = described(partition);
    (void)cluster_heard_read(payload, &partition->copies.heard);
    free((char *)payload.data);
}

static void on_leaders(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    struct leader_line *line = container_of(request, struct leader_line, leaders);
    uint64_t rounds = 1 + payload.len / ASK_BYTES;
    line->ask_ms = loop_mono_ms(line->partition->loop) + ASK_MS * rounds;
    if (result == PEER_OK)
        (void)cluster_heard_read(payload, &line->partition->copies.heard);
}

static void ask_leaders(struct leader_line *line)
{
    if (line->leaders.id || line->link->state != PEER_LINK_UP ||
        loop_mono_ms(line->partition->loop) < line->ask_ms)
        return;
    line->leaders.on_reply = on_leaders;
    (void)peer_link_send(line->link, &line->leaders, PEER_LEADERS, (struct bytes){"", 0});
}

/* ---- LEAD -------------------------------------------------------------------------------------- */

/* peer_handle_fn. The copy may have asked on a connection that another shard has made: then its address is no copy's. */
void handle_lead(struct partition *partition, struct peer_incoming *incoming,
                 const struct peer_frame *frame)
{
    const char *refusal = hand_over_begin(partition, incoming->peer.address);
    if (refusal) {
        peer_incoming_refuse(incoming, frame->id, REFUSAL(OTHER, refusal));
        return;
    }
    replica_decline(partition->copies.replica, true); /* or the lead would return soon */
    peer_incoming_done(incoming, frame->id, (struct bytes){"", 0});
}

static void on_lead(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    const struct leader_line *line = container_of(request, struct leader_line, lead);
    if (result == PEER_REFUSED)
        log_event(LOG_WARN, "lead_refused", "partition=%u reason=\"%.*s\"", line->partition->index,
                  (int)payload.len, payload.data);
}

const char *leader_line_ask_lead(struct partition *partition)
{
    struct leader_line *line = partition->copies.line;
    if (!line || !line->link || line->link->state != PEER_LINK_UP)
        return "the copy that leads cannot be reached: when it is lost, the others elect one of "
               "them by themselves";
    line->lead.on_reply = on_lead;
    if (!line->lead.id &&
        peer_link_send(line->link, &line->lead, PEER_LEAD, (struct bytes){"", 0}) != PEER_SENT)
        return "the copy that leads has not answered earlier requests yet";
    return NULL;
}

bool leader_line_tell(struct partition *partition, uint8_t kind, struct bytes payload)
{
    struct leader_line *line = partition->copies.line;
    if (!line || !line->link || line->link->state != PEER_LINK_UP)
        return false;
    peer_link_tell(line->link, kind, payload);
    return true;
}

/* ---- READ_INDEX -------------------------------------------------------------------------------- */

/* Replies leave after their records are counted as committed here, so what any client has seen is in the index. During a slow call they leave
 * before (slow_call.h): then the question is refused (messages.def). */
bool leader_line_index(const struct partition *partition, struct read_index *to)
{
    const struct partition_copies *copies = &partition->copies;
    if (copies->is_closed || partition_lease_is_over(partition))
        return false;
    *to = (struct read_index){.generation = copies->generation,
                              .term = copies->term,
                              .index = storage_committed(partition->storage),
                              .time_us = group_clock_us(&copies->time)};
    return true;
}

static void put_index(const struct read_index *index, struct out *out)
{
    message_put_u32(out, index->generation);
    message_put_u64(out, index->term);
    message_put_u64(out, index->index);
    message_put_u64(out, index->time_us);
}

static bool read_index_of(struct bytes payload, struct read_index *to)
{
    struct message_reader reader = message_read(payload);
    to->generation = message_u32(&reader);
    to->term = message_u64(&reader);
    to->index = message_u64(&reader);
    to->time_us = message_u64(&reader);
    return message_is_read(&reader);
}

/* peer_handle_fn */
void handle_read_index(struct partition *partition, struct peer_incoming *incoming,
                       const struct peer_frame *frame)
{
    struct read_index index;
    struct out out;
    if (!leader_line_index(partition, &index)) {
        peer_incoming_refuse(incoming, frame->id, REFUSAL(OTHER, "this copy does not lead"));
        return;
    }
    out_init(&out);
    put_index(&index, &out);
    struct bytes payload = out_take(&out);
    peer_incoming_done(incoming, frame->id, payload);
    free((char *)payload.data);
}

/* The copy may have the records, and not have heard yet that they are committed. */
static void await_index(const struct partition *partition, const struct read_index *index)
{
    if (index->index > storage_committed(partition->storage))
        replica_await_committed(partition->copies.replica, index->term, index->index);
}

static void on_index(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    const struct leader_line *line = container_of(request, struct leader_line, index);
    struct read_index index;
    bool is_answered = result == PEER_OK && read_index_of(payload, &index);
    if (is_answered)
        await_index(line->partition, &index);
    fresh_reads_answered(line->partition, is_answered ? &index : NULL);
}

bool leader_line_ask_index(struct partition *partition)
{
    struct leader_line *line = partition->copies.line;
    if (!line || !line->link || line->link->state != PEER_LINK_UP)
        return false;
    line->index.on_reply = on_index;
    return peer_link_send(line->link, &line->index, PEER_READ_INDEX, (struct bytes){"", 0}) ==
           PEER_SENT;
}

/* ---- the connection ---------------------------------------------------------------------------- */

static uint64_t batch_index_of(void *owner)
{
    const struct partition *partition = owner;
    return partition->batch.index;
}

static void close_line(struct leader_line *line)
{
    if (!line->link)
        return;
    peer_link_free(line->link);
    line->link = NULL;
}

static void name_self(struct leader_line *line)
{
    const struct partition *partition = line->partition;
    const struct config_snapshot *snapshot = partition->snapshot;
    struct peer_identity *identity = &line->self.identity;
    line->epoch = snapshot->epoch;
    *identity = (struct peer_identity){.map_epoch = snapshot->map ? snapshot->map->epoch : 0};
    (void)snprintf(identity->run_id, sizeof identity->run_id, "%s", partition->process->run_id);
    (void)snprintf(identity->version, sizeof identity->version, "%s", SCREE_VERSION);
    (void)snprintf(identity->shard, sizeof identity->shard, "%s",
                   slot_owners_name(partition->shards.owners));
    peering_address(partition, identity->address, sizeof identity->address);
    line->self.options = peering_options(partition);
    line->self.options.requests_max = OUTSTANDING_MAX;
    peer_self_set_credentials(&line->self, snapshot->config.secret,
                              snapshot->config.secret_previous, snapshot->peer_tls);
}

/* Does a setting change with which the connection was made? */
static bool needs_new_line(const struct leader_line *line)
{
    const struct config_snapshot *snapshot = line->partition->snapshot;
    const struct peer_identity *identity = &line->self.identity;
    char address[PEER_ADDRESS_MAX + 1];
    peering_address(line->partition, address, sizeof address);
    return strcmp(identity->address, address) != 0 ||
           strcmp(identity->shard, slot_owners_name(line->partition->shards.owners)) != 0 ||
           !peer_self_has_credentials(&line->self, snapshot->config.secret,
                                      snapshot->config.secret_previous, snapshot->peer_tls);
}

/* Reads at this copy need the connection: it is closed for no other change of the configuration. */
static void take_configuration(struct leader_line *line)
{
    if (!line->link || line->epoch == line->partition->snapshot->epoch)
        return;
    if (needs_new_line(line))
        close_line(line);
    else
        name_self(line);
}

static void open_line(struct leader_line *line, const char *leader)
{
    name_self(line);
    line->link = peer_link_new(&line->self, line->self.identity.shard, leader, NULL);
    line->ask_ms = 0;
}

/* The address of another copy that leads; NULL: none is known to, or the partition does not follow. */
static const char *leader_to_ask(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    bool follows = copies->is_closed && copies->is_following && copies->is_in_group;
    return follows && *copies->leader && *slot_owners_name(partition->shards.owners)
               ? copies->leader
               : NULL;
}

static struct leader_line *line_new(struct partition *partition)
{
    struct leader_line *line = calloc(1, sizeof *line);
    CHECK(line);
    line->partition = partition;
    list_init(&line->leaders.link);
    list_init(&line->lead.link);
    list_init(&line->index.link);
    line->self = (struct peer_self){
        .loop = partition->loop,
        .word = "FOLLOW",
        .metrics = partition->metrics.process,
        .counts_links = true,
        .hybrid = &partition->batch.hybrid,
        .current_index = batch_index_of,
        .listeners = &line->listeners,
        .owner = partition,
    };
    return line;
}

static bool may_have_line(const struct partition *partition)
{
    return partition->copies.leadership && partition->copies.replica &&
           !partition->thread.is_stopping;
}

static void connect_line(struct leader_line *line)
{
    const char *leader = leader_to_ask(line->partition);
    if (line->link && (!leader || strcasecmp(line->link->address, leader) != 0))
        close_line(line);
    take_configuration(line);
    if (leader && !line->link)
        open_line(line, leader);
}

void leader_line_tick(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    if (!may_have_line(partition))
        return;
    if (!copies->line)
        copies->line = line_new(partition);
    connect_line(copies->line);
    if (!copies->line->link)
        return;
    peer_link_tick(copies->line->link);
    ask_leaders(copies->line);
}

void leader_line_free(struct partition *partition)
{
    struct partition_copies *copies = &partition->copies;
    cluster_heard_free(copies->heard);
    copies->heard = NULL;
    if (!copies->line)
        return;
    close_line(copies->line);
    peer_self_free_credentials(&copies->line->self);
    free(copies->line);
    copies->line = NULL;
}
