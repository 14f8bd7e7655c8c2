/*
 * test_pipe.c - streams between the loops of two threads of the process: every byte arrives in order, and both sides may close at
 * the same time.
 */
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "tests/sized.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <stdatomic.h>
#include <string.h>

enum { CONNECT_MS = 30000, ECHO_BYTES = 24 * 1024 * 1024, CLOSINGS = 200, STREAMS = 8 };

static struct loop *near_loop; /* of the test's thread */
static struct loop *far_loop;  /* of the other thread */
static struct await await;
static struct loop_thread *far_thread;
static struct process_listener *listener;

struct end {
    struct stream *stream;
    size_t received;
    uint64_t sum;
    bool has_opened;
    bool has_ended;
};

/* ---- the far side echoes, or closes after the first byte ---- */

static atomic_bool closes_at_once;

struct far_end {
    struct list link; /* in far_ends */
    struct stream *stream;
};

static struct list far_ends;

static void far_close(struct far_end *end)
{
    list_remove(&end->link);
    stream_abort(end->stream);
    free(end);
}

static void far_ended(void *owner, int err)
{
    (void)err;
    far_close(owner);
}

static size_t far_received(void *owner, struct block *block, const char *data, size_t len,
                           size_t *need)
{
    struct far_end *end = owner;
    (void)need;
    if (closes_at_once) {
        far_close(end);
        return len;
    }
    out_write_block(stream_out(end->stream), block, data, len);
    stream_send(end->stream);
    return len;
}

static void far_accepted(void *owner, struct stream *stream)
{
    static const struct stream_events events = {.on_data = far_received, .on_end = far_ended};
    struct far_end *end = calloc(1, sizeof *end);
    ck_assert_ptr_nonnull(end);
    (void)owner;
    end->stream = stream;
    list_push(&far_ends, &end->link);
    stream_set_owner(stream, &events, end);
}

/* ---- the near side ---- */

static size_t near_received(void *owner, struct block *block, const char *data, size_t len,
                            size_t *need)
{
    struct end *end = owner;
    (void)block;
    (void)need;
    for (size_t i = 0; i < len; i++)
        end->sum = end->sum * 31 + (unsigned char)data[i];
    end->received += len;
    return len;
}

static void near_ended(void *owner, int err)
{
    (void)err;
    ((struct end *)owner)->has_ended = true;
}

static void near_opened(void *owner, int err)
{
    ck_assert_int_eq(err, 0);
    ((struct end *)owner)->has_opened = true;
}

static void dial(struct end *end)
{
    static const struct stream_events events = {.on_data = near_received, .on_end = near_ended};
    end->stream = stream_connect(near_loop, "process:far", CONNECT_MS, &events, near_opened, end);
}

static void setup(void)
{
    closes_at_once = false;
    near_loop = loop_new();
    far_loop = loop_new();
    await_init(&await, near_loop);
    list_init(&far_ends);
    listener = process_listener_new(far_loop, "far", far_accepted, NULL);
    far_thread = loop_thread_start(far_loop, "far", NULL, NULL, NULL);
}

static void teardown(void)
{
    loop_stop(far_loop);
    loop_thread_join(far_thread);
    process_listener_free(listener);
    while (!list_empty(&far_ends))
        far_close(container_of(far_ends.next, struct far_end, link));
    loop_free(near_loop);
    loop_free(far_loop);
}

static bool has_all(void *owner)
{
    return ((struct end *)owner)->received >= ECHO_BYTES;
}

static bool has_ended(void *owner)
{
    return ((struct end *)owner)->has_ended;
}

START_TEST(another_thread_echoes_every_byte_in_order)
{
    struct end end = {0};
    uint64_t sum = 0;
    char bytes[4096];
    dial(&end);
    for (size_t done = 0; done < ECHO_BYTES; done += sizeof bytes) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (char)((done + i) * 2654435761u >> 13);
            sum = sum * 31 + (unsigned char)bytes[i];
        }
        out_write(stream_out(end.stream), bytes, sizeof bytes);
    }
    stream_send(end.stream);
    ck_assert(await_until(&await, has_all, &end));
    ck_assert_uint_eq(end.received, ECHO_BYTES);
    ck_assert_uint_eq(end.sum, sum);
    stream_close(end.stream);
}
END_TEST

START_TEST(both_sides_may_close_at_the_same_time)
{
    closes_at_once = true;
    for (int i = 0; i < (int)sized(CLOSINGS); i++) {
        struct end ends[STREAMS] = {0};
        for (int k = 0; k < STREAMS; k++) {
            dial(&ends[k]);
            out_write(stream_out(ends[k].stream), "x", 1);
            stream_send(ends[k].stream);
        }
        ck_assert(await_until(&await, has_ended, &ends[0]));
        for (int k = 0; k < STREAMS; k++)
            stream_close(ends[k].stream);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pipe");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, another_thread_echoes_every_byte_in_order);
    tcase_add_test(tests, both_sides_may_close_at_the_same_time);
    Suite *suite = suite_create("pipe");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
