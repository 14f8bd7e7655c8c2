#include "backend/slots/stray_moves.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/slots/key_parts.h"
#include "backend/slots/move_rate.h"
#include "backend/slots/slot_table.h"
#include "backend/slots/stray_pages.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STEP_MS = 2,
    RETRY_MS = 200,
    PAGE_BYTES = 256 * 1024,
    READS_MAX = 2 * STRAY_PAGE_KEYS, /* in a step: a key takes two */
    PASSES_MAX = 20,
    BEGINS_MAX = 100, /* of a long key in a pass */
    NAMED_MAX = 100,
    NAMED_BYTES = 128,
    REASON_BYTES = 256,
};

/* Where the search for strays is. */
struct stray_scan {
    unsigned slot;
    size_t cursor; /* of space_next */
    struct space *space;
    struct range_rows keys; /* metadata rows of the slot in the namespace */
};

struct stray_figures {
    uint64_t keys;    /* strays that were found in this pass */
    uint64_t moved;   /* CHECK: that would be moved */
    uint64_t present; /* left here because the owner has a key with this name */
    uint64_t kept;    /* deleted here because the owner has a key with this name */
    uint64_t expired;
    uint64_t damaged;
    uint64_t later; /* could not be moved in this pass */
    uint64_t bytes; /* sent */
};

struct stray_moves {
    struct partition *partition;
    struct timer *timer;
    enum stray_wish wish;
    bool is_running;
    const char *state; /* idle, checking, moving, done, failed, stopped */
    uint32_t pass;
    struct stray_scan scan;
    struct key_reader key;
    struct key_parts parts; /* of the key, if it is long */
    char parts_owner[SHARD_NAME_MAX + 1];
    struct peer_request part; /* outstanding if is_part_sent */
    bool is_part_sent;
    struct stray_pages *pages;
    bool is_end;       /* no further stray is found in this pass */
    int64_t allowance; /* bytes that may be sent now */
    uint64_t filled_ms;
    uint64_t retry_ms; /* monotonic: when the next part may be sent, or the next pass begins */
    struct stray_figures figures;
    char *named[NAMED_MAX]; /* lines about keys that stay, or that would be overwritten; heap */
    uint32_t named_count;
    char reason[REASON_BYTES];
};

static void step_strays(void *owner);

static uint64_t strays_now_ms(const struct stray_moves *strays)
{
    return loop_mono_ms(strays->partition->loop);
}

/* ---- life ---- */

static void forget_named(struct stray_moves *strays)
{
    for (uint32_t i = 0; i < strays->named_count; i++)
        free(strays->named[i]);
    strays->named_count = 0;
}

struct stray_moves *stray_moves_new(struct partition *partition)
{
    struct stray_moves *strays = calloc(1, sizeof *strays);
    CHECK(strays);
    strays->partition = partition;
    strays->state = "idle";
    strays->timer = timer_new(partition->loop, step_strays, strays);
    return strays;
}

/* The link to an owner; NULL: there is none. */
static struct peer_link *link_to(const struct stray_moves *strays, const char *owner)
{
    struct peer_set *peers = strays->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(owner)) : NULL;
}

static void cancel_stray_request(const struct stray_moves *strays, const char *owner,
                                 struct peer_request *request)
{
    struct peer_link *link = link_to(strays, owner);
    if (link)
        peer_link_cancel(link, request);
}

/* Cancels what is outstanding. */
static void cancel_requests(struct stray_moves *strays)
{
    for (unsigned i = 0; i < STRAY_PAGES; i++) {
        struct stray_page *page = &strays->pages->page[i];
        if (page->state == STRAY_PAGE_SENT)
            cancel_stray_request(strays, page->owner, &page->request);
    }
    if (strays->is_part_sent)
        cancel_stray_request(strays, strays->parts_owner, &strays->part);
    strays->is_part_sent = false;
}

/* Ends the check or move of strays, if one runs, with this state and reason. */
static void end_strays(struct stray_moves *strays, const char *state, const char *reason)
{
    if (!strays->is_running)
        return;
    cancel_requests(strays);
    strays->is_running = false;
    range_rows_fini(&strays->scan.keys);
    key_reader_fini(&strays->key);
    key_parts_clear(&strays->parts);
    stray_pages_free(strays->pages);
    strays->pages = NULL;
    strays->state = state;
    (void)snprintf(strays->reason, sizeof strays->reason, "%s", reason);
    timer_stop(strays->timer);
    const struct stray_figures *figures = &strays->figures;
    log_event(LOG_INFO, "strays_ended",
              "partition=%u state=%s moved=%" PRIu64 " present=%" PRIu64 " kept=%" PRIu64
              " later=%" PRIu64 " reason=" LOG_QUOTED,
              strays->partition->index, state, figures->moved, figures->present, figures->kept,
              figures->later, reason);
}

