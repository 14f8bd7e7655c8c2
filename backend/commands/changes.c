/*
 * changes.c - SCREE CHANGES at a partition: which keys have changed here. A proxy asks all shards (proxy/local/local_changes.c).
 *
 *   READ position|$ [options]   from there on: [position, events, lag in ms, slots]; from now on: no events. With PAST µs also: the time up
 *                               to which the log was read, and the time of the next batch if other logs must be read first, or 0
 *   TOKEN [AT ms]               [the position of now, slots, their ranges], or [that of the time, slots, is the log younger than it, names of shards
 *                               from which slots have come since; an empty one: they may be those of a lost shard, or were restored, the logs that
 *                               these shards had; zeros: not known]
 *   INFO                        what can be read
 *
 *   slots   16384.00000000ab12cd34: how many the shard owns, and a sum of hashes (slot_table.h); 0.…: some have come or gone while the page was read
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/feed/feed.h"
#include "backend/format/slot_record.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/slots/slot_table.h"
#include "backend/storage/storage.h"
#include "shared/acl/acl.h"
#include "shared/changes_options.h"
#include "shared/number.h"
#include "shared/slot_ranges.h"
#include "shared/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_AT = 4, TIME_AT = 4 };

/* Which databases of the client's namespace are which in storage. */
static void map_databases(struct call *call, struct feed_filter *filter)
{
    struct space_set *spaces = call->partition->spaces;
    for (unsigned db = 0; db < DATABASES_MAX; db++) {
        struct bytes storage =
            space_open(spaces, (struct bytes){filter->name, filter->name_len}, (uint8_t)db)->name;
        bool has_number = storage.len == filter->name_len + 2;
        filter->databases[has_number ? (uint8_t)storage.data[filter->name_len + 1] : 0] =
            (uint8_t)db;
    }
}

static void fill_filter(struct call *call, const struct changes_options *options,
                        struct feed_filter *filter)
{
    struct bytes name = call->session->scope.namespace_name;
    if (name.len)
        memcpy(filter->name, name.data, name.len);
    filter->name_len = name.len;
    map_databases(call, filter);
    filter->database = options->database;
    filter->has_slots = options->slots.len > 0;
    memcpy(filter->slots, options->is_in, sizeof filter->slots);
    if (!options->pattern.len)
        return;
    char *pattern = malloc(options->pattern.len);
    CHECK(pattern);
    memcpy(pattern, options->pattern.data, options->pattern.len);
    filter->pattern = (struct bytes){pattern, options->pattern.len};
}

/* What distinguishes a request from others of its session. */
static uint64_t hash_of_arguments(const struct call *call)
{
    uint64_t hash = call->session->request.number;
    for (uint32_t i = 2; i < call->argc; i++)
        hash = hash * 31 + hash_bytes(call->argv[i]);
    return hash;
}

/* TOKEN [AT ms]. An error text; NULL: it was read. */
static const char *read_token_wish(struct call *call, struct feed_wish *wish)
{
    wish->is_from_now = call->argc < TIME_AT;
    if (wish->is_from_now)
        return NULL;
    return changes_time_read(call->argv[TIME_AT], &wish->at_us);
}

/* Reads the arguments. False: an error was replied. */
static bool read_wish(struct call *call, struct feed_wish *wish)
{
    struct changes_options *options = arena_alloc(call->arena, sizeof *options);
    bool is_token = bytes_is(call->argv[2], "token");
    wish->is_from_now = !is_token && bytes_is(call->argv[3], "$");
    const char *error =
        is_token ? changes_options_read(NULL, 0, options)
                 : changes_options_read(call->argv + OPTIONS_AT, call->argc - OPTIONS_AT, options);
    if (!error && is_token)
        error = read_token_wish(call, wish);
    if (!error && (options->block_ms || options->copies_lost))
        error = "ERR BLOCK and LOST copy work at a proxy: here, ask again a little later";
    if (!error && !is_token && !wish->is_from_now && call->argv[3].len &&
        !feed_position_read(call->argv[3], &wish->from))
        error = "ERR this is no position in a log: expected one that READ or TOKEN has replied";
    if (error) {
        call_error_text(call, error);
        return false;
    }
    wish->past_us = options->has_past ? options->past_us : FEED_PAST_ALL;
    wish->count = options->count;
    wish->bytes = options->bytes;
    fill_filter(call, options, &wish->filter);
    return true;
}

