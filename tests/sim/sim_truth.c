#include "tests/sim/sim_truth.h"

#include "backend/consensus/members.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sim_truth_fail(struct sim_truth *truth, const char *format, ...)
{
    if (truth->why[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(truth->why, sizeof truth->why, format, arguments);
    va_end(arguments);
}

static bool is_same(const struct sim_record *a, const struct sim_record *b)
{
    return a->term == b->term && a->batch_term == b->batch_term && a->value == b->value &&
           a->members == b->members;
}

/* ---- records ----------------------------------------------------------------------------------- */

/* A record of the members: it differs by one from those before, and its map is no older. */
static void look_at_members(struct sim_truth *truth, const struct sim_log *log, uint64_t index)
{
    const struct consensus_members *members = sim_members_get(log->record[index - 1].members);
    struct consensus_members before = sim_log_members(log, index - 1);
    if (before.count && !members_differ_by_one(&before, members))
        sim_truth_fail(truth, "record %" PRIu64 " changes several members", index);
    if (members->epoch < before.epoch)
        sim_truth_fail(truth, "record %" PRIu64 " changes members by an older map", index);
}

static void look_at_record(struct sim_truth *truth, const struct sim_copy *copy, uint64_t index)
{
    const struct sim_record *record = &copy->written.record[index - 1];
    uint32_t term_before = index > 1 ? copy->written.record[index - 2].term : 0;
    if (record->term != record->batch_term)
        sim_truth_fail(truth, "record %" PRIu64 " of term %u was closed in term %u", index,
                       record->term, record->batch_term);
    unsigned count = truth->written[index - 1].count;
    for (unsigned i = 0; i < count; i++) {
        if (truth->written[index - 1].record[i].term != record->term)
            continue;
        if (!is_same(&truth->written[index - 1].record[i], record) ||
            truth->written[index - 1].term_before[i] != term_before)
            sim_truth_fail(truth, "two records %" PRIu64 " of term %u", index, record->term);
        return;
    }
    if (record->members)
        look_at_members(truth, &copy->written, index);
    if (count == TRUTH_NAMES_MAX)
        return;
    truth->written[index - 1].record[count] = *record;
    truth->written[index - 1].term_before[count] = term_before;
    truth->written[index - 1].count++;
}

static void look_at_committed(struct sim_truth *truth, const struct sim_copy *copy, uint64_t index)
{
    const struct sim_record *record = &copy->written.record[index - 1];
    if (index > copy->written.last) {
        sim_truth_fail(truth, "copy %" PRIu64 " commits %" PRIu64 ", which it does not have",
                       copy->id, index);
    } else if (index <= truth->committed.last) {
        if (!is_same(&truth->committed.record[index - 1], record))
            sim_truth_fail(truth, "copy %" PRIu64 " commits another record %" PRIu64, copy->id,
                           index);
    } else if (index == truth->committed.last + 1) {
        truth->committed.record[truth->committed.last++] = *record;
        truth->committed_in[index - 1] = (uint32_t)copy->core.term;
    } else {
        sim_truth_fail(truth, "copy %" PRIu64 " skips records", copy->id);
    }
}

/* ---- leaders ----------------------------------------------------------------------------------- */

/* A new leader has all that was committed in earlier terms. */
static void look_at_leader(struct sim_truth *truth, const struct sim_copy *copy)
{
    uint64_t term = copy->core.term;
    CHECK(term < TRUTH_TERMS_MAX);
    if (truth->leader_of[term] && truth->leader_of[term] != copy->id)
        sim_truth_fail(truth, "copies %" PRIu64 " and %" PRIu64 " lead term %" PRIu64,
                       truth->leader_of[term], copy->id, term);
    if (truth->leader_of[term])
        return;
    truth->leader_of[term] = copy->id;
    for (uint64_t i = 0; i < truth->committed.last; i++)
        if (truth->committed_in[i] < term &&
            (i >= copy->written.last ||
             !is_same(&truth->committed.record[i], &copy->written.record[i])))
            sim_truth_fail(truth,
                           "copy %" PRIu64 " leads term %" PRIu64
                           " without the committed record %" PRIu64,
                           copy->id, term, i + 1);
}

void sim_truth_look(struct sim_truth *truth, const struct sim_copy *copy,
                    const struct consensus *before)
{
    const struct consensus *core = &copy->core;
    if (copy->update.fault)
        sim_truth_fail(truth, "copy %" PRIu64 " ends with fault %d", copy->id, copy->update.fault);
    if (core->last != copy->written.last)
        sim_truth_fail(truth, "copy %" PRIu64 " has another log than its core", copy->id);
    if (core->term < before->term || core->committed < before->committed)
        sim_truth_fail(truth, "copy %" PRIu64 " goes back", copy->id);
    for (uint64_t index = before->committed + 1; index <= copy->written.last && !truth->why[0];
         index++)
        look_at_record(truth, copy, index);
    for (uint64_t i = before->committed + 1; i <= core->committed && !truth->why[0]; i++)
        look_at_committed(truth, copy, i);
    if (core->role < CONSENSUS_LEADING || truth->why[0])
        return;
    look_at_leader(truth, copy);
    if (core->committed > before->committed &&
        copy->written.record[core->committed - 1].term != core->term)
        sim_truth_fail(truth, "copy %" PRIu64 " commits by counting a record of an earlier term",
                       copy->id);
    if (core->committed > truth->acknowledged)
        truth->acknowledged = core->committed;
}

/* Its bytes are read as what was written. */
static void look_at_bytes(struct sim_truth *truth, const struct consensus_message *message)
{
    char bytes[CONSENSUS_MESSAGE_BYTES_MAX];
    char again[CONSENSUS_MESSAGE_BYTES_MAX];
    struct consensus_message copy;
    unsigned len = consensus_message_write(message, bytes);
    struct bytes rest = {bytes, len};
    if (!consensus_message_read(&rest, &copy) || rest.len > 0 ||
        consensus_message_write(&copy, again) != len || memcmp(bytes, again, len) != 0)
        sim_truth_fail(truth, "copy %" PRIu64 " sends a message of kind %d that cannot be read",
                       message->from, message->kind);
}

void sim_truth_look_at(struct sim_truth *truth, const struct consensus_message *message)
{
    look_at_bytes(truth, message);
    if (message->kind != CONSENSUS_VOTE_REPLY || message->is_pre || !message->is_good)
        return;
    CHECK(message->term < TRUTH_TERMS_MAX && message->from < TRUTH_IDS_MAX);
    uint8_t *vote = &truth->vote_of[message->from][message->term];
    if (*vote && *vote != message->to)
        sim_truth_fail(truth, "copy %" PRIu64 " votes twice in term %" PRIu64, message->from,
                       message->term);
    *vote = (uint8_t)message->to;
}

void sim_truth_lease(struct sim_truth *truth, const struct sim_copy *copy,
                     const struct sim_copy *other)
{
    if (other)
        sim_truth_fail(truth, "copies %" PRIu64 " and %" PRIu64 " have a lease", copy->id,
                       other->id);
    if (copy->core.committed < truth->acknowledged)
        sim_truth_fail(truth, "copy %" PRIu64 " has a lease and lacks acknowledged writes",
                       copy->id);
}
