/*
 * test_hash_ttl.c - times to live of hash fields compared with a model: random commands of one client to a partition, in
 * transactions too, while the clock jumps, active expiry is switched, writes are paused, rows are uncached and the process
 * crashes. After each jump many fields are due at once, in some hashes more than one command deletes.
 *
 *   test_hash_ttl [seed]      one seed, or SEEDS
 *
 * Fields expire at multiples of JUMP_MS after the start, and the clock stands between two multiples except when it jumps, so
 * the model knows which fields have expired although it does not know at which moment a command runs.
 */
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/metrics.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_audit.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/store_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 12,
    COMMANDS = 900,
    HASHES = 3,
    FIELDS_MAX = 1600,
    JUMP_MS = 1000 * 1000,
    TEXT_MAX = 1 << 17,
    STEPS_MAX = 400000000,
};

struct model_field {
    bool exists;
    int64_t value;
    uint64_t grid; /* it expires at this multiple of JUMP_MS; 0: never */
};

struct model_hash {
    unsigned fields; /* it uses so many names */
    struct model_field field[FIELDS_MAX];
};

/* Text that is built in pieces: a request, or the expected replies. */
struct text {
    size_t len;
    char data[TEXT_MAX];
};

static struct sim_partition world;
static struct sim_connection client;
static struct model_hash model[HASHES];
static uint64_t start_ms; /* the first multiple */
static uint64_t grid;     /* multiples that have passed */
static struct text request, expected, got;
static unsigned requests, replies_left, commands_done;
static bool is_paused;
static bool has_crashed; /* the connection has not been made again yet */

static void add(struct text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(to->data + to->len, sizeof to->data - to->len, format, args);
    va_end(args);
    CHECK(len >= 0 && to->len + (size_t)len < sizeof to->data);
    to->len += (size_t)len;
}

/* ---- the model ---- */

/* Removes what has expired. */
static void model_expire(struct model_hash *hash)
{
    for (unsigned i = 0; i < hash->fields; i++)
        if (hash->field[i].grid && hash->field[i].grid <= grid)
            hash->field[i] = (struct model_field){0};
}

static unsigned model_size(const struct model_hash *hash)
{
    unsigned size = 0;
    for (unsigned i = 0; i < hash->fields; i++)
        size += hash->field[i].exists;
    return size;
}

static uint64_t time_of(uint64_t at)
{
    return start_ms + at * JUMP_MS;
}

/* ---- requests and expected replies ---- */

static void expect_int(int64_t value)
{
    add(&expected, ":%" PRId64 "\r\n", value);
}

static void expect_number(int64_t value)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRId64, value);
    add(&expected, "$%d\r\n%s\r\n", len, text);
}

static void expect_field(unsigned field)
{
    add(&expected, "$5\r\nf%04u\r\n", field);
}

static void expect_value(const struct model_field *field)
{
    if (field->exists)
        expect_number(field->value);
    else
        add(&expected, "$-1\r\n");
}

/* A time in the future, on the grid, a little later or much. */
static uint64_t some_grid(void)
{
    return grid + 1 + sim_random(sim_random(4) ? 4 : 200);
}

/* Chooses `count` consecutive fields of the hash. */
static unsigned some_fields(const struct model_hash *hash, unsigned *count)
{
    unsigned max = sim_random(3) ? 4 : hash->fields;
    *count = 1 + (unsigned)sim_random(max < hash->fields ? max : hash->fields);
    return (unsigned)sim_random(hash->fields - *count + 1);
}

static void add_fields(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        add(&request, " f%04u", i);
}

/* ---- commands ---- */

typedef void command_fn(unsigned key, struct model_hash *hash, unsigned first, unsigned count);

static void do_hset(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    unsigned added = 0;
    add(&request, "HSET h%u", key);
    for (unsigned i = first; i < first + count; i++) {
        int64_t value = (int64_t)sim_random(1000);
        added += !hash->field[i].exists;
        hash->field[i] = (struct model_field){true, value, 0};
        add(&request, " f%04u %" PRId64, i, value);
    }
    expect_int(added);
}

static void do_hsetnx(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)count;
    struct model_field *field = &hash->field[first];
    add(&request, "HSETNX h%u f%04u 7", key, first);
    expect_int(!field->exists);
    if (!field->exists)
        *field = (struct model_field){true, 7, 0};
}

static void do_hincrby(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    struct model_field *field = &hash->field[first];
    add(&request, "HINCRBY h%u f%04u %u", key, first, count);
    field->exists = true;
    field->value += count;
    expect_int(field->value);
}

