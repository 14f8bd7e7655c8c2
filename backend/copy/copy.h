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

#include "backend/copy/digest.h"
#include "backend/copy/lanes.h"
#include "backend/copy/report.h"
#include "backend/copy/survey.h"
#include "shared/token_bucket.h"

/* Values that are longer are sent in parts. */
enum { COPY_PART_MAX = 1024 * 1024 };

struct copy {
    const struct copy_options *options;
    struct copy_report report;
    struct survey survey;
    struct loop *loop;
    struct lanes *lanes;
    struct timer *timer; /* shows progress */
    struct timer *again; /* goes on after a pause */
    struct token_bucket rate;
    struct rdb_input input;
    struct rdb_item item;
    bool has_item;              /* `item` waits for its lane */
    bool is_copying;            /* the probes were good */
    bool is_at_end;             /* the file has no more items */
    bool skips_parts;           /* of the key in parts: it is not copied */
    bool waits_exists;          /* for the reply whether the key in parts exists */
    bool wrong;                 /* a probe has found something wrong */
    bool part_refused;          /* the key in parts has been named */
    uint64_t parts_db;          /* of the key in parts */
    struct bytes parts_key;     /* its name; owned */
    struct digest parts_digest; /* of the key in parts, if it is compared */
    enum copy_exit exit;
};

enum copy_exit copy_run(const struct copy_options *options);

/* ---- inside of copy_*.c ---- */

/* Ends the run; the first call counts. */
void copy_stop(struct copy *copy, enum copy_exit code);
/* Sends items as long as there is room. */
void copy_pump(struct copy *copy);
/* Sends the item. False: it waits. */
bool copy_send(struct copy *copy);
/* Sends questions to the target whose answers show what is wrong with it, before anything is written. */
void copy_probe(struct copy *copy);
void copy_probe_reply(struct copy *copy, const struct request *request, struct bytes frame);
/* Compare a whole key, and a part or the end of a key in parts. False: the value is damaged. */
struct destination;
bool copy_verify_key(struct copy *copy, const struct destination *to);
bool copy_verify_part(struct copy *copy, const struct destination *to);
void copy_verify_reply(struct copy *copy, const struct request *request, struct bytes frame);
/* Does this error end the run? It does, unless it is known that it concerns the key alone. */
bool copy_error_ends(const struct request *request, struct bytes text);
void copy_end_on_error(struct copy *copy, const struct request *request, struct bytes text);
/* Handles the reply of a command that writes. */
void copy_reply(struct copy *copy, const struct request *request, struct bytes frame);
