/*
 * monitor.h - MONITOR: sends every command of a namespace, as a line, to its MONITOR clients.
 *
 *   +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
 *
 * The lines are push messages (push_message.h), so they are not sent before the reply of the command. Passwords are shown
 * as (redacted); admin commands are not shown.
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
/* Sends the command to the MONITOR clients of its namespace. Only called when the partition has MONITOR clients. */
void monitor_show(struct call *call);
