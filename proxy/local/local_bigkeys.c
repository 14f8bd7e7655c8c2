/*
 * local_bigkeys.c - SCREE BIGKEYS: the keys that take most memory, by a bounded scan of the shards.
 *
 *   DBSIZE ─► all shards
 *   shard 0: SCAN ─► page of keys ─► MEMORY USAGE, one after another ─► SCAN … ─► its share of SAMPLES is used up
 *   shard 1: …                                          └─► the biggest are kept
 *   finally TYPE of each of these
 *
 * Only one small command is in flight at a time, so other clients are hardly affected. In a shard with more keys than its
 * share of SAMPLES the scan begins at a random slot: then the reply is a sample. Memory is bounded (struct scan).
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "proxy/upstream/pool.h"
#include "shared/clock.h"
#include "shared/number.h"
#include "shared/scan_cursor.h"

#include <stdio.h>

enum {
    COUNT_DEFAULT = 10,
    COUNT_MAX = 100,
    SAMPLES_DEFAULT = 5000,
    SAMPLES_MAX = 10 * 1000 * 1000,
    PAGE_BYTES = 64 * 1024,
    KEY_MAX = 1024, /* a longer key is shown truncated */
    NAME_MAX_BYTES = 64,
};

/* One of the biggest keys. */
struct big {
    uint64_t bytes;
    uint32_t shard; /* index in the map */
    uint32_t len;   /* of the key; more than KEY_MAX: it is truncated */
    char shard_name[NAME_MAX_BYTES];
    char type[16];
    char key[KEY_MAX];
};

struct scan {
    uint32_t wanted;
    uint32_t count; /* in `big`, sorted by size */
    uint32_t typed; /* entries whose type is known */
    uint32_t shard;
    int64_t share; /* keys to examine in each shard */
    int64_t left;  /* keys left to examine in this shard */
    uint64_t sizes[SHARD_COUNT_MAX];
    uint32_t shards; /* when the scan began */
    uint64_t keys;
    uint64_t sampled;
    uint64_t silent; /* shards that did not reply */
    char cursor[32];
    uint32_t page_len;
    uint32_t page_at;
    char page[PAGE_BYTES]; /* u32 length, key, … */
    struct big big[];
};

static size_t scan_size(uint32_t wanted)
{
    return sizeof(struct scan) + wanted * sizeof(struct big);
}

/* The state of the request, which local_scree_bigkeys has allocated: the size given here is ignored. */
static struct scan *scan_of(struct request *request)
{
    return request_state(request, scan_size(COUNT_MAX));
}

static request_done_fn on_page;
static request_done_fn on_usage;
static request_done_fn on_type;

/* ---- the reply -------------------------------------------------------------------------------- */

static void reply_big(const struct big *big, struct reply *reply)
{
    reply_map(reply, 4);
    reply_bulk_text(reply, "key");
    reply_bulk(reply, (struct bytes){big->key, big->len < KEY_MAX ? big->len : KEY_MAX});
    reply_bulk_text(reply, "bytes");
    reply_int(reply, (int64_t)big->bytes);
    reply_bulk_text(reply, "type");
    reply_bulk_text(reply, big->type);
    reply_bulk_text(reply, "shard");
    reply_bulk_text(reply, big->shard_name);
}

static void reply_bigkeys(const struct scan *scan, struct reply *reply)
{
    reply_map(reply, 4);
    reply_bulk_text(reply, "keys");
    reply_int(reply, (int64_t)scan->keys);
    reply_bulk_text(reply, "sampled");
    reply_int(reply, (int64_t)scan->sampled);
    reply_bulk_text(reply, "silent-shards");
    reply_int(reply, (int64_t)scan->silent);
    reply_bulk_text(reply, "biggest");
    reply_array(reply, scan->count);
    for (uint32_t i = 0; i < scan->count; i++)
        reply_big(&scan->big[i], reply);
}

/* ---- requests to the shards ------------------------------------------------------------------- */

/* Is the shard still in the map? */
static bool has_shard(const struct request *request, uint32_t shard)
{
    return shard < request->worker->pool->count;
}

