/*
 * test_subscriptions.c - subscriptions and tracking through the proxy, whose objects are freed at different times:
 * unused subscription tables are freed after a while, clients leave while messages are sent to others, and the shard
 * map changes.
 *
 *   client ──► proxy ──► 2 backends      (sim.h's world: hours pass in milliseconds; run it under ASan)
 */
#include "proxy/core/client.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1 << 20 }; /* client-output-limit */
/* With this seed, the world's two places are namespaces. */
enum { SEED = 2, TEXT_MAX = 4096, CALLERS_MAX = 4, WAIT_US = 5 * 1000 * 1000, STEP_US = 1000 };

struct caller {
    struct stream *stream;
    bool reads; /* it reads what arrives */
    bool has_ended;
    size_t len;
    char text[TEXT_MAX]; /* the text received since the last expect() */
};

static struct sim_cluster cluster;
static struct loop *client_loop;
static struct caller callers[CALLERS_MAX];

/* ---- clients ---------------------------------------------------------------------------------- */

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct caller *caller = owner;
    (void)block;
    (void)need;
    size_t room = TEXT_MAX - 1 - caller->len;
    size_t taken = len < room ? len : room;
    memcpy(caller->text + caller->len, data, taken);
    caller->len += taken;
    caller->text[caller->len] = 0;
    return len;
}

static void on_end(void *owner, int err)
{
    struct caller *caller = owner;
    (void)err;
    caller->has_ended = true;
    stream_abort(caller->stream);
    caller->stream = NULL;
}

static void on_open(void *owner, int err)
{
    (void)owner;
    CHECK(err == 0);
}

/* Sends the text, and schedules a turn of the stream's loop, because this is called between two events. */
static void say(struct caller *caller, const char *text)
{
    CHECK(caller->stream);
    out_write(stream_out(caller->stream), text, strlen(text));
    stream_send(caller->stream);
    if (!sim_is_scheduled(&client_loop->turn))
        sim_schedule(&client_loop->turn, 0);
}

static bool has_text(const struct caller *caller, const char *text)
{
    return strstr(caller->text, text);
}

/* Runs until the text has arrived, and then drops all received text. */
static void expect(struct caller *caller, const char *text)
{
    for (int waited = 0; waited < WAIT_US && !has_text(caller, text); waited += STEP_US)
        sim_run_for(STEP_US);
    if (!has_text(caller, text)) {
        (void)fprintf(stderr, "wanted %s\ncame %s\n", text, caller->text);
        CHECK(!"the text comes");
    }
    caller->len = 0;
    caller->text[0] = 0;
}

static struct caller *enter(int number, unsigned place)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    const char *name = cluster.places[place].name;
    char login[200];
    struct caller *caller = &callers[number];
    *caller = (struct caller){0};
    caller->stream =
        stream_connect(client_loop, cluster.proxies[0].address, 1000, &events, on_open, caller);
    sim_run_for(STEP_US * 100);
    (void)snprintf(login, sizeof login, "AUTH %s %s\r\n", name, name);
    say(caller, login);
    expect(caller, "+OK");
    return caller;
}

static void leave(struct caller *caller)
{
    if (caller->stream)
        stream_abort(caller->stream);
    caller->stream = NULL;
}

/* ---- the world -------------------------------------------------------------------------------- */

static void world_start(void)
{
    const struct sim_plan plan = {.backends = 2,
                                  .partitions = 1,
                                  .proxies = 1,
                                  .workers = 1,
                                  .places = 2,
                                  .has_secret = true,
                                  .upstream_timeout_ms = 1000,
                                  .output_limit_mb = LIMIT >> 20};
    sim_init(SEED);
    sim_cluster_start(&cluster, &plan);
    sim_set_host("clients");
    client_loop = loop_new();
    CHECK(cluster.places[0].name[0] && cluster.places[1].name[0]);
}

static void world_end(void)
{
    for (int i = 0; i < CALLERS_MAX; i++)
        leave(&callers[i]);
    sim_run_for(WAIT_US);
    loop_free(client_loop);
    sim_proxy_stop(&cluster.proxies[0]);
    for (unsigned i = 0; i < cluster.plan.backends; i++)
        sim_backend_stop(&cluster.backends[i]);
    while (!sim_cluster_is_down(&cluster)) {
        CHECK(sim_step());
        sim_cluster_tend(&cluster);
    }
    CHECK(!cluster.why[0]);
    sim_cluster_fini(&cluster);
    sim_fini();
}

