/*
 * slot_owners_inner.h - what the files of the owners of slots share (slot_owners.h).
 *
 *   slot_owners.c ────► what is here, the map, wishes, refusals
 *   slot_answers.c ───► the question SLOTS: answers of this shard and of the others, and what is kept of them
 *   slot_reports.c ───► which of the reports in these answers are believed
 *   slot_claim.c ─────► claims, and slots of lost shards
 */
#pragma once

#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/peer/peer_set.h"
#include "backend/slots/shard_names.h"
#include "backend/slots/slot_owners.h"
#include "backend/slots/slot_table.h"

enum {
    CLAIM_AFTER_MS = 1000,
    HOLD_MS = 3000,
};

/* State of a shard, as its last answer gave it. */
enum answer_state {
    ANSWER_NONE,
    ANSWER_JOINING,  /* it has no records */
    ANSWER_CLAIMING, /* its first records are not durable yet */
    ANSWER_OWNER,    /* it has records */
    ANSWER_OLD,      /* its version has no records */
};

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

/* Slots of which shards say different things (slot_reports.c). */
struct owner_doubts {
    struct slot_set doubtful; /* the owner was named when there was nothing to compare with */
    struct slot_set lost;     /* slots of this shard that have a rival, as two other shards say */
    /* Of slots of this shard: 1 + index in names of a shard that owns it, too, as another one has told; 0: none. */
    uint16_t rival[SLOT_COUNT];
    uint16_t teller[SLOT_COUNT]; /* likewise of the shard that told so first */
    /* Of other slots: 1 + index in names of a shard whose claim was not believed, and its epoch; 0: none. SCREE OWNERS FORCE heeds it. */
    uint16_t claimant[SLOT_COUNT];
    uint64_t claim_epoch[SLOT_COUNT];
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
    struct owner_doubts doubts;
    struct shard_names names;   /* of shards that own slots */
    uint16_t owner[SLOT_COUNT]; /* 1 + index in names; 0: not known */
    uint64_t epoch[SLOT_COUNT]; /* of this owner */
};

static inline const struct slot_table *owners_table(const struct slot_owners *owners)
{
    return owners->partition->shards.slots;
}

static inline const char *owners_own_name(const struct slot_owners *owners)
{
    if (owners->partition->copies.is_closed)
        return owners->name; /* it has no place in the map: the name came with the data */
    return owners->partition->shards.peers ? peer_set_shard(owners->partition->shards.peers) : "";
}

static inline bool owners_have_records(const struct slot_owners *owners)
{
    return slot_table_count(owners_table(owners), SLOT_NONE) < SLOT_COUNT;
}

static inline bool is_owned_state(uint8_t state)
{
    return state == SLOT_OWNED || state == SLOT_EXPORTING || state == SLOT_FROZEN;
}

static inline const char *owners_known(const struct slot_owners *owners, uint16_t slot)
{
    return owners->owner[slot] ? owners->names.texts[owners->owner[slot] - 1] : NULL;
}

/* The epoch of a claim: the slot's last known epoch, if this partition owned the slot and has lost its records; else 1. */
static inline uint64_t owners_claim_epoch(const struct slot_owners *owners, uint16_t slot)
{
    return owners->epoch[slot] ? owners->epoch[slot] : 1;
}

/* ---- slot_owners.c ---- */

/* The shard to which the map gives the slot; NULL: there is no map. */
const char *owners_by_map(const struct slot_owners *owners, uint16_t slot);
bool owners_is_own_by_map(const struct slot_owners *owners, uint16_t slot);
/* Commands wait for the claim and for the time of the cluster (cluster_clock.h), or no longer. */
void owners_set_held(struct slot_owners *owners, bool awaits_claim);
/* Owners have changed: requests that wait because the owner of their slot was not known run again. */
void owners_wake_unknown(struct slot_owners *owners);
/* Is the shard in the map, or linked while it gives its slots away? */
bool owners_is_listed(const struct slot_owners *owners, const char *name);

/* ---- slot_answers.c ---- */

/* partition_shards.find_owner */
bool owners_find_run(const struct partition *partition, uint16_t slot,
                     struct slot_owner_found *found);
/* Asks a shard of `others` for its slots, if it is time. */
void owners_ask(struct slot_owners *owners, size_t index, uint64_t now_ms);
/* Reads the stored runs: the owners that this shard knew before its start. Without them a shard that has lost its disk could claim its
 * first slots again if all shards restart together: (7). */
void owners_load_known(struct slot_owners *owners);
/* Stores the runs if they have changed. */
void owners_keep_known(struct slot_owners *owners, uint64_t now_ms);

/* ---- slot_reports.c ---- */

/* The index of a shard's name in `names`, to which it is added if it is new. */
uint16_t owners_name_index(struct slot_owners *owners, struct bytes name);
/* A report that slots have this owner. */
struct owner_report {
    struct bytes owner;
    uint64_t epoch;
    const char *speaker; /* the shard that reports it; NULL: this shard has stored it */
    bool is_durable;     /* false: a claim of the speaker that is not durable yet */
    bool is_refused;     /* set if the speaker's word about itself was not believed */
};

/* An epoch that a report may have. A higher one is taken as this one, so that epochs can still grow by one. */
#define EPOCH_TOLD_MAX (UINT64_C(1) << 62)

/* Learns the owner of the slots of a run, if the report is believed. */
void owners_learn_run(struct slot_owners *owners, struct owner_report *report, unsigned first,
                      unsigned last);
/* Forgets the claims of the shard that were not believed: its next answer says which there are. */
void owners_forget_claims(struct slot_owners *owners, const char *shard);
/* Frees the names of shards that own no slot, if there are more than so many names: another shard may name ever new ones. */
void owners_forget_names(struct slot_owners *owners, unsigned limit);

/* ---- slot_claim.c ---- */

/* The epoch of a slot that is forced here, which had this epoch as far as this shard knows. A newer map gives a higher one, whatever is known:
 * so of two shards that are forced by different maps, and do not hear each other, one gives up. The last epochs have no such next one:
 * a claim keeps them, instead of beginning at 0 again. */
uint64_t owners_forced_epoch(uint64_t epoch, uint64_t map_epoch);
/* Claims what may be claimed now, and gives up what is lost. */
void owners_claim_step(struct slot_owners *owners, uint64_t now_ms);
/* Ends the wait of commands as soon as there is nothing to wait for. */
void owners_check_held(struct slot_owners *owners, uint64_t now_ms);
