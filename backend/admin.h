/*
 * admin.h - the backend's HTTP port.
 *
 *   /healthz  200 while every partition's loop runs      /metrics  Prometheus
 *   /readyz   200 while it can serve its keys      /config   the options in force, secrets hidden
 *   /shards   its partitions (JSON)
 */
#pragma once

#include "shared/net/http.h"

#include <stddef.h>

struct server;

/* Listens if the configuration has an address. False: the reason is in error[size]. */
bool admin_start(struct server *server, char *error, size_t size);
/* Does /readyz succeed? Appends the reasons of partitions that own none of their slots; NULL: they are not wanted. Any thread. */
bool admin_is_ready(const struct server *server, struct out *reasons);
