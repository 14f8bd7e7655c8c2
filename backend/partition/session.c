#include "backend/partition/session.h"

#include "backend/format/encoding.h"
#include "backend/keyspace/slot_set.h"
#include "backend/partition/blocking.h"
#include "backend/partition/cold.h"
#include "backend/partition/dispatch.h"
#include "backend/partition/message.h"
#include "backend/partition/monitor.h"
#include "backend/partition/partition.h"
#include "backend/partition/process.h"
#include "backend/partition/settings.h"
#include "backend/partition/stats.h"
#include "backend/partition/walk.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"

#include <limits.h>
#include <stdlib.h>

enum { ARGV_KEEP = 1024, ARGS_MAX_UNAUTHENTICATED = 10, INLINE_BYTES_MAX = 64 * 1024 };

static receive_fn on_data;
static void on_end(void *owner, int err);
static void on_drain(void *owner);
static void on_fetched(struct reader_wait *wait);
static const struct stream_events events = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain};

/* ---- life ---- */

struct session *session_new(struct partition *partition, struct stream *stream, uint64_t id)
{
    struct session *session = calloc(1, sizeof *session);
    CHECK(session);
    session->magic = SESSION_MAGIC;
    session->partition = partition;
    session->stream = stream;
    session->id = id;
    session->created_ms = loop_mono_ms(partition->loop);
    for (int i = 0; i < 2; i++) {
        list_init(&session->waiting[i]);
        out_init(&session->held[i]);
    }
    resp_scan_init(&session->scan);
    session->is_stranger = !stream_is_local(stream) &&
                           !(partition->settings->config.tls_auth_clients == TLS_CLIENTS_VERIFIED &&
                             stream_is_verified(stream));
    transaction_init(&session->transaction);
    watcher_init(&session->watcher);
    subscriber_init(&session->subscriber);
    tracker_init(&session->tracker);
    reader_wait_init(&session->cold, on_fetched);
    list_init(&session->monitor);
    list_init(&session->overdue);
    session_reset(session);
    list_push(&partition->clients.all, &session->link);
    partition->clients.count++;
    metric_add(partition->metrics.process, METRIC_BACKEND_CLIENTS, 1);
    stream_set_owner(stream, &events, session);
    return session;
}

static void stop_waiting(struct session *session)
{
    if (session->waiter)
        blocking_cancel(session->waiter);
}

void session_pause(struct session *session, bool is_paused)
{
    session->partition->pause.clients += is_paused;
    session->partition->pause.clients -= session->is_paused;
    session->is_paused = is_paused;
}

/* Everything but the stream. */
static void session_free(struct session *session)
{
    struct partition *partition = session->partition;
    stop_waiting(session);
    session_pause(session, false);
    if (session->cold.pending)
        metric_sub(partition->metrics.process, METRIC_BACKEND_COLD_WAITING, 1);
    reader_wait_cancel(&session->cold);
    walk_free(session->walk);
    session_reset(session);
    tracking_leave(session);
    messages_forget(partition->watchers.messages, session);
    list_remove(&session->overdue);
    for (int i = 0; i < 2; i++) {
        list_remove(&session->waiting[i]);
        out_clear(&session->held[i]);
    }
    resp_scan_fini(&session->scan);
    list_remove(&session->link);
    partition->clients.count--;
    metric_sub(partition->metrics.process, METRIC_BACKEND_CLIENTS, 1);
    process_client_left(partition->process);
    session->magic = 0;
    guest_fini(&session->guest);
    session_set_slots(session, NULL);
    free(session);
}

/* For a session that is running: it is aborted when its command has ended. */
static void abort_later(struct session *session)
{
    CHECK(session->is_running);
    session->is_closing = true;
    session->is_aborted = true;
}

void session_abort(struct session *session)
{
    CHECK(session->magic == SESSION_MAGIC);
    if (session->is_running) {
        abort_later(session);
        return;
    }
    stream_abort(session->stream);
    session_free(session);
}

/* Does anything wait for a ticket of this parity? */
static bool is_held(const struct session *session, unsigned parity)
{
    return !list_empty(&session->waiting[parity]);
}

/* Closes when everything owed has been handed to the stream. */
static void session_settle(struct session *session)
{
    if (!session->is_closing || session->is_running || is_held(session, 0) || is_held(session, 1))
        return;
    stream_close(session->stream);
    session_free(session);
}

