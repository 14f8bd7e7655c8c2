/*
 * lock_ahead.h - locks and fetches all keys that a command over several shards names, before it runs for the first time.
 *
 *   EXEC ─► keys of its commands ─┬─ of this shard ──► lock_take ────────────┐
 *                                 └─ of other shards ► needs ─► one LOCK each ┴─► it runs, and needs nothing more
 *
 * Many keys are locked in slices, each in a turn of its own. The next slice begins when all of the one before are locked. So other
 * clients wait for one slice, and a transaction that is wounded in between, or meets a slot in transition, releases what it has, and begins
 * anew.
 *
 * Without this the command would run in vain first, and a script once for each of its keys. Keys that are not named (computed by a
 * script, or found by a pattern of SORT) are requested when the command opens them. So are all keys if a slot of this shard that the
 * command uses is in transition, because slot_pass decides about these. A key is locked for writing if its command may write it. The
 * keys that a script declares are locked for reading; when it writes the first of them, all are locked for writing, and from then on
 * already before the script runs. With the first slice go keys of other shards that scripts do not declare, but have used in earlier runs
 * (guessed_keys.h). Of a
 * big collection only the members that the commands name are fetched (named_members.h), unless one of the commands needs others.
 */
#pragma once

#include "backend/context/call.h"

/* To be called for a command of SCREE ACROSS. True: something must be waited for, perhaps only the next turn, and the session's retry waits
 * for it. */
bool lock_ahead(struct call *call);
