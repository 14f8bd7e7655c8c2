/*
 * commit.c - seals layers, has them written and synced on the commit thread, and tells what became of them.
 *
 * The happy path: commit_turn seals the collecting layer ─► write_layer on the commit thread builds the batch,
 * writes and syncs it ─► layer_done on the partition's thread retires the layer and calls on_commit.
 *
 * When a write fails the layers are dropped, so that the overlay shows what the store holds, and writes are
 * refused until store_recover and a synced probe succeed.
 */
#include "backend/commit.h"

#include "backend/layer.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/command.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SYNC_INTERVAL_MS = 1000,
    RETRY_INTERVAL_MS = 1000,
    SLOW_WRITE_US = 10000, /* then the engine is asked whether it holds writes back */
    MOMENTS_PER_SECOND = 20,
};

enum commit_state { COMMIT_IDLE, COMMIT_WRITING, COMMIT_FAILED };

struct commit {
    struct job job;
    struct loop *loop;
    struct overlay *overlay;
    struct store *store;
    struct commit_options options;
    struct worker *worker;
    struct timer *timer; /* everysec: the sync; FAILED: the next try */
    struct store_batch *batch;
    enum commit_state state;
    bool unsynced;    /* something was written since the last sync */
    bool sync_is_due; /* everysec: the second was over while a batch was written */
    bool disk_is_low;
    uint64_t delayed_rate; /* bytes a second the engine takes now; 0: any. Of the last job */

    /* of the job under way */
    const struct layer *layer; /* NULL: only a sync */
    uint64_t ticket;
    bool sync;
    int result;
    char reason[256];
    uint64_t rows;
    uint64_t bytes;
    uint64_t sync_us;
};

static void write_layer(struct job *job)
{
    struct commit *commit = container_of(job, struct commit, job);
    if (!commit->layer) {
        commit->result = store_sync(commit->store, commit->reason, sizeof commit->reason);
        return;
    }
    commit->rows = layer_write(commit->layer, commit->store, commit->batch);
    commit->bytes = store_batch_bytes(commit->batch);
    uint64_t begun_us = clock_mono_us();
    commit->result = store_write(commit->store, commit->batch, commit->sync, commit->reason,
                                 sizeof commit->reason);
    commit->sync_us = clock_mono_us() - begun_us;
    if (commit->delayed_rate || commit->sync_us > SLOW_WRITE_US)
        commit->delayed_rate = store_figure(commit->store, "delayed_write_rate");
    store_batch_clear(commit->batch);
}

static void commit_fail(struct commit *commit)
{
    log_event(LOG_ERROR, "commit_failed", "reason=\"%s\" ticket=%llu", commit->reason,
              (unsigned long long)commit->ticket);
    commit->state = COMMIT_FAILED;
    overlay_discard(commit->overlay);
    timer_start(commit->timer, RETRY_INTERVAL_MS, RETRY_INTERVAL_MS);
}

static void layer_done(struct job *job)
{
    struct commit *commit = container_of(job, struct commit, job);
    bool was_layer = commit->layer != NULL;
    commit->layer = NULL;
    if (commit->result != OK) {
        commit_fail(commit);
    } else {
        commit->state = COMMIT_IDLE;
        commit->unsynced = was_layer && !commit->sync;
        if (was_layer)
            overlay_retire(commit->overlay);
    }
    if (was_layer || commit->result != OK)
        commit->options.on_commit(commit->options.owner, commit->ticket, commit->result);
}

static void submit(struct commit *commit, const struct layer *layer)
{
    commit->state = COMMIT_WRITING;
    commit->layer = layer;
    commit->sync = commit->options.durability == DURABILITY_ALWAYS || commit->sync_is_due;
    commit->sync_is_due = false;
    worker_submit(commit->worker, &commit->job);
}

/* Reopens the engine where needed and proves with a synced write that it takes data again. */
static void try_recover(struct commit *commit)
{
    int err = store_recover(commit->store, commit->reason, sizeof commit->reason);
    overlay_store_changed(commit->overlay);
    if (err == OK) {
        store_batch_log_data(commit->batch, BYTES("probe"));
        err =
            store_write(commit->store, commit->batch, true, commit->reason, sizeof commit->reason);
        store_batch_clear(commit->batch);
    }
    if (err == OK && !commit->options.on_recover(commit->options.owner)) {
        (void)snprintf(commit->reason, sizeof commit->reason, "the store cannot be read");
        err = ERR_STORE;
    }
    commit->result = err;
    if (err != OK)
        return;
    log_event(LOG_WARN, "commit_recovered", "state=writing");
    commit->state = COMMIT_IDLE;
    commit->unsynced = false;
    timer_stop(commit->timer);
    commit_set_durability(commit, commit->options.durability);
}

