#include "proxy/cluster/backup.h"

#include "proxy/client/fan_out.h"
#include "proxy/cluster/backup_cancel.h"
#include "proxy/cluster/backup_copies.h"
#include "proxy/cluster/backup_list.h"
#include "proxy/cluster/backup_status.h"
#include "proxy/cluster/backup_sum.h"
#include "proxy/core/error_replies.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "shared/check.h"
#include "shared/error_code.h"
#include "shared/log.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    POLL_SOON_MS = 2,
    POLL_SLOW_MS = 500,
    RETRY_MS = 500,
    ATTEMPTS = 4,
    LEFT_MS =
        10000, /* the backup fails if PREPARE has no reply by then: the client may have left */
};

enum step {
    STEP_IDLE,
    STEP_CHOOSE,
    STEP_PREPARE,
    STEP_QUIESCE,
    STEP_CUT,
    STEP_RELEASE,
    STEP_CONFIRM,
    STEP_COPY,
    STEP_REPORT,
    STEP_KEEP,
};

static const char *const step_names[] = {"idle",          "choosing",    "preparing",  "quiescing",
                                         "cutting",       "releasing",   "confirming", "copying",
                                         "reporting-end", "deleting-old"};

struct cluster_backup {
    struct proxy_worker *worker;
    struct timer *timer;
    struct backup_cancels *cancels; /* of attempts that failed */
    enum step step;
    bool is_asking; /* a request to the shards is in flight */
    /* PREPARE was sent as part of the client's request: its replies are dropped if the client leaves */
    bool is_first;
    bool is_retry; /* when the timer fires, PREPARE is sent again instead of a poll */
    uint32_t attempt;
    uint64_t epoch;      /* of the shard map when the backup began */
    uint64_t quiesce_ms; /* when QUIESCE was sent; monotonic */
    uint64_t cut_ms;     /* when CUT was sent; monotonic */
    uint64_t poll_ms;
    struct backup_wish wish;
    struct backup_view view;
    struct backup_copies copies;
    char id[BACKUP_ID_LEN + 1];
    struct request *waiter; /* the client's request, which waits for the end; NULL: none */
    char *map;              /* text of the shard map, in the format of shards.ini */
    size_t map_len;
};

static request_done_fn on_status;
static request_done_fn on_quiesce;
static request_done_fn on_cut;
static request_done_fn on_release;
static request_done_fn on_confirm;
static void send_prepare(struct cluster_backup *backup, struct request *request);

/* ---- requests to the shards ---- */

static void fan_out_backup(struct cluster_backup *backup, struct request *request,
                           const struct bytes *argv, uint32_t argc, uint32_t name_at,
                           request_done_fn *done)
{
    const struct fan_out how = {
        .shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = argv, .argc = argc, .name_at = name_at};
    backup->is_asking = true;
    request_fan_out_with(request, &how, done);
}

/* Sends "SCREE BACKUP <what> <id> [<more>]" to all shards, as a request of the proxy itself. */
static void send_to_shards(struct cluster_backup *backup, const char *what, const char *more,
                           request_done_fn *done)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), bytes_of(what),
                                 bytes_of(backup->id), bytes_of(more ? more : "")};
    fan_out_backup(backup, request_internal(backup->worker), argv, more ? 5 : 4, 0, done);
}

/* Asks all shards, and the copies that make files; but not these while clients are held: one that hangs would lengthen that. */
static void ask_status(struct cluster_backup *backup)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("STATUS")};
    bool is_hold = backup->step == STEP_QUIESCE || backup->step == STEP_CUT;
    backup->is_asking = true;
    (void)backup_copies_send(&backup->copies, request_internal(backup->worker),
                             is_hold ? BACKUP_ROLE_LEADERS : BACKUP_ROLE_ALL, argv, 3, on_status);
}

static void on_timer(void *owner)
{
    struct cluster_backup *backup = owner;
    if ((backup->is_asking && !backup->is_first) || backup->step == STEP_IDLE)
        return;
    backup->is_first = false;
    if (backup->is_retry)
        send_prepare(backup, request_internal(backup->worker));
    else
        ask_status(backup);
}

/* The backup for which this request was sent; NULL: the backup has ended. */
static struct cluster_backup *answered(const struct request *request)
{
    struct cluster_backup *backup = request->worker->backup;
    if (!backup)
        return NULL;
    backup->is_asking = backup->is_first = false;
    return backup->step == STEP_IDLE ? NULL : backup;
}

/* ---- end of a backup ---- */

