#include "backend/storage/settle.h"

#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { FOLD_ROWS = 1024 }; /* in a turn of the loop: some 0.1 ms */

struct settle {
    struct job job;
    struct worker *worker;
    struct timer *timer; /* the buffer is in the tables, and what is remembered of them follows */
    struct overlay *overlay;
    struct store *store;
    struct store_batch *batch;
    settle_fn *on_done;
    void *owner;
    bool is_running;

    /* of the job under way, or of the last one */
    const struct write_buffer *buffer;
    uint64_t logged;
    _Atomic size_t bytes;
    int result;
    char reason[256];
};

/* Only what is durable goes into the tables. */
static int apply(struct settle *settle, const struct write_buffer *buffer)
{
    int err = store_sync_upto(settle->store, settle->logged, settle->reason, sizeof settle->reason);
    if (err != OK)
        return err;
    return write_buffer_apply(buffer, settle->store, settle->batch, &settle->bytes, settle->reason,
                              sizeof settle->reason);
}

static void apply_buffer(struct job *job)
{
    struct settle *settle = container_of(job, struct settle, job);
    settle->result = apply(settle, settle->buffer);
    if (settle->result == OK)
        store_applied(settle->store, settle->logged);
}

static void end(struct settle *settle)
{
    settle->is_running = false;
    settle->on_done(settle->owner, settle->result);
}

static void on_timer(void *owner)
{
    struct settle *settle = owner;
    if (overlay_applied(settle->overlay, FOLD_ROWS))
        end(settle);
    else
        timer_start(settle->timer, 0, 0);
}

static void settle_done(struct job *job)
{
    struct settle *settle = container_of(job, struct settle, job);
    if (settle->result == OK)
        on_timer(settle);
    else
        end(settle);
}

struct settle *settle_new(struct loop *loop, struct overlay *overlay, struct store *store,
                          settle_fn *on_done, void *owner)
{
    struct settle *settle = calloc(1, sizeof *settle);
    CHECK(settle);
    settle->job = (struct job){.work = apply_buffer, .done = settle_done};
    settle->worker = worker_new(loop, "settle");
    settle->timer = timer_new(loop, on_timer, settle);
    settle->overlay = overlay;
    settle->store = store;
    settle->batch = store_batch_new();
    settle->on_done = on_done;
    settle->owner = owner;
    return settle;
}

static int settle_rest(struct settle *settle)
{
    const struct write_buffer *immutable = overlay_immutable(settle->overlay);
    settle->logged = store_logged(settle->store);
    int err = immutable ? apply(settle, immutable) : OK;
    return err == OK ? apply(settle, overlay_active(settle->overlay)) : err;
}

void settle_free(struct settle *settle)
{
    if (!settle)
        return;
    worker_free(settle->worker);
    timer_free(settle->timer);
    if (settle->is_running)
        (void)overlay_applied(settle->overlay, SIZE_MAX);
    if (settle->result == OK && settle_rest(settle) == OK)
        store_applied(settle->store, settle->logged);
    store_batch_free(settle->batch);
    free(settle);
}

void settle_begin(struct settle *settle, uint64_t logged)
{
    CHECK(!settle->is_running);
    settle->is_running = true;
    settle->buffer = overlay_immutable(settle->overlay);
    settle->logged = logged;
    atomic_store(&settle->bytes, 0);
    CHECK(settle->buffer);
    worker_submit(settle->worker, &settle->job);
}

bool settle_now(struct settle *settle, uint64_t logged)
{
    CHECK(!settle->is_running);
    settle->buffer = overlay_immutable(settle->overlay);
    settle->logged = logged;
    apply_buffer(&settle->job);
    if (settle->result == OK)
        (void)overlay_applied(settle->overlay, SIZE_MAX);
    return settle->result == OK;
}

bool settle_is_running(const struct settle *settle)
{
    return settle->is_running;
}

void settle_forget(struct settle *settle)
{
    CHECK(!settle->is_running);
    settle->result = OK;
}

int settle_result(const struct settle *settle)
{
    return settle->is_running ? OK : settle->result;
}

const char *settle_reason(const struct settle *settle)
{
    return settle->reason;
}

size_t settle_bytes(const struct settle *settle)
{
    return settle->is_running ? atomic_load_explicit(&settle->bytes, memory_order_relaxed) : 0;
}
