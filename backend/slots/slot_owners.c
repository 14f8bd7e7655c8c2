#include "backend/slots/slot_owners.h"

#include "backend/context/cluster_clock.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/session/limits.h"
#include "backend/session/pause.h"
#include "backend/session/session.h"
#include "backend/slots/cluster_nodes.h"
#include "backend/slots/slot_owners_inner.h"
#include "backend/slots/slot_table.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_SHOWN_BYTES = 128 };

static void drop_others(struct slot_owners *owners)
{
    owners->generation++;
    free(owners->others);
    owners->others = NULL;
    owners->others_count = 0;
}

static void drop_map(struct slot_owners *owners)
{
    shard_map_unref(owners->map);
    owners->map = NULL;
    drop_others(owners);
}

void slot_owners_free(struct slot_owners *owners)
{
    if (!owners)
        return;
    drop_map(owners);
    shard_names_fini(&owners->names);
    free(owners->answer.data);
    free(owners);
}

/* ---- what is here ---- */

const char *owners_by_map(const struct slot_owners *owners, uint16_t slot)
{
    const struct shard_map *map = owners->map;
    return map ? map->shards[shard_map_find(map, slot)].name : NULL;
}

bool owners_is_own_by_map(const struct slot_owners *owners, uint16_t slot)
{
    const char *name = owners_by_map(owners, slot);
    return name && strcmp(name, owners_own_name(owners)) == 0;
}

void owners_set_held(struct slot_owners *owners, bool awaits_claim)
{
    struct partition_shards *shards = &owners->partition->shards;
    bool was_held = shards->is_held;
    owners->awaits_claim = awaits_claim;
    bool has_peers = shards->is_gated && *owners_own_name(owners);
    shards->is_held =
        awaits_claim || (has_peers && !cluster_clock_is_known(owners->partition->process->clock));
    if (was_held && !shards->is_held)
        partition_resume(owners->partition);
}

void owners_wake_unknown(struct slot_owners *owners)
{
    struct partition_shards *shards = &owners->partition->shards;
    if (!shards->unknown_until_ms)
        return;
    shards->unknown_until_ms = 0;
    partition_resume(owners->partition);
}

/* Does another backend serve what the records say that this partition owns? */
static bool is_served_elsewhere(const struct slot_owners *owners)
{
    return owners->partition->shards.peers &&
           peer_set_is_elsewhere(owners->partition->shards.peers);
}

/* A record of a slot that was given away names its next owner; of one that arrives, its owner so far. */
static void learn_from_record(struct slot_owners *owners, uint16_t slot)
{
    const struct slot_record *record = slot_table_get(owners_table(owners), slot);
    bool names_owner = record->state == SLOT_RELEASED || record->state == SLOT_IMPORTING ||
                       record->state == SLOT_STAGED;
    if (!names_owner || record->epoch <= owners->epoch[slot])
        return;
    owners->owner[slot] = (uint16_t)(owners_name_index(owners, bytes_of(record->peer)) + 1);
    owners->epoch[slot] = record->epoch;
    owners->doubts.doubtful.words[slot / 64] &= ~((uint64_t)1 << slot % 64);
}

/* What was known of a slot before it came here is of no use any more, unless it is lost to the shard of the map (slot_claim.c). Its epoch
 * may have been forged, and would hide to which shard this one gives the slot. */
static void forget_owner_before(struct slot_owners *owners, uint16_t slot)
{
    const char *known = owners_known(owners, slot);
    const char *by_map = owners_by_map(owners, slot);
    if (!known || slot_set_has(&owners->doubts.lost, slot) ||
        (by_map && strcmp(known, by_map) == 0))
        return;
    owners->owner[slot] = 0;
    owners->epoch[slot] = 0;
}

/* The partition serves these slots from now on. */
static void serve_here(struct slot_owners *owners, const struct slot_set *here)
{
    struct partition_shards *shards = &owners->partition->shards;
    shards->here = here;
    limits_measure_all(owners->partition);
    space_serve(owners->partition->spaces, here);
    limits_note_left_all(owners->partition);
    overlay_stamp_all(owners->partition->overlay);
    expiry_restart(owners->partition->expiry.keys); /* keys of new slots may have expired */
    shards->here_version++;
    shards->here_sum = slot_set_sum(here);
}

/* A copy that follows has no links, by which a map comes into force: it only says where slots are by the newest map. When it leads, the
 * map comes into force as after a start. */
static void follow_map(struct slot_owners *owners)
{
    const struct partition *partition = owners->partition;
    const struct shard_map *map = partition->copies.is_following ? partition->snapshot->map : NULL;
    if (!partition->copies.is_closed || map == owners->map)
        return;
    drop_map(owners);
    owners->map = map ? shard_map_ref((struct shard_map *)map) : NULL;
}