static void ask_type(struct request *request, struct scan *scan, struct reply *reply)
{
    while (scan->typed < scan->count) {
        const struct big *big = &scan->big[scan->typed];
        const struct bytes words[] = {BYTES("TYPE"), {big->key, big->len}};
        if (big->len <= KEY_MAX && has_shard(request, big->shard)) {
            request_fan_out(request, NULL, (int)big->shard, words, 2, on_type);
            return;
        }
        scan->typed++;
    }
    reply_bigkeys(scan, reply);
}

static void ask_page(struct request *request, struct scan *scan)
{
    const struct bytes words[] = {BYTES("SCAN"), bytes_of(scan->cursor), BYTES("COUNT"),
                                  BYTES("100")};
    request_fan_out(request, NULL, (int)scan->shard, words, 4, on_page);
}

/* Where the scan begins in the shard. */
static void choose_cursor(const struct request *request, struct scan *scan)
{
    const struct shard_map *map = request->worker->snapshot->map;
    uint64_t cursor = 0;
    for (int tries = 0; tries < 1000 && scan->sizes[scan->shard] > (uint64_t)scan->share; tries++) {
        uint16_t slot = (uint16_t)(clock_random() % SLOT_COUNT);
        if (shard_map_find(map, slot) != scan->shard)
            continue;
        cursor = cursor_at_slot(slot);
        break;
    }
    (void)snprintf(scan->cursor, sizeof scan->cursor, "%llu", (unsigned long long)cursor);
}

/* The next shard that has keys; after the last one the scan ends. */
static void next_shard(struct request *request, struct scan *scan, struct reply *reply)
{
    while (++scan->shard < scan->shards && has_shard(request, scan->shard)) {
        if (scan->sizes[scan->shard] == 0)
            continue;
        scan->left = scan->share;
        choose_cursor(request, scan);
        ask_page(request, scan);
        return;
    }
    ask_type(request, scan, reply);
}

/* The key at page_at. */
static struct bytes page_key(const struct scan *scan)
{
    uint32_t len;
    memcpy(&len, scan->page + scan->page_at, sizeof len);
    return (struct bytes){scan->page + scan->page_at + sizeof len, len};
}

/* Continues with the next key of the page, the next page, or the next shard. */
static void continue_scan(struct request *request, struct scan *scan, struct reply *reply)
{
    bool is_there = has_shard(request, scan->shard);
    if (is_there && scan->left > 0 && scan->page_at < scan->page_len) {
        const struct bytes words[] = {BYTES("MEMORY"), BYTES("USAGE"), page_key(scan)};
        request_fan_out(request, NULL, (int)scan->shard, words, 3, on_usage);
    } else if (is_there && scan->left > 0 && strcmp(scan->cursor, "0") != 0) {
        ask_page(request, scan);
    } else {
        next_shard(request, scan, reply);
    }
}

/* ---- replies of the shards -------------------------------------------------------------------- */

static void on_type(struct client *client, struct request *request, struct reply *reply)
{
    struct scan *scan = scan_of(request);
    struct big *big = &scan->big[scan->typed++];
    struct resp_value value;
    size_t pos = 0;
    (void)client;
    if (resp_value_next(request_reply(request, 0)->frame, &pos, &value) && value.type == '+')
        (void)snprintf(big->type, sizeof big->type, "%.*s", (int)value.text.len, value.text.data);
    ask_type(request, scan, reply);
}

/* Adds the key if it is among the biggest; SCAN may return a key twice. */
static void keep_big(struct scan *scan, struct bytes key, uint64_t bytes, const char *shard_name)
{
    uint32_t at = scan->count;
    for (uint32_t i = 0; i < scan->count; i++)
        if (scan->big[i].shard == scan->shard && scan->big[i].len == key.len &&
            memcmp(scan->big[i].key, key.data, key.len < KEY_MAX ? key.len : KEY_MAX) == 0)
            return;
    while (at > 0 && scan->big[at - 1].bytes < bytes)
        at--;
    if (at == scan->wanted)
        return;
    if (scan->count < scan->wanted)
        scan->count++;
    memmove(&scan->big[at + 1], &scan->big[at], (scan->count - 1 - at) * sizeof scan->big[0]);
    struct big *big = &scan->big[at];
    *big = (struct big){.bytes = bytes, .shard = scan->shard, .len = (uint32_t)key.len};
    (void)snprintf(big->shard_name, sizeof big->shard_name, "%s", shard_name);
    memcpy(big->key, key.data, key.len < KEY_MAX ? key.len : KEY_MAX);
}

