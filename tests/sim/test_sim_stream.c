/*
 * test_sim_stream.c - tests of the simulated interfaces themselves: pairs of echo streams in many worlds, with and
 * without faults.
 *
 *   test_sim_stream [seed]      one world, or SEEDS of each kind
 *
 * Without faults every byte comes back; with faults a prefix of the bytes comes back, and every end is reported once.
 */
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/net/worker.h"
#include "tests/sim/sim.h"
#include "tests/sized.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 1000, CLIENTS = 4, FRAME = 7, STEPS_MAX = 2000000, JOBS = 10 };

struct end {
    struct stream *stream;
    struct timer *timer; /* client: sends, pauses, resumes; server: moves it */
    bool is_moving;
    uint64_t sent;
    uint64_t received; /* bytes received, each compared with the pattern */
    uint64_t goal;
    int opens;
    int ends;
    int err;
};

static struct loop *client_loop;
static struct loop *server_loop;
static struct loop *other_loop; /* of the server too */
static struct listener *listener;
static struct end clients[CLIENTS];
static struct end servers[CLIENTS];
static int server_count;
static bool faulty;

static char byte_at(uint64_t place)
{
    return (char)(place * 2654435761u >> 7);
}

/* ---- the echo server ---- */

static size_t on_request(void *owner, struct block *block, const char *data, size_t len,
                         size_t *need)
{
    struct end *end = owner;
    CHECK(!end->ends);
    size_t used = len - len % FRAME;
    *need = FRAME;
    out_write_block(stream_out(end->stream), block, data, used);
    end->received += used;
    stream_send(end->stream);
    if (stream_pending(end->stream) > STREAM_HIGH_WATER)
        stream_pause(end->stream);
    return used;
}

static void on_server_drain(void *owner)
{
    stream_resume(((struct end *)owner)->stream);
}

static void on_server_end(void *owner, int err)
{
    struct end *end = owner;
    end->ends++;
    end->err = err;
    stream_close(end->stream);
    end->stream = NULL;
}

static const struct stream_events server_events = {
    .on_data = on_request, .on_end = on_server_end, .on_drain = on_server_drain};

static void on_arrive(void *owner, struct stream *stream)
{
    struct end *end = owner;
    end->is_moving = false;
    end->stream = stream;
    stream_set_owner(stream, &server_events, end);
}

static void move_end(void *owner)
{
    struct end *end = owner;
    struct stream *stream = end->stream;
    if (!stream)
        return;
    end->is_moving = true;
    end->stream = NULL;
    stream_move(stream, other_loop, on_arrive, end);
}

/* Some streams move to the other loop once, with what was received and is not sent yet. */
static void on_accept(void *owner, struct stream *stream)
{
    (void)owner;
    CHECK(server_count < CLIENTS);
    struct end *end = &servers[server_count++];
    *end = (struct end){.stream = stream, .timer = timer_new(server_loop, move_end, end)};
    if (sim_random(2))
        timer_start(end->timer, sim_random(20), 0);
    stream_set_owner(stream, &server_events, end);
}

/* ---- the clients ---- */

static size_t on_reply(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct end *end = owner;
    (void)block;
    (void)need;
    CHECK(!end->ends);
    CHECK(!stream_is_paused(end->stream));
    size_t used = len > 3 ? 1 + sim_random(len) : len;
    for (size_t i = 0; i < used; i++)
        CHECK(data[i] == byte_at(end->received + i));
    end->received += used;
    CHECK(end->received <= end->sent);
    if (used < len)
        stream_pause(end->stream);
    return used;
}

static void client_close(struct end *end)
{
    timer_free(end->timer);
    end->timer = NULL;
    stream_close(end->stream);
    end->stream = NULL;
}

static void on_client_end(void *owner, int err)
{
    struct end *end = owner;
    CHECK(faulty);
    end->ends++;
    end->err = err;
    client_close(end);
}

static const struct stream_events client_events = {.on_data = on_reply, .on_end = on_client_end};

static void on_open(void *owner, int err)
{
    struct end *end = owner;
    CHECK(faulty || err == 0);
    end->opens++;
    end->err = err;
    if (err)
        client_close(end);
}

