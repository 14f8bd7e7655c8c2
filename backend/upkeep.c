#include "backend/upkeep.h"

#include "backend/store/store.h"
#include "shared/check.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <stdlib.h>

enum { INTERVAL_MS = 60 * 60 * 1000 };

struct upkeep {
    struct job job;
    struct store *store;
    struct worker *worker;
    struct timer *timer;
    bool is_busy;
};

static void maintain(struct job *job)
{
    store_maintain(container_of(job, struct upkeep, job)->store);
}

static void maintained(struct job *job)
{
    container_of(job, struct upkeep, job)->is_busy = false;
}

static void on_timer(void *owner)
{
    struct upkeep *upkeep = owner;
    if (upkeep->is_busy)
        return;
    upkeep->is_busy = true;
    worker_submit(upkeep->worker, &upkeep->job);
}

struct upkeep *upkeep_new(struct loop *loop, struct store *store)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    CHECK(upkeep);
    upkeep->job = (struct job){.work = maintain, .done = maintained};
    upkeep->store = store;
    upkeep->worker = worker_new(loop, "upkeep");
    upkeep->timer = timer_new(loop, on_timer, upkeep);
    timer_start(upkeep->timer, INTERVAL_MS, INTERVAL_MS);
    return upkeep;
}

void upkeep_free(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    timer_free(upkeep->timer);
    worker_free(upkeep->worker);
    free(upkeep);
}