void stray_moves_free(struct stray_moves *strays)
{
    if (!strays)
        return;
    end_strays(strays, "stopped", "the server stops");
    timer_free(strays->timer);
    forget_named(strays);
    free(strays);
}

void stray_moves_load(struct stray_moves *strays)
{
    end_strays(strays, "failed", "a batch could not be written: give the command again");
}

void stray_moves_stop(struct stray_moves *strays, const char *reason)
{
    end_strays(strays, "stopped", reason);
}

/* ---- which keys are strays ---- */

bool stray_moves_is_slot(const struct partition *partition, uint16_t slot)
{
    const struct slot_record *record = slot_table_get(partition->shards.slots, slot);
    bool is_moving = record->state == SLOT_IMPORTING || record->state == SLOT_STAGED ||
                     (record->state == SLOT_RELEASED && record->migration);
    return partition->shards.is_gated && !slot_is_served(partition, slot) && !is_moving;
}

/* The other shard that owns the slot; NULL: not known. */
static const char *owner_of_stray(const struct stray_moves *strays, uint16_t slot)
{
    const struct partition *partition = strays->partition;
    const char *owner = partition->shards.slot_owner(partition, slot);
    return owner && strcmp(owner, peer_set_shard(partition->shards.peers)) != 0 ? owner : NULL;
}

/* Opens the next slot of a namespace that has strays. False: there is none. */
static bool open_next_slot(struct stray_moves *strays)
{
    struct stray_scan *scan = &strays->scan;
    struct partition *partition = strays->partition;
    for (; scan->slot < SLOT_COUNT; scan->slot++, scan->cursor = 0) {
        if (!stray_moves_is_slot(partition, (uint16_t)scan->slot))
            continue;
        while ((scan->space = space_next(partition->spaces, &scan->cursor))) {
            if (!space_slot_keys(partition->spaces, scan->space, (uint16_t)scan->slot))
                continue;
            struct arena arena;
            arena_init(&arena);
            struct bytes from = encode_slot_prefix(&arena, scan->space->name, (uint16_t)scan->slot);
            range_rows_open(&scan->keys, CF_METADATA, from, encode_prefix_end(&arena, from));
            arena_fini(&arena);
            return true;
        }
    }
    return false;
}

/* The metadata row of the next stray. */
static enum rows_step next_stray(struct stray_moves *strays, struct bytes *key, struct bytes *value)
{
    struct stray_scan *scan = &strays->scan;
    for (;;) {
        if (!range_rows_is_open(&scan->keys) && !open_next_slot(strays))
            return ROWS_END;
        enum rows_step step = range_rows_next(&scan->keys, key, value);
        if (step != ROWS_END)
            return step;
        range_rows_close(&scan->keys);
    }
}

/* ---- names of keys ---- */

/* Adds a line about a key. */
static void name_key(struct stray_moves *strays, const char *what, struct space *space,
                     uint16_t slot, struct bytes key)
{
    char text[4 * NAMED_BYTES + 1];
    size_t at = 0;
    struct bytes name;
    uint8_t database;
    if (strays->named_count == NAMED_MAX)
        return;
    for (size_t i = 0; i < key.len && i < NAMED_BYTES; i++) {
        unsigned char c = (unsigned char)key.data[i];
        bool is_plain = c > 32 && c < 127 && c != '\\';
        at += (size_t)snprintf(text + at, sizeof text - at, is_plain ? "%c" : "\\x%02x", c);
    }
    text[at] = 0;
    space_place(strays->partition->spaces, space, &name, &database);
    CHECK(asprintf(&strays->named[strays->named_count++],
                   "%s slot=%u namespace=%.*s db=%u key=%s%s", what, slot, (int)name.len,
                   name.len ? name.data : "", database, text,
                   key.len > NAMED_BYTES ? "..." : "") > 0);
}

/* ---- deleting ---- */

