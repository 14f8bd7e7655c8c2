/*
 * slot_answers.c - the question SLOTS between shards: which slots each owns, and which owners it knows (5) of slot_owners.h.
 *
 *   answer:  u8 format | u8 state | u64 hash of the map by which it claimed | runs: u32 first, u32 last, u64 epoch, shard …
 *   or       u8 ANSWER_UNCHANGED: the shard that asks has the answer of this hash
 *
 * The runs are also stored, so that what was known survives a restart: (7).
 */
#include "backend/slots/slot_owners.h"

#include "backend/context/partition.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/slots/slot_owners_inner.h"
#include "backend/slots/slot_table.h"
#include "shared/log.h"
#include "shared/out.h"

#include <stdlib.h>

enum {
    ANSWER_FORMAT = 1,
    ANSWER_UNCHANGED = 2, /* in place of the format: the shard that asks has this answer */
    ANSWER_KEPT_MS = 100,
    KNOWN_KEPT_MS = 500,
    NAMES_MAX = UINT16_MAX - 2, /* then a run, which brings two at most, has room */
    ASKS_A_WHOLE = 30,          /* every so many questions the whole answer is wanted */
    ASK_JOINING_MS = 100,
    ASK_CALM_MS = 2000,
    RUN_MAX = 1024, /* slots on each side, for owners_find_run */
};

/* A question to another shard. */
struct slots_request {
    struct peer_request request;
    struct slot_owners *owners;
    uint64_t generation;
    size_t other;
};

/* ---- answering ---- */

/* The owner of a slot that an answer names; NULL: none. A claim of another shard that is not durable yet is not passed on: that shard may
 * crash and claim again, which (7) would forbid. */
static const char *told_owner(const struct slot_owners *owners, uint16_t slot, uint64_t *epoch)
{
    const struct slot_record *record = slot_table_get(owners_table(owners), slot);
    bool is_claimed =
        owners->claims_open && !owners_known(owners, slot) && owners_is_own_by_map(owners, slot);
    *epoch = is_claimed ? owners_claim_epoch(owners, slot) : record->epoch;
    if (is_claimed || is_owned_state(record->state))
        return owners_own_name(owners);
    *epoch = owners->epoch[slot];
    if (owners->partition->copies.is_closed && !owners_known(owners, slot))
        return owners_by_map(owners, slot); /* it hears of no other shard */
    return slot_set_has(&owners->claimed, slot) ? NULL : owners_known(owners, slot);
}

/* May a run have this slot? What is doubtful is used here, but neither told to others nor stored. */
static bool is_in_runs(const struct slot_owners *owners, unsigned slot, bool has_doubtful)
{
    return has_doubtful || is_owned_state(slot_table_state(owners_table(owners), (uint16_t)slot)) ||
           !slot_set_has(&owners->doubts.doubtful, (uint16_t)slot);
}

/* A copy that has begun to lead shows what it showed before, until other shards have answered. */
static const char *owner_before_answers(const struct slot_owners *owners, uint16_t slot)
{
    bool has_copies = owners->partition->copies.replica != NULL;
    bool is_new = loop_mono_ms(owners->partition->loop) < owners->since_ms + HOLD_MS;
    return has_copies && is_new && !owners_is_own_by_map(owners, slot) ? owners_by_map(owners, slot)
                                                                       : NULL;
}

static void each_run(const struct slot_owners *owners, bool has_doubtful, slot_run_fn *on_run,
                     void *owner)
{
    struct slot_run run = {0};
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint64_t epoch;
        const char *shard = is_in_runs(owners, slot, has_doubtful)
                                ? told_owner(owners, (uint16_t)slot, &epoch)
                                : NULL;
        if (!shard && has_doubtful)
            shard = owner_before_answers(owners, (uint16_t)slot);
        bool goes_on = shard && run.shard == shard && run.epoch == epoch && run.last + 1 == slot;
        if (!goes_on && run.shard)
            on_run(owner, &run);
        if (!goes_on)
            run = (struct slot_run){.first = slot, .shard = shard, .epoch = epoch};
        run.last = slot;
        run.is_here = is_owned_state(slot_table_state(owners_table(owners), (uint16_t)slot));
    }
    if (run.shard)
        on_run(owner, &run);
}

void slot_owners_each_run(const struct slot_owners *owners, slot_run_fn *on_run, void *owner)
{
    each_run(owners, true, on_run, owner);
}

static const char *address_of_owner(const struct slot_owners *owners, const char *shard)
{
    int index = owners->map ? shard_map_named(owners->map, bytes_of(shard)) : -1;
    return index < 0
               ? NULL
               : peer_set_leader(owners->partition->shards.peers, &owners->map->shards[index]);
}

static bool is_same_run(const struct slot_owners *owners, unsigned slot, const struct slot_run *run)
{
    uint64_t epoch;
    const char *shard = told_owner(owners, (uint16_t)slot, &epoch);
    bool is_here = is_owned_state(slot_table_state(owners_table(owners), (uint16_t)slot));
    return shard && strcmp(shard, run->shard) == 0 && epoch == run->epoch &&
           is_here == run->is_here;
}

