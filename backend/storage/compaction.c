#include "backend/storage/compaction.h"

#include "backend/storage/storage.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/hours.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Longest wait for earlier writes to be applied: RocksDB may stall them. */
enum { WAIT_US = 15000000 };

struct outcome {
    enum store_compacted result;
    uint64_t disk_bytes; /* before */
    uint64_t disk_bytes_after;
};

struct compaction {
    struct loop *loop;
    struct storage *storage;
    struct worker *worker; /* runs the compaction */
    struct worker *helper; /* runs the cancel job */
    struct job run;
    struct job cancel;
    struct store_progress progress;
    _Atomic bool is_running;
    bool is_waiting;        /* for earlier writes to be applied to the tables */
    bool is_cancelling;     /* the cancel job runs */
    uint64_t begun_us;      /* monotonic */
    uint64_t begun_ms;      /* wall clock */
    bool is_scheduled;      /* started by compaction-window */
    uint64_t hours_ms;      /* begin of the last compaction-window in which a compaction started */
    struct outcome outcome; /* of the running compaction; used only by its thread */
    /* of the last compaction */
    bool has_ended;
    struct outcome last;
    uint64_t ended_ms;
    uint64_t seconds;
};

/* By enum store_compacted. */
static const char *const results[] = {"ok", "cancelled", "err"};

/* ---- jobs, on other threads ---- */

/* Compacts the store. The flush at the end writes what memtables still hold, so that the WAL can be trimmed. */
static void run_work(struct job *job)
{
    struct compaction *self = container_of(job, struct compaction, run);
    char reason[256];
    self->outcome.disk_bytes = storage_figure(self->storage, "disk_bytes");
    self->outcome.result = store_compact_all(storage_store(self->storage), &self->progress);
    if (self->outcome.result == STORE_COMPACTED &&
        storage_flush(self->storage, reason, sizeof reason) != OK)
        self->outcome.result = STORE_COMPACT_FAILED;
    self->outcome.disk_bytes_after = storage_figure(self->storage, "disk_bytes");
}

static void cancel_work(struct job *job)
{
    struct compaction *self = container_of(job, struct compaction, cancel);
    store_compact_cancel(storage_store(self->storage), &self->progress);
}

/* ---- control, on the partition's thread ---- */

static void run_done(struct job *job)
{
    struct compaction *self = container_of(job, struct compaction, run);
    self->last = self->outcome;
    self->seconds = (clock_mono_us() - self->begun_us) / 1000000;
    self->ended_ms = loop_wall_ms(self->loop);
    self->has_ended = true;
    atomic_store(&self->is_running, false);
    log_event(LOG_INFO, "compaction_ended",
              "result=%s seconds=%" PRIu64 " bytes=%" PRIu64 " bytes_after=%" PRIu64,
              results[self->last.result], self->seconds, self->last.disk_bytes,
              self->last.disk_bytes_after);
}

static void cancel_done(struct job *job)
{
    struct compaction *self = container_of(job, struct compaction, cancel);
    self->is_cancelling = false;
}

struct compaction *compaction_new(struct loop *loop, struct storage *storage, struct worker *helper)
{
    struct compaction *self = calloc(1, sizeof *self);
    CHECK(self);
    self->loop = loop;
    self->storage = storage;
    self->helper = helper;
    self->run = (struct job){.work = run_work, .done = run_done};
    self->cancel = (struct job){.work = cancel_work, .done = cancel_done};
    self->worker = worker_new(loop, "compaction");
    return self;
}

void compaction_free(struct compaction *self)
{
    if (!self)
        return;
    if (self->is_running && !self->is_waiting)
        store_compact_cancel(storage_store(self->storage), &self->progress);
    worker_free(self->worker);
    free(self);
}

void compaction_look_on(struct compaction *self, uint64_t buffered_ms)
{
    bool is_behind = buffered_ms && buffered_ms <= self->begun_ms;
    if (!self->is_waiting || (is_behind && clock_mono_us() < self->begun_us + WAIT_US))
        return;
    self->is_waiting = false;
    worker_submit(self->worker, &self->run);
}

/* No compaction starts while a cancel job runs, because that job would cancel it. */
bool compaction_start(struct compaction *self)
{
    if (self->is_running || self->is_cancelling)
        return false;
    atomic_store(&self->progress.bytes_done, 0);
    atomic_store(&self->progress.bytes_total, 0);
    atomic_store(&self->progress.is_cancelled, false);
    self->begun_us = clock_mono_us();
    self->begun_ms = loop_wall_ms(self->loop);
    self->is_scheduled = false;
    self->is_waiting = true;
    atomic_store(&self->is_running, true);
    return true;
}

bool compaction_cancel(struct compaction *self)
{
    if (!self->is_running)
        return false;
    if (self->is_waiting) {
        self->is_waiting = false;
        self->outcome = (struct outcome){.result = STORE_COMPACT_CANCELLED};
        run_done(&self->run);
    } else if (!self->is_cancelling) {
        self->is_cancelling = true;
        worker_submit(self->helper, &self->cancel);
    }
    return true;
}

void compaction_tick(struct compaction *self, const struct hours *hours)
{
    uint64_t now_ms = loop_wall_ms(self->loop);
    if (!hours_have(hours, now_ms)) {
        if (self->is_running && self->is_scheduled)
            (void)compaction_cancel(self);
        return;
    }
    uint64_t began_ms = hours_began_ms(hours, now_ms);
    if (began_ms == self->hours_ms || !compaction_start(self))
        return;
    self->is_scheduled = true;
    self->hours_ms = began_ms;
    log_event(LOG_INFO, "compaction_began", "cause=compaction-window");
}

bool compaction_is_running(const struct compaction *self)
{
    return self->is_running;
}

void compaction_progress(const struct compaction *self, uint64_t *done, uint64_t *total)
{
    bool is_running = atomic_load(&self->is_running);
    *done = is_running ? atomic_load(&self->progress.bytes_done) : 0;
    *total = is_running ? atomic_load(&self->progress.bytes_total) : 0;
}

struct compaction_view compaction_look(const struct compaction *self)
{
    struct compaction_view view = {
        .state = !self->is_running     ? "idle"
                 : self->is_cancelling ? "cancelling"
                                       : "running",
        .family =
            self->is_running ? store_family_name((enum cf)atomic_load(&self->progress.cf)) : "",
        .seconds = self->is_running ? (clock_mono_us() - self->begun_us) / 1000000 : self->seconds,
        .last = self->has_ended ? results[self->last.result] : "",
        .ended_ms = self->ended_ms,
    };
    compaction_progress(self, &view.bytes_done, &view.bytes_total);
    if (self->has_ended && !self->is_running) {
        view.disk_bytes = self->last.disk_bytes;
        view.disk_bytes_after = self->last.disk_bytes_after;
    }
    view.percent = view.bytes_total ? view.bytes_done * 100 / view.bytes_total : 0;
    return view;
}
