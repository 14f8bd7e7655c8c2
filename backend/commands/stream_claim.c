/*
 * stream_claim.c - pending entries: acknowledge, list, and assign to another consumer.
 */
#include "backend/commands/stream_group.h"
#include "backend/dispatch/handlers.h"
#include "shared/number.h"

enum { XCLAIM_IDS_AT = 5, ATTEMPTS_FACTOR = 10, COUNT_MAX = 1 << 20 };

/* Finds the group in an open key. 1: found, 0: the group or the key is missing, -1: an error was replied. */
static int find_claim_group(struct call *call, struct entry *entry, struct stream_group *group)
{
    if (!entry->exists)
        return 0;
    if (entry->meta.type != TYPE_STREAM) {
        call_error(call, ERR_WRONGTYPE);
        return -1;
    }
    int err = group_find(call, entry, call->argv[2], group);
    return err == OK ? 1 : err == ERR_NOT_FOUND ? 0 : -1;
}

/* Like find_claim_group, but replies an error when the group or the key is missing. */
static bool require_group(struct call *call, struct entry *entry, struct stream_group *group)
{
    int found = find_claim_group(call, entry, group);
    if (found == 0)
        call_errorf(call, "NOGROUP No such key '%.*s' or consumer group '%.*s'",
                    (int)call->argv[1].len, call->argv[1].data, (int)call->argv[2].len,
                    call->argv[2].data);
    return found == 1;
}

static bool open_key(struct call *call, struct entry *entry)
{
    return keyspace_open(call, call->argv[1], OPEN_READ, entry);
}

static bool int_argument(struct call *call, uint32_t index, const char *error, int64_t *value)
{
    if (number_parse_int64(call->argv[index], value))
        return true;
    call_error_text(call, error);
    return false;
}

/* ---- XACK ---- */

void cmd_xack(struct call *call)
{
    struct entry entry;
    struct stream_group group;
    struct stream_id id;
    int64_t count = 0;
    if (!open_key(call, &entry))
        return;
    int found = find_claim_group(call, &entry, &group);
    if (found < 0)
        return;
    for (uint32_t i = 3; found && i < call->argc; i++)
        if (!stream_id_argument(call, i, &id))
            return;
    for (uint32_t i = 3; found && i < call->argc; i++) {
        struct stream_pending pending;
        (void)stream_id_parse(call->argv[i], 0, true, &id, NULL);
        int err = pending_find(call, &entry, group.name, id, &pending);
        if (is_read_failure(err) ||
            (err == OK && !pending_drop(call, &entry, &group, NULL, id, &pending)))
            return;
        count += err == OK;
    }
    if (count)
        group_put(call, &entry, &group);
    call_changes(call, count);
    reply_int(&call->reply, count);
}

/* ---- XPENDING ---- */

/* Finds the greatest pending id of the group. */
static bool last_pending(struct call *call, struct entry *entry, const struct stream_group *group,
                         struct stream_id *id)
{
    struct sub_iter it;
    struct stream_pending pending;
    sub_iter_init_reverse(call, entry, CF_DATA, pending_row_key(call, group->name, STREAM_ID_MAX),
                          &it);
    bool good = sub_iter_next(&it) && pending_row_read(&it, group->name, id, &pending);
    return sub_iter_fini(&it) && good;
}

static bool first_pending(struct call *call, struct entry *entry, const struct stream_group *group,
                          struct stream_id *id)
{
    struct sub_iter it;
    struct stream_pending pending;
    sub_iter_init(call, entry, CF_DATA, pending_row_key(call, group->name, STREAM_ID_MIN), &it);
    bool good = sub_iter_next(&it) && pending_row_read(&it, group->name, id, &pending);
    return sub_iter_fini(&it) && good;
}

/* Counts the consumers with pending entries; with `reply`, replies each with its number of pending entries. */
static bool busy_consumers(struct call *call, struct entry *entry, const struct stream_group *group,
                           struct reply *reply, int64_t *count)
{
    struct sub_iter it;
    struct stream_consumer consumer;
    *count = 0;
    sub_iter_init(call, entry, CF_DATA, consumer_row_key(call, group->name, BYTES("")), &it);
    while (sub_iter_next(&it) && consumer_row_read(&it, group->name, &consumer)) {
        if (consumer.pending == 0)
            continue;
        ++*count;
        if (!reply)
            continue;
        reply_array(reply, 2);
        reply_bulk(reply, consumer.name);
        reply_bulk_int(reply, (int64_t)consumer.pending);
    }
    return sub_iter_fini(&it);
}