/* Deletes a stray, or lets it expire. */
static void delete_stray(struct stray_moves *strays, struct space *space, uint16_t slot,
                         struct bytes key, bool is_expired)
{
    struct partition *partition = strays->partition;
    struct call call;
    struct entry entry;
    if (!stray_moves_is_slot(partition, slot))
        return;
    internal_call_begin(partition, &call);
    if (keyspace_open_row(&call, space, slot, key, &entry) && entry.exists && !is_expired)
        entry_delete(&call, &entry);
    internal_call_end(partition, &call);
}

/* ---- pages ---- */

/* Bytes of keys that are sent together, and of a part of a longer key: peer-output-limit may be small. */
static size_t page_max(const struct stray_moves *strays)
{
    size_t limit = strays->partition->snapshot->config.peer_output_limit_bytes / 4;
    return limit < PAGE_BYTES ? limit : PAGE_BYTES;
}

static bool is_look(const struct stray_moves *strays)
{
    return strays->wish == STRAYS_CHECK;
}

static enum put_mode put_mode_of(const struct stray_moves *strays)
{
    return is_look(strays) ? PUT_LOOK : strays->wish == STRAYS_REPLACE ? PUT_REPLACE : PUT_NEW;
}

/* Begins to send the key in parts, or begins again. */
static void begin_parts(struct stray_moves *strays)
{
    struct partition *partition = strays->partition;
    key_parts_begin(&strays->parts, &strays->key,
                    partition_version(partition, loop_wall_us(partition->loop)));
}

/* The page that has room for `bytes` more; NULL: all pages are used, so the key waits. */
static struct stray_page *page_with_room(struct stray_moves *strays, const char *owner,
                                         size_t bytes)
{
    struct stray_page *page = stray_pages_for(strays->pages, owner);
    if (!page || !page->count || page->payload.bytes + bytes <= page_max(strays))
        return page;
    page->state = STRAY_PAGE_CLOSED;
    return stray_pages_for(strays->pages, owner);
}

/* Moves what was read of a key into a page. */
static void add_to_page(struct stray_moves *strays, struct stray_page *page)
{
    struct key_reader *reader = &strays->key;
    struct put_key put = {.slot = reader->slot, .key = reader->key};
    if (!page->count)
        message_put_u8(&page->payload, (uint8_t)put_mode_of(strays));
    space_place(strays->partition->spaces, reader->space, &put.space, &put.database);
    put.metadata = is_look(strays) ? BYTES("") : reader->metadata;
    put_key_write(&page->payload, &put, &reader->read);
    stray_page_add(page, reader->space, reader->slot, reader->key);
    key_reader_close(reader);
}

/* The owner of the key's slot is not known. */
static void skip_key(struct stray_moves *strays)
{
    strays->figures.later++;
    (void)snprintf(strays->reason, sizeof strays->reason, "the owner of slot %u is not known",
                   strays->key.slot);
    key_reader_close(&strays->key);
}

/* Adds the key to a page of its owner. A key of which not all rows were read, or that is too long for a page, is sent alone, in parts.
 * False: the key waits for a page. */
static bool add_key(struct stray_moves *strays, bool is_whole)
{
    const struct key_reader *reader = &strays->key;
    const char *owner = owner_of_stray(strays, reader->slot);
    size_t bytes = reader->read.bytes + reader->metadata.len;
    if (!owner) {
        skip_key(strays);
        return true;
    }
    if (!is_whole || (!is_look(strays) && bytes > page_max(strays))) {
        (void)snprintf(strays->parts_owner, sizeof strays->parts_owner, "%s", owner);
        strays->parts.begins = 0;
        begin_parts(strays);
        return true;
    }
    struct stray_page *page = page_with_room(strays, owner, bytes);
    if (page)
        add_to_page(strays, page);
    return page;
}

/* Begins to read a stray of which the metadata row was found. */
static void open_stray(struct stray_moves *strays, struct bytes row_key, struct bytes value)
{
    struct key_reader *reader = &strays->key;
    uint64_t now_ms = loop_wall_ms(strays->partition->loop);
    strays->figures.keys++;
    if (!key_reader_open(reader, strays->scan.space, row_key, value)) {
        strays->figures.damaged++;
        return;
    }
    if (reader->meta.expire_ms && reader->meta.expire_ms < now_ms) {
        strays->figures.expired++;
        if (!is_look(strays))
            delete_stray(strays, reader->space, reader->slot, reader->key, true);
        key_reader_close(reader);
    } else if (is_look(strays)) {
        reader->is_whole = true;
    }
}