static void finish_cluster_backup(struct cluster_backup *backup, bool good, const char *reason)
{
    struct backup_view *view = &backup->view;
    timer_stop(backup->timer);
    backup->step = STEP_IDLE;
    view->is_running = false;
    view->last_good = good;
    view->ended_ms = loop_wall_ms(backup->worker->loop);
    (void)snprintf(view->reason, sizeof view->reason, "%s", reason);
    free(backup->map);
    backup->map = NULL;
    log_event(good ? LOG_INFO : LOG_ERROR, good ? "backup_done" : "backup_failed",
              "backup=%s shards=%u bytes=%llu held_ms=%llu reason=" LOG_QUOTED, view->name,
              view->shards, (unsigned long long)view->bytes_total,
              (unsigned long long)view->held_ms, reason);
    struct request *waiter = backup->waiter;
    backup->waiter = NULL;
    if (waiter)
        request_wake(waiter);
}

static void abort_cluster_backup(struct cluster_backup *backup, const char *reason)
{
    backup_cancel_at_shards(backup->cancels, backup->id, reason, backup->copies.count);
    finish_cluster_backup(backup, false, reason);
    backup->is_asking = false;
}

/* The cut failed: cancels the attempt, and starts another one with a new id a little later. */
static void try_again(struct cluster_backup *backup, const char *reason)
{
    if (++backup->attempt >= ATTEMPTS) {
        abort_cluster_backup(backup, reason);
        return;
    }
    log_event(LOG_WARN, "backup_cut_again", "backup=%s reason=" LOG_QUOTED, backup->view.name,
              reason);
    backup_cancel_at_shards(backup->cancels, backup->id, reason, backup->copies.count);
    backup->is_asking = false;
    backup->step = STEP_PREPARE;
    backup->is_retry = true;
    timer_start(backup->timer, RETRY_MS, 0);
}

/* Copies that make files have failed: their leaders make them in the next attempt. Parts of this one may be complete, so the next has another name. */
static void try_without_copies(struct cluster_backup *backup, const char *reason)
{
    char name[BACKUP_NAME_MAX + 1];
    backup_copies_drop_failed(&backup->copies);
    backup_copies_print(&backup->copies, backup->worker->snapshot->map, backup->view.copied_by,
                        sizeof backup->view.copied_by);
    try_again(backup, reason);
    if (backup->step == STEP_IDLE)
        return;
    (void)snprintf(name, sizeof name, "%.*s.%u", BACKUP_NAME_MAX - 2, backup->wish.name,
                   backup->attempt + 1);
    memcpy(backup->view.name, name, sizeof name);
}

static bool map_is_same(struct cluster_backup *backup)
{
    if (backup->worker->snapshot->map->epoch == backup->epoch &&
        backup->worker->pool->count == backup->view.shards)
        return true;
    abort_cluster_backup(backup, "the shard map has changed since the backup began");
    return false;
}

/* ---- steps ---- */

/* Writes the shard's name and its refusal. The error for a shard that cannot be reached is the proxy's own, and names the shard. */
static void write_refusal(const struct shard_reply *answer, struct bytes text,
                          char reason[BACKUP_REASON_MAX])
{
    const struct node *node = answer->node;
    int len = (int)(text.len < 400 ? text.len : 400);
    int code = (int)strlen(SHARD_LOST_CODE " ");
    if (error_has_code(text, SHARD_LOST_CODE))
        (void)snprintf(reason, BACKUP_REASON_MAX, "%.*s", len - code, text.data + code);
    else
        (void)snprintf(reason, BACKUP_REASON_MAX, "shard '%s'%s%s%s: %.*s", answer->shard,
                       node->is_copy ? " (" : "", node->is_copy ? node->address : "",
                       node->is_copy ? ")" : "", len, len ? text.data : "");
}

/* Is it a reply that is not +OK, of a leader, or of a copy that makes files? */
static bool is_step_refused(const struct shard_reply *answer, bool is_copy,
                            struct resp_value *value)
{
    size_t pos = 0;
    *value = (struct resp_value){0};
    return answer->node->is_copy == is_copy &&
           !(resp_value_next(answer->frame, &pos, value) && value->type == '+');
}

/* Writes the first of these as the reason. False: there are none. */
static bool has_refusal(const struct request *request, bool is_copy, char reason[BACKUP_REASON_MAX])
{
    struct resp_value value;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (!is_step_refused(answer, is_copy, &value))
            continue;
        write_refusal(answer, value.text, reason);
        return true;
    }
    return false;
}

/* Have copies that make files refused? Each of them has failed. */
static bool have_copies_refused(struct cluster_backup *backup, const struct request *request,
                                char reason[BACKUP_REASON_MAX])
{
    struct resp_value value;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct backup_copier *copier = backup_copier_of(&backup->copies, answer->node->index);
        if (copier && is_step_refused(answer, true, &value))
            copier->has_failed = true;
    }
    return has_refusal(request, true, reason);
}