void session_end(struct session *session)
{
    CHECK(session->magic == SESSION_MAGIC);
    if (session->walk) { /* its reply would never be whole */
        session_abort(session);
        return;
    }
    session->is_closing = true;
    stop_waiting(session);
    stream_pause(session->stream);
    session_settle(session);
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
    if (!session->walk)
        session_resume(session);
    else if (session->walk->is_open)
        walk_wake(session->walk);
}

void session_set_slots(struct session *session, struct slot_set *slots)
{
    slot_set_unref(session->slots);
    session->slots = slots;
}

void session_reset(struct session *session)
{
    session_use(session, (struct bytes){"", 0}, 0, NULL);
    session_set_slots(session, NULL);
    session->resp = 2;
    session->reply_mode = REPLY_MODE_ON;
    session->is_authenticated = !settings_needs_password(session->partition->settings);
    session->is_internal = false;
    session->is_readonly = session->no_evict = session->no_touch = false;
    session_set_text(&session->name, (struct bytes){"", 0});
    session_set_text(&session->lib_name, (struct bytes){"", 0});
    session_set_text(&session->lib_version, (struct bytes){"", 0});
    session_set_text(&session->user_name, (struct bytes){"", 0});
    session->user = NULL;
    transaction_end(&session->transaction);
    watch_clear(session->partition->watchers.watches, &session->watcher);
    subscriber_clear(&session->subscriber);
    tracking_off(session);
    monitor_remove(session);
}

void session_set_text(char **text, struct bytes value)
{
    free(*text);
    *text = value.len ? strndup(value.data, value.len) : NULL;
}

/* ---- who it is ---- */

const struct acl_user *session_user(struct session *session)
{
    const struct settings *settings = session->partition->settings;
    if (session->guest.is_here)
        return session->guest.user;
    if (!session->user || session->user_epoch != settings->epoch) {
        session->user = acl_user_find(settings->acl, session_user_name(session));
        session->user_epoch = settings->epoch;
    }
    return session->user;
}

struct bytes session_user_name(const struct session *session)
{
    if (session->guest.is_here)
        return acl_user_name(session->guest.user);
    return session->user_name ? bytes_of(session->user_name) : BYTES("default");
}

bool session_is_protected(const struct session *session)
{
    const struct settings *settings = session->partition->settings;
    return session->is_stranger && !session->is_internal && settings->protected_mode &&
           !settings_needs_password(settings);
}

void session_log_in(struct session *session, struct bytes name)
{
    free(session->user_name);
    session->user_name = strndup(name.data, name.len); /* may be empty, which is no default */
    session->user = NULL;
    session->is_authenticated = true;
}

/* ---- namespace and database ---- */

struct bytes session_namespace(const struct session *session)
{
    return session->namespace_name.len ? session->namespace_name : BYTES("");
}

int session_databases(const struct session *session)
{
    int databases = session->partition->settings->config.databases;
    return databases < DATABASES_MAX ? databases : DATABASES_MAX;
}

struct space *session_space(struct session *session)
{
    struct space_set *spaces = session->partition->spaces;
    uint64_t generation = space_generation(spaces);
    if (!session->space || session->space_generation != generation) {
        session->space = space_open(spaces, session_namespace(session), session->db);
        session->space_generation = generation;
    }
    return session->space;
}

void session_select(struct session *session, uint8_t db)
{
    session->db = db;
    session->space = NULL;
}

void session_use(struct session *session, struct bytes name, uint8_t db,
                 const struct slot_rule *rule)
{
    session_select(session, db);
    if (!bytes_equal(name, session->namespace_name)) {
        char *copy = name.len ? malloc(name.len) : NULL;
        CHECK(copy || !name.len);
        if (name.len)
            memcpy(copy, name.data, name.len);
        free((char *)session->namespace_name.data);
        session->namespace_name = (struct bytes){copy, name.len};
    }
    free(session->slot_rule);
    session->slot_rule = NULL;
    if (rule) {
        session->slot_rule = malloc(sizeof *rule);
        CHECK(session->slot_rule);
        *session->slot_rule = *rule;
    }
}

/* ---- replies ---- */

static unsigned ticket_parity(const struct session *session)
{
    return overlay_ticket(session->partition->overlay) & 1;
}

