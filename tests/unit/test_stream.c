/*
 * test_stream.c - two ends on one loop: a stream of a listener and one that connects to it.
 */
#include "shared/clock.h"
#include "shared/net/loop.h"
#include "shared/net/refuse.h"
#include "shared/net/stream.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_MS = 30000, LOOKUP_ENDS_MS = 30000 };
static const size_t megabyte = (size_t)1024 * 1024;

/* One end of a connection and the events it received. */
struct end {
    struct stream *stream;
    size_t frame;       /* bytes of a frame; 0: every byte is consumed at once */
    size_t pause_after; /* bytes after which it pauses */
    size_t close_after; /* bytes after which it closes itself, inside on_data */
    bool close_abort;   /* closes by stream_abort */
    bool echo;
    size_t received;
    uint64_t sum; /* over the bytes received; depends on their order */
    int opened;
    int open_err;
    int ends;
    int end_err;
    int drains;
};

static struct loop *loop;
static struct await await;
static struct listen_options options;
static struct listener *listener;
static struct process_listener *process_listener;
static char address[128];
static struct end server; /* the connection accepted last */
static struct end client;
static int accepted;
static int descriptors; /* open descriptors before the test */

/* ---- the two ends of a connection ---- */

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct end *end = owner;
    ck_assert_int_eq(end->ends, 0);
    ck_assert(!stream_is_paused(end->stream));
    size_t used = 0;
    while (used < len) {
        size_t take = end->frame ? end->frame : len;
        if (take > len - used) {
            *need = take;
            break;
        }
        if (end->echo)
            out_write_block(stream_out(end->stream), block, data + used, take);
        for (size_t i = 0; i < take; i++)
            end->sum = end->sum * 31 + (unsigned char)data[used + i];
        used += take;
        end->received += take;
        if (end->close_after && end->received >= end->close_after) {
            struct stream *stream = end->stream;
            end->stream = NULL;
            end->close_abort ? stream_abort(stream) : stream_close(stream);
            return used;
        }
        if (end->pause_after && end->received >= end->pause_after) {
            end->pause_after = 0;
            stream_pause(end->stream);
            break;
        }
    }
    if (end->echo)
        stream_send(end->stream);
    return used;
}

static void on_end(void *owner, int err)
{
    struct end *end = owner;
    end->ends++;
    end->end_err = err;
}

static void on_drain(void *owner)
{
    ((struct end *)owner)->drains++;
}

static const struct stream_events events = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain};

static void on_accept(void *owner, struct stream *stream)
{
    struct end *end = owner;
    accepted++;
    if (end->stream)
        stream_abort(end->stream);
    end->stream = stream;
    stream_set_owner(stream, &events, end);
}

static void on_open(void *owner, int err)
{
    struct end *end = owner;
    end->opened++;
    end->open_err = err;
}

static void end_close(struct end *end)
{
    if (end->stream)
        stream_close(end->stream);
    end->stream = NULL;
}

/* ---- conditions ---- */

static bool is_opened(void *owner)
{
    return ((struct end *)owner)->opened > 0;
}

static bool is_ended(void *owner)
{
    return ((struct end *)owner)->ends > 0;
}

static bool are_both_open(void *owner)
{
    (void)owner;
    return client.opened && server.stream;
}

struct amount {
    struct end *end;
    size_t bytes;
};

static bool has_received(void *owner)
{
    struct amount *amount = owner;
    return amount->end->received >= amount->bytes;
}

static bool await_bytes(struct end *end, size_t bytes)
{
    struct amount amount = {end, bytes};
    return await_until(&await, has_received, &amount);
}

static bool has_turned(void *owner)
{
    return --*(int *)owner < 0;
}

static void tick(void *owner)
{
    (void)owner;
}

/* Runs the loop for `count` turns. */
static void turns(int count)
{
    struct timer *timer = timer_new(loop, tick, NULL);
    timer_start(timer, 1, 1);
    ck_assert(await_until(&await, has_turned, &count));
    timer_free(timer);
}

/* ---- set-up ---- */

static void listen_on(const char *at)
{
    char error[128];
    options = (struct listen_options){
        .address = at, .backlog = 64, .keepalive_s = 300, .unix_mode = 0700};
    int fd = listen_bind(&options, error, sizeof(error));
    ck_assert_msg(fd >= 0, "%s", error);
    if (at[0] == 'u')
        strcpy(address, at);
    else
        listen_address(fd, address, sizeof(address));
    listener = listener_new(loop, fd, &options, on_accept, &server);
}

static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void setup(void)
{
    /* libuv opens a few descriptors at its first loop and never closes them */
    loop_free(loop_new());
    descriptors = count_descriptors();
    loop = loop_new();
    await_init(&await, loop);
    listen_on("127.0.0.1:0");
}

/* The same with streams that have no descriptors. */
static void setup_process(void)
{
    setup();
    listener_free(listener);
    listener = NULL;
    strcpy(address, "process:here:1");
    process_listener = process_listener_new(loop, "here:1", on_accept, &server);
}

static void teardown(void)
{
    end_close(&client);
    end_close(&server);
    if (listener)
        listener_free(listener);
    process_listener_free(process_listener);
    loop_free(loop);
    /* The thread of an abandoned name lookup closes its sockets when the resolver returns. */
    for (int ms = 0; count_descriptors() != descriptors && ms < LOOKUP_ENDS_MS; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ck_assert_int_eq(count_descriptors(), descriptors);
}

static void dial(const char *to)
{
    client.stream = stream_connect(loop, to, CONNECT_MS, &events, on_open, &client);
    ck_assert_int_eq(client.opened, 0);
}

static void connect_both(void)
{
    dial(address);
    ck_assert(await_until(&await, are_both_open, NULL));
}

static void send_text(struct end *end, const char *text)
{
    out_write(stream_out(end->stream), text, strlen(text));
    stream_send(end->stream);
}

/* Sends `len` bytes of a pattern and returns the sum that the other end must compute. */
static uint64_t send_pattern(struct end *end, size_t len)
{
    uint64_t sum = 0;
    char bytes[1024];
    for (size_t done = 0; done < len; done += sizeof(bytes)) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (char)((done + i) * 2654435761u >> 13);
            sum = sum * 31 + (unsigned char)bytes[i];
        }
        out_write(stream_out(end->stream), bytes, sizeof(bytes));
    }
    stream_send(end->stream);
    return sum;
}

