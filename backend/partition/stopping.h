/*
 * stopping.h - drains the connections of proxies before a partition stops, so that no request is lost (shared/stopping.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct partition;

/* Sends STOPPING_FRAME to connections that have not got it, and gives back the commands that wait: proxies end what is in flight on them,
 * and send new requests on new connections. Also when the partition goes on, but no longer leads its copies. */
void stopping_tell(struct partition *partition);
/* As stopping_tell, for the clients up to this one. True: none of them is a proxy's connection any more. */
bool stopping_drain(struct partition *partition, uint64_t last_client);
/* Records for the other partitions of the process whether this one still has connections or transactions to end. */
void stopping_set_drained(struct partition *partition, bool is_drained);
/* Begins the time of drain-timeout. To be called once, when the listeners are closed. */
void stopping_begin(struct partition *partition);
/* To be called at the end of each turn: sends STOPPING_FRAME to connections that have not got it, and gives back the commands that
 * wait. Returns true when these connections are closed and no transaction over shards is open, here and at the other partitions of
 * the process, whose last transactions may need keys of this one unless it is closed; or after drain-timeout. */
bool stopping_is_drained(struct partition *partition);
