#include "backend/partition_commit.h"

#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/slow_call.h"
#include "backend/keyspace/expiry.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/write_history.h"
#include "backend/partition/leadership.h"
#include "backend/partition/shards.h"
#include "backend/script/script.h"
#include "backend/session/pause.h"
#include "backend/session/push_message.h"
#include "backend/session/reply_stream.h"
#include "backend/session/session_reply.h"
#include "backend/session/ticket_wait.h"
#include "backend/session/tracking.h"
#include "backend/storage/partition_store.h"
#include "shared/clock.h"

static const struct bytes header_key = {SYSTEM_HEADER, 1};

static bool read_log_id(struct partition *partition)
{
    struct slice value;
    int err = overlay_get(partition->overlay, CF_SYSTEM, BYTES(SYSTEM_LOG_ID), &value);
    if (err == ERR_NOT_FOUND)
        return true;
    bool good = err == OK && decode_u64(slice_bytes(&value), &partition->batch.log_id);
    if (err == OK)
        slice_release(&value);
    return good;
}

bool partition_read_header(struct partition *partition)
{
    struct slice value;
    struct batch_header header = {0};
    int err = overlay_get(partition->overlay, CF_SYSTEM, header_key, &value);
    bool good =
        err == ERR_NOT_FOUND || (err == OK && decode_batch_header(slice_bytes(&value), &header));
    if (err == OK)
        slice_release(&value);
    if (!good || !read_log_id(partition))
        return false;
    partition->batch.index = header.index;
    partition->batch.origin_ms = header.origin_ms;
    hybrid_clock_begin(&partition->batch.hybrid, header.hybrid);
    if (header.version > partition->batch.version)
        partition->batch.version = header.version;
    return true;
}

/* commit_close_fn: adds the last rows of a batch. */
static void on_close(void *owner)
{
    struct partition *partition = owner;
    write_history_note(partition->caches.written, partition->overlay, partition->spaces,
                       partition->caches.unfiled_bytes);
    space_put_counters(partition->spaces);
    partition->batch.index = commit_next_index(partition->commit);
    const struct batch_header header = {
        .index = partition->batch.index,
        .epoch = partition->copies.term,
        .origin_ms = loop_wall_ms(partition->loop),
        .version = partition->batch.version,
        .hybrid = hybrid_clock_close(&partition->batch.hybrid, clock_wall_us()),
    };
    overlay_set_header(partition->overlay, header_key, &header);
    partition->batch.closed_us = clock_mono_us();
    cell_observe(partition->metrics.cell, PARTITION_BATCH_COMMANDS, partition->batch.commands);
    partition->batch.commands = 0;
}

/* commit_recover_fn: reads again all state that is cached from the store. Also called right after a failed commit. While the partition is
 * closed, moves and transactions must not go on: begin_serving loads them. */
static bool read_anew(void *owner)
{
    struct partition *partition = owner;
    expiry_restart(partition->expiry.keys);
    functions_forget(partition->scripts);
    if (space_reload(partition->spaces) && partition_read_header(partition) &&
        (partition->copies.is_closed ? shards_reload_slots(partition) : shards_reload(partition)))
        return true;
    log_event(LOG_ERROR, "reload_failed", "partition=%u", partition->index);
    return false;
}

/* Handles a failed commit: both batches were rolled back. */
static void commit_failed(struct partition *partition, uint64_t ticket)
{
    metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_FAILURES, 1);
    leadership_not_logged(partition);
    (void)read_anew(partition); /* commit calls it again before it accepts writes */
    int err = commit_error(partition->commit);
    sessions_release(partition, ticket & 1, err);
    sessions_release(partition, !(ticket & 1), err);
    ticket_waits_end(partition, ticket, err);
    reply_streams_abort(partition);
    tracking_forget_all(partition);
    push_messages_deliver(partition->watchers.messages, 0);
    blocking_check_all(partition->watchers.blocking);
}

/* commit_room_fn: the open batch has space again. */
static void on_room(void *owner)
{
    struct partition *partition = owner;
    if (partition_is_full(partition))
        return;
    leadership_has_room(partition);
    partition_resume(partition);
}

/* commit_fn */
static void on_commit(void *owner, uint64_t ticket, uint64_t index, int err)
{
    struct partition *partition = owner;
    if (err) {
        commit_failed(partition, ticket);
    } else {
        leadership_logged(partition, ticket, index);
        hybrid_clock_announce(&partition->batch.hybrid);
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMITS, 1);
        metric_set(partition->metrics.process, METRIC_BACKEND_KEYS,
                   space_keys_total(partition->spaces));
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_ROWS,
                   commit_rows(partition->commit));
        uint64_t usec = clock_mono_us() - partition->batch.closed_us;
        metric_add(partition->metrics.process, METRIC_BACKEND_COMMIT_US, usec);
        cell_observe(partition->metrics.cell, PARTITION_COMMIT_SECONDS, usec);
        cell_observe(partition->metrics.cell, PARTITION_SYNC_SECONDS,
                     commit_sync_us(partition->commit));
        cell_observe(partition->metrics.cell, PARTITION_BATCH_BYTES,
                     commit_bytes(partition->commit));
        partition_note_latency(partition, LATENCY_COMMIT, usec);
        pace_note(&partition->batch.latency, partition_latency_target_us(partition), usec);
        sessions_release(partition, ticket & 1, OK);
        ticket_waits_end(partition, ticket, OK);
    }
    slow_calls_go_on(partition);
    on_room(partition);
}

void partition_commit_init(struct partition *partition)
{
    const struct commit_options options = {
        .durability = (enum durability)partition->snapshot->config.durability,
        .on_close = on_close,
        .on_commit = on_commit,
        .on_recover = read_anew,
        .on_room = on_room,
        .owner = partition,
    };
    partition->copies.read_anew = read_anew;
    partition->commit =
        commit_new(partition->loop, partition->overlay, partition->storage, &options);
}
