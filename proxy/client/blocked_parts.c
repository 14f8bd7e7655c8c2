/*
 * A blocking command with keys on several shards (BLPOP a b, BZMPOP …): it takes from the first key that has something.
 *
 *           ┌────────────────── a key has something ◄───────────────────┐
 *           ▼                                                           │
 *   SCREE TRY at the shard of a ─ null ─► … of b ─ all null ─► SCREE AWAIT at all shards
 *           │                                                           │
 *           └─ an element, an error: the reply                          └─ timeout, CLIENT UNBLOCK, an error: the reply
 *
 * (1) Only TRY takes an element, at one shard at a time, so an element is never lost or taken twice.
 * (2) AWAIT takes nothing. It replies at once if a key got something since the last TRY, so no wakeup is missed.
 * (3) When one shard has answered AWAIT, the waits at the others are ended. The next round begins when all have answered.
 * (4) Clients that wait on one shard only are served first, because the shard gives them the element itself.
 * (5) After TRIES_MAX tries AWAIT looks for a key with something at all shards at once: a request may have a million keys, each on
 *     another shard than the one before it. Of the keys that the shards name, the first one of the request is tried.
 *
 * With cross-slot = any other commands may have keys on several shards, too. One shard tries the whole command (SCREE
 * ACROSS SCREE TRY). When its reply is null:
 *
 *   BLMOVE a b            SCREE AWAIT at the shard of a, then the next try
 *   XREAD BLOCK, STREAMS  the command itself waits at each shard, with the streams of that shard. When one has replied,
 *                         the other waits end. All entries that came are in the client's reply: XREADGROUP has
 *                         delivered them.
 *
 * XREAD with `$` first reads the last ids of these streams (XREAD … +, as one moment), and waits for later ones. When a key of a
 * wait moves to another shard (bounced.h), all waits end and the search begins again, with the same ids: so no entry is missed.
 */
#include "proxy/client/blocked.h"

#include "proxy/client/across.h"
#include "proxy/core/next_turn.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PREFIX_WORDS = 2,
    AWAIT_WORDS = 4,
    LAST_WORDS = 4,
    ID_BYTES = 44,
    TRIES_MAX = 64,
    PORTION_KEYS = 8 * 1024, /* of a round: half a millisecond or less */
};

/* How the command is tried, and what waits. */
enum search_kind {
    SEARCH_KEYS,    /* the shards try their keys one after the other, SCREE AWAIT waits */
    SEARCH_SOURCE,  /* BLMOVE: one shard tries the command, SCREE AWAIT waits for the first key */
    SEARCH_STREAMS, /* XREAD: one shard tries the command, then it waits at each shard */
};

/* State of the request. */
struct search {
    enum search_kind kind;
    uint16_t slot;        /* the shard of this slot tries the command; not for SEARCH_KEYS */
    uint64_t deadline_ms; /* monotonic; WAIT_FOREVER */
    uint32_t first;       /* argument of the first key */
    uint32_t count;       /* number of keys, which are consecutive arguments */
    uint32_t next;        /* the key with which the next try begins */
    uint32_t tries;
    uint32_t timeout_at;   /* SEARCH_STREAMS: the argument of BLOCK */
    struct round *round;   /* that is being prepared; NULL: none */
    char (*ids)[ID_BYTES]; /* SEARCH_STREAMS: in place of `$`; empty: the id is the client's */
    struct {
        uint16_t slot;
        uint16_t part; /* while it waits: the part of the request with its shard */
    } keys[];
};

static uint32_t shard_of_key(const struct client *client, const struct search *search, uint32_t i)
{
    return shard_map_find(client->worker->snapshot->map, search->keys[i].slot);
}

