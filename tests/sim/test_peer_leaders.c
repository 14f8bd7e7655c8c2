/*
 * test_peer_leaders.c - links between two shards of one copy and one of three copies, whose leader changes: while connections are cut, lose
 * a direction or deliver late, and hosts are down or frozen. Copies are wrong about who leads, and a leader of before may not have heard that
 * it is none any more, so that it goes on.
 *
 *   a, b ◄──► c: x y z      one of x, y, z leads by right; others may think that they do
 *
 *   test_peer_leaders [seed]      one world, or SEEDS of them
 *
 * After something came from a leader of c, nothing comes from an older one: no request is handled, and no reply. Every request ends exactly
 * once. A new leader that reaches the others is followed within a second, although no shard asks for it. When the faults end, all are linked to
 * the newest leader; and they find it again by asking the copies, when their connections broke.
 */
#include "backend/context/backend_metrics.h"
#include "backend/peer/messages.h"
#include "shared/byte_order.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "shared/net/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 400, NODES = 5, OTHERS = 2, COPIES = 3, ROUNDS = 60, STEPS_MAX = 3000000 };
enum { FOLLOW_US = 1000000, ORDER_OF_TERM_0 = 1000000 };

static const char *const NAMES[NODES] = {"a", "b", "x", "y", "z"};
static const char *const SHARDS[NODES] = {"a", "b", "c", "c", "c"};
static const char *const ADDRESSES[NODES] = {"relay-a:1", "relay-b:1", "relay-x:1", "relay-y:1",
                                             "relay-z:1"};

struct node {
    struct sim_peer host;
    struct sim_peer_options options;
    uint64_t heard; /* newest term of c that something came from */
};

struct asked {
    struct peer_request request;
    int from, to;
    char payload[8];
};

static struct node nodes[NODES];
static struct shard_map *map;
static struct labels *links;
static struct sim_relays relays;
static int leader;           /* by right */
static uint64_t term;        /* its term */
static uint64_t sent, ended; /* in this world */
static struct {
    uint64_t asked, answered, leaders, refused, slowest_us;
} totals;

static bool leads(int index)
{
    return !nodes[index].host.leader;
}

