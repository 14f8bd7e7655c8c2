#include "backend/partition/connection.h"

#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/context/stats.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/dispatch.h"
#include "backend/dispatch/slow_call.h"
#include "backend/dispatch/suspend.h"
#include "backend/partition/adopt.h"
#include "backend/partition/refresh.h"
#include "backend/session/monitor.h"
#include "backend/session/push_message.h"
#include "backend/session/reply_stream.h"
#include "backend/session/session_reply.h"
#include "backend/session/tracking.h"
#include "backend/session/waiters.h"
#include "backend/session/waits.h"
#include "backend/transaction/coordinator.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <limits.h>
#include <stdlib.h>

enum {
    ARGV_KEEP = 1024,
    ARGS_MAX_UNAUTHENTICATED = 10,
    INLINE_BYTES_MAX = 64 * 1024,
    TURN_US = 2000 /* after so long no further request of a connection begins in this turn */
};

static receive_fn on_data;
static void on_end(void *owner, int err);
static void on_drain(void *owner);
static void on_fetched(struct retry *retry);
static const struct stream_events events = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain};
static void begin_next_turn(struct last_step *step);
static void connection_abort(struct session *session);
static void connection_end(struct session *session);
static void connection_resume(struct session *session);
static void connection_go_on(struct session *session);
static void close_if_done(struct session *session);
static const struct session_ops ops = {.abort = connection_abort,
                                       .end = connection_end,
                                       .resume = connection_resume,
                                       .go_on = connection_go_on,
                                       .close_if_done = close_if_done};

/* ---- open and close ---- */

struct session *connection_new(struct partition *partition, struct stream *stream, uint64_t id)
{
    struct session *session = calloc(1, sizeof *session);
    CHECK(session);
    session->ops = &ops;
    session->magic = SESSION_MAGIC;
    session->partition = partition;
    session->stream = stream;
    session->id = id;
    session->about.created_ms = loop_mono_ms(partition->loop);
    for (int i = 0; i < 2; i++) {
        list_init(&session->replies.waiting[i]);
        out_init(&session->replies.held[i]);
    }
    resp_scan_init(&session->scan);
    session->login.is_untrusted =
        !stream_is_local(stream) &&
        !(partition->snapshot->config.tls_auth_clients == TLS_CLIENTS_VERIFIED &&
          stream_is_verified(stream));
    transaction_init(&session->transaction);
    watcher_init(&session->watcher);
    subscriber_init(&session->subscriber);
    tracker_init(&session->tracker);
    retry_init(&session->pending.retry, on_fetched);
    list_init(&session->monitor);
    list_init(&session->replies.overdue);
    list_init(&session->pending.next_turn.link);
    list_init(&session->pending.fresh.link);
    list_init(&session->pending.line.link);
    session->pending.next_turn.run = begin_next_turn;
    connection_reset(session);
    list_push(&partition->clients.all, &session->link);
    partition->clients.count++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS, 1);
    stream_set_owner(stream, &events, session);
    return session;
}

static void stop_waiting(struct session *session)
{
    if (session->pending.waiter)
        blocking_cancel(session->pending.waiter);
    waits_cancel(session, blocking_cancel);
}

/* Frees the session and its state, but not the stream. */
static void connection_free(struct session *session)
{
    struct partition *partition = session->partition;
    stop_waiting(session);
    slow_call_forget(session);
    waits_free(session);
    session_pause(session, false);
    if (session->pending.retry.pending)
        metric_sub(partition->metrics.process, METRIC_BACKEND_SUSPENDED_CLIENTS, 1);
    retry_cancel(&session->pending.retry);
    suspend_forget_locks(session);
    coordinator_abandon(session);
    reply_stream_free(session->pending.streamed);
    connection_reset(session);
    tracking_leave(session);
    push_messages_forget(partition->watchers.messages, session);
    coordinator_forget(partition->shards.coordinator, session);
    list_remove(&session->replies.overdue);
    list_remove(&session->pending.next_turn.link);
    list_remove(&session->pending.fresh.link);
    list_remove(&session->pending.line.link);
    for (int i = 0; i < 2; i++) {
        list_remove(&session->replies.waiting[i]);
        out_clear(&session->replies.held[i]);
    }
    resp_scan_fini(&session->scan);
    list_remove(&session->link);
    partition->clients.count--;
    metric_sub(partition->metrics.process, METRIC_BACKEND_CLIENTS, 1);
    process_client_left(partition->process);
    session->magic = 0;
    free(session->peer);
    impersonation_fini(&session->login.impersonation);
    session_set_slots(session, NULL);
    free(session);
}

