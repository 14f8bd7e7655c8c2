/*
 * limits.h - max-keys and max-bytes of namespaces, and maxmemory: commands that would exceed them are refused.
 *
 *   proxy ── SCREE GRANTS: limits, what the other shards have ──► space_limit ◄── own counters; own bytes, once a second
 *     ▲                                                               │
 *     └────────────── reply: keys and bytes here ─────────────────────┤
 *                                                                     ▼
 *                    keys: a command that leaves more keys than before, and more than are granted, is rolled back:
 *                          there are max-keys here          ─► it is refused
 *                          else                             ─► it waits: for a larger grant, and runs again, or for the
 *                                                              proof that all shards together have max-keys, and is refused
 *                    bytes: while there are more than max-bytes or maxmemory, commands with the flag denyoom are refused;
 *                           in EXEC and scripts, what these have written so far counts too (maxmemory: not in scripts)
 *
 * Keys are counted exactly here, and the shards share max-keys so that their sum never exceeds it (key_grants.h). With one shard, and
 * when no proxy is a coordinator (SCREE LIMITS), nothing is granted: the keys here and those of the proxy's last message
 * count. Bytes are estimated (space_bytes.h).
 *
 * A command that waits stops the commands after it on its connection, which clients of other namespaces may have sent. So it
 * waits for LIMIT_WAIT_MS at most, then replies TRYAGAIN. When such commands have waited for LIMIT_WAITS_MS in short succession, they may
 * wait for a quarter of each second only, and reply TRYAGAIN at once when that is used up.
 */
#pragma once

#include "backend/context/call.h"

struct partition;
struct space_limit;

enum {
    /* Limits that no proxy has repeated for this time are forgotten: the proxy that sent them has ended, and the other proxies have other
     * limits, or no clients in the namespace. */
    LIMITS_LEASE_MS = 30000,
    LIMIT_WAITS_MS = 5000,
    LIMIT_WAIT_MS = 250,
};

/* May a command with these flags run? OK, or an error: a limit of bytes is exceeded. */
int limits_gate(struct call *call, uint32_t command_flags);
/* As limits_gate, for a command of a script. `may_exceed`: the script may exceed maxmemory, though no other limit. As in Redis, one that
 * declares allow-oom may, and one that has written, so that it does not stop half-way. */
int limits_gate_nested(struct call *call, uint32_t command_flags, bool may_exceed);
/* To be called when a call ends: if it has written much, adds that to the estimates, which are else made once a second. */
void limits_note_written(const struct call *call);
/* May the request wait for room? */
bool limits_may_wait(const struct call *call);
/* The session's request waits no more, and begins again on another connection. */
void limits_leave(struct session *session);
/* An attempt begins: notes the number of keys. */
void limits_attempt(const struct call *call);
/* Before the handler: number of keys of the namespace, for limits_end. */
uint64_t limits_begin(const struct call *call);
/* After the handler: if it has added keys, and there are too many, the call fails or waits (ERR_RETRY). */
void limits_end(struct call *call, uint64_t keys_before);
/* To be called when a proxy has sent new figures: commands that wait run again after this turn, if there may be room for them now, or if
 * the limit is reached for certain, so that they are refused. */
void limits_resume(struct partition *partition, struct space_limit *limit);
/* At the end of a turn: runs commands again that waited. */
void limits_turn_end(struct partition *partition);
/* The attempt of a transaction over shards is complete, and rolled back between these two calls: the keys that it creates, here and at
 * other shards, are charged here until they are there. */
void limits_charge_begin(struct call *call);
void limits_charge_end(struct call *call);
/* To be called before and after something that may remove keys of the namespace otherwise than by a command (a released slot, effects of
 * a transaction): the second call counts them as keys that have left, in the grant. */
void limits_measure(struct space_limit *limit);
void limits_note_left(struct space_limit *limit);
/* The same for something that was counted by the caller: the namespace has `keys` fewer. */
void limits_keys_left(struct space_limit *limit, uint64_t keys);
/* As these two, for the limits of all namespaces. */
void limits_measure_all(struct partition *partition);
void limits_note_left_all(struct partition *partition);
/* Several times a second: ends waits that last too long. */
void limits_tick_waits(struct partition *partition);
/* Once a second: estimates bytes. */
void limits_tick(struct partition *partition);
