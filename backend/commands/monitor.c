/*
 * monitor.c - MONITOR (see backend/monitor.h).
 */
#include "backend/monitor.h"

#include "backend/handlers.h"
#include "backend/session.h"

void cmd_monitor(struct call *call)
{
    if (call->in_exec) {
        call_error_text(call, "ERR MONITOR isn't allowed for DENY BLOCKING client");
    } else if (!monitor_is(call->session)) {
        monitor_add(call->session);
        reply_ok(&call->reply);
    }
}
