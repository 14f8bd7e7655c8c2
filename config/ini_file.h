/*
 * ini_file.h - walks an ini file, line by line, and stops at the first thing that is wrong.
 *
 *   [section NAME]        ─► on_section(line, "section NAME")
 *   name = value          ─► on_value(line, …, continued = false)
 *       more              ─► on_value(line, …, continued = true): same name, one more piece
 *   # or ; comment        (also after a value: a space and ';')
 *
 * inih splits the lines; this counts them, sees sections without values, and words the errors.
 */
#pragma once

#include "shared/bytes.h"

enum { INI_LINE_MAX = 16 * 1024, INI_FILE_MAX = 16 * 1024 * 1024, INI_REASON_MAX = 512 };

struct ini_value {
    int line;
    const char *name;
    const char *value;
    bool continued; /* an indented line under the same name */
};

struct ini_events {
    /* Both return true, or false and what is wrong in reason[INI_REASON_MAX]. Texts live for the call. */
    bool (*on_section)(void *owner, int line, struct bytes name, char *reason);
    bool (*on_value)(void *owner, const struct ini_value *value, char *reason);
};

/* Reads a whole file; free() the result. NULL: "path: why" in error[size]. */
char *file_read(const char *path, size_t *len, char *error, size_t size);
/* `path` for free(); a relative one starts at the directory of `file` (NULL: as it is). */
char *path_beside(const char *file, const char *path);
/* False: "path:line: reason" in error[size]. A value before the first section is an error. */
bool ini_each(const char *path, struct bytes text, const struct ini_events *events, void *owner,
              char *error, size_t size);
