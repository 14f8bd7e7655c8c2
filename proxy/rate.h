/*
 * rate.h - rate-limit and bandwidth-limit of namespaces.
 *
 *   keyspace ──► rate limiter "shop" ◄── keyspace of another worker, or of another database
 *               │ requests, bytes: buckets (shared/token_bucket.h)
 *               └ action: an error, or the client waits (HOLD_RATE) in its keyspace's list
 *
 * A request is taken while both buckets have something left; it and its reply are charged as they come. Of what
 * waits, only as many clients are woken as there are requests left. A keyspace without limits has no rate limiter, and its
 * clients pay the test for it.
 */
#pragma once

#include "proxy/client.h"

struct rate_waits;

/* Of a keyspace with a rate limiter: may the frame be taken? It is charged then. Otherwise the client is held, or refused
 * and told. */
bool rate_pass(struct client *client, const struct frame *frame, const struct command *command);
/* It goes elsewhere, or is gone: waits no more. */
void rate_leave(struct client *client);

/* What waits on one worker. */
struct rate_waits *rate_waits_new(struct proxy_worker *worker);
void rate_waits_free(struct rate_waits *waits);
