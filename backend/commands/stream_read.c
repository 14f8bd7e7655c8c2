/*
 * stream_read.c - XREAD and XREADGROUP: entries of streams after given ids.
 *
 *   XREAD       entries after an id
 *   XREADGROUP  >: entries not delivered to any consumer yet; they become pending for this consumer
 *               > with CLAIM: before these, entries that have been pending for some time (stream_claimable.h)
 *               id: entries pending for this consumer after the id
 *
 * When there are no entries and BLOCK was given, the client blocks; when a key changes, the command runs again for
 * this key.
 */
#include "backend/commands/equal_words.h"
#include "backend/commands/stream_claimable.h"
#include "backend/dispatch/blocking.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

/* One stream of the request. */
struct source {
    struct bytes key;
    struct entry entry;
    struct stream_id after;
    bool is_new; /* id ">": new entries */
    /* earlier arguments name this stream for new entries too, and take all that there are */
    bool is_taken;
    struct stream_group group;
    struct stream_claimable claimable; /* with CLAIM and the id ">" */
};

struct read {
    bool in_group;
    bool no_ack;
    bool blocks;
    uint64_t timeout_ms;
    uint64_t count; /* 0 = all */
    bool claims;
    uint64_t claim_ms; /* pending entries are claimed that have been idle this long */
    struct bytes group;
    struct bytes consumer;
    uint32_t keys_at;
    uint32_t streams;
    struct source *sources;
};

/* ---- arguments ---- */

static bool refuse_read(struct call *call, const char *text)
{
    call_error_text(call, text);
    return false;
}

static bool read_timeout(struct call *call, uint32_t index, struct read *read)
{
    int64_t timeout;
    if (!number_parse_int64(call->argv[index], &timeout))
        return refuse_read(call, "ERR timeout is not an integer or out of range");
    if (timeout < 0)
        return refuse_read(call, "ERR timeout is negative");
    if ((uint64_t)timeout > INT64_MAX - call->now_ms)
        return refuse_read(call, "ERR timeout is out of range");
    read->blocks = true;
    read->timeout_ms = (uint64_t)timeout;
    return true;
}

/* STREAMS takes all remaining arguments. */
static bool read_streams(struct call *call, const struct stream_arguments *found, struct read *read)
{
    if (!found->count) {
        call_error_text(call, "ERR Unbalanced XREAD list of streams: for each stream key an ID or "
                              "'$' must be specified.");
        return false;
    }
    read->keys_at = found->streams_at;
    read->streams = found->count;
    return true;
}

static bool claim_option(struct call *call, uint32_t index, struct read *read)
{
    int64_t idle;
    if (!read->in_group)
        return refuse_read(call, "ERR The CLAIM option is only supported by XREADGROUP. You called "
                                 "XREAD instead.");
    if (!number_parse_int64(call->argv[index], &idle))
        return refuse_read(call, "ERR min-idle-time is not an integer");
    if (idle < 0)
        return refuse_read(call, "ERR min-idle-time must be a positive integer");
    read->claims = true;
    read->claim_ms = (uint64_t)idle;
    return true;
}

static bool read_block(struct call *call, uint32_t index, struct read *read)
{
    if (!call->in_script)
        return read_timeout(call, index, read);
    call_errorf(call, "ERR %.*s command is not allowed with BLOCK option from scripts",
                (int)call->argv[0].len, call->argv[0].data);
    return false;
}

static bool read_count(struct call *call, uint32_t index, struct read *read)
{
    int64_t count;
    if (!call_int64(call, index, &count))
        return false;
    read->count = count < 0 ? 0 : (uint64_t)count;
    return true;
}

static bool read_group(struct call *call, uint32_t index, struct read *read)
{
    read->group = call->argv[index];
    read->consumer = call->argv[index + 1];
    return read->in_group ||
           refuse_read(call, "ERR The GROUP option is only supported by XREADGROUP. You called "
                             "XREAD instead.");
}

/* Parses the option at *at, and sets *at behind it. */
static bool read_option(struct call *call, uint32_t *at, struct read *read)
{
    switch (option_next(stream_options, call->argv, call->argc, at)) {
    case STREAM_BLOCK:
        return read_block(call, *at - 1, read);
    case STREAM_COUNT:
        return read_count(call, *at - 1, read);
    case STREAM_GROUP:
        return read_group(call, *at - 2, read);
    case STREAM_CLAIM:
        return claim_option(call, *at - 1, read);
    case STREAM_NOACK:
        read->no_ack = true;
        return read->in_group ||
               refuse_read(call, "ERR The NOACK option is only supported by XREADGROUP. You called "
                                 "XREAD instead.");
    }
    call_error(call, ERR_SYNTAX);
    return false;
}

