#include "proxy/core/next_turn.h"

#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>

enum { TURN_US = 2000 /* no further portion begins in this turn after so long */ };

struct next_turn {
    struct proxy_worker *worker;
    struct timer *timer;
    struct list waiting; /* struct portion */
};

struct portion {
    struct list link;
    struct request *request;
};

static void run_first(struct next_turn *next)
{
    struct portion *portion = container_of(list_pop(&next->waiting), struct portion, link);
    struct request *request = portion->request;
    free(portion);
    request_wake(request); /* its next portion joins the end of the list */
}

static void on_turn(void *owner)
{
    struct next_turn *next = owner;
    uint64_t end_us = clock_mono_us() + TURN_US;
    while (!list_empty(&next->waiting) && clock_mono_us() < end_us)
        run_first(next);
    if (!list_empty(&next->waiting)) {
        timer_start(next->timer, 0, 0);
        return;
    }
    next->worker->requests.next_turn = NULL;
    timer_free(next->timer);
    free(next);
}

static struct next_turn *next_turn_of(struct proxy_worker *worker)
{
    if (worker->requests.next_turn)
        return worker->requests.next_turn;
    struct next_turn *next = calloc(1, sizeof *next);
    CHECK(next);
    next->worker = worker;
    next->timer = timer_new(worker->loop, on_turn, next);
    list_init(&next->waiting);
    timer_start(next->timer, 0, 0);
    worker->requests.next_turn = next;
    return next;
}

void request_next_turn(struct request *request, request_done_fn *go_on)
{
    struct next_turn *next = next_turn_of(request->worker);
    struct portion *portion = calloc(1, sizeof *portion);
    CHECK(portion);
    portion->request = request;
    list_push(&next->waiting, &portion->link);
    request_wait(request, go_on);
}