static void summary(struct call *call, struct entry *entry, const struct stream_group *group)
{
    struct reply *reply = &call->reply;
    struct stream_id first;
    struct stream_id last;
    int64_t count;
    reply_array(reply, 4);
    reply_int(reply, (int64_t)group->pending);
    if (group->pending == 0) {
        reply_null(reply);
        reply_null(reply);
        reply_null_array(reply);
        return;
    }
    if (!first_pending(call, entry, group, &first) || !last_pending(call, entry, group, &last) ||
        !busy_consumers(call, entry, group, NULL, &count)) {
        if (!call->failed)
            call_error(call, ERR_STORE);
        return;
    }
    stream_id_reply(reply, first);
    stream_id_reply(reply, last);
    reply_array(reply, count);
    (void)busy_consumers(call, entry, group, reply, &count);
}

struct listing {
    struct stream_id first, last;
    int64_t count;
    int64_t idle;
    const struct bytes *consumer; /* NULL: all consumers */
};

static bool listing_parse(struct call *call, struct listing *listing)
{
    uint32_t at = 3;
    *listing = (struct listing){0};
    if (call->argc < 6 || call->argc > 9) {
        call_error(call, ERR_SYNTAX);
        return false;
    }
    if (bytes_is(call->argv[3], "IDLE")) {
        if (!call_int64(call, 4, &listing->idle))
            return false;
        if (call->argc < 8) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        at += 2;
    }
    if (!call_int64(call, at + 2, &listing->count) ||
        !stream_bound_argument(call, at, false, &listing->first) ||
        !stream_bound_argument(call, at + 1, true, &listing->last))
        return false;
    if (at + 3 < call->argc)
        listing->consumer = &call->argv[at + 3];
    return true;
}

/* Counts the pending entries in the range; with `reply`, also replies them. */
static bool list_pending(struct call *call, struct entry *entry, const struct stream_group *group,
                         const struct listing *listing, struct reply *reply, int64_t *count)
{
    struct sub_iter it;
    struct stream_id id;
    struct stream_pending pending;
    *count = 0;
    sub_iter_init(call, entry, CF_DATA, pending_row_key(call, group->name, listing->first), &it);
    while (*count < listing->count && sub_iter_next(&it) &&
           pending_row_read(&it, group->name, &id, &pending) &&
           stream_id_compare(id, listing->last) <= 0) {
        if ((listing->consumer && !bytes_equal(pending.consumer, *listing->consumer)) ||
            (listing->idle > 0 && stream_idle_ms(call, &pending) < (uint64_t)listing->idle))
            continue;
        ++*count;
        if (!reply)
            continue;
        reply_array(reply, 4);
        stream_id_reply(reply, id);
        reply_bulk(reply, pending.consumer);
        reply_int(reply, (int64_t)stream_idle_ms(call, &pending));
        reply_int(reply, (int64_t)pending.deliveries);
    }
    return sub_iter_fini(&it);
}

void cmd_xpending(struct call *call)
{
    struct entry entry;
    struct stream_group group;
    struct listing listing;
    int64_t count;
    if (call->argc != 3 && !listing_parse(call, &listing))
        return;
    if (!open_key(call, &entry) || !require_group(call, &entry, &group))
        return;
    if (call->argc == 3) {
        summary(call, &entry, &group);
        return;
    }
    if (!list_pending(call, &entry, &group, &listing, NULL, &count))
        return;
    reply_array(&call->reply, count);
    (void)list_pending(call, &entry, &group, &listing, &call->reply, &count);
}

/* ---- XCLAIM, XAUTOCLAIM ---- */

struct claim {
    struct entry entry;
    struct stream_group group;
    struct stream_consumer consumer;
    bool has_consumer; /* the consumer is read or created when the first entry is claimed */
    int64_t idle;
    uint64_t delivered_ms;
    int64_t deliveries; /* new delivery counter; negative: increment */
    bool force;
    bool just_id;
    struct stream_id *ids; /* claimed ids */
    uint64_t count;
    uint64_t changes; /* besides the claimed entries: dropped ones, a new consumer, the last id */
};

/* Is the entry still in the stream? OK, ERR_NOT_FOUND or a read failure. */
static int find_stream_entry(struct call *call, struct entry *entry, struct stream_id id)
{
    char sub[STREAM_ID_BYTES];
    struct bytes row;
    return sub_get(call, entry, CF_STREAM, stream_id_encode(sub, id), &row);
}

/* Assigns the entry to the claiming consumer, unless it was not idle long enough. False: the store failed. */
static bool claim_one(struct call *call, struct claim *claim, struct stream_id id,
                      const struct stream_pending *old)
{
    if (old && claim->idle > 0 && stream_idle_ms(call, old) < (uint64_t)claim->idle)
        return true;
    uint64_t consumers = claim->group.consumers;
    if (!claim->has_consumer &&
        !consumer_open(call, &claim->entry, &claim->group, call->argv[3], &claim->consumer))
        return false;
    claim->changes += claim->group.consumers - consumers;
    claim->has_consumer = true;
    struct stream_pending fresh = {
        .delivered_ms = claim->delivered_ms,
        .deliveries = old ? old->deliveries : 1,
        .consumer = claim->consumer.name,
    };
    if (claim->deliveries >= 0)
        fresh.deliveries = (uint64_t)claim->deliveries;
    else if (!claim->just_id)
        fresh.deliveries++;
    claim->ids[claim->count++] = id;
    claim->consumer.active_ms = call->now_ms;
    return pending_give(call, &claim->entry, &claim->group, &claim->consumer, id, old, &fresh);
}

