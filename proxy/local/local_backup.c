/*
 * local_backup.c - SCREE BACKUP at a proxy: backups of the whole cluster.
 *
 *   START [NAME name] [SLOTS ranges] [FULL|INCREMENTAL] [KEEP n] [KEEP-DAYS n] [LEASE ms] [WAIT]
 *   STATUS    CANCEL    LIST    DELETE name
 */
#include "proxy/client/fan_out.h"
#include "proxy/cluster/backup.h"
#include "proxy/cluster/backup_copies.h"
#include "proxy/cluster/backup_list.h"
#include "proxy/cluster/backup_status.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/error_code.h"
#include "shared/number.h"
#include "shared/slot_ranges.h"

#include <stdio.h>

enum { KEEP_MAX = 100000, KEEP_DAYS_MAX = 36500 };

/* ---- START ---- */

static bool parse_backup_number(struct reply *reply, struct bytes text, const char *name,
                                int64_t max, uint32_t *number)
{
    int64_t value;
    if (number_parse_int64(text, &value) && value >= 1 && value <= max) {
        *number = (uint32_t)value;
        return true;
    }
    reply_errorf(reply, "ERR %s must be a number from 1 to %lld", name, (long long)max);
    return false;
}

static bool parse_backup_name(struct reply *reply, struct bytes name, struct backup_wish *wish)
{
    if (!backup_name_valid(name)) {
        reply_error(reply, "ERR a name must have 1 to 64 letters, digits, '.', '_' and '-', and "
                           "must not begin with '.'");
        return false;
    }
    memcpy(wish->name, name.data, name.len);
    wish->name[name.len] = 0;
    return true;
}

static bool parse_backup_slots(struct reply *reply, struct bytes ranges, struct backup_wish *wish)
{
    bool is_in[SLOT_COUNT];
    if (ranges.len > BACKUP_SLOTS_MAX || !slot_ranges_read(ranges, is_in)) {
        reply_error(reply, "ERR invalid SLOTS: expected ranges such as 0-8191,9000, of at most 200 "
                           "bytes");
        return false;
    }
    memcpy(wish->slots, ranges.data, ranges.len);
    wish->slots[ranges.len] = 0;
    return true;
}

static bool parse_wish(struct request *request, struct reply *reply, struct backup_wish *wish)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    char name[BACKUP_TIME_NAME_MAX];
    bool good =
        parse_backup_name(reply, backup_time_name(loop_wall_ms(request->worker->loop), name), wish);
    for (uint32_t i = 3; good && i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (bytes_is(argv[i], "FULL") || bytes_is(argv[i], "INCREMENTAL")) {
            wish->is_full = bytes_is(argv[i], "FULL");
        } else if (bytes_is(argv[i], "WAIT")) {
            wish->waits = true;
        } else if (has_value && bytes_is(argv[i], "NAME")) {
            good = parse_backup_name(reply, argv[++i], wish);
        } else if (has_value && bytes_is(argv[i], "SLOTS")) {
            good = parse_backup_slots(reply, argv[++i], wish);
        } else if (has_value && bytes_is(argv[i], "KEEP")) {
            good = parse_backup_number(reply, argv[++i], "KEEP", KEEP_MAX, &wish->keep);
        } else if (has_value && bytes_is(argv[i], "KEEP-DAYS")) {
            good =
                parse_backup_number(reply, argv[++i], "KEEP-DAYS", KEEP_DAYS_MAX, &wish->keep_days);
        } else if (has_value && bytes_is(argv[i], "LEASE")) {
            good = parse_backup_number(reply, argv[++i], "LEASE", BACKUP_LEASE_MAX_MS,
                                       &wish->lease_ms);
        } else {
            reply_code(reply, ERR_SYNTAX);
            good = false;
        }
    }
    if (good && *wish->slots && (wish->is_full || wish->keep || wish->keep_days)) {
        reply_error(reply, "ERR KEEP, KEEP-DAYS and FULL are for backups of all slots");
        good = false;
    }
    return good;
}

static void start(struct request *request, struct reply *reply)
{
    struct backup_wish wish = {.lease_ms = BACKUP_LEASE_MS};
    struct backup_view view;
    if (!parse_wish(request, reply, &wish))
        return;
    cluster_backup_look(request->worker, &view);
    if (view.is_running)
        reply_error(
            reply,
            "ERR a backup is in progress: wait for its end (SCREE BACKUP STATUS), or cancel it");
    else
        cluster_backup_lead(request, &wish);
}

/* ---- STATUS, CANCEL ---- */

/* gather_visit_fn */
static void copy_backup_view(struct proxy_worker *worker, const void *data, struct out *out)
{
    struct backup_view view;
    (void)data;
    cluster_backup_look(worker, &view);
    out_write(out, (const char *)&view, sizeof view);
}

/* The backup that runs at any worker; if there is none, the backup that ended last. */
static struct backup_view choose(const struct request *request)
{
    struct backup_view chosen = {.step = "idle"};
    for (uint32_t i = 0; i < request_gathered_count(request); i++) {
        const struct out *out = request_gathered((struct request *)request, i);
        struct backup_view view;
        if (out->bytes != sizeof view)
            continue;
        out_copy(out, (char *)&view);
        if (view.is_running || (!chosen.is_running && view.ended_ms > chosen.ended_ms))
            chosen = view;
    }
    return chosen;
}

