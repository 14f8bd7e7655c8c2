/*
 * local_map.c - SCREE MAP at a proxy: shows its shard map, compares it with the shards' slots, and controls their moves.
 *
 *   SCREE MAP                        the map of this proxy: what the operator wants
 *   SCREE MAP STATUS                 who owns the slots, what still has to move, and every move: map_truth.h
 *   SCREE MAP PAUSE|RESUME|CANCEL    SCREE MOVES PAUSE|RESUME|CANCEL at every shard
 */
#include "proxy/client/fan_out.h"
#include "proxy/cluster/map_truth.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the map of this proxy ---- */

/* Writes the slots of a shard, "0-5460 7000". */
static void write_slots(const struct shard_map *map, int shard, struct out *out)
{
    unsigned slot = 0;
    unsigned first;
    unsigned last;
    bool is_first = true;
    while (shard_map_next_range(map, shard, &slot, &first, &last)) {
        out_printf(out, first == last ? "%s%u" : "%s%u-%u", is_first ? "" : " ", first, last);
        is_first = false;
    }
}

/* Replies the bytes of `out` as one bulk string and empties it. */
static void reply_and_clear(struct reply *reply, struct out *out)
{
    struct bytes text = {malloc(out->bytes + 1), out->bytes};
    CHECK(text.data);
    out_copy(out, (char *)text.data);
    reply_bulk(reply, text);
    free((char *)text.data);
    out_clear(out);
}

static void reply_slots(struct reply *reply, const struct shard_map *map, int shard)
{
    struct out out;
    out_init(&out);
    write_slots(map, shard, &out);
    reply_and_clear(reply, &out);
}

static void reply_wish(const struct shard_map *map, struct reply *reply)
{
    reply_map(reply, 2);
    reply_bulk_text(reply, "epoch");
    reply_int(reply, (int64_t)map->epoch);
    reply_bulk_text(reply, "shards");
    reply_map(reply, (int64_t)map->shard_count);
    for (int i = 0; i < (int)map->shard_count; i++) {
        reply_bulk_text(reply, map->shards[i].name);
        reply_map(reply, 2);
        reply_bulk_text(reply, "address");
        reply_bulk_text(reply, map->shards[i].address_count ? map->shards[i].addresses[0] : "");
        reply_bulk_text(reply, "slots");
        reply_slots(reply, map, i);
    }
}

/* ---- STATUS ---- */

static void status_done(struct client *client, struct request *request, struct reply *reply)
{
    struct map_truth *truth = map_truth_new(client->worker->snapshot->wish);
    struct out out;
    map_truth_add_all(truth, request);
    out_init(&out);
    map_truth_print(truth, client->worker->snapshot->map, &out);
    reply_verbatim_out(reply, "txt", &out);
    out_clear(&out);
    map_truth_free(truth);
}

static void request_map_status(struct request *request)
{
    const struct bytes owners[] = {BYTES("SCREE"), BYTES("OWNERS")};
    const struct bytes moves[] = {BYTES("SCREE"), BYTES("MOVES")};
    const struct fan_out commands[] = {
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = owners, .argc = 2},
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = moves, .argc = 2}};
    request_fan_out_each(request, commands, 2, status_done);
}

/* ---- PAUSE, RESUME, CANCEL ---- */

/* OK, or the first error with the names of all shards that have not done it. */
static void control_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct shard_reply *refused = NULL;
    uint32_t count = 0;
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (!answer->is_failure && answer->frame.len && answer->frame.data[0] != '-')
            continue;
        count++;
        refused = refused ? refused : answer;
    }
    if (!refused) {
        reply_ok(reply);
        return;
    }
    reply_errorf(reply, "ERR %u of %u shards have not done this, the first is '%s': %.*s", count,
                 request_reply_count(request), refused->shard,
                 (int)(refused->frame.len > 3 ? refused->frame.len - 3 : 0),
                 refused->frame.data + 1);
}

static void send_control(struct request *request, struct bytes word)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("MOVES"), word};
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = argv, .argc = 3};
    request_fan_out_with(request, &how, control_done);
}

void local_scree_map(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    if (argc == 2)
        reply_wish(client->worker->snapshot->wish, reply);
    else if (argc == 3 && bytes_is(argv[2], "STATUS"))
        request_map_status(request);
    else if (argc == 3 && (bytes_is(argv[2], "PAUSE") || bytes_is(argv[2], "RESUME") ||
                           bytes_is(argv[2], "CANCEL")))
        send_control(request, argv[2]);
    else
        reply_code(reply, ERR_SYNTAX);
}