static void reply_position(struct reply *reply, const struct feed_position *position)
{
    char text[FEED_POSITION_MAX];
    reply_bulk(reply, feed_position_write(position, text));
}

static void reply_slot_sum(struct call *call, bool is_known)
{
    struct slot_sum owned = slot_table_sum(call->partition->shards.slots);
    char text[40];
    (void)snprintf(text, sizeof text, "%" PRIu32 ".%016" PRIx64, is_known ? owned.count : 0,
                   is_known ? owned.sum : 0);
    reply_bulk_text(&call->reply, text);
}

/* The slots that the shard owns. */
static void reply_owned_ranges(struct call *call)
{
    bool *is_owned = arena_alloc(call->arena, SLOT_COUNT * sizeof *is_owned);
    struct out text;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        is_owned[slot] = slot_table_owns(call->partition->shards.slots, (uint16_t)slot);
    out_init(&text);
    slot_ranges_write(is_owned, ',', &text);
    reply_bulk_begin(&call->reply, (int64_t)text.bytes);
    out_move(call->reply.out, &text);
    reply_bulk_end(&call->reply);
}

/* What READ replies behind the events. */
static void reply_reached(struct call *call, const struct feed_answer *answer, bool has_same_slots,
                          bool has_past)
{
    reply_int(&call->reply, (int64_t)answer->lag_ms);
    reply_slot_sum(call, has_same_slots);
    if (!has_past)
        return;
    reply_int(&call->reply, (int64_t)answer->reached_us);
    reply_int(&call->reply, (int64_t)answer->early_us);
}

static void reply_now(struct call *call, const struct feed_request *request)
{
    reply_array(&call->reply, 3);
    reply_position(&call->reply, &feed_answer(request)->to);
    reply_slot_sum(call, feed_has_same_slots(request));
    reply_owned_ranges(call);
}

static void reply_log_id(struct reply *reply, uint64_t log_id)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%016" PRIx64, log_id);
    reply_bulk_text(reply, text);
}

/* From which shards slots have come after this time, and from which logs. */
static void reply_origins(struct call *call, const struct slot_origins *origins, uint64_t at_us)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < origins->count; i++)
        count += origins->items[i].until_us > at_us;
    reply_array(&call->reply, count);
    for (uint32_t i = 0; i < origins->count; i++)
        if (origins->items[i].until_us > at_us)
            reply_bulk_text(&call->reply, origins->items[i].shard);
    reply_array(&call->reply, count);
    for (uint32_t i = 0; i < origins->count; i++)
        if (origins->items[i].until_us > at_us)
            reply_log_id(&call->reply, origins->items[i].log_id);
}

static void reply_time(struct call *call, const struct feed_request *request)
{
    const struct slot_origins *origins = slot_table_origins(call->partition->shards.slots);
    const struct feed_answer *answer = feed_answer(request);
    uint64_t at_us = feed_time_us(request);
    if (!origins) {
        call_error_text(call, "TRYAGAIN it is being written down from which shards slots come");
    } else if (at_us < origins->since_us) {
        call_errorf(call,
                    "CHANGESLOST from which shards slots have come is known since %" PRIu64
                    " only: changes at shards that were removed may be missing",
                    origins->since_us / 1000 + 1);
    } else {
        reply_array(&call->reply, 5);
        reply_position(&call->reply, &answer->to);
        reply_slot_sum(call, feed_has_same_slots(request));
        reply_int(&call->reply, !answer->to.index);
        reply_origins(call, origins, at_us);
    }
}

static void reply_changes_page(struct call *call, struct feed_request *request)
{
    const struct feed_answer *answer = feed_answer(request);
    struct feed_page *page = feed_page(request);
    if (*answer->error) {
        call_error_text(call, answer->error);
    } else if (feed_time_us(request)) {
        reply_time(call, request);
    } else if (bytes_is(call->argv[2], "token")) {
        reply_now(call, request);
    } else {
        bool has_past = feed_has_past(request);
        reply_array(&call->reply, has_past ? 6 : 4);
        reply_position(&call->reply, &answer->to);
        reply_array(&call->reply, page->count);
        out_move(call->reply.out, &page->events);
        reply_reached(call, answer, feed_has_same_slots(request), has_past);
    }
}

