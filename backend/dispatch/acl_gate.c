#include "backend/dispatch/acl_gate.h"

#include "backend/context/call.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/session/session.h"
#include "backend/session/session_line.h"
#include "shared/acl/acl_command.h"
#include "shared/acl/audit.h"
#include "shared/arena.h"

#include <stdio.h>

void acl_note(struct call *call, enum acl_denied reason, enum acl_context context,
              struct bytes user, struct bytes object)
{
    struct out out;
    out_init(&out);
    session_line(call->session, &out);
    char *line = arena_alloc(call->arena, out.bytes + 1);
    out_copy(&out, line);
    const struct acl_event event = {
        .reason = reason,
        .context = context,
        .at_ms = call->now_ms,
        .object = object,
        .user = user,
        .client = {line, out.bytes},
    };
    out_clear(&out);
    audit_refusal(&event);
    acl_log_add(&call->partition->metrics.acl_log, &event,
                (size_t)config_snapshot_number(call->partition->snapshot, "acllog-max-len"));
}

/* Writes the error for a queued command that is no longer allowed at EXEC. */
static void write_exec(enum acl_denied denied, char text[ACL_ERROR_MAX])
{
    (void)snprintf(text, ACL_ERROR_MAX,
                   "NOPERM ACLs rules changed between the moment the transaction was accumulated "
                   "and the EXEC call. This command is no longer allowed for the following reason: "
                   "%s",
                   denied == ACL_DENIED_COMMAND
                       ? "no permission to execute the command or subcommand"
                   : denied == ACL_DENIED_KEY ? "no permission to touch the specified keys"
                                              : "no permission to access one of the channels used "
                                                "as arguments to the command");
}

static enum acl_denied check(struct call *call, enum acl_context context)
{
    struct session *session = call->session;
    const struct acl_user *user = session_user(session);
    uint32_t index = 0;
    if (session_is_trusted(session))
        return ACL_ALLOWED;
    if (!user) /* the user was removed: the connection is closed */
        return ACL_DENIED_COMMAND;
    enum acl_denied denied = acl_check(user, call->command, call->argv, call->argc, &index);
    if (denied != ACL_ALLOWED)
        acl_note(call, denied, context, session_user_name(session),
                 denied == ACL_DENIED_COMMAND ? bytes_of(call->command->full_name)
                                              : call->argv[index]);
    return denied;
}

bool acl_gate(struct call *call, char text[ACL_ERROR_MAX])
{
    enum acl_denied denied =
        check(call, call->session->transaction.is_open ? ACL_MULTI : ACL_TOPLEVEL);
    if (denied != ACL_ALLOWED)
        acl_denied_error(denied, call->command, text);
    return denied == ACL_ALLOWED;
}

bool acl_gate_exec(struct call *call, char text[ACL_ERROR_MAX])
{
    enum acl_denied denied = check(call, ACL_MULTI);
    if (denied != ACL_ALLOWED)
        write_exec(denied, text);
    return denied == ACL_ALLOWED;
}

const char *acl_gate_script(struct call *call)
{
    static const char *const texts[] = {
        [ACL_ALLOWED] = NULL,
        [ACL_DENIED_COMMAND] =
            "ERR The user executing the script can't run this command or subcommand",
        [ACL_DENIED_KEY] = "ERR The user executing the script can't access at least one of the "
                           "keys mentioned in the command arguments",
        [ACL_DENIED_CHANNEL] =
            "ERR The user executing the script can't publish to the channel mentioned in the "
            "command",
    };
    return texts[check(call, ACL_LUA)];
}