/* ---- cases ------------------------------------------------------------------------------------ */

static void test_a_client_that_subscribes_again_gets_messages_of_its_namespace(void)
{
    world_start();
    struct caller *first = enter(0, 0);
    say(first, "SUBSCRIBE x\r\n");
    expect(first, ":1\r\n");
    say(first, "UNSUBSCRIBE x\r\n");
    expect(first, ":0\r\n");
    sim_run_for(60ull * 1000 * 1000); /* the unused subscription table of its namespace is freed */
    struct caller *other = enter(1, 1);
    say(other, "SUBSCRIBE x\r\n");
    expect(other, ":1\r\n");
    say(first, "SUBSCRIBE x\r\n");
    expect(first, ":1\r\n");
    struct caller *speaker = enter(2, 0);
    say(speaker, "PUBLISH x one\r\n");
    expect(speaker, ":1\r\n");
    expect(first, "one");
    CHECK(!has_text(other, "one"));
    world_end();
}

/* The proxy's client of the newest connection. */
static const struct client *newest(void)
{
    const struct proxy_worker *worker = cluster.proxies[0].proxy->workers[0];
    return container_of(worker->clients.all.prev, struct client, links.all);
}

/* Publishes to channel x until the output of a RESP3 subscriber that does not read is full. */
static void fill(struct caller *speaker, const struct client *unread)
{
    enum { STEP = 10000, HEAD = sizeof ">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$10000\r\n\r\n" - 1 };
    static char line[3 * STEP];
    for (size_t pending; (pending = stream_pending(unread->stream)) < LIMIT - 2;) {
        size_t room = LIMIT - pending;
        int len = room > 2 * STEP ? STEP : (int)room - HEAD;
        (void)snprintf(line, sizeof line, "PUBLISH x %0*d\r\n", len, 1);
        say(speaker, line);
        expect(speaker, ":1\r\n");
        sim_run_for(50 * STEP_US); /* the message may come after this reply */
    }
}

static void test_a_client_disconnected_during_a_new_map_affects_no_other(void)
{
    char line[100];
    world_start();
    struct caller *tracker = enter(0, 0);
    struct caller *target = enter(1, 0);
    const struct client *unread = newest();
    struct caller *speaker = enter(2, 0);
    say(target, "HELLO 3\r\n");
    expect(target, "modules");
    say(tracker, "HELLO 3\r\n");
    expect(tracker, "modules");
    (void)snprintf(line, sizeof line, "CLIENT TRACKING ON BCAST REDIRECT %llu\r\n",
                   (unsigned long long)unread->id);
    say(tracker, line);
    expect(tracker, "+OK");
    say(target, "SUBSCRIBE x\r\n");
    expect(target, ":1\r\n");
    stream_pause(target->stream);
    fill(speaker, unread);
    sim_proxy_reload(
        /* the redirection target gets one frame more than its output limit allows */
        &cluster.proxies[0]);
    say(speaker, "PING\r\n");
    expect(speaker, "+PONG");
    CHECK(cluster.proxies[0].proxy->workers[0]->clients.count == 2);
    world_end();
}

static void test_a_client_that_hung_up_before_its_confirmation_survives_a_new_map(void)
{
    enum { MAPS = 12, FROZEN_US = 300 * 1000, TURNS_US = 50 * 1000 };
    world_start();
    struct caller *other = enter(1, 0);
    say(other, "SUBSCRIBE x\r\n");
    expect(other, ":1\r\n");
    for (int i = 0; i < MAPS; i++) { /* some of them rename shards */
        struct caller *caller = enter(0, 0);
        sim_freeze(cluster.backends[0].name, FROZEN_US);
        say(caller, "SUBSCRIBE x y\r\n");
        sim_run_for(TURNS_US);
        stream_close(caller->stream);
        caller->stream = NULL;
        sim_run_for(TURNS_US);
        sim_proxy_reload(&cluster.proxies[0]);
        sim_run_for(WAIT_US);
    }
    struct caller *speaker = enter(2, 0);
    say(speaker, "PUBLISH x one\r\n");
    expect(speaker, ":1\r\n");
    expect(other, "one");
    world_end();
}

int main(void)
{
    command_init();
    (void)log_set_file("/dev/null");
    test_a_client_that_subscribes_again_gets_messages_of_its_namespace();
    test_a_client_disconnected_during_a_new_map_affects_no_other();
    test_a_client_that_hung_up_before_its_confirmation_survives_a_new_map();
    return 0;
}
