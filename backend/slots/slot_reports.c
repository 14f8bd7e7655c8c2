/*
 * slot_reports.c - which of the reports about the owners of slots are believed.
 *
 *   another shard reports: slot 7 is owned by shard b since epoch 3, and here it was known that shard a owns it
 *
 *     a itself says so                          ──► believed: only an owner gives its slots away
 *     b says so, and the map gives b the slot   ──► believed: the operator wants it there (a move, SCREE OWNERS FORCE)
 *     no owner was known, or a has left the map
 *     and is not linked                         ──► used, but doubtful: not told to others, and not stored
 *     anything else                             ──► left out
 *
 * A report must also have a higher epoch than what is known. But epochs alone prove nothing, because each shard names its own: one that
 * is broken, or in other hands, could name the highest and have all slots. So it can give away or claim its own slots, and
 * those that the map gives to it, and none of other shards. A slot that this shard owns is lost only to a shard with a higher epoch, if
 * the map gives it to that shard, because an operator has forced that; or if a third shard says so too, because this one comes back with
 * old data and an old map. The third shard passes on only what it has believed, so one shard that lies finds no such witness. The old map
 * may lack the new owner, which then has no link: two other shards that name this owner are enough, if the first has a newer map. Of two
 * shards each believes what the other claims, or says by a newer map, with a higher epoch.
 *
 * A shard that knows nothing yet (it joins, or has lost its disk) has nothing to compare with. It uses what it hears until the first report that
 * is believed.
 */
#include "backend/context/partition.h"
#include "backend/slots/slot_owners_inner.h"
#include "backend/slots/slot_table.h"
#include "shared/check.h"
#include "shared/log.h"

#include <stdlib.h>

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

/* ---- names ---- */

uint16_t owners_name_index(struct slot_owners *owners, struct bytes name)
{
    return shard_names_put(&owners->names, name);
}

void owners_forget_names(struct slot_owners *owners, unsigned limit)
{
    if (owners->names.count <= limit)
        return;
    uint16_t *numbers = calloc(UINT16_MAX, sizeof *numbers);
    CHECK(numbers);
    uint16_t *const lists[] = {owners->owner, owners->doubts.rival, owners->doubts.teller,
                               owners->doubts.claimant};
    enum { NUMBERS = sizeof lists / sizeof *lists * SLOT_COUNT };
    for (unsigned i = 0; i < NUMBERS; i++)
        if (lists[i / SLOT_COUNT][i % SLOT_COUNT])
            numbers[lists[i / SLOT_COUNT][i % SLOT_COUNT] - 1] = 1;
    for (size_t i = 0; i < owners->others_count; i++) /* list_leaving borrows names */
        numbers[owners_name_index(owners, bytes_of(owners->others[i].name))] = 1;
    shard_names_keep(&owners->names, numbers);
    for (unsigned i = 0; i < NUMBERS; i++) {
        uint16_t *number = &lists[i / SLOT_COUNT][i % SLOT_COUNT];
        *number = *number ? numbers[*number - 1] : 0;
    }
    free(numbers);
}

/* ---- belief ---- */

static bool is_shard(struct bytes name, const char *shard)
{
    return shard && bytes_equal(name, bytes_of(shard));
}

/* Does the speaker report its own slot? */
static bool is_own_report(const struct owner_report *report)
{
    return is_shard(report->owner, report->speaker);
}

/* Does the map give the slot to the shard that is reported to own it? */
static bool is_by_map(const struct slot_owners *owners, uint16_t slot,
                      const struct owner_report *report)
{
    return is_shard(report->owner, owners_by_map(owners, slot));
}

/* Has the known owner left the map, and is it not linked? It has had time to make its link. */
static bool has_owner_left(const struct slot_owners *owners, uint16_t slot)
{
    return !owners_is_listed(owners, owners_known(owners, slot)) &&
           loop_mono_ms(owners->partition->loop) >= owners->since_ms + HOLD_MS;
}

enum belief { NOT_BELIEVED, DOUBTFUL, BELIEVED };

/* For a slot that another shard owns. */
static enum belief belief_in(const struct slot_owners *owners, uint16_t slot,
                             const struct owner_report *report)
{
    const char *known = owners_known(owners, slot);
    bool is_doubtful = known && slot_set_has(&owners->doubts.doubtful, slot);
    bool is_newer = report->epoch > owners->epoch[slot];
    bool is_own = is_own_report(report);
    bool is_new_enough = is_newer || (is_own && report->epoch == owners->epoch[slot]);
    if (!report->speaker)
        return is_newer ? BELIEVED : NOT_BELIEVED;
    if (is_own && is_by_map(owners, slot, report))
        return is_new_enough || is_doubtful ? BELIEVED : NOT_BELIEVED;
    if (!is_new_enough)
        return NOT_BELIEVED;
    if (known && !is_doubtful && strcmp(known, report->speaker) == 0)
        return BELIEVED;
    return !known || is_doubtful || (is_own && has_owner_left(owners, slot)) ? DOUBTFUL
                                                                             : NOT_BELIEVED;
}

/* ---- learning ---- */

/* Another shard reports that this one owns the slot, and it does not. The slot may have been given away since. If this shard has no record
 * at all, it has lost its disk: (7). The epoch is kept, because a later claim must not have a lower one. */
static void learn_own(struct slot_owners *owners, uint16_t slot, uint64_t epoch)
{
    if (owners_have_records(owners) || owners->claims_open)
        return;
    if (!owners->was_written && !owners->has_lost_slots)
        log_event(LOG_ERROR, "slots_lost", "partition=%u shard=%s slot=%u",
                  owners->partition->index, owners_own_name(owners), slot);
    owners->has_lost_slots |= !owners->was_written;
    if (epoch > owners->epoch[slot] && !owners_known(owners, slot))
        owners->epoch[slot] = epoch;
}