static bool read_options(struct call *call, struct read *read)
{
    struct stream_arguments found = {0};
    uint32_t at = 1;
    while (at < call->argc && !streams_begin(call->argv, call->argc, at, &found))
        if (!read_option(call, &at, read))
            return false;
    if (at == call->argc) { /* no STREAMS */
        call_error(call, ERR_SYNTAX);
        return false;
    }
    if (!read_streams(call, &found, read))
        return false;
    return !read->in_group || read->group.data ||
           refuse_read(call, "ERR Missing GROUP option for XREADGROUP");
}

/* Finds the group. It must exist, on the first run and on every run after the client was blocked. */
static bool find_read_group(struct call *call, const struct read *read, struct source *source)
{
    int err = source->entry.exists ? group_find(call, &source->entry, read->group, &source->group)
                                   : ERR_NOT_FOUND;
    if (err != ERR_NOT_FOUND)
        return err == OK;
    if (call->ready_key && !source->entry.exists)
        return refuse_read(call, "UNBLOCKED the stream key no longer exists");
    if (call->ready_key)
        return refuse_read(
            call, "NOGROUP the consumer group this client was blocked on no longer exists");
    call_errorf(call,
                "NOGROUP No such key '%.*s' or consumer group '%.*s' in XREADGROUP with GROUP "
                "option",
                (int)source->key.len, source->key.data, (int)read->group.len, read->group.data);
    return false;
}

static bool parse_start_id(struct call *call, uint32_t index, const struct read *read,
                           struct source *source)
{
    struct bytes text = call->argv[index];
    if (bytes_equal(text, BYTES("$"))) {
        if (read->in_group)
            return refuse_read(
                call, "ERR The $ ID is meaningless in the context of XREADGROUP: you want to "
                      "read the history of this consumer by specifying a proper ID, or use the "
                      "> ID to get new messages. The $ ID would just return an empty result "
                      "set.");
        source->after =
            source->entry.exists ? source->entry.meta.stream_last_generated : STREAM_ID_MIN;
        return true;
    }
    if (bytes_equal(text, BYTES("+")) && read->in_group)
        return refuse_read(
            call, "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the "
                  "history of this consumer by specifying a proper ID, or use the > ID to get new "
                  "messages. The + ID would just return an empty result set.");
    if (bytes_equal(text, BYTES("+"))) {
        source->after = STREAM_ID_MIN;
        if (source->entry.exists && source->entry.meta.size) {
            source->after = source->entry.meta.stream_last;
            (void)stream_id_before(&source->after);
        }
        return true;
    }
    source->is_new = bytes_equal(text, BYTES(">"));
    if (source->is_new)
        return read->in_group ||
               refuse_read(call,
                           "ERR The > ID can be specified only when calling XREADGROUP using the "
                           "GROUP <group> <consumer> option.");
    return stream_id_argument(call, index, &source->after);
}

static bool open_source(struct call *call, struct source *source)
{
    if (!call->ready_key)
        return keyspace_open_type(call, source->key, TYPE_STREAM, OPEN_READ, &source->entry);
    if (!keyspace_open(call, source->key, OPEN_READ, &source->entry))
        return false;
    return !source->entry.exists || source->entry.meta.type == TYPE_STREAM ||
           refuse_read(call, "UNBLOCKED the stream key no longer exists");
}

/* A stream that several arguments name for new entries. */
struct naming {
    uint64_t count; /* arguments so far */
    uint64_t most;  /* so many of them get entries */
};

/* Finds how many arguments that name the stream get new entries, COUNT for each. False: the store failed. */
static bool find_most(struct call *call, const struct read *read, struct source *source,
                      uint64_t *most)
{
    struct stream_id first = source->group.last;
    *most = 1;
    if (!read->count || read->claims || !source->entry.exists || !stream_id_next(&first))
        return true;
    uint64_t all =
        read->count > UINT64_MAX / read->streams ? UINT64_MAX : read->count * read->streams;
    int64_t found = stream_count(call, &source->entry, first, STREAM_ID_MAX, all);
    if (found > 0)
        *most = ((uint64_t)found - 1) / read->count + 1;
    return found >= 0;
}

