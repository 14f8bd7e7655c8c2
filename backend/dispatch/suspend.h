/*
 * suspend.h - suspends the session of a command that must wait (retry.h), most often for a row that is only on disk: the command is
 * rolled back (attempt.h), the thread serves other sessions, and the command runs again when what it needs is here.
 *
 *   dispatch ─► suspend_ready ─► suspend_begin ─► handler ─► a read returns ERR_RETRY (overlay.h)
 *      ▲                                                    │ the handler returns, as when the store fails
 *      │                                                    ▼
 *   session_resume ◄─ the rows have been fetched ◄─ suspend_end: attempt_undo
 *
 * The request and all bytes after it stay in the session's stream, so no copy is needed. The first rows that the
 * following requests will read are fetched too.
 *
 * Changes of keys are collected and reported later (change.h), so a command can be rolled back even if its keys are
 * watched. After SUSPEND_TRIES attempts its reads block on the disk, as do reads of blocking commands that run again.
 * While rows are often only on disk, scripts and commands of several keys prefetch the rows of their keys.
 *
 * EXEC is rolled back as a whole if its commands only read and write their keys, publish, and run scripts: each command
 * that needs a row requests it, then the effects and statistics of all commands are rolled back, and the queue is kept.
 *
 * A command that may borrow keys of other shards (coordinator.h) is suspended in the same way when it needs one, also when
 * its reads of local rows block. Its last attempt is rolled back too, after its effects were collected. Only a script or EXEC that has
 * already borrowed a key is not rolled back: a script stops at redis.call (halt.h), EXEC before the command, and goes on from there when the
 * next key has come; what it did so far is kept aside until then (attempt.h).
 *
 * A script is rolled back too: the first of its commands that needs a row ends the run with an error that Lua code cannot
 * catch, and the script begins again when the row is in memory. Random state, messages and the database are restored;
 * lines of redis.log and variables of a library outside its functions are not. A script can no longer be rolled
 * back when it is slow and other sessions were served, or when it calls a command that may do more than change keys,
 * publish or read the time.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/session/attempt.h"

struct session;

struct suspend_mark {
    bool is_set; /* the command may run again */
    struct attempt attempt;
};

/* Prefetches the command's rows. False: the command must wait for them before it runs. */
bool suspend_ready(struct call *call);
/* Called before the handler. */
void suspend_begin(struct call *call, struct suspend_mark *mark);
/* Called after the handler of a script or EXEC that has halted, before the call ends. */
void suspend_halt(struct call *call, const struct suspend_mark *mark);
/* Called after the handler. True: the command was rolled back, and its session is suspended. */
bool suspend_end(struct call *call, const struct suspend_mark *mark);

/* The command must wait: may the script or EXEC that runs it halt there? */
bool suspend_may_halt(const struct call *call);

/* Called before a script runs this command. NULL: the command will be refused. */
void suspend_before_nested(struct call *script, const struct command *command);
/* Ends the possibility of a rollback in EXEC or a script: effects so far are kept, and reads block. No row may be
 * pending. */
void suspend_forbid(struct call *call);

/* The request has ended, or will not run soon: releases the locks that it has taken because it waited (lock_waiter.h). */
void suspend_forget_locks(struct session *session);
/* The session is suspended: prefetches rows that the requests in these bytes, which are behind its first, will read. The first may leave its
 * line (line.h). */
void suspend_wait(struct session *session, const char *behind, size_t len);
