/*
 * local_scan.c - SCAN over all shards.
 *
 * SCAN goes through the slots in order, 0 to 16383, and asks the owner of each. A cursor has the slot (drawing in
 * shared/scan_cursor.h), so any proxy can continue the SCAN, also after a restart, with a newer map, or after slots have moved: a key
 * that exists all the time is found, because its slot is visited once, at whichever shard has it then.
 *
 *   cursor ─► slot ─► run of slots of one shard ─► SCREE UNTIL last SCAN cursor … ─┬─ more keys: cursor
 *                          ▲                                                      └─ none: the run after it
 *                          └──────────────── while COUNT is not used up ◄─────────────┘
 *
 * A page takes as many runs as COUNT covers. Runs are asked in rounds: one, then two, four … at the same time, which share what is
 * left of COUNT; so empty shards cost few rounds, and no reply is much longer than needed. What shards reply is used in the order
 * of slots, up to the first that has more keys.
 *
 * A shard stops before a slot that it does not own. If it does not own the first one, the request bounces, and goes to the shard that
 * does (proxy/client/bounced.h). Plain Redis servers as shards get SCAN as it is, each after the other.
 */
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/number.h"
#include "shared/scan_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NUMBER_TEXT_MAX = 24,
    DEFAULT_COUNT = 10,
    PREFIX_WORDS = 3,    /* SCREE UNTIL last */
    COUNT_WORDS = 2,     /* COUNT n */
    SCAN_STEPS_MAX = 64, /* runs that are asked at the same time */
    SCAN_COUNT_MIN = 16, /* COUNT of each of them, if they are several */
};

/* Slots of one shard that a round asks it for. */
struct scan_step {
    uint32_t shard;
    unsigned last; /* the last slot of the run */
};

struct scan_state {
    uint64_t cursor; /* where the next round begins; its slot is in the first step */
    int64_t left;    /* of COUNT */
    int64_t keys;    /* in the page so far */
    uint32_t wanted; /* steps of the next round */
    uint32_t step_count;
    struct scan_step steps[SCAN_STEPS_MAX];
};

/* What a shard replied to a step. */
struct scan_page {
    uint64_t cursor; /* 0: the run has no more keys */
    int64_t keys;
    int64_t visited; /* keys that count for COUNT */
    struct bytes items;
};

/* Index of the argument after the last COUNT; 0: there is none. */
static uint32_t count_argument(const struct request *request)
{
    const struct bytes *argv = request_argv(request);
    uint32_t found = 0;
    for (uint32_t i = 2; i + 1 < request_argc(request); i += 2)
        if (bytes_is(argv[i], "count"))
            found = i + 1;
    return found;
}

/* COUNT: how many keys the call may visit; 0 or less: the shard will reply an error. */
static int64_t count_wanted(const struct request *request)
{
    uint32_t at = count_argument(request);
    int64_t count = DEFAULT_COUNT;
    if (at && !number_parse_int64(request_argv(request)[at], &count))
        return 0;
    return count;
}

static uint32_t shard_of_slot(const struct client *client, unsigned slot)
{
    return shard_map_find(client->worker->snapshot->map, (uint16_t)slot);
}

/* The last slot of the run that begins with this slot. */
static unsigned end_of_run(const struct client *client, unsigned slot)
{
    uint32_t shard = shard_of_slot(client, slot);
    while (slot + 1 < SLOT_COUNT && shard_of_slot(client, slot + 1) == shard)
        slot++;
    return slot;
}

/* Has each shard at most one run of slots? */
static bool has_plain_runs(const struct client *client)
{
    const struct shard_map *map = client->worker->snapshot->map;
    unsigned runs = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot = end_of_run(client, slot) + 1)
        runs++;
    return runs <= map->shard_count;
}

/* Reads the client's cursor. With a cursor of an older version, the SCAN went from shard to shard. That is the order of the slots if each
 * shard has one run of them; otherwise the cursor does not show which slots are done, so the SCAN begins anew. */
static bool read_cursor(const struct client *client, struct bytes text, uint64_t *cursor)
{
    if (!cursor_parse(text, cursor))
        return false;
    if (!cursor_is_ordered(*cursor) && local_has_backends(client) && !has_plain_runs(client))
        *cursor = 0;
    return true;
}

static struct bytes number_text(uint64_t number, char text[NUMBER_TEXT_MAX])
{
    int len = snprintf(text, NUMBER_TEXT_MAX, "%" PRIu64, number);
    return (struct bytes){text, (size_t)len};
}

/* ---- a round ---- */

static void plan_round(const struct client *client, struct scan_state *state)
{
    unsigned slot = cursor_slot(state->cursor);
    state->step_count = 0;
    while (slot < SLOT_COUNT && state->step_count < state->wanted) {
        struct scan_step *step = &state->steps[state->step_count++];
        step->shard = shard_of_slot(client, slot);
        step->last = end_of_run(client, slot);
        slot = step->last + 1;
    }
}