static void do_hsetex(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    static const char *const conditions[] = {"", "", "", " FNX", " FXX"};
    unsigned condition = (unsigned)sim_random(5);
    unsigned how = (unsigned)sim_random(8); /* 0: no TTL, 1: KEEPTTL, 2: a time that has passed */
    uint64_t at = some_grid();
    unsigned found = 0;
    for (unsigned i = first; i < first + count; i++)
        found += hash->field[i].exists;
    bool is_allowed = condition < 3 || (condition == 3 ? found == 0 : found == count);
    add(&request, "HSETEX h%u%s", key, conditions[condition]);
    if (how == 1)
        add(&request, " KEEPTTL");
    else if (how)
        add(&request, " PXAT %" PRIu64, how == 2 ? 1 : time_of(at));
    add(&request, " FIELDS %u", count);
    for (unsigned i = first; i < first + count; i++) {
        struct model_field *field = &hash->field[i];
        int64_t value = (int64_t)sim_random(1000);
        add(&request, " f%04u %" PRId64, i, value);
        if (!is_allowed)
            continue;
        uint64_t ttl = how == 0 ? 0 : how == 1 ? field->grid : at;
        *field = how == 2 ? (struct model_field){0} : (struct model_field){true, value, ttl};
    }
    expect_int(is_allowed);
}

static void do_hdel(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    unsigned deleted = 0;
    add(&request, "HDEL h%u", key);
    add_fields(first, count);
    for (unsigned i = first; i < first + count; i++) {
        deleted += hash->field[i].exists;
        hash->field[i] = (struct model_field){0};
    }
    expect_int(deleted);
}

static void do_hgetdel(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    add(&request, "HGETDEL h%u FIELDS %u", key, count);
    add_fields(first, count);
    add(&expected, "*%u\r\n", count);
    for (unsigned i = first; i < first + count; i++) {
        expect_value(&hash->field[i]);
        hash->field[i] = (struct model_field){0};
    }
}

static bool condition_holds(unsigned condition, uint64_t old, uint64_t at)
{
    return condition == 0 || (condition == 1 && !old) || (condition == 2 && old) ||
           (condition == 3 && old && at > old) || (condition == 4 && (!old || at < old));
}

static void do_hpexpireat(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    static const char *const conditions[] = {"", " NX", " XX", " GT", " LT"};
    unsigned condition = (unsigned)(sim_random(2) ? 0 : sim_random(5));
    uint64_t at = sim_random(12) ? some_grid() : 0; /* 0: it has passed */
    add(&request, "HPEXPIREAT h%u %" PRIu64 "%s FIELDS %u", key, at ? time_of(at) : 1,
        conditions[condition], count);
    add_fields(first, count);
    add(&expected, "*%u\r\n", count);
    for (unsigned i = first; i < first + count; i++) {
        struct model_field *field = &hash->field[i];
        bool holds = field->exists && condition_holds(condition, field->grid, at);
        expect_int(!field->exists ? -2 : !holds ? 0 : at ? 1 : 2);
        if (holds && at)
            field->grid = at;
        else if (holds)
            *field = (struct model_field){0};
    }
}

static void do_hpersist(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    add(&request, "HPERSIST h%u FIELDS %u", key, count);
    add_fields(first, count);
    add(&expected, "*%u\r\n", count);
    for (unsigned i = first; i < first + count; i++) {
        struct model_field *field = &hash->field[i];
        expect_int(!field->exists ? -2 : field->grid ? 1 : -1);
        field->grid = 0;
    }
}

static void do_hgetex(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    unsigned how =
        (unsigned)sim_random(4); /* 0: nothing, 1: PERSIST, 2: a time, 3: one that has passed */
    uint64_t at = some_grid();
    add(&request, "HGETEX h%u", key);
    if (how == 1)
        add(&request, " PERSIST");
    else if (how)
        add(&request, " PXAT %" PRIu64, how == 3 ? 1 : time_of(at));
    add(&request, " FIELDS %u", count);
    add_fields(first, count);
    add(&expected, "*%u\r\n", count);
    for (unsigned i = first; i < first + count; i++) {
        struct model_field *field = &hash->field[i];
        expect_value(field);
        if (how == 1)
            field->grid = 0;
        else if (how == 2 && field->exists)
            field->grid = at;
        else if (how == 3)
            *field = (struct model_field){0};
    }
}

