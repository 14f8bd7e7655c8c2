#include "backend/slots/stray_page.h"

#include "backend/context/partition.h"
#include "backend/format/slot_record.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/session/internal_call.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stray_page_init(struct stray_page *page, void (*on_noted)(struct ticket_wait *wait, int err))
{
    *page = (struct stray_page){.state = STRAY_PAGE_OPEN};
    out_init(&page->payload);
    ticket_wait_init(&page->wait, on_noted);
}

void stray_page_clear(struct stray_page *page)
{
    out_clear(&page->payload);
    for (uint32_t i = 0; i < page->count; i++)
        free(page->keys[i].key);
    page->count = page->used = 0;
    page->number = 0;
    page->is_asked = page->is_in_parts = page->was_sent = false;
    page->state = STRAY_PAGE_OPEN;
}

void stray_page_fini(struct stray_page *page)
{
    stray_page_clear(page);
    free(page->keys);
    free(page->results);
    page->keys = NULL;
    page->results = NULL;
}

static void make_page_room(struct stray_page *page)
{
    if (page->keys)
        return;
    page->keys = calloc(STRAY_PAGE_KEYS, sizeof *page->keys);
    page->results = calloc(STRAY_PAGE_KEYS, 1);
    CHECK(page->keys && page->results);
}

void stray_page_add(struct stray_page *page, struct space *space, uint16_t slot, struct bytes key)
{
    make_page_room(page);
    struct sent_key *sent = &page->keys[page->count++];
    *sent =
        (struct sent_key){.space = space, .slot = slot, .key = malloc(key.len + 1), .len = key.len};
    CHECK(sent->key);
    memcpy(sent->key, key.data, key.len);
}

/* ---- its row ---- */

static struct bytes write_page_row(struct arena *arena, const struct stray_page *page)
{
    struct out out;
    out_init(&out);
    message_put_u64(&out, page->number);
    message_put_bytes(&out, bytes_of(page->owner));
    for (uint32_t i = 0; i < page->count; i++) {
        const struct sent_key *sent = &page->keys[i];
        message_put_bytes(&out, encode_metadata_key(arena, sent->space->name, sent->slot,
                                                    (struct bytes){sent->key, sent->len}));
    }
    struct bytes row = {arena_alloc(arena, out.bytes), out.bytes};
    out_copy(&out, (char *)row.data);
    out_clear(&out);
    return row;
}

void stray_page_note(struct partition *partition, struct stray_page *page)
{
    struct call call;
    overlay_observe_begin(partition->overlay);
    internal_call_begin(partition, &call);
    overlay_put(partition->overlay, CF_SYSTEM, stray_page_key(), write_page_row(call.arena, page));
    internal_call_end(partition, &call);
    page->state = STRAY_PAGE_NOTED;
    ticket_wait_begin(partition, &page->wait);
}

void stray_page_forget(struct partition *partition)
{
    struct call call;
    internal_call_begin(partition, &call);
    overlay_delete(partition->overlay, CF_SYSTEM, stray_page_key());
    internal_call_end(partition, &call);
}

static void read_page_row(struct partition *partition, struct message_reader *reader,
                          struct stray_page *page)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    page->number = message_u64(reader);
    struct bytes owner = message_bytes(reader);
    (void)snprintf(page->owner, sizeof page->owner, "%.*s", (int)owner.len,
                   owner.len ? owner.data : "");
    while (reader->is_good && reader->rest.len && page->count < STRAY_PAGE_KEYS)
        if (decode_metadata_key(message_bytes(reader), &space, &slot, &key))
            stray_page_add(page, space_find(partition->spaces, space), slot, key);
}

int stray_page_load(struct partition *partition, struct stray_page *page)
{
    struct slice value;
    stray_page_clear(page);
    int err = overlay_get(partition->overlay, CF_SYSTEM, stray_page_key(), &value);
    if (err != OK)
        return err == ERR_NOT_FOUND ? 0 : -1;
    struct message_reader reader = message_read(slice_bytes(&value));
    read_page_row(partition, &reader, page);
    slice_release(&value);
    page->is_asked = page->was_sent = true;
    page->state = STRAY_PAGE_READY;
    return 1;
}
