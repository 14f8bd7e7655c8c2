/*
 * test_replica_links.c - three copies of a shard find each other over links that fail (sim_relay.h): connections that are cut or lose a
 * direction, hosts that are down or frozen, frames that are doubled, exchanged or late, and copies that start again, with an id of their own or
 * with a new one.
 *
 *   a ◄──► b ◄──► c ◄──► a         each ──► is a link behind a relay
 *
 *   test_replica_links [seed]      one world, or SEEDS of them
 *
 * In the end each copy has what the others say of themselves, and a message to an id arrives at the copy that has it, as one of the sender's.
 */
#include "backend/context/backend_metrics.h"
#include "backend/peer/peer_set.h"
#include "backend/replica/replica_links.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_greeting.h"
#include "tests/sim/sim_relay.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 200,
    COPIES = 3,
    FAULTS = 30,
    STEPS_MAX = 3000000,
    SECOND_US = 1000000,
    TEXT_BYTES = 8, /* of a message: the id of its sender */
};

struct copy {
    char address[16]; /* it listens here */
    struct loop *loop;
    struct listener *listener;
    struct replica_links *links; /* NULL: it has ended */
    struct replica_hello hello;
    unsigned received[COPIES]; /* messages, by sender */
};

static const char *const names[COPIES] = {"a", "b", "c"};
static const char *const addresses[COPIES] = {"relay-a:1", "relay-b:1", "relay-c:1"};

static struct copy copies[COPIES];
static struct sim_relays relays;
static struct metrics *metrics;
static struct labels *labels;
static uint64_t last_id, last_run, downs, drains; /* downs, drains: in all worlds */

/* ---- events of a copy -------------------------------------------------------------------------- */

static void on_hello(void *owner, const struct replica_hello *hello)
{
    (void)owner;
    CHECK(hello->id && hello->id <= last_id && hello->state == REPLICA_STATE_MEMBER);
}

static void on_down(void *owner, uint64_t id)
{
    (void)owner;
    CHECK(id && id <= last_id);
    downs++;
}

static void on_drain(void *owner, uint64_t id)
{
    (void)owner;
    CHECK(id && id <= last_id);
    drains++;
}

/* A message has the id of its sender, which may have got a new one since. */
static struct refusal handle(void *owner, struct peer_incoming *incoming,
                             const struct peer_frame *frame, uint64_t from)
{
    struct copy *copy = owner;
    (void)incoming;
    CHECK(frame->kind == PEER_REPLICA_CORE && frame->payload.len >= TEXT_BYTES);
    for (unsigned i = 0; i < COPIES; i++)
        copy->received[i] += from == copies[i].hello.id && get_le64(frame->payload.data) == from;
    return NO_REFUSAL;
}

static void closed(void *owner, struct peer_incoming *incoming)
{
    (void)owner;
    (void)incoming;
}

/* ---- greeting ---------------------------------------------------------------------------------- */

static struct peer_identity identity_of(const struct copy *copy)
{
    struct peer_identity identity = {.shard = "s", .run_id = "run", .version = "1"};
    (void)snprintf(identity.address, sizeof identity.address, "%s", addresses[copy - copies]);
    return identity;
}

static bool is_open(void *owner)
{
    const struct copy *copy = owner;
    return copy->links != NULL;
}

static bool admit(void *owner, struct bytes protocol, struct bytes shard, struct bytes identity,
                  struct peer_identity *peer, const char **error)
{
    const struct peer_identity self = identity_of(owner);
    return peer_admit_copy(&self, protocol, shard, identity, peer, error);
}

static size_t write_identity(void *owner, char to[PEER_IDENTITY_MAX])
{
    const struct peer_identity self = identity_of(owner);
    return peer_identity_write(&self, to);
}

static void adopt(void *owner, struct stream *stream, const struct peer_identity *peer)
{
    const struct copy *copy = owner;
    replica_links_adopt(copy->links, stream, peer);
}

static void accepted(void *owner, struct stream *stream)
{
    static const struct sim_greeter greeter = {.word = "REPLICA",
                                               .is_open = is_open,
                                               .admit = admit,
                                               .identity = write_identity,
                                               .adopt = adopt};
    sim_greet(&greeter, stream, owner);
}

