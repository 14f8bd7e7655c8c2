#include "proxy/core/worker.h"

#include "proxy/core/frame.h"
#include "shared/check.h"

#include <stdlib.h>

enum { TICK_MS = 20 };

void proxy_worker_need_tick(struct proxy_worker *worker)
{
    if (worker->thread.is_ticking)
        return;
    worker->thread.is_ticking = true;
    timer_start(worker->thread.tick, TICK_MS, TICK_MS);
}

const struct bytes *argv_of(struct proxy_worker *worker, const struct frame *frame)
{
    if (worker->scratch.made == frame->args && worker->scratch.made)
        return worker->scratch.argv;
    if (frame->argc > worker->scratch.argv_cap) {
        uint32_t cap = frame->argc < 32 ? 32 : frame->argc;
        worker->scratch.argv = realloc(worker->scratch.argv, cap * sizeof(*worker->scratch.argv));
        CHECK(worker->scratch.argv);
        worker->scratch.argv_cap = cap;
    }
    for (uint32_t i = 0; i < frame->argc; i++)
        worker->scratch.argv[i] = frame_arg(frame, i);
    return worker->scratch.argv;
}
