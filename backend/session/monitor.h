/*
 * monitor.h - MONITOR: sends every command of a namespace, as a line, to its MONITOR clients.
 *
 *   +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
 *
 * The lines are push messages (push_message.h), so no line is sent before its command's reply. Passwords are shown
 * as (redacted); admin commands are not shown.
 *
 * A proxy with MONITOR clients sees its clients' commands itself, but not what their scripts run. It sends such a request
 * with the prefix SCREE SHOW, and gets these lines before the reply, each as a frame on the same connection:
 *
 *   SCREE SHOW EVAL … ──►  ◄── >2 monitor +1339518083.107412 [0 lua] "set" "k" "v"  ◄── reply
 */
#pragma once

#include "shared/list.h"

struct call;
struct partition;
struct session;

/* Makes the session a MONITOR client. */
void monitor_add(struct session *session);
void monitor_remove(struct session *session);
bool monitor_is(const struct session *session);
/* True when there are MONITOR clients, or when a proxy requested the lines of this script's commands. */
bool monitor_wants(const struct call *call);
/* Sends the command to the MONITOR clients of its namespace and to the proxy. Only called when monitor_wants() is
 * true. */
void monitor_show(struct call *call);
