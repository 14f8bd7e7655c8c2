/*
 * running.c - SCREE RUNNING and SCREE KILL: commands that run for long.
 */
#include "backend/partition/handlers.h"
#include "backend/partition/slow_call.h"

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
