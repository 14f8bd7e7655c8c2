/*
 * backup.c - SCREE BACKUP: backs up this partition alone, or runs one step of a cluster's backup, which a proxy directs
 * (PREPARE, QUIESCE, CUT, RELEASE, CONFIRM).
 */
#include "backend/backup/backup.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/session.h"
#include "shared/backup_name.h"
#include "shared/number.h"

enum { KEEP_MAX = 100000 };

static void reply_outcome(struct call *call, const char *refused)
{
    if (refused)
        call_error_text(call, refused);
    else
        reply_ok(&call->reply);
}

/* The same for a step of a cluster's backup. */
static void reply_led_step(struct call *call, const char *refused)
{
    if (!refused)
        backup_led_by(call->partition->saves.backup, call->session->id);
    reply_outcome(call, refused);
}

/* If argument *i is `word` and a value follows, sets *value and advances *i. */
static bool takes(struct call *call, uint32_t *i, const char *word, struct bytes *value)
{
    if (!bytes_is(call->argv[*i], word) || *i + 1 >= call->argc)
        return false;
    *value = call->argv[++*i];
    return true;
}

/* Parses [NAME name] [SHARD shard] [ID id] [MAP text] [SLOTS ranges] [FULL|INCREMENTAL] [KEEP n], and of PREPARE [COPY|ELSEWHERE]: the files are
 * made by this copy, which follows; or by another one than this, which leads. */
static bool parse_plan(struct call *call, bool is_led, struct backup_plan *plan)
{
    struct bytes keep = BYTES("0");
    *plan = (struct backup_plan){0};
    for (uint32_t i = 3; i < call->argc; i++) {
        bool is_full = bytes_is(call->argv[i], "FULL");
        if (bytes_is(call->argv[i], "WAIT")) {
            call_error_text(call, "ERR WAIT works at a proxy: here, ask SCREE BACKUP STATUS for "
                                  "the end of the backup");
            return false;
        }
        if (is_full || bytes_is(call->argv[i], "INCREMENTAL")) {
            plan->is_full = is_full;
        } else if (bytes_is(call->argv[i], "COPY") && is_led) {
            plan->is_of_copy = true;
        } else if (bytes_is(call->argv[i], "ELSEWHERE") && is_led) {
            plan->is_elsewhere = true;
        } else if (!takes(call, &i, "NAME", &plan->name) &&
                   !takes(call, &i, "SHARD", &plan->shard) && !takes(call, &i, "ID", &plan->id) &&
                   !takes(call, &i, "MAP", &plan->map) && !takes(call, &i, "SLOTS", &plan->slots) &&
                   !takes(call, &i, "KEEP", &keep)) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (number_parse_int64(keep, &plan->keep) && plan->keep >= 0 && plan->keep <= KEEP_MAX)
        return true;
    call_error_text(
        call, "ERR KEEP must be the number of backups to keep, from 1 to 100000, or 0 to keep all");
    return false;
}

static void handle_begin(struct call *call, bool is_led)
{
    struct backup_plan plan;
    struct backup *backup = call->partition->saves.backup;
    char name[BACKUP_TIME_NAME_MAX];
    if (!parse_plan(call, is_led, &plan))
        return;
    if (!plan.name.len)
        plan.name = backup_time_name(call->now_ms, name);
    if (is_led)
        reply_led_step(call, backup_prepare(backup, &plan));
    else
        reply_outcome(call, backup_start(backup, &plan));
}

/* QUIESCE and CUT: id, lease. */
static void handle_lease(struct call *call, const char *(*step)(struct backup *backup,
                                                                struct bytes id, uint64_t lease_ms))
{
    int64_t lease_ms;
    if (call->argc != 5)
        call_error(call, ERR_SYNTAX);
    else if (call_int64(call, 4, &lease_ms))
        reply_led_step(call, step(call->partition->saves.backup, call->argv[3],
                                  lease_ms > 0 ? (uint64_t)lease_ms : 0));
}

/* An optional argument; empty when absent. */
static struct bytes last_argument(const struct call *call, uint32_t at)
{
    return call->argc > at ? call->argv[at] : BYTES("");
}

void cmd_scree_backup(struct call *call)
{
    struct backup *backup = call->partition->saves.backup;
    struct bytes what = call->argv[2];
    uint32_t argc = call->argc;
    if (bytes_is(what, "START") || bytes_is(what, "PREPARE"))
        handle_begin(call, bytes_is(what, "PREPARE"));
    else if (bytes_is(what, "STATUS") && argc == 3)
        backup_reply_status(backup, &call->reply);
    else if (bytes_is(what, "CANCEL") && argc <= 5)
        reply_int(&call->reply,
                  backup_cancel(backup, last_argument(call, 3), last_argument(call, 4)));
    else if (bytes_is(what, "LIST") && argc <= 4)
        backup_reply_list(backup, last_argument(call, 3), &call->reply);
    else if (bytes_is(what, "DELETE") && (argc == 4 || argc == 5))
        reply_outcome(call, backup_delete(backup, call->argv[3], last_argument(call, 4)));
    else if (bytes_is(what, "QUIESCE"))
        handle_lease(call, backup_quiesce);
    else if (bytes_is(what, "CUT"))
        handle_lease(call, backup_cut);
    else if (bytes_is(what, "RELEASE") && argc == 4)
        reply_led_step(call, backup_release(backup, call->argv[3]));
    else if (bytes_is(what, "CONFIRM") && (argc == 4 || argc == 5))
        reply_led_step(call, backup_confirm(backup, call->argv[3], last_argument(call, 4)));
    else
        call_error(call, ERR_SYNTAX);
}
