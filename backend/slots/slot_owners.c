#include "backend/slots/slot_owners.h"

#include "backend/context/cluster_clock.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/session/limits.h"
#include "backend/session/pause.h"
#include "backend/session/session.h"
#include "backend/slots/cluster_nodes.h"
#include "backend/slots/slot_table.h"
#include "shared/log.h"
#include "shared/out.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ANSWER_FORMAT = 1,
    ANSWER_UNCHANGED = 2, /* in place of the format: the shard that asks has this answer */
    ANSWER_KEPT_MS = 100,
    KNOWN_KEPT_MS = 500,
    ASKS_A_WHOLE = 30, /* every so many questions the whole answer is wanted */
    ASK_JOINING_MS = 100,
    ASK_CALM_MS = 2000,
    CLAIM_AFTER_MS = 1000,
    HOLD_MS = 3000,
    KEY_SHOWN_BYTES = 128,
    RUN_MAX = 1024, /* slots on each side, for slot_owners_run_of */
};

/* State of a shard, as its last answer gave it. */
enum answer_state {
    ANSWER_NONE,
    ANSWER_JOINING,  /* it has no records */
    ANSWER_CLAIMING, /* its first records are not durable yet */
    ANSWER_OWNER,    /* it has records */
    ANSWER_OLD,      /* its version has no records */
};

/* The source of a report about a slot's owner: the owner's durable records, its claim that is not durable yet, or another shard. */
enum owner_report { REPORT_OF_OWNER, REPORT_OF_CLAIM, REPORT_OF_ANOTHER };

/* Another shard: of the map, or one that is not in it any more, and is linked while it gives its slots away. */
struct other_shard {
    const char *name; /* of the map, or of `names` */
    bool is_asked;
    uint64_t ask_ms; /* monotonic: when to ask again */
    enum answer_state state;
    uint64_t hash; /* of the map's slots: of those that it claimed, or that it would claim */
    uint64_t told; /* hash of its last answer; 0: the whole answer is wanted */
    uint32_t asks;
};

/* The answer to SLOTS. With many shards it is long and rarely changes. So it is kept for ANSWER_KEPT_MS, and a shard that has received it
 * before gets one byte. That an answer is this old does no harm, as messages may be late anyway. */
struct slots_answer {
    char *data;
    size_t len;
    uint64_t hash; /* not 0 */
    uint64_t made_ms;
};

/* The stored runs (slot_owners_key). */
struct known_owners {
    bool is_loaded;
    uint64_t hash;  /* 0: none were stored since the start */
    uint64_t at_ms; /* monotonic: when they were compared with what is known */
};

/* What was logged. */
struct owners_logged {
    bool is_double;  /* two shards own a slot */
    bool is_drained; /* this shard has no slots any more */
};

struct slot_owners {
    struct partition *partition;
    struct shard_map *map; /* NULL: alone */
    uint64_t generation;   /* of the map: answers to earlier questions are dropped */
    uint64_t hash;         /* of the map's slots */
    struct other_shard *others;
    size_t others_count;
    uint32_t links;    /* number of links when shards that are not in the map were last listed */
    uint64_t since_ms; /* monotonic: when the map came */
    bool was_written;  /* before this start: (3) */
    /* other shards have reported that this one owned slots, and it has no records: (7) */
    bool has_lost_slots;
    uint32_t claims_open; /* changes that are not durable */
    struct owners_logged logged;
    bool is_forced;     /* the next tick claims the slots of lost shards */
    bool may_have_lost; /* another shard has reported a higher epoch for a slot owned here */
    char name[SHARD_NAME_MAX + 1]; /* as in the store (shard_name_key); empty: there is none */
    bool awaits_claim;             /* commands for data wait for it */
    bool has_learned;              /* an answer has named an owner that was not known */
    struct slots_answer answer;
    struct known_owners known;
    struct slot_set here;
    struct slot_set claimed; /* slots whose owner has reported a claim that was not durable yet */
    char **names;            /* of shards that own slots; heap */
    uint16_t names_count;
    uint16_t owner[SLOT_COUNT]; /* 1 + index in names; 0: not known */
    uint64_t epoch[SLOT_COUNT]; /* of this owner */
};

/* A question to another shard. */
struct slots_request {
    struct peer_request request;
    struct slot_owners *owners;
    uint64_t generation;
    size_t other;
};

static void drop_map(struct slot_owners *owners)
{
    shard_map_unref(owners->map);
    owners->map = NULL;
    owners->generation++;
    free(owners->others);
    owners->others = NULL;
    owners->others_count = 0;
}

