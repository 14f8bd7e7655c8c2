/*
 * limits.h - max-keys and max-bytes of namespaces, and maxmemory: commands that would exceed them are refused.
 *
 *   proxy ── SCREE LIMITS: limits, what the other shards have ──► space_limit ◄── own counters; own bytes, once a second
 *     ▲                                                               │
 *     └────────────── reply: keys and bytes here ─────────────────────┤
 *                                                                     ▼
 *                    keys: a command that leaves more keys than before, and more than max-keys, is rolled back
 *                    bytes: while there are more than max-bytes or maxmemory, commands with the flag denyoom are refused
 *
 * Keys are counted exactly here; those at other shards are as old as the proxy's last message (proxy/limits.h). Bytes are
 * estimated (space_bytes.h).
 */
#pragma once

#include "backend/context/call.h"

struct partition;

/* Limits that no proxy has repeated for this time are forgotten: a proxy that knows them has left, and the others have other limits,
 * or no clients in the namespace. */
enum { LIMITS_LEASE_MS = 30000 };

/* May a command with these flags run? OK, or an error: a limit of bytes is exceeded. */
int limits_gate(struct call *call, uint32_t command_flags);
/* Before the handler: number of keys of the namespace, for limits_end. */
uint64_t limits_begin(const struct call *call);
/* After the handler: fails the call if it has added keys, and there are more than max-keys. */
void limits_end(struct call *call, uint64_t keys_before);
/* Once a second: estimates bytes. */
void limits_tick(struct partition *partition);