/* Finds the arguments for which those before them leave nothing. False: the store failed. */
static bool mark_taken(struct call *call, struct read *read)
{
    const uint32_t *first = first_of_equal(call->arena, call->argv + read->keys_at, read->streams);
    struct naming *namings = arena_alloc(call->arena, read->streams * sizeof *namings);
    memset(namings, 0, read->streams * sizeof *namings);
    for (uint32_t i = 0; i < read->streams; i++) {
        struct source *source = &read->sources[i];
        struct naming *naming = &namings[first[i]];
        if (!source->is_new)
            continue;
        naming->count++;
        if (naming->count == 2 && !find_most(call, read, source, &naming->most))
            return false;
        source->is_taken = naming->count > 1 && naming->count > naming->most;
    }
    return true;
}

static bool open_sources(struct call *call, struct read *read)
{
    read->sources = arena_alloc(call->arena, read->streams * sizeof *read->sources);
    for (uint32_t i = 0; i < read->streams; i++) {
        struct source *source = &read->sources[i];
        *source = (struct source){.key = call->argv[read->keys_at + i]};
        if (call->ready_key && !bytes_equal(*call->ready_key, source->key))
            continue; /* reads only the changed key */
        if (!open_source(call, source) ||
            (read->in_group && !find_read_group(call, read, source)) ||
            !parse_start_id(call, read->keys_at + read->streams + i, read, source) ||
            (read->claims && source->is_new &&
             !stream_claimable_find(call, &source->entry, &source->group, read->claim_ms,
                                    read->count, &source->claimable)))
            return false;
    }
    return !read->in_group || read->streams == 1 || mark_taken(call, read);
}

/* ---- replies ---- */

/* Does this stream have a reply for the client? */
static bool has_news(const struct read *read, const struct source *source)
{
    const struct metadata *meta = &source->entry.meta;
    if (!source->entry.exists || source->is_taken)
        return false;
    if (read->in_group && !source->is_new)
        return true; /* its pending entries are replied, even when there are none */
    if (source->claimable.count)
        return true;
    const struct stream_id *after = read->in_group ? &source->group.last : &source->after;
    return meta->size && stream_id_compare(meta->stream_last, *after) > 0;
}

/* Advances the group to this entry. */
static void group_moves(const struct metadata *meta, struct stream_group *group,
                        struct stream_id id)
{
    if (stream_id_compare(id, group->last) <= 0)
        return;
    if (group->entries_read != ENTRIES_READ_UNKNOWN && !stream_has_holes_from(meta, id))
        group->entries_read++;
    else if (meta->stream_entries_added)
        group->entries_read = stream_entries_before(meta, id);
    group->last = id;
}

/* Collects the ids of the next entries after `after`, none if it is the greatest id; NULL: the store failed. */
static struct stream_id *collect_new(struct call *call, struct entry *entry, struct stream_id after,
                                     uint64_t most, uint64_t *count)
{
    char from[STREAM_ID_BYTES];
    struct sub_iter it;
    struct stream_id first = after;
    struct stream_id *ids;
    *count = 0;
    if (!stream_id_next(&first))
        return arena_alloc(call->arena, sizeof *ids);
    int64_t found = stream_count(call, entry, first, STREAM_ID_MAX, most ? most : UINT64_MAX);
    if (found < 0)
        return NULL;
    ids = call_array(call, (uint64_t)found + 1, sizeof *ids);
    if (!ids)
        return NULL;
    if (stream_id_compare(first, entry->meta.stream_first) < 0)
        first = entry->meta.stream_first;
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, first), &it);
    while (*count < (uint64_t)found && sub_iter_next(&it) && stream_id_decode(it.sub, &ids[*count]))
        ++*count;
    return sub_iter_fini(&it) ? ids : NULL;
}

/* Gives the claimable entries to the consumer, and replies them with their previous idle times and numbers of deliveries. */
static bool serve_claimable(struct call *call, struct source *source,
                            struct stream_consumer *consumer)
{
    const struct stream_claimable *claimable = &source->claimable;
    char sub[STREAM_ID_BYTES];
    for (uint64_t i = 0; i < claimable->count; i++) {
        struct stream_id id = claimable->ids[i];
        struct stream_pending old;
        struct bytes row;
        int err = pending_find(call, &source->entry, source->group.name, id, &old);
        if (err == OK)
            err = sub_get(call, &source->entry, CF_STREAM, stream_id_encode(sub, id), &row);
        if (err == ERR_NOT_FOUND)
            call_error(call, ERR_STORE);
        struct stream_pending fresh = {call->now_ms, old.deliveries + 1, consumer->name};
        if (err ||
            !stream_entry_reply_delivered(call, id, row, stream_idle_ms(call, &old),
                                          old.deliveries) ||
            !pending_give(call, &source->entry, &source->group, consumer, id, &old, &fresh))
            return false;
    }
    return true;
}

