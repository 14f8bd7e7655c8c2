#include "proxy/cluster/backup_status.h"

#include "proxy/core/request.h"
#include "shared/resp.h"

#include <stdio.h>

static uint64_t number_of(const struct resp_value *value)
{
    return value->type == ':' && value->count > 0 ? (uint64_t)value->count : 0;
}

static void read_status_field(struct bytes name, const struct resp_value *value,
                              struct shard_status *status)
{
    if (bytes_is(name, "state"))
        status->state = value->text;
    else if (bytes_is(name, "backup"))
        status->backup = value->text;
    else if (bytes_is(name, "id"))
        status->id = value->text;
    else if (bytes_is(name, "held"))
        status->is_held = bytes_is(value->text, "yes");
    else if (bytes_is(name, "bytes-done"))
        status->done = number_of(value);
    else if (bytes_is(name, "bytes-total"))
        status->total = number_of(value);
    else if (bytes_is(name, "last-backup"))
        status->last_backup = value->text;
    else if (bytes_is(name, "last-status"))
        status->last_status = value->text;
    else if (bytes_is(name, "last-error"))
        status->last_error = value->text;
    else if (bytes_is(name, "last-time"))
        status->last_s = number_of(value);
    else if (bytes_is(name, "waits-for"))
        status->waits_for = value->text;
    else if (bytes_is(name, "moment")) {
        status->moment = value->text;
        status->knows_copies = true;
    } else if (bytes_is(name, "not-a-copy"))
        status->may_copy = !value->text.len;
}

struct shard_status backup_status_read(struct bytes frame)
{
    struct shard_status status = {0};
    struct resp_value name;
    struct resp_value value;
    size_t pos = 0;
    status.is_silent = !resp_value_next(frame, &pos, &value) || value.type != '*';
    for (int64_t left = status.is_silent ? 0 : value.count; left >= 2; left -= 2) {
        if (!resp_value_next(frame, &pos, &name) || !resp_value_next(frame, &pos, &value))
            break;
        read_status_field(name.text, &value, &status);
    }
    return status;
}

/* The newest backup that any shard has ended, and one that runs. */
static void find_newest(const struct request *request, struct cluster_result *result)
{
    for (uint32_t i = 0; i < result->shards; i++) {
        struct shard_status status = backup_status_read(request_reply(request, i)->frame);
        result->done += status.done;
        result->total += status.total;
        if (status.backup.len) {
            result->running = status.backup;
            result->state = status.state;
        }
        if (status.last_s < result->ended_s || !status.last_backup.len)
            continue;
        result->ended_s = status.last_s;
        result->name = status.last_backup;
    }
}

static void note_problem(struct cluster_result *result, const char *status, const char *shard,
                         struct bytes reason)
{
    result->status = status;
    (void)snprintf(result->reason, sizeof result->reason, "shard '%s': %.*s", shard,
                   (int)(reason.len < 400 ? reason.len : 400), reason.len ? reason.data : "");
}

void backup_status_merge(const struct request *request, struct cluster_result *result)
{
    *result = (struct cluster_result){.status = "", .shards = request_reply_count(request)};
    find_newest(request, result);
    if (!result->name.len)
        return;
    result->status = "ok";
    for (uint32_t i = 0; i < result->shards; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct shard_status status = backup_status_read(answer->frame);
        bool has_it = bytes_equal(status.last_backup, result->name);
        if (has_it && bytes_is(status.last_status, "ok"))
            result->good++;
        else if (has_it)
            note_problem(result, "err", answer->shard, status.last_error);
        else if (!status.is_silent && !*result->reason)
            note_problem(result, "err", answer->shard, BYTES("it has no record of this backup"));
        else if (status.is_silent && !*result->reason)
            note_problem(result, "unknown", answer->shard, BYTES("it does not answer"));
    }
}
