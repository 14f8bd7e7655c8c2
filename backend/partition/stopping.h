/*
 * stopping.h - drains the connections of proxies before a partition stops, so that no request is lost (shared/stopping.h).
 */
#pragma once

#include <stdbool.h>

struct partition;

/* Begins the time of drain-timeout. To be called once, when the listeners are closed. */
void stopping_begin(struct partition *partition);
/* To be called at the end of each turn: sends STOPPING_FRAME to connections that have not got it, and gives back the commands that
 * wait. Returns true when these connections are closed and no transaction over shards is open here, or after drain-timeout. */
bool stopping_is_drained(struct partition *partition);