static void connection_abort(struct session *session)
{
    CHECK(session->magic == SESSION_MAGIC);
    if (session->is_running) {
        session_abort_later(session);
        return;
    }
    stream_abort(session->stream);
    connection_free(session);
}

/* Closes the session if it is closing and all its replies are in the stream. */
static void close_if_done(struct session *session)
{
    if (!session->is_closing || session->is_running || session_holds(session, 0) ||
        session_holds(session, 1))
        return;
    stream_close(session->stream);
    connection_free(session);
}

static void connection_end(struct session *session)
{
    CHECK(session->magic == SESSION_MAGIC);
    if (session->pending.streamed) { /* the rest of its reply is dropped */
        session_abort(session);
        return;
    }
    session->is_closing = true;
    stop_waiting(session);
    stream_pause(session->stream);
    close_if_done(session);
}

static void on_end(void *owner, int err)
{
    struct session *session = owner;
    if (err)
        session_abort(session);
    else
        session_end(session);
}

static void on_drain(void *owner)
{
    struct session *session = owner;
    if (session->pending.waits)
        dispatch_drained(session->partition);
    if (!session->pending.streamed)
        session_resume(session);
    else if (session->pending.streamed->is_open)
        reply_stream_wake(session->pending.streamed);
}

void connection_reset(struct session *session)
{
    session_use(session, (struct bytes){"", 0}, 0, NULL);
    session_set_slots(session, NULL);
    session_end_bounces(session);
    session->resp = 2;
    session->replies.mode = REPLY_MODE_ON;
    session->login.is_authenticated = !config_snapshot_needs_password(session->partition->snapshot);
    session->login.is_internal = session->login.follows_bounces = false;
    session->login.shares_line = session->login.counts_bounces = false;
    session->login.hears_stop = session->login.was_told = false;
    session->about.is_readonly = session->about.wants_fresh = false;
    session->about.no_evict = session->about.no_touch = false;
    session_set_text(&session->about.name, (struct bytes){"", 0});
    session_set_text(&session->about.lib_name, (struct bytes){"", 0});
    session_set_text(&session->about.lib_version, (struct bytes){"", 0});
    session_set_text(&session->login.name, (struct bytes){"", 0});
    session->login.user = NULL;
    transaction_end(&session->transaction);
    session_unwatch(session);
    subscriber_clear(&session->subscriber);
    tracking_off(session);
    monitor_remove(session);
}

/* ---- requests ---- */

static struct resp_limits limits_of(const struct session *session)
{
    const struct backend_config *config = &session->partition->snapshot->config;
    bool known = (session->login.is_authenticated ||
                  !config_snapshot_needs_password(session->partition->snapshot)) &&
                 !session_is_protected(session);
    uint64_t bulk = config->proto_max_bulk_len_bytes;
    return (struct resp_limits){
        .bulk_bytes_max = bulk < UINT32_MAX ? (uint32_t)bulk : UINT32_MAX,
        .args_max = known ? INT_MAX : ARGS_MAX_UNAUTHENTICATED,
        .inline_bytes_max = INLINE_BYTES_MAX,
        .unauthenticated = !known,
    };
}

static struct bytes *argv_room(struct partition *partition, uint32_t argc)
{
    if (argc > partition->running.argv_cap) {
        partition->running.argv_cap = argc < 16 ? 16 : argc;
        partition->running.argv = realloc(
            partition->running.argv, partition->running.argv_cap * sizeof *partition->running.argv);
        CHECK(partition->running.argv);
    }
    return partition->running.argv;
}

static void argv_shrink(struct partition *partition)
{
    if (partition->running.argv_cap <= ARGV_KEEP)
        return;
    free(partition->running.argv);
    partition->running.argv = NULL;
    partition->running.argv_cap = 0;
}