/* ---- bytes both ways ---- */

START_TEST(an_echo_returns_the_bytes_sent)
{
    server.echo = true;
    connect_both();
    send_text(&client, "hello");
    ck_assert(await_bytes(&client, 5));
    ck_assert_uint_eq(client.sum, server.sum);
}
END_TEST

static void send_at_last(struct last_step *step)
{
    (void)step;
    send_text(&client, "late");
}

static void plan_step(void *owner)
{
    loop_at_last(loop, owner);
}

START_TEST(bytes_of_a_last_step_leave_before_the_loop_waits)
{
    struct last_step step = {.run = send_at_last};
    struct timer *timer = timer_new(loop, plan_step, &step); /* the last event */
    connect_both();
    list_init(&step.link);
    timer_start(timer, 1, 0);
    ck_assert(await_bytes(&server, 4));
    timer_free(timer);
}
END_TEST

START_TEST(bytes_sent_before_the_connection_is_open_arrive)
{
    dial(address);
    send_text(&client, "early");
    ck_assert(await_bytes(&server, 5));
}
END_TEST

START_TEST(a_connection_opens_although_the_loop_was_busy_beyond_the_timeout)
{
    client.stream = stream_connect(loop, address, 1, &events, on_open, &client);
    for (uint64_t until_us = clock_mono_us() + 20000; clock_mono_us() < until_us;)
        sched_yield();
    ck_assert(await_until(&await, are_both_open, NULL));
    ck_assert_int_eq(client.open_err, 0);
    ck_assert_int_eq(client.open_err, 0);
}
END_TEST

START_TEST(ten_megabytes_go_both_ways_at_once)
{
    server.frame = client.frame = 1000 * 1024 / 100;
    connect_both();
    uint64_t to_server = send_pattern(&client, 10 * megabyte);
    uint64_t to_client = send_pattern(&server, 10 * megabyte);
    ck_assert(await_bytes(&server, 10 * megabyte));
    ck_assert(await_bytes(&client, 10 * megabyte));
    ck_assert_uint_eq(server.sum, to_server);
    ck_assert_uint_eq(client.sum, to_client);
    ck_assert_uint_eq(stream_pending(client.stream), 0);
    ck_assert_int_eq(client.drains, 1);
    ck_assert_int_eq(server.drains, 1);
}
END_TEST

START_TEST(an_echo_of_ten_megabytes_is_the_same)
{
    server.echo = true;
    connect_both();
    uint64_t sum = send_pattern(&client, 10 * megabyte);
    ck_assert(await_bytes(&client, 10 * megabyte));
    ck_assert_uint_eq(client.sum, sum);
}
END_TEST

/* ---- another loop ---- */

/* A second loop on a thread of its own; both ends of its life are on the main thread. */
static struct {
    struct loop *loop;
    pthread_t thread;
    struct loop *back; /* where the stream goes from there; NULL: it stays */
    struct task task;
    _Atomic int arrivals;
} away;

static void *run_away(void *owner)
{
    (void)owner;
    loop_run(away.loop);
    return NULL;
}

static void on_arrive(void *owner, struct stream *stream)
{
    struct end *end = owner;
    end->stream = stream;
    stream_set_owner(stream, &events, end);
    away.arrivals++;
}

static bool has_arrived(void *owner)
{
    return away.arrivals >= *(int *)owner;
}

static void await_arrivals(int count)
{
    struct timer *timer = timer_new(loop, tick, NULL); /* the other loop does not wake this one */
    timer_start(timer, 1, 1);
    ck_assert(await_until(&await, has_arrived, &count));
    timer_free(timer);
}

/* task on the second loop: sends the stream back */
static void send_back(struct task *task)
{
    (void)task;
    stream_move(server.stream, loop, on_arrive, &server);
}

static void begin_away(void)
{
    away.arrivals = 0;
    away.loop = loop_new();
    away.task.run = send_back;
    ck_assert_int_eq(pthread_create(&away.thread, NULL, run_away, NULL), 0);
}

static void end_away(void)
{
    loop_stop(away.loop);
    ck_assert_int_eq(pthread_join(away.thread, NULL), 0);
    loop_free(away.loop);
}

/* Each way, with bytes of an incomplete frame held, and bytes pending for a peer that does not read. */
START_TEST(a_stream_moves_between_loops_with_all_its_bytes)
{
    server.frame = 1000 * 1024 / 100;
    connect_both();
    begin_away();
    size_t sent = 0;
    for (int round = 1; round <= 5; round++) {
        stream_pause(client.stream);
        uint64_t to_client = send_pattern(&server, 8 * megabyte);
        send_text(&client, "incomplete");
        turns(3);
        ck_assert_uint_gt(stream_held(server.stream), 0);
        ck_assert_uint_gt(stream_pending(server.stream), 0);
        (void)to_client;
        sent += strlen("incomplete");
        stream_move(server.stream, away.loop, on_arrive, &server);
        await_arrivals(2 * round - 1);
        stream_resume(client.stream);
        ck_assert(await_bytes(&client, 8 * megabyte * (size_t)round));
        loop_post(away.loop, &away.task);
        await_arrivals(2 * round);
    }
    for (; sent % server.frame; sent++)
        out_write(stream_out(client.stream), "x", 1);
    stream_send(client.stream);
    ck_assert(await_bytes(&server, sent));
    end_away();
}
END_TEST

START_TEST(a_stream_that_has_moved_ends_once)
{
    connect_both();
    begin_away();
    stream_move(server.stream, away.loop, on_arrive, &server);
    await_arrivals(1);
    end_close(&client);
    loop_post(away.loop, &away.task);
    await_arrivals(2);
    ck_assert(await_until(&await, is_ended, &server));
    ck_assert_int_eq(server.ends, 1);
    ck_assert_int_eq(server.end_err, 0);
    end_away();
}
END_TEST

