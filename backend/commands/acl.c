/*
 * acl.c - ACL: users and their rules, shared by all partitions of the process.
 *
 * The users are part of the configuration snapshot: a change is made on a copy, which is then published (process.h).
 * Replies are in shared/acl/acl_command.h.
 */
#include "backend/partition/refresh.h"
#include "shared/acl/acl_command.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/session.h"
#include "config/users_file.h"
#include "shared/command/command_reply.h"
#include "shared/log.h"

#include <errno.h>

static const struct acl *users(const struct call *call)
{
    return call->partition->snapshot->acl;
}

static void publish_settings(struct call *call, struct config_snapshot *snapshot)
{
    process_config_publish(call->partition->process, snapshot);
    partition_refresh(call->partition);
}

/* ---- replies ---- */

void cmd_acl_whoami(struct call *call)
{
    reply_bulk(&call->reply, session_user_name(call->session));
}

void cmd_acl_users(struct call *call)
{
    acl_reply_users(&call->reply, users(call));
}

void cmd_acl_list(struct call *call)
{
    acl_reply_list(&call->reply, users(call));
}

void cmd_acl_getuser(struct call *call)
{
    acl_reply_getuser(&call->reply, users(call), call->argv);
}

void cmd_acl_cat(struct call *call)
{
    char error[ACL_ERROR_MAX];
    if (!acl_reply_cat(&call->reply, call->argv, call->argc, error))
        call_error_text(call, error);
}

void cmd_acl_dryrun(struct call *call)
{
    char error[ACL_ERROR_MAX];
    if (!acl_reply_dryrun(&call->reply, users(call), call->argv, call->argc, error))
        call_error_text(call, error);
}

void cmd_acl_genpass(struct call *call)
{
    char error[ACL_ERROR_MAX];
    if (!acl_reply_genpass(&call->reply, call->argv, call->argc, error))
        call_error_text(call, error);
}

void cmd_acl_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}

void cmd_acl_log(struct call *call)
{
    char error[ACL_ERROR_MAX];
    if (!acl_reply_log(&call->reply, &call->partition->metrics.acl_log, call->argv, call->argc,
                       call->now_ms, error))
        call_error_text(call, error);
}

/* ---- changes ---- */

void cmd_acl_setuser(struct call *call)
{
    char error[ACL_ERROR_MAX];
    struct process *process = call->partition->process;
    struct config_snapshot *snapshot = process_config_edit(process);
    if (acl_setuser(config_snapshot_acl_edit(snapshot), call->argv, call->argc,
                    config_snapshot_all_channels(snapshot), error)) {
        publish_settings(call, snapshot);
        reply_ok(&call->reply);
    } else {
        process_config_drop(process, snapshot);
        call_error_text(call, error);
    }
}

void cmd_acl_deluser(struct call *call)
{
    char error[ACL_ERROR_MAX];
    int64_t count;
    struct process *process = call->partition->process;
    struct config_snapshot *snapshot = process_config_edit(process);
    if (!acl_deluser(config_snapshot_acl_edit(snapshot), call->argv, call->argc, &count, error)) {
        process_config_drop(process, snapshot);
        call_error_text(call, error);
        return;
    }
    publish_settings(call, snapshot);
    reply_int(&call->reply, count);
    if (!session_user(call->session))
        session_end(call->session);
}

/* ---- the file ---- */

static const char *acl_file(struct call *call)
{
    const char *path = call->partition->snapshot->config.aclfile;
    if (*path)
        return path;
    call_error_text(call, acl_no_file_error);
    return NULL;
}

void cmd_acl_load(struct call *call)
{
    char reason[ACL_ERROR_MAX];
    char error[ACL_ERROR_MAX];
    if (!acl_file(call))
        return;
    struct config_snapshot *snapshot = process_config_edit(call->partition->process);
    if (config_snapshot_load_users(snapshot, reason, sizeof reason)) {
        publish_settings(call, snapshot);
        reply_ok(&call->reply);
    } else {
        process_config_drop(call->partition->process, snapshot);
        acl_load_error(reason, error);
        call_error_text(call, error);
    }
}

void cmd_acl_save(struct call *call)
{
    const char *path = acl_file(call);
    if (!path)
        return;
    if (users_save(path, users(call), NULL)) {
        reply_ok(&call->reply);
    } else {
        log_event(LOG_ERROR, "acl_save_failed", "path=" LOG_QUOTED " reason=" LOG_QUOTED, path,
                  strerror(errno));
        call_error_text(call, acl_save_error);
    }
}
