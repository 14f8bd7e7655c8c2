#include "proxy/core/hot_keys.h"

#include "proxy/core/client.h"
#include "proxy/core/hotkeys.h"
#include "proxy/core/worker.h"
#include "shared/clock.h"

#include <string.h>

enum { HEAD_BYTES = 4, SPACE_MAX = 255 };

/* ---- sampling --------------------------------------------------------------------------------- */

void hot_keys_configure(struct proxy_worker *worker)
{
    worker->sampling.left = worker->snapshot->config.hotkeys_sample ? 1 : UINT32_MAX;
}

void hot_keys_stop(struct proxy_worker *worker)
{
    hotkeys_free(worker->sampling.hotkeys);
}

/* Number of requests until the next sample: `hotkeys-sample` on average, and random so that no pipeline is in step
 * with it. */
static uint32_t next_interval(const struct proxy_worker *worker)
{
    uint32_t average = (uint32_t)worker->snapshot->config.hotkeys_sample;
    return average ? 1 + (uint32_t)(clock_random() % (2 * average - 1)) : UINT32_MAX;
}

static void count_hot_key(struct client *client, struct bytes key)
{
    struct proxy_worker *worker = client->worker;
    const struct keyspace *keyspace = client->session.keyspace;
    struct route_rules rules = {.map = worker->snapshot->map, .entry = keyspace->entry};
    uint16_t slot = route_slot(&rules, key);
    char text[HOTKEYS_NAME_MAX];
    size_t space_len = keyspace->name.len < SPACE_MAX ? keyspace->name.len : SPACE_MAX;
    size_t room = sizeof text - HEAD_BYTES - space_len;
    size_t key_len = key.len < room ? key.len : room;
    text[0] = (char)(slot >> 8);
    text[1] = (char)slot;
    text[2] = (char)keyspace->db;
    text[3] = (char)space_len;
    memcpy(text + HEAD_BYTES, keyspace->name.data, space_len);
    memcpy(text + HEAD_BYTES + space_len, key.data, key_len);
    hotkeys_add(worker->sampling.hotkeys, (struct bytes){text, HEAD_BYTES + space_len + key_len},
                loop_mono_ms(worker->loop));
}

void hot_keys_sample(struct client *client, const struct frame *frame)
{
    struct proxy_worker *worker = client->worker;
    const struct bytes *argv = argv_of(worker, frame);
    const struct command *command = command_find_argv(argv, frame->argc);
    struct key_list keys;
    worker->sampling.left = next_interval(worker);
    if (!command || !command_arity_ok(command, frame->argc) || client->is_closed ||
        !client->session.is_authenticated)
        return;
    if (!worker->sampling.hotkeys)
        worker->sampling.hotkeys = hotkeys_new(loop_mono_ms(worker->loop));
    keys_list_init(&keys);
    if (keys_find(command, argv, frame->argc, &keys) != KEYS_INVALID)
        for (uint32_t i = 0; i < keys.count; i++)
            count_hot_key(client, argv[keys.refs[i].index]);
    keys_list_fini(&keys);
}

/* ---- reading the samples ---------------------------------------------------------------------- */

struct hot_key hot_key_parse(struct bytes name)
{
    const unsigned char *head = (const unsigned char *)name.data;
    size_t key_at = HEAD_BYTES + head[3];
    return (struct hot_key){.space = {name.data + HEAD_BYTES, head[3]},
                            .key = {name.data + key_at, name.len - key_at},
                            .slot = (uint16_t)(head[0] << 8 | head[1]),
                            .db = head[2]};
}

void hot_keys_each(struct proxy_worker *worker, hot_key_fn *each, void *owner)
{
    struct hotkeys *hotkeys = worker->sampling.hotkeys;
    uint64_t now_ms = loop_mono_ms(worker->loop);
    double sample = worker->snapshot->config.hotkeys_sample;
    if (!hotkeys)
        return;
    hotkeys_close_windows(hotkeys, now_ms);
    uint64_t covered_ms = hotkeys_covered_ms(hotkeys, now_ms);
    for (uint32_t i = 0; i < hotkeys->name_count; i++) {
        struct bytes name = {hotkeys->names[i].text, hotkeys->names[i].len};
        double count = (double)hotkeys_estimate(hotkeys, name) * sample;
        each(owner, name, count * 1000 / (double)(covered_ms ? covered_ms : 1));
    }
}