static void believe_owner(struct slot_owners *owners, uint16_t slot,
                          const struct owner_report *report, enum belief belief)
{
    owners->has_learned |= report->epoch > owners->epoch[slot];
    owners->owner[slot] = (uint16_t)(owners_name_index(owners, report->owner) + 1);
    owners->epoch[slot] = report->epoch;
    if (owners->doubts.claim_epoch[slot] <= report->epoch)
        owners->doubts.claimant[slot] = 0;
    slot_set_put(&owners->claimed, slot, is_own_report(report) && !report->is_durable);
    slot_set_put(&owners->doubts.doubtful, slot, belief == DOUBTFUL);
}

/* Notes the reported owner of a slot. The whole answers of the others are wanted: do they say the same? */
static void note_rival(struct slot_owners *owners, uint16_t slot, struct owner_report *report)
{
    const uint16_t rival = (uint16_t)(owners_name_index(owners, report->owner) + 1);
    if (is_own_report(report)) {
        report->is_refused = true;
        report_double(owners, slot, report->speaker);
    }
    if (owners->doubts.rival[slot] == rival)
        return;
    owners->doubts.rival[slot] = rival;
    owners->doubts.teller[slot] =
        (uint16_t)(owners_name_index(owners, bytes_of(report->speaker)) + 1);
    for (size_t i = 0; i < owners->others_count; i++)
        owners->others[i].told = 0;
}

/* Has another shard told the same of the slot? */
static bool is_witness(const struct slot_owners *owners, uint16_t slot,
                       const struct owner_report *report)
{
    const uint16_t rival = owners->doubts.rival[slot], teller = owners->doubts.teller[slot];
    return rival && is_shard(report->owner, owners->names.texts[rival - 1]) &&
           strcmp(report->speaker, owners->names.texts[teller - 1]) != 0;
}

/* Is there no third shard that could confirm what the other one claims? Then the claim counts: a shard that comes back with old data and an
 * old map must not serve beside the new owner, which is worse than to believe a shard that lies. */
static bool has_no_witness(const struct slot_owners *owners)
{
    return owners->others_count == 1;
}

/* Has the speaker a newer map? Then it may know owners that the map here does not name, and that have no link here. */
static bool has_newer_map(const struct slot_owners *owners, const struct owner_report *report)
{
    const struct peer_link *link =
        peer_set_find(owners->partition->shards.peers, bytes_of(report->speaker));
    return link && link->state == PEER_LINK_UP && link->peer.map_epoch > owners->map->epoch;
}

/* Another shard is reported to own a slot of this one. */
static void learn_rival(struct slot_owners *owners, uint16_t slot, struct owner_report *report)
{
    const struct slot_record *record = slot_table_get(owners_table(owners), slot);
    if (!report->speaker || report->epoch < record->epoch ||
        is_shard(report->owner, owners_own_name(owners)) || is_shard(report->owner, owners->name))
        return;
    bool is_newer = report->epoch > record->epoch && report->is_durable;
    bool is_own = is_own_report(report);
    bool counts = is_own || (is_newer && has_newer_map(owners, report));
    bool is_lost =
        is_newer && ((counts && has_no_witness(owners)) || is_witness(owners, slot, report));
    if (is_lost || (is_newer && is_own && is_by_map(owners, slot, report))) {
        believe_owner(owners, slot, report, BELIEVED);
        slot_set_put(&owners->doubts.lost, slot, is_lost);
        owners->may_have_lost = true;
    } else if (counts) {
        note_rival(owners, slot, report);
    }
}

/* Notes that the speaker's claim of a slot was not believed. The highest epoch that can be told is no honest one. Of two such claims the one
 * with the higher epoch stays. */
static void note_claim(struct slot_owners *owners, uint16_t slot, struct owner_report *report)
{
    struct owner_doubts *doubts = &owners->doubts;
    report->is_refused = true;
    if (report->epoch == EPOCH_TOLD_MAX ||
        (doubts->claimant[slot] && report->epoch < doubts->claim_epoch[slot]))
        return;
    doubts->claimant[slot] = (uint16_t)(owners_name_index(owners, report->owner) + 1);
    doubts->claim_epoch[slot] = report->epoch;
}

void owners_forget_claims(struct slot_owners *owners, const char *shard)
{
    const uint16_t claimant = (uint16_t)(owners_name_index(owners, bytes_of(shard)) + 1);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        if (owners->doubts.claimant[slot] == claimant)
            owners->doubts.claimant[slot] = 0;
}

static void learn_owner(struct slot_owners *owners, uint16_t slot, struct owner_report *report)
{
    if (is_owned_state(slot_table_state(owners_table(owners), slot))) {
        learn_rival(owners, slot, report);
    } else if (is_shard(report->owner, owners_own_name(owners)) ||
               is_shard(report->owner, owners->name)) {
        learn_own(owners, slot, report->epoch);
    } else {
        enum belief belief = belief_in(owners, slot, report);
        if (belief != NOT_BELIEVED)
            believe_owner(owners, slot, report, belief);
        else if (is_own_report(report) && report->epoch > owners->epoch[slot])
            note_claim(owners, slot, report);
    }
}

void owners_learn_run(struct slot_owners *owners, struct owner_report *report, unsigned first,
                      unsigned last)
{
    for (unsigned slot = first; slot <= last; slot++)
        learn_owner(owners, (uint16_t)slot, report);
}
