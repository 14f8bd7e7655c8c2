/*
 * request_gather.c - calls on other threads: a request waits until all workers, or the main thread, have run a function.
 *
 *   request_gather ──loop_post──► each worker: visit(worker, data, out) ──loop_post──► the request's worker
 *                                   ▲          │             all have: the outs are kept, request_wake ─► done()
 *                                   └─loop_post┘ a further portion, in the worker's next turn
 */
#include "proxy/core/request.h"

#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "shared/check.h"

#include <stdlib.h>

/* A call on one other thread. */
struct visit {
    struct task task;
    struct gather *gather;
    struct proxy_worker *worker; /* NULL: the main thread */
    void *state;                 /* of portions; NULL: there was none yet */
    struct out out;
};

struct gather {
    struct request *request;
    /* one of these: */
    gather_visit_fn *visit;
    gather_portion_fn *portion;
    main_work_fn *work;
    size_t state_size;
    void *data;
    uint32_t count;
    uint32_t left;
    struct visit visits[];
};

static void gather_done(struct gather *gather)
{
    struct request *request = gather->request;
    struct out *outs = calloc(gather->count, sizeof(*outs));
    CHECK(outs);
    for (uint32_t i = 0; i < gather->count; i++)
        out_move(&outs[i], &gather->visits[i].out);
    request_put_gathered(request, outs, gather->count);
    free(gather->data);
    free(gather);
    request_wake(request);
}

static void on_visited(struct task *task)
{
    struct gather *gather = container_of(task, struct visit, task)->gather;
    if (--gather->left == 0)
        gather_done(gather);
}

/* True: a further portion follows. */
static bool visit_portion(const struct gather *gather, struct visit *visit)
{
    if (!visit->state)
        visit->state = calloc(1, gather->state_size);
    CHECK(visit->state);
    if (gather->portion(visit->worker, gather->data, visit->state, &visit->out))
        return true;
    free(visit->state);
    return false;
}

static void on_gather_visit(struct task *task)
{
    struct visit *visit = container_of(task, struct visit, task);
    struct gather *gather = visit->gather;
    struct proxy_worker *home = gather->request->worker;
    if (gather->portion && visit_portion(gather, visit)) {
        loop_post(visit->worker->loop, task);
        return;
    }
    if (gather->visit)
        gather->visit(visit->worker, gather->data, &visit->out);
    else if (gather->work)
        gather->work(home->proxy, gather->data, &visit->out);
    visit->task.run = on_visited;
    loop_post(home->loop, &visit->task);
}

static struct gather *gather_new(struct request *request, uint32_t count, const void *data,
                                 size_t size, request_done_fn *done)
{
    CHECK(count > 0);
    struct gather *gather = calloc(1, sizeof(*gather) + count * sizeof(struct visit));
    CHECK(gather);
    gather->request = request;
    gather->count = gather->left = count;
    gather->data = malloc(size + 1);
    CHECK(gather->data);
    if (size)
        memcpy(gather->data, data, size);
    for (uint32_t i = 0; i < count; i++) {
        gather->visits[i].gather = gather;
        gather->visits[i].task.run = on_gather_visit;
        out_init(&gather->visits[i].out);
    }
    request_wait(request, done);
    return gather;
}

/* Sends the visits to all workers. */
static void gather_post(const struct proxy *proxy, struct gather *gather)
{
    uint32_t count = gather->count;
    for (uint32_t i = 0; i < count; i++)
        gather->visits[i].worker = proxy->workers[i];
    for (uint32_t i = 0; i < count; i++)
        loop_post(proxy->workers[i]->loop, &gather->visits[i].task);
}

void request_gather(struct request *request, gather_visit_fn *visit, const void *data, size_t size,
                    request_done_fn *done)
{
    const struct proxy *proxy = request->worker->proxy;
    struct gather *gather = gather_new(request, proxy->worker_count, data, size, done);
    gather->visit = visit;
    gather_post(proxy, gather);
}

void request_gather_portions(struct request *request, gather_portion_fn *visit, size_t state_size,
                             const void *data, size_t size, request_done_fn *done)
{
    const struct proxy *proxy = request->worker->proxy;
    struct gather *gather = gather_new(request, proxy->worker_count, data, size, done);
    gather->portion = visit;
    gather->state_size = state_size;
    gather_post(proxy, gather);
}

void request_on_main(struct request *request, main_work_fn *work, const void *data, size_t size,
                     request_done_fn *done)
{
    struct gather *gather = gather_new(request, 1, data, size, done);
    gather->work = work;
    loop_post(request->worker->proxy->loop, &gather->visits[0].task);
}