/* Ends the search: replies `answer`; NULL: replies null, or the error of CLIENT UNBLOCK. Resumes the client. */
static void finish_search(struct client *client, struct reply *reply,
                          const struct shard_reply *answer)
{
    if (answer)
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
    else if (client->blocked.unblock == UNBLOCK_ERROR)
        reply_error(reply, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    else
        reply_null_array(reply);
    blocked_answered(client);
}

/* ---- trying the keys ---- */

static void on_tried(struct client *client, struct request *request, struct reply *reply);

/* Writes the client's command with keys i..end only. */
static void write_try(struct request *request, const struct search *search, uint32_t i,
                      uint32_t end, const struct upstream *upstream, const struct part *part,
                      struct out *out)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    uint32_t behind = search->first + search->count;
    char number[INT64_TEXT_MAX];
    upstream_write_header(upstream, part, out,
                          PREFIX_WORDS + search->first + (end - i) + argc - behind);
    resp_write_word(out, BYTES("SCREE"));
    resp_write_word(out, BYTES("TRY"));
    uint32_t number_at = keys_number_at(request->command);
    for (uint32_t arg = 0; arg < search->first; arg++) {
        bool is_number = number_at && arg == number_at;
        size_t len = is_number ? number_format_int64(number, end - i) : 0;
        resp_write_word(out, is_number ? (struct bytes){number, len} : argv[arg]);
    }
    for (uint32_t key = i; key < end; key++)
        resp_write_word(out, argv[search->first + key]);
    for (uint32_t arg = behind; arg < argc; arg++)
        resp_write_word(out, argv[arg]);
}

/* Tries keys i..end, which are on one shard. */
static void try_keys(struct client *client, struct request *request, uint32_t i, uint32_t end)
{
    const struct search *search = request_state(request, 0);
    struct pool *pool = client->worker->pool;
    uint32_t shard = shard_of_key(client, search, i);
    struct upstream *upstream = pool_pick(pool, shard, LANE_NORMAL, request->resp);
    request_wait_parts(request, 1, on_tried);
    struct part *part = request_part(request, 0, pool->nodes[shard]);
    struct out *out = upstream_begin(upstream, part, client->session.keyspace);
    if (!out)
        return;
    write_try(request, search, i, end, upstream, part, out);
    upstream_commit(upstream, part);
}

/* The id after which the client wants entries of stream i. */
static struct bytes id_of_stream(const struct request *request, const struct search *search,
                                 uint32_t i)
{
    return *search->ids[i] ? bytes_of(search->ids[i])
                           : request_argv(request)[search->first + search->count + i];
}

/* Makes the shard try the whole command, on a connection of its own. */
static void try_across(struct client *client, struct request *request, struct upstream *upstream)
{
    const struct search *search = request_state(request, 0);
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    request_wait_parts(request, 1, on_tried);
    struct part *part = request_part(request, 0, upstream->node);
    part->prefixes |= PREFIX_ACROSS;
    metric_add(client->worker->metrics.process, METRIC_PROXY_ACROSS, 1);
    struct out *out = upstream_begin(upstream, part, client->session.keyspace);
    if (!out)
        return;
    upstream_write_header(upstream, part, out, PREFIX_WORDS + argc);
    resp_write_word(out, BYTES("SCREE"));
    resp_write_word(out, BYTES("TRY"));
    uint32_t ids = search->kind == SEARCH_STREAMS ? search->first + search->count : argc;
    for (uint32_t i = 0; i < argc; i++)
        resp_write_word(out, i < ids ? argv[i] : id_of_stream(request, search, i - ids));
    upstream_commit(upstream, part);
}

static void try_across_again(struct client *client, struct request *request)
{
    const struct search *search = request_state(request, 0);
    uint32_t shard = shard_map_find(client->worker->snapshot->map, search->slot);
    try_across(client, request,
               pool_across_at_once(client->worker->pool, shard, client, request->resp));
}

/* Tries the next keys in a row that are on one shard. */
static void try_next(struct client *client, struct request *request)
{
    struct search *search = request_state(request, 0);
    uint32_t i = search->next;
    uint32_t shard = shard_of_key(client, search, i);
    search->tries++;
    while (search->next < search->count && shard_of_key(client, search, search->next) == shard)
        search->next++;
    try_keys(client, request, i, search->next);
}

/* Shards have answered that keys have an element, named[part]: tries the first of these keys. If it is empty by then, all keys are tried
 * again. */