void slot_owners_free(struct slot_owners *owners)
{
    if (!owners)
        return;
    drop_map(owners);
    for (uint16_t i = 0; i < owners->names_count; i++)
        free(owners->names[i]);
    free((void *)owners->names);
    free(owners->answer.data);
    free(owners);
}

/* ---- what is here ---- */

static const struct slot_table *table_of(const struct slot_owners *owners)
{
    return owners->partition->shards.slots;
}

static const char *own_name(const struct slot_owners *owners)
{
    return owners->partition->shards.peers ? peer_set_shard(owners->partition->shards.peers) : "";
}

/* The shard to which the map gives the slot; NULL: there is no map. */
static const char *owner_by_map(const struct slot_owners *owners, uint16_t slot)
{
    const struct shard_map *map = owners->map;
    return map ? map->shards[shard_map_find(map, slot)].name : NULL;
}

static bool is_own_by_map(const struct slot_owners *owners, uint16_t slot)
{
    const char *name = owner_by_map(owners, slot);
    return name && strcmp(name, own_name(owners)) == 0;
}

static bool has_records(const struct slot_owners *owners)
{
    return slot_table_count(table_of(owners), SLOT_NONE) < SLOT_COUNT;
}

static bool is_owned_state(uint8_t state)
{
    return state == SLOT_OWNED || state == SLOT_EXPORTING || state == SLOT_FROZEN;
}

/* Commands wait for the claim and for the time of the cluster (cluster_clock.h), or no longer. */
static void set_held(struct slot_owners *owners, bool awaits_claim)
{
    struct partition_shards *shards = &owners->partition->shards;
    bool was_held = shards->is_held;
    owners->awaits_claim = awaits_claim;
    bool has_peers = shards->is_gated && *own_name(owners);
    shards->is_held =
        awaits_claim || (has_peers && !cluster_clock_is_known(owners->partition->process->clock));
    if (was_held && !shards->is_held)
        partition_resume(owners->partition);
}

/* Owners have changed: requests that wait because the owner of their slot was not known run again. */
static void wake_unknown(struct slot_owners *owners)
{
    struct partition_shards *shards = &owners->partition->shards;
    if (!shards->unknown_until_ms)
        return;
    shards->unknown_until_ms = 0;
    partition_resume(owners->partition);
}

static uint16_t index_of_name(struct slot_owners *owners, struct bytes name);
static void load_known(struct slot_owners *owners);

/* Does another backend serve what the records say that this partition owns? */
static bool is_served_elsewhere(const struct slot_owners *owners)
{
    return owners->partition->shards.peers &&
           peer_set_is_elsewhere(owners->partition->shards.peers);
}

/* A record of a slot that was given away names its next owner; of one that arrives, its owner so far. */
static void learn_from_record(struct slot_owners *owners, uint16_t slot)
{
    const struct slot_record *record = slot_table_get(table_of(owners), slot);
    bool names_owner = record->state == SLOT_RELEASED || record->state == SLOT_IMPORTING ||
                       record->state == SLOT_STAGED;
    if (!names_owner || record->epoch <= owners->epoch[slot])
        return;
    owners->owner[slot] = (uint16_t)(index_of_name(owners, bytes_of(record->peer)) + 1);
    owners->epoch[slot] = record->epoch;
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

void slot_owners_reload(struct slot_owners *owners)
{
    struct partition_shards *shards = &owners->partition->shards;
    const struct slot_set before = owners->here;
    memset(&owners->here, 0, sizeof owners->here);
    uint32_t count = 0;
    owners->answer.made_ms = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        learn_from_record(owners, (uint16_t)slot);
        if (!is_owned_state(slot_table_state(table_of(owners), (uint16_t)slot)) ||
            is_served_elsewhere(owners))
            continue;
        owners->here.words[slot / 64] |= (uint64_t)1 << slot % 64;
        count++;
    }
    shards->is_gated = owners->map && (*own_name(owners) || has_records(owners));
    const struct slot_set *here = shards->is_gated && count < SLOT_COUNT ? &owners->here : NULL;
    if (here != shards->here || memcmp(&before, &owners->here, sizeof before) != 0)
        serve_here(owners, here);
    shards->has_changed = true;
    wake_unknown(owners);
    if (!shards->is_gated)
        set_held(owners, false);
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
    const char *own = own_name(owners);
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
        if (is_in_transit(slot_table_get(table_of(owners), (uint16_t)slot)))
            return true;
    return false;
}

