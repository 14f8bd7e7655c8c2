/*
 * slot_owners.h - which slots a partition of a shard map owns, how it claims its first ones, and who owns the others.
 *
 *   shard map ─► ALONE      no map, or neither a place in it nor records: every key is here
 *            └─► JOINING    no records: commands wait, no key is served
 *                   │ claim: records OWNED(1) of the slots that the map gives to this partition are durable
 *                   ▼
 *                OWNER      the records say which slots are here, whatever later maps say
 *
 * A shard map is a wish: two proxies may have different ones. What a partition owns is what its records say
 * (slot_table.h), so no key is served at two partitions.
 *
 * (1) A partition claims once in its life, while it has no record, and never a slot that another shard owns.
 * (2) An empty partition claims when every other shard of the map has answered, and each of them either has no records and
 *     the same slots in its map, or has claimed by a map with these slots. So a shard that joins a cluster claims nothing: its
 *     slots have owners.
 * (3) A partition that has written before it had records (an older version, or a restored backup) served the slots of its
 *     map. It claims them when all others have answered, or after CLAIM_AFTER_MS if it has keys.
 * (4) The map does not change while a partition claims, at most for HOLD_MS: a newer one waits (peering.c). Else some shards
 *     would claim by the old map and others by the new one.
 * (5) The answers of the others also say which slots they own and which owners they know. Of two owners the one with the higher epoch
 *     counts, if the owner so far says so itself, or the map gives the slot to the shard that claims it (slot_reports.c).
 *
 * (6) An operator can make it claim slots of a shard that is lost for good, with a higher epoch. If that shard comes back,
 *     it learns the higher epoch and gives these slots up, if its map gives them to the shard that has claimed them, or a third
 *     shard says so too.
 * (7) An empty partition of which another shard says that it owned slots has lost its disk. It claims nothing by itself, because
 *     its keys would silently read as missing: it is not ready (slot_figures.h) until an operator restores it, or forces (6). What a
 *     partition with records knows of the owners is stored, so that this holds when all shards restart together.
 *
 * A partition whose shard the map has at another address (peer_set.h) serves no key, whatever its records say: they were copied with
 * its disk, or the shard has moved.
 *
 * Commands for data wait while it is JOINING, at most HOLD_MS; then they are refused until it has claimed. After each start they
 * also wait until the time of the cluster is known (cluster_clock.h).
 */
#pragma once

#include "backend/context/call.h"
#include "backend/peer/incoming.h"

struct slot_owners;

/* Also sets partition->shards.slot_refusal, slot_owner and find_owner. The owner is the one that is known, otherwise the shard of the map; this
 * shard itself only if it owns the slot. */
struct slot_owners *slot_owners_new(struct partition *partition);
/* NULL is allowed. */
void slot_owners_free(struct slot_owners *owners);
/* To be called after peer_set_configure(), when the map or the partition's address may have changed: takes the map over. */
void slot_owners_configure(struct slot_owners *owners);
/* The partition leads no more: what an operator has asked for, and what other shards have answered, is void in a later term. No question
 * to another shard is open. */
void slot_owners_step_down(struct slot_owners *owners);
/* True while the partition claims its first slots, and then until all other shards have claimed theirs; at most for HOLD_MS after
 * its map came. During this time a newer map must wait (4). */
bool slot_owners_is_claiming(const struct slot_owners *owners);
/* The name that this shard had when it was last in a map; empty: it never was. Borrowed. */
const char *slot_owners_name(const struct slot_owners *owners);
/* To be called when records have changed: finds out which slots are served here. */
void slot_owners_reload(struct slot_owners *owners);
/* As slot_owners_reload, and reads the shard's stored name. To be called when the records were read from the store. */
void slot_owners_load(struct slot_owners *owners);
/* Asks the other shards, and claims; to be called several times a second. */
void slot_owners_tick(struct slot_owners *owners);
/* ---- for slot_moves.c ---- */

/* The shard to which the map wishes to move this slot, whose record is OWNED; NULL: it stays. *wish: epoch of the map. */
const char *slot_owners_wish(const struct slot_owners *owners, uint16_t slot, uint64_t *wish);
/* How many of these slots the map still gives to the shard. */
unsigned slot_owners_wishes(const struct slot_owners *owners, uint16_t first, uint16_t last,
                            const char *shard);
/* Why no move may begin, whatever the slots; NULL: moves may begin. */
const char *slot_owners_wait(const struct slot_owners *owners);
/* Why this shard does not take slots that another shard moves to it by a map of this epoch. */
struct refusal slot_owners_refuse(const struct slot_owners *owners, uint16_t first, uint16_t last,
                                  uint64_t wish);

/* Consecutive slots of one owner. */
struct slot_run {
    unsigned first, last;
    const char *shard;
    uint64_t epoch;
    bool is_here; /* this partition owns them */
};

/* Calls the function for the runs of slots whose owners are known, in order. */
typedef void slot_run_fn(void *owner, const struct slot_run *run);
void slot_owners_each_run(const struct slot_owners *owners, slot_run_fn *on_run, void *owner);

/* May slots be claimed by force? Not by a copy that does not lead its shard, or has no lease; nor without a map, nor while other shards of a
 * new map may still answer. */
bool slot_owners_may_force(const struct slot_owners *owners);
/* Claims all slots that the map gives to this shard, and that no connected shard owns or claims: (6). Returns their number. To be called
 * if slot_owners_may_force. The claims are made at a later tick: void after a step-down. */
int slot_owners_force(struct slot_owners *owners);
