#include "backend/acl_gate.h"

#include "backend/call.h"
#include "backend/session.h"

#include <stdio.h>

static void write_toplevel(const struct call *call, enum acl_denied denied, char text[ACL_TEXT_MAX])
{
    if (denied == ACL_DENIED_COMMAND)
        (void)snprintf(text, ACL_TEXT_MAX,
                       "NOPERM this user has no permissions to run the '%s' command",
                       call->command->full_name);
    else
        (void)snprintf(text, ACL_TEXT_MAX,
                       "NOPERM this user has no permissions to access one of the %s used as "
                       "arguments",
                       denied == ACL_DENIED_KEY ? "keys" : "channels");
}

/* At EXEC the command had passed once. */
static void write_exec(enum acl_denied denied, char text[ACL_TEXT_MAX])
{
    (void)snprintf(text, ACL_TEXT_MAX,
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
    if (session->is_internal)
        return ACL_ALLOWED;
    enum acl_denied denied =
        user ? acl_check(user, call->command, call->argv, call->argc, &index) : ACL_DENIED_COMMAND;
    if (denied != ACL_ALLOWED)
        acl_log_add(call, denied, context, session_user_name(session),
                    denied == ACL_DENIED_COMMAND ? bytes_of(call->command->full_name)
                                                 : call->argv[index]);
    return denied;
}

bool acl_gate(struct call *call, char text[ACL_TEXT_MAX])
{
    enum acl_denied denied =
        check(call, call->session->transaction.is_open ? ACL_MULTI : ACL_TOPLEVEL);
    if (denied != ACL_ALLOWED)
        write_toplevel(call, denied, text);
    return denied == ACL_ALLOWED;
}

bool acl_gate_exec(struct call *call, char text[ACL_TEXT_MAX])
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
