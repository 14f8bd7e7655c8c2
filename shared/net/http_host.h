/*
 * http_host.h - checks the Host header against DNS rebinding.
 *
 * A web page can change the DNS record of its own name to our address, and then read our port from a visitor's
 * browser. Such a request has the page's host name in Host:. So without a token we serve only requests whose Host: is
 * an IP address, localhost, or a name from the configuration, because other sites cannot have these names.
 */
#pragma once

#include <stdbool.h>

/* `host`: the header's value, "name", "name:port", "1.2.3.4:port" or "[v6]:port"; NULL: no header (HTTP/1.0, which
 * browsers do not use). `names`: names to allow in addition, separated by spaces; each may be a pattern
 * (shared/glob.h). */
bool http_host_is_ours(const char *host, const char *names);
