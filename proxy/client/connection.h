/*
 * connection.h - a client's connection: accepts it, reads its frames, and calls the features of a client (client_events).
 */
#pragma once

#include "proxy/core/client.h"

/* Makes the client of an accepted stream. `name`: namespace of the listener; empty: none. */
struct client *client_new(struct proxy_worker *worker, struct stream *stream, struct bytes name);

/* For proxy_worker.client_events. */
extern const struct client_events connection_events;
