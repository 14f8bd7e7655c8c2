/*
 * compare_judge.c - the leader compares the sums of the other copies with its own.
 *
 *   SUMS:  u64 index | u64 id of the copy | u16 first slot, u16 last slot, as u32 | u8 is unreadable | u64 system | u64 for each slot
 *
 * Sums may come before the leader has its own; those as of another record are dropped.
 */
#include "backend/context/partition.h"
#include "backend/partition/compare_inner.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "shared/check.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- SUMS -------------------------------------------------------------------------------------- */

void compare_sums_write(const struct row_sums *sums, uint64_t index, uint64_t id, struct out *to)
{
    message_put_u64(to, index);
    message_put_u64(to, id);
    message_put_u32(to, sums->first);
    message_put_u32(to, sums->last);
    message_put_u8(to, sums->is_failed);
    message_put_u64(to, sums->system);
    for (unsigned slot = sums->first; slot <= sums->last; slot++)
        message_put_u64(to, sums->of[slot]);
}

struct sums_head {
    uint64_t index, id;
};

/* NULL: the payload is not what SUMS has. */
static struct row_sums *sums_read(struct bytes payload, struct sums_head *head)
{
    struct message_reader reader = message_read(payload);
    head->index = message_u64(&reader);
    head->id = message_u64(&reader);
    uint32_t first = message_u32(&reader);
    uint32_t last = message_u32(&reader);
    bool is_failed = message_u8(&reader) != 0;
    uint64_t system = message_u64(&reader);
    if (!reader.is_good || first > last || last >= SLOT_COUNT ||
        reader.rest.len != (last - first + 1) * sizeof(uint64_t))
        return NULL;
    struct row_sums *sums = calloc(1, sizeof *sums);
    CHECK(sums);
    sums->first = (uint16_t)first;
    sums->last = (uint16_t)last;
    sums->is_failed = is_failed;
    sums->system = system;
    for (unsigned slot = first; slot <= last; slot++)
        sums->of[slot] = message_u64(&reader);
    return sums;
}

/* ---- members ----------------------------------------------------------------------------------- */

static const struct compare_copy *copy_with_id(const struct compare *compare, uint64_t id)
{
    for (unsigned i = 0; compare && i < REPLICA_FIGURES_MAX; i++)
        if (compare->copies[i].id == id)
            return &compare->copies[i];
    return NULL;
}

static const char *member_address(const struct replica_figures *figures, uint64_t id)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (figures->of[i].id == id)
            return figures->of[i].address;
    return NULL;
}

static void forget_copy(struct compare_copy *copy)
{
    row_sums_free(copy->got);
    *copy = (struct compare_copy){0};
}

/* Copies that are members no more give their places up, so there is one for each member. */
static void forget_who_left(struct compare *compare, const struct replica_figures *figures)
{
    for (unsigned i = 0; i < REPLICA_FIGURES_MAX; i++)
        if (compare->copies[i].id && !member_address(figures, compare->copies[i].id))
            forget_copy(&compare->copies[i]);
}

/* The place of a member. */
static struct compare_copy *copy_of_member(struct compare *compare, uint64_t id)
{
    struct compare_copy *found = (struct compare_copy *)copy_with_id(compare, id);
    if (!found)
        found = (struct compare_copy *)copy_with_id(compare, 0);
    CHECK(found);
    found->id = id;
    return found;
}

/* ---- verdicts ---------------------------------------------------------------------------------- */

static void note_slot(struct compare_copy *copy, unsigned slot, bool is_different)
{
    uint64_t bit = UINT64_C(1) << (slot % 64);
    if (is_different)
        copy->slots[slot / 64] |= bit;
    else
        copy->slots[slot / 64] &= ~bit;
}

static unsigned count_slots(const struct compare_copy *copy)
{
    unsigned count = 0;
    for (unsigned i = 0; i < COMPARE_WORDS; i++)
        count += (unsigned)__builtin_popcountll(copy->slots[i]);
    return count;
}

static bool is_copy_different(const struct compare_copy *copy)
{
    return copy->is_system_different || count_slots(copy);
}

