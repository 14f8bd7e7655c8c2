#include "proxy/tool/map_measure.h"

#include "config/option.h"
#include "proxy/client/fan_out.h"
#include "proxy/core/line_fields.h"
#include "proxy/core/node.h"
#include "proxy/core/proxy.h"
#include "proxy/core/request.h"
#include "proxy/core/routes.h"
#include "proxy/run/proxy_run.h"
#include "proxy/run/worker_run.h"
#include "proxy/upstream/leaders.h"
#include "shared/check.h"

#include <stdlib.h>

enum { POLL_MS = 5 };

/* One measurement; `open` requests have no reply yet. */
struct measuring {
    struct map_figures *figures;
    struct proxy_worker *worker;
    struct loop *loop;
    struct timer *stop; /* ends the loop when the worker has stopped */
    struct timer *deadline;
    struct timer *leaders; /* until copies that lead are known, or connect-timeout has passed */
    uint64_t leaders_by_ms;
    uint32_t open;
    bool weighs;
};

/* State of a request for the weights of one shard. */
struct weigh {
    struct measuring *measuring;
    uint32_t shard;
    unsigned first;
};

/* ---- the end ---- */

static void look_for_the_end(void *owner)
{
    struct measuring *measuring = owner;
    if (measuring->worker->thread.is_stopped)
        loop_stop(measuring->loop);
}

static void finish(void *owner)
{
    struct measuring *measuring = owner;
    timer_stop(measuring->leaders);
    leaders_stop(measuring->worker->proxy->leaders);
    proxy_worker_stop(measuring->worker, 0);
    timer_start(measuring->stop, POLL_MS, POLL_MS);
}

static void one_less(struct measuring *measuring)
{
    CHECK(measuring->open > 0);
    if (--measuring->open == 0)
        finish(measuring);
}

/* ---- keys and bytes ---- */

static void ask_weights(struct request *request, uint32_t shard, unsigned first);

/* Reads the lines of a reply to WEIGHTS. Returns the last slot of the reply; SLOT_COUNT: it is no such reply. */
static unsigned read_weights(struct map_figures *figures, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    unsigned first, last = SLOT_COUNT;
    if (!resp_value_next(frame, &pos, &value) || value.type != '*')
        return SLOT_COUNT;
    for (int64_t left = value.count; left > 0; left--) {
        if (!resp_value_next(frame, &pos, &value))
            return SLOT_COUNT;
        if (field_slots(value.text, "slots", &first, &last))
            continue;
        uint64_t slot = field_number(value.text, "slot");
        if (slot >= SLOT_COUNT || !field_text(value.text, "slot").len)
            return SLOT_COUNT;
        figures->keys[slot] = field_number(value.text, "keys");
        figures->bytes[slot] = field_number(value.text, "bytes");
        figures->load[slot] = field_number(value.text, "load");
    }
    return last;
}

/* request_done_fn */
static void weighed(struct client *client, struct request *request, struct reply *reply)
{
    struct weigh *weigh = request_state(request, sizeof *weigh);
    struct map_figures *figures = weigh->measuring->figures;
    unsigned last = read_weights(figures, request_reply(request, 0)->frame);
    (void)client;
    (void)reply;
    if (last + 1 < SLOT_COUNT) {
        weigh->first = last + 1;
        ask_weights(request, weigh->shard, weigh->first);
        return;
    }
    figures->has_weights[weigh->shard] = last + 1 == SLOT_COUNT;
    one_less(weigh->measuring);
}

static void ask_weights(struct request *request, uint32_t shard, unsigned first)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", first);
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("WEIGHTS"), bytes_of(number)};
    const struct fan_out how = {.shard = (int)shard, .lane = LANE_CONTROL, .argv = argv, .argc = 3};
    request_fan_out_with(request, &how, weighed);
}

static void weigh_all(struct measuring *measuring)
{
    for (uint32_t i = 0; i < measuring->figures->truth->wish->shard_count; i++) {
        if (!measuring->figures->truth->shards[i].has_owners)
            continue;
        struct request *request = request_internal(measuring->worker);
        struct weigh *weigh = request_state(request, sizeof *weigh);
        *weigh = (struct weigh){.measuring = measuring, .shard = i};
        measuring->open++;
        ask_weights(request, i, 0);
    }
}

/* ---- owners and moves ---- */

/* The reply to CONFIG GET migration-rate: a name and a size such as 10mb, or an error if the shard has no such option. */
static void read_rate(struct map_figures *figures, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    uint64_t rate;
    if (!resp_value_next(frame, &pos, &value) || value.type != '*' || value.count != 2 ||
        !resp_value_next(frame, &pos, &value) || !resp_value_next(frame, &pos, &value) ||
        !option_number(OPTION_BYTES, value.text, &rate))
        return;
    figures->has_rate = true;
    if (rate && (!figures->rate || rate < figures->rate))
        figures->rate = rate;
}

