/*
 * rate.h - what happens to clients above rate-limit or bandwidth-limit of their namespace.
 *
 *   keyspace ──► rate limiter "shop" ◄── keyspace of another worker, or of another database
 *               │ requests, bytes: buckets (shared/token_bucket.h)
 *               └ action: an error, or the client waits (HOLD_RATE) in its keyspace's list
 *
 * A request may run while both buckets have tokens left. The request is charged when it runs, its reply when it arrives.
 * Only as many waiting clients are woken as there are tokens for requests.
 */
#pragma once

#include "proxy/core/client.h"

struct rate_waits;

/* For a keyspace that has a rate limiter. True: the request may run, and was charged. False: the client is held, or
 * the request was refused with an error. */
bool rate_pass(struct client *client, const struct frame *frame, const struct command *command);
/* The client is closed or moves to another keyspace: removes it from the waiting clients. */
void rate_leave(struct client *client);

/* The keyspaces of one worker in which clients wait. */
struct rate_waits *rate_waits_new(struct proxy_worker *worker);
void rate_waits_free(struct rate_waits *waits);
