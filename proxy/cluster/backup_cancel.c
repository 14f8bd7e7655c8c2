#include "proxy/cluster/backup_cancel.h"

#include "proxy/client/fan_out.h"
#include "proxy/cluster/backup.h"
#include "proxy/cluster/backup_copies.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/list.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    AGAIN_MS = 500,
    GIVE_UP_MS = 60 * 1000,
};

/* One attempt that is being cancelled. */
struct cancel {
    struct list link;
    struct backup_cancels *cancels;
    bool is_asking;    /* CANCEL is in flight */
    bool has_copies;   /* copies that follow take part */
    uint64_t until_ms; /* CANCEL is not sent again after that; monotonic */
    char id[BACKUP_ID_LEN + 1];
    char reason[BACKUP_REASON_MAX];
};

struct backup_cancels {
    struct proxy_worker *worker;
    struct timer *timer;
    struct list all; /* struct cancel */
};

static void free_cancel(struct cancel *cancel)
{
    list_remove(&cancel->link);
    free(cancel);
}

/* Has every shard replied whether it had this backup? Those that cannot be reached have an error instead. */
static bool all_have_answered(const struct request *request)
{
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        struct resp_value value = {0};
        size_t pos = 0;
        if (!resp_value_next(request_reply(request, i)->frame, &pos, &value) || value.type != ':')
            return false;
    }
    return true;
}

/* request_done_fn */
static void on_cancelled(struct client *client, struct request *request, struct reply *reply)
{
    struct cancel **state = request_state(request, sizeof(struct cancel *));
    struct cancel *cancel = *state;
    struct backup_cancels *cancels = cancel->cancels;
    (void)client;
    (void)reply;
    cancel->is_asking = false;
    if (all_have_answered(request) || loop_mono_ms(cancels->worker->loop) >= cancel->until_ms)
        free_cancel(cancel);
    else
        timer_start(cancels->timer, AGAIN_MS, 0);
}

static void send_cancel(struct cancel *cancel)
{
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("CANCEL"),
                                 bytes_of(cancel->id), bytes_of(cancel->reason)};
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = argv, .argc = 5};
    struct request *request = request_internal(cancel->cancels->worker);
    struct cancel **state = request_state(request, sizeof(struct cancel *));
    *state = cancel;
    cancel->is_asking = true;
    if (cancel->has_copies)
        backup_ask_all_copies(request, argv, 5, 0, on_cancelled);
    else
        request_fan_out_with(request, &how, on_cancelled);
}

static void cancel_again(void *owner)
{
    struct backup_cancels *cancels = owner;
    struct list *next;
    for (struct list *at = cancels->all.next; at != &cancels->all; at = next) {
        struct cancel *cancel = container_of(at, struct cancel, link);
        next = at->next;
        if (!cancel->is_asking)
            send_cancel(cancel);
    }
}

struct backup_cancels *backup_cancels_new(struct proxy_worker *worker)
{
    struct backup_cancels *cancels = calloc(1, sizeof *cancels);
    CHECK(cancels);
    cancels->worker = worker;
    cancels->timer = timer_new(worker->loop, cancel_again, cancels);
    list_init(&cancels->all);
    return cancels;
}

void backup_cancel_at_shards(struct backup_cancels *cancels, const char *id, const char *reason,
                             bool has_copies)
{
    struct cancel *cancel = calloc(1, sizeof *cancel);
    CHECK(cancel);
    cancel->cancels = cancels;
    cancel->has_copies = has_copies;
    cancel->until_ms = loop_mono_ms(cancels->worker->loop) + GIVE_UP_MS;
    (void)snprintf(cancel->id, sizeof cancel->id, "%s", id);
    (void)snprintf(cancel->reason, sizeof cancel->reason, "%s", reason);
    list_push(&cancels->all, &cancel->link);
    send_cancel(cancel);
}

void backup_cancels_free(struct backup_cancels *cancels)
{
    while (!list_empty(&cancels->all))
        free_cancel(container_of(cancels->all.next, struct cancel, link));
    timer_free(cancels->timer);
    free(cancels);
}