struct out *session_reply_begin(struct session *session, bool is_write)
{
    struct partition *partition = session->partition;
    if (session->reply_mode == REPLY_MODE_SKIP_NEXT)
        session->reply_mode = REPLY_MODE_SKIP;
    session->drops_reply = session->reply_mode != REPLY_MODE_ON;
    if (session->drops_reply)
        return &partition->running.discarded;
    unsigned parity = ticket_parity(session);
    if (!is_held(session, parity) && !is_write && commit_is_idle(partition->commit))
        return stream_out(session->stream);
    return &session->held[parity];
}

/* The ticket that something waits for when it observed this one (0: none) and stands behind all that is held;
 * 0: none. */
static uint64_t wait_ticket(const struct session *session, uint64_t observed)
{
    uint64_t current = overlay_ticket(session->partition->overlay);
    if (is_held(session, current & 1) || observed == current)
        return current;
    return is_held(session, !(current & 1)) || observed ? current - 1 : 0;
}

static struct out *hold(struct session *session, uint64_t ticket)
{
    unsigned parity = ticket & 1;
    if (!is_held(session, parity))
        list_push(&session->partition->clients.waiting[parity], &session->waiting[parity]);
    return &session->held[parity];
}

/* The walk whose reply has begun; NULL: there is none. */
static struct walk *walk_in_reply(const struct session *session)
{
    return session->walk && !session->walk->is_counting ? session->walk : NULL;
}

static void walk_open(struct walk *walk)
{
    walk->is_open = true;
    walk_wake(walk);
}

/* The first part of a walk is where it will leave from: `held`, or NULL when it was handed to the stream. */
static void walk_begin(struct session *session, const struct out *held)
{
    struct walk *walk = session->walk;
    walk->parity = held == &session->held[1];
    walk->held_bytes = held ? held->bytes : 0;
    if (!held)
        walk_open(walk);
}

/* Puts a reply where it must wait, behind all replies before it. */
static void reply_move(struct session *session, struct out *out, uint64_t observed)
{
    struct out *direct = stream_out(session->stream);
    uint64_t ticket = out == direct ? 0 : wait_ticket(session, observed);
    struct out *held = ticket ? hold(session, ticket) : NULL;
    if (held) {
        if (out != held)
            out_move(held, out);
        session->held_count[ticket & 1]++;
    } else {
        if (out != direct)
            out_move(direct, out);
        stream_send(session->stream);
    }
    if (walk_in_reply(session))
        walk_begin(session, held);
}

/* A reply that was begun where it would leave at once waits all the same when its command made or saw an effect:
 * whatever its row says, a script writes. */
static void reply_place(struct session *session, struct out *out, size_t begun, uint64_t observed)
{
    if (out != stream_out(session->stream) || !wait_ticket(session, observed)) {
        reply_move(session, out, observed);
        return;
    }
    struct out reply;
    out_init(&reply);
    out_cut(out, begun, &reply);
    reply_move(session, &reply, observed);
}

/* The same when its command sent the session itself messages: they go first. */
static void reply_place_behind(struct session *session, struct out *out, size_t begun,
                               uint64_t observed)
{
    struct out reply;
    struct out both;
    out_init(&reply);
    out_init(&both);
    out_cut(out, begun, &reply);
    messages_take_before(session->partition->watchers.messages, session, &both);
    out_move(&both, &reply);
    reply_move(session, &both, observed);
}

void session_reply_end(struct session *session, struct out *out, size_t begun, uint64_t observed)
{
    struct messages *messages = session->partition->watchers.messages;
    bool has_messages = messages_ready(messages);
    uint64_t ticket = has_messages ? wait_ticket(session, observed) : 0;
    session->reply_bytes = out->bytes - begun;
    session->partition->stats->output_bytes += session->reply_bytes;
    session->partition->stats->replies_total++;
    if (session->drops_reply && session->reply_mode != REPLY_MODE_ON)
        out_clear(out);
    else if (out->bytes == begun)
        ; /* no reply */
    else if (has_messages)
        reply_place_behind(session, out, begun, observed);
    else
        reply_place(session, out, begun, observed);
    if (session->reply_mode == REPLY_MODE_SKIP)
        session->reply_mode = REPLY_MODE_ON;
    if (has_messages)
        messages_deliver(messages, ticket);
}

/* ---- messages ---- */

/* The class of client-output-buffer-limit it is in. */
static enum output_class output_class_of(const struct session *session)
{
    return subscriber_count(&session->subscriber) ? OUTPUT_PUBSUB : OUTPUT_NORMAL;
}

