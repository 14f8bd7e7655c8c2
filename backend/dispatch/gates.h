/*
 * gates.h - the checks that a request passes before it runs, in Redis' order.
 *
 *   known ─► arity ─► login ─► internal ─► namespace ─► ACL ─► MULTI ─► cluster ─► leader ─► disk ─► subscriber ─► busy ─► monitor
 *     └────────┴────────┴─ refused: an error reply; an open transaction will be discarded by EXEC
 *
 * A command that a script calls passes refuse_nested() (dispatch.c) instead. EVAL has no CMD_WRITE, so a gate against
 * writes belongs in both.
 */
#pragma once

#include "backend/context/call.h"

#include <stdbool.h>
#include <stdint.h>

/* Checks the request. False: it was refused, and the error was replied. */
bool gates_pass(struct call *call);
/* Replies the error. EXEC will discard an open transaction; a refused EXEC discards it at once. */
void reject_command(struct call *call, const char *text);
/* The last gates for a command that a script calls: disk, limits and cluster. Returns the reason of a refusal; NULL: it may run.
 * `may_exceed`: see limits_gate_nested. `slot`: see
 * cluster_refuse_nested. */
const char *gates_refuse_nested(struct call *call, bool may_exceed, int32_t *slot);
/* Flags of the commands that will run: EXEC has those of its queue too, and what a script declares replaces those of the command that
 * runs it. */
uint32_t effective_flags(const struct call *call);

/* May the command write keys, or publish? Of EXEC: one of its commands. */
bool call_may_write(const struct call *call);
/* Does CLIENT PAUSE WRITE hold the request? As call_may_write, but scripts and functions with the flag no-writes go on. */
bool call_is_paused_write(const struct call *call);
/* Must the request wait, although it passed the gates? It waits until the shard has a leader, until the partition has claimed its slots, until no slot that it writes
 * to is frozen, and until the other shards have confirmed PEER_LISTEN (channel_relay.h). */
bool gates_wait(const struct call *call);
