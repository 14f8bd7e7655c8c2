/*
 * test_line.c - requests that leave the connection that clients share (backend/dispatch/line.h): each client's requests run in its
 * order, and once, however many leave, while slots move and proxies get other maps.
 *
 *   test_line [--seed N] …     see sim_seeds.h
 *
 *   clients pipeline pushes to lists of their own, and change keys that all of them use ─► the load ends ─► all are answered ─►
 *   each list is as long as it must be ─► clean stop
 *
 * The reply to a push is the length of the list. So it shows whether the client's requests have run in their order, each once. Besides those
 * that wait for locked keys, any request leaves at random, as if it had waited.
 *
 * In a third of the worlds batches are not committed, or not in time: replies that are held for them, also bounces, become errors. What such a
 * request has done is not known, until the next length of its list shows it. Else there are no errors but TRYAGAIN, and few of these: only
 * where slots move, or a proxy does not take bounces.
 */
#include "backend/context/partition.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "backend/transaction/coordinator.h"
#include "proxy/upstream/upstream_inner.h"
#include "shared/bounce.h"
#include "shared/check.h"
#include "shared/error_code.h"
#include "shared/number.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SEEDS = 400,
    STEPS = 4000,
    FAULT_EVERY = 20, /* steps between two possible changes of the world */
    FAULT_PPM = 30000,
    COMMIT_PPM = 1000,  /* of a commit to fail, in each step */
    STALL_PPM = 300000, /* … or of held replies, if there are bounces among them */
    CLIENTS_MAX = 8,
    KEYS = 2,         /* of each client */
    HOT = 2,          /* keys of all clients */
    QUOTA_MAX = 120,  /* requests of a client */
    PENDING_MAX = 48, /* replies that a client waits for */
    BEHINDS = 256,
    BEHIND_MAX = 200, /* with the proxy's own requests; otherwise 70 at most */
    REFUSED_MAX = 5,  /* of 100 requests, where nothing explains more */
    PACE_MS_MAX = 4,
    PLAIN_KINDS = 4, /* the first ones, which use one connection of a worker to each shard */
    CONNECT_MS = 1000,
    END_STEPS = 400000,
    END_US = 120 * 1000 * 1000,
};

/* What a reply must be. */
enum wanted {
    WANTED_ANY,    /* no error */
    WANTED_LENGTH, /* of the key */
    WANTED_PUSH,   /* likewise, after one element was added */
    WANTED_EXEC,   /* of two pushes */
};

struct pending {
    enum wanted wanted;
    unsigned key;
};

struct line_client {
    char name[SIM_NAMES_MAX];
    unsigned number;
    struct loop *loop;
    struct timer *timer;
    struct stream *stream;
    struct resp_skip skip;
    bool is_open;
    struct pending pending[PENDING_MAX];
    unsigned pending_count;
    unsigned quota;
    int64_t lengths[KEYS];
    int64_t unsure[KEYS]; /* so many more elements the list may have */
};

static struct world {
    struct sim_cluster cluster;
    struct line_client clients[CLIENTS_MAX];
    unsigned client_count;
    unsigned leave_ppm; /* chance of a request to leave its line */
    /* chance of a bounce that its proxy does not take: the client gets it as its reply */
    unsigned refuse_ppm;
    bool has_moves;
    bool has_failures; /* of commits */
    bool is_plain;     /* clients send plain commands only, so that they pipeline more of them */
    uint64_t pace_ms;
    uint64_t left;
    uint64_t answered;
    uint64_t refused; /* of these, with TRYAGAIN */
    uint64_t failed;  /* of these, because of a commit */
    uint64_t most_behind;
    char why[600];
} world;

bool __real_coordinator_finish(struct call *call);
bool __wrap_coordinator_finish(struct call *call);
void __real_session_set_slots(struct session *session, struct slot_set *slots);
void __wrap_session_set_slots(struct session *session, struct slot_set *slots);
bool __real_bounce_read(struct bytes frame, struct bounce *bounce);
bool __wrap_bounce_read(struct bytes frame, struct bounce *bounce);
void __real_upstream_note_bounce(struct upstream *upstream);
void __wrap_upstream_note_bounce(struct upstream *upstream);

