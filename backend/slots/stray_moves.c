#include "backend/slots/stray_moves.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/internal_call.h"
#include "backend/slots/key_message.h"
#include "backend/slots/key_parts.h"
#include "backend/slots/move_rate.h"
#include "backend/slots/slot_table.h"
#include "backend/slots/stray_names.h"
#include "backend/slots/stray_page.h"
#include "backend/slots/stray_scan.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_MS = 2,
    RETRY_MS = 200,
    PAGE_BYTES = 256 * 1024,
    READS_MAX = 2 * STRAY_PAGE_KEYS + 2, /* in a step: a key takes two */
    PASSES_MAX = 20,
    BEGINS_MAX = 100, /* of a long key in a pass */
    REASON_BYTES = 256,
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
    struct stray_page page;
    bool is_row_read;  /* that of a page that a transfer before has left */
    bool is_given_up;  /* the page, by STOP: its owner is not in the map */
    bool is_end;       /* no further stray is found in this pass */
    int64_t allowance; /* bytes that may be sent now */
    uint64_t filled_ms;
    uint64_t retry_ms; /* monotonic: when the page may be sent, or the next pass begins */
    struct stray_figures figures;
    struct stray_names names; /* of keys that stay, or that would be overwritten */
    char reason[REASON_BYTES];
};

static void step_strays(void *owner);
static void page_was_noted(struct ticket_wait *wait, int err);

static uint64_t strays_now_ms(const struct stray_moves *strays)
{
    return loop_mono_ms(strays->partition->loop);
}

/* ---- life ---- */

struct stray_moves *stray_moves_new(struct partition *partition)
{
    struct stray_moves *strays = calloc(1, sizeof *strays);
    CHECK(strays);
    strays->partition = partition;
    strays->state = "idle";
    strays->timer = timer_new(partition->loop, step_strays, strays);
    stray_page_init(&strays->page, page_was_noted);
    return strays;
}

/* The link to the page's owner; NULL: it is not in the map. */
static struct peer_link *link_to_owner(const struct stray_moves *strays)
{
    struct peer_set *peers = strays->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(strays->page.owner)) : NULL;
}

/* Nothing is awaited any more for the page. Its row stays, if it has one. */
static void drop_page(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    struct peer_link *link = link_to_owner(strays);
    if (page->state == STRAY_PAGE_SENT && link)
        peer_link_cancel(link, &page->request);
    if (page->state == STRAY_PAGE_NOTED)
        ticket_wait_cancel(&page->wait);
    stray_page_fini(page);
}

/* Ends the check or move of strays, if one runs, with this state and reason. */
static void end_strays(struct stray_moves *strays, const char *state, const char *reason)
{
    if (!strays->is_running)
        return;
    strays->is_running = false;
    drop_page(strays);
    stray_scan_fini(&strays->scan);
    key_reader_fini(&strays->key);
    key_parts_clear(&strays->parts);
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
    stray_names_clear(&strays->names);
    free(strays);
}

void stray_moves_load(struct stray_moves *strays)
{
    end_strays(strays, "failed",
               "a batch was lost, or another copy of the shard leads: give the command again");
}

void stray_moves_stop(struct stray_moves *strays, const char *reason)
{
    const struct stray_page *page = &strays->page;
    bool is_lost = strays->is_running && page->number && page->was_sent && !link_to_owner(strays);
    strays->is_given_up |= is_lost;
    if (!is_lost)
        end_strays(strays, "stopped", reason);
}

/* ---- keys ---- */

/* The other shard that owns the slot; NULL: not known. */
static const char *owner_of_stray(const struct stray_moves *strays, uint16_t slot)
{
    const struct partition *partition = strays->partition;
    const char *owner = partition->shards.slot_owner(partition, slot);
    return owner && strcmp(owner, peer_set_shard(partition->shards.peers)) != 0 ? owner : NULL;
}

/* ---- names of keys ---- */

/* ---- deleting ---- */