static void on_usage(struct client *client, struct request *request, struct reply *reply)
{
    struct scan *scan = scan_of(request);
    const struct shard_reply *answer = request_reply(request, 0);
    struct bytes key = page_key(scan);
    struct resp_value value;
    size_t pos = 0;
    (void)client;
    scan->page_at += (uint32_t)(sizeof(uint32_t) + key.len);
    scan->left--;
    if (resp_value_next(answer->frame, &pos, &value) && value.type == ':') {
        scan->sampled++;
        keep_big(scan, key, (uint64_t)value.count, answer->node->name);
    }
    continue_scan(request, scan, reply);
}

/* Copies the keys of a page; those that do not fit are skipped. False: the reply is no page. */
static bool add_page(struct scan *scan, const struct shard_reply *answer)
{
    struct resp_value value;
    size_t pos = 0;
    scan->page_at = scan->page_len = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != '*' ||
        value.count != 2 || !resp_value_next(answer->frame, &pos, &value) ||
        value.text.len >= sizeof scan->cursor)
        return false;
    memcpy(scan->cursor, value.text.data, value.text.len);
    scan->cursor[value.text.len] = 0;
    if (!resp_value_next(answer->frame, &pos, &value))
        return false;
    for (int64_t left = value.count; left > 0; left--) {
        struct resp_value key;
        if (!resp_value_next(answer->frame, &pos, &key))
            return false;
        uint32_t len = (uint32_t)key.text.len;
        if (scan->page_len + sizeof len + len > PAGE_BYTES)
            continue;
        memcpy(scan->page + scan->page_len, &len, sizeof len);
        memcpy(scan->page + scan->page_len + sizeof len, key.text.data, len);
        scan->page_len += (uint32_t)(sizeof len + len);
    }
    return true;
}

static void on_page(struct client *client, struct request *request, struct reply *reply)
{
    struct scan *scan = scan_of(request);
    (void)client;
    if (add_page(scan, request_reply(request, 0))) {
        continue_scan(request, scan, reply);
    } else {
        scan->silent++;
        next_shard(request, scan, reply);
    }
}

static void on_sizes(struct client *client, struct request *request, struct reply *reply)
{
    struct scan *scan = scan_of(request);
    (void)client;
    scan->shards = request_reply_count(request);
    for (uint32_t i = 0; i < scan->shards; i++) {
        struct resp_value value;
        size_t pos = 0;
        if (!resp_value_next(request_reply(request, i)->frame, &pos, &value) || value.type != ':') {
            scan->silent++;
            continue;
        }
        scan->sizes[i] = (uint64_t)value.count;
        scan->keys += (uint64_t)value.count;
    }
    CHECK(scan->shards > 0);
    scan->share = scan->share / scan->shards + 1;
    scan->shard = UINT32_MAX; /* so that next_shard() begins with shard 0 */
    next_shard(request, scan, reply);
}

void local_scree_bigkeys(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes dbsize[] = {{"DBSIZE", 6}};
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    int64_t count = COUNT_DEFAULT;
    int64_t samples = SAMPLES_DEFAULT;
    (void)client;
    for (uint32_t i = 2; i < argc; i += 2) {
        bool is_count = bytes_is(argv[i], "COUNT");
        if (i + 1 == argc || (!is_count && !bytes_is(argv[i], "SAMPLES"))) {
            reply_code(reply, ERR_SYNTAX);
            return;
        }
        int64_t *number = is_count ? &count : &samples;
        int64_t max = is_count ? COUNT_MAX : SAMPLES_MAX;
        if (!number_parse_int64(argv[i + 1], number) || *number < 1 || *number > max) {
            reply_errorf(reply, "ERR %s must be a number from 1 to %lld",
                         is_count ? "COUNT" : "SAMPLES", (long long)max);
            return;
        }
    }
    struct scan *scan = request_state(request, scan_size((uint32_t)count));
    scan->wanted = (uint32_t)count;
    scan->share = samples;
    request_fan_out(request, NULL, SHARDS_ALL, dbsize, 1, on_sizes);
}
