/*
 * local_scan.c - SCAN and RANDOMKEY over all shards.
 *
 * A SCAN cursor contains a slot (drawing in shared/scan_cursor.h), which determines the shard. So any proxy can continue
 * the SCAN, also after a restart or with a newer map. Shards are visited in the order of their first slots:
 *
 *   0 ─► shard with the lowest slot … its cursors … 0 ─► first slot of the next shard ─► … last shard's 0 ─► 0
 *
 * When a shard has no more keys before COUNT is used up, the proxy requests DBSIZE of all shards. The page then consists
 * of the keys of as many shards as COUNT covers.
 *
 * RANDOMKEY sends DBSIZE to all shards, draws a shard with these weights, and forwards the command to it; so all keys are
 * equally likely.
 */
#include "proxy/fan_out.h"
#include "proxy/local/local.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "proxy/worker.h"
#include "shared/clock.h"
#include "shared/number.h"
#include "shared/scan_cursor.h"

#include <stdio.h>

enum { CURSOR_TEXT_MAX = 24, SCAN_WORDS_MAX = 64, DEFAULT_COUNT = 10 };

/* ---- SCAN ---- */

/* One shard's part of a page. */
struct step {
    int shard;
    unsigned first_slot; /* first slot of the shard */
    int64_t
        count; /* COUNT for this shard: the client's COUNT minus the keys of the shards before */
};

struct scan_state {
    struct step first;
    uint32_t step_max; /* number of shards when the command came */
    uint32_t step_count;
    struct step steps[]; /* the shards of the page, in order */
};

static unsigned first_slot_of(const struct shard_map *map, int shard)
{
    unsigned slot = 0;
    unsigned first = SLOT_COUNT;
    unsigned last;
    return shard_map_next_range(map, shard, &slot, &first, &last) ? first : SLOT_COUNT;
}

/* The shard whose first slot is the lowest one above `slot`; -1: there is none. */
static int shard_behind(const struct shard_map *map, int64_t slot, unsigned *first_slot)
{
    int found = -1;
    for (int i = 0; i < (int)map->shard_count; i++) {
        unsigned first = first_slot_of(map, i);
        if (first < SLOT_COUNT && (int64_t)first > slot && (found < 0 || first < *first_slot)) {
            found = i;
            *first_slot = first;
        }
    }
    return found;
}

/* Where the client's cursor continues. */
static struct step step_at(const struct shard_map *map, uint64_t cursor)
{
    struct step step = {.shard = 0};
    if (cursor == 0)
        step.shard = shard_behind(map, -1, &step.first_slot);
    else
        step.shard = shard_map_find(map, cursor_slot(cursor));
    step.first_slot = first_slot_of(map, step.shard);
    return step;
}

/* Index of the argument after COUNT; 0: there is none. */
static uint32_t count_argument(const struct request *request)
{
    const struct bytes *argv = request_argv(request);
    uint32_t found = 0;
    for (uint32_t i = 2; i + 1 < request_argc(request); i += 2)
        if (bytes_is(argv[i], "count"))
            found = i + 1;
    return found;
}

/* COUNT: how many keys the call may examine; 0: the argument is not an integer, for which the shard replies the error. */
static int64_t count_wanted(const struct request *request)
{
    uint32_t at = count_argument(request);
    int64_t count = DEFAULT_COUNT;
    if (at && !number_parse_int64(request_argv(request)[at], &count))
        return 0;
    return count;
}

/* Reads the cursor of a page; *pos is then where its keys begin. False: the reply is no page. */
static bool page_open(const struct shard_reply *answer, struct bytes *cursor, size_t *pos)
{
    struct resp_value value;
    *pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, pos, &value) || value.type != '*' ||
        value.count != 2 || !resp_value_next(answer->frame, pos, &value) || value.type != '$')
        return false;
    *cursor = value.text;
    return true;
}

static bool is_end(struct bytes cursor)
{
    return bytes_equal(cursor, BYTES("0"));
}

/* The cursor at which the shard after this slot begins. */
static struct bytes cursor_behind(const struct shard_map *map, unsigned slot,
                                  char text[CURSOR_TEXT_MAX])
{
    unsigned first_slot = 0;
    bool more = shard_behind(map, slot, &first_slot) >= 0;
    int len = snprintf(text, CURSOR_TEXT_MAX, "%llu",
                       more ? (unsigned long long)cursor_at_slot((uint16_t)first_slot) : 0ULL);
    return (struct bytes){text, (size_t)len};
}

