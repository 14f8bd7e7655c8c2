#include "backend/storage/apply.h"

#include "backend/storage/storage.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The caches are updated from portions of FOLD_ROWS rows, in one turn of the loop for as long as the rest of the turn took, but for
 * FOLD_US_MIN at least and FOLD_US_MAX at most. So clients wait at most twice as long, and under a load that makes turns long the update
 * still ends before the other write buffer is full. It is limited by time, because a row may be the first in its huge page of a cache,
 * which the kernel then fills with zeros. */
enum { FOLD_ROWS = 4, FOLD_US_MIN = 200, FOLD_US_MAX = 5000 };

enum { POLLING_MS = 1 }; /* until the next try, while a slow command polls the loop */

struct apply {
    struct job job;
    struct loop *loop;
    struct worker *worker;
    struct timer *timer; /* after the buffer was applied: updates the caches from its rows */
    uint64_t folded_us;  /* when the last step of this update ended */
    struct overlay *overlay;
    struct storage *storage;
    struct store_batch *batch;
    apply_fn *on_done;
    void *owner;
    bool is_running;

    /* the buffer of the current job, or of the last one */
    const struct write_buffer *buffer;
    uint64_t upto; /* index of its newest batch in the WAL */
    _Atomic size_t bytes;
    int result;
    char reason[256];
};

/* Syncs the WAL, then applies the buffer: only durable rows go into the tables. */
static int sync_and_apply(struct apply *apply, const struct write_buffer *buffer)
{
    int err = storage_sync_upto(apply->storage, apply->upto, apply->reason, sizeof apply->reason);
    if (err != OK)
        return err;
    return write_buffer_apply(buffer, storage_store(apply->storage), apply->batch, &apply->bytes,
                              apply->reason, sizeof apply->reason);
}

static void apply_buffer(struct job *job)
{
    struct apply *apply = container_of(job, struct apply, job);
    apply->result = sync_and_apply(apply, apply->buffer);
    if (apply->result == OK)
        storage_applied(apply->storage, apply->upto);
}

static void finish_apply(struct apply *apply)
{
    apply->is_running = false;
    apply->on_done(apply->owner, apply->result);
}

/* How long the next step may take, if the rest of the turn took this long. */
static uint64_t step_us(uint64_t rest_us)
{
    if (rest_us < FOLD_US_MIN)
        return FOLD_US_MIN;
    return rest_us < FOLD_US_MAX ? rest_us : FOLD_US_MAX;
}

/* Frees rows and drops cached ones, so it waits while a slow command polls the loop: that command may use them. */
static void on_timer(void *owner)
{
    struct apply *apply = owner;
    if (loop_is_polling(apply->loop)) {
        timer_start(apply->timer, POLLING_MS, 0);
        return;
    }
    uint64_t now_us = clock_mono_us();
    uint64_t end_us = now_us + step_us(now_us - apply->folded_us);
    bool is_done;
    do {
        is_done = overlay_applied(apply->overlay, FOLD_ROWS);
        apply->folded_us = clock_mono_us();
    } while (!is_done && apply->folded_us < end_us);
    if (is_done)
        finish_apply(apply);
    else
        timer_start(apply->timer, 0, 0);
}

static void apply_done(struct job *job)
{
    struct apply *apply = container_of(job, struct apply, job);
    if (apply->result != OK) {
        finish_apply(apply);
        return;
    }
    apply->folded_us = clock_mono_us();
    on_timer(apply);
}

struct apply *apply_new(struct loop *loop, struct overlay *overlay, struct storage *storage,
                        apply_fn *on_done, void *owner)
{
    struct apply *apply = calloc(1, sizeof *apply);
    CHECK(apply);
    apply->job = (struct job){.work = apply_buffer, .done = apply_done};
    apply->loop = loop;
    apply->worker = worker_new(loop, "apply");
    apply->timer = timer_new(loop, on_timer, apply);
    apply->overlay = overlay;
    apply->storage = storage;
    apply->batch = store_batch_new();
    apply->on_done = on_done;
    apply->owner = owner;
    return apply;
}

static int apply_rest(struct apply *apply)
{
    const struct write_buffer *immutable = overlay_immutable(apply->overlay);
    apply->upto = storage_committed(apply->storage);
    int err = immutable ? sync_and_apply(apply, immutable) : OK;
    return err == OK ? sync_and_apply(apply, overlay_active(apply->overlay)) : err;
}

void apply_free(struct apply *apply)
{
    if (!apply)
        return;
    worker_free(apply->worker);
    timer_free(apply->timer);
    if (apply->is_running)
        (void)overlay_applied(apply->overlay, SIZE_MAX);
    if (apply->result == OK && !store_is_stopped(storage_store(apply->storage)) &&
        apply_rest(apply) == OK)
        storage_applied(apply->storage, apply->upto);
    store_batch_free(apply->batch);
    free(apply);
}

void apply_begin(struct apply *apply, uint64_t upto)
{
    CHECK(!apply->is_running);
    apply->is_running = true;
    apply->buffer = overlay_immutable(apply->overlay);
    apply->upto = upto;
    atomic_store(&apply->bytes, 0);
    CHECK(apply->buffer);
    worker_submit(apply->worker, &apply->job);
}

bool apply_now(struct apply *apply, uint64_t upto)
{
    CHECK(!apply->is_running);
    apply->buffer = overlay_immutable(apply->overlay);
    apply->upto = upto;
    apply_buffer(&apply->job);
    if (apply->result == OK)
        (void)overlay_applied(apply->overlay, SIZE_MAX);
    return apply->result == OK;
}

bool apply_is_running(const struct apply *apply)
{
    return apply->is_running;
}

void apply_forget(struct apply *apply)
{
    CHECK(!apply->is_running);
    apply->result = OK;
}

int apply_result(const struct apply *apply)
{
    return apply->is_running ? OK : apply->result;
}

const char *apply_reason(const struct apply *apply)
{
    return apply->reason;
}

size_t apply_bytes(const struct apply *apply)
{
    return apply->is_running ? atomic_load_explicit(&apply->bytes, memory_order_relaxed) : 0;
}
