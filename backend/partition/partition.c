/*
 * partition.c - what commands and sessions ask of their partition: versions, settings, pauses, calls without a session.
 */
#include "backend/partition/partition.h"

#include "backend/keyspace/keyspace.h"
#include "backend/partition/message.h"
#include "backend/partition/process.h"
#include "backend/partition/session.h"

/* ---- pauses ---- */

bool partition_is_full(const struct partition *partition)
{
    return commit_is_full(partition->commit,
                          (uint64_t)partition->settings->config.commit_batch_limit_bytes);
}

void partition_resume(struct partition *partition)
{
    if (!partition->pause.has_waiting)
        return;
    partition->pause.has_waiting = false;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next)
        session_resume(container_of(link, struct session, link));
}

bool partition_keeps_expired(const struct partition *partition)
{
    return partition->pause.until_ms && !partition->pause.is_new;
}

void partition_pause(struct partition *partition, uint64_t until_ms, bool writes_only)
{
    partition->pause.until_ms = until_ms;
    partition->pause.writes_only = writes_only;
    if (until_ms == 0)
        partition_resume(partition);
}

/* ---- settings, saves ---- */

/* Connections whose users may no longer listen to what they listen to. */
static void close_forbidden(struct partition *partition)
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        const struct acl_user *user = session_user(session);
        next = link->next;
        if (!session->is_internal && !session->is_closing && user &&
            !subscriber_allowed(&session->subscriber, user))
            session_abort(session);
    }
}

void partition_refresh(struct partition *partition)
{
    struct settings *old = partition->settings;
    struct process *process = partition->process;
    if (atomic_load_explicit(&process->settings_epoch, memory_order_acquire) == old->epoch)
        return;
    const struct settings *now = partition->settings = process_settings(process);
    if (now->config.durability != old->config.durability)
        commit_set_durability(partition->commit, (enum durability)now->config.durability);
    overlay_use_buffers(partition->overlay, now->config.store_layer_bytes);
    if (now->config.active_expire != old->config.active_expire)
        partition->expiry.is_active = now->config.active_expire;
    if (now->acl != old->acl)
        close_forbidden(partition);
    settings_unref(old);
}

void partition_saved(struct partition *partition, bool good, uint64_t changes)
{
    partition->saves.failed = !good;
    if (good) {
        partition->saves.count++;
        if (changes > partition->saves.changes)
            partition->saves.changes = changes;
        partition->saves.last_s = loop_wall_ms(partition->loop) / 1000;
    }
}

/* ---- latency ---- */

void partition_note_latency(struct partition *partition, enum latency_kind kind, uint64_t usec)
{
    uint64_t threshold_ms = (uint64_t)partition->settings->latency_threshold_ms;
    if (threshold_ms && usec >= threshold_ms * 1000)
        latency_add_event(partition->metrics.latency, kind, loop_wall_ms(partition->loop) / 1000,
                          usec / 1000);
}

uint64_t partition_latency_target_us(const struct partition *partition)
{
    return (uint64_t)partition->settings->config.store_latency_target_ms * 1000;
}

/* ---- calls without a session, versions ---- */

uint64_t partition_version(struct partition *partition, uint64_t now_us)
{
    uint64_t version = now_us << 11;
    if (version <= partition->batch.version)
        version = partition->batch.version + 1;
    partition->batch.version = version;
    return version;
}

void partition_call_begin(struct partition *partition, struct call *call)
{
    *call = (struct call){
        .partition = partition,
        .reply = {.out = &partition->running.discarded, .resp = 2},
        .arena = &partition->running.arena,
        .now_us = loop_wall_us(partition->loop),
        .now_ms = loop_wall_ms(partition->loop),
    };
    overlay_savepoint(partition->overlay);
    space_savepoint(partition->spaces);
}

void partition_call_end(struct partition *partition, struct call *call)
{
    if (call->failed) {
        overlay_rollback(partition->overlay);
        space_rollback(partition->spaces);
        messages_cut(partition->watchers.messages, 0);
    }
    if (messages_ready(partition->watchers.messages))
        messages_deliver(partition->watchers.messages, overlay_ticket(partition->overlay));
    keyspace_end(partition);
    out_clear(&partition->running.discarded);
    arena_reset(&partition->running.arena);
}