START_TEST(a_frame_bigger_than_a_block_comes_in_one_piece)
{
    server.frame = 3 * megabyte;
    connect_both();
    uint64_t sum = send_pattern(&client, 3 * megabyte);
    ck_assert(await_bytes(&server, 3 * megabyte));
    ck_assert_uint_eq(server.sum, sum);
    ck_assert_uint_eq(stream_held(server.stream), 0);
}
END_TEST

/* ---- pause ---- */

static bool is_held(void *owner)
{
    return stream_held(((struct end *)owner)->stream) > 0;
}

START_TEST(unconsumed_bytes_are_presented_again_after_a_pause)
{
    server.frame = 2;
    server.pause_after = 2;
    connect_both();
    send_text(&client, "aabbcc");
    ck_assert(await_until(&await, is_held, &server));
    turns(5);
    ck_assert_uint_eq(server.received, 2);
    ck_assert_uint_eq(stream_held(server.stream), 4);
    stream_resume(server.stream);
    ck_assert_uint_eq(server.received, 2);
    ck_assert(await_bytes(&server, 6));
}
END_TEST

START_TEST(kept_bytes_come_before_the_end)
{
    server.frame = 2;
    server.pause_after = 2;
    connect_both();
    send_text(&client, "aabbcc");
    end_close(&client);
    ck_assert(await_until(&await, is_held, &server));
    turns(5);
    ck_assert_int_eq(server.ends, 0);
    stream_resume(server.stream);
    ck_assert(await_until(&await, is_ended, &server));
    ck_assert_uint_eq(server.received, 6);
    ck_assert_int_eq(server.end_err, 0);
}
END_TEST

START_TEST(a_pause_stops_the_sender)
{
    connect_both();
    stream_pause(server.stream);
    uint64_t sum = send_pattern(&client, 16 * megabyte);
    turns(20);
    ck_assert_uint_eq(server.received, 0);
    ck_assert_uint_gt(stream_pending(client.stream), STREAM_HIGH_WATER);
    ck_assert_int_eq(client.drains, 0);
    stream_resume(server.stream);
    ck_assert(await_bytes(&server, 16 * megabyte));
    ck_assert_uint_eq(server.sum, sum);
    ck_assert_int_eq(client.drains, 1);
}
END_TEST

/* A pause and a resume inside one on_data: on_data must still be called for the remaining bytes. */
static size_t on_data_blinking(void *owner, struct block *block, const char *data, size_t len,
                               size_t *need)
{
    struct end *end = owner;
    (void)block;
    (void)data;
    (void)need;
    ck_assert_uint_ge(len, 1);
    end->received++;
    stream_pause(end->stream);
    stream_resume(end->stream);
    return 1;
}

START_TEST(a_resume_inside_on_data_counts)
{
    static const struct stream_events blinking = {.on_data = on_data_blinking, .on_end = on_end};
    connect_both();
    stream_set_owner(server.stream, &blinking, &server);
    send_text(&client, "abcdefgh");
    ck_assert(await_bytes(&server, 8));
}
END_TEST

/* An on_data that takes long, and polls the loop. */
static size_t on_data_polling(void *owner, struct block *block, const char *data, size_t len,
                              size_t *need)
{
    (void)block;
    (void)data;
    (void)need;
    loop_poll(loop);
    ((struct end *)owner)->sum = client.received;
    ((struct end *)owner)->received += len;
    return len;
}

START_TEST(a_resumed_stream_gets_its_bytes_while_another_that_was_resumed_before_it_polls)
{
    static const struct stream_events polling = {.on_data = on_data_polling, .on_end = on_end};
    connect_both();
    client.frame = client.pause_after = server.frame = server.pause_after = 1;
    send_text(&client, "ab");
    send_text(&server, "ab");
    ck_assert(await_until(&await, is_held, &server));
    ck_assert(await_until(&await, is_held, &client));
    stream_set_owner(server.stream, &polling, &server);
    stream_resume(server.stream);
    stream_resume(client.stream);
    ck_assert(await_bytes(&server, 2));
    ck_assert_uint_eq(server.sum, 2);
}
END_TEST

/* ---- endings ---- */

START_TEST(a_half_closed_stream_still_sends)
{
    connect_both();
    send_text(&client, "last words");
    ck_assert(await_bytes(&server, 10));
    ck_assert_int_eq(shutdown(stream_fd(client.stream), SHUT_WR), 0);
    ck_assert(await_until(&await, is_ended, &server));
    ck_assert_int_eq(server.end_err, 0);
    uint64_t sum = send_pattern(&server, 4 * megabyte);
    ck_assert(await_bytes(&client, 4 * megabyte));
    ck_assert_uint_eq(client.sum, sum);
    ck_assert_int_eq(server.ends, 1);
}
END_TEST

START_TEST(a_close_sends_what_is_pending_first)
{
    connect_both();
    uint64_t sum = send_pattern(&server, 8 * megabyte);
    end_close(&server);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_eq(client.end_err, 0);
    ck_assert_uint_eq(client.received, 8 * megabyte);
    ck_assert_uint_eq(client.sum, sum);
}
END_TEST

/* A Redis client must receive the error even if it sent much more than the server read. */
START_TEST(the_last_reply_arrives_although_bytes_were_left_unread)
{
    connect_both();
    stream_pause(server.stream);
    send_text(&client, "a request nobody reads");
    turns(3);
    send_text(&server, "-ERR bye");
    end_close(&server);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_eq(client.received, 8);
    ck_assert_int_eq(client.end_err, 0);
}
END_TEST

START_TEST(an_abort_drops_what_is_pending)
{
    connect_both();
    stream_pause(client.stream);
    send_pattern(&server, 16 * megabyte);
    turns(5);
    stream_abort(server.stream);
    server.stream = NULL;
    stream_resume(client.stream);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_lt(client.received, 16 * megabyte);
}
END_TEST

START_TEST(a_stream_may_close_itself_inside_on_data)
{
    server.frame = 2;
    server.close_after = 2;
    connect_both();
    send_text(&client, "aabbcc");
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_eq(server.received, 2);
    ck_assert_int_eq(server.ends, 0);
}
END_TEST

