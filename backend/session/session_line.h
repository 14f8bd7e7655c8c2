/*
 * session_line.h - a session as CLIENT LIST shows it.
 */
#pragma once

#include "shared/out.h"

struct session;

/* The session's flags in CLIENT LIST. */
enum { SESSION_FLAGS_MAX = 16 };
void session_flags(const struct session *session, char flags[SESSION_FLAGS_MAX]);
/* Writes the session's line of CLIENT LIST, without the end of line. */
void session_line(const struct session *session, struct out *out);
