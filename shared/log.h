/*
 * log.h - one event, one line, structured: time level event key=value ...
 *
 *   2026-01-01T12:00:00.123Z warn upstream_down shard=b address=127.0.0.1:7402 reason="connection refused"
 */
#pragma once

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Threshold; may be changed at any time from any thread. */
void log_set_level(enum log_level level);
/* Sends lines to a file (append; reopened by calling again) instead of standard error. NULL: standard error.
 * Returns false when it cannot be opened; the old target stays. */
bool log_set_file(const char *path);
bool log_on(enum log_level level);
/* A quoted text in a format: log_event(LOG_WARN, "down", "reason=" LOG_QUOTED, text). */
#define LOG_QUOTED "\"%s\""
/* `event` a word; `format` gives "key=value key=value"; values with spaces are quoted by the caller with
 * LOG_QUOTED, control characters are escaped. One write(2) a line: lines of threads do not mix. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
