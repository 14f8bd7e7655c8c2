/*
 * running.c - SCREE RUNNING, SCREE KILL and SCREE GONE: commands that run for long.
 */
#include "backend/dispatch/handlers.h"
#include "backend/dispatch/slow_call.h"

/* SCREE RUNNING: what runs for longer than busy-reply-threshold. */
void cmd_scree_running(struct call *call)
{
    slow_call_list(call);
}

/* SCREE KILL id */
void cmd_scree_kill(struct call *call)
{
    if (slow_call_kill(call, call->argv[2]))
        reply_ok(&call->reply);
    else
        call_error_text(call, "ERR no slow command has this id");
}

/* SCREE GONE client first last ALL|READS: the clients of these requests of the proxy's connection `client` have left. */
void cmd_scree_gone(struct call *call)
{
    int64_t session, first, last;
    bool reads_only = bytes_is(call->argv[5], "reads");
    if (!call_int64(call, 2, &session) || !call_int64(call, 3, &first) ||
        !call_int64(call, 4, &last))
        return;
    if (!reads_only && !bytes_is(call->argv[5], "all")) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    struct request_range range = {(uint64_t)session, (uint64_t)first, (uint64_t)last};
    reply_int(&call->reply, slow_call_gone(call, &range, reads_only));
}
