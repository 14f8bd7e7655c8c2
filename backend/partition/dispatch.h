/*
 * dispatch.h - runs requests: the gates every one passes, then its handler, its effects and its figures.
 *
 *   dispatch ─► gates ─► savepoint ─► handler ─┬─ ok: effects stay
 *                 │                            └─ failed: rolled back
 *                 └─ inside MULTI: queued
 *
 * Between two requests those are served who wait for keys that changed (blocking.h).
 * EXEC runs its queue through dispatch_queued: each command has a savepoint of its own.
 *
 * While a script is slow it lets the loop serve other sessions (script/run.c): their requests come here with the
 * script's command on the stack. What the row allows (CMD_ALLOW_BUSY) runs, without savepoints, for the overlay's are
 * the script's; MULTI queues it; all else is refused. Replies of both are written aside: what lies in the stream or is
 * held for a ticket may leave at any moment.
 */
#pragma once

#include "backend/context/call.h"

/* Runs one request of a session (argc > 0) and gives its reply to the session. False: it must wait and be
 * given again (CLIENT PAUSE); nothing happened. */
bool dispatch(struct session *session, const struct bytes *argv, uint32_t argc);
/* Runs a command that waited again, for this key. It replies, or goes on waiting (call->is_waiting). */
void dispatch_again(struct session *session, const struct command *command,
                    const struct bytes *argv, uint32_t argc, const struct bytes *ready_key);
/* Runs a queued command of an EXEC: same time, same reply. */
void dispatch_queued(struct call *exec, const struct command *command, const struct bytes *argv,
                     uint32_t argc);
/* A proxy has read what its connection owed: serves waiters that were passed over because of that, unless a script runs
 * now; then they are served when it has ended. */
void dispatch_drained(struct partition *partition);

/* A command that a script calls: same time, same session, an out of its own. */
struct nested {
    const struct bytes *argv;
    uint32_t argc; /* at least 1 */
    uint8_t resp;
    bool read_only; /* the script may not write */
    struct out *out;
    bool *wrote; /* set when the command is one that writes */
};
/* Runs it with a savepoint of its own. NULL, or why it was refused before it ran. */
const char *dispatch_nested(struct call *script, const struct nested *nested);
