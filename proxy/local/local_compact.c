/*
 * local_compact.c - SCREE COMPACT at a proxy: START, STATUS and CANCEL go to all shards, and their replies are merged.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/local/local.h"
#include "shared/error_code.h"
#include "shared/reply.h"
#include "shared/resp.h"

#include <stdio.h>

/* The shards' status together. */
struct compact_sums {
    uint32_t silent; /* shards without a status */
    uint32_t running;
    bool is_cancelling;
    int64_t bytes_done;
    int64_t bytes_total;
    int64_t seconds; /* longest of all shards */
    int64_t before;
    int64_t after;
    uint32_t ended;     /* shards whose last compaction has finished */
    uint32_t cancelled; /* shards whose last compaction was cancelled */
    uint32_t failed;    /* shards whose last compaction failed */
};

/* ---- STATUS ---- */

static void add_field(struct compact_sums *sums, struct bytes name, const struct resp_value *value)
{
    if (bytes_is(name, "state")) {
        sums->running += !bytes_is(value->text, "idle");
        sums->is_cancelling |= bytes_is(value->text, "cancelling");
    } else if (bytes_is(name, "bytes-done")) {
        sums->bytes_done += value->count;
    } else if (bytes_is(name, "bytes-total")) {
        sums->bytes_total += value->count;
    } else if (bytes_is(name, "seconds")) {
        sums->seconds = value->count > sums->seconds ? value->count : sums->seconds;
    } else if (bytes_is(name, "last-status")) {
        sums->ended += value->text.len > 0;
        sums->cancelled += bytes_is(value->text, "cancelled");
        sums->failed += bytes_is(value->text, "err");
    } else if (bytes_is(name, "last-disk-bytes-before")) {
        sums->before += value->count;
    } else if (bytes_is(name, "last-disk-bytes-after")) {
        sums->after += value->count;
    }
}

/* Adds a shard's reply, a map; control connections use RESP2, so it is an array. */
static bool add_compact_status(struct compact_sums *sums, struct bytes frame)
{
    struct resp_value name;
    struct resp_value value;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &value) || value.type != '*')
        return false;
    for (int64_t left = value.count; left >= 2; left -= 2) {
        if (!resp_value_next(frame, &pos, &name) || !resp_value_next(frame, &pos, &value))
            return false;
        add_field(sums, name.text, &value);
    }
    return true;
}

static void told(struct client *client, struct request *request, struct reply *reply)
{
    struct compact_sums sums = {0};
    uint32_t count = request_reply_count(request);
    (void)client;
    for (uint32_t i = 0; i < count; i++)
        sums.silent += !add_compact_status(&sums, request_reply(request, i)->frame);
    reply_map(reply, 11);
    reply_pair_text(reply, "state",
                    sums.is_cancelling ? "cancelling"
                    : sums.running     ? "running"
                                       : "idle");
    reply_pair_int(reply, "shards", count);
    reply_pair_int(reply, "shards-running", sums.running);
    reply_pair_int(reply, "shards-silent", sums.silent);
    reply_progress(reply, sums.bytes_done, sums.bytes_total);
    reply_pair_int(reply, "seconds", sums.seconds);
    reply_pair_text(reply, "last-status",
                    sums.failed      ? "err"
                    : sums.cancelled ? "cancelled"
                    : sums.ended     ? "ok"
                                     : "");
    reply_pair_int(reply, "last-disk-bytes-before", sums.before);
    reply_pair_int(reply, "last-disk-bytes-after", sums.after);
}

/* ---- START, CANCEL ---- */

/* A shard that is compacting already is no error, unless all are. */
static void started(struct client *client, struct request *request, struct reply *reply)
{
    uint32_t begun = 0;
    const struct shard_reply *refused = NULL;
    const struct shard_reply *busy = NULL;
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        if (bytes_equal(answer->frame, BYTES("+OK\r\n")))
            begun++;
        else if (error_has_code(answer->frame, "INPROG"))
            busy = answer;
        else
            refused = answer;
    }
    if (!refused && !begun)
        refused = busy;
    if (refused)
        reply_shard_refusal(reply, refused);
    else
        reply_ok(reply);
}

/* Replies how many shards have cancelled their compaction. */
static void compact_cancelled(struct client *client, struct request *request, struct reply *reply)
{
    int64_t count = 0;
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        count += bytes_equal(request_reply(request, i)->frame, BYTES(":1\r\n"));
    reply_int(reply, count);
}

static void fan_out_compact(struct request *request, struct bytes what, request_done_fn *done)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("COMPACT"), what};
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = argv, .argc = 3};
    request_fan_out_with(request, &how, done);
}

void local_scree_compact(struct client *client, struct request *request, struct reply *reply)
{
    struct bytes what = request_argv(request)[2];
    (void)client;
    if (bytes_is(what, "START"))
        fan_out_compact(request, what, started);
    else if (bytes_is(what, "STATUS"))
        fan_out_compact(request, what, told);
    else if (bytes_is(what, "CANCEL"))
        fan_out_compact(request, what, compact_cancelled);
    else
        reply_code(reply, ERR_SYNTAX);
}