bool owners_find_run(const struct partition *partition, uint16_t slot,
                     struct slot_owner_found *found)
{
    const struct slot_owners *owners = partition->shards.owners;
    uint8_t state = slot_table_state(owners_table(owners), slot);
    struct slot_run run = {.first = slot, .last = slot, .is_here = is_owned_state(state)};
    run.shard = told_owner(owners, slot, &run.epoch);
    bool is_coming = state == SLOT_STAGED ||
                     (run.shard && !run.is_here && strcmp(run.shard, owners_own_name(owners)) == 0);
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
        const struct slot_record *record = slot_table_get(owners_table(owners), (uint16_t)slot);
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
    bool is_owner = owners_have_records(owners);
    message_put_u8(out, ANSWER_FORMAT);
    message_put_u8(out, is_owner              ? ANSWER_OWNER
                        : owners->claims_open ? ANSWER_CLAIMING
                                              : ANSWER_JOINING);
    message_put_u64(out, is_owner ? founding_hash(owners) : owners->hash);
    each_run(owners, false, write_owned_run, out);
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
    owners_load_known(owners);
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

/* Reads a run. `report` has its source and its speaker. False: it is not valid. */
static bool read_owned_run(struct slot_owners *owners, struct owner_report *report,
                           struct message_reader *reader)
{
    uint32_t first = message_u32(reader);
    uint32_t last = message_u32(reader);
    uint64_t epoch = message_u64(reader);
    struct bytes name = message_bytes(reader);
    if (!reader->is_good || first > last || last >= SLOT_COUNT || !epoch || !name.len ||
        name.len > SHARD_NAME_MAX || memchr(name.data, 0, name.len))
        return false;
    report->owner = name;
    report->epoch = epoch < EPOCH_TOLD_MAX ? epoch : EPOCH_TOLD_MAX;
    owners_learn_run(owners, report, first, last);
    return true;
}

/* Reads the runs of an answer. False: they are not valid. */
static bool read_owned_runs(struct slot_owners *owners, const struct other_shard *other,
                            uint8_t state, struct message_reader *reader,
                            struct owner_report *report)
{
    *report = (struct owner_report){.speaker = other->name, .is_durable = state != ANSWER_CLAIMING};
    owners_forget_names(owners, SHARD_COUNT_MAX);
    owners_forget_claims(owners, other->name);
    while (reader->rest.len) {
        owners_forget_names(owners, NAMES_MAX);
        if (!read_owned_run(owners, report, reader))
            return false;
    }
    return true;
}

/* Reads an answer. False: it is not valid. */
static bool read_answer(struct slot_owners *owners, struct other_shard *other, struct bytes payload)
{
    struct owner_report report = {0};
    if (payload.len == 1 && payload.data[0] == ANSWER_UNCHANGED && other->told)
        return true;
    struct message_reader reader = message_read(payload);
    bool is_good = message_u8(&reader) == ANSWER_FORMAT;
    uint8_t state = message_u8(&reader);
    uint64_t hash = message_u64(&reader);
    is_good = is_good && reader.is_good && state >= ANSWER_JOINING && state <= ANSWER_OWNER &&
              read_owned_runs(owners, other, state, &reader, &report);
    other->state = is_good ? (enum answer_state)state : ANSWER_NONE;
    other->hash = hash;
    /* What is not believed now may be believed when the map or the owner has changed, so the whole answer is wanted again. */
    other->told = is_good && !report.is_refused ? hash_answer(payload) : 0;
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
        owners_wake_unknown(owners);
    owners->has_learned = false;
}

/* Is it time to ask the shard? While requests wait for the owner of a slot, all shards are asked more often. */
static bool is_time(const struct slot_owners *owners, const struct other_shard *other,
                    uint64_t now_ms)
{
    bool is_urgent = now_ms < owners->partition->shards.unknown_until_ms;
    return now_ms + (is_urgent ? ASK_CALM_MS - ASK_JOINING_MS : 0) >= other->ask_ms;
}

void owners_ask(struct slot_owners *owners, size_t index, uint64_t now_ms)
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
    bool is_joining = owners->awaits_claim || !owners_have_records(owners);
    other->ask_ms = now_ms + (is_joining ? ASK_JOINING_MS : ASK_CALM_MS);
}

/* ---- what was known before a restart ---- */

void owners_load_known(struct slot_owners *owners)
{
    struct owner_report before = {.is_durable = true}; /* what this shard has believed */
    struct slice value;
    if (owners->known.is_loaded)
        return;
    owners->known.is_loaded = true;
    if (overlay_get(owners->partition->overlay, CF_SYSTEM, slot_owners_key(), &value) != OK)
        return;
    struct message_reader reader = message_read(slice_bytes(&value));
    while (reader.rest.len && read_owned_run(owners, &before, &reader))
        ;
    slice_release(&value);
}

void owners_keep_known(struct slot_owners *owners, uint64_t now_ms)
{
    struct partition *partition = owners->partition;
    struct call call;
    struct out out;
    if ((owners->known.hash && now_ms < owners->known.at_ms + KNOWN_KEPT_MS) ||
        commit_is_failed(partition->commit, NULL))
        return;
    out_init(&out);
    each_run(owners, false, write_owned_run, &out);
    struct bytes runs = out_take(&out);
    owners->known.at_ms = now_ms;
    if (hash_answer(runs) != owners->known.hash) {
        internal_call_begin(partition, &call);
        overlay_put(partition->overlay, CF_SYSTEM, slot_owners_key(), runs);
        internal_call_end(partition, &call);
        owners->known.hash = hash_answer(runs);
    }
    free((char *)runs.data);
}
