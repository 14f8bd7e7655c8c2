/*
 * admin.h - the backend's HTTP port.
 *
 *   /healthz  200 while every partition's thread turns      /metrics  Prometheus
 *   /readyz   200 from the first listen to the stop         /config   the options in force, secrets hidden
 *   /shards   its partitions (JSON)
 */
#pragma once

#include "shared/net/http.h"

#include <stddef.h>

struct server;

/* Listens when the configuration names an address. false: a reason in error[size]. */
bool admin_start(struct server *server, char *error, size_t size);