static void forward_page(const struct shard_reply *answer, struct reply *reply)
{
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

/* ---- a page over several shards ---- */

/* Counts the keys of the page and finds its end: the first shard that has more keys (`used`: number of shards in the
 * page). Returns the first reply that is not a page; NULL: all are pages. */
static const struct shard_reply *measure_page(struct request *request, uint32_t *used,
                                              int64_t *keys, struct bytes *cursor)
{
    *keys = 0;
    for (*used = 0; *used < request_reply_count(request);) {
        const struct shard_reply *answer = request_reply(request, (*used)++);
        struct resp_value head;
        size_t pos;
        if (!page_open(answer, cursor, &pos) || !resp_value_next(answer->frame, &pos, &head) ||
            head.type != '*' || head.is_null)
            return answer;
        *keys += head.count;
        if (!is_end(*cursor))
            break;
    }
    return NULL;
}

static void steps_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct scan_state *state = request_state(request, 0);
    char text[CURSOR_TEXT_MAX];
    struct bytes cursor = {"0", 1};
    uint32_t used;
    int64_t keys;
    const struct shard_reply *bad = measure_page(request, &used, &keys, &cursor);
    if (bad) {
        forward_page(bad, reply);
        return;
    }
    if (is_end(cursor))
        cursor =
            cursor_behind(client->worker->snapshot->map, state->steps[used - 1].first_slot, text);
    reply_array(reply, 2);
    reply_bulk(reply, cursor);
    reply_array(reply, keys);
    for (uint32_t i = 0; i < used; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct resp_value head;
        struct bytes its_cursor;
        size_t pos;
        if (page_open(answer, &its_cursor, &pos) && resp_value_next(answer->frame, &pos, &head) &&
            pos < answer->frame.len)
            out_write_block(reply->out, answer->block, answer->frame.data + pos,
                            answer->frame.len - pos);
    }
}

/* Sends the client's command for one step: the first has the client's cursor, the others begin at their shard's start. */
static void send_step(struct client *client, struct request *request, uint32_t i,
                      const struct step *step)
{
    struct pool *pool = client->worker->pool;
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct bytes words[SCAN_WORDS_MAX];
    char cursor[CURSOR_TEXT_MAX];
    char count[CURSOR_TEXT_MAX];
    uint32_t at = count_argument(request);
    memcpy(words, argv, argc * sizeof words[0]);
    if (i > 0) {
        int len = snprintf(cursor, sizeof cursor, "%llu",
                           (unsigned long long)cursor_at_slot((uint16_t)step->first_slot));
        words[1] = (struct bytes){cursor, (size_t)len};
    }
    int len = snprintf(count, sizeof count, "%lld", (long long)step->count);
    if (!at) {
        words[argc] = BYTES("COUNT");
        at = argc + 1;
        argc += 2;
    }
    words[at] = (struct bytes){count, (size_t)len};
    upstream_send_words(pool_pick(pool, (unsigned)step->shard, LANE_NORMAL, request->resp),
                        request_part(request, i, pool->nodes[step->shard]),
                        client->session.keyspace, words, argc);
}

/* The integer that a shard replied, or -1. */
static int64_t answered_count(const struct shard_reply *answer)
{
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != ':')
        return -1;
    return value.count;
}

/* Plans the shards of the page: the first one, and the shards after it until COUNT is used up. */
static void plan_steps(const struct shard_map *map, struct request *request,
                       struct scan_state *state, int64_t looked_at)
{
    int64_t left = count_wanted(request) - looked_at;
    unsigned slot = state->first.first_slot;
    state->steps[0] = state->first;
    state->steps[0].count = count_wanted(request);
    state->step_count = 1;
    while (left > 0 && state->step_count < state->step_max) {
        struct step step = {.count = left};
        step.shard = shard_behind(map, slot, &step.first_slot);
        if (step.shard < 0 || step.shard >= (int)request_reply_count(request))
            return;
        state->steps[state->step_count++] = step;
        int64_t keys = answered_count(request_reply(request, (uint32_t)step.shard));
        if (keys < 0)
            return;
        left -= keys;
        slot = step.first_slot;
    }
}

