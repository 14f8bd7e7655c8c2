#include "backend/storage/retry.h"

#include "shared/check.h"

#include <stdlib.h>

/* One wait, in one list. */
struct wait {
    struct list list_link;
    struct list retry_link;
    struct retry *retry;
};

void retry_init(struct retry *retry, void (*on_ready)(struct retry *retry))
{
    *retry = (struct retry){.on_ready = on_ready};
    list_init(&retry->waits);
}

void retry_cancel(struct retry *retry)
{
    struct list *link;
    while ((link = list_pop(&retry->waits))) {
        struct wait *wait = container_of(link, struct wait, retry_link);
        list_remove(&wait->list_link);
        free(wait);
    }
    retry->pending = 0;
    free(retry->refusal);
    retry->refusal = NULL;
}

void retry_wait(struct retry *retry, struct list *list)
{
    struct wait *wait = malloc(sizeof *wait);
    CHECK(wait);
    wait->retry = retry;
    list_push(list, &wait->list_link);
    list_push(&retry->waits, &wait->retry_link);
    retry->pending++;
}

static void end_waits(struct list *list, bool has_failed)
{
    struct list *link;
    while ((link = list_pop(list))) {
        struct wait *wait = container_of(link, struct wait, list_link);
        struct retry *retry = wait->retry;
        list_remove(&wait->retry_link);
        free(wait);
        retry->has_failed |= has_failed;
        if (--retry->pending == 0)
            retry->on_ready(retry);
    }
}

void retry_done(struct list *list)
{
    end_waits(list, false);
}

void retry_failed(struct list *list)
{
    end_waits(list, true);
}

void retry_refuse(struct retry *retry, char *error)
{
    free(retry->refusal);
    retry->refusal = error;
}

bool retry_is_late(struct retry *retry, uint64_t now_ms, uint64_t limit_ms)
{
    if (retry->since_ms)
        return now_ms >= retry->since_ms + limit_ms;
    retry->since_ms = now_ms;
    return false;
}
