#include "backend/partition/refresh.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition/founding.h"
#include "backend/session/limits.h"
#include "backend/session/session.h"
#include "backend/session/tracking.h"
#include "backend/slots/peering.h"
#include "backend/storage/overlay.h"

/* Closes connections whose users may no longer subscribe to their channels. */
static void close_forbidden(struct partition *partition)
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        struct session *session = container_of(link, struct session, link);
        const struct acl_user *user = session_user(session);
        next = link->next;
        if (!session->login.is_internal && !session->is_closing && user &&
            !subscriber_allowed(&session->subscriber, user))
            session_abort(session);
    }
}

void partition_refresh(struct partition *partition)
{
    struct config_snapshot *old = partition->snapshot;
    struct process *process = partition->process;
    if (atomic_load_explicit(&process->config_snapshot_epoch, memory_order_acquire) == old->epoch)
        return;
    const struct config_snapshot *now = partition->snapshot = process_settings(process);
    if (now->config.durability != old->config.durability && !partition->copies.replica)
        commit_set_durability(partition->commit, (enum durability)now->config.durability);
    overlay_use_buffers(partition->overlay, now->memory.write_buffer);
    if (now->maxmemory != old->maxmemory)
        limits_tick(partition);
    if (now->config.active_expire != old->config.active_expire)
        partition->expiry.is_active = now->config.active_expire;
    if (now->tracking_keys_max != old->tracking_keys_max)
        tracking_limit(partition->watchers.tracking);
    if (now->acl != old->acl)
        close_forbidden(partition);
    if (now->map != old->map || now->peer_tls != old->peer_tls ||
        now->config.peer_timeout_ms != old->config.peer_timeout_ms ||
        now->config.peer_output_limit_bytes != old->config.peer_output_limit_bytes) {
        peering_configure(partition);
        founding_configure(partition);
    }
    config_snapshot_unref(old);
}
