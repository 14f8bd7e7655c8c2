/*
 * probe.h - one PING over TLS on a connected, blocking socket; for the admin thread, where waiting is allowed.
 */
#pragma once

#include <stdbool.h>

struct tls_context;

/* Does anything answer? The socket's timeouts bound each wait; it stays the caller's. */
bool probe_tls(int fd, struct tls_context *context, const char *host, const char *address);
