/*
 * local_changes.c - SCREE CHANGES: which keys have changed, at all shards.
 *
 *   READ token ─► every shard: SCREE CHANGES READ position ─┬─ events ─────────────────────► [token, events, lag]
 *                       ▲                                   ├─ none, keys are being copied ─► SCAN (local_changes_copy.c)
 *                       └──── 20 ms later, while BLOCK ◄────┴─ none
 *
 * A client reads again with the token of the last reply; nothing is kept here. If one shard cannot be read, the whole call fails, and
 * the token that the client has is still valid. Each shard gives its part of COUNT and BYTES.
 */
#include "proxy/local/local_changes.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/node.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/acl/acl.h"
#include "shared/check.h"
#include "shared/error_code.h"
#include "shared/net/loop.h"
#include "shared/slot_ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PAUSE_US = CHANGES_PAUSE_MS * 1000,
    PAUSE_MAX_US = 1000 * 1000, /* the same, if many calls wait */
    ROUND_EVERY_US = 250,       /* a worker begins a round so often, however many calls wait */
    WORDS_MAX = 16,
    KIND_AT = 2,
    KEY_AT = 3,
    SHARD_BYTES_MIN = 1024
};

struct changes *changes_of(struct request *request)
{
    return request_state(request, sizeof(struct changes));
}

bool changes_may_read(struct client *client, struct request *request, struct bytes key)
{
    const struct client_session *session = &client->session;
    return !session->is_limited || !session->user ||
           acl_may_read_key(session->user, request->command, request_argv(request),
                            request_argc(request), key);
}

/* ---- replies ---- */

void changes_reply(struct changes *changes, struct reply *reply)
{
    struct out events;
    struct out token;
    out_init(&events);
    out_init(&token);
    out_move(&events, reply->out);
    changes_token_write(&changes->token, &token);
    if (!changes->is_token)
        reply_array(reply, 3);
    reply_bulk_begin(reply, (int64_t)token.bytes);
    out_move(reply->out, &token);
    reply_bulk_end(reply);
    if (changes->is_token)
        return;
    reply_array(reply, changes->count);
    out_move(reply->out, &events);
    reply_int(reply, changes->token.copy.is_on ? -1 : changes->lag_ms);
}

void changes_reply_error(const struct shard_reply *answer, struct reply *reply)
{
    struct resp_value value = {0};
    size_t pos = 0;
    bool is_read = resp_value_next(answer->frame, &pos, &value);
    const char *space =
        is_read && value.text.len ? memchr(value.text.data, ' ', value.text.len) : NULL;
    out_clear(reply->out);
    if (!answer->is_failure && value.type != '-') {
        reply_errorf(reply,
                     "ERR shard '%s' sent a reply of an unexpected form: does it run an older "
                     "version than the proxy?",
                     answer->node->name);
        return;
    }
    if (answer->is_failure || !space) {
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
        return;
    }
    size_t code = (size_t)(space - value.text.data);
    reply_errorf(reply, "%.*s shard '%s':%.*s", (int)code, value.text.data, answer->node->name,
                 (int)(value.text.len - code), space);
}

/* timer_fn */
static void next_ask_is_due(void *owner)
{
    struct changes *changes = owner;
    timer_free(changes->timer);
    changes->timer = NULL;
    request_wake(changes->request);
}

void changes_pause(struct changes *changes, uint64_t ms, request_done_fn *done)
{
    request_wait(changes->request, done);
    changes->timer = timer_new(changes->request->worker->loop, next_ask_is_due, changes);
    timer_start(changes->timer, ms, 0);
}

/* ---- the position of now ---- */

/* Takes [position, sum of its slots, ranges]; the position if the part has none. False: it is an error. */
static bool take_now(struct changes *changes, const struct shard_reply *answer,
                     struct changes_part *part)
{
    struct resp_value value[4];
    size_t pos = 0;
    for (int i = 0; i < 4; i++)
        if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value[i]) ||
            value[i].type != (i ? '$' : '*'))
            return false;
    if (!changes_count_owned(changes, value[2].text))
        return false;
    if (*part->position)
        return true;
    bool is_in[SLOT_COUNT];
    (void)slot_ranges_read(value[3].text, is_in); /* it may have none */
    for (unsigned slot = 0; changes->loss.is_any && slot < SLOT_COUNT; slot++)
        changes->loss.is_in[slot] |= is_in[slot];
    return changes_part_set(part, value[1].text);
}

