/*
 * ini_file.h - reads an ini file line by line, and stops at the first error.
 *
 *   [section NAME]        ─► on_section(line, "section NAME")
 *   name = value          ─► on_value(line, …, continued = false)
 *       more              ─► on_value(line, …, continued = true), with the name of the line before
 *   # or ; comment        (after a value: a space and ';')
 *
 * inih parses the lines. This file adds line numbers, sections without values, and error texts.
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
    /* False: reading stops, and the reason is in reason[INI_REASON_MAX]. Names and values are valid during the call only. */
    bool (*on_section)(void *owner, int line, struct bytes name, char *reason);
    bool (*on_value)(void *owner, const struct ini_value *value, char *reason);
};

/* Reads a whole file; the caller frees the text. NULL: error[size] says "path: why". */
char *file_read(const char *path, size_t *len, char *error, size_t size);
/* The path, relative to the directory of `file` unless it is absolute or `file` is NULL; the caller frees it. */
char *path_beside(const char *file, const char *path);
/* Calls the events for every section and value of the text. False: error[size] says "path:line: reason". A value before
 * the first section is an error. */
bool ini_each(const char *path, struct bytes text, const struct ini_events *events, void *owner,
              char *error, size_t size);