/* Logs once that this shard has given away all slots and gets none by the map: its process may stop. */
static void check_drained(struct slot_owners *owners)
{
    const struct slot_table *table = table_of(owners);
    int own = shard_map_named(owners->map, bytes_of(own_name(owners)));
    bool is_wanted = own >= 0 && owners->map->shards[own].slot_count > 0;
    bool is_drained = !is_wanted && !slot_table_count(table, SLOT_OWNED) &&
                      !slot_table_count(table, SLOT_EXPORTING) &&
                      slot_table_count(table, SLOT_RELEASED) && !has_moving(owners);
    if (is_drained && !owners->logged.is_drained)
        log_event(LOG_INFO, "shard_drained", "partition=%u shard=%s epoch=%" PRIu64,
                  owners->partition->index, own_name(owners), owners->map->epoch);
    owners->logged.is_drained = is_drained;
}

/* ---- a new map ---- */

static uint64_t count_keys(const struct slot_owners *owners)
{
    return space_keys_stored(owners->partition->spaces);
}

static void list_others(struct slot_owners *owners)
{
    const char *own = own_name(owners);
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
    if (!is_same)
        owners->since_ms = loop_mono_ms(partition->loop);
    drop_map(owners);
    if (map) {
        owners->map = shard_map_ref((struct shard_map *)map);
        owners->hash = shard_map_slots_hash(map);
        list_others(owners);
    }
    slot_owners_reload(owners);
    set_held(owners, partition->shards.is_gated && (is_held || !has_records(owners)));
}

static bool is_listed(const struct slot_owners *owners, const char *name)
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
    if (shard_map_named(owners->map, bytes_of(link->shard)) >= 0 || is_listed(owners, link->shard))
        return;
    const uint16_t name = index_of_name(owners, bytes_of(link->shard));
    owners->others = realloc(owners->others, (owners->others_count + 1) * sizeof *owners->others);
    CHECK(owners->others);
    owners->others[owners->others_count++] = (struct other_shard){.name = owners->names[name]};
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

static uint16_t index_of_name(struct slot_owners *owners, struct bytes name)
{
    for (uint16_t i = 0; i < owners->names_count; i++)
        if (bytes_equal(bytes_of(owners->names[i]), name))
            return i;
    owners->names =
        (char **)realloc((void *)owners->names, (owners->names_count + 1u) * sizeof *owners->names);
    CHECK(owners->names);
    owners->names[owners->names_count] = strndup(name.data, name.len);
    CHECK(owners->names[owners->names_count]);
    return owners->names_count++;
}

static const char *known_owner(const struct slot_owners *owners, uint16_t slot)
{
    return owners->owner[slot] ? owners->names[owners->owner[slot] - 1] : NULL;
}

static const char *owner_since(const struct partition *partition, uint16_t slot, uint64_t *epoch)
{
    const struct slot_owners *owners = partition->shards.owners;
    const struct slot_record *record = slot_table_get(partition->shards.slots, slot);
    bool is_gated = partition->shards.is_gated;
    bool is_own = is_gated && is_owned_state(record->state) && !is_served_elsewhere(owners);
    bool is_known = is_gated && !is_own && known_owner(owners, slot);
    *epoch = is_own ? record->epoch : is_known ? owners->epoch[slot] : 0;
    if (is_own)
        return own_name(owners);
    if (is_known)
        return known_owner(owners, slot);
    return is_gated && is_own_by_map(owners, slot) ? NULL : owner_by_map(owners, slot);
}

/* partition_shards.slot_owner */
static const char *slot_owner(const struct partition *partition, uint16_t slot)
{
    uint64_t epoch;
    return owner_since(partition, slot, &epoch);
}

/* ---- answering ---- */

/* The epoch of a claim: the slot's last known epoch, if this partition owned the slot and has lost its records; else 1. */
static uint64_t claim_epoch(const struct slot_owners *owners, uint16_t slot)
{
    return owners->epoch[slot] ? owners->epoch[slot] : 1;
}

/* The owner of a slot that an answer names; NULL: none. A claim of another shard that is not durable yet is not passed on: that shard may
 * crash and claim again, which (7) would forbid. */
static const char *told_owner(const struct slot_owners *owners, uint16_t slot, uint64_t *epoch)
{
    const struct slot_record *record = slot_table_get(table_of(owners), slot);
    bool is_claimed =
        owners->claims_open && !known_owner(owners, slot) && is_own_by_map(owners, slot);
    *epoch = is_claimed ? claim_epoch(owners, slot) : record->epoch;
    if (is_claimed || is_owned_state(record->state))
        return own_name(owners);
    *epoch = owners->epoch[slot];
    return slot_set_has(&owners->claimed, slot) ? NULL : known_owner(owners, slot);
}

