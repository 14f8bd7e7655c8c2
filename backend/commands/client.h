/*
 * client.h - a connection as CLIENT LIST shows it.
 */
#pragma once

#include "shared/out.h"

struct session;

/* The connection's line, without its end. */
void client_line(const struct session *session, struct out *out);
