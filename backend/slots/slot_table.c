#include "backend/slots/slot_table.h"

#include "backend/context/partition.h"
#include "backend/session/internal_call.h"
#include "backend/session/ticket_wait.h"
#include "backend/slots/slot_history.h"
#include "shared/log.h"

#include <stdlib.h>
#include <string.h>

struct slot_table {
    struct partition *partition;
    uint8_t states[SLOT_COUNT]; /* enum slot_state, beside the records: read by every command */
    struct slot_record *records[SLOT_PAGES]; /* [SLOT_PAGE_SLOTS] each; NULL: all NONE */
    uint32_t counts[SLOT_STATES];
    struct slot_sum owned;
    struct slot_sum written; /* likewise after all changes that are under way */
    struct slot_history history;
    struct list changes; /* not durable, oldest first */
};

/* A change that is not durable. */
struct slot_change {
    struct list link; /* in table->changes */
    struct ticket_wait wait;
    struct slot_table *table;
    uint16_t first, last;
    struct slot_record record;
    slot_changed_fn *on_end;
    void *owner;
};

/* ---- the table ---- */

static const struct slot_record no_record;

uint8_t slot_table_state(const struct slot_table *table, uint16_t slot)
{
    return table->states[slot];
}

const struct slot_record *slot_table_get(const struct slot_table *table, uint16_t slot)
{
    const struct slot_record *records = table->records[slot / SLOT_PAGE_SLOTS];
    return records ? &records[slot % SLOT_PAGE_SLOTS] : &no_record;
}

uint32_t slot_table_count(const struct slot_table *table, enum slot_state state)
{
    return table->counts[state];
}

struct slot_sum slot_table_sum(const struct slot_table *table)
{
    return table->owned;
}

/* The numbers are compared with those of other processes, and of later versions. */
static uint64_t hash_slot(unsigned slot, uint64_t epoch)
{
    uint64_t hash = epoch * SLOT_COUNT + slot + 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
    return hash ^ hash >> 31;
}

static bool counts_as_owned(uint8_t state)
{
    return state == SLOT_OWNED || state == SLOT_EXPORTING || state == SLOT_FROZEN;
}

bool slot_table_owns(const struct slot_table *table, uint16_t slot)
{
    return counts_as_owned(table->states[slot]);
}

/* A slot that is owned gets another record, or gets one. */
static void add_to_owned(struct slot_sum *owned, uint16_t slot, const struct slot_record *before,
                         const struct slot_record *after)
{
    if (counts_as_owned(before->state)) {
        owned->count--;
        owned->sum -= hash_slot(slot, before->epoch);
    }
    if (counts_as_owned(after->state)) {
        owned->count++;
        owned->sum += hash_slot(slot, after->epoch);
    }
    owned->changes++;
}

static void set_record(struct slot_table *table, uint16_t slot, const struct slot_record *record)
{
    struct slot_record **records = &table->records[slot / SLOT_PAGE_SLOTS];
    if (!*records)
        *records = calloc(SLOT_PAGE_SLOTS, sizeof **records);
    CHECK(*records);
    add_to_owned(&table->owned, slot, &(*records)[slot % SLOT_PAGE_SLOTS], record);
    (*records)[slot % SLOT_PAGE_SLOTS] = *record;
    table->counts[table->states[slot]]--;
    table->counts[record->state]++;
    table->states[slot] = record->state;
}

static void clear_records(struct slot_table *table)
{
    for (unsigned page = 0; page < SLOT_PAGES; page++) {
        free(table->records[page]);
        table->records[page] = NULL;
    }
    memset(table->states, SLOT_NONE, sizeof table->states);
    memset(table->counts, 0, sizeof table->counts);
    table->owned = (struct slot_sum){.changes = table->owned.changes + 1};
    table->counts[SLOT_NONE] = SLOT_COUNT;
}

struct slot_table *slot_table_new(struct partition *partition)
{
    struct slot_table *table = calloc(1, sizeof *table);
    CHECK(table);
    table->partition = partition;
    list_init(&table->changes);
    clear_records(table);
    return table;
}

void slot_table_free(struct slot_table *table)
{
    struct list *link;
    if (!table)
        return;
    while ((link = list_pop(&table->changes))) {
        struct slot_change *change = container_of(link, struct slot_change, link);
        ticket_wait_cancel(&change->wait);
        free(change);
    }
    clear_records(table);
    free(table);
}

/* ---- reading the rows ---- */

static bool load_page(struct slot_table *table, struct bytes row, struct bytes value)
{
    struct slot_record records[SLOT_PAGE_SLOTS];
    unsigned page;
    if (!decode_slot_page_key(row, &page) || !decode_slot_page(value, records))
        return false;
    for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++)
        set_record(table, (uint16_t)(page * SLOT_PAGE_SLOTS + i), &records[i]);
    return true;
}

bool slot_table_load(struct slot_table *table)
{
    clear_records(table);
    struct overlay_iter *iter =
        overlay_iter_new(table->partition->overlay, CF_SYSTEM, slot_pages_from(), slot_pages_to());
    bool is_good = true;
    for (overlay_iter_seek_first(iter); is_good && overlay_iter_valid(iter);
         overlay_iter_next(iter))
        is_good = load_page(table, overlay_iter_key(iter), overlay_iter_value(iter));
    is_good = is_good && overlay_iter_error(iter) == OK;
    overlay_iter_free(iter);
    table->written = table->owned;
    bool has_records = table->counts[SLOT_NONE] < SLOT_COUNT;
    is_good = is_good && slot_history_load(&table->history, table->partition, has_records);
    if (!is_good)
        log_event(LOG_ERROR, "slot_records_unreadable", "partition=%u", table->partition->index);
    return is_good;
}

