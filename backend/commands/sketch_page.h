/*
 * sketch_page.h - the pages of a sketch, one at a time: read when a command needs the page, written when it needs another one.
 *
 *   sketch_page_turn(3) ── change data ── sketch_page_turn(3) ── change data ── sketch_page_turn(7) …  sketch_page_close()
 *          │ reads 3                        │ is here                              │ writes 3, reads 7         │ writes 7
 *
 * So items whose counters lie in one page cost one row of the batch. A page that has no row reads as zeros.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum { SKETCH_PAGE_BYTES_MAX = 512 };

struct sketch_page {
    struct call *call;
    struct entry *entry;
    struct bytes sub; /* of the page's row; empty: there is no page yet */
    size_t len;
    bool is_stored;       /* the page has a row */
    bool is_changed;      /* set by the code that changes the data */
    bool was_any_changed; /* a page was changed since sketch_page_init */
    char data[SKETCH_PAGE_BYTES_MAX];
};

void sketch_page_init(struct sketch_page *page, struct call *call, struct entry *entry);
/* Goes to the page with this sub key, of `len` bytes. False: the call has failed. */
bool sketch_page_turn(struct sketch_page *page, struct bytes sub, size_t len);
/* Writes the page if it was changed. A page that had no row is counted in the entry's size. */
void sketch_page_close(struct sketch_page *page);
