#include "backend/feed/feed_batch.h"

#include "backend/format/effects.h"
#include "backend/format/slot_record.h"
#include "shared/check.h"
#include "shared/glob.h"
#include "shared/number.h"
#include "shared/reply.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum event_kind { EVENT_CHANGED, EVENT_DEL, EVENT_FLUSH, EVENT_SWAPDB, EVENT_FUNCTION };

static const char *const event_names[] = {
    [EVENT_CHANGED] = "changed", [EVENT_DEL] = "del",           [EVENT_FLUSH] = "flush",
    [EVENT_SWAPDB] = "swapdb",   [EVENT_FUNCTION] = "function",
};

/* Borrowed from the record. */
struct event {
    enum event_kind kind;
    uint16_t first_slot, last_slot;
    uint32_t hash;      /* of a key; set if there is an index */
    struct bytes space; /* storage namespace; SWAPDB, FUNCTION: namespace */
    struct bytes key;   /* of a library: its name */
};

/* The events of a batch. A batch has a metadata row once, so only rows of collections need the index, by which a key gets one event. (A row
 * that was written, rolled back and written again may be there twice, and has two events then.) The memory serves for many batches. */
struct feed_events {
    struct event *items;
    uint32_t count, cap;
    uint32_t *index; /* of events by key: 1 + their place, 0: free */
    uint32_t index_cap, index_room;
    bool is_indexed;
    bool takes_slots; /* the batch may make slots of other shards this shard's */
};

enum { EVENTS_MIN = 64, EVENTS_KEPT = 65536 /* memory for more is freed after the batch */ };

struct feed_events *feed_events_new(void)
{
    struct feed_events *events = calloc(1, sizeof *events);
    CHECK(events);
    return events;
}

static void clear_events(struct feed_events *list)
{
    free(list->items);
    free(list->index);
    *list = (struct feed_events){0};
}

void feed_events_free(struct feed_events *events)
{
    if (events)
        clear_events(events);
    free(events);
}

static void begin_events(struct feed_events *list)
{
    if (list->cap > EVENTS_KEPT)
        clear_events(list);
    list->count = 0;
    list->is_indexed = false;
    list->takes_slots = false;
}

/* ---- collecting ---- */

static bool is_same_event(const struct event *a, const struct event *b)
{
    bool is_key = a->kind <= EVENT_DEL;
    return a->hash == b->hash && is_key == (b->kind <= EVENT_DEL) &&
           (is_key || a->kind == b->kind) && a->first_slot == b->first_slot &&
           a->last_slot == b->last_slot && bytes_equal(a->key, b->key) &&
           bytes_equal(a->space, b->space);
}

static uint32_t hash_event(const struct event *event)
{
    return (uint32_t)(hash_bytes(event->key) ^ (event->space.len ? hash_bytes(event->space) : 0));
}

/* The place in the index of an event for the same key, or a free one. */
static uint32_t *find_event(const struct feed_events *list, const struct event *event)
{
    uint32_t mask = list->index_cap - 1;
    uint32_t at = event->hash & mask;
    while (list->index[at] && !is_same_event(&list->items[list->index[at] - 1], event))
        at = (at + 1) & mask;
    return &list->index[at];
}

/* Makes the index anew, of all events, with room for as many again. */
static void build_index(struct feed_events *list)
{
    uint32_t cap = EVENTS_MIN;
    while (cap < 4 * list->count)
        cap *= 2;
    if (cap > list->index_room) {
        free(list->index);
        list->index = malloc(cap * sizeof *list->index);
        list->index_room = cap;
        CHECK(list->index);
    }
    list->index_cap = cap;
    memset(list->index, 0, cap * sizeof *list->index);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!list->is_indexed)
            list->items[i].hash = hash_event(&list->items[i]);
        uint32_t *place = find_event(list, &list->items[i]);
        if (!*place)
            *place = i + 1;
    }
    list->is_indexed = true;
}

static void append_event(struct feed_events *list, const struct event *event)
{
    if (list->count == list->cap) {
        list->cap = list->cap ? list->cap * 2 : EVENTS_MIN;
        list->items = realloc(list->items, list->cap * sizeof *list->items);
        CHECK(list->items);
    }
    list->items[list->count++] = *event;
}