void slot_owners_reload(struct slot_owners *owners)
{
    struct partition_shards *shards = &owners->partition->shards;
    const struct slot_set before = owners->here;
    memset(&owners->here, 0, sizeof owners->here);
    uint32_t count = 0;
    owners->answer.made_ms = 0;
    follow_map(owners);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        learn_from_record(owners, (uint16_t)slot);
        if (!is_owned_state(slot_table_state(owners_table(owners), (uint16_t)slot)) ||
            is_served_elsewhere(owners)) {
            owners->doubts.lost.words[slot / 64] &= ~((uint64_t)1 << slot % 64);
            owners->doubts.rival[slot] = 0;
            continue;
        }
        forget_owner_before(owners, (uint16_t)slot);
        owners->here.words[slot / 64] |= (uint64_t)1 << slot % 64;
        count++;
    }
    shards->is_gated = owners->map && (*owners_own_name(owners) || owners_have_records(owners));
    const struct slot_set *here = shards->is_gated && count < SLOT_COUNT ? &owners->here : NULL;
    if (here != shards->here || memcmp(&before, &owners->here, sizeof before) != 0)
        serve_here(owners, here);
    shards->has_changed = true;
    owners_wake_unknown(owners);
    if (!shards->is_gated)
        owners_set_held(owners, false);
}

/* ---- the name ---- */

static void load_name(struct slot_owners *owners)
{
    struct slice value;
    owners->name[0] = 0;
    if (overlay_get(owners->partition->overlay, CF_SYSTEM, shard_name_key(), &value) != OK)
        return;
    if (value.len <= SHARD_NAME_MAX)
        (void)snprintf(owners->name, sizeof owners->name, "%.*s", (int)value.len, value.data);
    slice_release(&value);
}

/* Stores the name that the map gives to this shard, if it has another one. */
static void keep_name(struct slot_owners *owners)
{
    struct partition *partition = owners->partition;
    struct call call;
    const char *own = owners_own_name(owners);
    if (strcmp(owners->name, own) == 0 || commit_is_failed(partition->commit, NULL))
        return;
    internal_call_begin(partition, &call);
    overlay_put(partition->overlay, CF_SYSTEM, shard_name_key(), bytes_of(own));
    internal_call_end(partition, &call);
    (void)snprintf(owners->name, sizeof owners->name, "%s", own);
}

void slot_owners_load(struct slot_owners *owners)
{
    load_name(owners);
    slot_owners_reload(owners);
    owners->known.is_loaded = false; /* a leader may have stored more */
    owners_load_known(owners);
}

const char *slot_owners_name(const struct slot_owners *owners)
{
    return owners->name;
}

/* Is the slot on its way to this shard or from it? */
static bool is_in_transit(const struct slot_record *record)
{
    return record->state == SLOT_IMPORTING || record->state == SLOT_STAGED ||
           (record->state == SLOT_RELEASED && record->migration);
}

static bool has_moving(const struct slot_owners *owners)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (is_in_transit(slot_table_get(owners_table(owners), (uint16_t)slot)))
            return true;
    return false;
}

/* Logs once that this shard has given away all slots and gets none by the map: its process may stop. */
static void check_drained(struct slot_owners *owners)
{
    const struct slot_table *table = owners_table(owners);
    int own = shard_map_named(owners->map, bytes_of(owners_own_name(owners)));
    bool is_wanted = own >= 0 && owners->map->shards[own].slot_count > 0;
    bool is_drained = !is_wanted && !slot_table_count(table, SLOT_OWNED) &&
                      !slot_table_count(table, SLOT_EXPORTING) &&
                      slot_table_count(table, SLOT_RELEASED) && !has_moving(owners);
    if (is_drained && !owners->logged.is_drained)
        log_event(LOG_INFO, "shard_drained", "partition=%u shard=%s epoch=%" PRIu64,
                  owners->partition->index, owners_own_name(owners), owners->map->epoch);
    owners->logged.is_drained = is_drained;
}

/* ---- a new map ---- */

static void list_others(struct slot_owners *owners)
{
    const char *own = owners_own_name(owners);
    owners->others = calloc(owners->map->shard_count, sizeof *owners->others);
    CHECK(owners->others);
    for (size_t i = 0; *own && i < owners->map->shard_count; i++)
        if (strcmp(owners->map->shards[i].name, own) != 0)
            owners->others[owners->others_count++].name = owners->map->shards[i].name;
    owners->links = (uint32_t)owners->others_count;
}

