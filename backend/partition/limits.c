#include "backend/partition/limits.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/space.h"
#include "backend/partition/session.h"
#include "backend/partition/space_bytes.h"

/* Counts a command that a limit has refused. */
static int refuse_over_limit(const struct call *call, enum error error)
{
    metric_add(call->partition->metrics.process, METRIC_BACKEND_LIMIT_REFUSED, 1);
    return error;
}

int limits_gate(struct call *call, uint32_t command_flags)
{
    if (!(command_flags & CMD_DENYOOM))
        return OK;
    uint64_t maxmemory = (uint64_t)call->partition->snapshot->maxmemory;
    if (maxmemory) {
        const struct space_limit *all = space_limit_of_all(call->partition->spaces);
        if (all->bytes + all->bytes_elsewhere > maxmemory)
            return refuse_over_limit(call, ERR_OOM);
    }
    const struct space_limit *limit = session_space(call->session)->limit;
    if (limit && limit->max_bytes && limit->bytes + limit->bytes_elsewhere > limit->max_bytes)
        return refuse_over_limit(call, ERR_OOM_BYTES);
    return OK;
}

static bool limits_keys(const struct call *call)
{
    const struct space_limit *limit = call->space->limit;
    return limit && limit->max_keys && call->command->flags & CMD_WRITE;
}

/* Keys that a transaction over shards has created at other shards. If it has borrowed all keys of the database, `elsewhere` also
 * has those that were there before. */
static int64_t keys_created_elsewhere(const struct call *call, const struct space *space)
{
    bool has_all = call->borrow && borrow_has_all_keys(call, space);
    return space->elsewhere - (has_all ? (int64_t)borrow_keys_elsewhere(call, space) : 0);
}

/* Keys of the call's namespace at all shards. */
static uint64_t keys_of_namespace(const struct call *call)
{
    const struct space_limit *limit = call->space->limit;
    int64_t keys = (int64_t)space_limit_keys(limit);
    for (uint8_t i = 0; i < DATABASES_MAX; i++)
        keys += limit->spaces[i] ? keys_created_elsewhere(call, limit->spaces[i]) : 0;
    return keys > 0 ? (uint64_t)keys : 0;
}

uint64_t limits_begin(const struct call *call)
{
    return limits_keys(call) ? keys_of_namespace(call) : 0;
}

void limits_end(struct call *call, uint64_t keys_before)
{
    if (call->failed || !limits_keys(call))
        return;
    uint64_t keys = keys_of_namespace(call);
    if (keys > keys_before && keys > call->space->limit->max_keys)
        call_error(call, (enum error)refuse_over_limit(call, ERR_OOM_KEYS));
}

void limits_tick(struct partition *partition)
{
    struct space_set *spaces = partition->spaces;
    size_t cursor = 0;
    struct space_limit *limit;
    space_limit_of_all(spaces)->bytes = partition_bytes(partition);
    while ((limit = space_limit_next(spaces, &cursor))) {
        if (limit->until_ms < loop_mono_ms(partition->loop))
            limit->max_keys = limit->max_bytes = 0;
        if (limit->max_bytes)
            limit->bytes = space_bytes_estimate(partition, limit->spaces, DATABASES_MAX);
    }
}
