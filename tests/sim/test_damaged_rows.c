/*
 * test_damaged_rows.c - rows that are damaged on disk, or forged, end in an error or in a whole reply.
 *
 *   test_damaged_rows [seed]    one seed, or SEEDS of them
 *
 *   SCRIPT ─► rows ─► mutate some rows of one key ─► run COMMANDS with the key, each followed by an ECHO ─► put the rows back
 *
 * A reply that is shorter than its header swallows the ECHO, and one that is longer stands in its place. The process must live on, and
 * with sanitizers there must be no fault of memory.
 */
#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/session/internal_call.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 4, MUTATIONS = 250, STEPS_MAX = 20000000, ROWS_MAX = 8192, MEMBERS = 700 };

static const char *const SCRIPT[] = {
    "SET s 0123456789",
    "SETBIT b 200000 1",
    "HSET h f v g w i 5",
    "HSET t a v b w c x d y",
    "HPEXPIRE t 100000000 FIELDS 2 a c",
    "RPUSH l a b c d e 1 2 3",
    "SADD m a b c d 1 2",
    "ZADD z 1 one -1.5 minus inf most 7 seven",
    "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    "SIADD i 1 500 7",
    "BF.RESERVE f 0.5 10",
    "BF.ADD f a",
    "CMS.INITBYDIM c 5 2",
    "CMS.INCRBY c a 258",
    "TDIGEST.CREATE d COMPRESSION 1",
    "TDIGEST.ADD d 1.5 2.5 2.5 2.5",
    "TOPK.RESERVE k 2 3 2 0.9",
    "TOPK.INCRBY k a 258 b 1 b 2",
    "PFADD p a",
    "JSON.SET j $ '{\"a\":[1,2.5],\"b\":null}'",
    "XADD x 1-1 f v g w",
    "XADD x 1-2 f x",
    "XADD x 1-3 f x",
    "XGROUP CREATE x group 0",
    "XREADGROUP GROUP group reader COUNT 2 STREAMS x >",
};

