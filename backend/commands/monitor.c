/*
 * monitor.c - MONITOR (see backend/partition/monitor.h).
 */
#include "backend/partition/monitor.h"

#include "backend/partition/handlers.h"
#include "backend/partition/session.h"

void cmd_monitor(struct call *call)
{
    if (call->in_exec) {
        call_error_text(call, command_exec_error(call->command));
    } else if (!monitor_is(call->session)) {
        monitor_add(call->session);
        reply_ok(&call->reply);
    }
}