/* Drops a pending entry that has been deleted from the stream. */
static bool claim_drop(struct call *call, struct claim *claim, struct stream_id id,
                       const struct stream_pending *old)
{
    claim->changes++;
    return pending_drop(call, &claim->entry, &claim->group,
                        claim->has_consumer ? &claim->consumer : NULL, id, old);
}

static void claim_save(struct call *call, struct claim *claim)
{
    if (claim->has_consumer)
        consumer_put(call, &claim->entry, claim->group.name, &claim->consumer);
    group_put(call, &claim->entry, &claim->group);
    call_changes(call, (int64_t)(claim->count + claim->changes));
}

static void reply_claimed(struct call *call, struct claim *claim)
{
    reply_array(&call->reply, (int64_t)claim->count);
    for (uint64_t i = 0; i < claim->count && !call->failed; i++) {
        char sub[STREAM_ID_BYTES];
        struct bytes row;
        if (claim->just_id)
            stream_id_reply(&call->reply, claim->ids[i]);
        else if (sub_get(call, &claim->entry, CF_STREAM, stream_id_encode(sub, claim->ids[i]),
                         &row) == OK)
            (void)stream_entry_reply(call, claim->ids[i], row);
    }
}

/* Parses the options of XCLAIM, after the ids; `at` is the first id. */
static bool claim_options(struct call *call, uint32_t at, struct claim *claim,
                          struct stream_id *last)
{
    int64_t when;
    for (uint32_t i = at; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        bool has_value = i + 1 < call->argc;
        if (bytes_is(word, "FORCE")) {
            claim->force = true;
        } else if (bytes_is(word, "JUSTID")) {
            claim->just_id = true;
        } else if (bytes_is(word, "IDLE") && has_value) {
            if (!int_argument(call, ++i, "ERR Invalid IDLE option argument for XCLAIM", &when))
                return false;
            claim->delivered_ms = when >= 0 && (uint64_t)when <= call->now_ms
                                      ? call->now_ms - (uint64_t)when
                                      : call->now_ms;
        } else if (bytes_is(word, "TIME") && has_value) {
            if (!int_argument(call, ++i, "ERR Invalid TIME option argument for XCLAIM", &when))
                return false;
            claim->delivered_ms =
                when >= 0 && (uint64_t)when <= call->now_ms ? (uint64_t)when : call->now_ms;
        } else if (bytes_is(word, "RETRYCOUNT") && has_value) {
            if (!int_argument(call, ++i, "ERR Invalid RETRYCOUNT option argument for XCLAIM",
                              &claim->deliveries))
                return false;
        } else if (bytes_is(word, "LASTID") && has_value) {
            if (!stream_id_argument(call, ++i, last))
                return false;
        } else {
            call_errorf(call, "ERR Unrecognized XCLAIM option '%.*s'", (int)word.len, word.data);
            return false;
        }
    }
    return true;
}

/* Claims one id of XCLAIM. An entry that has been deleted from the stream is no longer pending afterwards. */
static bool claim_id(struct call *call, struct claim *claim, struct stream_id id)
{
    struct stream_pending old;
    int pending = pending_find(call, &claim->entry, claim->group.name, id, &old);
    int there = is_read_failure(pending) ? pending : find_stream_entry(call, &claim->entry, id);
    if (is_read_failure(there))
        return false;
    if (there == ERR_NOT_FOUND)
        return pending != OK || claim_drop(call, claim, id, &old);
    if (pending != OK && !claim->force)
        return true;
    return claim_one(call, claim, id, pending == OK ? &old : NULL);
}

void cmd_xclaim(struct call *call)
{
    struct claim claim = {.delivered_ms = call->now_ms, .deliveries = -1};
    struct stream_id last = STREAM_ID_MIN;
    struct stream_id id;
    uint32_t end = XCLAIM_IDS_AT;
    if (!open_key(call, &claim.entry) || !require_group(call, &claim.entry, &claim.group) ||
        !int_argument(call, 4, "ERR Invalid min-idle-time argument for XCLAIM", &claim.idle))
        return;
    while (end < call->argc && stream_id_parse(call->argv[end], 0, true, &id, NULL))
        end++;
    if (!claim_options(call, end, &claim, &last))
        return;
    bool is_later = stream_id_compare(last, claim.group.last) > 0;
    if (is_later)
        claim.group.last = last;
    claim.ids = arena_alloc(call->arena, call->argc * sizeof *claim.ids);
    for (uint32_t i = XCLAIM_IDS_AT; i < end; i++) {
        (void)stream_id_parse(call->argv[i], 0, true, &id, NULL);
        if (!claim_id(call, &claim, id))
            return;
    }
    reply_claimed(call, &claim);
    if (!claim.count && !claim.changes)
        claim.changes = is_later; /* as in Redis, LASTID counts only alone */
    claim_save(call, &claim);
}