/* ---- failures ---- */

static void fail(const char *what)
{
    if (!world.why[0])
        (void)snprintf(world.why, sizeof world.why, "%s", what);
}

static bool has_failed(void)
{
    if (world.cluster.why[0])
        fail(world.cluster.why);
    return world.why[0] != 0;
}

static void fail_reply(const struct line_client *client, const struct pending *pending,
                       struct bytes frame)
{
    char text[200];
    (void)snprintf(text, sizeof text,
                   "client %u: the reply is %.*s, and its list %u had %" PRId64 " elements",
                   client->number, (int)(frame.len < 80 ? frame.len : 80), frame.data, pending->key,
                   client->lengths[pending->key]);
    fail(text);
}

/* ---- what leaves, and what is broken ---- */

static bool may_leave(const struct call *call)
{
    const struct command *command = call->command;
    bool is_for_data = command->traits & TRAIT_RUNS_QUEUE ||
                       command->flags & (CMD_WRITE | CMD_READONLY | CMD_SCRIPT);
    return is_for_data && !(command->flags & CMD_INTERNAL) && call->session->login.shares_line &&
           !call->session->pending.across && !call->session->transaction.is_aborted;
}

/* How many requests of a connection have run or bounced since one has left. */
static struct behind {
    const struct session *session;
    uint64_t since;
} behinds[BEHINDS];

/* At most those in flight are behind one that has left, and what the proxy sends before it hears of the first. */
static void check_behind(const struct session *session)
{
    struct behind *behind = &behinds[session->id % BEHINDS];
    if (!session->pending.line.is_left) {
        if (behind->session == session)
            behind->session = NULL;
        return;
    }
    if (behind->session != session)
        *behind = (struct behind){session, session->request.number};
    uint64_t count = session->request.number - behind->since;
    if (count > world.most_behind)
        world.most_behind = count;
    if (count > BEHIND_MAX)
        fail("requests bounce for ever, because the shard does not hear that the first bounce was "
             "seen");
}

/* Called before a request of a session runs. */
bool __wrap_coordinator_finish(struct call *call)
{
    struct session_line *line = &call->session->pending.line;
    bool is_over = __real_coordinator_finish(call);
    check_behind(call->session);
    if (sim_broken == BREAK_BEHIND_RUNS)
        line->is_left = false;
    if (is_over || line->leaves || line->is_left || !may_leave(call) ||
        !sim_chance(world.leave_ppm))
        return is_over;
    line->leaves = true;
    world.left++;
    return false;
}

/* SCREE SLOTS */
void __wrap_session_set_slots(struct session *session, struct slot_set *slots)
{
    __real_session_set_slots(session, slots);
    if (sim_broken == BREAK_SLOTS_END_LINE)
        session_end_bounces(session);
}

static bool is_refused; /* the last bounce was not taken */
static bool is_behind;  /* it was one of a request behind another */

bool __wrap_bounce_read(struct bytes frame, struct bounce *bounce)
{
    is_refused = sim_chance(world.refuse_ppm);
    bool is_read = !is_refused && __real_bounce_read(frame, bounce);
    is_behind = is_read && bounce->why == BOUNCE_BEHIND;
    return is_read;
}

void __wrap_upstream_note_bounce(struct upstream *upstream)
{
    if (sim_broken == BREAK_REFUSED_UNSEEN && (is_refused || is_behind))
        return;
    if (sim_broken == BREAK_BEHIND_UNSEEN && is_behind)
        return;
    if (sim_broken == BREAK_OVERTAKEN)
        upstream->queue.has_bounced = true; /* as if its clients were held already */
    __real_upstream_note_bounce(upstream);
}

/* ---- replies ---- */

