/*
 * probe.h - one PING over TLS on a connected, blocking socket; for the admin thread, which may block.
 */
#pragma once

#include <stdbool.h>

struct tls_context;

/* True when a reply arrives. The socket's timeouts limit each wait; the caller closes the socket. */
bool probe_tls(int fd, struct tls_context *context, const char *host, const char *address);