static void log_difference(const struct compare *compare, const struct compare_copy *copy,
                           const char *address)
{
    unsigned slot = 0;
    while (slot < SLOT_COUNT && !(copy->slots[slot / 64] >> (slot % 64) & 1))
        slot++;
    log_event(LOG_ERROR, "copies_differ",
              "partition=%u copy=%s batch=%" PRIu64 " readable=%s slots=%u first_slot=%d system=%s",
              compare->partition->index, address, copy->index, copy->is_unreadable ? "no" : "yes",
              count_slots(copy), slot < SLOT_COUNT ? (int)slot : -1,
              copy->is_system_different ? "yes" : "no");
}

/* sums NULL: of the leader itself. */
static void judge(struct compare *compare, struct compare_copy *copy, const struct row_sums *sums,
                  const char *address)
{
    const struct row_sums *own = compare->own;
    bool is_failed = sums ? sums->is_failed : own->is_failed;
    bool is_found = false;
    for (unsigned slot = own->first; slot <= own->last; slot++) {
        bool differs = is_failed || (sums && sums->of[slot] != own->of[slot]);
        note_slot(copy, slot, differs);
        is_found |= differs;
    }
    copy->index = compare->own_index;
    copy->is_system_different = sums && !is_failed && sums->system != own->system;
    copy->is_unreadable = is_failed || (copy->is_unreadable && count_slots(copy));
    if (is_found || copy->is_system_different)
        log_difference(compare, copy, address);
}

/* What a leader that cannot read its own rows has summed up says nothing about others. */
static void judge_got(struct compare *compare, struct compare_copy *copy, const char *address)
{
    const struct row_sums *own = compare->own;
    struct row_sums *got = copy->got;
    if (!got || !own || copy->got_index > compare->own_index)
        return;
    copy->got = NULL;
    if (copy->got_index == compare->own_index && got->first == own->first &&
        got->last == own->last && (!own->is_failed || got->is_failed))
        judge(compare, copy, got, address);
    row_sums_free(got);
}

void compare_judge_all(struct compare *compare)
{
    struct replica_figures figures;
    replica_figures(compare->partition->copies.replica, &figures);
    forget_who_left(compare, &figures);
    for (unsigned i = 0; i < figures.count; i++) {
        struct compare_copy *copy = copy_of_member(compare, figures.of[i].id);
        if (copy->id == figures.own)
            judge(compare, copy, NULL, figures.of[i].address);
        else
            judge_got(compare, copy, figures.of[i].address);
    }
}

/* peer_handle_fn */
void handle_sums(struct partition *partition, struct peer_incoming *incoming,
                 const struct peer_frame *frame)
{
    struct compare *compare = partition->copies.compare;
    struct replica_figures figures = {0};
    struct sums_head head;
    struct row_sums *sums = sums_read(frame->payload, &head);
    if (partition->copies.replica)
        replica_figures(partition->copies.replica, &figures);
    const char *address = head.id ? member_address(&figures, head.id) : NULL;
    if (!sums || !compare || partition->copies.is_closed || !address || head.id == figures.own) {
        row_sums_free(sums);
    } else {
        forget_who_left(compare, &figures);
        struct compare_copy *copy = copy_of_member(compare, head.id);
        row_sums_free(copy->got);
        copy->got = sums;
        copy->got_index = head.index;
        judge_got(compare, copy, address);
    }
    peer_incoming_done(incoming, frame->id, (struct bytes){"", 0});
}

/* ---- what is shown ----------------------------------------------------------------------------- */

void compare_forget_all(struct compare *compare)
{
    for (unsigned i = 0; i < REPLICA_FIGURES_MAX; i++)
        forget_copy(&compare->copies[i]);
    row_sums_free(compare->own);
    compare->own = NULL;
}

unsigned compare_count_different(const struct compare *compare)
{
    unsigned count = 0;
    for (unsigned i = 0; i < REPLICA_FIGURES_MAX; i++)
        count += compare->copies[i].id && is_copy_different(&compare->copies[i]);
    return count;
}

struct compare_found compare_found(const struct partition *partition, uint64_t id)
{
    const struct compare_copy *copy = id ? copy_with_id(partition->copies.compare, id) : NULL;
    if (!copy || !copy->index)
        return (struct compare_found){.verdict = COMPARE_UNKNOWN};
    return (struct compare_found){
        .verdict = !is_copy_different(copy) ? COMPARE_SAME
                   : copy->is_unreadable    ? COMPARE_UNREADABLE
                                            : COMPARE_DIFFER,
        .index = copy->index,
        .slots = count_slots(copy),
    };
}