/* request_done_fn */
static void asked(struct client *client, struct request *request, struct reply *reply)
{
    struct weigh *weigh = request_state(request, sizeof *weigh);
    struct measuring *measuring = weigh->measuring;
    struct map_truth *truth = measuring->figures->truth;
    uint32_t shards = (uint32_t)truth->wish->shard_count;
    (void)client;
    (void)reply;
    for (uint32_t i = 0; i < shards; i++) {
        map_truth_add_owners(truth, i, request_reply(request, i)->frame);
        map_truth_add_moves(truth, i, request_reply(request, shards + i)->frame);
        read_rate(measuring->figures, request_reply(request, 2 * shards + i)->frame);
    }
    map_truth_complete(truth);
    if (measuring->weighs)
        weigh_all(measuring);
    one_less(measuring);
}

static void ask_all(struct measuring *measuring)
{
    const struct bytes owners[] = {BYTES("SCREE"), BYTES("OWNERS")};
    const struct bytes moves[] = {BYTES("SCREE"), BYTES("MOVES")};
    const struct bytes rate[] = {BYTES("CONFIG"), BYTES("GET"), BYTES("migration-rate")};
    const struct fan_out commands[] = {
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = owners, .argc = 2},
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = moves, .argc = 2},
        {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = rate, .argc = 3}};
    struct request *request = request_internal(measuring->worker);
    struct weigh *weigh = request_state(request, sizeof *weigh);
    weigh->measuring = measuring;
    measuring->open = 1;
    request_fan_out_each(request, commands, 3, asked);
}

/* ---- copies ---- */

/* Asks the shards when it is known which of their copies lead; if that takes long, their first addresses. */
static void look_for_leaders(void *owner)
{
    struct measuring *measuring = owner;
    const struct proxy *proxy = measuring->worker->proxy;
    if (!routes_has_leaders(proxy->routes.learned, proxy->snapshot->wish) &&
        loop_mono_ms(measuring->loop) < measuring->leaders_by_ms)
        return;
    timer_stop(measuring->leaders);
    shard_map_unref(measuring->figures->map);
    measuring->figures->map = shard_map_ref(proxy->snapshot->map);
    ask_all(measuring);
}

static void find_leaders(struct measuring *measuring, struct proxy *proxy)
{
    measuring->leaders = timer_new(measuring->loop, look_for_leaders, measuring);
    measuring->leaders_by_ms =
        loop_mono_ms(measuring->loop) + proxy->snapshot->config.upstream_connect_timeout_ms;
    proxy_find_leaders(proxy);
    timer_start(measuring->leaders, 0, POLL_MS);
}

/* ---- running ---- */

static struct map_figures *figures_new(struct shard_map *map)
{
    struct map_figures *figures = calloc(1, sizeof *figures);
    CHECK(figures);
    figures->truth = map_truth_new(map);
    figures->map = shard_map_ref(map);
    figures->has_weights = calloc(map->shard_count, sizeof *figures->has_weights);
    CHECK(figures->has_weights);
    return figures;
}

struct map_figures *map_measure(struct proxy_snapshot *snapshot, bool weighs, uint64_t max_ms)
{
    struct measuring measuring = {.figures = figures_new(snapshot->map), .weighs = weighs};
    struct proxy *proxy;
    measuring.loop = loop_new();
    proxy = proxy_new(measuring.loop, snapshot_ref(snapshot));
    measuring.worker = proxy_add_worker(proxy, measuring.loop);
    measuring.stop = timer_new(measuring.loop, look_for_the_end, &measuring);
    measuring.deadline = timer_new(measuring.loop, finish, &measuring);
    if (max_ms)
        timer_start(measuring.deadline, max_ms, 0);
    find_leaders(&measuring, proxy);
    loop_run(measuring.loop);
    timer_free(measuring.stop);
    timer_free(measuring.deadline);
    timer_free(measuring.leaders);
    proxy_worker_free(measuring.worker);
    proxy_free(proxy);
    loop_free(measuring.loop);
    return measuring.figures;
}

void map_figures_free(struct map_figures *figures)
{
    map_truth_free(figures->truth);
    shard_map_unref(figures->map);
    free(figures->has_weights);
    free(figures);
}

unsigned map_figures_missing(const struct map_figures *figures)
{
    unsigned missing = 0;
    for (size_t i = 0; i < figures->truth->wish->shard_count; i++)
        missing += !figures->has_weights[i];
    return missing;
}
