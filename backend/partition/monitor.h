/*
 * monitor.h - MONITOR: sends every command of a namespace, as a line, to its MONITOR clients.
 *
 *   +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
 *
 * The lines are push messages (push_message.h), so they are not sent before the reply of the command. Passwords are shown
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

/* The session gets the lines from now on. */
void monitor_add(struct session *session);
void monitor_remove(struct session *session);
bool monitor_is(const struct session *session);
/* True when there are MONITOR clients, or a proxy that wants to see this command of a script. */
bool monitor_wants(const struct call *call);
/* Sends the command to the MONITOR clients of its namespace, and to such a proxy. Only called when monitor_wants(). */
void monitor_show(struct call *call);