/* Deletes a stray, or lets it expire. False: it cannot be opened now. */
static bool delete_stray(struct stray_moves *strays, struct space *space, uint16_t slot,
                         struct bytes key, bool is_expired)
{
    struct partition *partition = strays->partition;
    struct call call;
    struct entry entry;
    if (!stray_is_slot(partition, slot))
        return true;
    internal_call_begin(partition, &call);
    bool is_open = keyspace_open_row(&call, space, slot, key, &entry);
    if (is_open && entry.exists && !is_expired)
        entry_delete(&call, &entry);
    bool has_failed = call.failed;
    internal_call_end(partition, &call);
    return is_open && !has_failed;
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

/* The page gets its number, with which its payload begins. */
static void number_page(struct stray_moves *strays)
{
    struct partition *partition = strays->partition;
    struct stray_page *page = &strays->page;
    if (!is_look(strays))
        page->number = partition_version(partition, loop_wall_us(partition->loop));
    put_head_write(&page->payload, page->number, put_mode_of(strays));
}

/* Begins to send the page's key in parts, or begins again. */
static void begin_parts(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    out_clear(&page->payload);
    number_page(strays);
    page->is_in_parts = true;
    page->is_asked = page->was_sent = false;
    page->state = STRAY_PAGE_CLOSED;
    key_parts_begin(&strays->parts, &strays->key, page->number);
}

/* Moves what was read of a key into the page. */
static void add_to_page(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    struct key_reader *reader = &strays->key;
    struct put_key put = {.slot = reader->slot, .key = reader->key};
    if (!page->count)
        number_page(strays);
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

/* Can this key of the owner not be added to the page? */
static bool is_stray_page_full(const struct stray_moves *strays, const char *owner, size_t bytes,
                               bool is_long)
{
    const struct stray_page *page = &strays->page;
    return page->count && (strcmp(page->owner, owner) != 0 || page->count == STRAY_PAGE_KEYS ||
                           page->payload.bytes + bytes > page_max(strays) || is_long);
}

/* Adds the key to the page, or closes the page because the key belongs into the next one. A key of which not all rows were read, or
 * that is too long for a page, is sent alone, in parts. */
static void add_key(struct stray_moves *strays, bool is_whole)
{
    const struct key_reader *reader = &strays->key;
    const char *owner = owner_of_stray(strays, reader->slot);
    size_t bytes = reader->read.bytes + reader->metadata.len;
    bool is_long = !is_whole || (!is_look(strays) && bytes > page_max(strays));
    if (!owner) {
        skip_key(strays);
        return;
    }
    if (is_stray_page_full(strays, owner, bytes, is_long)) {
        strays->page.state = STRAY_PAGE_CLOSED;
        return;
    }
    (void)snprintf(strays->page.owner, sizeof strays->page.owner, "%s", owner);
    if (!is_long) {
        add_to_page(strays);
        return;
    }
    stray_page_add(&strays->page, reader->space, reader->slot, reader->key);
    begin_parts(strays);
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
    enum rows_step step = stray_scan_next(&strays->scan, &key, &value);
    strays->is_end = step == ROWS_END;
    if (step == ROWS_FAILED)
        end_strays(strays, "failed", "the store cannot be read");
    if (step == ROWS_ROW)
        open_stray(strays, key, value);
    return step == ROWS_ROW;
}

/* Reads on. False: rows are being read, or nothing is left. */
static bool read_strays(struct stray_moves *strays)
{
    struct key_reader *reader = &strays->key;
    if (!reader->space)
        return find_stray(strays);
    enum rows_step step = key_reader_step(reader, page_max(strays));
    if (step == ROWS_FAILED)
        end_strays(strays, "failed", "the store cannot be read");
    if (step == ROWS_ROW || step == ROWS_END)
        add_key(strays, step == ROWS_END);
    return step == ROWS_ROW || step == ROWS_END;
}

/* ---- requests ---- */

static void wait_with_page(struct stray_moves *strays, struct bytes reason)
{
    (void)snprintf(strays->reason, sizeof strays->reason, "%.*s", (int)reason.len,
                   reason.len ? reason.data : "");
    strays->retry_ms = strays_now_ms(strays) + RETRY_MS;
}

/* Uses the owner's reply about one key. False: the key cannot be deleted here now. */
static bool use_result(struct stray_moves *strays, const struct sent_key *sent,
                       enum put_result result)
{
    struct stray_figures *figures = &strays->figures;
    struct bytes key = {sent->key, sent->len};
    bool deletes = result == PUT_DONE || (result == PUT_EXISTS && strays->wish == STRAYS_KEEP);
    if (deletes && !delete_stray(strays, sent->space, sent->slot, key, false))
        return false;
    figures->moved += result == PUT_DONE || result == PUT_ABSENT;
    figures->kept += result == PUT_EXISTS && deletes;
    figures->present += result == PUT_EXISTS && !deletes;
    figures->later += result == PUT_LATER;
    if (result == PUT_EXISTS && !deletes)
        stray_names_add(&strays->names, strays->partition, sent);
    else if (result == PUT_LATER)
        (void)snprintf(strays->reason, sizeof strays->reason,
                       "shard '%s' does not take keys of slot %u now", strays->page.owner,
                       sent->slot);
    return true;
}

/* The page is done: the next one can be read. */
static void end_page(struct stray_moves *strays)
{
    if (strays->page.number)
        stray_page_forget(strays->partition);
    if (strays->page.is_in_parts) {
        key_parts_clear(&strays->parts);
        key_reader_close(&strays->key);
    }
    stray_page_clear(&strays->page);
}

/* Uses the results of the page, until a key cannot be deleted. */
static void use_results(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    for (; page->used < page->count; page->used++)
        if (!use_result(strays, &page->keys[page->used],
                        (enum put_result)page->results[page->used]))
            return;
    end_page(strays);
}

/* None of the page's keys was taken, and none will be. */
static void page_was_not_taken(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    memset(page->results, PUT_LATER, page->count);
    page->state = STRAY_PAGE_ANSWERED;
}

/* The owner has not taken the page, and never will: its reply to the question. */
static void was_never_taken(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    if (!page->is_in_parts)
        end_page(strays); /* its keys are found again */
    else if (page->results[0] == PUT_LATER || strays->parts.begins == BEGINS_MAX)
        page_was_not_taken(strays);
    else
        begin_parts(strays);
}

static void page_has_results(struct stray_moves *strays, struct bytes results)
{
    struct stray_page *page = &strays->page;
    strays->figures.bytes += page->is_in_parts ? strays->parts.part.bytes : page->payload.bytes;
    memcpy(page->results, results.data, results.len);
    page->state = STRAY_PAGE_ANSWERED;
}

/* The owner's reply to a part of the page's key; AGAIN: none. */
static void part_was_put(struct stray_moves *strays, enum put_result result)
{
    struct stray_page *page = &strays->page;
    const char kept = (char)result;
    bool was_last = strays->parts.has_metadata && !strays->key.read.bytes;
    if (result == PUT_MORE && !was_last) {
        strays->figures.bytes += strays->parts.part.bytes;
        key_parts_next(&strays->parts);
    } else if (result == PUT_DONE || result == PUT_EXISTS) {
        page_has_results(strays, (struct bytes){&kept, 1});
    } else {
        page->results[0] = kept;
        page->is_asked = true;
    }
}

/* peer_request.on_reply. Nothing is deleted here: a slow script may be running. */
static void page_was_put(struct peer_request *request, enum peer_result result,
                         struct bytes payload)
{
    struct stray_moves *strays = container_of(request, struct stray_moves, page.request);
    struct stray_page *page = &strays->page;
    bool is_part = page->is_in_parts && !page->is_asked;
    page->state = STRAY_PAGE_READY;
    if (result == PEER_OK && is_part && payload.len == 1)
        part_was_put(strays, (enum put_result)payload.data[0]);
    else if (result == PEER_OK && !is_part && payload.len == page->count)
        page_has_results(strays, payload);
    else if (result == PEER_OK && page->is_asked && !payload.len)
        page->state = STRAY_PAGE_UNKNOWN;
    else
        wait_with_page(strays, result == PEER_REFUSED ? refusal_shown(request->refusal, payload)
                                                      : BYTES("the connection to the owner broke"));
    if (result == PEER_LOST && is_part)
        part_was_put(strays, PUT_AGAIN);
    if (result == PEER_OK && !strays->figures.later)
        strays->reason[0] = 0;
    step_strays(strays);
}

static void send_to_owner(struct stray_moves *strays, enum peer_kind kind, const struct out *out)
{
    struct stray_page *page = &strays->page;
    char *payload = malloc(out->bytes + 1);
    CHECK(payload);
    out_copy(out, payload);
    page->request = (struct peer_request){.on_reply = page_was_put};
    bool is_sent = peer_link_send(link_to_owner(strays), &page->request, (uint8_t)kind,
                                  (struct bytes){payload, out->bytes}) == PEER_SENT;
    free(payload);
    if (!is_sent) {
        wait_with_page(strays, BYTES("the owner is not connected"));
        return;
    }
    page->state = STRAY_PAGE_SENT;
    page->was_sent = true;
    strays->allowance -= (int64_t)out->bytes;
}

/* Asks the owner what became of the page. */
static void ask_for_page(struct stray_moves *strays)
{
    struct out out;
    out_init(&out);
    put_head_write(&out, strays->page.number, PUT_NEW);
    send_to_owner(strays, PEER_KEYS_PUT, &out);
    out_clear(&out);
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
    send_to_owner(strays, PEER_KEY_PART, &out);
    out_clear(&out);
}

/* The owner of the page is not in the map. It may have taken the page, and it may come back. */
static void wait_for_owner(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    if (!page->was_sent)
        page_was_not_taken(strays);
    else if (!strays->is_given_up)
        wait_with_page(strays,
                       BYTES("a shard that may have taken some of the keys is not in the map"));
    else {
        end_page(strays);
        end_strays(strays, "stopped", "");
    }
}

static void send_stray_page(struct stray_moves *strays)
{
    struct stray_page *page = &strays->page;
    if (!link_to_owner(strays))
        wait_for_owner(strays);
    else if (page->is_asked)
        ask_for_page(strays);
    else if (page->is_in_parts)
        send_next_part(strays);
    else
        send_to_owner(strays, PEER_KEYS_PUT, &page->payload);
}

/* ticket_wait.on_end */
static void page_was_noted(struct ticket_wait *wait, int err)
{
    struct stray_moves *strays = container_of(wait, struct stray_moves, page.wait);
    strays->page.state = err ? STRAY_PAGE_CLOSED : STRAY_PAGE_READY;
    step_strays(strays);
}

/* A page that is closed: its row is written before it is sent. */
static void note_page(struct stray_moves *strays)
{
    if (strays->page.number)
        stray_page_note(strays->partition, &strays->page);
    else
        strays->page.state = STRAY_PAGE_READY;
}

/* ---- steps ---- */

static void begin_pass(struct stray_moves *strays)
{
    struct stray_figures *figures = &strays->figures;
    figures->keys = figures->present = figures->damaged = figures->later = 0;
    if (is_look(strays))
        figures->moved = figures->expired = 0;
    stray_names_clear(&strays->names);
    stray_scan_rewind(&strays->scan);
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
           !partition_lease_is_over(partition) && !partition->pause.is_held &&
           !partition_is_full(partition) && !commit_is_failed(partition->commit, NULL) &&
           strays->allowance > 0 && strays_now_ms(strays) >= strays->retry_ms;
}

/* Reads strays into the page until it is closed. */
static void read_into_page(struct stray_moves *strays)
{
    const struct stray_page *page = &strays->page;
    unsigned reads = 0;
    while (page->state == STRAY_PAGE_OPEN && !strays->is_end && reads++ < READS_MAX)
        if (!read_strays(strays))
            break;
    if (strays->is_running && strays->is_end && page->count)
        strays->page.state = STRAY_PAGE_CLOSED;
}

/* Reads the row that a transfer before has left, whose page may have been taken. */
static void find_left_page(struct stray_moves *strays)
{
    strays->is_row_read = true;
    if (!is_look(strays) && stray_page_load(strays->partition, &strays->page) < 0)
        end_strays(strays, "failed", "the store cannot be read");
}

/* Timer; also called when rows have been read, when a page's row is durable, and when its owner has replied. */
static void step_strays(void *owner)
{
    struct stray_moves *strays = owner;
    struct stray_page *page = &strays->page;
    fill_stray_allowance(strays);
    if (!may_step(strays))
        return;
    if (!strays->is_row_read)
        find_left_page(strays);
    if (page->state == STRAY_PAGE_UNKNOWN)
        was_never_taken(strays);
    if (page->state == STRAY_PAGE_ANSWERED)
        use_results(strays);
    if (strays->is_running && page->state == STRAY_PAGE_OPEN)
        read_into_page(strays);
    if (strays->is_running && page->state == STRAY_PAGE_CLOSED)
        note_page(strays);
    if (strays->is_running && page->state == STRAY_PAGE_READY)
        send_stray_page(strays);
    if (strays->is_running && strays->is_end && page->state == STRAY_PAGE_OPEN)
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
    strays->is_row_read = strays->is_given_up = false;
    stray_scan_init(&strays->scan, partition, step_strays, strays);
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
    stray_names_each(&strays->names, on_line, owner);
    return 1 + strays->names.count;
}
