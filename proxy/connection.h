/*
 * connection.h - a client's connection: accepted, read frame by frame, and what its features do when it changes.
 */
#pragma once

#include "proxy/client.h"

/* Makes the client of an accepted stream. `name`: namespace of the listener; empty: none. */
struct client *client_new(struct proxy_worker *worker, struct stream *stream, struct bytes name);

/* For proxy_worker.client_events. */
extern const struct client_events connection_events;
