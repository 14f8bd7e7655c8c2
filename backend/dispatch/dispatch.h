/*
 * dispatch.h - runs requests: gates, handler, effects and statistics.
 *
 *   dispatch ─► gates ─► savepoint ─► handler ─┬─ ok: effects stay
 *                 │                            └─ failed: rolled back
 *                 └─ inside MULTI: queued
 *
 * Between two requests, waiters of changed keys are served (blocking.h).
 * EXEC runs each queued command by dispatch_queued, with a savepoint of its own.
 *
 * A slow script lets the loop serve other sessions (script/run.c): their requests arrive here with the script's command on
 * the stack. Commands with CMD_ALLOW_BUSY run, without savepoints because these belong to the script, or are queued by
 * MULTI; all other commands are refused. Replies of the script and of these commands are written to a buffer of their
 * own, because output in the stream or held for a ticket may be sent at any moment.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/dispatch/fresh_reads.h"

/* Runs one request of a session (argc > 0) and delivers its reply. False: nothing was done; the request must be
 * dispatched again when CLIENT PAUSE ends or a row was fetched. */
bool dispatch(struct session *session, const struct bytes *argv, uint32_t argc);
/* Runs a blocking command again because this key is ready. The command replies, or waits again (call->is_waiting). */
void dispatch_again(struct session *session, const struct command *command,
                    const struct bytes *argv, uint32_t argc, const struct bytes *ready_key);
/* Runs a queued command of an EXEC, at the EXEC's time and into its reply. */
void dispatch_queued(struct call *exec, const struct command *command, const struct bytes *argv,
                     uint32_t argc);
/* Called when a proxy has read its replies: serves waiters that were skipped because of unread replies. While a script
 * runs, does nothing: they are served after the script. */
void dispatch_drained(struct partition *partition);

/* A command that a script calls: runs at the script's time and in its session, with an output of its own. */
struct nested {
    const struct bytes *argv;
    uint32_t argc; /* at least 1 */
    uint8_t resp;
    bool read_only; /* the script may not write */
    bool allow_oom; /* the script may exceed maxmemory */
    struct out *out;
    bool *wrote;   /* set when the command may write */
    int32_t *slot; /* the only slot that the script may use (cluster_gate.h); NULL: any */
};
/* Runs the command with a savepoint of its own. NULL: the command ran; else the reason of its refusal. */
const char *dispatch_nested(struct call *script, const struct nested *nested);
