/*
 * limits.c - a proxy sets the limits of namespaces, and asks what they have here.
 *
 *   > SCREE GRANTS 77 3 4096 shop 1000 0 612 0 300 5    id of the coordinator (0: the proxy only sets limits), epoch of its map, bytes
 *                                                       at the other shards; for each namespace: name, max-keys, max-bytes, the
 *                                                       fewest keys and the bytes at the other shards, keys that are granted,
 *                                                       version of the grant
 *   < 70000 0 301 0 302 6 0 1 299                       bytes and maxmemory of this shard; for each namespace: keys, bytes, and of the
 *                                                       report of key_grants.h: claim, version, is_new, wants; then for each: fewest
 *
 *   > SCREE LIMITS 4096 shop 1000 0 612 0               with one shard, and from older proxies: without grants
 *   < 70000 0 301 0
 */
#include "backend/session/limits.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/space.h"
#include "shared/namespace.h"
#include "shared/number.h"

/* Words of SCREE LIMITS, and of SCREE GRANTS: before the first namespace, and of each. */
enum {
    HEAD = 3,
    WORDS = 5,
    GRANTS_HEAD = 5,
    GRANTS_WORDS = 7,
    NUMBERS_MAX = GRANTS_WORDS - 1,
    REPLY_HEAD = 2,
    REPLY_NUMBERS = 2,
    GRANTS_REPLY_NUMBERS = 7,
};

/* The name of a namespace and its numbers. */
struct limit_words {
    struct bytes name;
    uint64_t numbers[NUMBERS_MAX];
};

static bool parse_limit_numbers(const struct bytes *words, uint32_t count, uint64_t *numbers)
{
    bool is_good = true;
    for (uint32_t i = 0; is_good && i < count; i++)
        is_good = number_parse_uint64(words[i], &numbers[i]);
    return is_good;
}

static bool parse_limits(const struct bytes *words, uint32_t count, struct limit_words *parsed)
{
    parsed->name = words[0];
    return namespace_name_valid(words[0]) &&
           parse_limit_numbers(words + 1, count - 1, parsed->numbers);
}

/* Are all words good? The first `head` words have numbers behind the command's two words. */
static bool is_good(const struct call *call, uint32_t head, uint32_t words)
{
    struct limit_words parsed;
    uint64_t numbers[NUMBERS_MAX];
    if (call->argc < head || (call->argc - head) % words != 0 ||
        !parse_limit_numbers(call->argv + 2, head - 2, numbers))
        return false;
    for (uint32_t at = head; at < call->argc; at += words)
        if (!parse_limits(&call->argv[at], words, &parsed))
            return false;
    return true;
}

/* Sets the limits of one namespace. */
static struct space_limit *set_limit(struct call *call, const struct limit_words *words)
{
    uint64_t now_ms = loop_mono_ms(call->partition->loop);
    struct space_limit *limit = space_limit_open(call->partition->spaces, words->name);
    bool is_measured = limit->max_bytes > 0;
    if (!limit->grant.version) {
        key_grant_init(&limit->grant, call->now_us);
        limit->wait_ms_left = LIMIT_WAITS_MS;
    }
    limit->max_keys = words->numbers[0];
    limit->max_bytes = words->numbers[1];
    limit->keys_elsewhere = words->numbers[2];
    limit->bytes_elsewhere = words->numbers[3];
    limit->until_ms = now_ms + LIMITS_LEASE_MS;
    if (limit->max_bytes && !is_measured)
        limits_tick(call->partition);
    return limit;
}

static void reply_head(struct call *call, uint32_t namespaces, uint32_t numbers)
{
    const struct space_limit *all = space_limit_of_all(call->partition->spaces);
    reply_array(&call->reply, REPLY_HEAD + (int64_t)namespaces * numbers);
    reply_int(&call->reply, (int64_t)all->bytes);
    reply_int(&call->reply, call->partition->snapshot->maxmemory);
}