/* Sends the client's command with the cursor, the last slot and COUNT of the step. */
static void send_step(struct client *client, struct request *request, uint32_t i, uint64_t cursor,
                      int64_t count)
{
    const struct scan_state *state = request_state(request, sizeof *state);
    const struct scan_step *step = &state->steps[i];
    struct pool *pool = client->worker->pool;
    uint32_t argc = request_argc(request);
    uint32_t before = local_has_backends(client) ? PREFIX_WORDS : 0;
    uint32_t at = count_argument(request);
    char texts[3][NUMBER_TEXT_MAX];
    struct bytes *words = malloc((before + argc + COUNT_WORDS) * sizeof *words);
    CHECK(words);
    struct bytes *argv = words + before;
    memcpy(argv, request_argv(request), argc * sizeof *argv);
    if (before) {
        words[0] = BYTES("SCREE");
        words[1] = BYTES("UNTIL");
        words[2] = number_text(step->last, texts[0]);
    }
    argv[1] = number_text(cursor, texts[1]);
    bool has_pairs = argc % 2 == 0; /* else the shard replies an error */
    if (!at && has_pairs) {
        argv[argc] = BYTES("COUNT");
        at = argc + 1;
        argc += COUNT_WORDS;
    }
    if (at && count > 0)
        argv[at] = number_text((uint64_t)count, texts[2]);
    upstream_send_words(pool_pick(pool, step->shard, LANE_NORMAL, request->resp),
                        request_part(request, i, pool->nodes[step->shard]),
                        client->session.keyspace, words, before + argc);
    free(words);
}

static void round_done(struct client *client, struct request *request, struct reply *reply);

static void send_round(struct client *client, struct request *request)
{
    struct scan_state *state = request_state(request, sizeof *state);
    plan_round(client, state);
    int64_t count = state->left;
    if (state->step_count > 1) {
        count = state->left / state->step_count;
        count = count > SCAN_COUNT_MIN ? count : SCAN_COUNT_MIN;
    }
    request_wait_parts(request, state->step_count, round_done);
    for (uint32_t i = 0; i < state->step_count; i++) {
        uint64_t begin =
            i == 0 ? state->cursor : cursor_at_slot((uint16_t)(state->steps[i - 1].last + 1));
        send_step(client, request, i, begin, count);
    }
}

/* ---- its replies ---- */

/* Reads the reply to a step: [cursor, keys] or [cursor, keys, visited]. False: it is an error. */
static bool read_page(const struct shard_reply *answer, struct scan_page *page)
{
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != '*' ||
        value.count < 2 || value.count > 3)
        return false;
    bool has_visited = value.count == 3;
    if (!resp_value_next(answer->frame, &pos, &value) || value.type != '$' ||
        !cursor_parse(value.text, &page->cursor) || !resp_value_next(answer->frame, &pos, &value) ||
        value.type != '*' || value.is_null)
        return false;
    page->keys = page->visited = value.count;
    size_t begin = pos;
    for (int64_t i = 0; i < page->keys; i++)
        if (!resp_value_next(answer->frame, &pos, &value) || value.type != '$')
            return false;
    page->items = (struct bytes){answer->frame.data + begin, pos - begin};
    if (!has_visited)
        return true;
    if (!resp_value_next(answer->frame, &pos, &value) || value.type != ':')
        return false;
    page->visited = value.count;
    return true;
}

static void copy_answer(const struct shard_reply *answer, struct reply *reply)
{
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

/* Adds the page of a step. False: the page of the client ends with it, or the next round begins at its cursor. */
static bool take_page(struct scan_state *state, const struct scan_step *step,
                      const struct shard_reply *answer, const struct scan_page *page,
                      struct reply *reply)
{
    if (page->items.len)
        out_write_block(reply->out, answer->block, page->items.data, page->items.len);
    state->keys += page->keys;
    state->left -= page->visited;
    state->cursor = page->cursor;
    if (page->cursor)
        return false;
    if (step->last + 1 < SLOT_COUNT)
        state->cursor = cursor_at_slot((uint16_t)(step->last + 1));
    return state->left > 0 && state->cursor;
}

/* Replies the keys that were collected in reply->out. */
static void finish_page(struct client *client, const struct scan_state *state, struct reply *reply)
{
    char text[NUMBER_TEXT_MAX];
    struct out items;
    uint64_t cursor = state->cursor;
    if (cursor && local_has_backends(client))
        cursor = cursor_ordered(cursor);
    out_init(&items);
    out_move(&items, reply->out);
    reply_array(reply, 2);
    reply_bulk(reply, number_text(cursor, text));
    reply_array(reply, state->keys);
    out_move(reply->out, &items);
}

static void round_done(struct client *client, struct request *request, struct reply *reply)
{
    struct scan_state *state = request_state(request, sizeof *state);
    bool goes_on = true;
    for (uint32_t i = 0; goes_on && i < state->step_count; i++) {
        struct scan_page page;
        const struct shard_reply *answer = request_reply(request, i);
        if (!read_page(answer, &page)) {
            out_clear(reply->out);
            copy_answer(answer, reply);
            return;
        }
        goes_on = take_page(state, &state->steps[i], answer, &page, reply);
    }
    state->wanted = goes_on && state->wanted < SCAN_STEPS_MAX ? state->wanted * 2 : 1;
    if (state->cursor && state->left > 0)
        send_round(client, request);
    else
        finish_page(client, state, reply);
}

void local_scan(struct client *client, struct request *request, struct reply *reply)
{
    uint64_t cursor;
    if (!read_cursor(client, request_argv(request)[1], &cursor)) {
        reply_code(reply, ERR_INVALID_CURSOR);
        return;
    }
    request_keep(request);
    struct scan_state *state = request_state(request, sizeof *state);
    state->cursor = cursor_unordered(cursor);
    state->left = count_wanted(request);
    state->wanted = 1;
    send_round(client, request);
}
