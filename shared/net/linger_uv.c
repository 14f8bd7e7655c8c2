/*
 * linger_uv.c - the last second of a connection that our side has ended: it is read until the peer has ended its side too.
 *
 *   stream_close ─► output is written ─► shutdown(SHUT_WR) ─► bytes of the peer are dropped ─► its end ─► close()
 *                                                                        └─ LINGER_MS, LINGER_BYTES_MAX, too many ─┘
 *
 * A request that arrives after close() makes the kernel send a reset. The peer's next write then fails, and a client that
 * handles the failure first never reads the replies that came before. Without a reset it reads all of them, and then the end.
 *
 * The peer decides when such a connection ends, so time, bytes and number are bounded. The number: all streams of a loop
 * together have at most STREAM_CLOSED_SPARE more descriptors than it had open streams at one time, and accept() takes a descriptor from
 * them when there is no other. Their buffers and their TLS state are freed at the end of the turn.
 */
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/net_uv.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    LINGER_MS = 1000,                    /* several round trips */
    LINGER_BYTES_MAX = 16 * 1024 * 1024, /* more than the kernels' buffers of a connection hold */
    DISCARD_READS_MAX = 16,              /* in a turn, so that other streams are served too */
};

struct lingering {
    struct stream *stream;
    struct list link; /* in loop->lingering.all */
    uint64_t until_ms;
    size_t bytes;
    bool is_slim; /* the stream's buffers are freed */
};

static uint64_t linger_now_ms(void)
{
    return clock_mono_us() / 1000;
}

/* Reads and drops. False: the peer has ended its side, or the connection is broken. */
static bool drop_received(int fd, size_t *bytes)
{
    char scrap[16 * 1024];
    for (int i = 0; i < DISCARD_READS_MAX; i++) {
        ssize_t got = read(fd, scrap, sizeof scrap);
        if (got == 0)
            return false;
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        *bytes += (size_t)got;
        if (got < (ssize_t)sizeof scrap)
            return true;
    }
    return true;
}

/* The peer has received all bytes, and neither side has sent any for so long that the peer has read them too. */
static bool has_read_all(const struct stream *stream)
{
    int unacknowledged = 0;
    return loop_mono_ms(stream->loop) - stream->active_ms >= LINGER_MS &&
           ioctl(stream->fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
}

static void linger_end(struct lingering *lingering)
{
    struct stream *stream = lingering->stream;
    stream->loop->lingering.count--;
    list_remove(&lingering->link);
    free(lingering);
    stream_close_descriptor(stream);
}

static void on_linger_poll(uv_poll_t *poll, int status, int events)
{
    struct lingering *lingering = poll->data;
    (void)events;
    if (status < 0 || !drop_received(lingering->stream->fd, &lingering->bytes) ||
        lingering->bytes > LINGER_BYTES_MAX)
        linger_end(lingering);
}

static void on_linger_timer(uv_timer_t *timer)
{
    struct loop *loop = container_of(timer, struct loop, lingering.timer);
    uint64_t now = linger_now_ms();
    while (!list_empty(&loop->lingering.all)) {
        struct lingering *first = container_of(loop->lingering.all.next, struct lingering, link);
        if (first->until_ms > now) {
            uv_timer_start(timer, on_linger_timer, first->until_ms - now, 0);
            return;
        }
        /* bytes may have come while the loop was busy; close() with unread bytes is a reset */
        (void)drop_received(first->stream->fd, &first->bytes);
        linger_end(first);
    }
}

bool linger_make_room(struct loop *loop)
{
    if (list_empty(&loop->lingering.all))
        return false;
    linger_end(container_of(loop->lingering.all.next, struct lingering, link));
    return true;
}

bool linger_begin(struct stream *stream)
{
    struct loop *loop = stream->loop;
    size_t bytes = 0;
    bool had_read_all = has_read_all(stream);
    if (shutdown(stream->fd, SHUT_WR) < 0 || !drop_received(stream->fd, &bytes) || had_read_all)
        return false;
    if (uv_poll_start(&stream->poll, UV_READABLE, on_linger_poll) < 0)
        return false;
    struct lingering *lingering = calloc(1, sizeof *lingering);
    CHECK(lingering);
    *lingering = (struct lingering){
        .stream = stream, .until_ms = linger_now_ms() + LINGER_MS, .bytes = bytes};
    stream->poll.data = lingering;
    list_push(&loop->lingering.all, &lingering->link);
    loop->lingering.count++;
    while (loop->lingering.count + loop->lingering.open >
           loop->lingering.open_most + STREAM_CLOSED_SPARE)
        linger_make_room(loop);
    if (!uv_is_active((uv_handle_t *)&loop->lingering.timer))
        uv_timer_start(&loop->lingering.timer, on_linger_timer, LINGER_MS, 0);
    return true;
}

void linger_count(struct loop *loop, int by)
{
    loop->lingering.open += (unsigned)by;
    if (loop->lingering.open > loop->lingering.open_most)
        loop->lingering.open_most = loop->lingering.open;
}

/* The new ones are at the list's end. */
void linger_slim(struct loop *loop)
{
    for (struct list *link = loop->lingering.all.prev; link != &loop->lingering.all;
         link = link->prev) {
        struct lingering *lingering = container_of(link, struct lingering, link);
        if (lingering->is_slim)
            return;
        lingering->is_slim = true;
        stream_slim(lingering->stream);
    }
}

void linger_init(struct loop *loop)
{
    list_init(&loop->lingering.all);
    CHECK(uv_timer_init(&loop->uv, &loop->lingering.timer) == 0);
}
