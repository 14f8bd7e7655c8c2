/*
 * blocking.h - commands that wait for a key: BLPOP and its sisters, XREAD BLOCK.
 *
 *   handler ─ nothing there ─► blocking_wait ──► the client waits, its later requests stay unread
 *      ▲                                              │
 *      └── runs again, oldest waiter first ◄── a key it waits for changed | its time is up | CLIENT UNBLOCK
 *
 * A waiting command holds no state but its arguments: it is run anew from the beginning. Waiters are served when
 * the top-level command that changed the key (a whole EXEC or script) has ended, before the next request runs.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct call;

/* Makes the client wait for a change of one of the keys. False when it may not: inside EXEC or a script, or its
 * time is up (the command runs for the last time); the handler then replies what it does when it found nothing.
 * After true it replies nothing. `timeout_ms` counts from the command's first run, 0 = for ever. All is copied. */
bool blocking_wait(struct call *call, const struct bytes *keys, uint32_t count,
                   uint64_t timeout_ms);
/* The same, and the command runs again with these arguments in place of its own (XREAD's $ as an id). */
bool blocking_wait_as(struct call *call, const struct bytes *keys, uint32_t count,
                      uint64_t timeout_ms, const struct bytes *argv, uint32_t argc);
/* Reads a timeout in seconds ("0", "1.5"), as BLPOP's last argument; replies Redis' errors. */
bool blocking_timeout(struct call *call, uint32_t index, uint64_t *timeout_ms);
