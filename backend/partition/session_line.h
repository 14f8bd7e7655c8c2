/*
 * session_line.h - a session as CLIENT LIST shows it.
 */
#pragma once

#include "shared/out.h"

struct session;

/* Writes the session's line of CLIENT LIST, without the end of line. */
void session_line(const struct session *session, struct out *out);