/* ---- life of a copy ---------------------------------------------------------------------------- */

static uint64_t connect_timeout_ms = SECOND_US / 1000;

static void configure(const struct copy *copy)
{
    const struct replica_links_config config = {
        .shard = "s",
        .address = addresses[copy - copies],
        .address_count = COPIES,
        .addresses = {addresses[0], addresses[1], addresses[2]},
        .secret = "secret",
        .secret_previous = "",
        .options = {.output_max = 32 << 20,
                    .requests_max = 64,
                    .connect_timeout_ms = connect_timeout_ms,
                    .timeout_ms = 1000,
                    .ping_ms = 250,
                    .backoff_min_ms = 10,
                    .backoff_max_ms = 500},
    };
    replica_links_configure(copy->links, &config);
}

/* A copy that starts again has its id, or is a new one on an empty disk. */
static void start_copy(struct copy *copy)
{
    static const struct replica_links_events events = {.on_hello = on_hello,
                                                       .on_down = on_down,
                                                       .on_drain = on_drain,
                                                       .handle = handle,
                                                       .on_closed = closed};
    const struct replica_links_options options = {.loop = copy->loop,
                                                  .metrics = metrics,
                                                  .labels = labels,
                                                  .thread = (uint32_t)(copy - copies),
                                                  .run_id = "run",
                                                  .version = "1",
                                                  .events = events,
                                                  .owner = copy};
    bool is_new = !copy->hello.id || sim_random(2);
    copy->hello = (struct replica_hello){.group = {1, 77},
                                         .id = is_new ? ++last_id : copy->hello.id,
                                         .starts = sim_random(5), /* disks may go back */
                                         .run = ++last_run,
                                         .term = copy->hello.term,
                                         .state = REPLICA_STATE_MEMBER,
                                         .data_format = 1};
    copy->links = replica_links_new(&options);
    configure(copy);
    replica_links_say(copy->links, &copy->hello);
}

static void stop_copy(struct copy *copy)
{
    replica_links_free(copy->links);
    copy->links = NULL;
}

static void host_new(struct copy *copy)
{
    char error[64];
    *copy = (struct copy){0};
    sim_set_host(names[copy - copies]);
    (void)snprintf(copy->address, sizeof copy->address, "%s:1", names[copy - copies]);
    const struct listen_options options = {.address = copy->address, .backlog = 16};
    copy->loop = loop_new();
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    copy->listener = listener_new(copy->loop, fd, &options, accepted, copy);
    sim_relays_add(&relays, addresses[copy - copies], copy->address);
    start_copy(copy);
}

/* ---- worlds ------------------------------------------------------------------------------------ */

static void post_from(struct copy *copy, uint64_t to, size_t len)
{
    char *text = calloc(1, len);
    struct peer_link *link = replica_links_to(copy->links, to);
    CHECK(text);
    put_le64(text, copy->hello.id);
    if (link)
        (void)peer_link_post(link, PEER_REPLICA_CORE, (struct bytes){text, len});
    free(text);
}

static void use_bulk(const struct copy *copy, uint64_t to)
{
    struct peer_link *bulk = replica_links_bulk(copy->links, to);
    CHECK(!bulk || bulk != replica_links_to(copy->links, to));
    if (sim_random(2))
        replica_links_end_bulk(copy->links, to);
}

static void do_something(void)
{
    struct copy *copy = &copies[sim_random(COPIES)];
    uint64_t other = copies[sim_random(COPIES)].hello.id;
    sim_set_host(names[copy - copies]);
    switch (sim_random(6)) {
    case 0:
        copy->hello.term++;
        replica_links_say(copy->links, &copy->hello);
        break;
    case 1:
        use_bulk(copy, other);
        break;
    case 2:
        stop_copy(copy);
        start_copy(copy);
        break;
    default:
        if (other != copy->hello.id)
            post_from(copy, other, TEXT_BYTES + sim_random(3) * STREAM_HIGH_WATER);
        break;
    }
}

