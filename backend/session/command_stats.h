/*
 * command_stats.h - command statistics: calls, errors and latencies of the commands that ran, and the logs of slow commands,
 * large requests and large replies.
 *
 *   command_stats_add ─► counted
 *      └─ command_stats_hold ─► held ─┬─ command_stats_release: counted
 *                                     └─ command_stats_drop: the commands were rolled back, and none is counted
 *
 * A proxy sends a command that concerns several shards to each of them. The first shard counts the command as a call;
 * the others receive it with the prefix SCREE PART and add only its execution time, so the sum over all shards has each
 * call of a client once. Metrics count all commands that this process ran, including such parts.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/context/stats.h"

/* Counts the command that has just ended. Its end is also the beginning of the next command, so the clock is read once
 * per command. A blocking command is counted when its wait ends. */
void command_stats_add(const struct call *call);
/* Counts a script's command that was refused before it ran. */
void command_stats_refused(const struct call *call);
/* From now on statistics and errors are held. `call` must stay valid until they are released or dropped. */
void command_stats_hold(const struct call *call);
/* Commands of other clients that run during a slow call are not held, but counted at once until command_stats_resume, which gets the
 * reply of command_stats_pause. */
bool command_stats_pause(struct partition *partition);
void command_stats_resume(struct partition *partition, bool was_held);
/* Number of commands and errors that are held. */
uint64_t command_stats_held(const struct partition *partition);
void command_stats_release(struct partition *partition);
/* As command_stats_release, for a command over several shards, which has not ended. */
void command_stats_release_across(struct partition *partition);
/* The command over several shards has ended: adds it to the slow log if this time, in which it waited for other shards,
 * is long. Its EXEC, too, whose commands are in the log with their own times. */
void command_stats_across(const struct call *call, uint64_t usec, uint32_t shards);
void command_stats_drop(struct partition *partition);
/* A request has been answered: adds it to the logs of large requests and replies, if it is large. A reply that is streamed
 * (reply_stream.h) is logged when it is complete. */
void command_stats_answered(const struct call *call, size_t request_bytes);

/* A command whose reply is streamed. */
struct streamed_command {
    const struct command *command;
    const struct bytes *argv;
    uint32_t argc;
    uint64_t bytes; /* of the reply so far */
};
/* Copies the command into the arena; NULL: large replies are not logged. */
struct streamed_command *command_stats_copy(const struct call *call, struct arena *arena);
void command_stats_streamed(struct session *session, const struct streamed_command *streamed);

/* Statistics that are held while the script to which they belong waits. */
struct stats_aside {
    struct held_stats *ran;
    struct held_errors errors;
};
/* Sets aside what is held; nothing is held from now on. */
void command_stats_leave(struct partition *partition, struct stats_aside *aside);
/* What was set aside is held again. Instead of command_stats_hold. */
void command_stats_enter(const struct call *call, struct stats_aside *aside);
/* Drops what was set aside. */
void command_stats_forget(struct stats_aside *aside);
