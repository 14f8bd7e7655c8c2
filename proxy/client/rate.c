#include "proxy/client/rate.h"

#include "proxy/core/proxy_metrics.h"
#include "proxy/core/rate_limiter.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/token_bucket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WAKE_BYTES_MAX = 16, /* clients woken at a time when only bytes are limited */
    ERROR_TEXT_MAX = 512,
};

struct rate_waits {
    struct proxy_worker *worker;
    struct timer *timer;
    struct list keyspaces; /* in which clients wait */
    uint64_t due_ms;       /* when the timer fires; 0: it is stopped */
};

/* ---- delayed clients ------------------------------------------------------------------------- */

static void wake(struct client *client)
{
    list_remove(&client->links.rate);
    client_unhold(client, HOLD_RATE);
}

/* Number of waiting clients that may run now. */
static uint64_t wakeable(const struct keyspace *keyspace, uint64_t now_ms)
{
    struct rate_limiter *rate_limiter = keyspace->rate_limiter;
    if (!rate_limiter)
        return UINT64_MAX;
    if (rate_limiter_wait_ms(rate_limiter, now_ms) > 0)
        return 0;
    uint64_t left = token_bucket_left(&rate_limiter->requests, now_ms);
    if (left == UINT64_MAX)
        return WAKE_BYTES_MAX;
    return left ? left : 1;
}

static void set_timer(struct rate_waits *waits, uint64_t after_ms)
{
    uint64_t due_ms = loop_mono_ms(waits->worker->loop) + after_ms;
    if (waits->due_ms && waits->due_ms <= due_ms)
        return;
    waits->due_ms = due_ms;
    timer_start(waits->timer, after_ms, 0);
}

static void on_due(void *owner)
{
    struct rate_waits *waits = owner;
    uint64_t now_ms = loop_mono_ms(waits->worker->loop);
    struct list *next;
    waits->due_ms = 0;
    for (struct list *link = waits->keyspaces.next; link != &waits->keyspaces; link = next) {
        struct keyspace *keyspace = container_of(link, struct keyspace, rate_link);
        next = link->next;
        for (uint64_t left = wakeable(keyspace, now_ms); left && !list_empty(&keyspace->waiting);
             left--)
            wake(container_of(keyspace->waiting.next, struct client, links.rate));
        if (list_empty(&keyspace->waiting)) {
            list_remove(&keyspace->rate_link);
            continue;
        }
        uint64_t after_ms =
            keyspace->rate_limiter ? rate_limiter_wait_ms(keyspace->rate_limiter, now_ms) : 0;
        set_timer(waits, after_ms ? after_ms : 1);
    }
}

static void wait(struct client *client, uint64_t after_ms)
{
    struct rate_waits *waits = client->worker->rate_waits;
    struct keyspace *keyspace = client->session.keyspace;
    client_hold(client, HOLD_RATE);
    list_push(&keyspace->waiting, &client->links.rate);
    list_remove(&keyspace->rate_link);
    list_push(&waits->keyspaces, &keyspace->rate_link);
    set_timer(waits, after_ms);
}

void rate_leave(struct client *client)
{
    if (client->held_by & HOLD_RATE)
        wake(client);
}

struct rate_waits *rate_waits_new(struct proxy_worker *worker)
{
    struct rate_waits *waits = calloc(1, sizeof(*waits));
    CHECK(waits);
    waits->worker = worker;
    waits->timer = timer_new(worker->loop, on_due, waits);
    list_init(&waits->keyspaces);
    return waits;
}

void rate_waits_free(struct rate_waits *waits)
{
    timer_free(waits->timer);
    free(waits);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Commands that end a transaction or log in are not limited: otherwise a client could not leave its transaction. */
static bool is_free(const struct command *command)
{
    return command && (command->flags & CMD_NO_AUTH || command->traits & TRAIT_ENDS_MULTI);
}

static void reply_rate_limited(struct client *client, const struct command *command,
                               uint64_t now_ms)
{
    const struct keyspace *keyspace = client->session.keyspace;
    struct rate_limiter *rate_limiter = keyspace->rate_limiter;
    char text[ERROR_TEXT_MAX];
    bool is_bytes = token_bucket_wait_ms(&rate_limiter->requests, now_ms) == 0;
    (void)snprintf(text, sizeof(text),
                   "RATELIMIT rate limit of namespace '%.*s' exceeded: at most %" PRIu64
                   " %s a second",
                   (int)keyspace->name.len, keyspace->name.data,
                   is_bytes ? rate_limiter->bytes.rate : rate_limiter->requests.rate,
                   is_bytes ? "bytes" : "requests");
    metric_add(client->worker->metrics.process, METRIC_PROXY_RATE_REFUSED, 1);
    if (client->session.keyspace->cell)
        cell_add(client->session.keyspace->cell, TENANT_RATE_REFUSED, 1);
    client_transaction_abort(&client->session.transaction);
    client_reply_text(client, command, text);
}

bool rate_pass(struct client *client, const struct frame *frame, const struct command *command)
{
    struct rate_limiter *rate_limiter = client->session.keyspace->rate_limiter;
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    if (client->next.is_charged)
        return true; /* this frame was charged before it was held */
    uint64_t after_ms = is_free(command) ? 0 : rate_limiter_wait_ms(rate_limiter, now_ms);
    if (after_ms == 0) {
        token_bucket_charge(&rate_limiter->requests, now_ms, 1);
        token_bucket_charge(&rate_limiter->bytes, now_ms, frame->len);
        client->next.is_charged = true;
        return true;
    }
    if (rate_limiter->delays) {
        metric_add(client->worker->metrics.process, METRIC_PROXY_RATE_DELAYED, 1);
        wait(client, after_ms);
    } else {
        reply_rate_limited(client, command, now_ms);
    }
    return false;
}
