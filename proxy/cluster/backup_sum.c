#include "proxy/cluster/backup_sum.h"

#include "proxy/core/node.h"
#include "proxy/core/worker.h"

#include <stdio.h>

enum {
    SILENT_MS = 10000
}; /* a copy that makes files is lost when it has not answered for so long */

/* Does the shard work on this backup? */
static bool is_ours(const struct backup_watch *watch, const struct shard_status *status)
{
    return bytes_equal(status->id, bytes_of(watch->id));
}

/* Writes why a shard is not quiet. A shard that does not answer explains why others are not, so it is named first. */
static void note_unquiet(const struct shard_reply *answer, const struct shard_status *status,
                         struct backup_sum *sum)
{
    if (status->is_silent && sum->silent == 0)
        (void)snprintf(sum->unquiet, sizeof sum->unquiet,
                       "shard '%s' does not answer: check that it runs", answer->shard);
    else if (status->waits_for.len && !*sum->unquiet)
        (void)snprintf(sum->unquiet, sizeof sum->unquiet, "shard '%s': %.*s", answer->shard,
                       (int)status->waits_for.len, status->waits_for.data);
}

static bool has_ended_well(const struct backup_watch *watch, const struct shard_status *status)
{
    return !is_ours(watch, status) && bytes_equal(status->last_backup, bytes_of(watch->name)) &&
           bytes_is(status->last_status, "ok");
}

static void note_failed_part(const struct backup_watch *watch, const struct shard_reply *answer,
                             const struct shard_status *status, struct backup_sum *sum)
{
    bool has_error = bytes_equal(status->last_backup, bytes_of(watch->name));
    struct bytes reason =
        status->is_silent ? BYTES("the copy does not answer")
        : has_error       ? status->last_error
                    : BYTES("the backend has no record of this backup; it may have restarted");
    char place[SHARD_ADDRESS_MAX + 4] = "";
    if (backup_copier_is(watch->copies, answer->node))
        (void)snprintf(place, sizeof place, " (%s)", answer->node->address);
    (void)snprintf(sum->reason, sizeof sum->reason, "shard '%s'%s: %.*s", answer->shard, place,
                   (int)reason.len, reason.len ? reason.data : "");
}

/* A copy that makes files. While it does not answer it may be restarting its connection. */
static void add_copier_status(const struct backup_watch *watch, const struct shard_reply *answer,
                              const struct shard_status *status, struct backup_sum *sum)
{
    struct backup_copier *copier = backup_copier_of(watch->copies, answer->node->index);
    uint64_t now_ms = loop_mono_ms(watch->worker->loop);
    bool ours = is_ours(watch, status);
    sum->copies++;
    sum->ready += ours && bytes_is(status->state, "ready");
    copier->silent_ms = !status->is_silent ? 0 : copier->silent_ms ? copier->silent_ms : now_ms;
    if (has_ended_well(watch, status)) {
        copier->bytes = status->total;
        sum->done++;
    } else if (status->is_silent ? now_ms >= copier->silent_ms + SILENT_MS : !ours) {
        note_failed_part(watch, answer, status, sum);
        copier->has_failed = sum->has_failed_copy = true;
    }
}

/* Of a leader whose files a copy makes, nothing counts after its hold. */
static bool is_over(const struct backup_watch *watch, const struct backup_copier *copier)
{
    return copier && watch->is_confirmed;
}

void backup_sum_add(const struct backup_watch *watch, const struct shard_reply *answer,
                    const struct shard_status *status, struct backup_sum *sum)
{
    struct backup_copier *copier = backup_copier_of(watch->copies, answer->node->index);
    bool ours = is_ours(watch, status);
    bool is_last = has_ended_well(watch, status);
    if (backup_copier_is(watch->copies, answer->node)) {
        add_copier_status(watch, answer, status, sum);
        return;
    }
    if (answer->node->is_copy)
        return; /* it leads now, or is no longer in the map: another node at its address is asked */
    sum->holding += copier && ours;
    if (is_over(watch, copier))
        return;
    if (copier && ours && status->moment.len && status->moment.len < sizeof copier->moment)
        (void)snprintf(copier->moment, sizeof copier->moment, "%.*s", (int)status->moment.len,
                       status->moment.data);
    note_unquiet(answer, status, sum);
    sum->silent += status->is_silent;
    sum->quiet += ours && bytes_is(status->state, "quiet");
    sum->ready += ours && bytes_is(status->state, "ready");
    sum->have_cut += ours && status->is_held &&
                     (bytes_is(status->state, "copying") || bytes_is(status->state, "copied"));
    sum->done += is_last;
    if (status->is_silent || ours || (is_last && watch->is_confirmed))
        return;
    sum->has_failed = true;
    note_failed_part(watch, answer, status, sum);
}

void backup_sum_end(const struct backup_watch *watch, struct backup_sum *sum)
{
    uint32_t expected = 0;
    struct backup_copier *last = NULL;
    for (uint32_t i = 0; i < watch->copies->count; i++) {
        struct backup_copier *copier = backup_copier_of(watch->copies, i);
        expected += copier != NULL;
        last = copier && !backup_copies_has_node(watch->copies, watch->worker, i) ? copier : last;
    }
    if (expected == sum->copies || sum->has_failed_copy || !last)
        return;
    last->has_failed = sum->has_failed_copy = true;
    (void)snprintf(sum->reason, sizeof sum->reason, "the copy %s is no longer in the map",
                   last->address);
}
