/*
 * local_changes_copy.c - lists the keys that exist, for a client that begins to read changes (READ 0).
 *
 *   database 0: slots 0 … 16383 ─► database 1: … ─► … ─► the copy has ended
 *
 * Its cursor is one of SCAN, so slots are asked of their owner of the moment, and a key that exists all the time is listed, wherever its
 * slot moves. Changes are read at the same time, from before the first key was listed: so no change is missed, and some keys come
 * twice.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/keyspace.h"
#include "proxy/core/worker.h"
#include "proxy/local/local_changes.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/error.h"
#include "shared/scan_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COPY_STEPS_MAX = 64, COPY_WORDS = 9 };

/* FNV-1a: other proxies, and this one after a restart, must get the same. */
static uint64_t add_to_sum(uint64_t sum, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        sum = (sum ^ (uint8_t)text.data[i]) * 0x100000001b3;
    return (sum ^ text.len) * 0x100000001b3;
}

static uint64_t filter_sum(const struct changes *changes)
{
    const struct changes_options *options = &changes->options;
    char database = (char)options->database;
    uint64_t sum = add_to_sum(0xcbf29ce484222325, options->slots);
    sum = add_to_sum(add_to_sum(sum, options->pattern), (struct bytes){&database, 1});
    return sum & INT64_MAX;
}

bool changes_copy_fits(const struct changes *changes)
{
    return changes->token.copy.filter == filter_sum(changes);
}

void changes_copy_begin(struct changes *changes)
{
    int database = changes->options.database;
    changes->token.copy = (struct changes_copy){
        .is_on = true,
        .database = (uint8_t)(database > 0 ? database : 0),
        .filter = filter_sum(changes),
    };
}

bool changes_copy_wants(const struct changes *changes, unsigned slot)
{
    const struct changes_options *options = &changes->options;
    const struct changes_copy *copy = &changes->token.copy;
    return (!options->slots.len || options->is_in[slot]) && (!copy->is_part || copy->is_in[slot]);
}

/* Moves the cursor to the next slot that is wanted. False: there is none in this database. */
static bool find_wanted_slot(struct changes *changes)
{
    struct changes_copy *copy = &changes->token.copy;
    unsigned slot = cursor_slot(copy->cursor);
    if (changes_copy_wants(changes, slot))
        return true;
    while (slot < SLOT_COUNT && !changes_copy_wants(changes, slot))
        slot++;
    copy->cursor = slot < SLOT_COUNT ? cursor_at_slot((uint16_t)slot) : 0;
    return slot < SLOT_COUNT;
}

/* The database is done. */
static void next_database(struct changes *changes)
{
    struct changes_copy *copy = &changes->token.copy;
    copy->cursor = 0;
    copy->is_on = changes->options.database < 0 && ++copy->database < DATABASES;
}

/* The last slot from this one on that the same shard has and that is wanted. */
static unsigned end_of_wanted(const struct changes *changes, const struct shard_map *map,
                              unsigned slot)
{
    uint16_t shard = shard_map_find(map, (uint16_t)slot);
    while (slot + 1 < SLOT_COUNT && shard_map_find(map, (uint16_t)(slot + 1)) == shard &&
           changes_copy_wants(changes, slot + 1))
        slot++;
    return slot;
}

static void write_copied(const struct changes_copy *copy, struct bytes key, struct reply *reply)
{
    reply_array(reply, 4);
    reply_bulk_text(reply, "");
    reply_int(reply, copy->database);
    reply_bulk_text(reply, "changed");
    reply_bulk(reply, key);
}

/* Takes [cursor, keys, visited] of SCAN. False: it is an error. */
static bool take_keys(struct client *client, struct request *request,
                      const struct shard_reply *answer, uint64_t *cursor, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != '*' ||
        !resp_value_next(answer->frame, &pos, &value) || !cursor_parse(value.text, cursor) ||
        !resp_value_next(answer->frame, &pos, &value) || value.type != '*')
        return false;
    for (int64_t left = value.count; left > 0; left--) {
        struct resp_value key;
        if (!resp_value_next(answer->frame, &pos, &key) || key.type != '$')
            return false;
        if (!changes_may_read(client, request, key.text))
            continue;
        write_copied(&changes->token.copy, key.text, reply);
        changes->count++;
    }
    return true;
}