START_TEST(a_stream_may_abort_itself_inside_on_data)
{
    server.frame = 2;
    server.close_after = 2;
    server.close_abort = true;
    connect_both();
    send_text(&client, "aabbcc");
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_eq(server.received, 2);
}
END_TEST

START_TEST(a_stream_may_close_itself_while_kept_bytes_are_presented)
{
    server.frame = 2;
    server.pause_after = 2;
    server.close_after = 4;
    connect_both();
    send_text(&client, "aabbcc");
    ck_assert(await_until(&await, is_held, &server));
    stream_resume(server.stream);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_eq(server.received, 4);
}
END_TEST

static void reset(struct end *end)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(stream_fd(end->stream), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    stream_abort(end->stream);
    end->stream = NULL;
}

START_TEST(a_reset_is_reported_once_as_an_error)
{
    connect_both();
    send_text(&client, "x");
    ck_assert(await_bytes(&server, 1));
    reset(&server);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_eq(client.end_err, -ECONNRESET);
    send_text(&client, "into the void");
    turns(5);
    ck_assert_int_eq(client.ends, 1);
    ck_assert_uint_eq(stream_pending(client.stream), 0);
}
END_TEST

START_TEST(a_reset_while_sending_much_is_reported_once_as_an_error)
{
    connect_both();
    stream_pause(server.stream);
    send_pattern(&client, 16 * megabyte);
    turns(5);
    reset(&server);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_lt(client.end_err, 0);
    ck_assert_uint_eq(stream_pending(client.stream), 0);
    turns(5);
    ck_assert_int_eq(client.ends, 1);
}
END_TEST

START_TEST(a_failed_write_is_reported_once_as_an_error)
{
    connect_both();
    reset(&server);
    send_text(&client, "too late");
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_lt(client.end_err, 0);
    turns(5);
    ck_assert_int_eq(client.ends, 1);
}
END_TEST

static void send_late(void *owner)
{
    send_text(owner, "too late");
}

/* The descriptor is not watched during the pause, so only the failed write can report the error. */
START_TEST(a_failed_write_is_reported_during_a_pause)
{
    connect_both();
    stream_pause(client.stream);
    send_text(&server, "nobody reads this");
    turns(3);
    reset(&server);
    turns(3);
    struct timer *timer = timer_new(loop, send_late, &client);
    timer_start(timer, 1, 0);
    ck_assert(await_until(&await, is_ended, &client));
    timer_free(timer);
    ck_assert_int_lt(client.end_err, 0);
}
END_TEST

START_TEST(a_reset_during_a_pause_is_reported_after_it)
{
    connect_both();
    stream_pause(client.stream);
    reset(&server);
    turns(3);
    ck_assert_int_eq(client.ends, 0);
    stream_resume(client.stream);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_eq(client.end_err, -ECONNRESET);
}
END_TEST

START_TEST(a_paused_stream_can_be_asked_whether_its_peer_hung_up)
{
    connect_both();
    stream_pause(server.stream);
    ck_assert(!stream_has_hung_up(server.stream));
    send_pattern(&client, 100);
    turns(3);
    ck_assert(!stream_has_hung_up(server.stream));
    end_close(&client);
    turns(3);
    ck_assert(stream_has_hung_up(server.stream));
    ck_assert_int_eq(server.ends, 0);
}
END_TEST

/* One poll reports bytes for `other` and the end of `server`; the owner of `other` resumes `server`. */
static size_t on_data_resuming(void *owner, struct block *block, const char *data, size_t len,
                               size_t *need)
{
    (void)owner;
    (void)block;
    (void)data;
    (void)need;
    stream_resume(server.stream);
    return len;
}

START_TEST(kept_bytes_come_before_an_end_that_is_already_there)
{
    static const struct stream_events resuming = {.on_data = on_data_resuming, .on_end = on_end};
    struct end other = {0};
    connect_both();
    struct stream *kept = server.stream;
    server.stream = NULL;
    server.frame = 2;
    server.pause_after = 2;
    struct end other_client = {0};
    other_client.stream =
        stream_connect(loop, address, CONNECT_MS, &events, on_open, &other_client);
    ck_assert(await_until(&await, is_opened, &other_client));
    while (!server.stream)
        turns(1);
    other.stream = server.stream;
    stream_set_owner(other.stream, &resuming, &other);
    server.stream = kept;
    ck_assert_int_eq(write(stream_fd(client.stream), "aabbcc", 6), 6);
    ck_assert(await_until(&await, is_held, &server));
    turns(3); /* so that the next poll reports `other` first */
    ck_assert_int_eq(write(stream_fd(other_client.stream), "x", 1), 1);
    ck_assert_int_eq(shutdown(stream_fd(client.stream), SHUT_WR), 0);
    ck_assert(await_until(&await, is_ended, &server));
    ck_assert_uint_eq(server.received, 6);
    end_close(&other);
    end_close(&other_client);
}
END_TEST

START_TEST(a_close_after_a_reset_is_quiet)
{
    connect_both();
    stream_pause(client.stream);
    reset(&server);
    send_text(&client, "one");
    turns(2);
    send_text(&client, "two");
    end_close(&client);
    turns(2);
}
END_TEST

static void close_on_end(void *owner, int err)
{
    struct end *end = owner;
    on_end(owner, err);
    end_close(end);
}

START_TEST(a_stream_may_close_itself_inside_on_end)
{
    static const struct stream_events closing = {.on_data = on_data, .on_end = close_on_end};
    connect_both();
    stream_set_owner(client.stream, &closing, &client);
    send_text(&server, "bye");
    end_close(&server);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_eq(client.received, 3);
}
END_TEST

START_TEST(a_peer_that_does_not_read_cannot_hold_a_closed_stream)
{
    connect_both();
    stream_pause(client.stream);
    send_pattern(&server, 16 * megabyte);
    end_close(&server);
    uint64_t start = loop_mono_ms(loop);
    loop_stop(loop);
    loop_run(loop); /* runs until the closing streams are closed: a few seconds at most */
    ck_assert_uint_lt(loop_mono_ms(loop) - start, 8000);
    stream_resume(client.stream);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_uint_lt(client.received, 16 * megabyte);
}
END_TEST