void slot_owners_each_run(const struct slot_owners *owners, slot_run_fn *on_run, void *owner)
{
    struct slot_run run = {0};
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint64_t epoch;
        const char *shard = told_owner(owners, (uint16_t)slot, &epoch);
        bool goes_on = shard && run.shard == shard && run.epoch == epoch && run.last + 1 == slot;
        if (!goes_on && run.shard)
            on_run(owner, &run);
        if (!goes_on)
            run = (struct slot_run){.first = slot, .shard = shard, .epoch = epoch};
        run.last = slot;
        run.is_here = is_owned_state(slot_table_state(table_of(owners), (uint16_t)slot));
    }
    if (run.shard)
        on_run(owner, &run);
}

static const char *address_of_owner(const struct slot_owners *owners, const char *shard)
{
    int index = owners->map ? shard_map_named(owners->map, bytes_of(shard)) : -1;
    return index >= 0 ? owners->map->shards[index].addresses[0] : NULL;
}

static bool is_same_run(const struct slot_owners *owners, unsigned slot, const struct slot_run *run)
{
    uint64_t epoch;
    const char *shard = told_owner(owners, (uint16_t)slot, &epoch);
    bool is_here = is_owned_state(slot_table_state(table_of(owners), (uint16_t)slot));
    return shard && strcmp(shard, run->shard) == 0 && epoch == run->epoch &&
           is_here == run->is_here;
}

/* partition_shards.find_owner */
static bool find_owner_run(const struct partition *partition, uint16_t slot,
                           struct slot_owner_found *found)
{
    const struct slot_owners *owners = partition->shards.owners;
    uint8_t state = slot_table_state(table_of(owners), slot);
    struct slot_run run = {.first = slot, .last = slot, .is_here = is_owned_state(state)};
    run.shard = told_owner(owners, slot, &run.epoch);
    bool is_coming = state == SLOT_STAGED ||
                     (run.shard && !run.is_here && strcmp(run.shard, own_name(owners)) == 0);
    if (!run.shard || !run.epoch || is_coming)
        return false;
    while (run.first > 0 && slot - run.first < RUN_MAX && is_same_run(owners, run.first - 1, &run))
        run.first--;
    while (run.last + 1 < SLOT_COUNT && run.last - slot < RUN_MAX &&
           is_same_run(owners, run.last + 1, &run))
        run.last++;
    *found = (struct slot_owner_found){.shard = run.shard,
                                       .address = address_of_owner(owners, run.shard),
                                       .epoch = run.epoch,
                                       .first = (uint16_t)run.first,
                                       .last = (uint16_t)run.last};
    return true;
}

/* The hash of the map by which the slots were claimed. */
static uint64_t founding_hash(const struct slot_owners *owners)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        const struct slot_record *record = slot_table_get(table_of(owners), (uint16_t)slot);
        if (record->state == SLOT_OWNED && record->epoch == 1 && record->migration)
            return record->migration;
    }
    return 0;
}

/* slot_run_fn */
static void write_owned_run(void *owner, const struct slot_run *run)
{
    message_put_u32(owner, run->first);
    message_put_u32(owner, run->last);
    message_put_u64(owner, run->epoch);
    message_put_bytes(owner, bytes_of(run->shard));
}

static void write_answer(const struct slot_owners *owners, struct out *out)
{
    bool is_owner = has_records(owners);
    message_put_u8(out, ANSWER_FORMAT);
    message_put_u8(out, is_owner              ? ANSWER_OWNER
                        : owners->claims_open ? ANSWER_CLAIMING
                                              : ANSWER_JOINING);
    message_put_u64(out, is_owner ? founding_hash(owners) : owners->hash);
    slot_owners_each_run(owners, write_owned_run, out);
}

/* Every process computes the same hash for the same answer. It is never 0, which stands for no answer. */
static uint64_t hash_answer(struct bytes answer)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < answer.len; i++)
        hash = (hash ^ (unsigned char)answer.data[i]) * UINT64_C(0x100000001b3);
    return hash | 1;
}

static const struct slots_answer *current_answer(struct slot_owners *owners)
{
    struct slots_answer *answer = &owners->answer;
    uint64_t now_ms = loop_mono_ms(owners->partition->loop);
    struct out out;
    if (answer->made_ms && now_ms < answer->made_ms + ANSWER_KEPT_MS)
        return answer;
    load_known(owners);
    out_init(&out);
    write_answer(owners, &out);
    free(answer->data);
    *answer = (struct slots_answer){
        .data = malloc(out.bytes), .len = out.bytes, .made_ms = now_ms ? now_ms : 1};
    CHECK(answer->data);
    out_copy(&out, answer->data);
    out_clear(&out);
    answer->hash = hash_answer((struct bytes){answer->data, answer->len});
    return answer;
}