static void make_fault(void)
{
    const char *name = names[sim_random(COPIES)];
    switch (sim_random(4)) {
    case 0:
        sim_cut(name);
        break;
    case 1:
        sim_freeze(name, 1000 * sim_random(3000));
        break;
    case 2:
        sim_host_down(name);
        sim_run_for(sim_random(SECOND_US));
        sim_host_up(name);
        break;
    default:
        sim_relays_mute(&relays);
        break;
    }
}

static bool has_heard(const struct copy *copy, const struct copy *other)
{
    const struct replica_hello *said = replica_links_hello(copy->links, addresses[other - copies]);
    return said && said->id == other->hello.id && said->term == other->hello.term &&
           said->starts == other->hello.starts && replica_links_to(copy->links, said->id);
}

static bool have_all_heard(void *owner)
{
    (void)owner;
    for (unsigned i = 0; i < COPIES * COPIES; i++)
        if (i / COPIES != i % COPIES && !has_heard(&copies[i / COPIES], &copies[i % COPIES]))
            return false;
    return true;
}

static bool have_all_received(void *owner)
{
    (void)owner;
    for (unsigned i = 0; i < COPIES * COPIES; i++)
        if (i / COPIES != i % COPIES && !copies[i / COPIES].received[i % COPIES])
            return false;
    return true;
}

/* Without faults all hear what the others say, and each one's message arrives at each other one. */
static void find_all(void)
{
    relays.is_faulty = false;
    sim_knobs()->slow_ppm = 0;
    sim_run_for(10 * SECOND_US); /* late frames have come, and silent connections are closed */
    CHECK(sim_run_until(have_all_heard, NULL, STEPS_MAX));
    for (unsigned i = 0; i < COPIES; i++)
        memset(copies[i].received, 0, sizeof copies[i].received);
    for (unsigned i = 0; i < COPIES * COPIES; i++)
        if (i / COPIES != i % COPIES)
            post_from(&copies[i / COPIES], copies[i % COPIES].hello.id, TEXT_BYTES);
    CHECK(sim_run_until(have_all_received, NULL, STEPS_MAX));
}

static void start_world(uint64_t seed)
{
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 5000;
    sim_knobs()->pipe_bytes = 256 << 10;
    last_id = 0;
    metrics = metrics ? metrics : metrics_new(); /* is never freed */
    labels = labels_new(LINK_WORDS, COPIES);
    sim_relays_init(&relays);
    relays.is_faulty = true;
    for (unsigned i = 0; i < COPIES; i++)
        host_new(&copies[i]);
}

static void end_world(void)
{
    for (unsigned i = 0; i < COPIES; i++) {
        listener_free(copies[i].listener);
        stop_copy(&copies[i]);
    }
    sim_relays_stop(&relays);
    sim_run_for(SECOND_US);
    for (unsigned i = 0; i < COPIES; i++)
        loop_free(copies[i].loop);
    sim_relays_fini(&relays);
    labels_free(labels);
    sim_fini();
}

static void run_world(uint64_t seed)
{
    start_world(seed);
    for (unsigned i = 0; i < FAULTS; i++) {
        sim_run_for(sim_random(SECOND_US / 2));
        do_something();
        if (sim_random(2))
            make_fault();
    }
    find_all();
    end_world();
}

/* Its connects to where the others were before get no answer for an hour. They come back, and connect to it. */
static void find_copies_that_were_elsewhere(uint64_t seed)
{
    connect_timeout_ms = 3600 * 1000;
    start_world(seed);
    stop_copy(&copies[1]);
    stop_copy(&copies[2]);
    sim_host_down("relays");
    sim_run_for(5 * SECOND_US);
    sim_host_up("relays");
    start_copy(&copies[1]);
    start_copy(&copies[2]);
    relays.is_faulty = false;
    sim_run_for(20 * SECOND_US);
    CHECK(have_all_heard(NULL));
    end_world();
    connect_timeout_ms = SECOND_US / 1000;
}

int main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t last = argc > 1 ? first : sized(SEEDS);
    for (uint64_t seed = first; seed <= last; seed++) {
        fflush(stdout);
        run_world(seed);
    }
    find_copies_that_were_elsewhere(first);
    if (argc > 1)
        return 0;
    CHECK(downs && drains);
    printf("test_replica_links: %" PRIu64 " copies went down, %" PRIu64 " links drained\n", downs,
           drains);
    return 0;
}