static void try_ready(struct client *client, struct request *request, const struct bytes *named)
{
    struct search *search = request_state(request, 0);
    const struct bytes *keys = request_argv(request) + search->first;
    uint32_t i = 0;
    if (search->kind != SEARCH_KEYS) {
        try_across_again(client, request);
        return;
    }
    /* a part that has named none has no text: the key "" is not its */
    while (i < search->count - 1 &&
           !(named[search->keys[i].part].data && bytes_equal(keys[i], named[search->keys[i].part])))
        i++;
    search->next = 0;
    try_keys(client, request, i, i + 1);
}

/* ---- waiting at all shards ---- */

/* If keys have moved to other shards (bounced.h), tries them again from the first one. */
static bool search_anew(struct client *client, struct request *request)
{
    struct search *search = request_state(request, 0);
    bool has_bounced = client->blocked.has_bounced;
    client->blocked.has_bounced = false;
    if (!has_bounced || client->blocked.unblock)
        return false;
    search->next = 0;
    if (search->kind == SEARCH_KEYS)
        try_next(client, request);
    else
        try_across_again(client, request);
    return true;
}

static void on_awaited(struct client *client, struct request *request, struct reply *reply);
static void on_streams(struct client *client, struct request *request, struct reply *reply);

/* Sends the shard a command of `argc` arguments that waits, as part i. Clears `out`. */
static void send_wait(struct client *client, struct request *request, uint32_t i, uint32_t shard,
                      struct out *out, uint32_t argc)
{
    struct bytes text = out_take(out);
    const struct frame frame = {.data = text.data, .len = text.len, .argc = argc};
    wait_table_send(pool_waits(client->worker->pool, shard),
                    request_part(request, i, client->worker->pool->nodes[shard]),
                    client->session.keyspace, &frame);
    free((char *)text.data);
}

/* The shards that have keys, and the words of the requests that wait there, one for each part. */
struct round {
    uint32_t generation; /* of the map by which the keys are passed to the shards */
    uint32_t next;       /* key */
    uint32_t count;
    uint16_t shards[SHARD_COUNT_MAX];
    uint32_t keys[SHARD_COUNT_MAX];       /* their number */
    uint16_t part_after[SHARD_COUNT_MAX]; /* the part of each shard, plus one; 0: none */
    struct out names[SHARD_COUNT_MAX];    /* of keys */
    struct out ids[SHARD_COUNT_MAX];      /* SEARCH_STREAMS */
};

static void forget_round(struct search *search)
{
    struct round *round = search->round;
    for (uint32_t i = 0; round && i < round->count; i++) {
        out_clear(&round->names[i]);
        out_clear(&round->ids[i]);
    }
    free(round);
    search->round = NULL;
}

void blocked_forget_search(struct request *request)
{
    forget_round(request_state(request, 0));
}

static struct round *round_of(const struct client *client, struct search *search)
{
    uint32_t generation = client->worker->label.generation;
    if (search->round && search->round->generation != generation)
        forget_round(search);
    if (!search->round) {
        search->round = calloc(1, sizeof *search->round);
        CHECK(search->round);
        search->round->generation = generation;
    }
    return search->round;
}

/* The part of the shard. */
static uint16_t part_of_round(struct round *round, uint32_t shard)
{
    if (!round->part_after[shard]) {
        round->shards[round->count] = (uint16_t)shard;
        out_init(&round->names[round->count]);
        out_init(&round->ids[round->count]);
        round->part_after[shard] = (uint16_t)++round->count;
    }
    return (uint16_t)(round->part_after[shard] - 1);
}

/* Writes the next keys, each to the part of its shard. False: there are more. */
static bool write_some_keys(const struct client *client, struct request *request,
                            struct round *round)
{
    struct search *search = request_state(request, 0);
    uint32_t left = search->count - round->next;
    uint32_t end = round->next + (left < PORTION_KEYS ? left : PORTION_KEYS);
    for (; round->next < end; round->next++) {
        uint32_t i = round->next;
        uint16_t part = part_of_round(round, shard_of_key(client, search, i));
        search->keys[i].part = part;
        round->keys[part]++;
        resp_write_word(&round->names[part], request_argv(request)[search->first + i]);
        if (search->kind == SEARCH_STREAMS)
            resp_write_word(&round->ids[part], id_of_stream(request, search, i));
    }
    return end == search->count;
}

