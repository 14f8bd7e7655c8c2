/*
 * local_scan.c - SCAN and RANDOMKEY over all shards.
 *
 * A SCAN cursor holds its slot (shared/scan_cursor.h draws it), so it says by itself which shard goes on: any proxy can
 * continue it, also after a restart or with a newer map. Shards are visited in the order of their first slots:
 *
 *   0 ─► shard with the lowest slot … its cursors … 0 ─► first slot of the next shard ─► … last shard's 0 ─► 0
 *
 * RANDOMKEY asks every shard how many keys it has, draws a shard with these weights, and asks that one; so it is
 * uniform over keys, not over shards.
 */
#include "proxy/local.h"
#include "proxy/worker.h"
#include "shared/clock.h"
#include "shared/scan_cursor.h"

#include <stdio.h>

enum { CURSOR_TEXT_MAX = 24 };

/* ---- SCAN ---- */

struct scan_state {
    int shard;
    unsigned first_slot; /* of that shard */
};

static unsigned first_slot_of(const struct shard_map *map, int shard)
{
    unsigned slot = 0;
    unsigned first = SLOT_COUNT;
    unsigned last;
    return shard_map_next_range(map, shard, &slot, &first, &last) ? first : SLOT_COUNT;
}

/* The shard whose first slot is the lowest above `slot`; -1: there is none. */
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

/* Where the shard's page ends: replaces the cursor in its reply by the client's. */
static void scan_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct scan_state *state = request_state(request, sizeof *state);
    const struct shard_reply *answer = request_reply(request, 0);
    struct resp_value value;
    struct resp_value cursor;
    size_t pos = 0;
    bool is_page = !answer->is_failure && resp_value_next(answer->frame, &pos, &value) &&
                   value.type == '*' && value.count == 2 &&
                   resp_value_next(answer->frame, &pos, &cursor) && cursor.type == '$';
    if (!is_page) { /* an error: the shard's, or ours about it */
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
        return;
    }
    char text[CURSOR_TEXT_MAX];
    struct bytes next_cursor = cursor.text;
    if (bytes_equal(cursor.text, BYTES("0"))) {
        unsigned first_slot = 0;
        bool more =
            shard_behind(client->worker->snapshot->map, state->first_slot, &first_slot) >= 0;
        int len = snprintf(text, sizeof text, "%llu",
                           more ? (unsigned long long)cursor_at_slot((uint16_t)first_slot) : 0ULL);
        next_cursor = (struct bytes){text, (size_t)len};
    }
    reply_array(reply, 2);
    reply_bulk(reply, next_cursor);
    out_write_block(reply->out, answer->block, answer->frame.data + pos, answer->frame.len - pos);
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
    struct scan_state *state = request_state(request, sizeof *state);
    if (cursor == 0)
        state->shard = shard_behind(map, -1, &state->first_slot);
    else
        state->shard = shard_map_find(map, cursor_slot(cursor));
    state->first_slot = first_slot_of(map, state->shard);
    request_fan_out(request, client->session.place, state->shard, request_argv(request),
                    request_argc(request), scan_done);
}

/* ---- RANDOMKEY ---- */

static void randomkey_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *answer = request_reply(request, 0);
    (void)client;
    out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
}

/* The integer a shard answered, or -1. */
static int64_t answered_count(const struct shard_reply *answer)
{
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != ':')
        return -1;
    return value.count;
}

static void sizes_done(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes ARGV[] = {{"RANDOMKEY", 9}};
    int64_t total = 0;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        int64_t count = answered_count(answer);
        if (count < 0) {
            out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
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
    request_fan_out(request, client->session.place, shard, ARGV, 1, randomkey_done);
}

void local_randomkey(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes ARGV[] = {{"DBSIZE", 6}};
    (void)reply;
    request_fan_out(request, client->session.place, SHARDS_ALL, ARGV, 1, sizes_done);
}