void slot_owners_configure(struct slot_owners *owners)
{
    struct partition *partition = owners->partition;
    const struct shard_map *map = peer_set_map(partition->shards.peers);
    bool is_same = map && map == owners->map;
    bool is_held = is_same && owners->awaits_claim;
    if (!is_same || !owners->others) /* a copy that leads from now on has heard of no other yet */
        owners->since_ms = loop_mono_ms(partition->loop);
    drop_map(owners);
    if (map) {
        owners->map = shard_map_ref((struct shard_map *)map);
        owners->hash = shard_map_slots_hash(map);
        list_others(owners);
    }
    slot_owners_reload(owners);
    owners_set_held(owners,
                    partition->shards.is_gated && (is_held || !owners_have_records(owners)));
}

void slot_owners_step_down(struct slot_owners *owners)
{
    owners->is_forced = owners->may_have_lost = false;
    drop_others(owners);
}

bool owners_is_listed(const struct slot_owners *owners, const char *name)
{
    for (size_t i = 0; i < owners->others_count; i++)
        if (strcmp(owners->others[i].name, name) == 0)
            return true;
    return false;
}

/* peer_each_link_fn: lists a shard that has left the map, but still owns slots: perhaps only its own answer names them. */
static void list_leaving(void *owner, struct peer_link *link)
{
    struct slot_owners *owners = owner;
    if (shard_map_named(owners->map, bytes_of(link->shard)) >= 0 ||
        owners_is_listed(owners, link->shard))
        return;
    const uint16_t name = owners_name_index(owners, bytes_of(link->shard));
    owners->others = realloc(owners->others, (owners->others_count + 1) * sizeof *owners->others);
    CHECK(owners->others);
    owners->others[owners->others_count++] =
        (struct other_shard){.name = owners->names.texts[name]};
}

static void list_all_leaving(struct slot_owners *owners)
{
    struct peer_set *peers = owners->partition->shards.peers;
    uint32_t links = peer_set_links(peers);
    if (links != owners->links)
        peer_set_each_link(peers, list_leaving, owners);
    owners->links = links;
}

bool slot_owners_is_claiming(const struct slot_owners *owners)
{
    return owners->awaits_claim;
}

/* ---- owners of other slots ---- */

static const char *owner_since(const struct partition *partition, uint16_t slot, uint64_t *epoch)
{
    const struct slot_owners *owners = partition->shards.owners;
    const struct slot_record *record = slot_table_get(partition->shards.slots, slot);
    bool is_gated = partition->shards.is_gated;
    bool is_own = is_gated && is_owned_state(record->state) && !is_served_elsewhere(owners);
    bool is_known = is_gated && !is_own && owners_known(owners, slot);
    *epoch = is_own ? record->epoch : is_known ? owners->epoch[slot] : 0;
    if (is_own)
        return owners_own_name(owners);
    if (is_known)
        return owners_known(owners, slot);
    return is_gated && owners_is_own_by_map(owners, slot) ? NULL : owners_by_map(owners, slot);
}

/* partition_shards.slot_owner */
static const char *slot_owner(const struct partition *partition, uint16_t slot)
{
    uint64_t epoch;
    return owner_since(partition, slot, &epoch);
}

void slot_owners_tick(struct slot_owners *owners)
{
    uint64_t now_ms = loop_mono_ms(owners->partition->loop);
    if (!owners->map || !*owners_own_name(owners) || owners->partition->thread.is_stopping)
        return;
    owners_load_known(owners);
    slot_table_keep_origins(owners->partition->shards.slots);
    list_all_leaving(owners);
    for (size_t i = 0; i < owners->others_count; i++)
        owners_ask(owners, i, now_ms);
    owners_claim_step(owners, now_ms);
    /* The name is written in the same batch as the claim: a shard that the next map leaves out is known to others only by its
     * stored name, and needs it to give its slots away. */
    if (owners_have_records(owners) || owners->claims_open)
        keep_name(owners);
    if (owners_have_records(owners)) {
        check_drained(owners);
        owners_keep_known(owners, now_ms);
    }
    if (owners->awaits_claim)
        owners_check_held(owners, now_ms);
    else if (owners->partition->shards.is_held)
        owners_set_held(owners, false);
}

/* ---- wishes ---- */

const char *slot_owners_wish(const struct slot_owners *owners, uint16_t slot, uint64_t *wish)
{
    const struct slot_record *record = slot_table_get(owners_table(owners), slot);
    if (!owners->map || record->state != SLOT_OWNED || owners->map->epoch <= record->wish ||
        owners_is_own_by_map(owners, slot) || is_served_elsewhere(owners))
        return NULL;
    *wish = owners->map->epoch;
    return owners_by_map(owners, slot);
}

unsigned slot_owners_wishes(const struct slot_owners *owners, uint16_t first, uint16_t last,
                            const char *shard)
{
    unsigned count = 0;
    for (unsigned slot = first; slot <= last; slot++) {
        const char *name = owners_by_map(owners, (uint16_t)slot);
        count += name && strcmp(name, shard) == 0;
    }
    return count;
}