/* Writes the first reply that is not +OK as the reason. False: all replies are +OK. */
static bool find_refusal(const struct request *request, char reason[BACKUP_REASON_MAX])
{
    return has_refusal(request, false, reason) || has_refusal(request, true, reason);
}

static void poll_again(struct cluster_backup *backup)
{
    if (backup->step == STEP_COPY)
        backup->poll_ms = backup->poll_ms * 2 < POLL_SLOW_MS ? backup->poll_ms * 2 : POLL_SLOW_MS;
    timer_start(backup->timer, backup->poll_ms, 0);
}

/* What is left of the lease, which QUIESCE and CUT share; 0: it has ended. */
static uint32_t lease_left(const struct cluster_backup *backup)
{
    uint64_t since_ms = loop_mono_ms(backup->worker->loop) - backup->quiesce_ms;
    return since_ms < backup->wish.lease_ms ? backup->wish.lease_ms - (uint32_t)since_ms : 0;
}

static void send_leased(struct cluster_backup *backup, enum step step, const char *what,
                        request_done_fn *done)
{
    char lease[16];
    (void)snprintf(lease, sizeof lease, "%u", lease_left(backup));
    backup->step = step;
    send_to_shards(backup, what, lease, done);
}

static void send_quiesce(struct cluster_backup *backup)
{
    backup->quiesce_ms = loop_mono_ms(backup->worker->loop);
    send_leased(backup, STEP_QUIESCE, "QUIESCE", on_quiesce);
}

static void send_cut(struct cluster_backup *backup)
{
    backup->cut_ms = loop_mono_ms(backup->worker->loop);
    send_leased(backup, STEP_CUT, "CUT", on_cut);
}

/* Handles the replies of a step during which shards hold transactions or writes. NULL: the backup has ended, or begins
 * again. */
static struct cluster_backup *step_done(struct request *request)
{
    struct cluster_backup *backup = answered(request);
    char reason[BACKUP_REASON_MAX];
    if (!backup || !map_is_same(backup))
        return NULL;
    if (backup->step != STEP_QUIESCE)
        backup->view.held_ms = loop_mono_ms(backup->worker->loop) - backup->cut_ms;
    if (!find_refusal(request, reason))
        return backup;
    try_again(backup, reason);
    return NULL;
}

static void on_quiesce(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = step_done(request);
    (void)client;
    (void)reply;
    if (backup)
        ask_status(backup);
}

static void on_cut(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = step_done(request);
    (void)client;
    (void)reply;
    if (backup)
        ask_status(backup);
}

static void on_release(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = step_done(request);
    (void)client;
    (void)reply;
    if (!backup)
        return;
    backup->step = STEP_CONFIRM;
    backup->is_asking = backup_copies_confirm(&backup->copies, request_internal(backup->worker),
                                              BACKUP_ROLE_FILES, backup->id, on_confirm);
    if (!backup->is_asking) /* the copy of the only shard is no longer there: STATUS says so */
        ask_status(backup);
}

static void on_confirm(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = answered(request);
    char reason[BACKUP_REASON_MAX];
    (void)client;
    (void)reply;
    if (!backup)
        return;
    if (has_refusal(request, false, reason)) {
        abort_cluster_backup(backup, reason);
        return;
    }
    if (have_copies_refused(backup, request, reason)) {
        try_without_copies(backup, reason);
        return;
    }
    backup->step = STEP_COPY;
    backup->poll_ms = POLL_SOON_MS;
    poll_again(backup);
}

static void on_kept(struct proxy_worker *worker)
{
    struct cluster_backup *backup = worker->backup;
    if (backup && backup->step == STEP_KEEP)
        finish_cluster_backup(backup, true, "");
}

/* ---- STATUS ---- */

/* Leaders that have only held write down how the backup ended. */
static void on_reported(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = answered(request);
    (void)client;
    (void)reply;
    if (backup)
        ask_status(backup);
}

static void keep_newest(struct cluster_backup *backup)
{
    if (!backup->wish.keep && !backup->wish.keep_days) {
        finish_cluster_backup(backup, true, "");
        return;
    }
    backup->step = STEP_KEEP;
    backup_keep(backup->worker, backup->wish.keep, backup->wish.keep_days, on_kept);
}