/* Takes the positions of all shards. False: an error was replied. */
static bool take_all_now(struct changes *changes, struct reply *reply)
{
    changes->owned = 0;
    changes->owned_sum = 0;
    for (uint32_t i = 0; i < changes->token.count; i++) {
        const struct shard_reply *answer = request_reply(changes->request, i);
        if (!take_now(changes, answer, &changes->token.parts[i])) {
            changes_reply_error(answer, reply);
            return false;
        }
    }
    return true;
}

/* request_done_fn */
static void ask_now_again(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    changes_ask_now(request, reply);
}

/* The shards are not asked at one moment: a slot may have moved, so that the position of its new shard is behind the move, and that of the old one
 * before it. Changes of a key would come in the wrong order. So the positions of a round count if the next one finds the owners unchanged. */
static void check_now(struct changes *changes, struct reply *reply)
{
    changes_note_owners(changes);
    if (changes->token.owners.settled) {
        changes_reply(changes, reply);
        return;
    }
    for (uint32_t i = 0; changes->now_tries && i < changes->token.count; i++)
        changes->token.parts[i].position[0] = 0;
    if (changes->now_tries && !take_all_now(changes, reply))
        return;
    if (++changes->now_tries > NOW_TRIES_MAX)
        reply_error(reply, "TRYAGAIN slots are on their way from one shard to another");
    else if (changes->now_tries == 1)
        changes_ask_now(changes->request, reply);
    else
        changes_pause(changes, CHANGES_PAUSE_MS, ask_now_again);
}

/* request_done_fn: the shards have told their positions. */
static void now_done(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    (void)client;
    if (!take_all_now(changes, reply))
        return;
    if (changes->loss.is_any)
        changes_settle_loss(changes, reply);
    else
        check_now(changes, reply);
}

/* Is the map the one with which the call began? */
static bool is_same_map(const struct changes *changes)
{
    const struct pool *pool = changes->request->worker->pool;
    bool is_same = pool->nodes && pool->count == changes->token.count;
    for (uint32_t i = 0; is_same && i < changes->token.count; i++)
        is_same = strcmp(pool->nodes[i]->name, changes->token.parts[i].name) == 0;
    return is_same;
}

bool changes_check_map(const struct changes *changes, struct reply *reply)
{
    if (is_same_map(changes))
        return true;
    reply_error(reply, "TRYAGAIN the shard map has changed during the call: send it again, "
                       "with the same token");
    return false;
}

void changes_ask_now(struct request *request, struct reply *reply)
{
    static const struct bytes words[] = {{"SCREE", 5}, {"CHANGES", 7}, {"TOKEN", 5}};
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_LONG, .argv = words, .argc = 3};
    /* positions that were lost are forgotten, so no token can be replied */
    if (changes_check_map(changes_of(request), reply))
        request_fan_out_with(request, &how, now_done);
}

/* ---- after a loss ---- */

static bool is_loss(const struct shard_reply *answer)
{
    return error_has_code(answer->frame, "CHANGESLOST") ||
           error_has_code(answer->frame, "CHANGESREWOUND");
}

/* Has a shard lost changes, and does the client want to go on all the same? Forgets the positions that are not valid any more. */
static bool drop_lost_positions(struct changes *changes)
{
    for (uint32_t i = 0; changes->options.copies_lost && i < changes->token.count; i++)
        if (is_loss(request_reply(changes->request, i))) {
            changes->token.parts[i].position[0] = 0;
            changes->loss.is_any = true;
        }
    return changes->loss.is_any;
}

/* ---- a round ---- */

static uint32_t add_pair(struct bytes *words, uint32_t count, const char *name, struct bytes value)
{
    words[count] = bytes_of(name);
    words[count + 1] = value;
    return count + 2;
}

