/*
 * test_changes.c - changes of keys are reported once, although their commands wait for rows on the disk and are rolled
 * back.
 *
 *   test_changes [seed]      one world, or SEEDS
 *
 *   writer: MULTI, SET k<i>, HGET uncached<i>, EXEC ─► rolled back after the SET ─► runs again when the row is read
 *   listener: CLIENT TRACKING ON BCAST ─► exactly one invalidation of each k<i>
 *
 * A leader that is replaced in the middle of a turn reports no change of that turn: it was rolled back, too.
 */
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/metrics.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_leader.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/store_mem.h"
#include "tests/sized.h"

#include <stdlib.h>

enum { SEEDS = 20, KEYS = 50, STEPS_MAX = 2000000, EXEC_REPLIES = 4, LISTENER_REPLIES = 2 };

struct client {
    struct sim_connection connection;
    unsigned replies; /* on the current connection */
    unsigned sent;    /* number of keys for which requests were sent */
};

static struct sim_partition world;
static struct client writer, listener;
static bool is_filled;         /* the rows to be read exist */
static unsigned reports[KEYS]; /* invalidations of each key */

/* ---- listener ---- */

static void listener_connects(void *owner)
{
    struct client *client = owner;
    client->replies = 0;
    out_printf(stream_out(client->connection.stream),
               "HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX k\r\n");
}

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static void listener_reads(void *owner, struct bytes frame)
{
    struct client *client = owner;
    size_t pos = 0;
    struct resp_value head = next_value(frame, &pos);
    CHECK(head.type != '-');
    if (head.type != '>') {
        client->replies++;
        return;
    }
    CHECK(bytes_equal(next_value(frame, &pos).text, BYTES("invalidate")));
    struct resp_value keys = next_value(frame, &pos);
    for (int64_t i = 0; i < keys.count; i++) {
        struct bytes key = next_value(frame, &pos).text;
        long number = 0;
        for (size_t at = 1; at < key.len; at++)
            number = number * 10 + key.data[at] - '0';
        CHECK(number < KEYS);
        reports[number]++;
        CHECK(reports[number] == 1);
    }
}

static void listener_turn(void *owner)
{
    (void)owner;
}

/* ---- writer ---- */

static void writer_connects(void *owner)
{
    struct client *client = owner;
    client->replies = client->sent = 0;
}

static void writer_reads(void *owner, struct bytes frame)
{
    struct client *client = owner;
    CHECK(frame.data[0] != '-');
    client->replies++;
}

static void writer_turn(void *owner)
{
    struct client *client = owner;
    struct out *out = stream_out(client->connection.stream);
    if (!is_filled && client->sent == 0) {
        for (; client->sent < KEYS; client->sent++)
            out_printf(out, "HSET uncached%u field value\r\n", client->sent);
    } else if (is_filled && listener.replies == LISTENER_REPLIES && client->sent < KEYS) {
        unsigned key = client->sent++;
        out_printf(out, "MULTI\r\nSET k%u value\r\nHGET uncached%u field\r\nEXEC\r\n", key, key);
    }
}

static bool has_filled(void *owner)
{
    (void)owner;
    return writer.replies == KEYS;
}

static bool has_written(void *owner)
{
    (void)owner;
    return writer.replies == KEYS * EXEC_REPLIES;
}

/* ---- the world ---- */

static void run_world(uint64_t seed)
{
    static const struct sim_connection_events listens = {
        .on_connect = listener_connects, .on_frame = listener_reads, .on_turn = listener_turn};
    static const struct sim_connection_events writes = {
        .on_connect = writer_connects, .on_frame = writer_reads, .on_turn = writer_turn};
    memset(reports, 0, sizeof reports);
    is_filled = false;
    sim_partition_init(&world, seed);
    sim_knobs_shuffle();
    world.config.durability = DURABILITY_ALWAYS;
    world.reader_threads = 1 + (unsigned)sim_random(4);
    sim_partition_start(&world, true);
    sim_connection_begin(&writer.connection, &world, &writes, &writer);
    sim_connection_begin(&listener.connection, &world, &listens, &listener);
    CHECK(sim_run_until(has_filled, NULL, STEPS_MAX));
    sim_partition_crash(&world); /* no row is in memory now */
    is_filled = true;
    writer.replies = writer.sent = listener.replies = 0;
    store_mem_be_uncached(storage_store(world.partition->storage), 1);
    uint64_t suspended = metrics_sum(METRIC_BACKEND_SUSPENDED_COMMANDS);
    CHECK(sim_run_until(has_written, NULL, STEPS_MAX));
    CHECK(metrics_sum(METRIC_BACKEND_SUSPENDED_COMMANDS) - suspended >= KEYS);
    sim_run_for(1000 * 1000);
    for (int key = 0; key < KEYS; key++)
        CHECK(reports[key] == 1);
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

/* ---- a leader that is replaced ---- */

static void refused_reads(void *owner, struct bytes frame)
{
    struct client *client = owner;
    CHECK(frame.data[0] == '-');
    client->replies++;
}

static bool has_listened(void *owner)
{
    (void)owner;
    return listener.replies == LISTENER_REPLIES;
}

/* A command has written in this turn, which is not over. */
static bool is_turn_dirty(void *owner)
{
    (void)owner;
    return overlay_dirty(world.partition->overlay);
}

static bool is_refused(void *owner)
{
    (void)owner;
    return writer.replies == 1;
}

static void replace_leader(uint64_t seed)
{
    static const struct sim_connection_events listens = {
        .on_connect = listener_connects, .on_frame = listener_reads, .on_turn = listener_turn};
    static const struct sim_connection_events writes = {
        .on_connect = writer_connects, .on_frame = refused_reads, .on_turn = listener_turn};
    struct sim_leader_kept kept = {0};
    memset(reports, 0, sizeof reports);
    sim_partition_init(&world, seed);
    sim_knobs()->turn_us_max = 100000; /* until the test has looked */
    world.config.durability = DURABILITY_ALWAYS;
    sim_partition_start(&world, true);
    struct sim_leader *leader = sim_leader_new(world.partition, &kept);
    sim_connection_begin(&listener.connection, &world, &listens, &listener);
    CHECK(sim_run_until(has_listened, NULL, STEPS_MAX));
    sim_connection_begin(&writer.connection, &world, &writes, &writer);
    out_printf(stream_out(writer.connection.stream), "SET k0 value\r\n");
    CHECK(sim_run_until(is_turn_dirty, NULL, STEPS_MAX));
    CHECK(sim_leader_lose(leader));
    CHECK(sim_run_until(is_refused, NULL, STEPS_MAX));
    sim_run_for(1000 * 1000);
    CHECK(reports[0] == 0);
    sim_leader_free(leader);
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

static void run(uint64_t seed)
{
    run_world(seed);
    replace_leader(seed);
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run);
}
