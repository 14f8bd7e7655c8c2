/*
 * local_auth.c - AUTH: the reply to a login (login.h).
 */
#include "proxy/client/login.h"
#include "proxy/core/share_limits.h"
#include "proxy/local/local.h"

void local_auth(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    if (argc > 3) {
        reply_code(reply, ERR_SYNTAX);
        return;
    }
    switch (login_try(client, argv[0], argc == 3 ? &argv[1] : NULL, argv[argc - 1])) {
    case LOGIN_OK:
        reply_ok(reply);
        return;
    case LOGIN_WRONG:
        reply_code(reply, ERR_WRONGPASS);
        return;
    case LOGIN_FULL:
        reply_error(reply, maxclients_error);
        return;
    case LOGIN_ENDED:
        reply_code(reply, ERR_LOGIN_ENDED);
        return;
    case LOGIN_NO_PASSWORD:
        reply_error(
            reply,
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?");
    }
}