/* K is the key. */
static const char *const COMMANDS[] = {
    "TYPE K",
    "DUMP K",
    "OBJECT ENCODING K",
    "SORT K ALPHA",
    "SORT K BY nosort DESC LIMIT 0 2",
    "COPY K copy REPLACE",
    "MEMORY USAGE K",
    /* strings */
    "GET K",
    "EVAL return(redis.pcall('GET',KEYS[1])) 1 K",
    "STRLEN K",
    "GETRANGE K 0 -1",
    "GETRANGE K 100 90000",
    "BITCOUNT K",
    "BITPOS K 1",
    "SETRANGE K 3000 x",
    "APPEND K x",
    "SETBIT K 70000 1",
    "BITOP NOT copy K",
    "LCS K s",
    "PFCOUNT K",
    "PFADD K x",
    "BITFIELD K SET u8 100 7",
    "GETEX K",
    "DIGEST K",
    /* hashes */
    "HGETALL K",
    "HKEYS K",
    "HVALS K",
    "HLEN K",
    "HGET K f",
    "HRANDFIELD K",
    "HRANDFIELD K 2",
    "HRANDFIELD K -3 WITHVALUES",
    "HRANDFIELD K 1000000 WITHVALUES",
    "HSCAN K 0",
    "HSET K q r",
    "HINCRBY K i 1",
    "HTTL K FIELDS 2 a b",
    "HPEXPIRE K 50000000 FIELDS 2 a b",
    "HPERSIST K FIELDS 1 a",
    "HDEL K f a",
    "HGETDEL K FIELDS 1 g",
    /* lists */
    "LRANGE K 0 -1",
    "LRANGE K -2 -1",
    "LLEN K",
    "LINDEX K 1",
    "LINDEX K -1",
    "LPOS K c",
    "LINSERT K BEFORE c x",
    "LSET K 1 y",
    "LPUSH K q",
    "LREM K 0 a",
    "LTRIM K 1 -2",
    "LMOVE K copy LEFT RIGHT",
    "LPOP K 2",
    "RPOP K 2",
    "RPOP K",
    /* sets */
    "SMEMBERS K",
    "SCARD K",
    "SISMEMBER K a",
    "SRANDMEMBER K",
    "SRANDMEMBER K 2",
    "SRANDMEMBER K -3",
    "SRANDMEMBER K 1000000",
    "SSCAN K 0",
    "SINTER K m",
    "SUNION K m",
    "SDIFF K m",
    "SUNIONSTORE copy K m",
    "SADD K q",
    "SMOVE K copy b",
    "SREM K a",
    "SPOP K",
    "SPOP K 2",
    "SPOP K 1000",
    /* sorted sets */
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANGE K 1 2",
    "ZREVRANGE K 0 -1",
    "ZRANGE K -2 -1",
    "ZRANGEBYSCORE K -inf +inf",
    "ZRANGEBYSCORE K -inf +inf LIMIT 300 400",
    "ZREVRANGEBYSCORE K +inf -inf LIMIT 300 400",
    "ZRANGEBYLEX K - +",
    "ZLEXCOUNT K [a [z",
    "ZCOUNT K 0 100",
    "ZCARD K",
    "ZSCORE K one",
    "ZRANK K seven",
    "ZREVRANK K seven",
    "ZRANK K n50",
    "ZRANDMEMBER K",
    "ZRANDMEMBER K 2",
    "ZRANDMEMBER K -3 WITHSCORES",
    "ZRANDMEMBER K 1000000",
    "ZSCAN K 0",
    "ZUNION 2 K z WITHSCORES",
    "ZINTER 2 K z",
    "ZDIFF 2 K z",
    "ZUNIONSTORE copy 2 K z",
    "ZRANGESTORE copy K 0 -1",
    "GEOPOS K Palermo",
    "GEOSEARCH K FROMLONLAT 15 37 BYRADIUS 200 km",
    "ZADD K 3 q",
    "ZADD K 9 seven",
    "ZINCRBY K 2 one",
    "ZREM K one n7",
    "ZPOPMIN K 2",
    "ZPOPMAX K",
    "ZREMRANGEBYRANK K 0 1",
    "ZREMRANGEBYSCORE K 0 5",
    /* sorted ints */
    "SICARD K",
    "SIEXISTS K 1",
    "SIRANGE K 0 10",
    "SIREVRANGE K 0 10",
    "SIRANGEBYVALUE K 0 100",
    "SIADD K 9",
    "SIREM K 1",
    /* streams */
    "XLEN K",
    "XRANGE K - +",
    "XREVRANGE K + -",
    "XREAD COUNT 2 STREAMS K 0",
    "XINFO STREAM K",
    "XINFO STREAM K FULL",
    "XINFO GROUPS K",
    "XINFO CONSUMERS K group",
    "XPENDING K group",
    "XPENDING K group - + 10",
    "XREADGROUP GROUP group other STREAMS K >",
    "XREADGROUP GROUP group reader STREAMS K 0",
    "XCLAIM K group other 0 1-1",
    "XAUTOCLAIM K group other 0 0",
    "XACK K group 1-1",
    "XADD K MAXLEN 2 2-* f v",
    "XDEL K 1-2",
    "XTRIM K MAXLEN 1",
    "XGROUP DELCONSUMER K group reader",
    "XGROUP SETID K group 0",
    "XGROUP DESTROY K group",
    "XSETID K 9-9",
    /* modules */
    "BF.EXISTS K a",
    "BF.INFO K",
    "BF.ADD K b",
    "BF.SCANDUMP K 0",
    "CMS.QUERY K a",
    "CMS.INFO K",
    "CMS.INCRBY K b 2",
    "CMS.MERGE c 1 K",
    "TDIGEST.QUANTILE K 0.5",
    "TDIGEST.INFO K",
    "TDIGEST.CDF K 2",
    "TDIGEST.ADD K 3",
    "TDIGEST.MERGE d 1 K",
    "TOPK.LIST K WITHCOUNT",
    "TOPK.QUERY K a",
    "TOPK.INFO K",
    "TOPK.ADD K d e",
    "TOPK.COUNT K a",
    "JSON.GET K $",
    "JSON.TYPE K $.a",
    "JSON.ARRAPPEND K $.a 3",
    "JSON.DEL K $.b",
    /* any */
    "PEXPIRE K 100000000",
    "PERSIST K",
    "RENAME K copy",
    "DEL K copy",
};