static void on_tick(void *owner)
{
    struct end *end = owner;
    stream_resume(end->stream);
    if (end->received == end->goal) {
        client_close(end);
        return;
    }
    for (uint64_t some = 1 + sim_random(20000); some > 0 && end->sent < end->goal; some--) {
        char byte = byte_at(end->sent++);
        out_write(stream_out(end->stream), &byte, 1);
    }
    stream_send(end->stream);
}

/* ---- a world ---- */

static void world_start(uint64_t seed)
{
    char error[64];
    sim_init(seed);
    sim_knobs_shuffle();
    sim_set_host("b");
    server_loop = loop_new();
    other_loop = loop_new();
    struct listen_options options = {.address = "b:1", .backlog = 16};
    int fd = listen_bind(&options, error, sizeof(error));
    CHECK(fd >= 0);
    listener = listener_new(server_loop, fd, &options, on_accept, NULL);
    server_count = 0;
    sim_set_host("a");
    client_loop = loop_new();
    for (int i = 0; i < CLIENTS; i++) {
        struct end *end = &clients[i];
        *end = (struct end){.goal = FRAME * (1 + sim_random(1000))};
        end->stream = stream_connect(client_loop, "b:1", 60000, &client_events, on_open, end);
        end->timer = timer_new(client_loop, on_tick, end);
        timer_start(end->timer, 1, 1 + sim_random(5));
    }
}

static bool clients_are_gone(void *owner)
{
    (void)owner;
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].stream)
            return false;
    }
    return true;
}

static bool all_are_gone(void *owner)
{
    for (int i = 0; i < server_count; i++) {
        if (servers[i].stream || servers[i].is_moving)
            return false;
    }
    return clients_are_gone(owner);
}

/* Ends the world and returns the hash of its history. */
static uint64_t world_end(void)
{
    for (int i = 0; i < server_count; i++) {
        if (servers[i].stream)
            stream_abort(servers[i].stream);
        if (servers[i].timer)
            timer_free(servers[i].timer);
    }
    listener_free(listener);
    loop_free(client_loop);
    loop_free(server_loop);
    if (other_loop)
        loop_free(other_loop);
    other_loop = NULL;
    uint64_t hash = sim_hash();
    sim_fini();
    return hash;
}

static uint64_t run_quiet(uint64_t seed)
{
    faulty = false;
    world_start(seed);
    CHECK(sim_run_until(all_are_gone, NULL, STEPS_MAX));
    for (int i = 0; i < CLIENTS; i++) {
        CHECK(clients[i].opens == 1);
        CHECK(clients[i].received == clients[i].goal);
        CHECK(servers[i].ends == 1);
        CHECK(servers[i].err == 0);
    }
    return world_end();
}

static void make_fault(void)
{
    switch (sim_random(4)) {
    case 0:
        sim_cut(sim_random(2) ? "a" : "b:1");
        break;
    case 1:
        sim_host_down("b");
        break;
    case 2:
        sim_host_up("b:1");
        break;
    case 3:
        sim_knobs()->cut_ppm = (unsigned)sim_random(100000);
        break;
    }
}

static uint64_t run_faulty(uint64_t seed)
{
    faulty = true;
    world_start(seed);
    for (int i = 0; i < 4 && !clients_are_gone(NULL); i++) {
        (void)sim_run_until(clients_are_gone, NULL, 1 + sim_random(2000));
        make_fault();
    }
    sim_host_up("b");
    sim_knobs()->cut_ppm = 0;
    CHECK(sim_run_until(all_are_gone, NULL, STEPS_MAX));
    for (int i = 0; i < CLIENTS; i++) {
        CHECK(clients[i].opens == 1);
        CHECK(clients[i].ends <= 1);
        CHECK(clients[i].ends || clients[i].err || clients[i].received == clients[i].goal);
    }
    return world_end();
}

/* ---- a crash ---- */

static int works;
static int dones;
static int task_runs;

struct numbered {
    struct job job;
    int number;
};

