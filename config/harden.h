/*
 * harden.h - what the process gives up before it serves: rights it never needs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Sets the umask so that new files are readable by our user only: they hold clients' data or secrets. */
void harden_files(void);
/* No new privileges by any execve, no ambient capabilities; without `core_dumps` no core file with what clients stored;
 * with `seccomp` no system call of the deny-list in harden.c. Before threads start. False: one line in error[size]. */
bool harden(bool core_dumps, bool seccomp, char *error, size_t size);
