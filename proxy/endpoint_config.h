/*
 * endpoint_config.h - Redis' parameters about clients, which the proxy answers itself:
 *
 *   timeout, maxclients, slowlog-max-len …   an own option, in Redis' units (config/redis_units.h)
 *   port, tls-port, bind, unixsocket         made of the addresses the proxy listens on
 *
 * All other names are own options under their own names, or parameters of the shards.
 */
#pragma once

#include "config/redis_units.h"
#include "config/reload.h"
#include "shared/out.h"

/* The next name; starts at *cursor = 0; NULL at the end. */
const char *endpoint_name_next(size_t *cursor);
/* Is it one of these names? */
bool endpoint_has(struct bytes name);
/* Writes the value of such a name. */
void endpoint_print(const struct proxy_config *config, const char *name, struct out *out);
/* The proxy's option with this name, Redis' or ours; NULL: there is none. */
const struct option *endpoint_option(const struct config *config, struct bytes name);
/* Sets that option; false: the error is in reason[size]. */
bool endpoint_set(struct config *config, struct bytes name, struct bytes value, char *reason,
                  size_t size);
