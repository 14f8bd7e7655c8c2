#include "proxy/cluster/backup_list.h"

#include "proxy/cluster/backup_copies.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

enum { LISTED_MAX = 100000 };

void backup_list_ask(struct request *request, backup_listed_fn *done)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("LIST"), BYTES("")};
    backup_ask_all_copies(request, argv, 4, 3, done);
}

/* Copies of a shard that share a directory list the same files, so a shard counts once. */
static void merge_listed(struct backup_list *list, const struct listed_backup *seen)
{
    for (size_t i = 0; i < list->count; i++) {
        struct listed_backup *item = &list->items[i];
        if (strcmp(item->name, seen->name) != 0 || strcmp(item->id, seen->id) != 0)
            continue;
        if (item->found_in == list->shards)
            return;
        item->found_in = list->shards;
        item->shards++;
        item->bytes += seen->bytes;
        item->taken_ms = seen->taken_ms > item->taken_ms ? seen->taken_ms : item->taken_ms;
        return;
    }
    if (list->count == LISTED_MAX)
        return;
    list->items = realloc(list->items, (list->count + 1) * sizeof list->items[0]);
    CHECK(list->items);
    list->items[list->count] = *seen;
    list->items[list->count].found_in = list->shards;
    list->items[list->count++].shards = 1;
}

static void copy_bounded(char *to, size_t size, struct bytes text)
{
    (void)snprintf(to, size, "%.*s", (int)(text.len < size ? text.len : size - 1),
                   text.len ? text.data : "");
}

/* Reads one backup of one shard: a map, which RESP2 sends as an array. */
static bool read_item(struct bytes frame, size_t *pos, struct listed_backup *item)
{
    struct resp_value name;
    struct resp_value value;
    *item = (struct listed_backup){0};
    if (!resp_value_next(frame, pos, &value) || value.type != '*')
        return false;
    for (int64_t left = value.count; left >= 2; left -= 2) {
        if (!resp_value_next(frame, pos, &name) || !resp_value_next(frame, pos, &value))
            return false;
        if (bytes_is(name.text, "backup"))
            copy_bounded(item->name, sizeof item->name, value.text);
        else if (bytes_is(name.text, "id"))
            copy_bounded(item->id, sizeof item->id, value.text);
        else if (bytes_is(name.text, "slots"))
            copy_bounded(item->slots, sizeof item->slots, value.text);
        else if (bytes_is(name.text, "parts"))
            item->parts = (uint32_t)value.count;
        else if (bytes_is(name.text, "taken-ms"))
            item->taken_ms = (uint64_t)value.count;
        else if (bytes_is(name.text, "bytes"))
            item->bytes = (uint64_t)value.count;
    }
    return true;
}

static int older_listed_first(const void *a, const void *b)
{
    const struct listed_backup *one = a;
    const struct listed_backup *other = b;
    if (one->taken_ms != other->taken_ms)
        return one->taken_ms < other->taken_ms ? -1 : 1;
    return strcmp(one->name, other->name);
}

void backup_list_read(const struct request *request, struct backup_list *list)
{
    *list = (struct backup_list){0};
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct bytes frame = answer->frame;
        list->shards += !answer->node->is_copy; /* it is the first of its shard */
        struct resp_value value;
        struct listed_backup item;
        size_t pos = 0;
        if (!resp_value_next(frame, &pos, &value) || value.type != '*') {
            list->silent += !answer->node->is_copy;
            continue;
        }
        for (int64_t left = value.count; left > 0 && read_item(frame, &pos, &item); left--)
            merge_listed(list, &item);
    }
    if (list->count)
        qsort(list->items, list->count, sizeof list->items[0], older_listed_first);
}

void backup_list_free(struct backup_list *list)
{
    free(list->items);
    *list = (struct backup_list){0};
}

/* ---- keeping the newest ---- */

struct keeping {
    uint32_t keep;
    /* backups that were taken later are kept; UINT64_MAX: their age does not count */
    uint64_t keep_from_ms;
    size_t at; /* index in `list` of the next backup to delete */
    struct backup_list list;
    size_t end; /* index after the last backup to delete */
    void (*done)(struct proxy_worker *worker);
};

static struct keeping *keeping_of(struct request *request)
{
    return request_state(request, sizeof(struct keeping));
}

static void delete_next(struct client *client, struct request *request, struct reply *reply)
{
    struct keeping *keeping = keeping_of(request);
    (void)client;
    (void)reply;
    while (keeping->at < keeping->end && *keeping->list.items[keeping->at].slots)
        keeping->at++;
    if (keeping->at == keeping->end) {
        backup_list_free(&keeping->list);
        keeping->done(request->worker);
        return;
    }
    const char *name = keeping->list.items[keeping->at++].name;
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("DELETE"), bytes_of(name),
                                 BYTES("")};
    log_event(LOG_INFO, "backup_deleted", "backup=%s", name);
    backup_ask_all_copies(request, argv, 5, 4, delete_next);
}

static void choose_old(struct client *client, struct request *request, struct reply *reply)
{
    struct keeping *keeping = keeping_of(request);
    struct backup_list *list = &keeping->list;
    uint32_t complete = 0;
    backup_list_read(request, list);
    size_t i = list->count;
    while (i > 0 && complete < keeping->keep) {
        const struct listed_backup *item = &list->items[--i];
        complete += !*item->slots && item->shards == list->shards;
    }
    keeping->end = complete == keeping->keep && list->silent == 0 ? i : 0;
    while (keeping->end > 0 && list->items[keeping->end - 1].taken_ms >= keeping->keep_from_ms)
        keeping->end--;
    delete_next(client, request, reply);
}

void backup_keep(struct proxy_worker *worker, uint32_t keep, uint32_t days,
                 void (*done)(struct proxy_worker *worker))
{
    struct request *request = request_internal(worker);
    struct keeping *keeping = keeping_of(request);
    uint64_t age_ms = days * 24ULL * 3600 * 1000;
    uint64_t now_ms = loop_wall_ms(worker->loop);
    keeping->keep = keep ? keep : 1;
    keeping->keep_from_ms = !days ? UINT64_MAX : age_ms < now_ms ? now_ms - age_ms : 0;
    keeping->done = done;
    backup_list_ask(request, choose_old);
}
