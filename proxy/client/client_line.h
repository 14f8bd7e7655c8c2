/*
 * client_line.h - what CLIENT LIST, CLIENT INFO, ACL LOG and the status page print about a client.
 */
#pragma once

#include "proxy/core/client.h"

enum { CLIENT_FLAGS_MAX = 16 };

/* Writes the client's line of CLIENT LIST, without the end of line. */
void client_write_line(const struct client *client, struct out *out);
/* The client's flags in CLIENT LIST, as a string. */
void client_flags(const struct client *client, char flags[CLIENT_FLAGS_MAX]);