/* Writes the words before the keys: of SCREE AWAIT, or of XREAD and XREADGROUP. Returns the number of all words. */
static uint32_t write_wait_head(const struct request *request, uint32_t keys, struct bytes timeout,
                                struct out *out)
{
    const struct search *search = request_state((struct request *)request, 0);
    const struct bytes *argv = request_argv(request);
    uint32_t words = search->kind == SEARCH_STREAMS ? search->first + 2 * keys : AWAIT_WORDS + keys;
    out_printf(out, "*%u\r\n", words);
    for (uint32_t arg = 0; search->kind == SEARCH_STREAMS && arg < search->first; arg++)
        resp_write_word(out, arg == search->timeout_at ? timeout : argv[arg]);
    if (search->kind == SEARCH_STREAMS)
        return words;
    resp_write_word(out, BYTES("SCREE"));
    resp_write_word(out, BYTES("AWAIT"));
    resp_write_word(out, search->kind == SEARCH_SOURCE ? BYTES("BLPOP") : argv[0]);
    resp_write_word(out, timeout);
    return words;
}

static void send_waits(struct client *client, struct request *request, struct bytes timeout)
{
    struct search *search = request_state(request, 0);
    struct round *round = search->round;
    client->blocked.unsent = round->count;
    request_wait_parts(request, round->count,
                       search->kind == SEARCH_STREAMS ? on_streams : on_awaited);
    for (uint32_t i = 0; i < round->count; i++) {
        struct out out;
        out_init(&out);
        uint32_t words = write_wait_head(request, round->keys[i], timeout, &out);
        out_move(&out, &round->names[i]);
        out_move(&out, &round->ids[i]);
        send_wait(client, request, i, round->shards[i], &out, words);
    }
    forget_round(search);
}

/* request_done_fn: prepares the requests that wait, in turns if there are many keys, and sends them together. */
static void await(struct client *client, struct request *request, struct reply *reply)
{
    struct search *search = request_state(request, 0);
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    char timeout[INT64_TEXT_MAX];
    /* after TRIES_MAX tries there are keys that were not looked at, however short the timeout is */
    bool is_first_look =
        search->kind == SEARCH_KEYS && search->next && search->next < search->count;
    bool is_over = now_ms >= search->deadline_ms;
    if (client->blocked.unblock || (is_over && !is_first_look)) {
        forget_round(search);
        finish_search(client, reply, NULL);
        return;
    }
    if (!write_some_keys(client, request, round_of(client, search))) {
        request_next_turn(request, await);
        return;
    }
    uint64_t timeout_ms = search->deadline_ms == WAIT_FOREVER ? 0
                          : is_over                           ? 1
                                                              : search->deadline_ms - now_ms;
    send_waits(client, request,
               (struct bytes){timeout, number_format_int64(timeout, (int64_t)timeout_ms)});
}

/* request_done_fn: all shards have answered SCREE AWAIT. */
static void on_awaited(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *error = NULL;
    struct bytes named[SHARD_COUNT_MAX];
    bool is_ready = false;
    blocked_round_over(client);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct resp_value value;
        size_t pos = 0;
        bool is_value = resp_value_next(answer->frame, &pos, &value) && !value.is_null;
        bool is_key = is_value && value.type == '$';
        named[i] = is_key ? value.text : (struct bytes){0};
        is_ready |= is_key;
        if (is_value && !is_key && !error)
            error = answer;
    }
    if (is_ready)
        try_ready(client, request, named);
    else if (error || !search_anew(client, request))
        finish_search(client, reply, error);
}

/* Reads the head of a shard's reply to XREAD. False: it has no streams; `is_error` says whether it is an error. */
static bool streams_head(const struct shard_reply *answer, struct resp_value *head, size_t *pos,
                         bool *is_error)
{
    *pos = 0;
    *is_error = true;
    if (!resp_value_next(answer->frame, pos, head))
        return false;
    *is_error = head->type == '-' || head->type == '!';
    return !head->is_null && (head->type == '*' || head->type == '%');
}