/* COPY or RENAME to another hash, which has as many names or more. */
static void do_copy(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    unsigned to = (key + 1 + count % (HASHES - 1)) % HASHES;
    bool renames = sim_random(3) == 0;
    unsigned size = model_size(hash);
    if (model[to].fields < hash->fields || (renames && !size))
        return;
    add(&request, renames ? "RENAME h%u h%u" : "COPY h%u h%u REPLACE", key, to);
    if (size) {
        memset(model[to].field, 0, sizeof model[to].field);
        memcpy(model[to].field, hash->field, hash->fields * sizeof hash->field[0]);
    }
    if (renames)
        memset(hash->field, 0, sizeof hash->field);
    if (renames)
        add(&expected, "+OK\r\n");
    else
        expect_int(size > 0);
}

static void do_del(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    if (count > 1)
        return; /* rarely */
    add(&request, "DEL h%u", key);
    expect_int(model_size(hash) > 0);
    memset(hash->field, 0, sizeof hash->field);
}

static command_fn *const writes[] = {
    do_hset,    do_hsetnx,     do_hincrby,    do_hsetex, do_hsetex, do_hsetex,   do_hdel,
    do_hgetdel, do_hpexpireat, do_hpexpireat, do_hgetex, do_copy,   do_hpersist, do_del};

static void do_hget(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)count;
    add(&request, "HGET h%u f%04u", key, first);
    expect_value(&hash->field[first]);
}

static void do_hmget(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    add(&request, "HMGET h%u", key);
    add_fields(first, count);
    add(&expected, "*%u\r\n", count);
    for (unsigned i = first; i < first + count; i++)
        expect_value(&hash->field[i]);
}

static void do_hlen(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    (void)count;
    add(&request, "HLEN h%u", key);
    expect_int(model_size(hash));
}

static void do_exists(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    (void)count;
    add(&request, "EXISTS h%u", key);
    expect_int(model_size(hash) > 0);
}

static void do_hexists(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)count;
    add(&request, "HEXISTS h%u f%04u", key, first);
    expect_int(hash->field[first].exists);
}

static void expect_fields(const struct model_hash *hash, bool with_names, bool with_values)
{
    add(&expected, "*%u\r\n", model_size(hash) * (with_names + with_values));
    for (unsigned i = 0; i < hash->fields; i++) {
        if (hash->field[i].exists && with_names)
            expect_field(i);
        if (hash->field[i].exists && with_values)
            expect_number(hash->field[i].value);
    }
}

static void do_hgetall(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    (void)count;
    add(&request, "HGETALL h%u", key);
    expect_fields(hash, true, true);
}

static void do_hkeys(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    (void)count;
    add(&request, "HKEYS h%u", key);
    expect_fields(hash, true, false);
}

static void do_hscan(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    (void)count;
    add(&request, "HSCAN h%u 0 COUNT %u", key, FIELDS_MAX + 1);
    add(&expected, "*2\r\n$1\r\n0\r\n");
    expect_fields(hash, true, true);
}

/* With so large a count all fields are replied. */
static void do_hrandfield(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    (void)first;
    (void)count;
    add(&request, "HRANDFIELD h%u %u WITHVALUES", key, FIELDS_MAX);
    expect_fields(hash, true, true);
}

static void do_hpexpiretime(unsigned key, struct model_hash *hash, unsigned first, unsigned count)
{
    add(&request, "HPEXPIRETIME h%u FIELDS %u", key, count);
    add_fields(first, count);
    add(&expected, "*%u\r\n", count);
    for (unsigned i = first; i < first + count; i++) {
        const struct model_field *field = &hash->field[i];
        expect_int(!field->exists ? -2 : field->grid ? (int64_t)time_of(field->grid) : -1);
    }
}

static command_fn *const reads[] = {do_hget,       do_hmget,        do_hlen,    do_exists,
                                    do_hexists,    do_hgetall,      do_hkeys,   do_hscan,
                                    do_hrandfield, do_hpexpiretime, do_hgetall, do_hlen};

/* ---- the client ---- */

static void one_command(void)
{
    unsigned key = (unsigned)sim_random(HASHES);
    struct model_hash *hash = &model[key];
    unsigned count;
    unsigned first = some_fields(hash, &count);
    for (unsigned i = 0; i < HASHES; i++)
        model_expire(&model[i]);
    size_t before = request.len;
    if (!is_paused && sim_random(2))
        writes[sim_random(sizeof writes / sizeof writes[0])](key, hash, first, count);
    else
        reads[sim_random(sizeof reads / sizeof reads[0])](key, hash, first, count);
    if (request.len == before)
        do_hlen(key, hash, first, count);
    add(&request, "\r\n");
    replies_left++;
    requests++;
}