/* Replies new entries in the form of claimed ones: they were not delivered before. */
static bool reply_undelivered(struct call *call, struct source *source, const struct stream_id *ids,
                              uint64_t count)
{
    char sub[STREAM_ID_BYTES];
    struct bytes row;
    for (uint64_t i = 0; i < count; i++) {
        if (sub_get(call, &source->entry, CF_STREAM, stream_id_encode(sub, ids[i]), &row) != OK) {
            if (!call->failed)
                call_error(call, ERR_STORE);
            return false;
        }
        if (!stream_entry_reply_delivered(call, ids[i], row, 0, 0))
            return false;
    }
    return true;
}

/* Replies new entries; they become pending for this consumer. With CLAIM those that are claimed precede them. */
static bool serve_new(struct call *call, const struct read *read, struct source *source,
                      struct stream_consumer *consumer)
{
    struct stream_group *group = &source->group;
    struct stream_id first = group->last;
    uint64_t claimed = source->claimable.count;
    uint64_t count = 0;
    struct stream_id *ids = NULL;
    bool is_full = read->count && claimed >= read->count;
    if (!is_full) {
        ids = collect_new(call, &source->entry, group->last,
                          read->count ? read->count - claimed : 0, &count);
        if (!ids)
            return false;
    }
    (void)stream_id_next(&first);
    if (claimed || (count && !read->no_ack))
        consumer->active_ms = call->now_ms;
    if (read->claims) {
        reply_array(&call->reply, (int64_t)(claimed + count));
        if (!serve_claimable(call, source, consumer) ||
            !reply_undelivered(call, source, ids, count))
            return false;
    } else if (!stream_range_reply(call, &source->entry, first, STREAM_ID_MAX, count, 0)) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        const struct stream_pending fresh = {call->now_ms, 1, consumer->name};
        struct stream_pending old;
        group_moves(&source->entry.meta, group, ids[i]);
        if (read->no_ack)
            continue;
        int err = pending_find(call, &source->entry, group->name, ids[i], &old);
        if (is_read_failure(err) || !pending_give(call, &source->entry, group, consumer, ids[i],
                                                  err == OK ? &old : NULL, &fresh))
            return false;
    }
    return true;
}

/* Collects the ids that are pending for the consumer, after an id. */
static struct stream_id *collect_given(struct call *call, const struct read *read,
                                       struct source *source, struct bytes consumer,
                                       uint64_t *count)
{
    struct sub_iter it;
    struct stream_id *ids = NULL;
    uint64_t cap = 0;
    struct stream_id after = source->after;
    *count = 0;
    if (!stream_id_next(&after))
        return arena_alloc(call->arena, sizeof *ids);
    sub_iter_init(call, &source->entry, CF_DATA,
                  given_row_key(call, source->group.name, consumer, after), &it);
    struct stream_id id;
    while ((!read->count || *count < read->count) && sub_iter_next(&it) &&
           given_row_read(&it, source->group.name, consumer, &id)) {
        if (*count == cap) {
            struct stream_id *more = arena_alloc(call->arena, (cap * 2 + 16) * sizeof *more);
            if (cap)
                memcpy(more, ids, cap * sizeof *more);
            ids = more;
            cap = cap * 2 + 16;
        }
        ids[(*count)++] = id;
    }
    if (!sub_iter_fini(&it))
        return NULL;
    return ids ? ids : arena_alloc(call->arena, sizeof *ids);
}

/* Replies a pending entry of the consumer and counts the delivery; null when the entry has been deleted from the
 * stream. */
static bool serve_given(struct call *call, struct source *source, struct stream_consumer *consumer,
                        struct stream_id id)
{
    char sub[STREAM_ID_BYTES];
    struct bytes row;
    struct stream_pending pending;
    int err = sub_get(call, &source->entry, CF_STREAM, stream_id_encode(sub, id), &row);
    if (is_read_failure(err))
        return false;
    if (err == ERR_NOT_FOUND) {
        reply_array(&call->reply, 2);
        stream_id_reply(&call->reply, id);
        reply_null_array(&call->reply);
        return true;
    }
    if (!stream_entry_reply(call, id, row))
        return false;
    if (pending_find(call, &source->entry, source->group.name, id, &pending) != OK) {
        if (!call->failed)
            call_error(call, ERR_STORE);
        return false;
    }
    struct stream_pending fresh = {call->now_ms, pending.deliveries + 1, pending.consumer};
    return pending_give(call, &source->entry, &source->group, consumer, id, &pending, &fresh);
}