/* peer_handle_fn */
void handle_slots(struct partition *partition, struct peer_incoming *incoming,
                  const struct peer_frame *frame)
{
    static const char unchanged[] = {ANSWER_UNCHANGED};
    struct slot_owners *owners = partition->shards.owners;
    const struct slots_answer *answer = current_answer(owners);
    struct message_reader reader = message_read(frame->payload);
    bool is_told = frame->payload.len && message_u64(&reader) == answer->hash && reader.is_good;
    peer_incoming_done(incoming, frame->id,
                       is_told ? (struct bytes){unchanged, sizeof unchanged}
                               : (struct bytes){answer->data, answer->len});
}

/* ---- asking ---- */

static void report_double(struct slot_owners *owners, uint16_t slot, const char *other)
{
    if (owners->logged.is_double)
        return;
    owners->logged.is_double = true;
    log_event(LOG_ERROR, "slot_owned_twice", "partition=%u slot=%u other=%s",
              owners->partition->index, slot, other);
}

static void slot_set_put(struct slot_set *set, uint16_t slot, bool is_in)
{
    uint64_t bit = (uint64_t)1 << slot % 64;
    set->words[slot / 64] = is_in ? set->words[slot / 64] | bit : set->words[slot / 64] & ~bit;
}

/* Another shard reports that this one owns the slot, and it does not. The slot may have been given away since. If this shard has no record
 * at all, it has lost its disk: (7). The epoch is kept, because a later claim must not have a lower one. */
static void learn_own(struct slot_owners *owners, uint16_t slot, uint64_t epoch)
{
    if (has_records(owners) || owners->claims_open)
        return;
    if (!owners->was_written && !owners->has_lost_slots)
        log_event(LOG_ERROR, "slots_lost", "partition=%u shard=%s slot=%u",
                  owners->partition->index, own_name(owners), slot);
    owners->has_lost_slots |= !owners->was_written;
    if (epoch > owners->epoch[slot] && !known_owner(owners, slot))
        owners->epoch[slot] = epoch;
}

/* Handles a report that the shard names[name] owns the slot with this epoch. */
static void learn_owner(struct slot_owners *owners, uint16_t slot, uint16_t name, uint64_t epoch,
                        enum owner_report report)
{
    bool is_its_own = report != REPORT_OF_ANOTHER;
    const struct slot_record *record = slot_table_get(table_of(owners), slot);
    if (is_owned_state(record->state) && epoch <= record->epoch) {
        if (is_its_own && epoch == record->epoch)
            report_double(owners, slot, owners->names[name]);
        return;
    }
    if (strcmp(owners->names[name], own_name(owners)) == 0 ||
        strcmp(owners->names[name], owners->name) == 0) {
        learn_own(owners, slot, epoch);
        return;
    }
    if (epoch > owners->epoch[slot] || (epoch == owners->epoch[slot] && is_its_own)) {
        owners->has_learned |= epoch > owners->epoch[slot];
        owners->owner[slot] = (uint16_t)(name + 1);
        owners->epoch[slot] = epoch;
        slot_set_put(&owners->claimed, slot, report == REPORT_OF_CLAIM);
        owners->may_have_lost |= is_owned_state(record->state);
    }
}

static bool read_owned_run(struct slot_owners *owners, const struct other_shard *other,
                           uint8_t state, struct message_reader *reader)
{
    uint32_t first = message_u32(reader);
    uint32_t last = message_u32(reader);
    uint64_t epoch = message_u64(reader);
    struct bytes name = message_bytes(reader);
    if (!reader->is_good || first > last || last >= SLOT_COUNT || !epoch || !name.len ||
        name.len > SHARD_NAME_MAX || memchr(name.data, 0, name.len))
        return false;
    uint16_t index = index_of_name(owners, name);
    enum owner_report report = !bytes_equal(name, bytes_of(other->name)) ? REPORT_OF_ANOTHER
                               : state == ANSWER_CLAIMING                ? REPORT_OF_CLAIM
                                                                         : REPORT_OF_OWNER;
    for (uint32_t slot = first; slot <= last; slot++)
        learn_owner(owners, (uint16_t)slot, index, epoch, report);
    return true;
}

/* ---- what was known before a restart ---- */

/* Reads the stored runs: the owners that this shard knew before its start. Without them a shard that has lost its disk could claim its
 * first slots again if all shards restart together: (7). */
static void load_known(struct slot_owners *owners)
{
    const struct other_shard before = {.name = ""};
    struct slice value;
    if (owners->known.is_loaded)
        return;
    owners->known.is_loaded = true;
    if (overlay_get(owners->partition->overlay, CF_SYSTEM, slot_owners_key(), &value) != OK)
        return;
    struct message_reader reader = message_read(slice_bytes(&value));
    while (reader.rest.len && read_owned_run(owners, &before, ANSWER_OWNER, &reader))
        ;
    slice_release(&value);
}

