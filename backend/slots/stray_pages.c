#include "backend/slots/stray_pages.h"

#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stray_pages *stray_pages_new(struct stray_moves *moves)
{
    struct stray_pages *pages = calloc(1, sizeof *pages);
    CHECK(pages);
    for (unsigned i = 0; i < STRAY_PAGES; i++) {
        pages->page[i].moves = moves;
        out_init(&pages->page[i].payload);
    }
    return pages;
}

void stray_page_clear(struct stray_page *page)
{
    out_clear(&page->payload);
    for (uint32_t i = 0; i < page->count; i++)
        free(page->keys[i].key);
    page->count = 0;
    page->state = STRAY_PAGE_EMPTY;
    page->retry_ms = 0;
}

void stray_pages_free(struct stray_pages *pages)
{
    for (unsigned i = 0; pages && i < STRAY_PAGES; i++)
        stray_page_clear(&pages->page[i]);
    free(pages);
}

struct stray_page *stray_pages_for(struct stray_pages *pages, const char *owner)
{
    struct stray_page *empty = NULL;
    for (unsigned i = 0; i < STRAY_PAGES; i++) {
        struct stray_page *page = &pages->page[i];
        if (page->state == STRAY_PAGE_OPEN && strcmp(page->owner, owner) == 0)
            return page;
        if (page->state == STRAY_PAGE_EMPTY)
            empty = page;
    }
    if (empty)
        (void)snprintf(empty->owner, sizeof empty->owner, "%s", owner);
    else
        stray_pages_close(pages);
    return empty;
}

void stray_page_add(struct stray_page *page, struct space *space, uint16_t slot, struct bytes key)
{
    struct sent_key *sent = &page->keys[page->count++];
    *sent =
        (struct sent_key){.space = space, .slot = slot, .key = malloc(key.len + 1), .len = key.len};
    CHECK(sent->key);
    memcpy(sent->key, key.data, key.len);
    page->state = page->count == STRAY_PAGE_KEYS ? STRAY_PAGE_CLOSED : STRAY_PAGE_OPEN;
}

void stray_pages_close(struct stray_pages *pages)
{
    for (unsigned i = 0; i < STRAY_PAGES; i++)
        if (pages->page[i].state == STRAY_PAGE_OPEN)
            pages->page[i].state = STRAY_PAGE_CLOSED;
}

bool stray_pages_are_empty(const struct stray_pages *pages)
{
    for (unsigned i = 0; i < STRAY_PAGES; i++)
        if (pages->page[i].state != STRAY_PAGE_EMPTY)
            return false;
    return true;
}

size_t stray_pages_sent_bytes(const struct stray_pages *pages)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < STRAY_PAGES; i++)
        if (pages->page[i].state == STRAY_PAGE_SENT)
            bytes += pages->page[i].payload.bytes;
    return bytes;
}