static bool autoclaim_options(struct call *call, struct claim *claim, int64_t *count)
{
    for (uint32_t i = 6; i < call->argc; i++) {
        if (bytes_is(call->argv[i], "COUNT") && i + 1 < call->argc) {
            if (!number_parse_int64(call->argv[++i], count) || *count < 1 ||
                *count > INT64_MAX / STREAM_ID_BYTES) {
                call_error_text(call, "ERR COUNT must be > 0");
                return false;
            }
        } else if (bytes_is(call->argv[i], "JUSTID")) {
            claim->just_id = true;
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Ids of entries that have been deleted from the stream. */
struct gone {
    struct stream_id *ids;
    uint64_t count;
};

/* A pending entry of the group, collected before any is changed. */
struct candidate {
    struct stream_id id;
    struct stream_pending pending;
};

/* Collects the next pending entries from an id on. NULL: the store failed. */
static struct candidate *candidates_read(struct call *call, struct claim *claim,
                                         struct stream_id from, uint64_t most, uint64_t *count)
{
    struct sub_iter it;
    struct candidate *candidates = call_array(call, most, sizeof *candidates);
    *count = 0;
    if (!candidates)
        return NULL;
    sub_iter_init(call, &claim->entry, CF_DATA, pending_row_key(call, claim->group.name, from),
                  &it);
    while (*count < most && sub_iter_next(&it)) {
        struct candidate *next = &candidates[*count];
        if (!pending_row_read(&it, claim->group.name, &next->id, &next->pending))
            break;
        next->pending.consumer = arena_copy(call->arena, next->pending.consumer);
        ++*count;
    }
    return sub_iter_fini(&it) ? candidates : NULL;
}

/* Processes candidates until `count` were claimed or dropped. *next: index of the first unprocessed one. */
static bool autoclaim(struct call *call, struct claim *claim, const struct candidate *candidates,
                      uint64_t looks, uint64_t count, uint64_t *next, struct gone *dropped)
{
    for (*next = 0; *next < looks && count > 0; ++*next) {
        const struct candidate *candidate = &candidates[*next];
        uint64_t before = claim->count;
        int there = find_stream_entry(call, &claim->entry, candidate->id);
        if (is_read_failure(there))
            return false;
        if (there == ERR_NOT_FOUND) {
            if (!claim_drop(call, claim, candidate->id, &candidate->pending))
                return false;
            dropped->ids[dropped->count++] = candidate->id;
            count--;
        } else if (!claim_one(call, claim, candidate->id, &candidate->pending)) {
            return false;
        }
        count -= claim->count - before;
    }
    return true;
}

void cmd_xautoclaim(struct call *call)
{
    struct claim claim = {.delivered_ms = call->now_ms, .deliveries = -1};
    struct stream_id from;
    int64_t count = 100;
    uint64_t found;
    uint64_t next;
    if (!open_key(call, &claim.entry) ||
        !int_argument(call, 4, "ERR Invalid min-idle-time argument for XAUTOCLAIM", &claim.idle) ||
        !stream_bound_argument(call, 5, false, &from) || !autoclaim_options(call, &claim, &count) ||
        !require_group(call, &claim.entry, &claim.group))
        return;
    uint64_t looks = (uint64_t)count > COUNT_MAX ? UINT64_MAX : (uint64_t)count * ATTEMPTS_FACTOR;
    if (looks > claim.group.pending)
        looks = claim.group.pending;
    struct candidate *candidates = candidates_read(call, &claim, from, looks + 1, &found);
    if (!candidates)
        return;
    struct gone dropped = {arena_alloc(call->arena, (found + 1) * sizeof(struct stream_id)), 0};
    claim.ids = arena_alloc(call->arena, (found + 1) * sizeof *claim.ids);
    if (!autoclaim(call, &claim, candidates, found < looks ? found : looks, (uint64_t)count, &next,
                   &dropped))
        return;
    reply_array(&call->reply, 3);
    stream_id_reply(&call->reply, next < found ? candidates[next].id : STREAM_ID_MIN);
    reply_claimed(call, &claim);
    reply_array(&call->reply, (int64_t)dropped.count);
    for (uint64_t i = 0; i < dropped.count; i++)
        stream_id_reply(&call->reply, dropped.ids[i]);
    claim_save(call, &claim);
}