/* Sends READ to a shard, from its position on; the others were read up to this time. */
static void send_read(struct request *request, uint32_t part, uint32_t shard, uint64_t past_us)
{
    struct changes *changes = changes_of(request);
    struct pool *pool = request->worker->pool;
    const struct changes_options *options = &changes->options;
    uint32_t shards = changes->token.count;
    char numbers[4][24];
    struct bytes words[WORDS_MAX] = {BYTES("SCREE"), BYTES("CHANGES"), BYTES("READ"),
                                     bytes_of(changes->token.parts[shard].position)};
    size_t bytes = options->bytes / shards;
    (void)snprintf(numbers[0], sizeof numbers[0], "%u", options->count / shards + 1);
    (void)snprintf(numbers[1], sizeof numbers[1], "%zu",
                   bytes > SHARD_BYTES_MIN ? bytes : SHARD_BYTES_MIN);
    (void)snprintf(numbers[2], sizeof numbers[2], "%d", options->database);
    (void)snprintf(numbers[3], sizeof numbers[3], "%" PRIu64, past_us);
    uint32_t count = add_pair(words, 4, "COUNT", bytes_of(numbers[0]));
    count = add_pair(words, count, "BYTES", bytes_of(numbers[1]));
    count = add_pair(words, count, "PAST", bytes_of(numbers[3]));
    if (options->slots.len)
        count = add_pair(words, count, "SLOTS", options->slots);
    if (options->database >= 0)
        count = add_pair(words, count, "DB", bytes_of(numbers[2]));
    if (options->pattern.len)
        count = add_pair(words, count, "MATCH", options->pattern);
    upstream_send_words(pool_pick(pool, shard, LANE_LONG, request->resp),
                        request_part(request, part, pool->nodes[shard]),
                        request->client->session.keyspace, words, count);
}

/* Reads an event, an array. *key is set if it is one of a key, else its data is NULL. False: it is not as expected. */
static bool read_event(struct bytes frame, size_t *pos, struct bytes *key)
{
    struct resp_value array;
    struct resp_value value = {0};
    bool is_of_key = false;
    if (!resp_value_next(frame, pos, &array) || array.type != '*' || array.count <= KEY_AT)
        return false;
    for (int64_t i = 0; i <= KEY_AT; i++) {
        if (!resp_value_next(frame, pos, &value))
            return false;
        if (i == KIND_AT)
            is_of_key = bytes_is(value.text, "changed") || bytes_is(value.text, "del");
    }
    *key = is_of_key ? value.text : (struct bytes){0};
    for (int64_t i = KEY_AT + 1; i < array.count; i++)
        if (!resp_value_skip(frame, pos))
            return false;
    return true;
}

/* Adds the events that the client may see. False: they are not as expected. */
static bool take_events(struct client *client, struct request *request,
                        const struct shard_reply *answer, int64_t count, size_t *pos,
                        struct reply *reply)
{
    for (int64_t i = 0; i < count; i++) {
        struct bytes key;
        size_t begin = *pos;
        if (!read_event(answer->frame, pos, &key))
            return false;
        if (key.data && !changes_may_read(client, request, key))
            continue;
        out_write_block(reply->out, answer->block, answer->frame.data + begin, *pos - begin);
        changes_of(request)->count++;
    }
    return true;
}

/* Takes a number of a shard's reply. */
static bool take_int(const struct shard_reply *answer, size_t *pos, int64_t *number)
{
    struct resp_value value;
    bool is_int = resp_value_next(answer->frame, pos, &value) && value.type == ':';
    if (is_int)
        *number = value.count;
    return is_int;
}

/* How far the shard was read: lag, sum of its slots, time, time of the next batch if it must wait. */
static bool take_reach(struct changes *changes, const struct shard_reply *answer, size_t *pos,
                       struct changes_reach *reach)
{
    struct resp_value sum;
    int64_t reached_us, early_us;
    bool is_late = changes->late_count > 0; /* its slots were counted in this round */
    if (!take_int(answer, pos, &reach->lag_ms) || !resp_value_next(answer->frame, pos, &sum) ||
        sum.type != '$' || (!is_late && !changes_count_owned(changes, sum.text)) ||
        !take_int(answer, pos, &reached_us) || !take_int(answer, pos, &early_us))
        return false;
    reach->reached_us = (uint64_t)reached_us;
    reach->early_us = (uint64_t)early_us;
    return true;
}

