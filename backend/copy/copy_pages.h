/*
 * copy_pages.h - a long collection of the target that is read by pages (copy_pages.c, copy_stream_pages.c).
 */
#pragma once

#include "backend/copy/digest.h"

enum { PAGES_CURSOR_MAX = 64 };

#define MISSING_IN_TARGET "it is missing in the target"

/* What was asked last. */
enum pages_step {
    PAGES_TYPE,     /* TYPE */
    PAGES_ELEMENTS, /* LRANGE, GETRANGE, SSCAN, ZSCAN, HSCAN, XRANGE */
    PAGES_TIMES,    /* HPEXPIRETIME */
    PAGES_IDS,      /* XINFO STREAM */
    PAGES_GROUPS,   /* XINFO GROUPS */
    PAGES_CONSUMERS,
    PAGES_PENDING,
};

struct copy_pages {
    enum pages_step step;
    enum type type;
    uint32_t count; /* elements of a page */
    struct digest digest;
    char cursor[PAGES_CURSOR_MAX];
    struct stream_id last; /* the next page of a stream or of pending entries begins behind it */
    struct bytes held;     /* fields of a page, or the reply to XINFO GROUPS; owned */
    size_t held_at;        /* in it, of the next group */
    uint64_t groups_left;
    struct bytes group; /* in `held` */
};

/* For the key in parts: asks for the first page. */
struct copy;
void copy_pages_begin(struct copy *copy, enum type type);
void copy_pages_reply(struct copy *copy, struct bytes frame);

/* ---- inside of copy_*pages.c ---- */

void copy_pages_ask(struct copy *copy, const struct bytes *words, uint32_t count);
void copy_pages_hold(struct copy_pages *pages, struct bytes frame);
/* All was read. */
void copy_pages_end(struct copy *copy);
void copy_stream_pages_begin(struct copy *copy);
void copy_stream_pages_reply(struct copy *copy, struct bytes frame);