/* Adds the event, unless there is one for its key. Only a metadata row says that a key is deleted. */
static void add_indexed(struct feed_events *list, struct event *event, bool is_metadata)
{
    if (!list->is_indexed || list->count >= list->index_cap / 2)
        build_index(list);
    event->hash = hash_event(event);
    uint32_t *place = find_event(list, event);
    if (!*place) {
        append_event(list, event);
        *place = list->count;
    } else if (is_metadata) {
        list->items[*place - 1].kind = event->kind;
    }
}

static void add_event(struct feed_events *list, struct event *event, bool is_metadata)
{
    if (is_metadata && !list->is_indexed)
        append_event(list, event);
    else
        add_indexed(list, event, is_metadata);
}

static void add_key_event(struct feed_events *list, const struct effect *effect)
{
    struct event event = {.kind = EVENT_CHANGED};
    struct bytes sub;
    uint64_t version;
    bool is_metadata = effect->cf == CF_METADATA;
    bool is_key =
        is_metadata ? decode_metadata_key(effect->key, &event.space, &event.first_slot, &event.key)
                    : decode_collection_key(effect->key, &event.space, &event.first_slot,
                                            &event.key, &version, &sub);
    event.last_slot = event.first_slot;
    if (is_metadata && effect->kind == EFFECT_DELETE)
        event.kind = EVENT_DEL;
    if (is_key)
        add_event(list, &event, is_metadata);
}

static void add_flush(struct feed_events *list, const struct effect *effect)
{
    const struct effect_place *place = &effect->place;
    struct event event = {.kind = EVENT_FLUSH,
                          .space = place->space,
                          .first_slot = place->first_slot,
                          .last_slot = place->last_slot,
                          .key = BYTES("")};
    if (!place->is_any_space && place->first_slot != EFFECT_NO_SLOT)
        add_event(list, &event, true);
}

/* The row or range of a function library: 'f' name, or 'F' length namespace name (encoding.h). */
static void add_library(struct feed_events *list, struct bytes row)
{
    struct event event = {.kind = EVENT_FUNCTION, .space = BYTES("")};
    size_t at = 1;
    if (row.data[0] == 'F') {
        size_t len = row.len > 1 ? (uint8_t)row.data[1] : 0;
        if (row.len < 2 + len)
            return;
        event.space = (struct bytes){row.data + 2, len};
        at = 2 + len;
    }
    event.key = (struct bytes){row.data + at, row.len - at};
    add_event(list, &event, false);
}

/* Has the page of slot records a slot that came from another shard? It may have come before: a row is a whole page. */
static bool has_taken_slots(const struct effect *effect)
{
    struct slot_record records[SLOT_PAGE_SLOTS];
    unsigned page;
    if (effect->kind != EFFECT_PUT || !decode_slot_page_key(effect->key, &page) ||
        !decode_slot_page(effect->value, records))
        return false;
    for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++)
        if (records[i].state == SLOT_OWNED && records[i].migration)
            return true;
    return false;
}

static void add_system_event(struct feed_events *list, const struct effect *effect)
{
    struct event event = {.kind = EVENT_SWAPDB, .key = BYTES("")};
    if (is_function_key(effect->key))
        add_library(list, effect->key);
    else if (effect->kind == EFFECT_PUT && decode_database_map_key(effect->key, &event.space))
        add_event(list, &event, false);
    else if (has_taken_slots(effect))
        list->takes_slots = true;
}

/* Rows of other column families follow from these. */
static void collect_effect(struct feed_events *list, const struct effect *effect)
{
    if (effect->is_internal)
        return;
    switch (effect->cf) {
    case CF_METADATA:
        if (effect->kind == EFFECT_DELETE_RANGE)
            add_flush(list, effect);
        else
            add_key_event(list, effect);
        break;
    case CF_DATA:
    case CF_ZSET_SCORE:
    case CF_STREAM:
        add_key_event(list, effect);
        break;
    case CF_SYSTEM:
        add_system_event(list, effect);
        break;
    default:
        break;
    }
}

/* False: the batch cannot be read. */
static bool collect_events(struct bytes record, struct effects_header *header,
                           struct feed_events *list)
{
    struct effects_reader reader;
    struct effect effect;
    enum effects_read result =
        effects_is_write_batch(record) ? EFFECTS_NEWER : effects_open(record, header, &reader);
    while (result == EFFECTS_READ && (result = effects_next(&reader, &effect)) == EFFECTS_READ)
        collect_effect(list, &effect);
    return result == EFFECTS_END;
}

/* ---- passing on ---- */

