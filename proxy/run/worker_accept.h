/*
 * worker_accept.h - a worker's listeners: accepts clients, or refuses them at a limit.
 */
#pragma once

#include "proxy/core/worker.h"

/* Accepts clients on a bound descriptor. `name`: namespace of its clients, "": none. `tls`: clients use TLS, for which
 * the snapshot has a context. */
void proxy_worker_listen(struct proxy_worker *worker, int fd, const struct listen_options *options,
                         const char *name, bool tls);
void worker_stop_listening(struct proxy_worker *worker);
/* Makes a client of a stream that a listener of namespace `name` (empty: none) accepted. */
void proxy_worker_accept(struct proxy_worker *worker, struct stream *stream, struct bytes name);