/* Finds the next stray. False: rows are being read, or there is none. */
static bool find_stray(struct stray_moves *strays)
{
    struct bytes key;
    struct bytes value;
    enum rows_step step = next_stray(strays, &key, &value);
    strays->is_end = step == ROWS_END;
    if (step == ROWS_FAILED)
        end_strays(strays, "failed", "the store cannot be read");
    if (step == ROWS_ROW)
        open_stray(strays, key, value);
    return step == ROWS_ROW;
}

/* Reads on. False: rows are being read, the key waits for a page or is to be sent in parts, or nothing is left. */
static bool read_strays(struct stray_moves *strays)
{
    struct key_reader *reader = &strays->key;
    if (!reader->space)
        return find_stray(strays);
    enum rows_step step = key_reader_step(reader, page_max(strays));
    if (step == ROWS_FAILED)
        end_strays(strays, "failed", "the store cannot be read");
    return (step == ROWS_ROW || step == ROWS_END) && add_key(strays, step == ROWS_END) &&
           !strays->parts.id;
}

/* ---- requests ---- */

static uint64_t stray_retry_at(struct stray_moves *strays, struct bytes reason)
{
    (void)snprintf(strays->reason, sizeof strays->reason, "%.*s", (int)reason.len,
                   reason.len ? reason.data : "");
    return strays_now_ms(strays) + RETRY_MS;
}

/* The owner's reply about one key. */
static void key_was_put(struct stray_moves *strays, const char *owner, const struct sent_key *sent,
                        enum put_result result)
{
    struct stray_figures *figures = &strays->figures;
    struct bytes key = {sent->key, sent->len};
    bool deletes = result == PUT_DONE || (result == PUT_EXISTS && strays->wish == STRAYS_KEEP);
    figures->moved += result == PUT_DONE || result == PUT_ABSENT;
    figures->kept += result == PUT_EXISTS && deletes;
    figures->present += result == PUT_EXISTS && !deletes;
    figures->later += result == PUT_LATER;
    if (deletes)
        delete_stray(strays, sent->space, sent->slot, key, false);
    else if (result == PUT_EXISTS)
        name_key(strays, "present", sent->space, sent->slot, key);
    else if (result == PUT_LATER)
        (void)snprintf(strays->reason, sizeof strays->reason,
                       "shard '%s' does not take keys of slot %u now", owner, sent->slot);
}

/* peer_request.on_reply */
static void page_was_put(struct peer_request *request, enum peer_result result,
                         struct bytes payload)
{
    struct stray_page *page = container_of(request, struct stray_page, request);
    struct stray_moves *strays = page->moves;
    page->state = STRAY_PAGE_CLOSED;
    if (strays->partition->running.busy_error)
        return; /* the page is sent again after the slow script */
    if (result != PEER_OK || payload.len != page->count) {
        page->retry_ms = stray_retry_at(strays, result == PEER_REFUSED
                                                    ? refusal_shown(request->refusal, payload)
                                                    : BYTES("the connection to the owner broke"));
        return;
    }
    if (!strays->figures.later)
        strays->reason[0] = 0;
    strays->figures.bytes += page->payload.bytes;
    for (uint32_t i = 0; i < page->count; i++)
        key_was_put(strays, page->owner, &page->keys[i], (enum put_result)payload.data[i]);
    stray_page_clear(page);
    step_strays(strays);
}

/* Sends a request to the owner. False: it is not connected. */
static bool send_to_owner(struct stray_moves *strays, const char *owner,
                          struct peer_request *request, enum peer_kind kind, const struct out *out)
{
    struct peer_link *link = link_to(strays, owner);
    char *payload = malloc(out->bytes + 1);
    CHECK(payload);
    out_copy(out, payload);
    bool is_sent = link && peer_link_send(link, request, (uint8_t)kind,
                                          (struct bytes){payload, out->bytes}) == PEER_SENT;
    free(payload);
    if (is_sent)
        strays->allowance -= (int64_t)out->bytes;
    return is_sent;
}

static void send_stray_page(struct stray_moves *strays, struct stray_page *page)
{
    page->request = (struct peer_request){.on_reply = page_was_put};
    if (send_to_owner(strays, page->owner, &page->request, PEER_KEYS_PUT, &page->payload))
        page->state = STRAY_PAGE_SENT;
    else
        page->retry_ms = stray_retry_at(strays, BYTES("the owner is not connected"));
}