static struct peer_link *link_to(int from, const char *shard)
{
    return peer_set_find(nodes[from].host.set, bytes_of(shard));
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void hear(struct node *node, const struct peer_identity *from)
{
    if (strcmp(from->shard, "c") != 0)
        return;
    CHECK(from->leadership.term >= node->heard);
    node->heard = from->leadership.term;
}

/* peer_requests.handle */
static struct refusal handle(void *owner, struct peer_incoming *incoming,
                             const struct peer_frame *frame)
{
    struct node *node = owner;
    hear(node, &incoming->peer);
    if (frame->kind == PEER_LISTEN)
        peer_set_note_listener(node->host.set, bytes_of(incoming->peer.shard), *frame->payload.data,
                               get_le64(frame->payload.data + 1));
    peer_incoming_done(incoming, frame->id, frame->payload);
    return NO_REFUSAL;
}

static void asked_ended(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    struct asked *asked = container_of(request, struct asked, request);
    CHECK(result != PEER_REFUSED);
    CHECK(result != PEER_OK || bytes_equal(payload, (struct bytes){asked->payload, 8}));
    if (result == PEER_OK)
        hear(&nodes[asked->from], &link_to(asked->from, SHARDS[asked->to])->peer);
    ended++;
    totals.answered += result == PEER_OK;
    free(asked);
}

static bool ask(int from, int to)
{
    struct peer_link *link = leads(from) ? link_to(from, SHARDS[to]) : NULL;
    struct asked *asked = calloc(1, sizeof *asked);
    CHECK(asked);
    *asked = (struct asked){.request.on_reply = asked_ended, .from = from, .to = to};
    put_le64(asked->payload, ++sent);
    if (link && peer_link_send(link, &asked->request, PEER_OUTCOME,
                               (struct bytes){asked->payload, 8}) == PEER_SENT) {
        totals.asked++;
        return true;
    }
    sent--;
    free(asked);
    return false;
}

static bool all_have_ended(void *owner)
{
    (void)owner;
    return ended == sent;
}

static void ask_someone(void)
{
    int other = (int)sim_random(OTHERS);
    int copy = OTHERS + (int)sim_random(COPIES);
    if (sim_random(2))
        (void)ask(other, copy);
    else
        (void)ask(copy, other);
}

/* ---- leaders ----------------------------------------------------------------------------------- */

static void lead(int index)
{
    leader = index;
    sim_peer_lead(&nodes[index].host, &nodes[index].options, &(struct peer_leadership){1, ++term});
    totals.leaders++;
}

/* The copy hears that another one leads, perhaps not which. */
static void follow(int index, bool is_right)
{
    int named = is_right ? leader : OTHERS + (int)sim_random(COPIES);
    if (index != leader)
        sim_peer_follow(&nodes[index].host, is_right || sim_random(3) ? ADDRESSES[named] : "");
}

static bool is_linked(int from, const char *shard)
{
    const struct peer_link *link = link_to(from, shard);
    return link && link->state == PEER_LINK_UP &&
           (strcmp(shard, "c") != 0 ||
            (link->peer.leadership.term == term && strcmp(link->address, ADDRESSES[leader]) == 0));
}

static bool all_follow(void *owner)
{
    (void)owner;
    for (int i = 0; i < OTHERS; i++)
        if (!is_linked(i, "c") || !is_linked(leader, NAMES[i]))
            return false;
    return true;
}

/* The leader before has not heard that it is none any more. */
static void check_takeover(void)
{
    int before = leader;
    uint64_t begun_us = sim_now_us();
    lead(OTHERS + (leader - OTHERS + 1 + (int)sim_random(COPIES - 1)) % COPIES);
    CHECK(sim_run_until(all_follow, NULL, STEPS_MAX));
    uint64_t took_us = sim_now_us() - begun_us;
    CHECK(took_us < FOLLOW_US);
    totals.slowest_us = took_us > totals.slowest_us ? took_us : totals.slowest_us;
    sim_run_for(2 * FOLLOW_US);
    for (int i = 0; i < OTHERS; i++) {
        const struct peer_link *link = link_to(before, NAMES[i]);
        CHECK(link->state != PEER_LINK_UP);
        totals.refused += strstr(link->reason, "newer leader") != NULL;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------ */

static void make_fault(void)
{
    const char *name = NAMES[sim_random(NODES)];
    switch (sim_random(6)) {
    case 0:
        sim_cut(name);
        break;
    case 1:
        sim_freeze(name, 1000 * sim_random(3000));
        break;
    case 2:
        sim_host_down(name);
        break;
    case 3:
        sim_host_up(name);
        break;
    default:
        sim_relays_mute(&relays);
        break;
    }
}

static void run_round(void)
{
    for (int i = 0; i < 6; i++)
        ask_someone();
    sim_run_for(1000 * sim_random(400));
    if (sim_chance(250000))
        make_fault();
    if (sim_chance(150000))
        lead(OTHERS + (int)sim_random(COPIES));
    if (sim_chance(300000))
        follow(OTHERS + (int)sim_random(COPIES), sim_random(2));
}

/* The newest leader says whether it listens, with a lower number than those before. */
static void check_listening(void)
{
    bool listens = sim_random(2);
    char payload[9] = {(char)listens};
    put_le64(payload + 1, ORDER_OF_TERM_0 - term);
    for (int i = 0; i < OTHERS; i++)
        peer_link_tell(link_to(leader, NAMES[i]), PEER_LISTEN, (struct bytes){payload, 9});
    sim_run_for(FOLLOW_US);
    for (int i = 0; i < OTHERS; i++)
        CHECK(link_to(i, "c")->listens == listens);
}

static void check_requests(void)
{
    uint64_t before = totals.answered;
    for (int i = 0; i < OTHERS; i++)
        CHECK(ask(i, leader) && ask(leader, i));
    CHECK(sim_run_until(all_have_ended, NULL, STEPS_MAX));
    CHECK(totals.answered == before + 2 * OTHERS);
}

static void calm_down(void)
{
    relays.is_faulty = false;
    sim_knobs()->slow_ppm = 0; /* a delay of a second would exceed the limit for silence */
    for (int i = 0; i < NODES; i++)
        sim_host_up(NAMES[i]);
    for (int i = OTHERS; i < NODES; i++)
        follow(i, true);
    sim_run_for(10000000); /* links that lost one direction are detected */
    CHECK(sim_run_until(all_follow, NULL, STEPS_MAX));
    CHECK(sim_run_until(all_have_ended, NULL, STEPS_MAX));
}

/* No newer leader connects: it is found by asking the copies, of which some do not know it. */
static void check_search(void)
{
    for (int i = OTHERS; i < NODES; i++)
        follow(i, sim_random(2));
    sim_cut(NAMES[sim_random(OTHERS)]);
    sim_run_for(FOLLOW_US);
    CHECK(sim_run_until(all_follow, NULL, STEPS_MAX));
}

static void start_nodes(void)
{
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (struct node){0};
        nodes[i].options = (struct sim_peer_options){
            .name = NAMES[i],
            .index = (uint32_t)i,
            .map = map,
            .links = links,
            .relays = &relays,
            .options = {.output_max = 65536, .requests_max = 16},
            .requests = {.handle = handle},
            .owner = &nodes[i],
            .is_copy = i >= OTHERS,
        };
        sim_peer_start(&nodes[i].host, &nodes[i].options);
    }
}

static struct shard_map *make_map(void)
{
    enum { SHARES = 3 };
    struct shard_map *made = shard_map_new(1);
    unsigned taken;
    for (int i = 0; i < NODES; i++) {
        int shard = shard_map_named(made, bytes_of(SHARDS[i]));
        if (shard < 0)
            shard = shard_map_add(made, bytes_of(SHARDS[i]));
        shard_map_add_address(made, shard, bytes_of(ADDRESSES[i]));
    }
    for (unsigned i = 0; i < SHARES; i++)
        CHECK(shard_map_claim(made, (int)i, i * SLOT_COUNT / SHARES,
                              (i + 1) * SLOT_COUNT / SHARES - 1, &taken));
    return made;
}

static void end_world(void)
{
    for (int i = 0; i < NODES; i++)
        sim_peer_stop(&nodes[i].host);
    CHECK(ended == sent);
    sim_relays_stop(&relays);
    sim_run_for(1000000); /* greetings end whose peers were lost */
    for (int i = 0; i < NODES; i++)
        sim_peer_fini(&nodes[i].host);
    sim_relays_fini(&relays);
    shard_map_unref(map);
    labels_free(links);
    sim_fini();
}

static uint64_t run_world(uint64_t seed)
{
    sent = ended = term = 0;
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 20000;
    sim_relays_init(&relays);
    map = make_map();
    links = labels_new(LINK_WORDS, NODES);
    start_nodes();
    lead(OTHERS + (int)sim_random(COPIES));
    CHECK(sim_run_until(all_follow, NULL, STEPS_MAX));
    relays.is_faulty = true;
    for (int round = 0; round < ROUNDS; round++)
        run_round();
    calm_down();
    check_listening();
    check_takeover();
    calm_down();
    check_listening();
    check_requests();
    check_search();
    check_requests();
    uint64_t hash = sim_hash();
    end_world();
    return hash;
}

int main(int argc, char **argv)
{
    log_set_level(LOG_ERROR);
    if (argc > 1) {
        (void)run_world(strtoull(argv[1], NULL, 10));
        return 0;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t hash = run_world(seed);
        CHECK(seed % 20 || run_world(seed) == hash);
    }
    CHECK(totals.answered > 0 && totals.answered < totals.asked && totals.refused > 0);
    printf("test_peer_leaders: %d worlds, %" PRIu64 " leaders, %" PRIu64 " requests, %" PRIu64
           " answered, a new leader is followed within %" PRIu64 " ms\n",
           SEEDS, totals.leaders, totals.asked, totals.answered, totals.slowest_us / 1000);
    return 0;
}
