/*
 * wake_uv.c - how a loop hears from other threads that they have something for it.
 *
 *   another thread:  leaves it (mail, pipes) ─► is_wanted ─► the loop is asleep? ─► writes to the descriptor
 *   the loop:        end of the turn ─► is_asleep ─► is_wanted? ─ no ─► poll ─► not asleep ─► is_wanted? ─ yes ─► takes it
 *                                                       └─ yes ─► polls without waiting ─┘
 *
 * Each side writes its flag and then reads the other's, so at least one of them sees the other: nothing is left behind while the loop
 * sleeps. A loop that is awake is told without a system call.
 *
 * Why not uv_async_t: libuv 1.44 wakes a loop before its sender has finished, and the loop then runs in a circle, and yields, until the sender,
 * which it may have pushed off its CPU, goes on. That was a quarter of the CPU of a thread that is woken for each batch.
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

void wake_call(struct loop *loop)
{
    struct loop_wake *wake = &loop->wake;
    bool was_wanted = atomic_exchange(&wake->is_wanted, true);
    if (!was_wanted && atomic_load(&wake->is_asleep))
        CHECK(eventfd_write(wake->fd, 1) == 0);
}

bool wake_sleep(struct loop *loop)
{
    struct loop_wake *wake = &loop->wake;
    atomic_store(&wake->is_asleep, true);
    return !atomic_load(&wake->is_wanted);
}

void wake_up(struct loop *loop)
{
    if (atomic_load_explicit(&loop->wake.is_asleep, memory_order_relaxed))
        atomic_store_explicit(&loop->wake.is_asleep, false, memory_order_relaxed);
}

/* After each poll, and its events. */
static void on_check(uv_check_t *check)
{
    struct loop *loop = container_of(check, struct loop, wake.check);
    wake_up(loop);
    if (atomic_exchange(&loop->wake.is_wanted, false))
        loop->wake.on_wake(loop);
}

/* Only takes the number out of the descriptor. A late caller may have written it for what was taken already. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    const struct loop_wake *wake = container_of(poll, struct loop_wake, poll);
    eventfd_t count;
    (void)status;
    (void)events;
    CHECK(eventfd_read(wake->fd, &count) == 0 || errno == EAGAIN || errno == EINTR);
}

void wake_init(struct loop *loop, void (*on_wake)(struct loop *loop))
{
    struct loop_wake *wake = &loop->wake;
    wake->on_wake = on_wake;
    wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(wake->fd >= 0);
    uv_check_init(&loop->uv, &wake->check);
    uv_check_start(&wake->check, on_check);
    CHECK(uv_poll_init(&loop->uv, &wake->poll, wake->fd) == 0);
    CHECK(uv_poll_start(&wake->poll, UV_READABLE, on_readable) == 0);
}

void wake_close(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->wake.check, NULL);
    uv_close((uv_handle_t *)&loop->wake.poll, NULL);
    close(loop->wake.fd);
}
