/*
 * admin.h - the backend's HTTP port.
 *
 *   /healthz  200 while every partition's loop runs      /metrics  Prometheus
 *   /readyz   200 while it accepts clients         /config   the options in force, secrets hidden
 *   /shards   its partitions (JSON)
 */
#pragma once

#include "shared/net/http.h"

#include <stddef.h>

struct server;

/* Listens if the configuration has an address. False: the reason is in error[size]. */
bool admin_start(struct server *server, char *error, size_t size);
