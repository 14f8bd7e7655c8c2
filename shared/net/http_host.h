/*
 * http_host.h - is a request's Host: one of ours?
 *
 * A web page can have a browser send requests to an address that the page's own DNS name was changed to (DNS
 * rebinding). Such a request has the page's host name in Host:. So without a token only requests are served whose Host:
 * is an IP address, localhost, or a name from the configuration, which no page of another site can have.
 */
#pragma once

#include <stdbool.h>

/* `host`: the header's value, "name", "name:port", "1.2.3.4:port" or "[v6]:port"; NULL: there was none (HTTP/1.0, which no
 * browser sends). `names`: those allowed besides, separated by spaces, each may be a pattern (shared/glob.h). */
bool http_host_is_ours(const char *host, const char *names);
