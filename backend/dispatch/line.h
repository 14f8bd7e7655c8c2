/*
 * line.h - requests that must wait leave the connection that clients share.
 *
 * A proxy sends the requests of all clients of a worker over a few connections, and a connection's requests run one after the other:
 * one that waits for a locked key, or for keys of other shards, would make all behind it wait.
 *
 *   proxy ──► shard    SET a 1, GET b, GET c       a is locked: SET waits for LINE_MS, and then leaves the line:
 *   proxy ◄── shard    SET a 1 comes back: "waits"
 *   proxy ◄── shard    GET b, GET c come back: "behind", as all does until the proxy says that it has seen the first one (bounce.h)
 *   proxy ──► shard    SCREE BOUNCES SEEN 3, GET b, GET c       these run
 *   proxy ──► shard    on a connection of its own: SET a 1      it waits there, for as long as it may
 *
 * (1) Nothing of a request that bounces was done, and its transaction over shards is abandoned. One that is preparing stays: it needs
 *     one more answer of each shard.
 * (2) Order: requests behind bounce too, whatever their keys, so a client's requests run in the order in which it has sent them: the proxy
 *     sends a client's bounced requests again in their order, and new ones of this client behind them (proxy/client/bounced.h).
 * (3) Only a request that has waited for LINE_MS leaves, for most locks are held for a shorter time; one that has begun a transaction over
 *     shards has LINE_ACROSS_MS, because it begins again. For SPELL_MS after that, others that wait leave after a millisecond,
 *     and those behind a request that has left leave with it if their keys are locked.
 * (4) Only connections with SCREE BOUNCES WAITING are such lines. A client that watches or tracks keys has connections of its own.
 * (5) A slow call that waits until no reply is held (slow_call.h) stays: others write nothing until it has run.
 * (6) One that leaves releases its locks, which may end the wait of any others: nothing walks the list while one does.
 */
#pragma once

enum { LINE_MS = 5, LINE_ACROSS_MS = 200 };

struct line; /* of a partition */
struct partition;
struct session;

struct line *line_new(struct partition *partition);
/* NULL is allowed. No session may be waiting. */
void line_free(struct line *line);
/* The session's first request was suspended: it leaves the line if it waits for long. */
void line_wait(struct session *session);