static void work(struct job *job)
{
    CHECK(((struct numbered *)job)->number == works);
    works++;
}

static void done(struct job *job)
{
    CHECK(((struct numbered *)job)->number == dones);
    dones++;
    CHECK(dones <= works);
}

static void on_task(struct task *task)
{
    (void)task;
    task_runs++;
}

/* The server's process dies at a random time; of its jobs only some did their work. */
static uint64_t run_crash(uint64_t seed)
{
    struct numbered jobs[JOBS];
    struct task task = {.run = on_task};
    faulty = true;
    works = dones = task_runs = 0;
    world_start(seed);
    struct worker *worker = worker_new(server_loop, "commit");
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct numbered){.job = {.work = work, .done = done}, .number = i};
        worker_submit(worker, &jobs[i].job);
    }
    (void)sim_run_until(clients_are_gone, NULL, sim_random(300));
    loop_post(server_loop, &task);
    sim_crash_host("b");
    int works_then = works;
    int dones_then = dones;
    sim_note("works", (uint64_t)works);
    CHECK(sim_run_until(clients_are_gone, NULL, STEPS_MAX));
    worker_free(worker);
    CHECK(works == works_then && dones == dones_then && task_runs == 0);
    return world_end();
}

/* ---- a flood, then a close ---- */

enum { FLOOD = 3 * 1024 * 1024, LAST_WORDS = 1000 };

static struct end flooded;
static bool is_drained;

static void append(struct stream *stream, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++) {
        char byte = byte_at(i);
        out_write(stream_out(stream), &byte, 1);
    }
    stream_send(stream);
}

static void on_flood_drain(void *owner)
{
    struct end *end = owner;
    CHECK(stream_pending(end->stream) < STREAM_LOW_WATER);
    is_drained = true;
    append(end->stream, FLOOD, LAST_WORDS);
    stream_close(end->stream);
    end->stream = NULL;
}

static void on_flood_accept(void *owner, struct stream *stream)
{
    static const struct stream_events events = {
        .on_data = on_request, .on_end = on_server_end, .on_drain = on_flood_drain};
    (void)owner;
    servers[0] = (struct end){.stream = stream};
    server_count = 1;
    stream_set_owner(stream, &events, &servers[0]);
    append(stream, 0, FLOOD);
}

static size_t on_flood(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct end *end = owner;
    (void)block;
    (void)need;
    for (size_t i = 0; i < len; i++)
        CHECK(data[i] == byte_at(end->received + i));
    end->received += len;
    return len;
}

static void on_flood_end(void *owner, int err)
{
    struct end *end = owner;
    end->ends++;
    end->err = err;
}

static void on_flood_open(void *owner, int err)
{
    CHECK(err == 0);
    ((struct end *)owner)->opens++;
}

static bool flood_is_over(void *owner)
{
    (void)owner;
    return flooded.ends > 0;
}

static bool server_has_closed(void *owner)
{
    (void)owner;
    return server_count && !servers[0].stream;
}

/* All bytes arrive, then the end. If the reader stops for good, closing does not wait for it without limit. */
static uint64_t run_flood(uint64_t seed)
{
    static const struct stream_events events = {.on_data = on_flood, .on_end = on_flood_end};
    char error[64];
    bool stops = seed % 2;
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->pipe_bytes = 65536;
    sim_knobs()->delay_us_max = 1000;
    server_loop = loop_new();
    client_loop = loop_new();
    struct listen_options options = {.address = "f:1", .backlog = 16};
    int fd = listen_bind(&options, error, sizeof(error));
    listener = listener_new(server_loop, fd, &options, on_flood_accept, NULL);
    server_count = 0;
    is_drained = false;
    flooded = (struct end){0};
    flooded.stream = stream_connect(client_loop, "f:1", 60000, &events, on_flood_open, &flooded);
    CHECK(sim_run_until(server_has_closed, NULL, STEPS_MAX));
    CHECK(is_drained);
    if (stops) {
        stream_pause(flooded.stream);
        sim_run_for(10000000);
        stream_resume(flooded.stream);
    }
    CHECK(sim_run_until(flood_is_over, NULL, STEPS_MAX));
    CHECK(flooded.err == 0);
    CHECK(stops ? flooded.received <= FLOOD + LAST_WORDS : flooded.received == FLOOD + LAST_WORDS);
    stream_close(flooded.stream);
    return world_end();
}

