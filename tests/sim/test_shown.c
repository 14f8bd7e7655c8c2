/*
 * test_shown.c - what a reply has shown from memory, and not from rows, survives a crash: DBSIZE, INFO keyspace, the null of an
 * EXEC whose watched key has changed, a refusal by max-keys.
 *
 *   test_shown [seed]      one world, or SEEDS
 *
 *   writer: SET k0 0, SET k1 1 … and INCR w, without waiting for replies ─► batches that are not durable yet
 *   reader: DBSIZE, INFO keyspace; GET w, WATCH w, SET r0 v, MULTI, EXEC ─► crash ─► there are as many keys, and w is as great, as was shown
 */
#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "shared/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdlib.h>

enum { SEEDS = 60, CRASHES = 3, STEPS = 3000, STEPS_MAX = 200000, ROUND_REPLIES = 7 };

struct client {
    struct sim_connection connection;
    unsigned sent,
        replies; /* on the present connection; of the reader: rounds and replies of this round */
    int64_t watched; /* value of w before WATCH */
};

static struct sim_partition world;
static struct client writer, reader;
static int64_t keys_shown,
    value_shown;          /* the most keys, and the greatest w, that a reply has shown */
static bool is_checking;  /* the writer is quiet after a crash */
static uint64_t keys_max; /* max-keys */
static unsigned checked;  /* replies since */

static int64_t number_in(struct bytes text)
{
    int64_t number = 0;
    for (size_t i = 0; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        number = number * 10 + text.data[i] - '0';
    return number;
}

/* ---- writer ---- */

static void on_connect(void *owner)
{
    struct client *client = owner;
    client->sent = client->replies = 0;
}

static void writer_reads(void *owner, struct bytes frame)
{
    (void)owner;
    (void)frame;
}

static void writer_turn(void *owner)
{
    static unsigned next_key;
    struct client *client = owner;
    if (!is_checking)
        out_printf(stream_out(client->connection.stream), "SET k%u v\r\nINCR w\r\n", next_key++);
}

/* ---- reader ---- */

static int64_t keys_in_info(struct bytes text)
{
    static const char word[] = "db0:keys=";
    const char *at = memmem(text.data, text.len, word, sizeof word - 1);
    if (!at)
        return 0;
    at += sizeof word - 1;
    return number_in((struct bytes){at, (size_t)(text.data + text.len - at)});
}

static void show(int64_t *shown, int64_t value)
{
    CHECK(!is_checking ||
          value >= *shown); /* after a crash nothing is missing that was shown before */
    if (value > *shown)
        *shown = value;
}

static void reader_reads(void *owner, struct bytes frame)
{
    struct client *client = owner;
    struct resp_value value;
    size_t pos = 0;
    CHECK(resp_value_next(frame, &pos, &value));
    CHECK(value.type != '-' || client->replies == 4);
    switch (client->replies++) {
    case 0:
        show(&keys_shown, value.count);
        break;
    case 1:
        show(&keys_shown, keys_in_info(value.text));
        break;
    case 2:
        client->watched = value.is_null ? 0 : number_in(value.text);
        show(&value_shown, client->watched);
        break;
    case 4:
        if (value.type == '-')
            show(&keys_shown, (int64_t)keys_max);
        break;
    case 6:
        if (value.is_null)
            show(&value_shown, client->watched + 1);
        break;
    default:
        break;
    }
    checked += is_checking;
}

static void reader_turn(void *owner)
{
    struct client *client = owner;
    struct out *out = stream_out(client->connection.stream);
    if (client->sent && client->replies < (client->sent % 2 ? ROUND_REPLIES - 2 : ROUND_REPLIES))
        return;
    if (client->sent++ % 2) { /* a later turn: w may have changed */
        out_printf(out, "MULTI\r\nEXEC\r\n");
        return;
    }
    client->replies = 0;
    out_printf(out, "DBSIZE\r\nINFO keyspace\r\nGET w\r\nWATCH w\r\nSET r%u v\r\n", client->sent);
}

/* ---- the world ---- */

/* As a proxy sets it. */
static void set_limit(void)
{
    struct space_limit *limit = space_limit_open(world.partition->spaces, BYTES(""));
    limit->max_keys = keys_max;
    limit->until_ms = UINT64_MAX;
}

static bool has_checked(void *owner)
{
    (void)owner;
    return checked >= ROUND_REPLIES;
}

static void run_world(uint64_t seed)
{
    static const struct sim_connection_events writes = {
        .on_connect = on_connect, .on_frame = writer_reads, .on_turn = writer_turn};
    static const struct sim_connection_events reads = {
        .on_connect = on_connect, .on_frame = reader_reads, .on_turn = reader_turn};
    keys_shown = value_shown = 0;
    is_checking = false;
    sim_partition_init(&world, seed);
    sim_knobs_shuffle();
    world.config.durability = DURABILITY_ALWAYS;
    keys_max = 2 + sim_random(100);
    sim_partition_start(&world, true);
    set_limit();
    sim_connection_begin(&writer.connection, &world, &writes, &writer);
    sim_connection_begin(&reader.connection, &world, &reads, &reader);
    for (unsigned crash = 0; crash < CRASHES; crash++) {
        for (uint64_t steps = 1 + sim_random(STEPS); steps; steps--)
            CHECK(sim_step());
        sim_partition_crash(&world);
        set_limit();
        checked = 0;
        is_checking = true;
        CHECK(sim_run_until(has_checked, NULL, STEPS_MAX));
        is_checking = false;
    }
    sim_partition_quiet(&world);
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run_world);
}
