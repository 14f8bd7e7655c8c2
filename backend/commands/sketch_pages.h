/*
 * sketch_pages.h - the pages of a sketch that a command visits in any order: each is read once, and written once.
 *
 *   sketch_pages_at(3) ── change ── sketch_pages_at(7) ── change ── sketch_pages_at(3) ── change …   sketch_pages_save()
 *          │ reads 3                       │ reads 7                       │ is here                       │ writes 3 and 7
 *
 * So a command with many items costs as many rows as it has pages. Where a command can sort its visits, sketch_page.h needs less
 * memory. A page that has no row reads as zeros.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

struct sketch_pages;

/* The sub key of a page, in the arena. */
typedef struct bytes sketch_sub_fn(struct arena *arena, uint32_t number);

/* Memory counts as the call's. The entry must outlive the pages. */
struct sketch_pages *sketch_pages_new(struct call *call, struct entry *entry,
                                      sketch_sub_fn *sub_of);
void sketch_pages_free(struct sketch_pages *pages);

struct sketch_held_page {
    struct sketch_held_page *next; /* in the order of the first visits */
    uint32_t number;
    uint32_t len;
    bool is_stored;  /* the page has a row */
    bool is_changed; /* set by the code that changes the data */
    char data[];
};
/* The page with this number, which has `len` bytes. NULL: the call has failed. */
struct sketch_held_page *sketch_pages_at(struct sketch_pages *pages, uint32_t number, size_t len);
/* Writes the changed pages; true: there were any. A page that had no row is counted in the entry's size. */
bool sketch_pages_save(struct sketch_pages *pages);