/* Has the shard fewer databases? */
static bool is_no_database(const struct shard_reply *answer)
{
    struct bytes text = bytes_of(error_text(ERR_DB_INDEX));
    return answer->frame.len > text.len + 1 &&
           memcmp(answer->frame.data + 1, text.data, text.len) == 0;
}

/* Has the slot just moved away? The owner is known now, so the next call asks the right shard. */
static bool has_moved_away(const struct shard_reply *answer)
{
    static const char again[] = "-TRYAGAIN ";
    return answer->frame.len > sizeof again &&
           memcmp(answer->frame.data, again, sizeof again - 1) == 0;
}

static void go_on_copying(struct client *client, struct request *request, struct reply *reply);

/* request_done_fn */
static void keys_are_here(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    struct changes_copy *copy = &changes->token.copy;
    const struct shard_reply *answer = request_reply(request, 0);
    uint64_t cursor = 0;
    unsigned behind = (unsigned)changes->copy_end + 1;
    if (has_moved_away(answer)) {
        changes_reply(changes, reply);
        return;
    }
    bool has_database = !is_no_database(answer);
    if (has_database && !take_keys(client, request, answer, &cursor, reply)) {
        changes_reply_error(answer, reply);
        return;
    }
    if (cursor)
        copy->cursor = cursor;
    else if (has_database && behind < SLOT_COUNT)
        copy->cursor = cursor_at_slot((uint16_t)behind);
    else
        next_database(changes);
    go_on_copying(client, request, reply);
}

static void ask_keys(struct client *client, struct request *request)
{
    struct changes *changes = changes_of(request);
    const struct changes_options *options = &changes->options;
    const struct changes_copy *copy = &changes->token.copy;
    struct keyspaces *keyspaces = &client->worker->keyspaces;
    const struct shard_map *map = client->worker->snapshot->map;
    unsigned slot = cursor_slot(copy->cursor);
    char texts[3][24];
    changes->copy_end = end_of_wanted(changes, map, slot);
    (void)snprintf(texts[0], sizeof texts[0], "%u", changes->copy_end);
    (void)snprintf(texts[1], sizeof texts[1], "%" PRIu64, copy->cursor);
    (void)snprintf(texts[2], sizeof texts[2], "%u", options->count);
    const struct bytes words[COPY_WORDS] = {
        BYTES("SCREE"), BYTES("UNTIL"),     bytes_of(texts[0]), BYTES("SCAN"),   bytes_of(texts[1]),
        BYTES("COUNT"), bytes_of(texts[2]), BYTES("MATCH"),     options->pattern};
    struct keyspace *keyspace =
        keyspaces_get(keyspaces, client->session.keyspace->name, copy->database);
    request_fan_out_with(request,
                         &(struct fan_out){.keyspace = keyspace,
                                           .shard = (int)shard_map_find(map, (uint16_t)slot),
                                           .argv = words,
                                           .argc = COPY_WORDS - (options->pattern.len ? 0 : 2)},
                         keys_are_here);
    keyspace_unref(keyspaces, keyspace);
}

static void go_on_copying(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    while (changes->token.copy.is_on && !find_wanted_slot(changes))
        next_database(changes);
    bool is_enough = changes->count >= changes->options.count ||
                     reply->out->bytes >= changes->options.bytes ||
                     ++changes->copy_steps > COPY_STEPS_MAX;
    if (changes->token.copy.is_on && !is_enough)
        ask_keys(client, request);
    else
        changes_reply(changes, reply);
}

void changes_copy_step(struct client *client, struct request *request, struct reply *reply)
{
    go_on_copying(client, request, reply);
}
