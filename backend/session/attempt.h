/*
 * attempt.h - everything that a command has done can be undone, until it is certain that it need not run again (retry.h).
 *
 *   attempt_savepoint ─► one command ─┬─► the next savepoint: its effects stay
 *                                     └─► attempt_rollback: they are gone
 *
 *   attempt_begin ─┬────────────────► one command ────────────────────────────────┬─► nothing to do: it is done
 *                  └─ attempt_group ► EXEC or a script: commands with savepoints ─┼─► attempt_keep
 *                                                                                 └─► attempt_undo
 *
 *                                                  savepoint   attempt_undo
 *   effects (overlay.h), counters of keys (space.h)    ×            ×
 *   messages (push_message.h)                                       ×
 *   metrics that a handler counts                                   ×
 *   statistics of commands (command_stats.h)                        × of a group
 *   random state, of call_random and of scripts                     ×
 *   the database of the session                                     ×
 */
#pragma once

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/storage/overlay.h"

struct call;
struct view;

struct attempt {
    bool is_group; /* EXEC or a script: several commands are undone as one */
    uint8_t db;    /* the session's */
    uint32_t messages;
    uint64_t random_state[4];
    uint64_t counts[7]; /* of metrics */
};

/* A command begins: from now on attempt_rollback undoes its effects. */
static inline void attempt_savepoint(struct partition *partition)
{
    overlay_savepoint(partition->overlay);
    space_savepoint(partition->spaces);
}

static inline void attempt_rollback(struct partition *partition)
{
    overlay_rollback(partition->overlay);
    space_rollback(partition->spaces);
}

/* Before the handler of a command that may run again. */
void attempt_begin(struct attempt *attempt, const struct call *call);
/* After attempt_begin, before a command that runs others. A transaction over shards has a view (view.h): what the group does is dropped in
 * any case, and attempt_keep is not for it. Else `view` is NULL. */
void attempt_group(struct attempt *attempt, const struct call *call, struct view *view);
/* What the commands of a group have done so far stays. */
void attempt_keep(struct partition *partition);
/* Nothing has happened: the command will run again, or is refused. Its reply is dropped too. */
void attempt_undo(const struct attempt *attempt, const struct call *call);

/* ---- of a transaction over shards: the group's effects have been collected (coordinator_collect) ---- */

void attempt_undo_effects(struct partition *partition);
/* The commands of the group are counted (is_counted), as if they stayed; or not at all. */
void attempt_count(const struct attempt *attempt, struct partition *partition, bool is_counted);