/* ---- peers that send after our end ----
 *
 * A loop that is stopped runs until its closed streams are gone; so what peers do in the meantime happens in conditions. */

/* A plain socket that is connected to the listener. */
static int connect_socket(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* As await_until, and the condition is looked at every millisecond. */
static bool await_ticking(bool (*is_done)(void *owner), void *owner)
{
    struct timer *timer = timer_new(loop, tick, NULL);
    timer_start(timer, 1, 1);
    bool done = await_until(&await, is_done, owner);
    timer_free(timer);
    return done;
}

static bool is_accepted(void *owner)
{
    (void)owner;
    return server.stream;
}

struct plain_peer {
    int fd;
    int sent;
    int ticks;
    int failed;
};

/* Closes the server's end, then sends late requests. */
static bool has_sent_late(void *owner)
{
    struct plain_peer *peer = owner;
    end_close(&server);
    if (++peer->ticks % 3 != 0) /* so that an answer to the last bytes has come */
        return false;
    if (send(peer->fd, "late", 4, MSG_NOSIGNAL) != 4)
        peer->failed = errno;
    return ++peer->sent == 5 || peer->failed;
}

START_TEST(requests_sent_after_our_end_do_not_reset_the_connection)
{
    char text[64];
    struct plain_peer peer = {.fd = connect_socket()};
    ck_assert(await_until(&await, is_accepted, NULL));
    send_text(&server, "reply");
    ck_assert(await_ticking(has_sent_late, &peer));
    ck_assert_int_eq(peer.failed, 0);
    ck_assert_int_eq(recv(peer.fd, text, sizeof(text), 0), 5);
    ck_assert_mem_eq(text, "reply", 5);
    ck_assert_int_eq(recv(peer.fd, text, sizeof(text), 0), 0);
    close(peer.fd);
}
END_TEST

static bool has_descriptors(void *owner)
{
    return count_descriptors() == *(int *)owner;
}

START_TEST(a_closed_streams_descriptor_is_closed_when_the_peer_has_ended)
{
    int before = count_descriptors();
    int fd = connect_socket();
    ck_assert(await_until(&await, is_accepted, NULL));
    end_close(&server);
    close(fd);
    ck_assert(await_ticking(has_descriptors, &before));
}
END_TEST

START_TEST(a_peer_that_never_ends_cannot_hold_a_closed_stream)
{
    int before = count_descriptors() + 1;
    int fd = connect_socket();
    ck_assert(await_until(&await, is_accepted, NULL));
    end_close(&server);
    ck_assert(await_ticking(has_descriptors, &before));
    close(fd);
}
END_TEST

/* Sends without end; true when the connection has broken. */
static bool is_broken(void *owner)
{
    static char bytes[256 * 1024];
    ssize_t sent = send(*(int *)owner, bytes, sizeof(bytes), MSG_NOSIGNAL);
    return sent < 0 && errno != EAGAIN;
}

START_TEST(a_peer_that_sends_without_end_cannot_hold_a_closed_stream)
{
    int fd = connect_socket();
    ck_assert(await_until(&await, is_accepted, NULL));
    end_close(&server);
    ck_assert(await_ticking(is_broken, &fd));
    close(fd);
}
END_TEST

static void on_accept_refuse(void *owner, struct stream *stream)
{
    (void)owner;
    accepted++;
    out_write(stream_out(stream), "-ERR full", 9);
    refuse_stream(stream);
}

enum { REFUSED_PEERS = 400, REFUSED_HELD_MAX = 300 };

struct refused_peers {
    int fds[REFUSED_PEERS];
    int count;
    int held; /* descriptors in use when all have been refused */
};

/* Connects one peer after the other. */
static bool are_refused(void *owner)
{
    struct refused_peers *peers = owner;
    if (accepted < peers->count)
        return false;
    peers->held = count_descriptors();
    if (peers->count == REFUSED_PEERS)
        return true;
    peers->fds[peers->count++] = connect_socket();
    return false;
}

/* Besides time, number is a limit: the oldest is closed for the newest. */
START_TEST(peers_that_never_end_hold_a_bounded_number_of_descriptors)
{
    static struct refused_peers peers;
    char text[16];
    char error[128];
    listener_free(listener);
    options.address = "127.0.0.1:0";
    int fd = listen_bind(&options, error, sizeof(error));
    ck_assert_msg(fd >= 0, "%s", error);
    listen_address(fd, address, sizeof(address));
    listener = listener_new(loop, fd, &options, on_accept_refuse, NULL);
    int before = count_descriptors();
    ck_assert(await_ticking(are_refused, &peers));
    ck_assert_int_le(peers.held - before - REFUSED_PEERS, REFUSED_HELD_MAX);
    for (int i = 0; i < REFUSED_PEERS; i++) {
        ck_assert_int_eq(recv(peers.fds[i], text, sizeof(text), 0), 9);
        ck_assert_int_eq(recv(peers.fds[i], text, sizeof(text), 0), 0);
        close(peers.fds[i]);
    }
}
END_TEST

/* ---- connecting ---- */

START_TEST(a_refused_connect_is_reported_later)
{
    listener_free(listener);
    listener = NULL;
    dial(address);
    ck_assert(await_until(&await, is_opened, &client));
    ck_assert_int_eq(client.open_err, -ECONNREFUSED);
}
END_TEST

START_TEST(invalid_addresses_are_reported_later_too)
{
    static const char *const texts[] = {
        "", "nohost", "host:notaport", "unix:", ":1", "a:b:c:1", "127.0.0.1:70000"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        client = (struct end){0};
        dial(texts[i]);
        ck_assert(await_until(&await, is_opened, &client));
        ck_assert_int_eq(client.open_err, -EINVAL);
        end_close(&client);
    }
}
END_TEST

START_TEST(a_name_is_resolved)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "localhost%s", strchr(address, ':'));
    dial(text);
    ck_assert(await_until(&await, are_both_open, NULL));
    ck_assert_int_eq(client.open_err, 0);
    ck_assert_str_eq(stream_peer(client.stream), address);
}
END_TEST

START_TEST(a_name_that_does_not_exist_is_an_error)
{
    dial("no-such-host.invalid:1");
    ck_assert(await_until(&await, is_opened, &client));
    ck_assert_int_lt(client.open_err, 0);
}
END_TEST

