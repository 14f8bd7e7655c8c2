/*
 * limits.c - SCREE LIMITS: a proxy sets the limits of namespaces, and asks what they have here.
 *
 *   > SCREE LIMITS 4096 shop 1000 0 612 0        bytes at the other shards; for each namespace: name, max-keys, max-bytes,
 *                                                keys and bytes at the other shards
 *   < 70000 0 301 0                              bytes and maxmemory of this shard; for each namespace: keys and bytes here
 */
#include "backend/partition/limits.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/partition/handlers.h"
#include "shared/namespace.h"
#include "shared/number.h"

enum { FIRST_AT = 3, WORDS = 5, NUMBERS = 4 };

/* Parses the words of one namespace. */
static bool parse_limits(const struct bytes *words, uint64_t numbers[NUMBERS])
{
    bool is_good = namespace_name_valid(words[0]);
    for (int i = 0; is_good && i < NUMBERS; i++)
        is_good = number_parse_uint64(words[i + 1], &numbers[i]);
    return is_good;
}

/* Sets the limits of one namespace. */
static void set_limit(struct call *call, const struct bytes *words)
{
    uint64_t numbers[NUMBERS];
    CHECK(parse_limits(words, numbers));
    struct space_limit *limit = space_limit_open(call->partition->spaces, words[0]);
    bool is_measured = limit->max_bytes > 0;
    limit->max_keys = numbers[0];
    limit->max_bytes = numbers[1];
    limit->keys_elsewhere = numbers[2];
    limit->bytes_elsewhere = numbers[3];
    limit->until_ms = loop_mono_ms(call->partition->loop) + LIMITS_LEASE_MS;
    if (limit->max_bytes && !is_measured)
        limits_tick(call->partition);
}

static void reply_limit(struct call *call, struct bytes name)
{
    struct space_set *spaces = call->partition->spaces;
    const struct space_limit *limit = space_limit_open(spaces, name);
    reply_int(&call->reply, (int64_t)(space_limit_keys(limit) - limit->keys_elsewhere));
    reply_int(&call->reply, (int64_t)limit->bytes);
}

void cmd_scree_limits(struct call *call)
{
    struct space_limit *all = space_limit_of_all(call->partition->spaces);
    uint64_t numbers[NUMBERS];
    uint64_t bytes;
    bool is_good = (call->argc - FIRST_AT) % WORDS == 0 &&
                   number_parse_uint64(call->argv[FIRST_AT - 1], &bytes);
    for (uint32_t at = FIRST_AT; is_good && at < call->argc; at += WORDS)
        is_good = parse_limits(&call->argv[at], numbers);
    if (!is_good) {
        call_error_text(call, "ERR SCREE LIMITS takes a number of bytes, and for each namespace "
                              "its name and four numbers");
        return;
    }
    all->bytes_elsewhere = bytes;
    for (uint32_t at = FIRST_AT; at < call->argc; at += WORDS)
        set_limit(call, &call->argv[at]);
    reply_array(&call->reply, 2 + (int64_t)(call->argc - FIRST_AT) / WORDS * 2);
    reply_int(&call->reply, (int64_t)all->bytes);
    reply_int(&call->reply, call->partition->snapshot->maxmemory);
    for (uint32_t at = FIRST_AT; at < call->argc; at += WORDS)
        reply_limit(call, call->argv[at]);
}
