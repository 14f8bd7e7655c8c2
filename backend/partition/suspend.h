/*
 * suspend.h - suspend and retry: a command whose row is on the disk only is rolled back, and runs again when the row is
 * in memory. Until then its session is suspended; the thread goes on with others.
 *
 *   dispatch ─► suspend_ready ─► suspend_begin ─► handler ─► a read fails: the row is on the disk only (overlay.h)
 *      ▲                                                    │ the handler returns, as when the store fails
 *      │                                                    ▼
 *   session_resume ◄─ the rows have been fetched ◄─ suspend_end: effects, reply, chance, counters as before
 *
 * The request stays unread in the session's stream, and everything behind it, so nothing of it has to be kept; other
 * sessions go on. Meanwhile the rows are fetched too that the requests behind it will ask for first.
 *
 * What changed, and who is to learn of it, is collected (change.h), so a command can be rolled back whoever watches its
 * keys. After SUSPEND_TRIES its reads go to the disk. So do those of commands that waited for a key. Where rows have
 * been uncached lately scripts and all commands of several keys ask for the rows of their keys first.
 *
 * EXEC is rolled back as a whole, when all its commands do is to read and write their keys, to publish, and to run
 * scripts: each of them that needs a row asks for it, then the effects of all, and what was counted, are forgotten, and
 * the queue is as it was.
 *
 * So is a script: the first of its commands that needs a row ends the run, with an error that Lua code does not catch,
 * and it begins anew when the row is there. Chance (math.random too), messages and the database are as before;
 * redis.log has logged, and what a library's function keeps in variables outside of itself stays. It is not taken
 * back any more when others were let in (it is slow), and before a command of it that may do more than change keys,
 * publish or tell the time.
 */
#pragma once

#include "backend/context/call.h"

struct reader_wait;
struct session;

/* What a command can change and overlay, spaces and messages do not roll back. */
struct suspend_mark {
    bool is_set;
    uint64_t random_state[4];
    bool is_attempt; /* of an EXEC or a script: several commands are rolled back as one */
    uint32_t messages;
    uint64_t counts[4];
};

/* False: the command has to wait for rows before it is run. */
bool suspend_ready(struct call *call);
/* The handler is about to run. */
void suspend_begin(struct call *call, struct suspend_mark *mark);
/* It has run. True: it was rolled back, and its session waits. */
bool suspend_end(struct call *call, const struct suspend_mark *mark);

/* A script is about to run this command; NULL: it will be refused. */
void suspend_before_nested(struct call *script, const struct command *command);
/* In EXEC or a script: what its commands did stays, and nothing is rolled back any more. No row may be pending. */
void suspend_forbid(struct call *call);

/* The session waits: prefetches rows that the requests in these bytes will read. */
void suspend_prefetch(struct session *session, const char *data, size_t len);