/* Is it one of the namespace's storage namespaces? *database: its number for clients. */
static bool is_of_reader(const struct feed_filter *filter, struct bytes storage, int *database)
{
    size_t len = filter->name_len;
    bool has_database = storage.len == len + 2 && storage.data[len] == 0;
    uint8_t number = has_database ? (uint8_t)storage.data[len + 1] : 0;
    if ((!has_database && storage.len != len) || number >= DATABASES_MAX ||
        (len && memcmp(storage.data, filter->name, len) != 0))
        return false;
    *database = filter->databases[number];
    return true;
}

static bool has_any_slot(const struct feed_filter *filter, const struct event *event)
{
    for (unsigned slot = event->first_slot; slot <= event->last_slot && slot < SLOT_COUNT; slot++)
        if (filter->slots[slot])
            return true;
    return false;
}

/* *database: -1 of events that concern all. */
static bool passes_filter(const struct feed_filter *filter, const struct event *event,
                          int *database)
{
    if (event->kind >= EVENT_SWAPDB) {
        *database = -1;
        return bytes_equal(event->space, (struct bytes){filter->name, filter->name_len});
    }
    if (!is_of_reader(filter, event->space, database) ||
        (filter->database >= 0 && *database != filter->database) ||
        (filter->has_slots && !has_any_slot(filter, event)))
        return false;
    return event->kind == EVENT_FLUSH || !filter->pattern.data ||
           glob_match(filter->pattern, event->key);
}

/* The ids of a batch's events. */
struct event_id {
    uint64_t log_id, index;
    char text[64];
    size_t base; /* bytes before the number of the event; 0: not written yet */
};

static struct bytes id_of(struct event_id *id, uint64_t number)
{
    if (!id->base)
        id->base = (size_t)snprintf(id->text, sizeof id->text, "%016" PRIx64 ".%" PRIu64 ".",
                                    id->log_id, id->index);
    size_t len = number_format_int64(id->text + id->base, (int64_t)number);
    return (struct bytes){id->text, id->base + len};
}

static void write_event_slots(const struct event *event, struct reply *reply)
{
    char slots[16];
    (void)snprintf(slots, sizeof slots, "%u-%u", event->first_slot, event->last_slot);
    reply_bulk_text(reply, slots);
}

static void write_event(const struct event *event, int database, struct bytes id, struct out *out)
{
    struct reply reply = {.out = out, .resp = 2};
    bool has_slots = event->kind == EVENT_FLUSH;
    reply_array(&reply, has_slots ? 5 : 4);
    reply_bulk(&reply, id);
    reply_int(&reply, database);
    reply_bulk_text(&reply, event_names[event->kind]);
    reply_bulk(&reply, event->key);
    if (has_slots)
        write_event_slots(event, &reply);
}

static bool page_is_full(const struct feed_page *page)
{
    return page->count >= page->count_max || page->events.bytes >= page->bytes_max;
}

/* Adds the events from *number on. False: the page was full before the last of them. */
static bool pass_events(const struct feed_events *list, uint64_t log_id, uint64_t index,
                        const struct feed_filter *filter, uint64_t *number, struct feed_page *page)
{
    struct event_id id = {.log_id = log_id, .index = index};
    int database;
    for (; *number < list->count; ++*number) {
        const struct event *event = &list->items[*number];
        if (!passes_filter(filter, event, &database))
            continue;
        if (page_is_full(page))
            return false;
        write_event(event, database, id_of(&id, *number), &page->events);
        page->count++;
    }
    *number = 0;
    return true;
}

/* Must the logs of other shards be read before this batch? */
static bool is_early(const struct feed_page *page, const struct feed_events *list)
{
    return list->takes_slots && page->past_us != FEED_PAST_ALL && page->time_us > page->past_us + 1;
}

enum feed_read feed_batch_read(struct bytes record, uint64_t log_id,
                               const struct feed_filter *filter, uint64_t *number,
                               struct feed_page *page)
{
    struct feed_events *list = page->memory;
    struct effects_header header;
    begin_events(list);
    if (!collect_events(record, &header, list))
        return FEED_UNREADABLE;
    page->time_us = header.hybrid;
    page->origin_ms = header.origin_ms;
    if (is_early(page, list))
        return FEED_EARLY;
    return pass_events(list, log_id, header.index, filter, number, page) ? FEED_WHOLE : FEED_FULL;
}
