/*
 * lock_ahead.h - locks and fetches all keys that a command over several shards names, before it runs for the first time.
 *
 *   EXEC ─► keys of its commands ─┬─ of this shard ──► lock_take ────────────┐
 *                                 └─ of other shards ► needs ─► one LOCK each ┴─► it runs, and needs nothing more
 *
 * Without this it would run in vain first, and a script would once for each of its keys. Keys that are not named (those that a
 * script computes, patterns of SORT) are found when it runs, as are all keys of a command that writes to slots in
 * transition: slot_pass decides there. A key is locked for writing if its command may write, as when it is opened. Of a big
 * collection only the members are fetched that the commands name (named_members.h), unless one of them needs others.
 */
#pragma once

#include "backend/context/call.h"

/* For a command of SCREE ACROSS. True: something must be waited for, and the session's row_wait waits for it. */
bool lock_ahead(struct call *call);
