/*
 * bounce.h - a proxy asks for a slot of another shard: nothing is executed, and the proxy gets its request back, with the name
 * of the owner (shared/bounce.h).
 *
 *   a named key is not here ─┬─ its owner is known ─────────► bounce
 *                            └─ not known, or this shard is about to own it ─► the request waits ─► TRYAGAIN
 *
 * Ordinary commands notice it when they open the key; what they did until then is rolled back and not counted. Scripts and
 * EXEC are checked before they begin. Keys that a script computes do not bounce: they get an error.
 *
 * Order: a proxy sends requests behind each other. When one bounces, those behind it that use one of its keys must not
 * run before it:
 *
 *   proxy ── MGET a b ── SET a 1 ──► b has moved: MGET bounces, and then SET too, although a is here
 *         ── SCREE BOUNCES SEEN 1 ──► the proxy has seen the bounce: from here on, what is here runs
 *
 * So all slots of the request bounce on this connection until the proxy has seen the bounce, with their owner, which may be
 * this shard. Until then the slot may even have come back. The proxy says that with SCREE BOUNCES SEEN and the number of replies that it has
 * received on the connection, up to a bounce; SCREE SLOTS alone may be older than a bounce that is on its way. Replies are counted, because
 * a bounce that is held for a batch becomes an error when that batch is not committed: then those behind tell the proxy. What the proxy
 * sends after SEEN need not bounce: clients whose requests were in flight send nothing until these are answered. A proxy that never sends
 * SEEN is of an older version: there SCREE SLOTS has this meaning.
 *
 * WATCH that bounces makes the next EXEC of the connection fail, and EXEC with watched keys does not bounce but fails: the
 * client reads and tries again.
 */
#pragma once

#include "backend/context/call.h"

/* Sets partition->shards.slot_refusal; slot_owners_new() was called before. */
void bounce_init(struct partition *partition);
void bounce_free(struct partition *partition);
/* Did the sender of the request say that it follows bounces (SCREE BOUNCES)? */
bool bounce_follows(const struct call *call);
/* Must the request bounce before it runs? With SCREE ACROSS, if none of its named keys is here, or one of them has bounced; a script or
 * EXEC, if one of its named keys is not here. True: the request is marked (session->request.is_misled), and bounce_reply must follow. */
bool bounce_gate(struct call *call);
/* Does the request leave its line, or is it behind one that has (line.h)? Then it was bounced, and must not run. */
bool bounce_line(struct call *call);
/* Replies to a marked request, of which everything was rolled back. False: it must wait. */
bool bounce_reply(struct call *call);
/* Several times a second: ends the wait of requests whose slot's owner is not found. */
void bounce_tick(struct partition *partition);