/* Sends closed pages, while the rate and the bytes that may be unsent between backends allow. */
static void send_pages(struct stray_moves *strays)
{
    size_t most = strays->partition->snapshot->config.peer_output_limit_bytes / 2;
    size_t sent = stray_pages_sent_bytes(strays->pages);
    for (unsigned i = 0; i < STRAY_PAGES && strays->allowance > 0; i++) {
        struct stray_page *page = &strays->pages->page[i];
        if (page->state != STRAY_PAGE_CLOSED || strays_now_ms(strays) < page->retry_ms ||
            (sent && sent + page->payload.bytes > most))
            continue;
        send_stray_page(strays, page);
        sent += page->payload.bytes;
    }
}

/* ---- keys in parts ---- */

/* The owner has dropped the parts that it had. */
static void parts_were_dropped(struct stray_moves *strays, struct bytes reason)
{
    strays->retry_ms = stray_retry_at(strays, reason);
    begin_parts(strays);
}

/* The transfer of the key has ended with this result. */
static void parts_have_ended(struct stray_moves *strays, enum put_result result)
{
    struct key_reader *reader = &strays->key;
    const struct sent_key sent = {.space = reader->space,
                                  .slot = reader->slot,
                                  .key = (char *)reader->key.data,
                                  .len = reader->key.len};
    key_was_put(strays, strays->parts_owner, &sent, result);
    key_parts_clear(&strays->parts);
    key_reader_close(reader);
}

/* peer_request.on_reply */
static void part_was_put(struct peer_request *request, enum peer_result result,
                         struct bytes payload)
{
    struct stray_moves *strays = container_of(request, struct stray_moves, part);
    struct key_parts *parts = &strays->parts;
    bool was_last = parts->has_metadata && !strays->key.read.bytes;
    enum put_result put = payload.len == 1 ? (enum put_result)payload.data[0] : PUT_AGAIN;
    strays->is_part_sent = false;
    if (strays->partition->running.busy_error)
        return; /* the part is sent again after the slow script */
    if (result == PEER_REFUSED) {
        strays->retry_ms = stray_retry_at(strays, refusal_shown(request->refusal, payload));
        return;
    }
    if (result == PEER_LOST || put == PUT_AGAIN || (put == PUT_MORE && was_last)) {
        if (parts->begins == BEGINS_MAX)
            parts_have_ended(strays, PUT_LATER);
        else
            parts_were_dropped(strays, BYTES("a long key is sent again from its beginning"));
        return;
    }
    strays->reason[0] = 0;
    strays->figures.bytes += parts->part.bytes;
    if (put == PUT_MORE)
        key_parts_next(parts);
    else
        parts_have_ended(strays, put);
}

static void send_next_part(struct stray_moves *strays)
{
    struct key_reader *reader = &strays->key;
    struct put_key put = {.slot = reader->slot, .key = reader->key};
    struct out out;
    enum rows_step step = key_parts_fill(&strays->parts, reader, page_max(strays));
    if (step == ROWS_FAILED)
        end_strays(strays, "failed", "the store cannot be read");
    if (step == ROWS_FAILED || step == ROWS_WAIT)
        return;
    space_place(strays->partition->spaces, reader->space, &put.space, &put.database);
    out_init(&out);
    key_parts_write(&strays->parts, put_mode_of(strays), &put, &out);
    strays->part = (struct peer_request){.on_reply = part_was_put};
    strays->is_part_sent =
        send_to_owner(strays, strays->parts_owner, &strays->part, PEER_KEY_PART, &out);
    if (!strays->is_part_sent)
        strays->retry_ms = stray_retry_at(strays, BYTES("the owner is not connected"));
    out_clear(&out);
}

/* ---- steps ---- */

static void begin_pass(struct stray_moves *strays)
{
    struct stray_figures *figures = &strays->figures;
    figures->keys = figures->present = figures->damaged = figures->later = 0;
    if (is_look(strays))
        figures->moved = figures->expired = 0;
    forget_named(strays);
    strays->scan.slot = 0;
    strays->scan.cursor = 0;
    strays->is_end = false;
    strays->pass++;
}

