/*
 * report.h - what a run has done: counts, refused keys, the line of progress, and the end as text or JSON.
 *
 *   copy     41 %  1 240 000 keys  182 000 keys/s  61 MB/s  refused 0        standard error, once a second
 *   refused db 0 "cart:7": ERR …                                            standard error, the first REPORT_SHOWN_MAX
 *   {"keys":…}                                                              standard output, with --json
 */
#pragma once

#include "backend/copy/options.h"
#include "shared/bytes.h"

#include <stdint.h>

enum { REPORT_SHOWN_MAX = 100 };

enum copy_exit {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,
    EXIT_ARGUMENTS = 2,
    EXIT_SOURCE = 3,
    EXIT_TARGET = 4,
    EXIT_STOPPED = 5,
    EXIT_HISTORY = 6, /* a live copy must begin anew */
    EXIT_SESSION = 7, /* another tool has taken over the live copy */
};

struct copy_report {
    const struct copy_options *options;
    const char *verb;  /* "copy" */
    uint64_t keys;     /* copied, or compared and equal */
    uint64_t expired;  /* at the source, so not copied */
    uint64_t kept;     /* the target's key was kept */
    uint64_t left_out; /* by the filters */
    uint64_t different;
    uint64_t refused; /* by the target, or of an unknown module */
    uint64_t functions;
    uint64_t module_data;  /* of modules, that belong to no key: left out */
    uint64_t lost_pending; /* pending entries of deleted messages, which no command makes */
    uint64_t offset;       /* in the file */
    uint64_t size;         /* of the file; 0: not known */
    uint64_t started_us;
    uint64_t shown_us;
    uint64_t shown_keys;
    uint64_t shown_offset;
    bool is_line_open; /* the terminal shows a line of progress */
};

void report_init(struct copy_report *report, const struct copy_options *options);
/* Names a key that was refused, and counts it. */
void report_refused(struct copy_report *report, uint64_t db, struct bytes key, struct bytes reason);
/* The same for a key that differs from the file's. */
void report_different(struct copy_report *report, uint64_t db, struct bytes key,
                      const char *reason);
/* Shows progress, at most once a second. */
void report_progress(struct copy_report *report, const char *verb);
/* Prints a sentence to standard error, in a line of its own. */
void report_say(struct copy_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints the end. `code` is returned; EXIT_DONE becomes EXIT_REFUSED if keys were refused or differ. */
enum copy_exit report_end(struct copy_report *report, enum copy_exit code);