/* ---- changes ---- */

static bool covers_slot(const struct slot_change *change, uint16_t slot)
{
    return change->first <= slot && slot <= change->last;
}

/* The slot's record after all changes that are under way. */
static const struct slot_record *newest_record(const struct slot_table *table, uint16_t slot)
{
    for (struct list *at = table->changes.prev; at != &table->changes; at = at->prev) {
        const struct slot_change *change = container_of(at, struct slot_change, link);
        if (covers_slot(change, slot))
            return &change->record;
    }
    return slot_table_get(table, slot);
}

/* Writes the row of a page with all changes that are under way. */
static void put_page(struct slot_table *table, unsigned page)
{
    struct overlay *overlay = table->partition->overlay;
    struct arena *arena = &table->partition->running.arena;
    struct slot_record records[SLOT_PAGE_SLOTS];
    for (unsigned i = 0; i < SLOT_PAGE_SLOTS; i++)
        records[i] = *newest_record(table, (uint16_t)(page * SLOT_PAGE_SLOTS + i));
    struct bytes key = encode_slot_page_key(arena, page);
    struct bytes value = encode_slot_page(arena, records);
    if (value.len)
        overlay_put(overlay, CF_SYSTEM, key, value);
    else
        overlay_delete(overlay, CF_SYSTEM, key);
}

/* ticket_wait.on_end */
static void change_ended(struct ticket_wait *wait, int err)
{
    struct slot_change *change = container_of(wait, struct slot_change, wait);
    list_remove(&change->link);
    for (unsigned slot = change->first; err == OK && slot <= change->last; slot++)
        set_record(change->table, (uint16_t)slot, &change->record);
    if (change->on_end)
        change->on_end(change->owner, err);
    free(change);
}

static struct slot_change *change_new(struct slot_table *table, uint16_t first, uint16_t last,
                                      const struct slot_record *record)
{
    struct slot_change *change = calloc(1, sizeof *change);
    CHECK(change);
    ticket_wait_init(&change->wait, change_ended);
    change->table = table;
    change->first = first;
    change->last = last;
    change->record = *record;
    list_push(&table->changes, &change->link);
    return change;
}

/* ---- from which shards slots have come ---- */

/* Would the change of a record change the owner of the slot? */
static bool changes_owner(const struct slot_record *before, const struct slot_record *after)
{
    bool was_owned = counts_as_owned(before->state), is_owned = counts_as_owned(after->state);
    return was_owned != is_owned || (is_owned && before->epoch != after->epoch);
}

/* Notes the change before it is under way. False: owners stay as they are. */
static bool note_owners(struct slot_table *table, unsigned first, unsigned last,
                        const struct slot_record *record)
{
    bool is_noted = false;
    for (unsigned slot = first; slot <= last; slot++) {
        const struct slot_record *before = newest_record(table, (uint16_t)slot);
        if (!changes_owner(before, record))
            continue;
        if (!is_noted)
            slot_history_begin(&table->history, table->partition, table->written.sum);
        if (!counts_as_owned(before->state))
            slot_history_note(&table->history, table->partition, before, record);
        add_to_owned(&table->written, (uint16_t)slot, before, record);
        is_noted = true;
    }
    return is_noted;
}

const struct slot_origins *slot_table_origins(const struct slot_table *table)
{
    return slot_history_holds(&table->history, table->partition, table->written.sum)
               ? &table->history.origins
               : NULL;
}

void slot_table_come_from(struct slot_table *table, uint64_t log_id)
{
    table->history.source_log = log_id;
}

void slot_table_keep_origins(struct slot_table *table)
{
    struct partition *partition = table->partition;
    struct call call;
    bool has_log = partition->batch.log_id != 0; /* else changes cannot be read here */
    if (!has_log || slot_table_origins(table) || commit_is_failed(partition->commit, NULL))
        return;
    internal_call_begin(partition, &call);
    slot_history_begin(&table->history, partition, table->written.sum);
    slot_history_put(&table->history, partition, table->written.sum);
    internal_call_end(partition, &call);
}

/* ---- a change ---- */

bool slot_table_change(struct slot_table *table, uint16_t first, uint16_t last,
                       const struct slot_record *record, slot_changed_fn *on_end, void *owner)
{
    struct partition *partition = table->partition;
    struct call call;
    CHECK(first <= last && last < SLOT_COUNT);
    if (commit_is_failed(partition->commit, NULL))
        return false;
    for (unsigned slot = first; slot <= last; slot++)
        if (record->epoch < newest_record(table, (uint16_t)slot)->epoch)
            return false;
    bool has_owners = note_owners(table, first, last, record);
    table->history.source_log = 0;
    struct slot_change *change = change_new(table, first, last, record);
    change->on_end = on_end;
    change->owner = owner;
    internal_call_begin(partition, &call);
    overlay_observe_begin(partition->overlay);
    for (unsigned page = first / SLOT_PAGE_SLOTS; page <= last / SLOT_PAGE_SLOTS; page++)
        put_page(table, page);
    /* records without the row are those of an older program */
    if (has_owners || table->history.is_new)
        slot_history_put(&table->history, partition, table->written.sum);
    internal_call_end(partition, &call);
    commit_sync_next(partition->commit);
    ticket_wait_begin(partition, &change->wait);
    return true;
}