static void on_timer(void *owner)
{
    struct commit *commit = owner;
    if (commit->state == COMMIT_FAILED)
        try_recover(commit);
    else if (commit->state == COMMIT_WRITING)
        commit->sync_is_due = true;
    else if (commit->unsynced)
        submit(commit, NULL);
}

struct commit *commit_new(struct loop *loop, struct overlay *overlay, struct store *store,
                          const struct commit_options *options)
{
    struct commit *commit = calloc(1, sizeof *commit);
    CHECK(commit);
    commit->job = (struct job){.work = write_layer, .done = layer_done};
    commit->loop = loop;
    commit->overlay = overlay;
    commit->store = store;
    commit->options = *options;
    commit->worker = worker_new(loop, "commit");
    commit->timer = timer_new(loop, on_timer, commit);
    commit->batch = store_batch_new();
    commit_set_durability(commit, options->durability);
    return commit;
}

void commit_free(struct commit *commit)
{
    if (!commit)
        return;
    worker_free(commit->worker);
    timer_free(commit->timer);
    if (commit->unsynced && store_sync(commit->store, commit->reason, sizeof commit->reason) != OK)
        log_event(LOG_ERROR, "sync_failed", "reason=\"%s\"", commit->reason);
    store_batch_free(commit->batch);
    free(commit);
}

void commit_set_durability(struct commit *commit, enum durability durability)
{
    commit->options.durability = durability;
    if (commit->state == COMMIT_FAILED)
        return;
    if (durability == DURABILITY_EVERYSEC)
        timer_start(commit->timer, SYNC_INTERVAL_MS, SYNC_INTERVAL_MS);
    else
        timer_stop(commit->timer);
}

bool commit_turn(struct commit *commit)
{
    if (commit->state != COMMIT_IDLE || !overlay_dirty(commit->overlay))
        return false;
    commit->options.on_seal(commit->options.owner);
    commit->ticket = overlay_ticket(commit->overlay);
    submit(commit, overlay_seal(commit->overlay));
    return true;
}

bool commit_is_idle(const struct commit *commit)
{
    return commit->state != COMMIT_WRITING && !overlay_dirty(commit->overlay);
}

bool commit_is_full(const struct commit *commit, uint64_t limit)
{
    uint64_t moment = commit->delayed_rate / MOMENTS_PER_SECOND;
    return overlay_bytes(commit->overlay) > (moment && moment < limit ? moment : limit);
}

bool commit_is_failed(const struct commit *commit, const char **reason)
{
    if (reason)
        *reason = commit->reason;
    return commit->state == COMMIT_FAILED;
}

int commit_error(const struct commit *commit)
{
    return commit->result == ERR_DISK_FULL ? ERR_DISK_FULL : ERR_READONLY_DISK;
}

int commit_gate(const struct commit *commit, uint32_t command_flags)
{
    if (!(command_flags & CMD_WRITE))
        return OK;
    if (commit->state == COMMIT_FAILED)
        return commit_error(commit);
    return commit->disk_is_low && command_flags & CMD_DENYOOM ? ERR_DISK_LOW : OK;
}

void commit_watch_disk(struct commit *commit, uint64_t free_bytes_min)
{
    uint64_t limit = free_bytes_min + (commit->disk_is_low ? free_bytes_min / 4 : 0);
    uint64_t free_bytes = limit ? store_figure(commit->store, "disk_free_bytes") : 0;
    bool is_low = free_bytes < limit;
    if (is_low != commit->disk_is_low)
        log_event(LOG_WARN, is_low ? "disk_low" : "disk_has_room", "free_bytes=%llu",
                  (unsigned long long)free_bytes);
    commit->disk_is_low = is_low;
}

uint64_t commit_rows(const struct commit *commit)
{
    return commit->rows;
}

uint64_t commit_bytes(const struct commit *commit)
{
    return commit->bytes;
}

uint64_t commit_sync_us(const struct commit *commit)
{
    return commit->sync_us;
}
