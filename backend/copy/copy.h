/*
 * copy.h - copies an RDB file into a target, or compares them.
 *
 *   survey ─► connect ─► probes: rights, databases, keys there ─► items of the file ─► lanes ─► all replies are there: end
 *   (whole    (lanes.h)  nothing is written until these are good   one by one; waits while the item's lane is full
 *    file)
 *
 * Standard input is read once, so it has no survey: what is wrong with it is found on the way.
 */
#pragma once

#include "backend/copy/copy_pages.h"
#include "backend/copy/lanes.h"
#include "backend/copy/report.h"
#include "backend/copy/survey.h"
#include "shared/token_bucket.h"

/* Values that are longer are sent in parts. */
enum { COPY_PART_MAX = 1024 * 1024 };

/* A key in parts: see copy_parts.c. */
enum parts_state {
    PARTS_SKIPPED, /* not copied: filtered, kept, expired or refused */
    PARTS_ASKED,   /* waits for a reply before the first part */
    PARTS_OPEN,
    PARTS_ENDING,   /* waits for the last reply */
    PARTS_COMPARED, /* the target's value is read by pages (copy_pages.c) */
    PARTS_ENDED,
};

struct copy_parts {
    enum parts_state state;
    uint64_t db;
    struct bytes key;     /* owned */
    struct digest digest; /* if it is compared */
};

struct copy {
    const struct copy_options *options;
    struct copy_report report;
    struct survey survey;
    struct loop *loop;
    struct lanes *lanes;
    struct timer *timer; /* shows progress */
    struct timer *again; /* goes on after a pause */
    struct copy_later {
        struct request *first; /* commands that were refused for a reason that passes */
        struct timer *timer;   /* until they are sent again */
        uint64_t sent;         /* of those that were sent again, without replies so far */
        uint64_t since_ms;     /* since when there are such; 0: there are none */
    } later;
    struct token_bucket rate;
    struct rdb_input input;
    struct rdb_item item;
    bool has_item;   /* `item` waits for its lane */
    bool is_copying; /* the probes were good */
    bool is_at_end;  /* the file has no more items */
    bool wrong;      /* a probe has found something wrong */
    struct copy_parts parts;
    struct copy_pages pages;
    enum copy_exit exit;
};

enum copy_exit copy_run(const struct copy_options *options);

/* ---- inside of copy_*.c ---- */

static inline bool copy_is_verify(const struct copy *copy)
{
    return copy->options->command == COPY_VERIFY;
}
/* Ends the run; the first call counts. */
void copy_stop(struct copy *copy, enum copy_exit code);
/* Sends items as long as there is room. */
void copy_pump(struct copy *copy);
/* Sends the item. False: it waits. */
bool copy_send(struct copy *copy);
/* Sends questions to the target whose answers show what is wrong with it, before anything is written. */
void copy_probe(struct copy *copy);
void copy_probe_reply(struct copy *copy, const struct request *request, struct bytes frame);
/* The file's value cannot be decoded: ends the run. */
void copy_damaged(struct copy *copy);
/* Begin a key in parts, and send one of its items; false: it waits. */
struct destination;
void copy_parts_begin(struct copy *copy, const struct destination *to);
bool copy_parts_send(struct copy *copy);
/* Is the request one of the key in parts? */
bool copy_parts_has(const struct copy *copy, const struct request *request);
/* No more parts are sent, because of an error. False: there was one before. */
bool copy_parts_fail(struct copy *copy);
void copy_parts_reply(struct copy *copy, const struct request *request, struct bytes frame);
/* Compare a whole key, and a part or the end of a key in parts. False: the value is damaged. */
bool copy_verify_key(struct copy *copy, const struct destination *to);
bool copy_verify_part(struct copy *copy);
/* The key in parts was read by pages: names it, or without a reason also compares when it expires. */
void copy_verify_pages(struct copy *copy, const char *reason);
void copy_verify_reply(struct copy *copy, const struct request *request, struct bytes frame);
/* Does the error, a RESP frame or its text, pass by itself, so that the request may be sent again? */
bool copy_error_passes(struct bytes error);
/* Names the key, ends the run, or asks the target which of both is right; copy_ask_reply handles the answer. */
void copy_error(struct copy *copy, const struct request *request, struct bytes text);
/* Sends commands again that were refused for a reason that passes. */
void copy_send_later(void *copy);
void copy_ask_reply(struct copy *copy, const struct request *request, struct bytes frame);
/* Handles the reply of a command that writes. */
void copy_reply(struct copy *copy, const struct request *request, struct bytes frame);