static const uint64_t NUMBERS[] = {
    0,
    1,
    2,
    3,
    700,
    127,
    1 << 10,
    UINT32_MAX,
    (uint64_t)1 << 32,
    (uint64_t)1 << 40,
    ((uint64_t)1 << 48) - 1,
    (uint64_t)1 << 48,
    (uint64_t)1 << 59,
    ((uint64_t)1 << 60) - 1,
    (uint64_t)1 << 60,
    (uint64_t)1 << 61,
    INT64_MAX,
    (uint64_t)1 << 63,
    UINT64_MAX - 1,
    UINT64_MAX,
    0x7ff8000000000000,
    0xfff8000000000000,
};

/* ---- the client ---- */

static struct sim_partition world;
static struct sim_connection client;
static size_t expected, arrived, errors;
static bool is_echo_next, is_lost, is_damaged;
static char command[256];

static void on_frame(void *owner, struct bytes frame)
{
    (void)owner;
    bool is_echo = frame.len > 6 && memcmp(frame.data, "$6\r\n~~", 6) == 0;
    if (is_echo != is_echo_next) {
        (void)fprintf(stderr, "seed %llu: the reply is not whole: %s\n",
                      (unsigned long long)sim_seed(), command);
        abort();
    }
    CHECK(is_damaged || is_echo || frame.data[0] != '-');
    errors += frame.len > 18 && memcmp(frame.data + 1, "MISCONF the store", 17) == 0;
    is_echo_next = !is_echo;
    arrived++;
}

static void on_lost(void *owner)
{
    (void)owner;
    is_lost = true; /* a reply in parts cannot end in an error: the connection is closed */
}

static void on_turn(void *owner)
{
    (void)owner;
}

static bool has_arrived(void *owner)
{
    (void)owner;
    return arrived >= expected || is_lost;
}

static bool is_connected(void *owner)
{
    (void)owner;
    return client.stream != NULL;
}

/* Runs the command, with `key` for K. */
static void run(const char *text, const char *key)
{
    const char *at = strstr(text, " K");
    while (at && at[2] && at[2] != ' ')
        at = strstr(at + 1, " K");
    int before = at ? (int)(at - text) + 1 : (int)strlen(text);
    (void)snprintf(command, sizeof command, "%.*s%s%s", before, text, at ? key : "",
                   at ? at + 2 : "");
    CHECK(sim_run_until(is_connected, NULL, STEPS_MAX));
    is_lost = is_echo_next = false;
    arrived = 0;
    expected = 2;
    out_printf(stream_out(client.stream), "%s\r\nECHO ~~~~~~\r\n", command);
    stream_send(client.stream);
    if (!sim_run_until(has_arrived, NULL, STEPS_MAX)) {
        (void)fprintf(stderr, "seed %llu: the reply does not end: %s\n",
                      (unsigned long long)sim_seed(), command);
        abort();
    }
}

static void fill(void)
{
    for (size_t i = 0; i < sizeof SCRIPT / sizeof SCRIPT[0]; i++)
        run(SCRIPT[i], "");
    for (int i = 0; i < MEMBERS; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "ZADD Z %d n%d", i % 50, i);
        run(text, "");
        (void)snprintf(text, sizeof text, "SADD M n%d", i);
        run(text, "");
    }
}

/* ---- rows ---- */

struct row {
    enum cf cf;
    struct bytes key, value;
};

static struct row rows[ROWS_MAX];
static size_t row_count;

static struct bytes copy_of(struct bytes bytes)
{
    char *copy = malloc(bytes.len + 1);
    CHECK(copy);
    memcpy(copy, bytes.data, bytes.len);
    return (struct bytes){copy, bytes.len};
}

static void remember_rows(void)
{
    row_count = 0;
    for (unsigned cf = CF_METADATA; cf < CF_COUNT; cf++) {
        struct overlay_iter *iter =
            overlay_iter_new(world.partition->overlay, cf, BYTES(""), BYTES(""));
        for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter)) {
            CHECK(row_count < ROWS_MAX);
            rows[row_count++] = (struct row){cf, copy_of(overlay_iter_key(iter)),
                                             copy_of(overlay_iter_value(iter))};
        }
        overlay_iter_free(iter);
    }
}

static void forget_rows(void)
{
    for (size_t i = 0; i < row_count; i++) {
        free((char *)rows[i].key.data);
        free((char *)rows[i].value.data);
    }
}

