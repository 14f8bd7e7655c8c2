#include "backend/commands/sketch_pages.h"

#include "shared/check.h"

#include <stdlib.h>

enum { SLOTS_MIN = 64 };

struct sketch_pages {
    struct call *call;
    struct entry *entry;
    sketch_sub_fn *sub_of;
    struct arena arena; /* of the pages and slots */
    struct sketch_held_page *first;
    struct sketch_held_page **last;
    struct sketch_held_page *
        *slots;           /* by number, with open addressing; at most half of them are used */
    uint32_t slots_count; /* a power of two */
    uint32_t count;
};

struct sketch_pages *sketch_pages_new(struct call *call, struct entry *entry, sketch_sub_fn *sub_of)
{
    struct sketch_pages *pages = calloc(1, sizeof *pages);
    CHECK(pages);
    pages->call = call;
    pages->entry = entry;
    pages->sub_of = sub_of;
    pages->last = &pages->first;
    arena_init(&pages->arena);
    pages->arena.meter = call->arena->meter;
    return pages;
}

void sketch_pages_free(struct sketch_pages *pages)
{
    arena_fini(&pages->arena);
    free(pages);
}

/* The slot of the page with this number, or the free slot where it belongs. */
static struct sketch_held_page **slot_of_page(const struct sketch_pages *pages, uint32_t number)
{
    uint32_t mask = pages->slots_count - 1;
    uint32_t at = number * 0x9e3779b1u >> 8 & mask;
    while (pages->slots[at] && pages->slots[at]->number != number)
        at = (at + 1) & mask;
    return &pages->slots[at];
}

static void grow_slots(struct sketch_pages *pages)
{
    pages->slots_count = pages->slots_count ? pages->slots_count * 2 : SLOTS_MIN;
    size_t size = pages->slots_count * sizeof(struct sketch_held_page *);
    pages->slots = arena_alloc(&pages->arena, size);
    memset((void *)pages->slots, 0, size);
    for (struct sketch_held_page *page = pages->first; page; page = page->next)
        *slot_of_page(pages, page->number) = page;
}

/* Reads a page's row. False: the call has failed. */
static bool read_held_page(struct sketch_pages *pages, struct sketch_held_page *page)
{
    struct call *call = pages->call;
    struct bytes data;
    int err = sub_get(call, pages->entry, CF_DATA, pages->sub_of(call->arena, page->number), &data);
    if (is_read_failure(err))
        return false;
    page->is_stored = err == OK;
    if (!page->is_stored)
        memset(page->data, 0, page->len);
    else if (data.len == page->len)
        memcpy(page->data, data.data, page->len);
    else
        call_error(call, ERR_STORE);
    return !call->failed;
}

static struct sketch_held_page *hold_page(struct sketch_pages *pages, uint32_t number, size_t len)
{
    struct sketch_held_page *page = arena_alloc(&pages->arena, sizeof *page + len);
    struct call_mark mark = keyspace_mark(pages->call);
    *page = (struct sketch_held_page){.number = number, .len = (uint32_t)len};
    bool is_good = read_held_page(pages, page);
    keyspace_release(pages->call, &mark);
    if (!is_good)
        return NULL;
    *pages->last = page;
    pages->last = &page->next;
    pages->count++;
    return page;
}

struct sketch_held_page *sketch_pages_at(struct sketch_pages *pages, uint32_t number, size_t len)
{
    if (pages->count * 2 >= pages->slots_count)
        grow_slots(pages);
    struct sketch_held_page **slot = slot_of_page(pages, number);
    if (!*slot)
        *slot = hold_page(pages, number, len);
    return *slot;
}

bool sketch_pages_save(struct sketch_pages *pages)
{
    struct call *call = pages->call;
    bool was_any_changed = false;
    for (struct sketch_held_page *page = pages->first; page; page = page->next) {
        struct call_mark mark = keyspace_mark(call);
        if (!page->is_changed)
            continue;
        was_any_changed = true;
        pages->entry->meta.size += !page->is_stored;
        sub_put(call, pages->entry, CF_DATA, pages->sub_of(call->arena, page->number),
                (struct bytes){page->data, page->len});
        keyspace_release(call, &mark);
    }
    return was_any_changed;
}
