/*
 * endpoint_config.h - CONFIG parameters of Redis that concern clients: the proxy answers them itself.
 *
 *   timeout, maxclients, slowlog-max-len …   options of the proxy, in Redis' units (config/redis_units.h)
 *   port, tls-port, bind, unixsocket         derived from the addresses on which the proxy listens
 *
 * All other parameters are options of the proxy under their own names, or parameters of the shards.
 */
#pragma once

#include "config/redis_units.h"
#include "config/reload.h"
#include "shared/out.h"

/* Iterates over the names: starts with *cursor = 0, returns NULL at the end. */
const char *endpoint_name_next(size_t *cursor);
/* True when the proxy answers this parameter. */
bool endpoint_has(struct bytes name);
/* Writes the parameter's value. */
void endpoint_print(const struct proxy_config *config, const char *name, struct out *out);
/* The proxy's option for a parameter, named as in Redis or as in proxy.ini; NULL: there is none. */
const struct option *endpoint_option(const struct config *config, struct bytes name);
/* Sets the proxy's option for a parameter. False: the error is in reason[size]. */
bool endpoint_set(struct config *config, struct bytes name, struct bytes value, char *reason,
                  size_t size);
