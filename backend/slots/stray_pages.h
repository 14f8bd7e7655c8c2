/*
 * stray_pages.h - pages of strays on their way to the owners of their slots (stray_moves.h).
 *
 *            a key of this owner                no further key fits          sent
 *   EMPTY ───────────────────────► OPEN ───────────────────────────► CLOSED ──────► SENT ─┐
 *     ▲                                                                ▲  not received    │
 *     │                                                                └──────────────────┤
 *     └───────────────────────────────── the owner has its keys ──────────────────────────┘
 *
 * An owner has one open page at a time, and several that are closed or sent: so the next keys are read while the owner writes the
 * last ones. Their number, and the bytes of those that are sent, are limited.
 */
#pragma once

#include "backend/peer/link.h"
#include "backend/slots/slot_table.h"
#include "shared/out.h"

#include <stdbool.h>
#include <stdint.h>

struct space;
struct stray_moves;

enum {
    STRAY_PAGES = 16,
    STRAY_PAGE_KEYS = 1000,
};

enum stray_page_state {
    STRAY_PAGE_EMPTY,
    STRAY_PAGE_OPEN,
    STRAY_PAGE_CLOSED,
    STRAY_PAGE_SENT, /* `request` is outstanding */
};

struct sent_key {
    struct space *space;
    uint16_t slot;
    char *key; /* heap */
    size_t len;
};

/* Keys that are sent together. */
struct stray_page {
    struct stray_moves *moves;
    enum stray_page_state state;
    struct peer_request request;
    struct out payload; /* of KEYS_PUT */
    struct sent_key keys[STRAY_PAGE_KEYS];
    uint32_t count;
    char owner[SHARD_NAME_MAX + 1];
    uint64_t retry_ms; /* monotonic: when it may be sent */
};

struct stray_pages {
    struct stray_page page[STRAY_PAGES];
};

struct stray_pages *stray_pages_new(struct stray_moves *moves);
/* No page may be SENT. */
void stray_pages_free(struct stray_pages *pages);
/* The owner's open page, or an empty one. NULL: all are used; the open ones are then closed, so that they will be sent. */
struct stray_page *stray_pages_for(struct stray_pages *pages, const char *owner);
/* Notes a key whose bytes were written to the payload. The page gets OPEN, or CLOSED with its last key. */
void stray_page_add(struct stray_page *page, struct space *space, uint16_t slot, struct bytes key);
/* Empties a page. */
void stray_page_clear(struct stray_page *page);
/* Closes the open pages. */
void stray_pages_close(struct stray_pages *pages);
/* Are all pages empty? */
bool stray_pages_are_empty(const struct stray_pages *pages);
/* Bytes of the pages that are sent. */
size_t stray_pages_sent_bytes(const struct stray_pages *pages);