/* ---- time and names ---- */

static void test_the_rest(void)
{
    char text[64];
    char error[64];
    sim_init(1);
    sim_set_host("one");
    uint64_t wall = clock_wall_us();
    sim_run_for(5000);
    CHECK(clock_wall_us() == wall + 5000);
    sim_wall_step(-7000);
    CHECK(clock_wall_us() == wall - 2000);
    struct listen_options options = {.address = "one:0"};
    struct loop *loop = loop_new();
    int fd = listen_bind(&options, error, sizeof(error));
    listen_address(fd, text, sizeof(text));
    CHECK(strcmp(text, "one:20000") == 0);
    struct listener *own = listener_new(loop, fd, &options, on_accept, NULL);
    options.address = text;
    CHECK(listen_bind(&options, error, sizeof(error)) >=
          0); /* another worker of the same process */
    sim_set_host("two");
    CHECK(listen_bind(&options, error, sizeof(error)) < 0);
    CHECK(strcmp(error, "address already in use") == 0);
    listener_free(own);
    loop_free(loop);
    sim_fini();
}

static int calls;

static void on_call(void *owner)
{
    (void)owner;
    calls++;
}

static void on_signal(void *owner, int signum)
{
    calls += signum;
    loop_stop(owner);
}

static struct stream *hanging;
static int hanging_err;

static void on_hung(void *owner, int err)
{
    (void)owner;
    hanging_err = err;
    stream_close(hanging);
}

/* Threads, signals and watches; a connect to a host that is down. */
static void test_loop_parts(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        char error[64];
        sim_init(seed);
        sim_set_host("down");
        struct listen_options options = {.address = "down:1"};
        CHECK(listen_bind(&options, error, sizeof(error)) >= 0);
        sim_host_down("down");
        sim_set_host("up");
        calls = 0;
        struct loop *loop = loop_new();
        struct loop_thread *thread = loop_thread_start(loop, "t", on_call, on_call, NULL);
        struct watch *watch = watch_new(loop, "/a/file", on_call, NULL);
        hanging = stream_connect(loop, "down:1", 100, &client_events, on_hung, NULL);
        sim_touch("/a/file");
        sim_touch("/another");
        sim_run_for(4000000);
        CHECK(calls == 2);
        CHECK(hanging_err == -ETIMEDOUT || hanging_err == -ECONNREFUSED);
        loop_on_signal(loop, 15, on_signal, loop);
        sim_signal("up", 15);
        sim_signal("down", 15);
        watch_free(watch);
        sim_run_for(4000000);
        loop_thread_join(thread);
        CHECK(calls == 2 + 15 + 1);
        loop_free(loop);
        sim_fini();
    }
}

struct kind {
    const char *name;
    uint64_t (*run)(uint64_t seed);
    uint64_t seeds;
};

int main(int argc, char **argv)
{
    static const struct kind kinds[] = {{"quiet", run_quiet, SEEDS},
                                        {"faulty", run_faulty, SEEDS},
                                        {"crash", run_crash, SEEDS},
                                        {"flood", run_flood, SEEDS / 50}};
    uint64_t from = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    (void)setvbuf(stdout, NULL, _IONBF, 0);
    test_the_rest();
    test_loop_parts();
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        uint64_t before = 0;
        uint64_t to = argc > 1 ? from + 1 : sized((unsigned)kinds[k].seeds);
        for (uint64_t seed = from; seed < to; seed++) {
            if (argc > 1 || seed % 100 == 0)
                printf("%s seed %llu\n", kinds[k].name, (unsigned long long)seed);
            uint64_t hash = kinds[k].run(seed);
            CHECK(hash != before);
            if (seed % 10 == 0 || argc > 1)
                CHECK(kinds[k].run(seed) == hash);
            before = hash;
        }
    }
    return EXIT_SUCCESS;
}