const char *slot_owners_wait(const struct slot_owners *owners)
{
    const struct peer_set *peers = owners->partition->shards.peers;
    uint64_t hash = owners->map ? shard_map_hash(owners->map) : 0;
    if (!owners->map || !owners->partition->shards.is_gated || owners->claims_open)
        return "the slots are not claimed yet";
    if (is_served_elsewhere(owners))
        return "the shard map has this shard at another address";
    for (size_t i = 0; i < owners->others_count; i++) {
        const struct peer_link *link = peer_set_find(peers, bytes_of(owners->others[i].name));
        if (!link || link->state != PEER_LINK_UP)
            continue;
        if (link->peer.map_epoch > owners->map->epoch)
            return "another shard has a newer shard map";
        if (link->peer.map_epoch == owners->map->epoch && link->peer.map_hash != hash)
            return "another shard has another shard map of the same epoch";
    }
    return NULL;
}

struct refusal slot_owners_refuse(const struct slot_owners *owners, uint16_t first, uint16_t last,
                                  uint64_t wish)
{
    if (!owners->map || !*owners_own_name(owners) || owners->claims_open)
        return REFUSAL(WAIT, "it has no place in its shard map yet");
    if (owners->map->epoch > wish)
        return REFUSAL(WAIT, "it has a newer shard map");
    for (unsigned slot = first; owners->map->epoch == wish && slot <= last; slot++)
        if (!owners_is_own_by_map(owners, (uint16_t)slot))
            return REFUSAL(WAIT, "it has another shard map of the same epoch");
    return NO_REFUSAL;
}

/* ---- refusing ---- */

static const char *arena_text(struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *arena_text(struct call *call, const char *format, ...)
{
    enum { TEXT_MAX = 768 };
    char *text = arena_alloc(call->arena, TEXT_MAX);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, TEXT_MAX, format, args);
    va_end(args);
    return text;
}

/* For a client that is no proxy. */
static const char *refusal_of_node(struct call *call, uint16_t slot, const char *owner)
{
    struct cluster_node node;
    if (!owner || !cluster_nodes_find(call, owner, &node))
        return "CLUSTERDOWN Hash slot not served";
    return arena_text(call, "MOVED %u %s:%d", slot, node.host, node.port);
}

/* partition_shards.slot_refusal */
static const char *slot_refusal(struct call *call, uint16_t slot, struct bytes key)
{
    const struct session *session = call->session;
    uint64_t epoch;
    bool is_expected =
        !call->partition->shards.is_gated ||
        (session && (session->login.follows_bounces || !slot_set_has(session->scope.slots, slot)));
    if (call->in_script && (is_expected || !session || !session->login.is_internal))
        return "ERR Script attempted to access a non local key in a cluster node";
    if (is_expected)
        return arena_text(call,
                          "ERR the key '%.*s' is on another shard: all keys of a command must be "
                          "on one shard. Give their names a common {tag}",
                          (int)(key.len < KEY_SHOWN_BYTES ? key.len : KEY_SHOWN_BYTES), key.data);
    const char *owner = owner_since(call->partition, slot, &epoch);
    if (is_served_elsewhere(call->partition->shards.owners))
        return "TRYAGAIN the shard map has this backend's shard at another address: it serves no "
               "key, because the backend there does";
    if (!session || !session->login.is_internal)
        return refusal_of_node(call, slot, owner);
    const char *own = owners_own_name(call->partition->shards.owners);
    if (!owner && call->partition->shards.owners->has_lost_slots)
        return arena_text(call,
                          "TRYAGAIN shard '%s' has lost slot %u: its disk is empty, and no other "
                          "shard owns the slot",
                          own, slot);
    if (!owner)
        return arena_text(call,
                          "TRYAGAIN no shard owns slot %u yet: shard '%s', to which the map gives "
                          "it, claims it when all other shards of its map have answered",
                          slot, own);
    return arena_text(
        call, "TRYAGAIN slot %u is owned by shard '%s' (epoch %" PRIu64 ") and not by shard '%s'",
        slot, owner, epoch, own);
}

struct slot_owners *slot_owners_new(struct partition *partition)
{
    struct slot_owners *owners = calloc(1, sizeof *owners);
    CHECK(owners);
    owners->partition = partition;
    shard_names_init(&owners->names);
    owners->was_written = partition->batch.index > 0;
    partition->shards.here_version = 1;
    load_name(owners);
    partition->shards.slot_refusal = slot_refusal;
    partition->shards.find_owner = owners_find_run;
    partition->shards.slot_owner = slot_owner;
    return owners;
}