static bool serve_group(struct call *call, const struct read *read, struct source *source)
{
    struct stream_consumer consumer;
    uint64_t count;
    /* Read again, because an earlier argument may have named this stream and advanced its group. */
    if (group_find(call, &source->entry, read->group, &source->group) != OK)
        return false;
    uint64_t consumers = source->group.consumers;
    if (!consumer_open(call, &source->entry, &source->group, read->consumer, &consumer))
        return false;
    call_changes(call, 1 + (int64_t)(source->group.consumers - consumers));
    if (source->is_new) {
        if (!serve_new(call, read, source, &consumer))
            return false;
    } else {
        struct stream_id *ids = collect_given(call, read, source, consumer.name, &count);
        if (!ids)
            return false;
        reply_array(&call->reply, (int64_t)count);
        for (uint64_t i = 0; i < count; i++)
            if (!serve_given(call, source, &consumer, ids[i]))
                return false;
    }
    consumer_put(call, &source->entry, source->group.name, &consumer);
    group_put(call, &source->entry, &source->group);
    return true;
}

static bool reply_source(struct call *call, const struct read *read, struct source *source)
{
    struct stream_id first = source->after;
    if (call->reply.resp < 3)
        reply_array(&call->reply, 2);
    reply_bulk(&call->reply, source->key);
    if (read->in_group)
        return serve_group(call, read, source);
    (void)stream_id_next(&first);
    return stream_range_reply(call, &source->entry, first, STREAM_ID_MAX,
                              read->count ? read->count : UINT64_MAX,
                              read->streams == 1 ? STREAM_ENDS_REPLY : 0);
}

/* ---- blocking ---- */

/* The arguments with every $ replaced by the current last id, and every + by 0-0, as those streams have no entries. */
static const struct bytes *fixed_arguments(struct call *call, const struct read *read)
{
    struct bytes *argv = arena_alloc(call->arena, call->argc * sizeof *argv);
    memcpy(argv, call->argv, call->argc * sizeof *argv);
    for (uint32_t i = 0; i < read->streams; i++) {
        struct bytes *id = &argv[read->keys_at + read->streams + i];
        if (!bytes_equal(*id, BYTES("$")) && !bytes_equal(*id, BYTES("+")))
            continue;
        struct stream_id after = read->sources[i].after;
        char *text = arena_alloc(call->arena, STREAM_ID_TEXT_MAX);
        size_t len = stream_id_format(text, after);
        *id = (struct bytes){text, len};
    }
    return argv;
}

/* Makes the command wait for a change of its keys. With CLAIM a pending entry may be claimed once it has been idle for long enough,
 * and the key does not change then. So a timer runs the command again: when the first entry that is pending now may be claimed,
 * or after CLAIM's time, for entries that become pending during the wait. */
static void wake_to_claim(struct call *call, const struct read *read)
{
    enum { WAKE_MS_MIN = 20 };
    uint64_t wake_ms = read->claim_ms;
    for (uint32_t i = 0; i < read->streams; i++)
        if (read->sources[i].is_new && read->sources[i].claimable.next_ms < wake_ms)
            wake_ms = read->sources[i].claimable.next_ms;
    if (read->claims)
        blocking_wake_after(call, wake_ms < WAKE_MS_MIN ? WAKE_MS_MIN : wake_ms);
}

static void read_run(struct call *call, bool in_group)
{
    struct read read = {.in_group = in_group};
    uint32_t ready = 0;
    if (!read_options(call, &read) || !open_sources(call, &read))
        return;
    for (uint32_t i = 0; i < read.streams; i++)
        ready += has_news(&read, &read.sources[i]);
    if (ready == 0) {
        if (!read.blocks ||
            !blocking_wait_as(call, call->argv + read.keys_at, read.streams, read.timeout_ms,
                              fixed_arguments(call, &read), call->argc))
            reply_null_array(&call->reply);
        else if (call->is_waiting)
            wake_to_claim(call, &read);
        return;
    }
    if (call->reply.resp < 3)
        reply_array(&call->reply, ready);
    else
        reply_map(&call->reply, ready);
    for (uint32_t i = 0; i < read.streams; i++)
        if (has_news(&read, &read.sources[i]) && !reply_source(call, &read, &read.sources[i]))
            return;
}

void cmd_xread(struct call *call)
{
    read_run(call, false);
}

void cmd_xreadgroup(struct call *call)
{
    read_run(call, true);
}