static void reply_own_view(const struct backup_view *view, struct reply *reply)
{
    reply_map(reply, 13);
    reply_pair_text(reply, "state", view->step);
    reply_pair_text(reply, "backup", view->is_running ? view->name : "");
    reply_pair_int(reply, "shards", view->shards);
    reply_pair_int(reply, "shards-done", view->shards_done);
    reply_progress(reply, view->bytes_done, view->bytes_total);
    reply_pair_int(reply, "held-ms", view->held_ms);
    reply_pair_text(reply, "last-backup", view->is_running ? "" : view->name);
    reply_pair_text(reply, "last-status", !view->ended_ms ? "" : view->last_good ? "ok" : "err");
    reply_pair_text(reply, "last-error", view->reason);
    reply_pair_int(reply, "last-time", view->ended_ms / 1000);
    reply_pair_text(reply, "copied-by", view->copied_by);
}

static void reply_pair_bytes(struct reply *reply, const char *name, struct bytes value)
{
    reply_bulk_text(reply, name);
    reply_bulk(reply, value);
}

/* Replies what the shards report, because this proxy has no backup: another proxy leads or led it, or this proxy has restarted. */
static void reply_shards_view(const struct cluster_result *result, struct reply *reply)
{
    reply_map(reply, 13);
    reply_pair_bytes(reply, "state", result->running.len ? result->state : BYTES("idle"));
    reply_pair_bytes(reply, "backup", result->running);
    reply_pair_int(reply, "shards", result->shards);
    reply_pair_int(reply, "shards-done", result->good);
    reply_progress(reply, result->done, result->total);
    reply_pair_int(reply, "held-ms", 0);
    reply_pair_bytes(reply, "last-backup", result->name);
    reply_pair_text(reply, "last-status", result->status);
    reply_pair_text(reply, "last-error", result->reason);
    reply_pair_int(reply, "last-time", (int64_t)result->ended_s);
    reply_pair_text(reply, "copied-by", "");
}

/* request_done_fn: the shards' replies to STATUS; the state has the newest backup of this proxy. */
static void reply_newest(struct client *client, struct request *request, struct reply *reply)
{
    const struct backup_view *view = request_state(request, sizeof *view);
    struct cluster_result result;
    (void)client;
    backup_status_merge(request, &result);
    bool is_own = bytes_equal(result.name, bytes_of(view->name)) && !result.running.len;
    if (is_own || view->ended_ms / 1000 > result.ended_s)
        reply_own_view(view, reply);
    else
        reply_shards_view(&result, reply);
}

static void reply_status_of(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("STATUS")};
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = argv, .argc = 3};
    struct backup_view *view = request_state(request, sizeof *view);
    (void)client;
    *view = choose(request);
    if (view->is_running)
        reply_own_view(view, reply);
    else
        request_fan_out_with(request, &how, reply_newest);
}

/* gather_visit_fn */
static void cancel(struct proxy_worker *worker, const void *data, struct out *out)
{
    (void)data;
    if (cluster_backup_stop(worker, "cancelled"))
        out_write(out, "1", 1);
}

static void backup_cancelled(struct client *client, struct request *request, struct reply *reply)
{
    int64_t count = 0;
    (void)client;
    for (uint32_t i = 0; i < request_gathered_count(request); i++)
        count += request_gathered(request, i)->bytes > 0;
    reply_int(reply, count);
}

/* ---- LIST, DELETE ---- */

static void listed(struct client *client, struct request *request, struct reply *reply)
{
    struct backup_list list;
    char shards[32];
    (void)client;
    backup_list_read(request, &list);
    reply_array(reply, (int64_t)list.count);
    for (size_t i = 0; i < list.count; i++) {
        const struct listed_backup *item = &list.items[i];
        uint32_t parts = *item->slots ? item->parts : list.shards;
        reply_map(reply, 7);
        reply_pair_text(reply, "backup", item->name);
        reply_pair_text(reply, "id", item->id);
        reply_pair_int(reply, "taken-ms", item->taken_ms);
        reply_pair_int(reply, "bytes", item->bytes);
        (void)snprintf(shards, sizeof shards, "%u/%u", item->shards, parts);
        reply_pair_text(reply, "shards", shards);
        reply_pair_text(reply, "complete", item->shards == parts ? "yes" : "no");
        reply_pair_text(reply, "slots", item->slots);
    }
    backup_list_free(&list);
}

/* A shard, or a copy, that does not have the backup is no error, unless none has it. */
static void deleted(struct client *client, struct request *request, struct reply *reply)
{
    uint32_t count = 0;
    const struct shard_reply *refused = NULL;
    const struct shard_reply *missing = NULL;
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (bytes_equal(answer->frame, BYTES("+OK\r\n")))
            count++;
        else if (error_has_code(answer->frame, "NOBACKUP"))
            missing = answer;
        else
            refused = answer;
    }
    if (!refused && !count)
        refused = missing;
    if (!refused)
        reply_ok(reply);
    else
        reply_shard_refusal(reply, refused);
}

static void delete (struct request *request, struct bytes name)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("DELETE"), name, BYTES("")};
    backup_ask_all_copies(request, argv, 5, 4, deleted);
}

void local_scree_backup(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    (void)client;
    if (bytes_is(argv[2], "START"))
        start(request, reply);
    else if (bytes_is(argv[2], "STATUS") && argc == 3)
        request_gather(request, copy_backup_view, NULL, 0, reply_status_of);
    else if (bytes_is(argv[2], "CANCEL") && argc == 3)
        request_gather(request, cancel, NULL, 0, backup_cancelled);
    else if (bytes_is(argv[2], "LIST") && argc == 3)
        backup_list_ask(request, listed);
    else if (bytes_is(argv[2], "DELETE") && argc == 4)
        delete (request, argv[3]);
    else
        reply_code(reply, ERR_SYNTAX);
}