/* All shards have replied to DBSIZE. */
static void sizes_known(struct client *client, struct request *request, struct reply *reply)
{
    struct scan_state *state = request_state(request, 0);
    const struct shard_map *map = client->worker->snapshot->map;
    uint64_t cursor = 0;
    (void)reply;
    (void)cursor_parse(request_argv(request)[1], &cursor);
    state->first = step_at(map, cursor); /* the map may have changed */
    /* If earlier pages had a part of this shard's keys, the number of keys left is unknown. They then do not count for
     * COUNT, and the page may get longer. */
    bool is_whole = cursor == 0 || cursor == cursor_at_slot((uint16_t)state->first.first_slot);
    uint32_t shard = (uint32_t)state->first.shard;
    int64_t keys =
        shard < request_reply_count(request) ? answered_count(request_reply(request, shard)) : 0;
    plan_steps(map, request, state, is_whole && keys > 0 ? keys : 0);
    request_wait_parts(request, state->step_count, steps_done);
    for (uint32_t i = 0; i < state->step_count; i++)
        send_step(client, request, i, &state->steps[i]);
}

/* ---- a page of one shard ---- */

/* Replies the shard's page if the shard has more keys, or is the last one. Otherwise the page is made again over as many
 * shards as COUNT covers, for which DBSIZE of all shards is requested. */
static void scan_done(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes DBSIZE[] = {{"DBSIZE", 6}};
    const struct scan_state *state = request_state(request, 0);
    const struct shard_reply *answer = request_reply(request, 0);
    unsigned next_slot;
    struct bytes cursor;
    size_t pos;
    if (!page_open(
            answer, &cursor,
            &pos)) { /* an error: of the shard, or of the proxy because the shard did not reply */
        forward_page(answer, reply);
    } else if (is_end(cursor) && request_argc(request) + 2 <= SCAN_WORDS_MAX &&
               shard_behind(client->worker->snapshot->map, state->first.first_slot, &next_slot) >=
                   0) {
        request_fan_out(request, client->session.keyspace, SHARDS_ALL, DBSIZE, 1, sizes_known);
    } else {
        char text[CURSOR_TEXT_MAX];
        if (is_end(cursor))
            cursor = cursor_behind(client->worker->snapshot->map, state->first.first_slot, text);
        reply_array(reply, 2);
        reply_bulk(reply, cursor);
        out_write_block(reply->out, answer->block, answer->frame.data + pos,
                        answer->frame.len - pos);
    }
}

void local_scan(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_map *map = client->worker->snapshot->map;
    uint64_t cursor;
    if (!cursor_parse(request_argv(request)[1], &cursor)) {
        reply_code(reply, ERR_INVALID_CURSOR);
        return;
    }
    request_keep(request);
    struct scan_state *state = request_state(request, sizeof *state + client->worker->pool->count *
                                                                          sizeof state->steps[0]);
    state->step_max = (uint32_t)client->worker->pool->count;
    state->first = step_at(map, cursor);
    request_fan_out(request, client->session.keyspace, state->first.shard, request_argv(request),
                    request_argc(request), scan_done);
}

/* ---- RANDOMKEY ---- */

static void randomkey_done(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    forward_page(request_reply(request, 0), reply);
}

static void sizes_done(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes ARGV[] = {{"RANDOMKEY", 9}};
    int64_t total = 0;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        int64_t count = answered_count(answer);
        if (count < 0) {
            forward_page(answer, reply);
            return;
        }
        total += count;
    }
    if (total == 0) {
        reply_null(reply);
        return;
    }
    int64_t draw = (int64_t)(clock_random() % (uint64_t)total);
    int shard = 0;
    for (;; shard++) {
        draw -= answered_count(request_reply(request, (uint32_t)shard));
        if (draw < 0)
            break;
    }
    request_fan_out(request, client->session.keyspace, shard, ARGV, 1, randomkey_done);
}

void local_randomkey(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes ARGV[] = {{"DBSIZE", 6}};
    (void)reply;
    request_fan_out(request, client->session.keyspace, SHARDS_ALL, ARGV, 1, sizes_done);
}
