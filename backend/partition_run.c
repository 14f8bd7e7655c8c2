#include "backend/partition_run.h"

#include "backend/backup/backup.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/keyspace/lock.h"
#include "backend/partition/compare.h"
#include "backend/partition/connection.h"
#include "backend/partition/founding.h"
#include "backend/partition/gauges.h"
#include "backend/partition/hand_over.h"
#include "backend/partition/leader_line.h"
#include "backend/partition/leadership.h"
#include "backend/partition/refresh.h"
#include "backend/partition/stopping.h"
#include "backend/peer/peer_set.h"
#include "backend/session/limits.h"
#include "backend/session/tracking.h"
#include "shared/net/refuse.h"

/* Closes all sessions with session_end or session_abort. */
static void close_sessions(struct partition *partition,
                           void (*session_close)(struct session *session))
{
    struct list *next;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = next) {
        next = link->next;
        session_close(container_of(link, struct session, link));
    }
    CHECK(list_empty(&partition->clients.all));
}

static void on_stopped(struct partition *partition)
{
    void (*tell)(void *owner) = partition->thread.on_stopped;
    close_sessions(partition, session_end);
    peer_set_free(partition->shards.peers);
    partition->shards.peers = NULL;
    timer_stop(partition->thread.tick);
    timer_stop(partition->shards.tick);
    partition->thread.on_stopped = NULL;
    leader_line_free(partition);
    compare_stop(partition);
    leadership_stop(partition, tell, partition->thread.stop_owner);
}

static void stop_reading(struct partition *partition)
{
    partition->thread.is_stopping = true;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next)
        stream_pause(container_of(link, struct session, link)->stream);
}

bool partition_end_turn(void *owner)
{
    struct partition *partition = owner;
    struct list *overdue;
    bool told = tracking_turn_end(partition);
    told |= lock_set_turn_end(partition->shards.locks);
    limits_turn_end(partition);
    while ((overdue = list_pop(&partition->clients.overdue)))
        session_abort(container_of(overdue, struct session, replies.overdue));
    (void)commit_turn_end(partition->commit);
    backup_turn_end(partition->saves.backup);
    gauges_turn_end(partition);
    hand_over_turn_end(partition);
    if (partition->thread.is_draining && !partition->thread.is_stopping &&
        !partition->copies.hand_over && stopping_is_drained(partition))
        stop_reading(partition);
    if (partition->thread.on_stopped && partition->thread.is_stopping &&
        commit_is_idle(partition->commit))
        on_stopped(partition);
    return told;
}

static void close_listeners(struct partition *partition)
{
    if (partition->listeners.tcp)
        listener_free(partition->listeners.tcp);
    if (partition->listeners.tls)
        listener_free(partition->listeners.tls);
    if (partition->listeners.unix_socket)
        listener_free(partition->listeners.unix_socket);
    partition->listeners.tcp = partition->listeners.tls = partition->listeners.unix_socket = NULL;
    if (partition->shards.peers)
        peer_set_stop_accepting(partition->shards.peers);
}

void partition_stop(struct partition *partition, void (*tell)(void *owner), void *owner)
{
    CHECK(!partition->thread.is_draining);
    partition->thread.on_stopped = tell;
    partition->thread.stop_owner = owner;
    close_listeners(partition);
    stopping_begin(partition);
    (void)hand_over_begin(partition, "");
}

/* maxclients is reached: replies an error and closes the connection. */
static void refuse_connection(struct partition *partition, struct stream *stream)
{
    struct reply reply = {.out = stream_out(stream), .resp = 2};
    reply_code(&reply, ERR_MAXCLIENTS);
    refuse_stream(stream);
    partition->metrics.stats->connections_refused++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS_REFUSED, 1);
}

struct tls_context *partition_tls(void *owner)
{
    struct partition *partition = owner;
    partition_refresh(partition);
    return partition->snapshot->tls;
}

void partition_accept(void *owner, struct stream *stream)
{
    struct partition *partition = owner;
    partition_refresh(partition);
    if (!process_client_joined(partition->process)) {
        refuse_connection(partition, stream);
        return;
    }
    partition->metrics.stats->connections_total++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS_ACCEPTED, 1);
    connection_new(partition, stream, ++partition->clients.last_id);
}

void partition_close(struct partition *partition)
{
    close_sessions(partition, session_abort);
    peer_set_free(partition->shards.peers);
    partition->shards.peers = NULL;
    close_listeners(partition);
    leader_line_free(partition);
    compare_free(partition);
    leadership_free(partition);
    founding_free(partition);
}