/* request_done_fn: all shards have answered XREAD or XREADGROUP. Replies the streams of all of them. */
static void on_streams(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *error = NULL;
    struct resp_value head;
    size_t pos;
    bool is_error;
    uint32_t count = 0;
    blocked_round_over(client);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (streams_head(answer, &head, &pos, &is_error))
            count += (uint32_t)head.count;
        else if (is_error && !error)
            error = answer;
    }
    if (!count && (error || !search_anew(client, request)))
        finish_search(client, reply, error);
    if (!count)
        return;
    if (reply->resp == 3)
        reply_map(reply, count);
    else
        reply_array(reply, count);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (streams_head(answer, &head, &pos, &is_error))
            out_write_block(reply->out, answer->block, answer->frame.data + pos,
                            answer->frame.len - pos);
    }
    blocked_answered(client);
}

/* request_done_fn: a shard has answered SCREE TRY. */
static void on_tried(struct client *client, struct request *request, struct reply *reply)
{
    const struct search *search = request_state(request, 0);
    const struct shard_reply *answer = request_reply(request, 0);
    struct resp_value value;
    size_t pos = 0;
    if (!resp_value_next(answer->frame, &pos, &value) || !value.is_null)
        finish_search(client, reply, answer);
    else if (search->kind == SEARCH_KEYS && search->next < search->count &&
             search->tries < TRIES_MAX)
        try_next(client, request);
    else
        await(client, request, reply);
}

/* ---- the last ids of streams ---- */

static bool wants_last_id(const struct request *request, const struct search *search, uint32_t i)
{
    return bytes_is(id_of_stream(request, search, i), "$");
}

/* Notes the last id of a stream. The reply has the streams in the order of the request, once for each time that they are named: so the
 * look-up goes on at *next, behind the one before. */
static void note_last_id(const struct request *request, struct search *search, uint32_t *next,
                         struct bytes key, struct bytes id)
{
    for (uint32_t looked_at = 0; looked_at < search->count; looked_at++) {
        uint32_t i = *next;
        *next = i + 1 < search->count ? i + 1 : 0;
        if (!wants_last_id(request, search, i) || id.len >= ID_BYTES ||
            !bytes_equal(request_argv(request)[search->first + i], key))
            continue;
        (void)snprintf(search->ids[i], ID_BYTES, "%.*s", (int)id.len, id.data);
        return;
    }
}

/* Reads the reply to XREAD COUNT 1 … +: the last entry of each stream that has entries. False: it is an error. */
static bool read_last_ids(const struct request *request, struct search *search, struct bytes frame)
{
    struct resp_value head;
    struct resp_value key;
    struct resp_value value;
    size_t pos = 0;
    uint32_t next = 0;
    if (!resp_value_next(frame, &pos, &head) || head.type == '-' || head.type == '!')
        return false;
    for (int64_t i = 0; !head.is_null && i < head.count; i++) {
        if (head.type == '*' && !resp_value_next(frame, &pos, &value)) /* key and entries */
            return false;
        if (!resp_value_next(frame, &pos, &key) || !resp_value_next(frame, &pos, &value) ||
            value.count != 1 || !resp_value_next(frame, &pos, &value) ||
            !resp_value_next(frame, &pos, &value))
            return false;
        note_last_id(request, search, &next, key.text, value.text);
        if (!resp_value_skip(frame, &pos)) /* the fields */
            return false;
    }
    return true;
}

/* request_done_fn: the last ids are known; streams without entries have none. After an error the command itself says what it is. */
static void on_last_ids(struct client *client, struct request *request, struct reply *reply)
{
    struct search *search = request_state(request, 0);
    (void)reply;
    bool is_good = read_last_ids(request, search, request_reply(request, 0)->frame);
    for (uint32_t i = 0; is_good && i < search->count; i++)
        if (wants_last_id(request, search, i))
            (void)snprintf(search->ids[i], ID_BYTES, "0-0");
    try_across_again(client, request);
}