/* True: it owes more than a client may. */
static bool owes_too_much(struct session *session)
{
    const struct settings *settings = session->partition->settings;
    size_t owed = session_owed_bytes(session);
    if (session->reply_bytes > owed)
        session->reply_bytes = owed;
    bool is_over = owed - session->reply_bytes > settings->config.client_output_limit_bytes;
    const char *which = is_over ? "client-output-limit" : "client-output-buffer-limit";
    if (!is_over &&
        !session->is_internal) /* a proxy carries many clients: Redis' classes are not for it */
        is_over = output_limit_exceeded(&settings->output_limits[output_class_of(session)], owed,
                                        loop_mono_ms(session->partition->loop),
                                        &session->output_soft_since_ms);
    if (!is_over || session->is_aborted)
        return false;
    log_event(LOG_WARN, "client_cut", "peer=%s reason=\"%s\" bytes=%zu",
              stream_peer(session->stream), which, owed);
    return true;
}

void session_push(struct session *session, struct block *frames, uint64_t ticket)
{
    CHECK(session->magic == SESSION_MAGIC);
    if (session->is_closing || !list_empty(&session->overdue))
        return;
    ticket = wait_ticket(session, ticket);
    struct out *out = ticket                   ? hold(session, ticket)
                      : walk_in_reply(session) ? &session->walk->behind
                                               : stream_out(session->stream);
    out_write_block(out, frames, frames->data, frames->used);
    session->partition->stats->output_bytes += frames->used;
    if (!ticket)
        stream_send(session->stream);
    if (owes_too_much(session)) /* not now: whoever tells may walk over sessions or waiters */
        list_push(&session->partition->clients.overdue, &session->overdue);
}

bool session_is_subscriber(const struct session *session)
{
    return session->resp == 2 && subscriber_count(&session->subscriber) > 0;
}

void session_reply_later(struct session *session)
{
    struct partition *partition = session->partition;
    if (session->reply_mode == REPLY_MODE_SKIP)
        session->reply_mode = REPLY_MODE_SKIP_NEXT;
    if (messages_ready(partition->watchers.messages))
        messages_deliver(partition->watchers.messages,
                         wait_ticket(session, overlay_observed(partition->overlay)));
}

size_t session_state_bytes(const struct session *session)
{
    size_t bytes = session->transaction.bytes + session->watcher.bytes;
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        bytes += session->subscriber.kinds[kind].bytes;
    return bytes;
}

bool session_has_room(const struct session *session, size_t bytes)
{
    uint64_t limit = session->partition->settings->config.client_state_limit_bytes;
    size_t kept = session_state_bytes(session);
    return kept <= limit && bytes <= limit - kept;
}

size_t session_owed_bytes(const struct session *session)
{
    return stream_pending(session->stream) + session->held[0].bytes + session->held[1].bytes +
           (session->walk ? session->walk->behind.bytes : 0);
}

static void session_check_owed(struct session *session)
{
    if (owes_too_much(session))
        abort_later(session);
}

/* What was held may leave; nothing comes between the parts of a walk. */
static void release_held(struct session *session, unsigned parity)
{
    struct walk *walk = walk_in_reply(session);
    struct out *held = &session->held[parity];
    if (walk && !walk->is_open && walk->parity == parity) {
        out_cut(held, walk->held_bytes, &walk->behind);
        walk_open(walk);
    } else if (walk && walk->is_open) {
        out_move(&walk->behind, held);
    }
    out_move(stream_out(session->stream), held);
}

/* The first part of a walk was taken back. */
static void walk_forget(struct session *session, unsigned parity)
{
    struct walk *walk = walk_in_reply(session);
    if (!walk || walk->is_open || walk->parity != parity)
        return;
    walk_free(walk);
    session->walk = NULL;
}

void session_release(struct session *session, unsigned parity, int err)
{
    CHECK(session->magic == SESSION_MAGIC);
    struct out *to = stream_out(session->stream);
    list_remove(&session->waiting[parity]);
    if (err) {
        struct reply reply = {.out = to, .resp = session->resp};
        out_clear(&session->held[parity]);
        walk_forget(session, parity);
        for (uint32_t i = 0; i < session->held_count[parity]; i++)
            reply_code(&reply, (enum error)err);
    } else {
        release_held(session, parity);
    }
    session->held_count[parity] = 0;
    stream_send(session->stream);
    session_settle(session);
}

/* ---- requests ---- */

