#include "backend/storage/maintenance.h"

#include "backend/storage/compaction.h"
#include "backend/storage/storage.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "shared/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { INTERVAL_MS = 60 * 60 * 1000, REASON_MAX = 256 };

struct maintenance_job {
    struct job job;
    struct maintenance *maintenance;
    enum maintenance_task task;
    bool is_running;
    bool good;
};

struct maintenance {
    struct maintenance_job jobs[MAINTENANCE_TASKS];
    struct storage *storage;
    struct worker *worker;
    struct timer *timer;
    struct compaction *compaction;
    char *save_path;
    struct store_options tuned; /* options for the task OPTIONS; their texts are constants */
    struct maintenance_keep keep;
    bool is_keep_set;
    maintenance_fn *done;
    void *owner;
};

/* ---- tasks, on the worker's thread ---- */

static bool maintain(struct maintenance *maintenance)
{
    store_maintain(storage_store(maintenance->storage));
    return true;
}

/* Flushes memtables to files. If the flush fails, the rows stay in the WAL, and the flush is repeated while the WAL is
 * too long. */
static bool flush_memtables(struct maintenance *maintenance)
{
    char reason[REASON_MAX];
    if (storage_flush(maintenance->storage, reason, sizeof reason) == OK)
        return true;
    log_event(LOG_WARN, "flush_failed", "reason=" LOG_QUOTED, reason);
    return false;
}

static bool save(struct maintenance *maintenance)
{
    char *fresh;
    char *old;
    char reason[REASON_MAX] = "";
    CHECK(asprintf(&fresh, "%s.new", maintenance->save_path) > 0);
    CHECK(asprintf(&old, "%s.old", maintenance->save_path) > 0);
    bool good = path_remove(fresh) && path_remove(old) &&
                storage_flush(maintenance->storage, reason, sizeof reason) == OK &&
                storage_checkpoint(maintenance->storage, fresh, reason, sizeof reason) == OK;
    errno = 0;
    good = good && (rename(maintenance->save_path, old) == 0 || errno == ENOENT) &&
           rename(fresh, maintenance->save_path) == 0;
    if (!good)
        log_event(LOG_ERROR, "save_failed", "path=" LOG_QUOTED " reason=" LOG_QUOTED,
                  maintenance->save_path, *reason ? reason : strerror(errno));
    (void)path_remove(old);
    free(fresh);
    free(old);
    return good;
}

static bool set_store_options(struct maintenance *maintenance)
{
    char reason[REASON_MAX];
    if (store_set_options(storage_store(maintenance->storage), &maintenance->tuned, reason,
                          sizeof reason))
        return true;
    log_event(LOG_ERROR, "store_options_failed", "reason=" LOG_QUOTED, reason);
    return false;
}

static bool apply_keep(struct maintenance *maintenance)
{
    const struct maintenance_keep *keep = &maintenance->keep;
    storage_keep(maintenance->storage, keep->bytes, keep->age_ms, keep->free_bytes_min);
    return true;
}

static bool (*const tasks[MAINTENANCE_TASKS])(struct maintenance *maintenance) = {
    [MAINTENANCE_MAINTAIN] = maintain, [MAINTENANCE_FLUSH] = flush_memtables,
    [MAINTENANCE_SAVE] = save,         [MAINTENANCE_SET_OPTIONS] = set_store_options,
    [MAINTENANCE_KEEP] = apply_keep,
};

/* ---- running tasks ---- */

static void run_task(struct job *job)
{
    struct maintenance_job *self = container_of(job, struct maintenance_job, job);
    self->good = tasks[self->task](self->maintenance);
}

static void task_ended(struct job *job)
{
    struct maintenance_job *self = container_of(job, struct maintenance_job, job);
    self->is_running = false;
    self->maintenance->done(self->maintenance->owner, self->task, self->good);
}

bool maintenance_start(struct maintenance *maintenance, enum maintenance_task task)
{
    struct maintenance_job *job = &maintenance->jobs[task];
    if (job->is_running)
        return false;
    job->is_running = true;
    worker_submit(maintenance->worker, &job->job);
    return true;
}

bool maintenance_set_options(struct maintenance *maintenance, const struct store_options *options)
{
    if (maintenance_is_running(maintenance, MAINTENANCE_SET_OPTIONS))
        return false;
    maintenance->tuned = *options;
    return maintenance_start(maintenance, MAINTENANCE_SET_OPTIONS);
}

void maintenance_keep(struct maintenance *maintenance, const struct maintenance_keep *keep)
{
    bool is_off = !keep->bytes && maintenance->is_keep_set && !maintenance->keep.bytes;
    if (is_off || maintenance_is_running(maintenance, MAINTENANCE_KEEP))
        return;
    maintenance->keep = *keep;
    maintenance->is_keep_set = true;
    (void)maintenance_start(maintenance, MAINTENANCE_KEEP);
}

bool maintenance_is_running(const struct maintenance *maintenance, enum maintenance_task task)
{
    return maintenance->jobs[task].is_running;
}

struct compaction *maintenance_compaction(struct maintenance *maintenance)
{
    return maintenance->compaction;
}

static void on_timer(void *owner)
{
    (void)maintenance_start(owner, MAINTENANCE_MAINTAIN);
}

struct maintenance *maintenance_new(struct loop *loop, struct storage *storage,
                                    const char *save_path, maintenance_fn *done, void *owner)
{
    struct maintenance *maintenance = calloc(1, sizeof *maintenance);
    CHECK(maintenance);
    for (enum maintenance_task task = 0; task < MAINTENANCE_TASKS; task++)
        maintenance->jobs[task] = (struct maintenance_job){
            .job = {.work = run_task, .done = task_ended},
            .maintenance = maintenance,
            .task = task,
        };
    maintenance->storage = storage;
    maintenance->save_path = strdup(save_path);
    CHECK(maintenance->save_path);
    maintenance->done = done;
    maintenance->owner = owner;
    maintenance->worker = worker_new(loop, "maintenance");
    maintenance->compaction = compaction_new(loop, storage, maintenance->worker);
    maintenance->timer = timer_new(loop, on_timer, maintenance);
    timer_start(maintenance->timer, INTERVAL_MS, INTERVAL_MS);
    return maintenance;
}

void maintenance_free(struct maintenance *maintenance)
{
    if (!maintenance)
        return;
    timer_free(maintenance->timer);
    compaction_free(maintenance->compaction);
    worker_free(maintenance->worker);
    free(maintenance->save_path);
    free(maintenance);
}