/* Runs the parsed request. False: it must wait, and the session is throttled. */
static bool run_request(struct session *session, const char *frame)
{
    struct partition *partition = session->partition;
    const struct resp_scan *scan = &session->scan;
    const char *base = resp_scan_base(scan, frame);
    struct bytes *argv = argv_room(partition, scan->argc);
    for (uint32_t i = 0; i < scan->argc; i++)
        argv[i] = (struct bytes){base + scan->args[i].at, scan->args[i].len};
    bool done = dispatch(session, argv, scan->argc);
    argv_shrink(partition);
    session_check_owed(session);
    return done;
}

/* Stops running requests until session_resume, which follows when a batch was committed or the client has read its
 * replies. */
static void throttle(struct session *session)
{
    session->is_throttled = true;
    session->partition->pause.has_waiting = true;
    stream_pause(session->stream);
}

static void connection_resume(struct session *session)
{
    if (!session->is_throttled || session->is_closing || session->pending.streamed ||
        session->pending.retry.pending || session->partition->thread.is_stopping)
        return;
    session->is_throttled = false;
    stream_resume(session->stream);
}

/* The first request waits for rows from the disk: stops reading, and prefetches rows for the requests after it,
 * behind[0..len). */
static void suspend(struct session *session, const char *behind, size_t len)
{
    session->is_throttled = true;
    stream_pause(session->stream);
    if (session->request.is_across && session->request.command->traits & TRAIT_RUNS_QUEUE)
        stream_hold(session->stream); /* the proxy needs no reply to MULTI before that to EXEC */
    metric_add(session->partition->metrics.process, METRIC_BACKEND_SUSPENDED_CLIENTS, 1);
    suspend_wait(session, behind, len);
}

/* The rows were fetched: runs the request again. */
static void on_fetched(struct retry *retry)
{
    struct session *session = container_of(retry, struct session, pending.retry);
    CHECK(session->magic == SESSION_MAGIC);
    list_remove(&session->pending.line.link);
    if (session->is_throttled) /* else the wait has ended before suspend() */
        metric_sub(session->partition->metrics.process, METRIC_BACKEND_SUSPENDED_CLIENTS, 1);
    if (retry->has_failed) /* the store has logged the reason */
        session->pending.suspend_tries = UINT8_MAX;
    retry->has_failed = false;
    session_resume(session);
}

/* Limits the size of an incomplete request and of the transaction queue. */
static void check_query(struct session *session, size_t unfinished)
{
    uint64_t limit = session->partition->snapshot->config.client_query_limit_bytes;
    if (session->is_aborted || (unfinished <= limit && session->transaction.bytes <= limit))
        return;
    log_event(LOG_WARN, "client_disconnected", "peer=%s reason=\"client-query-limit\"",
              stream_peer(session->stream));
    session_abort_later(session);
}

/* The request has ended: its locks do, and clients that wait for what it has put into a locked key are served. */
static void end_locks(struct session *session)
{
    if (!session->pending.lock_waiter)
        return;
    suspend_forget_locks(session);
    if (!session->partition->running.busy_error)
        waiters_resume(session->partition->watchers.blocking);
}

/* Handles a frame at the front of data[0..len). Returns the bytes used; 0: no further frame can run now. */
static size_t run_frame(struct session *session, const char *data, size_t len, size_t *need)
{
    struct resp_limits limits = limits_of(session);
    switch (resp_scan(&session->scan, &limits, data, len)) {
    case RESP_MORE:
        *need = session->scan.need;
        check_query(session, *need > len ? *need : len);
        return 0;
    case RESP_BAD:
        session_refuse(session, session->scan.error);
        return 0;
    case RESP_FRAME:
        break;
    }
    size_t size = session->scan.size;
    if (!partition_takes(session->partition, size) && !session->partition->running.busy_error) {
        resp_scan_reset(&session->scan);
        throttle(session);
        return 0;
    }
    if (session->scan.argc > 0 && !run_request(session, data)) {
        resp_scan_reset(&session->scan);
        if (session->pending.retry.pending)
            suspend(session, data + size, len - size);
        else
            throttle(session);
        fresh_reads_stopped(session, len);
        return 0;
    }
    fresh_reads_passed(session, size);
    session->request.number += session->scan.argc > 0;
    session->pending.suspend_tries = session->pending.retry.ranges = 0;
    session->pending.was_slow = session->pending.line.leaves = false;
    session->pending.retry.has_range = false;
    session->pending.retry.since_ms = session->pending.retry.key_proof = 0;
    session->pending.retry.is_charged = false;
    end_locks(session);
    check_query(session, 0);
    return size;
}