static struct resp_limits limits_of(const struct session *session)
{
    const struct backend_config *config = &session->partition->settings->config;
    bool known =
        (session->is_authenticated || !settings_needs_password(session->partition->settings)) &&
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

/* Runs the scanned request. False: it must wait, the session is throttled. */
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

/* Runs nothing more until session_resume: when a batch was committed, or the client has read its replies. */
static void session_throttle(struct session *session)
{
    session->is_throttled = true;
    session->partition->pause.has_waiting = true;
    stream_pause(session->stream);
}

void session_resume(struct session *session)
{
    if (!session->is_throttled || session->is_closing || session->walk || session->cold.pending ||
        session->partition->thread.is_stopping)
        return;
    session->is_throttled = false;
    stream_resume(session->stream);
}

/* The request at the front waits for rows from the disk; so may those behind it, up to `len`. */
static void session_suspend(struct session *session, const char *behind, size_t len)
{
    session->is_throttled = true;
    stream_pause(session->stream);
    metric_add(session->partition->metrics.process, METRIC_BACKEND_COLD_WAITING, 1);
    cold_look_ahead(session, behind, len);
}

/* The request is presented again. */
static void on_fetched(struct reader_wait *wait)
{
    struct session *session = container_of(wait, struct session, cold);
    CHECK(session->magic == SESSION_MAGIC);
    metric_sub(session->partition->metrics.process, METRIC_BACKEND_COLD_WAITING, 1);
    if (wait->has_failed) /* the store says so itself */
        session->cold_tries = UINT8_MAX;
    wait->has_failed = false;
    session_resume(session);
}

void session_refuse(struct session *session, const char *error)
{
    struct out *out = session_reply_begin(session, false);
    size_t begun = out->bytes;
    struct reply reply = {.out = out, .resp = session->resp};
    reply_error(&reply, error);
    session_reply_end(session, out, begun, 0);
    session->is_closing = true;
}

/* An unfinished request may not grow for ever, nor a queued transaction. */
static void check_query(struct session *session, size_t unfinished)
{
    uint64_t limit = session->partition->settings->config.client_query_limit_bytes;
    if (session->is_aborted || (unfinished <= limit && session->transaction.bytes <= limit))
        return;
    log_event(LOG_WARN, "client_cut", "peer=%s reason=\"client-query-limit\"",
              stream_peer(session->stream));
    abort_later(session);
}

/* One frame at the front of data[0..len). Returns the bytes used; 0: no more for now. */
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
    if (session->scan.argc > 0 && !run_request(session, data)) {
        resp_scan_reset(&session->scan);
        if (session->cold.pending)
            session_suspend(session, data + size, len - size);
        else
            session_throttle(session);
        return 0;
    }
    session->cold_tries = session->cold.ranges = 0;
    session->cold.has_range = false;
    check_query(session, 0);
    return size;
}

void session_go_on(struct session *session)
{
    CHECK(session->magic == SESSION_MAGIC);
    CHECK(!session->waiter);
    if (session->is_running || session->is_closing)
        return;
    session->is_running = true;
    session_check_owed(session);
    session->is_running = false;
    if (session->is_aborted) {
        session_abort(session);
    } else if (!session->partition->thread.is_stopping) {
        stream_pause(session->stream); /* what was kept is presented when it is resumed */
        stream_resume(session->stream);
    }
}

/* Bytes that come behind a request that waits stay where they are. */
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

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    (void)block;
    struct session *session = owner;
    CHECK(session->magic == SESSION_MAGIC);
    struct partition *partition = session->partition;
    if (session->waiter)
        return keep_unread(session, len);
    partition_refresh(partition);
    partition->running.started_us = clock_mono_us();
    if (!partition->metrics.turn_us)
        partition->metrics.turn_us = partition->running.started_us;
    session->is_running = true;
    size_t used = 0;
    while (used < len && !session->is_closing && !session->waiter && !session->walk) {
        if (partition_is_full(partition) || session_owed_bytes(session) > STREAM_HIGH_WATER) {
            session_throttle(session);
            break;
        }
        size_t size = run_frame(session, data + used, len - used, need);
        if (size == 0)
            break;
        used += size;
    }
    session->is_running = false;
    if (session->walk && !session->is_throttled)
        session_throttle(session);
    partition->stats->input_bytes += used;
    partition->stats->reads_total++;
    if (!session->is_closing)
        return used;
    if (session->is_aborted)
        session_abort(session);
    else
        session_end(session);
    return len;
}
