/*
 * log.h - structured log: one line per event, "time level event key=value ...".
 *
 *   2026-01-01T12:00:00.123Z warn upstream_down shard=b address=127.0.0.1:7402 reason="connection refused"
 */
#pragma once

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Warnings, or errors, of one event in a second. What clients do can cause many more, which would fill the disk: they are dropped, and
 * counted in a line log_dropped, which precedes a later line. A key whose row cannot be read is an error at each request for it. */
enum { LOG_LINES_MAX = 100 };

/* Sets the threshold; any thread may call it at any time. */
void log_set_level(enum log_level level);
/* Appends lines to this file instead of standard error; call again to reopen it. NULL: standard error. False when
 * the file cannot be opened; the log then stays as it was. */
bool log_set_file(const char *path);
/* If standard error is the journal of systemd (systemd.exec(5), $JOURNAL_STREAM), each line begins with its priority, as in
 * <4>, which the journal removes; so `journalctl -p warning` works. */
void log_detect_journal(void);
bool log_on(enum log_level level);
/* Where lines are written: standard error or the file. */
int log_descriptor(void);
/* A quoted text in a format: log_event(LOG_WARN, "down", "reason=" LOG_QUOTED, text). */
#define LOG_QUOTED "\"%s\""
/* `event` is a word; `format` yields "key=value key=value". The caller quotes values that may contain spaces with
 * LOG_QUOTED; control characters are escaped. One write(2) per line, so lines of threads do not mix. It never
 * waits for the reader of a pipe: lines for which there is no room are dropped, and counted in a later log_dropped of event=all. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