static void report_end(struct cluster_backup *backup)
{
    backup->step = STEP_REPORT;
    backup->is_asking = backup_copies_any(&backup->copies);
    if (!backup->is_asking)
        keep_newest(backup);
    else if (!backup_copies_confirm(&backup->copies, request_internal(backup->worker),
                                    BACKUP_ROLE_HOLDERS, backup->id, on_reported))
        keep_newest(backup);
}

/* Transactions over shards have not ended within the lease. Another attempt would hold them for as long again. */
static void give_up_quiescing(struct cluster_backup *backup, const struct backup_sum *sum)
{
    char reason[BACKUP_REASON_MAX];
    (void)snprintf(reason, sizeof reason,
                   "transactions over shards did not end within the lease of %u ms: %.380s. Then "
                   "start the backup again",
                   backup->wish.lease_ms,
                   *sum->unquiet ? sum->unquiet : "the shards were slow: choose a longer LEASE");
    abort_cluster_backup(backup, reason);
}

static void advance_step(struct cluster_backup *backup, const struct backup_sum *sum)
{
    uint32_t shards = backup->view.shards;
    if (backup->step == STEP_REPORT) {
        if (sum->holding)
            poll_again(backup);
        else
            keep_newest(backup);
    } else if (sum->has_failed_copy) {
        try_without_copies(backup, sum->reason);
    } else if (sum->silent && backup->step == STEP_PREPARE) {
        try_again(backup, sum->unquiet);
    } else if (sum->has_failed && backup->step == STEP_CUT) {
        try_again(backup, sum->reason);
    } else if (sum->has_failed) {
        abort_cluster_backup(backup, sum->reason);
    } else if (backup->step == STEP_PREPARE && sum->ready == shards + sum->copies) {
        send_quiesce(backup);
    } else if (backup->step == STEP_QUIESCE && lease_left(backup) == 0) {
        give_up_quiescing(backup, sum);
    } else if (backup->step == STEP_QUIESCE && sum->quiet == shards) {
        send_cut(backup);
    } else if (backup->step == STEP_CUT && sum->have_cut == shards) {
        backup->step = STEP_RELEASE;
        send_to_shards(backup, "RELEASE", NULL, on_release);
    } else if (backup->step == STEP_CUT && lease_left(backup) == 0) {
        try_again(backup,
                  *sum->unquiet ? sum->unquiet : "a shard did not make its cut within the lease");
    } else if (backup->step == STEP_COPY && sum->done == shards) {
        report_end(backup);
    } else {
        poll_again(backup);
    }
}

static void on_status(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = answered(request);
    struct backup_sum sum = {0};
    (void)client;
    (void)reply;
    if (!backup || !map_is_same(backup))
        return;
    uint64_t done = 0;
    uint64_t total = 0;
    const struct backup_watch watch = {.worker = backup->worker,
                                       .copies = &backup->copies,
                                       .id = backup->id,
                                       .name = backup->view.name,
                                       .is_confirmed = backup->step >= STEP_CONFIRM};
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct shard_status status = backup_status_read(answer->frame);
        backup_sum_add(&watch, answer, &status, &sum);
        done += status.done;
        total += status.total;
    }
    backup->view.bytes_done = done;
    backup->view.bytes_total = total;
    backup->view.shards_done = sum.done;
    backup_sum_end(&watch, &sum);
    advance_step(backup, &sum);
}

/* ---- PREPARE ---- */

/* request_done_fn: the backup for which the client has waited has ended. */
static void reply_outcome_of_backup(struct client *client, struct request *request,
                                    struct reply *reply)
{
    const struct backup_view *view = &request->worker->backup->view;
    if (!client)
        return;
    if (view->last_good)
        reply_bulk_text(reply, view->name);
    else
        reply_errorf(reply, "ERR the backup %s failed: %s", view->name, view->reason);
}

/* Replies to the client that requested the backup, or lets it wait; later attempts have no client. */
static void on_prepare(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = answered(request);
    char reason[BACKUP_REASON_MAX];
    if (!backup) {
        if (client)
            reply_error(reply, "ERR the backup was cancelled");
        return;
    }
    bool have_copies = have_copies_refused(backup, request, reason);
    bool is_refused = has_refusal(request, false, reason);
    if (client && is_refused)
        reply_errorf(reply, "ERR %s", reason);
    else if (client && backup->wish.waits)
        backup->waiter = request;
    else if (client)
        reply_bulk_text(reply, backup->view.name);
    if (backup->waiter == request)
        request_wait(request, reply_outcome_of_backup);
    if (!map_is_same(backup))
        return;
    if (is_refused && backup->attempt)
        try_again(backup, reason);
    else if (is_refused)
        abort_cluster_backup(backup, reason);
    else if (have_copies)
        try_without_copies(backup, reason);
    else
        ask_status(backup);
}

