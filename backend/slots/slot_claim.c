/*
 * slot_claim.c - when a partition claims its first slots, claims those of a lost shard, and gives up what it has lost.
 *
 *   no records ─► all other shards have answered, none owns them ─► records OWNED(1)           (2), (3) of slot_owners.h
 *   SCREE OWNERS FORCE ─► the owner is not connected ─────────────► records OWNED, a higher epoch   (6)
 *   the shard of the map has a higher epoch for a slot of this one ► record RELEASED                (6)
 */
#include "backend/slots/slot_owners.h"

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/slot_owners_inner.h"
#include "backend/slots/slot_table.h"
#include "shared/log.h"

#include <stdio.h>

enum { MAP_SHIFT = 20 }; /* moves and FORCE of one slot between two maps: fewer than 2^20 */

static uint64_t count_keys(const struct slot_owners *owners)
{
    return space_keys_stored(owners->partition->spaces);
}

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
                  owners->partition->index, owners_own_name(owners),
                  slot_table_count(owners_table(owners), SLOT_OWNED));
}

static bool is_claimable(const struct slot_owners *owners, uint16_t slot,
                         struct slot_record *record)
{
    record->epoch = owners_claim_epoch(owners, slot);
    record->migration = owners->hash;
    record->wish = owners->map->epoch;
    return !owners_known(owners, slot) && owners_is_own_by_map(owners, slot);
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

/* ---- slots of lost shards ---- */

uint64_t owners_forced_epoch(uint64_t epoch, uint64_t map_epoch)
{
    bool has_room = epoch < EPOCH_TOLD_MAX && map_epoch < EPOCH_TOLD_MAX - epoch;
    uint64_t next = has_room ? epoch + map_epoch : epoch < UINT64_MAX ? epoch + 1 : epoch;
    uint64_t by_map = map_epoch < EPOCH_TOLD_MAX >> MAP_SHIFT ? map_epoch << MAP_SHIFT : 0;
    return by_map > next ? by_map : next;
}

static bool is_linked(const struct slot_owners *owners, const char *shard)
{
    const struct peer_link *link =
        shard ? peer_set_find(owners->partition->shards.peers, bytes_of(shard)) : NULL;
    return link && link->state == PEER_LINK_UP;
}

/* The shard whose claim of the slot was not believed, with a higher epoch than the owner's; NULL: there is none. */
static const char *unbelieved_claimant(const struct slot_owners *owners, uint16_t slot)
{
    const struct owner_doubts *doubts = &owners->doubts;
    bool is_newer = doubts->claim_epoch[slot] > owners->epoch[slot];
    return doubts->claimant[slot] && is_newer ? owners->names.texts[doubts->claimant[slot] - 1]
                                              : NULL;
}

/* Is the shard that owns the slot not known, or not connected? Nor may a shard be connected that claims it: the operator may have forced
 * that by another map, and it gives the slot away by a move. One that claims it and is not connected gives it up later, by the higher epoch. */
static bool is_forcible(const struct slot_owners *owners, uint16_t slot, struct slot_record *record)
{
    const char *claimant = unbelieved_claimant(owners, slot);
    uint64_t highest = claimant ? owners->doubts.claim_epoch[slot] : owners->epoch[slot];
    uint8_t state = slot_table_state(owners_table(owners), slot);
    record->epoch = owners_forced_epoch(highest ? highest : 1, owners->map->epoch);
    record->wish = owners->map->epoch;
    return !is_owned_state(state) && owners_is_own_by_map(owners, slot) &&
           !is_linked(owners, owners_known(owners, slot)) && !is_linked(owners, claimant);
}

/* As is_forcible, but not while rows that the lost shard has sent are being deleted here. */
static bool is_forcible_now(const struct slot_owners *owners, uint16_t slot,
                            struct slot_record *record)
{
    return slot_table_state(owners_table(owners), slot) != SLOT_IMPORTING &&
           is_forcible(owners, slot, record);
}

/* Are there slots that can be forced later? */
static bool has_forcible(const struct slot_owners *owners)
{
    struct slot_record record;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (slot_table_state(owners_table(owners), (uint16_t)slot) == SLOT_IMPORTING &&
            is_forcible(owners, (uint16_t)slot, &record))
            return true;
    return false;
}

/* Has each other shard of the map answered, or had time to do so? Before that it may own or claim a slot, and this is not known here. */
static bool has_heard_others(const struct slot_owners *owners)
{
    bool is_over = loop_mono_ms(owners->partition->loop) >= owners->since_ms + HOLD_MS;
    for (size_t i = 0; i < owners->others_count && !is_over; i++)
        if (owners->others[i].state == ANSWER_NONE)
            return false;
    return true;
}

/* If not, another copy of the shard leads it, or may be about to. */
static bool leads(const struct partition *partition)
{
    return !partition->copies.is_closed && !partition_lease_is_over(partition);
}

bool slot_owners_may_force(const struct slot_owners *owners)
{
    return leads(owners->partition) && owners->map && *owners_own_name(owners) &&
           !owners->claims_open && has_heard_others(owners);
}

int slot_owners_force(struct slot_owners *owners)
{
    struct slot_record record;
    int count = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        count += is_forcible(owners, (uint16_t)slot, &record);
    owners->is_forced = count > 0;
    log_event(LOG_WARN, "slots_forced", "partition=%u shard=%s slots=%d", owners->partition->index,
              owners_own_name(owners), count);
    return count;
}

/* A slot that is owned here, and that another shard owns with a higher epoch: the map says so, as an operator has forced that (6), or a
 * third shard does. */
static bool is_lost(const struct slot_owners *owners, uint16_t slot, struct slot_record *record)
{
    const struct slot_record *own = slot_table_get(owners_table(owners), slot);
    const char *owner = owners_known(owners, slot);
    const char *by_map = owners_by_map(owners, slot);
    if (!is_owned_state(own->state) || owners->epoch[slot] <= own->epoch || !owner)
        return false;
    if (!slot_set_has(&owners->doubts.lost, slot) && (!by_map || strcmp(owner, by_map) != 0))
        return false;
    *record = (struct slot_record){.state = SLOT_RELEASED, .epoch = owners->epoch[slot]};
    (void)snprintf(record->peer, sizeof record->peer, "%s", owner);
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
              owners->partition->index, owners_own_name(owners), count);
}

/* ---- steps ---- */

/* Are all other shards ready to serve keys for each other? */
static bool all_own_slots(const struct slot_owners *owners)
{
    for (size_t i = 0; i < owners->others_count; i++)
        if (owners->others[i].state < ANSWER_OWNER)
            return false;
    return true;
}

void owners_claim_step(struct slot_owners *owners, uint64_t now_ms)
{
    if (!owners->claims_open && !owners_have_records(owners) && may_claim(owners, now_ms))
        (void)change_slots(owners, is_claimable);
    if (!owners->claims_open && owners->is_forced && has_heard_others(owners)) {
        (void)change_slots(owners, is_forcible_now);
        owners->is_forced = has_forcible(owners);
    }
    if (!owners->claims_open && owners->may_have_lost)
        give_up_lost(owners);
}

void owners_check_held(struct slot_owners *owners, uint64_t now_ms)
{
    bool is_first = !owners->was_written || !owners_have_records(owners);
    uint64_t wait_ms = is_first ? HOLD_MS : CLAIM_AFTER_MS;
    bool is_over = now_ms >= owners->since_ms + wait_ms || owners->has_lost_slots;
    bool is_ready = owners_have_records(owners) ? all_own_slots(owners) : is_joining_late(owners);
    if (!owners->claims_open && (is_over || is_ready))
        owners_set_held(owners, false);
}
