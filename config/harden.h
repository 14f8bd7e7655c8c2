/*
 * harden.h - drops rights that the process does not need, before it serves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Sets the umask so that only the user of the process can read new files: they contain clients' data or secrets. */
void harden_files(void);
/* Forbids new privileges by execve, and drops ambient capabilities. Unless `core_dumps`, a crash leaves no core file,
 * which would contain clients' data. With `seccomp` the system calls of the deny-list in harden.c fail. Called before
 * threads start. False: one line in error[size]. */
bool harden(bool core_dumps, bool seccomp, char *error, size_t size);