/* Stores the runs if they have changed. */
static void keep_known(struct slot_owners *owners, uint64_t now_ms)
{
    struct partition *partition = owners->partition;
    struct call call;
    struct out out;
    if ((owners->known.hash && now_ms < owners->known.at_ms + KNOWN_KEPT_MS) ||
        commit_is_failed(partition->commit, NULL))
        return;
    out_init(&out);
    slot_owners_each_run(owners, write_owned_run, &out);
    struct bytes runs = {malloc(out.bytes + 1), out.bytes};
    CHECK(runs.data);
    out_copy(&out, (char *)runs.data);
    out_clear(&out);
    owners->known.at_ms = now_ms;
    if (hash_answer(runs) != owners->known.hash) {
        internal_call_begin(partition, &call);
        overlay_put(partition->overlay, CF_SYSTEM, slot_owners_key(), runs);
        internal_call_end(partition, &call);
        owners->known.hash = hash_answer(runs);
    }
    free((char *)runs.data);
}

/* Reads an answer. False: it is not valid. */
static bool read_answer(struct slot_owners *owners, struct other_shard *other, struct bytes payload)
{
    if (payload.len == 1 && payload.data[0] == ANSWER_UNCHANGED && other->told)
        return true;
    struct message_reader reader = message_read(payload);
    bool is_good = message_u8(&reader) == ANSWER_FORMAT;
    uint8_t state = message_u8(&reader);
    uint64_t hash = message_u64(&reader);
    is_good = is_good && reader.is_good && state >= ANSWER_JOINING && state <= ANSWER_OWNER;
    while (is_good && reader.rest.len)
        is_good = read_owned_run(owners, other, state, &reader);
    other->state = is_good ? (enum answer_state)state : ANSWER_NONE;
    other->hash = hash;
    other->told = is_good ? hash_answer(payload) : 0;
    return is_good;
}

/* peer_request.on_reply */
static void on_answer(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    struct slots_request *asked = container_of(request, struct slots_request, request);
    struct slot_owners *owners = asked->owners;
    bool is_current = asked->generation == owners->generation;
    struct other_shard *other = is_current ? &owners->others[asked->other] : NULL;
    free(asked);
    if (!other)
        return;
    other->is_asked = false;
    if (result != PEER_OK)
        other->told = 0;
    if (result == PEER_REFUSED)
        other->state = ANSWER_OLD;
    else if (result == PEER_LOST)
        other->state = ANSWER_NONE;
    else if (!read_answer(owners, other, payload))
        log_event(LOG_ERROR, "slots_answer_invalid", "partition=%u shard=%s",
                  owners->partition->index, other->name);
    if (owners->has_learned)
        wake_unknown(owners);
    owners->has_learned = false;
}

/* Is it time to ask the shard? While requests wait for the owner of a slot, all shards are asked more often. */
static bool is_time(const struct slot_owners *owners, const struct other_shard *other,
                    uint64_t now_ms)
{
    bool is_urgent = now_ms < owners->partition->shards.unknown_until_ms;
    return now_ms + (is_urgent ? ASK_CALM_MS - ASK_JOINING_MS : 0) >= other->ask_ms;
}

static void ask_other(struct slot_owners *owners, size_t index, uint64_t now_ms)
{
    struct other_shard *other = &owners->others[index];
    struct peer_link *link = peer_set_find(owners->partition->shards.peers, bytes_of(other->name));
    if (!link || other->is_asked || !is_time(owners, other, now_ms))
        return;
    struct slots_request *asked = calloc(1, sizeof *asked);
    CHECK(asked);
    asked->request.on_reply = on_answer;
    asked->owners = owners;
    asked->generation = owners->generation;
    asked->other = index;
    struct out told;
    char payload[sizeof other->told];
    out_init(&told);
    message_put_u64(&told, other->asks % ASKS_A_WHOLE ? other->told : 0);
    out_copy(&told, payload);
    out_clear(&told);
    if (peer_link_send(link, &asked->request, PEER_SLOTS,
                       (struct bytes){payload, sizeof payload}) != PEER_SENT) {
        free(asked);
        return;
    }
    other->asks++;
    other->is_asked = true;
    bool is_joining = owners->awaits_claim || !has_records(owners);
    other->ask_ms = now_ms + (is_joining ? ASK_JOINING_MS : ASK_CALM_MS);
}

/* ---- claiming ---- */

/* Does the answer of this shard allow a claim? */
static bool allows_claim(const struct slot_owners *owners, const struct other_shard *other)
{
    switch (other->state) {
    case ANSWER_NONE:
        return false;
    case ANSWER_JOINING:
    case ANSWER_CLAIMING:
        return other->hash == owners->hash;
    case ANSWER_OWNER:
        return owners->was_written || other->hash == owners->hash;
    case ANSWER_OLD:
        return true;
    }
    return false;
}

