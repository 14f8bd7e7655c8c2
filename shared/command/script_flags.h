/*
 * script_flags.h - the flags of scripts and functions, and what they mean for the command that runs them.
 *
 *   EVAL "#!lua flags=no-writes,allow-stale…"  ─► script_text_flags ─┐
 *   EVALSHA sha, FCALL name ─► those that are kept with its code ────┴─► script_command_flags: those of the command,
 *                                                                        without CMD_WRITE and CMD_DENYOOM here
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum script_flags {
    SCRIPT_NO_WRITES = 1 << 0,
    SCRIPT_ALLOW_OOM = 1 << 1,
    SCRIPT_ALLOW_STALE = 1 << 2,
    SCRIPT_NO_CLUSTER = 1 << 3,
    SCRIPT_CROSS_SLOT = 1 << 4,
    /* It declares its flags, perhaps none: a script by a first line "#!lua", a function always. Without, it is a script of the
     * time before flags, and only its commands show what it does. */
    SCRIPT_DECLARED = 1 << 16,
};
enum { SCRIPT_FLAGS_COUNT = 5 };
extern const char *const script_flag_names[SCRIPT_FLAGS_COUNT];

/* The flag of this name; 0: there is none. */
uint32_t script_flag_named(const char *name);
/* The flags in the script's first line. 0: there is no such line, or it is not valid. */
uint32_t script_text_flags(struct bytes script);
/* The flags (enum command_flags) of a command that runs a script with these flags: as in Redis, what the script declares
 * replaces those of the command. */
uint32_t script_command_flags(uint32_t command_flags, uint32_t script_flags);
