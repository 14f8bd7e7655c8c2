/*
 * monitor.c - MONITOR (see backend/session/monitor.h).
 */
#include "backend/session/monitor.h"

#include "backend/dispatch/handlers.h"
#include "backend/session/session.h"

void cmd_monitor(struct call *call)
{
    if (call->in_exec) {
        call_error_text(call, command_exec_error(call->command));
    } else if (!monitor_is(call->session)) {
        monitor_add(call->session);
        reply_ok(&call->reply);
    }
}