static bool may_claim(const struct slot_owners *owners, uint64_t now_ms)
{
    if (owners->has_lost_slots)
        return false;
    if (owners->was_written && count_keys(owners) && now_ms >= owners->since_ms + CLAIM_AFTER_MS)
        return true;
    for (size_t i = 0; i < owners->others_count; i++)
        if (!allows_claim(owners, &owners->others[i]))
            return false;
    return true;
}

/* Have all other shards answered, and has one of them claimed by another map? Then this shard need not wait for their claims. */
static bool is_joining_late(const struct slot_owners *owners)
{
    bool is_founded = false;
    for (size_t i = 0; i < owners->others_count; i++) {
        if (owners->others[i].state == ANSWER_NONE)
            return false;
        is_founded |=
            owners->others[i].state == ANSWER_OWNER && owners->others[i].hash != owners->hash;
    }
    return is_founded;
}

/* slot_changed_fn */
static void claim_ended(void *owner, int err)
{
    struct slot_owners *owners = owner;
    if (--owners->claims_open)
        return;
    slot_owners_reload(owners);
    if (err == OK)
        log_event(LOG_INFO, "slots_owned", "partition=%u shard=%s slots=%u",
                  owners->partition->index, own_name(owners),
                  slot_table_count(table_of(owners), SLOT_OWNED));
}

static bool is_claimable(const struct slot_owners *owners, uint16_t slot,
                         struct slot_record *record)
{
    record->epoch = claim_epoch(owners, slot);
    record->migration = owners->hash;
    record->wish = owners->map->epoch;
    return !known_owner(owners, slot) && is_own_by_map(owners, slot);
}

/* Is the slot to be changed? Then the function completes the record. */
typedef bool wanted_fn(const struct slot_owners *owners, uint16_t slot, struct slot_record *record);

/* Gives the slots for which the function returns true their records. All changes are in one batch, so a crash leaves all of
 * them or none. Returns the number of slots. */
static int change_slots(struct slot_owners *owners, wanted_fn *is_wanted)
{
    struct slot_table *table = owners->partition->shards.slots;
    int count = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT;) {
        unsigned first = slot;
        struct slot_record record = {.state = SLOT_OWNED};
        struct slot_record other = record;
        if (!is_wanted(owners, (uint16_t)slot++, &record))
            continue;
        while (slot < SLOT_COUNT && is_wanted(owners, (uint16_t)slot, &other) &&
               slot_record_equal(&record, &other))
            slot++;
        owners->claims_open++;
        if (slot_table_change(table, (uint16_t)first, (uint16_t)(slot - 1), &record, claim_ended,
                              owners))
            count += (int)(slot - first);
        else
            owners->claims_open--;
    }
    return count;
}

/* Is the shard that owns the slot not known, or not connected? */
static bool is_forcible(const struct slot_owners *owners, uint16_t slot, struct slot_record *record)
{
    const char *owner = known_owner(owners, slot);
    const struct peer_link *link =
        owner ? peer_set_find(owners->partition->shards.peers, bytes_of(owner)) : NULL;
    uint8_t state = slot_table_state(table_of(owners), slot);
    record->epoch = (owners->epoch[slot] ? owners->epoch[slot] : 1) + 1;
    record->wish = owners->map->epoch;
    return !is_owned_state(state) && is_own_by_map(owners, slot) &&
           !(link && link->state == PEER_LINK_UP);
}

/* As is_forcible, but not while rows that the lost shard has sent are being deleted here. */
static bool is_forcible_now(const struct slot_owners *owners, uint16_t slot,
                            struct slot_record *record)
{
    return slot_table_state(table_of(owners), slot) != SLOT_IMPORTING &&
           is_forcible(owners, slot, record);
}

/* Are there slots that can be forced later? */
static bool has_forcible(const struct slot_owners *owners)
{
    struct slot_record record;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (slot_table_state(table_of(owners), (uint16_t)slot) == SLOT_IMPORTING &&
            is_forcible(owners, (uint16_t)slot, &record))
            return true;
    return false;
}

int slot_owners_force(struct slot_owners *owners)
{
    struct slot_record record;
    int count = 0;
    if (!owners->map || !*own_name(owners) || owners->claims_open)
        return -1;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        count += is_forcible(owners, (uint16_t)slot, &record);
    owners->is_forced = count > 0;
    log_event(LOG_WARN, "slots_forced", "partition=%u shard=%s slots=%d", owners->partition->index,
              own_name(owners), count);
    return count;
}

