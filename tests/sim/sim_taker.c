#include "tests/sim/sim_taker.h"

#include "shared/check.h"
#include "shared/net/loop.h"

#include <stdlib.h>

enum { DATABASE = 9, CONNECT_MS = 1000, PACE_MS = 10 };
enum fate { PUSHED, ACKED, TAKEN, FOUND };

static void fail(struct sim_lists *lists, const char *what, uint64_t element)
{
    if (!lists->why[0])
        (void)snprintf(lists->why, sizeof(lists->why), "%s (%llu)", what,
                       (unsigned long long)element);
}

void sim_lists_init(struct sim_lists *lists, struct sim_cluster *cluster, const bool *may_fail)
{
    *lists = (struct sim_lists){.cluster = cluster, .may_fail = may_fail};
    for (unsigned shard = 0, number = 0; shard < cluster->shard_count; shard++) {
        char *key = lists->keys[shard];
        do
            (void)snprintf(key, SIM_NAMES_MAX, "list:%u", number++);
        while (sim_cluster_shard(cluster, slot_of(bytes_of(key))) != shard);
    }
}

/* ---- replies ---------------------------------------------------------------------------------- */

static void take(struct sim_lists *lists, struct bytes text, enum fate fate)
{
    char copy[32] = "";
    memcpy(copy, text.data, text.len < 31 ? text.len : 31);
    uint64_t element = strtoull(copy, NULL, 10);
    if (element >= lists->pushed) {
        fail(lists, "an element that was never pushed", element);
        return;
    }
    lists->twice += lists->fates[element] == TAKEN;
    lists->fates[element] = (uint8_t)fate;
    lists->taken += fate == TAKEN;
    sim_note("element", element);
}

static void take_answer(struct sim_taker *taker, struct bytes frame)
{
    struct sim_lists *lists = taker->lists;
    struct resp_value value;
    size_t pos = 0;
    bool takes = taker->pending[0].takes;
    uint32_t pushes = taker->pending[0].pushes;
    memmove(taker->pending, taker->pending + 1, sizeof(taker->pending) - sizeof(taker->pending[0]));
    taker->pending_count--;
    CHECK(resp_value_next(frame, &pos, &value));
    if (value.type == '-') {
        bool is_unblocked = strncmp(value.text.data, "UNBLOCKED", 9) == 0;
        bool is_map_new =
            is_unblocked || memmem(value.text.data, value.text.len, "no longer in the map", 20);
        lists->lost += takes && !is_unblocked;
        if (!*lists->may_fail && !is_map_new)
            (void)snprintf(lists->why, sizeof(lists->why), "an error without a fault: %.*s",
                           (int)value.text.len, value.text.data);
    } else if (pushes) {
        if (lists->fates[pushes - 1] == PUSHED)
            lists->fates[pushes - 1] = ACKED;
    } else if (value.is_null) {
        lists->nulls++;
    } else {
        CHECK(value.type == '*' && value.count == 2 && resp_value_next(frame, &pos, &value) &&
              resp_value_next(frame, &pos, &value));
        take(lists, value.text, TAKEN);
    }
}

static void take_list(struct sim_taker *taker, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    taker->pending_count--;
    CHECK(resp_value_next(frame, &pos, &value));
    if (value.type != '*')
        return;
    taker->is_done = true;
    for (int64_t left = value.count; left > 0; left--) {
        CHECK(resp_value_next(frame, &pos, &value));
        take(taker->lists, value.text, FOUND);
    }
}

static void disconnect(struct sim_taker *taker)
{
    if (taker->stream)
        stream_abort(taker->stream);
    taker->stream = NULL;
    for (unsigned i = 0; i < taker->pending_count; i++)
        taker->lists->lost += taker->pending[i].takes;
    taker->pending_count = 0;
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct sim_taker *taker = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&taker->skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = taker->skip.need;
            break;
        }
        struct bytes frame = {data + used, taker->skip.size};
        used += frame.len;
        if (taker->greeted > 0 && *frame.data == '-') { /* its database could not be selected */
            disconnect(taker);
            return len;
        }
        if (taker->greeted > 0)
            taker->greeted--;
        else if (taker->pending_count == 0)
            fail(taker->lists, "received a reply without a request", 0);
        else if (taker->is_audit)
            take_list(taker, frame);
        else
            take_answer(taker, frame);
    }
    return used;
}

/* ---- requests --------------------------------------------------------------------------------- */