/* Is the reply the length of the client's list, which has `more` elements more than it knew? Then it knows the length. */
static bool is_length(struct line_client *client, unsigned key, struct bytes frame, size_t *pos,
                      int64_t more)
{
    struct resp_value value;
    int64_t number;
    int64_t least = client->lengths[key] + more;
    if (!resp_value_next(frame, pos, &value) || value.type != ':' ||
        !number_parse_int64(value.text, &number) || number < least ||
        number > least + client->unsure[key])
        return false;
    client->lengths[key] = number;
    client->unsure[key] = 0;
    return true;
}

/* Its reply is an error that does not say whether it was done. */
static void be_unsure(struct line_client *client, const struct pending *pending)
{
    static const int64_t pushes[] = {[WANTED_PUSH] = 1, [WANTED_EXEC] = 2};
    if (pending->wanted == WANTED_PUSH || pending->wanted == WANTED_EXEC)
        client->unsure[pending->key] += pushes[pending->wanted];
}

static bool is_wanted(struct line_client *client, const struct pending *pending, struct bytes frame)
{
    unsigned key = pending->key;
    struct resp_value value;
    size_t pos = 0;
    switch (pending->wanted) {
    case WANTED_ANY:
        return *frame.data != '-';
    case WANTED_LENGTH:
        return is_length(client, key, frame, &pos, 0);
    case WANTED_PUSH:
        return is_length(client, key, frame, &pos, 1);
    case WANTED_EXEC:
        return resp_value_next(frame, &pos, &value) && value.type == '*' && value.count == 2 &&
               is_length(client, key, frame, &pos, 1) && is_length(client, key, frame, &pos, 1);
    }
    return false;
}

static void take_reply(struct line_client *client, struct bytes frame)
{
    struct pending pending = client->pending[0];
    if (client->pending_count == 0) {
        fail("received a reply without a request");
        return;
    }
    client->pending_count--;
    memmove(client->pending, client->pending + 1, client->pending_count * sizeof pending);
    sim_note("reply", (uint64_t)*frame.data);
    world.answered++;
    struct bytes error = {frame.data + 1, frame.len - 1};                   /* if it is one */
    bool is_bounce = *frame.data == '!' || error_has_code(error, "BOUNCE"); /* of a part */
    if (memmem(error.data, error.len, "had to wait for another", 23))
        fail_reply(client, &pending, frame); /* also what a proxy has made itself is sent again */
    if (is_bounce && world.refuse_ppm)
        return; /* nothing was done */
    if (error_has_code(error, "TRYAGAIN")) {
        world.refused++;
        return; /* likewise */
    }
    if (world.has_failures && *frame.data == '-') {
        world.failed++;
        be_unsure(client, &pending);
        return;
    }
    if (!is_wanted(client, &pending, frame))
        fail_reply(client, &pending, frame);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct line_client *client = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&client->skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = client->skip.need;
            break;
        }
        take_reply(client, (struct bytes){data + used, client->skip.size});
        used += client->skip.size;
    }
    return used;
}

static void on_end(void *owner, int err)
{
    struct line_client *client = owner;
    (void)err;
    stream_abort(client->stream);
    client->stream = NULL;
    fail("a client was disconnected");
}

/* ---- requests ---- */

static void want(struct line_client *client, enum wanted wanted, unsigned key)
{
    CHECK(client->pending_count < PENDING_MAX);
    client->pending[client->pending_count++] = (struct pending){wanted, key};
}

static void send_push(struct line_client *client, struct out *out, unsigned key)
{
    out_printf(out, "RPUSH c%u:%u x\r\n", client->number, key);
    want(client, WANTED_PUSH, key);
}

static void send_script(struct line_client *client, struct out *out, unsigned key)
{
    out_printf(out, "EVAL \"return redis.call('RPUSH',KEYS[1],'x')\" 1 c%u:%u\r\n", client->number,
               key);
    want(client, WANTED_PUSH, key);
}

/* The keys are perhaps on two shards, and others wait for the second one. */
static void send_hot_script(struct line_client *client, struct out *out, unsigned key)
{
    out_printf(out,
               "EVAL \"redis.call('INCR',KEYS[2]) return redis.call('RPUSH',KEYS[1],'x')\" 2 "
               "c%u:%u hot:%u\r\n",
               client->number, key, (unsigned)sim_random(HOT));
    want(client, WANTED_PUSH, key);
}