/* A slot that is owned here, and that another shard owns with a higher epoch: an operator has forced that (6). */
static bool is_lost(const struct slot_owners *owners, uint16_t slot, struct slot_record *record)
{
    const struct slot_record *own = slot_table_get(table_of(owners), slot);
    if (!is_owned_state(own->state) || owners->epoch[slot] <= own->epoch ||
        !known_owner(owners, slot))
        return false;
    *record = (struct slot_record){.state = SLOT_RELEASED, .epoch = owners->epoch[slot]};
    (void)snprintf(record->peer, sizeof record->peer, "%s", known_owner(owners, slot));
    return true;
}

static bool has_lost(const struct slot_owners *owners)
{
    struct slot_record record;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (is_lost(owners, (uint16_t)slot, &record))
            return true;
    return false;
}

/* Gives up the slots that an operator has given to other shards while this one was lost. */
static void give_up_lost(struct slot_owners *owners)
{
    owners->may_have_lost = false;
    if (!has_lost(owners))
        return;
    int count = change_slots(owners, is_lost);
    log_event(LOG_WARN, "slots_given_up", "partition=%u shard=%s slots=%d",
              owners->partition->index, own_name(owners), count);
}

/* Are all other shards ready to serve keys for each other? */
static bool all_own_slots(const struct slot_owners *owners)
{
    for (size_t i = 0; i < owners->others_count; i++)
        if (owners->others[i].state < ANSWER_OWNER)
            return false;
    return true;
}

/* Ends the wait of commands as soon as there is nothing to wait for. */
static void check_held(struct slot_owners *owners, uint64_t now_ms)
{
    bool is_first = !owners->was_written || !has_records(owners);
    uint64_t wait_ms = is_first ? HOLD_MS : CLAIM_AFTER_MS;
    bool is_over = now_ms >= owners->since_ms + wait_ms || owners->has_lost_slots;
    bool is_ready = has_records(owners) ? all_own_slots(owners) : is_joining_late(owners);
    if (!owners->claims_open && (is_over || is_ready))
        set_held(owners, false);
}

void slot_owners_tick(struct slot_owners *owners)
{
    uint64_t now_ms = loop_mono_ms(owners->partition->loop);
    if (!owners->map || !*own_name(owners) || owners->partition->thread.is_stopping)
        return;
    load_known(owners);
    list_all_leaving(owners);
    for (size_t i = 0; i < owners->others_count; i++)
        ask_other(owners, i, now_ms);
    if (!owners->claims_open && !has_records(owners) && may_claim(owners, now_ms))
        (void)change_slots(owners, is_claimable);
    if (!owners->claims_open && owners->is_forced) {
        (void)change_slots(owners, is_forcible_now);
        owners->is_forced = has_forcible(owners);
    }
    if (!owners->claims_open && owners->may_have_lost)
        give_up_lost(owners);
    /* The name is written in the same batch as the claim: a shard that the next map leaves out is known to others only by its
     * stored name, and needs it to give its slots away. */
    if (has_records(owners) || owners->claims_open)
        keep_name(owners);
    if (has_records(owners)) {
        check_drained(owners);
        keep_known(owners, now_ms);
    }
    if (owners->awaits_claim)
        check_held(owners, now_ms);
    else if (owners->partition->shards.is_held)
        set_held(owners, false);
}

/* ---- wishes ---- */

const char *slot_owners_wish(const struct slot_owners *owners, uint16_t slot, uint64_t *wish)
{
    const struct slot_record *record = slot_table_get(table_of(owners), slot);
    if (!owners->map || record->state != SLOT_OWNED || owners->map->epoch <= record->wish ||
        is_own_by_map(owners, slot))
        return NULL;
    *wish = owners->map->epoch;
    return owner_by_map(owners, slot);
}

unsigned slot_owners_wishes(const struct slot_owners *owners, uint16_t first, uint16_t last,
                            const char *shard)
{
    unsigned count = 0;
    for (unsigned slot = first; slot <= last; slot++) {
        const char *name = owner_by_map(owners, (uint16_t)slot);
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
    if (!owners->map || !*own_name(owners) || owners->claims_open)
        return REFUSAL(WAIT, "it has no place in its shard map yet");
    if (owners->map->epoch > wish)
        return REFUSAL(WAIT, "it has a newer shard map");
    for (unsigned slot = first; owners->map->epoch == wish && slot <= last; slot++)
        if (!is_own_by_map(owners, (uint16_t)slot))
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
    const char *own = own_name(call->partition->shards.owners);
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
    owners->was_written = partition->batch.index > 0;
    partition->shards.here_version = 1;
    load_name(owners);
    partition->shards.slot_refusal = slot_refusal;
    partition->shards.find_owner = find_owner_run;
    partition->shards.slot_owner = slot_owner;
    return owners;
}
