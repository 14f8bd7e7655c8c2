#include "backend/storage/upkeep.h"

#include "backend/storage/compaction.h"
#include "backend/store/store.h"
#include "backend/wal/path.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { INTERVAL_MS = 60 * 60 * 1000, REASON_MAX = 256 };

struct upkeep_job {
    struct job job;
    struct upkeep *upkeep;
    enum upkeep_task task;
    bool is_running;
    bool good;
};

struct upkeep {
    struct upkeep_job jobs[UPKEEP_TASKS];
    struct store *store;
    struct worker *worker;
    struct timer *timer;
    struct compaction *compaction;
    char *save_path;
    struct store_options tuned; /* TUNE's; its texts are constants */
    upkeep_fn *done;
    void *owner;
};

/* ---- tasks, on the worker's thread ---- */

static bool maintain(struct upkeep *upkeep)
{
    store_maintain(upkeep->store);
    return true;
}

/* What fails stays in the WAL; it is tried again as long as that is long. */
static bool flush_memtables(struct upkeep *upkeep)
{
    char reason[REASON_MAX];
    if (store_flush(upkeep->store, reason, sizeof reason) == OK)
        return true;
    log_event(LOG_WARN, "flush_failed", "reason=" LOG_QUOTED, reason);
    return false;
}

static bool save(struct upkeep *upkeep)
{
    char *fresh;
    char *old;
    char reason[REASON_MAX] = "";
    CHECK(asprintf(&fresh, "%s.new", upkeep->save_path) > 0);
    CHECK(asprintf(&old, "%s.old", upkeep->save_path) > 0);
    bool good = path_remove(fresh) && path_remove(old) &&
                store_flush(upkeep->store, reason, sizeof reason) == OK &&
                store_checkpoint(upkeep->store, fresh, reason, sizeof reason) == OK;
    errno = 0;
    good = good && (rename(upkeep->save_path, old) == 0 || errno == ENOENT) &&
           rename(fresh, upkeep->save_path) == 0;
    if (!good)
        log_event(LOG_ERROR, "save_failed", "path=" LOG_QUOTED " reason=" LOG_QUOTED,
                  upkeep->save_path, *reason ? reason : strerror(errno));
    (void)path_remove(old);
    free(fresh);
    free(old);
    return good;
}

static bool set_store_options(struct upkeep *upkeep)
{
    char reason[REASON_MAX];
    if (store_set_options(upkeep->store, &upkeep->tuned, reason, sizeof reason))
        return true;
    log_event(LOG_ERROR, "store_options_failed", "reason=" LOG_QUOTED, reason);
    return false;
}

static bool (*const tasks[UPKEEP_TASKS])(struct upkeep *upkeep) = {
    [UPKEEP_MAINTAIN] = maintain,
    [UPKEEP_FLUSH] = flush_memtables,
    [UPKEEP_SAVE] = save,
    [UPKEEP_SET_OPTIONS] = set_store_options,
};

/* ---- running them ---- */

static void run_task(struct job *job)
{
    struct upkeep_job *self = container_of(job, struct upkeep_job, job);
    self->good = tasks[self->task](self->upkeep);
}

static void task_ended(struct job *job)
{
    struct upkeep_job *self = container_of(job, struct upkeep_job, job);
    self->is_running = false;
    self->upkeep->done(self->upkeep->owner, self->task, self->good);
}

bool upkeep_start(struct upkeep *upkeep, enum upkeep_task task)
{
    struct upkeep_job *job = &upkeep->jobs[task];
    if (job->is_running)
        return false;
    job->is_running = true;
    worker_submit(upkeep->worker, &job->job);
    return true;
}

bool upkeep_set_options(struct upkeep *upkeep, const struct store_options *options)
{
    if (upkeep_is_running(upkeep, UPKEEP_SET_OPTIONS))
        return false;
    upkeep->tuned = *options;
    return upkeep_start(upkeep, UPKEEP_SET_OPTIONS);
}

bool upkeep_is_running(const struct upkeep *upkeep, enum upkeep_task task)
{
    return upkeep->jobs[task].is_running;
}

struct compaction *upkeep_compaction(struct upkeep *upkeep)
{
    return upkeep->compaction;
}

static void on_timer(void *owner)
{
    (void)upkeep_start(owner, UPKEEP_MAINTAIN);
}

struct upkeep *upkeep_new(struct loop *loop, struct store *store, const char *save_path,
                          upkeep_fn *done, void *owner)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    CHECK(upkeep);
    for (enum upkeep_task task = 0; task < UPKEEP_TASKS; task++)
        upkeep->jobs[task] = (struct upkeep_job){
            .job = {.work = run_task, .done = task_ended},
            .upkeep = upkeep,
            .task = task,
        };
    upkeep->store = store;
    upkeep->save_path = strdup(save_path);
    CHECK(upkeep->save_path);
    upkeep->done = done;
    upkeep->owner = owner;
    upkeep->worker = worker_new(loop, "upkeep");
    upkeep->compaction = compaction_new(loop, store, upkeep->worker);
    upkeep->timer = timer_new(loop, on_timer, upkeep);
    timer_start(upkeep->timer, INTERVAL_MS, INTERVAL_MS);
    return upkeep;
}

void upkeep_free(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    timer_free(upkeep->timer);
    compaction_free(upkeep->compaction);
    worker_free(upkeep->worker);
    free(upkeep->save_path);
    free(upkeep);
}