/* Adds a shard's reply: [position, events, and how far it was read]. False: it is an error. */
static bool take_read(struct client *client, struct request *request,
                      const struct shard_reply *answer, uint32_t shard, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != '*' ||
        !resp_value_next(answer->frame, &pos, &value) || value.type != '$' ||
        !changes_part_set(&changes->token.parts[shard], value.text) ||
        !resp_value_next(answer->frame, &pos, &value) || value.type != '*' ||
        !take_events(client, request, answer, value.count, &pos, reply))
        return false;
    return take_reach(changes, answer, &pos, &changes->reach[shard]);
}

/* request_done_fn: the pause between two rounds is over. */
static void next_round(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    (void)client;
    if (is_same_map(changes))
        changes_send_reads(request);
    else
        changes_reply(changes, reply);
}

/* How long the call waits for its next round. Rounds of a worker follow each other: else a thousand clients that wait, for nothing, would
 * take a worker and a good part of each shard. */
static uint64_t pause_ms(const struct changes *changes, struct proxy_worker *worker)
{
    uint64_t now_us = loop_mono_us(worker->loop);
    uint64_t at_us = worker->requests.changes_us + ROUND_EVERY_US;
    if (at_us < now_us + PAUSE_US)
        at_us = now_us + PAUSE_US;
    if (at_us > now_us + PAUSE_MAX_US)
        at_us = now_us + PAUSE_MAX_US;
    worker->requests.changes_us = at_us;
    uint64_t end_us = changes->until_ms * 1000;
    if (at_us > end_us)
        at_us = end_us > now_us ? end_us : now_us;
    return (at_us - now_us) / 1000;
}

/* Can a shard be read on at once? One that waits for others cannot: their clocks must come after first. */
static bool can_read_on(const struct changes *changes)
{
    for (uint32_t i = 0; i < changes->token.count; i++)
        if (changes->reach[i].lag_ms && !changes->reach[i].early_us)
            return true;
    return false;
}

/* All shards were read. */
static void end_round(struct client *client, struct changes *changes, struct reply *reply)
{
    struct proxy_worker *worker = client->worker;
    changes->lag_ms = 0;
    for (uint32_t i = 0; i < changes->token.count; i++)
        if (changes->reach[i].lag_ms > changes->lag_ms)
            changes->lag_ms = changes->reach[i].lag_ms;
    if (!changes->lag_ms)
        changes_note_owners(changes);
    if (changes->token.copy.is_on)
        changes_copy_step(client, changes->request, reply);
    else if (changes->count || loop_mono_ms(worker->loop) >= changes->until_ms ||
             worker->thread.is_stopping)
        changes_reply(changes, reply);
    else
        changes_pause(changes, can_read_on(changes) ? 0 : pause_ms(changes, worker), next_round);
}

/* request_done_fn: shards that had to wait for others were read on. After an error the first replies count, and the next call gets it. */
static void late_ended(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    for (uint32_t i = 0; i < changes->late_count; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        bool is_refused = answer->is_failure || !answer->frame.len || answer->frame.data[0] == '-';
        if (!is_refused && !take_read(client, request, answer, changes->late[i], reply)) {
            changes_reply_error(answer, reply);
            return;
        }
    }
    end_round(client, changes, reply);
}

/* Reads on at shards that had to wait for others. */
static void send_late_reads(struct request *request)
{
    struct changes *changes = changes_of(request);
    request_wait_parts(request, changes->late_count, late_ended);
    for (uint32_t i = 0; i < changes->late_count; i++)
        send_read(request, i, changes->late[i], changes_past_us(changes, changes->late[i]));
}

/* request_done_fn */
static void round_ended(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    if (drop_lost_positions(changes)) {
        changes_ask_now(request, reply);
        return;
    }
    changes->owned = 0;
    changes->owned_sum = 0;
    changes->late_count = 0;
    for (uint32_t i = 0; i < changes->token.count; i++)
        if (!take_read(client, request, request_reply(request, i), i, reply)) {
            changes_reply_error(request_reply(request, i), reply);
            return;
        }
    changes_find_late(changes);
    if (changes->late_count && is_same_map(changes))
        send_late_reads(request);
    else
        end_round(client, changes, reply);
}