static void send_prepare(struct cluster_backup *backup, struct request *request)
{
    backup_new_id(backup->id);
    backup->step = STEP_PREPARE;
    backup->is_retry = false;
    backup->poll_ms = POLL_SOON_MS;
    const struct bytes argv[] = {BYTES("SCREE"),
                                 BYTES("BACKUP"),
                                 BYTES("PREPARE"),
                                 BYTES("NAME"),
                                 bytes_of(backup->view.name),
                                 BYTES("ID"),
                                 bytes_of(backup->id),
                                 BYTES("SHARD"),
                                 BYTES(""),
                                 BYTES("MAP"),
                                 {backup->map, backup->map_len},
                                 backup->wish.is_full ? BYTES("FULL") : BYTES("INCREMENTAL"),
                                 BYTES("SLOTS"),
                                 bytes_of(backup->wish.slots)};
    uint32_t argc = sizeof argv / sizeof argv[0] - (*backup->wish.slots ? 0 : 2);
    backup->is_asking = true;
    backup_copies_prepare(&backup->copies, request, argv, argc, 8, on_prepare);
    backup_copies_print(&backup->copies, backup->worker->snapshot->map, backup->view.copied_by,
                        sizeof backup->view.copied_by);
}

/* ---- CHOOSE ---- */

/* The client's request goes on to PREPARE. */
static void on_chosen(struct client *client, struct request *request, struct reply *reply)
{
    struct cluster_backup *backup = answered(request);
    if (!backup) {
        if (client)
            reply_error(reply, "ERR the backup was cancelled");
        return;
    }
    backup->is_first = true;
    backup_copies_choose(&backup->copies, request);
    send_prepare(backup, request);
}

static void begin_choosing(struct cluster_backup *backup, struct request *request)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("STATUS")};
    backup->step = STEP_CHOOSE;
    backup->is_asking = true;
    backup_ask_all_copies(request, argv, 3, 0, on_chosen);
}

/* SLOTS reads the owners of slots, which the leaders have. */
static bool may_use_copies(const struct cluster_backup *backup)
{
    return worker_config(backup->worker)->upstream_backup_from == BACKUP_FROM_COPY &&
           !*backup->wish.slots;
}

static struct cluster_backup *backup_of(struct proxy_worker *worker)
{
    if (worker->backup)
        return worker->backup;
    struct cluster_backup *backup = calloc(1, sizeof *backup);
    CHECK(backup);
    backup->worker = worker;
    backup->timer = timer_new(worker->loop, on_timer, backup);
    backup->cancels = backup_cancels_new(worker);
    worker->backup = backup;
    return backup;
}

void cluster_backup_lead(struct request *request, const struct backup_wish *wish)
{
    struct cluster_backup *backup = backup_of(request->worker);
    const struct proxy_snapshot *snapshot = request->worker->snapshot;
    CHECK(backup->step == STEP_IDLE);
    FILE *to = open_memstream(&backup->map, &backup->map_len);
    CHECK(to);
    shard_map_print(snapshot->wish, to); /* learned owners may be out of date */
    CHECK(fclose(to) == 0);
    backup->wish = *wish;
    backup->attempt = 0;
    backup->epoch = snapshot->wish->epoch;
    backup->view =
        (struct backup_view){.is_running = true, .shards = (uint32_t)snapshot->map->shard_count};
    memcpy(backup->view.name, wish->name, sizeof wish->name);
    log_event(LOG_INFO, "backup_started", "backup=%s shards=%u", wish->name, backup->view.shards);
    backup->is_first = true;
    timer_start(backup->timer, LEFT_MS, 0);
    backup_copies_free(&backup->copies);
    if (may_use_copies(backup))
        begin_choosing(backup, request);
    else
        send_prepare(backup, request);
}

bool cluster_backup_stop(struct proxy_worker *worker, const char *reason)
{
    struct cluster_backup *backup = worker->backup;
    if (!backup || backup->step == STEP_IDLE)
        return false;
    abort_cluster_backup(backup, reason);
    return true;
}

void cluster_backup_look(const struct proxy_worker *worker, struct backup_view *view)
{
    const struct cluster_backup *backup = worker->backup;
    *view = backup ? backup->view : (struct backup_view){0};
    view->step = step_names[backup ? backup->step : STEP_IDLE];
}

void cluster_backup_free(struct proxy_worker *worker)
{
    struct cluster_backup *backup = worker->backup;
    if (!backup)
        return;
    timer_free(backup->timer);
    backup_cancels_free(backup->cancels);
    backup_copies_free(&backup->copies);
    free(backup->map);
    free(backup);
    worker->backup = NULL;
}