/* Asks for the last ids. False: the client has named all ids. */
static bool ask_last_ids(struct client *client, struct request *request, struct upstream *upstream)
{
    const struct search *search = request_state(request, 0);
    uint32_t count = 0;
    bool is_read = bytes_is(request_argv(request)[0], "XREAD"); /* XREADGROUP refuses `$` */
    for (uint32_t i = 0; is_read && i < search->count; i++)
        count += wants_last_id(request, search, i);
    if (!count)
        return false;
    request_wait_parts(request, 1, on_last_ids);
    struct part *part = request_part(request, 0, upstream->node);
    part->prefixes |= PREFIX_ACROSS;
    struct out *out = upstream_begin(upstream, part, client->session.keyspace);
    if (!out)
        return true;
    upstream_write_header(upstream, part, out, LAST_WORDS + 2 * count);
    resp_write_word(out, BYTES("XREAD"));
    resp_write_word(out, BYTES("COUNT"));
    resp_write_word(out, BYTES("1"));
    resp_write_word(out, BYTES("STREAMS"));
    for (uint32_t i = 0; i < search->count; i++)
        if (wants_last_id(request, search, i))
            resp_write_word(out, request_argv(request)[search->first + i]);
    for (uint32_t i = 0; i < count; i++)
        resp_write_word(out, BYTES("+"));
    upstream_commit(upstream, part);
    return true;
}

/* ---- beginning the search ---- */

/* Makes the state of the client's request, with the first `count` of its keys. */
static struct search *make_search(struct client *client, uint32_t count, bool has_streams,
                                  uint64_t patience_ms)
{
    struct request *request = client->blocked.request;
    const struct route_keys *keys = client->worker->scratch.keys;
    size_t each = sizeof(((struct search *)NULL)->keys[0]) + (has_streams ? ID_BYTES : 0);
    request_keep(request);
    struct search *search = request_state(request, sizeof(*search) + count * each);
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    search->deadline_ms = patience_ms == WAIT_FOREVER ? WAIT_FOREVER : now_ms + patience_ms;
    search->first = keys->list.refs[0].index;
    search->count = count;
    search->ids = has_streams ? (char(*)[ID_BYTES]) & search->keys[count] : NULL;
    for (uint32_t i = 0; i < count; i++)
        search->keys[i].slot = keys->slots[i];
    return search;
}

void blocked_begin_search(struct client *client, uint64_t patience_ms)
{
    struct request *request = client->blocked.request;
    (void)make_search(client, client->worker->scratch.keys->list.count, false, patience_ms);
    request_hold(request);
    try_next(client, request);
    request_go(request);
}

/* Finds the argument of BLOCK. The router has found the keys in the same way, so there are as many ids as keys. */
static void find_block(const struct request *request, struct search *search)
{
    struct stream_arguments found;
    CHECK(stream_arguments_find(request_argv(request), request_argc(request), &found));
    CHECK(found.streams_at == search->first && found.count == search->count && found.block_at);
    search->timeout_at = found.block_at;
}

void blocked_begin_across(struct client *client, struct upstream *upstream, uint16_t slot,
                          uint64_t patience_ms)
{
    struct request *request = client->blocked.request;
    bool has_streams = request->command->timeout == TIMEOUT_MS_BLOCK;
    uint32_t count = has_streams ? client->worker->scratch.keys->list.count : 1;
    struct search *search = make_search(client, count, has_streams, patience_ms);
    search->kind = has_streams ? SEARCH_STREAMS : SEARCH_SOURCE;
    search->slot = slot;
    if (has_streams)
        find_block(request, search);
    request_hold(request);
    if (!has_streams || !ask_last_ids(client, request, upstream))
        try_across(client, request, upstream);
    request_go(request);
}

bool blocked_search_is_misplaced(const struct client *client)
{
    const struct pool *pool = client->worker->pool;
    struct request *request = client->blocked.request;
    const struct search *search = request_state(request, 0);
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->keys[i].part >= request_reply_count(request))
            continue; /* no part waits for this key yet: the search is not finished */
        const struct part *part = request_part_at(request, search->keys[i].part);
        if (part->wait && part->upstream->node != pool->nodes[shard_of_key(client, search, i)])
            return true;
    }
    return false;
}