void changes_send_reads(struct request *request)
{
    bool is_handler = request->progress.is_running;
    uint32_t shards = changes_of(request)->token.count;
    request_wait_parts(request, shards, round_ended);
    if (!is_handler)
        request_hold(request);
    for (uint32_t i = 0; i < shards; i++)
        send_read(request, i, i, 0);
    if (!is_handler)
        request_go(request);
}

/* ---- the calls ---- */

/* Makes the state of a call. */
static struct changes *begin_changes(struct client *client, struct request *request)
{
    const struct pool *pool = client->worker->pool;
    uint32_t count = (uint32_t)pool->count;
    struct changes *changes;
    size_t of_shard = sizeof *changes->token.parts + sizeof *changes->reach + sizeof *changes->late;
    request_keep(request);
    changes = request_state(request, sizeof *changes + count * of_shard);
    changes->request = request;
    changes->reach = (struct changes_reach *)(changes + 1);
    changes->late = (uint32_t *)(changes->reach + count);
    changes->token.parts = (struct changes_part *)(changes->late + count);
    changes->token.count = count;
    for (uint32_t i = 0; i < count; i++)
        (void)snprintf(changes->token.parts[i].name, sizeof changes->token.parts[i].name, "%s",
                       pool->nodes[i]->name);
    return changes;
}

/* Goes on from a token. */
static void read_from_token(struct changes *changes, struct bytes token, struct reply *reply)
{
    if (!changes_token_read(token, &changes->token))
        reply_error(reply,
                    "ERR this is no token of SCREE CHANGES READ: expected 0, $ or the token of "
                    "the last reply");
    else if (changes->token.copy.is_on && !changes_copy_fits(changes))
        reply_error(reply,
                    "ERR keys are being copied with other filters: SLOTS, DB and MATCH must be "
                    "the same until the copy has ended");
    else if (!*changes->token.removed)
        changes_send_reads(changes->request);
    else {
        changes->loss.is_any = true;
        changes_ask_now(changes->request, reply);
    }
}

static void begin_read(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = begin_changes(client, request);
    struct bytes from = request_argv(request)[3];
    const char *error = changes_options_read(request_argv(request) + 4, request_argc(request) - 4,
                                             &changes->options);
    changes->until_ms = loop_mono_ms(client->worker->loop) + changes->options.block_ms;
    if (!error && changes->options.has_past)
        error = "ERR PAST is for a proxy that reads at a shard";
    if (error) {
        reply_error(reply, error);
    } else if (bytes_is(from, "$") || bytes_is(from, "0")) {
        if (bytes_is(from, "0"))
            changes_copy_begin(changes);
        changes_ask_now(request, reply);
    } else {
        read_from_token(changes, from, reply);
    }
}

static void begin_token_at(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = begin_changes(client, request);
    uint64_t time_us;
    changes->is_token = true;
    changes->at_ms = request_argv(request)[4];
    const char *error = changes_time_read(changes->at_ms, &time_us);
    if (error)
        reply_error(reply, error);
    else
        changes_ask_time(request, reply);
}

/* request_done_fn: name and state of each shard. */
static void info_is_here(struct client *client, struct request *request, struct reply *reply)
{
    uint32_t shards = request_reply_count(request);
    (void)client;
    reply_map(reply, shards);
    for (uint32_t i = 0; i < shards; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        reply_bulk_text(reply, answer->node->name);
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
    }
}

void local_scree_changes(struct client *client, struct request *request, struct reply *reply)
{
    struct bytes what = request_argv(request)[2];
    uint32_t argc = request_argc(request);
    if (!local_has_backends(client)) {
        reply_error(reply, "ERR the shards are plain Redis servers, which have no log of changes");
    } else if (bytes_is(what, "read") && argc > 3) {
        begin_read(client, request, reply);
    } else if (bytes_is(what, "token") && argc == 3) {
        begin_changes(client, request)->is_token = true;
        changes_ask_now(request, reply);
    } else if (bytes_is(what, "token") && argc == 5 && bytes_is(request_argv(request)[3], "at")) {
        begin_token_at(client, request, reply);
    } else if (bytes_is(what, "info") && argc == 3) {
        request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), argc, info_is_here);
    } else {
        reply_error(reply, "ERR expected SCREE CHANGES READ token|0|$ [options], TOKEN [AT ms] or "
                           "INFO");
    }
}