/* Nothing has changed since. */
static void reply_no_changes(struct call *call, uint64_t reached_us, bool has_past)
{
    const struct feed_answer answer = {.reached_us = reached_us};
    reply_array(&call->reply, has_past ? 6 : 4);
    reply_bulk(&call->reply, call->argv[3]);
    reply_array(&call->reply, 0);
    reply_reached(call, &answer, true, has_past);
}

/* Begins to read a page, and waits for it. */
static void begin_page(struct call *call, uint64_t arguments)
{
    struct feed *feed = call->partition->saves.feed;
    struct feed_wish *wish = arena_alloc(call->arena, sizeof *wish);
    uint64_t reached_us;
    *wish = (struct feed_wish){0};
    if (!read_wish(call, wish))
        return;
    if (!wish->is_from_now && !wish->at_us && feed_is_at_end(feed, &wish->from, &reached_us)) {
        free((char *)wish->filter.pattern.data);
        reply_no_changes(call, reached_us, wish->past_us != FEED_PAST_ALL);
        return;
    }
    struct feed_request *request = feed_begin(feed, call->session->id, arguments, wish);
    if (request)
        call_retry(call, feed_waits(request));
    else {
        free((char *)wish->filter.pattern.data);
        call_error_text(call, "TRYAGAIN too many clients read changes at this moment");
    }
}

/* The command runs again when its page is there. */
static void read_changes(struct call *call)
{
    uint64_t arguments = hash_of_arguments(call);
    struct feed_request *request =
        feed_find(call->partition->saves.feed, call->session->id, arguments);
    if (request && feed_is_done(request)) {
        reply_changes_page(call, request);
        feed_end(request);
    } else if (!call_wait(call)) {
        call_error_text(call, "ERR changes cannot be read without threads: set reader-threads");
    } else if (request) {
        call_retry(call, feed_waits(request));
    } else {
        begin_page(call, arguments);
    }
}

static void reply_feed_info(struct call *call)
{
    const struct partition *partition = call->partition;
    char log[32];
    (void)snprintf(log, sizeof log, "%016" PRIx64, partition->batch.log_id);
    reply_map(&call->reply, 5);
    reply_pair_text(&call->reply, "log", log);
    reply_pair_int(&call->reply, "first-batch", (int64_t)feed_oldest(partition));
    reply_pair_int(&call->reply, "last-batch", (int64_t)storage_committed(partition->storage));
    reply_pair_int(&call->reply, "kept-bytes",
                   (int64_t)storage_figure(partition->storage, "kept_bytes"));
    reply_pair_int(&call->reply, "kept-since",
                   (int64_t)storage_figure(partition->storage, "kept_since"));
}

/* Here a page has the events of all keys. A proxy leaves those out that its client may not read. */
static bool may_read_changes(struct call *call)
{
    const struct acl_user *user = session_user(call->session);
    return session_is_trusted(call->session) || !user ||
           acl_reads_all(user, call->command, call->argv, call->argc);
}

void cmd_scree_changes(struct call *call)
{
    struct bytes what = call->argv[2];
    const char *refusal = feed_refusal(call->partition);
    if (refusal)
        call_error_text(call, refusal);
    else if (!may_read_changes(call))
        call_error_text(call,
                        "NOPERM changes at a shard are of all keys, and this user may not read "
                        "all: ask a proxy");
    else if ((bytes_is(what, "read") && call->argc >= OPTIONS_AT) ||
             (bytes_is(what, "token") && call->argc == 3) ||
             (bytes_is(what, "token") && call->argc == TIME_AT + 1 &&
              bytes_is(call->argv[3], "at")))
        read_changes(call);
    else if (bytes_is(what, "info") && call->argc == 3)
        reply_feed_info(call);
    else
        call_error_text(
            call, "ERR expected SCREE CHANGES READ position|$ [options], TOKEN [AT ms] or INFO");
}
