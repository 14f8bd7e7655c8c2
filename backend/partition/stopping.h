/*
 * stopping.h - before a partition stops, its proxies are told, and finish what is in flight (shared/stopping.h).
 */
#pragma once

#include <stdbool.h>

struct partition;

/* To be called once, when the listeners are closed. */
void stopping_begin(struct partition *partition);
/* To be called at the end of each turn: tells new connections, and gives back the commands that wait. True: no proxy that was
 * told is connected any more, and no transaction over shards is open here; or drain-timeout is over. */
bool stopping_is_drained(struct partition *partition);