/* As send_hot_script, but nothing foretells the second key: the script waits on a connection that clients share. */
static void send_undeclared(struct line_client *client, struct out *out, unsigned key)
{
    out_printf(out,
               "EVAL \"redis.call('INCR',ARGV[1]) return redis.call('RPUSH',KEYS[1],'x')\" 1 "
               "c%u:%u hot:%u\r\n",
               client->number, key, (unsigned)sim_random(HOT));
    want(client, WANTED_PUSH, key);
}

static void send_exec(struct line_client *client, struct out *out, unsigned key)
{
    out_printf(out, "MULTI\r\nRPUSH c%u:%u x\r\nRPUSH c%u:%u x\r\nEXEC\r\n", client->number, key,
               client->number, key);
    for (int i = 0; i < 3; i++)
        want(client, WANTED_ANY, key);
    want(client, WANTED_EXEC, key);
}

static void send_length(struct line_client *client, struct out *out, unsigned key)
{
    out_printf(out, "LLEN c%u:%u\r\n", client->number, key);
    want(client, WANTED_LENGTH, key);
}

static void send_other(struct line_client *client, struct out *out, unsigned key)
{
    static const char *const others[] = {"INCR hot:0", "INCR hot:1", "MGET hot:0 hot:1",
                                         "DBSIZE",     "RANDOMKEY",  "PING"};
    out_printf(out, "%s\r\n", others[sim_random(sizeof others / sizeof *others)]);
    want(client, WANTED_ANY, key);
}

static void send_request(struct line_client *client)
{
    typedef void send_fn(struct line_client * client, struct out * out, unsigned key);
    static send_fn *const kinds[] = {send_push,       send_push,   send_push,
                                     send_length,     send_exec,   send_other,
                                     send_hot_script, send_script, send_undeclared};
    if (client->pending_count + 4 > PENDING_MAX || client->quota == 0)
        return;
    client->quota--;
    kinds[sim_random(world.is_plain ? PLAIN_KINDS : sizeof kinds / sizeof *kinds)](
        client, stream_out(client->stream), (unsigned)sim_random(KEYS));
}

static void on_open(void *owner, int err)
{
    struct line_client *client = owner;
    CHECK(!err);
    client->is_open = true;
    out_printf(stream_out(client->stream), "AUTH default default\r\n");
    want(client, WANTED_ANY, 0);
    stream_send(client->stream);
}

static void on_act(void *owner)
{
    struct line_client *client = owner;
    timer_start(client->timer, sim_random(world.pace_ms + 1), 0);
    if (!client->is_open || !client->stream)
        return;
    for (uint64_t count = sim_random(6); count > 0; count--)
        send_request(client);
    stream_send(client->stream);
}

static void start_client(unsigned number)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    struct line_client *client = &world.clients[number];
    *client = (struct line_client){.number = number, .quota = 1 + (unsigned)sim_random(QUOTA_MAX)};
    (void)snprintf(client->name, sizeof client->name, "client-%u", number);
    sim_set_host(client->name);
    client->loop = loop_new();
    client->timer = timer_new(client->loop, on_act, client);
    timer_start(client->timer, sim_random(4), 0);
    client->stream = stream_connect(
        client->loop, world.cluster.proxies[sim_random(world.cluster.plan.proxies)].address,
        CONNECT_MS, &events, on_open, client);
}

static void free_clients(void)
{
    for (unsigned i = 0; i < world.client_count; i++) {
        struct line_client *client = &world.clients[i];
        if (client->stream)
            stream_abort(client->stream);
        timer_free(client->timer);
        loop_free(client->loop);
    }
    world.client_count = 0;
}

/* ---- the world ---- */

static void be_calm(void)
{
    struct sim_knobs *knobs = sim_knobs();
    knobs->slow_ppm = knobs->cut_ppm = knobs->refuse_ppm = 0;
}

