#include "backend/replica/replica_save.h"

#include "shared/check.h"
#include "shared/list.h"
#include "shared/log.h"
#include "shared/net/worker.h"

#include <stdlib.h>

/* One save, which is reported when it is done. */
struct saving {
    struct job job;
    struct list link; /* in save->savings */
    struct replica_save *save;
    struct replica_record record;
    replica_saved_fn *saved;
    bool is_durable;
};

struct replica_save {
    struct worker *worker;
    struct replica_file *file;
    replica_save_failed_fn *on_failed;
    void *owner;
    struct list savings;
    bool is_ending;
    bool is_reported; /* a failure */
    /* used by the worker's thread, until the failure is reported */
    bool has_failed;
    char reason[256];
};

struct replica_save *replica_save_new(struct loop *loop, struct replica_file *file,
                                      replica_save_failed_fn *on_failed, void *owner)
{
    struct replica_save *save = calloc(1, sizeof *save);
    CHECK(save);
    save->worker = worker_new(loop, "replica save");
    save->file = file;
    save->on_failed = on_failed;
    save->owner = owner;
    list_init(&save->savings);
    return save;
}

void replica_save_free(struct replica_save *save)
{
    struct list *link;
    if (!save)
        return;
    save->is_ending = true;
    worker_free(save->worker);
    while ((link = list_pop(&save->savings))) /* its process has ended in a simulation */
        free(container_of(link, struct saving, link));
    free(save);
}

/* On the worker's thread. After a failure nothing is written: what the disk has is not known. */
static void save_record(struct job *job)
{
    struct saving *saving = container_of(job, struct saving, job);
    struct replica_save *save = saving->save;
    if (save->has_failed)
        return;
    saving->is_durable =
        replica_file_save(save->file, &saving->record, save->reason, sizeof save->reason);
    save->has_failed = !saving->is_durable;
}

static void report_failure(struct replica_save *save)
{
    save->is_reported = true;
    log_event(LOG_ERROR, "replica_save_failed", "reason=" LOG_QUOTED, save->reason);
    save->on_failed(save->owner, save->reason);
}

static void record_written(struct job *job)
{
    struct saving *saving = container_of(job, struct saving, job);
    struct replica_save *save = saving->save;
    replica_saved_fn *saved = saving->saved;
    bool is_durable = saving->is_durable;
    list_remove(&saving->link);
    free(saving);
    if (save->is_ending)
        return;
    if (is_durable)
        saved(save->owner);
    else if (!save->is_reported)
        report_failure(save);
}

void replica_save_begin(struct replica_save *save, const struct replica_record *record,
                        replica_saved_fn *saved)
{
    struct saving *saving = calloc(1, sizeof *saving);
    CHECK(saving);
    *saving = (struct saving){.job = {.work = save_record, .done = record_written},
                              .save = save,
                              .record = *record,
                              .saved = saved};
    list_push(&save->savings, &saving->link);
    worker_submit(save->worker, &saving->job);
}
