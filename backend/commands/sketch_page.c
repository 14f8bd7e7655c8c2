#include "backend/commands/sketch_page.h"

#include "shared/check.h"

void sketch_page_init(struct sketch_page *page, struct call *call, struct entry *entry)
{
    *page = (struct sketch_page){.call = call, .entry = entry};
}

void sketch_page_close(struct sketch_page *page)
{
    if (!page->is_changed)
        return;
    page->entry->meta.size += !page->is_stored;
    page->is_stored = true;
    page->is_changed = false;
    page->was_any_changed = true;
    sub_put(page->call, page->entry, CF_DATA, page->sub, (struct bytes){page->data, page->len});
}

bool sketch_page_turn(struct sketch_page *page, struct bytes sub, size_t len)
{
    struct bytes data;
    CHECK(len <= sizeof page->data);
    if (page->sub.len && bytes_equal(page->sub, sub))
        return true;
    sketch_page_close(page);
    page->sub = sub;
    page->len = len;
    int err = sub_get(page->call, page->entry, CF_DATA, sub, &data);
    if (is_read_failure(err))
        return false;
    page->is_stored = err == OK;
    if (!page->is_stored) {
        memset(page->data, 0, len);
    } else if (data.len == len) {
        memcpy(page->data, data.data, len);
    } else {
        call_error(page->call, ERR_STORE);
        return false;
    }
    return true;
}