static void world_start(uint64_t seed)
{
    static const unsigned rates[] = {0, 30000, 100000, 300000};
    sim_init(seed);
    storage_mem_seed(sim_random(UINT64_MAX));
    world = (struct world){.why = ""};
    sim_knobs_shuffle();
    be_calm();
    struct sim_plan plan = {.backends = 2 + (unsigned)sim_random(SIM_BACKENDS_MAX - 1),
                            .partitions = 1,
                            .proxies = 1 + (unsigned)sim_random(2),
                            .workers = 1 + (unsigned)sim_random(2),
                            .places = 1,
                            .has_secret = true,
                            .is_linked = true,
                            .active_expire = true,
                            .durability = DURABILITY_ALWAYS,
                            .upstream_timeout_ms = END_US / 1000,
                            .lock_timeout_ms = 1000,
                            .across_limit = sim_random(2) ? 2 : 0,
                            .migration_freeze_ms = 100,
                            .has_portions = true,
                            .transaction_timeout_ms = 4000};
    sim_cluster_start(&world.cluster, &plan);
    world.cluster.relays.is_faulty = false;
    world.leave_ppm = rates[sim_broken ? 1 + sim_random(3) : sim_random(4)];
    world.has_moves = sim_random(2);
    world.has_failures = sim_random(3) == 0;
    if (sim_broken)
        world.has_failures = sim_broken == BREAK_BEHIND_UNSEEN;
    world.is_plain = sim_random(2);
    world.refuse_ppm = sim_random(4) ? 0 : 1 + (unsigned)sim_random(300000);
    world.pace_ms = sim_random(PACE_MS_MAX + 1);
    world.client_count = 2 + (unsigned)sim_random(CLIENTS_MAX - 1);
    for (unsigned i = 0; i < world.client_count; i++)
        start_client(i);
}

static void change_maps(void)
{
    sim_note("new map", 0);
    sim_cluster_move(&world.cluster);
    for (unsigned i = 0; i < world.cluster.plan.backends; i++)
        sim_backend_reload(&world.cluster.backends[i]);
}

/* As if a request that waits had been slow before: others write nothing until it has run again (slow_call.h). */
static void make_slow(struct partition *partition)
{
    const struct list *all = &partition->clients.all;
    for (const struct list *at = all->next; at != all && !partition->running.next; at = at->next) {
        struct session *session = container_of(at, struct session, link);
        if (session->login.shares_line && session->pending.retry.pending &&
            session->pending.retry.since_ms && !session->pending.across)
            partition->running.next = session;
    }
}

/* A batch is not committed. */
static void fail_commit(struct sim_backend *backend)
{
    sim_note("commit fails", 0);
    storage_mem_fail_next(backend->seats[0].partition->storage, 1 + sim_random(3), ERR_STORE);
}

/* A batch is not committed in time, so what is held for it is not waited for (partition/leadership.c). */
static void fail_held(struct sim_backend *backend)
{
    struct partition *partition = backend->seats[0].partition;
    sim_set_host(backend->name);
    if (!partition->running.aside && sessions_fail_held(partition, ERR_NOT_TAKEN))
        sim_note("held replies fail", 0);
}

/* Is a bounce perhaps among the replies that are held? */
static bool holds_bounce(const struct sim_backend *backend)
{
    const struct list *all = &backend->seats[0].partition->clients.all;
    for (const struct list *at = all->next; at != all; at = at->next) {
        const struct session *session = container_of(at, struct session, link);
        const struct session_replies *replies = &session->replies;
        if (session->pending.line.is_left && (replies->held_count[0] || replies->held_count[1]))
            return true;
    }
    return false;
}

static void chance_of_failure(void)
{
    struct sim_backend *backend = &world.cluster.backends[sim_random(world.cluster.plan.backends)];
    if (!world.has_failures || backend->state != SIM_UP)
        return;
    if (sim_chance(COMMIT_PPM))
        fail_commit(backend);
    if (sim_chance(holds_bounce(backend) ? STALL_PPM : COMMIT_PPM))
        fail_held(backend);
}