static void connection_go_on(struct session *session)
{
    CHECK(session->magic == SESSION_MAGIC);
    CHECK(!session->pending.waiter);
    if (session->is_running || session->is_closing)
        return;
    session->is_running = true;
    session_check_owed(session);
    session->is_running = false;
    if (session->is_aborted) {
        session_abort(session);
    } else if (!session->partition->thread.is_stopping) {
        stream_pause(session->stream); /* a resumed stream presents the kept bytes again */
        stream_resume(session->stream);
    }
}

/* Keeps the bytes after a request that waits, unparsed. */
static size_t keep_unread(struct session *session, size_t len)
{
    session->is_running = true;
    check_query(session, len);
    session->is_running = false;
    if (!session->is_aborted)
        return 0;
    session_abort(session);
    return len;
}

/* Turns the connection into a peer link, after the reply to SCREE PEER, FOLLOW or REPLICA. Returns the bytes used. */
static size_t hand_to_peers(struct session *session, size_t used, size_t len)
{
    struct partition *partition = session->partition;
    struct stream *stream = session->stream;
    if (used < len || session_holds(session, 0) || session_holds(session, 1)) {
        session_abort(session);
        return len;
    }
    struct peer_identity *peer = session->peer;
    bool is_line = session->login.follows;
    session->peer = NULL;
    connection_free(session);
    adopt_stream(partition, stream, peer, is_line);
    free(peer);
    return used;
}

/* While a slow call runs, a full batch does not matter: it is not committed before the call has ended, and the reply BUSY needs no room. */
static bool has_no_room(const struct session *session)
{
    const struct partition *partition = session->partition;
    return (partition_is_full(partition) && !partition->running.busy_error) ||
           session_owed_bytes(session) > STREAM_HIGH_WATER;
}

/* Has the connection had its part of the turn? The requests behind follow when the loop has looked for those of others. */
static bool has_had_turn(const struct session *session, uint64_t begun_us)
{
    return session->partition->running.started_us >= begun_us + TURN_US;
}

/* last_step */
static void begin_next_turn(struct last_step *step)
{
    connection_resume(container_of(step, struct session, pending.next_turn));
}

static void end_turn(struct session *session)
{
    session->is_throttled = true;
    stream_pause(session->stream);
    list_remove(&session->pending.next_turn.link); /* a commit may have resumed it already */
    loop_at_last(session->partition->loop, &session->pending.next_turn);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    (void)block;
    struct session *session = owner;
    CHECK(session->magic == SESSION_MAGIC);
    struct partition *partition = session->partition;
    if (session->pending.waiter)
        return keep_unread(session, len);
    partition_refresh(partition);
    partition->running.started_us = clock_mono_us();
    if (!partition->metrics.turn_us)
        partition->metrics.turn_us = partition->running.started_us;
    const uint64_t begun_us = partition->running.started_us;
    session->is_running = true;
    size_t used = 0;
    while (used < len && !session->is_closing && !session->pending.waiter &&
           !session->pending.streamed && !session->peer) {
        if (used && has_had_turn(session, begun_us)) {
            end_turn(session);
            break;
        }
        if (has_no_room(session)) {
            throttle(session);
            break;
        }
        size_t size = run_frame(session, data + used, len - used, need);
        if (size == 0)
            break;
        used += size;
    }
    session->is_running = false;
    if (session->pending.streamed && !session->is_throttled)
        throttle(session);
    partition->metrics.stats->input_bytes += used;
    partition->metrics.stats->reads_total++;
    if (!session->is_closing)
        return session->peer ? hand_to_peers(session, used, len) : used;
    if (session->is_aborted)
        session_abort(session);
    else
        session_end(session);
    return len;
}