/* Puts back what commands have changed. */
static void restore_rows(void)
{
    struct call call;
    internal_call_begin(world.partition, &call);
    struct overlay *overlay = world.partition->overlay;
    for (unsigned cf = CF_METADATA; cf < CF_COUNT; cf++)
        overlay_delete_range(overlay, cf, BYTES(""),
                             BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
    for (size_t i = 0; i < row_count; i++)
        overlay_put(overlay, rows[i].cf, rows[i].key, rows[i].value);
    overlay_stamp_all(overlay);
    internal_call_end(world.partition, &call);
}

/* The user key of the row; 0: it has another name. */
static char name_of(const struct row *row)
{
    struct bytes space, key = BYTES(""), sub;
    uint16_t slot;
    uint64_t version;
    if (row->cf == CF_EXPIRE)
        return 0;
    if (row->cf == CF_METADATA
            ? !decode_metadata_key(row->key, &space, &slot, &key)
            : !decode_collection_key(row->key, &space, &slot, &key, &version, &sub))
        return 0;
    return key.len == 1 ? key.data[0] : 0;
}

static void mutate_bytes(char *data, size_t *len)
{
    size_t at = *len ? sim_random(*len) : 0;
    uint64_t how = sim_random(8);
    if (how == 0)
        *len = at;
    else if (how == 1)
        data[(*len)++] = (char)sim_random(256);
    else if (how < 4 && *len)
        data[at] = (char)(data[at] ^ (1 << sim_random(8)));
    else if (*len >= 8)
        put_be64(data + (how == 4 ? at % (*len - 7) : (*len % 8) + at % (*len - 7) / 8 * 8),
                 NUMBERS[sim_random(sizeof NUMBERS / sizeof NUMBERS[0])]);
}

static void mutate_row(const struct row *row)
{
    struct overlay *overlay = world.partition->overlay;
    char *data = malloc(row->key.len + row->value.len + 16);
    CHECK(data);
    bool is_key = row->cf != CF_METADATA && sim_random(4) == 0;
    struct bytes whole = is_key ? row->key : row->value;
    /* the prefix of the collection stays: what follows it are 8 bytes of version and the sub key */
    size_t kept = is_key ? 1 + 2 + 4 + 1 + 8 : 0;
    size_t len = whole.len - kept;
    memcpy(data, whole.data, whole.len);
    mutate_bytes(data + kept, &len);
    struct bytes made = {data, kept + len};
    if (is_key || sim_random(16) == 0)
        overlay_delete(overlay, row->cf, row->key);
    if (is_key)
        overlay_put(overlay, row->cf, made, row->value);
    else if (sim_random(16))
        overlay_put(overlay, row->cf, row->key, made);
    free(data);
}

static void mutate(char name)
{
    struct call call;
    size_t of_key = 0;
    internal_call_begin(world.partition, &call);
    for (size_t i = 0; i < row_count; i++)
        of_key += name_of(&rows[i]) == name;
    for (uint64_t left = 1 + sim_random(2); left; left--) {
        /* the metadata row is first, and it is one of two that are mutated */
        size_t wanted = sim_random(2) ? 0 : sim_random(of_key);
        for (size_t i = 0; i < row_count; i++)
            if (name_of(&rows[i]) == name && wanted-- == 0)
                mutate_row(&rows[i]);
    }
    overlay_stamp_all(world.partition->overlay);
    internal_call_end(world.partition, &call);
}

static void seed(uint64_t number)
{
    static const struct sim_connection_events events = {
        .on_frame = on_frame, .on_turn = on_turn, .on_lost = on_lost};
    static const char NAMES[] = "sbhtlmzgifcdkpjxZM";
    sim_partition_init(&world, number);
    world.config.reply_limit_bytes = 1 << 20;
    world.config.command_memory_bytes = 16 << 20;
    sim_partition_start(&world, true);
    sim_connection_begin(&client, &world, &events, NULL);
    is_damaged = false;
    fill();
    is_damaged = true;
    remember_rows();
    for (unsigned i = 0; i < sized(MUTATIONS); i++) {
        char key[2] = {NAMES[sim_random(sizeof NAMES - 1)], 0};
        mutate(key[0]);
        for (size_t c = 0; c < sizeof COMMANDS / sizeof COMMANDS[0]; c++)
            run(COMMANDS[c], key);
        restore_rows();
    }
    CHECK(errors > MUTATIONS / 10); /* the rows were damaged, and read */

    forget_rows();
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, SEEDS, seed);
}