/* All strays were looked at. */
static void end_pass(struct stray_moves *strays)
{
    char reason[REASON_BYTES];
    const struct stray_figures *figures = &strays->figures;
    bool is_good = !figures->later && !figures->damaged;
    if (figures->later && strays->pass < PASSES_MAX) {
        begin_pass(strays);
        strays->retry_ms = strays_now_ms(strays) + RETRY_MS;
        return;
    }
    (void)snprintf(reason, sizeof reason, "%s", strays->reason);
    if (is_good || is_look(strays))
        end_strays(strays, "done", "");
    else
        end_strays(strays, "failed", figures->later ? reason : "some keys are damaged");
}

static void fill_stray_allowance(struct stray_moves *strays)
{
    int64_t rate = (int64_t)strays->partition->snapshot->config.migration_rate_bytes;
    int64_t bytes = move_rate_bytes(rate, strays_now_ms(strays), &strays->filled_ms);
    if (!rate || is_look(strays))
        strays->allowance = INT64_MAX;
    else if (strays->allowance <= 0)
        strays->allowance += bytes;
}

/* May strays be read, deleted and sent now? */
static bool may_step(const struct stray_moves *strays)
{
    const struct partition *partition = strays->partition;
    return strays->is_running && !partition->running.busy_error && !partition->thread.is_stopping &&
           !partition->pause.is_held && !partition_is_full(partition) &&
           !commit_is_failed(partition->commit, NULL) && strays->allowance > 0 &&
           strays_now_ms(strays) >= strays->retry_ms;
}

/* Reads strays into pages, or sends the next part of a long one. */
static void read_into_pages(struct stray_moves *strays)
{
    for (unsigned i = 0; i < READS_MAX && !strays->parts.id && !strays->is_end; i++)
        if (!read_strays(strays))
            break;
    if (strays->is_running && strays->parts.id && !strays->is_part_sent)
        send_next_part(strays);
}

/* Timer; also called when rows have been read, and when an owner has taken a page. */
static void step_strays(void *owner)
{
    struct stray_moves *strays = owner;
    fill_stray_allowance(strays);
    if (!may_step(strays))
        return;
    read_into_pages(strays);
    if (!strays->is_running)
        return;
    if (strays->is_end)
        stray_pages_close(strays->pages);
    send_pages(strays);
    if (strays->is_end && stray_pages_are_empty(strays->pages))
        end_pass(strays);
}

const char *stray_moves_begin(struct stray_moves *strays, enum stray_wish wish)
{
    struct partition *partition = strays->partition;
    if (!partition->shards.is_gated)
        return "ERR strays are moved by backends that have a shard map: set [backend] shards";
    if (strays->is_running)
        return "ERR strays are being moved or checked already: see SCREE STRAYS STATUS";
    strays->wish = wish;
    strays->state = wish == STRAYS_CHECK ? "checking" : "moving";
    strays->is_running = true;
    strays->figures = (struct stray_figures){0};
    strays->pass = 0;
    strays->reason[0] = 0;
    strays->retry_ms = 0;
    strays->filled_ms = strays_now_ms(strays);
    strays->pages = stray_pages_new(strays);
    range_rows_init(&strays->scan.keys, partition, step_strays, strays);
    key_reader_init(&strays->key, partition, step_strays, strays);
    key_parts_init(&strays->parts);
    begin_pass(strays);
    timer_start(strays->timer, STEP_MS, STEP_MS);
    log_event(LOG_INFO, "strays_begun", "partition=%u state=%s", partition->index, strays->state);
    return NULL;
}

/* ---- figures ---- */

uint32_t stray_moves_list(const struct stray_moves *strays,
                          void (*on_line)(void *owner, const char *line), void *owner)
{
    char line[1024];
    const struct stray_figures *figures = &strays->figures;
    (void)snprintf(line, sizeof line,
                   "partition=%u shard=%s state=%s keys=%" PRIu64 " %s=%" PRIu64 " present=%" PRIu64
                   " kept=%" PRIu64 " expired=%" PRIu64 " damaged=%" PRIu64 " later=%" PRIu64
                   " bytes=%" PRIu64 " reason=%s",
                   strays->partition->index, peer_set_shard(strays->partition->shards.peers),
                   strays->state, figures->keys, is_look(strays) ? "movable" : "moved",
                   figures->moved, figures->present, figures->kept, figures->expired,
                   figures->damaged, figures->later, figures->bytes, strays->reason);
    on_line(owner, line);
    for (uint32_t i = 0; i < strays->named_count; i++)
        on_line(owner, strays->named[i]);
    return 1 + strays->named_count;
}