START_TEST(a_stream_may_be_closed_while_its_name_is_looked_up)
{
    for (int i = 0; i < 20; i++) {
        dial("localhost:1");
        end_close(&client);
    }
    turns(3);
    ck_assert_int_eq(client.opened, 0);
}
END_TEST

START_TEST(a_stream_may_be_closed_while_it_connects)
{
    dial(address);
    end_close(&client);
    turns(3);
    ck_assert_int_eq(client.opened, 0);
}
END_TEST

static void close_on_open(void *owner, int err)
{
    on_open(owner, err);
    end_close(owner);
}

START_TEST(a_stream_may_close_itself_inside_on_open)
{
    client.stream = stream_connect(loop, address, CONNECT_MS, &events, close_on_open, &client);
    ck_assert(await_until(&await, is_opened, &client));
    client.opened = 0;
    client.stream = stream_connect(loop, "", CONNECT_MS, &events, close_on_open, &client);
    ck_assert(await_until(&await, is_opened, &client));
    ck_assert_int_eq(client.open_err, -EINVAL);
}
END_TEST

/* A listener with a full backlog does not answer the next SYN. */
START_TEST(a_connect_that_hangs_ends_with_a_timeout)
{
    enum { FILLERS = 8 };
    int fillers[FILLERS];
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int full = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(full, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(full, 0), 0);
    ck_assert_int_eq(getsockname(full, (struct sockaddr *)&at, &len), 0);
    for (int i = 0; i < FILLERS; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof(at));
    }
    char text[64];
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(at.sin_port));
    client.stream = stream_connect(loop, text, 100, &events, on_open, &client);
    ck_assert(await_until(&await, is_opened, &client));
    ck_assert_int_eq(client.open_err, -ETIMEDOUT);
    for (int i = 0; i < FILLERS; i++)
        close(fillers[i]);
    close(full);
}
END_TEST

/* ---- listening ---- */

START_TEST(the_texts_of_addresses)
{
    connect_both();
    ck_assert_str_eq(stream_peer(client.stream), address);
    ck_assert_str_eq(stream_local(server.stream), address);
    ck_assert_str_eq(stream_peer(server.stream), stream_local(client.stream));
    ck_assert_int_ge(stream_fd(server.stream), 0);
}
END_TEST

START_TEST(ipv6_works_where_there_is_any)
{
    char error[128];
    struct listen_options v6 = {.address = "[::1]:0", .backlog = 4};
    int fd = listen_bind(&v6, error, sizeof(error));
    if (fd < 0)
        return;
    listener_free(listener);
    listen_address(fd, address, sizeof(address));
    ck_assert_mem_eq(address, "[::1]:", 6);
    listener = listener_new(loop, fd, &v6, on_accept, &server);
    connect_both();
    ck_assert_str_eq(stream_peer(client.stream), address);
}
END_TEST

START_TEST(every_worker_can_listen_on_the_same_address)
{
    char error[128];
    struct listen_options same = options;
    same.address = address;
    int fd = listen_bind(&same, error, sizeof(error));
    ck_assert_msg(fd >= 0, "%s", error);
    struct listener *second = listener_new(loop, fd, &same, on_accept, &server);
    connect_both();
    listener_free(second);
}
END_TEST

