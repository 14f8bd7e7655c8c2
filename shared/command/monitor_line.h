/*
 * monitor_line.h - a command as MONITOR shows it.
 *
 *   +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
 */
#pragma once

#include "shared/command/command.h"
#include "shared/out.h"

struct monitor_line {
    uint64_t at_us; /* wall clock time */
    unsigned db;
    const char *peer; /* "127.0.0.1:60866", the path of a socket, or "lua" */
    const struct command *command;
    const struct bytes *argv;
    uint32_t argc;
};

/* Writes one whole frame; passwords are shown as (redacted). */
void monitor_line_write(const struct monitor_line *line, struct out *out);