void cmd_scree_limits(struct call *call)
{
    uint64_t now_ms = loop_mono_ms(call->partition->loop);
    struct limit_words words;
    if (!is_good(call, HEAD, WORDS)) {
        call_error_text(call, "ERR SCREE LIMITS takes a number of bytes, and for each namespace "
                              "its name and four numbers");
        return;
    }
    struct space_limit *all = space_limit_of_all(call->partition->spaces);
    (void)number_parse_uint64(call->argv[HEAD - 1], &all->bytes_elsewhere);
    reply_head(call, (call->argc - HEAD) / WORDS, REPLY_NUMBERS);
    for (uint32_t at = HEAD; at < call->argc; at += WORDS) {
        (void)parse_limits(&call->argv[at], WORDS, &words);
        struct space_limit *limit = set_limit(call, &words);
        if (now_ms >= limit->grant.until_ms) /* no coordinator is left */
            limit->is_shared = false;
        limits_resume(call->partition, limit);
        reply_int(&call->reply, (int64_t)space_limit_keys(limit));
        reply_int(&call->reply, (int64_t)limit->bytes);
    }
}

/* Carries out the order for one namespace, and reports what it has here. */
static void order_grant(struct call *call, const struct limit_words *words,
                        struct grant_order order)
{
    struct space_limit *limit = set_limit(call, words);
    const struct grant_keys here = {space_limit_keys(limit), space_limit_fewest(limit)};
    limit->is_shared = true;
    order.fewest_elsewhere = words->numbers[2];
    order.keys = words->numbers[4];
    order.version = words->numbers[5];
    struct grant_report report = {.keys = here.keys,
                                  .claim = key_grant_claim(&limit->grant, here.keys)};
    if (order.coordinator)
        report = key_grant_order(&limit->grant, &order, &here, loop_mono_ms(call->partition->loop));
    if (report.version)
        space_limit_count_anew(limit);
    limits_resume(call->partition, limit);
    reply_int(&call->reply, (int64_t)report.keys);
    reply_int(&call->reply, (int64_t)limit->bytes);
    reply_int(&call->reply, (int64_t)report.claim);
    reply_int(&call->reply, (int64_t)report.version);
    reply_int(&call->reply, report.is_new);
    reply_int(&call->reply, report.wants || !list_empty(&limit->waits));
}

/* The last part of the reply, which proxies of older versions do not read: the fewest keys, which are in the last report. */
static void reply_fewest(struct call *call, struct bytes name)
{
    const struct key_grant *grant = &space_limit_open(call->partition->spaces, name)->grant;
    reply_int(&call->reply, grant->is_in_turn ? (int64_t)grant->fewest_here : 0);
}

void cmd_scree_grants(struct call *call)
{
    uint64_t head[GRANTS_HEAD - 2];
    struct limit_words words;
    if (!is_good(call, GRANTS_HEAD, GRANTS_WORDS)) {
        call_error_text(call,
                        "ERR SCREE GRANTS takes a coordinator, an epoch and a number of bytes, "
                        "and for each namespace its name and six numbers");
        return;
    }
    (void)parse_limit_numbers(call->argv + 2, GRANTS_HEAD - 2, head);
    space_limit_of_all(call->partition->spaces)->bytes_elsewhere = head[2];
    reply_head(call, (call->argc - GRANTS_HEAD) / GRANTS_WORDS, GRANTS_REPLY_NUMBERS);
    for (uint32_t at = GRANTS_HEAD; at < call->argc; at += GRANTS_WORDS) {
        (void)parse_limits(&call->argv[at], GRANTS_WORDS, &words);
        order_grant(call, &words, (struct grant_order){.coordinator = head[0], .epoch = head[1]});
    }
    for (uint32_t at = GRANTS_HEAD; at < call->argc; at += GRANTS_WORDS)
        reply_fewest(call, call->argv[at]);
}