static void transaction(void)
{
    static struct text inner;
    unsigned count = 1 + (unsigned)sim_random(6);
    size_t begun = expected.len;
    add(&request, "MULTI\r\n");
    for (unsigned i = 0; i < count; i++)
        one_command();
    add(&request, "EXEC\r\n");
    inner.len = 0;
    add(&inner, "%.*s", (int)(expected.len - begun), expected.data + begun);
    expected.len = begun;
    add(&expected, "+OK\r\n");
    for (unsigned i = 0; i < count; i++)
        add(&expected, "+QUEUED\r\n");
    add(&expected, "*%u\r\n%.*s", count, (int)inner.len, inner.data);
    replies_left += 2;
}

static void plain(const char *words, const char *reply)
{
    add(&request, "%s\r\n", words);
    add(&expected, "%s\r\n", reply);
    replies_left++;
}

/* Something that is no command on hashes. */
static void disturb(void)
{
    switch (sim_random(6)) {
    case 0:
        plain("DEBUG SET-ACTIVE-EXPIRE 0", "+OK");
        break;
    case 1:
        plain("DEBUG SET-ACTIVE-EXPIRE 1", "+OK");
        break;
    case 2:
        is_paused = !is_paused; /* writes wait; what has expired stays, and is hidden */
        plain(is_paused ? "CLIENT PAUSE 9000000000 WRITE" : "CLIENT UNPAUSE", "+OK");
        break;
    default:
        sim_wall_step((int64_t)JUMP_MS * 1000);
        grid++;
    }
}

static void on_connect(void *owner)
{
    (void)owner;
    has_crashed = false;
}

static void on_turn(void *owner)
{
    (void)owner;
    if (has_crashed || replies_left || commands_done >= COMMANDS)
        return;
    request.len = expected.len = got.len = 0;
    if (sim_random(8) == 0)
        disturb();
    if (!is_paused && sim_random(5) == 0)
        transaction();
    else
        one_command();
    struct out *out = stream_out(client.stream);
    out_write(out, request.data, request.len);
    commands_done++;
}

static void on_frame(void *owner, struct bytes frame)
{
    (void)owner;
    CHECK(replies_left > 0 && got.len + frame.len < sizeof got.data);
    memcpy(got.data + got.len, frame.data, frame.len);
    got.len += frame.len;
    if (--replies_left)
        return;
    if (got.len == expected.len && memcmp(got.data, expected.data, got.len) == 0)
        return;
    (void)fprintf(stderr, "request:\n%.*s\nexpected:\n%.*s\ngot:\n%.*s\n", (int)request.len,
                  request.data, (int)expected.len, expected.data, (int)got.len, got.data);
    CHECK(false);
}

static bool is_done(void *owner)
{
    (void)owner;
    return commands_done >= COMMANDS && replies_left == 0;
}

static void audit(void)
{
    char why[512];
    if (sim_audit_rows(world.partition->overlay, why, sizeof why))
        return;
    (void)fprintf(stderr, "%s\n", why);
    CHECK(false);
}

/* ---- the world ---- */

static void run_world(uint64_t seed)
{
    static const struct sim_connection_events events = {
        .on_connect = on_connect, .on_frame = on_frame, .on_turn = on_turn};
    static const unsigned names[HASHES] = {6, 40, FIELDS_MAX};
    memset(model, 0, sizeof model);
    for (unsigned i = 0; i < HASHES; i++)
        model[i].fields = names[i];
    replies_left = requests = 0;
    grid = 0;
    is_paused = has_crashed = false;
    sim_partition_init(&world, seed);
    world.config.durability = DURABILITY_ALWAYS;
    world.reader_threads = (unsigned)(seed % 3);
    sim_partition_start(&world, true);
    start_ms = loop_wall_ms(world.loop) + JUMP_MS / 2 - JUMP_MS;
    sim_connection_begin(&client, &world, &events, NULL);
    for (int life = 0; life < 3; life++) {
        commands_done = 0;
        CHECK(sim_run_until(is_done, NULL, STEPS_MAX));
        audit();
        is_paused = false;
        has_crashed = true;
        sim_partition_crash(&world); /* acknowledged writes stay; no row is in memory */
        if (world.reader_threads)
            store_mem_be_uncached(storage_store(world.partition->storage), 1);
    }
    uint64_t now_ms = loop_wall_ms(world.loop);
    CHECK(now_ms > time_of(grid) &&
          now_ms < time_of(grid + 1)); /* commands took less time than a jump */
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

int main(int argc, char **argv)
{
    int result = sim_run_seeds(argc, argv, sized(SEEDS), run_world);
    CHECK(metrics_sum(METRIC_BACKEND_EXPIRED_FIELDS) > 100);
    return result;
}