static void chance_of_change(void)
{
    if (!sim_chance(FAULT_PPM))
        return;
    unsigned which = (unsigned)sim_random(5);
    if (which == 0) {
        sim_knobs_shuffle();
        be_calm();
    } else if (which == 2) {
        for (unsigned i = 0; i < world.cluster.plan.backends; i++)
            make_slow(world.cluster.backends[i].seats[0].partition);
    } else if (which == 1 && world.has_moves) {
        change_maps();
    } else {
        sim_note("reload", 0);
        sim_proxy_reload(&world.cluster.proxies[sim_random(world.cluster.plan.proxies)]);
    }
}

static bool all_answered(void)
{
    for (unsigned i = 0; i < world.client_count; i++)
        if (world.clients[i].pending_count > 0 || world.clients[i].quota > 0)
            return false;
    return true;
}

static void run_load(void)
{
    for (uint64_t step = 0; step < sim_options.steps && !has_failed(); step++) {
        if (step % FAULT_EVERY == 0)
            chance_of_change();
        chance_of_failure();
        sim_cluster_tend(&world.cluster);
        if (!sim_step() || all_answered())
            break;
    }
    for (unsigned i = 0; i < world.client_count; i++)
        world.clients[i].quota = 0;
}

static void run_until(bool (*is_true)(void), const char *what)
{
    uint64_t end_us = sim_now_us() + END_US;
    for (uint64_t step = 0; step < END_STEPS && sim_now_us() < end_us; step++) {
        sim_cluster_tend(&world.cluster);
        if (has_failed() || is_true())
            return;
        if (!sim_step())
            break;
    }
    fail(what);
}

/* Nothing but moves, and what a proxy does not take, is a reason for many. */
static void check_refused(void)
{
    if (!world.has_moves && !world.has_failures && !world.refuse_ppm &&
        world.refused * 100 > world.answered * REFUSED_MAX)
        fail("too many requests are refused with TRYAGAIN");
}

static bool is_quiet(void)
{
    return sim_cluster_is_quiet(&world.cluster);
}

static bool is_down(void)
{
    return sim_cluster_is_down(&world.cluster);
}

static void ask_lengths(void)
{
    for (unsigned i = 0; i < world.client_count; i++) {
        struct line_client *client = &world.clients[i];
        for (unsigned key = 0; key < KEYS && client->stream; key++)
            send_length(client, stream_out(client->stream), key);
        stream_send(client->stream);
    }
}

static void stop_all(void)
{
    for (unsigned i = 0; i < world.cluster.plan.proxies; i++)
        sim_proxy_stop(&world.cluster.proxies[i]);
    for (unsigned i = 0; i < world.cluster.plan.backends; i++)
        sim_backend_stop(&world.cluster.backends[i]);
    run_until(is_down, "the cluster does not stop");
}

/* sim_simulation.run */
static void run_world(struct sim_result *result)
{
    world_start(result->seed);
    run_load();
    world.leave_ppm = 0;
    if (!has_failed())
        run_until(all_answered, "a client waits for ever");
    if (!has_failed())
        ask_lengths();
    if (!has_failed())
        run_until(all_answered, "a client waits for ever for the length of its list");
    check_refused();
    free_clients();
    if (!has_failed())
        run_until(is_quiet, "a proxy does not notice that its clients have left");
    if (!has_failed())
        stop_all();
    result->hash = sim_hash();
    result->has_passed = !has_failed();
    memcpy(result->why, world.why, sizeof result->why);
    if (sim_options.is_verbose)
        printf("%" PRIu64 " requests left, %" PRIu64 " of %" PRIu64 " were refused, %" PRIu64
               " failed, at most %" PRIu64 " behind\n",
               world.left, world.refused, world.answered, world.failed, world.most_behind);
    if (has_failed())
        return;
    sim_cluster_fini(&world.cluster);
    sim_fini();
    storage_mem_reset();
}

int main(int argc, char **argv)
{
    const struct sim_simulation simulation = {.run = run_world,
                                              .seeds = sized(SEEDS),
                                              .steps = STEPS,
                                              .first_break = BREAK_BEHIND_RUNS,
                                              .end_break = BREAK_LINE_END,
                                              .break_seed = 1};
    return sim_seeds_main(argc, argv, &simulation);
}
