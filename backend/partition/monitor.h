/*
 * monitor.h - MONITOR: every command of a namespace as a line to those who asked for it.
 *
 *   +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
 *
 * The lines are messages (push_message.h): who monitors sees no command before its sender can. Passwords are shown
 * as (redacted); commands for administrators are not shown.
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
/* Shows the command to the monitors of its namespace. Only called when the partition has monitors. */
void monitor_show(struct call *call);