static void push(struct sim_taker *taker, const char *key)
{
    struct sim_lists *lists = taker->lists;
    if (lists->pushed == SIM_ELEMENTS_MAX)
        return;
    out_printf(stream_out(taker->stream), "RPUSH %s %u\r\n", key, lists->pushed);
    taker->pending[taker->pending_count++].pushes = ++lists->pushed;
}

static void wait_for(struct sim_taker *taker, const char *key)
{
    static const char *const seconds[] = {"0.01", "0.05", "0.2", "0"};
    out_printf(stream_out(taker->stream), "%s %s %s\r\n", sim_random(2) ? "BLPOP" : "BRPOP", key,
               seconds[sim_random(4)]);
    taker->pending[taker->pending_count++].takes = true;
}

static void act(struct sim_taker *taker)
{
    unsigned shard =
        taker->proxy < 0 ? taker->shard : (unsigned)sim_random(taker->lists->cluster->shard_count);
    const char *key = taker->lists->keys[shard];
    if (taker->pending_count == SIM_TAKER_PENDING_MAX)
        return;
    taker->pending[taker->pending_count].takes = false;
    taker->pending[taker->pending_count].pushes = 0;
    if (taker->is_audit && taker->pending_count == 0) {
        out_printf(stream_out(taker->stream), "LRANGE %s 0 -1\r\n", key);
        taker->pending_count++;
    } else if (!taker->is_audit && sim_random(3)) {
        wait_for(taker, key);
    } else if (!taker->is_audit) {
        push(taker, key);
    }
    stream_send(taker->stream);
}

static void on_end(void *owner, int err)
{
    (void)err;
    disconnect(owner);
}

static void on_open(void *owner, int err)
{
    struct sim_taker *taker = owner;
    bool has_secret = taker->lists->cluster->plan.has_secret;
    if (err) {
        disconnect(taker);
        return;
    }
    if (has_secret)
        out_printf(stream_out(taker->stream),
                   taker->proxy < 0 ? "SCREE AUTH secret\r\n" : "AUTH default default\r\n");
    out_printf(stream_out(taker->stream), "SELECT %d\r\n", DATABASE);
    stream_send(taker->stream);
}

static void connect_now(struct sim_taker *taker)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    const struct sim_cluster *cluster = taker->lists->cluster;
    if (!taker->is_audit) {
        taker->proxy =
            cluster->plan.proxies && sim_random(6) ? (int)sim_random(cluster->plan.proxies) : -1;
        taker->shard = (unsigned)sim_random(cluster->shard_count);
    }
    taker->skip = (struct resp_skip){0};
    taker->greeted = 1 + cluster->plan.has_secret;
    const char *address = taker->proxy >= 0 ? cluster->proxies[taker->proxy].address
                                            : cluster->shards[taker->shard].addresses[0];
    taker->stream = stream_connect(taker->loop, address, CONNECT_MS, &events, on_open, taker);
}

static void on_act(void *owner)
{
    struct sim_taker *taker = owner;
    timer_start(taker->timer, 1 + sim_random(PACE_MS), 0);
    if (taker->is_ending || taker->is_done)
        return;
    if (!taker->stream)
        connect_now(taker);
    else if (!taker->is_audit && sim_random(100) == 0)
        disconnect(taker); /* perhaps while it is blocked */
    else if (taker->greeted == 0)
        act(taker);
}

/* ---- start and end ---------------------------------------------------------------------------- */

void sim_taker_start(struct sim_taker *taker, struct sim_lists *lists, unsigned number)
{
    *taker = (struct sim_taker){.lists = lists, .proxy = -1};
    (void)snprintf(taker->name, sizeof(taker->name), "taker-%u", number);
    sim_set_host(taker->name);
    taker->loop = loop_new();
    taker->timer = timer_new(taker->loop, on_act, taker);
    timer_start(taker->timer, sim_random(4), 0);
}

void sim_taker_start_audit(struct sim_taker *taker, struct sim_lists *lists, unsigned number,
                           unsigned shard)
{
    sim_taker_start(taker, lists, number);
    taker->is_audit = true;
    taker->shard = shard;
}

void sim_taker_fini(struct sim_taker *taker)
{
    disconnect(taker);
    timer_free(taker->timer);
    loop_free(taker->loop);
}

bool sim_lists_check(struct sim_lists *lists)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < lists->pushed; i++)
        missing += lists->fates[i] == ACKED;
    if (lists->twice > 0)
        fail(lists, "elements were taken twice", lists->twice);
    if (missing > lists->lost)
        fail(lists, "acknowledged elements are gone", missing);
    return !lists->why[0];
}
