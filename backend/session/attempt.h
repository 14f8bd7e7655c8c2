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
 * A script over shards that waits for a key (halt.h) sets its attempt aside, so that other commands run. So does an EXEC, where it calls such
 * a script, or before a command that waits; the commands that it has run stay done:
 *
 *   attempt_begin, attempt_group ─► commands ─► attempt_leave ─► others ─► attempt_enter, attempt_go_on ─► commands ─► attempt_join
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
#include "backend/session/command_stats.h"
#include "backend/session/push_message.h"
#include "backend/storage/overlay.h"
#include "shared/out.h"

struct call;
struct halt;
struct queued;
struct view;

enum { ATTEMPT_COUNTS = 7 };

struct attempt {
    bool is_group; /* EXEC or a script: several commands are undone as one */
    uint8_t db;    /* the session's */
    uint32_t messages;
    uint64_t random_state[4];
    uint64_t counts[ATTEMPT_COUNTS]; /* of metrics */
    struct script_chance chance;     /* if has_chance */
    bool has_chance;
};

/* An attempt of a script or an EXEC over shards that waits. What it has written is in its view. */
struct attempt_aside {
    struct halt *halt;       /* the script that waits; NULL: EXEC waits between two commands */
    const struct queued *at; /* the command of EXEC that goes on; NULL: none has waited */
    struct out reply;        /* of EXEC, so far */
    struct push_messages messages;
    struct {
        uint32_t messages;      /* of the partition, when this part began */
        uint32_t messages_from; /* of `messages` above, those from here on are the script's */
        bool has_waited;
        struct space_sums sums; /* of `sums`, as much is the script's */
    } script;                   /* of EXEC, that waits */
    struct stats_aside stats;
    struct space_sums sums;
    uint64_t counts[ATTEMPT_COUNTS]; /* what it has added to the metrics */
    uint64_t random_state[4];
    struct script_chance chance;
    uint64_t generation; /* of the spaces */
    uint64_t now_ms;     /* the call's time, which stands still */
    uint64_t now_us;
    uint64_t observed; /* ticket */
    uint64_t ran_us;   /* so far, without waits */
    uint64_t cpu_us;   /* likewise, of the thread */
    int64_t written;   /* bytes */
    uint8_t db;        /* at the moment of the wait */
    bool is_again;     /* it waits for the same command as last time */
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
/* After attempt_begin: attempt_undo restores the states of math.random, too. */
void attempt_note_chance(struct attempt *attempt, const struct call *call);
/* After attempt_begin, before a command that runs others. A transaction over shards has a view (view.h): what the group does is dropped in
 * any case, and attempt_keep is not for it. Else `view` is NULL. */
void attempt_group(struct attempt *attempt, const struct call *call, struct view *view);
/* What the commands of a group have done so far stays. */
void attempt_keep(struct partition *partition);
/* Takes what was added to the metrics since attempt_begin out of them. */
void attempt_take_counts(const struct attempt *attempt, const struct partition *partition,
                         uint64_t counts[ATTEMPT_COUNTS]);
void attempt_add_counts(const struct partition *partition, const uint64_t counts[ATTEMPT_COUNTS]);
/* Nothing has happened: the command will run again, or is refused. Its reply is dropped too. */
void attempt_undo(const struct attempt *attempt, const struct call *call);

/* ---- of a script or an EXEC over shards that waits ---- */

/* The call halts: it ends now, and goes on later. */
void attempt_halt(struct call *call, bool is_again);
/* The call has halted: *aside gets all that its attempt has done so far, and nothing of that is seen any more. */
void attempt_leave(const struct attempt *attempt, struct call *call, struct attempt_aside *aside);
/* Can the attempt go on? Not if the databases were swapped, or the script's Lua state was freed. */
bool attempt_may_enter(const struct call *call, const struct attempt_aside *aside);
/* Instead of attempt_begin and attempt_group: the attempt goes on in its view. */
void attempt_enter(struct attempt *attempt, struct call *call, struct attempt_aside *aside,
                   struct view *view);
/* The handler has begun, and is about to go on. */
void attempt_go_on(struct call *call);
/* The call has ended well: what it did before its waits is followed by the rest. */
void attempt_join(const struct attempt *attempt, struct call *call);
/* The call is ended: drops what it did before its waits. */
void attempt_forget_effects(struct call *call);
/* A script of EXEC is ended, and overlay_script_end has rolled back its effects: drops the rest of what it did before its waits. */
void attempt_forget_script(struct call *call);
/* NULL is allowed. */
void attempt_aside_free(struct attempt_aside *aside, const struct partition *partition);

/* ---- of a transaction over shards: the group's effects have been collected (coordinator_collect) ---- */

void attempt_undo_effects(struct partition *partition);
/* The commands of the group are counted (is_counted), as if they stayed; or not at all. */
void attempt_count(const struct attempt *attempt, struct partition *partition, bool is_counted);