START_TEST(an_address_of_another_process_is_refused)
{
    char error[128];
    int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    int other = socket(AF_INET, SOCK_STREAM, 0);
    /* refused although the other socket allows sharing */
    setsockopt(other, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    ck_assert_int_eq(bind(other, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(other, 1), 0);
    ck_assert_int_eq(getsockname(other, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(address, sizeof(address), "0.0.0.0:%u", ntohs(at.sin_port));
    struct listen_options same = {.address = address, .backlog = 4};
    ck_assert_int_eq(listen_bind(&same, error, sizeof(error)), -1);
    ck_assert_str_eq(error, "address already in use");
    same.address = "elsewhere";
    ck_assert_int_eq(listen_bind(&same, error, sizeof(error)), -1);
    ck_assert_str_eq(error, "expected host:port or unix:/path");
    close(other);
}
END_TEST

static void unix_path(char path[64])
{
    (void)snprintf(path, 64, "unix:/tmp/test_stream.%d.sock", (int)getpid());
}

START_TEST(unix_sockets_work_the_same)
{
    char path[64];
    struct stat file;
    unix_path(path);
    listener_free(listener);
    listen_on(path);
    ck_assert_int_eq(stat(path + 5, &file), 0);
    ck_assert_uint_eq(file.st_mode & 0777, 0700);
    server.echo = true;
    connect_both();
    uint64_t sum = send_pattern(&client, 2 * megabyte);
    ck_assert(await_bytes(&client, 2 * megabyte));
    ck_assert_uint_eq(client.sum, sum);
    ck_assert_str_eq(stream_peer(client.stream), path + 5);
    ck_assert_str_eq(stream_peer(server.stream), path + 5);
    unlink(path + 5);
}
END_TEST

START_TEST(a_stale_unix_socket_is_replaced_and_a_live_one_is_not)
{
    char path[64];
    char error[128];
    unix_path(path);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strcpy(at.sun_path, path + 5);
    int other = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(other, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(other, 1), 0);
    struct listen_options same = {.address = path, .backlog = 4, .unix_mode = 0700};
    ck_assert_int_eq(listen_bind(&same, error, sizeof(error)), -1);
    ck_assert_str_eq(error, "address already in use");
    close(other);
    listener_free(listener);
    listen_on(path);
    /* an address that this process listens on is shared */
    int shared = listen_bind(&same, error, sizeof(error));
    ck_assert_int_ge(shared, 0);
    close(shared);
    connect_both();
    unlink(path + 5);
}
END_TEST

START_TEST(a_file_in_the_way_is_not_removed)
{
    char path[64];
    char error[128];
    unix_path(path);
    close(open(path + 5, O_CREAT | O_WRONLY, 0600));
    struct listen_options options_unix = {.address = path, .backlog = 4, .unix_mode = 0700};
    ck_assert_int_eq(listen_bind(&options_unix, error, sizeof(error)), -1);
    ck_assert_str_eq(error,
                     "the path exists and is not a socket: remove it or choose another path");
    ck_assert_int_eq(unlink(path + 5), 0);
}
END_TEST

static mode_t mode_of(const char *path)
{
    struct stat file;
    ck_assert_int_eq(lstat(path, &file), 0);
    return file.st_mode & 07777;
}

START_TEST(a_unix_socket_has_its_mode_whatever_the_umask)
{
    char path[64];
    char error[128];
    static const mode_t modes[] = {0700, 0770, 0777, 0};
    unix_path(path);
    for (int i = 0; i < 4; i++) {
        struct listen_options at = {.address = path, .backlog = 4, .unix_mode = modes[i]};
        mode_t before = umask(077);
        int fd = listen_bind(&at, error, sizeof(error));
        (void)umask(before);
        ck_assert_msg(fd >= 0, "%s", error);
        ck_assert_int_eq(mode_of(path + 5), modes[i]);
        close(fd);
        unlink(path + 5);
    }
}
END_TEST

START_TEST(sockets_of_other_programs_and_links_are_left_where_they_are)
{
    char path[64];
    char error[128];
    unix_path(path);
    struct listen_options at = {.address = path, .backlog = 4, .unix_mode = 0700};
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    (void)snprintf(own.sun_path, sizeof(own.sun_path), "%s", path + 5);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    ck_assert_int_eq(listen_bind(&at, error, sizeof(error)), -1);
    ck_assert_str_eq(error, "address already in use");
    (void)mode_of(path + 5);
    close(fd);
    unlink(path + 5);
    for (int i = 0; i < 2; i++) { /* a symlink to a file, and one to nothing */
        ck_assert_int_eq(symlink(i ? "/nothing/here" : "/etc/passwd", path + 5), 0);
        ck_assert_int_eq(listen_bind(&at, error, sizeof(error)), -1);
        ck_assert_str_eq(error,
                         "the path exists and is not a socket: remove it or choose another path");
        ck_assert_int_eq(unlink(path + 5), 0);
    }
}
END_TEST

START_TEST(a_missing_unix_socket_is_refused)
{
    dial("unix:/tmp/no/such/socket");
    ck_assert(await_until(&await, is_opened, &client));
    ck_assert_int_eq(client.open_err, -ENOENT);
}
END_TEST

/* All descriptors are in use: a new connection is closed, and the loop does not spin. */
START_TEST(running_out_of_descriptors_sheds_connections)
{
    struct rlimit limit;
    dial(address);
    ck_assert(await_until(&await, are_both_open, NULL));
    getrlimit(RLIMIT_NOFILE, &limit);
    int victim = socket(AF_INET, SOCK_STREAM, 0);
    limit.rlim_cur = (rlim_t)victim + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int fillers[64];
    int count = 0;
    while (count < 64 && (fillers[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(victim, (struct sockaddr *)&at, sizeof(at)), 0);
    turns(5);
    char byte;
    ck_assert_int_le(read(victim, &byte, 1), 0);
    ck_assert_int_eq(accepted, 1);
    close(victim);
    send_text(&client, "still served");
    ck_assert(await_bytes(&server, 12));
    while (count > 0)
        close(fillers[--count]);
}
END_TEST

/* ---- within the process ---- */

START_TEST(streams_of_the_process_have_no_descriptors)
{
    int before = count_descriptors();
    connect_both();
    ck_assert_int_eq(count_descriptors(), before);
    ck_assert_int_eq(stream_fd(server.stream), -1);
    ck_assert_str_eq(stream_peer(client.stream), address);
    ck_assert_str_eq(stream_peer(server.stream), address);
    ck_assert_str_eq(stream_local(server.stream), address);
    ck_assert(stream_is_local(server.stream));
}
END_TEST

START_TEST(bytes_for_a_closed_stream_of_the_process_end_with_an_error)
{
    connect_both();
    stream_pause(client.stream);
    send_text(&server, "last words");
    end_close(&server);
    turns(3);
    send_text(&client, "too late");
    turns(3);
    stream_resume(client.stream);
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_lt(client.end_err, 0);
    ck_assert_int_eq(client.ends, 1);
    ck_assert(stream_is_broken(client.stream));
}
END_TEST

START_TEST(streams_that_a_freed_listener_has_not_accepted_end)
{
    dial(address);
    process_listener_free(process_listener);
    process_listener = NULL;
    ck_assert(await_until(&await, is_ended, &client));
    ck_assert_int_eq(accepted, 0);
    ck_assert(!process_listener_exists("here:1"));
}
END_TEST

START_TEST(a_name_without_a_listener_in_the_process_is_refused)
{
    ck_assert(process_listener_exists("HERE:1"));
    dial("process:there:1");
    ck_assert(await_until(&await, is_opened, &client));
    ck_assert_int_eq(client.open_err, -ECONNREFUSED);
}
END_TEST

static void add_tests(TCase *tests)
{
    tcase_add_test(tests, an_echo_returns_the_bytes_sent);
    tcase_add_test(tests, bytes_of_a_last_step_leave_before_the_loop_waits);
    tcase_add_test(tests, bytes_sent_before_the_connection_is_open_arrive);
    tcase_add_test(tests, a_connection_opens_although_the_loop_was_busy_beyond_the_timeout);
    tcase_add_test(tests, ten_megabytes_go_both_ways_at_once);
    tcase_add_test(tests, an_echo_of_ten_megabytes_is_the_same);
    tcase_add_test(tests, a_stream_moves_between_loops_with_all_its_bytes);
    tcase_add_test(tests, a_stream_that_has_moved_ends_once);
    tcase_add_test(tests, a_frame_bigger_than_a_block_comes_in_one_piece);
    tcase_add_test(tests, unconsumed_bytes_are_presented_again_after_a_pause);
    tcase_add_test(tests, kept_bytes_come_before_the_end);
    tcase_add_test(tests, a_pause_stops_the_sender);
    tcase_add_test(tests, a_resume_inside_on_data_counts);
    tcase_add_test(tests,
                   a_resumed_stream_gets_its_bytes_while_another_that_was_resumed_before_it_polls);
    tcase_add_test(tests, a_half_closed_stream_still_sends);
    tcase_add_test(tests, a_close_sends_what_is_pending_first);
    tcase_add_test(tests, the_last_reply_arrives_although_bytes_were_left_unread);
    tcase_add_test(tests, an_abort_drops_what_is_pending);
    tcase_add_test(tests, a_stream_may_close_itself_inside_on_data);
    tcase_add_test(tests, a_stream_may_abort_itself_inside_on_data);
    tcase_add_test(tests, a_stream_may_close_itself_while_kept_bytes_are_presented);
    tcase_add_test(tests, a_reset_is_reported_once_as_an_error);
    tcase_add_test(tests, a_reset_while_sending_much_is_reported_once_as_an_error);
    tcase_add_test(tests, a_failed_write_is_reported_once_as_an_error);
    tcase_add_test(tests, a_failed_write_is_reported_during_a_pause);
    tcase_add_test(tests, a_reset_during_a_pause_is_reported_after_it);
    tcase_add_test(tests, a_paused_stream_can_be_asked_whether_its_peer_hung_up);
    tcase_add_test(tests, kept_bytes_come_before_an_end_that_is_already_there);
    tcase_add_test(tests, a_close_after_a_reset_is_quiet);
    tcase_add_test(tests, a_stream_may_close_itself_inside_on_end);
    tcase_add_test(tests, a_peer_that_does_not_read_cannot_hold_a_closed_stream);
    tcase_add_test(tests, requests_sent_after_our_end_do_not_reset_the_connection);
    tcase_add_test(tests, a_closed_streams_descriptor_is_closed_when_the_peer_has_ended);
    tcase_add_test(tests, a_peer_that_never_ends_cannot_hold_a_closed_stream);
    tcase_add_test(tests, a_peer_that_sends_without_end_cannot_hold_a_closed_stream);
    tcase_add_test(tests, peers_that_never_end_hold_a_bounded_number_of_descriptors);
    tcase_add_test(tests, a_refused_connect_is_reported_later);
    tcase_add_test(tests, invalid_addresses_are_reported_later_too);
    tcase_add_test(tests, a_name_is_resolved);
    tcase_add_test(tests, a_name_that_does_not_exist_is_an_error);
    tcase_add_test(tests, a_stream_may_be_closed_while_its_name_is_looked_up);
    tcase_add_test(tests, a_stream_may_be_closed_while_it_connects);
    tcase_add_test(tests, a_stream_may_close_itself_inside_on_open);
    tcase_add_test(tests, a_connect_that_hangs_ends_with_a_timeout);
    tcase_add_test(tests, the_texts_of_addresses);
    tcase_add_test(tests, ipv6_works_where_there_is_any);
    tcase_add_test(tests, every_worker_can_listen_on_the_same_address);
    tcase_add_test(tests, an_address_of_another_process_is_refused);
    tcase_add_test(tests, unix_sockets_work_the_same);
    tcase_add_test(tests, a_stale_unix_socket_is_replaced_and_a_live_one_is_not);
    tcase_add_test(tests, a_file_in_the_way_is_not_removed);
    tcase_add_test(tests, a_unix_socket_has_its_mode_whatever_the_umask);
    tcase_add_test(tests, sockets_of_other_programs_and_links_are_left_where_they_are);
    tcase_add_test(tests, a_missing_unix_socket_is_refused);
    tcase_add_test(tests, running_out_of_descriptors_sheds_connections);
}

static void add_process_tests(TCase *tests)
{
    tcase_add_test(tests, an_echo_returns_the_bytes_sent);
    tcase_add_test(tests, bytes_of_a_last_step_leave_before_the_loop_waits);
    tcase_add_test(tests, bytes_sent_before_the_connection_is_open_arrive);
    tcase_add_test(tests, a_connection_opens_although_the_loop_was_busy_beyond_the_timeout);
    tcase_add_test(tests, ten_megabytes_go_both_ways_at_once);
    tcase_add_test(tests, an_echo_of_ten_megabytes_is_the_same);
    tcase_add_test(tests, a_frame_bigger_than_a_block_comes_in_one_piece);
    tcase_add_test(tests, unconsumed_bytes_are_presented_again_after_a_pause);
    tcase_add_test(tests, kept_bytes_come_before_the_end);
    tcase_add_test(tests, a_pause_stops_the_sender);
    tcase_add_test(tests, a_resume_inside_on_data_counts);
    tcase_add_test(tests, a_close_sends_what_is_pending_first);
    tcase_add_test(tests, the_last_reply_arrives_although_bytes_were_left_unread);
    tcase_add_test(tests, an_abort_drops_what_is_pending);
    tcase_add_test(tests, a_stream_may_close_itself_inside_on_data);
    tcase_add_test(tests, a_stream_may_abort_itself_inside_on_data);
    tcase_add_test(tests, a_stream_may_close_itself_while_kept_bytes_are_presented);
    tcase_add_test(tests, a_paused_stream_can_be_asked_whether_its_peer_hung_up);
    tcase_add_test(tests, a_stream_may_close_itself_inside_on_end);
    tcase_add_test(tests, a_peer_that_does_not_read_cannot_hold_a_closed_stream);
    tcase_add_test(tests, a_stream_may_be_closed_while_it_connects);
    tcase_add_test(tests, a_stream_may_close_itself_inside_on_open);
    tcase_add_test(tests, streams_of_the_process_have_no_descriptors);
    tcase_add_test(tests, bytes_for_a_closed_stream_of_the_process_end_with_an_error);
    tcase_add_test(tests, streams_that_a_freed_listener_has_not_accepted_end);
    tcase_add_test(tests, a_name_without_a_listener_in_the_process_is_refused);
}

static TCase *case_of(const char *name, void (*before)(void))
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, before, teardown);
    tcase_set_timeout(tests, 60);
    return tests;
}

int main(void)
{
    TCase *tests = case_of("stream", setup);
    TCase *process_tests = case_of("stream of the process", setup_process);
    add_tests(tests);
    add_process_tests(process_tests);
    Suite *suite = suite_create("stream");
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, process_tests);
    return suite_run(suite);
}
